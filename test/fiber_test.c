/* test/fiber_test.c: the life of a fiber, its status, its own waits, what is misuse. */
#include "factory/task/live.h"
#include "factory/task/series.h"
#include "test/fiber_fixture.h"

#include <limits.h>
#include <sys/wait.h>

/* -- misuse aborts with the reason; these fork, so they come first -- */

static int
await_twice(void *context)
{
        weir_task *timer = weir_timer_new_named("session/7", WEIR_SEC(1), NULL, NULL);

        (void)context;
        weir_await(timer);
        return weir_await(timer);
}

static void
run_await_twice(void)
{
        weir_test_run_fiber(await_twice, NULL);
}

static int
await_what_was_started(void *context)
{
        weir_task *timer = weir_timer_new_named("session/7", WEIR_SEC(1), NULL, NULL);

        (void)context;
        weir_task_start(timer);
        return weir_await(timer);
}

static void
run_await_what_was_started(void)
{
        weir_test_run_fiber(await_what_was_started, NULL);
}

static int
start_what_was_awaited(void *context)
{
        weir_task *timer = weir_timer_new_named("session/7", WEIR_SEC(1), NULL, NULL);

        (void)context;
        weir_await(timer);
        return weir_task_start(timer);
}

static void
run_start_what_was_awaited(void)
{
        weir_test_run_fiber(start_what_was_awaited, NULL);
}

static int
start_what_a_group_has(void *context)
{
        weir_task *timer = weir_timer_new_named("session/7", WEIR_SEC(1), NULL, NULL);

        (void)context;
        weir_group_start(weir_group_open(), timer);
        return weir_task_start(timer);
}

static void
run_start_what_a_group_has(void)
{
        weir_test_run_fiber(start_what_a_group_has, NULL);
}

static int
yield_while_blocking(void *context)
{
        (void)context;
        weir_blocking_begin();
        return weir_fiber_yield();
}

static void
run_yield_while_blocking(void)
{
        weir_test_run_fiber_real(1, yield_while_blocking, NULL);
}

static int
await_while_blocking(void *context)
{
        (void)context;
        weir_blocking_begin();
        return weir_await(weir_empty_new(NULL, NULL));
}

static void
run_await_while_blocking(void)
{
        weir_test_run_fiber_real(1, await_while_blocking, NULL);
}

static int
fork_and_return(void *context)
{
        int status = 0;
        pid_t child = fork();

        (void)context;
        if (child == 0) {
                CU_ASSERT_EQUAL(weir_fiber_yield(), -EDEADLK);
                return 0;
        }
        waitpid(child, &status, 0);
        kill(getpid(), WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL);
        return 0;
}

static void
run_return_in_a_child(void)
{
        weir_test_run_fiber_real(1, fork_and_return, NULL);
}

/* No program can bring this about. */
static int
wait_in_an_ended_series(void *task)
{
        weir_series_of(task)->state = WEIR__SERIES_ENDED;
        return weir_fiber_sleep(1);
}

static void
begin_a_fiber_that_is_lost(weir_task *task, void *context)
{
        (void)context;
        weir_fiber_begin(task, wait_in_an_ended_series, task);
}

static void
run_wait_in_an_ended_series(void)
{
        weir_test_begin_virtual();
        weir_task_start(weir_empty_new(begin_a_fiber_that_is_lost, NULL));
        weir_test_pass(1);
}

static void
misuse_aborts_with_the_reason(void)
{
        weir_test_aborts(run_return_in_a_child, "a child of fork() returned from a callback");
        weir_test_aborts(run_wait_in_an_ended_series, "weir_fiber_begin: fiber wait_in_an_ended_series waits, and the series");
        weir_test_aborts(run_await_twice, "weir_await: timer \"session/7\" was already ");
        weir_test_aborts(run_await_what_was_started, "weir_await: timer \"session/7\" was already started (by weir_task_start)");
        weir_test_aborts(run_start_what_was_awaited, "weir_task_start: timer \"session/7\" was already ");
        weir_test_aborts(run_start_what_a_group_has, "weir_task_start: timer \"session/7\" was already ");
        weir_test_aborts(run_yield_while_blocking, "fiber test awaits between weir_blocking_begin and weir_blocking_end");
        weir_test_aborts(run_await_while_blocking, "fiber test awaits between weir_blocking_begin and weir_blocking_end");
}

/* -- its status -- */

static int
give(void *context)
{
        return *(int *)context;
}

static void
the_result_of_the_function_is_the_status(void)
{
        const struct {
                int result, status;
        } cases[] = {{0, 0}, {-EIO, -EIO}, {-ECANCELED, -ECANCELED}, {1, -ERANGE}, {INT_MAX, -ERANGE}, {INT_MIN, INT_MIN}};

        weir_test_begin_virtual();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir_test_record record = {0};
                int result = cases[i].result;
                weir_task *fiber = weir_fiber_new(give, weir_test_done, &record);

                weir_task_dismiss(fiber);
                CU_ASSERT_EQUAL(record.calls, 0);
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(give, NULL, &result)), cases[i].status);
        }
        weir_test_end();
}

