/* weir/series.h: tasks that run one after another.
 *
 * Callbacks of one series never overlap, and each one happens-after the one before.  Data that only
 * they use needs no lock.  The status of a task stops its series only after
 * weir_series_stop_on_failure.
 *
 *     weir_series *series = weir_series_new(on_end, NULL);
 *     weir_series_push(series, weir_timer_new(WEIR_MSEC(100), on_timer, NULL));
 *     weir_series_push(series, weir_go_new(NULL, compute, on_result, NULL));
 *     int err = weir_series_start(series);   reports all that went wrong before */
#ifndef WEIR_SERIES_H
#define WEIR_SERIES_H

#include <weir/task.h>

WEIR_BEGIN

/* The callback at the end of a series.  It runs exactly once for every started series, on a worker,
 * after the last task. */
typedef void weir_series_fn(weir_series *series, void *context);

/* Makes an empty series.
 *
 * Owner:   the caller, until it is started, run or dismissed, added to a parallel, a race or a
 *          graph, or made a module.
 * Result:  NULL when out of memory.  Every consumer accepts NULL and reports it as -ENOMEM.
 * Threads: any. */
WEIR_API weir_series *weir_series_new(weir_series_fn *done, void *context);

/* Appends a task, also while the series runs.  weir_series_push_front puts it before all tasks that
 * are not yet started.
 *
 * Owner:   consumes the task.  On failure it is dismissed.
 * Result:  0; -ESTALE after the end of the series; -ECHILD in a forked child; -ENOMEM for a NULL
 *          task or series, or the error that the task was made with.  These last errors poison the
 *          series: its start reports the error, or its status has it if the series already runs.
 * Threads: any that owns, borrows or has a reference to the series.  Never blocks. */
WEIR_API int weir_series_push(weir_series *series, weir_task *task);
WEIR_API int weir_series_push_front(weir_series *series, weir_task *task);

/* Keeps the memory of a series, so that another thread may push, cancel or ask for the status, also
 * after its end.  Ref returns its argument.  Both accept NULL.
 *
 * Owner:   the caller drops each reference by one unref.
 * Threads: ref: any that owns, borrows or has a reference; unref: any. */
WEIR_API weir_series *weir_series_ref(weir_series *series);
WEIR_API void weir_series_unref(weir_series *series);

/* Starts a series.
 *
 * Owner:   consumes the series.  On failure the series and its tasks are dismissed.
 * Result:  0: its callback will run.  Otherwise no callback of it runs: -ENOMEM for NULL; the error
 *          that poisoned it; -ESHUTDOWN, -ECHILD and what weir_init reports, as weir_task_start.
 * Threads: any.  Never blocks. */
WEIR_API int weir_series_start(weir_series *series);

/* Starts a series and waits for its end.  When it returns, all callbacks and all free functions of
 * the series have run.
 *
 * Owner:   consumes the series, also on failure.
 * Result:  the status of the series.  If it was not started, an error of weir_series_start;
 *          -EDEADLK on a worker (the series is dismissed then).
 * Threads: any but workers. */
WEIR_API int weir_series_run(weir_series *series);

/* Dismisses a series that was not started, with its tasks.  The free functions run on the caller's
 * thread.  Accepts NULL.
 *
 * Owner:   consumes the series.
 * Threads: any. */
WEIR_API void weir_series_dismiss(weir_series *series);

/* Ends a series early.
 *
 * - The pending task ends with -ECANCELED, also inside a parallel.
 * - Tasks that are not started are dropped: their callbacks do not run, their free functions run on
 *   a worker.
 * - Then the callback of the series runs with the status -ECANCELED.
 *
 * A callback that has begun is not interrupted.  Before the start the cancel takes effect when the
 * series is started.  After the end, and for NULL, the call does nothing.
 *
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
WEIR_API void weir_series_cancel(weir_series *series);

/* Ends a series early with a status of its own.
 *
 * - The pending task ends with -ECANCELED, also inside a parallel, and so does all that it runs.
 * - Tasks that are not started are dropped, as by weir_series_cancel.
 * - Then the callback of the series runs with `status`.  A task that runs the series, such as a
 *   module, a retry, a race, a parallel or a graph, sees that status.
 *
 * Before the start the failure takes effect when the series is started.  If the series already ends
 * early, the first cause stays and the call changes nothing.
 *
 * Result:  0; -EINVAL for NULL, and for a status of 0 or more or below -32,767; -ESTALE after the
 *          end of the series; -ECHILD in a forked child.
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
WEIR_API int weir_series_fail(weir_series *series, int status);

/* The series ends at its first failure.  When the callback of a task has returned and the status
 * of that task is not 0, the series fails with that status, as by weir_series_fail.  A push that
 * failed counts as such a task, as soon as the running one has ended.  A status below -32,767
 * counts as -EOVERFLOW.
 *
 * The option is of this series alone.  A series within it that fails ends a task of it, and so the
 * failure travels up.  Accepts NULL.
 *
 * Threads: where the series is yours, and inside its callbacks. */
