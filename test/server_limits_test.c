/* test/server_limits_test.c: time limits, slow and silent clients, and servers without free connections or descriptors.
 *
 * One limit is tried on the real clock, the others on the virtual one, with the test as the client that lets time pass: more of
 * them, to the nanosecond, are in test/virtual_server_test.c. */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "server/connection/connection.h"
#include "test/fixture.h"
#include "test/http_client.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

#define LARGE   ((size_t)8 * 1024 * 1024)
#define FITTING ((size_t)512 * 1024) /* a socket takes it at once, and it takes longer to be read */
#define LIMIT   WEIR_SEC(20)         /* none of the defaults */

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
        int servers_fd; /* the other end of the client, on the virtual clock */
        int64_t began;
        atomic_int handled;
        char file[32]; /* of LARGE bytes, while a test has one */
} at;

/* "/": a word at once.  "/hold": when let_go says so.  "/large": 8 MiB.  "/fitting": 512 KiB.  "/file": the file. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        atomic_fetch_add(&at.handled, 1);
        if (strcmp(path, "/large") == 0 || strcmp(path, "/fitting") == 0) {
                size_t size = strcmp(path, "/large") == 0 ? LARGE : FITTING;
                char *bytes = malloc(size);

                memset(bytes, 'l', size);
                CU_ASSERT_EQUAL(weir_http_reply_append(exchange, bytes, size), 0);
                free(bytes);
                return;
        }
        if (strcmp(path, "/file") == 0) {
                CU_ASSERT_EQUAL(weir_http_reply_file(exchange, "/tmp", at.file + strlen("/tmp")), 0);
                return;
        }
        weir_http_reply_text(exchange, 200, "word\n");
        if (strcmp(path, "/hold") == 0) {
                weir_series_push(weir_series_of(exchange), weir_timer_new_named("hold", WEIR_FOREVER, NULL, NULL));
        }
}

/* Ends the wait of those who ask for "/hold"; returns how many there are. */
static size_t
let_go(void)
{
        return weir_timer_reset("hold", 0);
}

static void
let_them_go(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        let_go();
}

/* Makes a connection a busy one, the so-manieth. */
static void
hold(struct http_client *client, int handled)
{
        CU_ASSERT_TRUE(http_send_text(client, GET("/hold")));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == handled);
}

static void
serve(const struct weir_http_server_config *config)
{
        at.server = http_server(config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        atomic_store(&at.handled, 0);
        http_open(&at.client, at.port);
        at.began = weir_test_now();
}

/* All limits far away, but the one that is said. */
static struct weir_http_server_config
limits(weir_nsec head, weir_nsec body, weir_nsec write)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.head_timeout = head;
        config.body_timeout = body;
        config.write_timeout = write;
        return config;
}

static void
begin_with(const struct weir_http_server_config *config)
{
        weir_test_begin_real(0);
        serve(config);
}

static void
begin(weir_nsec head, weir_nsec body, weir_nsec write)
{
        struct weir_http_server_config config = limits(head, body, write);

        begin_with(&config);
}

/* Returns when the server has its client, and no other. */
static void
wait_for_client(void)
{
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 1);
        weir_test_pass(0);
        struct weir__link *first = weir__list_first(&weir__http_branch_at(at.server, 0)->connections);
        at.servers_fd = weir__container_of(first, struct weir__connection, link)->transport.stream.source.fd;
        weir_test_pass(0); /* from here on the list is the worker's again */
}

/* On the virtual clock, from the instant on at which the server has its client. */
static void
begin_virtual(weir_nsec head, weir_nsec body, weir_nsec write)
{
        struct weir_http_server_config config = limits(head, body, write);

        weir_test_begin_virtual();
        serve(&config);
        wait_for_client();
        at.began = weir_now();
}

