/* test/reset_ends_test.c: reset at the same time as other ends of the timer: cancel, its series, shutdown.
 *
 * On the virtual clock, which has one worker.  A timer is READY while the callback of another one runs that was due at the same
 * instant and started first. */
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

static void
reset_ready_to(void *argument)
{
        CU_ASSERT_EQUAL(weir_timer_reset("ready", *(weir_nsec *)argument), 1);
}

/* -- reset and cancel -- */

static void
reset_then_cancelled_it_sees_ecanceled(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("both", WEIR_SEC(1), &record)), 0);
        CU_ASSERT_EQUAL(weir_timer_reset("both", FAR), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("both", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("both", FAR), 0);
        WEIR_TEST_EVENTUALLY(record.frees == 1);
        weir_test_pass(2 * FAR);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(record.at, began);
}

static void
reset_and_cancel_ready(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(3)), 2);
        CU_ASSERT_EQUAL(weir_timer_cancel("ready", 1), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("ready", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(3)), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("ready", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_count("ready"), 0);
}

static void
ready_reset_then_cancelled_it_sees_ecanceled_at_once(void)
{
        struct weir_test_record records[2] = {0};

        weir_test_begin_virtual();
        weir_nsec ready_at = weir_test_make_ready(reset_and_cancel_ready, NULL, records, 2);
        weir_test_pass(FAR);
        weir_test_end();
        for (unsigned i = 0; i < 2; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
                CU_ASSERT_EQUAL(records[i].at, ready_at);
        }
}

/* A reset that was counted holds until the new time, and so does a cancel between the two. */
static void
ready_reset_then_cancelled_while_it_is_pending_again_it_sees_ecanceled(void)
{
        struct weir_test_record record = {0};
        static weir_nsec after = WEIR_SEC(5);

        weir_test_begin_virtual();
        weir_nsec ready_at = weir_test_make_ready(reset_ready_to, &after, &record, 1);
        weir_test_pass(WEIR_SEC(3));
        CU_ASSERT_EQUAL(weir_test_info("ready").state, WEIR_TIMER_PENDING);
        CU_ASSERT_EQUAL(weir_timer_cancel("ready", WEIR_ALL), 1);
        WEIR_TEST_EVENTUALLY(record.frees == 1);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(record.at, ready_at + WEIR_SEC(2));
}

/* -- reset in a series -- */

/* A series with a timer called "in series", which is started; `record` is the timer's, `end` the series'. */
static weir_series *
start_series(weir_nsec after, struct weir_test_record *record, struct weir_test_record *end)
{
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, end));

        CU_ASSERT_EQUAL(weir_series_push(series, weir_test_named("in series", after, record)), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static void
reset_in_a_series_the_next_task_waits_for_the_new_time(void)
{
        struct weir_test_record record = {0}, next = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = start_series(WEIR_SEC(1), &record, &end);
        weir_series_push(series, weir_test_named("in series", WEIR_SEC(5), &next));
        CU_ASSERT_EQUAL(weir_timer_reset("in series", WEIR_SEC(20)), 2); /* the next one is not started yet */
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&record, 0);
        WEIR_TEST_CALLED(&next, 0);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(20));
        CU_ASSERT_EQUAL(next.at, began + WEIR_SEC(40));
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, 0);
        weir_series_unref(series);
        weir_test_end();
}

static void
reset_then_its_series_cancelled_it_sees_ecanceled(void)
{
        struct weir_test_record record = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = start_series(WEIR_SEC(1), &record, &end);
        CU_ASSERT_EQUAL(weir_timer_reset("in series", FAR), 1);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_timer_reset("in series", FAR), 0);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(record.at, began);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
}

static void
reset_and_cancel_series(void *series)
{
        CU_ASSERT_EQUAL(weir_test_info("in series").state, WEIR_TIMER_READY);
        CU_ASSERT_EQUAL(weir_timer_reset("in series", WEIR_SEC(3)), 1);
        weir_series_cancel(series);
}

static void
cancel_series_and_reset(void *series)
{
        CU_ASSERT_EQUAL(weir_test_info("in series").state, WEIR_TIMER_READY);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_timer_reset("in series", WEIR_SEC(3)), 0);
}

/* `act` is called with a series whose timer is ready. */
static void
check_ready_in_series(void (*act)(void *argument))
{
        struct weir_test_record record = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_test_act(WEIR_SEC(1), act, series);
        weir_series_push(series, weir_test_named("in series", WEIR_SEC(1), &record));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
}

static void
ready_reset_then_its_series_cancelled_it_sees_ecanceled_at_once(void)
{
        check_ready_in_series(reset_and_cancel_series);
}

static void
ready_and_its_series_cancelled_it_cannot_be_reset(void)
{
        check_ready_in_series(cancel_series_and_reset);
}

static void
reset_in_a_parallel_puts_its_end_off(void)
{
        struct weir_test_record records[3] = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &end));
        for (unsigned i = 0; i < 3; i++) {
                weir_parallel_add(parallel, weir_test_named("child", WEIR_SEC(1 + i), &records[i]));
        }
        CU_ASSERT_EQUAL(weir_task_start(parallel), 0);
        weir_test_pass(WEIR_MSEC(1500));
        CU_ASSERT_EQUAL(weir_timer_reset("child", WEIR_SEC(10)), 2);
        weir_test_pass(FAR);
        weir_test_end();
        CU_ASSERT_EQUAL(records[0].at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(records[1].at, began + WEIR_MSEC(11500));
        CU_ASSERT_EQUAL(records[2].at, began + WEIR_MSEC(11500));
        WEIR_TEST_CALLED(&end, 0);
        CU_ASSERT_EQUAL(end.at, began + WEIR_MSEC(11500));
}

