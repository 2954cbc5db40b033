/* database/pq/transaction.c: transactions, whose flow is database/sql/flow.c's, and savepoints.
 *
 * A handle (struct weir_pq) stands for the link.  It has no connections of its own, and its lock is the pool's.
 *
 * Threads: workers.
 * Locks:   the pool's, for who has the link. */
#include "database/pq/pq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/flow.h>

/* -- who has the link -- */

bool
weir__pq_grant(struct weir__pq_query *lease, struct weir__pq_link *link)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->base.lock);
        bool is_wanted = !lease->base.is_given_up;
        if (is_wanted) {
                link->holder = (weir_pq *)lease->base.holder;
                link->holder->leased = weir__pq_link_ref(link);
                link->holder->is_free = true;
        }
        pthread_mutex_unlock(&pool->base.lock);
        return is_wanted;
}

void
weir__pq_handle_lost(weir_pq *handle, struct weir__pq_after *after)
{
        handle->base.is_lost = true;
        handle->is_free = false;
        if (handle->leased)
                weir__pq_link_unref(handle->leased); /* never the last: its caller has one */
        handle->leased = NULL;
        weir__sql_end_waiting(&handle->base.waiting, WEIR_FOREVER, -ECONNRESET, "the connection of the transaction broke",
                              &after->base);
        if (handle == weir__pq_pool_of(&handle->base)->hub)
                weir__pq_hub_is_lost(weir__pq_pool_of(&handle->base));
}

void
weir__pq_release(struct weir__sql_pool *base)
{
        weir_pq *handle = (weir_pq *)base, *pool = weir__pq_pool_of(base);
        struct weir__pq_after after = {0};

        pthread_mutex_lock(&pool->base.lock);
        struct weir__pq_link *link = handle->leased;
        if (link)
                weir__pq_link_ref(link);
        pthread_mutex_unlock(&pool->base.lock);
        if (!link)
                return;
        weir__pq_link_lock(link, &after);
        pthread_mutex_lock(&pool->base.lock);
        bool is_ours = handle->leased == link;
        if (is_ours) {
                handle->leased = NULL;
                handle->is_free = false;
                link->holder = NULL;
                weir__sql_end_waiting(&handle->base.waiting, WEIR_FOREVER, -EPIPE, "the transaction is over", &after.base);
        }
        pthread_mutex_unlock(&pool->base.lock);
        if (is_ours) {
                weir__pq_link_unref(link);
                weir__pq_link_rest(link, &after);
                weir__pq_link_wait(link, &after);
        }
        weir__pq_link_unlock(link);
        weir__pq_link_unref(link);
        weir__pq_after(&after);
}

/* -- for the flow -- */

void
weir__pq_push_steps(void (*steps)(void), struct weir__sql_pool *handle, weir_series *series, void *context)
{
        ((weir_pq_steps_fn *)steps)((weir_pq *)handle, series, context);
}

int
weir__pq_check(struct weir__sql_pool *handle, const char **ret_problem)
{
        pthread_mutex_lock(&handle->pool->lock);
        bool is_spoiled = ((weir_pq *)handle)->is_spoiled;
        pthread_mutex_unlock(&handle->pool->lock);
        if (is_spoiled)
                *ret_problem = "a savepoint was cut off";
        return is_spoiled ? -ENOTRECOVERABLE : 0;
}

int
weir__pq_judge(weir_task *commit, bool *ret_is_known, const char **ret_problem)
{
        const struct weir__pq_outcome *outcome = weir_promise_value(commit);
        const char *tag = outcome ? PQcmdStatus(outcome->result) : "";
        int status = weir_task_status(commit);

        if (!status && tag && strcmp(tag, "ROLLBACK") == 0) {
                *ret_problem = "the server has rolled back, because a query had failed";
                status = -ENOTRECOVERABLE;
        }
        *ret_is_known = !status || status == -ENOTRECOVERABLE || *weir_pq_sqlstate(commit);
        return status;
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
        void (*steps)(void);
        void *context;
        unsigned number;
        bool was_begun, is_open;
        int failure;
};

