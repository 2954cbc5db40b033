/* test/reset_test.c: reset and extend, by name: new deadlines, whatever the timer was doing.
 *
 * On the virtual clock, which has one worker.  A timer is READY while the callback of another one runs that was due at the same
 * instant and started first. */
#include "test/timer_fixture.h"

#define FAR     WEIR_TEST_FAR
#define CENTURY WEIR_TEST_CENTURY

/* -- pending -- */

static void
pending_timer_ends_at_the_new_time_whatever_the_old_one_was(void)
{
        enum { COUNT = 10 };
        static const weir_nsec durations[COUNT] = {2,           999,           WEIR_USEC(700),  1048577,          WEIR_MSEC(67),
                                                   WEIR_SEC(5), WEIR_SEC(301), WEIR_SEC(86400), CENTURY - 123456, WEIR_FOREVER};
        static struct weir_test_record records[COUNT][COUNT];
        char name[32];

        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < COUNT * COUNT; i++) {
                sprintf(name, "%u to %u", i / COUNT, i % COUNT);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named(name, durations[i / COUNT], &records[i / COUNT][i % COUNT])), 0);
        }
        weir_test_pass(1);
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < COUNT * COUNT; i++) {
                sprintf(name, "%u to %u", i / COUNT, i % COUNT);
                CU_ASSERT_EQUAL(weir_timer_reset(name, durations[i % COUNT]), 1);
        }
        weir_test_pass(CENTURY);
        for (unsigned i = 0; i < COUNT * COUNT; i++) {
                struct weir_test_record *record = &records[i / COUNT][i % COUNT];

                sprintf(name, "%u to %u", i / COUNT, i % COUNT);
                if (durations[i % COUNT] == WEIR_FOREVER) {
                        CU_ASSERT_EQUAL(record->calls, 0);
                        CU_ASSERT_EQUAL(weir_timer_cancel(name, WEIR_ALL), 1);
                        continue;
                }
                WEIR_TEST_CALLED(record, 0);
                CU_ASSERT_EQUAL(record->at, began + durations[i % COUNT]);
        }
        weir_test_end();
        for (unsigned i = 0; i < COUNT * COUNT; i++) {
                WEIR_TEST_CALLED(&records[i / COUNT][i % COUNT], (i % COUNT == COUNT - 1 ? -ECANCELED : 0));
        }
}

static struct {
        struct weir_test_record record;
        weir_nsec after;
        size_t counted;
        int calls_before; /* when the reset had returned */
} at_once;

static void
reset_to_at_once(void *unused)
{
        (void)unused;
        at_once.counted = weir_timer_reset("at once", at_once.after);
        at_once.calls_before = at_once.record.calls;
}

static void
reset_to_zero_or_less_ends_at_once_through_the_loop(void)
{
        static const weir_nsec durations[] = {0, -1, -WEIR_SEC(5), -WEIR_FOREVER, INT64_MIN};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 10; i++) {
                memset(&at_once, 0, sizeof at_once);
                at_once.after = durations[i / 2];
                weir_nsec began = weir_now();
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("at once", FAR, &at_once.record)), 0);
                if (i % 2) {
                        weir_test_act(0, reset_to_at_once, NULL);
                } else {
                        CU_ASSERT_EQUAL(weir_timer_reset("at once", at_once.after), 1);
                }
                WEIR_TEST_EVENTUALLY(at_once.record.frees == 1);
                WEIR_TEST_CALLED(&at_once.record, 0);
                CU_ASSERT_EQUAL(at_once.record.at, began);
                CU_ASSERT(!pthread_equal(at_once.record.on, pthread_self()));
                if (i % 2) {
                        CU_ASSERT_EQUAL(at_once.counted, 1);
                        CU_ASSERT_EQUAL(at_once.calls_before, 0);
                }
        }
        weir_test_end();
}

static void
reset_to_forever_ends_it_never_until_it_is_reset_back(void)
{
        static const weir_nsec endless[] = {WEIR_FOREVER, WEIR_FOREVER - 1, WEIR_SEC(INT64_MAX)};
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("forever", WEIR_SEC(1), &record)), 0);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_timer_reset("forever", endless[i]), 1);
                weir_test_pass(CENTURY / 2);
                CU_ASSERT_EQUAL(record.calls, 0);
        }
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_timer_reset("forever", WEIR_SEC(2)), 1);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(2));
        weir_test_end();
}

