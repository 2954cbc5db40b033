/* test/flow_test.c: modules, timeouts, repeaters and dynamic tasks. */
#include "test/fixture.h"

#include <errno.h>

#define FAR WEIR_SEC(1000)

/* -- misuse aborts with the reason; these fork, so they come first -- */

static void
module_of_an_added_series(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_parallel_add_series(weir_parallel_new(NULL, NULL), series);
        weir_module_new(series, NULL, NULL);
}

static void
timeout_of_a_started_task(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_task_start(task);
        weir_timeout_new(task, WEIR_SEC(1));
}

static weir_task *
same_again(void *context)
{
        return context;
}

static void
repeater_that_makes_what_was_consumed(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_test_begin_virtual();
        weir_task_start(task);
        weir_task_run(weir_repeater_new(same_again, NULL, task));
}

static void
start_twice(void)
{
        weir_task *task = weir_repeater_new(same_again, NULL, NULL);

        weir_series_push(weir_series_new(NULL, NULL), task);
        weir_task_start(task);
}

static void
misuse_aborts_with_the_reason(void)
{
        weir_test_aborts(module_of_an_added_series, "weir_module_new: the series was already added to a parallel");
        weir_test_aborts(timeout_of_a_started_task, "weir_timeout_new: timer was already started (by weir_task_start)");
        weir_test_aborts(repeater_that_makes_what_was_consumed,
                         "a function that makes tasks: timer was already started (by weir_task_start)");
        weir_test_aborts(start_twice, "weir_task_start: ");
}

/* -- parts of tests -- */

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

static void
push_null(weir_task *task, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(task), NULL);
}

/* -- module -- */

static void
module_is_a_series_as_one_task(void)
{
        struct weir_test_record first = {0}, second = {0}, inner = {0}, end = {0}, next = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(weir_test_series_done, &inner), *outer = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_test_timer(WEIR_SEC(1), &first));
        weir_series_push(series, weir_test_timer(WEIR_SEC(2), &second));
        weir_series_push(outer, weir_test_recorded(weir_module_new(series, weir_test_done, &end)));
        weir_series_push(outer, weir_test_empty(&next));
        CU_ASSERT_EQUAL(weir_series_run(outer), 0);
        WEIR_TEST_CALLED(&first, 0);
        WEIR_TEST_CALLED(&second, 0);
        WEIR_TEST_CALLED(&end, 0);
        WEIR_TEST_CALLED(&next, 0);
        CU_ASSERT_EQUAL(inner.calls, 1);
        CU_ASSERT_EQUAL(end.at, began + WEIR_SEC(3));
        weir_test_end();
}

static void
status_of_a_module_is_that_of_its_series(void)
{
        struct weir_test_record end = {0};
        int status = -EIO;

        weir_test_begin_virtual();
        for (unsigned poisoned = 0; poisoned < 2; poisoned++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, failing(&status));
                if (poisoned) {
                        weir_series_push(series, weir_empty_new(push_null, NULL));
                }
                CU_ASSERT_EQUAL(weir_task_run(weir_module_new(series, weir_test_done, &end)), poisoned ? -ENOMEM : 0);
                CU_ASSERT_EQUAL(end.status, poisoned ? -ENOMEM : 0);
        }
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(FAR, NULL, NULL));
        weir_series_set_deadline(series, WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_task_run(weir_module_new(series, weir_test_done, &end)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(end.status, -ETIMEDOUT);
        weir_test_end();
}

static void
module_without_a_series_reports_it_when_started(void)
{
        struct weir_test_record end = {0}, task = {0};
        weir_series *poisoned = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_module_new(NULL, weir_test_done, &end))), -ENOMEM);
        WEIR_TEST_NOT_CALLED(&end);
        weir_series_push(poisoned, weir_test_empty(&task));
        weir_series_push(poisoned, weir_timer_new_named("", 0, NULL, NULL));
        CU_ASSERT_EQUAL(weir_task_start(weir_module_new(poisoned, weir_test_done, &end)), -EINVAL);
        WEIR_TEST_NOT_CALLED(&task);
        CU_ASSERT_EQUAL(end.calls, 0);
        weir_test_end();
}

