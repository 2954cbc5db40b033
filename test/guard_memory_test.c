/* test/guard_memory_test.c: guards, semaphores and pools with each of their allocations refused in turn: a failure is reported,
 * and a hold or a token that was granted goes on to the next task. */
#include "test/fixture.h"

#include <errno.h>

#include "test/blocks_fixture.h"

/* -- the result of a scenario -- */

struct report {
        atomic_uint good, refused, other;
};

static void
reports(weir_task *task, void *context)
{
        struct report *report = context;
        int status = weir_task_status(task);

        ++*(status == 0 ? &report->good : status == -ENOMEM ? &report->refused : &report->other);
}

static void
note_start(struct report *report, int result)
{
        report->refused += result == -ENOMEM;
        report->other += result != 0 && result != -ENOMEM;
}

/* -- scenarios: each starts all it can, and nobody may be left waiting -- */

static void
guard_of_series(struct report *report)
{
        for (unsigned i = 0; i < 2; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_guard_acquire_new_named("g", reports, report));
                weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
                note_start(report, weir_series_start(series));
        }
}

static void
guard_of_lone_tasks(struct report *report)
{
        weir_guard *guard = weir_guard_new();

        for (unsigned i = 0; i < 3; i++)
                note_start(report, weir_task_start(weir_guard_acquire_new(guard, reports, report)));
        weir_guard_unref(guard);
}

static void
limited_tasks(struct report *report)
{
        weir_semaphore *semaphore = weir_semaphore_open("s", 2);

        for (unsigned i = 0; i < 3; i++)
                note_start(report, weir_task_start(weir_limited_new(semaphore, 2, weir_timer_new(WEIR_SEC(1), NULL, NULL),
                                                                    reports, report)));
        weir_semaphore_unref(semaphore);
}

/* The tasks wait.  The object for them is the fourth thing that may be refused; then it is put once more. */
static void
take_from_pool(struct report *report)
{
        weir_pool *pool = weir_pool_open("p", NULL);

        for (unsigned i = 0; i < 3; i++)
                note_start(report, weir_task_start(weir_pool_take_new(pool, reports, report)));
        int result = weir_pool_put(pool, "x");
        note_start(report, result);
        report->good += result == 0;
        if (result && pool)
                CU_ASSERT_EQUAL(weir_pool_put(pool, "x"), 0);
        weir_pool_unref(pool);
}

/* The tokens come one by one. */
static void
take_from_rate(struct report *report)
{
        weir_rate *rate = weir_rate_open("r", 1, WEIR_SEC(1), 1);

        for (unsigned i = 0; i < 3; i++)
                note_start(report, weir_task_start(weir_rate_take_new(rate, 1, reports, report)));
        weir_rate_unref(rate);
}

/* SIGCONT has no effect on a process without a task for it. */
static void
wait_for_signal(struct report *report)
{
        for (unsigned i = 0; i < 3; i++)
                note_start(report, weir_task_start(weir_signal_new(SIGCONT, reports, report)));
        raise(SIGCONT);
}

/* -- each refused -- */

static bool
came_to(void scenario(struct report *report), int nth, unsigned tasks)
{
        struct report report = {0};

        weir_test_begin_virtual();
        int64_t before = bytes_out;
        allocations_left = nth;
        scenario(&report);
        weir_test_pass(WEIR_SEC(10));
        bool refused = allocations_left < 0;
        allocations_left = -1;
        CU_ASSERT_EQUAL(report.good + report.refused, tasks);
        CU_ASSERT_EQUAL(report.other, 0);
        CU_ASSERT_EQUAL(report.refused > 0, refused);
        weir_test_end();
        CU_ASSERT_EQUAL(bytes_out, before);
        return refused;
}

static void
each_refused(void scenario(struct report *report), unsigned tasks, int at_least)
{
        int nth = 0;

        while (came_to(scenario, nth, tasks)) {
                nth++;
        }
        CU_ASSERT(nth >= at_least);
}

static void
series_without_memory_for_a_guard_leaves_it_to_the_next(void)
{
        each_refused(guard_of_series, 2, 2 * 6);
}

static void
lone_task_without_memory_for_a_series_passes_the_guard_on(void)
{
        each_refused(guard_of_lone_tasks, 3, 1 + 3 * 4);
}

static void
limited_task_without_memory_reports_it_and_keeps_no_token(void)
{
        each_refused(limited_tasks, 3, 1 + 3 * 5);
}

static void
take_without_memory_reports_it(void)
{
        each_refused(take_from_pool, 3 + 1, 2 + 3);
}

