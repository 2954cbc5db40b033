/* database/mariadb/statement.c: prepared statements: the table of a link, by their text, and how they are executed.
 *
 * All values come as texts: the client library converts them.  A column has a buffer for values of its usual size.  A larger one
 * is fetched again, into a block of its own that lasts until the next row.
 *
 * Threads: the function that serves the link. */
#include "database/mariadb/mariadb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 64  /* of a table; a power of two */
#define USUAL   256 /* bytes of a value for which there is a buffer */

#define NO_SUCH_STATEMENT 1243 /* ER_UNKNOWN_STMT_HANDLER */
#define OTHER_COLUMNS     2057 /* CR_NEW_STMT_METADATA */

struct weir__mariadb_statement {
        struct weir__mariadb_statement *next; /* in its bucket */
        MYSQL_STMT *handle;
        uint64_t used; /* on the link's clock */

        /* Of its rows. */
        unsigned columns; /* that there is room for */
        MYSQL_BIND *binds;
        unsigned long *sizes;
        my_bool *nulls;
        char *buffers;
        char **large;        /* blocks of the last row */
        const char **values; /* of it */

        char sql[];
};

MYSQL_STMT *
weir__mariadb_statement_handle(const struct weir__mariadb_statement *statement)
{
        return statement ? statement->handle : NULL;
}

/* -- the table -- */

static unsigned
bucket_of(const char *sql)
{
        uint32_t hash = 2166136261u; /* FNV-1a */

        for (; *sql; sql++)
                hash = (hash ^ (unsigned char)*sql) * 16777619u;
        return (hash ^ hash >> 16) & (BUCKETS - 1);
}

/* The pointer to it in its chain. */
static struct weir__mariadb_statement **
find(struct weir__mariadb_link *link, const char *sql)
{
        struct weir__mariadb_statement **at = &link->statements[bucket_of(sql)];

        while (*at && strcmp((*at)->sql, sql) != 0)
                at = &(*at)->next;
        return at;
}

static void
free_large(struct weir__mariadb_statement *statement)
{
        for (unsigned i = 0; statement->large && i < statement->columns; i++) {
                free(statement->large[i]);
                statement->large[i] = NULL;
        }
}

static void
free_room(struct weir__mariadb_statement *statement)
{
        free_large(statement);
        free(statement->binds);
        free(statement->sizes);
        free(statement->nulls);
        free(statement->buffers);
        free(statement->large);
        free(statement->values);
        statement->binds = NULL;
        statement->sizes = NULL;
        statement->nulls = NULL;
        statement->buffers = NULL;
        statement->large = NULL;
        statement->values = NULL;
        statement->columns = 0;
}

static void
free_statement(struct weir__mariadb_statement *statement)
{
        mysql_stmt_close(statement->handle);
        free_room(statement);
        free(statement);
}

/* Takes one out of the table, and frees it. */
static void
drop(struct weir__mariadb_link *link, struct weir__mariadb_statement **at)
{
        struct weir__mariadb_statement *statement = *at;

        *at = statement->next;
        link->statement_count--;
        free_statement(statement);
}

/* Makes room for one more. */
static void
drop_oldest(struct weir__mariadb_link *link)
{
        struct weir__mariadb_statement **oldest = NULL;

        if (link->statement_count < link->pool->config.statements)
                return;
        for (unsigned i = 0; i < BUCKETS; i++)
                for (struct weir__mariadb_statement **at = &link->statements[i]; *at; at = &(*at)->next)
                        if (!oldest || (*at)->used < (*oldest)->used)
                                oldest = at;
        if (oldest)
                drop(link, oldest);
}

void
weir__mariadb_statement_free_all(struct weir__mariadb_link *link)
{
        for (unsigned i = 0; link->statements && i < BUCKETS; i++)
                while (link->statements[i])
                        drop(link, &link->statements[i]);
        free(link->statements);
        link->statements = NULL;
        link->statement = NULL;
}

/* -- preparing -- */

