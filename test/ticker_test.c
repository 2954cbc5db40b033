/* test/ticker_test.c: timers that come again and again: phase, missed ticks, ends, resets; and slack.
 *
 * On the virtual clock, which a slow callback pushes on by itself. */
#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "test/timer_fixture.h"

#define PERIOD WEIR_MSEC(10)
#define KEPT   64

/* The ticks of a ticker. */
struct ticks {
        struct weir_test_record end; /* first: the last callback */
        weir_nsec began;
        unsigned count;
        struct {
                weir_nsec scheduled, actual; /* after `began` */
                uint64_t missed;
        } ticks[KEPT];
        weir_nsec takes[KEPT];                               /* how long the callback of that tick takes */
        void (*act)(weir_task *ticker, struct ticks *ticks); /* within each tick */
        weir_nsec last;                                      /* scheduled time of the last tick */
};

static void
on_tick(weir_task *task, void *context)
{
        struct ticks *ticks = context;

        if (weir_task_status(task) != -EINPROGRESS) {
                CU_ASSERT_EQUAL(weir_ticker_count(task), ticks->count);
                CU_ASSERT(!weir_ticker_is_tick(task));
                CU_ASSERT_EQUAL(weir_ticker_stop(task), -EINVAL);
                CU_ASSERT_EQUAL(weir_timer_cancel("ticker", WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_reset("ticker", 1), 0);
                weir_test_done(task, &ticks->end);
                return;
        }
        CU_ASSERT_EQUAL(ticks->end.calls, 0);
        CU_ASSERT_EQUAL(weir_ticker_count(task), ticks->count + 1);
        ticks->last = weir_ticker_scheduled(task);
        if (ticks->count < KEPT) {
                ticks->ticks[ticks->count].scheduled = weir_ticker_scheduled(task) - ticks->began;
                ticks->ticks[ticks->count].actual = weir_ticker_actual(task) - ticks->began;
                ticks->ticks[ticks->count].missed = weir_ticker_missed(task);
                atomic_fetch_add(&weir__clock.virtual_instant, ticks->takes[ticks->count]);
        }
        ticks->count++;
        if (ticks->act)
                ticks->act(task, ticks);
}

static weir_task *
recorded(weir_task *ticker)
{
        weir_task_on_free(ticker, weir_test_freed); /* the record is the context's first member */
        return ticker;
}

static weir_task *
ticker_of(struct ticks *ticks, enum weir_tick_policy policy)
{
        return recorded(weir_ticker_new(PERIOD, policy, on_tick, ticks));
}

static weir_task *
named_of(const char *name, struct ticks *ticks)
{
        return recorded(weir_ticker_new_named(name, PERIOD, WEIR_TICK_SKIP, on_tick, ticks));
}

static void
start(struct ticks *ticks, weir_task *ticker)
{
        ticks->began = weir_now();
        CU_ASSERT_EQUAL_FATAL(weir_task_start(ticker), 0);
}

#define ENDED(ticks, as)                                  \
        do {                                              \
                CU_ASSERT_EQUAL((ticks)->end.calls, 1);   \
                CU_ASSERT_EQUAL((ticks)->end.frees, 1);   \
                CU_ASSERT_EQUAL((ticks)->end.status, as); \
        } while (0)

#define TICK(which, at, begun, dropped)                   \
        do {                                              \
                CU_ASSERT_EQUAL((which).scheduled, at);   \
                CU_ASSERT_EQUAL((which).actual, begun);   \
                CU_ASSERT_EQUAL((which).missed, dropped); \
        } while (0)

/* -- policies -- */

static void
a_million_ticks_come_a_period_apart_without_drift(void)
{
        struct ticks ticks = {0};
        weir_task *ticker = recorded(weir_ticker_new(333333333, WEIR_TICK_SKIP, on_tick, &ticks));

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 1000000), 0);
        ticks.began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(ticker), 0);
        CU_ASSERT_EQUAL(ticks.count, 1000000);
        CU_ASSERT_EQUAL(ticks.last, ticks.began + INT64_C(333333333) * 1000000);
        CU_ASSERT_EQUAL(weir_now(), ticks.last);
        ENDED(&ticks, 0);
        weir_test_end();
}

