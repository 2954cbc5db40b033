/* weir/parallel.h: a task that runs several series at once and ends when all of them have ended. */
#ifndef WEIR_PARALLEL_H
#define WEIR_PARALLEL_H

#include <weir/series.h>

WEIR_BEGIN

/* Makes a parallel without children.  Its callback runs once all children have ended and were
 * freed.  Its status is the first non-zero status among them, in the order of adding; the status of
 * a child is that of its task or its series.  Callbacks of different children may run at the same
 * time.
 *
 * Owner:   the caller, until the parallel is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.
 * Threads: any. */
WEIR_API weir_task *weir_parallel_new(weir_task_fn *done, void *context);

/* Adds a child: a task or a series that was not started.  NULL, or a child that was made wrongly,
 * poisons the parallel: its start, run or push reports the error.
 *
 * Owner:   consumes the child.
 * Threads: where the parallel is yours, before its start.  Later, or on another kind of task, it
 *          aborts with the reason. */
WEIR_API void weir_parallel_add(weir_task *parallel, weir_task *task);
WEIR_API void weir_parallel_add_series(weir_task *parallel, weir_series *series);

/* The parallel ends at its first failure.  The first child that fails, in time, cancels all
 * others, and the parallel has the status of that child.  Pending tasks of the others end with
 * -ECANCELED, and so does every callback in them that has not begun.  The callback of the parallel
 * runs when all of them have ended.  Out of memory poisons the parallel.  Accepts NULL.
 *
 * Threads: where the parallel is yours, before its start.  Later, or on another kind of task, it
 *          aborts with the reason. */
WEIR_API void weir_parallel_stop_on_failure(weir_task *parallel);

WEIR_END

#endif
