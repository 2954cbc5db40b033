/* weir/runtime.h: the threads behind the library, from first use to shutdown. */
#ifndef WEIR_RUNTIME_H
#define WEIR_RUNTIME_H

#include <weir/time.h>

WEIR_BEGIN

/* The clock that the whole runtime lives by. */
enum weir_clock {
        WEIR_CLOCK_REAL = 0,    /* CLOCK_MONOTONIC */
        WEIR_CLOCK_VIRTUAL = 1, /* weir/clock.h: one poller; time jumps to the next deadline when a thread waits for it */
};

/* How file tasks (weir/file.h) reach the system. */
enum weir_files {
        WEIR_FILES_AUTO = 0,  /* by io_uring, where the library was built with it and the kernel permits it */
        WEIR_FILES_QUEUE = 1, /* by threads of the executor, always */
};

/* How the runtime is set up.  Start from WEIR_CONFIG_DEFAULT; 0 in a field means its default. */
struct weir_config {
        size_t size;              /* of this struct when the program was compiled; set by WEIR_CONFIG_DEFAULT */
        int pollers;              /* threads that poll and run callbacks; default: one per CPU the process may use; at most 64 */
        int spare_workers;        /* additional threads for callbacks that block; default: 256.  As many more, 256 at most,
                                     may replace threads of the executor that block */
        int compute_threads;      /* threads of the executor (weir/go.h); default: one per CPU the process may use; more than
                                     256 count as 256 */
        int affinity;             /* 1: each poller, whatever thread runs it, and each thread of the executor stays on a CPU
                                     of its own, as far as there are enough; default: 0, the system decides */
        weir_nsec blocking_limit; /* how long a callback may run before another worker takes over its poller; default: 10 ms;
                                     WEIR_FOREVER: no worker does, and there is no watchdog */
        weir_nsec exit_wait;      /* how long exit() waits for running callbacks, and then for a trace (weir/trace.h) to be
                                     written; default: 2 seconds; WEIR_FOREVER: no limit */
        enum weir_clock clock;    /* default: WEIR_CLOCK_REAL */
        enum weir_files files;    /* default: WEIR_FILES_AUTO */
        weir_nsec timer_slack;    /* how much later than their deadline timers may end, so that they end together
                                     (weir_timer_set_slack).  For timers that are made from now on; default: 0, exactly */
        size_t stack_size;        /* bytes of the stack of each thread of the library; default: the system's (ulimit -s) */
        size_t fiber_stack_size;  /* bytes that each fiber may use of its stack, from 16 KiB to 16 MiB, rounded up to pages,
                                     or up to 1 KiB less; default: 192 KiB, and 960 KiB where a sanitizer watches the program */
};

/* The initial value of a struct weir_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_CONFIG_DEFAULT                                                                          \
        {                                                                                            \
                sizeof(struct weir_config), 0, 0, 0, 0, 0, 0, WEIR_CLOCK_REAL, WEIR_FILES_AUTO, 0, 0, 0 \
        }
#else
#define WEIR_CONFIG_DEFAULT {.size = sizeof(struct weir_config)}
#endif

/* Starts the runtime.  This is optional: the first task that is started starts it with the
 * defaults.
 *
 * Result:  0; or an error, and nothing is left running:
 *          -EBUSY while it runs; -ESHUTDOWN while the process exits; -EDEADLK on a worker; -ECHILD
 *            in a forked child;
 *          -EINVAL for a negative or unknown value or an invalid `size`;
 *          -EAGAIN, -EMFILE, -ENOMEM and other errors of pthread_create, epoll_create1,
 *            timerfd_create, eventfd and getrandom.
 * Threads: any but workers. */
WEIR_API int weir_init(const struct weir_config *config);

