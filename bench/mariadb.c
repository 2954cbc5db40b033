/* bench/mariadb.c: what a row of MariaDB costs the client, beside Connector/C in threads of its own.
 *
 * Each of eight loops asks for a row by a random key, and asks again when it has the answer: as tasks of weir/mariadb.h, and on a
 * thread each that calls Connector/C.  Both talk to the same server by a socket of the system. */
#include <mysql.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/mariadb.h>
#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#define ROUNDS   5
#define COUNT    40000
#define CLIENTS  8
#define ROWS     100000
#define PATIENCE 120
#define CPU_TIME "CPU us per query"
#define RATE     "queries per CPU second"
#define TIME     "us per query"

static char directory[] = "/tmp/weir-mariadb-bench-XXXXXX";
static unsigned count = COUNT;

struct shape {
        const char *name;
        bool is_prepared;
};

static const struct shape shapes[] = {{"a row by its key, as a text", false}, {"a row by its key, prepared", true}};
static const struct shape *shape_now;
static _Atomic unsigned started, failed;

static void
fill_values(double values[BENCH_VALUES], unsigned queries, int64_t began, int64_t cpu)
{
        values[0] = (double)(bench_cpu() - cpu) / 1e3 / queries;
        values[1] = (double)(bench_now() - began) / 1e3 / queries;
}

/* -- weir -- */

static weir_mariadb *pool;

struct loop {
        uint64_t random;
};

static void
check(weir_task *query, void *context)
{
        int64_t value;

        (void)context;
        if (weir_task_status(query) != 0 || weir_mariadb_int(query, 0, 0, &value) != 0)
                failed++;
}

static weir_task *
next_query(void *context)
{
        struct loop *loop = context;
        char sql[80];

        if (atomic_fetch_add(&started, 1) >= count)
                return NULL;
        int64_t key = 1 + (int64_t)bench_random_below(&loop->random, ROWS);
        snprintf(sql, sizeof sql, "SELECT value FROM numbers WHERE id = %d", (int)key);
        if (!shape_now->is_prepared)
                return weir_mariadb_query_new(pool, sql, check, loop);
        weir_task *query = weir_mariadb_query_new(pool, "SELECT value FROM numbers WHERE id = ?", check, loop);
        weir_mariadb_add_int(query, key);
        return query;
}

/* The thread that waits sleeps all the time: its wake-ups would count as CPU of the queries. */
static bool
run_loops(unsigned queries)
{
        static struct loop all[CLIENTS];
        weir_waitgroup *group = weir_waitgroup_new();

        count = queries;
        atomic_store(&started, 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
                all[i].random = i;
                if (weir_task_start_waited(weir_repeater_new(next_query, NULL, &all[i]), group) != 0)
                        return false;
        }
        if (weir_waitgroup_wait(group, WEIR_SEC(PATIENCE)) != 0)
                return false;
        weir_waitgroup_free(group);
        return failed == 0;
}

static bool
measure_weir(const void *argument, double values[BENCH_VALUES])
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;
        unsigned queries = count;
        char path[80];

        shape_now = argument;
        snprintf(path, sizeof path, "%s/socket", directory);
        config.socket = path;
        config.user = "bench";
        config.database = "bench";
        config.connections = CLIENTS;
        pool = weir_mariadb_new(NULL, &config);
        if (!pool || !run_loops(1000))
                return false;
        int64_t cpu = bench_cpu(), began = bench_now();
        bool is_right = run_loops(queries);
        fill_values(values, queries, began, cpu);
        return is_right;
}

/* -- Connector/C -- */

static MYSQL *
connect_plainly(const char *user, const char *database)
{
        MYSQL *connection = mysql_init(NULL);
        char path[80];

        snprintf(path, sizeof path, "%s/socket", directory);
        if (mysql_real_connect(connection, NULL, user, NULL, database, 0, path, CLIENT_MULTI_STATEMENTS))
                return connection;
        mysql_close(connection);
        return NULL;
}

static bool
ask_text(MYSQL *connection, int key)
{
        char sql[80];

        snprintf(sql, sizeof sql, "SELECT value FROM numbers WHERE id = %d", key);
        MYSQL_RES *result = mysql_query(connection, sql) == 0 ? mysql_store_result(connection) : NULL;
        MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
        bool is_right = row && row[0] && atoi(row[0]) > 0;
        mysql_free_result(result);
        return is_right;
}

static bool
ask_prepared(MYSQL_STMT *statement, long long key)
{
        long long value = 0;
        MYSQL_BIND in = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &key},
                   out = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &value};

        if (mysql_stmt_bind_param(statement, &in) || mysql_stmt_execute(statement) || mysql_stmt_bind_result(statement, &out) ||
            mysql_stmt_store_result(statement) || mysql_stmt_fetch(statement))
                return false;
        mysql_stmt_free_result(statement);
        return value > 0;
}

