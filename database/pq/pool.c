/* database/pq/pool.c: which link gets which query, and how many links there are.
 *
 * A query takes the idle link that was used last.  Without one it waits, and links are made as long as more queries wait than
 * links are being made.  A link that has finished takes the query that has waited longest.
 *
 * Threads: any.
 * Locks:   the pool's, under that of a link at most. */
#include "database/pq/pq.h"

#include <stdlib.h>

/* -- idle links; under the pool's lock -- */

static void
remove_idle(struct weir__pq_link *link)
{
        weir_pq *pool = link->pool;

        for (struct weir__pq_link **at = &pool->idle; *at; at = &(*at)->next_idle) {
                if (*at != link)
                        continue;
                *at = link->next_idle;
                break;
        }
        link->next_idle = NULL;
        link->is_idle = false;
        pool->base.idle_count--;
}

static void
add_idle(struct weir__pq_link *link, weir_nsec now)
{
        weir_pq *pool = link->pool;

        link->next_idle = pool->idle;
        pool->idle = link;
        link->is_idle = true;
        link->idle_since = now;
        pool->base.idle_count++;
        weir__sql_look_at(&pool->base, weir__sql_later(link->idle_since, pool->config.idle_limit));
}

bool
weir__pq_take_idle(struct weir__pq_link *link)
{
        pthread_mutex_lock(&link->pool->base.lock);
        bool was_idle = link->is_idle;
        if (was_idle)
                remove_idle(link);
        weir__sql_unlock(&link->pool->base);
        return was_idle;
}

/* -- queries and links -- */

/* The query is now that of the link. */
static void
assign(struct weir__pq_query *query, struct weir__pq_link *link, weir_nsec now)
{
        query->link = weir__pq_link_ref(link);
        link->is_alone = query->kind != WEIR__PQ_STATEMENT || link->holder;
        link->in_flight++;
        weir__sql_send(&query->base, query->kind == WEIR__PQ_LEASE, now);
        weir__sql_look_at(&link->pool->base, query->base.deadline);
}

static bool
is_used_up(const struct weir__pq_link *link, weir_nsec now)
{
        const weir_pq *pool = link->pool;

        return (pool->base.is_closed && !pool->base.waiting.first) || weir__sql_later(link->made, pool->config.age_limit) <= now;
}

/* Whether it can have the query beside those that it has. */
static bool
has_room(const struct weir__pq_link *link, const struct weir__pq_query *query)
{
        return link->in_flight == 0 || (link->has_pipeline && !link->is_alone && link->given_up == 0 &&
                                        query->kind == WEIR__PQ_STATEMENT && link->in_flight < link->pool->config.pipeline);
}

struct weir__pq_query *
weir__pq_next(struct weir__pq_link *link, bool *ret_close)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->base.lock);
        weir_pq *holder = link->holder;
        weir_nsec now = weir_now();
        bool is_over = !holder && is_used_up(link, now);
        struct weir__pq_query *first = weir__pq_of(holder ? holder->base.waiting.first : pool->base.waiting.first);
        struct weir__pq_query *query = is_over || (first && !has_room(link, first)) ? NULL : first;
        *ret_close = is_over && link->in_flight == 0;
        if (query) {
                assign(query, link, now);
        } else if (link->in_flight == 0 && holder) {
                holder->is_free = true;
        } else if (link->in_flight == 0 && !*ret_close) {
                add_idle(link, now);
        }
        weir__sql_unlock(&pool->base);
        return query;
}

bool
weir__pq_is_wanted(struct weir__pq_query *query)
{
        return !atomic_load_explicit(&query->base.is_given_up, memory_order_acquire);
}

void
weir__pq_finish(struct weir__pq_query *query, int status, const char *problem, struct weir__pq_after *after)
{
        struct weir__sql_pool *pool = query->base.where->pool;

        pthread_mutex_lock(&pool->lock);
        struct weir__pq_link *link = query->link;
        query->link = NULL;
        link->in_flight--;
        link->given_up -= query->base.is_given_up;
        weir__sql_finish(&query->base, status, problem, &after->base);
        weir__sql_unlock(pool);
        weir__pq_link_unref(link);
}

