/* database/mariadb/transaction.c: transactions as flows.
 *
 *     lease of a link --> START TRANSACTION --> the steps, a series --> COMMIT
 *                                                                   \-> ROLLBACK
 *
 * These are tasks of one series, whose module is the task of the transaction.  So cancels, deadlines and dumps reach the steps by
 * themselves.  At the end of the series, whatever its cause, the link goes back to the pool, which rolls back what is still open.
 *
 * A handle (struct weir_mariadb) stands for the link.  It has no connections of its own, and its lock is the pool's.
 *
 * Threads: workers.
 * Locks:   the pool's, for who has the link. */
#include "database/mariadb/mariadb.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <weir/flow.h>
#include <weir/promise.h>
#include <weir/retry.h>

/* -- handles -- */

weir_mariadb *
weir__mariadb_handle_new(weir_mariadb *pool)
{
        weir_mariadb *handle = calloc(1, sizeof *handle);

        if (!handle)
                return NULL;
        handle->pool = weir__mariadb_ref_user(pool);
        handle->pid = pool->pid;
        atomic_init(&handle->users, 1);
        return handle;
}

void
weir__mariadb_handle_free(weir_mariadb *handle)
{
        free(handle->problem);
        weir__mariadb_unref_user(handle->pool);
        free(handle);
}

void
weir__mariadb_handle_note(weir_mariadb *handle, const char *problem)
{
        if (problem && !handle->problem)
                handle->problem = strdup(problem);
}

/* The same; no lock is held. */
static void
note_problem(weir_mariadb *handle, const char *problem)
{
        pthread_mutex_lock(&handle->pool->lock);
        weir__mariadb_handle_note(handle, problem);
        pthread_mutex_unlock(&handle->pool->lock);
}

static void
release(weir_mariadb *handle)
{
        weir_mariadb *pool = handle->pool;
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->lock);
        struct weir__mariadb_link *link = handle->leased;
        handle->leased = NULL;
        if (link) {
                link->holder = NULL;
                link->is_unclean = true;
                weir__mariadb_end_waiting(pool, &handle->waiting, WEIR_FOREVER, -EPIPE, "the transaction is over", &after);
                if (link->state == WEIR__MARIADB_HELD)
                        weir__mariadb_wake(link, &after);
        }
        weir__mariadb_unlock(pool);
        weir__mariadb_after(&after);
}

/* -- one attempt -- */

struct attempt {
        weir_mariadb *handle;
        weir_mariadb_steps_fn *steps;
        void *context;
        char *begin; /* borrowed from what outlives it, or its own */
        bool owns_begin;
        int failure; /* of the steps */
};

static void
free_attempt(void *context)
{
        struct attempt *attempt = context;

        weir__mariadb_unref_user(attempt->handle);
        if (attempt->owns_begin)
                free(attempt->begin);
        free(attempt);
}

static void
fail(weir_task *task, int status)
{
        weir_series_fail(weir_series_of(task), status);
}

/* Whatever led to the end of the series. */
static void
on_end(weir_series *series, void *context)
{
        struct attempt *attempt = context;

        (void)series;
        release(attempt->handle);
}

static void
note_commit(weir_mariadb *handle, enum weir__mariadb_commit commit)
{
        pthread_mutex_lock(&handle->pool->lock);
        handle->commit = commit;
        pthread_mutex_unlock(&handle->pool->lock);
}

static void
on_committed(weir_task *query, void *context)
{
        struct attempt *attempt = context;
        const struct weir__mariadb_outcome *outcome = weir_promise_value(query);
        int status = weir_task_status(query);

        if (outcome && outcome->is_complete) /* else there was no answer */
                note_commit(attempt->handle, status ? WEIR__MARIADB_NOT_COMMITTED : WEIR__MARIADB_COMMITTED);
        if (status)
                fail(query, status);
}

static void
on_rolled_back(weir_task *query, void *context)
{
        const struct attempt *attempt = context;

        fail(query, attempt->failure);
}

static weir_task *
commit_new(struct attempt *attempt)
{
        weir_task *commit = weir_mariadb_query_new(attempt->handle, "COMMIT", on_committed, attempt);
        struct weir__mariadb_query *query = weir__mariadb_query_of(commit);

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

        attempt->failure = weir_task_status(module);
        weir_series_push(weir_series_of(module),
                         !attempt->failure ? commit_new(attempt)
                                           : weir_mariadb_query_new(attempt->handle, "ROLLBACK", on_rolled_back, attempt));
}

static void
on_begun(weir_task *query, void *context)
{
        struct attempt *attempt = context;

        if (weir_task_status(query) != 0) {
                fail(query, weir_task_status(query));
                return;
        }
        weir_series *steps = weir_series_new(NULL, NULL);
        weir_series_stop_on_failure(steps);
        if (steps)
                attempt->steps(attempt->handle, steps, attempt->context);
        if (weir_series_push(weir_series_of(query), weir_module_new(steps, on_steps_over, attempt)) != 0)
                fail(query, -ENOMEM);
}