static int
fail_after_a_sleep(void *context)
{
        struct weir_test_record *record = context;

        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(record->calls, 0);
        return -EIO;
}

static void
the_callback_sees_the_status_and_on_free_follows(void)
{
        struct weir_test_record records[2] = {{0}};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_fiber_new(fail_after_a_sleep, weir_test_done, &records[0]))), -EIO);
        WEIR_TEST_CALLED(&records[0], -EIO);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_fiber_new(fail_after_a_sleep, weir_test_done, &records[1]))), 0);
        weir_test_pass(1);
        WEIR_TEST_CALLED(&records[1], -EIO);
        weir_test_end();
}

static void
a_fiber_without_a_function_is_refused(void)
{
        struct weir_test_record record = {0};

        weir_log_set(NULL, NULL);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_fiber_new_as(NULL, NULL, weir_test_done, &record))), -EINVAL);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(NULL, NULL, NULL)), -EINVAL);
        weir_series *series = weir_series_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_fiber_new(NULL, NULL, NULL)), -EINVAL);
        weir_series_dismiss(series);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new_as(NULL, give, NULL, &(int){0})), 0); /* no name is none */
        weir_test_end();
}

static void
a_dismissed_fiber_calls_nothing_but_on_free(void)
{
        struct weir_test_record record = {0};

        weir_task_dismiss(weir_test_recorded(weir_fiber_new(give, weir_test_done, &record)));
        WEIR_TEST_NOT_CALLED(&record);
        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL);
        memset(&record, 0, sizeof record);
        weir_series_push(series, weir_test_recorded(weir_fiber_new(give, weir_test_done, &record)));
        weir_series_dismiss(series);
        WEIR_TEST_NOT_CALLED(&record);
        weir_test_end();
}

/* -- its own waits -- */

static int
sleep_a_while(void *context)
{
        weir_nsec began = weir_now();

        (void)context;
        CU_ASSERT(weir_fiber_is_running());
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(5)), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_fiber_sleep(0), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(-1), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(INT64_MIN), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(5) + 1);
        return 0;
}

static void
a_sleep_lasts_as_long_as_it_says(void)
{
        WEIR_TEST_IN_FIBER(sleep_a_while);
}

static struct {
        char text[64];
        unsigned used;
} order;

static int
say(void *context)
{
        for (unsigned i = 0; i < 3; i++) {
                order.text[order.used++] = *(const char *)context;
                CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        }
        return 0;
}

static void
fibers_that_yield_take_turns(void)
{
        weir_test_begin_virtual();
        memset(&order, 0, sizeof order);
        weir_task *both = weir_parallel_new(NULL, NULL);
        weir_parallel_add(both, weir_fiber_new(say, NULL, "a"));
        weir_parallel_add(both, weir_fiber_new(say, NULL, "b"));
        weir_parallel_add(both, weir_fiber_new(say, NULL, "c"));
        CU_ASSERT_EQUAL(weir_task_run(both), 0);
        CU_ASSERT_STRING_EQUAL(order.text, "abcabcabc");
        weir_test_end();
}

/* -- outside of a fiber -- */

static void
nothing_waits_in_a_callback(weir_task *task, void *context)
{
        struct weir_test_record record = {0};
        void *message = &message;

        CU_ASSERT(!weir_fiber_is_running());
        CU_ASSERT_EQUAL(weir_await(weir_test_timer(0, &record)), -EDEADLK);
        WEIR_TEST_NOT_CALLED(&record);
        memset(&record, 0, sizeof record);
        CU_ASSERT_EQUAL(weir_await_within(weir_test_timer(0, &record), WEIR_SEC(1)), -EDEADLK);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_sleep(0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_receive(context, &message), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_send(context, &record), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_acquire(NULL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_release(NULL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_go((weir_go_fn *)weir_test_freed, NULL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), -EDEADLK);
        CU_ASSERT_PTR_NULL(weir_fiber_series());
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_group_open());
        CU_ASSERT_EQUAL(errno, EDEADLK);
        CU_ASSERT_EQUAL(weir_task_status(task), 0);
}

static void
in_a_callback_all_is_refused(void)
{
        weir_test_begin_virtual();
        weir_channel *channel = weir_channel_new(1, NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(nothing_waits_in_a_callback, channel)), 0);
        CU_ASSERT_EQUAL(weir_channel_poll(channel, &(void *){NULL}), -EAGAIN);
        weir_channel_unref(channel);
        weir_test_end();
}

