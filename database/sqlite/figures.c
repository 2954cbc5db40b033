/* database/sqlite/figures.c: what databases count, also as text.
 *
 * Threads: any. */
#include "database/sqlite/sqlite.h"

static void
read_counts(const weir_sqlite *db, struct weir_sqlite_stats *stats)
{
        *stats = (struct weir_sqlite_stats){
                .size = sizeof *stats,
                .connections = atomic_load(&db->connections),
                .busy = atomic_load(&db->busy),
                .waiting_writes = atomic_load(&db->writes.count),
                .waiting_reads = atomic_load(&db->reads.count),
                .writes = atomic_load(&db->done_writes),
                .reads = atomic_load(&db->done_reads),
                .failed = atomic_load(&db->failed),
                .cancelled = atomic_load(&db->cancelled),
                .commits = atomic_load(&db->commits),
                .rollbacks = atomic_load(&db->rollbacks),
                .prepared = atomic_load(&db->prepared),
                .reused = atomic_load(&db->reused),
                .rows = atomic_load(&db->rows),
                .committing = atomic_load(&db->committing),
        };
}

int
weir_sqlite_stats(const weir_sqlite *db, struct weir_sqlite_stats *stats)
{
        if (!stats || stats->size != sizeof *stats)
                return -EINVAL;
        if (!db)
                return -ENOMEM;
        if (weir__sqlite_is_forked())
                return -ECHILD;
        read_counts(db, stats);
        return 0;
}

/* -- as text -- */

#define AT(field) offsetof(struct weir_sqlite_stats, field)

static const struct weir__figure list[] = {
        {"connections", "Connections that are open.", WEIR__FIGURE_UNSIGNED, AT(connections)},
        {"busy", "Connections that run something.", WEIR__FIGURE_UNSIGNED, AT(busy)},
        {"waiting_writes", "Tasks that wait to write.", WEIR__FIGURE_SIZE, AT(waiting_writes)},
        {"waiting_reads", "Tasks that wait to read.", WEIR__FIGURE_SIZE, AT(waiting_reads)},
        {"writes_total", "Tasks that have written.", WEIR__FIGURE_COUNT, AT(writes)},
        {"reads_total", "Tasks that have read.", WEIR__FIGURE_COUNT, AT(reads)},
        {"failed_total", "Tasks that have failed.", WEIR__FIGURE_COUNT, AT(failed)},
        {"cancelled_total", "Tasks that were cancelled.", WEIR__FIGURE_COUNT, AT(cancelled)},
        {"commits_total", "Transactions that were committed.", WEIR__FIGURE_COUNT, AT(commits)},
        {"rollbacks_total", "Transactions that were rolled back.", WEIR__FIGURE_COUNT, AT(rollbacks)},
        {"prepared_total", "Statements that were prepared.", WEIR__FIGURE_COUNT, AT(prepared)},
        {"reused_total", "Statements that were used again.", WEIR__FIGURE_COUNT, AT(reused)},
        {"rows_total", "Rows that were returned.", WEIR__FIGURE_COUNT, AT(rows)},
        {"commit_seconds_total", "Time of commits.", WEIR__FIGURE_TIME, AT(committing)},
};

_Static_assert(sizeof(struct weir_sqlite_stats) <= WEIR__FIGURES_SIZE, "there is room for it");

static void
fill(const struct weir__figured *thing, void *stats)
{
        read_counts((const weir_sqlite *)((const char *)thing - offsetof(weir_sqlite, figured)), stats);
}

struct weir__figures weir__sqlite_figures = {.library = "sqlite",
                                             .label = "database",
                                             .list = list,
                                             .count = sizeof list / sizeof *list,
                                             .fill = fill,
                                             .lock = PTHREAD_MUTEX_INITIALIZER};

int
weir_sqlite_metrics_write(int fd)
{
        return weir__figures_write(&weir__sqlite_figures, fd);
}