static void
skip_keeps_the_phase_and_counts_what_it_drops(void)
{
        struct ticks ticks = {.takes = {[1] = 35 * PERIOD / 10, [2] = PERIOD, [3] = PERIOD - 1}};

        weir_test_begin_virtual();
        start(&ticks, ticker_of(&ticks, WEIR_TICK_SKIP));
        weir_test_pass(10 * PERIOD);
        TICK(ticks.ticks[0], PERIOD, PERIOD, 0);
        TICK(ticks.ticks[1], 2 * PERIOD, 2 * PERIOD, 0);
        TICK(ticks.ticks[2], 6 * PERIOD, 6 * PERIOD, 3); /* those at 3, 4 and 5 came during the callback, which ended at 5.5 */
        TICK(ticks.ticks[3], 8 * PERIOD, 8 * PERIOD, 1); /* when one takes a whole period, the next is over as it ends */
        TICK(ticks.ticks[4], 9 * PERIOD, 9 * PERIOD, 0);
        weir_test_end();
        ENDED(&ticks, -ESHUTDOWN);
}

static void
burst_catches_up_one_right_after_the_other(void)
{
        struct ticks ticks = {.takes = {[1] = 35 * PERIOD / 10}};

        weir_test_begin_virtual();
        start(&ticks, ticker_of(&ticks, WEIR_TICK_BURST));
        weir_test_pass(7 * PERIOD + 1);
        CU_ASSERT_EQUAL(ticks.count, 7);
        TICK(ticks.ticks[1], 2 * PERIOD, 2 * PERIOD, 0);
        for (unsigned i = 2; i < 5; i++)
                TICK(ticks.ticks[i], (i + 1) * PERIOD, 55 * PERIOD / 10, 0);
        TICK(ticks.ticks[5], 6 * PERIOD, 6 * PERIOD, 0);
        weir_test_end();
        ENDED(&ticks, -ESHUTDOWN);
}

static void
burst_is_bounded(void)
{
        struct ticks ticks = {.takes = {[0] = 1000 * PERIOD}};

        weir_test_begin_virtual();
        start(&ticks, ticker_of(&ticks, WEIR_TICK_BURST));
        weir_test_pass(1002 * PERIOD + 1);
        TICK(ticks.ticks[1], (1001 - WEIR_TICK_BURST_MOST + 1) * PERIOD, 1001 * PERIOD, 1000 - WEIR_TICK_BURST_MOST);
        TICK(ticks.ticks[2], (1001 - WEIR_TICK_BURST_MOST + 2) * PERIOD, 1001 * PERIOD, 0);
        CU_ASSERT_EQUAL(ticks.count, 1 + WEIR_TICK_BURST_MOST + 1);
        weir_test_end();
}

static void
delay_counts_from_the_end_of_the_callback(void)
{
        struct ticks ticks = {.takes = {[0] = 3, [1] = 5 * PERIOD}};

        weir_test_begin_virtual();
        start(&ticks, ticker_of(&ticks, WEIR_TICK_DELAY));
        weir_test_pass(9 * PERIOD);
        TICK(ticks.ticks[1], 2 * PERIOD + 3, 2 * PERIOD + 3, 0);
        TICK(ticks.ticks[2], 8 * PERIOD + 3, 8 * PERIOD + 3, 0);
        weir_test_end();
}

static void
first_tick_comes_when_asked_for_and_the_others_a_period_apart(void)
{
        struct ticks ticks = {0};
        weir_task *ticker = ticker_of(&ticks, WEIR_TICK_SKIP);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_ticker_set_first(ticker, 0), 0);
        start(&ticks, ticker);
        weir_test_pass(2 * PERIOD + 1);
        CU_ASSERT_EQUAL(ticks.count, 3);
        TICK(ticks.ticks[0], 0, 0, 0);
        TICK(ticks.ticks[1], PERIOD, PERIOD, 0);
        weir_test_end();
}

