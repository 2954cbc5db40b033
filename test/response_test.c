/* test/response_test.c: heads of responses byte by byte; no field may smuggle anything into them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol/message/response.h"
#include "protocol/text/date.h"
#include "protocol/text/reason.h"
#include "test/support.h"

#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"

static const struct weir__framing plain = {.date = DATE, .is_persistent = true, .minor = 1};

/* The head as a string, written where there is room for just the bound, so that a sanitizer sees a write beyond the end. */
static char *
head_of(const struct weir__response *response, const struct weir__framing *framing)
{
        size_t bound = weir__response_head_bound(response), size;
        char *head = malloc(bound), *text;

        size = weir__response_head(response, framing, head);
        CU_ASSERT_FATAL(size <= bound);
        text = malloc(size + 1);
        memcpy(text, head, size);
        text[size] = '\0';
        free(head);
        return text;
}

static bool
head_is(const struct weir__response *response, const struct weir__framing *framing, const char *expected)
{
        char *head = head_of(response, framing);
        bool is_same = strcmp(head, expected) == 0;

        if (!is_same) {
                printf("\n  %s", head);
        }
        free(head);
        return is_same;
}

static void
an_untouched_response_is_an_empty_200(void)
{
        const struct weir__response response = {.status = 0};

        CU_ASSERT(head_is(&response, &plain, "HTTP/1.1 200 OK\r\nDate: " DATE "\r\nContent-Length: 0\r\n\r\n"));
        CU_ASSERT(!weir__response_has_body(&response, &plain));
}

static void
fields_go_out_in_the_order_they_were_added(void)
{
        struct weir__response response = {.status = 404};

        CU_ASSERT_EQUAL(weir__response_field(&response, "B", "2", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "A", "1, \"x\"\t\xc3\xa4", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "b", "", false), 0);
        CU_ASSERT_EQUAL(weir__response_append(&response, "0123456789", 10), 0);
        CU_ASSERT_EQUAL(weir__response_append(&response, "ab", 2), 0);
        CU_ASSERT(head_is(&response, &plain,
                          "HTTP/1.1 404 Not Found\r\nDate: " DATE
                          "\r\nB: 2\r\nA: 1, \"x\"\t\xc3\xa4\r\nb: \r\nContent-Length: 12\r\n\r\n"));
        CU_ASSERT(weir__response_has_body(&response, &plain));
        CU_ASSERT_EQUAL(memcmp(response.body, "0123456789ab", 12), 0);
        weir__response_done(&response);
        CU_ASSERT(head_is(&response, &plain, "HTTP/1.1 200 OK\r\nDate: " DATE "\r\nContent-Length: 0\r\n\r\n"));
}

static void
white_space_around_a_value_does_not_go_out(void)
{
        struct weir__response response = {.status = 0};

        CU_ASSERT_EQUAL(weir__response_field(&response, "A", " \t b \t c\t ", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "D", " \t", false), 0);
        CU_ASSERT_EQUAL(response.fields.size, strlen("A: b \t c\r\nD: \r\n"));
        CU_ASSERT_EQUAL(memcmp(response.fields.data, "A: b \t c\r\nD: \r\n", response.fields.size), 0);
        weir__response_done(&response);
}

