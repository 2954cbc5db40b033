/* kernel/base/lock.h: fair locks that know their rank.
 *
 * A lock is held for some dozens of nanoseconds, in the worst case for some hundred nodes.  Taking a free lock costs one atomic
 * operation.  Releasing it costs none while no thread sleeps for it.  lock.c explains the states and the fairness.  The lock may
 * be freed as soon as it was released, like a mutex of POSIX.
 *
 * A thread takes locks in ascending rank only; ranks are asserted where WEIR_DEBUG is defined (debug and sanitizer builds).  No
 * user code, no free function and no blocking call runs under any of them. */
#ifndef WEIR_KERNEL_LOCK_H
#define WEIR_KERNEL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/base/fence.h"

enum weir__rank {
        WEIR__RANK_RUNTIME = 1, /* init and shutdown, one at a time; start and stop of a trace, the same */
        WEIR__RANK_LIVE,        /* a shard of the registry of roots */
        WEIR__RANK_SERIES,      /* of several series: a parent's before its children's, never two otherwise */
        WEIR__RANK_COMBINATOR, /* of a combinator or a graph */
        WEIR__RANK_NAMES,    /* a shard of the map of names */
        WEIR__RANK_WAITABLE, /* what tasks wait at; several at once in the order of their addresses */
        WEIR__RANK_POLLER,
        WEIR__RANK_LEAF, /* under it nothing is locked */
};

struct weir__lock {
        _Atomic unsigned is_held;
#ifdef WEIR_DEBUG
        int rank;
#endif
};

#ifdef WEIR_DEBUG
#define WEIR__LOCK_INITIALIZER(its_rank) {.rank = (its_rank)}

/* Aborts when a lock of this rank or a higher one is held; of WAITABLE one at a higher address.  lock.c */
void weir__rank_enter(const struct weir__lock *lock);
void weir__rank_leave(const struct weir__lock *lock);

/* Before what must not be done under any lock: aborts when this thread holds one. */
void weir__lock_expect_none(const char *what);
#else
#define WEIR__LOCK_INITIALIZER(its_rank) {.is_held = 0}

static inline void
weir__rank_enter(const struct weir__lock *lock)
{
        (void)lock;
}

static inline void
weir__rank_leave(const struct weir__lock *lock)
{
        (void)lock;
}

static inline void
weir__lock_expect_none(const char *what)
{
        (void)what;
}
#endif

#define WEIR__LOCK_QUEUES 64

/* How many threads wait in each queue for a lock whose address leads there.  Written under the mutex of the queue. */
extern _Atomic unsigned weir__lock_sleepers[WEIR__LOCK_QUEUES];

static inline unsigned
weir__lock_queue(const struct weir__lock *lock)
{
        return (uintptr_t)lock / 128 % WEIR__LOCK_QUEUES;
}

static inline bool
weir__lock_has_sleepers(const struct weir__lock *lock)
{
        return atomic_load_explicit(&weir__lock_sleepers[weir__lock_queue(lock)], memory_order_relaxed);
}

/* Takes a lock that was found held. */
void weir__lock_wait(struct weir__lock *lock);

/* Releases a lock while threads wait in its queue, for this lock or for another one. */
void weir__lock_release(struct weir__lock *lock);

/* Wakes the first thread that waits for a lock.  The lock may be gone. */
void weir__lock_wake(const struct weir__lock *lock);

static inline void
weir__lock_init(struct weir__lock *lock, enum weir__rank rank)
{
        atomic_init(&lock->is_held, 0);
#ifdef WEIR_DEBUG
        lock->rank = rank;
#else
        (void)rank;
#endif
}

/* Takes it without a look at its rank, if it is free now. */
static inline bool
weir__lock_take(struct weir__lock *lock)
{
        unsigned is_held = 0;

        return atomic_compare_exchange_strong_explicit(&lock->is_held, &is_held, 1, memory_order_acquire, memory_order_relaxed);
}

/* Takes it unless that instant of CLOCK_MONOTONIC comes first: looks at it once in a millisecond.  WEIR_FOREVER: waits. */
bool weir__lock_until(struct weir__lock *lock, weir_nsec until);

/* Takes it if it is free now. */
static inline bool
weir__trylock(struct weir__lock *lock)
{
        if (!weir__lock_take(lock))
                return false;
        weir__rank_enter(lock);
        return true;
}

/* For a fork: takes a lock whatever others of its rank are held. */
void weir__lock_hold(struct weir__lock *lock);

static inline void
weir__lock(struct weir__lock *lock)
{
        weir__rank_enter(lock);
        if (__builtin_expect(!weir__lock_take(lock), 0))
                weir__lock_wait(lock);
}

static inline void
weir__unlock(struct weir__lock *lock)
{
        weir__rank_leave(lock); /* first: once unlocked, the lock may be gone */
        if (__builtin_expect(weir__lock_has_sleepers(lock), 0)) {
                weir__lock_release(lock);
                return;
        }
        atomic_store_explicit(&lock->is_held, 0, memory_order_release);
        weir__fence_light();
        if (__builtin_expect(weir__lock_has_sleepers(lock), 0))
                weir__lock_wake(lock);
}

#endif
