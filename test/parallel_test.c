/* test/parallel_test.c: parallels of tasks and of series. */
#include "test/fixture.h"

#include <errno.h>

#define FAR WEIR_SEC(1000)

/* -- misuse aborts with the reason; these fork, so they come first -- */

static weir_task *
endless_parallel(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add(parallel, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        return parallel;
}

static void
add_after_start(void)
{
        weir_task *parallel = endless_parallel();

        weir_task_start(parallel);
        weir_parallel_add(parallel, weir_empty_new(NULL, NULL));
}

static void
add_series_after_push(void)
{
        weir_task *parallel = endless_parallel();

        weir_series_push(weir_series_new(NULL, NULL), parallel);
        weir_parallel_add_series(parallel, weir_series_new(NULL, NULL));
}

static void
add_to_another_kind(void)
{
        weir_parallel_add(weir_timer_new(0, NULL, NULL), weir_empty_new(NULL, NULL));
}

static void
add_a_series_twice(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_series *series = weir_series_new(NULL, NULL);

        weir_parallel_add_series(parallel, series);
        weir_parallel_add_series(parallel, series);
}

static void
start_an_added_series(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_parallel_add_series(weir_parallel_new(NULL, NULL), series);
        weir_series_start(series);
}

static void
dismiss_an_added_series(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_parallel_add_series(weir_parallel_new(NULL, NULL), series);
        weir_series_dismiss(series);
}

static void
add_a_started_task(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_task_start(task);
        weir_parallel_add(weir_parallel_new(NULL, NULL), task);
}

static void
misuse_aborts_with_the_reason(void)
{
        weir_test_aborts(add_after_start, "weir_parallel_add: parallel was already started (by weir_task_start)");
        weir_test_aborts(add_series_after_push, "weir_parallel_add_series: parallel was already pushed (by weir_series_push)");
        weir_test_aborts(add_to_another_kind, "weir_parallel_add: expected a parallel, and was given ");
        weir_test_aborts(add_a_series_twice, "weir_parallel_add_series: the series was already added to a parallel");
        weir_test_aborts(start_an_added_series, "weir_series_start: the series was already added to a parallel");
        weir_test_aborts(dismiss_an_added_series, "weir_series_dismiss: the series was already added to a parallel");
        weir_test_aborts(add_a_started_task, "weir_parallel_add: ");
}

/* -- running -- */

static void
children_run_at_once_and_the_callback_comes_when_all_ended(void)
{
        struct weir_test_record tasks[4] = {0}, series_tasks[3] = {0}, series_end = {0}, end = {0};
        _Atomic unsigned counter = 0;
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        end.counter = &counter;
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &end));
        for (unsigned i = 0; i < 4; i++) {
                tasks[i].counter = &counter;
                weir_parallel_add(parallel, weir_test_timer(WEIR_SEC(4 - i), &tasks[i]));
        }
        weir_series *series = weir_series_new(weir_test_series_done, &series_end);
        for (unsigned i = 0; i < 3; i++) {
                series_tasks[i].counter = &counter;
                weir_series_push(series, weir_test_timer(WEIR_SEC(2), &series_tasks[i]));
        }
        weir_parallel_add_series(parallel, series);
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        for (unsigned i = 0; i < 4; i++) {
                WEIR_TEST_CALLED(&tasks[i], 0);
                CU_ASSERT_EQUAL(tasks[i].at, began + WEIR_SEC(4 - i));
        }
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&series_tasks[i], 0);
        }
        CU_ASSERT_EQUAL(series_end.calls, 1);
        WEIR_TEST_CALLED(&end, 0);
        CU_ASSERT_EQUAL(end.at, began + WEIR_SEC(6));
        CU_ASSERT_EQUAL(end.order, 7);
        weir_test_end();
}

static void
see_children_freed(weir_task *task, void *context)
{
        struct weir_test_record *records = context;

        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(records[i].frees, 1);
        }
        CU_ASSERT_EQUAL(weir_task_status(task), 0);
}

