/* factory/fiber/limit.c: an await with a limit, and shields.
 *
 * Threads: a fiber, on its stack; a limit comes on any worker.
 * Locks:   that of the scope, for the cause that a limit gives, and for changes of `limit`.
 *
 * A limit is a timer beside the fiber.  When it comes, it gives the scope a cause that is valid for the present await, and so
 * ends what is awaited.  The fiber takes that cause back.  A cause that comes meanwhile for the whole fiber replaces it, and
 * stays.
 * A timer that comes too late finds another timer at its place, or none. */
#include <errno.h>

#include "factory/fiber/fiber.h"
#include "factory/task/series_extra.h"
#include "kernel/memory/memory.h"

/* -- limits -- */

static struct weir_task *
limit_of(struct weir__fiber *fiber)
{
        return atomic_load_explicit(&fiber->limit, memory_order_relaxed);
}

static void
set_limit(struct weir__fiber *fiber, struct weir_task *timer)
{
        atomic_store_explicit(&fiber->limit, timer, memory_order_relaxed);
}

/* `context` is the scope, with a reference. */
static void
limit_comes(weir_task *timer, void *context)
{
        struct weir_series *scope = context;
        struct weir_task *ended = NULL;

        if (timer->status)
                return;
        weir__lock(&scope->lock);
        struct weir__fiber *fiber = scope->state == WEIR__SERIES_FED ? scope->owner : NULL;
        if (fiber && limit_of(fiber) == timer) {
                set_limit(fiber, NULL);
                if (!weir__series_effective_cause(scope)) { /* else an early end of the fiber comes down, or was here */
                        weir__series_set_cause(scope, WEIR__CAUSE_OF_AWAIT);
                        if (scope->current)
                                ended = weir__task_ops(scope->current)->end_early(scope->current);
                }
        }
        weir__unlock(&scope->lock);
        weir__task_deliver_home(ended);
}

static void
drop_scope(void *context)
{
        weir_series_unref(context);
}

/* Returns the id of the limit, or 0 with *failed. */
static weir_timer_id
begin_limit(struct weir__fiber *fiber, weir_nsec limit, int *failed)
{
        struct weir_series *scope = fiber->scope;
        weir_task *timer = weir_timer_new(limit, limit_comes, NULL);

        weir_task_set_context(timer, weir__series_ref(scope), drop_scope);
        weir_timer_id id = weir_timer_id_of(timer);
        if (id) {
                weir__lock(&scope->lock);
                set_limit(fiber, timer);
                weir__unlock(&scope->lock);
                *failed = weir_task_start(timer);
                if (*failed) {
                        weir__lock(&scope->lock);
                        set_limit(fiber, NULL);
                        weir__unlock(&scope->lock);
                }
        } else {
                weir_task_dismiss(timer);
                *failed = -ENOMEM;
        }
        return *failed ? 0 : id;
}

static void
end_limit(struct weir__fiber *fiber, weir_timer_id id)
{
        struct weir_series *scope = fiber->scope;

        weir__lock(&scope->lock);
        set_limit(fiber, NULL);
        if (atomic_load_explicit(&scope->cause, memory_order_relaxed) == WEIR__CAUSE_OF_AWAIT)
                atomic_store_explicit(&scope->cause, 0, memory_order_relaxed);
        weir__unlock(&scope->lock);
        weir_timer_cancel_id(id);
}

int
weir__fiber_await_within(struct weir__fiber *fiber, struct weir_task *task, weir_nsec limit, void *at)
{
        if (limit == WEIR_FOREVER || !task || task->flags & WEIR__TASK_POISONED)
                return weir__fiber_await(fiber, task, at);
        int failed = weir__fiber_cause(fiber);
        if (!failed && limit <= 0)
                failed = -ETIMEDOUT;
        if (failed)
                return weir__fiber_refuse(fiber, task, failed);
        weir_timer_id id = begin_limit(fiber, limit, &failed);
        if (failed) { /* a shutdown refuses the timer, also of a fiber that was cancelled before */
                int cause = weir__fiber_cause(fiber);

                return weir__fiber_refuse(fiber, task, cause ? cause : failed);
        }
        int status = weir__fiber_await(fiber, task, at);
        end_limit(fiber, id);
        return status;
}

int
weir_await_within(weir_task *task, weir_nsec limit)
{
        struct weir__fiber *fiber = weir__fiber_self();

        if (fiber)
                return weir__fiber_await_within(fiber, task, limit, WEIR__FIBER_AT);
        weir_task_dismiss(task);
        return -EDEADLK;
}

/* -- shields -- */

static struct weir_series *
make_shield(struct weir__fiber *fiber)
{
        struct weir_series *shield = weir_series_new(NULL, NULL);

        if (!shield)
                return NULL;
        shield->work.ops = fiber->inner.work.ops;
        shield->owner = fiber;
        shield->state = WEIR__SERIES_FED;
        shield->index = WEIR__INDEX_SHIELD;
        shield->parent = &fiber->inner;
        shield->granularity = fiber->inner.granularity;
        return shield;
}

int
weir_fiber_shield(bool on)
{
        struct weir__fiber *fiber = weir__fiber_self();

        if (!fiber || (!on && fiber->shields == 0))
                return -EDEADLK;
        if (on && fiber->shields == WEIR__FIBER_SHIELDS_MOST)
                return -EOVERFLOW;
        if (on && !fiber->shield && !(fiber->shield = make_shield(fiber)))
                return -ENOMEM;
        weir__fiber_clear_own(fiber);
        fiber->shields += on ? 1 : -1;
        weir__lock(&fiber->inner.lock);
        fiber->scope = fiber->shields > 0 ? fiber->shield : &fiber->inner;
        weir__unlock(&fiber->inner.lock);
        return 0;
}
