/* test/examples/rate_limiter_test.c: the bucket of a client, and the report at midnight, on the virtual clock. */
#include "test/examples/program.h"
#undef main

void on_request(weir_task *exchange, void *context);
int start_report(const char *zone);

static struct {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
} at;

static void
begin(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.trusted_proxies = "127.0.0.1";
        weir_test_begin_virtual();
        at.server = http_server(&config, on_request, NULL);
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
end(void)
{
        http_close(&at.client);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
        http_reply_done(&at.reply);
}

static int
ask(void)
{
        CU_ASSERT(http_ask(&at.client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", &at.reply));
        return at.reply.status;
}

static void
expect_ten_and_no_more(void)
{
        for (int i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(ask(), 200);
        CU_ASSERT_EQUAL(ask(), 429);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Retry-After"), "1");
}

static void
a_client_has_ten_requests_and_ten_more_each_second(void)
{
        begin();
        expect_ten_and_no_more();
        weir_test_pass(WEIR_MSEC(100));
        CU_ASSERT_EQUAL(ask(), 200);
        CU_ASSERT_EQUAL(ask(), 429);
        weir_test_pass(WEIR_SEC(10));
        expect_ten_and_no_more();
        weir_test_pass(WEIR_SEC(10));
        end();
}

static void
each_client_of_a_proxy_has_requests_of_its_own(void)
{
        begin();
        expect_ten_and_no_more();
        CU_ASSERT(http_ask(&at.client, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        end();
}

static void
the_report_comes_at_midnight(void)
{
        begin();
        program_catch();
        CU_ASSERT_EQUAL(start_report("UTC"), 0);
        weir_test_pass(WEIR_SEC(86400) - 1); /* the virtual wall clock begins at midnight */
        CU_ASSERT_STRING_EQUAL(program_printed(), "");
        weir_test_pass(1);
        CU_ASSERT_STRING_EQUAL(program_printed(), "4 requests were refused\n"); /* in the tests before */
        weir_test_pass(WEIR_SEC(86400));
        program_release();
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "0 requests were refused\n"));
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_client_has_ten_requests_and_ten_more_each_second),
                WEIR_TEST(each_client_of_a_proxy_has_requests_of_its_own),
                WEIR_TEST(the_report_comes_at_midnight),
        };

        return weir_test_main("example_rate_limiter", tests, sizeof tests / sizeof *tests);
}
