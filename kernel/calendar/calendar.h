/* kernel/calendar/calendar.h: days and dates, in the Gregorian calendar carried on to all years.
 *
 * Pure functions, for any thread.  A day is counted from 1 January 1970, negative before it. */
#ifndef WEIR_KERNEL_CALENDAR_H
#define WEIR_KERNEL_CALENDAR_H

#include <stdint.h>

#define WEIR__SECONDS_A_DAY INT64_C(86400)

struct weir__date {
        int64_t year;
        unsigned month; /* 1 to 12 */
        unsigned day;   /* 1 to 31 */
};

/* Rounds down, also below 0; `by` is positive. */
static inline int64_t weir__floor_divide(int64_t number, int64_t by)
{
        return number / by - (number % by < 0);
}

int64_t weir__day_of(int64_t year, unsigned month, unsigned day);
struct weir__date weir__date_of(int64_t day);
unsigned weir__days_in_month(int64_t year, unsigned month);

/* 0 for Sunday. */
unsigned weir__weekday(int64_t day);

#endif