/* -- ends -- */

static void
stop_at_third(weir_task *ticker, struct ticks *ticks)
{
        if (ticks->count == 3)
                CU_ASSERT_EQUAL(weir_ticker_stop(ticker), 0);
}

static void
stop_and_limit_end_it_with_success(void)
{
        struct ticks stopped = {.act = stop_at_third}, limited = {0};
        weir_task *ticker = ticker_of(&limited, WEIR_TICK_SKIP);

        weir_test_begin_virtual();
        start(&stopped, ticker_of(&stopped, WEIR_TICK_SKIP));
        CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 5), 0);
        start(&limited, ticker);
        weir_test_pass(20 * PERIOD);
        CU_ASSERT_EQUAL(stopped.count, 3);
        CU_ASSERT_EQUAL(stopped.end.at, stopped.began + 3 * PERIOD);
        ENDED(&stopped, 0);
        CU_ASSERT_EQUAL(limited.count, 5);
        ENDED(&limited, 0);
        weir_test_end();
}

static void
cancel_itself(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count < 2)
                return;
        CU_ASSERT_EQUAL(weir_timer_cancel("ticker", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("ticker", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", 1), 0);
        CU_ASSERT_EQUAL(weir_timer_count("ticker"), 0);
}

static void
cancel_during_a_tick_ends_it_after_that(void)
{
        struct ticks ticks = {.act = cancel_itself};

        weir_test_begin_virtual();
        start(&ticks, named_of("ticker", &ticks));
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(ticks.count, 2);
        CU_ASSERT_EQUAL(ticks.end.at, ticks.began + 2 * PERIOD);
        ENDED(&ticks, -ECANCELED);
        weir_test_end();
}

static void
cancel_between_ticks_ends_it_at_once(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, named_of("ticker", &ticks));
        weir_test_pass(5 * PERIOD / 2);
        CU_ASSERT_EQUAL(weir_timer_count("ticker"), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("ticker", WEIR_ALL), 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(ticks.count, 2);
        ENDED(&ticks, -ECANCELED);
        CU_ASSERT_EQUAL(weir_timer_count("ticker"), 0);
        weir_test_end();
}

static void
cancel_in_the_last_callback_comes_too_late(void)
{
        struct ticks ticks = {.act = stop_at_third};
        weir_task *ticker = named_of("ticker", &ticks);
        weir_timer_id id;

        weir_test_begin_virtual();
        id = weir_timer_id_of(ticker);
        start(&ticks, ticker);
        weir_test_pass(5 * PERIOD);
        ENDED(&ticks, 0);
        CU_ASSERT(weir_test_finds_nothing(id));
        weir_test_end();
}

static weir_timer_id cancelled_id;

static void
cancel_by_id(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count == 2)
                CU_ASSERT_EQUAL(weir_timer_cancel_id(cancelled_id), 1);
}

static void
id_lasts_as_long_as_the_ticker(void)
{
        struct ticks ticks = {.act = cancel_by_id};
        weir_task *ticker = ticker_of(&ticks, WEIR_TICK_SKIP);

        weir_test_begin_virtual();
        cancelled_id = weir_timer_id_of(ticker);
        CU_ASSERT(cancelled_id != 0);
        start(&ticks, ticker);
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(ticks.count, 2);
        ENDED(&ticks, -ECANCELED);
        CU_ASSERT(weir_test_finds_nothing(cancelled_id));
        weir_test_end();
}

static void
cancel_its_series(weir_task *ticker, struct ticks *ticks)
{
        if (ticks->count == 2)
                weir_series_cancel(weir_series_of(ticker));
}

static void
its_series_cancels_it_and_goes_on_after_it(void)
{
        struct ticks inside = {.act = cancel_its_series}, outside = {0}, stopped = {.act = stop_at_third};
        struct weir_test_record behind[2] = {0};
        weir_series *series[3];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 3; i++) {
                struct ticks *ticks = (struct ticks *[]){&inside, &outside, &stopped}[i];

                series[i] = weir_series_new(NULL, NULL);
                weir_series_ref(series[i]);
                weir_series_push(series[i], ticker_of(ticks, WEIR_TICK_SKIP));
                ticks->began = weir_now();
        }
        weir_series_push(series[0], weir_test_empty(&behind[0]));
        weir_series_push(series[2], weir_test_empty(&behind[1]));
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(weir_series_start(series[i]), 0);
        weir_test_pass(7 * PERIOD / 2);
        weir_series_cancel(series[1]);
        weir_test_pass(PERIOD);
        CU_ASSERT_EQUAL(inside.count, 2);
        ENDED(&inside, -ECANCELED);
        CU_ASSERT_EQUAL(behind[0].calls, 0);
        CU_ASSERT_EQUAL(behind[0].frees, 1);
        CU_ASSERT_EQUAL(outside.count, 3);
        ENDED(&outside, -ECANCELED);
        ENDED(&stopped, 0);
        WEIR_TEST_CALLED(&behind[1], 0);
        for (unsigned i = 0; i < 3; i++)
                weir_series_unref(series[i]);
        weir_test_end();
}

