/* database/sqlite/request.c: the tasks.  A request is what a promise has of its own.
 *
 *     NEW --start--> WAITING, in a list --a function on the executor--> TAKEN --ended--> OVER
 *                        '--a cancel, a deadline, a limit, shutdown---------------------'
 *
 * The promise of a query is never held: a cancel ends it while its statement runs.  That of an exec is held when its statement
 * has run, and that of a function before it is called, because the function uses the context of the task.
 *
 * Threads: any. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

#include "database/sqlite/sqlite.h"

#define PARAMETERS_MOST 32766 /* SQLite's */

/* -- as a kind of promise -- */

static void
free_parameters(struct weir__sqlite_request *request)
{
        for (unsigned i = 0; i < request->count; i++)
                if (request->parameters[i].type == WEIR_SQLITE_TEXT || request->parameters[i].type == WEIR_SQLITE_BLOB)
                        free(request->parameters[i].data);
        free(request->parameters);
}

static void
free_request(void *own)
{
        struct weir__sqlite_request *request = own;

        free_parameters(request);
        weir__sqlite_result_free(request->result);
        weir_sqlite_unref(request->db);
        free(request->sql);
        free(request);
}

static void on_begin(weir_task *promise, void *own);
static void on_cancel(weir_task *promise, void *own);

static void
describe(const void *own, char *text, size_t room)
{
        const struct weir__sqlite_request *request = own;
        const weir_sqlite *db = request->db;

        if (db)
                snprintf(text, room, "%s, %u of %u busy, %zu wait", db->config.name,
                         atomic_load_explicit(&db->busy, memory_order_relaxed),
                         atomic_load_explicit(&db->connections, memory_order_relaxed),
                         atomic_load_explicit(&db->writes.count, memory_order_relaxed) +
                                 atomic_load_explicit(&db->reads.count, memory_order_relaxed));
}

static const struct weir_promise_kind kind = {
        .size = sizeof kind, .begin = on_begin, .cancel = on_cancel, .describe = describe, .free = free_request};

struct weir__sqlite_request *
weir__sqlite_request_of(const weir_task *task)
{
        return weir_promise_own(task, &kind);
}

/* -- its end -- */

static void
stop_timer(struct weir__sqlite_request *request)
{
        if (request->timer)
                weir_timer_cancel_id(request->timer);
}

/* Once for each request, by who has decided its end. */
static void
count_end(const struct weir__sqlite_request *request, int status, size_t rows)
{
        weir_sqlite *db = request->db;
        bool is_read = request->kind == WEIR__SQLITE_QUERY || request->kind == WEIR__SQLITE_READ;

        if (status == -ECANCELED || status == -ESHUTDOWN)
                atomic_fetch_add(&db->cancelled, 1);
        else if (status)
                atomic_fetch_add(&db->failed, 1);
        else if (request->kind != WEIR__SQLITE_CLOSE)
                atomic_fetch_add(is_read ? &db->done_reads : &db->done_writes, 1);
        if (!status && rows > 0)
                atomic_fetch_add(&db->rows, rows);
}

void
weir__sqlite_end(struct weir__sqlite_request *request, int status)
{
        weir_task *promise = request->promise;
        struct weir__sqlite_result *result = request->result;
        size_t rows = result ? result->rows : 0;

        stop_timer(request);
        request->result = NULL;
        bool decides = request->is_held || weir_promise_hold(promise) == 0;
        if (decides)
                count_end(request, status, rows); /* before the callback may look */
        if (weir_promise_finish(promise, status, result, weir__sqlite_result_free) < 0)
                weir__sqlite_result_free(result);
}

int
weir__sqlite_cause(struct weir__sqlite_request *request)
{
        int unwanted = atomic_load_explicit(&request->unwanted, memory_order_acquire);

        return unwanted || !request->is_held ? unwanted : weir_promise_cancelled(request->promise);
}

int
weir__sqlite_hold(struct weir__sqlite_request *request)
{
        int unwanted = atomic_load_explicit(&request->unwanted, memory_order_acquire);

        if (unwanted || request->is_held)
                return unwanted;
        if (weir_promise_hold(request->promise))
                return -ECANCELED;
        request->is_held = true;
        return 0;
}

