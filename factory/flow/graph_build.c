/* factory/flow/graph_build.c: nodes, edges and labels of a graph that is being made, and the memory that they lie in.
 *
 * Threads: whoever owns the graph, which nobody else knows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "factory/flow/graph.h"
#include "kernel/base/panic.h"

#define HUGE_PAGE        ((size_t)2 << 20)
#define SLAB_MOST        (HUGE_PAGE / WEIR__GRAPH_PAGE) /* pages */
#define EDGES_LEAST      30                             /* of the first chunk */
#define EDGES_MOST       ((HUGE_PAGE - sizeof(struct weir__edge_chunk)) / sizeof(struct weir__edge))
#define TEXT_ROOM        ((size_t)4000)
#define CONDITIONS_LEAST 8
#define PAGES_LEAST      8

void *
weir__graph_alloc(size_t alignment, size_t size)
{
        if (size < HUGE_PAGE)
                return alignment > 16 ? aligned_alloc(alignment, size) : malloc(size);
        size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
        void *memory = aligned_alloc(HUGE_PAGE, size);
        if (memory)
                madvise(memory, size, MADV_HUGEPAGE); /* fails where there are none: nothing is lost */
        return memory;
}

/* -- nodes -- */

static bool
grow(void **array, size_t *room, size_t used, size_t size, size_t least)
{
        if (used < *room)
                return true;
        size_t wanted = *room ? 2 * *room : least;
        void *grown = realloc(*array, wanted * size);
        if (!grown)
                return false;
        *array = grown;
        *room = wanted;
        return true;
}

/* Each slab is as large as all before it, until it is a huge page. */
static bool
make_slab(struct weir__graph *graph)
{
        size_t pages = !graph->slabs ? 1 : graph->slab_pages < SLAB_MOST ? 2 * graph->slab_pages : SLAB_MOST;
        struct weir__node_page *slab = weir__graph_alloc(WEIR__GRAPH_PAGE, pages * WEIR__GRAPH_PAGE);

        if (!slab)
                return false;
        weir__node_head(slab)->next_slab = graph->slabs;
        graph->slabs = graph->next_page = slab;
        graph->slab_pages = graph->slab_left = pages;
        return true;
}

static bool
make_page(struct weir__graph *graph)
{
        size_t used = graph->nodes / WEIR__GRAPH_PER_PAGE;

        if (!grow((void **)&graph->pages, &graph->page_room, used, sizeof(*graph->pages), PAGES_LEAST))
                return false;
        if (graph->slab_left == 0 && !make_slab(graph))
                return false;
        struct weir__node_page *page = graph->next_page++;
        graph->slab_left--;
        weir__node_head(page)->graph = graph;
        weir__node_head(page)->first = graph->nodes;
        graph->pages[used] = page;
        return true;
}

static const char *
copy_text(struct weir__graph *graph, const char *text)
{
        size_t size = strlen(text) + 1;
        struct weir__text_chunk *chunk = graph->texts;

        if (!chunk || chunk->room - chunk->used < size) {
                size_t room = size > TEXT_ROOM ? size : TEXT_ROOM;

                chunk = malloc(sizeof *chunk + room);
                if (!chunk)
                        return NULL;
                *chunk = (struct weir__text_chunk){.next = graph->texts, .room = room};
                graph->texts = chunk;
        }
        char *copy = chunk->text + chunk->used;
        chunk->used += size;
        return memcpy(copy, text, size);
}

struct weir_node *
weir__graph_new_node(struct weir__graph *graph, const char *label)
{
        const char *copy = label ? copy_text(graph, label) : NULL;

        if ((label && !copy) || graph->nodes + 1 == WEIR__GRAPH_MOST)
                return NULL;
        if (graph->nodes % WEIR__GRAPH_PER_PAGE == 0 && !make_page(graph))
                return NULL;
        struct weir_node *node = weir__graph_node(graph, graph->nodes++);
        *node = (struct weir_node){.label = copy};
        return node;
}

int
weir_node_set_policy(weir_node *node, enum weir_node_policy policy)
{
        if (!node || (policy != WEIR_NODE_GO_ON && policy != WEIR_NODE_CANCEL))
                return -EINVAL;
        if (weir__node_graph(node)->task.flags & WEIR__TASK_CONSUMED)
                return -EBUSY;
        node->policy = (uint8_t)policy;
        return 0;
}

/* -- what is added -- */

void
weir__graph_poison(struct weir__graph *graph, int fault)
{
        if (!(graph->task.flags & WEIR__TASK_WRONG))
                graph->task.status = fault;
        graph->task.flags |= WEIR__TASK_WRONG;
}

