/* test/contract_test.c: the table of docs/contract.md, a test a row.
 *
 * Where time is needed it is that of the virtual clock, which has one worker: all events on it have one order. */
#include "test/fixture.h"

#include <errno.h>

#define FAR WEIR_SEC(1000)

/* -- rows 1 to 3: the life of a timer -- */

static void
row_01_started_timer_ends_with_0_once_and_never_early(void)
{
        static const weir_nsec durations[] = {1, 999, 1000000, 1048576, 1234567890, WEIR_SEC(3600), WEIR_SEC(86400) * 400};
        struct weir_test_record records[7] = {0};
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        for (unsigned i = 0; i < 7; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(durations[i], &records[i])), 0);
        }
        weir_test_pass(WEIR_SEC(86400) * 500);
        for (unsigned i = 0; i < 7; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at, began + durations[i]);
        }
        weir_test_end();
        for (unsigned i = 0; i < 7; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
        }
}

static void
row_01_is_never_early_on_the_real_clock_either(void)
{
        struct weir_test_random random = {weir_test_seed()};
        struct weir_test_record records[200] = {0};
        weir_nsec earliest[200];

        weir_test_begin_real(2);
        for (unsigned i = 0; i < 200; i++) {
                weir_nsec after = (weir_nsec)weir_test_random_below(&random, 20000000);

                earliest[i] = weir_now() + after;
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(after, &records[i])), 0);
        }
        for (unsigned i = 0; i < 200; i++) {
                WEIR_TEST_EVENTUALLY(records[i].frees == 1);
        }
        weir_test_end();
        for (unsigned i = 0; i < 200; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT(records[i].at >= earliest[i]);
        }
}

static void
row_02_cancelled_before_its_start_it_reports_ecanceled_as_soon_as_started(void)
{
        struct weir_test_record record = {0};
        weir_task *timer;
        weir_nsec began;

        weir_test_begin_virtual();
        timer = weir_test_named("row 2", FAR, &record);
        CU_ASSERT_EQUAL(weir_timer_count("row 2"), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 2", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 2", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 2"), 0);
        CU_ASSERT_EQUAL(record.calls, 0);
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(timer), -ECANCELED);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(record.at, began);
        CU_ASSERT(!pthread_equal(record.on, pthread_self()));
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
}

static void
row_03_pending_cancel_reports_ecanceled_once(void)
{
        struct weir_test_record record = {0};
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 3", FAR, &record)), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 3", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 3", WEIR_ALL), 0);
        WEIR_TEST_EVENTUALLY(record.frees == 1);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(record.at, began);
        weir_test_pass(2 * FAR);
        weir_test_end();
        WEIR_TEST_CALLED(&record, -ECANCELED);
}

/* -- rows 4 to 8: a cancel that comes late, or twice, or for some -- */

struct canceller {
        struct weir_test_record record; /* first */
        const char *name;
        size_t max, counted, counted_again, count;
};

static void
cancel_in_callback(weir_task *task, void *context)
{
        struct canceller *canceller = context;

        canceller->counted = weir_timer_cancel(canceller->name, canceller->max);
        canceller->counted_again = weir_timer_cancel(canceller->name, canceller->max);
        canceller->count = weir_timer_count(canceller->name);
        weir_test_done(task, context);
}

/* Both are due at the same instant, so the second is ready while the callback of the first runs. */
static void
row_04_expired_and_ready_cancel_is_decisive_until_the_callback_begins(void)
{
        struct canceller first = {.name = "row 4", .max = WEIR_ALL};
        struct weir_test_record second = {0};
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_SEC(1), cancel_in_callback, &first))), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 4", WEIR_SEC(1), &second)), 0);
        weir_test_pass(WEIR_SEC(2));
        WEIR_TEST_CALLED(&first.record, 0);
        WEIR_TEST_CALLED(&second, -ECANCELED);
        CU_ASSERT_EQUAL(second.at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(first.counted, 1);
        CU_ASSERT_EQUAL(first.counted_again, 0);
        CU_ASSERT_EQUAL(first.count, 0);
        weir_test_end();
        WEIR_TEST_CALLED(&second, -ECANCELED);
}

