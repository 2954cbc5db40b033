/* database/sqlite/sqlite.h: what the files of libweir-sqlite share.
 *
 *     request.c    the tasks: a request is what a promise has of its own
 *     database.c   the requests that wait, and the functions on the executor that take them
 *     writer.c     transactions of many writes
 *     reader.c     queries, and functions that read
 *     connection.c a connection: how it is opened, interrupted, and what it has prepared
 *     statement.c  one statement: its parameters and its rows
 *     result.c     rows, and what the program reads of them
 *     status.c     what a code of SQLite is here
 *     figures.c    counters as text
 *
 * Locks: a database has one, for its lists and counters.  No code of the program, of SQLite or of weir runs under it.  The
 * connections are each used by one function on the executor at a time. */
#ifndef WEIR_DATABASE_SQLITE_H
#define WEIR_DATABASE_SQLITE_H

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <weir/promise.h>
#include <weir/sqlite.h>
#include <weir/timer.h>

#include "database/figures.h"

/* -- results -- */

struct weir__sqlite_value {
        enum weir_sqlite_type type;
        union {
                int64_t integer;
                double real;
                size_t at; /* of a text or blob: where in the data */
        };
        size_t size;
};

/* What a task has brought: the value of its promise. */
struct weir__sqlite_result {
        int code;      /* of SQLite, extended; 0: none */
        char *problem; /* NULL: none */

        size_t rows, room; /* values there is room for */
        size_t columns;
        struct weir__sqlite_value *values; /* row by row */
        char *data;                        /* the names of the columns, then texts and blobs, each with a NUL */
        size_t used, data_room;
        int64_t affected, inserted;
};

struct weir__sqlite_result *weir__sqlite_result_new(void);
void weir__sqlite_result_free(void *result); /* accepts NULL */
void weir__sqlite_result_clear(struct weir__sqlite_result *result);

/* 0, -ENOMEM or -EMSGSIZE. */
int weir__sqlite_result_begin(struct weir__sqlite_result *result, sqlite3_stmt *statement);
int weir__sqlite_result_add_row(struct weir__sqlite_result *result, sqlite3_stmt *statement,
                                const struct weir_sqlite_config *config);

/* -- requests -- */

enum weir__sqlite_kind {
        WEIR__SQLITE_QUERY,
        WEIR__SQLITE_READ,
        WEIR__SQLITE_EXEC,
        WEIR__SQLITE_ALONE,
        WEIR__SQLITE_WRITE,
        WEIR__SQLITE_CLOSE,
};

struct weir__sqlite_parameter {
        enum weir_sqlite_type type;
        union {
                int64_t integer;
                double real;
                char *data;
        };
        size_t size;
};

enum weir__sqlite_state {
        WEIR__SQLITE_NEW,
        WEIR__SQLITE_WAITING, /* in a list */
        WEIR__SQLITE_TAKEN,   /* by a function on the executor, which ends it */
        WEIR__SQLITE_OVER,
};

struct weir__sqlite_request {
        /* Constant once it waits. */
        weir_sqlite *db; /* with a reference; NULL: the task fails */
        enum weir__sqlite_kind kind;
        char *sql;
        size_t sql_size;
        weir_sqlite_fn *function;
        struct weir__sqlite_parameter *parameters;
        unsigned count;
        int fault; /* of its making: the task ends with it */

        weir_task *promise;  /* with a reference from its start to its end */
        weir_nsec since;     /* its start, on the system's clock */
        weir_timer_id timer; /* of its limit; 0: none */

        /* Guarded by the database's lock. */
        struct weir__sqlite_request *next, *previous;
        enum weir__sqlite_state state;

        /* Why it need not go on: -ETIMEDOUT or another status. */
        _Atomic int unwanted;

        /* Of the function on the executor that has taken it. */
        bool is_held;
        struct weir__sqlite_result *result;
};

struct weir__sqlite_list {
        struct weir__sqlite_request *first, *last;
        _Atomic size_t count;
};

void weir__sqlite_list_append(struct weir__sqlite_list *list, struct weir__sqlite_request *request);
struct weir__sqlite_request *weir__sqlite_list_take(struct weir__sqlite_list *list);

/* What a task has of its own; NULL for another task. */
struct weir__sqlite_request *weir__sqlite_request_of(const weir_task *task);

/* Ends a request that was taken, with its result, and gives it up. */
void weir__sqlite_end(struct weir__sqlite_request *request, int status);

/* Notes in the result why it fails: the code, and the text of SQLite if `text` is NULL.  Returns the status for it. */
int weir__sqlite_fail(struct weir__sqlite_request *request, sqlite3 *handle, int code, const char *text);

/* The status for what a function of the program has returned, above 0: a code of SQLite.  Notes it in the result of the
 * request, which may be NULL. */
int weir__sqlite_status_of_call(weir_sqlite_connection *connection, struct weir__sqlite_request *request, int code);

/* 0, or why a request that was taken need not go on. */
int weir__sqlite_cause(struct weir__sqlite_request *request);

/* Holds it: from now on a cancel comes too late.  0, or why it need not go on. */
int weir__sqlite_hold(struct weir__sqlite_request *request);

/* The status for a code of SQLite. */
int weir__sqlite_status(sqlite3 *handle, int code);

/* -- connections -- */

struct weir__sqlite_prepared {
        struct weir__sqlite_prepared *next; /* that was used longer ago */
        uint64_t hash;
        size_t size;
        sqlite3_stmt *statement;
        bool is_used; /* since the beginning of the request */
        char sql[];
};

