/* kernel/calendar/cron.h: schedules by the wall clock, as in crontab(5).
 *
 * Pure functions, for any thread.
 *
 * A schedule has five fields, between spaces or tabs: minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or
 * jan-dec) and day of the week (0-7 or sun-sat; 0 and 7 are Sunday).  A field is a list, with commas, of numbers, of ranges
 * `first-last`, and of `*`, which is the whole range.  A range and `*` may have a step behind a slash: `8-18/2`.  Names may be in
 * upper or lower case.  A range may end with Sunday.  In place of the fields: @hourly, @daily or @midnight, @weekly, @monthly,
 * @yearly or @annually.
 *
 * Days.  If one of the two fields of days has a `*`, with or without a step, a day has to match both fields.  Otherwise one of
 * them is enough: `0 0 13 * fri` is each Friday and each 13th, and `0 0 13 * *` is each 13th.
 *
 * Clock changes.
 * - A schedule whose minute and hour are without `*`, such as `30 2 * * *`, names times of the day.  Each of them is due once:
 *   when the clocks first show it, or a later time.  When the clocks are set back over it, it is due the first time.  When they
 *   are set forward over it, it is due at the first moment after the gap, together with all other times in the gap.
 * - A schedule with a `*` there, such as `0,30 * * * *`, follows the time that passes.  It is due whenever the clocks show a time
 *   that matches: again when they show it again, and not at all when they skip it. */
#ifndef WEIR_KERNEL_CRON_H
#define WEIR_KERNEL_CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/calendar/zone.h"

/* Bit n of a set is number n. */
struct weir__cron {
        uint64_t minutes;
        uint32_t hours, days, months;
        uint8_t weekdays;        /* Sunday is bit 0 */
        bool is_either_day;      /* of the month or of the week */
        bool should_follow_time; /* a `*` in minute or hour */
};

struct weir__cron_error {
        size_t position;      /* of the error in the text, in bytes from 0 */
        const char *expected; /* constant: the expected text, in English, such as "a minute from 0 to 59" */
};

/* Result:  0; or -EINVAL, with the reason in `*where` if that is not NULL, and `*cron` untouched. */
int weir__cron_parse(const char *text, struct weir__cron *cron, struct weir__cron_error *where);

/* Returns the first instant after `after` at which the schedule is due.
 *
 * Result:  WEIR_FOREVER if there is none, as for 30 February, or if it is beyond the range of weir_nsec.
 * Units:   nanoseconds since 1970-01-01 00:00 UTC, as of CLOCK_REALTIME; negative before. */
weir_nsec weir__cron_next(const struct weir__cron *cron, const struct weir__zone *zone, weir_nsec after);

#endif
