/* weir/task.h: what all tasks have in common.
 *
 * The verb of a function says who owns the task afterwards.  After `_new` the task is yours.
 * `_start`, `_run`, `_push`, `_add` and `_dismiss` consume it, even when they fail.  A task that is
 * passed to a callback is borrowed until the callback returns, and is freed right after it.
 *
 *     weir_task *task = weir_timer_new(WEIR_SEC(1), on_end, NULL);   your task
 *     int err = weir_task_start(task);                               consumed: do not touch it again
 *
 * A `_new` that makes a task or a series returns NULL only when out of memory.  A task that was made
 * with a wrong argument is there, and its start, run or push reports the error.  Objects that tasks
 * wait at, such as channels, can be NULL for other reasons, and errno tells which.  The start of a
 * task for a NULL object reports -ENOMEM, whatever that reason was. */
#ifndef WEIR_TASK_H
#define WEIR_TASK_H

#include <weir/time.h>

WEIR_BEGIN

/* A task: something that ends later, and then calls back.  A series: tasks that run one after the
 * other (weir/series.h). */
typedef struct weir_task weir_task;
typedef struct weir_series weir_series;

/* A callback.  It runs exactly once, on a worker, and never on the stack of a call into the
 * library. */
typedef void weir_task_fn(weir_task *task, void *context);

/* Frees a context.  It must not block. */
typedef void weir_free_fn(void *context);

/* Makes a task that ends at once with status 0.  It serves as a plain callback in a series.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory.  Every consumer accepts NULL and reports it as -ENOMEM.
 * Threads: any. */
WEIR_API weir_task *weir_empty_new(weir_task_fn *done, void *context);

/* Starts a task that is in no series.
 *
 * Owner:   consumes the task, also on failure.
 * Result:  0: the callback will run.  Otherwise it never runs, and the function of
 *          weir_task_on_free has run on the caller's thread:
 *          -ENOMEM for NULL; -EINVAL, -ENAMETOOLONG or -ENOMEM when the task was made wrongly;
 *          -ESHUTDOWN once a shutdown has begun; -ECHILD in a forked child;
 *          what weir_init reports, when this call was the first one to need the runtime.
 * Threads: any.  Never blocks. */
WEIR_API int weir_task_start(weir_task *task);

/* Starts a task and waits for its end.  When it returns, the task and everything that its callbacks
 * pushed into its series have ended and were freed.
 *
 * Owner:   consumes the task, also on failure.
 * Result:  the status of the task, or the error that poisoned its series.  If the task was not
 *          started, an error of weir_task_start; -EDEADLK on a worker (the task is dismissed then).
 * Threads: any but workers. */
WEIR_API int weir_task_run(weir_task *task);

/* Frees a task that was not started.  Its callback does not run.  The function of weir_task_on_free
 * runs on the caller's thread.  Accepts NULL.
 *
 * Owner:   consumes the task.
 * Threads: any. */
WEIR_API void weir_task_dismiss(weir_task *task);

/* How the task ended.
 *
 * Result:  0, a negative errno, or a code of the library below -10000; 0 also before its end;
 *          -EINVAL for NULL.
 * Threads: where the task is yours or borrowed. */
WEIR_API int weir_task_status(const weir_task *task);

/* The context that was given when the task was made; NULL for NULL. */
WEIR_API void *weir_task_context(const weir_task *task);

/* Registers `fn`. It is called exactly once with the task's context when the task is freed, whether
 * its callback ran or not.  It runs on the caller's thread if the task is dismissed or refused,
 * otherwise on a worker.  A later call replaces `fn`; NULL removes it.
 *
 * Threads: where the task is yours or borrowed. */
WEIR_API void weir_task_on_free(weir_task *task, weir_free_fn *fn);

/* Sets the context, with a function (or NULL) that frees it when the task is freed.  A context that
 * the task had before is freed by its own function at once on the caller's thread, unless it is the
 * same pointer.  So the program frees its context in one place, whatever happens to the task:
 *
 *     weir_task *timer = weir_timer_new(WEIR_SEC(60), on_end, NULL);
 *     weir_task_set_context(timer, session, free);     timer may be NULL: session is freed then
 *     int err = weir_task_start(timer);                frees session, too, when it fails
 *
 * Owner:   the task takes the context.  For a NULL task it is freed at once.
 * Threads: where the task is yours or borrowed.  The callback of a function that its limit has left
 *          behind (weir_go_new_timed) must not change the context, which the function still uses. */
WEIR_API void weir_task_set_context(weir_task *task, void *context, weir_free_fn *fn);

/* The series that a task is in.  A task that was started alone has no series until its callback
 * calls this function.  Tasks that are then pushed into that series run after the callback.
 *
 * Owner:   borrowed until the callback returns; weir_series_ref keeps it longer.
 * Result:  NULL for a task that is neither in a series nor started, and when out of memory.  A push
 *          into NULL reports that.
 * Threads: inside the task's callback, or where the task is yours. */
WEIR_API weir_series *weir_series_of(const weir_task *task);

WEIR_END

#endif
