/* test/examples/tcp_echo_test.c: what comes goes back, for one client and for 10,000, until a signal comes. */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "test/examples/program.h"

#include "examples/tcp-echo.c"
#undef main

#define CLIENTS 10000

static char address[64];

static void *
run_program(void *result)
{
        char *arguments[] = {"tcp-echo", address, NULL};

        *(int *)result = program_main(2, arguments);
        return NULL;
}

static bool
is_echoed(int fd, const char *text)
{
        char came[64] = "";
        size_t size = strlen(text);

        return send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size && recv(fd, came, size, MSG_WAITALL) == (ssize_t)size &&
               strcmp(came, text) == 0;
}

static void
the_program_serves_until_a_signal(void)
{
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        pthread_t thread;
        int result = -1;

        snprintf(to.sun_path + 1, 32, "tcp-echo-%d", getpid());
        snprintf(address, sizeof address, "unix:@tcp-echo-%d", getpid());
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(to.sun_path + 1));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_program, &result), 0);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        WEIR_TEST_EVENTUALLY(connect(fd, (struct sockaddr *)&to, size) == 0);
        CU_ASSERT(is_echoed(fd, "hello") && is_echoed(fd, "world"));
        close(fd);
        kill(getpid(), SIGTERM);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(result, 0);
        weir_test_end();
}

/* As many as the limit of descriptors allows: each end of a connection is in this process. */
static void
ten_thousand_clients(void)
{
        struct rlimit limit;
        static int fds[CLIENTS];

        weir_test_begin_real(2);
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        rlim_t room = (limit.rlim_cur - 200) / 2;
        int clients = WEIR_TEST_SANITIZED ? 500 : room < CLIENTS ? (int)room : CLIENTS;
        weir_stream_server *server = weir_stream_server_new(NULL, echo, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_stream_server_start(server, "127.0.0.1:0"), 0);
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)weir_stream_server_port(server)),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int connected = 0, echoed = 0;
        for (int i = 0; i < clients; i++) {
                fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                connected += connect(fds[i], (struct sockaddr *)&to, sizeof to) == 0;
        }
        for (int i = 0; i < clients; i++)
                echoed += is_echoed(fds[i], "all at once");
        CU_ASSERT_EQUAL(connected, clients);
        CU_ASSERT_EQUAL(echoed, clients);
        for (int i = 0; i < clients; i++)
                close(fds[i]);
        CU_ASSERT_EQUAL(weir_stream_server_stop(server, WEIR_FOREVER), 0);
        weir_stream_server_free(server);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_program_serves_until_a_signal),
                WEIR_TEST(ten_thousand_clients),
        };

        return weir_test_main("tcp_echo", tests, sizeof tests / sizeof *tests);
}
