/* server/connection/stream_reply.c: replies that are written piece by piece.
 *
 * Threads: the owner of the poller only.
 *
 * The head of such a reply is kept by the connection.  Its pieces lie in the tasks that write them. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/connection/connection.h"
#include "server/exchange/transfer.h"

#define CHUNK_FRAME_BOUND 32

static struct weir__framing
stream_framing(struct weir__connection *connection, const struct weir__exchange *exchange)
{
        const struct weir__request *request = exchange->request;
        struct weir__framing framing;

        connection->is_last |= !request->is_persistent || exchange->upgrade || exchange->fault ||
                               (exchange->reply_left == UINT64_MAX && request->minor == 0);
        framing = weir__reply_framing(connection, exchange);
        framing.upgrade = exchange->upgrade;
        framing.length = exchange->reply_left;
        framing.end = exchange->upgrade                    ? WEIR__END_OF_HTTP
                      : exchange->reply_left != UINT64_MAX ? WEIR__END_AT_LENGTH
                      : request->minor == 0                ? WEIR__END_OF_CONNECTION
                                                           : WEIR__END_BY_CHUNK;
        return framing;
}

/* The body that was appended before the first write goes out right behind the head. */
static char *
put_appended(struct weir__exchange *exchange, char *out)
{
        const struct weir__response *response = &exchange->response;

        if (!response->body_size || !weir__exchange_carries_body(exchange))
                return out;
        if (exchange->is_chunked)
                out += sprintf(out, "%zx\r\n", response->body_size);
        memcpy(out, response->body, response->body_size);
        out += response->body_size;
        if (exchange->is_chunked) {
                memcpy(out, "\r\n", 2);
                out += 2;
        }
        return out;
}

/* Makes the head the output.  Returns 0 or the status of the write, which then leaves the reply to weir__reply_send. */
static int
make_head(struct weir__connection *connection, struct weir__exchange *exchange)
{
        struct weir__response *response = &exchange->response;

        if (exchange->has_failed)
                return -ENOMEM;
        if (exchange->is_misused)
                return -EINVAL;
        if (exchange->upgrade) /* it has no length, even if one was announced */
                exchange->reply_left = UINT64_MAX;
        if (exchange->said_by_file)
                weir__file_take_back(exchange);
        if (exchange->reply_left != UINT64_MAX && response->body_size > exchange->reply_left)
                return -EMSGSIZE;
        struct weir__kept_output *kept = weir__reply_new_kept(weir__response_head_bound(response) + response->body_size +
                                                              CHUNK_FRAME_BOUND);
        if (!kept)
                return -ENOMEM;
        struct weir__framing framing = stream_framing(connection, exchange);
        size_t head_size = weir__response_head(response, &framing, kept->bytes);
        exchange->is_chunked = framing.end == WEIR__END_BY_CHUNK;
        connection->transport.must_break = framing.end == WEIR__END_OF_CONNECTION && weir__exchange_carries_body(exchange);
        exchange->is_raw = exchange->upgrade;
        if (exchange->is_raw)
                exchange->body_left = UINT64_MAX;
        char *end = put_appended(exchange, kept->bytes + head_size);
        if (exchange->reply_left != UINT64_MAX)
                exchange->reply_left -= response->body_size;
        weir__reply_keep(connection, kept, kept->bytes, (size_t)(end - kept->bytes));
        connection->transport.sent = 0;
        connection->writing.head_size = (uint32_t)head_size;
        atomic_store_explicit(&exchange->has_begun, true, memory_order_release);
        return 0;
}

int
weir__stream_reply_begin(struct weir__connection *connection)
{
        struct weir__exchange *exchange = connection->exchange;
        int failed = weir__exchange_has_begun(exchange) ? 0 : make_head(connection, exchange);

        exchange->has_failed |= failed == -ENOMEM;
        return failed;
}

int
weir__stream_reply_open_events(struct weir__transfer *stream)
{
        struct weir__exchange *exchange = stream->exchange;
        struct weir__connection *connection = weir__connection_of(exchange);
        int failed = weir__stream_reply_begin(connection);

        exchange->event_stream = stream;
        stream->io.task.is_linked = true;
        if (!failed)
                weir__reply_flush(connection, true);
        if (!stream->io.task.is_linked) /* the connection has broken */
                return stream->io.task.status;
        if (failed || exchange->client->branch->base.is_stopping || !weir__exchange_carries_body(exchange) ||
            atomic_load_explicit(&exchange->events, memory_order_relaxed) == WEIR__EVENTS_ENDED)
                weir__transfer_leave(stream);
        return failed;
}

