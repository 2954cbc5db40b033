/* test/fiber_calls_test.c: what fibers take from objects, on the virtual clock: at once, after a wait, and when they end early at
 * the same time. */
#include "test/fiber_fixture.h"

#define FAR WEIR_SEC(100000)

static struct {
        weir_semaphore *semaphore;
        weir_pool *pool;
        weir_counter *counter;
        weir_channel *empty, *full;
        weir_waitgroup *group;
} of;

static int objects[2];
static _Atomic int dropped;

static void
drop(void *message)
{
        (void)message;
        dropped++;
}

static void
begin(uint64_t tokens)
{
        weir_test_begin_virtual();
        of.semaphore = weir_semaphore_new(tokens);
        of.pool = weir_pool_new(NULL);
        of.counter = weir_counter_new(2);
        of.empty = weir_channel_new(1, drop);
        of.full = weir_channel_new(1, drop);
        CU_ASSERT_EQUAL(weir_channel_post(of.full, &objects[0]), 0);
        of.group = weir_waitgroup_new();
        dropped = 0;
}

static void
end(void)
{
        weir_semaphore_unref(of.semaphore);
        weir_pool_unref(of.pool);
        weir_counter_unref(of.counter);
        weir_channel_unref(of.empty);
        weir_channel_unref(of.full);
        weir_waitgroup_free(of.group);
        weir_test_end();
}

static void
run(weir_fiber_fn *function)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new_as("test", function, NULL, NULL)), 0);
}

/* A task that acts in a second. */
static void
in_a_second(weir_task_fn *act)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), act, NULL)), 0);
}

/* -- tokens -- */

static void
release_one(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_semaphore_release(of.semaphore, 1), 0);
}

static void
close_semaphore(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_semaphore_close(of.semaphore), 0);
}

static int
acquire_two(void *context)
{
        weir_nsec *when = context;
        int status = weir_fiber_acquire_tokens(of.semaphore, 2);

        *when = weir_now();
        return status;
}

static int
acquire_tokens(void *context)
{
        weir_nsec began = weir_now(), when = 0;

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 2), 0);
        CU_ASSERT_EQUAL(weir_semaphore_available(of.semaphore), 0);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 0), 0);
        in_a_second(release_one);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 1), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(1));

        /* Nobody overtakes a fiber that wants more. */
        weir_group *group = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(acquire_two, NULL, &when)), 0);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), 0);
        CU_ASSERT_EQUAL(weir_semaphore_release(of.semaphore, 1), 0);
        in_a_second(release_one);
        began = weir_now();
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(of.semaphore, 1), -EAGAIN);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        CU_ASSERT_EQUAL(when - began, WEIR_SEC(1));

        in_a_second(close_semaphore);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 1), -EPIPE);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 1), -EPIPE);
        CU_ASSERT_EQUAL(weir_semaphore_release(of.semaphore, 2), 0);
        return 0;
}

static int
acquire_wrongly(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 3), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(NULL, 1), -ENOMEM);
        CU_ASSERT_EQUAL(weir_semaphore_available(of.semaphore), 2);
        return 0;
}

static void
tokens_are_acquired(void)
{
        begin(2);
        run(acquire_tokens);
        end();
        begin(2);
        run(acquire_wrongly);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 1), -EDEADLK);
        CU_ASSERT_EQUAL(weir_semaphore_available(of.semaphore), 2);
        end();
}

/* -- objects -- */

static void
put_one(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_pool_put(of.pool, &objects[0]), 0);
}

