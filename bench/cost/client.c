/* bench/cost/client.c: what a request costs the client that sends it, and what a connection costs that it keeps.
 *
 * The server is bare sockets, on the poller's thread when that is about to sleep: its instructions are not counted.
 *
 * Threads: prepared by the main thread; the rest belongs to the poller's thread. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>
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

        weir_tls *tls;      /* or NULL */
        size_t connections; /* of a round */

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
        config.tls = at.tls;
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
        if (at.ended == 2 * at.connections &&
            !at.is_second) /* begins when the connections were noted, and nothing else goes on */
                weir_task_start(weir_timer_new(WEIR_SEC(1), begin_round, NULL));
}

static void
begin_round(weir_task *task, void *unused)
{
        (void)task;
        (void)unused;
        at.is_second = at.ended > 0;
        at.ended = 0;
        weir_client *client = client_new((unsigned)at.connections); /* it stays, and so do its connections */
        for (size_t i = 0; i < 2 * at.connections; i++)
                weir_task_start(weir_client_request_new(client, "GET", at.url, round_responded, NULL));
}

void
cost_client_prepare_idle(void)
{
        serve();
        at.connections = CONNECTIONS;
        weir_task_start(weir_empty_new(begin_round, NULL));
}

/* Each call of a round that is over notes one connection. */
static bool
note_connection(void)
{
        bool is_new = at.noted < (at.is_second ? 2 * at.connections : at.connections);

        at.noted += is_new;
        return is_new;
}

bool
cost_client_step_idle(void)
{
        if (at.ended == 2 * at.connections)
                return note_connection();
        accept_all();
        receive_all();
        if (at.asked == at.connections || at.ended) /* all that may stand do */
                answer_all();
        return false;
}

/* -- the same over TLS -- */

static weir_barrier *all;

/* As many requests as there may be connections are answered together, so each has a connection of its own. */
static void
answer_together(weir_task *exchange, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(exchange), weir_barrier_arrive_new(all, NULL, NULL));
        weir_http_reply_text(exchange, 200, "hello world\n");
}

/* Without tickets no session is resumed: else chance says how many share a certificate in memory. */
static void
have_no_tickets(void)
{
        static const char settings[] = "openssl_conf = conf\n[conf]\nssl_conf = ssl\n[ssl]\nsystem_default = all\n"
                                       "[all]\nOptions = -SessionTicket\n";
        char path[] = "/tmp/weir-cost-XXXXXX";
        int file = mkstemp(path);

        cost_must(file >= 0 && write(file, settings, sizeof settings - 1) == sizeof settings - 1, "settings");
        setenv("OPENSSL_CONF", path, 1);
        cost_must(OPENSSL_init_ssl(0, NULL) == 1, "OpenSSL");
        unlink(path);
}

void
cost_client_serve(void)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        have_no_tickets();
        all = weir_barrier_new(COST_CLIENT_SECURE);
        printf("%d\n", weir_http_server_port(cost_http_serve_secure(answer_together)));
        fflush(stdout);
        for (;;)
                pause();
}

void
cost_client_prepare_secure(void)
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;
        char program[512], command[600];
        ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
        int port = 0;

        cost_must(size > 0, "the path of the program");
        snprintf(command, sizeof command, "exec '%.*s' serve", (int)size, program);
        FILE *server = popen(command, "r"); /* it ends with this process */
        cost_must(server && fscanf(server, "%d", &port) == 1, "server");
        snprintf(at.url, sizeof at.url, "https://127.0.0.1:%d/", port);
        config.insecure = true;
        at.tls = weir_tls_client_new(&config);
        at.connections = COST_CLIENT_SECURE;
        weir_task_start(weir_empty_new(begin_round, NULL));
}

bool
cost_client_step_secure(void)
{
        return at.ended == 2 * at.connections && note_connection();
}
