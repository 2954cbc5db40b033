/* weir/series.h: tasks one after another.
 *
 * Callbacks of one series never overlap and each happens-after the one before, so what only they touch needs no lock.  The
 * status of a task never stops its series. */
#ifndef WEIR_SERIES_H
#define WEIR_SERIES_H

#include <weir/task.h>

WEIR_BEGIN

/* The callback at the end of a series: it runs exactly once for every series started, on a worker, after the last task. */
typedef void weir_series_fn(weir_series *series, void *context);

/* An empty series.
 *
 * Owner:   the caller, until started, run or dismissed, or added to a parallel, a race or a graph, or made a module.
 * Result:  NULL when out of memory, which every consumer accepts and reports as -ENOMEM.
 * Threads: any. */
WEIR_API weir_series *weir_series_new(weir_series_fn *done, void *context);

/* Appends a task (or puts it first among those not yet started); also while the series runs.
 *
 * Owner:   consumes the task, also on failure: it is dismissed then.
 * Result:  0; -ENOMEM for a NULL task or series, or what was wrong with the task from its making: the series is poisoned with
 *          it, so that its start reports it, or its status when it runs already; -ESTALE after the end of the series; -ECHILD.
 * Threads: any that owns, borrows or has a reference to the series.  Never blocks. */
WEIR_API int weir_series_push(weir_series *series, weir_task *task);
WEIR_API int weir_series_push_front(weir_series *series, weir_task *task);

/* Keeps the memory of a series for another thread, so that it may push, cancel or ask for the status after the end as well.
 * Ref returns its argument; both accept NULL.
 *
 * Owner:   each ref is the caller's to unref.
 * Threads: ref: any that owns, borrows or has a reference; unref: any. */
WEIR_API weir_series *weir_series_ref(weir_series *series);
WEIR_API void weir_series_unref(weir_series *series);

/* Starts a series.
 *
 * Owner:   consumes the series, also on failure: its tasks and itself are dismissed then.
 * Result:  0, and its callback will run; else nothing of it will: -ENOMEM for NULL, what poisoned it, -ESHUTDOWN, -ECHILD and
 *          what weir_init reports, as weir_task_start.
 * Threads: any.  Never blocks. */
WEIR_API int weir_series_start(weir_series *series);

/* Starts a series and waits until it has ended: every callback and every free function of its has run.
 *
 * Owner:   consumes the series, also on failure.
 * Result:  its status; or why it was not started, as weir_series_start; -EDEADLK on a worker (dismissed then).
 * Threads: any but workers. */
WEIR_API int weir_series_run(weir_series *series);

/* Dismisses a series that was not started, with its tasks; the free functions run on the caller.  Accepts NULL.
 *
 * Owner:   consumes the series.
 * Threads: any. */
WEIR_API void weir_series_dismiss(weir_series *series);

/* Ends a series early: the task that is pending in it ends with -ECANCELED (through a parallel too), those not yet started are
 * dropped (no callback; their free functions run on a worker), then its callback runs with the status -ECANCELED.  A callback
 * that has begun is not interrupted.  No-op after the end, and for NULL.  Before the start: takes effect when started.
 *
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
WEIR_API void weir_series_cancel(weir_series *series);

/* 0, or why the series ends early: -ECANCELED, -ETIMEDOUT, -ESHUTDOWN, or what poisoned it.  -EINVAL for NULL, -ECHILD in a
 * forked child.
 *
 * Threads: any that owns, borrows or has a reference. */
WEIR_API int weir_series_status(const weir_series *series);

enum weir_series_cause {
        WEIR_CAUSE_NONE = 0,
        WEIR_CAUSE_CANCELLED, /* the series, or one that it is within, was cancelled */
        WEIR_CAUSE_TIMED_OUT, /* the deadline of one of them came */
        WEIR_CAUSE_SHUT_DOWN, /* weir_shutdown has ended it */
        WEIR_CAUSE_POISONED,  /* a push failed: it runs to its end, but its status is what the push reported */
};

/* Where its status comes from.
 *
 * Result:  an enum weir_series_cause; -EINVAL for NULL, -ECHILD in a forked child.
 * Threads: any that owns, borrows or has a reference. */
WEIR_API int weir_series_cause(const weir_series *series);

/* -- by name -- */

/* Gives the series a name, under which any thread finds it: bytes other than NUL, 1 to WEIR_NAME_MAX of them; they are copied.
 * Any number of series may share one.  It replaces the name that the series has, and NULL removes that; among those of a name the
 * order is that of these calls.  The series bears the name until its last task has ended: its own callback does not find it any
 * more.
 *
 * Result:  0; -EINVAL for a NULL series or an empty name, -ENAMETOOLONG, -ENOMEM (it keeps the name that it had), -ESTALE after
 *          the end of the series, -ECHILD.
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
WEIR_API int weir_series_set_name(weir_series *series, const char *name);

/* Cancels up to `max` series named `name`, oldest first; WEIR_ALL is no limit.
 *
 * Result:  how many were cancelled: a series that was told to end early before, or that is within one that was, is not counted;
 *          of several cancels at once one counts it.  For each, its callback runs exactly once, with -ECANCELED (one that was not
 *          yet started: once it is).  0 for NULL and for a name nobody bears.  A series that gets the name during the call is
 *          left.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_series_cancel_named(const char *name, size_t max);

/* How many series bear the name: those that were told to end early, and have not ended yet, included.
 *
 * Threads: any. */
WEIR_API size_t weir_series_count(const char *name);

/* -- deadlines -- */

/* Ends the series early with -ETIMEDOUT, as weir_series_cancel does with -ECANCELED, when it has not ended so long from now.  What
 * is within it ends with it: so of the deadlines of a series and of those that it is within the earliest counts.  Set again it
 * replaces the series' own, WEIR_FOREVER removes it; 0 or less ends the series at once, for good.  The time counts from this call,
 * also for a series that is not started.
 *
 * Result:  0; -EINVAL for NULL, -ENOMEM, -ESTALE after the end of the series, -ECHILD.
 * Units:   nanoseconds.
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
WEIR_API int weir_series_set_deadline(weir_series *series, weir_nsec from_now);

/* How long until the earliest deadline of the series and of those that it is within: what is worth beginning still?
 *
 * Result:  0 when that is over, WEIR_FOREVER when there is none; -EINVAL for NULL, -ECHILD in a forked child.
 * Units:   nanoseconds.
 * Threads: any that owns, borrows or has a reference. */
WEIR_API weir_nsec weir_series_time_left(const weir_series *series);

/* The context that the callbacks of the series share; NULL for NULL. */
WEIR_API void *weir_series_context(const weir_series *series);

/* Sets it, with a function (or NULL) that frees it after the end.  What was set before is freed at once, on the caller, unless
 * it is the same pointer.
 *
 * Owner:   the series takes the context; a NULL series frees it at once.
 * Threads: where the series is yours, and inside its callbacks. */
WEIR_API void weir_series_set_context(weir_series *series, void *context, weir_free_fn *fn);

WEIR_END

#endif
