/* net/upstream/hedge.c: when a second request may go out for one that is slow, and how many may.
 *
 * The latencies since the last look are in a histogram.  Once there are enough of them, and a second has passed, the percentile
 * is computed and they are forgotten: so it follows the servers.  A request that was overtaken by its hedge counts with the time
 * until then, which is above the percentile; without it hedges would make the percentile smaller and smaller.
 *
 * Threads: any.
 * Locks:   the upstream's.
 *
 * Source:  Dean and Barroso, The Tail at Scale, 2013. */
#include "factory/flow/budget.h"
#include "net/upstream/member.h"

#define SAMPLES          100         /* that a percentile needs */
#define COMPUTE_INTERVAL WEIR_SEC(1) /* between two computations */
#define ONE              100         /* hedge, in hundredths */
#define MOST_HEDGES      10          /* that can be saved up */

static void
change(struct weir_upstream *upstream, int64_t by)
{
        upstream->hedges += by;
        if (upstream->hedges > MOST_HEDGES * ONE)
                upstream->hedges = MOST_HEDGES * ONE;
}

void
weir__hedge_deposit(struct weir_upstream *upstream)
{
        if (upstream->latencies)
                change(upstream, upstream->config.hedge_percent);
}

void
weir__hedge_note(struct weir_upstream *upstream, weir_nsec latency, weir_nsec now)
{
        if (!upstream->latencies)
                return;
        weir__histogram_add(upstream->latencies, latency);
        upstream->samples++;
        if (upstream->samples < SAMPLES || now - upstream->sampled_at < COMPUTE_INTERVAL)
                return;
        struct weir__histogram_sum sum = {.count = 0};
        weir__histogram_collect(upstream->latencies, &sum, true);
        atomic_store_explicit(&upstream->hedge_after, weir__histogram_quantile(&sum, upstream->config.hedge_percentile * 10),
                              memory_order_relaxed);
        upstream->samples = 0;
        upstream->sampled_at = now;
}

weir_nsec
weir__upstream_hedge_after(const struct weir_upstream *upstream)
{
        return atomic_load_explicit(&upstream->hedge_after, memory_order_relaxed);
}

/* The program's budget is asked without the lock, so its own share is taken first and given back. */
bool
weir__upstream_may_hedge(struct weir_upstream *upstream)
{
        weir__lock(&upstream->lock);
        bool may = upstream->hedges >= ONE;
        if (may)
                change(upstream, -ONE);
        weir__unlock(&upstream->lock);
        if (!may || weir__budget_withdraw(upstream->config.budget))
                return may;
        weir__lock(&upstream->lock);
        change(upstream, ONE);
        weir__unlock(&upstream->lock);
        return false;
}

void
weir__upstream_return_hedge(struct weir_upstream *upstream)
{
        weir__lock(&upstream->lock);
        change(upstream, ONE);
        weir__unlock(&upstream->lock);
        weir__budget_give_back(upstream->config.budget);
}