static void
rate_and_signal_without_memory_report_it(void)
{
        each_refused(take_from_rate, 3, 1 + 3);
        each_refused(wait_for_signal, 3, 3);
}

static void
refuse_next(void)
{
        allocations_left = 0;
}

/* Puts the object without memory.  Returns whether it had a place. */
static bool
has_place(weir_pool *pool, char *object)
{
        refuse_next();
        int result = weir_pool_put(pool, object);

        CU_ASSERT(result == 0 || result == -ENOMEM);
        CU_ASSERT_EQUAL(allocations_left, result == 0 ? 0 : -1);
        allocations_left = -1;
        return result == 0;
}

static void
object_that_comes_back_always_has_a_place(void)
{
        weir_pool *pool = weir_pool_new(NULL);
        static char objects[101];
        const unsigned count = 100;

        weir_test_begin_virtual();
        CU_ASSERT_FALSE(has_place(pool, &objects[0]));
        CU_ASSERT_EQUAL(weir_pool_put(pool, &objects[0]), 0);
        weir_task_start(weir_pool_take_new(pool, NULL, NULL)); /* has the object, its callback leaves it */
        weir_task_start(weir_pool_take_new(pool, NULL, NULL)); /* waits for it */
        refuse_next();
        weir_test_pass(0);
        CU_ASSERT_EQUAL(allocations_left, 0);
        CU_ASSERT_EQUAL(weir_pool_available(pool), 1);
        CU_ASSERT_FALSE(has_place(pool, &objects[1]));
        for (unsigned i = 1; i < count; i++)
                CU_ASSERT_EQUAL(weir_pool_put(pool, &objects[i]), 0);
        for (unsigned i = 0; i < count; i++)
                CU_ASSERT_PTR_NOT_NULL(weir_pool_try_take(pool));
        CU_ASSERT_PTR_NULL(weir_pool_try_take(pool));
        for (unsigned i = 0; i < count; i++)
                CU_ASSERT(has_place(pool, &objects[i]));
        for (unsigned i = 0; i < count; i++)
                CU_ASSERT_PTR_NOT_NULL(weir_pool_try_take(pool));
        for (unsigned i = 0; i < count; i++) /* these come by way of tasks that wait */
                weir_task_start(weir_pool_take_new(pool, NULL, NULL));
        weir_test_pass(0);
        for (unsigned i = 0; i < count; i++)
                CU_ASSERT(has_place(pool, &objects[i]));
        CU_ASSERT_FALSE(has_place(pool, &objects[count]));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_pool_available(pool), count);
        weir_pool_unref(pool);
        weir_test_end();
}

/* The objects leave the pool by way of their tasks. */
static void
keep_object(weir_task *task, void *object)
{
        *(void **)object = weir_pool_take_object(task);
}

static char objects[3];

/* On the only worker, so no task gives its place back in between. */
static void
put_two(weir_task *task, void *pool)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_pool_put(pool, &objects[0]), 0);
        CU_ASSERT_EQUAL(weir_pool_put(pool, &objects[1]), 0);
}

static void
object_that_a_task_took_has_a_place_when_it_comes_back(void)
{
        weir_pool *pool = weir_pool_new(NULL);
        void *kept[2] = {NULL, NULL};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_pool_take_new(pool, keep_object, &kept[i])), 0);
        weir_test_pass(0); /* they wait */
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(put_two, pool)), 0);
        weir_test_pass(0);
        for (unsigned i = 0; i < 2; i++) {
                CU_ASSERT_PTR_EQUAL(kept[i], &objects[i]);
                CU_ASSERT(has_place(pool, kept[i]));
        }
        CU_ASSERT_FALSE(has_place(pool, &objects[2]));
        CU_ASSERT_EQUAL(weir_pool_available(pool), 2);
        weir_pool_unref(pool);
        weir_test_end();
        CU_ASSERT_EQUAL(bytes_out, 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(series_without_memory_for_a_guard_leaves_it_to_the_next),
                WEIR_TEST(lone_task_without_memory_for_a_series_passes_the_guard_on),
                WEIR_TEST(limited_task_without_memory_reports_it_and_keeps_no_token),
                WEIR_TEST(take_without_memory_reports_it),
                WEIR_TEST(rate_and_signal_without_memory_report_it),
                WEIR_TEST(object_that_comes_back_always_has_a_place),
                WEIR_TEST(object_that_a_task_took_has_a_place_when_it_comes_back),
        };

        return weir_test_main("guard_memory", tests, sizeof tests / sizeof *tests);
}
