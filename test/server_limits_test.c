/* test/server_limits_test.c: time limits on the real clock, slow and silent clients, and what happens when connections or
 * descriptors run out.  Time limits to the nanosecond are in test/virtual_server_test.c. */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "server/server.h"
#include "test/http_client.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

#define LARGE ((size_t)8 * 1024 * 1024)

static struct fixture {
        weir_http_server *server;
        int port;
        struct http_client client;
        struct http_reply reply;
        int64_t began;
        atomic_int handled;
} at;

/* "/": a word at once.  "/large": 8 MiB.  "/later": a word after 300 ms. */
static void
handle(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);

        (void)context;
        atomic_fetch_add(&at.handled, 1);
        if (strcmp(path, "/large") == 0) {
                char *bytes = malloc(LARGE);

                memset(bytes, 'l', LARGE);
                CU_ASSERT_EQUAL(weir_http_reply_append(exchange, bytes, LARGE), 0);
                free(bytes);
                return;
        }
        weir_http_reply_text(exchange, 200, "word\n");
        if (strcmp(path, "/later") == 0) {
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(300), NULL, NULL));
        }
}

static void
begin_with(const struct weir_http_server_config *config)
{
        at.server = http_server(config, handle, NULL);
        at.port = weir_http_server_port(at.server);
        atomic_store(&at.handled, 0);
        http_open(&at.client, at.port);
        at.began = weir_test_now();
}

/* All limits far away, but the one that is said. */
static void
begin(weir_nsec head, weir_nsec body, weir_nsec idle)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.head_timeout = head;
        config.body_timeout = body;
        config.idle_timeout = idle;
        begin_with(&config);
}

static void
end(void)
{
        http_close(&at.client);
        http_reply_done(&at.reply);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
}

/* Time has come to `limit` since the beginning, not earlier and not much later. */
static void
assert_time(weir_nsec limit)
{
        int64_t passed = weir_test_now() - at.began;

        CU_ASSERT(passed >= limit);
        CU_ASSERT(passed <= limit + WEIR_TEST_TOLERANCE);
}

static void
assert_timeout(weir_nsec limit)
{
        CU_ASSERT_TRUE(http_receive(&at.client, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 408);
        HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
        assert_time(limit);
        CU_ASSERT_TRUE(http_is_over(&at.client));
}

/* -- time limits -- */

static void
half_a_head_is_408_at_its_limit(void)
{
        begin(WEIR_MSEC(150), 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "GET / HTTP/1.1\r\nHo"));
        assert_timeout(WEIR_MSEC(150));
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 0);
}

static void
a_head_that_trickles_is_cut_all_the_same(void)
{
        static const char head[] = "GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789012345678901234567890123456789";

        begin(WEIR_MSEC(150), 0, 0);
        for (size_t i = 0; i < sizeof head - 1 && !http_has_news(&at.client, WEIR_MSEC(10)); i++) {
                CU_ASSERT_TRUE(http_send(&at.client, head + i, 1));
        }
        assert_timeout(WEIR_MSEC(150));
        end();
}

