/* test/failure_test.c: flows that fail: weir_series_fail, series, parallels and graphs that stop at their first failure, and what
 * those around them see. */
#include "test/fixture.h"

#include <errno.h>
#include <time.h>

#include "factory/task/series.h"

#define FAR WEIR_SEC(1000)

/* -- misuse aborts with the reason; these fork, so they come first -- */

static void
parallel_that_was_started(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add(parallel, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        weir_task_start(parallel);
        weir_parallel_stop_on_failure(parallel);
}

static void
parallel_that_is_none(void)
{
        weir_parallel_stop_on_failure(weir_timer_new(WEIR_FOREVER, NULL, NULL));
}

static void
graph_that_is_none(void)
{
        weir_graph_stop_on_failure(weir_timer_new(WEIR_FOREVER, NULL, NULL));
}

static void
misuse_aborts_with_the_reason(void)
{
        weir_test_aborts(parallel_that_was_started,
                         "weir_parallel_stop_on_failure: parallel was already started (by weir_task_start)");
        weir_test_aborts(parallel_that_is_none, "weir_parallel_stop_on_failure: expected a parallel, and was given timer");
        weir_test_aborts(graph_that_is_none, "weir_graph_stop_on_failure: expected a graph, and was given timer");
}

static void
fails_in_a_child(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        _exit(weir_series_fail(series, -EIO) == -ECHILD ? 7 : 1);
}

static void
a_failure_in_a_forked_child_is_refused(void)
{
        char said[1024];

        weir_test_begin_real(1);
        int status = weir_test_child(fails_in_a_child, said, sizeof said);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        weir_test_end();
}

/* -- parts of tests -- */

static void
fail_function(void *context)
{
        weir_go_fail(*(int *)context);
}

/* A task that ends with that status. */
static weir_task *
ends_with(int *status)
{
        return weir_go_new(NULL, fail_function, NULL, status);
}

/* The callback of a task fails its series. */
static void
fail_own_series(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(weir_series_fail(weir_series_of(task), *(int *)context), 0);
}

static int eio = -EIO, busy = -EBUSY, fine = 0;

static weir_series *
series_that_fails(struct weir_test_record *dropped)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_timer_new(WEIR_MSEC(10), NULL, NULL));
        weir_series_push(series, ends_with(&eio));
        if (dropped)
                weir_series_push(series, weir_test_empty(dropped));
        weir_series_stop_on_failure(series);
        return series;
}

/* -- a retry -- */

struct tries {
        int made;
        struct weir_test_record third[5];
};

static weir_task *
try_steps(void *context)
{
        struct tries *tries = context;

        return weir_module_new(series_that_fails(&tries->third[tries->made++]), NULL, NULL);
}

static void
issue_18_a_retry_repeats_a_module_whose_second_step_fails(void)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;
        struct tries tries = {0};

        weir_test_begin_virtual();
        config.attempts = 3;
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config, try_steps, NULL, &tries)), -EIO);
        CU_ASSERT_EQUAL(tries.made, 3);
        for (int i = 0; i < 3; i++)
                WEIR_TEST_NOT_CALLED(&tries.third[i]);
        weir_test_end();
}

/* -- weir_series_fail -- */

static void
what_is_pending_is_cancelled_and_the_rest_is_dropped(void)
{
        struct weir_test_record end = {0}, lone = {0}, inner = {0}, inner_end = {0}, dropped = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series *within = weir_series_ref(weir_series_new(weir_test_series_done, &inner_end));
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_series_push(within, weir_test_timer(FAR, &inner));
        weir_parallel_add(parallel, weir_test_timer(FAR, &lone));
        weir_parallel_add_series(parallel, within);
        weir_series_push(series, parallel);
        weir_series_push(series, weir_test_empty(&dropped));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_series_fail(series, -EIO), 0);
        CU_ASSERT_EQUAL(weir_series_status(series), -EIO);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_FAILED);
        CU_ASSERT_EQUAL(weir_series_status(within), -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_cause(within), WEIR_CAUSE_CANCELLED);
        weir_test_pass(1);
        WEIR_TEST_CALLED(&lone, -ECANCELED);
        WEIR_TEST_CALLED(&inner, -ECANCELED);
        WEIR_TEST_NOT_CALLED(&dropped);
        CU_ASSERT(inner_end.calls == 1 && inner_end.status == -ECANCELED);
        CU_ASSERT(end.calls == 1 && end.status == -EIO);
        CU_ASSERT_EQUAL(end.at, inner.at);
        CU_ASSERT_EQUAL(weir_series_fail(series, -EIO), -ESTALE);
        CU_ASSERT_EQUAL(weir_series_status(series), -EIO);
        weir_series_unref(within);
        weir_series_unref(series);
        weir_test_end();
}

