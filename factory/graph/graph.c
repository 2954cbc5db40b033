/* factory/graph/graph.c: a task whose nodes run as soon as all nodes before them have ended.
 *
 *     WAITING --its last edge arrives--> RUNNING --its series ends--> ENDED  --> its successors are notified
 *        \-----------------------------> SKIPPED, CANCELLED ---------/
 *
 * An edge arrives when the node before it is finished: ENDED, SKIPPED or CANCELLED.  Each arrival counts down, by an atomic
 * operation, the arrivals that the next node waits for; the last one decides whether that node runs.  The thread that finishes a
 * node notifies its successors, edge by edge.  Nodes that are dropped on the way are put onto a list, and their successors are
 * notified in turn, so nothing is recursive.  After GRAPH_BATCH edges the rest goes to the backlog, which the walk clears.
 *
 * `pending` keeps the graph.  It counts the nodes without successors that are not finished, and the work items of the graph on
 * their way.  From each other node a path leads to a node without successors.  So the graph is there while a node is not finished
 * or an edge of a finished node has not arrived.  A thread that has sent the last arrival of its nodes must not touch the graph
 * any more.
 *
 * Threads: nodes end on any worker.  The walk that begins nodes and clears the backlog runs on any worker.  So does the walk
 *          that ends them early.
 * Locks:   graph->lock (rank COMBINATOR). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "factory/graph/graph.h"
#include "factory/task/live.h"
#include "kernel/base/list.h"
#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"

#define GRAPH_BATCH 256 /* edges, or nodes begun or looked at, before other work runs */

struct batch {
        struct weir__node_list list; /* finished nodes whose successors are to be notified */
        unsigned left;               /* edges until other work runs */
        weir_nsec now;
};

/* -- parts -- */

static void
deliver(struct weir__graph *graph, struct weir__work *work)
{
        struct weir__worker *worker = weir__worker_self();

        weir__deliver(worker && worker->poller ? worker->poller : weir__poller_at(graph->task.poller), work);
}

/* One of those that `pending` counts is over. */
static void
count_down(struct weir__graph *graph)
{
        if (atomic_fetch_sub_explicit(&graph->pending, 1, memory_order_acq_rel) == 1)
                weir__task_make_ready(&graph->task);
}

static const struct weir__node_list nobody = {WEIR__NODE_NONE, WEIR__NODE_NONE};

/* Puts a list that is not empty behind another. */
static void
concat(const struct weir__graph *graph, struct weir__node_list *to, const struct weir__node_list *from)
{
        if (to->first == WEIR__NODE_NONE)
                to->first = from->first;
        else
                weir__graph_node(graph, to->last)->next_finished = from->first;
        to->last = from->last;
}

static void
set_state(struct weir_node *node, enum weir_node_state state)
{
        atomic_store_explicit(&node->state, (uint8_t)state, memory_order_release);
}

static struct weir_series *
parent_of(const struct weir__graph *graph)
{
        return graph->within ? graph->within : graph->task.series;
}

/* Returns whether the caller is to send the walk that ends nodes early.  With the lock held. */
static bool
begin_to_end_early(struct weir__graph *graph, int cause)
{
        bool sends = !graph->is_ending_early && graph->running > 0;

        if (sends) {
                atomic_fetch_add_explicit(&graph->pending, 1,
                                          memory_order_relaxed); /* a node that runs keeps the graph until then */
                weir__series_descent_begin();                    /* before `within` has the cause, and until the walk is over */
        }
        graph->is_ending_early = true; /* a node that is launched later finds the cause */
        if (graph->within)
                weir__series_set_cause(graph->within, cause);
        return sends;
}

/* The graph's status is that of the first one added that failed; of the first in time, which cancels all others, if it stops at a
 * failure.  Returns whether the caller is to send the walk that ends them early.  With the lock held. */
static bool
note_failure(struct weir__graph *graph, uint32_t number, int status)
{
        if (graph->task.status && (graph->within || number > graph->failed))
                return false;
        graph->task.status = status;
        graph->failed = number;
        return graph->within && begin_to_end_early(graph, weir__series_rest_cause(graph->within));
}

/* -- a node begins, or is dropped -- */

