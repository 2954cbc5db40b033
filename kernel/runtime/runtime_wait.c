/* kernel/runtime/runtime_wait.c: threads that wait for a flow, or for all callbacks.
 *
 * Threads: any.
 * Locks:   none. */
#include "kernel/runtime/runtime.h"

#include <errno.h>

#include "kernel/base/clock.h"
#include "kernel/worker/blocking.h"
#include "kernel/worker/worker.h"

/* Threads that wait for a flow, sequentially consistent.  The thread that ends the flow uncounts its waiter.  That may come
 * before the waiter has counted itself. */
static _Atomic int waiters;

static _Thread_local bool is_waiting_forbidden;

bool
weir__runtime_forbid_waits(bool forbid)
{
        bool before = is_waiting_forbidden;

        is_waiting_forbidden = forbid;
        return before;
}

int
weir__runtime_may_stop(void)
{
        return weir__phase_is_forked() ? -ECHILD : weir__worker_self() || is_waiting_forbidden ? -EDEADLK : 0;
}

int
weir__runtime_may_wait(void)
{
        const struct weir__worker *worker = weir__worker_self();

        return worker && worker->blocking > 0 && (worker->has_given || !(worker->poller || worker->executor_ops))
                       ? 0
                       : weir__runtime_may_stop();
}

bool
weir__runtime_has_waiters(void)
{
        return atomic_load(&waiters) > 0;
}

void
weir__runtime_wait_begin(bool has_given)
{
        atomic_fetch_add(&waiters, 1);
        if (has_given)
                weir__blocking_count(-1);
        if (weir__clock_is_virtual())
                weir__poller_wake(weir__pollers.at[0]);
}

void
weir__runtime_wait_end(bool has_given)
{
        if (has_given)
                weir__blocking_count(+1);
        atomic_fetch_sub(&waiters, 1);
}
