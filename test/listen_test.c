/* test/listen_test.c: listening sockets without a server: addresses, files, and inherited sockets.
 *
 * A process reads its inherited sockets once.  So each test of that runs in a child, which has its descriptors from 3 on. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "kernel/socket/inherit.h"
#include "kernel/socket/listen.h"
#include "test/support.h"

static char directory[] = "/tmp/weir-listen-XXXXXX";
static struct weir__sockets sockets;
static struct weir__fault fault;

static int
open_at(const char *addresses, unsigned count)
{
        return weir__listen(addresses, count, &sockets, &fault);
}

static void
end(void)
{
        weir__sockets_remove_files(&sockets);
        for (unsigned i = 0; i < sockets.count; i++) {
                weir__socket_leave(&sockets.all[i]);
        }
        weir__sockets_free(&sockets);
}

/* -- inherited sockets, in a child -- */

#define CHECK(condition)                                                     \
        do {                                                                 \
                if (!(condition)) {                                          \
                        printf("\n    line %d: %s\n", __LINE__, #condition); \
                        fflush(stdout);                                      \
                        _exit(1);                                            \
                }                                                            \
        } while (0)

static bool
in_child(void (*run)(void))
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                run();
                _exit(0);
        }
        CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
        return status == 0;
}

static int
tcp_socket(int port, int *its_port)
{
        struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        socklen_t size = sizeof address;
        const int on = 1;
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
        CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0);
        CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
        *its_port = ntohs(address.sin_port);
        return fd;
}

/* Has those descriptors as 3 and following. */
static void
pass(const int *fds, unsigned count, const char *names, pid_t pid)
{
        char text[32];
        int high[8];

        for (unsigned i = 0; i < count; i++) {
                CHECK((high[i] = fcntl(fds[i], F_DUPFD, 100)) >= 0);
        }
        for (unsigned i = 0; i < count; i++) {
                CHECK(dup2(high[i], 3 + (int)i) == 3 + (int)i);
                close(high[i]);
        }
        snprintf(text, sizeof text, "%d", (int)pid);
        setenv("LISTEN_PID", text, 1);
        snprintf(text, sizeof text, "%u", count);
        setenv("LISTEN_FDS", text, 1);
        if (names) {
                setenv("LISTEN_FDNAMES", names, 1);
        }
}

static bool
has_fd(int fd)
{
        for (unsigned i = 0; i < sockets.count; i++) {
                if (sockets.all[i].fd == fd) {
                        return true;
                }
        }
        return false;
}

static void
take_by_address(void)
{
        char address[64];
        int ports[2], fds[3];

        fds[0] = tcp_socket(0, &ports[0]);
        fds[1] = tcp_socket(0, &ports[1]);
        fds[2] = tcp_socket(ports[0], &ports[0]);
        pass(fds, 3, NULL, getpid());
        snprintf(address, sizeof address, "127.0.0.1:%d", ports[0]);
        CHECK(open_at(address, 4) == 0);
        CHECK(sockets.count == 2 && has_fd(3) && has_fd(5)); /* all of that address, and no more are made */
        CHECK(sockets.all[0].group == sockets.all[1].group);
        CHECK(weir__sockets_port(&sockets) == ports[0]);
        CHECK(fcntl(3, F_GETFD) == FD_CLOEXEC && fcntl(4, F_GETFD) == FD_CLOEXEC);
        CHECK(fcntl(3, F_GETFL) & O_NONBLOCK);
        CHECK(!getenv("LISTEN_FDS") && !getenv("LISTEN_PID"));
        CHECK(weir__inherit_left() == 1);
        /* Taken once: the same address is in use now, and that start gives nothing up. */
        struct weir__sockets others;
        CHECK(weir__listen(address, 1, &others, &fault) == -EADDRINUSE);
        CHECK(weir__inherit_left() == 1 && fcntl(3, F_GETFD) >= 0);
        CHECK(weir__inherit_ready() == 1 && fcntl(4, F_GETFD) < 0);
        end();
        CHECK(fcntl(3, F_GETFD) < 0 && fcntl(5, F_GETFD) < 0);
}

