/* factory/fiber/group.c: groups: children of a fiber that run beside it and never outlive it.
 *
 *     open --children are started, and end--> closing --no child is left, no walk is on its way--> freed
 *
 * Each child is a series around one task, or that of a fiber without a callback.  All are within a series of the group, which
 * runs nothing: its cause cancels them.  A walk hands that cause down, a batch at a time, as in factory/flow/combinator.c.
 *
 * Threads: the fiber opens, starts and closes; children end on any worker; any thread cancels.
 * Locks:   the fiber's (rank COMBINATOR), which guards all its groups.  It is taken under that of the inner series. */
#include <errno.h>
#include <stdlib.h>

#include "factory/fiber/fiber.h"
#include "factory/task/live.h"
#include "kernel/base/list.h"
#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/worker/deliver.h"

#define BATCH 64   /* children that one step of a walk ends early */
#define FEW   1000 /* places: room for more of them costs little */

struct weir_group {
        struct weir__fiber *fiber; /* constant */
        struct weir_series within; /* around the children; its parent is the scope in which the group was opened */

        /* Guarded by the fiber's lock. */
        struct weir_group *next;       /* of the fiber's */
        struct weir_series **children; /* NULL where one has ended */
        unsigned count, room;          /* places in use, and there are */
        unsigned free;                 /* a place that a child has left, at most `count` */
        unsigned left;                 /* children that have not ended */
        unsigned failures;             /* children that have failed */
        int status;                    /* of the first one that failed */
        bool stops_on_failure;
        bool is_ending;  /* its series has a cause, and a walk has begun */
        bool is_walking; /* that walk is on its way */
        bool is_joined;  /* the fiber waits for its end */
        unsigned walked; /* the next place that the walk looks at */
        struct weir__work walk;
};

/* -- ending early -- */

static void walk_on(struct weir__work *work);

static const struct weir__work_ops walk_ops = {.run = walk_on, .is_migratable = true};

static struct weir__poller *
home(const struct weir_group *group)
{
        return weir__poller_at(group->fiber->task.poller);
}

/* Returns whether the caller must deliver the walk.  Under the lock. */
static bool
begin_to_end(struct weir_group *group, int cause)
{
        if (group->is_ending)
                return false;
        group->is_ending = true;
        bool walks = group->left > 0;
        if (walks)
                weir__series_descent_begin();
        weir__series_set_cause(&group->within, cause);
        group->is_walking = walks;
        group->walk.ops = &walk_ops;
        return walks;
}

/* Whether the fiber that joins is to go on.  Under the lock; the caller delivers it. */
static bool
is_over(struct weir_group *group)
{
        bool is_over = group->is_joined && group->left == 0 && !group->is_walking;

        if (is_over)
                group->is_joined = false;
        return is_over;
}

static void
walk_on(struct weir__work *work)
{
        struct weir_group *group = weir__container_of(work, struct weir_group, walk);
        struct weir__fiber *fiber = group->fiber;
        struct weir_series *taken[BATCH];
        unsigned count = 0;

        weir__lock(&fiber->lock);
        int cause = weir__series_rest_cause(&group->within);
        for (; count < BATCH && group->walked < group->count; group->walked++)
                if (group->children[group->walked])
                        taken[count++] = weir__series_ref(group->children[group->walked]);
        bool more = group->walked < group->count;
        weir__unlock(&fiber->lock);
        for (unsigned i = 0; i < count; i++) {
                weir__series_end_early(taken[i], cause);
                weir_series_unref(taken[i]);
        }
        if (more) {
                weir__deliver(home(group), work);
                return;
        }
        weir__series_descent_end();
        weir__lock(&fiber->lock);
        group->is_walking = false;
        bool goes_on = is_over(group);
        weir__unlock(&fiber->lock);
        if (goes_on)
                weir__fiber_deliver_own(fiber);
}

void
weir__groups_end_early(struct weir__fiber *fiber)
{
        weir__lock(&fiber->lock);
        for (struct weir_group *group = fiber->groups; group; group = group->next)
                if (group->within.parent == &fiber->inner && begin_to_end(group, weir__series_rest_cause(&fiber->inner)))
                        weir__deliver(home(group), &group->walk);
        weir__unlock(&fiber->lock);
}

static void
end_early(struct weir_group *group, int cause)
{
        weir__lock(&group->fiber->lock);
        bool walks = begin_to_end(group, cause);
        weir__unlock(&group->fiber->lock);
        if (walks)
                weir__deliver(home(group), &group->walk);
}

