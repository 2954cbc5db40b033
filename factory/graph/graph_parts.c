/* factory/graph/graph_parts.c: the memory of a graph: nodes, labels, and all else that it owns.
 *
 * Threads: the owner of the graph, which no other thread knows yet or any more. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "factory/graph/graph.h"
#include "kernel/worker/user.h"

#define CHUNK_MOST  (WEIR__HUGE_PAGE / WEIR__GRAPH_PAGE) /* pages */
#define PAGES_LEAST 8

void *
weir__graph_alloc(size_t alignment, size_t size)
{
        if (size < WEIR__HUGE_PAGE)
                return alignment > 16 ? aligned_alloc(alignment, size) : malloc(size);
        size = (size + WEIR__HUGE_PAGE - 1) & ~(WEIR__HUGE_PAGE - 1);
        void *memory = aligned_alloc(WEIR__HUGE_PAGE, size);
        if (memory)
                madvise(memory, size, MADV_HUGEPAGE); /* fails where there are none: nothing is lost */
        return memory;
}

bool
weir__graph_grow(void **array, size_t *room, size_t used, size_t size, size_t least)
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

/* -- nodes -- */

/* Each chunk is as large as all before it, until it is a huge page. */
static bool
make_chunk(struct weir__graph *graph)
{
        size_t pages = !graph->chunks ? 1 : graph->chunk_pages < CHUNK_MOST ? 2 * graph->chunk_pages : CHUNK_MOST;
        struct weir__node_page *chunk = weir__graph_alloc(WEIR__GRAPH_PAGE, pages * WEIR__GRAPH_PAGE);

        if (!chunk)
                return false;
        weir__node_head(chunk)->next_chunk = graph->chunks;
        graph->chunks = graph->next_page = chunk;
        graph->chunk_pages = graph->chunk_left = pages;
        return true;
}

static bool
make_page(struct weir__graph *graph)
{
        size_t used = graph->nodes / WEIR__GRAPH_PER_PAGE;

        if (!weir__graph_grow((void **)&graph->pages, &graph->page_room, used, sizeof(*graph->pages), PAGES_LEAST))
                return false;
        if (graph->chunk_left == 0 && !make_chunk(graph))
                return false;
        struct weir__node_page *page = graph->next_page++;
        graph->chunk_left--;
        weir__node_head(page)->graph = graph;
        weir__node_head(page)->first = graph->nodes;
        graph->pages[used] = page;
        return true;
}

struct weir_node *
weir__graph_new_node(struct weir__graph *graph, const char *label)
{
        size_t size = label ? strlen(label) + 1 : 0;
        char *copy = label ? malloc(size) : NULL;
        bool is_full = graph->nodes + 1 == WEIR__GRAPH_MOST;

        if ((label && !copy) || is_full || (graph->nodes % WEIR__GRAPH_PER_PAGE == 0 && !make_page(graph))) {
                free(copy);
                return NULL;
        }
        struct weir_node *node = weir__graph_node(graph, graph->nodes++);
        *node = (struct weir_node){.label = copy ? memcpy(copy, label, size) : NULL};
        graph->has_labels |= copy != NULL;
        return node;
}

/* -- the end -- */

void
weir__graph_discard_node(struct weir_node *node)
{
        if (node->series) {
                node->series->owner = NULL;
                weir__series_discard(node->series);
        } else if (node->task) {
                weir__series_discard_part(node->task);
        }
}

static void
free_parts(struct weir__graph *graph)
{
        for (struct weir__node_page *chunk; (chunk = graph->chunks);) {
                graph->chunks = weir__node_head(chunk)->next_chunk;
                free(chunk);
        }
        weir__series_around_free(graph->within);
        free(graph->edge_list);
        free(graph->pages);
        free(graph->conditions);
        free(graph->arrays);
}

/* What its nodes own. */
static void
free_results(struct weir__graph *graph)
{
        for (uint32_t i = 0; i < graph->nodes; i++) {
                const struct weir_node *node = weir__graph_node(graph, i);

                if (node->free_result)
                        weir__user_call(node->free_result, node->result);
                free(node->label);
        }
}

void
weir__graph_release(struct weir_task *task, bool discarded)
{
        struct weir__graph *graph = (struct weir__graph *)task;

        for (uint32_t i = 0; discarded && i < graph->nodes; i++)
                weir__graph_discard_node(weir__graph_node(graph, i));
        if (graph->has_labels || atomic_load_explicit(&graph->has_results, memory_order_relaxed))
                free_results(graph);
        free_parts(graph);
}
