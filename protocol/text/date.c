/* protocol/text/date.c: dates of HTTP, written and read.
 *
 * Neither strftime nor strptime: the names in them depend on the locale of the process.
 *
 * Threads: any; pure functions.  No locks. */
#include <stdio.h>
#include <string.h>

#include "kernel/calendar/calendar.h"
#include "protocol/text/date.h"

#define LAST_INSTANT    INT64_C(253402300799) /* 9999-12-31 23:59:59 */
#define SECONDS_A_YEAR  INT64_C(31556952)     /* on average */
#define YEARS_IN_FUTURE 50                    /* of a year with two digits, at most */

static const char *const weekdays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

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
        int64_t instant = unix_seconds < 0 ? 0 : unix_seconds > LAST_INSTANT ? LAST_INSTANT : unix_seconds;
        int64_t day = instant / WEIR__SECONDS_A_DAY;
        unsigned second = (unsigned)(instant % WEIR__SECONDS_A_DAY);
        struct weir__date date = weir__date_of(day);

        memcpy(out, "Sun, 00 Jan 0000 00:00:00 GMT", WEIR__HTTP_DATE_SIZE + 1);
        memcpy(out, weekdays[weir__weekday(day)], 3);
        put_number(out + 5, date.day, 2);
        memcpy(out + 8, months + 3 * (date.month - 1), 3);
        put_number(out + 12, (unsigned)date.year, 4);
        put_number(out + 17, second / 3600, 2);
        put_number(out + 20, second / 60 % 60, 2);
        put_number(out + 23, second % 60, 2);
}

/* -- reading -- */

/* As it stands in the text. */
struct parts {
        char weekday[10], month_name[4];
        unsigned day, year, hour, minute, second;
        unsigned month; /* from 1 on */
        bool is_short;  /* the year has two digits */
};

/* sscanf takes much that is no date.  A text is one if its parts are written like that.  In the third form a day below 10 has a
 * space or a zero in front (RFC 9110, 5.6.7: date3). */
static bool
read_parts(const char *text, struct parts *parts)
{
        char again[64] = "";

        *parts = (struct parts){.month = 0};
        if (sscanf(text, "%9[A-Za-z], %2u %3[A-Za-z] %4u %2u:%2u:%2u", parts->weekday, &parts->day, parts->month_name,
                   &parts->year, &parts->hour, &parts->minute, &parts->second) == 7)
                snprintf(again, sizeof again, "%.3s, %02u %s %04u %02u:%02u:%02u GMT", parts->weekday, parts->day,
                         parts->month_name, parts->year, parts->hour, parts->minute, parts->second);
        else if (sscanf(text, "%9[A-Za-z], %2u-%3[A-Za-z]-%2u %2u:%2u:%2u", parts->weekday, &parts->day, parts->month_name,
                        &parts->year, &parts->hour, &parts->minute, &parts->second) == 7) {
                parts->is_short = true;
                snprintf(again, sizeof again, "%s, %02u-%s-%02u %02u:%02u:%02u GMT", parts->weekday, parts->day,
                         parts->month_name, parts->year, parts->hour, parts->minute, parts->second);
        } else if (sscanf(text, "%3[A-Za-z] %3[A-Za-z] %2u %2u:%2u:%2u %4u", parts->weekday, parts->month_name, &parts->day,
                          &parts->hour, &parts->minute, &parts->second, &parts->year) == 7)
                snprintf(again, sizeof again, "%s %s %s%u %02u:%02u:%02u %04u", parts->weekday, parts->month_name,
                         parts->day > 9   ? ""
                         : text[8] == '0' ? "0"
                                          : " ",
                         parts->day, parts->hour, parts->minute, parts->second, parts->year);
        return strcmp(text, again) == 0;
}

/* With a year of two digits the name is written in full. */
static bool
is_weekday(const char *name, bool is_full)
{
        for (size_t i = 0; i < sizeof weekdays / sizeof *weekdays; i++)
                if (is_full ? strcmp(name, weekdays[i]) == 0 : strncmp(name, weekdays[i], 3) == 0)
                        return true;
        return false;
}

/* From 1 on; 0: there is none of that name. */
static unsigned
month_of(const char name[4])
{
        const char *found = strlen(name) == 3 ? strstr(months, name) : NULL;

        return found && (found - months) % 3 == 0 ? (unsigned)(found - months) / 3 + 1 : 0;
}

static bool
is_valid(const struct parts *parts)
{
        return parts->day >= 1 && parts->day <= weir__days_in_month(parts->year, parts->month) && parts->hour < 24 &&
               parts->minute < 60 && parts->second <= 60; /* leap second */
}

static int64_t
seconds_of(const struct parts *parts)
{
        int64_t day = weir__day_of(parts->year, parts->month, parts->day);

        return day * WEIR__SECONDS_A_DAY + (int64_t)(parts->hour * 3600 + parts->minute * 60 + parts->second);
}

/* Chooses the last year that ends in these two digits and in which the date is not after `latest`. */
static void
choose_century(struct parts *parts, int64_t latest)
{
        for (parts->year += 9900; parts->year >= 100 && seconds_of(parts) > latest;)
                parts->year -= 100;
}

bool
weir__http_date_read(const char *text, int64_t now, int64_t *ret_seconds)
{
        struct parts parts;

        if (!read_parts(text, &parts) || !is_weekday(parts.weekday, parts.is_short))
                return false;
        parts.month = month_of(parts.month_name);
        if (!parts.month)
                return false;
        if (parts.is_short)
                choose_century(&parts, now + YEARS_IN_FUTURE * SECONDS_A_YEAR);
        if (!is_valid(&parts))
                return false;
        *ret_seconds = seconds_of(&parts);
        return true;
}
