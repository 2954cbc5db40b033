/* net/serve/signals.c: a server until a signal comes.
 *
 * Threads: those that call them; a signal handler on any thread.
 *
 * The handler counts signals to stop and writes an eventfd: FIRST at the first signal, AGAIN at each further one.  These are not
 * read while servers wait, so all servers see both.  They are never closed: a handler may still run when the last server has
 * ended, and must not write to another descriptor of that number.
 *
 * SIGUSR2 writes a third eventfd, ANEW.  One of the threads reads it and starts the program anew, with the sockets of all servers
 * that wait here.  Meanwhile no server may be freed.  When the new process serves, all servers stop as after a signal.
 *
 * SIGHUP is listened to while a server waits that has files to be opened again: an access log, certificates.  It writes a fourth
 * eventfd, RELOAD.  One of the threads reads it and does so for all servers. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernel/base/phase.h"
#include "kernel/socket/inherit.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/signals.h"
#include "net/serve/serve.h"

#define READY_WITHIN WEIR_SEC(60) /* the new process */
#define ASKED_WITHIN 1000         /* milliseconds; then no server is expected to ask for inherited sockets */
#define RESTART      SIGUSR2

static const int handled[] = {SIGINT, SIGTERM, RESTART};
#define HANDLED (sizeof handled / sizeof *handled)

enum { FIRST, AGAIN, ANEW, RELOAD, EVENTS };

/* A server that waits; on the stack of its thread. */
struct waiter {
        struct waiter *next;
        struct weir__server *server;
        bool is_serving;
        bool hears_reload; /* constant */
};

static struct {
        pthread_mutex_t mutex;
        pthread_cond_t changed; /* `is_busy` */

        /* Guarded by mutex. */
        struct waiter *waiters; /* the signals are listened to while there are any */
        bool is_busy;           /* a thread looks at all servers that serve */
        bool is_heard[HANDLED];
        pid_t maker; /* of the eventfds: a forked child makes its own */

        /* Lock-free, so that a handler may touch them. */
        _Atomic int events[EVENTS]; /* eventfds */
        _Atomic unsigned count;     /* of signals to stop */
} signals = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void
before_fork(void)
{
        pthread_mutex_lock(&signals.mutex);
}

static void
after_fork(void)
{
        pthread_mutex_unlock(&signals.mutex);
}

static void
become_child(void)
{
        signals.is_busy = false; /* by a thread that is not there */
        pthread_mutex_unlock(&signals.mutex);
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork,
               [WEIR__STEP_IN_CHILD] = become_child);

static void
on_signal(int number)
{
        int event = number == RESTART ? ANEW : atomic_fetch_add(&signals.count, 1) == 0 ? FIRST : AGAIN;

        eventfd_write(signals.events[event], 1);
}

static void
on_reload(int number)
{
        (void)number;
        eventfd_write(signals.events[RELOAD], 1);
}

static const struct weir__signal_listener to_stop = {.fn = on_signal, .should_replace = true}, to_restart = {.fn = on_signal},
                                          to_reload = {.fn = on_reload};

static int
make_eventfds(void)
{
        int fds[EVENTS];

        for (int i = 0; i < EVENTS; i++) {
                fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                if (fds[i] < 0) {
                        int failed = -errno;

                        while (i-- > 0)
                                close(fds[i]);
                        return failed;
                }
        }
        for (int i = 0; i < EVENTS; i++)
                atomic_store(&signals.events[i], fds[i]);
        signals.maker = getpid();
        return 0;
}

static const struct weir__signal_listener *
listener_of(size_t i)
{
        return handled[i] == RESTART ? &to_restart : &to_stop;
}

/* The program may ignore RESTART and SIGHUP, or use them itself. */
static bool
is_ignored(int number)
{
        struct sigaction present;

        return (number == RESTART || number == SIGHUP) && sigaction(number, NULL, &present) == 0 && present.sa_handler == SIG_IGN;
}

static int
install(void)
{
        int failed = signals.maker == getpid() ? 0 : make_eventfds();
        eventfd_t ignored;

        if (failed)
                return failed;
        for (int i = 0; i < EVENTS; i++)
                eventfd_read(signals.events[i], &ignored);
        atomic_store(&signals.count, 0);
        for (size_t i = 0; i < HANDLED; i++)
                signals.is_heard[i] = !is_ignored(handled[i]) && weir__signals_listen(handled[i], listener_of(i)) == 0;
        return 0;
}

static void
uninstall(void)
{
        for (size_t i = 0; i < HANDLED; i++)
                if (signals.is_heard[i])
                        weir__signals_unlisten(handled[i], listener_of(i));
}

static int
watch_signals(struct waiter *waiter)
{
        pthread_mutex_lock(&signals.mutex);
        int failed = signals.waiters ? 0 : install();
        if (!failed) {
                waiter->hears_reload = waiter->server->has_files && !is_ignored(SIGHUP) &&
                                       weir__signals_listen(SIGHUP, &to_reload) == 0;
                waiter->next = signals.waiters;
                signals.waiters = waiter;
        }
        pthread_mutex_unlock(&signals.mutex);
        return failed;
}