static void
bad_statuses_are_refused_and_change_nothing(void)
{
        static const int bad[] = {0, 1, EIO, -32768, INT32_MIN};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
                CU_ASSERT_EQUAL(weir_series_fail(series, bad[i]), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_fail(NULL, -EIO), -EINVAL);
        weir_series_stop_on_failure(NULL);
        weir_parallel_stop_on_failure(NULL);
        weir_graph_stop_on_failure(NULL);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        series = weir_series_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_series_fail(series, -32767), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -32767);
        weir_test_end();
}

static void
a_failure_before_the_start_takes_effect_at_the_start(void)
{
        struct weir_test_record end = {0}, dropped = {0};
        weir_series *series = weir_series_new(weir_test_series_done, &end);

        weir_test_begin_virtual();
        weir_series_push(series, weir_test_timer(0, &dropped));
        CU_ASSERT_EQUAL(weir_series_fail(series, -EIO), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -EIO);
        CU_ASSERT(end.calls == 1 && end.status == -EIO);
        WEIR_TEST_NOT_CALLED(&dropped);
        weir_test_end();
}

static void
fail_late(weir_series *series, void *context)
{
        *(int *)context = weir_series_fail(series, -EIO);
}

static void
in_the_callback_of_the_series_it_is_too_late(void)
{
        int refused = 0;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_series_run(weir_series_new(fail_late, &refused)), 0);
        CU_ASSERT_EQUAL(refused, -ESTALE);
        weir_test_end();
}

struct ends {
        weir_series *series;
        unsigned first;
};

/* On the only worker, so nothing of the series runs meanwhile. */
static void
end_in_many_ways(weir_task *task, void *context)
{
        static const int statuses[] = {-ECANCELED, -ETIMEDOUT, -EIO};
        struct ends *ends = context;

        (void)task;
        if (ends->first == 0)
                weir_series_cancel(ends->series);
        else if (ends->first == 1)
                weir_series_set_deadline(ends->series, 0);
        CU_ASSERT_EQUAL(weir_series_fail(ends->series, -EIO), 0);
        CU_ASSERT_EQUAL(weir_series_fail(ends->series, -EBUSY), 0);
        weir_series_cancel(ends->series);
        weir_series_set_deadline(ends->series, 0);
        CU_ASSERT_EQUAL(weir_series_status(ends->series), statuses[ends->first]);
}

static void
begin_on_one_poller(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

static void
the_first_cause_stays(void)
{
        static const int statuses[] = {-ECANCELED, -ETIMEDOUT, -EIO};
        static const int causes[] = {WEIR_CAUSE_CANCELLED, WEIR_CAUSE_TIMED_OUT, WEIR_CAUSE_FAILED};

        begin_on_one_poller();
        for (unsigned i = 0; i < 3; i++) {
                struct weir_test_record end = {0};
                struct ends ends = {.series = weir_series_ref(weir_series_new(weir_test_series_done, &end)), .first = i};

                weir_series_push(ends.series, weir_timer_new(FAR, NULL, NULL));
                CU_ASSERT_EQUAL(weir_series_start(ends.series), 0);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), end_in_many_ways, &ends)), 0);
                weir_test_pass(WEIR_SEC(2));
                CU_ASSERT(end.calls == 1 && end.status == statuses[i]);
                CU_ASSERT_EQUAL(weir_series_status(ends.series), statuses[i]);
                CU_ASSERT_EQUAL(weir_series_cause(ends.series), causes[i]);
                weir_series_unref(ends.series);
        }
        weir_test_end();
}

static void
a_failure_with_the_status_of_a_cancel_is_a_failure(void)
{
        weir_test_begin_virtual();
        for (int status = -ESHUTDOWN; status <= 0; status += ESHUTDOWN) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                int own = status ? status : -ECANCELED;

                weir_series_push(series, weir_timer_new(FAR, NULL, NULL));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                CU_ASSERT_EQUAL(weir_series_fail(series, own), 0);
                weir_test_pass(1);
                CU_ASSERT_EQUAL(weir_series_status(series), own);
                CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_FAILED);
                weir_series_unref(series);
        }
        weir_test_end();
}

/* -- what those around it see -- */

