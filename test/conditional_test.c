/* test/conditional_test.c: reading of dates and entity tags, and the effect of the conditions of a request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/field/conditional.h"
#include "protocol/text/date.h"
#include "protocol/field/etag.h"
#include "test/support.h"

#define WHEN    INT64_C(784111777)  /* Sun, 06 Nov 1994 08:49:37 GMT */
#define NOW     INT64_C(1700000000) /* in November 2023 */
#define DATE    "Sun, 06 Nov 1994 08:49:37 GMT"
#define EARLIER "Sun, 06 Nov 1994 08:49:36 GMT"
#define LATER   "Sun, 06 Nov 1994 08:49:38 GMT"
#define TAG     "\"a-1\""

/* -- dates -- */

static bool
date_is(const char *text, int64_t now, int64_t expected)
{
        char *copy = strdup(text); /* a sanitizer sees a read behind it */
        int64_t seconds = 0;
        bool is_date = weir__http_date_read(copy, now, &seconds);

        free(copy);
        if (!is_date || seconds != expected) {
                printf("\n  %s: %s%" PRId64, text, is_date ? "" : "none, ", seconds);
        }
        return is_date && seconds == expected;
}

static void
a_date_is_read_in_all_three_formats(void)
{
        CU_ASSERT(date_is("Sun, 06 Nov 1994 08:49:37 GMT", NOW, WHEN));
        CU_ASSERT(date_is("Sunday, 06-Nov-94 08:49:37 GMT", NOW, WHEN));
        CU_ASSERT(date_is("Sun Nov  6 08:49:37 1994", NOW, WHEN));
        CU_ASSERT(date_is("Sun Nov 06 08:49:37 1994", NOW, WHEN));
        CU_ASSERT(date_is("Sun Nov 16 08:49:37 1994", NOW, WHEN + 10 * 86400));
        CU_ASSERT(date_is("Wednesday, 16-Nov-94 08:49:37 GMT", NOW, WHEN + 10 * 86400));
        CU_ASSERT(date_is("Mon, 01 Jan 0000 00:00:00 GMT", NOW, INT64_C(-62167219200)));
        CU_ASSERT(date_is("Wed, 31 Dec 1969 23:59:59 GMT", NOW, -1));
        CU_ASSERT(date_is("Fri, 31 Dec 9999 23:59:59 GMT", NOW, INT64_C(253402300799)));
        CU_ASSERT(date_is("Sat, 31 Dec 2016 23:59:60 GMT", NOW, 1483228800)); /* a leap second */
        CU_ASSERT(date_is("Tue, 29 Feb 2000 00:00:00 GMT", NOW, 951782400));
}

