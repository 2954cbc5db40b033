/* database/redis/link.c: a connection that one owner has, and that is never made a second time.
 *
 * What was said on a connection, such as WATCH, is lost with it.  So the greeting of a second connection is refused, and with it
 * all that is to be sent.  Idle ones that are as fresh wait in a pool of the node. */
#include <errno.h>
#include <stdlib.h>

#include "database/redis/redis.h"

#define IDLE_LIMIT WEIR_SEC(50)
#define POOL_MOST  16

static void
unref(void *context)
{
        struct weir__redis_link *link = context;

        if (atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__redis_node_unref(link->node);
        free(link);
}

static ssize_t
find_end(const void *data, size_t size, void *context)
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
        link->node = weir__redis_node_ref(node);
        link->protocol = node->own;
        link->protocol.frame = find_end;
        link->protocol.hello = greet;
        link->protocol.context = link;
        link->protocol.connections = 1;
        link->protocol.reply_limit = node->shared.reply_limit;
        link->protocol.idle_limit = WEIR_FOREVER;
        link->endpoint = node->settings->tls ? weir_endpoint_tls_new(node->address, node->settings->tls, NULL, &link->protocol)
                                             : weir_endpoint_new(node->address, &link->protocol);
        if (!link->endpoint) {
                unref(link);
                return NULL;
        }
        atomic_fetch_add_explicit(&link->references, 1, memory_order_relaxed);
        weir_endpoint_on_free(link->endpoint, unref, link);
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
        unref(link);
}
