/* test/fiber_flow_test.c: fibers as parts of flows, and the rest of a callback as a fiber. */
#include "test/fiber_fixture.h"

#define FAR WEIR_SEC(100000)

static struct weir_test_record records[8];
static char order[64];
static _Atomic int last; /* what the last await of `wait_long` has returned */

static void
say(char letter)
{
        size_t used = strlen(order);

        order[used] = letter;
        order[used + 1] = '\0';
}

static void
begin(void)
{
        memset(records, 0, sizeof records);
        memset(order, 0, sizeof order);
        last = 1;
        weir_test_begin_virtual();
}

/* Its first letter before a second, its second one behind it. */
static int
speak(void *context)
{
        const char *letters = context;

        say(letters[0]);
        int status = weir_fiber_sleep(WEIR_SEC(1));
        say(status ? '!' : letters[1]);
        return status;
}

static int
wait_long(void *context)
{
        struct weir_test_record *inner = context;

        last = inner ? weir_await(weir_test_timer(FAR, inner)) : weir_fiber_sleep(FAR);
        return last;
}

static int
fail(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        return -EIO;
}

/* -- in each container -- */

static void
in_a_series(void)
{
        begin();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_fiber_new(speak, NULL, "ab"));
        weir_series_push(series, weir_fiber_new(speak, NULL, "cd"));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(series, weir_fiber_new(speak, NULL, "ef"));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_STRING_EQUAL(order, "abcdef");
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(4));

        series = weir_series_new(NULL, NULL);
        weir_series_stop_on_failure(series);
        weir_series_push(series, weir_fiber_new(fail, NULL, NULL));
        weir_series_push(series, weir_test_recorded(weir_fiber_new(speak, weir_test_done, &records[0])));
        CU_ASSERT_EQUAL(weir_series_run(series), -EIO);
        WEIR_TEST_NOT_CALLED(&records[0]);
        weir_test_end();
}

static void
in_a_parallel(void)
{
        begin();
        weir_nsec began = weir_now();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_fiber_new(speak, NULL, "ad"));
        weir_parallel_add(parallel, weir_fiber_new(speak, NULL, "be"));
        weir_parallel_add(parallel, weir_fiber_new(speak, NULL, "cf"));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_STRING_EQUAL(order, "abcdef");
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));

        parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_stop_on_failure(parallel);
        weir_parallel_add(parallel, weir_fiber_new(wait_long, NULL, &records[0]));
        weir_parallel_add(parallel, weir_fiber_new(fail, NULL, NULL));
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EIO);
        CU_ASSERT_EQUAL(last, -ECANCELED);
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        weir_test_end();
}

static void
in_a_race(void)
{
        begin();
        weir_nsec began = weir_now();
        weir_task *race = weir_race_new(NULL, NULL);
        weir_race_add(race, weir_fiber_new(wait_long, NULL, &records[0]));
        weir_race_add(race, weir_fiber_new(speak, NULL, "ab"));
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(last, -ECANCELED);
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        CU_ASSERT_STRING_EQUAL(order, "ab");

        race = weir_race_new(NULL, NULL);
        weir_race_add(race, weir_fiber_new(fail, NULL, NULL));
        weir_race_add(race, weir_timer_new(WEIR_SEC(2), NULL, NULL));
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        weir_test_end();
}

static void
in_a_graph(void)
{
        begin();
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *a = weir_graph_add(graph, weir_fiber_new(speak, NULL, "ad"), "a"),
                  *b = weir_graph_add(graph, weir_fiber_new(speak, NULL, "be"), "b"),
                  *c = weir_graph_add(graph, weir_fiber_new(speak, NULL, "fg"), "c");
        weir_graph_precede(a, c);
        weir_graph_precede(b, c);
        CU_ASSERT_EQUAL(weir_task_run(graph), 0);
        CU_ASSERT_STRING_EQUAL(order, "abdefg");

        graph = weir_graph_new(NULL, NULL);
        weir_graph_stop_on_failure(graph);
        weir_graph_precede(weir_graph_add(graph, weir_fiber_new(fail, NULL, NULL), "a"),
                           weir_graph_add(graph, weir_test_recorded(weir_fiber_new(speak, weir_test_done, &records[1])), "b"));
        weir_graph_add(graph, weir_fiber_new(wait_long, NULL, &records[0]), "c");
        CU_ASSERT_EQUAL(weir_task_run(graph), -EIO);
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        WEIR_TEST_NOT_CALLED(&records[1]);
        weir_test_end();
}

