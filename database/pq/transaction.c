/* database/pq/transaction.c: transactions as flows.
 *
 *     lease of a link --> BEGIN --> the steps, a series --> COMMIT
 *                                                       \-> ROLLBACK
 *
 * These are tasks of one series, whose module is the task of the transaction.  So cancels, deadlines and dumps reach the steps by
 * themselves.  At the end of the series, whatever its cause, the link goes back to the pool, which rolls back what is still open.
 *
 * A handle (struct weir_pq) stands for the link.  It has no connections of its own, and its lock is the pool's.
 *
 * Threads: workers.
 * Locks:   the pool's, for who has the link. */
#include "database/pq/pq.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/flow.h>
#include <weir/promise.h>
#include <weir/retry.h>

/* -- handles -- */

weir_pq *
weir__pq_handle_new(weir_pq *pool)
{
        weir_pq *handle = calloc(1, sizeof *handle);

        if (!handle)
                return NULL;
        handle->pool = weir__pq_ref_user(pool);
        handle->pid = pool->pid;
        atomic_init(&handle->users, 1);
        return handle;
}

void
weir__pq_handle_free(weir_pq *handle)
{
        free(handle->problem);
        weir__pq_unref_user(handle->pool);
        free(handle);
}

void
weir__pq_handle_note(weir_pq *handle, const char *problem)
{
        if (problem && !handle->problem)
                handle->problem = strdup(problem);
}

/* The same; no lock is held. */
static void
note_problem(weir_pq *handle, const char *problem)
{
        pthread_mutex_lock(&handle->pool->lock);
        weir__pq_handle_note(handle, problem);
        pthread_mutex_unlock(&handle->pool->lock);
}

bool
weir__pq_grant(struct weir__pq_query *lease, struct weir__pq_link *link)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->lock);
        bool is_wanted = !lease->is_given_up;
        if (is_wanted) {
                link->holder = lease->holder;
                link->holder->leased = weir__pq_link_ref(link);
                link->holder->is_free = true;
        }
        pthread_mutex_unlock(&pool->lock);
        return is_wanted;
}

/* Those that wait for the link.  Under the pool's lock. */
static void
end_waiting(weir_pq *handle, int status, const char *problem, struct weir__pq_after *after)
{
        while (handle->waiting.first) {
                struct weir__pq_query *query = handle->waiting.first;

                weir__pq_dequeue(&handle->waiting, query);
                query->state = WEIR__PQ_OVER;
                weir__pq_over(query, status, problem, after);
        }
}

void
weir__pq_handle_lost(weir_pq *handle, struct weir__pq_after *after)
{
        handle->is_lost = true;
        handle->is_free = false;
        if (handle->leased)
                weir__pq_link_unref(handle->leased); /* never the last: its caller has one */
        handle->leased = NULL;
        end_waiting(handle, -ECONNRESET, "the connection of the transaction broke", after);
        if (handle == handle->pool->hub)
                weir__pq_hub_is_lost(handle->pool);
}

void
weir__pq_release(weir_pq *handle)
{
        weir_pq *pool = handle->pool;
        struct weir__pq_after after = {0};

        pthread_mutex_lock(&pool->lock);
        struct weir__pq_link *link = handle->leased;
        if (link)
                weir__pq_link_ref(link);
        pthread_mutex_unlock(&pool->lock);
        if (!link)
                return;
        weir__pq_link_lock(link, &after);
        pthread_mutex_lock(&pool->lock);
        bool is_ours = handle->leased == link;
        if (is_ours) {
                handle->leased = NULL;
                handle->is_free = false;
                link->holder = NULL;
                end_waiting(handle, -EPIPE, "the transaction is over", &after);
        }
        pthread_mutex_unlock(&pool->lock);
        if (is_ours) {
                weir__pq_link_unref(link);
                weir__pq_link_rest(link, &after);
                weir__pq_link_wait(link, &after);
        }
        weir__pq_link_unlock(link);
        weir__pq_link_unref(link);
        weir__pq_after(&after);
}

