/* test/zone_test.c: time zones beside those of the C library, which reads the same files; broken files; dates.
 *
 * The C library knows the zone of the process only, so the tests set TZ, on their one thread. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernel/calendar/calendar.h"
#include "kernel/calendar/zone.h"
#include "kernel/calendar/zone_rule.h"
#include "test/support.h"

#define ZONEINFO  "/usr/share/zoneinfo" /* of the package tzdata */
#define YEAR_1900 INT64_C(-2208988800)
#define YEAR_2100 INT64_C(4102444800)
#define YEAR_2200 INT64_C(7258118400)
#define DAY       WEIR__SECONDS_A_DAY

static const char *const names[] = {
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Pacific/Apia",
        "America/Sao_Paulo",
        "Europe/Dublin",
        "Africa/Monrovia",
        "America/Nuuk",
        "Asia/Gaza",
        "Asia/Tehran",
        "Antarctica/Troll",
        "America/Santiago",
        "Asia/Manila",
        "Pacific/Kwajalein",
        "Etc/GMT+12",
        "Europe/Moscow",
        "America/Scoresbysund",
        "Pacific/Auckland",
        "EST5EDT",
        "Asia/Kathmandu",
        "Pacific/Kiritimati",
};
#define NAMES (sizeof names / sizeof names[0])

static struct weir__zone *
open_zone(const char *name)
{
        struct weir__zone *zone = NULL;
        int failed = weir__zone_open(name, &zone);

        if (failed)
                fprintf(stderr, "%s: %s (the package tzdata has to be installed)\n", name ? name : "(local)", strerror(-failed));
        CU_ASSERT_FATAL(zone != NULL);
        return zone;
}

static int
failure(const char *name)
{
        struct weir__zone *zone = NULL;
        int failed = weir__zone_open(name, &zone);

        CU_ASSERT((zone == NULL) == (failed != 0));
        weir__zone_free(zone);
        return failed;
}

static void
set_process_zone(const char *name)
{
        if (name)
                setenv("TZ", name, 1);
        else
                unsetenv("TZ");
        tzset();
}

/* What the clocks show. */
static struct tm
local_time(const struct weir__zone *zone, int64_t second)
{
        time_t local = (time_t)(second + weir__zone_span(zone, second).offset);
        struct tm shown;

        gmtime_r(&local, &shown);
        return shown;
}

/* Whether both say the same of one second. */
static bool
agrees(const struct weir__zone *zone, const char *name, int64_t second)
{
        int32_t ours = weir__zone_span(zone, second).offset;
        time_t instant = (time_t)second;
        struct tm theirs;

        localtime_r(&instant, &theirs);
        if (ours == theirs.tm_gmtoff)
                return true;
        fprintf(stderr, "%s at %lld: offset %d instead of %ld\n", name, (long long)second, ours, theirs.tm_gmtoff);
        return false;
}

static unsigned
disagreements(const char *name, int64_t from, int64_t to, int64_t step)
{
        struct weir__zone *zone = open_zone(name);
        unsigned wrong = 0;

        set_process_zone(name);
        for (int64_t second = from; second < to && wrong < 5; second += step)
                wrong += !agrees(zone, name, second);
        /* And around each change, as we see them. */
        for (int64_t second = from; second < to && wrong < 5; second = weir__zone_span(zone, second).until)
                wrong += !agrees(zone, name, second) + !agrees(zone, name, second - 1);
        set_process_zone(NULL);
        weir__zone_free(zone);
        return wrong;
}

static void
zones_say_what_the_library_of_c_says_from_1900_to_2200(void)
{
        for (size_t i = 0; i < NAMES; i++)
                CU_ASSERT(disagreements(names[i], YEAR_1900, YEAR_2200, (WEIR_TEST_SANITIZED ? 10 : 1) * INT64_C(46700)) == 0);
}

