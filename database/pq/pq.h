/* database/pq/pq.h: what the files of this folder share.
 *
 * A pool (struct weir_pq) has links, which are connections, and a list of queries that wait for one.  A query is a task that the
 * pool knows from its start on.  What it has in common with MariaDB is in database/sql/: queries as tasks, transactions as flows,
 * lists, figures as text.
 *
 *     query:  MADE --start--> WAITING --a link is free--> SENT --the server has answered--> OVER
 *                \               \                          \--cancel, limit--> SENT and abandoned --> OVER
 *                 \               '--cancel, limit, close, no connection--> OVER
 *                  '--dismissed
 *
 *     link:   CONNECTING --> READY: idle, or with queries, or held by a transaction, or being cleaned --> DEAD
 *
 * Locks: that of a link, and under it that of the pool.  No user code runs under them.  What follows from a change (ends of
 * tasks, messages to the log, the last references) is noted in a struct weir__pq_after and done when no lock is held. */
#ifndef WEIR_DATABASE_PQ_PQ_H
#define WEIR_DATABASE_PQ_PQ_H

#include <libpq-fe.h>

#include "database/sql/sql.h"
#include <weir/fd.h>
#include <weir/pq.h>

struct weir__pq_link;
struct weir__pq_query;

/* -- what is done when no lock is held -- */

struct weir__pq_after {
        struct weir__sql_after base;
        weir_pq *pool; /* that may need more links, with a reference to its memory */
};

void weir__pq_after_make_links(struct weir__pq_after *after, weir_pq *pool);

void weir__pq_after(struct weir__pq_after *after);

/* -- queries -- */

enum weir__pq_kind {
        WEIR__PQ_STATEMENT = 0,
        WEIR__PQ_STREAM, /* a statement with channels */
        WEIR__PQ_SCRIPT,
        WEIR__PQ_LEASE, /* of a transaction: it wants a link for itself */
};

extern const struct weir__sql_kind weir__pq_kind;
extern struct weir__figures weir__pq_figures;

enum weir__pq_stage { WEIR__PQ_EXECUTE = 0, WEIR__PQ_PREPARE, WEIR__PQ_DEALLOCATE };

struct weir__pq_outcome {
        int status;
        PGresult *result; /* or NULL */
        PGresult *rows;   /* those of a pool with bounds, which came one by one; or NULL: they are in the result */
        size_t row_count; /* of them: a row without columns leaves no trace in them */
        size_t bytes;     /* that they use */
        char *problem;    /* or NULL */
};

#define WEIR__PQ_FEW   4  /* parameters for which a query has room in itself */
#define WEIR__PQ_SHORT 48 /* bytes of them, each with its NUL */

struct weir__pq_query {
        struct weir__sql_query base; /* first */

        /* Constant from the start on. */
        enum weir__pq_kind kind;
        bool is_prepared, is_binary;
        int count, room; /* of the parameters */
        char **values;   /* these are `few` as long as there is room in it */
        Oid *types;
        int *sizes, *formats;
        struct {
                char *values[WEIR__PQ_FEW];
                Oid types[WEIR__PQ_FEW];
                int sizes[WEIR__PQ_FEW], formats[WEIR__PQ_FEW];
                char bytes[WEIR__PQ_SHORT];
                size_t used; /* of the bytes */
        } few;
        weir_channel *rows, *input; /* references; NULL: none */

        /* Guarded by the pool's lock. */
        struct weir__pq_link *link; /* that it was sent by, with a reference */

        /* Guarded by the lock of its link. */
        struct weir__pq_query *behind;   /* in the queue of the link */
        enum weir__pq_stage stage;       /* what was sent last; in a pipeline all at once */
        unsigned due;                    /* results that are to come, by what was sent; for a pipeline */
        unsigned statement;              /* its number, if it is prepared */
        bool was_repeated;               /* its plan was outdated */
        struct weir__pq_outcome outcome; /* then the task's value */
};

/* The query that the list has, or NULL. */
static inline struct weir__pq_query *
weir__pq_of(struct weir__sql_query *query)
{
        return (struct weir__pq_query *)query;
}

/* NULL for another task. */
static inline struct weir__pq_query *
weir__pq_query_of(const weir_task *task)
{
        return weir__pq_of(weir__sql_query_of(task, &weir__pq_kind));
}

/* -- the kind; no lock is held -- */

