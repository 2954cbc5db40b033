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
weir__stream_read(struct weir__stream *stream, void *data, size_t size)
{
        return receive(stream->source.fd, data, size, 0);
}

ssize_t
weir__stream_peek(struct weir__stream *stream)
{
        char byte;

        return receive(stream->source.fd, &byte, 1, MSG_PEEK);
}

ssize_t
weir__stream_write(struct weir__stream *stream, const struct iovec *pieces, int count)
{
        struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
        ssize_t sent;

        do {
                sent = count == 1 ? send(stream->source.fd, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL)
                                  : sendmsg(stream->source.fd, &message, MSG_NOSIGNAL);
        } while (sent < 0 && errno == EINTR);
        return sent < 0 ? -errno : sent;
}

size_t
weir__stream_untaken(struct weir__stream *stream)
{
        int size;

        return ioctl(stream->source.fd, SIOCOUTQ, &size) < 0 || size < 0 ? 0 : (size_t)size;
}

void
weir__stream_finish(struct weir__stream *stream)
{
        shutdown(stream->source.fd, SHUT_WR);
}

void
weir__stream_close(struct weir__stream *stream)
{
        close(stream->source.fd); /* not repeated after EINTR: on Linux the descriptor is gone then */
        stream->source.fd = -1;
}
