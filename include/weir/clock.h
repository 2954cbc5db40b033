/* weir/clock.h: the virtual clock, on which flows of hours are tested in milliseconds (docs/testing-your-flows.md).
 *
 * On WEIR_CLOCK_VIRTUAL time stands still, but for two cases.  By itself, while a thread waits in a `_run`, for a waitgroup or in a
 * stop of a server and all is quiet, it jumps to the next deadline.  In steps it goes as far as weir_clock_advance or
 * weir_clock_run_until says.
 *
 * Quiet is: nothing is ready or running on the worker, no descriptor has anything to say, no thread holds the clock, and nothing is
 * on its way in a TCP connection of the library whose other end is on this machine.  A jump by itself also waits while the other
 * end has bytes that it has not read; as it may never do so, for a second of real time, and then again only when that
 * changes. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <weir/time.h>

WEIR_BEGIN

/* What the wall clock shows when the virtual clock starts: 2000-01-01 00:00:00 UTC. */
#define WEIR_WALL_EPOCH WEIR_SEC(946684800)

/* Lets time pass, with all that happens meanwhile: what is due up to the instant and at it, in the order of (deadline, start),
 * including what callbacks start on the way.  The clock stands at each deadline while its callbacks run.  When this returns it
 * stands at the instant, and all is quiet.  `by` is from now on; an advance by 0 only settles what is due now.
 *
 * Result:  0; -EINVAL for an instant that has passed, a negative duration, or one that leads to WEIR_FOREVER; -EBUSY while another
 *          thread does the same, or waits in a `_run`, for a waitgroup or in a stop of a server; -EDEADLK on a worker and on a
 *          thread that holds the clock; -ENOTSUP on the real clock, also when nothing was ever started; -ESHUTDOWN, also when the
 *          runtime ends meanwhile; -ECHILD in a forked child.  Nothing has happened then, but after an -ESHUTDOWN.
 * Threads: any but workers.  Meanwhile a `_run`, or a wait for a waitgroup, of another thread is refused with -EBUSY. */
WEIR_API int weir_clock_advance(weir_nsec by);
WEIR_API int weir_clock_run_until(weir_nsec instant);

/* Between these two time stands still, as the program is busy on behalf of a flow where the library does not see it: a thread that
 * thinks about what it has received, a child process.  Holds are counted.  What is due at the present instant runs all the same.
 * On the real clock both do nothing.
 *
 * A hold that was made in a callback may be released anywhere, so a `_run` inside weir_blocking_begin and _end there waits for
 * that.  One of another thread is its own to release, and until then it cannot wait for time to pass: `_run` and
 * weir_clock_advance return -EDEADLK.  A hold is one of the runtime that it was made in: release it before weir_shutdown.
 *
 * Result:  0; -ECHILD in a forked child.  A release without a hold aborts with the reason.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API int weir_clock_hold(void);
WEIR_API void weir_clock_release(void);

/* The wall clock: CLOCK_REALTIME, or on the virtual clock WEIR_WALL_EPOCH and the time that has passed since the start, unless it
 * was set.
 *
 * Units:   nanoseconds since 1970-01-01 00:00:00 UTC.
 * Threads: any. */
WEIR_API weir_nsec weir_wall_now(void);

/* Sets the virtual wall clock, as somebody sets the clock of a machine: it jumps, and the clock of weir_now does not.
 *
 * Result:  0; -EINVAL for a negative instant or WEIR_FOREVER; -ENOTSUP on the real clock; -ECHILD in a forked child.
 * Threads: any, also inside a callback. */
WEIR_API int weir_clock_set_wall(weir_nsec wall);

WEIR_END

#endif
