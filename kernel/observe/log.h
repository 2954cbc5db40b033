/* kernel/observe/log.h: messages to the people who run the program. */
#ifndef WEIR_KERNEL_LOG_H
#define WEIR_KERNEL_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/log.h>
#include <weir/time.h>

#define WEIR__LOG_SIZE     512 /* of a message, with its NUL */
#define WEIR__LOG_INTERVAL WEIR_SEC(1)

/* Says it, with no lock held: the log function is the user's, and runs before this returns.  Names in it may hold any bytes; a
 * message that is too long ends in three dots.  Leaves errno as it is.  Any thread. */
__attribute__((format(printf, 2, 3))) void weir__log(enum weir_log_level level, const char *format, ...);

/* For what may happen again and again: static, all zero, one for each place that says something. */
struct weir__log_limit {
        _Atomic weir_nsec next;    /* before which nothing is said; CLOCK_MONOTONIC, also where time is virtual */
        _Atomic unsigned left_out; /* since the last one that was said */
};

/* The same, once in WEIR__LOG_INTERVAL at most; the next one says how many were left out.  What is left out costs two atomic
 * operations and a look at the clock. */
__attribute__((format(printf, 3, 4))) void weir__log_limited(struct weir__log_limit *limit, enum weir_log_level level,
                                                             const char *format, ...);

/* Whether one may be said at `now`, and how many were left out before; else it is counted.  Never blocks.  Any thread. */
bool weir__log_may(struct weir__log_limit *limit, weir_nsec now, unsigned *left_out);

#endif
