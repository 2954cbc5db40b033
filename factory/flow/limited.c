/* factory/flow/limited.c: a task that runs another one while it has tokens of a semaphore.
 *
 *     acquires --has them--> runs the other one --> gives them back --> calls back
 *         \--ends without--> drops the other one --> calls back
 *
 * It is a combinator (factory/flow/combinator.h) with one child: the wait for the tokens, and the other task behind that.  Each
 * limited task that was started passes through `run` once, when nothing is pending any more.  So `run` gives the tokens back.  A
 * task that was never started has none. */
#include <weir/semaphore.h>

#include "factory/flow/combinator.h"

struct limited {
        struct weir__combinator combinator; /* first */

        /* Constant. */
        weir_semaphore *semaphore; /* with a reference */
        uint64_t tokens;
};

static void
run(struct weir__work *work)
{
        struct limited *limited = (struct limited *)work;

        if (!limited->combinator.held) /* so the tokens were acquired */
                weir_semaphore_release(limited->semaphore, limited->tokens);
        weir__combinator_drop_held(&limited->combinator);
        weir__task_complete(work);
}

static void
release(struct weir__combinator *combinator)
{
        weir_semaphore_unref(((struct limited *)combinator)->semaphore);
}

static const struct weir__combinator_ops limited_ops = {
        .task = WEIR__COMBINATOR_OPS_WITH("a limited task", run, weir__combinator_start),
        .release = release,
};

weir_task *
weir_limited_new(weir_semaphore *semaphore, uint64_t tokens, weir_task *task, weir_task_fn *done, void *context)
{
        struct limited *limited = weir__combinator_new(&limited_ops, sizeof *limited, done, context);

        if (!limited) {
                weir_task_dismiss(task);
                return NULL;
        }
        limited->semaphore = weir_semaphore_ref(semaphore);
        limited->tokens = tokens;
        if (task)
                weir__task_consume(task, WEIR__ACT_LIMITED);
        weir__combinator_add_behind(&limited->combinator.task, &limited_ops,
                                    weir_semaphore_acquire_new(semaphore, tokens, NULL, NULL), task, WEIR__ACT_LIMITED);
        return &limited->combinator.task;
}
