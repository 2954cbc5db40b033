/* test/ticker_corners_test.c: tickers where something else meets them: waits, cancels and resets in the last tick, slack,
 * deadlines far from now, series made inside a tick, parallels, and a later runtime. */
#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "test/timer_fixture.h"

#define PERIOD WEIR_MSEC(10)
#define KEPT   16

/* The ticks of a ticker, on the virtual clock. */
struct ticks {
        struct weir_test_record end; /* first: the last callback */
        weir_nsec began;
        unsigned count;
        weir_nsec scheduled[KEPT]; /* after `began` */
        uint64_t missed[KEPT];
        void (*act)(weir_task *ticker, struct ticks *ticks); /* within each tick */
};

static void
on_tick(weir_task *task, void *context)
{
        struct ticks *ticks = context;

        if (weir_task_status(task) != -EINPROGRESS) {
                weir_test_done(task, &ticks->end);
                return;
        }
        if (ticks->count < KEPT) {
                ticks->scheduled[ticks->count] = weir_ticker_scheduled(task) - ticks->began;
                ticks->missed[ticks->count] = weir_ticker_missed(task);
        }
        ticks->count++;
        if (ticks->act)
                ticks->act(task, ticks);
}

static weir_task *
make(const char *name, struct ticks *ticks)
{
        return weir_test_recorded(weir_ticker_new_named(name, PERIOD, WEIR_TICK_SKIP, on_tick, ticks));
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

/* -- the last tick -- */

static void
reset_in_vain(void)
{
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", PERIOD), 0);
        CU_ASSERT_EQUAL(weir_timer_extend("ticker", PERIOD), 0);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", PERIOD), 0);
}

static void
reset_behind_stop(weir_task *ticker, struct ticks *ticks)
{
        (void)ticks;
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", PERIOD), 1);
        CU_ASSERT_EQUAL(weir_ticker_stop(ticker), 0);
        reset_in_vain();
}

static void
reset_at_limit(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count == 3)
                reset_in_vain();
        else
                CU_ASSERT_EQUAL(weir_timer_reset("ticker", PERIOD), 1);
}

static void
reset_behind_cancel_of_series(weir_task *ticker, struct ticks *ticks)
{
        (void)ticks;
        weir_series_cancel(weir_series_of(ticker));
        reset_in_vain();
}

static void
resets_do_not_count_a_ticker_in_its_last_tick(void)
{
        struct ticks stopped = {.act = reset_behind_stop}, limited = {.act = reset_at_limit}, once = {.act = reset_behind_stop},
                     cancelled = {.act = reset_behind_cancel_of_series};
        weir_task *ticker;

        weir_test_begin_virtual();
        start(&stopped, make("ticker", &stopped));
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(stopped.count, 1);
        ENDED(&stopped, 0);
        ticker = make("ticker", &limited);
        CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 1), 0);
        CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 3), 0);
        start(&limited, ticker);
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(limited.count, 3);
        ENDED(&limited, 0);
        once.act = NULL;
        ticker = make("ticker", &once);
        CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 1), 0);
        start(&once, ticker);
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(once.count, 1);
        ENDED(&once, 0);
        start(&cancelled, make("ticker", &cancelled));
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(cancelled.count, 1);
        ENDED(&cancelled, -ECANCELED);
        weir_test_end();
}

static void
stop_and_cancel_series(weir_task *ticker, struct ticks *ticks)
{
        (void)ticks;
        CU_ASSERT_EQUAL(weir_ticker_stop(ticker), 0);
        weir_series_cancel(weir_series_of(ticker));
}

static void
stop_and_cancel(weir_task *ticker, struct ticks *ticks)
{
        (void)ticks;
        CU_ASSERT_EQUAL(weir_ticker_stop(ticker), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("tick", WEIR_ALL), 1);
}

static void
a_cancel_before_the_last_callback_decides_also_when_it_was_stopped(void)
{
        struct ticks by_series = {.act = stop_and_cancel_series}, by_name = {.act = stop_and_cancel};

        weir_test_begin_virtual();
        start(&by_series, make("ticker", &by_series));
        weir_test_pass(2 * PERIOD);
        ENDED(&by_series, -ECANCELED);
        start(&by_name, make("ticker", &by_name));
        weir_test_pass(2 * PERIOD);
        ENDED(&by_name, -ECANCELED);
        weir_test_end();
}

