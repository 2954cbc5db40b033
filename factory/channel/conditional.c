/* factory/channel/conditional.c: conditions, and tasks that are held back until theirs is signalled.
 *
 * A condition is an event that comes once (factory/channel/oneshot.h).  A conditional is a combinator with one child: a wait for
 * the condition, and the task behind that.
 *
 * Threads: any; `run` on a worker. */
#include <weir/conditional.h>

#include <errno.h>

#include "factory/flow/combinator.h"
#include "factory/channel/oneshot.h"
#include "kernel/base/phase.h"

/* -- conditions -- */

struct weir_condition {
        struct weir__oneshot oneshot; /* all there is */
};

static const struct weir__waitable_ops condition_ops = WEIR__ONESHOT_OPS(WEIR__CONDITION, "condition", NULL);

weir_condition *
weir_condition_new(void)
{
        return (weir_condition *)weir__waitable_new(&condition_ops, 1, 0, NULL);
}

WEIR__WAITABLE_REFERENCES(weir_condition, weir_condition_ref, weir_condition_unref)

int
weir_condition_signal(weir_condition *condition)
{
        int failed = weir__waitable_fault((struct weir__waitable *)condition);

        return failed ? failed : weir__oneshot_count(&condition->oneshot, 1) ? 0 : -EALREADY;
}

size_t
weir_condition_signal_named(const char *name, size_t max)
{
        return weir__oneshot_count_named(&condition_ops, name, max, NULL);
}

/* -- conditionals -- */

/* A task that did not start is dropped before the callback says why. */
static void
run(struct weir__work *work)
{
        weir__combinator_drop_held((struct weir__combinator *)work);
        weir__task_complete(work);
}

static const struct weir__combinator_ops conditional_ops = {
        .task = WEIR__COMBINATOR_OPS_WITH("a conditional", run, weir__combinator_start),
};

/* Consumes `task`, also on failure. */
static weir_task *
new_conditional(struct weir__wait_task *wait, struct weir_task *task, weir_task_fn *done, void *context)
{
        struct weir__combinator *conditional = weir__combinator_new(&conditional_ops, sizeof *conditional, done, context);

        if (!conditional) {
                if (wait)
                        weir_task_dismiss(&wait->task);
                if (task)
                        weir__task_discard(task);
                return NULL;
        }
        weir__combinator_add_behind(&conditional->task, &conditional_ops, wait ? &wait->task : NULL, task, WEIR__ACT_CONDITIONAL);
        return &conditional->task;
}

static const struct weir__task_ops wait_ops = WEIR__WAIT_TASK_OPS("a condition", weir__wait_run, weir__wait_release);
static const struct weir__task_ops named_ops = WEIR__WAIT_TASK_OPS("a condition", weir__wait_run, weir__oneshot_release);

weir_task *
weir_conditional_new(weir_condition *condition, weir_task *task, weir_task_fn *done, void *context)
{
        if (task)
                weir__task_consume(task, WEIR__ACT_CONDITIONAL);
        return new_conditional(weir__wait_task_new(&wait_ops, (struct weir__waitable *)condition, 0, NULL, NULL), task, done,
                               context);
}

weir_task *
weir_conditional_new_named(const char *name, weir_task *task, weir_task_fn *done, void *context)
{
        if (task)
                weir__task_consume(task, WEIR__ACT_CONDITIONAL_NAMED);
        return new_conditional(weir__oneshot_new_named(&named_ops, &condition_ops, name, 1, NULL, NULL), task, done, context);
}
