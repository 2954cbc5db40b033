/* database/redis/topology.c: the servers, and who is asked.
 *
 * A look-up asks a cluster for its slots, or sentinels for their master.  One who does not answer is followed by the next.
 *
 * Threads: any.
 * Locks:   the topology's, for the nodes; a route takes none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/clock.h>

#include "database/redis/redis.h"

/* -- life -- */

static bool
make_sentinels(struct weir__redis_topology *topology)
{
        const struct weir__redis_settings *settings = topology->settings;
        struct weir__redis_settings *plain = calloc(1, sizeof *plain);

        if (!plain)
                return false;
        atomic_init(&plain->references, 1);
        plain->config = settings->config;
        plain->config.version = 2;
        plain->tls = weir_tls_ref(settings->tls);
        topology->sentinel_settings = plain;
        topology->sentinels = calloc(settings->count, sizeof *topology->sentinels);
        for (size_t i = 0; topology->sentinels && i < settings->count; i++) {
                topology->sentinels[i] = weir__redis_node_new(plain, settings->targets[i]);
                if (!topology->sentinels[i])
                        return false;
        }
        return topology->sentinels;
}

struct weir__redis_topology *
weir__redis_topology_new(struct weir__redis_settings *settings)
{
        struct weir__redis_topology *topology = calloc(1, sizeof *topology);
        bool is_whole = topology;

        if (!topology) {
                weir__redis_settings_unref(settings);
                return NULL;
        }
        topology->settings = settings;
        pthread_mutex_init(&topology->lock, NULL);
        if (settings->mode == WEIR__REDIS_SENTINEL) {
                is_whole = make_sentinels(topology);
        } else {
                for (size_t i = 0; is_whole && i < settings->count; i++)
                        is_whole = weir__redis_node_at(topology, settings->targets[i]);
                atomic_init(&topology->main, topology->nodes[0]);
        }
        if (is_whole && settings->mode == WEIR__REDIS_CLUSTER) {
                topology->slots = calloc(WEIR__REDIS_SLOTS, sizeof *topology->slots);
                is_whole = topology->slots;
        }
        if (is_whole)
                return topology;
        weir__redis_topology_free(topology);
        return NULL;
}

void
weir__redis_topology_free(struct weir__redis_topology *topology)
{
        if (!topology)
                return;
        for (unsigned i = 0; i < topology->count; i++)
                weir__redis_node_close(topology->nodes[i]);
        for (size_t i = 0; topology->sentinels && i < topology->settings->count; i++)
                weir__redis_node_close(topology->sentinels[i]);
        weir__redis_settings_unref(topology->sentinel_settings);
        weir__redis_settings_unref(topology->settings);
        pthread_mutex_destroy(&topology->lock);
        free(topology->sentinels);
        free(topology->slots);
        free(topology);
}

/* -- nodes -- */

struct weir__redis_node *
weir__redis_node_at(struct weir__redis_topology *topology, const char *address)
{
        struct weir__redis_node *node = NULL;

        pthread_mutex_lock(&topology->lock);
        for (unsigned i = 0; i < topology->count && !node; i++)
                if (strcmp(topology->nodes[i]->address, address) == 0)
                        node = topology->nodes[i];
        if (!node && topology->count < WEIR__REDIS_NODES) {
                node = weir__redis_node_new(topology->settings, address);
                if (node)
                        topology->nodes[topology->count++] = node;
        }
        pthread_mutex_unlock(&topology->lock);
        return node;
}

struct weir__redis_node *
weir__redis_any(struct weir__redis_topology *topology, unsigned number)
{
        struct weir__redis_node *node = NULL;

        if (topology->settings->mode == WEIR__REDIS_SENTINEL)
                return atomic_load(&topology->main);
        pthread_mutex_lock(&topology->lock);
        if (topology->count)
                node = topology->nodes[number % topology->count];
        pthread_mutex_unlock(&topology->lock);
        return node;
}

