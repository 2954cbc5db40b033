/* database/pq/link.c: connections: their lives, and how they wait for their sockets.
 *
 * libpq closes its socket itself when it finds an error, and while it connects it may open another one with the same number.  So
 * weir watches a duplicate, which is closed here.
 *
 * Threads: any.
 * Locks:   the link's; the pool's within. */
#include "database/pq/pq.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- lives -- */

struct weir__pq_link *
weir__pq_link_new(weir_pq *pool)
{
        struct weir__pq_link *link = calloc(1, sizeof *link);

        if (!link)
                return NULL;
        atomic_init(&link->references, 1);
        weir__sql_ref_memory(&pool->base);
        link->pool = pool;
        link->watched = -1;
        link->deadline = WEIR_FOREVER;
        link->has_limit = true;
        pthread_mutex_init(&link->lock, NULL);
        return link;
}

struct weir__pq_link *
weir__pq_link_ref(struct weir__pq_link *link)
{
        atomic_fetch_add_explicit(&link->references, 1, memory_order_relaxed);
        return link;
}

/* It is dead by then: until that its pool has a reference. */
void
weir__pq_link_unref(struct weir__pq_link *link)
{
        if (atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__pq_connect_free(link);
        weir__pq_statement_remove_all(link);
        weir__sql_unref_memory(&link->pool->base);
        pthread_mutex_destroy(&link->lock);
        free(link);
}

void
weir__pq_link_lock(struct weir__pq_link *link, struct weir__pq_after *after)
{
        pthread_mutex_lock(&link->lock);
        link->after = after;
}

void
weir__pq_link_unlock(struct weir__pq_link *link)
{
        link->after = NULL;
        pthread_mutex_unlock(&link->lock);
}

/* -- its socket -- */

static void
unwatch(struct weir__pq_link *link)
{
        weir_fd_forget(link->fd);
        link->fd = NULL;
        if (link->watched >= 0)
                close(link->watched);
        link->watched = -1;
}

int
weir__pq_link_watch(struct weir__pq_link *link)
{
        unwatch(link);
        link->watched = fcntl(PQsocket(link->connection), F_DUPFD_CLOEXEC, 3);
        if (link->watched < 0)
                return -errno;
        link->fd = weir_fd_new(link->watched);
        if (!link->fd)
                return -errno;
        return weir_fd_keep(link->fd);
}

void
weir__pq_link_set_limit(struct weir__pq_link *link, weir_nsec limit)
{
        weir_pq *pool = link->pool;
        bool is_set = limit != WEIR_FOREVER;

        if (!is_set && !link->has_limit)
                return;
        link->has_limit = is_set;
        pthread_mutex_lock(&pool->base.lock);
        link->deadline = is_set ? weir__sql_later(weir_now(), limit) : WEIR_FOREVER;
        link->has_pipeline = !is_set && pool->config.pipeline > 1;
        weir__sql_look_at(&pool->base, link->deadline);
        pthread_mutex_unlock(&pool->base.lock);
}

/* -- waits -- */

/* One of its tasks has ended: `waits` is not true any more. */
static void
went_on(struct weir__pq_link *link, bool *waits, int status)
{
        struct weir__pq_after after = {0};

        weir__pq_link_lock(link, &after);
        *waits = false;
        bool is_for_us = status != -EBADF && status != -EINTR; /* else the socket was given up */
        if (link->state != WEIR__PQ_DEAD && status != 0 && is_for_us)
                weir__pq_link_fail(link, status, NULL, &after);
        else if (link->state == WEIR__PQ_CONNECTING && is_for_us)
                weir__pq_connect_step(link, &after);
        else if (link->state == WEIR__PQ_READY && is_for_us)
                weir__pq_link_work(link, &after);
        weir__pq_link_unlock(link);
        weir__pq_after(&after);
        weir__pq_link_unref(link);
}

static void
on_readable(weir_task *task, void *context)
{
        struct weir__pq_link *link = context;

        went_on(link, &link->reads, weir_task_status(task));
}

static void
on_writable(weir_task *task, void *context)
{
        struct weir__pq_link *link = context;

        went_on(link, &link->writes, weir_task_status(task));
}

void
weir__pq_link_await(struct weir__pq_link *link, bool reads, bool writes, struct weir__pq_after *after)
{
        int failed = 0;

        if (reads && !link->reads) {
                failed = weir_task_start(weir_fd_readable_new(link->fd, on_readable, weir__pq_link_ref(link)));
                link->reads = failed == 0;
                if (failed)
                        weir__pq_link_unref(link);
        }
        if (writes && !link->writes && !failed) {
                failed = weir_task_start(weir_fd_writable_new(link->fd, on_writable, weir__pq_link_ref(link)));
                link->writes = failed == 0;
                if (failed)
                        weir__pq_link_unref(link);
        }
        if (failed)
                weir__pq_link_fail(link, failed, NULL, after);
}

/* Sends what libpq has queued, and waits for input, and for room in the socket if not all of it was sent. */
void
weir__pq_link_wait(struct weir__pq_link *link, struct weir__pq_after *after)
{
        bool reads = !link->pause || link->copy == WEIR__PQ_COPY_IN;
        bool feeds = !link->pause && link->copy == WEIR__PQ_COPY_IN; /* it has stopped because the socket was full then */

        if (link->state != WEIR__PQ_READY)
                return;
        int flushed = PQflush(link->connection);
        weir__pq_link_await(link, reads, flushed == 1 || (flushed == 0 && feeds), after);
}

/* -- ends -- */

static void
finish_all(struct weir__pq_link *link, int status, const char *problem, struct weir__pq_after *after)
{
        while (link->first) {
                struct weir__pq_query *query = link->first;

                link->first = query->behind;
                query->behind = NULL;
                int own = query->outcome.status; /* the first failure counts */
                weir__pq_finish(query, own ? own : status ? status : -ECONNRESET, problem, after);
        }
        link->last = NULL;
}

void
weir__pq_link_fail(struct weir__pq_link *link, int status, const char *problem, struct weir__pq_after *after)
{
        bool was_ready = link->state == WEIR__PQ_READY;
        PGconn *connection = link->connection;

        if (link->state == WEIR__PQ_DEAD)
                return;
        char *text = problem ? strdup(problem) : NULL; /* it may be libpq's */
        link->state = WEIR__PQ_DEAD;
        unwatch(link);
        if (link->resolving)
                weir_series_cancel(link->resolving);
        weir__pq_stream_wake(link);
        finish_all(link, status, text, after);
        weir__pq_link_is_dead(link, was_ready, status, text, after);
        if (was_ready && status && status != -ESHUTDOWN && status != -EPIPE)
                weir__sql_after_say(&after->base, "WARNING: pool %s: a connection broke: %s", link->pool->base.name,
                                    text ? text : "");
        link->connection = NULL;
        PQfinish(connection);
        free(text);
}

void
weir__pq_link_kill(struct weir__pq_link *link, int status, const char *problem)
{
        struct weir__pq_after after = {0};

        weir__pq_link_lock(link, &after);
        weir__pq_link_fail(link, status, problem, &after);
        weir__pq_link_unlock(link);
        weir__pq_after(&after);
}

void
weir__pq_link_retire(struct weir__pq_link *link, int status, const char *problem)
{
        struct weir__pq_after after = {0};

        weir__pq_link_lock(link, &after);
        if (weir__pq_take_idle(link))
                weir__pq_link_fail(link, 0, NULL, &after);
        else if (status && link->has_limit)
                weir__pq_link_fail(link, status, problem, &after);
        weir__pq_link_unlock(link);
        weir__pq_after(&after);
}