static int
take_objects(void *context)
{
        weir_nsec began = weir_now();
        void *object = context;

        CU_ASSERT_EQUAL(weir_pool_put(of.pool, &objects[0]), 0);
        CU_ASSERT_EQUAL(weir_pool_put(of.pool, &objects[1]), 0);
        CU_ASSERT_EQUAL(weir_fiber_take(of.pool, &object), 0);
        CU_ASSERT_PTR_EQUAL(object, &objects[1]);
        CU_ASSERT_EQUAL(weir_fiber_take(of.pool, &object), 0);
        CU_ASSERT_PTR_EQUAL(object, &objects[0]);
        CU_ASSERT_EQUAL(weir_now(), began);
        in_a_second(put_one);
        CU_ASSERT_EQUAL(weir_fiber_take(of.pool, &object), 0);
        CU_ASSERT_PTR_EQUAL(object, &objects[0]);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(1));

        /* It is the fiber's: no await puts it back. */
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(weir_pool_available(of.pool), 0);
        CU_ASSERT_EQUAL(weir_fiber_take(NULL, &object), -ENOMEM);
        CU_ASSERT_PTR_NULL(object);
        return 0;
}

static void
objects_are_taken(void)
{
        void *object = objects;

        begin(0);
        run(take_objects);
        CU_ASSERT_EQUAL(weir_pool_put(of.pool, &objects[0]), 0);
        CU_ASSERT_EQUAL(weir_fiber_take(of.pool, &object), -EDEADLK);
        CU_ASSERT_PTR_NULL(object);
        CU_ASSERT_EQUAL(weir_pool_available(of.pool), 1);
        end();
}

/* -- counters -- */

static void
count_two(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_counter_count(of.counter, 2), 2);
}

static int
wait_for_count(void *context)
{
        weir_nsec began = weir_now();

        (void)context;
        in_a_second(count_two);
        CU_ASSERT_EQUAL(weir_fiber_wait(of.counter), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_fiber_wait(of.counter), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_fiber_wait(NULL), -ENOMEM);
        return 0;
}

static void
counts_are_waited_for(void)
{
        begin(0);
        CU_ASSERT_EQUAL(weir_fiber_wait(of.counter), -EDEADLK);
        run(wait_for_count);
        end();
}

/* -- waitgroups -- */

static void
be_done(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_waitgroup_done(of.group);
}

/* The next round begins at once. */
static void
be_done_and_add(weir_task *task, void *context)
{
        be_done(task, context);
        weir_waitgroup_add(of.group, 1);
}

static int
wait_for_group(void *context)
{
        weir_nsec *when = context;
        int status = weir_fiber_wait_done(of.group, WEIR_FOREVER);

        *when = weir_now();
        return status;
}

static int
wait_until_done(void *context)
{
        weir_nsec began = weir_now(), when[3];

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_FOREVER), 0);
        weir_waitgroup_add(of.group, 2);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, 0), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, -1), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now(), began);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_SEC(1)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(1));

        /* Several wait, and what is added right after the last done does not keep them. */
        weir_waitgroup_done(of.group);
        weir_group *group = weir_group_open();
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(weir_group_start(group, weir_fiber_new(wait_for_group, NULL, &when[i])), 0);
        in_a_second(be_done_and_add);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(when[i] - began, WEIR_SEC(2));

        /* Another round. */
        in_a_second(be_done);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_SEC(5)), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(3));
        CU_ASSERT_EQUAL(weir_fiber_wait_done(NULL, WEIR_FOREVER), -ENOMEM);

        /* The group may go behind a wait. */
        weir_waitgroup_add(of.group, 1);
        in_a_second(be_done);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_FOREVER), 0);
        weir_waitgroup_free(of.group);
        of.group = NULL;
        return 0;
}

static int
start_and_wait(void *context)
{
        weir_nsec began = weir_now();

        (void)context;
        for (unsigned i = 1; i <= 3; i++)
                CU_ASSERT_EQUAL(weir_task_start_waited(weir_timer_new(WEIR_SEC(i), NULL, NULL), of.group), 0);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(3));
        return 0;
}

static void
work_is_waited_for(void)
{
        begin(0);
        run(wait_until_done);
        end();
        begin(0);
        run(start_and_wait);
        end();
}

static void
wait_in_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_FOREVER), -EDEADLK);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, 0), -ETIMEDOUT);
}

