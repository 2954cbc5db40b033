/* bench/pq.c: what a row of PostgreSQL costs the client, beside pgbench -S.
 *
 * Each of eight loops asks for a row of pgbench_accounts by a random key, and asks again when it has the answer.  pgbench does
 * the same with eight connections.  Both talk to the same server by a socket of the system, without pipelining unless the case
 * says so. */
#include <glob.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/pq.h>
#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#define ROUNDS   5
#define COUNT    80000
#define FIRST    1000 /* queries that do not count: connections, prepared statements */
#define CLIENTS  8
#define PATIENCE 120
#define CPU_TIME "CPU us per query"
#define RATE     "queries per CPU second"
#define TIME     "us per query"
#define MOST     (1 / 0.9)

static char directory[] = "/tmp/weir-pq-bench-XXXXXX", programs[512];
static unsigned count = COUNT;

struct shape {
        const char *name, *protocol; /* of pgbench */
        bool is_prepared;
        unsigned pipeline;
};

static const struct shape shapes[] = {
        {"a row by its key in the text", "simple", false, 1},
        {"a row by its key", "extended", false, 1},
        {"a row by its key, prepared", "prepared", true, 1},
        {"a row by its key, prepared, 16 in a pipeline", "prepared", true, 16},
};

/* -- weir -- */

static weir_pq *pool;
static const struct shape *shape_now;
static _Atomic unsigned started, failed;

struct loop {
        uint64_t random;
};

static void
check(weir_task *query, void *context)
{
        int64_t value;

        (void)context;
        if (weir_task_status(query) != 0 || weir_pq_int(query, 0, 0, &value) != 0)
                failed++;
}

static weir_task *
next_query(void *context)
{
        struct loop *loop = context;

        if (atomic_fetch_add(&started, 1) >= count)
                return NULL;
        int64_t key = 1 + (int64_t)bench_random_below(&loop->random, 100000);
        char sql[80] = "SELECT abalance FROM pgbench_accounts WHERE aid = $1";
        bool has_parameter = strcmp(shape_now->protocol, "simple") != 0;

        if (!has_parameter)
                snprintf(sql, sizeof sql, "SELECT abalance FROM pgbench_accounts WHERE aid = %" PRId64, key);
        weir_task *query = weir_pq_query_new(pool, sql, check, loop);
        if (has_parameter)
                weir_pq_add_int(query, key);
        if (shape_now->is_prepared)
                weir_pq_set_prepared(query);
        return query;
}

