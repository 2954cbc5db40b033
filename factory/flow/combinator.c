/* factory/flow/combinator.c: tasks that run other series.
 *
 * The states: factory/flow/combinator.h.
 *
 * Threads: children end on any worker.  Batches (of starting, of cancelling) are work of the combinator's poller.
 * Locks:   combinator->lock (rank PARALLEL); no user code runs under it.  `pending` keeps the combinator: for each child, and
 *          each batch. */
#include "factory/flow/combinator.h"

#include <errno.h>
#include <stdio.h>

#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/sched/deliver.h"
#include "kernel/sched/user.h"
#include "kernel/sched/worker.h"

#define BATCH 64 /* children started or cancelled before other work has its turn */

static void child_ended(struct weir_series *child);

static const struct weir__combinator_ops *
ops_of(const struct weir__combinator *combinator)
{
        return (const struct weir__combinator_ops *)weir__task_ops(&combinator->task);
}

static struct weir__poller *
home(const struct weir__combinator *combinator)
{
        return weir__poller_at(combinator->task.poller);
}

/* -- children -- */

static void
append_child(struct weir__combinator *combinator, struct weir_series *child)
{
        child->owner = combinator;
        child->ended = child_ended;
        child->index = combinator->added++;
        child->previous = combinator->last;
        *(combinator->last ? &combinator->last->next : &combinator->first) = child;
        combinator->last = child;
        combinator->pending++;
}

static void
unlink_child(struct weir__combinator *combinator, struct weir_series *child)
{
        if (combinator->cancelling.cursor == child)
                combinator->cancelling.cursor = child->next;
        *(child->previous ? &child->previous->next : &combinator->first) = child->next;
        *(child->next ? &child->next->previous : &combinator->last) = child->previous;
        weir__places_pass(child, child->next);
}

static struct weir_series *
parent_of(const struct weir__combinator *combinator)
{
        return combinator->within ? combinator->within : combinator->task.series;
}

/* Why the combinator makes no more children; 0: it goes on.  A task in no series learns of a shutdown only here. */
static int
cause_to_stop(const struct weir__combinator *combinator)
{
        int cause = weir__series_cause(combinator->task.series);

        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

/* NULL: that was all. */
static struct weir_series *
next_of(struct weir__combinator *combinator)
{
        const struct weir__combinator_ops *ops = ops_of(combinator);

        if (!ops->next || (ops->most && combinator->added >= ops->most))
                return NULL;
        int cause = cause_to_stop(combinator);
        if (!cause)
                return ops->next(combinator);
        combinator->task.status = cause;
        return NULL;
}

/* Nothing is pending: starts the next child, or ends the task.  No lock held. */
static void
go_on(struct weir__combinator *combinator)
{
        struct weir_series *next = next_of(combinator);

        if (!next) {
                weir__task_ready(&combinator->task);
                return;
        }
        weir__lock(&combinator->lock);
        next->started = weir__live_stamp();
        append_child(combinator, next); /* before its launch, so that a cancel that comes between finds it */
        weir__unlock(&combinator->lock);
        weir__series_launch(next, parent_of(combinator));
}

/* One of those that `pending` counts is over.  Unlocks. */
static void
unlock_and_count_down(struct weir__combinator *combinator)
{
        bool ended = --combinator->pending == 0;

        weir__unlock(&combinator->lock);
        if (ended)
                go_on(combinator);
}

/* A walk is over. */
static void
end_walk(struct weir__combinator *combinator)
{
        weir__lock(&combinator->lock);
        combinator->walks--;
        unlock_and_count_down(combinator);
}

/* -- starting, a batch at a time -- */

static struct weir__walk
walk_of(struct weir__combinator *combinator, const struct weir__work_ops *ops)
{
        return (struct weir__walk){.work.ops = ops, .combinator = combinator, .cursor = combinator->first};
}

/* Needs no lock: a child that was not started does not end, so its `next` does not change, nor that of the child before it. */
static void
start_walk(struct weir__work *work)
{
        struct weir__walk *walk = (struct weir__walk *)work;
        struct weir__combinator *combinator = walk->combinator;
        uint32_t now = weir__live_stamp();

        for (unsigned i = 0; i < BATCH; i++) {
                struct weir_series *child = walk->cursor;

                if (!child) {
                        end_walk(combinator);
                        return;
                }
                walk->cursor = child->next;
                child->started = now;
                weir__series_launch(child, parent_of(combinator));
        }
        weir__deliver(home(combinator), work);
}

static const struct weir__work_ops start_walk_ops = {.run = start_walk, .is_migratable = true};

void
weir__combinator_start(struct weir_task *task)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        if (!task->series)
                weir__live_add_task(&combinator->live, task);
        weir__lock(&combinator->lock);
        atomic_store_explicit(&task->word, WEIR__PENDING, memory_order_release); /* for dumps */
        combinator->pending++;
        combinator->walks++;
        combinator->starting = walk_of(combinator, &start_walk_ops);
        weir__unlock(&combinator->lock);
        weir__deliver(home(combinator), &combinator->starting.work);
}

/* -- cancelling, a batch at a time -- */

static void
cancel_walk(struct weir__work *work)
{
        struct weir__walk *walk = (struct weir__walk *)work;
        struct weir__combinator *combinator = walk->combinator;
        int cause = weir__series_cause(combinator->task.series);

        for (unsigned i = 0; i < BATCH; i++) {
                weir__lock(&combinator->lock);
                struct weir_series *child = weir_series_ref(walk->cursor);
                if (child)
                        walk->cursor = child->next;
                weir__unlock(&combinator->lock);
                if (!child) {
                        end_walk(combinator);
                        return;
                }
                weir__series_stop(child, cause ? cause : -ECANCELED);
                weir_series_unref(child);
        }
        weir__deliver(home(combinator), work);
}

