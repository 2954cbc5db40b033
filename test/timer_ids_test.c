/* test/timer_ids_test.c: ids: one timer and no other, for as long as it can be cancelled, and nothing for ever after.
 *
 * The first test needs a process that never had a runtime.  Most run on the virtual clock, which has one worker; those
 * where it matters to which worker a timer belongs on the real one. */
#include "kernel/data/handles.h"
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

/* An unnamed one, with an id and not started. */
static weir_task *
timer_with_id(weir_nsec after, struct weir_test_record *record, weir_timer_id *id)
{
        weir_task *timer = weir_test_timer(after, record);

        *id = weir_timer_id_of(timer);
        CU_ASSERT_NOT_EQUAL(*id, 0);
        return timer;
}

static weir_timer_id
start_with_id(weir_nsec after, struct weir_test_record *record)
{
        weir_timer_id id;
        weir_task *timer = timer_with_id(after, record, &id);

        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        return id;
}

/* -- before the first start -- */

static void
id_is_given_out_before_anything_was_started(void)
{
        struct weir_test_record records[3] = {0};
        weir_timer_id ids[3];
        weir_task *timers[3];

        if (weir__pollers_count()) {
                return; /* run by itself, in another order */
        }
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT(weir_test_finds_nothing(i));
                timers[i] = timer_with_id(FAR, &records[i], &ids[i]);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[0]), 1);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[1], 0), 1);
        CU_ASSERT_EQUAL(weir_task_run(timers[0]), -ECANCELED);
        CU_ASSERT_EQUAL(weir_task_run(timers[1]), 0);
        CU_ASSERT_EQUAL(weir_task_start(timers[2]), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[2]), 1);
        weir_test_end();
        WEIR_TEST_CALLED(&records[2], -ECANCELED);
}

/* -- one timer -- */

static void
id_cancels_its_timer_and_no_other(void)
{
        struct weir_test_record records[5] = {0};
        weir_timer_id ids[5];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 5; i++) {
                ids[i] = start_with_id(FAR, &records[i]);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[2]), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[2]), 0);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[2], FAR), 0);
        weir_test_pass(WEIR_SEC(1));
        for (unsigned i = 0; i < 5; i++) {
                CU_ASSERT_EQUAL(records[i].calls, i == 2);
        }
        WEIR_TEST_CALLED(&records[2], -ECANCELED);
        weir_test_end();
        for (unsigned i = 0; i < 5; i++) {
                WEIR_TEST_CALLED(&records[i], (i == 2 ? -ECANCELED : -ESHUTDOWN));
                CU_ASSERT(weir_test_finds_nothing(ids[i]));
        }
}

static void
id_resets_its_timer_and_no_other(void)
{
        struct weir_test_record records[3] = {0};
        weir_timer_id ids[3];

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 3; i++) {
                ids[i] = start_with_id(WEIR_SEC(10), &records[i]);
        }
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[0], WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[2], WEIR_FOREVER), 1);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&records[0], 0);
        WEIR_TEST_CALLED(&records[1], 0);
        CU_ASSERT_EQUAL(records[0].at, began + WEIR_SEC(5));
        CU_ASSERT_EQUAL(records[1].at, began + WEIR_SEC(10));
        CU_ASSERT_EQUAL(records[2].calls, 0);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[2], -1), 1);
        WEIR_TEST_EVENTUALLY(records[2].frees == 1);
        weir_test_end();
        WEIR_TEST_CALLED(&records[2], 0);
}

static void
id_is_the_same_however_often_it_is_asked_for(void)
{
        struct weir_test_record record = {0};
        weir_timer_id id;

        weir_test_begin_virtual();
        weir_task *timer = timer_with_id(FAR, &record, &id);
        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(weir_timer_id_of(timer), id);
        }
        weir_task_dismiss(timer);
        CU_ASSERT(weir_test_finds_nothing(id));
        weir_test_end();
        WEIR_TEST_NOT_CALLED(&record);
}