struct gate {
        struct weir_test_record record; /* first */
        struct weir_test_latch begun, released;
};

static void
stop_at_gate(weir_task *task, void *context)
{
        struct gate *gate = context;

        weir_test_latch_count_down(&gate->begun);
        weir_test_latch_wait(&gate->released);
        weir_test_done(task, context);
}

static void
gate_init(struct gate *gate)
{
        *gate = (struct gate){0};
        weir_test_latch_init(&gate->begun, 1);
        weir_test_latch_init(&gate->released, 1);
}

static void
row_05_callback_begun_cancel_does_not_count_and_it_sees_0(void)
{
        struct gate gate;

        gate_init(&gate);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new_named("row 5", 0, stop_at_gate, &gate))), 0);
        weir_test_latch_wait(&gate.begun);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 5", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 5"), 1);
        weir_test_latch_count_down(&gate.released);
        weir_test_end();
        WEIR_TEST_CALLED(&gate.record, 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 5"), 0);
}

static void
row_06_cancel_of_its_own_name_inside_the_callback_has_no_effect_on_itself(void)
{
        struct canceller own = {.name = "row 6", .max = WEIR_ALL};
        struct weir_test_record other = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new_named("row 6", 0, cancel_in_callback, &own))), 0);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&own.record, 0);
        CU_ASSERT_EQUAL(own.counted, 0);
        CU_ASSERT_EQUAL(own.count, 1);

        /* Another of the name is cancelled all the same, though the one that runs is older. */
        own = (struct canceller){.name = "row 6", .max = 1};
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new_named("row 6", WEIR_SEC(1), cancel_in_callback, &own))),
                        0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 6", FAR, &other)), 0);
        weir_test_pass(WEIR_SEC(2));
        weir_test_end();
        WEIR_TEST_CALLED(&own.record, 0);
        WEIR_TEST_CALLED(&other, -ECANCELED);
        CU_ASSERT_EQUAL(own.counted, 1);
        CU_ASSERT_EQUAL(own.count, 1);
}

#define PAIRS (WEIR_TEST_SANITIZED ? 500 : 3000)

static struct {
        pthread_barrier_t barrier;
        size_t counted[2];
} pair;

static void *
cancel_at_once(void *argument)
{
        size_t *counted = argument;

        for (unsigned i = 0; i < PAIRS; i++) {
                pthread_barrier_wait(&pair.barrier);
                *counted = weir_timer_cancel("row 7", WEIR_ALL);
                pthread_barrier_wait(&pair.barrier);
        }
        return NULL;
}

static void
row_07_two_cancels_at_once_make_one_ecanceled_and_count_once_in_total(void)
{
        pthread_t threads[2];

        weir_test_begin_real(2);
        pthread_barrier_init(&pair.barrier, NULL, 3);
        for (unsigned i = 0; i < 2; i++) {
                pthread_create(&threads[i], NULL, cancel_at_once, &pair.counted[i]);
        }
        for (unsigned i = 0; i < PAIRS; i++) {
                struct weir_test_record record = {0};
                weir_task *timer = weir_test_named("row 7", FAR, &record);

                if (i % 2) {
                        weir_task_start(timer);
                        timer = NULL;
                }
                pthread_barrier_wait(&pair.barrier);
                pthread_barrier_wait(&pair.barrier);
                if (timer) {
                        weir_task_start(timer);
                }
                weir_test_wait_freed(&record);
                WEIR_TEST_CALLED(&record, -ECANCELED);
                CU_ASSERT_EQUAL(pair.counted[0] + pair.counted[1], 1);
        }
        for (unsigned i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
        }
        pthread_barrier_destroy(&pair.barrier);
        weir_test_end();
}