static int attempts;

static int
work_the_third_time(void *context)
{
        (void)context;
        int status = weir_fiber_sleep(WEIR_SEC(1));

        return ++attempts < 3 ? -EIO : status;
}

static weir_task *
make_working(void *context)
{
        return weir_fiber_new(work_the_third_time, NULL, context);
}

static weir_task *
make_long(void *context)
{
        return weir_fiber_new(wait_long, NULL, context);
}

static weir_task *
make_three(void *context)
{
        return ++attempts > 3 ? NULL : weir_fiber_new(speak, NULL, context);
}

static void
in_what_makes_tasks(void)
{
        const struct weir_retry_config config = {.size = sizeof config, .attempts = 5},
                                       limited = {.size = sizeof limited, .attempts = 2, .attempt_limit = WEIR_SEC(1)};

        begin();
        attempts = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config, make_working, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(attempts, 3);
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&limited, make_long, NULL, NULL)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(last, -ETIMEDOUT);
        attempts = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(make_three, NULL, "ab")), 0);
        CU_ASSERT_STRING_EQUAL(order, "ababab");
        attempts = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_dynamic_new(make_three, NULL, "cd")), 0);
        CU_ASSERT_STRING_EQUAL(order, "abababcd");
        weir_test_end();
}

static void
in_a_module_or_a_timeout_or_behind_a_semaphore(void)
{
        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_fiber_new(speak, NULL, "ab"));
        weir_series_push(series, weir_fiber_new(speak, NULL, "cd"));
        CU_ASSERT_EQUAL(weir_task_run(weir_module_new(series, NULL, NULL)), 0);
        CU_ASSERT_STRING_EQUAL(order, "abcd");

        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_fiber_new(wait_long, NULL, &records[0]), WEIR_SEC(2))), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(2));
        CU_ASSERT_EQUAL(last, -ETIMEDOUT);
        WEIR_TEST_CALLED(&records[0], -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_fiber_new(speak, NULL, "ef"), WEIR_SEC(2))), 0);

        weir_semaphore *semaphore = weir_semaphore_new(1);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_limited_new(semaphore, 1, weir_fiber_new(speak, NULL, "gh"), NULL, NULL));
        weir_parallel_add(parallel, weir_limited_new(semaphore, 1, weir_fiber_new(speak, NULL, "ij"), NULL, NULL));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_STRING_EQUAL(order, "abcdefghij");
        weir_semaphore_unref(semaphore);

        weir_condition *condition = weir_condition_new();
        CU_ASSERT_EQUAL(weir_task_start(weir_conditional_new(condition, weir_fiber_new(speak, NULL, "kl"), NULL, NULL)), 0);
        weir_test_pass(WEIR_SEC(1));
        weir_condition_signal(condition);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(order, "abcdefghijkl");
        weir_condition_unref(condition);
        weir_test_end();
}

/* -- the series of a fiber, its callback -- */

static void
push_behind(weir_task *task, void *context)
{
        weir_series *series = weir_series_of(task);

        CU_ASSERT_EQUAL(weir_series_push(series, weir_fiber_new(speak, NULL, context)), 0);
}

static int
look_at_its_deadline(void *context)
{
        weir_series *series = weir_fiber_series();

        CU_ASSERT_PTR_EQUAL(weir_series_parent(series), context);
        CU_ASSERT_EQUAL(weir_series_time_left(series), context ? WEIR_SEC(5) : WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(3)), 0);
        CU_ASSERT_EQUAL(weir_series_time_left(series), WEIR_SEC(3));
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_PTR_EQUAL(weir_fiber_series(), series);
        return 0;
}

