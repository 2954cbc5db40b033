/* database/sqlite/reader.c: queries, and functions that read.
 *
 * Threads: functions on the executor, each with a connection. */
#include <weir/go.h>
#include <weir/runtime.h>

#include "database/sqlite/sqlite.h"

#define TIME_AT_ONCE WEIR_MSEC(5) /* then other work of the executor has its turn */

static weir_sqlite_connection *
take_connection(weir_sqlite *db)
{
        pthread_mutex_lock(&db->lock);
        weir_sqlite_connection *connection = db->free_readers;
        if (connection)
                db->free_readers = connection->next;
        pthread_mutex_unlock(&db->lock);
        return connection;
}

static void
put_connection(weir_sqlite_connection *connection)
{
        weir_sqlite *db = connection->db;

        pthread_mutex_lock(&db->lock);
        connection->next = db->free_readers;
        db->free_readers = connection;
        pthread_mutex_unlock(&db->lock);
}

/* One that is free, or a new one.  The connection that writes is opened first: it makes the file and its tables. */
static weir_sqlite_connection *
reader(weir_sqlite *db, struct weir__sqlite_request *request, int *status)
{
        weir_sqlite_connection *connection = take_connection(db);

        if (connection || (!db->config.read_only && !weir__sqlite_writer(db, request, status)))
                return connection;
        weir_blocking_begin();
        pthread_mutex_lock(&db->opening);
        connection = weir__sqlite_connect(db, false, request, status);
        pthread_mutex_unlock(&db->opening);
        weir_blocking_end();
        return connection;
}

/* Calls the function in a transaction. */
static int
call(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        int code = weir__sqlite_run_own(connection, WEIR__SQLITE_BEGIN);

        if (code)
                return weir__sqlite_fail(request, connection->handle, code, NULL);
        int status = weir__sqlite_call(connection, request);
        weir__sqlite_tidy(connection);
        connection->request = NULL;
        if (!sqlite3_get_autocommit(connection->handle))
                weir__sqlite_run_own(connection, WEIR__SQLITE_ROLLBACK);
        return status;
}

static void
run(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        int status = request->function ? weir__sqlite_hold(request) : weir__sqlite_cause(request);

        connection->request = request;
        if (!status)
                status = request->function ? call(connection, request) : weir__sqlite_run_statement(connection, request);
        weir__sqlite_tidy(connection);
        connection->request = NULL;
        weir__sqlite_end(request, status);
}

void
weir__sqlite_read_some(weir_sqlite *db)
{
        struct weir__sqlite_request *request = weir_go_cancelled() ? NULL : weir__sqlite_take(db, &db->reads);
        weir_nsec began = weir__sqlite_now();
        int status;

        if (!request)
                return;
        weir_sqlite_connection *connection = reader(db, request, &status);
        if (!connection) {
                weir__sqlite_end(request, status);
                weir__sqlite_end_waiting(db, &db->reads, began, status);
                return;
        }
        atomic_fetch_add(&db->busy, 1);
        do
                run(connection, request);
        while (weir__sqlite_now() - began < TIME_AT_ONCE && !weir_go_cancelled() &&
               (request = weir__sqlite_take(db, &db->reads)));
        atomic_fetch_sub(&db->busy, 1);
        put_connection(connection);
}
