/* bench/executor.c: what functions on the executor cost, and tasks that end at once, in weir and in Go.
 *
 *     executor [quick|full] [beginning of a word of a case's name]
 *
 * Threads: each case runs in a process of its own, in which the runtime is started with its defaults: for each CPU a poller and
 *          a thread of the executor. */
#include "executor.h"

#include "bench.h"

#define ROUNDS 5

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        for (int round = size.quick || bench_is_alone() ? ROUNDS - 1 : 0; round < ROUNDS; round++) {
                bench_functions(&size);
                bench_tasks(&size);
        }
        bench_functions_ratios();
        bench_tasks_ratios();
        bench_peers_missing();
        bench_sample("machine", "executor", "CPU used by others, percent of one", bench_others());
        bench_print("executor");
        return bench_interrupted();
}
