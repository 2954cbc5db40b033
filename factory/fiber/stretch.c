/* factory/fiber/stretch.c: stretches.  A worker enters the stack of a fiber here and comes back.  The file knows
 * the fiber that runs on a thread, and tells the trace, the dump and the log of it.
 *
 * Threads: a worker, or a thread of the executor, in a callback; a fiber, on its stack, leaves it.
 * Locks:   none. */
#include <string.h>

#include "factory/fiber/fiber.h"
#include "factory/fiber/hop.h"
#include "factory/fiber/partner.h"
#include "factory/task/series_extra.h"
#include "kernel/base/panic.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/stack/stack.h"
#include "kernel/worker/user.h"

struct weir__fiber *
weir__fiber_self(void)
{
        struct weir__worker *worker = weir__worker_self();

        return worker ? worker->fiber : NULL;
}

/* What the fiber has awaited before its next stretch; NULL: the stretch is its first. */
static const char *
kind_of_awaited(const struct weir__fiber *fiber)
{
        static const char *const kinds[] = {
                [WEIR__FIBER_YIELD] = "a yield",
                [WEIR__FIBER_SLEEP] = "a sleep",
                [WEIR__FIBER_JOIN] = "a group",
                [WEIR__FIBER_MOVE] = "a pin",
        };

        if (!atomic_load_explicit(&fiber->at, memory_order_relaxed))
                return NULL;
        return fiber->wish == WEIR__FIBER_WAIT    ? fiber->wanted.wait->ops->work.kind
               : fiber->wish == WEIR__FIBER_AWAIT ? fiber->wanted.awaited->task->work.ops->kind
                                                  : kinds[fiber->wish];
}

/* In messages and dumps the function of the fiber runs, and not the callback around it.  The caller sets `callee` to NULL once it
 * has looked whether the function has blocked. */
static inline void
enter(struct weir__fiber *fiber)
{
        static const struct weir__callee callee = {"the function of", "a fiber", NULL};
        struct weir__worker *worker = weir__worker_self();

        worker->fiber = fiber;
        atomic_store_explicit(&worker->object, &fiber->task.work, memory_order_relaxed);
        atomic_store_explicit(&worker->callee, &callee, memory_order_release);
        atomic_store_explicit(&fiber->at, NULL, memory_order_relaxed);
        atomic_store_explicit(&worker->function, (weir__function *)fiber->function, memory_order_relaxed);
        weir__context_enter(&fiber->context);
        worker->fiber = NULL;
}

static void
enter_elsewhere(void *fiber)
{
        enter(fiber);
}

/* On the thread of a fiber that is pinned, in hop mode on another thread, else here. */
static __attribute__((cold, noinline)) void
enter_somewhere(struct weir__fiber *fiber)
{
        if (fiber->partner && fiber->partner->pins > 0)
                weir__partner_run(fiber->partner, enter_elsewhere, fiber);
        else if (weir__hop_is_on)
                weir__hop(fiber->is_odd = !fiber->is_odd, enter_elsewhere, fiber);
        else
                enter(fiber);
}

static __attribute__((cold, noinline)) void
enter_traced(struct weir__fiber *fiber)
{
        struct weir__trace_facts facts = {
                .kind = "a fiber", .name = fiber->name, .name_size = (int)strlen(fiber->name), .awaited = kind_of_awaited(fiber)};
        struct weir__trace_slice slice;

        weir__series_trace(&fiber->inner, &slice);
        enter_somewhere(fiber);
        facts.has_status = fiber->wish == WEIR__FIBER_END;
        facts.status = fiber->task.status;
        weir__trace_end(&slice, &facts, weir__series_trace_flow(&fiber->inner));
}

/* The thread of a fiber that was pinned, and is over. */
static __attribute__((cold, noinline)) void
end_partner(struct weir__fiber *fiber)
{
        weir__partner_end(fiber->partner);
        weir__free(fiber->partner, sizeof *fiber->partner);
        fiber->partner = NULL;
}

/* Within the stretch. */
static __attribute__((cold, noinline)) void
move(struct weir__fiber *fiber)
{
        while (fiber->wish == WEIR__FIBER_MOVE)
                if (weir__trace_is_on())
                        enter_traced(fiber);
                else
                        enter_somewhere(fiber);
}

void
weir__fiber_run_stretch(struct weir__fiber *fiber)
{
        if (weir__trace_is_on())
                enter_traced(fiber);
        else if (__builtin_expect(atomic_load_explicit(&weir__stretches_move, memory_order_relaxed), 0))
                enter_somewhere(fiber);
        else
                enter(fiber);
        if (__builtin_expect(fiber->wish < WEIR__FIBER_END, 1))
                return;
        if (fiber->wish == WEIR__FIBER_MOVE)
                move(fiber);
        if (fiber->wish == WEIR__FIBER_END) {
                weir__stack_give(fiber->stack);
                fiber->stack = NULL;
                if (__builtin_expect(fiber->partner != NULL, 0))
                        end_partner(fiber);
        }
}

void
weir__fiber_report_blocked(struct weir__worker *worker, const struct weir__work *object)
{
        if (!worker->executor_ops && (!worker->poller || !weir__worker_resolve_owner(worker)))
                weir__blocked_report(worker, object);
}

void
weir__fiber_go_on(weir_task *task, void *context)
{
        struct weir__worker *worker = weir__worker_self();

        (void)context;
        weir__fiber_run_stretch(task->series->owner);
        if (weir__fiber_has_lost_poller(worker))
                weir__fiber_report_blocked(worker, atomic_load_explicit(&worker->object, memory_order_relaxed));
        atomic_store_explicit(&worker->callee, NULL, memory_order_relaxed);
}

static __attribute__((cold, noinline, noreturn)) void
panic_blocking(const struct weir__fiber *fiber)
{
        weir__panic("fiber %s awaits between weir_blocking_begin and weir_blocking_end: another thread may go on with it",
                    fiber->name);
}

void
weir__fiber_leave(struct weir__fiber *fiber, enum weir__fiber_wish wish, void *at)
{
        if (__builtin_expect(weir__worker_self()->blocking, 0) && wish != WEIR__FIBER_END)
                panic_blocking(fiber);
        fiber->wish = (uint8_t)wish;
        atomic_store_explicit(&fiber->at, at, memory_order_relaxed);
        if (wish == WEIR__FIBER_END)
                weir__context_end(&fiber->context);
        else
                weir__context_leave(&fiber->context);
}

/* The name of the fiber that owns the stack.  Called in a signal handler. */
static const char *
name_of_owner(const struct weir__stack *stack)
{
        const struct weir__fiber *fiber = stack->owner;

        return fiber ? fiber->name : NULL;
}

/* The log function is none of a fiber's. */
static void
log_beside_fiber(void (*log)(void *argument), void *argument)
{
        void *fiber = weir__user_hide_fiber();

        log(argument);
        weir__user_show_fiber(fiber);
}

static void
prepare(void)
{
        weir__stack_describe = name_of_owner;
        weir__log_around = log_beside_fiber;
        weir__hop_prepare();
        weir__fiber_prepare_trim();
}

WEIR__STEPS_OF(WEIR__MODULE_FIBERS, [WEIR__STEP_LOAD] = prepare);
