/* weir/log.h: what the library has to say to the people who run the program. */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include <weir/export.h>

WEIR_BEGIN

enum weir_log_level {
        WEIR_LOG_ERROR = 0,   /* something does not work any more */
        WEIR_LOG_WARNING = 1, /* something works worse than it should */
        WEIR_LOG_INFO = 2,
};

/* Takes a message: one line without its end, at most 511 bytes, in which control characters and backslashes are written as \xNN
 * and \\.
 *
 * Owner:   the message is borrowed until the function returns.
 * Threads: whichever has something to say, several at once.  On a worker it is like a callback: one that blocks loses the poller,
 *          and what waits returns -EDEADLK.  No lock is held: the function may call the library.  What the library has to say
 *          meanwhile on the same thread is not said.  The function has to return, and must not wait for a thread that may be
 *          inside weir_log_set. */
typedef void weir_log_fn(enum weir_log_level level, const char *message, void *context);

/* Has messages given to `fn` from now on; NULL: nothing is said.  Until the first call errors and warnings go to standard error,
 * each as a line that begins with "weir: ".
 *
 * Owner:   the caller keeps the context.  When this returns, no function that was set before runs or will be called any more, so
 *          that what it needs may be freed.  Not so inside a log function, where this does not wait: calls that have begun, its
 *          own and those on other threads, may still run then; the next call from elsewhere waits for them, too.
 * Result:  0; -ENOMEM; -ECHILD in a forked child, where nothing is said.
 * Threads: any, also inside a callback and inside the log function.  Waits as long as the former function runs. */
WEIR_API int weir_log_set(weir_log_fn *fn, void *context);

WEIR_END

#endif
