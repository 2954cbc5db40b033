/* kernel/base/lock.c: what happens when a lock is not free; and the assertion behind the ranks.
 *
 * Threads: any; each thread keeps its own record of the ranks it holds, a bit a rank; of WAITABLE it may hold several locks.
 *
 *      FREE --compare-and-swap--> HELD --write, while no sleeper is counted--> FREE
 *        \--exchange, by a sleeper--> WANTED <--exchange, by a sleeper-- HELD
 *                                      \--exchange--> FREE, and wakes one sleeper
 *
 * Who finds it held spins for about as long as it may be held.  Then it counts itself among the sleepers, has a fence run on all
 * CPUs, and from then on does what any mutex on a futex does: it exchanges WANTED into the lock, and sleeps as long as that is
 * what it holds.  Who lets go while sleepers are counted exchanges as well, and wakes one if the lock was WANTED.
 *
 * Who saw none counted has written FREE plainly, perhaps over a WANTED: so it looks a second time behind the write.  Either the
 * sleeper sees the write, or the second look sees the sleeper (kernel/base/fence.h).  test/model/lock.pml is the model of this.
 *
 * The sleepers are counted in a table of the process, by the address of the lock: the lock itself may be freed by the next one to
 * hold it, as soon as it was let go.  Two locks that share an entry cost each other an atomic operation at times. */
#include "kernel/base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernel/base/panic.h"

#ifndef WEIR__LOCK_SPINS
#define WEIR__LOCK_SPINS 100 /* one to four microseconds on x86 */
#endif

/* How long a sleeper is waited for that was woken: for longer than that takes, on a CPU that has nothing else to do. */
#define LET_IN        200000 /* ns */
#define LET_IN_ROUNDS 1000   /* each a system call, of some hundred ns */

_Alignas(64) _Atomic unsigned weir__lock_sleepers[WEIR__LOCK_BEDS];

static void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb");
#endif
}

/* Leaves errno as it is: a mutex does.  `limit` is a duration, or NULL. */
static void
futex(struct weir__lock *lock, int operation, unsigned value, const struct timespec *limit)
{
        int before = errno;

        syscall(SYS_futex, (unsigned *)&lock->state, operation, value, limit, NULL, 0);
        errno = before;
}

static int64_t
clock_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool
spin_for(struct weir__lock *lock)
{
        for (unsigned i = 0; i < WEIR__LOCK_SPINS; i++) {
                if (atomic_load_explicit(&lock->state, memory_order_relaxed) == WEIR__LOCK_FREE && weir__lock_take(lock))
                        return true;
                relax();
        }
        return false;
}

/* Until that instant at the longest; 0: for ever.  One that gives up leaves WANTED behind, which costs a needless wake-up. */
static bool
sleep_for(struct weir__lock *lock, int64_t until)
{
        _Atomic unsigned *sleepers = weir__lock_sleepers_for(lock);
        bool taken;

        atomic_fetch_add_explicit(sleepers, 1, memory_order_relaxed);
        weir__fence_heavy();
        while (!(taken = atomic_exchange_explicit(&lock->state, WEIR__LOCK_WANTED, memory_order_acquire) == WEIR__LOCK_FREE)) {
                int64_t left = until ? until - clock_now() : 0;
                struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

                if (left < 0)
                        break;
                futex(lock, FUTEX_WAIT_PRIVATE, WEIR__LOCK_WANTED, until ? &limit : NULL);
        }
        atomic_fetch_sub_explicit(sleepers, 1, memory_order_relaxed);
        return taken;
}

void
weir__lock_wait(struct weir__lock *lock)
{
        if (!spin_for(lock))
                sleep_for(lock, 0);
}

void
weir__lock_hold(struct weir__lock *lock)
{
        if (!weir__lock_take(lock))
                weir__lock_wait(lock);
}

void
weir__lock_forget_sleepers(void)
{
        for (unsigned i = 0; i < WEIR__LOCK_BEDS; i++)
                atomic_store_explicit(&weir__lock_sleepers[i], 0, memory_order_relaxed);
}

bool
weir__lock_within(struct weir__lock *lock, int64_t nanoseconds)
{
        if (!weir__lock_take(lock) && !spin_for(lock) && !sleep_for(lock, clock_now() + nanoseconds))
                return false;
#ifdef WEIR_DEBUG
        weir__rank_enter(lock->rank, lock);
#endif
        return true;
}

void
weir__lock_release(struct weir__lock *lock)
{
        if (atomic_exchange_explicit(&lock->state, WEIR__LOCK_FREE, memory_order_release) == WEIR__LOCK_WANTED)
                weir__lock_wake(lock);
}

void
weir__lock_wake(struct weir__lock *lock)
{
        futex(lock, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void
weir__lock_let_in(struct weir__lock *lock)
{
        const _Atomic unsigned *sleepers = weir__lock_sleepers_for(lock);
        unsigned before = atomic_load_explicit(sleepers, memory_order_relaxed);

        if (!before)
                return;
        int64_t until = clock_now() + LET_IN;
        for (unsigned i = 0; i < LET_IN_ROUNDS; i++) {
                if (atomic_load_explicit(&lock->state, memory_order_relaxed) != WEIR__LOCK_FREE ||
                    atomic_load_explicit(sleepers, memory_order_relaxed) < before)
                        return;
                (void)sched_yield(); /* it may have been woken on this CPU */
                if (clock_now() > until)
                        return;
        }
}

#ifdef WEIR_DEBUG

static _Thread_local unsigned held;

/* Of WAITABLE: how many are held, and the last one taken. */
static _Thread_local unsigned waitables;
static _Thread_local const struct weir__lock *waitable;

void
weir__rank_enter(int rank, const struct weir__lock *lock)
{
        bool another = rank == WEIR__RANK_WAITABLE && waitables > 0;

        if (held >> (another ? rank + 1 : rank))
                weir__panic("lock of rank %d taken while ranks %#x are held: ranks must ascend", rank, held);
        if (another && lock <= waitable)
                weir__panic("lock of rank %d taken while one is held at an address that is not below its own", rank);
        if (rank == WEIR__RANK_WAITABLE) {
                waitables++;
                waitable = lock;
        }
        held |= 1u << rank;
}

void
weir__rank_leave(int rank)
{
        if (rank != WEIR__RANK_WAITABLE || --waitables == 0)
                held &= ~(1u << rank);
}

void
weir__rank_expect_none(const char *what)
{
        if (held)
                weir__panic("%s while locks of the ranks %#x are held", what, held);
}

#endif