/* A cancel, a deadline or a shutdown has ended the task. */
static void
on_cancel(weir_task *promise, void *own)
{
        struct weir__sqlite_request *request = own;

        if (!request->promise)
                return; /* it has failed in its begin */
        stop_timer(request);
        atomic_fetch_add(&request->db->cancelled, 1);
        if (weir__sqlite_withdraw(request, weir_task_status(promise)))
                weir_promise_unref(promise);
}

/* The limit of the config.  What was taken is ended by who has taken it; but a query ends at once. */
static void
on_limit(weir_task *timer, void *promise)
{
        struct weir__sqlite_request *request = weir__sqlite_request_of(promise);

        if (weir_task_status(timer) == 0) {
                bool waited = weir__sqlite_withdraw(request, -ETIMEDOUT);

                if ((waited || request->kind == WEIR__SQLITE_QUERY) && weir_promise_hold(promise) == 0) {
                        count_end(request, -ETIMEDOUT, 0); /* before the callback may look */
                        weir_promise_end(promise, -ETIMEDOUT);
                }
                if (waited)
                        weir_promise_unref(promise);
        }
        weir_promise_unref(promise);
}

/* -- its start -- */

/* 0, or why it cannot have a limit. */
static int
start_timer(struct weir__sqlite_request *request, weir_task *promise)
{
        weir_nsec limit = request->db->config.limit;

        if (limit == WEIR_FOREVER || request->kind == WEIR__SQLITE_CLOSE)
                return 0;
        weir_task *timer = weir_timer_new(limit, on_limit, weir_promise_ref(promise));
        request->timer = weir_timer_id_of(timer);
        int failed = request->timer ? weir_task_start(timer) : -ENOMEM;
        if (!request->timer)
                weir_task_dismiss(timer);
        if (failed) {
                request->timer = 0;
                weir_promise_unref(promise);
        }
        return failed;
}

static void
on_begin(weir_task *promise, void *own)
{
        struct weir__sqlite_request *request = own;
        int fault = request->fault;

        if (!fault) {
                request->since = weir__sqlite_now();
                request->promise = promise;
                fault = start_timer(request, promise);
                if (!fault)
                        fault = weir__sqlite_submit(request);
                if (!fault)
                        return;
                stop_timer(request);
                request->promise = NULL;
        }
        weir_promise_finish(promise, fault, NULL, NULL);
}

/* -- its making -- */

static bool
has_sql(enum weir__sqlite_kind its_kind)
{
        return its_kind == WEIR__SQLITE_QUERY || its_kind == WEIR__SQLITE_EXEC || its_kind == WEIR__SQLITE_ALONE;
}

static weir_task *
make(weir_sqlite *db, enum weir__sqlite_kind its_kind, const char *sql, weir_sqlite_fn *function, weir_task_fn *done,
     void *context)
{
        struct weir__sqlite_request *request = calloc(1, sizeof *request);

        if (!request)
                return NULL;
        request->db = weir_sqlite_ref(db);
        request->kind = its_kind;
        request->function = function;
        request->fault = !db ? -ENOMEM : weir__sqlite_is_forked() ? -ECHILD : 0;
        bool needs_sql = has_sql(its_kind);
        if (!request->fault && needs_sql && (!sql || !*sql))
                request->fault = -EINVAL;
        if (!request->fault && !needs_sql && its_kind != WEIR__SQLITE_CLOSE && !function)
                request->fault = -EINVAL;
        if (!request->fault && needs_sql) {
                request->sql_size = strlen(sql);
                request->sql = request->sql_size < INT_MAX ? strdup(sql) : NULL;
                request->fault = request->sql ? 0 : request->sql_size < INT_MAX ? -ENOMEM : -E2BIG;
        }
        if (!request->fault)
                request->fault = weir__sqlite_refusal(db, its_kind);
        weir_task *promise = weir_promise_new_of(&kind, request, done, context);
        const char *labels[] = {[WEIR__SQLITE_READ] = "a function that reads",
                                [WEIR__SQLITE_WRITE] = "a function that writes",
                                [WEIR__SQLITE_CLOSE] = "the closing"};
        if (promise)
                weir_promise_set_label(promise, needs_sql ? sql ? sql : "" : labels[its_kind]);
        return promise;
}

weir_task *
weir_sqlite_query_new(weir_sqlite *db, const char *sql, weir_task_fn *done, void *context)
{
        return make(db, WEIR__SQLITE_QUERY, sql, NULL, done, context);
}

weir_task *
weir_sqlite_exec_new(weir_sqlite *db, const char *sql, weir_task_fn *done, void *context)
{
        return make(db, WEIR__SQLITE_EXEC, sql, NULL, done, context);
}

