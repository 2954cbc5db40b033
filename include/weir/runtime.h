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
        int spare_workers;        /* accepted and checked; this version never hands a poller over, so it has no effect yet */
        int compute_threads;      /* accepted and checked; this version has no executor, so it has no effect yet */
        int reserved;             /* 0 */
        weir_nsec blocking_limit; /* accepted and checked; this version has no watchdog, so it has no effect yet */
        weir_nsec exit_wait;      /* how long exit() waits for running callbacks; default: 2 seconds; WEIR_FOREVER: no limit */
        enum weir_clock clock;    /* default: WEIR_CLOCK_REAL */
        int reserved_too;         /* 0: no padding, so that `size` says which fields a program knows */
        weir_nsec timer_slack;    /* how much later than their deadline timers may end, so that they end together: the default of
                                     those made from now on (weir_timer_set_slack); default: 0, exactly */
};

#ifdef __cplusplus
#define WEIR_CONFIG_DEFAULT {sizeof(struct weir_config), 0, 0, 0, 0, 0, 0, WEIR_CLOCK_REAL, 0, 0}
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

/* What a status says, in English: 0, negative errno values and the library's own codes.
 *
 * Owner:   the library; valid for ever. */
WEIR_API const char *weir_strerror(int status);

/* The version of the library in use, such as "0.1.0". */
WEIR_API const char *weir_version(void);

WEIR_END

#endif