static void
row_08_max_takes_the_oldest_created_first(void)
{
        struct weir_test_record records[10] = {0};
        weir_task *timers[10];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 10; i++) {
                timers[i] = weir_test_named("row 8", FAR - (weir_nsec)i, &records[i]);
        }
        for (unsigned i = 10; i-- > 0;) {
                CU_ASSERT_EQUAL(weir_task_start(timers[i]), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("row 8", 0), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 8", 3), 3);
        CU_ASSERT_EQUAL(weir_timer_count("row 8"), 7);
        weir_test_pass(WEIR_SEC(1));
        for (unsigned i = 0; i < 10; i++) {
                CU_ASSERT_EQUAL(records[i].calls, i < 3);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("row 8", 1), 1);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(records[3].calls, 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 8", WEIR_ALL), 6);
        weir_test_end();
        for (unsigned i = 0; i < 10; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
}

/* -- rows 9 to 12: timers that never start, and series -- */

static void
row_09_never_started_and_dismissed_it_has_no_callback_and_one_on_free(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        weir_task_dismiss(weir_test_named("row 9", FAR, &record));
        WEIR_TEST_NOT_CALLED(&record);
        WEIR_TEST_FREED_HERE(&record);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 9", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 9"), 0);
        weir_test_end();
        WEIR_TEST_NOT_CALLED(&record);
}

static void
row_10_cancelled_then_dismissed_it_counts_without_a_callback(void)
{
        struct weir_test_record record = {0};
        weir_task *timer;

        weir_test_begin_virtual();
        timer = weir_test_named("row 10", FAR, &record);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 10", WEIR_ALL), 1);
        weir_task_dismiss(timer);
        WEIR_TEST_NOT_CALLED(&record);
        WEIR_TEST_FREED_HERE(&record);
        weir_test_end();
        WEIR_TEST_NOT_CALLED(&record);
}

static void
row_11_series_cancelled_before_the_timer_starts_it_has_no_callback_and_one_on_free(void)
{
        struct weir_test_record first = {0}, second = {0}, end = {0};
        weir_series *series;

        weir_test_begin_virtual();
        series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(series, weir_test_named("row 11 a", FAR, &first));
        weir_series_push(series, weir_test_named("row 11 b", FAR, &second));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        WEIR_TEST_CALLED(&first, -ECANCELED);
        WEIR_TEST_NOT_CALLED(&second);
        WEIR_TEST_FREED_ELSEWHERE(&second);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 11 b", WEIR_ALL), 0);
        weir_series_unref(series);
        weir_test_end();
}

static void
row_12_series_cancelled_while_the_timer_is_pending_reports_ecanceled(void)
{
        struct weir_test_record timer = {0}, end = {0};
        weir_series *series;
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(series, weir_test_named("row 12", FAR, &timer));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(series);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        WEIR_TEST_CALLED(&timer, -ECANCELED);
        CU_ASSERT_EQUAL(timer.at, began);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 12", WEIR_ALL), 0);
        weir_series_unref(series);
        weir_test_end();
        WEIR_TEST_CALLED(&timer, -ECANCELED);
}

/* As row 4, with the series instead of the name. */
static void
cancel_series_in_callback(weir_task *task, void *context)
{
        (void)task;
        weir_series_cancel(context);
}

static void
row_12_holds_for_a_timer_that_is_ready_too(void)
{
        struct weir_test_record timer = {0}, end = {0};
        weir_series *series;

        weir_test_begin_virtual();
        series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(series, weir_test_timer(WEIR_SEC(1), &timer));
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), cancel_series_in_callback, series)), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(WEIR_SEC(2));
        WEIR_TEST_CALLED(&timer, -ECANCELED);
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
}

/* -- row 13: durations at the edge -- */

struct starter {
        struct weir_test_record record; /* first */
        struct weir_test_record *started;
        weir_nsec after;
        int calls_before; /* of what was started, when the start had returned */
};

static void
start_in_callback(weir_task *task, void *context)
{
        struct starter *starter = context;

        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(starter->after, starter->started)), 0);
        starter->calls_before = starter->started->calls;
        weir_test_done(task, context);
}

