/* Durable timers in a file of SQLite, and in Redis: sets, deliveries, lateness, and what a million pending ones cost.
 *
 *     build/bench/durable [quick] [redis]
 *
 * The file is in $TMPDIR, or in /tmp: figures depend on the fsync of that disk.  The server of Redis is one of this program, by a
 * Unix socket, and writes nothing to the disk unless BENCH_REDIS has lines of its configuration, such as "appendonly yes".  CPU
 * times are those of this process, without the server. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/clock.h>
#include <weir/durable.h>
#include <weir/runtime.h>
#include <weir/timer.h>
#include <weir/waitgroup.h>

#include "bench.h"
#include "cases.h"

#define IN_FLIGHT 2000

static char directory[200], url[250];
static weir_waitgroup *group;

/* Of the cases with Redis. */
static bool is_redis;
static pid_t server;

static void
start_server(void)
{
        char path[300];
        const char *more = getenv("BENCH_REDIS");

        snprintf(path, sizeof path, "%s/redis.conf", directory);
        FILE *file = fopen(path, "w");
        if (!file)
                abort();
        fprintf(file, "port 0\nunixsocket %s/socket\ndir %s\nsave \"\"\nlogfile %s/log\n%s\n", directory, directory, directory,
                more ? more : "");
        fclose(file);
        server = fork();
        if (server == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                execlp("redis-server", "redis-server", path, (char *)NULL);
                _exit(127);
        }
        snprintf(path, sizeof path, "%s/socket", directory);
        for (int i = 0; i < 500 && access(path, R_OK) < 0; i++)
                bench_sleep(10000000);
        snprintf(url, sizeof url, "unix://%s/socket", directory);
}

static void
make_directory(void)
{
        const char *parent = getenv("TMPDIR");

        snprintf(directory, sizeof directory, "%s/weir-bench-durable-XXXXXX", parent ? parent : "/tmp");
        if (!mkdtemp(directory))
                abort();
        snprintf(url, sizeof url, "sqlite:%s/timers.db", directory);
        if (is_redis)
                start_server();
}

static void
remove_directory(void)
{
        char command[300];

        if (server > 0) {
                kill(server, SIGKILL);
                waitpid(server, NULL, 0);
                server = 0;
        }
        snprintf(command, sizeof command, "rm -rf '%s'", directory);
        if (system(command) != 0)
                perror(command);
}

/* The CPU time of the server so far. */
static int64_t
server_cpu(void)
{
        struct timespec time = {0};
        clockid_t clock;

        if (server > 0 && clock_getcpuclockid(server, &clock) == 0)
                clock_gettime(clock, &time);
        return time.tv_sec * BENCH_NSEC_PER_SEC + time.tv_nsec;
}

/* A sample of the engine. */
static void
sample(const char *name, const char *metric, double value)
{
        char text[100];

        snprintf(text, sizeof text, "%s%s", is_redis ? "Redis: " : "", name);
        bench_sample("weir", text, metric, value);
}

/* What the server needed for each of `count`. */
static void
sample_server(const char *name, int64_t began, long count)
{
        if (server > 0)
                sample(name, "CPU ns of the server", (double)(server_cpu() - began) / (double)count);
}

static weir_durable *
open_store(unsigned running)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        config.running = running;
        weir_durable *store = weir_durable_open_with(&config, url);
        if (!store)
                abort();
        return store;
}

/* -- sets -- */

static struct {
        weir_durable *store;
        atomic_long left;
        long count;
        weir_nsec after; /* of the sets */
        atomic_long failed;
} sets;

static void set_next(void);

static void
on_set(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task))
                atomic_fetch_add(&sets.failed, 1);
        set_next();
        weir_waitgroup_done(group);
}

static void
set_next(void)
{
        long number = atomic_fetch_sub(&sets.left, 1) - 1;
        char name[40];

        if (number < 0)
                return;
        snprintf(name, sizeof name, "session/%08ld", number * 7919 % 100000007);
        weir_waitgroup_add(group, 1);
        weir_task_start(weir_durable_set_after_new(sets.store, name, sets.after, "session", name, 16, on_set, NULL));
}

/* Sets so many timers, with IN_FLIGHT under way.  Result: nanoseconds. */
static int64_t
set_many(weir_durable *store, long count, weir_nsec after)
{
        int64_t began = bench_now();

        sets.store = store;
        sets.after = after;
        atomic_store(&sets.left, count);
        weir_waitgroup_add(group, 1);
        for (int i = 0; i < IN_FLIGHT; i++)
                set_next();
        weir_waitgroup_done(group);
        weir_waitgroup_wait(group, WEIR_FOREVER);
        if (atomic_load(&sets.failed))
                fprintf(stderr, "%ld sets have failed\n", atomic_load(&sets.failed));
        return bench_now() - began;
}

