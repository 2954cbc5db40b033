/* test/client_mixed_storm_test.c: a storm of all that a client does, over all ways to a server: plain, TLS, three kinds of proxy,
 * names, an upstream with hedges, bodies that stream, upgrades.  Cancels come in each stage, and the servers misbehave at random.
 *
 * Each callback runs once, and nothing is left: no descriptor, no block, no waiter.  The last rounds end in a shutdown. */
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <weir/http_call.h>
#include <weir/log.h>
#include <weir/resolve.h>
#include <weir/upstream.h>

#include "factory/task/series.h"
#include "factory/task/task.h"
#include "test/client_fixture.h"
#include "test/memory_faults.h"

#define DOORS     2
#define GUESTS    32 /* of each door at a time */
#define ASKERS    2
#define UNDER_WAY 60
#define NAMES     16
#define FEW       400

static _Atomic unsigned under_way, ends, good, cancelled, late, failed, upgraded, streamed;
static _Atomic unsigned met[WEIR_HTTP_COMPLETE + 1]; /* cancels, by the stage of the request */
static _Atomic bool is_over, is_enough;
static _Atomic unsigned guests; /* that are being served */
static unsigned flows;          /* of each asker */

/* -- the servers: one thread for each connection -- */

static int doors[DOORS], door_ports[DOORS], full = -1, full_port, fillers[8];
static SSL_CTX *server_tls;

struct guest {
        int fd;
        SSL *tls; /* or NULL; a handshake behind a proxy with TLS lies within the other one */
        struct weir_test_random *random;
        char head[32768];
};

static bool
happens(struct guest *guest, unsigned of)
{
        return weir_test_random_below(guest->random, of) == 0;
}

/* Waits for the descriptor.  Returns false when the storm is over. */
static bool
wait_on(int fd, short events)
{
        struct pollfd event = {.fd = fd, .events = events};

        while (poll(&event, 1, 20) == 0)
                if (is_over)
                        return false;
        return true;
}

/* Whether the call of OpenSSL is to be made again. */
static bool
must_go_on(struct guest *guest, int result)
{
        int error = SSL_get_error(guest->tls, result);

        if (error == SSL_ERROR_WANT_READ)
                return wait_on(guest->fd, POLLIN);
        return error == SSL_ERROR_WANT_WRITE && wait_on(guest->fd, POLLOUT);
}

static ssize_t
take(struct guest *guest, void *data, size_t size, bool peeks)
{
        for (;;) {
                ERR_clear_error();
                ssize_t got = !guest->tls ? recv(guest->fd, data, size, MSG_DONTWAIT | (peeks ? MSG_PEEK : 0))
                              : peeks     ? SSL_peek(guest->tls, data, (int)size)
                                          : SSL_read(guest->tls, data, (int)size);

                if (got > 0 || (!guest->tls && (got == 0 || errno != EAGAIN)))
                        return got > 0 ? got : -1;
                if (guest->tls ? !must_go_on(guest, (int)got) : !wait_on(guest->fd, POLLIN))
                        return -1;
        }
}