static void
no_field_can_carry_another_one(void)
{
        static const char *const bad[][2] = {
                {"A", "b\r\nC: d"}, {"A", "b\nC: d"},   {"A", "b\rC: d"}, {"A", "b\r\n"},  {"A", "\r\n b"}, {"A", "b\r\n\r\nc"},
                {"A", "\x01"},      {"A", "b\x0b"},     {"A", "\x7f"},    {"A", "\x1f b"}, {"", "b"},       {"A:", "b"},
                {"A: b\r\nC", "d"}, {"A\n", "b"},       {"A ", "b"},      {" A", "b"},     {"A\t", "b"},    {"A B", "c"},
                {"A\r\n", "b"},     {"A\xc3\xa4", "b"}, {"\x7f", "b"},    {"(A)", "b"},    {"A,B", "c"},    {"A/B", "c"},
                {"A=B", "c"},       {"\"A\"", "b"},     {"A;", "b"},      {"A@", "b"},     {"[A]", "b"},    {"{A}", "b"},
                {NULL, "b"},        {"A", NULL},
        };
        struct weir__response response = {.status = 0};

        CU_ASSERT_EQUAL(weir__response_field(&response, "A", "kept", false), 0);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                CU_ASSERT_EQUAL(weir__response_field(&response, bad[i][0], bad[i][1], false), -EINVAL);
                CU_ASSERT_EQUAL(weir__response_field(&response, bad[i][0], bad[i][1], true), -EINVAL);
        }
        CU_ASSERT(head_is(&response, &plain, "HTTP/1.1 200 OK\r\nDate: " DATE "\r\nA: kept\r\nContent-Length: 0\r\n\r\n"));
        weir__response_done(&response);
}

static void
each_byte_is_judged_in_name_and_value(void)
{
        struct weir__response response = {.status = 0};
        unsigned wrong = 0;

        for (int byte = 1; byte < 256; byte++) {
                bool fits_name = byte > 0x20 && byte < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", byte);
                bool fits_value = byte == '\t' || (byte >= 0x20 && byte != 0x7f);
                const char text[] = {'x', (char)byte, 'x', '\0'};

                wrong += weir__response_field(&response, text, "y", false) != (fits_name ? 0 : -EINVAL);
                wrong += weir__response_field(&response, "X", text, false) != (fits_value ? 0 : -EINVAL);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        weir__response_done(&response);
}

static void
fields_that_frame_the_message_are_the_servers(void)
{
        static const char *const names[] = {"Content-Length",
                                            "content-length",
                                            "CONTENT-LENGTH",
                                            "Transfer-Encoding",
                                            "transfer-encoding",
                                            "Connection",
                                            "connection",
                                            "Date",
                                            "dATE"};
        struct weir__response response = {.status = 0};

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                CU_ASSERT_EQUAL(weir__response_field(&response, names[i], "1", false), -EINVAL);
                CU_ASSERT_EQUAL(weir__response_field(&response, names[i], "1", true), -EINVAL);
        }
        CU_ASSERT_EQUAL(response.fields.size, 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "Dates", "1", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "Content-Length-X", "1", false), 0);
        weir__response_done(&response);
}

static void
set_replaces_every_field_of_that_name_and_no_other(void)
{
        struct weir__response response = {.status = 0};

        CU_ASSERT_EQUAL(weir__response_field(&response, "A", "1", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "AB", "2", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "a", "3", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "C", "A: x", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "A", "4", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "a", "5", true), 0);
        CU_ASSERT_EQUAL(response.fields.size, strlen("AB: 2\r\nC: A: x\r\na: 5\r\n"));
        CU_ASSERT_EQUAL(memcmp(response.fields.data, "AB: 2\r\nC: A: x\r\na: 5\r\n", response.fields.size), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "D", "6", true), 0);
        CU_ASSERT(weir__response_has_field(&response, "d"));
        weir__response_done(&response);
}

