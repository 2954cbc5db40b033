/* durable/engine/engine.h: what an engine of durable timers has to do.
 *
 * docs/decisions/901-durable-timers.md has the columns of a timer and the states.  The core makes operations and submits them.
 * An engine carries each of them out as one atomic step, writes the results into it, and ends it by weir__durable_op_end,
 * once, on any thread.  Operations of one store that overlap in time may be carried out in any order. */
#ifndef WEIR_DURABLE_ENGINE_H
#define WEIR_DURABLE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/durable.h>

enum weir__durable_kind {
        WEIR__DURABLE_SET,      /* name, topic, payload, cron, zone, policy, at, is_relative, keeps_same -> generation, ready */
        WEIR__DURABLE_CANCEL,   /* name -> is_done: pending with attempt 0, and deleted; generation */
        WEIR__DURABLE_EXTEND,   /* name, at, is_relative -> is_done, ready, the row; only if pending with attempt 0 */
        WEIR__DURABLE_PUT_BACK, /* name -> is_done, ready, the row; only if dead: a new generation */
        WEIR__DURABLE_FORGET,   /* name -> is_done, generation; only if dead */
        WEIR__DURABLE_GET,      /* name -> a row or none */
        WEIR__DURABLE_LIST,     /* prefix, behind, most, only_dead -> rows in the order of their names; by_ready -> see there */
        WEIR__DURABLE_COUNT,    /* prefix -> counts */
        WEIR__DURABLE_CLAIM,    /* topics, most, lease -> rows as they are after the claim, next */
        WEIR__DURABLE_END,      /* name, token, outcome, at, problem -> is_done: leased with that token; ready */
        WEIR__DURABLE_RENEW,    /* claims, lease -> is_held of each */
};

/* What the end of a delivery does to its row. */
enum weir__durable_outcome {
        WEIR__DURABLE_ACKNOWLEDGE, /* deleted */
        WEIR__DURABLE_MOVE_ON,     /* of a schedule: a new generation, pending, due and ready at `at`, attempt 0, token 0, with
                                      `problem` */
        WEIR__DURABLE_RETRY,       /* pending, ready `at` from now, with `problem` */
        WEIR__DURABLE_MARK_DEAD,   /* with `problem` */
        WEIR__DURABLE_GIVE_BACK,   /* pending, ready now, attempt - 1 */
};

/* A timer in memory of its own. */
struct weir__durable_row {
        struct weir_durable_info info;
        char text[];
};

struct weir__durable_claim {
        const char *name;
        uint64_t token;
        void *delivery; /* the core's */
        bool is_held;
};

struct weir__durable_op {
        struct weir__durable_op *next;                /* in a queue of the engine */
        size_t claims_done;                           /* the engine's: how many claims of a renewal it has dealt with */
        weir_durable *store;                          /* NULL: the task is refused */
        void (*ended)(struct weir__durable_op *op);   /* the core's: takes the operation back */
        weir_task *promise;                           /* the core's */
        void *owner;                                  /* the core's */
        weir_nsec sent;                               /* the core's: when it was submitted, on the clock of weir_now */
        int fault;                                    /* the core's: it was made wrongly */
        _Atomic bool is_over;                         /* the core's: `status` and `reason` are the last ones */

        /* Arguments. */
        enum weir__durable_kind kind;
        enum weir__durable_outcome outcome;
        const char *name, *topic, *cron, *zone; /* cron and zone: "" for none */
        const char *prefix, *behind;            /* behind: "" is before all */
        const char *problem;
        const char *node;
        const void *payload;
        size_t payload_size;
        enum weir_durable_missed_policy policy;
        bool is_relative;   /* `at` counts from the time of the engine */
        bool keeps_same;    /* a row with the same cron, zone, policy, topic and payload stays as it is */
        bool only_dead;
        bool is_summary;    /* of a list: the rows may have no payload */
        bool by_ready;      /* of a list, if the engine lists_by_ready: those that are not dead, in the order of `ready` */
        weir_nsec at, lease;
        uint64_t token;
        size_t most;
        const char **topics;
        size_t topic_count;
        struct weir__durable_claim *claims;
        size_t claim_count;
        weir_nsec as_if_now; /* for tests: the time, for an engine that has one of its own; 0: what it says itself */

