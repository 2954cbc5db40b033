/* kernel/worker/worker.c: the worker of a thread, and the end of a retake of its poller.
 *
 * Threads: the worker's own. */
#include "kernel/worker/worker.h"

#define HOME_BATCH 64 /* objects in a row for one poller, made by a thread that is no worker */

_Thread_local struct weir__worker *weir__worker_current;
struct weir__worker_counts weir__worker_counts;

void
weir__worker_await_reader(struct weir__worker *worker)
{
        weir__lock_hold(&worker->reading); /* whatever is locked: the watchdog locks nothing under it */
        weir__unlock(&worker->reading);
}

struct weir__poller *
weir__worker_resolve_owner(struct weir__worker *worker)
{
        struct weir__poller *poller = worker->poller;
        uintptr_t own = (uintptr_t)worker, retaking = own | WEIR__RETAKING;

        bool is_kept = atomic_compare_exchange_strong_explicit(&poller->owner, &retaking, own, memory_order_acq_rel,
                                                               memory_order_acquire) ||
                       retaking == own; /* the watchdog has given up meanwhile */
        weir__worker_await_reader(worker);
        if (is_kept)
                return poller;
        worker->poller = NULL;
        return NULL;
}

unsigned
weir__worker_home_poller(void)
{
        static _Thread_local unsigned made, home;
        struct weir__worker *worker = weir__worker_self();

        if (worker && worker->poller)
                return worker->poller->index;
        unsigned count = weir__pollers_count();
        if (made++ % HOME_BATCH == 0)
                home++;
        if (home >= count)
                home = 0;
        return count ? home : WEIR__POLLER_NONE;
}

int
weir__worker_poller_index(void)
{
        const struct weir__worker *worker = weir__worker_self();

        return worker && worker->poller ? (int)worker->poller->index : -1;
}
