/* factory/fiber/fiber.c: the life of a fiber: made, begun, resumed, ended.
 *
 * fiber.h has the states, and how stretches and tasks take turns.
 *
 * Threads: made and started on any thread.  A stretch runs on any worker, one at a time; the rest runs on the worker between
 *          stretches.  `flags` is set by the thread that ends the fiber early, and by the worker that ends it.
 * Locks:   that of the inner series, for its current task.  No stretch begins or ends under a lock. */
#include "factory/fiber/fiber.h"

#include <errno.h>
#include <string.h>

#include "factory/sync/guard.h"
#include "factory/task/live.h"
#include "factory/task/series_extra.h"
#include "kernel/base/list.h"
#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/memory/slab.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/stack/stack.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"

#ifndef WEIR_DEBUG /* with its larger locks */
_Static_assert(sizeof(struct weir__fiber) <= WEIR__BLOCK_MAX, "a fiber comes from the caches");
#endif

static void feed(struct weir_series *series);
static bool end_at_once(struct weir__fiber *fiber);
static void complete(struct weir__fiber *fiber);
static const struct weir__task_ops fiber_ops;

static struct weir__fiber *
fiber_of(const struct weir_task *task)
{
        return (struct weir__fiber *)task;
}

static struct weir__fiber *
fiber_of_series(const struct weir_series *series)
{
        return series->owner;
}

/* -- it begins -- */

/* The first function on the stack of the fiber. */
static void
body(void *argument)
{
        struct weir__fiber *fiber = argument;

        fiber->task.status = fiber->function(fiber->task.context);
        if (__builtin_expect(!weir__fiber_self(), 0))
                weir__user_forked();
        if (fiber->groups)
                weir__groups_close_all(fiber);
        if (fiber->has_refused)
                weir__fiber_drop_refused(fiber);
        weir__fiber_leave(fiber, WEIR__FIBER_END, NULL);
}

int
weir__fiber_take_stack(struct weir__fiber *fiber)
{
        int failed = weir__stack_take(&fiber->stack);

        if (failed)
                return failed;
        fiber->stack->owner = fiber;
        weir__context_make(&fiber->context, fiber->stack, body, fiber);
        return 0;
}

static inline void
call(struct weir__fiber *fiber)
{
        struct weir__worker *worker = weir__worker_self();
        const struct weir__poller *poller = worker->poller;

        unsigned before = weir__user_begin((weir__function *)fiber->function);
        weir__fiber_run_stretch(fiber);
        weir__user_end(before);
        if (__builtin_expect(worker->poller != poller, 0))
                weir__blocked_report(worker, atomic_load_explicit(&worker->object, memory_order_relaxed));
        atomic_store_explicit(&worker->callee, NULL, memory_order_relaxed);
}

/* What is queued in that series, and then what the fiber wants now.  No task of the program is on the stack. */
static inline void
go_on(struct weir__fiber *fiber, struct weir_series *series)
{
        if (__builtin_expect(weir__series_has_queued(series), 0)) {
                weir__fiber_clear_own(fiber); /* else it would count as the next one */
                weir__series_go_on(series);
        } else {
                feed(series);
        }
}

void
weir__fiber_run_own(struct weir__fiber *fiber)
{
        call(fiber);
        go_on(fiber, fiber->own.task.series);
}

/* What comes next may be a fiber that begins: its lines are on their way from memory meanwhile. */
static inline void
fetch(const struct weir__work *next)
{
        const char *fiber = (const char *)next;

        if (!next)
                return;
        __builtin_prefetch(fiber, 1);
        __builtin_prefetch(fiber + offsetof(struct weir__fiber, inner), 1);
        __builtin_prefetch(fiber + offsetof(struct weir__fiber, inner) + 64, 1);
        __builtin_prefetch(fiber + offsetof(struct weir__fiber, context), 1);
        __builtin_prefetch(fiber + offsetof(struct weir__fiber, lock), 1);
}

