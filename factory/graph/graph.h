/* factory/graph/graph.h: the insides of a graph, which its files share.
 *
 *     NEW, nodes and edges added --seal--> arrays made, no cycle --start--> nodes run --> READY, when `pending` is 0
 *
 * Nodes lie in pages that name their graph, so the address of a node yields its number: precede need not touch the node.  While
 * a graph runs, the data that each edge needs are in arrays of 32-bit words, indexed by the numbers of nodes.  These arrays stay
 * in the caches of the processor for larger graphs than the nodes would. */
#ifndef WEIR_FACTORY_GRAPH_H
#define WEIR_FACTORY_GRAPH_H

#include <weir/graph.h>

#include "factory/task/series.h"

#define WEIR__HUGE_PAGE      ((size_t)2 << 20)
#define WEIR__GRAPH_PAGE     4096
#define WEIR__GRAPH_PER_PAGE 63
#define WEIR__GRAPH_MOST     (UINT32_C(1) << 31) /* nodes, and edges: less than */

#define WEIR__EDGE_CONDITIONAL (UINT32_C(1) << 31)
#define WEIR__NODE_DOOMED      (UINT32_C(1) << 31)
#define WEIR__NODE_NONE        UINT32_MAX

/* A node has one owner at a time: the maker of the graph, the thread that decides whether the node runs, its callbacks, and the
 * thread that notifies its successors.  `series` and `state` change under the graph's lock when the node begins and when it ends,
 * for the walk that ends them early.  `state` is written last, with release, for other readers. */
struct weir_node {
        union {
                struct weir_task *task;      /* WAITING, and no series */
                uint32_t next_finished;       /* finished: the next node of its list, or WEIR__NODE_NONE */
        };
        union {
                struct weir_series *series; /* WAITING: NULL, or what was added; RUNNING: it runs */
                size_t next_edge;           /* finished: the edge along which the next arrival goes */
        };
        char *label; /* NULL: none */
        void *result;
        weir_free_fn *free_result;
        weir_nsec began, ended; /* 0: it never did */
        int status;
        _Atomic uint8_t state; /* enum weir_node_state */
        uint8_t policy;        /* enum weir_node_policy; constant once sealed */
};

/* A page of nodes has the size of a page of memory.  One of its 64 lines is the head, which says where the page belongs.  The
 * heads of neighbours lie at different offsets, because lines at equal offsets push each other out of the caches. */
struct weir__node_page {
        union {
                struct weir_node nodes[WEIR__GRAPH_PER_PAGE + 1];
                struct weir__node_page_head {
                        _Alignas(64) struct weir__graph *graph;
                        struct weir__node_page *next_chunk; /* of the first page of a chunk, which was allocated at once */
                        uint32_t first;                     /* the number of its first node */
                } heads[WEIR__GRAPH_PER_PAGE + 1];
        };
};

_Static_assert(sizeof(struct weir__node_page) == WEIR__GRAPH_PAGE, "a node is found in its page by its address");

struct weir__edge {
        uint32_t before, after; /* numbers of nodes; `before` with WEIR__EDGE_CONDITIONAL or without */
};

struct weir__condition {
        weir_edge_fn *fn;
        void *context;
        uint32_t after;
};

struct weir__node_list {
        uint32_t first, last; /* numbers, linked by next_finished; or WEIR__NODE_NONE */
};

struct weir__graph {
        struct weir_task task; /* first */

        /* Its owner's; constant once sealed. */
        uint32_t nodes, edges, conditional; /* how many; conditional edges are edges, too */
        bool may_have_cycle; /* an edge goes from a node to one that was added before it: there may be a cycle */
        struct weir__node_page **pages;
        size_t page_room;
        struct weir__node_page *chunks, *next_page; /* the last chunk, and its page that comes next */
        size_t chunk_pages, chunk_left;             /* how many it has, and of those how many were not used */
        struct weir__edge *edge_list; /* in order of precede */
        size_t edge_room;
        struct weir__condition *conditions;
        size_t condition_room;
        bool has_labels;

        /* Made when it is sealed, in one block.  Edges of a node i: from first_out[i] to first_out[i + 1], and the same with
         * in. */
        uint32_t *arrays;
        const uint32_t *first_out, *first_in;
        const uint32_t *out;           /* the number of the node after it, or WEIR__EDGE_CONDITIONAL and that of the condition */
        const uint32_t *in;            /* the number of the node before it, in order of precede */
        _Atomic uint32_t *waiting;     /* of each node: how many edges have not arrived, with WEIR__NODE_DOOMED or without */
        _Atomic uint32_t *not_taken;   /* of each node: edges that have arrived and were not taken; NULL: none has a condition */