/* The thread that waits sleeps all the time: its wake-ups would count as CPU of the queries. */
static bool
run_loops(unsigned loops, unsigned queries)
{
        static struct loop all[CLIENTS * 16];
        weir_waitgroup *group = weir_waitgroup_new();

        count = queries;
        atomic_store(&started, 0);
        for (unsigned i = 0; i < loops; i++) {
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
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        unsigned queries = count;
        char conninfo[128];

        shape_now = argument;
        snprintf(conninfo, sizeof conninfo, "host=%s user=weir dbname=postgres", directory);
        config.connections = shape_now->pipeline > 1 ? 2 : CLIENTS;
        config.pipeline = shape_now->pipeline;
        pool = weir_pq_new(conninfo, &config);
        unsigned loops = shape_now->pipeline > 1 ? 2 * shape_now->pipeline : CLIENTS;
        if (!pool || !run_loops(loops, FIRST))
                return false;
        int64_t cpu = bench_cpu(), began = bench_now();
        bool is_right = run_loops(loops, queries);
        values[0] = (double)(bench_cpu() - cpu) / 1e3 / queries;
        values[1] = (double)(bench_now() - began) / 1e3 / queries;
        return is_right;
}

/* -- pgbench -- */

static int
run(const char *format, const char *program, const char *more)
{
        char command[1024];

        snprintf(command, sizeof command, format, programs, program, directory, more);
        return system(command);
}

static double
cpu_of_children(void)
{
        struct rusage usage;

        getrusage(RUSAGE_CHILDREN, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Adds the sums of one run, or takes them away. */
static bool
run_pgbench(const struct shape *shape, unsigned queries, int sign, double values[BENCH_VALUES])
{
        char options[128];

        snprintf(options, sizeof options, "-n -S -M %s -c %d -j 2 -t %u", shape->protocol, CLIENTS, queries / CLIENTS);
        double cpu = cpu_of_children();
        int64_t began = bench_now();
        if (run("%s/%s -h %s -U weir %s postgres >/dev/null 2>&1", "pgbench", options) != 0)
                return false;
        values[0] += sign * (cpu_of_children() - cpu) / count;
        values[1] += sign * (double)(bench_now() - began) / 1e3 / count;
        return true;
}

/* Without its start and its first queries, as those of weir do not count. */
static bool
measure_pgbench(const void *argument, double values[BENCH_VALUES])
{
        return run_pgbench(argument, FIRST, -1, values) && run_pgbench(argument, FIRST + count, 1, values);
}

/* -- the server -- */

static bool
find_programs(void)
{
        glob_t found = {0};
        bool is_there = glob("/usr/lib/postgresql/*/bin/pgbench", 0, NULL, &found) == 0;

        if (is_there) {
                snprintf(programs, sizeof programs, "%s", found.gl_pathv[found.gl_pathc - 1]);
                *strrchr(programs, '/') = '\0';
        }
        globfree(&found);
        return is_there;
}

/* The server does not run as root. */
static void
become_user(const struct passwd *user)
{
        if (geteuid() == 0 && (!user || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
                _exit(127);
}

static pid_t
start_server(void)
{
        char command[2048], conninfo[128];
        pid_t parent = getpid();
        const struct passwd *user = getpwnam("postgres");

        if (!find_programs() || !mkdtemp(directory) || (geteuid() == 0 && user && chown(directory, user->pw_uid, user->pw_gid)))
                return -1;
        pid_t server = fork();
        if (server == 0) {
                become_user(user);
                bench_follow_parent(parent);
                snprintf(command, sizeof command,
                         "cd %s && %s/initdb -D data -A trust -U weir -N --locale=C >log 2>&1 && exec %s/postgres -D data -k %s "
                         "-c listen_addresses= -c fsync=off >>log 2>&1",
                         directory, programs, programs, directory);
                execl("/bin/sh", "sh", "-c", command, (char *)NULL);
                _exit(127);
        }
        snprintf(conninfo, sizeof conninfo, "host=%s user=weir dbname=postgres", directory);
        for (unsigned i = 0; i < 600 && PQping(conninfo) != PQPING_OK; i++)
                bench_sleep(BENCH_NSEC_PER_SEC / 10);
        return run("%s/%s -h %s -U weir %s postgres >/dev/null 2>&1", "pgbench", "-i -q") == 0 ? server : -1;
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

        bench_begin();
        pid_t server = start_server();
        if (server < 0) {
                fprintf(stderr, "pq: there is no server: on Debian, apt-get install postgresql\n");
                return 0;
        }
        count = size.quick ? COUNT / 10 : COUNT;
        for (int round = size.quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                        measure(&size, "weir", measure_weir, &shapes[i]);
                        if (!bench_is_alone())
                                measure(&size, "pgbench", measure_pgbench, &shapes[i]);
                }
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                bench_ratio("weir", "pgbench", shapes[i].name, CPU_TIME);
                bench_goal("weir", shapes[i].name, "ratio to pgbench, " CPU_TIME, MOST);
        }
        bench_sample("machine", "pq", "CPU used by others, percent of one", bench_others());
        bench_print("pq");
        kill(server, SIGQUIT);
        waitpid(server, NULL, 0);
        if (run("rm -rf %3$s #%1$s%2$s%4$s", "", "") != 0)
                return 1;
        return bench_interrupted();
}