static void
a_fiber_has_a_series_within_its_series(void)
{
        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_set_deadline(series, WEIR_SEC(5));
        weir_series_push(series, weir_fiber_new(look_at_its_deadline, NULL, series));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(look_at_its_deadline, NULL, NULL)), 0);
        weir_test_pass(0);

        /* A lone fiber, whose callback goes on. */
        CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(speak, push_behind, "ab")), 0);
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_STRING_EQUAL(order, "abab");
        weir_test_end();
}

/* -- weir_fiber_begin -- */

static void
go_on_as_a_fiber(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), weir_fiber_new(speak, NULL, "ef")), 0);
        CU_ASSERT_EQUAL(weir_fiber_begin(task, speak, context), 0);
        say('x');
}

static void
begin_twice(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_begin(task, speak, "cd"), 0);
        CU_ASSERT_EQUAL(weir_fiber_begin(task, speak, "ab"), 0);
}

static void
begin_badly(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_begin(task, NULL, NULL), -EINVAL);
}

static void
the_rest_of_a_callback_is_a_fiber(void)
{
        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(1, go_on_as_a_fiber, "ab"));
        weir_series_push(series, weir_fiber_new(speak, NULL, "cd"));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_STRING_EQUAL(order, "xabcdef");

        memset(order, 0, sizeof order);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(begin_twice, NULL)), 0);
        CU_ASSERT_STRING_EQUAL(order, "abcd");
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(go_on_as_a_fiber, "gh")), 0);
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_STRING_EQUAL(order, "abcdxghef");
        weir_task_run(weir_empty_new(begin_badly, NULL));
        weir_test_end();
}

/* -- what is pushed into the series of a fiber -- */

static void
count_call(weir_task *task, void *context)
{
        (void)task;
        ++*(int *)context;
}

static void
post_message(weir_task *timer, void *context)
{
        (void)timer;
        CU_ASSERT_EQUAL(weir_channel_post(context, &post_message), 0);
}

/* Waits at a channel until a message comes. */
static void
wait_at_a_channel(weir_channel *channel)
{
        void *message;

        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_MSEC(1), post_message, channel)), 0);
        CU_ASSERT_EQUAL(weir_fiber_receive(channel, &message), 0);
}

static int
push_behind_waits(void *context)
{
        weir_channel *channel = weir_channel_new(1, NULL);
        int *calls = context;

        wait_at_a_channel(channel);
        CU_ASSERT_EQUAL(weir_series_push(weir_fiber_series(), weir_empty_new(count_call, calls)), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(*calls, 1);
        wait_at_a_channel(channel);
        CU_ASSERT_EQUAL(weir_series_push(weir_fiber_series(), weir_timer_new(WEIR_MSEC(1), count_call, calls)), 0);
        wait_at_a_channel(channel);
        CU_ASSERT_EQUAL(*calls, 2);
        CU_ASSERT_EQUAL(weir_series_push(weir_fiber_series(), weir_timer_new(WEIR_MSEC(1), count_call, calls)), 0);
        weir_channel_unref(channel);
        return 0;
}

/* The wait at a channel stays the current task: it is no next one. */
static void
what_is_pushed_behind_a_wait_runs(void)
{
        int calls = 0;

        CU_ASSERT_EQUAL(weir_test_run_fiber(push_behind_waits, &calls), 0);
        CU_ASSERT_EQUAL(calls, 3);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(in_a_series),
                WEIR_TEST(in_a_parallel),
                WEIR_TEST(in_a_race),
                WEIR_TEST(in_a_graph),
                WEIR_TEST(in_what_makes_tasks),
                WEIR_TEST(in_a_module_or_a_timeout_or_behind_a_semaphore),
                WEIR_TEST(a_fiber_has_a_series_within_its_series),
                WEIR_TEST(the_rest_of_a_callback_is_a_fiber),
                WEIR_TEST(what_is_pushed_behind_a_wait_runs),
        };

        return weir_test_main("fiber_flow", tests, sizeof tests / sizeof *tests);
}
