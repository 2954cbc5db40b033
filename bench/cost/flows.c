/* bench/cost/flows.c: what tasks, series, what combines them, and functions cost. */
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <unistd.h>

#include <weir/fiber.h>
#include <weir/weir.h>

#include "cost.h"

#define STEPS     100
#define ATTEMPTS  10
#define FUNCTIONS 1000
#define SERIES    1000 /* that a dump prints */

static int null_fd;
static sem_t gate;

static weir_task *
nothing(void)
{
        return weir_empty_new(NULL, NULL);
}

static void
on_series_end(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        cost_ended();
}

static void
start_task(size_t index)
{
        (void)index;
        weir_task_start(weir_empty_new(cost_on_end, NULL));
}

static int
do_nothing(void *context)
{
        (void)context;
        return 0;
}

static int
yield(void *context)
{
        (void)context;
        return weir_fiber_yield();
}

static int
sleep_some(void *context)
{
        (void)context;
        return weir_fiber_sleep(WEIR_USEC(1));
}

static void
start_fiber(size_t index)
{
        (void)index;
        weir_task_start(weir_fiber_new(do_nothing, cost_on_end, NULL));
}

static void
start_fiber_that_yields(size_t index)
{
        (void)index;
        weir_task_start(weir_fiber_new(yield, cost_on_end, NULL));
}

static void
start_fiber_that_sleeps(size_t index)
{
        (void)index;
        weir_task_start(weir_fiber_new(sleep_some, cost_on_end, NULL));
}

static void
run_series(size_t steps)
{
        weir_series *series = weir_series_new(on_series_end, NULL);

        for (size_t i = 0; i < steps; i++)
                weir_series_push(series, nothing());
        weir_series_start(series);
}

static void
start_series_of_one(size_t index)
{
        (void)index;
        run_series(1);
}

static void
start_series(size_t index)
{
        (void)index;
        run_series(STEPS);
}

static void
start_named_series(size_t index)
{
        weir_series *series = weir_series_new(on_series_end, NULL);

        (void)index;
        weir_series_set_name(series, "session-0001234");
        weir_series_push(series, weir_timer_new(WEIR_SEC(60), NULL, NULL));
        weir_series_start(series);
        weir_series_cancel_named("session-0001234", WEIR_ALL);
}

static void
start_series_with_deadline(size_t index)
{
        weir_series *series = weir_series_new(on_series_end, NULL);

        (void)index;
        weir_series_set_deadline(series, WEIR_SEC(60));
        weir_series_push(series, nothing());
        weir_series_start(series);
}

static void
start_parallel(size_t index)
{
        weir_task *parallel = weir_parallel_new(cost_on_end, NULL);

        (void)index;
        for (size_t i = 0; i < STEPS; i++) {
                weir_series *child = weir_series_new(NULL, NULL);

                weir_series_push(child, nothing());
                weir_parallel_add_series(parallel, child);
        }
        weir_task_start(parallel);
}

static void
start_race(size_t index)
{
        weir_task *race = weir_race_new(cost_on_end, NULL);

        (void)index;
        weir_race_add(race, weir_timer_new(WEIR_SEC(60), NULL, NULL));
        weir_race_add(race, nothing());
        weir_task_start(race);
}

static weir_task *
make_failure(void *context)
{
        (void)context;
        return weir_timeout_new(weir_timer_new(WEIR_FOREVER, NULL, NULL), 0);
}

static void
start_retry(size_t index)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        (void)index;
        config.attempts = ATTEMPTS;
        config.delay = 1;
        config.max_delay = 1;
        weir_task_start(weir_retry_new(&config, make_failure, cost_on_end, NULL));
}

static void
start_timeout(size_t index)
{
        weir_series *series = weir_series_new(on_series_end, NULL);

        (void)index;
        weir_series_push(series, weir_timeout_new(nothing(), WEIR_SEC(60)));
        weir_series_start(series);
}

static void
start_graph(size_t index)
{
        weir_task *graph = weir_graph_new(cost_on_end, NULL);
        weir_node *last = NULL;

        (void)index;
        for (size_t i = 0; i < STEPS; i++) {
                weir_node *node = weir_graph_add(graph, nothing(), NULL);

                if (last)
                        weir_graph_precede(last, node);
                last = node;
        }
        weir_task_start(graph);
}

