/* kernel/socket/connect.h: a connection to one address, which never blocks. */
#ifndef WEIR_KERNEL_CONNECT_H
#define WEIR_KERNEL_CONNECT_H

#include <stdbool.h>

#include "kernel/socket/address.h"

/* Begins to connect a stream socket to an address of TCP or of a Unix socket.  It is non-blocking and close-on-exec, and has
 * TCP_NODELAY, as accepted ones have it.
 *
 * Owner:   the caller; close.
 * Result:  the descriptor.  While *is_under_way the socket is not connected yet: it becomes writable when that is decided, and
 *          weir__connect_result reads the outcome.  Else it is connected.
 *          Or a negative errno, and there is no descriptor.  -EAGAIN: not now.  The backlog of a Unix socket is full, or the
 *          system has no room for another connection.  No event reports room, so the caller tries again after a while, such as
 *          1 ms and then twice as long each time, within its time limit.  -ECONNREFUSED and -ENOENT: nobody listens there.
 *          -EMFILE, -ENFILE, -ENOMEM and the other errors of socket(2) and connect(2); never -EINTR.
 * Threads: any. */
int weir__connect(const struct weir__socket_address *to, bool *is_under_way);

/* The outcome of a connection that was under way, when its socket has had an event.
 *
 * Result:  0: it is connected; -EINPROGRESS: the event was about nothing, and another one comes; another negative errno: it has
 *          failed, and the caller closes it.  -ECONNREFUSED also for a connection of TCP to itself: a free port of this host may
 *          have been chosen for our end, which was the very port that we connect to, and on which nobody listens.
 * Threads: any, one at a time. */
int weir__connect_result(int fd);

/* The same when the event has told that the socket is writable, and neither an error nor an end: so it is connected.  `to` is
 * what weir__connect was called with.  It takes one call of the system, and none for a Unix socket. */
int weir__connect_confirm(int fd, const struct weir__socket_address *to);

#endif
