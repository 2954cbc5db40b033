/* test/task_test.c: the common rules of all tasks: calls that consume them, poison, lone tasks, and the stack they run on.
 *
 * Tests that fork come first: a child that must die may only be forked while no runtime is up. */
#include "test/fixture.h"

#include <errno.h>

#define FAR WEIR_SEC(1000)

/* -- misuse aborts with the reason -- */

static void
start_twice(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_task_start(task);
        weir_task_start(task);
}

static void
push_a_started_task(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_task_start(task);
        weir_series_push(weir_series_new(NULL, NULL), task);
}

static void
push_twice(void)
{
        weir_task *task = weir_timer_new_named("session/7", WEIR_FOREVER, NULL, NULL);

        weir_series_push(weir_series_new(NULL, NULL), task);
        weir_series_push_front(weir_series_new(NULL, NULL), task);
}

static void
dismiss_a_started_task(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_task_start(task);
        weir_task_dismiss(task);
}

static weir_series *
endless_series(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        weir_series_start(series);
        return series;
}

static void
start_a_series_twice(void)
{
        weir_series_start(endless_series());
}

static void
dismiss_a_started_series(void)
{
        weir_series *series = endless_series();

        weir_series_set_name(series, "checkout");
        weir_series_dismiss(series);
}

static void
push_twice_in_a_callback(weir_task *task, void *context)
{
        weir_task *second = weir_timer_new_named("session/7", WEIR_FOREVER, NULL, NULL);

        (void)context;
        weir_series_push(weir_series_of(task), second);
        weir_series_push(weir_series_of(task), second);
}

static void
push_a_pushed_task_in_a_callback(void)
{
        weir_task_run(weir_timer_new(0, push_twice_in_a_callback, NULL));
}

static void
dismiss_a_task_twice(void)
{
        weir_task *task = weir_timer_new_named("session/7", WEIR_FOREVER, NULL, NULL);

        weir_task_dismiss(task);
        weir_task_dismiss(task);
}

/* Memory goes back to the system after a shutdown. */
static void
start_twice_after_a_shutdown(void)
{
        weir_task *task = weir_timer_new_named("session/7", WEIR_FOREVER, NULL, NULL);

        weir_init(NULL);
        weir_shutdown();
        if (weir_task_start(task) == -ESHUTDOWN)
                weir_task_start(task);
}

static void
start_a_series_twice_after_a_shutdown(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_set_name(series, "checkout");
        weir_init(NULL);
        weir_shutdown();
        if (weir_series_start(series) == -ESHUTDOWN)
                weir_series_start(series);
}

#define REFUSED 100

/* Of all kinds of memory; the first of them is started again. */
static void
start_many_twice_after_a_shutdown(void)
{
        weir_task *tasks[REFUSED];
        static char name[WEIR_NAME_MAX + 1];

        weir_init(NULL);
        memset(name, 'n', sizeof name - 1);
        for (unsigned i = 0; i < REFUSED; i++)
                tasks[i] = i % 2 == 0 ? weir_empty_new(NULL, NULL) : weir_timer_new_named(name, WEIR_FOREVER, NULL, NULL);
        weir_shutdown();
        for (unsigned i = 0; i < REFUSED; i++)
                if (weir_task_start(tasks[i]) != -ESHUTDOWN)
                        return;
        weir_task_start(tasks[0]);
}

static void
start_many_promises_twice_after_a_shutdown(void)
{
        weir_task *tasks[REFUSED];

        weir_init(NULL);
        for (unsigned i = 0; i < REFUSED; i++)
                tasks[i] = weir_promise_new(NULL, NULL, NULL);
        weir_shutdown();
        for (unsigned i = 0; i < REFUSED; i++)
                if (weir_task_start(tasks[i]) != -ESHUTDOWN)
                        return;
        weir_task_start(tasks[0]);
}

static void
start_many_series_twice_after_a_shutdown(void)
{
        weir_series *series[REFUSED];

        weir_init(NULL);
        for (unsigned i = 0; i < REFUSED; i++)
                weir_series_push(series[i] = weir_series_new(NULL, NULL), weir_empty_new(NULL, NULL));
        weir_shutdown();
        for (unsigned i = 0; i < REFUSED; i++)
                if (weir_series_start(series[i]) != -ESHUTDOWN)
                        return;
        weir_series_start(series[0]);
}

