/* kernel/socket/address.c: addresses of sockets: their texts, what these mean, and the resolving of names.
 *
 * Threads: any.
 * Locks:   none; no state. */
#include "kernel/socket/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kernel/data/ascii.h"

#define UNIX_PREFIX "unix:"
#define TLS_PREFIX  "tls:"
#define PORT_DIGITS 5

static bool
begins_with(const char *text, size_t size, const char *prefix)
{
        return size >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

/* -- hosts -- */

/* The number of an interface, which is given by its name or its number. */
static int
read_zone(const char *zone, uint32_t *number)
{
        char *end;

        errno = 0;
        if ((*number = if_nametoindex(zone)) != 0)
                return 0;
        if (errno != ENODEV && errno != ENXIO)
                return errno ? -errno : -EINVAL;
        unsigned long value = weir__is_digit(*zone) ? strtoul(zone, &end, 10) : 0;
        if (value == 0 || value > UINT32_MAX || *end)
                return -EINVAL;
        *number = (uint32_t)value;
        return 0;
}

/* As inet_pton reads it: four numbers of 0 to 255 in decimal, without zeros before them.  Each connect reads one. */
static bool
read_v4(const char *host, size_t size, struct in_addr *to)
{
        unsigned char octets[sizeof to->s_addr];
        unsigned count = 0, value = 0, digits = 0;

        for (size_t i = 0; i <= size; i++) {
                if (i < size && weir__is_digit(host[i])) {
                        value = value * 10 + (unsigned)(host[i] - '0');
                        if (value > UINT8_MAX || (digits++ > 0 && value < 10))
                                return false;
                } else if ((i == size || host[i] == '.') && digits > 0 && count < sizeof octets) {
                        octets[count++] = (unsigned char)value;
                        value = digits = 0;
                } else {
                        return false;
                }
        }
        if (count < sizeof octets)
                return false;
        memcpy(&to->s_addr, octets, sizeof octets);
        return true;
}

static bool
has_odd_bytes(const char *host, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if ((unsigned char)host[i] <= ' ' || host[i] == 0x7f)
                        return true;
        return false;
}

/* Result: 1 when the host is an IPv6 address, perhaps with a zone behind a percent sign. */
static int
read_v6(const char *host, struct sockaddr_in6 *to, const char **reason)
{
        char address[INET6_ADDRSTRLEN];
        size_t size = strcspn(host, "%");

        if (size >= sizeof address)
                return 0;
        memcpy(address, host, size);
        address[size] = '\0';
        if (inet_pton(AF_INET6, address, &to->sin6_addr) != 1)
                return 0;
        int failed = host[size] ? read_zone(host + size + 1, &to->sin6_scope_id) : 0;
        if (failed == -EINVAL)
                *reason = "no network interface has that name or number";
        return failed ? failed : 1;
}

int
weir__address_set_host(struct weir__address *address, const char *host, size_t size, in_port_t port, const char **reason)
{
        struct sockaddr_in *four = (struct sockaddr_in *)&address->name.storage;
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->name.storage;

        memset(address, 0, offsetof(struct weir__address, host) + 1);
        address->port = port;
        *reason = NULL;
        bool is_v4 = size == 0 || read_v4(host, size, &four->sin_addr);
        if (size > WEIR__HOST_BYTES)
                *reason = "the name of a host has at most 255 bytes";
        else if (!is_v4 && has_odd_bytes(host, size))
                *reason = "the name of a host has no spaces and no control characters";
        if (*reason)
                return -EINVAL;
        memcpy(address->host, host, size);
        address->host[size] = '\0';
        if (is_v4) {
                address->kind = size ? WEIR__ADDRESS_LITERAL : WEIR__ADDRESS_ANY;
                four->sin_family = AF_INET;
                four->sin_port = htons(port);
                address->name.size = sizeof *four;
                return 0;
        }
        int is_v6 = read_v6(address->host, six, reason);
        address->kind = is_v6 ? WEIR__ADDRESS_LITERAL : WEIR__ADDRESS_NAME;
        if (is_v6 <= 0)
                return is_v6;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        address->name.size = sizeof *six;
        return 0;
}

/* Result: the port, or -EINVAL. */
static int
read_port(const char *text, size_t size)
{
        int port = 0;

        if (size == 0 || size > PORT_DIGITS)
                return -EINVAL;
        for (size_t i = 0; i < size; i++) {
                if (!weir__is_digit(text[i]))
                        return -EINVAL;
                port = port * 10 + (text[i] - '0');
        }
        return port > UINT16_MAX ? -EINVAL : port;
}

/* "host:port" or "[v6]:port". */
static int
parse_host(const char *text, size_t size, struct weir__address *address, const char **reason)
{
        const char *colon = memrchr(text, ':', size);
        size_t host_size = colon ? (size_t)(colon - text) : 0;

        if (!colon)
                return -EINVAL;
        int port = read_port(colon + 1, size - host_size - 1);
        if (port < 0)
                *reason = "a port is a number from 0 to 65535";
        else if (*text != '[' && memchr(text, ':', host_size))
                *reason = "an IPv6 address stands in brackets before its port: [v6]:port";
        else if (*text == '[' && (host_size < 3 || colon[-1] != ']'))
                *reason = "brackets enclose an IPv6 address before its port: [v6]:port";
        if (*reason)
                return -EINVAL;
        if (*text == '[')
                return weir__address_set_host(address, text + 1, host_size - 2, (in_port_t)port, reason);
        return weir__address_set_host(address, text, host_size, (in_port_t)port, reason);
}

/* -- Unix sockets -- */

static int
parse_unix(const char *path, size_t size, struct weir__address *address, const char **reason)
{
        struct sockaddr_un *un = &address->name.un;
        bool is_abstract = size > 0 && *path == '@';

        memset(address, 0, offsetof(struct weir__address, host) + 1);
        address->kind = WEIR__ADDRESS_UNIX;
        if (size == 0 || (is_abstract && size == 1)) {
                *reason = "a Unix socket has a path, or a name behind @";
                return -EINVAL;
        }
        if (size >= sizeof un->sun_path)
                return -ENAMETOOLONG;
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, path, size);
        if (is_abstract)
                un->sun_path[0] = '\0';
        address->name.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + !is_abstract);
        return 0;
}

