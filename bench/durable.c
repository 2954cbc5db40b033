/* Durable timers: sets, deliveries, lateness, and what a million pending ones cost, with each engine.
 *
 *     build/bench/durable [--engine=sqlite|postgresql|redis] [quick]
 *
 * The file or the server is in $TMPDIR, or in /tmp: figures depend on the fsync of that disk.  The server of Redis writes nothing
 * to the disk unless BENCH_REDIS has lines of its configuration, such as "appendonly yes".  CPU times are those of this process,
 * without the server.  Beside timers with Redis stand scheduled jobs of Sidekiq, with a server of the same settings. */
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
#include "durable_server.h"
#include "peers.h"

#define IN_FLIGHT 2000
#define IDLE_MOST 200 /* us of CPU a second: that of a look in ten seconds, whatever is pending */

/* Of Sidekiq, and of weir beside it. */
#define JOBS          20000
#define JOBS_RATE     500 /* a second: one process runs few more */
#define PEER_PATIENCE 120 /* seconds */

#define SETS       "sets, 2,000 in flight"
#define DELIVERIES "due timers are delivered"

static char directory[200], url[300];
static weir_waitgroup *group;

/* An engine, and the rate of operations that it should reach. */
struct engine {
        const char *name;
        void (*make)(void); /* writes a fresh place to `url` */
        void (*remove)(void);
        long rate;
};

static const struct engine *engine;

static void
make_directory(void)
{
        const char *parent = getenv("TMPDIR");

        snprintf(directory, sizeof directory, "%s/weir-bench-durable-XXXXXX", parent ? parent : "/tmp");
        if (!mkdtemp(directory))
                abort();
        snprintf(url, sizeof url, "sqlite:%s/timers.db", directory);
}

static void
remove_directory(void)
{
        char command[300];

        snprintf(command, sizeof command, "rm -rf '%s'", directory);
        if (system(command) != 0)
                perror(command);
}

static pid_t redis; /* 0: none runs */

