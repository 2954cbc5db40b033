/* database/pq/limits.c: what is too late: queries, attempts to connect, links that are cleaned or idle.
 *
 * When the timer of a pool ends, all of these are looked at.
 *
 * Threads: any; the timer's is a worker.
 * Locks:   the pool's. */
#include "database/pq/pq.h"

/* Ends those of a list that have waited for too long.  Returns the instant of the next look.  Under the lock. */
static weir_nsec
end_late_of(struct weir__sql_list *list, weir_nsec now, struct weir__pq_after *after)
{
        weir_nsec next = WEIR_FOREVER;

        for (struct weir__sql_query *query = list->first, *behind; query; query = behind) {
                behind = query->next;
                if (query->deadline <= now)
                        weir__sql_give_up(query, -ETIMEDOUT, &after->base); /* no link has it */
                else
                        next = weir__sql_earlier(next, query->deadline);
        }
        return next;
}

/* All of them at once, because there may be many: those of the pool, and those of its transactions. */
static weir_nsec
end_late_waiting(weir_pq *pool, weir_nsec now, struct weir__pq_after *after)
{
        weir_nsec next = end_late_of(&pool->base.waiting, now, after);

        for (struct weir__pq_link *link = pool->links; link; link = link->next)
                if (link->holder)
                        next = weir__sql_earlier(next, end_late_of(&link->holder->base.waiting, now, after));
        return next;
}

/* Finds one query that was sent and is too late, or one link whose deadline is over.  Returns false if there is none.  Then
 * *ret_next is lowered to the earliest deadline.  The lock is held. */
static bool
find_late(weir_pq *pool, weir_nsec now, struct weir__sql_query **ret_query, struct weir__pq_link **ret_link, weir_nsec *ret_next)
{
        weir_nsec next = *ret_next;

        *ret_query = weir__sql_find_late(&pool->base.sent, now, &next);
        if (*ret_query)
                return true;
        for (struct weir__pq_link *link = pool->links; link; link = link->next) {
                weir_nsec due = link->is_idle ? weir__sql_later(link->idle_since, pool->config.idle_limit) : link->deadline;

                next = weir__sql_earlier(next, due);
                if (due <= now) {
                        link->deadline = WEIR_FOREVER;
                        *ret_link = weir__pq_link_ref(link);
                        return true;
                }
        }
        if (pool->base.not_before > now && pool->base.waiting.first)
                next = weir__sql_earlier(next, pool->base.not_before);
        if (pool->hub_not_before > now && pool->hub && !pool->hub_link)
                next = weir__sql_earlier(next, pool->hub_not_before);
        *ret_next = next;
        return false;
}

/* Ends a query at its limit.  Its link may still have it.  Lets the lock go. */
static void
end_late(weir_pq *pool, struct weir__sql_query *query, struct weir__pq_after *after)
{
        int status = weir__sql_late_status(query);

        struct weir__pq_link *link = weir__pq_give_up(weir__pq_of(query), status, after);
        weir_task *task = link ? weir_promise_ref(query->task) : NULL;
        weir__sql_unlock(&pool->base);
        if (link) {
                weir__pq_close_channels(query);
                weir_promise_end(task, status);
                weir__pq_link_abandon(link, weir__pq_of(query));
                weir_promise_unref(task);
                weir__pq_link_unref(link);
        }
        weir__pq_after(after);
}

static void
look(weir_pq *pool)
{
        for (;;) {
                struct weir__sql_query *query = NULL;
                struct weir__pq_link *link = NULL;
                struct weir__pq_after after = {0};

                pthread_mutex_lock(&pool->base.lock);
                weir_nsec now = weir_now(), next = end_late_waiting(pool, now, &after);
                if (!find_late(pool, now, &query, &link, &next)) {
                        weir__sql_look_at(&pool->base, next);
                        weir__sql_unlock(&pool->base);
                        weir__pq_after(&after);
                        return;
                }
                if (query) {
                        end_late(pool, query, &after);
                        continue;
                }
                bool was_idle = link->is_idle;
                weir__sql_unlock(&pool->base);
                weir__pq_after(&after);
                weir__pq_link_retire(link, was_idle ? 0 : -ETIMEDOUT,
                                     "the limit to connect, or to end a cancelled query, has passed");
                weir__pq_link_unref(link);
        }
}

void
weir__pq_look(struct weir__sql_pool *base)
{
        weir_pq *pool = weir__pq_pool_of(base);

        look(pool);
        weir__pq_make_links(pool);
        weir__pq_hub_step(pool);
}
