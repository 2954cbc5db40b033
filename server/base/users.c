/* server/base/users.c: the count that keeps a server's memory.
 *
 * Threads: any adds and removes; the thread that stops the server waits. */
#include "server/base/users.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "kernel/base/clock.h"
#include "kernel/runtime/runtime.h"

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
weir__users_wait(struct weir__users *users, weir_nsec until, int impatient_fd)
{
        struct pollfd fds[2] = {{.fd = users->quiet_fd, .events = POLLIN}, {.fd = impatient_fd, .events = POLLIN}};
        eventfd_t written;

        for (;;) {
                weir_nsec now = weir__clock_monotonic(), left = until == WEIR_FOREVER || until < now ? 0 : until - now;
                struct timespec limit = {.tv_sec = left / WEIR_SEC(1), .tv_nsec = left % WEIR_SEC(1)};
                int count = ppoll(fds, 2, until == WEIR_FOREVER ? NULL : &limit, NULL); /* it passes over a descriptor of -1 */

                if (count > 0 && fds[0].revents && eventfd_read(users->quiet_fd, &written) == 0)
                        return true;
                if (count == 0 || (count > 0 && fds[1].revents))
                        return false;
        }
}
