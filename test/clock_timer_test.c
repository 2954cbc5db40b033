/* test/clock_timer_test.c: timers that follow another clock, on the virtual one, where each jump is exact.
 *
 * clock_jump_test.c has the real clock. */
#include "test/timer_fixture.h"

#include "factory/timer/timer.h"
#include "kernel/base/clock.h"

#define HOUR  WEIR_SEC(3600)
#define START WEIR_WALL_EPOCH /* of the wall clock when a test begins */

/* -- fixture -- */

static weir_nsec began;

static void
begin(void)
{
        weir_test_begin_virtual();
        began = weir_now();
        CU_ASSERT_EQUAL(weir_wall_now(), START);
}

static unsigned
length(const struct weir__list *list)
{
        unsigned count = 0;

        for (const struct weir__link *link = weir__list_first(list); link; link = weir__list_next(list, link)) {
                CU_ASSERT_PTR_EQUAL(link->next->previous, link);
                count++;
        }
        return count;
}

/* Clock timers in the list of those that wait, or of those that do not. */
static unsigned
clock_timers(bool is_stale)
{
        struct weir__poller *poller = weir__pollers.at[0];

        weir__lock(&poller->lock);
        const struct weir__clock_group *wall = &poller->clock_timers.wall, *boot = &poller->clock_timers.boot;
        unsigned count = is_stale ? length(&wall->stale) + length(&boot->stale) : length(&wall->current) + length(&boot->current);
        weir__unlock(&poller->lock);
        return count;
}

/* Nothing may be left behind. */
static void
end(void)
{
        weir_test_end();
        CU_ASSERT_EQUAL(clock_timers(false) + clock_timers(true), 0);
        CU_ASSERT(!weir__pollers.at[0]->clock_timers.is_updating);
}

static void
start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(task)), 0);
}

static weir_task *
at(weir_nsec wall, struct weir_test_record *record)
{
        return weir_timer_new_at(wall, weir_test_done, record);
}

static weir_task *
at_named(const char *name, weir_nsec wall, struct weir_test_record *record)
{
        return weir_timer_new_at_named(name, wall, weir_test_done, record);
}

static void
advance(weir_nsec by)
{
        CU_ASSERT_EQUAL(weir_clock_advance(by), 0);
}

static void
set_wall(weir_nsec wall)
{
        CU_ASSERT_EQUAL(weir_clock_set_wall(wall), 0);
}

/* Sets the wall clock, and runs all that is due by that at this instant. */
static void
jump_to(weir_nsec wall)
{
        set_wall(wall);
        advance(0);
}

#define ENDED_AT(record, after)                                 \
        do {                                                    \
                WEIR_TEST_CALLED((record), 0);                  \
                CU_ASSERT_EQUAL((record)->at - began, (after)); \
        } while (0)

/* -- instants -- */

static void
a_wall_timer_ends_when_the_clock_shows_its_instant(void)
{
        struct weir_test_record timer = {0}, named = {0}, exact = {0};

        begin();
        start(at(START + HOUR, &timer));
        start(at_named("wall", START + 2 * HOUR, &named));
        start(at(START + HOUR + 1, &exact));
        advance(HOUR - 1);
        CU_ASSERT_EQUAL(timer.calls, 0);
        advance(1);
        ENDED_AT(&timer, HOUR);
        CU_ASSERT_EQUAL(exact.calls, 0);
        advance(HOUR);
        ENDED_AT(&exact, HOUR + 1);
        ENDED_AT(&named, 2 * HOUR);
        CU_ASSERT_EQUAL(clock_timers(false), 0);
        end();
}

static void
instants_that_have_passed_end_at_once(void)
{
        static const weir_nsec passed[] = {START - 1, START, 1, 0, -1, -HOUR, INT64_MIN + 1, INT64_MIN};
        struct weir_test_record records[8] = {0}, before = {0}, durations[3] = {0};
        _Atomic unsigned order = 0;

        begin();
        before.counter = &order;
        start(weir_timer_new(0, weir_test_done, &before));
        for (unsigned i = 0; i < 8; i++) {
                records[i].counter = &order;
                start(at(passed[i], &records[i]));
        }
        start(weir_timer_new_boottime(0, weir_test_done, &durations[0]));
        start(weir_timer_new_boottime(-1, weir_test_done, &durations[1]));
        start(weir_timer_new_boottime(INT64_MIN, weir_test_done, &durations[2]));
        advance(0);
        ENDED_AT(&before, 0);
        CU_ASSERT_EQUAL(before.order, 0);
        for (unsigned i = 0; i < 8; i++) {
                ENDED_AT(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].order, i + 1); /* in the order of their start */
        }
        for (unsigned i = 0; i < 3; i++) {
                ENDED_AT(&durations[i], 0);
        }
        end();
}

