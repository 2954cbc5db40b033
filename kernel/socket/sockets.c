/* kernel/socket/sockets.c: lists of listening sockets, their names, and settings of descriptors.
 *
 * Threads: a list belongs to one thread.  Join and leave: any.
 * Locks:   none. */
#include "kernel/socket/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/data/count.h"

struct weir__socket *
weir__sockets_add(struct weir__sockets *sockets, int fd)
{
        if (sockets->count == sockets->room) {
                unsigned room = sockets->room ? sockets->room * 2 : 16;
                struct weir__socket *all = realloc(sockets->all, room * sizeof *all);

                if (!all)
                        return NULL;
                sockets->all = all;
                sockets->room = room;
        }
        struct weir__socket *socket = &sockets->all[sockets->count++];
        memset(socket, 0, sizeof *socket);
        socket->fd = fd;
        socket->number = -1;
        socket->group = sockets->groups;
        atomic_init(&socket->users, 1);
        return socket;
}

void
weir__sockets_free(struct weir__sockets *sockets)
{
        free(sockets->all);
        *sockets = (struct weir__sockets){0};
}

void
weir__sockets_remove_files(struct weir__sockets *sockets)
{
        for (unsigned i = 0; i < sockets->count; i++) {
                struct weir__socket *each = &sockets->all[i];
                struct stat found;

                if (each->has_file && lstat(each->path, &found) == 0 && found.st_dev == each->device &&
                    found.st_ino == each->inode)
                        unlink(each->path);
                each->has_file = false;
        }
}

bool
weir__socket_join(struct weir__socket *socket)
{
        return weir__count_add_unless_zero(&socket->users);
}

void
weir__socket_leave(struct weir__socket *socket)
{
        int fd = socket->fd;

        if (atomic_fetch_sub_explicit(&socket->users, 1, memory_order_acq_rel) == 1)
                close(fd);
}

/* -- names -- */

bool
weir__socket_name(int fd, struct weir__socket_address *name)
{
        memset(name, 0, sizeof *name);
        name->size = sizeof name->storage;
        return getsockname(fd, &name->any, &name->size) == 0;
}

int
weir__sockets_port(const struct weir__sockets *sockets)
{
        unsigned first = UINT32_MAX;
        int port = -EDOM;

        for (unsigned i = 0; i < sockets->count; i++) {
                const struct weir__socket *each = &sockets->all[i];
                struct weir__socket_address name;

                if (each->order < first && weir__socket_name(each->fd, &name) && weir__socket_port(&name)) {
                        first = each->order;
                        port = ntohs(*weir__socket_port(&name));
                }
        }
        return port;
}

/* -- descriptors -- */

static int
option_of(int fd, int option, int *value)
{
        socklen_t size = sizeof *value;

        return getsockopt(fd, SOL_SOCKET, option, value, &size) < 0 ? -errno : 0;
}

int
weir__socket_adopt(int fd)
{
        int type, listens, flags = fcntl(fd, F_GETFL);
        int failed = option_of(fd, SO_TYPE, &type);

        failed = failed ? failed : option_of(fd, SO_ACCEPTCONN, &listens);
        if (failed || type != SOCK_STREAM || !listens)
                return failed ? failed : -EINVAL;
        if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                return -errno;
        weir__socket_enable(fd, IPPROTO_TCP, TCP_NODELAY);
        return 0;
}

void
weir__socket_enable(int fd, int level, int option)
{
        const int on = 1;

        setsockopt(fd, level, option, &on, sizeof on); /* each only makes things better: bind reports the failures that matter */
}

int
weir__eventfd_renew(int fd)
{
        int other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int failed = other < 0 || dup3(other, fd, O_CLOEXEC) < 0 ? -errno : 0;

        if (other >= 0)
                close(other);
        return failed;
}

int
weir__socket_number(const char *text)
{
        size_t digits = text ? strspn(text, "0123456789") : 0;

        return digits > 0 && digits < 8 && text[digits] == '\0' ? atoi(text) : -1;
}
