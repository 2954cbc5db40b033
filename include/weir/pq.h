/* weir/pq.h: PostgreSQL as tasks.  The library libweir-pq.
 *
 *     weir_pq *pool = weir_pq_new("postgresql:///orders", NULL);
 *     weir_task *query = weir_pq_query_new(pool, "SELECT name FROM people WHERE id = $1", show, NULL);
 *
 *     weir_pq_add_int(query, 17);
 *     weir_task_start(query);
 *
 *     static void
 *     show(weir_task *query, void *context)
 *     {
 *             if (weir_task_status(query) != 0)
 *                     puts(weir_pq_problem(query));
 *             for (size_t row = 0; row < weir_pq_rows(query); row++)
 *                     puts(weir_pq_value(query, row, 0, NULL));
 *     }
 *
 * A pool has connections to one database.  A query takes one that is free, waits for one behind the
 * queries that came before, or has one made.  No thread waits for the server. */
#ifndef WEIR_PQ_H
#define WEIR_PQ_H

#include <stddef.h>
#include <stdint.h>

#include <weir/channel.h>
#include <weir/series.h>
#include <weir/task.h>
#include <weir/time.h>

WEIR_BEGIN

/* -- pools -- */

/* A pool of connections to a database.  The handle of a transaction is one, too: of one connection. */
typedef struct weir_pq weir_pq;

/* How a pool works.  Start from WEIR_PQ_CONFIG_DEFAULT; 0 in a field means its default; WEIR_FOREVER and
 * SIZE_MAX mean no limit.  Texts are copied.
 *
 * With max_rows or max_bytes the rows of all results come one by one, which costs a tenth of a microsecond of CPU
 * for each.  They do not go with a pipeline. */
struct weir_pq_config {
        size_t size;              /* of this struct; set by WEIR_PQ_CONFIG_DEFAULT */
        const char *name;         /* of the pool, for people: in dumps, messages and metrics; default: the database's */
        unsigned connections;     /* at most; default: 10 */
        unsigned pipeline;        /* queries on one connection at once; default: 1, and no pipeline */
        unsigned statements;      /* prepared ones that a connection keeps; default: 256 */
        unsigned reserved;        /* 0 */
        weir_nsec connect_limit;  /* until a connection can be used: names, TCP, TLS and log-in; default: 10 s */
        weir_nsec limit;          /* of a query, from its start, waits included, but not of COMMIT; default: none */
        weir_nsec idle_limit;     /* a connection that is unused for so long is closed; default: 60 s */
        weir_nsec age_limit;      /* one that is older is closed when it is free; default: 1 hour */
        weir_nsec clean_limit;    /* until a connection whose query was cancelled is free; then it is closed; default: 5 s */
        weir_nsec check_after;    /* one that was unused for longer is looked at before it is used; default: 500 ms */
        size_t max_rows;          /* of a result in memory; more end the query with -EMSGSIZE; default: SIZE_MAX */
        size_t max_bytes;         /* that such a result may use; more end the query with -EMSGSIZE; default: SIZE_MAX */
};

/* The initializer of a config. */
#ifdef __cplusplus
#define WEIR_PQ_CONFIG_DEFAULT {sizeof(struct weir_pq_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_PQ_CONFIG_DEFAULT {.size = sizeof(struct weir_pq_config)}
#endif

