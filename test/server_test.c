/* test/server_test.c: requests and replies of a server that runs in this process, over real sockets.
 *
 * Where packets must not meet, the runtime is one with the virtual clock: it says when all that was sent has been read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "test/fixture.h"
#include "test/http_client.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

#define MAX_BODY ((size_t)128 * 1024)

/* -- handlers -- */

static void
hello(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "hello\n");
}

/* Replies with the target, a space, and the body. */
static void
echo(weir_task *exchange, void *context)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        (void)context;
        weir_http_reply_append(exchange, weir_http_target(exchange), strlen(weir_http_target(exchange)));
        weir_http_reply_append(exchange, " ", 1);
        weir_http_reply_append(exchange, body, size);
}

/* The same, after as many microseconds as the query says. */
static void
echo_later(weir_task *exchange, void *context)
{
        echo(exchange, context);
        weir_series_push(weir_series_of(exchange),
                         weir_timer_new(WEIR_USEC(strtol(weir_http_query(exchange), NULL, 10)), NULL, NULL));
}

/* The path is a status. */
static void
reply_status(weir_task *exchange, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_text(exchange, atoi(weir_http_path(exchange) + 1), "some text\n"), 0);
}

static char
byte_at(size_t at)
{
        return (char)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

/* The path is a size, the query that of the pieces it is appended in. */
static void
reply_bytes(weir_task *exchange, void *context)
{
        size_t size = strtoul(weir_http_path(exchange) + 1, NULL, 10);
        size_t piece = weir_http_query(exchange) ? strtoul(weir_http_query(exchange), NULL, 10) : size;
        char *bytes = malloc(size + 1);

        (void)context;
        for (size_t i = 0; i < size; i++) {
                bytes[i] = byte_at(i);
        }
        for (size_t at = 0; at < size; at += piece) {
                CU_ASSERT_EQUAL(weir_http_reply_append(exchange, bytes + at, piece < size - at ? piece : size - at), 0);
        }
        free(bytes);
}

static bool
bytes_are_right(const struct http_reply *reply)
{
        for (size_t i = 0; i < reply->size; i++) {
                if (reply->body[i] != byte_at(i)) {
                        return false;
                }
        }
        return true;
}

/* -- one server for each test -- */

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
} at;

static void
begin_with(const struct weir_http_server_config *config, weir_task_fn *handler, void *context)
{
        at.server = http_server(config, handler, context);
        at.port = weir_http_server_port(at.server);
        http_open(&at.client, at.port);
}

static void
begin(weir_task_fn *handler)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.max_body = MAX_BODY;
        begin_with(&config, handler, NULL);
}

static void
again(void)
{
        http_close(&at.client);
        http_open(&at.client, at.port);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
}

static void
begin_virtual(weir_task_fn *handler)
{
        weir_test_end();
        weir_test_begin_virtual();
        begin(handler);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply)); /* it has been accepted */
}

static void
end_virtual(void)
{
        end();
        weir_test_end();
        weir_test_begin_real(0);
}

/* Returns when the server has read all that was sent. */
static void
let_it_read(void)
{
        weir_test_pass(0);
}

static void
assert_reply(int status, const char *body)
{
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, status);
        if (body) {
                HTTP_ASSERT_TEXT(at.reply.body, body);
        }
}

static void
assert_alive(void)
{
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/alive"), &at.reply));
}

/* -- connections -- */

static void
a_reply_says_what_it_has_to(void)
{
        begin(hello);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(strncmp(at.reply.head, "HTTP/1.1 200 OK\r\n", 17), 0);
        HTTP_ASSERT_TEXT(at.reply.body, "hello\n");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "6");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/plain; charset=utf-8");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Date"), 1);
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Connection"), 0);
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Transfer-Encoding"), 0);
        end();
}

static void
a_connection_is_kept_for_the_next_request(void)
{
        begin(echo);
        for (int i = 0; i < 200; i++) {
                char request[64], expected[32];

                snprintf(request, sizeof request, GET("/%d"), i);
                snprintf(expected, sizeof expected, "/%d ", i);
                CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, expected);
        }
        end();
}

