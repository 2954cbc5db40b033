/* test/server_stop_test.c: servers come and go: addresses, start, stop, shutdown, and exchanges meanwhile. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "server/base/server.h"
#include "test/http_client.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
        atomic_int handled, ended, cancelled, freed;
        atomic_bool let_go;
} at;

static void
hello(weir_task *exchange, void *context)
{
        weir_http_reply_text(exchange, 200, context ? context : "hello");
}

static void
count_free(void *context)
{
        (void)context;
        atomic_fetch_add(&at.freed, 1);
}

static void
count_end(weir_task *timer, void *context)
{
        (void)context;
        atomic_fetch_add(&at.ended, 1);
        atomic_fetch_add(&at.cancelled, weir_task_status(timer) == -ECANCELED);
}

/* The path is a number of milliseconds; "/" waits until it is let go. */
static void
wait_for(weir_task *exchange, void *context)
{
        long milliseconds = strtol(weir_http_path(exchange) + 1, NULL, 10);
        weir_nsec after = milliseconds ? WEIR_MSEC(milliseconds) : WEIR_FOREVER;

        (void)context;
        weir_task_on_free(exchange, count_free);
        weir_http_reply_text(exchange, 200, "waited");
        weir_series_push(weir_series_of(exchange), weir_timer_new_named("waiting", after, count_end, NULL));
        atomic_fetch_add(&at.handled, 1);
}

/* Ends the wait of the one exchange that waits. */
static void
let_go(void)
{
        CU_ASSERT_EQUAL(weir_timer_reset("waiting", 0), 1);
}

/* Blocks the worker, which no handler should do. */
static void
hold_the_worker(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "held");
        atomic_fetch_add(&at.handled, 1);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.let_go));
}

static void
begin_with(weir_task_fn *handler, int ignore_departure)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.ignore_departure = ignore_departure;
        at.handled = at.ended = at.cancelled = at.freed = 0;
        at.server = http_server(&config, handler, NULL);
        at.port = weir_http_server_port(at.server);
        http_open(&at.client, at.port);
}

static void
begin(weir_task_fn *handler)
{
        begin_with(handler, 0);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        weir_http_server_free(at.server);
}

/* -- addresses -- */

static int
start_at(const char *address)
{
        weir_http_server *server = weir_http_server_new(NULL, hello, NULL);
        int failed = weir_http_server_start(server, address);

        CU_ASSERT_EQUAL(weir_http_server_port(server) > 0, failed == 0);
        CU_ASSERT(failed == 0 || weir_http_server_port(server) == -EDOM);
        weir_http_server_free(server);
        return failed;
}

static void
an_invalid_address_is_einval(void)
{
        static const char *const wrong[] = {
                "",
                ":",
                "127.0.0.1",
                "127.0.0.1:",
                "127.0.0.1:x",
                "127.0.0.1:80x",
                "127.0.0.1:-1",
                ":http",
                "::1:80",
                "127.0.0.1:65536",
                "127.0.0.1:99999",
                "127.0.0.1:100000",
                "[::1]",
                "[::1]80",
                "[::1:80",
                "::1]:80",
                "[]:0",
                "127.0.0.1:+80",
                "127.0.0.1: 80",
                "a b:80",
                "[::1]x:80",
                "[:80",
                "127.0.0.1:0\n",
        };
        unsigned before;

        CU_ASSERT_EQUAL(start_at("127.0.0.1:0"), 0); /* and the runtime is up */
        before = http_open_descriptors();
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                int failed = start_at(wrong[i]);

                CU_ASSERT_EQUAL(failed, -EINVAL);
                if (failed != -EINVAL) {
                        printf("\n    \"%s\": %d\n", wrong[i], failed);
                }
        }
        CU_ASSERT_EQUAL(start_at(NULL), -EINVAL);
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
}

static void
an_address_in_use_is_eaddrinuse(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        char text[32];
        int other;

        begin(hello);
        snprintf(text, sizeof text, "127.0.0.1:%d", at.port);
        CU_ASSERT_EQUAL(start_at(text), -EADDRINUSE);
        snprintf(text, sizeof text, "0.0.0.0:%d", at.port);
        CU_ASSERT_EQUAL(start_at(text), -EADDRINUSE);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        end();
        /* One that is another program's. */
        other = socket(AF_INET, SOCK_STREAM, 0);
        CU_ASSERT_EQUAL(bind(other, (struct sockaddr *)&address, sizeof address) | listen(other, 1), 0);
        CU_ASSERT_EQUAL(getsockname(other, (struct sockaddr *)&address, &size), 0);
        snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(address.sin_port));
        CU_ASSERT_EQUAL(start_at(text), -EADDRINUSE);
        close(other);
        CU_ASSERT_EQUAL(start_at(text), 0);
}

