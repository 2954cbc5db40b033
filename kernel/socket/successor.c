/* kernel/socket/successor.c: starts a program with the listening sockets of this one.
 *
 * Threads: any that may wait.
 * Locks:   none.
 *
 * Everything that the new process needs is made before the fork.  Between fork and execve only async-signal-safe calls are made,
 * because other threads may have held any lock.  Signals are blocked around the fork, so no handler of this process runs in the
 * child.  Signals that come meanwhile are not lost: the child restores the mask after its handlers are gone.
 *
 * A pair of sockets joins both processes.  The child writes one byte: the errno of an execve that failed, or 0 when the new
 * program serves (inherit.c).  When it ends, the stream ends. */
#include "kernel/socket/inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/base/clock.h"

#define FIRST_FD    WEIR__INHERIT_FIRST_FD
#define NUMBER_ROOM 20 /* digits and NUL */

extern char **environ;

/* The environment of the child: ours, without the variables of inherited sockets, and new ones. */
struct environment {
        char **variables;
        size_t count;
        char pid[sizeof "LISTEN_PID" + NUMBER_ROOM]; /* the child writes the number */
        char fds[sizeof "LISTEN_FDS" + NUMBER_ROOM], ready_fd[sizeof "WEIR_READY_FD" + NUMBER_ROOM];
        char *names;
};

static char *
make_names(const struct weir__sockets *sockets)
{
        char *names = NULL;
        size_t size;
        FILE *stream = open_memstream(&names, &size);

        if (!stream)
                return NULL;
        fputs("LISTEN_FDNAMES=", stream);
        for (unsigned i = 0; i < sockets->count; i++) {
                const struct weir__socket *socket = &sockets->all[i];

                fputs(i ? ":weir" : "weir", stream);
                if (socket->origin != WEIR__SOCKET_MADE && socket->number >= 0)
                        fprintf(stream, "-fd%d", socket->number);
                else if (socket->has_file)
                        fprintf(stream, "-file-%jx-%jx", (uintmax_t)socket->device, (uintmax_t)socket->inode);
        }
        if (fclose(stream) == 0)
                return names;
        free(names);
        return NULL;
}

static bool
is_replaced(const char *variable)
{
        size_t size = strcspn(variable, "=");

        for (size_t i = 0; i < WEIR__INHERIT_VARIABLES; i++)
                if (strncmp(variable, weir__inherit_variables[i], size) == 0 && !weir__inherit_variables[i][size])
                        return true;
        return false;
}

static bool
environment_init(struct environment *environment, const struct weir__sockets *sockets)
{
        size_t count = 0;

        while (environ && environ[count])
                count++;
        environment->variables = malloc((count + WEIR__INHERIT_VARIABLES + 1) * sizeof *environment->variables);
        environment->names = make_names(sockets);
        if (!environment->variables || !environment->names)
                return false;
        for (size_t i = 0; i < count; i++)
                if (!is_replaced(environ[i]))
                        environment->variables[environment->count++] = environ[i];
        snprintf(environment->fds, sizeof environment->fds, "LISTEN_FDS=%u", sockets->count);
        snprintf(environment->ready_fd, sizeof environment->ready_fd, "WEIR_READY_FD=%u", FIRST_FD + sockets->count);
        environment->variables[environment->count++] = environment->fds;
        environment->variables[environment->count++] = environment->names;
        environment->variables[environment->count++] = environment->ready_fd;
        return true;
}

static void
environment_done(struct environment *environment)
{
        free(environment->variables);
        free(environment->names);
}

/* -- in the child: only calls of signal-safety(7) -- */

/* Adds the number of this process. */
static void
add_pid(struct environment *environment)
{
        static const char variable[] = "LISTEN_PID=";
        char *at = environment->pid + sizeof environment->pid;
        size_t size = strlen(variable);

        *--at = '\0';
        for (pid_t pid = getpid(); pid > 0; pid /= 10)
                *--at = (char)('0' + pid % 10);
        environment->variables[environment->count++] = memcpy(at - size, variable, size);
        environment->variables[environment->count] = NULL;
}

static void
reset_signals(const sigset_t *mask)
{
        for (int signal = 1; signal < NSIG; signal++) {
                struct sigaction action;

                if (sigaction(signal, NULL, &action) < 0 || action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)
                        continue;
                action = (struct sigaction){.sa_handler = SIG_DFL};
                sigaction(signal, &action, NULL);
        }
        sigprocmask(SIG_SETMASK, mask, NULL);
}

