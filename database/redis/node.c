/* database/redis/node.c: a server: its endpoints, and the descriptions of the protocol that these have.
 *
 * Two descriptions differ in what a cancel does.  Where commands share a connection, replies have "numbers" (`match`): so the
 * reply to a command that was cancelled is thrown away when it comes, and those behind it stay in step.  A connection of its own
 * has none: a cancel closes it, which tells the server.
 *
 * A link is a connection that one owner has, and that is never made a second time: what was said on it, such as WATCH, is lost
 * with it.  So the greeting of a second connection is refused, and with it all that is to be sent.  Idle links that are as
 * fresh wait in a pool of the node. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/redis.h"

#define REDIS_IDLE_LIMIT WEIR_SEC(300)

static ssize_t
find_end(const void *data, size_t size, void *context)
{
        const struct weir__redis_node *node = context;

        return weir__redis_frame(data, size, weir_frame_words(), node->settings->config.max_reply);
}

/* A push of RESP3 is no reply. */
static uint64_t
match(const void *message, size_t size, void *context)
{
        (void)size;
        (void)context;
        return *(const char *)message == '>' ? WEIR_MATCH_NONE : WEIR_MATCH_OLDEST;
}

/* A reply that nobody waits for: then the next one may be, too. */
static void
on_push(weir_task *message, void *context)
{
        (void)context;
        if (*(const char *)weir_message_data(message, NULL) != '>')
                weir_session_close(weir_message_session(message));
}

static void
describe(struct weir__redis_node *node)
{
        const struct weir_redis_config *config = &node->settings->config;

        node->shared = (struct weir_protocol){
                .size = sizeof node->shared,
                .frame = find_end,
                .max_message = config->max_reply,
                .match = match,
                .unsolicited = on_push,
                .hello = weir__redis_hello,
                .context = node,
                .depth = config->depth,
                .connections = config->connections,
                .connect_limit = config->connect_limit,
                .hello_limit = config->connect_limit,
                .reply_limit = config->command_limit,
                .idle_limit = REDIS_IDLE_LIMIT,
        };
        node->own = node->shared;
        node->own.match = NULL;
        node->own.depth = 1;
        node->own.connections = config->own;
        node->own.reply_limit = WEIR_FOREVER;
}

static struct weir__redis_node *
ref_node(struct weir__redis_node *node)
{
        atomic_fetch_add_explicit(&node->references, 1, memory_order_relaxed);
        return node;
}

