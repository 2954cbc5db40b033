/* test/cron_test.c: schedules by the wall clock: how they are written, how they are refused, when they are due.
 *
 * The random schedules are compared with a search that looks at each minute of a year, in the local time of the C library. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/calendar/calendar.h"
#include "kernel/calendar/cron.h"
#include "test/support.h"

#define SECOND  INT64_C(1000000000)
#define DAY     WEIR__SECONDS_A_DAY
#define MINUTES (366 * 1440)

static struct weir__zone *
open_zone(const char *name)
{
        struct weir__zone *zone = NULL;
        int failed = weir__zone_open(name, &zone);

        if (failed)
                fprintf(stderr, "%s: %s (the package tzdata has to be installed)\n", name, strerror(-failed));
        CU_ASSERT_FATAL(zone != NULL);
        return zone;
}

static struct weir__cron
parse(const char *text)
{
        struct weir__cron cron;
        struct weir__cron_error where;

        if (weir__cron_parse(text, &cron, &where) < 0) {
                fprintf(stderr, "%s: %s expected at %zu\n", text, where.expected, where.position);
                CU_FAIL_FATAL("a schedule");
        }
        return cron;
}

static bool
same(const struct weir__cron *one, const struct weir__cron *other)
{
        return one->minutes == other->minutes && one->hours == other->hours && one->days == other->days &&
               one->months == other->months && one->weekdays == other->weekdays && one->is_either_day == other->is_either_day &&
               one->should_follow_time == other->should_follow_time;
}

static bool
mean_the_same(const char *one, const char *other)
{
        struct weir__cron first = parse(one), second = parse(other);

        return same(&first, &second);
}

static void
fields_are_lists_of_numbers_ranges_steps_and_names(void)
{
        struct weir__cron cron = parse("0,15-17,50-59/4 */6 1-31/10 jan,MAR-May fri-sun,2");

        CU_ASSERT(cron.minutes == (1ULL << 0 | 7ULL << 15 | 1ULL << 50 | 1ULL << 54 | 1ULL << 58));
        CU_ASSERT(cron.hours == (1U << 0 | 1U << 6 | 1U << 12 | 1U << 18));
        CU_ASSERT(cron.days == (1U << 1 | 1U << 11 | 1U << 21 | 1U << 31));
        CU_ASSERT(cron.months == (1U << 1 | 7U << 3));
        CU_ASSERT(cron.weekdays == (1U << 5 | 1U << 6 | 1U << 0 | 1U << 2));
        CU_ASSERT(cron.is_either_day && cron.should_follow_time);
        cron = parse("\t 59 23  31\t12 7 ");
        CU_ASSERT(cron.minutes == 1ULL << 59 && cron.hours == 1U << 23 && cron.days == 1U << 31 && cron.months == 1U << 12);
        CU_ASSERT(cron.weekdays == 1 && !cron.should_follow_time);
        cron = parse("* * * * *");
        CU_ASSERT(cron.minutes == (1ULL << 60) - 1 && cron.hours == (1U << 24) - 1 && cron.days == UINT32_MAX - 1);
        CU_ASSERT(cron.months == (1U << 13) - 2 && cron.weekdays == 0x7f && !cron.is_either_day);
}

static void
some_schedules_mean_the_same(void)
{
        CU_ASSERT(mean_the_same("@hourly", "0 * * * *"));
        CU_ASSERT(mean_the_same(" @Daily ", "0 0 * * *") && mean_the_same("@midnight", "@daily"));
        CU_ASSERT(mean_the_same("@weekly", "0 0 * * sun") && mean_the_same("@monthly", "0 0 1 * *"));
        CU_ASSERT(mean_the_same("@yearly", "0 0 1 jan *") && mean_the_same("@annually", "@yearly"));
        CU_ASSERT(mean_the_same("0 0 1 1 0-7", "0 0 1 1 0-6") && mean_the_same("0 0 1 1 5-7", "0 0 1 1 5,6,0"));
        CU_ASSERT(mean_the_same("0 0 1 1 1-7/3", "0 0 1 1 mon,thu,sun") && mean_the_same("0 0 1 1 7", "0 0 1 1 SUN"));
        CU_ASSERT(mean_the_same("0 0 * * sat-sun", "0 0 * * 0,6") && mean_the_same("0 0 * * sun-tue", "0 0 * * 0-2"));
        CU_ASSERT(mean_the_same("007 0 1-1 1 *", "7 0 1 1 *") && mean_the_same("*/60 0 1 1 *", "*,0 0 1 1 *") == false);
}

