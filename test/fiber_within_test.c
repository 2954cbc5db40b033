/* test/fiber_within_test.c: awaits with a limit. */
#include "test/fiber_fixture.h"

#include "test/blocks_fixture.h"

#define FAR WEIR_SEC(100000)

static struct weir_test_record record;

static weir_task *
recorded_timer(weir_nsec after)
{
        memset(&record, 0, sizeof record);
        return weir_test_timer(after, &record);
}

/* The fiber goes on as if nothing had been. */
static void
goes_on(void)
{
        weir_nsec began = weir_now();

        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_await(weir_timer_new(1, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_series_status(weir_fiber_series()), 0);
        CU_ASSERT_EQUAL(weir_series_cause(weir_fiber_series()), 0);
}

static int
limits(void *context)
{
        weir_nsec began = weir_now();

        (void)context;
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(WEIR_SEC(5)), WEIR_SEC(2)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(2));
        CU_ASSERT(record.calls == 1 && record.status == -ETIMEDOUT && record.frees == 0);
        goes_on();
        WEIR_TEST_CALLED(&record, -ETIMEDOUT);

        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(WEIR_SEC(2)), WEIR_SEC(5)), 0);
        CU_ASSERT(record.calls == 1 && record.status == 0 && record.frees == 0);
        goes_on();
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(10)), 0); /* the limit comes no more */
        goes_on();

        static const weir_nsec none[] = {0, -1, INT64_MIN};
        for (unsigned i = 0; i < 3; i++) {
                began = weir_now();
                weir_task *timer = recorded_timer(WEIR_SEC(1));
                CU_ASSERT_EQUAL(weir_await_within(timer, none[i]), -ETIMEDOUT);
                CU_ASSERT_EQUAL(weir_task_status(timer), -ETIMEDOUT);
                CU_ASSERT_EQUAL(weir_now(), began);
                CU_ASSERT(record.calls == 0 && record.frees == 0);
                goes_on();
                WEIR_TEST_NOT_CALLED(&record);
        }

        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(NULL, NULL, NULL), 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(NULL, NULL, NULL), 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(FAR), WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(FAR), WEIR_FOREVER - 1), 0);
        CU_ASSERT_EQUAL(weir_await_within(NULL, WEIR_SEC(1)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_await_within(NULL, 0), -ENOMEM);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(2), 1), -ETIMEDOUT);
        goes_on();
        return 0;
}

static void
a_limit_ends_the_await_and_not_the_fiber(void)
{
        WEIR_TEST_IN_FIBER(limits);
}

/* The task and its limit are due at the same instant: one of them decides, for the callback and for the fiber. */
static int
same_instant(void *context)
{
        (void)context;
        for (unsigned i = 0; i < 100; i++) {
                int status = weir_await_within(recorded_timer(WEIR_SEC(1)), WEIR_SEC(1));

                CU_ASSERT(status == 0 || status == -ETIMEDOUT);
                CU_ASSERT(record.calls == 1 && record.status == status);
        }
        goes_on();
        return 0;
}

static void
a_task_that_ends_at_its_limit_has_one_status(void)
{
        WEIR_TEST_IN_FIBER(same_instant);
}

/* -- combinators, fibers, nested limits -- */

static int
sleep_far(void *context)
{
        int status = weir_fiber_sleep(FAR);

        if (context)
                *(int *)context = status;
        CU_ASSERT_EQUAL(weir_fiber_yield(), status);
        return status;
}

static int
limit_within(void *context)
{
        weir_nsec began = weir_now();

        *(int *)context = weir_await_within(weir_timer_new(FAR, NULL, NULL), WEIR_SEC(2));
        if (*(int *)context == -ETIMEDOUT && weir_now() == began + WEIR_SEC(2))
                return weir_fiber_sleep(WEIR_SEC(10));
        return 0;
}

static int
limits_of_others(void *context)
{
        int inside = 1;
        weir_nsec began = weir_now();

        (void)context;
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < 200; i++)
                weir_parallel_add(parallel, weir_timer_new(FAR, NULL, NULL));
        weir_parallel_add(parallel, weir_fiber_new(sleep_far, NULL, &inside));
        CU_ASSERT_EQUAL(weir_await_within(parallel, WEIR_SEC(1)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(inside, -ETIMEDOUT);
        goes_on();

        inside = 1;
        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(sleep_far, NULL, &inside), WEIR_SEC(1)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(inside, -ETIMEDOUT);
        goes_on();

        began = weir_now();
        CU_ASSERT_EQUAL(weir_await_within(weir_timeout_new(weir_timer_new(FAR, NULL, NULL), WEIR_SEC(1)), WEIR_SEC(2)),
                        -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        goes_on();
        began = weir_now();
        CU_ASSERT_EQUAL(weir_await_within(weir_timeout_new(weir_timer_new(FAR, NULL, NULL), WEIR_SEC(2)), WEIR_SEC(1)),
                        -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        goes_on();

        began = weir_now();
        inside = 1;
        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(limit_within, NULL, &inside), WEIR_SEC(5)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(inside, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(5));
        began = weir_now();
        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(limit_within, NULL, &inside), WEIR_SEC(1)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(inside, -ETIMEDOUT);
        goes_on();
        return 0;
}

static void
a_limit_ends_all_that_is_within(void)
{
        WEIR_TEST_IN_FIBER(limits_of_others);
}

/* -- together with an end of the fiber -- */

static weir_series *limited; /* of the fiber whose await has a limit */

static void
cancel_limited(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == -ETIMEDOUT)
                weir_series_cancel(limited);
}

/* The callback of the awaited task runs while its limit is the cause: the cancel comes then. */
static int
cancel_in_the_callback(void *context)
{
        (void)context;
        limited = weir_fiber_series();
        CU_ASSERT_EQUAL(weir_await_within(weir_timer_new(FAR, cancel_limited, NULL), WEIR_SEC(1)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_series_status(weir_fiber_series()), -ECANCELED);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        CU_ASSERT_EQUAL(weir_await(recorded_timer(1)), -ECANCELED);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(1), 0), -ECANCELED);
        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(NULL, NULL, NULL), 0), -EINVAL);
        return 0;
}

