/* database/redis/redis.c: the life of a client, its figures, and what is read from replies. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "database/redis/redis.h"

/* -- a client -- */

static struct weir__figures figures;

static void
on_fork(void)
{
        weir__figures_forked(&figures);
}

static void
watch_forks(void)
{
        pthread_atfork(NULL, NULL, on_fork);
}

weir_redis *
weir_redis_new(const char *address, const struct weir_redis_config *config)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct weir__redis_settings *settings = weir__redis_settings_new(address, config);
        struct weir__redis_topology *topology = settings ? weir__redis_topology_new(settings) : NULL;
        weir_redis *redis = topology ? calloc(1, sizeof *redis) : NULL;

        pthread_once(&once, watch_forks);
        if (!settings)
                return NULL;
        if (!redis) {
                weir__redis_topology_free(topology);
                errno = ENOMEM;
                return NULL;
        }
        atomic_init(&redis->references, 1);
        redis->pid = getpid();
        redis->settings = settings;
        redis->topology = topology;
        weir__figures_add(&figures, &redis->figured,
                          settings->name     ? settings->name
                          : settings->master ? settings->master
                                             : settings->targets[0]);
        return redis;
}

weir_redis *
weir_redis_ref(weir_redis *redis)
{
        if (redis)
                atomic_fetch_add_explicit(&redis->references, 1, memory_order_relaxed);
        return redis;
}