static void
sockets_that_were_inherited_are_used_for_their_address(void)
{
        CU_ASSERT_TRUE(in_child(take_by_address));
}

static void
take_any_port(void)
{
        int ports[2], fds[2];

        fds[0] = tcp_socket(0, &ports[0]);
        fds[1] = tcp_socket(0, &ports[1]);
        pass(fds, 2, NULL, getpid());
        CHECK(open_at("127.0.0.1:0 127.0.0.1:0", 1) == 0);
        CHECK(has_fd(3) && has_fd(4) && weir__inherit_left() == 0);
}

static void
an_address_without_a_port_takes_an_inherited_one(void)
{
        CU_ASSERT_TRUE(in_child(take_any_port));
}

static void
take_the_rest(void)
{
        char address[64];
        int ports[2], fds[3];

        fds[0] = tcp_socket(0, &ports[0]);
        fds[1] = tcp_socket(0, &ports[1]);
        fds[2] = tcp_socket(ports[0], &ports[0]);
        pass(fds, 3, NULL, getpid());
        snprintf(address, sizeof address, "listen:,127.0.0.1:%d", ports[1]);
        CHECK(open_at(address, 2) == 0); /* what has a name is not of the rest, wherever it stands */
        CHECK(sockets.count == 3);
        CHECK(sockets.all[0].fd == 4 && sockets.all[0].order == 1 && sockets.all[1].order == 0);
        CHECK(sockets.all[1].group == sockets.all[2].group && sockets.all[0].group != sockets.all[1].group);
        CHECK(weir__sockets_port(&sockets) == ports[0]);
        struct weir__sockets none;
        CHECK(weir__listen("listen:", 1, &none, &fault) == -ENOENT);
}

static void
listen_takes_what_has_no_address_of_its_own(void)
{
        CU_ASSERT_TRUE(in_child(take_the_rest));
}

static void
fail_and_repeat(void)
{
        char address[64];
        int port, fds[1];

        fds[0] = tcp_socket(0, &port);
        pass(fds, 1, NULL, getpid());
        snprintf(address, sizeof address, "127.0.0.1:%d nonsense", port);
        CHECK(open_at(address, 1) == -EINVAL);
        CHECK(fault.size == 8 && strncmp(fault.address, "nonsense", 8) == 0);
        CHECK(weir__inherit_left() == 1 && sockets.count == 0);
        CHECK(open_at("listen:", 1) == 0 && has_fd(3));
}

static void
a_start_that_failed_returns_what_it_took(void)
{
        CU_ASSERT_TRUE(in_child(fail_and_repeat));
}

static void
take_numbers(void)
{
        int port, fds[4];

        fds[0] = tcp_socket(0, &port);
        fds[1] = tcp_socket(0, &port);
        fds[2] = tcp_socket(0, &port);
        fds[3] = socket(AF_UNIX, SOCK_DGRAM, 0);
        pass(fds, 4, "weir-fd4:weir:other:", getpid());
        CHECK(open_at("fd:3", 1) == -EBADF); /* that number was another socket's where it comes from */
        CHECK(open_at("fd:4", 1) == 0 && has_fd(3));
        weir__sockets_free(&sockets);
        CHECK(open_at("fd:5", 1) == 0 && has_fd(5)); /* not passed by weir: its number is what it is */
        weir__sockets_free(&sockets);
        CHECK(open_at("fd:6", 1) == -EINVAL); /* it takes in nobody */
        CHECK(open_at("listen:", 1) == -EINVAL);
        CHECK(weir__inherit_left() == 2);
}

static void
numbers_are_those_of_the_process_that_was_told_them(void)
{
        CU_ASSERT_TRUE(in_child(take_numbers));
}

