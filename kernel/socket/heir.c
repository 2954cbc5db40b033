/* kernel/socket/heir.c: a program that is started with the listening sockets of this one.
 *
 * Threads: any that may wait.
 * Locks:   none.
 *
 * What the new process needs is made before the fork; behind it, up to execve, are only calls that are allowed there: other
 * threads may have held any lock.  Signals are blocked around the fork, so that no handler of this process runs in the child,
 * and what comes meanwhile is not lost either: with the mask of before, and no handlers, the child takes it like any new
 * process.
 *
 * Both are joined by a pair of sockets.  The child writes one byte: the errno of an execve that failed; or 0, by who serves
 * then (inherit.c).  If it ends, the stream does. */
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

#define FIRST_FD  3
#define NAME_ROOM 64 /* of a socket in LISTEN_FDNAMES */
#define PID       "LISTEN_PID="
#define VARIABLES 4

extern char **environ;

/* The environment of the child: ours, and what it is told. */
struct surroundings {
        char **list;
        char pid[sizeof PID + 20]; /* its digits are written by the child */
        char count[sizeof "LISTEN_FDS=" + 20], ready[sizeof "WEIR_READY_FD=" + 20];
        char *names;
};

static void
write_name(char text[NAME_ROOM], const struct weir__socket *socket)
{
        if (socket->origin != WEIR__SOCKET_MADE && socket->said >= 0)
                snprintf(text, NAME_ROOM, "weir-fd%d", socket->said);
        else if (socket->has_file)
                snprintf(text, NAME_ROOM, "weir-file-%jx-%jx", (uintmax_t)socket->device, (uintmax_t)socket->inode);
        else
                snprintf(text, NAME_ROOM, "weir");
}

static char *
make_names(const struct weir__sockets *sockets)
{
        static const char variable[] = "LISTEN_FDNAMES=";
        char *names = malloc(sizeof variable + (size_t)sockets->count * NAME_ROOM);
        char *end = names ? stpcpy(names, variable) : NULL;

        for (unsigned i = 0; names && i < sockets->count; i++) {
                char name[NAME_ROOM];

                write_name(name, &sockets->all[i]);
                end = stpcpy(stpcpy(end, i ? ":" : ""), name);
        }
        return names;
}

static bool
is_ours(const char *variable)
{
        static const char *const ours[] = {PID, "LISTEN_FDS=", "LISTEN_FDNAMES=", "LISTEN_PIDFDID=", "WEIR_READY_FD="};

        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
                if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
                        return true;
        return false;
}

static bool
surroundings_init(struct surroundings *its, const struct weir__sockets *sockets)
{
        size_t size = 0, used = 0;

        while (environ && environ[size])
                size++;
        its->list = malloc((size + VARIABLES + 1) * sizeof *its->list);
        its->names = make_names(sockets);
        if (!its->list || !its->names)
                return false;
        for (size_t i = 0; i < size; i++)
                if (!is_ours(environ[i]))
                        its->list[used++] = environ[i];
        strcpy(its->pid, PID);
        snprintf(its->count, sizeof its->count, "LISTEN_FDS=%u", sockets->count);
        snprintf(its->ready, sizeof its->ready, "WEIR_READY_FD=%u", FIRST_FD + sockets->count);
        its->list[used++] = its->pid;
        its->list[used++] = its->count;
        its->list[used++] = its->names;
        its->list[used++] = its->ready;
        its->list[used] = NULL;
        return true;
}

static void
surroundings_done(struct surroundings *its)
{
        free(its->list);
        free(its->names);
}

/* -- in the child: what signal-safety(7) allows -- */