/* Puts one that takes in little without being asked in the place of the client. */
static void
open_small_window(int window)
{
        http_close(&at.client);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
        http_open_window(&at.client, at.port, window);
        wait_for_client();
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
assert_timeout(void)
{
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 408);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        CU_ASSERT_TRUE(http_is_over(&at.client));
}

/* -- time limits -- */

static void
half_a_head_is_408_at_its_limit_on_the_real_clock_too(void)
{
        begin(WEIR_MSEC(150), 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET / HTTP/1.1\r\nHo"));
        assert_timeout();
        CU_ASSERT(weir_test_now() - at.began >= WEIR_MSEC(150));
        CU_ASSERT(weir_test_now() - at.began <= WEIR_MSEC(150) + WEIR_TEST_TOLERANCE);
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

/* Sends a byte each second, and no answer comes before the limit has. */
static void
trickle(const char *bytes)
{
        for (; *bytes && !http_has_news(&at.client, 0); bytes++) {
                CU_ASSERT(weir_now() - at.began < LIMIT);
                CU_ASSERT_TRUE(http_send(&at.client, bytes, 1));
                weir_test_pass(WEIR_SEC(1));
        }
        CU_ASSERT_EQUAL(weir_now() - at.began, LIMIT);
}

static void
a_head_that_trickles_is_cut_all_the_same(void)
{
        begin_virtual(LIMIT, 0, 0);
        trickle("GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789012345678901234567890123456789");
        assert_timeout();
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

static void
a_body_that_trickles_is_cut_all_the_same(void)
{
        begin_virtual(0, LIMIT, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 400\r\n\r\n"));
        weir_test_pass(0); /* from here on it is the body */
        trickle("0123456789012345678901234567890123456789");
        assert_timeout();
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

/* An empty line behind a request is no begin of the next one: a 408 that nobody asked for might be taken for its reply. */
static void
an_empty_line_behind_a_request_brings_no_408(void)
{
        static const char *const lines[][2] = {{"\r\n", ""}, {"\r", "\n"}, {"", "\r\n"}, {"\r", ""}, {"", "\r"}};

        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
                char request[64];

                begin_virtual(LIMIT, 0, 0);
                snprintf(request, sizeof request, "%s%s", GET("/"), lines[i][0]);
                CU_ASSERT_TRUE(http_ask(&at.client, request, &at.reply));
                CU_ASSERT_TRUE(http_send_text(&at.client, lines[i][1]));
                weir_test_pass(2 * LIMIT);
                CU_ASSERT_FALSE(http_has_news(&at.client, 0));
                if (strlen(lines[i][0]) + strlen(lines[i][1]) == 2) {
                        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
                        HTTP_ASSERT_TEXT(at.reply.body, "word\n");
                }
                weir_test_pass(WEIR_SEC(60)); /* idle_timeout */
                CU_ASSERT_TRUE(http_is_over(&at.client));
                end();
        }
}

static void
a_head_behind_an_empty_line_has_the_time_of_a_head(void)
{
        begin_virtual(LIMIT, 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "\r\n"));
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_TRUE(http_send_text(&at.client, "G"));
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_FALSE(http_has_news(&at.client, 0));
        weir_test_pass(1);
        assert_timeout();
        end();
}

static void
a_stop_closes_a_connection_with_an_empty_line(void)
{
        begin_virtual(LIMIT, 0, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/") "\r\n", &at.reply));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_FOREVER), 0);
        CU_ASSERT_TRUE(http_is_over(&at.client));
        end();
}

/* -- slow readers -- */

/* The system's data about the server's end. */
static struct tcp_info
servers_end(void)
{
        struct tcp_info info = {0};
        socklen_t size = sizeof info;

        CU_ASSERT_EQUAL(getsockopt(at.servers_fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
        return info;
}

/* The server goes by the acknowledgements between the systems of both ends.  They come in real time, up to 40 ms later.  The
 * virtual clock does not wait for them, so the test does. */
static void
read_some_and_let_the_server_know(void)
{
        uint64_t taken = servers_end().tcpi_bytes_acked;

        http_read_some(&at.client);
        WEIR_TEST_EVENTUALLY(servers_end().tcpi_bytes_acked > taken);
}

static bool
is_all_of(const struct http_reply *reply, char byte)
{
        return reply->size > 0 && reply->body[0] == byte && memcmp(reply->body, reply->body + 1, reply->size - 1) == 0;
}

static void
a_slow_reader_gets_all_of_a_large_reply(void)
{
        begin_virtual(0, 0, LIMIT);
        open_small_window(16384);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/large") GET("/")));
        weir_test_pass(0);
        for (int i = 0; i < 6; i++) { /* pauses shorter than the limit, and together longer */
                weir_test_pass(LIMIT - 1);
                CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 1);
                read_some_and_let_the_server_know();
        }
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.size, LARGE);
        CU_ASSERT_TRUE(is_all_of(&at.reply, 'l'));
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        HTTP_ASSERT_TEXT(at.reply.body, "word\n");
        end();
}

static void
a_reader_of_tiny_pieces_gets_all_of_a_large_reply(void)
{
        begin(0, 0, 0);
        http_close(&at.client);
        http_open_window(&at.client, at.port, 4096);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/large"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.size, LARGE);
        CU_ASSERT_TRUE(is_all_of(&at.reply, 'l'));
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        end();
}

/* The last reply is in the hands of the system, which has not sent all of it.  A closed socket would answer what comes now with a
 * reset, and drop the rest. */
static void
bytes_behind_the_last_request_cost_a_slow_reader_nothing(void)
{
        begin_virtual(0, 0, 0);
        open_small_window(4096);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET /fitting HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        weir_test_pass(0);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/")));
        weir_test_pass(0);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.size, FITTING);
        CU_ASSERT_TRUE(is_all_of(&at.reply, 'l'));
        CU_ASSERT_TRUE(http_is_over(&at.client));
        CU_ASSERT_FALSE(at.client.reset);
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
}

/* Memory that the process has from malloc, small and large. */
static size_t
memory_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

/* The socket takes the head and a little more.  What was read of the file with the head is read again later. */
static void
a_slow_reader_of_a_file_costs_no_memory_for_it(void)
{
        const int little = 4096;
        char *bytes = malloc(LARGE);

        for (size_t i = 0; i < LARGE; i++) {
                bytes[i] = (char)('a' + i % 23);
        }
        strcpy(at.file, "/tmp/weir-file-XXXXXX");
        int fd = mkstemp(at.file);
        CU_ASSERT_FATAL(fd >= 0);
        CU_ASSERT_EQUAL(write(fd, bytes, LARGE), (ssize_t)LARGE);
        close(fd);
        begin_virtual(0, 0, LIMIT);
        open_small_window(4096);
        CU_ASSERT_EQUAL(setsockopt(at.servers_fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof little), 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply)); /* what a connection has from its first request on */
        size_t before = memory_in_use();
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/file")));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 2);
        CU_ASSERT(WEIR_TEST_SANITIZED || memory_in_use() < before + 4096);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.size, LARGE);
        CU_ASSERT(at.reply.size == LARGE && memcmp(at.reply.body, bytes, LARGE) == 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        end();
        unlink(at.file);
        free(bytes);
}

static void
a_client_that_never_reads_costs_one_reply_and_the_limit_of_writing(void)
{
        enum { REQUESTS = 50 };
        size_t before;

        begin_virtual(0, 0, LIMIT);
        open_small_window(4096);
        before = memory_in_use();
        for (int i = 0; i < REQUESTS; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/large")));
        }
        weir_test_pass(0);
        WEIR_TEST_EVENTUALLY(servers_end().tcpi_unacked == 0); /* its system takes in no more */
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 1);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1); /* the others wait until it is gone */
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(memory_in_use() - before < LARGE + LARGE / 4);
        }
        /* Twice the limit, as what its system takes in at first looks like reading. */
        weir_test_pass(LIMIT + 1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(memory_in_use() < before + LARGE / 4);
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
}

