/* server/connection/reply.c: the output of a connection.
 *
 * Threads: the owner of the poller only.
 *
 * A whole reply that fits is put together in the poller's scratch buffer and goes out with one write.  A large body goes out from
 * its own memory, behind the head.  The rest of a file goes out by sendfile.  A reply that is written piece by piece has its head
 * in `kept`, and its pieces in the tasks that write them.
 *
 * The rest of a reply that the socket does not take stays in its memory, and the next request waits until it is out.  So a peer
 * that does not read costs the memory of one reply, until the write limit. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "server/base/error_pages.h"
#include "server/connection/connection.h"
#include "server/exchange/exchange.h"
#include "server/exchange/transfer.h"

static const char *
date_of(struct weir__http_branch *branch)
{
        int64_t second = weir__clock_wall_coarse() / 1000000000;

        if (second != branch->date_second) {
                branch->date_second = second;
                weir__http_date(second, branch->date);
        }
        return branch->date;
}

struct weir__framing
weir__reply_framing(struct weir__connection *connection, const struct weir__exchange *exchange)
{
        return (struct weir__framing){
                .date = date_of(connection->client.branch),
                .is_persistent = !connection->is_last,
                .should_say_keep_alive = exchange->request->has_keep_alive,
                .minor = exchange->request->minor,
                .is_head = exchange->request->is_head,
        };
}

/* The whole reply is written. */
static void
written(struct weir__connection *connection)
{
        weir__file_close(&connection->writing.file);
        connection->transport.must_break = false;
        weir__record_written(connection, true);
        if (connection->is_last)
                weir__connection_finish(connection);
        else
                weir__connection_enter(connection, WEIR__READING_HEAD);
}

/* -- sending -- */

struct weir__kept_output *
weir__reply_new_kept(size_t size)
{
        struct weir__kept_output *kept = malloc(sizeof *kept + size);

        if (kept)
                *kept = (struct weir__kept_output){.taken = NULL};
        return kept;
}

void
weir__reply_keep(struct weir__connection *connection, struct weir__kept_output *kept, char *data, size_t size)
{
        weir__reply_free_kept(&connection->writing);
        kept->writer.data = data;
        kept->writer.left = size;
        connection->writing.kept = kept;
        weir__output_prepend(&connection->transport, &kept->writer);
}

void
weir__reply_written(struct weir__transport *transport, struct weir__writer *writer)
{
        struct weir__writing *writing = &weir__connection_of_transport(transport)->writing;

        if (writing->kept && writer == &writing->kept->writer)
                weir__reply_free_kept(writing);
        else if (!writing->file || writer != &writing->file->writer) /* a file is closed at the end of the reply */
                weir__transfer_complete(weir__transfer_of(writer), 0);
}

void
weir__reply_flush(struct weir__connection *connection, bool is_fresh)
{
        struct weir__transport *transport = &connection->transport;
        uint64_t before = transport->sent;
        int result = weir__output_flush(transport);

        weir__count(&connection->client.branch->counts, WEIR__COUNT_SENT, (int64_t)(transport->sent - before));
        if (result < 0)
                weir__connection_close(connection);
        else if (result > 0 && connection->state == WEIR__WRITING)
                written(connection);
        else if (is_fresh || transport->sent > before)
                weir__connection_enter(connection, connection->state);
}

/* -- whole replies -- */

/* Keeps the rest of head and body behind `sent` bytes.  If the head is out and the body has memory of its own, it takes
 * over that memory.  Returns false when out of memory. */
static bool
keep_rest(struct weir__connection *connection, const struct iovec pieces[2], size_t sent, char **body)
{
        size_t head_sent = sent < pieces[0].iov_len ? sent : pieces[0].iov_len, head_left = pieces[0].iov_len - head_sent;
        size_t body_sent = sent - head_sent, body_left = pieces[1].iov_len - body_sent;

        bool should_take = !head_left && body;
        struct weir__kept_output *kept = weir__reply_new_kept(should_take ? 0 : head_left + body_left);

        if (!kept)
                return false;
        if (should_take) {
                kept->taken = *body;
                *body = NULL;
                weir__reply_keep(connection, kept, kept->taken + body_sent, body_left);
                return true;
        }
        memcpy(kept->bytes, (char *)pieces[0].iov_base + head_sent, head_left);
        if (body_left)
                memcpy(kept->bytes + head_left, (char *)pieces[1].iov_base + body_sent, body_left);
        weir__reply_keep(connection, kept, kept->bytes, head_left + body_left);
        return true;
}

/* Of `left` bytes that were not sent, the last `of_file` at most were read from the file: they are read again later, so that a
 * slow client costs no memory for them.  But a record of TLS that begins in the head must stay.  Returns how many go back. */