static void
connection_close_is_answered_and_obeyed(void)
{
        begin(hello);
        CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        end();
}

/* The client goes on to send, which the server cannot know yet. */
static void
hello_while_more_comes(weir_task *exchange, void *context)
{
        CU_ASSERT_EQUAL(send(at.client.fd, "more", 4, MSG_NOSIGNAL), 4);
        hello(exchange, context);
}

static void
the_last_reply_goes_out_before_a_reset(void)
{
        begin(hello_while_more_comes);
        CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "hello\n");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

static void
a_client_that_asks_to_stay_connected_gets_an_answer(void)
{
        begin(hello);
        CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Connection"), 1);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "keep-alive");
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Connection"), 0);
        end();
}

static void
http_1_0_is_closed_unless_it_asks_for_more(void)
{
        begin(hello);
        CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.0\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "hello\n");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        again();
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &at.reply));
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "keep-alive");
        }
        CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

/* -- packets -- */

static const char post[] = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nX-Some:  thing \r\n\r\nhello, world";

static void
a_request_is_answered_wherever_it_is_split(void)
{
        begin_virtual(echo);
        for (size_t i = 1; i < sizeof post - 1; i++) {
                CU_ASSERT_TRUE(http_send(&at.client, post, i));
                let_it_read();
                CU_ASSERT_TRUE(http_send(&at.client, post + i, sizeof post - 1 - i));
                assert_reply(200, "/p hello, world");
        }
        end_virtual();
}

static void
a_request_may_come_byte_by_byte(void)
{
        begin(echo);
        for (int i = 0; i < 3; i++) {
                CU_ASSERT_TRUE(http_send_pieces(&at.client, post, sizeof post - 1, 1));
                assert_reply(200, "/p hello, world");
        }
        end();
}

static void
requests_in_one_packet_are_answered_in_order(void)
{
        begin(echo);
        CU_ASSERT_TRUE(
                http_send_text(&at.client, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none" GET("/2") "\r\n" GET(
                                                   "/3") "PUT /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" GET("/5")));
        assert_reply(200, "/1 one");
        assert_reply(200, "/2 ");
        assert_reply(200, "/3 ");
        assert_reply(200, "/4 ");
        assert_reply(200, "/5 ");
        end();
}

/* Whatever divides the packets: neither a request nor its end. */
static void
requests_are_answered_in_order_wherever_packets_end(void)
{
        struct weir_test_random random = {weir_test_seed()};
        char all[8192];
        size_t size = 0;

        begin_virtual(echo);
        for (int i = 0; i < 60; i++) {
                size += (size_t)snprintf(all + size, sizeof all - size,
                                         "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%.*s", i, i % 10, i % 10,
                                         "abcdefghij");
        }
        for (size_t sent = 0; sent < size;) {
                size_t piece = 1 + weir_test_random_below(&random, 120);

                piece = piece < size - sent ? piece : size - sent;
                CU_ASSERT_TRUE(http_send(&at.client, all + sent, piece));
                sent += piece;
                let_it_read();
        }
        for (int i = 0; i < 60; i++) {
                char expected[32];

                snprintf(expected, sizeof expected, "/%d %.*s", i, i % 10, "abcdefghij");
                assert_reply(200, expected);
        }
        end_virtual();
}

#define PIPELINED 1000

static void
pipeline(const char *format, int (*number_of)(int i))
{
        size_t size = 0, room = PIPELINED * 80;
        char *all = malloc(room);

        for (int i = 0; i < PIPELINED; i++) {
                size += (size_t)snprintf(all + size, room - size, format, i, number_of(i));
        }
        CU_ASSERT_TRUE(http_send(&at.client, all, size));
        free(all);
        for (int i = 0; i < PIPELINED; i++) {
                char expected[48];

                CU_ASSERT_TRUE_FATAL(http_receive(&at.client, &at.reply, false));
                snprintf(expected, sizeof expected, "/%d?%d ", i, number_of(i));
                HTTP_ASSERT_TEXT(at.reply.body, expected);
        }
}

