/* kernel/socket/listen.c: listening sockets.
 *
 * Threads: any; no state.
 *
 * SO_REUSEPORT would let a second server share the port unnoticed, so a probe is bound without it first.  (Between the probe
 * and the real sockets another process may still come; then both bind with SO_REUSEPORT, or one of them fails.)
 *
 * The file of a Unix socket outlives a process that is killed, and bind does not replace it.  So who finds one connects: nobody
 * listens there when that is refused, and the file is removed.  (Two servers that start at the same moment and find the same
 * dead file may both do that; then one of them listens without a file.) */
#include "kernel/socket/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/socket/inherit.h"

#define HOST_MAX    255
#define ADDRESS_MAX 511
#define SEPARATORS  ", "
#define UNIX_PREFIX "unix:"
#define FD_PREFIX   "fd:"
#define INHERITED   "listen:"

void
weir__sockets_undo(struct weir__sockets *sockets)
{
        for (unsigned i = 0; i < sockets->count; i++)
                if (sockets->all[i].origin == WEIR__SOCKET_INHERITED) {
                        weir__inherit_return(&sockets->all[i]);
                        sockets->all[i].has_file = false;
                }
        weir__sockets_remove_files(sockets);
        for (unsigned i = 0; i < sockets->count; i++)
                if (sockets->all[i].origin == WEIR__SOCKET_MADE)
                        close(sockets->all[i].fd);
        weir__sockets_free(sockets);
}

/* -- descriptors -- */

/* What is there already, under the number that the text says. */
static int
open_number(const char *text, struct weir__sockets *sockets)
{
        size_t digits = strspn(text, "0123456789");

        if (digits == 0 || digits > 7 || text[digits])
                return -EINVAL;
        int fd = atoi(text);
        int taken = weir__inherit_number(fd, sockets);
        if (taken)
                return taken < 0 ? taken : 0;
        int failed = weir__socket_check(fd);
        failed = failed ? failed : weir__socket_prepare(fd);
        if (failed)
                return failed;
        struct weir__socket *socket = weir__sockets_add(sockets, fd);
        if (!socket)
                return -ENOMEM;
        socket->origin = WEIR__SOCKET_GIVEN;
        socket->said = fd;
        return 0;
}

/* Adds a socket that was made here; closes it when that cannot be. */
static int
add_made(struct weir__sockets *sockets, int fd)
{
        if (weir__sockets_add(sockets, fd))
                return 0;
        close(fd);
        return -ENOMEM;
}

/* -- TCP -- */

/* Splits "host:port" or "[v6]:port". */
static int
split(const char *address, char host[HOST_MAX + 1], const char **port)
{
        const char *colon = address ? strrchr(address, ':') : NULL;
        const char *begin = address, *end = colon;

        if (!colon || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 5)
                return -EINVAL;
        if (*begin == '[') {
                if (end - begin < 3 || end[-1] != ']')
                        return -EINVAL;
                begin++, end--;
        } else if (memchr(begin, ':', (size_t)(end - begin))) {
                return -EINVAL;
        }
        if (end - begin > HOST_MAX || atoi(colon + 1) > 65535)
                return -EINVAL;
        memcpy(host, begin, (size_t)(end - begin));
        host[end - begin] = '\0';
        *port = colon + 1;
        return 0;
}

static int
resolve(const char *address, struct weir__socket_address *name)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
        char host[HOST_MAX + 1];
        struct addrinfo *found;
        const char *port;
        int failed = split(address, host, &port);

        if (failed)
                return failed;
        if (!*host)
                hints.ai_family = AF_INET;
        switch (getaddrinfo(*host ? host : NULL, port, &hints, &found)) {
        case 0: break;
        case EAI_MEMORY: return -ENOMEM;
        case EAI_SYSTEM: return errno ? -errno : -EINVAL;
        case EAI_AGAIN: return -EAGAIN;
        default: return -EINVAL;
        }
        memset(name, 0, sizeof *name);
        name->size = found->ai_addrlen;
        memcpy(&name->storage, found->ai_addr, name->size);
        freeaddrinfo(found);
        return 0;
}

/* A socket bound to the address, or a negative errno. */
static int
bind_one(const struct weir__socket_address *name, bool share)
{
        int fd = socket(name->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        if (name->any.sa_family != AF_UNIX)
                weir__socket_enable(fd, SOL_SOCKET, SO_REUSEADDR);
        if (share)
                weir__socket_enable(fd, SOL_SOCKET, SO_REUSEPORT);
        weir__socket_enable(fd, IPPROTO_TCP, TCP_NODELAY); /* inherited by what is accepted */
        if (bind(fd, &name->any, name->size) == 0)
                return fd;
        int failed = -errno;
        close(fd);
        return failed;
}

static int
probe(const struct weir__socket_address *name)
{
        int fd = bind_one(name, false);

        if (fd < 0)
                return fd;
        int failed = listen(fd, 1) < 0 ? -errno : 0;
        close(fd);
        return failed;
}

static int
open_tcp(const char *address, unsigned count, struct weir__sockets *sockets)
{
        struct weir__socket_address name;
        int failed = resolve(address, &name);
        bool any_port = !failed && *weir__socket_port(&name) == 0;
        int taken = failed ? failed : weir__inherit_named(&name, any_port, sockets);

        if (taken)
                return taken < 0 ? taken : 0;
        failed = any_port ? 0 : probe(&name);
        for (unsigned i = 0; i < count && !failed; i++) {
                int fd = bind_one(&name, true);

                failed = fd < 0 ? fd : add_made(sockets, fd);
                if (!failed && (listen(fd, SOMAXCONN) < 0 || !weir__socket_name(fd, &name)))
                        failed = -errno; /* the first one has chosen the port for all */
        }
        return failed;
}

/* -- Unix -- */

static int
name_unix(const char *path, struct weir__socket_address *name)
{
        size_t size = strlen(path);
        bool is_abstract = *path == '@';

        memset(name, 0, sizeof *name);
        if (size == 0 || (is_abstract && size == 1))
                return -EINVAL;
        if (size >= sizeof name->un.sun_path)
                return -ENAMETOOLONG;
        name->un.sun_family = AF_UNIX;
        memcpy(name->un.sun_path, path, size);
        if (is_abstract)
                name->un.sun_path[0] = '\0';
        name->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + !is_abstract);
        return 0;
}

