/* weir/flow.h: tasks that shape a flow: a series as one task, a limit around a task, tasks that are made while the flow runs. */
#ifndef WEIR_FLOW_H
#define WEIR_FLOW_H

#include <weir/series.h>

WEIR_BEGIN

/* Makes a task, or returns NULL.  It is called on a worker, never on the stack of a call into the library; what it returns is
 * consumed, so it must be a new one each time: one that was used before aborts. */
typedef weir_task *weir_make_fn(void *context);

/* A series as one task: it starts the series and ends when that has.  A series that is NULL or poisoned: its start, run or push
 * reports that.
 *
 * Owner:   the caller, until it is consumed.  It consumes the series, also on failure.
 * Result:  NULL when out of memory, which every consumer accepts.  The task's status: that of the series.
 * Threads: any. */
WEIR_API weir_task *weir_module_new(weir_series *series, weir_task_fn *done, void *context);

/* A task that runs another one, which it ends with -ETIMEDOUT when that has not ended so long after the start of the timeout,
 * nor has what its callback pushed into its series; one that would end at that very instant is ended.  0 or less: the task is
 * dropped, and its callback does not run; WEIR_FOREVER: no limit.  It has no callback of its own: the task has one.  A NULL
 * task, or one that was made wrongly: its start, run or push reports that.
 *
 * Owner:   the caller, until it is consumed.  It consumes the task, also on failure.
 * Result:  NULL when out of memory, which every consumer accepts.  The timeout's status: that of the task; if that is 0,
 *          -ETIMEDOUT if the limit came before all was over; why its series ends early.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_timeout_new(weir_task *task, weir_nsec limit);

/* Runs what `make` makes, one task after the other, each made when the one before has ended and was freed, until `make` returns
 * NULL.  Between two rounds other work has its turn, and the stack does not grow.  A cancel of its series ends it, and so does a
 * task that was made wrongly; out of memory in `make` looks like the end.  `context` is for both `make` and `done`.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; without a `make` it reports -EINVAL when it is started or
 *          pushed.  The task's status: that of the last task; 0 when there was none; what was wrong with one; why its series
 *          ends early.
 * Threads: any. */
WEIR_API weir_task *weir_repeater_new(weir_make_fn *make, weir_task_fn *done, void *context);

/* Decides what to be when it is started: it runs the one task that `make` returns.  NULL: nothing is to be done, and it ends at
 * once with status 0; out of memory looks the same, so a `make` for which that matters notes it in the context.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; without a `make` it reports -EINVAL when it is started or
 *          pushed.  The task's status: that of the task made; 0 when there was none; what was wrong with it; why its series ends
 *          early.  A task that is made may be a dynamic one, but that is no loop: each is within the one before.
 * Threads: any. */
WEIR_API weir_task *weir_dynamic_new(weir_make_fn *make, weir_task_fn *done, void *context);

WEIR_END

#endif
