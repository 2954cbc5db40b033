/* test/interleave_waitgroup_test.c: threads that wait for a group, are done, and free it, in thousands of orders that seeds make
 * (interleave.h).
 *
 * Freed memory is poisoned there, so a done that touches a group after it has released the waiters is seen; and a waiter that
 * nobody wakes is, as no thread can go on then. */
#include <errno.h>
#include <string.h>

#include <weir/weir.h>

#include "kernel/base/list.h"
#include "kernel/runtime/runtime.h"
#include "test/support.h"

#define SEEDS (WEIR_TEST_SANITIZED ? 500 : 4000) /* of a scenario */
#define FAR   WEIR_SEC(1000)

/* The first members of a group: to see the waiters. */
struct inside {
        uint64_t word;
        struct weir__lock lock;
        struct weir__list waiters;
};

static weir_waitgroup *group;
static _Atomic unsigned released, timed_out;

static void
begin(size_t count)
{
        group = weir_waitgroup_new();
        released = timed_out = 0;
        weir_waitgroup_add(group, count);
}

static void
be_done(void *unused)
{
        (void)unused;
        weir_waitgroup_done(group);
}

static void
add_and_be_done(void *unused)
{
        be_done(unused);
        weir_waitgroup_add(group, 1);
        be_done(unused);
}

static void
wait_for_group(void *until)
{
        int status = weir_waitgroup_wait(group, until ? *(weir_nsec *)until : WEIR_FOREVER);

        INTERLEAVE_EXPECT(status == 0 || (until && status == -ETIMEDOUT));
        *(status ? &timed_out : &released) += 1;
}

/* Looks, if that is chosen and finds zero, or else waits. */
static void
wait_and_free(void *looks)
{
        if (!looks || weir_waitgroup_wait(group, 0) != 0)
                INTERLEAVE_EXPECT(weir_waitgroup_wait(group, WEIR_FOREVER) == 0);
        weir_waitgroup_free(group);
}

static void
run_free_after_wait(void)
{
        unsigned count = 1 + interleave_random(3);

        begin(count);
        interleave_act(wait_and_free, interleave_random(2) ? &released : NULL);
        for (unsigned i = 0; i < count; i++)
                interleave_act(be_done, NULL);
        interleave_join_actors();
}

/* Two that wait already: the first one to return frees the group, wherever the other one is by then. */
static void
wait_and_free_if_first(void *unused)
{
        (void)unused;
        INTERLEAVE_EXPECT(weir_waitgroup_wait(group, WEIR_FOREVER) == 0);
        if (released++ == 0)
                weir_waitgroup_free(group);
}

/* Returns when more threads than that wait, or a limit has come. */
static void
await_waiters(unsigned more_than)
{
        struct inside *inside = (struct inside *)group;

        for (unsigned count = 0; count <= more_than && !timed_out;) {
                weir__lock(&inside->lock);
                struct weir__link *first = weir__list_first(&inside->waiters);
                count = !first ? 0 : weir__list_next(&inside->waiters, first) ? 2 : 1;
                weir__unlock(&inside->lock);
                interleave_step(NULL, 0, "look", __func__, __LINE__);
        }
}

static void
be_done_when_both_wait(void *unused)
{
        await_waiters(1);
        be_done(unused);
}

static void
run_free_by_the_first_of_two(void)
{
        begin(1);
        interleave_act(wait_and_free_if_first, NULL);
        interleave_act(wait_and_free_if_first, NULL);
        interleave_act(be_done_when_both_wait, NULL);
        interleave_join_actors();
        INTERLEAVE_EXPECT(released == 2);
}

/* One thread reads zero while the waiter is being released, and frees the group. */
static void
look_and_free(void *unused)
{
        (void)unused;
        while (weir_waitgroup_wait(group, 0) != 0)
                interleave_step(NULL, 0, "look", __func__, __LINE__);
        weir_waitgroup_free(group);
}

static void
run_free_by_one_who_looks(void)
{
        begin(1);
        interleave_act(wait_for_group, NULL);
        await_waiters(0);
        interleave_act(look_and_free, NULL);
        interleave_act(be_done, NULL);
        interleave_join_actors();
        INTERLEAVE_EXPECT(released == 1);
}

/* -- limits -- */

static weir_nsec limit;

static void
done_later(weir_task *task, void *unused)
{
        (void)task;
        be_done(unused);
}

static void
begin_virtual(size_t count)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        INTERLEAVE_EXPECT(weir_init(&config) == 0);
        begin(count);
}

static void
end_virtual(void)
{
        INTERLEAVE_EXPECT(!weir__runtime_has_waiters());
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
        INTERLEAVE_EXPECT(weir_waitgroup_wait(group, 0) == 0);
        weir_waitgroup_free(group);
}

/* The limit may come while the other thread sees zero and frees the group. */
static void
run_free_beside_a_limit(void)
{
        begin(1);
        limit = FAR;
        interleave_act(wait_for_group, &limit);
        await_waiters(0);
        interleave_act(look_and_free, NULL);
        interleave_act(be_done, NULL);
        interleave_join_actors();
        INTERLEAVE_EXPECT(released + timed_out == 1);
}

