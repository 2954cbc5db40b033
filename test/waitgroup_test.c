/* test/waitgroup_test.c: threads that wait until others have done all units that were added.
 *
 * Limits are those of the virtual clock, where they are exact; on the real one a limit that must not come is a long one. */
#include "kernel/base/list.h"
#include "kernel/runtime/runtime.h"
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

/* -- without waiting -- */

static void
group_of_nothing_is_done(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, FAR), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), 0);
        weir_waitgroup_add(group, 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        weir_waitgroup_free(group);
}

static void
look_says_whether_all_are_done(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        for (unsigned round = 0; round < 3; round++) {
                weir_waitgroup_add(group, 2);
                weir_waitgroup_done(group);
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), -ETIMEDOUT);
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, INT64_MIN), -ETIMEDOUT);
                weir_waitgroup_done(group);
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), 0);
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, INT64_MIN), 0);
        }
        weir_waitgroup_free(group);
}

static void
group_that_could_not_be_made_is_accepted(void)
{
        weir_waitgroup_add(NULL, 1);
        weir_waitgroup_done(NULL);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(NULL, 0), -ENOMEM);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(NULL, WEIR_FOREVER), -ENOMEM);
        weir_waitgroup_free(NULL);
}

static void
count_may_be_as_large_as_said(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_waitgroup_add(group, (SIZE_MAX >> 2) - 1);
        weir_waitgroup_add(group, 1);
        weir_waitgroup_done(group);
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), -ETIMEDOUT);
        weir_waitgroup_free(group);
}

/* -- misuse -- */

static void
do_one_too_many(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_waitgroup_add(group, 2);
        for (unsigned i = 0; i < 3; i++)
                weir_waitgroup_done(group);
}

static void
add_one_too_many(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_waitgroup_add(group, SIZE_MAX >> 2);
        weir_waitgroup_add(group, 1);
}

static void
add_far_too_many(void)
{
        weir_waitgroup_add(weir_waitgroup_new(), SIZE_MAX);
}

/* -- waiting threads -- */

struct waiter {
        struct weir_test_thread thread; /* first */
        weir_waitgroup *group;
        weir_nsec limit;
        _Atomic bool returned;
        int result;
        weir_nsec at;
};

static void
wait_for_group(void *argument)
{
        struct waiter *waiter = argument;

        waiter->result = weir_waitgroup_wait(waiter->group, waiter->limit);
        waiter->at = weir_now();
        waiter->returned = true;
}

/* How the group begins, to see from outside how many wait: the word, the lock, the list. */
struct inside {
        _Atomic uint64_t word;
        struct weir__lock lock;
        struct weir__list waiters;
};

static unsigned
waiters_of(weir_waitgroup *group)
{
        struct inside *inside = (struct inside *)group;
        unsigned count = 0;

        weir__lock(&inside->lock);
        for (struct weir__link *link = weir__list_first(&inside->waiters); link; link = weir__list_next(&inside->waiters, link))
                count++;
        weir__unlock(&inside->lock);
        return count;
}

/* Deadlines on the virtual clock. */
static size_t
limits_set(void)
{
        struct weir__poller *poller = weir__pollers.at[0];

        weir__lock(&poller->lock);
        size_t count = poller->deadlines.queue.count;
        weir__unlock(&poller->lock);
        return count;
}

/* Returns when it waits. */
static void
waiter_start(struct waiter *waiter, weir_waitgroup *group, weir_nsec limit)
{
        unsigned before = waiters_of(group);

        *waiter = (struct waiter){.group = group, .limit = limit};
        weir_test_thread_start(&waiter->thread, wait_for_group, waiter);
        WEIR_TEST_EVENTUALLY(waiters_of(group) > before);
}

static void
free_while_a_thread_waits(void)
{
        static struct waiter waiter;
        weir_waitgroup *group = weir_waitgroup_new();

        weir_waitgroup_add(group, 1);
        waiter_start(&waiter, group, WEIR_FOREVER);
        weir_waitgroup_free(group);
}

static void
misuse_aborts_with_the_reason(void)
{
        weir_test_aborts(do_one_too_many, "weir_waitgroup_done: more are done than were added");
        weir_test_aborts(add_one_too_many, "weir_waitgroup_add: the count overflows");
        weir_test_aborts(add_far_too_many, "weir_waitgroup_add: the count overflows");
        weir_test_aborts(free_while_a_thread_waits, "weir_waitgroup_free: a thread waits");
}

