/* test/blocking_begin_test.c: weir_blocking_begin and weir_blocking_end, without a watchdog unless a test says so.
 *
 * This file replaces pthread_create, so that it can fail. */
#include "test/blocking_fixture.h"

#define BURST 40

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);

static _Atomic bool has_no_threads;

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
        return has_no_threads ? EAGAIN : __real_pthread_create(thread, attributes, function, argument);
}

/* Runs the function in a callback, and waits for its end. */
static void
call(void (*function)(void *argument), void *argument)
{
        struct weir_test_actor actor = {function, argument};

        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(weir_test_call_actor, &actor)), 0);
}

/* -- handing over -- */

static void
begin_and_stop(weir_task *task, void *context)
{
        CU_ASSERT(!weir_test_has_lost_poller());
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        CU_ASSERT(weir_test_has_lost_poller());
        weir_test_stop_at_gate(task, context);
        weir_blocking_end();
        CU_ASSERT(weir_test_has_lost_poller());
}

static void
start_at_gate(struct weir_test_gate *gate)
{
        weir_test_gate_init(gate);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(0, begin_and_stop, gate))), 0);
        weir_test_latch_wait(&gate->begun);
}

static void
begin_hands_over_at_once(void)
{
        struct weir_test_record timer = {0}, empty = {0};
        struct weir_test_gate gate;

        weir_test_begin_unwatched(0);
        start_at_gate(&gate);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(WEIR_USEC(100), &timer)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_empty(&empty)), 0);
        CU_ASSERT_EQUAL(gate.record.calls, 0);
        weir_test_gate_open(&gate);
        weir_test_end();
        WEIR_TEST_CALLED(&gate.record, 0);
        CU_ASSERT(pthread_equal(gate.record.on, gate.record.freed_on));
        CU_ASSERT(pthread_equal(timer.on, empty.on) && !pthread_equal(timer.on, gate.record.on));
}

static struct weir_test_latch all_begun;

static void
begin_and_wait_for_the_others(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        weir_test_latch_count_down(&all_begun);
        weir_test_latch_wait(&all_begun);
        weir_blocking_end();
        weir_test_done(task, context);
}

static void
each_that_begins_has_its_own_worker(void)
{
        struct weir_test_record records[BURST] = {{0}};

        weir_test_begin_unwatched(BURST);
        weir_test_latch_init(&all_begun, BURST);
        for (unsigned i = 0; i < BURST; i++) {
                weir_task *task = weir_test_recorded(weir_empty_new(begin_and_wait_for_the_others, &records[i]));

                CU_ASSERT_EQUAL(weir_task_start(task), 0);
        }
        weir_test_end();
        for (unsigned i = 0; i < BURST; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
        }
}

#define ALIKE  3
#define OTHERS 50 /* less than a batch */

struct alike {
        struct weir_test_gate gates[ALIKE];
        struct weir_test_record others[OTHERS];
};

static void
begin_if_possible_and_stop(weir_task *task, void *context)
{
        (void)weir_blocking_begin();
        weir_test_stop_at_gate(task, context);
}

static void
start_alike_before_others(void *context)
{
        struct alike *alike = context;

        for (unsigned i = 0; i < ALIKE; i++) {
                weir_task_start(weir_test_recorded(weir_empty_new(begin_if_possible_and_stop, &alike->gates[i])));
        }
        for (unsigned i = 0; i < OTHERS; i++) {
                weir_task_start(weir_test_empty(&alike->others[i]));
        }
}

/* There is one spare only, so the others have to come before the second of those that block. */
static void
work_of_another_function_comes_before_work_of_the_one_that_blocks(void)
{
        static struct alike alike;

        memset(&alike, 0, sizeof alike);
        for (unsigned i = 0; i < ALIKE; i++) {
                weir_test_gate_init(&alike.gates[i]);
        }
        weir_test_begin_unwatched(1);
        weir_test_act(0, start_alike_before_others, &alike);
        for (unsigned i = 0; i < OTHERS; i++) {
                weir_test_wait_freed(&alike.others[i]);
                WEIR_TEST_CALLED(&alike.others[i], 0);
        }
        weir_test_latch_wait(&alike.gates[1].begun);
        CU_ASSERT_EQUAL(weir_test_latch_count(&alike.gates[2].begun), 1);
        for (unsigned i = 0; i < ALIKE; i++) {
                weir_test_gate_open(&alike.gates[i]);
        }
        weir_test_end();
        for (unsigned i = 0; i < ALIKE; i++) {
                WEIR_TEST_CALLED(&alike.gates[i].record, 0);
        }
}

