/* test/burial_test.c: timers that were cancelled by name are dead when their callback has returned, and buried some time later,
 * under the lock of their name's shard; what becomes of that while another thread has the lock; and how long it keeps it.
 *
 * There is one worker, on the real clock.  The main thread holds the lock, and meanwhile calls nothing that takes one. */
#include "factory/timer/timer.h"
#include "test/timer_fixture.h"

#define NAME     "buried"
#define FEW      100
#define MANY     10000
#define AT_MOST  5000 /* that a worker runs while it cannot bury: WEIR__POSTPONED, and what a round brings */
#define PATIENCE WEIR_MSEC(3)

/* -- works that are delivered to the poller -- */

/* Keeps it busy until it is told to stop. */
struct treadmill {
        struct weir__work work; /* first */
        _Atomic bool stops;
        _Atomic unsigned rounds;
        struct weir_test_latch stopped;
};

static void
tread(struct weir__work *work)
{
        struct treadmill *treadmill = (struct treadmill *)work;

        atomic_fetch_add(&treadmill->rounds, 1);
        if (treadmill->stops) {
                weir_test_latch_count_down(&treadmill->stopped);
        } else {
                weir__poller_deliver(weir__poller_at(0), work);
        }
}

static void
treadmill_start(struct treadmill *treadmill)
{
        static const struct weir__work_ops ops = {.run = tread};

        *treadmill = (struct treadmill){.work = {.ops = &ops}, .stopped = WEIR_TEST_LATCH(1)};
        weir__poller_deliver(weir__poller_at(0), &treadmill->work);
}

static void
treadmill_stop(struct treadmill *treadmill)
{
        treadmill->stops = true;
        weir_test_latch_wait(&treadmill->stopped);
}

struct question {
        struct weir__work work; /* first */
        unsigned postponed;
        struct weir_test_latch answered;
};

static void
answer(struct weir__work *work)
{
        struct question *question = (struct question *)work;

        question->postponed = weir__poller_at(0)->later_count;
        weir_test_latch_count_down(&question->answered);
}

/* How many of the dead are postponed. */
static unsigned
postponed(void)
{
        static const struct weir__work_ops ops = {.run = answer};
        struct question question = {.work = {.ops = &ops}, .answered = WEIR_TEST_LATCH(1)};

        weir__poller_deliver(weir__poller_at(0), &question.work);
        weir_test_latch_wait(&question.answered);
        return question.postponed;
}

/* -- the dead -- */

static _Atomic unsigned ended;

static void
count_ended(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_task_status(task), -ECANCELED);
        atomic_fetch_add(&ended, 1);
}

static struct weir__names_shard *
lock_shard(void)
{
        return weir__names_lock(&weir__timer_names, weir__name_key(NAME, strlen(NAME)).hash);
}

static bool
all_are_buried(void)
{
        struct weir__names_shard *shard = lock_shard();
        bool all = !shard->ending;

        weir__names_unlock(shard);
        return all;
}

/* Cancels so many timers while the worker is held, takes the lock, and lets the worker go on. */
static struct weir__names_shard *
kill_and_lock(unsigned count)
{
        struct weir_test_gate gate;

        ended = 0;
        weir_test_gate_hold(&gate, NULL);
        for (unsigned i = 0; i < count; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(NAME, WEIR_TEST_FAR, count_ended, NULL)), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel(NAME, WEIR_ALL), count);
        struct weir__names_shard *shard = lock_shard();
        weir_test_gate_open(&gate);
        WEIR_TEST_EVENTUALLY(gate.record.frees > 0);
        return shard;
}

static void
while_the_lock_is_taken_a_busy_worker_goes_on(void)
{
        struct treadmill treadmill;

        weir_test_begin_real(1);
        treadmill_start(&treadmill);
        struct weir__names_shard *shard = kill_and_lock(FEW);
        WEIR_TEST_EVENTUALLY(ended == FEW);
        unsigned rounds = treadmill.rounds;
        WEIR_TEST_EVENTUALLY(treadmill.rounds > rounds + 1000);
        CU_ASSERT_EQUAL(postponed(), FEW);
        CU_ASSERT_PTR_NOT_NULL(shard->ending);
        weir__names_unlock(shard);
        WEIR_TEST_EVENTUALLY(all_are_buried());
        WEIR_TEST_EVENTUALLY(postponed() == 0);
        treadmill_stop(&treadmill);
        weir_test_end();
}

static void
worker_with_nothing_else_to_do_tries_again(void)
{
        weir_test_begin_real(1);
        struct weir__names_shard *shard = kill_and_lock(FEW);
        WEIR_TEST_EVENTUALLY(ended == FEW);
        CU_ASSERT_EQUAL(postponed(), FEW); /* it does not sleep for the lock */
        weir_test_sleep(PATIENCE);
        CU_ASSERT_PTR_NOT_NULL(shard->ending);
        weir__names_unlock(shard);
        WEIR_TEST_EVENTUALLY(all_are_buried());
        weir_test_end();
}

