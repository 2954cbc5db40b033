/* bench/fiber.h: the parts of bench/fiber.  Each measures its cases once, a peer after the other; main repeats them. */
#ifndef WEIR_BENCH_FIBER_H
#define WEIR_BENCH_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "cases.h"
#include "peers.h"

/* Of all cases, so that they stand in one table. */
#define BENCH_FIBER_CPU  "CPU ns per operation"
#define BENCH_FIBER_TIME "ns per operation"

/* The name of a case on one CPU, or on all. */
void bench_fiber_name(char name[96], const char *what, bool one_cpu);

/* What `peer` takes as a ratio to Go, and what it is to be at most (0: there is no goal). */
void bench_fiber_ratios(const char *peer, const char *name, double goal);

/* fibers.c: create, yield, await, channels, recursion. */
void bench_fibers(const struct bench_size *size, bool one_cpu);
void bench_fibers_ratios(bool one_cpu);

/* asleep.c: many at once; in the last round also a million. */
void bench_asleep(const struct bench_size *size, bool one_cpu, bool is_last);
void bench_asleep_ratios(bool one_cpu);

/* handler.c: in an HTTP server, on a CPU of its own; all rounds at once. */
void bench_handler(const struct bench_size *size);

#endif
