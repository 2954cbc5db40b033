/* test/fiber_beside_test.c: functions of the program that the library calls on the stack of a fiber are no fiber. */
#include "test/fiber_fixture.h"

static unsigned calls;

/* What each of them does. */
static void
wait_in_vain(void)
{
        calls++;
        CU_ASSERT(!weir_fiber_is_running());
        CU_ASSERT_PTR_NULL(weir_fiber_series());
        CU_ASSERT_EQUAL(weir_fiber_yield(), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), -EDEADLK);
        CU_ASSERT_EQUAL(weir_await(weir_empty_new(NULL, NULL)), -EDEADLK);
}

static void
wait_in_free(void *context)
{
        (void)context;
        wait_in_vain();
}

/* That many have been called, and the fiber is one again. */
static void
expect_calls(unsigned expected)
{
        CU_ASSERT_EQUAL(calls, expected);
        CU_ASSERT(weir_fiber_is_running());
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        calls = 0;
}

/* -- timers -- */

static int
wait_in_visit(const struct weir_timer_info *timer, void *context)
{
        (void)timer;
        (void)context;
        wait_in_vain();
        return 0;
}

static void
wait_in_with(void *context, void *argument)
{
        (void)context;
        (void)argument;
        wait_in_vain();
}

static void
visitors(void)
{
        weir_group *group = weir_group_open();

        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new_named("beside/1", WEIR_SEC(1), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new_named("beside/2", WEIR_SEC(1), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_timer_list("beside/", wait_in_visit, NULL), 2);
        expect_calls(2);
        CU_ASSERT_EQUAL(weir_timer_with("beside/1", wait_in_with, NULL), 1);
        expect_calls(1);
        weir_group_cancel(group);
        CU_ASSERT_EQUAL(weir_group_close(group), -ECANCELED);
}

/* -- free functions -- */

static void
set_a_result(weir_task *task, void *context)
{
        int first, second;

        (void)context;
        CU_ASSERT_EQUAL(weir_node_set_result(weir_graph_node_of(task), &first, wait_in_free), 0);
        CU_ASSERT_EQUAL(weir_node_set_result(weir_graph_node_of(task), &second, NULL), 0);
}

static void
free_functions(void)
{
        weir_task *task = weir_empty_new(NULL, NULL);

        weir_task_on_free(task, wait_in_free);
        weir_task_dismiss(task);
        weir_task_set_context(NULL, &calls, wait_in_free);
        expect_calls(2);
        weir_series_set_context(NULL, &calls, wait_in_free);
        expect_calls(1);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_set_context(series, &calls, wait_in_free);
        weir_series_set_context(series, NULL, NULL);
        expect_calls(1);
        weir_series_dismiss(series);
        CU_ASSERT_EQUAL(weir_node_set_result(NULL, &calls, wait_in_free), -EINVAL);
        expect_calls(1);
        weir_task *graph = weir_graph_new(NULL, NULL);
        CU_ASSERT_PTR_NOT_NULL(weir_graph_add(graph, weir_empty_new(set_a_result, NULL), NULL));
        CU_ASSERT_EQUAL(weir_await(graph), 0);
        expect_calls(1);
}

/* -- functions that make, choose, recognise -- */

static weir_task *
wait_in_make(void *context)
{
        (void)context;
        wait_in_vain();
        return weir_empty_new(NULL, NULL);
}

static void
makers(void)
{
        weir_group *group = weir_group_open();

        CU_ASSERT_EQUAL(weir_group_start(group, weir_dynamic_new(wait_in_make, NULL, NULL)), 0);
        CU_ASSERT(weir_fiber_is_running());
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        expect_calls(1);
}

static uint64_t
wait_in_match(const void *message, size_t size, void *context)
{
        (void)message;
        (void)size;
        (void)context;
        wait_in_vain();
        return 7;
}

static void
matches(void)
{
        const struct weir_protocol protocol = {
                .size = sizeof protocol, .delimiter = "\n", .delimiter_size = 1, .match = wait_in_match};
        weir_endpoint *endpoint = weir_endpoint_new("127.0.0.1:1", &protocol);

        CU_ASSERT_PTR_NOT_NULL(endpoint);
        weir_task_dismiss(weir_ask_new(endpoint, "x\n", 2, NULL, NULL));
        expect_calls(1);
        weir_endpoint_unref(endpoint);
}

static void
wait_in_each(const struct weir_cookie *cookie, void *context)
{
        (void)cookie;
        (void)context;
        wait_in_vain();
}

static void
cookies(void)
{
        weir_cookie_jar *jar = weir_cookie_jar_new();
        weir_url *url = weir_url_parse("http://beside.test/", NULL);

        CU_ASSERT_EQUAL(weir_cookie_jar_set(jar, url, "a=1"), 0);
        CU_ASSERT_EQUAL(weir_cookie_jar_each(jar, wait_in_each, NULL), 1);
        expect_calls(1);
        weir_url_free(url);
        weir_cookie_jar_unref(jar);
}

/* -- the log -- */

static void
wait_in_log(enum weir_log_level level, const char *message, void *context)
{
        (void)level;
        (void)message;
        (void)context;
        wait_in_vain();
}

static void
messages(void)
{
        CU_ASSERT_EQUAL(weir_log_set(wait_in_log, NULL), 0);
        weir_task_dismiss(weir_fiber_new(NULL, NULL, NULL));
        CU_ASSERT_EQUAL(weir_log_set(NULL, NULL), 0);
        expect_calls(1);
}

static int
call_all(void *context)
{
        (void)context;
        visitors();
        free_functions();
        makers();
        matches();
        cookies();
        messages();
        return 0;
}

static void
what_the_library_calls_meanwhile_is_no_fiber(void)
{
        calls = 0;
        WEIR_TEST_IN_FIBER(call_all);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_the_library_calls_meanwhile_is_no_fiber),
        };

        return weir_test_main("fiber_beside", tests, sizeof tests / sizeof *tests);
}
