/* test/promise_kind_test.c: promises of a kind: what begins with the start, what is held, what each has. */
#include "test/fixture.h"

#include <errno.h>

struct own {
        struct weir_test_record record; /* first: it is the context, too */
        _Atomic int begins, cancels, frees;
        pthread_t begun_on;
        int status_in_cancel;
        int in_begin; /* what the begin function does */
        int answer;
};

enum in_begin { NOTHING, END, HOLD, HOLD_AND_END };

static struct own own;

static void
on_begin(weir_task *promise, void *its)
{
        struct own *self = its;

        self->begins++;
        self->begun_on = pthread_self();
        if (self->in_begin == HOLD || self->in_begin == HOLD_AND_END)
                self->answer = weir_promise_hold(promise);
        if (self->in_begin == END || self->in_begin == HOLD_AND_END)
                self->answer = weir_promise_end(promise, -EPROTO);
        weir_promise_unref(promise); /* the test has a reference of its own */
}

static void
on_cancel(weir_task *promise, void *its)
{
        struct own *self = its;

        self->cancels++;
        self->status_in_cancel = weir_task_status(promise);
}

static _Atomic int descriptions;

static void
describe(const void *its, char *text, size_t room)
{
        descriptions++;
        snprintf(text, room, "begun %d times", ((const struct own *)its)->begins);
}

static void
on_free(void *its)
{
        ((struct own *)its)->frees++;
}

static const struct weir_promise_kind kind = {sizeof kind, on_begin, on_cancel, describe, on_free};
static const struct weir_promise_kind other = {.size = sizeof other};

static void
begin(void)
{
        own = (struct own){0};
        weir_test_begin_virtual();
}

/* With a reference for the test. */
static weir_task *
make(void)
{
        return weir_promise_ref(weir_test_recorded(weir_promise_new_of(&kind, &own, weir_test_done, &own)));
}

static weir_series *
series_of(weir_task *task)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        CU_ASSERT_EQUAL(weir_series_push(series, task), 0);
        return series;
}

static void
finish(weir_task *promise, weir_series *series)
{
        CU_ASSERT_EQUAL(own.frees, 0);
        CU_ASSERT_PTR_EQUAL(weir_promise_own(promise, &kind), &own);
        weir_promise_unref(promise);
        weir_series_unref(series);
        CU_ASSERT_EQUAL(own.frees, 1);
        weir_test_end();
}

/* -- the begin -- */

static void
it_begins_when_its_turn_comes(void)
{
        begin();
        weir_task *promise = make();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(series, promise);
        weir_series_start(series);
        weir_test_pass(WEIR_MSEC(999));
        CU_ASSERT_EQUAL(own.begins, 0);
        weir_test_pass(WEIR_MSEC(1));
        CU_ASSERT_EQUAL(own.begins, 1);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&own.record, 0);
        finish(promise, series);
}

static void
a_start_calls_it_on_its_own_thread(void)
{
        begin();
        weir_task *promise = make();
        weir_task_start(promise);
        CU_ASSERT_EQUAL(own.begins, 1);
        CU_ASSERT(pthread_equal(own.begun_on, pthread_self()));
        weir_promise_end(promise, -EIO);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&own.record, -EIO);
        CU_ASSERT_EQUAL(own.cancels, 0);
        finish(promise, NULL);
}

static void
an_end_inside_it_counts(void)
{
        for (int in_begin = END; in_begin <= HOLD_AND_END; in_begin += HOLD_AND_END - END) {
                begin();
                own.in_begin = in_begin;
                weir_task *promise = make();
                weir_task_start(promise);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(own.answer, 0);
                WEIR_TEST_CALLED(&own.record, -EPROTO);
                finish(promise, NULL);
        }
}

static void
without_a_start_there_is_no_begin(void)
{
        begin();
        weir_task *promise = make();
        weir_task_dismiss(promise);
        CU_ASSERT_EQUAL(weir_promise_hold(promise), -EALREADY);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), -EALREADY);
        CU_ASSERT_EQUAL(own.begins + own.cancels, 0);
        WEIR_TEST_NOT_CALLED(&own.record);
        finish(promise, NULL);

        begin();
        weir_series_push(NULL, weir_promise_new_of(&kind, &own, weir_test_done, &own));
        CU_ASSERT_EQUAL(own.begins + own.cancels, 0);
        CU_ASSERT_EQUAL(own.frees, 1);
        weir_test_end();
}

