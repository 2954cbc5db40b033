/* database/pq/pool.c: which link gets which query, and how many links there are.
 *
 * A query takes the idle link that was used last.  Without one it waits, and links are made as long as more queries wait than
 * links are being made.  A link that has finished takes the query that has waited longest.
 *
 * Threads: any.
 * Locks:   the pool's, under that of a link at most. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/promise.h>

#define FIRST_PAUSE WEIR_MSEC(10) /* after an attempt to connect that failed behind another one */
#define LAST_PAUSE  WEIR_SEC(1)

/* -- lists of queries; under the pool's lock -- */

void
weir__pq_enqueue(struct weir__pq_list *list, struct weir__pq_query *query)
{
        query->next = NULL;
        query->previous = list->last;
        *(list->last ? &list->last->next : &list->first) = query;
        list->last = query;
        list->length++;
}

static void
enqueue_first(struct weir__pq_list *list, struct weir__pq_query *query)
{
        query->previous = NULL;
        query->next = list->first;
        *(list->first ? &list->first->previous : &list->last) = query;
        list->first = query;
        list->length++;
}

void
weir__pq_dequeue(struct weir__pq_list *list, struct weir__pq_query *query)
{
        *(query->previous ? &query->previous->next : &list->first) = query->next;
        *(query->next ? &query->next->previous : &list->last) = query->previous;
        query->next = query->previous = NULL;
        list->length--;
}

/* The list in which it waits: that of the pool, or of its transaction. */
static struct weir__pq_list *
waiting_of(const struct weir__pq_query *query)
{
        return &query->where->waiting;
}

/* For dumps.  Before the lock is let go. */
static void
publish(weir_pq *pool)
{
        atomic_store_explicit(&pool->busy_now, pool->link_count - pool->connecting - pool->idle_count, memory_order_relaxed);
        atomic_store_explicit(&pool->waiting_now, pool->waiting.length, memory_order_relaxed);
}

void
weir__pq_unlock(weir_pq *pool)
{
        publish(pool);
        pthread_mutex_unlock(&pool->lock);
}

void
weir__pq_describe(const void *own, char *out, size_t room)
{
        const struct weir__pq_query *query = own;
        const weir_pq *pool = query->where ? query->where->pool : NULL;

        if (pool)
                snprintf(out, room, "%s (pool %s, %u busy, %u wait)",
                         atomic_load_explicit(&query->is_sent, memory_order_relaxed) ? "at the server" : "for a connection",
                         pool->name, atomic_load_explicit(&pool->busy_now, memory_order_relaxed),
                         atomic_load_explicit(&pool->waiting_now, memory_order_relaxed));
}

/* Why it was given up, for people.  Under the pool's lock. */
static void
note_late(struct weir__pq_query *query, int status)
{
        const weir_pq *pool = query->where->pool;
        const char *cause = status == -ETIMEDOUT ? "too late" : status == -ECANCELED ? "cancelled" : "ended";
        unsigned busy = pool->link_count - pool->connecting - pool->idle_count;
        char *text = NULL;

        if (query->late)
                return;
        if (query->state == WEIR__PQ_WAITING) {
                if (asprintf(&text, "%s while it waited for a connection (pool %s, %u busy, %u being made, %u wait)", cause,
                             pool->name, busy, pool->connecting, pool->waiting.length) < 0)
                        return;
        } else if (asprintf(&text, "%s while the server executed it (pool %s)", cause, pool->name) < 0) {
                return;
        }
        query->late = text;
}

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
        pool->idle_count--;
}

static void
add_idle(struct weir__pq_link *link, weir_nsec now)
{
        weir_pq *pool = link->pool;

        link->next_idle = pool->idle;
        pool->idle = link;
        link->is_idle = true;
        link->idle_since = now;
        pool->idle_count++;
        weir__pq_look_at(pool, weir__pq_later(link->idle_since, pool->config.idle_limit));
}

