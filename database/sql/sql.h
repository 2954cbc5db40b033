/* database/sql/sql.h: what the libraries of servers that speak SQL share: database/pq and database/mariadb.
 *
 *     handle.c     pools and transactions: their references, and the queries that they have
 *     after.c      what is done when no lock is held
 *     promise.c    queries as tasks
 *     flow.c       transactions as flows
 *     timer.c      the timer of a pool
 *
 * Which connection gets which query, and how, is each library's own.
 *
 * A pool of a library (struct weir_pq) begins with a struct weir__sql_pool, and its query with a struct weir__sql_query.  What
 * differs is a struct weir__sql_kind.  Each library compiles these files for itself.  A program that links two of the libraries
 * statically has them once, so there is no state in them.
 *
 * A transaction has a handle, which is a struct weir__sql_pool without connections.  Its lock is that of its pool.
 *
 * Locks: the pool's.  No code of the program runs under it.  What follows from a change (ends of tasks, messages to the log) is
 * noted in a struct weir__sql_after, and done when no lock is held. */
#ifndef WEIR_DATABASE_SQL_SQL_H
#define WEIR_DATABASE_SQL_SQL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/channel.h>
#include <weir/promise.h>
#include <weir/timer.h>

#include "database/figures.h"

struct weir__sql_pool;
struct weir__sql_query;

/* -- what is done when no lock is held -- */

struct weir__sql_note {
        struct weir__sql_note *next;
        char text[];
};

struct weir__sql_after {
        struct weir__sql_query *ended;     /* by `next` */
        struct weir__sql_query **ended_at; /* the end of that list; NULL: it is empty */
        struct weir__sql_note *notes;      /* for the log, the newest first */
};

/* A message for the log. */
void weir__sql_after_say(struct weir__sql_after *after, const char *format, ...) __attribute__((format(printf, 2, 3)));

void weir__sql_after(struct weir__sql_after *after);

/* -- what a library gives -- */

/* What a library gives.  No lock is held in its functions, unless they say so. */
struct weir__sql_kind {
        const char *begin; /* the first statement of a transaction */
        size_t size;       /* of its pool */
        struct weir__figures *figures; /* of all its pools */

        /* The last user of a pool is gone: closes it, and drops the reference of the users. */
        void (*end)(struct weir__sql_pool *pool);

        /* Frees what the library has added to a pool. */
        void (*free)(struct weir__sql_pool *pool);

        /* The timer of a pool has ended. */
        void (*look)(struct weir__sql_pool *pool);

        /* A query, or the lease of a connection; `where` may be NULL. */
        weir_task *(*make)(struct weir__sql_pool *where, bool is_lease, const char *sql, weir_task_fn *done, void *context);

        void (*begin_query)(struct weir__sql_query *query);
        void (*cancel_query)(struct weir__sql_query *query, int status);
        void (*close_channels)(struct weir__sql_query *query);
        void (*end_query)(struct weir__sql_query *query); /* finishes the promise */
        void (*free_query)(struct weir__sql_query *query);

        /* A query has that outcome.  Returns the problem that it has then.  Under the pool's lock, or before the start. */
        const char *(*over)(struct weir__sql_query *query, int status, const char *problem);

        /* The public function. */
        const char *(*problem)(const weir_task *query);

        /* Calls the function of the program, which pushes the steps of a transaction. */
        void (*push_steps)(void (*steps)(void), struct weir__sql_pool *handle, weir_series *series, void *context);

        /* The steps are over: 0, or the status with which there is a ROLLBACK instead of a COMMIT.  NULL: there never is. */
        int (*check)(struct weir__sql_pool *handle, const char **ret_problem);

        /* The status behind COMMIT; *ret_is_known: there was an answer. */
        int (*judge)(weir_task *commit, bool *ret_is_known, const char **ret_problem);

        /* A transaction is over: gives its connection back. */
        void (*release)(struct weir__sql_pool *handle);
};

/* -- queries -- */

enum weir__sql_state {
        WEIR__SQL_MADE = 0,
        WEIR__SQL_WAITING, /* for a connection */
        WEIR__SQL_SENT,    /* it belongs to a connection */
        WEIR__SQL_OVER,
};

struct weir__sql_query {
        /* Constant from the start on. */
        const struct weir__sql_kind *kind;
        weir_task *task;               /* a reference; NULL: it was not started */
        struct weir__sql_pool *where;  /* the pool or the transaction, a reference of the user sort; NULL: it is refused */
        struct weir__sql_pool *holder; /* of a lease: the transaction that wants the connection */
        const char *sql;               /* behind the library's struct; NULL: none */
        size_t sql_size;               /* with the NUL */
        weir_nsec limit;
        int fault; /* a setter has failed */
        bool is_commit;

        /* Guarded by the pool's lock. */
        enum weir__sql_state state;
        struct weir__sql_query *next, *previous; /* in a list; behind OVER in a struct weir__sql_after */
        weir_nsec began, deadline;
        _Atomic bool is_given_up; /* by a cancel or a limit; may be read without the lock */
        bool is_held;             /* a COMMIT that was sent: cancels wait for its end */
        _Atomic bool is_sent;     /* as `state`, for dumps, which take no lock */
        char *late;               /* where it was when it was given up; the callback's from then on */
};