static void
mark_dropped(struct weir__graph *graph, uint32_t number, enum weir_node_state state, int status, bool counts)
{
        struct weir_node *node = weir__graph_node(graph, number);

        node->status = status;
        node->next_edge = graph->first_out[number];
        node->next_finished = WEIR__NODE_NONE;
        if (counts) {
                weir__lock(&graph->lock);
                bool sends = note_failure(graph, number, status);
                weir__unlock(&graph->lock);
                if (sends)
                        deliver(graph, &graph->end_walk);
        }
        set_state(node, state);
}

/* Returns false when there is no memory for that: its task is gone then. */
static bool
prepare(struct weir__graph *graph, struct weir_node *node, uint32_t number, weir_nsec now)
{
        struct weir_series *series = node->series ? node->series : weir__series_wrap(node->task);

        if (!series)
                return false;
        series->owner = graph;
        series->index = number;
        series->work.ops = &weir__node_series_ops.work;
        node->series = series;
        node->began = now;
        return true;
}

/* The nodes are marked under the lock.  So the walk that cancels finds them, or they find the cause when they are launched.
 * After the last of them the graph may be gone, unless the caller holds another node. */
static void
launch(struct weir__graph *graph, struct weir_node *nodes[], unsigned count)
{
        struct weir_series *parent = parent_of(graph), *series[GRAPH_BATCH];

        if (count == 0)
                return;
        uint32_t now = weir__live_stamp();
        weir__lock(&graph->lock);
        for (unsigned i = 0; i < count; i++) {
                series[i] = nodes[i]->series;
                series[i]->started = now;
                set_state(nodes[i], WEIR_NODE_RUNNING);
        }
        graph->running += count;
        weir__unlock(&graph->lock);
        for (unsigned i = 0; i < count; i++)
                weir__series_launch(series[i], parent);
}

static bool
no_edge_was_taken(const struct weir__graph *graph, uint32_t number)
{
        if (!graph->not_taken)
                return false;
        uint32_t edges = graph->first_in[number + 1] - graph->first_in[number];
        return edges > 0 && atomic_load_explicit(&graph->not_taken[number], memory_order_relaxed) == edges;
}

/* All edges of a node have arrived.  Returns the node when it is to be launched; else it is dropped and put onto the list. */
static struct weir_node *
decide(struct weir__graph *graph, uint32_t number, weir_nsec now, struct weir__node_list *list)
{
        struct weir_node *node = weir__graph_node(graph, number);
        bool is_doomed = atomic_load_explicit(&graph->waiting[number], memory_order_relaxed) & WEIR__NODE_DOOMED;
        bool is_skipped = !is_doomed && no_edge_was_taken(graph, number);
        int cause = weir__series_effective_cause(parent_of(graph));

        if (!cause && weir__phase_is_stopping())
                cause = -ESHUTDOWN;
        if (!is_doomed && !is_skipped && !cause) {
                if (prepare(graph, node, number, now))
                        return node;
                mark_dropped(graph, number, WEIR_NODE_CANCELLED, -ENOMEM, true);
        } else {
                weir__graph_discard_node(node);
                if (is_skipped)
                        mark_dropped(graph, number, WEIR_NODE_SKIPPED, 0, false);
                else
                        mark_dropped(graph, number, WEIR_NODE_CANCELLED, is_doomed ? -ECANCELED : cause, !is_doomed);
        }
        concat(graph, list, &(struct weir__node_list){number, number});
        return NULL;
}

/* The same for several, and launches them: see there. */
static void
begin_nodes(struct weir__graph *graph, const uint32_t numbers[], unsigned count, struct batch *batch)
{
        struct weir_node *nodes[GRAPH_BATCH];
        unsigned launched = 0;

        for (unsigned i = 0; i < count; i++)
                if ((nodes[launched] = decide(graph, numbers[i], batch->now, &batch->list)))
                        launched++;
        launch(graph, nodes, launched);
}

/* -- successors are notified -- */

/* What the end of a node means for its successors. */
enum effect { TAKEN, NOT_TAKEN, DOOMS };

static enum effect
effect_of(const struct weir_node *node)
{
        enum weir_node_state state = weir__node_state_of(node);

        if (state == WEIR_NODE_CANCELLED || (node->policy == WEIR_NODE_CANCEL && node->status))
                return DOOMS;
        return state == WEIR_NODE_SKIPPED ? NOT_TAKEN : TAKEN;
}

static bool
is_met(const struct weir__condition *condition, const struct weir_node *node)
{
        static const struct weir__callee callee = {"a condition of", "a graph", "a condition"};
        struct weir__user_call call = weir__user_begin_as(&callee, NULL, (weir__function *)condition->fn);
        bool met = condition->fn(node, condition->context);

        weir__user_end_as(call);
        return met;
}

