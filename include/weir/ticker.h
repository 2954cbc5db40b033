/* weir/ticker.h: timers that repeat.
 *
 * docs/time.md explains phase, missed ticks and ends by example. */
#ifndef WEIR_TICKER_H
#define WEIR_TICKER_H

#include <stdbool.h>

#include <weir/timer.h>

WEIR_BEGIN

/* What happens to ticks that become due while an earlier tick's callback still runs or waits for a
 * worker. */
enum weir_tick_policy {
        WEIR_TICK_SKIP = 0,  /* They are dropped and counted.  Later ticks keep their times. */
        WEIR_TICK_BURST = 1, /* They come one right after the other, WEIR_TICK_BURST_MOST at most.
                                Older ones are dropped and counted. */
        WEIR_TICK_DELAY = 2, /* There are none.  A tick is due one period after the callback before
                                it has returned. */
};

/* How many missed ticks WEIR_TICK_BURST makes up for. */
#define WEIR_TICK_BURST_MOST 64

/* Makes a ticker: a timer whose callback runs once for each tick, and one last time when the ticker
 * ends.  Its callbacks never overlap.
 *
 * The first tick is due one `period` after the start (see weir_ticker_set_first).  The following
 * ticks are due exactly one period apart, without drift.  Inside the callback of a tick
 * weir_task_status is -EINPROGRESS.  The last callback is no tick; its status says why the ticker
 * ended:
 *
 *      weir_ticker_stop, inside its callback                      0
 *      all ticks that were asked for (weir_ticker_set_limit)      0
 *      weir_timer_cancel and the like; a cancel of its series     -ECANCELED
 *      the deadline of its series                                 -ETIMEDOUT
 *      weir_shutdown                                              -ESHUTDOWN
 *
 * A cancel during a tick counts the ticker, and the last callback follows that tick.  In a series
 * the next task starts when the ticker has ended.
 *
 * weir_timer_reset: the next tick is due after `after`, and if that is greater than 0 it is also
 * the new period.  weir_timer_extend moves the next tick and all later ones.  Neither counts a
 * ticker whose last tick runs.  Names and ids are those of timers.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  A ticker with a period of 0 or
 *          less, an unknown policy, or an invalid name reports -EINVAL or -ENAMETOOLONG when it is
 *          started or pushed.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_ticker_new(weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context);
WEIR_API weir_task *weir_ticker_new_named(const char *name, weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn,
                                          void *context);

/* -- by the clock on the wall -- */

/* Makes a ticker that follows a schedule as in crontab(5): minute, hour, day of the month, month,
 * day of the week.  Examples: "30 4 * * mon-fri", "@hourly"; docs/time.md has the whole syntax.
 * `zone` names the time zone of the schedule: "Europe/Berlin", "UTC", or NULL for the local one.
 * The zone is read now; later changes of its tables are not seen.
 *
 * The ticker follows the wall clock when somebody sets it:
 *
 * - Set forward past ticks: one tick comes at once for all that were passed.
 * - Set back: ticks that have come do not come again, unless the clock is set back by three hours
 *   or more.
 *
 * Missed ticks are dropped and counted, up to 256 of them.  weir_ticker_scheduled and
 * weir_ticker_actual return instants of weir_wall_now.  weir_timer_reset and weir_timer_extend move
 * the next tick only.  Before the start extend changes and counts nothing, because the first tick is
 * not known yet.  A schedule that is never due, such as "0 0 30 feb *", waits until it is cancelled.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as for weir_ticker_new.  With an invalid schedule or zone the task reports the error of
 *          weir_ticker_check when it is started or pushed.
 * Threads: any.  Reads the file of the zone, so it may block. */
WEIR_API weir_task *weir_ticker_new_at(const char *cron, const char *zone, weir_task_fn *fn, void *context);
WEIR_API weir_task *weir_ticker_new_at_named(const char *name, const char *cron, const char *zone, weir_task_fn *fn,
                                             void *context);