/* Its lines are `Z NAME ...` and `L TARGET NAME`, and others. */
static void
all_zones_of_the_system_say_what_the_library_of_c_says(void)
{
        FILE *table = fopen(ZONEINFO "/tzdata.zi", "re");
        char line[512], name[128];
        unsigned count = 0;

        CU_ASSERT_FATAL(table != NULL);
        while (fgets(line, sizeof line, table)) {
                if (sscanf(line, "Z %127s", name) == 1 || sscanf(line, "L %*s %127s", name) == 1) {
                        char path[256];

                        snprintf(path, sizeof path, ZONEINFO "/%s", name);
                        if (access(path, R_OK) < 0)
                                continue; /* some are in another package */
                        CU_ASSERT(disagreements(name, YEAR_1900, YEAR_2100, (WEIR_TEST_SANITIZED ? 301 : 31) * DAY + 3607) == 0);
                        count++;
                }
        }
        fclose(table);
        CU_ASSERT(count > 300);
}

/* The first second at which the clocks show it or something later, by looking at each. */
static int64_t
reach_slowly(const struct weir__zone *zone, int64_t local)
{
        int64_t second = local - 2 * DAY;

        while (second + weir__zone_span(zone, second).offset < local)
                second += 60;
        return second;
}

static int64_t
highest_slowly(const struct weir__zone *zone, int64_t second)
{
        int64_t highest = INT64_MIN;

        for (int64_t s = second - 3 * DAY; s <= second; s += 60) {
                int64_t local = s + weir__zone_span(zone, s).offset + (s < second ? 59 : 0); /* the seconds of that minute */

                highest = local > highest ? local : highest;
        }
        return highest;
}

static void
going_back_finds_the_first_of_two_and_the_end_of_a_gap(void)
{
        struct weir_test_random random = {.state = weir_test_seed()};

        for (size_t i = 0; i < NAMES; i++) {
                struct weir__zone *zone = open_zone(names[i]);
                int64_t second = INT64_C(1100000000) / 60 * 60; /* 2004: whole minutes since, everywhere */
                unsigned wrong = 0;

                for (unsigned n = 0; n < 30; n++) {
                        int64_t until = weir__zone_span(zone, second).until, near, local;

                        second = until < YEAR_2100 ? until : second + DAY * 91;
                        near = second + 60 * ((int64_t)weir_test_random_below(&random, 400) - 200);
                        local = near + weir__zone_span(zone, near).offset;
                        wrong += weir__zone_reach(zone, local) != reach_slowly(zone, local);
                        local = second + 60 * (int64_t)weir_test_random_below(&random, 1500);
                        wrong += weir__zone_reach(zone, local) != reach_slowly(zone, local);
                        wrong += weir__zone_highest(zone, near) != highest_slowly(zone, near);
                }
                CU_ASSERT(wrong == 0);
                weir__zone_free(zone);
        }
}

static void
dates_and_days_are_those_of_the_library_of_c(void)
{
        struct weir_test_random random = {.state = weir_test_seed()};
        unsigned wrong = 0;

        for (int n = 0; n < 200000; n++) {
                int64_t day = n < 150000 ? n - 75000 : (int64_t)weir_test_random_below(&random, 2000000) - 1000000;
                struct weir__date date = weir__date_of(day);
                time_t instant = (time_t)(day * DAY);
                struct tm tm;

                gmtime_r(&instant, &tm);
                wrong += date.year != tm.tm_year + 1900 || (int)date.month != tm.tm_mon + 1 || (int)date.day != tm.tm_mday;
                wrong += (int)weir__weekday(day) != tm.tm_wday || weir__day_of(date.year, date.month, date.day) != day;
                wrong += date.day > weir__days_in_month(date.year, date.month);
                date = weir__date_of(day + 1);
                wrong += date.day == 1 && tm.tm_mday != (int)weir__days_in_month(tm.tm_year + 1900, (unsigned)tm.tm_mon + 1);
        }
        CU_ASSERT(wrong == 0);
}

static void
the_day_that_apia_left_out_is_a_gap(void)
{
        struct weir__zone *zone = open_zone("Pacific/Apia");
        int64_t behind = weir__day_of(2011, 12, 30) * DAY + 10 * 3600; /* 31 December, 00:00, 14 hours ahead */

        CU_ASSERT(local_time(zone, behind - 1).tm_mday == 29);
        CU_ASSERT(local_time(zone, behind).tm_mday == 31);
        CU_ASSERT(weir__zone_reach(zone, weir__day_of(2011, 12, 30) * DAY + 12 * 3600) == behind);
        weir__zone_free(zone);
}