/* -- timeout -- */

static void
timeout_ends_the_task_at_its_limit(void)
{
        static const struct {
                weir_nsec takes, limit, at;
                int status;
        } cases[] = {
                {WEIR_SEC(1), WEIR_SEC(2), WEIR_SEC(1), 0},
                {WEIR_SEC(2), WEIR_SEC(1), WEIR_SEC(1), -ETIMEDOUT},
                {WEIR_SEC(1) - 1, WEIR_SEC(1), WEIR_SEC(1) - 1, 0},
                {WEIR_SEC(1), WEIR_SEC(1), WEIR_SEC(1), -ETIMEDOUT},
                {WEIR_SEC(3), WEIR_FOREVER, WEIR_SEC(3), 0},
                {WEIR_SEC(3), WEIR_FOREVER - 1, WEIR_SEC(3), 0},
                {0, 1, 0, 0},
        };

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir_test_record task = {0};
                weir_task *timeout = weir_timeout_new(weir_test_timer(cases[i].takes, &task), cases[i].limit);

                weir_test_pass(WEIR_SEC(10)); /* the limit counts from the start */
                weir_nsec began = weir_now();
                CU_ASSERT_EQUAL(weir_task_run(timeout), cases[i].status);
                WEIR_TEST_CALLED(&task, cases[i].status);
                CU_ASSERT_EQUAL(task.at, began + cases[i].at);
        }
        weir_test_end();
}

static void
count_call(void *context)
{
        ++*(unsigned *)context;
}

enum { KINDS = 9 };

/* One of each kind; `begun` counts functions. */
static weir_task *
any_kind(unsigned kind, struct weir_test_record *record, unsigned *begun)
{
        weir_task *function = kind < 3 ? weir_go_new(NULL, count_call, NULL, begun) : NULL, *task;

        switch (kind) {
        case 0:
                task = weir_parallel_new(weir_test_done, record);
                weir_parallel_add(task, function);
                return task;
        case 1:
                task = weir_race_new(weir_test_done, record);
                weir_race_add(task, function);
                return task;
        case 2:
                task = weir_graph_new(weir_test_done, record);
                weir_graph_add(task, function, NULL);
                return task;
        case 3: return weir_timer_new(0, weir_test_done, record);
        case 4: return weir_timer_new_named("limited", FAR, weir_test_done, record);
        case 5: return weir_ticker_new(FAR, WEIR_TICK_SKIP, weir_test_done, record);
        case 6: return weir_module_new(weir_series_new(NULL, NULL), weir_test_done, record);
        case 7: return weir_counter_new_named("limited", 1, weir_test_done, record);
        default: return weir_empty_new(weir_test_done, record);
        }
}

/* With a limit of 1 ns it may be over when the task begins: the callback comes anyway. */
static void
limit_any_kind(unsigned kind, weir_nsec limit)
{
        struct weir_test_record record = {0}, late = {0};
        unsigned begun = 0;
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *task = weir_test_recorded(any_kind(kind, &record, &begun));

        weir_series_push(series, weir_timeout_new(task, limit));
        weir_series_push(series, weir_test_empty(&late));
        weir_series_stop_on_failure(series);
        int status = weir_series_run(series);
        CU_ASSERT(status == -ETIMEDOUT || (limit > 0 && status == 0));
        WEIR_TEST_CALLED(&record, status);
        if (limit > 0)
                return;
        WEIR_TEST_NOT_CALLED(&late);
        CU_ASSERT_EQUAL(begun, 0);
}

static void
timeout_without_time_calls_back_once_and_runs_nothing(void)
{
        for (unsigned is_real = 0; is_real < 2; is_real++) {
                if (is_real)
                        weir_test_begin_real(2);
                else
                        weir_test_begin_virtual();
                for (weir_nsec limit = -1; limit <= 1; limit++)
                        for (unsigned kind = 0; kind < KINDS; kind++)
                                limit_any_kind(kind, limit);
                weir_test_end();
        }
}

