/* test/connect_test.c: connections to one address: under way, refused, interrupted, to themselves; and calls that fail. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "kernel/socket/connect.h"
#include "kernel/socket/listen.h"
#include "test/http_client.h"
#include "test/support.h"

static struct weir__sockets sockets;
static struct weir__socket_address at; /* where the first of them listens */

/* -- system calls, which the linker replaces (test/CMakeLists.txt) -- */

static struct {
        int socket, connect, getsockopt; /* errno of the next call; 0: it is the system's */
        unsigned times;                  /* so many calls fail */
        bool is_done;                    /* connect does its work before it fails */
        bool to_itself;                  /* connect binds its end to the other one's address */
} fault;

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);

static bool
fails(int error)
{
        if (!error || !fault.times)
                return false;
        fault.times--;
        errno = error;
        return true;
}

int
__wrap_socket(int domain, int type, int protocol)
{
        return fails(fault.socket) ? -1 : __real_socket(domain, type, protocol);
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
        if (fault.to_itself)
                CU_ASSERT_EQUAL(bind(fd, address, size), 0);
        if (fault.is_done && fault.times)
                (void)__real_connect(fd, address, size);
        return fails(fault.connect) ? -1 : __real_connect(fd, address, size);
}

int
__wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
        return option == SO_ERROR && fails(fault.getsockopt) ? -1 : __real_getsockopt(fd, level, option, value, size);
}

/* -- the other end -- */

static void
serve(const char *address)
{
        struct weir__fault why;

        CU_ASSERT_EQUAL_FATAL(weir__listen(address, 1, &sockets, &why), 0);
        CU_ASSERT_TRUE_FATAL(weir__socket_name(sockets.all[0].fd, &at));
}

static void
end(void)
{
        weir__listen_undo(&sockets);
}

/* Connects to `at`, and waits for the outcome. */
static int
connect_now(int *fd)
{
        bool is_under_way = false;
        int result;

        *fd = weir__connect(&at, &is_under_way);
        if (*fd < 0 || !is_under_way)
                return *fd < 0 ? *fd : 0;
        while ((result = weir__connect_result(*fd)) == -EINPROGRESS) {
                struct pollfd event = {.fd = *fd, .events = POLLOUT};

                CU_ASSERT_EQUAL_FATAL(poll(&event, 1, 30000), 1);
        }
        return result;
}

static void
expect_connected(int fd)
{
        int other;
        struct pollfd event = {.fd = sockets.all[0].fd, .events = POLLIN};
        char byte = 'x';

        CU_ASSERT_EQUAL_FATAL(poll(&event, 1, 30000), 1);
        other = accept(sockets.all[0].fd, NULL, NULL);
        CU_ASSERT_FATAL(other >= 0);
        CU_ASSERT_EQUAL(write(fd, &byte, 1), 1);
        byte = 0;
        CU_ASSERT_EQUAL(read(other, &byte, 1), 1);
        CU_ASSERT_EQUAL(byte, 'x');
        close(other);
        close(fd);
}

static const char *
abstract(void)
{
        static char address[64];

        snprintf(address, sizeof address, "unix:@weir-connect-%d", (int)getpid());
        return address;
}

static const char *
path(void)
{
        static char address[64];

        snprintf(address, sizeof address, "unix:/tmp/weir-connect-%d", (int)getpid());
        return address;
}

/* -- what goes well -- */

static void
each_kind_of_address_is_connected_to(void)
{
        const char *const addresses[] = {"127.0.0.1:0", "[::1]:0", path(), abstract()};
        unsigned before = http_open_descriptors();

        for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
                int fd, on = 0;
                socklen_t size = sizeof on;

                serve(addresses[i]);
                CU_ASSERT_EQUAL_FATAL(connect_now(&fd), 0);
                CU_ASSERT(fcntl(fd, F_GETFL) & O_NONBLOCK);
                CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
                if (i < 2) {
                        CU_ASSERT_EQUAL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
                        CU_ASSERT(on);
                }
                expect_connected(fd);
                end();
        }
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
}

static void
an_interrupted_call_is_repeated(void)
{
        const char *const addresses[] = {"127.0.0.1:0", path()};

        for (size_t i = 0; i < 4; i++) {
                int fd;

                serve(addresses[i / 2]);
                fault.connect = EINTR;
                fault.times = 3;
                fault.is_done = i % 2;
                CU_ASSERT_EQUAL_FATAL(connect_now(&fd), 0);
                CU_ASSERT_EQUAL(fault.times, 0);
                memset(&fault, 0, sizeof fault);
                expect_connected(fd);
                end();
        }
}

/* -- what does not -- */

static void
a_port_without_a_server_refuses(void)
{
        unsigned before = http_open_descriptors();
        int fd;

        serve("127.0.0.1:0");
        end();
        CU_ASSERT_EQUAL(connect_now(&fd), -ECONNREFUSED);
        if (fd >= 0) {
                CU_ASSERT_EQUAL(weir__connect_result(fd), -ECONNABORTED); /* and not that it is under way for ever */
                close(fd);
        }
        serve(abstract());
        end();
        CU_ASSERT_EQUAL(connect_now(&fd), -ECONNREFUSED);
        serve(path());
        end();
        CU_ASSERT_EQUAL(connect_now(&fd), -ENOENT);
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
}

