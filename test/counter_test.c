/* test/counter_test.c: tasks that wait for a count, with and without names. */
#include "test/fixture.h"

#include <errno.h>

static char seen[512];

static void
begin(void)
{
        seen[0] = '\0';
        weir_test_begin_virtual();
}

static void
ended(weir_task *task, void *name)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s:%d", size ? " " : "", (const char *)name, weir_task_status(task));
}

static void
all_who_wait_go_on_in_order_when_the_target_is_come_to(void)
{
        weir_counter *counter = weir_counter_new(3);

        begin();
        weir_task_start(weir_counter_wait_new(counter, ended, "a"));
        weir_task_start(weir_counter_wait_new(counter, ended, "b"));
        CU_ASSERT_EQUAL(weir_counter_count(counter, 2), 2);
        CU_ASSERT_EQUAL(weir_counter_left(counter), 1);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "");
        CU_ASSERT_EQUAL(weir_counter_count(counter, 5), 1);
        CU_ASSERT_EQUAL(weir_counter_count(counter, 5), 0);
        weir_task_start(weir_counter_wait_new(counter, ended, "late"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 late:0");
        weir_counter_unref(counter);
        weir_test_end();
}

static void
count_by_name_is_spread_in_order_of_creation(void)
{
        begin();
        weir_task *a = weir_counter_new_named("n", 2, ended, "a"), *b = weir_counter_new_named("n", 3, ended, "b");
        weir_task_start(b);
        CU_ASSERT_EQUAL(weir_counter_count_named("n", 4), 4);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_task_start(a); /* what was counted before the start counts */
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0");
        CU_ASSERT_EQUAL(weir_counter_count_named("n", 4), 1);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0");
        CU_ASSERT_EQUAL(weir_counter_count_named("n", 1), 0);
        weir_test_end();
}

static void
cancelled_or_dismissed_counter_takes_no_count(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        begin();
        weir_series_push(series, weir_counter_new_named("n", 1, ended, "cancelled"));
        weir_series_ref(series);
        weir_series_start(series);
        weir_task_dismiss(weir_counter_new_named("n", 1, ended, "dismissed"));
        weir_task_start(weir_counter_new_named("n", 1, ended, "waits"));
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_counter_count_named("n", 1), 1);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125 waits:0");
        weir_series_unref(series);
        weir_test_end();
}

static void
cancels_and_counts(weir_task *task, void *series)
{
        (void)task;
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_counter_count_named("n", 1), 1);
}

/* Both happen in one callback of the only worker, so the one that was cancelled is there still. */
static void
counter_that_was_cancelled_just_now_takes_no_part_of_a_count(void)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        weir_series_push(series, weir_counter_new_named("n", 5, ended, "cancelled"));
        weir_series_start(series);
        weir_task_start(weir_counter_new_named("n", 1, ended, "waits"));
        weir_task_start(weir_empty_new(cancels_and_counts, series));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125 waits:0");
        weir_series_unref(series);
        weir_test_end();
}

static void
counter_that_is_never_fulfilled_ends_at_shutdown(void)
{
        begin();
        weir_task_start(weir_counter_new_named("n", 1, ended, "named"));
        weir_counter *counter = weir_counter_new(1);
        weir_task_start(weir_counter_wait_new(counter, ended, "unnamed"));
        weir_counter_unref(counter);
        weir_test_end();
        CU_ASSERT(strcmp(seen, "named:-108 unnamed:-108") == 0 || strcmp(seen, "unnamed:-108 named:-108") == 0);
        CU_ASSERT_EQUAL(weir_counter_count_named("n", 1), 0);
}

static void
a_wrong_counter_or_name_is_refused(void)
{
        char *name = malloc(WEIR_NAME_MAX + 2);

        begin();
        memset(name, 'x', WEIR_NAME_MAX + 1);
        name[WEIR_NAME_MAX + 1] = '\0';
        CU_ASSERT_EQUAL(weir_counter_count(NULL, 1), 0);
        CU_ASSERT_EQUAL(weir_counter_left(NULL), 0);
        CU_ASSERT_EQUAL(weir_counter_count_named("nobody", 1), 0);
        CU_ASSERT_EQUAL(weir_counter_count_named(NULL, 1), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_counter_wait_new(NULL, ended, "x")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_counter_new_named(NULL, 1, ended, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_counter_new_named("", 1, ended, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_counter_new_named(name, 1, ended, "x")), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_task_run(weir_counter_new_named("n", 0, ended, "zero")), 0);
        CU_ASSERT_STRING_EQUAL(seen, "zero:0");
        free(name);
        weir_test_end();
}

/* -- many threads -- */

#define STORM_COUNTERS 3000

static atomic_uint storm_done, storm_cancelled;

static void
storm_ended(weir_task *task, void *context)
{
        (void)context;
        atomic_fetch_add(weir_task_status(task) == 0 ? &storm_done : &storm_cancelled, 1);
}

static void *
storm_counts(void *argument)
{
        (void)argument;
        while (atomic_load(&storm_done) + atomic_load(&storm_cancelled) < STORM_COUNTERS)
                weir_counter_count_named("storm", 7);
        return NULL;
}

static void
counts_cancels_and_starts_meet_on_many_threads(void)
{
        pthread_t threads[2];

        storm_done = storm_cancelled = 0;
        weir_test_begin_real(2);
        for (unsigned i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_counts, NULL), 0);
        for (unsigned i = 0; i < STORM_COUNTERS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_counter_new_named("storm", 1 + i % 10, storm_ended, NULL));
                weir_series_start(series);
                if (i % 4 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        CU_ASSERT_EQUAL(storm_done + storm_cancelled, STORM_COUNTERS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(all_who_wait_go_on_in_order_when_the_target_is_come_to),
                WEIR_TEST(count_by_name_is_spread_in_order_of_creation),
                WEIR_TEST(cancelled_or_dismissed_counter_takes_no_count),
                WEIR_TEST(counter_that_was_cancelled_just_now_takes_no_part_of_a_count),
                WEIR_TEST(counter_that_is_never_fulfilled_ends_at_shutdown),
                WEIR_TEST(a_wrong_counter_or_name_is_refused),
                WEIR_TEST(counts_cancels_and_starts_meet_on_many_threads),
        };

        return weir_test_main("counter", tests, sizeof tests / sizeof *tests);
}