static void
an_address_of_nobody_here_is_eaddrnotavail(void)
{
        CU_ASSERT_EQUAL(start_at("192.0.2.1:0"), -EADDRNOTAVAIL); /* source: RFC 5737 */
}

static void
it_serves_at_ipv6_and_at_every_address(void)
{
        struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool has_ipv6 = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        weir_http_server *server = weir_http_server_new(NULL, hello, NULL);

        close(fd);
        CU_ASSERT_EQUAL(weir_http_server_start(server, has_ipv6 ? "[::1]:0" : ":0"), 0);
        if (has_ipv6) {
                address.sin6_port = htons((uint16_t)weir_http_server_port(server));
                at.client = (struct http_client){.fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
                CU_ASSERT_EQUAL(connect(at.client.fd, (struct sockaddr *)&address, sizeof address), 0);
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                http_close(&at.client);
        }
        weir_http_server_free(server);
        server = weir_http_server_new(NULL, hello, NULL);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "0.0.0.0:0"), 0);
        http_open(&at.client, weir_http_server_port(server));
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        http_close(&at.client);
        http_reply_done(&at.reply);
        weir_http_server_free(server);
}

/* -- errors of a server -- */

static int
start_with(const struct weir_http_server_config *config, weir_task_fn *handler)
{
        weir_http_server *server = weir_http_server_new(config, handler, NULL);
        int failed = weir_http_server_start(server, "127.0.0.1:0");

        CU_ASSERT_PTR_NOT_NULL(server);
        weir_http_server_free(server);
        return failed;
}

static void
errors_of_a_server_are_reported_by_its_start(void)
{
        const struct weir_http_server_config usual = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct weir_http_server_config config = usual;
        struct {
                struct weir_http_server_config known;
                size_t unknown;
        } newer = {usual, 0};

        CU_ASSERT_EQUAL(start_with(NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(start_with(&usual, hello), 0);
        config.size = 0;
        CU_ASSERT_EQUAL(start_with(&config, hello), -EINVAL);
        config = usual, config.max_head = ((size_t)16 << 20) + 1;
        CU_ASSERT_EQUAL(start_with(&config, hello), -EINVAL);
        config = usual, config.head_timeout = -1;
        CU_ASSERT_EQUAL(start_with(&config, hello), -EINVAL);
        config = usual, config.body_timeout = INT64_MIN;
        CU_ASSERT_EQUAL(start_with(&config, hello), -EINVAL);
        config = usual, config.idle_timeout = -1;
        CU_ASSERT_EQUAL(start_with(&config, hello), -EINVAL);
        config = usual, config.write_timeout = -1;
        CU_ASSERT_EQUAL(start_with(&config, hello), -EINVAL);
        config = usual, config.stop_within = -1;
        CU_ASSERT_EQUAL(start_with(&config, hello), -EINVAL);
        /* A program compiled with later headers: what it set and this version does not know must not be ignored. */
        newer.known.size = sizeof newer;
        CU_ASSERT_EQUAL(start_with(&newer.known, hello), 0);
        newer.unknown = 1;
        CU_ASSERT_EQUAL(start_with(&newer.known, hello), -EINVAL);
        /* And with earlier ones, in which there were fewer fields. */
        config = usual, config.size = offsetof(struct weir_http_server_config, idle_timeout), config.idle_timeout = -1;
        CU_ASSERT_EQUAL(start_with(&config, hello), 0);
}

static void
a_server_has_one_address_once(void)
{
        weir_http_server *server = weir_http_server_new(NULL, hello, NULL);

        CU_ASSERT_EQUAL(weir_http_server_port(server), -EDOM);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "nothing"), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), 0); /* a failed start may be repeated */
        CU_ASSERT(weir_http_server_port(server) > 0 && weir_http_server_port(server) < 65536);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), -EALREADY);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, 0), 0);
        CU_ASSERT_EQUAL(weir_http_server_port(server), -EDOM);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), -ESTALE);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(1)), 0);
        weir_http_server_free(server);
        server = weir_http_server_new(NULL, hello, NULL);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_FOREVER), 0);
        CU_ASSERT_EQUAL(weir_http_server_start(server, "127.0.0.1:0"), -ESTALE);
        weir_http_server_free(server);
        weir_http_server_free(weir_http_server_new(NULL, hello, NULL));
}

