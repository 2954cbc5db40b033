/* durable/figures.c: what stores count, also as text.
 *
 * Threads: any.
 * Locks:   the store's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "durable/store.h"

int
weir_durable_stats(const weir_durable *of_store, struct weir_durable_stats *stats)
{
        weir_durable *store = (weir_durable *)of_store; /* its lock is taken */

        if (!stats || stats->size != sizeof *stats)
                return -EINVAL;
        if (!store)
                return -ENOMEM;
        if (weir_waitgroup_wait(store->group, 0) == -ECHILD)
                return -ECHILD;
        pthread_mutex_lock(&store->lock);
        *stats = store->stats;
        stats->running = store->running;
        pthread_mutex_unlock(&store->lock);
        stats->size = sizeof *stats;
        return 0;
}

/* -- as text -- */

#define AT(field) offsetof(struct weir_durable_stats, field)

static const struct weir__figure list[] = {
        {"operations_total", "Operations that the program has started.", WEIR__FIGURE_COUNT, AT(operations)},
        {"failed_total", "Operations that ended with an error of the engine.", WEIR__FIGURE_COUNT, AT(failed)},
        {"claimed_total", "Deliveries that this node has got.", WEIR__FIGURE_COUNT, AT(claimed)},
        {"acknowledged_total", "Deliveries that have succeeded.", WEIR__FIGURE_COUNT, AT(acknowledged)},
        {"retried_total", "Deliveries that have failed and will be repeated.", WEIR__FIGURE_COUNT, AT(retried)},
        {"dead_total", "Deliveries that have failed for the last time.", WEIR__FIGURE_COUNT, AT(dead)},
        {"put_back_total", "Deliveries that a close has put back.", WEIR__FIGURE_COUNT, AT(put_back)},
        {"lost_total", "Deliveries whose lease was over or refused.", WEIR__FIGURE_COUNT, AT(lost)},
        {"skipped_total", "Due times of schedules that were missed.", WEIR__FIGURE_COUNT, AT(skipped)},
        {"looks_total", "How often the node has looked for due timers.", WEIR__FIGURE_COUNT, AT(looks)},
        {"rings_total", "How often the node was woken by a set of another one.", WEIR__FIGURE_COUNT, AT(rings)},
        {"running", "Deliveries that run.", WEIR__FIGURE_NUMBER, AT(running)},
};

_Static_assert(sizeof(struct weir_durable_stats) <= WEIR__FIGURES_SIZE, "there is room for it");

static void
fill(const struct weir__figured *thing, void *stats)
{
        *(struct weir_durable_stats *)stats = (struct weir_durable_stats)WEIR_DURABLE_STATS_DEFAULT;
        weir_durable_stats((const weir_durable *)((const char *)thing - offsetof(weir_durable, figured)), stats);
}

static struct weir__figures figures = {.library = "durable",
                                       .label = "store",
                                       .list = list,
                                       .count = sizeof list / sizeof *list,
                                       .fill = fill,
                                       .lock = PTHREAD_MUTEX_INITIALIZER};

static void
on_fork(void)
{
        weir__figures_forked(&figures);
}

static void
watch_forks(void)
{
        pthread_atfork(NULL, NULL, on_fork);
}

/* The URL without what may be secret: all between "//" and the last "@", and all behind "?".  NULL when out of memory. */
static char *
name_of(const char *url)
{
        char *name = strdup(url), *user = name ? strstr(name, "://") : NULL;

        if (!user)
                return name;
        user += strlen("://");
        const char *at = strrchr(user, '@'), *where = at ? at + 1 : user;
        size_t size = strcspn(where, "?");
        memmove(user, where, size);
        user[size] = '\0';
        return name;
}

int
weir__durable_count_on(weir_durable *store, const char *url)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, watch_forks);
        store->name = name_of(url);
        if (!store->name)
                return -ENOMEM;
        weir__figures_add(&figures, &store->figured, store->name);
        return 0;
}

void
weir__durable_count_off(weir_durable *store)
{
        weir__figures_remove(&figures, &store->figured);
        free(store->name);
}

int
weir_durable_metrics_write(int fd)
{
        return weir__figures_write(&figures, fd);
}