static bool
say_bytes(struct guest *guest, const void *data, size_t size)
{
        for (size_t done = 0; done < size;) {
                ERR_clear_error();
                ssize_t sent = guest->tls ? SSL_write(guest->tls, (const char *)data + done, (int)(size - done))
                                          : send(guest->fd, (const char *)data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (sent > 0)
                        done += (size_t)sent;
                else if (guest->tls ? !must_go_on(guest, (int)sent) : errno != EAGAIN || !wait_on(guest->fd, POLLOUT))
                        return false;
        }
        return true;
}

static bool
say(struct guest *guest, const char *text)
{
        return say_bytes(guest, text, strlen(text));
}

static bool
take_all(struct guest *guest, void *data, size_t size)
{
        for (size_t done = 0; done < size;) {
                ssize_t got = take(guest, (char *)data + done, size - done, false);

                if (got <= 0)
                        return false;
                done += (size_t)got;
        }
        return true;
}

static bool
shake(struct guest *guest)
{
        SSL *tls = SSL_new(server_tls);
        int result;

        if (guest->tls) {
                BIO *outer = BIO_new(BIO_f_ssl());

                BIO_set_ssl(outer, guest->tls, BIO_CLOSE);
                SSL_set_bio(tls, outer, outer);
        } else {
                SSL_set_fd(tls, guest->fd);
        }
        guest->tls = tls;
        if (happens(guest, 16))
                weir_test_sleep(1000000);
        if (happens(guest, 64))
                return false;
        do {
                ERR_clear_error();
                result = SSL_accept(tls);
        } while (result != 1 && must_go_on(guest, result));
        return result == 1;
}

/* SOCKS5 without a user; the server behind it is this one. */
static bool
open_socks(struct guest *guest)
{
        unsigned char bytes[256];

        if (!take_all(guest, bytes, 2) || !take_all(guest, bytes + 2, bytes[1]) || happens(guest, 128))
                return false;
        if (!say_bytes(guest, "\005\000", 2) || !take_all(guest, bytes, 5))
                return false;
        if (!take_all(guest, bytes + 5, (bytes[3] == 3 ? bytes[4] + 1U : bytes[3] == 1 ? 4U : 16U) + 1))
                return false;
        if (happens(guest, 32))
                weir_test_sleep(1000000);
        if (happens(guest, 128))
                return say_bytes(guest, "\005\005\000\001\000\000\000\000\000\000", 10) && false;
        return say_bytes(guest, "\005\000\000\001\000\000\000\000\000\000", 10);
}

static bool
open_way(struct guest *guest)
{
        if (happens(guest, 32))
                weir_test_sleep(1000000);
        if (happens(guest, 128))
                return false;
        if (happens(guest, 128))
                return say(guest, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n") && false;
        return say(guest, "HTTP/1.1 200 OK\r\n\r\n");
}

/* Byte by byte: nothing behind a head is taken with it. */
static bool
hear_head(struct guest *guest)
{
        size_t size = 0;

        while (size < sizeof guest->head - 1) {
                ssize_t got = take(guest, guest->head + size, sizeof guest->head - 1 - size, true);

                if (got <= 0)
                        return false;
                char *end = memmem(guest->head, size + (size_t)got, "\r\n\r\n", 4);
                size_t used = end ? (size_t)(end + 4 - guest->head) - size : (size_t)got;
                if (!take_all(guest, guest->head + size, used))
                        return false;
                size += used;
                guest->head[size] = '\0';
                if (end)
                        return true;
        }
        return false;
}

static bool
hear_body(struct guest *guest)
{
        static __thread char rest[65536];
        const char *length = strstr(guest->head, "Content-Length: ");
        size_t missing = length ? strtoul(length + 16, NULL, 10) : 0;

        if (strstr(guest->head, "chunked"))
                for (size_t size = 0; size < 5 || memcmp(rest + size - 5, "0\r\n\r\n", 5) != 0;) {
                        if (size >= 5) {
                                memmove(rest, rest + size - 5, 5);
                                size = 5;
                        }
                        ssize_t got = take(guest, rest + size, sizeof rest - size, false);
                        if (got <= 0)
                                return false;
                        size += (size_t)got;
                }
        while (missing > 0) {
                ssize_t got = take(guest, rest, missing < sizeof rest ? missing : sizeof rest, false);

                if (got <= 0)
                        return false;
                missing -= (size_t)got;
        }
        return true;
}

/* What comes goes back, until the end. */
static bool
echo(struct guest *guest)
{
        char bytes[4096];
        ssize_t got;

        if (!say(guest, "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"))
                return false;
        while ((got = take(guest, bytes, sizeof bytes, false)) > 0 && say_bytes(guest, bytes, (size_t)got))
                continue;
        return false;
}

/* Four chunks of 8 KiB. */
static bool
say_pieces(struct guest *guest)
{
        char bytes[8192];

        memset(bytes, 'w', sizeof bytes);
        if (!say(guest, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
                return false;
        for (unsigned i = 0; i < 4; i++) {
                if (!say(guest, "2000\r\n") || !say_bytes(guest, bytes, sizeof bytes) || !say(guest, "\r\n"))
                        return false;
                if (happens(guest, 64))
                        weir_test_sleep(500000);
        }
        return say(guest, "0\r\n\r\n");
}

/* Returns whether the connection goes on. */
static bool
answer(struct guest *guest)
{
        static const struct linger at_once = {.l_onoff = 1};

        if (strstr(guest->head, "Upgrade: echo"))
                return !happens(guest, 8) ? echo(guest) : say(guest, OK_CLOSES) && false;
        if (strstr(guest->head, "/stall")) { /* the sender has to wait, and in vain */
                weir_test_sleep(2000000);
                return false;
        }
        if (happens(guest, 64))
                return say(guest, "HTTP/1.1 413 Much\r\nContent-Length: 4\r\n\r\nmuch") && false;
        if (!hear_body(guest))
                return false;
        if (strstr(guest->head, "/pieces"))
                return say_pieces(guest);
        switch (weir_test_random_below(guest->random, 64)) {
        case 0: return false;
        case 1: return say(guest, OK_CLOSES) && false;
        case 2: return say(guest, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart") && false;
        case 3: setsockopt(guest->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); return false;
        case 4: return say(guest, "no HTTP at all\r\n\r\n");
        case 5: return say(guest, OK_WORD "x");
        case 6:
        case 7: return say(guest, "HTTP/1.1 302 Go\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n");
        case 8: return say(guest, "HTTP/1.1 100 Continue\r\n\r\n") && say(guest, OK_WORD);
        case 9: return say(guest, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
        case 10:
        case 11: weir_test_sleep(1500000); return say(guest, OK_WORD);
        case 12:
        case 13:
                if (!say(guest, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwo"))
                        return false;
                weir_test_sleep(1500000);
                return say(guest, "rd");
        default: return say(guest, OK_WORD);
        }
}

static void
attend(struct guest *guest)
{
        unsigned char first;

        while (take(guest, &first, 1, true) > 0) {
                bool goes_on = first == 0x16                              ? shake(guest)
                               : first == 5                               ? open_socks(guest)
                               : !hear_head(guest)                        ? false
                               : strncmp(guest->head, "CONNECT ", 8) == 0 ? open_way(guest)
                                                                          : answer(guest);
                if (!goes_on)
                        break;
        }
        SSL_free(guest->tls);
        close(guest->fd);
}

static void *
serve(void *number)
{
        struct weir_test_random random = {.state = weir_test_seed() * 31 + (uintptr_t)number};
        struct guest *guest = calloc(1, sizeof *guest);
        int fd;

        while ((fd = accept4(doors[(uintptr_t)number % DOORS], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
                *guest = (struct guest){.fd = fd, .random = &random};
                guests++;
                attend(guest);
                guests--;
        }
        free(guest);
        OPENSSL_thread_stop();
        return NULL;
}

static void
open_full(void)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;

        full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(full, (struct sockaddr *)&at, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(full, 0), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(full, (struct sockaddr *)&at, &size), 0);
        for (int i = 0; i < 8; i++) {
                fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                (void)connect(fillers[i], (struct sockaddr *)&at, size);
        }
        full_port = ntohs(at.sin_port);
}

static void
close_full(void)
{
        for (int i = 0; i < 8; i++)
                close(fillers[i]);
        close(full);
}

/* -- names -- */

static int
look_up(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        static const int failures[] = {-ENOENT, -EIO, -EAGAIN};
        static _Atomic unsigned calls;
        unsigned call = calls++;

        (void)family, (void)context;
        weir_test_sleep(call % 4 * 500000);
        return strncmp(host, "fail", 4) == 0 ? failures[call % 3] : weir_resolver_reply_add(reply, "127.0.0.1");
}

/* -- the flows -- */

enum way { DIRECT, BY_CONNECT, BY_SOCKS, BY_TLS, WAYS };

static weir_client *ways[WAYS];
static weir_upstream *backend;
static char large[4 << 20];

struct flow {
        weir_http_call *call;
        weir_stream *stream;
        _Atomic unsigned tasks; /* whose callback has not come; no callback comes twice */
        unsigned reads;
        bool is_rude; /* it leaves before the end */
        size_t got;
};

static void
note_status(int status)
{
        static const int known[] = {-ECONNRESET,  -ECONNABORTED, -EBADMSG,        -ECONNREFUSED, -ENOENT, -EIO,
                                    -EAGAIN,      -EHOSTUNREACH, -EBUSY,          -EPIPE,        -EPROTO, -ESHUTDOWN,
                                    -ENETUNREACH, -EACCES,       WEIR_ETLS_PLAIN, WEIR_ETLS};
        bool is_known = status == 0 || status == -ECANCELED || status == -ETIMEDOUT;

        atomic_fetch_add(status == 0 ? &good : status == -ECANCELED ? &cancelled : status == -ETIMEDOUT ? &late : &failed, 1);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                is_known = is_known || status == known[i];
        if (!is_known)
                fprintf(stderr, "\nstatus %d\n", status);
        CU_ASSERT_TRUE(is_known);
}

static void
flow_over(weir_series *series, void *context)
{
        struct flow *flow = context;

        (void)series;
        CU_ASSERT(flow->tasks < 10); /* what is left of a series that ends early has no callback */
        weir_http_call_unref(flow->call);
        weir_stream_unref(flow->stream);
        free(flow);
        atomic_fetch_add(&ends, 1);
        atomic_fetch_sub(&under_way, 1);
}

static void
push(weir_series *series, struct flow *flow, weir_task *task)
{
        flow->tasks++;
        CU_ASSERT_EQUAL(weir_series_push(series, task), 0);
}

static void
see_end(weir_task *task, void *context)
{
        struct flow *flow = context;

        note_status(weir_task_status(task));
        flow->tasks--;
}

static void
see_response(weir_task *request, void *context)
{
        int status = weir_task_status(request), code = weir_http_response_status(request);
        size_t size;
        const char *body = weir_http_response_body(request, &size);

        CU_ASSERT_EQUAL(weir_http_problem(request) == NULL, status == 0);
        CU_ASSERT(status != 0 || code != 200 || strcmp(body, "word") == 0 || size == 32768);
        if (status == -ECANCELED || status == -ETIMEDOUT)
                met[weir_http_stage(request)]++;
        see_end(request, context);
}

static void see_piece(weir_task *read, void *context);

static void
read_on(weir_series *series, struct flow *flow)
{
        push(series, flow, weir_http_call_read_new(flow->call, see_piece, flow));
}

static void
see_piece(weir_task *read, void *context)
{
        struct flow *flow = context;
        size_t size;

        (void)weir_http_call_data(read, &size);
        flow->got += size;
        if (weir_task_status(read) == 0 && size && (!flow->is_rude || ++flow->reads < 2))
                read_on(weir_series_of(read), flow);
        if (weir_task_status(read) == 0 && !size && !flow->is_rude && weir_http_call_status(flow->call) == 200) {
                CU_ASSERT(flow->got == 32768 || flow->got == 4);
                streamed++;
        }
        see_end(read, flow);
}

static void
see_head(weir_task *head, void *context)
{
        struct flow *flow = context;

        if (weir_task_status(head) == 0)
                read_on(weir_series_of(head), flow);
        else if (weir_task_status(head) == -ECANCELED)
                met[weir_http_call_stage(flow->call)]++;
        see_end(head, flow);
}

static void
see_echo(weir_task *read, void *context)
{
        struct flow *flow = context;
        size_t size;
        const char *data = weir_stream_data(read, &size);

        if (weir_task_status(read) == 0) {
                CU_ASSERT(size == 5 && memcmp(data, "hello", 5) == 0);
                upgraded++;
        }
        see_end(read, flow);
}

static void
see_upgrade(weir_task *head, void *context)
{
        struct flow *flow = context;

        flow->stream = weir_task_status(head) == 0 ? weir_http_call_take_stream(flow->call) : NULL;
        if (flow->stream) {
                push(weir_series_of(head), flow, weir_stream_write_new(flow->stream, "hello", 5, see_end, flow));
                push(weir_series_of(head), flow, weir_stream_read_new(flow->stream, 5, 5, see_echo, flow));
        }
        see_end(head, flow);
}

static const char *
url_at(struct weir_test_random *random, enum way way, const char *path, char *url, size_t room)
{
        static const char *const hosts[] = {"127.0.0.1", "127.0.0.1", "127.0.0.1", "slow.test", "slow.test", "fail.test"};
        unsigned what = (unsigned)weir_test_random_below(random, 24);
        int at = door_ports[what % DOORS];

        if (way == DIRECT && what < 6)
                snprintf(url, room, "http://backend%s", path);
        else if (way == DIRECT && what == 23)
                snprintf(url, room, "http://127.0.0.1:%d%s", full_port, path);
        else
                snprintf(url, room, "http%s://%s:%d%s", way == BY_TLS || what % 3 == 0 ? "s" : "",
                         way == DIRECT ? hosts[what % 6] : "127.0.0.1", at, path);
        return url;
}

static void
add_stream(weir_series *series, struct flow *flow, weir_client *of, const char *url)
{
        flow->call = weir_http_call_new(of, "POST", url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(flow->call);
        for (int i = 0; i < 2; i++)
                push(series, flow, weir_http_call_write_new(flow->call, large, 30000, see_end, flow));
        push(series, flow, weir_http_call_finish_new(flow->call, see_end, flow));
        push(series, flow, weir_http_call_head_new(flow->call, see_head, flow));
}

static void
add_work(struct weir_test_random *random, weir_series *series, struct flow *flow)
{
        unsigned what = (unsigned)weir_test_random_below(random, 32);
        enum way way = (enum way)weir_test_random_below(random, 2 * WAYS);
        weir_client *of = ways[way = way < WAYS ? way : DIRECT];
        weir_task *request;
        char url[128];

        if (what < 3) {
                flow->is_rude = what == 0;
                add_stream(series, flow, of, url_at(random, way, "/pieces", url, sizeof url));
        } else if (what == 3) { /* a first read, and whatever follows is thrown away */
                flow->is_rude = true;
                flow->reads = 1;
                flow->call = weir_http_call_new(of, "GET", url_at(random, way, "/pieces", url, sizeof url));
                push(series, flow, weir_http_call_first_new(flow->call, see_piece, flow));
        } else if (what < 6) {
                flow->call = weir_http_call_new(of, "GET", url_at(random, way, "/up", url, sizeof url));
                CU_ASSERT_EQUAL(weir_http_call_set_upgrade(flow->call, "echo"), 0);
                push(series, flow, weir_http_call_head_new(flow->call, see_upgrade, flow));
        } else if (what == 6) {
                push(series, flow, weir_resolve_new("slow.test", 0, see_end, flow));
        } else {
                bool stalls = what == 7 && weir_test_random_below(random, 2) == 0;

                request = weir_client_request_new(of, what < 10 ? "POST" : "GET",
                                                  url_at(random, way, stalls ? "/stall" : "/", url, sizeof url), see_response,
                                                  flow);
                weir_http_request_set_redirects(request, 4);
                if (what < 10)
                        CU_ASSERT_EQUAL(weir_http_request_lend_body(request, large, stalls ? sizeof large : 100000, NULL), 0);
                if (what == 10 || stalls)
                        weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, WEIR_USEC(700));
                push(series, flow, request);
        }
}

static void
begin_flow(struct weir_test_random *random)
{
        struct flow *flow = calloc(1, sizeof *flow);
        weir_series *series = weir_series_new(flow_over, flow);
        unsigned what = (unsigned)weir_test_random_below(random, 16);
        char name[16];

        snprintf(name, sizeof name, "storm-%u", (unsigned)weir_test_random_below(random, NAMES));
        CU_ASSERT_EQUAL(weir_series_set_name(series, name), 0);
        add_work(random, series, flow);
        if (what < 4)
                CU_ASSERT_EQUAL(weir_series_set_deadline(series, (weir_nsec)weir_test_random_below(random, WEIR_MSEC(3))), 0);
        atomic_fetch_add(&under_way, 1);
        weir_http_call *call = what == 4 ? weir_http_call_ref(flow->call) : NULL;
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        if (call && weir_test_random_below(random, 2))
                weir_test_sleep((int64_t)weir_test_random_below(random, 300000));
        weir_http_call_break(call);
        weir_http_call_unref(call);
        if (what == 5) { /* one of those that run */
                snprintf(name, sizeof name, "storm-%u", (unsigned)weir_test_random_below(random, NAMES));
                (void)weir_series_cancel_named(name, 2);
        }
        if (what == 6 && weir_test_random_below(random, 32) == 0)
                weir_client_close_idle(ways[weir_test_random_below(random, WAYS)]);
}

static void *
ask(void *number)
{
        struct weir_test_random random = {.state = weir_test_seed() + (uintptr_t)number};

        for (unsigned i = 0; i < flows && !is_enough; i++) {
                while (atomic_load(&under_way) > UNDER_WAY)
                        weir_test_sleep(50000);
                begin_flow(&random);
        }
        return NULL;
}

/* -- the storm -- */

static void
make_clients(weir_tls *trust)
{
        static const char *const schemes[WAYS] = {NULL, "http", "socks5", "https"};

        for (int i = 0; i < WAYS; i++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                char proxy[64];

                config.connections = 3;
                config.tls = config.proxy_tls = trust;
                config.connect_limit = WEIR_MSEC(200);
                if (schemes[i]) {
                        snprintf(proxy, sizeof proxy, "%s://127.0.0.1:%d", schemes[i], door_ports[i % DOORS]);
                        config.proxy = proxy;
                }
                ways[i] = weir_client_new(&config);
                CU_ASSERT_PTR_NOT_NULL_FATAL(ways[i]);
        }
}

static void
make_upstream(void)
{
        struct weir_upstream_config settings = WEIR_UPSTREAM_CONFIG_DEFAULT;
        char address[32];

        settings.hedge_percent = 50;
        settings.hedge_percentile = 50;
        settings.ejection = WEIR_MSEC(5);
        settings.max_ejection = WEIR_MSEC(20);
        backend = weir_upstream_new("backend", &settings);
        for (int i = 0; i < DOORS; i++) {
                snprintf(address, sizeof address, "127.0.0.1:%d", door_ports[i]);
                CU_ASSERT_EQUAL(weir_upstream_add(backend, address, NULL), 0);
        }
}

static void
see_nothing_left(void)
{
        for (int i = 0; i < WAYS; i++) {
                client = ways[i];
                WEIR_TEST_EVENTUALLY(stats().connections == stats().idle);
                CU_ASSERT_EQUAL(stats().waiting, 0);
                CU_ASSERT(i == DIRECT || stats().reused > 0);
        }
        for (size_t i = 0; i < DOORS; i++) {
                struct weir_member_info info = {.size = sizeof info};

                WEIR_TEST_EVENTUALLY(weir_upstream_member(backend, i, &info) == 0 && info.in_flight == 0);
        }
        client = NULL;
}

static void
blow(unsigned each, bool is_cut_short)
{
        struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;
        struct weir_tls_config trusting = WEIR_TLS_CONFIG_DEFAULT;
        pthread_t servers[DOORS * GUESTS], askers[ASKERS];

        is_over = is_enough = false;
        flows = each;
        ends = good = cancelled = late = failed = upgraded = streamed = 0;
        memset(met, 0, sizeof met);
        for (int i = 0; i < DOORS; i++)
                doors[i] = http_peer_listen(&door_ports[i]);
        open_full();
        for (uintptr_t i = 0; i < DOORS * GUESTS; i++)
                pthread_create(&servers[i], NULL, serve, (void *)i);
        weir_test_begin_real(2);
        names.answer = look_up;
        CU_ASSERT_EQUAL(weir_resolver_configure(&names), 0);
        trusting.ca_file = tls_path("server.pem");
        weir_tls *trust = weir_tls_client_new(&trusting);
        make_clients(trust);
        make_upstream();
        for (uintptr_t i = 0; i < ASKERS; i++)
                pthread_create(&askers[i], NULL, ask, (void *)i);
        if (is_cut_short) {
                WEIR_TEST_EVENTUALLY(atomic_load(&ends) > each / 2);
                is_enough = true;
        }
        for (unsigned i = 0; i < ASKERS; i++)
                pthread_join(askers[i], NULL);
        if (!is_cut_short) {
                WEIR_TEST_EVENTUALLY(atomic_load(&under_way) == 0);
                see_nothing_left();
        }
        weir_test_end();
        CU_ASSERT_EQUAL(atomic_load(&under_way), 0);
        for (int i = 0; i < WAYS; i++)
                weir_client_unref(ways[i]);
        weir_upstream_unref(backend);
        CU_ASSERT_PTR_NULL(weir_upstream_find("backend"));
        weir_tls_unref(trust);
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        is_over = true;
        for (int i = 0; i < DOORS; i++)
                shutdown(doors[i], SHUT_RDWR);
        for (unsigned i = 0; i < DOORS * GUESTS; i++)
                pthread_join(servers[i], NULL);
        CU_ASSERT_EQUAL(guests, 0);
        for (int i = 0; i < DOORS; i++)
                close(doors[i]);
        close_full();
        weir__task_free_kept();
        weir__series_unref_kept();
}

/* How many flows: WEIR_TEST_STORM in the environment may say so. */
static unsigned
flow_count(void)
{
        const char *text = getenv("WEIR_TEST_STORM");

        return text ? (unsigned)strtoul(text, NULL, 10) : WEIR_TEST_SANITIZED ? 6000 : 30000;
}

static void
a_storm_over_all_ways_leaves_nothing_behind(void)
{
        unsigned count = flow_count();

        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){.alternative_names = "IP:127.0.0.1,DNS:slow.test,DNS:fail.test"});
        server_tls = http_peer_tls("server");
        for (int i = 0; i < 2; i++)
                blow(FEW, i); /* what the library and the system keep, they keep from here on */
        unsigned fds = weir_test_entries_of("/proc/self/fd");
        int64_t blocks = live;
        blow(count / ASKERS, false);
        fprintf(stderr, "%u good, %u cancelled, %u late, %u failed, %u upgraded, %u streamed; stages", good, cancelled, late,
                failed, upgraded, streamed);
        for (int i = 0; i <= WEIR_HTTP_COMPLETE; i++)
                fprintf(stderr, " %u", met[i]);
        fprintf(stderr, "; %d blocks ", (int)(live - blocks));
        CU_ASSERT_EQUAL(ends, count / ASKERS * ASKERS);
        CU_ASSERT(good > 0 && cancelled > 0 && late > 0 && failed > 0 && upgraded > 0 && streamed > 0);
        for (int i = 0; i < WEIR_HTTP_COMPLETE; i++)
                CU_ASSERT(met[i] > 0);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
        CU_ASSERT_EQUAL(live, blocks);
        for (int i = 0; i < 5; i++)
                blow(FEW, true);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), fds);
        CU_ASSERT_EQUAL(live, blocks);
        SSL_CTX_free(server_tls);
        tls_files_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_storm_over_all_ways_leaves_nothing_behind),
        };

        signal(SIGPIPE, SIG_IGN); /* OpenSSL's writes of the servers */
        weir_log_set(NULL, NULL);
        return weir_test_main("client_mixed_storm", tests, sizeof tests / sizeof *tests);
}