/* Without a stack the function is not called. */
static inline void
begin(struct weir__fiber *fiber)
{
        int cause = weir__fiber_cause(fiber), failed = cause ? cause : weir__fiber_take_stack(fiber);

        fetch(fiber->task.work.next);
        if (failed) {
                fiber->task.status = failed;
                fiber->wish = WEIR__FIBER_END;
        } else {
                call(fiber);
        }
        if (fiber->wish != WEIR__FIBER_END || weir__series_has_queued(&fiber->inner) || !end_at_once(fiber))
                go_on(fiber, &fiber->inner);
}

/* -- the own task: it yields, and it waits -- */

static void
run_own(struct weir__work *work)
{
        struct weir__fiber *fiber = weir__container_of(work, struct weir__fiber, own.task.work);

        atomic_store_explicit(&fiber->own.task.word, WEIR__RUNNING, memory_order_relaxed);
        call(fiber);
        struct weir_series *series = fiber->own.task.series;
        if (fiber->wish == WEIR__FIBER_YIELD && series == fiber->scope && !weir__series_has_queued(series))
                weir__task_deliver(&fiber->own.task);
        else
                go_on(fiber, series);
}

static weir__function *
own_function(const struct weir__work *work)
{
        return (weir__function *)weir__container_of(work, struct weir__fiber, own.task.work)->function;
}

static const char *
own_name(const struct weir__work *work, int *size)
{
        const struct weir__fiber *fiber = weir__container_of(work, struct weir__fiber, own.task.work);

        *size = (int)strlen(fiber->name);
        return fiber->name;
}

static const struct weir__task_ops own_ops = {
        .work = {.run = run_own, .kind = "a fiber", .is_migratable = true, .function = own_function, .name = own_name},
};

void
weir__fiber_clear_own(struct weir__fiber *fiber)
{
        struct weir_series *scope = fiber->scope;

        if (scope->current != &fiber->own.task)
                return;
        weir__lock(&scope->lock);
        scope->current = NULL;
        weir__unlock(&scope->lock);
}

void
weir__fiber_deliver_own(struct weir__fiber *fiber)
{
        if (fiber->own.task.work.ops != &own_ops.work) {
                weir__fiber_clear_own(fiber);
                fiber->own.task = (struct weir_task){
                        .work.ops = &own_ops.work, .done = weir__fiber_go_on, .poller = fiber->task.poller};
        }
        fiber->own.task.series = fiber->scope;
        weir__task_deliver(&fiber->own.task);
}

/* -- between stretches -- */

/* A cancel that came after the fiber had looked ends the task before its start, which then delivers it. */
void
weir__fiber_start(struct weir__fiber *fiber, struct weir_task *task)
{
        const struct weir__task_ops *ops = weir__task_ops(task);
        struct weir_series *scope = fiber->scope;

        task->series = scope;
        if (ops->end_early) {
                weir__lock(&scope->lock);
                scope->current = task;
                if (__builtin_expect(weir__series_effective_cause(scope), 0))
                        ops->end_early(task);
                weir__unlock(&scope->lock);
        }
        weir__worker_self()->is_last_act = true;
        ops->start(task);
}

static void
set_status(struct weir__fiber *fiber)
{
        int result = fiber->task.status > 0 ? -ERANGE : fiber->task.status;

        fiber->task.status = result ? result : weir__series_result(&fiber->inner);
}

/* Neither the fiber nor those around it have a cause, which would be its status, and nothing of its own is to be given up. */
static inline bool
is_plain(const struct weir__fiber *fiber)
{
        const struct weir_series *inner = &fiber->inner;

        return !fiber->shield && !inner->free_context && !weir__series_extra_of(inner) && !weir__phase_is_stopping() &&
               !atomic_load_explicit(&weir__series_descents, memory_order_acquire) &&
               !atomic_load_explicit(&inner->cause, memory_order_acquire);
}