static void
unstarted_timer_is_cancelled_and_reset_by_its_id(void)
{
        struct weir_test_record cancelled = {0}, reset = {0}, dismissed = {0};
        weir_timer_id ids[3];

        weir_test_begin_virtual();
        weir_task *timers[] = {timer_with_id(FAR, &cancelled, &ids[0]), timer_with_id(FAR, &reset, &ids[1]),
                               timer_with_id(FAR, &dismissed, &ids[2])};
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[0]), 1);
        CU_ASSERT(weir_test_finds_nothing(ids[0]));
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[1], WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[2]), 1);
        CU_ASSERT_EQUAL(cancelled.calls, 0);
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(timers[0]), -ECANCELED);
        CU_ASSERT_EQUAL(weir_task_run(timers[1]), 0);
        CU_ASSERT_EQUAL(reset.at, began + WEIR_SEC(3));
        weir_task_dismiss(timers[2]);
        weir_test_end();
        WEIR_TEST_CALLED(&cancelled, -ECANCELED);
        WEIR_TEST_NOT_CALLED(&dismissed);
}

/* -- timers without an id -- */

static void
none_is_given_to_what_is_no_timer(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_task *empty = weir_empty_new(NULL, NULL), *parallel = weir_parallel_new(NULL, NULL);
        weir_task *misnamed = weir_test_named("", 0, &record);
        CU_ASSERT_EQUAL(weir_timer_id_of(NULL), 0);
        CU_ASSERT_EQUAL(weir_timer_id_of(empty), 0);
        CU_ASSERT_EQUAL(weir_timer_id_of(parallel), 0);
        weir_test_finds_nothing(weir_timer_id_of(misnamed)); /* whether it has one or not, it is accepted */
        CU_ASSERT_EQUAL(weir_task_start(misnamed), -EINVAL);
        WEIR_TEST_NOT_CALLED(&record);
        weir_task_dismiss(empty);
        weir_task_dismiss(parallel);
        CU_ASSERT(weir_test_finds_nothing(0));
        weir_test_end();
}

/* Nothing could be done with it any more. */
static void
cancelled_before_its_start_it_is_given_no_id(void)
{
        struct weir_test_record records[2] = {0}, misnamed = {0}, other = {0};
        weir_timer_id id;

        weir_test_begin_virtual();
        weir_task *timers[] = {weir_test_named("cancelled", FAR, &records[0]), weir_test_named("cancelled", FAR, &records[1])};
        CU_ASSERT_EQUAL(weir_timer_cancel("cancelled", WEIR_ALL), 2);
        CU_ASSERT_EQUAL(weir_timer_id_of(timers[0]), 0);
        CU_ASSERT_EQUAL(weir_timer_id_of(timers[1]), 0);
        weir_task *wrong = weir_test_named("", FAR, &misnamed);
        CU_ASSERT_EQUAL(weir_timer_id_of(wrong), 0);
        weir_task *alive = timer_with_id(FAR, &other, &id);
        CU_ASSERT_EQUAL(weir_task_run(timers[0]), -ECANCELED);
        weir_task_dismiss(timers[1]);
        CU_ASSERT_EQUAL(weir_task_start(wrong), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_id_of(alive), id);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(id), 1);
        CU_ASSERT_EQUAL(weir_task_run(alive), -ECANCELED);
        weir_test_end();
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        WEIR_TEST_NOT_CALLED(&records[1]);
        WEIR_TEST_NOT_CALLED(&misnamed);
}

static struct {
        weir_timer_id ids[256]; /* 64 of each poller */
        size_t wrong;
} alive;

#define ALIVE (sizeof alive.ids / sizeof *alive.ids)

static void
try_number(uint64_t number)
{
        for (unsigned i = 0; i < ALIVE; i++) {
                if (alive.ids[i] == number) {
                        return;
                }
        }
        alive.wrong += !weir_test_finds_nothing(number);
}

