/* factory/flow/flow.c: a series as one task, a limit around a task, and tasks that are made while the flow runs.  How they run
 * others: factory/flow/family.h. */
#include <weir/flow.h>

#include <errno.h>

#include "factory/flow/family.h"
#include "factory/task/series_extra.h"
#include "kernel/memory/memory.h"

/* There is one child at a time: its result is the status. */
static bool
child_ended(struct weir__family *family, const struct weir_series *child, int result)
{
        (void)child;
        family->task.status = result;
        return false;
}

/* -- module -- */

static const struct weir__family_ops module_ops = {
        .task = WEIR__FAMILY_TASK_OPS("a module"),
        .ended = child_ended,
};

weir_task *
weir_module_new(weir_series *series, weir_task_fn *done, void *context)
{
        struct weir__family *module = weir__alloc(sizeof *module);

        if (!module) {
                weir_series_dismiss(series);
                return NULL;
        }
        weir__family_init(module, &module_ops, sizeof *module, done, context);
        weir__family_add_series(&module->task, &module_ops, series, "weir_module_new");
        return &module->task;
}

/* -- timeout -- */

struct timeout {
        struct weir__family family; /* first */
        weir_nsec limit;
};

/* The deadline may come when the task itself has ended well, but not what its callback has pushed. */
static bool
timed_ended(struct weir__family *family, const struct weir_series *child, int result)
{
        family->task.status = result ? result : weir__series_cause(child);
        return false;
}

static void
timeout_start(struct weir_task *task)
{
        struct timeout *timeout = (struct timeout *)task;

        weir_series_set_deadline(timeout->family.first, timeout->limit); /* whose memory is there */
        weir__family_start(task);
}

static const struct weir__family_ops timeout_ops = {
        .task = {.work = WEIR__FAMILY_WORK_OPS("a timeout"),
                 .start = timeout_start,
                 .cancel = weir__family_cancel,
                 .release = weir__family_release,
                 .child = weir__family_child,
                 .describe = weir__family_describe},
        .ended = timed_ended,
};

weir_task *
weir_timeout_new(weir_task *task, weir_nsec limit)
{
        struct timeout *timeout = weir__alloc(sizeof *timeout);

        if (!timeout) {
                weir_task_dismiss(task);
                return NULL;
        }
        weir__family_init(&timeout->family, &timeout_ops, sizeof *timeout, NULL, NULL);
        timeout->limit = limit;
        weir__family_add_task(&timeout->family.task, &timeout_ops, task, "weir_timeout_new");
        if (timeout->family.first && !weir__series_extra_get(timeout->family.first))
                weir__family_poison(&timeout->family, -ENOMEM);
        return &timeout->family.task;
}

/* -- repeater, dynamic task -- */

struct maker {
        struct weir__family family; /* first */
        weir_make_fn *make;
};

static struct weir_series *
make_next(struct weir__family *family)
{
        int fault;
        struct weir_series *series = weir__family_make(family, ((struct maker *)family)->make, &fault);

        if (fault)
                family->task.status = fault;
        return series;
}

static const struct weir__family_ops repeater_ops = {
        .task = WEIR__FAMILY_TASK_OPS("a repeater"),
        .ended = child_ended,
        .next = make_next,
};

static const struct weir__family_ops dynamic_ops = {
        .task = WEIR__FAMILY_TASK_OPS("a dynamic task"),
        .ended = child_ended,
        .next = make_next,
        .most = 1,
};

static weir_task *
new_maker(const struct weir__family_ops *ops, weir_make_fn *make, weir_task_fn *done, void *context)
{
        struct maker *maker = weir__alloc(sizeof *maker);

        if (!maker)
                return NULL;
        weir__family_init(&maker->family, ops, sizeof *maker, done, context);
        maker->make = make;
        if (!make)
                weir__family_poison(&maker->family, -EINVAL);
        return &maker->family.task;
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