static weir_task *
make_next(void *context)
{
        static size_t made;

        (void)context;
        return ++made % (STEPS + 1) ? nothing() : NULL;
}

static void
start_repeater(size_t index)
{
        (void)index;
        weir_task_start(weir_repeater_new(make_next, cost_on_end, NULL));
}

/* -- functions -- */

static void
compute(void *context)
{
        (void)context;
}

/* The thread of the executor waits at a gate until all functions of a slice are queued.  So it never runs beside the poller. */
static void
wait_at_gate(void *context)
{
        (void)context;
        while (sem_wait(&gate))
                ;
}

static void
start_in_queue(const char *queue, size_t index)
{
        if (index == 0)
                weir_task_start(weir_go_new(NULL, wait_at_gate, NULL, NULL));
        weir_task_start(weir_go_new(queue, compute, cost_on_end, NULL));
        if (index == FUNCTIONS - 1)
                sem_post(&gate);
}

static void
start_function(size_t index)
{
        start_in_queue(NULL, index);
}

static void
start_function_of_queue(size_t index)
{
        start_in_queue("images", index);
}

static void
prepare_gate(const struct cost_case *self)
{
        (void)self;
        sem_init(&gate, 0, 0);
}

/* -- inspection -- */

static void
prepare_dump(const struct cost_case *self)
{
        (void)self;
        null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        cost_must(null_fd >= 0, "open");
        for (size_t i = 0; i < SERIES; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_timer_new(WEIR_SEC(60), NULL, NULL));
                weir_series_start(series);
        }
}

static void
dump(size_t index)
{
        (void)index;
        cost_must(weir_debug_dump(null_fd) == 0, "dump");
        cost_ended();
}

static void
write_metrics(size_t index)
{
        (void)index;
        cost_must(weir_metrics_write(null_fd) == 0, "metrics");
        cost_ended();
}

const struct cost_case cost_flow_cases[] = {
        {.name = "empty task", .count = 4000, .slice = 200, .operation = start_task},
        {.name = "fiber", .count = 4000, .slice = 200, .operation = start_fiber},
        {.name = "fiber that yields", .count = 4000, .slice = 200, .operation = start_fiber_that_yields},
        {.name = "fiber that sleeps", .count = 4000, .slice = 200, .operation = start_fiber_that_sleeps},
        {.name = "series of one task, built and run", .count = 2000, .slice = 100, .operation = start_series_of_one},
        {.name = "step of a series", .count = 40, .slice = 1, .parts = STEPS, .operation = start_series},
        {.name = "named series, started and cancelled, 1 a callback", .count = 2000, .slice = 1, .operation = start_named_series},
        {.name = "named series, started and cancelled, 100 a callback",
         .count = 1000,
         .slice = 100,
         .operation = start_named_series},
        {.name = "series with a deadline", .count = 2000, .slice = 100, .operation = start_series_with_deadline},
        {.name = "child of a parallel", .count = 40, .slice = 1, .parts = STEPS, .operation = start_parallel},
        {.name = "race of two", .count = 1000, .slice = 100, .operation = start_race},
        {.name = "attempt of a retry", .count = 100, .slice = 1, .parts = ATTEMPTS, .operation = start_retry},
        {.name = "timeout around a task", .count = 1000, .slice = 100, .operation = start_timeout},
        {.name = "node of a graph", .count = 40, .slice = 1, .parts = STEPS, .operation = start_graph},
        {.name = "task of a repeater", .count = 40, .slice = 1, .parts = STEPS, .operation = start_repeater},
        {.name = "function", .count = 4 * FUNCTIONS, .slice = FUNCTIONS, .prepare = prepare_gate, .operation = start_function},
        {.name = "function of a named queue",
         .count = 4 * FUNCTIONS,
         .slice = FUNCTIONS,
         .prepare = prepare_gate,
         .operation = start_function_of_queue},
        {.name = "series in a dump", .count = 2, .slice = 1, .parts = SERIES, .prepare = prepare_dump, .operation = dump},
        {.name = "metrics", .count = 20, .slice = 1, .prepare = prepare_dump, .operation = write_metrics},
        {0},
};
