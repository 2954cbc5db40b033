/* durable/store.c: stores: open and close.
 *
 * A store has a reference of the program, until the close, and one for each operation, delivery and timer of it.  The group
 * counts what a close waits for.  The last reference frees it: then no operation and no delivery is there. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "durable/store.h"

#define LEASE_LEAST WEIR_MSEC(100)
#define LOOK_LEAST  WEIR_MSEC(10)

static const struct weir__durable_engine_kind *const engines[] = {
        &weir__durable_sqlite,
        &weir__durable_memory,
#ifdef WEIR_HAS_PQ
        &weir__durable_pq,
#endif
#ifdef WEIR_HAS_REDIS
        &weir__durable_redis,
#endif
};

/* The engine of a URL, and what its `open` gets. */
static const struct weir__durable_engine_kind *
find_engine(const char *url, const char **where)
{
        for (size_t i = 0; url && i < sizeof engines / sizeof *engines; i++) {
                size_t size = strlen(engines[i]->scheme);

                if (engines[i]->takes && engines[i]->takes(url)) {
                        *where = url;
                        return engines[i];
                }
                if (!engines[i]->takes && strncmp(url, engines[i]->scheme, size) == 0 && url[size] == ':' && url[size + 1]) {
                        *where = url + size + 1;
                        return engines[i];
                }
        }
        bool is_url = url && strchr(url, ':') && strchr(url, ':')[1];
        errno = is_url ? EPROTONOSUPPORT : EINVAL;
        return NULL;
}

static bool
is_valid(const struct weir_durable_config *config)
{
        return config->size == sizeof *config && config->lease >= 0 && config->look >= 0 && config->delay >= 0 &&
               config->max_delay >= 0 && config->missed >= 0 && config->close_limit >= 0 &&
               (config->lease == 0 || config->lease >= LEASE_LEAST) && (config->look == 0 || config->look >= LOOK_LEAST) &&
               config->running <= 65536;
}

static void
fill(weir_durable *store, const struct weir_durable_config *given)
{
        struct weir_durable_config *config = &store->config;
        char host[64] = "";

        *config = *given;
        config->lease = config->lease ? config->lease : WEIR_SEC(30);
        config->look = config->look ? config->look : WEIR_SEC(10);
        config->running = config->running ? config->running : 256;
        config->attempts = config->attempts ? config->attempts : 10;
        config->delay = config->delay ? config->delay : WEIR_SEC(1);
        config->max_delay = config->max_delay ? config->max_delay : WEIR_SEC(3600);
        config->missed = config->missed ? config->missed : WEIR_SEC(60);
        config->close_limit = config->close_limit ? config->close_limit : WEIR_SEC(30);
        gethostname(host, sizeof host - 1);
        if (given->node)
                snprintf(store->node, sizeof store->node, "%s", given->node);
        else
                snprintf(store->node, sizeof store->node, "%s/%ld", host, (long)getpid());
        config->node = store->node;
}

static void
free_store(weir_durable *store)
{
        struct weir__durable_topic *topic = store->topics;

        while (topic) {
                struct weir__durable_topic *next = topic->next;

                free(topic);
                topic = next;
        }
        weir__durable_count_off(store);
        if (store->engine)
                store->engine->kind->free(store->engine);
        weir_waitgroup_free(store->group);
        pthread_mutex_destroy(&store->lock);
        free(store);
}

weir_durable *
weir_durable_open_with(const struct weir_durable_config *config, const char *url)
{
        const struct weir_durable_config usual = WEIR_DURABLE_CONFIG_DEFAULT;
        const char *where = NULL;
        const struct weir__durable_engine_kind *kind = find_engine(url, &where);

        config = config ? config : &usual;
        if (!kind)
                return NULL;
        if (!is_valid(config)) {
                errno = EINVAL;
                return NULL;
        }
        weir_durable *store = calloc(1, sizeof *store);
        if (!store)
                return NULL;
        fill(store, config);
        store->references = 1;
        store->wanted = WEIR_FOREVER;
        pthread_mutex_init(&store->lock, NULL);
        store->group = weir_waitgroup_new();
        bool is_forked = weir_waitgroup_wait(store->group, 0) == -ECHILD;
        if (store->group && !is_forked && weir__durable_count_on(store, url) == 0)
                store->engine = kind->open(where, store);
        if (!store->engine) {
                int failed = is_forked ? ECHILD : errno;

                free_store(store);
                errno = failed;
                return NULL;
        }
        return store;
}

weir_durable *
weir_durable_open(const char *url)
{
        return weir_durable_open_with(NULL, url);
}

weir_durable *
weir__durable_ref(weir_durable *store)
{
        atomic_fetch_add_explicit(&store->references, 1, memory_order_relaxed);
        return store;
}

void
weir__durable_unref(weir_durable *store)
{
        if (atomic_fetch_sub_explicit(&store->references, 1, memory_order_acq_rel) == 1)
                free_store(store);
}

static void
on_patience_over(weir_task *timer, void *store)
{
        if (weir_task_status(timer) == 0)
                weir__durable_cancel_all(store);
}

static void
unref(void *store)
{
        weir__durable_unref(store);
}

void
weir_durable_close(weir_durable *store)
{
        if (!store)
                return;
        pthread_mutex_lock(&store->lock);
        store->is_closing = true;
        store->patience = weir__durable_add(weir_now(), store->config.close_limit);
        weir_timer_id alarm = store->alarm;
        bool has_handlers = store->running > 0 || store->is_looking;
        pthread_mutex_unlock(&store->lock);
        store->engine->kind->neglect(store->engine);
        weir_timer_cancel_id(alarm);
        weir_timer_id patience = 0;
        weir_task *timer = has_handlers ? weir_timer_new(store->config.close_limit, on_patience_over, store) : NULL;
        if (timer) {
                patience = weir_timer_id_of(timer);
                weir__durable_ref(store);
                weir_task_on_free(timer, unref);
                weir_task_start(timer);
        }
        if (weir_waitgroup_wait(store->group, WEIR_FOREVER) == 0 && patience)
                weir_timer_cancel_id(patience);
        pthread_mutex_lock(&store->lock);
        weir_timer_id renewal = store->has_renewal && !store->running ? store->renewal : 0;
        pthread_mutex_unlock(&store->lock);
        if (renewal)
                weir_timer_cancel_id(renewal);
        weir__durable_unref(store);
}