static void
null_is_told_from_a_server(void)
{
        CU_ASSERT_EQUAL(weir_http_server_start(NULL, "127.0.0.1:0"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_http_server_port(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_server_stop(NULL, 0), -EINVAL);
        weir_http_server_free(NULL);
}

static void
call_what_waits(weir_task *exchange, void *context)
{
        weir_http_server *other = weir_http_server_new(NULL, hello, NULL);

        (void)context;
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), -EDEADLK);
        CU_ASSERT_EQUAL(weir_http_server_start(other, "127.0.0.1:0"), -EDEADLK);
        CU_ASSERT_EQUAL(weir_http_serve("127.0.0.1:0", hello, NULL), -EDEADLK);
        CU_ASSERT_EQUAL(weir_shutdown(), -EDEADLK);
        weir_http_reply_text(exchange, 200, "still here");
        atomic_fetch_add(&at.handled, 1);
        *(weir_http_server **)context = other;
}

static void
a_worker_is_refused_what_would_wait_for_itself(void)
{
        weir_http_server *other = NULL;

        at.handled = 0;
        at.server = http_server(NULL, call_what_waits, &other);
        http_open(&at.client, weir_http_server_port(at.server));
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, "still here");
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(5)), 0);
        weir_http_server_free(other);
        end();
}

/* -- several, and again -- */

/* A port that nobody has.  It lies below those that the system gives to whoever asks for none, another program or a connection of
 * this one: it stays free between two servers. */
static int
free_port(void)
{
        static int next;

        if (!next) {
                next = 10000 + getpid() % 20000;
        }
        for (;;) {
                struct sockaddr_in address = {
                        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)next)};
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                int failed = bind(fd, (struct sockaddr *)&address, sizeof address);

                close(fd);
                if (!failed) {
                        return next++;
                }
                CU_ASSERT_FATAL(++next < 32768);
        }
}

static void
a_port_can_be_served_again(void)
{
        char address[32];

        at.port = free_port();
        snprintf(address, sizeof address, "127.0.0.1:%d", at.port);
        for (int i = 0; i < 20; i++) {
                at.server = weir_http_server_new(NULL, hello, NULL);
                CU_ASSERT_EQUAL(weir_http_server_start(at.server, address), 0);
                CU_ASSERT_EQUAL(weir_http_server_port(at.server), at.port);
                http_open(&at.client, at.port);
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(5)), 0); /* closes first: the port is in TIME_WAIT */
                end();
        }
}

static void
two_servers_do_not_know_each_other(void)
{
        static char one[] = "one", two[] = "two";
        weir_http_server *servers[] = {http_server(NULL, hello, one), http_server(NULL, hello, two)};
        struct http_client clients[2];

        for (int i = 0; i < 2; i++) {
                http_open(&clients[i], weir_http_server_port(servers[i]));
        }
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_TRUE(http_ask(&clients[i % 2], GET("/"), &at.reply));
                HTTP_ASSERT_TEXT(at.reply.body, i % 2 ? two : one);
        }
        CU_ASSERT_EQUAL(weir_http_server_stop(servers[0], 0), 0);
        CU_ASSERT_TRUE(http_is_over(&clients[0]));
        CU_ASSERT_TRUE(http_ask(&clients[1], GET("/"), &at.reply));
        HTTP_ASSERT_TEXT(at.reply.body, two);
        for (int i = 0; i < 2; i++) {
                http_close(&clients[i]);
                weir_http_server_free(servers[i]);
        }
        http_reply_done(&at.reply);
}

/* -- stop -- */

static bool
is_refused_connection(int port)
{
        struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool refused = connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == ECONNREFUSED;

        close(fd);
        return refused;
}

/* A thread that stops the server. */
struct stopper {
        pthread_t thread;
        weir_nsec within;
        int result;
        int64_t took;
};

static void *
stop_main(void *argument)
{
        struct stopper *stopper = argument;
        int64_t began = weir_test_now();

        stopper->result = weir_http_server_stop(at.server, stopper->within);
        stopper->took = weir_test_now() - began;
        return NULL;
}

static void
stop_begin(struct stopper *stopper, weir_nsec within)
{
        *stopper = (struct stopper){.within = within};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&stopper->thread, NULL, stop_main, stopper), 0);
        WEIR_TEST_EVENTUALLY(is_refused_connection(at.port)); /* it has begun */
}

static int
stop_end(struct stopper *stopper)
{
        CU_ASSERT_EQUAL(pthread_join(stopper->thread, NULL), 0);
        return stopper->result;
}

static void
ask_and_wait_for_handler(const char *request)
{
        int before = atomic_load(&at.handled);

        CU_ASSERT_TRUE(http_send_text(&at.client, request));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == before + 1);
}

