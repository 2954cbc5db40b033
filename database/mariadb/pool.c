/* database/mariadb/pool.c: which link gets which query, and how many links there are.
 *
 * A query waits, behind those that came before.  An idle link is woken for it, the one used last first.  Without one links are
 * made, as long as more queries wait than links are being made or woken.  A link that has finished takes the query that has
 * waited longest.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/mariadb/mariadb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/promise.h>

/* -- lists of queries -- */

void
weir__mariadb_enqueue(struct weir__mariadb_list *list, struct weir__mariadb_query *query)
{
        query->next = NULL;
        query->previous = list->last;
        *(list->last ? &list->last->next : &list->first) = query;
        list->last = query;
        list->length++;
}

void
weir__mariadb_dequeue(struct weir__mariadb_list *list, struct weir__mariadb_query *query)
{
        *(query->previous ? &query->previous->next : &list->first) = query->next;
        *(query->next ? &query->next->previous : &list->last) = query->previous;
        query->next = query->previous = NULL;
        list->length--;
}

static unsigned
busy_of(const weir_mariadb *pool)
{
        return pool->link_count - pool->connecting - pool->idle_count;
}

void
weir__mariadb_unlock(weir_mariadb *pool)
{
        atomic_store_explicit(&pool->busy_now, busy_of(pool), memory_order_relaxed);
        atomic_store_explicit(&pool->waiting_now, pool->waiting.length, memory_order_relaxed);
        pthread_mutex_unlock(&pool->lock);
}

void
weir__mariadb_describe(const void *own, char *text, size_t room)
{
        const struct weir__mariadb_query *query = own;
        const weir_mariadb *pool = query->where ? query->where->pool : NULL;

        if (pool)
                snprintf(text, room, "%s (pool %s, %u busy, %u wait)",
                         atomic_load_explicit(&query->is_taken, memory_order_relaxed) ? "at the server" : "for a connection",
                         pool->name, atomic_load_explicit(&pool->busy_now, memory_order_relaxed),
                         atomic_load_explicit(&pool->waiting_now, memory_order_relaxed));
}

/* Why it was given up, for people. */
static void
note_late(struct weir__mariadb_query *query, int status)
{
        const weir_mariadb *pool = query->where->pool;
        const char *cause = status == -ETIMEDOUT ? "too late" : status == -ECANCELED ? "cancelled" : "ended";
        char *text = NULL;
        int size;

        if (query->state == WEIR__MARIADB_WAITING)
                size = asprintf(&text, "%s while it waited for a connection (pool %s, %u busy, %u being made, %u wait)", cause,
                                pool->name, busy_of(pool), pool->connecting, pool->waiting.length);
        else
                size = asprintf(&text, "%s while the server executed it (pool %s)", cause, pool->name);
        query->late = size < 0 ? NULL : text;
}

/* -- links -- */

void
weir__mariadb_link_unidle(struct weir__mariadb_link *link)
{
        weir_mariadb *pool = link->pool;

        for (struct weir__mariadb_link **at = &pool->idle; *at; at = &(*at)->next_idle) {
                if (*at != link)
                        continue;
                *at = link->next_idle;
                pool->idle_count--;
                break;
        }
        link->next_idle = NULL;
}

