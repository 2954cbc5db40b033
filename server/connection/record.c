/* server/connection/record.c: counts and the access log.
 *
 * Threads: the owner of the poller only. */
#include "server/connection/record.h"

#include "kernel/base/clock.h"
#include "server/observe/access.h"
#include "server/connection/connection.h"

/* Writes a line to the access log, which the server has.  `status` 0: no reply has begun. */
static void
record(const struct weir__connection *connection, const struct weir__request *request, weir_nsec came_at, int status,
       bool is_complete)
{
        const struct weir__http_branch *branch = connection->client.branch;
        const struct weir__writing *writing = &connection->writing;
        const struct weir__peer *peer = &connection->client.peer;
        bool has_body = status && connection->transport.sent > writing->head_size;
        struct weir__outlet_record made = {
                .status = (uint16_t)(status && connection->transport.sent ? status
                                                                          : WEIR_HTTP_NO_REPLY), /* none before the first byte */
                .is_complete = is_complete,
                .body_sent = has_body ? connection->transport.sent - writing->head_size : 0,
                .client = request ? weir__forwarded_client(branch->server->proxies, request, peer) : *peer,
        };

        weir__access_record(branch->access, branch->base.index, &made, request, came_at);
}

/* 0 stands for 200. */
static int
status_of(int status)
{
        return status ? status : 200;
}

void
weir__record_request(struct weir__connection *connection, struct weir__request *request)
{
        connection->replied.request = request;
        connection->replied.came_at = weir__clock_now();
}

void
weir__record_keep_request(struct weir__connection *connection, struct weir__exchange *exchange)
{
        connection->replied.request = exchange->request;
        connection->replied.came_at = exchange->came_at;
        exchange->request = NULL;
}

void
weir__record_reply(struct weir__connection *connection, struct weir__exchange *exchange, int status)
{
        weir__count_reply(&connection->client.branch->counts, status_of(status));
        if (exchange)
                exchange->is_counted = true;
        if (!connection->client.branch->access)
                return;
        connection->replied.status = (uint16_t)status_of(status);
        if (!exchange || !weir__exchange_has_begun(exchange))
                connection->transport.sent = connection->writing.head_size = 0;
        if (exchange)
                weir__record_keep_request(connection, exchange);
}

void
weir__record_written(struct weir__connection *connection, bool is_complete)
{
        struct weir__replied *replied = &connection->replied;

        if (!replied->request && !replied->status)
                return;
        if (connection->client.branch->access)
                record(connection, replied->request, replied->came_at, status_of(replied->status), is_complete);
        weir__exchange_free_request(replied->request);
        *replied = (struct weir__replied){.request = NULL};
}

void
weir__record_end(struct weir__exchange *exchange)
{
        const struct weir__connection *connection = weir__connection_of(exchange);
        struct weir__http_branch *branch = connection->client.branch;
        int status = weir__exchange_has_begun(exchange) ? status_of(exchange->response.status) : 0;

        if (!exchange->is_counted)
                weir__count_reply(&branch->counts, status ? status : WEIR_HTTP_NO_REPLY);
        if (branch->access && exchange->request)
                record(connection, exchange->request, exchange->came_at, status, false);
}
