/* database/sql/flow.c: transactions as flows.
 *
 *     lease of a connection --> BEGIN --> the steps, a series --> COMMIT
 *                                                             \-> ROLLBACK
 *
 * These are tasks of one series, whose module is the task of the transaction.  So cancels, deadlines and dumps reach the steps by
 * themselves.  At the end of the series, whatever its cause, the connection goes back to the pool, which rolls back what is still
 * open.
 *
 * Threads: workers.
 * Locks:   the pool's, for what a handle knows. */
#include "database/sql/sql.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <weir/flow.h>
#include <weir/retry.h>

/* -- handles -- */

struct weir__sql_pool *
weir__sql_handle_new(struct weir__sql_pool *pool)
{
        struct weir__sql_pool *handle = calloc(1, pool->kind->size);

        if (!handle)
                return NULL;
        handle->kind = pool->kind;
        handle->pool = weir__sql_ref_user(pool);
        handle->pid = pool->pid;
        atomic_init(&handle->users, 1);
        return handle;
}

static void
note_problem(struct weir__sql_pool *handle, const char *problem)
{
        pthread_mutex_lock(&handle->pool->lock);
        weir__sql_note_problem(handle, problem);
        pthread_mutex_unlock(&handle->pool->lock);
}

/* -- one attempt -- */

struct attempt {
        struct weir__sql_pool *handle;
        void (*steps)(void);
        void *context;
        char *begin; /* borrowed from what outlives it, or its own */
        bool owns_begin;
        int failure; /* of the steps */
};

static void
free_attempt(void *context)
{
        struct attempt *attempt = context;

        weir__sql_unref_user(attempt->handle);
        if (attempt->owns_begin)
                free(attempt->begin);
        free(attempt);
}

void
weir__sql_fail_series(weir_task *task, int status)
{
        weir_series_fail(weir_series_of(task), status);
}

static weir_task *
query_new(struct attempt *attempt, const char *sql, weir_task_fn *done)
{
        return attempt->handle->kind->make(attempt->handle, false, sql, done, attempt);
}

/* Whatever led to the end of the series. */
static void
on_end(weir_series *series, void *context)
{
        struct attempt *attempt = context;

        (void)series;
        attempt->handle->kind->release(attempt->handle);
}

static void
on_committed(weir_task *query, void *context)
{
        struct weir__sql_pool *handle = ((struct attempt *)context)->handle;
        const char *problem = NULL;
        bool is_known = false;
        int status = handle->kind->judge(query, &is_known, &problem);

        pthread_mutex_lock(&handle->pool->lock);
        weir__sql_note_problem(handle, problem);
        if (is_known) /* else there was no answer */
                handle->commit = status ? WEIR__SQL_NOT_COMMITTED : WEIR__SQL_COMMITTED;
        pthread_mutex_unlock(&handle->pool->lock);
        if (status)
                weir__sql_fail_series(query, status);
}

static void
on_rolled_back(weir_task *query, void *context)
{
        const struct attempt *attempt = context;

        weir__sql_fail_series(query, attempt->failure);
}

static weir_task *
commit_new(struct attempt *attempt)
{
        weir_task *commit = query_new(attempt, "COMMIT", on_committed);
        struct weir__sql_query *query = weir__sql_query_of(commit, attempt->handle->kind);

        if (query) {
                query->is_commit = true;
                query->limit = WEIR_FOREVER;
        }
        return commit;
}

static void
on_steps_over(weir_task *module, void *context)
{
        struct attempt *attempt = context;
        const struct weir__sql_kind *kind = attempt->handle->kind;
        const char *problem = NULL;

        attempt->failure = weir_task_status(module);
        if (!attempt->failure && kind->check)
                attempt->failure = kind->check(attempt->handle, &problem);
        note_problem(attempt->handle, problem);
        weir_series_push(weir_series_of(module),
                         !attempt->failure ? commit_new(attempt) : query_new(attempt, "ROLLBACK", on_rolled_back));
}

weir_series *
weir__sql_steps_new(struct weir__sql_pool *handle, void (*steps)(void), void *context)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_stop_on_failure(series);
        if (series)
                handle->kind->push_steps(steps, handle, series, context);
        return series;
}

static void
on_begun(weir_task *query, void *context)
{
        struct attempt *attempt = context;

        if (weir_task_status(query) != 0) {
                weir__sql_fail_series(query, weir_task_status(query));
                return;
        }
        weir_series *steps = weir__sql_steps_new(attempt->handle, attempt->steps, attempt->context);
        if (weir_series_push(weir_series_of(query), weir_module_new(steps, on_steps_over, attempt)) != 0)
                weir__sql_fail_series(query, -ENOMEM);
}

static void
on_leased(weir_task *lease, void *context)
{
        struct attempt *attempt = context;

        if (weir_task_status(lease) == 0) {
                weir_series_push(weir_series_of(lease), query_new(attempt, attempt->begin, on_begun));
                return;
        }
        note_problem(attempt->handle, attempt->handle->kind->problem(lease));
        weir__sql_fail_series(lease, weir_task_status(lease));
}

