/* kernel/sched/tender.c: memory of blocks that nobody has used for a second goes back, by an alarm.
 *
 *     idle --a poller is about to sleep, and memory waits--> the alarm is set --it comes--> one arena at a time <--> it is set
 *       ^-------------------------------------- nothing waits any more -----------------------------------------------'
 *
 * Threads: owners of pollers.  Who sets `is_called` owns the alarm, and from then on the worker that runs it.
 * Locks:   none. */
#include "kernel/sched/tender.h"

#include "kernel/base/clock.h"
#include "kernel/loop/pollers.h"
#include "kernel/worker/deliver.h"

static void run(struct weir__work *work);

static const struct weir__work_ops tender_ops = {.run = run};

static struct {
        struct weir__alarm alarm;
        struct weir__poller *poller;
        _Atomic bool is_called;
} tender;

static void
end(void)
{
        atomic_store_explicit(&tender.is_called, false, memory_order_release);
}

/* One arena takes some hundred microseconds, so other work has its turn in between.  A poller that is closing sets no alarm: the
 * end of the shutdown gives all memory back. */
static void
run(struct weir__work *work)
{
        weir_nsec now = weir__clock_monotonic(), next = weir__slabs_tend(now);

        if (next && next <= now)
                weir__deliver(tender.poller, work);
        else if (!next || !weir__alarm_set(tender.poller, &tender.alarm, next))
                end();
}

void
weir__tender_call(struct weir__poller *poller)
{
        if (weir__clock_is_virtual() || atomic_exchange_explicit(&tender.is_called, true, memory_order_acquire))
                return;
        weir_nsec next = weir__slabs_tend(0); /* nothing is due so early */
        tender.poller = poller;
        tender.alarm.work.ops = &tender_ops;
        if (!next || !weir__alarm_set(poller, &tender.alarm, next))
                end();
}
