/* kernel/worker/worker_pool.h: the workers: those that own a poller, those that have lost it in a callback, and the idle ones. */
#ifndef WEIR_KERNEL_WORKER_POOL_H
#define WEIR_KERNEL_WORKER_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/worker/worker.h"

/* Starts a worker for each of so many pollers.
 *
 * Result:  0, -ENOMEM, or the error of pthread_create as a negative errno.  After an error some workers may be there:
 *          weir__worker_pool_end ends them. */
int weir__worker_pool_start(unsigned pollers, unsigned spare_workers, void *(*main)(void *worker));

/* Takes an idle worker, or makes a new one.  It waits for a call.  NULL: there are as many workers as are allowed, or no thread
 * can be made.  Any thread, with no lock held. */
struct weir__worker *weir__worker_pool_take(void);

/* Calls a worker that was taken: it already owns the poller.  `blocked` is the function that blocks the former owner.  Or puts
 * the worker back: it becomes idle. */
void weir__worker_pool_call(struct weir__worker *worker, struct weir__poller *poller, enum weir__call call,
                            weir__function *blocked);
void weir__worker_pool_put_back(struct weir__worker *worker);

/* A worker waits for a call.  The second function is for a worker without a poller: it makes the worker idle first. */
enum weir__call weir__worker_pool_wait(struct weir__worker *worker);
enum weir__call weir__worker_pool_wait_idle(struct weir__worker *worker);

/* Ends the workers at the end of the runtime, when nobody takes any more: the idle ones now, the others when they become idle.
 * Waits for them until then.  Returns whether all have ended, and were freed; a worker that calls this has not. */
bool weir__worker_pool_end(weir_nsec until);

/* The sum of what all workers have counted in `roots` since the process began. */
int64_t weir__worker_pool_roots(void);

/* In the child of a fork that may use the library anew: no worker is there. */
void weir__worker_pool_forked(void);

/* Writes snapshots of the workers, at most `room` of them.  Returns how many.  Any thread, no lock held. */
unsigned weir__worker_pool_snapshots(struct weir__worker_snapshot snapshots[], unsigned room);

/* Counts the workers, and those of them that are idle. */
void weir__worker_pool_count(unsigned *workers, unsigned *idle);

#endif
