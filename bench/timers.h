/* bench/timers.h: the parts of bench/timers.  Each measures its cases once, a peer after the other; main repeats them. */
#ifndef WEIR_BENCH_TIMERS_H
#define WEIR_BENCH_TIMERS_H

#include "bench.h"
#include "cases.h"
#include "peers.h"

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

/* How weir takes part. */
struct bench_weir {
        enum bench_kind kind;
        enum bench_place place;
        struct bench_load load;
        unsigned slice; /* pairs in a callback; 0: 64 */
        int pollers;    /* 0: the default */
};

/* They fill in cpu and elapsed, for a pair or reset; bytes and cpu, for a timer added. */
bool bench_weir_pairs(const char *what, const struct bench_weir *weir, struct bench_reading *reading);
bool bench_weir_memory(const char *what, const struct bench_weir *weir, struct bench_reading *reading);

/* -- the others -- */

void bench_firing(const struct bench_size *size); /* firing.c: timers that expire */
void bench_firing_ratios(void);
void bench_flows(const struct bench_size *size); /* flows.c: mass cancel */

#endif
