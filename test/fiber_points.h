/* test/fiber_points.h: whatever a fiber can wait for, so that it waits until it ends early. */
#ifndef WEIR_TEST_FIBER_POINTS_H
#define WEIR_TEST_FIBER_POINTS_H

#include "test/fiber_fixture.h"

#define FAR WEIR_SEC(100000)

/* -- where it waits -- */

static struct {
        weir_channel *empty, *full;
        weir_guard *guard;
        weir_counter *counter;
        weir_waitgroup *group;
        weir_mailbox *mailbox;
        weir_watch *watch;
        weir_subscriber *subscriber;
        weir_semaphore *semaphore;
        weir_pool *pool;
        weir_barrier *barrier;
        weir_rate *rate;
        weir_condition *condition;
        weir_fd *fd;
        int pipe[2];
} at;

static struct weir_test_record inner; /* of what the fiber awaits */

static weir_task *
timer(void)
{
        return weir_timer_new(FAR, NULL, NULL);
}

static int
wait_sleep(void)
{
        return weir_fiber_sleep(FAR);
}

static int
wait_between_stretches(void)
{
        int status = 0;

        while (!status) {
                status = weir_fiber_sleep(WEIR_MSEC(1));
                for (unsigned i = 0; i < 3 && !status; i++)
                        status = weir_fiber_yield();
                if (!status)
                        status = weir_await(weir_empty_new(NULL, NULL));
        }
        return status;
}

static int
wait_receive(void)
{
        void *message;

        return weir_fiber_receive(at.empty, &message);
}

static int
wait_send(void)
{
        return weir_fiber_send(at.full, &at);
}

static int
wait_acquire(void)
{
        return weir_fiber_acquire(at.guard);
}

static int
wait_tokens(void)
{
        return weir_fiber_acquire_tokens(at.semaphore, 1);
}

static int
wait_take(void)
{
        void *object;

        return weir_fiber_take(at.pool, &object);
}

static int
wait_count(void)
{
        return weir_fiber_wait(at.counter);
}

static int
wait_done(void)
{
        return weir_fiber_wait_done(at.group, WEIR_FOREVER);
}

static int
wait_done_within(void)
{
        return weir_fiber_wait_done(at.group, FAR / 2);
}

static int
await(weir_task *task)
{
        int status = weir_await(weir_test_recorded(task));

        CU_ASSERT(inner.calls == 1 && inner.status == status && inner.frees == 0);
        return status;
}

#define AWAIT(name, task)            \
        static int wait_##name(void) \
        {                            \
                return await(task);  \
        }
#define AT weir_test_done, &inner

AWAIT(timer, weir_timer_new(FAR, AT))
AWAIT(counter, weir_counter_wait_new(at.counter, AT))
AWAIT(mailbox, weir_mailbox_receive_new(at.mailbox, AT))
AWAIT(watch, weir_watch_wait_new(at.watch, 0, AT))
AWAIT(topic, weir_topic_receive_new(at.subscriber, AT))
AWAIT(semaphore, weir_semaphore_acquire_new(at.semaphore, 1, AT))
AWAIT(pool, weir_pool_take_new(at.pool, AT))
AWAIT(barrier, weir_barrier_arrive_new(at.barrier, AT))
AWAIT(rate, weir_rate_take_new(at.rate, 1, AT))
AWAIT(conditional, weir_conditional_new(at.condition, timer(), AT))
AWAIT(limited, weir_limited_new(at.semaphore, 1, timer(), AT))
AWAIT(guard, weir_guard_acquire_new(at.guard, AT))
AWAIT(promise, weir_promise_new(NULL, AT))
AWAIT(signal, weir_signal_new(SIGUSR1, AT))
AWAIT(fd, weir_fd_readable_new(at.fd, AT))

static int
wait_ticker(void)
{
        return weir_await(weir_ticker_new(WEIR_SEC(1), WEIR_TICK_SKIP, NULL, NULL));
}

static int
wait_timeout(void)
{
        return weir_await(weir_timeout_new(timer(), FAR / 2));
}

static int
wait_select(void)
{
        weir_task *select = weir_select_new(AT);

        weir_select_receive(select, at.empty);
        weir_select_send(select, at.full, &at);
        return await(select);
}

static int
wait_cases(void)
{
        struct weir_case cases[] = {
                {.receive = at.empty}, {.send = at.full, .message = &at}, {.receive = at.full, .is_off = true}};

        return weir_fiber_select(cases, 3);
}

static int
wait_cases_within(void)
{
        struct weir_case one = {.receive = at.empty};

        return weir_fiber_select_within(&one, 1, FAR / 2);
}

static int
wait_parallel(void)
{
        weir_task *parallel = weir_parallel_new(AT);

        for (unsigned i = 0; i < 100; i++)
                weir_parallel_add(parallel, timer());
        return await(parallel);
}

static int
wait_race(void)
{
        weir_task *race = weir_race_new(AT);

        weir_race_add(race, timer());
        weir_race_add(race, weir_promise_new(NULL, NULL, NULL));
        return await(race);
}

static int
wait_graph(void)
{
        weir_task *graph = weir_graph_new(AT);

        weir_graph_precede(weir_graph_add(graph, timer(), "a"), weir_graph_add(graph, timer(), "b"));
        return await(graph);
}

static int
wait_module(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, timer());
        weir_series_push(series, timer());
        return await(weir_module_new(series, AT));
}