static void
forever_is_never_whatever_the_clock_shows(void)
{
        struct weir_test_record wall = {0}, boot = {0}, last = {0};

        begin();
        start(at(WEIR_FOREVER, &wall));
        start(weir_timer_new_boottime(WEIR_FOREVER, weir_test_done, &boot));
        start(at(WEIR_FOREVER - 1, &last));
        jump_to(WEIR_FOREVER - 2);
        CU_ASSERT_EQUAL(last.calls, 0);
        advance(1);
        ENDED_AT(&last, 1);
        advance(WEIR_TEST_CENTURY);
        jump_to(0);
        CU_ASSERT_EQUAL(wall.calls + boot.calls, 0);
        end();
        WEIR_TEST_CALLED(&wall, -ESHUTDOWN);
        WEIR_TEST_CALLED(&boot, -ESHUTDOWN);
}

static void
a_boottime_timer_is_an_ordinary_one_where_nothing_is_suspended(void)
{
        struct weir_test_record timer = {0}, named = {0};

        begin();
        weir_task *later = weir_timer_new_boottime_named("boot", HOUR, weir_test_done, &named);
        advance(WEIR_SEC(5));
        start(weir_timer_new_boottime(HOUR, weir_test_done, &timer));
        start(later);
        jump_to(START + 10 * HOUR); /* which is not its clock */
        jump_to(0);
        advance(HOUR - 1);
        CU_ASSERT_EQUAL(timer.calls + named.calls, 0);
        advance(1);
        ENDED_AT(&timer, HOUR + WEIR_SEC(5));
        ENDED_AT(&named, HOUR + WEIR_SEC(5));
        end();
}

/* -- jumps -- */

static void
a_jump_forward_brings_the_end_nearer(void)
{
        struct weir_test_record timer = {0}, ordinary = {0};

        begin();
        start(at(START + HOUR, &timer));
        start(weir_test_timer(HOUR, &ordinary));
        advance(WEIR_SEC(100));
        jump_to(START + HOUR - WEIR_SEC(10));
        CU_ASSERT_EQUAL(timer.calls, 0);
        advance(WEIR_SEC(10) - 1);
        CU_ASSERT_EQUAL(timer.calls, 0);
        advance(1);
        ENDED_AT(&timer, WEIR_SEC(110));
        CU_ASSERT_EQUAL(ordinary.calls, 0);
        end();
}

static void
a_jump_past_the_instant_ends_it_at_once(void)
{
        struct weir_test_record passed = {0}, met = {0}, missed = {0};

        begin();
        start(at(START + HOUR, &passed));
        start(at(START + 2 * HOUR, &met));
        start(at(START + 2 * HOUR + 1, &missed));
        advance(WEIR_SEC(7));
        jump_to(START + 2 * HOUR);
        ENDED_AT(&passed, WEIR_SEC(7));
        ENDED_AT(&met, WEIR_SEC(7));
        CU_ASSERT_EQUAL(missed.calls, 0);
        advance(1);
        ENDED_AT(&missed, WEIR_SEC(7) + 1);
        end();
}

static void
a_jump_back_puts_the_end_off(void)
{
        struct weir_test_record timer = {0};

        begin();
        start(at(START + HOUR, &timer));
        advance(HOUR - 1);
        jump_to(START);
        advance(HOUR - 1);
        CU_ASSERT_EQUAL(timer.calls, 0);
        jump_to(START - HOUR);
        advance(2 * HOUR - 1);
        CU_ASSERT_EQUAL(timer.calls, 0);
        advance(1);
        ENDED_AT(&timer, 4 * HOUR - 2);
        end();
}

static void
note_lateness(weir_task *task, void *lateness)
{
        *(weir_nsec *)lateness = weir_timer_lateness(task);
}

/* Nobody could have been in time for that. */
static void
a_timer_that_a_clock_change_has_passed_is_late_from_then_on(void)
{
        weir_nsec passed = -1, before = -1, after = -1;

        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_at(START + HOUR, note_lateness, &passed)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_at(START - HOUR, note_lateness, &before)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_at(START + 10 * HOUR, note_lateness, &after)), 0);
        jump_to(START + 2 * HOUR);
        advance(10 * HOUR);
        CU_ASSERT_EQUAL(passed, 0);
        CU_ASSERT_EQUAL(before, 0);
        CU_ASSERT_EQUAL(after, 0);
        end();
}

/* No new deadlines yet: the clock is put back within the same instant, by a callback before it. */
static void
put_back(void *wall)
{
        set_wall((weir_nsec)(uintptr_t)wall);
}

static unsigned stale_seen;

/* In one call: between two the poller may give new deadlines already. */
static void
put_back_and_count(void *wall)
{
        put_back(wall);
        stale_seen = clock_timers(true);
}

static void
a_timer_due_before_the_event_of_a_clock_set_back_is_not_early(void)
{
        struct weir_test_record pending = {0}, ready = {0};

        begin();
        weir_test_act(HOUR, put_back, (void *)(uintptr_t)START);
        start(at(START + HOUR, &ready)); /* has expired together with that */
        start(at(START + HOUR + 1, &pending));
        advance(HOUR + 2);
        ENDED_AT(&ready, HOUR);
        CU_ASSERT_EQUAL(pending.calls, 0);
        advance(HOUR - 2);
        CU_ASSERT_EQUAL(pending.calls, 0);
        advance(1);
        ENDED_AT(&pending, 2 * HOUR + 1);
        end();
}