/* The thread waits as long as the timer takes. */
static void
a_thread_waits_as_a_fiber_does(void)
{
        begin(0);
        weir_waitgroup_add(of.group, 1);
        in_a_second(be_done);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, 1), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(wait_in_callback, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_FOREVER), 0);
        end();
}

static void
free_while_a_fiber_waits(void)
{
        static weir_nsec when;

        begin(0);
        weir_waitgroup_add(of.group, 1);
        weir_task_start(weir_fiber_new(wait_for_group, NULL, &when));
        weir_test_pass(1);
        weir_waitgroup_free(of.group);
}

/* What has ended early does not wait any more. */
static void
free_is_for_groups_that_nobody_waits_for(void)
{
        weir_nsec when;

        weir_test_aborts(free_while_a_fiber_waits, "weir_waitgroup_free: a fiber waits");
        begin(0);
        weir_waitgroup_add(of.group, 1);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_fiber_new(wait_for_group, NULL, &when));
        weir_series_start(series);
        weir_test_pass(1);
        weir_series_cancel(series);
        weir_test_pass(1);
        weir_series_unref(series);
        end();
}

/* -- several channels -- */

/* What is possible at once: the first in the array, by a message or by a closed channel. */
static int
select_at_once(void *context)
{
        struct weir_case cases[] = {{.receive = of.empty}, {.receive = of.full}, {.send = of.empty, .message = &objects[1]}};
        weir_nsec began = weir_now();

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 3), 1);
        CU_ASSERT(cases[1].status == 0 && cases[1].message == &objects[0]);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 3), 2);
        CU_ASSERT_EQUAL(cases[2].status, 0);
        cases[0].is_off = true;
        CU_ASSERT_EQUAL(weir_fiber_select_within(cases, 3, 0), -ETIMEDOUT);
        cases[0].is_off = false;
        CU_ASSERT_EQUAL(weir_fiber_select_within(cases, 3, 0), 0);
        CU_ASSERT(cases[0].status == 0 && cases[0].message == &objects[1]);
        CU_ASSERT_EQUAL(weir_channel_close(of.full), 0);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 2), 1);
        CU_ASSERT(cases[1].status == -EPIPE && cases[1].message == NULL);
        CU_ASSERT_EQUAL(weir_channel_close(of.empty), 0);
        CU_ASSERT_EQUAL(weir_fiber_select(&cases[2], 1), 0);
        CU_ASSERT(cases[2].status == -EPIPE && cases[2].message == &objects[1]);
        CU_ASSERT_EQUAL(weir_now(), began);
        CU_ASSERT_EQUAL(dropped, 0);
        return 0;
}

static void
post_one(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_channel_post(of.empty, &objects[1]), 0);
}

static void
receive_one(weir_task *task, void *context)
{
        void *message;

        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_channel_poll(of.full, &message), 0);
}

static void
close_both(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_channel_close(of.full), 0);
        CU_ASSERT_EQUAL(weir_channel_close(of.empty), 0);
}

static int
select_after_a_wait(void *context)
{
        struct weir_case cases[] = {{.receive = of.empty},
                                    {.receive = of.full, .is_off = true},
                                    {.send = of.full, .message = &objects[1]},
                                    {.send = of.full, .message = &objects[1]}};
        weir_nsec began = weir_now();

        (void)context;
        in_a_second(post_one);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 4), 0);
        CU_ASSERT(cases[0].status == 0 && cases[0].message == &objects[1]);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(dropped, 0); /* what was not sent is the fiber's */

        CU_ASSERT_EQUAL(weir_fiber_select_within(cases, 4, WEIR_SEC(1)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(dropped, 0);

        in_a_second(receive_one);
        CU_ASSERT_EQUAL(weir_fiber_select_within(cases, 4, WEIR_SEC(2)), 2);
        CU_ASSERT_EQUAL(cases[2].status, 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(3));
        CU_ASSERT_EQUAL(weir_channel_length(of.full), 1); /* one message, once */
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(dropped, 0);

        in_a_second(close_both);
        CU_ASSERT_EQUAL(weir_fiber_select(&cases[2], 2), 0);
        CU_ASSERT_EQUAL(cases[2].status, -EPIPE);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 1), 0);
        CU_ASSERT(cases[0].status == -EPIPE && cases[0].message == NULL);
        CU_ASSERT_EQUAL(dropped, 0);
        return 0;
}

