/* database/pq/figures.c: what pools count.
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

int
weir_pq_metrics_write(int fd)
{
        return weir__sql_metrics_write(&weir__pq_kind, fd);
}