static void
write_digits(char *text, unsigned long number)
{
        char digits[20];
        size_t count = 0;

        do {
                digits[count++] = (char)('0' + number % 10);
                number /= 10;
        } while (number);
        while (count > 0)
                *text++ = digits[--count];
        *text = '\0';
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

/* Has descriptors under the numbers from FIRST_FD on, open across execve.  They are moved above that range first: each number in
 * it may be another one of them now. */
static bool
place(int fds[], unsigned count)
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

__attribute__((noreturn)) static void
become_heir(struct surroundings *its, const char *path, char *const arguments[], int fds[], unsigned count)
{
        int ready_fd = fds[count - 1];

        if (place(fds, count)) {
                ready_fd = fds[count - 1]; /* the one that is closed by execve; that which stays open has the last number */
                write_digits(its->pid + strlen(PID), (unsigned long)getpid());
                execve(path, arguments, its->list);
        }
        unsigned char failed = (unsigned char)errno;
        send(ready_fd, &failed, 1, MSG_NOSIGNAL);
        _exit(127);
}

/* -- in the parent -- */

static pid_t
fork_heir(struct surroundings *its, const char *path, char *const arguments[], int fds[], unsigned count)
{
        sigset_t all, before;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pid_t pid = fork();
        if (pid == 0) {
                reset_signals(&before);
                become_heir(its, path, arguments, fds, count);
        }
        int failed = errno;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return pid < 0 ? -failed : pid;
}

int
weir__heir_start(struct weir__heir *heir, const char *path, char *const arguments[], const struct weir__sockets *sockets)
{
        unsigned count = sockets->count;
        struct surroundings its = {0};
        int *fds = malloc((count + 1) * sizeof *fds);
        int ends[2] = {-1, -1};
        bool made = surroundings_init(&its, sockets) && fds;
        pid_t pid = !made ? -ENOMEM : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ? -errno : 0;

        if (!pid) {
                for (unsigned i = 0; i < count; i++)
                        fds[i] = sockets->all[i].fd;
                fds[count] = ends[1];
                pid = fork_heir(&its, path, arguments, fds, count + 1);
                close(ends[1]);
        }
        if (pid < 0 && ends[0] >= 0)
                close(ends[0]);
        surroundings_done(&its);
        free(fds);
        *heir = (struct weir__heir){.pid = pid, .ready_fd = pid > 0 ? ends[0] : -1};
        return pid > 0 ? 0 : pid;
}

/* What it says: as weir__heir_wait. */
static int
listen_to(const struct weir__heir *heir)
{
        unsigned char said;
        ssize_t count = recv(heir->ready_fd, &said, 1, MSG_DONTWAIT);

        if (count == 1)
                return -(int)said;
        return count < 0 && (errno == EAGAIN || errno == EINTR) ? -EINPROGRESS : -EPIPE;
}

static int
wait_for(const struct weir__heir *heir, weir_nsec until, const int impatient[2])
{
        struct pollfd fds[3] = {{.fd = heir->ready_fd, .events = POLLIN},
                                {.fd = impatient[0], .events = POLLIN},
                                {.fd = impatient[1], .events = POLLIN}};

        for (;;) {
                weir_nsec left = until == WEIR_FOREVER ? 0 : until - weir__clock_monotonic();
                left = left < 0 ? 0 : left;
                struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

                int count = ppoll(fds, 3, until == WEIR_FOREVER ? NULL : &limit, NULL);
                int said = count > 0 && fds[0].revents ? listen_to(heir) : -EINPROGRESS;
                if (said != -EINPROGRESS)
                        return said;
                if (count == 0)
                        return -ETIMEDOUT;
                if (count > 0 && (fds[1].revents || fds[2].revents))
                        return -ECANCELED;
        }
}

int
weir__heir_wait(struct weir__heir *heir, weir_nsec within, const int impatient[2])
{
        weir_nsec until = within == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_monotonic(), within);
        int failed = wait_for(heir, until, impatient);

        if (failed) {
                kill(heir->pid, SIGKILL);
                while (waitpid(heir->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        close(heir->ready_fd);
        heir->ready_fd = -1;
        return failed;
}
