/* test/race_test.c: races, of which the first to succeed ends the others. */
#include "test/fixture.h"

#include <errno.h>

#define FAR WEIR_SEC(1000)

/* -- misuse aborts with the reason; these fork, so they come first -- */

static void
add_after_start(void)
{
        weir_task *race = weir_race_new(NULL, NULL);

        weir_race_add(race, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        weir_task_start(race);
        weir_race_add(race, weir_empty_new(NULL, NULL));
}

static void
add_series_after_push(void)
{
        weir_task *race = weir_race_new(NULL, NULL);

        weir_series_push(weir_series_new(NULL, NULL), race);
        weir_race_add_series(race, weir_series_new(NULL, NULL));
}

static void
add_to_another_kind(void)
{
        weir_race_add(weir_parallel_new(NULL, NULL), weir_empty_new(NULL, NULL));
}

static void
add_a_started_task(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_task_start(task);
        weir_race_add(weir_race_new(NULL, NULL), task);
}

static void
add_a_series_twice(void)
{
        weir_task *race = weir_race_new(NULL, NULL);
        weir_series *series = weir_series_new(NULL, NULL);

        weir_race_add_series(race, series);
        weir_race_add_series(race, series);
}

static void
misuse_aborts_with_the_reason(void)
{
        weir_test_aborts(add_after_start, "weir_race_add: race was already started (by weir_task_start)");
        weir_test_aborts(add_series_after_push, "weir_race_add_series: race was already pushed (by weir_series_push)");
        weir_test_aborts(add_to_another_kind, "weir_race_add: expected a race, and was given parallel");
        weir_test_aborts(add_a_started_task, "weir_race_add: ");
        weir_test_aborts(add_a_series_twice, "weir_race_add_series: the series was already added to a race");
}

/* -- the winner -- */

/* The result that the callback of a race has seen. */
struct outcome {
        struct weir_test_record record; /* first */
        int winner;
};

static void
note_outcome(weir_task *race, void *context)
{
        struct outcome *outcome = context;

        outcome->winner = weir_race_winner(race);
        weir_test_note(&outcome->record, weir_task_status(race));
}

/* A function that ends with that status. */
static void
fail_function(void *context)
{
        weir_go_fail(*(int *)context);
}

static weir_task *
failing(int *status)
{
        return weir_go_new(NULL, fail_function, NULL, status);
}

static weir_series *
after(weir_nsec delay, weir_task *task)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_timer_new(delay, NULL, NULL));
        weir_series_push(series, task);
        return series;
}

static void
first_that_succeeds_wins_and_the_others_are_cancelled(void)
{
        struct weir_test_record slow = {0}, fast = {0}, middle = {0};
        struct outcome outcome = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_task *race = weir_test_recorded(weir_race_new(note_outcome, &outcome));
        CU_ASSERT_EQUAL(weir_race_winner(race), -ENOENT);
        weir_race_add(race, weir_test_timer(FAR, &slow));
        weir_race_add(race, weir_test_timer(WEIR_SEC(1), &fast));
        weir_race_add(race, weir_test_timer(WEIR_SEC(2), &middle));
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        WEIR_TEST_CALLED(&fast, 0);
        WEIR_TEST_CALLED(&slow, -ECANCELED);
        WEIR_TEST_CALLED(&middle, -ECANCELED);
        WEIR_TEST_CALLED(&outcome.record, 0);
        CU_ASSERT_EQUAL(outcome.winner, 1);
        CU_ASSERT_EQUAL(outcome.record.at, began + WEIR_SEC(1));
        weir_test_end();
}

