/* server/base/eventfd.h: eventfds across a fork. */
#ifndef WEIR_SERVER_EVENTFD_H
#define WEIR_SERVER_EVENTFD_H

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Puts a new eventfd in the place of `fd`.  A server that was made before a fork may be started in several processes; from then
 * on each has its own.  Returns 0 or a negative errno. */
static inline int weir__eventfd_renew(int fd)
{
        int other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int failed = other < 0 || dup3(other, fd, O_CLOEXEC) < 0 ? -errno : 0;

        if (other >= 0)
                close(other);
        return failed;
}

#endif
