/* weir/mariadb.h: MariaDB and MySQL as tasks.  The library libweir-mariadb.
 *
 *     weir_mariadb *pool = weir_mariadb_new("mariadb://app:secret@db.example.org/orders", NULL);
 *     weir_task *query = weir_mariadb_query_new(pool, "SELECT name FROM people WHERE id = ?", show, NULL);
 *
 *     weir_mariadb_add_int(query, 17);
 *     weir_task_start(query);
 *
 *     static void
 *     show(weir_task *query, void *context)
 *     {
 *             if (weir_task_status(query) != 0)
 *                     puts(weir_mariadb_problem(query));
 *             for (size_t row = 0; row < weir_mariadb_rows(query); row++)
 *                     puts(weir_mariadb_value(query, row, 0, NULL));
 *     }
 *
 * A pool has connections to one database.  A query takes one that is free, waits for one behind the
 * queries that came before, or has one made.
 *
 * The client library blocks, so its calls run on threads of the executor (weir/go.h): one for each
 * connection that has something to do.  No callback waits for the server. */
#ifndef WEIR_MARIADB_H
#define WEIR_MARIADB_H

#include <stddef.h>
#include <stdint.h>

#include <weir/channel.h>
#include <weir/series.h>
#include <weir/task.h>
#include <weir/time.h>

WEIR_BEGIN

/* -- pools -- */

/* A pool of connections to a database.  The handle of a transaction is one, too: of one connection. */
typedef struct weir_mariadb weir_mariadb;

/* How a connection is protected. */
enum weir_mariadb_tls {
        WEIR_MARIADB_TLS_NONE = 0, /* it is not */
        WEIR_MARIADB_TLS_REQUIRED, /* it is encrypted, and nobody knows who the peer is */
        WEIR_MARIADB_TLS_VERIFIED, /* it is encrypted, and the peer's certificate is trusted and for the host's name */
};

/* How a pool works.  Start from WEIR_MARIADB_CONFIG_DEFAULT; 0 in a field means its default; WEIR_FOREVER and
 * SIZE_MAX mean no limit.  Texts are copied. */
struct weir_mariadb_config {
        size_t size;               /* of this struct; set by WEIR_MARIADB_CONFIG_DEFAULT */
        const char *name;          /* of the pool, for people: in dumps, messages and metrics; default: the database's */
        const char *host;          /* this one and those up to `key`: what the URL does not say */
        const char *socket;        /* the path of a socket, in place of a host */
        const char *user;          /* default: the user of the process */
        const char *password;      /* default: none */
        const char *database;      /* default: none */
        unsigned port;             /* default: 3306 */
        enum weir_mariadb_tls tls; /* default: WEIR_MARIADB_TLS_NONE, which may not have the three files below */
        const char *ca;            /* a file of trusted certificates in PEM; default: those of the system */
        const char *certificate;   /* a file with the certificate of this side; default: none */
        const char *key;           /* the file with its key */
        const char *session;       /* a statement for each new connection, such as "SET time_zone = '+00:00'"; default: none */
        unsigned connections;      /* at most; default: 10 */
        unsigned statements;       /* prepared ones that a connection keeps; default: 256 */
        weir_nsec connect_limit;   /* until a connection can be used: TCP, TLS and log-in; default: 10 s */
        weir_nsec limit;           /* of a query, from its start, waits included, but not of COMMIT; default: none */
        weir_nsec idle_limit;      /* a connection that is unused for so long is closed; default: 60 s */
        weir_nsec age_limit;       /* one that is older is closed when it is free; default: 1 hour */
        weir_nsec clean_limit;     /* until a connection is rolled back, and free again; then it is closed; default: 5 s */
        size_t max_rows;           /* of a result in memory; more end the query with -EMSGSIZE; default: 1,000,000 */
        size_t max_bytes;          /* that such a result may use; more end the query with -EMSGSIZE; default: 64 MiB */
};

/* The initializer of a config. */
#ifdef __cplusplus
#define WEIR_MARIADB_CONFIG_DEFAULT                                                                                              \
        {                                                                                                                        \
                sizeof(struct weir_mariadb_config), 0, 0, 0, 0, 0, 0, 0, WEIR_MARIADB_TLS_NONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
                        0, 0                                                                                                     \
        }
