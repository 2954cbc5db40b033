/* test/promise_test.c: tasks that the program ends: who decides, what the callback sees, and what lives how long. */
#include "test/fixture.h"

#include <errno.h>
#include <limits.h>

struct life {
        struct weir_test_record record; /* first: it is the context */
        _Atomic int cancels, drops;
        int cancel_status; /* of the task, inside the cancel function */
        int calls_before;  /* callbacks that had run when the cancel function began */
        int late;          /* what weir_promise_end answers inside the cancel function */
        pthread_t cancelled_on;
};

static struct life life;

static void
begin(void)
{
        life = (struct life){0};
        weir_test_begin_virtual();
}

static void
on_cancel(weir_task *promise, void *context)
{
        struct life *of = context;

        of->cancel_status = weir_task_status(promise);
        of->calls_before = of->record.calls;
        of->cancelled_on = pthread_self();
        of->late = weir_promise_end(promise, 0);
        of->cancels++;
}

static void
on_drop(void *value)
{
        ++*(_Atomic int *)value;
}

/* With a reference for the test. */
static weir_task *
make(void)
{
        weir_task *promise = weir_test_recorded(weir_promise_new(on_cancel, weir_test_done, &life));

        return weir_promise_ref(promise);
}

/* A series of that task alone, with a reference for the test. */
static weir_series *
series_of(weir_task *task)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        CU_ASSERT_EQUAL(weir_series_push(series, task), 0);
        return series;
}

static void
end_is_too_late(weir_task *promise)
{
        CU_ASSERT_EQUAL(weir_promise_end(promise, -EIO), -EALREADY);
        CU_ASSERT_EQUAL(weir_promise_end_with(promise, 0, &life.drops, on_drop), -EALREADY);
        CU_ASSERT_EQUAL(life.drops, 0);
}

/* -- an end -- */

static void
the_callback_sees_the_status_of_the_end_once(void)
{
        static const int statuses[] = {0, -EIO, -EAGAIN, -ECANCELED, INT_MIN};

        for (unsigned i = 0; i < sizeof statuses / sizeof *statuses; i++) {
                begin();
                weir_task *promise = make();
                CU_ASSERT_EQUAL(weir_task_start(promise), 0);
                weir_test_pass(WEIR_SEC(1));
                CU_ASSERT_EQUAL(life.record.calls, 0);
                CU_ASSERT_EQUAL(weir_promise_end(promise, statuses[i]), 0);
                end_is_too_late(promise);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&life.record, statuses[i]);
                end_is_too_late(promise);
                weir_test_end();
                end_is_too_late(promise);
                weir_promise_unref(promise);
                CU_ASSERT_EQUAL(life.cancels, 0);
        }
}

static void
an_end_before_the_start_counts(void)
{
        static const int statuses[] = {0, -EIO, -EAGAIN};

        for (unsigned i = 0; i < sizeof statuses / sizeof *statuses; i++) {
                begin();
                weir_task *promise = make();
                CU_ASSERT_EQUAL(weir_promise_end(promise, statuses[i]), 0);
                end_is_too_late(promise);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(life.record.calls, 0);
                CU_ASSERT_EQUAL(weir_task_start(promise), 0);
                weir_test_pass(0);
                WEIR_TEST_CALLED(&life.record, statuses[i]);
                weir_promise_unref(promise);
                weir_test_end();
        }
}

static void
its_series_waits_for_it(void)
{
        struct weir_test_record behind = {0};

        begin();
        weir_task *promise = make();
        weir_series *series = series_of(promise);
        weir_series_push(series, weir_test_empty(&behind));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(behind.calls, 0);
        weir_promise_end(promise, 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&life.record, 0);
        WEIR_TEST_CALLED(&behind, 0);
        weir_promise_unref(promise);
        weir_series_unref(series);
        weir_test_end();
}

static void *
end_soon(void *promise)
{
        weir_promise_end(promise, -EPROTO);
        weir_promise_unref(promise);
        return NULL;
}

