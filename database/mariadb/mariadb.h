/* database/mariadb/mariadb.h: what the files of this folder share.
 *
 *     url.c          where a pool leads: its URL and its config
 *     life.c         pools: how they are made and closed
 *     pool.c         which link gets which query, and how many links there are
 *     limits.c       what is too late
 *     serve.c        the function on the executor that has a link
 *     link.c         a connection: how it is made, cut and closed
 *     execute.c      a query on a connection
 *     statement.c    prepared statements
 *     result.c       rows
 *     stream.c       rows that go into a channel
 *     query.c        queries, and what a statement may be given
 *     transaction.c  transactions
 *     status.c       the statuses of failures
 *     figures.c      counters
 *
 * What it has in common with PostgreSQL is in database/sql/: queries as tasks, transactions as flows, lists, figures as text.
 *
 * A pool (struct weir_mariadb) has links, which are connections, and a list of queries that wait for one.
 *
 *     query:  MADE --start--> WAITING --a link takes it--> SENT --it has its outcome--> OVER
 *                '--dismissed    '--cancel, limit, close, no connection------------------^
 *
 *     link:   SERVED --> IDLE, or HELD by a transaction, or PAUSED at a channel --> SERVED --> freed
 *
 * A link that is SERVED has a function on the executor, which alone uses the connection.  The function ends when there is nothing
 * to do.  A cancel ends the task of a query at once, and cuts the connection, which wakes the thread in the client library.
 *
 * Locks: that of the pool.  No code of the program, of the client library or of weir runs under it, but for timers.  What follows
 * from a change (ends of tasks, functions to start, messages) is noted in a struct weir__mariadb_after, and done when it is let
 * go. */
#ifndef WEIR_DATABASE_MARIADB_MARIADB_H
#define WEIR_DATABASE_MARIADB_MARIADB_H

#include <mysql.h>

#include "database/sql/sql.h"
#include <weir/mariadb.h>

struct weir__mariadb_link;
struct weir__mariadb_query;

/* -- what is done when no lock is held -- */

struct weir__mariadb_after {
        struct weir__sql_after base;
        struct weir__mariadb_link *served; /* whose functions are to be started, by `next_served` */
};

void weir__mariadb_after(struct weir__mariadb_after *after);

/* -- results -- */

struct weir__mariadb_columns {
        _Atomic unsigned references;
        unsigned count;
        struct {
                const char *name;
                int type;
        } of[]; /* the names behind it */
};

struct weir__mariadb_cell {
        size_t at, size; /* WEIR__MARIADB_NULL: none */
};

#define WEIR__MARIADB_NULL SIZE_MAX

struct weir__mariadb_table {
        struct weir__mariadb_columns *columns; /* a reference; NULL: none */
        size_t rows, room;                     /* of the cells */
        struct weir__mariadb_cell *cells;      /* row by row */
        char *data;                            /* of all values, each with a NUL */
        size_t used, data_room;
};

struct weir_mariadb_row {
        struct weir__mariadb_table table; /* of one row */
};

/* NULL when out of memory. */
struct weir__mariadb_columns *weir__mariadb_columns_new(const MYSQL_FIELD *fields, unsigned count);
void weir__mariadb_columns_unref(struct weir__mariadb_columns *columns);

void weir__mariadb_table_clear(struct weir__mariadb_table *table);

/* Adds a row: a NULL value is SQL's NULL.  0 or -ENOMEM. */
int weir__mariadb_table_add(struct weir__mariadb_table *table, const char *const *values, const unsigned long *sizes);

/* NULL when out of memory. */
weir_mariadb_row *weir__mariadb_row_new(struct weir__mariadb_columns *columns, const char *const *values,
                                        const unsigned long *sizes);

/* -- queries -- */

enum weir__mariadb_kind {
        WEIR__MARIADB_STATEMENT = 0,
        WEIR__MARIADB_SCRIPT,
        WEIR__MARIADB_LEASE, /* of a transaction: it wants a link for itself */
};