/* A client that sends and sends without reading is slowed down by its socket: nothing of it is kept. */
static void
a_client_that_sends_for_ever_without_reading_costs_no_memory(void)
{
        static char requests[128 * (sizeof GET("/large") - 1)];
        size_t before, sent = 0;

        begin_virtual(0, 0, LIMIT);
        for (size_t i = 0; i < sizeof requests; i += sizeof GET("/large") - 1) {
                memcpy(requests + i, GET("/large"), sizeof GET("/large") - 1);
        }
        before = memory_in_use();
        for (int quiet = 0; quiet < 20;) {
                ssize_t count = send(at.client.fd, requests, sizeof requests, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (count < 0) {
                        weir_test_pass(0); /* all that can has arrived */
                        quiet++;
                } else {
                        sent += (size_t)count;
                        quiet = 0;
                }
        }
        CU_ASSERT(sent > sizeof requests);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(memory_in_use() < before + LARGE + LARGE / 4);
        }
        WEIR_TEST_EVENTUALLY(servers_end().tcpi_unacked == 0);
        weir_test_pass(LIMIT - 1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 1);
        weir_test_pass(LIMIT + 1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
        end();
}

/* Our refusal is not read and the connection not closed: it must not stay for ever. */
static void
a_client_that_does_not_leave_after_a_refusal_is_cut(void)
{
        begin_virtual(0, 0, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, "nonsense\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 400);
        weir_test_pass(WEIR_SEC(5) - 1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0);
        end();
}

/* A byte, which has arrived. */
static void
dribble(void)
{
        CU_ASSERT_TRUE(http_send_text(&at.client, "x"));
        weir_test_pass(0);
}

/* The client may not have looked at our refusal yet.  Its bytes prolong the time for that, but not for ever. */
static void
a_client_that_still_sends_after_a_refusal_has_time_to_look_at_it(void)
{
        begin_virtual(0, 0, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, "nonsense\r\n\r\n", &at.reply));
        weir_test_pass(WEIR_SEC(4));
        dribble();
        weir_test_pass(WEIR_SEC(5) - 1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0); /* nothing for 5 s */
        http_close(&at.client);
        http_open(&at.client, at.port);
        wait_for_client();
        CU_ASSERT_TRUE(http_ask(&at.client, "nonsense\r\n\r\n", &at.reply));
        for (int i = 0; i < 7; i++) {
                weir_test_pass(WEIR_SEC(4));
                CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 1);
                dribble();
        }
        weir_test_pass(WEIR_SEC(2) - 1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(atomic_load(&at.server->base.connections), 0); /* 30 s in all */
        end();
}

static void
dribble_on(weir_task *ticker, void *context)
{
        weir_nsec *gone_at = context;

        (void)ticker;
        (void)send(at.client.fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (!*gone_at && atomic_load(&at.server->base.connections) == 0)
                *gone_at = weir_now();
}

/* Time may run on a little before the stop looks: what counts is when the connection has gone. */
static void
stop_while_dribbling(weir_nsec within)
{
        weir_nsec began = weir_now(), gone_at = 0;

        CU_ASSERT_EQUAL(weir_task_start(weir_ticker_new_named("dribble", WEIR_SEC(1), WEIR_TICK_SKIP, dribble_on, &gone_at)), 0);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_FOREVER), 0);
        weir_test_pass(WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("dribble", WEIR_ALL), 1);
        CU_ASSERT(gone_at > 0 && gone_at - began <= within);
}

