/* weir/runtime.h: the threads behind the library, from first use to shutdown. */
#ifndef WEIR_RUNTIME_H
#define WEIR_RUNTIME_H

#include <weir/time.h>

WEIR_BEGIN

enum weir_clock {
        WEIR_CLOCK_REAL = 0,    /* CLOCK_MONOTONIC */
        WEIR_CLOCK_VIRTUAL = 1, /* weir/clock.h: one poller; jumps to the next deadline when a thread waits for it */
};

/* How the runtime is set up.  Start from WEIR_CONFIG_DEFAULT; 0 in a field means its default. */
struct weir_config {
        size_t size;              /* of this struct, as the program was compiled: set by WEIR_CONFIG_DEFAULT */
        int pollers;              /* threads that poll and run callbacks; default: one per CPU the process may use; at most 64 */
        int spare_workers;        /* threads, beyond one for each poller, that may run callbacks which block; default: 256.  As
                                     many more, 256 at most, may run functions in place of those that block */
        int compute_threads;      /* threads that run functions (weir/go.h); default: one per CPU the process may use; 256 at most,
                                     more count as that */
        int affinity;             /* 1: keeps each poller, whatever thread runs it, and each thread that runs functions on a CPU of its
                                     own, as far as there are; default: 0, the system decides */
        weir_nsec blocking_limit; /* how long a callback may run before another worker takes its poller over; default: 10 ms;
                                     WEIR_FOREVER: none does, and there is no watchdog */
        weir_nsec exit_wait;      /* how long exit() waits for running callbacks, and then until a trace (weir/trace.h) is
                                     written; default: 2 seconds; WEIR_FOREVER: no limit */
        enum weir_clock clock;    /* default: WEIR_CLOCK_REAL */
        int reserved;             /* 0: no padding, so that `size` says which fields a program knows */
        weir_nsec timer_slack;    /* how much later than their deadline timers may end, so that they end together: the default of
                                     those made from now on (weir_timer_set_slack); default: 0, exactly */
        size_t stack_size;        /* bytes of the stack of each thread of the library; default: the system's (ulimit -s) */
};

#ifdef __cplusplus
#define WEIR_CONFIG_DEFAULT {sizeof(struct weir_config), 0, 0, 0, 0, 0, 0, WEIR_CLOCK_REAL, 0, 0, 0}
#else
#define WEIR_CONFIG_DEFAULT {.size = sizeof(struct weir_config)}
#endif

/* Starts the runtime.  Optional: the first task made starts it with the defaults.
 *
 * Result:  0; -EBUSY while it runs; -EINVAL for a negative or unknown value or a `size` that is none; -ECHILD in a forked
 *          child; -EDEADLK on a worker; -ESHUTDOWN while the process exits; -EAGAIN, -EMFILE, -ENOMEM and what else
 *          pthread_create, epoll_create1, timerfd_create, eventfd and getrandom report: nothing is left running then.
 * Threads: any but workers. */
WEIR_API int weir_init(const struct weir_config *config);

/* Ends the runtime: what is pending ends with -ESHUTDOWN, live series drop what has not started and end with it, callbacks
 * that run are waited for, the threads are joined.  What was ready before keeps its status.  Until weir_init is called
 * again, each start is refused with -ESHUTDOWN (unless nothing had ever been started).  Runs by itself at exit(), for at most
 * config.exit_wait.
 *
 * Result:  0, also when nothing ran; -EDEADLK on a worker; -ECHILD in a forked child.
 * Threads: any but workers; of several callers each returns when it is over. */
WEIR_API int weir_shutdown(void);

/* Codes of the library, beside the system's negative errno. */
#define WEIR_ETLS_CERTIFICATE (-10001) /* the file holds no chain of certificates in PEM that could be used */
#define WEIR_ETLS_KEY         (-10002) /* the file holds no private key in PEM, or one with a passphrase */
#define WEIR_ETLS_MISMATCH    (-10003) /* the private key is not that of the certificate */
#define WEIR_ETLS_OCSP        (-10004) /* the file holds no OCSP response in DER, or one that says why there is none */
#define WEIR_ETLS             (-10005) /* OpenSSL refuses something else */

/* Around what may block for long inside a callback: a lock, a file, a program that answers late.  The first has another worker take
 * over at once what else this one would run; without it one does so after config.blocking_limit.  The callback goes on where it
 * is, and may wait for flows in between (weir_series_run, weir_task_run, weir_waitgroup_wait, weir_timer_cancel_wait).  Calls may
 * be nested, and each needs its end; what is open when the callback returns ends with it.  Likewise inside a function of the
 * executor (weir/go.h), where another thread runs functions in its place.  On other threads they do nothing.
 *
 * Result:  0; -EAGAIN when there are as many spare workers as may be, or no thread can be had: the callback may block all the
 *          same, and then holds up its neighbours, but not wait for flows (-EDEADLK); -ECHILD in a forked child.  Each needs its
 *          end.
 * Threads: any.  An end without its begin aborts the process. */
WEIR_API int weir_blocking_begin(void);
WEIR_API void weir_blocking_end(void);

/* What a status says, in English: 0, negative errno values and the library's own codes.
 *
 * Owner:   the library; valid for ever. */
WEIR_API const char *weir_strerror(int status);

/* The version of the library in use, such as "0.1.0". */
WEIR_API const char *weir_version(void);

WEIR_END

#endif
