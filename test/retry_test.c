/* test/retry_test.c: tasks that try again, later each time. */
#include "test/fixture.h"

#include <errno.h>
#include <limits.h>

#define FAR  WEIR_SEC(1000)
#define MOST 64

/* -- parts of tests -- */

/* Attempts that end as planned, and what was seen of them.  An attempt beyond the plan does as the last one of it. */
struct plan {
        int statuses[8];
        unsigned planned;
        weir_nsec takes; /* each attempt, before it ends; 0: a function alone */
        int nothing_at;  /* the attempt, from 1, that is not made */

        int made;
        weir_nsec began[MOST];
        struct weir_test_record last, end;
        int attempts; /* as the callback has read them */
        int asked, asked_status, worth_it_for;
};

static void
fail_function(void *context)
{
        weir_go_fail(*(int *)context);
}

static void
attempt_done(weir_task *task, void *context)
{
        weir_test_note(context, weir_task_status(task));
}

static weir_task *
make_attempt(void *context)
{
        struct plan *plan = context;
        int i = plan->made++;

        if (i + 1 == plan->nothing_at) {
                return NULL;
        }
        plan->began[i < MOST ? i : MOST - 1] = weir_now();
        int *status = &plan->statuses[i < (int)plan->planned ? i : (int)plan->planned - 1];
        if (plan->takes) {
                return weir_timer_new(plan->takes, attempt_done, &plan->last);
        }
        return weir_go_new(NULL, fail_function, NULL, status);
}

static void
retry_done(weir_task *retry, void *context)
{
        struct plan *plan = context;

        plan->attempts = weir_retry_attempts(retry);
        weir_test_note(&plan->end, weir_task_status(retry));
}

static int
worth_it(int status, void *context)
{
        struct plan *plan = context;

        plan->asked++;
        plan->asked_status = status;
        return status == plan->worth_it_for;
}

static struct weir_retry_config
exactly(int attempts, weir_nsec delay)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        config.attempts = attempts;
        config.delay = delay;
        config.jitter = WEIR_JITTER_NONE;
        return config;
}

static int
run(const struct weir_retry_config *config, struct plan *plan)
{
        int status = weir_task_run(weir_retry_new(config, make_attempt, retry_done, plan));

        CU_ASSERT_EQUAL(plan->end.calls, 1);
        CU_ASSERT_EQUAL(plan->end.status, status);
        CU_ASSERT_EQUAL(plan->attempts, plan->made);
        return status;
}

/* -- attempts -- */

static void
it_ends_with_the_first_attempt_that_succeeds(void)
{
        struct weir_retry_config config = exactly(5, WEIR_SEC(1));

        weir_test_begin_virtual();
        for (unsigned failures = 0; failures < 3; failures++) {
                struct plan plan = {.statuses = {-EIO, -EPIPE}, .planned = failures + 1};

                plan.statuses[failures] = 0;
                CU_ASSERT_EQUAL(run(&config, &plan), 0);
                CU_ASSERT_EQUAL(plan.made, (int)failures + 1);
        }
        weir_test_end();
}

static void
after_the_last_attempt_its_status_is_that_of_it(void)
{
        struct weir_retry_config config = exactly(3, WEIR_SEC(1));
        struct plan plan = {.statuses = {-EIO, -EPIPE, -ENODATA, 0}, .planned = 4};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(run(&config, &plan), -ENODATA);
        CU_ASSERT_EQUAL(plan.made, 3);
        weir_test_end();
}

static void
without_a_config_there_are_three_attempts(void)
{
        struct plan plan = {.statuses = {-EIO}, .planned = 1};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(run(NULL, &plan), -EIO);
        CU_ASSERT_EQUAL(plan.made, 3);
        CU_ASSERT(plan.began[1] - plan.began[0] <= WEIR_MSEC(100));
        CU_ASSERT(plan.began[2] - plan.began[1] <= WEIR_MSEC(200));
        weir_test_end();
}