/* Returns whether the edge was the last that the node waited for. */
static bool
arrive(struct weir__graph *graph, uint32_t after, enum effect effect)
{
        _Atomic uint32_t *waiting = &graph->waiting[after];

        if (effect == DOOMS)
                atomic_fetch_or_explicit(waiting, WEIR__NODE_DOOMED, memory_order_relaxed);
        else if (effect == NOT_TAKEN)
                atomic_fetch_add_explicit(&graph->not_taken[after], 1, memory_order_relaxed);
        if ((atomic_load_explicit(waiting, memory_order_acquire) & ~WEIR__NODE_DOOMED) == 1)
                return true; /* nobody else will */
        return (atomic_fetch_sub_explicit(waiting, 1, memory_order_acq_rel) & ~WEIR__NODE_DOOMED) == 1;
}

/* Sends arrivals along the edges of a node until none is left or the batch is over.  Returns whether none is left.  Then the node
 * must not be touched any more; nor the graph, unless there are nodes on the list or in `ready`. */
static bool
notify_some(struct weir__graph *graph, uint32_t number, struct batch *batch, uint32_t ready[], unsigned *ready_count)
{
        struct weir_node *node = weir__graph_node(graph, number);
        uint32_t edge = (uint32_t)node->next_edge, end = graph->first_out[number + 1];
        enum effect effect = effect_of(node);
        uint32_t stop = end - edge > batch->left ? edge + batch->left : end;
        const uint32_t *out = graph->out;

        node->next_edge = stop;
        batch->left -= stop - edge;
        while (edge < stop) {
                uint32_t after = out[edge++];
                enum effect of_edge = effect;

                if (after & WEIR__EDGE_CONDITIONAL) {
                        const struct weir__condition *condition = &graph->conditions[after & ~WEIR__EDGE_CONDITIONAL];

                        after = condition->after;
                        if (weir__node_state_of(node) == WEIR_NODE_ENDED && !is_met(condition, node) && effect == TAKEN)
                                of_edge = NOT_TAKEN;
                }
                if (arrive(graph, after, of_edge))
                        ready[(*ready_count)++] = after;
        }
        return stop == end;
}

/* There is more for the walk that begins nodes: sends it, unless it is on its way.  Unlocks. */
static void
unlock_and_send_walk(struct weir__graph *graph)
{
        bool sends = !atomic_load_explicit(&graph->is_walking, memory_order_relaxed);

        if (sends) {
                atomic_store_explicit(&graph->is_walking, true, memory_order_relaxed);
                atomic_fetch_add_explicit(&graph->pending, 1, memory_order_relaxed);
        }
        weir__unlock(&graph->lock);
        if (sends)
                deliver(graph, &graph->walk);
}

/* Puts nodes into the queue of those that are ready. */
static void
enqueue(struct weir__graph *graph, const uint32_t ready[], unsigned count)
{
        weir__lock(&graph->lock);
        memcpy(graph->ready + graph->ready_end, ready, count * sizeof *ready);
        graph->ready_end += count;
        unlock_and_send_walk(graph);
}

/* In a chain the next node is begun at once.  Where the worker has other things to do they queue, and are begun many at a time:
 * their memory is prefetched together then, and is still in the caches when they end. */
static bool
is_chain(const struct weir__graph *graph)
{
        const struct weir__worker *worker = weir__worker_self();

        return !atomic_load_explicit(&graph->is_walking, memory_order_relaxed) && worker->poller &&
               !weir__ready_is_busy(&worker->poller->ready);
}

static void
hand_on(struct weir__graph *graph, const uint32_t ready[], unsigned count, struct batch *batch)
{
        if (count == 1 && is_chain(graph))
                begin_nodes(graph, ready, count, batch);
        else if (count > 0)
                enqueue(graph, ready, count);
}

/* Notifies the successors of the nodes on the list, and of those that are dropped on the way.  Returns whether all were notified:
 * then the graph may be gone, unless the caller keeps it.  Else the list holds the rest. */
static bool
notify_all(struct weir__graph *graph, struct batch *batch)
{
        uint32_t ready[GRAPH_BATCH];
        while (batch->list.first != WEIR__NODE_NONE) {
                uint32_t number = batch->list.first, next = weir__graph_node(graph, number)->next_finished;
                bool ends = graph->first_out[number] == graph->first_out[number + 1];
                unsigned ready_count = 0;

                if (batch->left == 0)
                        return false;
                if (ends)
                        batch->left--;
                if (ends || notify_some(graph, number, batch, ready, &ready_count))
                        batch->list.first = next;
                if (ends)
                        count_down(graph);
                hand_on(graph, ready, ready_count, batch);
        }
        return true;
}