static void
a_name_cannot_leave_its_directory(void)
{
        static const char *const wrong[] = {"/etc/localtime",
                                            "../zoneinfo/Europe/Berlin",
                                            "Europe/../Europe/Berlin",
                                            "..",
                                            ".",
                                            "Europe/Berlin ",
                                            "Europe\\Berlin",
                                            "zone.tab",
                                            "Europe/Berl\xc3\xadn",
                                            "CET-1CEST,M3.5.0,M10.5.0/3"};
        char longest[400];

        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
                CU_ASSERT(failure(wrong[i]) == -EINVAL);
        memset(longest, 'a', sizeof longest);
        longest[sizeof longest - 1] = '\0';
        CU_ASSERT(failure(longest) == -EINVAL);
        CU_ASSERT(failure("Europe/Atlantis") == -ENOENT);
        CU_ASSERT(failure("Europe/Berlin/Mitte") == -ENOENT);
        CU_ASSERT(failure("Europe") == -ENOENT);
        CU_ASSERT(failure("UTC") == 0);
}

static int32_t
offset_now(const char *name, int64_t second)
{
        struct weir__zone *zone = open_zone(name);
        int32_t offset = weir__zone_span(zone, second).offset;

        weir__zone_free(zone);
        return offset;
}

static void
the_local_zone_is_that_of_the_process(void)
{
        static const struct {
                const char *value;
                int failed;
                int32_t offset; /* in July */
        } rows[] = {
                {"Europe/Berlin", 0, 7200},
                {":America/New_York", 0, -14400},
                {ZONEINFO "/Asia/Kolkata", 0, 19800},
                {"", 0, 0},
                {":", 0, 0},
                {"UTC", 0, 0},
                {"<-0330>3:30<-0230>,M3.2.0/0:01,M11.1.0/0:01", 0, -9000},
                {"CET-1CEST,M3.5.0,M10.5.0/3", 0, 7200},
                {"Nowhere/Land", -ENOENT, 0},
                {"/nowhere", -ENOENT, 0},
                {"CET-1CEST", -ENOENT, 0},
        };
        struct weir__zone *zone;

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                setenv("TZ", rows[i].value, 1);
                CU_ASSERT(failure(NULL) == rows[i].failed);
                CU_ASSERT(rows[i].failed || offset_now("", weir__day_of(2026, 7, 1) * DAY) == rows[i].offset);
        }
        set_process_zone(NULL);
        zone = open_zone(NULL);
        CU_ASSERT(agrees(zone, "the local zone", weir__day_of(2026, 7, 1) * DAY));
        weir__zone_free(zone);
}

static void
rules_say_what_the_library_of_c_says(void)
{
        static const char *const rules[] = {
                "CET-1CEST,M3.5.0,M10.5.0/3",
                "IST-1GMT0,M10.5.0,M3.5.0/1",
                "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
                "EET-2EEST,M3.4.4/50,M10.4.4/50",
                "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
                "AAA4BBB,J60,J300/3",
                "AAA4BBB,59,299/3",
                "AAA-12:30:15BBB,J59,M12.1.6",
                "UTC0",
        };

        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
                struct weir__zone *zone;
                unsigned wrong = 0;

                set_process_zone(rules[i]);
                zone = open_zone(NULL);
                for (int64_t s = weir__day_of(1971, 1, 1) * DAY; s < YEAR_2100 && wrong < 5; s += INT64_C(46700))
                        wrong += !agrees(zone, rules[i], s);
                for (int64_t s = weir__day_of(1971, 1, 1) * DAY; s < YEAR_2100 && wrong < 5; s = weir__zone_span(zone, s).until)
                        wrong += !agrees(zone, rules[i], s) + !agrees(zone, rules[i], s - 1);
                CU_ASSERT(wrong == 0);
                weir__zone_free(zone);
        }
        set_process_zone(NULL);
}

