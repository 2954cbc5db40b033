/* durable/store.h: a store, and what its parts share.
 *
 *   op.c          the memory of operations and rows
 *   request.c     operations of the program: tasks and their getters
 *   missed.c      due times of schedules
 *   node.c        looks for due timers, and the alarm for the next look
 *   delivery.c    handlers, and their ends
 *   lease.c       the deliveries that run, and the renewals of their leases
 *   store.c       open and close
 *   figures.c     what stores count, also as text
 *   page.c        the page of a store, for a browser
 *   batch.c       for engines: operations that gather, and are carried out together */
#ifndef WEIR_DURABLE_STORE_H
#define WEIR_DURABLE_STORE_H

#include <pthread.h>

#include <weir/timer.h>
#include <weir/waitgroup.h>

#include "database/figures.h"
#include "durable/engine/engine.h"

struct weir__durable_topic {
        struct weir__durable_topic *next;
        weir_task_fn *handler;
        void *context;
        char name[];
};

struct weir__durable_delivery;

struct weir_durable {
        /* Constant after creation. */
        struct weir_durable_config config;
        struct weir__durable_engine *engine;
        weir_waitgroup *group; /* operations, looks and deliveries that have not ended */
        char node[128];
        char *name; /* the URL without its secrets */

        _Atomic unsigned references;

        /* Guarded by `lock`. */
        pthread_mutex_t lock;
        bool is_closing;
        weir_nsec patience; /* of a close, on the clock of weir_now */
        struct weir__durable_topic *topics; /* they stay until the store is freed */
        size_t topic_count;
        struct weir__durable_delivery *deliveries; /* those that run */
        unsigned running;

        /* Guarded by `lock`: the look for due timers.  At most one is under way. */
        bool is_looking;
        bool should_look_again; /* something may have become due since the look began */
        bool is_full;           /* timers may be due for which there was no room */
        weir_nsec wanted;       /* during a look: the earliest due time that sets have brought, on the clock of weir_now */

        /* Guarded by `lock`: the alarm for the next look, and the one that renews leases. */
        bool has_alarm;
        weir_timer_id alarm; /* a ticker; 0: not yet */
        weir_nsec alarm_at;  /* when its next tick comes, at the latest, on the clock of weir_now */
        bool has_renewal;
        weir_timer_id renewal;

        /* Guarded by `lock`: figures, but for `running`. */
        struct weir_durable_stats stats;

        struct weir__figured figured; /* among those of all stores */
};

/* -- op.c -- */

/* An operation with copies of texts, up to the first that is NULL. */
struct weir__durable_texts {
        const char *name, *topic, *cron, *zone, *prefix, *behind, *problem;
        const void *payload;
        size_t payload_size;
};

struct weir__durable_op *weir__durable_op_new(enum weir__durable_kind kind, const struct weir__durable_texts *texts);
void weir__durable_op_free(void *op);

/* Hands an operation to the engine.  It counts in the group until it is freed or its `ended` has returned. */
void weir__durable_submit(weir_durable *store, struct weir__durable_op *op);

/* -- request.c -- */

/* A list without payloads, for people: of the dead timers by name, or of the others in the order of `ready`, if the engine has
 * that, otherwise all of them by name. */
weir_task *weir__durable_summary_new(weir_durable *store, size_t most, bool only_dead, weir_task_fn *done, void *context);

/* The operation of such a task.  What the engine writes may be read if the status of the task is 0. */
const struct weir__durable_op *weir__durable_op_of(const weir_task *task);

/* -- missed.c -- */

/* What a claim of a schedule stands for. */
struct weir__durable_due {
        bool is_skipped;  /* it was missed: no handler */
        weir_nsec due;    /* what the handler is told */
        weir_nsec next;   /* the due time that follows */
        unsigned missed;  /* 256 at most */
};

/* Result: 0, or an error of weir_ticker_next. */
int weir__durable_decide(const struct weir_durable_info *info, weir_nsec now, weir_nsec limit, struct weir__durable_due *due);

/* -- figures.c -- */

/* A store whose figures are written from now on, or not any more.  Result: 0 or -ENOMEM. */
int weir__durable_count_on(weir_durable *store, const char *url);
void weir__durable_count_off(weir_durable *store); /* also if it was not on */

/* -- node.c -- */

void weir__durable_look(weir_durable *store);

/* A timer of a topic is ready `after` from now. */
void weir__durable_expect(weir_durable *store, const char *topic, weir_nsec after);

/* -- delivery.c -- */

/* Takes over the rows of a claim that was sent at `sent`.  They count as running. */
void weir__durable_deliver(weir_durable *store, struct weir__durable_op *claim);

const struct weir_durable_info *weir__durable_delivered(const weir_task *task);

/* -- lease.c -- */

/* Cancels the flows of all handlers. */
void weir__durable_cancel_all(weir_durable *store);

#endif
