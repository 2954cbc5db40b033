/* factory/flow/parallel.c: a task that runs several series at once.  How it does: factory/flow/combinator.h.
 *
 * A parallel that stops at a failure has its children within a series of its own, as a race has.  Most parallels do
 * without, so it is made when it is asked for. */
#include <weir/parallel.h>

#include <errno.h>

#include "factory/flow/combinator.h"

static bool
child_ended(struct weir__combinator *parallel, const struct weir_series *child, int result)
{
        if (!parallel->within) {
                weir__combinator_note_failure(parallel, child, result);
                return false;
        }
        if (!result || parallel->task.status)
                return false;
        parallel->task.status = result;
        return true;
}

static void
release(struct weir__combinator *parallel)
{
        weir__series_around_free(parallel->within);
}

static const struct weir__combinator_ops parallel_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a parallel"),
        .ended = child_ended,
        .release = release,
};

weir_task *
weir_parallel_new(weir_task_fn *done, void *context)
{
        return weir__combinator_new(&parallel_ops, sizeof(struct weir__combinator), done, context);
}

void
weir_parallel_add(weir_task *parallel, weir_task *task)
{
        weir__combinator_add_task(parallel, &parallel_ops, task, WEIR__ACT_PARALLEL_ADD);
}

void
weir_parallel_add_series(weir_task *parallel, weir_series *series)
{
        weir__combinator_add_series(parallel, &parallel_ops, series, WEIR__ACT_PARALLEL_ADD_SERIES);
}

void
weir_parallel_stop_on_failure(weir_task *parallel)
{
        struct weir__combinator *combinator = (struct weir__combinator *)parallel;

        if (!parallel)
                return;
        weir__task_expect_open(parallel, &parallel_ops.task, WEIR__ACT_PARALLEL_STOP_ON_FAILURE);
        if (!combinator->within && !(combinator->within = weir__series_around()))
                weir__task_poison(parallel, -ENOMEM);
}
