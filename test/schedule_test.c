/* test/schedule_test.c: tickers that follow a schedule by the clock on the wall.  The schedules themselves are cron_test's.
 *
 * On the virtual clock, whose wall clock begins at WEIR_WALL_EPOCH, a Saturday. */
#include "kernel/base/clock.h"
#include "test/timer_fixture.h"

#define HOUR WEIR_SEC(3600)
#define DAY  (24 * HOUR)
#define KEPT 16

struct ticks {
        struct weir_test_record end; /* first: the last callback */
        unsigned count;
        weir_nsec at[KEPT]; /* after the epoch of the wall clock: when they were due */
        uint64_t missed[KEPT];
        weir_nsec takes[KEPT];
};

static void
on_tick(weir_task *task, void *context)
{
        struct ticks *ticks = context;

        if (weir_task_status(task) != -EINPROGRESS) {
                weir_test_done(task, &ticks->end);
                return;
        }
        CU_ASSERT(weir_ticker_actual(task) >= weir_ticker_scheduled(task));
        if (ticks->count < KEPT) {
                ticks->at[ticks->count] = weir_ticker_scheduled(task) - WEIR_WALL_EPOCH;
                ticks->missed[ticks->count] = weir_ticker_missed(task);
                atomic_fetch_add(&weir__clock.virtual_instant, ticks->takes[ticks->count]);
        }
        ticks->count++;
}

static void
start(struct ticks *ticks, const char *cron, const char *zone)
{
        weir_task *ticker = weir_ticker_new_at_named("schedule", cron, zone, on_tick, ticks);

        weir_task_on_free(ticker, weir_test_freed);
        CU_ASSERT_EQUAL_FATAL(weir_task_start(ticker), 0);
}

static void
pass(weir_nsec duration)
{
        CU_ASSERT_EQUAL(weir_clock_advance(duration), 0);
}

static void
end(struct ticks *ticks)
{
        weir_test_end();
        CU_ASSERT_EQUAL(ticks->end.calls, 1);
        CU_ASSERT_EQUAL(ticks->end.frees, 1);
}

static void
ticks_come_when_the_schedule_says(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, "30 4 * * mon-fri", "UTC");
        pass(5 * DAY); /* to Thursday */
        CU_ASSERT_EQUAL(ticks.count, 3);
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(ticks.at[i], (weir_nsec)(2 + i) * DAY + 9 * HOUR / 2);
        CU_ASSERT_EQUAL(weir_timer_cancel("schedule", WEIR_ALL), 1);
        pass(0);
        CU_ASSERT_EQUAL(ticks.end.status, -ECANCELED);
        end(&ticks);
}

static void
zone_decides_what_the_clock_shows(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        pass(84 * DAY); /* to the 25th of March; on the 26th the clocks of Berlin go from 2:00 to 3:00 */
        start(&ticks, "30 2 * * *", "Europe/Berlin");
        pass(3 * DAY);
        CU_ASSERT_EQUAL(ticks.count, 3);
        CU_ASSERT_EQUAL(ticks.at[0], 84 * DAY + 3 * HOUR / 2); /* at 2:30 */
        CU_ASSERT_EQUAL(ticks.at[1], 85 * DAY + HOUR);         /* at 3:00, for there is no 2:30 */
        CU_ASSERT_EQUAL(ticks.at[2], 86 * DAY + HOUR / 2);     /* at 2:30, an hour nearer to Universal Time's */
        end(&ticks);
}

static void
missed_ticks_are_counted(void)
{
        struct ticks ticks = {.takes = {[1] = 5 * HOUR / 2}};

        weir_test_begin_virtual();
        start(&ticks, "0 * * * *", "UTC");
        pass(4 * HOUR + HOUR / 2);
        CU_ASSERT_EQUAL(ticks.at[1], 2 * HOUR);
        pass(2 * HOUR);
        CU_ASSERT_EQUAL(ticks.at[2], 5 * HOUR); /* those at 3 and 4 came during the callback */
        CU_ASSERT_EQUAL(ticks.missed[2], 2);
        CU_ASSERT_EQUAL(ticks.missed[3], 0);
        end(&ticks);
}

static void
clock_that_is_set_forward_brings_one_tick_at_once(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, "0 * * * *", "UTC");
        pass(HOUR / 2);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_WALL_EPOCH + 10 * HOUR + HOUR / 4), 0);
        pass(0);
        CU_ASSERT_EQUAL(ticks.count, 1);
        CU_ASSERT_EQUAL(ticks.at[0], HOUR);
        pass(HOUR);
        CU_ASSERT_EQUAL(ticks.count, 2);
        CU_ASSERT_EQUAL(ticks.at[1], 11 * HOUR);
        CU_ASSERT_EQUAL(ticks.missed[1], 9);
        end(&ticks);
}

