/* kernel/calendar/cron.c: schedules by the wall clock.
 *
 * A schedule is five sets of bits.  The next match is found in local time, month by month.  The days of a month that match are
 * one word, which is made of the set of dates and of the repeated week.  Then the zone handles changes of the clocks.
 *
 * Threads: any; pure functions.  No locks. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "kernel/data/ascii.h"
#include "kernel/calendar/calendar.h"
#include "kernel/calendar/cron.h"

#define NSEC_A_SECOND  INT64_C(1000000000)
#define MINUTE_SEC     INT64_C(60)
#define MINUTES_A_DAY  1440
#define YEARS_SEARCHED 41 /* the longest gap: 29 February on a given weekday, 40 years around a year like 2100, otherwise 28 */
#define NEVER          INT64_MAX

enum field { MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS, FIELDS };

struct field_kind {
        unsigned first, last;
        const char *names; /* three letters each; NULL: none */
        unsigned first_name;
        const char *expected, *expected_step;
};

static const struct field_kind kinds[FIELDS] = {
        [MINUTES] = {0, 59, NULL, 0, "a minute from 0 to 59, or *", "a step from 1 to 60"},
        [HOURS] = {0, 23, NULL, 0, "an hour from 0 to 23, or *", "a step from 1 to 24"},
        [DAYS] = {1, 31, NULL, 0, "a day of the month from 1 to 31, or *", "a step from 1 to 31"},
        [MONTHS] = {1, 12, "janfebmaraprmayjunjulaugsepoctnovdec", 1, "a month from 1 to 12 or jan to dec, or *",
                    "a step from 1 to 12"},
        [WEEKDAYS] = {0, 7, "sunmontuewedthufrisat", 0, "a day of the week from 0 to 7 or sun to sat, or *",
                      "a step from 1 to 8"},
};

struct reader {
        const char *text;
        size_t at;
        struct weir__cron_error error; /* the first one; expected == NULL: none */
};

/* The values of one field. */
struct field_set {
        uint64_t bits;
        bool has_star;
};

static void
refuse(struct reader *reader, size_t position, const char *expected)
{
        if (!reader->error.expected)
                reader->error = (struct weir__cron_error){.position = position, .expected = expected};
}

static bool
take(struct reader *reader, char c)
{
        if (reader->text[reader->at] != c)
                return false;
        reader->at++;
        return true;
}

static bool
is_end(char c)
{
        return c == ' ' || c == '\t' || c == '\0';
}

static void
skip_blanks(struct reader *reader)
{
        reader->at += strspn(reader->text + reader->at, " \t");
}

static unsigned
read_number(struct reader *reader, unsigned first, unsigned last, const char *expected)
{
        size_t begin = reader->at;
        unsigned number = 0;

        while (weir__is_digit(reader->text[reader->at]) && number <= last)
                number = number * 10 + (unsigned)(reader->text[reader->at++] - '0');
        if (reader->at == begin || number < first || number > last)
                refuse(reader, begin, expected);
        return number;
}

/* Reads a name, and returns its number. */
static unsigned
read_name(struct reader *reader, const struct field_kind *kind)
{
        const char *word = reader->text + reader->at;
        size_t length = 0;

        while (weir__is_letter(word[length]))
                length++;
        for (size_t i = 0; kind->names && length == 3 && kind->names[3 * i]; i++) {
                if (strncasecmp(word, kind->names + 3 * i, 3) == 0) {
                        reader->at += 3;
                        return kind->first_name + (unsigned)i;
                }
        }
        refuse(reader, reader->at, kind->expected);
        return kind->first;
}

static unsigned
read_value(struct reader *reader, const struct field_kind *kind)
{
        if (weir__is_letter(reader->text[reader->at]))
                return read_name(reader, kind);
        return read_number(reader, kind->first, kind->last, kind->expected);
}

