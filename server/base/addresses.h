/* server/base/addresses.h: how many connections each address has, for the limit of them. */
#ifndef WEIR_SERVER_ADDRESSES_H
#define WEIR_SERVER_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/base/lock.h"
#include "kernel/queue/rbtree.h"
#include "protocol/field/peer.h"

/* Without connections it has no memory. */
struct weir__addresses {
        struct weir__lock lock; /* a leaf */
        struct weir__rbtree tree; /* of those that have a connection; guarded by lock */
};

/* Counts one more connection of the peer's address: of an IPv4 address, of the first 64 bits of an IPv6 one.  A peer without an
 * address is not counted, and always let in.
 *
 * Result:  false, and nothing is counted, when it has `max` of them, or when out of memory.
 * Threads: any. */
bool weir__addresses_enter(struct weir__addresses *addresses, const struct weir__peer *peer, size_t max);

/* Takes one that was let in back. */
void weir__addresses_leave(struct weir__addresses *addresses, const struct weir__peer *peer);

#endif
