/* factory/timer/lateness.c: how late the callbacks of timers begin, for the program.
 *
 * Each poller counts in a histogram of its own, which its worker writes when such a callback begins (factory/timer/timer.c).
 *
 * Threads: any.
 * Locks:   `reading` (a leaf), among threads that read; workers do not take it. */
#include <errno.h>

#include <weir/stats.h>

#include "factory/timer/timer.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/config.h"

static struct weir__lock reading = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);

/* Adds up the counts of that poller, or of all.  Returns false if there is no such poller. */
static bool
collect(int poller, struct weir__histogram_sum *sum, bool restart)
{
        bool exists = poller == WEIR_ALL_POLLERS;

        for (int i = 0; i < WEIR__POLLERS_MAX; i++) {
                if (!weir__pollers.at[i] || (poller != WEIR_ALL_POLLERS && poller != i))
                        continue;
                weir__lock(&reading);
                weir__histogram_collect(&weir__pollers.at[i]->lateness, sum, restart);
                weir__unlock(&reading);
                exists = true;
        }
        return exists;
}

static int
read_lateness(int poller, struct weir_lateness *lateness, bool restart)
{
        struct weir__histogram_sum sum = {0};

        if (weir__phase_is_forked())
                return -ECHILD;
        if (lateness && !weir__config_has_size(lateness))
                return weir__log_refusal("weir_lateness: " WEIR__SIZE_EXPECTED("weir_lateness"));
        if (!collect(poller, &sum, restart))
                return weir__log_refusal("weir_lateness: poller %d: expected one that has existed, or WEIR_ALL_POLLERS", poller);
        if (lateness)
                weir__config_write(lateness, sizeof *lateness,
                                   &(struct weir_lateness){
                                           .count = sum.count,
                                           .p50 = weir__histogram_quantile(&sum, 500),
                                           .p90 = weir__histogram_quantile(&sum, 900),
                                           .p99 = weir__histogram_quantile(&sum, 990),
                                           .p999 = weir__histogram_quantile(&sum, 999),
                                           .max = sum.max,
                                   });
        return 0;
}

int
weir_lateness(int poller, struct weir_lateness *lateness)
{
        if (!lateness)
                return weir__log_refusal("weir_lateness: " WEIR__SIZE_EXPECTED("weir_lateness"));
        return read_lateness(poller, lateness, false);
}

int
weir_lateness_reset(int poller, struct weir_lateness *lateness)
{
        return read_lateness(poller, lateness, true);
}

weir_nsec
weir_timer_lateness(const weir_task *task)
{
        weir__memory_expect(task);
        if (!weir__timer_of_task((struct weir_task *)task)) /* const protects the caller only */
                return task ? -EDOM : -EINVAL;
        return weir__timer_lateness(task);
}
