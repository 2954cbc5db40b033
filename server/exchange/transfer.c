/* server/exchange/transfer.c: the tasks of an exchange that wait in its connection.
 *
 * Threads: as of all tasks that belong to a poller, that of the connection: io/base/io_task.h. */
#include "server/exchange/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/http_body.h>

#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/memory/piece.h"
#include "server/exchange/held.h"

/* Of a chunk: 16 digits and a line's end; a line's end. */
#define FRAME_BEFORE 18
#define FRAME_BEHIND 2
_Static_assert(FRAME_BEFORE <= WEIR__PIECE_FRONT && FRAME_BEHIND <= WEIR__PIECE_BEHIND, "a piece has room for a frame");

/* -- the owner of the connection's poller -- */

/* From now on no more events can be made for the stream. */
static void
end_events(struct weir__transfer *transfer)
{
        if (transfer->kind == WEIR__TRANSFER_EVENTS && !(transfer->io.task.flags & WEIR__TASK_POISONED))
                atomic_store_explicit(&transfer->exchange->events, WEIR__EVENTS_ENDED, memory_order_relaxed);
}

void
weir__transfer_leave(struct weir__transfer *transfer)
{
        transfer->io.task.is_linked = false;
        if (transfer->kind == WEIR__TRANSFER_EVENTS)
                transfer->exchange->event_stream = NULL;
        end_events(transfer);
}

void
weir__transfer_complete(struct weir__transfer *transfer, int status)
{
        weir__transfer_leave(transfer);
        weir__io_complete(&transfer->io, status);
}

static int
try(struct weir__io_task *io)
{
        struct weir__transfer *transfer = (struct weir__transfer *)io;

        if (weir__exchange_is_detached(transfer->exchange))
                return transfer->kind == WEIR__TRANSFER_READ || transfer->kind == WEIR__TRANSFER_COLLECT ? -ECONNRESET : -EPIPE;
        weir__coalescing_note_reply(transfer->exchange->client->branch, 0); /* a client waits for each piece */
        return weir__phase_is_stopping() ? -ESHUTDOWN : transfer->exchange->ops->try(transfer);
}

static void
withdraw(struct weir__io_task *io)
{
        struct weir__transfer *transfer = (struct weir__transfer *)io;

        transfer->exchange->ops->withdraw(transfer);
}

static void
settle(struct weir__io_task *io, int verdict)
{
        struct weir__transfer *transfer = (struct weir__transfer *)io;

        (void)verdict;
        end_events(transfer);
        atomic_fetch_sub_explicit(&transfer->exchange->unsent, transfer->size_at_start, memory_order_relaxed);
}

/* -- any thread -- */

static void
start(struct weir_task *task)
{
        struct weir__transfer *transfer = (struct weir__transfer *)task;

        if (weir__exchange_is_detached(transfer->exchange)) /* its poller may be of an earlier runtime */
                weir__task_set_poller(task, weir__worker_home_poller());
        if (transfer->kind == WEIR__TRANSFER_WRITE)
                transfer->size_at_start = transfer->size;
        atomic_fetch_add_explicit(&transfer->exchange->unsent, transfer->size_at_start, memory_order_relaxed);
        weir__io_start(task);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__transfer *transfer = (struct weir__transfer *)task;

        (void)is_discarded;
        end_events(transfer);
        weir__piece_free(transfer->piece);
        if (transfer->exchange)
                weir__exchange_unref(transfer->exchange);
}

/* While the task is alive, so is its exchange, and with it the connection. */
static void
describe(const struct weir_task *task, char *out, size_t room)
{
        static const char *const what[] = {"bytes from", "the whole body from", "bytes to", "open to"};
        const struct weir__transfer *transfer = (const struct weir__transfer *)task;
        char peer[WEIR__PEER_ROOM + 32], count[24] = "";

        weir__exchange_describe_peer(transfer->exchange, peer, sizeof peer);
        if (transfer->kind == WEIR__TRANSFER_WRITE)
                snprintf(count, sizeof count, "%zu ", transfer->size_at_start);
        snprintf(out, room, "%s%s %s", count, what[transfer->kind], peer);
}

static char *
take(struct weir__io_task *io, size_t *size)
{
        struct weir__transfer *transfer = (struct weir__transfer *)io;
        char *piece = transfer->piece;

        *size = transfer->size;
        transfer->piece = transfer->data = NULL;
        transfer->size = 0;
        return piece;
}

#define OPS(name, its_take)                                                                                                    \
        {                                                                                                                      \
                .task = WEIR__IO_TASK_OPS(name, start, release, describe), .try = try, .withdraw = withdraw, .settle = settle, \
                .take = its_take                                                                                               \
        }

