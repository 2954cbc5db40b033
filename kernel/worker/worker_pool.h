/* kernel/worker/worker_pool.h: the workers of the pollers: those that own one, those that have lost theirs, and the idle ones. */
#ifndef WEIR_KERNEL_WORKER_POOL_H
#define WEIR_KERNEL_WORKER_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/worker/worker.h"

/* Starts a worker for each of so many pollers.
 *
 * Result:  0, -ENOMEM, or what pthread_create reports as a negative errno: then some workers may be there, to be dismissed and
 *          joined. */
int weir__worker_pool_start(unsigned pollers, unsigned spare_workers, void *(*main)(void *worker));

/* Takes an idle worker, or makes a new one; it waits to be called.  NULL: there are as many as may be, or no thread can be had.
 * Any thread, with no lock held. */
struct weir__worker *weir__worker_pool_take(void);

/* Gives a taken worker a poller that it owns already; `blocked` is the function that has lost the poller to it.  Or puts it back.
 * */
void weir__worker_pool_call(struct weir__worker *worker, struct weir__poller *poller, enum weir__call call,
                            weir__function *blocked);
void weir__worker_pool_put_back(struct weir__worker *worker);

/* A worker without a poller becomes idle, and waits for a call. */
enum weir__call weir__worker_pool_wait(struct weir__worker *worker);

/* Ends the idle workers, at the end of the runtime, when nobody takes any more.  The others end when they become idle. */
void weir__worker_pool_dismiss(void);

/* Waits until then for all workers.  Returns whether all have ended; a worker that calls this has not. */
bool weir__worker_pool_join(weir_nsec until);

/* Frees all workers when they have ended, and returns what they have counted in `live`. */
int64_t weir__worker_pool_free(void);

/* The sum of what workers have counted in `live`, also those that have ended. */
int64_t weir__worker_pool_live(void);

/* In the child of a fork that may use the library anew: no worker is there. */
void weir__worker_pool_forked(void);

/* What a worker does now. */
struct weir__worker_snapshot {
        unsigned number;
        int poller;               /* that it owns; -1: none */
        bool in_user;             /* code of the program runs */
        const char *kind;         /* of what it runs; NULL: not known */
        weir__function *function; /* that it runs; NULL: not known */
        weir_nsec since;          /* for how long it has, at least; negative: not known */
};

#define WEIR__WORKER_SNAPSHOTS_MAX (WEIR__POLLERS_MAX + 256)

/* Looks at all workers, `room` at most; returns how many.  Any thread, no lock held. */
unsigned weir__worker_pool_show(struct weir__worker_snapshot snapshots[], unsigned room);

/* Counts the workers, and those of them that are idle. */
void weir__worker_pool_count(unsigned *workers, unsigned *idle);

#endif