/* Checks a schedule and a zone.  `position` and `expected` may be NULL.
 *
 * Result:  0; or an error:
 *          -EINVAL for an invalid schedule: *expected says in English what was expected, *position
 *            says where, in bytes from 0;
 *          -EINVAL for an impossible name of a zone: *expected is NULL;
 *          -ENOENT for an unknown zone; -EBADMSG or -EOPNOTSUPP for a file that is no zone file or
 *            counts leap seconds;
 *          -EPERM for a TZ that is a path, in a set-user-ID program; -ENAMETOOLONG; -ENOMEM; what
 *            open and read report.
 * Owner:   *expected belongs to the library and is valid for ever.
 * Threads: any; may block. */
WEIR_API int weir_ticker_check(const char *cron, const char *zone, size_t *position, const char **expected);

/* The first instant after `after` at which a schedule is due, for a program that keeps its due times
 * somewhere else, as weir/durable.h does.  The zone is read at each call.
 *
 * Result:  the instant, 0 or more; WEIR_FOREVER: never, as for "0 0 30 feb *".  -ERANGE: the instant
 *          is before 1970; or an error of weir_ticker_check.
 * Units:   nanoseconds since 1970-01-01 00:00:00 UTC, as weir_wall_now.
 * Threads: any; may block. */
WEIR_API weir_nsec weir_ticker_next(const char *cron, const char *zone, weir_nsec after);

/* -- before the start -- */

/* Makes the first tick due `after` the start, instead of one period.  With 0 or less it is due at
 * once.
 *
 * Result:  0; -EDOM for a task that is no ticker or has a schedule; -EINVAL for NULL and for a
 *          ticker that was started or pushed; -ECHILD in a forked child.
 * Threads: the thread that owns the task. */
WEIR_API int weir_ticker_set_first(weir_task *ticker, weir_nsec after);

/* Ends the ticker after `ticks` ticks; 0: no limit.  Dropped ticks do not count.
 *
 * Result, Threads: as for weir_ticker_set_first. */
WEIR_API int weir_ticker_set_limit(weir_task *ticker, uint64_t ticks);

/* -- the next tick alone -- */

/* Makes the next tick of all tickers named `name`, or of the ticker with that id, due `after` from
 * now.  The period and the ticks after the next one stay as they are: they are due at the times at
 * which they would have been due.  If the next tick is moved behind some of these, they are missed,
 * and the policy of the ticker says what happens to them.
 *
 * The call may come before the start, inside a tick, and while a tick waits for its worker.  A reset
 * above 0 is the new period as well; this call never changes the period.  For a ticker with a
 * schedule, which has no period, both do the same.
 *
 * Result:  how many tickers were changed.  Timers that are no tickers are left alone, and not
 *          counted.  Otherwise as for weir_timer_reset and weir_timer_reset_id.
 * Units:   nanoseconds.
 * Threads: any, also inside a callback.  Never blocks. */
WEIR_API size_t weir_ticker_move_next(const char *name, weir_nsec after);
WEIR_API size_t weir_ticker_move_next_id(weir_timer_id id, weir_nsec after);

/* -- inside its callback -- */

/* Whether this callback is that of a tick.  Otherwise it is the last callback, whose status says why
 * the ticker has ended.
 *
 * Result:  false also for a task that is no ticker, and for NULL.
 * Threads: inside its callback. */
WEIR_API bool weir_ticker_is_tick(const weir_task *ticker);

/* Makes this tick the last one.  When its callback has returned, the last callback runs with status
 * 0.
 *
 * Result:  0; -EDOM for a task that is no ticker; -EINVAL for NULL and outside a tick.
 * Threads: inside its callback. */
WEIR_API int weir_ticker_stop(weir_task *ticker);

/* When this tick was due, and when its callback began; the difference is its lateness.  The last
 * callback sees the values of the last tick.  0 before the first tick; -EDOM for a task that is no
 * ticker.
 *
 * Units:   nanoseconds on the clock of weir_now; with a schedule, on that of weir_wall_now.
 * Threads: inside its callback. */
WEIR_API weir_nsec weir_ticker_scheduled(const weir_task *ticker);
WEIR_API weir_nsec weir_ticker_actual(const weir_task *ticker);

/* weir_ticker_missed: how many ticks were dropped between the tick before and this one.
 * weir_ticker_count: how many ticks there were, this one included.  Both are 0 for a task that is
 * no ticker.
 *
 * Threads: inside its callback. */
WEIR_API uint64_t weir_ticker_missed(const weir_task *ticker);
WEIR_API uint64_t weir_ticker_count(const weir_task *ticker);

WEIR_END

#endif
