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
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/socket/inherit.h"

#define ADDRESS_MAX 511
#define SEPARATORS  ", "
#define UNIX_PREFIX "unix:"
#define FD_PREFIX   "fd:"
#define INHERITED   "listen:"

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

static bool
is_number(const char *text)
{
        return *text && text[strspn(text, "0123456789")] == '\0';
}

/* Splits "host:port" or "[v6]:port" where it stands.  Returns the port; NULL when it is invalid. */
static const char *
split(char **address, const char **reason)
{
        char *host = *address, *colon = strrchr(host, ':');

        if (!colon || !is_number(colon + 1))
                return NULL;
        if (strlen(colon + 1) > 5 || weir__socket_number(colon + 1) < 0 || atoi(colon + 1) > UINT16_MAX) {
                *reason = "a port is a number from 0 to 65535";
                return NULL;
        }
        *colon = '\0';
        if (*host == '[') {
                if (colon - host < 3 || colon[-1] != ']')
                        return NULL;
                colon[-1] = '\0';
                ++*address;
        } else if (strchr(host, ':')) {
                return NULL;
        }
        return colon + 1;
}

static int
resolve(char *host, struct weir__socket_address *name, const char **reason)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
        const char *port = split(&host, reason);
        struct addrinfo *found;

        if (!port)
                return -EINVAL;
        if (!*host)
                hints.ai_family = AF_INET;
        int wrong = getaddrinfo(*host ? host : NULL, port, &hints, &found);
        if (wrong && wrong != EAI_SYSTEM && wrong != EAI_MEMORY)
                *reason = wrong == EAI_NONAME ? "the name of the host is not known" : gai_strerror(wrong);
        switch (wrong) {
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

static int
open_tcp(char *address, unsigned count, struct weir__sockets *sockets, const char **reason)
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
        record_file(&sockets->all[sockets->count - 1], &name);
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

/* Opens an address of the list, which is not terminated. */
static int
open_one(const char *text, size_t size, unsigned count, struct weir__sockets *sockets, const char **reason)
{
        char address[ADDRESS_MAX + 1];
        unsigned before = sockets->count;
        bool is_unix = strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
        int failed;

        if (size > ADDRESS_MAX)
                return is_unix ? -ENAMETOOLONG : -EINVAL;
        memcpy(address, text, size);
        address[size] = '\0';
        if (strcmp(address, INHERITED) == 0) {
                failed = open_rest(sockets);
                *reason = failed == -ENOENT ? "no socket was inherited (LISTEN_FDS), or all are in use" : NULL;
        } else if (is_unix) {
                failed = open_unix(address + strlen(UNIX_PREFIX), sockets);
        } else if (strncmp(address, FD_PREFIX, strlen(FD_PREFIX)) == 0) {
                failed = open_number(address + strlen(FD_PREFIX), sockets, reason);
        } else {
                failed = open_tcp(address, count, sockets, reason);
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