/* -- one attempt -- */

struct attempt {
        weir_pq *handle;
        weir_pq_steps_fn *steps;
        void *context;
        char *begin; /* borrowed from what outlives it, or its own */
        bool owns_begin;
        int failure; /* of the steps */
};

static void
free_attempt(void *context)
{
        struct attempt *attempt = context;

        weir__pq_unref_user(attempt->handle);
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
        weir__pq_release(attempt->handle);
}

static void
note_commit(weir_pq *handle, enum weir__pq_commit commit)
{
        pthread_mutex_lock(&handle->pool->lock);
        handle->commit = commit;
        pthread_mutex_unlock(&handle->pool->lock);
}

static void
on_committed(weir_task *query, void *context)
{
        struct attempt *attempt = context;
        const struct weir__pq_outcome *outcome = weir_promise_value(query);
        const char *tag = outcome ? PQcmdStatus(outcome->result) : "";
        int status = weir_task_status(query);

        if (!status && tag && strcmp(tag, "ROLLBACK") == 0) {
                status = -ENOTRECOVERABLE;
                note_problem(attempt->handle, "the server has rolled back, because a query had failed");
        }
        if (!status || status == -ENOTRECOVERABLE || *weir_pq_sqlstate(query)) /* else there was no answer */
                note_commit(attempt->handle, status ? WEIR__PQ_NOT_COMMITTED : WEIR__PQ_COMMITTED);
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
        weir_task *commit = weir_pq_query_new(attempt->handle, "COMMIT", on_committed, attempt);
        struct weir__pq_query *query = weir__pq_query_of(commit);

        if (query) {
                query->is_commit = true;
                query->limit = WEIR_FOREVER;
        }
        return commit;
}

static bool
is_spoiled(weir_pq *handle)
{
        pthread_mutex_lock(&handle->pool->lock);
        bool is_spoiled = handle->is_spoiled;
        pthread_mutex_unlock(&handle->pool->lock);
        return is_spoiled;
}

static void
on_steps_over(weir_task *module, void *context)
{
        struct attempt *attempt = context;

        attempt->failure = weir_task_status(module);
        if (!attempt->failure && is_spoiled(attempt->handle)) {
                note_problem(attempt->handle, "a savepoint was cut off");
                attempt->failure = -ENOTRECOVERABLE;
        }
        weir_series_push(weir_series_of(module),
                         !attempt->failure ? commit_new(attempt)
                                           : weir_pq_query_new(attempt->handle, "ROLLBACK", on_rolled_back, attempt));
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
                weir_series_push(weir_series_of(lease), weir_pq_query_new(attempt->handle, attempt->begin, on_begun, attempt));
                return;
        }
        note_problem(attempt->handle, weir_pq_problem(lease));
        fail(lease, weir_task_status(lease));
}

static weir_task *
lease_new(weir_pq *pool, struct attempt *attempt)
{
        weir_task *task = weir__pq_query_make(pool, WEIR__PQ_LEASE, NULL, on_leased, attempt);
        struct weir__pq_query *query = weir__pq_query_of(task);

        if (query)
                query->holder = attempt->handle;
        return task;
}

/* NULL when out of memory. */
static weir_series *
attempt_new(weir_pq *pool, const char *begin, bool should_copy, weir_pq_steps_fn *steps, void *context)
{
        struct attempt *attempt = calloc(1, sizeof *attempt);

        if (!attempt)
                return NULL;
        attempt->steps = steps;
        attempt->context = context;
        attempt->owns_begin = should_copy;
        attempt->begin = should_copy ? strdup(begin) : (char *)begin;
        attempt->handle = weir__pq_handle_new(pool);
        weir_series *series = attempt->begin && attempt->handle ? weir_series_new(on_end, attempt) : NULL;
        weir_series_set_context(series, attempt, free_attempt); /* frees it without a series */
        if (series)
                weir_series_push(series, lease_new(pool, attempt));
        return series;
}