static void
a_function_without_time_is_the_same_by_both_ways(void)
{
        weir_test_begin_virtual();
        for (int limit = -1; limit <= 0; limit++) {
                unsigned begun = 0;

                weir_task *function = weir_go_new("busy", count_call, NULL, &begun);
                CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(function, limit)), -ETIMEDOUT);
                CU_ASSERT_EQUAL(weir_task_run(weir_go_new_timed("busy", limit, count_call, NULL, &begun)), -ETIMEDOUT);
                CU_ASSERT_EQUAL(begun, 0);
        }
        weir_test_end();
}

/* docs/contract.md, flows that end early, row 25. */
static void
what_was_decided_before_a_timeout_without_time_stays(void)
{
        static const int statuses[] = {0, -EIO};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2; i++) {
                struct weir_test_record ended = {0}, deadline = {0};
                weir_task *promise = weir_promise_new(NULL, weir_test_done, &ended);

                weir_promise_end(promise, statuses[i]);
                CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(promise, 0)), statuses[i] ? statuses[i] : -ETIMEDOUT);
                CU_ASSERT(ended.calls == 1 && ended.status == statuses[i]);

                weir_task *pending = weir_promise_new(NULL, weir_test_done, &deadline);
                CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(pending, 0)), -ETIMEDOUT);
                CU_ASSERT(deadline.calls == 1 && deadline.status == -ETIMEDOUT);
        }
        struct weir_test_record reached = {0};
        weir_counter *counter = weir_counter_new(0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_counter_wait_new(counter, weir_test_done, &reached), 0)), -ETIMEDOUT);
        CU_ASSERT(reached.calls == 1 && reached.status == 0);
        weir_counter_unref(counter);
        weir_test_end();
}

static void
status_of_a_timeout_is_that_of_the_task(void)
{
        int status = -EIO;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(failing(&status), WEIR_SEC(1))), -EIO);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(NULL, WEIR_SEC(1))), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_timer_new_named("", 0, NULL, NULL), WEIR_SEC(1))), -EINVAL);
        weir_test_end();
}

static void
push_timer(weir_task *task, void *context)
{
        weir_series_push(weir_series_of(task), weir_test_timer(FAR, context));
}

static void
limit_is_for_what_the_task_pushes_as_well(void)
{
        struct weir_test_record pushed = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_empty_new(push_timer, &pushed), WEIR_SEC(1))), -ETIMEDOUT);
        WEIR_TEST_CALLED(&pushed, -ETIMEDOUT);
        CU_ASSERT_EQUAL(pushed.at, began + WEIR_SEC(1));
        weir_test_end();
}

static void
inner_limit_counts_within_an_outer_one_and_the_other_way_round(void)
{
        weir_test_begin_virtual();
        for (unsigned outer = 1; outer <= 3; outer += 2) {
                struct weir_test_record task = {0};
                weir_nsec began = weir_now();
                weir_task *inner = weir_timeout_new(weir_test_timer(FAR, &task), WEIR_SEC(2));

                CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(inner, WEIR_SEC(outer))), -ETIMEDOUT);
                WEIR_TEST_CALLED(&task, -ETIMEDOUT);
                CU_ASSERT_EQUAL(task.at, began + WEIR_SEC(outer < 2 ? outer : 2));
        }
        weir_test_end();
}

static void
free_function_of_a_timeout_runs_like_any(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        struct weir_test_record task = {0};

        weir_test_begin_virtual();
        weir_task *timeout = weir_timeout_new(weir_test_timer(0, &task), FAR);
        CU_ASSERT_PTR_NULL(weir_task_context(timeout));
        weir_series_push(series, timeout);
        CU_ASSERT_PTR_EQUAL(weir_series_of(timeout), series);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        timeout = weir_timeout_new(weir_test_timer(0, &task), FAR);
        weir_task_dismiss(timeout);
        CU_ASSERT_EQUAL(task.frees, 2);
        CU_ASSERT_EQUAL(task.calls, 1);
        weir_test_end();
}