/* -- all of them -- */

int
weir__address_parse(const char *text, size_t size, struct weir__address *address, const char **reason)
{
        *reason = NULL;
        if (begins_with(text, size, UNIX_PREFIX))
                return parse_unix(text + strlen(UNIX_PREFIX), size - strlen(UNIX_PREFIX), address, reason);
        return parse_host(text, size, address, reason);
}

int
weir__address_parse_peer(const char *text, size_t size, struct weir__address *address, const char **reason)
{
        int failed = weir__address_parse(text, size, address, reason);

        if (failed || address->kind == WEIR__ADDRESS_UNIX)
                return failed;
        if (address->kind == WEIR__ADDRESS_ANY)
                *reason = "a connection needs a host: host:port";
        else if (address->port == 0)
                *reason = "a connection needs a port from 1 to 65535";
        return *reason ? -EINVAL : 0;
}

bool
weir__address_take_tls(const char **text, size_t *size)
{
        size_t prefix = strlen(TLS_PREFIX);

        if (!begins_with(*text, *size, TLS_PREFIX) || !memchr(*text + prefix, ':', *size - prefix))
                return false;
        *text += prefix;
        *size -= prefix;
        return true;
}

/* Without a descriptor the C library cannot open its files of hosts and says that it does not know the name. */
static int
lack_of_descriptors(void)
{
        int fd = eventfd(0, EFD_CLOEXEC);

        if (fd < 0)
                return -errno;
        close(fd);
        return 0;
}

static int
explain(int wrong, const char **reason)
{
        bool is_unknown = wrong == EAI_NONAME;

#ifdef EAI_NODATA
        is_unknown |= wrong == EAI_NODATA; /* glibc: the name has addresses of no kind */
#endif
        if (wrong == EAI_MEMORY)
                return -ENOMEM;
        if (wrong == EAI_SYSTEM)
                return errno ? -errno : -EINVAL;
        int lack = is_unknown ? lack_of_descriptors() : 0;
        if (lack)
                return lack;
        *reason = is_unknown ? "the name of the host is not known" : gai_strerror(wrong);
        return is_unknown ? -ENOENT : wrong == EAI_AGAIN ? -EAGAIN : -EINVAL;
}

/* Result: as weir__address_resolve. */
static int
look_up(const char *host, const char *port, const struct addrinfo *hints, struct weir__socket_address *names, unsigned room,
        const char **reason)
{
        struct addrinfo *found;
        unsigned count = 0;

        *reason = NULL;
        errno = 0;
        int wrong = getaddrinfo(host, port, hints, &found);
        if (wrong)
                return explain(wrong, reason);
        for (const struct addrinfo *each = found; each && count < room; each = each->ai_next, count++) {
                memset(&names[count], 0, sizeof *names);
                names[count].size = each->ai_addrlen;
                memcpy(&names[count].storage, each->ai_addr, each->ai_addrlen);
        }
        freeaddrinfo(found);
        return (int)count;
}