static void
unref_node(void *context)
{
        struct weir__redis_node *node = context;

        if (atomic_fetch_sub_explicit(&node->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__redis_settings_unref(node->settings);
        pthread_mutex_destroy(&node->lock);
        free(node->address);
        free(node);
}

static weir_endpoint *
make_endpoint(struct weir__redis_node *node, const struct weir_protocol *protocol)
{
        weir_endpoint *endpoint = node->settings->tls ? weir_endpoint_tls_new(node->address, node->settings->tls, NULL, protocol)
                                                      : weir_endpoint_new(node->address, protocol);

        if (endpoint)
                weir_endpoint_on_free(endpoint, unref_node, ref_node(node));
        return endpoint;
}

struct weir__redis_node *
weir__redis_node_new(struct weir__redis_settings *settings, const char *address)
{
        struct weir__redis_node *node = calloc(1, sizeof *node);

        if (!node)
                return NULL;
        atomic_init(&node->references, 1);
        pthread_mutex_init(&node->lock, NULL);
        node->settings = weir__redis_settings_ref(settings);
        node->address = strdup(address);
        if (node->address) {
                describe(node);
                node->commands = make_endpoint(node, &node->shared);
                node->waits = node->commands ? make_endpoint(node, &node->own) : NULL;
        }
        if (node->waits)
                return node;
        weir__redis_node_close(node);
        return NULL;
}

void
weir__redis_node_close(struct weir__redis_node *node)
{
        if (!node)
                return;
        weir_endpoint_unref(node->commands);
        weir_endpoint_unref(node->waits);
        pthread_mutex_lock(&node->lock);
        struct weir__redis_link *link = node->links;
        node->links = NULL;
        node->link_count = UINT_MAX / 2; /* none is taken in */
        pthread_mutex_unlock(&node->lock);
        for (struct weir__redis_link *next; link; link = next) {
                next = link->next;
                weir__redis_link_drop(link);
        }
        unref_node(node);
}

void
weir__redis_node_set_problem(struct weir__redis_node *node, const char *text)
{
        pthread_mutex_lock(&node->lock);
        snprintf(node->problem, sizeof node->problem, "%s", text);
        pthread_mutex_unlock(&node->lock);
}

void
weir__redis_node_problem(struct weir__redis_node *node, char out[WEIR__REDIS_TEXT])
{
        pthread_mutex_lock(&node->lock);
        memcpy(out, node->problem, WEIR__REDIS_TEXT);
        pthread_mutex_unlock(&node->lock);
}

/* -- links -- */

#define POOL_MOST 16

static void
unref_link(void *context)
{
        struct weir__redis_link *link = context;

        if (atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) != 1)
                return;
        unref_node(link->node);
        free(link);
}

static ssize_t
find_end_of_link(const void *data, size_t size, void *context)
{
        struct weir__redis_link *link = context;

        return weir__redis_frames(data, size, weir_frame_words(), link->protocol.max_message,
                                  atomic_load_explicit(&link->replies, memory_order_relaxed));
}

static void
greet(weir_stream *stream, weir_series *series, void *context)
{
        struct weir__redis_link *link = context;

        if (atomic_fetch_add_explicit(&link->greetings, 1, memory_order_relaxed))
                weir_series_fail(series, -ENOTCONN);
        else
                weir__redis_hello(stream, series, link->node);
}

struct weir__redis_link *
weir__redis_link_new(struct weir__redis_node *node)
{
        struct weir__redis_link *link = calloc(1, sizeof *link);

        if (!link)
                return NULL;
        atomic_init(&link->references, 1);
        atomic_init(&link->replies, 1);
        link->node = ref_node(node);
        link->protocol = node->own;
        link->protocol.frame = find_end_of_link;
        link->protocol.hello = greet;
        link->protocol.context = link;
        link->protocol.connections = 1;
        link->protocol.idle_limit = WEIR_FOREVER;
        link->endpoint = node->settings->tls ? weir_endpoint_tls_new(node->address, node->settings->tls, NULL, &link->protocol)
                                             : weir_endpoint_new(node->address, &link->protocol);
        if (!link->endpoint) {
                unref_link(link);
                return NULL;
        }
        atomic_fetch_add_explicit(&link->references, 1, memory_order_relaxed);
        weir_endpoint_on_free(link->endpoint, unref_link, link);
        return link;
}

struct weir__redis_link *
weir__redis_link_take(struct weir__redis_node *node)
{
        for (;;) {
                pthread_mutex_lock(&node->lock);
                struct weir__redis_link *link = node->links;
                if (link) {
                        node->links = link->next;
                        node->link_count--;
                }
                pthread_mutex_unlock(&node->lock);
                if (!link)
                        return weir__redis_link_new(node);
                if (weir_endpoint_connections(link->endpoint))
                        return link;
                weir__redis_link_drop(link); /* its connection was closed meanwhile */
        }
}

void
weir__redis_link_give(struct weir__redis_link *link)
{
        struct weir__redis_node *node = link->node;

        pthread_mutex_lock(&node->lock);
        bool has_room = node->link_count < POOL_MOST;
        if (has_room) {
                link->next = node->links;
                node->links = link;
                node->link_count++;
        }
        pthread_mutex_unlock(&node->lock);
        if (!has_room)
                weir__redis_link_drop(link);
}

void
weir__redis_link_drop(struct weir__redis_link *link)
{
        if (!link)
                return;
        weir_endpoint_unref(link->endpoint);
        unref_link(link);
}
