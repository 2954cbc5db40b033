/* database/sql/timer.c: the timer of a pool, which is set to the earliest of its limits, or earlier.
 *
 * Threads: any; the timer's is a worker.
 * Locks:   the pool's. */
#include "database/sql/sql.h"

static void
on_timer(weir_task *task, void *context)
{
        struct weir__sql_pool *pool = context;

        pthread_mutex_lock(&pool->lock);
        pool->timer = 0;
        pthread_mutex_unlock(&pool->lock);
        if (weir_task_status(task) == 0)
                pool->kind->look(pool);
}

static void
unref_timer(void *context)
{
        weir__sql_unref_memory(context);
}

void
weir__sql_look_at(struct weir__sql_pool *pool, weir_nsec instant)
{
        weir_nsec now;

        if (instant == WEIR_FOREVER || (pool->timer && pool->timer_due <= instant))
                return;
        now = weir_now();
        pool->timer_due = instant;
        if (pool->timer && weir_timer_reset_id(pool->timer, instant - now) > 0)
                return;
        weir__sql_ref_memory(pool);
        weir_task *timer = weir_timer_new(instant - now, on_timer, NULL);
        weir_task_set_context(timer, pool, unref_timer);
        pool->timer = timer ? weir_timer_id_of(timer) : 0;
        if (weir_task_start(timer) != 0)
                pool->timer = 0;
}

struct weir__sql_query *
weir__sql_find_late(const struct weir__sql_list *list, weir_nsec now, weir_nsec *next)
{
        for (struct weir__sql_query *query = list->first; query; query = query->next) {
                if (query->is_given_up)
                        continue;
                if (query->is_held && query->deadline <= now && weir_promise_cancelled(query->task) == 0)
                        query->deadline = weir__sql_later(now, WEIR__SQL_HELD_LOOK);
                if (query->deadline <= now)
                        return query;
                *next = weir__sql_earlier(*next, query->deadline);
        }
        return NULL;
}

int
weir__sql_late_status(const struct weir__sql_query *query)
{
        return query->is_held ? weir_promise_cancelled(query->task) : -ETIMEDOUT;
}
