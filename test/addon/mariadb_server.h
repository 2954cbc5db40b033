/* test/addon/mariadb_server.h: a server of MariaDB for a suite.
 *
 * A process beside the test, the keeper, makes a database in a temporary directory, starts the server as a user that is not root,
 * and ends it and removes the directory when the test ends, also if that is killed. */
#ifndef WEIR_TEST_MARIADB_SERVER_H
#define WEIR_TEST_MARIADB_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mysql.h>
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

#include <weir/mariadb.h>

#define SERVER_INSTALL "/usr/bin/mariadb-install-db"
#define SERVER_PROGRAM "/usr/sbin/mariadbd"

static struct {
        char directory[64];
        int port;
        int keeper; /* a socket to it; -1: there is no server */
} server = {.keeper = -1};

/* -- the keeper -- */

static inline const struct passwd *
server_user(void)
{
        const struct passwd *user = getpwnam("mysql");

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

static pid_t
start_server(void)
{
        char data[96], socket_path[96], port[32], pid[96], options[128];
        const char *arguments[20] = {SERVER_PROGRAM,
                                     "--no-defaults",
                                     data,
                                     socket_path,
                                     port,
                                     pid,
                                     "--bind-address=127.0.0.1",
                                     "--innodb-flush-log-at-trx-commit=0",
                                     "--innodb-flush-method=nosync",
                                     "--innodb-buffer-pool-size=16M",
                                     "--innodb-log-file-size=8M",
                                     "--skip-log-bin",
                                     "--skip-name-resolve",
                                     "--max-connections=200",
                                     "--performance-schema=OFF",
                                     "--innodb-lock-wait-timeout=1"};

        snprintf(data, sizeof data, "--datadir=%s/data", server.directory);
        snprintf(socket_path, sizeof socket_path, "--socket=%s/socket", server.directory);
        snprintf(pid, sizeof pid, "--pid-file=%s/pid", server.directory);
        snprintf(port, sizeof port, "--port=%d", server.port);
        snprintf(options, sizeof options, "%s/tls.cnf", server.directory);
        if (access(options, F_OK) == 0) {
                snprintf(options, sizeof options, "--defaults-file=%s/tls.cnf", server.directory);
                arguments[1] = options;
        }
        return spawn(arguments);
}

static inline void
end_server(pid_t *pid, int signal)
{
        if (*pid <= 0)
                return;
        kill(*pid, signal);
        waitpid(*pid, NULL, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                continue;
        *pid = 0;
}

/* Bytes of the test: s starts the server, k kills it at once, t ends it, p stops it for a while, c has it go on. */
static inline void
keep(int test)
{
        char order = 's', remove[128];
        pid_t pid = 0;

        do {
                if (order == 's' && pid == 0)
                        pid = start_server();
                else if (order == 'p' || order == 'c')
                        kill(pid, order == 'p' ? SIGSTOP : SIGCONT);
                else if (order != 's')
                        end_server(&pid, order == 'k' ? SIGKILL : SIGTERM);
        } while (write(test, &order, 1) == 1 && read(test, &order, 1) == 1);
        end_server(&pid, SIGKILL);
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

/* Where the server is: by its socket or by TCP. */
static inline const char *
server_url(bool is_tcp)
{
        static char text[2][200];

        if (is_tcp)
                snprintf(text[1], sizeof text[1], "mariadb://weir:secret@127.0.0.1:%d/test", server.port);
        else
                snprintf(text[0], sizeof text[0], "mariadb://weir:secret@/test?socket=%s/socket", server.directory);
        return text[is_tcp];
}

static inline void
server_order(char order)
{
        if (write(server.keeper, &order, 1) != 1 || read(server.keeper, &order, 1) != 1)
                abort();
}

static inline MYSQL *
server_connect(const char *user, const char *password)
{
        MYSQL *connection = mysql_init(NULL);
        char path[96];

        snprintf(path, sizeof path, "%s/socket", server.directory);
        if (mysql_real_connect(connection, NULL, user, password, NULL, 0, path, CLIENT_MULTI_STATEMENTS))
                return connection;
        mysql_close(connection);
        return NULL;
}

/* A query of the test itself, which blocks.  The first value of the first row, or "". */
static inline const char *
server_ask(const char *sql)
{
        static char value[256];
        MYSQL *connection = server_connect("weir", "secret");
        MYSQL_RES *result = NULL;
        MYSQL_ROW row = NULL;

        if (!connection || mysql_query(connection, sql) != 0)
                fprintf(stderr, "%s: %s\n", sql, connection ? mysql_error(connection) : "no connection");
        else
                result = mysql_store_result(connection);
        if (result)
                row = mysql_fetch_row(result);
        snprintf(value, sizeof value, "%s", row && row[0] ? row[0] : "");
        mysql_free_result(result);
        if (connection)
                mysql_close(connection);
        return value;
}

static inline bool
server_is_there(void)
{
        MYSQL *connection = server_connect("weir", "secret");

        if (connection)
                mysql_close(connection);
        return connection != NULL;
}

/* A pool has a statement killed only by a server that is older than the connection by a second. */
static inline void
server_await(void)
{
        WEIR_TEST_EVENTUALLY(server_is_there());
        WEIR_TEST_EVENTUALLY(atoi(server_ask("SELECT variable_value FROM information_schema.global_status "
                                             "WHERE variable_name = 'Uptime'")) >= 1);
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

/* It does not answer any more, and then does. */
static inline void
server_pause(void)
{
        server_order('p');
}

static inline void
server_go_on(void)
{
        server_order('c');
}

/* How many statements of others than the one that asks run at the server with that text. */
static inline int
server_runs(const char *text)
{
        char sql[300];

        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%%%s%%' AND id <> connection_id()", text);
        return atoi(server_ask(sql));
}

/* The administrator of a new database is the user of the process that has made it. */
static inline bool
make_users(void)
{
        const struct passwd *user = geteuid() == 0 ? server_user() : getpwuid(geteuid());
        MYSQL *connection = NULL;

        if (geteuid() == 0 && seteuid(user->pw_uid) != 0)
                return false;
        for (int i = 0; i < 3000 && !connection; i++) {
                connection = server_connect(user->pw_name, NULL);
                if (!connection)
                        weir_test_sleep(10000000);
        }
        if (geteuid() != getuid() && seteuid(getuid()) != 0)
                abort();
        bool is_made = connection &&
                       mysql_query(connection, "CREATE DATABASE test; CREATE USER weir@localhost IDENTIFIED BY 'secret'; "
                                               "CREATE USER weir@'127.0.0.1' IDENTIFIED BY 'secret'; "
                                               "GRANT ALL ON *.* TO weir@localhost; GRANT ALL ON *.* TO weir@'127.0.0.1'") == 0;
        while (is_made && mysql_more_results(connection))
                is_made = mysql_next_result(connection) == 0;
        if (connection && !is_made)
                fprintf(stderr, "%s\n", mysql_error(connection));
        if (connection)
                mysql_close(connection);
        return is_made;
}

/* Makes and starts the server.  Returns false if MariaDB is not installed. */
static inline bool
server_make(void)
{
        char data[96], user[64];
        const struct passwd *entry = geteuid() == 0 ? server_user() : getpwuid(geteuid());
        const char *arguments[] = {
                SERVER_INSTALL,   "--no-defaults",       data, user, "--auth-root-authentication-method=socket",
                "--skip-test-db", "--skip-name-resolve", NULL};
        int ends[2];

        if (access(SERVER_INSTALL, X_OK) != 0 || access(SERVER_PROGRAM, X_OK) != 0)
                return false;
        strcpy(server.directory, "/tmp/weir-mariadb-XXXXXX");
        if (!mkdtemp(server.directory) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
                abort();
        if (chmod(server.directory, 0755) != 0 || (geteuid() == 0 && chown(server.directory, entry->pw_uid, entry->pw_gid) != 0))
                abort();
        server.port = free_port();
        snprintf(data, sizeof data, "--datadir=%s/data", server.directory);
        snprintf(user, sizeof user, "--auth-root-socket-user=%s", entry->pw_name);
        fflush(NULL);
        if (fork() == 0) {
                close(ends[0]);
                setsid();
                prctl(PR_SET_CHILD_SUBREAPER, 1);
                signal(SIGPIPE, SIG_IGN);
                weir_test_leaks_do_not_count = 1;
                setenv("TMPDIR", server.directory, 1); /* a server that starts removes temporary tables of others */
                if (chdir(server.directory) != 0 || run(arguments) != 0)
                        _exit(1);
                keep(ends[1]);
        }
        close(ends[1]);
        server.keeper = ends[0];
        char started;
        if (read(server.keeper, &started, 1) != 1)
                abort();
        if (!make_users())
                abort();
        server_await();
        return true;
}

/* A gate at the server: SERVER_WAITS ends when the gate that was shut is opened. */
#define SERVER_WAITS "SELECT get_lock('gate', 600) + release_lock('gate')"

static inline MYSQL *
server_shut_gate(void)
{
        MYSQL *gate = server_connect("weir", "secret");

        CU_ASSERT_FATAL(gate && mysql_query(gate, "DO get_lock('gate', 600)") == 0);
        return gate;
}

static inline void
server_open_gate(MYSQL *gate)
{
        mysql_close(gate);
}

/* A pool of the server.  However slow the machine is, cancels are not given up. */
static inline weir_mariadb *
server_pool(unsigned connections, bool is_tcp)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;

        config.connections = connections;
        config.clean_limit = WEIR_SEC(60);
        config.name = "test";
        weir_mariadb *pool = weir_mariadb_new(server_url(is_tcp), &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        return pool;
}

static inline struct weir_mariadb_stats
server_stats(weir_mariadb *pool)
{
        struct weir_mariadb_stats stats = {.size = sizeof stats};

        CU_ASSERT_EQUAL(weir_mariadb_stats(pool, &stats), 0);
        return stats;
}

/* The main function of a suite. */
static inline int
server_main(const char *suite, const struct weir_test *tests, size_t count)
{
        if (!server_make()) {
                printf("MariaDB is not installed: %s is skipped\n", suite);
                return 77;
        }
        int outcome = weir_test_main(suite, tests, count);
        close(server.keeper);
        return outcome;
}

#endif