static void
on_leased(weir_task *lease, void *context)
{
        struct attempt *attempt = context;

        if (weir_task_status(lease) == 0) {
                weir_series_push(weir_series_of(lease),
                                 weir_mariadb_query_new(attempt->handle, attempt->begin, on_begun, attempt));
                return;
        }
        note_problem(attempt->handle, weir_mariadb_problem(lease));
        fail(lease, weir_task_status(lease));
}

static weir_task *
lease_new(weir_mariadb *pool, struct attempt *attempt)
{
        weir_task *task = weir__mariadb_query_make(pool, WEIR__MARIADB_LEASE, NULL, on_leased, attempt);
        struct weir__mariadb_query *query = weir__mariadb_query_of(task);

        if (query)
                query->holder = attempt->handle;
        return task;
}

/* NULL when out of memory. */
static weir_series *
attempt_new(weir_mariadb *pool, const char *begin, bool should_copy, weir_mariadb_steps_fn *steps, void *context)
{
        struct attempt *attempt = calloc(1, sizeof *attempt);

        if (!attempt)
                return NULL;
        attempt->steps = steps;
        attempt->context = context;
        attempt->owns_begin = should_copy;
        attempt->begin = should_copy ? strdup(begin) : (char *)begin;
        attempt->handle = weir__mariadb_handle_new(pool);
        weir_series *series = attempt->begin && attempt->handle ? weir_series_new(on_end, attempt) : NULL;
        weir_series_set_context(series, attempt, free_attempt); /* frees it without a series */
        if (series)
                weir_series_push(series, lease_new(pool, attempt));
        return series;
}

/* -- several attempts -- */

struct transaction {
        weir_mariadb *pool;
        weir_mariadb_steps_fn *steps;
        void *context;
        char *begin;
};

static void
free_transaction(void *context)
{
        struct transaction *transaction = context;

        weir__mariadb_unref_user(transaction->pool);
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
                fail(retry, weir_task_status(retry));
}

static weir_series *
attempts_new(weir_mariadb *pool, const struct weir_mariadb_transaction_config *config, const char *begin,
             weir_mariadb_steps_fn *steps, void *context)
{
        struct weir_retry_config retry = WEIR_RETRY_CONFIG_DEFAULT;
        struct transaction *transaction = calloc(1, sizeof *transaction);

        if (!transaction)
                return NULL;
        *transaction = (struct transaction){weir__mariadb_ref_user(pool), steps, context, strdup(begin)};
        retry.attempts = config->attempts > INT_MAX ? INT_MAX : (int)config->attempts;
        retry.delay = config->delay > 0 ? config->delay : WEIR_MSEC(10);
        retry.retry_if = is_worth_another;
        weir_series *series = transaction->begin ? weir_series_new(NULL, NULL) : NULL;
        weir_series_set_context(series, transaction, free_transaction);
        if (series)
                weir_series_push(series, weir_retry_new(&retry, make_attempt, on_last_attempt, transaction));
        return series;
}

/* -- the public face -- */

static weir_task *
failing_new(int status, weir_task_fn *done, void *context)
{
        weir_task *task = weir_promise_new(NULL, done, context);

        weir_promise_end(task, status);
        return task;
}

weir_task *
weir_mariadb_transaction_new_with(weir_mariadb *pool, const struct weir_mariadb_transaction_config *config,
                                  weir_mariadb_steps_fn *steps, weir_task_fn *done, void *context)
{
        struct weir_mariadb_transaction_config defaults = WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT;
        const struct weir_mariadb_transaction_config *with = config ? config : &defaults;

        if (!pool)
                return failing_new(-ENOMEM, done, context);
        if (!steps || with->size != sizeof *with || with->delay < 0 || pool->pool != pool)
                return failing_new(-EINVAL, done, context);
        const char *begin = with->begin ? with->begin : "START TRANSACTION";
        weir_series *series = with->attempts > 1 ? attempts_new(pool, with, begin, steps, context)
                                                 : attempt_new(pool, begin, true, steps, context);
        return weir_module_new(series, done, context);
}

weir_task *
weir_mariadb_transaction_new(weir_mariadb *pool, weir_mariadb_steps_fn *steps, weir_task_fn *done, void *context)
{
        return weir_mariadb_transaction_new_with(pool, NULL, steps, done, context);
}

int
weir_mariadb_transaction_committed(const weir_mariadb *transaction)
{
        if (!transaction || transaction->pool == transaction)
                return -EINVAL;
        pthread_mutex_lock(&transaction->pool->lock);
        enum weir__mariadb_commit commit = transaction->commit;
        pthread_mutex_unlock(&transaction->pool->lock);
        return commit == WEIR__MARIADB_COMMITTED ? 1 : commit == WEIR__MARIADB_COMMIT_SENT ? -EINPROGRESS : 0;
}

const char *
weir_mariadb_transaction_problem(const weir_mariadb *transaction)
{
        if (!transaction)
                return NULL;
        pthread_mutex_lock(&transaction->pool->lock);
        const char *problem = transaction->problem; /* it stays */
        pthread_mutex_unlock(&transaction->pool->lock);
        return problem;
}
