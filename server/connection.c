/* server/connection.c: the life of a connection.
 *
 *     [HANDSHAKING ->] READING_HEAD -> [READING_BODY ->] ANSWERING -> [WRITING ->] READING_HEAD ...
 *          |              |                |               |            |
 *          +--------------+----------------+-- error ------|------------+--> LINGERING --> GONE --> freed
 *          +--------------+----------------+---------------+------------+-- lost, cut, timed out --^
 *
 * Threads: the owner of the poller only.  While an exchange is out at its handler, events only set bits; a connection that is
 *          lost meanwhile closes its descriptor at once and waits, GONE, for its exchange to come back.  A connection is never
 *          freed while a function of it is on the stack: one that is GONE is buried by the work of its limit, from the worker's
 *          loop.
 *
 * Turns: what was read since others had their turn is counted; when it is much the connection goes on by a work, behind them.
 *
 * Time limits are lazy: entering a state writes `expires_at`; the limit in the poller's queue is moved only when it stands later
 * than that, and put off when it comes early.  So a busy connection costs one queue operation in many requests. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/socket/stream.h"
#include "server/server.h"

#define LINGER       WEIR_SEC(5)  /* for the next bytes ... */
#define LINGER_LONG  WEIR_SEC(30) /* ... and at most for all of them, unless the server stops */
#define FIRST_WITHIN WEIR_SEC(1)  /* after a hand-over: for the first request of a connection that came to the former process */
#define TURN         16           /* reads, each of so many bytes, before others have theirs */
#define READ         ((size_t)64 * 1024)
#define LINGER_MAX   ((size_t)1 << 20) /* bytes thrown away before even the politest gives up */

/* -- time limits -- */

static void
set_limit(struct weir__connection *connection, weir_nsec now, weir_nsec duration)
{
        connection->expires_at = duration == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(now, duration);
        if (connection->expires_at >= connection->queued_for)
                return;
        if (weir__limit_set(connection->shard->poller, &connection->limit, connection->expires_at))
                connection->queued_for = connection->expires_at;
}

static bool
has_output(const struct weir__connection *connection)
{
        return connection->output || connection->writers || (connection->file && connection->file->size);
}

/* A client that has finished its side may have gone altogether, which nobody can tell who does not send it something.  Is it gone, its
 * system answers that with a reset. */
static bool
is_to_be_probed(const struct weir__connection *connection)
{
        const struct weir__exchange *exchange = connection->exchange;

        return connection->ended && exchange && !exchange->probed && !connection->shard->server->config.ignore_departure;
}

/* Asks at once with an interim response, which every client of HTTP/1.1 has to put up with (RFC 9110 section 15.2).  Where none may go
 * out, and from then on, the system asks again and again: one that has gone answers so only when its own side has been forgotten. */
static void
probe(struct weir__connection *connection)
{
        struct weir__exchange *exchange = connection->exchange;
        bool may_continue = exchange->request->minor > 0 && !atomic_load_explicit(&exchange->begun, memory_order_relaxed);

        exchange->probed = true;
        weir__stream_keep_asking(&connection->stream);
        if (connection->events)
                weir__connection_beat(connection);
        else if (may_continue &&
                 !weir__stream_untaken(&connection->stream)) /* else an earlier reply, on its way still, asks the same */
                weir__connection_continue(connection);
}

/* The time of a task that reads runs from its start, whatever is written meanwhile. */
static weir_nsec
left_to_read(const struct weir__connection *connection)
{
        weir_nsec expires_at = connection->reader ? connection->reader->expires_at : WEIR_FOREVER, now;

        if (expires_at == WEIR_FOREVER)
                return WEIR_FOREVER;
        now = weir__clock_now();
        return expires_at > now ? expires_at - now : 0;
}

/* While the exchange is out, what counts is what it waits for.  A probe waits for its turn: a handler that replies at once needs
 * none. */
static weir_nsec
answering_limit(const struct weir__connection *connection)
{
        const struct weir_http_server_config *config = &connection->shard->server->config;

        weir_nsec reading = left_to_read(connection);

        if (has_output(connection))
                return reading < config->write_timeout ? reading : config->write_timeout;
        if (is_to_be_probed(connection))
                return 0;
        if (connection->reader)
                return reading;
        if (connection->events)
                return connection->events->heartbeat;
        return WEIR_FOREVER;
}