static void
every_date_that_is_written_is_read(void)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned wrong = 0;

        for (unsigned i = 0; i < 100000; i++) {
                int64_t seconds = (int64_t)weir_test_random_below(&random, UINT64_C(253402300800)), read = -1;
                char date[WEIR__HTTP_DATE_SIZE + 1];

                weir__http_date(seconds, date);
                wrong += !weir__http_date_read(date, NOW, &read) || read != seconds;
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

static void
two_digits_are_a_year_at_most_fifty_years_ahead(void)
{
        CU_ASSERT(date_is("Sunday, 01-Jan-23 00:00:00 GMT", NOW, 1672531200));          /* 2023 */
        CU_ASSERT(date_is("Sunday, 01-Jan-73 00:00:00 GMT", NOW, INT64_C(3250454400))); /* 2073, in less than 50 years */
        CU_ASSERT(date_is("Sunday, 31-Dec-73 00:00:00 GMT", NOW, 126144000));           /* 1973: 2073 is too far */
        CU_ASSERT(date_is("Sunday, 01-Jan-99 00:00:00 GMT", NOW, 915148800));           /* 1999 */
        CU_ASSERT(date_is("Sunday, 01-Jan-99 00:00:00 GMT", INT64_C(4070908800), INT64_C(4070908800))); /* 2099, when it is */
        CU_ASSERT(date_is("Tuesday, 29-Feb-00 00:00:00 GMT", NOW, 951782400));
}

static void
an_invalid_date_is_not_read(void)
{
        static const char *const texts[] = {"",
                                            " ",
                                            "0",
                                            "Sun",
                                            DATE " ",
                                            " " DATE,
                                            DATE ", " DATE,
                                            "Sun, 06 Nov 1994 08:49:37",
                                            "Sun, 06 Nov 1994 08:49:37 UTC",
                                            "Sun, 06 Nov 1994 08:49:37 gmt",
                                            "sun, 06 Nov 1994 08:49:37 GMT",
                                            "Sun, 6 Nov 1994 08:49:37 GMT",
                                            "Sun, 06 nov 1994 08:49:37 GMT",
                                            "Son, 06 Nov 1994 08:49:37 GMT",
                                            "Sun, 00 Nov 1994 08:49:37 GMT",
                                            "Sun, 31 Nov 1994 08:49:37 GMT",
                                            "Sun, 29 Feb 1900 00:00:00 GMT",
                                            "Sun, 29 Feb 2023 00:00:00 GMT",
                                            "Sun, 06 Nov 1994 24:00:00 GMT",
                                            "Sun, 06 Nov 1994 08:60:00 GMT",
                                            "Sun, 06 Nov 1994 08:49:61 GMT",
                                            "Sun, 06 Nov 94 08:49:37 GMT",
                                            "Sun, 06-Nov-94 08:49:37 GMT",
                                            "Sunday, 06-Nov-1994 08:49:37 GMT",
                                            "Sunnyday, 06-Nov-94 08:49:37 GMT",
                                            "Sun Nov 6 08:49:37 1994",
                                            "Sun Nov 06 08:49:37 1994 GMT",
                                            "Sun Nov   6 08:49:37 1994",
                                            "1994-11-06T08:49:37Z",
                                            "784111777",
                                            "Sun, 06 Nov 1994 08:49:37 +0000",
                                            "Sun, -6 Nov 1994 08:49:37 GMT"};

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                int64_t seconds = 42;
                char *copy = strdup(texts[i]);

                CU_ASSERT_FALSE(weir__http_date_read(copy, NOW, &seconds));
                CU_ASSERT_EQUAL(seconds, 42);
                free(copy);
        }
}

static void
no_beginning_of_a_date_is_one(void)
{
        static const char *const dates[] = {DATE, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"};
        unsigned wrong = 0;

        for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
                for (size_t size = 0; size < strlen(dates[i]); size++) {
                        char *copy = strndup(dates[i], size);
                        int64_t ignored;

                        wrong += weir__http_date_read(copy, NOW, &ignored);
                        free(copy);
                }
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

/* -- tags -- */

static void
a_tag_tells_files_apart(void)
{
        char tag[WEIR__ETAG_SIZE], other[WEIR__ETAG_SIZE];

        weir__etag_make(tag, 0x1234, 0x10, 0xff);
        CU_ASSERT_STRING_EQUAL(tag, "\"1234-10-ff\"");
        weir__etag_make(other, 0x1235, 0x10, 0xff);
        CU_ASSERT_STRING_NOT_EQUAL(tag, other);
        weir__etag_make(other, 0x1234, 0x11, 0xff);
        CU_ASSERT_STRING_NOT_EQUAL(tag, other);
        weir__etag_make(other, 0x1234, 0x10, 0xfe);
        CU_ASSERT_STRING_NOT_EQUAL(tag, other);
        weir__etag_make(tag, -1, UINT64_MAX, UINT64_MAX);
        CU_ASSERT_STRING_EQUAL(tag, "\"ffffffffffffffff-ffffffffffffffff-ffffffffffffffff\"");
        CU_ASSERT_EQUAL(strlen(tag) + 1, sizeof tag);
}

static bool
is_in(const char *list, bool weak)
{
        char *copy = strdup(list);
        bool found = weir__etag_is_in(copy, TAG, weak);

        free(copy);
        return found;
}

static void
a_list_of_tags_is_searched(void)
{
        static const char *const with[] = {TAG,           "\"x\", " TAG,  "\"x\"," TAG ",\"y\"",   " ,, " TAG " ,", "\"\"," TAG,
                                           "\"a,\"," TAG, "W/\"a\"," TAG, "\"\xc3\xa4\"\t,\t" TAG, TAG ",x"};
        static const char *const without[] = {"",        ",",       "\"\"",         "\"a\"",     "\"a-1",    "a-1",
                                              "\"A-1\"", "x," TAG,  "\"a-12\"",     "\"a-1\"\"", TAG "x",    "\"x\" " TAG,
                                              "w/" TAG,  "W/ " TAG, "\"x y\"," TAG, "\"x," TAG,  "\"a-1 \"", "\"x\";" TAG,
                                              "W",       "W/",      "W/\""};

        for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
                CU_ASSERT_TRUE(is_in(with[i], false));
                CU_ASSERT_TRUE(is_in(with[i], true));
        }
        for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
                CU_ASSERT_FALSE(is_in(without[i], false));
                CU_ASSERT_FALSE(is_in(without[i], true));
        }
}