/* A debounce: a timer that is reset again and again fires once, after the last reset. */
static void
reset_again_and_again_it_ends_once_after_the_last(void)
{
        struct weir_test_record record = {0};
        weir_nsec last = 0;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("debounce", WEIR_MSEC(100), &record)), 0);
        for (unsigned i = 0; i < 2000; i++) {
                weir_test_pass(WEIR_MSEC(i % 99));
                last = weir_now();
                CU_ASSERT_EQUAL(weir_timer_reset("debounce", WEIR_MSEC(100)), 1);
        }
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, last + WEIR_MSEC(100));
        weir_test_end();
}

/* They are started in another order and with other durations than they are made. */
static void
thousand_of_one_name_end_at_the_new_time_in_the_order_of_their_making(void)
{
        enum { COUNT = 1000 };
        static struct weir_test_record records[COUNT];
        _Atomic unsigned counter = 0;
        weir_task *timers[COUNT];

        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < COUNT; i++) {
                records[i].counter = &counter;
                timers[i] = weir_test_named("all", WEIR_SEC(2) + (weir_nsec)(i * 7919 % COUNT) * WEIR_MSEC(1), &records[i]);
        }
        for (unsigned i = 0; i < COUNT; i++) {
                CU_ASSERT_EQUAL(weir_task_start(timers[(i * 377 + 5) % COUNT]), 0);
        }
        weir_test_pass(WEIR_SEC(1));
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_timer_reset("all", WEIR_SEC(1) + WEIR_MSEC(500)), COUNT);
        CU_ASSERT_EQUAL(weir_timer_count("all"), COUNT);
        weir_test_pass(FAR);
        weir_test_end();
        for (unsigned i = 0; i < COUNT; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, began + WEIR_SEC(1) + WEIR_MSEC(500));
                CU_ASSERT_EQUAL(records[i].order, i);
        }
}

/* Each of them is due at the same instant: one was reset to it from before, one from behind, one again and again. */
static void
reset_timers_end_among_equal_ones_in_the_order_of_their_last_reset(void)
{
        static const char *const names[] = {"from behind", "between", "from before", "again", "last"};
        static const weir_nsec durations[] = {WEIR_SEC(700), WEIR_SEC(60), WEIR_SEC(5), WEIR_SEC(2), WEIR_SEC(60)};
        struct weir_test_record records[5] = {0};
        _Atomic unsigned counter = 0;
        weir_task *timers[5];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 5; i++) {
                records[i].counter = &counter;
                timers[i] = weir_test_named(names[i], durations[i], &records[i]);
        }
        for (unsigned i = 5; i-- > 0;) { /* those that are reset are started first, and in the wrong order */
                if (i % 2 == 0 && i < 4) {
                        CU_ASSERT_EQUAL(weir_task_start(timers[i]), 0);
                }
        }
        CU_ASSERT_EQUAL(weir_task_start(timers[3]), 0);
        for (unsigned i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(weir_timer_reset("again", WEIR_SEC(10 + 10 * i)), 1);
        }
        CU_ASSERT_EQUAL(weir_timer_reset("from behind", WEIR_SEC(60)), 1);
        CU_ASSERT_EQUAL(weir_task_start(timers[1]), 0);
        CU_ASSERT_EQUAL(weir_timer_reset("from before", WEIR_SEC(60)), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("again", WEIR_SEC(60)), 1);
        CU_ASSERT_EQUAL(weir_task_start(timers[4]), 0);
        weir_test_pass(FAR);
        weir_test_end();
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].order, i);
        }
}

static void
reset_timer_keeps_its_place_among_those_of_its_name(void)
{
        struct weir_test_record records[3] = {0};
        weir_timer_id ids[3];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 3; i++) {
                weir_task *timer = weir_test_named("place", FAR, &records[i]);

                ids[i] = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[0], 2 * FAR), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("place", 1), 1);
        WEIR_TEST_EVENTUALLY(records[0].frees == 1);
        CU_ASSERT_EQUAL(weir_timer_reset("place", FAR), 2);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[1], 3 * FAR), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("place", 1), 1);
        WEIR_TEST_EVENTUALLY(records[1].frees == 1);
        CU_ASSERT_EQUAL(records[2].calls, 0);
        weir_test_end();
        WEIR_TEST_CALLED(&records[2], -ESHUTDOWN);
}

/* -- extend -- */

struct extension {
        weir_nsec before, by, ends; /* FOREVER: never */
};