static weir_nsec
lingering_limit(const struct weir__connection *connection)
{
        weir_nsec left = connection->lingers_until - weir__clock_now();

        return left < LINGER ? left : LINGER;
}

static weir_nsec
limit_of(const struct weir__connection *connection)
{
        const struct weir_http_server_config *config = &connection->shard->server->config;

        switch ((enum weir__connection_state)connection->state) {
        case WEIR__HANDSHAKING: return config->handshake_timeout;
        case WEIR__READING_HEAD:
                /* The last request of one whose handshake ended after the stop has begun must come soon. */
                return connection->input_size || connection->last ? config->head_timeout : config->idle_timeout;
        case WEIR__READING_BODY: return config->body_timeout;
        case WEIR__ANSWERING: return answering_limit(connection);
        case WEIR__WRITING: return config->write_timeout;
        case WEIR__LINGERING: return lingering_limit(connection);
        case WEIR__GONE: break;
        }
        return WEIR_FOREVER;
}

/* -- those that wait for a request -- */

static void
publish_idle(struct weir__shard *shard)
{
        atomic_store_explicit(&shard->idle_since, shard->idle ? shard->idle->idle_since : WEIR_FOREVER, memory_order_relaxed);
}

static void
leave_idle(struct weir__connection *connection)
{
        struct weir__shard *shard = connection->shard;

        if (!connection->idle)
                return;
        connection->idle = false;
        weir__count(&shard->counts, WEIR__COUNT_IDLE, -1);
        *(connection->idle_previous ? &connection->idle_previous->idle_next : &shard->idle) = connection->idle_next;
        *(connection->idle_next ? &connection->idle_next->idle_previous : &shard->idle_last) = connection->idle_previous;
        publish_idle(shard);
}

static void
enter_idle(struct weir__connection *connection, weir_nsec now)
{
        struct weir__shard *shard = connection->shard;

        leave_idle(connection);
        connection->idle = true;
        weir__count(&shard->counts, WEIR__COUNT_IDLE, 1);
        connection->idle_since = now;
        connection->idle_previous = shard->idle_last;
        connection->idle_next = NULL;
        *(shard->idle_last ? &shard->idle_last->idle_next : &shard->idle) = connection;
        shard->idle_last = connection;
        publish_idle(shard);
        if (__builtin_expect(atomic_load_explicit(&shard->eviction, memory_order_relaxed) == WEIR__EVICTION_OWED, 0))
                weir__admission_repay(shard);
}

static bool
is_idle(const struct weir__connection *connection)
{
        return connection->state == WEIR__READING_HEAD && !connection->input_size;
}

/* Into a state, with its time limit. */
void
weir__connection_enter(struct weir__connection *connection, enum weir__connection_state state)
{
        connection->state = (uint8_t)state;
        weir_nsec duration = limit_of(connection), now = duration == WEIR_FOREVER ? 0 : weir__clock_now();

        if (is_idle(connection))
                enter_idle(connection, now ? now : weir__clock_now());
        else
                leave_idle(connection);
        connection->used |= state != WEIR__READING_HEAD && state != WEIR__HANDSHAKING;
        if (has_output(connection))
                connection->untaken = weir__stream_untaken(&connection->stream);
        set_limit(connection, now, duration);
}

/* Whether the peer reads, although slowly.  The socket becomes writable again only when a good part of what it holds, which may be
 * megabytes, was taken: a slow peer may need longer for that than the limit. */
static bool
is_read(struct weir__connection *connection)
{
        return has_output(connection) && weir__stream_untaken(&connection->stream) < connection->untaken;
}

static void
answering_timed_out(struct weir__connection *connection)
{
        if (has_output(connection)) {
                weir__connection_close(connection);
        } else if (is_to_be_probed(connection)) {
                probe(connection);
                if (connection->state == WEIR__ANSWERING)
                        weir__connection_enter(connection, WEIR__ANSWERING);
        } else if (connection->events) {
                weir__connection_beat(connection);
        } else {
                weir__connection_enter(connection, WEIR__ANSWERING);
        }
}

static void
timed_out(struct weir__connection *connection)
{
        if (connection->state == WEIR__READING_BODY || (connection->state == WEIR__READING_HEAD && connection->input_size))
                weir__connection_refuse(connection, 408, weir__connection_is_to_head(connection));
        else if (left_to_read(connection) == 0)
                weir__connection_reader_failed(connection, 408);
        else if (is_read(connection))
                weir__connection_enter(connection, connection->state);
        else if (connection->state == WEIR__ANSWERING)
                answering_timed_out(connection);
        else
                weir__connection_close(connection);
}

