/* test/virtual_clock_test.c: the virtual clock in steps, held, and as wall clock; callers that may move it, and refused ones.
 *
 * The one worker records the timers that are due, in the order in which they run. */
#include "test/timer_fixture.h"

#include <limits.h>

#include "kernel/base/clock.h"
#include "kernel/runtime/virtual.h"

#define DAY  WEIR_SEC(86400)
#define FAST WEIR_TEST_TOLERANCE /* real time that nothing here may come near to */

/* -- record of callbacks -- */

static struct {
        unsigned count;
        struct seen {
                unsigned number;
                weir_nsec at; /* since the beginning */
        } list[4096];
        weir_nsec began;
} seen;

static void
begin(void)
{
        weir_test_begin_virtual();
        memset(&seen, 0, sizeof seen);
        seen.began = weir_now();
}

/* A timer that the end of the runtime ends does not count. */
static void
see(weir_task *task, void *number)
{
        if (weir_task_status(task) != -ESHUTDOWN && seen.count < sizeof seen.list / sizeof *seen.list) {
                seen.list[seen.count++] = (struct seen){(unsigned)(uintptr_t)number, weir_now() - seen.began};
        }
}

static void
start(weir_nsec after, unsigned number)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(after, see, (void *)(uintptr_t)number)), 0);
}

/* A callback that is seen, and starts others: 100 more each, at once, later, and beyond. */
static void
see_and_start(weir_task *task, void *number)
{
        see(task, number);
        start(WEIR_SEC(5), (unsigned)(uintptr_t)number + 300);
        start(WEIR_SEC(1), (unsigned)(uintptr_t)number + 200);
        start(0, (unsigned)(uintptr_t)number + 100);
}

static void
check(const struct seen *expected, unsigned count)
{
        CU_ASSERT_EQUAL(seen.count, count);
        for (unsigned i = 0; i < count && i < seen.count; i++) {
                CU_ASSERT_EQUAL(seen.list[i].number, expected[i].number);
                CU_ASSERT_EQUAL(seen.list[i].at, expected[i].at);
        }
}

#define CHECK(...) check((struct seen[]){__VA_ARGS__}, sizeof((struct seen[]){__VA_ARGS__}) / sizeof(struct seen))

/* Waits for so long: the clock goes by itself. */
static void
run_for(weir_nsec duration)
{
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(duration, NULL, NULL)), 0);
}

/* -- steps -- */

static void
advance_runs_what_is_due_up_to_the_instant_and_at_it(void)
{
        begin();
        start(WEIR_SEC(3), 3);
        start(WEIR_SEC(1), 1);
        start(WEIR_SEC(2), 2);
        start(WEIR_SEC(2) + 1, 4);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(2)), 0);
        CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(2));
        CHECK({1, WEIR_SEC(1)}, {2, WEIR_SEC(2)});
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_EQUAL(seen.count, 3);
        CU_ASSERT_EQUAL(weir_clock_run_until(seen.began + WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(10));
        CHECK({1, WEIR_SEC(1)}, {2, WEIR_SEC(2)}, {4, WEIR_SEC(2) + 1}, {3, WEIR_SEC(3)});
        weir_test_end();
}

static void
timers_that_callbacks_start_run_in_the_same_step_if_they_are_due(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), see_and_start, (void *)1)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), see_and_start, (void *)2)), 0);
        start(WEIR_SEC(1), 3);
        start(WEIR_SEC(2), 4);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(2)), 0);
        CHECK({1, WEIR_SEC(1)}, {2, WEIR_SEC(1)}, {3, WEIR_SEC(1)}, {101, WEIR_SEC(1)}, {102, WEIR_SEC(1)}, {4, WEIR_SEC(2)},
              {201, WEIR_SEC(2)}, {202, WEIR_SEC(2)});
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(4) - 1), 0);
        CU_ASSERT_EQUAL(seen.count, 8);
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_EQUAL(seen.count, 10);
        weir_test_end();
}