static int
select_wrongly(void *context)
{
        struct weir_case cases[WEIR_SELECT_MAX + 1] = {{.receive = of.empty, .send = of.empty}};

        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 1), -EINVAL);
        cases[0] = (struct weir_case){.receive = of.empty, .is_off = true};
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, 2), -ENOMEM);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, WEIR_SELECT_MAX + 1), -E2BIG);
        for (size_t i = 0; i < WEIR_SELECT_MAX; i++)
                cases[i] = (struct weir_case){.send = of.full, .message = &objects[1]};
        cases[WEIR_SELECT_MAX - 1] = (struct weir_case){.receive = of.empty};
        in_a_second(post_one);
        CU_ASSERT_EQUAL(weir_fiber_select(cases, WEIR_SELECT_MAX), WEIR_SELECT_MAX - 1);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(dropped, 0);
        return 0;
}

static void
fibers_select(void)
{
        struct weir_case one = {.receive = of.full};

        begin(0);
        run(select_at_once);
        end();
        begin(0);
        run(select_after_a_wait);
        end();
        CU_ASSERT_EQUAL(dropped, 1); /* it has lain in the channel */
        begin(0);
        run(select_wrongly);
        one.receive = of.full;
        CU_ASSERT_EQUAL(weir_fiber_select(&one, 1), -EDEADLK);
        CU_ASSERT_EQUAL(weir_channel_length(of.full), 1);
        end();
}

/* -- a deadline, and what is there when the fiber has ended early -- */

static int
wait_until_the_deadline(void *context)
{
        void *object = context;

        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_fiber_series(), WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 1), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_pool_put(of.pool, objects), 0);
        CU_ASSERT_EQUAL(weir_semaphore_release(of.semaphore, 1), 0);
        CU_ASSERT_EQUAL(weir_fiber_acquire_tokens(of.semaphore, 1), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_take(of.pool, &object), -ETIMEDOUT);
        CU_ASSERT_PTR_NULL(object);
        CU_ASSERT_EQUAL(weir_fiber_wait(of.counter), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_wait_done(of.group, WEIR_FOREVER), -ETIMEDOUT);
        struct weir_case one = {.receive = of.full};
        CU_ASSERT_EQUAL(weir_fiber_select(&one, 1), -ETIMEDOUT);
        CU_ASSERT_PTR_NULL(one.message);
        return 0;
}

static void
nothing_is_taken_after_the_end(void)
{
        begin(0);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(wait_until_the_deadline, NULL, NULL)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_pool_available(of.pool), 1);
        CU_ASSERT_EQUAL(weir_semaphore_available(of.semaphore), 1);
        CU_ASSERT_EQUAL(weir_channel_length(of.full), 1);
        end();
}

/* -- what is given at the time of a cancel: the fiber has it, or it is still there -- */

static int status;
static void *object;

static int
get_tokens(void *context)
{
        (void)context;
        status = weir_fiber_acquire_tokens(of.semaphore, 1);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        return 0;
}

static void
give_tokens(void)
{
        release_one(NULL, NULL);
}

static uint64_t
tokens_there(void)
{
        return weir_semaphore_available(of.semaphore);
}

static int
get_object(void *context)
{
        (void)context;
        status = weir_fiber_take(of.pool, &object);
        CU_ASSERT_PTR_EQUAL(object, status ? NULL : &objects[0]);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        return 0;
}

