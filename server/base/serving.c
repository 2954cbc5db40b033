/* server/base/serving.c: reports on the counts of the HTTP servers that serve.
 *
 * Threads: any.
 * Locks:   that of net/listen/serving.c, within its walk. */
#include "server/base/serving.h"

#include <stdlib.h>

#include "server/base/server.h"

struct reports {
        struct weir__serving_report *all;
        size_t count, room;
};

static bool
fill(const struct weir__server *base, void *context)
{
        struct reports *reports = context;
        struct weir__serving_report *report = &reports->all[reports->count];

        if (reports->count == reports->room)
                return true;
        reports->count++;
        weir__serving_write_name(base, report->name);
        report->counts[WEIR__COUNT_OPEN] = (int64_t)atomic_load_explicit(&base->connections, memory_order_relaxed);
        for (unsigned i = 0; i < base->branch_count; i++) {
                const struct weir__http_branch *branch = (const struct weir__http_branch *)weir__server_branch(base, i);

                for (unsigned kind = 0; kind < WEIR__COUNTS; kind++)
                        report->counts[kind] += weir__counted(&branch->counts, kind);
        }
        return false;
}

struct weir__serving_report *
weir__serving_reports(size_t *ret_count)
{
        struct reports reports = {.room = weir__serving_count()};

        reports.all = calloc(reports.room ? reports.room : 1, sizeof *reports.all);
        if (!reports.all)
                return NULL;
        /* Meanwhile servers may have stopped, and others may have started. */
        weir__serving_walk(WEIR__HTTP, fill, &reports);
        *ret_count = reports.count;
        return reports.all;
}
