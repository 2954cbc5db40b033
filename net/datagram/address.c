/* net/datagram/address.c: addresses of datagrams, as the program sees them.
 *
 * Threads: any.
 * Locks:   none; no state. */
#include "net/datagram/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "kernel/observe/log.h"

_Static_assert(sizeof((struct weir_udp_address *)0)->name >= sizeof(struct sockaddr_un), "a path must have room");

void
weir__udp_address_set(struct weir_udp_address *address, const struct weir__socket_address *from)
{
        memset(address, 0, sizeof *address);
        if (from->size <= sizeof(sa_family_t) || from->size > sizeof address->name)
                return;
        address->size = from->size;
        memcpy(address->name, &from->storage, from->size);
}

int
weir__udp_address_parse(struct weir_udp_address *address, const char *text, const char *call)
{
        struct weir__address parsed;
        const char *reason = NULL;
        int failed = text ? weir__address_parse(text, strlen(text), &parsed, &reason) : -EINVAL;

        memset(address, 0, sizeof *address);
        if (!failed && parsed.kind == WEIR__ADDRESS_NAME) {
                reason = "names of hosts are not looked up";
                failed = -EINVAL;
        }
        if (failed) {
                weir__log_refusal("%s: \"%.150s\": %s", call, text ? text : "(null)",
                                  reason ? reason : "expected host:port, [v6]:port or unix:path");
                return failed;
        }
        weir__udp_address_set(address, &parsed.name);
        return 0;
}

bool
weir__udp_address_is_valid(const struct weir_udp_address *address)
{
        sa_family_t family = ((const struct sockaddr *)address->name)->sa_family;

        switch (family) {
        case AF_INET: return address->size == sizeof(struct sockaddr_in);
        case AF_INET6: return address->size == sizeof(struct sockaddr_in6);
        case AF_UNIX: return address->size > sizeof family && address->size <= sizeof(struct sockaddr_un);
        default: return false;
        }
}

/* -- the public face -- */

int
weir_udp_address_read(struct weir_udp_address *address, const char *text)
{
        return weir__udp_address_parse(address, text, "weir_udp_address_read");
}

void
weir_udp_address_write(const struct weir_udp_address *address, char *text, size_t room)
{
        struct weir__socket_address name = {.size = 0};

        if (room)
                *text = '\0';
        if (!room || !address || !weir__udp_address_is_valid(address))
                return;
        name.size = address->size;
        memcpy(&name.storage, address->name, address->size);
        weir__address_print(&name, text, room);
}

static int
difference(uint64_t one, uint64_t other)
{
        return one < other ? -1 : one > other;
}

int
weir_udp_address_compare(const struct weir_udp_address *one, const struct weir_udp_address *other)
{
        const struct sockaddr_in *four = (const struct sockaddr_in *)one->name,
                                 *other_four = (const struct sockaddr_in *)other->name;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)one->name;
        const struct sockaddr_in6 *other_six = (const struct sockaddr_in6 *)other->name;
        int result = difference(one->size ? four->sin_family : 0, other->size ? other_four->sin_family : 0);

        if (result || !one->size)
                return result;
        if (four->sin_family == AF_INET) {
                result = difference(ntohl(four->sin_addr.s_addr), ntohl(other_four->sin_addr.s_addr));
                return result ? result : difference(ntohs(four->sin_port), ntohs(other_four->sin_port));
        }
        if (four->sin_family == AF_INET6) {
                result = memcmp(&six->sin6_addr, &other_six->sin6_addr, sizeof six->sin6_addr);
                result = result ? result : difference(six->sin6_scope_id, other_six->sin6_scope_id);
                return result ? result : difference(ntohs(six->sin6_port), ntohs(other_six->sin6_port));
        }
        result = difference(one->size, other->size);
        return result ? result : memcmp(one->name, other->name, one->size);
}
