/* server/record.c: what the access log is told, and when.
 *
 *     the reply is about to go out: the connection takes the request over -> all of it is written, or the connection closed: recorded
 *     the exchange ends without: recorded
 *
 * Threads: the owner of the poller only.
 *
 * A reply may be on its way long after its exchange is over: all that is kept of that is the request. */
#include "kernel/base/clock.h"
#include "server/server.h"

/* Whom a trusted proxy names, if it is one and there is a request in which it could. */
static struct weir__peer
client_of(const struct weir__connection *connection, const struct weir__request *request)
{
        const struct weir__proxies *proxies = connection->shard->server->proxies;

        return request ? weir__forwarded_client(proxies, request, &connection->peer) : connection->peer;
}

/* Not one byte of a reply has gone out: then there is no status to tell. */
static int
told_status(const struct weir__connection *connection, int status)
{
        return connection->sent == 0 ? WEIR_HTTP_NO_REPLY : status ? status : 200;
}

static uint64_t
body_sent(const struct weir__connection *connection)
{
        return connection->sent > connection->head_size ? connection->sent - connection->head_size : 0;
}

void
weir__record_request(struct weir__connection *connection, struct weir__request *request)
{
        connection->replied = request;
        connection->replied_began = weir__clock_now();
}

void
weir__keep_request(struct weir__connection *connection, struct weir__exchange *exchange)
{
        connection->replied = exchange->request;
        connection->replied_began = exchange->began;
        exchange->request = NULL;
}

void
weir__record_replying(struct weir__connection *connection, struct weir__exchange *exchange, int status)
{
        connection->replied_status = (uint16_t)(status ? status : 200);
        if (!exchange || !atomic_load_explicit(&exchange->begun, memory_order_relaxed))
                connection->sent = connection->head_size = 0;
        if (!exchange)
                return;
        weir__keep_request(connection, exchange);
}

static void
record(const struct weir__shard *shard, const struct weir__access_entry *entry)
{
        weir__access_record(shard->log, (unsigned)(shard - shard->server->shards), entry);
}

static void
record_replied(const struct weir__connection *connection, bool is_complete)
{
        const struct weir__peer client = client_of(connection, connection->replied);
        const struct weir__access_entry entry = {
                .client = &client,
                .request = connection->replied,
                .status = told_status(connection, connection->replied_status),
                .is_complete = is_complete,
                .body_sent = body_sent(connection),
                .began = connection->replied_began,
        };

        record(connection->shard, &entry);
}

void
weir__record_replied(struct weir__connection *connection, bool is_complete)
{
        if (connection->shard->log)
                record_replied(connection, is_complete);
        weir__server_free_request(connection->replied);
        connection->replied = NULL;
        connection->replied_status = 0;
        connection->replied_began = 0;
}

void
weir__record_unanswered(struct weir__exchange *exchange)
{
        const struct weir__connection *connection = exchange->connection;
        bool begun = atomic_load_explicit(&exchange->begun, memory_order_relaxed);
        const struct weir__peer client = client_of(connection, exchange->request);
        const struct weir__access_entry entry = {
                .client = &client,
                .request = exchange->request,
                .status = begun ? told_status(connection, exchange->response.status) : WEIR_HTTP_NO_REPLY,
                .body_sent = begun ? body_sent(connection) : 0,
                .began = exchange->began,
        };

        record(connection->shard, &entry);
}