static void
node_ended(struct weir_series *child)
{
        struct weir__graph *graph = child->owner;
        uint32_t number = child->index;
        struct weir_node *node = weir__graph_node(graph, number);
        struct batch batch = {.list = {number, number}, .left = GRAPH_BATCH, .now = weir__clock_now()};
        bool is_dropped = child->result_of == WEIR__RESULT_FIRST && !child->has_result; /* it was cancelled before it began */

        node->status = weir__series_result(child);
        node->ended = batch.now;
        node->next_finished = WEIR__NODE_NONE;
        weir__lock(&graph->lock); /* so that the walk that ends nodes has its reference, or does not find the series */
        graph->running--;
        node->next_edge = graph->first_out[number];
        set_state(node, is_dropped ? WEIR_NODE_CANCELLED : WEIR_NODE_ENDED);
        bool sends = node->status && note_failure(graph, number, node->status);
        weir__unlock(&graph->lock);
        if (sends)
                deliver(graph, &graph->end_walk);
        if (notify_all(graph, &batch))
                return;
        weir__lock(&graph->lock);
        concat(graph, &graph->backlog, &batch.list);
        unlock_and_send_walk(graph);
}

const struct weir__series_ops weir__node_series_ops = {.work = WEIR__SERIES_WORK, .ended = node_ended};

/* -- start -- */

/* Takes the backlog, and the next nodes: of those that are ready, or else of those that nothing comes before.  Returns how many
 * nodes. */
static unsigned
take_some(struct weir__graph *graph, struct weir__node_list *backlog, uint32_t numbers[GRAPH_BATCH])
{
        uint32_t *next = &graph->next_to_begin;
        unsigned count = 0;

        weir__lock(&graph->lock);
        *backlog = graph->backlog;
        graph->backlog = nobody;
        while (count < GRAPH_BATCH && graph->ready_first < graph->ready_end)
                numbers[count++] = graph->ready[graph->ready_first++];
        weir__unlock(&graph->lock);
        for (unsigned looked = count; looked < GRAPH_BATCH && *next < graph->nodes; looked++, ++*next)
                if (graph->first_in[*next] == graph->first_in[*next + 1])
                        numbers[count++] = *next;
        return count;
}

#define SUCCESSORS_PREFETCHED 4 /* of a node */

/* Prefetches what beginning and ending these nodes will touch, for all of them at once. */
static void
prefetch_nodes(const struct weir__graph *graph, const uint32_t numbers[], unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                __builtin_prefetch(weir__graph_node(graph, numbers[i]), 1);
                __builtin_prefetch(&graph->first_out[numbers[i]]);
                __builtin_prefetch(&graph->waiting[numbers[i]]);
        }
        for (unsigned i = 0; i < count; i++) {
                const struct weir_task *task = weir__graph_node(graph, numbers[i])->task;

                __builtin_prefetch(task, 1);
                __builtin_prefetch((const char *)task + 64, 1);
                __builtin_prefetch(&graph->out[graph->first_out[numbers[i]]]);
        }
        for (unsigned i = 0; i < count; i++) {
                uint32_t edge = graph->first_out[numbers[i]], end = graph->first_out[numbers[i] + 1];

                for (unsigned left = SUCCESSORS_PREFETCHED; edge < end && left > 0; edge++, left--)
                        __builtin_prefetch(&graph->waiting[graph->out[edge] & ~WEIR__EDGE_CONDITIONAL], 1);
        }
}

/* One walk, or a part of it, for both: the edges that were left over, and the nodes that may begin. */
static void
walk(struct weir__work *work)
{
        struct weir__graph *graph = weir__container_of(work, struct weir__graph, walk);
        struct batch batch = {.left = GRAPH_BATCH, .now = weir__clock_now()};
        uint32_t numbers[GRAPH_BATCH];
        unsigned count = take_some(graph, &batch.list, numbers);

        prefetch_nodes(graph, numbers, count);
        begin_nodes(graph, numbers, count, &batch);
        bool all = notify_all(graph, &batch);
        weir__lock(&graph->lock);
        if (!all)
                concat(graph, &graph->backlog, &batch.list);
        bool more = graph->backlog.first != WEIR__NODE_NONE || graph->ready_first < graph->ready_end ||
                    graph->next_to_begin < graph->nodes;
        atomic_store_explicit(&graph->is_walking, more, memory_order_relaxed);
        weir__unlock(&graph->lock);
        if (more)
                deliver(graph, work);
        else
                count_down(graph);
}