/* A query of that kind; NULL for another task. */
struct weir__sql_query *weir__sql_query_of(const weir_task *task, const struct weir__sql_kind *kind);

/* Makes the task of a query, whose struct of that size is zero but for the first part.  NULL when out of memory. */
struct weir__sql_query *weir__sql_query_new(const struct weir__sql_kind *kind, size_t size, struct weir__sql_pool *where,
                                            const char *sql, bool needs_sql);
weir_task *weir__sql_query_task(struct weir__sql_query *query, weir_task_fn *done, void *context);

/* Keeps the first fault, and returns this one. */
int weir__sql_query_fail(struct weir__sql_query *query, int fault);

/* A task that cannot have what it was given.  Returns -EINVAL, which is also the fault of a query of that kind. */
int weir__sql_query_refuse(const weir_task *task, const struct weir__sql_kind *kind);

/* 0; -EINVAL: there is no query, it was started, or that is no limit. */
int weir__sql_query_set_limit(struct weir__sql_query *query, weir_nsec limit);

/* Ends the task of a query, which is OVER, and drops the reference that its begin got.  No lock is held. */
void weir__sql_query_end(struct weir__sql_query *query);

/* -- pools -- */

struct weir__sql_list {
        struct weir__sql_query *first, *last;
        unsigned length;
};

enum weir__sql_commit { WEIR__SQL_NOT_COMMITTED = 0, WEIR__SQL_COMMIT_SENT, WEIR__SQL_COMMITTED };

struct weir__sql_pool {
        /* Constant. */
        const struct weir__sql_kind *kind;
        struct weir__sql_pool *pool; /* the pool; of a transaction its pool, with a reference of the user sort */
        char *name;
        weir_nsec limit; /* of queries */
        int pid;

        _Atomic unsigned users;      /* references of the program and of tasks; at 0 it closes */
        _Atomic unsigned references; /* all users together have one; each connection and the timer have one */

        pthread_mutex_t lock;

        /* Guarded by lock. */
        bool is_closed;
        struct weir__sql_list waiting; /* of a transaction: those that wait for its connection */
        struct weir__sql_list sent;
        unsigned link_count, connecting, idle_count;
        weir_nsec not_before; /* no attempt to connect before that */
        weir_nsec pause;      /* the next one after a failure */
        weir_nsec refused_at; /* when the last one has begun */
        weir_timer_id timer;  /* 0: none is set */
        weir_nsec timer_due;
        uint64_t queries, failed, cancelled, connects, refused, lost;
        weir_nsec waited;

        /* Of a transaction; guarded by the pool's lock. */
        bool is_lost; /* the connection broke */
        enum weir__sql_commit commit;
        char *problem; /* of the first of its queries that has failed */

        struct weir__figured figured; /* among those of all pools */

        /* For dumps, which take no lock. */
        _Atomic unsigned busy_now, waiting_now;
};

/* Begins a pool, all of whose memory is zero, and which is the kind's `free` from then on.  0 or -ENOMEM. */
int weir__sql_pool_init(struct weir__sql_pool *pool, const struct weir__sql_kind *kind, const char *name, weir_nsec limit);

struct weir__sql_pool *weir__sql_ref_user(struct weir__sql_pool *pool);
void weir__sql_unref_user(struct weir__sql_pool *pool);
void weir__sql_ref_memory(struct weir__sql_pool *pool);
void weir__sql_unref_memory(struct weir__sql_pool *pool);

/* Lets the pool's lock go. */
void weir__sql_unlock(struct weir__sql_pool *pool);

/* All of these under the pool's lock. */

void weir__sql_enqueue(struct weir__sql_list *list, struct weir__sql_query *query);

/* Connections that are neither idle nor being made. */
unsigned weir__sql_busy(const struct weir__sql_pool *pool);

/* Before a query waits: whether its pool is closed, or its transaction over.  It is over then. */
bool weir__sql_refuse(struct weir__sql_query *query, bool is_leased, struct weir__sql_after *after);

/* It has its outcome: its task is to be ended.  The text is copied; NULL: none.  Also without the lock, before the start. */
const char *weir__sql_over(struct weir__sql_query *query, int status, const char *problem, struct weir__sql_after *after);

/* A connection has the query, which may wait in a list. */
void weir__sql_send(struct weir__sql_query *query, bool is_lease, weir_nsec now);

/* A query that was sent has its outcome. */
void weir__sql_finish(struct weir__sql_query *query, int status, const char *problem, struct weir__sql_after *after);

/* A query that was sent has not reached the server.  Returns whether it waits again, as the first; else it is over. */
bool weir__sql_take_back(struct weir__sql_query *query, struct weir__sql_after *after);