/* Live ids with one or two bits changed, others made of their parts, small and large numbers, and any. */
static void
numbers_that_are_no_ids_find_nothing(void)
{
        struct weir_test_random random = {weir_test_seed()};
        size_t live = 0;

        weir_test_begin_real(4);
        alive.wrong = 0;
        for (unsigned i = 0; i < ALIVE; i++) {
                weir_task *timer = weir_timer_new(FAR, NULL, NULL);

                alive.ids[i] = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
        for (unsigned i = 0; i < ALIVE; i += 15) {
                for (unsigned bits = 0; bits < 64 * 64; bits++) {
                        try_number(alive.ids[i] ^ (UINT64_C(1) << bits / 64 | UINT64_C(1) << bits % 64));
                }
        }
        for (uint64_t number = 0; number < (WEIR_TEST_SANITIZED ? 3000 : 30000); number++) {
                uint64_t any = weir_test_random(&random), mask = weir_test_random(&random);

                try_number(number);
                try_number(~number);
                try_number(number << 28);
                try_number(number << 38);
                try_number(any);
                try_number((alive.ids[any % ALIVE] & mask) | (alive.ids[mask % ALIVE] & ~mask));
        }
        CU_ASSERT_EQUAL(alive.wrong, 0);
        for (unsigned i = 0; i < ALIVE; i++) {
                live += weir_timer_cancel_id(alive.ids[i]);
        }
        CU_ASSERT_EQUAL(live, ALIVE);
        weir_test_end();
}

/* -- the end, and after -- */

/* The memory of a timer, and its place in the table of ids, are used again by the next ones: they are all asked for theirs. */
static void
id_is_nothing_for_ever_after_the_end(void)
{
        const unsigned count = WEIR_TEST_SANITIZED ? 50000 : 500000;
        struct weir_test_record records[4] = {0};
        weir_timer_id ids[4], other;
        size_t wrong = 0;

        weir_test_begin_virtual();
        ids[0] = start_with_id(0, &records[0]);
        ids[1] = start_with_id(FAR, &records[1]);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[1]), 1);
        weir_task *named = weir_test_named("named", WEIR_SEC(1), &records[2]);
        ids[2] = weir_timer_id_of(named);
        weir_task_start(named);
        weir_task_dismiss(timer_with_id(0, &records[3], &ids[3]));
        weir_test_pass(WEIR_SEC(2));
        for (unsigned i = 0; i < count; i++) {
                struct weir_test_record record = {0};
                weir_task *timer = timer_with_id(FAR, &record, &other);

                if (i % 64) {
                        weir_task_dismiss(timer);
                } else {
                        weir_task_start(timer);
                }
                wrong += !weir_test_finds_nothing(ids[i % 4]) || other == ids[i % 4];
                if (i % 64 == 0) {
                        wrong += weir_timer_cancel_id(other) != 1;
                        weir_test_wait_freed(&record);
                }
        }
        for (unsigned i = 0; i < 4; i++) {
                wrong += !weir_test_finds_nothing(ids[i]);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        weir_test_end();
}

static int
compare_ids(const void *one, const void *other)
{
        weir_timer_id a = *(const weir_timer_id *)one, b = *(const weir_timer_id *)other;

        return (a > b) - (a < b);
}

/* Up to a thousand live at a time, and end in one of several ways. */
static void
no_id_of_a_million_is_given_out_twice(void)
{
        enum { LIVE = 1000, COUNT = WEIR_TEST_SANITIZED ? 100000 : 1000000 };
        weir_timer_id *ids = malloc(COUNT * sizeof *ids);
        static weir_task *live[LIVE];
        size_t same = 0;

        CU_ASSERT_PTR_NOT_NULL_FATAL(ids);
        weir_test_begin_real(2);
        memset(live, 0, sizeof live);
        for (unsigned i = 0; i < COUNT; i++) {
                weir_task **place = &live[i * UINT64_C(7919) % LIVE];

                if (*place && i % 10 == 0) {
                        weir_task_start(*place); /* ends at once */
                } else {
                        weir_task_dismiss(*place);
                }
                *place = weir_timer_new(0, NULL, NULL);
                ids[i] = weir_timer_id_of(*place);
        }
        for (unsigned i = 0; i < LIVE; i++) {
                weir_task_dismiss(live[i]);
        }
        weir_test_end();
        qsort(ids, COUNT, sizeof *ids, compare_ids);
        for (unsigned i = 1; i < COUNT; i++) {
                same += ids[i] == ids[i - 1];
        }
        CU_ASSERT_EQUAL(same, 0);
        CU_ASSERT_NOT_EQUAL(ids[0], 0);
        free(ids);
}

