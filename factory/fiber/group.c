/* factory/fiber/group.c: groups: children of a fiber that run beside it and never outlive it.
 *
 *     open --children are started, and end--> closing --no child is left, no walk is on its way--> freed
 *
 * Each child is a series around one task, or that of a fiber without a callback.  All are within a series of the group, which
 * runs nothing: its cause cancels them.  A walk hands that cause down, a batch at a time, as in factory/flow/combinator.c.
 *
 * Its children have *slots*, SLOTS_A_WORD side by side.  A child that ends leaves its slot by one compare-and-swap, so that a
 * thread that starts children and one that runs them meet at no lock.  Three children take the lock: the last one of its
 * neighbours, one that has failed, and one whose neighbours a walk or a dump has looked at, and may have a reference to.
 *
 *     slots: empty --open: the next children get them--> full --the last child ends--> empty
 *
 * While they are open those for children to come count as taken, so that they do not become empty between two starts.  From the
 * join on a slot is taken when its child comes.
 *
 * Threads: the fiber opens, starts and closes; children start others, and end, on any worker; any thread cancels.
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

#define SLOTS_A_WORD 61 /* a walk ends the children of so many in one step */
#define BLOCKS       26 /* of slots: each has twice as many as the one before */
#define INDEXES      64 /* of children in neighbouring slots; a power of two */
#define ALL          (~UINT64_C(0) >> (INDEXES - SLOTS_A_WORD))
#define WALKED       (UINT64_C(1) << (INDEXES - 1))

/* Neighbouring slots. */
struct slots {
        /* A bit for each that is taken, and WALKED: somebody may have a reference to a child.  Set under the fiber's lock.  A bit
         * that is not the last one may be cleared without, while WALKED is not set. */
        _Atomic uint64_t taken;

        /* Guarded by the fiber's lock. */
        struct slots *next;                         /* that are empty */
        unsigned number;                            /* among those of the group; constant */
        struct weir_series *children[SLOTS_A_WORD]; /* of taken slots, unless these are for children to come */
};

struct weir_group {
        /* Constant. */
        struct weir__fiber *fiber;

        struct weir_series within; /* around the children; its parent is the scope in which the group was opened */

        /* Guarded by the fiber's lock.  What is there is constant: read without, by a child that is there. */
        struct slots *blocks[BLOCKS];

        /* Guarded by the fiber's lock. */
        struct weir_group *next; /* of the fiber's */
        unsigned made;           /* numbers of slots in use */
        unsigned busy;           /* slots of which one is taken count once */
        struct slots *empty;     /* in a list */
        struct slots *open;      /* for the next children; NULL: none */
        unsigned filled;         /* of these */
        bool is_closing;         /* no slot is kept for a child to come */
        unsigned failures;       /* children that have failed */
        int status;              /* of the first one that failed */
        bool stops_on_failure;
        bool is_ending;  /* its series has a cause, and a walk has begun */
        bool is_walking; /* that walk is on its way */
        bool is_joined;  /* the fiber waits for its end */
        unsigned walked; /* the next slot that the walk looks at */
        struct weir__work walk;
};

/* -- slots, under the lock -- */

/* Those with that number, which there are. */
static inline struct slots *
slots_at(const struct weir_group *group, unsigned number)
{
        unsigned block = 31 - (unsigned)__builtin_clz(number + 1);

        return &group->blocks[block][number + 1 - (1U << block)];
}

/* Returns NULL when out of memory. */
static struct slots *
make_slots(struct weir_group *group)
{
        unsigned block = 31 - (unsigned)__builtin_clz(group->made + 1);

        if (block == BLOCKS)
                return NULL;
        if (!group->blocks[block])
                group->blocks[block] = malloc(sizeof(struct slots) << block);
        if (!group->blocks[block])
                return NULL;
        struct slots *slots = slots_at(group, group->made);
        slots->number = group->made++;
        return slots;
}

/* Returns false when out of memory. */
static bool
open_slots(struct weir_group *group)
{
        struct slots *slots = group->empty;

        if (slots)
                group->empty = slots->next;
        else if (!(slots = make_slots(group)))
                return false;
        atomic_store_explicit(&slots->taken, group->is_closing ? 0 : ALL, memory_order_relaxed);
        group->open = slots;
        group->filled = 0;
        group->busy++;
        return true;
}