static void
limit_run(struct weir__work *work)
{
        struct weir__connection *connection = (struct weir__connection *)((char *)work -
                                                                          offsetof(struct weir__connection, limit.work));
        weir_nsec now = weir__clock_now();

        connection->queued_for = WEIR_FOREVER;
        if (connection->state == WEIR__GONE)
                weir__connection_bury(connection);
        else if (connection->expires_at <= now)
                timed_out(connection);
        else if (connection->expires_at != WEIR_FOREVER)
                set_limit(connection, now, connection->expires_at - now);
}

static const struct weir__work_ops limit_ops = {.run = limit_run};

/* -- birth and death -- */

/* Frees a connection that is GONE, unless its exchange is still out or work of it on its way: that will call this again. */
void
weir__connection_bury(struct weir__connection *connection)
{
        struct weir__shard *shard = connection->shard;

        if (connection->exchange || connection->queued_for != WEIR_FOREVER || connection->more_queued)
                return;
        *(connection->previous ? &connection->previous->next : &shard->first) = connection->next;
        if (connection->next)
                connection->next->previous = connection->previous;
        free(connection->input);
        free(connection->output);
        free(connection->client);
        weir__free(connection, sizeof *connection);
        weir__server_closed(shard->server);
}

/* Its exchange is out, and the connection is no more. */
static void
tell_exchange(struct weir__connection *connection)
{
        int status = weir__phase_is_stopping() ? -ESHUTDOWN : 0;
        struct weir__transfer *reader = connection->reader;

        connection->reader = NULL;
        connection->writers_end = &connection->writers;
        if (reader)
                weir__transfer_complete(reader, status ? status : -ECONNRESET);
        while (connection->writers) {
                struct weir__transfer *writer = connection->writers;

                connection->writers = writer->next;
                weir__transfer_complete(writer, status ? status : -EPIPE);
        }
        if (connection->events)
                weir__event_stream_complete(connection->events, status ? status : -EPIPE);
        if (!status && !connection->shard->server->config.ignore_departure) /* at shutdown its series ends by itself, as all do */
                weir__exchange_cut(connection->exchange);
}

void
weir__connection_close(struct weir__connection *connection)
{
        struct weir__shard *shard = connection->shard;

        if (connection->state == WEIR__GONE)
                return;
        if (connection->state == WEIR__READING_BODY)
                weir__connection_drop_exchange(connection);
        leave_idle(connection);
        weir__file_close(&connection->file);
        weir__poller_remove_source(shard->poller, &connection->stream.source);
        if (connection->ends_reply)
                weir__stream_break(&connection->stream);
        else
                weir__stream_close(&connection->stream);
        connection->state = WEIR__GONE;
        weir__reply_ends(connection, false);
        if (connection->exchange)
                tell_exchange(connection);
        if (connection->admitted)
                weir__dismiss_connection(shard, &connection->peer, connection->has_place);
        shard->turned_away -= !connection->admitted;
        weir__listeners_room(shard);
        if (connection->queued_for != WEIR_FOREVER && !weir__limit_clear(shard->poller, &connection->limit))
                return; /* its work is on its way already */
        connection->queued_for = 0;
        weir__poller_deliver(shard->poller, &connection->limit.work);
}

void
weir__connection_drop_exchange(struct weir__connection *connection)
{
        if (connection->exchange) {
                weir__exchange_ends(connection->exchange);
                weir__exchange_free(connection->exchange);
        }
        connection->exchange = NULL;
        if (connection->state == WEIR__GONE)
                weir__connection_bury(connection);
}

/* Reads on, and throws away: the peer may still be sending, and a close would then reset what it has not read of our answer.  As long
 * as something comes it has not got to that.
 * Source: RFC 9112 section 9.6. */
static void
linger(struct weir__connection *connection)
{
        struct weir__poller *poller = connection->shard->poller;
        size_t before = connection->input_size;

        while (weir__connection_may_read(connection)) {
                ssize_t count = weir__stream_read(&connection->stream, poller->scratch, WEIR__SCRATCH_SIZE);

                if (count == -EAGAIN) {
                        connection->readable = false;
                        break;
                }
                weir__connection_has_read(connection, count > 0 ? (size_t)count : 0);
                connection->input_size += count > 0 ? (size_t)count : 0; /* nothing is kept: a count */
                if (count <= 0 || connection->input_size > LINGER_MAX) {
                        weir__connection_close(connection);
                        return;
                }
        }
        if (connection->input_size > before)
                weir__connection_enter(connection, WEIR__LINGERING);
}