/* `ends` counts from the start; two seconds of it have passed when the timer is extended. */
static void
extend_moves_a_deadline_by_any_amount(void)
{
        static const struct extension cases[] = {
                {WEIR_SEC(10), WEIR_SEC(5), WEIR_SEC(15)},
                {WEIR_SEC(10), 1, WEIR_SEC(10) + 1},
                {WEIR_SEC(10), 0, WEIR_SEC(10)},
                {WEIR_SEC(10), -1, WEIR_SEC(10) - 1},
                {WEIR_SEC(10), -WEIR_SEC(5), WEIR_SEC(5)},
                {WEIR_SEC(10), -WEIR_SEC(8), WEIR_SEC(2)}, /* to the present */
                {WEIR_SEC(10), -WEIR_SEC(9), WEIR_SEC(2)}, /* past it */
                {WEIR_SEC(10), -CENTURY, WEIR_SEC(2)},
                {WEIR_SEC(10), INT64_MIN, WEIR_SEC(2)},
                {WEIR_SEC(10), CENTURY - WEIR_SEC(20), CENTURY - WEIR_SEC(10)},
                {WEIR_SEC(10), WEIR_FOREVER, WEIR_FOREVER},
                {WEIR_SEC(10), WEIR_FOREVER - WEIR_SEC(5), WEIR_FOREVER}, /* the sum overflows */
                {WEIR_FOREVER, WEIR_SEC(5), WEIR_FOREVER},
                {WEIR_FOREVER, -WEIR_SEC(5), WEIR_FOREVER},
                {WEIR_FOREVER, INT64_MIN, WEIR_FOREVER},
                {WEIR_FOREVER, WEIR_FOREVER, WEIR_FOREVER},
        };

        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir_test_record record = {0};

                weir_test_begin_virtual();
                weir_nsec began = weir_now();
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("extended", cases[i].before, &record)), 0);
                weir_test_pass(WEIR_SEC(2));
                CU_ASSERT_EQUAL(weir_timer_extend("extended", cases[i].by), 1);
                weir_test_pass(CENTURY);
                if (cases[i].ends == WEIR_FOREVER) {
                        CU_ASSERT_EQUAL(record.calls, 0);
                        CU_ASSERT_EQUAL(weir_timer_cancel("extended", WEIR_ALL), 1);
                } else {
                        WEIR_TEST_CALLED(&record, 0);
                        CU_ASSERT_EQUAL(record.at, began + cases[i].ends);
                }
                weir_test_end();
                CU_ASSERT_EQUAL(record.calls, 1);
        }
}

/* `ends` counts from the start, which comes after it was extended. */
static void
extend_before_the_start_changes_the_duration(void)
{
        static const struct extension cases[] = {
                {WEIR_SEC(10), WEIR_SEC(5), WEIR_SEC(15)},
                {WEIR_SEC(10), 0, WEIR_SEC(10)},
                {WEIR_SEC(10), -WEIR_SEC(4), WEIR_SEC(6)},
                {WEIR_SEC(10), -WEIR_SEC(10), 0},
                {WEIR_SEC(10), -WEIR_SEC(11), 0},
                {WEIR_SEC(10), INT64_MIN, 0},
                {WEIR_SEC(10), WEIR_FOREVER, WEIR_FOREVER},
                {WEIR_SEC(10), WEIR_FOREVER - WEIR_SEC(9), WEIR_FOREVER},
                {-WEIR_SEC(3), WEIR_SEC(5), WEIR_SEC(2)},
                {INT64_MIN, INT64_MIN, 0}, /* the sum overflows, the other way */
                {INT64_MIN, -1, 0},
                {WEIR_FOREVER, -WEIR_SEC(5), WEIR_FOREVER},
                {WEIR_FOREVER, INT64_MIN, WEIR_FOREVER},
                {WEIR_FOREVER, 1, WEIR_FOREVER},
        };

        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir_test_record record = {0};

                weir_test_begin_virtual();
                weir_task *timer = weir_test_named("extended", cases[i].before, &record);
                CU_ASSERT_EQUAL(weir_timer_extend("extended", cases[i].by), 1);
                weir_test_pass(WEIR_SEC(2));
                weir_nsec began = weir_now();
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
                weir_test_pass(CENTURY);
                if (cases[i].ends == WEIR_FOREVER) {
                        CU_ASSERT_EQUAL(record.calls, 0);
                        CU_ASSERT_EQUAL(weir_timer_cancel("extended", WEIR_ALL), 1);
                } else {
                        WEIR_TEST_CALLED(&record, 0);
                        CU_ASSERT_EQUAL(record.at, began + cases[i].ends);
                }
                weir_test_end();
                CU_ASSERT_EQUAL(record.calls, 1);
        }
}

