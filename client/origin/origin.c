/* client/origin/origin.c: the life of origins, and the table in which they are found.
 *
 * Threads: any.
 * Locks:   the client's guards the table.
 *
 * The table has no reference.  Whoever drops the last one does so under the lock, and takes the origin out of the table. */
#include "client/origin/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/data/siphash.h"
#include "kernel/loop/pollers.h"

static struct weir__origin *
origin_of(struct weir__link *link)
{
        return weir__container_of(link, struct weir__origin, link);
}

/* -- references -- */

void
weir__origin_keep(struct weir__origin *origin)
{
        atomic_fetch_add_explicit(&origin->references, 1, memory_order_relaxed);
}

/* What it has done is the client's from now on. */
static void
hand_down_counts(const struct weir__origin *origin)
{
        for (unsigned i = 0; i < origin->branch_count; i++)
                for (unsigned which = 0; which < WEIR__CLIENT_COUNTS; which++)
                        atomic_fetch_add_explicit(&origin->client->counts[which],
                                                  atomic_load_explicit(&origin->branches[i].counts[which], memory_order_relaxed),
                                                  memory_order_relaxed);
}

static void
free_origin(struct weir__origin *origin)
{
        struct weir_client *client = origin->client;

        hand_down_counts(origin);
        free(origin->address);
        free(origin->tls_name);
        free(origin);
        weir__client_drop(client);
}

void
weir__origin_drop(struct weir__origin *origin)
{
        struct weir_client *client = origin->client;
        uint32_t references = atomic_load_explicit(&origin->references, memory_order_relaxed);

        while (references > 1)
                if (atomic_compare_exchange_weak_explicit(&origin->references, &references, references - 1, memory_order_acq_rel,
                                                          memory_order_relaxed))
                        return;
        weir__lock(&client->lock);
        bool is_last = atomic_fetch_sub_explicit(&origin->references, 1, memory_order_acq_rel) == 1;
        if (is_last && weir__link_is_used(&origin->link)) {
                weir__link_remove(&origin->link);
                client->origin_count--;
        }
        weir__unlock(&client->lock);
        if (is_last)
                free_origin(origin);
}

/* -- the table -- */

/* What an origin is found by. */
struct key {
        uint64_t hash;
        const struct weir__destination *destination;
};

static struct key
key_of(const struct weir_client *client, const struct weir__destination *destination)
{
        uint64_t hash = weir__siphash(client->key, destination->address, strlen(destination->address));

        if (destination->tls_name)
                hash ^= weir__siphash(client->key, destination->tls_name, strlen(destination->tls_name)) << 1;
        if (destination->proxy)
                hash ^= (uintptr_t)destination->proxy;
        return (struct key){destination->is_secure ? ~hash : hash, destination};
}

static bool
is_same_text(const char *one, const char *other)
{
        return one && other ? strcmp(one, other) == 0 : one == other;
}

static bool
leads_to(const struct weir__origin *origin, const struct weir__destination *destination)
{
        return origin->is_secure == destination->is_secure && origin->is_relay == destination->is_relay &&
               origin->proxy == destination->proxy && is_same_text(origin->address, destination->address) &&
               is_same_text(origin->tls_name, destination->tls_name);
}

static struct weir__list *
bucket_of(const struct weir_client *client, uint64_t hash)
{
        return &client->buckets[hash & (client->bucket_count - 1)];
}

/* Twice as many buckets, or the first ones.  Without memory it stays as it is. */
static void
grow(struct weir_client *client)
{
        size_t before = client->bucket_count, count = before ? 2 * before : WEIR__ORIGIN_BUCKETS;
        struct weir__list *old = client->buckets, *buckets = calloc(count, sizeof *buckets);

        if (!buckets)
                return;
        client->buckets = buckets;
        client->bucket_count = count;
        for (size_t i = 0; i < before; i++)
                for (struct weir__link *link; (link = weir__list_first(&old[i]));) {
                        weir__link_remove(link);
                        weir__list_append(bucket_of(client, origin_of(link)->hash), link);
                }
        free(old);
}

static struct weir__origin *
find(const struct weir_client *client, const struct key *key)
{
        struct weir__list *bucket = client->buckets ? bucket_of(client, key->hash) : NULL;

        for (struct weir__link *link = bucket ? weir__list_first(bucket) : NULL; link; link = weir__list_next(bucket, link)) {
                struct weir__origin *origin = origin_of(link);

                if (origin->hash == key->hash && leads_to(origin, key->destination))
                        return origin;
        }
        return NULL;
}

static bool
set_texts(struct weir__origin *origin, const struct weir__destination *destination)
{
        origin->address = strdup(destination->address);
        origin->tls_name = destination->tls_name ? strdup(destination->tls_name) : NULL;
        return origin->address && (!destination->tls_name || origin->tls_name);
}

static struct weir__origin *
make(struct weir_client *client, const struct weir__origin_ops *ops, const struct key *key)
{
        static const struct weir__work_ops look_ops = {.run = weir__pool_run_look};
        unsigned pollers = weir__pollers_count();
        struct weir__origin *origin = calloc(1, sizeof *origin + pollers * sizeof *origin->branches);

        if (!origin)
                return NULL;
        atomic_init(&origin->references, 1);
        weir__client_keep(client);
        origin->client = client;
        origin->ops = ops;
        origin->hash = key->hash;
        origin->is_secure = key->destination->is_secure;
        origin->is_relay = key->destination->is_relay;
        origin->proxy = key->destination->proxy;
        origin->branch_count = pollers;
        weir__lock_init(&origin->lock, WEIR__RANK_LEAF);
        for (unsigned i = 0; i < pollers; i++) {
                origin->branches[i].origin = origin;
                origin->branches[i].poller = (uint8_t)i;
                origin->branches[i].look.ops = &look_ops;
        }
        if (set_texts(origin, key->destination))
                return origin;
        free_origin(origin);
        return NULL;
}