struct weir__redis_node *
weir__redis_route(struct weir__redis_topology *topology, int slot)
{
        struct weir__redis_node *node = topology->slots && slot >= 0 ? atomic_load(&topology->slots[slot]) : NULL;

        return node ? node : atomic_load(&topology->main);
}

void
weir__redis_doubt(weir_redis *redis, struct weir__redis_node *node)
{
        struct weir__redis_topology *topology = redis->topology;
        struct weir__redis_node *expected = node, *other;

        if (topology->settings->mode == WEIR__REDIS_SINGLE)
                return;
        if (topology->settings->mode == WEIR__REDIS_SENTINEL) {
                atomic_compare_exchange_strong(&topology->main, &expected, NULL);
        } else if (atomic_load(&topology->main) == node) { /* for commands without a key */
                pthread_mutex_lock(&topology->lock);
                other = topology->nodes[0];
                for (unsigned i = 0; i + 1 < topology->count; i++)
                        if (topology->nodes[i] == node)
                                other = topology->nodes[i + 1];
                pthread_mutex_unlock(&topology->lock);
                atomic_compare_exchange_strong(&topology->main, &expected, other);
        }
        weir__redis_look(redis);
}

/* -- redirections -- */

struct weir__redis_node *
weir__redis_redirect(weir_redis *redis, const struct weir__redis_node *from, const char *text, bool *is_moved)
{
        struct weir__redis_topology *topology = redis->topology;
        char target[300], address[600];
        unsigned slot;

        *is_moved = strncmp(text, "MOVED ", 6) == 0;
        if (!topology->slots || (!*is_moved && strncmp(text, "ASK ", 4) != 0))
                return NULL;
        if (sscanf(text, "%*s %u %299s", &slot, target) != 2 || slot >= WEIR__REDIS_SLOTS)
                return NULL;
        const char *port = strrchr(target, ':'), *own = strrchr(from->address, ':');
        if (!port || !own)
                return NULL;
        if (port == target) /* at the same host */
                snprintf(address, sizeof address, "%.*s%s", (int)(own - from->address), from->address, port);
        else if (memchr(target, ':', (size_t)(port - target)) && *target != '[')
                snprintf(address, sizeof address, "[%.*s]%s", (int)(port - target), target, port);
        else
                snprintf(address, sizeof address, "%s", target);
        struct weir__redis_node *node = weir__redis_node_at(topology, address);
        if (node && *is_moved) {
                atomic_store(&topology->slots[slot], node);
                weir__redis_look(redis); /* others have moved, too, perhaps */
        }
        return node;
}

/* -- look-ups -- */

#define LOOKUP_INTERVAL WEIR_MSEC(100) /* between two look-ups */

struct lookup {
        weir_redis *redis; /* a reference */
        struct weir__redis_node *node;
        unsigned asked;
};

static void on_answer(weir_task *ask, void *context);

static void
end(struct lookup *lookup)
{
        struct weir__redis_topology *topology = lookup->redis->topology;

        pthread_mutex_lock(&topology->lock);
        topology->is_looking = false;
        pthread_mutex_unlock(&topology->lock);
        weir_redis_unref(lookup->redis);
        free(lookup);
}

static struct weir__redis_node *
next_node(struct lookup *lookup)
{
        struct weir__redis_topology *topology = lookup->redis->topology;
        unsigned number = lookup->asked++;
        struct weir__redis_node *node;

        if (topology->sentinels)
                return number < topology->settings->count ? topology->sentinels[number] : NULL;
        pthread_mutex_lock(&topology->lock);
        node = number < topology->count ? topology->nodes[number] : NULL;
        pthread_mutex_unlock(&topology->lock);
        return node;
}

