/* kernel/socket/listen.h: listening sockets: made, given by number, or inherited. */
#ifndef WEIR_KERNEL_LISTEN_H
#define WEIR_KERNEL_LISTEN_H

#include "kernel/socket/address.h"
#include "kernel/socket/sockets.h"

/* Opens sockets at addresses, which commas or spaces separate:
 *
 *   "host:port", "[v6]:port"       `count` sockets with SO_REUSEPORT: the system spreads connections over them; an empty host is
 *                                  every IPv4 address, and port 0 takes a free port
 *   "unix:path", "unix:@abstract"
 *   "fd:3"                         a descriptor
 *   "listen:"                      all inherited sockets that nobody has asked for by their address
 *
 * An inherited socket is used for its address.
 *
 * Owner:  the caller, by weir__socket_leave and weir__sockets_free; `sockets` is empty after a failure.
 * Result: 0; -EINVAL for an invalid address; -EADDRINUSE also when another process listens there with SO_REUSEPORT;
 *         -ENAMETOOLONG for a path; -EBADF, -ENOTSOCK and -EINVAL for descriptors; -ENOENT for "listen:" when nothing was
 *         inherited; the errors of socket, bind and listen.
 * Threads: any, several at once.  May block while a name is resolved. */
int weir__listen(const char *addresses, unsigned count, struct weir__sockets *sockets, struct weir__fault *fault);

/* Undoes weir__listen when each socket has one user: inherited sockets are returned, sockets of "fd:3" stay open, and the others
 * are closed and their files removed. */
void weir__listen_undo(struct weir__sockets *sockets);

#endif
