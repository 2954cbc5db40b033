/* kernel/socket/inherit.h: listening sockets that the process inherits, and those that its successor inherits. */
#ifndef WEIR_KERNEL_INHERIT_H
#define WEIR_KERNEL_INHERIT_H

#include <poll.h>

#include <weir/time.h>

#include "kernel/socket/sockets.h"

#define WEIR__INHERIT_FIRST_FD  3
#define WEIR__INHERIT_VARIABLES 5

/* The environment variables that describe inherited sockets. */
extern const char *const weir__inherit_variables[WEIR__INHERIT_VARIABLES] __attribute__((visibility("hidden")));

/* Reads the inherited sockets from the environment, the first time.  Later calls do nothing.
 * Result:  0 or -ENOMEM. */
int weir__inherit(void);

/* Move inherited sockets into `sockets`: all at an address, with any port if `is_any_port`; the one with a number; or the first
 * one that nobody has asked for, with all others at its address.
 *
 * Result:  how many; -ENOMEM; -EBADF when the number is the descriptor of another inherited socket; -ENOTSOCK, -EINVAL when the
 *          descriptor is unfit.
 * Threads: any. */
int weir__inherit_named(const struct weir__socket_address *name, bool is_any_port, struct weir__sockets *sockets);
int weir__inherit_number(int number, struct weir__sockets *sockets);
int weir__inherit_rest(struct weir__sockets *sockets);

/* Returns a socket after a start that failed. */
void weir__inherit_return(const struct weir__socket *socket);

/* How many inherited sockets nobody has asked for. */
unsigned weir__inherit_left(void);

/* Closes those, and reports to the process that started this one, if it waits for that, that this one serves.  Returns how many
 * were closed. */
unsigned weir__inherit_ready(void);
bool weir__inherit_is_awaited(void); /* it waits for the report */

/* A process that gets the sockets. */
struct weir__successor {
        pid_t pid;
        int ready_fd; /* readable when the process serves, or has ended */
};

/* Starts a program with those sockets.
 * Result:  0; -ENOMEM, -EMFILE, the errors of socketpair and fork.  weir__successor_wait reports that execve has failed. */
int weir__successor_start(struct weir__successor *successor, const char *path, char *const arguments[],
                          const struct weir__sockets *sockets);

/* Waits until the process reports that it serves.  Otherwise ends it.
 *
 * Result:  0; -ETIMEDOUT; -EPIPE when it has ended, or has closed the descriptor; -ECANCELED when one of `impatient` (-1: none)
 *          is readable; the errors of execve.
 * Units:   `within` in nanoseconds of real time. */
int weir__successor_wait(struct weir__successor *successor, weir_nsec within, const int impatient[2]);

#endif
