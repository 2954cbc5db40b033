/* kernel/worker.h: a worker, the M of the scheduler: a thread that owns a poller and runs its loop. */
#ifndef WEIR_KERNEL_WORKER_H
#define WEIR_KERNEL_WORKER_H

#include <pthread.h>

#include "kernel/poller.h"

struct weir__worker {
        pthread_t thread;
        struct weir__poller *poller; /* the one it owns; NULL once it lost it.  Its own thread only, after the start */
};

extern _Thread_local struct weir__worker *weir__worker_current;

/* The worker that this thread is; NULL for any other thread. */
static inline struct weir__worker *weir__worker_self(void)
{
        return weir__worker_current;
}

/* Starts a thread that runs the poller, with all signals blocked.  Result: 0 or what pthread_create reports, negative. */
int weir__worker_start(struct weir__worker *worker, struct weir__poller *poller);

/* To be called after each callback: whether this thread still owns the poller on which the callback was begun.  A worker that
 * lost it must not touch the poller again but deliver what is left to do. */
bool weir__worker_still_owns(struct weir__poller *poller);

#endif
