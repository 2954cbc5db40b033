/* test/range_test.c: the parts of a file that a Range field selects, and the Content-Range of a part. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/field/range.h"
#include "test/support.h"

#define PART(field, size, at, part)            \
        {                                      \
                field, size, WEIR__RANGE_PART, \
                {                              \
                        at, part               \
                }                              \
        }
#define ALL(field, size)                       \
        {                                      \
                field, size, WEIR__RANGE_NONE, \
                {                              \
                        0, size                \
                }                              \
        }
#define UNSATISFIABLE(field, size)                      \
        {                                               \
                field, size, WEIR__RANGE_UNSATISFIABLE, \
                {                                       \
                        0, 0                            \
                }                                       \
        }

struct row {
        const char *field;
        uint64_t size;
        enum weir__range_kind kind;
        struct weir__range range;
};

/* Reads a copy that ends where its memory ends, so that a sanitizer sees a read behind it. */
static bool
row_holds(const struct row *row)
{
        char *field = row->field ? strdup(row->field) : NULL;
        struct weir__range range;
        enum weir__range_kind kind = weir__range_read(field, row->size, &range);
        bool holds = kind == row->kind &&
                     (kind == WEIR__RANGE_UNSATISFIABLE || (range.at == row->range.at && range.size == row->range.size));

        if (!holds) {
                printf("\n  \"%s\" of %" PRIu64 ": kind %d, %" PRIu64 " bytes at %" PRIu64, row->field, row->size, kind,
                       range.size, range.at);
        }
        free(field);
        return holds;
}

static void
assert_rows(const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                CU_ASSERT(row_holds(&rows[i]));
        }
}

#define ASSERT_ROWS(rows) assert_rows(rows, sizeof(rows) / sizeof *(rows))

static void
one_range_selects_its_bytes(void)
{
        static const struct row rows[] = {
                PART("bytes=0-0", 10, 0, 1),   PART("bytes=0-4", 10, 0, 5),       PART("bytes=9-9", 10, 9, 1),
                PART("bytes=3-", 10, 3, 7),    PART("bytes=0-", 10, 0, 10),       PART("bytes=0-9", 10, 0, 10),
                PART("bytes=0-10", 10, 0, 10), PART("bytes=5-1000000", 10, 5, 5), PART("bytes=-1", 10, 9, 1),
                PART("bytes=-10", 10, 0, 10),  PART("bytes=-11", 10, 0, 10),      PART("bytes=007-008", 10, 7, 2),
        };

        ASSERT_ROWS(rows);
}

static void
the_unit_and_the_list_are_read_kindly(void)
{
        static const struct row rows[] = {
                PART("BYTES=1-2", 10, 1, 2),
                PART("Bytes=1-2", 10, 1, 2),
                PART("bytes=,1-2", 10, 1, 2),
                PART("bytes= , 1-2 ,, ", 10, 1, 2),
        };

        ASSERT_ROWS(rows);
}

static void
a_range_behind_the_end_cannot_be_satisfied(void)
{
        static const struct row rows[] = {
                UNSATISFIABLE("bytes=10-", 10), UNSATISFIABLE("bytes=10-10", 10), UNSATISFIABLE("bytes=11-20", 10),
                UNSATISFIABLE("bytes=-0", 10),  UNSATISFIABLE("bytes=-0", 0),     UNSATISFIABLE("bytes=0-", 0),
                UNSATISFIABLE("bytes=0-0", 0),
        };

        ASSERT_ROWS(rows);
}

static void
the_end_of_nothing_is_all_of_it(void)
{
        static const struct row rows[] = {ALL("bytes=-1", 0), ALL("bytes=-100", 0)};

        ASSERT_ROWS(rows);
}

static void
numbers_of_any_size_do_not_wrap(void)
{
        static const struct row rows[] = {
                PART("bytes=1-18446744073709551615", 10, 1, 9),
                PART("bytes=1-18446744073709551616", 10, 1, 9),
                PART("bytes=1-18446744073709551617", 10, 1, 9),
                PART("bytes=1-99999999999999999999999999999999", 10, 1, 9),
                PART("bytes=-18446744073709551616", 10, 0, 10),
                PART("bytes=-18446744073709551618", 10, 0, 10),
                UNSATISFIABLE("bytes=18446744073709551616-", 10),
                UNSATISFIABLE("bytes=18446744073709551617-18446744073709551618", 10),
                PART("bytes=18446744073709551613-18446744073709551615", UINT64_MAX, UINT64_MAX - 2, 2),
                PART("bytes=0-", UINT64_MAX, 0, UINT64_MAX),
        };

        ASSERT_ROWS(rows);
}

