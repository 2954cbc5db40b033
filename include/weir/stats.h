/* weir/stats.h: figures about the running library. */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H

#include <weir/time.h>

WEIR_BEGIN

/* The threads that run callbacks and functions, and the work that is ready.  Start from
 * WEIR_STATS_DEFAULT. */
struct weir_stats {
        size_t size;         /* of this struct when the program was compiled; set by WEIR_STATS_DEFAULT */
        unsigned pollers;    /* 0 while the library does not run */
        unsigned workers;    /* threads that run callbacks: one for each poller, blocked ones without a poller, and spares */
        unsigned spares;     /* the workers among them that wait for a poller */
        unsigned functions;  /* threads of the executor */
        uint64_t taken_over; /* how often a long callback has lost its poller to a spare worker */
        uint64_t given_away; /* how often weir_blocking_begin has handed over a poller */
        uint64_t stolen;     /* completions and expired timers that ran on another poller than their own */
        uint64_t ready;      /* completions that wait for a worker now, approximately.  Without mass cancels, and without
                              * timers that are due, which weir_lateness describes */
};

/* The initial value of a struct weir_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_STATS_DEFAULT {sizeof(struct weir_stats), 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_STATS_DEFAULT {.size = sizeof(struct weir_stats)}
#endif

/* Fills `stats` with the present state.  The three uint64_t counts before `ready` count since the
 * process began.  No worker is delayed.
 *
 * Result:  0; or an error, and *stats is unchanged: -EINVAL for NULL or an invalid `size`; -ECHILD
 *          in a forked child.
 * Threads: any, also inside a callback. */
WEIR_API int weir_stats(struct weir_stats *stats);

/* Stands for all pollers together. */
#define WEIR_ALL_POLLERS (-1)

/* How late the callbacks of timers began.  Lateness counts from the deadline that the timer had
 * when it expired, as rounded by the library.  A timer that was cancelled or shut down is not
 * counted.  Start from WEIR_LATENESS_DEFAULT. */
struct weir_lateness {
        size_t size;    /* of this struct when the program was compiled; set by WEIR_LATENESS_DEFAULT */
        uint64_t count; /* expired timers whose callbacks have begun; if 0, all other fields are 0 */
        weir_nsec p50;  /* half of them began no later than this, and so on.  Up to 1/16 too large, never too small; a value
                           above 34 s is as large as max */
        weir_nsec p90, p99, p999; /* 90, 99 and 99.9 percent of them */
        weir_nsec max; /* exact, except if another thread reset the figures at that moment: then up to 1/16 too large */
};

/* The initial value of a struct weir_lateness: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_LATENESS_DEFAULT {sizeof(struct weir_lateness), 0, 0, 0, 0, 0, 0}
#else
#define WEIR_LATENESS_DEFAULT {.size = sizeof(struct weir_lateness)}
#endif

/* Tells how late callbacks began on a poller, counted from 0, or on WEIR_ALL_POLLERS.  The figures
 * cover the time since the process began or since the last weir_lateness_reset.  A shutdown and the
 * next weir_init do not reset them.  No worker is delayed.
 *
 * Result:  0; or an error, and *lateness is unchanged: -EINVAL for NULL, an invalid `size`, or a
 *          poller that never existed; -ECHILD in a forked child.  WEIR_ALL_POLLERS is never
 *          refused; before the first start it has zeros.
 * Units:   nanoseconds on the clock of weir_now; on the virtual clock, virtual ones.
 * Threads: any, also inside a callback. */
WEIR_API int weir_lateness(int poller, struct weir_lateness *lateness);

/* The same, and resets the figures.  If a program calls this once a minute, each callback is in
 * exactly one of the results.
 *
 * Result, Threads: as for weir_lateness; but NULL is accepted, for a reset only. */
WEIR_API int weir_lateness_reset(int poller, struct weir_lateness *lateness);

WEIR_END

#endif
