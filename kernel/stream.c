/* kernel/stream.c: plain TCP. */
#include "kernel/stream.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t
receive(int fd, void *data, size_t size, int flags)
{
        ssize_t count;

        do {
                count = recv(fd, data, size, flags);
        } while (count < 0 && errno == EINTR);
        return count < 0 ? -errno : count;
}

ssize_t
weir__stream_read(int fd, void *data, size_t size)
{
        return receive(fd, data, size, 0);
}

ssize_t
weir__stream_peek(int fd)
{
        char byte;

        return receive(fd, &byte, 1, MSG_PEEK);
}

ssize_t
weir__stream_write(int fd, const struct iovec *pieces, int count)
{
        struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
        ssize_t sent;

        do {
                sent = count == 1 ? send(fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL)
                                  : sendmsg(fd, &message, MSG_NOSIGNAL);
        } while (sent < 0 && errno == EINTR);
        return sent < 0 ? -errno : sent;
}

size_t
weir__stream_untaken(int fd)
{
        int size;

        return ioctl(fd, SIOCOUTQ, &size) < 0 || size < 0 ? 0 : (size_t)size;
}

void
weir__stream_finish(int fd)
{
        shutdown(fd, SHUT_WR);
}

void
weir__stream_close(int fd)
{
        close(fd); /* not repeated after EINTR: on Linux the descriptor is gone then */
}
