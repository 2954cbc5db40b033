/* test/lateness_test.c: how late callbacks begin, read inside them and over all callbacks.
 *
 * On the virtual clock one worker runs what is due in order, and the clock stands still meanwhile.  So the tests hold the worker
 * up by moving the clock on inside a callback: what waits behind it is late by that much, to the nanosecond. */
#include "test/timer_fixture.h"

#include <limits.h>

#include "factory/task/series.h"
#include "kernel/base/clock.h"

#define UNTOLD INT64_MAX

static struct weir_lateness
lateness_of(int poller)
{
        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;

        CU_ASSERT_EQUAL(weir_lateness(poller, &lateness), 0);
        return lateness;
}

static void
begin_anew(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_lateness_reset(WEIR_ALL_POLLERS, NULL), 0);
}

/* As a callback would that takes so long. */
static void
take_long(void *duration)
{
        atomic_fetch_add(&weir__clock.virtual_instant, *(weir_nsec *)duration);
}

/* The lateness that a callback has read, and its status. */
struct late {
        weir_nsec lateness;
        int status;
};

static void
note_lateness(weir_task *task, void *context)
{
        struct late *late = context;

        late->lateness = weir_timer_lateness(task);
        late->status = weir_task_status(task);
}

static weir_task *
late_timer(weir_nsec after, struct late *late)
{
        *late = (struct late){.lateness = UNTOLD};
        return weir_timer_new_named("late", after, note_lateness, late);
}

#define TOLD(late_, lateness_, status_)                          \
        do {                                                     \
                CU_ASSERT_EQUAL((late_)->lateness, (lateness_)); \
                CU_ASSERT_EQUAL((late_)->status, (status_));     \
        } while (0)

/* -- inside a callback -- */

static void
a_callback_is_told_how_long_after_its_deadline_it_began(void)
{
        static weir_nsec slow = WEIR_MSEC(5) + 3;
        struct late late[3];

        begin_anew();
        weir_test_act(WEIR_SEC(1), take_long, &slow);
        weir_task_start(late_timer(WEIR_SEC(1) - 1, &late[0]));
        weir_task_start(late_timer(WEIR_SEC(1), &late[1]));
        weir_task_start(late_timer(WEIR_SEC(1) + 1, &late[2]));
        weir_test_pass(WEIR_SEC(2));
        TOLD(&late[0], 0, 0);
        TOLD(&late[1], slow, 0);
        TOLD(&late[2], slow - 1, 0);
        weir_test_end();
}

static void
a_timer_of_no_duration_is_late_since_its_start(void)
{
        static weir_nsec slow = 77;
        struct late late[2];
        struct weir_test_gate gate;

        begin_anew();
        weir_test_gate_hold(&gate, NULL);
        weir_test_act(0, take_long, &slow);
        weir_task_start(late_timer(0, &late[0]));
        weir_task_start(late_timer(-WEIR_SEC(9), &late[1]));
        weir_test_gate_open(&gate);
        weir_test_pass(1);
        TOLD(&late[0], 77, 0);
        TOLD(&late[1], 77, 0);
        weir_test_end();
}

static void
reset_ready(void *after)
{
        CU_ASSERT_EQUAL(weir_timer_reset("late", *(weir_nsec *)after), 1);
}

static void
extend_ready(void *by)
{
        CU_ASSERT_EQUAL(weir_timer_extend("late", *(weir_nsec *)by), 1);
}

static void
after_a_reset_the_new_deadline_counts(void)
{
        static weir_nsec slow = 1000, after = 600, by = -WEIR_SEC(3600), later = 400;
        static const struct {
                void (*act)(void *argument);
                weir_nsec *argument, lateness;
        } cases[] = {
                {reset_ready, &after, 0},    /* 600 after the thousand that it was late */
                {extend_ready, &later, 600}, /* 400 after a deadline that was a thousand ago */
                {extend_ready, &by, 1000},   /* not before it was due first */
        };

        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct late late;

                begin_anew();
                weir_test_act(WEIR_SEC(1), take_long, &slow);
                weir_test_act(WEIR_SEC(1), cases[i].act, cases[i].argument);
                weir_task_start(late_timer(WEIR_SEC(1), &late));
                weir_test_pass(WEIR_SEC(2));
                TOLD(&late, cases[i].lateness, 0);
                weir_test_end();
        }
}