/* Nobody reports the clock change: the timer expires, and must see by itself that it is too early. */
static void
an_unnoticed_jump_back_ends_nothing_early(void)
{
        struct weir_test_record records[3] = {0};

        begin();
        for (unsigned i = 0; i < 3; i++) {
                start(at(START + (i + 1) * HOUR, &records[i]));
        }
        atomic_fetch_sub(&weir__clock.wall_offset, HOUR);
        advance(2 * HOUR - 1);
        CU_ASSERT_EQUAL(records[0].calls, 0);
        advance(1);
        ENDED_AT(&records[0], 2 * HOUR);
        advance(2 * HOUR);
        ENDED_AT(&records[1], 3 * HOUR);
        ENDED_AT(&records[2], 4 * HOUR);
        end();
}

static void
those_that_one_jump_has_passed_end_in_the_order_of_their_instants(void)
{
        enum { COUNT = 1000 };
        static struct weir_test_record records[COUNT];
        _Atomic unsigned order = 0;

        memset(records, 0, sizeof records);
        begin();
        for (unsigned i = 0; i < COUNT; i++) {
                unsigned place = i * 7 % COUNT;

                records[place].counter = &order;
                start(at(START + (place + 1) * WEIR_SEC(1), &records[place]));
        }
        advance(WEIR_MSEC(1));
        jump_to(START + 500 * WEIR_SEC(1));
        for (unsigned i = 0; i < 500; i++) {
                ENDED_AT(&records[i], WEIR_MSEC(1));
                CU_ASSERT_EQUAL(records[i].order, i);
        }
        advance(WEIR_SEC(500));
        for (unsigned i = 500; i < COUNT; i++) {
                ENDED_AT(&records[i], WEIR_MSEC(1) + (i - 499) * WEIR_SEC(1));
                CU_ASSERT_EQUAL(records[i].order, i);
        }
        end();
}

/* -- equal deadlines: as for other timers, the order is that of the last resets -- */

enum { EQUALS = 6 };

/* Starts wall timers, or boottime timers, which reset themselves in another order, and returns in which order they end. */
static void
start_equals(bool is_wall, struct weir_test_record *records, _Atomic unsigned *order)
{
        static const char *const names[EQUALS] = {"a", "b", "c", "d", "e", "f"};

        for (unsigned i = 0; i < EQUALS; i++) {
                records[i].counter = order;
                start(is_wall ? at_named(names[i], START + 2 * HOUR, &records[i])
                              : weir_timer_new_boottime_named(names[i], 2 * HOUR, weir_test_done, &records[i]));
        }
        for (unsigned i = EQUALS; i-- > 0;) {
                CU_ASSERT_EQUAL(weir_timer_reset(names[i], HOUR), 1);
        }
}

static void
end_in_the_order_of_the_resets_after_a_jump(bool is_wall, weir_nsec by)
{
        struct weir_test_record records[EQUALS] = {0};
        _Atomic unsigned order = 0;

        begin();
        start_equals(is_wall, records, &order);
        jump_to(START + by);
        advance(2 * HOUR);
        for (unsigned i = 0; i < EQUALS; i++) {
                ENDED_AT(&records[i], is_wall ? HOUR - by : HOUR);
                CU_ASSERT_EQUAL(records[i].order, EQUALS - 1 - i);
        }
        end();
}

static void
a_jump_keeps_the_order_of_the_last_resets(void)
{
        static const weir_nsec jumps[] = {1, -1, WEIR_SEC(10), -WEIR_SEC(10), HOUR};

        for (unsigned i = 0; i < sizeof jumps / sizeof *jumps; i++) {
                end_in_the_order_of_the_resets_after_a_jump(true, jumps[i]);
                end_in_the_order_of_the_resets_after_a_jump(false, jumps[i]);
        }
}

static void
a_jump_keeps_the_order_among_timers_of_all_clocks(void)
{
        struct weir_test_record records[4] = {0};
        _Atomic unsigned order = 0;

        begin();
        for (unsigned i = 0; i < 4; i++) {
                records[i].counter = &order;
        }
        start(at(START + 2 * HOUR, &records[0])); /* by the jump its deadline is that of the others */
        start(weir_timer_new(HOUR, weir_test_done, &records[1]));
        start(weir_timer_new_boottime(HOUR, weir_test_done, &records[2]));
        start(at(START + 2 * HOUR, &records[3]));
        jump_to(START + HOUR);
        advance(HOUR);
        for (unsigned i = 0; i < 4; i++) {
                ENDED_AT(&records[i], HOUR);
                CU_ASSERT_EQUAL(records[i].order, i);
        }
        end();
}

/* A jump of the wall clock does not concern them: they do not even wait for a new deadline. */
static void
a_jump_leaves_boottime_timers_alone(void)
{
        struct weir_test_record boot = {0}, wall = {0};

        begin();
        start(weir_timer_new_boottime(HOUR, weir_test_done, &boot));
        start(at(START + HOUR, &wall));
        weir_test_act(0, put_back_and_count, (void *)(uintptr_t)(START + 1));
        advance(0);
        CU_ASSERT_EQUAL(stale_seen, 1);
        end();
}

