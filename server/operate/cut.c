/* server/operate/cut.c: what a stop cuts when its time is over, and what it says of that.
 *
 *     the order to cut: each connection cut, a report on each exchange -> taken by the thread that stops -> the log
 *
 * Threads: the owner of the poller cuts; the thread that has given the order takes the reports when it has been carried out,
 *          and logs them with
 * no lock held, as the log is user code. */
#include "server/operate/cut.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/base/clock.h"
#include "kernel/observe/log.h"
#include "server/connection/connection.h"

#define REPORTS_MAX 1000 /* of one shard; the others are counted */

static uint64_t
left_to_read(const struct weir__connection *connection)
{
        return connection->writing.output_size - connection->writing.output_sent +
               (connection->writing.file ? connection->writing.file->size : 0);
}

static void
describe_wait(const struct weir__connection *connection, char *out, size_t room)
{
        if (connection->state == WEIR__WRITING)
                snprintf(out, room, "waiting for its client to read %" PRIu64 " bytes more", left_to_read(connection));
        else if (connection->state == WEIR__READING_BODY)
                snprintf(out, room, "waiting for the rest of its body");
        else
                weir__exchange_describe_wait(connection->exchange, out, room);
}

/* The report is what it was last seen at: before it is cut. */
static void
report(const struct weir__connection *connection)
{
        const struct weir__exchange *exchange = connection->exchange;
        const struct weir__request *request = exchange ? exchange->request : connection->replied.request;
        weir_nsec began = exchange ? exchange->began : connection->replied.began;
        struct weir__shard *shard = connection->client.shard;
        struct weir__cut_report *report = shard->report_count < REPORTS_MAX ? malloc(sizeof *report) : NULL;
        char wait[256];

        if (!report || !request) {
                free(report);
                shard->unreported++;
                return;
        }
        describe_wait(connection, wait, sizeof wait);
        snprintf(report->text, sizeof report->text, "%s %.200s, %lld ms old, %s", request->method, request->target,
                 (long long)((weir__clock_now() - began) / 1000000), wait);
        report->next = shard->reports;
        shard->reports = report;
        shard->report_count++;
}

bool
weir__cut_connection(struct weir__connection *connection)
{
        /* Also when the client has gone already: what its exchange waits for is waited for no longer. */
        bool cut = connection->exchange || (connection->state == WEIR__WRITING && !connection->reading.is_refused);

        if (cut)
                report(connection);
        if (connection->exchange && connection->state != WEIR__READING_BODY)
                weir__exchange_cut(connection->exchange);
        weir__connection_close(connection);
        return cut;
}

unsigned
weir__cut_take_reports(weir_http_server *server, struct weir__cut_report **reports)
{
        unsigned missing = 0;

        for (unsigned i = 0; i < server->shard_count; i++) {
                struct weir__shard *shard = &server->shards[i];

                missing += shard->unreported;
                while (shard->reports) {
                        struct weir__cut_report *report = shard->reports;

                        shard->reports = report->next;
                        report->next = *reports;
                        *reports = report;
                }
        }
        return missing;
}

void
weir__cut_log(const struct weir__cut_report *reports, unsigned missing)
{
        for (; reports; reports = reports->next)
                weir__log(WEIR_LOG_WARNING, "stop has cut %s", reports->text);
        if (missing)
                weir__log(WEIR_LOG_WARNING, "stop has cut %u more", missing);
}

void
weir__cut_free_reports(struct weir__cut_report *reports)
{
        while (reports) {
                struct weir__cut_report *report = reports;

                reports = report->next;
                free(report);
        }
}
