/* kernel/calendar/calendar.c: days and dates.
 *
 * Years begin in March here, so that a leap day is the last day of its year, and of its cycle of 4, 100 and 400 years.
 *
 * Threads: any; pure functions.  No locks. */
#include "kernel/calendar/calendar.h"

#define DAYS_IN_400   146097
#define DAYS_TO_EPOCH 719468 /* from 1 March of the year 0 to 1 January 1970 */

/* Days before a month of such a year; 0 is March. */
static unsigned
days_before(unsigned month)
{
        return (153 * month + 2) / 5;
}

int64_t
weir__day_of(int64_t year, unsigned month, unsigned day)
{
        int64_t march_year = year - (month < 3), era = weir__floor_divide(march_year, 400);
        unsigned in_era = (unsigned)(march_year - era * 400);

        return era * DAYS_IN_400 + in_era * 365 + in_era / 4 - in_era / 100 + days_before((month + 9) % 12) + day - 1 -
               DAYS_TO_EPOCH;
}

struct weir__date
weir__date_of(int64_t day)
{
        int64_t since = day + DAYS_TO_EPOCH, era = weir__floor_divide(since, DAYS_IN_400);
        unsigned in_era = (unsigned)(since - era * DAYS_IN_400);
        /* Without the leap days before it, a day's number is 365 times its year, and the day in it. */
        unsigned year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
        unsigned in_year = in_era - (365 * year + year / 4 - year / 100), month = (5 * in_year + 2) / 153;

        return (struct weir__date){
                .year = era * 400 + year + (month >= 10), /* January and February belong to the next year */
                .month = (month + 2) % 12 + 1,
                .day = in_year - days_before(month) + 1,
        };
}

unsigned
weir__days_in_month(int64_t year, unsigned month)
{
        return (unsigned)(weir__day_of(year + month / 12, month % 12 + 1, 1) - weir__day_of(year, month, 1));
}

unsigned
weir__weekday(int64_t day)
{
        return (unsigned)(day + 4 - 7 * weir__floor_divide(day + 4, 7)); /* 1 January 1970 was a Thursday */
}