static const struct weir__work_ops walk_ops = {.run = walk, .kind = "a graph", .is_migratable = true};

static void
graph_start(struct weir_task *task)
{
        struct weir__graph *graph = (struct weir__graph *)task;

        graph->began = weir__clock_now();
        if (graph->within) {
                weir__lock(&graph->lock);
                weir__series_enter(graph->within, task->series);
                weir__unlock(&graph->lock);
        }
        atomic_store_explicit(&task->word, WEIR__PENDING, memory_order_release); /* for dumps */
        atomic_store_explicit(&graph->is_walking, true, memory_order_relaxed);
        weir__deliver(weir__poller_at(task->poller), &graph->walk);
}

/* -- early end -- */

static struct weir_series *
running_of(struct weir__graph *graph, struct weir_node *node)
{
        weir__lock(&graph->lock);
        struct weir_series *series = weir__node_state_of(node) == WEIR_NODE_RUNNING ? weir_series_ref(node->series) : NULL;
        weir__unlock(&graph->lock);
        return series;
}

static void
end_some_early(struct weir__work *work)
{
        struct weir__graph *graph = weir__container_of(work, struct weir__graph, end_walk);
        uint32_t end = graph->nodes - graph->next_to_end > GRAPH_BATCH ? graph->next_to_end + GRAPH_BATCH : graph->nodes;
        int cause = weir__series_rest_cause(parent_of(graph)); /* one that is not launched yet would not find it */

        for (; graph->next_to_end < end; graph->next_to_end++) {
                struct weir_series *series = running_of(graph, weir__graph_node(graph, graph->next_to_end));

                if (series)
                        weir__series_end_early(series, cause);
                weir_series_unref(series);
        }
        if (end < graph->nodes) {
                deliver(graph, work);
                return;
        }
        weir__series_descent_end();
        count_down(graph);
}

static const struct weir__work_ops end_walk_ops = {.run = end_some_early, .kind = "a graph", .is_migratable = true};

/* A node looks at the cause before it begins, so an early end is decisive at once.  The walk ends the nodes that run. */
static struct weir_task *
graph_end_early(struct weir_task *task)
{
        struct weir__graph *graph = (struct weir__graph *)task;

        int cause = weir__series_effective_cause(task->series);

        weir__lock(&graph->lock);
        bool sends = begin_to_end_early(graph, cause);
        weir__unlock(&graph->lock);
        if (sends)
                weir__deliver(weir__poller_at(task->poller), &graph->end_walk);
        return NULL;
}

/* -- for dumps -- */

static bool
graph_child(struct weir_task *task, struct weir__child_cursor *cursor, struct weir_series **child)
{
        struct weir__graph *graph = (struct weir__graph *)task;
        uint32_t stop;

        *child = NULL;
        weir__lock(&graph->lock);
        stop = cursor->next + GRAPH_BATCH < graph->nodes ? cursor->next + GRAPH_BATCH : graph->nodes;
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

static void
graph_describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__graph *graph = (const struct weir__graph *)task;

        snprintf(out, room, "%" PRIu32 " nodes, %" PRIu32 " edges", graph->nodes, graph->edges);
}

/* -- making -- */

const struct weir__task_ops weir__graph_ops = {
        .work = {.run = weir__task_complete,
                 .kind = "a graph",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .seal = weir__graph_seal,
        .prepare = weir__task_prepare_series,
        .start = graph_start,
        .end_early = graph_end_early,
        .release = weir__graph_release,
        .describe = graph_describe,
        .child = graph_child,
};

weir_task *
weir_graph_new(weir_task_fn *done, void *context)
{
        struct weir__graph *graph = weir__alloc(sizeof *graph);

        if (!graph)
                return NULL;
        *graph = (struct weir__graph){0};
        weir__task_init(&graph->task, &weir__graph_ops, sizeof *graph, done, context);
        weir__lock_init(&graph->lock, WEIR__RANK_COMBINATOR);
        graph->backlog = nobody;
        graph->walk.ops = &walk_ops;
        graph->end_walk.ops = &end_walk_ops;
        return &graph->task;
}