/* -- children -- */

/* What is to be done once the lock is let go. */
struct behind {
        bool walks, goes_on;
};

/* Under the lock. */
static inline struct behind
forget_child(struct weir_group *group, uint32_t place, int result)
{
        struct behind behind = {false, false};

        group->children[place] = NULL;
        group->free = place;
        group->left--;
        if (__builtin_expect(result, 0)) {
                if (group->failures++ == 0)
                        group->status = result;
                if (group->stops_on_failure)
                        behind.walks = begin_to_end(group, -ECANCELED);
        }
        behind.goes_on = is_over(group);
        return behind;
}

/* Unless a walk or the fiber itself is on its way the group may be gone by now. */
static inline void
go_on(struct weir_group *group, struct weir__fiber *fiber, struct behind behind)
{
        if (behind.walks)
                weir__deliver(home(group), &group->walk);
        else if (behind.goes_on)
                weir__fiber_deliver_own(fiber);
}

void
weir__group_child_ended(struct weir_series *within, uint32_t place, int result)
{
        struct weir_group *group = weir__container_of(within, struct weir_group, within);
        struct weir__fiber *fiber = group->fiber;

        weir__lock(&fiber->lock);
        struct behind behind = forget_child(group, place, result);
        weir__unlock(&fiber->lock);
        go_on(group, fiber, behind);
}

/* Walks and dumps take references under the lock. */
bool
weir__group_forget_private(struct weir_series *child, struct weir_series *within, int result)
{
        struct weir_group *group = weir__container_of(within, struct weir_group, within);
        struct weir__fiber *fiber = group->fiber;
        struct behind behind = {false, false};

        weir__lock(&fiber->lock);
        bool is_private = atomic_load_explicit(&child->references, memory_order_acquire) == 2;
        if (is_private)
                behind = forget_child(group, child->index, result);
        weir__unlock(&fiber->lock);
        go_on(group, fiber, behind);
        return is_private;
}

static void
child_ended(struct weir_series *child)
{
        struct weir_group *group = child->owner;

        weir__group_child_ended(&group->within, child->index, weir__series_result(child));
}

static const struct weir__series_ops child_ops = {.work = WEIR__SERIES_WORK, .ended = child_ended};

/* A place for one more child.  Under the lock.  Returns false when out of memory. */
static bool
find_place(struct weir_group *group, unsigned *place)
{
        *place = group->free < group->count && !group->children[group->free] ? group->free : group->count;
        if (*place < group->room)
                return true;
        unsigned room = group->room == 0 ? 8 : (group->room < FEW ? 4 : 2) * group->room;
        struct weir_series **children = realloc(group->children, room * sizeof *children);
        if (!children)
                return false;
        group->children = children;
        group->room = room;
        return true;
}

/* The child has its place before it is launched, so that a walk that comes between finds it; it has the cause then, too. */
static bool
add(struct weir_group *group, struct weir_series *child, bool is_fiber)
{
        unsigned place;

        weir__lock(&group->fiber->lock);
        bool has_place = find_place(group, &place);
        if (has_place) {
                if (is_fiber) {
                        weir__fiber_enter_group(child, &group->within);
                } else {
                        child->work.ops = &child_ops.work;
                        child->owner = group;
                        child->started = weir__live_stamp(); /* a fiber has the time of its first wait */
                }
                child->index = place;
                group->children[place] = child;
                group->count += place == group->count;
                group->left++;
        }
        weir__unlock(&group->fiber->lock);
        return has_place;
}

