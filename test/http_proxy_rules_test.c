/* test/http_proxy_rules_test.c: what RFC 9110 asks of a proxy. */
#include "test/proxy_fixture.h"

static void
via_has_the_version_that_came(void)
{
        begin();
        HAS(pass("GET / HTTP/1.0\r\nHost: front\r\nConnection: keep-alive\r\n\r\n"), "\r\nVia: 1.0 weir\r\n");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        HAS(reply.head, "\r\nVia: 1.1 weir\r\n");
        HAS(pass(GET("/")), "\r\nVia: 1.1 weir\r\n");
        CU_ASSERT_TRUE(come_back("HTTP/1.0 200 OK\r\nVia: 1.1 other\r\nContent-Length: 4\r\n\r\nword"));
        HAS(reply.head, "\r\nVia: 1.1 other\r\nVia: 1.0 weir\r\n");
        end();
}

/* A client that could take away what the proxy says would hide from the other server. */
static void
a_client_cannot_drop_what_the_proxy_says(void)
{
        begin();
        const char *request = pass("GET / HTTP/1.1\r\nHost: front\r\nConnection: close, X-Forwarded-For, x-forwarded-proto, Via, "
                                   "Host, Mine\r\nMine: 1\r\nVia: 1.1 first\r\n\r\n");
        HAS(request, "\r\nHost: 127.0.0.1");
        HAS(request, "\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n");
        HAS(request, "\r\nVia: 1.1 weir\r\n");
        HAS_NOT(request, "Mine");
        CU_ASSERT_TRUE(
                come_back("HTTP/1.1 200 OK\r\nConnection: Mine, Content-Length\r\nMine: 1\r\nContent-Length: 4\r\n\r\nword"));
        GETS(200, "word");
        HAS_NOT(reply.head, "Mine");
        end();
}

static void
options_and_trace_pass_as_many_proxies_as_they_may(void)
{
        static const char *const others[] = {"Max-Forwards: x", "Max-Forwards: 1000000000000000000000", "Max-Forwards: "};
        char request[256];

        begin();
        HAS(pass("OPTIONS /a HTTP/1.1\r\nHost: front\r\nMax-Forwards: 10\r\n\r\n"), "\r\nMax-Forwards: 9\r\n");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        HAS(pass("TRACE /a HTTP/1.1\r\nHost: front\r\nMax-Forwards: 1\r\n\r\n"), "\r\nMax-Forwards: 0\r\n");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        HAS(pass("GET /a HTTP/1.1\r\nHost: front\r\nMax-Forwards: 0\r\n\r\n"), "\r\nMax-Forwards: 0\r\n");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
                snprintf(request, sizeof request, "OPTIONS /a HTTP/1.1\r\nHost: front\r\n%s\r\n\r\n", others[i]);
                HAS(pass(request), others[i]);
                CU_ASSERT_TRUE(come_back(OK_WORD));
        }
        CU_ASSERT_TRUE(http_ask(&asker, "OPTIONS /a HTTP/1.1\r\nHost: front\r\nMax-Forwards: 0\r\n\r\n", &reply));
        GETS(200, "");
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Length"), "0");
        CU_ASSERT_TRUE(http_ask(&asker,
                                "TRACE /a?b HTTP/1.1\r\nHost: front\r\nMax-Forwards: 00\r\ncookie: a=b\r\nAuthorization: x\r\n"
                                "Proxy-Authorization: y\r\nOther: 1\r\n\r\n",
                                &reply));
        GETS(200, "TRACE /a?b HTTP/1.1\r\nHost: front\r\nMax-Forwards: 00\r\nOther: 1\r\n\r\n");
        HTTP_ASSERT_TEXT(http_field(&reply, "Content-Type"), "message/http");
        end();
}

/* -- interim responses -- */