WEIR_API void weir_series_stop_on_failure(weir_series *series);

/* The status of the series: 0, or why it ends early.
 *
 * Result:  0; -ECANCELED, -ETIMEDOUT, -ESHUTDOWN, the status that it failed with, or the error that
 *          poisoned it; -EINVAL for NULL; -ECHILD in a forked child.
 * Threads: any that owns, borrows or has a reference. */
WEIR_API int weir_series_status(const weir_series *series);

/* Why a series ended, or ends. */
enum weir_series_cause {
        WEIR_CAUSE_NONE = 0,  /* nothing ends it early: it runs to its end, whatever its tasks report */
        WEIR_CAUSE_CANCELLED, /* the series, or one that contains it, was cancelled */
        WEIR_CAUSE_TIMED_OUT, /* the deadline of one of them came */
        WEIR_CAUSE_SHUT_DOWN, /* weir_shutdown has ended it */
        WEIR_CAUSE_POISONED,  /* a push failed: the series runs to its end, but its status is the error of the push */
        WEIR_CAUSE_FAILED,    /* weir_series_fail, or its first failure, has ended it; within it the cause is CANCELLED */
};

/* Where the status comes from.
 *
 * Result:  an enum weir_series_cause; -EINVAL for NULL; -ECHILD in a forked child.
 * Threads: any that owns, borrows or has a reference. */
WEIR_API int weir_series_cause(const weir_series *series);

/* -- by name -- */

/* Gives the series a name, by which any thread can find it.  A name has 1 to WEIR_NAME_MAX bytes,
 * none of them NUL, and is copied.  Any number of series may share a name.  The call replaces a
 * name that the series had; NULL removes it.  Series of one name are ordered by these calls.  The
 * series has the name until its last task has ended, so its own callback does not find it.
 *
 * Result:  0; -EINVAL for a NULL series or an empty name; -ENAMETOOLONG; -ENOMEM (it keeps its
 *          former name); -ESTALE after the end of the series; -ECHILD in a forked child.
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
WEIR_API int weir_series_set_name(weir_series *series, const char *name);

/* Cancels up to `max` series named `name`, oldest first; WEIR_ALL is no limit.  The callback of
 * each cancelled series runs exactly once, with -ECANCELED.  For a series that is not started yet,
 * this happens when it is started.
 *
 * A series is not counted if it already ends early, or if a series that contains it does.  Of
 * several cancels at once, one counts it.  A series that gets the name during the call is left
 * alone.
 *
 * Result:  how many were cancelled; 0 for NULL and for an unknown name.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_series_cancel_named(const char *name, size_t max);

/* How many series have the name.  Series that end early and have not ended yet are included.
 *
 * Threads: any. */
WEIR_API size_t weir_series_count(const char *name);

/* -- deadlines -- */

/* Sets a deadline.  If the series has not ended `from_now` after this call, it ends early with
 * -ETIMEDOUT, as weir_series_cancel ends it with -ECANCELED.  The time counts from this call, also
 * for a series that is not started.
 *
 * A series ends together with a series that contains it, so the earliest of all their deadlines
 * counts.  A second call replaces the deadline; WEIR_FOREVER removes it.  With 0 or less the series
 * ends at once; that cannot be undone.
 *
 * Result:  0; -EINVAL for NULL; -ENOMEM; -ESTALE after the end of the series; -ECHILD in a forked
 *          child.
 * Units:   nanoseconds.
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
WEIR_API int weir_series_set_deadline(weir_series *series, weir_nsec from_now);

/* Time until the earliest deadline of the series and of all series that contain it.  It helps to
 * decide what is still worth starting.  It looks at each of these series, so it costs more the
 * deeper the series is.  The limit of a weir_await_within (weir/fiber.h) is not among the deadlines.
 *
 * Result:  0 when that deadline is over; WEIR_FOREVER when there is none; -EINVAL for NULL; -ECHILD
 *          in a forked child.
 * Units:   nanoseconds.
 * Threads: any that owns, borrows or has a reference. */
WEIR_API weir_nsec weir_series_time_left(const weir_series *series);

/* The series that contains this one: that of the parallel, race, module, graph or other task that
 * runs it.  So a child can push into it, fail it or cancel it.
 *
 * Owner:   borrowed until the callback returns; weir_series_ref keeps it.
 * Result:  NULL for NULL, for a series that no task runs, and after the last task of the series.
 * Threads: inside the callbacks of the tasks of the series. */
WEIR_API weir_series *weir_series_parent(const weir_series *series);

/* The context that the callbacks of the series share; NULL for NULL. */
WEIR_API void *weir_series_context(const weir_series *series);

/* Sets the context, with a function (or NULL) that frees it after the end of the series.  A context
 * that was set before is freed at once on the caller's thread, unless it is the same pointer.
 *
 * Owner:   the series takes the context.  For a NULL series it is freed at once.
 * Threads: where the series is yours, in the handler that gets it from a server, and inside its
 *          callbacks. */
WEIR_API void weir_series_set_context(weir_series *series, void *context, weir_free_fn *fn);

WEIR_END

#endif