#else
#define WEIR_MARIADB_CONFIG_DEFAULT                        \
        {                                                  \
                .size = sizeof(struct weir_mariadb_config) \
        }
#endif

/* Makes a pool.  The URL is "mariadb://user:password@host:port/database", with "mysql:" as another scheme.  User,
 * password, database and the values of its query are percent-coded.  The query may have:
 *
 *     socket=/run/mysqld/mysqld.sock    a socket in place of a host
 *     tls=no, tls=yes, tls=verify       as enum weir_mariadb_tls
 *     ca=, certificate=, key=           files, as in the config; they need tls
 *
 * A host is always one of TCP, also "localhost".  Without a host and a socket it is the socket of Debian.  NULL as
 * URL leaves all to the config, and NULL as config is the default.  It connects when there is a query.
 *
 * Connections have the character set utf8mb4.  Files of options (my.cnf) are not read.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL: a URL that cannot be read, a config of a wrong size, or one of the files
 *          without tls (the log says why); ENOMEM.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_mariadb *weir_mariadb_new(const char *url, const struct weir_mariadb_config *config);

/* Takes and drops a reference.  Tasks have their own.  Without a reference the connections are closed.
 * In a forked child they are not, and the memory stays: they are the parent's.  Both accept NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API weir_mariadb *weir_mariadb_ref(weir_mariadb *pool);
WEIR_API void weir_mariadb_unref(weir_mariadb *pool);

/* Closes the pool.  Queries that wait for a connection end with -EPIPE, and so do those that are started
 * later.  Queries that were sent, and transactions that have begun, go on to their end.  Accepts NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API void weir_mariadb_close(weir_mariadb *pool);

/* What a pool has and has done.  Start from WEIR_MARIADB_STATS_DEFAULT. */
struct weir_mariadb_stats {
        size_t size;          /* of this struct; set by WEIR_MARIADB_STATS_DEFAULT */
        unsigned connections; /* that are open, or being made */
        unsigned connecting;  /* of them */
        unsigned idle;        /* of them */
        unsigned busy;        /* of them: with a query, in a transaction, or being cleaned */
        unsigned waiting;     /* queries and transactions that wait for a connection */
        uint64_t queries;     /* that were sent */
        uint64_t failed;      /* of them: by the server, by a limit or with the connection */
        uint64_t cancelled;   /* of them: their flow was over first */
        uint64_t connects;    /* connections that were made */
        uint64_t refused;     /* attempts that made none */
        uint64_t lost;        /* connections that broke, or were cut by a cancel or a result that was too large */
        uint64_t killed;      /* statements that the server was told to end, behind a cancel */
        uint64_t prepared;    /* statements that were prepared */
        uint64_t reused;      /* queries that found theirs prepared */
        weir_nsec waited;     /* by queries for connections, in all */
};

/* The initial value of a struct weir_mariadb_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_MARIADB_STATS_DEFAULT {sizeof(struct weir_mariadb_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_MARIADB_STATS_DEFAULT {.size = sizeof(struct weir_mariadb_stats)}
#endif

/* Fills `stats`.
 *
 * Result:  0; -EINVAL for NULL, or a wrong size; -ENOMEM for a NULL pool; -ECHILD in a forked child.
 * Threads: any, also inside a callback.  The numbers are of one instant. */
WEIR_API int weir_mariadb_stats(const weir_mariadb *pool, struct weir_mariadb_stats *stats);

/* Writes the figures of all pools to a descriptor, in the text format of weir_metrics_write.  Names begin with
 * weir_mariadb_, and the label `pool` has the name, with "#2" and so on behind it when several pools have the same
 * one.
 *
 *     weir_metrics_add(weir_mariadb_metrics_write);
 *
 * puts them into the text of weir_metrics_write, and on the page of weir_http_debug.
 *
 * Result:  0; what write(2) reports, when some of the text may have been written; -ENOMEM; -ECHILD in a forked
 *          child that has made no pool: those of its parent are not its own.
 * Threads: any, also inside a callback, where a blocking descriptor delays its neighbours. */
WEIR_API int weir_mariadb_metrics_write(int fd);

/* -- queries -- */

