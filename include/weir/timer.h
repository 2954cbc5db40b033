/* weir/timer.h: timers, their names and their ids.
 *
 * docs/timers.md explains accuracy, order, cancel, reset and waiting by example.  docs/contract.md
 * has the table of what happens when start, expiry, reset, cancel and shutdown meet. */
#ifndef WEIR_TIMER_H
#define WEIR_TIMER_H

#include <weir/task.h>

WEIR_BEGIN

/* Cancels every timer: no limit on the number. */
#define WEIR_ALL SIZE_MAX

/* The longest name of a timer, in bytes. */
#define WEIR_NAME_MAX 65535

/* -- making -- */

/* Makes a timer.  It ends when `after` has passed since its start, never earlier.  With 0 or less
 * it ends as soon as a worker reaches it.  With WEIR_FOREVER it ends only by cancel or shutdown.
 *
 * Timers of one poller end in exact order of their deadlines.  Equal deadlines end in the order of
 * their start or last reset.  In the series of an HTTP exchange the deadline is rounded up to a
 * multiple of the coalescing window, 1 ms by default (weir_http_server_set_coalescing).
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: 0, -ECANCELED
 *          or -ESHUTDOWN; -ETIMEDOUT at the deadline of its series.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_timer_new(weir_nsec after, weir_task_fn *done, void *context);

/* Makes a timer with a name.  From now until its callback begins, also before its start, any thread
 * can cancel it by that name.  Any number of timers may share a name.  A name has 1 to
 * WEIR_NAME_MAX bytes, none of them NUL, and is copied.  A task that was made with an invalid name
 * reports -EINVAL (NULL or empty) or -ENAMETOOLONG when it is started or pushed. */
WEIR_API weir_task *weir_timer_new_named(const char *name, weir_nsec after, weir_task_fn *done, void *context);

/* Makes a timer that ends when the wall clock (CLOCK_REALTIME) shows `wall` or more.
 *
 * - The timer follows that clock.  If somebody sets the clock forward past the instant, the timer
 *   ends at once.  If somebody sets it back, the timer ends that much later.
 * - Time during which the machine was suspended has passed on this clock.
 * - An instant in the past, also a negative one: the timer ends as soon as a worker reaches it.
 *   WEIR_FOREVER: it ends only by cancel or shutdown.
 * - Timers that one change of the clock has passed end in the order of their instants.  Only for
 *   very many of them this order is not kept.
 * - A reset, also before the start, sets the instant to `after` from now on that clock.  An
 *   extension moves the instant.
 *
 * Owner, Result, Threads: as for weir_timer_new and weir_timer_new_named.
 * Units:   nanoseconds since 1970-01-01 00:00:00 UTC (weir_wall_now). */
