/* database/mariadb/limits.c: what is too late: queries, attempts to connect, links that are cleaned or idle.
 *
 * When the timer of a pool ends, all of these are looked at.
 *
 * Threads: any; the timer's is a worker.
 * Locks:   the pool's. */
#include "database/mariadb/mariadb.h"

/* A query of a pool and its transactions that is too late, as weir__sql_find_late. */
static struct weir__sql_query *
find_late(const weir_mariadb *pool, weir_nsec now, weir_nsec *next)
{
        struct weir__sql_query *query = weir__sql_find_late(&pool->base.waiting, now, next);

        if (!query)
                query = weir__sql_find_late(&pool->base.sent, now, next);
        for (struct weir__mariadb_link *link = pool->links; link && !query; link = link->next)
                if (link->holder)
                        query = weir__sql_find_late(&link->holder->base.waiting, now, next);
        return query;
}

/* Ends a query at its limit.  Lets the lock go. */
static void
end_late(weir_mariadb *pool, struct weir__sql_query *query)
{
        struct weir__mariadb_after after = {0};
        int status = weir__sql_late_status(query);
        weir_task *task = weir_promise_ref(query->task);

        bool was_taken = weir__mariadb_give_up(weir__mariadb_of(query), status, &after);
        weir__sql_unlock(&pool->base);
        if (was_taken) {
                weir__mariadb_close_channels(query);
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
                weir_nsec due = is_idle ? weir__sql_later(link->idle_since, pool->config.idle_limit) : link->deadline;

                if (due > now) {
                        *next = weir__sql_earlier(*next, due);
                        continue;
                }
                link->deadline = WEIR_FOREVER;
                if (is_idle)
                        weir__mariadb_wake(link, after);
                else
                        weir__mariadb_link_cut(link);
        }
}

void
weir__mariadb_look(struct weir__sql_pool *base)
{
        weir_mariadb *pool = weir__mariadb_pool_of(base);
        struct weir__mariadb_after after = {0};
        struct weir__sql_query *query;
        weir_nsec next, now;

        for (;;) {
                next = WEIR_FOREVER;
                now = weir_now();
                pthread_mutex_lock(&pool->base.lock);
                query = find_late(pool, now, &next);
                if (!query)
                        break;
                end_late(pool, query);
        }
        look_at_links(pool, now, &next, &after);
        weir__mariadb_make_links(pool, &after);
        if (pool->base.not_before > now && pool->base.waiting.first)
                next = weir__sql_earlier(next, pool->base.not_before);
        weir__sql_look_at(&pool->base, next);
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
}
