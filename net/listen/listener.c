/* net/listen/listener.c: new connections.
 *
 *     watching --EMFILE, ENOMEM ...--> paused --a while, or room--> watching --> closed
 *
 * Threads: the owner of the poller only.
 *
 * Out of descriptors or memory, the socket stays readable.  That costs nothing, because it is watched edge-triggered.  Accepting
 * goes on when a connection of this poller closes, or after a pause.
 *
 * A socket that several pollers watch is watched with EPOLLEXCLUSIVE, so a connection wakes one sleeping poller and not all of
 * them.  Pollers that do not sleep find the event later, and get one EAGAIN at most.  A poller that was woken must accept until
 * EAGAIN: the system does not pass its event on to another poller, edge-triggered or not.  So a poller that pauses comes back
 * within 50 ms (again_run).
 *
 * A socket may live on at another poller or in another process.  For the same reason it is withdrawn from epoll first, then
 * emptied, then closed.  If it were emptied first, a wake-up in between would come to this poller, and nobody would accept the
 * connection.  A close alone would not end the watching, because epoll watches the socket and not the descriptor. */
#include "net/listen/listener.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "kernel/base/clock.h"
#include "kernel/observe/log.h"
#include "kernel/socket/stream.h"
#include "kernel/worker/user.h"
#include "net/listen/admission.h"
#include "net/listen/server.h"

#define ACCEPTED_AT_ONCE 8
#define ACCEPT_PAUSE     WEIR_MSEC(50)

static bool
is_exhaustion(int error)
{
        return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Goes on accepting after that time; 0: behind other work. */
static void
accept_again(struct weir__listener *listener, weir_nsec after)
{
        struct weir__branch *branch = listener->branch;
        bool was_set = listener->is_again_set;

        if (was_set && !weir__alarm_clear(branch->poller, &listener->again))
                return; /* its work is on its way */
        listener->is_again_set = weir__alarm_set(branch->poller, &listener->again, weir__clock_after(weir__clock_now(), after));
        if (listener->is_again_set && !was_set)
                weir__users_add(&branch->server->users);
        else if (was_set && !listener->is_again_set)
                weir__users_remove(&branch->server->users);
}

/* Out of descriptors, accept fails also if nobody waits.  No idle connection must be closed for that. */
static bool
somebody_waits(const struct weir__listener *listener)
{
        struct pollfd queue = {.fd = listener->source.fd, .events = POLLIN};

        return poll(&queue, 1, 0) > 0;
}

/* Accepts one connection.  Returns false when there is none now, or no room for it.  Any other failure may be one of
 * that connection, which has left the queue then, or one that stays, as in a sandbox.  So accept is tried again. */
static bool
accept_one(struct weir__listener *listener)
{
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        int fd = accept4(listener->source.fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

        listener->failures = fd < 0 && errno != EAGAIN ? listener->failures + 1 : 0;
        if (fd >= 0) {
                struct weir__peer peer = weir__peer_of(&address, size);

                listener->branch->server->ops->accepted(listener->branch, fd, &peer,
                                                        weir__admission_enter(listener->branch, &peer));
                return true;
        }
        if (errno == EAGAIN || errno == EBADF || errno == EINVAL)
                return false;
        if (!is_exhaustion(errno))
                return true;
        if (!somebody_waits(listener))
                return false;
        int error = errno;
        weir_nsec since;
        void *idle = weir__admission_longest_idle(listener->branch, &since);
        listener->is_paused = !idle;
        listener->shortage = idle ? 0 : error;
        if (idle)
                listener->branch->server->ops->evict(idle, true);
        else
                accept_again(listener, ACCEPT_PAUSE);
        return idle;
}

static void
accept_some(struct weir__listener *listener)
{
        for (unsigned i = 0; i < ACCEPTED_AT_ONCE; i++)
                if (listener->source.fd < 0 || listener->is_paused || !accept_one(listener))
                        return;
        if (!listener->failures || somebody_waits(listener))
                accept_again(listener, listener->failures ? ACCEPT_PAUSE : 0);
}

/* The listener may be gone. */
static void
say_shortage(void *error)
{
        static struct weir__log_limit limit;

        weir__log_limited(&limit, WEIR_LOG_WARNING, "no connection can be accepted (%s): clients wait until others leave",
                          strerror(*(int *)error));
}

/* The shortage has lasted for a pause when it is said. */
static void
again_run(struct weir__work *work)
{
        static const struct weir__callee callee = {"a log function", NULL, "a log function"};
        struct weir__listener *listener = weir__container_of(work, struct weir__listener, again.work);

        listener->is_again_set = listener->is_paused = false;
        accept_some(listener);
        int shortage = listener->is_paused ? listener->shortage : 0;
        weir__users_remove(&listener->branch->server->users);
        if (shortage)
                weir__user_call_as(&callee, NULL, say_shortage, &shortage);
}

static const struct weir__work_ops again_ops = {.run = again_run};

/* A paused listener may be waiting for its descriptor. */
void
weir__listeners_connection_closed(struct weir__branch *branch, const struct weir__peer *peer, bool is_admitted, bool has_place)
{
        if (is_admitted)
                weir__admission_leave(branch, peer, has_place);
        for (unsigned i = 0; i < branch->listener_count; i++)
                if (branch->listeners[i].is_paused) {
                        branch->listeners[i].is_paused = false;
                        accept_again(&branch->listeners[i], 0);
                }
}

static void
ready(struct weir__source *source, uint32_t events)
{
        (void)events;
        accept_some((struct weir__listener *)source);
}

static void listener_close(struct weir__listener *listener, bool should_empty);

/* The runtime ends. */
static void
close_source(struct weir__source *source)
{
        struct weir__listener *listener = (struct weir__listener *)source;

        eventfd_write(listener->branch->server->ended_fd, 1);
        listener_close(listener, false);
}

static const struct weir__source_ops listener_ops = {ready, close_source, close_source};

static int
listener_open(struct weir__listener *listener, struct weir__branch *branch)
{
        listener->source.ops = &listener_ops;
        listener->source.fd = listener->socket->fd;
        listener->branch = branch;
        listener->again.work.ops = &again_ops;
        int failed = weir__source_add(branch->poller, &listener->source, EPOLLIN | (listener->is_shared ? EPOLLEXCLUSIVE : 0));
        if (failed)
                listener->source.fd = -1;
        else
                weir__users_add(&branch->server->users);
        return failed;
}

int
weir__listeners_open(struct weir__branch *branch)
{
        int failed = 0;

        for (unsigned i = 0; i < branch->listener_count && !failed; i++)
                failed = listener_open(&branch->listeners[i], branch);
        return failed;
}

static void
listener_close(struct weir__listener *listener, bool should_empty)
{
        struct weir__branch *branch = listener->branch;

        if (listener->source.fd < 0)
                return;
        weir__source_withdraw(branch->poller, &listener->source);
        for (unsigned i = 0; should_empty && i < SOMAXCONN && listener->failures < ACCEPTED_AT_ONCE && accept_one(listener); i++)
                ;
        listener->source.fd = -1;
        weir__socket_leave(listener->socket);
        listener->socket = NULL;
        if (listener->is_again_set && weir__alarm_clear(branch->poller, &listener->again)) {
                listener->is_again_set = false;
                weir__users_remove(&branch->server->users);
        }
        weir__users_remove(&branch->server->users);
}

void
weir__listeners_close(struct weir__branch *branch)
{
        for (unsigned i = 0; i < branch->listener_count; i++)
                listener_close(&branch->listeners[i], true);
}
