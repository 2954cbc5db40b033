/* kernel/runtime/stats.c: numbers about the scheduler.
 *
 * Threads: any.  The numbers are read one after another, so they need not be of the same instant. */
#include <errno.h>

#include <weir/stats.h>

#include "kernel/runtime/config.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/executor/executor.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/log.h"
#include "kernel/sched/share.h"

static uint64_t
count_ready(unsigned pollers)
{
        int64_t count = weir__share_depth();

        for (unsigned i = 0; i < pollers; i++)
                count += atomic_load_explicit(&weir__pollers.at[i]->ready.count, memory_order_relaxed);
        return count > 0 ? (uint64_t)count : 0;
}

int
weir_stats(struct weir_stats *stats)
{
        struct weir_stats known = {0};

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!stats || !weir__config_has_size(stats))
                return weir__log_refusal("weir_stats: " WEIR__SIZE_EXPECTED("weir_stats"));
        if (weir__phase_is_up()) {
                known.pollers = weir__pollers_count();
                weir__worker_pool_count(&known.workers, &known.spares);
                known.functions = weir__executor_threads();
                known.ready = count_ready(known.pollers);
        }
        known.taken_over = weir__worker_counts.retaken;
        known.given_away = weir__worker_counts.given;
        known.stolen = weir__worker_counts.shared;
        weir__config_write(stats, sizeof known, &known);
        return 0;
}