static void *
loop_plainly(void *context)
{
        static const char sql[] = "SELECT value FROM numbers WHERE id = ?";
        MYSQL *connection = connect_plainly("bench", "bench");
        MYSQL_STMT *statement = mysql_stmt_init(connection);
        uint64_t random = (uint64_t)(uintptr_t)context;

        if (mysql_stmt_prepare(statement, sql, sizeof sql - 1) != 0)
                failed++;
        while (atomic_fetch_add(&started, 1) < count) {
                int key = 1 + (int)bench_random_below(&random, ROWS);

                if (!(shape_now->is_prepared ? ask_prepared(statement, key) : ask_text(connection, key)))
                        failed++;
        }
        mysql_stmt_close(statement);
        mysql_close(connection);
        return NULL;
}

static bool
measure_threads(const void *argument, double values[BENCH_VALUES])
{
        pthread_t threads[CLIENTS];

        shape_now = argument;
        mysql_library_init(0, NULL, NULL);
        int64_t cpu = bench_cpu(), began = bench_now();
        for (uintptr_t i = 0; i < CLIENTS; i++)
                pthread_create(&threads[i], NULL, loop_plainly, (void *)i);
        for (unsigned i = 0; i < CLIENTS; i++)
                pthread_join(threads[i], NULL);
        fill_values(values, count, began, cpu);
        return failed == 0;
}

/* -- the server -- */

static const struct passwd *
server_user(void)
{
        const struct passwd *user = geteuid() == 0 ? getpwnam("mysql") : getpwuid(geteuid());

        return user ? user : getpwnam("nobody");
}

static bool
fill_table(void)
{
        static const char sql[] = "CREATE DATABASE bench; CREATE USER bench@localhost; GRANT ALL ON bench.* TO bench@localhost;"
                                  "CREATE TABLE bench.numbers (id INT PRIMARY KEY, value INT);"
                                  "USE bench; INSERT INTO numbers SELECT seq, seq FROM seq_1_to_100000";
        const struct passwd *user = server_user();
        MYSQL *connection = NULL;

        if (geteuid() == 0 && seteuid(user->pw_uid) != 0)
                return false;
        for (unsigned i = 0; i < 300 && !connection; i++) {
                bench_sleep(BENCH_NSEC_PER_SEC / 10);
                connection = connect_plainly(user->pw_name, NULL);
        }
        if (seteuid(getuid()) != 0 || !connection)
                return false;
        bool is_filled = mysql_query(connection, sql) == 0;
        while (is_filled && mysql_more_results(connection))
                is_filled = mysql_next_result(connection) == 0;
        mysql_close(connection);
        return is_filled;
}

static pid_t
start_server(void)
{
        char command[1024];
        pid_t parent = getpid();
        const struct passwd *user = server_user();

        if (access("/usr/sbin/mariadbd", X_OK) != 0 || !user || !mkdtemp(directory) || chmod(directory, 0755) != 0 ||
            (geteuid() == 0 && chown(directory, user->pw_uid, user->pw_gid) != 0))
                return -1;
        pid_t server = fork();
        if (server == 0) {
                if (geteuid() == 0 && (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
                        _exit(127);
                bench_follow_parent(parent);
                snprintf(command, sizeof command,
                         "cd %s && mariadb-install-db --no-defaults --datadir=%s/data --skip-test-db "
                         "--auth-root-authentication-method=socket --auth-root-socket-user=%s >log 2>&1 && "
                         "exec /usr/sbin/mariadbd "
                         "--no-defaults --datadir=%s/data --socket=%s/socket --skip-networking "
                         "--performance-schema=OFF >>log 2>&1",
                         directory, directory, user->pw_name, directory, directory);
                execl("/bin/sh", "sh", "-c", command, (char *)NULL);
                _exit(127);
        }
        return fill_table() ? server : -1;
}

static void
measure(const struct bench_size *size, const char *peer, bench_fn *fn, const struct shape *shape)
{
        double values[BENCH_VALUES];

        if (!bench_wanted(size, shape->name) || !bench_isolated(shape->name, fn, shape, values, PATIENCE))
                return;
        bench_sample(peer, shape->name, CPU_TIME, values[0]);
        bench_sample(peer, shape->name, RATE, 1e6 / values[0]);
        bench_sample(peer, shape->name, TIME, values[1]);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);
        char command[128];

        bench_begin();
        pid_t server = start_server();
        if (server < 0) {
                fprintf(stderr, "mariadb: there is no server: on Debian, apt-get install mariadb-server-core "
                                "mariadb-client-core\n");
                return 0;
        }
        count = size.quick ? COUNT / 10 : COUNT;
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                        measure(&size, "weir", measure_weir, &shapes[i]);
                        if (!bench_is_alone())
                                measure(&size, "Connector/C", measure_threads, &shapes[i]);
                }
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                bench_ratio("weir", "Connector/C", shapes[i].name, CPU_TIME);
        bench_sample("machine", "mariadb", "CPU used by others, percent of one", bench_others());
        bench_print("mariadb");
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
        snprintf(command, sizeof command, "rm -rf %s", directory);
        if (system(command) != 0)
                return 1;
        return bench_interrupted();
}