static void
one_that_never_started_goes_without_a_callback(void)
{
        struct ticks ticks = {0}, cancelled = {0};
        weir_task *ticker;

        weir_test_begin_virtual();
        weir_task_dismiss(named_of("dismissed", &ticks));
        CU_ASSERT_EQUAL(ticks.end.frees, 1);
        CU_ASSERT_EQUAL(ticks.end.calls, 0);
        ticker = named_of("cancelled", &cancelled);
        CU_ASSERT_EQUAL(weir_timer_cancel("cancelled", WEIR_ALL), 1);
        start(&cancelled, ticker);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(cancelled.count, 0);
        ENDED(&cancelled, -ECANCELED);
        weir_test_end();
}

/* -- resets -- */

static void
reset_makes_another_period(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, named_of("ticker", &ticks));
        weir_test_pass(3 * PERIOD / 2);
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", 4 * PERIOD), 1);
        weir_test_pass(10 * PERIOD);
        CU_ASSERT_EQUAL(ticks.count, 3);
        TICK(ticks.ticks[1], 11 * PERIOD / 2, 11 * PERIOD / 2, 0);
        TICK(ticks.ticks[2], 19 * PERIOD / 2, 19 * PERIOD / 2, 0);
        weir_test_end();
}

static void
reset_itself(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count == 1)
                CU_ASSERT_EQUAL(weir_timer_reset("ticker", 2 * PERIOD), 1);
        if (ticks->count == 2)
                CU_ASSERT_EQUAL(weir_timer_extend("ticker", 3), 1);
        if (ticks->count == 4)
                CU_ASSERT_EQUAL(weir_timer_reset("ticker", 0), 1);
}

static void
reset_during_a_tick_is_for_the_next(void)
{
        struct ticks ticks = {.act = reset_itself};

        weir_test_begin_virtual();
        start(&ticks, named_of("ticker", &ticks));
        weir_test_pass(9 * PERIOD);
        TICK(ticks.ticks[1], 3 * PERIOD, 3 * PERIOD, 0);
        TICK(ticks.ticks[2], 5 * PERIOD + 3, 5 * PERIOD + 3, 0);
        TICK(ticks.ticks[3], 7 * PERIOD + 3, 7 * PERIOD + 3, 0);
        TICK(ticks.ticks[4], 7 * PERIOD + 3, 7 * PERIOD + 3, 0); /* at once; the period stays */
        CU_ASSERT_EQUAL(ticks.count, 5);
        weir_test_end();
}

static void
reset_before_the_start_and_when_ready(void *argument)
{
        (void)argument;
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", 2 * PERIOD), 1);
}

