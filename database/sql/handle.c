/* database/sql/handle.c: pools and transactions: their references, and the queries that they have.
 *
 * The program's references and those of tasks are users.  When the last one goes, a pool closes.  Connections and the timer have
 * references to the memory alone.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_PAUSE_FIRST WEIR_MSEC(10) /* after an attempt to connect that failed behind another one */
#define CONNECT_PAUSE_LAST  WEIR_SEC(1)

/* -- references -- */

int
weir__sql_pool_init(struct weir__sql_pool *pool, const struct weir__sql_kind *kind, const char *name, weir_nsec limit)
{
        pool->kind = kind;
        pool->pool = pool;
        pool->limit = limit;
        pool->pid = getpid();
        atomic_init(&pool->users, 1);
        atomic_init(&pool->references, 1);
        pthread_mutex_init(&pool->lock, NULL);
        pool->name = strdup(name);
        if (!pool->name)
                return -ENOMEM;
        weir__figures_add(kind->figures, &pool->figured, pool->name);
        return 0;
}

void
weir__sql_ref_memory(struct weir__sql_pool *pool)
{
        atomic_fetch_add(&pool->references, 1);
}

void
weir__sql_unref_memory(struct weir__sql_pool *pool)
{
        if (atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__figures_remove(pool->kind->figures, &pool->figured);
        pool->kind->free(pool);
        free(pool->name);
        pthread_mutex_destroy(&pool->lock);
        free(pool);
}

struct weir__sql_pool *
weir__sql_ref_user(struct weir__sql_pool *pool)
{
        if (pool)
                atomic_fetch_add_explicit(&pool->users, 1, memory_order_relaxed);
        return pool;
}

static void
free_handle(struct weir__sql_pool *handle)
{
        free(handle->problem);
        weir__sql_unref_user(handle->pool);
        free(handle);
}

void
weir__sql_unref_user(struct weir__sql_pool *pool)
{
        if (!pool || atomic_fetch_sub_explicit(&pool->users, 1, memory_order_acq_rel) != 1 || pool->pid != getpid())
                return;
        if (pool->pool != pool)
                free_handle(pool);
        else
                pool->kind->end(pool);
}

/* -- lists of queries -- */

void
weir__sql_enqueue(struct weir__sql_list *list, struct weir__sql_query *query)
{
        query->next = NULL;
        query->previous = list->last;
        *(list->last ? &list->last->next : &list->first) = query;
        list->last = query;
        list->length++;
}

static void
enqueue_first(struct weir__sql_list *list, struct weir__sql_query *query)
{
        query->previous = NULL;
        query->next = list->first;
        *(list->first ? &list->first->previous : &list->last) = query;
        list->first = query;
        list->length++;
}

static void
dequeue(struct weir__sql_list *list, struct weir__sql_query *query)
{
        *(query->previous ? &query->previous->next : &list->first) = query->next;
        *(query->next ? &query->next->previous : &list->last) = query->previous;
        query->next = query->previous = NULL;
        list->length--;
}

unsigned
weir__sql_busy(const struct weir__sql_pool *pool)
{
        return pool->link_count - pool->connecting - pool->idle_count;
}

void
weir__sql_unlock(struct weir__sql_pool *pool)
{
        atomic_store_explicit(&pool->busy_now, weir__sql_busy(pool), memory_order_relaxed);
        atomic_store_explicit(&pool->waiting_now, pool->waiting.length, memory_order_relaxed);
        pthread_mutex_unlock(&pool->lock);
}

/* -- queries -- */

const char *
weir__sql_over(struct weir__sql_query *query, int status, const char *problem, struct weir__sql_after *after)
{
        query->state = WEIR__SQL_OVER;
        query->next = NULL;
        *(after->ended_at ? after->ended_at : &after->ended) = query;
        after->ended_at = &query->next;
        return query->kind->over(query, status, problem);
}

bool
weir__sql_refuse(struct weir__sql_query *query, bool is_leased, struct weir__sql_after *after)
{
        const struct weir__sql_pool *where = query->where, *pool = where->pool;
        bool is_within = where != pool;

        if (is_within && where->is_lost)
                weir__sql_over(query, -ECONNRESET, "the connection of the transaction broke", after);
        else if (is_within ? !is_leased : pool->is_closed)
                weir__sql_over(query, -EPIPE, is_within ? "the transaction is over" : "the pool is closed", after);
        return query->state == WEIR__SQL_OVER;
}

void
weir__sql_send(struct weir__sql_query *query, bool is_lease, weir_nsec now)
{
        struct weir__sql_pool *pool = query->where->pool;

        if (query->state == WEIR__SQL_WAITING)
                dequeue(&query->where->waiting, query);
        query->state = WEIR__SQL_SENT;
        atomic_store_explicit(&query->is_sent, true, memory_order_relaxed);
        weir__sql_enqueue(&pool->sent, query);
        pool->queries += !is_lease;
        pool->waited += now - query->began;
}

void
weir__sql_finish(struct weir__sql_query *query, int status, const char *problem, struct weir__sql_after *after)
{
        struct weir__sql_pool *pool = query->where->pool;

        dequeue(&pool->sent, query);
        pool->cancelled += query->is_given_up;
        pool->failed += !query->is_given_up && status;
        const char *noted = weir__sql_over(query, status, problem, after);
        if (query->where != pool && !query->is_given_up)
                weir__sql_note_problem(query->where, noted);
}

bool
weir__sql_take_back(struct weir__sql_query *query, struct weir__sql_after *after)
{
        struct weir__sql_pool *pool = query->where->pool;

        dequeue(&pool->sent, query);
        if (query->is_given_up || query->where != pool) {
                weir__sql_over(query, -ECONNRESET, "the connection of the transaction broke", after);
                return false;
        }
        query->state = WEIR__SQL_WAITING;
        atomic_store_explicit(&query->is_sent, false, memory_order_relaxed);
        enqueue_first(&pool->waiting, query);
        return true;
}

/* Why it was given up, for people. */
static void
note_late(struct weir__sql_query *query, int status)
{
        const struct weir__sql_pool *pool = query->where->pool;
        const char *cause = status == -ETIMEDOUT ? "too late" : status == -ECANCELED ? "cancelled" : "ended";
        char *text = NULL;
        int size;

        if (query->state == WEIR__SQL_WAITING)
                size = asprintf(&text, "%s while it waited for a connection (pool %s, %u busy, %u being made, %u wait)", cause,
                                pool->name, weir__sql_busy(pool), pool->connecting, pool->waiting.length);
        else
                size = asprintf(&text, "%s while the server executed it (pool %s)", cause, pool->name);
        query->late = size < 0 ? NULL : text;
}

bool
weir__sql_give_up(struct weir__sql_query *query, int status, struct weir__sql_after *after)
{
        if (query->is_given_up || query->state == WEIR__SQL_OVER || query->state == WEIR__SQL_MADE)
                return false;
        query->is_given_up = true;
        note_late(query, status);
        if (query->state == WEIR__SQL_SENT)
                return true;
        dequeue(&query->where->waiting, query);
        weir__sql_over(query, status, query->late, after);
        return false;
}

unsigned
weir__sql_end_waiting(struct weir__sql_list *list, weir_nsec since, int status, const char *problem,
                      struct weir__sql_after *after)
{
        unsigned count = 0;

        for (; list->first && list->first->began <= since; count++) {
                struct weir__sql_query *query = list->first;

                dequeue(list, query);
                weir__sql_over(query, status, problem, after);
        }
        return count;
}

int
weir__sql_hold(struct weir__sql_query *query)
{
        query->is_held = !query->is_given_up && weir_promise_hold(query->task) == 0;
        if (!query->is_held)
                return -ECANCELED;
        query->where->commit = WEIR__SQL_COMMIT_SENT;
        query->deadline = weir__sql_later(weir_now(), WEIR__SQL_HELD_LOOK);
        weir__sql_look_at(query->where->pool, query->deadline);
        return 0;
}

/* -- connections -- */

void
weir__sql_was_refused(struct weir__sql_pool *pool, weir_nsec made)
{
        weir_nsec now = weir_now();

        pool->refused++;
        if (made < pool->refused_at) /* several were tried at once: the first of them counts */
                return;
        pool->refused_at = now;
        pool->not_before = weir__sql_later(now, pool->pause);
        pool->pause = pool->pause == 0                       ? CONNECT_PAUSE_FIRST
                      : pool->pause < CONNECT_PAUSE_LAST / 2 ? 2 * pool->pause
                                                             : CONNECT_PAUSE_LAST;
}

void
weir__sql_was_connected(struct weir__sql_pool *pool)
{
        pool->connects++;
        pool->pause = pool->not_before = 0;
}

void
weir__sql_was_used_up(struct weir__sql_pool *pool)
{
        if (pool->link_count == pool->connecting)
                pool->not_before = 0;
}

void
weir__sql_note_problem(struct weir__sql_pool *handle, const char *problem)
{
        if (problem && !handle->problem)
                handle->problem = strdup(problem);
}