static void
begin_in_parts(weir_series *series, void *context)
{
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        CU_ASSERT(weir_test_has_lost_poller());
        weir_test_series_done(series, context);
}

static void
begin_in_free(void *context)
{
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        CU_ASSERT(weir_test_has_lost_poller());
        weir_test_freed(context);
}

static void
callbacks_and_free_functions_of_series_may_begin_too(void)
{
        struct weir_test_record task = {0}, whole = {0};
        weir_series *series = weir_series_new(begin_in_parts, &whole);

        weir_test_begin_unwatched(0);
        for (unsigned i = 0; i < 2; i++) {
                weir_task *part = weir_empty_new(weir_test_done, &task);

                weir_task_on_free(part, begin_in_free);
                weir_series_push(series, part);
        }
        weir_series_set_context(series, &whole, begin_in_free);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(task.calls, 2);
        CU_ASSERT_EQUAL(task.frees, 2);
        WEIR_TEST_CALLED(&whole, 0);
        weir_test_end();
}

/* -- nesting, and ends -- */

static void
expect_no_waiting(void)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), -EDEADLK);
        CU_ASSERT_EQUAL(weir_series_run(weir_series_new(NULL, NULL)), -EDEADLK);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("nobody", 0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(0), -EDEADLK);
}

static void
expect_waiting(void)
{
        struct weir_test_record timer = {0}, named = {0};
        weir_series *series = weir_series_new(NULL, NULL);
        weir_waitgroup *group = weir_waitgroup_new();

        CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(WEIR_USEC(100), &timer)), 0);
        WEIR_TEST_CALLED(&timer, 0);
        weir_series_push(series, weir_empty_new(NULL, NULL));
        weir_series_push(series, weir_timer_new(0, NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("named", WEIR_TEST_FAR, &named)), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("named", WEIR_ALL), 1);
        WEIR_TEST_CALLED(&named, -ECANCELED);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(0), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_USEC(100)), -ETIMEDOUT);
        weir_waitgroup_done(group);
        weir_waitgroup_free(group);
}

static void
begin_twice(void *unused)
{
        (void)unused;
        expect_no_waiting();
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        expect_waiting();
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        expect_waiting();
        weir_blocking_end();
        expect_waiting();
        weir_blocking_end();
        expect_no_waiting();
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        expect_waiting();
        CU_ASSERT_EQUAL(weir_init(NULL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_shutdown(), -EDEADLK); /* it would wait for this callback */
        CU_ASSERT_EQUAL(weir_clock_advance(1), -EDEADLK);
        CU_ASSERT_EQUAL(weir_clock_run_until(weir_now() + 1), -EDEADLK);
        weir_blocking_end();
}

static void
flows_may_be_waited_for_in_between_and_only_there(void)
{
        weir_test_begin_unwatched(0);
        call(begin_twice, NULL);
        call(begin_twice, NULL);
        weir_test_end();
}

static void
begin_without_end(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
}

static void
note_that_it_has_ended(void *context)
{
        expect_no_waiting();
        weir_test_freed(context);
}

static void
an_open_blocking_region_ends_with_the_callback(void)
{
        struct weir_test_record record = {0};
        struct weir_test_actor actor = {begin_without_end, NULL};

        weir_test_begin_unwatched(1);
        weir_task *task = weir_empty_new(weir_test_call_actor, &actor);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, task);
        weir_series_set_context(series, &record, note_that_it_has_ended);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(record.frees, 1);
        weir_test_await_spares(1);
        for (unsigned i = 0; i < 10; i++) {
                call(begin_without_end, NULL); /* each on one of the two, which have nothing left from before */
                weir_test_await_spares(1);
        }
        weir_test_end();
}

static void
on_other_threads_they_do_nothing(void)
{
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        weir_blocking_end();
        weir_test_begin_unwatched(0);
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        weir_blocking_end();
        weir_blocking_end();
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_test_threads_named("weir/", NULL), 1);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
}

static void
end_only(void *unused)
{
        (void)unused;
        weir_blocking_end();
}

static void
end_twice(void *unused)
{
        (void)unused;
        weir_blocking_begin();
        weir_blocking_end();
        weir_blocking_end();
}

