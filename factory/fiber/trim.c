/* factory/fiber/trim.c: memory of stacks that nobody has used for a second goes back, by an alarm; the counts of stacks.
 *
 *     idle --stacks are free too many--> the alarm is set --it comes--> one arena at a time <--> the alarm is set
 *       ^--------------------------------- nothing waits any more ----------------------------------'
 *
 * Threads: the arenas ask for one tender at a time (kernel/stack/stack.h), so the alarm has one owner: the thread that was asked,
 *          and from then on the worker that runs it. */
#include "factory/fiber/fiber.h"

#include <errno.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/stack/stack.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/worker.h"

static void run(struct weir__work *work);

static const struct weir__work_ops trim_ops = {.run = run};

static struct {
        struct weir__alarm alarm;
        struct weir__poller *poller;
} tender;

/* One arena takes some hundred microseconds, so other work has its turn in between. */
static void
run(struct weir__work *work)
{
        weir_nsec now = weir__clock_monotonic(), next = weir__stack_tend(now);

        if (!next)
                return;
        if (next <= now)
                weir__deliver(tender.poller, work);
        else if (!weir__alarm_set(tender.poller, &tender.alarm, next))
                while (weir__stack_tend(WEIR_FOREVER)) /* the poller is closing */
                        continue;
}

static bool
call_tender(weir_nsec due)
{
        struct weir__worker *worker = weir__worker_self();

        tender.poller = worker && worker->poller ? worker->poller : weir__poller_at(0);
        tender.alarm.work.ops = &trim_ops;
        if (!weir__alarm_set(tender.poller, &tender.alarm, due))
                return false;
        weir__poller_wake(tender.poller);
        return true;
}

void
weir__fiber_prepare_trim(void)
{
        weir__stack_call_tender = call_tender;
}

int
weir_fiber_stats(struct weir_fiber_stats *stats)
{
        struct weir__stack_stats stacks;

        if (!stats)
                return -EINVAL;
        weir__stack_stats(&stacks);
        *stats = (struct weir_fiber_stats){.running = stacks.in_use,
                                           .stacks = stacks.made,
                                           .stack_size = stacks.size,
                                           .stacks_most = stacks.cap == SIZE_MAX ? 0 : stacks.cap};
        return 0;
}