/* The table itself: after so many timers that no test can wait for them. */
static void
place_whose_generations_are_used_up_is_never_used_again(void)
{
        static struct weir__handles handles;
        int objects[3];
        uint32_t first = weir__handles_take(&handles, &objects[0]);
        uint64_t early = weir__handles_id(&handles, 7, first);

        handles.segments[0][first - 1].generation = (UINT32_C(1) << WEIR__HANDLES_GENERATION_BITS) - 1;
        uint64_t last = weir__handles_id(&handles, 7, first);
        CU_ASSERT_PTR_EQUAL(weir__handles_find(&handles, last), &objects[0]);
        CU_ASSERT_PTR_NULL(weir__handles_find(&handles, early));
        weir__handles_give(&handles, first);
        CU_ASSERT_PTR_NULL(weir__handles_find(&handles, last));
        uint32_t second = weir__handles_take(&handles, &objects[1]), third = weir__handles_take(&handles, &objects[2]);
        CU_ASSERT(second != first && third != first && second != third && second && third);
        CU_ASSERT_PTR_NULL(weir__handles_find(&handles, early));
        CU_ASSERT_PTR_NULL(weir__handles_find(&handles, last));
        CU_ASSERT_PTR_NULL(weir__handles_find(&handles, last + (UINT64_C(1) << 38)));
        weir__handles_give(&handles, second);
        CU_ASSERT_EQUAL(weir__handles_take(&handles, &objects[1]), second);
        free(handles.segments[0]);
}

/* -- in the callback -- */

struct teller {
        struct weir_test_record record; /* first */
        weir_timer_id id, seen;
        size_t found;
};

static void
tell_id(weir_task *task, void *context)
{
        struct teller *teller = context;

        teller->seen = weir_timer_id_of(task);
        teller->found = weir_timer_cancel_id(teller->id) + weir_timer_reset_id(teller->id, 0);
        weir_test_done(task, context);
}

static weir_task *
teller_new(const char *name, weir_nsec after, struct teller *teller, bool asks)
{
        weir_task *timer = name ? weir_timer_new_named(name, after, tell_id, teller) : weir_timer_new(after, tell_id, teller);

        *teller = (struct teller){.seen = 1};
        teller->id = asks ? weir_timer_id_of(timer) : 0;
        return weir_test_recorded(timer);
}

static void
callback_is_told_the_id_which_finds_nothing_any_more(void)
{
        struct teller expired, named, cancelled, cancelled_before;

        weir_test_begin_virtual();
        weir_task *before = teller_new(NULL, FAR, &cancelled_before, true);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(cancelled_before.id), 1);
        CU_ASSERT_EQUAL(weir_task_start(before), 0);
        CU_ASSERT_EQUAL(weir_task_start(teller_new(NULL, WEIR_SEC(1), &expired, true)), 0);
        CU_ASSERT_EQUAL(weir_task_start(teller_new("named", WEIR_SEC(1), &named, true)), 0);
        CU_ASSERT_EQUAL(weir_task_start(teller_new(NULL, FAR, &cancelled, true)), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(cancelled.id), 1);
        weir_test_pass(FAR);
        weir_test_end();
        struct teller *all[] = {&expired, &named, &cancelled, &cancelled_before};
        for (unsigned i = 0; i < 4; i++) {
                WEIR_TEST_CALLED(&all[i]->record, (i < 2 ? 0 : -ECANCELED));
                CU_ASSERT(all[i]->seen == all[i]->id || (all[i]->seen == 0 && i >= 2)); /* a cancel may have ended it */
                CU_ASSERT_EQUAL(all[i]->found, 0);
        }
}

static void
callback_is_told_none_when_nobody_asked_before_the_start(void)
{
        struct teller teller, named;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(teller_new(NULL, 0, &teller, false)), 0);
        CU_ASSERT_EQUAL(weir_task_run(teller_new("named", 0, &named, false)), 0);
        weir_test_end();
        CU_ASSERT_EQUAL(teller.seen, 0);
        CU_ASSERT_EQUAL(named.seen, 0);
}

static struct {
        weir_timer_id ids[3];
} ready;

static void
meddle_with_ready(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ready.ids[0]), 1);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ready.ids[1], WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ready.ids[2], WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ready.ids[2]), 1);
        CU_ASSERT(weir_test_finds_nothing(ready.ids[0]));
        CU_ASSERT(weir_test_finds_nothing(ready.ids[2]));
}

