/* test/udp_serve_test.c: servers of datagrams. */
#include "test/blocks_fixture.h"
#include "test/udp_fixture.h"
#include "test/timer_fixture.h"

static int client, client_port;

static void
begin(int pollers)
{
        client = weir_test_plain_socket(&client_port);
        if (pollers) {
                weir_test_begin_real(pollers);
        } else {
                weir_test_begin_virtual();
        }
}

static void
end(void)
{
        weir_test_end();
        close(client);
}

static void
echo(weir_task *request, void *count)
{
        size_t size;
        const void *data = weir_udp_data(request, &size);

        CU_ASSERT_EQUAL(weir_task_status(request), 0);
        CU_ASSERT_EQUAL(weir_udp_reply(request, data, size), 0);
        if (count) {
                atomic_fetch_add((_Atomic unsigned *)count, 1);
        }
}

static void
a_handler_replies(void)
{
        _Atomic unsigned count = 0;
        char data[16];
        int port;

        for (int pollers = 1; pollers < 4; pollers++) {
                begin(pollers);
                weir_udp_server *server = weir_udp_serve("127.0.0.1:0", echo, &count);
                CU_ASSERT_PTR_NOT_NULL_FATAL(server);
                for (unsigned i = 0; i < 100; i++) {
                        int fd = weir_test_plain_socket(&port); /* so that each socket of the server gets some */

                        weir_test_send_to(fd, weir_udp_server_port(server), &i, sizeof i);
                        CU_ASSERT_EQUAL(weir_test_receive(fd, data, sizeof data, &port), sizeof i);
                        CU_ASSERT_EQUAL(port, weir_udp_server_port(server));
                        CU_ASSERT(memcmp(data, &i, sizeof i) == 0);
                        close(fd);
                }
                CU_ASSERT(!weir_udp_serve(weir_test_at(weir_udp_server_port(server)), echo, NULL) && errno == EADDRINUSE);
                CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_SEC(10)), 0);
                end();
        }
        CU_ASSERT_EQUAL(count, 300);
}

static void
late_reply(weir_task *timer, void *request)
{
        (void)timer;
        CU_ASSERT_EQUAL(weir_udp_reply(request, "second", 6), 0);
}

static void
reply_later(weir_task *request, void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_udp_reply(request, "first", 5), 0);
        weir_series_push(weir_series_of(request), weir_timer_new(WEIR_SEC(2), late_reply, request));
}

static void
replies_go_when_the_series_has_ended(void)
{
        char data[16];

        begin(0);
        weir_udp_server *server = weir_udp_serve("127.0.0.1:0", reply_later, NULL);
        weir_test_send_to(client, weir_udp_server_port(server), "x", 1);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_test_drain(client), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_test_receive(client, data, sizeof data, NULL), 5);
        CU_ASSERT_EQUAL(weir_test_receive(client, data, sizeof data, NULL), 6);
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
        end();
}

static void
reply_and_fail(weir_task *request, void *how)
{
        weir_udp_reply(request, "x", 1);
        if (*(int *)how == 0) {
                weir_series_push(weir_series_of(request), NULL); /* out of memory */
        } else {
                weir_series_cancel(weir_series_of(request));
        }
}

static void
a_request_that_fails_has_no_reply(void)
{
        begin(0);
        for (int how = 0; how < 2; how++) {
                weir_udp_server *server = weir_udp_serve("127.0.0.1:0", reply_and_fail, &how);

                weir_test_send_to(client, weir_udp_server_port(server), "x", 1);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
                CU_ASSERT_EQUAL(weir_test_drain(client), 0);
        }
        end();
}

static unsigned at_once, most_at_once, handled;

static void
leave(weir_task *timer, void *unused)
{
        (void)timer;
        (void)unused;
        at_once--;
        handled++;
}

static void
hold(weir_task *request, void *unused)
{
        (void)unused;
        at_once++;
        most_at_once = at_once > most_at_once ? at_once : most_at_once;
        weir_series_push(weir_series_of(request), weir_timer_new(WEIR_SEC(1), leave, NULL));
}

static void
beyond_its_limit_requests_wait_in_the_kernel(void)
{
        struct weir_udp_server_config config = WEIR_UDP_SERVER_CONFIG_DEFAULT;

        begin(0);
        at_once = most_at_once = handled = 0;
        config.in_flight = 5;
        weir_udp_server *server = weir_udp_serve_with(&config, "127.0.0.1:0", hold, NULL);
        for (unsigned i = 0; i < 50; i++) {
                weir_test_send_to(client, weir_udp_server_port(server), &i, sizeof i);
        }
        weir_test_pass(WEIR_MSEC(500));
        CU_ASSERT_EQUAL(at_once, 5);
        weir_test_pass(WEIR_SEC(20));
        CU_ASSERT_EQUAL(handled, 50);
        CU_ASSERT_EQUAL(most_at_once, 5);
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
        end();
}

