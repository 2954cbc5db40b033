/* bench/fiber.c: what fibers cost, in weir, and goroutines in Go.
 *
 *     fiber [quick|full] [beginning of a word of a case's name]
 *
 * Threads: each case runs in a process of its own, with the runtime as it is by default: on one CPU, or on all. */
#include <sched.h>
#include <stdio.h>

#include "bench.h"
#include "fiber.h"

#define ROUNDS        7
#define ROUNDS_ASLEEP 3

void
bench_fiber_name(char name[96], const char *what, bool one_cpu)
{
        snprintf(name, 96, "%s, %s", what, one_cpu ? "one CPU" : "all CPUs");
}

void
bench_fiber_ratios(const char *peer, const char *name, double goal)
{
        bench_ratio(peer, "go", name, BENCH_FIBER_CPU);
        bench_ratio(peer, "go", name, BENCH_FIBER_TIME);
        if (goal > 0)
                bench_goal(peer, name, "ratio to go, " BENCH_FIBER_CPU, goal);
}

static void
use_cpus(const cpu_set_t *all, bool one_cpu)
{
        cpu_set_t one;
        int first = 0;

        while (!CPU_ISSET(first, all))
                first++;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        sched_setaffinity(0, sizeof *all, one_cpu ? &one : all);
}

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);
        cpu_set_t all;

        bench_begin();
        if (sched_getaffinity(0, sizeof all, &all))
                return 1;
        for (int round = size.quick || bench_is_alone() ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (int one_cpu = 1; one_cpu >= 0; one_cpu--) {
                        use_cpus(&all, one_cpu);
                        bench_fibers(&size, one_cpu);
                        if (round >= ROUNDS - ROUNDS_ASLEEP)
                                bench_asleep(&size, one_cpu, round == ROUNDS - 1);
                }
        use_cpus(&all, false);
        for (int one_cpu = 1; one_cpu >= 0; one_cpu--) {
                bench_fibers_ratios(one_cpu);
                bench_asleep_ratios(one_cpu);
        }
        bench_handler(&size);
        bench_peers_missing();
        bench_sample("machine", "fiber", "CPU used by others, percent of one", bench_others());
        bench_print("fiber");
        return bench_interrupted();
}
