/* bench/candidates/plain_lock.c: a lock of three states without a queue.  `-DWEIR_ABLATE=lock` builds it in place of
 * kernel/base/lock.c, so that bench/ablate measures what the fair lock costs.
 *
 *      0 free, 1 held, 2 held and perhaps waited for
 *
 * Threads: any.  Each release comes here, since the count of sleepers that weir__unlock looks at is never 0.
 *
 * A release wakes one thread, and any other thread may take the lock before that one.  A waiter spins as long as one of the
 * fair lock. */
#include <time.h>

#include "kernel/base/clock.h"
#include "kernel/base/futex.h"
#include "kernel/base/lock.h"

#define SPINS 100 /* as WEIR__LOCK_SPINS */

_Atomic unsigned weir__lock_sleepers[WEIR__LOCK_QUEUES] = {[0 ... WEIR__LOCK_QUEUES - 1] = 1};

void
weir__lock_wait(struct weir__lock *lock)
{
        for (unsigned i = 0; i < SPINS; i++) {
                if (atomic_load_explicit(&lock->is_held, memory_order_relaxed) == 0 && weir__lock_take(lock))
                        return;
#if defined(__x86_64__) || defined(__i386__)
                __builtin_ia32_pause();
#endif
        }
        while (atomic_exchange_explicit(&lock->is_held, 2, memory_order_acquire) != 0)
                weir__futex_wait(&lock->is_held, 2);
}

void
weir__lock_release(struct weir__lock *lock)
{
        if (atomic_exchange_explicit(&lock->is_held, 0, memory_order_release) == 2)
                weir__futex_wake(&lock->is_held, 1);
}

void
weir__lock_wake(const struct weir__lock *lock)
{
        (void)lock;
}

bool
weir__lock_until(struct weir__lock *lock, weir_nsec until)
{
        const struct timespec pause = {.tv_nsec = WEIR_MSEC(1)};

        while (!weir__trylock(lock)) {
                if (weir__clock_monotonic() >= until)
                        return false;
                nanosleep(&pause, NULL);
        }
        return true;
}

void
weir__lock_hold(struct weir__lock *lock)
{
        if (!weir__lock_take(lock))
                weir__lock_wait(lock);
}
