/* weir/go.h: functions that compute, or block, on threads of their own: the executor.
 *
 * A callback that computes for long holds up what else its worker has to do; a function given to the executor does not.  It has
 * one thread per CPU (or weir_config.compute_threads), started at the first use.  Functions go into queues.  Those of one named
 * queue begin in the order of their start; the queues, and all functions that are in none, take turns on the threads, so that a
 * queue with a million functions does not delay another one with one. */
#ifndef WEIR_GO_H
#define WEIR_GO_H

#include <weir/task.h>

WEIR_BEGIN

/* What is to be computed.  Most of the library may be called inside, but for what waits (-EDEADLK). */
typedef void weir_go_fn(void *context);

/* A task that calls `function` with the context on a thread of the executor and ends when it has returned; its callback runs on
 * that thread, right then.  What ends without having been called ends on any worker.
 *
 * `queue`: NULL for none: such functions begin in no particular order, and one that is started inside another function or its
 * callback begins soon, on the same thread if no other is free.  Else the name of a queue: bytes other than NUL, 1 to
 * WEIR_NAME_MAX of them; it exists as long as there are tasks of it.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.  A task made without a function, or with a queue that is none,
 *          reports -EINVAL or -ENAMETOOLONG when it is started or pushed.  weir_task_start reports -EAGAIN when there is no
 *          thread and none can be made; in a series, or under weir_task_run, that is the status of the task.
 *          The task's status: 0 or what weir_go_fail set; -ECANCELED when its series was cancelled, -ETIMEDOUT at its deadline:
 *          its function was not called then, unless it had begun; -ESHUTDOWN when it was queued at a shutdown.
 * Threads: any. */
WEIR_API weir_task *weir_go_new(const char *queue, weir_go_fn *function, weir_task_fn *done, void *context);

/* The same with a limit, counted from the start of the task.  When it comes, the callback runs with the status -ETIMEDOUT, on any
 * worker, and the series goes on.  A function that has not begun is never called then; one that has runs on to its end:
 * weir_go_cancelled tells it that nobody waits any more, and what weir_task_on_free set is called when it has returned, which may
 * be after the end of the series, but is before weir_shutdown returns.  A limit of 0 or less is over at once; WEIR_FOREVER is none.
 *
 * Units:   nanoseconds. */
WEIR_API weir_task *weir_go_new_timed(const char *queue, weir_nsec limit, weir_go_fn *function, weir_task_fn *done, void *context);

/* Inside a function: whether it had better return early.
 *
 * Result:  0; -ECANCELED when its series was cancelled, -ETIMEDOUT when its limit or the deadline of its series is over,
 *          -ESHUTDOWN when the library is shut down, which waits for it.  Outside a function always 0; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_go_cancelled(void);

/* Inside a function: the status with which its task is to end; the last call counts, 0 is success again, and more than 0 counts
 * as -EINVAL.  A cancel and a limit prevail.  Outside a function: no effect. */
WEIR_API void weir_go_fail(int status);

/* How much there is to do.  Start from WEIR_GO_STATS_DEFAULT. */
struct weir_go_stats {
        size_t size;       /* of this struct, as the program was compiled: set by WEIR_GO_STATS_DEFAULT */
        uint64_t queued;   /* functions that were started and have not begun */
        uint64_t running;  /* functions that have begun and not returned, also those whose limit is over */
        weir_nsec waiting; /* for how long the one has been queued that has been so the longest; 0: none is.  Exact to some
                              milliseconds, up to 52 days */
};

#ifdef __cplusplus
#define WEIR_GO_STATS_DEFAULT {sizeof(struct weir_go_stats), 0, 0, 0}
#else
#define WEIR_GO_STATS_DEFAULT {.size = sizeof(struct weir_go_stats)}
#endif

/* Tells that of a queue, or with NULL of all functions together.  A queue that nobody uses has nothing to do.
 *
 * Result:  0; -EINVAL for stats that are NULL or whose `size` is none, and for an empty name, -ENAMETOOLONG for one that is too
 *          long, -ECHILD in a forked child.  Untouched on failure.
 * Units:   nanoseconds on the clock of weir_now.
 * Threads: any. */
WEIR_API int weir_go_queue_stats(const char *queue, struct weir_go_stats *stats);

WEIR_END

#endif