/* More than the worker takes at once, more than it runs in a row. */
static void
many_timers_of_one_instant_run_in_the_order_of_start(void)
{
        enum { COUNT = 2000 };

        begin();
        for (unsigned i = 0; i < COUNT; i++) {
                weir_nsec now = weir_now();

                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(7), i % 100 ? see : see_and_start, (void *)(uintptr_t)i)),
                                0);
                CU_ASSERT_EQUAL(now, weir_now());
        }
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(7)), 0);
        CU_ASSERT_EQUAL(seen.count, COUNT + COUNT / 100);
        for (unsigned i = 0; i < seen.count; i++) {
                CU_ASSERT_EQUAL(seen.list[i].number, i < COUNT ? i : (i - COUNT) * 100 + 100);
                CU_ASSERT_EQUAL(seen.list[i].at, WEIR_SEC(7));
        }
        weir_test_end();
}

static void
advance_by_0_runs_timers_that_are_due_now(void)
{
        begin();
        for (unsigned i = 0; i < 200; i++) {
                start(-5, i);
                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(see, (void *)(uintptr_t)i)), 0);
                CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
                CU_ASSERT_EQUAL(seen.count, 2 * (i + 1));
        }
        start(1, 0);
        CU_ASSERT_EQUAL(weir_clock_run_until(weir_now()), 0);
        CU_ASSERT_EQUAL(seen.count, 400);
        CU_ASSERT_EQUAL(weir_now(), seen.began);
        weir_test_end();
}

/* The chain is longer than a worker runs in a row. */
static void
chain(weir_task *task, void *left)
{
        see(task, left);
        if (left) {
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, chain, (char *)left - 1)), 0);
        }
}

static void
advance_runs_chains_of_callbacks(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), chain, (void *)1000)), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(seen.count, 1001);
        CU_ASSERT_EQUAL(seen.list[1000].at, WEIR_SEC(1));
        weir_test_end();
}

static void
advance_with_nothing_pending_moves_the_clock(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_clock_advance(100 * 365 * DAY), 0);
        CU_ASSERT_EQUAL(weir_now() - seen.began, 100 * 365 * DAY);
        CU_ASSERT_EQUAL(weir_clock_run_until(WEIR_FOREVER - 1), 0);
        CU_ASSERT_EQUAL(weir_now(), WEIR_FOREVER - 1);
        weir_test_end();
}

/* Every day, until the end of the runtime. */
static void
remind(weir_task *task, void *context)
{
        if (weir_task_status(task) == 0) {
                see(task, context);
                weir_task_start(weir_timer_new(DAY, remind, (char *)context + 1));
        }
}

static void
a_year_takes_milliseconds_and_is_the_same_each_time(void)
{
        static struct seen first[400];

        for (unsigned round = 0; round < 5; round++) {
                begin();
                int64_t began = weir_test_now();
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(DAY, remind, NULL)), 0);
                CU_ASSERT_EQUAL(weir_clock_advance(365 * DAY), 0);
                CU_ASSERT(weir_test_now() - began < FAST);
                weir_test_end();
                CU_ASSERT_EQUAL_FATAL(seen.count, 365);
                CU_ASSERT_EQUAL(seen.list[364].at, 365 * DAY);
                if (round == 0) {
                        memcpy(first, seen.list, 365 * sizeof *first);
                }
                CU_ASSERT_EQUAL(memcmp(first, seen.list, 365 * sizeof *first), 0);
        }
}

/* -- refused -- */

static void
instants_that_have_passed_are_refused(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_clock_run_until(weir_now() - 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_clock_run_until(0), -EINVAL);
        CU_ASSERT_EQUAL(weir_clock_advance(-1), -EINVAL);
        CU_ASSERT_EQUAL(weir_clock_advance(INT64_MIN), -EINVAL);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_FOREVER), -EINVAL);
        CU_ASSERT_EQUAL(weir_clock_run_until(WEIR_FOREVER), -EINVAL);
        CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0); /* none of them has left anything behind */
        weir_test_end();
}

static void
move_on_a_worker(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_clock_advance(1), -EDEADLK);
        CU_ASSERT_EQUAL(weir_clock_advance(0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_clock_run_until(weir_now() + 1), -EDEADLK);
}