/* All expire at the same instant, and are ready when the first one's callback runs.  Tasks inside the losers see it as well. */
static void
losers_of_the_same_instant_see_that_they_have_lost(void)
{
        struct weir_test_record records[100] = {{0}}, inside = {0}, knot = {0};
        struct outcome outcome = {0};

        weir_test_begin_virtual();
        weir_task *race = weir_race_new(note_outcome, &outcome), *parallel = weir_parallel_new(weir_test_done, &knot);
        for (unsigned i = 0; i < 100; i++) {
                weir_race_add(race, weir_test_timer(WEIR_SEC(1), &records[i]));
        }
        weir_parallel_add(parallel, weir_test_timer(WEIR_SEC(1), &inside));
        weir_race_add(race, parallel);
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        WEIR_TEST_CALLED(&records[0], 0);
        for (unsigned i = 1; i < 100; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
        WEIR_TEST_CALLED(&inside, -ECANCELED);
        CU_ASSERT_EQUAL(knot.status, -ECANCELED);
        CU_ASSERT_EQUAL(outcome.winner, 0);
        weir_test_end();
}

/* The first batch of children holds the winner: those of the next are never started. */
static void
children_not_yet_started_are_dropped(void)
{
        struct weir_test_record first = {0}, rest[300] = {{0}};
        struct outcome outcome = {0};
        unsigned dropped = 0;

        weir_test_begin_virtual();
        weir_task *race = weir_race_new(note_outcome, &outcome);
        weir_race_add(race, weir_test_empty(&first));
        for (unsigned i = 0; i < 300; i++) {
                weir_race_add(race, weir_test_timer(FAR, &rest[i]));
        }
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        WEIR_TEST_CALLED(&first, 0);
        for (unsigned i = 0; i < 300; i++) {
                CU_ASSERT_EQUAL(rest[i].frees, 1);
                CU_ASSERT(rest[i].calls == 0 || rest[i].status == -ECANCELED);
                dropped += rest[i].calls == 0;
        }
        CU_ASSERT(dropped >= 200);
        CU_ASSERT_EQUAL(outcome.winner, 0);
        weir_test_end();
}

static void
one_that_fails_does_not_win(void)
{
        struct weir_test_record good = {0};
        struct outcome outcome = {0};
        int status = -EIO;

        weir_test_begin_virtual();
        weir_task *race = weir_race_new(note_outcome, &outcome);
        weir_race_add(race, failing(&status));
        weir_race_add(race, weir_test_timer(WEIR_SEC(5), &good));
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        WEIR_TEST_CALLED(&good, 0);
        CU_ASSERT_EQUAL(outcome.winner, 1);
        weir_test_end();
}

static void
when_all_fail_the_status_is_that_of_the_first_in_order_of_adding(void)
{
        struct outcome outcome = {0};
        int statuses[3] = {-EIO, -EPIPE, -ENODATA};

        weir_test_begin_virtual();
        weir_task *race = weir_race_new(note_outcome, &outcome);
        weir_race_add_series(race, after(WEIR_SEC(3), failing(&statuses[0])));
        weir_race_add_series(race, after(WEIR_SEC(1), failing(&statuses[1])));
        weir_race_add_series(race, after(WEIR_SEC(2), failing(&statuses[2])));
        CU_ASSERT_EQUAL(weir_task_run(race), -EIO);
        CU_ASSERT_EQUAL(outcome.record.calls, 1);
        CU_ASSERT_EQUAL(outcome.record.status, -EIO);
        CU_ASSERT_EQUAL(outcome.winner, -ENOENT);
        weir_test_end();
}

/* The second request of a hedge fails: the delay before it, which went well, must not win the race for it. */
static void
series_succeeds_when_its_last_task_does(void)
{
        struct weir_test_record good = {0};
        struct outcome outcome = {0};
        int status = -EIO;

        weir_test_begin_virtual();
        for (unsigned only_failing = 0; only_failing < 2; only_failing++) {
                weir_task *race = weir_race_new(note_outcome, &outcome);
                weir_series *recovered = weir_series_new(NULL, NULL);

                weir_race_add_series(race, after(WEIR_SEC(1), failing(&status)));
                weir_series_push(recovered, failing(&status));
                weir_series_push(recovered, weir_test_timer(WEIR_SEC(9), &good));
                if (only_failing) {
                        weir_series_dismiss(recovered);
                } else {
                        weir_race_add_series(race, recovered);
                }
                CU_ASSERT_EQUAL(weir_task_run(race), only_failing ? -EIO : 0);
                CU_ASSERT_EQUAL(outcome.winner, only_failing ? -ENOENT : 1);
        }
        weir_test_end();
}

static void
cancel_own_series(weir_task *task, void *context)
{
        (void)context;
        weir_series_cancel(weir_series_of(task));
}

static void
series_that_was_cancelled_does_not_win(void)
{
        struct weir_test_record good = {0};
        struct outcome outcome = {0};

        weir_test_begin_virtual();
        weir_task *race = weir_race_new(note_outcome, &outcome);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_empty_new(cancel_own_series, NULL));
        weir_race_add_series(race, series);
        weir_race_add(race, weir_test_timer(WEIR_SEC(1), &good));
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        CU_ASSERT_EQUAL(outcome.winner, 1);
        weir_test_end();
}

