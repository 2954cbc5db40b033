/* weir/waitgroup.h: a thread, or a fiber, waits until others have done their work.
 *
 * Add work before it can be done, call done where it has ended, and wait until all of it is done.
 * A group whose count has come to zero may be used again.
 *
 *     err = weir_task_start_waited(task, group);     adds 1, and is done when the task is over
 *     ...                                            the thread does other things
 *     err = weir_waitgroup_wait(group, WEIR_FOREVER);
 *
 * A fiber waits by weir_fiber_wait_done (weir/fiber.h). */
#ifndef WEIR_WAITGROUP_H
#define WEIR_WAITGROUP_H

#include <weir/series.h>

WEIR_BEGIN

/* A group.  The program frees it. */
typedef struct weir_waitgroup weir_waitgroup;

/* Makes a group with a count of zero.
 *
 * Owner:   the caller frees it by weir_waitgroup_free.
 * Result:  NULL when out of memory.  add, done and free ignore NULL; wait reports it as -ENOMEM.
 * Threads: any. */
WEIR_API weir_waitgroup *weir_waitgroup_new(void);

/* Frees a group.  A thread may do so as soon as its own wait has returned 0, even if other waits
 * that the same done ended have not returned yet.  While a thread or a fiber waits for work that is
 * not done, the call aborts with the reason.  Accepts NULL.
 *
 * Threads: any. */
WEIR_API void weir_waitgroup_free(weir_waitgroup *group);

/* Adds `n` to the count.  A count above 2^62 - 1 aborts with the reason.  Accepts NULL.
 *
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API void weir_waitgroup_add(weir_waitgroup *group, size_t n);

/* Takes one off the count.  At zero all waits end.  Everything before the call happens before
 * the return of a wait that it ends.  A count below zero aborts with the reason.  Accepts NULL.
 *
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API void weir_waitgroup_done(weir_waitgroup *group);

/* Waits until the count comes to zero; returns at once if it is zero.  The wait ends even if more
 * is added right after that.  With a limit of 0 or less the call only looks and never waits.
 * WEIR_FOREVER is no limit.
 *
 * On the virtual clock this is like a `_run`: time jumps from deadline to deadline meanwhile, and
 * the limit is one of the deadlines.  Threads of the program that do the work must hold the clock.
 * If a done comes at the instant of the limit, the deadline that was set first decides.  A shutdown
 * ends only a wait with a limit, as virtual time does not go on.  Other waits go on: the callbacks
 * that a shutdown ends may call done.
 *
 * Result:  0; -ETIMEDOUT; -ENOMEM for NULL; -ECHILD in a forked child; -EDEADLK on a worker, except
 *          for a mere look and between weir_blocking_begin and weir_blocking_end.  On the virtual
 *          clock: -ESHUTDOWN, with a limit; -EBUSY while another thread lets time pass; -EDEADLK on
 *          a thread that holds the clock.
 * Units:   nanoseconds from now, on the clock of weir_now.
 * Threads: any but workers; several may wait. */
WEIR_API int weir_waitgroup_wait(weir_waitgroup *group, weir_nsec limit);

/* Starts a task or a series that a thread will wait for later.  It counts as 1 in the group until it
 * is over: then all callbacks and all free functions of it have run, also those of what a callback
 * has pushed into the series of the task.  Only a function that its limit has left behind
 * (weir_go_new_timed) may still run; so may its free function.  A thread that waits at once uses weir_task_run or
 * weir_series_run.
 *
 * Owner:   consumes the task or series, also on failure.  The group must be there until the end.
 * Result:  0; otherwise an error of weir_task_start or weir_series_start, and the count is what it
 *          was; -ENOMEM for a NULL group.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API int weir_task_start_waited(weir_task *task, weir_waitgroup *group);
WEIR_API int weir_series_start_waited(weir_series *series, weir_waitgroup *group);

WEIR_END

#endif
