/* net/listen/users.c: the counts that keep the memory of a server.
 *
 * Threads: any adds and removes, refs and unrefs; the thread that stops the server waits. */
#include "net/listen/users.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "kernel/base/clock.h"
#include "kernel/runtime/runtime.h"
#include "net/listen/server.h"

#define SAY_EVERY WEIR_SEC(1)

void
weir__users_remove(struct weir__users *users)
{
        int quiet_fd = users->quiet_fd;

        if (atomic_fetch_sub_explicit(&users->count, 1, memory_order_acq_rel) == 1) {
                weir__runtime_wait_end(false); /* begun by the thread that stops the server */
                eventfd_write(quiet_fd, 1);
        }
}

bool
weir__users_wait(struct weir__server *server, weir_nsec until, int impatient_fd, void (*say)(const struct weir__server *server))
{
        int quiet_fd = server->users.quiet_fd;
        struct pollfd fds[2] = {{.fd = quiet_fd, .events = POLLIN}, {.fd = impatient_fd, .events = POLLIN}};
        weir_nsec say_at = weir__clock_monotonic() + SAY_EVERY;
        eventfd_t written;

        for (;;) {
                weir_nsec now = weir__clock_monotonic(), next = say_at < until ? say_at : until;
                weir_nsec left = next > now ? next - now : 0;
                struct timespec limit = {.tv_sec = left / WEIR_SEC(1), .tv_nsec = left % WEIR_SEC(1)};
                int count = ppoll(fds, 2, &limit, NULL); /* it passes over a descriptor of -1 */

                if (count > 0 && fds[0].revents && eventfd_read(quiet_fd, &written) == 0)
                        return true;
                if ((count == 0 && next == until) || (count > 0 && fds[1].revents))
                        return false;
                if (count == 0) {
                        say(server);
                        say_at += SAY_EVERY;
                }
        }
}

/* -- the memory of the server itself -- */

void
weir__server_ref(struct weir__server *server)
{
        atomic_fetch_add_explicit(&server->references, 1, memory_order_relaxed);
}

void
weir__server_unref(struct weir__server *server)
{
        if (atomic_fetch_sub_explicit(&server->references, 1, memory_order_acq_rel) != 1)
                return;
        while (server->dropped) {
                struct weir__branch *branches = server->dropped;

                server->dropped = branches->next_dropped;
                free(branches);
        }
        server->ops->freed(server);
}

/* If nothing is detached, nobody else has a reference, and none can get one: all connections are gone. */
void
weir__server_drop_branches(struct weir__server *server)
{
        if (atomic_load_explicit(&server->references, memory_order_acquire) == 1) {
                free(server->branches);
        } else if (server->branches) {
                server->branches->next_dropped = server->dropped;
                server->dropped = server->branches;
        }
        server->branches = NULL;
        server->branch_count = 0;
}
