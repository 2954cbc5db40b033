/* io/process/spawn.h: starting a program. */
#ifndef WEIR_IO_SPAWN_H
#define WEIR_IO_SPAWN_H

#include "io/process/settings.h"

struct weir__spawned {
        pid_t pid;
        int pidfd;                    /* -1: the system has none (below Linux 5.2) */
        int ends[WEIR__STANDARD_FDS]; /* to read what is collected, non-blocking; -1: none */
};

/* Starts the program.  The thread waits until the process has become the program, which may have to be read from a disk.
 *
 * Result: 0; or why it could not be started: a negative errno, and nothing is left of it. */
int weir__spawn(const struct weir__settings *settings, struct weir__spawned *spawned);

/* The child sets its 0, 1 and 2 in turn, so what it takes them from must lie above.  `fd` may be -1, with errno.  Result: the
 * descriptor, or a negative errno, and then `fd` is closed. */
int weir__spawn_lift(int fd);

#endif
