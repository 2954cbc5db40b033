/* test/server_storm_test.c: hostile clients come, send parts of requests, many at once or nonsense, and reset, while one that is
 * well-behaved has to be served; afterwards everything is given back.
 *
 * WEIR_TEST_STORM multiplies the steps of the storm and the number of its connections: 10 is 2,000 connections for some 20 s. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "server/base/server.h"
#include "test/http_client.h"

#define HEAD(target) "GET " target " HTTP/1.1\r\nHost: a\r\n"
#define GET(target)  HEAD(target) "\r\n"

#define THREADS     2
#define CONNECTIONS (WEIR_TEST_SANITIZED ? 50 : 100) /* of each thread */
#define STEPS       (WEIR_TEST_SANITIZED ? 20000 : 30000)
#define LARGE       ((size_t)300000)
#define ENOUGH      500 /* requests handled: then it was a storm, however slow the server is */

static atomic_int handled, freed;

static void
count_free(void *context)
{
        (void)context;
        atomic_fetch_add(&freed, 1);
}

static void
add_delays(weir_task *exchange)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        for (int i = 0; i < 3; i++) {
                weir_parallel_add(parallel, weir_timer_new(WEIR_MSEC((int64_t)i), NULL, NULL));
        }
        weir_series_push(weir_series_of(exchange), parallel);
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_USEC(500), NULL, NULL));
}

static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);
        weir_series *series = weir_series_of(exchange);
        size_t size;

        (void)context;
        atomic_fetch_add(&handled, 1);
        weir_task_on_free(exchange, count_free);
        if (strcmp(path, "/drop") == 0) {
                weir_series_cancel(series);
        } else if (strcmp(path, "/delays") == 0) {
                add_delays(exchange);
        } else if (strcmp(path, "/named") == 0) {
                weir_series_push(series, weir_timer_new_named("storm", WEIR_FOREVER, NULL, NULL));
        } else if (strcmp(path, "/large") == 0) {
                char *bytes = calloc(1, LARGE);

                weir_http_reply_append(exchange, bytes, LARGE);
                free(bytes);
        } else {
                const void *body = weir_http_request_body(exchange, &size);

                weir_http_reply_append(exchange, body, size);
        }
}

/* -- the hostile ones -- */

static const char *const parts[] = {
        "G",
        HEAD("/now"),
        "\r\n",
        GET("/now"),
        GET("/now") GET("/delays") GET("/now") HEAD("/large"),
        GET("/drop"),
        GET("/delays"),
        GET("/delays") GET("/delays") GET("/delays") GET("/delays"),
        GET("/named"),
        GET("/named") GET("/now"),
        GET("/large"),
        GET("/large") GET("/large") GET("/large"),
        "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
        "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n",
        "01234567890123456789",
        "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD("/now") "Connection: close\r\n\r\n" GET("/named"),
        "nonsense\r\n\r\n",
        "\r\n\r\n",
        "HEAD /large HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
};

struct hostile {
        pthread_t thread;
        struct weir_test_random random;
        int port;
        size_t connections, steps;
        int *fds; /* -1: none */
};

static int
open_hostile(int port)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) {
                close(fd);
                return -1;
        }
        return fd;
}

