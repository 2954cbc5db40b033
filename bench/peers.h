/* bench/peers.h: runs the peers' programs, each case in a process of its own. */
#ifndef WEIR_BENCH_PEERS_H
#define WEIR_BENCH_PEERS_H

#include <stdbool.h>

/* Nanoseconds but for `bytes`, `early` (a count), and how late (microseconds): `calm` and `blocked` are the worst of a phase. */
struct bench_reading {
        double cpu, elapsed, bytes, p50, p99, early, calm, blocked, wake;
};

/* Runs the program peer-NAME, beside this one, with the words of the formatted text as its arguments, for at most `seconds`.
 *
 * Result: false when it failed, which was said, or was not built, which is said once by bench_peers_missing. */
bool bench_peer(const char *name, struct bench_reading *reading, unsigned seconds, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void bench_peers_missing(void);

#endif
