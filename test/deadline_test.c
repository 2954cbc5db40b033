/* test/deadline_test.c: deadlines of series, on the virtual clock where no threads race. */
#include "test/fixture.h"

#include <errno.h>

#include "factory/task/series.h"
#include "kernel/loop/pollers.h"
#include "test/blocks_fixture.h"

#define FAR WEIR_SEC(1000)

/* Nothing is left that time could come to. */
static void
nothing_is_pending(void)
{
        CU_ASSERT_EQUAL(weir__poller_at(0)->deadlines.queue.count, 0);
}

static weir_series *
series_of_timer(weir_nsec after, struct weir_test_record *timer, struct weir_test_record *end)
{
        weir_series *series = weir_series_new(weir_test_series_done, end);

        weir_series_push(series, weir_test_timer(after, timer));
        return series;
}

#define ENDED(record, status_, at_)                           \
        do {                                                  \
                CU_ASSERT_EQUAL((record)->calls, 1);          \
                CU_ASSERT_EQUAL((record)->status, (status_)); \
                CU_ASSERT_EQUAL((record)->at, (at_));         \
        } while (0)

/* -- at the deadline -- */

static void
at_the_deadline_what_is_pending_ends_and_the_rest_is_dropped(void)
{
        struct weir_test_record timer = {0}, rest = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = series_of_timer(FAR, &timer, &end);
        weir_series_push(series, weir_test_empty(&rest));
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(2)), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        ENDED(&timer, -ETIMEDOUT, began + WEIR_SEC(2));
        ENDED(&end, -ETIMEDOUT, began + WEIR_SEC(2));
        WEIR_TEST_NOT_CALLED(&rest);
        nothing_is_pending();
        weir_test_end();
}

static void
a_series_that_ends_before_leaves_nothing_of_its_deadline(void)
{
        struct weir_test_record timer = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = series_of_timer(WEIR_SEC(1), &timer, &end);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(2)), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        ENDED(&timer, 0, began + WEIR_SEC(1));
        ENDED(&end, 0, began + WEIR_SEC(1));
        nothing_is_pending();
        weir_test_end();
}

struct let_pass {
        struct weir_test_record record; /* first */
        int cause;
};

static void
let_the_deadline_pass(weir_task *task, void *context)
{
        struct let_pass *pass = context;

        CU_ASSERT_EQUAL(weir_series_set_deadline(weir_series_of(task), 0), 0);
        pass->cause = weir_series_cause(weir_series_of(task));
        weir_test_done(task, context);
}

static void
a_deadline_of_0_or_less_ends_the_series_at_once_but_not_a_callback_that_has_begun(void)
{
        struct weir_test_record rest = {0}, end = {0};
        struct let_pass pass = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        weir_series_push(series, weir_test_recorded(weir_timer_new(WEIR_SEC(1), let_the_deadline_pass, &pass)));
        weir_series_push(series, weir_test_empty(&rest));
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        ENDED(&pass.record, 0, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(pass.cause, WEIR_CAUSE_TIMED_OUT);
        WEIR_TEST_NOT_CALLED(&rest);
        ENDED(&end, -ETIMEDOUT, began + WEIR_SEC(1));

        struct weir_test_record timer = {0};
        end = (struct weir_test_record){0};
        series = series_of_timer(0, &timer, &end);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, INT64_MIN), 0);
        CU_ASSERT_EQUAL(weir_series_time_left(series), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_FOREVER), 0); /* too late */
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        WEIR_TEST_NOT_CALLED(&timer);
        CU_ASSERT_EQUAL(end.calls, 1);
        weir_test_end();
}

