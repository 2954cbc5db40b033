/* test/stats_test.c: weir_stats counts workers and spares, pollers that were handed over, and ready work items. */
#include <errno.h>

#include "test/fixture.h"

static struct weir_stats
stats(void)
{
        struct weir_stats stats = WEIR_STATS_DEFAULT;

        CU_ASSERT_EQUAL(weir_stats(&stats), 0);
        return stats;
}

static void
begin(int pollers, weir_nsec blocking_limit)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = pollers;
        config.blocking_limit = blocking_limit;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

static void
nothing_is_told_of_what_does_not_run(void)
{
        struct weir_stats known = stats();

        CU_ASSERT_EQUAL(known.pollers + known.workers + known.spares + known.functions + known.ready, 0);
        begin(3, WEIR_FOREVER);
        known = stats();
        CU_ASSERT_EQUAL(known.pollers, 3);
        CU_ASSERT_EQUAL(known.workers, 3);
        CU_ASSERT_EQUAL(known.spares, 0);
        weir_test_end();
        CU_ASSERT_EQUAL(stats().pollers, 0);
}

static void
wrong_structs_are_refused(void)
{
        struct weir_stats wrong = {.size = 3};
        struct {
                struct weir_stats known;
                size_t unknown;
        } newer = {{.size = sizeof newer}, 7};
        struct {
                size_t size;
                unsigned pollers;
        } older = {.size = sizeof(size_t) + sizeof(unsigned)};

        CU_ASSERT_EQUAL(weir_stats(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_stats(&wrong), -EINVAL);
        begin(2, WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_stats(&newer.known), 0);
        CU_ASSERT_EQUAL(newer.known.pollers, 2);
        CU_ASSERT_EQUAL(newer.unknown, 0);
        CU_ASSERT_EQUAL(weir_stats((struct weir_stats *)&older), 0);
        CU_ASSERT_EQUAL(older.pollers, 2);
        weir_test_end();
}

static struct weir_test_latch begun, may_end;

static void
block(weir_task *task, void *context)
{
        (void)task;
        if (context) {
                weir_blocking_begin();
        }
        weir_test_latch_count_down(&begun);
        weir_test_latch_wait(&may_end);
        if (context) {
                weir_blocking_end();
        }
}

static void
start_blocker(void *announces)
{
        weir_test_latch_init(&begun, 1);
        weir_test_latch_init(&may_end, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, block, announces)), 0);
        weir_test_latch_wait(&begun);
}

static void
announced_blocking_counts_as_given_away(void)
{
        struct weir_stats before = stats(), now;

        begin(1, WEIR_FOREVER);
        start_blocker(&before);
        now = stats();
        CU_ASSERT_EQUAL(now.given_away, before.given_away + 1);
        CU_ASSERT_EQUAL(now.taken_over, before.taken_over);
        CU_ASSERT_EQUAL(now.workers, 2);
        CU_ASSERT_EQUAL(now.spares, 0);
        weir_test_latch_count_down(&may_end);
        WEIR_TEST_EVENTUALLY(stats().spares == 1);
        CU_ASSERT_EQUAL(stats().workers, 2);
        weir_test_end();
}

/* How many workers there are depends on what else the machine did: to a watchdog of a millisecond any callback is slow. */
static void
blocking_seen_by_the_watchdog_counts_as_taken_over(void)
{
        struct weir_stats before = stats();

        begin(1, WEIR_MSEC(1));
        start_blocker(NULL);
        WEIR_TEST_EVENTUALLY(stats().taken_over > before.taken_over);
        CU_ASSERT(stats().workers >= 2);
        CU_ASSERT_EQUAL(stats().given_away, before.given_away);
        weir_test_latch_count_down(&may_end);
        WEIR_TEST_EVENTUALLY(stats().spares >= 1);
        weir_test_end();
}

static void
work_that_has_run_is_not_ready_any_more(void)
{
        enum { WAITING = 100 };
        struct weir_test_record records[WAITING] = {0};

        begin(1, WEIR_FOREVER);
        start_blocker(NULL);
        for (unsigned i = 0; i < WAITING; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(0, &records[i])), 0);
        }
        weir_test_latch_count_down(&may_end);
        for (unsigned i = 0; i < WAITING; i++) {
                WEIR_TEST_EVENTUALLY(records[i].frees == 1);
        }
        WEIR_TEST_EVENTUALLY(stats().ready == 0);
        weir_test_end();
}

static uint64_t seen;

static void
look(weir_task *task, void *context)
{
        struct weir_test_record *records = context;

        (void)task;
        for (unsigned i = 0; i < 10; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_empty(&records[i])), 0);
        }
        seen = stats().ready;
}

static void
work_that_a_callback_makes_ready_is_counted(void)
{
        struct weir_test_record records[10] = {0};

        begin(1, WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(0, look, records)), 0);
        CU_ASSERT(seen >= 10);
        for (unsigned i = 0; i < 10; i++) {
                WEIR_TEST_EVENTUALLY(records[i].frees == 1);
        }
        WEIR_TEST_EVENTUALLY(stats().ready == 0);
        weir_test_end();
}

static void
nothing(void *context)
{
        (void)context;
}

static void
threads_of_the_executor_are_counted(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.compute_threads = 2;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        CU_ASSERT_EQUAL(stats().functions, 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, nothing, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(stats().functions, 2);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(nothing_is_told_of_what_does_not_run),    WEIR_TEST(wrong_structs_are_refused),
                WEIR_TEST(announced_blocking_counts_as_given_away), WEIR_TEST(blocking_seen_by_the_watchdog_counts_as_taken_over),
                WEIR_TEST(work_that_has_run_is_not_ready_any_more), WEIR_TEST(work_that_a_callback_makes_ready_is_counted),
                WEIR_TEST(threads_of_the_executor_are_counted),
        };

        return weir_test_main("stats", tests, sizeof tests / sizeof *tests);
}
