/* test/timer_until_test.c: timers that end at an instant of the monotonic clock, on the virtual clock. */
#include "test/timer_fixture.h"

static weir_task *
until(weir_nsec instant, struct weir_test_record *record)
{
        return weir_test_recorded(weir_timer_new_until(instant, weir_test_done, record));
}

static weir_task *
until_named(const char *name, weir_nsec instant, struct weir_test_record *record)
{
        return weir_test_recorded(weir_timer_new_until_named(name, instant, weir_test_done, record));
}

static void
it_ends_at_the_instant_whenever_it_is_started(void)
{
        struct weir_test_record early = {0}, late = {0}, in_series = {0};

        weir_test_begin_virtual();
        weir_nsec end = weir_now() + WEIR_SEC(10);
        weir_task *timer = until(end, &late);
        CU_ASSERT_EQUAL(weir_task_start(until(end, &early)), 0);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(WEIR_SEC(4), NULL, NULL));
        weir_series_push(series, until(end, &in_series));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(WEIR_SEC(9));
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        CU_ASSERT_EQUAL(early.calls + late.calls + in_series.calls, 0);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&early, 0);
        WEIR_TEST_CALLED(&late, 0);
        WEIR_TEST_CALLED(&in_series, 0);
        CU_ASSERT(early.at == end && late.at == end && in_series.at == end);
        weir_test_end();
}

static void
instants_that_have_passed_end_at_once_behind_what_was_due(void)
{
        static const weir_nsec passed[] = {INT64_MIN, -1, 0, 1};
        struct weir_test_record records[5] = {0};
        _Atomic unsigned order = 0;

        weir_test_begin_virtual();
        weir_test_pass(WEIR_SEC(1));
        weir_clock_hold();
        weir_nsec now = weir_now();
        for (unsigned i = 0; i < 5; i++) {
                records[i].counter = &order;
                weir_task *timer = i ? until(passed[i - 1], &records[i]) : weir_test_timer(0, &records[i]);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
        weir_clock_release();
        weir_test_pass(0);
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, now);
                CU_ASSERT_EQUAL(records[i].order, i);
        }
        weir_test_end();
}

static void
forever_is_never(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_task *timer = until(WEIR_FOREVER, &record);
        weir_timer_id id = weir_timer_id_of(timer);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        CU_ASSERT_EQUAL(weir_timer_due_id(id), WEIR_FOREVER);
        weir_test_pass(WEIR_TEST_CENTURY);
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ESHUTDOWN);
}

static void
before_the_start_a_reset_and_an_extension_move_the_instant(void)
{
        struct weir_test_record reset = {0}, extended = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_task *one = until_named("reset", began + WEIR_SEC(100), &reset);
        weir_task *other = until_named("extended", began + WEIR_SEC(10), &extended);
        CU_ASSERT_EQUAL(weir_timer_reset("reset", WEIR_SEC(5)), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("extended", -WEIR_SEC(3)), 1);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_test_info("reset").due_in, WEIR_SEC(3));
        CU_ASSERT_EQUAL(weir_test_info("extended").due_in, WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_task_start(one) + weir_task_start(other), 0);
        CU_ASSERT_EQUAL(weir_test_info("extended").due_in, WEIR_SEC(5));
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_EQUAL(reset.at, began + WEIR_SEC(5));
        CU_ASSERT_EQUAL(extended.at, began + WEIR_SEC(7));
        weir_test_end();
}

static void
afterwards_it_is_a_timer_like_others(void)
{
        struct weir_test_record reset = {0}, cancelled = {0}, unstarted = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(until_named("reset", began + WEIR_SEC(10), &reset)), 0);
        CU_ASSERT_EQUAL(weir_task_start(until_named("cancelled", began + WEIR_SEC(10), &cancelled)), 0);
        weir_task_dismiss(until_named("unstarted", began, &unstarted));
        WEIR_TEST_NOT_CALLED(&unstarted);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_timer_reset("reset", WEIR_SEC(1)), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("cancelled", WEIR_ALL), 1);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&reset, 0);
        CU_ASSERT_EQUAL(reset.at, began + WEIR_SEC(2));
        WEIR_TEST_CALLED(&cancelled, -ECANCELED);
        weir_test_end();
}

static void
bad_names_are_refused(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_until_named(NULL, 1, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_until_named("", 1, NULL, NULL)), -EINVAL);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(it_ends_at_the_instant_whenever_it_is_started),
                WEIR_TEST(instants_that_have_passed_end_at_once_behind_what_was_due),
                WEIR_TEST(forever_is_never),
                WEIR_TEST(before_the_start_a_reset_and_an_extension_move_the_instant),
                WEIR_TEST(afterwards_it_is_a_timer_like_others),
                WEIR_TEST(bad_names_are_refused),
        };

        return weir_test_main("timer_until", tests, sizeof tests / sizeof *tests);
}