/* -- instants -- */

static void
an_extension_keeps_the_phase_although_there_is_slack(void)
{
        struct ticks ticks = {0};
        weir_task *ticker = make("ticker", &ticks);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_timer_set_slack(ticker, WEIR_MSEC(4)), 0);
        start(&ticks, ticker);
        for (unsigned i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(weir_timer_extend("ticker", 7), 1);
        weir_test_pass(5 * PERIOD);
        CU_ASSERT(ticks.count > 2);
        CU_ASSERT_EQUAL(ticks.scheduled[0], PERIOD + 70);
        CU_ASSERT_EQUAL(ticks.scheduled[1], 2 * PERIOD + 70);
        weir_test_end();
}

static void
advance(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count < 4)
                CU_ASSERT_EQUAL(weir_timer_extend("ticker", INT64_MIN), 1);
}

/* Ticks that would have been due since the beginning of time overflow nothing. */
static void
an_extension_by_minus_for_ever_is_due_at_once(void)
{
        static const enum weir_tick_policy policies[] = {WEIR_TICK_SKIP, WEIR_TICK_BURST, WEIR_TICK_DELAY};

        for (unsigned i = 0; i < 3; i++) {
                struct ticks ticks = {.act = advance};

                weir_test_begin_virtual();
                weir_task *ticker = weir_test_recorded(weir_ticker_new_named("ticker", 1, policies[i], on_tick, &ticks));
                CU_ASSERT_EQUAL(weir_ticker_set_limit(ticker, 8), 0);
                start(&ticks, ticker);
                CU_ASSERT_EQUAL(weir_timer_extend("ticker", INT64_MIN), 1);
                CU_ASSERT_EQUAL(weir_timer_extend("ticker", INT64_MIN), 1);
                weir_test_pass(100);
                CU_ASSERT_EQUAL(ticks.count, 8);
                ENDED(&ticks, 0);
                weir_test_end();
        }
}

static void
extend_for_ever(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count == 1)
                CU_ASSERT_EQUAL(weir_timer_extend("ticker", WEIR_FOREVER), 1);
}

static void
a_ticker_that_waits_for_ever_holds_up_no_clock_and_a_reset_wakes_it(void)
{
        struct ticks ticks = {.act = extend_for_ever};

        weir_test_begin_virtual();
        start(&ticks, make("ticker", &ticks));
        weir_test_pass(WEIR_TEST_CENTURY);
        CU_ASSERT_EQUAL(ticks.count, 1);
        CU_ASSERT_EQUAL(weir_test_info("ticker").due_in, WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_timer_extend("ticker", -5), 1);
        weir_test_pass(WEIR_TEST_CENTURY);
        CU_ASSERT_EQUAL(ticks.count, 1);
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", 2 * PERIOD), 1);
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(ticks.count, 3);
        CU_ASSERT_EQUAL(ticks.missed[1], 0);
        weir_test_end();
        ENDED(&ticks, -ESHUTDOWN);
}

/* -- a tick that is moved alone -- */

/* Where the tick and its phase are may be as far apart as the clock goes. */
static void
a_tick_is_moved_alone_and_with_its_phase_by_any_amount(void)
{
        static const weir_nsec amounts[] = {0, 1, -1, PERIOD, -PERIOD, WEIR_FOREVER, INT64_MIN, WEIR_FOREVER - 1};
        const unsigned count = sizeof amounts / sizeof *amounts;

        for (unsigned i = 0; i < count * count * count; i++) {
                struct ticks ticks = {0};

                weir_test_begin_virtual();
                weir_task *ticker = make("ticker", &ticks);
                for (unsigned call = 0; call < 12; call++) {
                        weir_nsec by = amounts[call % 3 == 0 ? i % count : call % 3 == 1 ? i / count % count : i / count / count];

                        if (call == 3)
                                start(&ticks, ticker);
                        CU_ASSERT_EQUAL(call % 2 ? weir_timer_extend("ticker", by) : weir_ticker_move_next("ticker", by), 1);
                }
                CU_ASSERT_EQUAL(weir_timer_reset("ticker", PERIOD), 1);
                weir_test_pass(3 * PERIOD);
                CU_ASSERT(ticks.count >= 3); /* some were due at once before that */
                weir_test_end();
        }
}

