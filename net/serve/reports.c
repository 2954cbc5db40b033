/* net/serve/reports.c: reports on what a stop cuts.
 *
 *     the order to cut: each connection is cut, with a report -> the thread that stops -> the log
 *
 * Threads: the owner of the poller cuts and reports.  The thread that has given the order logs the reports at the end, with no
 *          lock held: the log function is user code.
 * Locks:   the server's, for the list of reports. */
#include <stdlib.h>

#include "kernel/observe/log.h"
#include "net/serve/serve.h"

#define REPORTS_MAX 1000 /* the others are counted */

void
weir__cut_add(struct weir__server *server, struct weir__cut_report *report)
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
weir__cut_log(struct weir__list *reports, unsigned missing)
{
        for (struct weir__link *link; (link = weir__list_pop(reports));) {
                struct weir__cut_report *report = weir__container_of(link, struct weir__cut_report, link);

                weir__log(WEIR_LOG_WARNING, "stop has cut %s", report->text);
                free(report);
        }
        if (missing)
                weir__log(WEIR_LOG_WARNING, "stop has cut %u more", missing);
}