static void
a_client_that_still_sends_does_not_hold_a_stop_up(void)
{
        begin_virtual(0, 0, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, "nonsense\r\n\r\n", &at.reply)); /* before it */
        stop_while_dribbling(WEIR_SEC(6));
        end();
        begin_virtual(0, 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client,
                                      "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nnonsense?nonsense\r\n\r\n"));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.handled) == 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), let_them_go, NULL)), 0); /* during it */
        stop_while_dribbling(WEIR_SEC(7));
        end();
}

static void
a_client_that_sends_for_ever_after_a_refusal_is_cut(void)
{
        static const char junk[65536];
        unsigned seconds = 0;

        begin_virtual(0, 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "nonsense\r\n\r\n"));
        weir_test_pass(0);
        while (seconds < 60 && http_send(&at.client, junk, sizeof junk)) {
                weir_test_pass(WEIR_SEC(1));
                seconds++;
        }
        CU_ASSERT(seconds >= 30);
        CU_ASSERT(seconds <= 32); /* the system takes what comes after the end, and reports the reset later */
        end();
}

/* As fast as it can, so that time does not cut it: the clock stands. */
static void
a_client_that_sends_more_than_1_gib_after_a_refusal_is_cut(void)
{
        const size_t bound = (size_t)1 << 30, piece = (size_t)1 << 20;
        char *junk = calloc(1, piece);
        size_t sent = 0;

        begin_virtual(0, 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "nonsense\r\n\r\n"));
        while (sent < 2 * bound && http_send(&at.client, junk, piece)) {
                sent += piece;
        }
        CU_ASSERT(sent >= bound - piece);
        CU_ASSERT(sent <= bound + 64 * piece); /* the system takes what comes after the end */
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 0);
        end();
        free(junk);
}