/* An extension moves the ticks behind as well, also if it comes first, or if the tick itself is moved no further. */
static void
an_extension_moves_the_phase_of_a_tick_that_was_moved_alone(void)
{
        struct ticks ticks = {0}, far = {0};

        weir_test_begin_virtual();
        start(&ticks, make("ticker", &ticks));
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", PERIOD / 2), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("ticker", 7), 1);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", PERIOD / 4), 1);
        weir_test_pass(3 * PERIOD);
        CU_ASSERT_EQUAL(ticks.scheduled[0], PERIOD / 4);
        CU_ASSERT_EQUAL(ticks.scheduled[1], 2 * PERIOD + 7);
        weir_test_end();
        weir_test_begin_virtual();
        start(&far, make("ticker", &far));
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", WEIR_FOREVER), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("ticker", 7), 1);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", PERIOD / 4), 1);
        weir_test_pass(3 * PERIOD);
        CU_ASSERT_EQUAL(far.scheduled[0], PERIOD / 4);
        CU_ASSERT_EQUAL(far.scheduled[1], 2 * PERIOD + 7);
        weir_test_end();
}

static void
extend_and_move(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count != 1)
                return;
        CU_ASSERT_EQUAL(weir_timer_extend("ticker", 7), 1);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", PERIOD / 2), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("ticker", 5), 1);
}

static void
reset_and_move(weir_task *ticker, struct ticks *ticks)
{
        (void)ticker;
        if (ticks->count != 1)
                return;
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", PERIOD / 2), 1);
        CU_ASSERT_EQUAL(weir_ticker_move_next("ticker", PERIOD / 4), 1);
}

/* As between ticks: the last two of these calls move the tick, and the others its phase. */
static void
calls_in_a_tick_move_the_next_one_and_its_phase(void)
{
        struct ticks extended = {.act = extend_and_move}, reset = {.act = reset_and_move};

        weir_test_begin_virtual();
        start(&extended, make("ticker", &extended));
        weir_test_pass(4 * PERIOD);
        CU_ASSERT_EQUAL(extended.scheduled[1], PERIOD + PERIOD / 2 + 5);
        CU_ASSERT_EQUAL(extended.scheduled[2], 3 * PERIOD + 12);
        weir_test_end();
        weir_test_begin_virtual();
        start(&reset, make("ticker", &reset));
        weir_test_pass(4 * PERIOD);
        CU_ASSERT_EQUAL(reset.scheduled[1], PERIOD + PERIOD / 4);
        CU_ASSERT_EQUAL(reset.scheduled[2], 2 * PERIOD);
        weir_test_end();
}

/* -- calls inside a tick -- */

static void
look_around(weir_task *ticker, struct ticks *ticks)
{
        struct weir_timer_info info = weir_test_info("ticker");

        CU_ASSERT_EQUAL(info.state, WEIR_TIMER_RUNNING);
        CU_ASSERT_EQUAL(info.due_in, 0);
        CU_ASSERT_EQUAL(weir_timer_count("ticker"), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("ticker", WEIR_ALL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_shutdown(), -EDEADLK);
        if (ticks->count < 3)
                return;
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_list("", weir_test_keep_info, &info), 0);
        CU_ASSERT_EQUAL(weir_ticker_stop(ticker), 0);
}

static void
a_tick_lists_and_cancels_its_ticker_like_any_other(void)
{
        struct ticks ticks = {.act = look_around};

        weir_test_begin_virtual();
        start(&ticks, make("ticker", &ticks));
        weir_test_pass(5 * PERIOD);
        CU_ASSERT_EQUAL(ticks.count, 3);
        ENDED(&ticks, -ECANCELED);
        weir_test_end();
}

