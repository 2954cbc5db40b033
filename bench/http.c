/* bench/http.c: what a request costs the server, beside nginx and a floor.
 *
 *     http [quick] [part of a case's name]
 *
 * The server under test is a child process on the first CPU that this may use, the load generator is this process, on the last
 * one; in one case both may use all of them.  The peers take turns within each round, in an order that changes, so that what the
 * machine does meanwhile meets them all; what counts are the ratios.
 *
 * Where lateness is measured, both run with real-time priority, if they may: a program that takes a CPU for 20 ms every other
 * second, such as one that counts all open descriptors of the machine, is a p99 of its own.
 *
 * Threads: one. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "load.h"

#define CPU_TIME "server CPU us per request"

struct http_case {
        const char *name;
        unsigned connections;
        enum bench_service service;
        unsigned spread_ms; /* of the first requests; 0: each when its connection is open */
        unsigned warm_up_ms, window_ms;
        unsigned quick_window_ms; /* 0: not in a quick run */
        unsigned rounds;
        bool everywhere; /* server and load on all CPUs */
        bool idle;       /* each connection asks once: it is their memory that counts */
};

/* "rush": all clients come at once, and what they form stays in step for long; "steady": they come evenly.  A rush is measured
 * from its fourth second on: how late the first replies are says how fast the server has read the requests, and the faster the
 * later. */
static const struct http_case cases[] = {
        {"hello c=64", 64, BENCH_HELLO, 0, 300, 800, 500, 7, false, false},
        {"hello c=512", 512, BENCH_HELLO, 0, 300, 800, 500, 7, false, false},
        {"hello c=512, all CPUs", 512, BENCH_HELLO, 0, 300, 800, 500, 7, true, false},
        {"https c=64", 64, BENCH_HTTPS, 0, 300, 800, 500, 7, false, false},
        {"new connections c=64", 64, BENCH_CLOSED, 0, 300, 800, 500, 7, false, false},
        {"new https connections c=64", 64, BENCH_HTTPS_CLOSED, 0, 300, 800, 500, 7, false, false},
        {"delay 1 s, steady, c=1000", 1000, BENCH_DELAY, 1000, 500, 2000, 1000, 3, false, false},
        {"delay 1 s, steady, c=5000", 5000, BENCH_DELAY, 1000, 500, 1500, 0, 3, false, false},
        {"delay 1 s, steady, c=19500", 19500, BENCH_DELAY, 1000, 1000, 3000, 0, 7, false, false},
        {"delay 1 s, rush, c=19500", 19500, BENCH_DELAY, 0, 3500, 3000, 0, 7, false, false},
        {"idle c=19000", 19000, BENCH_HELLO, 0, 300, 200, 0, 1, false, true},
        {"idle https c=2000", 2000, BENCH_HTTPS, 0, 300, 200, 200, 1, false, true},
};

static struct {
        bool quick;
        const char *only;
        int server_cpu, load_cpu;
        cpu_set_t all;
} options;

static void
choose_cpus(void)
{
        if (sched_getaffinity(0, sizeof options.all, &options.all) < 0)
                return;
        options.server_cpu = -1;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                if (!CPU_ISSET(cpu, &options.all))
                        continue;
                if (options.server_cpu < 0)
                        options.server_cpu = cpu;
                options.load_cpu = cpu;
        }
        if (options.server_cpu == options.load_cpu)
                fprintf(stderr, "bench: one CPU for server and load: figures will be poor\n");
}

static void
choose_place(bool everywhere)
{
        cpu_set_t set = options.all;

        if (!everywhere) {
                CPU_ZERO(&set);
                CPU_SET(options.load_cpu, &set);
        }
        sched_setaffinity(0, sizeof set, &set);
}

/* Of this thread, and of what it starts from now on. */
static void
choose_priority(bool real_time)
{
        static bool told;
        struct sched_param priority = {.sched_priority = real_time ? sched_get_priority_min(SCHED_RR) : 0};

        if (sched_setscheduler(0, real_time ? SCHED_RR : SCHED_OTHER, &priority) == 0 || told)
                return;
        told = true;
        fprintf(stderr, "bench: no real-time priority (%s): how late replies are tells of other programs, too\n",
                strerror(errno));
}

/* As many descriptors as may be, for this process and the servers. */
static rlim_t
raise_file_limit(void)
{
        struct rlimit limit;

        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        return limit.rlim_cur;
}