static void
row_13_zero_or_negative_duration_fires_at_once_through_the_loop(void)
{
        static const weir_nsec durations[] = {0, -1, -WEIR_SEC(5), WEIR_SEC(INT64_MIN), INT64_MIN};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 5; i++) {
                struct weir_test_record record = {0}, inner = {0};
                struct starter starter = {.started = &inner, .after = durations[i], .calls_before = -1};
                weir_nsec began = weir_now();

                CU_ASSERT_EQUAL(weir_task_run(weir_test_timer(durations[i], &record)), 0);
                WEIR_TEST_CALLED(&record, 0);
                CU_ASSERT_EQUAL(record.at, began);
                CU_ASSERT(!pthread_equal(record.on, pthread_self()));

                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, start_in_callback, &starter)), 0);
                WEIR_TEST_EVENTUALLY(inner.frees == 1);
                WEIR_TEST_CALLED(&inner, 0);
                CU_ASSERT_EQUAL(starter.calls_before, 0);
                CU_ASSERT_EQUAL(inner.at, began);
        }
        weir_test_end();
}

static void
row_13_overflowing_duration_saturates_and_forever_ends_only_by_cancel_or_shutdown(void)
{
        static const weir_nsec durations[] = {WEIR_FOREVER, WEIR_FOREVER - 1, WEIR_SEC(INT64_MAX), WEIR_USEC(INT64_MAX / 10)};
        struct weir_test_record cancelled[4] = {0}, ended[4] = {0};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 13", durations[i], &cancelled[i])), 0);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(durations[i], &ended[i])), 0);
        }
        weir_test_pass(WEIR_SEC(INT64_C(86400) * 365 * 200));
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(cancelled[i].calls + ended[i].calls, 0);
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("row 13", WEIR_ALL), 4);
        weir_test_end();
        for (unsigned i = 0; i < 4; i++) {
                WEIR_TEST_CALLED(&cancelled[i], -ECANCELED);
                WEIR_TEST_CALLED(&ended[i], -ESHUTDOWN);
        }
}

/* -- rows 14 to 16: shutdown -- */

static void
row_14_shutdown_while_pending_reports_eshutdown_once_and_at_once(void)
{
        struct weir_test_record records[1000] = {0};
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        for (unsigned i = 0; i < 1000; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(FAR + (weir_nsec)i * 12345678, &records[i])), 0);
        }
        weir_test_end();
        for (unsigned i = 0; i < 1000; i++) {
                WEIR_TEST_CALLED(&records[i], -ESHUTDOWN);
                CU_ASSERT_EQUAL(records[i].at, began);
        }
}

static void *
shut_down(void *argument)
{
        *(int *)argument = weir_shutdown();
        return NULL;
}

/* Waits until starts are refused. */
static void
wait_for_refusal(void)
{
        WEIR_TEST_EVENTUALLY(weir_task_start(weir_empty_new(NULL, NULL)) == -ESHUTDOWN);
}

/* The only worker is held at a gate, so cancelled timers are still undelivered when shutdown begins. */
static void
row_15_cancelled_then_shutdown_reports_ecanceled(void)
{
        struct weir_test_record record = {0}, pending = {0};
        struct gate gate;
        pthread_t thread;
        int failed = -1;

        gate_init(&gate);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 15", FAR, &record)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(FAR, &pending)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, stop_at_gate, &gate)), 0);
        weir_test_latch_wait(&gate.begun);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 15", WEIR_ALL), 1);
        pthread_create(&thread, NULL, shut_down, &failed);
        wait_for_refusal();
        weir_test_latch_count_down(&gate.released);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(failed, 0);
        WEIR_TEST_CALLED(&record, -ECANCELED);
        WEIR_TEST_CALLED(&pending, -ESHUTDOWN);
        CU_ASSERT_EQUAL(gate.record.status, 0);
}

/* Also while shutdown has begun but is not over, and on a worker. */
static void
start_refused(weir_task *task, void *context)
{
        struct weir_test_record record = {0};

        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 16", 0, &record)), -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&record);
        WEIR_TEST_FREED_HERE(&record);
        weir_test_done(task, context);
}

