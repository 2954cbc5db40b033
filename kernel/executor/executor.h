/* kernel/executor/executor.h: threads that run jobs, functions that compute or block, apart from the pollers.
 *
 * docs/design.md ("The executor") describes it. */
#ifndef WEIR_KERNEL_EXECUTOR_H
#define WEIR_KERNEL_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/executor/jobs.h"
#include "kernel/worker/worker.h"

/* Sets how many threads run jobs, and how many more may replace threads that block.  0 threads: one for each CPU that the process
 * may use.  While the runtime is not up. */
void weir__executor_configure(unsigned threads, unsigned spares);

/* Starts the threads.  Before a job is submitted, under a root that is counted.
 *
 * Result:  0, also when only some threads could be started; a later call tries to start the others.  -EAGAIN, -ENOMEM: there is
 *          no thread.
 * Threads: any, no lock held. */
int weir__executor_use(void);

/* Runs the job soon: its `run` or its `refuse` is called exactly once, unless it is removed.  Any thread, no lock held. */
void weir__executor_submit(struct weir__job *job);

/* Takes a job back.  Returns false when a thread has the job, and will soon call its `run`.  Any thread; it may hold locks of
 * lower rank than a leaf. */
bool weir__executor_remove(struct weir__job *job);

/* The `run` of a job calls these around the part that counts as running. */
void weir__executor_begin(struct weir__job_queue *queue);
void weir__executor_end(void);

/* Whether a job is queued or runs, or a thread does not sleep yet.  On the virtual clock the poller is woken when that ends.  Any
 * thread. */
bool weir__executor_is_busy(void);

/* weir__executor_is_busy, and whether weir__blocking_is_any at the same moment: a function that begins to block, or ends it, goes
 * from the one to the other. */
bool weir__executor_is_busy_or_blocks(bool *blocks);

struct weir__executor_stats {
        uint64_t queued, running;
        weir_nsec waiting;
};

/* The numbers of a queue; with NULL of all jobs.  For all jobs `waiting` regards only the next WEIR__EXECUTOR_SHOWN queues.  Any
 * thread. */
#define WEIR__EXECUTOR_SHOWN 256
void weir__executor_stats(const struct weir__job_queue *queue, struct weir__executor_stats *stats);

/* The job of the calling thread is about to block.  Another thread runs jobs in its place, until blocking_end.  Result: 0;
 * -EAGAIN when there is no other thread and none can be made.  On a thread of the executor. */
int weir__executor_blocking_begin(void);
void weir__executor_blocking_end(void);

/* Whether the worker is a thread of the executor. */
static inline bool weir__executor_has(const struct weir__worker *worker)
{
        return worker->executor_ops != NULL;
}

/* The number of threads now.  Any thread. */
unsigned weir__executor_threads(void);

/* Writes snapshots of the threads that run a job, at most `room` of them.  Returns how many.  Any thread, no lock held. */
unsigned weir__executor_snapshots(struct weir__worker_snapshot snapshots[], unsigned room);

/* Shutdown has begun: refuses all queued jobs. */
void weir__executor_drain(void);

/* The sum of what all threads of the executor have counted in `roots` since the process began. */
int64_t weir__executor_roots(void);

/* All roots have ended.  The threads end when they have nothing more to run.  Waits for them until that instant, but not for the
 * calling thread.  Returns whether all have ended. */
bool weir__executor_stop(weir_nsec until);

/* In the child of a fork that may use the library anew: no thread of the executor is there. */
void weir__executor_forked(void);

#endif
