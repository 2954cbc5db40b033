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
#include <limits.h>
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

#define AT_LIMIT INT_MIN /* in place of an errno */

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

/* There is no room for the connection that waits.  Accepting goes on when one closes here, or after a pause. */
static void
wait_for_room(struct weir__listener *listener, int shortage)
{
        listener->is_paused = true;
        listener->shortage = shortage;
        accept_again(listener, ACCEPT_PAUSE);
}

/* Accepts the connection, and puts its address into *peer.  Returns it, or a negative errno; AT_LIMIT: the server has as many as
 * it may have, and waits for permits. */
static int
take_one(struct weir__listener *listener, struct weir__peer *peer, bool *is_admitted)
{
        struct weir__branch *branch = listener->branch;
        bool takes_first = branch->server->ops->waits_at_limit;
        struct sockaddr_storage address;
        socklen_t size = sizeof address;

        if (takes_first && !weir__admission_take_permit(branch->server))
                return AT_LIMIT;
        int fd = accept4(listener->source.fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        int result = fd < 0 ? -errno : fd;
        if (fd < 0 && takes_first)
                weir__admission_give_permit_back(branch->server);
        if (fd < 0)
                return result;
        *peer = weir__peer_of(&address, size);
        *is_admitted = (takes_first ? weir__admission_enter_with_permit : weir__admission_enter)(branch, peer);
        return fd;
}

/* Accepts one connection.  Returns false when there is none now, or no room for it.  Any other failure may be one of
 * that connection, which has left the queue then, or one that stays, as in a sandbox.  So accept is tried again. */
static bool
accept_one(struct weir__listener *listener)
{
        bool is_admitted = false;
        struct weir__peer peer;
        int fd = take_one(listener, &peer, &is_admitted);

        listener->failures = fd < 0 && fd != -EAGAIN && fd != AT_LIMIT ? listener->failures + 1 : 0;
        if (fd >= 0)
                listener->branch->server->ops->accepted(listener->branch, fd, &peer, is_admitted);
        if (fd >= 0 || (fd != -EAGAIN && fd != -EBADF && fd != -EINVAL && fd != AT_LIMIT && !is_exhaustion(-fd)))
                return true;
        if (fd == -EAGAIN || fd == -EBADF || fd == -EINVAL || !somebody_waits(listener))
                return false;
        weir_nsec since;
        void *idle = weir__admission_longest_idle(listener->branch, &since);
        if (idle)
                listener->branch->server->ops->evict(idle, true);
        else
                wait_for_room(listener, fd == AT_LIMIT ? AT_LIMIT : -fd);
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
        int shortage = *(int *)error;

        weir__log_limited(&limit, WEIR_LOG_WARNING, "no connection can be accepted (%s): clients wait until others leave",
                          shortage == AT_LIMIT ? "there are max_connections" : strerror(shortage));
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
weir__listeners_connection_closed(struct weir__branch *branch, const struct weir__peer *peer, bool is_admitted, bool has_permit)
{
        if (is_admitted)
                weir__admission_leave(branch, peer, has_permit);
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