/* Makes a task of one statement.  Its parameters are question marks.  A statement with parameters is prepared
 * at the server, once for each connection, which knows it by its text.
 *
 * A cancel is decisive: until the callback begins it sees -ECANCELED, or -ETIMEDOUT at the deadline of its
 * series.  The connection of a statement that was sent is cut then, and replaced.  The new connection tells the
 * server to end the statement (KILL).  Its effect until then is unknown.
 *
 * A query whose connection breaks is not sent again, as the server may have executed it.  One that was not
 * sent yet gets another connection.
 *
 * Owner:   the caller, until the task is consumed.  The text is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status:
 *          0: the server has executed it;
 *          -EINVAL: a NULL text, a parameter that was refused, or another number of them than the statement has;
 *            -ENOMEM, also for a NULL pool;
 *          -EPIPE: the pool is closed, or the transaction is over;
 *          -ETIMEDOUT: a limit has passed;
 *          -E2BIG: the statement is larger than the server takes (max_allowed_packet);
 *          -EMSGSIZE: more rows or bytes than max_rows and max_bytes, which the problem names: its connection is closed,
 *            and replaced;
 *          when no connection could be made: -ECONNREFUSED, -ENOENT: no such socket, name or database,
 *            -EACCES: the server refuses the user, -ETIMEDOUT, -EHOSTUNREACH and others of connect(2);
 *          -ECONNRESET: the connection broke, or the server has ended it; -EPROTO: the peer is no server, or TLS
 *            has failed;
 *          a failure of the statement: -EEXIST (a duplicate key or object), -EAGAIN (a deadlock), -EBUSY (a lock
 *            that was waited for in vain, too many connections), -EINTR (somebody has ended it at the server, or
 *            max_statement_time), -ENOENT (an unknown object), -EACCES (privileges), -EROFS (a read-only server
 *            or transaction), -ENOSPC, -ERANGE, -ENOTSUP, -EINVAL (syntax, other constraints and data), -EREMOTEIO
 *            (all others);
 *          -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_mariadb_query_new(weir_mariadb *pool, const char *sql, weir_task_fn *done, void *context);

/* Makes a task of several statements with ';' between them, and without parameters.  Each is a transaction of
 * its own, unless the text says otherwise.  The first one that fails ends the script.  The rows are those of the
 * last statement that has any; the other results are those of the last one.
 *
 * Owner, Result, Threads: as weir_mariadb_query_new. */
WEIR_API weir_task *weir_mariadb_script_new(weir_mariadb *pool, const char *sql, weir_task_fn *done, void *context);

/* Adds the next parameter: a text, NULL for SQL's NULL; an integer; or bytes, for a BLOB.
 *
 * Owner:   the value is copied.
 * Result:  0; -EINVAL: another task, one that was started, a script, NULL data with a size, or more than 65535
 *          parameters; -ENOMEM.  The task's status is the failure, too: so nobody has to look.
 * Threads: before the task is consumed, as all functions that change a query. */
WEIR_API int weir_mariadb_add_text(weir_task *query, const char *value);
WEIR_API int weir_mariadb_add_int(weir_task *query, int64_t value);
WEIR_API int weir_mariadb_add_binary(weir_task *query, const void *data, size_t size);

/* Has a statement without parameters prepared, too, which is cheaper for the server if it comes again.
 *
 * Result:  0; -EINVAL for another task, or a script. */
WEIR_API int weir_mariadb_set_prepared(weir_task *query);

/* Sets the limit of this query, in place of that of the pool.
 *
 * Result:  0; -EINVAL for another task, or a limit of 0 or less.
 * Units:   nanoseconds, from the start of the task. */
WEIR_API int weir_mariadb_set_limit(weir_task *query, weir_nsec limit);

/* -- results; inside the task's callback -- */

/* How many rows and columns have come; 0 without success, and for another task. */
WEIR_API size_t weir_mariadb_rows(const weir_task *query);
WEIR_API size_t weir_mariadb_columns(const weir_task *query);

/* How many rows the statement has inserted, changed or deleted; an UPDATE counts those that have changed.  0
 * for others. */
WEIR_API uint64_t weir_mariadb_affected(const weir_task *query);

/* The AUTO_INCREMENT value that the statement has made, the first one of several; 0: none. */
WEIR_API uint64_t weir_mariadb_inserted(const weir_task *query);