bool
weir__pq_take_idle(struct weir__pq_link *link)
{
        pthread_mutex_lock(&link->pool->lock);
        bool was_idle = link->is_idle;
        if (was_idle)
                remove_idle(link);
        weir__pq_unlock(link->pool);
        return was_idle;
}

/* -- queries and links -- */

/* The query is now that of the link. */
static void
assign(struct weir__pq_query *query, struct weir__pq_link *link, weir_nsec now)
{
        weir_pq *pool = query->where->pool;

        query->state = WEIR__PQ_SENT;
        atomic_store_explicit(&query->is_sent, true, memory_order_relaxed);
        query->link = weir__pq_link_ref(link);
        link->is_alone = query->kind != WEIR__PQ_STATEMENT || link->holder;
        link->in_flight++;
        weir__pq_enqueue(&pool->sent, query);
        pool->stats.queries += query->kind != WEIR__PQ_LEASE;
        pool->stats.waited += now - query->began;
        weir__pq_look_at(pool, query->deadline);
}

static bool
is_used_up(const struct weir__pq_link *link, weir_nsec now)
{
        const weir_pq *pool = link->pool;

        return (pool->is_closed && !pool->waiting.first) || weir__pq_later(link->made, pool->config.age_limit) <= now;
}

/* Whether it can have the query beside those that it has. */
static bool
has_room(const struct weir__pq_link *link, const struct weir__pq_query *query)
{
        return link->in_flight == 0 || (link->has_pipeline && !link->is_alone && query->kind == WEIR__PQ_STATEMENT &&
                                        link->in_flight < link->pool->config.pipeline);
}

struct weir__pq_query *
weir__pq_next(struct weir__pq_link *link, bool *ret_close)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->lock);
        weir_pq *holder = link->holder;
        weir_nsec now = weir_now();
        bool is_over = !holder && is_used_up(link, now);
        struct weir__pq_list *list = holder ? &holder->waiting : &pool->waiting;
        struct weir__pq_query *query = is_over || (list->first && !has_room(link, list->first)) ? NULL : list->first;
        *ret_close = is_over && link->in_flight == 0;
        if (query) {
                weir__pq_dequeue(list, query);
                assign(query, link, now);
        } else if (link->in_flight == 0 && holder) {
                holder->is_free = true;
        } else if (link->in_flight == 0 && !*ret_close) {
                add_idle(link, now);
        }
        weir__pq_unlock(pool);
        return query;
}

bool
weir__pq_is_wanted(struct weir__pq_query *query)
{
        return !atomic_load_explicit(&query->is_given_up, memory_order_acquire);
}

void
weir__pq_finish(struct weir__pq_query *query, int status, const char *problem, struct weir__pq_after *after)
{
        weir_pq *pool = query->where->pool;

        pthread_mutex_lock(&pool->lock);
        query->state = WEIR__PQ_OVER;
        weir__pq_dequeue(&pool->sent, query);
        struct weir__pq_link *link = query->link;
        query->link = NULL;
        link->in_flight--;
        if (query->is_given_up)
                pool->stats.cancelled++;
        else if (status)
                pool->stats.failed++;
        weir__pq_over(query, status, problem, after);
        if (query->where != pool && !query->is_given_up)
                weir__pq_handle_note(query->where, query->outcome.problem);
        weir__pq_unlock(pool);
        weir__pq_link_unref(link);
}

bool
weir__pq_hold(struct weir__pq_query *query)
{
        weir_pq *pool = query->where->pool;

        pthread_mutex_lock(&pool->lock);
        bool is_wanted = !query->is_given_up && weir_promise_hold(query->task) == 0;
        query->is_held = is_wanted;
        if (is_wanted)
                query->where->commit = WEIR__PQ_COMMIT_SENT;
        query->deadline = weir__pq_later(weir_now(), WEIR__PQ_HELD_LOOK);
        weir__pq_look_at(pool, query->deadline);
        pthread_mutex_unlock(&pool->lock);
        return is_wanted;
}

