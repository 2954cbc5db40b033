/* bench/cost/sync.c: what channels, and all that tasks wait at, cost. */
#include <stdint.h>

#include <weir/weir.h>

#include "cost.h"

static char message;
static weir_channel *channel;
static weir_guard *guard;
static weir_semaphore *semaphore;
static weir_pool *pool;
static weir_waitgroup *group;

static void
prepare(const struct cost_case *self)
{
        (void)self;
        channel = weir_channel_new(1000, NULL);
        guard = weir_guard_new();
        semaphore = weir_semaphore_new(1);
        pool = weir_pool_new(NULL);
        group = weir_waitgroup_new();
        cost_must(channel && guard && semaphore && pool && group, "preparation");
        weir_pool_put(pool, &message);
}

static void
post_and_poll(size_t index)
{
        void *received;

        (void)index;
        weir_channel_post(channel, &message);
        cost_must(weir_channel_poll(channel, &received) == 0, "poll");
        cost_ended();
}

static void
send_and_receive(size_t index)
{
        (void)index;
        weir_task_start(weir_channel_receive_new(channel, cost_on_end, NULL));
        weir_task_start(weir_channel_send_new(channel, &message, NULL, NULL));
}

static void
start_select(size_t index)
{
        weir_task *select = weir_select_new(cost_on_end, NULL);

        (void)index;
        weir_select_receive(select, channel);
        weir_select_receive(select, channel);
        weir_task_start(select);
        weir_channel_post(channel, &message);
}

static void
send_to_mailbox(size_t index)
{
        weir_mailbox *mailbox = weir_mailbox_new(NULL);

        (void)index;
        weir_task_start(weir_mailbox_receive_new(mailbox, cost_on_end, NULL));
        weir_mailbox_send(mailbox, &message);
        weir_mailbox_unref(mailbox);
}

static void
send_to_named_mailbox(size_t index)
{
        (void)index;
        weir_task_start(weir_mailbox_new_named("reply-0001234", cost_on_end, NULL));
        weir_mailbox_send_named("reply-0001234", &message, WEIR_ALL);
}

static void
count(size_t index)
{
        weir_counter *counter = weir_counter_new(1);

        (void)index;
        weir_task_start(weir_counter_wait_new(counter, cost_on_end, NULL));
        weir_counter_count(counter, 1);
        weir_counter_unref(counter);
}

static void
on_guard(weir_task *task, void *context)
{
        weir_guard_release(guard, weir_series_of(task));
        cost_on_end(task, context);
}

static void
acquire_guard(size_t index)
{
        weir_series *series = weir_series_new(NULL, NULL);

        (void)index;
        weir_series_push(series, weir_guard_acquire_new(guard, on_guard, NULL));
        weir_series_start(series);
}

static void
on_token(weir_task *task, void *context)
{
        weir_semaphore_release(semaphore, 1);
        cost_on_end(task, context);
}

static void
acquire_token(size_t index)
{
        (void)index;
        weir_task_start(weir_semaphore_acquire_new(semaphore, 1, on_token, NULL));
}

static void
run_limited(size_t index)
{
        (void)index;
        weir_task_start(weir_limited_new(semaphore, 1, weir_empty_new(NULL, NULL), cost_on_end, NULL));
}

static void
on_object(weir_task *task, void *context)
{
        weir_pool_put(pool, weir_pool_take_object(task));
        cost_on_end(task, context);
}

static void
take_object(size_t index)
{
        (void)index;
        weir_task_start(weir_pool_take_new(pool, on_object, NULL));
}

static void
meet(size_t index)
{
        weir_barrier *barrier = weir_barrier_new(2);

        (void)index;
        weir_task_start(weir_barrier_arrive_new(barrier, NULL, NULL));
        weir_task_start(weir_barrier_arrive_new(barrier, cost_on_end, NULL));
        weir_barrier_unref(barrier);
}

static void
signal_condition(size_t index)
{
        weir_condition *condition = weir_condition_new();

        (void)index;
        weir_task_start(weir_conditional_new(condition, weir_empty_new(NULL, NULL), cost_on_end, NULL));
        weir_condition_signal(condition);
        weir_condition_unref(condition);
}

static void
add_and_be_done(size_t index)
{
        (void)index;
        weir_waitgroup_add(group, 1);
        weir_waitgroup_done(group);
        cost_must(weir_waitgroup_wait(group, 0) == 0, "wait");
        cost_ended();
}

#define CASE(text, function)                                                                         \
        {                                                                                            \
                .name = text, .count = 4000, .slice = 200, .prepare = prepare, .operation = function \
        }

const struct cost_case cost_sync_cases[] = {
        CASE("message of a channel, posted and polled", post_and_poll),
        CASE("message of a channel, sent and received by tasks", send_and_receive),
        CASE("select of two channels", start_select),
        CASE("message of a mailbox", send_to_mailbox),
        CASE("message of a named mailbox", send_to_named_mailbox),
        CASE("counter", count),
        CASE("guard, acquired and released", acquire_guard),
        CASE("token of a semaphore", acquire_token),
        CASE("task limited by a semaphore", run_limited),
        CASE("object of a pool, taken and put back", take_object),
        CASE("barrier of two", meet),
        CASE("conditional task", signal_condition),
        CASE("wait group: add, done and wait", add_and_be_done),
        {0},
};
