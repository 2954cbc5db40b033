/* server/connection/record.c: what is counted and logged in the life of a request.
 *
 * Threads: the owner of the poller only. */
#include "server/connection/record.h"

#include "kernel/base/clock.h"
#include "server/observe/access.h"
#include "server/connection/connection.h"

/* The client that a trusted proxy names, if there is a request in which it could. */
static struct weir__peer
client_of(const struct weir__connection *connection, const struct weir__request *request)
{
        const struct weir__proxies *proxies = connection->client.shard->server->proxies;

        return request ? weir__forwarded_client(proxies, request, &connection->client.peer) : connection->client.peer;
}

/* While not one byte of a reply has gone out there is no status. */
static int
status_seen(const struct weir__connection *connection, int status)
{
        return connection->writing.sent == 0 ? WEIR_HTTP_NO_REPLY : status ? status : 200;
}

static uint64_t
body_sent(const struct weir__writing *writing)
{
        return writing->sent > writing->head_size ? writing->sent - writing->head_size : 0;
}

static void
record(const struct weir__connection *connection, struct weir__access_entry *entry)
{
        const struct weir__shard *shard = connection->client.shard;
        const struct weir__peer client = client_of(connection, entry->request);

        entry->client = &client;
        weir__access_record(shard->access, (unsigned)(shard - shard->server->shards), entry);
}

void
weir__record_request(struct weir__connection *connection, struct weir__request *request)
{
        connection->replied.request = request;
        connection->replied.began = weir__clock_now();
}

void
weir__record_keep_request(struct weir__connection *connection, struct weir__exchange *exchange)
{
        connection->replied.request = exchange->request;
        connection->replied.began = exchange->began;
        exchange->request = NULL;
}

void
weir__record_reply(struct weir__connection *connection, struct weir__exchange *exchange, int status)
{
        weir__count_reply(&connection->client.shard->counts, status ? status : 200);
        if (exchange)
                exchange->is_counted = true;
        if (!connection->client.shard->access)
                return;
        connection->replied.status = (uint16_t)(status ? status : 200);
        if (!exchange || !weir__exchange_has_begun(exchange))
                connection->writing.sent = connection->writing.head_size = 0;
        if (exchange)
                weir__record_keep_request(connection, exchange);
}

void
weir__record_written(struct weir__connection *connection, bool is_complete)
{
        struct weir__access_entry entry = {
                .request = connection->replied.request,
                .is_complete = is_complete,
                .began = connection->replied.began,
        };

        if (!connection->replied.request && !connection->replied.status)
                return;
        if (connection->client.shard->access) {
                entry.status = status_seen(connection, connection->replied.status);
                entry.body_sent = body_sent(&connection->writing);
                record(connection, &entry);
        }
        weir__exchange_free_request(connection->replied.request);
        connection->replied = (struct weir__replied){.request = NULL};
}

void
weir__record_end(struct weir__exchange *exchange)
{
        const struct weir__connection *connection = weir__connection_of(exchange);
        struct weir__shard *shard = connection->client.shard;
        bool has_begun = weir__exchange_has_begun(exchange);
        int status = exchange->response.status;

        if (!exchange->is_counted)
                weir__count_reply(&shard->counts, !has_begun ? WEIR_HTTP_NO_REPLY : status ? status : 200);
        if (shard->access && exchange->request) {
                struct weir__access_entry entry = {
                        .request = exchange->request,
                        .status = has_begun ? status_seen(connection, status) : WEIR_HTTP_NO_REPLY,
                        .body_sent = has_begun ? body_sent(&connection->writing) : 0,
                        .began = exchange->began,
                };
                record(connection, &entry);
        }
}