/* -- repeater -- */

struct rounds {
        unsigned left, made;
        weir_nsec each;
        struct weir_test_record last; /* of what was made */
        struct weir_test_record end;
        pthread_t made_on;
        weir_series *cancelled; /* at the round `cancel_at` left */
        unsigned cancel_at;
};

static void
round_done(weir_task *task, void *context)
{
        weir_test_note(&((struct rounds *)context)->last, weir_task_status(task));
}

static weir_task *
make_round(void *context)
{
        struct rounds *rounds = context;

        rounds->made_on = pthread_self();
        if (rounds->left == 0) {
                return NULL;
        }
        if (rounds->last.calls != (int)rounds->made) { /* an assertion costs as much as ten rounds */
                CU_FAIL("made before the one before had ended");
        }
        rounds->made++;
        rounds->left--;
        if (rounds->cancelled && rounds->left == rounds->cancel_at) {
                weir_series_cancel(rounds->cancelled);
        }
        return rounds->each < 0 ? weir_empty_new(round_done, rounds) : weir_timer_new(rounds->each, round_done, rounds);
}

static void
rounds_ended(weir_task *task, void *context)
{
        weir_test_note(&((struct rounds *)context)->end, weir_task_status(task));
}

static void
repeater_runs_one_task_after_the_other_until_there_is_none(void)
{
        struct rounds rounds = {.left = 7, .each = WEIR_SEC(1)};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(make_round, rounds_ended, &rounds)), 0);
        CU_ASSERT_EQUAL(rounds.made, 7);
        CU_ASSERT_EQUAL(rounds.end.calls, 1);
        CU_ASSERT_EQUAL(rounds.end.status, 0);
        CU_ASSERT_EQUAL(rounds.end.at, began + WEIR_SEC(7));
        CU_ASSERT(!pthread_equal(rounds.made_on, pthread_self()));
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(make_round, rounds_ended, &rounds)), 0);
        CU_ASSERT_EQUAL(rounds.end.calls, 2);
        weir_test_end();
}

struct statuses {
        int all[4];
        unsigned next;
};

static weir_task *
make_failing(void *context)
{
        struct statuses *statuses = context;

        return statuses->next < 4 ? failing(&statuses->all[statuses->next++]) : NULL;
}

static void
status_of_a_repeater_is_that_of_its_last_task(void)
{
        struct statuses good = {{-EIO, 0, -EPIPE, 0}, 0}, bad = {{0, -EIO, 0, -EPIPE}, 0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(make_failing, NULL, &good)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(make_failing, NULL, &bad)), -EPIPE);
        CU_ASSERT_EQUAL(bad.next, 4);
        weir_test_end();
}

static weir_task *
make_wrong(void *context)
{
        (*(unsigned *)context)++;
        return weir_timer_new_named("", 0, NULL, NULL);
}

static void
task_that_was_made_wrongly_ends_a_repeater(void)
{
        unsigned made = 0;

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(make_wrong, NULL, &made)), -EINVAL);
        CU_ASSERT_EQUAL(made, 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_dynamic_new(make_wrong, NULL, &made)), -EINVAL);
        weir_test_end();
}

static void
makers_without_a_function_report_it(void)
{
        struct weir_test_record end = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(NULL, weir_test_done, &end)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_dynamic_new(NULL, weir_test_done, &end)), -EINVAL);
        weir_series *series = weir_series_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_dynamic_new(NULL, weir_test_done, &end)), -EINVAL);
        weir_series_dismiss(series);
        CU_ASSERT_EQUAL(end.calls, 0);
        weir_test_end();
}

struct many {
        unsigned left;
        weir_nsec ended;
};