void
weir_redis_unref(weir_redis *redis)
{
        if (!redis || atomic_fetch_sub_explicit(&redis->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__figures_remove(&figures, &redis->figured);
        weir__redis_topology_free(redis->topology);
        free(redis);
}

/* -- its figures -- */

static void
add(struct weir_redis_stats *stats, const weir_endpoint *endpoint)
{
        struct weir_endpoint_stats own = WEIR_ENDPOINT_STATS_DEFAULT;

        weir_endpoint_stats(endpoint, &own);
        stats->connections += own.connections;
        stats->connecting += own.connecting;
        stats->under_way += own.requests;
        stats->commands += own.asked;
        stats->connects += own.connects;
        stats->refused += own.refused;
        stats->lost += own.lost;
}

int
weir_redis_stats(const weir_redis *redis, struct weir_redis_stats *stats)
{
        if (!stats || stats->size != sizeof *stats)
                return -EINVAL;
        if (!redis)
                return -ENOMEM;
        if (redis->pid != getpid())
                return -ECHILD;
        struct weir__redis_topology *topology = redis->topology;
        *stats = (struct weir_redis_stats){
                .size = sizeof *stats,
                .repeated = atomic_load_explicit(&redis->repeated, memory_order_relaxed),
                .failed = atomic_load_explicit(&redis->failed, memory_order_relaxed),
                .cancelled = atomic_load_explicit(&redis->cancelled, memory_order_relaxed),
        };
        pthread_mutex_lock(&topology->lock);
        stats->servers = topology->count;
        for (unsigned i = 0; i < topology->count; i++) {
                add(stats, topology->nodes[i]->commands);
                add(stats, topology->nodes[i]->waits);
        }
        pthread_mutex_unlock(&topology->lock);
        return 0;
}

#define AT(field) offsetof(struct weir_redis_stats, field)

static const struct weir__figure list[] = {
        {"servers", "Servers that a client knows.", WEIR__FIGURE_UNSIGNED, AT(servers)},
        {"connections", "Connections that are open, or being made.", WEIR__FIGURE_UNSIGNED, AT(connections)},
        {"connecting", "Connections that are being made.", WEIR__FIGURE_UNSIGNED, AT(connecting)},
        {"under_way", "Commands that wait for a connection or for their reply.", WEIR__FIGURE_UNSIGNED, AT(under_way)},
        {"commands_total", "Commands, each time that they were sent or waited for that.", WEIR__FIGURE_COUNT, AT(commands)},
        {"repeated_total", "How often a command was sent again.", WEIR__FIGURE_COUNT, AT(repeated)},
        {"failed_total", "Commands that have failed.", WEIR__FIGURE_COUNT, AT(failed)},
        {"cancelled_total", "Commands whose flow was over first.", WEIR__FIGURE_COUNT, AT(cancelled)},
        {"connects_total", "Connections that were made.", WEIR__FIGURE_COUNT, AT(connects)},
        {"refused_total", "Attempts that made no connection.", WEIR__FIGURE_COUNT, AT(refused)},
        {"lost_total", "Connections that broke, or that the server has closed.", WEIR__FIGURE_COUNT, AT(lost)},
};

_Static_assert(sizeof(struct weir_redis_stats) <= WEIR__FIGURES_SIZE, "there is room for it");

static void
fill(const struct weir__figured *thing, void *stats)
{
        *(struct weir_redis_stats *)stats = (struct weir_redis_stats)WEIR_REDIS_STATS_DEFAULT;
        weir_redis_stats((const weir_redis *)((const char *)thing - offsetof(weir_redis, figured)), stats);
}

static struct weir__figures figures = {.library = "redis",
                                       .label = "client",
                                       .list = list,
                                       .count = sizeof list / sizeof *list,
                                       .fill = fill,
                                       .lock = PTHREAD_MUTEX_INITIALIZER};

int
weir_redis_metrics_write(int fd)
{
        return weir__figures_write(&figures, fd);
}

/* -- replies -- */

static bool
has_items(const struct weir_redis_reply *reply)
{
        return reply && reply->type >= WEIR_REDIS_ARRAY;
}

static bool
has_text(const struct weir_redis_reply *reply)
{
        return reply && (reply->type == WEIR_REDIS_STRING || reply->type == WEIR_REDIS_ERROR ||
                         reply->type == WEIR_REDIS_BIG_NUMBER || reply->type == WEIR_REDIS_VERBATIM);
}

const struct weir_redis_reply *
weir_redis_item(const struct weir_redis_reply *reply, size_t index)
{
        return has_items(reply) && index < reply->size ? &reply->items[index] : NULL;
}

const struct weir_redis_reply *
weir_redis_find(const struct weir_redis_reply *reply, const char *key)
{
        size_t size = key ? strlen(key) : 0;

        for (size_t i = 0; key && has_items(reply) && i + 1 < reply->size; i += 2)
                if (has_text(&reply->items[i]) && reply->items[i].size == size && memcmp(reply->items[i].text, key, size) == 0)
                        return &reply->items[i + 1];
        return NULL;
}

const char *
weir_redis_text(const struct weir_redis_reply *reply)
{
        return has_text(reply) ? reply->text : "";
}

int64_t
weir_redis_integer(const struct weir_redis_reply *reply, int64_t otherwise)
{
        char *end;

        if (!reply)
                return otherwise;
        if (reply->type == WEIR_REDIS_INTEGER || reply->type == WEIR_REDIS_BOOLEAN)
                return reply->integer;
        if (reply->type == WEIR_REDIS_DOUBLE)
                return reply->number >= -9e18 && reply->number <= 9e18 ? (int64_t)reply->number : otherwise;
        if (!has_text(reply) || !reply->size)
                return otherwise;
        errno = 0;
        long long value = strtoll(reply->text, &end, 10);
        bool is_number = (*reply->text == '-' || (*reply->text >= '0' && *reply->text <= '9')) &&
                         end == reply->text + reply->size;
        return is_number && errno == 0 ? value : otherwise;
}

/* Nodes and bytes of texts. */
static void
measure(const struct weir_redis_reply *reply, size_t *nodes, size_t *bytes)
{
        ++*nodes;
        if (has_text(reply))
                *bytes += reply->size + 1;
        for (size_t i = 0; has_items(reply) && i < reply->size; i++)
                measure(&reply->items[i], nodes, bytes);
}

static void
copy_to(struct weir_redis_reply *to, const struct weir_redis_reply *from, struct weir_redis_reply **nodes, char **text)
{
        *to = *from;
        if (has_text(from)) {
                memcpy(*text, from->text, from->size + 1);
                to->text = *text;
                *text += from->size + 1;
        }
        if (!has_items(from))
                return;
        struct weir_redis_reply *items = *nodes;
        *nodes += from->size;
        to->items = items;
        for (size_t i = 0; i < from->size; i++)
                copy_to(&items[i], &from->items[i], nodes, text);
}

struct weir_redis_reply *
weir_redis_reply_copy(const struct weir_redis_reply *reply)
{
        size_t nodes = 0, bytes = 0;

        if (!reply)
                return NULL;
        measure(reply, &nodes, &bytes);
        struct weir_redis_reply *copy = malloc(nodes * sizeof *copy + bytes), *next = copy + 1;
        if (!copy)
                return NULL;
        char *text = (char *)(copy + nodes);
        copy_to(copy, reply, &next, &text);
        return copy;
}

void
weir_redis_reply_free(struct weir_redis_reply *reply)
{
        free(reply);
}