static void
a_pending_timer_made_due_in_the_past_is_late_since_then(void)
{
        static weir_nsec by = -WEIR_SEC(3600), slow = 50;
        struct late late;

        begin_anew();
        weir_task_start(late_timer(WEIR_SEC(10), &late));
        weir_test_act(WEIR_SEC(1), extend_ready, &by);
        weir_test_act(WEIR_SEC(1), take_long, &slow);
        weir_test_pass(WEIR_SEC(2));
        TOLD(&late, 50, 0);
        weir_test_end();
}

static void
push_on_grid(weir_task *task, void *timer)
{
        weir_series *series = weir_series_of(task);

        series->granularity = WEIR_MSEC(1); /* as that of an exchange has */
        weir_series_push(series, timer);
}

static void
a_deadline_on_a_grid_counts_as_rounded(void)
{
        static weir_nsec slow = 30;
        struct late late;

        begin_anew();
        weir_test_act(WEIR_MSEC(11), take_long, &slow); /* the clock begins at a whole second */
        weir_task_start(weir_timer_new(0, push_on_grid, late_timer(WEIR_USEC(10300), &late)));
        weir_test_pass(WEIR_SEC(1));
        TOLD(&late, 30, 0);
        weir_test_end();
}

static void
slack_is_not_lateness(void)
{
        static weir_nsec slow = 30;
        struct late late;
        weir_task *timer = late_timer(WEIR_MSEC(10), &late);

        begin_anew();
        CU_ASSERT_EQUAL(weir_timer_set_slack(timer, 1 << 20), 0);
        weir_nsec due = (weir_now() + WEIR_MSEC(10) + (1 << 20) - 1) >> 20 << 20;
        weir_test_act(due - weir_now(), take_long, &slow);
        weir_task_start(timer);
        weir_test_pass(WEIR_SEC(1));
        TOLD(&late, 30, 0);
        weir_test_end();
}

/* -- tickers: each tick has a deadline -- */

struct ticks {
        struct late seen[8];
        unsigned count;
        weir_nsec slow; /* the first one takes that long */
        weir_nsec by;   /* and extends the next by that */
};

static void
tick(weir_task *task, void *context)
{
        struct ticks *ticks = context;

        note_lateness(task, &ticks->seen[ticks->count]);
        if (ticks->count++ == 0) {
                take_long(&ticks->slow);
                weir_timer_extend("ticker", ticks->by);
        }
        if (weir_task_status(task) == -EINPROGRESS && weir_timer_lateness(task) > 0) {
                CU_ASSERT_EQUAL(weir_ticker_actual(task) - weir_ticker_scheduled(task), weir_timer_lateness(task));
        }
}

static void
each_tick_tells_its_lateness_and_the_last_callback_none(void)
{
        static const struct {
                enum weir_tick_policy policy;
                weir_nsec by, lateness[4]; /* of the second tick, and so on */
        } cases[] = {
                {WEIR_TICK_BURST, 0, {250, 150, 50, 0}},   {WEIR_TICK_SKIP, 0, {0, 0, 0, 0}},
                {WEIR_TICK_DELAY, 0, {0, 0, 0, 0}},        {WEIR_TICK_BURST, INT64_MIN, {250, 150, 50, 0}},
                {WEIR_TICK_SKIP, INT64_MIN, {0, 0, 0, 0}},
        };

        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct ticks ticks = {.slow = 350, .by = cases[i].by};

                begin_anew();
                weir_task *ticker = weir_ticker_new_named("ticker", 100, cases[i].policy, tick, &ticks);
                weir_ticker_set_limit(ticker, 5);
                CU_ASSERT_EQUAL(weir_task_run(ticker), 0);
                CU_ASSERT_EQUAL(ticks.count, 6);
                TOLD(&ticks.seen[0], 0, -EINPROGRESS);
                for (unsigned j = 1; j < 5; j++) {
                        TOLD(&ticks.seen[j], cases[i].lateness[j - 1], -EINPROGRESS);
                }
                TOLD(&ticks.seen[5], -ENODATA, 0);
                struct weir_lateness lateness = lateness_of(0);
                CU_ASSERT(lateness.count == 5 && lateness.max == cases[i].lateness[0]);
                weir_test_end();
        }
}

