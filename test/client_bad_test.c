/* test/client_bad_test.c: the client of HTTP beside servers that misbehave.
 *
 * The rows are those of a table of attacks on HTTP/1.1 that are meant for servers, where they say something about responses. */
#include <limits.h>

#include <weir/http_call.h>
#include <weir/log.h>

#include "test/client_fixture.h"
#include "test/timer_fixture.h"

enum then { WAITS, FINISHES, RESETS };

struct row {
        const char *bytes;
        enum then then;
        int status, code;
        const char *body;
        const char *words; /* of the problem */
};

#define BAD(bytes, words)                            \
        {                                            \
                bytes, WAITS, -EBADMSG, 0, "", words \
        }
#define HEAD_OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED HEAD_OK "Transfer-Encoding: chunked\r\n\r\n"
#define BODY(bytes)                                                            \
        {                                                                      \
                CHUNKED bytes, WAITS, -EBADMSG, 200, "", "a chunk of its body" \
        }

static const struct row rows[] = {
        /* the status line */
        BAD("\r\n" HEAD_OK "\r\n", "first line"),
        BAD(" " HEAD_OK "\r\n", "first line"),
        BAD("HTTP/1.1  200 OK\r\n\r\n", "first line"),
        BAD("HTTP/1.1\t200 OK\r\n\r\n", "first line"),
        BAD("HTTP/1.10 200 OK\r\n\r\n", "first line"),
        BAD("HTTP/2.0 200 OK\r\n\r\n", "first line"),
        BAD("http/1.1 200 OK\r\n\r\n", "first line"),
        BAD("ICY 200 OK\r\n\r\n", "first line"),
        BAD("SSH-2.0-OpenSSH_9.2p1\r\n", "first line"),
        BAD("<html>an answer of HTTP/0.9</html>\r\n", "first line"),
        BAD("HTTP/1.1 99 No\r\n\r\n", "first line"),
        BAD("HTTP/1.1 099 No\r\n\r\n", "first line"),
        BAD("HTTP/1.1 1000 No\r\n\r\n", "first line"),
        BAD("HTTP/1.1 2x0 No\r\n\r\n", "first line"),
        BAD("HTTP/1.1 200OK\r\n\r\n", "first line"),
        BAD("HTTP/1.1 200 O\001K\r\n\r\n", "first line"),
        BAD("HTTP/1.1 200 OK\n\n", "first line"),
        BAD("HTTP/1.1 200 O\rK\r\n\r\n", "first line"),
        /* fields */
        BAD(HEAD_OK "X: y\n\n", "one of its fields"),
        BAD(HEAD_OK "X: a\rb\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK "X: a\001b\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK "X : y\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK " X: y\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK "X Y: z\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK ": z\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK "no colon\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK "X: y\r\n folded\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK "Transfer-Encoding:\r\n chunked\r\n\r\n", "one of its fields"),
        /* framing */
        BAD(HEAD_OK "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "length of its body"),
        BAD(HEAD_OK "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "length of its body"),
        BAD(HEAD_OK "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "length of its body"),
        BAD(HEAD_OK "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "length of its body"),
        BAD(HEAD_OK "Content-Length: 3, 3\r\n\r\nabc", "length of its body"),
        BAD(HEAD_OK "Content-Length: +3\r\n\r\nabc", "length of its body"),
        BAD(HEAD_OK "Content-Length: -1\r\n\r\nabc", "length of its body"),
        BAD(HEAD_OK "Content-Length: 0x3\r\n\r\nabc", "length of its body"),
        BAD(HEAD_OK "Content-Length:\r\n\r\nabc", "length of its body"),
        BAD(HEAD_OK "Content-Length: 18446744073709551619\r\n\r\nabc", "length of its body"),
        BAD(HEAD_OK "Content-Length : 3\r\n\r\nabc", "one of its fields"),
        BAD(HEAD_OK "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "one of its fields"),
        BAD(HEAD_OK "Transfer-Encoding: foo\r\n\r\n", "length of its body"),
        BAD(HEAD_OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "length of its body"),
        BAD(HEAD_OK "Transfer-Encoding: chunked, gzip\r\n\r\n", "length of its body"),
        BAD(HEAD_OK "Transfer-Encoding: xchunked\r\n\r\n", "length of its body"),
        BAD(HEAD_OK "Transfer-Encoding: \"chunked\"\r\n\r\n", "length of its body"),
        BAD(HEAD_OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "length of its body"),
        BAD("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "length of its body"),
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", WAITS, -EBADMSG, 101, "",
         "not asked for"}, /* nobody has asked for that */
        /* chunks */
        BODY("-1\r\n"),
        BODY("0x3\r\nabc\r\n"),
        BODY(" 3\r\nabc\r\n"),
        BODY("\r\nabc\r\n"),
        BODY("3xyz\r\nabc\r\n"),
        BODY("3 \r\nabc\r\n"),
        BODY("FFFFFFFFFFFFFFFF\r\nabc\r\n"),
        BODY("FFFFFFFFFFFFFFFFF\r\nabc\r\n"),
        BODY("3;a\nb\r\nabc\r\n"),
        BODY("3;a\rb\r\nabc\r\n"),
        {CHUNKED "3\r\nabcd\r\n", WAITS, -EBADMSG, 200, "abc", "a chunk of its body"},
        {CHUNKED "3\r\nabc\n", WAITS, -EBADMSG, 200, "abc", "a chunk of its body"},
        {CHUNKED "3\r\nabc\r\n0\r\nX: y\n\r\n", WAITS, -EBADMSG, 200, "abc", "a chunk of its body"},
        {CHUNKED "3\r\nabc\r\n0\r\nContent-Length: 2\r\n\r\n", WAITS, -EBADMSG, 200, "abc", "a chunk of its body"},
        {CHUNKED "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", WAITS, -EBADMSG, 200, "abc", "a chunk of its body"},
        {CHUNKED "3\r\nabc\r\n0\r\nno colon\r\n\r\n", WAITS, -EBADMSG, 200, "abc", "a chunk of its body"},
        /* ends */
        {"", FINISHES, -ECONNRESET, 0, "", "without a response"},
        {"", RESETS, -ECONNRESET, 0, "", "without a response"},
        {"H", FINISHES, -ECONNABORTED, 0, "", "in the middle of the response"},
        {HEAD_OK "X: ", FINISHES, -ECONNABORTED, 0, "", "in the middle of the response"},
        {HEAD_OK "X: ", RESETS, -ECONNABORTED, 0, "", "in the middle of the response"},
        {"HTTP/1.1 100 Continue\r\n\r\n", FINISHES, -ECONNABORTED, 0, "", "in the middle of the response"},
        {HEAD_OK "Content-Length: 10\r\n\r\npart", FINISHES, -ECONNABORTED, 200, "part", "in the middle of the response"},
        {HEAD_OK "Content-Length: 10\r\n\r\npart", RESETS, -ECONNABORTED, 200, "part", "in the middle of the response"},
        {CHUNKED "4\r\npart\r\n", FINISHES, -ECONNABORTED, 200, "part", "in the middle of the response"},
        {CHUNKED "6\r\npart", FINISHES, -ECONNABORTED, 200, "part", "in the middle of the response"},
        {CHUNKED "4\r\npart\r\n0\r\n", FINISHES, -ECONNABORTED, 200, "part", "in the middle of the response"},
        {HEAD_OK "\r\npart", RESETS, -ECONNABORTED, 200, "part", "in the middle of the response"},
        /* codings */
        {HEAD_OK "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", WAITS, -EBADMSG, 200, "", "the coding of the body"},
        {HEAD_OK "Content-Encoding: zzz\r\nContent-Length: 4\r\n\r\nabcd", WAITS, -ENOTSUP, 200, "", "not known"},
};

/* After a reset bytes that the client has not read are gone: it reads them before. */
static void
play(const struct row *row, bool slowly)
{
        struct seen seen = {0};

        get("/", &seen);
        (void)accept_request();
        if (slowly)
                send_slowly(row->bytes);
        else
                http_peer_send(&peer, row->bytes);
        settle();
        CU_ASSERT_EQUAL(seen.calls, row->then == WAITS);
        if (row->then == FINISHES)
                http_peer_finish(&peer);
        if (row->then == RESETS)
                http_peer_reset(&peer);
        settle();
        if (seen.calls != 1 || seen.status != row->status || seen.code != row->code || strcmp(seen.body, row->body) != 0 ||
            !strstr(seen.problem, row->words))
                fprintf(stderr, "\n%s: %d, %d, \"%s\", \"%s\"\n", row->bytes, seen.status, seen.code, seen.body, seen.problem);
        SEES(seen, row->status, row->code, row->body);
        HAS(seen.problem, "GET http://127.0.0.1:");
        HAS(seen.problem, row->words);
        if (peer.fd >= 0)
                (void)http_peer_ends(&peer); /* it is closed */
        CU_ASSERT_EQUAL(stats().connections, 0);
        http_peer_cut(&peer);
}

static void
what_is_no_response_is_told_and_closed(void)
{
        begin(NULL);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                play(&rows[i], false);
                play(&rows[i], true);
        }
        CU_ASSERT_EQUAL(stats().replayed, 0);
        end();
}

/* The framing of the message is whole, so its connection is kept. */
static void
half_a_coding_is_told(void)
{
        struct seen seen = {0};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        http_peer_send(&peer, HEAD_OK "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08");
        settle();
        SEES(seen, -EBADMSG, 200, "");
        HAS(seen.problem, "coding");
        CU_ASSERT_EQUAL(stats().idle, 1);
        end();
}

static void
a_nul_byte_is_refused(void)
{
        struct seen seen = {0};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        http_peer_send_bytes(&peer, HEAD_OK "X: a\0b\r\n\r\n", sizeof HEAD_OK + 10);
        settle();
        SEES(seen, -EBADMSG, 0, "");
        end();
}

static void
a_trailer_is_not_a_field(void)
{
        struct seen seen = {.wants = "X"};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        http_peer_send(&peer, CHUNKED "4\r\nword\r\n0\r\nX: y\r\n\r\n");
        settle();
        SEES(seen, 0, 200, "word");
        CU_ASSERT_STRING_EQUAL(seen.field, "");
        CU_ASSERT_EQUAL(stats().idle, 1);
        end();
}

/* -- too much -- */

/* Sends the start, and then the piece again and again until the client has had enough. */
static void
flood(const char *start_, const char *piece, int status, int code, const char *words)
{
        struct seen seen = {0};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        http_peer_send(&peer, start_);
        for (unsigned i = 0; i < 1000000 && !seen.calls && http_peer_send(&peer, piece); i++)
                if (i % 64 == 0)
                        settle();
        settle();
        CU_ASSERT_EQUAL(seen.calls, 1);
        CU_ASSERT_EQUAL(seen.status, status);
        CU_ASSERT_EQUAL(seen.code, code);
        HAS(seen.problem, words);
        CU_ASSERT_EQUAL(stats().connections, 0);
        end();
}

static void
heads_are_bounded(void)
{
        char line[9000];

        flood(HEAD_OK, "X: y\r\n", -EMSGSIZE, 0, "head");
        flood(HEAD_OK "X: ", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", -EMSGSIZE, 0, "head");
        flood("HTTP/1.1 200 ", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", -EMSGSIZE, 0, "head");
        flood("", "HTTP/1.1 100 Continue\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n\r\n", -EMSGSIZE, 0, "head");
        memset(line, 'e', sizeof line - 1);
        line[sizeof line - 1] = '\0';
        flood(CHUNKED "1;", line, -EMSGSIZE, 200, "");
        flood(CHUNKED "0\r\n", "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", -EMSGSIZE, 200, "");
}

static void
two_hundred_fields_are_fine(void)
{
        char head[8192] = HEAD_OK;
        struct seen seen = {.wants = "X-199"};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        for (int i = 0; i < 200; i++)
                sprintf(head + strlen(head), "X-%d: %d\r\n", i, i);
        strcat(head, "Content-Length: 1\r\n\r\na");
        http_peer_send(&peer, head);
        settle();
        SEES(seen, 0, 200, "a");
        CU_ASSERT_STRING_EQUAL(seen.field, "199");
        end();
}

static void
a_body_is_bounded(void)
{
        static const char *const replies[] = {HEAD_OK "Content-Length: 9\r\n\r\n123456789",
                                              CHUNKED "5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n", HEAD_OK "\r\n123456789"};

        for (int i = 0; i < 9; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};

                config.max_body = 8;
                begin(&config);
                weir_task *request = request_new("GET", "/", &seen);
                if (i / 3)
                        CU_ASSERT_EQUAL(weir_http_request_set_max_body(request, i / 3 == 1 ? 9 : SIZE_MAX), 0);
                start(request);
                (void)accept_request();
                http_peer_send(&peer, replies[i % 3]);
                http_peer_finish(&peer);
                settle();
                CU_ASSERT_EQUAL(seen.status, i / 3 ? 0 : -EMSGSIZE);
                HAS(i / 3 ? seen.body : seen.problem, i / 3 ? "123456789" : "body is larger");
                end();
        }
}

/* Forty million zeros, by gzip: a thousand for each byte. */
static void
a_bomb_is_told(void)
{
        static const struct {
                uint64_t max_inflated;
                unsigned max_ratio;
                int status;
        } bounds[] = {{0, 0, -E2BIG}, /* the ratio, which is 100 by default */
                      {0, 500, -E2BIG},
                      {39999999, 2000, -E2BIG},
                      {40000000, 2000, 0},
                      {UINT64_MAX, UINT_MAX, 0}};
        FILE *made = popen("head -c 40000000 /dev/zero | gzip -9c", "r");
        static char bomb[200000];
        size_t size = fread(bomb, 1, sizeof bomb, made);

        CU_ASSERT_EQUAL(pclose(made), 0);
        CU_ASSERT(size > 1000 && size < sizeof bomb);
        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                struct seen seen = {0};
                char head[128];

                config.max_body = SIZE_MAX;
                config.max_inflated = bounds[i].max_inflated;
                config.max_ratio = bounds[i].max_ratio;
                begin(&config);
                get("/", &seen);
                (void)accept_request();
                snprintf(head, sizeof head, HEAD_OK "Content-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", size);
                http_peer_send(&peer, head);
                http_peer_send_bytes(&peer, bomb, size);
                settle();
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT_EQUAL(seen.status, bounds[i].status);
                HAS(seen.problem, bounds[i].status ? "without its coding" : "");
                CU_ASSERT(bounds[i].status || seen.size == 40000000);
                end();
        }
}

/* -- bytes at the wrong time -- */

static void
bytes_behind_a_response_are_not_the_next_one(void)
{
        begin(NULL);
        for (int i = 0; i < 3; i++) {
                struct seen first = {0}, second = {0};

                get("/1", &first);
                (void)accept_request();
                http_peer_send(&peer, i == 0 ? OK_WORD "x" : OK_WORD);
                settle();
                SEES(first, 0, 200, "word");
                if (i == 1)
                        http_peer_send(&peer, "x");
                if (i == 2)
                        http_peer_send(&peer, HEAD_OK "Content-Length: 4\r\n\r\nevil");
                settle();
                CU_ASSERT_EQUAL(stats().connections, 0);
                http_peer_cut(&peer);
                get("/2", &second);
                HAS(accept_request(), "GET /2");
                http_peer_send(&peer, OK_CLOSES);
                settle();
                SEES(second, 0, 200, "word");
                http_peer_close(&peer);
                settle();
        }
        end();
}

/* On the worker, which sees neither the bytes nor the end before the request has its turn. */
static void
interfere_and_ask(void *next)
{
        http_peer_send(&peer, HEAD_OK "Content-Length: 4\r\n\r\nevil");
        get("/next", next);
}

static void
end_and_post(void *next)
{
        http_peer_close(&peer);
        start(request_new("POST", "/next", next));
}

/* A server that closes an idle connection may say so by a 408, or by nothing. */
static void
what_came_before_the_request_is_not_its_response(void)
{
        begin(NULL);
        for (int i = 0; i < 2; i++) {
                struct seen seen = {0}, next = {0};

                get("/", &seen);
                (void)accept_request();
                http_peer_send(&peer, OK_WORD);
                settle();
                SEES(seen, 0, 200, "word");
                weir_test_act(WEIR_SEC(1), i ? end_and_post : interfere_and_ask, &next);
                weir_test_pass(WEIR_SEC(1));
                if (i == 0)
                        http_peer_cut(&peer);
                HAS(accept_request(), "/next");
                http_peer_send(&peer, OK_CLOSES);
                settle();
                SEES(next, 0, 200, "word");
                http_peer_close(&peer);
        }
        CU_ASSERT_EQUAL(stats().replayed, 0);
        end();
}

/* -- responses before the request is out -- */

static void
an_early_response_stops_the_body(void)
{
        static char large[8 << 20];

        for (int i = 0; i < 3; i++) {
                struct seen seen = {0};

                begin(NULL);
                weir_task *request = request_new("POST", "/", &seen);
                CU_ASSERT_EQUAL(weir_http_request_lend_body(request, large, sizeof large, NULL), 0);
                start(request);
                (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_head(&peer);
                settle();
                http_peer_send(&peer, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch");
                if (i == 1)
                        http_peer_close(&peer); /* with bytes that it has not read: a reset follows */
                settle();
                CU_ASSERT_EQUAL(seen.calls, 1);
                CU_ASSERT(seen.code == 413 || (i == 1 && seen.status == -ECONNRESET)); /* the reset may be faster */
                if (peer.fd >= 0)
                        (void)http_peer_ends(&peer);
                weir_test_pass(WEIR_SEC(60));
                CU_ASSERT_EQUAL(stats().connections, 0);
                end();
        }
}

static void
take_text(weir_task *read, void *context)
{
        size_t size;
        const char *data = weir_http_call_data(read, &size);

        snprintf(context, 64, "%.*s", (int)size, data ? data : "");
}

/* What the server has said before it reset the connection is there; but its end is not the end of the body. */
static void
an_early_response_to_a_call_is_read_to_its_end(void)
{
        static char piece[100000];

        for (int i = 0; i < 3; i++) {
                char text[64] = "";
                int status = 0;

                begin(NULL);
                weir_http_call *call = weir_http_call_new(client, "PUT", url_of("/"));
                CU_ASSERT_EQUAL(weir_task_run(weir_http_call_write_new(call, piece, 10, NULL, NULL)), 0);
                CU_ASSERT_TRUE_FATAL(http_peer_accept(&peer, listener, NULL));
                (void)http_peer_head(&peer);
                http_peer_send(&peer,
                               i < 2 ? "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\n" : "HTTP/1.1 413 Too Large\r\n\r\n");
                if (i == 0)
                        http_peer_send(&peer, "much");
                CU_ASSERT_EQUAL(weir_task_run(weir_http_call_head_new(call, NULL, NULL)), 0);
                CU_ASSERT_EQUAL(weir_task_run(weir_http_call_write_new(call, piece, sizeof piece, NULL, NULL)), 0);
                if (i > 0)
                        http_peer_send(&peer, "much");
                http_peer_close(&peer); /* with bytes that it has not read */
                for (int tries = 0; tries < 3 && !status; tries++)
                        status = weir_task_run(weir_http_call_write_new(call, piece, sizeof piece, NULL, NULL));
                CU_ASSERT_EQUAL(status, -EPIPE);
                CU_ASSERT_EQUAL(weir_task_run(weir_http_call_write_new(call, piece, 1, NULL, NULL)), -EPIPE);
                CU_ASSERT_EQUAL(weir_task_run(weir_http_call_finish_new(call, NULL, NULL)), -EPIPE);
                CU_ASSERT_EQUAL(weir_http_call_status(call), 413);
                CU_ASSERT_EQUAL(weir_task_run(weir_http_call_read_new(call, take_text, text)), 0);
                CU_ASSERT_STRING_EQUAL(text, "much");
                CU_ASSERT_EQUAL(weir_task_run(weir_http_call_read_new(call, take_text, text)), i < 2 ? 0 : -ECONNABORTED);
                if (i == 2)
                        HAS(weir_http_call_problem(call), "in the middle of the response");
                weir_http_call_unref(call);
                settle();
                CU_ASSERT_EQUAL(stats().connections, 0);
                end();
        }
}

static void
a_file_that_shrinks_is_told(void)
{
        char path[] = "/tmp/weir_client_XXXXXX";
        int file = mkstemp(path);
        struct seen seen = {0};

        unlink(path);
        CU_ASSERT_EQUAL(write(file, "0123456789", 10), 10);
        begin(NULL);
        weir_task *request = request_new("PUT", "/", &seen);
        CU_ASSERT_EQUAL(weir_http_request_set_body_file(request, file, 0, 20, NULL), 0);
        start(request);
        (void)http_peer_accept(&peer, listener, NULL);
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>");
        settle();
        SEES(seen, -ENODATA, 0, "");
        end();
        close(file);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_is_no_response_is_told_and_closed),
                WEIR_TEST(half_a_coding_is_told),
                WEIR_TEST(a_nul_byte_is_refused),
                WEIR_TEST(a_trailer_is_not_a_field),
                WEIR_TEST(heads_are_bounded),
                WEIR_TEST(two_hundred_fields_are_fine),
                WEIR_TEST(a_body_is_bounded),
                WEIR_TEST(a_bomb_is_told),
                WEIR_TEST(bytes_behind_a_response_are_not_the_next_one),
                WEIR_TEST(what_came_before_the_request_is_not_its_response),
                WEIR_TEST(an_early_response_stops_the_body),
                WEIR_TEST(an_early_response_to_a_call_is_read_to_its_end),
                WEIR_TEST(a_file_that_shrinks_is_told),
        };

        weir_log_set(NULL, NULL);
        return weir_test_main("client_bad", tests, sizeof tests / sizeof *tests);
}
