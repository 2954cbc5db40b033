/* io/process/child.c: what a new process does before it becomes the program.
 *
 * Threads: the only one of the child.  The thread of the parent waits until the child has become the program or has ended.
 * Locks:   none.
 *
 * The child writes to the memory of the parent, where other threads run on.  So it makes calls of the system, and nothing else:
 * no allocation, no lock, no function of the C library but syscall().  No sanitizer looks at this file (CMakeLists.txt): what it
 * noted about the child would lie in the memory of the parent. */
#include "io/process/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define SIGNALS      64
#define MASK_SIZE    8  /* bytes of a mask of signals, as the system has it */
#define ACTION_WORDS 20 /* room for an action of a signal; the first word is the handler */
#define FIRST_OTHER  3  /* descriptor that the program does not get */

/* Returns 0 or a negative errno. */
static int
result_of(long returned)
{
        return returned < 0 ? -errno : 0;
}

/* -- signals -- */

/* A handler would run in the memory of the parent, so none is left when signals are let through.  What is ignored stays so, but
 * for SIGPIPE: programs that are filters rely on its default action. */
static void
reset_signals(void)
{
        static const unsigned long by_default[ACTION_WORDS];
        unsigned long action[ACTION_WORDS], none = 0;

        for (int signo = 1; signo <= SIGNALS; signo++) {
                action[0] = 0;
                if (syscall(SYS_rt_sigaction, signo, NULL, action, MASK_SIZE) < 0 || action[0] == (unsigned long)SIG_DFL ||
                    (action[0] == (unsigned long)SIG_IGN && signo != SIGPIPE))
                        continue;
                syscall(SYS_rt_sigaction, signo, by_default, NULL, MASK_SIZE);
        }
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, MASK_SIZE);
}

/* -- descriptors -- */

/* Descriptors below it are open by now, so the new one gets that number. */
static int
open_nothing(int which)
{
        syscall(SYS_close, which);
        return result_of(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0));
}

/* Where the parent has closed one of the three, its number may be that of something else, which is close-on-exec. */
static int
set_standard(const struct weir__launch *launch, int which)
{
        int fd = launch->fds[which];

        switch (fd) {
        case WEIR__LAUNCH_NOTHING: return open_nothing(which);
        case WEIR__LAUNCH_MERGED: return result_of(syscall(SYS_dup3, 1, which, 0));
        case WEIR__LAUNCH_INHERITED: return syscall(SYS_fcntl, which, F_GETFD) == 0 ? 0 : open_nothing(which);
        default: return result_of(syscall(SYS_dup3, fd, which, 0));
        }
}

/* An entry of a directory, as getdents64(2) writes it. */
struct entry {
        uint64_t inode, offset;
        uint16_t size;
        uint8_t type;
        char name[];
};

static void
close_entry(const struct entry *entry, int except)
{
        int fd = 0;

        for (const char *at = entry->name; *at; at++) {
                if (*at < '0' || *at > '9')
                        return;
                fd = 10 * fd + (*at - '0');
        }
        if (fd >= FIRST_OTHER && fd != except)
                syscall(SYS_close, fd);
}

/* Below Linux 5.9. */
static void
close_others_one_by_one(void)
{
        _Alignas(8) char entries[1024];
        int directory = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY, 0);
        long size;

        if (directory < 0) { /* no /proc: all that there may be, within reason */
                for (int fd = FIRST_OTHER; fd < 65536; fd++)
                        syscall(SYS_close, fd);
                return;
        }
        while ((size = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0)
                for (long at = 0; at < size; at += ((struct entry *)(entries + at))->size)
                        close_entry((struct entry *)(entries + at), directory);
        syscall(SYS_close, directory);
}

static int
set_descriptors(const struct weir__launch *launch)
{
        for (int which = 0; which < WEIR__STANDARD_FDS; which++) {
                int failed = set_standard(launch, which);

                if (failed)
                        return failed;
        }
        if (syscall(SYS_close_range, FIRST_OTHER, ~0U, 0) < 0)
                close_others_one_by_one();
        return 0;
}

/* -- the rest -- */

static int
set_group(enum weir_process_group group)
{
        switch (group) {
        case WEIR_PROCESS_GROUP_SESSION: return result_of(syscall(SYS_setsid));
        case WEIR_PROCESS_GROUP_OWN: return result_of(syscall(SYS_setpgid, 0, 0));
        default: return 0;
        }
}

static int
set_rlimits(const struct weir__rlimit *rlimit)
{
        for (; rlimit; rlimit = rlimit->next) {
                const uint64_t limits[2] = {rlimit->soft, rlimit->hard};

                if (syscall(SYS_prlimit64, 0, rlimit->resource, limits, NULL) < 0)
                        return -errno;
        }
        return 0;
}

/* Returns why none of the candidates has become the program: that one may not be executed says more than that another is not
 * there. */
static int
execute(const struct weir__launch *launch)
{
        int failed = -ENOENT;

        for (char *const *path = launch->candidates; *path; path++) {
                syscall(SYS_execve, *path, launch->argv, launch->environment);
                switch (errno) {
                case EACCES: failed = -EACCES; break;
                case ENOENT:
                case ENOTDIR:
                case ENODEV:
                case ESTALE:
                case ETIMEDOUT:
                        if (!path[1] && path == launch->candidates)
                                return -errno;
                        break;
                default: return -errno;
                }
        }
        return failed;
}

int
weir__launch_main(void *argument)
{
        struct weir__launch *launch = argument;
        int failed = set_group(launch->group);

        if (!failed && launch->directory)
                failed = result_of(syscall(SYS_chdir, launch->directory));
        if (!failed)
                failed = set_descriptors(launch);
        if (!failed)
                failed = set_rlimits(launch->rlimits);
        if (!failed) {
                reset_signals();
                failed = execute(launch);
        }
        launch->failed = failed;
        for (;;)
                syscall(SYS_exit_group, 127);
}
