/* server/connection/http1.c: the entry points of a connection of HTTP/1: events, time, its exchanges, and its server.
 *
 * Threads: the owner of the poller only.
 *
 * What happens to a connection begins here, and goes down from here: to receive.c and reply.c, and to the states in
 * connection.c.  The rooms for listening and for the end of a server close connections by themselves. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

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
        struct weir__exchange *exchange = connection->exchange;
        bool may_continue = exchange->request->minor > 0 && !weir__exchange_has_begun(exchange);

        exchange->is_client_asked = true;
        weir__stream_probe(&connection->stream);
        if (weir__connection_event_stream(connection))
                weir__stream_reply_beat(connection);
        else if (may_continue &&
                 !weir__stream_untaken(&connection->stream)) /* otherwise an earlier reply that is on its way asks the same */
                weir__reply_continue(connection);
        if (connection->state == WEIR__ANSWERING)
                weir__connection_enter(connection, WEIR__ANSWERING);
}

/* Whether the peer reads, although slowly.  A socket may hold megabytes, and becomes writable again only when a good part of them
 * was taken.  A slow peer may need longer for that than the limit. */
static bool
is_peer_reading(struct weir__connection *connection)
{
        return weir__connection_has_output(connection) && weir__stream_untaken(&connection->stream) < connection->writing.untaken;
}

static void
timed_out(struct weir__connection *connection)
{
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

static void
alarm_run(struct weir__work *work)
{
        struct weir__connection *connection = weir__container_of(work, struct weir__connection, timing.alarm.work);
        weir_nsec now = weir__clock_now();

        connection->timing.alarm_at = WEIR_FOREVER;
        if (connection->state == WEIR__GONE)
                weir__connection_free(connection);
        else if (connection->timing.expires_at <= now)
                timed_out(connection);
        else if (connection->timing.expires_at != WEIR_FOREVER)
                weir__connection_set_limit(connection, now, connection->timing.expires_at - now);
}

static const struct weir__work_ops alarm_ops = {.run = alarm_run};

/* -- events -- */

static void
requeued_run(struct weir__work *work)
{
        struct weir__connection *connection = weir__container_of(work, struct weir__connection, requeued);

        connection->is_requeued = false;
        connection->reading.budget_used = 0;
        if (connection->state == WEIR__GONE) {
                weir__connection_free(connection);
                return;
        }
        if (connection->state == WEIR__WRITING)
                weir__reply_flush(connection, false);
        if (connection->state == WEIR__LINGERING)
                weir__connection_linger(connection);
        else
                weir__receive(connection);
}

static const struct weir__work_ops requeued_ops = {.run = requeued_run};

static void
ready(struct weir__source *source, uint32_t events)
{
        struct weir__connection *connection = weir__container_of(source, struct weir__connection, stream.source);

        if (!connection->is_requeued)
                connection->reading.budget_used = 0;
        if (connection->state == WEIR__LINGERING) { /* also when both sides are finished: a close with unread input resets */
                connection->reading.is_ready = true;
                weir__connection_linger(connection);
                return;
        }
        if (events & (EPOLLHUP | EPOLLERR)) { /* reset, or finished on both sides: no reply can be sent */
                weir__connection_close(connection);
                return;
        }
        /* TLS may have to write before it can read. */
        if (events & (EPOLLIN | EPOLLRDHUP) || (connection->stream.tls && weir__tls_wants_write(connection->stream.tls)))
                connection->reading.is_ready = true;
        if (events & EPOLLOUT && weir__connection_has_output(connection) && connection->state != WEIR__READING_BODY)
                weir__reply_flush(connection, false);
        if (events & EPOLLRDHUP && !connection->reading.has_ended) {
                connection->reading.has_ended = true;
                if (connection->state == WEIR__ANSWERING)
                        weir__connection_enter(connection, WEIR__ANSWERING); /* the limit may be another one now */
        }
        weir__receive(connection);
}

static void
shutdown_source(struct weir__source *source)
{
        struct weir__connection *connection = weir__container_of(source, struct weir__connection, stream.source);

        connection->is_last = true;
        if (connection->state != WEIR__ANSWERING || connection->reading.reader ||
            !weir__list_is_empty(&connection->writing.writers) || weir__connection_event_stream(connection))
                weir__connection_close(connection);
}

static void
destroy_source(struct weir__source *source)
{
        weir__connection_close(weir__container_of(source, struct weir__connection, stream.source));
}

static const struct weir__source_ops source_ops = {ready, shutdown_source, destroy_source};

/* -- exchanges -- */

static void
reply(struct weir__exchange *exchange)
{
        struct weir__connection *connection = weir__connection_of(exchange);
        struct weir__poller *poller = connection->client.branch->poller;

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
        weir__server_unkeep(server);
}

const struct weir__exchange_ops weir__http1_ops = {reply, try_transfer, withdraw, release, forget};

/* -- birth and stop -- */

bool
weir__http1_new(struct weir__branch *branch, int fd, const struct weir__peer *peer, bool is_admitted)
{
        struct weir__connection *connection = weir__alloc(sizeof *connection);

        if (!connection)
                return false;
        *connection = (struct weir__connection){
                .client = {.branch = branch, .peer = *peer},
                .stream.source = {.ops = &source_ops, .fd = fd},
                .is_admitted = is_admitted,
                .has_place = is_admitted,
                .timing = {.alarm.work.ops = &alarm_ops, .alarm_at = WEIR_FOREVER},
                .requeued.ops = &requeued_ops,
        };
        if (branch->server->secure.is_on && !(connection->stream.tls = weir__secure_accept(branch->server, fd))) {
                weir__free(connection, sizeof *connection);
                return false;
        }
        if (weir__source_add(branch->poller, &connection->stream.source, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
                weir__stream_become_plain(&connection->stream);
                weir__free(connection, sizeof *connection);
                return false;
        }
        weir__list_prepend(&branch->connections, &connection->link);
        weir__users_add(&branch->server->users);
        branch->turned_away += !is_admitted;
        weir__connection_enter(connection, connection->stream.tls ? WEIR__HANDSHAKING : WEIR__READING_HEAD);
        return true;
}

void
weir__http1_stop(struct weir__connection *connection)
{
        connection->is_last = true;
        if (weir__connection_event_stream(connection))
                weir__transfer_complete(weir__connection_event_stream(connection), 0); /* it would not end by itself */
        if (connection->state == WEIR__LINGERING) {
                weir_nsec until = weir__clock_after(weir__clock_now(), WEIR__LINGER_AT_STOP);

                if (connection->timing.lingers_until > until)
                        connection->timing.lingers_until = until;
        }
        if (!weir__connection_is_idle(connection))
                return;
        /* A request may be on its way already: it is answered. */
        ssize_t count = weir__connection_peek(connection);
        if (count == -EAGAIN && !connection->is_used && connection->client.branch->server->has_successor)
                weir__connection_set_limit(connection, weir__clock_now(), FIRST_WITHIN);
        else if (count <= 0)
                weir__connection_close(connection);
}