static void
a_mistake_is_told_with_its_place_and_what_was_expected(void)
{
        static const struct {
                const char *text;
                size_t position;
                const char *expected;
        } rows[] = {
                {"", 0, "a minute from 0 to 59, or *"},
                {"60 * * * *", 0, "a minute from 0 to 59, or *"},
                {"-1 * * * *", 0, "a minute from 0 to 59, or *"},
                {"99999999999999999999 * * * *", 0, "a minute from 0 to 59, or *"},
                {"jan * * * *", 0, "a minute from 0 to 59, or *"},
                {"1, * * * *", 2, "a minute from 0 to 59, or *"},
                {"1- * * * *", 2, "a minute from 0 to 59, or *"},
                {"1-60 * * * *", 2, "a minute from 0 to 59, or *"},
                {"0 24 * * *", 2, "an hour from 0 to 23, or *"},
                {"0  ", 3, "an hour from 0 to 23, or *"},
                {"0 0 0 * *", 4, "a day of the month from 1 to 31, or *"},
                {"0 0 32 * *", 4, "a day of the month from 1 to 31, or *"},
                {"0 0 L * *", 4, "a day of the month from 1 to 31, or *"},
                {"0 0 1 0 *", 6, "a month from 1 to 12 or jan to dec, or *"},
                {"0 0 1 13 *", 6, "a month from 1 to 12 or jan to dec, or *"},
                {"0 0 1 june *", 6, "a month from 1 to 12 or jan to dec, or *"},
                {"0 0 1 mon *", 6, "a month from 1 to 12 or jan to dec, or *"},
                {"0 0 * * 8", 8, "a day of the week from 0 to 7 or sun to sat, or *"},
                {"0 0 * *", 7, "a day of the week from 0 to 7 or sun to sat, or *"},
                {"0 0 * * mon,xyz", 12, "a day of the week from 0 to 7 or sun to sat, or *"},
                {"0 0 * * mon#2", 11, "a space, a comma, a range with - or a step with /"},
                {"*/0 * * * *", 2, "a step from 1 to 60"},
                {"*/61 * * * *", 2, "a step from 1 to 60"},
                {"*/ * * * *", 2, "a step from 1 to 60"},
                {"0 */25 * * *", 4, "a step from 1 to 24"},
                {"5/15 * * * *", 1, "a range or * in front of a step"},
                {"30-10 * * * *", 3, "the end of a range that is not before its beginning"},
                {"0 0 * * sat-fri", 12, "the end of a range that is not before its beginning"},
                {"** * * * *", 1, "a space, a comma, a range with - or a step with /"},
                {"*-5 * * * *", 1, "a space, a comma, a range with - or a step with /"},
                {"1-2-3 * * * *", 3, "a space, a comma, a range with - or a step with /"},
                {"*/5/5 * * * *", 3, "a space, a comma, a range with - or a step with /"},
                {"0 0 * * * *", 10, "the end of the schedule"},
                {"0 0 * * *\n", 9, "a space, a comma, a range with - or a step with /"},
                {"@daily x", 7, "the end of the schedule"},
                {" @reboot", 1, "@hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"},
        };

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                struct weir__cron cron = {.minutes = 42};
                struct weir__cron_error where = {.position = 999, .expected = ""};
                int failed = weir__cron_parse(rows[i].text, &cron, &where);

                CU_ASSERT(failed == -EINVAL && cron.minutes == 42);
                if (where.position != rows[i].position || strcmp(where.expected, rows[i].expected) != 0) {
                        fprintf(stderr, "\"%s\": at %zu %s\n", rows[i].text, where.position, where.expected);
                        CU_FAIL("the place of a mistake");
                }
        }
        CU_ASSERT(weir__cron_parse(NULL, &(struct weir__cron){.minutes = 0}, NULL) == -EINVAL);
}