static int
zigzag(int i)
{
        return i * 7 % 5 * 100;
}

static void
a_thousand_pipelined_requests_are_answered_in_order(void)
{
        begin(echo);
        pipeline(GET("/%d?%d"), zigzag);
        end();
}

static void
they_are_also_when_each_is_delayed_differently(void)
{
        begin(echo_later);
        pipeline(GET("/%d?%d"), zigzag);
        end();
}

/* -- bodies -- */

static void
post_body(size_t size)
{
        char head[128];
        char *body = malloc(size + 1);

        for (size_t i = 0; i < size; i++) {
                body[i] = byte_at(i);
        }
        snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
        CU_ASSERT_TRUE(http_send_text(&at.client, head));
        CU_ASSERT_TRUE(http_send(&at.client, body, size));
        assert_reply(200, NULL);
        CU_ASSERT_EQUAL(at.reply.size, size + 2);
        CU_ASSERT_EQUAL(memcmp(at.reply.body + 2, body, size), 0);
        free(body);
}

static void
bodies_of_all_sizes_up_to_the_limit_arrive_whole(void)
{
        begin(echo);
        post_body(0);
        post_body(1);
        post_body(4095);
        post_body((size_t)64 * 1024 - 1);
        post_body((size_t)64 * 1024);
        post_body((size_t)64 * 1024 + 1);
        post_body(MAX_BODY);
        assert_alive();
        end();
}

static void
a_body_above_the_limit_is_413_before_it_is_sent(void)
{
        char head[128];

        begin(echo);
        snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", MAX_BODY + 1);
        CU_ASSERT_TRUE(http_send_text(&at.client, head));
        assert_reply(413, NULL);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

/* The refusal must be read although the client sends for a while: a close too early would reset it. */
static void
a_client_that_sends_on_after_413_can_read_it(void)
{
        char *body = calloc(1, MAX_BODY * 3);
        char head[128];

        begin(echo);
        snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", MAX_BODY * 3);
        CU_ASSERT_TRUE(http_send_text(&at.client, head));
        CU_ASSERT_TRUE(http_send(&at.client, body, MAX_BODY * 3));
        assert_reply(413, NULL);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        free(body);
        end();
}

/* As many clients do, it sends all of a large body before it reads. */
static void
a_client_that_sends_50_mib_after_413_can_read_it(void)
{
        const size_t size = (size_t)(WEIR_TEST_SANITIZED ? 5 : 50) << 20;
        char *body = calloc(1, size);
        char head[128];

        begin(echo);
        snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
        CU_ASSERT_TRUE(http_send_text(&at.client, head));
        CU_ASSERT_TRUE(http_send(&at.client, body, size));
        assert_reply(413, NULL);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        free(body);
        end();
}

static void
a_body_that_looks_like_a_request_is_none(void)
{
        begin(echo);
        CU_ASSERT_TRUE(
                http_send_text(&at.client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\n" GET("/inside") GET("/2")));
        assert_reply(200, "/ " GET("/inside"));
        assert_reply(200, "/2 ");
        end();
}

/* docs/http-server.md says so. */
static void
bytes_that_are_not_refused_reach_the_handler(void)
{
        static const char refused[] = {'#', ' ', '\t', '\1', '\x7f', '\x80', '\xc3'};
        char request[64];

        begin(echo);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/\"<>|\\^`{}") GET("/%22%3c")));
        assert_reply(200, "/\"<>|\\^`{} ");
        assert_reply(200, "/%22%3c "); /* of which the path is the same as that of /"< */
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET /u HTTP/1.1\r\nHost: a\r\nX_User: b\r\nX-User: c\r\n\r\n"));
        assert_reply(200, "/u ");
        for (size_t i = 0; i < sizeof refused; i++) {
                snprintf(request, sizeof request, "GET /a%cb HTTP/1.1\r\nHost: a\r\n\r\n", refused[i]);
                CU_ASSERT_TRUE(http_send_text(&at.client, request));
                assert_reply(400, NULL);
                http_close(&at.client);
                http_open(&at.client, at.port);
        }
        end();
}

