/* io/process/spawn.c: starting a program.
 *
 * Threads: a thread of the executor, which waits until the process has become the program.
 * Locks:   none.
 *
 * All that needs memory is made before the child is there: its environment, and the paths at which the program may be.  The child
 * shares the memory of the parent until it becomes the program (CLONE_VM), so no page table is copied, and the child says in
 * `failed` what went wrong. */
#include "io/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/process/child.h"
#include "kernel/memory/sanitized.h"

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

#define CHILD_STACK_SIZE (16 * 1024) /* bytes: it has buffers of some kilobytes at most */
#define STACK_ALIGN      16
#define MASK_SIZE        8               /* bytes of a mask of signals, as the system has it */
#define FIRST_OTHER      3               /* descriptor behind input, output and errors */
#define SEARCHED         "/bin:/usr/bin" /* without a PATH */

/* ThreadSanitizer's own clone() is for a child with memory of its own. */
#if WEIR__SANITIZED_THREAD
int __clone(int (*main)(void *), void *stack, int flags, void *argument, ...);
#define clone __clone
#endif

extern char **environ;

/* -- the environment -- */

static bool
has_name(const char *text, const struct weir__variable *variable)
{
        return strncmp(text, variable->text, variable->name_size) == 0 && text[variable->name_size] == '=';
}

/* Where the variable is, or the end. */
static size_t
find_variable(char *const *environment, size_t count, const struct weir__variable *variable)
{
        size_t at = 0;

        while (at < count && !has_name(environment[at], variable))
                at++;
        return at;
}

/* Returns the new count. */
static size_t
change_variable(char **environment, size_t count, struct weir__variable *variable)
{
        size_t at = find_variable(environment, count, variable);
        bool is_set = variable->text[variable->name_size] == '=';

        if (is_set) {
                environment[at] = variable->text;
                return at == count ? count + 1 : count;
        }
        if (at == count)
                return count;
        environment[at] = environment[count - 1];
        return count - 1;
}

/* Returns NULL when out of memory.  *made is to be freed. */
static char *const *
make_environment(const struct weir__settings *settings, char ***made)
{
        static char *none[] = {NULL};
        char **all = settings->is_environment_cleared || !environ ? none : environ;
        size_t count = 0, room = 1;

        *made = NULL;
        if (!settings->variables)
                return all;
        while (all[count])
                count++;
        for (const struct weir__variable *variable = settings->variables; variable; variable = variable->next)
                room++;
        *made = malloc((count + room) * sizeof **made);
        if (!*made)
                return NULL;
        memcpy(*made, all, count * sizeof **made);
        for (struct weir__variable *variable = settings->variables; variable; variable = variable->next)
                count = change_variable(*made, count, variable);
        (*made)[count] = NULL;
        return *made;
}

/* -- the search -- */

static const char *
path_of(char *const *environment)
{
        for (; *environment; environment++)
                if (strncmp(*environment, "PATH=", 5) == 0)
                        return *environment + 5;
        return SEARCHED;
}

/* One block: the pointers, and behind them the paths.  An empty element of PATH is the present directory.  NULL: out of
 * memory. */
static char **
make_candidates(const char *program, const char *path)
{
        size_t size = strlen(program), count = 1;
        bool is_path = strchr(program, '/') != NULL;

        if (is_path)
                path = "";
        for (const char *at = path; *at; at++)
                count += *at == ':';
        char **candidates = malloc((count + 1) * sizeof *candidates + strlen(path) + count * (size + 2));
        if (!candidates)
                return NULL;
        char *to = (char *)(candidates + count + 1);
        for (size_t i = 0; i < count; i++) {
                size_t length = (size_t)(strchrnul(path, ':') - path);

                candidates[i] = to;
                to = mempcpy(to, path, length);
                if (length > 0)
                        *to++ = '/';
                to = stpcpy(to, program) + 1;
                path += length + 1;
        }
        candidates[count] = NULL;
        return candidates;
}

/* -- descriptors -- */

int
weir__spawn_lift(int fd)
{
        if (fd < 0 || fd >= FIRST_OTHER)
                return fd < 0 ? -errno : fd;
        int lifted = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OTHER), failed = -errno;
        close(fd);
        return lifted < 0 ? failed : lifted;
}