/* Ends the runtime:
 *
 * - Pending tasks end with -ESHUTDOWN.  Tasks that were ready before keep their status.
 * - Running series drop the tasks that are not started and end with -ESHUTDOWN.
 * - Running callbacks and functions are waited for; then the threads are joined.
 * - A warning counts the tasks and series that were made and never started, if there are any.
 *
 * From then on each start is refused with -ESHUTDOWN until weir_init is called again (unless
 * nothing had ever been started).  The shutdown also runs by itself at exit(), for at most
 * config.exit_wait.
 *
 * Result:  0, also when nothing ran; -EDEADLK on a worker; -ECHILD in a forked child.
 * Threads: any but workers.  Of several callers each one returns when the shutdown is over. */
WEIR_API int weir_shutdown(void);

/* Codes of the library, in addition to the system's negative errno. */
#define WEIR_ETLS_CERTIFICATE (-10001) /* the file has no usable chain of certificates in PEM */
#define WEIR_ETLS_KEY         (-10002) /* the file has no private key in PEM, or the key has a passphrase */
#define WEIR_ETLS_MISMATCH    (-10003) /* the private key does not belong to the certificate */
#define WEIR_ETLS_OCSP        (-10004) /* the file has no OCSP response in DER, or the response is an error */
#define WEIR_ETLS             (-10005) /* OpenSSL refuses something else */
#define WEIR_ETLS_NAME        (-10006) /* the peer's certificate is for another name or address */
#define WEIR_ETLS_EXPIRED     (-10007) /* a certificate of the peer has expired, or is not valid yet */
#define WEIR_ETLS_SELF_SIGNED (-10008) /* the peer has signed its certificate itself, and it is not trusted */
#define WEIR_ETLS_UNTRUSTED   (-10009) /* no trusted certificate stands behind the peer's, or it is invalid otherwise */
#define WEIR_ETLS_PLAIN       (-10010) /* the peer does not speak TLS */
#define WEIR_EPROCESS_EXIT    (-10011) /* the program has exited with another code than 0 */
#define WEIR_EPROCESS_SIGNAL  (-10012) /* a signal has ended the program */
#define WEIR_EPROCESS_LOST    (-10013) /* the program has ended, and it is not known how */
#define WEIR_ETLS_PIN         (-10014) /* the peer's certificate is trusted, but its key is not one of those that are pinned */
#define WEIR_ETLS_REFUSED     (-10015) /* the peer refuses our certificate, or wants one */

/* Marks the part of a callback that may block for long: a lock, a file, a slow program.
 * weir_blocking_begin makes another worker take over the other work of this worker at once.
 * Without it a worker does so after config.blocking_limit.
 *
 *     weir_blocking_begin();
 *     err = read_a_slow_file(context);
 *     weir_blocking_end();
 *
 * The callback stays on its thread.  Between the two calls it may wait for flows: weir_series_run,
 * weir_task_run, weir_waitgroup_wait, weir_timer_cancel_wait.  Calls may be nested, and each begin
 * needs its end, also after -EAGAIN.  A begin that is open when the callback returns is ended then.
 * The same holds inside a function of the executor (weir/go.h): another thread runs functions in
 * its place.  On other threads both do nothing.
 *
 * Result:  0; -ECHILD in a forked child; -EAGAIN when all spare workers are in use, or no thread
 *          can be made.  After -EAGAIN the callback may block all the same, but then it delays its
 *          neighbours and may not wait for flows (-EDEADLK).
 * Threads: any.  An end without its begin aborts the process. */
WEIR_API int weir_blocking_begin(void);
WEIR_API void weir_blocking_end(void);

/* Explains a status in English: 0, negative errno values and the codes of the library.  The text
 * says what the code means here: -EDOM is "the task or object is of another kind, or has no such
 * value".
 *
 * Owner:   the library; valid for ever.
 * Threads: any. */
WEIR_API const char *weir_strerror(int status);

/* The short name of a status, for logs: "-ETIMEDOUT", "WEIR_ETLS_KEY"; "0" for success.  The name of
 * an unknown code is its number.
 *
 * Owner:   the library; valid for ever, but for the name of an unknown code.  That is valid until
 *          the same thread has asked for four more of these, or ends.
 * Threads: any. */
WEIR_API const char *weir_strstatus(int status);

/* The version of the library in use, such as "0.1.0". */
WEIR_API const char *weir_version(void);

WEIR_END

#endif
