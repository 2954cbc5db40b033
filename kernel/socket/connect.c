/* kernel/socket/connect.c: a connection to one address, which never blocks.
 *
 *     weir__connect --> connected
 *             \-------> under way --it is writable, weir__connect_confirm-----------> connected
 *                                \-another event, weir__connect_result--------------> connected, or failed
 *
 * Threads: any.
 * Locks:   none; no state.
 *
 * A full backlog differs between families.  TCP sends its SYN again, so the connection stays under way.  A Unix socket that does
 * not block gives EAGAIN at once and stays unconnected; epoll then reports it as hung up, and never as free.  So the socket is
 * closed, and the caller tries again by its clock. */
#include "kernel/socket/connect.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "kernel/socket/sockets.h"

/* Result: 0, -EINPROGRESS, or the failure.  An interrupted call may have begun or done its work, and a repeated one says so. */
static int
begin(int fd, const struct weir__socket_address *to)
{
        int failed;

        do
                failed = connect(fd, &to->any, to->size) < 0 ? -errno : 0;
        while (failed == -EINTR);
        return failed == -EALREADY ? -EINPROGRESS : failed == -EISCONN ? 0 : failed;
}

/* Closed with a reset: the port does not stay in TIME_WAIT, where it would keep the server from listening. */
static int
refuse_self(int fd)
{
        static const struct linger at_once = {.l_onoff = 1};

        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        return -ECONNREFUSED;
}

/* Why a socket has no peer.  One that has failed is reported as hung up, also when its error was read before. */
static int
find_failure(int fd)
{
        struct pollfd event = {.fd = fd, .events = POLLOUT};
        int error;
        socklen_t size = sizeof error;

        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                return -errno;
        if (error)
                return -error;
        return poll(&event, 1, 0) > 0 && (event.revents & (POLLERR | POLLHUP)) ? -ECONNABORTED : -EINPROGRESS;
}

/* A socket has a peer as soon as it is connected, and none after a reset.  So one call tells that it is connected, and its error
 * has to be read only if it is not. */
int
weir__connect_result(int fd)
{
        struct weir__socket_address ours, peer;

        memset(&peer, 0, sizeof peer);
        peer.size = sizeof peer.storage;
        if (getpeername(fd, &peer.any, &peer.size) < 0)
                return errno == ENOTCONN ? find_failure(fd) : -errno;
        if (!weir__socket_port(&peer) || !weir__socket_name(fd, &ours))
                return 0;
        return weir__socket_same_name(&ours, &peer) ? refuse_self(fd) : 0;
}

/* Only a connection whose ends have one port can be one to itself. */
int
weir__connect_confirm(int fd, const struct weir__socket_address *to)
{
        const in_port_t *wanted = weir__socket_port((struct weir__socket_address *)to), *port;
        struct weir__socket_address ours;

        if (!wanted)
                return 0;
        ours.any.sa_family = AF_UNSPEC;
        ours.size = sizeof ours.storage;
        port = getsockname(fd, &ours.any, &ours.size) < 0 ? NULL : weir__socket_port(&ours);
        return !port || *port == *wanted ? weir__connect_result(fd) : 0;
}

int
weir__connect(const struct weir__socket_address *to, bool *is_under_way)
{
        int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        if (to->any.sa_family != AF_UNIX)
                weir__socket_enable(fd, IPPROTO_TCP, TCP_NODELAY);
        int failed = begin(fd, to);
        if (!failed)
                failed = weir__connect_result(fd);
        *is_under_way = failed == -EINPROGRESS;
        if (!failed || *is_under_way)
                return fd;
        close(fd);
        return failed;
}
