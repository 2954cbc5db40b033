/* test/fiber_await_test.c: tasks of all kinds that a fiber awaits, on the virtual clock. */
#include "test/fiber_fixture.h"

static struct weir_test_record record;

/* -- time -- */

static int
await_timers(void *context)
{
        weir_nsec began = weir_now();

        (void)context;
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_timer_new(WEIR_SEC(1), weir_test_done, &record), &record, 0);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(1));
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_timer_new_named("t", WEIR_SEC(1), weir_test_done, &record), &record, 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_timer_new_until(began + WEIR_SEC(5), weir_test_done, &record), &record, 0);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(5));
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_timer_new_at(weir_wall_now() + WEIR_SEC(1), weir_test_done, &record), &record, 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_timer_new_boottime(WEIR_SEC(1), weir_test_done, &record), &record, 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_timer_new(0, weir_test_done, &record), &record, 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_timer_new(-1, weir_test_done, &record), &record, 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_empty_new(weir_test_done, &record), &record, 0);
        CU_ASSERT_EQUAL(weir_await(weir_timer_new(1, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_await(weir_empty_new(NULL, NULL)), 0);
        return 0;
}

static void
timers_are_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_timers);
}

struct ticks {
        _Atomic int calls, ticks;
        int last;
};

static void
tick(weir_task *ticker, void *context)
{
        struct ticks *ticks = context;

        ticks->calls++;
        CU_ASSERT(!weir_fiber_is_running());
        if (weir_task_status(ticker) == -EINPROGRESS) {
                if (++ticks->ticks == 3)
                        weir_ticker_stop(ticker);
        } else {
                ticks->last = weir_task_status(ticker);
        }
}

static int
await_tickers(void *context)
{
        struct ticks ticks = {.last = 1};
        weir_nsec began = weir_now();

        (void)context;
        weir_task *ticker = weir_ticker_new(WEIR_SEC(1), WEIR_TICK_SKIP, tick, &ticks);
        CU_ASSERT_EQUAL(weir_await(ticker), 0);
        CU_ASSERT(ticks.calls == 4 && ticks.ticks == 3 && ticks.last == 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(3));

        ticks = (struct ticks){.last = 1};
        ticker = weir_ticker_new(WEIR_SEC(1), WEIR_TICK_BURST, tick, &ticks);
        weir_ticker_set_limit(ticker, 2);
        CU_ASSERT_EQUAL(weir_await(ticker), 0);
        CU_ASSERT(ticks.calls == 3 && ticks.ticks == 2 && ticks.last == 0);

        ticks = (struct ticks){.last = 1};
        CU_ASSERT_EQUAL(weir_await_within(weir_ticker_new(WEIR_SEC(2), WEIR_TICK_DELAY, tick, &ticks), WEIR_SEC(5)), -ETIMEDOUT);
        CU_ASSERT(ticks.calls == 3 && ticks.ticks == 2 && ticks.last == -ETIMEDOUT);
        return 0;
}

static void
of_a_ticker_the_end_is_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_tickers);
}

/* -- flows -- */

static void
add_one(void *context)
{
        atomic_fetch_add((_Atomic int *)context, 1);
}

static void
fail(void *context)
{
        (void)context;
        weir_go_fail(-EIO);
}

static weir_task *
make_timer(void *context)
{
        return ++*(int *)context <= 3 ? weir_timer_new(WEIR_SEC(1), NULL, NULL) : NULL;
}

static weir_task *
make_failing(void *context)
{
        static _Atomic int count;

        return weir_go_new(NULL, ++*(int *)context < 3 ? fail : add_one, NULL, &count);
}