/* A task whose callback says that it has failed, although it has ended well, or with another status. */
static weir_task *
failed_by_its_callback(int *status)
{
        return weir_timer_new(WEIR_MSEC(10), fail_own_series, status);
}

static weir_task *
make_failing(void *context)
{
        ++*(int *)context;
        return failed_by_its_callback(&eio);
}

static void
a_callback_fails_the_task_that_it_belongs_to(void)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;
        int tries = 0;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(failed_by_its_callback(&eio)), -EIO);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, fail_function, fail_own_series, &busy)), -EBUSY);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(failed_by_its_callback(&eio), FAR)), -EIO);
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config, make_failing, NULL, &tries)), -EIO);
        CU_ASSERT_EQUAL(tries, 3);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_timer_new(0, NULL, NULL));
        weir_parallel_add(parallel, failed_by_its_callback(&eio));
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EIO);
        weir_task *race = weir_race_new(NULL, NULL);
        weir_race_add(race, failed_by_its_callback(&eio));
        weir_race_add(race, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, race);
        CU_ASSERT_EQUAL(weir_task_run(weir_module_new(series, NULL, NULL)), 0); /* the other child has won */
        weir_test_end();
}

static void
a_module_a_parallel_a_graph_a_race_and_a_timeout_see_the_failure(void)
{
        struct weir_test_record dropped[5] = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_module_new(series_that_fails(&dropped[0]), NULL, NULL)), -EIO);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add_series(parallel, series_that_fails(&dropped[1]));
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EIO);
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node_set_policy(weir_graph_add_series(graph, series_that_fails(&dropped[2]), NULL), WEIR_NODE_CANCEL);
        CU_ASSERT_EQUAL(weir_task_run(graph), -EIO);
        weir_task *race = weir_race_new(NULL, NULL);
        weir_race_add_series(race, series_that_fails(&dropped[3]));
        CU_ASSERT_EQUAL(weir_task_run(race), -EIO);
        weir_task *timeout = weir_timeout_new(weir_module_new(series_that_fails(&dropped[4]), NULL, NULL), FAR);
        CU_ASSERT_EQUAL(weir_task_run(timeout), -EIO);
        for (unsigned i = 0; i < 5; i++)
                WEIR_TEST_NOT_CALLED(&dropped[i]);
        weir_test_end();
}

/* -- the way up -- */

/* The callback of a child fails the series that the context names, by its own way up. */
static void
fail_the_parent(weir_task *task, void *context)
{
        weir_series *own = weir_series_of(task), *parent = weir_series_parent(own);

        CU_ASSERT_PTR_EQUAL(parent, context);
        CU_ASSERT_PTR_NOT_EQUAL(own, parent);
        CU_ASSERT_EQUAL(weir_series_fail(parent, -EIO), 0);
}

static void
see_no_parent(weir_series *series, void *context)
{
        *(bool *)context = weir_series_parent(series) == NULL;
}

static void
a_child_finds_the_series_around_it(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_PTR_NULL(weir_series_parent(NULL));
        for (unsigned kind = 0; kind < 6; kind++) {
                struct weir_test_record late = {0};
                bool has_none = false;
                weir_series *series = weir_series_new(NULL, NULL), *inner = weir_series_new(see_no_parent, &has_none);
                weir_task *child = weir_timer_new(1, fail_the_parent, series), *task;

                CU_ASSERT_PTR_NULL(weir_series_parent(series));
                if (kind < 2) {
                        task = weir_parallel_new(NULL, NULL);
                        if (kind == 1)
                                weir_parallel_stop_on_failure(task); /* there is one more series in between */
                        weir_parallel_add(task, child);
                } else if (kind == 2) {
                        task = weir_race_new(NULL, NULL);
                        weir_race_add(task, child);
                } else if (kind == 3) {
                        task = weir_graph_new(NULL, NULL);
                        weir_graph_stop_on_failure(task);
                        weir_graph_add(task, child, NULL);
                } else if (kind == 4) {
                        task = weir_timeout_new(child, FAR);
                } else {
                        weir_series_push(inner, child);
                        task = weir_module_new(weir_series_ref(inner), NULL, NULL);
                }
                weir_series_push(series, task);
                weir_series_push(series, weir_test_empty(&late));
                CU_ASSERT_EQUAL(weir_series_run(series), -EIO);
                WEIR_TEST_NOT_CALLED(&late);
                CU_ASSERT_EQUAL(has_none, kind == 5); /* a series that has ended is in none */
                if (kind == 5)
                        weir_series_unref(inner);
                else
                        weir_series_dismiss(inner);
        }
        weir_test_end();
}