/* -- savepoints --
 *
 *     outer series --> module of the inner one: SAVEPOINT --> the steps --> RELEASE
 *                  |                                              \-> ROLLBACK TO --> RELEASE
 *                  '-> a task that fails the outer one, if what was to be undone is not
 *
 * The inner series has the status of the steps, which the callback sees.  The outer one does not stop at that. */

struct savepoint {
        weir_pq *handle;
        weir_pq_steps_fn *steps;
        void *context;
        unsigned number;
        bool was_begun, is_open;
        int failure;
};

static void
free_savepoint(void *context)
{
        struct savepoint *savepoint = context;

        weir__pq_unref_user(savepoint->handle);
        free(savepoint);
}

static weir_task *
say_new(struct savepoint *savepoint, const char *verb, weir_task_fn *done)
{
        char sql[64];

        snprintf(sql, sizeof sql, "%s weir_%u", verb, savepoint->number);
        return weir_pq_query_new(savepoint->handle, sql, done, savepoint);
}

static void
on_released(weir_task *query, void *context)
{
        struct savepoint *savepoint = context;

        if (weir_task_status(query) == 0)
                savepoint->is_open = false;
        if (savepoint->failure || weir_task_status(query))
                fail(query, savepoint->failure ? savepoint->failure : weir_task_status(query));
}

static void
on_undone(weir_task *query, void *context)
{
        struct savepoint *savepoint = context;

        if (weir_task_status(query))
                fail(query, savepoint->failure);
        else
                weir_series_push(weir_series_of(query), say_new(savepoint, "RELEASE SAVEPOINT", on_released));
}

static void
on_savepoint_steps_over(weir_task *module, void *context)
{
        struct savepoint *savepoint = context;

        savepoint->failure = weir_task_status(module);
        weir_series_push(weir_series_of(module), savepoint->failure ? say_new(savepoint, "ROLLBACK TO SAVEPOINT", on_undone)
                                                                    : say_new(savepoint, "RELEASE SAVEPOINT", on_released));
}

static void
on_savepoint_begun(weir_task *query, void *context)
{
        struct savepoint *savepoint = context;

        savepoint->failure = weir_task_status(query);
        if (savepoint->failure) {
                fail(query, savepoint->failure);
                return;
        }
        savepoint->was_begun = savepoint->is_open = true;
        weir_series *steps = weir_series_new(NULL, NULL);
        weir_series_stop_on_failure(steps);
        if (steps)
                savepoint->steps(savepoint->handle, steps, savepoint->context);
        if (weir_series_push(weir_series_of(query), weir_module_new(steps, on_savepoint_steps_over, savepoint)) != 0)
                fail(query, -ENOMEM);
}

/* Behind the callback of the program. */
static void
judge(weir_task *task, void *context)
{
        const struct savepoint *savepoint = context;

        if (weir_task_status(task) == 0 && (!savepoint->was_begun || savepoint->is_open))
                fail(task, savepoint->failure ? savepoint->failure : -ENOMEM);
}

/* Whatever led to the end of the outer series. */
static void
on_savepoint_end(weir_series *series, void *context)
{
        const struct savepoint *savepoint = context;

        (void)series;
        if (!savepoint->is_open)
                return;
        pthread_mutex_lock(&savepoint->handle->pool->lock);
        savepoint->handle->is_spoiled = true;
        pthread_mutex_unlock(&savepoint->handle->pool->lock);
}