/* Makes a pool.  `conninfo` is a URL or a list of keywords, as libpq takes them: "postgresql://host/db",
 * "host=/run/postgresql dbname=orders".  NULL and "" are what the environment says (PGHOST and so on).
 * NULL as config is the default.  It connects when there is a query.
 *
 * The library looks names of hosts up itself (weir/resolve.h).  Without a setting of their own it sets
 * application_name to the name of the program, gssencmode to disable, which could wait for a server of
 * Kerberos, and tcp_user_timeout to the connect limit.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL: a conninfo that cannot be read, or one with a service (the log says
 *          why), or a config of a wrong size; ENOMEM.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_pq *weir_pq_new(const char *conninfo, const struct weir_pq_config *config);

/* Takes and drops a reference.  Tasks have their own.  Without a reference the connections are closed.
 * In a forked child they are not, and the memory stays: they are the parent's.  Both accept NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API weir_pq *weir_pq_ref(weir_pq *pool);
WEIR_API void weir_pq_unref(weir_pq *pool);

/* Closes the pool.  Queries that wait for a connection end with -EPIPE, and so do those that are started
 * later.  Queries that were sent, and transactions that have begun, go on to their end.  Accepts NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API void weir_pq_close(weir_pq *pool);

/* What a pool has and has done.  Start from WEIR_PQ_STATS_DEFAULT. */
struct weir_pq_stats {
        size_t size;          /* of this struct; set by WEIR_PQ_STATS_DEFAULT */
        unsigned connections; /* that are open, or being made */
        unsigned connecting;  /* of them */
        unsigned idle;        /* of them */
        unsigned busy;        /* of them: with queries, in a transaction, or being cleaned */
        unsigned waiting;     /* queries and transactions that wait for a connection */
        uint64_t queries;     /* that were sent */
        uint64_t failed;      /* of them: by the server, by a limit or with the connection */
        uint64_t cancelled;   /* of them: their flow was over first */
        uint64_t connects;    /* connections that were made */
        uint64_t refused;     /* attempts that made none */
        uint64_t lost;        /* connections that broke */
        weir_nsec waited;     /* by queries for connections, in all */
};

/* The initial value of a struct weir_pq_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_PQ_STATS_DEFAULT {sizeof(struct weir_pq_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_PQ_STATS_DEFAULT {.size = sizeof(struct weir_pq_stats)}
#endif

/* Fills `stats`.
 *
 * Result:  0; -EINVAL for NULL, or a wrong size; -ENOMEM for a NULL pool; -ECHILD in a forked child.
 * Threads: any, also inside a callback.  The numbers are of one instant. */
WEIR_API int weir_pq_stats(const weir_pq *pool, struct weir_pq_stats *stats);

/* Writes the figures of all pools to a descriptor, in the text format of weir_metrics_write.  Names begin with
 * weir_pq_, and the label `pool` has the name, with "#2" and so on behind it when several pools have the same one.
 * The connection of the listeners is not counted.
 *
 *     weir_metrics_add(weir_pq_metrics_write);
 *
 * puts them into the text of weir_metrics_write, and on the page of weir_http_debug.
 *
 * Result:  0; what write(2) reports, when some of the text may have been written; -ENOMEM; -ECHILD in a forked
 *          child that has made no pool: those of its parent are not its own.
 * Threads: any, also inside a callback, where a blocking descriptor delays its neighbours. */
WEIR_API int weir_pq_metrics_write(int fd);

/* -- queries -- */

/* Makes a task of one statement, with parameters $1, $2 and so on.
 *
 * A cancel is decisive: until the callback begins it sees -ECANCELED, or -ETIMEDOUT at the deadline of its
 * series.  The server is asked to cancel a statement that it has begun.  The effect of the statement until
 * then is unknown.  The connection is used again when the server has answered.
 *
 * A query whose connection breaks is not sent again, as the server may have executed it.  One that was not
 * sent yet gets another connection.
 *
 * Owner:   the caller, until the task is consumed.  The text is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status:
 *          0: the server has executed it;
 *          -EINVAL: a NULL text, or a parameter that was refused; -ENOMEM, also for a NULL pool;
 *          -EPIPE: the pool is closed, or the transaction is over;
 *          -ETIMEDOUT: a limit has passed; -EMSGSIZE: more rows or bytes than max_rows and max_bytes, which the problem
 *            names: the server is asked to stop, the statement may be undone, and the connection is used again;
 *          when no connection could be made: -ECONNREFUSED, -ENOENT: no such socket, name or database,
 *            -EACCES: the server refuses the user, -ETIMEDOUT, -EHOSTUNREACH and others of connect(2);
 *          -ECONNRESET: the connection broke, or the server has ended it; -EPROTO: the peer is no server;
 *            -ENOMEM: libpq had no memory, after which the server may have executed it;
 *          a failure of the statement, by its SQLSTATE: -EEXIST (unique_violation, duplicate objects), -EAGAIN
 *            (serialization_failure, deadlock_detected), -EBUSY (locks, too many connections), -EINTR
 *            (somebody has cancelled it at the server, or statement_timeout), -ENOENT (an undefined
 *            object), -EACCES (privileges), -EROFS (a read-only transaction), -ENOTRECOVERABLE (a transaction that
 *            has failed before), -ENOSPC, -ENOMEM and -E2BIG (the server's memory and limits), -ERANGE, -ENOTSUP,
 *            -EINVAL (syntax, other constraints and data), -EREMOTEIO (all others);
 *          -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_pq_query_new(weir_pq *pool, const char *sql, weir_task_fn *done, void *context);

/* Makes a task of several statements with ';' between them, and without parameters.  Unless the text says
 * otherwise they are one transaction.  The results are those of the last statement.
 *
 * Owner, Result, Threads: as weir_pq_query_new. */
