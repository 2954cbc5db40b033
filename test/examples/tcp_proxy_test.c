/* test/examples/tcp_proxy_test.c: bytes go both ways, an end and a failure are passed on, a dead target closes the connection. */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "test/examples/program.h"

#include "examples/tcp-proxy.c"
#undef main

#define MANY ((size_t)1 << 20)

static char address[64], target[64];
static int listener;
static pthread_t thread;
static int result;

static void *
run_program(void *unused)
{
        char *arguments[] = {"tcp-proxy", address, target, NULL};

        (void)unused;
        result = program_main(3, arguments);
        return NULL;
}

static int
client(void)
{
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(to.sun_path + 1, 32, "tcp-proxy-%d", getpid());
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(to.sun_path + 1));
        WEIR_TEST_EVENTUALLY(connect(fd, (struct sockaddr *)&to, size) == 0);
        return fd;
}

static void
begin(void)
{
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof in;

        weir_test_begin_real(2);
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&in, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 16), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&in, &size), 0);
        snprintf(address, sizeof address, "unix:@tcp-proxy-%d", getpid());
        snprintf(target, sizeof target, "127.0.0.1:%u", ntohs(in.sin_port));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_program, NULL), 0);
}

static void
end(void)
{
        kill(getpid(), SIGTERM);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(result, 0);
        weir_test_end();
}

static void *
send_many(void *fd)
{
        static char bytes[MANY];

        CU_ASSERT_EQUAL(send(*(int *)fd, bytes, sizeof bytes, MSG_NOSIGNAL), (ssize_t)sizeof bytes);
        CU_ASSERT_EQUAL(shutdown(*(int *)fd, SHUT_WR), 0);
        return NULL;
}

/* What comes until the end; a negative errno when that is none. */
static ssize_t
drain(int fd)
{
        static char room[1 << 16];
        ssize_t count, total = 0;

        while ((count = recv(fd, room, sizeof room, 0)) > 0)
                total += count;
        return count < 0 ? -errno : total;
}

static void
bytes_and_ends_go_both_ways(void)
{
        pthread_t sender;

        begin();
        int here = client(), there = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&sender, NULL, send_many, &here), 0);
        CU_ASSERT_EQUAL(drain(there), (ssize_t)MANY);
        pthread_join(sender, NULL);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&sender, NULL, send_many, &there), 0); /* the other half goes on */
        CU_ASSERT_EQUAL(drain(here), (ssize_t)MANY);
        pthread_join(sender, NULL);
        close(here);
        close(there);
        close(listener);
        end();
}

static void
a_failure_is_no_end_for_the_other_side(void)
{
        begin();
        int here = client(), there = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        CU_ASSERT_EQUAL(send(there, "x", 1, 0), 1);
        char byte;
        CU_ASSERT_EQUAL(recv(here, &byte, 1, MSG_PEEK), 1);
        close(here); /* with a byte that was not read: a reset */
        CU_ASSERT_EQUAL(drain(there), -ECONNRESET);
        close(there);
        close(listener);
        end();
}

static void
without_the_target_the_connection_is_closed(void)
{
        begin();
        close(listener);
        int here = client();
        CU_ASSERT_EQUAL(drain(here), 0);
        close(here);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(bytes_and_ends_go_both_ways),
                WEIR_TEST(a_failure_is_no_end_for_the_other_side),
                WEIR_TEST(without_the_target_the_connection_is_closed),
        };

        return weir_test_main("tcp_proxy", tests, sizeof tests / sizeof *tests);
}
