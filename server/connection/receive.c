/* server/connection/receive.c: the input of a connection: heads, bodies, and later requests.
 *
 * Threads: the owner of the poller only.
 *
 * In the steady state a request is read into the poller's scratch buffer, and the connection owns no buffer at all.  Three things
 * are copied into `input`: half a head, a part of a body that nobody has asked for, and later requests.  While an exchange is out
 * nothing is read but the pieces of its body that it asks for.  Everything else waits in the socket, which slows the peer down.
 *
 * A body is collected before the handler runs (READING_BODY).  Where bodies stream, a task collects it or reads a piece of it
 * (ANSWERING, with a reader). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/runtime/runtime.h"
#include "server/connection/connection.h"
#include "server/exchange/transfer.h"

#define INPUT_STEP 4096 /* bytes that are read at once to continue a head */
#define AT_END     1

static const struct weir__chunked_limits chunked_limits = {
        .max_extensions = 16 * 1024, .max_trailers = 16 * 1024, .max_trailer_fields = 128};

/* -- input -- */

/* Reads into the buffer; returns the count, or 0 when there is nothing for now or the connection is closed. */
static size_t
read_some(struct weir__connection *connection, char *buffer, size_t room)
{
        ssize_t count = weir__input_read(&connection->transport, buffer, room);

        if (count > 0) {
                weir__count(&connection->client.branch->counts, WEIR__COUNT_RECEIVED, count);
                return (size_t)count;
        }
        if (count == 0 && connection->exchange && connection->exchange->is_raw)
                connection->exchange->body_left = 0;
        else if (count != -EAGAIN)
                weir__connection_close(connection); /* in the middle of a request or between two: there is nothing to answer */
        return 0;
}

/* -- bodies -- */

/* Decodes the body in the first `size` bytes at `data`.  *used of them belong to it; *payload bytes of the body are at `data`
 * afterwards.  Returns 0, AT_END, or the HTTP status of a fault. */
static int
decode(struct weir__exchange *exchange, char *data, size_t size, size_t *used, size_t *payload)
{
        if (exchange->is_raw || !exchange->request->is_chunked) {
                *used = *payload = size < exchange->body_left ? size : (size_t)exchange->body_left;
                if (!exchange->is_raw)
                        exchange->body_left -= *used;
                return exchange->body_left ? 0 : AT_END;
        }
        struct weir__connection *connection = weir__connection_of(exchange);
        int result = weir__chunked_feed(&connection->reading.chunked, &chunked_limits, data, size, used, payload);
        if (result == AT_END) {
                exchange->body_left = 0;
                connection->reading.gate = (struct weir__gate){0}; /* which shares its memory: for the next head */
        }
        return result;
}

/* Makes room for `more` bytes of the body and a NUL, if the body has at most `max` bytes then.  A length that was announced is
 * reserved at once: memory that is never written costs nothing.  Returns 0 or the HTTP status of a fault. */
static int
reserve(struct weir__exchange *exchange, size_t more, size_t max)
{
        if (exchange->body_size > max || more > max - exchange->body_size) /* an earlier collection may have had a larger `max` */
                return 413;
        size_t wanted = exchange->body_size + more, room = exchange->body_room;
        if (exchange->body && wanted <= room)
                return 0;
        room = room > max / 2 ? max : 2 * room;
        room = room < wanted ? wanted : room;
        if (room == SIZE_MAX)
                return 500;
        char *body = realloc(exchange->body, room + 1);
        if (!body)
                return 500;
        exchange->body = body;
        exchange->body_room = room;
        return 0;
}

/* The same for all that is left of a body with a length. */
static int
reserve_all(struct weir__exchange *exchange, size_t max)
{
        if (exchange->request->is_chunked || weir__exchange_is_all_read(exchange))
                return 0;
        return exchange->body_left > SIZE_MAX ? 413 : reserve(exchange, (size_t)exchange->body_left, max);
}

/* Decodes `size` bytes at `data`, which must not be in the body's memory.  Appends the payload to the body and keeps the rest as
 * input.  Returns as decode. */
static int
collect(struct weir__connection *connection, char *data, size_t size, size_t max)
{
        struct weir__exchange *exchange = connection->exchange;
        size_t used, payload;
        int result = decode(exchange, data, size, &used, &payload);

        if (result > AT_END)
                return result;
        int failed = payload ? reserve(exchange, payload, max) : 0;
        if (failed)
                return failed;
        if (payload) {
                memcpy(exchange->body + exchange->body_size, data, payload);
                exchange->body_size += payload;
                exchange->body[exchange->body_size] = '\0';
        }
        exchange->has_whole_body = result == AT_END && !exchange->is_read_in_pieces;
        return weir__input_keep(&connection->transport, data + used, size - used) ? result : 500;
}