WEIR_API weir_task *weir_pq_script_new(weir_pq *pool, const char *sql, weir_task_fn *done, void *context);

/* Adds the next parameter: a text, NULL for SQL's NULL; an integer; or the binary form of a value of the
 * type with that OID, such as 17 for bytea.  The server finds out the types of the first two.
 *
 * Owner:   the value is copied.
 * Result:  0; -EINVAL: another task, one that was started, NULL data with a size, or more than 65535
 *          parameters; -ENOMEM.  The task's status is the failure, too: so nobody has to look.
 * Threads: before the task is consumed, as all functions that change a query. */
WEIR_API int weir_pq_add_text(weir_task *query, const char *value);
WEIR_API int weir_pq_add_int(weir_task *query, int64_t value);
WEIR_API int weir_pq_add_binary(weir_task *query, unsigned type, const void *data, size_t size);

/* Has the statement prepared once for each connection, and then executed by its number, which is cheaper
 * for the server.  A connection knows a prepared statement by its text and
 * the types of its parameters.
 *
 * Result:  0; -EINVAL for another task, or a script. */
WEIR_API int weir_pq_set_prepared(weir_task *query);

/* Has the values sent in the server's binary form.
 *
 * Result:  0; -EINVAL for another task, or a script. */
WEIR_API int weir_pq_set_binary(weir_task *query);

/* Sets the limit of this query, in place of that of the pool.
 *
 * Result:  0; -EINVAL for another task, or a limit of 0 or less.
 * Units:   nanoseconds, from the start of the task. */
WEIR_API int weir_pq_set_limit(weir_task *query, weir_nsec limit);

/* -- results; inside the task's callback -- */

/* How many rows and columns have come; 0 without success, and for another task. */
WEIR_API size_t weir_pq_rows(const weir_task *query);
WEIR_API size_t weir_pq_columns(const weir_task *query);

/* How many rows the statement has inserted, changed, deleted, selected or copied; 0 for others. */
WEIR_API uint64_t weir_pq_affected(const weir_task *query);

/* The name of a column, the first being 0.
 *
 * Owner:   the task, as all texts of a query, until the callback returns.
 * Result:  NULL: there is no such column. */
WEIR_API const char *weir_pq_name(const weir_task *query, size_t column);

/* The first column of that name.
 *
 * Result:  -ENOENT: there is none; -EINVAL for another task. */
WEIR_API int weir_pq_column(const weir_task *query, const char *name);

/* The OID of a column's type; 0: there is no such column. */
WEIR_API unsigned weir_pq_type(const weir_task *query, size_t column);

/* A value, followed by a NUL that is not counted.  `size` may be NULL.
 *
 * Owner:   the task.
 * Result:  NULL and 0 bytes for SQL's NULL, and where there is no such row or column. */
WEIR_API const char *weir_pq_value(const weir_task *query, size_t row, size_t column, size_t *size);

