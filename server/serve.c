/* server/serve.c: a server until a signal comes.
 *
 * Threads: those that call weir_http_serve; a signal handler on any thread.
 *
 * The handler counts, and writes one of two eventfds: `first` at the first signal, `again` at each further one.  They are not read
 * while servers wait, so each of them sees both; and they are never closed: a handler that another thread's end of serving has
 * overtaken still writes to them, and must not find another descriptor under their number. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
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
        pid_t maker; /* of the eventfds: a forked child makes its own */

        /* Lock-free, so that a handler may touch them. */
        _Atomic int first, again; /* eventfds */
        _Atomic unsigned count;   /* of signals */
} signals = {.mutex = PTHREAD_MUTEX_INITIALIZER, .first = -1, .again = -1};

static void
on_signal(int number)
{
        int before = errno;

        (void)number;
        eventfd_write(atomic_fetch_add(&signals.count, 1) == 0 ? signals.first : signals.again, 1);
        errno = before;
}

static int
make_eventfds(void)
{
        int first = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int again = first < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

        if (again < 0) {
                int failed = -errno;

                if (first >= 0)
                        close(first);
                return failed;
        }
        atomic_store(&signals.first, first);
        atomic_store(&signals.again, again);
        signals.maker = getpid();
        return 0;
}

static int
install(void)
{
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        int failed = signals.maker == getpid() ? 0 : make_eventfds();
        eventfd_t ignored;

        if (failed)
                return failed;
        eventfd_read(signals.first, &ignored);
        eventfd_read(signals.again, &ignored);
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

/* Returns false when the runtime ended before a signal came. */
static bool
wait_for_signal(const weir_http_server *server)
{
        struct pollfd fds[2] = {{.fd = signals.first, .events = POLLIN}, {.fd = server->ended_fd, .events = POLLIN}};

        while (poll(fds, 2, -1) <= 0)
                ;
        return fds[0].revents;
}

static int
serve(weir_http_server *server, const char *address)
{
        int result = weir_http_server_start(server, address);

        if (result)
                return result;
        bool signalled = wait_for_signal(server);
        int cut = weir__server_stop(server, STOP_WITHIN, signals.again);
        return signalled ? cut : -ESHUTDOWN;
}

int
weir_http_serve(const char *address, weir_task_fn *handler, void *context)
{
        int result = weir__runtime_may_stop();

        if (result)
                return result;
        raise_file_limit();
        weir_http_server *server = weir_http_server_new(NULL, handler, context);
        result = server ? watch_signals() : -ENOMEM;
        if (!result) {
                result = serve(server, address);
                unwatch_signals();
        }
        weir_http_server_free(server);
        return result;
}