static void
stop_delivers_the_replies_that_are_due(void)
{
        struct http_client idle;
        struct stopper stopper;

        begin(wait_for);
        http_open(&idle, at.port);
        CU_ASSERT_TRUE(http_ask(&idle, GET("/1"), &at.reply));
        ask_and_wait_for_handler(GET("/"));
        stop_begin(&stopper, WEIR_TEST_PATIENCE);
        CU_ASSERT_TRUE(http_is_over(&idle)); /* closed at once, before ... */
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 1);
        let_go(); /* ... the task that it waits for has ended */
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        HTTP_ASSERT_TEXT(at.reply.body, "waited");
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        CU_ASSERT(stopper.took < WEIR_TEST_PATIENCE); /* as soon as it can */
        CU_ASSERT_EQUAL(atomic_load(&at.cancelled), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 2);
        http_close(&idle);
        end();
}

static void
stop_cuts_what_takes_longer(void)
{
        enum { CLIENTS = 5 };
        struct http_client clients[CLIENTS];
        int64_t began;

        begin(wait_for);
        for (int i = 0; i < CLIENTS; i++) {
                http_open(&clients[i], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[i], GET("/")));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == CLIENTS);
        began = weir_test_now();
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_MSEC(100)), CLIENTS);
        CU_ASSERT(weir_test_now() - began >= WEIR_MSEC(100));
        CU_ASSERT(weir_test_now() - began <= WEIR_TEST_PATIENCE); /* not for ever */
        /* All is over when it returns. */
        CU_ASSERT_EQUAL(atomic_load(&at.ended), CLIENTS);
        CU_ASSERT_EQUAL(atomic_load(&at.cancelled), CLIENTS);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), CLIENTS);
        for (int i = 0; i < CLIENTS; i++) {
                CU_ASSERT_TRUE(http_is_over(&clients[i]));
                http_close(&clients[i]);
        }
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(1)), 0);
        end();
}

static void
stop_within_nothing_cuts_at_once(void)
{
        begin(wait_for);
        ask_and_wait_for_handler(GET("/"));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        end();
        begin(wait_for);
        ask_and_wait_for_handler(GET("/"));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, -1), 1);
        end();
}

/* An exchange whose client has gone must not hold the stop up, let alone for ever. */
static void
stop_cuts_the_exchange_of_a_client_that_has_gone(void)
{
        begin_with(wait_for, 1);
        ask_and_wait_for_handler(GET("/"));
        http_abandon(&at.client);
        weir_test_sleep(WEIR_MSEC(20)); /* time to notice; right either way */
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, 0), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.cancelled), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        end();
}

static void
a_client_that_has_gone_leaves_nothing_to_cut(void)
{
        begin(wait_for);
        ask_and_wait_for_handler(GET("/"));
        http_abandon(&at.client);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_TEST_PATIENCE), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.cancelled), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        end();
}

/* A connection may wait in the listening socket, its request with it, when the stop comes. */
static void
connections_not_accepted_at_stop_are_answered_too(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct http_client late;
        struct http_reply reply = {0};
        struct stopper stopper;

        weir_shutdown();
        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        atomic_store(&at.let_go, false);
        begin(hold_the_worker);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        http_open(&late, at.port);
        CU_ASSERT_TRUE(http_send_text(&late, GET("/")));
        stopper = (struct stopper){.within = WEIR_TEST_PATIENCE};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&stopper.thread, NULL, stop_main, &stopper), 0);
        weir_test_sleep(WEIR_MSEC(50)); /* for the order to arrive; right either way */
        atomic_store(&at.let_go, true);
        CU_ASSERT_TRUE(http_receive(&late, &reply, false));
        CU_ASSERT_EQUAL(reply.status, 200);
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        http_reply_done(&reply);
        http_close(&late);
        end();
        weir_shutdown();
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
}

static void
free_of_a_server_that_serves_cuts_it(void)
{
        begin(wait_for);
        ask_and_wait_for_handler(GET("/"));
        weir_http_server_free(at.server);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.cancelled), 1);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        at.server = NULL;
        end();
}

static void
a_request_under_way_at_stop_is_answered(void)
{
        struct stopper stopper;

        begin(hello);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_TRUE(
                http_send_text(&at.client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false)); /* so that it is known to have come */
        stop_begin(&stopper, WEIR_TEST_PATIENCE);
        CU_ASSERT_TRUE(http_send_text(&at.client, "abc"));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        end();
}

static struct weir_test_latch entered, released;

static void
block(weir_task *exchange, void *context)
{
        hello(exchange, context);
        if (strcmp(weir_http_path(exchange), "/block") == 0) {
                weir_test_latch_count_down(&entered);
                weir_test_latch_wait(&released);
        }
}