static void
row_16_started_after_shutdown_began_is_refused_with_eshutdown_and_one_on_free(void)
{
        struct weir_test_record during = {0}, after = {0}, kept = {0}, on_worker = {0};
        struct gate gate;
        pthread_t thread;
        int failed = -1;

        gate_init(&gate);
        weir_test_begin_virtual();
        weir_task *timer = weir_test_named("row 16", 0, &kept);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(FAR, start_refused, &on_worker)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, stop_at_gate, &gate)), 0);
        weir_test_latch_wait(&gate.begun);
        pthread_create(&thread, NULL, shut_down, &failed);
        wait_for_refusal();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 16", 0, &during)), -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&during);
        WEIR_TEST_FREED_HERE(&during);
        weir_test_latch_count_down(&gate.released);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(failed, 0);
        CU_ASSERT_EQUAL(on_worker.calls, 1);
        CU_ASSERT_EQUAL(on_worker.status, -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(0, &after)), -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_task_run(timer), -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&after);
        WEIR_TEST_NOT_CALLED(&kept);
        WEIR_TEST_FREED_HERE(&kept);
        CU_ASSERT_EQUAL(weir_timer_count("row 16"), 0);
}

/* -- row 17 -- */

static void
row_17_unknown_name_counts_0(void)
{
        char *endless = malloc(WEIR_NAME_MAX + 2);

        memset(endless, 'x', WEIR_NAME_MAX + 1);
        endless[WEIR_NAME_MAX + 1] = '\0';
        for (unsigned up = 0; up < 2; up++) {
                if (up) {
                        weir_test_begin_virtual();
                }
                CU_ASSERT_EQUAL(weir_timer_cancel("row 17", WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel(NULL, WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel("", WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel(endless, WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_count("row 17"), 0);
                CU_ASSERT_EQUAL(weir_timer_count(NULL), 0);
        }
        weir_task *other = weir_timer_new_named("row 17 or so", FAR, NULL, NULL);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 17", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 17 or so"), 1);
        weir_task_dismiss(other);
        weir_test_end();
        free(endless);
}

/* -- rows 18 to 21: reset -- */

static void
row_18_reset_while_pending_ends_with_0_once_at_the_new_time(void)
{
        struct weir_test_record later = {0}, earlier = {0};
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 18 later", WEIR_SEC(10), &later)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 18 earlier", FAR, &earlier)), 0);
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir_timer_reset("row 18 later", WEIR_SEC(10)), 1);
        CU_ASSERT_EQUAL(weir_timer_reset("row 18 earlier", WEIR_SEC(2)), 1);
        CU_ASSERT_EQUAL(weir_timer_count("row 18 later") + weir_timer_count("row 18 earlier"), 2);
        weir_test_pass(2 * FAR);
        WEIR_TEST_CALLED(&later, 0);
        WEIR_TEST_CALLED(&earlier, 0);
        CU_ASSERT_EQUAL(later.at, began + WEIR_SEC(14));
        CU_ASSERT_EQUAL(earlier.at, began + WEIR_SEC(6));
        weir_test_end();
        WEIR_TEST_CALLED(&later, 0);
        WEIR_TEST_CALLED(&earlier, 0);
}

static void
row_18_extended_while_pending_ends_with_0_once_at_the_new_time(void)
{
        struct weir_test_record later = {0}, earlier = {0};
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 18 later", WEIR_SEC(10), &later)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 18 earlier", WEIR_SEC(10), &earlier)), 0);
        weir_test_pass(WEIR_SEC(4));
        CU_ASSERT_EQUAL(weir_timer_extend("row 18 later", WEIR_SEC(3)), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("row 18 earlier", -WEIR_SEC(3)), 1);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&later, 0);
        WEIR_TEST_CALLED(&earlier, 0);
        CU_ASSERT_EQUAL(later.at, began + WEIR_SEC(13));
        CU_ASSERT_EQUAL(earlier.at, began + WEIR_SEC(7));
        weir_test_end();
        WEIR_TEST_CALLED(&later, 0);
        WEIR_TEST_CALLED(&earlier, 0);
}