void
weir__pq_requeue(struct weir__pq_query *query, struct weir__pq_after *after)
{
        weir_pq *pool = query->where->pool;

        pthread_mutex_lock(&pool->lock);
        weir__pq_dequeue(&pool->sent, query);
        pool->stats.queries -= query->kind != WEIR__PQ_LEASE;
        struct weir__pq_link *link = query->link;
        query->link = NULL;
        link->in_flight--;
        if (query->is_given_up || query->where != pool) {
                query->state = WEIR__PQ_OVER;
                weir__pq_over(query, -ECONNRESET, "the connection of the transaction broke", after);
        } else {
                query->state = WEIR__PQ_WAITING;
                atomic_store_explicit(&query->is_sent, false, memory_order_relaxed);
                enqueue_first(&pool->waiting, query);
                weir__pq_after_make_links(after, pool);
        }
        weir__pq_unlock(pool);
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
place(struct weir__pq_query *query, struct weir__pq_after *after)
{
        weir_pq *where = query->where, *pool = where->pool;
        bool is_within = where != pool;
        struct weir__pq_link *link = !is_within ? pool->idle : where->is_free ? where->leased : NULL;

        if (is_within && where->is_lost) {
                query->state = WEIR__PQ_OVER;
                weir__pq_over(query, -ECONNRESET, "the connection of the transaction broke", after);
                return NULL;
        }
        if (is_within ? !where->leased : pool->is_closed) {
                query->state = WEIR__PQ_OVER;
                weir__pq_over(query, -EPIPE, is_within ? "the transaction is over" : "the pool is closed", after);
                return NULL;
        }
        if (!link && !is_within && !pool->waiting.first)
                link = find_room(pool, query);
        if (link && (is_within || !pool->waiting.first)) {
                if (is_within)
                        where->is_free = false;
                if (link->is_idle) {
                        remove_idle(link);
                        link->should_check = query->began - link->idle_since >= pool->config.check_after;
                }
                assign(query, link, query->began);
                return weir__pq_link_ref(link);
        }
        query->state = WEIR__PQ_WAITING;
        weir__pq_enqueue(waiting_of(query), query);
        if (!is_within)
                weir__pq_after_make_links(after, pool);
        return NULL;
}

void
weir__pq_begin(struct weir__pq_query *query)
{
        struct weir__pq_after after = {0};
        struct weir__pq_link *link = NULL;

        if (query->fault) {
                query->state = WEIR__PQ_OVER;
                weir__pq_over(query, query->fault, NULL, &after);
                weir__pq_after(&after);
                return;
        }
        weir_pq *pool = query->where->pool;
        pthread_mutex_lock(&pool->lock);
        query->began = weir_now();
        query->deadline = weir__pq_later(query->began, query->limit);
        link = place(query, &after);
        if (query->state == WEIR__PQ_WAITING)
                weir__pq_look_at(pool, query->deadline);
        weir__pq_unlock(pool);
        if (link) {
                weir__pq_link_lock(link, &after);
                weir__pq_link_send(link, query, &after);
                weir__pq_link_unlock(link);
                weir__pq_link_unref(link);
        }
        weir__pq_after(&after);
}

/* Under the lock.  Returns the link that has to abandon it, with a reference, or NULL. */
struct weir__pq_link *
weir__pq_give_up(struct weir__pq_query *query, int status, struct weir__pq_after *after)
{
        struct weir__pq_link *link = NULL;

        if (query->is_given_up || query->state == WEIR__PQ_OVER || query->state == WEIR__PQ_MADE)
                return NULL;
        query->is_given_up = true;
        note_late(query, status);
        if (query->state == WEIR__PQ_SENT)
                return weir__pq_link_ref(query->link);
        weir__pq_dequeue(waiting_of(query), query);
        query->state = WEIR__PQ_OVER;
        weir__pq_over(query, status, query->late, after);
        return link;
}

void
weir__pq_cancel(struct weir__pq_query *query, int status)
{
        struct weir__pq_after after = {0};

        if (!query->where)
                return;
        weir_pq *pool = query->where->pool;
        pthread_mutex_lock(&pool->lock);
        struct weir__pq_link *link = weir__pq_give_up(query, status, &after);
        weir__pq_unlock(pool);
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
        pool->link_count -= !link->is_extra;
        pool->connecting -= !link->is_extra && link->is_connecting;
        link->is_connecting = false;
        link->is_gone = true;
}

/* Those that have waited since the attempt began. */
static void
end_waiting(weir_pq *pool, weir_nsec since, int status, const char *problem, struct weir__pq_after *after)
{
        while (pool->waiting.first && pool->waiting.first->began <= since) {
                struct weir__pq_query *query = pool->waiting.first;

                weir__pq_dequeue(&pool->waiting, query);
                query->state = WEIR__PQ_OVER;
                pool->stats.failed++;
                weir__pq_over(query, status, problem, after);
        }
}

static void
was_refused(struct weir__pq_link *link, int status, const char *problem, struct weir__pq_after *after)
{
        weir_pq *pool = link->pool;

        pool->stats.refused++;
        pool->not_before = weir__pq_later(weir_now(), pool->pause);
        pool->pause = pool->pause == 0 ? FIRST_PAUSE : pool->pause < LAST_PAUSE / 2 ? 2 * pool->pause : LAST_PAUSE;
        if (pool->link_count == pool->connecting)
                end_waiting(pool, link->made, status, problem, after);
}

void
weir__pq_link_is_dead(struct weir__pq_link *link, bool was_ready, int status, const char *problem, struct weir__pq_after *after)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->lock);
        bool was_gone = link->is_gone;
        if (link->holder)
                weir__pq_handle_lost(link->holder, after);
        link->holder = NULL;
        if (!was_gone) {
                if (link->is_idle)
                        remove_idle(link);
                remove_link(link);
                if (!was_ready && link->is_extra)
                        pool->stats.refused++;
                else if (!was_ready)
                        was_refused(link, status, problem, after);
                else if (status)
                        pool->stats.lost++;
        }
        weir__pq_after_make_links(after, pool);
        weir__pq_unlock(pool);
        if (!was_gone)
                weir__pq_link_unref(link);
}