static void
delays_without_jitter_are_exact(void)
{
        static const struct {
                int factor;
                weir_nsec longest, delays[6];
        } cases[] = {
                {0, 0, {WEIR_SEC(1), WEIR_SEC(2), WEIR_SEC(4), WEIR_SEC(8), WEIR_SEC(16), WEIR_SEC(30)}},
                {100, 0, {WEIR_SEC(1), WEIR_SEC(1), WEIR_SEC(1), WEIR_SEC(1), WEIR_SEC(1), WEIR_SEC(1)}},
                {150, WEIR_SEC(3), {WEIR_SEC(1), WEIR_MSEC(1500), WEIR_MSEC(2250), WEIR_SEC(3), WEIR_SEC(3), WEIR_SEC(3)}},
                {INT_MAX, WEIR_SEC(40), {WEIR_SEC(1), WEIR_SEC(40), WEIR_SEC(40), WEIR_SEC(40), WEIR_SEC(40), WEIR_SEC(40)}},
                {0, WEIR_MSEC(1), {WEIR_MSEC(1), WEIR_MSEC(1), WEIR_MSEC(1), WEIR_MSEC(1), WEIR_MSEC(1), WEIR_MSEC(1)}},
        };

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct weir_retry_config config = exactly(7, WEIR_SEC(1));
                struct plan plan = {.statuses = {-EIO}, .planned = 1};

                config.factor = cases[i].factor;
                config.max_delay = cases[i].longest;
                CU_ASSERT_EQUAL(run(&config, &plan), -EIO);
                CU_ASSERT_EQUAL(plan.made, 7);
                for (unsigned j = 0; j < 6; j++) {
                        CU_ASSERT_EQUAL(plan.began[j + 1] - plan.began[j], cases[i].delays[j]);
                }
        }
        weir_test_end();
}

/* With a factor of 100 all waits are drawn alike: 2000 of them fill the range, and stay in it. */
static void
delays_with_jitter_fill_their_range(void)
{
        weir_test_begin_virtual();
        for (enum weir_retry_jitter jitter = WEIR_JITTER_FULL; jitter <= WEIR_JITTER_EQUAL; jitter++) {
                weir_nsec least = WEIR_FOREVER, most = 0, sum = 0, from = jitter == WEIR_JITTER_FULL ? 0 : WEIR_SEC(5);

                for (unsigned round = 0; round < 40; round++) {
                        struct weir_retry_config config = exactly(51, WEIR_SEC(10));
                        struct plan plan = {.statuses = {-EIO}, .planned = 1};

                        config.jitter = jitter;
                        config.factor = 100;
                        CU_ASSERT_EQUAL(run(&config, &plan), -EIO);
                        for (unsigned i = 0; i < 50; i++) {
                                weir_nsec wait = plan.began[i + 1] - plan.began[i];

                                least = wait < least ? wait : least;
                                most = wait > most ? wait : most;
                                sum += wait;
                        }
                }
                CU_ASSERT(least >= from && least < from + WEIR_MSEC(100));
                CU_ASSERT(most > WEIR_MSEC(9900) && most <= WEIR_SEC(10));
                weir_nsec middle = (from + WEIR_SEC(10)) / 2;
                CU_ASSERT(sum / 2000 > middle - WEIR_MSEC(300) && sum / 2000 < middle + WEIR_MSEC(300));
        }
        weir_test_end();
}

static void
jitter_is_the_same_each_time_on_the_virtual_clock(void)
{
        struct plan plans[2] = {{.statuses = {-EIO}, .planned = 1}, {.statuses = {-EIO}, .planned = 1}};
        struct weir_retry_config config = exactly(20, WEIR_SEC(1));

        config.jitter = WEIR_JITTER_FULL;
        for (unsigned i = 0; i < 2; i++) {
                weir_test_begin_virtual();
                run(&config, &plans[i]);
                weir_test_end();
        }
        for (unsigned i = 0; i < 20; i++) {
                CU_ASSERT_EQUAL(plans[0].began[i] - plans[0].began[0], plans[1].began[i] - plans[1].began[0]);
        }
}

static void
attempts_without_a_limit_go_on_until_one_succeeds(void)
{
        struct weir_retry_config config = exactly(INT_MAX, 1);
        struct plan plan = {.statuses = {-EIO, -EIO, -EIO, -EIO, -EIO, -EIO, -EIO, 0}, .planned = 8};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(run(&config, &plan), 0);
        CU_ASSERT_EQUAL(plan.made, 8);
        weir_test_end();
}

/* -- failures that are worth another attempt -- */

