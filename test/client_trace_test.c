/* test/client_trace_test.c: the stages of requests and connects in traces. */
#include "test/client_fixture.h"
#include "test/trace_fixture.h"

static char path[64];

static void
begin_traced(void)
{
        begin(NULL);
        snprintf(path, sizeof path, "/tmp/weir-client-trace-%d.json", (int)getpid());
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
}

static struct weir_test_trace
end_traced(void)
{
        end();
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        struct weir_test_trace trace = weir_test_trace_read(path);
        weir_test_trace_nests(&trace);
        unlink(path);
        return trace;
}

/* How long the nth stage of that name took; -1: it is not there.  `what` is "GET http://" or nothing. */
static weir_nsec
lasts(const struct weir_test_trace *trace, const char *stage, const char *what, size_t nth)
{
        char name[128];

        snprintf(name, sizeof name, "%s %s127.0.0.1:%d", stage, what, port);
        return weir_test_stage_lasts(trace, name, nth);
}

static void
each_stage_of_a_request_is_in_the_trace(void)
{
        struct seen seen = {.status = 1};

        begin_traced();
        get("/path?secret", &seen);
        (void)accept_request();
        weir_test_pass(WEIR_MSEC(20));
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwo"));
        settle();
        weir_test_pass(WEIR_MSEC(30));
        CU_ASSERT_TRUE(http_peer_send(&peer, "rd"));
        settle();
        SEES(seen, 0, 200, "word");
        struct weir_test_trace trace = end_traced();

        CU_ASSERT_EQUAL(lasts(&trace, "queued", "GET http://", 0), 0);
        CU_ASSERT_EQUAL(lasts(&trace, "connecting", "", 0), 0);
        CU_ASSERT_EQUAL(lasts(&trace, "sending", "GET http://", 0), 0);
        CU_ASSERT_EQUAL(lasts(&trace, "waiting", "GET http://", 0), WEIR_MSEC(20));
        CU_ASSERT_EQUAL(lasts(&trace, "receiving", "GET http://", 0), WEIR_MSEC(30));
        CU_ASSERT_EQUAL(lasts(&trace, "receiving", "GET http://", 1), -1);
        weir_test_trace_free(&trace);
}

/* The stage in which it was ends then. */
static void
a_request_that_is_cancelled_ends_its_stage(void)
{
        struct seen seen = {.status = 1};

        begin_traced();
        weir_series *series = start_in_series(request_new("GET", "/", &seen));
        (void)accept_request();
        weir_test_pass(WEIR_MSEC(40));
        weir_series_cancel(series);
        weir_series_unref(series);
        settle();
        CU_ASSERT_EQUAL(seen.status, -ECANCELED);
        struct weir_test_trace trace = end_traced();

        CU_ASSERT_EQUAL(lasts(&trace, "waiting", "GET http://", 0), WEIR_MSEC(40));
        CU_ASSERT_EQUAL(lasts(&trace, "receiving", "GET http://", 0), -1);
        char name[128];
        snprintf(name, sizeof name, "waiting GET http://127.0.0.1:%d", port);
        struct weir_test_event *stage = weir_test_trace_find(&trace, 'b', name, 0);
        CU_ASSERT(stage && stage->series > 0); /* it is the series' */
        weir_test_trace_free(&trace);
}

static void
a_call_has_stages(void)
{
        begin_traced();
        weir_http_call *call = weir_http_call_new(client, "GET", url_of("/"));
        start(weir_http_call_head_new(call, NULL, NULL));
        (void)accept_request();
        weir_test_pass(WEIR_MSEC(50));
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"));
        settle();
        weir_test_pass(WEIR_MSEC(60));
        weir_http_call_break(call);
        weir_http_call_unref(call);
        settle();
        struct weir_test_trace trace = end_traced();

        CU_ASSERT_EQUAL(lasts(&trace, "waiting", "GET http://", 0), WEIR_MSEC(50));
        CU_ASSERT_EQUAL(lasts(&trace, "receiving", "GET http://", 0), WEIR_MSEC(60));
        weir_test_trace_free(&trace);
}

/* What began before the trace is not in it; from the next stage on it is. */
static void
a_trace_may_begin_in_the_middle(void)
{
        struct seen seen = {.status = 1};

        begin(NULL);
        get("/", &seen);
        (void)accept_request();
        weir_test_pass(WEIR_MSEC(20));
        snprintf(path, sizeof path, "/tmp/weir-client-trace-%d.json", (int)getpid());
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        CU_ASSERT_TRUE(http_peer_send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"));
        settle();
        CU_ASSERT_TRUE(http_peer_send(&peer, "word"));
        settle();
        SEES(seen, 0, 200, "word");
        struct weir_test_trace trace = end_traced();

        CU_ASSERT_EQUAL(lasts(&trace, "waiting", "GET http://", 0), -1);
        CU_ASSERT_EQUAL(lasts(&trace, "receiving", "GET http://", 0), 0);
        weir_test_trace_free(&trace);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_stage_of_a_request_is_in_the_trace),
                WEIR_TEST(a_request_that_is_cancelled_ends_its_stage),
                WEIR_TEST(a_call_has_stages),
                WEIR_TEST(a_trace_may_begin_in_the_middle),
        };

        return weir_test_main("client_trace", tests, sizeof tests / sizeof *tests);
}