/* -- series that stop at their first failure -- */

static void
the_first_task_that_fails_ends_the_series(void)
{
        struct weir_test_record ran = {0}, late = {0}, end = {0};
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));

        weir_test_begin_virtual();
        weir_series_stop_on_failure(series);
        weir_series_push(series, ends_with(&fine));
        weir_series_push(series, weir_test_empty(&ran));
        weir_series_push(series, ends_with(&busy));
        weir_series_push(series, weir_test_timer(FAR, &late));
        weir_series_push(series, ends_with(&eio));
        CU_ASSERT_EQUAL(weir_series_run(series), -EBUSY);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_FAILED);
        WEIR_TEST_CALLED(&ran, 0);
        WEIR_TEST_NOT_CALLED(&late);
        CU_ASSERT(end.calls == 1 && end.status == -EBUSY);
        weir_series_unref(series);
        weir_test_end();
}

static void
without_the_option_a_failing_task_stops_nothing(void)
{
        struct weir_test_record ran = {0};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_series_push(series, ends_with(&eio));
        weir_series_push(series, weir_test_empty(&ran));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        WEIR_TEST_CALLED(&ran, 0);
        weir_test_end();
}

static void
cancel_the_next(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_EQUAL(weir_timer_cancel("of-a-flow", 1), 1);
}

static void
a_timer_that_is_cancelled_by_its_name_is_a_failure(void)
{
        struct weir_test_record timer = {0}, late = {0};
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_test_begin_virtual();
        weir_series_stop_on_failure(series);
        weir_series_push(series, weir_test_named("of-a-flow", FAR, &timer));
        weir_series_push(series, weir_test_empty(&late));
        weir_task_start(weir_timer_new(WEIR_SEC(1), cancel_the_next, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_FAILED);
        WEIR_TEST_CALLED(&timer, -ECANCELED);
        WEIR_TEST_NOT_CALLED(&late);
        weir_series_unref(series);
        weir_test_end();
}

static void
push_a_step_that_could_not_be_made(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_push_front(weir_series_of(task), NULL), -ENOMEM);
}

static void
a_step_that_could_not_be_made_is_a_failure(void)
{
        struct weir_test_record late = {0};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_series_stop_on_failure(series);
        weir_series_push(series, weir_empty_new(push_a_step_that_could_not_be_made, NULL));
        weir_series_push(series, weir_test_empty(&late));
        CU_ASSERT_EQUAL(weir_series_run(series), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&late);
        weir_test_end();
}

static void
stop_from_now_on(weir_task *task, void *context)
{
        (void)context;
        weir_series_stop_on_failure(weir_series_of(task));
}

static void
a_callback_may_choose_to_stop_at_failures(void)
{
        struct weir_test_record late = {0};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        weir_series_push(series, ends_with(&busy));
        weir_series_push(series, weir_empty_new(stop_from_now_on, NULL));
        weir_series_push(series, ends_with(&eio));
        weir_series_push(series, weir_test_empty(&late));
        CU_ASSERT_EQUAL(weir_series_run(series), -EIO);
        WEIR_TEST_NOT_CALLED(&late);
        weir_test_end();
}

static void
the_option_is_of_one_series_and_failures_travel_up(void)
{
        struct weir_test_record inner_late = {0}, outer_late = {0};

        weir_test_begin_virtual();
        for (unsigned outer_stops = 0; outer_stops < 2; outer_stops++) {
                weir_series *inner = weir_series_new(NULL, NULL), *outer = weir_series_new(NULL, NULL);

                inner_late = outer_late = (struct weir_test_record){0};
                weir_series_push(inner, ends_with(&eio));
                weir_series_push(inner, weir_test_empty(&inner_late));
                weir_series_push(outer, weir_module_new(inner, NULL, NULL));
                weir_series_push(outer, weir_test_empty(&outer_late));
                weir_series_stop_on_failure(outer_stops ? outer : inner);
                CU_ASSERT_EQUAL(weir_series_run(outer), 0); /* nothing travels up from the inner one; the outer one goes on */
                if (outer_stops)
                        WEIR_TEST_CALLED(&inner_late, 0); /* it is not handed down */
                else
                        WEIR_TEST_NOT_CALLED(&inner_late);
                WEIR_TEST_CALLED(&outer_late, 0);
        }
        outer_late = inner_late = (struct weir_test_record){0};
        weir_series *outer = weir_series_new(NULL, NULL);
        weir_series_stop_on_failure(outer);
        weir_series_push(outer, weir_module_new(series_that_fails(&inner_late), NULL, NULL));
        weir_series_push(outer, weir_test_empty(&outer_late));
        CU_ASSERT_EQUAL(weir_series_run(outer), -EIO);
        WEIR_TEST_NOT_CALLED(&inner_late);
        WEIR_TEST_NOT_CALLED(&outer_late);
        weir_test_end();
}

