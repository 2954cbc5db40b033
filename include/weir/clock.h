/* weir/clock.h: the virtual clock.  On it, flows that take hours are tested in milliseconds
 * (docs/testing-your-flows.md).
 *
 * On WEIR_CLOCK_VIRTUAL time stands still, except in two cases.  It jumps to the next deadline by
 * itself while a thread waits in a `_run`, for a waitgroup or in the stop of a server, and all is
 * quiet.  And weir_clock_advance or weir_clock_run_until move it in steps.
 *
 * All is quiet when all of this holds:
 *
 * - nothing is ready or running on the worker,
 * - no descriptor is ready,
 * - no thread holds the clock,
 * - nothing is on its way in a TCP connection of the library whose other end is on this machine.
 *
 * A jump by itself also waits while that other end has bytes that it has not read.  It may never
 * read them, so the wait ends after one second of real time.  It is repeated only when the unread
 * bytes change. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <weir/time.h>

WEIR_BEGIN

/* What the wall clock shows when the virtual clock starts: 2000-01-01 00:00:00 UTC. */
#define WEIR_WALL_EPOCH WEIR_SEC(946684800)

/* Lets time pass: to `instant`, or by the duration `by` from now.  Everything that is due up to the
 * instant, and at it, runs in the order of (deadline, start). That includes what callbacks start on
 * the way.  The clock stands at each deadline while its callbacks run.  On return the clock stands
 * at the instant and all is quiet.  An advance by 0 only runs what is due now.
 *
 * Result:  0; or an error, and nothing has happened (except after -ESHUTDOWN):
 *          -EINVAL for an instant in the past, a negative duration, or one that leads to
 *            WEIR_FOREVER;
 *          -EBUSY while another thread lets time pass, or waits in a `_run`, for a waitgroup or in
 *            the stop of a server;
 *          -EDEADLK on a worker and on a thread that holds the clock;
 *          -ENOTSUP on the real clock, also when nothing was ever started;
 *          -ESHUTDOWN, also when the runtime ends meanwhile; -ECHILD in a forked child.
 * Units:   nanoseconds on the clock of weir_now.
 * Threads: any but workers.  Meanwhile a `_run` or a wait for a waitgroup on another thread is
 *          refused with -EBUSY. */
WEIR_API int weir_clock_advance(weir_nsec by);
WEIR_API int weir_clock_run_until(weir_nsec instant);

/* Holds the clock: time stands still until the release.  Use it while the program works for a flow
 * where the library does not see it, for example in another thread or a child process.  Holds are
 * counted.  Work that is due now runs all the same.  On the real clock both functions
 * do nothing.
 *
 *     weir_clock_hold();       time stands still
 *     compute_the_answer();    a thread of the program works
 *     weir_clock_release();    time may pass again
 *
 * A hold that was made in a callback may be released anywhere.  A `_run` between
 * weir_blocking_begin and weir_blocking_end in that callback waits for the release.  A hold of
 * another thread must be released by that thread.  Until then that thread cannot wait for time to
 * pass: `_run` and weir_clock_advance return -EDEADLK.  A hold belongs to its runtime: release it
 * before weir_shutdown.
 *
 * Result:  0; -ECHILD in a forked child.  A release without a hold aborts with the reason.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API int weir_clock_hold(void);
WEIR_API void weir_clock_release(void);

/* The wall clock: CLOCK_REALTIME.  On the virtual clock it is WEIR_WALL_EPOCH plus the time since
 * the start, unless it was set.
 *
 * Units:   nanoseconds since 1970-01-01 00:00:00 UTC.
 * Threads: any. */
WEIR_API weir_nsec weir_wall_now(void);

/* Sets the virtual wall clock, as somebody sets the clock of a machine.  The wall clock jumps; the
 * clock of weir_now does not.
 *
 * Result:  0; -EINVAL for a negative instant or WEIR_FOREVER; -ENOTSUP on the real clock; -ECHILD
 *          in a forked child.
 * Units:   nanoseconds since 1970-01-01 00:00:00 UTC.
 * Threads: any, also inside a callback. */
WEIR_API int weir_clock_set_wall(weir_nsec wall);

WEIR_END

#endif
