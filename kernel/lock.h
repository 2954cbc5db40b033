/* kernel/lock.h: mutexes that know their rank.
 *
 * A thread takes locks in ascending rank only; ranks are asserted where WEIR_DEBUG is defined (debug and sanitizer builds).  No
 * user code, no free function and no blocking call runs under any of them. */
#ifndef WEIR_KERNEL_LOCK_H
#define WEIR_KERNEL_LOCK_H

#include <pthread.h>
#include <stdbool.h>

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
        pthread_mutex_t mutex;
#ifdef WEIR_DEBUG
        int rank;
#endif
};

#ifdef WEIR_DEBUG
#define WEIR__LOCK_INITIALIZER(its_rank) {.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (its_rank)}
#else
#define WEIR__LOCK_INITIALIZER(its_rank) {.mutex = PTHREAD_MUTEX_INITIALIZER}
#endif

#ifdef WEIR_DEBUG
void weir__rank_enter(int rank); /* aborts when a lock of this rank or a higher one is held; lock.c */
void weir__rank_leave(int rank);
#endif

static inline void weir__lock_init(struct weir__lock *lock, enum weir__rank rank)
{
        pthread_mutex_init(&lock->mutex, NULL);
#ifdef WEIR_DEBUG
        lock->rank = rank;
#else
        (void)rank;
#endif
}

static inline void weir__lock_done(struct weir__lock *lock)
{
        pthread_mutex_destroy(&lock->mutex);
}

static inline void weir__lock(struct weir__lock *lock)
{
#ifdef WEIR_DEBUG
        weir__rank_enter(lock->rank);
#endif
        pthread_mutex_lock(&lock->mutex);
}

static inline void weir__unlock(struct weir__lock *lock)
{
#ifdef WEIR_DEBUG
        weir__rank_leave(lock->rank); /* first: once unlocked, the lock may be gone */
#endif
        pthread_mutex_unlock(&lock->mutex);
}

#endif
