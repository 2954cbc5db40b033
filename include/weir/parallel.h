/* weir/parallel.h: a task that runs several series at once and ends when all of them have. */
#ifndef WEIR_PARALLEL_H
#define WEIR_PARALLEL_H

#include <weir/series.h>

WEIR_BEGIN

/* A parallel without children.  Its callback runs once all children ended and were freed; its status is the first non-zero one
 * among them, in order of adding: a task's own status, or that of a series.  Children's callbacks may run at once.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.
 * Threads: any. */
WEIR_API weir_task *weir_parallel_new(weir_task_fn *done, void *context);

/* Adds a child: a task, or a series, that was not started.  NULL, or one that was made wrongly, poisons the parallel: its start,
 * run or push reports that.
 *
 * Owner:   consumes the child.
 * Threads: where the parallel is yours: before it is started.  Later, or on a task of another kind, it aborts with the reason. */
WEIR_API void weir_parallel_add(weir_task *parallel, weir_task *task);
WEIR_API void weir_parallel_add_series(weir_task *parallel, weir_series *series);

WEIR_END

#endif
