/* test/flow_guide_test.c: the examples of docs/flows.md: races, retries, timeouts, modules, repeaters and dynamic tasks. */
#include "test/fixture.h"

#include <errno.h>

/* A backend that takes so long, and answers with that status. */
struct backend {
        weir_nsec takes;
        int status;
        unsigned asked;
        int attempts; /* as the callback has read them */
        struct weir_test_record record;
};

static void
answer(weir_task *task, void *context)
{
        struct backend *backend = context;

        weir_test_note(&backend->record, weir_task_status(task));
}

static void
fail_function(void *context)
{
        weir_go_fail(((struct backend *)context)->status);
}

static weir_task *
ask(struct backend *backend)
{
        backend->asked++;
        if (!backend->status) {
                return weir_timer_new(backend->takes, answer, backend);
        }
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *race = weir_race_new(answer, backend); /* of one: its status is that of the series' last task */
        weir_series_push(series, weir_timer_new(backend->takes, NULL, NULL));
        weir_series_push(series, weir_go_new(NULL, fail_function, NULL, backend));
        weir_race_add_series(race, series);
        return race;
}

/* -- race -- */

static void
on_answer(weir_task *race, void *context)
{
        *(int *)context = weir_race_winner(race);
}

static int
ask_hedged(struct backend *first, struct backend *second, int *chosen)
{
        weir_series *later = weir_series_new(NULL, NULL);
        weir_series_push(later, weir_timer_new(WEIR_MSEC(50), NULL, NULL));
        weir_series_push(later, ask(second));

        weir_task *race = weir_race_new(on_answer, chosen);
        weir_race_add(race, ask(first));
        weir_race_add_series(race, later);
        return weir_task_run(race);
}

static void
hedged_requests_hide_slow_and_failing_answers(void)
{
        static const struct {
                struct backend first, second;
                int chosen, status;
                weir_nsec takes;
        } cases[] = {
                {{.takes = WEIR_MSEC(20)}, {.takes = WEIR_MSEC(20)}, 0, 0, WEIR_MSEC(20)},
                {{.takes = WEIR_SEC(60)}, {.takes = WEIR_MSEC(20)}, 1, 0, WEIR_MSEC(70)},
                {{.takes = WEIR_MSEC(20), .status = -EIO}, {.takes = WEIR_MSEC(20)}, 1, 0, WEIR_MSEC(70)},
                {{.takes = WEIR_MSEC(99)}, {.takes = WEIR_MSEC(10), .status = -EIO}, 0, 0, WEIR_MSEC(99)},
                {{.takes = 1, .status = -EPIPE}, {.takes = 1, .status = -EIO}, -ENOENT, -EPIPE, WEIR_MSEC(50) + 1},
        };

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct backend first = cases[i].first, second = cases[i].second;
                weir_nsec began = weir_now();
                int chosen = 0;

                CU_ASSERT_EQUAL(ask_hedged(&first, &second, &chosen), cases[i].status);
                CU_ASSERT_EQUAL(chosen, cases[i].chosen);
                CU_ASSERT_EQUAL(weir_now() - began, cases[i].takes);
        }
        weir_test_end();
}

/* -- retry -- */

static weir_task *
ask_again(void *context)
{
        return ask(context);
}

static void
on_outcome(weir_task *retry, void *context)
{
        ((struct backend *)context)->attempts = weir_retry_attempts(retry);
}

static int
ask_patiently(struct backend *backend, weir_retry_budget *budget)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        config.attempts = 5;
        config.attempt_limit = WEIR_SEC(2);
        config.limit = WEIR_SEC(10);
        config.budget = budget;
        return weir_task_run(weir_retry_new(&config, ask_again, on_outcome, backend));
}

static void
retry_asks_again_within_its_limits_and_its_budget(void)
{
        struct backend good = {.takes = WEIR_MSEC(20)}, bad = {.takes = 1, .status = -EIO}, silent = {.takes = WEIR_FOREVER};

        weir_test_begin_virtual();
        /* One for the program, or for each server that it asks. */
        weir_retry_budget *budget = weir_retry_budget_new(10, 8);
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(ask_patiently(&good, budget), 0);
        CU_ASSERT_EQUAL(good.asked, 1);
        CU_ASSERT_EQUAL(ask_patiently(&bad, budget), -EIO);
        CU_ASSERT_EQUAL(bad.asked, 5);
        CU_ASSERT_EQUAL(bad.attempts, 5);
        CU_ASSERT(weir_now() - began <= WEIR_SEC(2)); /* 20 ms, and at most 100 + 200 + 400 + 800 ms */
        CU_ASSERT_EQUAL(ask_patiently(&silent, budget), -ETIMEDOUT);
        CU_ASSERT(silent.asked <= 5);
        CU_ASSERT_EQUAL(ask_patiently(&bad, budget), -EIO); /* the budget is used up soon */
        CU_ASSERT(bad.asked < 10);
        weir_retry_budget_free(budget);
        weir_test_end();
}

/* -- timeout, module -- */

static void
timeout_bounds_one_task(void)
{
        struct backend slow = {.takes = WEIR_SEC(60)};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timeout_new(ask(&slow), WEIR_SEC(2)));
        CU_ASSERT_EQUAL(weir_series_run(series), 0); /* a task's status never stops its series */
        CU_ASSERT_EQUAL(slow.record.status, -ETIMEDOUT);
        weir_test_end();
}

static weir_task *
ask_both(struct backend *one, struct backend *other)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, ask(one));
        weir_series_push(series, ask(other));
        return weir_module_new(series, NULL, NULL);
}