static void
children_are_freed_before_its_callback(void)
{
        weir_test_begin_real(2);
        for (unsigned round = 0; round < 50; round++) {
                struct weir_test_record records[100] = {0};
                weir_task *parallel = weir_parallel_new(see_children_freed, records);

                for (unsigned i = 0; i < 100; i++) {
                        weir_parallel_add(parallel, i % 2 ? weir_test_timer(0, &records[i]) : weir_test_empty(&records[i]));
                }
                CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        }
        weir_test_end();
}

static void
poison_own_series(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), NULL), -ENOMEM);
}

/* The third child fails first in time, the second is the first that fails in order of adding; the first ends well, and last. */
static void
status_is_that_of_the_first_child_that_failed_in_order_of_adding(void)
{
        struct weir_test_record end = {0}, cancelled = {0};

        weir_test_begin_virtual();
        for (unsigned later = 0; later < 2; later++) {
                weir_task *parallel = weir_parallel_new(weir_test_done, &end);
                weir_series *series = weir_series_new(NULL, NULL);

                end.calls = 0;
                weir_series_push(series, weir_timer_new(WEIR_SEC(2), poison_own_series, NULL));
                weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(3), NULL, NULL));
                if (!later) {
                        weir_parallel_add_series(parallel, series);
                }
                weir_parallel_add(parallel, weir_timer_new_named("child", FAR, weir_test_done, &cancelled));
                if (later) {
                        weir_parallel_add_series(parallel, series);
                }
                weir_timer_cancel("child", WEIR_ALL);
                CU_ASSERT_EQUAL(weir_task_run(parallel), later ? -ECANCELED : -ENOMEM);
                CU_ASSERT_EQUAL(end.calls, 1);
                CU_ASSERT_EQUAL(end.status, later ? -ECANCELED : -ENOMEM);
                CU_ASSERT_EQUAL(cancelled.status, -ECANCELED);
        }
        weir_test_end();
}

static void
push_cancelled_timer(weir_task *task, void *context)
{
        weir_task *timer = weir_timer_new_named("pushed", FAR, weir_test_done, context);

        CU_ASSERT_EQUAL(weir_timer_cancel("pushed", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), timer), 0);
}

static void
status_of_a_child_task_is_its_own_or_what_poisoned_its_series(void)
{
        struct weir_test_record end = {0}, pushed = {0};

        weir_test_begin_virtual();
        weir_task *parallel = weir_parallel_new(weir_test_done, &end);
        weir_parallel_add(parallel, weir_empty_new(push_cancelled_timer, &pushed));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(end.status, 0);
        CU_ASSERT_EQUAL(pushed.status, -ECANCELED);
        parallel = weir_parallel_new(weir_test_done, &end);
        weir_parallel_add(parallel, weir_empty_new(poison_own_series, NULL));
        CU_ASSERT_EQUAL(weir_task_run(parallel), -ENOMEM);
        CU_ASSERT_EQUAL(end.status, -ENOMEM);
        weir_test_end();
}

static void
empty_parallel_ends_at_once_on_a_worker(void)
{
        struct weir_test_record alone = {0}, in_series = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_parallel_new(weir_test_done, &alone))), 0);
        weir_test_wait_freed(&alone);
        WEIR_TEST_CALLED(&alone, 0);
        CU_ASSERT(!pthread_equal(alone.on, pthread_self()));
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_parallel_new(weir_test_done, &in_series))), 0);
        WEIR_TEST_CALLED(&in_series, 0);
        weir_test_end();
}

/* `width` children a level, `depth` levels; tasks and series by turns; timers at the bottom. */
static weir_task *
nest(unsigned depth, unsigned width, weir_nsec after, weir_task_fn *leaf, weir_task_fn *knot, void *context)
{
        weir_task *parallel = weir_parallel_new(knot, context);

        for (unsigned i = 0; i < width; i++) {
                weir_task *child = depth > 1 ? nest(depth - 1, width, after, leaf, knot, context)
                                             : weir_timer_new(after, leaf, context);

                if (i % 2) {
                        weir_parallel_add(parallel, child);
                } else {
                        weir_series *series = weir_series_new(NULL, NULL);

                        weir_series_push(series, child);
                        weir_series_push(series, weir_empty_new(NULL, NULL));
                        weir_parallel_add_series(parallel, series);
                }
        }
        return parallel;
}