static void
extend_moves_each_of_a_name_from_where_it_stands(void)
{
        struct weir_test_record records[5] = {0}, unstarted = {0};
        weir_task *timer;

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("each", WEIR_SEC(10 + i), &records[i])), 0);
        }
        timer = weir_test_named("each", WEIR_SEC(10), &unstarted);
        CU_ASSERT_EQUAL(weir_timer_extend("each", WEIR_SEC(100)), 6);
        CU_ASSERT_EQUAL(weir_timer_extend("each", -WEIR_SEC(50)), 6);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        weir_test_pass(FAR);
        weir_test_end();
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, began + WEIR_SEC(60 + i));
        }
        CU_ASSERT_EQUAL(unstarted.at, began + WEIR_SEC(60));
}

/* -- ready: the actor runs first, the timers called "ready" are due at the same instant -- */

static void
reset_ready_again_and_again(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_test_info("ready").state, WEIR_TIMER_READY);
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_FOREVER), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(4)), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("ready", WEIR_SEC(1)), 1);
        CU_ASSERT_EQUAL(weir_timer_count("ready"), 1);
}

static void
ready_timer_ends_once_at_the_last_of_its_new_times(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_nsec ready_at = weir_test_make_ready(reset_ready_again_and_again, NULL, &record, 1);
        weir_test_pass(FAR);
        weir_test_end();
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, ready_at + WEIR_SEC(5));
}

static void
reset_ready_to(void *argument)
{
        CU_ASSERT_EQUAL(weir_timer_reset("ready", *(weir_nsec *)argument), 1);
}

static void
extend_ready_by(void *argument)
{
        CU_ASSERT_EQUAL(weir_timer_extend("ready", *(weir_nsec *)argument), 1);
}

static void
ready_timer_reset_to_zero_or_less_still_ends_once_and_at_once(void)
{
        static weir_nsec durations[] = {0, -1, -WEIR_SEC(1), INT64_MIN};

        for (unsigned i = 0; i < 8; i++) {
                struct weir_test_record record = {0};

                weir_test_begin_virtual();
                weir_nsec ready_at = weir_test_make_ready(i % 2 ? extend_ready_by : reset_ready_to, &durations[i / 2], &record,
                                                          1);
                weir_test_pass(FAR);
                weir_test_end();
                WEIR_TEST_CALLED(&record, 0);
                CU_ASSERT_EQUAL(record.at, ready_at);
        }
}

static void
ready_timer_extended_ends_that_much_after_the_deadline_it_had(void)
{
        struct weir_test_record record = {0}, forever = {0};
        static weir_nsec by = WEIR_SEC(7), endless = WEIR_FOREVER;

        weir_test_begin_virtual();
        weir_nsec ready_at = weir_test_make_ready(extend_ready_by, &by, &record, 1);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, ready_at + WEIR_SEC(7));
        weir_test_make_ready(extend_ready_by, &endless, &forever, 1);
        weir_test_pass(CENTURY);
        CU_ASSERT_EQUAL(forever.calls, 0);
        CU_ASSERT_EQUAL(weir_timer_reset("ready", 0), 1);
        weir_test_pass(1);
        weir_test_end();
        WEIR_TEST_CALLED(&forever, 0);
}

static void
reset_all_that_are_left(void *argument)
{
        CU_ASSERT_EQUAL(weir_timer_reset("ready", WEIR_SEC(3)), *(unsigned *)argument);
}

static void
hundreds_that_are_ready_and_hundreds_that_are_not_all_end_at_the_new_time(void)
{
        enum { COUNT = 600 };
        static struct weir_test_record records[2 * COUNT];
        unsigned all = 2 * COUNT;

        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        weir_nsec ready_at = weir_test_make_ready(reset_all_that_are_left, &all, records, COUNT);
        for (unsigned i = COUNT; i < all; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ready", FAR, &records[i])), 0);
        }
        weir_test_pass(2 * FAR);
        weir_test_end();
        for (unsigned i = 0; i < all; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, ready_at + WEIR_SEC(3));
        }
}

/* The actors are started before the timer, so each is called before it at the instant that they share. */
static void
reset_each_time_it_is_ready_it_ends_when_it_is_left_alone(void)
{
        struct weir_test_record record = {0};
        unsigned one = 1;

        weir_test_begin_virtual();
        for (unsigned i = 1; i <= 20; i++) {
                weir_test_act(WEIR_SEC(1 + 3 * i), reset_all_that_are_left, &one);
        }
        weir_nsec ready_at = weir_test_make_ready(reset_all_that_are_left, &one, &record, 1);
        weir_test_pass(WEIR_SEC(1 + 3 * 20));
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_test_pass(FAR);
        weir_test_end();
        WEIR_TEST_CALLED(&record, 0);
        CU_ASSERT_EQUAL(record.at, ready_at + WEIR_SEC(3 * 21));
}

