/* bench/load.h: HTTP clients: each connection sends its next request when it has the reply to the last one, at once or at a
 * steady rate; or each request has its connection. */
#ifndef WEIR_BENCH_LOAD_H
#define WEIR_BENCH_LOAD_H

#include "bench.h"
#include "server.h"

struct bench_load {
        unsigned connections;
        int64_t delay;    /* how long after its request a reply is due; 0: at once */
        int64_t interval; /* at which each connection asks, latency counting from its turn; 0: it asks when it has its reply */
        bool once;        /* each connection asks once, and is idle then */
        int64_t spread;   /* over which the first requests are sent, once all are connected; 0: each asks as soon as it is */
        int64_t warm_up;  /* after that */
        int64_t window;   /* what is measured, after that */
};

struct bench_figures {
        double requests; /* answered in the window */
        double seconds;  /* of the window */
        double cpu_us;   /* of the server, for each */
        double ideal;    /* part of the rate that connections, delay and interval allow; 0 without these */
        double late_p50_ms, late_p99_ms; /* 0 without these */
        double turn_late_ms; /* with an interval: how late the generator itself was with a request, at worst */
        double early;    /* replies before they were due */
        double failures; /* connections refused, reset or answered wrongly */
        double idle_percent; /* of one CPU: what the server and others have left of it */
        double resident_mb, peak_mb;
        double connection_bytes; /* by which the server has grown, for each connection */
        double reply_bytes;
        double others; /* how much of the machine others used meanwhile, in percent of one CPU */
};

/* Opens the connections, and has them ask until the warm-up is over.
 *
 * Owner:  the caller: bench_load_end, which accepts NULL.
 * Result: NULL when that failed; the reason why was printed, unless interrupted. */
struct generator *bench_load_begin(const struct bench_load *load, const struct bench_server *server);
void bench_load_end(struct generator *generator);

/* Loads the server from the calling thread for a window, from now.  Between windows, nothing is read and nothing asked.
 *
 * Result: false when interrupted. */
bool bench_load_window(struct generator *generator, struct bench_figures *figures);

/* All of it, with one window.
 *
 * Result: whether it came to the end of the window; the reason why not was printed, unless interrupted. */
bool bench_load(const struct bench_load *load, const struct bench_server *server, struct bench_figures *figures);

#endif