static void
take_nothing(void)
{
        int port, fds[1];

        fds[0] = tcp_socket(0, &port);
        pass(fds, 1, NULL, getppid());
        CHECK(open_at("listen:", 1) == -ENOENT);
        CHECK(getenv("LISTEN_FDS") && getenv("LISTEN_PID")); /* not ours to change */
        CHECK(fcntl(3, F_GETFD) == 0);
}

static void
sockets_for_another_process_are_left(void)
{
        CU_ASSERT_TRUE(in_child(take_nothing));
}

static void
say_ready(void)
{
        int port, fds[1], ends[2];
        char byte = 1;

        fds[0] = tcp_socket(0, &port);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        CHECK(dup2(ends[0], 50) == 50 && dup2(ends[1], 51) == 51);
        pass(fds, 1, NULL, getpid());
        setenv("WEIR_READY_FD", "51", 1);
        CHECK(open_at("listen:", 1) == 0);
        CHECK(weir__inherit_is_awaited() && !getenv("WEIR_READY_FD") && fcntl(51, F_GETFD) == FD_CLOEXEC);
        CHECK(recv(50, &byte, 1, MSG_DONTWAIT) < 0);
        CHECK(weir__inherit_ready() == 0);
        CHECK(recv(50, &byte, 1, MSG_DONTWAIT) == 1 && byte == 0);
        CHECK(!weir__inherit_is_awaited() && fcntl(51, F_GETFD) < 0);
}

static void
ready_is_said_once(void)
{
        CU_ASSERT_TRUE(in_child(say_ready));
}

/* -- files of Unix sockets -- */

static const char *
path_of(const char *name)
{
        static char path[256];

        snprintf(path, sizeof path, "%s/%s", directory, name);
        return path;
}

static const char *
unix_at(const char *name)
{
        static char address[300];

        snprintf(address, sizeof address, "unix:%s", path_of(name));
        return address;
}

static bool
is_there(const char *name)
{
        struct stat found;

        return lstat(path_of(name), &found) == 0;
}

static void
a_unix_socket_has_a_file_with_the_mode_of_the_umask(void)
{
        mode_t before = umask(0027);
        struct stat found;

        CU_ASSERT_EQUAL(open_at(unix_at("mode"), 4), 0);
        umask(before);
        CU_ASSERT_EQUAL(sockets.count, 1); /* one for all */
        CU_ASSERT_EQUAL(weir__sockets_port(&sockets), -EDOM);
        CU_ASSERT_EQUAL(stat(path_of("mode"), &found), 0);
        CU_ASSERT(S_ISSOCK(found.st_mode));
        CU_ASSERT_EQUAL(found.st_mode & 0777, 0750);
        end();
        CU_ASSERT_FALSE(is_there("mode"));
}

/* As a process leaves it that is killed. */
static void
leave_dead(const char *name)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        memcpy(address.sun_path, path_of(name), sizeof address.sun_path - 1); /* the names here are shorter */
        CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof address) | listen(fd, 1), 0);
        close(fd);
}

static void
the_file_of_a_dead_server_is_replaced(void)
{
        leave_dead("dead");
        CU_ASSERT_TRUE(is_there("dead"));
        CU_ASSERT_EQUAL(open_at(unix_at("dead"), 1), 0);
        end();
        CU_ASSERT_FALSE(is_there("dead"));
}

static void
the_file_of_a_living_server_is_not(void)
{
        struct weir__sockets others;

        CU_ASSERT_EQUAL(open_at(unix_at("alive"), 1), 0);
        CU_ASSERT_EQUAL(weir__listen(unix_at("alive"), 1, &others, &fault), -EADDRINUSE);
        CU_ASSERT_TRUE(is_there("alive"));
        end();
}