static void
daylight_time_for_the_whole_year_never_ends(void)
{
        static const char text[] = "EST5EDT,0/0,J365/25";
        struct weir__zone_rule rule;
        int64_t until;
        unsigned wrong = 0;

        CU_ASSERT_FATAL(weir__zone_rule_parse(text, text + strlen(text), &rule) == 0);
        for (int64_t second = YEAR_1900; second < YEAR_2100; second += 1800)
                wrong += weir__zone_rule_offset(&rule, second, &until) != -4 * 3600;
        CU_ASSERT(wrong == 0);
}

static void
rules_that_are_none_are_refused(void)
{
        static const char *const wrong[] = {
                "",
                "A",
                "AB0",
                "ABC",
                "ABC25",
                "ABC-",
                "ABC1:60",
                "<AB>0",
                "<ABC0",
                "<A.C>0",
                "ABC0DEF",
                "ABC0DEF,",
                "ABC0DEF,M3.5.0",
                "ABC0DEF,M3.5.0,",
                "ABC0DEF,M3.5.0,M0.5.0",
                "ABC0DEF,M3.5.0,M13.5.0",
                "ABC0DEF,M3.5.0,M1.6.0",
                "ABC0DEF,M3.5.0,M1.0.0",
                "ABC0DEF,M3.5.0,M1.1.7",
                "ABC0DEF,J0,J3",
                "ABC0DEF,J1,J366",
                "ABC0DEF,1,366",
                "ABC0DEF,1,2/168",
                "ABC0DEF,1,2/3x",
                "ABC0 ",
                "ABC99999999999999999999",
                "ABC0DEF;1;2",
                "ABC0DEF,1.2.3,4",
        };
        struct weir__zone_rule rule;

        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
                CU_ASSERT(weir__zone_rule_parse(wrong[i], wrong[i] + strlen(wrong[i]), &rule) == -EBADMSG);
}

/* A directory in which a zone is made of any bytes. */
static char directory[] = "/tmp/weir_zone_XXXXXX";

