/* test/chunked_test.c: chunked bodies by example: which are decoded, which are refused and on which byte.  The way in which the
 * bytes are cut makes no difference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/chunked_fixture.h"

/* Whether whole, byte by byte, and in every two pieces the outcome is the expected one. */
static bool
comes_out_as(const struct weir__chunked_limits *limits, const char *data, size_t size, const struct outcome *expected)
{
        struct outcome outcome = {.payload = malloc(size + 1)};
        bool is_right = decode_in_pieces(limits, data, size, 1, NULL, &outcome) && same(&outcome, expected);

        for (size_t cut = 0; is_right && cut <= size; cut++) {
                is_right = decode_in_two(limits, data, size, cut, &outcome) && same(&outcome, expected);
        }
        free(outcome.payload);
        return is_right;
}

/* -- examples -- */

/* A body in two parts: the verdict falls on the last byte of the first one, and not before. */
struct row {
        const char *source; /* section of the RFC, or row of the list of known malformed requests */
        const char *seen;
        size_t seen_size;
        const char *rest;
        size_t rest_size;
        int verdict;
        const char *payload;
};

#define ROW(source, seen, rest, verdict, payload)                                        \
        {                                                                                \
                source, seen, sizeof(seen) - 1, rest, sizeof(rest) - 1, verdict, payload \
        }
#define GOOD(source, body, payload) ROW(source, body, "GET /next HTTP/1.1\r\n", WEIR__CHUNKED_END, payload)
#define BAD(source, seen, rest)     ROW(source, seen, rest, 400, "")
#define END                         "0\r\n\r\n"

static void
check_rows(const struct weir__chunked_limits *limits, const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const struct row *row = &rows[i];
                size_t size = row->seen_size + row->rest_size;
                char *data = malloc(size + 1), payload[100];
                struct outcome expected = {row->verdict, row->seen_size, strlen(row->payload), payload};
                bool is_right;

                strcpy(payload, row->payload);
                memcpy(data, row->seen, row->seen_size);
                memcpy(data + row->seen_size, row->rest, row->rest_size);
                is_right = comes_out_as(limits, data, size, &expected);
                CU_ASSERT(is_right);
                if (!is_right) {
                        printf("\n  row %zu, source %s: %s\n", i, row->source, row->seen);
                }
                free(data);
        }
}

#define CHECK_ROWS(limits, rows) check_rows(limits, rows, sizeof(rows) / sizeof *(rows))