static void
reset_ready_by_turns(void *after)
{
        weir_nsec by = (weir_nsec)(uintptr_t)after;

        CU_ASSERT_EQUAL(weir_timer_reset("c", by) + weir_timer_reset("a", by) + weir_timer_reset("b", by), 3);
}

/* Two ordinary ones are between them, so a timer that is put back later than it was reset would show. */
static void
ready_ones_that_are_reset_end_in_the_order_of_the_resets(void)
{
        static const weir_nsec afters[] = {0, HOUR};

        for (unsigned i = 0; i < 2; i++) {
                struct weir_test_record records[3] = {0};
                _Atomic unsigned order = 0;

                begin();
                for (unsigned k = 0; k < 3; k++) {
                        records[k].counter = &order;
                }
                weir_test_act(HOUR, reset_ready_by_turns, (void *)(uintptr_t)afters[i]);
                start(at_named("a", START + HOUR, &records[1]));
                start(weir_test_named("b", HOUR, &records[2]));
                start(weir_timer_new_boottime_named("c", HOUR, weir_test_done, &records[0]));
                advance(3 * HOUR);
                for (unsigned k = 0; k < 3; k++) {
                        ENDED_AT(&records[k], HOUR + afters[i]);
                        CU_ASSERT_EQUAL(records[k].order, k);
                }
                end();
        }
}

/* -- slices -- */

enum { CROWD = 1000 };

static unsigned waiting[8], looks;

static void
look(weir_task *task, void *context)
{
        (void)task, (void)context;
        CU_ASSERT_EQUAL(clock_timers(false) + clock_timers(true), CROWD);
        waiting[looks++] = clock_timers(true);
        if (looks < 8) {
                CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(look, NULL)), 0);
        }
}

static void
jump_and_look(void *wall)
{
        set_wall((weir_nsec)(uintptr_t)wall);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(look, NULL)), 0);
        waiting[looks++] = clock_timers(true);
}

static void
a_jump_gives_new_deadlines_to_256_at_a_time_between_other_work(void)
{
        static const unsigned expected[8] = {CROWD, CROWD - 256, CROWD - 512, CROWD - 768};
        static struct weir_test_record records[CROWD];

        memset(records, 0, sizeof records);
        looks = 0;
        begin();
        for (unsigned i = 0; i < CROWD; i++) {
                start(at(START + HOUR + i, &records[i]));
        }
        weir_test_act(WEIR_SEC(1), jump_and_look, (void *)(uintptr_t)(START + HOUR - WEIR_SEC(1)));
        advance(WEIR_SEC(1));
        CU_ASSERT_EQUAL(looks, 8);
        for (unsigned i = 0; i < 8; i++) {
                CU_ASSERT_EQUAL(waiting[i], expected[i]);
        }
        advance(WEIR_SEC(2));
        for (unsigned i = 0; i < CROWD; i++) {
                ENDED_AT(&records[i], WEIR_SEC(2) + i);
        }
        end();
}

static void
jump_again(weir_task *task, void *wall)
{
        (void)task;
        CU_ASSERT_EQUAL(clock_timers(true), CROWD - 256);
        set_wall((weir_nsec)(uintptr_t)wall);
        CU_ASSERT_EQUAL(clock_timers(true), CROWD);
}

static void
jump_twice(void *wall)
{
        set_wall(START + 20 * HOUR);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(jump_again, wall)), 0);
}

static void
a_jump_amid_new_deadlines_is_for_all(void)
{
        static struct weir_test_record records[CROWD];

        memset(records, 0, sizeof records);
        begin();
        for (unsigned i = 0; i < CROWD; i++) {
                start(at(START + 100 * HOUR + i, &records[i]));
        }
        weir_test_act(WEIR_SEC(1), jump_twice, (void *)(uintptr_t)(START + 90 * HOUR));
        advance(WEIR_SEC(2));
        CU_ASSERT_EQUAL(clock_timers(true), 0);
        advance(11 * HOUR);
        for (unsigned i = 0; i < CROWD; i++) {
                ENDED_AT(&records[i], WEIR_SEC(1) + 10 * HOUR + i);
        }
        end();
}

/* Cancels, resets, starts and ends timers while the clock change is only half done. */
static void
meddle(weir_task *task, void *context)
{
        (void)task, (void)context;
        CU_ASSERT_EQUAL(weir_timer_cancel("settled", WEIR_ALL), 256);
        CU_ASSERT_EQUAL(weir_timer_cancel("jumped", WEIR_ALL), 256);
        CU_ASSERT_EQUAL(weir_timer_reset("reset", WEIR_SEC(3)), 256);
}

static void
jump_and_meddle(void *unused)
{
        (void)unused;
        set_wall(START + 20 * HOUR);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(meddle, NULL)), 0);
}