extern const struct weir__sql_kind weir__mariadb_kind;
extern struct weir__figures weir__mariadb_figures;

enum weir__mariadb_type { WEIR__MARIADB_NONE = 0, WEIR__MARIADB_INT, WEIR__MARIADB_TEXT, WEIR__MARIADB_BINARY };

struct weir__mariadb_parameter {
        enum weir__mariadb_type type;
        size_t size;
        union {
                int64_t integer;
                char *data;
        };
};

struct weir__mariadb_outcome {
        int status;
        unsigned code;
        char sqlstate[6];
        bool is_complete; /* the server has nothing more to say about it */
        char *problem;    /* or NULL */
        struct weir__mariadb_table table;
        uint64_t affected, inserted;
        unsigned warnings;
};

#define WEIR__MARIADB_FEW 4 /* parameters for which a query has room in itself */

struct weir__mariadb_query {
        struct weir__sql_query base; /* first */

        /* Constant from the start on. */
        enum weir__mariadb_kind kind;
        bool is_prepared;
        unsigned count, room;
        struct weir__mariadb_parameter *parameters; /* `few` as long as there is room in it */
        struct weir__mariadb_parameter few[WEIR__MARIADB_FEW];
        weir_channel *rows; /* a reference; NULL: none */

        /* Guarded by the pool's lock. */
        struct weir__mariadb_link *link; /* that has taken it */
        int late_status;                 /* of the cancel or the limit that has given it up */

        /* Of the function that serves its link. */
        struct weir__mariadb_outcome outcome; /* then the task's value */
};

/* The query that the list has, or NULL. */
static inline struct weir__mariadb_query *
weir__mariadb_of(struct weir__sql_query *query)
{
        return (struct weir__mariadb_query *)query;
}

/* NULL for another task. */
static inline struct weir__mariadb_query *
weir__mariadb_query_of(const weir_task *task)
{
        return weir__mariadb_of(weir__sql_query_of(task, &weir__mariadb_kind));
}

/* -- the kind; no lock is held -- */

weir_task *weir__mariadb_make(struct weir__sql_pool *where, bool is_lease, const char *sql, weir_task_fn *done, void *context);
void weir__mariadb_begin(struct weir__sql_query *query);
void weir__mariadb_cancel(struct weir__sql_query *query, int status);
void weir__mariadb_close_channels(struct weir__sql_query *query);
void weir__mariadb_free_query(struct weir__sql_query *query);
const char *weir__mariadb_over(struct weir__sql_query *query, int status, const char *problem);
void weir__mariadb_end_query(struct weir__sql_query *query);
void weir__mariadb_push_steps(void (*steps)(void), struct weir__sql_pool *handle, weir_series *series, void *context);
int weir__mariadb_judge(weir_task *commit, bool *ret_is_known, const char **ret_problem);
void weir__mariadb_release(struct weir__sql_pool *handle);
void weir__mariadb_look(struct weir__sql_pool *pool);

/* -- where a pool leads -- */

struct weir__mariadb_target {
        char *host, *socket, *user, *password, *database, *ca, *certificate, *key, *session; /* NULL: none */
        unsigned port;
        enum weir_mariadb_tls tls;
};

/* 0, -ENOMEM or -EINVAL: *ret_problem says why.  To be freed in all cases. */
int weir__mariadb_target_read(struct weir__mariadb_target *target, const char *url, const struct weir_mariadb_config *config,
                              const char **ret_problem);
void weir__mariadb_target_free(struct weir__mariadb_target *target);

/* -- pools -- */

/* A connection that was cut: the server is told to end what it runs. */
struct weir__mariadb_kill {
        struct weir__mariadb_kill *next;
        unsigned long thread;
        weir_nsec since; /* the connection was there by then */
};