static void
cancelled_before_its_start_it_begins_and_is_cancelled(void)
{
        begin();
        weir_task *race = weir_race_new(NULL, NULL), *promise = make();
        weir_race_add(race, weir_empty_new(NULL, NULL));
        weir_race_add(race, promise);
        weir_task_start(race);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(own.begins, own.cancels);
        if (own.begins)
                CU_ASSERT_EQUAL(own.status_in_cancel, -ECANCELED);
        finish(promise, NULL);
}

/* -- the hold -- */

static void
a_cancel_of_what_is_held_comes_too_late(void)
{
        begin();
        weir_task *promise = make();
        weir_series *series = series_of(promise);
        weir_series_start(series);
        CU_ASSERT_EQUAL(weir_promise_hold(promise), 0);
        CU_ASSERT_EQUAL(weir_promise_hold(promise), -EALREADY);
        CU_ASSERT_EQUAL(weir_promise_cancelled(promise), 0);
        weir_series_cancel(series);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(own.cancels, 0);
        CU_ASSERT_EQUAL(own.record.calls, 0);
        CU_ASSERT_EQUAL(weir_promise_cancelled(promise), -ECANCELED);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), 0);
        CU_ASSERT_EQUAL(weir_promise_end(promise, -EIO), -EALREADY);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&own.record, 0);
        finish(promise, series);
}

static void
held_in_its_begin_it_waits_for_its_end(void)
{
        begin();
        own.in_begin = HOLD;
        weir_task *promise = make();
        weir_series *series = series_of(promise);
        weir_series_set_deadline(series, WEIR_SEC(1));
        weir_series_start(series);
        CU_ASSERT_EQUAL(own.answer, 0);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(own.record.calls, 0);
        CU_ASSERT_EQUAL(weir_promise_cancelled(promise), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_promise_end(promise, -EIO), 0);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&own.record, -EIO);
        CU_ASSERT_EQUAL(own.cancels, 0);
        finish(promise, series);
}

static void
a_hold_behind_a_cancel_fails(void)
{
        begin();
        weir_task *promise = make();
        weir_series *series = series_of(promise);
        weir_series_start(series);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_promise_hold(promise), -EALREADY);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(own.cancels, 1);
        WEIR_TEST_CALLED(&own.record, -ECANCELED);
        finish(promise, series);
}

static void *
end_during_shutdown(void *promise)
{
        while (weir_promise_cancelled(promise) != -ESHUTDOWN)
                weir_test_sleep(100000);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), 0);
        return NULL;
}

static void
a_shutdown_waits_for_what_is_held(void)
{
        pthread_t thread;

        for (int within = 0; within < 2; within++) {
                own = (struct own){0};
                weir_test_begin_real(2);
                weir_task *promise = make();
                weir_series *series = within ? series_of(promise) : NULL;
                CU_ASSERT_EQUAL(within ? weir_series_start(series) : weir_task_start(promise), 0);
                CU_ASSERT_EQUAL(weir_promise_hold(promise), 0);
                pthread_create(&thread, NULL, end_during_shutdown, promise);
                weir_test_end();
                pthread_join(thread, NULL);
                WEIR_TEST_CALLED(&own.record, 0);
                CU_ASSERT_EQUAL(own.cancels, 0);
                weir_series_unref(series);
                weir_promise_unref(promise);
                CU_ASSERT_EQUAL(own.frees, 1);
        }
}

/* Of a hold and a cancel at the same time exactly one decides. */
struct duel {
        struct weir_test_record record;
        weir_series *series;
        weir_task *promise;
        pthread_barrier_t *both;
        _Atomic int cancels;
};

static void
duel_cancel(weir_task *promise, void *its)
{
        (void)promise;
        ((struct duel *)its)->cancels++;
}

static const struct weir_promise_kind duel_kind = {.size = sizeof duel_kind, .cancel = duel_cancel};

static void *
cancel_at_once(void *context)
{
        struct duel *duel = context;

        pthread_barrier_wait(duel->both);
        weir_series_cancel(duel->series);
        return NULL;
}

