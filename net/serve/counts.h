/* net/serve/counts.h: what a server of streams counts.
 *
 * Each branch has counts of its own.  Only the owner of its poller writes them, so it needs no locked instruction.  A reader adds
 * up the counts of all branches.  Bytes are added up when a connection closes: so a read and a write cost nothing more. */
#ifndef WEIR_NET_COUNTS_H
#define WEIR_NET_COUNTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "net/listen/serving.h"

enum weir__stream_count {
        WEIR__STREAM_OPEN = 0, /* connections; counted by the server, not by its branches */

        /* Since the start. */
        WEIR__STREAM_ACCEPTED,         /* connections */
        WEIR__STREAM_REFUSED_ADDRESS,  /* of these: their address has as many as it may have */
        WEIR__STREAM_REFUSED_SHORTAGE, /* of these: there was no memory, or no room in the poller */
        WEIR__STREAM_LATE_HANDSHAKE,   /* connections that a limit has ended, by the limit */
        WEIR__STREAM_LATE_WRITE,
        WEIR__STREAM_LATE_IDLE,
        WEIR__STREAM_HANDSHAKES,
        WEIR__STREAM_HANDSHAKES_FAILED,
        WEIR__STREAM_RECEIVED, /* bytes of connections that are closed, within TLS */
        WEIR__STREAM_SENT,
        WEIR__STREAM_COUNTS,
};

/* Written by the owner of the poller, read by any thread; relaxed. */
struct weir__stream_counts {
        _Atomic int64_t of[WEIR__STREAM_COUNTS]; /* each enum weir__stream_count */
};

/* Owner only. */
static inline void weir__stream_count(struct weir__stream_counts *counts, enum weir__stream_count kind, uint64_t change)
{
        _Atomic int64_t *count = &counts->of[kind];

        atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + (int64_t)change, memory_order_relaxed);
}

/* The counts of a server. */
struct weir__stream_report {
        char name[WEIR__SERVING_NAME]; /* weir__serving_write_name */
        int64_t counts[WEIR__STREAM_COUNTS];
};

/* Reports on the servers of streams that serve, in the order of their starts.  One that starts during the call may be missing.
 * Any thread.
 *
 * Owner:  the caller: free.
 * Result: an array of *ret_count reports; NULL when out of memory. */
struct weir__stream_report *weir__stream_reports(size_t *ret_count);

#endif