static const struct weir__io_ops transfer_ops[] = {
        [WEIR__TRANSFER_READ] = OPS("a read of a body", take),
        [WEIR__TRANSFER_COLLECT] = OPS("a read of a body", NULL),
        [WEIR__TRANSFER_WRITE] = OPS("a write of a body", NULL),
        [WEIR__TRANSFER_EVENTS] = OPS("an event stream", NULL),
};

/* -- the public face -- */

struct weir__transfer *
weir__transfer_new(enum weir__transfer_kind kind, weir_task *exchange, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = weir__alloc(sizeof *transfer);
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!transfer)
                return NULL;
        *transfer = (struct weir__transfer){.exchange = known, .kind = kind};
        weir__task_init(&transfer->io.task, &transfer_ops[kind].task, sizeof *transfer, done, context);
        if (known) {
                weir__task_set_poller(&transfer->io.task, known->task.poller);
                weir__exchange_ref(known);
        } else {
                weir__task_poison(&transfer->io.task, -EDOM);
        }
        return transfer;
}

weir_task *
weir_http_read_new(weir_task *exchange, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = weir__transfer_new(WEIR__TRANSFER_READ, exchange, done, context);

        return transfer ? &transfer->io.task : NULL;
}

weir_task *
weir_http_collect_new(weir_task *exchange, size_t max, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = weir__transfer_new(WEIR__TRANSFER_COLLECT, exchange, done, context);

        if (!transfer)
                return NULL;
        transfer->max = max;
        return &transfer->io.task;
}

const void *
weir_http_read_data(const weir_task *read, size_t *size)
{
        const struct weir__transfer *transfer = (const struct weir__transfer *)read;

        if (!read || read->work.ops != &transfer_ops[WEIR__TRANSFER_READ].task.work)
                return NULL;
        if (size)
                *size = transfer->size;
        return transfer->size ? transfer->data : "";
}

bool
weir__transfer_set_data(struct weir__transfer *transfer, const void *data, size_t size)
{
        if (!size)
                return true;
        transfer->data = transfer->piece = weir__piece_copy(data, size);
        if (!transfer->piece)
                return false;
        transfer->size = size;
        return true;
}

weir_task *
weir__transfer_new_write(weir_task *exchange, const void *data, size_t size, int failed, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = weir__transfer_new(WEIR__TRANSFER_WRITE, exchange, done, context);

        if (!transfer)
                return NULL;
        if (failed) {
                weir__task_poison(&transfer->io.task, failed);
        } else if (!weir__transfer_set_data(transfer, data, size)) {
                weir_task_dismiss(&transfer->io.task);
                return NULL;
        }
        return &transfer->io.task;
}

weir_task *
weir_http_write_new(weir_task *exchange, const void *data, size_t size, weir_task_fn *done, void *context)
{
        return weir__transfer_new_write(exchange, data, size, size && !data ? -EINVAL : 0, done, context);
}

weir_task *
weir_http_write_from_new(weir_task *exchange, weir_task *read, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = weir__transfer_new(WEIR__TRANSFER_WRITE, exchange, done, context);

        if (!transfer)
                return NULL;
        int failed = weir__io_take(read, &transfer->piece, &transfer->size);
        transfer->data = transfer->piece;
        if (failed)
                weir__task_poison(&transfer->io.task, failed);
        return &transfer->io.task;
}

weir_task *
weir_http_finish_new(weir_task *exchange, weir_task_fn *done, void *context)
{
        struct weir__transfer *transfer = weir__transfer_new(WEIR__TRANSFER_WRITE, exchange, done, context);

        if (!transfer)
                return NULL;
        transfer->is_end = true;
        return &transfer->io.task;
}

/* The data becomes a chunk.  Source: RFC 9112 section 7.1. */
void
weir__transfer_frame(struct weir__transfer *transfer)
{
        char line[FRAME_BEFORE + 1];
        size_t line_size = (size_t)sprintf(line, "%zx\r\n", transfer->size);

        memcpy(transfer->data + transfer->size, "\r\n", FRAME_BEHIND);
        transfer->data = memcpy(transfer->data - line_size, line, line_size);
        transfer->size += line_size + FRAME_BEHIND;
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

        if (!known)
                return NULL;
        weir__exchange_ref(known);
        weir__held_add(known);
        return exchange;
}

void
weir_http_unref(weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!exchange)
                return;
        if (!known)
                weir__panic("weir_http_unref: the task is no exchange, or has no reference of weir_http_ref left");
        weir__held_remove(known);
        weir__exchange_unref(known);
}