static void
all_waiters_go_on_with_the_last_done(void)
{
        const weir_nsec limits[] = {WEIR_FOREVER, FAR, WEIR_FOREVER, WEIR_FOREVER - 1, INT64_C(1) << 62};
        struct waiter waiters[5];
        weir_waitgroup *group = weir_waitgroup_new();

        for (unsigned round = 0; round < 3; round++) {
                weir_waitgroup_add(group, 3);
                for (unsigned i = 0; i < 5; i++)
                        waiter_start(&waiters[i], group, limits[i]);
                weir_waitgroup_done(group);
                weir_waitgroup_add(group, 1);
                weir_waitgroup_done(group);
                weir_waitgroup_done(group);
                CU_ASSERT_EQUAL(waiters_of(group), 5);
                for (unsigned i = 0; i < 5; i++)
                        CU_ASSERT(!waiters[i].returned);
                weir_waitgroup_done(group);
                weir_waitgroup_add(group, 1); /* at once: it is another round */
                for (unsigned i = 0; i < 5; i++) {
                        weir_test_thread_join(&waiters[i].thread);
                        CU_ASSERT_EQUAL(waiters[i].result, 0);
                }
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), -ETIMEDOUT);
                weir_waitgroup_done(group);
        }
        weir_waitgroup_free(group);
}

/* A millisecond: never early, and others go on waiting. */
static void
limit_of_real_time_ends_its_wait_alone(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct waiter waiter;

        weir_waitgroup_add(group, 1);
        waiter_start(&waiter, group, WEIR_FOREVER);
        int64_t began = weir_test_now();
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_MSEC(1)), -ETIMEDOUT);
        CU_ASSERT(weir_test_now() - began >= WEIR_MSEC(1));
        CU_ASSERT(!waiter.returned);
        CU_ASSERT_EQUAL(waiters_of(group), 1);
        weir_waitgroup_done(group);
        weir_test_thread_join(&waiter.thread);
        CU_ASSERT_EQUAL(waiter.result, 0);
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 1), -ETIMEDOUT);
        weir_waitgroup_done(group);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        weir_waitgroup_free(group);
}

/* -- with the library -- */

static void
done_later(weir_task *task, void *group)
{
        (void)task;
        weir_waitgroup_done(group);
}

static void
callbacks_are_waited_for(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_real(2);
        for (unsigned round = 0; round < 10; round++) {
                weir_waitgroup_add(group, 100);
                for (unsigned i = 0; i < 100; i++)
                        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_USEC(i), done_later, group)), 0);
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, round % 2 ? FAR : WEIR_FOREVER), 0);
        }
        weir_test_end();
        weir_waitgroup_free(group);
}

/* -- what is started and waited for later -- */

static void
push_another(weir_task *task, void *next)
{
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), next), 0);
}

static void
started_tasks_and_series_are_waited_for_with_all_that_they_free(void)
{
        enum { EACH = 50 };
        static struct weir_test_record tasks[EACH], pushed[EACH], ends[EACH], contexts[EACH];
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_real(2);
        for (unsigned i = 0; i < EACH; i++) {
                weir_task *timer = weir_timer_new(WEIR_USEC(i), push_another, weir_test_empty(&pushed[i]));
                weir_series *series = weir_series_new(weir_test_series_done, &ends[i]);

                CU_ASSERT_EQUAL(weir_task_start_waited(timer, group), 0);
                weir_series_set_context(series, &contexts[i], weir_test_freed);
                weir_series_push(series, weir_test_empty(&tasks[i]));
                CU_ASSERT_EQUAL(weir_series_start_waited(series, group), 0);
        }
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        for (unsigned i = 0; i < EACH; i++) {
                WEIR_TEST_CALLED(&pushed[i], 0);
                WEIR_TEST_CALLED(&tasks[i], 0);
                WEIR_TEST_FREED_ELSEWHERE(&pushed[i]);
                WEIR_TEST_FREED_ELSEWHERE(&tasks[i]);
                CU_ASSERT_EQUAL(contexts[i].frees, 1);
                CU_ASSERT_EQUAL(ends[i].calls, 0); /* its context was replaced by one that has no calls */
                CU_ASSERT_EQUAL(contexts[i].calls, 1);
        }
        weir_test_end();
        weir_waitgroup_free(group);
}

