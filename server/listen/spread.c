/* server/listen/spread.c: which poller watches which listening socket.
 *
 * Threads: the one that starts or stops the server. */
#include "server/listen/listener.h"

#include <errno.h>
#include <stdlib.h>

#include "server/base/server.h"

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

static int
add_listener(struct weir__branch *branch, struct weir__socket *socket, bool is_shared)
{
        struct weir__listener *grown = realloc(branch->listeners, (branch->listener_count + 1) * sizeof *grown);

        if (!grown)
                return -ENOMEM;
        weir__socket_join(socket);
        grown[branch->listener_count++] = (struct weir__listener){.source.fd = -1, .socket = socket, .is_shared = is_shared};
        branch->listeners = grown;
        return 0;
}

/* Each socket needs a poller, and each poller a socket.  If there are fewer sockets than pollers, several pollers share one. */
static int
deal(weir_http_server *server, struct group group)
{
        unsigned branches = server->branch_count, listeners = group.count > branches ? group.count : branches;
        int failed = 0;

        for (unsigned i = 0; i < listeners && !failed; i++)
                failed = add_listener(&server->branches[i % branches], &group.first[i % group.count], group.count < branches);
        return failed;
}

int
weir__spread_listeners(weir_http_server *server)
{
        int failed = 0;

        for (unsigned at = 0; at < server->sockets.count && !failed;) {
                struct group group = group_at(&server->sockets, at);

                failed = deal(server, group);
                at += group.count;
        }
        return failed;
}

void
weir__spread_take_back(weir_http_server *server)
{
        for (unsigned i = 0; i < server->branch_count; i++) {
                struct weir__branch *branch = &server->branches[i];

                for (unsigned j = 0; j < branch->listener_count; j++)
                        if (branch->listeners[j].socket)
                                weir__socket_leave(branch->listeners[j].socket);
                free(branch->listeners);
                branch->listeners = NULL;
                branch->listener_count = 0;
        }
}
