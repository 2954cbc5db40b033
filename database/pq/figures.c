/* database/pq/figures.c: what pools count, also as text.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/pq/pq.h"

#include <unistd.h>

int
weir_pq_stats(const weir_pq *where, struct weir_pq_stats *stats)
{
        if (!stats || stats->size != sizeof *stats)
                return -EINVAL;
        if (!where)
                return -ENOMEM;
        if (where->base.pid != getpid())
                return -ECHILD;
        weir_pq *pool = weir__pq_pool_of(&where->base);
        pthread_mutex_lock(&pool->base.lock);
        *stats = (struct weir_pq_stats){.size = sizeof *stats,
                                        .connections = pool->base.link_count,
                                        .connecting = pool->base.connecting,
                                        .idle = pool->base.idle_count,
                                        .busy = weir__sql_busy(&pool->base),
                                        .waiting = pool->base.waiting.length,
                                        .queries = pool->base.queries,
                                        .failed = pool->base.failed,
                                        .cancelled = pool->base.cancelled,
                                        .connects = pool->base.connects,
                                        .refused = pool->base.refused,
                                        .lost = pool->base.lost,
                                        .waited = pool->base.waited};
        pthread_mutex_unlock(&pool->base.lock);
        return 0;
}

/* -- as text -- */

static const struct weir__figure list[] = {
        WEIR__SQL_FIGURES(struct weir_pq_stats),
        {"lost_total", "Connections that broke.", WEIR__FIGURE_COUNT, offsetof(struct weir_pq_stats, lost)},
};

_Static_assert(sizeof(struct weir_pq_stats) <= WEIR__FIGURES_SIZE, "there is room for it");

static void
fill(const struct weir__figured *thing, void *stats)
{
        const char *pool = (const char *)thing - offsetof(struct weir__sql_pool, figured);

        *(struct weir_pq_stats *)stats = (struct weir_pq_stats)WEIR_PQ_STATS_DEFAULT;
        weir_pq_stats((const weir_pq *)pool, stats);
}

struct weir__figures weir__pq_figures = {.library = "pq",
                                         .label = "pool",
                                         .list = list,
                                         .count = sizeof list / sizeof *list,
                                         .fill = fill,
                                         .lock = PTHREAD_MUTEX_INITIALIZER};

int
weir_pq_metrics_write(int fd)
{
        return weir__figures_write(&weir__pq_figures, fd);
}