static void
some_failures_are_not_tried_again(void)
{
        static const int hopeless[] = {-ECANCELED, -ESHUTDOWN, -ECHILD, -EINVAL, -EDOM, -ENAMETOOLONG, -ELOOP, -EDEADLK, -ENOMEM};
        struct weir_retry_config config = exactly(3, 1);

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof hopeless / sizeof *hopeless; i++) {
                struct plan plan = {.statuses = {hopeless[i]}, .planned = 1};

                CU_ASSERT_EQUAL(run(&config, &plan), hopeless[i]);
                CU_ASSERT_EQUAL(plan.made, 1);
        }
        weir_test_end();
}

static void
predicate_decides_what_is_worth_another_attempt(void)
{
        struct weir_retry_config config = exactly(5, 1);
        struct plan plan = {.statuses = {-ENOMEM, -ENOMEM, -EIO}, .planned = 3, .worth_it_for = -ENOMEM};

        weir_test_begin_virtual();
        config.retry_if = worth_it;
        CU_ASSERT_EQUAL(run(&config, &plan), -EIO);
        CU_ASSERT_EQUAL(plan.made, 3);
        CU_ASSERT_EQUAL(plan.asked, 3);
        CU_ASSERT_EQUAL(plan.asked_status, -EIO);
        weir_test_end();
}

static void
predicate_is_not_asked_about_success_nor_after_the_last_attempt(void)
{
        struct weir_retry_config config = exactly(2, 1);
        struct plan good = {.planned = 1}, bad = {.statuses = {-EIO}, .planned = 1, .worth_it_for = -EIO};

        weir_test_begin_virtual();
        config.retry_if = worth_it;
        CU_ASSERT_EQUAL(run(&config, &good), 0);
        CU_ASSERT_EQUAL(good.asked, 0);
        CU_ASSERT_EQUAL(run(&config, &bad), -EIO);
        CU_ASSERT_EQUAL(bad.asked, 1);
        weir_test_end();
}

/* -- waits that the outcome asks for -- */

/* The first failure asks for 7 seconds, the second for nothing of its own, the third for none at all. */
static weir_nsec
as_asked(int status, weir_nsec planned, void *context)
{
        struct plan *plan = context;

        CU_ASSERT_EQUAL(status, plan->statuses[plan->made - 1]);
        CU_ASSERT_EQUAL(planned, WEIR_SEC(1) << (plan->made - 1));
        return plan->made == 1 ? WEIR_SEC(7) : plan->made == 2 ? -1 : 0;
}

static void
an_outcome_may_ask_for_another_wait(void)
{
        struct weir_retry_config config = exactly(4, WEIR_SEC(1));
        struct plan plan = {.statuses = {-EIO, -EBUSY, -EPIPE}, .planned = 4};

        weir_test_begin_virtual();
        config.delay_of = as_asked;
        config.max_delay = WEIR_SEC(5); /* does not bound what is asked for */
        CU_ASSERT_EQUAL(run(&config, &plan), 0);
        CU_ASSERT_EQUAL(plan.made, 4);
        CU_ASSERT_EQUAL(plan.began[1] - plan.began[0], WEIR_SEC(7));
        CU_ASSERT_EQUAL(plan.began[2] - plan.began[1], WEIR_SEC(2));
        CU_ASSERT_EQUAL(plan.began[3] - plan.began[2], 0);
        weir_test_end();
}

static void
a_wait_that_is_asked_for_and_would_outlast_the_limit_is_not_begun(void)
{
        struct weir_retry_config config = exactly(4, WEIR_SEC(1));
        struct plan plan = {.statuses = {-EIO}, .planned = 4};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        config.delay_of = as_asked;
        config.limit = WEIR_SEC(6);
        CU_ASSERT_EQUAL(run(&config, &plan), -EIO);
        CU_ASSERT_EQUAL(plan.made, 1);
        CU_ASSERT_EQUAL(weir_now(), began);
        weir_test_end();
}

/* -- limits -- */