/* -- turns -- */

static void
more_run(struct weir__work *work)
{
        struct weir__connection *connection = (struct weir__connection *)((char *)work - offsetof(struct weir__connection, more));

        connection->more_queued = false;
        connection->turn = 0;
        if (connection->state == WEIR__GONE)
                weir__connection_bury(connection);
        else if (connection->state == WEIR__WRITING)
                weir__connection_flush(connection);
        else if (connection->state == WEIR__LINGERING)
                linger(connection);
        else
                weir__connection_receive(connection);
}

static const struct weir__work_ops more_ops = {.run = more_run};

void
weir__connection_come_again(struct weir__connection *connection)
{
        if (connection->more_queued)
                return;
        connection->more.ops = &more_ops;
        connection->more_queued = true;
        weir__poller_deliver_behind(connection->shard->poller, &connection->more);
}

void
weir__connection_has_read(struct weir__connection *connection, size_t size)
{
        connection->turn += size < READ ? 1 : size < TURN * READ ? (uint32_t)(size / READ) : TURN;
}

bool
weir__connection_may_read(struct weir__connection *connection)
{
        if (connection->readable && connection->turn >= TURN)
                weir__connection_come_again(connection);
        return connection->readable && connection->turn < TURN;
}

/* -- the end -- */

void
weir__connection_finish(struct weir__connection *connection)
{
        bool clean = !connection->refused && !connection->unread && !connection->input_size;

        /* Whatever comes after a close would reset what the system has not sent yet: a peer of TLS says that it ends, others may have
         * pipelined. */
        if (connection->stream.tls)
                weir__stream_finish(&connection->stream); /* sends what was held back */
        if (connection->stream.tls || connection->sent > WEIR__LEAVES_FIRST)
                clean = clean && !weir__stream_unsent(&connection->stream);
        if (clean && (!connection->readable || weir__stream_peek(&connection->stream) == -EAGAIN)) {
                weir__connection_close(connection);
                return;
        }
        free(connection->input);
        connection->input = NULL;
        connection->input_size = connection->input_room = 0;
        weir__stream_finish(&connection->stream);
        connection->lingers_until = weir__clock_after(weir__clock_now(), connection->shard->stopping ? LINGER : LINGER_LONG);
        weir__connection_enter(connection, WEIR__LINGERING);
        linger(connection);
}

/* -- TLS -- */