static int
write_all(int fd, const char *text, size_t size)
{
        while (size > 0) {
                ssize_t written = write(fd, text, size);

                if (written < 0 && errno != EINTR)
                        return -errno;
                if (written > 0) {
                        text += written;
                        size -= (size_t)written;
                }
        }
        return lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* A file in memory: nobody has to write while the program reads, and a program that does not read does no harm. */
static int
open_text(const struct weir__standard *standard)
{
        int fd = weir__spawn_lift(memfd_create("weir input", MFD_CLOEXEC));
        int failed = fd < 0 ? 0 : write_all(fd, standard->text, standard->size);

        if (!failed)
                return fd;
        close(fd);
        return failed;
}

/* Returns the end for the child. */
static int
open_pipe(int *end)
{
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        int fd = weir__spawn_lift(ends[1]);
        if (fd < 0)
                close(ends[0]);
        else
                *end = ends[0];
        return fd;
}

/* Those of the child that this call has opened. */
static void
close_own(const struct weir__settings *settings, const int fds[WEIR__STANDARD_FDS])
{
        for (int which = 0; which < WEIR__STANDARD_FDS; which++)
                if (fds[which] >= 0 && settings->standard[which].kind != WEIR__STANDARD_FD)
                        close(fds[which]);
}

static void
close_ends(struct weir__spawned *spawned)
{
        for (int which = 0; which < WEIR__STANDARD_FDS; which++)
                if (spawned->ends[which] >= 0)
                        close(spawned->ends[which]);
}

/* Returns a descriptor, one of enum weir__launch_fd, or a negative errno in *failed. */
static int
open_standard(const struct weir__standard *standard, int *end, int *failed)
{
        int fd = WEIR__LAUNCH_NOTHING;

        switch (standard->kind) {
        case WEIR__STANDARD_NOTHING: return WEIR__LAUNCH_NOTHING;
        case WEIR__STANDARD_INHERITED: return WEIR__LAUNCH_INHERITED;
        case WEIR__STANDARD_MERGED: return WEIR__LAUNCH_MERGED;
        case WEIR__STANDARD_FD: return standard->fd;
        case WEIR__STANDARD_TEXT: fd = open_text(standard); break;
        case WEIR__STANDARD_COLLECT: fd = open_pipe(end); break;
        }
        if (fd < 0)
                *failed = fd;
        return fd < 0 ? WEIR__LAUNCH_NOTHING : fd;
}

/* -- the child -- */

/* No handler of the program may run in the child, which has its memory. */
static int
start_child(struct weir__launch *launch, struct weir__spawned *spawned)
{
        char *stack = malloc(CHILD_STACK_SIZE);
        uint64_t all = ~UINT64_C(0), before;

        if (!stack)
                return -ENOMEM;
        char *top = stack + CHILD_STACK_SIZE - (uintptr_t)(stack + CHILD_STACK_SIZE) % STACK_ALIGN;
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, MASK_SIZE);
        /* Until it is the program its end is no SIGCHLD, and no wait of the caller's own finds it. */
        spawned->pid = clone(weir__launch_main, top, CLONE_VM | CLONE_VFORK | CLONE_PIDFD, launch, &spawned->pidfd);
        int failed = spawned->pid < 0 ? -errno : launch->failed;
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, MASK_SIZE);
        free(stack);
        if (spawned->pid < 0 || !failed)
                return failed;
        siginfo_t info;
        while (waitid(P_PID, (id_t)spawned->pid, &info, WEXITED | __WALL) < 0 && errno == EINTR)
                ;
        if (spawned->pidfd >= 0)
                close(spawned->pidfd);
        return failed;
}

static int
open_all_and_start(const struct weir__settings *settings, struct weir__launch *launch, struct weir__spawned *spawned)
{
        int failed = 0;

        for (int which = 0; which < WEIR__STANDARD_FDS; which++)
                launch->fds[which] = failed ? WEIR__LAUNCH_NOTHING
                                            : open_standard(&settings->standard[which], &spawned->ends[which], &failed);
        if (!failed)
                failed = start_child(launch, spawned);
        close_own(settings, launch->fds);
        if (failed)
                close_ends(spawned);
        return failed;
}

int
weir__spawn(const struct weir__settings *settings, struct weir__spawned *spawned)
{
        char **made, **candidates = NULL;
        char *const *environment = make_environment(settings, &made);
        int failed = -ENOMEM;

        *spawned = (struct weir__spawned){.pid = -1, .pidfd = -1, .ends = {-1, -1, -1}};
        if (environment)
                candidates = make_candidates(settings->argv[0], path_of(environment));
        if (candidates) {
                struct weir__launch launch = {.argv = settings->argv,
                                              .environment = environment,
                                              .candidates = candidates,
                                              .directory = settings->directory,
                                              .group = settings->group,
                                              .rlimits = settings->rlimits};

                failed = open_all_and_start(settings, &launch, spawned);
        }
        free(candidates);
        free(made);
        return failed;
}
