/* server/connection/http1.c: the entry points of a connection of HTTP/1: events, time, its exchanges, and its server.
 *
 * Threads: the owner of the poller only.
 *
 * What happens to a connection begins here, and goes down from here: to receive.c and reply.c, and to the states in
 * connection.c.  The rooms for listening and for the end of a server close connections by themselves. */
#include <errno.h>
#include <stdlib.h>

#include "kernel/base/clock.h"
#include "kernel/runtime/runtime.h"
#include "server/connection/connection.h"
#include "server/exchange/transfer.h"

#define FIRST_WITHIN WEIR_SEC(1) /* for the first request of a connection, if another process has the sockets */

/* -- time -- */

/* Asks whether the client is there.  An interim response asks at once; every client of HTTP/1.1 must accept it (RFC 9110 section
 * 15.2).  The system of the server also asks again and again (keep-alive of TCP), because an interim response may not be allowed,
 * and because a client's system answers with a reset only when it has forgotten the connection. */
static void
ask_client(struct weir__connection *connection)
{
        struct weir__stream *stream = &connection->transport.stream;
        struct weir__exchange *exchange = connection->exchange;
        bool may_continue = exchange->request->minor > 0 && !weir__exchange_has_begun(exchange);

        exchange->is_client_asked = true;
        weir__stream_probe(stream);
        if (weir__connection_event_stream(connection))
                weir__stream_reply_beat(connection);
        else if (may_continue && !weir__stream_untaken(stream)) /* otherwise an earlier reply on its way asks the same */
                weir__reply_continue(connection);
        if (connection->state == WEIR__ANSWERING)
                weir__connection_enter(connection, WEIR__ANSWERING);
}

/* Whether the peer reads, although slowly. */
static bool
is_peer_reading(struct weir__connection *connection)
{
        return weir__connection_has_output(connection) && weir__output_was_taken(&connection->transport);
}

static void
time_is_up(struct weir__transport *transport)
{
        struct weir__connection *connection = weir__connection_of_transport(transport);

        if (connection->state == WEIR__READING_BODY ||
            (connection->state == WEIR__READING_HEAD && weir__connection_has_begun(connection)))
                weir__reply_refuse(connection, 408);
        else if (weir__connection_reader_time_left(connection) == 0)
                weir__receive_fail_task(connection, 408);
        else if (is_peer_reading(connection))
                weir__connection_enter(connection, connection->state);
        else if (connection->state != WEIR__ANSWERING || weir__connection_has_output(connection))
                weir__connection_close(connection);
        else if (weir__connection_should_ask_client(connection))
                ask_client(connection);
        else if (weir__connection_event_stream(connection))
                weir__stream_reply_beat(connection);
        else
                weir__connection_enter(connection, WEIR__ANSWERING);
}

/* -- events -- */

static void
requeued(struct weir__transport *transport)
{
        struct weir__connection *connection = weir__connection_of_transport(transport);

        if (connection->state == WEIR__WRITING)
                weir__reply_flush(connection, false);
        weir__receive(connection);
}

static void
writable(struct weir__transport *transport)
{
        struct weir__connection *connection = weir__connection_of_transport(transport);

        if (connection->state != WEIR__READING_BODY)
                weir__reply_flush(connection, false);
}

static void
ended(struct weir__transport *transport)
{
        struct weir__connection *connection = weir__connection_of_transport(transport);

        if (connection->state == WEIR__ANSWERING)
                weir__connection_enter(connection, WEIR__ANSWERING); /* the limit may be another one now */
}

static void
readable(struct weir__transport *transport)
{
        weir__receive(weir__connection_of_transport(transport));
}

/* No reply can be sent.  But if the handler has ended its writing, both sides may just be finished, and tasks may still read. */
static void
hung_up(struct weir__transport *transport)
{
        struct weir__connection *connection = weir__connection_of_transport(transport);
        bool is_finished = connection->state == WEIR__ANSWERING && connection->exchange->is_finished &&
                           !weir__connection_has_output(connection);

        if (is_finished && weir__input_peek(transport) >= 0)
                weir__receive(connection);
        else
                weir__transport_close(transport);
}

/* ANSWERING: whether a task waits until its piece is out. */
static bool
has_writing_task(struct weir__connection *connection)
{
        const struct weir__kept_output *kept = connection->writing.kept;
        struct weir__link *first = weir__list_first(&connection->transport.writers);

        return kept ? weir__list_next(&connection->transport.writers, first) : first;
}

static void
shut_down(struct weir__transport *transport)
{
        struct weir__connection *connection = weir__connection_of_transport(transport);

        connection->is_last = true;
        if (connection->state != WEIR__ANSWERING || connection->reading.reader || has_writing_task(connection) ||
            weir__connection_event_stream(connection))
                weir__connection_close(connection);
}

static void
closed(struct weir__transport *transport)
{
        weir__connection_closed(weir__connection_of_transport(transport));
}

static void
unused(struct weir__transport *transport)
{
        weir__connection_free(weir__connection_of_transport(transport));
}

static const struct weir__transport_ops transport_ops = {
        .source = WEIR__TRANSPORT_SOURCE,
        .readable = readable,
        .writable = writable,
        .ended = ended,
        .hung_up = hung_up,
        .requeued = requeued,
        .time_is_up = time_is_up,
        .written = weir__reply_written,
        .shutdown = shut_down,
        .closed = closed,
        .unused = unused,
};

/* -- exchanges -- */