static void
run_end_only(void)
{
        weir_test_begin_unwatched(0);
        call(end_only, NULL);
}

static void
run_end_twice(void)
{
        weir_test_begin_unwatched(0);
        call(end_twice, NULL);
}

static void
run_end_of_another(void)
{
        weir_test_begin_unwatched(1);
        call(begin_without_end, NULL);
        call(end_only, NULL);
}

static void
end_without_begin_aborts(void)
{
        weir_test_aborts(run_end_only, "weir_blocking_end: there was no weir_blocking_begin in this callback");
        weir_test_aborts(run_end_twice, "weir_blocking_end: there was no weir_blocking_begin in this callback");
        weir_test_aborts(run_end_of_another, "weir_blocking_end: there was no weir_blocking_begin in this callback");
}

/* -- no worker to be had -- */

static void
begin_in_vain(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_blocking_begin(), -EAGAIN);
        CU_ASSERT(!weir_test_has_lost_poller());
        expect_no_waiting();
        weir_blocking_end();
}

/* Has it become a spare again? */
static void
begin_until_it_works(void *unused)
{
        int result;

        (void)unused;
        WEIR_TEST_EVENTUALLY((result = weir_blocking_begin(), weir_blocking_end(), result == 0));
        CU_ASSERT(weir_test_has_lost_poller());
}

static void
begin_reports_eagain_when_there_are_as_many_workers_as_may_be(void)
{
        struct weir_test_gate gates[2];

        weir_test_begin_unwatched(2);
        start_at_gate(&gates[0]);
        start_at_gate(&gates[1]);
        call(begin_in_vain, NULL);
        call(begin_in_vain, NULL);
        weir_test_gate_open(&gates[1]);
        call(begin_until_it_works, NULL);
        weir_test_gate_open(&gates[0]);
        weir_test_end();
        WEIR_TEST_CALLED(&gates[0].record, 0);
        WEIR_TEST_CALLED(&gates[1].record, 0);
}

static void
begin_reports_eagain_when_no_thread_can_be_had(void)
{
        weir_test_begin_unwatched(1);
        has_no_threads = true;
        call(begin_in_vain, NULL);
        call(begin_in_vain, NULL); /* and neither counts as a worker */
        has_no_threads = false;
        call(begin_twice, NULL);
        weir_test_end();
}

static void
begin_in_vain_and_once_more(void *context)
{
        struct weir_test_gate *gate = context;

        CU_ASSERT_EQUAL(weir_blocking_begin(), -EAGAIN);
        weir_test_gate_open(gate);
        WEIR_TEST_EVENTUALLY(weir_blocking_begin() == 0);
        CU_ASSERT(weir_test_has_lost_poller());
        expect_waiting();
}

static void
begin_inside_one_that_has_failed_tries_again(void)
{
        struct weir_test_gate gate;

        weir_test_begin_unwatched(1);
        start_at_gate(&gate);
        call(begin_in_vain_and_once_more, &gate);
        weir_test_end();
        WEIR_TEST_CALLED(&gate.record, 0);
}

static void
lose_and_begin(void *unused)
{
        (void)unused;
        weir_test_lose_poller();
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        expect_waiting();
        weir_blocking_end();
        expect_no_waiting();
}

static void
begin_needs_no_worker_when_the_watchdog_has_been_there_before(void)
{
        weir_test_begin_blocking(1);
        call(lose_and_begin, NULL);
        weir_test_end();
}

/* -- the virtual clock -- */

static _Atomic bool looked;

static void
stop_and_look_at_the_clock(weir_task *task, void *context)
{
        weir_nsec began = weir_now();

        begin_and_stop(task, context);
        CU_ASSERT_EQUAL(weir_now(), began);
        looked = true;
}

static void
run_for_two_seconds(void *record)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(WEIR_SEC(2), record)), 0);
}

static void
virtual_time_stands_while_a_callback_blocks(void)
{
        struct weir_test_record record = {0};
        struct weir_test_thread runner;
        struct weir_test_gate gate;

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        looked = false;
        weir_test_gate_init(&gate);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_SEC(1), stop_and_look_at_the_clock, &gate))), 0);
        weir_test_thread_start(&runner, run_for_two_seconds, &record);
        weir_test_latch_wait(&gate.begun);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        for (unsigned i = 0; i < 100; i++) { /* the worker is awake, and could let time go on, each time */
                struct weir_test_record empty = {0};

                CU_ASSERT_EQUAL(weir_task_start(weir_test_empty(&empty)), 0);
                weir_test_wait_freed(&empty);
        }
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&runner);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(2));
        CU_ASSERT(looked);
        CU_ASSERT_EQUAL(weir_test_threads_named("weir/watchdog", NULL), 0);
        weir_test_end();
}