static weir_task *
make_one_of_many(void *context)
{
        struct many *many = context;

        return many->left-- > 0 ? weir_empty_new(NULL, NULL) : NULL;
}

static void
many_ended(weir_task *task, void *context)
{
        (void)task;
        ((struct many *)context)->ended = weir_now();
}

/* On one poller, with rounds that are ready at once: other tasks need not wait for the end of the repeater. */
static void
repeater_runs_10_000_000_rounds_in_constant_stack_and_lets_others_in(void)
{
        struct many many = {.left = WEIR_TEST_SANITIZED ? 100000 : 10000000}, few = {.left = 1000};

        weir_test_begin_real(1);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_repeater_new(make_one_of_many, many_ended, &many));
        weir_parallel_add(parallel, weir_repeater_new(make_one_of_many, many_ended, &few));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(many.left, UINT32_MAX);
        CU_ASSERT_EQUAL(few.left, UINT32_MAX);
        CU_ASSERT(few.ended < many.ended);
        weir_test_end();
}

static void
repeater_takes_turns_with_its_neighbour(void)
{
        struct rounds first = {.left = 1000, .each = -1}, second = {.left = 1000, .each = -1};
        _Atomic unsigned counter = 0;

        weir_test_begin_virtual();
        first.last.counter = second.last.counter = &counter;
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_repeater_new(make_round, rounds_ended, &first));
        weir_parallel_add(parallel, weir_repeater_new(make_round, rounds_ended, &second));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT(first.last.order >= 1997 && second.last.order >= 1997);
        weir_test_end();
}

static void
cancel_of_its_series_ends_a_repeater(void)
{
        weir_test_begin_virtual();
        for (unsigned inside = 0; inside < 2; inside++) {
                struct rounds rounds = {.left = 1000, .each = WEIR_SEC(1), .cancel_at = 990};
                struct weir_test_record end = {0};
                weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));

                rounds.cancelled = inside ? series : NULL;
                weir_series_push(series, weir_repeater_new(make_round, rounds_ended, &rounds));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                weir_test_pass(WEIR_MSEC(9500));
                weir_series_cancel(series);
                WEIR_TEST_EVENTUALLY(end.calls == 1);
                CU_ASSERT_EQUAL(rounds.made, 10);
                CU_ASSERT_EQUAL(rounds.end.calls, 1);
                CU_ASSERT_EQUAL(rounds.end.status, -ECANCELED);
                CU_ASSERT_EQUAL(rounds.last.calls, inside ? 9 : 10); /* one made after the cancel is dropped */
                CU_ASSERT_EQUAL(rounds.last.status, inside ? 0 : -ECANCELED);
                CU_ASSERT_EQUAL(end.status, -ECANCELED);
                weir_series_unref(series);
        }
        weir_test_end();
}

static void
timeout_ends_a_repeater(void)
{
        struct rounds rounds = {.left = 1000, .each = WEIR_SEC(1)};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_repeater_new(make_round, rounds_ended, &rounds), WEIR_MSEC(9500))),
                        -ETIMEDOUT);
        CU_ASSERT_EQUAL(rounds.made, 10);
        CU_ASSERT_EQUAL(rounds.end.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(rounds.end.at, began + WEIR_MSEC(9500));
        CU_ASSERT_EQUAL(rounds.last.status, -ETIMEDOUT);
        weir_test_end();
}

/* One is in no series, so that only the shutdown itself ends it; one makes tasks that end at once. */
static void
shutdown_ends_repeaters(void)
{
        struct rounds rounds[4] = {{.left = UINT32_MAX, .each = WEIR_SEC(1)},
                                   {.left = UINT32_MAX, .each = WEIR_SEC(1)},
                                   {.left = UINT32_MAX, .each = -1},
                                   {.left = UINT32_MAX, .each = -1}};

        weir_test_begin_real(2);
        for (unsigned i = 0; i < 4; i++) {
                weir_task *repeater = weir_repeater_new(make_round, rounds_ended, &rounds[i]);

                if (i % 2) {
                        weir_series *series = weir_series_new(NULL, NULL);

                        weir_series_push(series, repeater);
                        CU_ASSERT_EQUAL(weir_series_start(series), 0);
                } else {
                        CU_ASSERT_EQUAL(weir_task_start(repeater), 0);
                }
        }
        weir_test_sleep(5000000);
        weir_test_end();
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(rounds[i].end.calls, 1);
                CU_ASSERT_EQUAL(rounds[i].end.status, -ESHUTDOWN);
        }
}

