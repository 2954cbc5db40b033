/* weir/graph.h: a task whose nodes, tasks or series, run as soon as all that come before them have ended.
 *
 * A node runs when all its predecessors have ended, if one of the edges to it is taken, or if there is none; and if no
 * predecessor cancels it: one that has failed under WEIR_NODE_CANCEL, or that was itself cancelled.  A node that does not run
 * is dropped: its callback never runs, its free function does. */
#ifndef WEIR_GRAPH_H
#define WEIR_GRAPH_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/series.h>

WEIR_BEGIN

/* A node, which belongs to its graph: it may be used until the callback of the graph has returned, or the graph is dismissed or
 * refused. */
typedef struct weir_node weir_node;

enum weir_node_state {
        WEIR_NODE_WAITING = 0, /* for its predecessors */
        WEIR_NODE_RUNNING,
        WEIR_NODE_ENDED,
        WEIR_NODE_SKIPPED,   /* dropped: it has predecessors, and no edge from one of them was taken */
        WEIR_NODE_CANCELLED, /* dropped: by the policy of a predecessor, with the graph, or there was no memory for it */
};

/* What becomes of the successors when a node ends with a status other than 0. */
enum weir_node_policy {
        WEIR_NODE_GO_ON = 0, /* they run */
        WEIR_NODE_CANCEL,    /* they are dropped, and all that come after them */
};

/* A graph without nodes.  Its callback runs once all nodes have ended or were dropped; its status is that of the first node, in
 * order of adding, whose own is not 0.  What a policy has cancelled does not count.  Callbacks of nodes may run at once.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts.  A graph that has a cycle is refused with -ELOOP where it is
 *          consumed (start, run, push or add report it), and the log names the nodes of one cycle.
 * Threads: any. */
WEIR_API weir_task *weir_graph_new(weir_task_fn *done, void *context);

/* Adds a node: a task, or a series, that was not started.  The label (UTF-8; NULL: none, it is called by its number) is copied.
 *
 * Owner:   consumes the task or series; the node belongs to the graph.
 * Result:  NULL for a NULL graph or task, for one that was made wrongly, and when out of memory: that poisons the graph, whose
 *          start, run or push reports it.
 * Threads: where the graph is yours: before it is started.  Later, or on a task of another kind, it aborts with the reason. */
WEIR_API weir_node *weir_graph_add(weir_task *graph, weir_task *task, const char *label);
WEIR_API weir_node *weir_graph_add_series(weir_task *graph, weir_series *series, const char *label);

/* Has one node run after another.  The same edge twice does what it does once, but is two inputs.
 *
 * Result:  0; -EINVAL for NULL, a node before itself, and nodes of two graphs; -EBUSY once the graph was consumed; -ENOMEM, which
 *          poisons the graph.
 * Threads: where the graph is yours. */
WEIR_API int weir_graph_precede(weir_node *before, weir_node *after);

/* Says whether an edge is taken: called once, on a worker, when the node before it has ended; never when that was dropped, whose
 * edges are not taken.  It must not block. */
typedef bool weir_edge_fn(const weir_node *before, void *context);

/* The same, for an edge that is taken on a condition.
 *
 * Owner:   the caller keeps the context until the graph has ended.
 * Result:  as weir_graph_precede; -EINVAL without a condition. */
WEIR_API int weir_graph_precede_if(weir_node *before, weir_node *after, weir_edge_fn *condition, void *context);

/* Result:  0; -EINVAL for NULL and for what is no policy; -EBUSY once the graph was consumed.
 * Threads: where the graph is yours. */
WEIR_API int weir_node_set_policy(weir_node *node, enum weir_node_policy policy);

/* The node that a task is in: as its task, in its series, or in a parallel in there; of graphs within graphs the innermost.
 *
 * Owner:   borrowed, as every node.
 * Result:  NULL for NULL and for a task that is in none.
 * Threads: inside the task's callback. */
WEIR_API weir_node *weir_graph_node_of(const weir_task *task);

/* Leaves a result for the nodes that come after this one, with a function (or NULL) that frees it after the graph's
 * callback.  One that was set before is freed at once, unless it is the same pointer.
 *
 * Owner:   the node takes the result, also on failure: then it is freed at once.
 * Result:  0; -EINVAL for NULL; -EBUSY when the node does not run.
 * Threads: inside the callbacks of the node; of those that may run at once, as in a parallel, one at a time. */
WEIR_API int weir_node_set_result(weir_node *node, void *result, weir_free_fn *fn);

/* What the node has left; NULL for NULL, or nothing.
 *
 * Owner:   borrowed until the callback of the graph has returned.
 * Threads: inside the node's own callbacks, those of nodes that come after it, conditions of edges from it, and the graph's
 *          callback. */
WEIR_API void *weir_node_result(const weir_node *node);

/* The result of the i-th predecessor, from 0, in order of weir_graph_precede; NULL beyond the last, and before the start.
 *
 * Threads: as weir_node_result of the predecessor. */
WEIR_API void *weir_node_input(const weir_node *node, size_t i);

/* How the node stands, and how it ended: 0 before that, and for one skipped; -ECANCELED for one cancelled by a policy; what
 * the graph ended with for one cancelled with it; -EINVAL for NULL (whose state is WAITING).
 *
 * Threads: where the graph is yours, inside its callback and those of its nodes.  The status of a node that runs at once with
 *          the caller may not be there yet: it is when the state says that it has ended. */
WEIR_API enum weir_node_state weir_node_state(const weir_node *node);
WEIR_API int weir_node_status(const weir_node *node);

/* Writes the graph in the language of Graphviz: nodes with label, state (their colour), status, and in ms when they began,
 * counted from the start of the graph, and how long they ran; conditional edges dashed.  Waits as writing to the file does.
 *
 * Result:  0; -EINVAL for NULL; -EDOM for a task that is no graph; -EIO when the file refuses.
 * Threads: where the graph is yours, inside its callback and those of its nodes. */
WEIR_API int weir_graph_dot(const weir_task *graph, FILE *file);

WEIR_END

#endif