static void
ask(struct lookup *lookup)
{
        const struct weir__redis_settings *settings = lookup->redis->topology->settings;
        const char *of_cluster[] = {"CLUSTER", "SLOTS"};
        const char *of_sentinel[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", settings->master};
        size_t count = settings->master ? 3 : 2;
        const char **words = settings->master ? of_sentinel : of_cluster;
        size_t size = weir__redis_encoded_size(count, words, NULL);
        char *bytes = malloc(size);

        if (bytes)
                weir__redis_encode(bytes, count, words, NULL);
        while (bytes && (lookup->node = next_node(lookup)))
                if (weir_task_start(weir_ask_new(lookup->node->commands, bytes, size, on_answer, lookup)) == 0) {
                        free(bytes);
                        return;
                }
        free(bytes);
        end(lookup);
}

/* -- answers -- */

/* Host and port of two items. */
static struct weir__redis_node *
node_of(struct lookup *lookup, const struct weir_redis_reply *pair)
{
        const char *host = weir_redis_text(weir_redis_item(pair, 0)), *own = strrchr(lookup->node->address, ':');
        int64_t port = weir_redis_integer(weir_redis_item(pair, 1), 0);
        char address[600];

        if (port <= 0 || port > 65535 || strlen(host) > 255 || !own)
                return NULL;
        if (!*host || strcmp(host, "?") == 0) /* that of whom we have asked */
                snprintf(address, sizeof address, "%.*s:%d", (int)(own - lookup->node->address), lookup->node->address,
                         (int)port);
        else
                snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, (int)port);
        return weir__redis_node_at(lookup->redis->topology, address);
}

static bool
take_slots(struct lookup *lookup, const struct weir_redis_reply *root)
{
        struct weir__redis_topology *topology = lookup->redis->topology;
        bool has_any = false;

        for (size_t i = 0; weir_redis_item(root, i); i++) {
                const struct weir_redis_reply *range = weir_redis_item(root, i);
                int64_t first = weir_redis_integer(weir_redis_item(range, 0), -1),
                        to = weir_redis_integer(weir_redis_item(range, 1), -1);
                struct weir__redis_node *node = node_of(lookup, weir_redis_item(range, 2));

                if (!node || first < 0 || first > to || to >= WEIR__REDIS_SLOTS)
                        continue;
                for (int64_t slot = first; slot <= to; slot++)
                        atomic_store_explicit(&topology->slots[slot], node, memory_order_release);
                has_any = true;
        }
        return has_any;
}

static bool
take_master(struct lookup *lookup, const struct weir_redis_reply *root)
{
        struct weir__redis_node *node = node_of(lookup, root);

        if (node)
                atomic_store(&lookup->redis->topology->main, node);
        return node;
}

static void
on_answer(weir_task *task, void *context)
{
        struct lookup *lookup = context;
        struct weir__redis_tree tree = {0};
        size_t size;
        const char *data = weir_ask_reply(task, &size);
        bool is_well = weir_task_status(task) == 0 && weir__redis_build(data, size, NULL, 0, &tree) == 0;

        if (is_well)
                is_well = lookup->redis->topology->slots ? take_slots(lookup, tree.root) : take_master(lookup, tree.root);
        free(tree.memory);
        if (is_well || weir_task_status(task) == -ESHUTDOWN)
                end(lookup);
        else
                ask(lookup);
}

void
weir__redis_look(weir_redis *redis)
{
        struct weir__redis_topology *topology = redis->topology;
        weir_nsec now = weir_now();

        if (topology->settings->mode == WEIR__REDIS_SINGLE)
                return;
        pthread_mutex_lock(&topology->lock);
        bool may_look = !topology->is_looking && (!topology->looked_at || now - topology->looked_at >= LOOKUP_INTERVAL);
        struct lookup *lookup = may_look ? calloc(1, sizeof *lookup) : NULL;
        if (lookup) {
                topology->is_looking = true;
                topology->looked_at = now;
        }
        pthread_mutex_unlock(&topology->lock);
        if (!lookup)
                return;
        lookup->redis = weir_redis_ref(redis);
        ask(lookup);
}