static int
await_flows(void *context)
{
        _Atomic int count = 0;

        (void)context;
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(series, weir_go_new(NULL, add_one, NULL, &count));
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_module_new(series, weir_test_done, &record), &record, 0);
        CU_ASSERT_EQUAL(count, 1);

        weir_task *task = weir_parallel_new(weir_test_done, &record);
        for (unsigned i = 0; i < 3; i++)
                weir_parallel_add(task, weir_timer_new(i * WEIR_SEC(1), NULL, NULL));
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(task, &record, 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_parallel_new(weir_test_done, &record), &record, 0);

        task = weir_race_new(weir_test_done, &record);
        weir_race_add(task, weir_timer_new(WEIR_SEC(2), NULL, NULL));
        weir_race_add(task, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_EQUAL(weir_race_winner(task), 1);
        WEIR_TEST_GIVEN_BACK(&record);

        task = weir_graph_new(weir_test_done, &record);
        weir_graph_precede(weir_graph_add(task, weir_timer_new(WEIR_SEC(1), NULL, NULL), "a"),
                           weir_graph_add(task, weir_go_new(NULL, fail, NULL, NULL), "b"));
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(task, &record, -EIO);
        return 0;
}

static void
combinators_are_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_flows);
}

static int
await_makers(void *context)
{
        const struct weir_retry_config config = {.size = sizeof config, .attempts = 3};
        int made = 0;

        (void)context;
        weir_task *task = weir_retry_new(&config, make_failing, NULL, &made);
        CU_ASSERT_EQUAL(weir_await(task), 0);
        CU_ASSERT_EQUAL(made, 3);
        CU_ASSERT_EQUAL(weir_retry_attempts(task), 3);
        made = 0;
        CU_ASSERT_EQUAL(weir_await(weir_repeater_new(make_timer, NULL, &made)), 0);
        CU_ASSERT_EQUAL(made, 4);
        made = 0;
        CU_ASSERT_EQUAL(weir_await(weir_dynamic_new(make_timer, NULL, &made)), 0);
        CU_ASSERT_EQUAL(made, 1);
        CU_ASSERT_EQUAL(weir_await(weir_timeout_new(weir_timer_new(WEIR_SEC(2), NULL, NULL), WEIR_SEC(1))), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_await(weir_timeout_new(weir_timer_new(WEIR_SEC(2), NULL, NULL), WEIR_SEC(3))), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        return 0;
}

static void
what_makes_tasks_is_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_makers);
}

static int
await_functions(void *context)
{
        _Atomic int count = 0;

        (void)context;
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_go_new("q", fail, weir_test_done, &record), &record, -EIO);
        CU_ASSERT_EQUAL(weir_await(weir_go_new("q", add_one, NULL, &count)), 0);
        CU_ASSERT_EQUAL(weir_await(weir_go_new_timed(NULL, WEIR_SEC(1), add_one, NULL, &count)), 0);
        CU_ASSERT_EQUAL(weir_await(weir_go_new_timed("q", WEIR_SEC(1), fail, NULL, NULL)), -EIO);
        CU_ASSERT_EQUAL(weir_fiber_go(add_one, &count), 0);
        CU_ASSERT_EQUAL(weir_fiber_go(fail, NULL), -EIO);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(count, 3);
        return 0;
}

static void
functions_are_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_functions);
}

/* -- waits -- */

/* Something that another task of the group does a second later. */
static void
act_later(weir_group *group, weir_task_fn *act, void *object)
{
        CU_ASSERT_EQUAL(weir_group_start(group, weir_timer_new(WEIR_SEC(1), act, object)), 0);
}

#define ACT(name, type, statement)                        \
        static void name(weir_task *timer, void *context) \
        {                                                 \
                type object = context;                    \
                (void)timer;                              \
                statement;                                \
        }