static void
race_without_children_ends_with_enoent(void)
{
        struct outcome alone = {0}, in_series = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_race_new(note_outcome, &alone))), 0);
        weir_test_wait_freed(&alone.record);
        WEIR_TEST_CALLED(&alone.record, -ENOENT);
        CU_ASSERT_EQUAL(alone.winner, -ENOENT);
        CU_ASSERT_EQUAL(weir_task_run(weir_race_new(note_outcome, &in_series)), -ENOENT);
        weir_test_end();
}

static void
winner_of_what_is_no_race_is_edom(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        CU_ASSERT_EQUAL(weir_race_winner(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_race_winner(parallel), -EDOM);
        weir_task_dismiss(parallel);
}

/* -- hedged requests -- */

static weir_task *
request(weir_nsec takes, struct weir_test_record *record)
{
        return weir_test_timer(takes, record);
}

/* docs/flows.md quotes this. */
static weir_task *
hedged(weir_task *first, weir_task *second, weir_task_fn *done, void *context)
{
        weir_task *race = weir_race_new(done, context);

        weir_race_add(race, first);
        weir_race_add_series(race, after(WEIR_MSEC(50), second));
        return race;
}

static void
hedged_request_asks_again_only_when_the_first_is_late(void)
{
        weir_test_begin_virtual();
        for (unsigned slow = 0; slow < 2; slow++) {
                struct weir_test_record first = {0}, second = {0};
                struct outcome outcome = {0};
                weir_nsec began = weir_now();

                CU_ASSERT_EQUAL(weir_task_run(hedged(request(slow ? FAR : WEIR_MSEC(20), &first), request(WEIR_MSEC(20), &second),
                                                     note_outcome, &outcome)),
                                0);
                CU_ASSERT_EQUAL(outcome.winner, slow ? 1 : 0);
                CU_ASSERT_EQUAL(outcome.record.at, began + WEIR_MSEC(slow ? 70 : 20));
                CU_ASSERT_EQUAL(first.status, slow ? -ECANCELED : 0);
                CU_ASSERT_EQUAL(second.calls, slow ? 1 : 0);
                CU_ASSERT_EQUAL(second.frees, 1);
        }
        weir_test_end();
}

/* -- nesting, cancel, shutdown -- */

static void
race_in_a_race_is_won_by_the_innermost(void)
{
        struct weir_test_record timers[4] = {{0}};
        struct outcome inner[2] = {{{0}, 0}}, outer = {0};

        weir_test_begin_virtual();
        weir_task *race = weir_race_new(note_outcome, &outer);
        for (unsigned i = 0; i < 2; i++) {
                weir_task *within = weir_race_new(note_outcome, &inner[i]);

                weir_race_add(within, weir_test_timer(WEIR_SEC(10 - i), &timers[2 * i]));
                weir_race_add(within, weir_test_timer(WEIR_SEC(5 - i), &timers[2 * i + 1]));
                weir_race_add(race, within);
        }
        CU_ASSERT_EQUAL(weir_task_run(race), 0);
        CU_ASSERT_EQUAL(outer.winner, 1);
        CU_ASSERT_EQUAL(inner[1].winner, 1);
        CU_ASSERT_EQUAL(inner[1].record.status, 0);
        CU_ASSERT_EQUAL(inner[0].record.status, -ECANCELED);
        CU_ASSERT_EQUAL(inner[0].winner, -ENOENT);
        for (unsigned i = 0; i < 4; i++) {
                WEIR_TEST_CALLED(&timers[i], i == 3 ? 0 : -ECANCELED);
        }
        weir_test_end();
}

static void
cancel_of_its_series_ends_all_children(void)
{
        struct weir_test_record children[3] = {{0}}, end = {0};
        struct outcome outcome = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_task *race = weir_race_new(note_outcome, &outcome);
        for (unsigned i = 0; i < 3; i++) {
                weir_race_add(race, weir_test_timer(FAR, &children[i]));
        }
        weir_series_push(series, race);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(WEIR_SEC(1));
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&children[i], -ECANCELED);
                CU_ASSERT_EQUAL(children[i].at, began + WEIR_SEC(1));
        }
        CU_ASSERT_EQUAL(outcome.record.status, -ECANCELED);
        CU_ASSERT_EQUAL(outcome.winner, -ENOENT);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
}