/* The only worker is busy while a request comes and the stop is ordered. */
static void
a_request_that_was_not_read_at_stop_is_answered(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct http_client other;
        struct stopper stopper = {.within = WEIR_TEST_PATIENCE};

        weir_test_latch_init(&entered, 1);
        weir_test_latch_init(&released, 1);
        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER; /* else another worker would read the request before the stop */
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(weir_init(&config), 0);
        begin(block);
        http_open(&other, at.port);
        CU_ASSERT_TRUE(http_ask(&other, GET("/"), &at.reply));
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/block")));
        weir_test_latch_wait(&entered);
        CU_ASSERT_TRUE(http_send_text(&other, GET("/")));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&stopper.thread, NULL, stop_main, &stopper), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.orders_left) == 1);
        weir_test_latch_count_down(&released);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_TRUE(http_receive(&other, &at.reply, false));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        http_close(&other);
        end();
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
}

static void
half_a_head_at_stop_may_be_finished(void)
{
        struct stopper stopper;

        begin(hello);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/") "GET / HTTP/1.1\r\nHos"));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        stop_begin(&stopper, WEIR_TEST_PATIENCE);
        CU_ASSERT_TRUE(http_send_text(&at.client, "t: a\r\n\r\n"));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        end();
}

/* A request behind the one that runs is not begun any more.  Its client sees that from Connection: close. */
static void
a_pipelined_request_at_stop_is_left(void)
{
        struct stopper stopper;

        begin(wait_for);
        ask_and_wait_for_handler(GET("/") GET("/1"));
        stop_begin(&stopper, WEIR_TEST_PATIENCE);
        let_go();
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
        http_close(&at.client);
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
        end();
}

static void
reply_a_lot(weir_task *exchange, void *context)
{
        static const char zeros[65536];

        (void)context;
        for (int i = 0; i < 128; i++) {
                weir_http_reply_append(exchange, zeros, sizeof zeros);
        }
        atomic_fetch_add(&at.handled, 1);
}

static void
a_reply_that_is_being_read_at_stop_is_finished(void)
{
        struct stopper stopper;

        begin(reply_a_lot);
        http_close(&at.client);
        http_open_window(&at.client, at.port, 65536);
        ask_and_wait_for_handler(GET("/"));
        stop_begin(&stopper, WEIR_TEST_PATIENCE);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.size, 128 * 65536);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        end();
}

static void
a_reply_that_nobody_reads_is_cut_and_counted(void)
{
        begin(reply_a_lot);
        http_close(&at.client);
        http_open_window(&at.client, at.port, 4096);
        ask_and_wait_for_handler(GET("/"));
        weir_test_sleep(WEIR_MSEC(20));
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_MSEC(50)), 1);
        end();
}

static void
two_threads_may_stop_at_once(void)
{
        struct stopper one, other;

        begin(wait_for);
        ask_and_wait_for_handler(GET("/"));
        stop_begin(&one, WEIR_TEST_PATIENCE);
        stop_begin(&other, WEIR_TEST_PATIENCE); /* it may come later than the first one's end; right either way */
        let_go();
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(stop_end(&one), 0);
        CU_ASSERT_EQUAL(stop_end(&other), 0);
        end();
}

/* Clients that come, ask and go while a server is stopped: nothing is called after it. */
static atomic_bool is_stopped, is_over;
static atomic_int calls_afterwards;

static void
call_before_stop(weir_task *exchange, void *context)
{
        (void)context;
        if (atomic_load(&is_stopped)) {
                atomic_fetch_add(&calls_afterwards, 1);
        }
        if (weir_http_query(exchange)) {
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_USEC(300), NULL, NULL));
        }
}

static void *
client_main(void *argument)
{
        int port = *(int *)argument;
        const struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        char reply[512];

        while (!atomic_load(&is_over)) {
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

                if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
                        for (int i = 0; i < 4; i++) {
                                (void)!send(fd, GET("/") GET("/?"), sizeof GET("/") GET("/?") - 1, MSG_NOSIGNAL);
                                (void)!recv(fd, reply, sizeof reply, 0);
                        }
                }
                close(fd);
        }
        return NULL;
}

static void
nothing_is_called_after_stop(void)
{
        for (int round = 0; round < 30; round++) {
                pthread_t threads[3];

                begin(call_before_stop);
                atomic_store(&is_stopped, false);
                atomic_store(&is_over, false);
                for (int i = 0; i < 3; i++) {
                        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, client_main, &at.port), 0);
                }
                weir_test_sleep(WEIR_MSEC(5));
                CU_ASSERT(weir_http_server_stop(at.server, round % 2 ? WEIR_MSEC(200) : 0) >= 0);
                atomic_store(&is_stopped, true);
                CU_ASSERT_EQUAL(atomic_load(&at.server->base.users.count), 0);
                end();
                atomic_store(&is_over, true);
                for (int i = 0; i < 3; i++) {
                        pthread_join(threads[i], NULL);
                }
        }
        CU_ASSERT_EQUAL(atomic_load(&calls_afterwards), 0);
}

/* -- the runtime's end -- */