int
weir__address_resolve(const struct weir__address *address, bool should_listen, struct weir__socket_address *names, unsigned room,
                      const char **reason)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (should_listen ? AI_PASSIVE : 0)};
        char port[PORT_DIGITS + 1];

        *reason = NULL;
        if (address->kind != WEIR__ADDRESS_NAME) {
                *names = address->name;
                return 1;
        }
        snprintf(port, sizeof port, "%u", (unsigned)address->port);
        return look_up(address->host, port, &hints, names, room, reason);
}

int
weir__address_look_up(const char *host, int family, struct weir__socket_address *names, unsigned room, const char **reason)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = family};

        return look_up(host, NULL, &hints, names, room, reason);
}

/* -- addresses as the system has them -- */

in_port_t *
weir__socket_port(struct weir__socket_address *name)
{
        switch (name->any.sa_family) {
        case AF_INET: return &((struct sockaddr_in *)&name->storage)->sin_port;
        case AF_INET6: return &((struct sockaddr_in6 *)&name->storage)->sin6_port;
        default: return NULL;
        }
}

bool
weir__socket_same_name(const struct weir__socket_address *one, const struct weir__socket_address *other)
{
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&one->storage;
        const struct sockaddr_in6 *other_six = (const struct sockaddr_in6 *)&other->storage;

        if (one->any.sa_family != other->any.sa_family)
                return false;
        if (one->any.sa_family != AF_INET6)
                return one->size == other->size && memcmp(&one->storage, &other->storage, one->size) == 0;
        return six->sin6_port == other_six->sin6_port && six->sin6_scope_id == other_six->sin6_scope_id &&
               memcmp(&six->sin6_addr, &other_six->sin6_addr, sizeof six->sin6_addr) == 0;
}

void
weir__address_print_host(const struct weir__socket_address *name, char *text, size_t size)
{
        const struct sockaddr_in *four = (const struct sockaddr_in *)&name->storage;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&name->storage;
        char host[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];

        if (name->any.sa_family == AF_INET)
                snprintf(text, size, "%s", inet_ntop(AF_INET, &four->sin_addr, host, sizeof host));
        else if (inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host) && !six->sin6_scope_id)
                snprintf(text, size, "%s", host);
        else if (if_indextoname(six->sin6_scope_id, interface))
                snprintf(text, size, "%s%%%s", host, interface);
        else
                snprintf(text, size, "%s%%%u", host, (unsigned)six->sin6_scope_id);
}

static void
print_v6(const struct weir__socket_address *name, char *text, size_t size)
{
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&name->storage;
        char host[INET6_ADDRSTRLEN + IF_NAMESIZE];

        weir__address_print_host(name, host, sizeof host);
        snprintf(text, size, "[%s]:%u", host, (unsigned)ntohs(six->sin6_port));
}

static void
print_unix(const struct weir__socket_address *name, char *text, size_t size)
{
        size_t offset = offsetof(struct sockaddr_un, sun_path);
        size_t length = name->size > offset ? name->size - offset : 0;
        char path[sizeof name->un.sun_path + 1];

        length = length < sizeof path - 1 ? length : sizeof path - 1;
        memcpy(path, name->un.sun_path, length);
        if (length && !*path)
                *path = '@';
        else
                length = strnlen(path, length);
        for (size_t i = 0; i < length; i++)
                if ((unsigned char)path[i] < ' ' || path[i] == 0x7f)
                        path[i] = '?';
        path[length] = '\0';
        snprintf(text, size, UNIX_PREFIX "%s", path);
}

void
weir__address_print(const struct weir__socket_address *name, char *text, size_t size)
{
        const struct sockaddr_in *four = (const struct sockaddr_in *)&name->storage;
        char host[INET_ADDRSTRLEN];

        switch (name->any.sa_family) {
        case AF_INET:
                inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
                snprintf(text, size, "%s:%u", host, (unsigned)ntohs(four->sin_port));
                break;
        case AF_INET6: print_v6(name, text, size); break;
        case AF_UNIX: print_unix(name, text, size); break;
        default: snprintf(text, size, "an address of family %d", (int)name->any.sa_family);
        }
}