static void
a_weak_tag_is_equal_only_to_the_weak_comparison(void)
{
        CU_ASSERT_TRUE(is_in("W/" TAG, true));
        CU_ASSERT_FALSE(is_in("W/" TAG, false));
        CU_ASSERT_TRUE(is_in("\"b\", W/" TAG, true));
        CU_ASSERT_TRUE(is_in("W/" TAG ", " TAG, false));
}

/* -- conditions -- */

static struct weir__request *
request_of(const char *method, const char *fields)
{
        struct weir__request *request = NULL;
        char head[1024];
        int size = snprintf(head, sizeof head, "%s / HTTP/1.1\r\nHost: a\r\n%s\r\n", method, fields);

        CU_ASSERT_FATAL((size_t)size < sizeof head);
        CU_ASSERT_EQUAL_FATAL(weir__request_new(head, (size_t)size, 0, malloc, &request), 0);
        return request;
}

static int
status_of(const char *method, const char *fields, int64_t modified)
{
        const struct weir__validators validators = {.tag = TAG, .modified = modified, .now = NOW};
        struct weir__request *request = request_of(method, fields);
        int status = weir__conditional_status(request, &validators);

        free(request);
        return status;
}

#define GET(fields)  status_of("GET", fields, WHEN)
#define HEAD(fields) status_of("HEAD", fields, WHEN)
#define PUT(fields)  status_of("PUT", fields, WHEN)

#define MATCH      "If-Match: "
#define NONE_MATCH "If-None-Match: "
#define MODIFIED   "If-Modified-Since: "
#define UNMODIFIED "If-Unmodified-Since: "
#define END        "\r\n"

static void
without_conditions_a_request_goes_on(void)
{
        CU_ASSERT_EQUAL(GET(""), 200);
        CU_ASSERT_EQUAL(HEAD(""), 200);
        CU_ASSERT_EQUAL(PUT(""), 200);
}

static void
if_none_match_is_304_when_the_client_has_it(void)
{
        CU_ASSERT_EQUAL(GET(NONE_MATCH TAG END), 304);
        CU_ASSERT_EQUAL(HEAD(NONE_MATCH TAG END), 304);
        CU_ASSERT_EQUAL(PUT(NONE_MATCH TAG END), 412);
        CU_ASSERT_EQUAL(GET(NONE_MATCH "W/" TAG END), 304);
        CU_ASSERT_EQUAL(GET(NONE_MATCH "*" END), 304);
        CU_ASSERT_EQUAL(PUT(NONE_MATCH "*" END), 412);
        CU_ASSERT_EQUAL(GET(NONE_MATCH "\"b\"" END), 200);
        CU_ASSERT_EQUAL(PUT(NONE_MATCH "\"b\"" END), 200);
        CU_ASSERT_EQUAL(GET(NONE_MATCH "\"b\", " TAG END), 304);
        CU_ASSERT_EQUAL(GET(NONE_MATCH "a-1" END), 200);
        CU_ASSERT_EQUAL(GET(NONE_MATCH "" END), 200);
        CU_ASSERT_EQUAL(GET("if-none-match: " TAG END), 304);
}

