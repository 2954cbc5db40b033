/* net/listen/spread.c: which poller watches which listening socket.
 *
 * Threads: the one that starts or stops the server. */
#include "net/listen/listener.h"

#include <errno.h>
#include <stdlib.h>

#include "net/listen/server.h"

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
deal(struct weir__server *server, struct group group)
{
        unsigned branches = server->branch_count, listeners = group.count > branches ? group.count : branches;
        int failed = 0;

        for (unsigned i = 0; i < listeners && !failed; i++)
                failed = add_listener(weir__server_branch(server, i % branches), &group.first[i % group.count],
                                      group.count < branches);
        return failed;
}

int
weir__spread_listeners(struct weir__server *server)
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
weir__spread_take_back(struct weir__server *server)
{
        for (unsigned i = 0; i < server->branch_count; i++) {
                struct weir__branch *branch = weir__server_branch(server, i);

                for (unsigned j = 0; j < branch->listener_count; j++)
                        if (branch->listeners[j].socket)
                                weir__socket_leave(branch->listeners[j].socket);
                free(branch->listeners);
                branch->listeners = NULL;
                branch->listener_count = 0;
        }
}
