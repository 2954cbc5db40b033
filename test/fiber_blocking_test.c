/* test/fiber_blocking_test.c: fibers whose stretches block, and lose their poller meanwhile. */
#include "test/fiber_fixture.h"

#include "test/blocking_fixture.h"

/* Not inline: the worker is another one after each await. */
static WEIR_TEST_OUTLINE void
lose_poller(void)
{
        weir_test_lose_poller();
}

/* All spare workers may be on their way back: -EAGAIN. */
static WEIR_TEST_OUTLINE void
block(void)
{
        unsigned begins = 1;

        for (; weir_blocking_begin() == -EAGAIN; begins++)
                weir_test_sleep(100000);
        weir_test_lose_poller();
        while (begins--)
                weir_blocking_end();
}

static WEIR_TEST_OUTLINE void
begin_to_block(void)
{
        weir_blocking_begin();
}

static void (*lose)(void);
static int fine;

static int
lose_and_end(void *context)
{
        lose();
        return *(int *)context;
}

static void
lose_in_a_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        lose();
}

static int
lose_in_each_stretch(void *context)
{
        weir_channel *channel = weir_channel_new(1, NULL);
        weir_guard *guard = weir_guard_new();
        void *message = NULL;
        int io = -EIO;

        lose();
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        lose();
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        lose();
        CU_ASSERT_EQUAL(weir_fiber_send(channel, context), 0);
        CU_ASSERT_EQUAL(weir_fiber_receive(channel, &message), 0);
        weir_group *group = weir_group_open();
        lose();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_channel_send_new(channel, context, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_channel_send_new(channel, context, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_receive(channel, &message), 0);
        CU_ASSERT_EQUAL(weir_fiber_receive(channel, &message), 0);
        lose();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(lose_and_end, NULL, &fine)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new(1, lose_in_a_callback, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        lose();
        CU_ASSERT_EQUAL(weir_await(weir_timer_new(1, NULL, NULL)), 0);
        lose();
        CU_ASSERT_EQUAL(weir_await(weir_timer_new(1, lose_in_a_callback, NULL)), 0);
        lose();
        CU_ASSERT_EQUAL(weir_await(weir_empty_new(lose_in_a_callback, NULL)), 0);
        lose();
        CU_ASSERT_EQUAL(weir_await(weir_fiber_new(lose_and_end, NULL, &io)), -EIO);
        lose();
        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(lose_and_end, lose_in_a_callback, &io), WEIR_SEC(1000)), -EIO);
        weir_task *parallel = weir_parallel_new(lose_in_a_callback, NULL);
        weir_parallel_add(parallel, weir_fiber_new(lose_and_end, NULL, &io));
        weir_parallel_add(parallel, weir_timer_new(1, lose_in_a_callback, NULL));
        lose();
        CU_ASSERT_EQUAL(weir_await(parallel), -EIO);
        CU_ASSERT_EQUAL(weir_fiber_acquire(guard), 0);
        lose();
        CU_ASSERT_EQUAL(weir_fiber_release(guard), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        lose();
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        lose();
        weir_series_cancel(weir_fiber_series());
        lose();
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        lose();
        weir_channel_unref(channel);
        weir_guard_unref(guard);
        group = weir_group_open();
        lose();
        return 0; /* with an open group */
}

/* A function of the executor has no poller to lose. */
static void
compute(void *context)
{
        ++*(int *)context;
}

static int
go_and_lose(void *context)
{
        int count = 0;

        (void)context;
        for (unsigned i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(weir_fiber_go(compute, &count), 0);
                if (i % 2)
                        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        }
        CU_ASSERT_EQUAL(count, 5);
        return 0;
}

static void
stretches_that_lose_their_poller_go_on(void)
{
        void (*const ways[])(void) = {lose_poller, block};

        for (unsigned i = 0; i < 2; i++) {
                lose = ways[i];
                if (i == 0)
                        weir_test_begin_blocking(4);
                else
                        weir_test_begin_unwatched(4);
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(lose_in_each_stretch, NULL, NULL)), -ECANCELED);
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(lose_in_each_stretch, NULL, NULL)), -ECANCELED);
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(go_and_lose, NULL, NULL)), 0);
                weir_task *parallel = weir_parallel_new(NULL, NULL);
                for (unsigned j = 0; j < 20; j++)
                        weir_parallel_add(parallel, weir_fiber_new(lose_and_end, NULL, &fine));
                CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
                weir_test_end();
        }
}

/* What was announced ends with the function, at the latest. */
static int
end_while_blocking(void *context)
{
        begin_to_block();
        return *(int *)context;
}

static void
an_announcement_ends_with_the_function(void)
{
        int io = -EIO;

        weir_test_begin_unwatched(4);
        for (unsigned i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(end_while_blocking, NULL, &io)), -EIO);
        weir_test_end();
}

/* Others go on meanwhile. */
static _Atomic bool has_slept;

static WEIR_TEST_OUTLINE void
wait_for_the_other(void)
{
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        WEIR_TEST_EVENTUALLY(has_slept);
        weir_blocking_end();
}

static int
block_until_the_other_has_slept(void *context)
{
        (void)context;
        wait_for_the_other();
        return weir_fiber_sleep(1);
}

static int
sleep_a_while(void *context)
{
        (void)context;
        for (unsigned i = 0; i < 5; i++)
                CU_ASSERT_EQUAL(weir_fiber_sleep(1000), 0);
        has_slept = true;
        return 0;
}

static void
a_fiber_that_blocks_stalls_no_other(void)
{
        weir_test_begin_unwatched(4);
        has_slept = false;
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_fiber_new(block_until_the_other_has_slept, NULL, NULL));
        weir_parallel_add(parallel, weir_fiber_new(sleep_a_while, NULL, NULL));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(stretches_that_lose_their_poller_go_on),
                WEIR_TEST(an_announcement_ends_with_the_function),
                WEIR_TEST(a_fiber_that_blocks_stalls_no_other),
        };

        return weir_test_main("fiber_blocking", tests, sizeof tests / sizeof *tests);
}