/* They are due when the callback of another one runs. */
static void
ready_timers_are_cancelled_and_reset_by_their_ids(void)
{
        struct weir_test_record records[3] = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_test_act(WEIR_SEC(1), meddle_with_ready, NULL);
        for (unsigned i = 0; i < 3; i++) {
                ready.ids[i] = start_with_id(WEIR_SEC(1), &records[i]);
        }
        weir_test_pass(FAR);
        weir_test_end();
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        WEIR_TEST_CALLED(&records[1], 0);
        WEIR_TEST_CALLED(&records[2], -ECANCELED);
        CU_ASSERT_EQUAL(records[0].at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(records[1].at, began + WEIR_SEC(4));
        CU_ASSERT_EQUAL(records[2].at, began + WEIR_SEC(1));
}

/* -- ids and names -- */

static void
named_timer_cancelled_by_id_loses_its_name_and_by_name_its_id(void)
{
        struct weir_test_record records[4] = {0};
        weir_timer_id ids[4];
        weir_task *timers[4];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 4; i++) { /* 0 and 2 are started, 1 and 3 not */
                timers[i] = weir_test_named("both", FAR, &records[i]);
                ids[i] = weir_timer_id_of(timers[i]);
                if (i % 2 == 0) {
                        CU_ASSERT_EQUAL(weir_task_start(timers[i]), 0);
                }
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[0]), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[1]), 1);
        CU_ASSERT_EQUAL(weir_timer_count("both"), 2);
        CU_ASSERT_EQUAL(weir_timer_reset("both", 2 * FAR), 2);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[2], FAR), 1);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[3], FAR), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("both", WEIR_ALL), 2);
        CU_ASSERT_EQUAL(weir_timer_count("both") + weir_timer_reset("both", 0), 0);
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT(weir_test_finds_nothing(ids[i]));
        }
        CU_ASSERT_EQUAL(weir_task_run(timers[1]), -ECANCELED);
        weir_task_dismiss(timers[3]);
        weir_test_end();
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
        WEIR_TEST_NOT_CALLED(&records[3]);
}

/* The middle one, the oldest and the newest go by id; the order of the others stays. */
static void
cancel_by_id_leaves_the_others_of_the_name_in_order(void)
{
        enum { COUNT = 7 };
        struct weir_test_record records[COUNT] = {0};
        weir_timer_id ids[COUNT];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < COUNT; i++) {
                weir_task *timer = weir_test_named("order", FAR, &records[i]);

                ids[i] = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[3]) + weir_timer_cancel_id(ids[0]) + weir_timer_cancel_id(ids[6]), 3);
        CU_ASSERT_EQUAL(weir_timer_count("order"), 4);
        static const unsigned left[] = {1, 2, 4, 5};
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(records[left[i]].calls, 0);
                CU_ASSERT_EQUAL(weir_timer_cancel("order", 1), 1);
                WEIR_TEST_EVENTUALLY(records[left[i]].frees == 1);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("order", 1), 0);
        weir_test_end();
}

/* -- series -- */

static void
timer_in_a_series_is_cancelled_and_reset_by_its_id(void)
{
        struct weir_test_record records[3] = {0}, end = {0};
        weir_timer_id ids[3];

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        for (unsigned i = 0; i < 3; i++) {
                weir_series_push(series, timer_with_id(WEIR_SEC(10), &records[i], &ids[i]));
        }
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[1]), 1);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[0], WEIR_SEC(1)), 1);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[2], WEIR_SEC(2)), 1);
        weir_test_pass(FAR);
        weir_test_end();
        WEIR_TEST_CALLED(&records[0], 0);
        WEIR_TEST_CALLED(&records[1], -ECANCELED);
        WEIR_TEST_CALLED(&records[2], 0);
        CU_ASSERT_EQUAL(records[1].at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(records[2].at, began + WEIR_SEC(3));
        CU_ASSERT_EQUAL(end.status, 0);
}