weir_task *
weir_sqlite_exec_alone_new(weir_sqlite *db, const char *sql, weir_task_fn *done, void *context)
{
        return make(db, WEIR__SQLITE_ALONE, sql, NULL, done, context);
}

weir_task *
weir_sqlite_write_new(weir_sqlite *db, weir_sqlite_fn *function, weir_task_fn *done, void *context)
{
        return make(db, WEIR__SQLITE_WRITE, NULL, function, done, context);
}

weir_task *
weir_sqlite_read_new(weir_sqlite *db, weir_sqlite_fn *function, weir_task_fn *done, void *context)
{
        return make(db, WEIR__SQLITE_READ, NULL, function, done, context);
}

weir_task *
weir_sqlite_close_new(weir_sqlite *db, weir_task_fn *done, void *context)
{
        return make(db, WEIR__SQLITE_CLOSE, NULL, NULL, done, context);
}

/* -- parameters -- */

/* The task has that failure. */
static int
spoil(struct weir__sqlite_request *request, int fault)
{
        if (!request->fault)
                request->fault = fault;
        return fault;
}

/* Puts the parameter in its slot.  Its data is its own, also if this fails. */
static int
set(struct weir__sqlite_request *request, unsigned number, struct weir__sqlite_parameter parameter)
{
        if (number < 1 || number > PARAMETERS_MOST)
                return spoil(request, -ERANGE);
        if (number > request->count) {
                struct weir__sqlite_parameter *grown = realloc(request->parameters, number * sizeof *grown);

                if (!grown)
                        return spoil(request, -ENOMEM);
                memset(grown + request->count, 0, (number - request->count) * sizeof *grown);
                request->parameters = grown;
                request->count = number;
        }
        struct weir__sqlite_parameter *slot = &request->parameters[number - 1];
        if (slot->type == WEIR_SQLITE_TEXT || slot->type == WEIR_SQLITE_BLOB)
                free(slot->data);
        *slot = parameter;
        return 0;
}

static int
bind(weir_task *task, unsigned number, struct weir__sqlite_parameter parameter)
{
        struct weir__sqlite_request *request = weir__sqlite_request_of(task);

        if (!request || !has_sql(request->kind))
                return -EINVAL;
        return request->state != WEIR__SQLITE_NEW ? -EBUSY : set(request, number, parameter);
}

int
weir_sqlite_bind_int64(weir_task *task, unsigned parameter, int64_t value)
{
        return bind(task, parameter, (struct weir__sqlite_parameter){.type = WEIR_SQLITE_INT64, .integer = value});
}

int
weir_sqlite_bind_double(weir_task *task, unsigned parameter, double value)
{
        return bind(task, parameter, (struct weir__sqlite_parameter){.type = WEIR_SQLITE_DOUBLE, .real = value});
}

int
weir_sqlite_bind_null(weir_task *task, unsigned parameter)
{
        return bind(task, parameter, (struct weir__sqlite_parameter){.type = WEIR_SQLITE_NULL});
}

static int
bind_data(weir_task *task, unsigned number, enum weir_sqlite_type type, const void *data, size_t size)
{
        struct weir__sqlite_request *request = weir__sqlite_request_of(task);

        if (!request || !has_sql(request->kind))
                return -EINVAL;
        if (request->state != WEIR__SQLITE_NEW)
                return -EBUSY;
        if (!data && size > 0)
                return spoil(request, -EINVAL);
        struct weir__sqlite_parameter parameter = {.type = type, .data = size < SIZE_MAX ? malloc(size + 1) : NULL, .size = size};
        if (!parameter.data)
                return spoil(request, -ENOMEM);
        if (size > 0)
                memcpy(parameter.data, data, size);
        int failed = bind(task, number, parameter);
        if (failed)
                free(parameter.data);
        return failed;
}

int
weir_sqlite_bind_text(weir_task *task, unsigned parameter, const char *text, size_t size)
{
        if (!text && size == SIZE_MAX)
                return weir_sqlite_bind_null(task, parameter);
        return bind_data(task, parameter, WEIR_SQLITE_TEXT, text, size == SIZE_MAX ? strlen(text) : size);
}

int
weir_sqlite_bind_blob(weir_task *task, unsigned parameter, const void *data, size_t size)
{
        return bind_data(task, parameter, WEIR_SQLITE_BLOB, data, size);
}