WEIR_API weir_task *weir_timer_new_at(weir_nsec wall, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_timer_new_at_named(const char *name, weir_nsec wall, weir_task_fn *done, void *context);

/* As weir_timer_new and weir_timer_new_named, but on CLOCK_BOOTTIME.  Time during which the machine
 * was suspended counts.  A timer whose end came meanwhile ends when the machine wakes up; it does
 * not wake the machine.  Nobody can set this clock.  Resets and extensions count on it as well.  On
 * the virtual clock it is the same as the clock of weir_timer_new. */
WEIR_API weir_task *weir_timer_new_boottime(weir_nsec after, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_timer_new_boottime_named(const char *name, weir_nsec after, weir_task_fn *done, void *context);

/* As weir_timer_new and weir_timer_new_named, but the timer ends when the clock of weir_now shows
 * `instant`.  So timers that were computed from one weir_now end at exact distances from each other,
 * however long their making takes.
 *
 * - An instant in the past, also a negative one: the timer ends as soon as a worker reaches it.
 *   WEIR_FOREVER: it ends only by cancel or shutdown.
 * - Before the start a reset sets the instant to `after` from now, and an extension moves it.
 *
 * Units:   nanoseconds on the clock of weir_now. */
WEIR_API weir_task *weir_timer_new_until(weir_nsec instant, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_timer_new_until_named(const char *name, weir_nsec instant, weir_task_fn *done, void *context);

/* Lets a timer end up to `slack` later than its deadline, so that it ends together with other
 * timers that have slack.  The deadline is rounded up to a multiple of a power of two in
 * nanoseconds: the greatest one that is not longer than the slack.  For example, a thousand timers
 * with a slack of one second wake a thread about twice a second.
 *
 * 0 means exactly at the deadline.  The default is weir_config.timer_slack.  The slack stays after
 * a reset.  It also applies to each tick of a ticker, whose phase stays exact.
 *
 * Result:  0; -EDOM for a task that is no timer; -EINVAL for NULL, a negative slack, or a timer
 *          that was started or pushed; -ECHILD in a forked child.
 * Units:   nanoseconds.
 * Threads: the thread that owns the task. */
WEIR_API int weir_timer_set_slack(weir_task *timer, weir_nsec slack);

/* -- by name -- */

/* Cancels up to `max` timers named `name`, oldest first; WEIR_ALL is no limit.  The callback of
 * each cancelled timer runs exactly once, on a worker, with -ECANCELED.  For a timer that is not
 * started yet, this happens when it is started.
 *
 * A timer whose callback has begun is not cancelled and not counted.  A timer that is made under
 * the name during the call may be cancelled or not.
 *
 * Result:  how many were cancelled; 0 for NULL and for an unknown name.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_cancel(const char *name, size_t max);

/* Cancels like weir_timer_cancel, then waits.  It returns when the callbacks and free functions of
 * these timers of that name have returned:
 *
 * - the timers that this call has cancelled,
 * - the timers that other calls had cancelled before,
 * - the timers whose callback had begun.
 *
 * Their contexts can be freed then.  With a `max` of 0 the call only waits.  A timer that was
 * cancelled but not started is counted, but not waited for.  Timers that are cancelled, or whose
 * callback begins, during the call may be waited for or not.
 *
 * Result:  how many were cancelled; or an error, and nothing was cancelled: -EDEADLK on a worker,
 *          which might wait for itself; -ECHILD in a forked child.
 * Threads: any but workers.  Do not hold a lock that one of those callbacks takes. */
WEIR_API int64_t weir_timer_cancel_wait(const char *name, size_t max);

/* Cancels up to `max` timers whose names begin with `prefix`, each as weir_timer_cancel does.
 * Timers of one name are cancelled oldest first; the names come in no particular order.  "" is a
 * prefix of all names.  The call is not atomic: a timer that is made meanwhile may be cancelled or
 * not.
 *
 * Result:  how many were cancelled; 0 for NULL.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_cancel_prefix(const char *prefix, size_t max);

/* Gives all timers named `name` a new end, `after` from now.  It applies to pending timers and to
 * expired timers whose callback has not begun.  Timers that are not started get the duration
 * `after` instead.  A timer is not made anew: it keeps its place in the order of its name, and its
 * callback still runs once.
 *
 * A timer is left alone and not counted if its callback has begun, if it was cancelled, or if its
 * series or a shutdown ends it.  A timer that is made under the name during the call may be
 * counted.
 *
 * Result:  how many timers have the new end; 0 for NULL and for an unknown name.
 * Units:   nanoseconds.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_reset(const char *name, weir_nsec after);

/* Moves the end of all timers named `name` by `by`: later, or earlier if it is negative.  It counts
 * from each timer's present deadline, or from its duration if it is not started.  WEIR_FOREVER
 * stays.  A sum that is too large becomes WEIR_FOREVER. With a sum that is too small the timer ends
 * at once.
 *
 * Result:  as for weir_timer_reset.  A ticker with a schedule that is not started is left alone and
 *          not counted.
 * Units:   nanoseconds.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_extend(const char *name, weir_nsec by);

/* A function that weir_timer_with calls with the context of a timer. */
typedef void weir_timer_with_fn(void *context, void *argument);

/* Calls `fn` with the context of the oldest timer of that name which is pending.  While `fn` runs,
 * the callback of the timer does not begin.  So neither the callback nor the free function can free
 * the context meanwhile.
 *
 * - Pending means: started, its time has not come or was reset since, and nothing has ended it.
 * - `fn` may call every function that its thread may call.  A cancel or reset of the timer takes
 *   effect as always, and a cancelled timer calls back after `fn` has returned.
 * - A timer whose time comes meanwhile ends after `fn`.  On the virtual clock time stands.
 * - Several threads may have the context of one timer at once.  The program locks what they change.
 * - `fn` must return soon: it must not wait for the end of this timer, nor for a shutdown.
 *
 * Result:  1: `fn` was called; 0: no timer of that name is pending, also for NULL; -EINVAL for a
 *          NULL `fn`; -ECHILD in a forked child.
 * Threads: any, also inside a callback.  `fn` runs on the caller's thread, without any lock. */
WEIR_API int weir_timer_with(const char *name, weir_timer_with_fn *fn, void *argument);

/* How many timers have the name.  A timer counts from its making until it is freed, or until it is
 * cancelled by name, prefix or id.  A callback that asks is therefore counted itself.
 *
 * Threads: any. */
WEIR_API size_t weir_timer_count(const char *name);

/* -- listing -- */

/* How far a timer has come. */
enum weir_timer_state {
        WEIR_TIMER_NEW = 0, /* not started */
        WEIR_TIMER_PENDING, /* started; it has not expired and was not cancelled */
        WEIR_TIMER_READY,   /* expired or ended; its callback has not begun */
        WEIR_TIMER_RUNNING, /* its callback has begun */
};

/* One timer, as weir_timer_list describes it. */
struct weir_timer_info {
        const char *name; /* valid until the visitor returns */
        weir_nsec since;  /* When it became pending: its start or its last reset; 0: not started.
                             On the clock of weir_now, exact to some microseconds.  During a
                             burst of additions or resets it may be ahead by up to 32 ns for
                             each of them */
        weir_nsec due_in; /* Time until its deadline, negative after it; WEIR_FOREVER: none.
                             Before its start: its duration, or the time until its instant on
                             the wall clock */
        enum weir_timer_state state; /* at the moment at which it was looked at */
};

/* A visitor of weir_timer_list.  Returns 0 to go on, anything else to stop. */
typedef int weir_timer_visit_fn(const struct weir_timer_info *timer, void *context);

/* Shows all timers whose names begin with `prefix` and that weir_timer_count counts; "" shows all.
 * Timers of one name are shown oldest first; the names come in no particular order.
 *
 * This is no snapshot.  A timer that is made or ends during the call may be shown or not.  A timer
 * that is there all the time is shown once, in a state that it had during the call.  The visitor
 * runs on the caller's stack without any lock and may call every function.
 *
 * Result:  how many were shown; or an error, and none was shown: -EINVAL for a NULL prefix or
 *          visitor, -ENOMEM, -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int64_t weir_timer_list(const char *prefix, weir_timer_visit_fn *visit, void *context);

/* -- by id -- */

/* Identifies one timer.  No id is used twice, also when a later timer lies in the same memory.  0
 * is no timer.  Ids can be copied, compared and kept freely. */
typedef uint64_t weir_timer_id;

/* The id of a timer.  The first call assigns it and must come before the timer is started, pushed
 * or added.  The callback of an expired timer can still ask for the id.  If the runtime is shut
 * down before the timer is started, its id may end there.
 *
 * Result:  the id; 0 for NULL, a task that is no timer, a timer that was started or cancelled
 *          without an id, when out of memory, or when the library cannot be started.  Every call
 *          accepts 0 and does nothing.
 * Threads: the thread that owns the task. */
WEIR_API weir_timer_id weir_timer_id_of(weir_task *timer);

/* As weir_timer_cancel, weir_timer_reset and weir_timer_extend, for the one timer with that id, with
 * or without a name.
 *
 * Result:  1; 0 when the timer is gone, was cancelled, or its callback has begun; 0 for 0 and for
 *          any number that is no id.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_timer_cancel_id(weir_timer_id id);
WEIR_API size_t weir_timer_reset_id(weir_timer_id id, weir_nsec after);
WEIR_API size_t weir_timer_extend_id(weir_timer_id id, weir_nsec by);

/* When the timer with that id is due.  The instant may have passed, if its callback has not begun.
 *
 * Result:  the instant, 0 or more; WEIR_FOREVER: never.  -EAGAIN: it is not known yet, for the timer
 *          is not started, or is a ticker whose tick runs.  -ENOENT: the timer is gone, something
 *          has ended it, or its callback has begun; also for any number that is no id.  -ECHILD in a
 *          forked child.
 * Units:   nanoseconds on the clock of weir_now.
 * Threads: any. */
WEIR_API weir_nsec weir_timer_due_id(weir_timer_id id);

/* Cancels like weir_timer_cancel_id, then waits.  It returns when the callback and the free function
 * of the timer have returned, whoever has cancelled it, and also if its callback had begun.  Its
 * context can be freed then.  A timer that is not started is cancelled, but not waited for.
 *
 * Result:  1: this call has cancelled it; 0 otherwise; or an error, and nothing was cancelled:
 *          -EDEADLK on a worker, which might wait for itself; -ECHILD in a forked child.
 * Threads: any but workers.  Do not hold a lock that the callback takes. */
WEIR_API int weir_timer_cancel_wait_id(weir_timer_id id);

/* -- lateness -- */

/* Inside the callback of an expired timer: how long after its deadline the callback began.
 * weir/stats.h has the lateness of all timers together.
 *
 * Result:  0 or more, as no timer is early; -ENODATA for a timer that did not expire (it was
 *          cancelled or shut down) or whose callback has not begun; -EDOM for another kind of task;
 *          -EINVAL for NULL.
 * Units:   nanoseconds on the clock of weir_now.
 * Threads: the thread of the callback. */
WEIR_API weir_nsec weir_timer_lateness(const weir_task *timer);

WEIR_END

#endif