/* The statements of the library itself. */
enum weir__sqlite_own {
        WEIR__SQLITE_BEGIN,
        WEIR__SQLITE_BEGIN_WRITE,
        WEIR__SQLITE_COMMIT,
        WEIR__SQLITE_ROLLBACK,
        WEIR__SQLITE_SAVEPOINT,
        WEIR__SQLITE_RELEASE,
        WEIR__SQLITE_UNDO,
        WEIR__SQLITE_OWN
};

struct weir_sqlite_connection {
        weir_sqlite *db;
        sqlite3 *handle;
        bool is_writer;
        bool is_query_only; /* the writer of a database in memory, which reads, or could not be set back */
        sqlite3_stmt *own[WEIR__SQLITE_OWN];
        struct weir__sqlite_prepared *prepared; /* the one that was used last is first */
        unsigned count;
        struct weir_sqlite_connection *next; /* of readers that are free; guarded by the database's lock */

        /* While something runs. */
        struct weir__sqlite_request *request; /* whose it is; NULL: the library's own */
        bool is_own;                          /* the library's: it may begin and end transactions */
        weir_nsec began;                      /* of the request, or a little later; 0: not known */
        bool is_long;                         /* it has run for so long that another thread of the executor was asked for */
        bool is_alone;                        /* what may begin and commit its own transaction: on_writer, VACUUM */
        bool is_undone;                       /* SQLite has rolled the transaction of the group back */
        const char *refusal;                  /* why the authorizer has refused a statement; NULL: it has not */
        weir_nsec busy_since;                 /* the first refusal of a lock for this call; 0: none */
};

/* Opens a connection.  NULL: *status says why, and `request` has the text, if it is not NULL. */
weir_sqlite_connection *weir__sqlite_connect(weir_sqlite *db, bool is_writer, struct weir__sqlite_request *request, int *status);
void weir__sqlite_disconnect(weir_sqlite_connection *connection); /* accepts NULL */

/* Runs a statement of the library.  A code of SQLite. */
int weir__sqlite_run_own(weir_sqlite_connection *connection, enum weir__sqlite_own which);
int weir__sqlite_set_query_only(weir_sqlite_connection *connection, bool is_on);

/* The statement of that text: SQLITE_OK, or a code.  *more: there is another statement behind it, and *statement is NULL. */
int weir__sqlite_find(weir_sqlite_connection *connection, const char *sql, size_t size, sqlite3_stmt **statement, bool *more);

/* The request is over: its statements are reset, and there are no more than allowed. */
void weir__sqlite_tidy(weir_sqlite_connection *connection);

/* Runs the statement of a request, and collects its rows.  0, or the status; the result has the text. */
int weir__sqlite_run_statement(weir_sqlite_connection *connection, struct weir__sqlite_request *request);

/* Calls the function of a request.  0, or the status; the result has the text. */
int weir__sqlite_call(weir_sqlite_connection *connection, struct weir__sqlite_request *request);

/* -- databases -- */

struct weir_sqlite {
        _Atomic size_t references;
        char *path;
        struct weir_sqlite_config config; /* without defaults; its name is of the database */
        bool is_memory;

        pthread_mutex_t opening; /* one connection is opened at a time.  No other lock is taken under it but `lock` */
        dev_t device;            /* of the file of all connections, with the inode; guarded by `opening` */
        ino_t inode;
        pthread_mutex_t lock;

        /* Guarded by lock. */
        struct weir__sqlite_list writes, reads, closes;
        bool is_writing;  /* a function on the executor takes writes, or will */
        unsigned reading; /* functions that take reads, or will */
        bool is_closing;  /* no more requests */
        bool is_closed;   /* there are no connections any more */
        bool has_closer;  /* a function on the executor closes them, or will */
        weir_sqlite_connection *free_readers;
        weir_sqlite_connection *writer; /* written under `opening` as well */

        struct weir__figured figured; /* among those of all databases */

        _Atomic unsigned connections, busy;
        _Atomic uint64_t done_writes, done_reads, failed, cancelled, commits, rollbacks, prepared, reused, rows;
        _Atomic int64_t committing;
};

/* 0, or why the database refuses such requests. */
int weir__sqlite_refusal(const weir_sqlite *db, enum weir__sqlite_kind kind);

/* Puts it into its list, and has it taken.  Its promise has a reference.  0; or why it is not in the list. */
int weir__sqlite_submit(struct weir__sqlite_request *request);

/* Nobody waits for a request any more.  Whether it was in its list, and is not now; else who has taken it will find the
 * status. */
bool weir__sqlite_withdraw(struct weir__sqlite_request *request, int status);

/* Takes the oldest request; NULL: there is none. */
struct weir__sqlite_request *weir__sqlite_take(weir_sqlite *db, struct weir__sqlite_list *list);

/* Puts one back that was taken, as the oldest. */
void weir__sqlite_put_back(weir_sqlite *db, struct weir__sqlite_request *request);

/* Ends all that wait in that list since before then. */
void weir__sqlite_end_waiting(weir_sqlite *db, struct weir__sqlite_list *list, weir_nsec before, int status);

/* Functions on the executor: run some of what waits. */
void weir__sqlite_write_some(weir_sqlite *db);
void weir__sqlite_read_some(weir_sqlite *db);

/* The connection that writes, which is opened if it is not there.  NULL: *status says why, and `request` has the text. */
weir_sqlite_connection *weir__sqlite_writer(weir_sqlite *db, struct weir__sqlite_request *request, int *status);

extern struct weir__figures weir__sqlite_figures;

/* On the system's clock, whatever weir's is. */
weir_nsec weir__sqlite_now(void);

/* Whether this is a child of the process that had the databases. */
bool weir__sqlite_is_forked(void);

#endif
