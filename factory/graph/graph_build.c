/* factory/graph/graph_build.c: nodes and edges are added to a graph.
 *
 * Threads: the owner of the graph, which no other thread knows yet. */
#include <errno.h>
#include <stdlib.h>

#include "factory/graph/graph.h"
#include "kernel/observe/log.h"

#define EDGES_LEAST      32
#define CONDITIONS_LEAST 8

/* -- nodes -- */

int
weir_node_set_policy(weir_node *node, enum weir_node_policy policy)
{
        if (!node)
                return -EINVAL;
        if (policy != WEIR_NODE_GO_ON && policy != WEIR_NODE_CANCEL)
                return weir__log_refusal("weir_node_set_policy: %d: expected an enum weir_node_policy", (int)policy);
        if (weir__node_graph(node)->task.flags & WEIR__TASK_CONSUMED)
                return -EBUSY;
        node->policy = (uint8_t)policy;
        return 0;
}

/* -- what is added -- */

static struct weir__graph *
open_graph(struct weir_task *task, enum weir__act act)
{
        weir__task_expect_open(task, &weir__graph_ops, act);
        return (struct weir__graph *)task;
}

static struct weir_node *
new_node(struct weir__graph *graph, int fault, const char *label)
{
        struct weir_node *node = fault ? NULL : weir__graph_new_node(graph, label);

        if (!node)
                weir__task_poison(&graph->task, fault ? fault : -ENOMEM);
        return node;
}

weir_node *
weir_graph_add(weir_task *to, weir_task *task, const char *label)
{
        if (task)
                weir__task_consume(task, WEIR__ACT_GRAPH_ADD);
        struct weir__graph *graph = to ? open_graph(to, WEIR__ACT_GRAPH_ADD) : NULL;
        int fault = !task ? -ENOMEM : task->flags & WEIR__TASK_POISONED ? task->status : 0;
        struct weir_node *node = graph ? new_node(graph, fault, label) : NULL;
        if (node)
                node->task = task;
        else if (task)
                weir__task_discard(task);
        return node;
}

weir_node *
weir_graph_add_series(weir_task *to, weir_series *series, const char *label)
{
        struct weir__graph *graph = to ? open_graph(to, WEIR__ACT_GRAPH_ADD_SERIES) : NULL;
        int fault = graph && series ? weir__series_fault(series, WEIR__ACT_GRAPH_ADD_SERIES) : -ENOMEM;
        struct weir_node *node = graph ? new_node(graph, fault, label) : NULL;

        if (!node) {
                weir_series_dismiss(series);
                return NULL;
        }
        series->owner = graph;
        node->series = series;
        return node;
}

void
weir_graph_stop_on_failure(weir_task *to)
{
        struct weir__graph *graph = to ? open_graph(to, WEIR__ACT_GRAPH_STOP_ON_FAILURE) : NULL;

        if (graph && !graph->within && !(graph->within = weir__series_around()))
                weir__task_poison(to, -ENOMEM);
}

/* -- edges -- */

/* Returns the error of an edge between them, or 0. */
static int
fault_of(const struct weir_node *before, const struct weir_node *after)
{
        if (!before || !after)
                return -EINVAL;
        if (before == after || weir__node_graph(before) != weir__node_graph(after))
                return weir__log_refusal("weir_graph_precede: expected two nodes of one graph");
        return weir__node_graph(before)->task.flags & WEIR__TASK_CONSUMED ? -EBUSY : 0;
}

static bool
add_edge(struct weir__graph *graph, uint32_t before, uint32_t after)
{
        if (graph->edges + 1 == WEIR__GRAPH_MOST ||
            !weir__graph_grow((void **)&graph->edge_list, &graph->edge_room, graph->edges, sizeof *graph->edge_list, EDGES_LEAST))
                return false;
        graph->edge_list[graph->edges++] = (struct weir__edge){before, after};
        return true;
}

static int
connect(struct weir_node *before, struct weir_node *after, uint32_t conditional)
{
        struct weir__graph *graph = weir__node_graph(before);
        uint32_t from = weir__node_number(before), to = weir__node_number(after);

        if (!add_edge(graph, from | conditional, to)) {
                weir__task_poison(&graph->task, -ENOMEM);
                return -ENOMEM;
        }
        graph->may_have_cycle |= to < from;
        return 0;
}

int
weir_graph_precede(weir_node *before, weir_node *after)
{
        int fault = fault_of(before, after);

        return fault ? fault : connect(before, after, 0);
}

int
weir_graph_precede_if(weir_node *before, weir_node *after, weir_edge_fn *condition, void *context)
{
        int fault = fault_of(before, after);

        if (!condition)
                fault = weir__log_refusal("weir_graph_precede_if: the condition is NULL: expected a function");
        if (fault)
                return fault;
        struct weir__graph *graph = weir__node_graph(before);
        if (!weir__graph_grow((void **)&graph->conditions, &graph->condition_room, graph->conditional, sizeof *graph->conditions,
                              CONDITIONS_LEAST)) {
                weir__task_poison(&graph->task, -ENOMEM);
                return -ENOMEM;
        }
        graph->conditions[graph->conditional] = (struct weir__condition){condition, context, weir__node_number(after)};
        int failed = connect(before, after, WEIR__EDGE_CONDITIONAL);
        if (!failed)
                graph->conditional++;
        return failed;
}