static void
write_zone(const void *bytes, size_t size)
{
        char path[sizeof directory + 8];
        int fd;

        snprintf(path, sizeof path, "%s/Zone", directory);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CU_ASSERT_FATAL(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        CU_ASSERT_FATAL(ftruncate(fd, (off_t)size) == 0); /* not O_TRUNC: some file systems then wait for the disk */
        close(fd);
}

static int
failure_of(const void *bytes, size_t size)
{
        write_zone(bytes, size);
        return failure("Zone");
}

static size_t
read_file(const char *name, unsigned char *bytes, size_t size)
{
        char path[256];
        FILE *file;
        size_t n;

        snprintf(path, sizeof path, ZONEINFO "/%s", name);
        file = fopen(path, "re");
        CU_ASSERT_FATAL(file != NULL);
        n = fread(bytes, 1, size, file);
        fclose(file);
        return n;
}

static void
begin_directory(void)
{
        strcpy(directory + sizeof directory - 7, "XXXXXX");
        CU_ASSERT_FATAL(mkdtemp(directory) != NULL);
        setenv("TZDIR", directory, 1);
}

static void
end_directory(void)
{
        char path[sizeof directory + 8];

        snprintf(path, sizeof path, "%s/Zone", directory);
        unlink(path);
        rmdir(directory);
        unsetenv("TZDIR");
}

static void
a_file_that_was_cut_is_refused(void)
{
        static unsigned char bytes[8192];
        size_t size = read_file("Europe/Berlin", bytes, sizeof bytes);
        unsigned wrong = 0;

        begin_directory();
        for (size_t cut = 0; cut < size; cut += WEIR_TEST_SANITIZED ? 7 : 1)
                wrong += failure_of(bytes, cut) != -EBADMSG;
        CU_ASSERT(wrong == 0);
        CU_ASSERT(failure_of(bytes, size) == 0);
        end_directory();
}

/* Whatever it says then: it is read within its bounds, and each question has an answer soon. */
static void
a_file_with_other_bytes_does_no_harm(void)
{
        static const char *const models[] = {"Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "UTC"};
        struct weir_test_random random = {.state = weir_test_seed()};
        static unsigned char model[8192], bytes[8192];
        unsigned opened = 0, refused = 0;

        begin_directory();
        for (unsigned n = 0; n < (WEIR_TEST_SANITIZED ? 2000 : 6000); n++) {
                size_t size = read_file(models[n % 4], model, sizeof model);
                struct weir__zone *zone;

                memcpy(bytes, model, size);
                for (uint64_t k = weir_test_random_below(&random, 4) + 1; k > 0; k--) {
                        uint64_t where = weir_test_random_below(&random, 3);
                        size_t at = where == 0 ? weir_test_random_below(&random, 44) : weir_test_random_below(&random, size);

                        bytes[where == 2 && size > 60 ? size - 1 - at % 60 : at] = (unsigned char)weir_test_random(&random);
                }
                write_zone(bytes, size);
                zone = NULL;
                weir__zone_open("Zone", &zone);
                opened += zone != NULL;
                refused += zone == NULL;
                for (unsigned k = 0; zone && k < 10; k++) {
                        int64_t second = (int64_t)weir_test_random_below(&random, INT64_C(18000000000)) - INT64_C(9000000000);
                        struct weir__zone_span span = weir__zone_span(zone, second);
                        int64_t reached = weir__zone_reach(zone, second);

                        CU_ASSERT(span.until > second);
                        CU_ASSERT(reached + weir__zone_span(zone, reached).offset >= second);
                        CU_ASSERT(reached - 1 + weir__zone_span(zone, reached - 1).offset < second);
                        CU_ASSERT(weir__zone_highest(zone, second) >= second + span.offset);
                }
                weir__zone_free(zone);
        }
        CU_ASSERT(opened > 0 && refused > 0);
        end_directory();
}

static void
a_file_that_is_not_a_zone_file_is_refused(void)
{
        static unsigned char bytes[300 * 1024];
        char path[sizeof directory + 8];
        size_t size = read_file("Europe/Berlin", bytes, sizeof bytes);

        begin_directory();
        CU_ASSERT(failure_of("hello", 5) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, sizeof bytes) == -EBADMSG); /* too large */
        bytes[4] = 0;
        CU_ASSERT(failure_of(bytes, size) == -EBADMSG); /* of version 1 */
        snprintf(path, sizeof path, "%s/Zone", directory);
        unlink(path);
        CU_ASSERT(mkfifo(path, 0600) == 0);
        CU_ASSERT(failure("Zone") == -EBADMSG); /* and is not waited for */
        end_directory();
}

/* Two headers, a body without changes of one type, UTC, behind the second one; `leaps` leap seconds. */
static size_t
make_file(unsigned char *bytes, unsigned char leaps, const char *footer)
{
        unsigned char *header = bytes;

        memset(bytes, 0, 256);
        for (int i = 0; i < 2; i++) {
                memcpy(header, "TZif2", 5);
                header[31] = leaps;
                header[39] = 1; /* type */
                header[43] = 4; /* bytes of names */
                header += 44 + 6 + 4 + leaps * (i ? 12 : 8);
        }
        memcpy(header, footer, strlen(footer));
        return (size_t)(header - bytes) + strlen(footer);
}

static void
leap_seconds_are_refused_and_a_file_may_be_its_rule(void)
{
        unsigned char bytes[256];
        struct weir__zone *zone;

        begin_directory();
        CU_ASSERT(failure_of(bytes, make_file(bytes, 1, "\n\n")) == -EOPNOTSUPP);
        CU_ASSERT(failure_of(bytes, make_file(bytes, 0, "\n\n")) == 0);
        CU_ASSERT(failure_of(bytes, make_file(bytes, 0, "\n")) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, make_file(bytes, 0, "\nCET-1CEST\n")) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, make_file(bytes, 0, "\nCET-1CEST,M3.5.0,M10.5.0/3\n")) == 0);
        zone = open_zone("Zone");
        CU_ASSERT(local_time(zone, weir__day_of(1920, 7, 1) * DAY).tm_hour == 2);
        CU_ASSERT(local_time(zone, weir__day_of(2120, 1, 1) * DAY).tm_hour == 1);
        weir__zone_free(zone);
        end_directory();
}

