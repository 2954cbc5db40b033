/* test/gate_test.c: the request heads that the gate in front of the HTTP parser accepts, and those that it refuses, and on which
 * byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/message/gate.h"
#include "test/support.h"

/* A head in two parts: the verdict falls on the last byte of the first one, and not before. */
struct row {
        const char *source; /* section of the RFC, or row of the list of known malformed requests */
        const char *seen;
        size_t seen_size;
        const char *rest;
        size_t rest_size;
        int verdict;
};

#define ROW(source, seen, rest, verdict)                                        \
        {                                                                       \
                source, seen, sizeof(seen) - 1, rest, sizeof(rest) - 1, verdict \
        }
#define GOOD(source, head) ROW(source, head, "GET /next HTTP/1.1\r\n", WEIR__GATE_HEAD)

static const struct weir__gate_limits usual = {.max_line = 8192, .max_head = 32768, .max_fields = 256};

/* Feeds the first `cut` bytes (when it is not the whole), then all. */
static int
feed_in_two(const struct weir__gate_limits *limits, const char *data, size_t size, size_t cut, size_t *head_size)
{
        struct weir__gate gate = {.scanned = 0};
        int r = weir__gate_feed(&gate, limits, data, cut, head_size);

        return r != WEIR__GATE_MORE ? r : weir__gate_feed(&gate, limits, data, size, head_size);
}

/* Feeds one more byte each time, each time at another address.  *ret_at is how many had come when the verdict fell. */
static int
feed_bytes(const struct weir__gate_limits *limits, const char *data, size_t size, size_t *ret_at, size_t *head_size)
{
        struct weir__gate gate = {.scanned = 0};
        int r = WEIR__GATE_MORE;

        for (*ret_at = 0; r == WEIR__GATE_MORE && *ret_at < size;) {
                char *copy = malloc(++*ret_at);

                memcpy(copy, data, *ret_at);
                r = weir__gate_feed(&gate, limits, copy, *ret_at, head_size);
                free(copy);
        }
        return r;
}

/* Whether whole, byte by byte, and in every two parts the verdict is the expected one and falls on the byte `at`. */
static bool
verdict_falls_at(const struct weir__gate_limits *limits, const char *data, size_t size, int verdict, size_t at)
{
        size_t head_size = 0, fell_at = 0;

        for (size_t cut = 0; cut <= size; cut++) {
                head_size = 0;
                if (feed_in_two(limits, data, size, cut, &head_size) != verdict ||
                    head_size != (verdict == WEIR__GATE_HEAD ? at : 0)) {
                        return false;
                }
        }
        head_size = 0;
        return feed_bytes(limits, data, size, &fell_at, &head_size) == verdict && fell_at == at &&
               head_size == (verdict == WEIR__GATE_HEAD ? at : 0);
}

static void
check_rows(const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const struct row *row = &rows[i];
                size_t size = row->seen_size + row->rest_size;
                char *data = malloc(size + 1);
                bool is_right;

                memcpy(data, row->seen, row->seen_size);
                memcpy(data + row->seen_size, row->rest, row->rest_size);
                is_right = verdict_falls_at(&usual, data, size, row->verdict, row->seen_size);
                CU_ASSERT(is_right);
                if (!is_right) {
                        printf("\n  row %zu, source %s: %s\n", i, row->source, row->seen);
                }
                free(data);
        }
}

#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof *(rows))

