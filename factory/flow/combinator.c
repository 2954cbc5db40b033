/* factory/flow/combinator.c: tasks that run other series.
 *
 * The states: factory/flow/combinator.h.
 *
 * Threads: children end on any worker.  Batches (of starting, of ending early) are work of the combinator's poller.
 * Locks:   combinator->lock (rank COMBINATOR); no user code runs under it. */
#include "factory/flow/combinator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/task/live.h"
#include "kernel/base/list.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"
#include "kernel/worker/worker.h"

#define CHILD_BATCH 64 /* children started or cancelled before other work runs */

static const struct weir__series_ops child_ops;

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

/* For one more child.  Returns false when out of memory. */
static bool
make_room(struct weir__combinator *combinator)
{
        bool has_few = combinator->children == combinator->few;
        unsigned room = 4 * combinator->room;

        if (combinator->count < combinator->room)
                return true;
        struct weir_series **children = realloc(has_few ? NULL : combinator->children, room * sizeof *children);
        if (!children)
                return false;
        if (has_few)
                memcpy(children, combinator->few, sizeof combinator->few);
        combinator->children = children;
        combinator->room = room;
        return true;
}

static void
set_child(struct weir__combinator *combinator, unsigned index, struct weir_series *child)
{
        child->work.ops = &child_ops.work;
        child->owner = combinator;
        child->index = index;
        combinator->children[index] = child;
        combinator->left++;
        combinator->added++;
}

static struct weir_series *
parent_of(const struct weir__combinator *combinator)
{
        return combinator->within ? combinator->within : combinator->task.series;
}

/* Why the combinator makes no more children; 0: it goes on.  A task in no series learns of a shutdown only here. */
static int
cause_to_end(const struct weir__combinator *combinator)
{
        int cause = weir__series_effective_cause(combinator->task.series);

        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

/* NULL: that was all. */
static struct weir_series *
next_of(struct weir__combinator *combinator)
{
        const struct weir__combinator_ops *ops = ops_of(combinator);

        if (!ops->next || (ops->most && combinator->added >= ops->most))
                return NULL;
        int cause = cause_to_end(combinator);
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
                weir__task_make_ready(&combinator->task);
                return;
        }
        next->started = weir__live_stamp();
        weir__lock(&combinator->lock);
        combinator->count = 1;
        set_child(combinator, 0, next); /* before its launch, so that a cancel that comes between finds it */
        weir__unlock(&combinator->lock);
        weir__series_launch(next, parent_of(combinator));
}

/* A child, or a walk, is over.  Unlocks. */
static void
unlock_and_go_on(struct weir__combinator *combinator)
{
        bool is_pending = combinator->left + combinator->walks > 0;

        weir__unlock(&combinator->lock);
        if (!is_pending)
                go_on(combinator);
}

static void
end_walk(struct weir__combinator *combinator)
{
        weir__lock(&combinator->lock);
        combinator->walks--;
        unlock_and_go_on(combinator);
}

/* -- starting, a batch at a time -- */

/* Needs no lock: a child that was not started does not end. */
static void
start_walk(struct weir__work *work)
{
        struct weir__combinator *combinator = weir__container_of(work, struct weir__combinator, starting.work);
        struct weir_series *parent = parent_of(combinator);
        uint32_t now = weir__live_stamp();

        for (unsigned i = 0; i < CHILD_BATCH && combinator->starting.next < combinator->count; i++) {
                struct weir_series *child = combinator->children[combinator->starting.next++];

                child->started = now;
                weir__series_launch(child, parent);
        }
        if (combinator->starting.next < combinator->count)
                weir__deliver(home(combinator), work);
        else
                end_walk(combinator);
}

static const struct weir__work_ops start_walk_ops = {.run = start_walk, .is_migratable = true};

void
weir__combinator_start(struct weir_task *task)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        weir__lock(&combinator->lock);
        if (combinator->within)
                weir__series_enter(combinator->within, task->series);
        atomic_store_explicit(&task->word, WEIR__PENDING, memory_order_release); /* for dumps */
        combinator->walks++;
        combinator->starting.work.ops = &start_walk_ops;
        weir__unlock(&combinator->lock);
        weir__deliver(home(combinator), &combinator->starting.work);
}

/* -- ending early, a batch at a time -- */

