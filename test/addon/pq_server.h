/* test/addon/pq_server.h: a server of PostgreSQL for a suite. */
#ifndef WEIR_TEST_PQ_SERVER_H
#define WEIR_TEST_PQ_SERVER_H

#include <glob.h>
#include <libpq-fe.h>
#include <poll.h>

#include <weir/pq.h>

/* A suite may define them before it includes this. */
#ifndef SERVER_FSYNC
#define SERVER_FSYNC       "fsync=off"
#define SERVER_CONNECTIONS "max_connections=40"
#endif

#define SERVER_USER "postgres"
#define SERVER_AT   "host=127.0.0.1 port=%d user=weir dbname=postgres"

/* For the suites of all databases. */
#define SQL(name)          weir_pq_##name
#define SQL_NAME           "pq"
#define SQL_BOUND_CLOSES   0 /* -EMSGSIZE costs a connection */
#define SQL_POOL           weir_pq
#define SQL_CONFIG_DEFAULT WEIR_PQ_CONFIG_DEFAULT
#define SQL_FIRST          "$1"
#define SQL_ECHO           "SELECT $1::bigint"
#define SQL_ECHO_TEXT      "SELECT $1::text"
#define SQL_ECHO_SLOWLY    "SELECT $1::bigint, pg_sleep(0.002)"
#define SQL_WRONG          "SELECT 1/0"
#define SQL_SLEEP(seconds) "SELECT pg_sleep(" #seconds ")"
#define SQL_COUNT_TO(n)    "SELECT generate_series(1, " #n ")"
#define server_url         server_conninfo

#include "test/addon/sql_server.h"

static char server_programs[PATH_MAX - 64]; /* where initdb and postgres are */

/* -- the keeper -- */

static pid_t
launch_server(void)
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

        snprintf(program, sizeof program, "%s/postgres", server_programs);
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

/* An end by 't' ends its connections first. */
static void
halt_server(pid_t *pid, char order)
{
        int children[256], count = 0, signal = order == 'k' ? SIGKILL : order == 't' ? SIGINT : SIGQUIT;

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

static bool
make_database(void)
{
        char program[PATH_MAX];
        const char *arguments[] = {program, "-D", "data", "-A", "trust", "-U", "weir", "-E", "UTF8", "--locale=C", "-N", NULL};

        snprintf(program, sizeof program, "%s/initdb", server_programs);
        return run(arguments) == 0;
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
server_await(void)
{
        WEIR_TEST_EVENTUALLY(PQping(server_conninfo(false)) == PQPING_OK);
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
                snprintf(server_programs, sizeof server_programs, "%s", found.gl_pathv[found.gl_pathc - 1]);
                *strrchr(server_programs, '/') = '\0';
        }
        globfree(&found);
        return is_there;
}

/* Makes and starts the server.  Returns false if PostgreSQL is not installed. */
static inline bool
server_make(void)
{
        if (!find_programs())
                return false;
        server_begin("/tmp/weir-pq-XXXXXX");
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

static inline weir_pq *
sql_pool(unsigned connections, bool is_tcp)
{
        return server_pool(connections, 1, is_tcp);
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
