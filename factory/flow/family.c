/* factory/flow/family.c: tasks that run other series.
 *
 * What a family is, and its states: factory/flow/family.h.
 *
 * Threads: children end on any worker.  Batches (of starting, of cancelling) are work of the family's poller.
 * Locks:   family->lock (rank PARALLEL); no user code runs under it.  `pending` keeps the family: for each child, and each batch. */
#include "factory/flow/family.h"

#include <errno.h>
#include <stdio.h>

#include "kernel/memory/memory.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/sched/worker.h"

#define BATCH 64 /* children started or cancelled before other work has its turn */

static void child_ended(struct weir_series *child);

static const struct weir__family_ops *
ops_of(const struct weir__family *family)
{
        return (const struct weir__family_ops *)weir__task_ops(&family->task);
}

static struct weir__poller *
home(const struct weir__family *family)
{
        return weir__poller_at(family->task.poller);
}

/* -- children -- */

static void
append_child(struct weir__family *family, struct weir_series *child)
{
        child->owner = family;
        child->ended = child_ended;
        child->index = family->added++;
        child->previous = family->last;
        *(family->last ? &family->last->next : &family->first) = child;
        family->last = child;
        family->pending++;
}

static void
unlink_child(struct weir__family *family, struct weir_series *child)
{
        if (family->cancelling.cursor == child)
                family->cancelling.cursor = child->next;
        *(child->previous ? &child->previous->next : &family->first) = child->next;
        *(child->next ? &child->next->previous : &family->last) = child->previous;
        weir__places_pass(child, child->next);
}

static struct weir_series *
parent_of(const struct weir__family *family)
{
        return family->within ? family->within : family->task.series;
}

