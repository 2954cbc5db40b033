/* server/base/counts.h: what a server counts of its work.
 *
 * Each shard has counts of its own.  Only the owner of its poller writes them, so it needs no locked instruction.  A reader
 * adds the counts of all shards up. */
#ifndef WEIR_SERVER_COUNTS_H
#define WEIR_SERVER_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/http_server.h>

#define WEIR__STATUS_LEAST 100
#define WEIR__STATUSES     500

enum weir__count_kind {
        WEIR__COUNT_IDLE = 0,  /* connections that wait for a request now */
        WEIR__COUNT_EXCHANGES, /* that there are now */

        /* From the start on. */
        WEIR__COUNT_ACCEPTED, /* connections */
        WEIR__COUNT_TURNED_AWAY,
        WEIR__COUNT_EVICTED,
        WEIR__COUNT_SHED,     /* requests */
        WEIR__COUNT_RECEIVED, /* bytes of HTTP, within TLS */
        WEIR__COUNT_SENT,
        WEIR__COUNT_HANDSHAKES,
        WEIR__COUNT_HANDSHAKES_FAILED,
        WEIR__COUNT_STATUS, /* replies with the status WEIR__STATUS_LEAST, and so on */
        WEIR__COUNTS = WEIR__COUNT_STATUS + WEIR__STATUSES,
};

/* Written by the owner of the poller, read by any thread; relaxed. */
struct weir__counts {
        _Atomic int64_t of[WEIR__COUNTS]; /* each enum weir__count_kind */
};

/* Owner only. */
static inline void weir__count(struct weir__counts *counts, unsigned kind, int64_t change)
{
        _Atomic int64_t *count = &counts->of[kind];

        atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + change, memory_order_relaxed);
}

/* With a status of three digits that begin with 1 to 5. */
static inline void weir__count_reply(struct weir__counts *counts, int status)
{
        weir__count(counts, WEIR__COUNT_STATUS + (unsigned)(status - WEIR__STATUS_LEAST), 1);
}

#endif