/* The value as an integer, of a text or a binary int2, int4 or int8.
 *
 * Result:  0; or an error, and *ret_value is untouched: -ENOENT: SQL's NULL, or no such row or column; -EINVAL: it is no
 *          integer; -ERANGE. */
WEIR_API int weir_pq_int(const weir_task *query, size_t row, size_t column, int64_t *ret_value);

/* The five characters by which the server says what has failed, such as "23505".
 *
 * Result:  ""; without a failure of the server. */
WEIR_API const char *weir_pq_sqlstate(const weir_task *query);

/* A field of the server's error by its letter in the protocol: 'D' the detail, 'H' a hint, 'n' the name of the
 * constraint, 't' of the table.
 *
 * Result:  NULL when there is none.
 * Source:  PostgreSQL's manual, "Error and Notice Message Fields". */
WEIR_API const char *weir_pq_field(const weir_task *query, int letter);

/* Why it has failed, for people: the server's or libpq's text, or where it was at a limit.
 *
 * Result:  NULL for another task, and if it has not failed. */
WEIR_API const char *weir_pq_problem(const weir_task *query);

/* -- rows one by one, and COPY -- */

/* A row that has come alone, or bytes of COPY. */
typedef struct weir_pq_row weir_pq_row;

/* Makes a channel for rows: weir_channel_new(capacity, weir_pq_row_free).
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.
 * Threads: any. */
WEIR_API weir_channel *weir_pq_rows_new(size_t capacity);

/* Has the rows sent into a channel, one by one as they come, whose `drop` has to be weir_pq_row_free.  While it
 * is full nothing is read from the server, which then waits, too.  So a table of any size needs little memory.
 * The channel is closed when the task has ended, and the task has no rows then.  If the program closes the
 * channel, the query ends with -EPIPE.
 *
 *     weir_pq_set_rows(query, rows);
 *     weir_task_start(query);                          the producer
 *     weir_channel_receive_new(rows, on_row, NULL)     the consumer
 *
 * The rows of COPY ... TO STDOUT are those of its format, each as the only value of its row.
 *
 * The query is alone on its connection, also where there is a pipeline.
 *
 * Owner:   the task has a reference to the channel.
 * Result:  0; -EINVAL for another task, a script or a NULL channel. */
WEIR_API int weir_pq_set_rows(weir_task *query, weir_channel *rows);

/* Gives COPY ... FROM STDIN its input: the bytes of the messages of a channel, whose `drop` is weir_pq_row_free.
 * They need not be whole rows.  The input ends when the channel is closed and empty.  It may be the channel of a
 * COPY ... TO STDOUT.
 *
 * No more is taken out of the channel than the server takes.  If the server refuses a row, the channel is closed
 * and the query fails.  A cancel has the server drop what came so far.
 *
 * Owner, Result: as weir_pq_set_rows. */
WEIR_API int weir_pq_set_input(weir_task *query, weir_channel *input);

/* Makes a message of bytes for the input of COPY.
 *
 * Owner:   the caller; the bytes are copied.
 * Result:  NULL when out of memory.
 * Threads: any. */
WEIR_API weir_pq_row *weir_pq_row_new(const void *data, size_t size);

/* Frees a row that was taken out of its channel: a weir_free_fn.  Accepts NULL. */
WEIR_API void weir_pq_row_free(void *row);

/* What a row has, as weir_pq_columns, weir_pq_name, weir_pq_value and weir_pq_int.  Bytes of COPY are one value
 * without a name.  For NULL there is nothing.
 *
 * Owner:   the row.
 * Threads: where the row is yours or borrowed. */
WEIR_API size_t weir_pq_row_columns(const weir_pq_row *row);
WEIR_API const char *weir_pq_row_name(const weir_pq_row *row, size_t column);
WEIR_API const char *weir_pq_row_value(const weir_pq_row *row, size_t column, size_t *size);
WEIR_API int weir_pq_row_int(const weir_pq_row *row, size_t column, int64_t *ret_value);

/* -- transactions -- */