static void
a_run_waits_for_a_thread_that_ends_it(void)
{
        pthread_t thread;

        life = (struct life){0};
        weir_test_begin_real(2);
        weir_task *promise = weir_test_recorded(weir_promise_new(NULL, weir_test_done, &life));
        pthread_create(&thread, NULL, end_soon, weir_promise_ref(promise));
        CU_ASSERT_EQUAL(weir_task_run(promise), -EPROTO);
        WEIR_TEST_CALLED(&life.record, -EPROTO);
        pthread_join(thread, NULL);
        weir_test_end();
}

/* -- values -- */

static void
leave_value(weir_task *promise, void *context)
{
        CU_ASSERT_PTR_EQUAL(weir_promise_value(promise), &life.drops);
        CU_ASSERT_EQUAL(life.drops, 0);
        weir_test_done(promise, context);
}

static void
take_value(weir_task *promise, void *context)
{
        CU_ASSERT_PTR_EQUAL(weir_promise_take_value(promise), &life.drops);
        CU_ASSERT_PTR_NULL(weir_promise_value(promise));
        CU_ASSERT_PTR_NULL(weir_promise_take_value(promise));
        weir_test_done(promise, context);
}

static void
a_value_that_nobody_takes_is_dropped_behind_the_callback(void)
{
        begin();
        weir_task *promise = weir_promise_ref(weir_promise_new(NULL, leave_value, &life));
        weir_task_start(promise);
        CU_ASSERT_EQUAL(weir_promise_end_with(promise, 0, &life.drops, on_drop), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(life.record.calls, 1);
        CU_ASSERT_EQUAL(life.drops, 1); /* although the test has a reference */
        weir_promise_unref(promise);
        weir_test_end();
        CU_ASSERT_EQUAL(life.drops, 1);
}

static void
a_value_that_is_taken_is_not_dropped(void)
{
        begin();
        weir_task *promise = weir_promise_ref(weir_promise_new(NULL, take_value, &life));
        CU_ASSERT_EQUAL(weir_promise_end_with(promise, 0, &life.drops, on_drop), 0);
        weir_task_start(promise);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(life.record.calls, 1);
        weir_promise_unref(promise);
        weir_test_end();
        CU_ASSERT_EQUAL(life.drops, 0);
}

static void
the_value_of_a_promise_that_never_starts_is_dropped(void)
{
        begin();
        weir_task *promise = make();
        CU_ASSERT_EQUAL(weir_promise_end_with(promise, 0, &life.drops, on_drop), 0);
        weir_task_dismiss(promise);
        CU_ASSERT_EQUAL(life.drops, 1);
        WEIR_TEST_NOT_CALLED(&life.record);
        weir_promise_unref(promise);
        weir_test_end();
}

/* -- the flow does not want it any more -- */

static void
cancelled_with(int status)
{
        WEIR_TEST_CALLED(&life.record, status);
        CU_ASSERT_EQUAL(life.cancels, 1);
        CU_ASSERT_EQUAL(life.cancel_status, status);
        CU_ASSERT_EQUAL(life.calls_before, 0);
        CU_ASSERT_EQUAL(life.late, -EALREADY);
        CU_ASSERT(!pthread_equal(life.cancelled_on, pthread_self()));
}

static void
a_cancel_calls_the_cancel_function_on_a_worker_and_then_the_callback(void)
{
        begin();
        weir_task *promise = make();
        weir_series *series = series_of(promise);
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        end_is_too_late(promise);
        weir_test_pass(0);
        cancelled_with(-ECANCELED);
        end_is_too_late(promise);
        weir_promise_unref(promise);
        weir_series_unref(series);
        weir_test_end();
}

static void
a_deadline_does_the_same(void)
{
        begin();
        weir_task *promise = make();
        weir_series *series = series_of(promise);
        weir_series_set_deadline(series, WEIR_SEC(1));
        weir_series_start(series);
        weir_test_pass(WEIR_SEC(2));
        cancelled_with(-ETIMEDOUT);
        end_is_too_late(promise);
        weir_promise_unref(promise);
        weir_series_unref(series);
        weir_test_end();
}

static void
a_shutdown_does_the_same(void)
{
        begin();
        weir_task *promise = make();
        weir_task_start(promise);
        weir_test_end();
        cancelled_with(-ESHUTDOWN);
        end_is_too_late(promise);
        weir_promise_unref(promise);
}

static void
a_race_cancels_the_promises_that_have_lost(void)
{
        struct weir_test_record race_record = {0};

        begin();
        weir_task *promise = make(), *race = weir_race_new(weir_test_done, &race_record);
        weir_race_add(race, promise);
        weir_race_add(race, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_task_start(race);
        weir_test_pass(WEIR_SEC(2));
        cancelled_with(-ECANCELED);
        CU_ASSERT_EQUAL(race_record.calls, 1);
        weir_promise_unref(promise);
        weir_test_end();
}

struct both {
        weir_task *promise;
        weir_series *series;
};

/* On the only worker: the callback of the promise comes behind this one. */
static void
end_and_cancel(weir_task *task, void *context)
{
        struct both *both = context;

        (void)task;
        CU_ASSERT_EQUAL(weir_promise_end(both->promise, -EIO), 0);
        weir_series_cancel(both->series);
}

static void
an_end_that_has_decided_stays_although_a_cancel_comes_before_the_callback(void)
{
        begin();
        weir_task *promise = make();
        weir_series *series = series_of(promise);
        weir_series_start(series);
        weir_test_pass(0);
        struct both both = {promise, series};
        weir_task_start(weir_empty_new(end_and_cancel, &both));
        weir_test_pass(0);
        WEIR_TEST_CALLED(&life.record, -EIO);
        CU_ASSERT_EQUAL(life.cancels, 0);
        weir_promise_unref(promise);
        weir_series_unref(series);
        weir_test_end();
}

static void
without_a_cancel_function_only_the_callback_runs(void)
{
        begin();
        weir_task *promise = weir_test_recorded(weir_promise_new(NULL, weir_test_done, &life));
        weir_series *series = series_of(promise);
        weir_series_start(series);
        weir_test_pass(0);
        weir_series_cancel(series);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&life.record, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
}

/* -- a promise that never starts -- */

static void
never_started(weir_task *promise)
{
        WEIR_TEST_NOT_CALLED(&life.record);
        CU_ASSERT_EQUAL(life.cancels, 0);
        end_is_too_late(promise);
        weir_promise_unref(promise);
}

static void
dismissed_it_has_no_callback_and_its_memory_stays_for_the_reference(void)
{
        begin();
        weir_task *promise = make();
        weir_task_dismiss(promise);
        never_started(promise);
        weir_test_end();
}

static void
dropped_with_its_series_it_has_none_either(void)
{
        begin();
        weir_task *promise = make();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        weir_series_push(series, promise);
        weir_series_start(series);
        weir_series_cancel(series);
        weir_test_pass(0);
        never_started(promise);
        weir_series_unref(series);
        weir_test_end();
}

static void
refused_by_a_start_it_has_none_either(void)
{
        life = (struct life){0};
        weir_task *promise = make();
        CU_ASSERT_EQUAL(weir_series_push(NULL, promise), -ENOMEM);
        never_started(promise);
}

/* -- references -- */

static void
references_outlive_the_runtime(void)
{
        begin();
        weir_task *promise = make();
        for (unsigned i = 0; i < 100; i++)
                CU_ASSERT_PTR_EQUAL(weir_promise_ref(promise), promise);
        weir_task_start(promise);
        weir_promise_end(promise, 0);
        weir_test_end();
        for (unsigned i = 0; i < 100; i++) {
                end_is_too_late(promise);
                weir_promise_unref(promise);
        }
        weir_promise_unref(promise);
}

/* -- bad input, forks -- */

static void
bad_input_is_answered(void)
{
        begin();
        weir_task *promise = make(), *timer = weir_timer_new(1, NULL, NULL);
        CU_ASSERT_EQUAL(weir_promise_end(NULL, 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_end(promise, INT_MAX), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_end(timer, 0), -EDOM);
        CU_ASSERT_EQUAL(weir_promise_end_with(timer, 0, &life, NULL), -EDOM);
        CU_ASSERT_EQUAL(weir_promise_set_label(NULL, "x"), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_set_label(promise, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_set_label(timer, "x"), -EDOM);
        CU_ASSERT_PTR_NULL(weir_promise_value(NULL));
        CU_ASSERT_PTR_NULL(weir_promise_value(timer));
        CU_ASSERT_PTR_NULL(weir_promise_take_value(timer));
        CU_ASSERT_PTR_NULL(weir_promise_value(promise));
        CU_ASSERT_PTR_NULL(weir_promise_ref(NULL));
        weir_promise_unref(NULL);
        weir_task_dismiss(timer);
        weir_task_start(promise);
        CU_ASSERT_EQUAL(weir_promise_set_label(promise, "x"), -EBUSY);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), 0);
        weir_promise_unref(promise);
        weir_test_end();
}

static void
refer_to_a_timer(void)
{
        weir_promise_ref(weir_timer_new(1, NULL, NULL));
}

static void
let_a_timer_go(void)
{
        weir_promise_unref(weir_timer_new(1, NULL, NULL));
}

static void
a_reference_to_another_kind_of_task_aborts(void)
{
        weir_test_aborts(refer_to_a_timer, "weir_promise_ref: the task is no promise");
        weir_test_aborts(let_a_timer_go, "weir_promise_unref: the task is no promise");
}

static weir_task *inherited;

static void
use_in_child(void)
{
        weir_test_leaks_do_not_count = 1;
        if (weir_promise_end(inherited, 0) != -ECHILD || weir_promise_end_with(inherited, 0, NULL, NULL) != -ECHILD ||
            weir_promise_set_label(inherited, "x") != -ECHILD || weir_promise_value(inherited))
                abort();
        weir_promise_unref(inherited);
}

static void
a_forked_child_cannot_end_it(void)
{
        char said[256];

        begin();
        inherited = make();
        weir_task_start(inherited);
        CU_ASSERT_EQUAL(weir_test_child(use_in_child, said, sizeof said), 0);
        CU_ASSERT_EQUAL(weir_promise_end(inherited, 0), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&life.record, 0);
        weir_promise_unref(inherited);
        weir_test_end();
}

/* -- dumps -- */

static char dump[8192];

static void
read_dump(void)
{
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        CU_ASSERT_EQUAL(weir_debug_dump(ends[1]), 0);
        close(ends[1]);
        ssize_t size = read(ends[0], dump, sizeof dump - 1);
        dump[size > 0 ? size : 0] = '\0';
        close(ends[0]);
}

static void
a_dump_says_what_it_waits_for(void)
{
        char longest[2 * WEIR_PROMISE_LABEL_MAX + 1] = "";

        memset(longest, 'x', sizeof longest - 1);
        begin();
        weir_task *promise = make(), *lone = make(), *bare = make(), *cut = make();
        weir_promise_set_label(promise, "GET https://example.org/");
        weir_promise_set_label(lone, "SELECT 1");
        CU_ASSERT_EQUAL(weir_promise_set_label(cut, longest), 0);
        weir_series *series = series_of(promise), *second = series_of(bare);
        weir_series_start(series);
        weir_series_start(second);
        weir_task_start(lone);
        weir_task_start(cut);
        weir_test_pass(0);
        read_dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, "promise \"GET https://example.org/\" pending\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, "promise pending\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, ", 1 waits; \"SELECT 1\"\n"));
        longest[WEIR_PROMISE_LABEL_MAX] = '\0';
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, longest));
        longest[WEIR_PROMISE_LABEL_MAX] = 'x';
        CU_ASSERT_PTR_NULL(strstr(dump, longest));
        weir_task *all[] = {promise, lone, bare, cut};
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(weir_promise_end(all[i], 0), 0);
                weir_promise_unref(all[i]);
        }
        weir_series_unref(series);
        weir_series_unref(second);
        weir_test_end();
}

