/* database/mariadb/life.c: how pools are made and closed.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/mariadb/mariadb.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/log.h>

#define DEFAULT_CONNECTIONS 10
#define DEFAULT_STATEMENTS  256
#define DEFAULT_ROWS        1000000
#define DEFAULT_BYTES       ((size_t)64 << 20)

/* -- configs -- */

static weir_nsec
or_default(weir_nsec value, weir_nsec by_default)
{
        return value > 0 ? value : by_default;
}

static void
fill_in(struct weir_mariadb_config *config)
{
        config->connections = config->connections ? config->connections : DEFAULT_CONNECTIONS;
        config->statements = config->statements ? config->statements : DEFAULT_STATEMENTS;
        config->connect_limit = or_default(config->connect_limit, WEIR_SEC(10));
        config->limit = or_default(config->limit, WEIR_FOREVER);
        config->idle_limit = or_default(config->idle_limit, WEIR_SEC(60));
        config->age_limit = or_default(config->age_limit, WEIR_SEC(3600));
        config->clean_limit = or_default(config->clean_limit, WEIR_SEC(5));
        config->max_rows = config->max_rows ? config->max_rows : DEFAULT_ROWS;
        config->max_bytes = config->max_bytes ? config->max_bytes : DEFAULT_BYTES;
        config->name = config->host = config->socket = config->user = config->password = config->database = NULL;
        config->ca = config->certificate = config->key = config->session = NULL;
}

static bool
is_valid(const struct weir_mariadb_config *config)
{
        return !config || (config->size == sizeof *config && config->connect_limit >= 0 && config->limit >= 0 &&
                           config->idle_limit >= 0 && config->age_limit >= 0 && config->clean_limit >= 0 &&
                           config->port <= 65535 && (unsigned)config->tls <= WEIR_MARIADB_TLS_VERIFIED);
}

/* -- pools -- */

static void
free_pool(struct weir__sql_pool *base)
{
        weir_mariadb *pool = weir__mariadb_pool_of(base);

        while (pool->kills) {
                struct weir__mariadb_kill *kill = pool->kills;

                pool->kills = kill->next;
                free(kill);
        }
        weir__mariadb_target_free(&pool->target);
}

static void
close_pool(weir_mariadb *pool)
{
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->base.lock);
        pool->base.is_closed = true;
        weir__mariadb_end_waiting(pool, &pool->base.waiting, WEIR_FOREVER, -EPIPE, "the pool is closed", &after);
        for (struct weir__mariadb_link *link = pool->links; link; link = link->next) {
                if (link->is_connecting)
                        weir__mariadb_link_cut(link);
                else if (link->state == WEIR__MARIADB_IDLE)
                        weir__mariadb_wake(link, &after);
        }
        weir__sql_unlock(&pool->base);
        weir__mariadb_after(&after);
}

static void
end_pool(struct weir__sql_pool *pool)
{
        close_pool(weir__mariadb_pool_of(pool));
        pthread_mutex_lock(&pool->lock);
        if (pool->link_count == 0 && pool->timer) /* else it is for their limits, and the last one ends it */
                weir_timer_cancel_id(pool->timer);
        pthread_mutex_unlock(&pool->lock);
        weir__sql_unref_memory(pool);
}

static void
on_fork(void)
{
        weir__figures_forked(&weir__mariadb_figures);
}

const struct weir__sql_kind weir__mariadb_kind = {.begin = "START TRANSACTION",
                                                  .size = sizeof(struct weir_mariadb),
                                                  .figures = &weir__mariadb_figures,
                                                  .end = end_pool,
                                                  .free = free_pool,
                                                  .look = weir__mariadb_look,
                                                  .make = weir__mariadb_make,
                                                  .begin_query = weir__mariadb_begin,
                                                  .cancel_query = weir__mariadb_cancel,
                                                  .close_channels = weir__mariadb_close_channels,
                                                  .free_query = weir__mariadb_free_query,
                                                  .over = weir__mariadb_over,
                                                  .end_query = weir__mariadb_end_query,
                                                  .problem = weir_mariadb_problem,
                                                  .push_steps = weir__mariadb_push_steps,
                                                  .judge = weir__mariadb_judge,
                                                  .release = weir__mariadb_release};

static weir_mariadb *
make(const struct weir__mariadb_target *target, const struct weir_mariadb_config *config)
{
        struct weir_mariadb_config defaults = WEIR_MARIADB_CONFIG_DEFAULT;
        weir_mariadb *pool = calloc(1, sizeof *pool);

        if (!pool)
                return NULL;
        pool->config = config ? *config : defaults;
        const char *name = pool->config.name ? pool->config.name : target->database ? target->database : "mariadb";
        fill_in(&pool->config);
        if (weir__sql_pool_init(&pool->base, &weir__mariadb_kind, name, pool->config.limit) != 0) {
                weir__sql_unref_memory(&pool->base);
                return NULL;
        }
        pool->target = *target; /* the caller frees it otherwise */
        return pool;
}

/* The client library has SIGPIPE ignored, which is the program's to decide. */
static void
begin_client_library(void)
{
        struct sigaction before;

        sigaction(SIGPIPE, NULL, &before);
        mysql_library_init(0, NULL, NULL);
        sigaction(SIGPIPE, &before, NULL);
        pthread_atfork(NULL, NULL, on_fork);
}

weir_mariadb *
weir_mariadb_new(const char *url, const struct weir_mariadb_config *config)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct weir__mariadb_target target;
        const char *problem = NULL;

        if (!is_valid(config)) {
                weir_log_write(WEIR_LOG_ERROR, "weir_mariadb_new: the config has another size, or a value that cannot be");
                errno = EINVAL;
                return NULL;
        }
        pthread_once(&once, begin_client_library);
        int failed = weir__mariadb_target_read(&target, url, config, &problem);
        if (failed == -EINVAL)
                weir_log_write(WEIR_LOG_ERROR, "weir_mariadb_new: %s", problem);
        weir_mariadb *pool = failed ? NULL : make(&target, config);
        if (!pool) {
                weir__mariadb_target_free(&target);
                errno = failed ? -failed : ENOMEM;
        }
        return pool;
}

weir_mariadb *
weir_mariadb_ref(weir_mariadb *pool)
{
        return (weir_mariadb *)weir__sql_ref_user((struct weir__sql_pool *)pool);
}

void
weir_mariadb_unref(weir_mariadb *pool)
{
        weir__sql_unref_user((struct weir__sql_pool *)pool);
}

void
weir_mariadb_close(weir_mariadb *pool)
{
        if (pool && pool->base.pool == &pool->base && pool->base.pid == getpid())
                close_pool(pool);
}
