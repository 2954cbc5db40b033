/* server/counts.h: what a server counts of its work, for whoever wants to watch it.
 *
 * Each shard has counts of its own, which the owner of its poller alone writes, without an atomic operation that would cost
 * something; who reads adds those of all shards up. */
#ifndef WEIR_SERVER_COUNTS_H
#define WEIR_SERVER_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/http_server.h>

#define WEIR__STATUS_LEAST 100
#define WEIR__STATUSES     500
#define WEIR__SERVER_NAME  160 /* bytes of the name of a server, with the NUL */

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

/* The place of a server among those that serve. */
struct weir__serving {
        weir_http_server *next;
        uint64_t number; /* in the order of their starts, from 1 on; 0: it does not serve */
        unsigned ordinal; /* among those that serve at the same address, from 1 on */
        char name[WEIR__SERVER_NAME];
};

/* By start and stop: its shards are there in between. */
void weir__serving_begins(weir_http_server *server);
void weir__serving_ends(weir_http_server *server);

/* What a server has counted until now. */
struct weir__server_report {
        struct weir__server_report *next;
        uint64_t number;
        char name[WEIR__SERVER_NAME + 16]; /* its first address, such as "127.0.0.1:8080" or "unix:/run/s"; unlike that of others */
        int64_t connections;
        int64_t counts[WEIR__COUNTS];
};

/* Of all that serve, in the order of their starts.
 *
 * Owner:  the caller: weir__server_reports_free.
 * Result: NULL also when there is none; *failed says -ENOMEM or 0. */
struct weir__server_report *weir__server_reports(int *failed);
void weir__server_reports_free(struct weir__server_report *reports); /* accepts NULL */

#endif
