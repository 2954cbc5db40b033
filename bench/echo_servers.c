/* bench/echo_servers.c: TCP echo servers under test: weir's, a raw epoll loop, libuv's, and Go's, a program of its own. */
#include "echo.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef WITH_UV
#include <uv.h>
#endif
#include <weir/weir.h>

#define ROOM 4096

int
echo_listen(int report, int flags)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), port;

        if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, SOMAXCONN) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) < 0)
                _exit(1);
        port = ntohs(address.sin_port);
        if (write(report, &port, sizeof port) != sizeof port)
                _exit(1);
        close(report);
        return fd;
}

/* -- weir -- */

static void
write_back(weir_task *read, void *stream)
{
        weir_series *series = weir_series_of(read);
        size_t size;
        const void *data = weir_stream_data(read, &size);

        if (weir_task_status(read) != 0)
                return;
        weir_series_push(series, weir_stream_write_new(stream, data, size, NULL, NULL));
        weir_series_push(series, weir_stream_read_new(stream, 1, ROOM, write_back, stream));
}

static void
echo(weir_stream *stream, weir_series *series, void *unused)
{
        (void)unused;
        weir_series_push(series, weir_stream_read_new(stream, 1, ROOM, write_back, stream));
}

static void
serve_weir(int report)
{
        weir_stream_server *server = weir_stream_server_new(NULL, echo, NULL);
        int port = weir_stream_server_start(server, "127.0.0.1:0") == 0 ? weir_stream_server_port(server) : -1;

        if (write(report, &port, sizeof port) != sizeof port)
                _exit(1);
        close(report);
        pause();
}

/* -- the floor: the least that any program could do -- */

static void
serve_floor(int report)
{
        int listener = echo_listen(report, SOCK_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC), one = 1;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
        char room[ROOM];

        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
        for (;;) {
                int count = epoll_wait(epoll, events, 256, -1);

                for (int i = 0; i < count; i++) {
                        int fd = events[i].data.fd;

                        if (fd == listener) {
                                while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                                        event = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                                        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                                        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
                                }
                                continue;
                        }
                        ssize_t size = recv(fd, room, sizeof room, 0);
                        if (size <= 0)
                                close(fd);
                        else
                                (void)!send(fd, room, (size_t)size, MSG_NOSIGNAL);
                }
        }
}

/* -- libuv, as its guide has it -- */

#ifdef WITH_UV
struct uv_write_back {
        uv_write_t request;
        uv_buf_t buffer;
};

static void
uv_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
        (void)handle;
        (void)suggested;
        *buffer = uv_buf_init(malloc(ROOM), ROOM);
}

static void
uv_written(uv_write_t *request, int status)
{
        struct uv_write_back *self = (struct uv_write_back *)request;

        (void)status;
        free(self->buffer.base);
        free(self);
}

static void
uv_closed(uv_handle_t *handle)
{
        free(handle);
}

static void
uv_has_read(uv_stream_t *client, ssize_t count, const uv_buf_t *buffer)
{
        if (count > 0) {
                struct uv_write_back *self = malloc(sizeof *self);

                self->buffer = uv_buf_init(buffer->base, (unsigned)count);
                uv_write(&self->request, client, &self->buffer, 1, uv_written);
                return;
        }
        if (count < 0)
                uv_close((uv_handle_t *)client, uv_closed);
        free(buffer->base);
}

static void
uv_accept_one(uv_stream_t *server, int status)
{
        uv_tcp_t *client = malloc(sizeof *client);

        (void)status;
        uv_tcp_init(server->loop, client);
        uv_accept(server, (uv_stream_t *)client);
        uv_tcp_nodelay(client, 1);
        uv_read_start((uv_stream_t *)client, uv_allocate, uv_has_read);
}

static void
serve_uv(int report)
{
        uv_tcp_t server;
        struct sockaddr_in address;
        struct sockaddr_storage name;
        int size = sizeof name, port;

        uv_ip4_addr("127.0.0.1", 0, &address);
        uv_tcp_init(uv_default_loop(), &server);
        uv_tcp_bind(&server, (const struct sockaddr *)&address, 0);
        uv_listen((uv_stream_t *)&server, SOMAXCONN, uv_accept_one);
        uv_tcp_getsockname(&server, (struct sockaddr *)&name, &size);
        port = ntohs(((struct sockaddr_in *)&name)->sin_port);
        if (write(report, &port, sizeof port) == sizeof port)
                uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
#endif

/* -- Go -- */

#ifdef WITH_GO
static void
serve_go(int report)
{
        dup2(report, 3);
        execl(WITH_GO, "peer-goecho", (char *)NULL);
}
#endif

const struct echo_peer echo_peers[] = {
        {"weir", serve_weir},
        {"floor", serve_floor},
#ifdef WITH_UV
        {"uv", serve_uv},
#endif
#ifdef WITH_GO
        {"go", serve_go},
#endif
        {0},
};