struct tally {
        _Atomic unsigned leaves, knots, cancelled_leaves, cancelled_knots;
        weir_series *series;
        unsigned cancel_at; /* the leaf that cancels the series */
};

static void
count_leaf(weir_task *task, void *context)
{
        struct tally *tally = context;

        if (atomic_fetch_add(&tally->leaves, 1) + 1 == tally->cancel_at) {
                weir_series_cancel(tally->series);
        }
        atomic_fetch_add(&tally->cancelled_leaves, weir_task_status(task) == -ECANCELED);
}

static void
count_knot(weir_task *task, void *context)
{
        struct tally *tally = context;

        atomic_fetch_add(&tally->knots, 1);
        atomic_fetch_add(&tally->cancelled_knots, weir_task_status(task) == -ECANCELED);
}

static void
nested_parallels_end_from_the_inside_out(void)
{
        for (unsigned is_real = 0; is_real < 2; is_real++) {
                struct tally tally = {0};

                if (is_real) {
                        weir_test_begin_real(2);
                } else {
                        weir_test_begin_virtual();
                }
                CU_ASSERT_EQUAL(weir_task_run(nest(6, 4, is_real ? 0 : WEIR_SEC(1), count_leaf, count_knot, &tally)), 0);
                CU_ASSERT_EQUAL(tally.leaves, 4 * 4 * 4 * 4 * 4 * 4);
                CU_ASSERT_EQUAL(tally.knots, 1 + 4 + 16 + 64 + 256 + 1024);
                CU_ASSERT_EQUAL(tally.cancelled_knots, 0);
                weir_test_end();
        }
}

static void
children_may_start_on_any_thread_and_end_on_any_worker(void)
{
        enum { CHILDREN = 20000 };
        struct tally tally = {0};

        weir_test_begin_real(3);
        weir_task *parallel = weir_parallel_new(count_knot, &tally);
        for (unsigned i = 0; i < CHILDREN; i++) {
                weir_parallel_add(parallel,
                                  i % 2 ? weir_timer_new(i % 1000, count_leaf, &tally) : weir_empty_new(count_leaf, &tally));
        }
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(tally.leaves, CHILDREN);
        CU_ASSERT_EQUAL(tally.knots, 1);
        weir_test_end();
}

/* -- poison -- */

static void
null_or_wrong_child_poisons_and_nothing_runs(void)
{
        weir_test_begin_virtual();
        for (unsigned kind = 0; kind < 4; kind++) {
                struct weir_test_record task = {0}, in_series = {0}, wrong = {0}, end = {0}, series_end = {0};
                weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &end));
                weir_series *series = weir_series_new(weir_test_series_done, &series_end);
                int fault = -ENOMEM;

                weir_series_push(series, weir_test_empty(&in_series));
                weir_parallel_add(parallel, weir_test_empty(&task));
                weir_parallel_add_series(parallel, series);
                if (kind == 0) {
                        weir_parallel_add(parallel, NULL);
                } else if (kind == 1) {
                        weir_parallel_add_series(parallel, NULL);
                } else if (kind == 2) {
                        weir_series *poisoned = weir_series_new(NULL, NULL);

                        weir_series_push(poisoned, weir_test_empty(&wrong));
                        weir_series_push(poisoned, NULL);
                        weir_parallel_add_series(parallel, poisoned);
                } else {
                        weir_parallel_add(parallel, weir_test_named("", 0, &wrong));
                        fault = -EINVAL;
                }
                weir_parallel_add(parallel, NULL); /* the first fault is the one reported */
                CU_ASSERT_EQUAL(wrong.frees, kind >= 2);
                CU_ASSERT_EQUAL(kind % 2 ? weir_task_run(parallel) : weir_task_start(parallel), fault);
                WEIR_TEST_NOT_CALLED(&task);
                WEIR_TEST_NOT_CALLED(&in_series);
                WEIR_TEST_NOT_CALLED(&end);
                WEIR_TEST_FREED_HERE(&in_series);
                CU_ASSERT_EQUAL(series_end.calls, 0);
        }
        weir_test_end();
}

