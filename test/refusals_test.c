/* test/refusals_test.c: each call that refuses an argument with -EINVAL says in the log what it expected.
 *
 * A NULL object, task or series is no such argument: it comes from a call that has failed before. */
#include "test/fixture.h"

#include <errno.h>

static char said[1024];
static unsigned lines;

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(level, WEIR_LOG_ERROR);
        snprintf(said, sizeof said, "%s", message);
        lines++;
}

static void
begin(void)
{
        weir_test_begin_virtual();
        weir_log_set(hear, NULL);
}

static void
end(void)
{
        weir_test_end();
}

/* Since the last call there was one line, with that text in it. */
static void
check_said(const char *expected, int line)
{
        bool is_right = lines == 1 && strstr(said, expected);

        CU_ASSERT(is_right);
        if (!is_right)
                fprintf(stderr, "line %d: expected \"%s\", got %u lines, the last \"%s\"\n", line, expected, lines, said);
        lines = 0;
        said[0] = '\0';
}

#define SAYS(call, expected)                      \
        do {                                      \
                CU_ASSERT_EQUAL((call), -EINVAL); \
                check_said(expected, __LINE__);   \
        } while (0)

#define START_SAYS(task, expected) SAYS(weir_task_start(task), expected)

/* NULL with errno. */
#define NULL_SAYS(call, expected)               \
        do {                                    \
                errno = 0;                      \
                CU_ASSERT_PTR_NULL(call);       \
                CU_ASSERT_EQUAL(errno, EINVAL); \
                check_said(expected, __LINE__); \
        } while (0)

static weir_task *
no_task(void *context)
{
        (void)context;
        return NULL;
}

static weir_task *
with_retry(struct weir_retry_config config)
{
        return weir_retry_new(&config, no_task, NULL, NULL);
}

/* A line comes once a second for each place: so each place is asked once in the process. */
static void
timers_and_tickers_say_what_they_expect(void)
{
        begin();
        START_SAYS(weir_timer_new_named("", 1, NULL, NULL), "a timer without a name: expected a name of 1 to ");
        START_SAYS(weir_ticker_new(0, WEIR_TICK_SKIP, NULL, NULL), "a ticker with a period of 0: expected 1 or more");
        START_SAYS(weir_ticker_new(1, (enum weir_tick_policy)9, NULL, NULL), "a ticker with the policy 9: expected");
        START_SAYS(weir_ticker_new_at("61 * * * *", NULL, NULL, NULL),
                   "a ticker with the schedule \"61 * * * *\": at 0: expected");
        START_SAYS(weir_ticker_new_at("* * * * *", "../etc/passwd", NULL, NULL), "a ticker with the zone \"../etc/passwd\": ");
        weir_task *timer = weir_timer_new(1, NULL, NULL), *ticker = weir_ticker_new(WEIR_SEC(1), WEIR_TICK_SKIP, NULL, NULL);
        SAYS(weir_timer_set_slack(timer, -1), "weir_timer_set_slack: expected 0 or more");
        SAYS(weir_ticker_stop(ticker), "weir_ticker_stop: expected a ticker whose tick runs");
        CU_ASSERT_EQUAL(weir_task_start(ticker), 0);
        SAYS(weir_ticker_set_limit(ticker, 1), "before it is started or pushed");
        SAYS(weir_timer_with("name", NULL, NULL), "weir_timer_with: the function is NULL");
        SAYS(weir_timer_list(NULL, NULL, NULL), "weir_timer_list: expected a prefix");
        SAYS(weir_lateness(0, NULL), "weir_lateness: the struct is NULL");
        struct weir_lateness lateness = {.size = sizeof lateness};
        SAYS(weir_lateness(99, &lateness), "weir_lateness: poller 99: expected");
        SAYS(weir_clock_advance(-1), "weir_clock_advance: -1: expected 0 or more");
        SAYS(weir_clock_run_until(-1), "weir_clock_run_until: -1: expected an instant");
        SAYS(weir_clock_set_wall(-1), "weir_clock_set_wall: -1: expected 0 or more");
        weir_task_dismiss(timer);
        end();
}

static void
flows_say_what_they_expect(void)
{
        struct weir_retry_config wrong = WEIR_RETRY_CONFIG_DEFAULT;

        begin();
        weir_task *graph = weir_graph_new(NULL, NULL), *other = weir_graph_new(NULL, NULL);
        weir_node *a = weir_graph_add(graph, weir_empty_new(NULL, NULL), "a"), *b = weir_graph_add(other, no_task(NULL), "b");
        SAYS(weir_graph_precede(a, a), "weir_graph_precede: expected two nodes of one graph");
        SAYS(weir_graph_precede_if(a, b, NULL, NULL), "weir_graph_precede_if: the condition is NULL");
        SAYS(weir_node_set_policy(a, (enum weir_node_policy)9), "weir_node_set_policy: 9: expected");
        SAYS(weir_graph_dot(graph, NULL), "weir_graph_dot: the file is NULL");
        weir_task_dismiss(graph);
        weir_task_dismiss(other);
        START_SAYS(weir_repeater_new(NULL, NULL, NULL), "a repeater without a function: expected one that makes tasks");
        START_SAYS(weir_retry_new(NULL, NULL, NULL, NULL), "weir_retry_new: the function is NULL");
        wrong.factor = 99;
        START_SAYS(with_retry(wrong), "weir_retry_new: factor: expected 100 or more, or 0");
        weir_series *series = weir_series_new(NULL, NULL);
        SAYS(weir_series_fail(series, 0), "weir_series_fail: the status 0: expected a negative errno");
        SAYS(weir_series_set_name(series, ""), "a series without a name: expected a name of 1 to ");
        weir_series_dismiss(series);
        weir_task *promise = weir_promise_new(NULL, NULL, NULL);
        SAYS(weir_promise_end(promise, 1), "weir_promise_end: the status 1: expected 0 or a negative errno");
        SAYS(weir_promise_set_label(promise, NULL), "weir_promise_set_label: the label is NULL");
        weir_task_dismiss(promise);
        START_SAYS(weir_go_new(NULL, NULL, NULL, NULL), "weir_go_new: the function is NULL");
        SAYS(weir_go_queue_stats(NULL, NULL), "weir_go_queue_stats: the struct is NULL");
        end();
}

