/* weir/timer.h: timers, and their names.
 *
 * docs/contract.md holds the table of what each start, expiry, cancel and shutdown does when they meet. */
#ifndef WEIR_TIMER_H
#define WEIR_TIMER_H

#include <weir/task.h>

WEIR_BEGIN

/* No limit on how many timers a cancel may take. */
#define WEIR_ALL SIZE_MAX

/* The longest name of a timer, in bytes. */
#define WEIR_NAME_MAX 65535

/* A timer that ends `after` its start, never earlier.  0 or less: as soon as a worker comes to it; WEIR_FOREVER: only by
 * cancel or shutdown.  Timers of one poller end in exact order, equal ones in the order of their start.  (In the series of an HTTP exchange the
 * deadline is rounded up to a millisecond: weir/http_server.h.)
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.  The task's status: 0, -ECANCELED or -ESHUTDOWN.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_timer_new(weir_nsec after, weir_task_fn *done, void *context);

/* The same under a name, by which any thread can cancel it from now until its callback begins; also before its start.  Any number
 * of timers may share a name: bytes other than NUL, 1 to WEIR_NAME_MAX of them; they are copied.  A task made with a name that is
 * none reports -EINVAL (NULL, empty) or -ENAMETOOLONG when it is started or pushed. */
WEIR_API weir_task *weir_timer_new_named(const char *name, weir_nsec after, weir_task_fn *done, void *context);

/* Cancels up to `max` timers named `name`, oldest first; WEIR_ALL is no limit.
 *
 * Result:  how many were cancelled.  For each, the callback runs exactly once, on a worker, with -ECANCELED (one that was not yet
 *          started: once it is).  A timer whose callback has begun is not counted.  0 for NULL and for a name nobody bears.
 *          A timer made under the name during the call may be taken or left.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_cancel(const char *name, size_t max);

/* How many timers bear the name: made, not cancelled by it, and not yet freed (so a callback that runs counts itself).
 *
 * Threads: any. */
WEIR_API size_t weir_timer_count(const char *name);

WEIR_END

#endif
