/* test/server_footprint_test.c: the memory of the process for a waiting connection is as docs/http-server.md promises.
 *
 * The clients are a process of their own, forked before anything else: their memory does not count.  They carry out one order
 * after another, and leave when there are no more:
 *
 *     test:     begins, starts a server, orders -->   <-- done    waits for the server, measures, orders --> ...
 *     clients:                           carry it out
 *
 * A few connections come first, so that memory that is allocated once is not counted; then many. */
#include <malloc.h>

#include <sys/prctl.h>
#include <sys/socket.h>

#include "server/base/server.h"
#include "server/base/serving.h"
#include "test/fixture.h"
#include "test/http_client.h"
#include "test/tls_peer.h"

#define FIRST        100u
#define MOST_PLAIN   4000u
#define MOST_SECURE  1000u
#define SPARE        100u /* descriptors that are not for connections */
#define BOUND_PLAIN  ((size_t)2048)
#define BOUND_SECURE ((size_t)20480)

#define GET         "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define HALF_A_HEAD "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody"
#define MORE_OF_IT  "who has no hurry at all\r\nX-"
#define BODY_SIZE   20000

enum step { CONNECT, SEND, ASK }; /* the last with an answer */

/* The next step of a range of connections. */
struct order {
        enum step step;
        bool is_secure;
        int port;
        unsigned from, to;
        const char *text; /* to be sent; it was there before the other process was */
};

static struct {
        weir_http_server *server;
        bool is_secure;
        pid_t clients;
        int orders; /* a socket: they go out there, and for each that was carried out a byte comes back */
} at;

static char post[BODY_SIZE + 200];

/* -- the clients -- */

static struct {
        struct http_client plain[MOST_PLAIN];
        SSL *secure[MOST_SECURE];
} theirs;

static bool
ask_plainly(struct http_client *client, const char *text)
{
        struct http_reply reply = {0};
        bool answered = http_ask(client, text, &reply) && reply.status == 200;

        http_reply_done(&reply);
        free(client->input);
        *client = (struct http_client){.fd = client->fd};
        return answered;
}

static bool
ask_in_tls(SSL *client, const char *text)
{
        char *reply = NULL;
        bool answered = tls_send(client, text, strlen(text)) && tls_receive(client, &reply, NULL);

        free(reply);
        return answered;
}

static bool
step_plainly(const struct order *order, struct http_client *client)
{
        if (order->step == CONNECT) {
                http_open(client, order->port);
                return true;
        }
        return order->step == SEND ? http_send_text(client, order->text) : ask_plainly(client, order->text);
}

static bool
step_in_tls(const struct order *order, SSL **client)
{
        if (order->step == CONNECT) {
                *client = tls_connect(order->port, &(struct tls_client_wish){0});
                return *client;
        }
        return order->step == SEND ? tls_send(*client, order->text, strlen(order->text)) : ask_in_tls(*client, order->text);
}

static void
carry_out(const struct order *order)
{
        for (unsigned i = order->from; i < order->to; i++) {
                bool done = order->is_secure ? step_in_tls(order, &theirs.secure[i]) : step_plainly(order, &theirs.plain[i]);

                if (!done) {
                        fprintf(stderr, "a client fails: number %u, step %d\n", i, order->step);
                        _exit(1);
                }
        }
}

static void __attribute__((noreturn)) be_clients(int orders)
{
        struct order order;

        while (read(orders, &order, sizeof order) == (ssize_t)sizeof order) {
                carry_out(&order);
                if (write(orders, "", 1) != 1) {
                        break;
                }
        }
        _exit(0);
}

static void
bring_clients(void)
{
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        at.clients = fork();
        CU_ASSERT_FATAL(at.clients >= 0);
        if (at.clients == 0) {
                close(ends[0]);
                be_clients(ends[1]);
        }
        close(ends[1]);
        at.orders = ends[0];
}

static void
send_clients_away(void)
{
        int status = 0;

        close(at.orders);
        CU_ASSERT_EQUAL(waitpid(at.clients, &status, 0), at.clients);
        CU_ASSERT_EQUAL(status, 0);
}

/* Returns when they have done it. */
static void
order(enum step step, const char *text, unsigned from, unsigned to)
{
        struct order order = {step, at.is_secure, weir_http_server_port(at.server), from, to, text};
        char done;

        CU_ASSERT_EQUAL_FATAL(write(at.orders, &order, sizeof order), (ssize_t)sizeof order);
        CU_ASSERT_EQUAL_FATAL(read(at.orders, &done, 1), 1);
}

/* -- the server -- */

static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "served");
}

