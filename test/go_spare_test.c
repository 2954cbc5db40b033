/* test/go_spare_test.c: the threads of the executor that are made while others block: when they end, and that nothing is lost
 * then.
 *
 * This file replaces pthread_create, so that it can fail, and syscall, so that threads linger for as long as a test wants. */
#include "test/fixture.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "kernel/executor/executor.h"

#define LINGER 10 /* seconds; kernel/executor/executor.c */
#define SPARES 256

/* -- replaced functions -- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);

static _Atomic int threads_left = INT32_MAX; /* before it fails */

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
        if (atomic_load(&threads_left) == 0) {
                return EAGAIN;
        }
        atomic_fetch_sub(&threads_left, 1);
        return __real_pthread_create(thread, attributes, function, argument);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static _Atomic long lingers; /* nanoseconds; less than 0: for ever */
static _Atomic unsigned lingering_begun;

/* Of an executor's thread, not of a poller's worker. */
static bool
is_to_linger(long number, const long arguments[6])
{
        const struct timespec *timeout = (const struct timespec *)arguments[3];
        const struct weir__worker *worker = weir__worker_self();

        return number == SYS_futex && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && timeout && timeout->tv_sec == LINGER &&
               worker && weir__executor_has(worker);
}

long
__wrap_syscall(long number, ...)
{
        long nanoseconds = lingers;
        struct timespec linger = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
        long arguments[6];
        va_list list;

        va_start(list, number);
        for (unsigned i = 0; i < 6; i++) {
                arguments[i] = va_arg(list, long);
        }
        va_end(list);
        if (is_to_linger(number, arguments)) {
                arguments[3] = (long)(nanoseconds < 0 ? NULL : &linger);
                atomic_fetch_add(&lingering_begun, 1);
        }
        return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

/* -- a runtime, and the number of its threads -- */

static void
begin(int threads, long nanoseconds)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        lingers = nanoseconds;
        lingering_begun = 0;
        config.pollers = 2;
        config.compute_threads = threads;
        config.blocking_limit = WEIR_FOREVER; /* no watchdog, which makes threads when the machine stands still */
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

static unsigned
threads(void)
{
        struct weir_stats stats = WEIR_STATS_DEFAULT;

        CU_ASSERT_EQUAL(weir_stats(&stats), 0);
        return stats.functions;
}

static void
nothing(void *context)
{
        (void)context;
}

/* -- functions that block -- */

struct blocker {
        struct weir_test_latch blocked, may_return, returned, may_end;
        int status;
        bool runs_on; /* afterwards */
};

static void
block(void *context)
{
        struct blocker *blocker = context;

        blocker->status = weir_blocking_begin();
        weir_test_latch_count_down(&blocker->blocked);
        weir_test_latch_wait(&blocker->may_return);
        weir_blocking_end();
        weir_test_latch_count_down(&blocker->returned);
        if (blocker->runs_on) {
                weir_test_latch_wait(&blocker->may_end);
        }
}

static _Atomic unsigned blockers_left;

static void
free_blocker(void *context)
{
        (void)context;
        atomic_fetch_sub(&blockers_left, 1);
}

static void
begin_blocker(struct blocker *blocker)
{
        weir_task *task = weir_go_new(NULL, block, NULL, blocker);

        atomic_fetch_add(&blockers_left, 1);
        weir_task_on_free(task, free_blocker);
        weir_test_latch_init(&blocker->blocked, 1);
        weir_test_latch_init(&blocker->may_return, 1);
        weir_test_latch_init(&blocker->returned, 1);
        weir_test_latch_init(&blocker->may_end, 1);
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        weir_test_latch_wait(&blocker->blocked);
}

static void
end_blocker(struct blocker *blocker)
{
        weir_test_latch_count_down(&blocker->may_return);
        weir_test_latch_count_down(&blocker->may_end);
}

static struct blocker blockers[SPARES];

static void
have_many_block(unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                blockers[i] = (struct blocker){0};
                begin_blocker(&blockers[i]);
                CU_ASSERT_EQUAL(blockers[i].status, 0);
        }
}

