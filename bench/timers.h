/* bench/timers.h: the parts of bench/timers.  Each measures its cases once, a peer after the other; main repeats them. */
#ifndef WEIR_BENCH_TIMERS_H
#define WEIR_BENCH_TIMERS_H

#include "bench.h"

/* How much: a smoke test, figures, or also what takes long. */
struct bench_size {
        bool quick, full;
        const char *only; /* cases whose name contains it, from the beginning of a word on; NULL: all */
};

/* Whether the case was asked for, and the run goes on. */
bool bench_wanted(const struct bench_size *size, const char *name);

/* Callbacks, counted without an atomic read-modify-write on a shared line: each thread has a counter of its own. */
void bench_count(void);
size_t bench_counted(void);

/* Waits until so many callbacks have been counted; false after `seconds`. */
bool bench_wait_counted(size_t count, unsigned seconds);

/* -- contest.c: add and cancel, reset, and the memory of what is pending, weir and the peers in turn -- */

void bench_pairs(const struct bench_size *size);
void bench_pairs_ratios(void); /* when all rounds are over */

/* -- pairs.c: weir's part of it -- */

enum bench_how { BENCH_HOT, BENCH_ANY, BENCH_RESET };
enum bench_mix { BENCH_FIXED, BENCH_MIXED, BENCH_RANDOM };

/* What is done `count` times while so many timers are pending. */
struct bench_load {
        enum bench_how how;
        enum bench_mix mix;
        size_t pending, count;
};

enum bench_kind {
        BENCH_NAMED,    /* weir_timer_new_named, weir_timer_cancel, weir_timer_reset */
        BENCH_WITH_ID,  /* weir_timer_new, weir_timer_id_of, weir_timer_cancel_id, weir_timer_reset_id */
        BENCH_UNNAMED,  /* weir_timer_new: it can only be added */
        BENCH_IN_SERIES /* an unnamed timer in a series, weir_series_cancel */
};

/* Who calls: a callback of the library; another thread of the program; one thread adds and another cancels. */
enum bench_place { BENCH_CALLBACK, BENCH_FOREIGN, BENCH_APART };

struct bench_weir {
        enum bench_kind kind;
        enum bench_place place;
        struct bench_load load;
};

/* They fill in cpu and elapsed, for a pair or reset; bytes and cpu, for a timer added. */
struct bench_reading;
bool bench_weir_pairs(const char *what, const struct bench_weir *weir, struct bench_reading *reading);
bool bench_weir_memory(const char *what, const struct bench_weir *weir, struct bench_reading *reading);

/* -- peers.c -- */

/* Nanoseconds but for `bytes`, `early` (a count), and how late (microseconds). */
struct bench_reading {
        double cpu, elapsed, bytes, p50, p99, early;
};

/* Runs the program peer-NAME, beside this one, with the words of the formatted text as its arguments, for at most `seconds`.
 *
 * Result: false when it failed, which was said, or was not built, which is said once by bench_peers_missing. */
bool bench_peer(const char *name, struct bench_reading *reading, unsigned seconds, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void bench_peers_missing(void);

/* -- the others -- */

void bench_firing(const struct bench_size *size); /* firing.c: timers that expire */
void bench_firing_ratios(void);
void bench_flows(const struct bench_size *size);  /* flows.c: mass cancel, series, parallels */

#endif
