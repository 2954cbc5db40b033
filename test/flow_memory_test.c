/* test/flow_memory_test.c: races, retries and the tasks of weir/flow.h, each with every one of its allocations refused, one after
 * another. */
#include "test/fixture.h"

#include <errno.h>

#include "test/blocks_fixture.h"

/* -- parts of scenarios -- */

struct tally {
        _Atomic unsigned made, freed, called;
        unsigned rounds;
        bool wanting; /* a function that makes tasks had no memory */
};

static void
count_free(void *context)
{
        ((struct tally *)context)->freed++;
}

static void
count_call(weir_task *task, void *context)
{
        (void)task;
        ((struct tally *)context)->called++;
}

/* A timer that is counted when it is made, called and freed. */
static weir_task *
timer(struct tally *tally, weir_nsec after)
{
        weir_task *task = weir_timer_new(after, count_call, tally);

        tally->made += task != NULL;
        weir_task_on_free(task, count_free);
        return task;
}

static weir_series *
row(struct tally *tally)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, timer(tally, WEIR_SEC(1)));
        weir_series_push(series, timer(tally, WEIR_SEC(1)));
        return series;
}

static weir_task *
make_three(void *context)
{
        struct tally *tally = context;

        if (tally->rounds == 3) {
                return NULL;
        }
        tally->rounds++;
        weir_task *task = timer(tally, WEIR_SEC(1));
        tally->wanting |= task == NULL;
        return task;
}

/* Each attempt lasts until its limit. */
static weir_task *
make_endless(void *context)
{
        return timer(context, WEIR_FOREVER);
}

/* -- scenarios -- */

static weir_task *
race(struct tally *tally)
{
        weir_task *race = weir_race_new(NULL, NULL);

        weir_race_add(race, timer(tally, WEIR_SEC(3)));
        weir_race_add_series(race, row(tally));
        weir_race_add(race, timer(tally, WEIR_SEC(1)));
        return race;
}

static weir_task *
parallel(struct tally *tally)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_stop_on_failure(parallel);
        weir_parallel_add(parallel, timer(tally, WEIR_SEC(1)));
        weir_parallel_add_series(parallel, row(tally));
        return parallel;
}

static weir_task *
graph(struct tally *tally)
{
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *one = weir_graph_add(graph, timer(tally, WEIR_SEC(1)), NULL);
        weir_node *other = weir_graph_add_series(graph, row(tally), NULL);

        weir_graph_stop_on_failure(graph);
        weir_graph_precede(one, other);
        return graph;
}

static weir_task *
module(struct tally *tally)
{
        return weir_module_new(row(tally), NULL, NULL);
}

static weir_task *
timeout(struct tally *tally)
{
        return weir_timeout_new(timer(tally, WEIR_SEC(1)), WEIR_SEC(2));
}

static weir_task *
repeater(struct tally *tally)
{
        return weir_repeater_new(make_three, NULL, tally);
}

static weir_task *
dynamic(struct tally *tally)
{
        return weir_dynamic_new(make_three, NULL, tally);
}

static weir_task *
retry(struct tally *tally)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        config.attempt_limit = WEIR_SEC(1);
        config.budget = weir_retry_budget_new(10, 10);
        weir_task *task = weir_retry_new(&config, make_endless, NULL, tally);
        weir_retry_budget_free(config.budget); /* none is as good for this */
        tally->wanting = config.budget == NULL;
        return task;
}

/* Runs it in a series, with the nth allocation refused.  Returns whether it came to that. */
static bool
came_to(weir_task *make(struct tally *tally), int nth, int good)
{
        struct tally tally = {0};

        weir_test_begin_virtual();
        int64_t before = bytes_out;
        allocations_left = nth;
        int status = weir_task_run(make(&tally));
        bool refused = allocations_left < 0;
        allocations_left = -1;
        CU_ASSERT(status == good || (status == -ENOMEM && refused));
        CU_ASSERT(status == good ? !refused || tally.wanting : true);
        CU_ASSERT_EQUAL(tally.made, tally.freed);
        weir_test_end(); /* a worker may free a series yet, which nobody sees any more */
        CU_ASSERT_EQUAL(bytes_out, before);
        return refused;
}

static void
each_refused(weir_task *make(struct tally *tally), int good, int at_least)
{
        int nth = 0;

        while (came_to(make, nth, good)) {
                nth++;
        }
        CU_ASSERT(nth >= at_least);
}

static void
race_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(race, 0, 9);
}

static void
parallel_that_stops_at_failures_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(parallel, 0, 6);
}

static void
graph_that_stops_at_failures_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(graph, 0, 6);
}

static void
module_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(module, 0, 5);
}

static void
timeout_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(timeout, 0, 5);
}

static void
repeater_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(repeater, 0, 8);
}

static void
dynamic_task_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(dynamic, 0, 4);
}

static void
retry_without_memory_reports_it_and_leaves_nothing(void)
{
        each_refused(retry, -ETIMEDOUT, 3 + 3 * 3 + 2 * 2);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(race_without_memory_reports_it_and_leaves_nothing),
                WEIR_TEST(parallel_that_stops_at_failures_without_memory_reports_it_and_leaves_nothing),
                WEIR_TEST(graph_that_stops_at_failures_without_memory_reports_it_and_leaves_nothing),
                WEIR_TEST(module_without_memory_reports_it_and_leaves_nothing),
                WEIR_TEST(timeout_without_memory_reports_it_and_leaves_nothing),
                WEIR_TEST(repeater_without_memory_reports_it_and_leaves_nothing),
                WEIR_TEST(dynamic_task_without_memory_reports_it_and_leaves_nothing),
                WEIR_TEST(retry_without_memory_reports_it_and_leaves_nothing),
        };

        return weir_test_main("flow_memory", tests, sizeof tests / sizeof *tests);
}