static void
a_worker_is_refused(void)
{
        begin();
        weir_test_act(WEIR_SEC(1), move_on_a_worker, NULL);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(1));
        weir_test_end();
}

static void
assert_refused(int error)
{
        CU_ASSERT_EQUAL(weir_clock_advance(1), error);
        CU_ASSERT_EQUAL(weir_clock_advance(0), error);
        CU_ASSERT_EQUAL(weir_clock_run_until(WEIR_SEC(1000000)), error);
}

static void
the_real_clock_is_nobodys_to_move(void)
{
        weir_test_begin_real(1);
        assert_refused(-ENOTSUP);
        CU_ASSERT_EQUAL(weir_clock_set_wall(1), -ENOTSUP);
        CU_ASSERT_EQUAL(weir_clock_hold(), 0); /* and time goes on */
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_MSEC(1), NULL, NULL)), 0);
        weir_clock_release();
        weir_clock_release();
        weir_test_end();
}

static void
after_a_shutdown_it_is_refused(void)
{
        begin();
        weir_test_end();
        assert_refused(-ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_clock_set_wall(1), -ENOTSUP);
}

static void
move_in_a_child(void)
{
        if (weir_clock_advance(1) == -ECHILD && weir_clock_run_until(WEIR_SEC(9)) == -ECHILD && weir_clock_hold() == -ECHILD &&
            weir_clock_set_wall(1) == -ECHILD) {
                weir_clock_release();
                abort();
        }
}

static void
a_forked_child_is_refused(void)
{
        char said[256];

        begin();
        int status = weir_test_child(move_in_a_child, said, sizeof said);
        CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT); /* all was as expected */
        CU_ASSERT_EQUAL(said[0], '\0');
        weir_test_end();
}

/* -- two that would move it -- */

struct mover {
        struct weir_test_thread thread;
        weir_nsec by;
        int result;
        _Atomic bool returned;
};

static void
move(void *argument)
{
        struct mover *mover = argument;

        mover->result = weir_clock_advance(mover->by);
        mover->returned = true;
}

static void
wait_for_it(void *argument)
{
        struct mover *mover = argument;

        mover->result = weir_task_run(weir_timer_new(mover->by, NULL, NULL));
        mover->returned = true;
}

static void
mover_start(struct mover *mover, void (*run)(void *), weir_nsec by)
{
        mover->by = by;
        mover->returned = false;
        weir_test_thread_start(&mover->thread, run, mover);
}

static int
mover_join(struct mover *mover)
{
        weir_test_thread_join(&mover->thread);
        return mover->result;
}

static void
while_a_thread_moves_it_others_are_busy(void)
{
        struct weir_test_record refused = {0};
        struct weir_test_gate gate;
        struct mover mover;

        begin();
        weir_test_gate_init(&gate);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_SEC(1), weir_test_stop_at_gate, &gate))), 0);
        mover_start(&mover, move, WEIR_SEC(5));
        weir_test_latch_wait(&gate.begun);
        CU_ASSERT_EQUAL(weir_clock_advance(1), -EBUSY);
        CU_ASSERT_EQUAL(weir_clock_advance(0), -EBUSY);
        CU_ASSERT_EQUAL(weir_clock_run_until(weir_now()), -EBUSY);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(1, &refused)), -EBUSY);
        WEIR_TEST_NOT_CALLED(&refused);
        CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(1));
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(mover_join(&mover), 0);
        CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        run_for(1);
        weir_test_end();
}

static void
while_threads_wait_in_a_run_steps_are_busy(void)
{
        struct weir_test_gate gate;
        struct mover waiters[2];

        begin();
        weir_test_gate_init(&gate);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_SEC(1), weir_test_stop_at_gate, &gate))), 0);
        for (unsigned i = 0; i < 2; i++) {
                mover_start(&waiters[i], wait_for_it, WEIR_SEC(3 + i)); /* several may wait */
        }
        weir_test_latch_wait(&gate.begun);
        assert_refused(-EBUSY);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(mover_join(&waiters[0]) + mover_join(&waiters[1]), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        weir_test_end();
}

