/* kernel/socket/listen.h: listening sockets: made, given by number, or inherited. */
#ifndef WEIR_KERNEL_LISTEN_H
#define WEIR_KERNEL_LISTEN_H

#include "kernel/socket/sockets.h"

/* What a start has to say of the address that it failed for.  Size 0: there was none in the text; NULL: it did not fail for one. */
struct weir__fault {
        const char *address; /* in the text that was given, not terminated */
        int size;
};

/* Opens sockets at each of the addresses, which commas or spaces separate: "host:port" and "[v6]:port", `count` sockets each
 * (SO_REUSEPORT: the system spreads connections over them); an empty host is every IPv4 address, port 0 takes a free one;
 * "unix:path", "unix:@abstract"; "fd:3", a descriptor; "listen:", all that was inherited and nobody asked for by its address.
 * What was inherited with an address that is named is used for it.
 *
 * Owner:  the caller, by weir__sockets_close; `sockets` is empty before, and after a failure.
 * Result:  0; -EINVAL for an address that is none; -EADDRINUSE also when another process listens there with SO_REUSEPORT;
 *         -ENAMETOOLONG for a path; -EBADF, -ENOTSOCK and -EINVAL for descriptors; -ENOENT for "listen:" when nothing was
 *         inherited; what socket, bind and listen report.
 * Threads: any, several at once.  May block while a name is resolved. */
int weir__listen(const char *addresses, unsigned count, struct weir__sockets *sockets, struct weir__fault *fault);

/* After a start that failed, each with one user: inherited ones are given back, given ones stay open, the others are closed,
 * and their files removed. */
void weir__sockets_undo(struct weir__sockets *sockets);

#endif