static void
early(int status, const char *head_has)
{
        CU_ASSERT_TRUE(http_has_news(&asker, WEIR_TEST_PATIENCE));
        CU_ASSERT_TRUE(http_receive(&asker, &reply, true));
        CU_ASSERT_EQUAL(reply.status, status);
        HAS(reply.head, head_has);
}

static void
interim_responses_pass_before_the_response(void)
{
        begin();
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 103 Early Hints\r\nConnection: Mine\r\nMine: 1\r\nLink: </a>\r\n"
                                             "Link: </b>\r\nKeep-Alive: x\r\n\r\n"));
        early(103, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\nVia: 1.1 weir\r\n");
        HAS_NOT(reply.head, "Mine");
        HAS_NOT(reply.head, "Keep-Alive");
        /* The rest comes in one piece; a 100 that nobody has asked for stays behind. */
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 199 x\r\n\r\n"
                                             "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 4\r\n\r\nword"));
        early(102, "HTTP/1.1 102 \r\nVia: 1.1 weir\r\n");
        early(199, "HTTP/1.1 199 ");
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        GETS(200, "word");
        HAS(reply.head, "\r\nA: b\r\n");
        HAS_NOT(reply.head, "Link");
        CU_ASSERT_EQUAL(http_field_count(&reply, "Via"), 1);
        end();
}

static void
old_clients_get_no_interim_responses(void)
{
        begin();
        (void)pass("GET / HTTP/1.0\r\n\r\n");
        CU_ASSERT_TRUE(come_back("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" OK_WORD));
        GETS(200, "word");
        end();
}