/* -- dynamic -- */

static _Atomic bool is_inside;

static void
succeed_at_shutdown(void *context)
{
        (void)context;
        is_inside = true;
        while (weir_go_cancelled() != -ESHUTDOWN) {
                weir_test_sleep(100000);
        }
}

static weir_task *
make_a_function(void *context)
{
        (void)context;
        return weir_go_new(NULL, succeed_at_shutdown, NULL, NULL);
}

static void
a_task_that_succeeds_during_a_shutdown_has_succeeded(void)
{
        struct weir_test_record end = {0};

        is_inside = false;
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_dynamic_new(make_a_function, weir_test_done, &end))), 0);
        while (!is_inside) {
                weir_test_sleep(100000);
        }
        weir_test_end();
        WEIR_TEST_CALLED(&end, 0);
}

struct choice {
        unsigned made;
        weir_task *is;
};

static weir_task *
choose(void *context)
{
        struct choice *choice = context;

        choice->made++;
        return choice->is;
}

static void
dynamic_task_is_what_it_decides_to_be_when_started(void)
{
        struct weir_test_record chosen = {0}, before = {0};
        int status = -EIO;

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        struct choice choice = {.is = weir_test_timer(WEIR_SEC(2), &chosen)};
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_test_timer(WEIR_SEC(1), &before));
        weir_series_push(series, weir_dynamic_new(choose, NULL, &choice));
        CU_ASSERT_EQUAL(choice.made, 0);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(choice.made, 1);
        WEIR_TEST_CALLED(&chosen, 0);
        CU_ASSERT_EQUAL(chosen.at, began + WEIR_SEC(3));
        choice.is = failing(&status);
        CU_ASSERT_EQUAL(weir_task_run(weir_dynamic_new(choose, NULL, &choice)), -EIO);
        CU_ASSERT_EQUAL(choice.made, 2);
        weir_test_end();
}

static void
dynamic_task_with_nothing_to_do_ends_well(void)
{
        struct choice choice = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_dynamic_new(choose, NULL, &choice)), 0);
        CU_ASSERT_EQUAL(choice.made, 1);
        weir_test_end();
}

static void
dynamic_task_that_was_cancelled_is_not_asked(void)
{
        struct choice choice = {0};
        struct weir_test_record end = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        weir_series_push(series, weir_dynamic_new(choose, NULL, &choice));
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        CU_ASSERT_EQUAL(choice.made, 0);
        CU_ASSERT_EQUAL(end.calls, 1);
        weir_test_end();
}

static weir_task *
make_deeper(void *context)
{
        unsigned *depth = context;

        return (*depth)-- > 0 ? weir_dynamic_new(make_deeper, NULL, depth) : NULL;
}

static void
dynamic_tasks_become_dynamic_tasks_in_constant_stack(void)
{
        unsigned depth = WEIR_TEST_SANITIZED ? 5000 : 20000;

        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_dynamic_new(make_deeper, NULL, &depth)), 0);
        weir_test_end();
}

/* -- storm -- */

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
                for (unsigned looks = (unsigned)weir_test_random_below(&random, 300); looks > 0; looks--) {
                        (void)weir_series_status(torn.outer);
                }
                if (i % 2) {
                        weir_series_cancel(torn.outer);
                }
                pthread_barrier_wait(&torn.barrier);
        }
        return NULL;
}

