/* factory/flow/graph_dot.c: a graph for people: in the language of Graphviz, and in dumps.
 *
 * Threads: any that may use the graph.
 * Locks:   the graph's, to look for nodes that run. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "factory/flow/graph.h"
#include "kernel/base/clock.h"

#define LOOKED_AT_ONCE 256 /* nodes, under one hold of the lock */

static const struct {
        const char *name, *color;
} states[] = {
        [WEIR_NODE_WAITING] = {"waiting", "white"},      [WEIR_NODE_RUNNING] = {"running", "lightblue"},
        [WEIR_NODE_ENDED] = {"ended", "palegreen"},      [WEIR_NODE_SKIPPED] = {"skipped", "lightgrey"},
        [WEIR_NODE_CANCELLED] = {"cancelled", "orange"},
};

/* Inside quotes, where a backslash begins what Graphviz would replace.  Control bytes are written as the log does. */
static void
write_escaped(const char *text, FILE *file)
{
        for (; *text; text++) {
                unsigned char byte = (unsigned char)*text;

                if (byte == '"' || byte == '\\')
                        fprintf(file, "\\%c", byte);
                else if (byte < ' ' || byte == 127)
                        fprintf(file, "\\\\x%02x", byte);
                else
                        putc(byte, file);
        }
}

static double
milliseconds(weir_nsec duration)
{
        return (double)duration / 1e6;
}

static void
write_node(const struct weir__graph *graph, uint32_t number, weir_nsec now, FILE *file)
{
        const struct weir_node *node = weir__graph_node(graph, number);
        enum weir_node_state state = weir_node_state(node);
        int status = weir_node_status(node);
        const char *color = state == WEIR_NODE_ENDED && status ? "salmon" : states[state].color;

        fprintf(file, "        n%u [label=\"", number);
        if (node->label)
                write_escaped(node->label, file);
        else
                fprintf(file, "#%u", number);
        fprintf(file, "\\n%s", states[state].name);
        if (status)
                fprintf(file, ", status %d", status);
        if (state == WEIR_NODE_RUNNING || state == WEIR_NODE_ENDED)
                fprintf(file, "\\nat %.3f ms, for %.3f ms", milliseconds(node->began - graph->began),
                        milliseconds((state == WEIR_NODE_ENDED ? node->ended : now) - node->began));
        fprintf(file, "\", fillcolor=%s];\n", color);
}

static void
write_edges(const struct weir__graph *graph, FILE *file)
{
        for (const struct weir__edge_chunk *chunk = graph->first_edges; chunk; chunk = chunk->next)
                for (size_t i = 0; i < chunk->count; i++) {
                        uint32_t before = chunk->edges[i].before;

                        fprintf(file, "        n%u -> n%u%s;\n", before & ~WEIR__EDGE_CONDITIONAL, chunk->edges[i].after,
                                before & WEIR__EDGE_CONDITIONAL ? " [style=dashed]" : "");
                }
}

int
weir_graph_dot(const weir_task *task, FILE *file)
{
        const struct weir__graph *graph = (const struct weir__graph *)task;

        if (!task || !file)
                return -EINVAL;
        if (!weir__is_graph(task))
                return -EDOM;
        weir_nsec now = weir__clock_now();
        fputs("digraph weir {\n        node [shape=box, style=filled];\n", file);
        for (uint32_t i = 0; i < graph->nodes; i++)
                write_node(graph, i, now, file);
        write_edges(graph, file);
        fputs("}\n", file);
        return fflush(file) || ferror(file) ? -EIO : 0; /* what lies in its buffer is not accepted yet */
}

bool
weir__graph_child(struct weir_task *task, struct weir__child_cursor *cursor, struct weir_series **child)
{
        struct weir__graph *graph = (struct weir__graph *)task;
        uint32_t stop;

        *child = NULL;
        weir__lock(&graph->lock);
        stop = cursor->next + LOOKED_AT_ONCE < graph->nodes ? cursor->next + LOOKED_AT_ONCE : graph->nodes;
        while (!*child && cursor->next < stop) {
                struct weir_node *node = weir__graph_node(graph, cursor->next++);

                if (weir__node_state_of(node) == WEIR_NODE_RUNNING) {
                        *child = weir_series_ref(node->series);
                        cursor->label = node->label;
                }
        }
        weir__unlock(&graph->lock);
        return cursor->next < graph->nodes || *child;
}

void
weir__graph_describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__graph *graph = (const struct weir__graph *)task;

        snprintf(out, room, "%" PRIu32 " nodes, %" PRIu32 " edges", graph->nodes, graph->edges);
}