/* The first caller gets the clock.  Time passes once for each caller that was not refused, and for nobody else. */
static void
race(void *argument)
{
        _Atomic unsigned *moved = argument;

        for (unsigned i = 0; i < 500; i++) {
                int result = weir_clock_advance(WEIR_SEC(1));

                CU_ASSERT(result == 0 || result == -EBUSY);
                *moved += result == 0;
        }
}

static void
of_threads_that_race_to_move_it_one_does(void)
{
        struct weir_test_thread threads[3];
        _Atomic unsigned moved = 0;

        begin();
        for (unsigned i = 0; i < 3; i++) {
                weir_test_thread_start(&threads[i], race, (void *)&moved);
        }
        for (unsigned i = 0; i < 3; i++) {
                weir_test_thread_join(&threads[i]);
        }
        CU_ASSERT(moved >= 1);
        CU_ASSERT_EQUAL(weir_now() - seen.began, WEIR_SEC(moved));
        weir_test_end();
}

static void
the_end_of_the_runtime_ends_a_step(void)
{
        struct weir_test_record behind = {0};
        struct weir_test_gate gate;
        struct weir_test_thread ending;
        struct mover mover;

        begin();
        weir_test_gate_init(&gate);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_SEC(1), weir_test_stop_at_gate, &gate))), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(WEIR_SEC(2), &behind)), 0);
        mover_start(&mover, move, WEIR_SEC(5));
        weir_test_latch_wait(&gate.begun);
        weir_test_shutdown_begin_behind_gate(&ending);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(mover_join(&mover), -ESHUTDOWN);
        weir_test_thread_join(&ending);
        WEIR_TEST_CALLED(&behind, -ESHUTDOWN);
        begin();
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        weir_test_end();
}

/* -- holding -- */

static void
while_it_is_held_time_stands_still(void)
{
        static void (*const ways[])(void *) = {move, wait_for_it};
        struct mover mover;

        for (unsigned i = 0; i < 2; i++) {
                begin();
                CU_ASSERT_EQUAL(weir_clock_hold(), 0);
                CU_ASSERT_EQUAL(weir_clock_hold(), 0);
                mover_start(&mover, ways[i], WEIR_SEC(3600));
                weir_test_sleep(WEIR_MSEC(5));
                weir_clock_release();
                weir_test_sleep(WEIR_MSEC(5));
                CU_ASSERT(!mover.returned);
                CU_ASSERT_EQUAL(weir_now(), seen.began);
                weir_clock_release();
                CU_ASSERT_EQUAL(mover_join(&mover), 0);
                CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(3600));
                weir_test_end();
        }
}

/* The thread that waits may be about to begin with that at first. */
static bool
it_costs_nothing_for_a_while(void)
{
        int64_t began = weir_test_cpu_time();

        weir_test_sleep(WEIR_MSEC(40));
        return weir_test_cpu_time() - began < WEIR_MSEC(10);
}

static void
a_held_clock_costs_no_cpu_time(void)
{
        struct mover mover;

        begin();
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        mover_start(&mover, move, WEIR_SEC(1));
        weir_test_sleep(WEIR_MSEC(5));
        WEIR_TEST_EVENTUALLY(it_costs_nothing_for_a_while());
        weir_clock_release();
        CU_ASSERT_EQUAL(mover_join(&mover), 0);
        weir_test_end();
}

