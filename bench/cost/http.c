/* bench/cost/http.c: what a request costs the server, and the client that sends it.
 *
 * Threads: the server is started by the main thread; the client belongs to the poller's thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/fiber.h>
#include <weir/weir.h>

#include "cost.h"
#include "secure.h"

#define ROUTES 100

/* How a request is made and answered. */
struct manner {
        bool is_delayed, is_routed, is_secure, has_body, closes, is_fiber;
};

static struct {
        const struct manner *manner;
        weir_http_server *server;
        char request[2048];
        size_t size;

        int fd; /* -1: none */
        struct bench_secure *secure;
        bool is_waiting; /* for a reply */
} http = {.fd = -1};

/* -- the server -- */

static void
answer(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_header(exchange, "Server", "bench");
        weir_http_reply_text(exchange, 200, "hello\n");
}

static void
answer_late(weir_task *exchange, void *context)
{
        answer(exchange, context);
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(1), NULL, NULL));
}

static int
answer_in_fiber(void *exchange)
{
        answer(exchange, NULL);
        return 0;
}

static void
begin_fiber(weir_task *exchange, void *context)
{
        (void)context;
        weir_fiber_begin(exchange, answer_in_fiber, exchange);
}

static weir_http_router *
make_router(void)
{
        weir_http_router *router = weir_http_router_new();
        char pattern[64];

        for (int i = 0; i < ROUTES; i++) {
                snprintf(pattern, sizeof pattern, "/tenant%d/{user}/items/{item}", i);
                cost_must(weir_http_router_add(router, "GET", pattern, answer, NULL) == 0, "route");
        }
        return router;
}

/* Files of a certificate in a directory that is removed at once. */
weir_http_server *
cost_http_serve_secure(void (*handle)(weir_task *exchange, void *context))
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        char directory[] = "/tmp/weir-cost-XXXXXX", certificate[64], key[64];

        cost_must(mkdtemp(directory) && bench_make_certificate(directory), "certificate");
        snprintf(certificate, sizeof certificate, "%s/%s", directory, BENCH_CERTIFICATE_FILE);
        snprintf(key, sizeof key, "%s/%s", directory, BENCH_KEY_FILE);
        config.certificate_file = certificate;
        config.private_key_file = key;
        weir_http_server *server = weir_http_server_new(&config, handle, NULL);
        cost_must(weir_http_server_start(server, "127.0.0.1:0") == 0, "server");
        unlink(certificate);
        unlink(key);
        rmdir(directory);
        return server;
}

static void
serve(const struct manner *manner)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int failed = 0;

        http.manner = manner;
        if (manner->is_secure) {
                http.server = cost_http_serve_secure(answer);
        } else {
                http.server = manner->is_routed  ? weir_http_server_new(&config, weir_http_router_handle, make_router())
                              : manner->is_fiber ? weir_http_server_new(&config, begin_fiber, NULL)
                                                 : weir_http_server_new(&config, manner->is_delayed ? answer_late : answer, NULL);
                failed = weir_http_server_start(http.server, "127.0.0.1:0");
        }
        cost_must(failed == 0, "server");
        char body[1025] = "";
        if (manner->has_body)
                memset(body, 'x', sizeof body - 1);
        http.size = (size_t)snprintf(http.request, sizeof http.request,
                                     "%s %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: cost\r\nContent-Length: %zu\r\n%s\r\n%s",
                                     manner->has_body ? "POST" : "GET", manner->is_routed ? "/tenant42/anna/items/17" : "/",
                                     strlen(body), manner->closes ? "Connection: close\r\n" : "", body);
}

/* -- the client -- */

int
cost_http_connect(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons((uint16_t)weir_http_server_port(http.server))};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        cost_must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        return fd;
}

void
cost_http_send(int fd)
{
        cost_must(send(fd, http.request, http.size, 0) == (ssize_t)http.size, "send");
}

/* Returns whether the whole reply was there: it comes in one piece. */
bool
cost_http_receive(int fd)
{
        char reply[4096];
        ssize_t size = recv(fd, reply, sizeof reply, MSG_DONTWAIT);

        cost_must(size > 0 || (size < 0 && errno == EAGAIN), "receive");
        cost_must(size < 0 || strncmp(reply, "HTTP/1.1 200", 12) == 0, "reply");
        return size > 0;
}

/* Returns whether the connection is ready for a request.  The handshake of TLS takes several calls. */
static bool
is_open(void)
{
        static bool is_shaken;

        if (http.fd < 0) {
                http.fd = cost_http_connect();
                fcntl(http.fd, F_SETFL, O_NONBLOCK);
                if (http.manner->is_secure)
                        http.secure = bench_secure_new(http.fd);
        }
        if (!http.secure || is_shaken)
                return true;
        int result = bench_secure_handshake(http.secure);
        cost_must(result >= 0, "handshake");
        is_shaken = result > 0;
        return is_shaken;
}

static void
send_request(void)
{
        if (http.secure)
                cost_must(bench_secure_write(http.secure, http.request, http.size) == (ssize_t)http.size, "send");
        else
                cost_http_send(http.fd);
}

static bool
receive_reply(void)
{
        char reply[4096];

        if (!http.secure)
                return cost_http_receive(http.fd);
        ssize_t size = bench_secure_read(http.secure, reply, sizeof reply);
        cost_must(size > 0 || (size < 0 && errno == EAGAIN), "receive");
        return size > 0;
}

/* Receives the reply that was waited for, and sends the next request. */
static bool
step(void)
{
        bool has_reply = http.is_waiting && receive_reply();

        if (http.is_waiting && !has_reply)
                return false;
        http.is_waiting = false;
        if (has_reply && http.manner->closes) {
                close(http.fd);
                http.fd = -1;
        }
        if (!is_open())
                return false;
        send_request();
        http.is_waiting = true;
        return true;
}

static void
prepare(const struct cost_case *self)
{
        serve(self->argument);
}

static const struct manner plain, delayed = {.is_delayed = true}, routed = {.is_routed = true}, secure = {.is_secure = true},
                                  posted = {.has_body = true}, closed = {.closes = true}, in_fiber = {.is_fiber = true};

void
cost_http_serve(bool is_delayed)
{
        serve(is_delayed ? &delayed : &plain);
}

#define CASE(text, how)                                                                          \
        {                                                                                        \
                .name = text, .count = 500, .prepare = prepare, .client = step, .argument = &how \
        }

const struct cost_case cost_http_cases[] = {
        CASE("request, answered", plain),
        CASE("request, answered by a fiber", in_fiber),
        CASE("request, answered a second later", delayed),
        CASE("request, answered through a router of 100 patterns", routed),
        CASE("request with a body of 1 KiB, answered", posted),
        CASE("request on a connection of its own, answered", closed),
        CASE("request over TLS, answered", secure),
        {0},
};
