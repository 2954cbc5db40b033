/* test/time_guide_test.c: the examples of docs/time.md, on the virtual clock. */
#include "test/fixture.h"

#include <errno.h>

static void
begin(void)
{
        weir_test_begin_virtual();
}

struct report {
        unsigned ticks, ends;
        int status;
        weir_nsec last;
};

static void
on_tick(weir_task *ticker, void *context)
{
        struct report *report = context;

        if (!weir_ticker_is_tick(ticker)) { /* the last callback */
                report->status = weir_task_status(ticker);
                report->ends++;
                return;
        }
        report->last = weir_ticker_scheduled(ticker);
        report->ticks++;
}

static void
ticker_reports_each_minute_until_it_is_cancelled(void)
{
        struct report report = {0};

        begin();
        weir_nsec began = weir_now(), minute = WEIR_SEC(60);
        weir_task_start(weir_ticker_new_named("report", minute, WEIR_TICK_SKIP, on_tick, &report));

        weir_clock_advance(WEIR_SEC(3600));
        CU_ASSERT(report.ticks == 60 && report.ends == 0);
        CU_ASSERT(report.last == began + WEIR_SEC(3600));

        CU_ASSERT(weir_timer_cancel("report", WEIR_ALL) == 1);
        weir_clock_advance(0);
        CU_ASSERT(report.ends == 1 && report.status == -ECANCELED);
        weir_test_end();
}

static void
stop_at_third(weir_task *ticker, void *context)
{
        on_tick(ticker, context);
        if (weir_ticker_count(ticker) == 3)
                weir_ticker_stop(ticker);
}

static void
ticker_ends_by_itself(void)
{
        struct report limited = {0}, stopped = {0};

        begin();
        weir_task *ticker = weir_ticker_new(WEIR_SEC(1), WEIR_TICK_SKIP, on_tick, &limited);
        weir_ticker_set_first(ticker, 0);
        weir_ticker_set_limit(ticker, 5);
        CU_ASSERT(weir_task_run(ticker) == 0);
        CU_ASSERT(limited.ticks == 5 && limited.ends == 1);

        CU_ASSERT(weir_task_run(weir_ticker_new(WEIR_SEC(1), WEIR_TICK_SKIP, stop_at_third, &stopped)) == 0);
        CU_ASSERT(stopped.ticks == 3 && stopped.status == 0);
        weir_test_end();
}

static void
reset_changes_the_period(void)
{
        struct report report = {0};

        begin();
        weir_nsec period = WEIR_SEC(10);
        weir_task_start(weir_ticker_new_named("poll", period, WEIR_TICK_SKIP, on_tick, &report));
        weir_clock_advance(WEIR_SEC(35));
        CU_ASSERT(report.ticks == 3);

        /* The next tick comes in a minute, and then one each minute. */
        CU_ASSERT(weir_timer_reset("poll", WEIR_SEC(60)) == 1);
        weir_clock_advance(WEIR_SEC(180));
        CU_ASSERT(report.ticks == 6);
        weir_test_end();
}

static struct {
        _Atomic unsigned count;
        weir_nsec at[2];
} ended;

static void
note(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        ended.at[ended.count++] = weir_now();
}

static void
slack_lets_timers_end_together(void)
{
        ended.count = 0;
        begin();
        weir_nsec began = weir_now();
        for (int i = 0; i < 2; i++) {
                weir_task *timer = weir_timer_new(WEIR_SEC(10) + i * WEIR_MSEC(3), note, NULL);
                weir_timer_set_slack(timer, WEIR_MSEC(100));
                weir_task_start(timer);
        }
        weir_clock_advance(WEIR_SEC(11));
        CU_ASSERT(ended.at[0] == ended.at[1]); /* one wake-up for both */
        CU_ASSERT(ended.at[0] >= began + WEIR_SEC(10));
        CU_ASSERT(ended.at[1] < began + WEIR_SEC(10) + WEIR_MSEC(103));
        weir_test_end();
}

static void
lateness_is_read_for_all_timers(void)
{
        begin();
        weir_lateness_reset(WEIR_ALL_POLLERS, NULL);
        weir_task_run(weir_timer_new(WEIR_SEC(1), NULL, NULL));

        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;
        CU_ASSERT(weir_lateness(WEIR_ALL_POLLERS, &lateness) == 0);
        /* On the virtual clock nothing is late. */
        CU_ASSERT(lateness.count == 1 && lateness.p99 == 0 && lateness.max == 0);
        weir_test_end();
}

static void
a_wall_timer_follows_the_clock(void)
{
        ended.count = 0;
        begin();
        weir_nsec began = weir_now();
        weir_task_start(weir_timer_new_at(weir_wall_now() + WEIR_SEC(3600), note, NULL));

        weir_clock_advance(WEIR_SEC(600));
        weir_clock_set_wall(weir_wall_now() - WEIR_SEC(1200)); /* put back by 20 minutes */
        weir_clock_advance(WEIR_SEC(3600));
        CU_ASSERT(ended.count == 0);

        weir_clock_set_wall(weir_wall_now() + WEIR_SEC(1200)); /* and forward again */
        weir_clock_advance(0);
        CU_ASSERT(ended.count == 1 && ended.at[0] == began + WEIR_SEC(4200));
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(ticker_reports_each_minute_until_it_is_cancelled),
                WEIR_TEST(ticker_ends_by_itself),
                WEIR_TEST(reset_changes_the_period),
                WEIR_TEST(slack_lets_timers_end_together),
                WEIR_TEST(lateness_is_read_for_all_timers),
                WEIR_TEST(a_wall_timer_follows_the_clock),
        };

        return weir_test_main("guide to time", tests, sizeof tests / sizeof *tests);
}