/* -- reset and shutdown -- */

static void
reset_then_shut_down_it_sees_eshutdown_at_once(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ended", WEIR_SEC(1), &record)), 0);
        CU_ASSERT_EQUAL(weir_timer_reset("ended", FAR), 1);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ESHUTDOWN);
        CU_ASSERT_EQUAL(record.at, began);
        CU_ASSERT_EQUAL(weir_timer_reset("ended", FAR), 0);
}

static size_t reset_after_all; /* only the worker's */

static void
reset_what_shutdown_ends(weir_task *task, void *context)
{
        reset_after_all += weir_timer_reset("ended", FAR) + weir_timer_extend("ended", FAR);
        weir_test_done(task, context);
}

/* Each callback that shutdown causes meets the ones behind it, either READY or, as there are so many, not even that. */
static void
ended_by_shutdown_it_cannot_be_reset(void)
{
        enum { COUNT = 600 };
        static struct weir_test_record records[COUNT];

        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        reset_after_all = 0;
        for (unsigned i = 0; i < COUNT; i++) {
                weir_task *timer = weir_timer_new_named("ended", FAR, reset_what_shutdown_ends, &records[i]);

                CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(timer)), 0);
        }
        weir_test_end();
        CU_ASSERT_EQUAL(reset_after_all, 0);
        for (unsigned i = 0; i < COUNT; i++) {
                WEIR_TEST_CALLED(&records[i], -ESHUTDOWN);
        }
}

/* The worker is held.  What it then meets is, in this order: the actor, shutdown, the timer that has expired meanwhile. */
static void
ready_reset_then_shut_down_before_it_begins_it_sees_eshutdown(void)
{
        struct weir_test_record record = {0};
        struct weir_test_thread thread;
        struct weir_test_gate gate;
        static weir_nsec after = WEIR_SEC(5);

        weir_test_begin_virtual();
        weir_test_gate_hold(&gate, NULL);
        struct weir_test_actor actor = {reset_ready_to, &after};
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(weir_test_call_actor, &actor)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ready", 0, &record)), 0);
        weir_test_shutdown_begin_behind_gate(&thread);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        WEIR_TEST_CALLED(&record, -ESHUTDOWN);
}

static void
find_it_cannot_be_reset(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(5)), 0);
}

/* As above, but the actor comes after the shutdown: a timer that is ready keeps its status, and cannot be reset any more. */
static void
ready_when_shutdown_has_begun_it_cannot_be_reset_and_sees_0(void)
{
        struct weir_test_record record = {0};
        struct weir_test_thread thread;
        struct weir_test_gate gate;

        weir_test_begin_virtual();
        weir_test_gate_hold(&gate, NULL);
        weir_test_act(0, find_it_cannot_be_reset, NULL);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ready", 0, &record)), 0);
        weir_test_shutdown_begin_behind_gate(&thread);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        WEIR_TEST_CALLED(&record, 0);
}

static void
unstarted_timer_is_reset_while_nothing_runs_and_started_in_the_next_runtime(void)
{
        struct weir_test_record refused = {0}, kept = {0};

        weir_test_begin_virtual();
        weir_task *timers[] = {weir_test_named("between", FAR, &refused), weir_test_named("between", FAR, &kept)};
        weir_test_end();
        CU_ASSERT_EQUAL(weir_timer_reset("between", WEIR_SEC(3)), 2);
        CU_ASSERT_EQUAL(weir_timer_extend("between", WEIR_SEC(1)), 2);
        CU_ASSERT_EQUAL(weir_task_start(timers[0]), -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&refused);
        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(timers[1]), 0);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&kept, 0);
        CU_ASSERT_EQUAL(kept.at, began + WEIR_SEC(4));
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(reset_then_cancelled_it_sees_ecanceled),
                WEIR_TEST(ready_reset_then_cancelled_it_sees_ecanceled_at_once),
                WEIR_TEST(ready_reset_then_cancelled_while_it_is_pending_again_it_sees_ecanceled),
                WEIR_TEST(reset_in_a_series_the_next_task_waits_for_the_new_time),
                WEIR_TEST(reset_then_its_series_cancelled_it_sees_ecanceled),
                WEIR_TEST(ready_reset_then_its_series_cancelled_it_sees_ecanceled_at_once),
                WEIR_TEST(ready_and_its_series_cancelled_it_cannot_be_reset),
                WEIR_TEST(reset_in_a_parallel_puts_its_end_off),
                WEIR_TEST(reset_then_shut_down_it_sees_eshutdown_at_once),
                WEIR_TEST(ended_by_shutdown_it_cannot_be_reset),
                WEIR_TEST(ready_reset_then_shut_down_before_it_begins_it_sees_eshutdown),
                WEIR_TEST(ready_when_shutdown_has_begun_it_cannot_be_reset_and_sees_0),
                WEIR_TEST(unstarted_timer_is_reset_while_nothing_runs_and_started_in_the_next_runtime),
        };

        return weir_test_main("reset ends", tests, sizeof tests / sizeof *tests);
}
