/* factory/flow/flow.c: a series as one task, a limit around a task, and tasks that are made while the flow runs.  How they run
 * others: factory/flow/combinator.h. */
#include <weir/flow.h>

#include <errno.h>

#include "factory/flow/combinator.h"
#include "factory/task/series_extra.h"
#include "kernel/observe/log.h"

/* -- module -- */

static const struct weir__combinator_ops module_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a module"),
};

weir_task *
weir_module_new(weir_series *series, weir_task_fn *done, void *context)
{
        struct weir__combinator *module = weir__combinator_new(&module_ops, sizeof *module, done, context);

        if (!module) {
                weir_series_dismiss(series);
                return NULL;
        }
        weir__combinator_add_series(&module->task, &module_ops, series, WEIR__ACT_MODULE);
        return &module->task;
}

/* -- timeout -- */

struct timeout {
        struct weir__combinator combinator; /* first */
        weir_nsec limit;
};

/* The deadline may come when the task itself has ended well, but not what its callback has pushed. */
static bool
timed_ended(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        combinator->task.status = result ? result : weir__series_effective_cause(child);
        return false;
}

static void
timeout_start(struct weir_task *task)
{
        struct timeout *timeout = (struct timeout *)task;

        weir_series_set_deadline(timeout->combinator.children[0], timeout->limit); /* whose memory is there */
        weir__combinator_start(task);
}

static const struct weir__combinator_ops timeout_ops = {
        .task = WEIR__COMBINATOR_OPS_WITH("a timeout", weir__task_complete, timeout_start),
        .ended = timed_ended,
};

weir_task *
weir_timeout_new(weir_task *task, weir_nsec limit)
{
        struct timeout *timeout = weir__combinator_new(&timeout_ops, sizeof *timeout, NULL, NULL);

        if (!timeout) {
                weir_task_dismiss(task);
                return NULL;
        }
        timeout->limit = limit;
        weir__combinator_add_task(&timeout->combinator.task, &timeout_ops, task, WEIR__ACT_TIMEOUT);
        struct weir_series *child = timeout->combinator.count > 0 ? timeout->combinator.children[0] : NULL;
        if (child && !weir__series_extra_get(child))
                weir__task_poison(&timeout->combinator.task, -ENOMEM);
        if (child)
                child->starts_once_over = true; /* the callback sees -ETIMEDOUT, however short the limit is */
        return &timeout->combinator.task;
}

/* -- repeater, dynamic task -- */

struct maker {
        struct weir__combinator combinator; /* first */
        weir_make_fn *make;
};

static struct weir_series *
make_next(struct weir__combinator *combinator)
{
        int fault;
        struct weir_series *series = weir__combinator_make_child(combinator, ((struct maker *)combinator)->make, &fault);

        if (fault)
                combinator->task.status = fault;
        return series;
}

static const struct weir__combinator_ops repeater_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a repeater"),
        .next = make_next,
};

static const struct weir__combinator_ops dynamic_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a dynamic task"),
        .next = make_next,
        .most = 1,
};

static weir_task *
new_maker(const struct weir__combinator_ops *ops, weir_make_fn *make, weir_task_fn *done, void *context)
{
        struct maker *maker = weir__combinator_new(ops, sizeof *maker, done, context);

        if (!maker)
                return NULL;
        maker->make = make;
        if (!make)
                weir__task_poison(&maker->combinator.task,
                                  weir__log_refusal("%s without a function: expected one that makes tasks", ops->task.work.kind));
        return &maker->combinator.task;
}

weir_task *
weir_repeater_new(weir_make_fn *make, weir_task_fn *done, void *context)
{
        return new_maker(&repeater_ops, make, done, context);
}

weir_task *
weir_dynamic_new(weir_make_fn *make, weir_task_fn *done, void *context)
{
        return new_maker(&dynamic_ops, make, done, context);
}