static void
a_hold_or_a_cancel_decides(void)
{
        int held = 0;

        weir_test_begin_real(2);
        for (int round = 0; round < 300; round++) {
                struct duel duel = {.series = weir_series_ref(weir_series_new(NULL, NULL))};
                pthread_barrier_t both;
                pthread_t thread;
                weir_waitgroup *group = weir_waitgroup_new();

                pthread_barrier_init(&both, NULL, 2);
                duel.both = &both;
                weir_task *promise = weir_promise_ref(
                        weir_test_recorded(weir_promise_new_of(&duel_kind, &duel, weir_test_done, &duel)));
                weir_series_push(duel.series, promise);
                weir_series_start_waited(duel.series, group);
                pthread_create(&thread, NULL, cancel_at_once, &duel);
                pthread_barrier_wait(&both);
                int answer = weir_promise_hold(promise);
                CU_ASSERT(answer == 0 || answer == -EALREADY);
                if (answer == 0)
                        CU_ASSERT_EQUAL(weir_promise_end(promise, -EIO), 0);
                pthread_join(thread, NULL);
                weir_waitgroup_wait(group, WEIR_FOREVER);
                WEIR_TEST_CALLED(&duel.record, answer == 0 ? -EIO : -ECANCELED);
                CU_ASSERT_EQUAL(duel.cancels, answer == 0 ? 0 : 1);
                held += answer == 0;
                weir_promise_unref(promise);
                weir_series_unref(duel.series);
                weir_waitgroup_free(group);
                pthread_barrier_destroy(&both);
        }
        CU_ASSERT(held >= 0);
        weir_test_end();
}

static void *
hold_and_end(void *context)
{
        struct duel *duel = context;

        pthread_barrier_wait(duel->both);
        CU_ASSERT_EQUAL(weir_promise_hold(duel->promise), 0);
        CU_ASSERT_EQUAL(weir_promise_hold(duel->promise), -EALREADY);
        CU_ASSERT_EQUAL(weir_promise_end(duel->promise, -EIO), 0);
        weir_promise_unref(duel->promise);
        return NULL;
}

static void
a_hold_and_an_end_meet_the_start(void)
{
        weir_test_begin_real(2);
        for (int round = 0; round < 300; round++) {
                struct duel duel = {.cancels = 0};
                pthread_barrier_t both;
                pthread_t thread;

                pthread_barrier_init(&both, NULL, 2);
                duel.both = &both;
                weir_task *promise = weir_test_recorded(weir_promise_new_of(&duel_kind, &duel, weir_test_done, &duel));
                duel.promise = weir_promise_ref(promise);
                pthread_create(&thread, NULL, hold_and_end, &duel);
                pthread_barrier_wait(&both);
                CU_ASSERT_EQUAL(weir_task_run(promise), -EIO);
                pthread_join(thread, NULL);
                WEIR_TEST_CALLED(&duel.record, -EIO);
                CU_ASSERT_EQUAL(duel.cancels, 0);
                pthread_barrier_destroy(&both);
        }
        weir_test_end();
}

/* -- what it has of its own, and what dumps say -- */

