/* net/listen/addresses.h: counts the connections of each address, for their limit. */
#ifndef WEIR_NET_ADDRESSES_H
#define WEIR_NET_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/base/lock.h"
#include "kernel/queue/rbtree.h"
#include "protocol/field/peer.h"

/* Without connections it holds no memory. */
struct weir__addresses {
        struct weir__lock lock; /* a leaf */
        struct weir__rbtree tree; /* of the addresses that have a connection; guarded by lock */
};

/* Counts one more connection of the peer's address.  An address is an IPv4 address, or the first 64 bits of an IPv6 address.  A
 * peer without an address is let in and not counted.
 *
 * Result:  false when the address has `max` connections, or when out of memory; nothing is counted then.
 * Threads: any. */
bool weir__addresses_enter(struct weir__addresses *addresses, const struct weir__peer *peer, size_t max);

/* Counts one connection less: one that was let in has ended. */
void weir__addresses_leave(struct weir__addresses *addresses, const struct weir__peer *peer);

#endif