static void
a_field_is_found_by_its_whole_name_in_any_case(void)
{
        struct weir__response response = {.status = 0};

        CU_ASSERT(!weir__response_has_field(&response, "A"));
        CU_ASSERT_EQUAL(weir__response_field(&response, "Content-Type", "text/plain", false), 0);
        CU_ASSERT_EQUAL(weir__response_field(&response, "X", "Y: z", false), 0);
        CU_ASSERT(weir__response_has_field(&response, "content-TYPE"));
        CU_ASSERT(weir__response_has_field(&response, "x"));
        CU_ASSERT(!weir__response_has_field(&response, "Content"));
        CU_ASSERT(!weir__response_has_field(&response, "Content-Types"));
        CU_ASSERT(!weir__response_has_field(&response, "Y"));
        CU_ASSERT(!weir__response_has_field(&response, ""));
        CU_ASSERT_EQUAL(weir__response_field(&response, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-^", "1", false), 0);
        CU_ASSERT(weir__response_has_field(&response, "abcdefghijklmnopqrstuvwxyz-^"));
        CU_ASSERT(!weir__response_has_field(&response, "abcdefghijklmnopqrstuvwxyz-~")); /* the bit that makes letters small */
        weir__response_done(&response);
}

static void
a_large_response_grows(void)
{
        struct weir__response response = {.status = 0};
        char *value = malloc(100001), *head;
        unsigned wrong = 0;

        for (unsigned i = 0; i < 100000; i++) {
                wrong += weir__response_append(&response, &(char){(char)('a' + i % 26)}, 1) != 0;
        }
        for (unsigned i = 0; i < 100000; i++) {
                wrong += response.body[i] != (char)('a' + i % 26);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        memset(value, 'v', 100000);
        value[100000] = '\0';
        for (int i = 0; i < 10; i++) {
                CU_ASSERT_EQUAL(weir__response_field(&response, "A", value, false), 0);
        }
        head = head_of(&response, &plain);
        CU_ASSERT_EQUAL(response.fields.size, 10 * 100005);
        CU_ASSERT_EQUAL(strlen(head),
                        strlen("HTTP/1.1 200 OK\r\nDate: " DATE "\r\nContent-Length: 100000\r\n\r\n") + 10 * 100005);
        free(head);
        free(value);
        weir__response_done(&response);
}

static void
a_failed_append_changes_nothing(void)
{
        struct weir__response response = {.status = 0};

        CU_ASSERT_EQUAL(weir__response_append(&response, NULL, 0), 0);
        CU_ASSERT_EQUAL(weir__response_append(&response, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir__response_append(&response, "abc", 3), 0);
        CU_ASSERT_EQUAL(weir__response_append(&response, "x", SIZE_MAX - 2), -ENOMEM);
        CU_ASSERT_EQUAL(weir__response_append(&response, "x", SIZE_MAX), -ENOMEM);
        CU_ASSERT_EQUAL(response.body_size, 3);
        CU_ASSERT_EQUAL(memcmp(response.body, "abc", 3), 0);
        weir__response_done(&response);
        weir__response_done(&response); /* does nothing to an empty one */
}

static void
persistence_is_said_where_the_version_does_not_say_it(void)
{
        static const struct {
                uint8_t minor;
                bool is_persistent;
                const char *line;
        } rows[] = {
                {0, false, "Connection: close\r\n"}, {0, true, "Connection: keep-alive\r\n"},
                {1, false, "Connection: close\r\n"}, {1, true, ""},
                {2, false, "Connection: close\r\n"}, {2, true, ""},
        };
        const struct weir__response response = {.status = 0};
        char expected[200];

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const struct weir__framing framing = {
                        .date = DATE, .is_persistent = rows[i].is_persistent, .minor = rows[i].minor};

                snprintf(expected, sizeof expected, "HTTP/1.1 200 OK\r\nDate: " DATE "\r\nContent-Length: 0\r\n%s\r\n",
                         rows[i].line);
                CU_ASSERT(head_is(&response, &framing, expected));
        }
}

/* RFC 9112 section 6.3: without a length and without chunks it would last until the connection ends. */
static void
a_reset_content_says_that_it_has_no_body_also_when_it_is_written_in_pieces(void)
{
        const struct weir__framing framing = {.date = DATE, .is_persistent = true, .minor = 1, .end = WEIR__END_BY_CHUNK};
        struct weir__response response = {.status = 205};

        CU_ASSERT(head_is(&response, &framing, "HTTP/1.1 205 Reset Content\r\nDate: " DATE "\r\nContent-Length: 0\r\n\r\n"));
}

/* RFC 9110 sections 6.4.1, 8.6, 9.3.2, 15.3.6 and 15.4.5. */
static void
a_body_goes_out_only_where_one_may_be(void)
{
        static const struct {
                int status;
                bool is_head, has_body;
                const char *length; /* with a body of 5 bytes */
                const char *empty;  /* with none */
        } rows[] = {
                {200, false, true, "Content-Length: 5\r\n", "Content-Length: 0\r\n"},
                {200, true, false, "Content-Length: 5\r\n", "Content-Length: 0\r\n"},
                {404, false, true, "Content-Length: 5\r\n", "Content-Length: 0\r\n"},
                {404, true, false, "Content-Length: 5\r\n", "Content-Length: 0\r\n"},
                {204, false, false, "", ""},
                {204, true, false, "", ""},
                {205, false, false, "Content-Length: 0\r\n", "Content-Length: 0\r\n"},
                {304, false, false, "Content-Length: 5\r\n", ""},
                {304, true, false, "Content-Length: 5\r\n", ""},
                {103, false, false, "", ""},
        };
        char expected[200];

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const struct weir__framing framing = {
                        .date = DATE, .is_persistent = true, .minor = 1, .is_head = rows[i].is_head};
                struct weir__response response = {.status = rows[i].status};

                snprintf(expected, sizeof expected, "HTTP/1.1 %d %s\r\nDate: " DATE "\r\n%s\r\n", rows[i].status,
                         weir__http_reason(rows[i].status), rows[i].empty);
                CU_ASSERT(head_is(&response, &framing, expected));
                CU_ASSERT(!weir__response_has_body(&response, &framing));
                CU_ASSERT_EQUAL(weir__response_append(&response, "12345", 5), 0);
                snprintf(expected, sizeof expected, "HTTP/1.1 %d %s\r\nDate: " DATE "\r\n%s\r\n", rows[i].status,
                         weir__http_reason(rows[i].status), rows[i].length);
                CU_ASSERT(head_is(&response, &framing, expected));
                CU_ASSERT_EQUAL(weir__response_has_body(&response, &framing), rows[i].has_body);
                weir__response_done(&response);
        }
}

static void
every_status_has_a_status_line(void)
{
        static const char *const known =
                " 100 101 103 200 201 202 203 204 205 206 207 208 226 300 301 302 303 304 305 307 308 400 401 402 "
                "403 404 405 406 407 408 409 410 411 412 413 414 415 416 417 421 422 423 424 425 426 428 429 431 "
                "451 500 501 502 503 504 505 506 507 508 511 ";
        char expected[200], number[16];

        for (int status = 100; status <= 999; status++) {
                const struct weir__response response = {.status = status};
                char *head = head_of(&response, &plain);

                snprintf(number, sizeof number, " %d ", status);
                CU_ASSERT_EQUAL(*weir__http_reason(status) != '\0', strstr(known, number) != NULL);
                snprintf(expected, sizeof expected, "HTTP/1.1%s%s\r\nDate: ", number, weir__http_reason(status));
                CU_ASSERT_EQUAL(strncmp(head, expected, strlen(expected)), 0);
                free(head);
        }
}

static void
a_reason_is_what_the_rfc_calls_it(void)
{
        static const int none[] = {-1, 0, 99, 102, 199, 299, 306, 418, 499, 509, 510, 512, 600, 1000, 2000000000, -2000000000};

        CU_ASSERT_STRING_EQUAL(weir__http_reason(100), "Continue");
        CU_ASSERT_STRING_EQUAL(weir__http_reason(200), "OK");
        CU_ASSERT_STRING_EQUAL(weir__http_reason(413), "Content Too Large");
        CU_ASSERT_STRING_EQUAL(weir__http_reason(414), "URI Too Long");
        CU_ASSERT_STRING_EQUAL(weir__http_reason(431), "Request Header Fields Too Large");
        CU_ASSERT_STRING_EQUAL(weir__http_reason(505), "HTTP Version Not Supported");
        CU_ASSERT_STRING_EQUAL(weir__http_reason(511), "Network Authentication Required");
        for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
                CU_ASSERT_STRING_EQUAL(weir__http_reason(none[i]), "");
        }
}

static void
an_invalid_status_goes_out_as_500(void)
{
        static const int statuses[] = {-1, 1, 99, 1000, 2000000000, -2000000000};

        for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
                const struct weir__response response = {.status = statuses[i]};

                CU_ASSERT(head_is(&response, &plain,
                                  "HTTP/1.1 500 Internal Server Error\r\nDate: " DATE "\r\nContent-Length: 0\r\n\r\n"));
        }
}