struct weir_mariadb {
        struct weir__sql_pool base; /* first */

        /* Constant. */
        struct weir_mariadb_config config;
        struct weir__mariadb_target target;

        /* Guarded by lock. */
        struct weir__mariadb_link *links; /* all, by `next` */
        struct weir__mariadb_link *idle;  /* by `next_idle`, the one used last first */
        struct weir__mariadb_kill *kills;
        unsigned starting; /* functions that were started, and have not looked for a query yet */
        uint64_t killed, prepared, reused;

        /* Of a transaction; guarded by the pool's lock. */
        struct weir__mariadb_link *leased; /* NULL: not yet, or not any more */
        bool was_rolled_back;              /* by the server, behind a deadlock */
};

/* The pool of a pool or a transaction. */
static inline weir_mariadb *
weir__mariadb_pool_of(const struct weir__sql_pool *where)
{
        return (weir_mariadb *)where->pool;
}

/* All of these under the pool's lock. */

/* Nobody waits for the query any more: it is over, or its link is cut.  Returns whether it was taken. */
bool weir__mariadb_give_up(struct weir__mariadb_query *query, int status, struct weir__mariadb_after *after);

/* Ends all that have waited in the list since before that instant. */
void weir__mariadb_end_waiting(weir_mariadb *pool, struct weir__sql_list *list, weir_nsec since, int status, const char *problem,
                               struct weir__mariadb_after *after);

/* Makes as many links as waiting queries need. */
void weir__mariadb_make_links(weir_mariadb *pool, struct weir__mariadb_after *after);

/* The link has a query: moves it to those that are sent. */
void weir__mariadb_take(struct weir__mariadb_link *link, struct weir__mariadb_query *query, weir_nsec now);

/* The query of the link has its outcome. */
void weir__mariadb_finish(struct weir__mariadb_link *link, struct weir__mariadb_after *after);

/* -- links -- */

enum weir__mariadb_link_state {
        WEIR__MARIADB_SERVED = 0, /* a function on the executor has it, or will */
        WEIR__MARIADB_IDLE,
        WEIR__MARIADB_HELD,   /* a transaction has it, and has nothing to do for it */
        WEIR__MARIADB_PAUSED, /* its query waits for room in its channel */
};

struct weir__mariadb_statement;

struct weir__mariadb_link {
        weir_mariadb *pool; /* constant; a reference to its memory */

        /* Of the function that serves it. */
        MYSQL *connection;                           /* NULL: none */
        MYSQL_RES *result;                           /* of its query, while rows come */
        struct weir__mariadb_columns *columns;       /* of these rows, with a reference */
        struct weir__mariadb_statement *statement;   /* of its query, if that is prepared */
        struct weir__mariadb_statement **statements; /* a table; NULL: there are none */
        unsigned statement_count;
        uint64_t clock;  /* counts uses of statements */
        uint64_t packet; /* what the server takes at most; 0: not asked yet */
        int paused;      /* the status that has ended the pause */
        bool is_begun;   /* its query was sent, and rows come */
        bool is_broken;  /* the connection is not used any more */
        weir_nsec until; /* the end of the attempt to connect */

        /* Guarded by the pool's lock. */
        enum weir__mariadb_link_state state;
        struct weir__mariadb_link *next, *previous, *next_idle, *next_served;
        struct weir__mariadb_query *query; /* that it has taken */
        weir_mariadb *holder;              /* the transaction that has it; NULL: none */
        bool is_connecting;                /* or will */
        bool is_starting;                  /* its function was started, and has not looked for a query yet */
        bool is_unclean;                   /* there may be a transaction to roll back */
        bool is_cut;                       /* by a cancel or a limit */
        int fd;                            /* a duplicate of its socket, which is ours to close; -1: none */
        unsigned long thread;              /* the server's */
        weir_nsec made;                    /* the attempt began */
        weir_nsec since;                   /* it is connected */
        weir_nsec idle_since;
        weir_nsec deadline; /* of connecting, cleaning and killing; WEIR_FOREVER: none */
};

