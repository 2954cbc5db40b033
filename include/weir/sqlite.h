/* weir/sqlite.h: a database of SQLite as tasks.  The library libweir-sqlite.
 *
 *     weir_sqlite *db = weir_sqlite_new("orders.db", NULL);
 *
 *     weir_task *insert = weir_sqlite_exec_new(db, "INSERT INTO orders(name, price) VALUES (?, ?)", on_insert, NULL);
 *     weir_sqlite_bind_text(insert, 1, "tea", SIZE_MAX);
 *     weir_sqlite_bind_int64(insert, 2, 350);
 *     weir_series_push(series, insert);
 *     weir_series_push(series, weir_sqlite_query_new(db, "SELECT name, price FROM orders", on_rows, NULL));
 *
 *     static void
 *     on_rows(weir_task *query, void *context)
 *     {
 *             if (weir_task_status(query))
 *                     fprintf(stderr, "%s\n", weir_sqlite_problem(query));
 *             for (size_t row = 0; row < weir_sqlite_rows(query); row++)
 *                     printf("%s: %" PRId64 "\n", weir_sqlite_text(query, row, 0, NULL), weir_sqlite_int64(query, row, 1));
 *     }
 *
 * SQLite blocks, so its calls run on threads of the executor (weir/go.h), and no callback waits for
 * them.  A database has one connection that writes and several that read.  The journal is a WAL: a
 * reader sees the last commit before its start, and readers and the writer do not wait for each
 * other.
 *
 * Writes are committed in groups.  The writes that wait while a transaction is being committed make
 * the next transaction together, so that one fsync serves them all.  Each of them has a savepoint: one
 * that fails is undone alone.  The task of a write ends when the transaction that contains it is
 * committed.
 *
 * A cancel, a deadline and a shutdown are decisive.  A write whose task has the status 0 is in the
 * database, and one with another status is not.  The only doubt is left by -EIO from a commit whose
 * fsync has failed: docs/sqlite.md. */
#ifndef WEIR_SQLITE_H
#define WEIR_SQLITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/task.h>
#include <weir/time.h>

WEIR_BEGIN

/* Those of <sqlite3.h>, which a program includes if it uses them. */
struct sqlite3;
struct sqlite3_stmt;

/* -- databases -- */

/* A database: a file, its connections, and the tasks that wait for them.  Tasks have references. */
typedef struct weir_sqlite weir_sqlite;

/* A connection of a database, while a function of the program has it. */
typedef struct weir_sqlite_connection weir_sqlite_connection;

/* Prepares a connection that was just opened: sets a PRAGMA, adds functions or collations, makes tables.
 * It is called outside of a transaction.  Result: 0; otherwise the connection is closed again, and the
 * task that needed it has that status.
 *
 * The PRAGMAs busy_timeout, query_only, journal_mode and locking_mode are the library's.  A statement that
 * would set one of them is refused, here and in all tasks: SQLite says SQLITE_AUTH.  The last two may be set
 * to WAL and NORMAL, which they are anyway. */
typedef int weir_sqlite_open_fn(weir_sqlite_connection *connection, void *context);

/* When a commit is on the disk. */
enum weir_sqlite_sync {
        WEIR_SQLITE_SYNC_FULL = 0, /* before its tasks end: it survives a loss of power */
        WEIR_SQLITE_SYNC_NORMAL,   /* some time later: a loss of power may take back the last commits, and damages nothing;
                                      the end of the process takes back none */
        WEIR_SQLITE_SYNC_OFF,      /* when the system likes: a loss of power may damage the file */
};

/* How a database works.  Start from WEIR_SQLITE_CONFIG_DEFAULT; 0 in a field means its default; WEIR_FOREVER
 * and SIZE_MAX mean no limit.  Texts are copied. */
