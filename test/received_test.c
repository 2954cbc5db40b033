/* test/received_test.c: responses through gate and parser, as a client takes them in: which are refused, and on which byte, where
 * the others end, and what they say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message/gate.h"
#include "protocol/message/received.h"
#include "test/support.h"

#define OK "HTTP/1.1 200 OK\r\n"

static const struct weir__gate_limits usual = {.max_line = 8192, .max_head = 65536, .max_fields = 256};

/* -- the gate -- */

/* Feeds the first `cut` bytes (when it is not the whole), then all.  *ret_at: how many it has looked at. */
static int
feed(const struct weir__gate_limits *limits, const char *data, size_t size, size_t cut, size_t *ret_at)
{
        struct weir__gate gate;
        size_t head_size = 0;

        weir__gate_begin_response(&gate);
        CU_ASSERT_FALSE(weir__gate_has_begun(&gate));
        int r = weir__gate_feed(&gate, limits, data, cut, &head_size);
        CU_ASSERT(r != WEIR__GATE_MORE || weir__gate_has_begun(&gate) == (cut > 0));
        if (r == WEIR__GATE_MORE)
                r = weir__gate_feed(&gate, limits, data, size, &head_size);
        *ret_at = gate.scanned;
        CU_ASSERT(r != WEIR__GATE_HEAD || head_size == gate.scanned);
        return r;
}

/* Whether the verdict is the same in every two parts. */
static bool
has_verdict(const struct weir__gate_limits *limits, const char *text, size_t size, int verdict)
{
        size_t first = 0, at = 0;
        bool is_right = feed(limits, text, size, size, &first) == verdict;

        for (size_t cut = 0; cut < size; cut++)
                is_right = is_right && feed(limits, text, size, cut, &at) == verdict && at == first;
        return is_right;
}

