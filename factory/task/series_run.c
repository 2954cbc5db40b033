/* factory/task/series_run.c: a thread that is no worker starts a series and waits for its end; a series in a larger block; a part
 * of a flow is discarded.
 *
 * Threads: any but workers for the first; any for the others. */
#include <errno.h>

#include "factory/task/series.h"
#include "kernel/runtime/runtime.h"
#include "kernel/runtime/virtual.h"
#include "kernel/worker/worker.h"

/* A thread that waits for a series; on its stack. */
struct waiter {
        struct weir__latch is_over;
        bool has_given; /* of weir__runtime_wait_begin */
};

/* The wait ends here, so that the virtual clock does not advance before the waiter is awake. */
static void
waited_for_ended(struct weir_series *series)
{
        struct waiter *waiter = series->owner;

        weir__runtime_leave();
        weir__runtime_wait_end(waiter->has_given);
        weir__latch_open(&waiter->is_over);
}

int
weir_series_run(weir_series *series)
{
        static const struct weir__series_ops ops = {.work = WEIR__SERIES_WORK, .ended = waited_for_ended};
        struct waiter waiter = {.has_given = weir__worker_has_given()};
        int status = weir__runtime_may_wait(), entered = 0;

        if (!series)
                return status ? status : -ENOMEM;
        if (!status)
                status = entered = weir__virtual_enter();
        if (status < 0) {
                weir_series_dismiss(series);
                return status;
        }
        weir_series_ref(series);
        status = weir__series_start_as(series, &ops, &waiter, WEIR__ACT_SERIES_RUN);
        if (!status) {
                weir__runtime_wait_begin(waiter.has_given); /* not before the start: time would not wait for what is started */
                weir__latch_wait(&waiter.is_over);
                status = weir__series_result(series);
        }
        weir_series_unref(series);
        if (entered)
                weir__virtual_leave();
        return status;
}

void
weir__series_part_init(struct weir_series *series, const struct weir__series_ops *ops, unsigned poller)
{
        series->work.ops = &ops->work;
        series->poller = (uint8_t)poller;
        series->is_part = true;
        atomic_init(&series->references, 1);
        weir__lock_init(&series->lock, WEIR__RANK_SERIES);
}

int
weir__series_part_start(struct weir_series *series)
{
        weir__lock(&series->lock);
        int poison = series->poison;
        weir__unlock(&series->lock);
        return weir__series_start_root(series, (const struct weir__series_ops *)series->work.ops, series->owner, poison);
}

void
weir__series_discard_part(struct weir_task *task)
{
        if (!weir__task_ops(task)->release) {
                weir__task_discard(task);
                return;
        }
        struct weir_series *series = weir__series_wrap(task);
        if (series) /* else there was no memory, and the task was discarded */
                weir__series_discard(series);
}