static void
reset_counts_a_ticker_that_is_new_or_ready(void)
{
        struct ticks ticks = {0};
        weir_task *ticker = named_of("ticker", &ticks);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", 3 * PERIOD), 1);
        weir_test_act(3 * PERIOD, reset_before_the_start_and_when_ready, NULL);
        start(&ticks, ticker);
        weir_test_pass(8 * PERIOD);
        CU_ASSERT_EQUAL(ticks.count, 2);
        TICK(ticks.ticks[0], 5 * PERIOD, 5 * PERIOD, 0);
        TICK(ticks.ticks[1], 7 * PERIOD, 7 * PERIOD, 0);
        weir_test_end();
}

/* -- other threads -- */

static struct {
        struct weir_test_latch begun, opened;
        _Atomic bool returned;
        struct weir_test_record end;
} gate;

static void
tick_at_gate(weir_task *task, void *context)
{
        if (weir_task_status(task) != -EINPROGRESS) {
                weir_test_done(task, context);
                return;
        }
        if (weir_ticker_count(task) > 1)
                return;
        weir_test_latch_count_down(&gate.begun);
        weir_test_latch_wait(&gate.opened);
        atomic_store(&gate.returned, true);
}

static void
wait_for_tick(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("ticker", 0), 0);
        CU_ASSERT(gate.returned);
}

static void
wait_without_cancel_waits_for_the_tick_only(void)
{
        struct weir_test_thread waiter;
        weir_task *ticker = weir_ticker_new_named("ticker", WEIR_TEST_FAR, WEIR_TICK_SKIP, tick_at_gate, &gate.end);

        weir_test_begin_real(1);
        weir_test_latch_init(&gate.begun, 1);
        weir_test_latch_init(&gate.opened, 1);
        CU_ASSERT_EQUAL(weir_ticker_set_first(ticker, 0), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(ticker)), 0);
        weir_test_latch_wait(&gate.begun);
        weir_test_thread_start(&waiter, wait_for_tick, NULL);
        WEIR_TEST_EVENTUALLY(weir_test_somebody_waits("ticker"));
        weir_test_latch_count_down(&gate.opened);
        weir_test_thread_join(&waiter);
        CU_ASSERT_EQUAL(gate.end.calls, 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("ticker", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(gate.end.status, -ECANCELED);
        CU_ASSERT_EQUAL(gate.end.frees, 1);
        weir_test_end();
}

/* -- slack -- */

static void
slack_brings_deadlines_together_and_leaves_the_phase(void)
{
        struct ticks ticks = {0};
        struct weir_test_record records[3] = {0};
        weir_task *ticker = ticker_of(&ticks, WEIR_TICK_SKIP), *timers[3];
        const weir_nsec granularity = 1 << 19; /* of a millisecond */

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_timer_set_slack(ticker, WEIR_MSEC(1)), 0);
        start(&ticks, ticker);
        for (unsigned i = 0; i < 3; i++) {
                timers[i] = weir_test_timer(WEIR_MSEC(20) + (weir_nsec)i * 1000, &records[i]);
                CU_ASSERT_EQUAL(weir_timer_set_slack(timers[i], i ? WEIR_MSEC(1) : 0), 0);
                CU_ASSERT_EQUAL(weir_task_start(timers[i]), 0);
        }
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(records[0].at, ticks.began + WEIR_MSEC(20));
        CU_ASSERT_EQUAL(records[1].at, records[2].at);
        CU_ASSERT_EQUAL(records[1].at % granularity, 0);
        CU_ASSERT(records[1].at >= ticks.began + WEIR_MSEC(20) + 1000);
        CU_ASSERT(records[2].at < ticks.began + WEIR_MSEC(20) + 2000 + granularity);
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(ticks.ticks[i].scheduled, (i + 1) * PERIOD);
                CU_ASSERT_EQUAL((ticks.began + ticks.ticks[i].actual) % granularity, 0);
                CU_ASSERT(ticks.ticks[i].actual - ticks.ticks[i].scheduled < granularity);
        }
        weir_test_end();
}

