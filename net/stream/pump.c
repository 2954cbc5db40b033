/* net/stream/pump.c: a task that carries bytes from one stream to another.
 *
 *     read --> write of what was read --> read ... --> the end of the input
 *
 * Threads: each step is a task of its own, on the poller of its stream; between two steps, the worker that ends the first one.
 * Locks:   none; one step is under way at a time. */
#include <weir/pump.h>

#include <errno.h>
#include <stdlib.h>

#include "factory/flow/combinator.h"
#include "net/stream/stream.h"

#define AT_ONCE ((size_t)64 * 1024) /* bytes of one read */

struct pump {
        struct weir__combinator combinator; /* first */
        weir_stream *from, *to;             /* uses */

        /* The step's that is under way, then the next one's. */
        char *held;      /* what was read and not yet written; or NULL */
        size_t size;     /* of it */
        bool is_writing; /* the step writes */
        bool has_end;    /* of the input */
        bool has_failed;
        uint64_t moved;
};

/* The callback of a read. */
static void
take(weir_task *read, void *context)
{
        struct pump *pump = context;
        int status = weir_task_status(read);

        pump->has_end = status == -EPIPE;
        if (status == 0 || pump->has_end) /* else the bytes went back */
                pump->held = weir__stream_take_data(read, &pump->size);
}

static bool
ended(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        struct pump *pump = (struct pump *)combinator;

        (void)child;
        if (!pump->is_writing && result == -EPIPE)
                result = 0;
        pump->has_failed = result;
        combinator->task.status = result;
        return false;
}

/* The step that runs the task.  NULL when out of memory. */
static struct weir_series *
step(struct weir_task *task)
{
        if (!task)
                return NULL;
        weir__task_consume(task, WEIR__ACT_MAKE);
        return weir__series_wrap(task);
}

static struct weir_series *
next(struct weir__combinator *combinator)
{
        struct pump *pump = (struct pump *)combinator;
        struct weir_series *series;

        if (pump->has_failed)
                return NULL;
        if (pump->is_writing) { /* and that is done */
                pump->moved += pump->size;
                free(pump->held);
                pump->held = NULL;
                pump->is_writing = false;
        }
        if (!pump->held && pump->has_end)
                return NULL;
        pump->is_writing = pump->held;
        series = step(pump->held ? weir_stream_write_lent_new(pump->to, pump->held, pump->size, NULL, NULL)
                                 : weir_stream_read_new(pump->from, 1, AT_ONCE, take, pump));
        if (!series)
                combinator->task.status = -ENOMEM;
        return series;
}

static void
release(struct weir__combinator *combinator)
{
        struct pump *pump = (struct pump *)combinator;

        if (pump->held) {
                weir_stream_break(pump->from);
                weir_stream_break(pump->to);
        }
        free(pump->held);
        weir_stream_unref(pump->from);
        weir_stream_unref(pump->to);
}

static const struct weir__combinator_ops pump_ops = {
        .task = WEIR__COMBINATOR_TASK_OPS("a pump"), .ended = ended, .next = next, .release = release};

weir_task *
weir_pump_new(weir_stream *from, weir_stream *to, weir_task_fn *done, void *context)
{
        struct pump *pump = weir__combinator_new(&pump_ops, sizeof *pump, done, context);

        if (!pump)
                return NULL;
        pump->from = weir__stream_use(from);
        pump->to = weir__stream_use(to);
        pump->held = NULL;
        pump->is_writing = pump->has_end = pump->has_failed = false;
        pump->moved = 0;
        if (!from || !to)
                weir__task_poison(&pump->combinator.task, -ENOMEM);
        return &pump->combinator.task;
}

uint64_t
weir_pump_moved(const weir_task *task)
{
        return task && task->work.ops == &pump_ops.task.work ? ((const struct pump *)task)->moved : 0;
}