weir_task *weir__pq_make(struct weir__sql_pool *where, bool is_lease, const char *sql, weir_task_fn *done, void *context);
void weir__pq_begin(struct weir__sql_query *query);
void weir__pq_cancel(struct weir__sql_query *query, int status);
void weir__pq_free_query(struct weir__sql_query *query);
const char *weir__pq_over(struct weir__sql_query *query, int status, const char *problem);
void weir__pq_end_query(struct weir__sql_query *query);
void weir__pq_push_steps(void (*steps)(void), struct weir__sql_pool *handle, weir_series *series, void *context);
int weir__pq_check(struct weir__sql_pool *handle, const char **ret_problem);
int weir__pq_judge(weir_task *commit, bool *ret_is_known, const char **ret_problem);
void weir__pq_release(struct weir__sql_pool *handle);
void weir__pq_look(struct weir__sql_pool *pool);

/* Nothing more is sent into its channel of rows, or taken out of its input.  No lock is held. */
void weir__pq_close_channels(struct weir__sql_query *query);

#define WEIR__PQ_DIGITS 21 /* of a number, with its NUL */

/* Writes it in decimal digits.  snprintf takes as long as libpq does to send a query.  Returns how many there are. */
size_t weir__pq_write_number(char out[WEIR__PQ_DIGITS], uint64_t number);

/* A value as an integer: 0, -EINVAL, -ERANGE. */
int weir__pq_int_of(const char *value, size_t size, bool is_binary, int64_t *ret_value);

/* -- pools -- */

struct weir_pq {
        struct weir__sql_pool base; /* first */

        /* Constant. */
        struct weir_pq_config config;
        PQconninfoOption *options;

        /* Guarded by lock. */
        struct weir__pq_link *links; /* all that are not dead, by `next` */
        struct weir__pq_link *idle;  /* by `next_idle`, the one used last first */

        /* Of a transaction; guarded by the pool's lock. */
        struct weir__pq_link *leased; /* with a reference; NULL: not yet, or not any more */
        bool is_free;                 /* the link has no query */
        unsigned savepoints;          /* that have been begun: their names */
        bool is_spoiled;              /* a savepoint was cut off, so there may be no COMMIT */

        /* Of a pool: its listeners. */
        weir_pq *hub;                       /* a handle; NULL: there are no listeners */
        struct weir__pq_link *hub_link;     /* with a reference; NULL: it is to be made */
        struct weir_pq_listener *listeners; /* by `next` */
        weir_nsec hub_not_before, hub_pause;
};

/* The pool of a pool or a transaction. */
static inline weir_pq *
weir__pq_pool_of(const struct weir__sql_pool *where)
{
        return (weir_pq *)where->pool;
}

/* The link, which has queries or has none, can take another one: returns that, or NULL.  Without any the link is idle from now
 * on, or *ret_close: it should be closed.  Under the link's lock; takes the pool's. */
struct weir__pq_query *weir__pq_next(struct weir__pq_link *link, bool *ret_close);

/* A query that was sent has its outcome: ends it.  Under its link's lock; takes the pool's. */
void weir__pq_finish(struct weir__pq_query *query, int status, const char *problem, struct weir__pq_after *after);

/* Whether somebody still waits for it.  Under its link's lock.  A query that was sent is given up before that lock is taken. */
bool weir__pq_is_wanted(struct weir__pq_query *query);

/* Takes an idle link out of its pool's list.  Returns whether it was there.  Takes the pool's lock. */
bool weir__pq_take_idle(struct weir__pq_link *link);

/* A link is dead.  `status` and `problem` are those of the failure; `was_ready`: it was connected.  Under its lock. */
void weir__pq_link_is_dead(struct weir__pq_link *link, bool was_ready, int status, const char *problem,
                           struct weir__pq_after *after);

/* A link is connected. */
void weir__pq_link_is_ready(struct weir__pq_link *link);

/* Nobody waits for the query any more.  Returns the link that has to abandon it, with a reference, or NULL.  Under the pool's
 * lock. */
struct weir__pq_link *weir__pq_give_up(struct weir__pq_query *query, int status, struct weir__pq_after *after);

/* Puts a query that was not sent back to the head of those that wait.  Under its link's lock; takes the pool's. */
void weir__pq_requeue(struct weir__pq_query *query, struct weir__pq_after *after);

/* Makes as many links as waiting queries need.  No lock is held. */
void weir__pq_make_links(weir_pq *pool);

/* Adds a link that is about to connect to the pool, which gets its reference.  Under the pool's lock. */
void weir__pq_add_link(weir_pq *pool, struct weir__pq_link *link, weir_nsec now);

/* -- transactions -- */

/* The link is now the holder's, unless nobody wants the lease any more.  Under its lock; takes the pool's. */
bool weir__pq_grant(struct weir__pq_query *lease, struct weir__pq_link *link);