/* A hold meets the worker in the middle of a jump. */
static void
from_the_return_of_a_hold_on_time_stands(void)
{
        enum { ROUNDS = WEIR_TEST_SANITIZED ? 300 : 3000 };
        struct mover mover;
        unsigned moved = 0;

        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new_named("tick", 1, WEIR_TICK_SKIP, NULL, NULL)), 0);
        mover_start(&mover, move, 100 * 365 * DAY);
        for (unsigned i = 0; i < ROUNDS; i++) {
                CU_ASSERT_EQUAL(weir_clock_hold(), 0);
                weir_nsec now = weir_now();
                weir_test_spin(WEIR_USEC(10));
                moved += weir_now() != now;
                weir_clock_release();
                weir_test_spin(WEIR_USEC(10));
        }
        CU_ASSERT_EQUAL(moved, 0);
        WEIR_TEST_EVENTUALLY(weir_now() > seen.began);
        CU_ASSERT_EQUAL(weir_timer_cancel("tick", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(mover_join(&mover), 0);
        weir_test_end();
}

static void
hold_and_release(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_clock_release();
}

/* The worker itself, in the place of its look at what is quiet. */
static void
look_while_another_thread_holds(void *unused)
{
        struct weir_test_thread thread;
        weir_nsec now = weir_now();

        (void)unused;
        for (unsigned quiet = 0; quiet < 2; quiet++) {
                CU_ASSERT_EQUAL(weir__virtual_mode(), WEIR__VIRTUAL_WAITED_FOR);
                if (!quiet) {
                        weir_test_thread_start(&thread, hold_and_release, NULL);
                        weir_test_thread_join(&thread);
                }
                weir__virtual_advance(now + 5);
                CU_ASSERT_EQUAL(weir_now(), quiet ? now + 5 : now);
        }
}

/* A thread sends something while it holds the clock, after the worker has looked.  Its release wakes a worker that is awake. */
static void
time_does_not_move_on_a_look_that_is_older_than_a_hold(void)
{
        struct mover mover;

        begin();
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_test_act(WEIR_SEC(10), look_while_another_thread_holds, NULL);
        mover_start(&mover, wait_for_it, WEIR_SEC(60));
        weir_clock_release();
        CU_ASSERT_EQUAL(mover_join(&mover), 0);
        CU_ASSERT_EQUAL(weir_now(), seen.began + WEIR_SEC(60));
        weir_test_end();
}

/* Timers that are due at the present instant run although the clock is held. */
static void
a_held_clock_runs_what_is_due_now(void)
{
        struct weir_test_record record = {0};

        begin();
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(0, &record)), 0);
        weir_test_wait_freed(&record);
        weir_clock_release();
        WEIR_TEST_CALLED(&record, 0);
        weir_test_end();
}

/* Work that a callback hands to a thread of the program, which starts the next step of the flow when it is done. */
struct work {
        struct weir_test_thread thread;
        weir_nsec at;
};

static void
think(void *argument)
{
        struct work *work = argument;

        weir_test_sleep(WEIR_MSEC(5));
        work->at = weir_now();
        start(WEIR_SEC(1), 7);
        weir_clock_release();
}

static void
hand_over(void *argument)
{
        struct work *work = argument;

        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_test_thread_start(&work->thread, think, work);
}

static void
a_hold_of_a_callback_is_released_by_the_thread_that_works_for_it(void)
{
        struct work work;

        for (unsigned i = 0; i < 2; i++) {
                begin();
                weir_test_act(WEIR_SEC(10), hand_over, &work);
                if (i == 0) {
                        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(60)), 0);
                } else {
                        run_for(WEIR_SEC(60));
                }
                weir_test_thread_join(&work.thread);
                CU_ASSERT_EQUAL(work.at, seen.began + WEIR_SEC(10));
                CHECK({7, WEIR_SEC(11)});
                weir_test_end();
        }
}

static void
a_holder_cannot_wait_for_time_to_pass(void)
{
        struct weir_test_record refused = {0};

        begin();
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_clock_run_until(weir_now() + 1), -EDEADLK);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(1, &refused)), -EDEADLK);
        WEIR_TEST_NOT_CALLED(&refused);
        weir_clock_release();
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        CU_ASSERT_EQUAL(weir_clock_hold(), 0);
        weir_test_end(); /* a hold ends with its runtime */
        begin();
        CU_ASSERT_EQUAL(weir_clock_advance(1), 0);
        weir_test_end();
}

static void
release_what_nobody_holds(void)
{
        weir_test_begin_virtual();
        weir_clock_hold();
        weir_clock_release();
        weir_clock_release();
}

static void
release_here(void *unused)
{
        (void)unused;
        weir_clock_release();
}

static void
release_what_another_thread_holds(void)
{
        struct weir_test_thread thread;

        weir_test_begin_virtual();
        weir_clock_hold();
        weir_test_thread_start(&thread, release_here, NULL);
        weir_test_thread_join(&thread);
}

