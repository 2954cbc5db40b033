/* kernel/worker/blocking.c: callbacks that say themselves that they block.
 *
 * Threads: any; those of workers hand their poller over. */
#include <errno.h>
#include <stdatomic.h>

#include <weir/runtime.h>

#include "kernel/worker/blocking.h"
#include "kernel/base/clock.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/worker/worker.h"

static _Atomic int out; /* callbacks that run on workers which have lost their poller to this; on the virtual clock */

bool
weir__blocking_any(void)
{
        return atomic_load(&out) > 0;
}

void
weir__blocking_count(int change)
{
        if (weir__clock_is_virtual())
                atomic_fetch_add(&out, change);
}

/* Gives it to the spare, unless the watchdog has just done so to another. */
static bool
give(struct weir__poller *poller, struct weir__worker *worker, struct weir__worker *spare)
{
        uintptr_t owner = (uintptr_t)worker;

        do {
                if (atomic_compare_exchange_strong_explicit(&poller->owner, &owner, (uintptr_t)spare, memory_order_acq_rel,
                                                            memory_order_relaxed))
                        return true;
        } while ((owner & ~WEIR__RETAKING) == (uintptr_t)worker);
        return false;
}

static int
hand_over(struct weir__worker *worker)
{
        struct weir__poller *poller = worker->poller;
        struct weir__worker *spare = weir__worker_pool_take();

        if (!spare)
                return -EAGAIN;
        worker->poller = NULL;
        if (!give(poller, worker, spare)) {
                weir__worker_pool_put_back(spare);
                return 0;
        }
        worker->gave = true;
        weir__blocking_count(+1);
        atomic_store_explicit(&worker->blocks_since, weir__clock_monotonic(), memory_order_relaxed);
        atomic_fetch_add_explicit(&weir__worker_counts.given, 1, memory_order_relaxed);
        weir__trace_mark("gives its poller away", "poller", poller->index);
        spare->lost_at = weir__trace_now(atomic_load_explicit(&worker->track, memory_order_relaxed));
        weir__worker_pool_call(spare, poller, WEIR__CALL_GIVEN, atomic_load_explicit(&worker->calls, memory_order_relaxed));
        return 0;
}

/* On a thread of the executor: another one takes its place. */
static int
step_aside(struct weir__worker *worker)
{
        weir__blocking_count(+1); /* first: from then on its thread does not keep the virtual clock from jumping */
        int failed = worker->executor_ops->blocking_begin();
        if (failed)
                weir__blocking_count(-1);
        worker->gave = !failed;
        weir__trace_mark(failed ? "finds nobody to run functions in its place" : "has another thread run functions", "error",
                         failed);
        return failed;
}

void
weir__blocking_over(struct weir__worker *worker)
{
        worker->blocking = 0;
        if (!worker->gave || !worker->executor_ops)
                return; /* one that had a poller gets none before its callback is over */
        worker->gave = false;
        worker->executor_ops->blocking_end();
        weir__blocking_count(-1);
}

int
weir_blocking_begin(void)
{
        struct weir__worker *worker = weir__worker_self();

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!worker)
                return 0;
        worker->blocking++;
        /* Nested in one that has failed it tries once more. */
        if (worker->executor_ops)
                return worker->gave ? 0 : step_aside(worker);
        if (!worker->poller || (!weir__worker_owns(worker) && !weir__worker_settle(worker)))
                return 0; /* handed over, or the watchdog has been there before */
        return hand_over(worker);
}

void
weir_blocking_end(void)
{
        struct weir__worker *worker = weir__worker_self();

        if (!worker)
                return;
        if (worker->blocking == 0)
                weir__panic("weir_blocking_end: there was no weir_blocking_begin in this callback");
        if (--worker->blocking == 0)
                weir__blocking_over(worker);
}
