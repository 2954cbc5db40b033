/* database/mariadb/execute.c: a query on a connection: how it is sent, and what comes back.
 *
 *     send --> columns --> rows, one by one, into the outcome or a channel --> the next result, if there is one --> complete
 *
 * Statements with parameters go by the protocol for prepared ones, all others as texts.  No result is stored by the client
 * library.
 *
 * Threads: the function that serves the link. */
#include "database/mariadb/mariadb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL ((size_t)1 << 20) /* bytes of a statement that every server takes */

static bool
is_statement(const struct weir__mariadb_query *query)
{
        return query->count > 0 || query->is_prepared;
}

static int
fail(struct weir__mariadb_outcome *outcome, int status, const char *problem)
{
        outcome->status = status;
        if (problem && !outcome->problem)
                outcome->problem = strdup(problem);
        return status;
}

/* -- sending -- */

/* A server would end the connection, and often before it could say why. */
static int
check_size(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        const struct weir__mariadb_query *query = link->query;
        size_t size = strlen(query->base.sql), data = 0;

        for (unsigned i = 0; i < query->count; i++)
                data += query->parameters[i].type >= WEIR__MARIADB_TEXT ? query->parameters[i].size : 0;
        size = data > size ? data : size;
        if (size < SMALL)
                return 0;
        if (link->packet == 0)
                link->packet = weir__mariadb_ask(link, "SELECT @@max_allowed_packet", 0);
        if (link->packet == 0)
                return weir__mariadb_fail(link, NULL, outcome);
        if (size < link->packet)
                return 0;
        outcome->is_complete = true;
        outcome->status = -E2BIG;
        if (asprintf(&outcome->problem, "the statement has %zu bytes, and the server takes %llu (max_allowed_packet)", size,
                     (unsigned long long)link->packet) < 0)
                outcome->problem = NULL;
        return -E2BIG;
}

/* A transaction that the server has rolled back cannot be committed. */
static int
check_commit(struct weir__mariadb_query *query, struct weir__mariadb_outcome *outcome)
{
        int refused = query->base.is_commit ? weir__mariadb_hold(query) : 0;

        if (!refused)
                return 0;
        outcome->is_complete = true;
        return fail(outcome, refused,
                    refused == -ENOTRECOVERABLE ? "the server has rolled back, because a query had failed" : NULL);
}

static int
send_text(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        const struct weir__mariadb_query *query = link->query;
        bool is_script = query->kind == WEIR__MARIADB_SCRIPT;

        if (is_script && mysql_set_server_option(link->connection, MYSQL_OPTION_MULTI_STATEMENTS_ON) != 0)
                return weir__mariadb_fail(link, NULL, outcome);
        if (mysql_real_query(link->connection, query->base.sql, strlen(query->base.sql)) != 0)
                return weir__mariadb_fail(link, NULL, outcome);
        return 0;
}

/* -- results -- */

/* Reads the columns of the present result, if it has any. */
static int
begin_rows(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        MYSQL_STMT *handle = weir__mariadb_statement_handle(link->statement);
        unsigned count = handle ? mysql_stmt_field_count(handle) : mysql_field_count(link->connection);

        weir__mariadb_columns_unref(link->columns);
        link->columns = NULL;
        if (count == 0)
                return 0;
        link->result = handle ? mysql_stmt_result_metadata(handle) : mysql_use_result(link->connection);
        if (!link->result)
                return weir__mariadb_fail(link, handle, outcome);
        link->columns = weir__mariadb_columns_new(mysql_fetch_fields(link->result), count);
        if (handle) {
                mysql_free_result(link->result);
                link->result = NULL;
        }
        if (!link->columns || (handle && weir__mariadb_statement_bind(link) != 0))
                return fail(outcome, -ENOMEM, NULL);
        weir__mariadb_table_clear(&outcome->table);
        atomic_fetch_add_explicit(&link->columns->references, 1, memory_order_relaxed);
        outcome->table.columns = link->columns;
        return 0;
}

/* The next row: 1; 0: there is none; or a status. */
static int
fetch(struct weir__mariadb_link *link, const char *const **ret_values, const unsigned long **ret_sizes,
      struct weir__mariadb_outcome *outcome)
{
        if (link->statement) {
                int fetched = weir__mariadb_statement_fetch(link, ret_values, ret_sizes, outcome);

                return fetched < 0 && !outcome->status ? fail(outcome, fetched, NULL) : fetched;
        }
        MYSQL_ROW row = mysql_fetch_row(link->result);
        if (!row)
                return mysql_errno(link->connection) ? weir__mariadb_fail(link, NULL, outcome) : 0;
        *ret_values = (const char *const *)row;
        *ret_sizes = mysql_fetch_lengths(link->result);
        return 1;
}