static const struct weir__work_ops cancel_walk_ops = {.run = cancel_walk, .is_migratable = true};

/* Returns whether the caller is to deliver the walk.  Under the lock; a child that has just ended still counts as pending. */
static bool
begin_to_cancel(struct weir__combinator *combinator)
{
        if (!combinator->first || combinator->is_cancelled)
                return false;
        combinator->is_cancelled = true;
        combinator->pending++;
        combinator->walks++;
        combinator->cancelling = walk_of(combinator, &cancel_walk_ops);
        return true;
}

/* A child looks at its ancestors before each callback, so the cancel is decisive at once.  The walk ends what the children have
 * pending. */
struct weir_task *
weir__combinator_cancel(struct weir_task *task)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        weir__lock(&combinator->lock);
        bool walk = begin_to_cancel(combinator);
        weir__unlock(&combinator->lock);
        if (walk)
                weir__deliver(home(combinator), &combinator->cancelling.work);
        return NULL;
}

static void
child_ended(struct weir_series *child)
{
        struct weir__combinator *combinator = child->owner;
        int result = weir__series_result(child);

        weir__lock(&combinator->lock);
        unlink_child(combinator, child);
        bool walk = ops_of(combinator)->ended(combinator, child, result) && begin_to_cancel(combinator);
        unlock_and_count_down(combinator);
        if (walk) /* it is pending, so the combinator is there */
                weir__deliver(home(combinator), &combinator->cancelling.work);
}

/* -- making and ending -- */

struct weir_series *
weir__combinator_make(struct weir__combinator *combinator, weir_make_fn *make, int *fault)
{
        unsigned before = weir__user_begin((weir__function *)make);
        struct weir_task *task = make(combinator->task.context);
        weir__user_end(before);

        *fault = 0;
        if (!task)
                return NULL;
        weir__task_consume(task, "a function that makes tasks");
        *fault = task->flags & WEIR__TASK_WRONG ? task->status : 0;
        if (*fault) {
                weir__task_discard(task);
                return NULL;
        }
        struct weir_series *series = weir__series_wrap(task);
        *fault = series ? 0 : -ENOMEM;
        return series;
}

void
weir__combinator_release(struct weir_task *task, bool discarded)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        while (discarded && combinator->first) {
                struct weir_series *child = combinator->first;

                combinator->first = child->next;
                child->owner = NULL;
                weir__series_discard(child);
        }
        if (ops_of(combinator)->release)
                ops_of(combinator)->release(combinator, discarded);
        if (!discarded)
                weir__live_remove_task(&combinator->live, task);
}

/* -- for dumps -- */

bool
weir__combinator_child(struct weir_task *task, struct weir__place *place, struct weir_series **child)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        weir__lock(&combinator->lock);
        if (!place->is_begun)
                weir__place_begin(place, combinator, combinator->first);
        *child = weir_series_ref(weir__place_at(place)); /* the last child has none behind it when the next one is made */
        if (*child)
                weir__place_go_to(place, (*child)->next);
        weir__unlock(&combinator->lock);
        return *child;
}

void
weir__combinator_describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        weir__lock(&combinator->lock);
        size_t left = combinator->pending - combinator->walks;
        unsigned added = combinator->added;
        weir__unlock(&combinator->lock);
        if (ops_of(combinator)->next)
                snprintf(out, room, "%s %u", left ? "runs number" : "comes to an end after number", added);
        else
                snprintf(out, room, "%zu of %u left", left, added);
}

void
weir__combinator_init(struct weir__combinator *combinator, const struct weir__combinator_ops *ops, size_t size,
                      weir_task_fn *done, void *context)
{
        *combinator = (struct weir__combinator){0};
        weir__task_init(&combinator->task, &ops->task, size, done, context);
        weir__lock_init(&combinator->lock, WEIR__RANK_PARALLEL);
}

struct weir_series *
weir__combinator_wrap(struct weir__combinator *combinator, struct weir_task *task)
{
        int fault = !task ? -ENOMEM : task->flags & WEIR__TASK_WRONG ? task->status : 0;

        if (fault && task)
                weir__task_discard(task);
        struct weir_series *series = fault ? NULL : weir__series_wrap(task);
        if (!series)
                weir__task_poison(&combinator->task, fault ? fault : -ENOMEM);
        return series;
}

void
weir__combinator_add_task(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_task *task, const char *verb)
{
        if (task)
                weir__task_consume(task, verb);
        if (!to) {
                if (task)
                        weir__task_discard(task);
                return;
        }
        struct weir__combinator *combinator = (struct weir__combinator *)to;
        weir__task_expect_open(to, &ops->task, verb);
        struct weir_series *child = weir__combinator_wrap(combinator, task);
        if (child)
                append_child(combinator, child);
}

void
weir__combinator_add_series(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_series *series,
                            const char *verb)
{
        if (!to) {
                weir_series_dismiss(series);
                return;
        }
        struct weir__combinator *combinator = (struct weir__combinator *)to;

        weir__task_expect_open(to, &ops->task, verb);
        int fault = series ? weir__series_fault(series) : -ENOMEM;
        if (!fault) {
                append_child(combinator, series);
                return;
        }
        weir_series_dismiss(series);
        weir__task_poison(&combinator->task, fault);
}
