/* bench/blocking.h: the parts of bench/blocking. */
#ifndef WEIR_BENCH_BLOCKING_H
#define WEIR_BENCH_BLOCKING_H

#include "server.h"

#define BENCH_TICKERS     1000
#define BENCH_TICK_PERIOD INT64_C(10000000)

/* Callbacks that sleep. */
struct bench_blocking {
        unsigned callbacks; /* at once */
        int64_t sleep;
        bool announced; /* between weir_blocking_begin and weir_blocking_end */
};

/* A process with the tickers, an HTTP server, and the callbacks. */
struct bench_blocked {
        struct bench_server server; /* for the load generator; what bench_server_start and bench_server_stop do is done here */
        int to, from;
};

/* What the process has seen since it was last asked. */
struct bench_ticks {
        double late_ms;  /* the latest tick, those included that should have come and have not */
        double returned; /* callbacks that have slept, since the beginning */
};

/* Starts the process.
 *
 * Result: false when that failed, which was said, unless interrupted. */
bool bench_blocked_start(struct bench_blocked *blocked, const struct bench_blocking *blocking);

/* Has the callbacks run, a millisecond from now. */
bool bench_blocked_block(const struct bench_blocked *blocked);

bool bench_blocked_tell(const struct bench_blocked *blocked, struct bench_ticks *ticks);

/* Kills it, whatever it is doing. */
void bench_blocked_stop(struct bench_blocked *blocked);

#endif