static void
a_task_that_is_consumed_twice_aborts_with_the_reason(void)
{
        weir_test_aborts(start_twice, "weir_task_start: timer was already started (by weir_task_start)");
        weir_test_aborts(push_a_started_task, "weir_series_push: timer was already started (by weir_task_start)");
        weir_test_aborts(push_twice, "weir_series_push_front: timer \"session/7\" was already pushed (by weir_series_push)");
        weir_test_aborts(dismiss_a_started_task, "weir_task_dismiss: timer was already started (by weir_task_start)");
        weir_test_aborts(start_a_series_twice, "weir_series_start: the series was already started (by weir_series_start)");
        weir_test_aborts(dismiss_a_started_series,
                         "weir_series_dismiss: series \"checkout\" was already started (by weir_series_start)");
        weir_test_aborts(push_a_pushed_task_in_a_callback,
                         "weir_series_push: timer \"session/7\" was already pushed (by weir_series_push)");
}

/* AddressSanitizer reports these, since the task is gone. */
static void
a_task_that_is_gone_aborts_with_the_reason(void)
{
        if (WEIR_TEST_SANITIZED)
                return;
        weir_test_aborts(dismiss_a_task_twice,
                         "weir_task_dismiss: timer \"session/7\" was already dismissed (by weir_task_dismiss)");
        weir_test_aborts(start_twice_after_a_shutdown,
                         "weir_task_start: timer \"session/7\" was already started (by weir_task_start)");
        weir_test_aborts(start_a_series_twice_after_a_shutdown,
                         "weir_series_start: series \"checkout\" was already started (by weir_series_start), and has ended");
        weir_test_aborts(start_many_twice_after_a_shutdown,
                         "weir_task_start: empty task was already started (by weir_task_start)");
        weir_test_aborts(start_many_promises_twice_after_a_shutdown,
                         "weir_task_start: promise was already started (by weir_task_start)");
        weir_test_aborts(start_many_series_twice_after_a_shutdown,
                         "weir_series_start: the series was already started (by weir_series_start), and has ended");
}

/* -- poison -- */

static void
null_or_misnamed_task_poisons_the_series_and_nothing_of_it_runs(void)
{
        char *endless = malloc(WEIR_NAME_MAX + 2);

        memset(endless, 'x', WEIR_NAME_MAX + 1);
        endless[WEIR_NAME_MAX + 1] = '\0';
        weir_test_begin_virtual();
        for (unsigned i = 0; i < 8; i++) {
                static const int faults[4] = {-ENOMEM, -EINVAL, -EINVAL, -ENAMETOOLONG};
                struct weir_test_record before = {0}, wrong = {0}, after = {0}, end = {0};
                weir_series *series = weir_series_new(weir_test_series_done, &end);
                weir_task *task = NULL;

                if (i / 2) {
                        task = weir_test_named(i / 2 == 1 ? NULL : i / 2 == 2 ? "" : endless, 0, &wrong);
                }
                CU_ASSERT_EQUAL(weir_series_push(series, weir_test_empty(&before)), 0);
                CU_ASSERT_EQUAL(weir_series_push(series, task), faults[i / 2]);
                CU_ASSERT_EQUAL(wrong.frees, task != NULL);
                CU_ASSERT_EQUAL(weir_series_push(series, NULL), -ENOMEM); /* the first fault is the one reported */
                CU_ASSERT_EQUAL(weir_series_push(series, weir_test_empty(&after)), 0);
                CU_ASSERT_EQUAL(weir_series_status(series), faults[i / 2]);
                CU_ASSERT_EQUAL(i % 2 ? weir_series_run(series) : weir_series_start(series), faults[i / 2]);
                WEIR_TEST_NOT_CALLED(&before);
                WEIR_TEST_NOT_CALLED(&after);
                WEIR_TEST_FREED_HERE(&before);
                CU_ASSERT_EQUAL(end.calls, 0);
        }
        weir_test_end();
        free(endless);
}