static void
those_that_wait_for_new_deadlines_may_be_cancelled_and_reset(void)
{
        static const char *const names[] = {"settled", "jumped", "reset"};
        static struct weir_test_record records[3][256];

        memset(records, 0, sizeof records);
        begin();
        for (unsigned i = 0; i < 3; i++) {
                for (unsigned j = 0; j < 256; j++) {
                        start(at_named(names[i], START + 100 * HOUR, &records[i][j]));
                }
        }
        weir_test_act(WEIR_SEC(1), jump_and_meddle, NULL);
        advance(WEIR_SEC(10));
        CU_ASSERT_EQUAL(clock_timers(true) + clock_timers(false), 0);
        for (unsigned j = 0; j < 256; j++) {
                WEIR_TEST_CALLED(&records[0][j], -ECANCELED);
                WEIR_TEST_CALLED(&records[1][j], -ECANCELED);
                ENDED_AT(&records[2][j], WEIR_SEC(4));
        }
        end();
}

/* -- reset and extend -- */

static void
reset_counts_from_now_on_its_own_clock(void)
{
        struct weir_test_record wall = {0}, boot = {0}, never = {0};

        begin();
        start(at_named("x", START + HOUR, &wall));
        start(weir_timer_new_boottime_named("x", HOUR, weir_test_done, &boot));
        start(at_named("x", WEIR_FOREVER, &never));
        advance(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_timer_reset("x", 2 * HOUR), 3);
        jump_to(START + HOUR); /* an hour less a second: the deadline of a reset is an instant as well */
        advance(HOUR);
        CU_ASSERT_EQUAL(wall.calls, 0);
        advance(WEIR_SEC(1));
        ENDED_AT(&wall, HOUR + WEIR_SEC(2));
        advance(2 * HOUR);
        ENDED_AT(&boot, 2 * HOUR + WEIR_SEC(1));
        ENDED_AT(&never, HOUR + WEIR_SEC(2));
        end();
}

static void
extend_moves_the_instant(void)
{
        struct weir_test_record later = {0}, earlier = {0}, never = {0}, boot = {0}, now = {0};

        begin();
        start(at_named("later", START + HOUR, &later));
        start(at_named("earlier", START + 3 * HOUR, &earlier));
        start(at_named("later", WEIR_FOREVER, &never));
        start(at_named("now", START + HOUR, &now));
        start(weir_timer_new_boottime_named("later", HOUR, weir_test_done, &boot));
        CU_ASSERT_EQUAL(weir_timer_extend("later", HOUR), 3);
        CU_ASSERT_EQUAL(weir_timer_extend("earlier", -HOUR), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("now", INT64_MIN), 1);
        jump_to(START + HOUR);
        ENDED_AT(&now, 0);
        advance(HOUR - 1);
        CU_ASSERT_EQUAL(later.calls + earlier.calls, 0);
        advance(1);
        ENDED_AT(&later, HOUR);
        ENDED_AT(&earlier, HOUR);
        advance(HOUR);
        ENDED_AT(&boot, 2 * HOUR);
        CU_ASSERT_EQUAL(weir_timer_extend("later", WEIR_FOREVER), 1);
        CU_ASSERT_EQUAL(never.calls, 0);
        end();
}

static void
before_the_start_a_wall_timer_has_an_instant_and_a_boottime_timer_a_duration(void)
{
        struct weir_test_record wall = {0}, extended = {0}, boot = {0};

        begin();
        weir_task *first = at_named("reset", START + 5 * HOUR, &wall);
        weir_task *second = at_named("extend", START + 5 * HOUR, &extended);
        weir_task *third = weir_timer_new_boottime_named("reset", 5 * HOUR, weir_test_done, &boot);
        CU_ASSERT_EQUAL(weir_test_info("extend").due_in, 5 * HOUR);
        CU_ASSERT_EQUAL(weir_timer_reset("reset", 2 * HOUR), 2);
        CU_ASSERT_EQUAL(weir_timer_extend("extend", -2 * HOUR), 1);
        advance(HOUR);
        CU_ASSERT_EQUAL(weir_test_info("extend").due_in, 2 * HOUR);
        CU_ASSERT_EQUAL(weir_test_info("extend").state, WEIR_TIMER_NEW);
        start(first);
        start(second);
        start(third);
        CU_ASSERT_EQUAL(weir_test_info("extend").due_in, 2 * HOUR);
        advance(2 * HOUR);
        ENDED_AT(&wall, 2 * HOUR);
        ENDED_AT(&extended, 3 * HOUR);
        ENDED_AT(&boot, 3 * HOUR);
        end();
}

/* In front of those that are ready. */
static void
reset_and_jump(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_reset("ready", HOUR), 2);
        CU_ASSERT_EQUAL(weir_timer_extend("ready", HOUR), 2);
        CU_ASSERT_EQUAL(weir_test_info("ready-wall").due_in, 2 * HOUR);
        set_wall(weir_wall_now() + HOUR);
}

