/* factory/channel/conditional.c: conditions, and tasks that are held back until theirs is signalled.
 *
 * A condition is an event that comes once (factory/channel/oneshot.h).  A conditional is a combinator of two children, one after
 * the other: a wait for the condition, and, once that has ended well, the task.
 *
 * Threads: any; `next` and `run` on a worker, as the combinator's. */
#include <weir/conditional.h>

#include <errno.h>

#include "factory/flow/combinator.h"
#include "factory/channel/oneshot.h"
#include "kernel/memory/memory.h"
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

weir_condition *
weir_condition_ref(weir_condition *condition)
{
        return (weir_condition *)weir__waitable_ref((struct weir__waitable *)condition);
}

void
weir_condition_unref(weir_condition *condition)
{
        weir__waitable_unref((struct weir__waitable *)condition);
}

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

struct conditional {
        struct weir__combinator combinator; /* first; its first child waits */
        struct weir_series *held;           /* the task in a series that was not started; NULL: it was, or there is none */
};

static void
drop_held(struct conditional *conditional)
{
        struct weir_series *held = conditional->held;

        conditional->held = NULL;
        if (held)
                weir__series_discard(held);
}

/* The task is dropped before the callback says why. */
static void
run(struct weir__work *work)
{
        drop_held((struct conditional *)work);
        weir__task_run(work);
}

static void
release(struct weir__combinator *combinator)
{
        drop_held((struct conditional *)combinator);
}

/* The wait has ended well.  Anything else that ends the wait ends the combinator, which then asks for no child. */
static struct weir_series *
next(struct weir__combinator *combinator)
{
        struct conditional *conditional = (struct conditional *)combinator;
        struct weir_series *held = conditional->held;

        conditional->held = NULL;
        return held;
}

static const struct weir__combinator_ops conditional_ops = {
        .task = WEIR__COMBINATOR_OPS_WITH("a conditional", run, weir__combinator_start),
        .next = next,
        .most = 2,
        .release = release,
};

/* Of a task that was consumed. */
static weir_task *
new_conditional(struct weir__wait_task *wait, struct weir_task *task, weir_task_fn *done, void *context)
{
        struct conditional *conditional = weir__alloc(sizeof *conditional);

        if (!conditional) {
                if (wait)
                        weir_task_dismiss(&wait->task);
                if (task)
                        weir__task_discard(task);
                return NULL;
        }
        weir__combinator_init(&conditional->combinator, &conditional_ops, sizeof *conditional, done, context);
        conditional->held = NULL;
        weir__combinator_add_task(&conditional->combinator.task, &conditional_ops, wait ? &wait->task : NULL,
                                  "weir_conditional_new");
        conditional->held = weir__combinator_wrap(&conditional->combinator, task);
        return &conditional->combinator.task;
}

static const struct weir__task_ops wait_ops = WEIR__WAIT_TASK_OPS("a condition", weir__wait_run, weir__wait_release);
static const struct weir__task_ops named_ops = WEIR__WAIT_TASK_OPS("a condition", weir__wait_run, weir__oneshot_release);

weir_task *
weir_conditional_new(weir_condition *condition, weir_task *task, weir_task_fn *done, void *context)
{
        if (task)
                weir__task_consume(task, "weir_conditional_new");
        return new_conditional(weir__wait_task_new(&wait_ops, (struct weir__waitable *)condition, 0, NULL, NULL), task, done,
                               context);
}

weir_task *
weir_conditional_new_named(const char *name, weir_task *task, weir_task_fn *done, void *context)
{
        if (task)
                weir__task_consume(task, "weir_conditional_new_named");
        return new_conditional(weir__oneshot_new_named(&named_ops, &condition_ops, name, 1, NULL, NULL), task, done, context);
}
