/* weir/timer.h: timers, their names and their ids.
 *
 * docs/timers.md explains accuracy, order, cancel, reset and waiting by example; docs/contract.md holds the table of what each
 * start, expiry, reset, cancel and shutdown does when they meet. */
#ifndef WEIR_TIMER_H
#define WEIR_TIMER_H

#include <weir/task.h>

WEIR_BEGIN

/* No limit on how many timers a cancel may take. */
#define WEIR_ALL SIZE_MAX

/* The longest name of a timer, in bytes. */
#define WEIR_NAME_MAX 65535

/* -- making -- */

/* A timer that ends `after` its start, never earlier.  0 or less: as soon as a worker comes to it; WEIR_FOREVER: only by
 * cancel or shutdown.  Timers of one poller end in exact order, equal ones in the order of their start or last reset. (In the
 * series of an HTTP exchange the deadline is rounded up to a millisecond: weir/http_server.h.)
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.  The task's status: 0, -ECANCELED or -ESHUTDOWN;
 *          -ETIMEDOUT at the deadline of its series.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_timer_new(weir_nsec after, weir_task_fn *done, void *context);

/* The same under a name, by which any thread can cancel it from now until its callback begins; also before its start.  Any number
 * of timers may share a name: bytes other than NUL, 1 to WEIR_NAME_MAX of them; they are copied.  A task made with a name that is
 * none reports -EINVAL (NULL, empty) or -ENAMETOOLONG when it is started or pushed. */
WEIR_API weir_task *weir_timer_new_named(const char *name, weir_nsec after, weir_task_fn *done, void *context);

/* A timer that ends when the wall clock, CLOCK_REALTIME, shows `wall` or more.  It follows that clock: when somebody puts it
 * forward past the instant the timer ends at once, and when it is put back the timer ends that much later.  Time for which the
 * machine was suspended has passed on this clock.  An instant that has passed, also a negative one: as soon as a worker comes to
 * it; WEIR_FOREVER: only by cancel or shutdown.  Those that one jump has passed end in the order of their instants, but for great
 * numbers of them.
 *
 * A reset has it end when that clock shows `after` more than now, also before its start; an extension moves the instant.
 *
 * Owner, Result, Threads: as of weir_timer_new.
 * Units:   nanoseconds since 1970-01-01 00:00:00 UTC (weir_wall_now). */