static void
the_time_counts_from_the_call_also_before_the_start(void)
{
        struct weir_test_record timer[2] = {0}, end[2] = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *late = series_of_timer(FAR, &timer[0], &end[0]), *too_late = series_of_timer(FAR, &timer[1], &end[1]);
        CU_ASSERT_EQUAL(weir_series_set_deadline(late, WEIR_SEC(3)), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(too_late, WEIR_SEC(1)), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_series_time_left(late), WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_series_time_left(too_late), 0);
        CU_ASSERT_EQUAL(weir_series_run(late), -ETIMEDOUT);
        ENDED(&end[0], -ETIMEDOUT, began + WEIR_SEC(3));
        CU_ASSERT_EQUAL(weir_series_run(too_late), -ETIMEDOUT);
        WEIR_TEST_NOT_CALLED(&timer[1]);
        ENDED(&end[1], -ETIMEDOUT, began + WEIR_SEC(3));
        weir_test_end();
}

/* -- set again -- */

struct change {
        weir_series *series;
        weir_nsec from_now;
};

static void
change_deadline(weir_task *task, void *context)
{
        struct change *change = context;

        (void)task;
        CU_ASSERT_EQUAL(weir_series_set_deadline(change->series, change->from_now), 0);
}

static void
set_again_it_replaces_the_one_before_earlier_or_later_or_never(void)
{
        static const struct {
                weir_nsec first, then, ends;
                int status;
        } rows[] = {
                {WEIR_SEC(5), WEIR_SEC(1), WEIR_SEC(2), -ETIMEDOUT}, {WEIR_SEC(2), WEIR_SEC(8), WEIR_SEC(9), -ETIMEDOUT},
                {WEIR_SEC(2), WEIR_FOREVER, WEIR_SEC(10), 0},        {WEIR_FOREVER, WEIR_SEC(3), WEIR_SEC(4), -ETIMEDOUT},
                {WEIR_SEC(5), 0, WEIR_SEC(1), -ETIMEDOUT},           {WEIR_SEC(5), WEIR_SEC(30), WEIR_SEC(10), 0},
                {WEIR_FOREVER, WEIR_FOREVER, WEIR_SEC(10), 0},
        };

        weir_test_begin_virtual();
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                struct weir_test_record timer = {0}, end = {0};
                weir_nsec began = weir_now();
                weir_series *series = weir_series_ref(series_of_timer(WEIR_SEC(10), &timer, &end));
                struct change change = {series, rows[i].then};

                CU_ASSERT_EQUAL(weir_series_set_deadline(series, rows[i].first), 0);
                weir_task_start(weir_timer_new(WEIR_SEC(1), change_deadline, &change));
                CU_ASSERT_EQUAL(weir_series_run(series), rows[i].status);
                ENDED(&timer, rows[i].status, began + rows[i].ends);
                ENDED(&end, rows[i].status, began + rows[i].ends);
                weir_series_unref(series);
                nothing_is_pending();
        }
        weir_test_end();
}

/* -- tasks inside -- */

struct nest {
        struct weir_test_record timer, empty, dropped, end, parallel;
};

#define DEPTH 5
#define WIDTH 3

/* A series of a timer, a parallel of such series, and what must not be reached. */
static weir_series *
make_nest(struct nest *nests, unsigned *made, unsigned depth)
{
        struct nest *nest = &nests[(*made)++];
        weir_series *series = weir_series_new(weir_test_series_done, &nest->end);

        if (depth == 0) {
                weir_series_push(series, weir_test_timer(FAR, &nest->timer));
        } else {
                weir_task *parallel = weir_test_recorded(weir_parallel_new(weir_test_done, &nest->parallel));

                for (unsigned i = 0; i < WIDTH; i++)
                        weir_parallel_add_series(parallel, make_nest(nests, made, depth - 1));
                weir_series_push(series, weir_test_empty(&nest->empty));
                weir_series_push(series, parallel);
        }
        weir_series_push(series, weir_test_empty(&nest->dropped));
        return series;
}