static void
valid_bodies_are_decoded(void)
{
        static const struct row rows[] = {
                GOOD("9112 7.1, empty", END, ""),
                GOOD("9112 7.1", "3\r\nabc\r\n" END, "abc"),
                GOOD("9112 7.1", "4\r\nWiki\r\n5\r\npedia\r\nE\r\n in\r\n\r\nchunks.\r\n" END, "Wikipedia in\r\n\r\nchunks."),
                GOOD("9112 7.1, lower case", "a\r\n0123456789\r\n" END, "0123456789"),
                GOOD("9112 7.1, upper case", "A\r\n0123456789\r\n" END, "0123456789"),
                GOOD("9112 7.1, two digits", "1a\r\nabcdefghijklmnopqrstuvwxyz\r\n" END, "abcdefghijklmnopqrstuvwxyz"),
                GOOD("9112 7.1, leading zeros", "000000000000000003\r\nabc\r\n0000\r\n\r\n", "abc"),
                GOOD("9112 7.1, payload like framing", "5\r\n0\r\n\r\n\r\n5\r\n3\r\nab\r\n" END, "0\r\n\r\n3\r\nab"),
                GOOD("9112 7.1.1, a name", "3;a\r\nabc\r\n" END, "abc"),
                GOOD("9112 7.1.1, a token", "3;a=b\r\nabc\r\n0;c=d\r\n\r\n", "abc"),
                GOOD("9112 7.1.1, a quoted string", "3;a=\"b\"\r\nabc\r\n" END, "abc"),
                GOOD("9110 5.6.4, empty", "3;a=\"\"\r\nabc\r\n" END, "abc"),
                GOOD("9110 5.6.4, each kind of byte", "3;a=\"\t !#[]~\x80\xff;=,\"\r\nabc\r\n" END, "abc"),
                GOOD("9110 5.6.4, quoted pairs", "3;a=\"\\\"\\\\\\a\\ \\\t\\\xff\";b\r\nabc\r\n" END, "abc"),
                GOOD("9110 5.6.2, each kind of byte", "3;!#$%&'*+-.^_`|~09azAZ=!#$%&'*+-.^_`|~09azAZ\r\nabc\r\n" END, "abc"),
                GOOD("9112 7.1.1, several", "3;a;b=c;d=\"e\";f\r\nabc\r\n" END, "abc"),
                GOOD("9110 5.6.3, BWS", "3; a \t=\t b\t ;\t c =\"d\" ; e\r\nabc\r\n0; f\r\n\r\n", "abc"),
                GOOD("9112 7.1.2, a trailer", "3\r\nabc\r\n0\r\nX: y\r\n\r\n", "abc"),
                GOOD("9112 7.1.2, several", "0\r\nA:\r\nB: \t\r\nC:c c\t\xff \r\nD: :\r\n\r\n", ""),
                GOOD("9110 6.5.1, dropped", "0\r\nHost: b\r\nConnection: close\r\n\r\n", ""),
                GOOD("9110 5.1, no framing", "0\r\nContent-Lengt: 3\r\nContent-Lengths: 3\r\nTransfer-Encodings: x\r\n\r\n", ""),
                GOOD("9110 5.1, no framing", "0\r\nTransfer-Encodin: x\r\nXContent-Length: 3\r\nContent_Length: 3\r\n\r\n", ""),
                GOOD("9110 5.1, no framing", "0\r\nCransfer-Encoding: x\r\nTontent-Length: 3\r\nX: Content-Length: 3\r\n\r\n",
                     ""),
        };

        CHECK_ROWS(&usual, rows);
}

static void
a_size_that_is_none_is_refused_where_it_goes_wrong(void)
{
        static const struct row rows[] = {
                BAD("row 47", "-", "1\r\na\r\n" END),
                BAD("row 47", "+", "3\r\nabc\r\n" END),
                BAD("row 47", "0x", "3\r\nabc\r\n" END),
                BAD("row 47", "0X", "3\r\nabc\r\n" END),
                BAD("row 47", " ", "3\r\nabc\r\n" END),
                BAD("row 47", "\t", "3\r\nabc\r\n" END),
                BAD("row 47, empty", "\r", "\nabc\r\n" END),
                BAD("row 47, empty", ";", "a\r\nabc\r\n" END),
                BAD("row 47", "3x", "yz\r\nabc\r\n" END),
                BAD("row 47", "g", "\r\nabc\r\n" END),
                BAD("row 47", "G", "\r\nabc\r\n" END),
                BAD("row 47", "@", "\r\n"),
                BAD("row 47", "`", "\r\n"),
                BAD("row 47", "/", "\r\n"),
                BAD("row 47", ":", "\r\n"),
                BAD("row 47", "\xb3", "\r\n"),
                BAD("row 47", "3.", "0\r\nabc\r\n" END),
                BAD("row 47", "1_", "0\r\n"),
                BAD("row 48", "FFFFFFFFFFFFFFFF", "\r\nabc"),
                BAD("row 48, 2^63", "8000000000000000", "\r\nabc"),
                BAD("row 48, 2^64 + 3", "10000000000000003", "\r\nabc"),
                BAD("row 48, with zeros", "0008000000000000000", "\r\nabc"),
                BAD("row 45", "3 ", "\r\nabc\r\n" END),
                BAD("row 45", "3\t", "\r\nabc\r\n" END),
                BAD("row 45, BWS", "3 ", ";a\r\nabc\r\n" END),
                BAD("row 45", "3\0", "\r\nabc\r\n" END),
                BAD("row 45", "3,", "3\r\nabc\r\n" END),
                BAD("row 45", "3=", "\r\nabc\r\n" END),
                BAD("row 45", "3\"", "\"\r\nabc\r\n" END),
                BAD("row 45, of the last chunk", "0 ", "\r\n\r\n"),
                BAD("9112 2.2, LF alone", "3\n", "abc\n0\n\n"),
                BAD("9112 2.2, CR alone", "3\ra", "bc"),
                BAD("9112 2.2, CR twice", "3\r\r", "\nabc"),
        };

        CHECK_ROWS(&usual, rows);
}

