/* server/base/branch.h: the part of an HTTP server on one poller.
 *
 *     weir_http_server --- a branch for each poller --- its listeners, its connections --- at most one exchange each
 *
 * Branches and connections belong to the owner of their poller; the server is what the branches share. */
#ifndef WEIR_SERVER_BRANCH_H
#define WEIR_SERVER_BRANCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/http_server.h>

#include "kernel/base/list.h"
#include "net/listen/server.h"
#include "net/transport/handshake.h"
#include "protocol/text/date.h"
#include "server/base/shed.h"

/* -- counts --
 *
 * Each branch has counts of its own.  Only the owner of its poller writes them, so it needs no locked instruction.  A reader adds
 * up the counts of all branches. */

#define WEIR__STATUS_LEAST 100
#define WEIR__STATUSES     500

enum weir__count_kind {
        /* At present. */
        WEIR__COUNT_OPEN = 0,  /* connections; counted by the server, not by its branches */
        WEIR__COUNT_IDLE,      /* connections that wait for a request */
        WEIR__COUNT_EXCHANGES,

        /* Since the start. */
        WEIR__COUNT_ACCEPTED, /* connections */
        WEIR__COUNT_TURNED_AWAY,
        WEIR__COUNT_EVICTED,
        WEIR__COUNT_SHED,     /* requests */
        WEIR__COUNT_RECEIVED, /* bytes of HTTP, within TLS */
        WEIR__COUNT_SENT,
        WEIR__COUNT_HANDSHAKES,
        WEIR__COUNT_HANDSHAKES_FAILED,
        WEIR__COUNT_STATUS, /* replies with the status WEIR__STATUS_LEAST; behind it the other statuses */
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

static inline int64_t weir__counted(const struct weir__counts *counts, unsigned kind)
{
        return atomic_load_explicit(&counts->of[kind], memory_order_relaxed);
}

/* `status` is 100 to 599. */
static inline void weir__count_reply(struct weir__counts *counts, int status)
{
        weir__count(counts, WEIR__COUNT_STATUS + (unsigned)(status - WEIR__STATUS_LEAST), 1);
}

/* -- the branch -- */

struct weir__access;
struct weir__exchange_ops;

/* Owner of the poller only, except for atomic fields. */
struct weir__http_branch {
        struct weir__branch base; /* first */

        /* Constant. */
        weir_http_server *server; /* that of `base` */
        const struct weir__exchange_ops *exchange_ops; /* of its exchanges: the calls to rooms above theirs */
        struct weir__access *access; /* the server's, while it serves; NULL: there is no access log */

        struct weir__list connections;
        struct weir__list idle; /* connections that wait for a request; the first has waited longest */
        uint8_t turned_away;    /* connections of TLS that get a 503 after their handshake */

        struct weir__shed shed;
        struct weir__handshakes handshakes; /* a user of the server while their work is on its way */
        struct weir__counts counts;

        int64_t date_second; /* of `date` */
        char date[WEIR__HTTP_DATE_SIZE + 1];
};

static inline struct weir__http_branch *weir__http_branch_of(struct weir__branch *base)
{
        return (struct weir__http_branch *)base;
}

#define WEIR__COALESCING ((uint32_t)WEIR_MSEC(1)) /* the window, unless the program sets another one */

/* A reply was ready that long after its request; 0: at once, or unknown.  Owner only. */
void weir__coalescing_note_reply(struct weir__http_branch *branch, weir_nsec after);

#endif