static void
slack_of_the_configuration_is_the_default(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct weir_test_record slack = {0}, exact = {0};

        config.clock = WEIR_CLOCK_VIRTUAL;
        config.timer_slack = -1;
        CU_ASSERT_EQUAL(weir_init(&config), -EINVAL);
        config.timer_slack = 1 << 20;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        weir_task *timer = weir_test_timer(1, &exact);
        CU_ASSERT_EQUAL(weir_timer_set_slack(timer, 0), 0);
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(1, &slack)), 0);
        weir_test_pass(WEIR_MSEC(3));
        CU_ASSERT_EQUAL(exact.at, began + 1);
        CU_ASSERT_EQUAL(slack.at % (1 << 20), 0);
        CU_ASSERT(slack.at > began);
        weir_test_end();
}

/* -- bad input -- */

static void
bad_input_is_refused(void)
{
        struct ticks ticks = {0};
        weir_task *empty = weir_empty_new(NULL, NULL), *ticker, *timer = weir_timer_new(1, NULL, NULL);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new(0, WEIR_TICK_SKIP, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new(-1, WEIR_TICK_SKIP, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new(1, (enum weir_tick_policy)3, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new_named("", 1, WEIR_TICK_SKIP, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new_named(NULL, 1, WEIR_TICK_SKIP, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_ticker_set_first(NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_ticker_set_first(empty, 1), -EDOM);
        CU_ASSERT_EQUAL(weir_ticker_set_limit(timer, 1), -EDOM);
        CU_ASSERT_EQUAL(weir_ticker_stop(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_ticker_stop(timer), -EDOM);
        CU_ASSERT_EQUAL(weir_ticker_scheduled(timer), -EDOM);
        CU_ASSERT_EQUAL(weir_ticker_actual(NULL), -EDOM);
        CU_ASSERT_EQUAL(weir_ticker_missed(empty), 0);
        CU_ASSERT_EQUAL(weir_ticker_count(empty), 0);
        CU_ASSERT_EQUAL(weir_timer_set_slack(timer, -1), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_set_slack(empty, 1), -EDOM);
        CU_ASSERT_EQUAL(weir_timer_set_slack(NULL, 1), -EINVAL);
        weir_task_dismiss(empty);
        weir_task_dismiss(timer);
        ticker = ticker_of(&ticks, WEIR_TICK_SKIP);
        CU_ASSERT_EQUAL(weir_ticker_stop(ticker), -EINVAL);
        start(&ticks, ticker);
        CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_set_slack(ticker, 1), -EINVAL);
        weir_test_end();
        ENDED(&ticks, -ESHUTDOWN);
}

static void
periods_of_any_length_are_sound(void)
{
        struct ticks shortest = {0}, longest = {0};
        weir_task *ticker = recorded(weir_ticker_new(1, WEIR_TICK_SKIP, on_tick, &shortest));

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 1000), 0);
        start(&shortest, ticker);
        ticker = recorded(weir_ticker_new(WEIR_FOREVER - 1, WEIR_TICK_BURST, on_tick, &longest));
        CU_ASSERT_EQUAL(weir_ticker_set_first(ticker, 1), 0);
        start(&longest, ticker);
        weir_test_pass(WEIR_TEST_CENTURY);
        CU_ASSERT_EQUAL(shortest.count, 1000);
        CU_ASSERT_EQUAL(longest.count, 1);
        weir_test_end();
        ENDED(&longest, -ESHUTDOWN);
}

/* -- the next tick alone -- */

static void
check_scheduled(const struct ticks *ticks, const int *periods_in_tenths, unsigned count)
{
        CU_ASSERT_EQUAL(ticks->count, count);
        for (unsigned i = 0; i < count; i++) {
                CU_ASSERT_EQUAL(ticks->ticks[i].scheduled, periods_in_tenths[i] * (PERIOD / 10));
        }
}

static void
a_tick_that_is_moved_alone_leaves_the_phase(void)
{
        static const int at[] = {10, 17, 30, 42, 50, 60};
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        weir_task *ticker = named_of("ticker", &ticks);
        weir_timer_id id = weir_timer_id_of(ticker);
        start(&ticks, ticker);
        weir_test_pass(15 * PERIOD / 10);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", 9 * PERIOD / 10), 1);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", 2 * PERIOD / 10), 1); /* at 17 instead of 20 */
        weir_test_pass(20 * PERIOD / 10);
        CU_ASSERT_EQUAL(weir_ticker_move_next_id(id, 7 * PERIOD / 10), 1); /* at 42 instead of 40 */
        CU_ASSERT_EQUAL(weir_timer_due_id(id), weir_now() + 7 * PERIOD / 10);
        weir_test_pass(30 * PERIOD / 10);
        check_scheduled(&ticks, at, 6);
        weir_test_end();
}

static void
a_tick_that_is_moved_behind_others_is_missed_by_the_policy(void)
{
        static const int skip[] = {10, 45, 50}, burst[] = {10, 45, 30, 40, 50}, delay[] = {10, 45, 55};
        static const int *const at[] = {[WEIR_TICK_SKIP] = skip, [WEIR_TICK_BURST] = burst, [WEIR_TICK_DELAY] = delay};
        static const unsigned counts[] = {3, 5, 3};

        for (unsigned policy = 0; policy < 3; policy++) {
                struct ticks ticks = {0};

                weir_test_begin_virtual();
                weir_task *ticker = recorded(weir_ticker_new_named("ticker", PERIOD, policy, on_tick, &ticks));
                start(&ticks, ticker);
                weir_test_pass(15 * PERIOD / 10);
                CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", 30 * PERIOD / 10), 1);
                weir_test_pass(40 * PERIOD / 10);
                check_scheduled(&ticks, at[policy], counts[policy]);
                CU_ASSERT_EQUAL(ticks.ticks[2].missed, policy == WEIR_TICK_SKIP ? 2 : 0);
                weir_test_end();
        }
}

static void
a_tick_that_was_moved_to_never_comes_back_into_phase(void)
{
        static const int at[] = {10, 36, 40};
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, named_of("ticker", &ticks));
        weir_test_pass(15 * PERIOD / 10);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", WEIR_FOREVER), 1);
        weir_test_pass(20 * PERIOD / 10);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", PERIOD / 10), 1);
        weir_test_pass(PERIOD);
        check_scheduled(&ticks, at, 3);
        weir_test_end();
}