/* The end of a range; Sunday is the last day as well as the first. */
static unsigned
read_last(struct reader *reader, const struct field_kind *kind, unsigned first)
{
        size_t begin = reader->at;
        unsigned last = read_value(reader, kind);

        if (last == 0 && first > 0 && kind == &kinds[WEEKDAYS])
                last = 7;
        if (last < first)
                refuse(reader, begin, "the end of a range that is not before its beginning");
        return last;
}

/* `*`, a value or a range, and its step. */
static void
read_item(struct reader *reader, const struct field_kind *kind, struct field_set *set)
{
        unsigned first = kind->first, last = kind->last, step = 1;
        bool is_single = false;

        if (take(reader, '*')) {
                set->has_star = true;
        } else {
                first = last = read_value(reader, kind);
                is_single = !take(reader, '-');
                if (!is_single)
                        last = read_last(reader, kind, first);
        }
        if (!is_single && take(reader, '/'))
                step = read_number(reader, 1, kind->last - kind->first + 1, kind->expected_step);
        else if (reader->text[reader->at] == '/')
                refuse(reader, reader->at, "a range or * in front of a step");
        for (unsigned i = first; !reader->error.expected && i <= last; i += step)
                set->bits |= UINT64_C(1) << i;
}

static struct field_set
read_field(struct reader *reader, const struct field_kind *kind)
{
        struct field_set set = {.bits = 0};

        skip_blanks(reader);
        do {
                read_item(reader, kind, &set);
        } while (!reader->error.expected && take(reader, ','));
        if (!is_end(reader->text[reader->at]))
                refuse(reader, reader->at, "a space, a comma, a range with - or a step with /");
        return set;
}

