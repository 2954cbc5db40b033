/* bench/timers.h: the parts of bench/timers.  Each measures its cases once; main repeats them. */
#ifndef WEIR_BENCH_TIMERS_H
#define WEIR_BENCH_TIMERS_H

#include "bench.h"

/* How much: a smoke test, or figures. */
struct bench_size {
        bool quick;
        const char *only; /* cases whose name contains it; NULL: all */
};

/* Whether the case was asked for, and the run goes on. */
bool bench_wanted(const struct bench_size *size, const char *name);

/* Callbacks, counted without an atomic read-modify-write on a shared line: each thread has a counter of its own. */
void bench_count(void);
size_t bench_counted(void);

/* Waits until so many callbacks have been counted; false after `seconds`. */
bool bench_wait_counted(size_t count, unsigned seconds);

void bench_pairs(const struct bench_size *size);   /* pairs.c: add and cancel, and the memory of what is pending */
void bench_firing(const struct bench_size *size);  /* firing.c: timers that expire */
void bench_flows(const struct bench_size *size);   /* flows.c: mass cancel, series, parallels */

#endif