static void
measure_sets(long count)
{
        weir_durable *store;

        make_directory();
        store = open_store(0);
        int64_t cpu = bench_cpu(), server_began = server_cpu();
        int64_t time = set_many(store, count, WEIR_SEC(100000));
        sample("sets, 2,000 in flight", "operations/s", (double)count * 1e9 / (double)time);
        sample("sets, 2,000 in flight", "CPU ns", (double)(bench_cpu() - cpu) / (double)count);
        sample_server("sets, 2,000 in flight", server_began, count);
        weir_durable_close(store);
        remove_directory();
}

/* -- deliveries -- */

static int64_t *lateness;
static atomic_long delivered;

static void
deliver(weir_task *delivery, void *context)
{
        (void)context;
        lateness[atomic_fetch_add(&delivered, 1)] = weir_wall_now() - weir_durable_due(delivery);
        weir_waitgroup_done(group);
}

static void
measure_deliveries(long count)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        make_directory();
        weir_durable *store = open_store(1000);
        lateness = calloc((size_t)count, sizeof *lateness);
        set_many(store, count, 0);
        atomic_store(&delivered, 0);
        weir_waitgroup_add(group, (size_t)count);
        int64_t cpu = bench_cpu(), began = bench_now(), server_began = server_cpu();
        weir_durable_on(store, "session", deliver, NULL);
        weir_waitgroup_wait(group, WEIR_FOREVER);
        weir_durable_close(store); /* the last acknowledgements, too */
        sample("due timers are delivered", "operations/s", (double)count * 1e9 / (double)(bench_now() - began));
        sample("due timers are delivered", "CPU ns", (double)(bench_cpu() - cpu) / (double)count);
        sample_server("due timers are delivered", server_began, count);
        (void)stats;
        free(lateness);
        remove_directory();
}

/* -- lateness: so many sets in a second, each due within a second -- */

static void
on_paced(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task))
                weir_waitgroup_done(group); /* nothing will be delivered */
}

static void
measure_lateness(long rate, int seconds)
{
        uint64_t random = 1;
        long count = rate * seconds;

        make_directory();
        weir_durable *store = open_store(1000);
        lateness = calloc((size_t)count, sizeof *lateness);
        atomic_store(&delivered, 0);
        weir_durable_on(store, "session", deliver, NULL);
        weir_waitgroup_add(group, (size_t)count);
        int64_t began = bench_now(), cpu = bench_cpu(), server_began = server_cpu();
        for (long i = 0; i < count; i++) {
                char name[40];

                while (bench_now() < began + i / 10 * 10 * BENCH_NSEC_PER_SEC / rate)
                        bench_sleep(100000);
                snprintf(name, sizeof name, "session/%08ld", i);
                weir_task_start(weir_durable_set_after_new(store, name, (weir_nsec)bench_random_below(&random, 1000000000),
                                                           "session", name, 16, on_paced, NULL));
        }
        weir_waitgroup_wait(group, WEIR_FOREVER);
        size_t got = (size_t)atomic_load(&delivered);
        char text[60];
        snprintf(text, sizeof text, "lateness at %ld/s", rate);
        sample(text, "p50 ms", (double)bench_quantile(lateness, got, 0.5) / 1e6);
        sample(text, "p99 ms", (double)bench_quantile(lateness, got, 0.99) / 1e6);
        sample(text, "CPU ns", (double)(bench_cpu() - cpu) / (double)count);
        sample_server(text, server_began, count);
        weir_durable_close(store);
        free(lateness);
        remove_directory();
}

/* -- idle -- */

static void
measure_idle(long count, int seconds)
{
        make_directory();
        weir_durable *store = open_store(0);
        weir_durable_on(store, "session", deliver, NULL);
        set_many(store, count, WEIR_SEC(100000));
        bench_sleep(BENCH_NSEC_PER_SEC);
        int64_t cpu = bench_cpu();
        bench_sleep(seconds * BENCH_NSEC_PER_SEC);
        char text[60];
        snprintf(text, sizeof text, "idle with %ld pending", count);
        sample(text, "CPU us/s", (double)(bench_cpu() - cpu) / 1e3 / seconds);
        weir_durable_close(store);
        remove_directory();
}

static bool
is_wanted(const struct bench_size *size, const char *name)
{
        char text[40];

        snprintf(text, sizeof text, "%s%s", is_redis ? "redis " : "", name);
        return bench_wanted(size, text);
}

static void
measure(const struct bench_size *size)
{
        if (is_wanted(size, "sets"))
                measure_sets(size->quick ? 60000 : 200000);
        if (is_wanted(size, "deliveries"))
                measure_deliveries(size->quick ? 60000 : 200000);
        if (is_wanted(size, "lateness"))
                measure_lateness(is_redis ? 20000 : 10000, size->quick ? 2 : 10);
        if (is_wanted(size, "idle"))
                measure_idle(size->quick ? 20000 : 1000000, size->quick ? 2 : 30);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        group = weir_waitgroup_new();
        measure(&size);
        if (access("/usr/bin/redis-server", X_OK) == 0) {
                is_redis = true;
                measure(&size);
        }
        bench_print("durable");
        weir_waitgroup_free(group);
        return bench_interrupted();
}
