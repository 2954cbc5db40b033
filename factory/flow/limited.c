/* factory/flow/limited.c: a task that runs another one while it has tokens of a semaphore.
 *
 *     acquires --has them--> runs the other one --> gives them back, calls back
 *         \--ends without--> drops the other one --^
 *
 * It runs its children as a combinator (factory/flow/combinator.h).  Each task that was started passes through `run` once, when
 * nothing is pending any more.  So `run` gives the tokens back.  A task that was never started has none. */
#include <weir/semaphore.h>

#include <errno.h>

#include "factory/flow/combinator.h"
#include "kernel/memory/memory.h"

struct limited {
        struct weir__combinator combinator; /* first */

        weir_semaphore *semaphore; /* constant; with a reference */
        uint64_t tokens;           /* constant */

        /* Of the worker that runs it. */
        struct weir_series *other; /* NULL: it is a child, or there is none */
        bool has_them;
};

static bool
child_ended(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        struct limited *limited = (struct limited *)combinator;

        (void)child;
        combinator->task.status = result;
        if (limited->other) /* so that was the wait for the tokens */
                limited->has_them = result == 0;
        return false;
}

static struct weir_series *
next(struct weir__combinator *combinator)
{
        struct limited *limited = (struct limited *)combinator;
        struct weir_series *other = limited->has_them ? limited->other : NULL;

        if (other)
                limited->other = NULL;
        return other;
}

static void
run(struct weir__work *work)
{
        struct limited *limited = (struct limited *)work;

        if (limited->has_them)
                weir_semaphore_release(limited->semaphore, limited->tokens);
        weir__task_run(work);
}

static void
release(struct weir__combinator *combinator)
{
        struct limited *limited = (struct limited *)combinator;

        if (limited->other)
                weir__series_discard(limited->other);
        weir_semaphore_unref(limited->semaphore);
}

static const struct weir__combinator_ops limited_ops = {
        .task = WEIR__COMBINATOR_OPS_WITH("a limited task", run, weir__combinator_start),
        .ended = child_ended,
        .next = next,
        .most = 2,
        .release = release,
};

weir_task *
weir_limited_new(weir_semaphore *semaphore, uint64_t tokens, weir_task *task, weir_task_fn *done, void *context)
{
        struct limited *limited = weir__alloc(sizeof *limited);

        if (!limited) {
                weir_task_dismiss(task);
                return NULL;
        }
        weir__combinator_init(&limited->combinator, &limited_ops, sizeof *limited, done, context);
        limited->semaphore = weir_semaphore_ref(semaphore);
        limited->tokens = tokens;
        limited->has_them = false;
        if (task)
                weir__task_consume(task, "weir_limited_new");
        limited->other = weir__combinator_wrap(&limited->combinator, task);
        weir_task *acquire = weir_semaphore_acquire_new(semaphore, tokens, NULL, NULL);
        weir__combinator_add_task(&limited->combinator.task, &limited_ops, acquire, "weir_limited_new");
        return &limited->combinator.task;
}
