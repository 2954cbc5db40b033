/* server/reply.c: what goes out on a connection.
 *
 * Threads: the owner of the poller only.
 *
 * A whole reply that fits is put together in the poller's scratch buffer and goes out with one write; a large body goes from where it
 * is, with the head in front of it, and the rest of a file from the system's own memory.  A reply that is written piece by piece
 * has its head in `output`, and its pieces in the tasks that write them.
 *
 * What the socket does not take stays where it is, and the next request waits until it is gone: so a peer that does not read costs
 * what one reply holds, and that for the write limit only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/runtime/runtime.h"
#include "server/server.h"

#define PIECES            16 /* in one write */
#define FILE_AT_ONCE      ((size_t)256 * 1024)
#define FILE_IN_A_TURN    ((size_t)1024 * 1024) /* then other connections have theirs */
#define CHUNK_FRAME_BOUND 32

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

static struct weir__framing
framing_of(struct weir__connection *connection, const struct weir__exchange *exchange)
{
        return (struct weir__framing){
                .date = date_of(connection->shard),
                .keep_alive = !connection->last,
                .asked = exchange->request->asks_keep_alive,
                .minor = exchange->request->minor,
                .is_head = exchange->request->is_head,
        };
}

static bool
has_file_left(const struct weir__connection *connection)
{
        return connection->file && connection->file->size;
}

/* All of a reply is written. */
static void
written(struct weir__connection *connection)
{
        weir__file_close(&connection->file);
        free(connection->output);
        connection->output = NULL;
        connection->ends_reply = false;
        weir__reply_ends(connection, true);
        if (connection->last)
                weir__connection_finish(connection);
        else
                weir__connection_next(connection);
}

/* -- what the socket takes -- */

static void
drop_output(struct weir__connection *connection)
{
        free(connection->output);
        connection->output = NULL;
        connection->output_size = connection->output_sent = 0;
}

/* Collects what is to go out first.  Returns how many bytes. */
static size_t
gather(struct weir__connection *connection, struct iovec pieces[PIECES], int *count)
{
        size_t total = 0;
        int at = 0;

        if (connection->output)
                pieces[at++] = (struct iovec){connection->output + connection->output_sent,
                                              connection->output_size - connection->output_sent};
        for (struct weir__transfer *each = connection->writers; each && at < PIECES; each = each->next)
                if (each->size)
                        pieces[at++] = (struct iovec){each->data, each->size};
        for (int i = 0; i < at; i++)
                total += pieces[i].iov_len;
        *count = at;
        return total;
}

/* So much of it was sent. */
static void
consume(struct weir__connection *connection, size_t sent)
{
        if (connection->output) {
                size_t left = connection->output_size - connection->output_sent;

                connection->output_sent += sent < left ? sent : left;
                sent -= sent < left ? sent : left;
                if (connection->output_sent < connection->output_size)
                        return;
                drop_output(connection);
        }
        for (struct weir__transfer *each; (each = connection->writers);) {
                size_t part = sent < each->size ? sent : each->size;

                each->under_way |= part > 0;
                each->data += part;
                each->size -= part;
                sent -= part;
                if (each->size)
                        return;
                connection->writers = each->next;
                if (!connection->writers)
                        connection->writers_end = &connection->writers;
                weir__transfer_complete(each, 0);
        }
}

/* Sends pieces until they are out, 1, or the socket is full, 0; negative: the connection is broken. */
static ssize_t
send_pieces(struct weir__connection *connection, bool *progressed)
{
        struct iovec pieces[PIECES];
        int count;

        for (;;) {
                size_t total = gather(connection, pieces, &count);
                ssize_t sent = total ? weir__stream_write(&connection->stream, pieces, count) : 0;

                if (sent < 0)
                        return sent == -EAGAIN ? 0 : sent;
                *progressed |= sent > 0;
                connection->sent += (uint64_t)sent;
                weir__count(&connection->shard->counts, WEIR__COUNT_SENT, sent);
                consume(connection, (size_t)sent);
                if ((size_t)sent < total)
                        return 0;
                if (!connection->output && !connection->writers)
                        return 1;
        }
}