static weir_series *made_inside;
static struct weir_test_record pushed;

static void
ask_for_series(weir_task *ticker, struct ticks *ticks)
{
        weir_series *series = weir_series_of(ticker);

        if (ticks->count == 1) {
                made_inside = weir_series_ref(series);
                CU_ASSERT_EQUAL(weir_series_push(series, weir_test_empty(&pushed)), 0);
        }
        CU_ASSERT_PTR_EQUAL(series, made_inside);
        if (ticks->count == 3 && ticks->missed[KEPT - 1])
                CU_ASSERT_EQUAL(weir_ticker_stop(ticker), 0);
}

static void
a_series_made_in_a_tick_lasts_until_the_ticker_ends(void)
{
        for (unsigned i = 0; i < 3; i++) {
                struct ticks ticks = {.act = ask_for_series, .missed[KEPT - 1] = i == 0};

                pushed = (struct weir_test_record){0};
                weir_test_begin_virtual();
                start(&ticks, make("ticker", &ticks));
                weir_test_pass(7 * PERIOD / 2);
                CU_ASSERT_EQUAL(ticks.count, 3);
                CU_ASSERT_EQUAL(pushed.calls, i == 0);
                if (i == 1)
                        weir_series_cancel(made_inside);
                weir_test_pass(1);
                CU_ASSERT_EQUAL(weir_series_push(made_inside, weir_test_empty(&pushed)), i < 2 ? -ESTALE : 0);
                weir_test_end();
                ENDED(&ticks, i == 0 ? 0 : i == 1 ? -ECANCELED : -ESHUTDOWN);
                CU_ASSERT_EQUAL(pushed.calls, i == 0);
                CU_ASSERT_EQUAL(pushed.frees, 2);
                weir_series_unref(made_inside);
        }
}

static void
stop_at_third(weir_task *ticker, struct ticks *ticks)
{
        if (ticks->count == 3)
                CU_ASSERT_EQUAL(weir_ticker_stop(ticker), 0);
}

static void
a_ticker_in_a_parallel_holds_it_open_until_its_end(void)
{
        struct ticks ticks[2] = {{.act = stop_at_third}, {.act = NULL}};
        struct weir_test_record end = {0};
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &end));

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2; i++)
                weir_parallel_add(parallel, make(i ? "second" : "first", &ticks[i]));
        CU_ASSERT_EQUAL(weir_task_start(parallel), 0);
        weir_test_pass(11 * PERIOD / 2);
        ENDED(&ticks[0], 0);
        CU_ASSERT_EQUAL(end.calls, 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("second", 1), 1);
        weir_test_pass(1);
        ENDED(&ticks[1], -ECANCELED);
        CU_ASSERT_EQUAL(ticks[1].count, 5);
        WEIR_TEST_CALLED(&end, -ECANCELED);
        weir_test_end();
}

static void
a_run_of_a_ticker_returns_how_it_ended(void)
{
        struct ticks stopped = {.act = stop_at_third}, cancelled = {.act = look_around};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(make("stopped", &stopped)), 0);
        CU_ASSERT_EQUAL(weir_task_run(make("ticker", &cancelled)), -ECANCELED);
        ENDED(&stopped, 0);
        ENDED(&cancelled, -ECANCELED);
        weir_test_end();
}

static void
a_ticker_from_a_former_runtime_moves_to_a_poller_of_the_next(void)
{
        struct ticks ticks[4] = {{.act = stop_at_third}, {.act = stop_at_third}, {.act = stop_at_third}, {.act = stop_at_third}};
        weir_task *tickers[4];
        weir_timer_id ids[4];

        weir_test_begin_real(4);
        for (unsigned i = 0; i < 4; i++) {
                tickers[i] = make("ticker", &ticks[i]);
                tickers[i]->poller = (uint8_t)i;
                ids[i] = weir_timer_id_of(tickers[i]);
        }
        weir_test_end();
        CU_ASSERT_EQUAL(weir_timer_count("ticker"), 4);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_timer_reset("ticker", 2 * PERIOD), 4);
        for (unsigned i = 0; i < 4; i++) {
                start(&ticks[i], tickers[i]);
                CU_ASSERT_EQUAL(weir_timer_reset_id(ids[i], PERIOD), i == 0); /* the others have lost theirs */
        }
        weir_test_pass(7 * PERIOD);
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(ticks[i].count, 3);
                CU_ASSERT_EQUAL(ticks[i].scheduled[2], (i ? 6 : 3) * PERIOD);
                ENDED(&ticks[i], 0);
        }
        weir_test_end();
}