static size_t
unread_file(struct weir__connection *connection, size_t left, size_t of_file)
{
        size_t held = left > of_file ? weir__stream_held(&connection->transport.stream) : 0, others = left - held;
        size_t back = of_file < others ? of_file : others;

        if (back) {
                connection->writing.file->at -= back;
                connection->writing.file->size += back;
        }
        return back;
}

/* What is left of the file goes out behind all else. */
static void
queue_file(struct weir__connection *connection)
{
        struct weir__file_part *file = connection->writing.file;

        if (!file || !file->size)
                return;
        file->writer = (struct weir__writer){.kind = WEIR__WRITER_FILE, .file = file->fd, .at = file->at, .left = file->size};
        weir__output_append(&connection->transport, &file->writer);
}

/* Writes head and body.  The last `of_file` bytes of the head were read from the file behind it.  *body is the memory of the
 * body, which may be taken over; `body` is NULL if it may not. */
static void
write_out(struct weir__connection *connection, struct iovec pieces[2], size_t of_file, char **body)
{
        if (connection->is_last)
                weir__stream_hold_back(&connection->transport.stream);
        ssize_t sent = weir__stream_write(&connection->transport.stream, pieces, pieces[1].iov_len ? 2 : 1);
        if (sent == -EAGAIN)
                sent = 0;
        connection->transport.sent = sent > 0 ? (uint64_t)sent : 0;
        weir__count(&connection->client.branch->counts, WEIR__COUNT_SENT, (int64_t)connection->transport.sent);
        if (sent >= 0)
                pieces[0].iov_len -= unread_file(connection, pieces[0].iov_len + pieces[1].iov_len - (size_t)sent, of_file);
        bool is_out = sent >= 0 && (size_t)sent == pieces[0].iov_len + pieces[1].iov_len;
        if (sent < 0 || (!is_out && !keep_rest(connection, pieces, (size_t)sent, body))) {
                weir__connection_close(connection);
                return;
        }
        queue_file(connection);
        if (!weir__connection_has_output(connection)) {
                written(connection);
                return;
        }
        connection->state = WEIR__WRITING;
        if (is_out)
                weir__reply_flush(connection, true);
        else
                weir__connection_enter(connection, WEIR__WRITING);
}

/* Reads the beginning of the file to `out`, to be sent with the head; the connection takes over the file.  Returns the bytes
 * read. *is_sound is false when the file has no bytes although some were announced. */
static size_t
begin_file(struct weir__connection *connection, struct weir__exchange *exchange, char *out, size_t room, bool *is_sound)
{
        struct weir__file_part *file = exchange->file;
        size_t size = file->size < room ? (size_t)file->size : room;
        ssize_t count = 0;

        do {
                count = size ? pread(file->fd, out, size, (off_t)file->at) : 0;
        } while (count < 0 && errno == EINTR);
        *is_sound = count > 0 || !size;
        if (count > 0) {
                file->at += (uint64_t)count;
                file->size -= (uint64_t)count;
        }
        connection->writing.file = file;
        exchange->file = NULL;
        return count > 0 ? (size_t)count : 0;
}

static void
send_response(struct weir__connection *connection, struct weir__response *response, const struct weir__framing *framing,
              struct weir__exchange *exchange)
{
        size_t bound = weir__response_head_bound(response);
        bool is_in_scratch = bound <= WEIR__SCRATCH_SIZE, is_sound = true;
        char *head = is_in_scratch ? connection->client.branch->base.poller->scratch : malloc(bound);

        if (!head) {
                weir__connection_close(connection);
                return;
        }
        size_t head_size = weir__response_head(response, framing, head);
        connection->transport.sent = 0;
        connection->writing.head_size = (uint32_t)head_size;
        size_t body_size = weir__response_has_body(response, framing) ? response->body_size : 0, of_file = 0;
        struct iovec pieces[2] = {{head, head_size}, {response->body, body_size}};
        if (body_size && is_in_scratch && head_size + body_size <= WEIR__SCRATCH_SIZE) {
                memcpy(head + head_size, response->body, body_size);
                pieces[0].iov_len += body_size;
                pieces[1].iov_len = 0;
        } else if (exchange && exchange->file && weir__response_may_have_body(response, framing)) {
                size_t room = is_in_scratch ? WEIR__SCRATCH_SIZE - head_size : 0;

                of_file = begin_file(connection, exchange, head + head_size, room, &is_sound);
                pieces[0].iov_len += of_file;
        }
        if (is_sound)
                write_out(connection, pieces, of_file, weir__response_body_to_take(response));
        else
                weir__connection_close(connection);
        if (!is_in_scratch)
                free(head);
}