static void
poisoned_parallel_poisons_the_series_it_is_pushed_into(void)
{
        struct weir_test_record task = {0}, child = {0};
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_parallel_add(parallel, weir_test_empty(&child));
        weir_parallel_add(parallel, NULL);
        weir_series_push(series, weir_test_empty(&task));
        CU_ASSERT_EQUAL(weir_series_push(series, parallel), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&child);
        CU_ASSERT_EQUAL(weir_series_run(series), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&task);
        weir_test_end();
}

static void
adding_to_null_dismisses_the_child(void)
{
        struct weir_test_record task = {0}, in_series = {0};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_test_empty(&in_series));
        weir_parallel_add(NULL, weir_test_empty(&task));
        weir_parallel_add_series(NULL, series);
        weir_parallel_add(NULL, NULL);
        weir_parallel_add_series(NULL, NULL);
        WEIR_TEST_NOT_CALLED(&task);
        WEIR_TEST_NOT_CALLED(&in_series);
}

static void
dismissed_parallel_frees_its_children_on_the_caller(void)
{
        struct weir_test_record task = {0}, in_series = {0}, end = {0}, context = {0};
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &end));
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_test_empty(&in_series));
        weir_series_set_context(series, &context, weir_test_freed);
        weir_parallel_add_series(parallel, series);
        weir_parallel_add(parallel, weir_test_empty(&task));
        weir_task_dismiss(parallel);
        WEIR_TEST_NOT_CALLED(&task);
        WEIR_TEST_NOT_CALLED(&in_series);
        WEIR_TEST_NOT_CALLED(&end);
        WEIR_TEST_FREED_HERE(&task);
        WEIR_TEST_FREED_HERE(&in_series);
        WEIR_TEST_FREED_HERE(&context);
}

static void
parallels_nested_deeply_are_dismissed_in_constant_stack(void)
{
        struct weir_test_record innermost = {0};
        weir_task *nested = weir_test_empty(&innermost);

        for (unsigned depth = 0; depth < (WEIR_TEST_SANITIZED ? 20000 : 400000); depth++) {
                weir_task *outer = weir_parallel_new(NULL, NULL);

                weir_parallel_add(outer, nested);
                nested = outer;
        }
        weir_task_dismiss(nested);
        WEIR_TEST_NOT_CALLED(&innermost);
        WEIR_TEST_FREED_HERE(&innermost);
}

/* -- cancel -- */

static void
cancel_of_the_outer_series_reaches_the_pending_timers_of_grandchildren(void)
{
        struct weir_test_record end = {0}, rest = {0};
        struct tally tally = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(series, nest(4, 5, FAR, count_leaf, count_knot, &tally));
        weir_series_push(series, weir_test_empty(&rest));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(WEIR_SEC(1)); /* all of them pend now */
        weir_series_cancel(series);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        CU_ASSERT_EQUAL(end.at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        CU_ASSERT_EQUAL(tally.leaves, 5 * 5 * 5 * 5);
        CU_ASSERT_EQUAL(tally.cancelled_leaves, tally.leaves);
        CU_ASSERT_EQUAL(tally.knots, 1 + 5 + 25 + 125);
        CU_ASSERT_EQUAL(tally.cancelled_knots, tally.knots);
        WEIR_TEST_NOT_CALLED(&rest);
        weir_series_unref(series);
        weir_test_end();
}

/* The leaves come one after another at the same instant: those behind the one that cancels are ready, and see it all the same. */
static void
cancel_by_a_grandchild_is_decisive_for_those_whose_callback_has_not_begun(void)
{
        struct weir_test_record end = {0};
        struct tally tally = {.cancel_at = 100};

        weir_test_begin_virtual();
        tally.series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(tally.series, nest(4, 5, WEIR_SEC(1), count_leaf, count_knot, &tally));
        CU_ASSERT_EQUAL(weir_series_run(tally.series), -ECANCELED);
        CU_ASSERT_EQUAL(tally.leaves, 5 * 5 * 5 * 5);
        CU_ASSERT_EQUAL(tally.cancelled_leaves, tally.leaves - 100);
        CU_ASSERT_EQUAL(tally.knots, 1 + 5 + 25 + 125);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        weir_series_unref(tally.series);
        weir_test_end();
}

static void
cancel_before_the_start_drops_a_parallel_with_its_children(void)
{
        struct weir_test_record child = {0}, end = {0}, series_end = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(weir_test_series_done, &series_end);
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &end));
        weir_parallel_add(parallel, weir_test_timer(FAR, &child));
        weir_series_push(series, parallel);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        WEIR_TEST_NOT_CALLED(&child);
        WEIR_TEST_NOT_CALLED(&end);
        CU_ASSERT_EQUAL(series_end.calls, 1);
        weir_test_end();
}

