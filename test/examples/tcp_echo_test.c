/* test/examples/tcp_echo_test.c: what comes goes back; silence of a minute, on the virtual clock, and a stop end connections. */
#include <errno.h>
#include <sys/socket.h>

#include "test/examples/program.h"

/* -- what the program's calls of the system are -- */

static const int *accept_errors;          /* with which accept fails first, up to a 0 */
static struct weir_test_latch *may_begin; /* for which the threads of connections wait */

static int
accept_at_last(int listening, struct sockaddr *address, socklen_t *size)
{
        if (accept_errors && *accept_errors) {
                errno = *accept_errors++;
                return -1;
        }
        return accept(listening, address, size);
}

struct late {
        void *(*function)(void *);
        void *context;
};

static void *
begin_late(void *context)
{
        struct late late = *(struct late *)context;

        free(context);
        weir_test_latch_wait(may_begin);
        return late.function(late.context);
}

static int
create_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *context)
{
        struct late *late;

        if (!may_begin)
                return pthread_create(thread, attributes, function, context);
        late = malloc(sizeof *late);
        *late = (struct late){function, context};
        return pthread_create(thread, attributes, begin_late, late);
}

#define accept         accept_at_last
#define pthread_create create_thread
#include "examples/tcp-echo.c"
#undef accept
#undef pthread_create
#undef main

static int listener;
static pthread_t acceptor;

static void
begin(void)
{
        stops = false;
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

static void
connections_that_fail_do_not_end_the_program(void)
{
        static const int errors[] = {EMFILE, ECONNABORTED, EINTR, ENFILE, EMFILE, EPROTO, 0};
        struct http_client client;

        accept_errors = errors;
        begin();
        http_open(&client, port());
        expect_echo(&client, "hello");
        http_close(&client);
        end();
        accept_errors = NULL;
}

static void
a_stop_ends_while_nothing_can_be_accepted(void)
{
        static int errors[1000]; /* for ten seconds */

        for (int i = 0; i < 999; i++)
                errors[i] = EMFILE;
        accept_errors = errors;
        begin();
        end();
        accept_errors = NULL;
}

/* A stop right behind an accept hangs it up, as it hangs up all others.  Otherwise the stop takes the minute. */
static void
a_connection_has_its_timer_before_its_thread_begins(void)
{
        static struct weir_test_latch latch = WEIR_TEST_LATCH(1);
        struct http_client client;
        weir_nsec began;

        begin();
        began = weir_now();
        may_begin = &latch;
        http_open(&client, port());
        WEIR_TEST_EVENTUALLY(weir_timer_cancel_prefix("silence/", WEIR_ALL) == 1);
        weir_test_latch_count_down(&latch);
        CU_ASSERT(http_is_over(&client));
        http_close(&client);
        stop(listener, acceptor);
        CU_ASSERT_EQUAL(weir_now(), began);
        weir_test_end();
        may_begin = NULL;
}

static int taken_port;

static void
serve_at_a_port_that_is_taken(void)
{
        char text[16], *arguments[] = {"tcp-echo", text, NULL};

        snprintf(text, sizeof text, "%d", taken_port);
        _exit(program_main(2, arguments));
}

static void
a_port_that_is_taken_is_the_error_that_is_said(void)
{
        char said[256];

        begin();
        taken_port = port();
        int status = weir_test_child(serve_at_a_port_that_is_taken, said, sizeof said);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        CU_ASSERT_STRING_EQUAL(said, "tcp-echo: Address already in use\n");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_comes_goes_back),
                WEIR_TEST(a_connection_is_closed_after_a_minute_of_silence),
                WEIR_TEST(a_stop_hangs_up),
                WEIR_TEST(connections_that_fail_do_not_end_the_program),
                WEIR_TEST(a_stop_ends_while_nothing_can_be_accepted),
                WEIR_TEST(a_connection_has_its_timer_before_its_thread_begins),
                WEIR_TEST(a_port_that_is_taken_is_the_error_that_is_said),
        };

        return weir_test_main("example_tcp_echo", tests, sizeof tests / sizeof *tests);
}
