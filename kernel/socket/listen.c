/* kernel/socket/listen.c: opens listening sockets.
 *
 * Threads: any.
 * Locks:   none; no state.
 *
 * SO_REUSEPORT would let a second server share the port unnoticed, so a probe is bound without it first.  Another process may
 * still come between the probe and the real sockets.  Then both bind with SO_REUSEPORT, or one of them fails.
 *
 * The file of a Unix socket outlives a process that is killed, and bind does not replace it.  So a file that is found is tried by
 * connect.  When that is refused, nobody listens there, and the file is removed.  Two servers that start at the same moment may
 * both find the same dead file and remove it; then one of them listens without a file. */
#include "kernel/socket/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/socket/inherit.h"

#define SEPARATORS ", "
#define FD_PREFIX  "fd:"
#define INHERITED  "listen:"
#define NUMBER_MAX 7 /* digits of a descriptor */

void
weir__listen_undo(struct weir__sockets *sockets)
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

/* A descriptor that is there already, by the number in the text. */
static int
open_number(const char *text, struct weir__sockets *sockets, const char **reason)
{
        int fd = weir__socket_number(text);

        if (fd < 0)
                return -EINVAL;
        int taken = weir__inherit_number(fd, sockets);
        if (taken)
                return taken < 0 ? taken : 0;
        int failed = weir__socket_adopt(fd);
        *reason = failed ? "the descriptor is no socket that listens" : NULL;
        struct weir__socket *socket = failed ? NULL : weir__sockets_add(sockets, fd);
        if (!socket)
                return failed ? failed : -ENOMEM;
        socket->origin = WEIR__SOCKET_GIVEN;
        socket->number = fd;
        return 0;
}

/* Adds a socket that was made here, or closes it when out of memory. */
static int
add_made(struct weir__sockets *sockets, int fd)
{
        if (weir__sockets_add(sockets, fd))
                return 0;
        close(fd);
        return -ENOMEM;
}

/* -- TCP -- */