static void
a_get_may_have_a_body(void)
{
        begin(echo);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none" GET("/2")));
        assert_reply(200, "/1 one");
        assert_reply(200, "/2 ");
        end();
}

/* -- methods, statuses -- */

static void
head_has_the_fields_of_get_and_no_body(void)
{
        begin(reply_bytes);
        CU_ASSERT_TRUE(http_ask(&at.client, "HEAD /1000 HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "1000");
        CU_ASSERT_TRUE(http_ask(&at.client, "HEAD /3000000 HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "3000000");
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/10"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.size, 10);
        end();
}

static void
replies_without_a_body_frame_nothing(void)
{
        begin(reply_status);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/204"), &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 204);
                CU_ASSERT_PTR_NULL(http_field(&at.reply, "Content-Length"));
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/304"), &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 304);
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/205"), &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 205);
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "0");
        }
        end();
}

static void
any_status_from_200_to_599_goes_out(void)
{
        begin(reply_status);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/201"), &at.reply));
        CU_ASSERT_EQUAL(strncmp(at.reply.head, "HTTP/1.1 201 Created\r\n", 22), 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/404"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 404);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/599"), &at.reply));
        CU_ASSERT_EQUAL(strncmp(at.reply.head, "HTTP/1.1 599 \r\n", 15), 0);
        HTTP_ASSERT_TEXT(at.reply.body, "some text\n");
        end();
}

static void
reply_nothing(weir_task *exchange, void *context)
{
        (void)exchange;
        (void)context;
}

static void
a_handler_that_says_nothing_replies_an_empty_200(void)
{
        begin(reply_nothing);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_EQUAL(at.reply.size, 0);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Length"), "0");
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Content-Type"));
        assert_alive();
        end();
}

/* -- expectations -- */

