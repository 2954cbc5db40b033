/* server/connection.c: the life of a connection.
 *
 *     READING_HEAD -> [READING_BODY ->] ANSWERING -> [WRITING ->] READING_HEAD ...
 *          |                |               |            |
 *          +----------------+-- error ------|------------+--> LINGERING --> GONE --> freed
 *          +----------------+---------------+------------+-- lost, cut, timed out --^
 *
 * Threads: the owner of the poller only.  While an exchange is out at its handler, events only set bits; a connection that is
 *          lost meanwhile closes its descriptor at once and waits, GONE, for its exchange to come back.  A connection is never
 *          freed while a function of it is on the stack: one that is GONE is buried by the work of its limit, from the worker's
 *          loop.
 *
 * Time limits are lazy: entering a state writes `expires_at`; the limit in the poller's queue is moved only when it stands later
 * than that, and put off when it comes early.  So a busy connection costs one queue operation in many requests. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "kernel/clock.h"
#include "kernel/memory.h"
#include "kernel/runtime.h"
#include "kernel/stream.h"
#include "server/server.h"

#define LINGER     WEIR_SEC(5)
#define LINGER_MAX ((size_t)1 << 20) /* bytes thrown away before even the politest gives up */

/* -- time limits -- */

static void
set_limit(struct weir__connection *connection, weir_nsec duration)
{
        connection->expires_at = duration == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_now(), duration);
        if (connection->expires_at >= connection->queued_for)
                return;
        if (weir__limit_set(connection->shard->poller, &connection->limit, connection->expires_at))
                connection->queued_for = connection->expires_at;
}

static weir_nsec
limit_of(const struct weir__connection *connection)
{
        const struct weir_http_server_config *config = &connection->shard->server->config;

        switch ((enum weir__connection_state)connection->state) {
        case WEIR__READING_HEAD: return connection->input_size ? config->head_timeout : config->idle_timeout;
        case WEIR__READING_BODY: return config->body_timeout;
        case WEIR__WRITING: return config->idle_timeout;
        case WEIR__LINGERING: return LINGER;
        case WEIR__ANSWERING:
        case WEIR__GONE: break;
        }
        return WEIR_FOREVER;
}

/* Into a state, with its time limit. */
void
weir__connection_enter(struct weir__connection *connection, enum weir__connection_state state)
{
        connection->state = (uint8_t)state;
        if (state == WEIR__WRITING)
                connection->untaken = weir__stream_untaken(&connection->stream);
        set_limit(connection, limit_of(connection));
}

/* Whether the peer reads, although slowly.  The socket becomes writable again only when a good part of what it holds, which may be
 * megabytes, was taken: a slow peer may need longer for that than the limit. */
static bool
is_read(struct weir__connection *connection)
{
        return connection->state == WEIR__WRITING && weir__stream_untaken(&connection->stream) < connection->untaken;
}

static void
timed_out(struct weir__connection *connection)
{
        if (connection->state == WEIR__READING_BODY || (connection->state == WEIR__READING_HEAD && connection->input_size))
                weir__connection_refuse(connection, 408, false);
        else if (is_read(connection))
                weir__connection_enter(connection, WEIR__WRITING);
        else
                weir__connection_close(connection);
}

static void bury(struct weir__connection *connection);

static void
limit_run(struct weir__work *work)
{
        struct weir__connection *connection = (struct weir__connection *)((char *)work -
                                                                          offsetof(struct weir__connection, limit.work));
        weir_nsec now = weir__clock_now();

        connection->queued_for = WEIR_FOREVER;
        if (connection->state == WEIR__GONE)
                bury(connection);
        else if (connection->expires_at <= now)
                timed_out(connection);
        else if (connection->expires_at != WEIR_FOREVER)
                set_limit(connection, connection->expires_at - now);
}

static const struct weir__work_ops limit_ops = {.run = limit_run};

/* -- birth and death -- */

/* Frees a connection that is GONE, unless its exchange is still out or the work of its limit on its way: that will call this
 * again. */
static void
bury(struct weir__connection *connection)
{
        struct weir__shard *shard = connection->shard;

        if (connection->exchange || connection->queued_for != WEIR_FOREVER)
                return;
        *(connection->previous ? &connection->previous->next : &shard->first) = connection->next;
        if (connection->next)
                connection->next->previous = connection->previous;
        free(connection->input);
        free(connection->output);
        weir__free(connection, sizeof *connection);
        weir__server_closed(shard->server);
}