static void
only_its_own_kind_finds_what_it_has(void)
{
        begin();
        weir_task *promise = make(), *plain = weir_promise_new(NULL, NULL, NULL), *timer = weir_timer_new(1, NULL, NULL);
        CU_ASSERT_PTR_NULL(weir_promise_own(promise, &other));
        CU_ASSERT_PTR_NULL(weir_promise_own(promise, NULL));
        CU_ASSERT_PTR_NULL(weir_promise_own(plain, &kind));
        CU_ASSERT_PTR_NULL(weir_promise_own(timer, &kind));
        CU_ASSERT_PTR_NULL(weir_promise_own(NULL, &kind));
        CU_ASSERT_EQUAL(weir_promise_hold(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_hold(timer), -EDOM);
        CU_ASSERT_EQUAL(weir_promise_cancelled(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_promise_cancelled(timer), -EDOM);
        weir_task_dismiss(plain);
        weir_task_dismiss(timer);
        weir_task_dismiss(promise);
        finish(promise, NULL);
}

static void
a_kind_of_a_wrong_size_is_refused(void)
{
        static const struct weir_promise_kind wrong = {.size = 1, .free = on_free};

        begin();
        CU_ASSERT_EQUAL(weir_task_start(weir_promise_new_of(&wrong, &own, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(own.frees, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_promise_new_of(NULL, &own, NULL, NULL)), -EINVAL);
        weir_test_end();
}

static void
a_plain_promise_can_be_held(void)
{
        struct weir_test_record record = {0};

        begin();
        weir_task *promise = weir_promise_ref(weir_promise_new(NULL, weir_test_done, &record));
        weir_series *series = series_of(promise);
        CU_ASSERT_EQUAL(weir_promise_hold(promise), 0);
        weir_series_start(series);
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(record.calls, 1);
        weir_promise_unref(promise);
        weir_series_unref(series);
        weir_test_end();
}

static void
what_is_held_and_never_starts_is_cancelled(void)
{
        for (int is_pushed = 0; is_pushed < 2; is_pushed++) {
                begin();
                weir_task *promise = weir_promise_ref(weir_promise_new(NULL, NULL, NULL));

                CU_ASSERT_EQUAL(weir_promise_hold(promise), 0);
                CU_ASSERT_EQUAL(weir_promise_cancelled(promise), 0);
                if (is_pushed) {
                        weir_series *series = series_of(promise);

                        weir_series_dismiss(series);
                        weir_series_unref(series); /* its memory is gone */
                } else {
                        weir_task_dismiss(promise);
                }
                CU_ASSERT_EQUAL(weir_promise_cancelled(promise), -ECANCELED);
                CU_ASSERT_EQUAL(weir_promise_end(promise, 0), -EALREADY);
                weir_promise_unref(promise);
                weir_test_end();
        }
}

static bool
is_in_dump(const char *text)
{
        char dump[8192];
        FILE *file = tmpfile();

        CU_ASSERT_EQUAL(weir_debug_dump(fileno(file)), 0);
        rewind(file);
        dump[fread(dump, 1, sizeof dump - 1, file)] = '\0';
        fclose(file);
        return strstr(dump, text) != NULL;
}

static void
a_dump_says_what_it_describes(void)
{
        for (int within = 0; within < 2; within++) {
                begin();
                weir_task *promise = make();
                weir_promise_set_label(promise, "the oracle");
                weir_series *series = within ? series_of(promise) : NULL;
                if (within)
                        weir_series_start(series);
                else
                        weir_task_start(promise);
                CU_ASSERT(is_in_dump("\"the oracle\""));
                CU_ASSERT(is_in_dump("begun 1 times"));
                weir_promise_end(promise, 0);
                weir_test_pass(0);
                finish(promise, series);
        }
}

/* Its maker may still write to it, on another thread. */
static void
one_that_has_not_begun_is_not_described(void)
{
        begin();
        weir_task *promise = make();
        descriptions = 0;
        CU_ASSERT_FALSE(is_in_dump("begun"));
        CU_ASSERT_EQUAL(descriptions, 0);
        weir_task_start(promise);
        CU_ASSERT(is_in_dump("begun 1 times"));
        CU_ASSERT(descriptions > 0);
        weir_promise_end(promise, 0);
        weir_test_pass(0);
        finish(promise, NULL);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(it_begins_when_its_turn_comes),
                WEIR_TEST(a_start_calls_it_on_its_own_thread),
                WEIR_TEST(an_end_inside_it_counts),
                WEIR_TEST(without_a_start_there_is_no_begin),
                WEIR_TEST(cancelled_before_its_start_it_begins_and_is_cancelled),
                WEIR_TEST(a_cancel_of_what_is_held_comes_too_late),
                WEIR_TEST(held_in_its_begin_it_waits_for_its_end),
                WEIR_TEST(a_hold_behind_a_cancel_fails),
                WEIR_TEST(a_shutdown_waits_for_what_is_held),
                WEIR_TEST(a_hold_or_a_cancel_decides),
                WEIR_TEST(a_hold_and_an_end_meet_the_start),
                WEIR_TEST(only_its_own_kind_finds_what_it_has),
                WEIR_TEST(a_kind_of_a_wrong_size_is_refused),
                WEIR_TEST(a_plain_promise_can_be_held),
                WEIR_TEST(what_is_held_and_never_starts_is_cancelled),
                WEIR_TEST(a_dump_says_what_it_describes),
                WEIR_TEST(one_that_has_not_begun_is_not_described),
        };

        return weir_test_main("promise kind", tests, sizeof tests / sizeof *tests);
}