static void
a_body_that_trickles_is_cut_all_the_same(void)
{
        begin(0, WEIR_MSEC(150), 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 400\r\n\r\n"));
        for (int i = 0; i < 399 && !http_has_news(&at.client, WEIR_MSEC(10)); i++) {
                CU_ASSERT_TRUE(http_send(&at.client, "b", 1));
        }
        assert_timeout(WEIR_MSEC(150));
        end();
}

/* -- slow readers -- */

static bool
is_all_of(const struct http_reply *reply, char byte)
{
        return reply->size > 0 && reply->body[0] == byte && memcmp(reply->body, reply->body + 1, reply->size - 1) == 0;
}

static void
a_slow_reader_gets_all_of_a_large_reply(void)
{
        begin(0, 0, WEIR_MSEC(400));
        http_close(&at.client);
        http_open_window(&at.client, at.port, 16384);
        CU_ASSERT_TRUE(http_send_text(&at.client, GET("/large") GET("/")));
        for (int i = 0; i < 6; i++) { /* pauses shorter than the limit, and together longer */
                weir_test_sleep(WEIR_MSEC(100));
                http_read_some(&at.client);
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

/* Memory that the process has from malloc, small and large. */
static size_t
memory_in_use(void)
{
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

static void
who_never_reads_costs_one_reply_and_the_idle_limit(void)
{
        enum { REQUESTS = 50 };
        size_t before;

        begin(0, 0, WEIR_MSEC(400));
        http_close(&at.client);
        http_open_window(&at.client, at.port, 4096);
        before = memory_in_use();
        at.began = weir_test_now();
        for (int i = 0; i < REQUESTS; i++) {
                CU_ASSERT_TRUE(http_send_text(&at.client, GET("/large")));
        }
        weir_test_sleep(WEIR_MSEC(200));
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1); /* the others wait until it is gone */
        if (!WEIR_TEST_SANITIZED) {
                CU_ASSERT(memory_in_use() - before < LARGE + LARGE / 4);
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->connections) == 0);
        CU_ASSERT(weir_test_now() - at.began >= WEIR_MSEC(400));
        /* Twice the limit, as what its system takes in at first looks like reading. */
        CU_ASSERT(weir_test_now() - at.began <= WEIR_MSEC(800) + WEIR_TEST_TOLERANCE);
        if (!WEIR_TEST_SANITIZED) {
                WEIR_TEST_EVENTUALLY(memory_in_use() < before + LARGE / 4);
        }
        end();
        CU_ASSERT_EQUAL(atomic_load(&at.handled), 1);
}

/* A client that sends and sends without reading is slowed down by its socket: nothing of it is kept. */
static void
who_sends_for_ever_without_reading_costs_no_memory(void)
{
        static char requests[128 * (sizeof GET("/large") - 1)];
        size_t before, sent = 0;

        begin(0, 0, WEIR_MSEC(400));
        for (size_t i = 0; i < sizeof requests; i += sizeof GET("/large") - 1) {
                memcpy(requests + i, GET("/large"), sizeof GET("/large") - 1);
        }
        before = memory_in_use();
        for (int quiet = 0; quiet < 20;) {
                ssize_t count = send(at.client.fd, requests, sizeof requests, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (count < 0) {
                        weir_test_sleep(WEIR_MSEC(1));
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
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->connections) == 0);
        end();
}

/* Our refusal is not read and the connection not closed: it must not stay for ever. */
static void
who_does_not_leave_after_a_refusal_is_made_to(void)
{
        int64_t began;

        begin(0, 0, 0);
        began = weir_test_now();
        CU_ASSERT_TRUE(http_ask(&at.client, "nonsense\r\n\r\n", &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 400);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->connections) == 0);
        CU_ASSERT(weir_test_now() - began <= WEIR_SEC(5) + WEIR_TEST_TOLERANCE);
        end();
}

static void
who_sends_for_ever_after_a_refusal_is_cut(void)
{
        static const char junk[65536];
        size_t sent = 0;

        begin(0, 0, 0);
        CU_ASSERT_TRUE(http_send_text(&at.client, "nonsense\r\n\r\n"));
        while (sent < LARGE && http_send(&at.client, junk, sizeof junk)) {
                sent += sizeof junk;
        }
        CU_ASSERT(sent < LARGE);
        end();
}

/* -- too many -- */

static void
connections_above_the_limit_are_answered_503(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client second, third;

        config.max_connections = 2;
        begin_with(&config);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        http_open(&second, at.port);
        CU_ASSERT_TRUE(http_ask(&second, GET("/"), &at.reply));
        for (int i = 0; i < 20; i++) {
                http_open(&third, at.port);
                CU_ASSERT_TRUE(http_receive(&third, &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.status, 503);
                HTTP_ASSERT_TEXT(http_field(&at.reply, "Connection"), "close");
                CU_ASSERT_TRUE(http_is_over(&third));
                http_close(&third);
        }
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply)); /* the first two are not touched */
        CU_ASSERT_TRUE(http_ask(&second, GET("/"), &at.reply));
        http_close(&second);
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->connections) == 1);
        http_open(&third, at.port);
        CU_ASSERT_TRUE(http_ask(&third, GET("/"), &at.reply));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        http_close(&third);
        end();
}