static struct weir__graph *
open_graph(struct weir_task *task, const char *verb)
{
        if (!weir__is_graph(task))
                weir__panic("%s: the task is no graph", verb);
        if (task->flags & WEIR__TASK_CONSUMED)
                weir__panic("%s: the graph was started, pushed, added or dismissed before", verb);
        return (struct weir__graph *)task;
}

static struct weir_node *
new_node(struct weir__graph *graph, int fault, const char *label)
{
        struct weir_node *node = fault ? NULL : weir__graph_new_node(graph, label);

        if (!node)
                weir__graph_poison(graph, fault ? fault : -ENOMEM);
        return node;
}

weir_node *
weir_graph_add(weir_task *to, weir_task *task, const char *label)
{
        if (task)
                weir__task_consume(task, "weir_graph_add");
        struct weir__graph *graph = to ? open_graph(to, "weir_graph_add") : NULL;
        int fault = !task ? -ENOMEM : task->flags & WEIR__TASK_WRONG ? task->status : 0;
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
        struct weir__graph *graph = to ? open_graph(to, "weir_graph_add_series") : NULL;
        struct weir_node *node = graph ? new_node(graph, series ? weir__series_fault(series) : -ENOMEM, label) : NULL;

        if (!node) {
                weir_series_dismiss(series);
                return NULL;
        }
        series->owner = graph;
        node->series = series;
        return node;
}

/* -- edges -- */

static bool
make_edge_chunk(struct weir__graph *graph)
{
        struct weir__edge_chunk *last = graph->last_edges, *chunk;
        size_t room = !last ? EDGES_LEAST : last->room < EDGES_MOST / 2 ? 2 * last->room : EDGES_MOST;

        chunk = weir__graph_alloc(1, sizeof *chunk + room * sizeof *chunk->edges);
        if (!chunk)
                return false;
        chunk->next = NULL;
        chunk->count = 0;
        chunk->room = room;
        *(last ? &last->next : &graph->first_edges) = chunk;
        graph->last_edges = chunk;
        return true;
}

static bool
add_edge(struct weir__graph *graph, uint32_t before, uint32_t after)
{
        struct weir__edge_chunk *chunk = graph->last_edges;

        if (graph->edges + 1 == WEIR__GRAPH_MOST)
                return false;
        if (!chunk || chunk->count == chunk->room) {
                if (!make_edge_chunk(graph))
                        return false;
                chunk = graph->last_edges;
        }
        chunk->edges[chunk->count++] = (struct weir__edge){before, after};
        graph->edges++;
        return true;
}

/* What is wrong with an edge between them, or 0. */
static int
fault_of(const struct weir_node *before, const struct weir_node *after)
{
        if (!before || !after || before == after || weir__node_graph(before) != weir__node_graph(after))
                return -EINVAL;
        return weir__node_graph(before)->task.flags & WEIR__TASK_CONSUMED ? -EBUSY : 0;
}

static int
connect(struct weir_node *before, struct weir_node *after, uint32_t conditional)
{
        struct weir__graph *graph = weir__node_graph(before);
        uint32_t from = weir__node_number(before), to = weir__node_number(after);

        if (!add_edge(graph, from | conditional, to)) {
                weir__graph_poison(graph, -ENOMEM);
                return -ENOMEM;
        }
        graph->descends |= to < from;
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
        int fault = condition ? fault_of(before, after) : -EINVAL;

        if (fault)
                return fault;
        struct weir__graph *graph = weir__node_graph(before);
        if (!grow((void **)&graph->conditions, &graph->condition_room, graph->conditional, sizeof *graph->conditions,
                  CONDITIONS_LEAST)) {
                weir__graph_poison(graph, -ENOMEM);
                return -ENOMEM;
        }
        graph->conditions[graph->conditional] = (struct weir__condition){condition, context, weir__node_number(after)};
        int failed = connect(before, after, WEIR__EDGE_CONDITIONAL);
        if (!failed)
                graph->conditional++;
        return failed;
}

/* -- the end -- */

void
weir__graph_free_parts(struct weir__graph *graph)
{
        for (struct weir__node_page *slab; (slab = graph->slabs);) {
                graph->slabs = weir__node_head(slab)->next_slab;
                free(slab);
        }
        for (struct weir__edge_chunk *chunk; (chunk = graph->first_edges);) {
                graph->first_edges = chunk->next;
                free(chunk);
        }
        for (struct weir__text_chunk *chunk; (chunk = graph->texts);) {
                graph->texts = chunk->next;
                free(chunk);
        }
        free(graph->pages);
        free(graph->conditions);
        free(graph->arrays);
}
