/* server/operate/handover.c: listening sockets that go to another process.
 *
 * Threads: any that may wait.
 * Locks:   the server's, while the sockets are read: they stay until the state has changed. */
#include "server/operate/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernel/socket/inherit.h"
#include "kernel/runtime/runtime.h"
#include "server/base/server.h"

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
start_child(struct weir__heir *heir, const struct weir__handover *handover, const char *path, char *const arguments[])
{
        struct weir__sockets copies = {0};
        int failed = 0;

        for (unsigned i = 0; i < handover->count && !failed; i++)
                failed = copy_sockets(&copies, handover->servers[i]);
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
                server->is_handed_over |= is_done;
        weir__unlock(&server->lock);
}

int
weir__handover_start(const struct weir__handover *handover, const char *path, char *const arguments[], weir_nsec within,
                     const int impatient[2])
{
        struct weir__heir heir;

        for (unsigned i = 0; i < handover->count; i++)
                begin_hand_over(handover->servers[i]);
        int failed = start_child(&heir, handover, path, arguments);

        failed = failed ? failed : weir__heir_wait(&heir, within, impatient);
        for (unsigned i = 0; i < handover->count; i++)
                end_hand_over(handover->servers[i], !failed);
        return failed ? failed : (int)heir.pid;
}

int
weir_http_server_inherit(weir_http_server *server, const char *path, char *const arguments[], weir_nsec within)
{
        static const int nobody[2] = {-1, -1};
        const struct weir__handover handover = {&server, 1};
        int failed = weir__runtime_may_stop();

        if (failed || !server || !path || !arguments || !arguments[0])
                return failed ? failed : -EINVAL;
        return weir__handover_start(&handover, path, arguments, within, nobody);
}

int
weir_http_server_ready(void)
{
        int failed = weir__runtime_may_stop();

        failed = failed ? failed : weir__inherit();
        return failed ? failed : (int)weir__inherit_ready();
}
