/* bench/pump_proxies.c: proxies under test: weir's, haproxy, nginx, and raw loops of epoll that splice or copy. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/weir.h>

#include "relay.h"

#define KIB         ((size_t)1024)
#define MODULE      "/usr/lib/nginx/modules/ngx_stream_module.so"
#define SPLICE_ROOM (256 * KIB) /* of a pipe */

/* -- weir -- */

static char sink_address[32];

static void
carry_both_ways(weir_task *connect, void *client)
{
        weir_stream *sink = weir_connect_take_stream(connect);
        weir_task *both = weir_parallel_new(NULL, NULL);
        weir_series *out = weir_series_new(NULL, NULL), *back = weir_series_new(NULL, NULL);

        if (!sink)
                return;
        weir_series_push(out, weir_pump_new(client, sink, NULL, NULL));
        weir_series_push(out, weir_stream_finish_new(sink, NULL, NULL));
        weir_series_push(back, weir_pump_new(sink, client, NULL, NULL));
        weir_series_push(back, weir_stream_finish_new(client, NULL, NULL));
        weir_parallel_add_series(both, out);
        weir_parallel_add_series(both, back);
        weir_series_push(weir_series_of(connect), both);
        weir_stream_unref(sink);
}

static void
forward(weir_stream *stream, weir_series *series, void *unused)
{
        (void)unused;
        weir_series_push(series, weir_connect_new(sink_address, carry_both_ways, stream));
}

static void
serve_weir(const struct pump_proxy *proxy, int report, int sink, const char *directory)
{
        weir_stream_server *server = weir_stream_server_new(NULL, forward, NULL);

        (void)proxy;
        (void)directory;
        snprintf(sink_address, sizeof sink_address, "127.0.0.1:%d", sink);
        relay_tell(report, weir_stream_server_start(server, "127.0.0.1:0") == 0 ? weir_stream_server_port(server) : -1);
        pause();
}

/* -- raw loops -- */

/* One direction. */
struct way {
        int from, to;
        int pipe[2];
        char *data; /* NULL: it splices */
        size_t room, at, size;
        bool has_end;
};

struct pair {
        struct way ways[2];
};

static bool
fill(struct way *way)
{
        ssize_t count = way->data ? recv(way->from, way->data, way->room, 0)
                                  : splice(way->from, NULL, way->pipe[1], NULL, way->room, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

        if (count < 0)
                return false;
        way->at = 0;
        way->size = (size_t)count;
        way->has_end = count == 0;
        if (way->has_end)
                shutdown(way->to, SHUT_WR);
        return count > 0;
}

static bool
drain(struct way *way)
{
        ssize_t count = way->data ? send(way->to, way->data + way->at, way->size, MSG_NOSIGNAL)
                                  : splice(way->pipe[0], NULL, way->to, NULL, way->size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

        if (count <= 0)
                return false;
        way->at += (size_t)count;
        way->size -= (size_t)count;
        return true;
}

static void
carry(struct way *way)
{
        while (!way->has_end && (way->size ? drain(way) : fill(way))) {
        }
}

static void
begin(const struct pump_proxy *proxy, int epoll, int client, int sink)
{
        struct pair *pair = calloc(1, sizeof *pair);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = pair};

        for (int i = 0; i < 2; i++) {
                struct way *way = &pair->ways[i];

                *way = (struct way){.from = i ? sink : client, .to = i ? client : sink, .room = proxy->room};
                if (proxy->splices &&
                    (pipe2(way->pipe, O_NONBLOCK | O_CLOEXEC) < 0 || fcntl(way->pipe[1], F_SETPIPE_SZ, (int)proxy->room) < 0))
                        _exit(1);
                if (!proxy->splices)
                        way->data = malloc(way->room);
        }
        epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event);
        epoll_ctl(epoll, EPOLL_CTL_ADD, sink, &event);
}

static void
end(struct pair *pair)
{
        for (int i = 0; i < 2; i++) {
                struct way *way = &pair->ways[i];

                close(way->from);
                if (!way->data) {
                        close(way->pipe[0]);
                        close(way->pipe[1]);
                }
                free(way->data);
                way->data = NULL;
        }
        free(pair);
}