/* Any bytes: an answer, a place within the text, and nothing read behind it (which AddressSanitizer sees). */
static void
any_text_is_read_within_its_bounds(void)
{
        static const char alphabet[] = "0123456789*,-/ \tjanfebsunmon@daily7x";
        struct weir_test_random random = {.state = weir_test_seed()};
        unsigned good = 0;

        for (unsigned n = 0; n < 200000; n++) {
                size_t length = weir_test_random_below(&random, 24);
                char *text = malloc(length + 1);
                struct weir__cron cron;
                struct weir__cron_error where = {.position = SIZE_MAX};

                CU_ASSERT_FATAL(text != NULL);
                for (size_t i = 0; i < length; i++)
                        text[i] = weir_test_random_below(&random, 3) == 0
                                          ? ' '
                                          : alphabet[weir_test_random_below(&random, sizeof alphabet - 1)];
                text[length] = '\0';
                if (weir__cron_parse(text, &cron, &where) == 0)
                        good++;
                else if (where.position > length || !where.expected)
                        CU_FAIL("a place in the text");
                free(text);
        }
        CU_ASSERT(good > 0);
}

/* "2026-03-29 02:30" as if in UTC; with an offset of hours and minutes behind it, the instant. */
static weir_nsec
instant(const char *text)
{
        int year, month, day, hour, minute, offset = 0;

        CU_ASSERT_FATAL(sscanf(text, "%d-%d-%d %d:%d %d", &year, &month, &day, &hour, &minute, &offset) >= 5);
        return (weir__day_of(year, (unsigned)month, (unsigned)day) * DAY + hour * 3600 + minute * 60 -
                (offset / 100 * 3600 + offset % 100 * 60)) *
               SECOND;
}

/* Whether the schedule is due at these instants, one after the other; the last is NULL. */
static void
expect_due(const char *text, const char *zone_name, const char *after, const char *const *expected)
{
        struct weir__zone *zone = open_zone(zone_name);
        struct weir__cron cron = parse(text);
        weir_nsec at = instant(after);

        for (; *expected; expected++) {
                at = weir__cron_next(&cron, zone, at);
                if (at != instant(*expected)) {
                        fprintf(stderr, "%s in %s: %lld instead of %s\n", text, zone_name, (long long)(at / SECOND), *expected);
                        CU_FAIL("an instant");
                        break;
                }
        }
        weir__zone_free(zone);
}
#define EXPECT_DUE(text, zone, after, ...) expect_due(text, zone, after, (const char *const[]){__VA_ARGS__, NULL})

static void
a_day_of_the_month_or_of_the_week_is_enough_when_both_are_given(void)
{
        EXPECT_DUE("0 0 13 * fri", "UTC", "2026-01-09 00:00", "2026-01-13 00:00", "2026-01-16 00:00", "2026-01-23 00:00");
        EXPECT_DUE("0 0 13 * *", "UTC", "2026-01-09 00:00", "2026-01-13 00:00", "2026-02-13 00:00");
        EXPECT_DUE("0 0 * * fri", "UTC", "2026-01-09 00:00", "2026-01-16 00:00", "2026-01-23 00:00");
        /* Each Monday with an odd date; and the first Sunday of a month. */
        EXPECT_DUE("0 0 */2 * mon", "UTC", "2026-01-01 00:00", "2026-01-05 00:00", "2026-01-19 00:00", "2026-02-09 00:00");
        EXPECT_DUE("0 0 1-7 * */7", "UTC", "2026-01-01 00:00", "2026-01-04 00:00", "2026-02-01 00:00", "2026-03-01 00:00");
}

