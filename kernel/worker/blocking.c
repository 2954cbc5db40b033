/* kernel/worker/blocking.c: callbacks that announce that they block.
 *
 * Threads: any.  Only a worker hands over its poller, and only a thread of the executor its place. */
#include <errno.h>
#include <stdatomic.h>

#include <weir/runtime.h>

#include "kernel/worker/blocking.h"
#include "kernel/base/clock.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/worker/worker.h"

/* On the virtual clock: callbacks that run, were announced to block, and have handed over their poller or place. */
static _Atomic int handed_over;

bool
weir__blocking_is_any(void)
{
        return atomic_load(&handed_over) > 0;
}

void
weir__blocking_count(int change)
{
        if (weir__clock_is_virtual())
                atomic_fetch_add(&handed_over, change);
}

/* Gives the poller to the successor, unless the watchdog has just given it to another worker. */
static bool
give(struct weir__poller *poller, struct weir__worker *worker, struct weir__worker *successor)
{
        uintptr_t owner = (uintptr_t)worker;

        do {
                if (atomic_compare_exchange_strong_explicit(&poller->owner, &owner, (uintptr_t)successor, memory_order_acq_rel,
                                                            memory_order_relaxed))
                        return true;
        } while ((owner & ~WEIR__RETAKING) == (uintptr_t)worker);
        return false;
}

static int
hand_over(struct weir__worker *worker)
{
        struct weir__poller *poller = worker->poller;
        struct weir__worker *successor = weir__worker_pool_take();

        if (!successor)
                return -EAGAIN;
        worker->poller = NULL;
        bool is_given = give(poller, worker, successor);
        weir__worker_await_reader(worker);
        if (!is_given) {
                weir__worker_pool_put_back(successor);
                return 0;
        }
        worker->has_given = true;
        weir__blocking_count(+1);
        atomic_store_explicit(&worker->blocks_since, weir__clock_monotonic(), memory_order_relaxed);
        atomic_fetch_add_explicit(&weir__worker_counts.given, 1, memory_order_relaxed);
        weir__trace_mark("gives its poller away", "poller", poller->index);
        successor->lost_at = weir__trace_now(atomic_load_explicit(&worker->track, memory_order_relaxed));
        weir__worker_pool_call(successor, poller, WEIR__CALL_GIVEN,
                               atomic_load_explicit(&worker->function, memory_order_relaxed));
        return 0;
}

/* On a thread of the executor: another thread takes its place. */
static int
step_aside(struct weir__worker *worker)
{
        weir__blocking_count(+1); /* first: from then on the executor does not count its thread as busy */
        int failed = worker->executor_ops->blocking_begin();
        if (failed)
                weir__blocking_count(-1);
        worker->has_given = !failed;
        weir__trace_mark(failed ? "finds nobody to run functions in its place" : "has another thread run functions", "error",
                         failed);
        return failed;
}

void
weir__blocking_over(struct weir__worker *worker)
{
        worker->blocking = 0;
        if (!worker->has_given || !worker->executor_ops)
                return; /* a worker gets no poller before its callback is over */
        worker->has_given = false;
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
        /* A nested begin tries once more if the outer one has failed. */
        if (worker->executor_ops)
                return worker->has_given ? 0 : step_aside(worker);
        if (!worker->poller || (!weir__worker_owns(worker) && !weir__worker_resolve_owner(worker)))
                return 0; /* it was handed over before, or the watchdog has taken it */
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