static void
null_series_or_task_is_reported_by_what_consumes_it(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_run(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_series_start(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_series_run(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_series_push(NULL, weir_test_empty(&record)), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_series_push_front(NULL, NULL), -ENOMEM);
        CU_ASSERT_PTR_NULL(weir_series_ref(NULL));
        weir_series_unref(NULL);
        weir_series_set_context(NULL, NULL, NULL);
        struct weir_test_record context = {0};
        weir_series_set_context(NULL, &context, weir_test_freed);
        WEIR_TEST_FREED_HERE(&context);
        weir_task_on_free(NULL, weir_test_freed);
        CU_ASSERT_PTR_NULL(weir_series_of(NULL));
        weir_test_end();
}

static void
poison_own_series(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), NULL), -ENOMEM);
        weir_test_done(task, context);
}

static void
poison_of_a_running_series_is_its_status_and_the_rest_runs(void)
{
        struct weir_test_record first = {0}, second = {0}, end = {0};
        weir_series *series = weir_series_new(weir_test_series_done, &end);

        weir_test_begin_virtual();
        weir_series_push(series, weir_test_recorded(weir_empty_new(poison_own_series, &first)));
        weir_series_push(series, weir_test_empty(&second));
        CU_ASSERT_EQUAL(weir_series_run(series), -ENOMEM);
        WEIR_TEST_CALLED(&first, 0);
        WEIR_TEST_CALLED(&second, 0);
        CU_ASSERT_EQUAL(end.status, -ENOMEM);
        weir_test_end();
}

static void
wrongly_named_timer_reports_it_when_started_or_run(void)
{
        char *endless = malloc(WEIR_NAME_MAX + 2);
        struct weir_test_record records[6] = {0};

        memset(endless, 'x', WEIR_NAME_MAX + 1);
        endless[WEIR_NAME_MAX + 1] = '\0';
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named(NULL, 0, &records[0])), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("", 0, &records[1])), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named(endless, 0, &records[2])), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_named("", 0, &records[3])), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_named(endless, 0, &records[4])), -ENAMETOOLONG);
        weir_task_dismiss(weir_test_named("", 0, &records[5]));
        for (unsigned i = 0; i < 6; i++) {
                WEIR_TEST_NOT_CALLED(&records[i]);
                WEIR_TEST_FREED_HERE(&records[i]);
        }
        endless[WEIR_NAME_MAX] = '\0';
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new_named(endless, 0, NULL, NULL)), 0);
        weir_test_end();
        free(endless);
}

/* -- lone tasks -- */

static struct {
        struct weir_test_record lone, pushed[2];
        _Atomic unsigned counter;
        _Atomic int context_frees;
} lone;

static void
count_context_free(void *context)
{
        atomic_fetch_add((_Atomic int *)context, 1);
}

static void
push_into_lone_series(weir_task *task, void *context)
{
        weir_series *series = weir_series_of(task);

        CU_ASSERT_PTR_NOT_NULL(series);
        CU_ASSERT_PTR_EQUAL(weir_series_of(task), series);
        weir_series_set_context(series, &lone.context_frees, count_context_free);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_test_timer(WEIR_SEC(1), &lone.pushed[0])), 0);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_test_empty(&lone.pushed[1])), 0);
        weir_test_done(task, context);
}

static void
lone_task_gets_a_series_when_it_asks_for_it(void)
{
        memset(&lone, 0, sizeof lone);
        lone.lone.counter = lone.pushed[0].counter = lone.pushed[1].counter = &lone.counter;
        weir_test_begin_virtual();
        weir_task *task = weir_test_recorded(weir_timer_new(WEIR_SEC(1), push_into_lone_series, &lone.lone));
        CU_ASSERT_PTR_NULL(weir_series_of(task));
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        weir_test_pass(WEIR_SEC(3));
        weir_test_end();
        WEIR_TEST_CALLED(&lone.lone, 0);
        WEIR_TEST_CALLED(&lone.pushed[0], 0);
        WEIR_TEST_CALLED(&lone.pushed[1], 0);
        CU_ASSERT_EQUAL(lone.lone.order, 0);
        CU_ASSERT_EQUAL(lone.pushed[0].order, 1);
        CU_ASSERT_EQUAL(lone.pushed[1].order, 2);
        CU_ASSERT_EQUAL(lone.context_frees, 1);
}

static void
push_cancelled_timer(weir_task *task, void *context)
{
        weir_task *timer = weir_timer_new_named("pushed", FAR, weir_test_done, context);

        CU_ASSERT_EQUAL(weir_timer_cancel("pushed", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), weir_test_recorded(timer)), 0);
}