static void
a_schedule_goes_over_the_ends_of_hours_days_months_and_years(void)
{
        EXPECT_DUE("59 23 31 12 *", "UTC", "2026-12-31 23:58", "2026-12-31 23:59", "2027-12-31 23:59");
        EXPECT_DUE("*/20 22,23 * * *", "UTC", "2026-02-28 23:20", "2026-02-28 23:40", "2026-03-01 22:00");
        EXPECT_DUE("0 12 31 * *", "UTC", "2026-01-31 12:00", "2026-03-31 12:00", "2026-05-31 12:00", "2026-07-31 12:00");
        EXPECT_DUE("0 0 29 2 *", "UTC", "2095-01-01 00:00", "2096-02-29 00:00", "2104-02-29 00:00");
        EXPECT_DUE("30 9 * * mon-fri", "Asia/Kolkata", "2026-01-02 09:30 530", "2026-01-05 09:30 530");
}

static void
a_time_in_a_gap_is_due_once_behind_it(void)
{
        EXPECT_DUE("30 2 * * *", "Europe/Berlin", "2026-03-28 02:30 100", "2026-03-29 03:00 200", "2026-03-30 02:30 200");
        EXPECT_DUE("0-59 2 29 3 *", "Europe/Berlin", "2026-03-01 00:00", "2026-03-29 03:00 200", "2027-03-29 02:00 200");
        EXPECT_DUE("0 2,3 29 3 *", "Europe/Berlin", "2026-03-01 00:00", "2026-03-29 03:00 200", "2027-03-29 02:00 200");
        EXPECT_DUE("15 2 4 10 *", "Australia/Lord_Howe", "2026-10-01 00:00", "2026-10-04 02:30 1100");
        EXPECT_DUE("@daily", "America/Sao_Paulo", "2018-11-03 12:00", "2018-11-04 01:00 -200", "2018-11-05 00:00 -200");
        /* A whole day that the zone left out: a time on it is due when the next day begins. */
        EXPECT_DUE("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00 -1000", "2011-12-29 12:00 -1000", "2011-12-31 00:00 1400",
                   "2011-12-31 12:00 1400");
}

static void
a_time_that_comes_twice_is_due_the_first_time(void)
{
        EXPECT_DUE("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-25 02:30 200", "2026-10-26 02:30 100");
        EXPECT_DUE("30 1 * * *", "America/New_York", "2026-10-31 12:00", "2026-11-01 01:30 -400", "2026-11-02 01:30 -500");
        EXPECT_DUE("0 2,3 25 10 *", "Europe/Berlin", "2026-10-01 00:00", "2026-10-25 02:00 200", "2026-10-25 03:00 100");
        /* Asked between the two, and at the second one. */
        EXPECT_DUE("30 2 * * *", "Europe/Berlin", "2026-10-25 02:10 100", "2026-10-26 02:30 100");
        EXPECT_DUE("30 2 * * *", "Europe/Berlin", "2026-10-25 02:30 100", "2026-10-26 02:30 100");
        EXPECT_DUE("45 1 5 4 *", "Australia/Lord_Howe", "2026-04-01 00:00", "2026-04-05 01:45 1100", "2027-04-05 01:45 1030");
}

static void
a_schedule_with_a_star_goes_on_with_time(void)
{
        EXPECT_DUE("*/30 * * * *", "Europe/Berlin", "2026-03-29 01:20 100", "2026-03-29 01:30 100", "2026-03-29 03:00 200",
                   "2026-03-29 03:30 200");
        EXPECT_DUE("*/30 * * * *", "Europe/Berlin", "2026-10-25 02:00 200", "2026-10-25 02:30 200", "2026-10-25 02:00 100",
                   "2026-10-25 02:30 100", "2026-10-25 03:00 100");
        EXPECT_DUE("30 * * * *", "Australia/Lord_Howe", "2026-04-05 00:50 1100", "2026-04-05 01:30 1100", "2026-04-05 01:30 1030",
                   "2026-04-05 02:30 1030");
        EXPECT_DUE("*/30 2 29 3 *", "Europe/Berlin", "2026-01-01 00:00", "2027-03-29 02:00 200");
}

