/* database/sqlite/statement.c: what a task runs on a connection: one statement, or a function of the program.
 *
 * Threads: the function on the executor that has the connection. */
#include <stdio.h>
#include <string.h>

#include "database/sqlite/sqlite.h"

/* A failure that is not SQLite's. */
static int
refuse(struct weir__sqlite_request *request, int status, const char *why)
{
        weir__sqlite_fail(request, NULL, SQLITE_MISUSE, why);
        if (request->result)
                request->result->code = 0;
        return status;
}

static int
refuse_size(const weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        const struct weir_sqlite_config *config = &connection->db->config;
        bool has_rows = request->result->rows >= config->max_rows;
        char text[96];

        snprintf(text, sizeof text, "the result has more than %zu %s (max_%s)", has_rows ? config->max_rows : config->max_bytes,
                 has_rows ? "rows" : "bytes", has_rows ? "rows" : "bytes");
        return refuse(request, -EMSGSIZE, text);
}

/* What SQLite has just said. */
static int
fail(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        int code = sqlite3_extended_errcode(connection->handle);
        int cause = (code & 0xff) == SQLITE_INTERRUPT || (code & 0xff) == SQLITE_BUSY ? weir__sqlite_cause(request) : 0;

        if (connection->refusal)
                return refuse(request, -EINVAL, connection->refusal);
        if (cause) {
                if (request->result)
                        weir__sqlite_result_clear(request->result);
                return cause;
        }
        return weir__sqlite_fail(request, connection->handle, code, NULL);
}

static int
bind(sqlite3_stmt *statement, int number, const struct weir__sqlite_parameter *parameter)
{
        switch (parameter->type) {
        case WEIR_SQLITE_INT64: return sqlite3_bind_int64(statement, number, parameter->integer);
        case WEIR_SQLITE_DOUBLE: return sqlite3_bind_double(statement, number, parameter->real);
        case WEIR_SQLITE_TEXT:
                return sqlite3_bind_text64(statement, number, parameter->data, parameter->size, SQLITE_STATIC, SQLITE_UTF8);
        case WEIR_SQLITE_BLOB: return sqlite3_bind_blob64(statement, number, parameter->data, parameter->size, SQLITE_STATIC);
        default: return sqlite3_bind_null(statement, number);
        }
}

/* SQLITE_OK, or a code. */
static int
bind_all(sqlite3_stmt *statement, const struct weir__sqlite_request *request)
{
        int code = SQLITE_OK;

        for (unsigned i = 0; i < request->count && !code; i++)
                code = bind(statement, (int)i + 1, &request->parameters[i]);
        return code;
}

/* Runs it to its end.  A statement that was kept is prepared anew in its first step if the schema has changed, so its columns are
 * known behind that. */
static int
step(weir_sqlite_connection *connection, struct weir__sqlite_request *request, sqlite3_stmt *statement)
{
        int status = 0, code;
        bool is_first = true;

        connection->busy_since = 0;
        do {
                code = sqlite3_step(statement);
                if (code != SQLITE_ROW && code != SQLITE_DONE)
                        return fail(connection, request);
                if (is_first)
                        status = weir__sqlite_result_begin(request->result, statement);
                is_first = false;
                if (!status && code == SQLITE_ROW)
                        status = weir__sqlite_result_add_row(request->result, statement, &connection->db->config);
        } while (!status && code == SQLITE_ROW);
        return status == -EMSGSIZE ? refuse_size(connection, request) : status;
}

/* Looks the statement up, and refuses what may not run. */
static int
find(weir_sqlite_connection *connection, struct weir__sqlite_request *request, sqlite3_stmt **statement)
{
        bool more;

        if (weir__sqlite_find(connection, request->sql, request->sql_size, statement, &more))
                return fail(connection, request);
        if (!*statement)
                return refuse(request, -EINVAL, more ? "it is more than one statement" : "there is no statement in it");
        if (request->kind == WEIR__SQLITE_QUERY && !sqlite3_stmt_readonly(*statement))
                return refuse(request, -EROFS, "a query does not write");
        if (request->count > (unsigned)sqlite3_bind_parameter_count(*statement))
                return refuse(request, -ERANGE, "a parameter was bound that is not in it");
        return bind_all(*statement, request) ? fail(connection, request) : 0;
}

int
weir__sqlite_run_statement(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        sqlite3_stmt *statement;

        connection->refusal = NULL;
        int status = find(connection, request, &statement);
        if (status)
                return status;
        sqlite3_int64 before = sqlite3_total_changes64(connection->handle);
        sqlite3_set_last_insert_rowid(connection->handle, 0);
        connection->is_alone = request->kind == WEIR__SQLITE_ALONE;
        status = step(connection, request, statement);
        connection->is_alone = false;
        if (!status && sqlite3_total_changes64(connection->handle) != before) {
                request->result->affected = sqlite3_changes64(connection->handle);
                request->result->inserted = sqlite3_last_insert_rowid(connection->handle);
        }
        return status;
}

/* Statements of the function's own would keep a transaction open, or the state that they read. */
static void
stop_statements(sqlite3 *handle)
{
        for (sqlite3_stmt *one = NULL; (one = sqlite3_next_stmt(handle, one));)
                if (sqlite3_stmt_busy(one))
                        sqlite3_reset(one);
}

int
weir__sqlite_call(weir_sqlite_connection *connection, struct weir__sqlite_request *request)
{
        connection->refusal = NULL;
        int status = request->function(connection, weir_task_context(request->promise));
        int cause = weir__sqlite_cause(request);

        if (cause)
                status = cause;
        else if (status > 0) /* before other calls replace what SQLite has to say */
                status = weir__sqlite_status_of_call(connection, request, status);
        stop_statements(connection->handle);
        return status;
}

/* -- for the function -- */

struct sqlite3 *
weir_sqlite_handle(weir_sqlite_connection *connection)
{
        return connection ? connection->handle : NULL;
}

struct sqlite3_stmt *
weir_sqlite_prepare(weir_sqlite_connection *connection, const char *sql)
{
        sqlite3_stmt *statement = NULL;
        bool more;

        if (connection && sql)
                weir__sqlite_find(connection, sql, strlen(sql), &statement, &more);
        return statement;
}

int
weir_sqlite_cancelled(weir_sqlite_connection *connection)
{
        return connection && connection->request ? weir__sqlite_cause(connection->request) : 0;
}

int
weir_sqlite_run(weir_sqlite_connection *connection, const char *sql)
{
        if (!connection || !sql)
                return SQLITE_MISUSE;
        connection->busy_since = 0;
        return sqlite3_exec(connection->handle, sql, NULL, NULL, NULL);
}