static void
a_pending_ticker_made_due_in_the_past_ticks_from_the_present_on(void)
{
        static weir_nsec by = INT64_MIN;
        struct ticks ticks = {0};

        begin_anew();
        weir_task *ticker = weir_ticker_new_named("late", WEIR_SEC(10), WEIR_TICK_SKIP, tick, &ticks);
        weir_ticker_set_limit(ticker, 2);
        weir_task_start(ticker);
        weir_test_act(WEIR_SEC(1), extend_ready, &by);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(ticks.count, 1);
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_EQUAL(ticks.count, 3);
        TOLD(&ticks.seen[0], 0, -EINPROGRESS);
        TOLD(&ticks.seen[1], 0, -EINPROGRESS);
        TOLD(&ticks.seen[2], -ENODATA, 0);
        weir_test_end();
}

static void
cancel_ready(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_cancel("late", WEIR_ALL), 1);
}

static void
cancel_series(void *series)
{
        weir_series_cancel(series);
}

/* Cancelled while pending, while ready, and before its start; by its series while ready; and shut down. */
static void
a_timer_that_did_not_expire_has_no_lateness_and_is_not_counted(void)
{
        struct late pending, ready, early, in_series, in_parallel, shut_down;

        begin_anew();
        weir_task_start(late_timer(WEIR_SEC(1), &pending));
        cancel_ready(NULL);
        weir_task *timer = late_timer(WEIR_SEC(1), &early);
        cancel_ready(NULL);
        weir_task_start(timer);
        weir_test_act(WEIR_SEC(1), cancel_ready, NULL);
        weir_task_start(late_timer(WEIR_SEC(1), &ready));
        weir_test_pass(WEIR_SEC(2));
        weir_series *series = weir_series_new(NULL, NULL);
        weir_test_act(WEIR_SEC(1), cancel_series, series);
        weir_series_push(series, late_timer(WEIR_SEC(1), &in_series));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(2));
        weir_series *outer = weir_series_new(NULL, NULL);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_test_act(WEIR_SEC(1), cancel_series, outer); /* which has not reached the child when that begins */
        weir_parallel_add(parallel, late_timer(WEIR_SEC(1), &in_parallel));
        weir_series_push(outer, parallel);
        weir_series_start(outer);
        weir_test_pass(WEIR_SEC(2));
        weir_task_start(late_timer(WEIR_SEC(1), &shut_down));
        uint64_t count = lateness_of(0).count;
        weir_test_end();
        TOLD(&pending, -ENODATA, -ECANCELED);
        TOLD(&early, -ENODATA, -ECANCELED);
        TOLD(&ready, -ENODATA, -ECANCELED);
        TOLD(&in_series, -ENODATA, -ECANCELED);
        TOLD(&in_parallel, -ENODATA, -ECANCELED);
        TOLD(&shut_down, -ENODATA, -ESHUTDOWN);
        CU_ASSERT_EQUAL(count, 3); /* those that cancelled */
        CU_ASSERT_EQUAL(lateness_of(0).count, count);
}

/* The worker finds, in this order: the second gate, the shutdown, and the timer that has expired, which is reset meanwhile. */
static void
a_timer_that_was_reset_and_then_shut_down_has_no_lateness(void)
{
        struct weir_test_gate gate, second;
        struct weir_test_thread ending;
        struct late late;

        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_lateness_reset(WEIR_ALL_POLLERS, NULL), 0);
        weir_test_gate_hold(&gate, NULL);
        weir_test_gate_init(&second);
        weir_task_start(late_timer(1, &late));
        weir_task_start(weir_test_recorded(weir_empty_new(weir_test_stop_at_gate, &second)));
        weir_test_shutdown_begin_behind_gate(&ending);
        weir_test_gate_open(&gate);
        weir_test_latch_wait(&second.begun);
        CU_ASSERT_EQUAL(weir_timer_reset("late", WEIR_TEST_FAR), 1);
        weir_test_gate_open(&second);
        weir_test_thread_join(&ending);
        TOLD(&late, -ENODATA, -ESHUTDOWN);
        CU_ASSERT_EQUAL(lateness_of(0).count, 1); /* the first gate */
}

static void
another_task_or_an_unbegun_timer_has_no_lateness(void)
{
        struct late late = {0};
        weir_task *timer = weir_timer_new(1, NULL, NULL), *parallel = weir_parallel_new(NULL, NULL);

        begin_anew();
        CU_ASSERT_EQUAL(weir_timer_lateness(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_lateness(parallel), -EDOM);
        CU_ASSERT_EQUAL(weir_timer_lateness(timer), -ENODATA);
        weir_task_dismiss(timer);
        weir_task_dismiss(parallel);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(note_lateness, &late)), 0);
        TOLD(&late, -EDOM, 0);
        CU_ASSERT_EQUAL(lateness_of(0).count, 0);
        weir_test_end();
}