static void
a_date_that_never_comes_is_never_due(void)
{
        static const char *const never[] = {"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "* * 30 feb *", "*/5 2 8-14 3 */7"};
        struct weir__zone *zone = open_zone("America/New_York");

        for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
                struct weir__cron cron = parse(never[i]);

                CU_ASSERT(weir__cron_next(&cron, zone, instant("2026-01-01 00:00")) == WEIR_FOREVER);
        }
        weir__zone_free(zone);
}

/* The rarest of all days come once in 40 years at least: between two of them lies at most one year like 2100. */
static void
a_leap_day_on_any_day_of_the_week_is_found(void)
{
        struct weir__zone *zone = open_zone("Europe/Berlin");

        for (int weekday = 0; weekday < 7; weekday++) {
                struct weir__cron cron = parse("0 0 29 2 *");
                int64_t day = weir__day_of(1690, 1, 1);

                cron.weekdays = (uint8_t)(1U << weekday);
                for (; day < weir__day_of(2200, 1, 1); day++) {
                        weir_nsec at = weir__cron_next(&cron, zone, day * DAY * SECOND);
                        int64_t second = weir__floor_divide(at, SECOND);
                        int64_t shown = weir__floor_divide(second + weir__zone_span(zone, second).offset, DAY);
                        struct weir__date date = weir__date_of(shown);

                        CU_ASSERT(at != WEIR_FOREVER && date.month == 2 && date.day == 29);
                        CU_ASSERT_EQUAL(weir__weekday(shown), (unsigned)weekday);
                        if (at == WEIR_FOREVER)
                                break;
                        day = at / SECOND / DAY;
                }
        }
        weir__zone_free(zone);
}

static void
instants_are_exact_to_the_nanosecond_and_go_to_both_ends(void)
{
        struct weir__zone *zone = open_zone("Europe/Berlin");
        struct weir__cron minutely = parse("* * * * *"), daily = parse("@daily");
        weir_nsec noon = instant("1969-06-01 12:00"), next;

        CU_ASSERT(weir__cron_next(&minutely, zone, noon - 1) == noon);
        CU_ASSERT(weir__cron_next(&minutely, zone, noon) == noon + 60 * SECOND);
        CU_ASSERT(weir__cron_next(&minutely, zone, noon + 1) == noon + 60 * SECOND);
        CU_ASSERT(weir__cron_next(&minutely, zone, -1) == 0);
        next = instant("1969-06-02 00:00 100");
        CU_ASSERT(weir__cron_next(&daily, zone, noon) == next && weir__cron_next(&daily, zone, next - 1) == next);
        next = instant("2250-07-02 00:00 200"); /* by the rule */
        CU_ASSERT(weir__cron_next(&daily, zone, next - DAY * SECOND) == next);
        CU_ASSERT(weir__cron_next(&daily, zone, WEIR_FOREVER) == WEIR_FOREVER);
        CU_ASSERT(weir__cron_next(&daily, zone, WEIR_FOREVER - SECOND) == WEIR_FOREVER);
        CU_ASSERT(weir__cron_next(&minutely, zone, WEIR_FOREVER - SECOND) == WEIR_FOREVER);
        CU_ASSERT(weir__cron_next(&minutely, zone, INT64_MIN) > INT64_MIN);
        CU_ASSERT(weir__cron_next(&minutely, zone, INT64_MIN) <= INT64_MIN + 60 * SECOND);
        CU_ASSERT(weir__cron_next(&daily, zone, INT64_MIN) <= INT64_MIN + DAY * SECOND);
        weir__zone_free(zone);
}

static void
every_day_of_a_year_is_due_once_in_any_zone(void)
{
        static const char *const zones[] = {"UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca"};

        for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
                struct weir__zone *zone = open_zone(zones[i]);
                struct weir__cron cron = parse("30 2 * * *");
                weir_nsec at = weir__zone_reach(zone, instant("2011-01-15 12:00") / SECOND) * SECOND;
                weir_nsec end = weir__zone_reach(zone, instant("2012-01-15 12:00") / SECOND) * SECOND;
                unsigned count = 0;

                while ((at = weir__cron_next(&cron, zone, at)) < end)
                        count++;
                CU_ASSERT(count == 365);
                weir__zone_free(zone);
        }
}

