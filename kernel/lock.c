/* kernel/lock.c: what happens when a lock is not free; and the assertion behind the ranks.
 *
 * Threads: any; each thread keeps its own record of the ranks it holds, a bit a rank.
 *
 *      free --exchange--> held --write--> free, and wakes one sleeper if there may be one
 *
 * Who finds it held spins for about as long as it may be held; then it counts itself among the sleepers, has a fence run on all
 * CPUs, looks once more, and sleeps as long as the lock is held.  Who lets go writes first and then looks for sleepers.  So either
 * the sleeper sees the write, or who lets go sees the sleeper.  test/model/lock.pml is the model of this.
 *
 * The sleepers are counted in a table of the process, by the address of the lock: the lock itself may be freed by the next one to
 * hold it, as soon as it was written.  Two locks that share an entry cost each other a needless wake-up at times. */
#include "kernel/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/panic.h"

#ifndef WEIR__LOCK_SPINS
#define WEIR__LOCK_SPINS 100 /* one to four microseconds */
#endif

_Atomic unsigned weir__lock_sleepers[WEIR__LOCK_BEDS];

static void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
}

static bool
take(struct weir__lock *lock)
{
        return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
               !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

void
weir__lock_wait(struct weir__lock *lock)
{
        _Atomic unsigned *sleepers = weir__lock_sleepers_for(lock);

        for (unsigned i = 0; i < WEIR__LOCK_SPINS; i++) {
                if (take(lock))
                        return;
                relax();
        }
        atomic_fetch_add_explicit(sleepers, 1, memory_order_relaxed);
        weir__fence_heavy();
        while (!take(lock))
                syscall(SYS_futex, (unsigned *)&lock->held, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
        atomic_fetch_sub_explicit(sleepers, 1, memory_order_relaxed);
}

void
weir__lock_wake(struct weir__lock *lock)
{
        syscall(SYS_futex, (unsigned *)&lock->held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#ifdef WEIR_DEBUG

static _Thread_local unsigned held;

void
weir__rank_enter(int rank)
{
        if (held >> rank)
                weir__panic("lock of rank %d taken while ranks %#x are held: ranks must ascend", rank, held);
        held |= 1u << rank;
}

void
weir__rank_leave(int rank)
{
        held &= ~(1u << rank);
}

#endif