static void
expect_100_is_answered_when_the_body_is_waited_for(void)
{
        begin_virtual(echo);
        CU_ASSERT_TRUE(
                http_send_text(&at.client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-Continue\r\n\r\n"));
        assert_reply(100, NULL);
        CU_ASSERT_TRUE(http_send_text(&at.client, "body"));
        assert_reply(200, "/ body");
        /* With the body in the same packet nobody waits. */
        CU_ASSERT_TRUE(http_ask(&at.client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
                                &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        /* Nor when it has begun to send. */
        CU_ASSERT_TRUE(
                http_send_text(&at.client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbo"));
        let_it_read();
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_TRUE(http_send_text(&at.client, "dy"));
        assert_reply(200, "/ body");
        /* No body, nothing to wait for; and HTTP/1.0 does not know it. */
        CU_ASSERT_TRUE(http_ask(&at.client, "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_TRUE(http_send_text(&at.client, "POST / HTTP/1.0\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
        let_it_read();
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        CU_ASSERT_TRUE(http_send_text(&at.client, "body"));
        assert_reply(200, "/ body");
        end_virtual();
}

static void
expect_100_gets_the_refusal_instead(void)
{
        begin(echo);
        CU_ASSERT_TRUE(http_send_text(&at.client,
                                      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"));
        assert_reply(413, NULL);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

static void
another_expectation_is_417(void)
{
        begin(echo);
        CU_ASSERT_TRUE(http_send_text(&at.client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 200-ok\r\n\r\n"));
        assert_reply(417, NULL);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

/* -- limits on input -- */

static void
refuses(const char *format, size_t size, int status)
{
        char *request = malloc(size + 256);
        char *filler = malloc(size + 1);

        memset(filler, 'x', size);
        filler[size] = '\0';
        snprintf(request, size + 256, format, filler);
        CU_ASSERT_TRUE(http_send_text(&at.client, request));
        assert_reply(status, NULL);
        if (status != 200) {
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                CU_ASSERT_TRUE(http_is_over(&at.client));
                again();
        }
        free(filler);
        free(request);
}

static void
lines_heads_and_fields_have_their_limits(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.max_line = 100;
        config.max_head = 400;
        config.max_fields = 3;
        begin_with(&config, hello, NULL);
        refuses("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", 100 - 14, 200);
        refuses("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", 101 - 14, 414);
        refuses("GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", 400 - 32, 200);
        refuses("GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", 401 - 32, 431);
        refuses("GET / HTTP/1.1\r\nHost: a\r\n1: %s\r\n2: \r\n\r\n", 1, 200);
        refuses("GET / HTTP/1.1\r\nHost: a\r\n1: %s\r\n2: \r\n3: \r\n\r\n", 1, 431);
        end();
}

static void
the_usual_limits_are_as_documented(void)
{
        begin_with(NULL, hello, NULL);
        refuses("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", 8192 - 14, 200);
        refuses("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", 8193 - 14, 414);
        refuses("GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", 32768 - 32, 200);
        refuses("GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", 32769 - 32, 431);
        refuses("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n%s", 1048576, 200);
        refuses("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\nX: %s\r\n\r\n", 1, 413);
        end();
}

static void
limits_may_be_lifted(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.max_line = config.max_head = config.max_fields = config.max_body = SIZE_MAX;
        begin_with(&config, hello, NULL);
        refuses("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", 1000000, 200);
        refuses("GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", 3000000, 200);
        refuses("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n%s", 3000000, 200);
        end();
}

/* -- the values that a handler reads -- */

static void
read_request(weir_task *exchange, void *context)
{
        const char *name = "untouched", *value = "untouched";
        size_t size = 1;

        (void)context;
        HTTP_ASSERT_TEXT(weir_http_method(exchange), "PUT");
        HTTP_ASSERT_TEXT(weir_http_target(exchange), "/a%20b/%C3%a9?c=%20d?e");
        HTTP_ASSERT_TEXT(weir_http_path(exchange), "/a b/\xc3\xa9");
        HTTP_ASSERT_TEXT(weir_http_query(exchange), "c=%20d?e");
        HTTP_ASSERT_TEXT(weir_http_request_header(exchange, "host"), "a:80");
        HTTP_ASSERT_TEXT(weir_http_request_header(exchange, "x-TWICE"), "one");
        HTTP_ASSERT_TEXT(weir_http_request_header(exchange, "X-Empty"), "");
        CU_ASSERT_PTR_NULL(weir_http_request_header(exchange, "X-Twic"));
        CU_ASSERT_PTR_NULL(weir_http_request_header(exchange, NULL));
        CU_ASSERT_EQUAL(weir_http_request_field(exchange, 0, &name, NULL), 0);
        CU_ASSERT_STRING_EQUAL(name, "Host");
        CU_ASSERT_EQUAL(weir_http_request_field(exchange, 2, &name, &value), 0);
        CU_ASSERT_STRING_EQUAL(name, "x-twice");
        CU_ASSERT_STRING_EQUAL(value, "two \xff");
        CU_ASSERT_EQUAL(weir_http_request_field(exchange, 5, &name, &value), -ENOENT);
        CU_ASSERT_STRING_EQUAL(name, "x-twice");
        CU_ASSERT_STRING_EQUAL(value, "two \xff");
        CU_ASSERT_EQUAL(memcmp(weir_http_request_body(exchange, &size), "b\0dy", 5), 0);
        CU_ASSERT_EQUAL(size, 4);
        CU_ASSERT_PTR_NOT_NULL(weir_http_request_body(exchange, NULL));
}

static void
a_handler_sees_what_was_sent(void)
{
        static const char request[] =
                "PUT /a%20b/%C3%a9?c=%20d?e HTTP/1.1\r\nHost: a:80\r\nX-Twice: one\r\nx-twice:\ttwo \xff\t \r\n"
                "X-Empty:\r\ncontent-length: 4\r\n\r\nb\0dy";

        begin(read_request);
        CU_ASSERT_TRUE(http_send(&at.client, request, sizeof request - 1));
        assert_reply(200, "");
        end();
}

static void
reply_path(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, weir_http_path(exchange));
        weir_http_reply_header(exchange, "X-Query", weir_http_query(exchange) ? weir_http_query(exchange) : "none");
}

static void
targets_of_every_form_have_a_path(void)
{
        begin(reply_path);
        CU_ASSERT_TRUE(http_ask(&at.client, "GET http://b:8080/x/y?z HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "/x/y");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "X-Query"), "z");
        CU_ASSERT_TRUE(http_ask(&at.client, "GET HTTP://b HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "/");
        CU_ASSERT_TRUE(http_ask(&at.client, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "*");
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/a/../%2e./b?"), &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "/a/../../b");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "X-Query"), "");
        end();
}

/* -- replies of a handler -- */

static void
reply_wrongly(weir_task *exchange, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X", "a\r\nSet-Cookie: b"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X", "a\nb"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X", "a\rb"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X", "a\001b"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X", "a\177b"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X Y", "a"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X:", "a"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X\r\nY", "a"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "", "a"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, NULL, "a"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_set_header(exchange, "X", "a\nb"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "Content-Length", "3"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "transfer-encoding", "chunked"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "CONNECTION", "close"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_set_header(exchange, "Date", "today"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, NULL, 0), 0);
}

static void
a_wrong_field_or_piece_is_refused_and_changes_nothing(void)
{
        begin(reply_wrongly);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_EQUAL(at.reply.size, 0);
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "X"));
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Set-Cookie"));
        CU_ASSERT_PTR_NULL(http_field(&at.reply, "Content-Type"));
        end();
}

static struct {
        pthread_mutex_t mutex;
        char said[2048]; /* guarded by mutex */
} heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        pthread_mutex_lock(&heard.mutex);
        size_t size = strlen(heard.said);
        snprintf(heard.said + size, sizeof heard.said - size, "%d %s\n", (int)level, message);
        pthread_mutex_unlock(&heard.mutex);
}

/* All after "/": a status for weir_http_reply_status, or for weir_http_reply_text with a text or without one. */
static void
reply_with_number(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);
        int status = atoi(path + 2);

        (void)context;
        weir_http_reply_header(exchange, "X-Half", "made");
        CU_ASSERT_EQUAL(path[1] == 's'   ? weir_http_reply_status(exchange, status)
                        : path[1] == 't' ? weir_http_reply_text(exchange, status, "text")
                                         : weir_http_reply_text(exchange, status, NULL),
                        -EINVAL);
        weir_http_reply_append(exchange, "must not go out", 15);
}

/* The log is limited to a message in a second. */
static void
a_wrong_status_or_text_is_a_500_and_in_the_log(void)
{
        static const char *const targets[] = {"/n200", "/s199", "/s600", "/s100", "/s-1", "/t0", "/t101", "/t999"};

        heard.said[0] = '\0';
        weir_log_set(hear, NULL);
        begin(reply_with_number);
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
                char request[64];

                snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", targets[i]);
                CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 500);
                CU_ASSERT_PTR_NULL(http_field(&at.reply, "X-Half"));
                HTTP_ASSERT_TEXT(at.reply.body, "500 Internal Server Error\n");
        }
        end();
        weir_log_set(NULL, NULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(heard.said, "0 weir_http_reply_text, for GET /n200: a NULL text: expected one\n"));
}

static void
reply_right_at_last(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_text(exchange, 999, "text"), -EINVAL);
        if (path[1] == 't') {
                CU_ASSERT_EQUAL(weir_http_reply_text(exchange, 502, "sorry"), 0);
        } else {
                CU_ASSERT_EQUAL(weir_http_reply_status(exchange, 502), 0);
                CU_ASSERT_EQUAL(weir_http_reply_append(exchange, "sorry", 5), 0);
        }
}

static void
a_wrong_status_is_forgotten_when_another_one_is_set(void)
{
        heard.said[0] = '\0';
        weir_log_set(hear, NULL);
        begin(reply_right_at_last);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, i ? GET("/t") : GET("/s"), &at.reply));
                CU_ASSERT_EQUAL(at.reply.status, 502);
                HTTP_ASSERT_TEXT(at.reply.body, "sorry");
        }
        end();
        weir_log_set(NULL, NULL);
}

static void
reply_fields(weir_task *exchange, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X-Added", "1"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "x-added", "2"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X-Set", "1"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X-Set", "2"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_set_header(exchange, "x-set", "  three\t\xff "), 0);
        CU_ASSERT_EQUAL(weir_http_reply_set_header(exchange, "Content-Type", "text/html"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, "to be replaced", 14), 0);
        CU_ASSERT_EQUAL(weir_http_reply_text(exchange, 202, "<p>"), 0);
        CU_ASSERT_EQUAL(weir_http_reply_append(exchange, "more", 4), 0);
        CU_ASSERT_EQUAL(weir_http_reply_status(exchange, 203), 0);
}

static void
fields_are_added_and_set(void)
{
        begin(reply_fields);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 203);
        HTTP_ASSERT_TEXT(at.reply.body, "<p>more");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "X-Added"), 2);
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "X-Set"), 1);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "X-Set"), "three\t\xff");
        CU_ASSERT_EQUAL(http_field_count(&at.reply, "Content-Type"), 1);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), "text/html");
        end();
}

