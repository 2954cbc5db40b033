/* kernel/executor/deque.h: the jobs of one thread of the executor, a ring.
 *
 * Its owner adds and takes the newest job.  Thieves, and the owner at times, take the oldest ones.  All of them hold a lock, for
 * which the owner rarely has to wait.  Any thread may read the number of jobs without the lock. */
#ifndef WEIR_KERNEL_DEQUE_H
#define WEIR_KERNEL_DEQUE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kernel/base/lock.h"

#define WEIR__DEQUE_SIZE 256 /* a power of two */
#define WEIR__DEQUE_HALF (WEIR__DEQUE_SIZE / 2)

struct weir__job;

struct weir__deque {
        struct weir__lock lock;

        /* Written under the lock; tail - head is the number of jobs. */
        _Atomic unsigned head, tail;

        /* Guarded by lock. */
        struct weir__job *ring[WEIR__DEQUE_SIZE];
};

/* Exact under the lock.  Without the lock it is a hint, and far too large when a change comes between the two reads. */
static inline unsigned weir__deque_count(const struct weir__deque *deque)
{
        unsigned head = atomic_load_explicit(&deque->head, memory_order_relaxed);

        return atomic_load_explicit(&deque->tail, memory_order_relaxed) - head;
}

/* Adds `count` jobs; the first is the next that the owner takes.  Returns false, and adds none, if there is too little room.
 * Owner only. */
static inline bool weir__deque_add(struct weir__deque *deque, struct weir__job *const jobs[], unsigned count)
{
        weir__lock(&deque->lock);
        unsigned tail = atomic_load_explicit(&deque->tail, memory_order_relaxed);
        bool has_room = weir__deque_count(deque) + count <= WEIR__DEQUE_SIZE;
        if (has_room) {
                for (unsigned i = count; i > 0; i--)
                        deque->ring[tail++ % WEIR__DEQUE_SIZE] = jobs[i - 1];
                atomic_store_explicit(&deque->tail, tail, memory_order_relaxed);
        }
        weir__unlock(&deque->lock);
        return has_room;
}

/* Takes the newest job; NULL if there is none.  Owner only. */
static inline struct weir__job *weir__deque_pop(struct weir__deque *deque)
{
        struct weir__job *job = NULL;

        if (weir__deque_count(deque) == 0)
                return NULL; /* no other thread adds */
        weir__lock(&deque->lock);
        unsigned tail = atomic_load_explicit(&deque->tail, memory_order_relaxed);
        if (weir__deque_count(deque) > 0) {
                job = deque->ring[--tail % WEIR__DEQUE_SIZE];
                atomic_store_explicit(&deque->tail, tail, memory_order_relaxed);
        }
        weir__unlock(&deque->lock);
        return job;
}

/* Takes the oldest jobs: half of them, rounded up, but at most `most`.  Returns their number.  Any thread. */
static inline unsigned weir__deque_take(struct weir__deque *deque, struct weir__job *jobs[], unsigned most)
{
        if (weir__deque_count(deque) == 0)
                return 0;
        weir__lock(&deque->lock);
        unsigned head = atomic_load_explicit(&deque->head, memory_order_relaxed), half = (weir__deque_count(deque) + 1) / 2;
        unsigned count = half < most ? half : most;
        for (unsigned i = 0; i < count; i++)
                jobs[i] = deque->ring[head++ % WEIR__DEQUE_SIZE];
        atomic_store_explicit(&deque->head, head, memory_order_relaxed);
        weir__unlock(&deque->lock);
        return count;
}

/* The oldest job, which stays; NULL: there is none.  Under the lock. */
static inline const struct weir__job *weir__deque_oldest(const struct weir__deque *deque)
{
        unsigned head = atomic_load_explicit(&deque->head, memory_order_relaxed);

        return weir__deque_count(deque) > 0 ? deque->ring[head % WEIR__DEQUE_SIZE] : NULL;
}

#endif
