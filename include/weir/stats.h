/* weir/stats.h: how the library is doing, told while it runs. */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H

#include <weir/time.h>

WEIR_BEGIN

/* Who runs callbacks and functions, and what has become ready.  Start from WEIR_STATS_DEFAULT. */
struct weir_stats {
        size_t size;         /* of this struct, as the program was compiled: set by WEIR_STATS_DEFAULT */
        unsigned pollers;    /* 0 while the library does not run */
        unsigned workers;    /* threads that run callbacks: one for each poller, those that block without one, and spares */
        unsigned spares;     /* of these, those that wait for a poller */
        unsigned functions;  /* threads of the executor */
        uint64_t taken_over; /* hand-overs: how often a callback that lasted has lost its poller to a spare */
        uint64_t given_away; /* the same by weir_blocking_begin */
        uint64_t stolen;     /* completions, and timers that expired, which another poller ran than the one where they belonged */
        uint64_t ready;      /* completions that wait for a worker now, about; not what was cancelled in great numbers, nor timers
                              * that are due, which weir_lateness tells of */
};

#ifdef __cplusplus
#define WEIR_STATS_DEFAULT {sizeof(struct weir_stats), 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_STATS_DEFAULT {.size = sizeof(struct weir_stats)}
#endif

/* Tells about the present; the three counts go on since the process began.  No worker is held up by it.
 *
 * Result:  0; -EINVAL for NULL or a `size` that is none; -ECHILD in a forked child.  Untouched on failure.
 * Threads: any, also inside a callback. */
WEIR_API int weir_stats(struct weir_stats *stats);

/* All pollers together. */
#define WEIR_ALL_POLLERS (-1)

/* How late the callbacks of timers began, each counted from its deadline: that which the timer had when it expired, rounded where
 * the library rounds it.  A timer that was cancelled, or shut down, is not counted.  Start from WEIR_LATENESS_DEFAULT. */
struct weir_lateness {
        size_t size;    /* of this struct, as the program was compiled: set by WEIR_LATENESS_DEFAULT */
        uint64_t count; /* timers that expired and whose callbacks have begun; of 0 all the rest is 0 */
        weir_nsec p50;  /* half of them began no later than this; so on.  Up to 1/16 too large, never too small; what is later
                           than 34 s, as large as max */
        weir_nsec p90, p99, p999;
        weir_nsec max; /* exact, unless just when it occurred another thread began anew: up to 1/16 too large then */
};

#ifdef __cplusplus
#define WEIR_LATENESS_DEFAULT {sizeof(struct weir_lateness), 0, 0, 0, 0, 0, 0}
#else
#define WEIR_LATENESS_DEFAULT {.size = sizeof(struct weir_lateness)}
#endif

/* Tells how late callbacks began on a poller, 0 being the first, or on WEIR_ALL_POLLERS, since the process or weir_lateness_reset
 * has begun anew; a shutdown and the next weir_init do not.  The workers are not held up by it.
 *
 * Result:  0; -EINVAL for NULL, a `size` that is none, or a poller that there never was; -ECHILD in a forked child.
 *          WEIR_ALL_POLLERS is never refused, and tells zeros when nothing was started yet.  Untouched on failure.
 * Units:   nanoseconds on the clock of weir_now: on the virtual clock, virtual ones.
 * Threads: any, also inside a callback. */
WEIR_API int weir_lateness(int poller, struct weir_lateness *lateness);

/* The same, and begins anew.  Whoever asks for each minute's lateness by this meets every callback in exactly one of them.
 *
 * Result:  as above, but NULL is accepted by who does not want to know. */
WEIR_API int weir_lateness_reset(int poller, struct weir_lateness *lateness);

WEIR_END

#endif
