/* database/sqlite/writer.c: transactions of many writes.
 *
 *     BEGIN IMMEDIATE;  SAVEPOINT; a write; RELEASE;  SAVEPOINT; a write; RELEASE;  ...  COMMIT
 *
 * A write that fails is undone to its savepoint.  One that has run is held: from then on a cancel comes too late, and its task
 * ends with the COMMIT.  An interrupt makes SQLite roll the whole transaction back.  Then those that had run, and are held,
 * are run once more in the next one.
 *
 * Threads: the function on the executor that writes, one at a time. */
#include <stdlib.h>
#include <string.h>

#include <weir/go.h>
#include <weir/runtime.h>

#include "database/sqlite/sqlite.h"

struct group {
        weir_sqlite *db;
        weir_sqlite_connection *connection;
        struct weir__sqlite_list done;  /* that have run, and wait for the commit */
        struct weir__sqlite_list again; /* that have run in a transaction that was rolled back; they come first */
        bool is_open;                   /* the transaction */
        unsigned count;                 /* of done */
        weir_nsec since;
};

/* A function may have begun a transaction of its own behind that, by a savepoint. */
static bool
is_rolled_back(const struct group *group)
{
        return group->is_open && (group->connection->is_undone || sqlite3_get_autocommit(group->connection->handle));
}

static void
end_all(struct weir__sqlite_list *list, int status, sqlite3 *handle, int code, const char *text)
{
        struct weir__sqlite_request *request;

        while ((request = weir__sqlite_list_take(list))) {
                if (code)
                        weir__sqlite_fail(request, handle, code, text);
                weir__sqlite_end(request, status);
        }
}

/* Lets the connection of a database in memory, which has read, write again.  A code of SQLite: the next write tries again. */
static int
allow_writes(weir_sqlite_connection *connection)
{
        int code = connection->is_query_only ? weir__sqlite_set_query_only(connection, false) : 0;

        connection->is_query_only = code != 0;
        return code;
}

/* Whether the transaction is open.  If it cannot be opened, the request has ended. */
static bool
begin(struct group *group, struct weir__sqlite_request *request)
{
        weir_sqlite_connection *connection = group->connection;
        weir_nsec began = weir__sqlite_now();

        connection->request = request;
        int code = allow_writes(connection);
        if (!code)
                code = weir__sqlite_run_own(connection, WEIR__SQLITE_BEGIN_WRITE);
        connection->request = NULL;
        connection->is_undone = false;
        group->is_open = !code;
        group->count = 0;
        group->since = began;
        if (!code)
                return true;
        int cause = weir__sqlite_cause(request);
        int status = cause ? cause : weir__sqlite_fail(request, connection->handle, code, NULL);
        weir__sqlite_end(request, status);
        if (!cause && status == -EBUSY) { /* these have waited as long */
                end_all(&group->again, status, connection->handle, code, NULL);
                weir__sqlite_end_waiting(group->db, &group->db->writes, began, status);
        }
        return false;
}

/* Constraints that are deferred are checked at the end of each write: at the COMMIT they would fail all. */
static int
check_deferred(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        int left = 0, most;

        sqlite3_db_status(connection->handle, SQLITE_DBSTATUS_DEFERRED_FKS, &left, &most, 0);
        return left ? weir__sqlite_fail(request, NULL, SQLITE_CONSTRAINT_FOREIGNKEY, "FOREIGN KEY constraint failed") : 0;
}

/* Runs one within the transaction.  0, and it is held; or the status with which it ends. */
static int
run(struct group *group, struct weir__sqlite_request *request)
{
        weir_sqlite_connection *connection = group->connection;
        int code = weir__sqlite_run_own(connection, WEIR__SQLITE_SAVEPOINT);

        if (code)
                return weir__sqlite_fail(request, connection->handle, code, NULL);
        int status = request->function ? weir__sqlite_hold(request) : 0;
        connection->request = request;
        if (!status)
                status = request->function ? weir__sqlite_call(connection, request)
                                           : weir__sqlite_run_statement(connection, request);
        weir__sqlite_tidy(connection);
        connection->request = NULL;
        if (!status)
                status = check_deferred(connection, request);
        if (!status)
                status = weir__sqlite_hold(request);
        if (is_rolled_back(group))
                return status ? status
                              : weir__sqlite_fail(request, NULL, SQLITE_ABORT_ROLLBACK,
                                                  "SQLite has rolled back, and the function went on");
        if (status)
                weir__sqlite_run_own(connection, WEIR__SQLITE_UNDO);
        code = weir__sqlite_run_own(connection, WEIR__SQLITE_RELEASE);
        if (code && !status) {
                status = weir__sqlite_fail(request, connection->handle, code, NULL);
                weir__sqlite_run_own(connection, WEIR__SQLITE_UNDO);
        }
        return status;
}