static void
wait_for_what_was_started_lets_virtual_time_pass(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_timer_new(WEIR_SEC(5), NULL, NULL), group), 0);
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_timer_new(WEIR_SEC(9), NULL, NULL), group), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_SEC(7)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(7));
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(9));
        weir_test_end();
        weir_waitgroup_free(group);
}

static void
shutdown_ends_what_was_started_and_its_wait(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct waiter waiter;

        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_timer_new(FAR, NULL, NULL), group), 0);
        waiter_start(&waiter, group, WEIR_FOREVER);
        weir_test_end();
        weir_test_thread_join(&waiter.thread);
        CU_ASSERT_EQUAL(waiter.result, 0);
        weir_waitgroup_free(group);
}

static void
start_that_is_refused_does_not_count(void)
{
        struct weir_test_record task = {0}, end = {0};
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start_waited(NULL, group), -ENOMEM);
        CU_ASSERT_EQUAL(weir_series_start_waited(NULL, group), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_go_new(NULL, NULL, NULL, NULL), group), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_test_empty(&task), NULL), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&task);
        WEIR_TEST_FREED_HERE(&task);
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        weir_series_push(series, weir_go_new(NULL, NULL, NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_start_waited(series, group), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_start_waited(weir_series_new(weir_test_series_done, &end), NULL), -ENOMEM);
        CU_ASSERT_EQUAL(end.calls, 0);
        weir_test_end();
        task = (struct weir_test_record){0};
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_test_empty(&task), group), -ESHUTDOWN);
        WEIR_TEST_FREED_HERE(&task);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), 0);
        weir_waitgroup_free(group);
}

struct on_worker {
        weir_waitgroup *group;
        int looks[2], waits[2];
};

static void
try_on_worker(void *argument)
{
        struct on_worker *at = argument;

        at->looks[0] = weir_waitgroup_wait(at->group, 0);
        at->waits[0] = weir_waitgroup_wait(at->group, FAR);
        weir_waitgroup_done(at->group);
        at->looks[1] = weir_waitgroup_wait(at->group, 0);
        at->waits[1] = weir_waitgroup_wait(at->group, WEIR_FOREVER);
        weir_waitgroup_add(at->group, 1);
        weir_waitgroup_done(at->group);
}

static void
worker_may_look_and_must_not_wait(void)
{
        struct on_worker at = {.group = weir_waitgroup_new()};

        weir_test_begin_real(1);
        weir_waitgroup_add(at.group, 1);
        weir_test_act(0, try_on_worker, &at);
        weir_test_end();
        CU_ASSERT_EQUAL(at.looks[0], -ETIMEDOUT);
        CU_ASSERT_EQUAL(at.looks[1], 0);
        CU_ASSERT_EQUAL(at.waits[0], -EDEADLK);
        CU_ASSERT_EQUAL(at.waits[1], -EDEADLK);
        weir_waitgroup_free(at.group);
}

static void
shutdown_leaves_a_wait_on_the_real_clock_to_its_dones(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct waiter waiters[2];

        weir_test_begin_real(1);
        weir_waitgroup_add(group, 2);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(FAR, done_later, group)), 0);
        waiter_start(&waiters[0], group, WEIR_FOREVER);
        waiter_start(&waiters[1], group, FAR);
        weir_test_end(); /* the callback has run, with -ESHUTDOWN */
        CU_ASSERT_EQUAL(waiters_of(group), 2);
        weir_waitgroup_done(group);
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_join(&waiters[i].thread);
                CU_ASSERT_EQUAL(waiters[i].result, 0);
        }
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 1), -ETIMEDOUT);
        weir_waitgroup_free(group);
}

static weir_waitgroup *forked_group;

static void
use_in_forked_child(void)
{
        weir_waitgroup_done(forked_group);
        weir_waitgroup_add(forked_group, 1);
        if (weir_waitgroup_wait(forked_group, 0) != -ECHILD || weir_waitgroup_wait(forked_group, WEIR_FOREVER) != -ECHILD)
                _exit(1);
        weir_waitgroup_free(forked_group);
}