static weir_task *
lease_new(struct weir__sql_pool *pool, struct attempt *attempt)
{
        weir_task *task = pool->kind->make(pool, true, NULL, on_leased, attempt);
        struct weir__sql_query *query = weir__sql_query_of(task, pool->kind);

        if (query)
                query->holder = attempt->handle;
        return task;
}

/* NULL when out of memory. */
static weir_series *
attempt_new(struct weir__sql_pool *pool, const char *begin, bool should_copy, void (*steps)(void), void *context)
{
        struct attempt *attempt = calloc(1, sizeof *attempt);

        if (!attempt)
                return NULL;
        attempt->steps = steps;
        attempt->context = context;
        attempt->owns_begin = should_copy;
        attempt->begin = should_copy ? strdup(begin) : (char *)begin;
        attempt->handle = weir__sql_handle_new(pool);
        weir_series *series = attempt->begin && attempt->handle ? weir_series_new(on_end, attempt) : NULL;
        weir_series_set_context(series, attempt, free_attempt); /* frees it without a series */
        if (series)
                weir_series_push(series, lease_new(pool, attempt));
        return series;
}

/* -- several attempts -- */

struct transaction {
        struct weir__sql_pool *pool;
        void (*steps)(void);
        void *context;
        char *begin;
};

static void
free_transaction(void *context)
{
        struct transaction *transaction = context;

        weir__sql_unref_user(transaction->pool);
        free(transaction->begin);
        free(transaction);
}

static weir_task *
make_attempt(void *context)
{
        const struct transaction *transaction = context;

        return weir_module_new(
                attempt_new(transaction->pool, transaction->begin, false, transaction->steps, transaction->context), NULL, NULL);
}

static int
is_worth_another(int status, void *context)
{
        (void)context;
        return status == -EAGAIN;
}

static void
on_last_attempt(weir_task *retry, void *context)
{
        (void)context;
        if (weir_task_status(retry) != 0)
                weir__sql_fail_series(retry, weir_task_status(retry));
}

static weir_series *
attempts_new(struct weir__sql_pool *pool, const char *begin, const struct weir__sql_plan *plan, void *context)
{
        struct weir_retry_config retry = WEIR_RETRY_CONFIG_DEFAULT;
        struct transaction *transaction = calloc(1, sizeof *transaction);

        if (!transaction)
                return NULL;
        *transaction = (struct transaction){weir__sql_ref_user(pool), plan->steps, context, strdup(begin)};
        retry.attempts = plan->attempts > INT_MAX ? INT_MAX : (int)plan->attempts;
        retry.delay = plan->delay > 0 ? plan->delay : WEIR_MSEC(10);
        retry.retry_if = is_worth_another;
        weir_series *series = transaction->begin ? weir_series_new(NULL, NULL) : NULL;
        weir_series_set_context(series, transaction, free_transaction);
        if (series)
                weir_series_push(series, weir_retry_new(&retry, make_attempt, on_last_attempt, transaction));
        return series;
}

/* -- for the public faces -- */

weir_task *
weir__sql_failing_new(int status, weir_task_fn *done, void *context)
{
        weir_task *task = weir_promise_new(NULL, done, context);

        weir_promise_end(task, status);
        return task;
}

weir_task *
weir__sql_transaction_new(struct weir__sql_pool *pool, const struct weir__sql_plan *plan, weir_task_fn *done, void *context)
{
        if (!pool)
                return weir__sql_failing_new(-ENOMEM, done, context);
        if (!plan->steps || plan->delay < 0 || pool->pool != pool)
                return weir__sql_failing_new(-EINVAL, done, context);
        const char *begin = plan->begin ? plan->begin : pool->kind->begin;
        weir_series *series = plan->attempts > 1 ? attempts_new(pool, begin, plan, context)
                                                 : attempt_new(pool, begin, true, plan->steps, context);
        return weir_module_new(series, done, context);
}

int
weir__sql_transaction_committed(const struct weir__sql_pool *transaction)
{
        if (!transaction || transaction->pool == transaction)
                return -EINVAL;
        pthread_mutex_lock(&transaction->pool->lock);
        enum weir__sql_commit commit = transaction->commit;
        pthread_mutex_unlock(&transaction->pool->lock);
        return commit == WEIR__SQL_COMMITTED ? 1 : commit == WEIR__SQL_COMMIT_SENT ? -EINPROGRESS : 0;
}

const char *
weir__sql_transaction_problem(const struct weir__sql_pool *transaction)
{
        if (!transaction)
                return NULL;
        pthread_mutex_lock(&transaction->pool->lock);
        const char *problem = transaction->problem; /* it stays */
        pthread_mutex_unlock(&transaction->pool->lock);
        return problem;
}