static struct weir__mariadb_statement *
make(struct weir__mariadb_link *link, const char *sql, struct weir__mariadb_outcome *outcome)
{
        size_t size = strlen(sql) + 1;
        struct weir__mariadb_statement *statement = calloc(1, sizeof *statement + size);

        if (statement)
                statement->handle = mysql_stmt_init(link->connection);
        if (!statement || !statement->handle) {
                free(statement);
                outcome->status = -ENOMEM;
                outcome->is_complete = true;
                return NULL;
        }
        memcpy(statement->sql, sql, size);
        if (mysql_stmt_prepare(statement->handle, sql, size - 1) == 0)
                return statement;
        weir__mariadb_fail(link, statement->handle, outcome);
        free_statement(statement);
        return NULL;
}

static void
count(const struct weir__mariadb_link *link, bool is_new)
{
        weir_mariadb *pool = link->pool;

        pthread_mutex_lock(&pool->base.lock);
        pool->prepared += is_new;
        pool->reused += !is_new;
        pthread_mutex_unlock(&pool->base.lock);
}

/* Sets link->statement.  0, or the status of the outcome. */
static int
look_up(struct weir__mariadb_link *link, const char *sql, struct weir__mariadb_outcome *outcome)
{
        if (!link->statements && !(link->statements = calloc(BUCKETS, sizeof(*link->statements)))) {
                outcome->is_complete = true;
                return outcome->status = -ENOMEM;
        }
        struct weir__mariadb_statement **at = find(link, sql);
        bool is_new = !*at;
        if (is_new) {
                drop_oldest(link);
                struct weir__mariadb_statement *made = make(link, sql, outcome);
                if (!made)
                        return outcome->status;
                at = find(link, sql);
                *at = made;
                link->statement_count++;
        }
        link->statement = *at;
        link->statement->used = ++link->clock;
        count(link, is_new);
        return 0;
}

/* -- executing -- */

/* The parameters.  The data are the query's until it is over. */
static void
fill(MYSQL_BIND *binds, struct weir__mariadb_query *query)
{
        static const enum enum_field_types types[] = {
                [WEIR__MARIADB_NONE] = MYSQL_TYPE_NULL,
                [WEIR__MARIADB_INT] = MYSQL_TYPE_LONGLONG,
                [WEIR__MARIADB_TEXT] = MYSQL_TYPE_STRING,
                [WEIR__MARIADB_BINARY] = MYSQL_TYPE_BLOB,
        };

        for (unsigned i = 0; i < query->count; i++) {
                struct weir__mariadb_parameter *parameter = &query->parameters[i];
                bool is_data = parameter->type >= WEIR__MARIADB_TEXT;

                binds[i].buffer_type = types[parameter->type];
                binds[i].buffer = is_data ? (void *)parameter->data : &parameter->integer;
                binds[i].buffer_length = is_data ? parameter->size : sizeof parameter->integer;
        }
}

static int
refuse(struct weir__mariadb_outcome *outcome, const struct weir__mariadb_query *query, unsigned long wanted)
{
        outcome->is_complete = true;
        if (asprintf(&outcome->problem, "the statement has %lu parameters, and the query %u", wanted, query->count) < 0)
                outcome->problem = NULL;
        return outcome->status = -EINVAL;
}

static int
execute(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        struct weir__mariadb_query *query = link->query;
        MYSQL_STMT *handle = link->statement->handle;
        MYSQL_BIND few[WEIR__MARIADB_FEW] = {{0}}, *binds = few;

        if (mysql_stmt_param_count(handle) != query->count)
                return refuse(outcome, query, mysql_stmt_param_count(handle));
        if (query->count > WEIR__MARIADB_FEW && !(binds = calloc(query->count, sizeof *binds))) {
                outcome->is_complete = true;
                return outcome->status = -ENOMEM;
        }
        fill(binds, query);
        bool is_done = (query->count == 0 || !mysql_stmt_bind_param(handle, binds)) && mysql_stmt_execute(handle) == 0;
        int status = is_done ? 0 : weir__mariadb_fail(link, handle, outcome);
        if (binds != few)
                free(binds);
        return status;
}

