/* factory/parallel.c: a task that runs several series at once.
 *
 *     NEW, children added --start--> starting children, a batch at a time --> waiting --> READY, when `pending` is 0
 *
 * Threads: children end on any worker.  Batches (of starting, of cancelling) are work of the parallel's poller.
 * Locks:   parallel->lock (rank PARALLEL), taken also under the lock of the series that the parallel is in; under it nothing
 *          else.
 *
 * `pending` counts the children that have not ended, and one for each batch work on its way, so the parallel outlives them.  A
 * cursor that points to a child is moved on by the child when it ends. */
#include <errno.h>

#include <weir/parallel.h>

#include "factory/series.h"
#include "kernel/memory.h"
#include "kernel/panic.h"
#include "kernel/runtime.h"

#define BATCH 64 /* children started or cancelled before other work has its turn */

struct parallel;

struct walk {
        struct weir__work work; /* first */
        struct parallel *parallel;
        struct weir_series *cursor; /* the next child; of the one that cancels, guarded by the parallel's lock */
};

struct parallel {
        struct weir_task task; /* first */

        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir_series *first, *last; /* children that have not ended */
        size_t pending;
        unsigned added;
        unsigned failed_index; /* of the child whose status the parallel has */
        bool cancelled;
        struct walk starting, cancelling;
};

static const struct weir__work_ops start_walk_ops, cancel_walk_ops;

static struct weir__poller *
home(const struct parallel *parallel)
{
        return weir__runtime_poller(parallel->task.poller);
}

/* Lets go of the lock: one that was pending is no more; the last one makes the task ready. */
static void
unlock_settled(struct parallel *parallel)
{
        bool ended = --parallel->pending == 0;

        weir__unlock(&parallel->lock);
        if (ended)
                weir__task_ready(&parallel->task);
}

static void
settle(struct parallel *parallel)
{
        weir__lock(&parallel->lock);
        unlock_settled(parallel);
}

/* -- children -- */

static void
unlink_child(struct parallel *parallel, struct weir_series *child)
{
        if (parallel->cancelling.cursor == child)
                parallel->cancelling.cursor = child->next;
        *(child->previous ? &child->previous->next : &parallel->first) = child->next;
        *(child->next ? &child->next->previous : &parallel->last) = child->previous;
}

static void
child_ended(struct weir_series *child)
{
        struct parallel *parallel = child->owner;
        int status = weir__series_result(child);

        weir__lock(&parallel->lock);
        unlink_child(parallel, child);
        if (status && (!parallel->task.status || child->index < parallel->failed_index)) {
                parallel->task.status = status;
                parallel->failed_index = child->index;
        }
        unlock_settled(parallel);
}

static void
append_child(struct parallel *parallel, struct weir_series *child)
{
        child->owner = parallel;
        child->ended = child_ended;
        child->index = parallel->added++;
        child->previous = parallel->last;
        *(parallel->last ? &parallel->last->next : &parallel->first) = child;
        parallel->last = child;
        parallel->pending++;
}

/* -- starting, a batch at a time -- */

/* Without the lock: a child that was not started does not end, so nobody changes the `next` of one that comes before it in the
 * walk, nor its own. */
static void
start_walk(struct weir__work *work)
{
        struct walk *walk = (struct walk *)work;
        struct parallel *parallel = walk->parallel;

        for (unsigned i = 0; i < BATCH; i++) {
                struct weir_series *child = walk->cursor;

                if (!child) {
                        settle(parallel);
                        return;
                }
                walk->cursor = child->next;
                weir__series_launch(child, parallel->task.series);
        }
        weir__poller_deliver(home(parallel), work);
}

static const struct weir__work_ops start_walk_ops = {.run = start_walk, .roams = true};

static void
parallel_start(struct weir_task *task)
{
        struct parallel *parallel = (struct parallel *)task;

        weir__lock(&parallel->lock);
        parallel->pending++;
        parallel->starting = (struct walk){.work.ops = &start_walk_ops, .parallel = parallel, .cursor = parallel->first};
        weir__unlock(&parallel->lock);
        weir__poller_deliver(home(parallel), &parallel->starting.work);
}

/* -- cancelling, a batch at a time -- */