/* Appends to what is kept, such as a large head.  Returns false when out of memory; nothing has changed then. */
static bool
append_output(struct weir__connection *connection, const char *text)
{
        const struct weir__kept_output *before = connection->writing.kept;
        size_t left = before ? (size_t)before->writer.left : 0, size = strlen(text);
        struct weir__kept_output *kept = weir__reply_new_kept(left + size);

        if (!kept)
                return false;
        if (left)
                memcpy(kept->bytes, before->writer.data, left);
        memcpy(kept->bytes + left, text, size);
        weir__reply_keep(connection, kept, kept->bytes, left + size);
        return true;
}

void
weir__stream_reply_beat(struct weir__connection *connection)
{
        /* Out of memory, the next one comes when it is due. */
        (void)append_output(connection, connection->exchange->is_chunked ? "3\r\n:\n\n\r\n" : ":\n\n");
        weir__reply_flush(connection, true);
}

static int
write_piece(struct weir__connection *connection, struct weir__transfer *transfer)
{
        transfer->io.task.is_linked = true;
        transfer->writer = (struct weir__writer){.data = transfer->data, .left = transfer->size};
        if (transfer->is_end)
                transfer->writer.kind = WEIR__WRITER_END;
        weir__output_append(&connection->transport, &transfer->writer);
        weir__reply_flush(connection, true);
        return transfer->io.task.is_linked ? 0 : transfer->io.task.status;
}

/* HTTP/1.0 knows none. */
static int
write_interim(struct weir__connection *connection, struct weir__transfer *transfer)
{
        if (weir__exchange_is_fixed(transfer->exchange))
                return -EALREADY;
        return transfer->exchange->request->minor ? write_piece(connection, transfer) : 0;
}

int
weir__stream_reply_write(struct weir__transfer *transfer)
{
        struct weir__exchange *exchange = transfer->exchange;
        struct weir__connection *connection = weir__connection_of(exchange);

        if (transfer->is_interim)
                return write_interim(connection, transfer);
        if (exchange->is_finished)
                return -EPIPE;
        if (transfer->is_end && !exchange->upgrade)
                return -EINVAL;
        int failed = weir__stream_reply_begin(connection);
        if (failed)
                return failed;
        exchange->is_finished = transfer->is_end;
        if (exchange->reply_left != UINT64_MAX) {
                if (transfer->size > exchange->reply_left)
                        return -EMSGSIZE;
                exchange->reply_left -= transfer->size;
        }
        if (!weir__exchange_carries_body(exchange))
                transfer->size = 0;
        else if (transfer->size && exchange->is_chunked)
                weir__transfer_frame(transfer);
        return write_piece(connection, transfer);
}

/* A piece of which a part is out cannot be taken back.  Nothing can follow it, so the connection is closed. */
void
weir__stream_reply_withdraw(struct weir__transfer *transfer)
{
        struct weir__exchange *exchange = transfer->exchange;
        struct weir__connection *connection = weir__connection_of(exchange);
        bool is_lost = weir__output_is_on_its_way(&connection->transport, &transfer->writer);

        weir__link_remove(&transfer->writer.link);
        if (transfer->is_end)
                exchange->is_finished = false;
        if (is_lost)
                weir__connection_close(connection);
        else if (exchange->reply_left != UINT64_MAX && !transfer->is_interim) /* the reply lacks these bytes again */
                exchange->reply_left += transfer->size;
}

/* The series has ended and the reply has begun.  A client must not take an incomplete reply for a whole one. */
void
weir__stream_reply_end(struct weir__connection *connection, struct weir__exchange *exchange)
{
        bool is_open = exchange->reply_left == UINT64_MAX, is_short = !is_open && exchange->reply_left;
        bool is_cut = weir__exchange_carries_body(exchange) && (is_short || (is_open && exchange->is_fault_late));

        if (exchange->result || exchange->has_failed || is_cut) {
                weir__connection_close(connection);
                return;
        }
        if (!exchange->is_raw)
                weir__reply_leave_body(connection, exchange);
        if (exchange->is_chunked && weir__exchange_carries_body(exchange) && !append_output(connection, "0\r\n\r\n")) {
                weir__connection_close(connection);
                return;
        }
        weir__record_reply(connection, exchange, exchange->response.status);
        connection->state = WEIR__WRITING;
        weir__reply_flush(connection, true);
}