/* One of the name runs, one is ready, one pending, one not started. */
static void
reset_own_name(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(weir_timer_count("own"), 4);
        CU_ASSERT_EQUAL(weir_timer_reset("own", WEIR_SEC(3)), 3);
        CU_ASSERT_EQUAL(weir_timer_count("own"), 4);
        weir_test_done(task, context);
}

static void
callback_that_resets_its_own_name_resets_all_but_itself(void)
{
        struct weir_test_record records[4] = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_task *own = weir_timer_new_named("own", WEIR_SEC(1), reset_own_name, &records[0]);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(own)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("own", WEIR_SEC(1), &records[1])), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("own", FAR, &records[2])), 0);
        weir_task *timer = weir_test_named("own", FAR, &records[3]);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        weir_test_pass(2 * FAR);
        weir_test_end();
        static const weir_nsec ends[] = {WEIR_SEC(1), WEIR_SEC(4), WEIR_SEC(4), WEIR_SEC(5)};
        for (unsigned i = 0; i < 4; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, began + ends[i]);
        }
}

/* -- on the real clock -- */

static void
reset_to_an_earlier_time_wakes_workers_that_sleep(void)
{
        enum { COUNT = 200 };
        static struct weir_test_record records[COUNT];

        weir_test_begin_real(2);
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < COUNT; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("sleeper", FAR, &records[i])), 0);
        }
        weir_test_sleep(WEIR_MSEC(2));
        weir_nsec earliest = weir_now() + WEIR_MSEC(1);
        CU_ASSERT_EQUAL(weir_timer_reset("sleeper", WEIR_MSEC(1)), COUNT);
        for (unsigned i = 0; i < COUNT; i++) {
                WEIR_TEST_EVENTUALLY(records[i].frees == 1);
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT(records[i].at >= earliest);
        }
        weir_test_end();
}

static void
reset_both_soon(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_reset("ready", 5), 2);
}

static void
one_that_is_ready_and_one_that_is_not_end_in_the_order_of_their_making(void)
{
        static struct weir_test_record records[2];
        _Atomic unsigned counter = 0;

        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < 2; i++)
                records[i].counter = &counter;
        weir_test_act(WEIR_SEC(1), reset_both_soon, NULL);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ready", WEIR_SEC(1), &records[0])), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ready", WEIR_SEC(2), &records[1])), 0);
        weir_test_pass(WEIR_SEC(3));
        for (unsigned i = 0; i < 2; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].order, i);
        }
        CU_ASSERT_EQUAL(records[0].at, records[1].at);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(pending_timer_ends_at_the_new_time_whatever_the_old_one_was),
                WEIR_TEST(reset_to_zero_or_less_ends_at_once_through_the_loop),
                WEIR_TEST(reset_to_forever_ends_it_never_until_it_is_reset_back),
                WEIR_TEST(reset_again_and_again_it_ends_once_after_the_last),
                WEIR_TEST(thousand_of_one_name_end_at_the_new_time_in_the_order_of_their_making),
                WEIR_TEST(reset_timers_end_among_equal_ones_in_the_order_of_their_last_reset),
                WEIR_TEST(reset_timer_keeps_its_place_among_those_of_its_name),
                WEIR_TEST(extend_moves_a_deadline_by_any_amount),
                WEIR_TEST(extend_before_the_start_changes_the_duration),
                WEIR_TEST(extend_moves_each_of_a_name_from_where_it_stands),
                WEIR_TEST(ready_timer_ends_once_at_the_last_of_its_new_times),
                WEIR_TEST(ready_timer_reset_to_zero_or_less_still_ends_once_and_at_once),
                WEIR_TEST(ready_timer_extended_ends_that_much_after_the_deadline_it_had),
                WEIR_TEST(hundreds_that_are_ready_and_hundreds_that_are_not_all_end_at_the_new_time),
                WEIR_TEST(one_that_is_ready_and_one_that_is_not_end_in_the_order_of_their_making),
                WEIR_TEST(reset_each_time_it_is_ready_it_ends_when_it_is_left_alone),
                WEIR_TEST(callback_that_resets_its_own_name_resets_all_but_itself),
                WEIR_TEST(reset_to_an_earlier_time_wakes_workers_that_sleep),
        };

        return weir_test_main("reset", tests, sizeof tests / sizeof *tests);
}