static void
wait_for_virtual_seconds(void *unused)
{
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(NULL, NULL);

        (void)unused;
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_SEC(5), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(5));
        weir_series_push(series, weir_timer_new(WEIR_SEC(3), NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(4), NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(12));
        weir_waitgroup *group = weir_waitgroup_new();
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_SEC(8)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(20));
        weir_waitgroup_done(group);
        weir_waitgroup_free(group);
}

static void
virtual_time_passes_while_a_callback_waits_for_a_flow(void)
{
        weir_test_begin_virtual();
        for (unsigned i = 0; i < 5; i++) {
                weir_nsec began = weir_now();

                call(wait_for_virtual_seconds, NULL);
                CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(20));
                CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_SEC(100), NULL, NULL)), 0);
                CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(120));
        }
        weir_test_end();
}

static void
advance_a_second(void *unused)
{
        (void)unused;
        weir_test_pass(WEIR_SEC(1));
}

static void
advance_of_the_clock_waits_for_a_callback_that_blocks(void)
{
        struct weir_test_record same = {0};
        struct weir_test_thread advancer;
        struct weir_test_gate gate;

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_test_gate_init(&gate);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_MSEC(500), begin_and_stop, &gate))), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_MSEC(500), &same)), 0);
        weir_test_thread_start(&advancer, advance_a_second, NULL);
        weir_test_latch_wait(&gate.begun);
        weir_test_wait_freed(&same);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_MSEC(500));
        weir_test_gate_open(&gate);
        weir_test_thread_join(&advancer);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        WEIR_TEST_CALLED(&gate.record, 0);
        CU_ASSERT_EQUAL(same.at, began + WEIR_MSEC(500));
        weir_test_end();
}

/* -- shutdown -- */

static void
run_into_shutdown(weir_task *task, void *context)
{
        struct weir_test_gate *gate = context;

        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        weir_test_latch_count_down(&gate->begun);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_FOREVER, NULL, NULL)), -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, NULL, NULL)), -ESHUTDOWN);
        weir_test_done(task, context);
}

static void
shutdown_ends_what_a_callback_waits_for_and_waits_for_that(void)
{
        struct weir_test_gate gate;

        for (unsigned i = 0; i < 2; i++) {
                i == 0 ? weir_test_begin_unwatched(0) : weir_test_begin_virtual();
                weir_test_gate_init(&gate);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(0, run_into_shutdown, &gate))), 0);
                if (i == 1) {
                        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, NULL, NULL)), 0); /* so that time passes */
                }
                weir_test_latch_wait(&gate.begun);
                weir_test_end();
                WEIR_TEST_CALLED(&gate.record, 0);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(begin_hands_over_at_once),
                WEIR_TEST(each_that_begins_has_its_own_worker),
                WEIR_TEST(work_of_another_function_comes_before_work_of_the_one_that_blocks),
                WEIR_TEST(callbacks_and_free_functions_of_series_may_begin_too),
                WEIR_TEST(flows_may_be_waited_for_in_between_and_only_there),
                WEIR_TEST(an_open_blocking_region_ends_with_the_callback),
                WEIR_TEST(on_other_threads_they_do_nothing),
                WEIR_TEST(end_without_begin_aborts),
                WEIR_TEST(begin_reports_eagain_when_there_are_as_many_workers_as_may_be),
                WEIR_TEST(begin_reports_eagain_when_no_thread_can_be_had),
                WEIR_TEST(begin_inside_one_that_has_failed_tries_again),
                WEIR_TEST(begin_needs_no_worker_when_the_watchdog_has_been_there_before),
                WEIR_TEST(virtual_time_stands_while_a_callback_blocks),
                WEIR_TEST(virtual_time_passes_while_a_callback_waits_for_a_flow),
                WEIR_TEST(advance_of_the_clock_waits_for_a_callback_that_blocks),
                WEIR_TEST(shutdown_ends_what_a_callback_waits_for_and_waits_for_that),
        };

        return weir_test_main("blocking_begin", tests, sizeof tests / sizeof *tests);
}
