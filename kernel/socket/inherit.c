/* kernel/socket/inherit.c: listening sockets that the process was started with.
 *
 * Threads: any.
 * Locks:   inherited.mutex.  System calls on descriptors are made under it; none of them waits.
 *
 * The protocol is that of sd_listen_fds(3): LISTEN_FDS descriptors from 3 on, meant for the process LISTEN_PID, with names in
 * LISTEN_FDNAMES.  When weir hands its sockets over (successor.c), the names say what the sockets themselves do not tell:
 *
 *     weir                   a socket of weir
 *     weir-fd5               the old process was given it as "fd:5"
 *     weir-file-801-2a0f     its file, of that device and inode, is to be removed at the end
 *
 * WEIR_READY_FD is the descriptor at which the old process waits.  All these variables are removed from the environment, and all
 * descriptors are made close-on-exec: children must not use them.  They are removed only if they are meant for this process, so
 * the environment of other programs never changes. */
#include "kernel/socket/inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/base/phase.h"

#define FIRST_FD WEIR__INHERIT_FIRST_FD
#define FDS_MAX  65536

const char *const weir__inherit_variables[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WEIR_READY_FD", "LISTEN_PIDFDID"};

static struct {
        pthread_mutex_t mutex;

        /* Guarded by mutex. */
        bool is_read;
        struct weir__sockets left; /* nobody has asked for them; there is room for all that there were */
        int ready_fd;              /* -1: nobody waits */
} inherited = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ready_fd = -1};

static void
before_fork(void)
{
        pthread_mutex_lock(&inherited.mutex);
}

static void
after_fork(void)
{
        pthread_mutex_unlock(&inherited.mutex);
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork,
               [WEIR__STEP_IN_CHILD] = after_fork);

/* -- the environment -- */

/* Reads the name of a socket, `size` bytes. */
static void
read_name(struct weir__socket *socket, const char *name, size_t size)
{
        char text[64] = "";
        struct weir__socket_address bound;
        uintmax_t device, inode;
        int number, used = 0;

        if (size < sizeof text)
                memcpy(text, name, size);
        if (strcmp(text, "weir") != 0 && strncmp(text, "weir-", 5) != 0)
                socket->number = socket->fd;
        if (sscanf(text, "weir-fd%7d%n", &number, &used) == 1 && !text[used])
                socket->number = number;
        if (sscanf(text, "weir-file-%jx-%jx%n", &device, &inode, &used) == 2 && !text[used] &&
            weir__socket_name(socket->fd, &bound) && bound.any.sa_family == AF_UNIX) {
                socket->has_file = true;
                socket->device = (dev_t)device;
                socket->inode = (ino_t)inode;
                memcpy(socket->path, bound.un.sun_path, sizeof bound.un.sun_path);
        }
}

static int
read_sockets(int count, const char *names)
{
        for (int fd = FIRST_FD; fd < FIRST_FD + count; fd++) {
                size_t size = strcspn(names, ":");
                struct weir__socket *socket = weir__sockets_add(&inherited.left, fd);

                if (!socket)
                        return -ENOMEM;
                fcntl(fd, F_SETFD, FD_CLOEXEC);
                socket->origin = WEIR__SOCKET_INHERITED;
                read_name(socket, names, size);
                names += size + (names[size] == ':');
        }
        return 0;
}

static void
read_ready_fd(void)
{
        int fd = weir__socket_number(getenv("WEIR_READY_FD"));
        struct stat found;

        if (fd < FIRST_FD || fd > FIRST_FD + FDS_MAX || fstat(fd, &found) < 0 || !S_ISSOCK(found.st_mode))
                return;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        inherited.ready_fd = fd;
}

static int
read_environment(void)
{
        int count = weir__socket_number(getenv("LISTEN_FDS"));
        const char *names = getenv("LISTEN_FDNAMES");

        if (weir__socket_number(getenv("LISTEN_PID")) != getpid())
                return 0;
        int failed = count > 0 && count <= FDS_MAX ? read_sockets(count, names ? names : "") : 0;
        if (failed) {
                weir__sockets_free(&inherited.left);
                return failed;
        }
        read_ready_fd();
        for (size_t i = 0; i < WEIR__INHERIT_VARIABLES; i++)
                unsetenv(weir__inherit_variables[i]);
        return 0;
}

int
weir__inherit(void)
{
        int failed = 0;

        pthread_mutex_lock(&inherited.mutex);
        if (!inherited.is_read)
                failed = read_environment();
        inherited.is_read = !failed;
        pthread_mutex_unlock(&inherited.mutex);
        return failed;
}