static const char not_plain[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 55\r\n"
                                "Connection: close\r\n\r\nA plain HTTP request was sent to a port that has HTTPS\n";

/* The peer speaks HTTP without TLS, and so it is told. */
static void
refuse_plain(struct weir__connection *connection)
{
        struct iovec piece = {(char *)not_plain, sizeof not_plain - 1};

        weir__stream_become_plain(&connection->stream);
        (void)weir__stream_write(&connection->stream, &piece, 1);
        connection->last = connection->refused = true;
        weir__connection_finish(connection);
}

void
weir__connection_shake_hands(struct weir__connection *connection)
{
        int failed = weir__stream_handshake(&connection->stream);

        if (failed == -EAGAIN) {
                connection->readable = false;
        } else if (failed) {
                weir__count(&connection->shard->counts, WEIR__COUNT_HANDSHAKES_FAILED, 1);
                if (failed == -EPROTOTYPE)
                        refuse_plain(connection);
                else
                        weir__connection_close(connection);
        } else {
                weir__count(&connection->shard->counts, WEIR__COUNT_HANDSHAKES, 1);
                connection->client = weir__tls_peer(connection->stream.tls);
                connection->readable = connection->ended || weir__stream_may_have_more(&connection->stream, 0, 0);
                if (connection->admitted)
                        weir__connection_enter(connection, WEIR__READING_HEAD);
                else
                        weir__connection_refuse(connection, 503, false);
        }
}

/* -- events -- */

static void
finished_its_side(struct weir__connection *connection)
{
        connection->ended = true;
        if (connection->state == WEIR__ANSWERING)
                weir__connection_enter(connection, WEIR__ANSWERING); /* its limit may be another one now */
}

static void
ready(struct weir__source *source, uint32_t events)
{
        struct weir__connection *connection = (struct weir__connection *)source;

        if (!connection->more_queued)
                connection->turn = 0;
        if (connection->state == WEIR__LINGERING) { /* also when both sides are finished: what is unread would reset our reply */
                connection->readable = true;
                linger(connection);
                return;
        }
        if (events & (EPOLLHUP | EPOLLERR)) { /* reset, or finished on both sides: nothing can be answered */
                weir__connection_close(connection);
                return;
        }
        /* TLS may have to write before it can read. */
        if (events & (EPOLLIN | EPOLLRDHUP) || (connection->stream.tls && weir__tls_wants_write(connection->stream.tls)))
                connection->readable = true;
        if (events & EPOLLOUT && has_output(connection) && connection->state != WEIR__READING_BODY)
                weir__connection_flush(connection);
        if (events & EPOLLRDHUP && !connection->ended)
                finished_its_side(connection);
        weir__connection_receive(connection);
}

static void
shutdown_source(struct weir__source *source)
{
        struct weir__connection *connection = (struct weir__connection *)source;

        connection->last = true;
        if (connection->state != WEIR__ANSWERING || connection->reader || connection->writers || connection->events)
                weir__connection_close(connection);
}

static void
destroy_source(struct weir__source *source)
{
        weir__connection_close((struct weir__connection *)source);
}

static const struct weir__source_ops connection_ops = {ready, shutdown_source, destroy_source};

bool
weir__connection_new(struct weir__shard *shard, int fd, const struct weir__peer *peer, bool admitted)
{
        struct weir__connection *connection = weir__alloc(sizeof *connection);

        if (!connection)
                return false;
        *connection = (struct weir__connection){
                .stream.source = {.ops = &connection_ops, .fd = fd},
                .shard = shard,
                .peer = *peer,
                .admitted = admitted,
                .has_place = admitted,
                .next = shard->first,
                .limit.work.ops = &limit_ops,
                .queued_for = WEIR_FOREVER,
        };
        connection->writers_end = &connection->writers;
        if (weir__secure_is_on(shard->server) && !(connection->stream.tls = weir__secure_accept(shard->server, fd))) {
                weir__free(connection, sizeof *connection);
                return false;
        }
        if (weir__poller_add_source(shard->poller, &connection->stream.source, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
                weir__stream_become_plain(&connection->stream);
                weir__free(connection, sizeof *connection);
                return false;
        }
        if (shard->first)
                shard->first->previous = connection;
        shard->first = connection;
        weir__server_opened(shard->server);
        shard->turned_away += !admitted;
        weir__connection_enter(connection, connection->stream.tls ? WEIR__HANDSHAKING : WEIR__READING_HEAD);
        return true;
}

/* Looks for a request that has come and was not read yet.  TLS takes what it looks at out of the socket: the event, which is on
 * its way, may then speak of writing only, and must read all the same.  Returns as weir__stream_peek. */
static ssize_t
look_for_request(struct weir__connection *connection)
{
        ssize_t count = weir__stream_peek(&connection->stream);

        connection->readable |= count > 0;
        return count;
}

struct weir__connection *
weir__connection_longest_idle(struct weir__shard *shard)
{
        struct weir__connection *each = shard->idle;

        while (each && look_for_request(each) > 0)
                each = each->idle_next;
        return each;
}

void
weir__connection_evict(struct weir__connection *connection, bool has_place)
{
        weir__count(&connection->shard->counts, WEIR__COUNT_EVICTED, 1);
        connection->has_place = has_place;
        weir__connection_close(connection);
}

/* -- stop -- */

void
weir__connection_stop(struct weir__connection *connection)
{
        connection->last = true;
        if (connection->events)
                weir__event_stream_complete(connection->events, 0); /* it would not end by itself */
        if (connection->state == WEIR__LINGERING && connection->lingers_until > weir__clock_after(weir__clock_now(), LINGER))
                connection->lingers_until = weir__clock_after(weir__clock_now(), LINGER);
        if (!is_idle(connection))
                return;
        /* A request may be on its way already: it is answered. */
        ssize_t count = look_for_request(connection);
        if (count == -EAGAIN && !connection->used && connection->shard->server->handed_over)
                set_limit(connection, weir__clock_now(), FIRST_WITHIN);
        else if (count <= 0)
                weir__connection_close(connection);
}