void
weir__connection_close(struct weir__connection *connection)
{
        struct weir__shard *shard = connection->shard;

        if (connection->state == WEIR__GONE)
                return;
        if (connection->state == WEIR__READING_BODY)
                weir__connection_drop_exchange(connection);
        weir__poller_remove_source(shard->poller, &connection->stream.source);
        weir__stream_close(&connection->stream);
        connection->state = WEIR__GONE;
        atomic_fetch_sub_explicit(&shard->server->connections, 1, memory_order_relaxed);
        weir__listener_room(&shard->listener);
        if (connection->queued_for != WEIR_FOREVER && !weir__limit_clear(shard->poller, &connection->limit))
                return; /* its work is on its way already */
        connection->queued_for = 0;
        weir__poller_deliver(shard->poller, &connection->limit.work);
}

void
weir__connection_drop_exchange(struct weir__connection *connection)
{
        if (connection->exchange)
                weir__exchange_free(connection->exchange);
        connection->exchange = NULL;
        if (connection->state == WEIR__GONE)
                bury(connection);
}

/* Reads on, and throws away: the peer may still be sending, and a close would then reset what it has not read of our answer.
 * Source: RFC 9112 section 9.6. */
static void
linger(struct weir__connection *connection)
{
        struct weir__poller *poller = connection->shard->poller;

        while (connection->readable) {
                ssize_t count = weir__stream_read(&connection->stream, poller->scratch, WEIR__SCRATCH_SIZE);

                if (count == -EAGAIN) {
                        connection->readable = false;
                        return;
                }
                connection->input_size += count > 0 ? (size_t)count : 0; /* nothing is kept: a count */
                if (count <= 0 || connection->input_size > LINGER_MAX) {
                        weir__connection_close(connection);
                        return;
                }
        }
}

void
weir__connection_finish(struct weir__connection *connection)
{
        bool clean = !connection->refused && !connection->input_size;

        if (clean && (!connection->readable || weir__stream_peek(&connection->stream) == -EAGAIN)) {
                weir__connection_close(connection);
                return;
        }
        free(connection->input);
        connection->input = NULL;
        connection->input_size = connection->input_room = 0;
        weir__stream_finish(&connection->stream);
        weir__connection_enter(connection, WEIR__LINGERING);
        linger(connection);
}

/* -- events -- */

static void
ready(struct weir__source *source, uint32_t events)
{
        struct weir__connection *connection = (struct weir__connection *)source;

        if (events & (EPOLLHUP | EPOLLERR)) { /* reset, or finished on both sides: nothing can be answered */
                weir__connection_close(connection);
                return;
        }
        if (events & EPOLLRDHUP)
                connection->ended = true;
        if (events & (EPOLLIN | EPOLLRDHUP))
                connection->readable = true;
        if (connection->state == WEIR__LINGERING)
                linger(connection);
        else if (connection->state != WEIR__WRITING)
                weir__connection_receive(connection);
        else if (events & EPOLLOUT)
                weir__connection_flush(connection);
}

static void
shutdown_source(struct weir__source *source)
{
        struct weir__connection *connection = (struct weir__connection *)source;

        connection->last = true;
        if (connection->state != WEIR__ANSWERING)
                weir__connection_close(connection);
}

static void
destroy_source(struct weir__source *source)
{
        weir__connection_close((struct weir__connection *)source);
}

static const struct weir__source_ops connection_ops = {ready, shutdown_source, destroy_source};

bool
weir__connection_new(struct weir__shard *shard, int fd)
{
        struct weir__connection *connection = weir__alloc(sizeof *connection);

        if (!connection)
                return false;
        *connection = (struct weir__connection){
                .stream.source = {.ops = &connection_ops, .fd = fd},
                .shard = shard,
                .next = shard->first,
                .limit.work.ops = &limit_ops,
                .queued_for = WEIR_FOREVER,
        };
        if (weir__poller_add_source(shard->poller, &connection->stream.source, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
                weir__free(connection, sizeof *connection);
                return false;
        }
        if (shard->first)
                shard->first->previous = connection;
        shard->first = connection;
        weir__server_opened(shard->server);
        weir__connection_enter(connection, WEIR__READING_HEAD);
        return true;
}

/* -- stop -- */

static bool
is_idle(const struct weir__connection *connection)
{
        return connection->state == WEIR__READING_HEAD && !connection->input_size;
}

void
weir__connection_stop(struct weir__connection *connection)
{
        connection->last = true;
        if (!is_idle(connection))
                return;
        /* A request may be on its way already: it is answered. */
        ssize_t count = weir__stream_peek(&connection->stream);
        if (count <= 0)
                weir__connection_close(connection);
}

bool
weir__connection_cut(struct weir__connection *connection)
{
        /* Also when the client has gone already: what its exchange waits for is waited for no longer. */
        bool is_out = connection->exchange && connection->state != WEIR__READING_BODY;
        bool cut = is_out || (connection->state == WEIR__WRITING && !connection->refused);

        if (is_out)
                weir__exchange_cut(connection->exchange);
        weir__connection_close(connection);
        return cut;
}
