/* protocol/text/date.c: dates of HTTP, written and read.
 *
 * Neither strftime nor strptime: the names in them depend on the locale of the process.
 *
 * Threads: any; pure functions.  No locks. */
#include <string.h>

#include "kernel/calendar/calendar.h"
#include "protocol/text/bytes.h"
#include "protocol/text/date.h"

#define LAST_INSTANT    INT64_C(253402300799) /* 9999-12-31 23:59:59 */
#define SECONDS_A_YEAR  INT64_C(31556952)     /* on average */
#define YEARS_IN_FUTURE 50                    /* of a year with two digits, at most */

static const char weekdays[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

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
        memcpy(out, weekdays + 3 * weir__weekday(day), 3);
        put_number(out + 5, date.day, 2);
        memcpy(out + 8, months + 3 * (date.month - 1), 3);
        put_number(out + 12, (unsigned)date.year, 4);
        put_number(out + 17, second / 3600, 2);
        put_number(out + 20, second / 60 % 60, 2);
        put_number(out + 23, second % 60, 2);
}

/* -- reading -- */

/* As it stands in the text; a month is counted from 0. */
struct parts {
        unsigned day, month, year, hour, minute, second;
        bool is_short; /* the year has two digits */
};

static bool
take_number(const char **text, unsigned digits, unsigned *number)
{
        for (*number = 0; digits > 0; digits--, ++*text) {
                if (!weir__byte_is(**text, WEIR__BYTE_DIGIT))
                        return false;
                *number = 10 * *number + (unsigned)(**text - '0');
        }
        return true;
}

/* One of `count` names of three letters each. */
static bool
take_name(const char **text, const char *names, unsigned count, unsigned *index)
{
        for (*index = 0; *index < count; ++*index) {
                if (strncmp(*text, names + 3 * *index, 3) == 0) {
                        *text += 3;
                        return true;
                }
        }
        return false;
}

/* The name of a day in full. */
static bool
take_weekday(const char **text)
{
        static const char *const rests[] = {"day", "day", "sday", "nesday", "rsday", "day", "urday"};
        unsigned day;

        if (!take_name(text, weekdays, 7, &day) || strncmp(*text, rests[day], strlen(rests[day])) != 0)
                return false;
        *text += strlen(rests[day]);
        return true;
}

/* What one letter of a format stands for. */
static bool
take_part(const char **text, char part, struct parts *parts)
{
        unsigned ignored, digits = 2;

        switch (part) {
        case 'w': return take_name(text, weekdays, 7, &ignored);
        case 'W': return take_weekday(text);
        case 'b': return take_name(text, months, 12, &parts->month);
        case 'Y': return take_number(text, 4, &parts->year);
        case 'H': return take_number(text, 2, &parts->hour);
        case 'M': return take_number(text, 2, &parts->minute);
        case 'S': return take_number(text, 2, &parts->second);
        case 'y': parts->is_short = true; return take_number(text, 2, &parts->year);
        case 'e': /* below 10 with a space for the first digit */
                digits -= **text == ' ';
                *text += **text == ' ';
                break;
        }
        return take_number(text, digits, &parts->day); /* 'd', 'e' */
}

/* Whether the whole text has that format.  A letter behind '%' is a part; every other byte stands for itself. */
static bool
read_format(const char *text, const char *format, struct parts *parts)
{
        for (*parts = (struct parts){.day = 0}; *format; format++)
                if (*format == '%' ? !take_part(&text, *++format, parts) : *text++ != *format)
                        return false;
        return *text == '\0';
}

static bool
is_valid(const struct parts *parts)
{
        return parts->day >= 1 && parts->day <= weir__days_in_month(parts->year, parts->month + 1) && parts->hour < 24 &&
               parts->minute < 60 && parts->second <= 60; /* leap second */
}

static int64_t
seconds_of(const struct parts *parts)
{
        int64_t day = weir__day_of(parts->year, parts->month + 1, parts->day);

        return day * WEIR__SECONDS_A_DAY + (int64_t)(parts->hour * 3600 + parts->minute * 60 + parts->second);
}

/* Chooses the last year that ends in these two digits and in which the date is not after `limit`. */
static void
choose_century(struct parts *parts, int64_t limit)
{
        for (parts->year += 9900; parts->year >= 100 && seconds_of(parts) > limit;)
                parts->year -= 100;
}

bool
weir__http_date_read(const char *text, int64_t now, int64_t *ret_seconds)
{
        struct parts parts;

        if (!read_format(text, "%w, %d %b %Y %H:%M:%S GMT", &parts) && !read_format(text, "%W, %d-%b-%y %H:%M:%S GMT", &parts) &&
            !read_format(text, "%w %b %e %H:%M:%S %Y", &parts))
                return false;
        if (parts.is_short)
                choose_century(&parts, now + YEARS_IN_FUTURE * SECONDS_A_YEAR);
        if (!is_valid(&parts))
                return false;
        *ret_seconds = seconds_of(&parts);
        return true;
}