/* -- taking them; with the mutex held -- */

/* Moves a socket with its user.  Result: 1; -ENOMEM, and it stays. */
static int
take(unsigned index, struct weir__sockets *sockets)
{
        struct weir__socket *from = &inherited.left.all[index];
        struct weir__socket *to = weir__sockets_add(sockets, from->fd);
        unsigned group = sockets->groups;

        if (!to)
                return -ENOMEM;
        *to = *from;
        to->group = group;
        memmove(from, from + 1, (--inherited.left.count - index) * sizeof *from);
        return 1;
}

/* Takes all that are fit and at that address; with any port, at the address of the first one that differs in its port only. */
static int
take_named(struct weir__socket_address name, bool is_any_port, struct weir__sockets *sockets)
{
        int taken = 0;

        for (unsigned i = 0; i < inherited.left.count;) {
                int fd = inherited.left.all[i].fd;
                struct weir__socket_address bound, compared;
                bool has_name = weir__socket_name(fd, &bound);

                compared = bound;
                if (has_name && is_any_port && weir__socket_port(&compared))
                        *weir__socket_port(&compared) = 0;
                if (!has_name || !weir__socket_same_name(&compared, &name) || weir__socket_adopt(fd)) {
                        i++;
                        continue;
                }
                name = bound;
                is_any_port = false;
                int failed = take(i, sockets);
                if (failed < 0)
                        return failed; /* the caller returns the sockets that were taken */
                taken++;
        }
        return taken;
}

int
weir__inherit_named(const struct weir__socket_address *name, bool is_any_port, struct weir__sockets *sockets)
{
        pthread_mutex_lock(&inherited.mutex);
        int taken = take_named(*name, is_any_port, sockets);
        pthread_mutex_unlock(&inherited.mutex);
        return taken;
}

int
weir__inherit_number(int number, struct weir__sockets *sockets)
{
        int taken = 0;

        pthread_mutex_lock(&inherited.mutex);
        for (unsigned i = 0; i < inherited.left.count; i++) {
                if (inherited.left.all[i].number == number) {
                        taken = weir__socket_adopt(inherited.left.all[i].fd); /* others at its address have other numbers */
                        taken = taken ? taken : take(i, sockets);
                        break;
                }
                if (inherited.left.all[i].fd == number)
                        taken = -EBADF; /* unless a later one has that number */
        }
        pthread_mutex_unlock(&inherited.mutex);
        return taken;
}

int
weir__inherit_rest(struct weir__sockets *sockets)
{
        struct weir__socket_address name;
        int taken = 0;

        pthread_mutex_lock(&inherited.mutex);
        if (inherited.left.count) {
                int fd = inherited.left.all[0].fd;

                taken = weir__socket_adopt(fd);
                if (!taken)
                        taken = weir__socket_name(fd, &name) ? take_named(name, false, sockets) : -errno;
        }
        pthread_mutex_unlock(&inherited.mutex);
        return taken;
}

void
weir__inherit_return(const struct weir__socket *socket)
{
        pthread_mutex_lock(&inherited.mutex);
        inherited.left.all[inherited.left.count++] = *socket; /* there is room: it was there before */
        pthread_mutex_unlock(&inherited.mutex);
}

/* -- being ready -- */

unsigned
weir__inherit_left(void)
{
        pthread_mutex_lock(&inherited.mutex);
        unsigned left = inherited.left.count;
        pthread_mutex_unlock(&inherited.mutex);
        return left;
}

bool
weir__inherit_is_awaited(void)
{
        pthread_mutex_lock(&inherited.mutex);
        bool is_awaited = inherited.ready_fd >= 0;
        pthread_mutex_unlock(&inherited.mutex);
        return is_awaited;
}

unsigned
weir__inherit_ready(void)
{
        static const unsigned char serves = 0; /* no errno: successor.c */

        pthread_mutex_lock(&inherited.mutex);
        unsigned left = inherited.left.count;
        for (unsigned i = 0; i < left; i++)
                close(inherited.left.all[i].fd);
        inherited.left.count = 0;
        if (inherited.ready_fd >= 0) {
                send(inherited.ready_fd, &serves, 1, MSG_NOSIGNAL); /* nobody may be there */
                close(inherited.ready_fd);
                inherited.ready_fd = -1;
        }
        pthread_mutex_unlock(&inherited.mutex);
        return left;
}
