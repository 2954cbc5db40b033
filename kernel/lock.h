/* kernel/lock.h: locks that know their rank.
 *
 * A lock is held for some dozens of nanoseconds, in the worst case for some hundred nodes.  Taking one costs one atomic operation,
 * letting it go none: it is a plain write, and a look whether anybody sleeps for a lock of this address or one like it (lock.c).
 * Once it was written the lock may be gone, like a mutex of POSIX.
 *
 * A thread takes locks in ascending rank only; ranks are asserted where WEIR_DEBUG is defined (debug and sanitizer builds).  No
 * user code, no free function and no blocking call runs under any of them. */
#ifndef WEIR_KERNEL_LOCK_H
#define WEIR_KERNEL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/fence.h"

enum weir__rank {
        WEIR__RANK_RUNTIME = 1, /* init and shutdown, one at a time */
        WEIR__RANK_SERVER,      /* start and stop of a server */
        WEIR__RANK_SERIES,      /* of several series: a parent's before its children's, never two otherwise */
        WEIR__RANK_PARALLEL,
        WEIR__RANK_NAMES,       /* a shard of the map of names */
        WEIR__RANK_POLLER,
        WEIR__RANK_LEAF,        /* under it nothing is locked */
};

struct weir__lock {
        _Atomic unsigned held;
#ifdef WEIR_DEBUG
        int rank;
#endif
};

#ifdef WEIR_DEBUG
#define WEIR__LOCK_INITIALIZER(its_rank) {.rank = (its_rank)}
#else
#define WEIR__LOCK_INITIALIZER(its_rank) {.held = 0}
#endif

#ifdef WEIR_DEBUG
void weir__rank_enter(int rank); /* aborts when a lock of this rank or a higher one is held; lock.c */
void weir__rank_leave(int rank);
#endif

#define WEIR__LOCK_BEDS 64

/* How many threads sleep, or are about to, for locks whose address leads here. */
extern _Atomic unsigned weir__lock_sleepers[WEIR__LOCK_BEDS];

static inline _Atomic unsigned *weir__lock_sleepers_for(const struct weir__lock *lock)
{
        return &weir__lock_sleepers[((uintptr_t)lock >> 6) % WEIR__LOCK_BEDS];
}

/* Waits until the lock is free, and takes it. */
void weir__lock_wait(struct weir__lock *lock);

/* Wakes one of those who wait for it, if any do.  The lock may be gone. */
void weir__lock_wake(struct weir__lock *lock);

static inline void weir__lock_init(struct weir__lock *lock, enum weir__rank rank)
{
        atomic_init(&lock->held, 0);
#ifdef WEIR_DEBUG
        lock->rank = rank;
#else
        (void)rank;
#endif
}

/* Takes it if it is free now. */
static inline bool weir__trylock(struct weir__lock *lock)
{
        if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire))
                return false;
#ifdef WEIR_DEBUG
        weir__rank_enter(lock->rank);
#endif
        return true;
}

static inline void weir__lock(struct weir__lock *lock)
{
#ifdef WEIR_DEBUG
        weir__rank_enter(lock->rank);
#endif
        if (__builtin_expect(atomic_exchange_explicit(&lock->held, 1, memory_order_acquire), 0))
                weir__lock_wait(lock);
}

static inline void weir__unlock(struct weir__lock *lock)
{
        const _Atomic unsigned *sleepers = weir__lock_sleepers_for(lock);

#ifdef WEIR_DEBUG
        weir__rank_leave(lock->rank); /* first: once unlocked, the lock may be gone */
#endif
        atomic_store_explicit(&lock->held, 0, memory_order_release);
        weir__fence_light();
        if (__builtin_expect(atomic_load_explicit(sleepers, memory_order_relaxed), 0))
                weir__lock_wake(lock);
}

#endif