static void
an_extension_that_is_none_is_refused_where_it_goes_wrong(void)
{
        static const struct row rows[] = {
                BAD("row 43, in a name", "3;a\n", "abc\r\n" END),
                BAD("row 43, for a name", "3;\n", "abc\r\n" END),
                BAD("row 43, for a value", "3;a=\n", "abc\r\n" END),
                BAD("row 43, in a value", "3;a=b\n", "abc\r\n" END),
                BAD("row 43, in quotes", "3;a=\"\n", "\"\r\nabc\r\n" END),
                BAD("row 43, behind quotes", "3;a=\"\"\n", "\r\nabc\r\n" END),
                BAD("row 43, behind a backslash", "3;a=\"\\\n", "\"\r\nabc\r\n" END),
                BAD("row 43, in white space", "3;a \n", "\r\nabc\r\n" END),
                BAD("row 44, in a name", "3;a\rb", "\r\nabc\r\n" END),
                BAD("row 44, in a value", "3;a=b\rc", "\r\nabc\r\n" END),
                BAD("row 44, in quotes", "3;a=\"\r", "\n\"\r\nabc\r\n" END),
                BAD("row 44, behind a backslash", "3;a=\"\\\r", "\nabc\r\n" END),
                BAD("row 44, twice", "3;a\r\r", "\nabc\r\n" END),
                BAD("row 45, no name", "3;\r", "\nabc\r\n" END),
                BAD("row 45, no name", "3;;", "a\r\nabc\r\n" END),
                BAD("row 45, no name", "3;=", "a\r\nabc\r\n" END),
                BAD("row 45, no name", "3;a;\r", "\nabc\r\n" END),
                BAD("row 45, no name", "3;\"", "a\"\r\nabc\r\n" END),
                BAD("row 45, no value", "3;a=\r", "\nabc\r\n" END),
                BAD("row 45, no value", "3;a=;", "b\r\nabc\r\n" END),
                BAD("row 45, no value", "3;a==", "b\r\nabc\r\n" END),
                BAD("row 45, two values", "3;a=b=", "c\r\nabc\r\n" END),
                BAD("row 45, two values", "3;a=b\"", "c\"\r\nabc\r\n" END),
                BAD("row 45, two values", "3;a=\"b\"c", "\r\nabc\r\n" END),
                BAD("row 45, two values", "3;a=\"b\"\"", "\"\r\nabc\r\n" END),
                BAD("row 45, two names", "3;a b", "\r\nabc\r\n" END),
                BAD("row 45, two values", "3;a=b c", "\r\nabc\r\n" END),
                BAD("row 45, a second value", "3;a=b =", "\r\nabc\r\n" END),
                BAD("row 45, white space at the end", "3;a \r", "\nabc\r\n" END),
                BAD("row 45, white space at the end", "3;a=b\t\r", "\nabc\r\n" END),
                BAD("row 45, white space at the end", "3;a=\"b\" \r", "\nabc\r\n" END),
                BAD("row 45, only white space", "3; \r", "\nabc\r\n" END),
                BAD("row 45, NUL", "3;a\0", "\r\nabc\r\n" END),
                BAD("row 45, NUL in quotes", "3;a=\"\0", "\"\r\nabc\r\n" END),
                BAD("row 45, DEL in quotes", "3;a=\"\x7f", "\"\r\nabc\r\n" END),
                BAD("row 45, NUL behind a backslash", "3;a=\"\\\0", "\"\r\nabc\r\n" END),
                BAD("row 45, obs-text", "3;\xe4", "\r\nabc\r\n" END),
                BAD("row 45, no token", "3;a/", "b\r\nabc\r\n" END),
                BAD("row 45, a list", "3;a,", "b\r\nabc\r\n" END),
        };

        CHECK_ROWS(&usual, rows);
}