static void
in_nested_parallels_every_callback_sees_the_deadline_at_that_instant(void)
{
        static struct nest nests[WIDTH * WIDTH * WIDTH * WIDTH * WIDTH * 2];
        unsigned made = 0;

        weir_test_begin_virtual();
        weir_nsec at = weir_now() + WEIR_SEC(7) + 13;
        weir_series *series = make_nest(nests, &made, DEPTH);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(7) + 13), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        for (unsigned i = 0; i < made; i++) {
                struct nest *nest = &nests[i];

                if (nest->timer.frees)
                        ENDED(&nest->timer, -ETIMEDOUT, at);
                else
                        ENDED(&nest->parallel, -ETIMEDOUT, at);
                ENDED(&nest->end, -ETIMEDOUT, at);
                WEIR_TEST_NOT_CALLED(&nest->dropped);
        }
        CU_ASSERT_EQUAL(made, (WIDTH * WIDTH * WIDTH * WIDTH * WIDTH * WIDTH - 1) / (WIDTH - 1));
        nothing_is_pending();
        weir_test_end();
}

static void
of_the_deadlines_of_a_series_and_those_it_is_within_the_earliest_counts(void)
{
        static const struct {
                weir_nsec outer, inner, inner_ends, outer_ends;
                int outer_status;
        } rows[] = {
                {WEIR_SEC(5), WEIR_SEC(3), WEIR_SEC(3), WEIR_SEC(3), 0},
                {WEIR_SEC(3), WEIR_SEC(5), WEIR_SEC(3), WEIR_SEC(3), -ETIMEDOUT},
                {WEIR_FOREVER, WEIR_SEC(5), WEIR_SEC(5), WEIR_SEC(5), 0},
                {WEIR_SEC(4), WEIR_FOREVER, WEIR_SEC(4), WEIR_SEC(4), -ETIMEDOUT},
        };

        weir_test_begin_virtual();
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                struct weir_test_record timer = {0}, inner_end = {0}, end = {0}, parallel = {0};
                weir_nsec began = weir_now();
                weir_series *outer = weir_series_new(weir_test_series_done, &end);
                weir_series *inner = series_of_timer(FAR, &timer, &inner_end);
                weir_task *task = weir_test_recorded(weir_parallel_new(weir_test_done, &parallel));

                CU_ASSERT_EQUAL(weir_series_set_deadline(outer, rows[i].outer), 0);
                CU_ASSERT_EQUAL(weir_series_set_deadline(inner, rows[i].inner), 0);
                weir_parallel_add_series(task, inner);
                weir_series_push(outer, task);
                CU_ASSERT_EQUAL(weir_series_run(outer), rows[i].outer_status);
                ENDED(&timer, -ETIMEDOUT, began + rows[i].inner_ends);
                ENDED(&inner_end, -ETIMEDOUT, began + rows[i].inner_ends);
                ENDED(&parallel, -ETIMEDOUT, began + rows[i].outer_ends);
                ENDED(&end, rows[i].outer_status, began + rows[i].outer_ends);
                nothing_is_pending();
        }
        weir_test_end();
}

struct left {
        weir_nsec is;
        int calls;
};

static void
ask_what_is_left(weir_task *task, void *context)
{
        struct left *left = context;

        left->is = weir_series_time_left(weir_series_of(task));
        left->calls++;
}

static void
the_time_left_is_that_of_the_earliest_deadline_around(void)
{
        struct left left = {0}, without = {0};

        weir_test_begin_virtual();
        weir_series *outer = weir_series_new(NULL, NULL), *inner = weir_series_new(NULL, NULL);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_series_set_deadline(outer, WEIR_SEC(5)), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(inner, WEIR_SEC(6)), 0);
        CU_ASSERT_EQUAL(weir_series_time_left(inner), WEIR_SEC(6));
        weir_series_push(inner, weir_timer_new(WEIR_SEC(2), ask_what_is_left, &left));
        weir_parallel_add_series(parallel, inner);
        weir_series_push(outer, parallel);
        CU_ASSERT_EQUAL(weir_series_run(outer), 0);
        CU_ASSERT_EQUAL(left.is, WEIR_SEC(3));

        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(WEIR_SEC(2), ask_what_is_left, &without)), 0);
        CU_ASSERT(without.calls == 1 && without.is == WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_series_time_left(NULL), -EINVAL);
        weir_test_end();
}