int
weir__mariadb_statement_execute(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        const char *sql = link->query->base.sql;
        int status = look_up(link, sql, outcome);

        if (!status)
                status = execute(link, outcome);
        if (status && outcome->code == OTHER_COLUMNS) { /* its rows cannot be read, and so the connection is of no use */
                free(outcome->problem);
                outcome->problem = strdup("the columns of the prepared statement have changed since it was prepared");
                return outcome->status = -EAGAIN;
        }
        if (status && outcome->code == NO_SUCH_STATEMENT) { /* the server has forgotten it, and has executed nothing */
                link->statement = NULL;
                drop(link, find(link, sql));
                free(outcome->problem);
                *outcome = (struct weir__mariadb_outcome){.status = 0};
                status = look_up(link, sql, outcome);
                if (!status)
                        status = execute(link, outcome);
        }
        return status;
}

/* -- rows -- */

static int
make_room(struct weir__mariadb_statement *statement, unsigned columns)
{
        if (columns <= statement->columns)
                return 0;
        free_room(statement);
        statement->binds = calloc(columns, sizeof *statement->binds);
        statement->sizes = calloc(columns, sizeof *statement->sizes);
        statement->nulls = calloc(columns, sizeof *statement->nulls);
        statement->buffers = malloc((size_t)columns * USUAL);
        statement->large = calloc(columns, sizeof *statement->large);
        statement->values = calloc(columns, sizeof *statement->values);
        if (statement->binds && statement->sizes && statement->nulls && statement->buffers && statement->large &&
            statement->values) {
                statement->columns = columns;
                return 0;
        }
        free_room(statement);
        return -ENOMEM;
}

static void
bind_column(struct weir__mariadb_statement *statement, MYSQL_BIND *bind, unsigned column, char *buffer, size_t size)
{
        *bind = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING,
                             .buffer = buffer,
                             .buffer_length = size,
                             .length = &statement->sizes[column],
                             .is_null = &statement->nulls[column]};
}

int
weir__mariadb_statement_bind(struct weir__mariadb_link *link)
{
        struct weir__mariadb_statement *statement = link->statement;
        unsigned columns = mysql_stmt_field_count(statement->handle);

        if (make_room(statement, columns) != 0)
                return -ENOMEM;
        for (unsigned i = 0; i < columns; i++)
                bind_column(statement, &statement->binds[i], i, statement->buffers + (size_t)i * USUAL, USUAL);
        return mysql_stmt_bind_result(statement->handle, statement->binds) ? -ENOMEM : 0;
}

/* Fetches a value that is too large for its buffer. */
static int
fetch_large(struct weir__mariadb_statement *statement, unsigned column)
{
        size_t size = statement->sizes[column];
        char *block = malloc(size + 1);
        MYSQL_BIND bind;

        if (!block)
                return -ENOMEM;
        bind_column(statement, &bind, column, block, size + 1);
        if (mysql_stmt_fetch_column(statement->handle, &bind, column, 0) != 0) {
                free(block);
                return -EPROTO;
        }
        statement->sizes[column] = size;
        statement->large[column] = block;
        statement->values[column] = block;
        return 0;
}

int
weir__mariadb_statement_fetch(struct weir__mariadb_link *link, const char *const **ret_values, const unsigned long **ret_sizes,
                              struct weir__mariadb_outcome *outcome)
{
        struct weir__mariadb_statement *statement = link->statement;
        unsigned columns = mysql_stmt_field_count(statement->handle);

        free_large(statement);
        int fetched = mysql_stmt_fetch(statement->handle);
        if (fetched == MYSQL_NO_DATA)
                return 0;
        if (fetched != 0 && fetched != MYSQL_DATA_TRUNCATED)
                return weir__mariadb_fail(link, statement->handle, outcome);
        for (unsigned i = 0; i < columns; i++) {
                bool is_large = !statement->nulls[i] && statement->sizes[i] > USUAL;
                int failed = is_large ? fetch_large(statement, i) : 0;

                if (failed)
                        return failed;
                if (!is_large)
                        statement->values[i] = statement->nulls[i] ? NULL : statement->buffers + (size_t)i * USUAL;
        }
        *ret_values = statement->values;
        *ret_sizes = statement->sizes;
        return 1;
}

void
weir__mariadb_statement_end(struct weir__mariadb_link *link)
{
        if (!link->statement)
                return;
        free_large(link->statement);
        if (!link->is_broken)
                mysql_stmt_free_result(link->statement->handle);
        link->statement = NULL;
}
