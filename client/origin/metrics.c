/* client/origin/metrics.c: the counts of clients and origins, for weir/metrics.h and the page of flows.
 *
 * Threads: any.
 * Locks:   that of the list of clients, and within it those of their tables, while the origins are copied.  Nothing is written
 *          meanwhile.
 *
 * A client is named by its number; 1 is the first that was made. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/origin/metrics.h"
#include "client/origin/origin.h"
#include "kernel/observe/exposition.h"
#include "kernel/observe/status.h"

static struct weir__lock listing = WEIR__LOCK_INITIALIZER(WEIR__RANK_NAMES);
static struct weir__list clients; /* guarded by listing */
static unsigned made;             /* the same */

struct row {
        unsigned client;
        char *origin; /* malloc */
        struct weir__origin_counts counts;
};

struct rows {
        struct row *all;
        size_t count, room;
        unsigned client;
        bool is_short; /* of memory */
};

/* -- copies -- */

static void
copy_origin(struct weir__origin *origin, void *context)
{
        struct rows *rows = context;

        if (rows->count == rows->room) {
                size_t room = rows->room ? 2 * rows->room : 16;
                struct row *all = realloc(rows->all, room * sizeof *all);

                rows->is_short |= !all;
                if (!all)
                        return;
                rows->all = all;
                rows->room = room;
        }
        char name[WEIR__ORIGIN_TEXT];
        struct row *row = &rows->all[rows->count];

        weir__origin_print(origin, name);
        *row = (struct row){.client = rows->client, .origin = strdup(name)};
        rows->is_short |= !row->origin;
        if (!row->origin)
                return;
        weir__origin_count(origin, &row->counts);
        rows->count++;
}

static void
copy(struct rows *rows)
{
        weir__lock(&listing);
        for (struct weir__link *link = weir__list_first(&clients); link; link = weir__list_next(&clients, link)) {
                struct weir_client *client = weir__container_of(link, struct weir_client, listed);

                rows->client = client->number;
                weir__origins_each(client, copy_origin, rows);
        }
        weir__unlock(&listing);
}

static void
drop(struct rows *rows)
{
        for (size_t i = 0; i < rows->count; i++)
                free(rows->all[i].origin);
        free(rows->all);
}

/* -- text -- */

static void
write_name(struct weir__sink *sink, const struct rows *rows, const char *name, const char *type, const char *help, size_t at)
{
        weir__expose_name(sink, name, type, help);
        for (size_t i = 0; i < rows->count; i++) {
                const struct row *row = &rows->all[i];

                weir__sink_printf(sink, "%s{client=\"%u\",", name, row->client);
                weir__expose_label(sink, "origin", row->origin);
                weir__sink_printf(sink, "} %llu\n",
                                  (unsigned long long)*(const uint64_t *)(const void *)((const char *)&row->counts + at));
        }
}

static void
write_clients(struct weir__sink *sink)
{
#define AT(field) offsetof(struct weir__origin_counts, field)
        static const struct {
                const char *name, *type, *help;
                size_t at;
        } names[] = {
                {"weir_client_connections", "gauge", "Connections to an origin, also those that are being made.",
                 AT(connections)},
                {"weir_client_idle", "gauge", "Of these, those that are idle.", AT(idle)},
                {"weir_client_waiting", "gauge", "Requests that wait for a connection.", AT(waiting)},
                {"weir_client_requests_total", "counter", "Requests that were sent.", AT(of[WEIR__CLIENT_REQUESTS])},
                {"weir_client_reused_total", "counter", "Of these, those on a connection that was used before.",
                 AT(of[WEIR__CLIENT_REUSED])},
                {"weir_client_replayed_total", "counter", "Requests that went out once more by themselves.",
                 AT(of[WEIR__CLIENT_REPLAYED])},
                {"weir_client_failed_total", "counter", "Requests that ended without a response.", AT(of[WEIR__CLIENT_FAILED])},
        };
#undef AT
        struct rows rows = {.count = 0};

        copy(&rows);
        for (size_t i = 0; i < sizeof names / sizeof *names && rows.count && !rows.is_short; i++)
                write_name(sink, &rows, names[i].name, names[i].type, names[i].help, names[i].at);
        drop(&rows);
}

/* -- the page of flows -- */

/* Those for which most requests wait come first. */
static int
compare(const void *one, const void *other)
{
        const struct weir__origin_counts *left = &((const struct row *)one)->counts,
                                         *right = &((const struct row *)other)->counts;

        if (left->waiting != right->waiting)
                return left->waiting < right->waiting ? 1 : -1;
        return left->connections < right->connections ? 1 : left->connections > right->connections ? -1 : 0;
}

static bool
show(const struct row *row, weir__status_row_fn *fn, void *context)
{
        char connections[24], idle[24], waiting[24], requests[24], failed[24];

        snprintf(connections, sizeof connections, "%llu", (unsigned long long)row->counts.connections);
        snprintf(idle, sizeof idle, "%llu", (unsigned long long)row->counts.idle);
        snprintf(waiting, sizeof waiting, "%llu", (unsigned long long)row->counts.waiting);
        snprintf(requests, sizeof requests, "%llu", (unsigned long long)row->counts.of[WEIR__CLIENT_REQUESTS]);
        snprintf(failed, sizeof failed, "%llu", (unsigned long long)row->counts.of[WEIR__CLIENT_FAILED]);
        return fn((const char *const[]){row->origin, connections, idle, waiting, requests, failed}, context);
}

static int
walk(weir__status_row_fn *fn, void *context)
{
        struct rows rows = {.count = 0};

        copy(&rows);
        if (rows.count)
                qsort(rows.all, rows.count, sizeof *rows.all, compare);
        for (size_t i = 0; i < rows.count && !show(&rows.all[i], fn, context); i++)
                ;
        int failed = rows.is_short ? -ENOMEM : 0;
        drop(&rows);
        return failed;
}

static const struct weir__status_table table = {
        .title = "origins of clients",
        .columns = {"Origin", "Connections", "Idle", "Waiting", "Requests", "Failed"},
        .walk = walk,
};

/* -- the list -- */

void
weir__client_list(struct weir_client *client)
{
        weir__expose_add(write_clients);
        weir__status_add(&table);
        weir__lock(&listing);
        client->number = ++made;
        weir__list_append(&clients, &client->listed);
        weir__unlock(&listing);
}

void
weir__client_unlist(struct weir_client *client)
{
        weir__lock(&listing);
        if (weir__link_is_used(&client->listed))
                weir__link_remove(&client->listed);
        weir__unlock(&listing);
}