static void
timer_that_its_series_has_ended_cannot_be_reset_by_its_id(void)
{
        struct weir_test_record records[2] = {0}, end = {0};
        weir_timer_id ids[2];

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        for (unsigned i = 0; i < 2; i++) {
                weir_series_push(series, timer_with_id(FAR, &records[i], &ids[i]));
        }
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_timer_reset_id(ids[0], FAR), 0);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        WEIR_TEST_NOT_CALLED(&records[1]);
        CU_ASSERT(weir_test_finds_nothing(ids[0]) && weir_test_finds_nothing(ids[1]));
        weir_series_unref(series);
        weir_test_end();
}

/* -- more than one runtime -- */

/* After a shutdown a timer that was never started still has its id.  When it is started where there are fewer workers, one that
 * belonged to a worker that is not there any more goes to another one, and loses its id. */
static void
unstarted_timers_outlive_a_shutdown_with_their_ids(void)
{
        enum { COUNT = 64 * 16 }; /* 64 at a time on each of the pollers */
        static struct weir_test_record records[COUNT];
        static weir_timer_id ids[COUNT];
        static weir_task *timers[COUNT];
        size_t found = 0, found_by_name = 0;

        memset(records, 0, sizeof records);
        weir_test_begin_real(4);
        for (unsigned i = 0; i < COUNT; i++) {
                timers[i] = weir_test_named(i % 2 ? "outlives" : "outlives too", FAR, &records[i]);
                ids[i] = weir_timer_id_of(timers[i]);
        }
        weir_test_end();
        for (unsigned i = 0; i < COUNT; i++) {
                CU_ASSERT_EQUAL(weir_timer_id_of(timers[i]), ids[i]);
                CU_ASSERT_EQUAL(weir_timer_reset_id(ids[i], 2 * FAR), 1);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[0]), 1);
        CU_ASSERT_EQUAL(weir_task_start(timers[0]), -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&records[0]);
        weir_test_begin_real(1);
        for (unsigned i = 1; i < COUNT; i++) {
                CU_ASSERT_EQUAL(weir_task_start(timers[i]), 0);
                found += weir_timer_cancel_id(ids[i]);
        }
        found_by_name = weir_timer_cancel("outlives", WEIR_ALL) + weir_timer_cancel("outlives too", WEIR_ALL);
        CU_ASSERT(found >= COUNT / 4 - 64); /* all of the first worker's */
        CU_ASSERT_EQUAL(found + found_by_name, COUNT - 1);
        weir_test_end();
        for (unsigned i = 1; i < COUNT; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
                CU_ASSERT(weir_test_finds_nothing(ids[i]));
        }
}

/* -- extend, due, and a cancel that waits -- */

static void
id_extends_its_timer_and_knows_when_it_is_due(void)
{
        struct weir_test_record records[2] = {0};
        weir_timer_id ids[2];

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_task *unstarted = timer_with_id(WEIR_SEC(10), &records[0], &ids[0]);
        CU_ASSERT_EQUAL(weir_timer_due_id(ids[0]), -EAGAIN);
        CU_ASSERT_EQUAL(weir_timer_extend_id(ids[0], WEIR_SEC(5)), 1);
        CU_ASSERT_EQUAL(weir_task_start(unstarted), 0);
        ids[1] = start_with_id(WEIR_FOREVER, &records[1]);
        CU_ASSERT_EQUAL(weir_timer_due_id(ids[0]), began + WEIR_SEC(15));
        CU_ASSERT_EQUAL(weir_timer_due_id(ids[1]), WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_timer_extend_id(ids[0], -WEIR_SEC(2)), 1);
        CU_ASSERT_EQUAL(weir_timer_due_id(ids[0]), began + WEIR_SEC(13));
        weir_test_pass(WEIR_SEC(20));
        CU_ASSERT_EQUAL(records[0].at, began + WEIR_SEC(13));
        CU_ASSERT_EQUAL(weir_timer_due_id(ids[0]), -ENOENT);
        CU_ASSERT_EQUAL(weir_timer_extend_id(ids[0], 1), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(ids[1]), 1);
        CU_ASSERT_EQUAL(weir_timer_due_id(ids[1]), -ENOENT);
        CU_ASSERT_EQUAL(weir_timer_due_id(0), -ENOENT);
        CU_ASSERT_EQUAL(weir_timer_due_id(UINT64_MAX), -ENOENT);
        CU_ASSERT_EQUAL(weir_timer_extend_id(0, 1), 0);
        weir_test_end();
}