static void
give_object(void)
{
        put_one(NULL, NULL);
}

static uint64_t
objects_there(void)
{
        return weir_pool_available(of.pool);
}

static int
get_message(void *context)
{
        struct weir_case cases[] = {{.send = of.full, .message = &objects[0]}, {.receive = of.empty}};

        (void)context;
        int winner = weir_fiber_select(cases, 2);
        status = winner < 0 ? winner : cases[winner].status;
        CU_ASSERT(winner < 0 || winner == 1);
        CU_ASSERT_PTR_EQUAL(cases[1].message, status ? NULL : &objects[1]);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        CU_ASSERT_EQUAL(dropped, 0);
        return 0;
}

static void
give_message(void)
{
        post_one(NULL, NULL);
}

static uint64_t
messages_there(void)
{
        return weir_channel_length(of.empty);
}

static int
put_message(void *context)
{
        struct weir_case cases[] = {{.send = of.full, .message = &objects[1]}, {.receive = of.empty}};

        (void)context;
        int winner = weir_fiber_select(cases, 2);
        status = winner < 0 ? winner : cases[winner].status;
        CU_ASSERT(winner <= 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        CU_ASSERT_EQUAL(dropped, 0);
        return 0;
}

static void
make_room(void)
{
        receive_one(NULL, NULL);
}

static uint64_t
room_there(void)
{
        return 1 - weir_channel_length(of.full);
}

static int
get_zero(void *context)
{
        (void)context;
        weir_waitgroup_add(of.group, 1);
        status = weir_fiber_wait_done(of.group, WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        return 0;
}

static void
give_zero(void)
{
        weir_waitgroup_done(of.group);
}

/* Nothing is taken. */
static uint64_t
zero_there(void)
{
        return status == 0 ? 0 : 1;
}

static const struct gift {
        weir_fiber_fn *get;
        void (*give)(void);
        uint64_t (*there)(void);
} gifts[] = {
        {get_tokens, give_tokens, tokens_there},     {get_object, give_object, objects_there},
        {get_message, give_message, messages_there}, {put_message, make_room, room_there},
        {get_zero, give_zero, zero_there},
};

static const struct gift *gift;

/* Both in one callback: the fiber has not gone on yet when the second comes. */
static void
give_and_cancel(weir_task *task, void *series)
{
        (void)task;
        gift->give();
        weir_series_cancel(series);
}

static void
cancel_and_give(weir_task *task, void *series)
{
        (void)task;
        weir_series_cancel(series);
        gift->give();
}

static void
try_gift(weir_task_fn *both)
{
        begin(0);
        status = 1;
        object = NULL;
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_fiber_new_as("given", gift->get, NULL, NULL));
        weir_series_start(series);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(status, 1);
        weir_task_start(weir_empty_new(both, series));
        weir_test_pass(1);
        CU_ASSERT(status == 0 || (both == cancel_and_give && status == -ECANCELED));
        CU_ASSERT_EQUAL(gift->there(), status == 0 ? 0 : 1);
        weir_series_unref(series);
        end();
}

static void
nothing_is_lost_at_a_cancel(void)
{
        for (size_t i = 0; i < sizeof gifts / sizeof *gifts; i++) {
                gift = &gifts[i];
                try_gift(give_and_cancel);
                try_gift(cancel_and_give);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(tokens_are_acquired),
                WEIR_TEST(objects_are_taken),
                WEIR_TEST(counts_are_waited_for),
                WEIR_TEST(work_is_waited_for),
                WEIR_TEST(a_thread_waits_as_a_fiber_does),
                WEIR_TEST(free_is_for_groups_that_nobody_waits_for),
                WEIR_TEST(fibers_select),
                WEIR_TEST(nothing_is_taken_after_the_end),
                WEIR_TEST(nothing_is_lost_at_a_cancel),
        };

        return weir_test_main("fiber_calls", tests, sizeof tests / sizeof *tests);
}