static void
a_status_line_is_judged_byte_by_byte(void)
{
        static const struct {
                const char *text;
                int verdict;
        } rows[] = {
                {"HTTP/1.1 200 OK\r\n\r\n", WEIR__GATE_HEAD},
                {"HTTP/1.0 404 Not Found\r\n\r\n", WEIR__GATE_HEAD},
                {"HTTP/1.1 200 \r\n\r\n", WEIR__GATE_HEAD},
                {"HTTP/1.1 200\r\n\r\n", WEIR__GATE_HEAD}, /* without its SP, as some servers send it */
                {"HTTP/1.1 999 \t\xe4 odd\r\n\r\n", WEIR__GATE_HEAD},
                {"HTTP/1.7 100 Continue\r\n\r\n", WEIR__GATE_HEAD},
                {"HTTP/1.1 200 OK\r\nA: b\r\nC:\r\n\r\n", WEIR__GATE_HEAD},
                {"\r\nHTTP/1.1 200 OK\r\n\r\n", 400}, /* no empty line before a response */
                {" HTTP/1.1 200 OK\r\n\r\n", 400},
                {"http/1.1 200 OK\r\n\r\n", 400},
                {"HTTP/11 200 OK\r\n\r\n", 400},
                {"HTTP/1.1  200 OK\r\n\r\n", 400},
                {"HTTP/1.1\t200 OK\r\n\r\n", 400},
                {"HTTP/1.1 099 OK\r\n\r\n", 400},
                {"HTTP/1.1 20 OK\r\n\r\n", 400},
                {"HTTP/1.1 2000 OK\r\n\r\n", 400},
                {"HTTP/1.1 -20 OK\r\n\r\n", 400},
                {"HTTP/1.1 200-OK\r\n\r\n", 400},
                {"HTTP/1.1 200\n\n", 400},
                {"HTTP/1.1 200 OK\n\n", 400},
                {"HTTP/1.1 200 O\rK\r\n\r\n", 400},
                {"HTTP/1.1 200 O\x01K\r\n\r\n", 400},
                {"HTTP/1.1 200 O\x7fK\r\n\r\n", 400},
                {"HTTP/2.0 200 OK\r\n\r\n", 505},
                {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", 400},
                {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", 400}, /* a folded line */
                {"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", 400}, /* a bare LF */
                {"HTTP/1.1 200 OK\r\nA\r\n\r\n", 400},
                {"SSH-2.0-OpenSSH_9.2\r\n", 400},
                {"220 mail ESMTP\r\n", 400},
                {"HTTP/1.1 200 OK\r\nA: b\r\n", WEIR__GATE_MORE},
                {"HTTP/1.1 20", WEIR__GATE_MORE},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                bool is_right = has_verdict(&usual, rows[i].text, strlen(rows[i].text), rows[i].verdict);

                CU_ASSERT_TRUE(is_right);
                if (!is_right)
                        printf("\n  row %zu: %s\n", i, rows[i].text);
        }
        CU_ASSERT_TRUE(has_verdict(&usual, "HTTP/1.1 200 O\0K\r\n\r\n", 19, 400));
}

static void
a_head_above_its_limits_is_refused_before_its_end(void)
{
        static const char head[] = "HTTP/1.1 200 Fine\r\nA: 1\r\nB: 2\r\n\r\n";
        struct weir__gate_limits limits = {.max_line = 17, .max_head = sizeof head - 1, .max_fields = 2};

        CU_ASSERT_TRUE(has_verdict(&limits, head, sizeof head - 1, WEIR__GATE_HEAD));
        limits.max_line--;
        CU_ASSERT_TRUE(has_verdict(&limits, head, sizeof head - 1, 414));
        limits.max_line++;
        limits.max_head--;
        CU_ASSERT_TRUE(has_verdict(&limits, head, sizeof head - 1, 431));
        limits.max_head++;
        limits.max_fields--;
        CU_ASSERT_TRUE(has_verdict(&limits, head, sizeof head - 1, 431));
        CU_ASSERT_EQUAL(weir__received_error(414), -EMSGSIZE);
        CU_ASSERT_EQUAL(weir__received_error(431), -EMSGSIZE);
        CU_ASSERT_EQUAL(weir__received_error(413), -EMSGSIZE);
        CU_ASSERT_EQUAL(weir__received_error(400), -EBADMSG);
        CU_ASSERT_EQUAL(weir__received_error(505), -EBADMSG);
        CU_ASSERT_EQUAL(weir__received_error(500), -ENOMEM);
}

/* -- the whole -- */

/* The head lies where nothing is behind it, so that a sanitizer sees a read beyond the end. */
static int
take_in(const char *text, enum weir__received_for what, struct weir__received **ret_received)
{
        size_t size = strlen(text), at = 0;
        int r = feed(&usual, text, size, size, &at);

        if (r != WEIR__GATE_HEAD)
                return r == WEIR__GATE_MORE ? -EAGAIN : weir__received_error(r);
        char *head = malloc(at);
        memcpy(head, text, at);
        r = weir__received_new(head, at, what, malloc, ret_received);
        free(head);
        return r;
}

static void
framing_that_contradicts_itself_is_refused(void)
{
        static const char *const rows[] = {
                OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
                OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
                OK "Content-Length: 5, 5\r\n\r\n",
                OK "Content-Length: -1\r\n\r\n",
                OK "Content-Length: +1\r\n\r\n",
                OK "Content-Length: 0x5\r\n\r\n",
                OK "Content-Length: 5 5\r\n\r\n",
                OK "Content-Length:\r\n\r\n",
                OK "Content-Length: 18446744073709551616\r\n\r\n",
                OK "Content-Length: 18446744073709551615\r\n\r\n",
                OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                OK "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
                OK "Transfer-Encoding: gzip\r\n\r\n",
                OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
                OK "Transfer-Encoding: chunked, gzip\r\n\r\n",
                OK "Transfer-Encoding: chunked, chunked\r\n\r\n",
                OK "Transfer-Encoding: chunked,\r\n\r\n",
                OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                OK "Transfer-Encoding: identity\r\n\r\n",
                OK "Transfer-Encoding:\r\n\r\n",
                OK "Transfer-Encoding: xchunked\r\n\r\n",
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct weir__received *untouched = NULL;

                CU_ASSERT_EQUAL(take_in(rows[i], WEIR__RECEIVED_FOR_OTHER, &untouched), -EBADMSG);
                CU_ASSERT_PTR_NULL(untouched);
                if (untouched)
                        printf("\n  row %zu: %s\n", i, rows[i]);
                free(untouched);
        }
}

static void
a_response_ends_where_the_rfc_says(void)
{
        enum { OTHER = WEIR__RECEIVED_FOR_OTHER, HEAD = WEIR__RECEIVED_FOR_HEAD, CONNECT = WEIR__RECEIVED_FOR_CONNECT };
        static const struct {
                const char *text;
                int what, end;
                uint64_t length;
                bool is_persistent;
        } rows[] = {
                {OK "Content-Length: 5\r\n\r\n", OTHER, WEIR__RECEIVED_LENGTH, 5, true},
                {OK "Content-Length:\t5 \r\n\r\n", OTHER, WEIR__RECEIVED_LENGTH, 5, true},
                {OK "content-length: 0\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 0, true},
                {OK "Content-Length: 18446744073709551600\r\n\r\n", OTHER, WEIR__RECEIVED_LENGTH, UINT64_MAX - 15, true},
                {OK "Transfer-Encoding: Chunked\r\n\r\n", OTHER, WEIR__RECEIVED_CHUNKED, 0, true},
                {OK "\r\n", OTHER, WEIR__RECEIVED_CLOSE, 0, false},
                {OK "Connection: keep-alive\r\n\r\n", OTHER, WEIR__RECEIVED_CLOSE, 0, false},
                {OK "Connection: a, Close\r\nContent-Length: 1\r\n\r\n", OTHER, WEIR__RECEIVED_LENGTH, 1, false},
                {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", OTHER, WEIR__RECEIVED_LENGTH, 1, false},
                {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\n", OTHER, WEIR__RECEIVED_LENGTH, 1, true},
                {OK "Content-Length: 5\r\n\r\n", HEAD, WEIR__RECEIVED_NOTHING, 5, true},
                {OK "Transfer-Encoding: chunked\r\n\r\n", HEAD, WEIR__RECEIVED_NOTHING, 0, true},
                {OK "\r\n", HEAD, WEIR__RECEIVED_NOTHING, 0, true},
                {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 5, true},
                {"HTTP/1.1 204 No Content\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 0, true},
                {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 0, true},
                {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 5, false},
                {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 0, false},
                {"HTTP/1.1 100 Continue\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 0, true},
                {"HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 3, false},
                {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", OTHER, WEIR__RECEIVED_TUNNEL, 0, false},
                {"HTTP/1.1 200 Connected\r\nContent-Length: 5\r\n\r\n", CONNECT, WEIR__RECEIVED_TUNNEL, 5, false},
                {"HTTP/1.1 407 Who\r\nContent-Length: 5\r\n\r\n", CONNECT, WEIR__RECEIVED_LENGTH, 5, true},
                {"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n", OTHER, WEIR__RECEIVED_NOTHING, 0, true},
                {"HTTP/1.1 999 Odd\r\nContent-Length: 7\r\n\r\n", OTHER, WEIR__RECEIVED_LENGTH, 7, true},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct weir__received *received = NULL;

                CU_ASSERT_EQUAL_FATAL(take_in(rows[i].text, (enum weir__received_for)rows[i].what, &received), 0);
                bool is_right = received->end == rows[i].end && received->content_length == rows[i].length &&
                                received->is_persistent == rows[i].is_persistent;
                CU_ASSERT_TRUE(is_right);
                if (!is_right)
                        printf("\n  row %zu: %s\n", i, rows[i].text);
                free(received);
        }
}

static void
a_response_says_what_came(void)
{
        struct weir__received *received = NULL;
        uint32_t at = 0;

        CU_ASSERT_EQUAL_FATAL(take_in("HTTP/1.1 418 I'm a teapot \r\nSet-Cookie: a=1\r\nX:\t \r\nset-cookie:  b=2 \r\n\r\nrest",
                                      WEIR__RECEIVED_FOR_OTHER, &received),
                              0);
        CU_ASSERT_EQUAL(received->status, 418);
        CU_ASSERT_EQUAL(received->minor, 1);
        CU_ASSERT_STRING_EQUAL(received->reason, "I'm a teapot ");
        CU_ASSERT_EQUAL(received->field_count, 3);
        CU_ASSERT_FALSE(received->has_length);
        CU_ASSERT_STRING_EQUAL(weir__fields_next(received->fields, 3, "Set-Cookie", &at), "a=1");
        CU_ASSERT_STRING_EQUAL(weir__fields_next(received->fields, 3, "Set-Cookie", &at), "b=2");
        CU_ASSERT_PTR_NULL(weir__fields_next(received->fields, 3, "Set-Cookie", &at));
        CU_ASSERT_STRING_EQUAL(weir__received_field(received, "x"), "");
        CU_ASSERT_PTR_NULL(weir__received_field(received, "y"));
        free(received);
        CU_ASSERT_EQUAL_FATAL(take_in("HTTP/1.0 200\r\n\r\n", WEIR__RECEIVED_FOR_OTHER, &received), 0);
        CU_ASSERT_STRING_EQUAL(received->reason, "");
        CU_ASSERT_EQUAL(received->minor, 0);
        CU_ASSERT_EQUAL(received->field_count, 0);
        free(received);
        CU_ASSERT_EQUAL_FATAL(take_in(OK "Content-Length: 0\r\n\r\n", WEIR__RECEIVED_FOR_OTHER, &received), 0);
        CU_ASSERT_TRUE(received->has_length);
        free(received);
}

static void
any_number_of_fields_arrives_in_order(void)
{
        enum { MOST = 3000 };
        struct weir__received *received = NULL;
        size_t size = (size_t)0;
        char *text = malloc(64 + MOST * 24), name[16];

        for (uint32_t count = 255; count <= MOST; count = count < 258 ? count + 1 : count + 1371) {
                size = (size_t)sprintf(text, OK);
                for (uint32_t i = 0; i < count; i++)
                        size += (size_t)sprintf(text + size, "F%u: %u\r\n", i, i);
                size += (size_t)sprintf(text + size, "\r\n");
                CU_ASSERT_EQUAL_FATAL(weir__received_new(text, size, WEIR__RECEIVED_FOR_OTHER, malloc, &received), 0);
                CU_ASSERT_EQUAL_FATAL(received->field_count, count);
                for (uint32_t i = 0; i < count; i++) {
                        snprintf(name, sizeof name, "F%u", i);
                        if (strcmp(received->fields[i].name, name) != 0 || strcmp(received->fields[i].value, name + 1) != 0)
                                CU_FAIL("a field is another one");
                }
                free(received);
        }
        free(text);
}

static void *
no_memory(size_t size)
{
        (void)size;
        return NULL;
}

static void
a_response_that_finds_no_memory_is_none(void)
{
        static const char text[] = OK "A: b\r\n\r\n";
        struct weir__received *untouched = NULL;

        CU_ASSERT_EQUAL(weir__received_new(text, sizeof text - 1, WEIR__RECEIVED_FOR_OTHER, no_memory, &untouched), -ENOMEM);
        CU_ASSERT_PTR_NULL(untouched);
}

/* The parser refuses a head that the gate would refuse, and reads nothing beyond it. */
static void
a_head_that_the_gate_has_not_seen_does_no_harm(void)
{
        static const char text[] = OK "X: y\r\n\r\n";

        for (size_t size = 0; size < sizeof text - 1; size++) {
                struct weir__received *untouched = NULL;
                char *head = malloc(size + 1);

                memcpy(head, text, size);
                CU_ASSERT_EQUAL(weir__received_new(head, size, WEIR__RECEIVED_FOR_OTHER, malloc, &untouched), -EBADMSG);
                CU_ASSERT_PTR_NULL(untouched);
                free(head);
        }
        CU_ASSERT_EQUAL(weir__received_new(text, WEIR__HEAD_MAX + 1, WEIR__RECEIVED_FOR_OTHER, malloc, NULL), -EMSGSIZE);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_status_line_is_judged_byte_by_byte),
                WEIR_TEST(a_head_above_its_limits_is_refused_before_its_end),
                WEIR_TEST(framing_that_contradicts_itself_is_refused),
                WEIR_TEST(a_response_ends_where_the_rfc_says),
                WEIR_TEST(a_response_says_what_came),
                WEIR_TEST(any_number_of_fields_arrives_in_order),
                WEIR_TEST(a_response_that_finds_no_memory_is_none),
                WEIR_TEST(a_head_that_the_gate_has_not_seen_does_no_harm),
        };

        return weir_test_main("received", tests, sizeof tests / sizeof *tests);
}