/* Starts the function that serves a link.  No lock is held. */
void weir__mariadb_serve(struct weir__mariadb_link *link);

/* The function of a link is to be started.  Under the pool's lock. */
void weir__mariadb_wake(struct weir__mariadb_link *link, struct weir__mariadb_after *after);

/* The link, which is served by the caller, leaves its pool.  Under the pool's lock. */
void weir__mariadb_link_remove(struct weir__mariadb_link *link);

/* The transaction of a link has lost it.  Under the pool's lock. */
void weir__mariadb_handle_lost(struct weir__mariadb_link *link, struct weir__mariadb_after *after);

/* Closes the connection of a link that is the caller's, and frees the link.  No lock is held. */
void weir__mariadb_link_free(struct weir__mariadb_link *link);

/* Cuts the connection, and so wakes a thread that waits for the server.  Under the pool's lock. */
void weir__mariadb_link_cut(struct weir__mariadb_link *link);

/* All of these by the function that serves the link. */

/* Connects.  0, or the status; the outcome has the text and the codes. */
int weir__mariadb_connect(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome);
void weir__mariadb_disconnect(struct weir__mariadb_link *link);

/* Whether the server has closed the connection while it was idle. */
bool weir__mariadb_is_stale(struct weir__mariadb_link *link);

/* Notes a failure of the connection, or of the statement if it is not NULL. */
int weir__mariadb_fail(struct weir__mariadb_link *link, MYSQL_STMT *statement, struct weir__mariadb_outcome *outcome);

/* The first value of the first row as a number; 0: there is none.  The column counts from 0. */
uint64_t weir__mariadb_ask(struct weir__mariadb_link *link, const char *sql, unsigned column);

/* Executes the query of the link, or goes on with it.  Returns whether it is over, and else the row that its channel has no room
 * for. */
bool weir__mariadb_execute(struct weir__mariadb_link *link, weir_mariadb_row **ret_row);

/* COMMIT is about to be sent.  Returns 0, or why it should not be.  Takes the pool's lock. */
int weir__mariadb_hold(struct weir__mariadb_query *query);

/* -- prepared statements; by the function that serves the link -- */

/* Executes the query of the link.  0: its rows may be fetched, if there are columns. */
int weir__mariadb_statement_execute(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome);

/* Binds what the next rows are put into.  0 or -ENOMEM. */
int weir__mariadb_statement_bind(struct weir__mariadb_link *link);

/* The next row: 1; 0: there is none; or a status.  The values are there until the next one. */
int weir__mariadb_statement_fetch(struct weir__mariadb_link *link, const char *const **ret_values,
                                  const unsigned long **ret_sizes, struct weir__mariadb_outcome *outcome);

MYSQL_STMT *weir__mariadb_statement_handle(const struct weir__mariadb_statement *statement);

/* The query is over. */
void weir__mariadb_statement_end(struct weir__mariadb_link *link);

/* Frees all.  The connection is closed. */
void weir__mariadb_statement_free_all(struct weir__mariadb_link *link);

/* -- rows into a channel -- */

/* 0; a status; -EAGAIN: there is no room for *row, which is the caller's then. */
int weir__mariadb_stream_row(struct weir__mariadb_query *query, weir_mariadb_row *row);

/* The query of a link waits for room for the row, which is given away.  No lock is held; the link is PAUSED. */
void weir__mariadb_stream_pause(struct weir__mariadb_link *link, weir_channel *rows, weir_mariadb_row *row);

/* -- statuses -- */

/* The status of a failure; `text` is that of the client library. */
int weir__mariadb_status(unsigned code, const char *sqlstate, const char *text);

/* Whether the connection is of no use behind a failure with that code. */
bool weir__mariadb_breaks(unsigned code);

#endif