static void
take_one(const struct pump_proxy *proxy, int epoll, int client, int sink_port)
{
        int one = 1, sink = relay_connect(sink_port);

        if (sink < 0)
                _exit(1);
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(sink, F_SETFL, O_NONBLOCK);
        begin(proxy, epoll, client, sink);
}

static void
serve_raw(const struct pump_proxy *proxy, int report, int sink_port, const char *directory)
{
        int port, listener = relay_listen(&port, SOCK_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC), fd;
        struct epoll_event event = {.events = EPOLLIN}, events[256];

        (void)directory;
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
        relay_tell(report, port);
        for (;;) {
                struct pair *over[256];
                int count = epoll_wait(epoll, events, 256, -1), ended = 0;

                for (int i = 0; i < count; i++) {
                        struct pair *pair = events[i].data.ptr;

                        while (!pair && (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
                                take_one(proxy, epoll, fd, sink_port);
                        if (!pair || (pair->ways[0].has_end && pair->ways[1].has_end))
                                continue;
                        carry(&pair->ways[0]);
                        carry(&pair->ways[1]);
                        if (pair->ways[0].has_end && pair->ways[1].has_end)
                                over[ended++] = pair;
                }
                while (ended > 0)
                        end(over[--ended]);
        }
}

/* -- programs -- */

static void
run_haproxy(const struct pump_proxy *proxy, int report, int sink, const char *directory)
{
        char path[128];
        FILE *file = relay_configuration(path, directory);
        int port = relay_choose_port();

        fprintf(file, "global\n  nbthread 1\n  maxconn 4000\n");
        if (proxy->room)
                fprintf(file, "  tune.bufsize %zu\n", proxy->room);
        fprintf(file, "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n");
        if (proxy->splices)
                fprintf(file, "  option splice-request\n  option splice-response\n"); /* `splice-auto` prefers copies */
        fprintf(file, "listen pump\n  bind 127.0.0.1:%d\n  server sink 127.0.0.1:%d\n", port, sink);
        fclose(file);
        relay_tell(report, port);
        execl(RELAY_HAPROXY, "haproxy", "-db", "-q", "-f", path, (char *)NULL);
}

/* Without a master process, so that all its CPU time is that of one process. */
static void
run_nginx(const struct pump_proxy *proxy, int report, int sink, const char *directory)
{
        char path[128], errors[128];
        FILE *file = relay_configuration(path, directory);
        int port = relay_choose_port();

        snprintf(errors, sizeof errors, "%s/error.log", directory);
        fprintf(file, "load_module %s;\ndaemon off;\nmaster_process off;\npid %s/pid;\nerror_log %s error;\n", MODULE, directory,
                errors);
        fprintf(file, "events {\n  worker_connections 8000;\n}\nstream {\n  server {\n    listen 127.0.0.1:%d;\n", port);
        if (proxy->room)
                fprintf(file, "    proxy_buffer_size %zu;\n", proxy->room);
        fprintf(file, "    proxy_pass 127.0.0.1:%d;\n  }\n}\n", sink);
        fclose(file);
        relay_tell(report, port);
        execl(RELAY_NGINX, "nginx", "-p", directory, "-e", errors, "-c", path, (char *)NULL);
}

#define RAW        .serve = serve_raw, .is_raw = true
#define OF_HAPROXY .serve = run_haproxy, .program = RELAY_HAPROXY, .package = "haproxy"
#define OF_NGINX   .serve = run_nginx, .program = RELAY_NGINX, .module = MODULE, .package = "nginx and libnginx-mod-stream"

const struct pump_proxy pump_proxies[] = {
        {.name = "weir", .serve = serve_weir},
        {.name = "haproxy", OF_HAPROXY},
        {.name = "haproxy, splice", OF_HAPROXY, .splices = true},
        {.name = "nginx", OF_NGINX},
        {.name = "nginx, 64 KiB", OF_NGINX, .room = 64 * KIB},
        {.name = "floor", RAW, .room = SPLICE_ROOM, .splices = true},
        {.name = "copies of 16 KiB", RAW, .room = 16 * KIB},
        {.name = "copies of 64 KiB", RAW, .room = 64 * KIB},
        {.name = "copies of 128 KiB", RAW, .room = 128 * KIB},
        {.name = "copies of 256 KiB", RAW, .room = 256 * KIB},
        {0},
};