static void
a_file_that_is_not_a_socket_is_not_replaced(void)
{
        int fd = open(path_of("text"), O_CREAT | O_WRONLY, 0600);

        close(fd);
        CU_ASSERT_EQUAL(open_at(unix_at("text"), 1), -EADDRINUSE);
        CU_ASSERT_TRUE(is_there("text"));
        unlink(path_of("text"));
        CU_ASSERT_EQUAL(symlink("nowhere", path_of("text")), 0);
        CU_ASSERT_EQUAL(open_at(unix_at("text"), 1), -EADDRINUSE);
        CU_ASSERT_TRUE(is_there("text"));
        unlink(path_of("text"));
}

static void
a_file_that_is_not_ours_any_more_is_left(void)
{
        char other[256];

        CU_ASSERT_EQUAL(open_at(unix_at("taken"), 1), 0);
        snprintf(other, sizeof other, "%s", path_of("other"));
        leave_dead("other"); /* while the first one is there, so that it has another inode */
        CU_ASSERT_EQUAL(rename(other, path_of("taken")), 0);
        end();
        CU_ASSERT_TRUE(is_there("taken"));
        unlink(path_of("taken"));
}

static void
a_failed_listen_leaves_no_file(void)
{
        char both[400];

        snprintf(both, sizeof both, "%s,127.0.0.1:99999", unix_at("first"));
        CU_ASSERT_EQUAL(open_at(both, 1), -EINVAL);
        CU_ASSERT_FALSE(is_there("first"));
        CU_ASSERT_EQUAL(fault.size, 15);
        CU_ASSERT_EQUAL(open_at(unix_at("no/such/directory"), 1), -ENOENT);
}

static void
paths_are_as_long_as_the_system_takes_them(void)
{
        struct sockaddr_un *address = NULL;
        char name[sizeof address->sun_path + 1], longest[160];
        size_t room = sizeof address->sun_path - 1 - strlen(directory) - 1;

        memset(name, 'n', sizeof name);
        name[room] = '\0';
        CU_ASSERT_EQUAL(open_at(unix_at(name), 1), 0);
        CU_ASSERT_TRUE(is_there(name));
        end();
        name[room] = 'n', name[room + 1] = '\0';
        CU_ASSERT_EQUAL(open_at(unix_at(name), 1), -ENAMETOOLONG);
        memset(longest, 'n', sizeof longest);
        memcpy(longest, "unix:@", 6);
        longest[sizeof longest - 1] = '\0';
        CU_ASSERT_EQUAL(open_at(longest, 1), -ENAMETOOLONG);
}

static void
abstract_ones_have_no_file(void)
{
        struct weir__sockets others;
        char address[64];

        snprintf(address, sizeof address, "unix:@weir-listen-%d", (int)getpid());
        CU_ASSERT_EQUAL(open_at(address, 1), 0);
        CU_ASSERT_FALSE(sockets.all[0].has_file);
        CU_ASSERT_EQUAL(weir__listen(address, 1, &others, &fault), -EADDRINUSE);
        end();
}

/* -- several addresses, and invalid ones -- */

static void
addresses_are_separated_by_commas_or_spaces(void)
{
        CU_ASSERT_EQUAL(open_at(" 127.0.0.1:0,,127.0.0.1:0 , 127.0.0.1:0 ", 3), 0);
        CU_ASSERT_EQUAL(sockets.count, 9);
        for (unsigned i = 0; i < sockets.count; i++) {
                CU_ASSERT_EQUAL(sockets.all[i].order, i / 3);
                CU_ASSERT_EQUAL(sockets.all[i].group, sockets.all[i / 3 * 3].group);
                CU_ASSERT_EQUAL(sockets.all[i].origin, WEIR__SOCKET_MADE);
        }
        CU_ASSERT_NOT_EQUAL(sockets.all[0].group, sockets.all[3].group);
        end();
}

