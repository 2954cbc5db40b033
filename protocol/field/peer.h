/* protocol/field/peer.h: addresses of peers, in a compact form.  Pure functions. */
#ifndef WEIR_PROTOCOL_PEER_H
#define WEIR_PROTOCOL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum weir__peer_family {
        WEIR__PEER_UNKNOWN = 0,
        WEIR__PEER_UNIX,
        WEIR__PEER_V4, /* kept as the IPv6 address that stands for it */
        WEIR__PEER_V6, /* of all others */
};

struct weir__peer {
        uint8_t address[16]; /* in the order of the wire */
        uint16_t port;
        uint8_t family; /* enum weir__peer_family */
};

#define WEIR__PEER_ROOM 56 /* of its text: "[", 45 characters, "]:", a port, and a NUL */

/* The peer of an address from accept or getsockname. */
struct weir__peer weir__peer_of(const struct sockaddr_storage *address, socklen_t size);

/* Reads an address as weir_http_client_address shows it, IPv6 in any notation.  Returns false for an invalid one. */
bool weir__peer_read(struct weir__peer *peer, const char *text, size_t size);

/* Writes it, NUL-terminated: "192.0.2.1", "2001:db8::1", "unix:"; with `has_port` "192.0.2.1:80", "[2001:db8::1]:80";
 * "unknown". */
void weir__peer_write(const struct weir__peer *peer, bool has_port, char out[WEIR__PEER_ROOM]);

#endif
