/* database/mariadb/query.c: the tasks of queries: how they are made, changed and ended.
 *
 * A query is the `own` of a promise.  Its outcome is the value of that promise, so a callback sees it only if the outcome has
 * decided, and not a cancel.
 *
 * Threads: setters where the task is the caller's; the rest any. */
#include "database/mariadb/mariadb.h"

#include <stdlib.h>
#include <string.h>

#include <weir/promise.h>

#define MAX_PARAMETERS 65535

/* -- the task -- */

static void
begin(weir_task *task, void *own)
{
        struct weir__mariadb_query *query = own;

        query->task = weir_promise_ref(task);
        weir__mariadb_begin(query);
}

static void
close_channel(struct weir__mariadb_query *query)
{
        if (query->rows)
                weir_channel_close(query->rows);
}

static void
cancel(weir_task *task, void *own)
{
        weir__mariadb_cancel(own, weir_task_status(task));
        close_channel(own);
}

static void
free_query(void *own)
{
        struct weir__mariadb_query *query = own;

        close_channel(query);
        weir_channel_unref(query->rows);
        for (unsigned i = 0; i < query->count; i++)
                if (query->parameters[i].type >= WEIR__MARIADB_TEXT)
                        free(query->parameters[i].data);
        if (query->parameters != query->few)
                free(query->parameters);
        weir__mariadb_table_clear(&query->outcome.table);
        free(query->outcome.problem);
        free(query->late);
        weir__mariadb_unref_user(query->where);
        free(query);
}

static const struct weir_promise_kind query_kind = {
        .size = sizeof query_kind, .begin = begin, .cancel = cancel, .free = free_query, .describe = weir__mariadb_describe};

struct weir__mariadb_query *
weir__mariadb_query_of(const weir_task *task)
{
        return weir_promise_own(task, &query_kind);
}

weir_task *
weir__mariadb_query_make(weir_mariadb *where, enum weir__mariadb_kind kind, const char *sql, weir_task_fn *done, void *context)
{
        size_t size = sql ? strlen(sql) + 1 : 0;
        struct weir__mariadb_query *query = malloc(sizeof *query + size);

        if (!query)
                return NULL;
        memset(query, 0, sizeof *query);
        query->kind = kind;
        query->where = weir__mariadb_ref_user(where);
        query->limit = where ? where->pool->config.limit : WEIR_FOREVER;
        query->sql = sql ? memcpy(query + 1, sql, size) : NULL;
        query->room = WEIR__MARIADB_FEW;
        query->parameters = query->few;
        query->fault = !where ? -ENOMEM : !sql && kind != WEIR__MARIADB_LEASE ? -EINVAL : 0;
        weir_task *task = weir_promise_new_of(&query_kind, query, done, context);
        if (task)
                weir_promise_set_label(task, sql ? sql : "a transaction");
        return task;
}

weir_task *
weir_mariadb_query_new(weir_mariadb *pool, const char *sql, weir_task_fn *done, void *context)
{
        return weir__mariadb_query_make(pool, WEIR__MARIADB_STATEMENT, sql, done, context);
}

weir_task *
weir_mariadb_script_new(weir_mariadb *pool, const char *sql, weir_task_fn *done, void *context)
{
        return weir__mariadb_query_make(pool, WEIR__MARIADB_SCRIPT, sql, done, context);
}

/* -- the end -- */

void
weir__mariadb_over(struct weir__mariadb_query *query, int status, const char *problem, struct weir__mariadb_after *after)
{
        query->state = WEIR__MARIADB_OVER;
        query->outcome.status = status;
        if (status && problem && !query->outcome.problem)
                query->outcome.problem = strdup(problem);
        query->next = NULL;
        *(after->ended_at ? after->ended_at : &after->ended) = query;
        after->ended_at = &query->next;
}

void
weir__mariadb_query_end(struct weir__mariadb_query *query)
{
        weir_task *task = query->task;

        close_channel(query);
        weir_promise_end_with(task, query->outcome.status, &query->outcome, NULL);
        weir_promise_unref(task);
}

/* -- parameters and settings -- */

/* A query that can be changed; NULL: it cannot. */
static struct weir__mariadb_query *
changeable(const weir_task *task)
{
        struct weir__mariadb_query *query = weir__mariadb_query_of(task);

        return query && query->kind == WEIR__MARIADB_STATEMENT && !query->task ? query : NULL;
}

static int
fail(struct weir__mariadb_query *query, int fault)
{
        if (!query->fault)
                query->fault = fault;
        return fault;
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
        return fail(query, failed);
}

static int
add_data(weir_task *task, enum weir__mariadb_type type, const void *data, size_t size)
{
        struct weir__mariadb_query *query = changeable(task);
        struct weir__mariadb_parameter parameter = {.type = type, .size = size};

        if (!query)
                return -EINVAL;
        if ((!data && size > 0) || size > UINT32_MAX)
                return fail(query, -EINVAL);
        if (!data)
                return add(query, (struct weir__mariadb_parameter){.type = WEIR__MARIADB_NONE});
        parameter.data = malloc(size + 1);
        if (!parameter.data)
                return fail(query, -ENOMEM);
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

        return self ? add(self, (struct weir__mariadb_parameter){.type = WEIR__MARIADB_INT, .integer = value}) : -EINVAL;
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
        struct weir__mariadb_query *self = weir__mariadb_query_of(query);

        if (!self || self->task || limit <= 0)
                return -EINVAL;
        self->limit = limit;
        return 0;
}