static void
task_run_returns_the_status_of_the_task_after_all_that_it_pushed(void)
{
        struct weir_test_record pushed = {0}, record = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(push_cancelled_timer, &pushed)), 0);
        WEIR_TEST_CALLED(&pushed, -ECANCELED);
        weir_task *timer = weir_test_named("run", FAR, &record);
        weir_timer_cancel("run", WEIR_ALL);
        CU_ASSERT_EQUAL(weir_task_run(timer), -ECANCELED);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        weir_test_end();
}

static void
replace_on_free(weir_task *task, void *context)
{
        weir_task_on_free(task, weir_test_freed);
        weir_test_done(task, context);
}

static void
clear_on_free(weir_task *task, void *context)
{
        weir_task_on_free(task, NULL);
        weir_test_done(task, context);
}

static void
on_free_can_be_set_replaced_and_cleared_until_the_callback_returns(void)
{
        struct weir_test_record set = {0}, cleared = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(replace_on_free, &set)), 0);
        WEIR_TEST_CALLED(&set, 0);
        WEIR_TEST_FREED_ELSEWHERE(&set);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_empty_new(clear_on_free, &cleared))), 0);
        CU_ASSERT_EQUAL(cleared.frees, 0);
        weir_test_end();
}

/* -- a context that belongs to its task -- */

static void
context_of_a_task_is_freed_also_when_there_is_none(void)
{
        struct weir_test_record context = {0};

        weir_task_set_context(NULL, &context, weir_test_freed);
        WEIR_TEST_FREED_HERE(&context);
        weir_task_set_context(NULL, &context, NULL);
        CU_ASSERT_EQUAL(context.frees, 1);
}

static void
context_of_a_task_is_freed_when_it_is_refused_dismissed_or_over(void)
{
        struct weir_test_record refused = {0}, dismissed = {0}, over = {0};

        weir_test_begin_virtual();
        weir_task *task = weir_go_new(NULL, NULL, weir_test_done, NULL);
        weir_task_set_context(task, &refused, weir_test_freed);
        CU_ASSERT_EQUAL(weir_task_start(task), -EINVAL);
        WEIR_TEST_NOT_CALLED(&refused);
        WEIR_TEST_FREED_HERE(&refused);
        task = weir_empty_new(weir_test_done, NULL);
        weir_task_set_context(task, &dismissed, weir_test_freed);
        weir_task_dismiss(task);
        WEIR_TEST_NOT_CALLED(&dismissed);
        WEIR_TEST_FREED_HERE(&dismissed);
        task = weir_timer_new(WEIR_SEC(1), weir_test_done, NULL);
        weir_task_set_context(task, &over, weir_test_freed);
        CU_ASSERT_PTR_EQUAL(weir_task_context(task), &over);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        WEIR_TEST_CALLED(&over, 0);
        WEIR_TEST_FREED_ELSEWHERE(&over);
        weir_test_end();
}

static void
replace_context(weir_task *task, void *context)
{
        static struct weir_test_record *second;

        if (!task) {
                second = context;
                return;
        }
        weir_task_set_context(task, context, weir_test_freed); /* the same again: nothing is freed */
        CU_ASSERT_EQUAL(((struct weir_test_record *)context)->frees, 0);
        weir_task_set_context(task, second, weir_test_freed);
        WEIR_TEST_FREED_HERE((struct weir_test_record *)context);
        weir_test_done(task, second);
}

static void
context_that_is_replaced_is_freed_at_once(void)
{
        struct weir_test_record first = {0}, second = {0};

        weir_test_begin_virtual();
        replace_context(NULL, &second);
        weir_task *task = weir_empty_new(replace_context, NULL);
        weir_task_set_context(task, &first, weir_test_freed);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        CU_ASSERT_EQUAL(first.frees, 1);
        WEIR_TEST_CALLED(&second, 0);
        WEIR_TEST_FREED_ELSEWHERE(&second);
        weir_test_end();
}

/* -- on a worker -- */

