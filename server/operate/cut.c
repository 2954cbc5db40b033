/* server/operate/cut.c: cuts exchanges when the time of a stop is over, and describes them.
 *
 * Threads: the owner of the poller. */
#include "server/operate/operate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/base/clock.h"
#include "net/serve/serve.h"
#include "server/connection/connection.h"
#include "server/exchange/held.h"

static void
describe_wait(const struct weir__connection *connection, char *out, size_t room)
{
        const struct weir__exchange *exchange = connection->exchange;
        unsigned held = exchange && weir__exchange_has_ended(exchange) ? weir__held_references(exchange) : 0;

        if (held)
                snprintf(out, room, "held by %u reference%s (weir_http_ref)", held, held == 1 ? "" : "s");
        else if (connection->state == WEIR__WRITING)
                snprintf(out, room, "waiting for its client to read %" PRIu64 " bytes more",
                         weir__output_left(&connection->transport));
        else if (connection->state == WEIR__READING_BODY)
                snprintf(out, room, "waiting for the rest of its body");
        else
                weir__exchange_describe_wait(exchange, out, room);
}

/* A report on the exchange, made before it is cut. */
static struct weir__cut_report *
describe(const struct weir__connection *connection)
{
        const struct weir__exchange *exchange = connection->exchange;
        const struct weir__request *request = exchange ? exchange->request : connection->replied.request;
        weir_nsec came_at = exchange ? exchange->came_at : connection->replied.came_at;
        struct weir__cut_report *report = request ? calloc(1, sizeof *report) : NULL;
        char wait[256];

        if (!report)
                return NULL;
        describe_wait(connection, wait, sizeof wait);
        snprintf(report->text, sizeof report->text, "%s %.200s, %lld ms old, %s", request->method, request->target,
                 (long long)((weir__clock_now() - came_at) / 1000000), wait);
        return report;
}

void
weir__cut_connection(struct weir__connection *connection)
{
        /* An exchange is cut also if its client has gone already: nothing waits for it any longer. */
        bool is_cut = connection->exchange || (connection->state == WEIR__WRITING && !connection->reading.is_refused);

        if (is_cut)
                weir__cut_add(&connection->client.branch->server->base, describe(connection));
        if (connection->exchange && connection->state != WEIR__READING_BODY)
                weir__exchange_cut(connection->exchange);
        weir__connection_close(connection);
        if (connection->exchange)
                weir__exchange_disown(connection->exchange);
}