/* The last child has left them, or none has come. */
static void
note_empty(struct weir_group *group, struct slots *slots)
{
        if (slots == group->open)
                group->open = NULL;
        slots->next = group->empty;
        group->empty = slots;
        group->busy--;
}

static uint64_t
give_up(struct slots *slots, uint64_t bits)
{
        return atomic_fetch_and_explicit(&slots->taken, ~bits, memory_order_acq_rel) & ALL & ~bits;
}

/* From now on no slot is kept for a child to come. */
static void
begin_to_close(struct weir_group *group)
{
        struct slots *open = group->is_closing ? NULL : group->open;

        group->is_closing = true;
        if (open && !give_up(open, ALL << group->filled & ALL))
                note_empty(group, open);
}

/* The child has a slot from now on.  Returns false when out of memory. */
static bool
take_slot(struct weir_group *group, struct weir_series *child)
{
        if (!group->open && !open_slots(group))
                return false;
        struct slots *slots = group->open;
        unsigned i = group->filled++;
        slots->children[i] = child;
        child->index = slots->number * INDEXES + i;
        if (__builtin_expect(group->is_closing, 0))
                atomic_fetch_or_explicit(&slots->taken, UINT64_C(1) << i, memory_order_relaxed);
        if (group->filled == SLOTS_A_WORD)
                group->open = NULL;
        return true;
}

/* The children there, a bit each.  From now on the caller may take references to them, until it lets the lock go. */
static uint64_t
look_at(const struct weir_group *group, struct slots *slots)
{
        uint64_t taken = atomic_fetch_or_explicit(&slots->taken, WALKED, memory_order_acq_rel) & ALL;

        return slots == group->open ? taken & ~(ALL << group->filled) : taken;
}

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
        begin_to_close(group);
        bool walks = group->busy > 0;
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
        bool is_over = group->is_joined && group->busy == 0 && !group->is_walking;

        if (is_over)
                group->is_joined = false;
        return is_over;
}

