/* database/mariadb/query.c: queries: how they are made, changed and ended; database/sql/promise.c has their tasks.
 *
 * Threads: setters where the task is the caller's; the rest any. */
#include "database/mariadb/mariadb.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PARAMETERS 65535 /* the protocol counts them in 16 bits */

/* -- the task -- */

void
weir__mariadb_close_channels(struct weir__sql_query *base)
{
        struct weir__mariadb_query *query = weir__mariadb_of(base);

        if (query->rows)
                weir_channel_close(query->rows);
}

void
weir__mariadb_free_query(struct weir__sql_query *base)
{
        struct weir__mariadb_query *query = weir__mariadb_of(base);

        weir_channel_unref(query->rows);
        for (unsigned i = 0; i < query->count; i++)
                if (query->parameters[i].type >= WEIR__MARIADB_TEXT)
                        free(query->parameters[i].data);
        if (query->parameters != query->few)
                free(query->parameters);
        weir__mariadb_table_clear(&query->outcome.table);
        free(query->outcome.problem);
        free(query);
}

static weir_task *
query_new(struct weir__sql_pool *where, enum weir__mariadb_kind kind, const char *sql, weir_task_fn *done, void *context)
{
        struct weir__mariadb_query *query = weir__mariadb_of(
                weir__sql_query_new(&weir__mariadb_kind, sizeof *query, where, sql, kind != WEIR__MARIADB_LEASE));

        if (!query)
                return NULL;
        query->kind = kind;
        query->room = WEIR__MARIADB_FEW;
        query->parameters = query->few;
        return weir__sql_query_task(&query->base, done, context);
}

weir_task *
weir__mariadb_make(struct weir__sql_pool *where, bool is_lease, const char *sql, weir_task_fn *done, void *context)
{
        return query_new(where, is_lease ? WEIR__MARIADB_LEASE : WEIR__MARIADB_STATEMENT, sql, done, context);
}

weir_task *
weir_mariadb_query_new(weir_mariadb *pool, const char *sql, weir_task_fn *done, void *context)
{
        return query_new((struct weir__sql_pool *)pool, WEIR__MARIADB_STATEMENT, sql, done, context);
}

weir_task *
weir_mariadb_script_new(weir_mariadb *pool, const char *sql, weir_task_fn *done, void *context)
{
        return query_new((struct weir__sql_pool *)pool, WEIR__MARIADB_SCRIPT, sql, done, context);
}

/* -- the end -- */

const char *
weir__mariadb_over(struct weir__sql_query *base, int status, const char *problem)
{
        struct weir__mariadb_outcome *outcome = &weir__mariadb_of(base)->outcome;

        outcome->status = status;
        if (status && problem && !outcome->problem)
                outcome->problem = strdup(problem);
        return outcome->problem;
}

void
weir__mariadb_end_query(struct weir__sql_query *base)
{
        struct weir__mariadb_outcome *outcome = &weir__mariadb_of(base)->outcome;

        weir_promise_finish(base->task, outcome->status, outcome, NULL);
}

/* -- parameters and settings -- */

/* A query that can be changed; NULL: it cannot. */
static struct weir__mariadb_query *
changeable(const weir_task *task)
{
        struct weir__mariadb_query *query = weir__mariadb_query_of(task);

        return query && query->kind == WEIR__MARIADB_STATEMENT && !query->base.task ? query : NULL;
}

static int
grow(struct weir__mariadb_query *query)
{
        unsigned room = 4 * query->room;
        struct weir__mariadb_parameter *longer = malloc(room * sizeof *longer);

        if (!longer)
                return -ENOMEM;
        memcpy(longer, query->parameters, query->count * sizeof *longer);
        if (query->parameters != query->few)
                free(query->parameters);
        query->parameters = longer;
        query->room = room;
        return 0;
}

/* Takes over the data, also if it fails. */
static int
add(struct weir__mariadb_query *query, struct weir__mariadb_parameter parameter)
{
        int failed = query->count == MAX_PARAMETERS ? -EINVAL : query->count == query->room ? grow(query) : 0;

        if (!failed) {
                query->parameters[query->count++] = parameter;
                return 0;
        }
        if (parameter.type >= WEIR__MARIADB_TEXT)
                free(parameter.data);
        return weir__sql_query_fail(&query->base, failed);
}

static int
add_data(weir_task *task, enum weir__mariadb_type type, const void *data, size_t size)
{
        struct weir__mariadb_query *query = changeable(task);
        struct weir__mariadb_parameter parameter = {.type = type, .size = size};

        if (!query)
                return weir__sql_query_refuse(task, &weir__mariadb_kind);
        if ((!data && size > 0) || size > UINT32_MAX)
                return weir__sql_query_fail(&query->base, -EINVAL);
        if (!data)
                return add(query, (struct weir__mariadb_parameter){.type = WEIR__MARIADB_NONE});
        parameter.data = malloc(size + 1);
        if (!parameter.data)
                return weir__sql_query_fail(&query->base, -ENOMEM);
        memcpy(parameter.data, data, size);
        parameter.data[size] = '\0';
        return add(query, parameter);
}

int
weir_mariadb_add_text(weir_task *query, const char *value)
{
        return add_data(query, WEIR__MARIADB_TEXT, value, value ? strlen(value) : 0);
}

int
weir_mariadb_add_binary(weir_task *query, const void *data, size_t size)
{
        return add_data(query, WEIR__MARIADB_BINARY, data, size);
}

int
weir_mariadb_add_int(weir_task *query, int64_t value)
{
        struct weir__mariadb_query *self = changeable(query);

        if (!self)
                return weir__sql_query_refuse(query, &weir__mariadb_kind);
        return add(self, (struct weir__mariadb_parameter){.type = WEIR__MARIADB_INT, .integer = value});
}

int
weir_mariadb_set_prepared(weir_task *query)
{
        struct weir__mariadb_query *self = changeable(query);

        if (!self)
                return -EINVAL;
        self->is_prepared = true;
        return 0;
}

int
weir_mariadb_set_rows(weir_task *query, weir_channel *rows)
{
        struct weir__mariadb_query *self = changeable(query);

        if (!self || !rows)
                return -EINVAL;
        weir_channel_ref(rows);
        weir_channel_unref(self->rows);
        self->rows = rows;
        return 0;
}

int
weir_mariadb_set_limit(weir_task *query, weir_nsec limit)
{
        return weir__sql_query_set_limit(weir__sql_query_of(query, &weir__mariadb_kind), limit);
}
