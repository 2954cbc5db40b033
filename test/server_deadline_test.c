/* test/server_deadline_test.c: exchanges whose series have a deadline, on the virtual clock. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "test/http_client.h"
#include "test/timer_fixture.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define FAR         WEIR_SEC(5)

static struct {
        weir_http_server *server;
        struct http_client client;
        struct http_reply reply;
        atomic_int handled, ended, status;
        weir_nsec ended_at;
} at;

static void
begin(weir_task_fn *handler)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        weir_test_begin_virtual();
        at.server = http_server(&config, handler, NULL);
        at.handled = at.ended = at.status = 0;
        http_open(&at.client, weir_http_server_port(at.server));
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
on_end(weir_task *task, void *context)
{
        (void)context;
        at.status = weir_task_status(task);
        at.ended_at = weir_now();
        at.ended++;
}

static void
push(weir_task *exchange, weir_task *task)
{
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(exchange), task), 0);
}

static void
limit(weir_task *exchange)
{
        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_series_of(exchange), WEIR_SEC(1)), 0);
        at.handled++;
}

/* -- not begun -- */

static void
answer_too_late(weir_task *exchange, void *context)
{
        (void)context;
        if (!strcmp(weir_http_path(exchange), "/soon")) {
                weir_http_reply_text(exchange, 200, "soon\n");
                push(exchange, weir_timer_new(WEIR_MSEC(500), on_end, NULL));
        } else {
                weir_http_reply_header(exchange, "X-Prepared", "yes");
                weir_http_reply_text(exchange, 200, "never seen\n");
                push(exchange, weir_timer_new(FAR, on_end, NULL));
        }
        limit(exchange);
}

static void
ask(const char *request, weir_nsec pass)
{
        int handled = at.handled;

        CU_ASSERT_TRUE(http_send_text(&at.client, request));
        WEIR_TEST_EVENTUALLY(at.handled == handled + 1);
        weir_test_pass(pass);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
}

static void
an_exchange_whose_deadline_comes_is_answered_503_and_the_connection_goes_on(void)
{
        begin(answer_too_late);
        weir_nsec began = weir_now();
        for (int i = 1; i <= 3; i++) {
                ask(GET("/"), WEIR_SEC(1));
                CU_ASSERT_EQUAL(at.reply.status, 503);
                CU_ASSERT_PTR_NULL(http_field(&at.reply, "X-Prepared"));
                CU_ASSERT_PTR_NULL(strstr(at.reply.body, "never"));
                CU_ASSERT(at.ended == 2 * i - 1 && at.status == -ETIMEDOUT);
                CU_ASSERT_EQUAL(at.ended_at, began + WEIR_SEC(2) * i - WEIR_SEC(1));
                ask(GET("/soon"), WEIR_SEC(1));
                CU_ASSERT_EQUAL(at.reply.status, 200);
                HTTP_ASSERT_TEXT(at.reply.body, "soon\n");
                CU_ASSERT(at.ended == 2 * i && at.status == 0);
        }
        end();
}

/* -- a failure -- */

static void
fail_in_a_step(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_stop_on_failure(weir_series_of(exchange));
        weir_http_reply_text(exchange, 200, "never seen\n");
        push(exchange, weir_timeout_new(weir_timer_new(FAR, NULL, NULL), WEIR_MSEC(100)));
        push(exchange, weir_timer_new(FAR, on_end, NULL));
        at.handled++;
}

static void
an_exchange_whose_series_fails_is_answered_500_and_the_connection_goes_on(void)
{
        begin(fail_in_a_step);
        for (int i = 1; i <= 3; i++) {
                ask(GET("/"), WEIR_SEC(1));
                CU_ASSERT_EQUAL(at.reply.status, 500);
                CU_ASSERT_PTR_NULL(strstr(at.reply.body, "never"));
        }
        CU_ASSERT_EQUAL(at.ended, 0);
        end();
}

static void
wait_for_calls(weir_task *exchange, void *context)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        (void)context;
        for (unsigned i = 0; i < 10; i++)
                weir_parallel_add(parallel, weir_timer_new(FAR, on_end, NULL));
        push(exchange, parallel);
        limit(exchange);
}

static void
everything_that_the_exchange_calls_ends_with_it(void)
{
        begin(wait_for_calls);
        ask(GET("/"), WEIR_SEC(1));
        CU_ASSERT_EQUAL(at.reply.status, 503);
        CU_ASSERT(at.ended == 10 && at.status == -ETIMEDOUT);
        end();
}

static void
wait_for_the_body(weir_task *exchange, void *context)
{
        (void)context;
        push(exchange, weir_http_read_new(exchange, on_end, NULL));
        limit(exchange);
}

/* The unread rest of the body is in the way of the next request. */
static void
a_read_of_the_body_ends_with_it_and_then_the_connection(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        weir_test_begin_virtual();
        config.stream_bodies = 1;
        at.server = http_server(&config, wait_for_the_body, NULL);
        at.handled = at.ended = 0;
        http_open(&at.client, weir_http_server_port(at.server));
        ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", WEIR_SEC(1));
        CU_ASSERT_EQUAL(at.reply.status, 503);
        CU_ASSERT(at.ended == 1 && at.status == -ETIMEDOUT);
        weir_test_pass(WEIR_SEC(60));
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

/* -- begun -- */

static void
begin_to_answer(weir_task *exchange, void *context)
{
        (void)context;
        push(exchange, weir_http_write_new(exchange, "half", 4, NULL, NULL));
        push(exchange, weir_timer_new(FAR, on_end, NULL));
        limit(exchange);
}

static void
a_reply_that_has_begun_is_cut(void)
{
        begin(begin_to_answer);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        WEIR_TEST_EVENTUALLY(at.handled == 1);
        CU_ASSERT_TRUE(http_has_news(&at.client, WEIR_TEST_PATIENCE));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT(at.ended == 1 && at.status == -ETIMEDOUT);
        end();
}

static void
stream_events(weir_task *exchange, void *context)
{
        (void)context;
        push(exchange, weir_http_sse_new(exchange, 0, on_end, NULL));
        limit(exchange);
}

static void
so_is_a_stream_of_events(void)
{
        begin(stream_events);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        WEIR_TEST_EVENTUALLY(at.handled == 1);
        CU_ASSERT_TRUE(http_has_news(&at.client, WEIR_TEST_PATIENCE));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_FALSE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT(at.ended == 1 && at.status == -ETIMEDOUT);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(an_exchange_whose_deadline_comes_is_answered_503_and_the_connection_goes_on),
                WEIR_TEST(an_exchange_whose_series_fails_is_answered_500_and_the_connection_goes_on),
                WEIR_TEST(everything_that_the_exchange_calls_ends_with_it),
                WEIR_TEST(a_read_of_the_body_ends_with_it_and_then_the_connection),
                WEIR_TEST(a_reply_that_has_begun_is_cut),
                WEIR_TEST(so_is_a_stream_of_events),
        };

        return weir_test_main("server_deadline", tests, sizeof tests / sizeof tests[0]);
}