static void
start_redis(void)
{
        char path[300];
        const char *more = getenv("BENCH_REDIS");

        make_directory();
        snprintf(path, sizeof path, "%s/redis.conf", directory);
        FILE *file = fopen(path, "w");
        if (!file)
                abort();
        fprintf(file, "port 0\nunixsocket %s/socket\ndir %s\nsave \"\"\nlogfile %s/log\n%s\n", directory, directory, directory,
                more ? more : "");
        fclose(file);
        redis = fork();
        if (redis == 0) {
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
stop_redis(void)
{
        kill(redis, SIGKILL);
        waitpid(redis, NULL, 0);
        redis = 0;
        remove_directory();
}

#ifdef WEIR_HAS_PQ
static void
make_tables(void)
{
        bench_server_clear();
        snprintf(url, sizeof url, "%s", bench_server_url());
}
#endif

static void
leave_tables(void)
{
}

static const struct engine engines[] = {
        {"sqlite", make_directory, remove_directory, 20000},
#ifdef WEIR_HAS_PQ
        {"postgresql", make_tables, leave_tables, 8000},
#endif
        {"redis", start_redis, stop_redis, 40000},
};

static void
sample_of(const char *peer, const char *what, const char *unit, double value)
{
        char text[100];

        snprintf(text, sizeof text, "%s: %s", engine->name, what);
        bench_sample(peer, text, unit, value);
}

/* Adds a sample of the engine, and what it is to be at most; 0: there is no goal. */
static void
sample(const char *what, const char *unit, double value, double most)
{
        char text[100];

        sample_of("weir", what, unit, value);
        snprintf(text, sizeof text, "%s: %s", engine->name, what);
        if (most > 0)
                bench_goal("weir", text, unit, most);
}

/* The CPU time of the server of Redis so far. */
static int64_t
server_cpu(void)
{
        struct timespec time = {0};
        clockid_t clock;

        if (redis > 0 && clock_getcpuclockid(redis, &clock) == 0)
                clock_gettime(clock, &time);
        return time.tv_sec * BENCH_NSEC_PER_SEC + time.tv_nsec;
}

/* What it needed for each of `count`. */
static void
sample_server(const char *peer, const char *what, int64_t began, long count)
{
        if (redis > 0)
                sample_of(peer, what, "CPU ns of the server", (double)(server_cpu() - began) / (double)count);
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

        engine->make();
        store = open_store(0);
        int64_t cpu = bench_cpu(), server_began = server_cpu();
        int64_t time = set_many(store, count, WEIR_SEC(100000));
        sample(SETS, "operations/s", (double)count * 1e9 / (double)time, 0);
        sample(SETS, "us", (double)time / 1e3 / (double)count, 1e6 / (double)engine->rate);
        sample(SETS, "CPU ns", (double)(bench_cpu() - cpu) / (double)count, 0);
        sample_server("weir", SETS, server_began, count);
        weir_durable_close(store);
        engine->remove();
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
        engine->make();
        weir_durable *store = open_store(1000);
        lateness = calloc((size_t)count, sizeof *lateness);
        set_many(store, count, 0);
        atomic_store(&delivered, 0);
        weir_waitgroup_add(group, (size_t)count);
        int64_t cpu = bench_cpu(), began = bench_now(), server_began = server_cpu();
        weir_durable_on(store, "session", deliver, NULL);
        weir_waitgroup_wait(group, WEIR_FOREVER);
        weir_durable_close(store); /* the last acknowledgements, too */
        int64_t time = bench_now() - began;
        sample(DELIVERIES, "operations/s", (double)count * 1e9 / (double)time, 0);
        sample(DELIVERIES, "us", (double)time / 1e3 / (double)count, 1e6 / (double)engine->rate);
        sample(DELIVERIES, "CPU ns", (double)(bench_cpu() - cpu) / (double)count, 0);
        sample_server("weir", DELIVERIES, server_began, count);
        free(lateness);
        engine->remove();
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

        engine->make();
        weir_durable *store = open_store(1000);
        lateness = calloc((size_t)count, sizeof *lateness);
        atomic_store(&delivered, 0);
        weir_durable_on(store, "session", deliver, NULL);
        weir_waitgroup_add(group, (size_t)count);
        int64_t began = bench_now(), cpu = bench_cpu(), server_began = server_cpu();
        for (long i = 0; i < count; i++) {
                int64_t ahead = began + i / 10 * 10 * BENCH_NSEC_PER_SEC / rate - bench_now();
                char name[40];

                if (ahead > 0)
                        bench_sleep(ahead);
                snprintf(name, sizeof name, "session/%08ld", i);
                weir_task_start(weir_durable_set_after_new(store, name, (weir_nsec)bench_random_below(&random, 1000000000),
                                                           "session", name, 16, on_paced, NULL));
        }
        weir_waitgroup_wait(group, WEIR_FOREVER);
        size_t got = (size_t)atomic_load(&delivered);
        char text[60];
        snprintf(text, sizeof text, "lateness at %ld/s", rate);
        sample(text, "p50 ms", (double)bench_quantile(lateness, got, 0.5) / 1e6, 0);
        sample(text, "p99 ms", (double)bench_quantile(lateness, got, 0.99) / 1e6, 50);
        sample(text, "CPU ns", (double)(bench_cpu() - cpu) / (double)count, 0);
        sample_server("weir", text, server_began, count);
        weir_durable_close(store);
        free(lateness);
        engine->remove();
}

/* -- idle -- */

static void
measure_idle(long count, int seconds)
{
        engine->make();
        weir_durable *store = open_store(0);
        weir_durable_on(store, "session", deliver, NULL);
        set_many(store, count, WEIR_SEC(100000));
        bench_sleep(BENCH_NSEC_PER_SEC);
        int64_t cpu = bench_cpu();
        bench_sleep(seconds * BENCH_NSEC_PER_SEC);
        char text[60];
        snprintf(text, sizeof text, "idle with %ld pending", count);
        sample(text, "CPU us/s", (double)(bench_cpu() - cpu) / 1e3 / seconds, IDLE_MOST);
        weir_durable_close(store);
        engine->remove();
}

/* -- Sidekiq, one process with ten threads -- */

static void
measure_jobs(const char *peer, const char *mode, const char *what, int count)
{
        struct bench_reading reading;

        engine->make();
        int64_t server_began = server_cpu();
        if (bench_peer("sidekiq", &reading, PEER_PATIENCE, "%s %s %d", url, mode, count)) {
                sample_of(peer, what, "operations/s", 1e9 / reading.elapsed);
                sample_of(peer, what, "CPU ns", reading.cpu);
                sample_server(peer, what, server_began, count);
        }
        engine->remove();
}

static void
measure_late_jobs(int seconds)
{
        struct bench_reading reading;
        char text[60];

        engine->make();
        snprintf(text, sizeof text, "lateness at %d/s", JOBS_RATE);
        if (bench_peer("sidekiq", &reading, PEER_PATIENCE, "%s late %d %d", url, JOBS_RATE, seconds)) {
                sample_of("sidekiq", text, "p50 ms", reading.p50 / 1e3);
                sample_of("sidekiq", text, "p99 ms", reading.p99 / 1e3);
        }
        engine->remove();
}

static void
measure_sidekiq(const struct bench_size *size)
{
        int seconds = size->quick ? 5 : 20, jobs = size->quick ? JOBS / 4 : JOBS;

        if (bench_wanted(size, "sets")) {
                measure_jobs("sidekiq", "push", SETS, jobs);
                measure_jobs("sidekiq, 1,000 a call", "bulk", SETS, jobs);
        }
        if (bench_wanted(size, "deliveries"))
                measure_jobs("sidekiq", "run", DELIVERIES, jobs);
        if (bench_wanted(size, "lateness")) {
                measure_lateness(JOBS_RATE, seconds);
                measure_late_jobs(seconds);
        }
}

static void
measure_engine(const struct bench_size *size)
{
        if (bench_wanted(size, "sets"))
                measure_sets(size->quick ? 20000 : 200000);
        if (bench_wanted(size, "deliveries"))
                measure_deliveries(size->quick ? 20000 : 200000);
        if (bench_wanted(size, "lateness"))
                measure_lateness(engine->rate / 2, size->quick ? 2 : 10);
        if (bench_wanted(size, "idle"))
                measure_idle(size->quick ? 20000 : 1000000, size->quick ? 2 : 30);
}

int
main(int argc, char *argv[])
{
        const char *only = argc > 1 && strncmp(argv[1], "--engine=", 9) == 0 ? argv[1] + 9 : NULL;
        struct bench_size size = bench_size_of(only ? argc - 1 : argc, only ? argv + 1 : argv);

        bench_begin();
        group = weir_waitgroup_new();
        for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
                engine = &engines[i];
                if (only && strcmp(only, engine->name) != 0)
                        continue;
                if (strcmp(engine->name, "postgresql") == 0 && !bench_server_start()) {
                        fprintf(stderr, "durable: there is no server: on Debian, apt-get install postgresql\n");
                        continue;
                }
                if (strcmp(engine->name, "redis") == 0 && access("/usr/bin/redis-server", X_OK) < 0) {
                        fprintf(stderr, "durable: there is no server: on Debian, apt-get install redis-server\n");
                        continue;
                }
                measure_engine(&size);
                if (strcmp(engine->name, "redis") == 0 && !bench_interrupted())
                        measure_sidekiq(&size);
        }
        bench_peers_missing();
        bench_server_stop();
        bench_print("durable");
        weir_waitgroup_free(group);
        return bench_interrupted();
}