/* Duplicates descriptors to the numbers from FIRST_FD on, where they stay open across execve.  All are moved above that range
 * first, because a number in it may belong to another of them. */
static bool
move_fds(int fds[], unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FD + (int)count);
                if (fds[i] < 0)
                        return false;
        }
        for (unsigned i = 0; i < count; i++)
                if (dup2(fds[i], FIRST_FD + (int)i) < 0)
                        return false;
        return true;
}

/* The last descriptor is the ready one. */
__attribute__((noreturn)) static void
become_successor(struct environment *environment, const char *path, char *const arguments[], int fds[], unsigned count)
{
        int ready_fd = fds[count - 1];

        if (move_fds(fds, count)) {
                ready_fd = fds[count - 1]; /* the close-on-exec duplicate */
                add_pid(environment);
                execve(path, arguments, environment->variables);
        }
        unsigned char failed = (unsigned char)errno;
        send(ready_fd, &failed, 1, MSG_NOSIGNAL);
        _exit(127);
}

/* -- in the parent -- */

static pid_t
fork_successor(struct environment *environment, const char *path, char *const arguments[], int fds[], unsigned count)
{
        sigset_t all, before;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pid_t pid = fork();
        if (pid == 0) {
                reset_signals(&before);
                become_successor(environment, path, arguments, fds, count);
        }
        int failed = errno;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return pid < 0 ? -failed : pid;
}

int
weir__successor_start(struct weir__successor *successor, const char *path, char *const arguments[],
                      const struct weir__sockets *sockets)
{
        unsigned count = sockets->count;
        struct environment environment = {0};
        int *fds = malloc((count + 1) * sizeof *fds);
        int ends[2] = {-1, -1};
        bool is_made = environment_init(&environment, sockets) && fds;
        pid_t pid = !is_made ? -ENOMEM : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ? -errno : 0;

        if (!pid) {
                for (unsigned i = 0; i < count; i++)
                        fds[i] = sockets->all[i].fd;
                fds[count] = ends[1];
                pid = fork_successor(&environment, path, arguments, fds, count + 1);
                close(ends[1]);
                if (pid < 0)
                        close(ends[0]);
        }
        environment_done(&environment);
        free(fds);
        *successor = (struct weir__successor){.pid = pid, .ready_fd = pid > 0 ? ends[0] : -1};
        return pid > 0 ? 0 : pid;
}

/* Reads the byte of the successor.  Result: as weir__successor_wait; -EINPROGRESS when there is none yet. */
static int
read_report(const struct weir__successor *successor)
{
        unsigned char report;
        ssize_t count = recv(successor->ready_fd, &report, 1, MSG_DONTWAIT);

        if (count == 1)
                return -(int)report;
        return count < 0 && (errno == EAGAIN || errno == EINTR) ? -EINPROGRESS : -EPIPE;
}

static int
wait_for(const struct weir__successor *successor, weir_nsec until, const int impatient[2])
{
        struct pollfd fds[3] = {{.fd = successor->ready_fd, .events = POLLIN},
                                {.fd = impatient[0], .events = POLLIN},
                                {.fd = impatient[1], .events = POLLIN}};

        for (;;) {
                weir_nsec left = until == WEIR_FOREVER ? 0 : until - weir__clock_monotonic();
                left = left < 0 ? 0 : left;
                struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

                int count = ppoll(fds, 3, until == WEIR_FOREVER ? NULL : &limit, NULL);
                int report = count > 0 && fds[0].revents ? read_report(successor) : -EINPROGRESS;
                if (report != -EINPROGRESS)
                        return report;
                if (count == 0)
                        return -ETIMEDOUT;
                if (count > 0 && (fds[1].revents || fds[2].revents))
                        return -ECANCELED;
        }
}

int
weir__successor_wait(struct weir__successor *successor, weir_nsec within, const int impatient[2])
{
        weir_nsec until = within == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_monotonic(), within);
        int failed = wait_for(successor, until, impatient);

        if (failed) {
                kill(successor->pid, SIGKILL);
                (void)TEMP_FAILURE_RETRY(waitpid(successor->pid, NULL, 0));
        }
        close(successor->ready_fd);
        successor->ready_fd = -1;
        return failed;
}