static void
unwatch_signals(struct waiter *waiter)
{
        struct waiter **at = &signals.waiters;

        pthread_mutex_lock(&signals.mutex);
        while (signals.is_busy)
                pthread_cond_wait(&signals.changed, &signals.mutex);
        while (*at != waiter)
                at = &(*at)->next;
        *at = waiter->next;
        if (waiter->hears_reload)
                weir__signals_unlisten(SIGHUP, &to_reload);
        if (!signals.waiters)
                uninstall();
        pthread_mutex_unlock(&signals.mutex);
}

/* A server needs a descriptor for each connection.  The soft limit is small only for programs that use select(2). */
static void
raise_file_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
}

/* -- all servers -- */

/* Collects all servers that serve.  They are not freed while `is_busy` is set.  Returns false when another thread is busy with
 * them and the caller does not wait for that, or when out of memory. */
static bool
begin_with_all(struct weir__server ***servers, unsigned *count, bool should_wait)
{
        unsigned room = 0;

        pthread_mutex_lock(&signals.mutex);
        while (should_wait && signals.is_busy)
                pthread_cond_wait(&signals.changed, &signals.mutex);
        for (struct waiter *each = signals.waiters; each; each = each->next)
                room++;
        *servers = signals.is_busy ? NULL : calloc(room, sizeof **servers);
        for (struct waiter *each = signals.waiters; each && *servers; each = each->next)
                if (each->is_serving)
                        (*servers)[(*count)++] = each->server;
        signals.is_busy |= *servers != NULL;
        pthread_mutex_unlock(&signals.mutex);
        return *servers;
}

static void
end_with_all(struct weir__server **servers)
{
        free(servers);
        pthread_mutex_lock(&signals.mutex);
        signals.is_busy = false;
        pthread_cond_broadcast(&signals.changed);
        pthread_mutex_unlock(&signals.mutex);
}

/* -- opening files again -- */

/* The reasons of TLS are in the log already. */
static void
reload_all(void)
{
        struct weir__server **servers;
        unsigned count = 0;

        if (!begin_with_all(&servers, &count, true))
                return;
        for (unsigned i = 0; i < count; i++) {
                int reread = weir__secure_reload(servers[i]);

                if (servers[i]->ops->reload)
                        servers[i]->ops->reload(servers[i]);
                if (reread && reread != -EDOM)
                        weir__log(WEIR_LOG_ERROR, "SIGHUP: the files of TLS are not used: %s; the former ones stay in use",
                                  weir_strerror(reread));
        }
        end_with_all(servers);
}

/* -- starting anew -- */

static void
restart(const struct weir__server *server)
{
        const int impatient[2] = {signals.events[FIRST], server->ended_fd};
        struct weir__server **servers;
        unsigned count = 0;

        if (!begin_with_all(&servers, &count, false))
                return;
        const struct weir__givers givers = {servers, count};
        int result = weir__server_restart(&givers, READY_WITHIN, impatient);
        end_with_all(servers);
        if (result > 0)
                weir__log(WEIR_LOG_INFO, "process %d serves now; this one ends", result);
        else if (result != -ECANCELED)
                weir__log(WEIR_LOG_ERROR, "the new process does not serve: %s; this one goes on", weir_strerror(result));
        if (result > 0)
                on_signal(SIGTERM);
}

/* Tells the process that has started this one that this one serves.  If no server has asked for a socket until now, its address
 * is no longer among the addresses of this program. */
static void
end_inheriting(void)
{
        unsigned left = weir__inherit_ready();

        if (left)
                weir__log(WEIR_LOG_WARNING, "%u inherited sockets, at addresses of no server, are closed", left);
}

/* -- serving -- */

/* Returns false when the runtime ended before a signal came. */
static bool
wait_for_signal(const struct weir__server *server)
{
        struct pollfd fds[4] = {{.fd = signals.events[FIRST], .events = POLLIN},
                                {.fd = server->ended_fd, .events = POLLIN},
                                {.fd = signals.events[ANEW], .events = POLLIN},
                                {.fd = signals.events[RELOAD], .events = POLLIN}};

        while (!fds[0].revents && !fds[1].revents) {
                eventfd_t ignored;
                int count = poll(fds, 4, weir__inherit_is_awaited() ? ASKED_WITHIN : -1);

                if (count <= 0)
                        fds[0].revents = fds[1].revents = 0;
                if (count == 0)
                        end_inheriting();
                else if (count > 0 && fds[2].revents && eventfd_read(signals.events[ANEW], &ignored) == 0)
                        restart(server);
                else if (count > 0 && fds[3].revents && eventfd_read(signals.events[RELOAD], &ignored) == 0)
                        reload_all();
        }
        return fds[0].revents;
}

static int
serve(struct waiter *waiter, const char *address)
{
        int result = weir__server_start(waiter->server, address);

        if (result)
                return result;
        pthread_mutex_lock(&signals.mutex);
        waiter->is_serving = true;
        pthread_mutex_unlock(&signals.mutex);
        bool is_signalled = wait_for_signal(waiter->server);
        int cut = weir__server_stop(waiter->server, waiter->server->stop_within, signals.events[AGAIN]);
        return is_signalled ? cut : -ESHUTDOWN;
}

int
weir__server_serve(struct weir__server *server, const char *address)
{
        struct waiter waiter = {.server = server};

        raise_file_limit();
        int result = watch_signals(&waiter);
        if (!result) {
                result = serve(&waiter, address);
                unwatch_signals(&waiter);
        }
        return result;
}