/* Removes the file of a server that is no more. */
static int
make_way(const struct weir__socket_address *name)
{
        const char *path = name->un.sun_path;
        struct stat found;

        if (!*path || (lstat(path, &found) == 0 && !S_ISSOCK(found.st_mode)))
                return -EADDRINUSE;
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        int result = connect(fd, &name->any, name->size) < 0 ? errno : 0;
        close(fd);
        if (result == ENOENT)
                return 0; /* it has gone by itself */
        if (result != ECONNREFUSED)
                return -EADDRINUSE;
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static int
bind_unix(const struct weir__socket_address *name)
{
        int fd = bind_one(name, false);

        if (fd != -EADDRINUSE)
                return fd;
        int failed = make_way(name);
        return failed ? failed : bind_one(name, false);
}

/* Remembers the file that bind has made. */
static void
own_file(struct weir__socket *socket, const struct weir__socket_address *name)
{
        struct stat made;

        if (!name->un.sun_path[0] || lstat(name->un.sun_path, &made) < 0)
                return;
        memcpy(socket->path, name->un.sun_path, sizeof name->un.sun_path);
        socket->device = made.st_dev;
        socket->inode = made.st_ino;
        socket->has_file = true;
}

static int
open_unix(const char *path, struct weir__sockets *sockets)
{
        struct weir__socket_address name;
        int failed = name_unix(path, &name);
        int taken = failed ? failed : weir__inherit_named(&name, false, sockets);

        if (taken)
                return taken < 0 ? taken : 0;
        int fd = bind_unix(&name);
        failed = fd < 0 ? fd : add_made(sockets, fd);
        if (failed)
                return failed;
        own_file(&sockets->all[sockets->count - 1], &name);
        return listen(fd, SOMAXCONN) < 0 ? -errno : 0;
}

/* -- lists of addresses -- */

/* All that is left, each address a group of its own. */
static int
open_rest(struct weir__sockets *sockets)
{
        int taken, any = 0;

        while ((taken = weir__inherit_rest(sockets)) > 0) {
                any = 1;
                sockets->groups++;
        }
        return taken < 0 ? taken : any ? 0 : -ENOENT;
}

static int
open_one(const char *address, unsigned count, struct weir__sockets *sockets)
{
        unsigned before = sockets->count;
        int failed;

        if (strcmp(address, INHERITED) == 0)
                failed = open_rest(sockets);
        else if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
                failed = open_unix(address + strlen(UNIX_PREFIX), sockets);
        else if (strncmp(address, FD_PREFIX, strlen(FD_PREFIX)) == 0)
                failed = open_number(address + strlen(FD_PREFIX), sockets);
        else
                failed = open_tcp(address, count, sockets);
        if (sockets->count > before)
                sockets->groups++;
        return failed;
}

/* One of the list, not terminated. */
static int
open_piece(const char *piece, size_t size, unsigned count, struct weir__sockets *sockets)
{
        char address[ADDRESS_MAX + 1];

        if (size > ADDRESS_MAX)
                return strncmp(piece, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0 ? -ENAMETOOLONG : -EINVAL;
        memcpy(address, piece, size);
        address[size] = '\0';
        return open_one(address, count, sockets);
}

/* Opens those that are "listen:", or all others. */
static int
open_all(const char *addresses, bool rest, unsigned count, struct weir__sockets *sockets, struct weir__fault *fault)
{
        unsigned order = 0;

        for (const char *at = addresses + strspn(addresses, SEPARATORS); *at; order++) {
                size_t size = strcspn(at, SEPARATORS);
                bool is_rest = size == strlen(INHERITED) && strncmp(at, INHERITED, size) == 0;
                unsigned before = sockets->count;
                int failed = is_rest == rest ? open_piece(at, size, count, sockets) : 0;

                if (failed) {
                        *fault = (struct weir__fault){at, (int)size};
                        return failed;
                }
                for (unsigned i = before; i < sockets->count; i++)
                        sockets->all[i].order = order;
                at += size + strspn(at + size, SEPARATORS);
        }
        if (order == 0)
                *fault = (struct weir__fault){addresses, 0};
        return order ? 0 : -EINVAL;
}

int
weir__listen(const char *addresses, unsigned count, struct weir__sockets *sockets, struct weir__fault *fault)
{
        *sockets = (struct weir__sockets){0};
        *fault = (struct weir__fault){addresses ? NULL : "", 0};
        int failed = addresses ? weir__inherit() : -EINVAL;
        if (failed)
                return failed;
        failed = open_all(addresses, false, count, sockets, fault);
        failed = failed ? failed : open_all(addresses, true, count, sockets, fault);
        if (failed)
                weir__sockets_undo(sockets);
        return failed;
}