static weir_timer_id asked;
static weir_nsec answers[2];

static void
ask_when_it_is_due(void *unused)
{
        (void)unused;
        answers[0] = weir_timer_due_id(asked);
        CU_ASSERT_EQUAL(weir_timer_extend_id(asked, WEIR_SEC(1)), 1);
        answers[1] = weir_timer_due_id(asked);
}

static void
id_of_a_ready_timer_knows_its_deadline_and_the_next(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_test_act(WEIR_SEC(1), ask_when_it_is_due, NULL);
        asked = start_with_id(WEIR_SEC(1), &record);
        weir_test_pass(WEIR_SEC(5));
        CU_ASSERT_EQUAL(answers[0], began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(answers[1], began + WEIR_SEC(2));
        CU_ASSERT_EQUAL(record.at, began + WEIR_SEC(2));
        weir_test_end();
}

/* A thread that waits for the end of a timer. */
struct id_waiter {
        struct weir_test_thread thread;
        weir_timer_id id;
        const struct weir_test_record *record;
        int result, freed;
        _Atomic bool has_returned;
};

static void
cancel_and_wait(void *argument)
{
        struct id_waiter *waiter = argument;

        waiter->result = weir_timer_cancel_wait_id(waiter->id);
        waiter->freed = waiter->record->frees;
        waiter->has_returned = true;
}

static void
id_waiter_start(struct id_waiter *waiter, weir_timer_id id, const struct weir_test_record *record)
{
        *waiter = (struct id_waiter){.id = id, .record = record};
        weir_test_thread_start(&waiter->thread, cancel_and_wait, waiter);
}

static int
id_waiter_join(struct id_waiter *waiter)
{
        weir_test_thread_join(&waiter->thread);
        CU_ASSERT_EQUAL(waiter->freed, 1);
        return waiter->result;
}

/* The only worker is held at a gate, so the callback of a cancelled timer cannot have run. */
static void
wait_by_id_returns_when_the_callback_has_whoever_has_cancelled(void)
{
        struct weir_test_record records[2] = {0};
        struct weir_test_gate gate;
        struct id_waiter waiters[3];

        weir_test_begin_real(1);
        weir_test_gate_hold(&gate, NULL);
        weir_timer_id own = start_with_id(FAR, &records[0]), other = start_with_id(FAR, &records[1]);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(other), 1);
        id_waiter_start(&waiters[0], own, &records[0]);
        id_waiter_start(&waiters[1], other, &records[1]);
        id_waiter_start(&waiters[2], other, &records[1]);
        weir_test_sleep(WEIR_MSEC(3));
        CU_ASSERT(!waiters[0].has_returned && !waiters[1].has_returned && !waiters[2].has_returned);
        weir_test_gate_open(&gate);
        CU_ASSERT_EQUAL(id_waiter_join(&waiters[0]), 1);
        CU_ASSERT_EQUAL(id_waiter_join(&waiters[1]), 0);
        CU_ASSERT_EQUAL(id_waiter_join(&waiters[2]), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
}

/* Both have been cancelled before, and the callback of the first has begun: by then both have been taken out of the queue. */
static void
wait_by_id_finds_timers_that_their_worker_has_taken_out(void)
{
        struct weir_test_gate gate, cancelled;
        struct weir_test_record record = {0};
        struct id_waiter waiters[2];

        weir_test_begin_real(1);
        weir_test_gate_hold(&gate, NULL);
        weir_test_gate_init(&cancelled);
        weir_task *timer = weir_test_recorded(weir_timer_new(FAR, weir_test_stop_at_gate, &cancelled));
        weir_timer_id first = weir_timer_id_of(timer);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        weir_timer_id second = start_with_id(FAR, &record);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(first) + weir_timer_cancel_id(second), 2);
        weir_test_gate_open(&gate);
        weir_test_latch_wait(&cancelled.begun);
        id_waiter_start(&waiters[0], first, &cancelled.record);
        id_waiter_start(&waiters[1], second, &record);
        weir_test_sleep(WEIR_MSEC(3));
        CU_ASSERT(!waiters[0].has_returned && !waiters[1].has_returned);
        weir_test_gate_open(&cancelled);
        CU_ASSERT_EQUAL(id_waiter_join(&waiters[0]) + id_waiter_join(&waiters[1]), 0);
        weir_test_end();
}

