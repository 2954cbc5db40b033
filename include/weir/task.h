/* weir/task.h: what all tasks have in common.
 *
 * Ownership is in the verb.  `_new`: the task is yours.  `_start`, `_run`, `_push`, `_add`, `_dismiss`: consumed, even when
 * they fail.  A task handed to a callback is borrowed until the callback returns, and freed right after it. */
#ifndef WEIR_TASK_H
#define WEIR_TASK_H

#include <weir/time.h>

WEIR_BEGIN

typedef struct weir_task weir_task;
typedef struct weir_series weir_series;

/* A callback.  It runs exactly once, on a worker, never on the stack of a call into the library. */
typedef void weir_task_fn(weir_task *task, void *context);

/* Releases a context.  It must not block. */
typedef void weir_free_fn(void *context);

/* A task that ends at once, with status 0: a callback in a series.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts and reports as -ENOMEM.
 * Threads: any. */
WEIR_API weir_task *weir_empty_new(weir_task_fn *done, void *context);

/* Starts a task that is in no series.
 *
 * Owner:   consumes the task, also on failure.
 * Result:  0, and the callback will run; else it never will, and what was set by weir_task_on_free has run on the caller:
 *          -ENOMEM for NULL, what the making of the task found wrong (-EINVAL, -ENAMETOOLONG, -ENOMEM), -ESHUTDOWN once
 *          shutdown has begun, -ECHILD in a forked child, or what weir_init reports when it was the first to need it.
 * Threads: any.  Never blocks. */
WEIR_API int weir_task_start(weir_task *task);

/* Starts a task and waits until it and all that its callbacks pushed into its series have ended and been freed.
 *
 * Owner:   consumes the task, also on failure.
 * Result:  the status of the task, or what poisoned its series; or why it was not started, as weir_task_start; -EDEADLK on a
 *          worker (dismissed then).
 * Threads: any but workers. */
WEIR_API int weir_task_run(weir_task *task);

/* Frees a task that was not started; its callback does not run, what weir_task_on_free set does, on the caller.  Accepts NULL.
 *
 * Owner:   consumes the task.
 * Threads: any. */
WEIR_API void weir_task_dismiss(weir_task *task);

/* How the task ended: 0, a negative errno, or a library code below -10000.  0 before its end; -EINVAL for NULL.
 *
 * Threads: where the task is yours or borrowed. */
WEIR_API int weir_task_status(const weir_task *task);

/* The context given when the task was made; NULL for NULL. */
WEIR_API void *weir_task_context(const weir_task *task);

/* Has `fn` called exactly once with the task's context when the task is freed, whether its callback ran or not: on the caller
 * for a task dismissed or refused, else on a worker.  A later call replaces `fn`; NULL clears it.
 *
 * Threads: where the task is yours or borrowed. */
WEIR_API void weir_task_on_free(weir_task *task, weir_free_fn *fn);

/* The series a task is in.  A task started alone has none until this asks for it inside its callback: what is then pushed
 * runs after the callback.
 *
 * Owner:   borrowed until the callback returns; weir_series_ref keeps it longer.
 * Result:  NULL for a task that is neither in a series nor started, and when out of memory (a push into NULL reports it).
 * Threads: inside the task's callback, or where the task is yours. */
WEIR_API weir_series *weir_series_of(const weir_task *task);

WEIR_END

#endif
