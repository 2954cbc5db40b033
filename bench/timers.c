/* bench/timers.c: what timers cost, in weir and in its peers.
 *
 *     timers [quick|full] [beginning of a word of a case's name]
 *
 * Threads: each case runs in a process of its own, in which the runtime is started with its defaults: a poller for each CPU. */
#include "timers.h"

#define ROUNDS 3

int
main(int argc, char *argv[])
{
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        for (int round = size.quick || bench_is_alone() ? ROUNDS - 1 : 0; round < ROUNDS; round++) {
                bench_pairs(&size);
                bench_firing(&size);
                bench_flows(&size);
        }
        bench_pairs_ratios();
        bench_firing_ratios();
        bench_peers_missing();
        bench_sample("machine", "timers", "CPU used by others, percent of one", bench_others());
        bench_print("timers");
        return bench_interrupted();
}