static void
wait_on_a_worker_for_id(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(asked), -EDEADLK);
}

static void
wait_by_id_is_refused_on_workers_and_has_nothing_to_wait_for_before_the_start(void)
{
        struct weir_test_record record = {0}, unstarted = {0};
        weir_timer_id id;

        weir_test_begin_virtual();
        asked = start_with_id(FAR, &record);
        weir_test_act(0, wait_on_a_worker_for_id, NULL);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(record.calls, 0);
        weir_task *timer = timer_with_id(FAR, &unstarted, &id);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(id), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(id), 0);
        CU_ASSERT_EQUAL(unstarted.calls, 0);
        CU_ASSERT_EQUAL(weir_task_run(timer), -ECANCELED);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(id), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(0), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait_id(asked), 1);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        weir_test_end();
}

/* Each context is freed by its waiter, so a sanitizer sees a wait that ends too early. */
static void
start_and_wait_for_many(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < (WEIR_TEST_SANITIZED ? 500 : 5000); i++) {
                struct weir_test_record *record = calloc(1, sizeof *record);
                weir_timer_id id = start_with_id(WEIR_USEC(i % 20), record);

                if (i % 3 == 0) {
                        weir_timer_cancel_id(id);
                }
                int result = weir_timer_cancel_wait_id(id);
                CU_ASSERT(result == 0 || result == 1);
                CU_ASSERT_EQUAL(record->frees, 1);
                free(record);
        }
}

static void
waits_by_id_race_with_expiry(void)
{
        struct weir_test_thread threads[2];

        weir_test_begin_real(2);
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_start(&threads[i], start_and_wait_for_many, NULL);
        }
        for (unsigned i = 0; i < 2; i++) {
                weir_test_thread_join(&threads[i]);
        }
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(id_is_given_out_before_anything_was_started),
                WEIR_TEST(id_cancels_its_timer_and_no_other),
                WEIR_TEST(id_resets_its_timer_and_no_other),
                WEIR_TEST(id_is_the_same_however_often_it_is_asked_for),
                WEIR_TEST(unstarted_timer_is_cancelled_and_reset_by_its_id),
                WEIR_TEST(none_is_given_to_what_is_no_timer),
                WEIR_TEST(cancelled_before_its_start_it_is_given_no_id),
                WEIR_TEST(numbers_that_are_no_ids_find_nothing),
                WEIR_TEST(id_is_nothing_for_ever_after_the_end),
                WEIR_TEST(no_id_of_a_million_is_given_out_twice),
                WEIR_TEST(place_whose_generations_are_used_up_is_never_used_again),
                WEIR_TEST(callback_is_told_the_id_which_finds_nothing_any_more),
                WEIR_TEST(callback_is_told_none_when_nobody_asked_before_the_start),
                WEIR_TEST(ready_timers_are_cancelled_and_reset_by_their_ids),
                WEIR_TEST(named_timer_cancelled_by_id_loses_its_name_and_by_name_its_id),
                WEIR_TEST(cancel_by_id_leaves_the_others_of_the_name_in_order),
                WEIR_TEST(timer_in_a_series_is_cancelled_and_reset_by_its_id),
                WEIR_TEST(timer_that_its_series_has_ended_cannot_be_reset_by_its_id),
                WEIR_TEST(unstarted_timers_outlive_a_shutdown_with_their_ids),
                WEIR_TEST(id_extends_its_timer_and_knows_when_it_is_due),
                WEIR_TEST(id_of_a_ready_timer_knows_its_deadline_and_the_next),
                WEIR_TEST(wait_by_id_returns_when_the_callback_has_whoever_has_cancelled),
                WEIR_TEST(wait_by_id_finds_timers_that_their_worker_has_taken_out),
                WEIR_TEST(wait_by_id_is_refused_on_workers_and_has_nothing_to_wait_for_before_the_start),
                WEIR_TEST(waits_by_id_race_with_expiry),
        };

        return weir_test_main("timer ids", tests, sizeof tests / sizeof *tests);
}
