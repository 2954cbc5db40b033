/* database/mariadb/pool.c: which link gets which query, and how many links there are.
 *
 * A query waits, behind those that came before.  An idle link is woken for it, the one used last first.  Without one links are
 * made, as long as more queries wait than links are being made or woken.  A link that has finished takes the query that has
 * waited longest.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/mariadb/mariadb.h"

#include <stdlib.h>
#include <string.h>

/* -- what is done when no lock is held -- */

void
weir__mariadb_after(struct weir__mariadb_after *after)
{
        weir__sql_after(&after->base);
        while (after->served) {
                struct weir__mariadb_link *link = after->served;

                after->served = link->next_served;
                weir__mariadb_serve(link);
        }
}

/* -- links -- */

/* An idle link leaves the list of those.  Under the pool's lock. */
static void
leave_idle(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;

        for (struct weir__mariadb_link **at = &pool->idle; *at; at = &(*at)->next_idle) {
                if (*at != link)
                        continue;
                *at = link->next_idle;
                pool->base.idle_count--;
                break;
        }
        link->next_idle = NULL;
}

void
weir__mariadb_wake(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        if (link->state == WEIR__MARIADB_IDLE) {
                leave_idle(link);
                link->is_starting = true;
                link->pool->starting++;
        }
        link->state = WEIR__MARIADB_SERVED;
        link->next_served = after->served;
        after->served = link;
}

void
weir__mariadb_link_remove(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;

        *(link->previous ? &link->previous->next : &pool->links) = link->next;
        if (link->next)
                link->next->previous = link->previous;
        pool->base.link_count--;
        pool->base.connecting -= link->is_connecting;
        link->is_connecting = false;
        if (pool->base.link_count == 0 && pool->base.timer && atomic_load(&pool->base.users) == 0)
                weir_timer_cancel_id(pool->base.timer);
}

/* NULL when out of memory. */
static struct weir__mariadb_link *
add_link(weir_mariadb *pool)
{
        struct weir__mariadb_link *link = calloc(1, sizeof *link);

        if (!link)
                return NULL;
        weir__sql_ref_memory(&pool->base);
        link->pool = pool;
        link->fd = -1;
        link->deadline = WEIR_FOREVER;
        link->is_connecting = true;
        pool->base.connecting++;
        pool->base.link_count++;
        link->next = pool->links;
        if (link->next)
                link->next->previous = link;
        pool->links = link;
        return link;
}

void
weir__mariadb_make_links(weir_mariadb *pool, struct weir__mariadb_after *after)
{
        while (pool->base.waiting.length > pool->starting + (pool->idle ? 0 : pool->base.connecting)) {
                struct weir__mariadb_link *link = pool->idle;

                if (!link && pool->base.link_count >= pool->config.connections)
                        return;
                if (!link && pool->base.not_before > weir_now()) {
                        weir__sql_look_at(&pool->base, pool->base.not_before);
                        return;
                }
                if (!link)
                        link = add_link(pool);
                if (!link && pool->base.link_count == 0)
                        weir__mariadb_end_waiting(pool, &pool->base.waiting, WEIR_FOREVER, -ENOMEM, NULL, after);
                if (!link)
                        return;
                weir__mariadb_wake(link, after);
        }
}

void
weir__mariadb_handle_lost(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        weir_mariadb *handle = link->holder;

        if (!handle)
                return;
        handle->base.is_lost = true;
        handle->leased = NULL;
        link->holder = NULL;
        weir__mariadb_end_waiting(link->pool, &handle->base.waiting, WEIR_FOREVER, -ECONNRESET,
                                  "the connection of the transaction broke", after);
}

/* -- queries -- */

void
weir__mariadb_end_waiting(weir_mariadb *pool, struct weir__sql_list *list, weir_nsec since, int status, const char *problem,
                          struct weir__mariadb_after *after)
{
        pool->base.failed += weir__sql_end_waiting(list, since, status, problem, &after->base);
}

void
weir__mariadb_take(struct weir__mariadb_link *link, struct weir__mariadb_query *query, weir_nsec now)
{
        query->link = link;
        query->outcome = (struct weir__mariadb_outcome){.status = 0}; /* of an attempt to connect that has failed for others */
        link->query = query;
        link->idle_since = 0;
        weir__sql_send(&query->base, query->kind == WEIR__MARIADB_LEASE, now);
}

/* A result of the cut connection may arrive before the end of the cut.  The query is late nevertheless. */
static void
be_late(struct weir__mariadb_query *query)
{
        struct weir__mariadb_outcome *outcome = &query->outcome;

        free(outcome->problem);
        outcome->problem = query->base.late ? strdup(query->base.late) : NULL;
        outcome->status = query->late_status;
        outcome->code = 0;
        outcome->sqlstate[0] = '\0';
}

void
weir__mariadb_finish(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        struct weir__mariadb_query *query = link->query;

        link->query = NULL;
        query->link = NULL;
        if (query->base.is_given_up)
                be_late(query);
        weir__sql_finish(&query->base, query->outcome.status, NULL, &after->base);
}

int
weir__mariadb_hold(struct weir__mariadb_query *query)
{
        const weir_mariadb *handle = (weir_mariadb *)query->base.where;
        weir_mariadb *pool = weir__mariadb_pool_of(query->base.where);

        pthread_mutex_lock(&pool->base.lock);
        int refused = handle->was_rolled_back ? -ENOTRECOVERABLE : weir__sql_hold(&query->base);
        pthread_mutex_unlock(&pool->base.lock);
        return refused;
}

/* Under the lock. */
static void
enqueue(struct weir__sql_query *query, struct weir__mariadb_after *after)
{
        weir_mariadb *where = (weir_mariadb *)query->where, *pool = weir__mariadb_pool_of(query->where);

        if (weir__sql_refuse(query, where->leased, &after->base))
                return;
        query->state = WEIR__SQL_WAITING;
        weir__sql_enqueue(&where->base.waiting, query);
        weir__sql_look_at(&pool->base, query->deadline);
        if (where == pool)
                weir__mariadb_make_links(pool, after);
        else if (where->leased->state == WEIR__MARIADB_HELD)
                weir__mariadb_wake(where->leased, after);
}

void
weir__mariadb_begin(struct weir__sql_query *query)
{
        struct weir__mariadb_after after = {0};
        struct weir__sql_pool *pool = query->where->pool;

        pthread_mutex_lock(&pool->lock);
        query->began = weir_now();
        query->deadline = weir__sql_later(query->began, query->limit);
        enqueue(query, &after);
        weir__sql_unlock(pool);
        weir__mariadb_after(&after);
}

bool
weir__mariadb_give_up(struct weir__mariadb_query *query, int status, struct weir__mariadb_after *after)
{
        if (!weir__sql_give_up(&query->base, status, &after->base))
                return false;
        query->late_status = status;
        weir__mariadb_link_cut(query->link);
        return true;
}

void
weir__mariadb_cancel(struct weir__sql_query *query, int status)
{
        struct weir__mariadb_after after = {0};
        weir_mariadb *pool = weir__mariadb_pool_of(query->where);

        pthread_mutex_lock(&pool->base.lock);
        weir__mariadb_give_up(weir__mariadb_of(query), status, &after);
        for (struct weir__mariadb_link *link = status == -ESHUTDOWN ? pool->links : NULL; link; link = link->next)
                if (link->is_connecting)
                        weir__mariadb_link_cut(link); /* the shutdown would wait for it */
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
}