/* How many warnings the server has for the statement. */
WEIR_API unsigned weir_mariadb_warnings(const weir_task *query);

/* The name of a column, the first being 0.
 *
 * Owner:   the task, as all texts of a query, until the callback returns.
 * Result:  NULL: there is no such column. */
WEIR_API const char *weir_mariadb_name(const weir_task *query, size_t column);

/* The first column of that name.
 *
 * Result:  -ENOENT: there is none; -EINVAL for another task. */
WEIR_API int weir_mariadb_column(const weir_task *query, const char *name);

/* The number of a column's type in the protocol: 3 for INT, 8 for BIGINT, 253 for VARCHAR, 252 for BLOB and TEXT.
 *
 * Result:  -ENOENT: there is no such column.
 * Source:  MariaDB's manual, "Result Set Packets"; enum enum_field_types of <mysql.h>. */
WEIR_API int weir_mariadb_type(const weir_task *query, size_t column);

/* A value as a text, or the bytes of a BLOB, followed by a NUL that is not counted.  `size` may be NULL.
 *
 * Owner:   the task.
 * Result:  NULL and 0 bytes for SQL's NULL, and where there is no such row or column. */
WEIR_API const char *weir_mariadb_value(const weir_task *query, size_t row, size_t column, size_t *size);

/* The value as an integer.
 *
 * Result:  0; or an error, and *ret_value is untouched: -ENOENT: SQL's NULL, or no such row or column; -EINVAL: it is no
 *          integer; -ERANGE. */
WEIR_API int weir_mariadb_int(const weir_task *query, size_t row, size_t column, int64_t *ret_value);

/* The five characters by which the server says what has failed, such as "23000", and the server's number for it, such as
 * 1062.
 *
 * Result:  "" and 0 without a failure of the server or the client library. */
WEIR_API const char *weir_mariadb_sqlstate(const weir_task *query);
WEIR_API unsigned weir_mariadb_code(const weir_task *query);

/* Why it has failed, for people: the server's or the client library's text, or where it was at a limit.
 *
 * Result:  NULL for another task, and if it has not failed. */
WEIR_API const char *weir_mariadb_problem(const weir_task *query);

/* -- rows one by one -- */

/* A row that has come alone. */
typedef struct weir_mariadb_row weir_mariadb_row;

/* Makes a channel for rows: weir_channel_new(capacity, weir_mariadb_row_free).
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.
 * Threads: any. */
WEIR_API weir_channel *weir_mariadb_rows_new(size_t capacity);

/* Has the rows sent into a channel, one by one as they come, whose `drop` has to be weir_mariadb_row_free.  While
 * it is full nothing is read from the server, which then waits, too, and no thread stands.  So a table of any size
 * needs little memory.  The channel is closed when the task has ended, and the task has no rows then.  If the
 * program closes the channel, the query ends with -EPIPE.
 *
 *     weir_mariadb_set_rows(query, rows);
 *     weir_task_start(query);                          the producer
 *     weir_channel_receive_new(rows, on_row, NULL)     the consumer
 *
 * A query that ends early loses its connection, as with a cancel: the rest of its rows would have to be read.
 *
 * Owner:   the task has a reference to the channel.
 * Result:  0; -EINVAL for another task, a script or a NULL channel. */
WEIR_API int weir_mariadb_set_rows(weir_task *query, weir_channel *rows);

/* Frees a row that was taken out of its channel: a weir_free_fn.  Accepts NULL. */
WEIR_API void weir_mariadb_row_free(void *row);

/* What a row has, as weir_mariadb_columns, weir_mariadb_name, weir_mariadb_value and weir_mariadb_int.  For NULL
 * there is nothing.
 *
 * Owner:   the row.
 * Threads: where the row is yours or borrowed. */
WEIR_API size_t weir_mariadb_row_columns(const weir_mariadb_row *row);
WEIR_API const char *weir_mariadb_row_name(const weir_mariadb_row *row, size_t column);
WEIR_API const char *weir_mariadb_row_value(const weir_mariadb_row *row, size_t column, size_t *size);
WEIR_API int weir_mariadb_row_int(const weir_mariadb_row *row, size_t column, int64_t *ret_value);

/* -- transactions -- */