static void
a_stop_waits_for_requests(void)
{
        begin(0);
        at_once = most_at_once = handled = 0;
        weir_udp_server *server = weir_udp_serve("127.0.0.1:0", reply_later, NULL);
        weir_test_send_to(client, weir_udp_server_port(server), "x", 1);
        weir_test_pass(0);
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0); /* the clock goes on meanwhile */
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(2));
        CU_ASSERT_EQUAL(weir_test_drain(client), 2);
        end();
}

static int cut_status;

static void
note_cut(weir_task *timer, void *unused)
{
        (void)unused;
        cut_status = weir_task_status(timer);
}

static void
wait_long(weir_task *request, void *began)
{
        weir_udp_reply(request, "never", 5);
        weir_series_push(weir_series_of(request), weir_timer_new(WEIR_SEC(3600), note_cut, NULL));
        atomic_store((_Atomic int *)began, 1);
}

static void
a_stop_cancels_what_takes_too_long(void)
{
        _Atomic int has_begun = 0;

        begin(2);
        weir_udp_server *server = weir_udp_serve("127.0.0.1:0", wait_long, &has_begun);
        weir_test_send_to(client, weir_udp_server_port(server), "x", 1);
        WEIR_TEST_EVENTUALLY(atomic_load(&has_begun));
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_SEC(1)), 1); /* the timer has started by then */
        CU_ASSERT_EQUAL(cut_status, -ECANCELED);
        CU_ASSERT_EQUAL(weir_test_drain(client), 0);
        end();
}

static void
a_server_outlives_its_runtime_until_it_is_stopped(void)
{
        unsigned before = weir_test_entries_of("/proc/self/fd");

        begin(2);
        weir_udp_server *server = weir_udp_serve("127.0.0.1:0", echo, NULL);
        weir_test_end();
        weir_test_begin_virtual();
        CU_ASSERT(weir_udp_server_port(server) > 0);
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
        end();
        begin(1);
        server = weir_udp_serve("127.0.0.1:0", echo, NULL);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0); /* no runtime */
        close(client);
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
}

/* What has been asked is answered, also if the runtime ends just then. */
static void
a_shutdown_sends_the_replies_of_what_has_begun(void)
{
        for (unsigned i = 0; i < 50; i++) {
                _Atomic unsigned count = 0;

                begin(2);
                weir_udp_server *server = weir_udp_serve("127.0.0.1:0", echo, &count);
                for (unsigned j = 0; j < 20; j++) {
                        weir_test_send_to(client, weir_udp_server_port(server), "x", 1);
                }
                WEIR_TEST_EVENTUALLY(atomic_load(&count) > i % 8);
                weir_test_end();
                CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
                CU_ASSERT_EQUAL(weir_test_drain(client), count);
                close(client);
        }
}

static void
try_to_stop(weir_task *request, void *server)
{
        CU_ASSERT_EQUAL(weir_udp_server_stop(*(weir_udp_server **)server, 0), -EDEADLK);
        weir_udp_reply(request, "x", 1);
}