static void
if_match_is_412_when_there_is_another(void)
{
        CU_ASSERT_EQUAL(GET(MATCH TAG END), 200);
        CU_ASSERT_EQUAL(PUT(MATCH TAG END), 200);
        CU_ASSERT_EQUAL(GET(MATCH "*" END), 200);
        CU_ASSERT_EQUAL(GET(MATCH "\"b\"" END), 412);
        CU_ASSERT_EQUAL(PUT(MATCH "\"b\"" END), 412);
        CU_ASSERT_EQUAL(GET(MATCH "W/" TAG END), 412);
        CU_ASSERT_EQUAL(GET(MATCH "nonsense" END), 412);
}

static void
several_lines_are_one_list(void)
{
        CU_ASSERT_EQUAL(GET(NONE_MATCH "\"b\"" END NONE_MATCH TAG END), 304);
        CU_ASSERT_EQUAL(GET(NONE_MATCH TAG END NONE_MATCH "\"b\"" END), 304);
        CU_ASSERT_EQUAL(GET(MATCH "\"b\"" END MATCH TAG END), 200);
        CU_ASSERT_EQUAL(GET(MATCH TAG END MATCH "\"b\"" END), 200);
}

static void
if_modified_since_is_304_unless_it_is_older(void)
{
        CU_ASSERT_EQUAL(GET(MODIFIED DATE END), 304);
        CU_ASSERT_EQUAL(HEAD(MODIFIED DATE END), 304);
        CU_ASSERT_EQUAL(GET(MODIFIED LATER END), 304);
        CU_ASSERT_EQUAL(GET(MODIFIED EARLIER END), 200);
        CU_ASSERT_EQUAL(PUT(MODIFIED DATE END), 200);
        CU_ASSERT_EQUAL(GET(MODIFIED "Sunday, 06-Nov-94 08:49:37 GMT" END), 304);
        CU_ASSERT_EQUAL(GET(MODIFIED "Sun Nov  6 08:49:37 1994" END), 304);
        CU_ASSERT_EQUAL(GET(MODIFIED "yesterday" END), 200);
        CU_ASSERT_EQUAL(GET(MODIFIED DATE ", " DATE END), 200);
        CU_ASSERT_EQUAL(GET(MODIFIED DATE END MODIFIED DATE END), 200);
        CU_ASSERT_EQUAL(status_of("GET", MODIFIED DATE END, WEIR__NOT_DATED), 200);
}

static void
if_unmodified_since_is_412_when_it_is_older(void)
{
        CU_ASSERT_EQUAL(GET(UNMODIFIED DATE END), 200);
        CU_ASSERT_EQUAL(GET(UNMODIFIED LATER END), 200);
        CU_ASSERT_EQUAL(GET(UNMODIFIED EARLIER END), 412);
        CU_ASSERT_EQUAL(PUT(UNMODIFIED EARLIER END), 412);
        CU_ASSERT_EQUAL(GET(UNMODIFIED "yesterday" END), 200);
        CU_ASSERT_EQUAL(GET(UNMODIFIED EARLIER END UNMODIFIED EARLIER END), 200);
        CU_ASSERT_EQUAL(status_of("GET", UNMODIFIED EARLIER END, WEIR__NOT_DATED), 200);
}