/* Reads a part of a body with a length from the socket into the body's memory. */
static int
collect_in_place(struct weir__connection *connection)
{
        struct weir__exchange *exchange = connection->exchange;
        size_t left = (size_t)exchange->body_left;
        size_t count = read_some(connection, exchange->body + exchange->body_size, left);

        if (connection->state == WEIR__GONE)
                return 0;
        exchange->body_size += count;
        exchange->body[exchange->body_size] = '\0';
        exchange->body_left -= count;
        exchange->has_whole_body = !exchange->body_left && !exchange->is_read_in_pieces;
        return exchange->body_left ? 0 : AT_END;
}

/* Decodes these bytes, gives the reader the payload, and keeps the rest as input.  Returns 0 when there is no payload yet, AT_END
 * when the reader has its piece, or the HTTP status of a fault. */
static int
take_piece(struct weir__connection *connection, struct weir__transfer *transfer, char *data, size_t size)
{
        size_t used, payload;
        int result = decode(connection->exchange, data, size, &used, &payload);

        if (result > AT_END)
                return result;
        connection->exchange->is_read_in_pieces |= payload > 0;
        if (!weir__transfer_set_data(transfer, data, payload) ||
            !weir__input_keep(&connection->transport, data + used, size - used))
                return 500;
        return payload ? AT_END : result;
}

/* Decodes these bytes: a piece for a task that reads, or more of the whole body.  Returns as decode. */
static int
take(struct weir__connection *connection, struct weir__transfer *piece, size_t max, char *data, size_t size)
{
        return piece ? take_piece(connection, piece, data, size) : collect(connection, data, size, max);
}

static int
read_some_of_body(struct weir__connection *connection, struct weir__transfer *piece, size_t max)
{
        struct weir__exchange *exchange = connection->exchange;
        char *scratch = connection->client.branch->base.poller->scratch;

        if (!piece && !exchange->request->is_chunked) {
                int failed = reserve_all(exchange, max);
                return failed ? failed : collect_in_place(connection);
        }
        size_t count = read_some(connection, scratch, WEIR__SCRATCH_SIZE);
        if (count)
                return take(connection, piece, max, scratch, count);
        return connection->state != WEIR__GONE && weir__exchange_is_all_read(exchange) ? AT_END : 0;
}

/* Reads a piece of the body, or collects it, as far as it has come.  Returns as decode: 0 also when the connection is closed. */
static int
read_on(struct weir__connection *connection, struct weir__transfer *piece, size_t max)
{
        int result = weir__exchange_is_all_read(connection->exchange) ? AT_END : 0;

        if (!result && connection->transport.input.size)
                result = take(connection, piece, max, connection->transport.input.data, connection->transport.input.size);
        while (!result && weir__transport_may_read(&connection->transport))
                result = read_some_of_body(connection, piece, max);
        return connection->state == WEIR__GONE ? 0 : result;
}

/* -- a task reads the body -- */

/* The status of the reader's task for the HTTP status of a fault.  The reply has that HTTP status unless the handler makes
 * another one, or is cut if it has begun. */
static int
reader_fault(struct weir__connection *connection, int fault)
{
        connection->is_last = connection->reading.is_refused = true;
        connection->exchange->fault = (uint16_t)fault;
        connection->exchange->is_fault_late = weir__exchange_has_begun(connection->exchange);
        return fault == 413 ? -EMSGSIZE : fault == 500 ? -ENOMEM : fault == 408 ? -ETIMEDOUT : -EBADMSG;
}

static size_t
max_of(const struct weir__connection *connection, const struct weir__transfer *transfer)
{
        return transfer->max ? transfer->max : weir__connection_config(connection)->max_body;
}

/* Reads for the task, as far as there is input.  Returns whether the task has ended; *status says how. */
static bool
serve_reader(struct weir__connection *connection, struct weir__transfer *transfer, int *status)
{
        int result = read_on(connection, transfer->kind == WEIR__TRANSFER_READ ? transfer : NULL, max_of(connection, transfer));

        *status = 0;
        if (result > AT_END)
                *status = reader_fault(connection, result);
        else if (connection->state == WEIR__GONE)
                *status = -ECONNRESET;
        return result || *status;
}

/* Sends 100 Continue if the client waits for it before it sends the body. */
static void
say_continue(struct weir__connection *connection)
{
        struct weir__exchange *exchange = connection->exchange;
        bool is_expected = exchange->request->is_continue_expected && !exchange->has_continued &&
                           !connection->transport.input.size;

        exchange->has_continued = true;
        if (is_expected && !weir__exchange_has_begun(exchange) && !exchange->body_size)
                weir__reply_continue(connection);
}