static void
begin(bool is_secure)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.head_timeout = config.idle_timeout = config.handshake_timeout = WEIR_FOREVER;
        if (is_secure) {
                config.certificate_file = tls_path("server.pem");
                config.private_key_file = tls_path("server.key");
        }
        malloc_trim(0); /* what an earlier server has left would be taken first */
        bring_clients();
        weir_test_begin_real(2);
        at.is_secure = is_secure;
        at.server = http_server(&config, handle, NULL);
}

static void
end(void)
{
        send_clients_away();
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(20)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static int64_t
counted(enum weir__count_kind kind)
{
        size_t servers = 0;
        struct weir__serving_report *report = weir__serving_reports(&servers);
        int64_t count = servers ? report->counts[kind] : -1;

        free(report);
        return count;
}

/* -- the steps of the clients -- */

/* From one connection on, up to another; returns when the server has nothing more to do. */
typedef void visit_fn(unsigned from, unsigned to);

static void
come_and_wait(unsigned from, unsigned to)
{
        order(CONNECT, NULL, from, to);
        WEIR_TEST_EVENTUALLY(counted(WEIR__COUNT_IDLE) == to);
}

static void
ask_and_wait(unsigned from, unsigned to)
{
        order(CONNECT, NULL, from, to);
        order(ASK, GET, from, to);
        order(ASK, post, from, to);
        order(ASK, GET, from, to);
        WEIR_TEST_EVENTUALLY(counted(WEIR__COUNT_IDLE) == to);
}

/* The second piece comes when the first one has been read. */
static void
send_half_a_head(unsigned from, unsigned to)
{
        const int64_t first = sizeof HALF_A_HEAD - 1, second = sizeof MORE_OF_IT - 1;

        order(CONNECT, NULL, from, to);
        order(SEND, HALF_A_HEAD, from, to);
        WEIR_TEST_EVENTUALLY(counted(WEIR__COUNT_RECEIVED) == first * to + second * from);
        order(SEND, MORE_OF_IT, from, to);
        WEIR_TEST_EVENTUALLY(counted(WEIR__COUNT_RECEIVED) == (first + second) * to);
}

/* -- the cost -- */

static unsigned
as_many_as_can_be(unsigned most)
{
        struct rlimit files;

        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &files), 0);
        return files.rlim_cur < most + SPARE ? (unsigned)files.rlim_cur - SPARE : most;
}

static void
assert_cost(bool is_secure, visit_fn *visit, size_t bound)
{
        const unsigned count = as_many_as_can_be(is_secure ? MOST_SECURE : MOST_PLAIN);

        if (WEIR_TEST_SANITIZED) {
                return; /* whose memory it is */
        }
        begin(is_secure);
        visit(0, FIRST);
        size_t before = weir_test_resident_bytes();
        visit(FIRST, count);
        size_t after = weir_test_resident_bytes(), each = after > before ? (after - before) / (count - FIRST) : 0;
        CU_ASSERT(each > 0 && each <= bound);
        printf("%zu bytes each of %u... ", each, count - FIRST);
        end();
}

static void
a_connection_that_waits_costs_at_most_2_kilobytes(void)
{
        assert_cost(false, come_and_wait, BOUND_PLAIN);
}

static void
a_connection_that_waits_again_costs_at_most_2_kilobytes(void)
{
        assert_cost(false, ask_and_wait, BOUND_PLAIN);
}

static void
half_a_head_in_two_pieces_costs_at_most_2_kilobytes(void)
{
        assert_cost(false, send_half_a_head, BOUND_PLAIN);
}

static void
a_connection_of_tls_that_waits_costs_at_most_20_kilobytes(void)
{
        assert_cost(true, come_and_wait, BOUND_SECURE);
}

static void
a_connection_of_tls_that_waits_again_costs_at_most_20_kilobytes(void)
{
        assert_cost(true, ask_and_wait, BOUND_SECURE);
}

/* Memory is counted in pages; so there are as many connections as possible. */
static void
prepare(void)
{
        struct rlimit files;

        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        int size = sprintf(post, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", BODY_SIZE);
        memset(post + size, 'b', BODY_SIZE);
        tls_files_begin();
        tls_make_certificate("server", &(struct tls_wish){0});
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_connection_that_waits_costs_at_most_2_kilobytes),
                WEIR_TEST(a_connection_that_waits_again_costs_at_most_2_kilobytes),
                WEIR_TEST(half_a_head_in_two_pieces_costs_at_most_2_kilobytes),
                WEIR_TEST(a_connection_of_tls_that_waits_costs_at_most_20_kilobytes),
                WEIR_TEST(a_connection_of_tls_that_waits_again_costs_at_most_20_kilobytes),
        };

        prepare();
        int failed = weir_test_main("server_footprint", tests, sizeof tests / sizeof *tests);
        tls_files_end();
        return failed;
}
