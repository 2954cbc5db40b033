/* server/listen/spread.c: which poller watches which listening socket.
 *
 * Threads: the one that starts or stops the server. */
#include "server/listen/spread.h"

#include <errno.h>
#include <stdlib.h>

#include "server/base/server.h"
#include "server/listen/listener.h"

/* The sockets of one address. */
struct group {
        struct weir__socket *first;
        unsigned count;
};

static struct group
group_at(const struct weir__sockets *sockets, unsigned at)
{
        struct group group = {&sockets->all[at], 0};

        while (at + group.count < sockets->count && group.first[group.count].group == group.first->group)
                group.count++;
        return group;
}

static void
add_listener(struct weir__shard *shard, struct weir__socket *socket, bool is_shared)
{
        struct weir__listener *listener = &shard->listeners[shard->listener_count++];

        weir__socket_join(socket);
        *listener = (struct weir__listener){.source.fd = -1, .shard = shard, .socket = socket, .is_shared = is_shared};
}

/* Each socket has to be watched by somebody, and each poller to watch at least one: enough of them are dealt out, fewer are
 * shared. */
static void
deal(struct weir__shard *shard, struct group group, unsigned index, unsigned shards)
{
        if (group.count < shards) {
                add_listener(shard, &group.first[index % group.count], true);
                return;
        }
        for (unsigned i = index; i < group.count; i += shards)
                add_listener(shard, &group.first[i], false);
}

/* How many listeners a shard has at most. */
static unsigned
count_listeners(const struct weir__sockets *sockets, unsigned shards)
{
        unsigned count = 0;

        for (unsigned at = 0; at < sockets->count;) {
                struct group group = group_at(sockets, at);

                count += (group.count + shards - 1) / shards;
                at += group.count;
        }
        return count;
}

int
weir__spread_listeners(weir_http_server *server)
{
        unsigned count = count_listeners(&server->sockets, server->shard_count);

        for (unsigned i = 0; i < server->shard_count; i++) {
                struct weir__shard *shard = &server->shards[i];

                shard->listeners = calloc(count, sizeof *shard->listeners);
                if (!shard->listeners)
                        return -ENOMEM;
                for (unsigned at = 0; at < server->sockets.count;) {
                        struct group group = group_at(&server->sockets, at);

                        deal(shard, group, i, server->shard_count);
                        at += group.count;
                }
        }
        return 0;
}

void
weir__spread_take_back(weir_http_server *server)
{
        for (unsigned i = 0; i < server->shard_count; i++) {
                struct weir__shard *shard = &server->shards[i];

                for (unsigned j = 0; j < shard->listener_count; j++)
                        if (shard->listeners[j].socket)
                                weir__socket_leave(shard->listeners[j].socket);
                free(shard->listeners);
                shard->listeners = NULL;
                shard->listener_count = 0;
        }
}
