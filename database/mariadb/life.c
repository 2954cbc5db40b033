/* database/mariadb/life.c: how pools are made, closed and freed.
 *
 * The program's references and those of tasks are users.  When the last one goes, the pool closes.  Links and the timer have
 * references to the memory alone.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/mariadb/mariadb.h"

#include <signal.h>
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
weir__mariadb_after_say(struct weir__mariadb_after *after, const char *format, ...)
{
        char text[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        size_t size = strcspn(text, "\n"); /* the first line says it */
        struct weir__mariadb_note *note = malloc(sizeof *note + size + 1);
        if (!note)
                return;
        memcpy(note->text, text, size);
        note->text[size] = '\0';
        note->next = after->notes;
        after->notes = note;
}

/* The newest is the first of the list. */
static void
say(struct weir__mariadb_note *note)
{
        if (!note)
                return;
        say(note->next);
        weir_log_write(strncmp(note->text, "WARNING", 7) == 0 ? WEIR_LOG_WARNING : WEIR_LOG_INFO, "%s", note->text);
        free(note);
}

void
weir__mariadb_after(struct weir__mariadb_after *after)
{
        while (after->ended) {
                struct weir__mariadb_query *query = after->ended;

                after->ended = query->next;
                weir__mariadb_query_end(query);
        }
        after->ended_at = NULL;
        while (after->served) {
                struct weir__mariadb_link *link = after->served;

                after->served = link->next_served;
                weir__mariadb_serve(link);
        }
        say(after->notes);
        after->notes = NULL;
}

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

/* The client library has SIGPIPE ignored, which is the program's to decide. */
static void
begin_client_library(void)
{
        struct sigaction before;

        sigaction(SIGPIPE, NULL, &before);
        mysql_library_init(0, NULL, NULL);
        sigaction(SIGPIPE, &before, NULL);
}

/* Frees what a pool has, as far as it was made. */
static void
free_memory(weir_mariadb *pool)
{
        weir__mariadb_delist(pool);
        while (pool->kills) {
                struct weir__mariadb_kill *kill = pool->kills;

                pool->kills = kill->next;
                free(kill);
        }
        weir__mariadb_target_free(&pool->target);
        free(pool->name);
        pthread_mutex_destroy(&pool->lock);
        free(pool);
}

void
weir__mariadb_unref_memory(weir_mariadb *pool)
{
        if (atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) == 1)
                free_memory(pool);
}

static weir_mariadb *
make(const struct weir__mariadb_target *target, const struct weir_mariadb_config *config)
{
        struct weir_mariadb_config defaults = WEIR_MARIADB_CONFIG_DEFAULT;
        weir_mariadb *pool = calloc(1, sizeof *pool);

        if (!pool)
                return NULL;
        pool->pool = pool;
        pool->config = config ? *config : defaults;
        pool->target = *target;
        pool->pid = getpid();
        atomic_init(&pool->users, 1);
        atomic_init(&pool->references, 1);
        pthread_mutex_init(&pool->lock, NULL);
        pool->name = strdup(pool->config.name ? pool->config.name : target->database ? target->database : "mariadb");
        fill_in(&pool->config);
        weir__mariadb_enlist(pool);
        if (pool->name)
                return pool;
        pool->target = (struct weir__mariadb_target){.port = 0}; /* the caller frees it */
        free_memory(pool);
        return NULL;
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
weir__mariadb_ref_user(weir_mariadb *pool)
{
        if (pool)
                atomic_fetch_add_explicit(&pool->users, 1, memory_order_relaxed);
        return pool;
}

/* -- the end -- */

static void
close_pool(weir_mariadb *pool)
{
        struct weir__mariadb_after after = {0};

        pthread_mutex_lock(&pool->lock);
        pool->is_closed = true;
        weir__mariadb_end_waiting(pool, &pool->waiting, WEIR_FOREVER, -EPIPE, "the pool is closed", &after);
        for (struct weir__mariadb_link *link = pool->links; link; link = link->next) {
                if (link->is_connecting)
                        weir__mariadb_link_cut(link);
                else if (link->state == WEIR__MARIADB_IDLE)
                        weir__mariadb_wake(link, &after);
        }
        weir__mariadb_unlock(pool);
        weir__mariadb_after(&after);
}

void
weir__mariadb_unref_user(weir_mariadb *pool)
{
        if (!pool || atomic_fetch_sub_explicit(&pool->users, 1, memory_order_acq_rel) != 1 || pool->pid != getpid())
                return;
        if (pool->pool != pool) {
                weir__mariadb_handle_free(pool);
                return;
        }
        close_pool(pool);
        pthread_mutex_lock(&pool->lock);
        if (pool->link_count == 0 && pool->timer) /* else it is for their limits, and the last one ends it */
                weir_timer_cancel_id(pool->timer);
        pthread_mutex_unlock(&pool->lock);
        weir__mariadb_unref_memory(pool);
}

weir_mariadb *
weir_mariadb_ref(weir_mariadb *pool)
{
        return weir__mariadb_ref_user(pool);
}

void
weir_mariadb_unref(weir_mariadb *pool)
{
        weir__mariadb_unref_user(pool);
}

void
weir_mariadb_close(weir_mariadb *pool)
{
        if (pool && pool->pool == pool && pool->pid == getpid())
                close_pool(pool);
}
