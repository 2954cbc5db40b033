/* kernel/listen.c: listening sockets.
 *
 * Threads: any; no state.
 *
 * SO_REUSEPORT would let a second server share the port unnoticed, so a probe is bound without it first.  (Between the probe
 * and the real sockets another process may still come; then both bind with SO_REUSEPORT, or one of them fails.) */
#include "kernel/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST_MAX 255

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
resolve(const char *address, struct addrinfo **found)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
        char host[HOST_MAX + 1];
        const char *port;
        int failed = split(address, host, &port);

        if (failed)
                return failed;
        if (!*host)
                hints.ai_family = AF_INET;
        switch (getaddrinfo(*host ? host : NULL, port, &hints, found)) {
        case 0: return 0;
        case EAI_MEMORY: return -ENOMEM;
        case EAI_SYSTEM: return errno ? -errno : -EINVAL;
        case EAI_AGAIN: return -EAGAIN;
        default: return -EINVAL;
        }
}

static void
set(int fd, int level, int option)
{
        const int on = 1;

        setsockopt(fd, level, option, &on, sizeof on); /* each only makes things better: bind tells what matters */
}

/* A socket bound to the address, or a negative errno. */
static int
bind_one(const struct sockaddr_storage *address, socklen_t size, bool share)
{
        int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        set(fd, SOL_SOCKET, SO_REUSEADDR);
        if (share)
                set(fd, SOL_SOCKET, SO_REUSEPORT);
        set(fd, IPPROTO_TCP, TCP_NODELAY); /* inherited by what is accepted */
        if (bind(fd, (const struct sockaddr *)address, size) == 0)
                return fd;
        int failed = -errno;
        close(fd);
        return failed;
}

static int
probe(const struct sockaddr_storage *address, socklen_t size)
{
        int fd = bind_one(address, size, false);

        if (fd < 0)
                return fd;
        int failed = listen(fd, 1) < 0 ? -errno : 0;
        close(fd);
        return failed;
}

static in_port_t *
port_of(struct sockaddr_storage *address)
{
        return address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
                                              : &((struct sockaddr_in *)address)->sin_port;
}

static int
listen_at(struct sockaddr_storage *address, socklen_t size, int fds[], unsigned count)
{
        int failed = *port_of(address) ? probe(address, size) : 0;

        for (unsigned i = 0; i < count && !failed; i++) {
                fds[i] = bind_one(address, size, true);
                if (fds[i] < 0)
                        failed = fds[i];
                else if (listen(fds[i], SOMAXCONN) < 0 || getsockname(fds[i], (struct sockaddr *)address, &size) < 0)
                        failed = -errno; /* the first one has chosen the port for all */
        }
        if (!failed)
                return ntohs(*port_of(address));
        for (unsigned i = 0; i < count; i++) {
                if (fds[i] >= 0)
                        close(fds[i]);
                fds[i] = -1;
        }
        return failed;
}

int
weir__listen(const char *address, int fds[], unsigned count)
{
        struct sockaddr_storage storage = {0};
        struct addrinfo *found;
        int failed = resolve(address, &found);

        for (unsigned i = 0; i < count; i++)
                fds[i] = -1;
        if (failed)
                return failed;
        socklen_t size = found->ai_addrlen;
        memcpy(&storage, found->ai_addr, size);
        freeaddrinfo(found);
        return listen_at(&storage, size, fds, count);
}
