/* test/condition_test.c: tasks that are held back until their condition is signalled, with and without names. */
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
note(const char *what, const char *name, int status)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s %s:%d", size ? ", " : "", what, name, status);
}

static void
ran(weir_task *task, void *name)
{
        note("ran", name, weir_task_status(task));
}

static void
ended(weir_task *task, void *name)
{
        note("ended", name, weir_task_status(task));
}

static void
freed(void *name)
{
        note("freed", name, 0);
}

/* A second long, and its end is recorded. */
static weir_task *
held(char *name)
{
        weir_task *task = weir_timer_new(WEIR_SEC(1), ran, name);

        weir_task_on_free(task, freed);
        return task;
}

static weir_task *
conditional(weir_condition *condition, char *name)
{
        return weir_conditional_new(condition, held(name), ended, name);
}

static weir_task *
named(char *name)
{
        return weir_conditional_new_named("go", held(name), ended, name);
}

/* -- without a name -- */

static void
task_is_held_back_until_the_signal_and_then_runs(void)
{
        weir_condition *condition = weir_condition_new();

        begin();
        weir_task_start(conditional(condition, "a"));
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_STRING_EQUAL(seen, "");
        CU_ASSERT_EQUAL(weir_condition_signal(condition), 0);
        CU_ASSERT_EQUAL(weir_condition_signal(condition), -EALREADY);
        weir_test_pass(WEIR_SEC(1) - 1);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_test_pass(1);
        CU_ASSERT_STRING_EQUAL(seen, "ran a:0, freed a:0, ended a:0");
        weir_condition_unref(condition);
        weir_test_end();
}

static void
signal_before_the_start_counts_and_so_it_does_for_all(void)
{
        weir_condition *condition = weir_condition_new();

        begin();
        weir_task_start(conditional(condition, "a"));
        weir_task *b = conditional(condition, "b");
        CU_ASSERT_EQUAL(weir_condition_signal(condition), 0);
        weir_task_start(b);
        CU_ASSERT_EQUAL(weir_task_run(conditional(condition, "c")), 0);
        CU_ASSERT_STRING_EQUAL(seen,
                               "ran a:0, freed a:0, ran b:0, freed b:0, ran c:0, freed c:0, ended a:0, ended b:0, ended c:0");
        weir_condition_unref(condition);
        weir_test_end();
}

static weir_task *
make_nothing(void *context)
{
        (void)context;
        return weir_counter_new_named("", 1, NULL, NULL);
}

static void
status_is_that_of_the_task(void)
{
        weir_condition *condition = weir_condition_new();
        weir_task *fails = weir_dynamic_new(make_nothing, NULL, NULL);

        begin();
        weir_condition_signal(condition);
        CU_ASSERT_EQUAL(weir_task_run(weir_conditional_new(condition, fails, ended, "a")), -EINVAL);
        CU_ASSERT_STRING_EQUAL(seen, "ended a:-22");
        weir_condition_unref(condition);
        weir_test_end();
}

static void
cancelled_before_the_signal_it_drops_the_task(void)
{
        weir_condition *condition = weir_condition_new();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        weir_series_push(series, conditional(condition, "a"));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(1));
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "freed a:0, ended a:-125");
        CU_ASSERT_EQUAL(weir_condition_signal(condition), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "freed a:0, ended a:-125");
        weir_series_unref(series);
        weir_condition_unref(condition);
        weir_test_end();
}

static weir_condition *signalled;

static void
signals_and_cancels(weir_task *task, void *series)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_condition_signal(signalled), 0);
        weir_series_cancel(series);
}

/* The wait ends well, but the task is not started any more: both happen in one callback of the only worker. */
static void
cancelled_right_behind_the_signal_it_drops_the_task(void)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        signalled = weir_condition_new();
        weir_series_push(series, conditional(signalled, "a"));
        weir_series_start(series);
        weir_test_pass(0);
        weir_task_start(weir_empty_new(signals_and_cancels, series));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "freed a:0, ended a:-125");
        weir_series_unref(series);
        weir_condition_unref(signalled);
        weir_test_end();
}