/* -- a limit that has come, whose work has not run -- */

struct tie {
        struct weir_test_record record; /* first */
        weir_nsec from_now;             /* what the deadline is set to in the callback; 0: it is left */
        weir_task *more;
};

static void
at_the_same_instant(weir_task *task, void *context)
{
        struct tie *tie = context;

        if (tie->from_now)
                CU_ASSERT_EQUAL(weir_series_set_deadline(weir_series_of(task), tie->from_now), 0);
        if (tie->more)
                CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), tie->more), 0);
        weir_test_done(task, context);
}

/* The first task sets the deadline to the instant of a timer that was started before. */
struct set_late {
        weir_series *series;
        weir_nsec from_now;
};

static void
set_late(weir_task *task, void *context)
{
        struct set_late *late = context;

        (void)task;
        CU_ASSERT_EQUAL(weir_series_set_deadline(late->series, late->from_now), 0);
}

/* The timer of one second is in the queue first, the limit of the same instant behind it. */
static int
run_tie(struct tie *tie, struct weir_test_record *end)
{
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, end));
        struct set_late late = {series, WEIR_MSEC(500)};

        weir_series_push(series, weir_test_recorded(weir_timer_new(WEIR_SEC(1), at_the_same_instant, tie)));
        weir_task_start(weir_timer_new(WEIR_MSEC(500), set_late, &late));
        int status = weir_series_run(series);
        weir_series_unref(series);
        return status;
}

static void
a_series_may_end_between_its_deadline_and_the_work_of_that(void)
{
        struct weir_test_record end = {0};
        struct tie tie = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(run_tie(&tie, &end), 0);
        ENDED(&tie.record, 0, began + WEIR_SEC(1));
        ENDED(&end, 0, began + WEIR_SEC(1));
        nothing_is_pending();
        weir_test_end();
}

static void
a_deadline_may_be_moved_between_its_instant_and_the_work_of_that(void)
{
        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2; i++) {
                struct weir_test_record end = {0}, more = {0};
                struct tie tie = {.from_now = i ? WEIR_FOREVER : WEIR_SEC(3), .more = weir_test_timer(WEIR_SEC(10), &more)};
                weir_nsec began = weir_now(), ends = began + (i ? WEIR_SEC(11) : WEIR_SEC(4));
                int status = i ? 0 : -ETIMEDOUT;

                CU_ASSERT_EQUAL(run_tie(&tie, &end), status);
                ENDED(&tie.record, 0, began + WEIR_SEC(1));
                ENDED(&more, status, ends);
                ENDED(&end, status, ends);
                nothing_is_pending();
        }
        weir_test_end();
}

static void
a_callback_that_has_not_begun_when_the_deadline_comes_sees_it(void)
{
        struct weir_test_record timer = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = series_of_timer(WEIR_SEC(1), &timer, &end);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(1)), 0); /* in the queue before the timer */
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        ENDED(&timer, -ETIMEDOUT, began + WEIR_SEC(1));
        weir_test_end();
}

/* -- kinds of tasks, and of series -- */

static void
set_on_own_series(weir_task *task, void *context)
{
        struct weir_test_record *records = context;
        weir_series *series = weir_series_of(task);

        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(1)), 0);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_test_timer(FAR, &records[1])), 0);
        weir_test_done(task, &records[0]);
}

static void
the_series_of_a_lone_task_can_have_one(void)
{
        struct weir_test_record records[2] = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), set_on_own_series, records)), 0);
        weir_test_pass(WEIR_SEC(5));
        ENDED(&records[0], 0, began + WEIR_SEC(1));
        ENDED(&records[1], -ETIMEDOUT, began + WEIR_SEC(2));
        nothing_is_pending();
        weir_test_end();
}

