/* database/sqlite/figures.c: what databases count, also as text.
 *
 * Threads: any.
 * Locks:   one for the list of databases, above those of databases. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "database/sqlite/sqlite.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weir_sqlite *first; /* of all databases */

void
weir__sqlite_enlist(weir_sqlite *db)
{
        pthread_mutex_lock(&lock);
        db->next = first;
        if (first)
                first->previous = db;
        first = db;
        pthread_mutex_unlock(&lock);
}

void
weir__sqlite_delist(weir_sqlite *db)
{
        pthread_mutex_lock(&lock);
        if (db->previous)
                db->previous->next = db->next;
        else
                first = db->next;
        if (db->next)
                db->next->previous = db->previous;
        pthread_mutex_unlock(&lock);
}

static void
fill(const weir_sqlite *db, struct weir_sqlite_stats *stats)
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
        fill(db, stats);
        return 0;
}

/* -- as text -- */

struct text {
        char *data;
        size_t used, room;
        bool is_lost; /* there is no memory for it */
};

static void
print(struct text *text, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        int size = vsnprintf(NULL, 0, format, arguments);
        va_end(arguments);
        if (text->room - text->used <= (size_t)size) {
                size_t room = 2 * text->room + (size_t)size + 1024;
                char *data = realloc(text->data, room);

                text->is_lost |= !data;
                if (!data)
                        return;
                text->data = data;
                text->room = room;
        }
        va_start(arguments, format);
        vsnprintf(text->data + text->used, text->room - text->used, format, arguments);
        va_end(arguments);
        text->used += (size_t)size;
}

/* With a number behind it, if an older one has the same name. */
static void
print_name(struct text *text, const weir_sqlite *db)
{
        unsigned number = 1;

        for (const char *name = db->config.name; *name; name++)
                if (*name == '\n')
                        print(text, "\\n");
                else
                        print(text, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
        for (const weir_sqlite *older = db->next; older; older = older->next)
                number += strcmp(older->config.name, db->config.name) == 0;
        if (number > 1)
                print(text, "#%u", number);
}

static const struct figure {
        const char *name, *type, *help;
        size_t at;
        enum { WORD, LONG, SIZE, SECONDS } is;
} figures[] = {
        {"weir_sqlite_connections", "gauge", "Connections that are open.", offsetof(struct weir_sqlite_stats, connections), WORD},
        {"weir_sqlite_busy", "gauge", "Connections that run something.", offsetof(struct weir_sqlite_stats, busy), WORD},
        {"weir_sqlite_waiting_writes", "gauge", "Tasks that wait to write.", offsetof(struct weir_sqlite_stats, waiting_writes),
         SIZE},
        {"weir_sqlite_waiting_reads", "gauge", "Tasks that wait to read.", offsetof(struct weir_sqlite_stats, waiting_reads),
         SIZE},
        {"weir_sqlite_writes_total", "counter", "Tasks that have written.", offsetof(struct weir_sqlite_stats, writes), LONG},
        {"weir_sqlite_reads_total", "counter", "Tasks that have read.", offsetof(struct weir_sqlite_stats, reads), LONG},
        {"weir_sqlite_failed_total", "counter", "Tasks that have failed.", offsetof(struct weir_sqlite_stats, failed), LONG},
        {"weir_sqlite_cancelled_total", "counter", "Tasks that were cancelled.", offsetof(struct weir_sqlite_stats, cancelled),
         LONG},
        {"weir_sqlite_commits_total", "counter", "Transactions that were committed.", offsetof(struct weir_sqlite_stats, commits),
         LONG},
        {"weir_sqlite_rollbacks_total", "counter", "Transactions that were rolled back.",
         offsetof(struct weir_sqlite_stats, rollbacks), LONG},
        {"weir_sqlite_prepared_total", "counter", "Statements that were prepared.", offsetof(struct weir_sqlite_stats, prepared),
         LONG},
        {"weir_sqlite_reused_total", "counter", "Statements that were used again.", offsetof(struct weir_sqlite_stats, reused),
         LONG},
        {"weir_sqlite_rows_total", "counter", "Rows that were returned.", offsetof(struct weir_sqlite_stats, rows), LONG},
        {"weir_sqlite_commit_seconds_total", "counter", "Time of commits.", offsetof(struct weir_sqlite_stats, committing),
         SECONDS},
};

static void
print_value(struct text *text, const struct weir_sqlite_stats *stats, const struct figure *figure)
{
        const void *at = (const char *)stats + figure->at;

        if (figure->is == SECONDS)
                print(text, " %.9f\n", (double)*(const weir_nsec *)at / 1e9);
        else if (figure->is == WORD)
                print(text, " %u\n", *(const unsigned *)at);
        else if (figure->is == SIZE)
                print(text, " %zu\n", *(const size_t *)at);
        else
                print(text, " %llu\n", (unsigned long long)*(const uint64_t *)at);
}

static void
print_all(struct text *text)
{
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
                const struct figure *figure = &figures[i];

                print(text, "# HELP %s %s\n# TYPE %s %s\n", figure->name, figure->help, figure->name, figure->type);
                for (const weir_sqlite *db = first; db; db = db->next) {
                        struct weir_sqlite_stats stats;

                        fill(db, &stats);
                        print(text, "%s{database=\"", figure->name);
                        print_name(text, db);
                        print(text, "\"}");
                        print_value(text, &stats, figure);
                }
        }
}

int
weir_sqlite_metrics_write(int fd)
{
        struct text text = {0};
        int failed = 0;

        if (weir__sqlite_is_forked())
                return -ECHILD;
        pthread_mutex_lock(&lock);
        print_all(&text);
        pthread_mutex_unlock(&lock);
        if (text.is_lost)
                failed = -ENOMEM;
        for (size_t at = 0; at < text.used && !failed;) {
                ssize_t size = write(fd, text.data + at, text.used - at);

                if (size >= 0)
                        at += (size_t)size;
                else if (errno != EINTR)
                        failed = -errno;
        }
        free(text.data);
        return failed;
}
