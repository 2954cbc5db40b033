/* server/exchange/held.c: the exchanges that the program holds.
 *
 * Nothing that runs depends on this list.  It serves people: a reference that is never dropped keeps a reply from its client, and
 * memory for ever, and without the list nobody could say which one it is.
 *
 * Threads: any.
 * Locks:   held.lock, a leaf.  A walk holds it for LOOKED_AT_ONCE exchanges at most.  Between, it holds the exchange where it is
 *          by a reference of its own, so that the exchange stays in the list. */
#include "server/exchange/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/inspect/debug_walk.h"
#include "kernel/base/clock.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "server/exchange/exchange.h"
#include "server/observe/metrics.h"

#define LOOKED_AT_ONCE 64

/* The place of an exchange in the list.  Without memory an exchange has none, and nobody sees it. */
struct weir__held {
        struct weir__link link;
        struct weir__exchange *exchange;
};

static struct {
        struct weir__lock lock;
        struct weir__list list; /* of struct weir__held; the first is held longest.  Guarded by lock */
} held = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

static void
before_fork(void)
{
        weir__lock_hold(&held.lock);
}

static void
after_fork(void)
{
        weir__unlock(&held.lock);
}

/* -- references; with the lock held -- */

/* Returns the place that is to be freed; or NULL. */
static struct weir__held *
take_off(struct weir__exchange *exchange)
{
        struct weir__held *place = exchange->held;

        if (--exchange->held_count || !place)
                return NULL;
        weir__link_remove(&place->link);
        exchange->held = NULL;
        return place;
}

/* Returns false when it needs none. */
static bool
put_into_list(struct weir__exchange *exchange, struct weir__held *place)
{
        if (exchange->held || !exchange->held_count)
                return false;
        *place = (struct weir__held){.exchange = exchange};
        weir__list_append(&held.list, &place->link);
        exchange->held = place;
        return true;
}

void
weir__held_add(struct weir__exchange *exchange)
{
        weir__lock(&held.lock);
        bool is_first = exchange->held_count++ == 0;
        weir__unlock(&held.lock);
        struct weir__held *place = is_first ? malloc(sizeof *place) : NULL;
        if (!place)
                return;
        weir__lock(&held.lock);
        bool is_used = put_into_list(exchange, place); /* others may have dropped and taken references meanwhile */
        weir__unlock(&held.lock);
        if (!is_used)
                free(place);
}

void
weir__held_remove(struct weir__exchange *exchange)
{
        weir__lock(&held.lock);
        bool had_one = exchange->held_count;
        struct weir__held *place = had_one ? take_off(exchange) : NULL;
        weir__unlock(&held.lock);
        free(place);
        if (!had_one)
                weir__panic("weir_http_unref: %s %.100s has no reference of weir_http_ref left", exchange->request->method,
                            exchange->request->target);
}

unsigned
weir__held_references(const struct weir__exchange *exchange)
{
        weir__lock(&held.lock);
        unsigned count = exchange->held_count;
        weir__unlock(&held.lock);
        return count;
}

/* -- walks -- */

static bool
is_of(const struct weir__exchange *exchange, const weir_http_server *server)
{
        return !server || exchange->client->branch->server == server;
}

static void
fill(struct weir__held_report *report, const struct weir__exchange *exchange)
{
        const struct weir__request *request = exchange->request;
        int size = snprintf(report->target, sizeof report->target, "%s", request->target);

        if (size >= (int)sizeof report->target)
                memcpy(report->target + sizeof report->target - 4, "...", 4);
        snprintf(report->method, sizeof report->method, "%s", request->method);
        weir__exchange_describe_peer(exchange, report->peer, sizeof report->peer);
        weir_nsec age = weir__clock_now() - exchange->came_at;
        report->age = age > 0 ? age : 0;
        report->references = exchange->held_count;
}

/* The next exchange of the list behind `at` (NULL: the first), with a reference of the walk, and the report on it if it is of the
 * server.  Gives up the reference to `at`, which stays in the list until then.  NULL: the walk is over. */
static struct weir__exchange *
go_on(struct weir__exchange *at, const weir_http_server *server, struct weir__held_report *report, bool *is_found)
{
        struct weir__exchange *next = NULL;

        *is_found = false;
        weir__lock(&held.lock);
        struct weir__link *link = at ? weir__list_next(&held.list, &at->held->link) : weir__list_first(&held.list);
        for (unsigned i = 0; i < LOOKED_AT_ONCE && link && !*is_found; i++, link = weir__list_next(&held.list, link)) {
                next = weir__container_of(link, struct weir__held, link)->exchange;
                *is_found = is_of(next, server);
        }
        if (*is_found)
                fill(report, next);
        if (next) {
                next->held_count++;
                weir__exchange_ref(next);
        }
        struct weir__held *place = at ? take_off(at) : NULL;
        weir__unlock(&held.lock);
        free(place);
        if (at)
                weir__exchange_unref(at);
        return next;
}

void
weir__held_walk(const weir_http_server *server, bool (*show)(const struct weir__held_report *report, void *context),
                void *context)
{
        struct weir__held_report report;
        struct weir__exchange *at = NULL;
        bool is_found, is_stopped = false;

        while ((at = go_on(at, server, &report, &is_found)) && !is_stopped)
                is_stopped = is_found && show(&report, context);
        if (!at)
                return;
        weir__held_remove(at);
        weir__exchange_unref(at);
}

/* -- metrics -- */

struct count {
        size_t count;
        weir_nsec oldest;
};

static bool
count_one(const struct weir__held_report *report, void *context)
{
        struct count *count = context;

        count->count++;
        if (report->age > count->oldest)
                count->oldest = report->age;
        return false;
}

static size_t
count_all(weir_nsec *oldest)
{
        struct count count = {0};

        weir__held_walk(NULL, count_one, &count);
        *oldest = count.oldest;
        return count.count;
}

/* -- dumps -- */

static bool
show_in_dump(const struct weir__held_report *report, void *context)
{
        struct weir__debug_walk *walk = context;
        struct weir__debug_line line;

        weir__debug_line_begin(&line, WEIR__DEBUG_HELD, 0, "exchange");
        weir__debug_line_name(&line, report->target, strlen(report->target));
        line.record.state = "held";
        line.record.age = report->age;
        weir__debug_line_add(&line, "%s by %s", report->method, report->peer);
        snprintf(line.also, sizeof line.also, "%u reference%s", report->references, report->references == 1 ? "" : "s");
        weir__debug_show(walk, &line);
        return walk->is_stopped;
}

static void
walk_in_dump(struct weir__debug_walk *walk)
{
        weir__held_walk(NULL, show_in_dump, walk);
}

static void
prepare(void)
{
        weir__debug_on_held(walk_in_dump);
        weir__metrics_on_held(count_all);
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_LOAD] = prepare, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = after_fork);