static void
flows_of_all_kinds_are_cancelled_on_many_threads(void)
{
        unsigned runs = WEIR_TEST_SANITIZED ? 300 : 3000;
        pthread_t thread;

        weir_test_begin_real(3);
        pthread_barrier_init(&torn.barrier, NULL, 2);
        pthread_create(&thread, NULL, cancel_somewhere, &runs);
        for (unsigned run = 0; run < runs; run++) {
                struct rounds rounds[4] = {
                        {.left = 5, .each = 0}, {.left = 20, .each = -1}, {.left = 5, .each = 1000}, {.left = 0}};
                unsigned depths[4] = {3, 3, 3, 3};

                torn.outer = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *parallel = weir_parallel_new(NULL, NULL);
                for (unsigned i = 0; i < 4; i++) {
                        weir_series *series = weir_series_new(NULL, NULL);

                        weir_series_push(series, weir_timeout_new(weir_repeater_new(make_round, rounds_ended, &rounds[i]),
                                                                  run % 4 ? WEIR_FOREVER : (weir_nsec)i * 1000));
                        weir_series_push(series, weir_dynamic_new(make_deeper, NULL, &depths[i]));
                        weir_parallel_add(parallel, weir_module_new(series, NULL, NULL));
                }
                weir_series_push(torn.outer, parallel);
                pthread_barrier_wait(&torn.barrier);
                int status = weir_series_run(torn.outer);
                pthread_barrier_wait(&torn.barrier);
                CU_ASSERT(status == 0 || (status == -ECANCELED && run % 2));
                for (unsigned i = 0; i < 4; i++) {
                        CU_ASSERT(rounds[i].end.calls <= 1);
                        if (status == 0 && run % 4) {
                                CU_ASSERT_EQUAL(rounds[i].left, 0);
                        }
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
                WEIR_TEST(module_is_a_series_as_one_task),
                WEIR_TEST(status_of_a_module_is_that_of_its_series),
                WEIR_TEST(module_without_a_series_reports_it_when_started),
                WEIR_TEST(timeout_ends_the_task_at_its_limit),
                WEIR_TEST(timeout_without_time_calls_back_once_and_runs_nothing),
                WEIR_TEST(a_function_without_time_is_the_same_by_both_ways),
                WEIR_TEST(what_was_decided_before_a_timeout_without_time_stays),
                WEIR_TEST(status_of_a_timeout_is_that_of_the_task),
                WEIR_TEST(limit_is_for_what_the_task_pushes_as_well),
                WEIR_TEST(inner_limit_counts_within_an_outer_one_and_the_other_way_round),
                WEIR_TEST(free_function_of_a_timeout_runs_like_any),
                WEIR_TEST(repeater_runs_one_task_after_the_other_until_there_is_none),
                WEIR_TEST(status_of_a_repeater_is_that_of_its_last_task),
                WEIR_TEST(task_that_was_made_wrongly_ends_a_repeater),
                WEIR_TEST(makers_without_a_function_report_it),
                WEIR_TEST(repeater_runs_10_000_000_rounds_in_constant_stack_and_lets_others_in),
                WEIR_TEST(repeater_takes_turns_with_its_neighbour),
                WEIR_TEST(cancel_of_its_series_ends_a_repeater),
                WEIR_TEST(timeout_ends_a_repeater),
                WEIR_TEST(shutdown_ends_repeaters),
                WEIR_TEST(a_task_that_succeeds_during_a_shutdown_has_succeeded),
                WEIR_TEST(dynamic_task_is_what_it_decides_to_be_when_started),
                WEIR_TEST(dynamic_task_with_nothing_to_do_ends_well),
                WEIR_TEST(dynamic_task_that_was_cancelled_is_not_asked),
                WEIR_TEST(dynamic_tasks_become_dynamic_tasks_in_constant_stack),
                WEIR_TEST(flows_of_all_kinds_are_cancelled_on_many_threads),
        };

        return weir_test_main("flow", tests, sizeof tests / sizeof *tests);
}
