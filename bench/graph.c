/* bench/graph.c: graphs of a million nodes: built and run.
 *
 *     graph [quick|full] [beginning of a word of a case's name]
 *
 * Threads: the main thread builds and waits; callbacks count by bench_count. */
#include <stdint.h>
#include <stdlib.h>

#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#define ROUNDS       5
#define PATIENCE     30 /* seconds for a case */
#define CPU_PER_NODE "CPU ns per node"
#define CPU_BUILDING "CPU ns per node, building"
#define NS_PER_NODE  "ns per node"

struct shape {
        const char *name;
        size_t count;
        void (*connect)(weir_node **nodes, size_t count);
        bool shuffled; /* nodes are given to `connect` in another order than that of their adding */
};

static uint64_t
next_random(uint64_t *state)
{
        uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

/* Two edges from random ones before it to each node. */
static void
connect_at_random(weir_node **nodes, size_t count)
{
        uint64_t random = 1;

        for (size_t i = 1; i < count; i++)
                for (int edge = 0; edge < 2; edge++)
                        weir_graph_precede(nodes[next_random(&random) % i], nodes[i]);
}

/* The same, from one of the thousand before it: as what is built in stages is. */
static void
connect_near(weir_node **nodes, size_t count)
{
        uint64_t random = 1;

        for (size_t i = 1; i < count; i++)
                for (int edge = 0; edge < 2; edge++)
                        weir_graph_precede(nodes[i - 1 - next_random(&random) % (i < 1000 ? i : 1000)], nodes[i]);
}

static void
connect_chain(weir_node **nodes, size_t count)
{
        for (size_t i = 1; i < count; i++)
                weir_graph_precede(nodes[i - 1], nodes[i]);
}

/* One before all others, and one after them. */
static void
connect_wide(weir_node **nodes, size_t count)
{
        for (size_t i = 1; i + 1 < count; i++) {
                weir_graph_precede(nodes[0], nodes[i]);
                weir_graph_precede(nodes[i], nodes[count - 1]);
        }
}

static void
on_node(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        bench_count();
}

static void
shuffle(weir_node **nodes, size_t count)
{
        uint64_t random = 2;

        for (size_t i = count; i > 1; i--) {
                size_t other = next_random(&random) % i;
                weir_node *node = nodes[i - 1];

                nodes[i - 1] = nodes[other];
                nodes[other] = node;
        }
}

/* The list of the nodes is the program's, and not measured: its memory is touched before. */
static bool
measure_graph(const void *argument, double values[BENCH_VALUES])
{
        const struct shape *shape = argument;
        weir_node **nodes = calloc(shape->count, sizeof *nodes);

        if (!nodes || weir_init(NULL))
                return false;
        for (size_t i = 0; i < shape->count; i++)
                nodes[i] = (weir_node *)nodes;
        int64_t began = bench_cpu(), clock = bench_now();
        weir_task *graph = weir_graph_new(NULL, NULL);
        for (size_t i = 0; i < shape->count; i++)
                nodes[i] = weir_graph_add(graph, weir_empty_new(on_node, NULL), NULL);
        int64_t unmeasured = bench_cpu(), unmeasured_clock = bench_now();
        if (shape->shuffled)
                shuffle(nodes, shape->count);
        unmeasured = bench_cpu() - unmeasured;
        unmeasured_clock = bench_now() - unmeasured_clock;
        shape->connect(nodes, shape->count);
        int64_t built = bench_cpu();
        if (weir_task_run(graph) || bench_counted() != shape->count)
                return false;
        values[0] = (double)(bench_cpu() - began - unmeasured) / (double)shape->count;
        values[1] = (double)(built - began - unmeasured) / (double)shape->count;
        values[2] = (double)(bench_now() - clock - unmeasured_clock) / (double)shape->count;
        free(nodes);
        return true;
}

/* The first of a run pays for memory that the system has to fetch from elsewhere: not one of those that need most. */
static const struct shape shapes[] = {
        {"chain of 1e6 nodes", 1000000, connect_chain, false},
        {"wide graph of 1e6 nodes", 1000000, connect_wide, false},
        {"near graph of 1e6 nodes", 1000000, connect_near, false},
        {"random graph of 1e6 nodes", 1000000, connect_at_random, false},
        {"shuffled graph of 1e6 nodes", 1000000, connect_near, true},
};

static void
measure(const struct bench_size *size, const struct shape *shape)
{
        double values[BENCH_VALUES];

        if (!bench_wanted(size, shape->name) || !bench_isolated(shape->name, measure_graph, shape, values, PATIENCE))
                return;
        bench_sample("weir", shape->name, CPU_PER_NODE, values[0]);
        bench_sample("weir", shape->name, CPU_BUILDING, values[1]);
        bench_sample("weir", shape->name, NS_PER_NODE, values[2]);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                        measure(&size, &shapes[i]);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                if (bench_wanted(&size, shapes[i].name))
                        bench_goal("weir", shapes[i].name, CPU_PER_NODE, 250);
        bench_sample("machine", "graph", "CPU used by others, percent of one", bench_others());
        bench_print("graph");
        return bench_interrupted();
}