static void
an_invalid_address_is_refused(void)
{
        static const struct {
                const char *text;
                int failed;
        } wrong[] = {{" , ", -EINVAL},    {"unix:", -EINVAL},  {"unix:@", -EINVAL},  {"fd:", -EINVAL},
                     {"fd:x", -EINVAL},   {"fd:-1", -EINVAL},  {"fd:3x", -EINVAL},   {"fd:99999999", -EINVAL},
                     {"listen", -EINVAL}, {"fd:9999", -EBADF}, {"listen:", -ENOENT}, {"listen:x", -EINVAL}};

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                CU_ASSERT_EQUAL(open_at(wrong[i].text, 1), wrong[i].failed);
                CU_ASSERT_PTR_NULL(sockets.all);
        }
        CU_ASSERT_EQUAL(open_at(NULL, 1), -EINVAL);
}

static void
a_descriptor_has_to_be_a_socket_that_listens(void)
{
        int pipes[2], fd = socket(AF_INET, SOCK_STREAM, 0);
        char address[32];

        CU_ASSERT_EQUAL(pipe(pipes), 0);
        snprintf(address, sizeof address, "fd:%d", pipes[0]);
        CU_ASSERT_EQUAL(open_at(address, 1), -ENOTSOCK);
        snprintf(address, sizeof address, "fd:%d", fd);
        CU_ASSERT_EQUAL(open_at(address, 1), -EINVAL);
        CU_ASSERT_EQUAL(listen(fd, 1), 0);
        CU_ASSERT_EQUAL(open_at(address, 3), 0);
        CU_ASSERT_EQUAL(sockets.count, 1);
        CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
        CU_ASSERT(fcntl(fd, F_GETFL) & O_NONBLOCK);
        weir__listen_undo(&sockets);
        CU_ASSERT(fcntl(fd, F_GETFD) >= 0); /* a start that fails leaves it open */
        CU_ASSERT_EQUAL(open_at(address, 1), 0);
        end();
        CU_ASSERT(fcntl(fd, F_GETFD) < 0);
        close(pipes[0]);
        close(pipes[1]);
}

static void
the_last_user_closes_a_socket(void)
{
        CU_ASSERT_EQUAL(open_at("127.0.0.1:0", 1), 0);
        struct weir__socket *socket = &sockets.all[0];
        CU_ASSERT_TRUE(weir__socket_join(socket));
        weir__socket_leave(socket);
        CU_ASSERT(fcntl(socket->fd, F_GETFD) >= 0);
        weir__socket_leave(socket);
        CU_ASSERT(fcntl(socket->fd, F_GETFD) < 0);
        CU_ASSERT_FALSE(weir__socket_join(socket));
        weir__sockets_free(&sockets);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(sockets_that_were_inherited_are_used_for_their_address),
                WEIR_TEST(an_address_without_a_port_takes_an_inherited_one),
                WEIR_TEST(listen_takes_what_has_no_address_of_its_own),
                WEIR_TEST(a_start_that_failed_returns_what_it_took),
                WEIR_TEST(numbers_are_those_of_the_process_that_was_told_them),
                WEIR_TEST(sockets_for_another_process_are_left),
                WEIR_TEST(ready_is_said_once),
                WEIR_TEST(a_unix_socket_has_a_file_with_the_mode_of_the_umask),
                WEIR_TEST(the_file_of_a_dead_server_is_replaced),
                WEIR_TEST(the_file_of_a_living_server_is_not),
                WEIR_TEST(a_file_that_is_not_a_socket_is_not_replaced),
                WEIR_TEST(a_file_that_is_not_ours_any_more_is_left),
                WEIR_TEST(a_failed_listen_leaves_no_file),
                WEIR_TEST(paths_are_as_long_as_the_system_takes_them),
                WEIR_TEST(abstract_ones_have_no_file),
                WEIR_TEST(addresses_are_separated_by_commas_or_spaces),
                WEIR_TEST(an_invalid_address_is_refused),
                WEIR_TEST(a_descriptor_has_to_be_a_socket_that_listens),
                WEIR_TEST(the_last_user_closes_a_socket),
        };

        if (!mkdtemp(directory)) {
                perror(directory);
                return 1;
        }
        int failed = weir_test_main("listen", tests, sizeof tests / sizeof *tests);
        rmdir(directory);
        return failed;
}