/* A child of a group is known to that alone, unless somebody has a reference to its series.  If so the group leaves it, and it is
 * gone. */
static bool
end_private_child(struct weir__fiber *fiber)
{
        if (fiber->task.on_free)
                return false;
        if (fiber->task.status > 0 || fiber->inner.poison)
                set_status(fiber);
        if (!weir__group_forget_private(&fiber->inner, fiber->task.series, fiber->task.status))
                return false;
        weir__free(fiber, sizeof *fiber);
        return true;
}

/* A fiber that was started alone and has not waited is known to nobody, unless somebody has a reference to its series. */
static bool
end_private_root(struct weir__fiber *fiber)
{
        if (fiber->task.series || fiber->has_waited || atomic_load_explicit(&fiber->inner.references, memory_order_acquire) != 2)
                return false;
        if (fiber->task.done || fiber->task.on_free) {
                set_status(fiber);
                atomic_store_explicit(&fiber->inner.references, 1, memory_order_relaxed);
                complete(fiber);
        } else {
                weir__free(fiber, sizeof *fiber);
                weir__runtime_leave();
        }
        return true;
}

/* Returns false if others may know it. */
static bool
end_at_once(struct weir__fiber *fiber)
{
        return is_plain(fiber) && (fiber->is_child ? end_private_child(fiber) : end_private_root(fiber));
}

/* The series of the shield may have what any series may have: pushed tasks that have not run, a name, a deadline, a context.  So
 * it ends as any series, and the fiber ends behind it (`ended`).  The fiber keeps its reference: dumps look. */
static void
end_shield(struct weir__fiber *fiber)
{
        weir__guard_hand_over(fiber->shield, &fiber->inner);
        weir__series_end_fed(weir_series_ref(fiber->shield));
}

static void
end(struct weir__fiber *fiber)
{
        if (end_at_once(fiber))
                return;
        if (fiber->shield)
                end_shield(fiber);
        else
                weir__series_end_fed(&fiber->inner);
}

/* A fiber that was started alone is a root once it waits: one that ends at once needs no place in the registry. */
static void
begin_to_wait(struct weir__fiber *fiber)
{
        fiber->has_waited = true;
        fiber->own.task.work.ops = NULL;
        if (fiber->task.series) {
                weir__lock(&fiber->inner.lock); /* a dump finds it by its task */
                fiber->inner.started = weir__live_stamp();
                weir__unlock(&fiber->inner.lock);
        } else {
                weir__live_add(&fiber->inner);
        }
}

static void
feed(struct weir_series *series)
{
        struct weir__fiber *fiber = fiber_of_series(series);

        if (__builtin_expect(series != fiber->scope, 0)) { /* a shield begins or ends */
                go_on(fiber, fiber->scope);
                return;
        }
        if (__builtin_expect(!fiber->has_waited, 0) && fiber->wish != WEIR__FIBER_END)
                begin_to_wait(fiber);
        switch ((enum weir__fiber_wish)fiber->wish) {
        case WEIR__FIBER_YIELD: weir__fiber_deliver_own(fiber); break;
        case WEIR__FIBER_SLEEP: weir__fiber_start_sleep(fiber); break;
        case WEIR__FIBER_WAIT: weir__fiber_start_wait(fiber); break;
        case WEIR__FIBER_AWAIT: weir__fiber_start(fiber, fiber->wanted.awaited->task); break;
        case WEIR__FIBER_JOIN: weir__group_join(fiber); break;
        case WEIR__FIBER_END: end(fiber); break;
        case WEIR__FIBER_MOVE: break; /* within the stretch */
        }
}

static void
has_cause(struct weir_series *series)
{
        weir__groups_end_early(fiber_of_series(series));
}

static weir__function *
function_of(const struct weir_series *series)
{
        return (weir__function *)fiber_of_series(series)->function;
}

/* -- the end -- */