struct ticks {
        unsigned ticks, ends;
        int status;
        weir_nsec at;
};

static void
on_tick(weir_task *ticker, void *context)
{
        struct ticks *ticks = context;

        if (weir_task_status(ticker) == -EINPROGRESS) {
                ticks->ticks++;
                return;
        }
        ticks->ends++;
        ticks->status = weir_task_status(ticker);
        ticks->at = weir_now();
}

static void
a_ticker_ends_with_it(void)
{
        struct ticks ticks = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_ticker_new(WEIR_SEC(1), WEIR_TICK_SKIP, on_tick, &ticks));
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_MSEC(3500)), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        CU_ASSERT(ticks.ticks == 3 && ticks.ends == 1 && ticks.status == -ETIMEDOUT && ticks.at == began + WEIR_MSEC(3500));
        weir_test_end();
}

struct function {
        struct weir_test_latch begun;
        _Atomic int saw;
};

/* Runs until the stop flag is set. */
static void
work_on(void *context)
{
        struct function *function = context;
        int saw;

        weir_test_latch_count_down(&function->begun);
        while ((saw = weir_go_cancelled()) == 0)
                sched_yield();
        function->saw = saw;
        weir_go_fail(function->saw);
}

static void
done_of_function(weir_task *task, void *context)
{
        *(_Atomic int *)context = weir_task_status(task);
}

static void
functions_on_the_executor_are_told(void)
{
        for (unsigned i = 0; i < 2; i++) { /* a plain one, and one with a limit of its own */
                struct function function = {.begun = WEIR_TEST_LATCH(1)};

                weir_test_begin_real(2);
                weir_series *series = weir_series_new(NULL, NULL);
                weir_series_push(series, i ? weir_go_new_timed(NULL, FAR, work_on, NULL, &function)
                                           : weir_go_new(NULL, work_on, NULL, &function));
                weir_series_ref(series);
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                weir_test_latch_wait(&function.begun);
                CU_ASSERT_EQUAL(weir_series_set_deadline(series, 0), 0);
                WEIR_TEST_EVENTUALLY(weir_series_set_deadline(series, 1) == -ESTALE);
                CU_ASSERT_EQUAL(function.saw, -ETIMEDOUT);
                CU_ASSERT_EQUAL(weir_series_status(series), -ETIMEDOUT);
                weir_series_unref(series);
                weir_test_end();
        }
}

static void
never_called(void *context)
{
        (void)context;
        CU_FAIL("the function was called");
}

static void
functions_that_have_not_begun_end_with_it(void)
{
        _Atomic int status = 1;

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_empty_new(NULL, NULL));
        weir_task *task = weir_go_new(NULL, never_called, done_of_function, (void *)&status);
        weir_series_push(series, task);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, 0), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        CU_ASSERT_EQUAL(status, 1); /* dropped */
        weir_test_end();
}

/* -- the end -- */

static void
the_cause_is_the_first_that_comes(void)
{
        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_NONE);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, 0), 0);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_CANCELLED);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_CANCELLED);
        weir_series_unref(series);

        series = weir_series_ref(weir_series_new(NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, 0), 0);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_TIMED_OUT);
        weir_series_unref(series);
        weir_test_end();
}

static void
shutdown_comes_before_a_deadline_that_is_far(void)
{
        struct weir_test_record timer = {0}, end = {0};

        weir_test_begin_real(2);
        weir_series *series = weir_series_ref(series_of_timer(WEIR_FOREVER, &timer, &end));
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, FAR), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&timer, -ESHUTDOWN);
        CU_ASSERT(end.calls == 1 && end.status == -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_SHUT_DOWN);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, FAR), -ESTALE);
        weir_series_unref(series);
}