/* Under the lock.  An origin of an earlier runtime has another number of branches, perhaps; its connections are gone. */
static struct weir__origin *
find_usable(struct weir_client *client, const struct key *key)
{
        struct weir__origin *origin = find(client, key);

        if (!origin || origin->branch_count == weir__pollers_count())
                return origin;
        weir__link_remove(&origin->link);
        client->origin_count--;
        return NULL;
}

struct weir__origin *
weir__origin_of(struct weir_client *client, const struct weir__origin_ops *ops, const struct weir__destination *destination)
{
        const struct key key = key_of(client, destination);
        struct weir__origin *origin, *made = NULL;

        for (;;) {
                weir__lock(&client->lock);
                origin = find_usable(client, &key);
                if (origin)
                        weir__origin_keep(origin);
                else if (made && client->origin_count >= client->bucket_count)
                        grow(client);
                if (!origin && made && client->buckets) {
                        weir__list_append(bucket_of(client, key.hash), &made->link);
                        client->origin_count++;
                        origin = made;
                        made = NULL;
                }
                weir__unlock(&client->lock);
                if (origin || made)
                        break;
                made = make(client, ops, &key);
                if (!made)
                        return NULL;
        }
        if (made)
                free_origin(made);
        return origin;
}

/* -- what it is -- */

static unsigned
count_idle(const struct weir__origin *origin)
{
        unsigned count = 0;

        for (unsigned i = 0; i < origin->branch_count; i++)
                count += atomic_load_explicit(&origin->branches[i].idle_count, memory_order_relaxed);
        return count;
}

void
weir__origin_print(const struct weir__origin *origin, char out[WEIR__ORIGIN_TEXT])
{
        const char *host = origin->tls_name ? origin->tls_name : origin->address;

        if (origin->is_relay)
                snprintf(out, WEIR__ORIGIN_TEXT, "the proxy %s", origin->proxy->name);
        else
                snprintf(out, WEIR__ORIGIN_TEXT, "%s://%s%s%s", origin->is_secure ? "https" : "http", host,
                         origin->proxy ? " through " : "", origin->proxy ? origin->proxy->name : "");
}

void
weir__origin_describe(const struct weir__origin *origin, char out[WEIR__ORIGIN_TEXT])
{
        unsigned connections = atomic_load_explicit(&origin->connections, memory_order_relaxed), idle = count_idle(origin);

        weir__origin_print(origin, out);
        size_t size = strlen(out);
        snprintf(out + size, WEIR__ORIGIN_TEXT - size, " (%u busy, %u wait)", idle < connections ? connections - idle : 0,
                 atomic_load_explicit(&origin->waiting, memory_order_relaxed));
}

static void
look(struct weir__origin *origin, void *context)
{
        (void)context;
        for (unsigned i = 0; i < origin->branch_count; i++)
                weir__pool_look(&origin->branches[i]);
}

void
weir__origin_count(const struct weir__origin *origin, struct weir__origin_counts *counts)
{
        *counts = (struct weir__origin_counts){.connections = atomic_load_explicit(&origin->connections, memory_order_relaxed),
                                               .waiting = atomic_load_explicit(&origin->waiting, memory_order_relaxed),
                                               .idle = count_idle(origin)};
        for (unsigned i = 0; i < origin->branch_count; i++)
                for (unsigned which = 0; which < WEIR__CLIENT_COUNTS; which++)
                        counts->of[which] += atomic_load_explicit(&origin->branches[i].counts[which], memory_order_relaxed);
}

static void
add_counts(struct weir__origin *origin, void *context)
{
        struct weir_client_stats *stats = context;
        struct weir__origin_counts counts;

        weir__origin_count(origin, &counts);
        stats->connections += (unsigned)counts.connections;
        stats->waiting += (unsigned)counts.waiting;
        stats->idle += (unsigned)counts.idle;
        stats->requests += counts.of[WEIR__CLIENT_REQUESTS];
        stats->reused += counts.of[WEIR__CLIENT_REUSED];
        stats->replayed += counts.of[WEIR__CLIENT_REPLAYED];
        stats->failed += counts.of[WEIR__CLIENT_FAILED];
}

/* Under the lock no origin is freed. */
void
weir__origins_each(struct weir_client *client, void visit(struct weir__origin *origin, void *context), void *context)
{
        weir__lock(&client->lock);
        for (size_t i = 0; i < client->bucket_count; i++)
                for (struct weir__link *link = weir__list_first(&client->buckets[i]); link;
                     link = weir__list_next(&client->buckets[i], link))
                        visit(origin_of(link), context);
        weir__unlock(&client->lock);
}

void
weir__origins_look(struct weir_client *client)
{
        weir__origins_each(client, look, NULL);
}

void
weir__origins_count(struct weir_client *client, struct weir_client_stats *stats)
{
        weir__origins_each(client, add_counts, stats);
}