/* A fault of a task that was consumed; 0: it can be started. */
static int
fault_of(struct weir_group *group, const struct weir_task *task)
{
        if (task->flags & WEIR__TASK_POISONED)
                return task->status;
        int cause = weir__series_effective_cause(&group->within);

        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

/* In a trace an arrow leads from the stretch to the child.  The stretch is on the track of the worker, which in hop mode is
 * another thread. */
static __attribute__((cold, noinline)) void
depart(struct weir_series *child)
{
        uint32_t track = atomic_load_explicit(&weir__worker_self()->track, memory_order_relaxed);

        weir__trace_depart(weir__series_trace_flow(child), track ? track : weir__trace_track());
}

int
weir_group_start(weir_group *group, weir_task *task)
{
        if (!task)
                return -ENOMEM;
        weir__task_consume(task, WEIR__ACT_GROUP_START);
        int fault = group ? fault_of(group, task) : -ENOMEM;
        if (fault) {
                weir__task_discard(task);
                return fault;
        }
        struct weir_series *fiber = weir__fiber_as_child(task), *child = fiber ? fiber : weir__series_wrap(task);
        if (!child)
                return -ENOMEM;
        if (weir__trace_is_on())
                depart(child);
        bool is_added = add(group, child, fiber);
        if (!is_added && fiber)
                weir__task_discard(task);
        else if (!is_added)
                weir__series_discard(child);
        else if (fiber)
                weir__fiber_start_child(child);
        else
                weir__series_launch(child, &group->within);
        return is_added ? 0 : -ENOMEM;
}

/* -- the group -- */

weir_group *
weir_group_open(void)
{
        struct weir__fiber *fiber = weir__fiber_self();
        struct weir_group *group = fiber && !weir__fiber_leave_host(fiber) ? calloc(1, sizeof *group) : NULL;

        if (!group) {
                errno = fiber ? ENOMEM : EDEADLK;
                return NULL;
        }
        group->fiber = fiber;
        weir__series_around_init(&group->within);
        group->within.index = WEIR__INDEX_APART;
        weir__lock(&fiber->scope->lock); /* a cancel that comes now finds the group, or the group finds its cause */
        weir__series_enter(&group->within, fiber->scope);
        weir__lock(&fiber->lock);
        group->next = fiber->groups;
        fiber->groups = group;
        weir__unlock(&fiber->lock);
        weir__unlock(&fiber->scope->lock);
        return group;
}

void
weir_group_stop_on_failure(weir_group *group)
{
        if (!group)
                return;
        weir__lock(&group->fiber->lock);
        group->stops_on_failure = true;
        weir__unlock(&group->fiber->lock);
}

void
weir_group_cancel(weir_group *group)
{
        if (group)
                end_early(group, -ECANCELED);
}

void
weir__group_join(struct weir__fiber *fiber)
{
        struct weir_group *group = fiber->wanted.group;

        weir__lock(&fiber->lock);
        group->is_joined = true;
        bool goes_on = is_over(group);
        weir__unlock(&fiber->lock);
        if (goes_on)
                weir__fiber_deliver_own(fiber);
}

static bool
is_busy(struct weir_group *group)
{
        weir__lock(&group->fiber->lock);
        bool is_busy = group->left > 0 || group->is_walking;
        weir__unlock(&group->fiber->lock);
        return is_busy;
}

static void
forget(struct weir_group *group)
{
        struct weir__fiber *fiber = group->fiber;

        weir__lock(&fiber->lock);
        struct weir_group **link = &fiber->groups;
        while (*link != group)
                link = &(*link)->next;
        *link = group->next;
        weir__unlock(&fiber->lock);
        free(group->children);
        free(group);
}

int
weir_group_close(weir_group *group)
{
        struct weir__fiber *fiber = weir__fiber_self();

        if (!group)
                return -ENOMEM;
        if (fiber != group->fiber)
                return -EPERM;
        weir__fiber_drop_refused(fiber);
        if (is_busy(group)) {
                fiber->wanted.group = group;
                weir__fiber_leave(fiber, WEIR__FIBER_JOIN, WEIR__FIBER_AT);
        }
        int status = group->status;
        forget(group);
        return status;
}

void
weir__groups_close_all(struct weir__fiber *fiber)
{
        for (struct weir_group *group = fiber->groups; group; group = group->next)
                weir_group_cancel(group);
        while (fiber->groups)
                weir_group_close(fiber->groups);
}

/* A group that stops at a failure does not stand still: another child may end it. */
static bool
is_looked_at(const struct weir_group *group, const struct weir__child_cursor *cursor)
{
        return !cursor->is_awaited || (group->is_joined && !group->stops_on_failure);
}

/* The groups may change between two calls: then the walk misses some, or shows one twice. */
bool
weir__groups_child(struct weir__fiber *fiber, struct weir__child_cursor *cursor, struct weir_series **child)
{
        unsigned skipped = cursor->next - WEIR__GROUPS_CHILD, seen = 0;

        *child = NULL;
        weir__lock(&fiber->lock);
        for (struct weir_group *group = fiber->groups; group && !*child; seen += group->count, group = group->next) {
                unsigned first = skipped > seen ? skipped - seen : 0;

                for (unsigned i = first; i < group->count && !*child && is_looked_at(group, cursor); i++) {
                        *child = weir__series_ref(group->children[i]);
                        cursor->next = WEIR__GROUPS_CHILD + seen + i + 1;
                }
        }
        weir__unlock(&fiber->lock);
        return *child != NULL;
}