static void
bad_input_is_refused(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_series_set_deadline(NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_cause(NULL), -EINVAL);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, 1), -ESTALE);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, 0), -ESTALE);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_FOREVER), -ESTALE);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_NONE);
        CU_ASSERT_EQUAL(weir_series_time_left(series), WEIR_FOREVER);
        weir_series_unref(series);
        weir_test_end();
}

static void
in_a_forked_child(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        _exit(weir_series_set_deadline(series, 1) == -ECHILD && weir_series_cause(series) == -ECHILD &&
                              weir_series_time_left(series) == -ECHILD
                      ? 7
                      : 1);
}

static void
a_forked_child_is_refused(void)
{
        char said[256];

        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(WEXITSTATUS(weir_test_child(in_a_forked_child, said, sizeof said)), 7);
        weir_test_end();
}

static void
without_memory_it_is_refused_and_the_series_goes_on(void)
{
        weir_test_begin_virtual();
        int64_t before = bytes_out;
        weir_series *series = weir_series_new(NULL, NULL);
        allocations_left = 0;
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_SEC(1)), -ENOMEM);
        allocations_left = 0;
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, WEIR_FOREVER), 0); /* which needs none */
        CU_ASSERT_EQUAL(weir_series_time_left(series), WEIR_FOREVER);
        allocations_left = -1;
        weir_series_push(series, weir_timer_new(WEIR_SEC(2), NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);

        series = weir_series_new(NULL, NULL);
        allocations_left = 0;
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, 0), 0); /* nor does this */
        allocations_left = -1;
        CU_ASSERT_EQUAL(weir_series_run(series), -ETIMEDOUT);

        series = weir_series_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, 5), 0);
        weir_series_dismiss(series);
        WEIR_TEST_EVENTUALLY(bytes_out == before);
        weir_test_end();
}

/* -- a storm -- */

#define THREADS 4
#define FLOWS   (WEIR_TEST_SANITIZED ? 1500 : 20000) /* of each thread */

static struct {
        _Atomic unsigned ended, timed_out, odd, callbacks;
} storm;

static void
storm_ended(weir_series *series, void *context)
{
        int status = weir_series_status(series), cause = weir_series_cause(series);

        (void)context;
        storm.ended++;
        storm.timed_out += status == -ETIMEDOUT;
        storm.odd += !((status == 0 && cause == WEIR_CAUSE_NONE) || (status == -ETIMEDOUT && cause == WEIR_CAUSE_TIMED_OUT) ||
                       (status == -ESHUTDOWN && cause == WEIR_CAUSE_SHUT_DOWN));
}

static void
storm_called(weir_task *task, void *context)
{
        int status = weir_task_status(task);

        (void)context;
        storm.callbacks++;
        storm.odd += status && status != -ETIMEDOUT && status != -ESHUTDOWN;
}

static weir_nsec
some_time(struct weir_test_random *random)
{
        uint64_t kind = weir_test_random_below(random, 8);

        return kind == 0 ? 0 : kind == 1 ? WEIR_FOREVER : (weir_nsec)weir_test_random_below(random, 300000);
}

static weir_series *
storm_flow(struct weir_test_random *random, unsigned depth)
{
        weir_series *series = weir_series_new(storm_ended, NULL);

        for (uint64_t i = weir_test_random_below(random, 3); i > 0; i--)
                weir_series_push(series, weir_timer_new((weir_nsec)weir_test_random_below(random, 200000), storm_called, NULL));
        if (depth > 0) {
                weir_task *parallel = weir_parallel_new(storm_called, NULL);

                for (unsigned i = 0; i < 2; i++)
                        weir_parallel_add_series(parallel, storm_flow(random, depth - 1));
                weir_series_push(series, parallel);
        }
        if (weir_test_random_below(random, 2))
                weir_series_set_deadline(series, some_time(random));
        return series;
}