/* The same of the file behind them.  A full turn counts as a full socket that will be tried again. */
static ssize_t
send_file(struct weir__connection *connection, bool *progressed)
{
        struct weir__file_part *file = connection->file;
        size_t turn = 0;

        while (file->size) {
                size_t size = file->size < FILE_AT_ONCE ? (size_t)file->size : FILE_AT_ONCE;
                ssize_t sent = turn < FILE_IN_A_TURN ? weir__stream_write_file(&connection->stream, file->fd, file->at, size)
                                                     : -EAGAIN;

                if (sent == -EAGAIN && turn >= FILE_IN_A_TURN)
                        weir__connection_come_again(connection);
                if (sent <= 0)
                        return sent == -EAGAIN ? 0 : -EPIPE; /* 0: it has become shorter than was said */
                *progressed = true;
                connection->sent += (uint64_t)sent;
                weir__count(&connection->shard->counts, WEIR__COUNT_SENT, sent);
                turn += (size_t)sent;
                file->at += (uint64_t)sent;
                file->size -= (uint64_t)sent;
        }
        return 1;
}

/* In WRITING or ANSWERING.  The time of what has to wait begins now, if it is fresh, and anew whenever some of it was taken. */
static void
flush(struct weir__connection *connection, bool is_fresh)
{
        bool progressed = is_fresh;
        ssize_t result = send_pieces(connection, &progressed);

        if (result > 0 && has_file_left(connection))
                result = send_file(connection, &progressed);
        if (result < 0)
                weir__connection_close(connection);
        else if (result > 0 && connection->state == WEIR__WRITING)
                written(connection);
        else if (progressed)
                weir__connection_enter(connection, connection->state);
}

void
weir__connection_flush(struct weir__connection *connection)
{
        flush(connection, false);
}

static void
write_on(struct weir__connection *connection)
{
        connection->state = WEIR__WRITING;
        flush(connection, true);
}

/* -- whole replies -- */

/* Keeps what is left of head and body after `sent` bytes.  Takes the body over when the head is gone.  Returns false when out of
 * memory. */
