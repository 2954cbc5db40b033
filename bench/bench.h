/* bench/bench.h: what the measuring programs share: clocks, results, and cases that run in a process of their own. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define BENCH_NSEC_PER_SEC INT64_C(1000000000)

/* -- clocks: nanoseconds -- */

static inline int64_t bench_clock(clockid_t clock)
{
        struct timespec time;

        clock_gettime(clock, &time);
        return time.tv_sec * BENCH_NSEC_PER_SEC + time.tv_nsec;
}

static inline int64_t bench_now(void)
{
        return bench_clock(CLOCK_MONOTONIC);
}

/* CPU time of all threads of this process. */
static inline int64_t bench_cpu(void)
{
        return bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_sleep(int64_t nanoseconds);

/* -- numbers -- */

/* splitmix64; any state is a good one. */
static inline uint64_t bench_random(uint64_t *state)
{
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* A number below `limit` (less than 2^32), without a division. */
static inline uint64_t bench_random_below(uint64_t *state, uint64_t limit)
{
        return (bench_random(state) >> 32) * limit >> 32;
}

/* Sorts the values, and tells the one below which the given part of them lies (0.5: the median). */
int64_t bench_quantile(int64_t *values, size_t count, double part);

/* Kilobytes that a line such as "VmRSS:" of /proc/PID/status tells; 0 when it cannot be read. */
long bench_memory(int pid, const char *line);

/* -- results -- */

/* Adds one measurement.  Those of equal peer, case and metric are one result.  The texts are copied. */
void bench_sample(const char *peer, const char *name, const char *metric, double value);

/* For each round that has both, adds how `peer` compares to `other` in that metric, as the metric "ratio to OTHER, METRIC". */
void bench_ratio(const char *peer, const char *other, const char *name, const char *metric);

/* Tells beside that result, if there is one, what it is to be at most: as the peer "goal". */
void bench_goal(const char *peer, const char *name, const char *metric, double most);

/* Prints the results that were not yet printed, in the order of their first measurement: one JSON object a line, the median, then
 * the least and the greatest where there were several measurements. */
void bench_print(const char *bench);

/* -- running -- */

/* Installs the handlers that make bench_interrupted() true at SIGINT and SIGTERM, and prepares what bench_others() tells. */
void bench_begin(void);
bool bench_interrupted(void);

/* Nanoseconds for which the CPUs of the machine were not idle, since it started; in steps of 10 ms. */
int64_t bench_machine_busy(void);

/* Whether BENCH_ALONE=yes is set: then the peers are left out and there is one round, as bench/ablate wants it. */
bool bench_is_alone(void);

/* How much of the machine others used since bench_begin, in percent of one CPU: what the figures are to be judged by. */
double bench_others(void);

/* Ties the calling process to its parent: it is killed when that one ends.  For a child, after fork. */
void bench_follow_parent(int parent);

#define BENCH_VALUES 8

/* A measurement: fills values[] and returns whether it succeeded. */
typedef bool bench_fn(const void *argument, double values[BENCH_VALUES]);

/* Runs it in a child process, so that each begins with fresh memory and fresh threads, and one that hangs is ended after
 * `seconds`.
 *
 * Result: whether it succeeded; the reason why not was printed to stderr. */
bool bench_isolated(const char *what, bench_fn *fn, const void *argument, double values[BENCH_VALUES], unsigned seconds);

#endif
