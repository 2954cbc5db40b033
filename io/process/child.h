/* io/process/child.h: what a new process does before it becomes the program. */
#ifndef WEIR_IO_CHILD_H
#define WEIR_IO_CHILD_H

#include "io/process/settings.h"

/* Of the three descriptors, if it is no number of a descriptor above them. */
enum weir__launch_fd {
        WEIR__LAUNCH_NOTHING = -1,
        WEIR__LAUNCH_INHERITED = -2,
        WEIR__LAUNCH_MERGED = -3, /* errors: as the output */
};

/* Made by the parent, and constant then, but for `failed`. */
struct weir__launch {
        char *const *argv, *const *environment;
        char *const *candidates; /* the paths of the program that are tried; NULL ends them */
        const char *directory;   /* NULL: that of the parent */
        int fds[WEIR__STANDARD_FDS];
        enum weir_process_group group;
        const struct weir__rlimit *rlimits;

        volatile int failed; /* why there is no program: 0 or a negative errno.  The child's */
};

/* Runs in the child, which has the memory of the parent, while the parent's thread waits (CLONE_VM, CLONE_VFORK).  All signals
 * are blocked.  It becomes the program, or ends. */
int weir__launch_main(void *launch);

#endif