/* The longest of everything, and the largest number. */
static void
no_head_is_longer_than_its_bound(void)
{
        const struct weir__framing framing = {.date = DATE, .is_persistent = true, .minor = 0};
        struct weir__response response = {.status = 511, .body_size = SIZE_MAX, .body_room = SIZE_MAX};
        char *head = head_of(&response, &framing), expected[60];

        snprintf(expected, sizeof expected, "Content-Length: %zu\r\n", SIZE_MAX);
        CU_ASSERT_PTR_NOT_NULL(strstr(head, expected));
        free(head);
}

/* The expected fields and body, side by side.  Short ones lie in the response itself, until one of them grows. */
struct shadow {
        char fields[4096], body[4096];
        size_t fields_size, body_size;
};

static void
add_a_field(struct weir__response *response, struct shadow *shadow, struct weir_test_random *random)
{
        static const char letters[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        const char *value = letters + weir_test_random_below(random, sizeof letters),
                   *name = weir_test_random_below(random, 2) ? "X" : "Yy";

        CU_ASSERT_EQUAL(weir__response_field(response, name, value, false), 0);
        shadow->fields_size += (size_t)sprintf(shadow->fields + shadow->fields_size, "%s: %s\r\n", name, value);
}

static void
remove_a_field(struct weir__response *response, struct shadow *shadow)
{
        size_t kept = 0;

        weir__response_remove(response, "X");
        for (size_t at = 0; at < shadow->fields_size;) {
                size_t size = (size_t)(strchr(shadow->fields + at, '\n') - (shadow->fields + at)) + 1;

                if (shadow->fields[at] != 'X') {
                        memmove(shadow->fields + kept, shadow->fields + at, size);
                        kept += size;
                }
                at += size;
        }
        shadow->fields_size = kept;
        shadow->fields[kept] = '\0';
}

static void
append_to_the_body(struct weir__response *response, struct shadow *shadow, struct weir_test_random *random)
{
        char piece[100];
        size_t size = weir_test_random_below(random, weir_test_random_below(random, 2) ? 10 : sizeof piece);

        memset(piece, 'a' + (int)weir_test_random_below(random, 26), sizeof piece);
        CU_ASSERT_EQUAL(weir__response_append(response, piece, size), 0);
        memcpy(shadow->body + shadow->body_size, piece, size);
        shadow->body_size += size;
}

static void
replace_the_body(struct weir__response *response, struct shadow *shadow)
{
        char *body = malloc(7);

        memcpy(body, "another", 7);
        weir__response_replace_body(response, body, 7);
        memcpy(shadow->body, "another", 7);
        shadow->body_size = 7;
}

static void
fields_and_body_do_not_meet_however_they_grow(void)
{
        struct weir_test_random random = {.state = weir_test_seed()};
        unsigned wrong = 0;

        for (unsigned i = 0; i < (WEIR_TEST_SANITIZED ? 20000 : 200000); i++) {
                struct weir__response response = {.status = 200};
                struct shadow shadow = {.fields_size = 0};

                for (uint64_t steps = weir_test_random_below(&random, 12); steps > 0; steps--) {
                        switch (weir_test_random_below(&random, 8)) {
                        case 0: remove_a_field(&response, &shadow); break;
                        case 1: replace_the_body(&response, &shadow); break;
                        case 2: response.body_size = shadow.body_size = 0; break;
                        case 3:
                        case 4: append_to_the_body(&response, &shadow, &random); break;
                        default: add_a_field(&response, &shadow, &random);
                        }
                        wrong += response.fields.size != shadow.fields_size || response.body_size != shadow.body_size ||
                                 (shadow.fields_size && memcmp(response.fields.data, shadow.fields, shadow.fields_size) != 0) ||
                                 (shadow.body_size && memcmp(response.body, shadow.body, shadow.body_size) != 0);
                }
                char **body = weir__response_body_to_take(&response);
                if (body && weir_test_random_below(&random, 2)) {
                        free(*body);
                        *body = NULL;
                }
                weir__response_done(&response);
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

static bool
date_is_the_c_librarys(int64_t seconds)
{
        char expected[40], date[30];
        time_t instant = (time_t)seconds;
        struct tm tm;

        strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&instant, &tm));
        weir__http_date(seconds, date);
        return strcmp(date, expected) == 0;
}

static void
dates_are_those_of_the_c_library(void)
{
        struct weir_test_random random = {.state = weir_test_seed()};
        unsigned wrong = 0;

        for (int64_t day = 0; day <= INT64_C(253402300799) / 86400; day += WEIR_TEST_SANITIZED ? 5 : 1) {
                wrong += !date_is_the_c_librarys(day * 86400);
                wrong += !date_is_the_c_librarys(day * 86400 + 86399);
        }
        for (unsigned i = 0; i < 100000; i++) {
                wrong += !date_is_the_c_librarys((int64_t)weir_test_random_below(&random, UINT64_C(253402300800)));
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

static void
dates_stay_between_1970_and_9999(void)
{
        char date[30];

        weir__http_date(784111777, date);
        CU_ASSERT_STRING_EQUAL(date, DATE);
        weir__http_date(0, date);
        CU_ASSERT_STRING_EQUAL(date, "Thu, 01 Jan 1970 00:00:00 GMT");
        weir__http_date(-1, date);
        CU_ASSERT_STRING_EQUAL(date, "Thu, 01 Jan 1970 00:00:00 GMT");
        weir__http_date(INT64_MIN, date);
        CU_ASSERT_STRING_EQUAL(date, "Thu, 01 Jan 1970 00:00:00 GMT");
        weir__http_date(INT64_C(253402300799), date);
        CU_ASSERT_STRING_EQUAL(date, "Fri, 31 Dec 9999 23:59:59 GMT");
        weir__http_date(INT64_C(253402300800), date);
        CU_ASSERT_STRING_EQUAL(date, "Fri, 31 Dec 9999 23:59:59 GMT");
        weir__http_date(INT64_MAX, date);
        CU_ASSERT_STRING_EQUAL(date, "Fri, 31 Dec 9999 23:59:59 GMT");
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_untouched_response_is_an_empty_200),
                WEIR_TEST(fields_go_out_in_the_order_they_were_added),
                WEIR_TEST(white_space_around_a_value_does_not_go_out),
                WEIR_TEST(no_field_can_carry_another_one),
                WEIR_TEST(each_byte_is_judged_in_name_and_value),
                WEIR_TEST(fields_that_frame_the_message_are_the_servers),
                WEIR_TEST(set_replaces_every_field_of_that_name_and_no_other),
                WEIR_TEST(a_field_is_found_by_its_whole_name_in_any_case),
                WEIR_TEST(a_large_response_grows),
                WEIR_TEST(a_failed_append_changes_nothing),
                WEIR_TEST(fields_and_body_do_not_meet_however_they_grow),
                WEIR_TEST(persistence_is_said_where_the_version_does_not_say_it),
                WEIR_TEST(a_reset_content_says_that_it_has_no_body_also_when_it_is_written_in_pieces),
                WEIR_TEST(a_body_goes_out_only_where_one_may_be),
                WEIR_TEST(every_status_has_a_status_line),
                WEIR_TEST(a_reason_is_what_the_rfc_calls_it),
                WEIR_TEST(an_invalid_status_goes_out_as_500),
                WEIR_TEST(no_head_is_longer_than_its_bound),
                WEIR_TEST(dates_are_those_of_the_c_library),
                WEIR_TEST(dates_stay_between_1970_and_9999),
        };

        return weir_test_main("response", tests, sizeof tests / sizeof *tests);
}