/* The schedule for a name in place of the fields; "" when there is none. */
static const char *
read_alias(struct reader *reader)
{
        static const char *const aliases[][2] = {
                {"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
                {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"},
        };
        const char *word = reader->text + reader->at;
        size_t length = strcspn(word, " \t");

        for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
                if (strlen(aliases[i][0]) == length && strncasecmp(word, aliases[i][0], length) == 0) {
                        reader->at += length;
                        return aliases[i][1];
                }
        }
        refuse(reader, reader->at, "@hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually");
        return "";
}

static struct weir__cron
read_fields(struct reader *reader)
{
        struct field_set sets[FIELDS];

        for (unsigned i = 0; i < FIELDS; i++)
                sets[i] = read_field(reader, &kinds[i]);
        return (struct weir__cron){
                .minutes = sets[MINUTES].bits,
                .hours = (uint32_t)sets[HOURS].bits,
                .days = (uint32_t)sets[DAYS].bits,
                .months = (uint32_t)sets[MONTHS].bits,
                .weekdays = (uint8_t)((sets[WEEKDAYS].bits | sets[WEEKDAYS].bits >> 7) & 0x7f),
                .is_either_day = !sets[DAYS].has_star && !sets[WEEKDAYS].has_star,
                .should_follow_time = sets[MINUTES].has_star || sets[HOURS].has_star,
        };
}

int
weir__cron_parse(const char *text, struct weir__cron *cron, struct weir__cron_error *where)
{
        struct reader reader = {.text = text ? text : ""};
        struct weir__cron read;

        skip_blanks(&reader);
        if (reader.text[reader.at] == '@') {
                struct reader fields = {.text = read_alias(&reader)};

                read = read_fields(&fields);
        } else {
                read = read_fields(&reader);
        }
        skip_blanks(&reader);
        if (reader.text[reader.at])
                refuse(&reader, reader.at, "the end of the schedule");
        if (reader.error.expected) {
                if (where)
                        *where = reader.error;
                return -EINVAL;
        }
        *cron = read;
        return 0;
}

/* The days of a month that begins with the day `first` which match; bit 0 is its first. */
static uint64_t
days_of_month(const struct weir__cron *cron, int64_t first, unsigned count)
{
        uint64_t dates = cron->days >> 1, week = cron->weekdays, weeks;
        unsigned weekday = weir__weekday(first);

        week = (week >> weekday | week << (7 - weekday)) & 0x7f;
        weeks = week | week << 7 | week << 14 | week << 21 | week << 28;
        return (cron->is_either_day ? dates | weeks : dates & weeks) & ((UINT64_C(1) << count) - 1);
}

/* The first day that matches from `day` on. */
static int64_t
next_day(const struct weir__cron *cron, int64_t day)
{
        struct weir__date date = weir__date_of(day);
        int64_t first = day - (date.day - 1);
        uint64_t left = UINT64_MAX << (date.day - 1); /* of this month; all of the others */

        for (unsigned i = 0; i <= YEARS_SEARCHED * 12; i++) {
                unsigned count = weir__days_in_month(date.year, date.month);
                uint64_t days = cron->months >> date.month & 1 ? days_of_month(cron, first, count) & left : 0;

                if (days)
                        return first + __builtin_ctzll(days);
                left = UINT64_MAX;
                first += count;
                date.year += date.month == 12;
                date.month = date.month % 12 + 1;
        }
        return NEVER;
}

/* The first minute of the day that matches from `minute` on; -1 for none. */
static int
next_minute(const struct weir__cron *cron, unsigned minute)
{
        unsigned hour = minute / 60;
        uint64_t minutes = cron->minutes >> minute % 60 << minute % 60;
        uint32_t hours = cron->hours >> hour;

        if (hours & 1 && minutes)
                return (int)(hour * 60) + __builtin_ctzll(minutes);
        hours &= ~UINT32_C(1);
        return hours ? (int)(hour + (unsigned)__builtin_ctz(hours)) * 60 + __builtin_ctzll(cron->minutes) : -1;
}

/* The first local time that matches from `local` on, in seconds. */
static int64_t
next_match(const struct weir__cron *cron, int64_t local)
{
        int64_t minute = weir__floor_divide(local + MINUTE_SEC - 1, MINUTE_SEC), day = weir__floor_divide(minute, MINUTES_A_DAY);
        int in_day = -1;

        if (next_day(cron, day) == day)
                in_day = next_minute(cron, (unsigned)(minute - day * MINUTES_A_DAY));
        if (in_day < 0) {
                day = next_day(cron, day + 1);
                in_day = next_minute(cron, 0);
        }
        return day == NEVER ? NEVER : (day * MINUTES_A_DAY + in_day) * MINUTE_SEC;
}

/* Returns the first instant at which the clocks show a match.  They might skip every match, so the years are counted here as
 * well. */
static int64_t
next_shown(const struct weir__cron *cron, const struct weir__zone *zone, int64_t after)
{
        int64_t second = after + 1, last = second + YEARS_SEARCHED * 366 * WEIR__SECONDS_A_DAY;

        while (second < last) {
                struct weir__zone_span span = weir__zone_span(zone, second);
                int64_t local = next_match(cron, second + span.offset);

                if (local == NEVER)
                        break;
                if (local - span.offset < span.until)
                        return local - span.offset;
                second = span.until;
        }
        return NEVER;
}

/* Each time of the day is due once: a time that the clocks have shown or skipped is not due again. */
static int64_t
next_reached(const struct weir__cron *cron, const struct weir__zone *zone, int64_t after)
{
        int64_t local = next_match(cron, weir__zone_highest(zone, after) + 1);

        return local == NEVER ? NEVER : weir__zone_reach(zone, local);
}

weir_nsec
weir__cron_next(const struct weir__cron *cron, const struct weir__zone *zone, weir_nsec after)
{
        int64_t second = weir__floor_divide(after, NSEC_A_SECOND);

        second = cron->should_follow_time ? next_shown(cron, zone, second) : next_reached(cron, zone, second);
        return second == NEVER || second > WEIR_FOREVER / NSEC_A_SECOND ? WEIR_FOREVER : second * NSEC_A_SECOND;
}