/* A file of three changes to these types, the offsets of the two types, and a rule. */
static size_t
make_table(unsigned char *bytes, const int64_t seconds[3], const unsigned char types[3], const int32_t offsets[2])
{
        static const char footer[] = "\nCET-1CEST,M3.5.0,M10.5.0/3\n";
        unsigned char *at = bytes + make_file(bytes, 0, "") - 54, *header = at;

        header[35] = 3;
        header[39] = 2;
        at += 44;
        for (int i = 0; i < 3; i++, at += 8) {
                uint64_t big = htobe64((uint64_t)seconds[i]);

                memcpy(at, &big, 8);
        }
        memcpy(at, types, 3);
        at += 3;
        for (int i = 0; i < 2; i++, at += 6) {
                uint32_t big = htobe32((uint32_t)offsets[i]);

                memset(at, 0, 6);
                memcpy(at, &big, 4);
        }
        memset(at, 0, 4);
        memcpy(at + 4, footer, strlen(footer));
        return (size_t)(at + 4 - bytes) + strlen(footer);
}

static void
a_table_is_ascending_and_its_rule_begins_behind_it(void)
{
        static const int64_t good[] = {100, 200, 300}, equal[] = {100, 200, 200}, back[] = {100, 300, 200};
        static const unsigned char types[] = {1, 0, 0}, beyond[] = {1, 0, 2};
        static const int32_t offsets[] = {3600, 7200}, east[] = {3600, 93601}, west[] = {3600, -93601};
        unsigned char bytes[512];
        struct weir__zone *zone;

        begin_directory();
        CU_ASSERT(failure_of(bytes, make_table(bytes, equal, types, offsets)) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, make_table(bytes, back, types, offsets)) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, make_table(bytes, good, beyond, offsets)) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, make_table(bytes, good, types, east)) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, make_table(bytes, good, types, west)) == -EBADMSG);
        CU_ASSERT(failure_of(bytes, make_table(bytes, good, types, offsets)) == 0);
        zone = open_zone("Zone");
        CU_ASSERT(weir__zone_span(zone, 99).offset == 3600 && weir__zone_span(zone, 100).offset == 7200);
        CU_ASSERT(weir__zone_span(zone, 200).offset == 3600 && weir__zone_span(zone, 200).until == 300);
        CU_ASSERT(weir__zone_span(zone, 300).until == weir__day_of(1970, 3, 29) * DAY + 3600);
        weir__zone_free(zone);
        end_directory();
}

static const struct weir_test tests[] = {
        WEIR_TEST(zones_say_what_the_library_of_c_says_from_1900_to_2200),
        WEIR_TEST(all_zones_of_the_system_say_what_the_library_of_c_says),
        WEIR_TEST(going_back_finds_the_first_of_two_and_the_end_of_a_gap),
        WEIR_TEST(dates_and_days_are_those_of_the_library_of_c),
        WEIR_TEST(the_day_that_apia_left_out_is_a_gap),
        WEIR_TEST(a_name_cannot_leave_its_directory),
        WEIR_TEST(the_local_zone_is_that_of_the_process),
        WEIR_TEST(rules_say_what_the_library_of_c_says),
        WEIR_TEST(daylight_time_for_the_whole_year_never_ends),
        WEIR_TEST(rules_that_are_none_are_refused),
        WEIR_TEST(a_file_that_was_cut_is_refused),
        WEIR_TEST(a_file_with_other_bytes_does_no_harm),
        WEIR_TEST(a_file_that_is_not_a_zone_file_is_refused),
        WEIR_TEST(leap_seconds_are_refused_and_a_file_may_be_its_rule),
        WEIR_TEST(a_table_is_ascending_and_its_rule_begins_behind_it),
};

int
main(void)
{
        return weir_test_main("zone", tests, sizeof tests / sizeof tests[0]);
}