static void
module_makes_one_task_of_a_series(void)
{
        struct backend one = {.takes = WEIR_SEC(1)}, other = {.takes = WEIR_SEC(2)};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(ask_both(&one, &other), WEIR_MSEC(2500))), -ETIMEDOUT);
        CU_ASSERT_EQUAL(one.record.status, 0);
        CU_ASSERT_EQUAL(other.record.status, -ETIMEDOUT);
        weir_test_end();
}

/* The second is asked only if the first has answered well. */
static weir_task *
ask_in_turn(struct backend *one, struct backend *other)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_stop_on_failure(series);
        weir_series_push(series, ask(one));
        weir_series_push(series, ask(other));
        return weir_module_new(series, NULL, NULL);
}

static void
series_stops_at_its_first_failure(void)
{
        struct backend one = {.takes = WEIR_SEC(1), .status = -EIO}, other = {.takes = WEIR_SEC(2)};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(ask_in_turn(&one, &other)), -EIO);
        CU_ASSERT_EQUAL(one.record.calls, 1);
        CU_ASSERT_EQUAL(other.record.calls, 0);
        weir_test_end();
}

/* A task that answers in time may have failed all the same: its callback knows. */
static void
judge(weir_task *task, void *context)
{
        struct backend *backend = context;

        if (backend->asked > 1)
                weir_series_fail(weir_series_of(task), -EPROTO);
}

static void
callback_fails_its_task(void)
{
        struct backend good = {.asked = 1}, bad = {.asked = 2};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(1, judge, &good)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_timer_new(1, judge, &bad)), -EPROTO);
        weir_test_end();
}

static int
ask_all(struct backend *backends, unsigned count)
{
        weir_task *all = weir_parallel_new(NULL, NULL);

        weir_parallel_stop_on_failure(all);
        for (unsigned i = 0; i < count; i++)
                weir_parallel_add(all, ask(&backends[i]));
        return weir_task_run(all);
}

static void
parallel_stops_at_its_first_failure(void)
{
        struct backend backends[] = {{.takes = WEIR_SEC(60)}, {.takes = WEIR_SEC(1), .status = -EIO}, {.takes = WEIR_SEC(60)}};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(ask_all(backends, 3), -EIO);
        CU_ASSERT(weir_now() - began < WEIR_SEC(2));
        weir_test_end();
}

/* -- repeater, dynamic task -- */

struct pages {
        unsigned next, last, read;
};

static void
read_page(weir_task *task, void *context)
{
        struct pages *pages = context;

        pages->read += weir_task_status(task) == 0;
}

static weir_task *
next_page(void *context)
{
        struct pages *pages = context;

        if (pages->next > pages->last)
                return NULL;
        return weir_timer_new(WEIR_MSEC(10 * pages->next++), read_page, pages);
}

static void
repeater_goes_from_page_to_page(void)
{
        struct pages pages = {.next = 1, .last = 100};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(next_page, NULL, &pages)), 0);
        CU_ASSERT_EQUAL(pages.read, 100);
        weir_test_end();
}

/* -- a graph, again -- */

struct rounds {
        unsigned left;
        int value, alarms;
};

static void
read_sensor(weir_task *task, void *context)
{
        (void)task;
        ((struct rounds *)context)->value += 10;
}

static void
judge_value(weir_task *task, void *context)
{
        struct rounds *rounds = context;

        (void)task;
        rounds->alarms += rounds->value > 25;
}

static weir_task *
next_round(void *context)
{
        struct rounds *rounds = context;

        if (rounds->left-- == 0)
                return NULL;
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_task *reading = weir_timer_new(WEIR_SEC(1), read_sensor, rounds);
        weir_node *read = weir_graph_add(graph, reading, "read");
        weir_node *judge = weir_graph_add(graph, weir_empty_new(judge_value, rounds), "judge");
        weir_graph_precede(read, judge);
        return graph;
}

static void
graph_runs_again_by_the_function_that_builds_it(void)
{
        struct rounds rounds = {.left = 4};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(weir_repeater_new(next_round, NULL, &rounds)), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(4));
        CU_ASSERT_EQUAL(rounds.value, 40);
        CU_ASSERT_EQUAL(rounds.alarms, 2);
        weir_test_end();
}

struct lookup {
        bool is_cached;
        struct backend backend;
};

static weir_task *
ask_unless_cached(void *context)
{
        struct lookup *lookup = context;

        return lookup->is_cached ? NULL : ask(&lookup->backend);
}

static void
mark_cached(weir_task *task, void *context)
{
        ((struct lookup *)context)->is_cached = weir_task_status(task) == 0;
}

static void
dynamic_task_asks_only_if_it_has_to(void)
{
        struct lookup lookup = {.backend.takes = WEIR_SEC(1)};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_dynamic_new(ask_unless_cached, mark_cached, &lookup));
        weir_series_push(series, weir_dynamic_new(ask_unless_cached, mark_cached, &lookup));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(lookup.backend.asked, 1);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(hedged_requests_hide_slow_and_failing_answers),
                WEIR_TEST(retry_asks_again_within_its_limits_and_its_budget),
                WEIR_TEST(timeout_bounds_one_task),
                WEIR_TEST(module_makes_one_task_of_a_series),
                WEIR_TEST(series_stops_at_its_first_failure),
                WEIR_TEST(callback_fails_its_task),
                WEIR_TEST(parallel_stops_at_its_first_failure),
                WEIR_TEST(repeater_goes_from_page_to_page),
                WEIR_TEST(graph_runs_again_by_the_function_that_builds_it),
                WEIR_TEST(dynamic_task_asks_only_if_it_has_to),
        };

        return weir_test_main("flow_guide", tests, sizeof tests / sizeof *tests);
}
