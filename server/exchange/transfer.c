/* server/exchange/transfer.c: tasks that read and write pieces of bodies.
 *
 * Threads: started and cancelled on any thread; the work runs on the poller of the connection.  The owner first tries it; a
 *          second time, when it has ended, it calls back.  pending.h has the states.
 * Locks:   none. */
#include "server/exchange/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/http_body.h>

#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "server/base/coalescing.h"
#include "server/exchange/pending.h"

#define FRAME_BEFORE 18 /* of a chunk: 16 digits and a line's end */
#define FRAME_BEHIND 2

/* -- the owner of the connection's poller -- */

void
weir__transfer_complete(struct weir__transfer *transfer, int status)
{
        transfer->is_linked = false;
        weir__pending_end(&transfer->task, status);
}

/* It was cancelled while it waited. */
static void
give_up(struct weir__transfer *transfer)
{
        transfer->is_linked = false;
        transfer->task.status = weir__series_cause(transfer->task.series);
        transfer->exchange->ops->withdraw(transfer);
}

static int
try_it(struct weir__transfer *transfer)
{
        const struct weir__exchange_ops *ops = transfer->exchange->ops;

        if (weir__pending_is_cancelled(&transfer->task))
                return weir__series_cause(transfer->task.series);
        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        return transfer->kind == WEIR__TRANSFER_WRITE ? ops->write(transfer) : ops->read(transfer);
}

static void
run(struct weir__work *work)
{
        struct weir__transfer *transfer = (struct weir__transfer *)work;

        if (!transfer->is_tried) {
                transfer->is_tried = true;
                weir__coalescing_note_reply(transfer->exchange->client->shard, 0); /* a stream waits for each piece */
                transfer->task.status = try_it(transfer);
                if (transfer->is_linked && weir__pending_wait(&transfer->task))
                        return;
        }
        if (transfer->is_linked)
                give_up(transfer);
        atomic_fetch_sub_explicit(&transfer->exchange->unsent, transfer->announced, memory_order_relaxed);
        weir__task_run(work);
}

/* -- any thread -- */

static void
start(struct weir_task *task)
{
        struct weir__transfer *transfer = (struct weir__transfer *)task;

        if (transfer->kind == WEIR__TRANSFER_WRITE)
                transfer->announced = transfer->size;
        atomic_fetch_add_explicit(&transfer->exchange->unsent, transfer->announced, memory_order_relaxed);
        weir__pending_start(task);
}

static void
release(struct weir_task *task, bool discarded)
{
        struct weir__transfer *transfer = (struct weir__transfer *)task;

        (void)discarded;
        free(transfer->memory);
        if (transfer->exchange)
                weir__exchange_drop(transfer->exchange);
}

/* While the task is alive its exchange is held, and with it the connection. */
static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__transfer *transfer = (const struct weir__transfer *)task;
        char peer[WEIR__PEER_ROOM + 32];

        weir__exchange_describe_peer(transfer->exchange, peer, sizeof peer);
        if (transfer->kind == WEIR__TRANSFER_WRITE)
                snprintf(out, room, "%zu bytes to %s", transfer->announced, peer);
        else
                snprintf(out, room, "%s from %s", transfer->kind == WEIR__TRANSFER_READ ? "bytes" : "the whole body", peer);
}

static const struct weir__task_ops read_ops = {
        .work = {.run = run, .kind = "a read of a body", .calls = weir__task_calls},
        .start = start,
        .cancel = weir__pending_cancel,
        .release = release,
        .describe = describe,
};

static const struct weir__task_ops write_ops = {
        .work = {.run = run, .kind = "a write of a body", .calls = weir__task_calls},
        .start = start,
        .cancel = weir__pending_cancel,
        .release = release,
        .describe = describe,
};

/* -- the public face -- */

static struct weir__transfer *
transfer_new(const struct weir__task_ops *ops, weir_task *exchange, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = weir__alloc(sizeof *transfer);
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!transfer)
                return NULL;
        *transfer = (struct weir__transfer){.exchange = known};
        weir__task_init(&transfer->task, ops, sizeof *transfer, done, context);
        if (known) {
                transfer->task.poller = known->task.poller;
                weir__exchange_hold(known);
        } else {
                transfer->task.flags |= WEIR__TASK_WRONG;
                transfer->task.status = -EDOM;
        }
        return transfer;
}

weir_task *
weir_http_read_new(weir_task *exchange, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = transfer_new(&read_ops, exchange, done, context);

        return transfer ? &transfer->task : NULL;
}

weir_task *
weir_http_collect_new(weir_task *exchange, size_t max, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = transfer_new(&read_ops, exchange, done, context);

        if (!transfer)
                return NULL;
        transfer->kind = WEIR__TRANSFER_COLLECT;
        transfer->max = max;
        return &transfer->task;
}

const void *
weir_http_read_data(const weir_task *read, size_t *size)
{
        const struct weir__transfer *transfer = (const struct weir__transfer *)read;

        if (!read || read->work.ops != &read_ops.work || transfer->kind != WEIR__TRANSFER_READ)
                return NULL;
        if (size)
                *size = transfer->size;
        return transfer->size ? transfer->data : "";
}

static bool
make_room(struct weir__transfer *transfer, size_t size)
{
        if (!size)
                return true;
        if (size > SIZE_MAX - FRAME_BEFORE - FRAME_BEHIND)
                return false;
        transfer->memory = malloc(FRAME_BEFORE + size + FRAME_BEHIND);
        if (!transfer->memory)
                return false;
        transfer->data = transfer->memory + FRAME_BEFORE;
        transfer->size = size;
        return true;
}

struct weir__transfer *
weir__transfer_new_write(weir_task *exchange, size_t size, int fault, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = transfer_new(&write_ops, exchange, done, context);

        if (!transfer)
                return NULL;
        transfer->kind = WEIR__TRANSFER_WRITE;
        if (fault && !(transfer->task.flags & WEIR__TASK_WRONG)) {
                transfer->task.flags |= WEIR__TASK_WRONG;
                transfer->task.status = fault;
        } else if (!fault && !make_room(transfer, size)) {
                weir_task_dismiss(&transfer->task);
                return NULL;
        }
        return transfer;
}

weir_task *
weir_http_write_new(weir_task *exchange, const void *data, size_t size, weir_task_fn *done, void *context)
{
        int fault = size && !data ? -EINVAL : 0;
        struct weir__transfer *transfer = weir__transfer_new_write(exchange, size, fault, done, context);

        if (!transfer)
                return NULL;
        if (!fault && size)
                memcpy(transfer->data, data, size);
        return &transfer->task;
}

/* The data becomes a chunk.  Source: RFC 9112 section 7.1. */
void
weir__transfer_frame(struct weir__transfer *transfer)
{
        static const char digits[] = "0123456789abcdef";
        size_t left = transfer->size, size = transfer->size;
        char *at = transfer->data;

        memcpy(transfer->data + size, "\r\n", 2);
        *--at = '\n';
        *--at = '\r';
        do {
                *--at = digits[left & 15];
                left >>= 4;
        } while (left);
        transfer->size += (size_t)(transfer->data - at) + FRAME_BEHIND;
        transfer->data = at;
}

size_t
weir_http_unsent(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? atomic_load_explicit(&known->unsent, memory_order_relaxed) : 0;
}

weir_task *
weir_http_ref(weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (known)
                weir__exchange_hold(known);
        return known ? exchange : NULL;
}

void
weir_http_unref(weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (known)
                weir__exchange_drop(known);
}
