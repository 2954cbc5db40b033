/* net/stream/pump.c: a task that carries bytes from one stream to another.
 *
 *     read --> write of what was read --> read ... --> the end of the input
 *
 * A step that has carried many bytes is followed by one that has the system move them through a pipe, if it can do that with both
 * streams (splice.c).  Small pieces are copied, which is faster.
 *
 * Threads: each step is a task of its own, on the poller of its stream; between two steps, the worker that ends the first one.
 * Locks:   none; one step is under way at a time. */
#include <weir/pump.h>

#include <errno.h>
#include <stdlib.h>

#include "factory/flow/combinator.h"
#include "net/stream/splice.h"
#include "net/stream/stream.h"

#define COPIED_AT_ONCE ((size_t)64 * 1024) /* bytes of a read */
#define SPLICED_FROM   ((size_t)16 * 1024) /* bytes of a step: the next one may take a pipe */

struct pump {
        struct weir__combinator combinator; /* first */
        weir_stream *from, *to;             /* uses */

        /* The step's that is under way, then the next one's. */
        struct weir__splice splice; /* what was read and not yet written, if it is in a pipe */
        char *held;                 /* the same in memory; or NULL */
        size_t size;                /* of what was read last, or is written */
        bool is_writing;            /* the step writes */
        bool has_end;               /* of the input */
        bool has_failed;
        bool is_cut; /* by the series, not by a stream */
        uint64_t moved;
};

/* The callback of a read. */
static void
take(weir_task *read, void *context)
{
        struct pump *pump = context;
        int status = weir_task_status(read);

        pump->has_end = status == -EPIPE;
        if (status != 0 && !pump->has_end) /* the bytes went back */
                return;
        pump->held = weir__stream_take_data(read, &pump->size);
        if (pump->splice.size)
                pump->size = pump->splice.size;
        pump->splice.unwritten = pump->size;
}

static bool
ended(struct weir__combinator *combinator, const struct weir_series *child, int result)
{
        struct pump *pump = (struct pump *)combinator;

        if (!pump->is_writing && result == -EPIPE)
                result = 0;
        if (pump->is_writing)
                pump->moved += pump->size - pump->splice.unwritten;
        pump->has_failed = result;
        pump->is_cut = result == -ESHUTDOWN || weir__series_effective_cause(child);
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

/* The bytes that were read last are still held. */
static bool
has_bytes(const struct pump *pump)
{
        return pump->held || pump->splice.size;
}

static void
let_go(struct pump *pump)
{
        free(pump->held);
        pump->held = NULL;
        weir__splice_done(&pump->splice);
}

static struct weir_task *
next_task(struct pump *pump)
{
        if (pump->is_writing)
                return weir__stream_write_of_splice_new(pump->to, &pump->splice, pump->held, pump->size);
        if (pump->size >= SPLICED_FROM)
                return weir__stream_read_for_splice_new(pump->from, &pump->splice, take, pump);
        return weir_stream_read_new(pump->from, 1, COPIED_AT_ONCE, take, pump);
}

static struct weir_series *
next(struct weir__combinator *combinator)
{
        struct pump *pump = (struct pump *)combinator;

        if (pump->has_failed)
                return NULL;
        if (pump->is_writing) /* and that is done */
                let_go(pump);
        pump->is_writing = has_bytes(pump);
        if (!pump->is_writing && pump->has_end)
                return NULL;
        struct weir_series *series = step(next_task(pump));
        if (!series)
                combinator->task.status = -ENOMEM;
        return series;
}

static void
release(struct weir__combinator *combinator)
{
        struct pump *pump = (struct pump *)combinator;

        if (has_bytes(pump) && pump->splice.unwritten) {
                weir_stream_break(pump->from);
                weir_stream_break(pump->to);
        }
        let_go(pump);
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
        pump->splice = (struct weir__splice){.size = 0};
        pump->held = NULL;
        pump->size = 0;
        pump->is_writing = pump->has_end = pump->has_failed = pump->is_cut = false;
        pump->moved = 0;
        if (!from || !to)
                weir__task_poison(&pump->combinator.task, -ENOMEM);
        return &pump->combinator.task;
}

/* NULL for another task. */
static const struct pump *
pump_of(const weir_task *task)
{
        return task && task->work.ops == &pump_ops.task.work ? (const struct pump *)task : NULL;
}

uint64_t
weir_pump_moved(const weir_task *task)
{
        const struct pump *pump = pump_of(task);

        return pump ? pump->moved : 0;
}

weir_stream *
weir_pump_failed(const weir_task *task)
{
        const struct pump *pump = pump_of(task);

        return !pump || !pump->has_failed || pump->is_cut ? NULL : pump->is_writing ? pump->to : pump->from;
}