/* -- too many -- */

static void
connections_above_the_limit_are_answered_503_when_all_are_busy(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client second, third;

        config.max_connections = 2;
        begin_with(&config);
        hold(&at.client, 1);
        http_open(&second, at.port);
        hold(&second, 2);
        for (int i = 0; i < 20; i++) {
                http_open(&third, at.port);
                CU_ASSERT_TRUE(http_receive(&third, &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.status, 503);
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Retry-After"), "1");
                CU_ASSERT_TRUE(http_is_over(&third));
                http_close(&third);
        }
        WEIR_TEST_EVENTUALLY(let_go() == 2);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false)); /* the first two are not touched */
        CU_ASSERT_TRUE(http_receive(&second, &at.reply, false));
        http_close(&second);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.connections) == 1);
        http_open(&third, at.port);
        CU_ASSERT_TRUE(http_ask(&third, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        http_close(&third);
        end();
}

/* The reply to a connection for which there is no room: the page that was set for 503, of that size. */
static void
turn_away_with_page(size_t size)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client other;
        char *page = malloc(size + 1);

        memset(page, 'p', size);
        page[size] = '\0';
        config.max_connections = 1;
        weir_test_begin_real(1);
        at.server = weir_http_server_new(&config, handle, NULL);
        CU_ASSERT_EQUAL(weir_http_server_set_error(at.server, 503, "text/html", page, size), 0);
        CU_ASSERT_EQUAL_FATAL(weir_http_server_start(at.server, "127.0.0.1:0"), 0);
        at.port = weir_http_server_port(at.server);
        atomic_store(&at.handled, 0);
        http_open(&at.client, at.port);
        hold(&at.client, 1);
        for (int i = 0; i < 20; i++) {
                http_open(&other, at.port);
                (void)http_send_text(&other, GET("/"));
                CU_ASSERT_TRUE(http_receive(&other, &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.status, 503);
                HTTP_ASSERT_TEXT(at.reply.body, size <= 7500 ? page : "503 Service Unavailable\n");
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Content-Type"), size <= 7500 ? "text/html" : "text/plain; charset=utf-8");
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Retry-After"), "1");
                http_close(&other);
        }
        WEIR_TEST_EVENTUALLY(let_go() == 1);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        end();
        free(page);
}

static void
a_refused_client_gets_the_page_that_was_set(void)
{
        turn_away_with_page(0);
        turn_away_with_page(20);
        turn_away_with_page(7500);
        turn_away_with_page(8192); /* with its head more than leaves at once: the line of text */
        turn_away_with_page(1 << 20);
}

/* The request is there before the refusal: closing must not take it away from the client. */
static void
a_503_can_be_read_although_the_request_was_sent(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client other;

        config.max_connections = 1;
        begin_with(&config);
        hold(&at.client, 1);
        for (int i = 0; i < 50; i++) {
                http_open(&other, at.port);
                (void)http_send_text(&other, GET("/"));
                CU_ASSERT_TRUE(http_receive(&other, &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.status, 503);
                http_close(&other);
        }
        WEIR_TEST_EVENTUALLY(let_go() == 1);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
}

static int64_t
cpu_time(void)
{
        struct timespec now;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return WEIR_SEC(now.tv_sec) + now.tv_nsec;
}

/* Leaves the process `room` descriptors more than it has. */
static void
leave_descriptors(const struct rlimit *limit, int room)
{
        struct rlimit low = {.rlim_max = limit->rlim_max};

        for (int fd = 0; room > 0; fd++) {
                room -= fcntl(fd, F_GETFD) < 0;
                low.rlim_cur = (rlim_t)fd + 1;
        }
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &low), 0);
}