static void
a_release_without_a_hold_aborts(void)
{
        weir_test_aborts(release_what_nobody_holds, "weir_clock_release");
        weir_test_aborts(release_what_another_thread_holds, "weir_clock_release");
}

/* -- the wall -- */

static _Atomic unsigned changes;

static void
count_change(void)
{
        changes++;
}

static void
the_wall_clock_begins_at_its_epoch_and_goes_with_the_other(void)
{
        for (unsigned i = 0; i < 2; i++) {
                begin();
                CU_ASSERT_EQUAL(weir_wall_now(), WEIR_WALL_EPOCH);
                CU_ASSERT_EQUAL(weir_clock_advance(DAY + 1), 0);
                CU_ASSERT_EQUAL(weir_wall_now(), WEIR_WALL_EPOCH + DAY + 1);
                CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_SEC(5)), 0);
                weir_test_end();
        }
}

static void
the_wall_clock_changes_and_the_other_does_not(void)
{
        begin();
        changes = 0;
        weir__clock_on_wall_change(count_change);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_SEC(1000000)), 0);
        CU_ASSERT_EQUAL(weir_wall_now(), WEIR_SEC(1000000));
        CU_ASSERT_EQUAL(weir_now(), seen.began);
        CU_ASSERT_EQUAL(weir_clock_advance(7), 0);
        CU_ASSERT_EQUAL(weir_wall_now(), WEIR_SEC(1000000) + 7);
        CU_ASSERT_EQUAL(weir_clock_set_wall(0), 0);
        CU_ASSERT_EQUAL(weir_wall_now(), 0);
        CU_ASSERT_EQUAL(changes, 2);
        CU_ASSERT_EQUAL(weir_clock_set_wall(-1), -EINVAL);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_FOREVER), -EINVAL);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_FOREVER - 1), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_wall_now(), WEIR_FOREVER);
        CU_ASSERT_EQUAL(changes, 3);
        weir__clock_on_wall_change(NULL);
        weir_test_end();
}

static void
the_real_wall_clock_is_that_of_the_system(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        weir_nsec before = now.tv_sec * INT64_C(1000000000) + now.tv_nsec, wall = weir_wall_now();
        CU_ASSERT(before <= wall && wall - before < WEIR_TEST_PATIENCE);
}

/* -- the same each time -- */

static int
print_name(const struct weir_timer_info *info, void *context)
{
        (void)context;
        printf("%s %lld\n", info->name, (long long)info->due_in);
        return 0;
}

static void
print_end(weir_task *task, void *number)
{
        printf("%u %d %lld\n", (unsigned)(uintptr_t)number, weir_task_status(task), (long long)weir_now());
}

/* Names in the order of their hashes, ends in the order of time, and both. */
static void
print_course(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        char name[16];

        config.clock = WEIR_CLOCK_VIRTUAL;
        if (weir_init(&config)) {
                exit(1);
        }
        for (unsigned i = 0; i < 300; i++) {
                snprintf(name, sizeof name, "name %u", i);
                weir_task_start(weir_timer_new_named(name, WEIR_SEC(1 + i * 7 % 10), print_end, (void *)(uintptr_t)i));
        }
        weir_timer_list("", print_name, NULL);
        weir_clock_advance(WEIR_SEC(4));
        weir_timer_cancel_prefix("name 1", 50);
        weir_clock_advance(WEIR_SEC(4));
        weir_shutdown();
}

/* Another process of this program prints it.  Returns how much that was. */
static size_t
course(char *text, size_t size)
{
        char command[PATH_MAX + 8] = "";
        ssize_t length = readlink("/proc/self/exe", command, PATH_MAX);

        CU_ASSERT_FATAL(length > 0);
        strcpy(command + length, " course");
        FILE *output = popen(command, "r");
        CU_ASSERT_PTR_NOT_NULL_FATAL(output);
        length = (ssize_t)fread(text, 1, size - 1, output);
        text[length] = '\0';
        CU_ASSERT_EQUAL(pclose(output), 0);
        return (size_t)length;
}

static void
a_program_prints_the_same_each_time(void)
{
        static char first[65536], other[65536];

        CU_ASSERT(course(first, sizeof first) > 1000);
        for (unsigned i = 0; i < 5; i++) {
                course(other, sizeof other);
                CU_ASSERT_STRING_EQUAL(first, other);
        }
}

