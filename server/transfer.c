/* server/transfer.c: tasks that read and write pieces of bodies.
 *
 *     NEW --start--> READY --owner tries--> done: the callback
 *                                  \------> PENDING --complete--> READY --> the callback
 *                                               \------cancel----> READY --> the callback, -ECANCELED
 *
 * Threads: started and cancelled on any thread; its work always runs on the poller of the connection, where the owner first tries
 *          it, and a second time, when it has ended, calls back.
 * Locks:   none.
 *
 * While a transfer is PENDING it waits in its connection, and its work is in no list.  Who takes it out of PENDING, completion or
 * cancel, delivers the work, once.  A cancel at any other time only leaves its flag, which the work finds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "server/server.h"

#define FRAME_BEFORE 18 /* of a chunk: 16 digits and a line's end */
#define FRAME_BEHIND 2

/* -- the owner of the connection's poller -- */

/* Returns false when it was cancelled meanwhile: its work is on its way. */
static bool
leave_pending(struct weir__transfer *transfer)
{
        uint32_t pending = WEIR__PENDING;

        return atomic_compare_exchange_strong_explicit(&transfer->task.word, &pending, WEIR__READY, memory_order_acq_rel,
                                                       memory_order_acquire);
}

void
weir__transfer_complete(struct weir__transfer *transfer, int status)
{
        struct weir__connection *connection = transfer->exchange->connection;

        transfer->linked = false;
        transfer->task.status = status;
        if (leave_pending(transfer))
                weir__poller_deliver(connection->shard->poller, &transfer->task.work);
}

static void
unlink_writer(struct weir__connection *connection, struct weir__transfer *transfer)
{
        struct weir__transfer **link = &connection->writers;

        while (*link != transfer)
                link = &(*link)->next;
        *link = transfer->next;
        if (!*link)
                connection->writers_end = link;
}

/* Whether some of it has gone out, or was encrypted to go out next. */
static bool
is_on_its_way(const struct weir__connection *connection, const struct weir__transfer *transfer)
{
        size_t before = connection->output ? connection->output_size - connection->output_sent : 0;

        for (const struct weir__transfer *each = connection->writers; each != transfer; each = each->next)
                before += each->size;
        return transfer->under_way || (transfer->size && before < weir__stream_held(&connection->stream));
}

/* It was cancelled while it waited.  A piece that is half on its way cannot be taken back: nothing can follow it, and the connection
 * ends. */
static void
give_up(struct weir__transfer *transfer)
{
        struct weir__exchange *exchange = transfer->exchange;
        struct weir__connection *connection = exchange->connection;

        transfer->linked = false;
        transfer->task.status = weir__series_cause(transfer->task.series);
        if (transfer->kind != WEIR__TRANSFER_WRITE) {
                connection->reader = NULL;
        } else {
                bool is_lost = is_on_its_way(connection, transfer);

                unlink_writer(connection, transfer);
                if (is_lost)
                        weir__connection_close(connection);
                else if (exchange->reply_left != UINT64_MAX) /* still owed: a reply that ends without it is not whole */
                        exchange->reply_left += transfer->size;
        }
        if (connection->state == WEIR__ANSWERING)
                weir__connection_enter(connection, WEIR__ANSWERING);
}

static int
try_it(struct weir__transfer *transfer)
{
        struct weir__connection *connection = transfer->exchange->connection;

        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        if (connection->state == WEIR__GONE)
                return transfer->kind == WEIR__TRANSFER_WRITE ? -EPIPE : -ECONNRESET;
        return transfer->kind == WEIR__TRANSFER_WRITE ? weir__connection_write(connection, transfer)
                                                      : weir__connection_read(connection, transfer);
}

/* Whether it waits from now on, unless it was cancelled just now. */
static bool
has_to_wait(struct weir__transfer *transfer)
{
        uint32_t ready = WEIR__READY;

        if (atomic_compare_exchange_strong_explicit(&transfer->task.word, &ready, WEIR__PENDING, memory_order_acq_rel,
                                                    memory_order_acquire))
                return true;
        give_up(transfer);
        return false;
}

static void
run(struct weir__work *work)
{
        struct weir__transfer *transfer = (struct weir__transfer *)work;

        if (!transfer->tried) {
                transfer->tried = true;
                weir__poller_note_reply(transfer->exchange->connection->shard->poller, 0); /* who streams waits for each piece */
                if (atomic_load_explicit(&transfer->task.word, memory_order_acquire) & WEIR__CANCELLED)
                        transfer->task.status = weir__series_cause(transfer->task.series);
                else
                        transfer->task.status = try_it(transfer);
                if (transfer->linked && has_to_wait(transfer))
                        return;
        } else if (transfer->linked) {
                give_up(transfer);
        }
        atomic_fetch_sub_explicit(&transfer->exchange->unsent, transfer->announced, memory_order_relaxed);
        weir__task_run(work);
}

/* -- any thread -- */

static void
start(struct weir_task *task)
{
        struct weir__transfer *transfer = (struct weir__transfer *)task;
        uint8_t poller = task->poller;

        if (transfer->kind == WEIR__TRANSFER_WRITE)
                transfer->announced = transfer->size;
        atomic_fetch_add_explicit(&transfer->exchange->unsent, transfer->announced, memory_order_relaxed);
        atomic_fetch_add_explicit(&task->word, WEIR__READY, memory_order_release); /* NEW is 0; a cancel may have left its flag */
        weir__poller_deliver(weir__poller_at(poller), &task->work);
}

static struct weir_task *
cancel(struct weir_task *task)
{
        uint32_t before = atomic_fetch_or_explicit(&task->word, WEIR__CANCELLED, memory_order_acq_rel);

        return before == WEIR__PENDING ? task : NULL;
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
        .cancel = cancel,
        .release = release,
        .describe = describe,
};

static const struct weir__task_ops write_ops = {
        .work = {.run = run, .kind = "a write of a body", .calls = weir__task_calls},
        .start = start,
        .cancel = cancel,
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
weir__write_new(weir_task *exchange, size_t size, int fault, weir_task_fn *done, void *context)
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
        struct weir__transfer *transfer = weir__write_new(exchange, size, fault, done, context);

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