static void
end_many(unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                end_blocker(&blockers[i]);
        }
        WEIR_TEST_EVENTUALLY(blockers_left == 0);
}

static void
tell_name(void *name)
{
        pthread_getname_np(pthread_self(), name, 16);
}

/* -- the number of spares -- */

static void
spares_end_when_they_have_been_parked_for_long_and_come_again(void)
{
        struct blocker one_more = {0};

        begin(1, 1000000);
        unsigned before = weir_test_threads();
        for (unsigned round = 0; round < 3; round++) {
                have_many_block(SPARES);
                CU_ASSERT_EQUAL(threads(), SPARES + 1);
                begin_blocker(&one_more);
                CU_ASSERT_EQUAL(one_more.status, -EAGAIN);
                end_blocker(&one_more);
                end_many(SPARES);
                WEIR_TEST_EVENTUALLY(threads() == 1);
                CU_ASSERT(weir_test_threads_become(before + 1));
        }
        have_many_block(SPARES);
        end_many(SPARES);
        weir_test_end(); /* while they end */
        CU_ASSERT(weir_test_threads_become(before - 2));
}

static void
spares_stay_for_a_while_and_are_used_again(void)
{
        char name[16] = "";

        begin(1, -1);
        have_many_block(8);
        end_many(8);
        WEIR_TEST_EVENTUALLY(lingering_begun >= 8);
        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
        CU_ASSERT_EQUAL(threads(), 9);
        for (unsigned i = 0; i < 20; i++) { /* none is used that is too many */
                CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, tell_name, NULL, name)), 0);
                CU_ASSERT_STRING_EQUAL(name, "weir/go0");
        }
        have_many_block(8);
        CU_ASSERT_EQUAL(threads(), 9);
        end_many(8);
        weir_test_end();
}

static void
run_some(void)
{
        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(weir_task_run(weir_go_new(i % 2 ? "queue" : NULL, nothing, NULL, NULL)), 0);
        }
        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
}

static void
while_no_thread_is_too_many_none_looks_at_the_clock(void)
{
        begin(1, 0);
        run_some();
        have_many_block(8);
        run_some();
        CU_ASSERT_EQUAL(threads(), 9);
        CU_ASSERT_EQUAL(lingering_begun, 0);
        end_many(8);
        WEIR_TEST_EVENTUALLY(threads() == 1);
        unsigned begun = lingering_begun;
        run_some();
        CU_ASSERT_EQUAL(lingering_begun, begun);
        weir_test_end();
}

static void
a_spare_that_sleeps_ends_when_the_one_it_stood_in_for_is_back_and_goes_on(void)
{
        struct blocker blocker = {.runs_on = true};

        begin(1, 0);
        begin_blocker(&blocker);
        run_some(); /* by the spare, which then sleeps */
        CU_ASSERT_EQUAL(threads(), 2);
        weir_test_latch_count_down(&blocker.may_return);
        weir_test_latch_wait(&blocker.returned);
        WEIR_TEST_EVENTUALLY(threads() == 1);
        weir_test_latch_count_down(&blocker.may_end);
        run_some();
        weir_test_end();
}

/* Has two spares look at the clock, and then two functions block in time, if the machine is fast enough for that. */
static bool
have_both_needed_again(long nanoseconds)
{
        begin(2, nanoseconds);
        run_some();
        have_many_block(3); /* the first one has its place taken by the thread that is parked, the others by new ones */
        end_many(3);
        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
        have_many_block(2);
        return threads() == 4;
}

static void
a_spare_that_looks_at_the_clock_stays_if_it_is_needed_by_then(void)
{
        long nanoseconds = 10000000;

        while (!have_both_needed_again(nanoseconds)) {
                end_many(2);
                weir_test_end();
                nanoseconds *= 2;
        }
        weir_test_sleep(2 * nanoseconds);
        CU_ASSERT_EQUAL(threads(), 4);
        end_many(2);
        WEIR_TEST_EVENTUALLY(threads() == 2);
        weir_test_end();
}

