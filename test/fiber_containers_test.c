/* test/fiber_containers_test.c: a fiber within each container, which ends early wherever the fiber waits: by a cancel, a
 * deadline and a shutdown. */
#include "test/fiber_points.h"

/* -- the fiber -- */

static struct weir_test_record record;
static _Atomic int waited, afterwards;

static const struct point *point_now;

static int
wait_there(void *context)
{
        (void)context;
        waited = point_now->wait();
        afterwards = weir_fiber_sleep(1);
        return 0;
}

static weir_task *
fiber(void)
{
        return weir_test_recorded(weir_fiber_new_as(point_now->name, wait_there, weir_test_done, &record));
}

static weir_task *
make_fiber(void *context)
{
        (void)context;
        return fiber();
}

/* -- containers -- */

static weir_task *
by_itself(void)
{
        return fiber();
}

static weir_task *
in_parallel(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        weir_parallel_add(parallel, timer());
        weir_parallel_add(parallel, fiber());
        weir_parallel_add(parallel, timer());
        return parallel;
}

static weir_task *
in_race(void)
{
        weir_task *race = weir_race_new(NULL, NULL);

        weir_race_add(race, fiber());
        weir_race_add(race, timer());
        return race;
}

static weir_task *
in_graph(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *before = weir_graph_add(graph, weir_empty_new(NULL, NULL), "before");

        weir_graph_precede(before, weir_graph_add(graph, fiber(), "fiber"));
        weir_graph_precede(before, weir_graph_add(graph, timer(), "beside"));
        return graph;
}

static weir_task *
in_module(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, fiber());
        weir_series_push(series, timer());
        return weir_module_new(series, NULL, NULL);
}

static weir_task *
in_timeout(void)
{
        return weir_timeout_new(fiber(), 10 * FAR);
}

static weir_task *
in_retry(void)
{
        return weir_retry_new(NULL, make_fiber, NULL, NULL);
}

static weir_task *
in_repeater(void)
{
        return weir_repeater_new(make_fiber, NULL, NULL);
}

static weir_task *
in_dynamic(void)
{
        return weir_dynamic_new(make_fiber, NULL, NULL);
}

static weir_semaphore *tokens;

static weir_task *
in_limited(void)
{
        return weir_limited_new(tokens, 1, fiber(), NULL, NULL);
}

static int
await_fiber(void *context)
{
        (void)context;
        return weir_await(fiber());
}

static weir_task *
in_fiber(void)
{
        return weir_fiber_new(await_fiber, NULL, NULL);
}

static int
await_within(void *context)
{
        (void)context;
        return weir_await_within(fiber(), 10 * FAR);
}

static weir_task *
in_fiber_within(void)
{
        return weir_fiber_new(await_within, NULL, NULL);
}

static int
run_beside(void *context)
{
        weir_group *group = weir_group_open();

        (void)context;
        CU_ASSERT_EQUAL(weir_group_start(group, timer()), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, fiber()), 0);
        return weir_group_close(group);
}

static weir_task *
in_group(void)
{
        return weir_fiber_new(run_beside, NULL, NULL);
}

static int
leave_beside(void *context)
{
        weir_group *outer = weir_group_open(), *group = weir_group_open();

        (void)context;
        CU_ASSERT_EQUAL(weir_group_start(outer, weir_fiber_new(run_beside, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_group_start(group, timer()), 0);
        return weir_fiber_sleep(10 * FAR); /* both groups are open at its end */
}

static weir_task *
in_open_groups(void)
{
        return weir_fiber_new(leave_beside, NULL, NULL);
}

static weir_task *
in_all_of_them(void)
{
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *parallel = weir_parallel_new(NULL, NULL), *race = weir_race_new(NULL, NULL);

        weir_race_add(race, weir_timeout_new(in_group(), 20 * FAR));
        weir_parallel_add(parallel, race);
        weir_series_push(series, parallel);
        return weir_module_new(series, NULL, NULL);
}

static const struct container {
        const char *name;
        weir_task *(*make)(void);
} containers[] = {
        {"a series", by_itself},        {"a parallel", in_parallel},     {"a race", in_race},
        {"a graph", in_graph},          {"a module", in_module},         {"a timeout", in_timeout},
        {"a retry", in_retry},          {"a repeater", in_repeater},     {"a dynamic task", in_dynamic},
        {"a limited task", in_limited}, {"a fiber", in_fiber},           {"an await with a limit", in_fiber_within},
        {"a group", in_group},          {"open groups", in_open_groups}, {"several", in_all_of_them},
};

/* -- early ends -- */

static const int ways[] = {-ECANCELED, -ETIMEDOUT, -ESHUTDOWN};

static void
end_early(weir_series *around, int way)
{
        if (way == -ECANCELED) {
                weir_series_cancel(around);
        } else if (way == -ETIMEDOUT) {
                CU_ASSERT_EQUAL(weir_series_set_deadline(around, WEIR_SEC(1)), 0);
                weir_test_pass(WEIR_SEC(1));
        } else {
                weir_test_end();
                weir_test_begin_virtual();
        }
        weir_test_pass(0);
}

/* The end of the fiber around cancels the groups that it has left open, perhaps before the shutdown is there. */
static bool
fits(const struct container *container, int status, int way)
{
        return status == way || (status == -ECANCELED && way == -ESHUTDOWN && container->make == in_open_groups);
}

static void
try(const struct container *container, const struct point *point, int way)
{
        unsigned failed = CU_get_number_of_failures();

        begin_points();
        tokens = weir_semaphore_new(1);
        memset(&record, 0, sizeof record);
        waited = afterwards = 1;
        point_now = point;
        weir_series *around = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(around, container->make());
        CU_ASSERT_EQUAL(weir_series_start(around), 0);
        weir_test_pass(WEIR_MSEC(10) + WEIR_USEC(500));
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(waited, 1);
        end_early(around, way);
        CU_ASSERT(record.calls == 1 && record.frees == 1);
        CU_ASSERT(fits(container, record.status, way));
        CU_ASSERT(fits(container, waited, way));
        CU_ASSERT(fits(container, afterwards, way));
        CU_ASSERT(inner.calls == inner.frees && inner.calls <= 1);
        CU_ASSERT_EQUAL(weir_series_status(around), way);
        weir_series_unref(around);
        weir_semaphore_unref(tokens);
        end_points();
        if (CU_get_number_of_failures() > failed)
                fprintf(stderr, "at %s, in %s, by %s\n", point->name, container->name, weir_strerror(way));
}

static void
a_fiber_ends_early_in_each_container(void)
{
        for (size_t c = 0; c < sizeof containers / sizeof *containers; c++)
                for (size_t p = 0; p < POINTS; p++)
                        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
                                try(&containers[c], &points[p], ways[w]);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_fiber_ends_early_in_each_container),
        };

        return weir_test_main("fibers in containers", tests, sizeof tests / sizeof *tests);
}
