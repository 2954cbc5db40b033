/* server/listener.c: new connections.
 *
 *     watching --EMFILE, ENOMEM ...--> paused --a while, or room--> watching --> closed
 *
 * Threads: the owner of the poller only.
 *
 * Out of descriptors or memory, the socket stays readable, and as it is watched edge-triggered that costs nothing: accepting
 * goes on when a connection of this poller closes, or after a pause. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/clock.h"
#include "kernel/runtime.h"
#include "kernel/stream.h"
#include "server/server.h"

#define ACCEPTED_AT_ONCE 8
#define PAUSE            WEIR_MSEC(50)

static const char overloaded[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

static void
turn_away(int fd)
{
        struct iovec piece = {(char *)overloaded, sizeof overloaded - 1};
        struct weir__stream stream = {.source.fd = fd};

        (void)weir__stream_write(&stream, &piece, 1);
        weir__stream_finish(&stream);
        weir__stream_close(&stream);
}

static bool
is_exhaustion(int error)
{
        return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void
pause_accepting(struct weir__listener *listener)
{
        weir_nsec until = weir__clock_after(weir__clock_now(), PAUSE);

        listener->paused = true;
        if (!listener->pausing && weir__limit_set(listener->shard->poller, &listener->pause, until)) {
                listener->pausing = true;
                weir__server_opened(listener->shard->server);
        }
}

/* Accepts one connection.  Returns false when there is none now. */
static bool
accept_one(struct weir__listener *listener)
{
        weir_http_server *server = listener->shard->server;
        int fd = accept4(listener->source.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
                if (atomic_fetch_add_explicit(&server->connections, 1, memory_order_relaxed) < server->config.max_connections &&
                    weir__connection_new(listener->shard, fd))
                        return true;
                atomic_fetch_sub_explicit(&server->connections, 1, memory_order_relaxed);
                turn_away(fd);
                return true;
        }
        if (errno == EAGAIN || errno == EBADF || errno == EINVAL)
                return false;
        if (!is_exhaustion(errno))
                return true; /* the connection's own trouble: ECONNABORTED, and what Linux passes on of its network */
        pause_accepting(listener);
        return false;
}

static void
accept_some(struct weir__listener *listener)
{
        for (unsigned i = 0; i < ACCEPTED_AT_ONCE; i++)
                if (listener->source.fd < 0 || listener->paused || !accept_one(listener))
                        return;
        if (!listener->again_queued) {
                listener->again_queued = true;
                weir__server_opened(listener->shard->server);
                weir__poller_deliver(listener->shard->poller, &listener->again);
        }
}

static void
again_run(struct weir__work *work)
{
        struct weir__listener *listener = (struct weir__listener *)((char *)work - offsetof(struct weir__listener, again));

        listener->again_queued = false;
        accept_some(listener);
        weir__server_closed(listener->shard->server);
}

static void
pause_run(struct weir__work *work)
{
        struct weir__listener *listener = (struct weir__listener *)((char *)work - offsetof(struct weir__listener, pause.work));

        listener->pausing = false;
        listener->paused = false;
        accept_some(listener);
        weir__server_closed(listener->shard->server);
}

static const struct weir__work_ops again_ops = {.run = again_run}, pause_ops = {.run = pause_run};

void
weir__listener_room(struct weir__listener *listener)
{
        if (!listener->paused)
                return;
        listener->paused = false;
        if (!listener->again_queued) {
                listener->again_queued = true;
                weir__server_opened(listener->shard->server);
                weir__poller_deliver(listener->shard->poller, &listener->again);
        }
}

static void
ready(struct weir__source *source, uint32_t events)
{
        (void)events;
        accept_some((struct weir__listener *)source);
}

/* The runtime ends. */
static void
close_source(struct weir__source *source)
{
        struct weir__listener *listener = (struct weir__listener *)source;

        eventfd_write(listener->shard->server->ended_fd, 1);
        weir__listener_close(listener);
}

static const struct weir__source_ops listener_ops = {ready, close_source, close_source};

int
weir__listener_open(struct weir__listener *listener, struct weir__shard *shard)
{
        listener->source.ops = &listener_ops;
        listener->shard = shard;
        listener->again.ops = &again_ops;
        listener->pause.work.ops = &pause_ops;
        int failed = weir__poller_add_source(shard->poller, &listener->source, EPOLLIN);
        if (!failed)
                weir__server_opened(shard->server);
        return failed;
}

void
weir__listener_empty(struct weir__listener *listener)
{
        if (listener->source.fd >= 0)
                for (unsigned i = 0; i < SOMAXCONN && accept_one(listener); i++)
                        ;
}

void
weir__listener_close(struct weir__listener *listener)
{
        struct weir__shard *shard = listener->shard;

        if (listener->source.fd < 0)
                return;
        weir__poller_remove_source(shard->poller, &listener->source);
        close(listener->source.fd);
        listener->source.fd = -1;
        if (listener->pausing && weir__limit_clear(shard->poller, &listener->pause)) {
                listener->pausing = false;
                weir__server_closed(shard->server);
        }
        weir__server_closed(shard->server);
}
