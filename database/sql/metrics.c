/* database/sql/metrics.c: what pools count, as text.
 *
 * Threads: any.
 * Locks:   that of all pools of a kind, above those of pools. */
#include "database/sql/sql.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
weir__sql_enlist(struct weir__sql_pool *pool)
{
        struct weir__sql_all *all = pool->kind->all;

        pthread_mutex_lock(&all->lock);
        pool->older = all->newest;
        if (pool->older)
                pool->older->newer = pool;
        all->newest = pool;
        pthread_mutex_unlock(&all->lock);
}

void
weir__sql_delist(struct weir__sql_pool *pool)
{
        struct weir__sql_all *all = pool->kind->all;

        pthread_mutex_lock(&all->lock);
        *(pool->newer ? &pool->newer->older : &all->newest) = pool->older;
        if (pool->older)
                pool->older->newer = pool->newer;
        pthread_mutex_unlock(&all->lock);
}

void
weir__sql_forked(struct weir__sql_all *all)
{
        pthread_mutex_init(&all->lock, NULL);
        all->newest = NULL;
        all->is_child = true;
}

enum unit { WORD, COUNT, SECONDS };

struct figure {
        const char *name, *help; /* NULL: the kind's */
        enum unit unit;
        size_t at; /* in a pool; 0: `busy` */
};

#define AT(field) offsetof(struct weir__sql_pool, field)

static const struct figure figures[] = {
        {"connections", "Connections that are open, or being made.", WORD, AT(link_count)},
        {"connecting", "Connections that are being made.", WORD, AT(connecting)},
        {"idle", "Connections that are idle.", WORD, AT(idle_count)},
        {"busy", "Connections that are in use.", WORD, 0},
        {"waiting", "Queries and transactions that wait for a connection.", WORD, AT(waiting.length)},
        {"queries_total", "Queries that were sent.", COUNT, AT(queries)},
        {"failed_total", "Queries that have failed.", COUNT, AT(failed)},
        {"cancelled_total", "Queries whose flow was over first.", COUNT, AT(cancelled)},
        {"connects_total", "Connections that were made.", COUNT, AT(connects)},
        {"refused_total", "Attempts that made no connection.", COUNT, AT(refused)},
        {"lost_total", NULL, COUNT, AT(lost)},
        {"waited_seconds_total", "Time that queries waited for connections.", SECONDS, AT(waited)},
};

/* With a number behind it, if an older one has the same name. */
static void
print_name(FILE *text, const struct weir__sql_pool *pool)
{
        unsigned number = 1;

        for (const char *name = pool->name; *name; name++)
                if (*name == '\n')
                        fputs("\\n", text);
                else
                        fprintf(text, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
        for (const struct weir__sql_pool *older = pool->older; older; older = older->older)
                number += strcmp(older->name, pool->name) == 0;
        if (number > 1)
                fprintf(text, "#%u", number);
}

static void
print_value(FILE *text, struct weir__sql_pool *pool, const struct figure *figure)
{
        const void *at = (const char *)pool + figure->at;

        pthread_mutex_lock(&pool->lock);
        uint64_t value = figure->unit == COUNT     ? *(const uint64_t *)at
                         : figure->unit == SECONDS ? (uint64_t) * (const weir_nsec *)at
                         : figure->at              ? *(const unsigned *)at
                                                   : weir__sql_busy(pool);
        pthread_mutex_unlock(&pool->lock);
        if (figure->unit == SECONDS)
                fprintf(text, " %.9f\n", (double)value / 1e9);
        else
                fprintf(text, " %" PRIu64 "\n", value);
}

static void
print(FILE *text, const struct weir__sql_kind *kind, const struct figure *figure)
{
        fprintf(text, "# HELP weir_%s_%s %s\n# TYPE weir_%s_%s %s\n", kind->name, figure->name,
                figure->help ? figure->help : kind->broken, kind->name, figure->name, figure->unit == WORD ? "gauge" : "counter");
        for (struct weir__sql_pool *pool = kind->all->newest; pool; pool = pool->older) {
                fprintf(text, "weir_%s_%s{pool=\"", kind->name, figure->name);
                print_name(text, pool);
                fputs("\"}", text);
                print_value(text, pool, figure);
        }
}

/* Returns whether there is something to write. */
static bool
print_all(FILE *text, const struct weir__sql_kind *kind)
{
        pthread_mutex_lock(&kind->all->lock);
        bool is_there = kind->all->newest || !kind->all->is_child;
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
                print(text, kind, &figures[i]);
        for (size_t i = 0; i < kind->figure_count; i++)
                print(text, kind, &(struct figure){kind->figures[i].name, kind->figures[i].help, COUNT, kind->figures[i].at});
        pthread_mutex_unlock(&kind->all->lock);
        return is_there;
}

static int
write_all(int fd, const char *data, size_t size)
{
        while (size > 0) {
                ssize_t written = write(fd, data, size);

                if (written < 0 && errno != EINTR)
                        return -errno;
                if (written > 0) {
                        data += written;
                        size -= (size_t)written;
                }
        }
        return 0;
}

int
weir__sql_metrics_write(const struct weir__sql_kind *kind, int fd)
{
        char *data = NULL;
        size_t size = 0;
        FILE *text = open_memstream(&data, &size);

        if (!text)
                return -ENOMEM;
        bool is_there = print_all(text, kind), is_lost = ferror(text) != 0;
        is_lost |= fclose(text) != 0;
        int failed = is_lost ? -ENOMEM : !is_there ? -ECHILD : write_all(fd, data, size);
        free(data);
        return failed;
}
