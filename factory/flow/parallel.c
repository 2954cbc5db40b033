/* factory/flow/parallel.c: a task that runs several series at once.  How it does: factory/flow/combinator.h. */
#include <weir/parallel.h>

#include "factory/flow/combinator.h"
#include "kernel/memory/memory.h"

struct parallel {
        struct weir__combinator combinator; /* first */
        unsigned failed_index;      /* of the child whose status the parallel has; guarded by the combinator's lock */
};

static bool
child_ended(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        struct parallel *parallel = (struct parallel *)combinator;

        if (result && (!combinator->task.status || child->index < parallel->failed_index)) {
                combinator->task.status = result;
                parallel->failed_index = child->index;
        }
        return false;
}

static const struct weir__combinator_ops parallel_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a parallel"),
        .ended = child_ended,
};

weir_task *
weir_parallel_new(weir_task_fn *done, void *context)
{
        struct parallel *parallel = weir__alloc(sizeof *parallel);

        if (!parallel)
                return NULL;
        parallel->failed_index = 0;
        weir__combinator_init(&parallel->combinator, &parallel_ops, sizeof *parallel, done, context);
        return &parallel->combinator.task;
}

void
weir_parallel_add(weir_task *parallel, weir_task *task)
{
        weir__combinator_add_task(parallel, &parallel_ops, task, "weir_parallel_add");
}

void
weir_parallel_add_series(weir_task *parallel, weir_series *series)
{
        weir__combinator_add_series(parallel, &parallel_ops, series, "weir_parallel_add_series");
}