static void
deadline_and_cancel_reach_the_task_that_runs(void)
{
        weir_condition *condition = weir_condition_new();
        weir_series *late = weir_series_new(NULL, NULL), *early = weir_series_new(NULL, NULL);

        begin();
        weir_series_push(early, conditional(condition, "early"));
        weir_series_set_deadline(early, WEIR_MSEC(100));
        weir_series_start(early);
        weir_series_push(late, conditional(condition, "late"));
        weir_series_set_deadline(late, WEIR_MSEC(500));
        weir_series_start(late);
        weir_test_pass(WEIR_MSEC(200));
        weir_condition_signal(condition);
        weir_test_pass(WEIR_MSEC(300));
        CU_ASSERT_STRING_EQUAL(seen, "freed early:0, ended early:-110, ran late:-110, freed late:0, ended late:-110");
        weir_condition_unref(condition);
        weir_test_end();
}

static void
shutdown_and_dismissal_drop_the_task(void)
{
        weir_condition *condition = weir_condition_new();

        begin();
        weir_task_dismiss(conditional(condition, "a"));
        CU_ASSERT_STRING_EQUAL(seen, "freed a:0");
        weir_task_start(conditional(condition, "b"));
        weir_test_pass(WEIR_SEC(1));
        weir_condition_unref(condition);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "freed a:0, freed b:0, ended b:-108");
}

static void
conditionals_nested_deeply_are_dismissed_in_constant_stack(void)
{
        weir_condition *condition = weir_condition_new();

        begin();
        weir_task *nested = held("a");
        for (unsigned i = 0; i < 200000; i++)
                nested = weir_conditional_new(condition, nested, NULL, NULL);
        weir_task_dismiss(nested);
        CU_ASSERT_STRING_EQUAL(seen, "freed a:0");
        weir_condition_unref(condition);
        weir_test_end();
}

static atomic_bool in_callback;

static void
outlasts_the_beginning_of_the_shutdown(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        in_callback = true;
        while (weir_task_start(weir_empty_new(NULL, NULL)) == 0)
                sched_yield();
}

static void
shutdown_that_comes_while_the_task_runs_leaves_it_its_status(void)
{
        weir_condition *condition = weir_condition_new();
        weir_task *task = weir_empty_new(outlasts_the_beginning_of_the_shutdown, NULL);

        begin();
        in_callback = false;
        weir_task_start(weir_conditional_new(condition, task, ended, "a"));
        weir_condition_signal(condition);
        weir_condition_unref(condition);
        WEIR_TEST_EVENTUALLY(in_callback);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "ended a:0");
}

/* -- with a name -- */

static void
signal_by_name_starts_the_oldest_first_and_each_once(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_condition_signal_named("go", WEIR_ALL), 0);
        weir_task *a = named("a"), *b = named("b"), *c = named("c");
        weir_task_start(c);
        weir_task_start(b);
        CU_ASSERT_EQUAL(weir_condition_signal_named("go", 0), 0);
        CU_ASSERT_EQUAL(weir_condition_signal_named("go", 2), 2);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "ran b:0, freed b:0, ended b:0");
        seen[0] = '\0';
        weir_task_start(a);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "ran a:0, freed a:0, ended a:0");
        seen[0] = '\0';
        CU_ASSERT_EQUAL(weir_condition_signal_named("go", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_condition_signal_named("go", WEIR_ALL), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "ran c:0, freed c:0, ended c:0");
        weir_test_end();
}

static void
a_cancelled_or_dismissed_task_is_not_signalled(void)
{
        weir_series *cancelled = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        weir_series_push(cancelled, named("cancelled"));
        weir_series_start(cancelled);
        weir_task_dismiss(named("dismissed"));
        weir_task_start(named("a"));
        weir_test_pass(0);
        weir_series_cancel(cancelled);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_condition_signal_named("go", WEIR_ALL), 1);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "freed dismissed:0, freed cancelled:0, ended cancelled:-125, ran a:0, freed a:0, ended a:0");
        weir_series_unref(cancelled);
        weir_test_end();
}

/* -- misuse -- */

