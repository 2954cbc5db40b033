/* server/connection/handshake.c: the handshake of TLS.
 *
 * Threads: the owner of the poller only. */
#include "server/connection/handshake.h"

#include <errno.h>

#include "server/connection/connection.h"

static const char not_plain[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 55\r\n"
                                "Connection: close\r\n\r\nA plain HTTP request was sent to a port that has HTTPS\n";

/* The peer speaks HTTP without TLS: the reply says that it has to. */
static void
refuse_plain(struct weir__connection *connection)
{
        struct iovec piece = {(char *)not_plain, sizeof not_plain - 1};

        weir__stream_become_plain(&connection->stream);
        (void)weir__stream_write(&connection->stream, &piece, 1);
        connection->is_last = connection->reading.is_refused = true;
        weir__connection_finish(connection);
}

void
weir__handshake(struct weir__connection *connection)
{
        int failed = weir__stream_handshake(&connection->stream);

        if (failed == -EAGAIN) {
                connection->reading.is_ready = false;
        } else if (failed) {
                weir__count(&connection->client.shard->counts, WEIR__COUNT_HANDSHAKES_FAILED, 1);
                if (failed == -EPROTOTYPE)
                        refuse_plain(connection);
                else
                        weir__connection_close(connection);
        } else {
                weir__count(&connection->client.shard->counts, WEIR__COUNT_HANDSHAKES, 1);
                connection->client.certificate = weir__tls_peer(connection->stream.tls);
                connection->reading.is_ready = connection->reading.has_ended ||
                                               weir__stream_may_have_more(&connection->stream, 0, 0);
                if (connection->is_admitted)
                        weir__connection_enter(connection, WEIR__READING_HEAD);
                else
                        weir__reply_refuse(connection, 503, false);
        }
}
