/* factory/graph/graph_node.c: nodes as the callbacks of a graph see them: which one it is, their results, and how they stand.
 *
 * Threads: as <weir/graph.h> says; a result is written inside the callbacks of its node, and read by those that come after it. */
#include <errno.h>

#include "factory/graph/graph.h"
#include "kernel/worker/user.h"

weir_node *
weir_graph_node_of(const weir_task *task)
{
        weir__memory_expect(task);
        for (const struct weir_series *series = task ? task->series : NULL; series; series = series->parent)
                if (series->work.ops == &weir__node_series_ops.work)
                        return weir__graph_node(series->owner, series->index);
        return NULL;
}

int
weir_node_set_result(weir_node *node, void *result, weir_free_fn *fn)
{
        int failed = !node ? -EINVAL : weir__node_state_of(node) == WEIR_NODE_RUNNING ? 0 : -EBUSY;

        if (failed) {
                if (fn)
                        weir__user_call(fn, result);
                return failed;
        }
        if (node->free_result && node->result != result)
                weir__user_call(node->free_result, node->result);
        node->result = result;
        node->free_result = fn;
        if (fn)
                atomic_store_explicit(&weir__node_graph(node)->has_results, true, memory_order_relaxed);
        return 0;
}

void *
weir_node_result(const weir_node *node)
{
        return node ? node->result : NULL;
}

void *
weir_node_input(const weir_node *node, size_t i)
{
        const struct weir__graph *graph = node ? weir__node_graph(node) : NULL;

        if (!graph || !graph->arrays)
                return NULL;
        uint32_t number = weir__node_number(node);
        if (i >= graph->first_in[number + 1] - graph->first_in[number])
                return NULL;
        return weir__graph_node(graph, graph->in[graph->first_in[number] + i])->result;
}

enum weir_node_state
weir_node_state(const weir_node *node)
{
        return node ? weir__node_state_of(node) : WEIR_NODE_WAITING;
}

/* It is there once the state says so. */
int
weir_node_status(const weir_node *node)
{
        weir__memory_expect(node);
        if (!node)
                return -EINVAL;
        return weir__node_state_of(node) > WEIR_NODE_RUNNING ? node->status : 0;
}