static void
no_more_than_some_thousand_are_postponed(void)
{
        struct treadmill treadmill;

        weir_test_begin_real(1);
        treadmill_start(&treadmill);
        struct weir__names_shard *shard = kill_and_lock(MANY);
        WEIR_TEST_EVENTUALLY(ended >= AT_MOST - MANY / 10);
        weir_test_sleep(PATIENCE);
        CU_ASSERT(ended <= AT_MOST);
        CU_ASSERT(postponed() <= AT_MOST); /* it answers */
        weir__names_unlock(shard);
        WEIR_TEST_EVENTUALLY(ended == MANY && all_are_buried());
        WEIR_TEST_EVENTUALLY(postponed() == 0);
        treadmill_stop(&treadmill);
        weir_test_end();
}

static void
cancel_and_wait(void *result)
{
        *(int64_t *)result = weir_timer_cancel_wait(NAME, WEIR_ALL);
}

static void
postponed_dead_are_not_waited_for(void)
{
        struct weir_test_thread thread;
        struct treadmill treadmill;
        int64_t result = -1;

        weir_test_begin_real(1);
        treadmill_start(&treadmill);
        struct weir__names_shard *shard = kill_and_lock(FEW);
        WEIR_TEST_EVENTUALLY(ended == FEW);
        CU_ASSERT_EQUAL(postponed(), FEW);
        weir_test_thread_start(&thread, cancel_and_wait, &result);
        weir__names_unlock(shard);
        weir_test_thread_join(&thread);
        CU_ASSERT_EQUAL(result, 0);
        treadmill_stop(&treadmill);
        WEIR_TEST_EVENTUALLY(all_are_buried());
        weir_test_end();
}

static void
shutdown_buries_what_was_postponed(void)
{
        struct weir_test_thread thread;
        struct treadmill treadmill;

        weir_test_begin_real(1);
        treadmill_start(&treadmill);
        struct weir__names_shard *shard = kill_and_lock(FEW);
        WEIR_TEST_EVENTUALLY(ended == FEW);
        CU_ASSERT_EQUAL(postponed(), FEW);
        treadmill_stop(&treadmill); /* a worker that ends waits for the lock, and would not come to it */
        weir_test_thread_start(&thread, weir_test_shut_down, NULL);
        weir_test_sleep(PATIENCE);
        CU_ASSERT_PTR_NOT_NULL(shard->ending);
        weir__names_unlock(shard);
        weir_test_thread_join(&thread);
        CU_ASSERT(all_are_buried());
}

/* -- turns -- */

#define TURNS      100
#define LEAST_WAIT WEIR_USEC(50) /* for a sleeper that does not come: it may have no CPU for a while */

struct turns {
        struct weir__lock lock;
        _Atomic unsigned offered, taken; /* to and by the other thread */
};

static void
take_turns(void *argument)
{
        struct turns *turns = argument;

        for (unsigned turn = 0; turn < TURNS; turn++) {
                while (turns->offered == turn) {
                        continue;
                }
                weir__lock(&turns->lock);
                atomic_fetch_add(&turns->taken, 1);
                weir__unlock(&turns->lock);
        }
}

/* Lets go of the lock, and takes it again, until the other thread had it; returns how often. */
static unsigned
offer_turn(struct turns *turns)
{
        unsigned taken = atomic_fetch_add(&turns->offered, 1), holds = 0;

        while (!weir__lock_has_sleepers(&turns->lock)) {
                sched_yield();
        }
        weir_test_sleep(WEIR_USEC(100)); /* it is counted before it sleeps */
        for (; turns->taken == taken; holds++) {
                weir__unlock(&turns->lock);
                weir__lock_let_in(&turns->lock);
                weir__lock(&turns->lock);
        }
        return holds;
}

/* A sleeper must be woken before it can take the lock: who lets it go and takes it again at once is faster nearly each time. */
static void
who_sleeps_for_a_lock_is_let_in(void)
{
        struct weir_test_thread thread;
        struct turns turns = {0};
        unsigned holds = 0;

        weir__lock_init(&turns.lock, WEIR__RANK_LEAF);
        weir__lock(&turns.lock);
        weir_test_thread_start(&thread, take_turns, &turns);
        int64_t began = weir_test_now();
        for (unsigned turn = 0; turn < TURNS; turn++) {
                holds += offer_turn(&turns);
        }
        int64_t took = weir_test_now() - began;
        weir__unlock(&turns.lock);
        weir_test_thread_join(&thread);
        CU_ASSERT(holds < 2 * TURNS + took / LEAST_WAIT);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(while_the_lock_is_taken_a_busy_worker_goes_on),
                WEIR_TEST(worker_with_nothing_else_to_do_tries_again),
                WEIR_TEST(no_more_than_some_thousand_are_postponed),
                WEIR_TEST(postponed_dead_are_not_waited_for),
                WEIR_TEST(shutdown_buries_what_was_postponed),
                WEIR_TEST(who_sleeps_for_a_lock_is_let_in),
        };

        return weir_test_main("burial", tests, sizeof tests / sizeof *tests);
}