static void
a_thread_that_cannot_be_made_again_can_be_later(void)
{
        struct blocker refused = {0};

        begin(1, 0);
        have_many_block(2);
        end_many(2);
        WEIR_TEST_EVENTUALLY(threads() == 1);
        threads_left = 0;
        begin_blocker(&refused);
        CU_ASSERT_EQUAL(refused.status, -EAGAIN);
        threads_left = INT32_MAX;
        end_blocker(&refused);
        have_many_block(3);
        CU_ASSERT_EQUAL(threads(), 4);
        end_many(3);
        weir_test_end();
}

static void
the_threads_that_stay_are_the_first_ones(void)
{
        char name[16] = "";

        begin(1, 0);
        for (unsigned i = 0; i < 20; i++) {
                have_many_block(3);
                end_many(3);
                WEIR_TEST_EVENTUALLY(threads() == 1);
                CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, tell_name, NULL, name)), 0);
                CU_ASSERT_STRING_EQUAL(name, "weir/go0");
        }
        weir_test_end();
}

/* -- while they end, at any moment -- */

#define TREE  48 /* by halves: 48, 24, 12, 6, 3, 1 */
#define NODES 63

static _Atomic unsigned runs, left;

static void
free_branch(void *context)
{
        (void)context;
        atomic_fetch_sub(&left, 1);
}

static void branch(void *context);

static void
start_branch(uintptr_t size)
{
        weir_task *task = weir_go_new(size % 4 ? NULL : "queue", branch, NULL, (void *)size);

        atomic_fetch_add(&left, 1);
        weir_task_on_free(task, free_branch);
        weir_task_start(task);
}

/* Starts two that are smaller, on its own deque unless they have a queue, and blocks, while another thread steals them. */
static void
branch(void *context)
{
        uintptr_t size = (uintptr_t)context;

        atomic_fetch_add(&runs, 1);
        for (unsigned i = 0; i < 2 && size > 1; i++) {
                start_branch(size / 2);
        }
        if (size > 3 && weir_blocking_begin() == 0) {
                sched_yield();
        }
}

static void
nothing_is_lost_while_threads_end_and_come(void)
{
        const unsigned rounds = WEIR_TEST_SANITIZED ? 200 : 1000;

        for (int threads = 1; threads <= 3; threads++) {
                begin(threads, 1000);
                runs = 0;
                for (unsigned i = 0; i < rounds; i++) {
                        start_branch(TREE);
                        WEIR_TEST_EVENTUALLY(left == 0);
                }
                CU_ASSERT_EQUAL(runs, rounds * NODES);
                CU_ASSERT(lingering_begun > 0);
                weir_test_end();
        }
}

static void
a_shutdown_comes_while_threads_end(void)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned lingered = 0;

        for (unsigned round = 0; round < 200; round++) {
                begin(1 + round % 3, 1000);
                for (unsigned i = 0; i < 1 + round % 5; i++) {
                        start_branch(TREE);
                }
                weir_test_sleep((int64_t)weir_test_random_below(&random, 2000000));
                weir_test_end();
                CU_ASSERT_EQUAL(left, 0);
                lingered += lingering_begun;
        }
        CU_ASSERT(lingered > 0);
}

static const struct weir_test tests[] = {
        WEIR_TEST(spares_end_when_they_have_been_parked_for_long_and_come_again),
        WEIR_TEST(spares_stay_for_a_while_and_are_used_again),
        WEIR_TEST(while_no_thread_is_too_many_none_looks_at_the_clock),
        WEIR_TEST(a_spare_that_sleeps_ends_when_the_one_it_stood_in_for_is_back_and_goes_on),
        WEIR_TEST(a_spare_that_looks_at_the_clock_stays_if_it_is_needed_by_then),
        WEIR_TEST(a_thread_that_cannot_be_made_again_can_be_later),
        WEIR_TEST(the_threads_that_stay_are_the_first_ones),
        WEIR_TEST(nothing_is_lost_while_threads_end_and_come),
        WEIR_TEST(a_shutdown_comes_while_threads_end),
};

int
main(void)
{
        return weir_test_main("go_spare", tests, sizeof tests / sizeof *tests);
}
