/* test/examples/tcp_echo_test.c: what comes goes back; silence of a minute, on the virtual clock, and a stop end connections. */
#include "test/examples/program.h"

#include "examples/tcp-echo.c"
#undef main

static int listener;
static pthread_t acceptor;

static void
begin(void)
{
        weir_test_begin_virtual();
        connections = weir_waitgroup_new();
        listener = listen_at(0);
        CU_ASSERT_FATAL(listener >= 0);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&acceptor, NULL, accept_all, &listener), 0);
}

static void
end(void)
{
        stop(listener, acceptor);
        weir_test_end();
}

static int
port(void)
{
        struct sockaddr_in address;
        socklen_t size = sizeof address;

        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&address, &size), 0);
        return ntohs(address.sin_port);
}

static void
expect_echo(struct http_client *client, const char *text)
{
        char came[64] = "";
        size_t size = 0;

        CU_ASSERT(http_send_text(client, text));
        while (size < strlen(text)) {
                ssize_t got = recv(client->fd, came + size, sizeof came - 1 - size, 0);
                if (got <= 0)
                        break;
                size += (size_t)got;
        }
        CU_ASSERT_STRING_EQUAL(came, text);
}

static int
note_due(const struct weir_timer_info *timer, void *due_in)
{
        *(weir_nsec *)due_in = timer->due_in;
        return 0;
}

/* The thread of a connection resets its timer after it has sent. */
static bool
is_reset(void)
{
        weir_nsec due_in = 0;

        return weir_timer_list("silence/", note_due, &due_in) == 1 && due_in == SILENCE;
}

static void
what_comes_goes_back(void)
{
        struct http_client one, two;

        begin();
        http_open(&one, port());
        http_open(&two, port());
        expect_echo(&one, "hello");
        expect_echo(&two, "good day");
        expect_echo(&one, "again");
        http_close(&one);
        expect_echo(&two, "still here");
        http_close(&two);
        end();
}

static void
a_connection_is_closed_after_a_minute_of_silence(void)
{
        struct http_client client;

        begin();
        http_open(&client, port());
        expect_echo(&client, "hello");
        WEIR_TEST_EVENTUALLY(is_reset());
        for (int i = 0; i < 3; i++) {
                weir_test_pass(SILENCE - 1);
                expect_echo(&client, "still here");
                WEIR_TEST_EVENTUALLY(is_reset());
        }
        weir_test_pass(SILENCE);
        CU_ASSERT(http_is_over(&client));
        http_close(&client);
        end();
}

static void
a_stop_hangs_up(void)
{
        struct http_client client;

        begin();
        http_open(&client, port());
        expect_echo(&client, "hello");
        end();
        CU_ASSERT(http_is_over(&client));
        http_close(&client);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_comes_goes_back),
                WEIR_TEST(a_connection_is_closed_after_a_minute_of_silence),
                WEIR_TEST(a_stop_hangs_up),
        };

        return weir_test_main("example_tcp_echo", tests, sizeof tests / sizeof *tests);
}