static void
a_status_that_a_series_cannot_have_counts_as_eoverflow(void)
{
        int statuses[] = {-32767, -32768, INT32_MIN};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 3; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_stop_on_failure(series);
                weir_series_push(series, ends_with(&statuses[i]));
                CU_ASSERT_EQUAL(weir_series_run(series), i ? -EOVERFLOW : -32767);
        }
        weir_test_end();
}

static void
what_a_shutdown_ends_is_shut_down_and_not_failed(void)
{
        struct weir_test_record timer = {0}, end = {0};
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));

        weir_test_begin_virtual();
        weir_series_stop_on_failure(series);
        weir_series_push(series, weir_test_timer(FAR, &timer));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&timer, -ESHUTDOWN);
        CU_ASSERT_EQUAL(end.status, -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_SHUT_DOWN);
        weir_series_unref(series);
}

/* -- parallels that stop at their first failure -- */

static void
the_first_failure_in_time_cancels_the_other_children(void)
{
        struct weir_test_record child = {0}, deep = {0}, done = {0}, well = {0};

        weir_test_begin_virtual();
        weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &done));
        weir_task *inner = weir_parallel_new(NULL, NULL);
        weir_series *slow = weir_series_new(NULL, NULL), *fast = weir_series_new(NULL, NULL);
        weir_nsec begin = weir_now();
        weir_parallel_stop_on_failure(parallel);
        weir_parallel_stop_on_failure(parallel); /* a second time changes nothing */
        weir_series_push(slow, weir_timer_new(WEIR_SEC(2), fail_own_series, &busy));
        weir_series_push(fast, weir_timer_new(WEIR_SEC(1), fail_own_series, &eio));
        weir_parallel_add_series(parallel, slow);
        weir_parallel_add(inner, weir_test_timer(FAR, &deep));
        weir_parallel_add(parallel, inner);
        weir_parallel_add(parallel, weir_test_timer(FAR, &child));
        weir_parallel_add(parallel, weir_test_timer(WEIR_MSEC(1), &well));
        weir_parallel_add_series(parallel, fast);
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EIO);
        WEIR_TEST_CALLED(&done, -EIO);
        WEIR_TEST_CALLED(&child, -ECANCELED);
        WEIR_TEST_CALLED(&deep, -ECANCELED);
        WEIR_TEST_CALLED(&well, 0);
        CU_ASSERT_EQUAL(done.at - begin, WEIR_SEC(1));
        weir_test_end();
}

static void
without_the_option_a_parallel_waits_and_has_the_failure_that_was_added_first(void)
{
        weir_test_begin_virtual();
        weir_nsec begin = weir_now();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(2), fail_own_series, &busy));
        weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(1), fail_own_series, &eio));
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EBUSY);
        CU_ASSERT_EQUAL(weir_now() - begin, WEIR_SEC(2));
        weir_test_end();
}

/* All of them are due at one instant.  On one poller, one fails first; every callback after it sees -ECANCELED. */
static void
callbacks_behind_the_failure_see_it_at_the_same_instant(void)
{
        enum { CHILDREN = 200 };
        struct weir_test_record children[CHILDREN] = {0};

        begin_on_one_poller();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_stop_on_failure(parallel);
        for (unsigned i = 0; i < CHILDREN; i++)
                weir_parallel_add(parallel, i == 100 ? weir_timer_new(WEIR_SEC(1), fail_own_series, &eio)
                                                     : weir_test_timer(WEIR_SEC(1), &children[i]));
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EIO);
        for (unsigned i = 0; i < CHILDREN; i++)
                if (i != 100)
                        WEIR_TEST_CALLED(&children[i], i < 100 ? 0 : -ECANCELED);
        weir_test_end();
}

static void
children_that_were_not_started_are_dropped(void)
{
        enum { CHILDREN = 1000 };
        static struct weir_test_record children[CHILDREN];
        unsigned dropped = 0;

        begin_on_one_poller();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_stop_on_failure(parallel);
        weir_parallel_add(parallel, weir_empty_new(fail_own_series, &eio));
        for (unsigned i = 0; i < CHILDREN; i++)
                weir_parallel_add(parallel, weir_test_timer(FAR, &children[i]));
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EIO);
        for (unsigned i = 0; i < CHILDREN; i++) {
                CU_ASSERT_EQUAL(children[i].frees, 1);
                CU_ASSERT(children[i].calls == 0 || children[i].status == -ECANCELED);
                dropped += children[i].calls == 0;
        }
        CU_ASSERT(dropped > 0);
        weir_test_end();
}

