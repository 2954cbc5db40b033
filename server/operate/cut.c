/* server/operate/cut.c: cuts exchanges when the time of a stop is over, and reports them.
 *
 *     the order to cut: each connection is cut, with a report on its exchange -> the thread that stops -> the log
 *
 * Threads: the owner of the poller cuts and reports.  The thread that has given the order logs the reports at the end, with no
 *          lock held: the log function is user code.
 * Locks:   the server's, for the list of reports. */
#include "server/operate/operate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/base/clock.h"
#include "kernel/observe/log.h"
#include "server/connection/connection.h"
#include "server/exchange/held.h"

#define REPORTS_MAX 1000 /* the others are counted */

struct report {
        struct weir__link link;
        char text[512];
};

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
static struct report *
describe(const struct weir__connection *connection)
{
        const struct weir__exchange *exchange = connection->exchange;
        const struct weir__request *request = exchange ? exchange->request : connection->replied.request;
        weir_nsec came_at = exchange ? exchange->came_at : connection->replied.came_at;
        struct report *report = request ? calloc(1, sizeof *report) : NULL;
        char wait[256];

        if (!report)
                return NULL;
        describe_wait(connection, wait, sizeof wait);
        snprintf(report->text, sizeof report->text, "%s %.200s, %lld ms old, %s", request->method, request->target,
                 (long long)((weir__clock_now() - came_at) / 1000000), wait);
        return report;
}

static void
add_report(weir_http_server *server, struct report *report)
{
        weir__lock(&server->lock);
        bool is_kept = report && server->reported < REPORTS_MAX;
        server->reported += is_kept;
        server->unreported += !is_kept;
        if (is_kept)
                weir__list_append(&server->cut_reports, &report->link);
        weir__unlock(&server->lock);
        if (!is_kept)
                free(report);
}

void
weir__cut_connection(struct weir__connection *connection)
{
        /* An exchange is cut also if its client has gone already: nothing waits for it any longer. */
        bool is_cut = connection->exchange || (connection->state == WEIR__WRITING && !connection->reading.is_refused);

        if (is_cut)
                add_report(connection->client.branch->server, describe(connection));
        if (connection->exchange && connection->state != WEIR__READING_BODY)
                weir__exchange_cut(connection->exchange);
        weir__connection_close(connection);
        if (connection->exchange)
                weir__exchange_disown(connection->exchange);
}

void
weir__cut_log(struct weir__list *reports, unsigned missing)
{
        for (struct weir__link *link; (link = weir__list_pop(reports));) {
                struct report *report = weir__container_of(link, struct report, link);

                weir__log(WEIR_LOG_WARNING, "stop has cut %s", report->text);
                free(report);
        }
        if (missing)
                weir__log(WEIR_LOG_WARNING, "stop has cut %u more", missing);
}
