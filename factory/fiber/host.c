/* factory/fiber/host.c: fibers that begin in the callback of a task, their host.
 *
 *     hosted: runs in the callback, in no series --it returns--> freed
 *                                                --it waits--> within the series of the host, and its next task
 *
 * Threads: the worker that runs the callback; the fiber, on its stack, leaves the host.
 * Locks:   that of the inner series, when it enters that of the host. */
#include <weir/runtime.h>

#include "factory/fiber/fiber.h"
#include "kernel/base/panic.h"
#include "kernel/worker/user.h"

static bool
can_be_host(const struct weir_task *task)
{
        return weir__task_of_callback() == task && !task->series && !weir__fiber_self();
}

/* The fiber has not waited, and nobody else knows it. */
static void
free_hosted(struct weir__fiber *fiber)
{
        weir__task_release(&fiber->task, false);
        weir_series_unref(&fiber->inner);
        weir_series_unref(&fiber->inner);
}

/* A fiber that waits must not be lost: its stack is alive.  It is sound and in no series, the series has not ended inside the
 * callback of its own task, and in a child of fork no stretch comes back.  So no push fails. */
static void
go_on_behind(struct weir_series *series, struct weir__fiber *fiber)
{
        const char *name = fiber->name;
        int failed = weir_series_push_front(series, &fiber->task);

        if (__builtin_expect(failed, 0))
                weir__panic("weir_fiber_begin: fiber %s waits, and the series of its task has not taken it: %s", name,
                            weir_strerror(failed));
}

/* Runs the first stretch here and now.  A fiber that waits goes on in the series of the host, behind this callback. */
static int
begin_hosted(struct weir__fiber *fiber, struct weir_task *host)
{
        struct weir__worker *worker = weir__worker_self();
        int failed = weir__fiber_take_stack(fiber);

        if (failed) {
                weir_task_dismiss(&fiber->task);
                return failed;
        }
        fiber->host = host;
        fiber->is_hosted = fiber->is_begun = true;
        weir__fiber_run_stretch(fiber);
        atomic_store_explicit(&worker->callee, NULL, memory_order_relaxed);
        if (fiber->is_hosted)
                free_hosted(fiber);
        else
                go_on_behind(host->series, fiber);
        return 0;
}

int
weir_fiber_begin_as(const char *name, weir_task *task, weir_fiber_fn *function, void *context)
{
        weir_task *fiber = weir_fiber_new_as(name, function, NULL, context);

        if (fiber && task && !(fiber->flags & WEIR__TASK_POISONED) && can_be_host(task))
                return begin_hosted((struct weir__fiber *)fiber, task);
        return weir_series_push_front(weir_series_of(task), fiber);
}
