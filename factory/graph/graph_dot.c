/* factory/graph/graph_dot.c: a graph in the language of Graphviz.
 *
 * Threads: any that may use the graph. */
#include <errno.h>
#include <stdio.h>

#include "factory/graph/graph.h"
#include "kernel/base/clock.h"
#include "kernel/observe/log.h"

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
        for (uint32_t i = 0; i < graph->edges; i++) {
                uint32_t before = graph->edge_list[i].before;

                fprintf(file, "        n%u -> n%u%s;\n", before & ~WEIR__EDGE_CONDITIONAL, graph->edge_list[i].after,
                        before & WEIR__EDGE_CONDITIONAL ? " [style=dashed]" : "");
        }
}

int
weir_graph_dot(const weir_task *task, FILE *file)
{
        const struct weir__graph *graph = (const struct weir__graph *)task;

        if (!task)
                return -EINVAL;
        if (!file)
                return weir__log_refusal("weir_graph_dot: the file is NULL: expected the one to be written to");
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
