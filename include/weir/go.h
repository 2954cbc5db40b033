/* weir/go.h: functions that compute or block, on threads of their own: the executor.
 *
 * A callback that computes for long delays all other work of its worker.  A function on the
 * executor does not.  The executor has one thread per CPU (or weir_config.compute_threads), which
 * it starts at the first use.
 *
 * Functions wait in queues.  The functions of one named queue begin in the order of their start.
 * The queues take turns on the threads, and all functions without a queue count as one queue.  So a
 * queue with a million functions does not delay another queue with one. */
#ifndef WEIR_GO_H
#define WEIR_GO_H

#include <weir/task.h>

WEIR_BEGIN

/* A function on the executor.  It may call most of the library, but not functions that wait
 * (-EDEADLK). */
typedef void weir_go_fn(void *context);

/* Makes a task that calls `function` with the context on a thread of the executor.  The task ends
 * when the function has returned, and its callback runs right then on that thread.  If the function
 * is never called, the callback runs on any worker.
 *
 * `queue` is the name of a queue: 1 to WEIR_NAME_MAX bytes, none of them NUL.  A queue exists as
 * long as there are tasks of it.  NULL is no queue: such functions begin in no particular order.
 * One that is started inside another function, or inside its callback, begins soon: on the same
 * thread, if no other thread is free.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  Without a function, or with an
 *          invalid name of a queue, the task reports -EINVAL or -ENAMETOOLONG when it is started or
 *          pushed.  weir_task_start reports -EAGAIN when there is no thread and none can be made;
 *          in a series, or under weir_task_run, that is the status of the task.  The task's status:
 *          0, or the status of weir_go_fail;
 *          -ECANCELED when its series was cancelled, -ETIMEDOUT at the deadline of its series: the
 *            function was not called, unless it had begun;
 *          -ESHUTDOWN when a shutdown found it in the queue.
 * Threads: any. */
WEIR_API weir_task *weir_go_new(const char *queue, weir_go_fn *function, weir_task_fn *done, void *context);

/* Makes the same task with a time limit, which counts from the start of the task: the time that it
 * waits in its queue counts as well.  At the limit the callback runs on any worker with the status
 * -ETIMEDOUT, and the series goes on.
 *
 * A function that has not begun is never called then.  A function that has begun runs on to its
 * end; weir_go_cancelled tells it that nobody waits for it any more.  The function of
 * weir_task_on_free is called when it has returned.  That may be after the end of the series, but
 * it is before weir_shutdown returns.  A limit of 0 or less is over at once; WEIR_FOREVER is no
 * limit.
 *
 * Owner, Result, Threads: as for weir_go_new.
 * Units:   nanoseconds. */
WEIR_API weir_task *weir_go_new_timed(const char *queue, weir_nsec limit, weir_go_fn *function, weir_task_fn *done,
                                      void *context);

/* Inside a function: whether it should return early.
 *
 * Result:  0; -ECANCELED when its series was cancelled; -ETIMEDOUT when its limit or the deadline
 *          of its series is over; -ESHUTDOWN during a shutdown, which waits for the function.
 *          Outside a function always 0; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_go_cancelled(void);

/* Inside a function: its task.  By it the function comes to the series of the task, which the
 * callbacks share: weir_series_context, weir_series_push, weir_series_fail.
 *
 * Owner:   borrowed until the function returns.
 * Result:  NULL outside a function, inside one of weir_go_new_timed, whose series may go on without
 *          it, and in a forked child.  weir_series_of for a task of weir_task_start is NULL until
 *          its callback runs.
 * Threads: any. */
WEIR_API weir_task *weir_go_task(void);

/* Inside a function: sets the status with which its task ends.  The last call counts.  0 is success
 * again; a value above 0 counts as -EINVAL.  A cancel and a limit override it.  Outside a function
 * the call has no effect. */
WEIR_API void weir_go_fail(int status);

/* How much work a queue has.  Start from WEIR_GO_STATS_DEFAULT. */
struct weir_go_stats {
        size_t size;       /* of this struct when the program was compiled; set by WEIR_GO_STATS_DEFAULT */
        uint64_t queued;   /* functions that were started and have not begun */
        uint64_t running;  /* functions that have begun and not returned, also after their limit */
        weir_nsec waiting; /* how long the oldest of the queued functions has waited; 0: none is queued.  Exact to some
                              milliseconds, up to 52 days */
};

/* The initial value of a struct weir_go_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_GO_STATS_DEFAULT                         \
        {                                             \
                sizeof(struct weir_go_stats), 0, 0, 0 \
        }
#else
#define WEIR_GO_STATS_DEFAULT                        \
        {                                            \
                .size = sizeof(struct weir_go_stats) \
        }
#endif

/* Fills `stats` for a queue; for NULL, for all functions together.  An unused queue has zeros.
 *
 * Result:  0; or an error, and *stats is unchanged: -EINVAL for NULL stats, an invalid `size` and
 *          an empty name; -ENAMETOOLONG; -ECHILD in a forked child.
 * Units:   nanoseconds on the clock of weir_now.
 * Threads: any. */
WEIR_API int weir_go_queue_stats(const char *queue, struct weir_go_stats *stats);

WEIR_END

#endif
