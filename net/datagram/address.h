/* net/datagram/address.h: addresses of datagrams. */
#ifndef WEIR_NET_DATAGRAM_ADDRESS_H
#define WEIR_NET_DATAGRAM_ADDRESS_H

#include <stdbool.h>

#include <weir/udp.h>

#include "kernel/socket/address.h"

/* Size 0 for the address of a Unix socket that has no name. */
void weir__udp_address_set(struct weir_udp_address *address, const struct weir__socket_address *from);

/* As weir_udp_address_read; the log names `call` and the reason. */
int weir__udp_address_parse(struct weir_udp_address *address, const char *text, const char *call);

/* Whether its size fits its family, which is one that we know. */
bool weir__udp_address_is_valid(const struct weir_udp_address *address);

#endif