static void *
storm_run(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)argument};

        for (unsigned i = 0; i < FLOWS; i++) {
                weir_series *series = weir_series_ref(storm_flow(&random, (unsigned)weir_test_random_below(&random, 3)));

                if (weir_series_start(series)) {
                        weir_series_unref(series);
                        break;
                }
                for (uint64_t changes = weir_test_random_below(&random, 4); changes > 0; changes--) {
                        weir_series_set_deadline(series, some_time(&random));
                        storm.odd += weir_series_time_left(series) < 0;
                }
                weir_series_unref(series);
        }
        return NULL;
}

static void
in_a_storm_of_deadlines_every_series_ends_once(void)
{
        pthread_t threads[THREADS];
        int64_t before = (weir_test_free_kept(), bytes_out);

        storm.ended = storm.timed_out = storm.odd = 0;
        weir_test_begin_real(3);
        for (uintptr_t i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, storm_run, (void *)(i + 1));
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        CU_ASSERT(storm.timed_out > 0 && storm.timed_out < storm.ended);
        CU_ASSERT_EQUAL(storm.odd, 0);
        weir_test_free_kept();
        CU_ASSERT_EQUAL(bytes_out, before);
}

static void
shutdown_in_such_a_storm_leaves_nothing(void)
{
        pthread_t threads[THREADS];
        int64_t before = bytes_out;

        for (unsigned round = 0; round < 10; round++) {
                storm.odd = 0;
                weir_test_begin_real(3);
                for (uintptr_t i = 0; i < THREADS; i++)
                        pthread_create(&threads[i], NULL, storm_run, (void *)(round * THREADS + i + 1));
                weir_test_sleep(2000000 * round);
                weir_test_end();
                for (unsigned i = 0; i < THREADS; i++)
                        pthread_join(threads[i], NULL);
                CU_ASSERT_EQUAL(storm.odd, 0);
                weir_test_free_kept();
                CU_ASSERT_EQUAL(bytes_out, before);
        }
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(at_the_deadline_what_is_pending_ends_and_the_rest_is_dropped),
                WEIR_TEST(a_series_that_ends_before_leaves_nothing_of_its_deadline),
                WEIR_TEST(a_deadline_of_0_or_less_ends_the_series_at_once_but_not_a_callback_that_has_begun),
                WEIR_TEST(the_time_counts_from_the_call_also_before_the_start),
                WEIR_TEST(set_again_it_replaces_the_one_before_earlier_or_later_or_never),
                WEIR_TEST(in_nested_parallels_every_callback_sees_the_deadline_at_that_instant),
                WEIR_TEST(of_the_deadlines_of_a_series_and_those_it_is_within_the_earliest_counts),
                WEIR_TEST(the_time_left_is_that_of_the_earliest_deadline_around),
                WEIR_TEST(a_series_may_end_between_its_deadline_and_the_work_of_that),
                WEIR_TEST(a_deadline_may_be_moved_between_its_instant_and_the_work_of_that),
                WEIR_TEST(a_callback_that_has_not_begun_when_the_deadline_comes_sees_it),
                WEIR_TEST(the_series_of_a_lone_task_can_have_one),
                WEIR_TEST(a_ticker_ends_with_it),
                WEIR_TEST(functions_on_the_executor_are_told),
                WEIR_TEST(functions_that_have_not_begun_end_with_it),
                WEIR_TEST(the_cause_is_the_first_that_comes),
                WEIR_TEST(shutdown_comes_before_a_deadline_that_is_far),
                WEIR_TEST(bad_input_is_refused),
                WEIR_TEST(a_forked_child_is_refused),
                WEIR_TEST(without_memory_it_is_refused_and_the_series_goes_on),
                WEIR_TEST(in_a_storm_of_deadlines_every_series_ends_once),
                WEIR_TEST(shutdown_in_such_a_storm_leaves_nothing),
        };

        return weir_test_main("deadline", tests, sizeof tests / sizeof tests[0]);
}
