/* client/origin/client.c: the life and the settings of clients.
 *
 * Threads: any.
 * Locks:   `making`, a leaf, guards which client is the default one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/origin/client.h"
#include "client/origin/metrics.h"
#include "client/origin/origin.h"
#include "kernel/base/panic.h"
#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "protocol/message/gate.h"
#include "protocol/text/bytes.h"

#define ORIGIN_CONNECTIONS 256
#define CONNECT_LIMIT      WEIR_SEC(10) /* of each stage of a connect */
#define SEND_LIMIT         WEIR_SEC(30)
#define FIRST_BYTE_LIMIT   WEIR_SEC(60)
#define BETWEEN_LIMIT      WEIR_SEC(60)
#define IDLE_LIMIT         WEIR_SEC(50)
#define AGE_LIMIT          WEIR_SEC(600)
#define MAX_RESPONSE_HEAD  ((size_t)64 << 10)   /* bytes */
#define MAX_RESPONSE_BODY  ((size_t)16 << 20)   /* bytes */
#define MAX_INFLATED       ((uint64_t)64 << 20) /* bytes */
#define MAX_RATIO          100

static struct weir__lock making = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);
static struct weir_client *by_default; /* guarded by making; kept for ever */

/* -- references -- */

void
weir__client_keep(struct weir_client *client)
{
        atomic_fetch_add_explicit(&client->references, 1, memory_order_relaxed);
}