static void
attempt_that_takes_too_long_is_ended_and_tried_again(void)
{
        struct weir_retry_config config = exactly(3, WEIR_SEC(1));
        struct plan plan = {.planned = 1, .takes = FAR};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        config.attempt_limit = WEIR_SEC(2);
        CU_ASSERT_EQUAL(run(&config, &plan), -ETIMEDOUT);
        CU_ASSERT_EQUAL(plan.made, 3);
        CU_ASSERT_EQUAL(plan.last.calls, 3);
        CU_ASSERT_EQUAL(plan.last.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(plan.began[1] - began, WEIR_SEC(3));
        CU_ASSERT_EQUAL(plan.began[2] - began, WEIR_SEC(7));
        CU_ASSERT_EQUAL(plan.end.at - began, WEIR_SEC(9));
        weir_test_end();
}

static void
limit_of_it_all_ends_the_attempt_that_runs(void)
{
        struct weir_retry_config config = exactly(100, WEIR_SEC(1));
        struct plan plan = {.planned = 1, .takes = FAR};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        config.attempt_limit = WEIR_SEC(2);
        config.limit = WEIR_MSEC(4500);
        CU_ASSERT_EQUAL(run(&config, &plan), -ETIMEDOUT);
        CU_ASSERT_EQUAL(plan.made, 2);
        CU_ASSERT_EQUAL(plan.end.at - began, WEIR_MSEC(4500));
        weir_test_end();
}

static void
it_does_not_wait_for_an_attempt_that_would_come_too_late(void)
{
        weir_test_begin_virtual();
        for (unsigned inherited = 0; inherited < 2; inherited++) {
                struct weir_retry_config config = exactly(100, WEIR_SEC(1));
                struct plan plan = {.statuses = {-EIO}, .planned = 1};
                weir_nsec began = weir_now();
                weir_series *series = weir_series_new(NULL, NULL);

                if (inherited) {
                        weir_series_set_deadline(series, WEIR_SEC(7));
                } else {
                        config.limit = WEIR_SEC(7);
                }
                weir_series_push(series, weir_retry_new(&config, make_attempt, retry_done, &plan));
                CU_ASSERT_EQUAL(weir_series_run(series), 0);
                CU_ASSERT_EQUAL(plan.end.status, -EIO);
                CU_ASSERT_EQUAL(plan.made, 3); /* at 0, 1 and 3; 7 is the limit */
                CU_ASSERT_EQUAL(plan.end.at - began, WEIR_SEC(3));
        }
        weir_test_end();
}

/* -- budget -- */

static int
retries_of(weir_retry_budget *budget, unsigned flows, int status)
{
        struct weir_retry_config config = exactly(4, 1);
        int retries = 0;

        config.budget = budget;
        for (unsigned i = 0; i < flows; i++) {
                struct plan plan = {.statuses = {status}, .planned = 1};

                CU_ASSERT_EQUAL(run(&config, &plan), status);
                retries += plan.made - 1;
        }
        return retries;
}

static void
budget_allows_a_burst_and_then_a_share_of_the_first_attempts(void)
{
        weir_test_begin_virtual();
        weir_retry_budget *budget = weir_retry_budget_new(10, 20);
        CU_ASSERT_EQUAL(retries_of(budget, 1000, -EIO), 20 + 1000 * 10 / 100 - 1); /* the first finds it full */
        CU_ASSERT_EQUAL(retries_of(budget, 500, 0), 0);
        CU_ASSERT_EQUAL(retries_of(budget, 7, -EIO), 20); /* which it had saved up again, and no more */
        weir_retry_budget_free(budget);
        weir_test_end();
}

static void
budget_without_a_burst_saves_up_one_retry(void)
{
        weir_test_begin_virtual();
        weir_retry_budget *budget = weir_retry_budget_new(50, 0), *none = weir_retry_budget_new(0, 3);
        CU_ASSERT_EQUAL(retries_of(budget, 100, -EIO), 50);
        CU_ASSERT_EQUAL(retries_of(none, 100, -EIO), 3);
        weir_retry_budget_free(budget);
        weir_retry_budget_free(none);
        weir_retry_budget_free(NULL);
        weir_test_end();
}

static void
budget_may_be_freed_before_the_tasks_that_have_it(void)
{
        weir_test_begin_virtual();
        for (unsigned dismissed = 0; dismissed < 2; dismissed++) {
                weir_retry_budget *budget = weir_retry_budget_new(0, 1);
                struct weir_retry_config config = exactly(4, 1);
                struct plan plan = {.statuses = {-EIO}, .planned = 1};

                config.budget = budget;
                weir_task *retry = weir_retry_new(&config, make_attempt, retry_done, &plan);
                weir_retry_budget_free(budget);
                if (dismissed) {
                        weir_task_dismiss(retry);
                } else {
                        CU_ASSERT_EQUAL(weir_task_run(retry), -EIO);
                        CU_ASSERT_EQUAL(plan.made, 2);
                }
        }
        weir_test_end();
}

static struct {
        weir_retry_budget *budget;
        _Atomic int made;
} shared;

static weir_task *
make_shared_attempt(void *context)
{
        shared.made++;
        return weir_go_new(NULL, fail_function, NULL, context);
}

static void
budget_is_shared_by_many_threads(void)
{
        unsigned flows = WEIR_TEST_SANITIZED ? 1000 : 10000;
        struct weir_retry_config config = exactly(3, 1);
        int status = -EIO;

        weir_test_begin_real(3);
        shared.made = 0;
        config.budget = weir_retry_budget_new(20, 50);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < flows; i++) {
                weir_parallel_add(parallel, weir_retry_new(&config, make_shared_attempt, NULL, &status));
        }
        weir_retry_budget_free(config.budget);
        CU_ASSERT_EQUAL(weir_task_run(parallel), -EIO);
        CU_ASSERT(shared.made <= (int)(flows + 50 + flows / 5));
        CU_ASSERT(shared.made >= (int)flows + 50);
        weir_test_end();
}