ACT(count, weir_counter *, weir_counter_count(object, 1))
ACT(send_mail, weir_mailbox *, weir_mailbox_send(object, &record))
ACT(signal_condition, weir_condition *, weir_condition_signal(object))
ACT(post, weir_channel *, weir_channel_post(object, &record))
ACT(poll_channel, weir_channel *, CU_ASSERT_EQUAL(weir_channel_poll(object, &(void *){NULL}), 0))
ACT(close_channel, weir_channel *, weir_channel_close(object))
ACT(release, weir_semaphore *, weir_semaphore_release(object, 2))
ACT(put, weir_pool *, weir_pool_put(object, &record))
ACT(set_watch, weir_watch *, weir_watch_set(object, &record))
ACT(publish, const char *, CU_ASSERT_EQUAL(weir_topic_publish(object, "word", 4), 1))
ACT(end_promise, weir_task *, CU_ASSERT_EQUAL(weir_promise_end_with(object, -EIO, &record, NULL), 0))

static int
await_events(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        weir_counter *counter = weir_counter_new(1);
        act_later(group, count, counter);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_counter_wait_new(counter, weir_test_done, &record), &record, 0);
        weir_counter_unref(counter);

        weir_condition *condition = weir_condition_new();
        act_later(group, signal_condition, condition);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(
                weir_conditional_new(condition, weir_timer_new(WEIR_SEC(1), NULL, NULL), weir_test_done, &record), &record, 0);
        weir_condition_unref(condition);

        weir_mailbox *mailbox = weir_mailbox_new(NULL);
        act_later(group, send_mail, mailbox);
        weir_task *task = weir_mailbox_receive_new(mailbox, weir_test_done, &record);
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_PTR_EQUAL(weir_mailbox_message(task), &record);
        CU_ASSERT_PTR_EQUAL(weir_mailbox_take_message(task), &record);
        WEIR_TEST_GIVEN_BACK(&record);
        weir_mailbox_unref(mailbox);

        weir_watch *watch = weir_watch_new(NULL);
        act_later(group, set_watch, watch);
        task = weir_watch_wait_new(watch, 0, weir_test_done, &record);
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_PTR_EQUAL(weir_watch_value(task), &record);
        WEIR_TEST_GIVEN_BACK(&record);
        weir_watch_unref(watch);

        weir_subscriber *subscriber = weir_topic_subscribe("news", 4);
        act_later(group, publish, "news");
        task = weir_topic_receive_new(subscriber, weir_test_done, &record);
        WEIR_TEST_AWAITED(task, &record, 0);
        size_t size = 0;
        CU_ASSERT(memcmp(weir_topic_message(task, &size), "word", 4) == 0 && size == 4);
        WEIR_TEST_GIVEN_BACK(&record);
        weir_subscriber_unref(subscriber);

        task = weir_promise_new(NULL, weir_test_done, &record);
        act_later(group, end_promise, task);
        WEIR_TEST_AWAITED(task, &record, -EIO);
        CU_ASSERT_PTR_EQUAL(weir_promise_value(task), &record);
        WEIR_TEST_GIVEN_BACK(&record);
        return weir_group_close(group);
}

static void
what_others_bring_about_is_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_events);
}