static void
move_next_to_14(weir_task *ticker, struct ticks *ticks)
{
        CU_ASSERT(weir_ticker_is_tick(ticker));
        if (ticks->count == 1) {
                CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", 4 * PERIOD / 10), 1);
        }
}

static void
a_tick_may_be_moved_alone_in_the_tick_before_and_before_the_start(void)
{
        static const int in_tick[] = {10, 14, 30, 40}, before[] = {3, 20, 30, 40};
        struct ticks ticks = {.act = move_next_to_14}, unstarted = {0};

        weir_test_begin_virtual();
        start(&ticks, named_of("ticker", &ticks));
        weir_test_pass(4 * PERIOD);
        check_scheduled(&ticks, in_tick, 4);
        weir_test_end();
        weir_test_begin_virtual();
        weir_task *ticker = named_of("unstarted", &unstarted);
        CU_ASSERT_EQUAL(weir_ticker_move_next("unstarted", 3 * PERIOD / 10), 1);
        start(&unstarted, ticker);
        weir_test_pass(4 * PERIOD);
        check_scheduled(&unstarted, before, 4);
        weir_test_end();
}

static void
a_reset_afterwards_begins_a_new_phase_and_an_extension_moves_it(void)
{
        static const int at[] = {10, 25, 40, 55, 70}, extended[] = {12, 15, 25};
        struct ticks reset = {0}, shifted = {0};

        weir_test_begin_virtual();
        start(&reset, named_of("reset", &reset));
        weir_test_pass(PERIOD);
        CU_ASSERT_EQUAL(weir_ticker_move_next("reset", PERIOD / 2), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("reset", 15 * PERIOD / 10), 1);
        weir_test_pass(6 * PERIOD);
        check_scheduled(&reset, at, 5);
        start(&shifted, named_of("shifted", &shifted));
        CU_ASSERT_EQUAL(weir_ticker_move_next("shifted", 7 * PERIOD / 10), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("shifted", 5 * PERIOD / 10), 1); /* 12, then 15 + 10 */
        weir_test_pass(3 * PERIOD);
        CU_ASSERT_EQUAL(shifted.ticks[0].scheduled, extended[0] * (PERIOD / 10));
        CU_ASSERT_EQUAL(shifted.ticks[1].scheduled, extended[2] * (PERIOD / 10));
        weir_test_end();
}