static weir_task *
savepoint_new(weir_pq *handle, weir_pq_steps_fn *steps, weir_task_fn *done, void *context)
{
        struct savepoint *savepoint = calloc(1, sizeof *savepoint);

        if (!savepoint)
                return NULL;
        pthread_mutex_lock(&handle->pool->lock);
        *savepoint = (struct savepoint){.steps = steps, .context = context, .number = ++handle->savepoints};
        pthread_mutex_unlock(&handle->pool->lock);
        savepoint->handle = weir__pq_ref_user(handle);
        weir_series *outer = weir_series_new(on_savepoint_end, savepoint), *inner = outer ? weir_series_new(NULL, NULL) : NULL;
        weir_series_set_context(outer, savepoint, free_savepoint); /* frees it without a series */
        if (!inner) {
                weir_series_dismiss(outer);
                return NULL;
        }
        weir_series_push(inner, say_new(savepoint, "SAVEPOINT", on_savepoint_begun));
        weir_series_push(outer, weir_module_new(inner, done, context));
        weir_series_push(outer, weir_empty_new(judge, savepoint));
        return weir_module_new(outer, NULL, NULL);
}

/* -- several attempts -- */

struct transaction {
        weir_pq *pool;
        weir_pq_steps_fn *steps;
        void *context;
        char *begin;
};

static void
free_transaction(void *context)
{
        struct transaction *transaction = context;

        weir__pq_unref_user(transaction->pool);
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
attempts_new(weir_pq *pool, const struct weir_pq_transaction_config *config, const char *begin, weir_pq_steps_fn *steps,
             void *context)
{
        struct weir_retry_config retry = WEIR_RETRY_CONFIG_DEFAULT;
        struct transaction *transaction = calloc(1, sizeof *transaction);

        if (!transaction)
                return NULL;
        *transaction = (struct transaction){weir__pq_ref_user(pool), steps, context, strdup(begin)};
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
weir_pq_transaction_new_with(weir_pq *pool, const struct weir_pq_transaction_config *config, weir_pq_steps_fn *steps,
                             weir_task_fn *done, void *context)
{
        struct weir_pq_transaction_config defaults = WEIR_PQ_TRANSACTION_CONFIG_DEFAULT;
        const struct weir_pq_transaction_config *with = config ? config : &defaults;

        if (!pool)
                return failing_new(-ENOMEM, done, context);
        if (!steps || with->size != sizeof *with || with->delay < 0 || pool->pool != pool)
                return failing_new(-EINVAL, done, context);
        const char *begin = with->begin ? with->begin : "BEGIN";
        weir_series *series = with->attempts > 1 ? attempts_new(pool, with, begin, steps, context)
                                                 : attempt_new(pool, begin, true, steps, context);
        return weir_module_new(series, done, context);
}

weir_task *
weir_pq_transaction_new(weir_pq *pool, weir_pq_steps_fn *steps, weir_task_fn *done, void *context)
{
        return weir_pq_transaction_new_with(pool, NULL, steps, done, context);
}

weir_task *
weir_pq_savepoint_new(weir_pq *transaction, weir_pq_steps_fn *steps, weir_task_fn *done, void *context)
{
        if (!transaction)
                return failing_new(-ENOMEM, done, context);
        if (!steps || transaction->pool == transaction)
                return failing_new(-EINVAL, done, context);
        return savepoint_new(transaction, steps, done, context);
}

int
weir_pq_transaction_committed(const weir_pq *transaction)
{
        if (!transaction || transaction->pool == transaction)
                return -EINVAL;
        pthread_mutex_lock(&transaction->pool->lock);
        enum weir__pq_commit commit = transaction->commit;
        pthread_mutex_unlock(&transaction->pool->lock);
        return commit == WEIR__PQ_COMMITTED ? 1 : commit == WEIR__PQ_COMMIT_SENT ? -EINPROGRESS : 0;
}

const char *
weir_pq_transaction_problem(const weir_pq *transaction)
{
        if (!transaction)
                return NULL;
        pthread_mutex_lock(&transaction->pool->lock);
        const char *problem = transaction->problem; /* it stays */
        pthread_mutex_unlock(&transaction->pool->lock);
        return problem;
}
