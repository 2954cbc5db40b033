/* bench/cases.h: cases that are asked for by name, and callbacks that are counted. */
#ifndef WEIR_BENCH_CASES_H
#define WEIR_BENCH_CASES_H

#include <stdbool.h>
#include <stddef.h>

/* How much: a smoke test, figures, or also what takes long. */
struct bench_size {
        bool quick, full;
        const char *only; /* cases whose name contains it, from the beginning of a word on; NULL: all */
};

/* What the words of the command line ask for. */
struct bench_size bench_size_of(int argc, char *argv[]);

/* Whether the case was asked for, and the run goes on. */
bool bench_wanted(const struct bench_size *size, const char *name);

/* Callbacks, counted without an atomic read-modify-write on a shared line: each thread has a counter of its own. */
void bench_count(void);
size_t bench_counted(void);

/* Waits until so many callbacks have been counted; false after `seconds`. */
bool bench_wait_counted(size_t count, unsigned seconds);

#endif