/* Others wait without a limit, or with one that may come as well; the group is used again at once. */
static void
run_real_limits(void)
{
        unsigned waiters = 2 + interleave_random(2);

        begin(2);
        limit = FAR;
        for (unsigned i = 0; i < waiters; i++)
                interleave_act(wait_for_group, i == 0 || interleave_random(2) ? &limit : NULL);
        interleave_act(be_done, NULL);
        interleave_act(add_and_be_done, NULL);
        interleave_join_actors();
        INTERLEAVE_EXPECT(released + timed_out == waiters);
        INTERLEAVE_EXPECT(weir_waitgroup_wait(group, 0) == 0);
        weir_waitgroup_free(group);
}

static void
run_limit_and_done(void)
{
        begin_virtual(2);
        limit = 10;
        INTERLEAVE_EXPECT(weir_task_start(weir_timer_new(9 + (weir_nsec)interleave_random(3), done_later, NULL)) == 0);
        interleave_act(be_done, NULL);
        interleave_act(wait_for_group, &limit);
        if (interleave_random(2))
                interleave_act(wait_for_group, &limit);
        interleave_join_actors();
        interleave_explore(false);
        INTERLEAVE_EXPECT(weir_waitgroup_wait(group, FAR) == 0);
        end_virtual();
}

/* Time must not go past the limit before that is in the queue. */
static void
run_limit_before_a_later_timer(void)
{
        begin_virtual(1);
        weir_nsec began = weir_now();
        limit = 10;
        INTERLEAVE_EXPECT(weir_task_start(weir_timer_new(50, NULL, NULL)) == 0);
        interleave_act(wait_for_group, &limit);
        interleave_join_actors();
        INTERLEAVE_EXPECT(timed_out == 1 && weir_now() == began + 10);
        be_done(NULL);
        end_virtual();
}

static void
wait_through_shutdown(void *unused)
{
        (void)unused;
        int status = weir_waitgroup_wait(group, limit);

        INTERLEAVE_EXPECT(status == 0 || status == -ESHUTDOWN || status == -ETIMEDOUT);
}

static void
shut_down(void *is_done_by_another)
{
        INTERLEAVE_EXPECT(weir_shutdown() == 0);
        if (!is_done_by_another)
                be_done(NULL);
}

/* In each interleaving the count of waiters must still be right: time advances to the limit of the next one. */
static void
check_next_wait(void)
{
        begin_virtual(1);
        INTERLEAVE_EXPECT(weir_waitgroup_wait(group, 10) == -ETIMEDOUT);
        be_done(NULL);
        end_virtual();
}

static void
run_limit_and_shutdown(void)
{
        bool is_done_by_another = interleave_random(2);

        begin_virtual(1);
        limit = FAR;
        interleave_act(wait_through_shutdown, NULL);
        interleave_act(shut_down, is_done_by_another ? &limit : NULL);
        if (is_done_by_another)
                interleave_act(be_done, NULL);
        interleave_join_actors();
        interleave_explore(false);
        end_virtual();
        check_next_wait();
}

/* -- the suite -- */

static void
a_group_may_be_freed_when_a_wait_has_returned(void)
{
        interleave_try(__func__, run_free_after_wait, SEEDS);
}

static void
the_first_of_two_that_are_released_may_free_the_group(void)
{
        interleave_try(__func__, run_free_by_the_first_of_two, SEEDS);
}

static void
one_who_looks_may_free_the_group(void)
{
        interleave_try(__func__, run_free_by_one_who_looks, SEEDS);
}

static void
waits_with_limits_end_once_each(void)
{
        interleave_try(__func__, run_real_limits, SEEDS);
}

static void
a_group_may_be_freed_while_a_wait_whose_limit_has_come_returns(void)
{
        interleave_try(__func__, run_free_beside_a_limit, SEEDS);
}

static void
a_done_that_comes_with_the_limit_ends_the_wait_once(void)
{
        interleave_try(__func__, run_limit_and_done, SEEDS);
}

static void
a_limit_ends_its_wait_at_its_time(void)
{
        interleave_try(__func__, run_limit_before_a_later_timer, SEEDS);
}

static void
a_shutdown_during_a_wait_with_a_limit_ends_it(void)
{
        interleave_try(__func__, run_limit_and_shutdown, SEEDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_group_may_be_freed_when_a_wait_has_returned),
                WEIR_TEST(the_first_of_two_that_are_released_may_free_the_group),
                WEIR_TEST(one_who_looks_may_free_the_group),
                WEIR_TEST(waits_with_limits_end_once_each),
                WEIR_TEST(a_group_may_be_freed_while_a_wait_whose_limit_has_come_returns),
                WEIR_TEST(a_done_that_comes_with_the_limit_ends_the_wait_once),
                WEIR_TEST(a_limit_ends_its_wait_at_its_time),
                WEIR_TEST(a_shutdown_during_a_wait_with_a_limit_ends_it),
        };

        return weir_test_main("interleave waitgroup", tests, sizeof tests / sizeof *tests);
}