/* More than any buffer of the server's has room for: 3,000 fields of 100 bytes. */
static void
reply_many_fields(weir_task *exchange, void *context)
{
        char value[96];

        (void)context;
        memset(value, 'v', sizeof value - 1);
        value[sizeof value - 1] = '\0';
        for (int i = 0; i < 3000; i++) {
                CU_ASSERT_EQUAL(weir_http_reply_header(exchange, "X", value), 0);
        }
        weir_http_reply_text(exchange, 200, "small");
}

static void
a_head_of_any_size_goes_out(void)
{
        begin(reply_many_fields);
        for (int i = 0; i < 2; i++) {
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                CU_ASSERT_EQUAL(http_field_count(&at.reply, "X"), 3000);
                HTTP_ASSERT_TEXT(at.reply.body, "small");
        }
        end();
}

static void
not_an_exchange(weir_task *task, void *context)
{
        size_t size = 7;

        (void)context;
        CU_ASSERT_PTR_NULL(weir_http_method(task));
        CU_ASSERT_PTR_NULL(weir_http_target(task));
        CU_ASSERT_PTR_NULL(weir_http_path(task));
        CU_ASSERT_PTR_NULL(weir_http_query(task));
        CU_ASSERT_PTR_NULL(weir_http_request_header(task, "Host"));
        CU_ASSERT_PTR_NULL(weir_http_request_body(task, &size));
        CU_ASSERT_EQUAL(size, 7);
        CU_ASSERT_EQUAL(weir_http_request_field(task, 0, NULL, NULL), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_status(task, 200), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_header(task, "X", "a"), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_set_header(task, "X", "a"), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_append(task, "a", 1), -EDOM);
        CU_ASSERT_EQUAL(weir_http_reply_text(task, 200, "a"), -EDOM);
}