static void
mistakes_are_reported(void)
{
        struct weir_udp_server_config config = WEIR_UDP_SERVER_CONFIG_DEFAULT;
        weir_udp_server *server;
        char byte;

        begin(2);
        CU_ASSERT(!weir_udp_serve("127.0.0.1:0", NULL, NULL) && errno == EINVAL);
        CU_ASSERT(!weir_udp_serve("localhost:0", echo, NULL) && errno == EINVAL);
        CU_ASSERT(!weir_udp_serve("unix:/nowhere/at/all", echo, NULL) && errno == ENOENT);
        config.max_size = 65537;
        CU_ASSERT(!weir_udp_serve_with(&config, "127.0.0.1:0", echo, NULL) && errno == EINVAL);
        config.size = 1;
        CU_ASSERT(!weir_udp_serve_with(&config, "127.0.0.1:0", echo, NULL) && errno == EINVAL);
        CU_ASSERT_EQUAL(weir_udp_server_port(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_udp_server_stop(NULL, 0), -EINVAL);
        server = weir_udp_serve("127.0.0.1:0", try_to_stop, &server);
        weir_test_send_to(client, weir_udp_server_port(server), "x", 1);
        CU_ASSERT_EQUAL(weir_test_receive(client, &byte, 1, NULL), 1);
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
        end();
}

static void
a_unix_server_replies(void)
{
        struct weir_test_taken taken = {0};
        char address[64];

        begin(0);
        snprintf(address, sizeof address, "unix:@weir-udp-serve-test-%d", getpid());
        weir_udp_server *server = weir_udp_serve(address, echo, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(server);
        CU_ASSERT_EQUAL(weir_udp_server_port(server), -EDOM);
        weir_udp *own = weir_udp_connect(address);
        weir_task_start(weir_udp_ask_new(own, NULL, "hello", 5, NULL, weir_test_take, &taken));
        weir_test_pass(0);
        WEIR_TEST_TOOK(&taken, "hello ");
        weir_udp_unref(own);
        CU_ASSERT_EQUAL(weir_udp_server_stop(server, WEIR_FOREVER), 0);
        end();
}

static void
a_dump_says_whose_request_waits(void)
{
        char text[4096] = "", expected[64];
        FILE *file = tmpfile();
        _Atomic int has_begun = 0;

        begin(0);
        weir_udp_server *server = weir_udp_serve("127.0.0.1:0", wait_long, &has_begun);
        weir_test_send_to(client, weir_udp_server_port(server), "x", 1);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_debug_dump(fileno(file)), 0);
        CU_ASSERT(pread(fileno(file), text, sizeof text - 1, 0) > 0);
        fclose(file);
        snprintf(expected, sizeof expected, "a datagram from 127.0.0.1:%d", client_port);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
        CU_ASSERT(weir_udp_server_stop(server, 0) >= 0); /* virtual time may pass before the cut */
        end();
}

/* -- many, on many threads -- */

#define THREADS 4
#define ROUNDS  25000

static void
some_reply(weir_task *request, void *unused)
{
        size_t size;
        const unsigned char *data = weir_udp_data(request, &size);

        (void)unused;
        weir_udp_reply(request, data, size);
        if (*data % 4 == 0) {
                weir_series_push(weir_series_of(request), weir_timer_new(WEIR_USEC(100), NULL, NULL));
        } else if (*data % 4 == 1) {
                weir_series_cancel(weir_series_of(request));
        }
}

static void *
ask_much(void *server)
{
        int port;
        int fd = weir_test_plain_socket(&port);
        char byte;

        for (unsigned i = 0; i < ROUNDS; i++) {
                byte = (char)i;
                weir_test_send_to(fd, weir_udp_server_port(server), &byte, 1);
                while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0) {
                }
        }
        close(fd);
        return NULL;
}

static void
a_storm_leaves_nothing_behind(void)
{
        pthread_t threads[THREADS];
        unsigned before = weir_test_entries_of("/proc/self/fd");

        weir_test_free_kept();
        int64_t bytes = bytes_out;
        begin(2);
        for (unsigned round = 0; round < 2; round++) {
                weir_udp_server *server = weir_udp_serve("127.0.0.1:0", some_reply, NULL);

                for (unsigned i = 0; i < THREADS; i++) {
                        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, ask_much, server), 0);
                }
                for (unsigned i = 0; i < THREADS; i++) {
                        pthread_join(threads[i], NULL);
                }
                CU_ASSERT(weir_udp_server_stop(server, round ? WEIR_FOREVER : 0) >= 0);
        }
        end();
        weir_test_free_kept();
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        CU_ASSERT_EQUAL(bytes_out, bytes);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_handler_replies),
                WEIR_TEST(replies_go_when_the_series_has_ended),
                WEIR_TEST(a_request_that_fails_has_no_reply),
                WEIR_TEST(beyond_its_limit_requests_wait_in_the_kernel),
                WEIR_TEST(a_stop_waits_for_requests),
                WEIR_TEST(a_stop_cancels_what_takes_too_long),
                WEIR_TEST(a_server_outlives_its_runtime_until_it_is_stopped),
                WEIR_TEST(a_shutdown_sends_the_replies_of_what_has_begun),
                WEIR_TEST(mistakes_are_reported),
                WEIR_TEST(a_unix_server_replies),
                WEIR_TEST(a_dump_says_whose_request_waits),
                WEIR_TEST(a_storm_leaves_nothing_behind),
        };

        return weir_test_main("udp_serve", tests, sizeof tests / sizeof *tests);
}
