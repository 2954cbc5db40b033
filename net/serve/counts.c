/* net/serve/counts.c: reports on the counts of the servers of streams that serve.
 *
 * Threads: any.
 * Locks:   that of net/listen/serving.c, within its walk. */
#include "net/serve/counts.h"

#include <stdlib.h>

#include "net/serve/stream_server.h"

struct reports {
        struct weir__stream_report *all;
        size_t count, room;
};

static bool
fill(const struct weir__server *base, void *context)
{
        struct reports *reports = context;
        struct weir__stream_report *report = &reports->all[reports->count];

        if (reports->count == reports->room)
                return true;
        reports->count++;
        weir__serving_write_name(base, report->name);
        report->counts[WEIR__STREAM_OPEN] = (int64_t)atomic_load_explicit(&base->connections, memory_order_relaxed);
        for (unsigned i = 0; i < base->branch_count; i++) {
                const struct weir__stream_branch *branch = (const struct weir__stream_branch *)weir__server_branch(base, i);

                for (unsigned kind = 0; kind < WEIR__STREAM_COUNTS; kind++)
                        report->counts[kind] += atomic_load_explicit(&branch->counts.of[kind], memory_order_relaxed);
        }
        return false;
}

struct weir__stream_report *
weir__stream_reports(size_t *ret_count)
{
        struct reports reports = {.room = weir__serving_count()};

        reports.all = calloc(reports.room ? reports.room : 1, sizeof *reports.all);
        if (!reports.all)
                return NULL;
        /* Meanwhile servers may have stopped, and others may have started. */
        weir__serving_walk(WEIR__STREAMS, fill, &reports);
        *ret_count = reports.count;
        return reports.all;
}
