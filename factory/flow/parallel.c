/* factory/flow/parallel.c: a task that runs several series at once.  How it does: factory/flow/combinator.h. */
#include <weir/parallel.h>

#include "factory/flow/combinator.h"

static bool
child_ended(struct weir__combinator *parallel, const struct weir_series *child, int result)
{
        weir__combinator_note_failure(parallel, child, result);
        return false;
}

static const struct weir__combinator_ops parallel_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a parallel"),
        .ended = child_ended,
};

weir_task *
weir_parallel_new(weir_task_fn *done, void *context)
{
        return weir__combinator_new(&parallel_ops, sizeof(struct weir__combinator), done, context);
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