static void
objects_say_what_they_expect(void)
{
        begin();
        NULL_SAYS(weir_channel_open("", 1, NULL), "channel without a name: expected a name of 1 to ");
        NULL_SAYS(weir_barrier_new(0), "a barrier for 0 tasks: expected 1 or more");
        NULL_SAYS(weir_rate_new(0, 1, 1), "a rate of 0 tokens in 1 ns, 1 at once: expected 1 or more of each");
        NULL_SAYS(weir_rate_new(1, WEIR_SEC(1), UINT64_MAX), "at once: expected 4611686018 or less for this rate");
        NULL_SAYS(weir_topic_subscribe("t", 0), "weir_topic_subscribe: room 0: expected 1 to 65536");
        SAYS(weir_topic_publish("t", NULL, 1), "weir_topic_publish: NULL with a size of 1");
        weir_rate *rate = weir_rate_new(1, 1, 5);
        SAYS(weir_rate_try_take(rate, 6), "6 tokens of a rate: expected 5 at most");
        weir_semaphore *semaphore = weir_semaphore_new(2);
        START_SAYS(weir_semaphore_acquire_new(semaphore, 3, NULL, NULL), "3 tokens of a semaphore: expected 2 at most");
        weir_pool *pool = weir_pool_new(NULL);
        SAYS(weir_pool_put(pool, NULL), "weir_pool_put: the object is NULL");
        weir_series *series = weir_series_new(NULL, NULL);
        SAYS(weir_guard_release_named("", series), "guard without a name");
        START_SAYS(weir_select_new(NULL, NULL), "a select without a case that can happen");
        START_SAYS(weir_signal_new(SIGKILL, NULL, NULL), "weir_signal_new: the signal 9: expected one that can be caught");
        SAYS(weir_debug_dump_on(-1, 2), "weir_debug_dump_on: the signal -1: expected one that can be caught, or 0");
        SAYS(weir_stats(NULL), "weir_stats: the struct is NULL");
        SAYS(weir_trace_start(NULL), "weir_trace_start: the path is NULL");
        weir_series_dismiss(series);
        weir_rate_unref(rate);
        weir_semaphore_unref(semaphore);
        weir_pool_unref(pool);
        end();
}

static void
fail_with_17(void *context)
{
        (void)context;
        weir_go_fail(17);
}

static void
configurations_and_functions_say_what_they_expect(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        weir_log_set(hear, NULL);
        config.pollers = -1;
        SAYS(weir_init(&config), "weir_init: pollers: expected 0 to 64");
        config.pollers = 0;
        config.fiber_stack_size = 16383; /* of one place, one message in a while is logged */
        CU_ASSERT_EQUAL(weir_init(&config), -EINVAL);
        config.fiber_stack_size = (16 << 20) + 1;
        CU_ASSERT_EQUAL(weir_init(&config), -EINVAL);
        begin();
        SAYS(weir_task_run(weir_go_new(NULL, fail_with_17, NULL, NULL)),
             "weir_go_fail: the status 17: expected 0 or a negative errno");
        end();
}

static void
answer(weir_task *exchange, void *context)
{
        (void)exchange;
        (void)context;
}

static void
servers_say_what_they_expect(void)
{
        begin();
        weir_http_server *server = weir_http_server_new(NULL, answer, NULL);
        SAYS(weir_http_server_set_error(server, 399, "text/html", "", 0), "expected a status of 400 to 599, and was given 399");
        SAYS(weir_http_server_set_error(server, 400, NULL, "", 0), "expected a type");
        SAYS(weir_http_server_set_error(server, 400, "a\r\nb", "", 0), "the type has control characters");
        SAYS(weir_http_server_set_coalescing(server, -1), "expected a window of 0 to 100000000 ns, and was given -1");
        SAYS(weir_http_server_add_certificate(server, NULL, "key.pem"), "expected a certificate and its key");
        weir_http_server_free(server);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(timers_and_tickers_say_what_they_expect),
                WEIR_TEST(flows_say_what_they_expect),
                WEIR_TEST(objects_say_what_they_expect),
                WEIR_TEST(configurations_and_functions_say_what_they_expect),
                WEIR_TEST(servers_say_what_they_expect),
        };

        return weir_test_main("refusals", tests, sizeof tests / sizeof *tests);
}