static void
a_wrong_condition_task_or_name_is_refused(void)
{
        weir_condition *condition = weir_condition_new();
        weir_task *wrong = weir_counter_new_named("", 1, NULL, NULL);
        char *name = malloc(WEIR_NAME_MAX + 2);

        begin();
        memset(name, 'x', WEIR_NAME_MAX + 1);
        name[WEIR_NAME_MAX + 1] = '\0';
        CU_ASSERT_EQUAL(weir_condition_signal(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(conditional(NULL, "a")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_conditional_new(condition, NULL, ended, "b")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_conditional_new(condition, wrong, ended, "c")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_conditional_new_named(NULL, held("d"), ended, "d")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_conditional_new_named("", held("e"), ended, "e")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_conditional_new_named(name, held("f"), ended, "f")), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_task_start(weir_conditional_new_named("go", NULL, ended, "g")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_condition_signal_named(NULL, 1), 0);
        CU_ASSERT_EQUAL(weir_condition_signal_named("go", 1), 0);
        CU_ASSERT_EQUAL(weir_condition_signal_named(name, 1), 0);
        CU_ASSERT_STRING_EQUAL(seen, "freed a:0, freed d:0, freed e:0, freed f:0");
        weir_condition_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_condition_ref(NULL));
        weir_condition_unref(condition);
        free(name);
        weir_test_end();
}

static void
hold_the_same_task_twice(void)
{
        weir_condition *condition = weir_condition_new();
        weir_task *task = held("a");

        weir_conditional_new(condition, task, NULL, NULL);
        weir_conditional_new(condition, task, NULL, NULL);
}

static void
task_that_is_held_twice_aborts(void)
{
        weir_test_aborts(hold_the_same_task_twice, "weir_conditional_new: ");
}

/* -- many threads -- */

#define STORM_TASKS 3000

static struct storm {
        atomic_uint ran, freed, ended, well, counted;
        atomic_bool over;
} storm;

static void
storm_ran(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        atomic_fetch_add(&storm.ran, 1);
}

static void
storm_freed(void *context)
{
        (void)context;
        atomic_fetch_add(&storm.freed, 1);
}

static void
storm_ended(weir_task *task, void *context)
{
        (void)context;
        atomic_fetch_add(&storm.well, weir_task_status(task) == 0);
}

/* Its own callback is not called when its series ended before it was started. */
static void
storm_gone(void *context)
{
        (void)context;
        atomic_fetch_add(&storm.ended, 1);
}

static void *
storm_signals(void *argument)
{
        while (!storm.over)
                atomic_fetch_add(&storm.counted, (unsigned)weir_condition_signal_named("storm", (size_t)(uintptr_t)argument));
        return NULL;
}

static void
each_task_is_run_or_dropped_once_while_threads_signal_and_cancel(void)
{
        pthread_t threads[2];

        storm = (struct storm){0};
        weir_test_begin_real(2);
        for (uintptr_t i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_signals, (void *)(i ? WEIR_ALL : 1)), 0);
        for (unsigned i = 0; i < STORM_TASKS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *task = weir_empty_new(storm_ran, NULL);

                weir_task_on_free(task, storm_freed);
                task = weir_conditional_new_named("storm", task, storm_ended, NULL);
                weir_task_on_free(task, storm_gone);
                weir_series_push(series, task);
                weir_series_start(series);
                if (i % 3 == 1)
                        weir_series_set_deadline(series, WEIR_USEC(50));
                if (i % 3 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        WEIR_TEST_EVENTUALLY(storm.ended == STORM_TASKS);
        storm.over = true;
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        CU_ASSERT_EQUAL(storm.freed, STORM_TASKS);
        CU_ASSERT(storm.well <= storm.ran && storm.ran <= storm.counted);
        CU_ASSERT(storm.well >= STORM_TASKS / 3);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(task_is_held_back_until_the_signal_and_then_runs),
                WEIR_TEST(signal_before_the_start_counts_and_so_it_does_for_all),
                WEIR_TEST(status_is_that_of_the_task),
                WEIR_TEST(cancelled_before_the_signal_it_drops_the_task),
                WEIR_TEST(cancelled_right_behind_the_signal_it_drops_the_task),
                WEIR_TEST(deadline_and_cancel_reach_the_task_that_runs),
                WEIR_TEST(shutdown_and_dismissal_drop_the_task),
                WEIR_TEST(conditionals_nested_deeply_are_dismissed_in_constant_stack),
                WEIR_TEST(shutdown_that_comes_while_the_task_runs_leaves_it_its_status),
                WEIR_TEST(signal_by_name_starts_the_oldest_first_and_each_once),
                WEIR_TEST(a_cancelled_or_dismissed_task_is_not_signalled),
                WEIR_TEST(a_wrong_condition_task_or_name_is_refused),
                WEIR_TEST(task_that_is_held_twice_aborts),
                WEIR_TEST(each_task_is_run_or_dropped_once_while_threads_signal_and_cancel),
        };

        return weir_test_main("condition", tests, sizeof tests / sizeof *tests);
}
