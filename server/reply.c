/* server/reply.c: what goes out on a connection.
 *
 * Threads: the owner of the poller only.
 *
 * A reply that fits is put together in the poller's scratch buffer and goes out with one write; a large body goes from where it
 * is, with the head in front of it.  What the socket does not take is kept in `output`, and the next request waits until it is
 * gone: so a peer that does not read costs one reply's memory, and that for the idle limit only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/clock.h"
#include "kernel/runtime.h"
#include "kernel/stream.h"
#include "server/server.h"

static const char *
date_of(struct weir__shard *shard)
{
        int64_t second = weir__clock_wall_coarse() / 1000000000;

        if (second != shard->date_second) {
                shard->date_second = second;
                weir__http_date(second, shard->date);
        }
        return shard->date;
}

/* All of a reply is written. */
static void
written(struct weir__connection *connection)
{
        free(connection->output);
        connection->output = NULL;
        if (connection->last)
                weir__connection_finish(connection);
        else
                weir__connection_next(connection);
}

/* Keeps what is left of head and body after `sent` bytes.  Takes the body over when the head is gone.  Returns false when out of
 * memory. */
static bool
keep_rest(struct weir__connection *connection, const struct iovec pieces[2], size_t sent, char **body)
{
        size_t head_left = sent < pieces[0].iov_len ? pieces[0].iov_len - sent : 0;
        size_t body_sent = head_left ? 0 : sent - pieces[0].iov_len;

        if (!head_left && *body) {
                connection->output = *body;
                connection->output_size = pieces[1].iov_len;
                connection->output_sent = body_sent;
                *body = NULL;
                return true;
        }
        connection->output = malloc(head_left + pieces[1].iov_len - body_sent);
        if (!connection->output)
                return false;
        memcpy(connection->output, (char *)pieces[0].iov_base + sent, head_left);
        if (pieces[1].iov_len)
                memcpy(connection->output + head_left, (char *)pieces[1].iov_base + body_sent, pieces[1].iov_len - body_sent);
        connection->output_size = head_left + pieces[1].iov_len - body_sent;
        connection->output_sent = 0;
        return true;
}

/* Writes head and body; `body` is the memory of the body where it may be taken over. */
static void
write_out(struct weir__connection *connection, const struct iovec pieces[2], char **body)
{
        ssize_t sent = weir__stream_write(&connection->stream, pieces, pieces[1].iov_len ? 2 : 1);

        if (sent == -EAGAIN)
                sent = 0;
        if (sent < 0)
                weir__connection_close(connection);
        else if ((size_t)sent == pieces[0].iov_len + pieces[1].iov_len)
                written(connection);
        else if (keep_rest(connection, pieces, (size_t)sent, body))
                weir__connection_enter(connection, WEIR__WRITING);
        else
                weir__connection_close(connection);
}

static void
send_response(struct weir__connection *connection, struct weir__response *response, const struct weir__framing *framing)
{
        size_t bound = weir__response_head_bound(response);
        char *head = bound <= WEIR__SCRATCH_SIZE ? connection->shard->poller->scratch : malloc(bound);

        if (!head) {
                weir__connection_close(connection);
                return;
        }
        size_t head_size = weir__response_head(response, framing, head);
        size_t body_size = weir__response_has_body(response, framing) ? response->body_size : 0;
        struct iovec pieces[2] = {{head, head_size}, {response->body, body_size}};
        if (body_size && head_size + body_size <= WEIR__SCRATCH_SIZE && bound <= WEIR__SCRATCH_SIZE) {
                memcpy(head + head_size, response->body, body_size);
                pieces[0].iov_len += body_size;
                pieces[1].iov_len = 0;
        }
        write_out(connection, pieces, &response->body);
        if (bound > WEIR__SCRATCH_SIZE)
                free(head);
}

/* A series that ends with one of these was told to: no reply.  Any other status is a fault of ours. */
static bool
is_dropped(int result)
{
        return result == -ECANCELED || result == -ESHUTDOWN;
}

static void
reply(struct weir__connection *connection, struct weir__exchange *exchange)
{
        const struct weir__request *request = exchange->request;

        if ((exchange->failed || exchange->result) && weir__exchange_error(exchange, 500)) {
                weir__connection_close(connection);
                return;
        }
        connection->last |= !request->keep_alive;
        struct weir__framing framing = {
                .date = date_of(connection->shard),
                .keep_alive = !connection->last,
                .minor = request->minor,
                .is_head = request->is_head,
        };
        send_response(connection, &exchange->response, &framing);
}

void
weir__connection_answer(struct weir__exchange *exchange)
{
        struct weir__connection *connection = exchange->connection;

        if (connection->state == WEIR__GONE) {
                weir__connection_drop_exchange(connection);
                weir__runtime_leave();
                return;
        }
        connection->exchange = NULL; /* the connection goes on to the next one */
        if (is_dropped(exchange->result))
                weir__connection_close(connection);
        else
                reply(connection, exchange);
        weir__exchange_free(exchange);
        weir__runtime_leave();
}

void
weir__connection_refuse(struct weir__connection *connection, int status, bool is_head)
{
        struct weir__response response = {.status = status};
        struct weir__framing framing = {.date = date_of(connection->shard), .minor = 1, .is_head = is_head};
        char text[64];

        if (connection->state == WEIR__READING_BODY)
                weir__connection_drop_exchange(connection);
        connection->last = connection->refused = true;
        connection->state = WEIR__READING_HEAD;
        int size = snprintf(text, sizeof text, "%d %s\n", status, weir__http_reason(status));
        if (weir__response_field(&response, "Content-Type", "text/plain; charset=utf-8", false) ||
            weir__response_append(&response, text, (size_t)size))
                weir__connection_close(connection);
        else
                send_response(connection, &response, &framing);
        weir__response_done(&response);
}

void
weir__connection_flush(struct weir__connection *connection)
{
        struct iovec piece = {connection->output + connection->output_sent, connection->output_size - connection->output_sent};
        ssize_t sent = weir__stream_write(&connection->stream, &piece, 1);

        if (sent == -EAGAIN)
                return;
        if (sent < 0) {
                weir__connection_close(connection);
                return;
        }
        connection->output_sent += (size_t)sent;
        if (connection->output_sent == connection->output_size)
                written(connection);
        else
                weir__connection_enter(connection, WEIR__WRITING); /* it reads: its time begins anew */
}

void
weir__connection_continue(struct weir__connection *connection)
{
        struct iovec piece = {(char *)WEIR__HTTP_CONTINUE, sizeof WEIR__HTTP_CONTINUE - 1};
        ssize_t sent = weir__stream_write(&connection->stream, &piece, 1);

        /* A peer whose socket is full has not read our earlier replies, and need not wait for this. */
        if (sent != -EAGAIN && sent != (ssize_t)piece.iov_len)
                weir__connection_close(connection);
}
