/* test/cancel_guide_test.c: the examples of docs/flows.md about flows that end early, which quotes them. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "test/http_client.h"
#include "test/timer_fixture.h"

static atomic_int parts, reports;
static _Atomic int reported;

static void
on_part(weir_task *part, void *context)
{
        (void)context;
        parts += weir_task_status(part) == -ECANCELED;
}

static void
report(weir_series *job, void *context)
{
        (void)context;
        reported = weir_series_status(job);
        reports++;
}

/* -- cancelling a flow -- */

static weir_series *
start_job(void)
{
        weir_series *job = weir_series_new(report, NULL);
        weir_task *both = weir_parallel_new(NULL, NULL);

        weir_parallel_add(both, weir_timer_new(WEIR_SEC(30), on_part, NULL));
        weir_parallel_add(both, weir_timer_new(WEIR_SEC(60), on_part, NULL));
        weir_series_push(job, both);
        weir_series_ref(job); /* for the caller */
        if (weir_series_start(job) == 0)
                return job;
        weir_series_unref(job);
        return NULL;
}

static void
give_up(weir_series *job)
{
        /* The timers end.  Both callbacks see -ECANCELED, then report() does. */
        weir_series_cancel(job);
        weir_series_unref(job);
}

static void
a_flow_is_cancelled_by_reference(void)
{
        parts = reports = 0;
        weir_test_begin_virtual();
        weir_series *job = start_job();
        CU_ASSERT_PTR_NOT_NULL_FATAL(job);
        weir_test_pass(WEIR_SEC(1));
        give_up(job);
        weir_test_pass(1);
        CU_ASSERT(parts == 2 && reports == 1 && reported == -ECANCELED);
        weir_test_end();
}

/* -- a function with a stop flag -- */

static atomic_int rows;

static void
import_rows(void *context)
{
        (void)context;
        while (rows < 1000000000) {
                int cause = weir_go_cancelled(); /* cheap: look as often as you can stop */

                if (cause) {
                        weir_go_fail(cause);
                        return;
                }
                rows++;
        }
}

static void
a_function_that_looks_stops(void)
{
        rows = reports = 0;
        weir_test_begin_real(2);
        weir_series *job = weir_series_ref(weir_series_new(report, NULL));
        weir_series_push(job, weir_go_new(NULL, import_rows, NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_start(job), 0);
        WEIR_TEST_EVENTUALLY(rows > 0);
        weir_series_cancel(job);
        WEIR_TEST_EVENTUALLY(reports == 1);
        CU_ASSERT_EQUAL(reported, -ECANCELED);
        weir_series_unref(job);
        weir_test_end();
}

/* -- names -- */

static void
on_message(const char *user)
{
        weir_series *flow = weir_series_new(report, NULL);

        weir_series_set_name(flow, user);
        weir_series_push(flow, weir_timer_new(WEIR_SEC(10), NULL, NULL));
        weir_series_start(flow);
}

/* On any thread: nothing is done for that user any more. */
static size_t
sign_out(const char *user)
{
        return weir_series_cancel_named(user, WEIR_ALL);
}

static void
flows_are_cancelled_by_name(void)
{
        reports = 0;
        weir_test_begin_virtual();
        on_message("alice");
        on_message("bob");
        on_message("alice");
        CU_ASSERT_EQUAL(weir_series_count("alice"), 2);
        CU_ASSERT_EQUAL(sign_out("alice"), 2);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(reports, 2);
        CU_ASSERT_EQUAL(weir_series_count("alice"), 0);
        CU_ASSERT_EQUAL(weir_series_count("bob"), 1);
        weir_test_end();
}

/* -- deadlines -- */

static void
on_request(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);
        weir_task *calls = weir_parallel_new(NULL, NULL);

        (void)context;
        /* For all that is called for this request; then 503. */
        weir_series_set_deadline(series, WEIR_MSEC(200));
        weir_parallel_add(calls, weir_timer_new(WEIR_MSEC(100), NULL, NULL));
        weir_parallel_add(calls, weir_timer_new(WEIR_SEC(10), NULL, NULL));
        weir_series_push(series, calls);
        weir_http_reply_text(exchange, 200, "in time\n");
        parts++;
}

static void
an_exchange_has_a_deadline(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_reply reply = {0};
        struct http_client client;

        parts = 0;
        weir_test_begin_virtual();
        weir_http_server *server = http_server(&config, on_request, NULL);
        http_open(&client, weir_http_server_port(server));
        CU_ASSERT_TRUE(http_send_text(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        WEIR_TEST_EVENTUALLY(parts == 1);
        weir_test_pass(WEIR_MSEC(200));
        CU_ASSERT_TRUE(http_receive(&client, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 503);
        http_close(&client);
        http_reply_done(&reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(20)), 0);
        weir_http_server_free(server);
        weir_test_end();
}

static atomic_int exact, rough;

static void
answer(weir_task *step, void *context)
{
        (void)context;
        if (weir_series_time_left(weir_series_of(step)) >= WEIR_MSEC(50))
                exact++; /* worth the long way */
        else
                rough++;
}

static void
what_is_left_decides(void)
{
        exact = rough = 0;
        weir_test_begin_virtual();
        for (int i = 0; i < 2; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_set_deadline(series, WEIR_MSEC(100));
                weir_series_push(series, weir_timer_new(i ? WEIR_MSEC(60) : WEIR_MSEC(40), answer, NULL));
                CU_ASSERT_EQUAL(weir_series_run(series), 0);
        }
        CU_ASSERT(exact == 1 && rough == 1);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_flow_is_cancelled_by_reference),
                WEIR_TEST(a_function_that_looks_stops),
                WEIR_TEST(flows_are_cancelled_by_name),
                WEIR_TEST(an_exchange_has_a_deadline),
                WEIR_TEST(what_is_left_decides),
        };

        return weir_test_main("cancel_guide", tests, sizeof tests / sizeof tests[0]);
}