static void
payload_ends_where_its_size_says(void)
{
        static const struct row rows[] = {
                ROW("9112 7.1, too long", "3\r\nabcd", "\r\n" END, 400, "abc"),
                ROW("9112 7.1, too short", "3\r\nab\r\n", "0\r\n\r\n", 400, "ab\r"),
                ROW("9112 7.1, LF alone", "3\r\nabc\n", END, 400, "abc"),
                ROW("9112 7.1, CR alone", "3\r\nabc\r0", "\r\n\r\n", 400, "abc"),
                ROW("9112 7.1, CR twice", "3\r\nabc\r\r", "\n" END, 400, "abc"),
                ROW("9112 7.1, nothing", "3\r\nabc0", "\r\n\r\n", 400, "abc"),
                ROW("9112 7.1, an empty line", "3\r\nabc\r\n\r", "\n" END, 400, "abc"),
                ROW("9112 7.1, the second", "1\r\na\r\n2\r\nbc\r\n1\r\nde", "\r\n" END, 400, "abcd"),
                ROW("9112 7.1, the largest", "7fffffffffffffff\r\nabc", "", WEIR__CHUNKED_MORE, "abc"),
                ROW("9112 8, not complete", "3\r\nabc\r\n", "", WEIR__CHUNKED_MORE, "abc"),
                ROW("9112 8, not complete", "0\r\n", "", WEIR__CHUNKED_MORE, ""),
                ROW("9112 8, not complete", "0\r\n\r", "", WEIR__CHUNKED_MORE, ""),
                ROW("9112 8, not complete", "0\r\nA: b\r\n", "", WEIR__CHUNKED_MORE, ""),
        };

        CHECK_ROWS(&usual, rows);
}

static void
a_trailer_that_is_none_is_refused_where_it_goes_wrong(void)
{
        static const struct row rows[] = {
                BAD("row 49", "0\r\nContent-Length:", " 3\r\n\r\n"),
                BAD("row 49, any case", "0\r\ncONTENT-lENGTH:", "3\r\n\r\n"),
                BAD("row 49", "0\r\nTransfer-Encoding:", " chunked\r\n\r\n"),
                BAD("row 49, any case", "0\r\ntransfer-encodinG:", "\r\n\r\n"),
                BAD("row 49, the second", "0\r\nX: y\r\nContent-Length:", " 3\r\n\r\n"),
                BAD("row 49, behind one like it", "0\r\nContent-Lengths: 3\r\nContent-Length:", "3\r\n\r\n"),
                BAD("row 25", "0\r\nX ", ": y\r\n\r\n"),
                BAD("row 25", "0\r\nX\t", ": y\r\n\r\n"),
                BAD("row 25, framing", "0\r\nContent-Length ", ": 3\r\n\r\n"),
                BAD("row 28", "0\r\n ", "X: y\r\n\r\n"),
                BAD("row 31", "0\r\nX: a\r\n ", "b\r\n\r\n"),
                BAD("row 31", "0\r\nX: a\r\n\t", "b\r\n\r\n"),
                BAD("row 29", "0\r\nX(", ": z\r\n\r\n"),
                BAD("row 29", "0\r\nX\xe4", ": z\r\n\r\n"),
                BAD("row 30", "0\r\n:", " z\r\n\r\n"),
                BAD("row 30", "0\r\nabc\r", "\n\r\n"),
                BAD("row 22", "0\r\n\n", "\n"),
                BAD("row 22", "0\r\nX: y\n", "\r\n"),
                BAD("row 22", "0\r\nX\n", ": y\r\n\r\n"),
                BAD("row 23", "0\r\nX: a\rb", "\r\n\r\n"),
                BAD("row 23", "0\r\nX: a\r\r", "\n\r\n"),
                BAD("row 23", "0\r\n\r\r", "\n"),
                BAD("row 23, something behind the last CR", "0\r\n\rG", "ET / HTTP/1.1"),
                BAD("row 24", "0\r\nX: a\0", "b\r\n\r\n"),
                BAD("row 24", "0\r\nX: a\x7f", "b\r\n\r\n"),
                BAD("row 24", "0\r\nX: \v", "b\r\n\r\n"),
                BAD("9112 7.1, the next request for a trailer", "0\r\nGET ", "/ HTTP/1.1\r\n\r\n"),
        };

        CHECK_ROWS(&usual, rows);
}

