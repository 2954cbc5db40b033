/* factory/sync/waitgroup_start.c: tasks and series that count in a group until they are over.
 *
 * Threads: any.  The end comes on the worker that ends the series. */
#include <errno.h>

#include <weir/waitgroup.h>

#include "factory/task/series.h"
#include "kernel/runtime/runtime.h"

/* All callbacks and free functions have run, but for functions that a limit has left behind.  The memory of the series goes right
 * after. */
static void
counted_ended(struct weir_series *series)
{
        weir_waitgroup *group = series->owner;

        weir__runtime_leave();
        weir_waitgroup_done(group);
}

static int
start(struct weir_series *series, weir_waitgroup *group, enum weir__act act)
{
        static const struct weir__series_ops ops = {.work = WEIR__SERIES_WORK, .ended = counted_ended};

        weir_waitgroup_add(group, 1);
        int failed = weir__series_start_as(series, &ops, group, act);
        if (failed)
                weir_waitgroup_done(group);
        return failed;
}

int
weir_task_start_waited(weir_task *task, weir_waitgroup *group)
{
        if (!task)
                return -ENOMEM;
        weir__task_consume(task, WEIR__ACT_START_WAITED);
        int fault = task->flags & WEIR__TASK_POISONED ? task->status : group ? 0 : -ENOMEM;
        if (fault) {
                weir__task_discard(task);
                return fault;
        }
        struct weir_series *series = weir__series_wrap(task);
        return series ? start(series, group, WEIR__ACT_SERIES_START_WAITED) : -ENOMEM;
}

int
weir_series_start_waited(weir_series *series, weir_waitgroup *group)
{
        if (series && group)
                return start(series, group, WEIR__ACT_SERIES_START_WAITED);
        weir_series_dismiss(series);
        return -ENOMEM;
}