static void
reply(struct weir__exchange *exchange)
{
        struct weir__connection *connection = weir__connection_of(exchange);
        struct weir__poller *poller = connection->client.branch->base.poller;

        weir__coalescing_note_reply(connection->client.branch, poller->sleep.woke_at - exchange->came_at);
        if (connection->state == WEIR__GONE) {
                weir__connection_drop_exchange(connection);
                weir__runtime_leave();
                return;
        }
        if (exchange->upgrade && !exchange->result && !weir__exchange_has_begun(exchange)) /* only the 101 goes out */
                (void)weir__stream_reply_begin(connection);
        connection->exchange = NULL;
        if (weir__exchange_has_begun(exchange))
                weir__stream_reply_end(connection, exchange);
        else
                weir__reply_send(connection, exchange);
        if (connection->state == WEIR__WRITING && exchange->request && !connection->reading.is_refused &&
            !connection->replied.request)
                weir__record_keep_request(connection, exchange);
        weir__record_end(exchange);
        weir__exchange_free(exchange);
        if (connection->state == WEIR__READING_HEAD)
                weir__receive(connection);
        weir__runtime_leave();
}

static int
try_transfer(struct weir__transfer *transfer)
{
        bool is_gone = weir__connection_of(transfer->exchange)->state == WEIR__GONE;

        if (transfer->kind == WEIR__TRANSFER_WRITE)
                return is_gone ? -EPIPE : weir__stream_reply_write(transfer);
        if (transfer->kind == WEIR__TRANSFER_EVENTS)
                return is_gone ? -EPIPE : weir__stream_reply_open_events(transfer);
        return is_gone ? -ECONNRESET : weir__receive_for_task(transfer);
}

static void
withdraw(struct weir__transfer *transfer)
{
        struct weir__connection *connection = weir__connection_of(transfer->exchange);

        if (transfer->kind == WEIR__TRANSFER_WRITE)
                weir__stream_reply_withdraw(transfer);
        else if (transfer->kind == WEIR__TRANSFER_EVENTS)
                weir__transfer_leave(transfer);
        else
                connection->reading.reader = NULL;
        if (connection->state == WEIR__ANSWERING)
                weir__connection_enter(connection, WEIR__ANSWERING);
}

static void
release(struct weir__exchange *exchange)
{
        struct weir__connection *connection = weir__connection_of(exchange);

        connection->has_reference = true;
        weir__connection_close(connection);
        weir__connection_free(connection);
}

static void
forget(struct weir__exchange *exchange)
{
        struct weir__connection *connection = weir__connection_of(exchange);
        weir_http_server *server = connection->client.branch->server;

        weir__exchange_free(exchange);
        free(connection->client.certificate);
        weir__free(connection, sizeof *connection);
        weir__server_unref(&server->base);
}

const struct weir__exchange_ops weir__http1_ops = {reply, try_transfer, withdraw, release, forget};

/* -- handshakes -- */

static struct weir__http_branch *
branch_of(const struct weir__handshakes *handshakes)
{
        return weir__container_of((struct weir__handshakes *)handshakes, struct weir__http_branch, handshakes);
}

static int64_t
moved(const struct weir__handshakes *handshakes)
{
        const struct weir__counts *counts = &branch_of(handshakes)->counts;

        return weir__counted(counts, WEIR__COUNT_RECEIVED) + weir__counted(counts, WEIR__COUNT_SENT);
}

static void
hold_branch(struct weir__handshakes *handshakes)
{
        weir__users_add(&branch_of(handshakes)->server->base.users);
}

static void
release_branch(struct weir__handshakes *handshakes)
{
        weir__users_remove(&branch_of(handshakes)->server->base.users);
}

const struct weir__handshakes_ops weir__http1_handshakes_ops = {moved, hold_branch, release_branch};

/* -- birth and stop -- */

bool
weir__http1_new(struct weir__http_branch *branch, int fd, const struct weir__peer *peer, bool is_admitted)
{
        struct weir__connection *connection = weir__alloc(sizeof *connection);

        if (!connection)
                return false;
        *connection = (struct weir__connection){
                .client = {.branch = branch, .peer = *peer},
                .is_admitted = is_admitted,
                .has_permit = is_admitted,
        };
        struct weir__stream *stream = &connection->transport.stream;
        weir__transport_init(&connection->transport, &transport_ops, branch->base.poller->index, fd);
        if (branch->server->base.secure.is_on && !(stream->tls = weir__secure_accept(branch->base.server, fd))) {
                weir__free(connection, sizeof *connection);
                return false;
        }
        if (weir__transport_open(&connection->transport)) {
                weir__stream_become_plain(stream);
                weir__free(connection, sizeof *connection);
                return false;
        }
        weir__list_prepend(&branch->connections, &connection->link);
        weir__users_add(&branch->server->base.users);
        branch->turned_away += !is_admitted;
        weir__connection_enter(connection, stream->tls ? WEIR__HANDSHAKING : WEIR__READING_HEAD);
        return true;
}

void
weir__http1_stop(struct weir__connection *connection)
{
        connection->is_last = true;
        if (weir__connection_event_stream(connection))
                weir__transfer_complete(weir__connection_event_stream(connection), 0); /* it would not end by itself */
        if (connection->state == WEIR__LINGERING)
                weir__transport_linger_at_most(&connection->transport, WEIR__LINGER_AT_STOP);
        if (!weir__connection_is_idle(connection))
                return;
        /* A request may be on its way already: it is answered. */
        ssize_t count = weir__input_peek(&connection->transport);
        if (count == -EAGAIN && !connection->is_used && connection->client.branch->server->base.has_successor)
                (void)weir__transport_set_limit(&connection->transport, weir__clock_now(), FIRST_WITHIN);
        else if (count <= 0)
                weir__connection_close(connection);
}