/* Whether the result is still within the bounds of the pool: 0 or -EMSGSIZE. */
static int
check_bounds(const struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        const struct weir_mariadb_config *config = &link->pool->config;
        const struct weir__mariadb_table *table = &outcome->table;
        size_t bytes = table->used + table->rows * table->columns->count * sizeof *table->cells;
        bool has_rows = table->rows > config->max_rows;
        char text[96];

        if (!has_rows && bytes <= config->max_bytes)
                return 0;
        snprintf(text, sizeof text, "the result has more than %zu %s (max_%s)", has_rows ? config->max_rows : config->max_bytes,
                 has_rows ? "rows" : "bytes", has_rows ? "rows" : "bytes");
        return fail(outcome, -EMSGSIZE, text);
}

/* All rows of the present result.  0; a status; -EAGAIN: there is no room for *ret_row. */
static int
fetch_all(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome, weir_mariadb_row **ret_row)
{
        struct weir__mariadb_query *query = link->query;
        const char *const *values;
        const unsigned long *sizes;
        int fetched;

        while ((fetched = fetch(link, &values, &sizes, outcome)) > 0) {
                weir_mariadb_row *row = query->rows ? weir__mariadb_row_new(link->columns, values, sizes) : NULL;
                int status = query->rows ? weir__mariadb_stream_row(query, row)
                                         : weir__mariadb_table_add(&outcome->table, values, sizes);

                if (!status && !query->rows)
                        status = check_bounds(link, outcome);
                if (status == -EAGAIN)
                        *ret_row = row;
                else if (status)
                        fail(outcome, status, status == -EPIPE ? "the channel is closed" : NULL);
                if (status)
                        return status;
        }
        return fetched;
}

static void
note_counts(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        MYSQL_STMT *handle = weir__mariadb_statement_handle(link->statement);
        uint64_t affected = handle ? mysql_stmt_affected_rows(handle) : mysql_affected_rows(link->connection);

        outcome->affected = link->columns || affected == UINT64_MAX ? 0 : affected;
        outcome->inserted = handle ? mysql_stmt_insert_id(handle) : mysql_insert_id(link->connection);
        outcome->warnings = mysql_warning_count(link->connection);
}

/* 1: there is another result; 0: there is none; or a status. */
static int
next_result(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        MYSQL_STMT *handle = weir__mariadb_statement_handle(link->statement);

        mysql_free_result(link->result);
        link->result = NULL;
        int next = handle ? mysql_stmt_next_result(handle) : mysql_next_result(link->connection);
        return next > 0 ? weir__mariadb_fail(link, handle, outcome) : next == 0;
}

/* -- the whole -- */

static int
send_query(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        struct weir__mariadb_query *query = link->query;
        int status = check_commit(query, outcome);

        if (!status)
                status = check_size(link, outcome);
        if (!status)
                status = is_statement(query) ? weir__mariadb_statement_execute(link, outcome) : send_text(link, outcome);
        if (!status)
                status = begin_rows(link, outcome);
        return status;
}

/* Goes on until all results have come.  As fetch_all. */
static int
receive(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome, weir_mariadb_row **ret_row)
{
        int status = link->columns ? fetch_all(link, outcome, ret_row) : 0;

        while (!status) {
                note_counts(link, outcome);
                int next = next_result(link, outcome);
                if (next < 0)
                        return next;
                if (next == 0) {
                        outcome->is_complete = true;
                        return 0;
                }
                status = begin_rows(link, outcome);
                if (!status && link->columns)
                        status = fetch_all(link, outcome, ret_row);
        }
        return status;
}

/* What is left of it is not read: the connection is of no use then. */
static void
end(struct weir__mariadb_link *link, const struct weir__mariadb_outcome *outcome)
{
        if (!outcome->is_complete)
                link->is_broken = true;
        if (link->result && link->is_broken)
                link->result->handle = NULL;
        mysql_free_result(link->result);
        link->result = NULL;
        weir__mariadb_statement_end(link);
        weir__mariadb_columns_unref(link->columns);
        link->columns = NULL;
        if (!link->is_broken && link->query->kind == WEIR__MARIADB_SCRIPT &&
            mysql_set_server_option(link->connection, MYSQL_OPTION_MULTI_STATEMENTS_OFF) != 0)
                link->is_broken = true;
}

bool
weir__mariadb_execute(struct weir__mariadb_link *link, weir_mariadb_row **ret_row)
{
        struct weir__mariadb_outcome *outcome = &link->query->outcome;
        int status = link->paused;

        if (!link->is_begun)
                status = send_query(link, outcome);
        else if (status)
                fail(outcome, status, status == -EPIPE ? "the channel is closed" : NULL);
        link->is_begun = true;
        link->paused = 0;
        if (!status)
                status = receive(link, outcome, ret_row);
        if (status == -EAGAIN && *ret_row)
                return false;
        link->is_begun = false;
        if (outcome->table.columns && (link->query->rows || outcome->status))
                weir__mariadb_table_clear(&outcome->table);
        end(link, outcome);
        return true;
}