/* The inner series has the last word on the memory: others may have references to it. */
static void
finish(struct weir__fiber *fiber)
{
        struct weir_series *series = fiber->task.series;

        weir__task_call(&fiber->task);
        if (fiber->is_child)
                fiber->task.series = NULL;
        else
                series = fiber->task.series; /* the callback may have made one */
        weir__task_leave(&fiber->task);
        weir__task_release(&fiber->task, false);
        if (fiber->is_child)
                weir__group_child_ended(series, fiber->inner.index, fiber->task.status);
        bool is_child = fiber->is_child;
        weir_series_unref(&fiber->inner);
        if (!is_child)
                weir__task_go_on(series);
}

/* The end of a fiber may run the next stretch of another one that awaits it, and so on: within one end the others are delivered,
 * so that a chain of fibers needs no stack. */
static void
complete(struct weir__fiber *fiber)
{
        struct weir__worker *worker = weir__worker_self();

        if (worker->is_completing) {
                weir__task_make_ready(&fiber->task);
                return;
        }
        worker->is_completing = true;
        finish(fiber);
        worker->is_completing = false;
}

static void
ended(struct weir_series *series)
{
        struct weir__fiber *fiber = fiber_of_series(series);

        if (__builtin_expect(series == fiber->shield, 0)) {
                weir__series_end_fed(&fiber->inner);
                return;
        }
        set_status(fiber);
        if (!(atomic_fetch_or_explicit(&fiber->flags, WEIR__FIBER_OVER, memory_order_acq_rel) & WEIR__FIBER_ENDING))
                complete(fiber);
}

/* Its task is delivered to begin, and may be at its end. */
static void
run(struct weir__work *work)
{
        struct weir__fiber *fiber = (struct weir__fiber *)work;

        if (atomic_load_explicit(&fiber->task.word, memory_order_relaxed) == WEIR__READY)
                finish(fiber);
        else
                begin(fiber);
}

static void
free_block(struct weir_series *series)
{
        weir__free(fiber_of_series(series), sizeof(struct weir__fiber));
}

static void
release(struct weir_task *task, bool discarded)
{
        (void)discarded;
        weir_series_unref(fiber_of(task)->shield);
}

/* -- ending early -- */

static void
hand_down(struct weir__work *work)
{
        struct weir__fiber *fiber = weir__container_of(work, struct weir__fiber, ending);

        weir__series_end_early(&fiber->inner, weir__series_rest_cause(fiber->task.series));
        weir__series_descent_end();
        if (atomic_fetch_and_explicit(&fiber->flags, (uint8_t)~WEIR__FIBER_ENDING, memory_order_acq_rel) & WEIR__FIBER_OVER)
                complete(fiber);
}

static const struct weir__work_ops hand_down_ops = {.run = hand_down, .is_migratable = true};

/* Until the walk is over the fiber looks at what is around it before each await, so an early end is decisive at once. */
static struct weir_task *
end_early(struct weir_task *task)
{
        struct weir__fiber *fiber = fiber_of(task);

        if (atomic_load_explicit(&fiber->flags, memory_order_relaxed))
                return NULL;
        weir__series_descent_begin();
        if (atomic_fetch_or_explicit(&fiber->flags, WEIR__FIBER_ENDING, memory_order_acq_rel) & WEIR__FIBER_OVER) {
                /* Its end has come meanwhile.  It does not wait for this, and lets nobody in any more. */
                weir__series_descent_end();
                return NULL;
        }
        fiber->ending.ops = &hand_down_ops;
        weir__deliver(weir__poller_at(task->poller), &fiber->ending);
        return NULL;
}

/* -- the start -- */

static inline void
go_to_begin(struct weir__fiber *fiber)
{
        atomic_store_explicit(&fiber->task.word, WEIR__PENDING, memory_order_release); /* for dumps */
        if (fiber->is_begun)
                weir__series_go_on(fiber->scope);
        else
                weir__task_deliver(&fiber->task);
}

