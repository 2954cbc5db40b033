/* test/lock_test.c: locks are fair: a thread that waits for one gets it soon, however others behave. */
#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "test/timer_fixture.h"

#include <sched.h>
#include <stdlib.h>

#define HOLD         WEIR_USEC(20)             /* how long the hog holds the lock each time */
#define HANDED_AFTER WEIR_USEC(200)            /* kernel/base/lock.c: from then on the lock is handed to a sleeper */
#define MOST         (HANDED_AFTER / HOLD + 3) /* holds: one has begun, one is taken during the wake-up, one is rounded */
#define WAITS        (WEIR_TEST_SANITIZED ? 200 : 2000)
#define WAITERS      3
#define ROUNDS       100
#define ADDITIONS    (WEIR_TEST_SANITIZED ? 20000 : 200000)

/* A thread that takes and releases a lock in a tight loop.  While a thread sleeps for the lock it counts its holds. */
struct hog {
        struct weir__lock lock;
        _Atomic unsigned waiters; /* that have not had all their turns */
        _Atomic uint64_t turns;   /* of waiters */
        _Atomic bool has_begun;
        uint64_t longest; /* holds in a row, while a thread slept and no waiter had its turn */
};

static void
hold_all_the_time(void *argument)
{
        struct hog *hog = argument;
        uint64_t turns = 0, holds = 0;

        while (hog->waiters > 0) {
                weir__lock(&hog->lock);
                hog->has_begun = true;
                bool is_wanted = weir__lock_has_sleepers(&hog->lock);
                holds = is_wanted && hog->turns == turns ? holds + 1 : 0;
                turns = hog->turns;
                if (holds > hog->longest) {
                        hog->longest = holds;
                }
                for (weir_nsec until = weir__clock_monotonic() + HOLD; weir__clock_monotonic() < until;) {
                        continue;
                }
                weir__unlock(&hog->lock);
        }
}

static void
take_turns(void *argument)
{
        struct hog *hog = argument;

        while (!hog->has_begun) {
                sched_yield();
        }
        for (unsigned i = 0; i < WAITS; i++) {
                weir__lock(&hog->lock);
                hog->turns++;
                weir__unlock(&hog->lock);
        }
        hog->waiters--;
}

static void
sleepers_are_not_passed_over(unsigned waiters)
{
        struct weir_test_thread hog_thread, threads[WAITERS];
        struct hog hog = {.waiters = waiters};

        weir__lock_init(&hog.lock, WEIR__RANK_LEAF);
        weir_test_thread_start(&hog_thread, hold_all_the_time, &hog);
        for (unsigned i = 0; i < waiters; i++) {
                weir_test_thread_start(&threads[i], take_turns, &hog);
        }
        for (unsigned i = 0; i < waiters; i++) {
                weir_test_thread_join(&threads[i]);
        }
        weir_test_thread_join(&hog_thread);
        CU_ASSERT_EQUAL(hog.turns, WAITS * waiters);
        CU_ASSERT(hog.longest <= MOST);
}

/* Issue 17: a worker slept for the lock of its poller, and lost it to another thread each time it was woken. */
static void
issue_017_a_loop_of_holds_leaves_the_lock_to_a_sleeper(void)
{
        sleepers_are_not_passed_over(1);
}

static void
several_sleepers_get_the_lock_one_after_another(void)
{
        sleepers_are_not_passed_over(WAITERS);
}

/* Two locks whose addresses lead to the same queue, and what they guard. */
static struct {
        _Alignas(128) struct weir__lock lock;
        char gap[128 * WEIR__LOCK_QUEUES - sizeof(struct weir__lock)];
        struct weir__lock twin;
        uint64_t sum, twin_sum; /* each guarded by one of them */
} shared;

static void
add_often(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < ADDITIONS; i++) {
                weir__lock(&shared.lock);
                shared.sum++;
                weir__unlock(&shared.lock);
                weir__lock(&shared.twin);
                shared.twin_sum++;
                if (i % 1024 == 0) {
                        sched_yield(); /* the others have to sleep */
                }
                weir__unlock(&shared.twin);
        }
}

static void
locks_that_share_a_queue_do_not_disturb_each_other(void)
{
        struct weir_test_thread threads[WAITERS + 1];

        weir__lock_init(&shared.lock, WEIR__RANK_LEAF);
        weir__lock_init(&shared.twin, WEIR__RANK_LEAF);

        for (unsigned i = 0; i <= WAITERS; i++) {
                weir_test_thread_start(&threads[i], add_often, NULL);
        }
        for (unsigned i = 0; i <= WAITERS; i++) {
                weir_test_thread_join(&threads[i]);
        }
        CU_ASSERT_EQUAL(shared.sum, (WAITERS + 1) * (uint64_t)ADDITIONS);
        CU_ASSERT_EQUAL(shared.twin_sum, (WAITERS + 1) * (uint64_t)ADDITIONS);
        CU_ASSERT(!weir__lock_has_sleepers(&shared.twin));
}

/* A lock that the last thread to hold it frees. */
struct brief {
        struct weir__lock lock;
        unsigned users; /* guarded by lock */
};

static void
use_and_free(void *argument)
{
        struct brief *brief = argument;

        weir__lock(&brief->lock);
        bool is_last = --brief->users == 0;
        weir__unlock(&brief->lock);
        if (is_last) {
                memset(brief, 0xff, sizeof *brief);
                free(brief);
        }
}

static void
a_lock_may_be_freed_once_it_was_let_go(void)
{
        for (unsigned round = 0; round < ROUNDS; round++) {
                struct weir_test_thread threads[WAITERS];
                struct brief *brief = malloc(sizeof *brief);

                weir__lock_init(&brief->lock, WEIR__RANK_LEAF);
                brief->users = WAITERS;
                weir__lock(&brief->lock);
                for (unsigned i = 0; i < WAITERS; i++) {
                        weir_test_thread_start(&threads[i], use_and_free, brief);
                }
                while (round % 2 && !weir__lock_has_sleepers(&brief->lock)) {
                        sched_yield();
                }
                weir__unlock(&brief->lock);
                for (unsigned i = 0; i < WAITERS; i++) {
                        weir_test_thread_join(&threads[i]);
                }
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(issue_017_a_loop_of_holds_leaves_the_lock_to_a_sleeper),
                WEIR_TEST(several_sleepers_get_the_lock_one_after_another),
                WEIR_TEST(locks_that_share_a_queue_do_not_disturb_each_other),
                WEIR_TEST(a_lock_may_be_freed_once_it_was_let_go),
        };

        return weir_test_main("lock", tests, sizeof tests / sizeof *tests);
}
