/* weir/log.h: the library's messages to the people who run the program. */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include <weir/export.h>

WEIR_BEGIN

/* How much a message matters. */
enum weir_log_level {
        WEIR_LOG_ERROR = 0,   /* something does not work any more */
        WEIR_LOG_WARNING = 1, /* something works worse than it should */
        WEIR_LOG_INFO = 2,    /* something has happened that may be of interest */
};

/* Takes a message: one line without a line end, at most 511 bytes.  Control characters are written
 * as \xNN and backslashes as \\.
 *
 * The function must return, and must not wait for a thread that may be inside weir_log_set.
 *
 * Owner:   the message is borrowed until the function returns.
 * Threads: every thread that logs, several at once.  No lock is held: the function may call the
 *          library.  Messages that this causes on the same thread are dropped.  On a worker it is
 *          like a callback: if it blocks, it loses the poller, and functions that wait return
 *          -EDEADLK. */
typedef void weir_log_fn(enum weir_log_level level, const char *message, void *context);

/* Sends all messages to `fn` from now on; with NULL they are dropped.  Until the first call, errors
 * and warnings go to standard error, each as a line that begins with "weir: ".
 *
 * Owner:   the caller keeps the context.  When this returns, no former function runs or will be
 *          called, so its context may be freed.  The one exception is a call inside a log function.
 *          It does not wait: calls that have begun, its own and those on other threads, may still
 *          run.  The next call from elsewhere waits for them too.
 * Result:  0; -ECHILD in a forked child, where nothing is logged.
 * Threads: any, also inside a callback and inside the log function.  Blocks while the former
 *          function runs. */
WEIR_API int weir_log_set(weir_log_fn *fn, void *context);

/* Writes a message to the log, as printf(3) does, for libraries that make tasks.  A message that is too long is cut.
 *
 * Threads: any.  In a forked child nothing is written. */
WEIR_API void weir_log_write(enum weir_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

WEIR_END

#endif