/* Takes references to the next children that have not ended.  Returns how many. */
static unsigned
take_children(struct weir__combinator *combinator, struct weir_series *taken[CHILD_BATCH])
{
        unsigned *next = &combinator->ending.next, count = 0;

        weir__lock(&combinator->lock);
        for (unsigned i = 0; i < CHILD_BATCH && *next < combinator->count; i++, ++*next)
                if (combinator->children[*next])
                        taken[count++] = weir__series_ref(combinator->children[*next]);
        weir__unlock(&combinator->lock);
        return count;
}

static void
end_early_walk(struct weir__work *work)
{
        struct weir__combinator *combinator = weir__container_of(work, struct weir__combinator, ending.work);
        int cause = weir__series_rest_cause(parent_of(combinator));
        struct weir_series *taken[CHILD_BATCH];
        unsigned count = take_children(combinator, taken);

        for (unsigned i = 0; i < count; i++) {
                weir__series_end_early(taken[i], cause);
                weir_series_unref(taken[i]);
        }
        if (combinator->ending.next < combinator->count) {
                weir__deliver(home(combinator), work);
                return;
        }
        weir__series_descent_end();
        end_walk(combinator);
}

static const struct weir__work_ops end_early_walk_ops = {.run = end_early_walk, .is_migratable = true};

/* Returns whether the caller is to deliver the walk.  Under the lock. */
static bool
begin_to_end_early(struct weir__combinator *combinator, int cause)
{
        bool sends = combinator->left > 0 && !combinator->is_ending_early;

        if (sends) {
                weir__series_descent_begin(); /* before `within` has the cause, and until the walk is over */
                combinator->is_ending_early = true;
                combinator->walks++;
                combinator->ending.work.ops = &end_early_walk_ops;
        }
        if (combinator->within)
                weir__series_set_cause(combinator->within, cause);
        return sends;
}

/* Until the walk is over all within look at what is around them before each callback, so an early end is decisive at once.  The
 * walk gives the children the cause, and ends what they have pending. */
struct weir_task *
weir__combinator_end_early(struct weir_task *task)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;
        int cause = weir__series_effective_cause(task->series);

        weir__lock(&combinator->lock);
        bool walk = begin_to_end_early(combinator, cause);
        weir__unlock(&combinator->lock);
        if (walk)
                weir__deliver(home(combinator), &combinator->ending.work);
        return NULL;
}

static void
child_ended(struct weir_series *child)
{
        struct weir__combinator *combinator = child->owner;
        const struct weir__combinator_ops *ops = ops_of(combinator);
        int result = weir__series_result(child);

        weir__lock(&combinator->lock);
        combinator->children[child->index] = NULL;
        combinator->left--;
        bool cancels_rest = ops->ended && ops->ended(combinator, child, result);
        if (!ops->ended)
                combinator->task.status = result;
        bool walk = cancels_rest && begin_to_end_early(combinator, weir__series_rest_cause(combinator->within));
        unlock_and_go_on(combinator);
        if (walk) /* it keeps the combinator */
                weir__deliver(home(combinator), &combinator->ending.work);
}

static const struct weir__series_ops child_ops = {.work = WEIR__SERIES_WORK, .ended = child_ended};

/* -- making and ending -- */

/* Why a task that was consumed cannot be started: there is none, or it was made wrongly.  0: it can. */
static int
fault_of(const struct weir_task *task)
{
        return !task ? -ENOMEM : task->flags & WEIR__TASK_POISONED ? task->status : 0;
}

/* Around a task that was consumed.  NULL: it is at fault and gone, or out of memory; *fault is why. */
static struct weir_series *
wrap(struct weir_task *task, int *fault)
{
        *fault = fault_of(task);
        if (*fault && task)
                weir__task_discard(task);
        struct weir_series *series = *fault ? NULL : weir__series_wrap(task);
        if (!series && !*fault)
                *fault = -ENOMEM;
        return series;
}

struct weir_series *
weir__combinator_make_child(struct weir__combinator *combinator, weir_make_fn *make, int *fault)
{
        static const struct weir__callee callee = {"the make function of", NULL, "a make function"};
        struct weir__user_call call = weir__user_begin_as(&callee, &combinator->task.work, (weir__function *)make);
        void *fiber = weir__user_hide_fiber();
        struct weir_task *task = make(combinator->task.context);
        weir__user_show_fiber(fiber);
        weir__user_end_as(call);

        *fault = 0;
        if (!task)
                return NULL;
        weir__task_consume(task, WEIR__ACT_MAKE);
        return wrap(task, fault);
}