/* The limit of a head holds for all of them together. */
static void
interim_responses_without_end_are_a_502(void)
{
        struct weir_client_config limits = WEIR_CLIENT_CONFIG_DEFAULT;
        char storm[8192] = "";

        limits.max_head = 4096;
        begin_with(NULL, &limits, forward);
        (void)pass("GET / HTTP/1.0\r\n\r\n");
        while (strlen(storm) < 5000)
                strcat(storm, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        CU_ASSERT_TRUE(come_back(storm));
        GETS(502, "Bad Gateway\n");
        end();
}

static void
the_server_fails_or_the_client_leaves_after_an_interim_response(void)
{
        begin();
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"));
        early(103, "Link");
        hang_up();
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        GETS(502, "Bad Gateway\n");
        (void)pass(GET("/"));
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"));
        early(103, "Link");
        http_abandon(&asker);
        asker.fd = -1;
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<reset>");
        end();
}

static _Atomic int wrong[6];

static void
note(weir_task *task, void *context)
{
        *(_Atomic int *)context = weir_task_status(task);
}

static void
say_early(weir_task *exchange, void *context)
{
        const char *const good[] = {"Link", "</a>", NULL}, *const framing[] = {"Content-Length", "1", NULL},
                          *const split[] = {"A", "b\r\nC: d", NULL};
        weir_series *series = weir_series_of(exchange);

        (void)context;
        wrong[0] = weir_task_start(weir_http_interim_new(exchange, 100, good, NULL, NULL));
        wrong[1] = weir_task_start(weir_http_interim_new(exchange, 200, good, NULL, NULL));
        wrong[2] = weir_task_start(weir_http_interim_new(exchange, 103, framing, NULL, NULL));
        wrong[3] = weir_task_start(weir_http_interim_new(exchange, 103, split, NULL, NULL));
        wrong[4] = weir_task_start(weir_http_interim_new(NULL, 103, good, NULL, NULL));
        wrong[5] = 1;
        weir_http_reply_length(exchange, 3);
        weir_series_push(series, weir_http_interim_new(exchange, 103, good, NULL, NULL));
        weir_series_push(series, weir_http_interim_new(exchange, 102, NULL, NULL, NULL));
        weir_series_push(series, weir_http_write_new(exchange, "abc", 3, NULL, NULL));
        weir_series_push(series, weir_http_interim_new(exchange, 103, good, note, &wrong[5]));
}

static void
a_server_sends_interim_responses_before_the_reply_only(void)
{
        begin_with(NULL, NULL, say_early);
        CU_ASSERT_TRUE(http_send_text(&asker, GET("/")));
        early(103, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n");
        early(102, "HTTP/1.1 102 \r\n");
        CU_ASSERT_TRUE(http_receive(&asker, &reply, false));
        GETS(200, "abc");
        HAS_NOT(reply.head, "Link");
        for (int i = 0; i < 4; i++)
                CU_ASSERT_EQUAL(wrong[i], -EINVAL);
        CU_ASSERT_EQUAL(wrong[4], -EDOM);
        WEIR_TEST_EVENTUALLY(wrong[5] != 1);
        CU_ASSERT_EQUAL(wrong[5], -EALREADY);
        CU_ASSERT_TRUE(http_ask(&asker, "GET / HTTP/1.0\r\n\r\n", &reply));
        GETS(200, "abc");
        end();
}

/* -- 100 -- */

#define ASKS_FIRST "PUT / HTTP/1.1\r\nHost: front\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"

static void
ask_first(void)
{
        CU_ASSERT_TRUE(http_send_text(&asker, ASKS_FIRST));
        if (peer.fd < 0)
                (void)http_peer_accept(&peer, listener, NULL);
        HAS(http_peer_head(&peer), "\r\nExpect: 100-continue\r\n");
}

static void
the_other_server_says_whether_it_wants_the_body(void)
{
        begin_streaming();
        ask_first();
        CU_ASSERT_STRING_EQUAL(http_peer_has(&peer), "");
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 100 Continue\r\n\r\n"));
        early(100, "HTTP/1.1 100 Continue");
        CU_ASSERT_TRUE(http_send_text(&asker, "def"));
        CU_ASSERT_STRING_EQUAL(http_peer_sees(&peer), "def");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        ask_first();
        CU_ASSERT_TRUE(come_back("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")); /* and no 100 before it */
        GETS(413, "no");
        CU_ASSERT_STRING_EQUAL(http_peer_ends(&peer), "<end>"); /* the body is not awaited */
        end();
}

static void
a_server_that_does_not_know_100_gets_the_body_after_a_second(void)
{
        begin_streaming();
        ask_first();
        early(100, "HTTP/1.1 100 Continue");
        CU_ASSERT_TRUE(http_send_text(&asker, "def"));
        CU_ASSERT_STRING_EQUAL(http_peer_sees(&peer), "def");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        end();
}

static void
a_body_that_is_collected_is_asked_for_at_once(void)
{
        begin();
        CU_ASSERT_TRUE(http_send_text(&asker, ASKS_FIRST));
        early(100, "HTTP/1.1 100 Continue");
        const char *request = pass("def");
        HAS(request, "\r\n\r\ndef");
        HAS_NOT(request, "Expect");
        CU_ASSERT_TRUE(come_back(OK_WORD));
        GETS(200, "word");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(via_has_the_version_that_came),
                WEIR_TEST(a_client_cannot_drop_what_the_proxy_says),
                WEIR_TEST(options_and_trace_pass_as_many_proxies_as_they_may),
                WEIR_TEST(interim_responses_pass_before_the_response),
                WEIR_TEST(old_clients_get_no_interim_responses),
                WEIR_TEST(interim_responses_without_end_are_a_502),
                WEIR_TEST(the_server_fails_or_the_client_leaves_after_an_interim_response),
                WEIR_TEST(a_server_sends_interim_responses_before_the_reply_only),
                WEIR_TEST(the_other_server_says_whether_it_wants_the_body),
                WEIR_TEST(a_server_that_does_not_know_100_gets_the_body_after_a_second),
                WEIR_TEST(a_body_that_is_collected_is_asked_for_at_once),
        };

        return weir_test_main("http_proxy_rules", tests, sizeof tests / sizeof *tests);
}