        /* Results, besides the rows. */
        int status;
        bool is_done;
        bool is_earliest;    /* the new row is the first one of its topic: others must be woken */
        weir_nsec now;       /* the time of the engine, always if the status is 0 */
        weir_nsec ready;     /* of the row that was set */
        weir_nsec next_ready; /* the earliest one that a claim has left; WEIR_FOREVER: none */
        uint64_t generation;
        uint64_t counts[3];  /* by state */
        struct weir__durable_row **rows;
        size_t row_count, row_room;
        char reason[200];    /* in the engine's words; "": none */
        char text[];         /* of the arguments */
};

struct weir__durable_engine;

/* An engine.  `open` gets the URL behind the scheme; with `takes`, all of it. */
struct weir__durable_engine_kind {
        const char *scheme;
        bool (*takes)(const char *url); /* of an engine with several schemes, else NULL: whether the URL is one of them */

        /* Result: NULL with errno.  Never blocks. */
        struct weir__durable_engine *(*open)(const char *where, weir_durable *store);

        /* Never blocks, and does not end the operation on the caller's stack. */
        void (*submit)(struct weir__durable_engine *engine, struct weir__durable_op *op);

        /* The node has a handler: from now on the engine calls weir__durable_ring when another node has set an earliest timer.
         * What is not possible now is tried again with each claim. */
        void (*attend)(struct weir__durable_engine *engine);

        /* No ring begins any more.  It may be called several times, on any thread. */
        void (*neglect)(struct weir__durable_engine *engine);

        /* All operations have ended, and no ring is on its way. */
        void (*free)(struct weir__durable_engine *engine);

        /* Lists in the order of `ready`, at the cost of the rows that it returns. */
        bool lists_by_ready;
};

struct weir__durable_engine {
        const struct weir__durable_engine_kind *kind;
        weir_durable *store;
};

extern const struct weir__durable_engine_kind weir__durable_memory, weir__durable_sqlite;
extern const struct weir__durable_engine_kind weir__durable_pq, weir__durable_redis; /* with WEIR_HAS_PQ, WEIR_HAS_REDIS */

/* -- for engines -- */

/* A row with copies of the texts and the payload; NULL: no memory.  free frees it. */
struct weir__durable_row *weir__durable_row_new(const struct weir_durable_info *info);

/* Adds a row to the results; the texts are copied.  Result: 0 or -ENOMEM. */
int weir__durable_op_add(struct weir__durable_op *op, const struct weir_durable_info *info);

/* Adds a row to those in the order of `ready`, if it is among the first op->most.  One that never comes is not. */
int weir__durable_op_add_by_ready(struct weir__durable_op *op, const struct weir_durable_info *info);

/* Drops the rows, for an operation that is tried again. */
void weir__durable_op_clear(struct weir__durable_op *op);

/* Ends an operation.  It belongs to the core afterwards.  -ENOENT, of a file, a host or a database, becomes -ECONNREFUSED. */
void weir__durable_op_end(struct weir__durable_op *op, int status);

/* Another node has set a timer that may be the earliest one. */
void weir__durable_ring(weir_durable *store);

/* While something of an engine runs by itself it has a reference. */
weir_durable *weir__durable_ref(weir_durable *store);
void weir__durable_unref(weir_durable *store);

/* A sum that saturates. */
static inline weir_nsec
weir__durable_add(weir_nsec a, weir_nsec b)
{
        weir_nsec sum;

        return !__builtin_add_overflow(a, b, &sum) ? sum : a > 0 ? WEIR_FOREVER : -WEIR_FOREVER;
}

#endif