/* -- of all together -- */

static void
the_sum_tells_what_the_callbacks_were_told(void)
{
        static weir_nsec slow = 10;
        struct late late;

        begin_anew();
        for (unsigned i = 0; i < 99; i++) {
                weir_task_start(late_timer(WEIR_SEC(1), &late));
        }
        weir_test_act(WEIR_SEC(1), take_long, &slow);
        weir_task_start(late_timer(WEIR_SEC(1), &late));
        weir_test_pass(WEIR_SEC(1) - 1);
        struct weir_lateness before = lateness_of(0);
        CU_ASSERT(before.count == 0 && before.max == 0);
        weir_test_pass(WEIR_SEC(1));
        TOLD(&late, 10, 0);
        struct weir_lateness lateness = lateness_of(0), all = lateness_of(WEIR_ALL_POLLERS);
        CU_ASSERT_EQUAL(lateness.count, 101); /* with the slow one */
        CU_ASSERT(lateness.p50 == 0 && lateness.p90 == 0 && lateness.p99 == 0 && lateness.p999 == 10 && lateness.max == 10);
        CU_ASSERT_EQUAL(memcmp(&lateness, &all, sizeof all), 0);
        weir_test_end();
}

static void
reset_tells_what_was_and_begins_anew(void)
{
        static weir_nsec slow = WEIR_MSEC(20);
        struct late late;
        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;

        begin_anew();
        weir_test_act(WEIR_SEC(1), take_long, &slow);
        weir_task_start(late_timer(WEIR_SEC(1), &late));
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_lateness_reset(0, &lateness), 0);
        CU_ASSERT(lateness.count == 2 && lateness.max == WEIR_MSEC(20) && lateness.p99 == WEIR_MSEC(20));
        lateness = lateness_of(0);
        CU_ASSERT(lateness.count == 0 && lateness.p50 == 0 && lateness.p999 == 0 && lateness.max == 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_SEC(1), NULL, NULL)), 0);
        CU_ASSERT_EQUAL(lateness_of(0).count, 1);
        weir_test_end();
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(lateness_of(0).count, 1);
        weir_test_end();
}

