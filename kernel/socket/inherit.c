/* kernel/socket/inherit.c: listening sockets that the process was started with.
 *
 * Threads: any.
 * Locks:   inherited.mutex; system calls on descriptors are made under it, none of which waits.
 *
 * The protocol is that of sd_listen_fds(3): LISTEN_FDS descriptors from 3 on, meant for the process LISTEN_PID, with names in
 * LISTEN_FDNAMES.  A weir that hands its sockets over (heir.c) says by these names what the sockets themselves do not tell:
 *
 *     weir                   it is a socket of weir's
 *     weir-fd5               which was given to that one as "fd:5"
 *     weir-file-801-2a0f     whose file, of that device and inode, is to be removed at the end
 *
 * and by WEIR_READY_FD which descriptor it waits at.  All these variables are taken out of the environment, and all descriptors
 * are closed on exec: children have nothing to do with them.  (Taken out only if they are meant for this process, so that
 * programs that are started otherwise never have their environment changed.) */
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

#define FIRST_FD 3
#define FDS_MAX  65536

static struct {
        pthread_mutex_t mutex;

        /* Guarded by mutex. */
        bool is_read;
        struct weir__sockets left; /* that nobody has asked for; room for all there ever were */
        int ready_fd;              /* -1: nobody waits */
} inherited = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ready_fd = -1};

/* -- the environment -- */

/* A number that fills the text up to `end`; -1: it is none. */
static long
number(const char *text, char end)
{
        size_t digits = text ? strspn(text, "0123456789") : 0;

        return digits > 0 && digits < 10 && text[digits] == end ? atol(text) : -1;
}

/* What the name of a socket, `size` bytes, says of it. */
static void
read_name(struct weir__socket *socket, const char *name, size_t size)
{
        char text[64] = "";
        struct weir__socket_address bound;
        uintmax_t device, inode;
        int said, used = 0;

        if (size < sizeof text)
                memcpy(text, name, size);
        socket->is_from_weir = strcmp(text, "weir") == 0 || strncmp(text, "weir-", 5) == 0;
        socket->said = socket->is_from_weir ? -1 : socket->fd;
        if (sscanf(text, "weir-fd%7d%n", &said, &used) == 1 && !text[used])
                socket->said = said;
        if (sscanf(text, "weir-file-%jx-%jx%n", &device, &inode, &used) == 2 && !text[used] &&
            weir__socket_name(socket->fd, &bound) && bound.any.sa_family == AF_UNIX) {
                socket->has_file = true;
                socket->device = (dev_t)device;
                socket->inode = (ino_t)inode;
                memcpy(socket->path, bound.un.sun_path, sizeof bound.un.sun_path);
        }
}

static int
read_sockets(long count, const char *names)
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
        long fd = number(getenv("WEIR_READY_FD"), '\0');
        struct stat found;

        if (fd < FIRST_FD || fd > FIRST_FD + FDS_MAX || fstat((int)fd, &found) < 0 || !S_ISSOCK(found.st_mode))
                return;
        fcntl((int)fd, F_SETFD, FD_CLOEXEC);
        inherited.ready_fd = (int)fd;
}

static int
read_environment(void)
{
        static const char *const variables[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "WEIR_READY_FD"};
        long count = number(getenv("LISTEN_FDS"), '\0');
        const char *names = getenv("LISTEN_FDNAMES");

        if (number(getenv("LISTEN_PID"), '\0') != (long)getpid())
                return 0;
        int failed = count > 0 && count <= FDS_MAX ? read_sockets(count, names ? names : "") : 0;
        if (failed) {
                weir__sockets_free(&inherited.left);
                return failed;
        }
        read_ready_fd();
        for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
                unsetenv(variables[i]);
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

/* -- who asks for them; with the mutex held -- */

/* Moves one, with its use; -ENOMEM: it stays. */
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

/* All that are fit and at that address. */
static int
take_named(const struct weir__socket_address *name, struct weir__sockets *sockets)
{
        int taken = 0;

        for (unsigned i = 0; i < inherited.left.count;) {
                int fd = inherited.left.all[i].fd;
                struct weir__socket_address bound;

                if (weir__socket_check(fd) || !weir__socket_name(fd, &bound) || !weir__same_name(&bound, name)) {
                        i++;
                        continue;
                }
                int failed = weir__socket_prepare(fd);
                failed = failed ? failed : take(i, sockets);
                if (failed < 0)
                        return failed; /* what was taken is returned with the rest */
                taken++;
        }
        return taken;
}

/* The address of the first one that differs from this in its port only. */
static bool
find_any_port(const struct weir__socket_address *name, struct weir__socket_address *found)
{
        const size_t port = offsetof(struct sockaddr_in, sin_port); /* the same in sockaddr_in6 */

        for (unsigned i = 0; i < inherited.left.count; i++) {
                if (!weir__socket_name(inherited.left.all[i].fd, found) || found->any.sa_family != name->any.sa_family)
                        continue;
                struct weir__socket_address portless = *found;
                memset((char *)&portless.storage + port, 0, sizeof(in_port_t));
                if (weir__same_name(&portless, name))
                        return true;
        }
        return false;
}

int
weir__inherit_named(const struct weir__socket_address *name, bool any_port, struct weir__sockets *sockets)
{
        struct weir__socket_address found = *name;
        int taken = 0;

        pthread_mutex_lock(&inherited.mutex);
        if (!any_port || find_any_port(name, &found))
                taken = take_named(&found, sockets);
        pthread_mutex_unlock(&inherited.mutex);
        return taken;
}

/* One, and what listens where it does. */
static int
take_with_others(unsigned index, struct weir__sockets *sockets)
{
        int fd = inherited.left.all[index].fd;
        int failed = weir__socket_check(fd);
        struct weir__socket_address name;

        return failed ? failed : weir__socket_name(fd, &name) ? take_named(&name, sockets) : -errno;
}

/* Just that one: its address may be that of others, with other numbers. */
static int
take_number(unsigned index, struct weir__sockets *sockets)
{
        int failed = weir__socket_check(inherited.left.all[index].fd);

        failed = failed ? failed : weir__socket_prepare(inherited.left.all[index].fd);
        return failed ? failed : take(index, sockets);
}

int
weir__inherit_number(int said, struct weir__sockets *sockets)
{
        int taken = 0;

        pthread_mutex_lock(&inherited.mutex);
        for (unsigned i = 0; i < inherited.left.count; i++) {
                if (inherited.left.all[i].said == said) {
                        taken = take_number(i, sockets);
                        break;
                }
                if (inherited.left.all[i].fd == said)
                        taken = -EBADF; /* unless another one is meant by that number */
        }
        pthread_mutex_unlock(&inherited.mutex);
        return taken;
}

int
weir__inherit_rest(struct weir__sockets *sockets)
{
        pthread_mutex_lock(&inherited.mutex);
        int taken = inherited.left.count ? take_with_others(0, sockets) : 0;
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
        static const unsigned char serves = 0; /* heir.c: an errno that is none */

        pthread_mutex_lock(&inherited.mutex);
        unsigned left = inherited.left.count;
        for (unsigned i = 0; i < left; i++)
                close(inherited.left.all[i].fd);
        inherited.left.count = 0;
        if (inherited.ready_fd >= 0) {
                send(inherited.ready_fd, &serves, 1, MSG_NOSIGNAL); /* it may be no more */
                close(inherited.ready_fd);
                inherited.ready_fd = -1;
        }
        pthread_mutex_unlock(&inherited.mutex);
        return left;
}
