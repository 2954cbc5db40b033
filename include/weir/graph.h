/* weir/graph.h: a task with nodes.  Each node, a task or a series, runs as soon as all nodes before
 * it have ended.
 *
 * A node runs when all its predecessors have ended and both of these hold:
 *
 * - at least one edge to it is taken, or it has no edge;
 * - no predecessor cancels it.  A predecessor cancels it if it failed under WEIR_NODE_CANCEL, or if
 *   it was cancelled itself.
 *
 * A node that does not run is dropped: its callback never runs, its free function does.
 *
 *     weir_task *graph = weir_graph_new(on_end, NULL);
 *     weir_node *read = weir_graph_add(graph, read_task, "read");
 *     weir_node *parse = weir_graph_add(graph, parse_task, "parse");
 *     weir_graph_precede(read, parse);     all edges come before the start
 *     err = weir_task_start(graph); */
#ifndef WEIR_GRAPH_H
#define WEIR_GRAPH_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/series.h>

WEIR_BEGIN

/* A node.  It belongs to its graph.  It may be used until the callback of the graph has returned,
 * or the graph is dismissed or refused. */
typedef struct weir_node weir_node;

/* How far a node of a graph has come. */
enum weir_node_state {
        WEIR_NODE_WAITING = 0, /* for its predecessors */
        WEIR_NODE_RUNNING,     /* its series was started and has not ended; its task may wait, as for a semaphore */
        WEIR_NODE_ENDED,       /* its series has ended; weir_node_status says how */
        WEIR_NODE_SKIPPED,     /* dropped: it has predecessors, and no edge from one of them was taken */
        WEIR_NODE_CANCELLED,   /* dropped: by the policy of a predecessor, with the graph, or out of memory */
};

/* What happens to the successors of a node that ends with a status other than 0. */
enum weir_node_policy {
        WEIR_NODE_GO_ON = 0, /* they run */
        WEIR_NODE_CANCEL,    /* they are dropped, and so is everything that comes after them */
};

/* Makes a graph without nodes.  Its callback runs once all nodes have ended or were dropped.  Its
 * status is that of the first node, in the order of adding, whose own status is not 0. Nodes that a
 * policy has cancelled do not count.  Callbacks of different nodes may run at the same time.
 *
 * Owner:   the caller, until the graph is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  A graph with a cycle is refused
 *          with -ELOOP where it is consumed (start, run, push or add report it); the log names the
 *          nodes of one cycle.
 * Threads: any. */
WEIR_API weir_task *weir_graph_new(weir_task_fn *done, void *context);

/* Adds a node: a task or a series that was not started.  The label is UTF-8 and copied.  With NULL
 * the node has no label and is called by its number.
 *
 * Owner:   consumes the task or series.  The node belongs to the graph.
 * Result:  NULL for a NULL graph or task, for a task that was made wrongly, and when out of memory.
 *          That poisons the graph; its start, run or push reports it.
 * Threads: where the graph is yours, before its start.  Later, or on another kind of task, it
 *          aborts with the reason. */
WEIR_API weir_node *weir_graph_add(weir_task *graph, weir_task *task, const char *label);
WEIR_API weir_node *weir_graph_add_series(weir_task *graph, weir_series *series, const char *label);

/* Adds an edge: one node runs after another.  A second edge between the same nodes changes nothing,
 * but it counts as one more input.
 *
 * Result:  0; -EINVAL for NULL, for a node before itself, and for nodes of two graphs; -EBUSY once
 *          the graph was consumed; -ENOMEM, which poisons the graph.
 * Threads: where the graph is yours. */
WEIR_API int weir_graph_precede(weir_node *before, weir_node *after);

/* Decides whether an edge is taken.  It is called once, on a worker, when the node before the edge
 * has ended.  If that node was dropped, it is not called and the edge is not taken.  It must not
 * block. */
typedef bool weir_edge_fn(const weir_node *before, void *context);

/* Adds an edge that is taken on a condition.
 *
 * Owner:   the caller keeps the context until the graph has ended.
 * Result:  as for weir_graph_precede; -EINVAL without a condition.
 * Threads: where the graph is yours. */
WEIR_API int weir_graph_precede_if(weir_node *before, weir_node *after, weir_edge_fn *condition, void *context);

/* Sets what happens to the successors if this node fails.
 *
 * Result:  0; -EINVAL for NULL and for an unknown policy; -EBUSY once the graph was consumed.
 * Threads: where the graph is yours. */
WEIR_API int weir_node_set_policy(weir_node *node, enum weir_node_policy policy);

/* The graph ends at its first failure, whatever the policies say.  The first node that fails, in
 * time, cancels the nodes that run, and all waiting ones are dropped.  The graph has the status of
 * that node.  Out of memory poisons the graph.  Accepts NULL.
 *
 * Threads: where the graph is yours, before its start.  Later, or on another kind of task, it
 *          aborts with the reason. */
WEIR_API void weir_graph_stop_on_failure(weir_task *graph);

/* The node that a task belongs to: as its task, in its series, or in a parallel in that series.  Of
 * graphs within graphs it is the node of the innermost one.
 *
 * Owner:   borrowed, as every node.
 * Result:  NULL for NULL and for a task that belongs to no node.
 * Threads: inside the task's callback. */
WEIR_API weir_node *weir_graph_node_of(const weir_task *task);

/* Leaves a result for the nodes after this one, with a function (or NULL) that frees it after the
 * graph's callback.  A result that was set before is freed at once, unless it is the same pointer.
 *
 * Owner:   the node takes the result.  On failure it is freed at once.
 * Result:  0; -EINVAL for NULL; -EBUSY when the node does not run.
 * Threads: inside the callbacks of the node.  If several of them may run at once, as in a parallel,
 *          only one of them at a time. */
WEIR_API int weir_node_set_result(weir_node *node, void *result, weir_free_fn *fn);

/* The result of a node; NULL for NULL, and when there is none.
 *
 * Owner:   borrowed until the callback of the graph has returned.
 * Threads: inside the callbacks of the node itself and of later nodes, conditions of edges from it,
 *          and the graph's callback. */
WEIR_API void *weir_node_result(const weir_node *node);

/* The result of the i-th predecessor, from 0, in the order of weir_graph_precede.  NULL beyond the
 * last one, and before the start.
 *
 * Threads: as weir_node_result of the predecessor. */
WEIR_API void *weir_node_input(const weir_node *node, size_t i);

/* The state of a node, and the status that it ended with.  The status is 0 before the end and for a
 * skipped node.  It is -ECANCELED for a node that a policy has cancelled.  A node that was
 * cancelled with the graph has the status of the graph.  For NULL they are WEIR_NODE_WAITING and
 * -EINVAL.
 *
 * Threads: where the graph is yours, inside its callback and those of its nodes.  The status of a
 *          node that runs at the same time may not be set yet; it is set when the state is
 *          WEIR_NODE_ENDED. */
WEIR_API enum weir_node_state weir_node_state(const weir_node *node);
WEIR_API int weir_node_status(const weir_node *node);

/* Writes the graph in the language of Graphviz.  A node has its label, its state (as a colour), its
 * status, when it began (in ms from the start of the graph) and how long it ran.  Conditional edges
 * are dashed.  Blocks as writing to the file does.
 *
 * Result:  0; -EINVAL for NULL; -EDOM for a task that is no graph; -EIO when the file refuses.
 * Threads: where the graph is yours, inside its callback and those of its nodes. */
WEIR_API int weir_graph_dot(const weir_task *graph, FILE *file);

WEIR_END

#endif
