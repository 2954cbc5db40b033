/* database/pq/life.c: how pools are made, closed and freed.
 *
 * The program's references and those of tasks are users.  When the last one goes, the pool closes.  Links and the timer have
 * references to the memory alone.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/log.h>

#define DEFAULT_CONNECTIONS 10
#define DEFAULT_STATEMENTS  256

/* -- what is done when no lock is held -- */

void
weir__pq_after_make_links(struct weir__pq_after *after, weir_pq *pool)
{
        if (after->pool)
                return;
        atomic_fetch_add(&pool->references, 1);
        after->pool = pool;
}

void
weir__pq_after_say(struct weir__pq_after *after, const char *format, ...)
{
        char text[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        size_t size = strcspn(text, "\n"); /* the first line says it */
        struct weir__pq_note *note = malloc(sizeof *note + size + 1);
        if (!note)
                return;
        memcpy(note->text, text, size);
        note->text[size] = '\0';
        note->next = after->notes;
        after->notes = note;
}

/* The newest is the first of the list. */
static void
say(struct weir__pq_note *note)
{
        if (!note)
                return;
        say(note->next);
        weir_log_write(strncmp(note->text, "WARNING", 7) == 0 ? WEIR_LOG_WARNING : WEIR_LOG_INFO, "%s", note->text);
        free(note);
}

void
weir__pq_after(struct weir__pq_after *after)
{
        while (after->ended) {
                struct weir__pq_query *query = after->ended;

                after->ended = query->next;
                weir__pq_query_end(query);
        }
        after->ended_at = NULL;
        say(after->notes);
        after->notes = NULL;
        weir_pq *pool = after->pool;
        after->pool = NULL;
        if (pool) {
                weir__pq_make_links(pool);
                weir__pq_hub_step(pool);
                weir__pq_unref_memory(pool);
        }
}

/* -- configs -- */

static weir_nsec
or_default(weir_nsec value, weir_nsec by_default)
{
        return value > 0 ? value : by_default;
}

static void
fill_in(struct weir_pq_config *config)
{
        config->connections = config->connections ? config->connections : DEFAULT_CONNECTIONS;
        config->pipeline = config->pipeline ? config->pipeline : 1;
        config->statements = config->statements ? config->statements : DEFAULT_STATEMENTS;
        config->connect_limit = or_default(config->connect_limit, WEIR_SEC(10));
        config->limit = or_default(config->limit, WEIR_FOREVER);
        config->idle_limit = or_default(config->idle_limit, WEIR_SEC(60));
        config->age_limit = or_default(config->age_limit, WEIR_SEC(3600));
        config->clean_limit = or_default(config->clean_limit, WEIR_SEC(5));
        config->check_after = or_default(config->check_after, WEIR_MSEC(500));
        config->name = NULL;
}

static bool
is_valid(const struct weir_pq_config *config)
{
        return !config ||
               (config->size == sizeof *config && config->connect_limit >= 0 && config->limit >= 0 && config->idle_limit >= 0 &&
                config->age_limit >= 0 && config->clean_limit >= 0 && config->check_after >= 0);
}

/* -- pools -- */

/* Frees what a pool has, as far as it was made. */
static void
free_memory(weir_pq *pool)
{
        weir__pq_delist(pool);
        PQconninfoFree(pool->options);
        free(pool->name);
        pthread_mutex_destroy(&pool->lock);
        free(pool);
}

void
weir__pq_unref_memory(weir_pq *pool)
{
        if (atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) == 1)
                free_memory(pool);
}