static void
start(struct weir_task *task)
{
        struct weir__fiber *fiber = fiber_of(task);
        struct weir_series *inner = &fiber->inner;

        if (task->series) {
                weir__lock(&inner->lock); /* a cancel that comes before the start hands down its cause meanwhile */
                weir__series_enter(inner, task->series);
                weir__unlock(&inner->lock);
        }
        go_to_begin(fiber);
}

struct weir_series *
weir__fiber_as_child(struct weir_task *task)
{
        struct weir__fiber *fiber = fiber_of(task);
        bool is_one = task->work.ops == &fiber_ops.work && !task->done && !fiber->is_begun;

        if (is_one)
                fiber->is_child = true;
        return is_one ? &fiber->inner : NULL;
}

void
weir__fiber_start_child(struct weir_series *inner)
{
        go_to_begin(fiber_of_series(inner));
}

static bool
must_start(const struct weir_task *task)
{
        return fiber_of(task)->is_begun;
}

static bool
child(struct weir_task *task, struct weir__child_cursor *cursor, struct weir_series **child)
{
        struct weir__fiber *fiber = fiber_of(task);

        switch (cursor->next) {
        case 0: *child = weir__series_ref(&fiber->inner); return false;
        case 1:
                cursor->next = WEIR__GROUPS_CHILD;
                *child = weir__series_ref(fiber->scope == &fiber->inner ? NULL : fiber->scope);
                return true;
        default: return weir__groups_child(fiber, cursor, child);
        }
}

static const char *
name(const struct weir_task *task, int *size)
{
        const char *text = fiber_of(task)->name;

        *size = (int)strlen(text);
        return text;
}

/* Its callback comes only at its end. */
static weir__function *
next_function(const struct weir__work *work)
{
        const struct weir__fiber *fiber = (const struct weir__fiber *)work;

        return atomic_load_explicit(&fiber->task.word, memory_order_relaxed) == WEIR__PENDING ? (weir__function *)fiber->function
                                                                                              : weir__task_function(work);
}

static const struct weir__task_ops fiber_ops = {
        .work = {.run = run, .kind = "a fiber", .is_migratable = true, .function = next_function, .name = weir__task_name},
        .start = start,
        .must_start = must_start,
        .end_early = end_early,
        .release = release,
        .has_quiet_release = true,
        .name = name,
        .child = child,
        .is_shown_as_child = true,
};

static const struct weir__series_ops inner_ops = {
        .work = WEIR__SERIES_WORK,
        .ended = ended,
        .is_shown_as_owner = true,
        .feed = feed,
        .function = function_of,
        .has_cause = has_cause,
        .free_memory = free_block,
};

weir_task *
weir_fiber_new_as(const char *name, weir_fiber_fn *function, weir_task_fn *done, void *context)
{
        struct weir__fiber *fiber = weir__alloc(sizeof *fiber);

        if (!fiber)
                return NULL;
        weir__task_init(&fiber->task, &fiber_ops, sizeof *fiber, done, context);
        fiber->inner = (struct weir_series){
                .work.ops = &inner_ops.work,
                .owner = fiber,
                .poller = fiber->task.poller,
                .state = WEIR__SERIES_FED,
                .references = 2, /* until it has ended, and until the task is freed */
                .is_part = true,
        };
        memset(&fiber->context, 0, sizeof *fiber - offsetof(struct weir__fiber, context));
        weir__lock_init(&fiber->inner.lock, WEIR__RANK_SERIES);
        weir__lock_init(&fiber->lock, WEIR__RANK_COMBINATOR);
        fiber->scope = &fiber->inner;
        fiber->function = function;
        fiber->name = name ? name : "";
        if (!function)
                weir__task_poison(&fiber->task, weir__log_refusal("weir_fiber_new: the function is NULL: expected one"));
        return &fiber->task;
}