static int
await_one_with_a_callback(void *context)
{
        return weir_await(weir_timer_new(1, nothing_waits_in_a_callback, context));
}

static void
the_callback_of_what_a_fiber_awaits_is_no_fiber(void)
{
        weir_test_begin_virtual();
        weir_channel *channel = weir_channel_new(1, NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(await_one_with_a_callback, nothing_waits_in_a_callback, channel)), 0);
        weir_channel_unref(channel);
        weir_test_end();
}

static _Atomic int free_result;

static void
await_in_a_free_function(void *context)
{
        (void)context;
        atomic_store(&free_result, weir_fiber_yield());
}

static int
dismiss_one(void *context)
{
        weir_task *timer = weir_timer_new(1, NULL, NULL);

        (void)context;
        weir_task_on_free(timer, await_in_a_free_function);
        weir_task_dismiss(timer);
        return 0;
}

static int
await_a_refused_one(void *context)
{
        weir_task *timer = weir_timer_new(1, NULL, NULL);

        (void)context;
        weir_task_on_free(timer, await_in_a_free_function);
        CU_ASSERT_EQUAL(weir_await_within(timer, 0), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        return 0;
}

static int
await_one_with_a_free_function(void *context)
{
        weir_task *timer = weir_timer_new(1, NULL, NULL);

        (void)context;
        weir_task_on_free(timer, await_in_a_free_function);
        CU_ASSERT_EQUAL(weir_await(timer), 0);
        return weir_fiber_yield();
}

static void
a_free_function_is_no_fiber(void)
{
        weir_fiber_fn *const functions[] = {dismiss_one, await_a_refused_one, await_one_with_a_free_function};

        for (unsigned i = 0; i < 3; i++) {
                atomic_store(&free_result, 1);
                WEIR_TEST_IN_FIBER(functions[i]);
                CU_ASSERT_EQUAL(free_result, -EDEADLK);
        }
}

static void
a_thread_of_the_program_awaits_by_running(void)
{
        struct weir_test_record record = {0};
        int result = -EIO;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_await(weir_test_timer(WEIR_SEC(1), &record)), 0);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(weir_await(weir_fiber_new(give, NULL, &result)), -EIO);
        CU_ASSERT_EQUAL(weir_await(NULL), -ENOMEM);
        memset(&record, 0, sizeof record);
        CU_ASSERT_EQUAL(weir_await_within(weir_test_timer(WEIR_SEC(1), &record), WEIR_SEC(2)), -EDEADLK);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_await_within(NULL, WEIR_SEC(2)), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -EDEADLK);
        CU_ASSERT(!weir_fiber_is_running());
        CU_ASSERT_PTR_NULL(weir_fiber_series());
        weir_test_end();
}

static int
wait_as_a_callback_must_not(void *context)
{
        weir_waitgroup *group = weir_waitgroup_new();

        (void)context;
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), -EDEADLK);
        CU_ASSERT_EQUAL(weir_shutdown(), -EDEADLK);
        CU_ASSERT_EQUAL(weir_clock_advance(1), -EDEADLK);
        weir_waitgroup_free(group);
        return 0;
}

static void
a_fiber_does_not_hold_its_worker(void)
{
        WEIR_TEST_IN_FIBER(wait_as_a_callback_must_not);
}

/* -- the registry of roots -- */

static int
sleep_thrice(void *context)
{
        (void)context;
        for (int i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        return 0;
}

/* Since when a root runs is known in units, which begin anew after 417 days: at 0, too, it has one place. */
static void
root_has_one_place_at_any_time(void)
{
        const weir_nsec anew = INT64_C(1) << (32 + WEIR__LIVE_UNIT_SHIFT);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(anew - weir_now(), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir__live_stamp(), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_fiber_new(sleep_thrice, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_MSEC(1), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir__live_count(), 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(misuse_aborts_with_the_reason),
                WEIR_TEST(the_result_of_the_function_is_the_status),
                WEIR_TEST(the_callback_sees_the_status_and_on_free_follows),
                WEIR_TEST(a_fiber_without_a_function_is_refused),
                WEIR_TEST(a_dismissed_fiber_calls_nothing_but_on_free),
                WEIR_TEST(a_sleep_lasts_as_long_as_it_says),
                WEIR_TEST(fibers_that_yield_take_turns),
                WEIR_TEST(in_a_callback_all_is_refused),
                WEIR_TEST(the_callback_of_what_a_fiber_awaits_is_no_fiber),
                WEIR_TEST(a_free_function_is_no_fiber),
                WEIR_TEST(a_thread_of_the_program_awaits_by_running),
                WEIR_TEST(a_fiber_does_not_hold_its_worker),
                WEIR_TEST(root_has_one_place_at_any_time),
        };

        return weir_test_main("fiber", tests, sizeof tests / sizeof *tests);
}