static void
record_requests(const struct http_case *what, const char *peer, const struct bench_figures *figures)
{
        bench_sample(peer, what->name, CPU_TIME, figures->cpu_us);
        bench_sample(peer, what->name, "requests per second", figures->requests / figures->seconds);
        if (!what->everywhere)
                bench_sample(peer, what->name, "percent of the server's CPU left over", figures->idle_percent);
        if (what->service == BENCH_DELAY) {
                bench_sample(peer, what->name, "part of the ideal rate", figures->ideal);
                bench_sample(peer, what->name, "late ms, p50", figures->late_p50_ms);
                bench_sample(peer, what->name, "late ms, p99", figures->late_p99_ms);
                bench_sample(peer, what->name, "early replies", figures->early);
        }
}

static void
record(const struct http_case *what, const char *peer, const struct bench_figures *figures)
{
        if (what->idle)
                bench_sample(peer, what->name, "bytes per idle connection", figures->connection_bytes);
        else
                record_requests(what, peer, figures);
        bench_sample(peer, what->name, "resident MB", figures->resident_mb);
        bench_sample(peer, what->name, "resident MB, peak", figures->peak_mb);
        bench_sample(peer, what->name, "bytes of a reply", figures->reply_bytes);
        bench_sample(peer, what->name, "failures", figures->failures);
        bench_sample(peer, what->name, "CPU used by others, percent of one", figures->others);
}

static void
measure(const struct http_case *what, enum bench_peer peer)
{
        struct bench_load load = {
                .connections = what->connections,
                .delay = what->service == BENCH_DELAY ? BENCH_NSEC_PER_SEC : 0,
                .once = what->idle,
                .spread = what->spread_ms * INT64_C(1000000),
                .warm_up = what->warm_up_ms * INT64_C(1000000),
                .window = (options.quick ? what->quick_window_ms : what->window_ms) * INT64_C(1000000),
        };
        struct bench_server server;
        struct bench_figures figures;

        choose_place(what->everywhere);
        choose_priority(what->service == BENCH_DELAY);
        if (!bench_server_start(&server, peer, what->service, what->everywhere ? BENCH_ALL_CPUS : options.server_cpu))
                return;
        if (bench_load(&load, &server, &figures))
                record(what, bench_peer_name(peer), &figures);
        bench_server_stop(&server);
}

/* Who comes behind whom matters: each round begins with another peer, and when all have been first the order is turned round. */
static void
run_round(const struct http_case *what, unsigned round)
{
        enum bench_peer peers[BENCH_PEERS];
        unsigned count = 0;

        for (enum bench_peer peer = 0; peer < BENCH_PEERS; peer++)
                if (peer == BENCH_WEIR ||
                    (!bench_is_alone() && bench_peer_present(peer, what->service) && !(what->everywhere && peer == BENCH_FLOOR)))
                        peers[count++] = peer;
        for (unsigned i = 0; i < count && !bench_interrupted(); i++) {
                unsigned step = round / count % 2 ? count - i : i;

                measure(what, peers[(round + step) % count]);
        }
}

static void
run(const struct http_case *what)
{
        unsigned rounds = bench_is_alone() ? 1 : options.quick ? (what->rounds + 1) / 2 : what->rounds;

        for (unsigned round = 0; round < rounds; round++)
                run_round(what, round);
        bench_ratio("weir", "nginx", what->name, what->idle ? "bytes per idle connection" : CPU_TIME);
        if (!what->everywhere && !what->idle)
                bench_ratio("weir", "floor", what->name, CPU_TIME);
        if (what->service == BENCH_DELAY)
                bench_ratio("weir", "nginx", what->name, "late ms, p99");
        bench_print("http");
}

int
main(int argc, char *argv[])
{
        rlim_t descriptors = raise_file_limit();

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "quick") == 0)
                        options.quick = true;
                else
                        options.only = argv[i];
        }
        choose_cpus();
        bench_begin();
        for (size_t i = 0; i < sizeof cases / sizeof *cases && !bench_interrupted(); i++) {
                if ((options.only && !strstr(cases[i].name, options.only)) || (options.quick && !cases[i].quick_window_ms))
                        continue;
                if (cases[i].connections + 64 > descriptors)
                        fprintf(stderr, "bench: %s needs more open files than the %llu allowed\n", cases[i].name,
                                (unsigned long long)descriptors);
                else
                        run(&cases[i]);
        }
        return bench_interrupted();
}