        uint32_t *ready; /* the queue of nodes that may begin; guarded by lock */

        /* Constant once started.  `within` runs nothing: its cause, which is written under the lock, cancels all nodes. */
        weir_nsec began;
        struct weir_series *within; /* the series around the nodes of a graph that stops at a failure; NULL: that of the task */

        /* Keeps the graph: counts nodes without successors that are not finished, and walks on their way. */
        _Atomic size_t pending;

        /* Of the work items: the number of the next node. */
        uint32_t next_to_begin, next_to_end;
        struct weir__work walk, end_walk;

        _Atomic bool has_results;
        _Atomic bool is_walking; /* `walk` is on its way; written under lock */

        struct weir__lock lock; /* rank COMBINATOR: taken also under that of the series around it; under it nothing else */

        /* Guarded by lock. */
        uint32_t failed;   /* number of the node whose status the graph has, if it goes on after a failure */
        uint32_t ready_first, ready_end; /* what the queue holds: no node comes into it twice */
        uint32_t running;  /* nodes that are RUNNING */
        bool is_ending_early; /* those that run were told to end, or none ran: no other walk will begin */
        struct weir__node_list backlog;
};

static inline size_t weir__node_head_index(const struct weir__node_page *page)
{
        return (uintptr_t)page / WEIR__GRAPH_PAGE % (WEIR__GRAPH_PER_PAGE + 1);
}

static inline struct weir__node_page_head *weir__node_head(const struct weir__node_page *page)
{
        return (struct weir__node_page_head *)&page->heads[weir__node_head_index(page)];
}

static inline struct weir__node_page *weir__node_page(const struct weir_node *node)
{
        return (struct weir__node_page *)((uintptr_t)node & ~(uintptr_t)(WEIR__GRAPH_PAGE - 1));
}

static inline struct weir__graph *weir__node_graph(const struct weir_node *node)
{
        return weir__node_head(weir__node_page(node))->graph;
}

/* The first node is right behind the head, the last before it. */
static inline uint32_t weir__node_number(const struct weir_node *node)
{
        const struct weir__node_page *page = weir__node_page(node);
        size_t index = (size_t)(node - page->nodes);

        return weir__node_head(page)->first + (uint32_t)((index - weir__node_head_index(page) - 1) % (WEIR__GRAPH_PER_PAGE + 1));
}

static inline struct weir_node *weir__graph_node(const struct weir__graph *graph, uint32_t number)
{
        struct weir__node_page *page = graph->pages[number / WEIR__GRAPH_PER_PAGE];

        return &page->nodes[(weir__node_head_index(page) + 1 + number % WEIR__GRAPH_PER_PAGE) % (WEIR__GRAPH_PER_PAGE + 1)];
}

static inline enum weir_node_state weir__node_state_of(const struct weir_node *node)
{
        return (enum weir_node_state)atomic_load_explicit(&node->state, memory_order_acquire);
}

extern const struct weir__task_ops weir__graph_ops;

static inline bool weir__is_graph(const struct weir_task *task)
{
        return weir__task_ops(task) == &weir__graph_ops;
}

/* The `seal` of graphs: makes the arrays, and says -ELOOP where there is a cycle, or -ENOMEM. */
int weir__graph_seal(struct weir_task *task);

/* Of the series of nodes: `owner` is the graph, `index` the number of the node. */
extern const struct weir__series_ops weir__node_series_ops;

/* -- graph_parts.c -- */

/* Memory that lies in huge pages where it is large: to be freed by free(). */
void *weir__graph_alloc(size_t alignment, size_t size);

/* Makes room for one more element behind `used` ones.  Returns false when out of memory. */
bool weir__graph_grow(void **array, size_t *room, size_t used, size_t size, size_t least);

/* NULL: out of memory, or there are too many. */
struct weir_node *weir__graph_new_node(struct weir__graph *graph, const char *label);

/* Discards what a node would have run. */
void weir__graph_discard_node(struct weir_node *node);

/* The `release` of graphs. */
void weir__graph_release(struct weir_task *task, bool discarded);

#endif
