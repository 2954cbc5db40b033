/* weir/ticker.h: timers that come again and again.
 *
 * docs/time.md explains phase, missed ticks and ends by example. */
#ifndef WEIR_TICKER_H
#define WEIR_TICKER_H

#include <weir/timer.h>

WEIR_BEGIN

/* What becomes of ticks that are due while the callback of an earlier one runs still, or waits for a worker. */
enum weir_tick_policy {
        WEIR_TICK_SKIP = 0,  /* they are dropped and counted; those after them come when they always would have: the phase stays */
        WEIR_TICK_BURST = 1, /* they come one right after the other, at most WEIR_TICK_BURST_MOST of them; those before are dropped
                                and counted */
        WEIR_TICK_DELAY = 2, /* there are none: a tick is due a period after the callback before it has returned */
};

#define WEIR_TICK_BURST_MOST 64

/* A ticker: a timer whose callback runs once for each tick, never twice at a time, and a last time when it ends.
 *
 * The first tick is due `period` after the start (weir_ticker_set_first), the others a period apart, exactly, for ever: there is
 * no drift.  Inside the callback of a tick weir_task_status says -EINPROGRESS.  It ends by
 *
 *      weir_ticker_stop, inside its callback                  0
 *      the number of ticks asked for (weir_ticker_set_limit)  0
 *      weir_timer_cancel and the like; its series' cancel     -ECANCELED
 *      the deadline of its series                             -ETIMEDOUT
 *      weir_shutdown                                          -ESHUTDOWN
 *
 * and the last callback, which is no tick, sees that status.  A cancel during a tick counts it: the last callback follows.  In a
 * series a ticker takes its turn until its end.
 *
 * weir_timer_reset makes `after` the period, if it is greater than 0, and the next tick due then; weir_timer_extend moves the next
 * tick and those behind it; neither counts a ticker in the middle of its last tick.  Names and ids are those of timers.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.  A ticker made with a period of 0 or less, an unknown policy, or
 *          a name that is none reports -EINVAL or -ENAMETOOLONG when it is started or pushed.
 * Units:   nanoseconds.
 * Threads: any. */
WEIR_API weir_task *weir_ticker_new(weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context);
WEIR_API weir_task *weir_ticker_new_named(const char *name, weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn,
                                          void *context);

/* -- by the clock on the wall -- */

/* A ticker that follows a schedule, as crontab(5) has it: minute, hour, day of the month, month, day of the week, such as
 * "30 4 * * mon-fri" or "@hourly"; docs/time.md has all of it.  `zone` is where that clock hangs: "Europe/Berlin", "UTC", or NULL
 * for the local one.  It is read now: later changes of the zone's tables are not seen.
 *
 * It follows the clock when that is set: forward over a tick, which then comes at once, one for all that were passed; back, and
 * what has been does not come again, unless it is put back by three hours or more.  Ticks that were missed are dropped and
 * counted, up to 256 of them.  weir_ticker_scheduled and _actual tell instants of weir_wall_now.  weir_timer_reset and
 * weir_timer_extend move the next tick only, the latter from the start on.  A schedule that is never due, such as "0 0 30 feb *",
 * waits for its cancel.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  as of weir_ticker_new.  One whose schedule or zone is none reports what weir_ticker_check does when it is started or
 *          pushed.
 * Threads: any; reads the file of the zone, so it may block. */
WEIR_API weir_task *weir_ticker_new_at(const char *cron, const char *zone, weir_task_fn *fn, void *context);
WEIR_API weir_task *weir_ticker_new_at_named(const char *name, const char *cron, const char *zone, weir_task_fn *fn, void *context);

/* What is wrong with a schedule or a zone.
 *
 * Result:  0; -EINVAL for a schedule that is none (then *expected says what was expected, in English, and *position where, in
 *          bytes from 0) and for what cannot be the name of a zone (*expected is NULL then); -ENOENT for a zone that is not
 *          there; -EBADMSG or -EOPNOTSUPP for a file that is none of a zone, or counts leap seconds; -ENOMEM; what open and read
 *          report.  `position` and `expected` may be NULL.
 * Owner:   the library, of *expected; valid for ever.
 * Threads: any; may block. */
WEIR_API int weir_ticker_check(const char *cron, const char *zone, size_t *position, const char **expected);

/* -- before the start -- */

/* The first tick is due `after` the start instead of a period; 0 or less: at once.
 *
 * Result:  0; -EDOM for what is no ticker or has a schedule, -EINVAL for NULL and for one that was started or pushed, -ECHILD in a
 *          forked child.
 * Threads: the task's owner's. */
WEIR_API int weir_ticker_set_first(weir_task *ticker, weir_nsec after);

/* It ends after so many ticks; 0: never by itself.  Those that were dropped do not count.
 *
 * Result, Threads: as above. */
WEIR_API int weir_ticker_set_limit(weir_task *ticker, uint64_t ticks);

/* -- inside its callback -- */

/* Has this tick be the last one: when its callback has returned, the last callback runs, with status 0.
 *
 * Result:  0; -EDOM for what is no ticker, -EINVAL for NULL and outside a tick.
 * Threads: inside its callback. */
WEIR_API int weir_ticker_stop(weir_task *ticker);

/* Of the tick whose callback runs, or in the last callback of the last one: when it was due, and when its callback began, on the
 * clock of weir_now; the difference is how late it was.  0 before the first tick; -EDOM for what is no ticker.
 *
 * Threads: inside its callback. */
WEIR_API weir_nsec weir_ticker_scheduled(const weir_task *ticker);
WEIR_API weir_nsec weir_ticker_actual(const weir_task *ticker);

/* How many ticks were dropped between the one before and this; how many there were, this one included.  0 for what is no ticker.
 *
 * Threads: inside its callback. */
WEIR_API uint64_t weir_ticker_missed(const weir_task *ticker);
WEIR_API uint64_t weir_ticker_count(const weir_task *ticker);

WEIR_END

#endif