static void
shutdown_ends_a_server_that_serves(void)
{
        enum { CLIENTS = 20 };
        struct http_client clients[CLIENTS];

        begin(wait_for);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/1"), &at.reply)); /* this one stays, idle */
        for (int i = 0; i < CLIENTS; i++) {
                http_open(&clients[i], at.port);
                CU_ASSERT_TRUE(http_send_text(&clients[i], i % 2 ? GET("/") : "GET / HTTP/1.1\r\nHalf"));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1 + CLIENTS / 2);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.ended), 1 + CLIENTS / 2);
        CU_ASSERT_EQUAL(atomic_load(&at.cancelled), 0); /* -ESHUTDOWN */
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1 + CLIENTS / 2);
        for (int i = 0; i < CLIENTS; i++) {
                CU_ASSERT_TRUE(http_is_over(&clients[i]));
                http_close(&clients[i]);
        }
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_TRUE(is_refused_connection(at.port));
        CU_ASSERT_EQUAL(start_at("127.0.0.1:0"), -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(5)), 0);
        end();
        /* And again. */
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        begin(hello);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        end();
}

static void
a_server_may_be_freed_in_a_later_runtime(void)
{
        begin(wait_for);
        ask_and_wait_for_handler(GET("/"));
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        CU_ASSERT_EQUAL(weir_http_server_start(at.server, "127.0.0.1:0"), -EALREADY);
        end();
}

static void
a_server_may_be_freed_in_a_later_runtime_with_fewer_workers(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        weir_shutdown();
        config.pollers = 3;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        begin(wait_for);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        end();
        weir_shutdown();
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
}

static void
shutdown_during_stop_ends_it(void)
{
        struct stopper stopper;

        begin(wait_for);
        ask_and_wait_for_handler(GET("/"));
        stop_begin(&stopper, WEIR_FOREVER);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(stop_end(&stopper), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.freed), 1);
        end();
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
}

static void
stop_and_shutdown_may_meet(void)
{
        for (int i = 0; i < 50; i++) {
                struct stopper stopper = {.within = i % 3 ? 0 : WEIR_MSEC(5)};

                begin(wait_for);
                CU_ASSERT_TRUE(http_send_text(&at.client, i % 2 ? GET("/") : GET("/1") GET("/")));
                weir_test_sleep(WEIR_USEC((int64_t)i * 20));
                CU_ASSERT_EQUAL_FATAL(pthread_create(&stopper.thread, NULL, stop_main, &stopper), 0);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
                CU_ASSERT(stop_end(&stopper) >= 0);
                CU_ASSERT_EQUAL(atomic_load(&at.freed), atomic_load(&at.handled));
                end();
                CU_ASSERT_EQUAL(weir_init(NULL), 0);
        }
}

/* -- until a signal comes -- */

static void *
serve_main(void *argument)
{
        int *result = argument;
        char address[32];

        snprintf(address, sizeof address, "127.0.0.1:%d", at.port);
        *result = weir_http_serve(address, hello, NULL);
        return NULL;
}

static void
serve_serves_until_a_signal_and_puts_its_handling_back(void)
{
        struct sigaction before, after;
        pthread_t thread;
        int result = -1;

        for (int i = 0; i < 2; i++) {
                at.port = free_port();
                sigaction(SIGTERM, NULL, &before);
                CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, serve_main, &result), 0);
                WEIR_TEST_EVENTUALLY(!is_refused_connection(at.port));
                http_open(&at.client, at.port);
                CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                CU_ASSERT_EQUAL(kill(getpid(), i ? SIGINT : SIGTERM), 0);
                CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
                CU_ASSERT_EQUAL(result, 0);
                CU_ASSERT_TRUE(http_is_over(&at.client));
                sigaction(SIGTERM, NULL, &after);
                CU_ASSERT_PTR_EQUAL((void *)before.sa_handler, (void *)after.sa_handler);
                http_close(&at.client);
        }
        http_reply_done(&at.reply);
}

static void *
serve_with_main(void *argument)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int *result = argument;
        char address[32];

        config.max_line = 64;
        snprintf(address, sizeof address, "127.0.0.1:%d", at.port);
        *result = weir_http_serve_with(&config, address, hello, NULL);
        return NULL;
}

static void
serve_with_a_config_does_as_the_config_says(void)
{
        pthread_t thread;
        int result = -1;

        at.port = free_port();
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, serve_with_main, &result), 0);
        WEIR_TEST_EVENTUALLY(!is_refused_connection(at.port));
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/0123456789012345678901234567890123456789012345678901234567890"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 414);
        CU_ASSERT_EQUAL(kill(getpid(), SIGTERM), 0);
        CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
        CU_ASSERT_EQUAL(result, 0);
        http_close(&at.client);
        http_reply_done(&at.reply);
}