/* The gate's own timer is the only one of its name; it is reset by another thread, while its callback waits there. */
static void
row_19_reset_after_the_callback_has_begun_has_no_effect(void)
{
        struct gate gate;

        gate_init(&gate);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new_named("row 19", 0, stop_at_gate, &gate))), 0);
        weir_test_latch_wait(&gate.begun);
        CU_ASSERT_EQUAL(weir_timer_reset("row 19", WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_timer_extend("row 19", WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 19"), 1);
        weir_test_latch_count_down(&gate.released);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&gate.record, 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 19"), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&gate.record, 0);
}

struct resetter {
        struct weir_test_record record; /* first */
        const char *name;
        size_t counted, extended;
};

static void
reset_in_callback(weir_task *task, void *context)
{
        struct resetter *resetter = context;

        resetter->counted = weir_timer_reset(resetter->name, WEIR_SEC(3));
        resetter->extended = weir_timer_extend(resetter->name, WEIR_SEC(1));
        weir_test_done(task, context);
}

static void
row_19_holds_inside_the_callback_too(void)
{
        struct resetter own = {.name = "row 19", .counted = 1, .extended = 1};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new_named("row 19", 0, reset_in_callback, &own))), 0);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&own.record, 0);
        CU_ASSERT_EQUAL(own.counted + own.extended, 0);
        weir_test_end();
        WEIR_TEST_CALLED(&own.record, 0);
}

/* As row 4: both are due at the same instant, so the second is ready while the callback of the first runs. */
static void
row_20_expired_and_ready_reset_counts_and_it_ends_with_0_once_at_the_new_time(void)
{
        struct resetter first = {.name = "row 20"};
        struct weir_test_record second = {0};
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_timer_new(WEIR_SEC(1), reset_in_callback, &first))), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 20", WEIR_SEC(1), &second)), 0);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&first.record, 0);
        CU_ASSERT_EQUAL(first.counted, 1);
        CU_ASSERT_EQUAL(first.extended, 1);
        CU_ASSERT_EQUAL(second.calls, 0);
        CU_ASSERT_EQUAL(weir_timer_count("row 20"), 1);
        weir_test_pass(FAR);
        WEIR_TEST_CALLED(&second, 0);
        CU_ASSERT_EQUAL(second.at, began + WEIR_SEC(1 + 3 + 1));
        weir_test_end();
        WEIR_TEST_CALLED(&second, 0);
}

static void
row_21_reset_before_the_start_ends_the_new_duration_after_it(void)
{
        struct weir_test_record reset = {0}, extended = {0};
        weir_task *timers[2];
        weir_nsec began;

        weir_test_begin_virtual();
        timers[0] = weir_test_named("row 21 reset", FAR, &reset);
        timers[1] = weir_test_named("row 21 extended", WEIR_SEC(2), &extended);
        CU_ASSERT_EQUAL(weir_timer_reset("row 21 reset", WEIR_SEC(5)), 1);
        CU_ASSERT_EQUAL(weir_timer_extend("row 21 extended", WEIR_SEC(5)), 1);
        weir_test_pass(WEIR_SEC(100));
        CU_ASSERT_EQUAL(reset.calls + extended.calls, 0);
        began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(timers[0]) + weir_task_start(timers[1]), 0);
        weir_test_pass(2 * FAR);
        WEIR_TEST_CALLED(&reset, 0);
        WEIR_TEST_CALLED(&extended, 0);
        CU_ASSERT_EQUAL(reset.at, began + WEIR_SEC(5));
        CU_ASSERT_EQUAL(extended.at, began + WEIR_SEC(7));
        weir_test_end();
        WEIR_TEST_CALLED(&reset, 0);
        WEIR_TEST_CALLED(&extended, 0);
}