static bool
keep_rest(struct weir__connection *connection, const struct iovec pieces[2], size_t sent, char **body)
{
        size_t head_left = sent < pieces[0].iov_len ? pieces[0].iov_len - sent : 0;
        size_t body_sent = head_left ? 0 : sent - pieces[0].iov_len;

        if (!head_left && body) {
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

/* Writes head and body; `body` is where the pointer to the body is that may be taken over, or NULL. */
static void
write_out(struct weir__connection *connection, const struct iovec pieces[2], char **body)
{
        if (connection->last)
                weir__stream_hold_back(&connection->stream);
        ssize_t sent = weir__stream_write(&connection->stream, pieces, pieces[1].iov_len ? 2 : 1);
        if (sent == -EAGAIN)
                sent = 0;
        connection->sent = sent > 0 ? (uint64_t)sent : 0;
        weir__count(&connection->shard->counts, WEIR__COUNT_SENT, (int64_t)connection->sent);
        if (sent < 0)
                weir__connection_close(connection);
        else if ((size_t)sent == pieces[0].iov_len + pieces[1].iov_len && !has_file_left(connection))
                written(connection);
        else if ((size_t)sent == pieces[0].iov_len + pieces[1].iov_len)
                write_on(connection);
        else if (keep_rest(connection, pieces, (size_t)sent, body))
                weir__connection_enter(connection, WEIR__WRITING);
        else
                weir__connection_close(connection);
}

/* The beginning of the file goes out behind the head; the connection takes over the rest.  Returns the bytes read into `room`, and
 * false in *sound when the file has none of what was said. */
static size_t
begin_file(struct weir__connection *connection, struct weir__exchange *exchange, char *out, size_t room, bool *sound)
{
        struct weir__file_part *file = exchange->file;
        size_t size = file->size < room ? (size_t)file->size : room;
        ssize_t count = 0;

        do {
                count = size ? pread(file->fd, out, size, (off_t)file->at) : 0;
        } while (count < 0 && errno == EINTR);
        *sound = count > 0 || !size;
        if (count > 0) {
                file->at += (uint64_t)count;
                file->size -= (uint64_t)count;
        }
        connection->file = file;
        exchange->file = NULL;
        return count > 0 ? (size_t)count : 0;
}

static void
send_response(struct weir__connection *connection, struct weir__response *response, const struct weir__framing *framing,
              struct weir__exchange *exchange)
{
        size_t bound = weir__response_head_bound(response);
        bool fits = bound <= WEIR__SCRATCH_SIZE, sound = true;
        char *head = fits ? connection->shard->poller->scratch : malloc(bound);

        if (!head) {
                weir__connection_close(connection);
                return;
        }
        size_t head_size = weir__response_head(response, framing, head);
        connection->sent = 0;
        connection->head_size = (uint32_t)head_size;
        size_t body_size = weir__response_has_body(response, framing) ? response->body_size : 0;
        struct iovec pieces[2] = {{head, head_size}, {response->body, body_size}};
        if (body_size && fits && head_size + body_size <= WEIR__SCRATCH_SIZE) {
                memcpy(head + head_size, response->body, body_size);
                pieces[0].iov_len += body_size;
                pieces[1].iov_len = 0;
        } else if (exchange && exchange->file && weir__response_may_have_body(response, framing)) {
                pieces[0].iov_len += begin_file(connection, exchange, head + head_size, fits ? WEIR__SCRATCH_SIZE - head_size : 0,
                                                &sound);
        }
        if (sound)
                write_out(connection, pieces, weir__response_body_to_take(response));
        else
                weir__connection_close(connection);
        if (!fits)
                free(head);
}

/* A series that ends with one of these was told to: no reply.  Any other status is a fault of ours. */
static bool
is_dropped(int result)
{
        return result == -ECANCELED || result == -ESHUTDOWN;
}

/* A body that was not read to its end: what comes is not the next request, and the client may still be sending.  One that waits for
 * 100 will not. */
static void
leave_body(struct weir__connection *connection, const struct weir__exchange *exchange)
{
        if (weir__exchange_is_all_read(exchange))
                return;
        connection->last = true;
        connection->unread = exchange->continued || !exchange->request->expects_continue;
}

/* Whether the body of a whole reply is not as long as was said.  Of a file the client may have asked for a part only.  Where none
 * goes out it may have been said without one. */
static bool
is_of_other_length(const struct weir__exchange *exchange)
{
        uint64_t size = exchange->file ? exchange->file->whole : exchange->response.body_size;
        bool is_without = !exchange->file && !size && !weir__exchange_carries_body(exchange);

        return exchange->reply_left != UINT64_MAX && exchange->reply_left != size && !is_without;
}

/* The reply to a body that could not be read, unless the handler has made one. */
static int
fault_of(const struct weir__exchange *exchange)
{
        const struct weir__response *response = &exchange->response;

        if (exchange->result == -ETIMEDOUT) /* the deadline of its series */
                return 503;
        if (exchange->failed || exchange->result || is_of_other_length(exchange))
                return 500;
        return response->status || response->body_size || exchange->file ? 0 : exchange->fault;
}

static void
reply(struct weir__connection *connection, struct weir__exchange *exchange)
{
        weir__file_settle(exchange);
        int fault = fault_of(exchange);
        if (fault && weir__exchange_error(exchange, fault)) {
                weir__connection_close(connection);
                return;
        }
        connection->last |= !exchange->request->keep_alive;
        leave_body(connection, exchange);
        struct weir__framing framing = framing_of(connection, exchange);
        if (exchange->file) {
                framing.end = WEIR__END_AT_LENGTH;
                framing.length = exchange->file->size;
        } else if (exchange->reply_left != UINT64_MAX) { /* to HEAD it may be said without a body */
                framing.end = WEIR__END_AT_LENGTH;
                framing.length = exchange->reply_left;
        }
        weir__reply_begins(connection, exchange, exchange->response.status);
        send_response(connection, &exchange->response, &framing, exchange);
}

void
weir__connection_refuse(struct weir__connection *connection, int status, bool is_head)
{
        struct weir__response response = {.status = status};
        struct weir__framing framing = {.date = date_of(connection->shard), .minor = 1, .is_head = is_head};

        if (connection->admitted) /* else it is counted and logged as little as one that is turned away without TLS */
                weir__reply_begins(connection, connection->exchange, status);
        if (connection->state == WEIR__READING_BODY)
                weir__connection_drop_exchange(connection);
        connection->last = connection->refused = true;
        connection->state = WEIR__READING_HEAD;
        if (weir__error_response(connection->shard->server, status, &response))
                weir__connection_close(connection);
        else
                send_response(connection, &response, &framing, NULL);
        weir__response_done(&response);
}

/* Nobody will wait until it is out: so it is no more than leaves at once, and behind what is more a line of text will do. */
size_t
weir__reply_turning_away(struct weir__shard *shard)
{
        struct weir__response response = {.status = 0};
        struct weir__framing framing = {.date = date_of(shard), .minor = 1};
        char *out = shard->poller->scratch;
        size_t size = 0;

        if (!weir__error_response(shard->server, 503, &response) &&
            weir__response_head_bound(&response) + response.body_size <= WEIR__LEAVES_FIRST) {
                size = weir__response_head(&response, &framing, out);
                if (response.body_size)
                        memcpy(out + size, response.body, response.body_size);
                size += response.body_size;
        }
        weir__response_done(&response);
        return size;
}

void
weir__connection_continue(struct weir__connection *connection)
{
        struct iovec piece = {(char *)WEIR__HTTP_CONTINUE, sizeof WEIR__HTTP_CONTINUE - 1};
        ssize_t sent = weir__stream_write(&connection->stream, &piece, 1);

        weir__count(&connection->shard->counts, WEIR__COUNT_SENT, sent > 0 ? sent : 0);
        /* A peer whose socket is full has not read our earlier replies, and need not wait for this.  But what TLS has once
         * encrypted has to go out before all else. */
        if ((sent != -EAGAIN || connection->stream.tls) && sent != (ssize_t)piece.iov_len)
                weir__connection_close(connection);
}

/* -- replies piece by piece -- */

static struct weir__framing
stream_framing(struct weir__connection *connection, const struct weir__exchange *exchange)
{
        const struct weir__request *request = exchange->request;
        struct weir__framing framing;

        connection->last |= !request->keep_alive || exchange->upgrade || exchange->fault ||
                            (exchange->reply_left == UINT64_MAX && request->minor == 0);
        framing = framing_of(connection, exchange);
        framing.upgrade = exchange->upgrade;
        framing.length = exchange->reply_left;
        framing.end = exchange->upgrade                    ? WEIR__END_OF_HTTP
                      : exchange->reply_left != UINT64_MAX ? WEIR__END_AT_LENGTH
                      : request->minor == 0                ? WEIR__END_OF_CONNECTION
                                                           : WEIR__END_BY_CHUNK;
        return framing;
}

bool
weir__exchange_carries_body(const struct weir__exchange *exchange)
{
        struct weir__framing framing = {.is_head = exchange->request->is_head,
                                        .end = exchange->upgrade ? WEIR__END_OF_HTTP : WEIR__END_OF_BODY};

        return weir__response_may_have_body(&exchange->response, &framing);
}

/* The body that was appended before the first write goes out right behind the head. */
static char *
put_appended(struct weir__exchange *exchange, char *out)
{
        const struct weir__response *response = &exchange->response;

        if (!response->body_size || !weir__exchange_carries_body(exchange))
                return out;
        if (exchange->reply_chunked)
                out += sprintf(out, "%zx\r\n", response->body_size);
        memcpy(out, response->body, response->body_size);
        out += response->body_size;
        if (exchange->reply_chunked) {
                memcpy(out, "\r\n", 2);
                out += 2;
        }
        return out;
}

/* Makes the head the output.  Returns 0 or what the write ends with. */
static int
begin_reply(struct weir__connection *connection, struct weir__exchange *exchange)
{
        struct weir__response *response = &exchange->response;

        if (exchange->failed)
                return -ENOMEM;
        if (exchange->upgrade) /* which has no length, whatever was said of a reply */
                exchange->reply_left = UINT64_MAX;
        if (exchange->file_said)
                weir__file_take_back(exchange);
        if (exchange->reply_left != UINT64_MAX && response->body_size > exchange->reply_left)
                return -EMSGSIZE;
        char *output = malloc(weir__response_head_bound(response) + response->body_size + CHUNK_FRAME_BOUND);
        if (!output)
                return -ENOMEM;
        struct weir__framing framing = stream_framing(connection, exchange);
        size_t head_size = weir__response_head(response, &framing, output);
        exchange->reply_chunked = framing.end == WEIR__END_BY_CHUNK;
        connection->ends_reply = framing.end == WEIR__END_OF_CONNECTION && weir__exchange_carries_body(exchange);
        exchange->raw = exchange->upgrade;
        if (exchange->raw)
                exchange->body_left = UINT64_MAX;
        char *end = put_appended(exchange, output + head_size);
        if (exchange->reply_left != UINT64_MAX)
                exchange->reply_left -= response->body_size;
        connection->output = output;
        connection->output_size = (size_t)(end - output);
        connection->output_sent = 0;
        connection->sent = 0;
        connection->head_size = (uint32_t)head_size;
        atomic_store_explicit(&exchange->begun, true, memory_order_release);
        return 0;
}

int
weir__connection_begin_reply(struct weir__connection *connection)
{
        struct weir__exchange *exchange = connection->exchange;
        bool begun = atomic_load_explicit(&exchange->begun, memory_order_relaxed);
        int failed = begun ? 0 : begin_reply(connection, exchange);

        if (failed)
                exchange->failed = true;
        else
                flush(connection, true);
        return failed;
}

/* Behind what the peer has not taken yet, such as a large head.  Returns false when out of memory: nothing has changed. */
static bool
append_output(struct weir__connection *connection, const char *text)
{
        size_t before = connection->output ? connection->output_size : 0, size = strlen(text);
        char *output = realloc(connection->output, before + size);

        if (!output)
                return false;
        memcpy(output + before, text, size);
        connection->output = output;
        connection->output_size = before + size;
        connection->output_sent = before ? connection->output_sent : 0;
        return true;
}

void
weir__connection_beat(struct weir__connection *connection)
{
        /* Out of memory, the next one comes when it is due. */
        (void)append_output(connection, connection->exchange->reply_chunked ? "3\r\n:\n\n\r\n" : ":\n\n");
        flush(connection, true);
}

int
weir__connection_write(struct weir__connection *connection, struct weir__transfer *transfer)
{
        struct weir__exchange *exchange = connection->exchange;
        int failed = atomic_load_explicit(&exchange->begun, memory_order_relaxed) ? 0 : begin_reply(connection, exchange);

        if (failed == -ENOMEM)
                exchange->failed = true;
        if (failed)
                return failed;
        if (exchange->reply_left != UINT64_MAX) {
                if (transfer->size > exchange->reply_left)
                        return -EMSGSIZE;
                exchange->reply_left -= transfer->size;
        }
        if (!weir__exchange_carries_body(exchange))
                transfer->size = 0;
        else if (transfer->size && exchange->reply_chunked)
                weir__transfer_frame(transfer);
        transfer->linked = true;
        transfer->next = NULL;
        *connection->writers_end = transfer;
        connection->writers_end = &transfer->next;
        flush(connection, true);
        return transfer->linked ? 0 : transfer->task.status;
}

/* The series of an exchange whose reply has begun is over.  A client must not take for whole what is not. */
static void
end_reply(struct weir__connection *connection, struct weir__exchange *exchange)
{
        bool is_short = exchange->reply_left != UINT64_MAX && exchange->reply_left && weir__exchange_carries_body(exchange);

        if (exchange->result || exchange->failed || is_short) {
                weir__connection_close(connection);
                return;
        }
        if (!exchange->raw)
                leave_body(connection, exchange);
        if (exchange->reply_chunked && weir__exchange_carries_body(exchange) && !append_output(connection, "0\r\n\r\n")) {
                weir__connection_close(connection);
                return;
        }
        weir__reply_begins(connection, exchange, exchange->response.status);
        write_on(connection);
}

void
weir__connection_answer(struct weir__exchange *exchange)
{
        struct weir__connection *connection = exchange->connection;
        struct weir__poller *poller = connection->shard->poller;

        weir__poller_note_reply(poller, poller->woke_at - exchange->began);
        if (connection->state == WEIR__GONE) {
                weir__connection_drop_exchange(connection);
                weir__runtime_leave();
                return;
        }
        if (exchange->upgrade && !exchange->result && !atomic_load_explicit(&exchange->begun, memory_order_relaxed))
                exchange->failed |= begin_reply(connection, exchange) !=
                                    0; /* switched, and nothing written: that is all there is */
        connection->exchange = NULL;   /* the connection goes on to the next one */
        if (atomic_load_explicit(&exchange->begun, memory_order_relaxed))
                end_reply(connection, exchange);
        else if (is_dropped(exchange->result))
                weir__connection_close(connection);
        else
                reply(connection, exchange);
        if (connection->state == WEIR__WRITING && exchange->request && !connection->refused && !connection->replied)
                weir__keep_request(connection, exchange);
        weir__exchange_ends(exchange);
        weir__exchange_free(exchange);
        weir__runtime_leave();
}