static void
block_again_and_again(void *moved)
{
        weir_nsec began = weir_now();

        for (int i = 0; i < 20000; i++) {
                weir_blocking_begin();
                for (volatile int rest = 100 * (i % 300); rest > 0; rest--)
                        continue;
                if (i % 16 == 0)
                        sched_yield(); /* seldom: it may cost a slice of each program that wants the CPU */
                weir_blocking_end();
        }
        *(weir_nsec *)moved = weir_now() - began;
}

static void *
make_it_look(void *stop)
{
        while (!atomic_load((_Atomic bool *)stop))
                CU_ASSERT(weir_task_run(weir_empty_new(NULL, NULL)) == 0);
        return NULL;
}

/* It counts as one that runs, or as one that blocks, at each moment that the worker looks. */
static void
time_stands_while_a_function_blocks_again_and_again(void)
{
        weir_nsec moved = -1;
        _Atomic bool stop = false;
        pthread_t thread;

        begin();
        CU_ASSERT_FATAL(pthread_create(&thread, NULL, make_it_look, &stop) == 0);
        weir_task_start(weir_timer_new(DAY, see, NULL));
        CU_ASSERT(weir_task_run(weir_go_new(NULL, block_again_and_again, NULL, &moved)) == 0);
        CU_ASSERT(moved == 0);
        atomic_store(&stop, true);
        pthread_join(thread, NULL);
        CU_ASSERT(weir_shutdown() == 0);
}

int
main(int count, char *arguments[])
{
        if (count > 1 && strcmp(arguments[1], "course") == 0) {
                print_course();
                return 0;
        }
        static const struct weir_test tests[] = {
                WEIR_TEST(advance_runs_what_is_due_up_to_the_instant_and_at_it),
                WEIR_TEST(timers_that_callbacks_start_run_in_the_same_step_if_they_are_due),
                WEIR_TEST(many_timers_of_one_instant_run_in_the_order_of_start),
                WEIR_TEST(advance_by_0_runs_timers_that_are_due_now),
                WEIR_TEST(advance_runs_chains_of_callbacks),
                WEIR_TEST(advance_with_nothing_pending_moves_the_clock),
                WEIR_TEST(a_year_takes_milliseconds_and_is_the_same_each_time),
                WEIR_TEST(instants_that_have_passed_are_refused),
                WEIR_TEST(a_worker_is_refused),
                WEIR_TEST(the_real_clock_is_nobodys_to_move),
                WEIR_TEST(after_a_shutdown_it_is_refused),
                WEIR_TEST(a_forked_child_is_refused),
                WEIR_TEST(while_a_thread_moves_it_others_are_busy),
                WEIR_TEST(while_threads_wait_in_a_run_steps_are_busy),
                WEIR_TEST(of_threads_that_race_to_move_it_one_does),
                WEIR_TEST(the_end_of_the_runtime_ends_a_step),
                WEIR_TEST(while_it_is_held_time_stands_still),
                WEIR_TEST(a_held_clock_costs_no_cpu_time),
                WEIR_TEST(from_the_return_of_a_hold_on_time_stands),
                WEIR_TEST(time_does_not_move_on_a_look_that_is_older_than_a_hold),
                WEIR_TEST(a_held_clock_runs_what_is_due_now),
                WEIR_TEST(time_stands_while_a_function_blocks_again_and_again),
                WEIR_TEST(a_hold_of_a_callback_is_released_by_the_thread_that_works_for_it),
                WEIR_TEST(a_holder_cannot_wait_for_time_to_pass),
                WEIR_TEST(a_release_without_a_hold_aborts),
                WEIR_TEST(a_program_prints_the_same_each_time),
                WEIR_TEST(the_wall_clock_begins_at_its_epoch_and_goes_with_the_other),
                WEIR_TEST(the_wall_clock_changes_and_the_other_does_not),
                WEIR_TEST(the_real_wall_clock_is_that_of_the_system),
        };

        return weir_test_main("virtual_clock", tests, sizeof tests / sizeof *tests);
}
