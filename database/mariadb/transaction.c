/* database/mariadb/transaction.c: transactions; database/sql/flow.c has their flow.
 *
 * Threads: workers.
 * Locks:   the pool's, for who has the link. */
#include "database/mariadb/mariadb.h"

void
weir__mariadb_push_steps(void (*steps)(void), struct weir__sql_pool *handle, weir_series *series, void *context)
{
        ((weir_mariadb_steps_fn *)steps)((weir_mariadb *)handle, series, context);
}

int
weir__mariadb_judge(weir_task *commit, bool *ret_is_known, const char **ret_problem)
{
        const struct weir__mariadb_outcome *outcome = weir_promise_value(commit);

        (void)ret_problem; /* finish() has noted it */
        *ret_is_known = outcome && outcome->is_complete;
        return weir_task_status(commit);
}

void
weir__mariadb_release(struct weir__sql_pool *base)
{
        weir_mariadb *handle = (weir_mariadb *)base, *pool = weir__mariadb_pool_of(base);
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->base.lock);
        struct weir__mariadb_link *link = handle->leased;
        handle->leased = NULL;
        if (link) {
                link->holder = NULL;
                link->is_unclean = true;
                weir__mariadb_end_waiting(pool, &handle->base.waiting, WEIR_FOREVER, -EPIPE, "the transaction is over", &after);
                if (link->state == WEIR__MARIADB_HELD)
                        weir__mariadb_wake(link, &after);
        }
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
}

weir_task *
weir_mariadb_transaction_new_with(weir_mariadb *pool, const struct weir_mariadb_transaction_config *config,
                                  weir_mariadb_steps_fn *steps, weir_task_fn *done, void *context)
{
        struct weir_mariadb_transaction_config defaults = WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT;
        const struct weir_mariadb_transaction_config *with = config ? config : &defaults;
        bool is_valid = with->size == sizeof *with && with->reserved == 0;

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
weir_mariadb_transaction_new(weir_mariadb *pool, weir_mariadb_steps_fn *steps, weir_task_fn *done, void *context)
{
        return weir_mariadb_transaction_new_with(pool, NULL, steps, done, context);
}

int
weir_mariadb_transaction_committed(const weir_mariadb *transaction)
{
        return weir__sql_transaction_committed((const struct weir__sql_pool *)transaction);
}

const char *
weir_mariadb_transaction_problem(const weir_mariadb *transaction)
{
        return weir__sql_transaction_problem((const struct weir__sql_pool *)transaction);
}