static weir_pq *
make(PQconninfoOption *options, const struct weir_pq_config *config)
{
        struct weir_pq_config defaults = WEIR_PQ_CONFIG_DEFAULT;
        const char *database = weir__pq_conninfo_value(options, "dbname");
        weir_pq *pool = calloc(1, sizeof *pool);

        if (!pool) {
                PQconninfoFree(options);
                return NULL;
        }
        pool->pool = pool;
        pool->config = config ? *config : defaults;
        pool->options = options;
        pool->pid = getpid();
        atomic_init(&pool->users, 1);
        atomic_init(&pool->references, 1);
        pthread_mutex_init(&pool->lock, NULL);
        pool->name = strdup(pool->config.name ? pool->config.name : database ? database : "postgresql");
        fill_in(&pool->config);
        weir__pq_enlist(pool);
        if (pool->name)
                return pool;
        free_memory(pool);
        return NULL;
}

weir_pq *
weir_pq_new(const char *conninfo, const struct weir_pq_config *config)
{
        char *problem = NULL;

        if (!is_valid(config)) {
                weir_log_write(WEIR_LOG_ERROR, "weir_pq_new: the config has another size, or a limit below 0");
                errno = EINVAL;
                return NULL;
        }
        PQconninfoOption *options = weir__pq_conninfo_parse(conninfo, &problem);
        if (!options) {
                if (problem)
                        weir_log_write(WEIR_LOG_ERROR, "weir_pq_new: %s", problem);
                errno = problem ? EINVAL : ENOMEM;
                free(problem);
                return NULL;
        }
        weir_pq *pool = make(options, config);
        if (!pool)
                errno = ENOMEM;
        return pool;
}

weir_pq *
weir__pq_ref_user(weir_pq *pool)
{
        if (pool)
                atomic_fetch_add_explicit(&pool->users, 1, memory_order_relaxed);
        return pool;
}

/* -- the end -- */

/* A link that nobody needs any more.  Under the lock; with a reference, or NULL. */
static struct weir__pq_link *
find_needless(const weir_pq *pool)
{
        for (struct weir__pq_link *link = pool->links; link; link = link->next)
                if (link->is_idle || link->is_connecting || link->deadline != WEIR_FOREVER)
                        return weir__pq_link_ref(link);
        return NULL;
}

static void
close_pool(weir_pq *pool)
{
        struct weir__pq_after after = {0};
        struct weir__pq_link *link;

        pthread_mutex_lock(&pool->lock);
        pool->is_closed = true;
        while (pool->waiting.first) {
                struct weir__pq_query *query = pool->waiting.first;

                weir__pq_dequeue(&pool->waiting, query);
                query->state = WEIR__PQ_OVER;
                weir__pq_over(query, -EPIPE, "the pool is closed", &after);
        }
        atomic_store_explicit(&pool->waiting_now, 0, memory_order_relaxed);
        pthread_mutex_unlock(&pool->lock);
        do {
                pthread_mutex_lock(&pool->lock);
                link = find_needless(pool);
                if (link)
                        link->deadline = WEIR_FOREVER;
                pthread_mutex_unlock(&pool->lock);
                if (link) {
                        weir__pq_link_retire(link, -EPIPE, "the pool is closed");
                        weir__pq_link_unref(link);
                }
        } while (link);
        weir__pq_hub_close(pool);
        weir__pq_after(&after);
}

void
weir__pq_unref_user(weir_pq *pool)
{
        if (!pool || atomic_fetch_sub_explicit(&pool->users, 1, memory_order_acq_rel) != 1 || pool->pid != getpid())
                return;
        if (pool->pool != pool) {
                weir__pq_handle_free(pool);
                return;
        }
        close_pool(pool);
        pthread_mutex_lock(&pool->lock);
        if (pool->timer)
                weir_timer_cancel_id(pool->timer);
        pthread_mutex_unlock(&pool->lock);
        weir__pq_unref_memory(pool);
}

weir_pq *
weir_pq_ref(weir_pq *pool)
{
        return weir__pq_ref_user(pool);
}

void
weir_pq_unref(weir_pq *pool)
{
        weir__pq_unref_user(pool);
}

void
weir_pq_close(weir_pq *pool)
{
        if (pool && pool->pool == pool && pool->pid == getpid())
                close_pool(pool);
}
