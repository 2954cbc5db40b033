/* protocol/field/peer.c: addresses of peers, in a compact form.
 *
 * Threads: any; pure functions.  No locks. */
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "protocol/text/bytes.h"
#include "protocol/field/peer.h"

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static void
set_v4(struct weir__peer *peer, const struct in_addr *address)
{
        peer->family = WEIR__PEER_V4;
        memcpy(peer->address, mapped, sizeof mapped);
        memcpy(peer->address + sizeof mapped, address, 4);
}

static void
set_v6(struct weir__peer *peer, const struct in6_addr *address)
{
        memcpy(peer->address, address, 16);
        peer->family = memcmp(peer->address, mapped, sizeof mapped) == 0 ? WEIR__PEER_V4 : WEIR__PEER_V6;
}

struct weir__peer
weir__peer_of(const struct sockaddr_storage *address, socklen_t size)
{
        struct weir__peer peer = {.port = 0};

        if (size >= sizeof(struct sockaddr_in6) && address->ss_family == AF_INET6) {
                const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

                set_v6(&peer, &v6->sin6_addr);
                peer.port = ntohs(v6->sin6_port);
        } else if (size >= sizeof(struct sockaddr_in) && address->ss_family == AF_INET) {
                const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

                set_v4(&peer, &v4->sin_addr);
                peer.port = ntohs(v4->sin_port);
        } else if (size >= sizeof(sa_family_t) && address->ss_family == AF_UNIX) {
                peer.family = WEIR__PEER_UNIX;
        }
        return peer;
}

bool
weir__peer_read(struct weir__peer *peer, const char *text, size_t size)
{
        char copy[INET6_ADDRSTRLEN];
        struct in_addr v4;
        struct in6_addr v6;

        *peer = (struct weir__peer){.port = 0};
        if (size >= sizeof copy || memchr(text, '\0', size))
                return false;
        memcpy(copy, text, size);
        copy[size] = '\0';
        if (inet_pton(AF_INET, copy, &v4) == 1)
                set_v4(peer, &v4);
        else if (inet_pton(AF_INET6, copy, &v6) == 1)
                set_v6(peer, &v6);
        else if (WEIR__BYTES_ARE(text, size, "unix:"))
                peer->family = WEIR__PEER_UNIX;
        return peer->family != WEIR__PEER_UNKNOWN;
}

void
weir__peer_write(const struct weir__peer *peer, bool has_port, char out[WEIR__PEER_ROOM])
{
        bool is_v6 = peer->family == WEIR__PEER_V6;
        char text[INET6_ADDRSTRLEN];

        if (peer->family == WEIR__PEER_UNIX || peer->family == WEIR__PEER_UNKNOWN) {
                strcpy(out, peer->family == WEIR__PEER_UNIX ? "unix:" : "unknown");
                return;
        }
        inet_ntop(is_v6 ? AF_INET6 : AF_INET, peer->address + (is_v6 ? 0 : sizeof mapped), text, sizeof text);
        if (has_port)
                snprintf(out, WEIR__PEER_ROOM, is_v6 ? "[%s]:%u" : "%s:%u", text, (unsigned)peer->port);
        else
                strcpy(out, text);
}