void
weir__client_drop(struct weir_client *client)
{
        if (atomic_fetch_sub_explicit(&client->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__client_unlist(client);
        weir_tls_unref(client->config.tls);
        weir_tls_unref(client->config.proxy_tls);
        weir__client_proxies_done(&client->proxies);
        weir_cookie_jar_unref(client->config.cookies);
        free(client->user_agent);
        free(client->buckets);
        free(client);
}

weir_client *
weir_client_ref(weir_client *client)
{
        weir__memory_expect(client);
        if (client)
                atomic_fetch_add_explicit(&client->users, 1, memory_order_relaxed);
        return client;
}

void
weir_client_unref(weir_client *client)
{
        if (!client)
                return;
        weir__memory_expect(client);
        uint32_t users = atomic_fetch_sub_explicit(&client->users, 1, memory_order_acq_rel);
        if (users == 0)
                weir__panic("weir_client_unref: no reference is left: it was called once too often");
        if (users > 1)
                return;
        weir__origins_look(client);
        weir__client_drop(client);
}

void
weir_client_close_idle(weir_client *client)
{
        if (!client)
                return;
        weir__memory_expect(client);
        atomic_fetch_add_explicit(&client->generation, 1, memory_order_relaxed);
        weir__origins_look(client);
}

/* -- settings -- */

static void
set_defaults(struct weir_client_config *config)
{
#define DEFAULT(field, value) config->field = config->field ? config->field : (value)
        DEFAULT(connections, ORIGIN_CONNECTIONS);
        DEFAULT(resolve_limit, CONNECT_LIMIT);
        DEFAULT(connect_limit, CONNECT_LIMIT);
        DEFAULT(proxy_limit, CONNECT_LIMIT);
        DEFAULT(handshake_limit, CONNECT_LIMIT);
        DEFAULT(send_limit, SEND_LIMIT);
        DEFAULT(first_byte_limit, FIRST_BYTE_LIMIT);
        DEFAULT(between_limit, BETWEEN_LIMIT);
        DEFAULT(limit, WEIR_FOREVER);
        DEFAULT(idle_limit, IDLE_LIMIT);
        DEFAULT(age_limit, AGE_LIMIT);
        DEFAULT(max_head, MAX_RESPONSE_HEAD);
        DEFAULT(max_body, MAX_RESPONSE_BODY);
        DEFAULT(max_inflated, MAX_INFLATED);
        DEFAULT(max_ratio, MAX_RATIO);
#undef DEFAULT
        config->max_head = config->max_head < WEIR__HEAD_MAX ? config->max_head : WEIR__HEAD_MAX;
}

/* Returns what is wrong; or NULL. */
static const char *
fault_of(const struct weir_client_config *config)
{
        const char *agent = config->user_agent;

        if (config->size != sizeof *config)
                return "expected WEIR_CLIENT_CONFIG_DEFAULT as the initializer";
        if (config->resolve_limit < 0 || config->connect_limit < 0 || config->proxy_limit < 0 || config->handshake_limit < 0 ||
            config->send_limit < 0 || config->first_byte_limit < 0 || config->between_limit < 0 || config->limit < 0 ||
            config->idle_limit < 0 || config->age_limit < 0)
                return "a time limit is negative: expected 0, a duration or WEIR_FOREVER";
        if (agent && weir__bytes_span(agent, strlen(agent), WEIR__BYTE_VALUE) < strlen(agent))
                return "user_agent: expected the value of a field";
        return NULL;
}

static int
fill(struct weir_client *client, const struct weir_client_config *config)
{
        const char *agent = config->user_agent ? config->user_agent : "weir/" WEIR_VERSION;

        client->config = *config;
        client->config.user_agent = client->config.proxy = client->config.no_proxy = NULL;
        set_defaults(&client->config);
        weir_tls_ref(client->config.tls);
        weir_tls_ref(client->config.proxy_tls);
        weir_cookie_jar_ref(client->config.cookies);
        if (agent[0]) {
                client->user_agent = strdup(agent);
                if (!client->user_agent)
                        return -ENOMEM;
        }
        return weir__client_proxies_set(&client->proxies, config->proxy, config->no_proxy, config->proxy_from_environment,
                                        "weir_client_new");
}

/* Early after boot the system may have no random bytes yet; then addresses serve. */
static void
make_key(struct weir_client *client)
{
        if (getrandom(client->key, sizeof client->key, GRND_NONBLOCK) != sizeof client->key)
                client->key[0] ^= (uintptr_t)client;
}

weir_client *
weir_client_new(const struct weir_client_config *config)
{
        static const struct weir_client_config usual = WEIR_CLIENT_CONFIG_DEFAULT;
        const char *fault = config ? fault_of(config) : NULL;

        if (fault) {
                weir__log_refusal("weir_client_new: %s", fault);
                errno = EINVAL;
                return NULL;
        }
        struct weir_client *client = calloc(1, sizeof *client);
        int failed = -ENOMEM;
        if (client) {
                atomic_init(&client->users, 1);
                atomic_init(&client->references, 1);
                weir__lock_init(&client->lock, WEIR__RANK_WAITABLE);
                make_key(client);
                failed = fill(client, config ? config : &usual);
                if (!failed) {
                        weir__client_list(client);
                        return client;
                }
                weir__client_drop(client);
        }
        errno = -failed;
        return NULL;
}

weir_client *
weir_client_default(void)
{
        weir__lock(&making);
        weir_client *client = by_default;
        weir__unlock(&making);
        if (client)
                return client;
        client = weir_client_new(NULL);
        if (!client)
                return NULL;
        weir__lock(&making);
        weir_client *first = by_default;
        if (!first)
                by_default = client;
        weir__unlock(&making);
        if (!first)
                return client;
        weir_client_unref(client);
        return first;
}

/* -- what it has -- */

int
weir_client_stats(const weir_client *client, struct weir_client_stats *stats)
{
        if (!client || !stats || stats->size != sizeof *stats)
                return -EINVAL;
        weir__memory_expect(client);
        *stats = (struct weir_client_stats){.size = sizeof *stats};
        stats->requests = atomic_load_explicit(&client->counts[WEIR__CLIENT_REQUESTS], memory_order_relaxed);
        stats->reused = atomic_load_explicit(&client->counts[WEIR__CLIENT_REUSED], memory_order_relaxed);
        stats->replayed = atomic_load_explicit(&client->counts[WEIR__CLIENT_REPLAYED], memory_order_relaxed);
        stats->failed = atomic_load_explicit(&client->counts[WEIR__CLIENT_FAILED], memory_order_relaxed);
        weir__origins_count((weir_client *)client, stats);
        return 0;
}