static void
cancel_context(weir_task *task, void *context)
{
        (void)task;
        weir_series_cancel(context);
}

/* Those of the race are ready when the series around it is cancelled, at the same instant. */
static void
cancel_of_its_series_is_decisive_for_children_that_are_ready(void)
{
        struct weir_test_record children[3] = {{0}};
        struct outcome outcome = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_task *parallel = weir_parallel_new(NULL, NULL), *race = weir_race_new(note_outcome, &outcome);
        for (unsigned i = 0; i < 3; i++) {
                weir_race_add(race, weir_test_timer(WEIR_SEC(1), &children[i]));
        }
        weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(1), cancel_context, series));
        weir_parallel_add(parallel, race);
        weir_series_push(series, parallel);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&children[i], -ECANCELED);
        }
        CU_ASSERT_EQUAL(outcome.winner, -ENOENT);
        CU_ASSERT_EQUAL(outcome.record.status, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
}

static void
note_time_left(weir_task *task, void *context)
{
        *(weir_nsec *)context = weir_series_time_left(weir_series_of(task));
}

static void
children_inherit_the_deadline_of_the_series_around_the_race(void)
{
        struct weir_test_record child = {0};
        struct outcome outcome = {0};
        int status = -EIO;
        weir_nsec left = 0;

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL), *late = after(WEIR_SEC(1), weir_empty_new(note_time_left, &left));
        weir_task *race = weir_race_new(note_outcome, &outcome);
        weir_series_push(late, failing(&status));
        weir_race_add(race, weir_test_timer(FAR, &child));
        weir_race_add_series(race, late);
        weir_series_push(series, race);
        weir_series_set_deadline(series, WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        CU_ASSERT_EQUAL(left, WEIR_SEC(4));
        WEIR_TEST_CALLED(&child, -ETIMEDOUT);
        CU_ASSERT_EQUAL(outcome.record.status, -ETIMEDOUT);
        weir_test_end();
}

/* Ends that by its deadline, at once. */
static void
time_out(weir_task *task, void *context)
{
        (void)task;
        weir_series_set_deadline(context, 0);
}

static void
a_win_after_the_deadline_does_not_change_why_the_others_end(void)
{
        struct weir_test_record loser = {0};
        struct outcome outcome = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *race = weir_race_new(note_outcome, &outcome);
        weir_race_add(race, weir_timer_new(WEIR_SEC(1), time_out, series));
        weir_race_add(race, weir_test_timer(WEIR_SEC(1), &loser));
        weir_series_push(series, race);
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        WEIR_TEST_CALLED(&loser, -ETIMEDOUT);
        CU_ASSERT_EQUAL(outcome.winner, 0);
        CU_ASSERT_EQUAL(outcome.record.status, -ETIMEDOUT);
        weir_test_end();
}