static void
cancel_walk(struct weir__work *work)
{
        struct walk *walk = (struct walk *)work;
        struct parallel *parallel = walk->parallel;

        for (unsigned i = 0; i < BATCH; i++) {
                weir__lock(&parallel->lock);
                struct weir_series *child = weir_series_ref(walk->cursor);
                if (child)
                        walk->cursor = child->next;
                weir__unlock(&parallel->lock);
                if (!child) {
                        settle(parallel);
                        return;
                }
                weir_series_cancel(child);
                weir_series_unref(child);
        }
        weir__poller_deliver(home(parallel), work);
}

static const struct weir__work_ops cancel_walk_ops = {.run = cancel_walk, .roams = true};

/* The children learn of it by looking at their ancestors before each callback, so the cancel is decisive at once; the walk only
 * ends what they have pending, soon. */
static struct weir_task *
parallel_cancel(struct weir_task *task)
{
        struct parallel *parallel = (struct parallel *)task;

        weir__lock(&parallel->lock);
        bool walk = parallel->pending > 0 && !parallel->cancelled;
        if (walk) {
                parallel->cancelled = true;
                parallel->pending++;
                parallel->cancelling = (struct walk){
                        .work.ops = &cancel_walk_ops, .parallel = parallel, .cursor = parallel->first};
        }
        weir__unlock(&parallel->lock);
        if (walk)
                weir__poller_deliver(home(parallel), &parallel->cancelling.work);
        return NULL;
}

/* -- making and ending -- */

static void
parallel_release(struct weir_task *task, bool discarded)
{
        struct parallel *parallel = (struct parallel *)task;

        while (discarded && parallel->first) {
                struct weir_series *child = parallel->first;

                parallel->first = child->next;
                child->owner = NULL;
                weir__series_discard(child);
        }
}

static const struct weir__task_ops parallel_ops = {
        .work = {.run = weir__task_run, .kind = "a parallel", .roams = true, .calls = weir__task_calls},
        .start = parallel_start,
        .cancel = parallel_cancel,
        .release = parallel_release,
};

weir_task *
weir_parallel_new(weir_task_fn *done, void *context)
{
        struct parallel *parallel = weir__alloc(sizeof *parallel);

        if (!parallel)
                return NULL;
        *parallel = (struct parallel){0};
        weir__task_init(&parallel->task, &parallel_ops, sizeof *parallel, done, context);
        weir__lock_init(&parallel->lock, WEIR__RANK_PARALLEL);
        return &parallel->task;
}

static struct parallel *
open_parallel(struct weir_task *task, const char *verb)
{
        if (weir__task_ops(task) != &parallel_ops)
                weir__panic("%s: the task is no parallel", verb);
        if (task->flags & WEIR__TASK_CONSUMED)
                weir__panic("%s: the parallel was started, pushed, added or dismissed before", verb);
        return (struct parallel *)task;
}

static void
poison(struct parallel *parallel, int fault)
{
        if (!(parallel->task.flags & WEIR__TASK_WRONG))
                parallel->task.status = fault;
        parallel->task.flags |= WEIR__TASK_WRONG;
}

void
weir_parallel_add(weir_task *parallel, weir_task *task)
{
        if (task)
                weir__task_consume(task, "weir_parallel_add");
        if (!parallel) {
                if (task)
                        weir__task_discard(task);
                return;
        }
        struct parallel *to = open_parallel(parallel, "weir_parallel_add");
        int fault = !task ? -ENOMEM : task->flags & WEIR__TASK_WRONG ? task->status : 0;
        if (fault && task)
                weir__task_discard(task);
        struct weir_series *child = fault ? NULL : weir__series_wrap(task);
        if (child)
                append_child(to, child);
        else
                poison(to, fault ? fault : -ENOMEM);
}

void
weir_parallel_add_series(weir_task *parallel, weir_series *series)
{
        if (!parallel) {
                weir_series_dismiss(series);
                return;
        }
        struct parallel *to = open_parallel(parallel, "weir_parallel_add_series");
        int fault = series ? weir__series_fault(series) : -ENOMEM;
        if (!fault) {
                append_child(to, series);
                return;
        }
        weir_series_dismiss(series);
        poison(to, fault);
}