static void
a_wrong_question_is_refused_and_its_result_untouched(void)
{
        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;

        begin_anew();
        lateness.max = 42;
        CU_ASSERT_EQUAL(weir_lateness(0, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_lateness(-2, &lateness), -EINVAL);
        CU_ASSERT_EQUAL(weir_lateness(63, &lateness), -EINVAL);
        CU_ASSERT_EQUAL(weir_lateness(64, &lateness), -EINVAL);
        CU_ASSERT_EQUAL(weir_lateness(INT_MAX, &lateness), -EINVAL);
        CU_ASSERT_EQUAL(weir_lateness_reset(INT_MIN, NULL), -EINVAL);
        lateness.size = 0;
        CU_ASSERT_EQUAL(weir_lateness(0, &lateness), -EINVAL);
        CU_ASSERT_EQUAL(weir_lateness_reset(0, &lateness), -EINVAL);
        lateness.size = SIZE_MAX;
        CU_ASSERT_EQUAL(weir_lateness(0, &lateness), -EINVAL);
        CU_ASSERT_EQUAL(lateness.max, 42);
        weir_test_end();
}

static void
programs_compiled_before_or_after_the_library_get_what_both_know(void)
{
        struct {
                struct weir_lateness known;
                uint64_t unknown, behind;
        } newer = {.known.size = sizeof newer - sizeof newer.behind, .unknown = 7, .behind = 7};
        struct weir_lateness older = {.size = offsetof(struct weir_lateness, p50), .p50 = 7, .max = 7};

        begin_anew();
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(1, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_lateness(0, &newer.known), 0);
        CU_ASSERT(newer.known.count == 1 && newer.unknown == 0 && newer.behind == 7);
        CU_ASSERT_EQUAL(newer.known.size, sizeof newer - sizeof newer.behind);
        CU_ASSERT_EQUAL(weir_lateness(0, &older), 0);
        CU_ASSERT(older.count == 1 && older.p50 == 7 && older.max == 7);
        weir_test_end();
}

static void
a_forked_child_is_refused(void)
{
        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;
        int status;

        begin_anew();
        pid_t child = fork();
        if (child == 0) {
                _exit(weir_lateness(0, &lateness) != -ECHILD || weir_lateness_reset(WEIR_ALL_POLLERS, NULL) != -ECHILD);
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_EQUAL(status, 0);
        weir_test_end();
}

/* -- on the real clock, with others -- */

struct late_group {
        struct weir_test_latch ended;
        _Atomic uint64_t expired;
        _Atomic weir_nsec max;
        _Atomic bool over;
};

static void
count_late(weir_task *task, void *context)
{
        struct late_group *group = context;
        weir_nsec lateness = weir_timer_lateness(task), max = atomic_load(&group->max);

        if (weir_task_status(task) == 0) {
                CU_ASSERT(lateness >= 0);
                atomic_fetch_add(&group->expired, 1);
                while (lateness > max && !atomic_compare_exchange_weak(&group->max, &max, lateness)) {
                        continue;
                }
        } else {
                CU_ASSERT_EQUAL(lateness, -ENODATA);
        }
        weir_test_latch_count_down(&group->ended);
}

static void
disturb(void *argument)
{
        struct late_group *group = argument;

        while (!atomic_load(&group->over)) {
                weir_timer_extend("many", -1000);
                weir_timer_reset("many", WEIR_USEC(200));
                weir_timer_cancel("many", 1);
                lateness_of(WEIR_ALL_POLLERS);
        }
}

/* Resets that come too late meet callbacks that have begun; readers meet workers that count. */
static void
every_expiry_is_counted_once_whoever_reads_resets_and_cancels_meanwhile(void)
{
        enum { TIMERS = WEIR_TEST_SANITIZED ? 3000 : 20000 };
        struct late_group group = {0};
        struct weir_test_thread disturber;
        struct weir_lateness part = WEIR_LATENESS_DEFAULT;
        uint64_t count = 0;
        weir_nsec max = 0;

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_lateness_reset(WEIR_ALL_POLLERS, NULL), 0);
        weir_test_latch_init(&group.ended, TIMERS);
        weir_test_thread_start(&disturber, disturb, &group);
        for (unsigned i = 0; i < TIMERS; i++) {
                weir_task_start(weir_timer_new_named(i % 2 ? "many" : "others", WEIR_USEC(i % 300), count_late, &group));
                if (i % 64 == 0) {
                        CU_ASSERT_EQUAL(weir_lateness_reset(i / 64 % 2 ? 0 : WEIR_ALL_POLLERS, &part), 0);
                        count += part.count;
                        max = part.max > max ? part.max : max;
                }
        }
        WEIR_TEST_EVENTUALLY(weir_test_latch_count(&group.ended) <= weir_timer_count("many")); /* it resets them for ever */
        atomic_store(&group.over, true);
        weir_test_thread_join(&disturber);
        weir_test_latch_wait(&group.ended);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_lateness_reset(WEIR_ALL_POLLERS, &part), 0);
        max = part.max > max ? part.max : max;
        CU_ASSERT_EQUAL(count + part.count, atomic_load(&group.expired));
        CU_ASSERT(max >= atomic_load(&group.max) && max <= atomic_load(&group.max) / 16 * 17 + 17);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_callback_is_told_how_long_after_its_deadline_it_began),
                WEIR_TEST(a_timer_of_no_duration_is_late_since_its_start),
                WEIR_TEST(after_a_reset_the_new_deadline_counts),
                WEIR_TEST(a_pending_timer_made_due_in_the_past_is_late_since_then),
                WEIR_TEST(a_deadline_on_a_grid_counts_as_rounded),
                WEIR_TEST(slack_is_not_lateness),
                WEIR_TEST(each_tick_tells_its_lateness_and_the_last_callback_none),
                WEIR_TEST(a_pending_ticker_made_due_in_the_past_ticks_from_the_present_on),
                WEIR_TEST(a_timer_that_did_not_expire_has_no_lateness_and_is_not_counted),
                WEIR_TEST(a_timer_that_was_reset_and_then_shut_down_has_no_lateness),
                WEIR_TEST(another_task_or_an_unbegun_timer_has_no_lateness),
                WEIR_TEST(the_sum_tells_what_the_callbacks_were_told),
                WEIR_TEST(reset_tells_what_was_and_begins_anew),
                WEIR_TEST(a_wrong_question_is_refused_and_its_result_untouched),
                WEIR_TEST(programs_compiled_before_or_after_the_library_get_what_both_know),
                WEIR_TEST(a_forked_child_is_refused),
                WEIR_TEST(every_expiry_is_counted_once_whoever_reads_resets_and_cancels_meanwhile),
        };

        return weir_test_main("lateness", tests, sizeof tests / sizeof *tests);
}