bool
weir__pq_hold(struct weir__pq_query *query)
{
        struct weir__sql_pool *pool = query->base.where->pool;

        pthread_mutex_lock(&pool->lock);
        bool is_wanted = weir__sql_hold(&query->base) == 0;
        pthread_mutex_unlock(&pool->lock);
        return is_wanted;
}

void
weir__pq_requeue(struct weir__pq_query *query, struct weir__pq_after *after)
{
        weir_pq *pool = weir__pq_pool_of(query->base.where);

        pthread_mutex_lock(&pool->base.lock);
        struct weir__pq_link *link = query->link;
        query->link = NULL;
        link->in_flight--;
        link->given_up -= query->base.is_given_up;
        pool->base.queries -= query->kind != WEIR__PQ_LEASE;
        if (weir__sql_take_back(&query->base, &after->base))
                weir__pq_after_make_links(after, pool);
        weir__sql_unlock(&pool->base);
        weir__pq_link_unref(link);
}

/* The link with the fewest queries that can have one more; NULL: there is none.  Under the lock. */
static struct weir__pq_link *
find_room(const weir_pq *pool, const struct weir__pq_query *query)
{
        struct weir__pq_link *best = NULL;

        for (struct weir__pq_link *link = pool->config.pipeline > 1 ? pool->links : NULL; link; link = link->next)
                if (link->has_pipeline && !link->holder && link->in_flight > 0 && has_room(link, query) &&
                    (!best || link->in_flight < best->in_flight))
                        best = link;
        return best;
}

/* Returns the link that is to send it, or NULL: it waits, or is over.  Under the lock. */
static struct weir__pq_link *
dispatch(struct weir__pq_query *query, struct weir__pq_after *after)
{
        weir_pq *where = (weir_pq *)query->base.where, *pool = weir__pq_pool_of(query->base.where);
        bool is_within = where != pool;
        struct weir__pq_link *link = !is_within ? pool->idle : where->is_free ? where->leased : NULL;

        if (weir__sql_refuse(&query->base, where->leased, &after->base))
                return NULL;
        if (!link && !is_within && !pool->base.waiting.first)
                link = find_room(pool, query);
        if (link && (is_within || !pool->base.waiting.first)) {
                if (is_within)
                        where->is_free = false;
                if (link->is_idle) {
                        remove_idle(link);
                        link->should_check = query->base.began - link->idle_since >= pool->config.check_after;
                }
                assign(query, link, query->base.began);
                return weir__pq_link_ref(link);
        }
        query->base.state = WEIR__SQL_WAITING;
        weir__sql_enqueue(&where->base.waiting, &query->base);
        weir__sql_look_at(&pool->base, query->base.deadline);
        if (!is_within)
                weir__pq_after_make_links(after, pool);
        return NULL;
}

void
weir__pq_begin(struct weir__sql_query *query)
{
        struct weir__pq_after after = {0};
        struct weir__sql_pool *pool = query->where->pool;

        pthread_mutex_lock(&pool->lock);
        query->began = weir_now();
        query->deadline = weir__sql_later(query->began, query->limit);
        struct weir__pq_link *link = dispatch(weir__pq_of(query), &after);
        weir__sql_unlock(pool);
        if (link) {
                weir__pq_link_lock(link, &after);
                weir__pq_link_send(link, weir__pq_of(query), &after);
                weir__pq_link_unlock(link);
                weir__pq_link_unref(link);
        }
        weir__pq_after(&after);
}

struct weir__pq_link *
weir__pq_give_up(struct weir__pq_query *query, int status, struct weir__pq_after *after)
{
        if (!weir__sql_give_up(&query->base, status, &after->base))
                return NULL;
        query->link->given_up++;
        return weir__pq_link_ref(query->link);
}

void
weir__pq_cancel(struct weir__sql_query *base, int status)
{
        struct weir__pq_query *query = weir__pq_of(base);
        struct weir__pq_after after = {0};

        pthread_mutex_lock(&base->where->pool->lock);
        struct weir__pq_link *link = weir__pq_give_up(query, status, &after);
        weir__sql_unlock(base->where->pool);
        if (link) {
                weir__pq_link_abandon(link, query);
                weir__pq_link_unref(link);
        }
        weir__pq_after(&after);
}