/* -- cancel, shutdown, nesting -- */

static void
cancel_ends_an_attempt_and_a_wait_at_once(void)
{
        weir_test_begin_virtual();
        for (unsigned waiting = 0; waiting < 2; waiting++) {
                struct weir_retry_config config = exactly(9, FAR);
                struct plan plan = {.statuses = {-EIO}, .planned = 1, .takes = waiting ? 0 : FAR};
                struct weir_test_record end = {0};
                weir_nsec began = weir_now();

                config.max_delay = FAR;
                weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
                weir_series_push(series, weir_retry_new(&config, make_attempt, retry_done, &plan));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                weir_test_pass(WEIR_SEC(1));
                weir_series_cancel(series);
                WEIR_TEST_EVENTUALLY(end.calls == 1);
                CU_ASSERT_EQUAL(plan.made, 1);
                CU_ASSERT_EQUAL(plan.end.calls, 1);
                CU_ASSERT_EQUAL(plan.end.status, -ECANCELED);
                CU_ASSERT_EQUAL(plan.end.at - began, WEIR_SEC(1));
                CU_ASSERT_EQUAL(end.status, -ECANCELED);
                weir_series_unref(series);
        }
        weir_test_end();
}

static void
shutdown_ends_an_attempt_and_a_wait(void)
{
        struct plan plans[4] = {{.statuses = {-EIO}, .planned = 1, .takes = FAR},
                                {.statuses = {-EIO}, .planned = 1},
                                {.statuses = {-EIO}, .planned = 1, .takes = FAR},
                                {.statuses = {-EIO}, .planned = 1}};
        struct weir_retry_config config = exactly(INT_MAX, FAR);

        weir_test_begin_virtual();
        config.max_delay = FAR;
        for (unsigned i = 0; i < 4; i++) {
                weir_task *retry = weir_retry_new(&config, make_attempt, retry_done, &plans[i]);

                if (i < 2) {
                        CU_ASSERT_EQUAL(weir_task_start(retry), 0);
                } else {
                        weir_series *series = weir_series_new(NULL, NULL);

                        weir_series_push(series, retry);
                        CU_ASSERT_EQUAL(weir_series_start(series), 0);
                }
        }
        weir_test_pass(WEIR_SEC(1));
        weir_test_end();
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(plans[i].made, 1);
                CU_ASSERT_EQUAL(plans[i].end.calls, 1);
                CU_ASSERT_EQUAL(plans[i].end.status, -ESHUTDOWN);
        }
}

struct nested {
        int statuses[2];
        int made;
};

static weir_task *
make_race(void *context)
{
        struct nested *nested = context;
        weir_task *race = weir_race_new(NULL, NULL);

        nested->made++;
        for (unsigned i = 0; i < 2; i++) {
                weir_race_add(race, weir_go_new(NULL, fail_function, NULL, &nested->statuses[nested->made < 3 ? 0 : i]));
        }
        return race;
}

