/* kernel/base/lock.h: locks that know their rank.
 *
 * A lock is held for some dozens of nanoseconds, in the worst case for some hundred nodes.  Taking one costs one atomic operation,
 * letting it go none while nobody sleeps for it: lock.c has the states.  Once it was let go the lock may be gone, like a mutex of
 * POSIX.
 *
 * A thread takes locks in ascending rank only; ranks are asserted where WEIR_DEBUG is defined (debug and sanitizer builds).  No
 * user code, no free function and no blocking call runs under any of them. */
#ifndef WEIR_KERNEL_LOCK_H
#define WEIR_KERNEL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/fence.h"

enum weir__rank {
        WEIR__RANK_RUNTIME = 1, /* init and shutdown, one at a time */
        WEIR__RANK_LIVE,        /* a shard of the registry of roots */
        WEIR__RANK_SERIES,      /* of several series: a parent's before its children's, never two otherwise */
        WEIR__RANK_PARALLEL,
        WEIR__RANK_NAMES,    /* a shard of the map of names */
        WEIR__RANK_WAITABLE, /* what tasks wait at; several at once in the order of their addresses */
        WEIR__RANK_POLLER,
        WEIR__RANK_DEPOT, /* of small blocks */
        WEIR__RANK_LEAF,  /* under it nothing is locked */
};

enum weir__lock_state {
        WEIR__LOCK_FREE = 0,
        WEIR__LOCK_HELD,
        WEIR__LOCK_WANTED, /* held, and somebody may sleep for it */
};

struct weir__lock {
        _Atomic unsigned state; /* enum weir__lock_state */
#ifdef WEIR_DEBUG
        int rank;
#endif
};

#ifdef WEIR_DEBUG
#define WEIR__LOCK_INITIALIZER(its_rank) \
        {                                \
                .rank = (its_rank)       \
        }
#else
#define WEIR__LOCK_INITIALIZER(its_rank) \
        {                                \
                .state = WEIR__LOCK_FREE \
        }
#endif

#ifdef WEIR_DEBUG
/* Aborts when a lock of this rank or a higher one is held; of WAITABLE one at a higher address.  lock.c */
void weir__rank_enter(int rank, const struct weir__lock *lock);
void weir__rank_leave(int rank);
void weir__rank_expect_none(const char *what);
#endif

/* Before what must not be done under any lock: aborts when this thread holds one. */
static inline void
weir__lock_expect_none(const char *what)
{
#ifdef WEIR_DEBUG
        weir__rank_expect_none(what);
#else
        (void)what;
#endif
}

#define WEIR__LOCK_BEDS 64

/* How many threads sleep, or are about to, for locks whose address leads here. */
extern _Atomic unsigned weir__lock_sleepers[WEIR__LOCK_BEDS];

static inline _Atomic unsigned *
weir__lock_sleepers_for(const struct weir__lock *lock)
{
        return &weir__lock_sleepers[(uintptr_t)lock / 128 % WEIR__LOCK_BEDS];
}

static inline bool
weir__lock_has_sleepers(const struct weir__lock *lock)
{
        return atomic_load_explicit(weir__lock_sleepers_for(lock), memory_order_relaxed);
}

/* Waits until the lock is free, and takes it. */
void weir__lock_wait(struct weir__lock *lock);

/* Lets go of one for which somebody sleeps, or of one like it. */
void weir__lock_release(struct weir__lock *lock);

/* Wakes one of those who sleep for a lock that may be gone. */
void weir__lock_wake(struct weir__lock *lock);

static inline void
weir__lock_init(struct weir__lock *lock, enum weir__rank rank)
{
        atomic_init(&lock->state, WEIR__LOCK_FREE);
#ifdef WEIR_DEBUG
        lock->rank = rank;
#else
        (void)rank;
#endif
}

/* FREE -> HELD. */
static inline bool
weir__lock_take(struct weir__lock *lock)
{
        unsigned state = WEIR__LOCK_FREE;

        return atomic_compare_exchange_strong_explicit(&lock->state, &state, WEIR__LOCK_HELD, memory_order_acquire,
                                                       memory_order_relaxed);
}

/* Takes it if it is free now. */
static inline bool
weir__trylock(struct weir__lock *lock)
{
        if (!weir__lock_take(lock))
                return false;
#ifdef WEIR_DEBUG
        weir__rank_enter(lock->rank, lock);
#endif
        return true;
}

/* Takes it if that is possible within so long.  Who waits so is a sleeper like others: it is let in. */
bool weir__lock_within(struct weir__lock *lock, int64_t nanoseconds);

/* For a fork: takes one whatever others of its rank are held; and, in the child, forgets the threads that it does not have. */
void weir__lock_hold(struct weir__lock *lock);
void weir__lock_forget_sleepers(void);

static inline void
weir__lock(struct weir__lock *lock)
{
#ifdef WEIR_DEBUG
        weir__rank_enter(lock->rank, lock);
#endif
        if (__builtin_expect(!weir__lock_take(lock), 0))
                weir__lock_wait(lock);
}

/* Between two holds of a lock by one thread that has much to do under it: lets those who sleep for it have their turn, which they
 * would never get from one that is faster than a wake-up.  With no lock held; the lock must still be there. */
void weir__lock_let_in(struct weir__lock *lock);

static inline void
weir__unlock(struct weir__lock *lock)
{
#ifdef WEIR_DEBUG
        weir__rank_leave(lock->rank); /* first: once unlocked, the lock may be gone */
#endif
        if (__builtin_expect(weir__lock_has_sleepers(lock), 0)) {
                weir__lock_release(lock);
                return;
        }
        atomic_store_explicit(&lock->state, WEIR__LOCK_FREE, memory_order_release);
        weir__fence_light();
        if (__builtin_expect(weir__lock_has_sleepers(lock), 0))
                weir__lock_wake(lock);
}

#endif