static void *
serve_and_stop_soon_main(void *argument)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int *result = argument;
        char address[32];

        config.stop_within = WEIR_MSEC(1);
        snprintf(address, sizeof address, "127.0.0.1:%d", at.port);
        *result = weir_http_serve_with(&config, address, wait_for, NULL);
        return NULL;
}

/* By default it waits for 30 s. */
static void
serve_with_a_limit_for_its_stop_cuts_what_takes_longer(void)
{
        pthread_t thread;
        int result = -1;

        at.port = free_port();
        at.handled = 0;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, serve_and_stop_soon_main, &result), 0);
        WEIR_TEST_EVENTUALLY(!is_refused_connection(at.port));
        http_open(&at.client, at.port);
        ask_and_wait_for_handler(GET("/"));
        int64_t began = weir_test_now();
        CU_ASSERT_EQUAL(kill(getpid(), SIGTERM), 0);
        CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
        CU_ASSERT(weir_test_now() - began < WEIR_SEC(30));
        CU_ASSERT_EQUAL(result, 1);
        http_close(&at.client);
}

static char log_path[64], renamed_path[80];

static void *
serve_with_log_main(void *argument)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int *result = argument;
        char address[32];

        config.access_log = log_path;
        snprintf(address, sizeof address, "127.0.0.1:%d", at.port);
        *result = weir_http_serve_with(&config, address, hello, NULL);
        return NULL;
}

static bool
exists(const char *path)
{
        return access(path, F_OK) == 0;
}

static atomic_int heard;

static void
hear(weir_task *signal, void *context)
{
        (void)context;
        atomic_fetch_add(&heard, weir_task_status(signal) == 0);
}

/* A program rotates its log by a rename and a SIGHUP, as logrotate does.  Without the reopening the signal ends the process. */
static void
serve_opens_its_log_again_at_sighup(void)
{
        struct sigaction before, after;
        pthread_t thread;
        int result = -1;

        at.port = free_port();
        snprintf(log_path, sizeof log_path, "/tmp/weir-serve-%d.log", (int)getpid());
        snprintf(renamed_path, sizeof renamed_path, "%s.1", log_path);
        sigaction(SIGHUP, NULL, &before);
        atomic_store(&heard, 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_signal_new(SIGHUP, hear, NULL)), 0); /* no handler of the program */
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, serve_with_log_main, &result), 0);
        WEIR_TEST_EVENTUALLY(exists(log_path)); /* it listens before that */
        CU_ASSERT_EQUAL(rename(log_path, renamed_path), 0);
        CU_ASSERT_EQUAL(kill(getpid(), SIGHUP), 0);
        WEIR_TEST_EVENTUALLY(exists(log_path));
        WEIR_TEST_EVENTUALLY(atomic_load(&heard) == 1); /* both */
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_EQUAL(kill(getpid(), SIGTERM), 0);
        CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
        CU_ASSERT_EQUAL(result, 0);
        sigaction(SIGHUP, NULL, &after);
        CU_ASSERT_PTR_EQUAL((void *)before.sa_handler, (void *)after.sa_handler);
        struct stat entry;
        CU_ASSERT(stat(log_path, &entry) == 0 && entry.st_size > 0);
        unlink(log_path);
        unlink(renamed_path);
        http_close(&at.client);
        http_reply_done(&at.reply);
}

/* As under nohup. */
static void
serve_leaves_an_ignored_sighup_ignored(void)
{
        struct sigaction before, present;
        pthread_t thread;
        int result = -1;

        at.port = free_port();
        snprintf(log_path, sizeof log_path, "/tmp/weir-serve-%d.log", (int)getpid());
        sigaction(SIGHUP, &(struct sigaction){.sa_handler = SIG_IGN}, &before);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, serve_with_log_main, &result), 0);
        WEIR_TEST_EVENTUALLY(!is_refused_connection(at.port));
        sigaction(SIGHUP, NULL, &present);
        CU_ASSERT_PTR_EQUAL((void *)present.sa_handler, (void *)SIG_IGN);
        CU_ASSERT_EQUAL(kill(getpid(), SIGTERM), 0);
        CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
        CU_ASSERT_EQUAL(result, 0);
        sigaction(SIGHUP, &before, NULL);
        unlink(log_path);
}

