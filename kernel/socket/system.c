/* kernel/socket/system.c: calls of the system.
 *
 * ThreadSanitizer knows by recv and send of the C library that what was sent happened before it was received, so there they are
 * called. */
#include "kernel/socket/system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/memory/sanitized.h"

ssize_t
weir__recv(int fd, void *data, size_t size, int flags)
{
        return WEIR__SANITIZED ? recv(fd, data, size, flags) : syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
}

ssize_t
weir__send(int fd, const void *data, size_t size, int flags)
{
        return WEIR__SANITIZED ? send(fd, data, size, flags) : syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

int
weir__eventfd_renew(int fd)
{
        int other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int failed = other < 0 || dup3(other, fd, O_CLOEXEC) < 0 ? -errno : 0;

        if (other >= 0)
                close(other);
        return failed;
}
