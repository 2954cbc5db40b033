/* test/request_test.c: requests through gate and parser, as a server takes them in: which are refused with which status, and the
 * content of the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message/gate.h"
#include "protocol/message/request.h"
#include "test/support.h"

#define MAX_BODY 1000

static const struct weir__gate_limits usual = {.max_line = 8192, .max_head = 32768, .max_fields = 256};

/* Takes in a request whose bytes come in two parts.  Result: 0 and *ret_request; the status of its refusal; -1 when the head is
 * not complete.  The head is parsed where nothing is behind it, so that a sanitizer sees a read beyond the end. */
static int
take_in(const char *data, size_t size, size_t cut, struct weir__request **ret_request)
{
        struct weir__gate gate = {.scanned = 0};
        size_t head_size = 0;
        char *head;
        int r = weir__gate_feed(&gate, &usual, data, cut, &head_size);

        if (r == WEIR__GATE_MORE) {
                r = weir__gate_feed(&gate, &usual, data, size, &head_size);
        }
        if (r != WEIR__GATE_HEAD) {
                return r == WEIR__GATE_MORE ? -1 : r;
        }
        head = malloc(head_size);
        memcpy(head, data, head_size);
        r = weir__request_new(head, head_size, MAX_BODY, malloc, ret_request);
        free(head);
        return r;
}

/* The request that a text is; the test ends when it is none. */
static struct weir__request *
request_of(const char *text)
{
        struct weir__request *request = NULL;

        CU_ASSERT_EQUAL_FATAL(take_in(text, strlen(text), strlen(text), &request), 0);
        return request;
}

static int
status_of(const char *text)
{
        struct weir__request *request = NULL;
        int r = take_in(text, strlen(text), strlen(text), &request);

        free(request);
        return r;
}

struct refused {
        const char *source; /* section of the RFC, or row of the list of known malformed requests */
        const char *text;
        size_t size;
        int status;
};

#define REFUSED(source, text, status)                  \
        {                                              \
                source, text, sizeof(text) - 1, status \
        }
#define GET  "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

/* In every two parts: the status, and nothing built. */
static void
check_refused(const struct refused *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                unsigned wrong = 0;
                int status = 0;

                for (size_t cut = 0; cut <= rows[i].size; cut++) {
                        struct weir__request *untouched = NULL;

                        status = take_in(rows[i].text, rows[i].size, cut, &untouched);
                        wrong += status != rows[i].status || untouched != NULL;
                        free(untouched);
                }
                CU_ASSERT_EQUAL(wrong, 0);
                if (wrong > 0) {
                        printf("\n  row %zu, source %s: %d\n", i, rows[i].source, status);
                }
        }
}

#define CHECK_REFUSED(rows) check_refused(rows, sizeof(rows) / sizeof *(rows))

static void
a_request_without_a_good_host_is_refused(void)
{
        static const struct refused rows[] = {
                REFUSED("row 1, none", GET "\r\n", 400),
                REFUSED("row 1, none, later version", "GET / HTTP/1.2\r\n\r\n", 400),
                REFUSED("row 1, none beside absolute-form", "GET http://b/ HTTP/1.1\r\n\r\n", 400),
                REFUSED("row 2, two", GET HOST HOST "\r\n", 400),
                REFUSED("row 2, two, in HTTP/1.0", "GET / HTTP/1.0\r\n" HOST "hOST: b\r\n\r\n", 400),
                REFUSED("row 2, two, one empty", GET HOST "Host:\r\n\r\n", 400),
                REFUSED("row 3", GET "Host: a b\r\n\r\n", 400),
                REFUSED("row 3", GET "Host: a/\r\n\r\n", 400),
                REFUSED("row 3", GET "Host: a@c\r\n\r\n", 400),
                REFUSED("row 3", GET "Host: a b/@c\r\n\r\n", 400),
                REFUSED("9112 3.2, a list", GET "Host: a, b?\r\n\r\n", 400),
                REFUSED("9112 3.2, obs-text", GET "Host: a\xe4\r\n\r\n", 400),
                REFUSED("9112 3.2, HTAB inside", GET "Host: a\tb\r\n\r\n", 400),
                REFUSED("9112 3.2, a fragment", GET "Host: a#b\r\n\r\n", 400),
                REFUSED("3986 3.2.2, no such escape", GET "Host: a%4\r\n\r\n", 400),
                REFUSED("3986 3.2.2, no such escape", GET "Host: %zz\r\n\r\n", 400),
                REFUSED("3986 3.2.3, no port", GET "Host: a:b\r\n\r\n", 400),
                REFUSED("3986 3.2.3, two ports", GET "Host: a:1:2\r\n\r\n", 400),
                REFUSED("3986 3.2.3, a negative port", GET "Host: a:-1\r\n\r\n", 400),
                REFUSED("9110 4.2.1, only a port", GET "Host: :80\r\n\r\n", 400),
                REFUSED("3986 3.2.2, not closed", GET "Host: [::1\r\n\r\n", 400),
                REFUSED("3986 3.2.2, not opened", GET "Host: ::1]\r\n\r\n", 400),
                REFUSED("3986 3.2.2, no brackets", GET "Host: ::1\r\n\r\n", 400),
                REFUSED("3986 3.2.2, nothing inside", GET "Host: []\r\n\r\n", 400),
                REFUSED("3986 3.2.2, no address", GET "Host: [a]\r\n\r\n", 400),
                REFUSED("3986 3.2.2, too long for an address",
                        GET "Host: [0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]\r\n\r\n", 400),
                REFUSED("3986 3.2.2, something behind", GET "Host: [::1]a\r\n\r\n", 400),
                REFUSED("row 4, empty", GET "Host:\r\n\r\n", 400),
                REFUSED("row 4, empty", GET "Host: \t\r\n\r\n", 400),
        };

        CHECK_REFUSED(rows);
}

