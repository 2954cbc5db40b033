/* bench/protocol_servers.c: servers under test, of messages with their length, 4 bytes, before them: weir's, a raw epoll loop,
 * and Go's, a program of its own. */
#include "protocol.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/weir.h>

#define ROOM 16384

static int
listen_and_report(int report)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), port;

        if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, SOMAXCONN) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) < 0)
                _exit(1);
        port = ntohs(address.sin_port);
        if (write(report, &port, sizeof port) != sizeof port)
                _exit(1);
        close(report);
        return fd;
}

static int
accept_one(int listener)
{
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;

        if (fd >= 0)
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
}

/* -- weir -- */

static const struct weir_protocol prefixed = {
        .size = sizeof prefixed, .length_width = 4, .length_adjust = 4, .bare = true, .depth = 64};

static void
answer(weir_task *message, void *context)
{
        size_t size;
        const void *data = weir_message_data(message, &size);

        (void)context;
        weir_message_reply(message, data, size);
}

static weir_fd *listening;
static int listening_fd;

static void
accept_all(weir_task *readable, void *unused)
{
        int fd;

        (void)readable;
        while ((fd = accept_one(listening_fd)) >= 0) {
                weir_stream *stream = weir_stream_of(fd);

                weir_task_start(weir_protocol_serve_new(stream, &prefixed, answer, NULL, NULL));
                weir_stream_unref(stream);
        }
        weir_task_start(weir_fd_readable_new(listening, accept_all, unused));
}

static void
serve_weir(int report)
{
        listening_fd = listen_and_report(report);
        listening = weir_fd_new(listening_fd);
        weir_task_start(weir_fd_readable_new(listening, accept_all, NULL));
        pause();
}

/* -- the floor: the least that any program could do -- */

struct floor_connection {
        int fd;
        size_t size;
        char data[ROOM];
};

/* Returns how many bytes of whole messages there are. */
static size_t
whole_messages(const struct floor_connection *connection)
{
        size_t at = 0;
        uint32_t length;

        while (connection->size - at >= sizeof length) {
                memcpy(&length, connection->data + at, sizeof length);
                length = ntohl(length);
                if (length > ROOM - sizeof length)
                        _exit(1);
                if (connection->size - at - sizeof length < length)
                        break;
                at += sizeof length + length;
        }
        return at;
}

static void
floor_readable(struct floor_connection *connection)
{
        ssize_t size = recv(connection->fd, connection->data + connection->size, ROOM - connection->size, 0);

        if (size <= 0) {
                close(connection->fd);
                free(connection);
                return;
        }
        connection->size += (size_t)size;
        size_t whole = whole_messages(connection); /* each reply is its request: they go out at once */
        if (whole)
                (void)!send(connection->fd, connection->data, whole, MSG_NOSIGNAL);
        connection->size -= whole;
        memmove(connection->data, connection->data + whole, connection->size);
}

static void
serve_floor(int report)
{
        int listener = listen_and_report(report), epoll = epoll_create1(EPOLL_CLOEXEC), fd;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];

        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
        for (;;) {
                int count = epoll_wait(epoll, events, 256, -1);

                for (int i = 0; i < count; i++) {
                        if (events[i].data.ptr) {
                                floor_readable(events[i].data.ptr);
                                continue;
                        }
                        while ((fd = accept_one(listener)) >= 0) {
                                struct floor_connection *connection = calloc(1, sizeof *connection);

                                connection->fd = fd;
                                event.data.ptr = connection;
                                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
                        }
                }
        }
}

/* -- Go -- */

#ifdef WITH_GO
static void
serve_go(int report)
{
        dup2(report, 3);
        execl(WITH_GO, "peer-goprotocol", (char *)NULL);
}
#endif

const struct protocol_peer protocol_peers[] = {
        {"weir", serve_weir},
        {"floor", serve_floor},
#ifdef WITH_GO
        {"go", serve_go},
#endif
        {0},
};
