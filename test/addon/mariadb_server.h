/* test/addon/mariadb_server.h: a server of MariaDB for a suite. */
#ifndef WEIR_TEST_MARIADB_SERVER_H
#define WEIR_TEST_MARIADB_SERVER_H

#include <mysql.h>

#include <weir/mariadb.h>

#define SERVER_INSTALL "/usr/bin/mariadb-install-db"
#define SERVER_PROGRAM "/usr/sbin/mariadbd"
#define SERVER_USER    "mysql"
#define SERVER_AT      "mariadb://weir:secret@127.0.0.1:%d/test"

/* For the suites of all databases. */
#define SQL(name)          weir_mariadb_##name
#define SQL_NAME           "mariadb"
#define SQL_BOUND_CLOSES   1 /* -EMSGSIZE costs a connection */
#define SQL_POOL           weir_mariadb
#define SQL_CONFIG_DEFAULT WEIR_MARIADB_CONFIG_DEFAULT
#define SQL_FIRST          "?"
#define SQL_ECHO           "SELECT ?"
#define SQL_ECHO_TEXT      "SELECT ?"
#define SQL_ECHO_SLOWLY    "SELECT ?, sleep(0.002)"
#define SQL_WRONG          "SELCT 1"
#define SQL_SLEEP(seconds) "SELECT sleep(" #seconds ")"
#define SQL_COUNT_TO(n)    "SELECT seq FROM seq_1_to_" #n
#define sql_pool           server_pool

#include "test/addon/sql_server.h"

/* -- the keeper -- */

static pid_t
launch_server(void)
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
                                     "--innodb-lock-wait-timeout=1",
                                     "--innodb-rollback-on-timeout=ON"};

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

static void
halt_server(pid_t *pid, char order)
{
        kill(*pid, order == 't' ? SIGTERM : SIGKILL);
        waitpid(*pid, NULL, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                continue;
        *pid = 0;
}

static bool
make_database(void)
{
        char data[96], user[64];
        const struct passwd *entry = geteuid() == 0 ? server_user() : getpwuid(geteuid());
        const char *arguments[] = {
                SERVER_INSTALL,   "--no-defaults",       data, user, "--auth-root-authentication-method=socket",
                "--skip-test-db", "--skip-name-resolve", NULL};

        snprintf(data, sizeof data, "--datadir=%s/data", server.directory);
        snprintf(user, sizeof user, "--auth-root-socket-user=%s", entry->pw_name);
        setenv("TMPDIR", server.directory, 1); /* a server that starts removes temporary tables of others */
        return run(arguments) == 0;
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

        if (!connection || mysql_select_db(connection, "test") != 0 || mysql_query(connection, sql) != 0)
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
        if (access(SERVER_INSTALL, X_OK) != 0 || access(SERVER_PROGRAM, X_OK) != 0)
                return false;
        server_begin("/tmp/weir-mariadb-XXXXXX");
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