static void
race_is_tried_again_until_one_of_it_wins(void)
{
        struct nested nested = {.statuses = {-EIO, 0}};
        struct weir_retry_config config = exactly(5, WEIR_SEC(1));

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config, make_race, NULL, &nested)), 0);
        CU_ASSERT_EQUAL(nested.made, 3);
        weir_test_end();
}

static weir_task *
make_retry(void *context)
{
        struct weir_retry_config config = exactly(3, WEIR_SEC(1));

        ((struct nested *)context)->made++;
        return weir_retry_new(&config, make_race, NULL, context);
}

static void
retry_of_retries_makes_all_their_attempts(void)
{
        struct nested nested = {.statuses = {-EIO, -EIO}};
        struct weir_retry_config config = exactly(4, WEIR_SEC(1));

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_retry_new(&config, make_retry, NULL, &nested), FAR)), -EIO);
        CU_ASSERT_EQUAL(nested.made, 4 + 4 * 3);
        weir_test_end();
}

/* -- bad input -- */

static weir_task *
make_wrong(void *context)
{
        ((struct plan *)context)->made++;
        return weir_timer_new_named("", 0, NULL, NULL);
}

static void
a_task_that_cannot_be_made_is_not_tried_again(void)
{
        struct weir_retry_config config = exactly(9, 1);
        struct plan plan = {.statuses = {-EIO}, .planned = 1, .nothing_at = 3}, wrong = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config, make_attempt, retry_done, &plan)), -ENOMEM);
        CU_ASSERT_EQUAL(plan.made, 3);
        CU_ASSERT_EQUAL(plan.attempts, 2);
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config, make_wrong, retry_done, &wrong)), -EINVAL);
        CU_ASSERT_EQUAL(wrong.made, 1);
        CU_ASSERT_EQUAL(wrong.attempts, 0);
        weir_test_end();
}

#define WRONG(field_, value_)                                                                                        \
        do {                                                                                                         \
                struct weir_retry_config config_ = WEIR_RETRY_CONFIG_DEFAULT;                                        \
                struct plan plan_ = {.statuses = {-EIO}, .planned = 1};                                              \
                config_.field_ = (value_);                                                                           \
                CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(&config_, make_attempt, retry_done, &plan_)), -EINVAL); \
                CU_ASSERT_EQUAL(plan_.made + plan_.end.calls, 0);                                                    \
        } while (0)

static void
config_that_is_none_is_reported_at_the_start(void)
{
        struct plan plan = {0};

        weir_test_begin_virtual();
        WRONG(size, 0);
        WRONG(size, (size_t)-1);
        WRONG(attempts, -1);
        WRONG(factor, -1);
        WRONG(factor, 99);
        WRONG(delay, -1);
        WRONG(max_delay, -1);
        WRONG(jitter, WEIR_JITTER_NONE + 1);
        WRONG(reserved, 1);
        WRONG(attempt_limit, -1);
        WRONG(limit, -1);
        CU_ASSERT_EQUAL(weir_task_run(weir_retry_new(NULL, NULL, retry_done, &plan)), -EINVAL);
        CU_ASSERT_EQUAL(plan.end.calls, 0);
        weir_test_end();
}

/* A program that was compiled when the struct ended behind `delay`. */
static void
older_program_has_the_default_in_fields_that_it_does_not_know(void)
{
        struct weir_retry_config config = exactly(4, WEIR_SEC(1));
        struct plan plan = {.statuses = {-EIO}, .planned = 1};

        weir_test_begin_virtual();
        memset((char *)&config + offsetof(struct weir_retry_config, max_delay), 0xff,
               sizeof config - offsetof(struct weir_retry_config, max_delay));
        config.size = offsetof(struct weir_retry_config, max_delay);
        CU_ASSERT_EQUAL(run(&config, &plan), -EIO);
        CU_ASSERT_EQUAL(plan.made, 4);
        weir_test_end();
}