/* If the body was not read to its end, the next bytes are no request, and the client may still be sending.  A client that waits
 * for 100 does not send the body. */
void
weir__reply_leave_body(struct weir__connection *connection, const struct weir__exchange *exchange)
{
        if (weir__exchange_is_all_read(exchange))
                return;
        connection->is_last = true;
        connection->reading.is_unread = exchange->has_continued || !exchange->request->is_continue_expected;
}

/* The status of the server's own reply, if it must take the place of the handler's; or 0. */
static int
fault_of(const struct weir__exchange *exchange)
{
        const struct weir__response *response = &exchange->response;

        if (exchange->result == -ECANCELED)
                return exchange->fault;
        if (exchange->result == -ETIMEDOUT) /* the deadline of its series */
                return 503;
        if (exchange->has_failed || exchange->is_misused || exchange->result || weir__exchange_is_of_other_length(exchange))
                return 500;
        return response->status || response->body_size || exchange->file ? 0 : exchange->fault;
}

void
weir__reply_send(struct weir__connection *connection, struct weir__exchange *exchange)
{
        /* A handler that cancels its series because the body is broken leaves the reply to the server.  Any other result becomes
         * a status: fault_of. */
        if ((exchange->result == -ECANCELED && !exchange->fault) || exchange->result == -ESHUTDOWN) {
                weir__connection_close(connection);
                return;
        }
        weir__file_withhold(exchange);
        int fault = fault_of(exchange);
        if (fault && weir__exchange_refuse_anew(exchange, fault)) {
                weir__connection_close(connection);
                return;
        }
        connection->is_last |= !exchange->request->is_persistent;
        weir__reply_leave_body(connection, exchange);
        struct weir__framing framing = weir__reply_framing(connection, exchange);
        if (exchange->file) {
                framing.end = WEIR__END_AT_LENGTH;
                framing.length = exchange->file->size;
        } else if (exchange->reply_left != UINT64_MAX) {
                framing.end = WEIR__END_AT_LENGTH;
                framing.length = exchange->reply_left;
        }
        weir__record_reply(connection, exchange, exchange->response.status);
        send_response(connection, &exchange->response, &framing, exchange);
}

void
weir__reply_refuse(struct weir__connection *connection, int status)
{
        const struct weir__exchange *exchange = connection->exchange;
        struct weir__response response = {.status = status};
        struct weir__framing framing = {
                .date = date_of(connection->client.branch),
                .minor = 1,
                .is_head = exchange ? exchange->request->is_head : connection->reading.gate.is_head,
        };

        if (connection->is_admitted) /* otherwise it is not counted or logged, as without TLS */
                weir__record_reply(connection, connection->exchange, status);
        if (connection->state == WEIR__READING_BODY)
                weir__connection_drop_exchange(connection);
        connection->is_last = connection->reading.is_refused = true;
        connection->state = WEIR__READING_HEAD;
        if (weir__error_pages_fill(connection->client.branch->server, status, SIZE_MAX, &response))
                weir__connection_close(connection);
        else
                send_response(connection, &response, &framing, NULL);
        weir__response_done(&response);
}

/* The connection is closed right after it, so it must fit into the first segments. */
size_t
weir__reply_turning_away(struct weir__http_branch *branch)
{
        struct weir__response response = {.status = 0};
        struct weir__framing framing = {.date = date_of(branch), .minor = 1};
        char *out = branch->base.poller->scratch;

        if (weir__error_pages_fill(branch->server, 503, SIZE_MAX, &response) ||
            weir__response_head_bound(&response) + response.body_size > WEIR__LEAVES_FIRST) {
                weir__response_done(&response);
                (void)weir__error_pages_fill(branch->server, 503, 0, &response);
        }
        size_t head_size = weir__response_head(&response, &framing, out), size = head_size + response.body_size;
        if (response.body_size)
                memcpy(out + head_size, response.body, response.body_size);
        weir__response_done(&response);
        return size;
}

void
weir__reply_continue(struct weir__connection *connection)
{
        struct iovec piece = {(char *)WEIR__HTTP_CONTINUE, sizeof WEIR__HTTP_CONTINUE - 1};
        ssize_t sent = weir__stream_write(&connection->transport.stream, &piece, 1);

        weir__count(&connection->client.branch->counts, WEIR__COUNT_SENT, sent > 0 ? sent : 0);
        /* If the socket is full, the peer has earlier replies to read, and need not get this.  But bytes that TLS has encrypted
         * must go out before all others. */
        if ((sent != -EAGAIN || connection->transport.stream.tls) && sent != (ssize_t)piece.iov_len)
                weir__connection_close(connection);
}
