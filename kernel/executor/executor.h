/* kernel/executor/executor.h: threads that run jobs, functions that compute or block, apart from the pollers.
 *
 * docs/design.md ("The executor") describes it. */
#ifndef WEIR_KERNEL_EXECUTOR_H
#define WEIR_KERNEL_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/executor/jobs.h"
#include "kernel/sched/worker.h"

/* How many threads there are to be, when they are needed: 0: one per CPU that the process may use; and how many more for those
 * that block.  While the runtime is not up. */
void weir__executor_configure(unsigned threads, unsigned spares);

/* To be called before a job is submitted, by who is counted as a root: starts the threads.  Result: 0, also if only some of them
 * could be started, which is tried again later; -EAGAIN, -ENOMEM when there is none.  Any thread, no lock held. */
int weir__executor_use(void);

/* Has the job run soon: its `run` or its `refuse` is called exactly once, unless it is removed.  Any thread, no lock held. */
void weir__executor_submit(struct weir__job *job);

/* Takes back a job; false when it is about to be run, or soon will be looked at by the thread that has it.  Any thread; locks of
 * lower rank than a leaf may be held. */
bool weir__executor_remove(struct weir__job *job);

/* Around what `run` counts as running.  Its own thread. */
void weir__executor_begin(struct weir__job_queue *queue);
void weir__executor_end(void);

/* Whether a job is queued or runs, or a thread has not come to rest since.  When that ends and the clock is virtual, the poller
 * is woken.  Any thread. */
bool weir__executor_is_busy(void);

struct weir__executor_stats {
        uint64_t queued, running;
        weir_nsec waiting;
};

/* Of a queue, or of all jobs; then the oldest is that of the WEIR__EXECUTOR_SHOWN queues at most whose turns come next.  Any
 * thread. */
#define WEIR__EXECUTOR_SHOWN 256
void weir__executor_stats(const struct weir__job_queue *queue, struct weir__executor_stats *stats);

/* By a thread of the executor, inside a job that is about to block: another thread runs jobs in its place until it says that it
 * is over.  Result: 0; -EAGAIN when there is no other thread and none can be made. */
int weir__executor_blocking_begin(struct weir__worker *worker);
void weir__executor_blocking_end(struct weir__worker *worker);

/* Whether the worker is a thread of the executor. */
static inline bool weir__executor_owns(const struct weir__worker *worker)
{
        return worker->cache != NULL;
}

/* How many threads it has now.  Any thread. */
unsigned weir__executor_threads(void);

/* What a thread of it is at. */
struct weir__executor_sight {
        unsigned thread;
        weir__function *function; /* which is running; NULL: it is just about to */
        weir_nsec since;          /* for how long */
};

#define WEIR__EXECUTOR_SIGHTS_MAX 512

/* Looks at those that run something, `room` at most; returns how many.  Any thread, no lock held. */
unsigned weir__executor_show(struct weir__executor_sight sights[], unsigned room);

/* Shutdown has begun: refuses what is queued, and has each thread that comes to rest notify the runtime. */
void weir__executor_drain(void);

/* The roots that were left by threads of the executor, as a number that is never positive. */
int64_t weir__executor_live(void);

/* All roots have ended: ends the threads when they have nothing more to run, and waits for them until then; not for the one that
 * calls this.  Returns whether all have ended; *live is what the above came to. */
bool weir__executor_stop(weir_nsec until, int64_t *live);

/* In the child of a fork which may use the library anew: no thread had been there. */
void weir__executor_forked(void);

#endif
