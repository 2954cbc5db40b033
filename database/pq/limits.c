/* database/pq/limits.c: what is too late: queries, attempts to connect, links that are cleaned or idle.
 *
 * A pool has one timer, set to the earliest of these instants, or earlier.  When it ends, all are looked at.
 *
 * Threads: any; the timer's is a worker.
 * Locks:   the pool's. */
#include "database/pq/pq.h"

#include <errno.h>

#include <weir/promise.h>

static weir_nsec
earlier(weir_nsec one, weir_nsec other)
{
        return one < other ? one : other;
}

/* Ends those of a list that have waited for too long.  Returns the instant of the next look.  Under the lock. */
static weir_nsec
end_late_of(struct weir__pq_list *list, weir_nsec now, struct weir__pq_after *after)
{
        weir_nsec next = WEIR_FOREVER;

        for (struct weir__pq_query *query = list->first, *behind; query; query = behind) {
                behind = query->next;
                if (query->deadline <= now)
                        weir__pq_give_up(query, -ETIMEDOUT, after); /* no link has it */
                else
                        next = earlier(next, query->deadline);
        }
        return next;
}

/* All of them at once, because there may be many: those of the pool, and those of its transactions. */
static weir_nsec
end_late_waiting(weir_pq *pool, weir_nsec now, struct weir__pq_after *after)
{
        weir_nsec next = end_late_of(&pool->waiting, now, after);

        for (struct weir__pq_link *link = pool->links; link; link = link->next)
                if (link->holder)
                        next = earlier(next, end_late_of(&link->holder->waiting, now, after));
        return next;
}

/* What is too late of that which a link has, and links: one thing at a time.  Under the lock.  Lowers *ret_next to the instant of
 * the next look. */
static bool
find_late(weir_pq *pool, weir_nsec now, struct weir__pq_query **ret_query, struct weir__pq_link **ret_link, weir_nsec *ret_next)
{
        weir_nsec next = *ret_next;

        for (struct weir__pq_query *query = pool->sent.first; query; query = query->next) {
                if (query->is_given_up)
                        continue;
                if (query->is_held && query->deadline <= now && weir_promise_cancelled(query->task) == 0)
                        query->deadline = weir__pq_later(now, WEIR__PQ_HELD_LOOK);
                next = earlier(next, query->deadline);
                if (query->deadline <= now) {
                        *ret_query = query;
                        return true;
                }
        }
        for (struct weir__pq_link *link = pool->links; link; link = link->next) {
                weir_nsec due = link->is_idle ? weir__pq_later(link->idle_since, pool->config.idle_limit) : link->deadline;

                next = earlier(next, due);
                if (due <= now) {
                        link->deadline = WEIR_FOREVER;
                        *ret_link = weir__pq_link_ref(link);
                        return true;
                }
        }
        if (pool->not_before > now && pool->waiting.first)
                next = earlier(next, pool->not_before);
        if (pool->hub_not_before > now && pool->hub && !pool->hub_link)
                next = earlier(next, pool->hub_not_before);
        *ret_next = next;
        return false;
}

/* Ends a query at its limit.  Its link may still have it.  Lets the lock go. */
static void
end_late(weir_pq *pool, struct weir__pq_query *query, struct weir__pq_after *after)
{
        int status = query->is_held ? weir_promise_cancelled(query->task) : -ETIMEDOUT;

        struct weir__pq_link *link = weir__pq_give_up(query, status, after);
        weir_task *task = link ? weir_promise_ref(query->task) : NULL;
        weir__pq_unlock(pool);
        if (link) {
                weir__pq_close_channels(query);
                weir_promise_end(task, status);
                weir__pq_link_abandon(link, query);
                weir_promise_unref(task);
                weir__pq_link_unref(link);
        }
        weir__pq_after(after);
}

static void
look(weir_pq *pool)
{
        for (;;) {
                struct weir__pq_query *query = NULL;
                struct weir__pq_link *link = NULL;
                struct weir__pq_after after = {0};

                pthread_mutex_lock(&pool->lock);
                weir_nsec now = weir_now(), next = end_late_waiting(pool, now, &after);
                if (!find_late(pool, now, &query, &link, &next)) {
                        weir__pq_look_at(pool, next);
                        weir__pq_unlock(pool);
                        weir__pq_after(&after);
                        return;
                }
                if (query) {
                        end_late(pool, query, &after);
                        continue;
                }
                bool was_idle = link->is_idle;
                weir__pq_unlock(pool);
                weir__pq_after(&after);
                weir__pq_link_retire(link, was_idle ? 0 : -ETIMEDOUT,
                                     "the limit to connect, or to end a cancelled query, has passed");
                weir__pq_link_unref(link);
        }
}

static void
on_timer(weir_task *task, void *context)
{
        weir_pq *pool = context;

        pthread_mutex_lock(&pool->lock);
        pool->timer = 0;
        pthread_mutex_unlock(&pool->lock);
        if (weir_task_status(task) == 0) {
                look(pool);
                weir__pq_make_links(pool);
                weir__pq_hub_step(pool);
        }
}

static void
unref_timer(void *context)
{
        weir__pq_unref_memory(context);
}

void
weir__pq_look_at(weir_pq *pool, weir_nsec instant)
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