/* A socket bound to the address, or a negative errno. */
static int
bind_one(const struct weir__socket_address *name, bool should_share)
{
        int fd = socket(name->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        if (name->any.sa_family != AF_UNIX)
                weir__socket_enable(fd, SOL_SOCKET, SO_REUSEADDR);
        if (should_share)
                weir__socket_enable(fd, SOL_SOCKET, SO_REUSEPORT);
        weir__socket_enable(fd, IPPROTO_TCP, TCP_NODELAY); /* accepted connections inherit it */
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

/* The first of its addresses; a name that cannot be resolved is invalid. */
static int
resolve(const struct weir__address *address, struct weir__socket_address *name, const char **reason)
{
        int found = weir__address_resolve(address, true, name, 1, reason);

        return found > 0 ? 0 : found == -ENOENT ? -EINVAL : found;
}

static int
open_tcp(const struct weir__address *address, unsigned count, struct weir__sockets *sockets, const char **reason)
{
        struct weir__socket_address name;
        int failed = resolve(address, &name, reason);
        bool is_any_port = !failed && *weir__socket_port(&name) == 0;
        int taken = failed ? failed : weir__inherit_named(&name, is_any_port, sockets);

        if (taken)
                return taken < 0 ? taken : 0;
        failed = is_any_port ? 0 : probe(&name);
        for (unsigned i = 0; i < count && !failed; i++) {
                int fd = bind_one(&name, true);

                failed = fd < 0 ? fd : add_made(sockets, fd);
                if (!failed && (listen(fd, SOMAXCONN) < 0 || !weir__socket_name(fd, &name)))
                        failed = -errno; /* the first one has chosen the port for all */
        }
        return failed;
}

/* -- Unix -- */

/* Removes the file of a server that has ended. */
static int
remove_dead_file(const struct weir__socket_address *name)
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
                return 0; /* another process has removed it */
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
        int failed = remove_dead_file(name);
        return failed ? failed : bind_one(name, false);
}

/* Records the file that bind has made. */
static void
record_file(struct weir__socket *socket, const struct weir__socket_address *name)
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
open_unix(const struct weir__socket_address *name, struct weir__sockets *sockets)
{
        int taken = weir__inherit_named(name, false, sockets);

        if (taken)
                return taken < 0 ? taken : 0;
        int fd = bind_unix(name);
        int failed = fd < 0 ? fd : add_made(sockets, fd);
        if (failed)
                return failed;
        record_file(&sockets->all[sockets->count - 1], name);
        return listen(fd, SOMAXCONN) < 0 ? -errno : 0;
}

/* -- lists of addresses -- */

/* All inherited sockets that are left.  Each address is a group. */
static int
open_rest(struct weir__sockets *sockets)
{
        unsigned before = sockets->count;
        int taken;

        while ((taken = weir__inherit_rest(sockets)) > 0)
                sockets->groups++;
        return taken < 0 ? taken : sockets->count > before ? 0 : -ENOENT;
}

/* "fd:3", whose number is not terminated. */
static int
open_descriptor(const char *text, size_t size, struct weir__sockets *sockets, const char **reason)
{
        char number[NUMBER_MAX + 1];

        if (size > NUMBER_MAX)
                return -EINVAL;
        memcpy(number, text, size);
        number[size] = '\0';
        return open_number(number, sockets, reason);
}

/* Opens an address of the list, which is not terminated. */
static int
open_one(const char *text, size_t size, unsigned count, struct weir__sockets *sockets, const char **reason)
{
        struct weir__address address;
        unsigned before = sockets->count;
        int failed;

        if (size == strlen(INHERITED) && memcmp(text, INHERITED, size) == 0) {
                failed = open_rest(sockets);
                *reason = failed == -ENOENT ? "no socket was inherited (LISTEN_FDS), or all are in use" : NULL;
        } else if (size >= strlen(FD_PREFIX) && memcmp(text, FD_PREFIX, strlen(FD_PREFIX)) == 0) {
                failed = open_descriptor(text + strlen(FD_PREFIX), size - strlen(FD_PREFIX), sockets, reason);
        } else {
                failed = weir__address_parse(text, size, &address, reason);
                if (!failed && address.kind == WEIR__ADDRESS_UNIX)
                        failed = open_unix(&address.name, sockets);
                else if (!failed)
                        failed = open_tcp(&address, count, sockets, reason);
        }
        sockets->groups += sockets->count > before;
        return failed;
}

/* Opens the addresses that are "listen:", or all others. */
static int
open_all(const char *addresses, bool should_open_rest, unsigned count, struct weir__sockets *sockets, struct weir__fault *fault)
{
        unsigned order = 0;

        for (const char *at = addresses + strspn(addresses, SEPARATORS); *at; order++) {
                size_t size = strcspn(at, SEPARATORS);
                bool is_rest = size == strlen(INHERITED) && strncmp(at, INHERITED, size) == 0;
                unsigned before = sockets->count;
                const char *reason = NULL;
                int failed = is_rest == should_open_rest ? open_one(at, size, count, sockets, &reason) : 0;

                if (failed) {
                        *fault = (struct weir__fault){at, (int)size, reason};
                        return failed;
                }
                for (unsigned i = before; i < sockets->count; i++)
                        sockets->all[i].order = order;
                at += size + strspn(at + size, SEPARATORS);
        }
        if (order == 0)
                *fault = (struct weir__fault){addresses, 0, NULL};
        return order ? 0 : -EINVAL;
}

int
weir__listen(const char *addresses, unsigned count, struct weir__sockets *sockets, struct weir__fault *fault)
{
        *sockets = (struct weir__sockets){0};
        *fault = (struct weir__fault){addresses ? NULL : "", 0, NULL};
        int failed = addresses ? weir__inherit() : -EINVAL;
        if (failed)
                return failed;
        failed = open_all(addresses, false, count, sockets, fault);
        failed = failed ? failed : open_all(addresses, true, count, sockets, fault);
        if (failed)
                weir__listen_undo(sockets);
        return failed;
}