int
weir__receive_for_task(struct weir__transfer *transfer)
{
        struct weir__connection *connection = weir__connection_of(transfer->exchange);
        int status;

        if (connection->reading.reader)
                return -EBUSY;
        if (connection->reading.is_refused)
                return -EBADMSG;
        if (connection->exchange->upgrade && !weir__exchange_has_begun(connection->exchange)) {
                status = weir__stream_reply_begin(connection); /* the client waits for 101 before it sends */
                if (status)
                        return status;
                weir__reply_flush(connection, true);
                if (connection->state == WEIR__GONE)
                        return -ECONNRESET;
        }
        if (connection->exchange->is_raw && transfer->kind == WEIR__TRANSFER_COLLECT)
                return -EINVAL; /* it has no end */
        int fault = transfer->kind == WEIR__TRANSFER_COLLECT ? reserve_all(connection->exchange, max_of(connection, transfer))
                                                             : 0;
        if (fault)
                return reader_fault(connection, fault); /* before the client is told to go on and send it */
        if (!weir__exchange_is_all_read(connection->exchange))
                say_continue(connection);
        if (serve_reader(connection, transfer, &status))
                return status;
        connection->reading.reader = transfer;
        transfer->expires_at = connection->exchange->is_raw || weir__connection_config(connection)->body_timeout == WEIR_FOREVER
                                       ? WEIR_FOREVER
                                       : weir__clock_after(weir__clock_now(), weir__connection_config(connection)->body_timeout);
        transfer->io.task.is_linked = true;
        weir__connection_enter(connection, WEIR__ANSWERING); /* from now on its time runs */
        return 0;
}

/* The task's time does not begin anew with each byte: a client that sends one a minute would hold it for ever. */
static void
read_for_task(struct weir__connection *connection)
{
        struct weir__transfer *reader = connection->reading.reader;
        int status;

        if (!serve_reader(connection, reader, &status) || !connection->reading.reader)
                return; /* it still waits, or the closed connection has ended it */
        connection->reading.reader = NULL;
        weir__transfer_complete(reader, status);
        weir__connection_enter(connection, WEIR__ANSWERING);
}

void
weir__receive_fail_task(struct weir__connection *connection, int fault)
{
        struct weir__transfer *reader = connection->reading.reader;

        connection->reading.reader = NULL;
        weir__transfer_complete(reader, reader_fault(connection, fault));
        weir__connection_enter(connection, WEIR__ANSWERING);
}

/* -- heads -- */

/* Delivers the exchange to its handler. */
static void
dispatch(struct weir__connection *connection)
{
        if (weir__runtime_enter()) {
                weir__connection_close(connection);
                return;
        }
        weir__connection_enter(connection, WEIR__ANSWERING);
        weir__task_make_ready(&connection->exchange->task);
}

/* After a reading of the body.  0: there is more to come. */
static void
act_on_body(struct weir__connection *connection, int result)
{
        if (result == AT_END)
                dispatch(connection);
        else if (result)
                weir__reply_refuse(connection, result);
}

/* Collects the body before the handler runs.  `size` bytes, perhaps also of later requests, came with the head. */
static void
begin_body(struct weir__connection *connection, char *data, size_t size)
{
        int result = collect(connection, data, size, weir__connection_config(connection)->max_body);

        if (result) {
                act_on_body(connection, result);
                return;
        }
        weir__connection_enter(connection, WEIR__READING_BODY); /* from now on its limit */
        if (!size)
                say_continue(connection);
        weir__receive(connection);
}

/* With a complete head of `head_size` bytes, in `size` bytes. */
static void
begin_exchange(struct weir__connection *connection, char *data, size_t size, size_t head_size)
{
        const struct weir_http_server_config *config = weir__connection_config(connection);
        struct weir__request *request;
        int status = weir__request_new(data, head_size, config->stream_bodies ? UINT64_MAX : config->max_body, weir__alloc,
                                       &request);

        if (status) {
                weir__reply_refuse(connection, status);
                return;
        }
        connection->state = WEIR__READING_BODY;
        if (!weir__shed_admits(connection->client.branch)) {
                weir__count(&connection->client.branch->counts, WEIR__COUNT_SHED, 1);
                weir__record_request(connection, request);
                weir__reply_refuse(connection, 503);
                return;
        }
        connection->exchange = weir__exchange_new(connection->client.branch->exchange_ops, &connection->client,
                                                  connection->transport.stream.source.fd, request);
        if (!connection->exchange) {
                weir__reply_refuse(connection, 500);
                return;
        }
        _Static_assert(sizeof connection->reading.chunked >= sizeof connection->reading.gate, "zero is zero for both");
        connection->reading.chunked = (struct weir__chunked){0}; /* and so is the gate, which shares its memory */
        if (!config->stream_bodies && !weir__exchange_is_all_read(connection->exchange))
                begin_body(connection, data + head_size, size - head_size);
        else if (weir__input_keep(&connection->transport, data + head_size, size - head_size))
                dispatch(connection);
        else
                weir__reply_refuse(connection, 500);
}

