/* protocol/field/forwarded.h: whom a request comes from that trusted proxies have passed on.  No I/O. */
#ifndef WEIR_PROTOCOL_FORWARDED_H
#define WEIR_PROTOCOL_FORWARDED_H

#include "protocol/field/peer.h"
#include "protocol/message/request.h"

struct weir__proxies; /* constant; NULL: none is trusted */

/* Reads a list of addresses, networks ("10.0.0.0/8", "fd00::/8") and "unix:" between commas.  `field` is the name of the field
 * in which they say whom they speak for; NULL: X-Forwarded-For.  Forwarded has the grammar of RFC 7239, every other one is a
 * list of addresses.
 *
 * Owner:  the caller; free.
 * Result: 0, and NULL for an empty list or none; -EINVAL when it is none, a network has bits behind its prefix, or the field's
 *         name is no token; -ENOMEM. */
int weir__proxies_new(const char *list, const char *field, struct weir__proxies **ret_proxies);

const char *weir__proxies_field(const struct weir__proxies *proxies); /* the name of that field; NULL for NULL */

bool weir__proxies_have(const struct weir__proxies *proxies, const struct weir__peer *peer);

/* The peer, or, as long as that is a trusted proxy, whom it names: from the end of the field's last line on. */
struct weir__peer weir__forwarded_client(const struct weir__proxies *proxies, const struct weir__request *request,
                                         const struct weir__peer *peer);

#endif