static void
a_full_backlog_of_tcp_leaves_the_connection_under_way(void)
{
        bool is_under_way = false;
        int fds[16];
        unsigned count = 0, decided = 0;

        serve("127.0.0.1:0");
        CU_ASSERT_EQUAL(listen(sockets.all[0].fd, 0), 0);
        for (; count < 16; count++) {
                struct pollfd event;

                fault.connect = EINTR; /* and the next call says that it is under way */
                fault.is_done = true;
                fault.times = 1;
                CU_ASSERT_FATAL((fds[count] = weir__connect(&at, &is_under_way)) >= 0);
                event = (struct pollfd){.fd = fds[count], .events = POLLOUT};
                (void)poll(&event, 1, decided < count ? 0 : 50);
                decided += weir__connect_result(fds[count]) == 0;
        }
        memset(&fault, 0, sizeof fault);
        CU_ASSERT(decided >= 1 && decided < 16);
        for (unsigned i = 0; i < count; i++) {
                int result = weir__connect_result(fds[i]);

                CU_ASSERT(result == 0 || result == -EINPROGRESS);
                close(fds[i]);
        }
        end();
}

static void
a_full_backlog_of_a_unix_socket_is_tried_again(void)
{
        unsigned before = http_open_descriptors(), count = 0;
        int fds[16], other;
        bool is_under_way;

        serve(path());
        CU_ASSERT_EQUAL(listen(sockets.all[0].fd, 2), 0);
        while (count < 16 && (fds[count] = weir__connect(&at, &is_under_way)) >= 0)
                count++;
        CU_ASSERT(count > 0 && count < 16);
        CU_ASSERT_EQUAL(fds[count], -EAGAIN);
        CU_ASSERT_EQUAL(http_open_descriptors(), before + 1 + count);
        CU_ASSERT((other = accept(sockets.all[0].fd, NULL, NULL)) >= 0);
        close(other);
        CU_ASSERT((fds[count] = weir__connect(&at, &is_under_way)) >= 0);
        CU_ASSERT_FALSE(is_under_way);
        for (unsigned i = 0; i <= count; i++)
                close(fds[i]);
        end();
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
}

static void
a_connection_to_itself_is_refused(void)
{
        static const char *const addresses[] = {"127.0.0.1:0", "[::1]:0"};
        const int off = 0;
        socklen_t size = sizeof off;

        for (size_t i = 0; i < 2; i++) {
                int fd;

                serve(addresses[i]);
                end();
                fault.to_itself = true;
                CU_ASSERT_EQUAL(connect_now(&fd), -ECONNREFUSED);
                fault.to_itself = false;
                if (fd >= 0)
                        close(fd);
                /* The port is free at once. */
                CU_ASSERT_FATAL((fd = socket(at.any.sa_family, SOCK_STREAM, 0)) >= 0);
                CU_ASSERT_EQUAL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, size), 0);
                CU_ASSERT_EQUAL(bind(fd, &at.any, at.size) | listen(fd, 1), 0);
                close(fd);
        }
}

static void
a_reset_before_the_outcome_is_read_is_the_outcome(void)
{
        static const struct linger at_once = {.l_onoff = 1};
        struct pollfd event = {.events = POLLIN};
        bool is_under_way;
        int fd, other;

        serve("127.0.0.1:0");
        CU_ASSERT_FATAL((fd = weir__connect(&at, &is_under_way)) >= 0);
        event.fd = sockets.all[0].fd;
        CU_ASSERT_EQUAL_FATAL(poll(&event, 1, 30000), 1);
        CU_ASSERT_FATAL((other = accept(sockets.all[0].fd, NULL, NULL)) >= 0);
        CU_ASSERT_EQUAL(setsockopt(other, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        close(other);
        event = (struct pollfd){.fd = fd, .events = POLLIN};
        CU_ASSERT_EQUAL_FATAL(poll(&event, 1, 30000), 1);
        fault.getsockopt = ENOBUFS;
        fault.times = 1;
        CU_ASSERT_EQUAL(weir__connect_result(fd), -ENOBUFS);
        memset(&fault, 0, sizeof fault);
        CU_ASSERT_EQUAL(weir__connect_result(fd), -ECONNRESET);
        close(fd);
        end();
}

static void
a_call_that_fails_leaves_nothing_behind(void)
{
        static const int of_socket[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EAFNOSUPPORT, EACCES};
        static const int of_connect[] = {EADDRNOTAVAIL, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT, EACCES, EPERM, ENOMEM, EAGAIN};
        unsigned before;
        int fd;

        serve("127.0.0.1:0");
        before = http_open_descriptors();
        for (size_t i = 0; i < sizeof of_socket / sizeof *of_socket; i++) {
                fault.socket = of_socket[i];
                fault.times = 1;
                CU_ASSERT_EQUAL(connect_now(&fd), -of_socket[i]);
        }
        fault.socket = 0;
        for (size_t i = 0; i < sizeof of_connect / sizeof *of_connect; i++) {
                fault.connect = of_connect[i];
                fault.times = 1;
                CU_ASSERT_EQUAL(connect_now(&fd), -of_connect[i]);
        }
        CU_ASSERT_EQUAL(http_open_descriptors(), before);
        memset(&fault, 0, sizeof fault);
        CU_ASSERT_EQUAL(connect_now(&fd), 0);
        close(fd);
        CU_ASSERT_EQUAL(weir__connect_result(fd), -EBADF);
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_kind_of_address_is_connected_to),
                WEIR_TEST(an_interrupted_call_is_repeated),
                WEIR_TEST(a_port_without_a_server_refuses),
                WEIR_TEST(a_full_backlog_of_tcp_leaves_the_connection_under_way),
                WEIR_TEST(a_full_backlog_of_a_unix_socket_is_tried_again),
                WEIR_TEST(a_connection_to_itself_is_refused),
                WEIR_TEST(a_reset_before_the_outcome_is_read_is_the_outcome),
                WEIR_TEST(a_call_that_fails_leaves_nothing_behind),
        };

        return weir_test_main("connect", tests, sizeof tests / sizeof *tests);
}