static void
forked_child_is_told_so(void)
{
        char text[256];
        struct waiter waiter;

        weir_test_begin_virtual();
        forked_group = weir_waitgroup_new();
        weir_waitgroup_add(forked_group, 1);
        waiter_start(&waiter, forked_group, WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_test_child(use_in_forked_child, text, sizeof text), 0);
        CU_ASSERT_STRING_EQUAL(text, "");
        weir_waitgroup_done(forked_group);
        weir_test_thread_join(&waiter.thread);
        weir_waitgroup_free(forked_group);
        weir_test_end();
}

/* -- on the virtual clock -- */

static void
wait_lets_time_jump(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_waitgroup_add(group, 2);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(3600), done_later, group)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(7200), done_later, group)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(9000), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(7200));
        CU_ASSERT(!weir__runtime_has_waiters());
        weir_test_end();
        weir_waitgroup_free(group);
}

static void
limit_is_one_of_virtual_time(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_SEC(60)), -ETIMEDOUT); /* though there is nothing else */
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(60));
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(100), done_later, group)), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 1), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_SEC(99)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_SEC(2)), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(160));
        CU_ASSERT(!weir__runtime_has_waiters());
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, INT64_C(1) << 61), -ETIMEDOUT);
        weir_test_end();
        weir_waitgroup_free(group);
}

/* The limit of the wait that the done has ended is in nobody's way. */
static void
limit_that_was_not_needed_leaves_nothing_behind(void)
{
        weir_waitgroup *group = weir_waitgroup_new();

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 100; i++) {
                weir_waitgroup_add(group, 1);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(10, done_later, group)), 0);
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_SEC(1)), 0);
        }
        CU_ASSERT_EQUAL(weir_now() - began, 1000);
        CU_ASSERT_EQUAL(limits_set(), 0);
        weir_test_pass(WEIR_SEC(10));
        weir_test_end();
        weir_waitgroup_free(group);
}

static void
of_limit_and_done_at_one_instant_the_first_started_is_decisive(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct waiter waiter;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 50; i++) {
                weir_waitgroup_add(group, 1);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(10, done_later, group)), 0);
                CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 10), 0);
        }
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_waitgroup_add(group, 1);
        waiter_start(&waiter, group, 10);
        WEIR_TEST_EVENTUALLY(limits_set() == 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(10, done_later, group)), 0);
        weir_clock_release();
        weir_test_thread_join(&waiter.thread);
        CU_ASSERT_EQUAL(waiter.result, -ETIMEDOUT);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), 0);
        weir_waitgroup_free(group);
}

static void
waiters_with_several_limits_end_each_at_its_own(void)
{
        const weir_nsec limits[] = {WEIR_SEC(2), WEIR_SEC(1), WEIR_FOREVER, WEIR_SEC(3), WEIR_SEC(100)};
        weir_waitgroup *group = weir_waitgroup_new();
        struct waiter waiters[5];

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(4), done_later, group)), 0);
        for (unsigned i = 0; i < 5; i++)
                waiter_start(&waiters[i], group, limits[i]);
        weir_clock_release();
        for (unsigned i = 0; i < 5; i++) {
                weir_test_thread_join(&waiters[i].thread);
                CU_ASSERT_EQUAL(waiters[i].result, limits[i] < WEIR_SEC(4) ? -ETIMEDOUT : 0);
                CU_ASSERT(waiters[i].at - began >= limits[i] || waiters[i].at - began >= WEIR_SEC(4));
        }
        CU_ASSERT(!weir__runtime_has_waiters());
        weir_test_end();
        weir_waitgroup_free(group);
}

static void
a_stepping_or_holding_thread_must_not_wait(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct waiter waiter;

        weir_test_begin_virtual();
        weir_waitgroup_add(group, 1);
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 10), -EDEADLK);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), -EDEADLK);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 0), -ETIMEDOUT);
        weir_clock_release();
        waiter_start(&waiter, group, WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_clock_advance(1), -EBUSY);
        weir_waitgroup_done(group);
        weir_test_thread_join(&waiter.thread);
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        weir_test_end();
        weir_waitgroup_free(group);
}

static void
step_an_hour(void *status)
{
        *(int *)status = weir_clock_advance(WEIR_SEC(3600));
}