void
weir__combinator_note_failure(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        if (result && (!combinator->task.status || child->index < combinator->failed)) {
                combinator->task.status = result;
                combinator->failed = child->index;
        }
}

void
weir__combinator_release(struct weir_task *task, bool discarded)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        for (unsigned i = 0; discarded && i < combinator->count; i++)
                weir__series_discard(combinator->children[i]);
        if (combinator->children != combinator->few)
                free(combinator->children);
        weir__combinator_drop_held(combinator);
        if (ops_of(combinator)->release)
                ops_of(combinator)->release(combinator);
}

/* -- for dumps -- */

bool
weir__combinator_child(struct weir_task *task, struct weir__child_cursor *cursor, struct weir_series **child)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        *child = NULL;
        weir__lock(&combinator->lock);
        for (unsigned i = 0; i < CHILD_BATCH && !*child && cursor->next < combinator->count; i++)
                *child = weir__series_ref(combinator->children[cursor->next++]);
        bool more = cursor->next < combinator->count;
        weir__unlock(&combinator->lock);
        return more;
}

void
weir__combinator_describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir__combinator *combinator = (struct weir__combinator *)task;

        weir__lock(&combinator->lock);
        unsigned left = combinator->left, added = combinator->added;
        weir__unlock(&combinator->lock);
        if (ops_of(combinator)->next)
                snprintf(out, room, "%s %u", left ? "runs number" : "comes to an end after number", added);
        else
                snprintf(out, room, "%u of %u left", left, added);
}

void *
weir__combinator_new(const struct weir__combinator_ops *ops, size_t size, weir_task_fn *done, void *context)
{
        struct weir__combinator *combinator = weir__alloc(size);

        if (!combinator)
                return NULL;
        *combinator = (struct weir__combinator){0};
        weir__task_init(&combinator->task, &ops->task, size, done, context);
        weir__lock_init(&combinator->lock, WEIR__RANK_COMBINATOR);
        combinator->children = combinator->few;
        combinator->room = WEIR__CHILDREN_FEW;
        return combinator;
}

/* Consumes the child, which is sound; NULL: there is none. */
static void
append_child(struct weir__combinator *combinator, struct weir_series *child)
{
        if (child && !make_room(combinator)) {
                weir__task_poison(&combinator->task, -ENOMEM);
                weir_series_dismiss(child);
        } else if (child) {
                set_child(combinator, combinator->count++, child);
        }
}

void
weir__combinator_add_task(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_task *task,
                          enum weir__act act)
{
        struct weir__combinator *combinator = (struct weir__combinator *)to;

        if (task)
                weir__task_consume(task, act);
        if (to) {
                int fault;

                weir__task_expect_open(to, &ops->task, act);
                append_child(combinator, wrap(task, &fault));
                if (fault)
                        weir__task_poison(to, fault);
        } else if (task) {
                weir__task_discard(task);
        }
}

/* -- a task that is held back -- */

/* The wait has ended. */
static void
follow_up(struct weir_task *wait, void *context)
{
        struct weir__combinator *combinator = context;

        if (wait->status)
                return;
        weir__series_follow_up(wait->series, combinator->held);
        combinator->held = NULL;
}

void
weir__combinator_drop_held(struct weir__combinator *combinator)
{
        struct weir_task *held = combinator->held;

        combinator->held = NULL;
        if (held)
                weir__series_discard_part(held);
}

void
weir__combinator_add_behind(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_task *wait,
                            struct weir_task *task, enum weir__act act)
{
        int fault = fault_of(task);

        if (wait) {
                wait->done = follow_up;
                wait->context = to;
        }
        weir__combinator_add_task(to, ops, wait, act);
        ((struct weir__combinator *)to)->held = task;
        if (fault)
                weir__task_poison(to, fault);
}

void
weir__combinator_add_series(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_series *series,
                            enum weir__act act)
{
        if (!to) {
                weir_series_dismiss(series);
                return;
        }
        weir__task_expect_open(to, &ops->task, act);
        int fault = series ? weir__series_fault(series, act) : -ENOMEM;
        if (!fault) {
                append_child((struct weir__combinator *)to, series);
                return;
        }
        weir_series_dismiss(series);
        weir__task_poison(to, fault);
}