static weir_task *
make(void *context)
{
        (void)context;
        return timer();
}

AWAIT(retry, weir_retry_new(NULL, make, AT))
AWAIT(repeater, weir_repeater_new(make, AT))
AWAIT(dynamic, weir_dynamic_new(make, AT))

static int
sleep_far(void *context)
{
        (void)context;
        return weir_fiber_sleep(FAR);
}

static int
close_a_group(void *context)
{
        weir_group *group = weir_group_open();

        CU_ASSERT_EQUAL(weir_group_start(group, timer()), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(sleep_far, NULL, NULL)), 0);
        if (context)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(close_a_group, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, weir_promise_new(NULL, NULL, NULL)), 0);
        return weir_group_close(group);
}

AWAIT(fiber, weir_fiber_new_as("sleep_far", sleep_far, AT))
AWAIT(fiber_with_groups, weir_fiber_new_as("close_a_group", close_a_group, AT))

static int
wait_close(void)
{
        return close_a_group(&at);
}

static int
wait_open_groups(void)
{
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(weir_group_start(weir_group_open(), weir_fiber_new(close_a_group, NULL, NULL)), 0);
        return weir_fiber_sleep(FAR);
}

static int
wait_within(void)
{
        return weir_await_within(timer(), FAR / 2);
}

static int
wait_parallel_within(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add(parallel, timer());
        weir_parallel_add(parallel, weir_fiber_new(sleep_far, NULL, NULL));
        return weir_await_within(parallel, FAR / 2);
}

static int
wait_behind_a_shield(void)
{
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_USEC(1)), 0);
        CU_ASSERT_EQUAL(weir_fiber_shield(false), 0);
        return weir_fiber_sleep(FAR);
}

struct point {
        const char *name;
        int (*wait)(void);
};

#define POINT(name)                \
        {                          \
#name, wait_##name \
        }
static const struct point points[] = {
        POINT(sleep),
        POINT(between_stretches),
        POINT(receive),
        POINT(send),
        POINT(acquire),
        POINT(tokens),
        POINT(take),
        POINT(count),
        POINT(done),
        POINT(done_within),
        POINT(timer),
        POINT(counter),
        POINT(mailbox),
        POINT(watch),
        POINT(topic),
        POINT(semaphore),
        POINT(pool),
        POINT(barrier),
        POINT(rate),
        POINT(conditional),
        POINT(limited),
        POINT(guard),
        POINT(promise),
        POINT(signal),
        POINT(fd),
        POINT(ticker),
        POINT(timeout),
        POINT(select),
        POINT(cases),
        POINT(cases_within),
        POINT(parallel),
        POINT(race),
        POINT(graph),
        POINT(module),
        POINT(retry),
        POINT(repeater),
        POINT(dynamic),
        POINT(fiber),
        POINT(fiber_with_groups),
        POINT(close),
        POINT(open_groups),
        POINT(within),
        POINT(parallel_within),
        POINT(behind_a_shield),
};
#define POINTS (sizeof points / sizeof *points)

/* -- begin and end: on the virtual clock -- */

static void
nothing(weir_task *task, void *context)
{
        (void)task;
        (void)context;
}

static weir_series *holder;

static inline void
begin_points(void)
{
        weir_test_begin_virtual();
        memset(&inner, 0, sizeof inner);
        CU_ASSERT_EQUAL(pipe(at.pipe), 0);
        at.fd = weir_fd_new(at.pipe[0]);
        at.empty = weir_channel_new(0, NULL);
        at.full = weir_channel_new(1, NULL);
        CU_ASSERT_EQUAL(weir_channel_post(at.full, &at), 0);
        at.guard = weir_guard_new();
        at.counter = weir_counter_new(1);
        at.group = weir_waitgroup_new();
        weir_waitgroup_add(at.group, 1);
        at.mailbox = weir_mailbox_new(NULL);
        at.watch = weir_watch_new(NULL);
        at.subscriber = weir_topic_subscribe("news", 1);
        at.semaphore = weir_semaphore_new(0);
        at.pool = weir_pool_new(NULL);
        at.barrier = weir_barrier_new(2);
        at.rate = weir_rate_new(1, FAR, 1);
        CU_ASSERT_EQUAL(weir_rate_try_take(at.rate, 1), 0);
        at.condition = weir_condition_new();
        holder = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(holder, weir_guard_acquire_new(at.guard, nothing, NULL));
        weir_series_push(holder, timer());
        weir_series_start(holder);
        weir_test_pass(0);
}

static inline void
end_points(void)
{
        weir_series_cancel(holder);
        weir_series_unref(holder);
        weir_channel_unref(at.empty);
        weir_channel_unref(at.full);
        weir_guard_unref(at.guard);
        weir_counter_unref(at.counter);
        weir_waitgroup_done(at.group);
        weir_waitgroup_free(at.group);
        weir_mailbox_unref(at.mailbox);
        weir_watch_unref(at.watch);
        weir_subscriber_unref(at.subscriber);
        weir_semaphore_unref(at.semaphore);
        weir_pool_unref(at.pool);
        weir_barrier_unref(at.barrier);
        weir_rate_unref(at.rate);
        weir_condition_unref(at.condition);
        weir_test_end();
        weir_fd_forget(at.fd);
        close(at.pipe[0]);
        close(at.pipe[1]);
}

#endif