struct weir_sqlite_config {
        size_t size;                       /* of this struct; set by WEIR_SQLITE_CONFIG_DEFAULT */
        const char *name;                  /* in dumps and metrics; default: the path behind its last slash */
        enum weir_sqlite_sync synchronous; /* default: WEIR_SQLITE_SYNC_FULL */
        bool read_only;                    /* the file must exist; writes end with -EROFS */
        unsigned readers;                  /* connections that read; each is opened when it is first needed; default: 4 */
        unsigned group;                    /* writes in one transaction at most; 1: each has its own; default: 1000 */
        weir_nsec group_limit;             /* no further write joins a transaction that is older; default: 20 ms */
        unsigned waiting;                  /* tasks that may wait for a connection; a further one ends with -ENOBUFS;
                                             default: 1,000,000 */
        unsigned statements;               /* prepared statements that each connection keeps; default: 64 */
        weir_nsec busy_limit;              /* how long a task waits for a lock of another process; default: 5 s */
        weir_nsec limit;                   /* of each task, from its start to its end: -ETIMEDOUT; default: WEIR_FOREVER */
        size_t max_rows;                   /* of one result; more end the task with -EMSGSIZE; default: 1,000,000 */
        size_t max_bytes;                  /* that one result may use; more end the task with -EMSGSIZE; default: 16 MiB */
        weir_sqlite_open_fn *on_writer;    /* called with a fresh connection that writes; default: none */
        weir_sqlite_open_fn *on_reader;    /* called with a fresh connection that reads; default: none */
        void *context;                     /* of these two; it must stay valid until the database is closed */
};