static void
attempts_of_what_is_no_retry_are_edom(void)
{
        weir_task *race = weir_race_new(NULL, NULL), *retry = weir_retry_new(NULL, make_wrong, NULL, NULL);

        CU_ASSERT_EQUAL(weir_retry_attempts(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_retry_attempts(race), -EDOM);
        CU_ASSERT_EQUAL(weir_retry_attempts(retry), 0);
        weir_task_dismiss(race);
        weir_task_dismiss(retry);
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
                for (unsigned looks = (unsigned)weir_test_random_below(&random, 1000); looks > 0; looks--) {
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
retries_are_cancelled_and_time_out_on_many_threads(void)
{
        unsigned runs = WEIR_TEST_SANITIZED ? 300 : 2000;
        struct weir_retry_config config = exactly(5, WEIR_USEC(5));
        pthread_t thread;

        weir_test_begin_real(3);
        pthread_barrier_init(&torn.barrier, NULL, 2);
        pthread_create(&thread, NULL, cancel_somewhere, &runs);
        for (unsigned round = 0; round < runs; round++) {
                struct plan plans[6];

                torn.outer = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *parallel = weir_parallel_new(NULL, NULL);
                for (unsigned i = 0; i < 6; i++) {
                        plans[i] = (struct plan){.statuses = {-EIO}, .planned = 1, .takes = i % 3 ? WEIR_USEC(20) * i : 0};
                        config.attempt_limit = i % 2 ? WEIR_USEC(25) : 0;
                        config.limit = i > 3 ? WEIR_USEC(150) : 0;
                        weir_parallel_add(parallel, weir_retry_new(&config, make_attempt, retry_done, &plans[i]));
                }
                weir_series_push(torn.outer, parallel);
                pthread_barrier_wait(&torn.barrier);
                int status = weir_series_run(torn.outer);
                pthread_barrier_wait(&torn.barrier);
                CU_ASSERT(status == 0 || (status == -ECANCELED && round % 2));
                for (unsigned i = 0; i < 6; i++) {
                        CU_ASSERT(plans[i].end.calls == 1 || status == -ECANCELED);
                        CU_ASSERT(plans[i].end.calls <= 1 && plans[i].made <= 5);
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
                WEIR_TEST(it_ends_with_the_first_attempt_that_succeeds),
                WEIR_TEST(after_the_last_attempt_its_status_is_that_of_it),
                WEIR_TEST(without_a_config_there_are_three_attempts),
                WEIR_TEST(delays_without_jitter_are_exact),
                WEIR_TEST(delays_with_jitter_fill_their_range),
                WEIR_TEST(jitter_is_the_same_each_time_on_the_virtual_clock),
                WEIR_TEST(attempts_without_a_limit_go_on_until_one_succeeds),
                WEIR_TEST(some_failures_are_not_tried_again),
                WEIR_TEST(predicate_decides_what_is_worth_another_attempt),
                WEIR_TEST(predicate_is_not_asked_about_success_nor_after_the_last_attempt),
                WEIR_TEST(an_outcome_may_ask_for_another_wait),
                WEIR_TEST(a_wait_that_is_asked_for_and_would_outlast_the_limit_is_not_begun),
                WEIR_TEST(attempt_that_takes_too_long_is_ended_and_tried_again),
                WEIR_TEST(limit_of_it_all_ends_the_attempt_that_runs),
                WEIR_TEST(it_does_not_wait_for_an_attempt_that_would_come_too_late),
                WEIR_TEST(budget_allows_a_burst_and_then_a_share_of_the_first_attempts),
                WEIR_TEST(budget_without_a_burst_saves_up_one_retry),
                WEIR_TEST(budget_may_be_freed_before_the_tasks_that_have_it),
                WEIR_TEST(budget_is_shared_by_many_threads),
                WEIR_TEST(cancel_ends_an_attempt_and_a_wait_at_once),
                WEIR_TEST(shutdown_ends_an_attempt_and_a_wait),
                WEIR_TEST(race_is_tried_again_until_one_of_it_wins),
                WEIR_TEST(retry_of_retries_makes_all_their_attempts),
                WEIR_TEST(a_task_that_cannot_be_made_is_not_tried_again),
                WEIR_TEST(config_that_is_none_is_reported_at_the_start),
                WEIR_TEST(older_program_has_the_default_in_fields_that_it_does_not_know),
                WEIR_TEST(attempts_of_what_is_no_retry_are_edom),
                WEIR_TEST(retries_are_cancelled_and_time_out_on_many_threads),
        };

        return weir_test_main("retry", tests, sizeof tests / sizeof *tests);
}
