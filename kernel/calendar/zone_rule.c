/* kernel/calendar/zone_rule.c: the rule of POSIX's TZ.
 *
 * The parser does not trust its bytes, which may be from any file: it reads none behind their end, and accepts only the grammar.
 * It skips the names of zones, which nobody here needs.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>

#include "kernel/data/ascii.h"
#include "kernel/calendar/calendar.h"
#include "kernel/calendar/zone_rule.h"

#define HOURS_MAX      167 /* of the time of a change */
#define ZONE_HOURS_MAX 24
#define HOUR_SEC       3600

/* The bytes that are still to be read; `failed` stays set. */
struct reader {
        const char *at, *end;
        bool has_failed;
};

static char
peek(const struct reader *reader)
{
        return reader->at < reader->end ? *reader->at : '\0';
}

static bool
take(struct reader *reader, char c)
{
        if (reader->at == reader->end || *reader->at != c)
                return false;
        reader->at++;
        return true;
}

static void
expect(struct reader *reader, char c)
{
        if (!take(reader, c))
                reader->has_failed = true;
}

static unsigned
read_number(struct reader *reader, unsigned first, unsigned last)
{
        unsigned number = 0;

        if (!weir__is_digit(peek(reader)))
                reader->has_failed = true;
        while (weir__is_digit(peek(reader)) && number <= last)
                number = number * 10 + (unsigned)(*reader->at++ - '0');
        if (number < first || number > last)
                reader->has_failed = true;
        return number;
}

/* Three letters or more; or <three or more letters, digits and signs>. */
static void
skip_name(struct reader *reader)
{
        bool is_quoted = take(reader, '<');
        const char *begin = reader->at;

        while (weir__is_letter(peek(reader)) ||
               (is_quoted && (weir__is_digit(peek(reader)) || peek(reader) == '+' || peek(reader) == '-')))
                reader->at++;
        if (reader->at - begin < 3)
                reader->has_failed = true;
        if (is_quoted)
                expect(reader, '>');
}

/* [+-]hh[:mm[:ss]], in seconds. */
static int32_t
read_time(struct reader *reader, unsigned hours_max)
{
        bool is_negative = take(reader, '-');
        int32_t time;

        if (!is_negative)
                take(reader, '+');
        time = (int32_t)read_number(reader, 0, hours_max) * HOUR_SEC;
        if (take(reader, ':')) {
                time += (int32_t)read_number(reader, 0, 59) * 60;
                if (take(reader, ':'))
                        time += (int32_t)read_number(reader, 0, 59);
        }
        return is_negative ? -time : time;
}

static struct weir__zone_change
read_change(struct reader *reader)
{
        struct weir__zone_change change = {.kind = '0', .time = 2 * HOUR_SEC};

        expect(reader, ',');
        if (take(reader, 'M')) {
                change.kind = 'M';
                change.month = (unsigned char)read_number(reader, 1, 12);
                expect(reader, '.');
                change.week = (unsigned char)read_number(reader, 1, 5);
                expect(reader, '.');
                change.weekday = (unsigned char)read_number(reader, 0, 6);
        } else if (take(reader, 'J')) {
                change.kind = 'J';
                change.day = (unsigned short)read_number(reader, 1, 365);
        } else {
                change.day = (unsigned short)read_number(reader, 0, 365);
        }
        if (take(reader, '/'))
                change.time = read_time(reader, HOURS_MAX);
        return change;
}

int
weir__zone_rule_parse(const char *text, const char *end, struct weir__zone_rule *rule)
{
        struct reader reader = {.at = text, .end = end};

        *rule = (struct weir__zone_rule){.has_daylight = false};
        skip_name(&reader);
        rule->standard = -read_time(&reader, ZONE_HOURS_MAX); /* POSIX counts westwards */
        if (reader.at < end && !reader.has_failed) {
                rule->has_daylight = true;
                skip_name(&reader);
                rule->daylight = peek(&reader) == ',' ? rule->standard + HOUR_SEC : -read_time(&reader, ZONE_HOURS_MAX);
                rule->begin = read_change(&reader);
                rule->end = read_change(&reader);
        }
        return reader.has_failed || reader.at < end ? -EBADMSG : 0;
}

static int64_t
change_day(const struct weir__zone_change *change, int64_t year)
{
        int64_t first;
        unsigned day;

        if (change->kind != 'M') {
                bool is_behind_leap_day = change->kind == 'J' && change->day >= 60 && weir__days_in_month(year, 2) == 29;

                return weir__day_of(year, 1, 1) + change->day - (change->kind == 'J') + is_behind_leap_day;
        }
        first = weir__day_of(year, change->month, 1);
        day = (change->weekday + 7 - weir__weekday(first)) % 7 + 7 * (change->week - 1U);
        return first + day - (day >= weir__days_in_month(year, change->month) ? 7 : 0);
}

/* The second since the epoch at which the clocks, which showed `offset`, are changed. */
static int64_t
change_second(const struct weir__zone_change *change, int64_t year, int32_t offset)
{
        return change_day(change, year) * WEIR__SECONDS_A_DAY + change->time - offset;
}

/* Takes the change into account: the last change not after `second` decides, and the first one after it ends that.  Of two
 * changes at one instant the later call decides: so daylight time that ends when the next one begins has no end. */
static void
consider(int64_t at, int32_t offset, int64_t second, int64_t *last, int32_t *result, int64_t *until)
{
        if (at <= second && at >= *last) {
                *last = at;
                *result = offset;
        }
        if (at > second && at < *until)
                *until = at;
}

int32_t
weir__zone_rule_offset(const struct weir__zone_rule *rule, int64_t second, int64_t *until)
{
        int64_t year, last = INT64_MIN;
        int32_t offset = rule->standard;

        *until = INT64_MAX;
        if (!rule->has_daylight)
                return offset;
        /* A change may lie a week outside of its year, and the one before and the one behind may be of the years around. */
        year = weir__date_of(weir__floor_divide(second, WEIR__SECONDS_A_DAY)).year;
        for (int64_t y = year - 2; y <= year + 2; y++) {
                int64_t begin = change_second(&rule->begin, y, rule->standard),
                        end = change_second(&rule->end, y, rule->daylight);

                consider(begin, rule->daylight, second, &last, &offset, until);
                consider(end, rule->standard, second, &last, &offset, until);
        }
        return offset;
}
