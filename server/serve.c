/* server/serve.c: a server until a signal comes.
 *
 * Threads: those that call weir_http_serve; a signal handler on any thread.
 *
 * The handler counts, and writes one of two eventfds: `first` at the first signal, `again` at each further one.  They are never
 * read, so every server of the process sees them. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernel/runtime.h"
#include "server/server.h"

#define STOP_WITHIN WEIR_SEC(30)

static const int stop_signals[] = {SIGINT, SIGTERM};
#define STOP_SIGNALS (sizeof stop_signals / sizeof *stop_signals)

static struct {
        pthread_mutex_t mutex;

        /* Guarded by mutex. */
        unsigned servers; /* that wait; the handlers are in place while there are any */
        struct sigaction before[STOP_SIGNALS];

        /* Constant while there are servers. */
        int first, again; /* eventfds */

        _Atomic unsigned count; /* of signals; lock-free, so that a handler may touch it */
} signals = {.mutex = PTHREAD_MUTEX_INITIALIZER, .first = -1, .again = -1};

static void
on_signal(int number)
{
        int before = errno;

        (void)number;
        eventfd_write(atomic_fetch_add(&signals.count, 1) == 0 ? signals.first : signals.again, 1);
        errno = before;
}

static void
close_eventfds(void)
{
        if (signals.first >= 0)
                close(signals.first);
        if (signals.again >= 0)
                close(signals.again);
        signals.first = signals.again = -1;
}

static int
install(void)
{
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

        signals.first = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        signals.again = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (signals.first < 0 || signals.again < 0) {
                int failed = -errno;

                close_eventfds();
                return failed;
        }
        atomic_store(&signals.count, 0);
        for (size_t i = 0; i < STOP_SIGNALS; i++)
                sigaction(stop_signals[i], &action, &signals.before[i]);
        return 0;
}

static int
watch_signals(void)
{
        pthread_mutex_lock(&signals.mutex);
        int failed = signals.servers ? 0 : install();
        if (!failed)
                signals.servers++;
        pthread_mutex_unlock(&signals.mutex);
        return failed;
}

static void
unwatch_signals(void)
{
        pthread_mutex_lock(&signals.mutex);
        if (--signals.servers == 0) {
                for (size_t i = 0; i < STOP_SIGNALS; i++)
                        sigaction(stop_signals[i], &signals.before[i], NULL);
                close_eventfds();
        }
        pthread_mutex_unlock(&signals.mutex);
}

/* A server wants a descriptor for each connection; the soft limit is small for the sake of select(2) only. */
static void
raise_file_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static void
wait_for_signal(void)
{
        struct pollfd fd = {.fd = signals.first, .events = POLLIN};

        while (poll(&fd, 1, -1) <= 0)
                ;
}

int
weir_http_serve(const char *address, weir_task_fn *handler, void *context)
{
        int result = weir__runtime_may_wait();

        if (result)
                return result;
        raise_file_limit();
        weir_http_server *server = weir_http_server_new(NULL, handler, context);
        result = server ? watch_signals() : -ENOMEM;
        if (!result) {
                result = weir_http_server_start(server, address);
                if (!result) {
                        wait_for_signal();
                        result = weir__server_stop(server, STOP_WITHIN, signals.again);
                }
                unwatch_signals();
        }
        weir_http_server_free(server);
        return result;
}