/* -- random schedules beside a search that looks at each minute -- */

/* A field as text, and what it says. */
struct random_field {
        char text[64];
        bool set[64];
        bool has_star;
};

static void
add_item(struct weir_test_random *random, struct random_field *field, unsigned first, unsigned last)
{
        unsigned from = first + (unsigned)weir_test_random_below(random, last - first + 1);
        unsigned to = from + (unsigned)weir_test_random_below(random, last - from + 1);
        unsigned step = 1 + (unsigned)weir_test_random_below(random, 12) % (last - first + 1);
        char *end = field->text + strlen(field->text);
        size_t room = sizeof field->text - strlen(field->text);

        switch (weir_test_random_below(random, 5)) {
        case 0:
                snprintf(end, room, "%u-%u", from, to);
                step = 1;
                break;
        case 1: snprintf(end, room, "%u-%u/%u", from, to, step); break;
        case 2:
                snprintf(end, room, "*/%u", step);
                field->has_star = true;
                from = first;
                to = last;
                break;
        default: snprintf(end, room, "%u", from); to = from;
        }
        for (unsigned i = from; i <= to; i += step)
                field->set[i] = true;
}

static struct random_field
random_field(struct weir_test_random *random, unsigned first, unsigned last)
{
        struct random_field field = {.text = ""};

        if (weir_test_random_below(random, 3) == 0) {
                strcpy(field.text, "*");
                field.has_star = true;
                memset(field.set, true, sizeof field.set);
                return field;
        }
        add_item(random, &field, first, last);
        while (weir_test_random_below(random, 3) == 0 && strlen(field.text) < 40) {
                strcat(field.text, ",");
                add_item(random, &field, first, last);
        }
        return field;
}

static bool
fields_match(const struct random_field fields[5], const struct tm *tm)
{
        bool date = fields[2].set[tm->tm_mday];
        bool weekday = fields[4].set[tm->tm_wday] || (tm->tm_wday == 0 && fields[4].set[7]);
        bool day = fields[2].has_star || fields[4].has_star ? date && weekday : date || weekday;

        return fields[0].set[tm->tm_min] && fields[1].set[tm->tm_hour] && fields[3].set[tm->tm_mon + 1] && day;
}

struct minute {
        struct tm tm;
        int64_t local; /* in minutes */
};

/* Each minute of a year as the C library sees it; and the local minutes, for those that are left out. */
static struct minute *
look_at_year(const char *zone_name, int64_t begin)
{
        struct minute *minutes = calloc(MINUTES, sizeof *minutes);

        CU_ASSERT_FATAL(minutes != NULL);
        setenv("TZ", zone_name, 1);
        tzset();
        for (int i = 0; i < MINUTES; i++) {
                time_t second = (time_t)(begin + i * 60);

                localtime_r(&second, &minutes[i].tm);
                minutes[i].local = (second + minutes[i].tm.tm_gmtoff) / 60;
        }
        unsetenv("TZ");
        tzset();
        return minutes;
}

/* Whether it is due at minute `i`; `*highest` is the latest local minute until then. */
static bool
is_due(const struct random_field fields[5], const struct minute *minutes, int i, int64_t *highest)
{
        bool due = false;

        if (fields[0].has_star || fields[1].has_star)
                return fields_match(fields, &minutes[i].tm);
        if (minutes[i].local == *highest + 1)
                due = fields_match(fields, &minutes[i].tm);
        for (int64_t local = *highest + 1; local < minutes[i].local; local++) { /* what was left out */
                time_t second = (time_t)(local * 60);
                struct tm tm;

                gmtime_r(&second, &tm);
                due = due || fields_match(fields, &tm) || fields_match(fields, &minutes[i].tm);
        }
        if (minutes[i].local > *highest)
                *highest = minutes[i].local;
        return due;
}