/* The link of a handle is dead.  Under the pool's lock. */
void weir__pq_handle_lost(weir_pq *handle, struct weir__pq_after *after);

/* COMMIT is about to be sent.  Returns whether it still should be.  Takes the pool's lock. */
bool weir__pq_hold(struct weir__pq_query *query);

/* -- listeners -- */

/* Makes their link, or asks it to listen to what is new.  No lock is held. */
void weir__pq_hub_step(weir_pq *pool);

/* Their link is connected, or dead.  Under the pool's lock. */
void weir__pq_hub_is_ready(weir_pq *pool, struct weir__pq_link *link);
void weir__pq_hub_is_lost(weir_pq *pool);

/* Takes the notifications that have come.  Under the link's lock; takes the pool's. */
void weir__pq_hear(struct weir__pq_link *link);

/* The pool is closed.  No lock is held. */
void weir__pq_hub_close(weir_pq *pool);

/* -- conninfo: connect.c -- */

/* Reads a conninfo.  NULL: `*ret_problem`, to be freed, says why, or is NULL when out of memory. */
PQconninfoOption *weir__pq_conninfo_parse(const char *conninfo, char **ret_problem);

/* The value of a keyword; NULL: none, or an empty one. */
const char *weir__pq_conninfo_value(const PQconninfoOption *options, const char *keyword);

/* The addresses of one connection: the hosts of a conninfo, each as often as it has addresses. */
struct weir__pq_targets {
        char *hosts, *addresses, *ports; /* lists with commas */
        bool has_address;                /* else libpq needs none: sockets of the system alone */
};

/* Hosts, as they stand in the list. */
struct weir__pq_host {
        char *name, *address, *port; /* "": none */
        bool is_to_be_resolved;
};

/* -- links -- */

enum weir__pq_link_state { WEIR__PQ_CONNECTING = 0, WEIR__PQ_READY, WEIR__PQ_DEAD };

enum weir__pq_copy { WEIR__PQ_NO_COPY = 0, WEIR__PQ_COPY_OUT, WEIR__PQ_COPY_IN };

struct weir__pq_statement;

struct weir__pq_link {
        /* Constant. */
        weir_pq *pool; /* a reference to its memory */
        weir_nsec made;

        _Atomic unsigned references;

        pthread_mutex_t lock;

        /* Guarded by lock. */
        enum weir__pq_link_state state;
        PGconn *connection;
        int watched;                  /* a duplicate of its socket, which is ours to close */
        weir_fd *fd;                  /* of that */
        bool reads, writes;           /* tasks wait */
        struct weir__pq_after *after; /* of the thread that has the lock, for libpq's notices */
        bool is_cancelling;           /* a request to cancel is on its way */
        unsigned requests;            /* that were sent for the present query */
        bool is_cleaning;             /* a statement of the link's own was sent */
        bool has_single_rows;         /* libpq has been told to give the rows one by one, and would do so in a pipeline again */
        bool has_limit;               /* it connects, or is being cleaned: `deadline` holds */
        struct weir__pq_query *first, *last; /* that were sent */
        enum weir__pq_copy copy;             /* of the first */
        weir_series *pause; /* waits at a channel of the first, and nothing goes on until its end; a reference, or NULL */
        struct weir__pq_statement **statements; /* a table; NULL: there are none */
        unsigned statement_count, statement_number;

        /* While it connects. */
        struct weir__pq_host *hosts;
        unsigned host_count, host;
        struct weir__pq_targets targets;
        weir_series *resolving; /* a reference; NULL: none */

        /* Guarded by the pool's lock. */
        struct weir__pq_link *next, *previous, *next_idle;
        bool is_extra; /* that of the listeners.  Constant */
        bool is_connecting, is_idle;
        bool is_gone;       /* not in the pool's list any more */
        weir_pq *holder;    /* the transaction that has it; NULL: none */
        unsigned in_flight; /* queries */
        unsigned given_up;     /* of them: nobody waits for them, and none is sent behind them */
        bool is_alone;      /* the query that it has can have none beside it */
        bool has_pipeline;  /* it can have several queries now */
        weir_nsec idle_since;
        bool should_check;  /* it was idle for so long that the server may have closed it.  Written before its query is sent */
        weir_nsec deadline; /* of connecting or cleaning; WEIR_FOREVER: none */
};

struct weir__pq_link *weir__pq_link_new(weir_pq *pool);
struct weir__pq_link *weir__pq_link_ref(struct weir__pq_link *link);
void weir__pq_link_unref(struct weir__pq_link *link);

void weir__pq_link_lock(struct weir__pq_link *link, struct weir__pq_after *after);
void weir__pq_link_unlock(struct weir__pq_link *link);