/* Pushes the steps of a transaction: queries of `transaction`, which is in the place of a pool, and any other
 * tasks.  The series fails with the first task that fails (weir_series_stop_on_failure).
 *
 * Threads: a worker.  With retries it is called anew for each attempt. */
typedef void weir_pq_steps_fn(weir_pq *transaction, weir_series *series, void *context);

/* How a transaction runs.  Start from WEIR_PQ_TRANSACTION_CONFIG_DEFAULT; 0 in a field means its default.  Texts are
 * copied. */
struct weir_pq_transaction_config {
        size_t size;         /* of this struct; set by WEIR_PQ_TRANSACTION_CONFIG_DEFAULT */
        const char *begin;   /* the first statement; default: "BEGIN".  "BEGIN ISOLATION LEVEL SERIALIZABLE", for example */
        unsigned attempts;   /* all in all, if one ends with -EAGAIN: a serialization failure or a deadlock; default: 1 */
        unsigned reserved;   /* 0 */
        weir_nsec delay;     /* before the second attempt, at most; twice as long before each later one; default: 10 ms */
};

/* The initializer of such a config. */
#ifdef __cplusplus
#define WEIR_PQ_TRANSACTION_CONFIG_DEFAULT {sizeof(struct weir_pq_transaction_config), 0, 0, 0, 0}
#else
#define WEIR_PQ_TRANSACTION_CONFIG_DEFAULT {.size = sizeof(struct weir_pq_transaction_config)}
#endif

/* Makes a task of a transaction: BEGIN on a connection of its own, the steps, and COMMIT at their end.  If a
 * step fails, ROLLBACK; the task has the status of that step.  A cancel and a deadline also lead to ROLLBACK,
 * behind the end of the task.  Once COMMIT was sent they wait for the server's answer, for about a second at
 * most.  The status is that of the cancel all the same; weir_pq_transaction_committed says whether the
 * transaction holds.  The limit of the pool does not end COMMIT.
 *
 *     static void
 *     move(weir_pq *transaction, weir_series *series, void *context)
 *     {
 *             weir_series_push(series, weir_pq_query_new(transaction, "UPDATE ...", NULL, NULL));
 *             weir_series_push(series, weir_pq_query_new(transaction, "UPDATE ...", NULL, NULL));
 *     }
 *
 *     weir_task_start(weir_pq_transaction_new(pool, move, on_moved, NULL));
 *
 * Owner:   the caller, until the task is consumed.  The handle `transaction` is the library's; a reference
 *          keeps its memory.  When the transaction is over, queries of it end with -EPIPE.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: 0: it is committed;
 *          the status of the step that failed, or of the series of the steps; those of weir_pq_query_new for
 *          BEGIN and COMMIT; -ECONNRESET during COMMIT: it is unknown whether the transaction holds;
 *          -ENOTRECOVERABLE: a step failed whose failure did not end the series, so the server has rolled back,
 *          or a savepoint was cut off;
 *          -EINVAL: no steps, a config of a wrong size, or a transaction within a transaction.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_pq_transaction_new(weir_pq *pool, weir_pq_steps_fn *steps, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_pq_transaction_new_with(weir_pq *pool, const struct weir_pq_transaction_config *config,
                                                 weir_pq_steps_fn *steps, weir_task_fn *done, void *context);

/* Makes a task of a part of a transaction that can fail by itself: SAVEPOINT, the steps, and RELEASE at their
 * end.  If a step fails, ROLLBACK TO undoes what the steps have done, and the transaction goes on.  The callback
 * sees the status of that step.  To end the transaction as well, it calls
 * weir_series_fail(weir_series_of(task), status).
 *
 *     weir_series_push(series, weir_pq_savepoint_new(transaction, sign_in, on_signed_in, NULL));
 *
 * Steps may have savepoints.  Those of one transaction run one after the other: it has one connection.  A cancel
 * or a limit of this task leaves the savepoint open; then the transaction cannot be committed any more.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  In the callback: 0; the status of the step that
 *          failed, or of the series of the steps; those of weir_pq_query_new for SAVEPOINT and RELEASE; -EINVAL: no
 *          steps, or no transaction; -ENOMEM, also for NULL.  The task, as what pushed it sees it: 0 also if the
 *          steps were undone; what the callback has failed its series with; the status of the callback if there
 *          was no SAVEPOINT, or it could not be rolled back.
 * Threads: a worker, in the steps of the transaction. */