/* -- links come and go -- */

static void
remove_link(struct weir__pq_link *link)
{
        weir_pq *pool = link->pool;

        *(link->previous ? &link->previous->next : &pool->links) = link->next;
        if (link->next)
                link->next->previous = link->previous;
        pool->base.link_count -= !link->is_extra;
        pool->base.connecting -= !link->is_extra && link->is_connecting;
        link->is_connecting = false;
        link->is_gone = true;
}

static void
end_waiting(weir_pq *pool, weir_nsec since, int status, const char *problem, struct weir__pq_after *after)
{
        pool->base.failed += weir__sql_end_waiting(&pool->base.waiting, since, status, problem, &after->base);
}

static void
was_refused(struct weir__pq_link *link, int status, const char *problem, struct weir__pq_after *after)
{
        weir_pq *pool = link->pool;

        weir__sql_was_refused(&pool->base, link->made);
        if (pool->base.link_count == pool->base.connecting)
                end_waiting(pool, link->made, status, problem, after);
}

void
weir__pq_link_is_dead(struct weir__pq_link *link, bool was_ready, int status, const char *problem, struct weir__pq_after *after)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->base.lock);
        bool was_gone = link->is_gone;
        if (link->holder)
                weir__pq_handle_lost(link->holder, after);
        link->holder = NULL;
        if (!was_gone) {
                if (link->is_idle)
                        remove_idle(link);
                remove_link(link);
                if (!was_ready && link->is_extra)
                        pool->base.refused++;
                else if (!was_ready)
                        was_refused(link, status, problem, after);
                else if (status)
                        pool->base.lost++;
                if (was_ready && !link->is_extra)
                        weir__sql_was_used_up(&pool->base);
        }
        weir__pq_after_make_links(after, pool);
        weir__sql_unlock(&pool->base);
        if (!was_gone)
                weir__pq_link_unref(link);
}

void
weir__pq_link_is_ready(struct weir__pq_link *link)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->base.lock);
        pool->base.connecting -= !link->is_extra;
        link->is_connecting = false;
        weir__sql_was_connected(&pool->base);
        if (link->is_extra)
                weir__pq_hub_is_ready(pool, link);
        weir__sql_unlock(&pool->base);
}

void
weir__pq_add_link(weir_pq *pool, struct weir__pq_link *link, weir_nsec now)
{
        link->made = now;
        link->is_connecting = true;
        link->deadline = weir__sql_later(now, pool->config.connect_limit);
        link->next = pool->links;
        if (link->next)
                link->next->previous = link;
        pool->links = link;
        pool->base.link_count += !link->is_extra;
        pool->base.connecting += !link->is_extra;
        weir__sql_look_at(&pool->base, link->deadline);
}

/* Under the lock.  NULL: no more are needed, or there is no memory. */
static struct weir__pq_link *
make_link(weir_pq *pool, weir_nsec now, struct weir__pq_after *after)
{
        if (pool->base.waiting.length <= pool->base.connecting || pool->base.link_count >= pool->config.connections)
                return NULL;
        if (pool->base.not_before > now) {
                weir__sql_look_at(&pool->base, pool->base.not_before);
                return NULL;
        }
        struct weir__pq_link *link = weir__pq_link_new(pool);
        if (!link) {
                if (pool->base.link_count == 0)
                        end_waiting(pool, now, -ENOMEM, NULL, after);
                return NULL;
        }
        weir__pq_add_link(pool, link, now);
        return weir__pq_link_ref(link);
}

void
weir__pq_make_links(weir_pq *pool)
{
        struct weir__pq_after after = {0};
        struct weir__pq_link *link;

        do {
                pthread_mutex_lock(&pool->base.lock);
                link = make_link(pool, weir_now(), &after);
                weir__sql_unlock(&pool->base);
                if (link) {
                        weir__pq_connect(link);
                        weir__pq_link_unref(link);
                }
        } while (link);
        weir__pq_after(&after);
}
