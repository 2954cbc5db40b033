/* bench/cost/client.c: what a request costs the client that sends it, and what a connection costs that it keeps.
 *
 * The server is bare sockets, on the poller's thread when that is about to sleep: its instructions are not counted.
 *
 * Threads: prepared by the main thread; the rest belongs to the poller's thread. */
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/weir.h>

#include "cost.h"

#define CONNECTIONS COST_CLIENT_CONNECTIONS

static struct {
        weir_client *client;
        char url[64];

        int listener;
        int fds[2 * CONNECTIONS];
        size_t open, asked; /* connections; those with a request that was not answered */
        bool has_asked[2 * CONNECTIONS];

        size_t ended;   /* requests of this round */
        size_t noted;   /* connections */
        bool is_second; /* round */
} at;

/* -- the server -- */

static void
serve(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;

        at.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        cost_must(bind(at.listener, (struct sockaddr *)&address, size) == 0 && listen(at.listener, SOMAXCONN) == 0 &&
                          getsockname(at.listener, (struct sockaddr *)&address, &size) == 0,
                  "listen");
        snprintf(at.url, sizeof at.url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
}

static bool
accept_all(void)
{
        size_t before = at.open;
        int fd;

        while ((fd = accept4(at.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
                cost_must(at.open < 2 * CONNECTIONS, "a connection that was not expected");
                at.fds[at.open++] = fd;
        }
        return at.open > before;
}

/* A request comes in one piece. */
static bool
receive_all(void)
{
        char request[4096];
        bool has_more = false;

        for (size_t i = 0; i < at.open; i++) {
                ssize_t size = at.has_asked[i] ? 0 : recv(at.fds[i], request, sizeof request, 0);

                cost_must(size >= 0 || errno == EAGAIN, "receive");
                if (size > 0) {
                        at.has_asked[i] = has_more = true;
                        at.asked++;
                }
        }
        return has_more;
}

static void
answer_all(void)
{
        static const char reply[] =
                "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Thu, 26 Nov 2026 12:00:00 GMT\r\n"
                "Content-Type: text/plain\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\nhello world\n";

        for (size_t i = 0; i < at.open; i++)
                if (at.has_asked[i]) {
                        cost_must(send(at.fds[i], reply, sizeof reply - 1, MSG_NOSIGNAL) == sizeof reply - 1, "send");
                        at.has_asked[i] = false;
                }
        at.asked = 0;
}

/* -- a request -- */

static bool
step(void)
{
        bool has_accepted = accept_all(), has_received = receive_all();

        answer_all();
        return has_accepted || has_received;
}

static weir_client *
client_new(unsigned connections)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        config.connections = connections;
        return weir_client_new(&config);
}

static void
prepare(const struct cost_case *self)
{
        (void)self;
        serve();
        at.client = client_new(1);
}

static void
responded(weir_task *request, void *context)
{
        cost_must(weir_task_status(request) == 0 && weir_http_response_status(request) == 200, "request");
        cost_on_end(request, context);
}

static void
get(size_t index)
{
        (void)index;
        weir_task_start(weir_client_request_new(at.client, "GET", at.url, responded, NULL));
}

const struct cost_case cost_client_cases[] = {
        {.name = "request of a client", .count = 500, .slice = 1, .prepare = prepare, .operation = get, .peer = step},
        {0},
};

/* -- idle connections --
 *
 * Two rounds, each of twice as many requests as connections are allowed, by a client of its own.  All that are allowed
 * stand before any of them has its answer.  What requests and dials need is there after the first round, so the second one adds
 * only connections. */

static void begin_round(weir_task *task, void *unused);

static void
round_responded(weir_task *request, void *context)
{
        (void)context;
        cost_must(weir_task_status(request) == 0, "request");
        at.ended++;
        if (at.ended == 2 * CONNECTIONS && !at.is_second) /* begins when the connections were noted, and nothing else goes on */
                weir_task_start(weir_timer_new(WEIR_SEC(1), begin_round, NULL));
}

static void
begin_round(weir_task *task, void *unused)
{
        (void)task;
        (void)unused;
        at.is_second = at.ended > 0;
        at.ended = 0;
        weir_client *client = client_new(CONNECTIONS); /* it stays, and so do its connections */
        for (size_t i = 0; i < 2 * CONNECTIONS; i++)
                weir_task_start(weir_client_request_new(client, "GET", at.url, round_responded, NULL));
}

void
cost_client_prepare_idle(void)
{
        serve();
        weir_task_start(weir_empty_new(begin_round, NULL));
}

/* Each call of a round that is over notes one connection. */
bool
cost_client_step_idle(void)
{
        size_t standing = at.is_second ? 2 * CONNECTIONS : CONNECTIONS;

        if (at.ended == 2 * CONNECTIONS) {
                bool is_new = at.noted < standing;

                at.noted += is_new;
                return is_new;
        }
        accept_all();
        receive_all();
        if (at.asked == CONNECTIONS || at.ended) /* all that may stand do */
                answer_all();
        return false;
}