static void
wait_is_refused_while_another_thread_lets_time_pass(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct weir_test_thread thread;
        struct weir_test_gate gate;
        int status = -1;

        weir_test_begin_virtual();
        weir_test_gate_hold(&gate, NULL);
        weir_waitgroup_add(group, 1);
        weir_test_thread_start(&thread, step_an_hour, &status);
        WEIR_TEST_EVENTUALLY(weir_clock_advance(-1) == -EBUSY);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, 10), -EBUSY);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), -EBUSY);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        CU_ASSERT_EQUAL(status, 0);
        weir_test_end();
        weir_waitgroup_free(group);
}

static void
shutdown_ends_a_wait_with_a_limit_of_virtual_time(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct weir_test_thread thread;
        struct weir_test_gate gate;
        struct waiter waiters[2];

        for (unsigned round = 0; round < 20; round++) {
                weir_test_begin_virtual();
                weir_test_gate_hold(&gate, NULL);
                weir_waitgroup_add(group, 1);
                waiter_start(&waiters[0], group, FAR);
                waiter_start(&waiters[1], group, WEIR_FOREVER);
                if (round % 2) {
                        WEIR_TEST_EVENTUALLY(limits_set() == 1);
                }
                weir_test_shutdown_begin_behind_gate(&thread);
                weir_test_gate_open(&gate);
                weir_test_thread_join(&waiters[0].thread);
                CU_ASSERT_EQUAL(waiters[0].result, -ESHUTDOWN);
                weir_test_thread_join(&thread);
                CU_ASSERT_EQUAL(waiters_of(group), 1);
                CU_ASSERT(!waiters[1].returned);
                weir_waitgroup_done(group);
                weir_test_thread_join(&waiters[1].thread);
                CU_ASSERT_EQUAL(waiters[1].result, 0);
                CU_ASSERT(!weir__runtime_has_waiters());
        }
        weir_waitgroup_free(group);
}

static void
wait_that_begins_during_a_shutdown_has_no_time(void)
{
        weir_waitgroup *group = weir_waitgroup_new();
        struct weir_test_thread thread;
        struct weir_test_gate gate;

        weir_test_begin_virtual();
        weir_waitgroup_add(group, 1);
        weir_test_gate_hold(&gate, NULL);
        weir_test_shutdown_begin_behind_gate(&thread);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, FAR), -ESHUTDOWN);
        CU_ASSERT_EQUAL(waiters_of(group), 0);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        CU_ASSERT(!weir__runtime_has_waiters());
        weir_waitgroup_free(group);
}

/* -- storms -- */

#define ROUNDS (WEIR_TEST_SANITIZED ? 10000 : 20000)

struct storm {
        weir_waitgroup *group;
        _Atomic(weir_waitgroup *) *mailbox;
        unsigned rounds;
        unsigned plain; /* written before the done, read after the wait */
};

static void
be_done_with_what_comes(void *argument)
{
        struct storm *storm = argument;

        for (unsigned i = 0; i < storm->rounds; i++) {
                weir_waitgroup *group;

                while (!(group = atomic_exchange(storm->mailbox, NULL)))
                        sched_yield();
                storm->plain++;
                weir_waitgroup_done(group);
        }
}

/* Each group is freed by its waiter at once, so that a done that touches it after the wake-up is seen. */
static void
group_may_be_freed_as_soon_as_its_wait_has_returned(void)
{
        static const weir_nsec limits[] = {WEIR_FOREVER, FAR, 0};
        _Atomic(weir_waitgroup *) mailboxes[2] = {NULL};
        struct weir_test_thread threads[2];
        struct storm storms[2];

        for (unsigned i = 0; i < 2; i++) {
                storms[i] = (struct storm){.mailbox = &mailboxes[i], .rounds = ROUNDS};
                weir_test_thread_start(&threads[i], be_done_with_what_comes, &storms[i]);
        }
        for (unsigned i = 0; i < ROUNDS; i++) {
                weir_waitgroup *group = weir_waitgroup_new();

                weir_waitgroup_add(group, 2);
                for (unsigned j = 0; j < 2; j++)
                        atomic_store(&mailboxes[j], group);
                while (weir_waitgroup_wait(group, limits[i % 3]) != 0)
                        sched_yield();
                weir_waitgroup_free(group);
                CU_ASSERT(storms[0].plain == i + 1 && storms[1].plain == i + 1);
        }
        for (unsigned i = 0; i < 2; i++)
                weir_test_thread_join(&threads[i]);
}

