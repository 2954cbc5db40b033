/* server/base/serving.c: the servers that serve, and what they have counted.
 *
 * Threads: the threads that start and stop servers change the list; any thread asks for reports.
 * Locks:   `serving.lock` (a leaf) guards the list, and keeps the shards of the servers in it.  It is held while the counts of
 *          one server are added up, some hundred for each poller; the pollers do not take it. */
#include "server/base/serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/server.h"

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__list list; /* of struct weir__serving, in the order of their starts */
        uint64_t number;         /* of the server that was started last */
} serving = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* -- names -- */

/* Of a Unix socket, whose name may have any bytes in it. */
static void
write_path(const struct weir__socket_address *bound, char *out, size_t room)
{
        size_t size = bound->size - offsetof(struct sockaddr_un, sun_path);
        const char *path = bound->un.sun_path;
        bool is_abstract = size && !path[0];

        size = is_abstract ? size : strnlen(path, size);
        int length = snprintf(out, room, "unix:%s", is_abstract ? "@" : "");
        for (size_t i = is_abstract; i < size && (size_t)length + 1 < room; i++)
                out[length++] = (char)(path[i] > ' ' && path[i] < 0x7f ? path[i] : '?');
        out[length] = '\0';
}

static void
write_name(const weir_http_server *server, char *out, size_t room)
{
        struct weir__socket_address bound = {.size = 0};

        if (!server->sockets.count || !weir__socket_name(server->sockets.all[0].fd, &bound)) {
                snprintf(out, room, "unknown");
        } else if (bound.any.sa_family == AF_UNIX) {
                write_path(&bound, out, room);
        } else {
                struct weir__peer address = weir__peer_of(&bound.storage, bound.size);

                weir__peer_write(&address, true, out);
        }
}

/* -- the list -- */

/* With the lock held: the first that was started after the one with that number; NULL: there is none. */
static weir_http_server *
next_after(uint64_t number)
{
        for (struct weir__link *each = weir__list_first(&serving.list); each; each = weir__list_next(&serving.list, each)) {
                weir_http_server *server = weir__container_of(each, weir_http_server, serving.link);

                if (server->serving.number > number)
                        return server;
        }
        return NULL;
}

/* With the lock held: the smallest number that none of the same name has. */
static unsigned
free_ordinal(const char *name)
{
        const weir_http_server *server = next_after(0);
        unsigned ordinal = 1;

        while (server) {
                bool is_taken = server->serving.ordinal == ordinal && strcmp(server->serving.name, name) == 0;

                ordinal += is_taken;
                server = next_after(is_taken ? 0 : server->serving.number);
        }
        return ordinal;
}

void
weir__serving_begin(weir_http_server *server)
{
        struct weir__serving *own = &server->serving;

        write_name(server, own->name, sizeof own->name);
        weir__lock(&serving.lock);
        own->ordinal = free_ordinal(own->name);
        own->number = ++serving.number;
        weir__list_append(&serving.list, &own->link);
        weir__unlock(&serving.lock);
}

void
weir__serving_end(weir_http_server *server)
{
        weir__lock(&serving.lock);
        weir__link_remove(&server->serving.link);
        weir__unlock(&serving.lock);
}

/* -- reports -- */

/* With the lock held. */
static void
fill(struct weir__serving_report *report, const weir_http_server *server)
{
        const struct weir__serving *own = &server->serving;

        report->number = own->number;
        if (own->ordinal > 1)
                snprintf(report->name, sizeof report->name, "%s#%u", own->name, own->ordinal);
        else
                snprintf(report->name, sizeof report->name, "%s", own->name);
        report->counts[WEIR__COUNT_OPEN] = (int64_t)atomic_load_explicit(&server->connections, memory_order_relaxed);
        for (unsigned i = 0; i < server->shard_count; i++)
                for (unsigned kind = 0; kind < WEIR__COUNTS; kind++)
                        report->counts[kind] += atomic_load_explicit(&server->shards[i].counts.of[kind], memory_order_relaxed);
}

/* Fills in that of the first server that was started after the one with that number.  Returns false when there is none. */
static bool
next_report(struct weir__serving_report *report, uint64_t after)
{
        weir__lock(&serving.lock);
        const weir_http_server *server = next_after(after);
        if (server)
                fill(report, server);
        weir__unlock(&serving.lock);
        return server;
}

struct weir__serving_report *
weir__serving_reports(int *failed)
{
        struct weir__serving_report *first = NULL, **link = &first;

        *failed = 0;
        for (uint64_t after = 0;;) {
                struct weir__serving_report *report = calloc(1, sizeof *report);

                if (!report)
                        *failed = -ENOMEM;
                if (!report || !next_report(report, after)) {
                        free(report);
                        return first;
                }
                after = report->number;
                *link = report;
                link = &report->next;
        }
}

void
weir__serving_reports_free(struct weir__serving_report *reports)
{
        while (reports) {
                struct weir__serving_report *report = reports;

                reports = report->next;
                free(report);
        }
}