/* One of many children ends, and cancels the fiber, while the walk goes on to the others. */
static int
cancel_during_the_walk(void *context)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        (void)context;
        limited = weir_fiber_series();
        for (unsigned i = 0; i < 500; i++)
                weir_parallel_add(parallel, weir_timer_new(FAR, i == 1 ? cancel_limited : NULL, NULL));
        int status = weir_await_within(parallel, WEIR_SEC(1));
        CU_ASSERT(status == -ETIMEDOUT || status == -ECANCELED);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_status(weir_fiber_series()), -ECANCELED);
        return 0;
}

static int
deadline_at_the_limit(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_fiber_series(), WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(FAR), WEIR_SEC(1)), -ETIMEDOUT);
        int status = weir_fiber_yield();
        if (!status) /* the deadline comes at the same instant, and has not come yet */
                status = weir_fiber_sleep(1);
        CU_ASSERT_EQUAL(status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_series_status(weir_fiber_series()), -ETIMEDOUT);
        return 0;
}

static int
limit_behind_the_deadline(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_fiber_series(), WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(FAR), WEIR_SEC(2)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(FAR), WEIR_SEC(2)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_await_within(recorded_timer(FAR), 0), -ETIMEDOUT);
        return 0;
}

static void
an_end_of_the_fiber_is_not_lost_with_the_limit(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(cancel_in_the_callback, NULL), -ECANCELED);
        CU_ASSERT_EQUAL(weir_test_run_fiber(cancel_during_the_walk, NULL), -ECANCELED);
        CU_ASSERT_EQUAL(weir_test_run_fiber(deadline_at_the_limit, NULL), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_test_run_fiber(limit_behind_the_deadline, NULL), -ETIMEDOUT);
}

/* -- beside groups -- */

/* A child that comes to its next await just when the limit of its parent's await is the cause there. */
static int
tick(void *context)
{
        int *failed = context;

        for (unsigned i = 0; i < 10; i++) {
                int status = weir_fiber_sleep(WEIR_SEC(1));

                *failed += status != 0;
                for (unsigned j = 0; j < 20 && !status; j++)
                        *failed += weir_fiber_yield() != 0;
        }
        return 0;
}

static int
start_more(void *context)
{
        weir_group *group = context;

        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(5)), 0);
        for (unsigned i = 0; i < 20; i++) {
                CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new(1, NULL, NULL)), 0);
                CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        }
        return 0;
}

static int
beside_a_group(void *context)
{
        weir_group *group = weir_group_open();
        int failed = 0;

        (void)context;
        for (unsigned i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(tick, NULL, &failed)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(start_more, NULL, group)), 0);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < 1000; i++)
                weir_parallel_add(parallel, weir_timer_new(FAR, NULL, NULL));
        CU_ASSERT_EQUAL(weir_await_within(parallel, WEIR_SEC(5)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        CU_ASSERT_EQUAL(failed, 0);
        goes_on();
        return 0;
}

static void
a_limit_does_not_reach_the_groups(void)
{
        WEIR_TEST_IN_FIBER(beside_a_group);
}

/* -- out of memory -- */

static int
await_without_memory(void *context)
{
        const int *left = context;
        weir_task *timer = recorded_timer(WEIR_SEC(1));

        atomic_store(&allocations_left, *left);
        int status = weir_await_within(timer, WEIR_SEC(2));
        atomic_store(&allocations_left, -1);
        CU_ASSERT(status == 0 || status == -ENOMEM);
        CU_ASSERT_EQUAL(record.calls, status == 0);
        goes_on();
        CU_ASSERT_EQUAL(record.frees, 1);
        return status;
}

static void
without_memory_the_await_is_refused(void)
{
        unsigned refused = 0;

        weir_test_run_fiber(limits, NULL);
        weir_test_free_kept();
        for (int left = 0; left < 4; left++) {
                int64_t before = bytes_out;

                refused += weir_test_run_fiber(await_without_memory, &left) == -ENOMEM;
                weir_test_free_kept();
                CU_ASSERT_EQUAL(bytes_out, before);
        }
        CU_ASSERT(refused > 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_limit_ends_the_await_and_not_the_fiber), WEIR_TEST(a_task_that_ends_at_its_limit_has_one_status),
                WEIR_TEST(a_limit_ends_all_that_is_within),          WEIR_TEST(an_end_of_the_fiber_is_not_lost_with_the_limit),
                WEIR_TEST(a_limit_does_not_reach_the_groups),        WEIR_TEST(without_memory_the_await_is_refused),
        };

        return weir_test_main("fiber_within", tests, sizeof tests / sizeof *tests);
}