void
weir__pq_link_is_ready(struct weir__pq_link *link)
{
        weir_pq *pool = link->pool;

        pthread_mutex_lock(&pool->lock);
        pool->connecting -= !link->is_extra;
        link->is_connecting = false;
        pool->stats.connects++;
        pool->pause = 0;
        pool->not_before = 0;
        if (link->is_extra)
                weir__pq_hub_is_ready(pool, link);
        weir__pq_unlock(pool);
}

void
weir__pq_add_link(weir_pq *pool, struct weir__pq_link *link, weir_nsec now)
{
        link->made = now;
        link->is_connecting = true;
        link->deadline = weir__pq_later(now, pool->config.connect_limit);
        link->next = pool->links;
        if (link->next)
                link->next->previous = link;
        pool->links = link;
        pool->link_count += !link->is_extra;
        pool->connecting += !link->is_extra;
        weir__pq_look_at(pool, link->deadline);
}

/* Under the lock.  NULL: no more are needed, or there is no memory. */
static struct weir__pq_link *
make_link(weir_pq *pool, weir_nsec now, struct weir__pq_after *after)
{
        if (pool->waiting.length <= pool->connecting || pool->link_count >= pool->config.connections)
                return NULL;
        if (pool->not_before > now) {
                weir__pq_look_at(pool, pool->not_before);
                return NULL;
        }
        struct weir__pq_link *link = weir__pq_link_new(pool);
        if (!link) {
                if (pool->link_count == 0)
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
                pthread_mutex_lock(&pool->lock);
                link = make_link(pool, weir_now(), &after);
                weir__pq_unlock(pool);
                if (link) {
                        weir__pq_connect(link);
                        weir__pq_link_unref(link);
                }
        } while (link);
        weir__pq_after(&after);
}