/* -- limits -- */

#define TEN "0123456789"

static void
extensions_are_limited_in_the_whole_body(void)
{
        static const struct weir__chunked_limits limits = {.max_extensions = 10}, none = {.max_extensions = 0};
        static const struct row rows[] = {
                GOOD("row 46, just enough", "1;abcdefghi\r\na\r\n" END, "a"),
                GOOD("row 46, just enough", "1; a =\t\"\\b\"\r\na\r\n" END, "a"),
                GOOD("row 46, together", "1;a=b\r\na\r\n1;c\r\nb\r\n0; ef\r\n\r\n", "ab"),
                GOOD("row 46, zeros", "00000000000000000000000001\r\na\r\n0000000000000000\r\n\r\n", "a"),
                ROW("row 46, in a name", "1;abcdefghij", "\r\na\r\n" END, 413, ""),
                ROW("row 46, in quotes", "1;a=\"bcdefgh", "\"\r\na\r\n" END, 413, ""),
                ROW("row 46, white space", "1;          ", "a\r\na\r\n" END, 413, ""),
                ROW("row 46, together", "1;abcde\r\na\r\n0;abcd", "\r\n\r\n", 413, "a"),
                ROW("row 46, zeros", "000000000000000000000000001", "\r\na\r\n" END, 413, ""),
                ROW("row 46, zeros, together", "1;abcdefgh\r\na\r\n000000000000000000", "\r\n\r\n", 413, "a"),
        };
        static const struct row without[] = {
                GOOD("row 46, none", "0000000000000001\r\na\r\n" END, "a"),
                ROW("row 46, one", "1;", "a\r\na\r\n" END, 413, ""),
                BAD("row 45, malformed before too long", "1 ", "\r\na\r\n" END),
        };

        CHECK_ROWS(&limits, rows);
        CHECK_ROWS(&none, without);
}

static void
trailers_are_limited(void)
{
        static const struct weir__chunked_limits limits = {.max_trailers = 10, .max_trailer_fields = 2};
        static const struct weir__chunked_limits no_field = {.max_trailers = 10}, no_byte = {.max_trailer_fields = 2};
        static const struct row rows[] = {
                GOOD("6585 5, just enough bytes", "0\r\nA:bcdefg\r\n\r\n", ""),
                GOOD("6585 5, just enough lines", "0\r\nA:b\r\nC:\t\r\n\r\n", ""),
                ROW("6585 5, in a value", "0\r\nA:bcdefghij", "\r\n\r\n", 431, ""),
                ROW("6585 5, in a name", "0\r\nABCDEFGHIJK", ":\r\n\r\n", 431, ""),
                ROW("6585 5, in a line end", "0\r\nA:bcdefgh\r\n", "\r\n", 431, ""),
                ROW("6585 5, together", "0\r\nA:bc\r\nD:ef\r", "\n\r\n", 431, ""),
                ROW("6585 5, lines", "0\r\nA:\r\nB:\r\nC", ":\r\n\r\n", 431, ""),
        };
        static const struct row without[] = {
                GOOD("6585 5, none", "1\r\na\r\n" END, "a"),
                ROW("6585 5, one", "1\r\na\r\n0\r\nA", ":\r\n\r\n", 431, "a"),
                BAD("9112 5, malformed before too many", "0\r\n ", ":\r\n\r\n"),
        };

        CHECK_ROWS(&limits, rows);
        CHECK_ROWS(&no_field, without);
        CHECK_ROWS(&no_byte, without);
}