#define CROWD 20

/* Reads one reply and closes.  Returns whether it is a right one. */
static int
is_answered(int fd)
{
        char reply[512];
        ssize_t size = recv(fd, reply, sizeof reply, 0);

        close(fd);
        return size > 12 && memcmp(reply, "HTTP/1.1 200", 12) == 0;
}

/* In a process of its own, as the limit is the server's alone: many clients at once, of which those that were answered go.  Exits
 * with how many were. */
static void
be_many_clients(int start_fd, int ready_fd)
{
        struct http_client clients[CROWD];
        struct pollfd fds[CROWD];
        int answered = 0, left = CROWD;
        char byte;

        if (read(start_fd, &byte, 1) != 1) {
                _exit(100);
        }
        for (int i = 0; i < CROWD; i++) {
                http_open(&clients[i], at.port);
                http_send_text(&clients[i], GET("/hold"));
                fds[i] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
        }
        if (write(ready_fd, "", 1) != 1 || read(start_fd, &byte, 1) != 1) {
                _exit(101);
        }
        while (left > 0 && poll(fds, CROWD, (int)(WEIR_TEST_PATIENCE / 1000000)) > 0) {
                for (int i = 0; i < CROWD; i++) {
                        if (fds[i].fd >= 0 && fds[i].revents) {
                                answered += is_answered(fds[i].fd);
                                fds[i].fd = -1;
                                left--;
                        }
                }
        }
        _exit(answered);
}

/* The server has 4 descriptors left, and 20 clients come.  All that are in are busy: none makes room. */
static void
without_descriptors_it_neither_spins_nor_stops(void)
{
        int start[2], report[2], status = 0;
        struct rlimit limit;
        int64_t cpu;
        char byte;
        pid_t child;

        begin(0, 0, 0);
        hold(&at.client, 1);
        CU_ASSERT_EQUAL_FATAL(pipe(start) | pipe(report) | getrlimit(RLIMIT_NOFILE, &limit), 0);
        child = fork();
        if (child == 0) {
                be_many_clients(start[0], report[1]);
        }
        leave_descriptors(&limit, 4);
        CU_ASSERT_EQUAL(write(start[1], "", 1), 1);
        CU_ASSERT_EQUAL(read(report[0], &byte, 1), 1);
        cpu = cpu_time();
        weir_test_sleep(WEIR_MSEC(400)); /* really: it is about CPU time */
        CU_ASSERT(cpu_time() - cpu < WEIR_MSEC(200));
        CU_ASSERT(atomic_load(&at.handled) <= 1 + 4);
        CU_ASSERT(let_go() >= 1);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false)); /* a client that is in is served */
        CU_ASSERT_EQUAL(write(start[1], "", 1), 1);                 /* one after another leaves, and others come in */
        WEIR_TEST_EVENTUALLY((let_go(), waitpid(child, &status, WNOHANG)) == child);
        CU_ASSERT_TRUE(WIFEXITED(status));
        CU_ASSERT_EQUAL(WEXITSTATUS(status), CROWD);
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        for (int i = 0; i < 2; i++) {
                close(start[i]);
                close(report[i]);
        }
        end();
}

