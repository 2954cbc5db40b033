/* kernel/socket/inherit.h: listening sockets that the process was started with, and those that it starts another one with. */
#ifndef WEIR_KERNEL_INHERIT_H
#define WEIR_KERNEL_INHERIT_H

#include <poll.h>

#include <weir/time.h>

#include "kernel/socket/sockets.h"

/* Takes what LISTEN_FDS passes, the first time; later ones do nothing.
 * Result:  0 or -ENOMEM. */
int weir__inherit(void);

/* Move what was inherited into `sockets`: all of that address, with any port if `any_port`; by its number; or one that nobody has
 * asked for, and those at the same address.
 * Result:  how many; -ENOMEM; -EBADF when the number is that of another inherited one; -ENOTSOCK, -EINVAL when it is unfit.
 * Threads: any. */
int weir__inherit_named(const struct weir__socket_address *name, bool any_port, struct weir__sockets *sockets);
int weir__inherit_number(int said, struct weir__sockets *sockets);
int weir__inherit_rest(struct weir__sockets *sockets);

/* Back, after a start that failed. */
void weir__inherit_return(const struct weir__socket *socket);

/* How many nobody has asked for. */
unsigned weir__inherit_left(void);

/* Closes those, and tells the process that started this one, if it wants to know, that this one serves.  Returns how many were
 * closed. */
unsigned weir__inherit_ready(void);
bool weir__inherit_is_awaited(void); /* it does want to know, and was not told */

/* The process that sockets are handed over to. */
struct weir__heir {
        pid_t pid;
        int ready_fd; /* tells when it serves, or has ended */
};

/* Starts a program with those sockets.
 * Result:  0; -ENOMEM, -EMFILE and what pipe and fork report.  That it could not be executed is told by weir__heir_wait. */
int weir__heir_start(struct weir__heir *heir, const char *path, char *const arguments[], const struct weir__sockets *sockets);

/* Waits until it says that it serves.  Otherwise ends it.
 *
 * Result:  0; -ETIMEDOUT; -EPIPE when it has ended, or has closed the descriptor; -ECANCELED when one of `impatient` (-1: none)
 *         is readable; what execve reports.
 * Units:   `within` in nanoseconds of real time. */
int weir__heir_wait(struct weir__heir *heir, weir_nsec within, const int impatient[2]);

#endif