static void
one_that_is_ready_is_reset_to_an_instant_that_follows_the_clock(void)
{
        struct weir_test_record wall = {0}, boot = {0}, other = {0};

        begin();
        weir_test_act(HOUR, reset_and_jump, NULL);
        start(at_named("ready", START + HOUR, &wall));
        start(weir_timer_new_boottime_named("ready", HOUR, weir_test_done, &boot));
        start(at_named("ready-wall", START + 3 * HOUR, &other));
        advance(HOUR);
        CU_ASSERT_EQUAL(wall.calls + boot.calls, 0);
        advance(HOUR - 1);
        CU_ASSERT_EQUAL(wall.calls, 0);
        advance(1);
        ENDED_AT(&wall, 2 * HOUR);
        ENDED_AT(&other, 2 * HOUR);
        advance(HOUR);
        ENDED_AT(&boot, 3 * HOUR);
        end();
}

/* -- other ends -- */

static void
cancel_finds_them_as_it_finds_others(void)
{
        struct weir_test_record named = {0}, by_id = {0}, unstarted = {0}, gone = {0}, in_series = {0}, after = {0};

        begin();
        start(at_named("name", START + HOUR, &named));
        weir_task *task = weir_test_recorded(at(START + HOUR, &by_id));
        weir_timer_id id = weir_timer_id_of(task);
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        task = at_named("unstarted", START + HOUR, &unstarted);
        weir_task_dismiss(weir_test_recorded(at(START + HOUR, &gone)));
        weir_task_dismiss(weir_test_recorded(weir_timer_new_boottime_named("gone", 1, weir_test_done, &gone)));
        CU_ASSERT_EQUAL(gone.frees, 2);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_test_recorded(at(START + HOUR, &in_series)));
        weir_series_push(series, weir_test_recorded(at(START + HOUR, &after)));
        weir_series_ref(series);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        CU_ASSERT_EQUAL(clock_timers(false), 3);
        CU_ASSERT_EQUAL(weir_timer_cancel("name", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(id), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("unstarted", 1), 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        jump_to(START + 2 * HOUR); /* they have passed, but are cancelled already */
        start(task);
        advance(0);
        WEIR_TEST_CALLED(&named, -ECANCELED);
        WEIR_TEST_CALLED(&by_id, -ECANCELED);
        WEIR_TEST_CALLED(&unstarted, -ECANCELED);
        WEIR_TEST_CALLED(&in_series, -ECANCELED);
        CU_ASSERT_EQUAL(after.calls, 0);
        CU_ASSERT_EQUAL(clock_timers(false), 0);
        end();
}

static void
shutdown_ends_them_also_amid_a_jump(void)
{
        static struct weir_test_record records[CROWD];
        struct weir_test_gate gate;
        struct weir_test_thread thread;

        memset(records, 0, sizeof records);
        begin();
        for (unsigned i = 0; i < CROWD; i++) {
                start(at(START + HOUR + i, &records[i]));
        }
        weir_test_gate_hold(&gate, NULL);
        set_wall(START + 3 * HOUR);
        set_wall(START); /* the work is on its way once */
        CU_ASSERT_EQUAL(clock_timers(true), CROWD);
        weir_test_shutdown_begin_behind_gate(&thread);
        set_wall(START + 3 * HOUR);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        for (unsigned i = 0; i < CROWD; i++) {
                CU_ASSERT_EQUAL(records[i].calls, 1);
                CU_ASSERT_EQUAL(records[i].frees, 1);
        }
        end();
}

static void
one_that_outlives_a_shutdown_follows_the_next_runtime(void)
{
        struct weir_test_record wall = {0}, boot = {0};

        begin();
        weir_task *first = at_named("wall", START + HOUR, &wall);
        weir_task *second = weir_timer_new_boottime(HOUR, weir_test_done, &boot);
        end();
        begin();
        start(first);
        start(second);
        jump_to(START + HOUR);
        ENDED_AT(&wall, 0);
        advance(HOUR);
        ENDED_AT(&boot, HOUR);
        end();
}

static void
slack_brings_them_together_after_a_jump_as_well(void)
{
        struct weir_test_record records[16] = {0};

        begin();
        for (unsigned i = 0; i < 16; i++) {
                weir_task *task = at(START + HOUR + i * WEIR_MSEC(1), &records[i]);

                CU_ASSERT_EQUAL(weir_timer_set_slack(task, WEIR_SEC(2)), 0);
                start(task);
        }
        jump_to(START + HOUR / 2);
        advance(HOUR / 2 - 1);
        CU_ASSERT_EQUAL(records[0].calls, 0);
        advance(WEIR_SEC(3));
        for (unsigned i = 0; i < 16; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, records[0].at);
                CU_ASSERT(records[i].at - began >= HOUR / 2 + i * WEIR_MSEC(1));
                CU_ASSERT_EQUAL(records[i].at & ((1 << 30) - 1), 0);
        }
        end();
}