static void
a_cancel_of_its_series_overrides_the_failure(void)
{
        struct weir_test_record done = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_task *parallel = weir_parallel_new(weir_test_done, &done);
        weir_parallel_stop_on_failure(parallel);
        weir_parallel_add(parallel, weir_timer_new(FAR, NULL, NULL));
        weir_series_push(series, parallel);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(1);
        weir_series_set_deadline(series, 0);
        weir_test_pass(1);
        CU_ASSERT(done.calls == 1 && done.status == -ETIMEDOUT);
        weir_series_unref(series);
        weir_test_end();
}

static void
a_parallel_that_does_not_fail_or_is_dismissed_is_as_any(void)
{
        struct weir_test_record child = {0};

        weir_test_begin_virtual();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_stop_on_failure(parallel);
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_stop_on_failure(parallel);
        weir_parallel_add(parallel, weir_test_timer(0, &child));
        weir_task_dismiss(parallel);
        WEIR_TEST_NOT_CALLED(&child);
        weir_test_end();
}

/* -- graphs that stop at their first failure -- */

static void
the_first_node_that_fails_ends_the_graph(void)
{
        struct weir_test_record running = {0}, waiting = {0}, apart = {0}, done = {0};

        weir_test_begin_virtual();
        weir_nsec begin = weir_now();
        weir_task *graph = weir_test_recorded(weir_graph_new(weir_test_done, &done));
        weir_graph_stop_on_failure(graph);
        weir_graph_stop_on_failure(graph);
        weir_node *long_one = weir_graph_add(graph, weir_test_timer(FAR, &running), "long");
        weir_node *after_it = weir_graph_add(graph, weir_test_empty(&waiting), "after it");
        weir_node *failing = weir_graph_add(graph, weir_timer_new(WEIR_SEC(1), fail_own_series, &eio), "failing");
        weir_node *after_failing = weir_graph_add(graph, weir_test_empty(&apart), "after failing");
        weir_graph_precede(long_one, after_it);
        weir_graph_precede(failing, after_failing);
        CU_ASSERT_EQUAL(weir_task_run(graph), -EIO);
        WEIR_TEST_CALLED(&done, -EIO);
        WEIR_TEST_CALLED(&running, -ECANCELED);
        WEIR_TEST_NOT_CALLED(&waiting);
        WEIR_TEST_NOT_CALLED(&apart);
        CU_ASSERT_EQUAL(done.at - begin, WEIR_SEC(1));
        weir_test_end();
}

/* The graph is larger than any batch, and many nodes fail at once on two pollers. */
static void
a_large_graph_ends_at_its_first_failure_on_many_threads(void)
{
        enum { NODES = 2000 };
        struct weir_test_record done;

        weir_test_begin_real(3);
        for (unsigned run = 0; run < (WEIR_TEST_SANITIZED ? 20 : 100); run++) {
                weir_task *graph = weir_graph_new(weir_test_done, &done);
                weir_node *nodes[NODES];

                done = (struct weir_test_record){0};
                weir_graph_stop_on_failure(graph);
                for (unsigned i = 0; i < NODES; i++) {
                        nodes[i] = weir_graph_add(graph,
                                                  i % 7 == run % 7 ? weir_empty_new(fail_own_series, &eio)
                                                                   : weir_timer_new(i % 3 ? 0 : FAR, NULL, NULL),
                                                  NULL);
                        if (i >= 10)
                                weir_graph_precede(nodes[i / 10], nodes[i]);
                }
                CU_ASSERT_EQUAL(weir_task_run(graph), -EIO);
                CU_ASSERT(done.calls == 1 && done.status == -EIO);
        }
        weir_test_end();
}

/* -- deep nesting -- */

static weir_task *
deeper(void *context)
{
        unsigned *depth = context;

        return (*depth)-- > 0 ? weir_dynamic_new(deeper, NULL, depth) : NULL;
}

static weir_task *
dynamic_of_depth(unsigned *depth)
{
        return weir_dynamic_new(deeper, NULL, depth);
}

static void
fail_leaf(weir_task *task, void *context)
{
        (void)context;
        weir_series_fail(weir_series_of(task), -EIO);
}

