/* server/listen/addresses.h: how many connections each address has, for the limit of them. */
#ifndef WEIR_SERVER_ADDRESSES_H
#define WEIR_SERVER_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/field/peer.h"

struct weir__addresses;

/* Owner:  the caller; weir__addresses_free, when all that were counted have left.
 * Result: NULL when out of memory. */
struct weir__addresses *weir__addresses_new(size_t max_connections);
void weir__addresses_free(struct weir__addresses *addresses); /* accepts NULL */

/* Counts one more connection of the peer's address: of an IPv4 address, of the first 64 bits of an IPv6 one.  What has no
 * address is not counted, and always let in.
 *
 * Result:  false, and nothing is counted, when it has `max` of them, or when out of memory.
 * Threads: any. */
bool weir__addresses_enter(struct weir__addresses *addresses, const struct weir__peer *peer, size_t max);

/* Takes one that was let in back. */
void weir__addresses_leave(struct weir__addresses *addresses, const struct weir__peer *peer);

size_t weir__addresses_count(struct weir__addresses *addresses); /* of those that have a connection */

#endif