static int
await_channels(void *context)
{
        weir_group *group = weir_group_open();
        weir_channel *channel = weir_channel_new(0, NULL), *full = weir_channel_new(1, NULL);
        void *message = &message;

        (void)context;
        act_later(group, poll_channel, channel);
        CU_ASSERT_EQUAL(weir_await(weir_channel_send_new(channel, &record, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_channel_post(full, &record), 0);
        weir_task *task = weir_channel_receive_new(full, weir_test_done, &record);
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_PTR_EQUAL(weir_channel_message(task), &record);
        WEIR_TEST_GIVEN_BACK(&record);

        act_later(group, post, full);
        task = weir_select_new(weir_test_done, &record);
        weir_select_receive(task, channel);
        weir_select_receive(task, full);
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_EQUAL(weir_select_winner(task), 1);
        CU_ASSERT_PTR_EQUAL(weir_select_take_message(task, 1), &record);
        WEIR_TEST_GIVEN_BACK(&record);

        CU_ASSERT_EQUAL(weir_channel_post(full, &record), 0);
        act_later(group, poll_channel, full);
        CU_ASSERT_EQUAL(weir_fiber_send(full, &record), 0);
        CU_ASSERT_EQUAL(weir_fiber_receive(full, &message), 0);
        CU_ASSERT_PTR_EQUAL(message, &record);
        act_later(group, post, full);
        message = NULL;
        CU_ASSERT_EQUAL(weir_fiber_receive(full, &message), 0);
        CU_ASSERT_PTR_EQUAL(message, &record);
        act_later(group, close_channel, full);
        CU_ASSERT_EQUAL(weir_fiber_receive(full, &message), -EPIPE);
        CU_ASSERT_PTR_NULL(message);
        CU_ASSERT_EQUAL(weir_fiber_send(full, &record), -EPIPE);
        act_later(group, close_channel, channel);
        CU_ASSERT_EQUAL(weir_fiber_send(channel, &record), -EPIPE);
        CU_ASSERT_EQUAL(weir_fiber_receive(NULL, &message), -ENOMEM);
        CU_ASSERT_EQUAL(weir_fiber_send(NULL, &record), -ENOMEM);
        weir_channel_unref(channel);
        weir_channel_unref(full);
        return weir_group_close(group);
}

static void
channels_are_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_channels);
}

static int
arrive(void *context)
{
        return weir_await(weir_barrier_arrive_new(context, NULL, NULL));
}

static int
await_shares(void *context)
{
        weir_group *group = weir_group_open();
        weir_semaphore *semaphore = weir_semaphore_new(0);

        (void)context;
        act_later(group, release, semaphore);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_semaphore_acquire_new(semaphore, 1, weir_test_done, &record), &record, 0);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(
                weir_limited_new(semaphore, 1, weir_timer_new(WEIR_SEC(1), NULL, NULL), weir_test_done, &record), &record, 0);
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 1);
        weir_semaphore_unref(semaphore);

        weir_pool *pool = weir_pool_new(NULL);
        act_later(group, put, pool);
        weir_task *task = weir_pool_take_new(pool, weir_test_done, &record);
        WEIR_TEST_AWAITED(task, &record, 0);
        CU_ASSERT_PTR_EQUAL(weir_pool_take_object(task), &record);
        WEIR_TEST_GIVEN_BACK(&record);
        weir_pool_unref(pool);

        weir_barrier *barrier = weir_barrier_new(3);
        weir_group_start(group, weir_fiber_new(arrive, NULL, barrier));
        weir_group_start(group, weir_fiber_new(arrive, NULL, barrier));
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_barrier_arrive_new(barrier, weir_test_done, &record), &record, 0);
        weir_barrier_unref(barrier);

        weir_rate *rate = weir_rate_new(1, WEIR_SEC(1), 1);
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_rate_take_new(rate, 1, weir_test_done, &record), &record, 0);
        weir_nsec began = weir_now();
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_rate_take_new(rate, 1, weir_test_done, &record), &record, 0);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        weir_rate_unref(rate);

        weir_guard *guard = weir_guard_new();
        WEIR_TEST_AWAITED_AND_GIVEN_BACK(weir_guard_acquire_new(guard, weir_test_done, &record), &record, 0);
        CU_ASSERT(weir_guard_is_held(guard, weir_fiber_series()));
        CU_ASSERT_EQUAL(weir_guard_release(guard, weir_fiber_series()), 0);
        weir_guard_unref(guard);
        return weir_group_close(group);
}

static void
what_is_shared_is_awaited(void)
{
        WEIR_TEST_IN_FIBER(await_shares);
}

/* -- fibers, errors -- */

static int
count_down(void *context)
{
        int left = *(int *)context;

        if (left == 0)
                return -EIO;
        int below = left - 1;
        return weir_await(weir_fiber_new(count_down, NULL, &below));
}