/* A cancel of one child, through a reference, leaves the others alone. */
static void
cancel_of_a_child_series_ends_that_child_only(void)
{
        struct weir_test_record first = {0}, second = {0}, end = {0};

        weir_test_begin_virtual();
        weir_series *child = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_series_push(child, weir_test_timer(FAR, &first));
        weir_parallel_add(parallel, weir_test_timer(WEIR_SEC(2), &second));
        weir_parallel_add_series(parallel, child);
        weir_series_push(series, parallel);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(child);
        weir_test_pass(WEIR_SEC(3));
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, 0);
        CU_ASSERT_EQUAL(weir_series_status(child), -ECANCELED);
        CU_ASSERT_EQUAL(first.frees, 1);
        WEIR_TEST_CALLED(&second, 0);
        weir_series_unref(child);
        weir_test_end();
}

/* Cancels, asks and pushes from outside while the children of many parallels start and end. */
static struct {
        weir_series *outer, *child;
        pthread_barrier_t barrier;
} torn;

static void *
meddle(void *argument)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned rounds = *(unsigned *)argument;

        for (unsigned i = 0; i < rounds; i++) {
                pthread_barrier_wait(&torn.barrier);
                for (unsigned asked = (unsigned)weir_test_random_below(&random, 200); asked > 0; asked--) {
                        int status = weir_series_status(torn.child);

                        CU_ASSERT(status == 0 || status == -ECANCELED);
                }
                if (i % 4 == 0) {
                        weir_series_cancel(torn.child);
                }
                weir_series_push(torn.child, weir_empty_new(NULL, NULL));
                if (i % 2) {
                        weir_series_cancel(torn.outer);
                }
                pthread_barrier_wait(&torn.barrier);
        }
        return NULL;
}

static void
cancel_and_status_from_another_thread_meet_children_that_start_and_end(void)
{
        unsigned rounds = WEIR_TEST_SANITIZED ? 300 : 2000;
        pthread_t thread;

        weir_test_begin_real(2);
        pthread_barrier_init(&torn.barrier, NULL, 2);
        pthread_create(&thread, NULL, meddle, &rounds);
        for (unsigned round = 0; round < rounds; round++) {
                struct weir_test_record end = {0};
                struct tally tally = {0};

                torn.outer = weir_series_ref(weir_series_new(weir_test_series_done, &end));
                torn.child = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *parallel = nest(2, 10, 0, count_leaf, count_knot, &tally);
                weir_series_push(torn.child, weir_timer_new(0, count_leaf, &tally));
                weir_parallel_add_series(parallel, torn.child);
                weir_series_push(torn.outer, parallel);
                pthread_barrier_wait(&torn.barrier);
                int status = weir_series_run(torn.outer);
                pthread_barrier_wait(&torn.barrier);
                CU_ASSERT(status == 0 || (status == -ECANCELED && round % 2));
                CU_ASSERT_EQUAL(end.calls, 1);
                CU_ASSERT(tally.leaves <= 101);
                CU_ASSERT(tally.leaves >= 100 || status == -ECANCELED);
                weir_series_unref(torn.child);
                weir_series_unref(torn.outer);
        }
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&torn.barrier);
        weir_test_end();
}

