/* kernel/observe/log.h: messages to the people who run the program. */
#ifndef WEIR_KERNEL_LOG_H
#define WEIR_KERNEL_LOG_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/log.h>
#include <weir/time.h>

#define WEIR__LOG_SIZE     512 /* of a message, with its NUL */
#define WEIR__LOG_INTERVAL WEIR_SEC(1)

/* Calls the log function, which is user code, so no lock may be held.  Names in the message may have any bytes.  A message that
 * is too long ends in three dots.  errno stays as it is.  Any thread. */
#define weir__log(level, ...) weir__log_limited(NULL, level, __VA_ARGS__)

/* For messages that may come again and again: a static variable of zeros for each place. */
struct weir__log_limit {
        _Atomic weir_nsec next;    /* no message before then; CLOCK_MONOTONIC, also where time is virtual */
        _Atomic unsigned left_out; /* since the last message */
};

/* The same, once in WEIR__LOG_INTERVAL at most.  The next message says how many were left out.  A message that is left out costs
 * two atomic operations and a look at the clock.  NULL: no limit. */
__attribute__((format(printf, 3, 4))) void weir__log_limited(struct weir__log_limit *limit, enum weir_log_level level,
                                                             const char *format, ...);

/* Logs what a call expected instead of what it was given, once in WEIR__LOG_INTERVAL for each place.  Is -EINVAL. */
#define weir__log_refusal(...)                                                     \
        ({                                                                         \
                static struct weir__log_limit weir__refused;                       \
                                                                                   \
                weir__log_limited(&weir__refused, WEIR_LOG_ERROR, __VA_ARGS__);    \
                -EINVAL;                                                           \
        })

/* Calls `call` with the argument, around each call of the log function; NULL: nothing is around it.  Set when the library is
 * loaded, by a room above. */
extern void (*weir__log_around)(void (*call)(void *argument), void *argument);

/* Returns whether a message may be logged at `now`, and how many were left out before. Otherwise it counts the message as left
 * out. Never blocks. Any thread. */
bool weir__log_may(struct weir__log_limit *limit, weir_nsec now, unsigned *left_out);

#endif