/* Each graph has a node beside the next graph if `has_siblings`, which the failure ends. */
static weir_task *
graph_of_depth(unsigned depth, bool has_siblings)
{
        weir_task *graph = weir_empty_new(fail_leaf, NULL);

        for (; depth > 0; depth--) {
                weir_task *inner = graph;

                graph = weir_graph_new(NULL, NULL);
                weir_graph_stop_on_failure(graph);
                weir_graph_add(graph, inner, NULL);
                if (has_siblings)
                        weir_graph_add(graph, weir_timer_new(FAR, NULL, NULL), NULL);
        }
        return graph;
}

static weir_task *
graph_alone_of_depth(unsigned *depth)
{
        return graph_of_depth(*depth, false);
}

static weir_task *
graph_with_siblings_of_depth(unsigned *depth)
{
        return graph_of_depth(*depth, true);
}

static weir_task *
parallel_of_depth(unsigned *depth)
{
        weir_task *parallel = weir_empty_new(fail_leaf, NULL);

        for (unsigned i = 0; i < *depth; i++) {
                weir_task *inner = parallel;

                parallel = weir_parallel_new(NULL, NULL);
                weir_parallel_stop_on_failure(parallel);
                weir_parallel_add(parallel, inner);
                weir_parallel_add(parallel, weir_timer_new(FAR, NULL, NULL));
        }
        return parallel;
}

static weir_nsec
processor_time_of(unsigned depth, weir_task *make(unsigned *depth), int status)
{
        struct timespec before, after;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        CU_ASSERT_EQUAL(weir_task_run(make(&depth)), status);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        return (after.tv_sec - before.tv_sec) * WEIR_SEC(1) + after.tv_nsec - before.tv_nsec;
}

/* The best of several runs counts, because the system may take time away. */
static void
check_that_depth_costs_nothing(weir_task *make(unsigned *depth), int status)
{
        weir_nsec shallow = WEIR_FOREVER, deep = WEIR_FOREVER;

        weir_test_begin_real(1);
        for (unsigned run = 0; run < (WEIR_TEST_SANITIZED ? 1 : 5); run++) {
                weir_nsec few = 0, many = processor_time_of(16000, make, status);

                for (unsigned i = 0; i < 16; i++)
                        few += processor_time_of(1000, make, status);
                shallow = few < shallow ? few : shallow;
                deep = many < deep ? many : deep;
        }
        CU_ASSERT(deep < 5 * shallow || WEIR_TEST_SANITIZED); /* sanitizers have costs of their own */
        if (deep >= 5 * shallow)
                fprintf(stderr, "16,000 levels take %lld us, 16 times 1,000 levels %lld us\n", (long long)deep / 1000,
                        (long long)shallow / 1000);
        weir_test_end();
}

/* Sixteen times as deep took 300 times as long when each callback looked at all series around it. */
static void
issue_18_a_level_costs_the_same_however_deep_it_is(void)
{
        check_that_depth_costs_nothing(dynamic_of_depth, 0);
}

static void
a_failure_goes_up_through_many_graphs_at_the_same_cost_for_each(void)
{
        check_that_depth_costs_nothing(graph_alone_of_depth, -EIO);
        check_that_depth_costs_nothing(graph_with_siblings_of_depth, -EIO);
}

static void
a_failure_goes_up_through_many_parallels_at_the_same_cost_for_each(void)
{
        check_that_depth_costs_nothing(parallel_of_depth, -EIO);
}

/* -- storm: ends of all kinds meet failures -- */

static struct {
        weir_series *series;
        pthread_barrier_t barrier;
} storm;

static void *
end_somehow(void *argument)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned i = 0; i < *(unsigned *)argument; i++) {
                pthread_barrier_wait(&storm.barrier);
                for (unsigned looks = (unsigned)weir_test_random_below(&random, 300); looks > 0; looks--)
                        (void)weir_series_status(storm.series);
                if (i % 3 == 0)
                        weir_series_cancel(storm.series);
                else if (i % 3 == 1)
                        CU_ASSERT(weir_series_fail(storm.series, -EBUSY) % ESTALE == 0);
                pthread_barrier_wait(&storm.barrier);
        }
        return NULL;
}

