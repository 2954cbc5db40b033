/* test/addon/pq_server.h: a server of PostgreSQL for a suite.
 *
 * A process beside the test, the keeper, makes a database in a temporary directory, starts the server as a user that is not root,
 * and ends it and removes the directory when the test ends, also if that is killed. */
#ifndef WEIR_TEST_PQ_SERVER_H
#define WEIR_TEST_PQ_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libpq-fe.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
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

#include <weir/pq.h>

/* A suite may define them before it includes this. */
#ifndef SERVER_FSYNC
#define SERVER_FSYNC       "fsync=off"
#define SERVER_CONNECTIONS "max_connections=40"
#endif

static struct {
        char programs[PATH_MAX - 64]; /* where initdb and postgres are */
        char directory[64];
        int port;
        int keeper; /* a socket to it; -1: there is no server */
} server = {.keeper = -1};

/* -- the keeper -- */

static inline void
become_user(void)
{
        const struct passwd *user = getpwnam("postgres");

        if (geteuid() != 0)
                return;
        user = user ? user : getpwnam("nobody");
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

static pid_t
start_postgres(void)
{
        char program[PATH_MAX], port[16];
        const char *arguments[] = {program,
                                   "-D",
                                   "data",
                                   "-k",
                                   server.directory,
                                   "-p",
                                   port,
                                   "-c",
                                   "listen_addresses=127.0.0.1",
                                   "-c",
                                   SERVER_FSYNC,
                                   "-c",
                                   SERVER_CONNECTIONS,
                                   "-c",
                                   "shared_buffers=4MB",
                                   "-c",
                                   "autovacuum=off",
                                   "-c",
                                   "max_wal_senders=0",
                                   "-c",
                                   "wal_level=minimal",
                                   NULL};

        snprintf(program, sizeof program, "%s/postgres", server.programs);
        snprintf(port, sizeof port, "%d", server.port);
        return spawn(arguments);
}

/* The processes of the server, which would hinder the next start.  Returns how many. */
static int
children_of(pid_t pid, int *children, int room)
{
        char path[64];
        int count = 0;

        snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
        FILE *file = fopen(path, "re");
        while (file && count < room && fscanf(file, "%d", &children[count]) == 1)
                count++;
        if (file)
                fclose(file);
        return count;
}

static inline void
end_postgres(pid_t *pid, int signal)
{
        int children[256], count = 0;

        if (*pid <= 0)
                return;
        if (signal == SIGKILL) {
                kill(*pid, SIGSTOP);
                count = children_of(*pid, children, 256);
        }
        kill(*pid, signal);
        for (int i = 0; i < count; i++)
                kill(children[i], SIGKILL);
        waitpid(*pid, NULL, 0);
        for (int i = 0; i < count; i++) /* they are the keeper's now */
                waitpid(children[i], NULL, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                continue;
        *pid = 0;
}

/* Bytes of the test: s starts the server, k kills it at once, t ends its connections and then it. */
static inline void
keep(int test)
{
        char order = 's', remove[128];
        pid_t postgres = 0;

        do {
                if (order == 's' && postgres == 0)
                        postgres = start_postgres();
                else if (order != 's')
                        end_postgres(&postgres, order == 'k' ? SIGKILL : order == 't' ? SIGINT : SIGQUIT);
        } while (write(test, &order, 1) == 1 && read(test, &order, 1) == 1);
        end_postgres(&postgres, SIGQUIT);
        if (chdir("/") == 0) {
                snprintf(remove, sizeof remove, "rm -rf %s", server.directory);
                _exit(system(remove));
        }
        _exit(0);
}

static int
free_port(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t size = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (bind(fd, (struct sockaddr *)&address, size) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
                abort();
        close(fd);
        return ntohs(address.sin_port);
}

/* -- orders of the test -- */

static inline const char *
server_conninfo(bool is_tcp)
{
        static char text[2][160];

        snprintf(text[is_tcp], sizeof text[is_tcp], "host=%s port=%d user=weir dbname=postgres",
                 is_tcp ? "127.0.0.1" : server.directory, server.port);
        return text[is_tcp];
}

static inline void
server_order(char order)
{
        if (write(server.keeper, &order, 1) != 1 || read(server.keeper, &order, 1) != 1)
                abort();
}

static inline void
server_await(void)
{
        WEIR_TEST_EVENTUALLY(PQping(server_conninfo(false)) == PQPING_OK);
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

/* A query of the test itself, which blocks.  The first value, or "". */
static inline const char *
server_ask(const char *sql)
{
        static char value[256];
        PGconn *connection = PQconnectdb(server_conninfo(false));
        PGresult *result = PQexec(connection, sql);

        snprintf(value, sizeof value, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
        if (PQresultStatus(result) == PGRES_FATAL_ERROR || PQstatus(connection) != CONNECTION_OK)
                fprintf(stderr, "%s: %s", sql, PQerrorMessage(connection));
        PQclear(result);
        PQfinish(connection);
        return value;
}

static inline bool
find_programs(void)
{
        glob_t found = {0};
        bool is_there = glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0;

        if (is_there) {
                snprintf(server.programs, sizeof server.programs, "%s", found.gl_pathv[found.gl_pathc - 1]);
                *strrchr(server.programs, '/') = '\0';
        }
        globfree(&found);
        return is_there;
}

/* Makes and starts the server.  Returns false if PostgreSQL is not installed. */
static inline bool
server_make(void)
{
        char program[PATH_MAX];
        const char *arguments[] = {program, "-D", "data", "-A", "trust", "-U", "weir", "-E", "UTF8", "--locale=C", "-N", NULL};
        int ends[2];
        const struct passwd *user = getpwnam("postgres");

        if (!find_programs())
                return false;
        strcpy(server.directory, "/tmp/weir-pq-XXXXXX");
        if (!mkdtemp(server.directory) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
                abort();
        user = user ? user : getpwnam("nobody");
        if (geteuid() == 0 && chown(server.directory, user->pw_uid, user->pw_gid) != 0)
                abort();
        server.port = free_port();
        fflush(NULL);
        if (fork() == 0) {
                close(ends[0]);
                setsid();
                prctl(PR_SET_CHILD_SUBREAPER, 1);
                signal(SIGPIPE, SIG_IGN);
                weir_test_leaks_do_not_count = 1;
                snprintf(program, sizeof program, "%s/initdb", server.programs);
                if (chdir(server.directory) != 0 || run(arguments) != 0)
                        _exit(1);
                keep(ends[1]);
        }
        close(ends[1]);
        server.keeper = ends[0];
        char started;
        if (read(server.keeper, &started, 1) != 1)
                abort();
        server_await();
        return true;
}

/* A gate at the server: SERVER_WAITS ends when the gate that was shut is opened. */
#define SERVER_WAITS "SELECT pg_advisory_xact_lock(7)"

static inline PGconn *
server_shut_gate(void)
{
        PGconn *gate = PQconnectdb(server_conninfo(false));

        PQclear(PQexec(gate, "SELECT pg_advisory_lock(7)"));
        return gate;
}

static inline void
server_open_gate(PGconn *gate)
{
        PQfinish(gate);
}

/* A pool of the server.  0 as pipeline is the default.  However slow the machine is, cancels are not given up. */
static inline weir_pq *
server_pool(unsigned connections, unsigned pipeline, bool is_tcp)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        config.connections = connections;
        config.pipeline = pipeline;
        config.clean_limit = WEIR_SEC(60);
        config.name = "test";
        weir_pq *pool = weir_pq_new(server_conninfo(is_tcp), &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        return pool;
}

static inline struct weir_pq_stats
server_stats(weir_pq *pool)
{
        struct weir_pq_stats stats = {.size = sizeof stats};

        CU_ASSERT_EQUAL(weir_pq_stats(pool, &stats), 0);
        return stats;
}

/* The main function of a suite. */
static inline int
server_main(const char *suite, const struct weir_test *tests, size_t count)
{
        if (!server_make()) {
                printf("PostgreSQL is not installed: %s is skipped\n", suite);
                return 77;
        }
        int outcome = weir_test_main(suite, tests, count);
        close(server.keeper);
        return outcome;
}

#endif