static void
shutdown_ends_pending_children_with_eshutdown(void)
{
        struct weir_test_record child = {0}, second = {0}, end = {0}, series_end = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(weir_test_series_done, &series_end);
        weir_series *inner = weir_series_new(NULL, NULL);
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &end));
        weir_series_push(inner, weir_test_timer(FAR, &child));
        weir_series_push(inner, weir_test_timer(FAR, &second));
        weir_parallel_add_series(parallel, inner);
        weir_series_push(series, parallel);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(WEIR_SEC(1));
        weir_test_end();
        WEIR_TEST_CALLED(&child, -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&second);
        WEIR_TEST_CALLED(&end, -ESHUTDOWN);
        CU_ASSERT_EQUAL(series_end.calls, 1);
        CU_ASSERT_EQUAL(series_end.status, -ESHUTDOWN);
}

/* -- many -- */

static void
parallel_of_100_000_children_ends_and_is_cancelled(void)
{
        unsigned children = WEIR_TEST_SANITIZED ? 10000 : 100000;

        weir_test_begin_virtual();
        for (unsigned cancel = 0; cancel < 2; cancel++) {
                struct weir_test_record end = {0};
                struct tally tally = {0};
                weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
                weir_task *parallel = weir_parallel_new(count_knot, &tally);

                for (unsigned i = 0; i < children; i++) {
                        weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(i), count_leaf, &tally));
                }
                weir_series_push(series, parallel);
                if (cancel) {
                        CU_ASSERT_EQUAL(weir_series_start(series), 0);
                        weir_test_pass(WEIR_MSEC(2500));
                        weir_series_cancel(series);
                        WEIR_TEST_EVENTUALLY(end.calls == 1);
                        CU_ASSERT_EQUAL(tally.cancelled_leaves, children - 3);
                } else {
                        CU_ASSERT_EQUAL(weir_series_run(series), 0);
                        CU_ASSERT_EQUAL(tally.cancelled_leaves, 0);
                }
                CU_ASSERT_EQUAL(tally.leaves, children);
                CU_ASSERT_EQUAL(tally.knots, 1);
                weir_series_unref(series);
        }
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(misuse_aborts_with_the_reason),
                WEIR_TEST(children_run_at_once_and_the_callback_comes_when_all_ended),
                WEIR_TEST(children_are_freed_before_its_callback),
                WEIR_TEST(status_is_that_of_the_first_child_that_failed_in_order_of_adding),
                WEIR_TEST(status_of_a_child_task_is_its_own_or_what_poisoned_its_series),
                WEIR_TEST(empty_parallel_ends_at_once_on_a_worker),
                WEIR_TEST(nested_parallels_end_from_the_inside_out),
                WEIR_TEST(children_may_start_on_any_thread_and_end_on_any_worker),
                WEIR_TEST(null_or_wrong_child_poisons_and_nothing_runs),
                WEIR_TEST(poisoned_parallel_poisons_the_series_it_is_pushed_into),
                WEIR_TEST(adding_to_null_dismisses_the_child),
                WEIR_TEST(dismissed_parallel_frees_its_children_on_the_caller),
                WEIR_TEST(parallels_nested_deeply_are_dismissed_in_constant_stack),
                WEIR_TEST(cancel_of_the_outer_series_reaches_the_pending_timers_of_grandchildren),
                WEIR_TEST(cancel_by_a_grandchild_is_decisive_for_those_whose_callback_has_not_begun),
                WEIR_TEST(cancel_before_the_start_drops_a_parallel_with_its_children),
                WEIR_TEST(cancel_of_a_child_series_ends_that_child_only),
                WEIR_TEST(cancel_and_status_from_another_thread_meet_children_that_start_and_end),
                WEIR_TEST(shutdown_ends_pending_children_with_eshutdown),
                WEIR_TEST(parallel_of_100_000_children_ends_and_is_cancelled),
        };

        return weir_test_main("parallel", tests, sizeof tests / sizeof *tests);
}
