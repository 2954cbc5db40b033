/* test/http_proxy_bad_test.c: the reverse proxy where one side misbehaves or goes. */
#include <sys/socket.h>

#include <weir/upstream.h>

#include "test/proxy_fixture.h"

#define HALF_A_BODY "POST / HTTP/1.1\r\nHost: front\r\nContent-Length: 100\r\n\r\nhalf"
#define ALL_OF_IT   "POST / HTTP/1.1\r\nHost: front\r\nContent-Length: 4\r\n\r\nhalf"

/* -- the other server fails -- */

static void
answers(int status, const char *body)
{
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        GETS(status, body);
        HAS_NOT(reply.body, "127.0.0.1");
}

static void
what_is_no_response_is_a_502_with_the_reason_in_the_log(void)
{
        static const char *const bad[] = {
                "nonsense\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        };

        begin();
        snprintf(base, sizeof base, "http://user:secret@127.0.0.1:%d", backend_port);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                HAS(pass(GET("/path?hidden")), "Authorization: Basic");
                CU_ASSERT_TRUE(http_peer_send(&peer, bad[i]));
                answers(502, "Bad Gateway\n");
                hang_up();
        }
        CU_ASSERT_TRUE(log_has("weir_http_proxy_to: GET http://127.0.0.1:"));
        CU_ASSERT_FALSE(log_has("secret"));
        CU_ASSERT_FALSE(log_has("hidden"));
        end();
}

static void
servers_that_close_before_the_head_are_a_502(void)
{
        begin();
        (void)pass("POST / HTTP/1.1\r\nHost: front\r\nContent-Length: 1\r\n\r\na");
        hang_up();
        answers(502, "Bad Gateway\n");
        (void)pass(GET("/"));
        http_peer_reset(&peer);
        peer.fd = -1;
        answers(502, "Bad Gateway\n");
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 200 O"));
        hang_up();
        answers(502, "Bad Gateway\n");
        close(listener);
        listener = -1;
        CU_ASSERT_TRUE(http_send_text(&asker, GET("/")));
        answers(502, "Bad Gateway\n");
        listener = http_peer_listen(&backend_port);
        end();
}

static void
limits_are_a_504(void)
{
        begin();
        config.limit = WEIR_MSEC(20);
        (void)pass(GET("/"));
        answers(504, "Gateway Timeout\n");
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>");
        end();
}

static void
a_queue_that_is_too_slow_is_a_503(void)
{
        struct weir_client_config limits = WEIR_CLIENT_CONFIG_DEFAULT;
        struct http_client other;

        limits.connections = 1;
        begin_with(NULL, &limits, forward);
        (void)pass(GET("/"));
        config.limit = WEIR_MSEC(20);
        http_open(&other, proxy_port);
        CU_ASSERT_TRUE(http_ask(&other, GET("/"), &reply));
        GETS(503, "Service Unavailable\n");
        http_close(&other);
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        end();
}

static void
an_upstream_without_members_is_a_503(void)
{
        begin();
        weir_upstream *upstream = weir_upstream_new("proxied", NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(upstream);
        strcpy(base, "http://proxied");
        CU_ASSERT_TRUE(http_ask(&asker, GET("/"), &reply));
        GETS(503, "Service Unavailable\n");
        char address[64];
        snprintf(address, sizeof address, "127.0.0.1:%d", backend_port);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, address, NULL), 0);
        HAS(pass(GET("/")), "\r\nHost: proxied\r\n");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        weir_upstream_unref(upstream);
        end();
}

/* Half of a response: the head, and perhaps more, has gone out. */
static void
half_a_response_is_cut(void)
{
        static const char *const halves[] = {
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        };

        for (size_t i = 0; i < 2 * sizeof halves / sizeof *halves; i++) {
                begin();
                (void)pass(i % 2 ? "GET / HTTP/1.0\r\n\r\n" : GET("/"));
                CU_ASSERT_TRUE(http_peer_send(&peer, halves[i / 2]));
                http_read_some(&asker);
                CU_ASSERT_NSTRING_EQUAL(asker.input, "HTTP/1.1 200 OK", 15);
                if (i % 3)
                        http_peer_close(&peer);
                else
                        http_peer_reset(&peer);
                peer.fd = -1;
                bool is_whole = i % 2 && i > 1 ? http_receive_to_end(&asker, &reply) : http_receive(&asker, &reply, false);
                CU_ASSERT_FALSE(is_whole);
                end();
        }
}

/* -- answers before the end of the request -- */

