/* weir/flow.h: tasks that shape a flow: a series as one task, a time limit, tasks that are made
 * while the flow runs. */
#ifndef WEIR_FLOW_H
#define WEIR_FLOW_H

#include <weir/series.h>

WEIR_BEGIN

/* Makes a task, or returns NULL.  It is called on a worker, never on the stack of a call into the
 * library.  The task is consumed, so each call must return a new one; a task that was used before
 * aborts the process. */
typedef weir_task *weir_make_fn(void *context);

/* Makes a task of a series: it starts the series, and ends when the series has ended.  If the
 * series is NULL or poisoned, the start, run or push of this task reports that.  A step that fails
 * does not fail the module, unless the series stops at failures: weir_series_stop_on_failure.
 *
 * Owner:   the caller, until the task is consumed.  It consumes the series, also on failure.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: that of the
 *          series.
 * Threads: any. */
WEIR_API weir_task *weir_module_new(weir_series *series, weir_task_fn *done, void *context);

/* Makes a task that runs another one with a time limit.  The limit counts from the start of this
 * task.  If the other task, or anything that its callback pushed into its series, has not ended by
 * then, it ends with -ETIMEDOUT.  If both come at the very same instant, the limit wins.
 *
 * With a limit of 0 or less the other task does not begin: a function is not called, and a parallel
 * runs none of its children.  Its callback sees -ETIMEDOUT, once.  An earlier decision stays: a
 * promise that has ended keeps its status, and the wait for a counter at its target has 0.
 * WEIR_FOREVER is no limit.  This task has no callback of its own: the other one has.  If the other
 * task is NULL or was made wrongly, the start, run or push of this task reports that.
 *
 * Owner:   the caller, until the task is consumed.  It consumes the other task, also on failure.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The status of this task: that of
 *          the other one, if it is not 0; -ETIMEDOUT if the limit came before all was over; or why
 *          its series ends early.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_timeout_new(weir_task *task, weir_nsec limit);

/* Makes a task that runs the tasks which `make` returns, one after the other, until `make` returns
 * NULL.  Each task is made when the one before has ended and was freed.  Between two rounds other
 * work runs, and the stack does not grow.  It also ends by a cancel of its series, and by a task
 * that was made wrongly.  Out of memory in `make` looks like the end.  `make` and `done` share
 * `context`.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  Without a `make` it reports
 *          -EINVAL when it is started or pushed.  The task's status: that of the last task; 0 when
 *          there was none; the error of a task that was made wrongly; or why its series ends early.
 * Threads: any. */
WEIR_API weir_task *weir_repeater_new(weir_make_fn *make, weir_task_fn *done, void *context);

/* Makes a task that decides at its start what to run: the one task that `make` returns.  If `make`
 * returns NULL, the task ends at once with status 0. Out of memory looks the same, so `make` should
 * note it in the context if it matters.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  Without a `make` it reports
 *          -EINVAL when it is started or pushed.  The task's status: that of the task made; 0 when
 *          there was none; the error of a task that was made wrongly; or why its series ends early.
 *          `make` may return another dynamic task, but this is no loop: each one is nested in the
 *          one before.
 * Threads: any. */
WEIR_API weir_task *weir_dynamic_new(weir_make_fn *make, weir_task_fn *done, void *context);

WEIR_END

#endif