static void
serve_reports_why_it_cannot(void)
{
        struct sigaction before, after;

        sigaction(SIGINT, NULL, &before);
        CU_ASSERT_EQUAL(weir_http_serve("nowhere", hello, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_serve("127.0.0.1:0", NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_http_serve_with(NULL, "nowhere", hello, NULL), -EINVAL);
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        config.certificate_file = "/nowhere";
        CU_ASSERT_EQUAL(weir_http_serve_with(&config, "127.0.0.1:0", hello, NULL), -EINVAL);
        config.private_key_file = "/nowhere";
        CU_ASSERT_EQUAL(weir_http_serve_with(&config, "127.0.0.1:0", hello, NULL), -ENOENT);
        sigaction(SIGINT, NULL, &after);
        CU_ASSERT_PTR_EQUAL((void *)before.sa_handler, (void *)after.sa_handler);
}

/* -- in a child that aborts, or was forked off a server -- */

static void
free_on_worker(weir_task *exchange, void *context)
{
        (void)exchange;
        (void)context;
        weir_http_server_free(at.server);
}

/* Comes first: the child needs a runtime of its own. */
static void
free_on_a_worker_aborts(void)
{
        const struct rlimit no_core = {0, 0};
        int status;
        pid_t child = fork();

        if (child == 0) {
                setrlimit(RLIMIT_CORE, &no_core);
                close(STDERR_FILENO);
                at.server = http_server(NULL, free_on_worker, NULL);
                http_open(&at.client, weir_http_server_port(at.server));
                http_send_text(&at.client, GET("/"));
                http_is_over(&at.client);
                _exit(0);
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_TRUE(WIFSIGNALED(status));
        CU_ASSERT_EQUAL(WTERMSIG(status), SIGABRT);
}

static void
a_forked_child_is_refused_and_disturbs_nothing(void)
{
        int status;
        pid_t child;

        begin(hello);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        child = fork();
        if (child == 0) {
                _exit((weir_http_server_start(at.server, "127.0.0.1:0") == -ECHILD) +
                      2 * (weir_http_server_stop(at.server, 0) == -ECHILD));
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_TRUE(WIFEXITED(status));
        CU_ASSERT_EQUAL(WEXITSTATUS(status), 3);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(free_on_a_worker_aborts),
                WEIR_TEST(an_invalid_address_is_einval),
                WEIR_TEST(an_address_in_use_is_eaddrinuse),
                WEIR_TEST(an_address_of_nobody_here_is_eaddrnotavail),
                WEIR_TEST(it_serves_at_ipv6_and_at_every_address),
                WEIR_TEST(errors_of_a_server_are_reported_by_its_start),
                WEIR_TEST(a_server_has_one_address_once),
                WEIR_TEST(null_is_told_from_a_server),
                WEIR_TEST(a_worker_is_refused_what_would_wait_for_itself),
                WEIR_TEST(a_port_can_be_served_again),
                WEIR_TEST(two_servers_do_not_know_each_other),
                WEIR_TEST(stop_delivers_the_replies_that_are_due),
                WEIR_TEST(stop_cuts_what_takes_longer),
                WEIR_TEST(stop_within_nothing_cuts_at_once),
                WEIR_TEST(stop_cuts_the_exchange_of_a_client_that_has_gone),
                WEIR_TEST(a_client_that_has_gone_leaves_nothing_to_cut),
                WEIR_TEST(connections_not_accepted_at_stop_are_answered_too),
                WEIR_TEST(free_of_a_server_that_serves_cuts_it),
                WEIR_TEST(a_request_under_way_at_stop_is_answered),
                WEIR_TEST(a_request_that_was_not_read_at_stop_is_answered),
                WEIR_TEST(half_a_head_at_stop_may_be_finished),
                WEIR_TEST(a_pipelined_request_at_stop_is_left),
                WEIR_TEST(a_reply_that_is_being_read_at_stop_is_finished),
                WEIR_TEST(a_reply_that_nobody_reads_is_cut_and_counted),
                WEIR_TEST(two_threads_may_stop_at_once),
                WEIR_TEST(nothing_is_called_after_stop),
                WEIR_TEST(shutdown_ends_a_server_that_serves),
                WEIR_TEST(a_server_may_be_freed_in_a_later_runtime),
                WEIR_TEST(a_server_may_be_freed_in_a_later_runtime_with_fewer_workers),
                WEIR_TEST(shutdown_during_stop_ends_it),
                WEIR_TEST(stop_and_shutdown_may_meet),
                WEIR_TEST(serve_serves_until_a_signal_and_puts_its_handling_back),
                WEIR_TEST(serve_with_a_config_does_as_the_config_says),
                WEIR_TEST(serve_with_a_limit_for_its_stop_cuts_what_takes_longer),
                WEIR_TEST(serve_opens_its_log_again_at_sighup),
                WEIR_TEST(serve_leaves_an_ignored_sighup_ignored),
                WEIR_TEST(serve_reports_why_it_cannot),
                WEIR_TEST(a_forked_child_is_refused_and_disturbs_nothing),
        };

        return weir_test_main("server_stop", tests, sizeof tests / sizeof *tests);
}
