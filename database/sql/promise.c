/* database/sql/promise.c: queries as tasks.
 *
 * A query is the `own` of a promise.  Its outcome is the value of that promise, so a callback sees it only if the outcome has
 * decided, and not a cancel.
 *
 * Threads: setters where the task is the caller's; the rest any. */
#include "database/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
begin(weir_task *task, void *own)
{
        struct weir__sql_query *query = own;

        query->task = task; /* with the reference of the work */
        if (!query->fault) {
                query->kind->begin_query(query);
                return;
        }
        struct weir__sql_after after = {0};
        weir__sql_over(query, query->fault, NULL, &after);
        weir__sql_after(&after);
}

static void
cancel(weir_task *task, void *own)
{
        struct weir__sql_query *query = own;

        if (query->where)
                query->kind->cancel_query(query, weir_task_status(task));
        query->kind->close_channels(query);
}

static void
free_query(void *own)
{
        struct weir__sql_query *query = own;
        struct weir__sql_pool *where = query->where;

        query->kind->close_channels(query);
        free(query->late);
        query->kind->free_query(query);
        weir__sql_unref_user(where);
}

/* For dumps: what it waits for. */
static void
describe(const void *own, char *text, size_t room)
{
        const struct weir__sql_query *query = own;
        const struct weir__sql_pool *pool = query->where ? query->where->pool : NULL;

        if (pool)
                snprintf(text, room, "%s (pool %s, %u busy, %u wait)",
                         atomic_load_explicit(&query->is_sent, memory_order_relaxed) ? "at the server" : "for a connection",
                         pool->name, atomic_load_explicit(&pool->busy_now, memory_order_relaxed),
                         atomic_load_explicit(&pool->waiting_now, memory_order_relaxed));
}

static const struct weir_promise_kind query_kind = {
        .size = sizeof query_kind, .begin = begin, .cancel = cancel, .free = free_query, .describe = describe};

struct weir__sql_query *
weir__sql_query_of(const weir_task *task, const struct weir__sql_kind *kind)
{
        struct weir__sql_query *query = weir_promise_own(task, &query_kind);

        return query && query->kind == kind ? query : NULL;
}

struct weir__sql_query *
weir__sql_query_new(const struct weir__sql_kind *kind, size_t size, struct weir__sql_pool *where, const char *sql, bool needs_sql)
{
        size_t sql_size = sql ? strlen(sql) + 1 : 0;
        struct weir__sql_query *query = malloc(size + sql_size);

        if (!query)
                return NULL;
        memset(query, 0, size);
        query->kind = kind;
        query->where = weir__sql_ref_user(where);
        query->limit = where ? where->pool->limit : WEIR_FOREVER;
        query->sql_size = sql_size;
        query->sql = sql ? memcpy((char *)query + size, sql, sql_size) : NULL;
        query->fault = !where ? -ENOMEM : !sql && needs_sql ? -EINVAL : 0;
        return query;
}

weir_task *
weir__sql_query_task(struct weir__sql_query *query, weir_task_fn *done, void *context)
{
        weir_task *task = weir_promise_new_of(&query_kind, query, done, context);

        if (task)
                weir_promise_set_label(task, query->sql ? query->sql : "a transaction");
        return task;
}

int
weir__sql_query_fail(struct weir__sql_query *query, int fault)
{
        if (!query->fault)
                query->fault = fault;
        return fault;
}

int
weir__sql_query_refuse(const weir_task *task, const struct weir__sql_kind *kind)
{
        struct weir__sql_query *query = weir__sql_query_of(task, kind);

        return query && !query->task ? weir__sql_query_fail(query, -EINVAL) : -EINVAL;
}

int
weir__sql_query_set_limit(struct weir__sql_query *query, weir_nsec limit)
{
        if (!query || query->task || limit <= 0)
                return -EINVAL;
        query->limit = limit;
        return 0;
}

void
weir__sql_query_end(struct weir__sql_query *query)
{
        query->kind->close_channels(query);
        query->kind->end_query(query);
}