static weir_task *
some_parallel(unsigned depth, struct weir_test_random *random)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        if (weir_test_random_below(random, 2))
                weir_parallel_stop_on_failure(parallel);
        for (unsigned i = 0; i < 3; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_timer_new((weir_nsec)weir_test_random_below(random, 20000), NULL, NULL));
                weir_series_push(series, depth > 0 ? some_parallel(depth - 1, random) : weir_empty_new(NULL, NULL));
                if (weir_test_random_below(random, 8) == 0)
                        weir_series_push(series, weir_empty_new(fail_own_series, &eio));
                weir_series_stop_on_failure(series);
                weir_parallel_add_series(parallel, series);
        }
        return parallel;
}

static void
failures_meet_cancels_and_failures_of_other_threads(void)
{
        unsigned runs = WEIR_TEST_SANITIZED ? 200 : 2000;
        struct weir_test_random random = {weir_test_seed()};
        pthread_t thread;

        weir_test_begin_real(3);
        pthread_barrier_init(&storm.barrier, NULL, 2);
        pthread_create(&thread, NULL, end_somehow, &runs);
        for (unsigned run = 0; run < runs; run++) {
                struct weir_test_record end = {0}, late = {0};

                storm.series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
                weir_series_push(storm.series, some_parallel(3, &random));
                weir_series_push(storm.series, weir_test_empty(&late));
                weir_series_stop_on_failure(storm.series);
                pthread_barrier_wait(&storm.barrier);
                int status = weir_series_run(storm.series);
                CU_ASSERT(status == 0 || status == -EIO || status == (run % 3 ? -EBUSY : -ECANCELED));
                CU_ASSERT(end.calls == 1 && end.status == status);
                CU_ASSERT(late.frees == 1 && (status || late.calls == 1));
                pthread_barrier_wait(&storm.barrier);
                weir_series_unref(storm.series);
        }
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&storm.barrier);
        weir_test_end();
        CU_ASSERT_EQUAL(weir__series_descents, 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(misuse_aborts_with_the_reason),
                WEIR_TEST(a_failure_in_a_forked_child_is_refused),
                WEIR_TEST(issue_18_a_retry_repeats_a_module_whose_second_step_fails),
                WEIR_TEST(what_is_pending_is_cancelled_and_the_rest_is_dropped),
                WEIR_TEST(bad_statuses_are_refused_and_change_nothing),
                WEIR_TEST(a_failure_before_the_start_takes_effect_at_the_start),
                WEIR_TEST(in_the_callback_of_the_series_it_is_too_late),
                WEIR_TEST(the_first_cause_stays),
                WEIR_TEST(a_failure_with_the_status_of_a_cancel_is_a_failure),
                WEIR_TEST(a_callback_fails_the_task_that_it_belongs_to),
                WEIR_TEST(a_module_a_parallel_a_graph_a_race_and_a_timeout_see_the_failure),
                WEIR_TEST(a_child_finds_the_series_around_it),
                WEIR_TEST(the_first_task_that_fails_ends_the_series),
                WEIR_TEST(without_the_option_a_failing_task_stops_nothing),
                WEIR_TEST(a_timer_that_is_cancelled_by_its_name_is_a_failure),
                WEIR_TEST(a_step_that_could_not_be_made_is_a_failure),
                WEIR_TEST(a_callback_may_choose_to_stop_at_failures),
                WEIR_TEST(the_option_is_of_one_series_and_failures_travel_up),
                WEIR_TEST(a_status_that_a_series_cannot_have_counts_as_eoverflow),
                WEIR_TEST(what_a_shutdown_ends_is_shut_down_and_not_failed),
                WEIR_TEST(the_first_failure_in_time_cancels_the_other_children),
                WEIR_TEST(without_the_option_a_parallel_waits_and_has_the_failure_that_was_added_first),
                WEIR_TEST(callbacks_behind_the_failure_see_it_at_the_same_instant),
                WEIR_TEST(children_that_were_not_started_are_dropped),
                WEIR_TEST(a_cancel_of_its_series_overrides_the_failure),
                WEIR_TEST(a_parallel_that_does_not_fail_or_is_dismissed_is_as_any),
                WEIR_TEST(the_first_node_that_fails_ends_the_graph),
                WEIR_TEST(a_large_graph_ends_at_its_first_failure_on_many_threads),
                WEIR_TEST(issue_18_a_level_costs_the_same_however_deep_it_is),
                WEIR_TEST(a_failure_goes_up_through_many_graphs_at_the_same_cost_for_each),
                WEIR_TEST(a_failure_goes_up_through_many_parallels_at_the_same_cost_for_each),
                WEIR_TEST(failures_meet_cancels_and_failures_of_other_threads),
        };

        return weir_test_main("failures", tests, sizeof tests / sizeof *tests);
}