static void
clock_that_is_set_back_a_little_repeats_nothing(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, "0 * * * *", "UTC");
        pass(2 * HOUR);
        CU_ASSERT_EQUAL(ticks.count, 2);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_WALL_EPOCH + HOUR - 1), 0);
        pass(HOUR);
        CU_ASSERT_EQUAL(ticks.count, 2);
        pass(HOUR + 1);
        CU_ASSERT_EQUAL(ticks.count, 3);
        CU_ASSERT_EQUAL(ticks.at[2], 3 * HOUR);
        end(&ticks);
}

static void
clock_that_is_set_back_by_far_begins_anew(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, "0 * * * *", "UTC");
        pass(10 * HOUR);
        CU_ASSERT_EQUAL(ticks.count, 10);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_WALL_EPOCH), 0);
        pass(2 * HOUR);
        CU_ASSERT_EQUAL(ticks.count, 12);
        CU_ASSERT_EQUAL(ticks.at[10], HOUR);
        end(&ticks);
}

static void
schedule_that_is_never_due_waits_for_its_cancel(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, "0 0 30 feb *", NULL);
        pass(400 * DAY);
        CU_ASSERT_EQUAL(ticks.count, 0);
        end(&ticks);
        CU_ASSERT_EQUAL(ticks.end.status, -ESHUTDOWN);
}

static void
reset_moves_the_next_tick_only(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, "@daily", "UTC");
        pass(HOUR);
        CU_ASSERT_EQUAL(weir_timer_reset("schedule", HOUR), 1);
        pass(2 * DAY);
        CU_ASSERT_EQUAL(ticks.count, 3);
        CU_ASSERT_EQUAL(ticks.at[0], 2 * HOUR);
        CU_ASSERT_EQUAL(ticks.at[1], DAY);
        CU_ASSERT_EQUAL(ticks.at[2], 2 * DAY);
        end(&ticks);
}

/* The first tick is known only at the start. */
static void
before_the_start_a_reset_counts_and_an_extension_does_not(void)
{
        for (int is_reset = 0; is_reset < 2; is_reset++) {
                struct ticks ticks = {0};

                weir_test_begin_virtual();
                weir_task *ticker = weir_ticker_new_at_named("schedule", "@daily", "UTC", on_tick, &ticks);
                weir_timer_id id = weir_timer_id_of(ticker);
                weir_task_on_free(ticker, weir_test_freed);
                if (is_reset)
                        CU_ASSERT_EQUAL(weir_timer_reset("schedule", 2 * HOUR), 1);
                CU_ASSERT_EQUAL(weir_timer_extend("schedule", HOUR), 0);
                CU_ASSERT_EQUAL(weir_timer_extend_id(id, HOUR), 0);
                CU_ASSERT_EQUAL(weir_timer_count("schedule"), 1);
                CU_ASSERT_EQUAL_FATAL(weir_task_start(ticker), 0);
                CU_ASSERT_EQUAL(weir_timer_extend_id(id, HOUR), 1);
                pass(2 * DAY);
                CU_ASSERT(ticks.count >= 2);
                CU_ASSERT_EQUAL(ticks.at[0], is_reset ? 3 * HOUR : DAY + HOUR);
                CU_ASSERT_EQUAL(ticks.at[1], is_reset ? DAY : 2 * DAY);
                end(&ticks);
        }
}

/* `weir_ticker_move_next` is the same as a reset here. */
static void
move_next_is_a_reset(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        weir_task *ticker = weir_ticker_new_at_named("schedule", "@daily", "UTC", on_tick, &ticks);
        weir_timer_id id = weir_timer_id_of(ticker);
        weir_task_on_free(ticker, weir_test_freed);
        CU_ASSERT_EQUAL(weir_ticker_move_next("schedule", HOUR), 1);
        CU_ASSERT_EQUAL_FATAL(weir_task_start(ticker), 0);
        CU_ASSERT_EQUAL(weir_ticker_move_next_id(id, 2 * HOUR), 1);
        pass(2 * DAY);
        CU_ASSERT_EQUAL(ticks.at[0], 2 * HOUR);
        CU_ASSERT_EQUAL(ticks.at[1], DAY);
        end(&ticks);
}