/* Why it makes no more children: also at a shutdown, which a task that is in no series learns of by nothing else. */
static int
cause_to_stop(const struct weir__family *family)
{
        int cause = weir__series_cause(family->task.series);

        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

/* NULL: that was all. */
static struct weir_series *
next_of(struct weir__family *family)
{
        const struct weir__family_ops *ops = ops_of(family);

        if (!ops->next || (ops->most && family->added >= ops->most))
                return NULL;
        int cause = cause_to_stop(family);
        if (!cause)
                return ops->next(family);
        family->task.status = cause;
        return NULL;
}

/* Nothing is pending: the next child, or the end.  No lock held. */
static void
go_on(struct weir__family *family)
{
        struct weir_series *next = next_of(family);

        if (!next) {
                weir__task_ready(&family->task);
                return;
        }
        weir__lock(&family->lock);
        next->started = weir__live_stamp();
        append_child(family, next); /* before its launch, so that a cancel that comes between finds it */
        weir__unlock(&family->lock);
        weir__series_launch(next, parent_of(family));
}

/* Lets go of the lock: one that was pending is no more. */
static void
unlock_settled(struct weir__family *family)
{
        bool ended = --family->pending == 0;

        weir__unlock(&family->lock);
        if (ended)
                go_on(family);
}

/* By a walk that is over. */
static void
settle(struct weir__family *family)
{
        weir__lock(&family->lock);
        family->walks--;
        unlock_settled(family);
}

/* -- starting, a batch at a time -- */

/* Without the lock: a child that was not started does not end, so nobody changes the `next` of one that comes before it in the
 * walk, nor its own. */
static void
start_walk(struct weir__work *work)
{
        struct weir__walk *walk = (struct weir__walk *)work;
        struct weir__family *family = walk->family;
        uint32_t now = weir__live_stamp();

        for (unsigned i = 0; i < BATCH; i++) {
                struct weir_series *child = walk->cursor;

                if (!child) {
                        settle(family);
                        return;
                }
                walk->cursor = child->next;
                child->started = now;
                weir__series_launch(child, parent_of(family));
        }
        weir__poller_deliver(home(family), work);
}

static const struct weir__work_ops start_walk_ops = {.run = start_walk, .roams = true};

void
weir__family_start(struct weir_task *task)
{
        struct weir__family *family = (struct weir__family *)task;

        if (!task->series)
                weir__live_add_task(&family->live, task);
        weir__lock(&family->lock);
        atomic_store_explicit(&task->word, WEIR__PENDING, memory_order_release); /* for who looks on */
        family->pending++;
        family->walks++;
        family->starting = (struct weir__walk){.work.ops = &start_walk_ops, .family = family, .cursor = family->first};
        weir__unlock(&family->lock);
        weir__poller_deliver(home(family), &family->starting.work);
}

/* -- cancelling, a batch at a time -- */

static void
cancel_walk(struct weir__work *work)
{
        struct weir__walk *walk = (struct weir__walk *)work;
        struct weir__family *family = walk->family;
        int cause = weir__series_cause(family->task.series);

        for (unsigned i = 0; i < BATCH; i++) {
                weir__lock(&family->lock);
                struct weir_series *child = weir_series_ref(walk->cursor);
                if (child)
                        walk->cursor = child->next;
                weir__unlock(&family->lock);
                if (!child) {
                        settle(family);
                        return;
                }
                weir__series_stop(child, cause ? cause : -ECANCELED);
                weir_series_unref(child);
        }
        weir__poller_deliver(home(family), work);
}

static const struct weir__work_ops cancel_walk_ops = {.run = cancel_walk, .roams = true};

/* With the lock held: whether the walk is to be delivered.  One child that has ended just now counts as pending still. */
static bool
begin_to_cancel(struct weir__family *family)
{
        if (!family->first || family->cancelled)
                return false;
        family->cancelled = true;
        family->pending++;
        family->walks++;
        family->cancelling = (struct weir__walk){.work.ops = &cancel_walk_ops, .family = family, .cursor = family->first};
        return true;
}

/* The children learn of it by looking at their ancestors before each callback, so the cancel is decisive at once; the walk only
 * ends what they have pending, soon. */
struct weir_task *
weir__family_cancel(struct weir_task *task)
{
        struct weir__family *family = (struct weir__family *)task;

        weir__lock(&family->lock);
        bool walk = begin_to_cancel(family);
        weir__unlock(&family->lock);
        if (walk)
                weir__poller_deliver(home(family), &family->cancelling.work);
        return NULL;
}

static void
child_ended(struct weir_series *child)
{
        struct weir__family *family = child->owner;
        int result = weir__series_result(child);

        weir__lock(&family->lock);
        unlink_child(family, child);
        bool walk = ops_of(family)->ended(family, child, result) && begin_to_cancel(family);
        unlock_settled(family);
        if (walk) /* it is pending, so the family is there */
                weir__poller_deliver(home(family), &family->cancelling.work);
}

/* -- making and ending -- */

struct weir_series *
weir__family_make(struct weir__family *family, weir_make_fn *make, int *fault)
{
        unsigned before = weir__user_begin((weir__function *)make);
        struct weir_task *task = make(family->task.context);
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
weir__family_release(struct weir_task *task, bool discarded)
{
        struct weir__family *family = (struct weir__family *)task;

        while (discarded && family->first) {
                struct weir_series *child = family->first;

                family->first = child->next;
                child->owner = NULL;
                weir__series_discard(child);
        }
        if (ops_of(family)->release)
                ops_of(family)->release(family, discarded);
        if (!discarded)
                weir__live_remove_task(&family->live, task);
}

/* -- for who looks on -- */

bool
weir__family_child(struct weir_task *task, struct weir__place *place, struct weir_series **child)
{
        struct weir__family *family = (struct weir__family *)task;

        weir__lock(&family->lock);
        if (!place->is_begun)
                weir__place_begin(place, family, family->first);
        *child = weir_series_ref(weir__place_at(place)); /* the last child has none behind it when the next one is made */
        if (*child)
                weir__place_go_to(place, (*child)->next);
        weir__unlock(&family->lock);
        return *child;
}

void
weir__family_describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir__family *family = (struct weir__family *)task;

        weir__lock(&family->lock);
        size_t left = family->pending - family->walks;
        unsigned added = family->added;
        weir__unlock(&family->lock);
        if (ops_of(family)->next)
                snprintf(out, room, "%s %u", left ? "runs number" : "comes to an end after number", added);
        else
                snprintf(out, room, "%zu of %u left", left, added);
}

void
weir__family_init(struct weir__family *family, const struct weir__family_ops *ops, size_t size, weir_task_fn *done, void *context)
{
        *family = (struct weir__family){0};
        weir__task_init(&family->task, &ops->task, size, done, context);
        weir__lock_init(&family->lock, WEIR__RANK_PARALLEL);
}

struct weir__family *
weir__family_open(struct weir_task *task, const struct weir__family_ops *ops, const char *verb)
{
        const char *kind = ops->task.work.kind + 2; /* without the article */

        if (weir__task_ops(task) != &ops->task)
                weir__panic("%s: the task is no %s", verb, kind);
        if (task->flags & WEIR__TASK_CONSUMED)
                weir__panic("%s: the %s was started, pushed, added or dismissed before", verb, kind);
        return (struct weir__family *)task;
}

void
weir__family_poison(struct weir__family *family, int fault)
{
        if (!(family->task.flags & WEIR__TASK_WRONG))
                family->task.status = fault;
        family->task.flags |= WEIR__TASK_WRONG;
}

void
weir__family_add_task(struct weir_task *to, const struct weir__family_ops *ops, struct weir_task *task, const char *verb)
{
        if (task)
                weir__task_consume(task, verb);
        if (!to) {
                if (task)
                        weir__task_discard(task);
                return;
        }
        struct weir__family *family = weir__family_open(to, ops, verb);
        int fault = !task ? -ENOMEM : task->flags & WEIR__TASK_WRONG ? task->status : 0;
        if (fault && task)
                weir__task_discard(task);
        struct weir_series *child = fault ? NULL : weir__series_wrap(task);
        if (child)
                append_child(family, child);
        else
                weir__family_poison(family, fault ? fault : -ENOMEM);
}

void
weir__family_add_series(struct weir_task *to, const struct weir__family_ops *ops, struct weir_series *series, const char *verb)
{
        if (!to) {
                weir_series_dismiss(series);
                return;
        }
        struct weir__family *family = weir__family_open(to, ops, verb);
        int fault = series ? weir__series_fault(series) : -ENOMEM;
        if (!fault) {
                append_child(family, series);
                return;
        }
        weir_series_dismiss(series);
        weir__family_poison(family, fault);
}
