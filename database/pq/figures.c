/* database/pq/figures.c: what pools count, also as text.
 *
 * Threads: any.
 * Locks:   one for the list of pools, above those of pools. */
#include "database/pq/pq.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weir_pq *newest;
static bool is_child;

/* A child has none of its parent's pools, and may have the lock of a thread that it has not. */
static void
on_fork(void)
{
        pthread_mutex_init(&lock, NULL);
        newest = NULL;
        is_child = true;
}

static void
watch_forks(void)
{
        pthread_atfork(NULL, NULL, on_fork);
}

void
weir__pq_enlist(weir_pq *pool)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, watch_forks);
        pthread_mutex_lock(&lock);
        pool->older = newest;
        if (newest)
                newest->newer = pool;
        newest = pool;
        pthread_mutex_unlock(&lock);
}

void
weir__pq_delist(weir_pq *pool)
{
        pthread_mutex_lock(&lock);
        *(pool->newer ? &pool->newer->older : &newest) = pool->older;
        if (pool->older)
                pool->older->newer = pool->newer;
        pthread_mutex_unlock(&lock);
}

static struct weir_pq_stats
read_stats(weir_pq *pool)
{
        pthread_mutex_lock(&pool->lock);
        struct weir_pq_stats stats = pool->stats;
        stats.size = sizeof stats;
        stats.connections = pool->link_count;
        stats.connecting = pool->connecting;
        stats.idle = pool->idle_count;
        stats.busy = pool->link_count - pool->connecting - pool->idle_count;
        stats.waiting = pool->waiting.length;
        pthread_mutex_unlock(&pool->lock);
        return stats;
}

int
weir_pq_stats(weir_pq *pool, struct weir_pq_stats *stats)
{
        if (!pool || !stats || stats->size != sizeof *stats)
                return -EINVAL;
        if (pool->pid != getpid())
                return -ECHILD;
        *stats = read_stats(pool->pool);
        return 0;
}

/* -- as text -- */

enum unit { WORD, COUNT, SECONDS };

static const struct figure {
        const char *name, *type, *help;
        size_t at;
        enum unit unit;
} figures[] = {
        {"connections", "gauge", "Connections that are open, or being made.", offsetof(struct weir_pq_stats, connections), WORD},
        {"connecting", "gauge", "Connections that are being made.", offsetof(struct weir_pq_stats, connecting), WORD},
        {"idle", "gauge", "Connections that are idle.", offsetof(struct weir_pq_stats, idle), WORD},
        {"busy", "gauge", "Connections that are in use.", offsetof(struct weir_pq_stats, busy), WORD},
        {"waiting", "gauge", "Queries and transactions that wait for a connection.", offsetof(struct weir_pq_stats, waiting),
         WORD},
        {"queries_total", "counter", "Queries that were sent.", offsetof(struct weir_pq_stats, queries), COUNT},
        {"failed_total", "counter", "Queries that have failed.", offsetof(struct weir_pq_stats, failed), COUNT},
        {"cancelled_total", "counter", "Queries whose flow was over first.", offsetof(struct weir_pq_stats, cancelled), COUNT},
        {"connects_total", "counter", "Connections that were made.", offsetof(struct weir_pq_stats, connects), COUNT},
        {"refused_total", "counter", "Attempts that made no connection.", offsetof(struct weir_pq_stats, refused), COUNT},
        {"lost_total", "counter", "Connections that broke.", offsetof(struct weir_pq_stats, lost), COUNT},
        {"waited_seconds_total", "counter", "Time that queries waited for connections.", offsetof(struct weir_pq_stats, waited),
         SECONDS},
};

/* With a number behind it, if an older one has the same name. */
static void
print_name(FILE *text, const weir_pq *pool)
{
        unsigned number = 1;

        for (const char *name = pool->name; *name; name++)
                if (*name == '\n')
                        fputs("\\n", text);
                else
                        fprintf(text, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
        for (const weir_pq *older = pool->older; older; older = older->older)
                number += strcmp(older->name, pool->name) == 0;
        if (number > 1)
                fprintf(text, "#%u", number);
}

static void
print_value(FILE *text, const struct weir_pq_stats *stats, const struct figure *figure)
{
        const void *at = (const char *)stats + figure->at;

        if (figure->unit == SECONDS)
                fprintf(text, " %.9f\n", (double)*(const weir_nsec *)at / 1e9);
        else if (figure->unit == WORD)
                fprintf(text, " %u\n", *(const unsigned *)at);
        else
                fprintf(text, " %llu\n", (unsigned long long)*(const uint64_t *)at);
}

/* Returns whether there is something to write. */
static bool
print_all(FILE *text)
{
        pthread_mutex_lock(&lock);
        bool is_there = newest || !is_child;
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
                fprintf(text, "# HELP weir_pq_%s %s\n# TYPE weir_pq_%s %s\n", figures[i].name, figures[i].help, figures[i].name,
                        figures[i].type);
                for (weir_pq *pool = newest; pool; pool = pool->older) {
                        struct weir_pq_stats stats = read_stats(pool);

                        fprintf(text, "weir_pq_%s{pool=\"", figures[i].name);
                        print_name(text, pool);
                        fputs("\"}", text);
                        print_value(text, &stats, &figures[i]);
                }
        }
        pthread_mutex_unlock(&lock);
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
weir_pq_metrics_write(int fd)
{
        char *data = NULL;
        size_t size = 0;
        FILE *text = open_memstream(&data, &size);

        if (!text)
                return -ENOMEM;
        bool is_there = print_all(text), is_lost = ferror(text) != 0;
        is_lost |= fclose(text) != 0;
        int failed = is_lost ? -ENOMEM : !is_there ? -ECHILD : write_all(fd, data, size);
        free(data);
        return failed;
}