/* The initializer of a config. */
#ifdef __cplusplus
#define WEIR_SQLITE_CONFIG_DEFAULT \
        {sizeof(struct weir_sqlite_config), 0, WEIR_SQLITE_SYNC_FULL, false, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_SQLITE_CONFIG_DEFAULT {.size = sizeof(struct weir_sqlite_config)}
#endif

/* Makes a database.  The file is opened, or made, by the first task that needs it.  If that fails the
 * task has the failure, and the next one tries again.  A NULL config is the default.
 *
 * The path ":memory:" is a database that lives as long as the object.  It has one connection, which also
 * serves what reads.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL with errno EINVAL for a NULL or an empty path, and for a config of a wrong size or with an
 *          unknown value; ENOMEM; ENOTSUP: this SQLite was built without threads; ECHILD in a forked child.
 * Threads: any.  Never blocks.  It works before the runtime has started. */
WEIR_API weir_sqlite *weir_sqlite_new(const char *path, const struct weir_sqlite_config *config);

/* Takes and drops a reference.  Tasks have their own.  When the last one is dropped the connections are
 * closed on the executor, or in the call if the runtime does not run.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_sqlite *weir_sqlite_ref(weir_sqlite *db);
WEIR_API void weir_sqlite_unref(weir_sqlite *db);

/* Makes a task that closes the database.  A pool of connections to a server is closed at once
 * (weir_pq_close); this one takes its time, and a program may want to know when the file is complete.
 *
 * From the start of the task on other tasks are refused: they end with -EPIPE.  Those that had started
 * before go on to their ends.  Then the connections are closed, and SQLite moves what is in the WAL into the
 * file.  A cancel ends the task, and the closing goes on.
 *
 * Owner:   the caller, until the task is consumed.  References stay, and are to be dropped.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: 0; -ENOMEM for a NULL
 *          database; -ECHILD in a forked child; -ESHUTDOWN, -ECANCELED or -ETIMEDOUT if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_sqlite_close_new(weir_sqlite *db, weir_task_fn *done, void *context);

/* -- statements -- */

/* Makes a task that runs one SQL statement and takes its rows.  A query runs on a connection that reads:
 * a statement that would write ends with -EROFS.  An exec runs on the connection that writes, in the
 * transaction of its group; its rows are those of RETURNING.
 *
 * Rows are copied while the statement runs, and are there in the callback, and in a fiber until its
 * next await.  For results that do not fit into memory use weir_sqlite_read_new.
 *
 * A task that is cancelled ends at once.  If its statement runs, it is interrupted and undone behind that.
 * When the statement of an exec has run, a cancel comes too late: the task ends with its transaction.  The
 * same holds for a deadline and for a shutdown.
 *
 * Owner:   the caller, until the task is consumed.  The SQL is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status:
 *          0;
 *          -EINVAL: the SQL is NULL, empty, wrong, or more than one statement; it begins or ends a
 *            transaction, or sets a PRAGMA that is the library's;
 *          -ERANGE: a parameter that was bound is not in it; an error of a bind function;
 *          -EEXIST: a row with that key exists (UNIQUE, PRIMARY KEY); -EPERM: another constraint of the
 *            table forbids it;
 *          -EMSGSIZE: more rows or bytes than max_rows and max_bytes; -E2BIG: a text or blob is larger than
 *            SQLite allows;
 *          -EBUSY: another process has locked the file for longer than busy_limit;
 *          -EROFS: the statement would write, and the connection or the file is read-only;
 *          -ENOSPC: the disk is full; -EIO: the disk or its system has failed, or the file may not grow;
 *          -ESTALE: a connection had to be opened, and another file, or none, is where that of the others was;
 *          -EUCLEAN: the file is damaged, or is no database; -ENOENT, -EACCES and others of open(2): it cannot
 *            be opened; -ENOTSUP: its file system has no shared memory, which a WAL needs;
 *          -ENOBUFS: more tasks wait than the config allows; -EPIPE: the database is being closed;
 *          -ENOMEM, also for a NULL database; -ECHILD in a forked child;
 *          -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before, -ETIMEDOUT also at the limit of the
 *            config.
 * Threads: any. */
WEIR_API weir_task *weir_sqlite_query_new(weir_sqlite *db, const char *sql, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_sqlite_exec_new(weir_sqlite *db, const char *sql, weir_task_fn *done, void *context);

/* Makes an exec whose statement runs by itself, in no transaction: for VACUUM, for a PRAGMA, and for
 * changes that are too large for a transaction with others.  SQLite commits it.
 *
 * A cancel before the statement begins ends the task at once.  Later the statement is interrupted and
 * undone, and then the task ends; or the statement is faster, and the task has its result.
 *
 * Owner, Result, Threads: as for weir_sqlite_exec_new. */
WEIR_API weir_task *weir_sqlite_exec_alone_new(weir_sqlite *db, const char *sql, weir_task_fn *done, void *context);

/* Binds a value to a parameter by its number, the first being 1: in SQLite one number may be in several
 * places of a statement.  A parameter that is not bound is NULL.  Another bind replaces it.
 *
 * Owner:   texts and blobs are copied.  A size of SIZE_MAX of a text is up to its NUL; a NULL text of that size
 *          is bound as NULL.
 * Result:  0; -EINVAL: another task, or NULL data with a size; -ERANGE: a number below 1 or above 32,766;
 *          -ENOMEM.  The task has that status, too, so nobody has to look.  -EBUSY: the task was started:
 *          nothing has changed.
 * Threads: any, before the task is consumed. */
WEIR_API int weir_sqlite_bind_int64(weir_task *task, unsigned parameter, int64_t value);
WEIR_API int weir_sqlite_bind_double(weir_task *task, unsigned parameter, double value);
WEIR_API int weir_sqlite_bind_text(weir_task *task, unsigned parameter, const char *text, size_t size);
WEIR_API int weir_sqlite_bind_blob(weir_task *task, unsigned parameter, const void *data, size_t size);
WEIR_API int weir_sqlite_bind_null(weir_task *task, unsigned parameter);

/* How many rows and columns there are, and the name of a column, the first being 0.
 *
 * Owner:   the task, the name.
 * Result:  0, and NULL, if there are none, after a failure, and for another task.
 * Threads: inside the task's callback. */
WEIR_API size_t weir_sqlite_rows(const weir_task *task);
WEIR_API size_t weir_sqlite_columns(const weir_task *task);
WEIR_API const char *weir_sqlite_name(const weir_task *task, size_t column);

/* The first column of that name.
 *
 * Result:  -ENOENT: there is none; -EINVAL for another task, and for NULL.
 * Threads: inside the task's callback. */
WEIR_API int weir_sqlite_column(const weir_task *task, const char *name);

/* The types of values in SQLite. */
enum weir_sqlite_type {
        WEIR_SQLITE_NULL = 0, /* no value */
        WEIR_SQLITE_INT64,    /* an integer */
        WEIR_SQLITE_DOUBLE,   /* a floating number */
        WEIR_SQLITE_TEXT,     /* UTF-8 */
        WEIR_SQLITE_BLOB,     /* bytes */
};

/* The type of a value.  Rows and columns count from 0.
 *
 * Result:  WEIR_SQLITE_NULL also where there is no such row or column.
 * Threads: inside the task's callback. */
WEIR_API enum weir_sqlite_type weir_sqlite_type(const weir_task *task, size_t row, size_t column);

/* A value.  In SQLite each value has a type of its own, so there is a function for each type.  An integer
 * may be read as a double, and a double as an integer, which is cut to the nearest one towards 0.  A text may
 * be read as a blob and a blob as a text; both are followed by a NUL that is not counted.  `size` may be NULL.
 *
 * Owner:   the task.
 * Result:  0, NULL and 0 bytes for a value of another type, and where there is none.  The data of a blob of
 *          0 bytes is "".
 * Threads: inside the task's callback. */
WEIR_API int64_t weir_sqlite_int64(const weir_task *task, size_t row, size_t column);
WEIR_API double weir_sqlite_double(const weir_task *task, size_t row, size_t column);
WEIR_API const char *weir_sqlite_text(const weir_task *task, size_t row, size_t column, size_t *size);
WEIR_API const void *weir_sqlite_blob(const weir_task *task, size_t row, size_t column, size_t *size);

/* How many rows the statement has inserted, changed or deleted, and the rowid that it has inserted last.
 *
 * Result:  0 for what does not write, after a failure, and for another task.
 * Threads: inside the task's callback. */
WEIR_API uint64_t weir_sqlite_affected(const weir_task *task);
WEIR_API int64_t weir_sqlite_inserted(const weir_task *task);

/* Why the task has failed, for people: SQLite's words, with the name of the database and the beginning of the SQL:
 * "orders.db: INSERT INTO orders(name, price) ...: UNIQUE constraint failed: orders.name".  Of a failure that
 * is not SQLite's: what weir_strerror says.
 *
 * Owner:   the task.
 * Result:  NULL for another task, and if it has not failed.
 * Threads: inside the task's callback. */
WEIR_API const char *weir_sqlite_problem(const weir_task *task);

/* SQLite's extended result code of the failure, such as SQLITE_CONSTRAINT_UNIQUE.
 *
 * Result:  0 without a failure, for one that is not SQLite's, and for another task.
 * Threads: inside the task's callback. */
WEIR_API int weir_sqlite_code(const weir_task *task);

/* -- functions -- */

/* A function of the program that has a connection.  It uses the functions of <sqlite3.h> on
 * weir_sqlite_handle, and statements of weir_sqlite_prepare.  It does not begin, commit or roll back a
 * transaction; savepoints of its own are allowed, whose names do not begin with weir__.  Result: 0, and
 * what it has written will be committed; else a negative errno, or what a call of SQLite has returned, and
 * it is undone.  It must not wait for a flow (-EDEADLK), and must not keep the connection.
 *
 * A function that writes may be called more than once: if another write of its transaction is interrupted,
 * SQLite undoes the whole transaction, and those that were run before are run again.  So it changes nothing
 * but the database and its context.
 *
 * If SQLite undoes the transaction while a function runs, as by INSERT OR ROLLBACK, the function should return.
 * Its later writes are not kept: their commit is refused (SQLITE_CONSTRAINT_COMMITHOOK).  If it returns 0
 * all the same, the task ends with -EINVAL, and weir_sqlite_code is SQLITE_ABORT_ROLLBACK.
 *
 * Statements that the function has prepared by sqlite3_prepare_v2 are reset when it returns. */
typedef int weir_sqlite_fn(weir_sqlite_connection *connection, void *context);

/* Makes a task that calls `function` with the context and a connection, on a thread of the executor.
 *
 * A write has the connection that writes, in the transaction of its group.  A read has one that reads,
 * in a transaction of its own: all its statements see the same state of the database.
 *
 * A cancel, a deadline or a shutdown before the function is called ends the task at once.  While the
 * function runs, the statement in it is interrupted (SQLITE_INTERRUPT), and so are those after it.  Then
 * what it has written is undone, whatever it returns, and the task ends with the cause.  So the context is
 * there as long as the function runs.  When the function of a write has returned 0, a cancel comes too
 * late: the task has the result of the commit.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: as for
 *          weir_sqlite_exec_new; what the function has returned, if it is negative.  If that is above 0 it
 *          counts as a code of SQLite.  -EINVAL also without a function.
 * Threads: any. */
WEIR_API weir_task *weir_sqlite_write_new(weir_sqlite *db, weir_sqlite_fn *function, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_sqlite_read_new(weir_sqlite *db, weir_sqlite_fn *function, weir_task_fn *done, void *context);

/* SQLite's handle of the connection.  The progress handler, the busy handler, the authorizer, and the hooks
 * of commits and rollbacks of the handle are the library's.
 *
 * Owner:   borrowed until the function returns.
 * Threads: inside the function. */
WEIR_API struct sqlite3 *weir_sqlite_handle(weir_sqlite_connection *connection);

/* A prepared statement, out of those that the connection keeps.  It has no values bound, and is at its
 * beginning.  The same SQL gives the same statement during one function, which is then reset and unbound.
 *
 * Owner:   borrowed until the function returns, which does not finalize it.
 * Result:  NULL when SQLite refuses the SQL: sqlite3_errcode and sqlite3_errmsg of the handle say why.
 * Threads: inside the function. */
WEIR_API struct sqlite3_stmt *weir_sqlite_prepare(weir_sqlite_connection *connection, const char *sql);

/* Runs one or more statements without parameters, whose rows are dropped.
 *
 * Result:  0, or SQLite's extended result code, which the function may return.
 * Threads: inside the function. */
WEIR_API int weir_sqlite_run(weir_sqlite_connection *connection, const char *sql);

/* Whether the function should return early, because nobody waits for what it does: between two statements, or
 * in a long computation.
 *
 * Result:  0; -ECANCELED, -ETIMEDOUT or another status: why its task ends; -ESHUTDOWN during a shutdown,
 *          which waits for the function.
 * Threads: inside the function. */
WEIR_API int weir_sqlite_cancelled(weir_sqlite_connection *connection);

/* -- figures -- */

/* What a database has and has done.  Start from WEIR_SQLITE_STATS_DEFAULT. */
struct weir_sqlite_stats {
        size_t size;           /* of this struct; set by WEIR_SQLITE_STATS_DEFAULT */
        unsigned connections;  /* that are open */
        unsigned busy;         /* of them: they run something */
        size_t waiting_writes; /* tasks that wait for the connection that writes */
        size_t waiting_reads;  /* tasks that wait for one that reads */
        uint64_t writes;       /* tasks that have written: their transactions are committed */
        uint64_t reads;        /* tasks that have read */
        uint64_t failed;       /* tasks that ended with a failure of SQLite, of a limit, or of their function */
        uint64_t cancelled;    /* tasks that were cancelled, over a deadline or shut down after their start */
        uint64_t commits;      /* transactions that were committed; writes / commits is the mean size of a group */
        uint64_t rollbacks;    /* transactions that were rolled back as a whole */
        uint64_t prepared;     /* statements that had to be prepared */
        uint64_t reused;       /* statements that a connection had kept */
        uint64_t rows;         /* that queries and execs have returned */
        weir_nsec committing;  /* time that commits have taken in all */
};

/* The initial value of a struct weir_sqlite_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_SQLITE_STATS_DEFAULT {sizeof(struct weir_sqlite_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_SQLITE_STATS_DEFAULT {.size = sizeof(struct weir_sqlite_stats)}
#endif

/* Fills `stats`.
 *
 * Result:  0; -EINVAL for NULL, or a wrong size; -ENOMEM for a NULL database; -ECHILD in a forked child.
 * Threads: any, also inside a callback.  The numbers are of about one instant. */
WEIR_API int weir_sqlite_stats(const weir_sqlite *db, struct weir_sqlite_stats *stats);

/* Writes the figures of all databases that are open to a descriptor, in the text format of
 * weir_metrics_write.  Names begin with weir_sqlite_, and the label `database` has the name, with "#2" and
 * so on behind it when several databases have the same one.
 *
 *     weir_metrics_add(weir_sqlite_metrics_write);
 *
 * puts them into the text of weir_metrics_write, and on the page of weir_http_debug.
 *
 * Result:  0; what write(2) reports, when some of the text may have been written; -ENOMEM; -ECHILD in a forked
 *          child.
 * Threads: any, also inside a callback, where a blocking descriptor delays its neighbours. */
WEIR_API int weir_sqlite_metrics_write(int fd);

WEIR_END

#endif