static void
cancel_before_the_start_drops_a_race_with_its_children(void)
{
        struct weir_test_record child = {0}, end = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *race = weir_test_recorded(weir_race_new(weir_test_done, &end));
        weir_race_add(race, weir_test_timer(FAR, &child));
        weir_series_push(series, race);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        WEIR_TEST_NOT_CALLED(&child);
        WEIR_TEST_NOT_CALLED(&end);
        weir_test_end();
}

static void
shutdown_ends_children_and_race_with_eshutdown(void)
{
        struct weir_test_record children[2] = {{0}};
        struct outcome alone = {0}, in_series = {0};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2; i++) {
                weir_task *race = weir_race_new(note_outcome, i ? &in_series : &alone);

                weir_race_add(race, weir_test_timer(FAR, &children[i]));
                if (i) {
                        weir_series *series = weir_series_new(NULL, NULL);

                        weir_series_push(series, race);
                        CU_ASSERT_EQUAL(weir_series_start(series), 0);
                } else {
                        CU_ASSERT_EQUAL(weir_task_start(race), 0);
                }
        }
        weir_test_pass(WEIR_SEC(1));
        weir_test_end();
        for (unsigned i = 0; i < 2; i++) {
                WEIR_TEST_CALLED(&children[i], -ESHUTDOWN);
        }
        CU_ASSERT_EQUAL(alone.record.status, -ESHUTDOWN);
        CU_ASSERT_EQUAL(in_series.record.status, -ESHUTDOWN);
}

/* -- poison -- */

static void
null_or_wrong_child_poisons_and_nothing_runs(void)
{
        weir_test_begin_virtual();
        for (unsigned kind = 0; kind < 3; kind++) {
                struct weir_test_record task = {0}, wrong = {0}, end = {0};
                weir_task *race = weir_test_recorded(weir_race_new(weir_test_done, &end));

                weir_race_add(race, weir_test_empty(&task));
                if (kind == 0) {
                        weir_race_add(race, NULL);
                } else if (kind == 1) {
                        weir_race_add_series(race, NULL);
                } else {
                        weir_race_add(race, weir_test_named("", 0, &wrong));
                }
                CU_ASSERT_EQUAL(weir_task_run(race), kind == 2 ? -EINVAL : -ENOMEM);
                WEIR_TEST_NOT_CALLED(&task);
                WEIR_TEST_NOT_CALLED(&end);
        }
        weir_test_end();
}

static void
adding_to_null_dismisses_the_child(void)
{
        struct weir_test_record task = {0}, in_series = {0};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_test_empty(&in_series));
        weir_race_add(NULL, weir_test_empty(&task));
        weir_race_add_series(NULL, series);
        weir_race_add(NULL, NULL);
        weir_race_add_series(NULL, NULL);
        WEIR_TEST_NOT_CALLED(&task);
        WEIR_TEST_NOT_CALLED(&in_series);
}

static void
dismissed_race_frees_its_children_on_the_caller(void)
{
        struct weir_test_record task = {0}, end = {0};
        weir_task *race = weir_test_recorded(weir_race_new(weir_test_done, &end));

        weir_race_add(race, weir_test_empty(&task));
        weir_task_dismiss(race);
        WEIR_TEST_NOT_CALLED(&task);
        WEIR_TEST_NOT_CALLED(&end);
        WEIR_TEST_FREED_HERE(&task);
}

/* -- storms -- */

static struct {
        weir_series *outer;
        pthread_barrier_t barrier;
} torn;

static void *
cancel_somewhere(void *argument)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned rounds = *(unsigned *)argument;

        for (unsigned i = 0; i < rounds; i++) {
                pthread_barrier_wait(&torn.barrier);
                for (unsigned looks = (unsigned)weir_test_random_below(&random, 200); looks > 0; looks--) {
                        (void)weir_series_status(torn.outer);
                }
                if (i % 2) {
                        weir_series_cancel(torn.outer);
                }
                pthread_barrier_wait(&torn.barrier);
        }
        return NULL;
}

struct tally {
        _Atomic unsigned calls, good;
};

static void
count(weir_task *task, void *context)
{
        struct tally *tally = context;

        tally->calls++;
        tally->good += weir_task_status(task) == 0;
}

