/* protocol/date.c: the date of a response.
 *
 * Not strftime: the names in it depend on the locale of the process.
 *
 * Threads: any; a pure function.  No locks. */
#include <string.h>

#include "protocol/date.h"

#define SECONDS_A_DAY 86400
#define LAST_INSTANT  INT64_C(253402300799) /* 9999-12-31 23:59:59 */

#define DAYS_IN_4     (4 * 365 + 1)
#define DAYS_IN_100   (25 * DAYS_IN_4 - 1)
#define DAYS_IN_400   (4 * DAYS_IN_100 + 1)
#define DAYS_TO_EPOCH 719468 /* from 1 March of the year 0 to 1 January 1970 */

static unsigned
smaller(unsigned one, unsigned other)
{
        return one < other ? one : other;
}

/* Which year, counted from 1 March of the year 0, `*day` is in; leaves the day within it.  In years that begin in March a leap
 * day is the last one of its year, its 4 and its 400 years: only there a quotient would be too large. */
static unsigned
take_year(unsigned *day)
{
        unsigned year = *day / DAYS_IN_400 * 400, part;

        *day %= DAYS_IN_400;
        part = smaller(*day / DAYS_IN_100, 3);
        *day -= part * DAYS_IN_100;
        year += part * 100 + *day / DAYS_IN_4 * 4;
        *day %= DAYS_IN_4;
        part = smaller(*day / 365, 3);
        *day -= part * 365;
        return year + part;
}

/* The month, 0 for March, that a day of such a year is in; leaves the day within it. */
static unsigned
take_month(unsigned *day)
{
        static const unsigned char days[] = {31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 29};
        unsigned month = 0;

        while (*day >= days[month]) {
                *day -= days[month++];
        }
        return month;
}

/* Writes the last `digits` digits of the number. */
static void
put_number(char *out, unsigned number, unsigned digits)
{
        while (digits-- > 0) {
                out[digits] = (char)('0' + number % 10);
                number /= 10;
        }
}

void
weir__http_date(int64_t unix_seconds, char out[WEIR__HTTP_DATE_SIZE + 1])
{
        static const char names[] = "SunMonTueWedThuFriSat", months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
        int64_t instant = unix_seconds < 0 ? 0 : unix_seconds > LAST_INSTANT ? LAST_INSTANT : unix_seconds;
        unsigned second = (unsigned)(instant % SECONDS_A_DAY), day = (unsigned)(instant / SECONDS_A_DAY);
        unsigned weekday = (day + 4) % 7, year, month; /* 1 January 1970 was a Thursday */

        day += DAYS_TO_EPOCH;
        year = take_year(&day);
        month = take_month(&day);
        memcpy(out, "Sun, 00 Mar 0000 00:00:00 GMT", WEIR__HTTP_DATE_SIZE + 1);
        memcpy(out, names + 3 * weekday, 3);
        put_number(out + 5, day + 1, 2);
        memcpy(out + 8, months + 3 * month, 3);
        put_number(out + 12, year + (month >= 10), 4); /* January and February belong to the next year */
        put_number(out + 17, second / 3600, 2);
        put_number(out + 20, second / 60 % 60, 2);
        put_number(out + 23, second % 60, 2);
}