static void
wait_with_short_limits(void *argument)
{
        struct storm *storm = argument;

        for (unsigned i = 0; i < storm->rounds; i++) {
                int status = weir_waitgroup_wait(storm->group, (weir_nsec)(i % 7) * WEIR_USEC(3));

                CU_ASSERT(status == 0 || status == -ETIMEDOUT);
        }
}

static void
add_and_be_done(void *argument)
{
        struct storm *storm = argument;

        for (unsigned i = 0; i < storm->rounds; i++) {
                weir_waitgroup_add(storm->group, 1 + i % 2);
                if (i % 5 == 0) {
                        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, done_later, storm->group)), 0);
                } else {
                        weir_waitgroup_done(storm->group);
                }
                if (i % 2)
                        weir_waitgroup_done(storm->group);
        }
}

static void
run_storm(bool is_virtual)
{
        struct storm storm = {.group = weir_waitgroup_new(), .rounds = ROUNDS / 3};
        struct weir_test_thread threads[5];

        if (is_virtual)
                weir_test_begin_virtual();
        else
                weir_test_begin_real(2);
        for (unsigned i = 0; i < 5; i++)
                weir_test_thread_start(&threads[i], i < 3 ? wait_with_short_limits : add_and_be_done, &storm);
        for (unsigned i = 0; i < 5; i++)
                weir_test_thread_join(&threads[i]);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(storm.group, WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(waiters_of(storm.group), 0);
        CU_ASSERT_EQUAL(((struct inside *)storm.group)->word, 0);
        CU_ASSERT(!weir__runtime_has_waiters());
        weir_test_end();
        weir_waitgroup_free(storm.group);
}

static void
storm_of_waits_with_limits_on_the_real_clock(void)
{
        run_storm(false);
}

static void
storm_of_waits_with_limits_on_the_virtual_clock(void)
{
        run_storm(true);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(group_of_nothing_is_done),
                WEIR_TEST(look_says_whether_all_are_done),
                WEIR_TEST(group_that_could_not_be_made_is_accepted),
                WEIR_TEST(count_may_be_as_large_as_said),
                WEIR_TEST(misuse_aborts_with_the_reason),
                WEIR_TEST(all_waiters_go_on_with_the_last_done),
                WEIR_TEST(limit_of_real_time_ends_its_wait_alone),
                WEIR_TEST(callbacks_are_waited_for),
                WEIR_TEST(started_tasks_and_series_are_waited_for_with_all_that_they_free),
                WEIR_TEST(wait_for_what_was_started_lets_virtual_time_pass),
                WEIR_TEST(shutdown_ends_what_was_started_and_its_wait),
                WEIR_TEST(start_that_is_refused_does_not_count),
                WEIR_TEST(worker_may_look_and_must_not_wait),
                WEIR_TEST(shutdown_leaves_a_wait_on_the_real_clock_to_its_dones),
                WEIR_TEST(wait_lets_time_jump),
                WEIR_TEST(limit_is_one_of_virtual_time),
                WEIR_TEST(limit_that_was_not_needed_leaves_nothing_behind),
                WEIR_TEST(of_limit_and_done_at_one_instant_the_first_started_is_decisive),
                WEIR_TEST(waiters_with_several_limits_end_each_at_its_own),
                WEIR_TEST(a_stepping_or_holding_thread_must_not_wait),
                WEIR_TEST(wait_is_refused_while_another_thread_lets_time_pass),
                WEIR_TEST(shutdown_ends_a_wait_with_a_limit_of_virtual_time),
                WEIR_TEST(wait_that_begins_during_a_shutdown_has_no_time),
                WEIR_TEST(forked_child_is_told_so),
                WEIR_TEST(group_may_be_freed_as_soon_as_its_wait_has_returned),
                WEIR_TEST(storm_of_waits_with_limits_on_the_real_clock),
                WEIR_TEST(storm_of_waits_with_limits_on_the_virtual_clock),
        };

        return weir_test_main("waitgroup", tests, sizeof tests / sizeof *tests);
}
