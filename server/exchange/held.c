/* server/exchange/held.c: the exchanges that the program holds.
 *
 * Nothing that runs depends on this list.  It serves people: a reference that is never dropped keeps a reply from its client, and
 * memory for ever, and without the list nobody could say which one it is.
 *
 * Threads: any.
 * Locks:   held.lock, a leaf.  A walk holds it for EXCHANGES_AT_ONCE exchanges at most, and copies what it shows.  Between, it
 *          knows the key of its last exchange, and has no reference: the program's last one may be dropped while a report is
 *          shown. */
#include "server/exchange/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/inspect/debug_walk.h"
#include "kernel/base/clock.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "kernel/queue/rbtree.h"
#include "server/exchange/exchange.h"
#include "server/observe/metrics.h"

#define EXCHANGES_AT_ONCE 64

struct key {
        weir_nsec came_at; /* of the exchange */
        uint64_t number;   /* of its entry; never used twice */
};

/* The entry of an exchange in the tree.  Without memory an exchange has none, and nobody sees it. */
struct weir__held {
        struct weir__rbtree_node node;
        struct weir__exchange *exchange;
        struct key key;
};

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__rbtree tree; /* of struct weir__held, by key: the first is oldest */
        size_t count;             /* of the entries in it */
        uint64_t numbers;         /* given to entries until now */
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

/* -- entries; with the lock held -- */

static struct weir__held *
entry_of(struct weir__rbtree_node *node)
{
        return weir__container_of(node, struct weir__held, node);
}

static bool
is_before(const struct key *one, const struct key *other)
{
        return one->came_at != other->came_at ? one->came_at < other->came_at : one->number < other->number;
}

static void
insert(struct weir__held *entry)
{
        struct weir__rbtree_node *parent = NULL, *next = held.tree.root;
        enum weir__rbtree_side side = WEIR__RBTREE_LEFT;

        while (next) {
                parent = next;
                side = is_before(&entry->key, &entry_of(parent)->key) ? WEIR__RBTREE_LEFT : WEIR__RBTREE_RIGHT;
                next = parent->children[side];
        }
        weir__rbtree_insert(&held.tree, parent, side, &entry->node);
        held.count++;
}

/* The first entry behind that key; NULL: there is none. */
static struct weir__held *
first_behind(const struct key *key)
{
        struct weir__rbtree_node *node = held.tree.root, *found = NULL;

        while (node) {
                bool is_behind = is_before(key, &entry_of(node)->key);

                found = is_behind ? node : found;
                node = node->children[is_behind ? WEIR__RBTREE_LEFT : WEIR__RBTREE_RIGHT];
        }
        return found ? entry_of(found) : NULL;
}

/* -- references -- */

/* With the lock held.  Returns the entry that is to be freed; or NULL. */
static struct weir__held *
take_off(struct weir__exchange *exchange)
{
        struct weir__held *entry = exchange->held;

        if (--exchange->held_count || !entry)
                return NULL;
        weir__rbtree_remove(&held.tree, &entry->node);
        held.count--;
        exchange->held = NULL;
        return entry;
}

/* With the lock held.  Returns false when the exchange needs none. */
static bool
put_into_tree(struct weir__exchange *exchange, struct weir__held *entry)
{
        if (exchange->held || !exchange->held_count)
                return false;
        *entry = (struct weir__held){.exchange = exchange, .key = {exchange->came_at, ++held.numbers}};
        insert(entry);
        exchange->held = entry;
        return true;
}

void
weir__held_add(struct weir__exchange *exchange)
{
        weir__lock(&held.lock);
        bool is_first = exchange->held_count++ == 0;
        weir__unlock(&held.lock);
        struct weir__held *entry = is_first ? malloc(sizeof *entry) : NULL;
        if (!entry)
                return;
        weir__lock(&held.lock);
        bool is_used = put_into_tree(exchange, entry); /* others may have dropped and taken references meanwhile */
        weir__unlock(&held.lock);
        if (!is_used)
                free(entry);
}

void
weir__held_remove(struct weir__exchange *exchange)
{
        weir__lock(&held.lock);
        bool had_one = exchange->held_count;
        struct weir__held *entry = had_one ? take_off(exchange) : NULL;
        weir__unlock(&held.lock);
        free(entry);
        if (!had_one)
                weir__panic("weir_http_unref: %s %.100s has no reference of weir_http_ref left",
                            exchange->request->method ? exchange->request->method : "an exchange of", exchange->request->target);
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

/* A walk shows the exchanges that were held when it began, so that it comes to an end. */
struct walk {
        const weir_http_server *server; /* NULL: of all */
        struct key at;                  /* of the last entry that was looked at */
        uint64_t last_number;
        struct weir__held_report report;
        bool is_over;
};

/* Looks at the next entries, until one is to be shown.  Returns whether there is a report. */
static bool
go_on(struct walk *walk)
{
        bool is_found = false;

        weir__lock(&held.lock);
        struct weir__held *entry = first_behind(&walk->at);
        for (unsigned i = 0; i < EXCHANGES_AT_ONCE && entry && !is_found; i++) {
                walk->at = entry->key;
                is_found = entry->key.number <= walk->last_number && is_of(entry->exchange, walk->server);
                if (is_found)
                        fill(&walk->report, entry->exchange);
                struct weir__rbtree_node *next = weir__rbtree_next(&entry->node);
                entry = next ? entry_of(next) : NULL;
        }
        walk->is_over = !entry;
        weir__unlock(&held.lock);
        return is_found;
}

void
weir__held_walk(const weir_http_server *server, bool (*show)(const struct weir__held_report *report, void *context),
                void *context)
{
        struct walk walk = {.server = server, .at = {.came_at = INT64_MIN}};

        weir__lock(&held.lock);
        walk.last_number = held.numbers;
        weir__unlock(&held.lock);
        while (!walk.is_over)
                if (go_on(&walk) && show(&walk.report, context))
                        return;
}

/* -- metrics -- */

static size_t
count_all(weir_nsec *oldest)
{
        weir_nsec now = weir__clock_now(), came_at = now;

        weir__lock(&held.lock);
        size_t count = held.count;
        if (count)
                came_at = entry_of(held.tree.ends[WEIR__RBTREE_LEFT])->key.came_at;
        weir__unlock(&held.lock);
        *oldest = now > came_at ? now - came_at : 0;
        return count;
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

/* -- the end -- */

static bool
take_first(const struct weir__held_report *report, void *first)
{
        *(struct weir__held_report *)first = *report;
        return true;
}

/* After a shutdown, which waits for no reference. */
static void
report_held(void)
{
        struct weir__held_report first = {.references = 0};
        weir_nsec oldest;
        size_t count = count_all(&oldest);

        weir__held_walk(NULL, take_first, &first);
        if (count && first.references)
                weir__log(WEIR_LOG_WARNING, "%zu exchange%s still held (weir_http_ref); oldest: %s %s by %s, %lld ms old", count,
                          count == 1 ? " is" : "s are", first.method, first.target, first.peer,
                          (long long)(first.age / WEIR_MSEC(1)));
}

static void
prepare(void)
{
        weir__debug_on_held(walk_in_dump);
        weir__metrics_on_held(count_all);
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_LOAD] = prepare, [WEIR__STEP_ENDED] = report_held,
               [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = after_fork);
