/* kernel/socket/stream.c: plain TCP, or what is to be TLS in it.
 *
 * Threads: the owner of the poller only. */
#include "kernel/socket/stream.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/socket/system.h"

/* Seconds. */
#define ASK_EACH 5
#define ASK_FOR  60

static ssize_t
receive(int fd, void *data, size_t size, int flags)
{
        ssize_t count;

        do {
                count = weir__recv(fd, data, size, flags);
        } while (count < 0 && errno == EINTR);
        return count < 0 ? -errno : count;
}

int
weir__stream_handshake(struct weir__stream *stream)
{
        return stream->tls ? weir__tls_handshake(stream->tls) : 0;
}

void
weir__stream_become_plain(struct weir__stream *stream)
{
        weir__tls_free(stream->tls);
        stream->tls = NULL;
}

ssize_t
weir__stream_read(struct weir__stream *stream, void *data, size_t size)
{
        if (stream->tls)
                return weir__tls_read(stream->tls, data, size);
        return receive(stream->source.fd, data, size, 0);
}

ssize_t
weir__stream_peek(struct weir__stream *stream)
{
        char byte;

        if (stream->tls)
                return weir__tls_peek(stream->tls);
        return receive(stream->source.fd, &byte, 1, MSG_PEEK);
}

ssize_t
weir__stream_write(struct weir__stream *stream, const struct iovec *pieces, int count)
{
        struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
        int flags = MSG_NOSIGNAL | (stream->is_last ? MSG_MORE : 0);
        ssize_t sent;

        if (stream->tls)
                return weir__tls_write(stream->tls, pieces, count);
        do {
                sent = count == 1 ? weir__send(stream->source.fd, pieces->iov_base, pieces->iov_len, flags)
                                  : sendmsg(stream->source.fd, &message, flags);
        } while (sent < 0 && errno == EINTR);
        return sent < 0 ? -errno : sent;
}

void
weir__stream_hold_back(struct weir__stream *stream)
{
        stream->is_last = true;
        if (stream->tls)
                weir__tls_hold_back(stream->tls);
}

/* Through memory of ours: what is encrypted cannot be sent from the file. */
static ssize_t
copy_file(struct weir__stream *stream, int file, uint64_t at, size_t size)
{
        char copy[16 * 1024];
        ssize_t count;

        do {
                count = pread(file, copy, size < sizeof copy ? size : sizeof copy, (off_t)at);
        } while (count < 0 && errno == EINTR);
        struct iovec piece = {copy, (size_t)count};
        return count < 0 ? -errno : count == 0 ? 0 : weir__stream_write(stream, &piece, 1);
}

ssize_t
weir__stream_write_file(struct weir__stream *stream, int file, uint64_t at, size_t size)
{
        off_t offset = (off_t)at;
        ssize_t sent;

        if (stream->tls)
                return copy_file(stream, file, at, size);
        do {
                sent = sendfile(stream->source.fd, file, &offset, size);
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
weir__stream_keep_asking(struct weir__stream *stream)
{
        static const struct {
                int level, option, value;
        } options[] = {
                {IPPROTO_TCP, TCP_KEEPIDLE, ASK_EACH},
                {IPPROTO_TCP, TCP_KEEPINTVL, ASK_EACH},
                {IPPROTO_TCP, TCP_KEEPCNT, ASK_FOR / ASK_EACH},
                {SOL_SOCKET, SO_KEEPALIVE, 1},
        };

        /* A Unix socket has none of the first, and needs none: its system knows that the peer has gone. */
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
                (void)setsockopt(stream->source.fd, options[i].level, options[i].option, &options[i].value,
                                 sizeof options[i].value);
}

size_t
weir__stream_unsent(struct weir__stream *stream)
{
        int size;

        return ioctl(stream->source.fd, SIOCOUTQNSD, &size) < 0 || size < 0 ? 0 : (size_t)size;
}

void
weir__stream_finish(struct weir__stream *stream)
{
        if (stream->tls)
                weir__tls_finish(stream->tls);
        shutdown(stream->source.fd, SHUT_WR);
}

void
weir__stream_break(struct weir__stream *stream)
{
        static const struct linger at_once = {.l_onoff = 1};

        weir__stream_become_plain(stream);
        (void)setsockopt(stream->source.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(stream->source.fd);
        stream->source.fd = -1;
}

void
weir__stream_close(struct weir__stream *stream)
{
        if (stream->tls) {
                weir__tls_finish(stream->tls);
                weir__stream_become_plain(stream);
        }
        /* With something unread, close alone would throw away what waits. */
        if (stream->is_last)
                shutdown(stream->source.fd, SHUT_WR);
        close(stream->source.fd); /* not repeated after EINTR: on Linux the descriptor is gone then */
        stream->source.fd = -1;
}