/* Also on the real clock, where the first clock timer of a worker has all of them looked at again soon after its start. */
static void
jump_leaves_a_reset_tick_where_it_is(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        start(&ticks, "@daily", "UTC");
        pass(HOUR);
        CU_ASSERT_EQUAL(weir_timer_reset("schedule", HOUR), 1);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_WALL_EPOCH + HOUR + 1), 0);
        pass(HOUR);
        CU_ASSERT_EQUAL(ticks.count, 1);
        CU_ASSERT_EQUAL(ticks.at[0], 2 * HOUR);
        CU_ASSERT_EQUAL(weir_timer_reset("schedule", WEIR_FOREVER), 1);
        CU_ASSERT_EQUAL(weir_clock_set_wall(WEIR_WALL_EPOCH + 3 * HOUR), 0);
        pass(2 * DAY);
        CU_ASSERT_EQUAL(ticks.count, 1);
        end(&ticks);
}

static void
bad_input_is_told_with_its_place(void)
{
        const char *expected;
        size_t position;
        weir_task *ticker;

        CU_ASSERT_EQUAL(weir_ticker_check("0 4 * * *", "UTC", NULL, NULL), 0);
        CU_ASSERT_EQUAL(weir_ticker_check("0 24 * * *", "UTC", &position, &expected), -EINVAL);
        CU_ASSERT_EQUAL(position, 2);
        CU_ASSERT_PTR_NOT_NULL_FATAL(expected);
        CU_ASSERT_PTR_NOT_NULL(strstr(expected, "hour"));
        CU_ASSERT_EQUAL(weir_ticker_check(NULL, "UTC", &position, &expected), -EINVAL);
        CU_ASSERT_EQUAL(weir_ticker_check("@daily", "Atlantis/Capital", &position, &expected), -ENOENT);
        CU_ASSERT_PTR_NULL(expected);
        CU_ASSERT_EQUAL(weir_ticker_check("@daily", "../passwd", &position, &expected), -EINVAL);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new_at("now and then", "UTC", NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new_at("@daily", "Atlantis/Capital", NULL, NULL)), -ENOENT);
        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new_at_named("", "@daily", "UTC", NULL, NULL)), -EINVAL);
        ticker = weir_ticker_new_at("@daily", "UTC", NULL, NULL);
        CU_ASSERT_EQUAL(weir_ticker_set_first(ticker, 1), -EDOM);
        weir_task_dismiss(ticker);
        weir_test_end();
}

static void
next_due_time_of_a_schedule_is_computed(void)
{
        CU_ASSERT_EQUAL(weir_ticker_next("0 4 * * *", "UTC", WEIR_WALL_EPOCH), WEIR_WALL_EPOCH + 4 * HOUR);
        CU_ASSERT_EQUAL(weir_ticker_next("0 4 * * *", "UTC", WEIR_WALL_EPOCH + 4 * HOUR), WEIR_WALL_EPOCH + DAY + 4 * HOUR);
        CU_ASSERT_EQUAL(weir_ticker_next("0 4 * * *", "Europe/Berlin", WEIR_WALL_EPOCH), WEIR_WALL_EPOCH + 3 * HOUR);
        CU_ASSERT_EQUAL(weir_ticker_next("0 0 30 feb *", "UTC", 0), WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_ticker_next("0 0 * * *", "UTC", -2 * DAY), -ERANGE);
        CU_ASSERT_EQUAL(weir_ticker_next("0 24 * * *", "UTC", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_ticker_next(NULL, "UTC", 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_ticker_next("@daily", "Atlantis/Capital", 0), -ENOENT);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(next_due_time_of_a_schedule_is_computed),
                WEIR_TEST(ticks_come_when_the_schedule_says),
                WEIR_TEST(zone_decides_what_the_clock_shows),
                WEIR_TEST(missed_ticks_are_counted),
                WEIR_TEST(clock_that_is_set_forward_brings_one_tick_at_once),
                WEIR_TEST(clock_that_is_set_back_a_little_repeats_nothing),
                WEIR_TEST(clock_that_is_set_back_by_far_begins_anew),
                WEIR_TEST(schedule_that_is_never_due_waits_for_its_cancel),
                WEIR_TEST(reset_moves_the_next_tick_only),
                WEIR_TEST(before_the_start_a_reset_counts_and_an_extension_does_not),
                WEIR_TEST(move_next_is_a_reset),
                WEIR_TEST(jump_leaves_a_reset_tick_where_it_is),
                WEIR_TEST(bad_input_is_told_with_its_place),
        };

        return weir_test_main("schedules", tests, sizeof tests / sizeof *tests);
}