static void
block_on_a_worker(weir_task *task, void *context)
{
        struct weir_test_record refused = {0}, end = {0};
        weir_series *series = weir_series_new(weir_test_series_done, &end);

        weir_series_push(series, weir_test_empty(&refused));
        CU_ASSERT_EQUAL(weir_series_run(series), -EDEADLK);
        WEIR_TEST_NOT_CALLED(&refused);
        WEIR_TEST_FREED_HERE(&refused);
        CU_ASSERT_EQUAL(end.calls, 0);
        memset(&refused, 0, sizeof refused);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_empty(&refused)), -EDEADLK);
        WEIR_TEST_NOT_CALLED(&refused);
        CU_ASSERT_EQUAL(weir_shutdown(), -EDEADLK);
        CU_ASSERT_EQUAL(weir_init(NULL), -EDEADLK);
        weir_test_done(task, context);
}

static void
a_call_that_would_block_is_refused_on_a_worker(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_empty_new(block_on_a_worker, &record))), 0);
        WEIR_TEST_CALLED(&record, 0);
        weir_test_end();
}

/* -- constant stack -- */

static struct {
        unsigned long left, called;
        char *lowest, *highest;
} endless;

static void
note_stack(void)
{
        char *frame = __builtin_frame_address(0);

        endless.called++;
        if (!endless.lowest || frame < endless.lowest) {
                endless.lowest = frame;
        }
        if (frame > endless.highest) {
                endless.highest = frame;
        }
}

static void
only_note(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        note_stack();
}

/* One in the middle of each hundred pushes the next hundred, so that memory stays small as well. */
static void
push_more(weir_task *task, void *context)
{
        note_stack();
        for (unsigned i = 0; i < 100 && endless.left > 0; i++, endless.left--) {
                weir_series_push(weir_series_of(task), weir_empty_new(i == 50 ? push_more : only_note, context));
        }
}

static void
series_of_millions_of_empty_tasks_runs_in_constant_stack(void)
{
        unsigned long tasks = WEIR_TEST_SANITIZED ? 1000000 : 10000000;
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        memset(&endless, 0, sizeof endless);
        endless.left = tasks;
        weir_series_push(series, weir_empty_new(push_more, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(endless.called, tasks + 1);
        CU_ASSERT(endless.highest - endless.lowest < 1024);
        weir_test_end();
}

/* Dropped tasks, dropped in slices, are no deeper. */
static void
note_free(void *context)
{
        (void)context;
        note_stack();
}

static void
cancelled_series_of_100_000_tasks_drops_them_in_constant_stack(void)
{
        enum { TASKS = 100000 };
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        memset(&endless, 0, sizeof endless);
        for (unsigned i = 0; i < TASKS; i++) {
                weir_task *task = weir_empty_new(NULL, NULL);

                weir_task_on_free(task, note_free);
                weir_series_push(series, task);
        }
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        CU_ASSERT_EQUAL(endless.called, TASKS);
        CU_ASSERT(endless.highest - endless.lowest < 1024);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_task_that_is_consumed_twice_aborts_with_the_reason),
                WEIR_TEST(a_task_that_is_gone_aborts_with_the_reason),
                WEIR_TEST(null_or_misnamed_task_poisons_the_series_and_nothing_of_it_runs),
                WEIR_TEST(null_series_or_task_is_reported_by_what_consumes_it),
                WEIR_TEST(poison_of_a_running_series_is_its_status_and_the_rest_runs),
                WEIR_TEST(wrongly_named_timer_reports_it_when_started_or_run),
                WEIR_TEST(lone_task_gets_a_series_when_it_asks_for_it),
                WEIR_TEST(task_run_returns_the_status_of_the_task_after_all_that_it_pushed),
                WEIR_TEST(on_free_can_be_set_replaced_and_cleared_until_the_callback_returns),
                WEIR_TEST(context_of_a_task_is_freed_also_when_there_is_none),
                WEIR_TEST(context_of_a_task_is_freed_when_it_is_refused_dismissed_or_over),
                WEIR_TEST(context_that_is_replaced_is_freed_at_once),
                WEIR_TEST(a_call_that_would_block_is_refused_on_a_worker),
                WEIR_TEST(series_of_millions_of_empty_tasks_runs_in_constant_stack),
                WEIR_TEST(cancelled_series_of_100_000_tasks_drops_them_in_constant_stack),
        };

        return weir_test_main("task", tests, sizeof tests / sizeof *tests);
}