static void
an_invalid_range_is_ignored(void)
{
        static const struct row rows[] = {ALL(NULL, 10),          ALL("", 10),
                                          ALL("bytes", 10),       ALL("bytes=", 10),
                                          ALL("bytes=-", 10),     ALL("bytes=,", 10),
                                          ALL("bytes=1", 10),     ALL("bytes=2-1", 10),
                                          ALL("bytes=1-2-", 10),  ALL("bytes=1-2-3", 10),
                                          ALL("bytes=--1", 10),   ALL("bytes=+1-2", 10),
                                          ALL("bytes=1 -2", 10),  ALL("bytes=1- 2", 10),
                                          ALL("bytes=0x1-2", 10), ALL("bytes=a-b", 10),
                                          ALL("bytes=1-2x", 10),  ALL("bytes =1-2", 10),
                                          ALL(" bytes=1-2", 10),  ALL("bytes:1-2", 10),
                                          ALL("octets=1-2", 10),  ALL("byte=1-2", 10),
                                          ALL("bytess=1-2", 10),  ALL("1-2", 10),
                                          ALL("bytes=20-11", 10), ALL("bytes=1-2;q", 10),
                                          ALL("none", 10),        ALL("bytes=1-2 3", 10)};

        ASSERT_ROWS(rows);
}

static void
several_ranges_are_ignored(void)
{
        static const struct row rows[] = {ALL("bytes=0-1,3-4", 10), ALL("bytes=0-1, 3-4", 10),  ALL("bytes=0-,-1", 10),
                                          ALL("bytes=0-1,x", 10),   ALL("bytes=20-30,40-", 10), ALL("bytes=0-0,0-0,0-0,0-0", 10)};

        ASSERT_ROWS(rows);
}

/* Against a model with small numbers: each byte is asked whether it is in the range. */
static void
all_small_ranges_are_those_of_a_model(void)
{
        unsigned wrong = 0;

        for (uint64_t size = 0; size < 8; size++) {
                for (uint64_t first = 0; first < 10; first++) {
                        for (uint64_t last = first; last < 10; last++) {
                                uint64_t count = 0;
                                char field[32];

                                for (uint64_t i = 0; i < size; i++) {
                                        count += i >= first && i <= last;
                                }
                                snprintf(field, sizeof field, "bytes=%" PRIu64 "-%" PRIu64, first, last);
                                const struct row row = {
                                        field, size, count ? WEIR__RANGE_PART : WEIR__RANGE_UNSATISFIABLE, {first, count}};
                                wrong += !row_holds(&row);
                        }
                }
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

static void
a_part_is_called_by_its_first_and_last_byte(void)
{
        const struct weir__range part = {3, 4}, largest = {UINT64_MAX - 2, 1}, all = {0, UINT64_MAX};
        char text[WEIR__CONTENT_RANGE_SIZE];

        weir__range_print(text, &part, 10);
        CU_ASSERT_STRING_EQUAL(text, "bytes 3-6/10");
        weir__range_print(text, NULL, 10);
        CU_ASSERT_STRING_EQUAL(text, "bytes */10");
        weir__range_print(text, NULL, 0);
        CU_ASSERT_STRING_EQUAL(text, "bytes */0");
        weir__range_print(text, &largest, UINT64_MAX);
        CU_ASSERT_STRING_EQUAL(text, "bytes 18446744073709551613-18446744073709551613/18446744073709551615");
        CU_ASSERT_EQUAL(strlen(text) + 1, sizeof text);
        weir__range_print(text, &all, UINT64_MAX);
        CU_ASSERT_STRING_EQUAL(text, "bytes 0-18446744073709551614/18446744073709551615");
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(one_range_selects_its_bytes),
                WEIR_TEST(the_unit_and_the_list_are_read_kindly),
                WEIR_TEST(a_range_behind_the_end_cannot_be_satisfied),
                WEIR_TEST(the_end_of_nothing_is_all_of_it),
                WEIR_TEST(numbers_of_any_size_do_not_wrap),
                WEIR_TEST(an_invalid_range_is_ignored),
                WEIR_TEST(several_ranges_are_ignored),
                WEIR_TEST(all_small_ranges_are_those_of_a_model),
                WEIR_TEST(a_part_is_called_by_its_first_and_last_byte),
        };

        return weir_test_main("range", tests, sizeof tests / sizeof *tests);
}