/* SQLite has rolled the transaction back with a write.  What has failed in the system fails for all. */
static void
begin_again(struct group *group, const struct weir__sqlite_request *request, int status)
{
        atomic_fetch_add(&group->db->rollbacks, 1);
        group->is_open = false;
        if (!sqlite3_get_autocommit(group->connection->handle))
                weir__sqlite_run_own(group->connection, WEIR__SQLITE_ROLLBACK);
        if (status == -ENOSPC || status == -EIO || status == -ENOMEM || status == -EUCLEAN) {
                int code = request->result ? request->result->code : 0;
                end_all(&group->done, status, NULL, code, code ? sqlite3_errstr(code) : NULL);
                return;
        }
        while (group->again.first)
                weir__sqlite_list_append(&group->done, weir__sqlite_list_take(&group->again));
        while (group->done.first)
                weir__sqlite_list_append(&group->again, weir__sqlite_list_take(&group->done));
}

static void
commit(struct group *group)
{
        weir_sqlite_connection *connection = group->connection;
        weir_nsec began = weir__sqlite_now();
        bool is_empty = !group->done.first;

        if (!group->is_open)
                return;
        group->is_open = false;
        weir_blocking_begin();
        int code = weir__sqlite_run_own(connection, is_empty ? WEIR__SQLITE_ROLLBACK : WEIR__SQLITE_COMMIT);
        weir_blocking_end();
        if (is_empty)
                return;
        atomic_fetch_add(&group->db->committing, weir__sqlite_now() - began);
        if (!code) {
                atomic_fetch_add(&group->db->commits, 1);
                end_all(&group->done, 0, NULL, 0, NULL);
                return;
        }
        char *text = strdup(sqlite3_errmsg(connection->handle));
        int status = weir__sqlite_status(connection->handle, code);
        if (!sqlite3_get_autocommit(connection->handle))
                weir__sqlite_run_own(connection, WEIR__SQLITE_ROLLBACK);
        atomic_fetch_add(&group->db->rollbacks, 1);
        end_all(&group->done, status, NULL, code, text ? text : sqlite3_errstr(code));
        free(text);
}

/* -- what needs no transaction of a group -- */

/* A database in memory has one connection, which must not write for a reader. */
static int
read_in_memory(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        int code = weir__sqlite_set_query_only(connection, true);
        connection->is_query_only = true;
        int status = code ? weir__sqlite_fail(request, connection->handle, code, NULL) : 0;

        if (!status)
                status = request->function ? weir__sqlite_call(connection, request)
                                           : weir__sqlite_run_statement(connection, request);
        weir__sqlite_tidy(connection);
        connection->request = NULL;
        allow_writes(connection);
        return status;
}

static void
run_alone(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        int status = request->kind == WEIR__SQLITE_QUERY ? weir__sqlite_cause(request) : weir__sqlite_hold(request);

        connection->request = request;
        if (!status && request->kind != WEIR__SQLITE_ALONE) {
                status = read_in_memory(connection, request);
        } else if (!status) {
                int code = allow_writes(connection);

                weir_blocking_begin();
                status = code ? weir__sqlite_fail(request, connection->handle, code, NULL)
                              : weir__sqlite_run_statement(connection, request);
                weir__sqlite_tidy(connection);
                weir_blocking_end();
                if (!status)
                        atomic_fetch_add(&connection->db->commits, 1);
        }
        connection->request = NULL;
        weir__sqlite_end(request, status);
}

/* -- all -- */

static struct weir__sqlite_request *
next(struct group *group)
{
        if (group->again.first)
                return weir__sqlite_list_take(&group->again);
        if (weir_go_cancelled())
                return NULL; /* a shutdown ends those that wait */
        bool is_full = group->count >= group->db->config.group ||
                       (group->count > 0 && weir__sqlite_now() - group->since >= group->db->config.group_limit);

        return group->is_open && is_full ? NULL : weir__sqlite_take(group->db, &group->db->writes);
}

/* One of those that are committed together.  Whether to go on. */
static bool
take_in(struct group *group, struct weir__sqlite_request *request)
{
        if (request->kind != WEIR__SQLITE_EXEC && request->kind != WEIR__SQLITE_WRITE) {
                if (group->is_open) {
                        weir__sqlite_put_back(group->db, request);
                        return false;
                }
                run_alone(group->connection, request);
                return true;
        }
        int status = weir__sqlite_cause(request);
        if (!status && !group->is_open && !begin(group, request))
                return true;
        if (!status)
                status = run(group, request);
        if (!status) {
                weir__sqlite_list_append(&group->done, request);
                group->count++;
                return true;
        }
        if (is_rolled_back(group))
                begin_again(group, request, status);
        weir__sqlite_end(request, status);
        return true;
}

void
weir__sqlite_write_some(weir_sqlite *db)
{
        struct weir__sqlite_request *request = weir_go_cancelled() ? NULL : weir__sqlite_take(db, &db->writes);
        struct group group = {.db = db};
        weir_nsec began = weir__sqlite_now();
        int status;

        if (!request)
                return;
        group.connection = weir__sqlite_writer(db, request, &status);
        if (!group.connection) {
                weir__sqlite_end(request, status);
                weir__sqlite_end_waiting(db, &db->writes, began, status);
                return;
        }
        atomic_fetch_add(&db->busy, 1);
        bool goes_on = take_in(&group, request);
        while (goes_on && (request = next(&group)))
                goes_on = take_in(&group, request);
        commit(&group);
        atomic_fetch_sub(&db->busy, 1);
}