static void
free_savepoint(void *context)
{
        struct savepoint *savepoint = context;

        weir__sql_unref_user(&savepoint->handle->base);
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
                weir__sql_fail_series(query, savepoint->failure ? savepoint->failure : weir_task_status(query));
}

static void
on_undone(weir_task *query, void *context)
{
        struct savepoint *savepoint = context;

        if (weir_task_status(query))
                weir__sql_fail_series(query, savepoint->failure);
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
                weir__sql_fail_series(query, savepoint->failure);
                return;
        }
        savepoint->was_begun = savepoint->is_open = true;
        weir_series *steps = weir__sql_steps_new(&savepoint->handle->base, savepoint->steps, savepoint->context);
        if (weir_series_push(weir_series_of(query), weir_module_new(steps, on_savepoint_steps_over, savepoint)) != 0)
                weir__sql_fail_series(query, -ENOMEM);
}

/* Runs after the callback of the program. */
static void
judge(weir_task *task, void *context)
{
        const struct savepoint *savepoint = context;

        if (weir_task_status(task) == 0 && (!savepoint->was_begun || savepoint->is_open))
                weir__sql_fail_series(task, savepoint->failure ? savepoint->failure : -ENOMEM);
}

/* Whatever led to the end of the outer series. */
static void
on_savepoint_end(weir_series *series, void *context)
{
        const struct savepoint *savepoint = context;

        (void)series;
        if (!savepoint->is_open)
                return;
        pthread_mutex_lock(&savepoint->handle->base.pool->lock);
        savepoint->handle->is_spoiled = true;
        pthread_mutex_unlock(&savepoint->handle->base.pool->lock);
}

static weir_task *
savepoint_new(weir_pq *handle, weir_pq_steps_fn *steps, weir_task_fn *done, void *context)
{
        struct savepoint *savepoint = calloc(1, sizeof *savepoint);

        if (!savepoint)
                return NULL;
        pthread_mutex_lock(&handle->base.pool->lock);
        *savepoint = (struct savepoint){.steps = (void (*)(void))steps, .context = context, .number = ++handle->savepoints};
        pthread_mutex_unlock(&handle->base.pool->lock);
        savepoint->handle = (weir_pq *)weir__sql_ref_user(&handle->base);
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

/* -- the public face -- */

weir_task *
weir_pq_transaction_new_with(weir_pq *pool, const struct weir_pq_transaction_config *config, weir_pq_steps_fn *steps,
                             weir_task_fn *done, void *context)
{
        struct weir_pq_transaction_config defaults = WEIR_PQ_TRANSACTION_CONFIG_DEFAULT;
        const struct weir_pq_transaction_config *with = config ? config : &defaults;
        bool is_valid = with->size == sizeof *with && !with->reserved;

        if (!is_valid)
                with = &defaults;
        return weir__sql_transaction_new((struct weir__sql_pool *)pool,
                                         &(struct weir__sql_plan){.steps = is_valid ? (void (*)(void))steps : NULL,
                                                                  .begin = with->begin,
                                                                  .attempts = with->attempts,
                                                                  .delay = with->delay},
                                         done, context);
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
                return weir__sql_failing_new(-ENOMEM, done, context);
        if (!steps || transaction->base.pool == &transaction->base)
                return weir__sql_failing_new(-EINVAL, done, context);
        return savepoint_new(transaction, steps, done, context);
}

int
weir_pq_transaction_committed(const weir_pq *transaction)
{
        return weir__sql_transaction_committed((const struct weir__sql_pool *)transaction);
}

const char *
weir_pq_transaction_problem(const weir_pq *transaction)
{
        return weir__sql_transaction_problem((const struct weir__sql_pool *)transaction);
}