void
weir__mariadb_wake(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        if (link->state == WEIR__MARIADB_IDLE) {
                weir__mariadb_link_unidle(link);
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
        pool->link_count--;
        pool->connecting -= link->is_connecting;
        link->is_connecting = false;
        if (pool->link_count == 0 && pool->timer && atomic_load(&pool->users) == 0)
                weir_timer_cancel_id(pool->timer);
}

/* NULL when out of memory. */
static struct weir__mariadb_link *
add_link(weir_mariadb *pool)
{
        struct weir__mariadb_link *link = calloc(1, sizeof *link);

        if (!link)
                return NULL;
        atomic_fetch_add(&pool->references, 1);
        link->pool = pool;
        link->fd = -1;
        link->deadline = WEIR_FOREVER;
        link->is_connecting = true;
        pool->connecting++;
        pool->link_count++;
        link->next = pool->links;
        if (link->next)
                link->next->previous = link;
        pool->links = link;
        return link;
}

void
weir__mariadb_make_links(weir_mariadb *pool, struct weir__mariadb_after *after)
{
        while (pool->waiting.length > pool->connecting + pool->starting) {
                struct weir__mariadb_link *link = pool->idle;

                if (!link && pool->link_count >= pool->config.connections)
                        return;
                if (!link && pool->not_before > weir_now()) {
                        weir__mariadb_look_at(pool, pool->not_before);
                        return;
                }
                if (!link)
                        link = add_link(pool);
                if (!link && pool->link_count == 0)
                        weir__mariadb_end_waiting(pool, &pool->waiting, WEIR_FOREVER, -ENOMEM, NULL, after);
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
        handle->is_lost = true;
        handle->leased = NULL;
        link->holder = NULL;
        weir__mariadb_end_waiting(link->pool, &handle->waiting, WEIR_FOREVER, -ECONNRESET,
                                  "the connection of the transaction broke", after);
}

/* -- queries -- */

void
weir__mariadb_end_waiting(weir_mariadb *pool, struct weir__mariadb_list *list, weir_nsec since, int status, const char *problem,
                          struct weir__mariadb_after *after)
{
        while (list->first && list->first->began <= since) {
                struct weir__mariadb_query *query = list->first;

                weir__mariadb_dequeue(list, query);
                pool->stats.failed++;
                weir__mariadb_over(query, status, problem, after);
        }
}

void
weir__mariadb_take(struct weir__mariadb_link *link, struct weir__mariadb_query *query, weir_nsec now)
{
        weir_mariadb *pool = link->pool;

        weir__mariadb_dequeue(&query->where->waiting, query);
        query->state = WEIR__MARIADB_TAKEN;
        atomic_store_explicit(&query->is_taken, true, memory_order_relaxed);
        query->link = link;
        query->outcome = (struct weir__mariadb_outcome){.status = 0}; /* of an attempt to connect that has failed for others */
        link->query = query;
        link->idle_since = 0;
        weir__mariadb_enqueue(&pool->taken, query);
        pool->stats.queries += query->kind != WEIR__MARIADB_LEASE;
        pool->stats.waited += now - query->began;
}

/* What the cut connection has brought may be faster than who has cut it. */
static void
be_late(struct weir__mariadb_query *query)
{
        struct weir__mariadb_outcome *outcome = &query->outcome;

        free(outcome->problem);
        outcome->problem = query->late ? strdup(query->late) : NULL;
        outcome->status = query->late_status;
        outcome->code = 0;
        outcome->sqlstate[0] = '\0';
}

void
weir__mariadb_finish(struct weir__mariadb_link *link, struct weir__mariadb_after *after)
{
        weir_mariadb *pool = link->pool;
        struct weir__mariadb_query *query = link->query;

        link->query = NULL;
        query->link = NULL;
        weir__mariadb_dequeue(&pool->taken, query);
        if (query->is_given_up) {
                be_late(query);
                pool->stats.cancelled++;
        } else if (query->outcome.status) {
                pool->stats.failed++;
        }
        if (query->where != pool && !query->is_given_up)
                weir__mariadb_handle_note(query->where, query->outcome.problem);
        weir__mariadb_over(query, query->outcome.status, NULL, after);
}

int
weir__mariadb_hold(struct weir__mariadb_query *query)
{
        weir_mariadb *handle = query->where, *pool = handle->pool;

        pthread_mutex_lock(&pool->lock);
        int refused = handle->was_rolled_back                                     ? -ENOTRECOVERABLE
                      : query->is_given_up || weir_promise_hold(query->task) != 0 ? -ECANCELED
                                                                                  : 0;
        query->is_held = refused == 0;
        if (!refused) {
                handle->commit = WEIR__MARIADB_COMMIT_SENT;
                query->deadline = weir__mariadb_later(weir_now(), WEIR__MARIADB_HELD_LOOK);
                weir__mariadb_look_at(pool, query->deadline);
        }
        pthread_mutex_unlock(&pool->lock);
        return refused;
}

/* Under the lock. */
static void
place(struct weir__mariadb_query *query, struct weir__mariadb_after *after)
{
        weir_mariadb *where = query->where, *pool = where->pool;
        bool is_within = where != pool;

        if (is_within && where->is_lost) {
                weir__mariadb_over(query, -ECONNRESET, "the connection of the transaction broke", after);
                return;
        }
        if (is_within ? !where->leased : pool->is_closed) {
                weir__mariadb_over(query, -EPIPE, is_within ? "the transaction is over" : "the pool is closed", after);
                return;
        }
        query->state = WEIR__MARIADB_WAITING;
        weir__mariadb_enqueue(&where->waiting, query);
        weir__mariadb_look_at(pool, query->deadline);
        if (!is_within)
                weir__mariadb_make_links(pool, after);
        else if (where->leased->state == WEIR__MARIADB_HELD)
                weir__mariadb_wake(where->leased, after);
}

void
weir__mariadb_begin(struct weir__mariadb_query *query)
{
        struct weir__mariadb_after after = {0};

        if (query->fault) {
                weir__mariadb_over(query, query->fault, NULL, &after);
                weir__mariadb_after(&after);
                return;
        }
        weir_mariadb *pool = query->where->pool;
        pthread_mutex_lock(&pool->lock);
        query->began = weir_now();
        query->deadline = weir__mariadb_later(query->began, query->limit);
        place(query, &after);
        weir__mariadb_unlock(pool);
        weir__mariadb_after(&after);
}

bool
weir__mariadb_give_up(struct weir__mariadb_query *query, int status, struct weir__mariadb_after *after)
{
        if (query->is_given_up || query->state == WEIR__MARIADB_OVER || query->state == WEIR__MARIADB_MADE)
                return false;
        query->is_given_up = true;
        query->late_status = status;
        note_late(query, status);
        if (query->state == WEIR__MARIADB_TAKEN) {
                weir__mariadb_link_cut(query->link);
                return true;
        }
        weir__mariadb_dequeue(&query->where->waiting, query);
        weir__mariadb_over(query, status, query->late, after);
        return false;
}

void
weir__mariadb_cancel(struct weir__mariadb_query *query, int status)
{
        struct weir__mariadb_after after = {0};

        if (!query->where)
                return;
        weir_mariadb *pool = query->where->pool;
        pthread_mutex_lock(&pool->lock);
        weir__mariadb_give_up(query, status, &after);
        for (struct weir__mariadb_link *link = status == -ESHUTDOWN ? pool->links : NULL; link; link = link->next)
                if (link->is_connecting)
                        weir__mariadb_link_cut(link); /* the shutdown would wait for it */
        weir__mariadb_unlock(pool);
        weir__mariadb_after(&after);
}
