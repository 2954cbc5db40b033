/* server/operate/accept.c: connections that come in, and those that may go for them.
 *
 * Threads: the owner of the poller, unless it says another thing. */
#include <sys/uio.h>

#include "kernel/socket/stream.h"
#include "net/listen/admission.h"
#include "server/connection/connection.h"
#include "server/operate/operate.h"

#define TURNED_AWAY_AT_ONCE 16
_Static_assert(TURNED_AWAY_AT_ONCE <= UINT8_MAX, "counted in a byte");

/* Over TLS a client understands no reply before the handshake.  So a few clients are let in for the handshake, and get the 503
 * after it.  Others are closed. */
static void
turn_away(struct weir__http_branch *branch, int fd, const struct weir__peer *peer)
{
        struct weir__stream stream = {.source.fd = fd};

        weir__count(&branch->counts, WEIR__COUNT_TURNED_AWAY, 1);
        if (branch->server->base.secure.is_on && branch->turned_away < TURNED_AWAY_AT_ONCE &&
            weir__http1_new(branch, fd, peer, false))
                return;
        if (!branch->server->base.secure.is_on) {
                struct iovec piece = {branch->base.poller->scratch, weir__reply_turning_away(branch)};

                (void)weir__stream_write(&stream, &piece, 1);
                (void)weir__stream_finish(&stream);
        }
        weir__stream_close(&stream);
}

void
weir__http_accepted(struct weir__branch *base, int fd, const struct weir__peer *peer, bool is_admitted)
{
        struct weir__http_branch *branch = weir__http_branch_of(base);

        weir__count(&branch->counts, WEIR__COUNT_ACCEPTED, 1);
        if (is_admitted && weir__http1_new(branch, fd, peer, true))
                return;
        if (is_admitted)
                weir__admission_leave(base, peer, true);
        turn_away(branch, fd, peer);
}

void *
weir__http_longest_idle(struct weir__branch *base, weir_nsec *since)
{
        struct weir__connection *connection = weir__connection_longest_idle(weir__http_branch_of(base));

        if (connection)
                *since = connection->idle_since;
        return connection;
}

void
weir__http_evict(void *connection, bool has_permit)
{
        weir__connection_evict(connection, has_permit);
}

size_t
weir__http_count_idle(const struct weir__branch *base)
{
        return (size_t)weir__counted(&((const struct weir__http_branch *)base)->counts, WEIR__COUNT_IDLE);
}

/* A trusted proxy brings the connections of many clients. */
bool
weir__http_is_exempt(const struct weir__server *server, const struct weir__peer *peer)
{
        return weir__proxies_have(weir__http_server_of(server)->proxies, peer);
}