/* The worker is held, so the second is cancelled and undelivered when it is reset, the first cancelled and not even started. */
static void
row_22_reset_after_a_cancel_does_not_count_and_it_sees_ecanceled(void)
{
        struct weir_test_record unstarted = {0}, started = {0};
        struct gate gate;
        weir_task *timer;
        weir_nsec began;

        gate_init(&gate);
        weir_test_begin_virtual();
        began = weir_now();
        timer = weir_test_named("row 22", FAR, &unstarted);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("row 22", FAR, &started)), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(0, stop_at_gate, &gate)), 0);
        weir_test_latch_wait(&gate.begun);
        CU_ASSERT_EQUAL(weir_timer_cancel("row 22", WEIR_ALL), 2);
        CU_ASSERT_EQUAL(weir_timer_reset("row 22", WEIR_SEC(5)), 0);
        CU_ASSERT_EQUAL(weir_timer_extend("row 22", WEIR_SEC(5)), 0);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        CU_ASSERT_EQUAL(weir_timer_reset("row 22", WEIR_SEC(5)), 0);
        weir_test_latch_count_down(&gate.released);
        WEIR_TEST_EVENTUALLY(unstarted.frees == 1 && started.frees == 1);
        weir_test_pass(FAR);
        weir_test_end();
        WEIR_TEST_CALLED(&unstarted, -ECANCELED);
        WEIR_TEST_CALLED(&started, -ECANCELED);
        CU_ASSERT(unstarted.at == began && started.at == began);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(row_01_started_timer_ends_with_0_once_and_never_early),
                WEIR_TEST(row_01_is_never_early_on_the_real_clock_either),
                WEIR_TEST(row_02_cancelled_before_its_start_it_reports_ecanceled_as_soon_as_started),
                WEIR_TEST(row_03_pending_cancel_reports_ecanceled_once),
                WEIR_TEST(row_04_expired_and_ready_cancel_is_decisive_until_the_callback_begins),
                WEIR_TEST(row_05_callback_begun_cancel_does_not_count_and_it_sees_0),
                WEIR_TEST(row_06_cancel_of_its_own_name_inside_the_callback_has_no_effect_on_itself),
                WEIR_TEST(row_07_two_cancels_at_once_make_one_ecanceled_and_count_once_in_total),
                WEIR_TEST(row_08_max_takes_the_oldest_created_first),
                WEIR_TEST(row_09_never_started_and_dismissed_it_has_no_callback_and_one_on_free),
                WEIR_TEST(row_10_cancelled_then_dismissed_it_counts_without_a_callback),
                WEIR_TEST(row_11_series_cancelled_before_the_timer_starts_it_has_no_callback_and_one_on_free),
                WEIR_TEST(row_12_series_cancelled_while_the_timer_is_pending_reports_ecanceled),
                WEIR_TEST(row_12_holds_for_a_timer_that_is_ready_too),
                WEIR_TEST(row_13_zero_or_negative_duration_fires_at_once_through_the_loop),
                WEIR_TEST(row_13_overflowing_duration_saturates_and_forever_ends_only_by_cancel_or_shutdown),
                WEIR_TEST(row_14_shutdown_while_pending_reports_eshutdown_once_and_at_once),
                WEIR_TEST(row_15_cancelled_then_shutdown_reports_ecanceled),
                WEIR_TEST(row_16_started_after_shutdown_began_is_refused_with_eshutdown_and_one_on_free),
                WEIR_TEST(row_17_unknown_name_counts_0),
                WEIR_TEST(row_18_reset_while_pending_ends_with_0_once_at_the_new_time),
                WEIR_TEST(row_18_extended_while_pending_ends_with_0_once_at_the_new_time),
                WEIR_TEST(row_19_reset_after_the_callback_has_begun_has_no_effect),
                WEIR_TEST(row_19_holds_inside_the_callback_too),
                WEIR_TEST(row_20_expired_and_ready_reset_counts_and_it_ends_with_0_once_at_the_new_time),
                WEIR_TEST(row_21_reset_before_the_start_ends_the_new_duration_after_it),
                WEIR_TEST(row_22_reset_after_a_cancel_does_not_count_and_it_sees_ecanceled),
        };

        return weir_test_main("contract", tests, sizeof tests / sizeof *tests);
}