static int
close_hostile(int fd, bool politely)
{
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

        if (!politely) {
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        close(fd);
        return -1;
}

static int
step(struct hostile *hostile, int fd)
{
        static _Thread_local char sink[100000];
        const char *part = parts[weir_test_random_below(&hostile->random, sizeof parts / sizeof *parts)];
        uint64_t what = weir_test_random_below(&hostile->random, 100);

        if (fd < 0) {
                return open_hostile(hostile->port);
        }
        if (what < 55) {
                (void)!send(fd, part, strlen(part), MSG_NOSIGNAL);
        } else if (what < 60) {
                (void)!send(fd, part, 1 + weir_test_random_below(&hostile->random, strlen(part)), MSG_NOSIGNAL);
        } else if (what < 82) {
                (void)!recv(fd, sink, 1 + weir_test_random_below(&hostile->random, sizeof sink), 0);
        } else if (what < 84) {
                shutdown(fd, SHUT_WR);
        } else if (what < 86) {
                weir_timer_cancel("storm", weir_test_random_below(&hostile->random, 10));
        } else {
                return close_hostile(fd, what >= 99); /* politely, but seldom: a port in TIME_WAIT for each */
        }
        return fd;
}

static void *
hostile_main(void *argument)
{
        struct hostile *hostile = argument;

        for (size_t i = 0; i < hostile->steps || atomic_load(&handled) <= ENOUGH; i++) {
                size_t slot = weir_test_random_below(&hostile->random, hostile->connections);

                hostile->fds[slot] = step(hostile, hostile->fds[slot]);
                if (i % 64 == 63) {
                        weir_test_sleep(WEIR_MSEC(1)); /* a storm of requests, not of our system calls */
                }
        }
        for (size_t i = 0; i < hostile->connections; i++) {
                if (hostile->fds[i] >= 0) {
                        close_hostile(hostile->fds[i], i % 16 == 0);
                }
        }
        free(hostile->fds);
        return NULL;
}

static void
begin_storm(struct hostile *hostile, int port, uint64_t seed)
{
        const char *times = getenv("WEIR_TEST_STORM");
        size_t factor = times ? strtoul(times, NULL, 10) : 1;

        *hostile = (struct hostile){.random = {seed}, .port = port, .connections = CONNECTIONS * factor, .steps = STEPS * factor};
        hostile->fds = malloc(hostile->connections * sizeof *hostile->fds);
        for (size_t i = 0; i < hostile->connections; i++) {
                hostile->fds[i] = -1;
        }
        CU_ASSERT_EQUAL_FATAL(pthread_create(&hostile->thread, NULL, hostile_main, hostile), 0);
}

/* -- the well-behaved one -- */

static bool
is_over(struct hostile *hostile)
{
        return pthread_tryjoin_np(hostile->thread, NULL) == 0;
}

/* Asks, on a connection that is kept and on fresh ones, until the storm is over. */
static void
behave_well(struct http_client *kept, struct hostile hostiles[THREADS], int port)
{
        struct http_client fresh;
        struct http_reply reply = {0};
        unsigned blowing = THREADS;

        for (int i = 0; blowing > 0; i++) {
                struct http_client *client = i % 4 == 0 ? &fresh : kept;
                int64_t began = weir_test_now();

                if (client == &fresh) {
                        http_open(client, port);
                }
                CU_ASSERT_TRUE(http_ask(client, "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nbehave you", &reply));
                CU_ASSERT_EQUAL(reply.status, 200);
                HTTP_ASSERT_TEXT(reply.body, "behave you");
                CU_ASSERT(weir_test_now() - began < WEIR_TEST_TOLERANCE);
                if (client == &fresh) {
                        http_close(client);
                }
                weir_test_sleep(WEIR_MSEC(1));
                while (blowing > 0 && is_over(&hostiles[blowing - 1])) {
                        blowing--;
                }
        }
        http_reply_done(&reply);
}

static size_t
memory_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* Whether nothing is left but the connection that is kept.  Requests of clients that are gone may still wait to be read, or
 * behind others on their connection, when all that were handled so far are freed: so their timers, which nothing else ends, are
 * cancelled until the last has closed. */
static bool
the_storm_has_passed(weir_http_server *server, unsigned descriptors)
{
        weir_timer_cancel("storm", WEIR_ALL);
        return atomic_load(&freed) == atomic_load(&handled) && atomic_load(&server->base.connections) == 1 &&
               http_open_descriptors() == descriptors;
}

static void
a_storm_disturbs_nobody_and_leaves_nothing(void)
{
        enum { ROUNDS = 2 };
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct hostile hostiles[THREADS];
        struct http_client kept;
        struct http_reply reply = {0};
        weir_http_server *server;
        size_t memory[ROUNDS];
        unsigned descriptors;
        int port;

        config.head_timeout = WEIR_MSEC(200);
        config.body_timeout = WEIR_MSEC(200);
        server = http_server(&config, handle, NULL);
        port = weir_http_server_port(server);
        http_open(&kept, port);
        CU_ASSERT_TRUE(http_ask(&kept, GET("/now"), &reply));
        descriptors = http_open_descriptors();
        for (unsigned round = 0; round < ROUNDS; round++) {
                for (unsigned i = 0; i < THREADS; i++) {
                        begin_storm(&hostiles[i], port, weir_test_seed() + round * THREADS + i);
                }
                behave_well(&kept, hostiles, port);
                WEIR_TEST_EVENTUALLY(the_storm_has_passed(server, descriptors));
                memory[round] = memory_in_use();
        }
        CU_ASSERT(WEIR_TEST_SANITIZED || memory[1] < memory[0] + ((size_t)1 << 20));
        CU_ASSERT_TRUE(http_ask(&kept, GET("/now"), &reply));
        http_reply_done(&reply);
        http_close(&kept);
        CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(10)), 0);
        CU_ASSERT_EQUAL(atomic_load(&freed), atomic_load(&handled));
        weir_http_server_free(server);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_storm_disturbs_nobody_and_leaves_nothing),
        };

        return weir_test_main("server_storm", tests, sizeof tests / sizeof *tests);
}