static void
walk_on(struct weir__work *work)
{
        struct weir_group *group = weir__container_of(work, struct weir_group, walk);
        struct weir__fiber *fiber = group->fiber;
        struct weir_series *taken[SLOTS_A_WORD];
        unsigned count = 0;

        weir__lock(&fiber->lock);
        int cause = weir__series_rest_cause(&group->within);
        struct slots *slots = slots_at(group, group->walked++);
        for (uint64_t left = look_at(group, slots); left; left &= left - 1)
                taken[count++] = weir__series_ref(slots->children[__builtin_ctzll(left)]);
        bool more = group->walked < group->made;
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
static struct behind
note_end(struct weir_group *group, struct slots *slots, uint64_t bit, int result)
{
        struct behind behind = {false, false};

        if (!give_up(slots, bit))
                note_empty(group, slots);
        if (result && group->failures++ == 0)
                group->status = result;
        if (result && group->stops_on_failure)
                behind.walks = begin_to_end(group, -ECANCELED);
        behind.goes_on = is_over(group);
        return behind;
}

/* The lock is not held.  The group exists for certain only if a walk or the fiber is to be delivered: else nothing is touched. */
static inline void
go_on(struct weir_group *group, struct weir__fiber *fiber, struct behind behind)
{
        if (behind.walks)
                weir__deliver(home(group), &group->walk);
        else if (behind.goes_on)
                weir__fiber_deliver_own(fiber);
}

static bool
is_private(const struct weir_series *child)
{
        return atomic_load_explicit(&child->references, memory_order_acquire) == 2;
}

/* Walks and dumps take references under the lock. */
static bool
leave_locked(struct weir_group *group, struct slots *slots, uint64_t bit, int result, const struct weir_series *private)
{
        struct weir__fiber *fiber = group->fiber;
        struct behind behind = {false, false};

        weir__lock(&fiber->lock);
        bool may_go = !private || is_private(private);
        if (may_go)
                behind = note_end(group, slots, bit, result);
        weir__unlock(&fiber->lock);
        go_on(group, fiber, behind);
        return may_go;
}

/* A child leaves its slot; `private`, if that is not NULL, only if nobody else has a reference to it.  Returns whether it has.
 * The group may be gone once the bit is cleared, unless that is done under the lock. */
static inline bool
leave(struct weir_series *within, uint32_t index, int result, const struct weir_series *private)
{
        struct weir_group *group = weir__container_of(within, struct weir_group, within);
        struct slots *slots = slots_at(group, index / INDEXES);
        uint64_t bit = UINT64_C(1) << index % INDEXES, taken = atomic_load_explicit(&slots->taken, memory_order_acquire);

        if (private && !is_private(private))
                return false;
        while (!(taken & WALKED) && taken != bit && !result)
                if (atomic_compare_exchange_weak_explicit(&slots->taken, &taken, taken & ~bit, memory_order_acq_rel,
                                                          memory_order_acquire))
                        return true;
        return leave_locked(group, slots, bit, result, private);
}

void
weir__group_child_ended(struct weir_series *within, uint32_t slot, int result)
{
        leave(within, slot, result, NULL);
}

bool
weir__group_forget_private(struct weir_series *child, struct weir_series *within, int result)
{
        return leave(within, child->index, result, child);
}

static void
child_ended(struct weir_series *child)
{
        struct weir_group *group = child->owner;

        weir__group_child_ended(&group->within, child->index, weir__series_result(child));
}

static const struct weir__series_ops child_ops = {.work = WEIR__SERIES_WORK, .ended = child_ended};

/* The child has its slot before it is launched, so that a walk that comes between finds it; it has the cause then, too.  Returns
 * 0, or why it is not started. */
static int
add(struct weir_group *group, struct weir_series *child, bool is_fiber)
{
        weir__lock(&group->fiber->lock);
        int cause = weir__series_effective_cause(&group->within);
        int failed = cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : take_slot(group, child) ? 0 : -ENOMEM;
        if (!failed && is_fiber) {
                weir__fiber_enter_group(child, &group->within);
        } else if (!failed) {
                child->work.ops = &child_ops.work;
                child->owner = group;
                child->started = weir__live_stamp(); /* a fiber has the time of its first wait */
        }
        weir__unlock(&group->fiber->lock);
        return failed;
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
        int failed = !group ? -ENOMEM : task->flags & WEIR__TASK_POISONED ? task->status : 0;
        if (failed) {
                weir__task_discard(task);
                return failed;
        }
        struct weir_series *fiber = weir__fiber_as_child(task), *child = fiber ? fiber : weir__series_wrap(task);
        if (!child)
                return -ENOMEM;
        if (weir__trace_is_on())
                depart(child);
        failed = add(group, child, fiber);
        if (failed && fiber)
                weir__task_discard(task);
        else if (failed)
                weir__series_discard(child);
        else if (fiber)
                weir__fiber_start_child(child);
        else
                weir__series_launch(child, &group->within);
        return failed;
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
        begin_to_close(group);
        bool is_busy = group->busy > 0 || group->is_walking;
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
        for (unsigned block = 0; block < BLOCKS && group->blocks[block]; block++)
                free(group->blocks[block]);
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

/* Takes a reference to the first child from *slot on, and sets *slot to where it is; NULL: there is none.  Under the lock. */
static struct weir_series *
child_from(const struct weir_group *group, unsigned *slot)
{
        for (unsigned i = *slot % INDEXES; *slot < group->made * INDEXES; *slot += INDEXES - i, i = 0) {
                struct slots *slots = slots_at(group, *slot / INDEXES);
                uint64_t left = look_at(group, slots) & ALL << i;

                if (!left)
                        continue;
                *slot += (unsigned)__builtin_ctzll(left) - i;
                return weir__series_ref(slots->children[*slot % INDEXES]);
        }
        return NULL;
}

/* The groups may change between two calls: then the walk misses some, or shows one twice. */
bool
weir__groups_child(struct weir__fiber *fiber, struct weir__child_cursor *cursor, struct weir_series **child)
{
        unsigned skipped = cursor->next - WEIR__GROUPS_CHILD, seen = 0;

        *child = NULL;
        weir__lock(&fiber->lock);
        for (struct weir_group *group = fiber->groups; group && !*child; seen += group->made * INDEXES, group = group->next) {
                unsigned slot = skipped > seen ? skipped - seen : 0;

                if (is_looked_at(group, cursor))
                        *child = child_from(group, &slot);
                if (*child)
                        cursor->next = WEIR__GROUPS_CHILD + seen + slot + 1;
        }
        weir__unlock(&fiber->lock);
        return *child != NULL;
}