/* Returns whether all instants of the year are those that the search finds, asked from the one before and from between. */
static bool
compare_schedule(struct weir_test_random *random, const struct weir__zone *zone, const struct minute *minutes, int64_t begin)
{
        struct random_field fields[5] = {random_field(random, 0, 59), random_field(random, 0, 23), random_field(random, 1, 31),
                                         random_field(random, 1, 12), random_field(random, 0, 7)};
        char text[400];
        struct weir__cron cron;
        int64_t highest = minutes[0].local;
        weir_nsec last = begin * SECOND;

        snprintf(text, sizeof text, "%s %s %s %s %s", fields[0].text, fields[1].text, fields[2].text, fields[3].text,
                 fields[4].text);
        cron = parse(text);
        for (int i = 1; i < MINUTES; i++) {
                weir_nsec now = (begin + i * 60) * SECOND, after;

                if (!is_due(fields, minutes, i, &highest))
                        continue;
                after = last + (weir_nsec)weir_test_random_below(random, (uint64_t)(now - last));
                if (weir__cron_next(&cron, zone, last) != now || weir__cron_next(&cron, zone, after) != now) {
                        fprintf(stderr, "%s: minute %d of the year (%lld)\n", text, i, (long long)(now / SECOND));
                        return false;
                }
                last = now;
        }
        return weir__cron_next(&cron, zone, last) >= (begin + MINUTES * INT64_C(60)) * SECOND;
}

static void
random_schedules_are_due_when_a_search_of_each_minute_says(void)
{
        static const struct {
                const char *zone;
                int year;
        } rows[] = {
                {"Europe/Berlin", 2026}, {"America/New_York", 2024},  {"Australia/Lord_Howe", 2025}, {"Africa/Casablanca", 2025},
                {"Pacific/Apia", 2011},  {"America/Sao_Paulo", 2018}, {"Asia/Kolkata", 1969},        {"Europe/Dublin", 2090},
                {"Africa/Cairo", 2010},  {"Antarctica/Troll", 2026},  {"America/Caracas", 2007},     {"Asia/Pyongyang", 2018},
        };
        struct weir_test_random random = {.state = weir_test_seed()};

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                int64_t begin = weir__day_of(rows[i].year, 1, 1) * DAY;
                struct weir__zone *zone = open_zone(rows[i].zone);
                struct minute *minutes = look_at_year(rows[i].zone, begin);

                for (unsigned n = 0; n < (WEIR_TEST_SANITIZED ? 12 : 60); n++)
                        CU_ASSERT(compare_schedule(&random, zone, minutes, begin));
                free(minutes);
                weir__zone_free(zone);
        }
}

static const struct weir_test tests[] = {
        WEIR_TEST(fields_are_lists_of_numbers_ranges_steps_and_names),
        WEIR_TEST(some_schedules_mean_the_same),
        WEIR_TEST(a_mistake_is_told_with_its_place_and_what_was_expected),
        WEIR_TEST(any_text_is_read_within_its_bounds),
        WEIR_TEST(a_day_of_the_month_or_of_the_week_is_enough_when_both_are_given),
        WEIR_TEST(a_schedule_goes_over_the_ends_of_hours_days_months_and_years),
        WEIR_TEST(a_time_in_a_gap_is_due_once_behind_it),
        WEIR_TEST(a_time_that_comes_twice_is_due_the_first_time),
        WEIR_TEST(a_schedule_with_a_star_goes_on_with_time),
        WEIR_TEST(a_date_that_never_comes_is_never_due),
        WEIR_TEST(a_leap_day_on_any_day_of_the_week_is_found),
        WEIR_TEST(instants_are_exact_to_the_nanosecond_and_go_to_both_ends),
        WEIR_TEST(every_day_of_a_year_is_due_once_in_any_zone),
        WEIR_TEST(random_schedules_are_due_when_a_search_of_each_minute_says),
};

int
main(void)
{
        return weir_test_main("cron", tests, sizeof tests / sizeof tests[0]);
}