/* The request is there before the refusal: closing must not take it away from the client. */
static void
a_503_can_be_read_although_the_request_was_sent(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        struct http_client other;

        config.max_connections = 1;
        begin_with(&config);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        for (int i = 0; i < 50; i++) {
                http_open(&other, at.port);
                (void)http_send_text(&other, GET("/"));
                CU_ASSERT_TRUE(http_receive(&other, &at.reply, false));
                CU_ASSERT_EQUAL(at.reply.status, 503);
                http_close(&other);
        }
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
crowd(int start_fd, int ready_fd)
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
                http_send_text(&clients[i], GET("/"));
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

/* The server has 4 descriptors left, and 20 clients come. */
static void
without_descriptors_it_neither_spins_nor_stops(void)
{
        int start[2], report[2], status = 0;
        struct rlimit limit;
        int64_t cpu;
        char byte;
        pid_t child;

        begin(0, 0, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL_FATAL(pipe(start) | pipe(report) | getrlimit(RLIMIT_NOFILE, &limit), 0);
        child = fork();
        if (child == 0) {
                crowd(start[0], report[1]);
        }
        leave_descriptors(&limit, 4);
        CU_ASSERT_EQUAL(write(start[1], "", 1), 1);
        CU_ASSERT_EQUAL(read(report[0], &byte, 1), 1);
        cpu = cpu_time();
        weir_test_sleep(WEIR_MSEC(400));
        CU_ASSERT(cpu_time() - cpu < WEIR_MSEC(200));
        CU_ASSERT(atomic_load(&at.handled) <= 1 + 4);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply)); /* who is in is served */
        CU_ASSERT_EQUAL(write(start[1], "", 1), 1);                /* one after another leaves, and others come in */
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_TRUE(WIFEXITED(status));
        CU_ASSERT_EQUAL(WEXITSTATUS(status), CROWD);
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        for (int i = 0; i < 2; i++) {
                close(start[i]);
                close(report[i]);
        }
        end();
}

/* Nobody leaves: descriptors come from elsewhere, and the server tries again by itself. */
static void
when_descriptors_come_back_it_accepts_again(void)
{
        struct http_client other;
        struct rlimit limit;

        begin(0, 0, 0);
        CU_ASSERT_TRUE(http_ask(&at.client, GET("/"), &at.reply));
        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        leave_descriptors(&limit, 1); /* which the client takes */
        http_open(&other, at.port);
        CU_ASSERT_TRUE(http_send_text(&other, GET("/")));
        CU_ASSERT_FALSE(http_has_news(&other, WEIR_MSEC(120)));
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        CU_ASSERT_TRUE(http_receive(&other, &at.reply, false));
        CU_ASSERT_EQUAL(at.reply.status, 200);
        http_close(&other);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(half_a_head_is_408_at_its_limit),
                WEIR_TEST(a_head_that_trickles_is_cut_all_the_same),
                WEIR_TEST(a_body_that_trickles_is_cut_all_the_same),
                WEIR_TEST(a_slow_reader_gets_all_of_a_large_reply),
                WEIR_TEST(a_reader_of_tiny_pieces_gets_all_of_a_large_reply),
                WEIR_TEST(who_never_reads_costs_one_reply_and_the_idle_limit),
                WEIR_TEST(who_sends_for_ever_without_reading_costs_no_memory),
                WEIR_TEST(who_does_not_leave_after_a_refusal_is_made_to),
                WEIR_TEST(who_sends_for_ever_after_a_refusal_is_cut),
                WEIR_TEST(connections_above_the_limit_are_answered_503),
                WEIR_TEST(a_503_can_be_read_although_the_request_was_sent),
                WEIR_TEST(without_descriptors_it_neither_spins_nor_stops),
                WEIR_TEST(when_descriptors_come_back_it_accepts_again),
        };

        return weir_test_main("server_limits", tests, sizeof tests / sizeof *tests);
}