static void
only_tickers_have_a_next_tick(void)
{
        struct weir_test_record timer = {0};
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        weir_task *task = weir_test_named("ticker", PERIOD, &timer);
        weir_timer_id id = weir_timer_id_of(task);
        CU_ASSERT(!weir_ticker_is_tick(task));
        CU_ASSERT(!weir_ticker_is_tick(NULL));
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        start(&ticks, named_of("ticker", &ticks));
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", 2 * PERIOD), 1);
        CU_ASSERT_EQUAL(weir_ticker_move_next_id(id, 2 * PERIOD), 0);
        CU_ASSERT_EQUAL(weir_ticker_move_next(NULL, 1) + weir_ticker_move_next("nobody", 1) + weir_ticker_move_next_id(0, 1), 0);
        weir_nsec began = weir_now();
        weir_test_pass(PERIOD);
        WEIR_TEST_CALLED(&timer, 0);
        CU_ASSERT_EQUAL(timer.at, began + PERIOD);
        CU_ASSERT_EQUAL(ticks.count, 0);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_million_ticks_come_a_period_apart_without_drift),
                WEIR_TEST(skip_keeps_the_phase_and_counts_what_it_drops),
                WEIR_TEST(burst_catches_up_one_right_after_the_other),
                WEIR_TEST(burst_is_bounded),
                WEIR_TEST(delay_counts_from_the_end_of_the_callback),
                WEIR_TEST(first_tick_comes_when_asked_for_and_the_others_a_period_apart),
                WEIR_TEST(stop_and_limit_end_it_with_success),
                WEIR_TEST(cancel_during_a_tick_ends_it_after_that),
                WEIR_TEST(cancel_between_ticks_ends_it_at_once),
                WEIR_TEST(cancel_in_the_last_callback_comes_too_late),
                WEIR_TEST(id_lasts_as_long_as_the_ticker),
                WEIR_TEST(its_series_cancels_it_and_goes_on_after_it),
                WEIR_TEST(one_that_never_started_goes_without_a_callback),
                WEIR_TEST(reset_makes_another_period),
                WEIR_TEST(reset_during_a_tick_is_for_the_next),
                WEIR_TEST(reset_counts_a_ticker_that_is_new_or_ready),
                WEIR_TEST(wait_without_cancel_waits_for_the_tick_only),
                WEIR_TEST(slack_brings_deadlines_together_and_leaves_the_phase),
                WEIR_TEST(slack_of_the_configuration_is_the_default),
                WEIR_TEST(a_tick_that_is_moved_alone_leaves_the_phase),
                WEIR_TEST(a_tick_that_is_moved_behind_others_is_missed_by_the_policy),
                WEIR_TEST(a_tick_that_was_moved_to_never_comes_back_into_phase),
                WEIR_TEST(a_tick_may_be_moved_alone_in_the_tick_before_and_before_the_start),
                WEIR_TEST(a_reset_afterwards_begins_a_new_phase_and_an_extension_moves_it),
                WEIR_TEST(only_tickers_have_a_next_tick),
                WEIR_TEST(bad_input_is_refused),
                WEIR_TEST(periods_of_any_length_are_sound),
        };

        return weir_test_main("ticker", tests, sizeof tests / sizeof *tests);
}
