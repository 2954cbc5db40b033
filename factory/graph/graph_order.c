/* factory/graph/graph_order.c: the arrays that a graph runs by, made when it is consumed, and the search for cycles.
 *
 * Threads: the one that consumes the graph.  All of it is O(nodes + edges), and nothing is recursive. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/graph/graph.h"
#include "kernel/observe/log.h"

/* -- the arrays -- */

/* Where the edges of each node begin.  In two arrays that are one longer than this uses now: filling them, which moves each
 * beginning to the next, leaves them right from their first element on. */
static void
count_edges(const struct weir__graph *graph, uint32_t *first_out, uint32_t *first_in)
{
        for (uint32_t i = 0; i < graph->edges; i++) {
                first_out[(graph->edge_list[i].before & ~WEIR__EDGE_CONDITIONAL) + 2]++;
                first_in[graph->edge_list[i].after + 2]++;
        }
        for (size_t i = 2; i < (size_t)graph->nodes + 2; i++) {
                first_out[i] += first_out[i - 1];
                first_in[i] += first_in[i - 1];
        }
}

static void
fill_edges(const struct weir__graph *graph, uint32_t *first_out, uint32_t *first_in, uint32_t *out, uint32_t *in)
{
        uint32_t condition = 0;

        for (uint32_t i = 0; i < graph->edges; i++) {
                bool is_conditional = graph->edge_list[i].before & WEIR__EDGE_CONDITIONAL;
                uint32_t before = graph->edge_list[i].before & ~WEIR__EDGE_CONDITIONAL, after = graph->edge_list[i].after;

                out[first_out[before + 1]++] = is_conditional ? condition++ | WEIR__EDGE_CONDITIONAL : after;
                in[first_in[after + 1]++] = before;
        }
}

static uint32_t
edges_to(const struct weir__graph *graph, uint32_t number)
{
        return graph->first_in[number + 1] - graph->first_in[number];
}

static void
set_waiting(struct weir__graph *graph)
{
        uint32_t ends = 0;

        for (uint32_t i = 0; i < graph->nodes; i++) {
                atomic_init(&graph->waiting[i], edges_to(graph, i));
                ends += graph->first_out[i] == graph->first_out[i + 1];
        }
        atomic_init(&graph->pending, ends + 1); /* 1 for the walk that starts */
}

static bool
make_arrays(struct weir__graph *graph)
{
        size_t nodes = graph->nodes, edges = graph->edges, counted = graph->conditional ? nodes : 0;
        size_t size = (2 * (nodes + 2) + 2 * edges + 2 * nodes + counted) * sizeof(uint32_t);
        uint32_t *arrays = weir__graph_alloc(1, size);

        if (!arrays)
                return false;
        uint32_t *first_out = arrays, *first_in = first_out + nodes + 2, *out = first_in + nodes + 2, *in = out + edges;
        memset(arrays, 0, 2 * (nodes + 2) * sizeof *arrays);
        count_edges(graph, first_out, first_in);
        fill_edges(graph, first_out, first_in, out, in);
        graph->arrays = arrays;
        graph->first_out = first_out;
        graph->first_in = first_in;
        graph->out = out;
        graph->in = in;
        graph->waiting = (_Atomic uint32_t *)(in + edges);
        graph->ready = in + edges + nodes;
        if (counted) {
                graph->not_taken = graph->waiting + 2 * nodes;
                memset((void *)graph->not_taken, 0, nodes * sizeof *arrays);
        }
        return true;
}

/* -- cycles -- */

static uint32_t
target(const struct weir__graph *graph, uint32_t edge)
{
        uint32_t out = graph->out[edge];

        return out & WEIR__EDGE_CONDITIONAL ? graph->conditions[out & ~WEIR__EDGE_CONDITIONAL].after : out;
}

/* Takes away node after node that has no predecessor left, and counts down `left`; `order` has room for all.  Returns how many
 * were taken: all, if there is no cycle. */
static uint32_t
take_away(const struct weir__graph *graph, uint32_t *left, uint32_t *order)
{
        uint32_t taken = 0;

        for (uint32_t i = 0; i < graph->nodes; i++)
                if ((left[i] = edges_to(graph, i)) == 0)
                        order[taken++] = i;
        for (uint32_t i = 0; i < taken; i++)
                for (uint32_t edge = graph->first_out[order[i]]; edge < graph->first_out[order[i] + 1]; edge++)
                        if (--left[target(graph, edge)] == 0)
                                order[taken++] = target(graph, edge);
        return taken;
}

#define NOT_MET UINT32_MAX

/* Goes backwards from a node that is left, always to one that is left, until it meets one again: that is in a cycle.  `after`
 * tells of each node met the one that follows it on the way back to there. */
static uint32_t
find_cycle(const struct weir__graph *graph, const uint32_t *left, uint32_t *after)
{
        uint32_t node = 0;

        memset(after, 0xff, graph->nodes * sizeof *after);
        while (left[node] == 0)
                node++;
        for (;;) {
                uint32_t follower = node, edge = graph->first_in[node];

                while (left[graph->in[edge]] == 0)
                        edge++;
                node = graph->in[edge];
                bool is_met = after[node] != NOT_MET;
                after[node] = follower;
                if (is_met)
                        return node;
        }
}

#define SAID_MOST       400 /* bytes of the names of nodes in a cycle: the message must fit */
#define NODE_NAME_SHOWN 60  /* bytes */

/* Appends " -> " and the name of a node to a text of that size.  Returns the new size. */
static size_t
say_node(char *text, size_t size, const struct weir__graph *graph, uint32_t number)
{
        const char *label = weir__graph_node(graph, number)->label;
        char unlabelled[16];

        snprintf(unlabelled, sizeof unlabelled, "#%" PRIu32, number);
        return size + (size_t)sprintf(text + size, "%s%.*s", size ? " -> " : "", NODE_NAME_SHOWN, label ? label : unlabelled);
}

/* "a -> b -> a"; of a long one the first nodes. */
static void
say_cycle(const struct weir__graph *graph, const uint32_t *after, uint32_t first)
{
        char text[SAID_MOST + 3 * NODE_NAME_SHOWN];
        size_t size = say_node(text, 0, graph, first);
        uint32_t count = 1;

        for (uint32_t node = after[first]; node != first; node = after[node], count++)
                if (size < SAID_MOST - NODE_NAME_SHOWN)
                        size = say_node(text, size, graph, node);
                else if (text[size - 1] != '.')
                        size += (size_t)sprintf(text + size, " -> ...");
        say_node(text, size, graph, first);
        weir__log(WEIR_LOG_ERROR, "a graph is refused for a cycle of %" PRIu32 " nodes: %s", count, text);
}

static int
look_for_cycles(struct weir__graph *graph)
{
        uint32_t *scratch = weir__graph_alloc(1, 2 * (size_t)graph->nodes * sizeof *scratch);
        int failed = 0;

        if (!scratch)
                return -ENOMEM;
        if (take_away(graph, scratch, scratch + graph->nodes) < graph->nodes) {
                say_cycle(graph, scratch + graph->nodes, find_cycle(graph, scratch, scratch + graph->nodes));
                failed = -ELOOP;
        }
        free(scratch);
        return failed;
}

int
weir__graph_seal(struct weir_task *task)
{
        struct weir__graph *graph = (struct weir__graph *)task;

        if (!make_arrays(graph))
                return -ENOMEM;
        int failed = graph->may_have_cycle ? look_for_cycles(graph) : 0;
        if (!failed)
                set_waiting(graph);
        return failed;
}
