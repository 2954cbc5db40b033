/* test/addon/sql_server.h: what the suites of PostgreSQL and MariaDB share: a server, and its keeper.
 *
 * A process beside the test, the keeper, makes a database in a temporary directory, starts the server as a user that is not root,
 * and ends it and removes the directory when the test ends, also if that is killed.
 *
 * SQL(name) is a name of the library under test, SQL_POOL its pool. */
#ifndef WEIR_TEST_SQL_SERVER_H
#define WEIR_TEST_SQL_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/fixture.h"

static struct {
        char directory[64];
        int port;
        int keeper; /* a socket to it; -1: there is no server */
} server = {.keeper = -1};

/* -- what each database has -- */

static pid_t launch_server(void);
static void halt_server(pid_t *pid, char order);

/* Makes the database, in the keeper's directory.  Returns whether it has. */
static bool make_database(void);

/* Until it answers. */
static void server_await(void);

/* -- the keeper -- */

static inline const struct passwd *
server_user(void)
{
        const struct passwd *user = getpwnam(SERVER_USER);

        return user ? user : getpwnam("nobody");
}

static inline void
become_user(void)
{
        const struct passwd *user = server_user();

        if (geteuid() != 0)
                return;
        if (!user || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
                _exit(125);
}

static pid_t
spawn(const char *const *arguments)
{
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        become_user();
        int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(null, 0);
        dup2(log, 1);
        dup2(log, 2);
        execv(arguments[0], (char *const *)arguments);
        _exit(127);
}

static int
run(const char *const *arguments)
{
        int status = -1;
        pid_t pid = spawn(arguments);

        return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Its threads stop one after another: until the last one has, a query may have an answer. */
static void
stop_server(pid_t pid)
{
        if (pid > 0 && kill(pid, SIGSTOP) == 0)
                waitpid(pid, NULL, WUNTRACED);
}

/* Bytes of the test: s starts the server, k kills it at once, t ends it, p stops it for a while, c has it go on. */
static inline void
keep(int test)
{
        char order = 's', remove[128];
        pid_t pid = 0;

        do {
                if (order == 's' && pid == 0)
                        pid = launch_server();
                else if (order == 'p')
                        stop_server(pid);
                else if (order == 'c')
                        kill(pid, SIGCONT);
                else if (order != 's' && pid > 0)
                        halt_server(&pid, order);
        } while (write(test, &order, 1) == 1 && read(test, &order, 1) == 1);
        if (pid > 0)
                halt_server(&pid, 'e');
        if (chdir("/") == 0) {
                snprintf(remove, sizeof remove, "rm -rf %s", server.directory);
                _exit(system(remove));
        }
        _exit(0);
}

/* A port of the loopback, which nobody else gets until the test ends: its socket stays, and a server that reuses addresses may
 * bind to it. */
static int
free_port(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&address, size) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
                abort();
        return ntohs(address.sin_port);
}

/* -- orders of the test -- */

static inline void
server_order(char order)
{
        if (write(server.keeper, &order, 1) != 1 || read(server.keeper, &order, 1) != 1)
                abort();
}

static inline void
server_start(void)
{
        server_order('s');
        server_await();
}

/* Without a word to its clients. */
static inline void
server_kill(void)
{
        server_order('k');
}

static inline void
server_stop(void)
{
        server_order('t');
}

/* Makes and starts the server, in a directory of that name. */
static inline void
server_begin(const char *directory)
{
        int ends[2];
        const struct passwd *user = server_user();
        char started;

        strcpy(server.directory, directory);
        if (!mkdtemp(server.directory) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
                abort();
        if (chmod(server.directory, 0755) != 0 || (geteuid() == 0 && chown(server.directory, user->pw_uid, user->pw_gid) != 0))
                abort();
        server.port = free_port();
        fflush(NULL);
        if (fork() == 0) {
                close(ends[0]);
                setsid();
                prctl(PR_SET_CHILD_SUBREAPER, 1);
                signal(SIGPIPE, SIG_IGN);
                weir_test_leaks_do_not_count = 1;
                if (chdir(server.directory) != 0 || !make_database())
                        _exit(1);
                keep(ends[1]);
        }
        close(ends[1]);
        server.keeper = ends[0];
        if (read(server.keeper, &started, 1) != 1)
                abort();
}

/* -- the library -- */

static inline struct SQL(stats) server_stats(SQL_POOL *pool)
{
        struct SQL(stats) stats = {.size = sizeof stats};

        CU_ASSERT_EQUAL(SQL(stats)(pool, &stats), 0);
        return stats;
}

#endif