/* Begins to connect.  No lock is held. */
void weir__pq_connect(struct weir__pq_link *link);

/* The next step, when its socket is ready.  Under its lock. */
void weir__pq_connect_step(struct weir__pq_link *link, struct weir__pq_after *after);
void weir__pq_connect_free(struct weir__pq_link *link);

/* Waits for its socket, once.  Under its lock. */
void weir__pq_link_await(struct weir__pq_link *link, bool reads, bool writes, struct weir__pq_after *after);

/* Sets the instant at which the pool closes it.  Takes the pool's lock. */
void weir__pq_link_set_limit(struct weir__pq_link *link, weir_nsec limit);

/* All of these under the link's lock. */
void weir__pq_link_fail(struct weir__pq_link *link, int status, const char *problem, struct weir__pq_after *after);
int weir__pq_link_watch(struct weir__pq_link *link);
void weir__pq_link_wait(struct weir__pq_link *link, struct weir__pq_after *after);
void weir__pq_link_work(struct weir__pq_link *link, struct weir__pq_after *after);
void weir__pq_link_go_on(struct weir__pq_link *link, struct weir__pq_after *after);
void weir__pq_link_send(struct weir__pq_link *link, struct weir__pq_query *query, struct weir__pq_after *after);
void weir__pq_link_rest(struct weir__pq_link *link, struct weir__pq_after *after);

/* If nobody waits for any of its queries, asks the server to cancel them.  Under its lock. */
void weir__pq_link_cancel_needless(struct weir__pq_link *link, struct weir__pq_after *after);

/* Nobody waits for the query any more.  No lock is held. */
void weir__pq_link_abandon(struct weir__pq_link *link, struct weir__pq_query *query);

/* Closes it; the second function only if it is idle, or has lasted too long.  No lock is held. */
void weir__pq_link_kill(struct weir__pq_link *link, int status, const char *problem);
void weir__pq_link_retire(struct weir__pq_link *link, int status, const char *problem);

/* Asks the server to cancel what the link runs.  Under the link's lock. */
void weir__pq_link_ask_to_cancel(struct weir__pq_link *link, struct weir__pq_after *after);

/* -- rows and COPY; under the link's lock -- */

struct weir_pq_row {
        PGresult *result; /* of one row; NULL: `bytes` */
        size_t size;
        char bytes[]; /* with a NUL behind them */
};

/* A row that has come alone; the query is the first.  Takes over the result. */
void weir__pq_stream_row(struct weir__pq_link *link, PGresult *result, struct weir__pq_after *after);

/* Such a row for a result in memory, which has bounds. */
void weir__pq_keep_row(struct weir__pq_link *link, PGresult *row, struct weir__pq_after *after);

/* Whether results in memory have bounds. */
static inline bool
weir__pq_is_bounded(const weir_pq *pool)
{
        return pool->config.max_rows != SIZE_MAX || pool->config.max_bytes != SIZE_MAX;
}

/* The server has begun a COPY. */
void weir__pq_stream_begin(struct weir__pq_link *link, ExecStatusType what, struct weir__pq_after *after);

/* Before input is read: has the server refused what was sent? */
void weir__pq_stream_look(struct weir__pq_link *link, struct weir__pq_after *after);

/* Goes on with it, as far as that is possible now. */
void weir__pq_stream_go_on(struct weir__pq_link *link, struct weir__pq_after *after);

/* Nobody waits for the first query any more.  Returns whether the server has been told, or the link has failed. */
bool weir__pq_stream_abandon(struct weir__pq_link *link, struct weir__pq_after *after);

/* Ends a pause, if there is one. */
void weir__pq_stream_wake(struct weir__pq_link *link);

/* -- prepared statements; under the link's lock -- */

/* The number of the query's statement; 0: it is not prepared. */
unsigned weir__pq_statement_find(struct weir__pq_link *link, const struct weir__pq_query *query);

/* Makes a number for it.  0 when out of memory. */
unsigned weir__pq_statement_add(struct weir__pq_link *link, const struct weir__pq_query *query);

/* Forgets the one with the number that the query was sent with. */
void weir__pq_statement_remove(struct weir__pq_link *link, const struct weir__pq_query *query);
void weir__pq_statement_remove_all(struct weir__pq_link *link);

/* -- statuses -- */

/* The status of a failure with that SQLSTATE. */
int weir__pq_status(const char *sqlstate);

/* The status of a failure that libpq has found itself, with that text. */
int weir__pq_own_status(const char *problem);

/* The status of an attempt to connect that failed with that text. */
int weir__pq_connect_status(const char *problem);

#endif