/* -- other threads -- */

static struct {
        struct weir_test_latch begun, opened;
        _Atomic bool returned, waited;
        _Atomic unsigned ticks;
        struct weir_test_record end;
} gate;

static void
tick_at_gate(weir_task *task, void *context)
{
        if (weir_task_status(task) != -EINPROGRESS) {
                weir_test_done(task, context);
                return;
        }
        weir_test_latch_count_down(&gate.begun);
        weir_test_latch_wait(&gate.opened);
        weir_test_sleep(5000000); /* a waiter that is released too early shall see it */
        atomic_store(&gate.returned, true);
}

static void
only_wait(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("ticker", 0), 0);
        CU_ASSERT(gate.returned);
        atomic_store(&gate.waited, true);
}

static void
a_cancel_by_another_thread_does_not_let_go_who_waits_for_the_tick(void)
{
        for (unsigned i = 0; i < 2; i++) {
                struct weir_test_thread waiter;

                memset(&gate, 0, sizeof gate);
                weir_task *ticker = weir_ticker_new_named("ticker", 1, WEIR_TICK_SKIP, tick_at_gate, &gate.end);
                weir_test_begin_real(1);
                weir_test_latch_init(&gate.begun, 1);
                weir_test_latch_init(&gate.opened, 1);
                weir_timer_id id = weir_timer_id_of(ticker);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(ticker)), 0);
                weir_test_latch_wait(&gate.begun);
                weir_test_thread_start(&waiter, only_wait, NULL);
                WEIR_TEST_EVENTUALLY(weir_test_somebody_waits("ticker"));
                weir_test_sleep(5000000); /* until it sleeps */
                CU_ASSERT_EQUAL(i ? weir_timer_cancel_id(id) : weir_timer_cancel("ticker", WEIR_ALL), 1);
                weir_test_sleep(5000000);
                CU_ASSERT_EQUAL(atomic_load(&gate.waited), 0);
                weir_test_latch_count_down(&gate.opened);
                weir_test_thread_join(&waiter);
                WEIR_TEST_EVENTUALLY(gate.end.frees == 1);
                CU_ASSERT_EQUAL(gate.end.status, -ECANCELED);
                weir_test_end();
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(resets_do_not_count_a_ticker_in_its_last_tick),
                WEIR_TEST(a_cancel_before_the_last_callback_decides_also_when_it_was_stopped),
                WEIR_TEST(an_extension_keeps_the_phase_although_there_is_slack),
                WEIR_TEST(an_extension_by_minus_for_ever_is_due_at_once),
                WEIR_TEST(a_ticker_that_waits_for_ever_holds_up_no_clock_and_a_reset_wakes_it),
                WEIR_TEST(a_tick_is_moved_alone_and_with_its_phase_by_any_amount),
                WEIR_TEST(an_extension_moves_the_phase_of_a_tick_that_was_moved_alone),
                WEIR_TEST(calls_in_a_tick_move_the_next_one_and_its_phase),
                WEIR_TEST(a_tick_lists_and_cancels_its_ticker_like_any_other),
                WEIR_TEST(a_series_made_in_a_tick_lasts_until_the_ticker_ends),
                WEIR_TEST(a_ticker_in_a_parallel_holds_it_open_until_its_end),
                WEIR_TEST(a_run_of_a_ticker_returns_how_it_ended),
                WEIR_TEST(a_ticker_from_a_former_runtime_moves_to_a_poller_of_the_next),
                WEIR_TEST(a_cancel_by_another_thread_does_not_let_go_who_waits_for_the_tick),
        };

        return weir_test_main("ticker corners", tests, sizeof tests / sizeof *tests);
}