/* The bytes that it has sent and the other system has not taken in. */
static int
on_its_way(const struct http_client *client)
{
        int size = 0;

        CU_ASSERT_EQUAL(ioctl(client->fd, SIOCOUTQ, &size), 0);
        return size;
}

/* Nobody leaves: descriptors come from elsewhere, and the server tries again by itself. */
static void
when_descriptors_come_back_it_accepts_again(void)
{
        struct http_client other;
        struct rlimit limit;

        begin_virtual(0, 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/hold"))); /* busy: it makes no room */
        weir_test_pass(0);
        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        leave_descriptors(&limit, 1); /* which the client takes */
        http_open(&other, at.port);
        CU_ASSERT_TRUE(http_send_text(&other, GET("/")));
        WEIR_TEST_EVENTUALLY(on_its_way(&other) == 0); /* it waits for the server to accept it */
        weir_test_pass(WEIR_MSEC(120));
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        weir_test_pass(WEIR_MSEC(29)); /* it tries each 50 ms */
        CU_ASSERT_FALSE(http_has_news(&other, 0));
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
        weir_test_pass(WEIR_MSEC(1));
        CU_ASSERT_TRUE(http_receive(&other, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        http_close(&other);
        CU_ASSERT_EQUAL(let_go(), 1);
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(half_a_head_is_408_at_its_limit_on_the_real_clock_too),
                WEIR_TEST(a_head_that_trickles_is_cut_all_the_same),
                WEIR_TEST(a_body_that_trickles_is_cut_all_the_same),
                WEIR_TEST(an_empty_line_behind_a_request_brings_no_408),
                WEIR_TEST(a_head_behind_an_empty_line_has_the_time_of_a_head),
                WEIR_TEST(a_stop_closes_a_connection_with_an_empty_line),
                WEIR_TEST(a_slow_reader_gets_all_of_a_large_reply),
                WEIR_TEST(a_reader_of_tiny_pieces_gets_all_of_a_large_reply),
                WEIR_TEST(bytes_behind_the_last_request_cost_a_slow_reader_nothing),
                WEIR_TEST(a_slow_reader_of_a_file_costs_no_memory_for_it),
                WEIR_TEST(a_client_that_never_reads_costs_one_reply_and_the_limit_of_writing),
                WEIR_TEST(a_client_that_sends_for_ever_without_reading_costs_no_memory),
                WEIR_TEST(a_client_that_does_not_leave_after_a_refusal_is_cut),
                WEIR_TEST(a_client_that_still_sends_after_a_refusal_has_time_to_look_at_it),
                WEIR_TEST(a_client_that_still_sends_does_not_hold_a_stop_up),
                WEIR_TEST(a_client_that_sends_for_ever_after_a_refusal_is_cut),
                WEIR_TEST(a_client_that_sends_more_than_1_gib_after_a_refusal_is_cut),
                WEIR_TEST(connections_above_the_limit_are_answered_503_when_all_are_busy),
                WEIR_TEST(a_refused_client_gets_the_page_that_was_set),
                WEIR_TEST(a_503_can_be_read_although_the_request_was_sent),
                WEIR_TEST(without_descriptors_it_neither_spins_nor_stops),
                WEIR_TEST(when_descriptors_come_back_it_accepts_again),
        };

        return weir_test_main("server_limits", tests, sizeof tests / sizeof *tests);
}