static int
await_fibers(void *context)
{
        int depth = 100;

        (void)context;
        CU_ASSERT_EQUAL(weir_await(weir_fiber_new_as("none", NULL, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_await(weir_fiber_new(count_down, NULL, &depth)), -EIO);
        CU_ASSERT_EQUAL(weir_await_within(weir_fiber_new(count_down, NULL, &depth), WEIR_SEC(1)), -EIO);
        return 0;
}

static void
fibers_are_awaited(void)
{
        CU_ASSERT_EQUAL(weir_test_run_fiber(await_fibers, NULL), 0);
}

/* A task that is refused calls nothing back, and is there until the next await. */
static int
await_bad_ones(void *context)
{
        (void)context;
        memset(&record, 0, sizeof record);
        weir_task *task = weir_test_recorded(weir_timer_new_named("", 1, weir_test_done, &record));
        CU_ASSERT_EQUAL(weir_await(task), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_status(task), -EINVAL);
        CU_ASSERT(record.calls == 0 && record.frees == 0);
        CU_ASSERT_EQUAL(weir_await(NULL), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&record);
        memset(&record, 0, sizeof record);
        CU_ASSERT_EQUAL(weir_await_within(weir_test_recorded(weir_timer_new_named("", 1, weir_test_done, &record)), 5), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        WEIR_TEST_NOT_CALLED(&record);
        CU_ASSERT_EQUAL(weir_await(weir_channel_receive_new(NULL, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_await(weir_go_new(NULL, NULL, NULL, NULL)), -EINVAL);
        memset(&record, 0, sizeof record);
        CU_ASSERT_EQUAL(weir_await(weir_test_recorded(weir_timer_new_named("", 1, weir_test_done, &record))), -EINVAL);
        CU_ASSERT_EQUAL(record.frees, 0);
        return 0; /* the end of the fiber frees the last one */
}

static void
bad_tasks_are_refused(void)
{
        WEIR_TEST_IN_FIBER(await_bad_ones);
        WEIR_TEST_NOT_CALLED(&record);
}

/* What a callback pushes runs before what the fiber awaits next; what the fiber pushes as well. */
static void
push_another(weir_task *task, void *context)
{
        weir_series_push(weir_series_of(task), weir_timer_new(WEIR_SEC(1), weir_test_done, context));
}

static int
push_and_await(void *context)
{
        struct weir_test_record pushed = {0};
        weir_nsec began = weir_now();

        (void)context;
        CU_ASSERT_EQUAL(weir_await(weir_timer_new(WEIR_SEC(1), push_another, &pushed)), 0);
        CU_ASSERT_EQUAL(pushed.calls, 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(pushed.calls, 1);
        CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(3));
        CU_ASSERT_EQUAL(weir_series_push(weir_fiber_series(), weir_timer_new(WEIR_SEC(1), weir_test_done, &pushed)), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(pushed.calls, 2);
        memset(&record, 0, sizeof record);
        CU_ASSERT_EQUAL(weir_series_push(weir_fiber_series(), weir_timer_new(WEIR_SEC(1), weir_test_done, &record)), 0);
        return 0; /* before its end, too */
}

static void
pushed_tasks_come_between(void)
{
        WEIR_TEST_IN_FIBER(push_and_await);
        CU_ASSERT_EQUAL(record.calls, 1);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(timers_are_awaited),        WEIR_TEST(of_a_ticker_the_end_is_awaited),
                WEIR_TEST(combinators_are_awaited),   WEIR_TEST(what_makes_tasks_is_awaited),
                WEIR_TEST(functions_are_awaited),     WEIR_TEST(what_others_bring_about_is_awaited),
                WEIR_TEST(channels_are_awaited),      WEIR_TEST(what_is_shared_is_awaited),
                WEIR_TEST(fibers_are_awaited),        WEIR_TEST(bad_tasks_are_refused),
                WEIR_TEST(pushed_tasks_come_between),
        };

        return weir_test_main("fiber_await", tests, sizeof tests / sizeof *tests);
}