static void
another_kind_of_task_is_no_exchange(void)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(not_an_exchange, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, not_an_exchange, NULL)), 0);
        not_an_exchange(NULL, NULL);
}

/* -- large replies -- */

static void
receives_bytes(const char *request, size_t size)
{
        CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
        CU_ASSERT_EQUAL(at.reply.size, size);
        CU_ASSERT_TRUE(bytes_are_right(&at.reply));
}

static void
replies_around_the_size_of_the_buffers_arrive_whole(void)
{
        begin(reply_bytes);
        for (size_t size = 65536 - 300; size < 65536 + 10; size += WEIR_TEST_SANITIZED ? 13 : 3) {
                char request[64];

                snprintf(request, sizeof request, GET("/%zu"), size);
                receives_bytes(request, size);
        }
        end();
}

static void
a_reply_may_be_built_in_pieces(void)
{
        begin(reply_bytes);
        receives_bytes(GET("/100000?1"), 100000);
        receives_bytes(GET("/1000000?777"), 1000000);
        end();
}

static void
a_large_reply_arrives_whole(void)
{
        begin(reply_bytes);
        receives_bytes(GET("/8388608"), 8388608);
        receives_bytes(GET("/8388608?65536"), 8388608);
        receives_bytes("GET /8388608 HTTP/1.0\r\n\r\n", 8388608);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_reply_says_what_it_has_to),
                WEIR_TEST(a_connection_is_kept_for_the_next_request),
                WEIR_TEST(connection_close_is_answered_and_obeyed),
                WEIR_TEST(the_last_reply_goes_out_before_a_reset),
                WEIR_TEST(a_client_that_asks_to_stay_connected_gets_an_answer),
                WEIR_TEST(http_1_0_is_closed_unless_it_asks_for_more),
                WEIR_TEST(a_request_is_answered_wherever_it_is_split),
                WEIR_TEST(a_request_may_come_byte_by_byte),
                WEIR_TEST(requests_in_one_packet_are_answered_in_order),
                WEIR_TEST(requests_are_answered_in_order_wherever_packets_end),
                WEIR_TEST(a_thousand_pipelined_requests_are_answered_in_order),
                WEIR_TEST(they_are_also_when_each_is_delayed_differently),
                WEIR_TEST(bodies_of_all_sizes_up_to_the_limit_arrive_whole),
                WEIR_TEST(a_body_above_the_limit_is_413_before_it_is_sent),
                WEIR_TEST(a_client_that_sends_on_after_413_can_read_it),
                WEIR_TEST(a_client_that_sends_50_mib_after_413_can_read_it),
                WEIR_TEST(a_body_that_looks_like_a_request_is_none),
                WEIR_TEST(bytes_that_are_not_refused_reach_the_handler),
                WEIR_TEST(a_get_may_have_a_body),
                WEIR_TEST(head_has_the_fields_of_get_and_no_body),
                WEIR_TEST(replies_without_a_body_frame_nothing),
                WEIR_TEST(any_status_from_200_to_599_goes_out),
                WEIR_TEST(a_handler_that_says_nothing_replies_an_empty_200),
                WEIR_TEST(expect_100_is_answered_when_the_body_is_waited_for),
                WEIR_TEST(expect_100_gets_the_refusal_instead),
                WEIR_TEST(another_expectation_is_417),
                WEIR_TEST(lines_heads_and_fields_have_their_limits),
                WEIR_TEST(the_usual_limits_are_as_documented),
                WEIR_TEST(limits_may_be_lifted),
                WEIR_TEST(a_handler_sees_what_was_sent),
                WEIR_TEST(targets_of_every_form_have_a_path),
                WEIR_TEST(a_wrong_field_or_piece_is_refused_and_changes_nothing),
                WEIR_TEST(a_wrong_status_or_text_is_a_500_and_in_the_log),
                WEIR_TEST(a_wrong_status_is_forgotten_when_another_one_is_set),
                WEIR_TEST(fields_are_added_and_set),
                WEIR_TEST(a_head_of_any_size_goes_out),
                WEIR_TEST(another_kind_of_task_is_no_exchange),
                WEIR_TEST(replies_around_the_size_of_the_buffers_arrive_whole),
                WEIR_TEST(a_reply_may_be_built_in_pieces),
                WEIR_TEST(a_large_reply_arrives_whole),
        };

        return weir_test_main("server", tests, sizeof tests / sizeof *tests);
}