/* -- many threads, on the real clock -- */

#define STORM (WEIR_TEST_SANITIZED ? 2000 : 10000)

static struct {
        weir_task *promise;
        weir_series *series;
        _Atomic unsigned decided;
        pthread_barrier_t barrier;
        struct life life;
} storm;

static void *
end_in_storm(void *status)
{
        for (unsigned i = 0; i < STORM; i++) {
                pthread_barrier_wait(&storm.barrier);
                storm.decided += weir_promise_end_with(storm.promise, -(int)(intptr_t)status, &storm.life.drops, on_drop) == 0;
                weir_promise_unref(storm.promise);
                pthread_barrier_wait(&storm.barrier);
        }
        return NULL;
}

static void *
cancel_in_storm(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < STORM; i++) {
                pthread_barrier_wait(&storm.barrier);
                weir_series_cancel(storm.series);
                pthread_barrier_wait(&storm.barrier);
        }
        return NULL;
}

static void
two_ends_and_a_cancel_meet_its_start_and_one_decides(void)
{
        pthread_t threads[3];
        unsigned dropped = 0, cancelled = 0;

        weir_test_begin_real(2);
        pthread_barrier_init(&storm.barrier, NULL, 4);
        pthread_create(&threads[0], NULL, end_in_storm, (void *)1);
        pthread_create(&threads[1], NULL, end_in_storm, (void *)2);
        pthread_create(&threads[2], NULL, cancel_in_storm, NULL);
        for (unsigned i = 0; i < STORM; i++) {
                storm.decided = 0;
                storm.life = (struct life){0};
                storm.promise = weir_test_recorded(weir_promise_new(on_cancel, weir_test_done, &storm.life));
                weir_promise_ref(storm.promise);
                weir_promise_ref(storm.promise);
                storm.series = series_of(storm.promise);
                pthread_barrier_wait(&storm.barrier);
                weir_series_start(storm.series);
                weir_test_wait_freed(&storm.life.record);
                pthread_barrier_wait(&storm.barrier);
                weir_series_unref(storm.series);
                struct life *one = &storm.life;
                int ends = one->record.status == -1 || one->record.status == -2;
                if (one->record.calls != 1 ? one->cancels || one->record.calls || storm.decided > 1
                                           : storm.decided != (unsigned)ends || one->cancels != !ends)
                        CU_FAIL_FATAL("not decided once");
                for (unsigned spins = 0; one->drops != (int)storm.decided && spins < 1000; spins++)
                        sched_yield();
                WEIR_TEST_EVENTUALLY(one->drops == (int)storm.decided);
                dropped += one->record.calls == 0;
                cancelled += (unsigned)one->cancels;
        }
        for (unsigned i = 0; i < 3; i++)
                pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&storm.barrier);
        weir_test_end();
        printf("of %d, %u were cancelled, %u were dropped before their start\n", STORM, cancelled, dropped);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_callback_sees_the_status_of_the_end_once),
                WEIR_TEST(an_end_before_the_start_counts),
                WEIR_TEST(its_series_waits_for_it),
                WEIR_TEST(a_run_waits_for_a_thread_that_ends_it),
                WEIR_TEST(a_value_that_nobody_takes_is_dropped_behind_the_callback),
                WEIR_TEST(a_value_that_is_taken_is_not_dropped),
                WEIR_TEST(the_value_of_a_promise_that_never_starts_is_dropped),
                WEIR_TEST(a_cancel_calls_the_cancel_function_on_a_worker_and_then_the_callback),
                WEIR_TEST(a_deadline_does_the_same),
                WEIR_TEST(a_shutdown_does_the_same),
                WEIR_TEST(a_race_cancels_the_promises_that_have_lost),
                WEIR_TEST(an_end_that_has_decided_stays_although_a_cancel_comes_before_the_callback),
                WEIR_TEST(without_a_cancel_function_only_the_callback_runs),
                WEIR_TEST(dismissed_it_has_no_callback_and_its_memory_stays_for_the_reference),
                WEIR_TEST(dropped_with_its_series_it_has_none_either),
                WEIR_TEST(refused_by_a_start_it_has_none_either),
                WEIR_TEST(references_outlive_the_runtime),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(a_reference_to_another_kind_of_task_aborts),
                WEIR_TEST(a_forked_child_cannot_end_it),
                WEIR_TEST(a_dump_says_what_it_waits_for),
                WEIR_TEST(two_ends_and_a_cancel_meet_its_start_and_one_decides),
        };

        return weir_test_main("promise", tests, sizeof tests / sizeof *tests);
}
