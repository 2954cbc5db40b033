/* server/handover.c: who watches which listening socket: the pollers of this process, and the process that comes after it.
 *
 * Threads: those that start and stop servers; a hand-over by any thread that may wait.
 * Locks:   the server's, in a hand-over, while it reads which sockets there are: they stay until the state has changed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/socket/inherit.h"
#include "kernel/runtime/runtime.h"
#include "server/server.h"

/* -- to the pollers -- */

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
add_listener(struct weir__shard *shard, struct weir__socket *socket, bool shared)
{
        struct weir__listener *listener = &shard->listeners[shard->listener_count++];

        weir__socket_join(socket);
        *listener = (struct weir__listener){.source.fd = -1, .shard = shard, .socket = socket, .shared = shared};
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
weir__listeners_spread(weir_http_server *server)
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
weir__listeners_drop(weir_http_server *server)
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

/* -- to another process -- */

static bool
is_open(struct weir__socket *socket)
{
        return atomic_load_explicit(&socket->users, memory_order_acquire) > 0;
}

int
weir_http_server_fds(weir_http_server *server, int *fds, size_t room)
{
        int failed = weir__runtime_may_stop();
        size_t count = 0;

        if (failed || !server || (!fds && room))
                return failed ? failed : -EINVAL;
        weir__lock(&server->lock);
        bool serves = server->state == WEIR__SERVER_SERVING;
        for (unsigned i = 0; serves && i < server->sockets.count; i++) {
                if (!is_open(&server->sockets.all[i]))
                        continue;
                if (count < room)
                        fds[count] = server->sockets.all[i].fd;
                count++;
        }
        weir__unlock(&server->lock);
        return count ? (int)count : -EDOM;
}

/* A copy with a descriptor of its own: a stop may come meanwhile. */
static int
copy_socket(struct weir__sockets *to, struct weir__socket *from)
{
        if (!weir__socket_join(from))
                return 0; /* the runtime has ended, and closed it */
        int fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
        int failed = fd < 0 ? -errno : 0;
        weir__socket_leave(from);
        struct weir__socket *copy = failed ? NULL : weir__sockets_add(to, fd);
        if (!copy) {
                if (fd >= 0)
                        close(fd);
                return failed ? failed : -ENOMEM;
        }
        copy->origin = from->origin;
        copy->said = from->said;
        copy->has_file = from->has_file;
        copy->device = from->device;
        copy->inode = from->inode;
        return 0;
}

static int
copy_sockets(struct weir__sockets *to, weir_http_server *server)
{
        int failed = 0;

        weir__lock(&server->lock);
        if (server->state == WEIR__SERVER_SERVING)
                for (unsigned i = 0; i < server->sockets.count && !failed; i++)
                        failed = copy_socket(to, &server->sockets.all[i]);
        weir__unlock(&server->lock);
        return failed;
}

static int
start_heir(struct weir__heir *heir, const struct weir__heritage *heritage, const char *path, char *const arguments[])
{
        struct weir__sockets copies = {0};
        int failed = 0;

        for (unsigned i = 0; i < heritage->count && !failed; i++)
                failed = copy_sockets(&copies, heritage->servers[i]);
        if (!failed && !copies.count)
                failed = -EDOM;
        if (!failed)
                failed = weir__heir_start(heir, path, arguments, &copies);
        for (unsigned i = 0; i < copies.count; i++)
                close(copies.all[i].fd);
        weir__sockets_free(&copies);
        return failed;
}

/* From here on a stop leaves what the heir will need, even if that is not ready in the end. */
static void
begin_hand_over(weir_http_server *server)
{
        weir__lock(&server->lock);
        server->hand_overs++;
        weir__unlock(&server->lock);
}

/* A stop that has begun meanwhile has taken it for handed over. */
static void
end_hand_over(weir_http_server *server, bool is_done)
{
        weir__lock(&server->lock);
        server->hand_overs--;
        if (server->state == WEIR__SERVER_SERVING)
                server->handed_over |= is_done;
        weir__unlock(&server->lock);
}

int
weir__servers_hand_over(const struct weir__heritage *heritage, const char *path, char *const arguments[], weir_nsec within,
                        const int impatient[2])
{
        struct weir__heir heir;

        for (unsigned i = 0; i < heritage->count; i++)
                begin_hand_over(heritage->servers[i]);
        int failed = start_heir(&heir, heritage, path, arguments);

        failed = failed ? failed : weir__heir_wait(&heir, within, impatient);
        for (unsigned i = 0; i < heritage->count; i++)
                end_hand_over(heritage->servers[i], !failed);
        return failed ? failed : (int)heir.pid;
}

int
weir_http_server_inherit(weir_http_server *server, const char *path, char *const arguments[], weir_nsec within)
{
        static const int nobody[2] = {-1, -1};
        const struct weir__heritage heritage = {&server, 1};
        int failed = weir__runtime_may_stop();

        if (failed || !server || !path || !arguments || !arguments[0])
                return failed ? failed : -EINVAL;
        return weir__servers_hand_over(&heritage, path, arguments, within, nobody);
}

int
weir_http_server_ready(void)
{
        int failed = weir__runtime_may_stop();

        failed = failed ? failed : weir__inherit();
        return failed ? failed : (int)weir__inherit_ready();
}