static void
bad_input_is_refused(void)
{
        struct weir_test_record record = {0};
        char *long_name = calloc(1, WEIR_NAME_MAX + 2);

        memset(long_name, 'x', WEIR_NAME_MAX + 1);
        begin();
        CU_ASSERT_EQUAL(weir_task_start(at_named(NULL, START, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(at_named("", START, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(at_named(long_name, START, &record)), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_boottime_named(NULL, 1, weir_test_done, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_boottime_named(long_name, 1, weir_test_done, &record)), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_task *task = at(START, NULL);
        CU_ASSERT_EQUAL(weir_ticker_set_first(task, 1), -EDOM);
        weir_task_dismiss(task);
        free(long_name);
        end();
}

/* -- another target after a clock change, as for a schedule on the wall clock -- */

/* An alarm is a node like others. */
struct alarm_of_clock {
        struct weir__clock_timer clock_timer;
        struct weir__alarm alarm;
        unsigned asked;
        weir_nsec shown;
};

static weir_nsec
next_full_hour(struct weir__clock_timer *clock_timer, weir_nsec shown)
{
        struct alarm_of_clock *own = (struct alarm_of_clock *)clock_timer;

        own->asked++;
        own->shown = shown;
        return (shown / HOUR + 1) * HOUR;
}

static void
do_nothing(struct weir__work *work)
{
        (void)work;
}

static void
a_jump_may_have_another_target(void)
{
        static const struct weir__clock_timer_ops ops = {.retarget = next_full_hour};
        static const struct weir__work_ops work_ops = {.run = do_nothing};
        struct alarm_of_clock own = {.clock_timer = {.ops = &ops, .node = &own.alarm.node, .clock = CLOCK_REALTIME},
                                     .alarm = {.work.ops = &work_ops}};
        struct weir__poller *poller;

        begin();
        advance(0); /* there is a poller */
        poller = weir__pollers.at[0];
        weir__lock(&poller->lock);
        own.clock_timer.target = START + HOUR;
        own.alarm.node.kind = WEIR__DEADLINE_ALARM;
        weir__deadlines_add(poller, &own.alarm.node, weir__clock_timer_deadline(&own.clock_timer), weir_now());
        weir__clock_timer_add(poller, &own.clock_timer);
        weir__unlock(&poller->lock);
        CU_ASSERT_EQUAL(own.alarm.node.deadline, began + HOUR);
        jump_to(START + 5 * HOUR + 1);
        CU_ASSERT_EQUAL(own.asked, 1);
        CU_ASSERT_EQUAL(own.shown, START + 5 * HOUR + 1);
        CU_ASSERT_EQUAL(own.clock_timer.target, START + 6 * HOUR);
        CU_ASSERT_EQUAL(own.alarm.node.deadline, began + HOUR - 1);
        jump_to(START - 1);
        CU_ASSERT_EQUAL(own.clock_timer.target, START);
        CU_ASSERT_EQUAL(own.alarm.node.deadline, began + 1);
        advance(10);
        CU_ASSERT(!weir__timerq_contains(&own.alarm.node));
        jump_to(START + HOUR); /* it has come: nothing is asked any more */
        CU_ASSERT_EQUAL(own.asked, 2);
        weir__lock(&poller->lock);
        weir__clock_timer_remove(&own.clock_timer);
        weir__clock_timer_remove(&own.clock_timer);
        weir__unlock(&poller->lock);
        end();
}

/* -- anything at random, against a plain model: each ends when the clock first shows its instant, and equal ones in the order of
 * their start or last reset -- */

enum { TIMERS = 300, STEPS = 400 };

#define MINUTE WEIR_SEC(60) /* all times are multiples, so that many are equal */

static struct model {
        struct weir_test_record record;
        char name[16];
        weir_nsec target;
        weir_nsec ends; /* when it has to have ended; WEIR_FOREVER: it has not */
        bool cancelled;
        unsigned stamp; /* counts starts and resets */
} models[TIMERS];

static unsigned stamps;
static _Atomic unsigned model_order;

static weir_nsec
random_minutes(struct weir_test_random *random, weir_nsec below)
{
        return (weir_nsec)weir_test_random_below(random, (uint64_t)(below / MINUTE)) * MINUTE;
}

/* The wall clock goes on by so much, or has been set. */
static void
let_model_end(weir_nsec wall_before, weir_nsec now, weir_nsec by)
{
        for (unsigned i = 0; i < TIMERS; i++) {
                struct model *model = &models[i];

                if (model->ends == WEIR_FOREVER && model->target <= wall_before + by) {
                        model->ends = now + (model->target > wall_before ? model->target - wall_before : 0);
                }
        }
}

/* Both have expired. */
static void
check_order(const struct model *one, const struct model *other)
{
        if (one->target == other->target && one->record.at == other->record.at) {
                CU_ASSERT_EQUAL(one->record.order < other->record.order, one->stamp < other->stamp);
        }
}

static void
check_orders(void)
{
        for (unsigned i = 0; i < TIMERS; i++) {
                for (unsigned k = 0; k < i; k++) {
                        if (models[i].record.calls && models[k].record.calls && !models[i].cancelled && !models[k].cancelled) {
                                check_order(&models[i], &models[k]);
                        }
                }
        }
}

static void
check_models(void)
{
        for (unsigned i = 0; i < TIMERS; i++) {
                struct model *model = &models[i];

                CU_ASSERT_EQUAL(model->record.calls, model->ends != WEIR_FOREVER);
                if (model->record.calls) {
                        CU_ASSERT_EQUAL(model->record.at, model->ends);
                        CU_ASSERT_EQUAL(model->record.status, model->cancelled ? -ECANCELED : 0);
                }
        }
}

static void
start_models(struct weir_test_random *random)
{
        memset(models, 0, sizeof models);
        for (unsigned i = 0; i < TIMERS; i++) {
                struct model *model = &models[i];

                snprintf(model->name, sizeof model->name, "m%u", i);
                model->target = START + random_minutes(random, 100 * HOUR);
                model->ends = WEIR_FOREVER;
                model->stamp = stamps++;
                model->record.counter = &model_order;
                start(at_named(model->name, model->target, &model->record));
        }
}

static void
change_a_model(struct weir_test_random *random, unsigned kind)
{
        struct model *model = &models[weir_test_random_below(random, TIMERS)];
        weir_nsec by = random_minutes(random, 10 * HOUR) - 2 * HOUR;
        bool pends = model->ends == WEIR_FOREVER;

        model->stamp = pends ? stamps++ : model->stamp;

        if (kind == 0) {
                CU_ASSERT_EQUAL(weir_timer_cancel(model->name, 1), pends);
                model->cancelled |= pends;
                model->target = pends ? INT64_MIN : model->target;
        } else if (kind == 1) {
                CU_ASSERT_EQUAL(weir_timer_reset(model->name, by), pends);
                model->target = pends ? weir_wall_now() + (by > 0 ? by : 0) : model->target;
        } else {
                CU_ASSERT_EQUAL(weir_timer_extend(model->name, by), pends);
                model->target += pends ? by : 0;
        }
}

static void
random_jumps_resets_and_cancels_end_each_at_its_instant(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 5 : 50); round++) {
                begin();
                start_models(&random);
                for (unsigned step = 0; step < STEPS; step++) {
                        unsigned kind = (unsigned)weir_test_random_below(&random, 7);
                        weir_nsec by = 0;

                        if (kind < 3) {
                                change_a_model(&random, kind);
                        } else if (kind < 5) {
                                by = random_minutes(&random, HOUR);
                        } else if (kind < 6) {
                                set_wall(weir_wall_now() + random_minutes(&random, 6 * HOUR) - 3 * HOUR);
                        } else {
                                jump_to(weir_wall_now() - 1);
                                set_wall(weir_wall_now() + 1);
                        }
                        let_model_end(weir_wall_now(), weir_now(), by);
                        advance(by);
                        check_models();
                }
                check_orders();
                end();
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_wall_timer_ends_when_the_clock_shows_its_instant),
                WEIR_TEST(instants_that_have_passed_end_at_once),
                WEIR_TEST(forever_is_never_whatever_the_clock_shows),
                WEIR_TEST(a_boottime_timer_is_an_ordinary_one_where_nothing_is_suspended),
                WEIR_TEST(a_jump_forward_brings_the_end_nearer),
                WEIR_TEST(a_jump_past_the_instant_ends_it_at_once),
                WEIR_TEST(a_jump_back_puts_the_end_off),
                WEIR_TEST(a_timer_that_a_clock_change_has_passed_is_late_from_then_on),
                WEIR_TEST(a_timer_due_before_the_event_of_a_clock_set_back_is_not_early),
                WEIR_TEST(an_unnoticed_jump_back_ends_nothing_early),
                WEIR_TEST(those_that_one_jump_has_passed_end_in_the_order_of_their_instants),
                WEIR_TEST(a_jump_keeps_the_order_of_the_last_resets),
                WEIR_TEST(a_jump_keeps_the_order_among_timers_of_all_clocks),
                WEIR_TEST(a_jump_leaves_boottime_timers_alone),
                WEIR_TEST(ready_ones_that_are_reset_end_in_the_order_of_the_resets),
                WEIR_TEST(a_jump_gives_new_deadlines_to_256_at_a_time_between_other_work),
                WEIR_TEST(a_jump_amid_new_deadlines_is_for_all),
                WEIR_TEST(those_that_wait_for_new_deadlines_may_be_cancelled_and_reset),
                WEIR_TEST(reset_counts_from_now_on_its_own_clock),
                WEIR_TEST(extend_moves_the_instant),
                WEIR_TEST(before_the_start_a_wall_timer_has_an_instant_and_a_boottime_timer_a_duration),
                WEIR_TEST(one_that_is_ready_is_reset_to_an_instant_that_follows_the_clock),
                WEIR_TEST(cancel_finds_them_as_it_finds_others),
                WEIR_TEST(shutdown_ends_them_also_amid_a_jump),
                WEIR_TEST(one_that_outlives_a_shutdown_follows_the_next_runtime),
                WEIR_TEST(slack_brings_them_together_after_a_jump_as_well),
                WEIR_TEST(bad_input_is_refused),
                WEIR_TEST(a_jump_may_have_another_target),
                WEIR_TEST(random_jumps_resets_and_cancels_end_each_at_its_instant),
        };

        return weir_test_main("clock_timer", tests, sizeof tests / sizeof *tests);
}
