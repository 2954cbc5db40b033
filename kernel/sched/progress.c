/* kernel/sched/progress.c: how far a shutdown has come, for the thread that waits for its end.
 *
 * Threads: any.
 * Locks:   none.  The waiting thread reads `changes` before it looks.  A thread that changes something raises `changes`
 *          afterwards.  All of this is sequentially consistent. */
#include "kernel/sched/progress.h"

#include <errno.h>

#include "kernel/base/futex.h"

static _Atomic unsigned changes; /* a futex */
static _Atomic unsigned drained; /* pollers */

void
weir__progress_begin(void)
{
        atomic_store(&drained, 0);
}

void
weir__progress_notify(void)
{
        atomic_fetch_add(&changes, 1);
        weir__futex_wake(&changes, WEIR__FUTEX_ALL);
}

void
weir__progress_note_drained(void)
{
        atomic_fetch_add(&drained, 1);
        weir__progress_notify();
}

bool
weir__progress_wait(unsigned pollers, bool (*are_roots_left)(void), weir_nsec until)
{
        for (bool is_late = false;;) {
                unsigned seen = atomic_load(&changes);

                if (atomic_load(&drained) >= pollers && !(are_roots_left && are_roots_left()))
                        return true;
                if (is_late)
                        return false;
                if (until == WEIR_FOREVER)
                        weir__futex_wait(&changes, seen);
                else
                        is_late = weir__futex_wait_until(&changes, seen, until) == -ETIMEDOUT;
        }
}