/* Nobody waits for the query any more.  Returns whether a connection has it; else it is over. */
bool weir__sql_give_up(struct weir__sql_query *query, int status, struct weir__sql_after *after);

/* Ends all that have waited in the list since before that instant.  Returns how many. */
unsigned weir__sql_end_waiting(struct weir__sql_list *list, weir_nsec since, int status, const char *problem,
                               struct weir__sql_after *after);

/* COMMIT is about to be sent.  Returns 0, or -ECANCELED: it should not be. */
int weir__sql_hold(struct weir__sql_query *query);

/* An attempt to connect that began at `made` has failed: the next one waits, longer each time.  Of several that were under way
 * together the first failure counts. */
void weir__sql_was_refused(struct weir__sql_pool *pool, weir_nsec made);

/* One has not. */
void weir__sql_was_connected(struct weir__sql_pool *pool);

/* A connection that worked is gone, or connects anew.  If it was the last one the next attempt does not wait: what has failed
 * since were attempts to have more. */
void weir__sql_was_used_up(struct weir__sql_pool *pool);

/* Keeps the first problem of a transaction.  Accepts NULL. */
void weir__sql_note_problem(struct weir__sql_pool *handle, const char *problem);

/* -- limits -- */

#define WEIR__SQL_HELD_LOOK WEIR_SEC(1) /* between looks whether a COMMIT that was sent is cancelled */

static inline weir_nsec
weir__sql_earlier(weir_nsec one, weir_nsec other)
{
        return one < other ? one : other;
}

/* The instant `by` later, at most WEIR_FOREVER. */
static inline weir_nsec
weir__sql_later(weir_nsec instant, weir_nsec by)
{
        return by >= WEIR_FOREVER - instant ? WEIR_FOREVER : instant + by;
}

/* Sees to it that the pool looks at its limits at that instant.  Under the pool's lock. */
void weir__sql_look_at(struct weir__sql_pool *pool, weir_nsec instant);

/* A query of the list that is too late; NULL: there is none.  Lowers *next to the instant of the next look.  Under the pool's
 * lock. */
struct weir__sql_query *weir__sql_find_late(const struct weir__sql_list *list, weir_nsec now, weir_nsec *next);

/* The status with which a query ends that is too late. */
int weir__sql_late_status(const struct weir__sql_query *query);

/* -- figures: those that all pools have, in the library's struct of stats -- */

#define WEIR__SQL_FIGURES(stats)                                                                                                 \
        {"connections", "Connections that are open, or being made.", WEIR__FIGURE_UNSIGNED, offsetof(stats, connections)},       \
        {"connecting", "Connections that are being made.", WEIR__FIGURE_UNSIGNED, offsetof(stats, connecting)},                  \
        {"idle", "Connections that are idle.", WEIR__FIGURE_UNSIGNED, offsetof(stats, idle)},                                    \
        {"busy", "Connections that are in use.", WEIR__FIGURE_UNSIGNED, offsetof(stats, busy)},                                  \
        {"waiting", "Queries and transactions that wait for a connection.", WEIR__FIGURE_UNSIGNED, offsetof(stats, waiting)},    \
        {"queries_total", "Queries that were sent.", WEIR__FIGURE_COUNT, offsetof(stats, queries)},                              \
        {"failed_total", "Queries that have failed.", WEIR__FIGURE_COUNT, offsetof(stats, failed)},                              \
        {"cancelled_total", "Queries whose flow was over first.", WEIR__FIGURE_COUNT, offsetof(stats, cancelled)},               \
        {"connects_total", "Connections that were made.", WEIR__FIGURE_COUNT, offsetof(stats, connects)},                        \
        {"refused_total", "Attempts that made no connection.", WEIR__FIGURE_COUNT, offsetof(stats, refused)},                    \
        {"waited_seconds_total", "Time that queries waited for connections.", WEIR__FIGURE_TIME, offsetof(stats, waited)}

/* -- transactions -- */

struct weir__sql_plan {
        void (*steps)(void); /* NULL: the task is refused */
        const char *begin;   /* NULL: the kind's */
        unsigned attempts;
        weir_nsec delay;
};

weir_task *weir__sql_transaction_new(struct weir__sql_pool *pool, const struct weir__sql_plan *plan, weir_task_fn *done,
                                     void *context);

/* As weir_pq_transaction_committed and weir_pq_transaction_problem. */
int weir__sql_transaction_committed(const struct weir__sql_pool *transaction);
const char *weir__sql_transaction_problem(const struct weir__sql_pool *transaction);

/* The handle of a transaction; NULL when out of memory. */
struct weir__sql_pool *weir__sql_handle_new(struct weir__sql_pool *pool);

/* A task that ends with that status. */
weir_task *weir__sql_failing_new(int status, weir_task_fn *done, void *context);

/* Fails the series of a task. */
void weir__sql_fail_series(weir_task *task, int status);

/* Makes a series of what the function pushes, which stops at the first failure.  NULL when out of memory. */
weir_series *weir__sql_steps_new(struct weir__sql_pool *handle, void (*steps)(void), void *context);

#endif
