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

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(via_has_the_version_that_came),
                WEIR_TEST(a_client_cannot_drop_what_the_proxy_says),
                WEIR_TEST(options_and_trace_pass_as_many_proxies_as_they_may),
        };

        return weir_test_main("http_proxy_rules", tests, sizeof tests / sizeof *tests);
}