WEIR_API weir_task *weir_timer_new_at(weir_nsec wall, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_timer_new_at_named(const char *name, weir_nsec wall, weir_task_fn *done, void *context);

/* As weir_timer_new and weir_timer_new_named, on CLOCK_BOOTTIME: time for which the machine was suspended counts, and a timer
 * whose end came meanwhile ends when it wakes.  (It is not woken for that.)  Nobody can set this clock.  Resets and extensions
 * count on it as well; on the virtual clock it is the same as that of weir_timer_new. */
WEIR_API weir_task *weir_timer_new_boottime(weir_nsec after, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_timer_new_boottime_named(const char *name, weir_nsec after, weir_task_fn *done, void *context);

/* Lets a timer end up to `slack` later than its deadline, so that it ends together with others that have slack: its deadline is
 * rounded up to a multiple of the greatest power of two nanoseconds that is not longer than the slack.  A thousand timers with a
 * slack of a second wake a thread about twice a second.  0: exactly.  The default is weir_config.timer_slack.  It holds after a
 * reset as well, and for each tick of a ticker, whose phase stays exact.
 *
 * Result:  0; -EDOM for what is no timer; -EINVAL for NULL, a negative slack, and a timer that was started or pushed; -ECHILD in a
 *          forked child.
 * Units:   nanoseconds.
 * Threads: the task's owner's. */
WEIR_API int weir_timer_set_slack(weir_task *timer, weir_nsec slack);

/* -- by name -- */

/* Cancels up to `max` timers named `name`, oldest first; WEIR_ALL is no limit.
 *
 * Result:  how many were cancelled.  For each, the callback runs exactly once, on a worker, with -ECANCELED (one that was not yet
 *          started: once it is).  A timer whose callback has begun is not counted.  0 for NULL and for a name nobody bears.
 *          A timer made under the name during the call may be taken or left.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_cancel(const char *name, size_t max);

/* The same, and returns when nothing of that name is on its way to an end any more: the callbacks and free functions of the
 * timers that this call has cancelled, of those that others had cancelled before, and of those whose callback had begun have all
 * returned.  So what their context points to can be freed.  With a `max` of 0 it only waits.
 *
 * A timer that was cancelled but is not started yet is counted, not waited for.  Timers that are cancelled, or begin their
 * callback, during the call may be waited for or not.
 *
 * Result:  how many were cancelled; -EDEADLK on a worker, where it might wait for itself, and -ECHILD in a forked child: nothing
 *          was cancelled then.
 * Threads: any but workers.  Must not be called with a lock held that one of those callbacks takes. */
WEIR_API int64_t weir_timer_cancel_wait(const char *name, size_t max);

/* Cancels up to `max` timers whose names begin with `prefix`, each as weir_timer_cancel does; the oldest of a name first, the
 * names in no particular order.  "" is the beginning of all names.  Not atomic: a timer made during the call may be taken or
 * left.
 *
 * Result:  how many were cancelled; 0 for NULL.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_cancel_prefix(const char *prefix, size_t max);

/* Has all timers named `name` end `after` from now, whatever they were to do before: those that are pending, and those that have
 * expired but whose callback has not begun.  Those not yet started are given the duration `after` instead.  A timer is not made
 * anew: it keeps its place among the others of its name, and its callback still runs once.
 *
 * Result:  how many will end at the new time.  A timer whose callback has begun, that was cancelled, or that ends by its series
 *          or by shutdown is left alone and not counted; a timer made under the name during the call may be. 0 for NULL and for
 *          a name nobody bears.
 * Units:   nanoseconds.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_reset(const char *name, weir_nsec after);

/* The same, relative to each one's present deadline, or to its duration when it is not started: `by` later, or earlier when it is
 * negative.  WEIR_FOREVER stays; a sum that is too large becomes WEIR_FOREVER, one that is too small is at once. */
WEIR_API size_t weir_timer_extend(const char *name, weir_nsec by);

/* How many timers bear the name: made, not cancelled by name, prefix or id, and not yet freed (so a callback that runs counts
 * itself).
 *
 * Threads: any. */
WEIR_API size_t weir_timer_count(const char *name);

/* -- listing -- */

enum weir_timer_state {
        WEIR_TIMER_NEW = 0, /* not started */
        WEIR_TIMER_PENDING,
        WEIR_TIMER_READY,   /* expired or ended, its callback not begun */
        WEIR_TIMER_RUNNING, /* its callback has begun */
};

/* What weir_timer_list tells of a timer. */
struct weir_timer_info {
        const char *name;     /* until the visitor returns */
        weir_nsec since;      /* when it became pending, its start or its last reset (or what a jump of the clock that it
                                 follows has come to), on the clock of weir_now: exact to some
                                 microseconds; behind a burst of additions or resets, up to 32 ns ahead for each of them.
                                 0: not started */
        weir_nsec due_in;     /* to its deadline, negative behind it; before its start its duration, or to the instant on the
                                 wall; WEIR_FOREVER: none */
        enum weir_timer_state state;
};

/* Returns 0 to go on, anything else to stop. */
typedef int weir_timer_visit_fn(const struct weir_timer_info *timer, void *context);

/* Shows all timers that weir_timer_count counts and whose names begin with `prefix` ("" for all): the oldest of a name first, the
 * names in no particular order.  Not a snapshot: what is made or ends during the call may be shown or not, what is there all the
 * time is shown once, in a state that it had during the call.  The visitor runs on the caller's stack with no lock held and may
 * call anything.
 *
 * Result:  how many were shown; -EINVAL for a NULL prefix or visitor, -ENOMEM, -ECHILD in a forked child: none
 *          was shown then.
 * Threads: any. */
WEIR_API int64_t weir_timer_list(const char *prefix, weir_timer_visit_fn *visit, void *context);

/* -- by id -- */

/* Tells one timer from all others, also from those that come to lie in the same memory when it is gone: no id is ever used
 * twice.  0 is none.  Copy, compare and keep them freely. */
typedef uint64_t weir_timer_id;

/* The id of a timer.  It is given out at the first call, which must come before the timer is started (or pushed, added, ...).
 * Inside the callback of one that has expired it is told still.  The id of a timer that outlives a shutdown without being
 * started may end there.
 *
 * Result:  0 for NULL, for what is no timer, for one that has none and is started, or was cancelled; when out of memory, or when
 *          the library cannot be started.  Every call accepts a 0 and does nothing.
 * Threads: the task's owner's. */
WEIR_API weir_timer_id weir_timer_id_of(weir_task *timer);

/* As weir_timer_cancel and weir_timer_reset, for the timer with that id, named or not.
 *
 * Result:  1; 0 when the timer is gone, was cancelled, its callback has begun, and for 0 and any other number that is no id.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_cancel_id(weir_timer_id id);
WEIR_API size_t weir_timer_reset_id(weir_timer_id id, weir_nsec after);

/* -- lateness -- */

/* Inside the callback of a timer that has expired: how long after its deadline the callback began.  weir/stats.h tells it of all
 * timers together.
 *
 * Result:  0 or more, for no timer is early; or a negative errno: -ENODATA for a timer that did not expire (it was cancelled or
 *          shut down), or whose callback has not begun; -EDOM for a task of another kind; -EINVAL for NULL.
 * Units:   nanoseconds on the clock of weir_now.
 * Threads: the callback's. */
WEIR_API weir_nsec weir_timer_lateness(const weir_task *timer);

WEIR_END

#endif