static void
a_target_that_is_none_is_refused(void)
{
        static const struct refused rows[] = {
                REFUSED("row 19", "GET * HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.4", "OPTIONS ** HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.4", "OPTIONS *?a HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 20", "CONNECT /x HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.3, absolute-form", "CONNECT http://a:1/ HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.3, no port", "CONNECT a HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.3, empty port", "CONNECT a: HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.3, no port", "CONNECT [::1] HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.3, no host", "CONNECT :1 HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9110 9.3.6, right, not served", "CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 501),
                REFUSED("9110 9.3.6, right, not served", "CONNECT [::1]:443 HTTP/1.1\r\n" HOST "\r\n", 501),
                REFUSED("9110 9.3.6, a malformed request all the same", "CONNECT a:1 HTTP/1.1\r\n\r\n", 400),
                REFUSED("9112 3.2, authority-form", "GET a:1 HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2, no slash", "GET a HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2, only a query", "GET ?a HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.2, another scheme", "GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.2, no authority", "GET http:///a HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.2, no authority", "GET http:/a HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.2, no authority", "GET http:// HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.2, only a port", "GET http://:80/ HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9110 4.2.4, userinfo", "GET http://u@a/ HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.2, no port", "GET http://a:b/ HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("9112 3.2.2, a bad Host beside it", "GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
                REFUSED("3986 2.1, no such escape", "GET /%4 HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("3986 2.1, no such escape", "GET /a% HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("3986 2.1, no such escape", "GET /%zz HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("3986 2.1, cut by the query", "GET /%4?1 HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("3986 2.1, in absolute-form", "GET http://a/%g0 HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("3986 7.3, NUL", "GET /a%00b HTTP/1.1\r\n" HOST "\r\n", 400),
        };

        CHECK_REFUSED(rows);
}

static void
framing_that_contradicts_itself_is_refused(void)
{
        static const struct refused rows[] = {
                REFUSED("row 33", GET HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
                REFUSED("row 33", GET HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
                REFUSED("row 33", GET HOST "Transfer-Encoding: gzip, chunked\r\nContent-Length: 0\r\n\r\n", 400),
                REFUSED("row 33", GET HOST "Transfer-Encoding: foo\r\nContent-Length: 3\r\n\r\n", 400),
                REFUSED("row 34", GET HOST "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400),
                REFUSED("row 35", GET HOST "Content-Length: 3, 3\r\n\r\n", 400),
                REFUSED("row 36", GET HOST "Content-Length: +3\r\n\r\n", 400),
                REFUSED("row 36", GET HOST "Content-Length: -1\r\n\r\n", 400),
                REFUSED("row 36", GET HOST "Content-Length: 0x3\r\n\r\n", 400),
                REFUSED("row 36", GET HOST "Content-Length:\r\n\r\n", 400),
                REFUSED("row 36", GET HOST "Content-Length: \t\r\n\r\n", 400),
                REFUSED("9112 6.3", GET HOST "Content-Length: 3 4\r\n\r\n", 400),
                REFUSED("9112 6.3", GET HOST "Content-Length: 3\t4\r\n\r\n", 400),
                REFUSED("9112 6.3", GET HOST "Content-Length: 3;\r\n\r\n", 400),
                REFUSED("9112 6.3", GET HOST "Content-Length: 1e2\r\n\r\n", 400),
                REFUSED("9112 6.3", GET HOST "Content-Length: \xb2\r\n\r\n", 400),
                REFUSED("row 37, 2^64 + 3", GET HOST "Content-Length: 18446744073709551619\r\n\r\n", 400),
                REFUSED("row 37, 2^64 + 3 with zeros", GET HOST "Content-Length: 00018446744073709551619\r\n\r\n", 400),
                REFUSED("row 37, 2^128", GET HOST "Content-Length: 340282366920938463463374607431768211456\r\n\r\n", 400),
                REFUSED("row 37, 2^64 - 2", GET HOST "Content-Length: 18446744073709551614\r\n\r\n", 400),
                REFUSED("row 58", GET HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 400),
                REFUSED("row 38", GET HOST "Transfer-Encoding: foo\r\n\r\n", 400),
                REFUSED("row 38", GET HOST "Transfer-Encoding: identity\r\n\r\n", 400),
                REFUSED("row 38", GET HOST "Transfer-Encoding:\r\n\r\n", 400),
                REFUSED("row 40", GET HOST "Transfer-Encoding: chunked, gzip\r\n\r\n", 400),
                REFUSED("row 40", GET HOST "Transfer-Encoding: chunked, gzip, chunked\r\n\r\n", 400),
                REFUSED("row 40", GET HOST "Transfer-Encoding: xchunked\r\n\r\n", 400),
                REFUSED("row 40", GET HOST "Transfer-Encoding: chunkedx\r\n\r\n", 400),
                REFUSED("row 40", GET HOST "Transfer-Encoding: \"chunked\"\r\n\r\n", 400),
                REFUSED("row 40", GET HOST "Transfer-Encoding: chunked;a=b\r\n\r\n", 400),
                REFUSED("9112 6.1, chunked twice", GET HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 400),
                REFUSED("9110 5.6.1, an empty member", GET HOST "Transfer-Encoding: , chunked\r\n\r\n", 400),
                REFUSED("9110 5.6.1, an empty member", GET HOST "Transfer-Encoding: chunked,\r\n\r\n", 400),
                REFUSED("row 41", GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
                REFUSED("row 41", GET HOST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
                REFUSED("row 41", GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 400),
                REFUSED("row 41, a field like it before", GET HOST "Transfer-Encoding-X: x\r\nTransfer-Encoding: gzip\r\n\r\n",
                        400),
                REFUSED("row 33, a field like it before",
                        GET HOST "Transfer-Encodings: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
                REFUSED("row 33, a field like it between",
                        GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encodings: x\r\nContent-Length: 3\r\n\r\n", 400),
                REFUSED("row 42", "GET / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 400),
        };

        CHECK_REFUSED(rows);
}

static void
a_valid_request_that_is_not_served_has_its_status(void)
{
        static const struct refused rows[] = {
                REFUSED("row 39", GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
                REFUSED("row 39, white space", GET HOST "Transfer-Encoding: gzip\t,\tchunked\t\r\n\r\n", 501),
                REFUSED("row 39, any other", GET HOST "Transfer-Encoding: identity, chunked\r\n\r\n", 501),
                REFUSED("row 39, two others", GET HOST "Transfer-Encoding: gzip, br, chunked\r\n\r\n", 501),
                REFUSED("row 39, a parameter", GET HOST "Transfer-Encoding: x;y=z, chunked\r\n\r\n", 501),
                REFUSED("9110 10.1.1, chunked", GET HOST "Expect: x\r\nTransfer-Encoding: chunked\r\n\r\n", 417),
                REFUSED("9110 9.3.6, chunked", "CONNECT a:1 HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 501),
                REFUSED("row 13", "FOO / HTTP/1.1\r\n" HOST "\r\n", 501),
                REFUSED("row 11", "GET / HTTP/2.0\r\n" HOST "\r\n", 505),
                REFUSED("row 53", GET HOST "Expect: 200-ok\r\n\r\n", 417),
                REFUSED("row 53, a list", GET HOST "Expect: 100-continue, 200-ok\r\n\r\n", 417),
                REFUSED("row 53, two lines", GET HOST "Expect: 100-continue\r\nExpect: x\r\n\r\n", 417),
                REFUSED("9110 10.1.1, a parameter", GET HOST "Expect: 100-continue;a=b\r\n\r\n", 417),
                REFUSED("9110 15.5.14, too large", GET HOST "Content-Length: 1001\r\n\r\n", 413),
                REFUSED("9110 15.5.14, too large", GET HOST "Content-Length: 18446744073709551600\r\n\r\n", 413),
                REFUSED("9110 15.5.14, said before it is sent", GET HOST "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n",
                        413),
        };

        CHECK_REFUSED(rows);
}

/* Rows 6 to 32, whose bytes test/gate_test.c has one by one: that a server which takes in the whole sees the same. */
static void
malformed_bytes_are_refused_on_the_whole_way(void)
{
        static const struct refused rows[] = {
                REFUSED("row 6", " " GET HOST "\r\n", 400),
                REFUSED("row 7", "GET  / HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 8", "GET\t/\tHTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 9", "GET /\r\n", 400),
                REFUSED("row 10", "GET / HTTP/1.10\r\n" HOST "\r\n", 400),
                REFUSED("row 12", "GET / http/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 14", "G@T / HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 15", "SOURCE /a ICE/1.0\r\n" HOST "\r\n", 400),
                REFUSED("row 16", "GET /\0 HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 17", "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 18", "GET /a#f HTTP/1.1\r\n" HOST "\r\n", 400),
                REFUSED("row 22", "GET / HTTP/1.1\nHost: a\n\n", 400),
                REFUSED("row 23", GET HOST "X: a\rb\r\n\r\n", 400),
                REFUSED("row 24", GET HOST "X: a\0b\r\n\r\n", 400),
                REFUSED("row 25", GET HOST "X : y\r\n\r\n", 400),
                REFUSED("row 26", GET HOST "Transfer-Encoding : chunked\r\n\r\n", 400),
                REFUSED("row 27", GET HOST "Content-Length : 3\r\n\r\n", 400),
                REFUSED("row 28", GET " " HOST "\r\n", 400),
                REFUSED("row 29", GET HOST "X Y: z\r\n\r\n", 400),
                REFUSED("row 30", GET HOST ": z\r\n\r\n", 400),
                REFUSED("row 30", GET HOST "no colon\r\n\r\n", 400),
                REFUSED("row 31", GET HOST "X: a\r\n b\r\n\r\n", 400),
                REFUSED("row 32", GET HOST "Transfer-Encoding:\r\n chunked\r\n\r\n", 400),
        };

        CHECK_REFUSED(rows);
}

struct served {
        const char *source;
        const char *text;
        const char *path, *query, *host;
        uint64_t content_length;
        bool is_persistent, is_continue_expected;
};

static bool
same(const char *one, const char *other)
{
        return one && other ? strcmp(one, other) == 0 : one == other;
}

static bool
is_as_expected(const struct weir__request *request, const struct served *row)
{
        return same(request->path, row->path) && same(request->query, row->query) && same(request->host, row->host) &&
               request->content_length == row->content_length && request->is_persistent == row->is_persistent &&
               request->is_continue_expected == row->is_continue_expected && !request->is_chunked;
}

static void
check_served(const struct served *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                size_t size = strlen(rows[i].text);
                unsigned wrong = 0;
                int status = 0;

                for (size_t cut = 0; cut <= size; cut++) {
                        struct weir__request *request = NULL;

                        status = take_in(rows[i].text, size, cut, &request);
                        wrong += status != 0 || !is_as_expected(request, &rows[i]);
                        free(request);
                }
                CU_ASSERT_EQUAL(wrong, 0);
                if (wrong > 0) {
                        printf("\n  row %zu, source %s: %d\n", i, rows[i].source, status);
                }
        }
}

#define CHECK_SERVED(rows) check_served(rows, sizeof(rows) / sizeof *(rows))

static void
valid_requests_are_served(void)
{
        static const struct served rows[] = {
                {"9112 2.1", GET HOST "\r\n", "/", NULL, "a", 0, true, false},
                {"9112 2.2, an empty line", "\r\n" GET HOST "\r\n", "/", NULL, "a", 0, true, false},
                {"9112 2.3, HTTP/1.2", "GET / HTTP/1.2\r\n" HOST "\r\n", "/", NULL, "a", 0, true, false},
                {"9112 9.3, HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "/", NULL, "", 0, false, false},
                {"9110 5.1, names in any case", GET "hOsT: a\r\ncontent-LENGTH: 3\r\n\r\n", "/", NULL, "a", 3, true, false},
                {"9112 5, white space", GET "Host:a\r\nContent-Length:\t 3\t \r\n\r\n", "/", NULL, "a", 3, true, false},
                {"9112 5, white space", GET "Host: \t a \t\r\nContent-Length: 3\t\r\nX: \ty\tz\r\n\r\n", "/", NULL, "a", 3, true,
                 false},
                {"9110 5.5, obs-text", GET HOST "X: \xc3\xa4\r\n\r\n", "/", NULL, "a", 0, true, false},
                {"9110 5.5, an empty value", GET "X:\r\n" HOST "Y: \r\n\r\n", "/", NULL, "a", 0, true, false},
                {"9110 8.6, 003", GET HOST "Content-Length: 003\r\n\r\n", "/", NULL, "a", 3, true, false},
                {"9110 5.1, no framing", GET HOST "Content-Length: 3\r\nTransfer-Encoding-X: gzip\r\n\r\n", "/", NULL, "a", 3,
                 true, false},
                {"9110 5.1, no framing", GET HOST "Transfer-Encodings: x\r\nContent-Length: 3\r\n\r\n", "/", NULL, "a", 3, true,
                 false},
                {"9110 5.1, no framing", GET HOST "Content-Lengths: 3\r\nTransfer-Encodin: chunked\r\n\r\n", "/", NULL, "a", 0,
                 true, false},
                {"9110 5.1, no framing", GET HOST "X-Content-Length: 3\r\nX-Transfer-Encoding: chunked\r\n\r\n", "/", NULL, "a",
                 0, true, false},
                {"9110 8.6, 0", GET HOST "Content-Length: 0\r\n\r\n", "/", NULL, "a", 0, true, false},
                {"9110 9.3.1, a body on GET", GET HOST "Content-Length: 1000\r\n\r\n", "/", NULL, "a", 1000, true, false},
                {"row 51, Upgrade", GET HOST "Upgrade: x\r\nConnection: upgrade\r\n\r\n", "/", NULL, "a", 0, true, false},
                {"row 51, with a body",
                 GET HOST "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 5\r\n\r\n", "/", NULL, "a", 5,
                 true, false},
                {"9112 9.3, HTTP/1.0 over Upgrade", "GET / HTTP/1.0\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "/", NULL, "",
                 0, false, false},
        };

        CHECK_SERVED(rows);
}

static void
targets_say_path_query_and_host(void)
{
        static const struct served rows[] = {
                {"3986 3.3", "GET /a/b HTTP/1.1\r\n" HOST "\r\n", "/a/b", NULL, "a", 0, true, false},
                {"3986 3.4", "GET /a?b=c?d HTTP/1.1\r\n" HOST "\r\n", "/a", "b=c?d", "a", 0, true, false},
                {"3986 3.4, empty", "GET /a? HTTP/1.1\r\n" HOST "\r\n", "/a", "", "a", 0, true, false},
                {"3986 2.1", "GET /%41%2f%7E%c3%A4 HTTP/1.1\r\n" HOST "\r\n", "/A/~\xc3\xa4", NULL, "a", 0, true, false},
                {"3986 2.1, not in the query", "GET /%20?%20%zz%00 HTTP/1.1\r\n" HOST "\r\n", "/ ", "%20%zz%00", "a", 0, true,
                 false},
                {"3986 2.4, once", "GET /%2541 HTTP/1.1\r\n" HOST "\r\n", "/%41", NULL, "a", 0, true, false},
                {"3986 3.3, dots stay", "GET /../a//./%2e%2e HTTP/1.1\r\n" HOST "\r\n", "/../a//./..", NULL, "a", 0, true, false},
                {"row 5", "GET http://b/ HTTP/1.1\r\n" HOST "\r\n", "/", NULL, "b", 0, true, false},
                {"9112 3.2.2", "GET http://b:80/c?d HTTP/1.1\r\n" HOST "\r\n", "/c", "d", "b:80", 0, true, false},
                {"9112 3.2.2, escapes", "GET http://b/%63 HTTP/1.1\r\n" HOST "\r\n", "/c", NULL, "b", 0, true, false},
                {"9112 3.2.2, any case", "GET HttpS://[::1]:1/c HTTP/1.1\r\n" HOST "\r\n", "/c", NULL, "[::1]:1", 0, true, false},
                {"9112 3.2.2, no path", "GET http://b HTTP/1.1\r\n" HOST "\r\n", "/", NULL, "b", 0, true, false},
                {"9112 3.2.2, only a query", "GET http://b?c HTTP/1.1\r\n" HOST "\r\n", "/", "c", "b", 0, true, false},
                {"9112 3.2.2, empty Host", "GET http://b/ HTTP/1.1\r\nHost:\r\n\r\n", "/", NULL, "b", 0, true, false},
                {"9112 3.2.2, HTTP/1.0", "GET http://b/ HTTP/1.0\r\n\r\n", "/", NULL, "b", 0, false, false},
                {"9112 3.2.4", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "*", NULL, "a", 0, true, false},
                {"9112 3.2.4, empty Host", "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "*", NULL, "", 0, true, false},
                {"9112 3.2.4, absolute", "OPTIONS http://b HTTP/1.1\r\n" HOST "\r\n", "*", NULL, "b", 0, true, false},
                {"9112 3.2.4, with a query", "OPTIONS http://b?c HTTP/1.1\r\n" HOST "\r\n", "/", "c", "b", 0, true, false},
                {"9112 3.2.4, with a path", "OPTIONS /a HTTP/1.1\r\n" HOST "\r\n", "/a", NULL, "a", 0, true, false},
                {"3986 3.2.2", GET "Host: 127.0.0.1:8888\r\n\r\n", "/", NULL, "127.0.0.1:8888", 0, true, false},
                {"3986 3.2.2", GET "Host: [2001:db8::1.2.3.4]\r\n\r\n", "/", NULL, "[2001:db8::1.2.3.4]", 0, true, false},
                {"3986 3.2.2", GET "Host: a_b-c.d~%41!$&'()*+,;=\r\n\r\n", "/", NULL, "a_b-c.d~%41!$&'()*+,;=", 0, true, false},
                {"3986 3.2.3, empty port", GET "Host: a:\r\n\r\n", "/", NULL, "a:", 0, true, false},
        };

        CHECK_SERVED(rows);
}

static void
connection_options_say_whether_it_stays(void)
{
        static const struct served rows[] = {
                {"9112 9.3", GET HOST "Connection: close\r\n\r\n", "/", NULL, "a", 0, false, false},
                {"9110 5.6.1", GET HOST "Connection: close, x\r\n\r\n", "/", NULL, "a", 0, false, false},
                {"9110 5.6.1", GET HOST "Connection: x,CLOSE\r\n\r\n", "/", NULL, "a", 0, false, false},
                {"9110 5.6.1", GET HOST "Connection: ,\t, close\t,x\r\n\r\n", "/", NULL, "a", 0, false, false},
                {"9110 5.3", GET HOST "Connection: x\r\nConnection: close\r\n\r\n", "/", NULL, "a", 0, false, false},
                {"9112 9.3, close prevails", GET HOST "Connection: keep-alive, close\r\n\r\n", "/", NULL, "a", 0, false, false},
                {"9110 7.6.1, another option", GET HOST "Connection: closed, xclose, clos\r\n\r\n", "/", NULL, "a", 0, true,
                 false},
                {"9110 7.6.1, not one option", GET HOST "Connection: x close\r\n\r\n", "/", NULL, "a", 0, true, false},
                {"9110 7.6.1, another field", GET HOST "Proxy-Connection: close\r\n\r\n", "/", NULL, "a", 0, true, false},
                {"9112 9.3, HTTP/1.0", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "/", NULL, "", 0, true, false},
                {"9112 9.3, HTTP/1.0", "GET / HTTP/1.0\r\nConnection: x, keep-alive\r\n\r\n", "/", NULL, "", 0, true, false},
                {"9112 9.3, HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "/", NULL, "", 0, false, false},
                {"9110 7.6.1, another field", "GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n", "/", NULL, "", 0, false,
                 false},
        };

        CHECK_SERVED(rows);
}

static void
a_body_may_wait_for_continue(void)
{
        static const struct served rows[] = {
                {"row 54", GET HOST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", "/", NULL, "a", 3, true, true},
                {"9110 10.1.1, any case", GET HOST "Expect: 100-CONTINUE\r\nContent-Length: 3\r\n\r\n", "/", NULL, "a", 3, true,
                 true},
                {"9110 10.1.1, twice", GET HOST "Content-Length: 3\r\nExpect: 100-continue, 100-continue\r\n\r\n", "/", NULL, "a",
                 3, true, true},
                {"9110 10.1.1, no body", GET HOST "Expect: 100-continue\r\n\r\n", "/", NULL, "a", 0, true, false},
                {"9110 10.1.1, no member", GET HOST "Expect:\r\nContent-Length: 3\r\n\r\n", "/", NULL, "a", 3, true, false},
                {"9110 10.1.1, HTTP/1.0", "GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", "/", NULL, "", 3,
                 false, false},
                {"9110 10.1.1, HTTP/1.0", "GET / HTTP/1.0\r\nExpect: x\r\nContent-Length: 3\r\n\r\n", "/", NULL, "", 3, false,
                 false},
        };

        CHECK_SERVED(rows);
}

static void
a_chunked_body_is_announced(void)
{
        static const struct {
                const char *source, *text;
                bool is_continue_expected;
        } rows[] = {
                {"9112 7.1", GET HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
                {"9112 7, in any case", GET HOST "TRANSFER-ENCODING: CHUNKED\r\n\r\n", false},
                {"9112 5, white space", GET HOST "Transfer-Encoding:\tchunked \t\r\n\r\n", false},
                {"9112 5, no white space", GET HOST "transfer-encoding:chunked\r\n\r\n", false},
                {"9112 2.3, HTTP/1.2", "POST / HTTP/1.2\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", false},
                {"9110 7.8, Upgrade", GET HOST "Upgrade: x\r\nConnection: upgrade\r\nTransfer-Encoding: chunked\r\n\r\n", false},
                {"row 54", GET HOST "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", true},
                {"row 54", GET HOST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n", true},
                {"9110 5.1, a field like it before", GET HOST "Transfer-Encodings: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                 false},
                {"9110 5.1, a field like it behind", GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encodin: x\r\n\r\n", false},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                size_t size = strlen(rows[i].text);
                unsigned wrong = 0;

                for (size_t cut = 0; cut <= size; cut++) {
                        struct weir__request *request = NULL;

                        wrong += take_in(rows[i].text, size, cut, &request) != 0 || !request->is_chunked ||
                                 request->content_length != 0 || request->is_continue_expected != rows[i].is_continue_expected;
                        free(request);
                }
                CU_ASSERT_EQUAL(wrong, 0);
                if (wrong > 0) {
                        printf("\n  row %zu, source %s\n", i, rows[i].source);
                }
        }
}

static void
a_request_says_what_came(void)
{
        static const char text[] = "\r\nHEAD /a%20b?c HTTP/1.1\r\nHost: a\r\nX:  one \t two\t\r\nEmpty:\r\nx: three\r\n\r\n";
        struct weir__request *request = request_of(text);
        static const char *const fields[][2] = {{"Host", "a"}, {"X", "one \t two"}, {"Empty", ""}, {"x", "three"}};

        CU_ASSERT_STRING_EQUAL(request->method, "HEAD");
        CU_ASSERT(request->is_head);
        CU_ASSERT_STRING_EQUAL(request->target, "/a%20b?c");
        CU_ASSERT_STRING_EQUAL(request->path, "/a b");
        CU_ASSERT_EQUAL(request->minor, 1);
        CU_ASSERT_EQUAL_FATAL(request->field_count, 4);
        for (size_t i = 0; i < 4; i++) {
                CU_ASSERT_STRING_EQUAL(request->fields[i].name, fields[i][0]);
                CU_ASSERT_STRING_EQUAL(request->fields[i].value, fields[i][1]);
        }
        CU_ASSERT_STRING_EQUAL(weir__request_header(request, "hOST"), "a");
        CU_ASSERT_STRING_EQUAL(weir__request_header(request, "x"), "one \t two");
        CU_ASSERT_STRING_EQUAL(weir__request_header(request, "EMPTY"), "");
        CU_ASSERT_PTR_NULL(weir__request_header(request, "Hos"));
        CU_ASSERT_PTR_NULL(weir__request_header(request, "Hosts"));
        CU_ASSERT_PTR_NULL(weir__request_header(request, ""));
        free(request);
}

static void
every_method_that_the_gate_knows_is_parsed(void)
{
        static const char *const methods[] = {
                "DELETE",   "GET",    "HEAD",   "POST",  "PUT",    "OPTIONS",    "TRACE",    "COPY",      "LOCK",
                "MKCOL",    "MOVE",   "BIND",   "PURGE", "SEARCH", "PROPFIND",   "UNLOCK",   "PROPPATCH", "REBIND",
                "UNBIND",   "ACL",    "REPORT", "MERGE", "NOTIFY", "MKACTIVITY", "CHECKOUT", "SUBSCRIBE", "UNSUBSCRIBE",
                "M-SEARCH", "SOURCE", "PATCH",  "LINK",  "UNLINK", "MKCALENDAR",
        };
        char text[100];

        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
                struct weir__request *request;

                snprintf(text, sizeof text, "%s /a HTTP/1.1\r\nHost: a\r\n\r\n", methods[i]);
                request = request_of(text);
                CU_ASSERT_STRING_EQUAL(request->method, methods[i]);
                CU_ASSERT_STRING_EQUAL(request->path, "/a");
                CU_ASSERT_EQUAL(request->is_head, strcmp(methods[i], "HEAD") == 0);
                free(request);
        }
}

/* Appends to a text that has room. */
#define APPEND(text, size, ...) ((size) += (size_t)sprintf((text) + (size), __VA_ARGS__))

static void
any_number_of_fields_arrives_in_order(void)
{
        static const unsigned counts[] = {200, 255, 256, 257, 1000, 20000};

        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                char *text = malloc(32 * counts[i] + 100), expected[16];
                struct weir__request *request = NULL;
                unsigned wrong = 0;
                size_t size = 0;

                APPEND(text, size, GET HOST);
                for (unsigned n = 1; n < counts[i]; n++) {
                        APPEND(text, size, "N-%u: %u\r\n", n, n);
                }
                APPEND(text, size, "\r\n");
                CU_ASSERT_EQUAL_FATAL(weir__request_new(text, size, 0, malloc, &request), 0);
                CU_ASSERT_EQUAL_FATAL(request->field_count, counts[i]);
                for (unsigned n = 1; n < counts[i]; n++) {
                        snprintf(expected, sizeof expected, "N-%u", n);
                        wrong += strcmp(request->fields[n].name, expected) != 0 ||
                                 strcmp(request->fields[n].value, expected + 2) != 0;
                }
                CU_ASSERT_EQUAL(wrong, 0);
                free(request);
                free(text);
        }
}

/* The parser gets a long head in pieces: wherever they end, in a name, a value, between two lines, nothing may be lost. */
static void
a_long_head_is_parsed_like_a_short_one(void)
{
        char *text = malloc(20000);

        for (size_t fill = 4000; fill < 4200; fill++) {
                struct weir__request *request = NULL;
                size_t size = 0;

                APPEND(text, size, "GET /path?q HTTP/1.1\r\nFill: %0*d\r\nHost: abc\r\nEmpty:\r\n", (int)fill, 1);
                APPEND(text, size, "Content-Length: 0123\r\nConnection: keep-alive, close\r\nLast:\tone two\r\n\r\n");
                CU_ASSERT_EQUAL_FATAL(weir__request_new(text, size, MAX_BODY, malloc, &request), 0);
                CU_ASSERT_EQUAL(request->field_count, 6);
                CU_ASSERT_EQUAL(strlen(weir__request_header(request, "fill")), fill);
                CU_ASSERT_STRING_EQUAL(request->host, "abc");
                CU_ASSERT_STRING_EQUAL(weir__request_header(request, "Empty"), "");
                CU_ASSERT_STRING_EQUAL(weir__request_header(request, "Last"), "one two");
                CU_ASSERT_EQUAL(request->content_length, 123);
                CU_ASSERT(!request->is_persistent);
                free(request);
        }
        free(text);
}

/* Far above the parser's own limit of 80 KiB, which is one for the whole process. */
static void
a_head_may_be_as_long_as_the_gate_lets_it(void)
{
        size_t size = WEIR__HEAD_MAX, at = 0;
        char *text = malloc(size + 1);
        struct weir__request *request = NULL;

        memset(text, 'x', size + 1);
        at = (size_t)sprintf(text, GET HOST "X: ");
        text[at] = 'x';
        memcpy(text + size - 4, "\r\n\r\n", 4);
        CU_ASSERT_EQUAL_FATAL(weir__request_new(text, size, 0, malloc, &request), 0);
        CU_ASSERT_EQUAL(strlen(weir__request_header(request, "X")), size - 4 - at);
        free(request);
        CU_ASSERT_EQUAL(weir__request_new(text, size + 1, 0, malloc, &request), 431);
        free(text);
}

static void
a_body_is_too_large_above_the_limit_only(void)
{
        static const char text[] = GET HOST "Content-Length: 10\r\n\r\n";
        struct weir__request *request = NULL;

        CU_ASSERT_EQUAL(weir__request_new(text, sizeof text - 1, 9, malloc, &request), 413);
        CU_ASSERT_PTR_NULL(request);
        CU_ASSERT_EQUAL_FATAL(weir__request_new(text, sizeof text - 1, 10, malloc, &request), 0);
        free(request);
        CU_ASSERT_EQUAL_FATAL(weir__request_new(text, sizeof text - 1, UINT64_MAX, malloc, &request), 0);
        free(request);
}

/* The parser refuses a head that the gate would refuse, and reads nothing beyond it. */
static void
a_head_that_the_gate_has_not_seen_does_no_harm(void)
{
        static const char text[] = GET HOST "X: y\r\n\r\n";

        for (size_t size = 0; size < sizeof text - 1; size++) {
                struct weir__request *request = NULL;
                char *head = malloc(size + 1);

                memcpy(head, text, size);
                CU_ASSERT_EQUAL(weir__request_new(head, size, 0, malloc, &request), 400);
                free(head);
        }
        CU_ASSERT_EQUAL(status_of(GET HOST "X: y\r\n"), -1);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_request_without_a_good_host_is_refused),
                WEIR_TEST(a_target_that_is_none_is_refused),
                WEIR_TEST(framing_that_contradicts_itself_is_refused),
                WEIR_TEST(a_valid_request_that_is_not_served_has_its_status),
                WEIR_TEST(malformed_bytes_are_refused_on_the_whole_way),
                WEIR_TEST(valid_requests_are_served),
                WEIR_TEST(targets_say_path_query_and_host),
                WEIR_TEST(connection_options_say_whether_it_stays),
                WEIR_TEST(a_body_may_wait_for_continue),
                WEIR_TEST(a_chunked_body_is_announced),
                WEIR_TEST(a_request_says_what_came),
                WEIR_TEST(every_method_that_the_gate_knows_is_parsed),
                WEIR_TEST(any_number_of_fields_arrives_in_order),
                WEIR_TEST(a_long_head_is_parsed_like_a_short_one),
                WEIR_TEST(a_head_may_be_as_long_as_the_gate_lets_it),
                WEIR_TEST(a_body_is_too_large_above_the_limit_only),
                WEIR_TEST(a_head_that_the_gate_has_not_seen_does_no_harm),
        };

        return weir_test_main("request", tests, sizeof tests / sizeof *tests);
}