/* Pushes the steps of a transaction: queries of `transaction`, which is in the place of a pool, and any other
 * tasks.  The series fails with the first task that fails (weir_series_stop_on_failure).
 *
 * Threads: a worker.  With retries it is called anew for each attempt. */
typedef void weir_mariadb_steps_fn(weir_mariadb *transaction, weir_series *series, void *context);

/* How a transaction runs.  Start from WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT; 0 in a field means its default.  Texts are
 * copied. */
struct weir_mariadb_transaction_config {
        size_t size;       /* of this struct; set by WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT */
        const char *begin; /* the first statement; default: "START TRANSACTION".  "START TRANSACTION READ ONLY", for
                              example */
        unsigned attempts; /* all in all, if one ends with -EAGAIN: a deadlock; default: 1 */
        unsigned reserved; /* 0 */
        weir_nsec delay;   /* before the second attempt, at most; twice as long before each later one; default: 10 ms */
};

/* The initializer of such a config. */
#ifdef __cplusplus
#define WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT                            \
        {                                                                  \
                sizeof(struct weir_mariadb_transaction_config), 0, 0, 0, 0 \
        }
#else
#define WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT                        \
        {                                                              \
                .size = sizeof(struct weir_mariadb_transaction_config) \
        }
#endif

/* Makes a task of a transaction: START TRANSACTION on a connection of its own, the steps, and COMMIT at their end.
 * If a step fails, ROLLBACK; the task has the status of that step.  A cancel and a deadline also lead to ROLLBACK,
 * behind the end of the task.  Once COMMIT was sent they wait for the server's answer, for about a second at
 * most.  The status is that of the cancel all the same; weir_mariadb_transaction_committed says whether the
 * transaction holds.  The limit of the pool does not end COMMIT.
 *
 *     static void
 *     move(weir_mariadb *transaction, weir_series *series, void *context)
 *     {
 *             weir_series_push(series, weir_mariadb_query_new(transaction, "UPDATE ...", NULL, NULL));
 *             weir_series_push(series, weir_mariadb_query_new(transaction, "UPDATE ...", NULL, NULL));
 *     }
 *
 *     weir_task_start(weir_mariadb_transaction_new(pool, move, on_moved, NULL));
 *
 * Statements that the server commits by itself, such as CREATE TABLE, end the transaction at the server.
 *
 * Owner:   the caller, until the task is consumed.  The handle `transaction` is the library's; a reference
 *          keeps its memory.  When the transaction is over, queries of it end with -EPIPE.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: 0: it is committed;
 *          the status of the step that failed, or of the series of the steps; those of weir_mariadb_query_new for
 *          the first statement and COMMIT; -ECONNRESET during COMMIT: it is unknown whether the transaction holds;
 *          -ENOTRECOVERABLE: a step failed by a deadlock, or by a lock that was waited for in vain with
 *          innodb_rollback_on_timeout, which did not end the series, and the server has rolled back;
 *          -EINVAL: no steps, a config of a wrong size or with a value in `reserved`, or a transaction within a
 *            transaction.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_mariadb_transaction_new(weir_mariadb *pool, weir_mariadb_steps_fn *steps, weir_task_fn *done,
                                                 void *context);
WEIR_API weir_task *weir_mariadb_transaction_new_with(weir_mariadb *pool, const struct weir_mariadb_transaction_config *config,
                                                      weir_mariadb_steps_fn *steps, weir_task_fn *done, void *context);

/* Whether a transaction is committed.
 *
 * Result:  1; 0: it is not, and will not be unless its steps go on; -EINPROGRESS: COMMIT was sent and has no answer,
 *          and behind the end of the task it will get none, so it is unknown; -EINVAL: NULL, or no transaction.
 * Threads: within its flow, and behind its end, with a reference. */
WEIR_API int weir_mariadb_transaction_committed(const weir_mariadb *transaction);

/* Why a transaction has failed, for people: the problem of the first of its queries that has failed, COMMIT
 * included.
 *
 * Owner:   the handle, which a reference keeps.
 * Result:  NULL: none has, or it is no transaction.
 * Threads: within its flow, and behind its end. */
WEIR_API const char *weir_mariadb_transaction_problem(const weir_mariadb *transaction);

WEIR_END

#endif