/* A race of races, parallels and functions on three workers, half of them cancelled from outside. */
static weir_task *
thicket(struct tally *leaves, struct tally *races)
{
        weir_task *race = weir_race_new(count, races);

        for (unsigned i = 0; i < 4; i++) {
                weir_task *inner = i % 2 ? weir_race_new(count, races) : weir_parallel_new(NULL, NULL);

                for (unsigned j = 0; j < 5; j++) {
                        weir_task *leaf = j % 2 ? weir_empty_new(count, leaves) : weir_timer_new(j * 1000, count, leaves);

                        if (i % 2) {
                                weir_race_add(inner, leaf);
                        } else {
                                weir_parallel_add(inner, leaf);
                        }
                }
                weir_race_add(race, inner);
                weir_race_add_series(race, after((weir_nsec)i * 500, weir_empty_new(count, leaves)));
        }
        return race;
}

static void
races_are_won_and_cancelled_on_many_threads(void)
{
        unsigned rounds = WEIR_TEST_SANITIZED ? 300 : 3000;
        pthread_t thread;

        weir_test_begin_real(3);
        pthread_barrier_init(&torn.barrier, NULL, 2);
        pthread_create(&thread, NULL, cancel_somewhere, &rounds);
        for (unsigned round = 0; round < rounds; round++) {
                struct tally leaves = {0}, races = {0};
                struct outcome outcome = {0};

                torn.outer = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *race = weir_race_new(note_outcome, &outcome);
                weir_race_add(race, thicket(&leaves, &races));
                weir_race_add(race, weir_timer_new(FAR, count, &leaves));
                weir_series_push(torn.outer, race);
                pthread_barrier_wait(&torn.barrier);
                int status = weir_series_run(torn.outer);
                pthread_barrier_wait(&torn.barrier);
                CU_ASSERT(status == 0 || (status == -ECANCELED && round % 2));
                CU_ASSERT(leaves.calls <= 25);
                if (status == 0) {
                        CU_ASSERT_EQUAL(outcome.winner, 0);
                        CU_ASSERT(leaves.good >= 1);
                        CU_ASSERT(races.good >= 1);
                }
                weir_series_unref(torn.outer);
        }
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&torn.barrier);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(misuse_aborts_with_the_reason),
                WEIR_TEST(first_that_succeeds_wins_and_the_others_are_cancelled),
                WEIR_TEST(losers_of_the_same_instant_see_that_they_have_lost),
                WEIR_TEST(children_not_yet_started_are_dropped),
                WEIR_TEST(one_that_fails_does_not_win),
                WEIR_TEST(when_all_fail_the_status_is_that_of_the_first_in_order_of_adding),
                WEIR_TEST(series_succeeds_when_its_last_task_does),
                WEIR_TEST(series_that_was_cancelled_does_not_win),
                WEIR_TEST(race_without_children_ends_with_enoent),
                WEIR_TEST(winner_of_what_is_no_race_is_edom),
                WEIR_TEST(hedged_request_asks_again_only_when_the_first_is_late),
                WEIR_TEST(race_in_a_race_is_won_by_the_innermost),
                WEIR_TEST(cancel_of_its_series_ends_all_children),
                WEIR_TEST(cancel_of_its_series_is_decisive_for_children_that_are_ready),
                WEIR_TEST(children_inherit_the_deadline_of_the_series_around_the_race),
                WEIR_TEST(a_win_after_the_deadline_does_not_change_why_the_others_end),
                WEIR_TEST(cancel_before_the_start_drops_a_race_with_its_children),
                WEIR_TEST(shutdown_ends_children_and_race_with_eshutdown),
                WEIR_TEST(null_or_wrong_child_poisons_and_nothing_runs),
                WEIR_TEST(adding_to_null_dismisses_the_child),
                WEIR_TEST(dismissed_race_frees_its_children_on_the_caller),
                WEIR_TEST(races_are_won_and_cancelled_on_many_threads),
        };

        return weir_test_main("race", tests, sizeof tests / sizeof *tests);
}
