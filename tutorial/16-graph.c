/* 16-graph.c: builds a program, as a graph, and draws what happened and when.
 *
 *     16-graph [fail] | dot -Tsvg >build.svg
 *
 *                .-> compile a --.             .--> test       if the program is good
 *     fetch -----+-> compile b --+--> link ----+
 *                '-> compile c --'             '--> report     if it is not
 *
 * The steps only pretend: each waits for some milliseconds.  With "fail" one of the files is empty, so the other branch is
 * taken. */
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#define FILES 3

struct build {
        int sizes[FILES]; /* of the files; 0: it cannot be compiled */
        int program;      /* size; 0: not good */
};

/* A step finds its own node by its task, and leaves a number for later steps. */
static void compiled(weir_task *compile, void *size)
{
        weir_node_set_result(weir_graph_node_of(compile), size, NULL);
}

/* Its inputs are the results of the nodes before it, in the order of the calls of
 * weir_graph_precede. */
static void linked(weir_task *link, void *context)
{
        weir_node *node = weir_graph_node_of(link);
        struct build *build = context;
        const int *size;

        build->program = 0;
        for (size_t i = 0; (size = weir_node_input(node, i)); i++) {
                if (*size == 0) {
                        build->program = 0;
                        return;
                }
                build->program += *size;
        }
}

static bool good(const weir_node *link, void *context)
{
        const struct build *build = context;

        (void)link;
        return build->program > 0;
}

static bool bad(const weir_node *link, void *context)
{
        return !good(link, context);
}

static void tested(weir_task *test, void *context)
{
        const struct build *build = context;

        (void)test;
        fprintf(stderr, "tested: %d bytes\n", build->program);
}

static void reported(weir_task *report, void *context)
{
        (void)report;
        (void)context;
        fprintf(stderr, "not linked: a file is empty\n");
}

/* All nodes have ended, or were dropped. */
static void drawn(weir_task *graph, void *context)
{
        (void)context;
        weir_graph_dot(graph, stdout);
}

static weir_task *build_graph(struct build *build)
{
        static const char *labels[FILES] = {"compile a", "compile b", "compile c"};
        weir_task *graph = weir_graph_new(drawn, NULL);
        weir_task *fetching = weir_timer_new(WEIR_MSEC(20), NULL, NULL);
        weir_task *linking = weir_timer_new(WEIR_MSEC(10), linked, build);
        weir_task *testing = weir_timer_new(WEIR_MSEC(20), tested, build);
        weir_node *fetch = weir_graph_add(graph, fetching, "fetch");
        weir_node *link = weir_graph_add(graph, linking, "link");
        weir_node *test = weir_graph_add(graph, testing, "test");
        weir_node *report = weir_graph_add(graph, weir_empty_new(reported, NULL), "report");

        for (int i = 0; i < FILES; i++) {
                int *size = &build->sizes[i];
                weir_task *task = weir_timer_new(WEIR_MSEC(30 + 10 * i), compiled, size);
                weir_node *compile = weir_graph_add(graph, task, labels[i]);

                weir_graph_precede(fetch, compile);
                weir_graph_precede(compile, link);
        }
        weir_graph_precede_if(link, test, good, build);
        weir_graph_precede_if(link, report, bad, build);
        return graph; /* a part that could not be made has poisoned it: the run reports it */
}

int main(int argc, char *argv[])
{
        struct build build = {.sizes = {1000, 2000, 3000}};

        if (argc > 2 || (argc == 2 && strcmp(argv[1], "fail") != 0)) {
                fprintf(stderr, "wanted: 16-graph [fail]\n");
                return 1;
        }
        if (argc == 2)
                build.sizes[1] = 0;
        int status = weir_task_run(build_graph(&build));
        if (status)
                fprintf(stderr, "16-graph: %s\n", weir_strerror(status));
        return weir_shutdown() != 0 || status;
}