static void
an_early_answer_does_not_wait_for_the_body(void)
{
        for (int streams = 0; streams < 2; streams++) {
                if (streams)
                        begin_streaming();
                else
                        begin();
                CU_ASSERT_TRUE(http_send_text(&asker, streams ? HALF_A_BODY : ALL_OF_IT));
                (void)http_peer_accept(&peer, listener, NULL);
                (void)http_peer_head(&peer);
                CU_ASSERT_TRUE(
                        http_peer_send(&peer, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"));
                answers(413, "no");
                end();
        }
}

/* -- the client fails -- */

static void
a_broken_body_breaks_the_call(void)
{
        begin_streaming();
        CU_ASSERT_TRUE(
                http_send_text(&asker, "POST / HTTP/1.1\r\nHost: front\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"));
        (void)http_peer_accept(&peer, listener, NULL);
        (void)http_peer_head(&peer);
        CU_ASSERT_TRUE(http_send_text(&asker, "nonsense\r\n"));
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 400);
        const char *end_of_it = http_peer_ends(&peer);
        CU_ASSERT_STRING_EQUAL(end_of_it, "<reset>");
        end();
}

/* The call must be broken at once: the peer sees it. */
static void
leaves(void)
{
        http_abandon(&asker);
        asker.fd = -1;
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>");
}

static void
a_client_that_leaves_ends_the_call_at_each_stage(void)
{
        static const char *const responses[] = {"", "HTTP/1.1 200 OK\r\nConte", SSE, SSE "1\r\na\r\n",
                                                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"};

        for (size_t i = 0; i < sizeof responses / sizeof *responses; i++) {
                begin();
                (void)pass(GET("/"));
                CU_ASSERT_TRUE(http_peer_send(&peer, responses[i]));
                if (i >= 2)
                        http_read_some(&asker);
                leaves();
                end();
        }
        begin_streaming();
        CU_ASSERT_TRUE(http_send_text(&asker, HALF_A_BODY));
        (void)http_peer_accept(&peer, listener, NULL);
        (void)http_peer_head(&peer);
        leaves();
        end();
}

/* One that waits in the queue, or while a connection is made. */
static void
a_client_that_leaves_the_queue_leaves_no_one_behind(void)
{
        struct weir_client_config limits = WEIR_CLIENT_CONFIG_DEFAULT;
        struct weir_client_stats stats = WEIR_CLIENT_STATS_DEFAULT;
        struct http_client other;

        limits.connections = 1;
        begin_with(NULL, &limits, forward);
        (void)pass(GET("/"));
        http_open(&other, proxy_port);
        CU_ASSERT_TRUE(http_send_text(&other, GET("/")));
        WEIR_TEST_EVENTUALLY(weir_client_stats(client, &stats) == 0 && stats.waiting == 1);
        http_abandon(&other);
        WEIR_TEST_EVENTUALLY(weir_client_stats(client, &stats) == 0 && stats.waiting == 0);
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        end();
}

#define ASKS_UPGRADE "GET /chat HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define SWITCHES     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

static void
either_end_of_a_tunnel_may_break(void)
{
        for (int is_client = 0; is_client < 2; is_client++) {
                begin();
                (void)pass(ASKS_UPGRADE);
                CU_ASSERT_TRUE(http_peer_send(&peer, SWITCHES));
                CU_ASSERT_TRUE(http_receive(&asker, &reply, true));
                CU_ASSERT_EQUAL(reply.status, 101);
                CU_ASSERT_TRUE(http_send_text(&asker, "a"));
                CU_ASSERT_STRING_EQUAL(http_peer_sees(&peer), "a");
                if (is_client) {
                        leaves();
                } else {
                        http_peer_reset(&peer);
                        peer.fd = -1;
                        CU_ASSERT_TRUE(http_is_over(&asker));
                }
                end();
        }
        begin();
        (void)pass(ASKS_UPGRADE);
        CU_ASSERT_TRUE(
                http_peer_send(&peer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"));
        answers(502, "Bad Gateway\n");
        end();
}

/* -- the program -- */

static void
forward_late(weir_task *exchange, void *context)
{
        weir_series_set_deadline(weir_series_of(exchange), WEIR_MSEC(20));
        forward(exchange, context);
}

static void
the_deadline_of_the_series_breaks_the_call(void)
{
        begin_with(NULL, NULL, forward_late);
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 503);
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>");
        end();
}

static void
what_is_set_wrongly_is_refused(void)
{
        static const char *const urls[] = {"",        "backend",    "http://",     "http:///",
                                           "ftp://a", "http://a?b", "http://a/#b", "http://a b/"};
        struct weir_http_proxy_config good;

        begin();
        weir_task *other = weir_empty_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_http_proxy_to(other, NULL, "http://a"), -EDOM);
        CU_ASSERT_EQUAL(weir_http_proxy_to(NULL, NULL, "http://a"), -EDOM);
        weir_task_dismiss(other);
        for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
                strcpy(base, urls[i]);
                CU_ASSERT_TRUE(http_ask(&asker, GET("/"), &reply));
                CU_ASSERT_EQUAL(result, -EINVAL);
                CU_ASSERT_EQUAL(reply.status, 500);
        }
        good = config;
        strcpy(base, "http://a");
        for (int i = 0; i < 5; i++) {
                config = good;
                config.size = i == 0 ? 1 : config.size;
                config.via = i == 1 ? "a b" : i == 2 ? "a-name-that-has-more-than-32-characters" : NULL;
                config.limit = i == 3 ? -1 : 0;
                config.forwarded = i == 4 ? (enum weir_http_forwarding)6 : WEIR_HTTP_FORWARDING_DEFAULT;
                CU_ASSERT_TRUE(http_ask(&asker, GET("/"), &reply));
                CU_ASSERT_EQUAL(result, -EINVAL);
                CU_ASSERT_EQUAL(reply.status, 500);
        }
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_is_no_response_is_a_502_with_the_reason_in_the_log),
                WEIR_TEST(servers_that_close_before_the_head_are_a_502),
                WEIR_TEST(limits_are_a_504),
                WEIR_TEST(a_queue_that_is_too_slow_is_a_503),
                WEIR_TEST(an_upstream_without_members_is_a_503),
                WEIR_TEST(half_a_response_is_cut),
                WEIR_TEST(an_early_answer_does_not_wait_for_the_body),
                WEIR_TEST(a_broken_body_breaks_the_call),
                WEIR_TEST(a_client_that_leaves_ends_the_call_at_each_stage),
                WEIR_TEST(a_client_that_leaves_the_queue_leaves_no_one_behind),
                WEIR_TEST(either_end_of_a_tunnel_may_break),
                WEIR_TEST(the_deadline_of_the_series_breaks_the_call),
                WEIR_TEST(what_is_set_wrongly_is_refused),
        };

        return weir_test_main("http_proxy_bad", tests, sizeof tests / sizeof *tests);
}
