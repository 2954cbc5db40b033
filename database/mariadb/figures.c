/* database/mariadb/figures.c: what pools count, also as text.
 *
 * Threads: any.
 * Locks:   the pool's. */
#include "database/mariadb/mariadb.h"

#include <unistd.h>

int
weir_mariadb_stats(const weir_mariadb *where, struct weir_mariadb_stats *stats)
{
        if (!stats || stats->size != sizeof *stats)
                return -EINVAL;
        if (!where)
                return -ENOMEM;
        if (where->base.pid != getpid())
                return -ECHILD;
        weir_mariadb *pool = weir__mariadb_pool_of(&where->base);
        pthread_mutex_lock(&pool->base.lock);
        *stats = (struct weir_mariadb_stats){.size = sizeof *stats,
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
                                             .killed = pool->killed,
                                             .prepared = pool->prepared,
                                             .reused = pool->reused,
                                             .waited = pool->base.waited};
        pthread_mutex_unlock(&pool->base.lock);
        return 0;
}

/* -- as text -- */

static const struct weir__figure list[] = {
        WEIR__SQL_FIGURES(struct weir_mariadb_stats),
        {"lost_total", "Connections that broke, or were cut by a cancel.", WEIR__FIGURE_COUNT,
         offsetof(struct weir_mariadb_stats, lost)},
        {"killed_total", "Statements that the server was told to end.", WEIR__FIGURE_COUNT,
         offsetof(struct weir_mariadb_stats, killed)},
        {"prepared_total", "Statements that were prepared.", WEIR__FIGURE_COUNT, offsetof(struct weir_mariadb_stats, prepared)},
        {"reused_total", "Queries that found theirs prepared.", WEIR__FIGURE_COUNT, offsetof(struct weir_mariadb_stats, reused)},
};

_Static_assert(sizeof(struct weir_mariadb_stats) <= WEIR__FIGURES_SIZE, "there is room for it");

static void
fill(const struct weir__figured *thing, void *stats)
{
        const char *pool = (const char *)thing - offsetof(struct weir__sql_pool, figured);

        *(struct weir_mariadb_stats *)stats = (struct weir_mariadb_stats)WEIR_MARIADB_STATS_DEFAULT;
        weir_mariadb_stats((const weir_mariadb *)pool, stats);
}

struct weir__figures weir__mariadb_figures = {.library = "mariadb",
                                              .label = "pool",
                                              .list = list,
                                              .count = sizeof list / sizeof *list,
                                              .fill = fill,
                                              .lock = PTHREAD_MUTEX_INITIALIZER};

int
weir_mariadb_metrics_write(int fd)
{
        return weir__figures_write(&weir__mariadb_figures, fd);
}