/* Source: RFC 9110 section 13.2.2. */
static void
conditions_have_their_order_of_precedence(void)
{
        CU_ASSERT_EQUAL(GET(MATCH TAG END UNMODIFIED EARLIER END), 200); /* the date is not looked at */
        CU_ASSERT_EQUAL(GET(MATCH "\"b\"" END UNMODIFIED DATE END), 412);
        CU_ASSERT_EQUAL(GET(NONE_MATCH "\"b\"" END MODIFIED DATE END), 200); /* nor here */
        CU_ASSERT_EQUAL(GET(NONE_MATCH TAG END MODIFIED EARLIER END), 304);
        CU_ASSERT_EQUAL(GET(MODIFIED DATE END NONE_MATCH "\"b\"" END), 200); /* in whatever order they come */
        CU_ASSERT_EQUAL(GET(MATCH "\"b\"" END NONE_MATCH TAG END), 412);     /* 412 is before 304 */
        CU_ASSERT_EQUAL(GET(MATCH TAG END NONE_MATCH TAG END), 304);
        CU_ASSERT_EQUAL(GET(UNMODIFIED EARLIER END MODIFIED LATER END), 412);
        CU_ASSERT_EQUAL(GET(UNMODIFIED DATE END MODIFIED DATE END), 304);
        CU_ASSERT_EQUAL(GET(UNMODIFIED EARLIER END NONE_MATCH TAG END), 412);
}

/* -- ranges -- */

static bool
range_counts(const char *method, const char *fields, int64_t modified)
{
        const struct weir__validators validators = {.tag = TAG, .modified = modified, .now = NOW};
        struct weir__request *request = request_of(method, fields);
        const char *range = weir__conditional_range(request, &validators);
        bool counts = range && strcmp(range, "bytes=0-1") == 0;

        CU_ASSERT(counts || !range);
        free(request);
        return counts;
}

#define RANGE    "Range: bytes=0-1\r\n"
#define IF_RANGE "If-Range: "

static void
a_range_is_for_get_and_comes_once(void)
{
        CU_ASSERT_TRUE(range_counts("GET", RANGE, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", "", WHEN));
        CU_ASSERT_FALSE(range_counts("HEAD", RANGE, WHEN));
        CU_ASSERT_FALSE(range_counts("PUT", RANGE, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE RANGE, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", IF_RANGE TAG END, WHEN));
}

static void
if_range_lets_it_count_only_for_the_same_bytes(void)
{
        CU_ASSERT_TRUE(range_counts("GET", RANGE IF_RANGE TAG END, WHEN));
        CU_ASSERT_TRUE(range_counts("GET", IF_RANGE TAG END RANGE, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE "\"b\"" END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE "W/" TAG END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE "*" END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE TAG ", \"b\"" END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE "" END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE TAG END IF_RANGE TAG END, WHEN));
        CU_ASSERT_TRUE(range_counts("GET", RANGE IF_RANGE DATE END, WHEN));
        CU_ASSERT_TRUE(range_counts("GET", RANGE IF_RANGE "Sun Nov  6 08:49:37 1994" END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE EARLIER END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE LATER END, WHEN));
        CU_ASSERT_FALSE(range_counts("GET", RANGE IF_RANGE DATE END, WEIR__NOT_DATED));
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_date_is_read_in_all_three_formats),
                WEIR_TEST(every_date_that_is_written_is_read),
                WEIR_TEST(two_digits_are_a_year_at_most_fifty_years_ahead),
                WEIR_TEST(an_invalid_date_is_not_read),
                WEIR_TEST(no_beginning_of_a_date_is_one),
                WEIR_TEST(a_tag_tells_files_apart),
                WEIR_TEST(a_list_of_tags_is_searched),
                WEIR_TEST(a_weak_tag_is_equal_only_to_the_weak_comparison),
                WEIR_TEST(without_conditions_a_request_goes_on),
                WEIR_TEST(if_none_match_is_304_when_the_client_has_it),
                WEIR_TEST(if_match_is_412_when_there_is_another),
                WEIR_TEST(several_lines_are_one_list),
                WEIR_TEST(if_modified_since_is_304_unless_it_is_older),
                WEIR_TEST(if_unmodified_since_is_412_when_it_is_older),
                WEIR_TEST(conditions_have_their_order_of_precedence),
                WEIR_TEST(a_range_is_for_get_and_comes_once),
                WEIR_TEST(if_range_lets_it_count_only_for_the_same_bytes),
        };

        return weir_test_main("conditional", tests, sizeof tests / sizeof *tests);
}