WEIR_API weir_task *weir_pq_savepoint_new(weir_pq *transaction, weir_pq_steps_fn *steps, weir_task_fn *done, void *context);

/* Whether a transaction is committed.
 *
 * Result:  1; 0: it is not, and will not be unless its steps go on; -EINPROGRESS: COMMIT was sent and has no answer,
 *          and behind the end of the task it will get none, so it is unknown; -EINVAL: NULL, or no transaction.
 * Threads: within its flow, and behind its end, with a reference. */
WEIR_API int weir_pq_transaction_committed(const weir_pq *transaction);

/* Why a transaction has failed, for people: the problem of the first of its queries that has failed, COMMIT
 * included.
 *
 * Owner:   the handle, which a reference keeps.
 * Result:  NULL: none has, or it is no transaction.
 * Threads: within its flow, and behind its end. */
WEIR_API const char *weir_pq_transaction_problem(const weir_pq *transaction);

/* -- notifications -- */

/* Somebody who listens. */
typedef struct weir_pq_listener weir_pq_listener;

/* What a listener gets: a notification, or the message that it listens now. */
typedef struct weir_pq_event weir_pq_event;

/* Makes a channel for events: weir_channel_new(capacity, weir_pq_event_free).
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.
 * Threads: any. */
WEIR_API weir_channel *weir_pq_events_new(size_t capacity);

/* Listens: LISTEN on a connection that all listeners of the pool share, beside those of its limit.  Notifications
 * are sent into the channel, whose `drop` has to be weir_pq_event_free.  The first event says that it listens, and
 * so does another one each time that the connection was made anew.
 *
 * A channel without room loses events.  The next one that has room says so (weir_pq_event_missed).
 *
 *     weir_channel *events = weir_pq_events_new(1000);
 *     weir_pq_listener *listener = weir_pq_listen(pool, "orders", events);
 *
 * If the server refuses to listen, the log says why, and it is asked again when the connection was made anew.
 *
 * Owner:   the caller, until weir_pq_unlisten.  It has references to the pool and the channel.
 * Result:  NULL with errno EINVAL: a NULL or empty name, a NULL channel, or the handle of a transaction;
 *          ENAMETOOLONG: a name of more than 63 bytes, which the server would cut; EPIPE: the pool is closed;
 *          ENOMEM, also for a NULL pool; ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API weir_pq_listener *weir_pq_listen(weir_pq *pool, const char *name, weir_channel *channel);

/* Ends the listening.  When it returns nothing more is sent into the channel, which stays open.  Accepts NULL.
 *
 * Owner:   takes the listener over.
 * Threads: any.  Never blocks. */
WEIR_API void weir_pq_unlisten(weir_pq_listener *listener);

/* The name that was notified.
 *
 * Owner:   the event, as all texts of an event.
 * Result:  NULL for NULL.
 * Threads: where the event is yours or borrowed, as all functions of an event. */
WEIR_API const char *weir_pq_event_name(const weir_pq_event *event);

/* What NOTIFY has said, or "".  NULL: it is no notification; it says that the listener listens from now on. */
WEIR_API const char *weir_pq_event_payload(const weir_pq_event *event);

/* The process of the server that has notified.
 *
 * Result:  0: it is no notification. */
WEIR_API int weir_pq_event_process(const weir_pq_event *event);

/* Whether notifications before this one may be missing: the connection was lost, or the channel was full.
 *
 * Result:  0 or 1. */
WEIR_API int weir_pq_event_missed(const weir_pq_event *event);

/* Frees an event that was taken out of its channel: a weir_free_fn.  Accepts NULL. */
WEIR_API void weir_pq_event_free(void *event);

WEIR_END

#endif