/* Rows 46 and 50, as long as they come. */
static void
endless_parts_are_refused_and_unlimited_ones_are_not(void)
{
        static const struct {
                const char *begin;
                char byte;
                int verdict;
        } rows[] = {{"1;", 'a', 413}, {"1;a=\"", '\\', 413}, {"", '0', 413}, {"0\r\nA:", ' ', 431}, {"0\r\n", 'A', 431}};
        static const struct weir__chunked_limits unlimited = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
        size_t size = 100000;
        char *data = malloc(size);

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct weir__chunked chunked = {.left = 0}, other = {.left = 0};
                size_t used = 0, payload = 1;

                memset(data, rows[i].byte, size);
                memcpy(data, rows[i].begin, strlen(rows[i].begin));
                CU_ASSERT_EQUAL(weir__chunked_feed(&chunked, &usual, data, size, &used, &payload), rows[i].verdict);
                CU_ASSERT(used < 300);
                CU_ASSERT_EQUAL(payload, 0);
                CU_ASSERT_EQUAL(weir__chunked_feed(&other, &unlimited, data, size, &used, &payload), WEIR__CHUNKED_MORE);
                CU_ASSERT_EQUAL(used, size);
        }
        free(data);
        CU_ASSERT(sizeof(struct weir__chunked) <= 32);
}

/* A counter that has reached its end stays there: it does not begin again, and does not count parts without a limit. */
static void
counters_do_not_wrap(void)
{
        static const struct weir__chunked_limits unlimited = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
        static const struct weir__chunked_limits largest = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
        struct weir__chunked chunked = {.extensions = UINT32_MAX - 1, .trailers = UINT32_MAX - 1, .fields = UINT32_MAX};
        struct weir__chunked other = chunked;
        char data[] = "1;abc\r\na\r\n0\r\nA:b\r\n\r\n", copy[sizeof data];
        size_t used, payload;

        memcpy(copy, data, sizeof data);
        CU_ASSERT_EQUAL(weir__chunked_feed(&chunked, &unlimited, data, sizeof data - 1, &used, &payload), WEIR__CHUNKED_END);
        CU_ASSERT_EQUAL(chunked.extensions, UINT32_MAX);
        CU_ASSERT_EQUAL(chunked.trailers, UINT32_MAX);
        CU_ASSERT_EQUAL(weir__chunked_feed(&other, &largest, copy, sizeof copy - 1, &used, &payload), 413);
        CU_ASSERT_EQUAL(used, 3);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(valid_bodies_are_decoded),
                WEIR_TEST(a_size_that_is_none_is_refused_where_it_goes_wrong),
                WEIR_TEST(an_extension_that_is_none_is_refused_where_it_goes_wrong),
                WEIR_TEST(payload_ends_where_its_size_says),
                WEIR_TEST(a_trailer_that_is_none_is_refused_where_it_goes_wrong),
                WEIR_TEST(extensions_are_limited_in_the_whole_body),
                WEIR_TEST(trailers_are_limited),
                WEIR_TEST(endless_parts_are_refused_and_unlimited_ones_are_not),
                WEIR_TEST(counters_do_not_wrap),
        };

        return weir_test_main("chunked", tests, sizeof tests / sizeof *tests);
}