/* Takes all bytes that have come, `size` of them, from the beginning of a request on. */
static void
take_head(struct weir__connection *connection, char *data, size_t size)
{
        bool is_first = !connection->reading.gate.scanned;
        bool had_begun = !is_first && weir__gate_has_begun(&connection->reading.gate);
        size_t head_size;
        int verdict = weir__gate_feed(&connection->reading.gate, &connection->client.branch->server->gate_limits, data, size,
                                      &head_size);

        if (verdict == WEIR__GATE_HEAD)
                begin_exchange(connection, data, size, head_size);
        else if (verdict != WEIR__GATE_MORE)
                weir__reply_refuse(connection, verdict);
        else if (data != connection->transport.input.data && !weir__input_keep(&connection->transport, data, size))
                weir__reply_refuse(connection, 500);
        else if (is_first || had_begun != weir__gate_has_begun(&connection->reading.gate))
                weir__connection_enter(connection, WEIR__READING_HEAD); /* once it has begun, the limit is that of a head */
}

/* The rest of a head is read in smaller steps, because bytes behind the head are copied twice. */
static void
read_head(struct weir__connection *connection)
{
        char *scratch = connection->client.branch->base.poller->scratch;
        bool is_fresh = !connection->transport.input.size;
        size_t count = read_some(connection, scratch, is_fresh ? WEIR__SCRATCH_SIZE : INPUT_STEP);

        if (!count)
                return;
        if (is_fresh)
                take_head(connection, scratch, count);
        else if (weir__input_append(&connection->transport, scratch, count))
                take_head(connection, connection->transport.input.data, connection->transport.input.size);
        else
                weir__reply_refuse(connection, 500);
}

/* -- the handshake of TLS -- */

static const char not_plain[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 55\r\n"
                                "Connection: close\r\n\r\nA plain HTTP request was sent to a port that has HTTPS\n";

/* The peer speaks HTTP without TLS: the reply says that TLS is needed. */
static void
refuse_plain(struct weir__connection *connection)
{
        struct iovec piece = {(char *)not_plain, sizeof not_plain - 1};

        weir__stream_become_plain(&connection->transport.stream);
        (void)weir__stream_write(&connection->transport.stream, &piece, 1);
        connection->is_last = connection->reading.is_refused = true;
        weir__connection_finish(connection);
}

static void
handshake(struct weir__connection *connection)
{
        weir_nsec began = weir__clock_monotonic();
        int failed = weir__stream_handshake(&connection->transport.stream);

        weir__handshakes_note(&connection->client.branch->handshakes, began);
        if (failed == -EAGAIN) {
                connection->transport.is_ready = false;
        } else if (failed) {
                weir__count(&connection->client.branch->counts, WEIR__COUNT_HANDSHAKES_FAILED, 1);
                if (failed == -EPROTOTYPE)
                        refuse_plain(connection);
                else
                        weir__connection_close(connection);
        } else {
                weir__count(&connection->client.branch->counts, WEIR__COUNT_HANDSHAKES, 1);
                connection->client.certificate = weir__tls_peer(connection->transport.stream.tls);
                connection->transport.is_ready = connection->transport.has_ended ||
                                                 weir__stream_may_have_more(&connection->transport.stream, 0, 0);
                if (connection->is_admitted)
                        weir__connection_enter(connection, WEIR__READING_HEAD);
                else
                        weir__reply_refuse(connection, 503);
        }
}

void
weir__receive(struct weir__connection *connection)
{
        struct weir__input *input = &connection->transport.input;
        const struct weir__reading *reading = &connection->reading;

        if (connection->state == WEIR__READING_HEAD && input->size && !reading->gate.scanned) /* a later request */
                take_head(connection, input->data, input->size);
        while (weir__transport_may_read(&connection->transport)) {
                if (connection->state == WEIR__READING_HEAD)
                        read_head(connection);
                else if (connection->state == WEIR__READING_BODY)
                        act_on_body(connection, read_on(connection, NULL, weir__connection_config(connection)->max_body));
                else if (connection->state == WEIR__ANSWERING && reading->reader)
                        read_for_task(connection);
                else if (connection->state == WEIR__HANDSHAKING &&
                         weir__handshakes_may_go_on(&connection->client.branch->handshakes, &connection->transport))
                        handshake(connection);
                else
                        return;
        }
}
