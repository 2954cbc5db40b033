/* database/pq/life.c: how pools are made and closed.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/pq/pq.h"

#include <stdlib.h>
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
        weir__sql_ref_memory(&pool->base);
        after->pool = pool;
}

void
weir__pq_after(struct weir__pq_after *after)
{
        weir__sql_after(&after->base);
        weir_pq *pool = after->pool;
        after->pool = NULL;
        if (pool) {
                weir__pq_make_links(pool);
                weir__pq_hub_step(pool);
                weir__sql_unref_memory(&pool->base);
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
        config->max_rows = config->max_rows ? config->max_rows : SIZE_MAX;
        config->max_bytes = config->max_bytes ? config->max_bytes : SIZE_MAX;
        config->name = NULL;
}

static bool
is_bound(size_t most)
{
        return most && most != SIZE_MAX;
}

static bool
is_valid(const struct weir_pq_config *config)
{
        return !config ||
               (config->size == sizeof *config && !config->reserved && config->connect_limit >= 0 && config->limit >= 0 &&
                config->idle_limit >= 0 && config->age_limit >= 0 && config->clean_limit >= 0 && config->check_after >= 0 &&
                (config->pipeline <= 1 || (!is_bound(config->max_rows) && !is_bound(config->max_bytes))));
}

/* -- pools -- */

static void
free_pool(struct weir__sql_pool *pool)
{
        PQconninfoFree(weir__pq_pool_of(pool)->options);
}

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

        pthread_mutex_lock(&pool->base.lock);
        pool->base.is_closed = true;
        weir__sql_end_waiting(&pool->base.waiting, WEIR_FOREVER, -EPIPE, "the pool is closed", &after.base);
        weir__sql_unlock(&pool->base);
        do {
                pthread_mutex_lock(&pool->base.lock);
                link = find_needless(pool);
                if (link)
                        link->deadline = WEIR_FOREVER;
                pthread_mutex_unlock(&pool->base.lock);
                if (link) {
                        weir__pq_link_retire(link, -EPIPE, "the pool is closed");
                        weir__pq_link_unref(link);
                }
        } while (link);
        weir__pq_hub_close(pool);
        weir__pq_after(&after);
}

static void
end_pool(struct weir__sql_pool *pool)
{
        close_pool(weir__pq_pool_of(pool));
        pthread_mutex_lock(&pool->lock);
        if (pool->timer)
                weir_timer_cancel_id(pool->timer);
        pthread_mutex_unlock(&pool->lock);
        weir__sql_unref_memory(pool);
}

static void
on_fork(void)
{
        weir__figures_forked(&weir__pq_figures);
}

const struct weir__sql_kind weir__pq_kind = {.begin = "BEGIN",
                                             .size = sizeof(struct weir_pq),
                                             .figures = &weir__pq_figures,
                                             .end = end_pool,
                                             .free = free_pool,
                                             .look = weir__pq_look,
                                             .make = weir__pq_make,
                                             .begin_query = weir__pq_begin,
                                             .cancel_query = weir__pq_cancel,
                                             .close_channels = weir__pq_close_channels,
                                             .free_query = weir__pq_free_query,
                                             .over = weir__pq_over,
                                             .end_query = weir__pq_end_query,
                                             .problem = weir_pq_problem,
                                             .push_steps = weir__pq_push_steps,
                                             .check = weir__pq_check,
                                             .judge = weir__pq_judge,
                                             .release = weir__pq_release};

/* Takes over the options. */
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
        pool->config = config ? *config : defaults;
        pool->options = options;
        const char *name = pool->config.name ? pool->config.name : database ? database : "postgresql";
        fill_in(&pool->config);
        if (weir__sql_pool_init(&pool->base, &weir__pq_kind, name, pool->config.limit) == 0)
                return pool;
        weir__sql_unref_memory(&pool->base);
        return NULL;
}

static void
watch_forks(void)
{
        pthread_atfork(NULL, NULL, on_fork);
}

weir_pq *
weir_pq_new(const char *conninfo, const struct weir_pq_config *config)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        char *problem = NULL;

        if (!is_valid(config)) {
                weir_log_write(WEIR_LOG_ERROR,
                               "weir_pq_new: the config: its size, a limit below 0, bounds with a pipeline, or a reserved field");
                errno = EINVAL;
                return NULL;
        }
        pthread_once(&once, watch_forks);
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
weir_pq_ref(weir_pq *pool)
{
        return (weir_pq *)weir__sql_ref_user((struct weir__sql_pool *)pool);
}

void
weir_pq_unref(weir_pq *pool)
{
        weir__sql_unref_user((struct weir__sql_pool *)pool);
}

void
weir_pq_close(weir_pq *pool)
{
        if (pool && pool->base.pool == &pool->base && pool->base.pid == getpid())
                close_pool(pool);
}