static void
valid_heads_are_let_through(void)
{
        static const struct row rows[] = {
                GOOD("9112 2.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                GOOD("9112 2.1, no field", "GET / HTTP/1.0\r\n\r\n"),
                GOOD("9112 2.2, one empty line before", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                GOOD("9112 2.3, a later minor version", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
                GOOD("9112 2.3, the last minor version", "GET / HTTP/1.9\r\nHost: a\r\n\r\n"),
                GOOD("9112 3.2.2", "GET http://b/?c HTTP/1.1\r\nHost: a\r\n\r\n"),
                GOOD("9112 3.2.4", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
                GOOD("9112 3.2, told apart later", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"),
                GOOD("9112 3, each kind of byte", "GET /%41-._~!$&'()*+,;=:@/?/?\"<>[\\]^`{|} HTTP/1.1\r\n\r\n"),
                GOOD("9110 5.5, an empty value", "GET / HTTP/1.1\r\nA:\r\nB: \r\nC:\t\r\n\r\n"),
                GOOD("9110 5.5, obs-text", "GET / HTTP/1.1\r\nA: \x80\xff\r\n\r\n"),
                GOOD("9112 5, white space around values", "GET / HTTP/1.1\r\nA:  b\t \r\nB:c\r\nC:\td \r\n\r\n"),
                GOOD("9110 5.6.2, each kind of byte", "GET / HTTP/1.1\r\nA!#$%&'*+-.^_`|~9: b\r\n\r\n"),
                GOOD("9110 5.5, a value may hold anything", "GET / HTTP/1.1\r\nA: :b: \"c\" (d) <e>\t{f}\r\n\r\n"),
        };

        CHECK_ROWS(rows);
}

static void
a_malformed_request_line_is_refused_where_it_goes_wrong(void)
{
        static const struct row rows[] = {
                ROW("9112 2.2, two empty lines", "\r\n\r", "\nGET / HTTP/1.1\r\n\r\n", 400),
                ROW("9112 2.2, CR without LF before", "\rG", "ET / HTTP/1.1\r\n\r\n", 400),
                ROW("9112 2.2, LF before", "\n", "GET / HTTP/1.1\r\n\r\n", 400),
                ROW("row 6, SP before the method", " ", "GET / HTTP/1.1\r\n\r\n", 400),
                ROW("row 7, two SP", "GET  ", "/ HTTP/1.1\r\n\r\n", 400),
                ROW("row 7, two SP", "GET /  ", "HTTP/1.1\r\n\r\n", 400),
                ROW("row 7, SP behind", "GET / HTTP/1.1 ", "\r\n\r\n", 400),
                ROW("row 8, HTAB", "GET\t", "/ HTTP/1.1\r\n\r\n", 400),
                ROW("row 8, HTAB", "GET /\t", "HTTP/1.1\r\n\r\n", 400),
                ROW("row 9, HTTP/0.9", "GET /\r", "\n", 400),
                ROW("9112 3, only a method", "GET\r", "\n\r\n", 400),
                ROW("row 10", "GET / HTTP/1.10", "\r\n\r\n", 400),
                ROW("9112 2.3, no minor", "GET / HTTP/1\r", "\n\r\n", 400),
                ROW("9112 2.3, no minor", "GET / HTTP/2\r", "\n\r\n", 400),
                ROW("9112 2.3, no digits", "GET / HTTP/x", ".1\r\n\r\n", 400),
                ROW("9112 2.3, no digits", "GET / HTTP/1.x", "\r\n\r\n", 400),
                ROW("9112 2.3, two digits", "GET / HTTP/11", ".1\r\n\r\n", 400),
                ROW("9112 2.3, a comma", "GET / HTTP/1,", "1\r\n\r\n", 400),
                ROW("row 11", "GET / HTTP/2.0\r\n", "\r\n", 505),
                ROW("row 11", "GET / HTTP/9.9\r\n", "\r\n", 505),
                ROW("9110 15.6.6", "GET / HTTP/0.9\r\n", "\r\n", 505),
                ROW("9113 3.4, the preface of HTTP/2", "PRI * HTTP/2.0\r\n", "\r\nSM\r\n\r\n", 505),
                ROW("row 12", "GET / h", "ttp/1.1\r\n\r\n", 400),
                ROW("row 13", "FOO / HTTP/1.1\r\n", "Host: a\r\n\r\n", 501),
                ROW("row 14", "G@", "T / HTTP/1.1\r\n\r\n", 400),
                ROW("row 15", "SOURCE /a I", "CE/1.0\r\n\r\n", 400),
                ROW("row 16, NUL", "GET /\0", "a HTTP/1.1\r\n\r\n", 400),
                ROW("row 17, 8-bit", "GET /\xc3", "\xa4 HTTP/1.1\r\n\r\n", 400),
                ROW("row 18, a fragment", "GET /a#", "f HTTP/1.1\r\n\r\n", 400),
                ROW("9112 3, DEL", "GET /\x7f", " HTTP/1.1\r\n\r\n", 400),
                ROW("row 22, LF only", "GET / HTTP/1.1\n", "Host: a\r\n\r\n", 400),
                ROW("row 22, LF only, HTTP/0.9", "GET /\n", "\n", 400),
                ROW("9112 2.2, CR without LF", "GET / HTTP/1.1\rH", "ost: a\r\n\r\n", 400),
                ROW("TLS to a plain port", "\x16", "\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        };

        CHECK_ROWS(rows);
}

#define LINE "GET / HTTP/1.1\r\n"

static void
a_malformed_field_is_refused_where_it_goes_wrong(void)
{
        static const struct row rows[] = {
                ROW("row 22, LF only", LINE "Host: a\n", "\r\n", 400),
                ROW("row 22, LF only at the end", LINE "Host: a\r\n\n", "", 400),
                ROW("row 22, LF only without fields", LINE "\n", "\r\n", 400),
                ROW("row 23, CR inside", LINE "X: a\rb", "\r\n\r\n", 400),
                ROW("row 23, two CR", LINE "X: a\r\r", "\n\r\n", 400),
                ROW("9112 2.2, CR without LF at the end", LINE "X: a\r\n\rb", "\r\n\r\n", 400),
                ROW("row 24, NUL", LINE "X: a\0", "b\r\n\r\n", 400),
                ROW("row 24, a control byte", LINE "X: a\x0b", "b\r\n\r\n", 400),
                ROW("row 24, DEL", LINE "X: a\x7f", "b\r\n\r\n", 400),
                ROW("row 25, SP before the colon", LINE "X ", ": y\r\n\r\n", 400),
                ROW("row 25, HTAB before the colon", LINE "X\t", ": y\r\n\r\n", 400),
                ROW("row 26", LINE "Transfer-Encoding ", ": chunked\r\n\r\n", 400),
                ROW("row 27", LINE "Content-Length ", ": 3\r\n\r\n", 400),
                ROW("row 28, SP before the first field", LINE " ", "Host: a\r\n\r\n", 400),
                ROW("row 28, HTAB before the first field", LINE "\t", "Host: a\r\n\r\n", 400),
                ROW("row 29, SP in a name", LINE "X ", "Y: z\r\n\r\n", 400),
                ROW("row 30, no name", LINE ":", " z\r\n\r\n", 400),
                ROW("row 30, no colon", LINE "Host\r", "\n\r\n", 400),
                ROW("9110 5.6.2, NUL in a name", LINE "X\0", "Y: z\r\n\r\n", 400),
                ROW("9110 5.6.2, 8-bit in a name", LINE "X\xe4", ": z\r\n\r\n", 400),
                ROW("row 31, obs-fold", LINE "X: a\r\n ", "b\r\n\r\n", 400),
                ROW("row 31, obs-fold with HTAB", LINE "X: a\r\n\t", "b\r\n\r\n", 400),
                ROW("row 32", LINE "Transfer-Encoding:\r\n ", "chunked\r\n\r\n", 400),
        };

        CHECK_ROWS(rows);
}

/* By rules written another way than the table. */
static bool
is_token_byte(int byte)
{
        return byte > 0x20 && byte < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", byte);
}

static bool
is_target_byte(int byte)
{
        return byte > 0x20 && byte < 0x7f && byte != '#';
}

static bool
is_value_byte(int byte)
{
        return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

static void
each_byte_is_in_the_classes_that_the_grammar_says(void)
{
        unsigned wrong = 0;

        for (int byte = 0; byte < 256; byte++) {
                bool is_digit = byte >= '0' && byte <= '9';
                bool is_letter = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
                bool is_name = is_digit || is_letter || (byte != 0 && strchr("-._~!$&'()*+,;=", byte));

                wrong += weir__byte_is((char)byte, WEIR__BYTE_TOKEN) != is_token_byte(byte);
                wrong += weir__byte_is((char)byte, WEIR__BYTE_TARGET) != is_target_byte(byte);
                wrong += weir__byte_is((char)byte, WEIR__BYTE_VALUE) != is_value_byte(byte);
                wrong += weir__byte_is((char)byte, WEIR__BYTE_NAME) != is_name;
                wrong += weir__byte_is((char)byte, WEIR__BYTE_HEX) != (byte != 0 && strchr("0123456789abcdefABCDEF", byte));
                wrong += weir__byte_is((char)byte, WEIR__BYTE_DIGIT) != is_digit;
                wrong += weir__byte_is((char)byte, WEIR__BYTE_DELIMITER) != (byte != 0 && strchr(":/?#[]@", byte));
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

/* The gate looks at eight bytes at once: the first wrong byte ends the valid ones, at each place and with any bytes behind it. */
static void
a_span_ends_at_the_first_byte_that_does_not_fit(void)
{
        static const char neighbours[] = "x\x80\xff \x01\x7f\t";
        char text[20];
        unsigned wrong = 0;

        for (int byte = 0; byte < 256; byte++) {
                for (size_t at = 0; at < sizeof text; at++) {
                        for (size_t i = 0; i < sizeof neighbours; i++) { /* the NUL, too */
                                memset(text, 'v', at);
                                memset(text + at, neighbours[i], sizeof text - at);
                                text[at] = (char)byte;
                                size_t fits = at + 1 == sizeof text || is_value_byte((unsigned char)neighbours[i]) ? sizeof text
                                                                                                                   : at + 1;
                                wrong += weir__bytes_span(text, sizeof text, WEIR__BYTE_VALUE) !=
                                         (is_value_byte(byte) ? fits : at);
                        }
                }
        }
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT_EQUAL(weir__bytes_span(text, 0, WEIR__BYTE_VALUE), 0);
}

/* The head with `byte` in place of the '?' in it; the verdict that falls on that byte, MORE when none does. */
static int
verdict_on(const char *head, int byte)
{
        struct weir__gate gate = {.scanned = 0};
        size_t at = (size_t)(strchr(head, '?') - head), ignored;
        char *data = malloc(at + 1);
        int r;

        memcpy(data, head, at);
        data[at] = (char)byte;
        r = weir__gate_feed(&gate, &usual, data, at + 1, &ignored);
        free(data);
        return r;
}

static void
each_byte_is_judged_in_each_place(void)
{
        unsigned wrong = 0;

        for (int byte = 0; byte < 256; byte++) {
                wrong += (verdict_on("?", byte) == WEIR__GATE_MORE) != (is_token_byte(byte) || byte == '\r');
                wrong += (verdict_on("\r?", byte) == WEIR__GATE_MORE) != (byte == '\n');
                wrong += (verdict_on("\r\n?", byte) == WEIR__GATE_MORE) != is_token_byte(byte);
                wrong += (verdict_on("G?", byte) == WEIR__GATE_MORE) != (is_token_byte(byte) || byte == ' ');
                wrong += (verdict_on("GET ?", byte) == WEIR__GATE_MORE) != is_target_byte(byte);
                wrong += (verdict_on("GET /?", byte) == WEIR__GATE_MORE) != (is_target_byte(byte) || byte == ' ');
                wrong += (verdict_on("GET / ?", byte) == WEIR__GATE_MORE) != (byte == 'H');
                wrong += (verdict_on("GET / HTTP/?", byte) == WEIR__GATE_MORE) != (byte >= '0' && byte <= '9');
                wrong += (verdict_on("GET / HTTP/1.?", byte) == WEIR__GATE_MORE) != (byte >= '0' && byte <= '9');
                wrong += (verdict_on("GET / HTTP/1.1?", byte) == WEIR__GATE_MORE) != (byte == '\r');
                wrong += (verdict_on("GET / HTTP/1.1\r?", byte) == WEIR__GATE_MORE) != (byte == '\n');
                wrong += (verdict_on(LINE "?", byte) == WEIR__GATE_MORE) != (is_token_byte(byte) || byte == '\r');
                wrong += (verdict_on(LINE "\r?", byte) == WEIR__GATE_HEAD) != (byte == '\n');
                wrong += (verdict_on(LINE "X?", byte) == WEIR__GATE_MORE) != (is_token_byte(byte) || byte == ':');
                wrong += (verdict_on(LINE "X:?", byte) == WEIR__GATE_MORE) != (is_value_byte(byte) || byte == '\r');
                wrong += (verdict_on(LINE "X:\r?", byte) == WEIR__GATE_MORE) != (byte == '\n');
        }
        CU_ASSERT_EQUAL(wrong, 0);
}

static int
verdict_on_method(const char *method)
{
        struct weir__gate gate = {.scanned = 0};
        char head[512];
        size_t ignored;

        snprintf(head, sizeof head, "%s / HTTP/1.1\r\n\r\n", method);
        return weir__gate_feed(&gate, &usual, head, strlen(head), &ignored);
}

static void
a_method_that_nobody_knows_is_not_implemented(void)
{
        static const char *const known[] = {
                "DELETE",   "GET",    "HEAD",   "POST",  "PUT",    "CONNECT",    "OPTIONS",  "TRACE",     "COPY",
                "LOCK",     "MKCOL",  "MOVE",   "BIND",  "SEARCH", "PROPFIND",   "UNLOCK",   "PROPPATCH", "REBIND",
                "UNBIND",   "ACL",    "REPORT", "MERGE", "NOTIFY", "MKACTIVITY", "CHECKOUT", "SUBSCRIBE", "UNSUBSCRIBE",
                "M-SEARCH", "SOURCE", "PATCH",  "PURGE", "LINK",   "MKCALENDAR", "UNLINK",
        };
        static const char *const unknown[] = {"FOO", "G",    "GE",           "GETS",    "get", "Get",
                                              "!",   "BREW", "UNSUBSCRIBES", "MSEARCH", "123"};
        char long_one[301];

        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
                CU_ASSERT_EQUAL(verdict_on_method(known[i]), WEIR__GATE_HEAD);
        }
        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
                CU_ASSERT_EQUAL(verdict_on_method(unknown[i]), 501);
        }
        memset(long_one, 'G', sizeof long_one - 1);
        long_one[sizeof long_one - 1] = '\0';
        CU_ASSERT_EQUAL(verdict_on_method(long_one), 501);
}

static void
a_request_line_one_byte_too_long_is_refused_before_its_end(void)
{
        static const char line[] = "GET /0123 HTTP/1.1"; /* 18 bytes */
        static const char head[] = "GET /0123 HTTP/1.1\r\n\r\n", later[] = "\r\nGET /0123 HTTP/1.1\r\n\r\n";
        const struct weir__gate_limits fits = {.max_line = sizeof line - 1, .max_head = 1000, .max_fields = 10};
        const struct weir__gate_limits short_by_one = {.max_line = sizeof line - 2, .max_head = 1000, .max_fields = 10};

        CU_ASSERT(verdict_falls_at(&fits, head, sizeof head - 1, WEIR__GATE_HEAD, sizeof head - 1));
        CU_ASSERT(verdict_falls_at(&fits, later, sizeof later - 1, WEIR__GATE_HEAD, sizeof later - 1));
        CU_ASSERT(verdict_falls_at(&short_by_one, head, sizeof head - 1, 414, sizeof line));
        CU_ASSERT(verdict_falls_at(&short_by_one, later, sizeof later - 1, 414, sizeof line + 2));
}

/* Row 21. */
static void
a_target_without_end_is_refused_at_the_limit(void)
{
        size_t size = 100000, at = 0, ignored;
        char *data = malloc(size);

        memset(data, 'a', size);
        memcpy(data, "GET /", 5);
        CU_ASSERT_EQUAL(feed_bytes(&(struct weir__gate_limits){300, 1000, 10}, data, size, &at, &ignored), 414);
        CU_ASSERT_EQUAL(at, 302);
        CU_ASSERT_EQUAL(feed_in_two(&usual, data, size, size, &ignored), 414);
        CU_ASSERT_EQUAL(feed_in_two(&usual, data, 8193, 8193, &ignored), WEIR__GATE_MORE);
        CU_ASSERT_EQUAL(feed_in_two(&usual, data, 8194, 8194, &ignored), 414);
        memset(data, 'A', size); /* a method without end */
        CU_ASSERT_EQUAL(feed_in_two(&usual, data, size, size, &ignored), 414);
        free(data);
}

/* Row 50. */
static void
a_head_one_byte_too_long_is_refused_before_its_end(void)
{
        static const char head[] = "\r\nGET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
        struct weir__gate_limits limits = {.max_line = 14, .max_head = sizeof head - 1, .max_fields = 2};

        CU_ASSERT(verdict_falls_at(&limits, head, sizeof head - 1, WEIR__GATE_HEAD, sizeof head - 1));
        for (limits.max_head--; limits.max_head >= 18; limits.max_head--) {
                CU_ASSERT(verdict_falls_at(&limits, head, sizeof head - 1, 431, limits.max_head));
        }
        for (; limits.max_head > 0; limits.max_head--) {
                CU_ASSERT(verdict_falls_at(&limits, head, sizeof head - 1, 414, limits.max_head));
        }
}

static void
a_field_too_many_is_refused_at_its_first_byte(void)
{
        static const char head[] = LINE "A: 1\r\nB: 2\r\nC: 3\r\n\r\n";
        struct weir__gate_limits limits = {.max_line = 100, .max_head = 1000, .max_fields = 3};

        CU_ASSERT(verdict_falls_at(&limits, head, sizeof head - 1, WEIR__GATE_HEAD, sizeof head - 1));
        for (limits.max_fields = 0; limits.max_fields < 3; limits.max_fields++) {
                CU_ASSERT(verdict_falls_at(&limits, head, sizeof head - 1, 431, sizeof LINE + limits.max_fields * 6));
        }
}

static void
two_hundred_fields_are_let_through_and_a_thousand_are_not(void)
{
        size_t size = 0, at = 0, head_size = 0;
        char *data = malloc(20000);

        size += (size_t)sprintf(data, LINE "Host: a\r\n");
        for (int i = 0; i < 199; i++) {
                size += (size_t)sprintf(data + size, "X-%d: %d\r\n", i, i);
        }
        size += (size_t)sprintf(data + size, "\r\n");
        CU_ASSERT_EQUAL(feed_in_two(&usual, data, size, size, &head_size), WEIR__GATE_HEAD);
        CU_ASSERT_EQUAL(head_size, size);
        for (size -= 2; size < 15000;) {
                size += (size_t)sprintf(data + size, "X-n: %zu\r\n", size);
        }
        CU_ASSERT_EQUAL(feed_in_two(&usual, data, size, size, &head_size), 431);
        CU_ASSERT_EQUAL(feed_bytes(&usual, data, size, &at, &head_size), 431);
        free(data);
}

static void
without_limits_a_head_still_ends_at_16_mib(void)
{
        const struct weir__gate_limits none = {.max_line = SIZE_MAX, .max_head = SIZE_MAX, .max_fields = SIZE_MAX};
        size_t size = WEIR__HEAD_MAX + 1, head_size = 0;
        char *data = malloc(size);

        memset(data, 'x', size);
        memcpy(data, LINE "A:", sizeof LINE + 1);
        CU_ASSERT_EQUAL(feed_in_two(&none, data, WEIR__HEAD_MAX - 1, 100, &head_size), WEIR__GATE_MORE);
        CU_ASSERT_EQUAL(feed_in_two(&none, data, size, 100, &head_size), 431);
        memcpy(data + WEIR__HEAD_MAX - 4, "\r\n\r\n", 4);
        CU_ASSERT_EQUAL(feed_in_two(&none, data, size, 100, &head_size), WEIR__GATE_HEAD);
        CU_ASSERT_EQUAL(head_size, WEIR__HEAD_MAX);
        memset(data, 'x', size);
        CU_ASSERT_EQUAL(feed_in_two(&none, data, size, 100, &head_size), 414);
        free(data);
}

static void
an_incomplete_head_has_no_verdict(void)
{
        static const char head[] = "\r\nPOST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
        size_t head_size = 77;

        for (size_t size = 0; size < sizeof head - 1; size++) {
                CU_ASSERT_EQUAL(feed_in_two(&usual, head, size, size / 2, &head_size), WEIR__GATE_MORE);
        }
        CU_ASSERT_EQUAL(head_size, 77); /* untouched until the head is complete */
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(valid_heads_are_let_through),
                WEIR_TEST(a_malformed_request_line_is_refused_where_it_goes_wrong),
                WEIR_TEST(a_malformed_field_is_refused_where_it_goes_wrong),
                WEIR_TEST(each_byte_is_in_the_classes_that_the_grammar_says),
                WEIR_TEST(a_span_ends_at_the_first_byte_that_does_not_fit),
                WEIR_TEST(each_byte_is_judged_in_each_place),
                WEIR_TEST(a_method_that_nobody_knows_is_not_implemented),
                WEIR_TEST(a_request_line_one_byte_too_long_is_refused_before_its_end),
                WEIR_TEST(a_target_without_end_is_refused_at_the_limit),
                WEIR_TEST(a_head_one_byte_too_long_is_refused_before_its_end),
                WEIR_TEST(a_field_too_many_is_refused_at_its_first_byte),
                WEIR_TEST(two_hundred_fields_are_let_through_and_a_thousand_are_not),
                WEIR_TEST(without_limits_a_head_still_ends_at_16_mib),
                WEIR_TEST(an_incomplete_head_has_no_verdict),
        };

        return weir_test_main("gate", tests, sizeof tests / sizeof *tests);
}
