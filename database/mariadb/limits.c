/* database/mariadb/limits.c: what is too late: queries, attempts to connect, links that are cleaned or idle.
 *
 * A pool has one timer, set to the earliest of these instants, or earlier.  When it ends, all are looked at.
 *
 * Threads: any; the timer's is a worker.
 * Locks:   the pool's. */
#include "database/mariadb/mariadb.h"

#include <weir/promise.h>

static weir_nsec
earlier(weir_nsec one, weir_nsec other)
{
        return one < other ? one : other;
}

/* A query that is too late; NULL: there is none.  Under the lock.  Makes *next the instant of the next look. */
static struct weir__mariadb_query *
find_late(const struct weir__mariadb_list *list, weir_nsec now, weir_nsec *next)
{
        for (struct weir__mariadb_query *query = list->first; query; query = query->next) {
                if (query->is_given_up)
                        continue;
                if (query->is_held && query->deadline <= now && weir_promise_cancelled(query->task) == 0)
                        query->deadline = weir__mariadb_later(now, WEIR__MARIADB_HELD_LOOK);
                if (query->deadline <= now)
                        return query;
                *next = earlier(*next, query->deadline);
        }
        return NULL;
}

/* The same among all queries of a pool and its transactions. */
static struct weir__mariadb_query *
find_any_late(const weir_mariadb *pool, weir_nsec now, weir_nsec *next)
{
        struct weir__mariadb_query *query = find_late(&pool->waiting, now, next);

        if (!query)
                query = find_late(&pool->taken, now, next);
        for (struct weir__mariadb_link *link = pool->links; link && !query; link = link->next)
                if (link->holder)
                        query = find_late(&link->holder->waiting, now, next);
        return query;
}

/* Ends a query at its limit.  Lets the lock go. */
static void
end_late(weir_mariadb *pool, struct weir__mariadb_query *query)
{
        struct weir__mariadb_after after = {0};
        int status = query->is_held ? weir_promise_cancelled(query->task) : -ETIMEDOUT;
        weir_task *task = weir_promise_ref(query->task);

        bool was_taken = weir__mariadb_give_up(query, status, &after);
        weir__mariadb_unlock(pool);
        if (was_taken) {
                if (query->rows)
                        weir_channel_close(query->rows);
                weir_promise_end(task, status);
        }
        weir__mariadb_after(&after);
        weir_promise_unref(task);
}

/* Links that last too long are cut, and idle ones are woken to be closed.  Under the lock. */
static void
look_at_links(weir_mariadb *pool, weir_nsec now, weir_nsec *next, struct weir__mariadb_after *after)
{
        for (struct weir__mariadb_link *link = pool->links; link; link = link->next) {
                bool is_idle = link->state == WEIR__MARIADB_IDLE;
                weir_nsec due = is_idle ? weir__mariadb_later(link->idle_since, pool->config.idle_limit) : link->deadline;

                if (due > now) {
                        *next = earlier(*next, due);
                        continue;
                }
                link->deadline = WEIR_FOREVER;
                if (is_idle)
                        weir__mariadb_wake(link, after);
                else
                        weir__mariadb_link_cut(link);
        }
}

static void
look(weir_mariadb *pool)
{
        struct weir__mariadb_after after = {0};
        struct weir__mariadb_query *query;
        weir_nsec next, now;

        for (;;) {
                next = WEIR_FOREVER;
                now = weir_now();
                pthread_mutex_lock(&pool->lock);
                query = find_any_late(pool, now, &next);
                if (!query)
                        break;
                end_late(pool, query);
        }
        look_at_links(pool, now, &next, &after);
        weir__mariadb_make_links(pool, &after);
        if (pool->not_before > now && pool->waiting.first)
                next = earlier(next, pool->not_before);
        weir__mariadb_look_at(pool, next);
        weir__mariadb_unlock(pool);
        weir__mariadb_after(&after);
}

static void
on_timer(weir_task *task, void *context)
{
        weir_mariadb *pool = context;

        pthread_mutex_lock(&pool->lock);
        pool->timer = 0;
        pthread_mutex_unlock(&pool->lock);
        if (weir_task_status(task) == 0)
                look(pool);
}

static void
unref_timer(void *context)
{
        weir__mariadb_unref_memory(context);
}

void
weir__mariadb_look_at(weir_mariadb *pool, weir_nsec instant)
{
        weir_nsec now;

        if (instant == WEIR_FOREVER || (pool->timer && pool->timer_due <= instant))
                return;
        now = weir_now();
        pool->timer_due = instant;
        if (pool->timer && weir_timer_reset_id(pool->timer, instant - now) > 0)
                return;
        atomic_fetch_add(&pool->references, 1);
        weir_task *timer = weir_timer_new(instant - now, on_timer, NULL);
        weir_task_set_context(timer, pool, unref_timer);
        pool->timer = timer ? weir_timer_id_of(timer) : 0;
        if (weir_task_start(timer) != 0)
                pool->timer = 0;
}
