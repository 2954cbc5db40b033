/* kernel/socket/stream.c: a connection of TCP or of a Unix socket, plain or with TLS; a pipe or a terminal.
 *
 * Threads: the owner of the poller only.
 * Locks:   none.
 *
 * A write to a pipe, and sendfile to anything, has no MSG_NOSIGNAL: when nobody reads, the system sends SIGPIPE to the calling
 * thread beside EPIPE.  All threads of the library block it (kernel/base/thread.c), so it would stay pending for as long as the
 * thread lives, and a callback could mistake it for its own.  So it is taken back after each EPIPE.  The system takes a signal of
 * the thread before one of the process, so a SIGPIPE that was sent to the program stays. */
#include "kernel/socket/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE_SECONDS 5  /* between questions whether the peer is there */
#define GONE_SECONDS  60 /* without an answer, until the connection is broken */

/* A count of bytes, or the negative errno. */
static ssize_t
result_of(ssize_t count)
{
        return count < 0 ? -errno : count;
}

/* The same for a call that raises SIGPIPE. */
static ssize_t
result_without_signal(ssize_t count)
{
        const struct timespec at_once = {0};
        sigset_t pipe;

        if (count >= 0 || errno != EPIPE)
                return result_of(count);
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        (void)TEMP_FAILURE_RETRY(sigtimedwait(&pipe, NULL, &at_once));
        return -EPIPE;
}

void
weir__stream_adopt(struct weir__stream *stream, int fd)
{
        int type;
        socklen_t size = sizeof type;

        stream->source.fd = fd;
        stream->source.is_pipe = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 && errno == ENOTSOCK;
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
        if (stream->source.is_pipe)
                return result_of(TEMP_FAILURE_RETRY(read(stream->source.fd, data, size)));
        return result_of(TEMP_FAILURE_RETRY(recv(stream->source.fd, data, size, 0)));
}

/* Nothing can be peeked at in a pipe, but the system says what a read would find. */
static ssize_t
peek_at_pipe(int fd)
{
        struct pollfd event = {.fd = fd, .events = POLLIN};
        int count = TEMP_FAILURE_RETRY(poll(&event, 1, 0));

        if (count <= 0)
                return count < 0 ? -errno : -EAGAIN;
        return event.revents & POLLNVAL ? -EBADF : event.revents & POLLIN ? 1 : 0;
}

ssize_t
weir__stream_peek(struct weir__stream *stream)
{
        char byte;

        if (stream->tls)
                return weir__tls_peek(stream->tls);
        if (stream->source.is_pipe)
                return peek_at_pipe(stream->source.fd);
        return result_of(TEMP_FAILURE_RETRY(recv(stream->source.fd, &byte, 1, MSG_PEEK)));
}

ssize_t
weir__stream_write(struct weir__stream *stream, const struct iovec *pieces, int count)
{
        struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
        int flags = MSG_NOSIGNAL | (stream->source.is_last ? MSG_MORE : 0);

        if (stream->tls)
                return weir__tls_write(stream->tls, pieces, count);
        if (stream->source.is_pipe)
                return result_without_signal(TEMP_FAILURE_RETRY(writev(stream->source.fd, pieces, count)));
        if (count == 1)
                return result_of(TEMP_FAILURE_RETRY(send(stream->source.fd, pieces->iov_base, pieces->iov_len, flags)));
        return result_of(TEMP_FAILURE_RETRY(sendmsg(stream->source.fd, &message, flags)));
}

void
weir__stream_hold_back(struct weir__stream *stream)
{
        stream->source.is_last = true;
        if (stream->tls)
                stream->tls->is_last = true;
}

/* Copies a piece of the file: OpenSSL cannot encrypt it where it is, and not all terminals take it from there. */
static ssize_t
copy_file(struct weir__stream *stream, int file, uint64_t at, size_t size)
{
        char copy[16 * 1024];
        ssize_t count = TEMP_FAILURE_RETRY(pread(file, copy, size < sizeof copy ? size : sizeof copy, (off_t)at));
        struct iovec piece = {copy, (size_t)count};

        return count > 0 ? weir__stream_write(stream, &piece, 1) : result_of(count);
}

ssize_t
weir__stream_write_file(struct weir__stream *stream, int file, uint64_t at, size_t size)
{
        off_t offset = (off_t)at;

        if (stream->tls)
                return copy_file(stream, file, at, size);
        ssize_t count = result_without_signal(TEMP_FAILURE_RETRY(sendfile(stream->source.fd, file, &offset, size)));
        return count == -EINVAL && stream->source.is_pipe ? copy_file(stream, file, at, size) : count;
}

bool
weir__stream_may_splice(const struct weir__stream *stream)
{
        struct stat status;
        int type;
        socklen_t size = sizeof type;

        if (stream->tls)
                return false;
        if (stream->source.is_pipe)
                return fstat(stream->source.fd, &status) == 0 && S_ISFIFO(status.st_mode);
        return getsockopt(stream->source.fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

static ssize_t
move(int from, int to, size_t size)
{
        return result_without_signal(TEMP_FAILURE_RETRY(splice(from, NULL, to, NULL, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK)));
}

ssize_t
weir__stream_splice_in(struct weir__stream *stream, int pipe, size_t size)
{
        return move(stream->source.fd, pipe, size);
}

ssize_t
weir__stream_splice_out(struct weir__stream *stream, int pipe, size_t size)
{
        return stream->tls ? -EINVAL : move(pipe, stream->source.fd, size);
}

static size_t
bytes_of(const struct weir__stream *stream, unsigned long request)
{
        int size = 0;

        return ioctl(stream->source.fd, request, &size) < 0 || size < 0 ? 0 : (size_t)size;
}

size_t
weir__stream_untaken(const struct weir__stream *stream)
{
        return bytes_of(stream, SIOCOUTQ);
}

size_t
weir__stream_unsent(const struct weir__stream *stream)
{
        return bytes_of(stream, SIOCOUTQNSD);
}

void
weir__stream_probe(struct weir__stream *stream)
{
        static const struct {
                int level, option, value;
        } options[] = {
                {IPPROTO_TCP, TCP_KEEPIDLE, PROBE_SECONDS},
                {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS},
                {IPPROTO_TCP, TCP_KEEPCNT, GONE_SECONDS / PROBE_SECONDS},
                {SOL_SOCKET, SO_KEEPALIVE, 1},
        };

        /* A Unix socket does not have the first three, and needs none: the system knows when its peer has gone. */
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
                (void)setsockopt(stream->source.fd, options[i].level, options[i].option, &options[i].value,
                                 sizeof options[i].value);
}

int
weir__stream_finish(struct weir__stream *stream)
{
        int failed = stream->tls ? weir__tls_finish(stream->tls) : 0;

        if (failed || shutdown(stream->source.fd, SHUT_WR) == 0)
                return failed;
        return errno == ENOTSOCK ? 0 : errno == ENOTCONN ? -EPIPE : -errno;
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
                (void)weir__tls_finish(stream->tls);
                weir__stream_become_plain(stream);
        }
        /* With unread input, close alone would discard the bytes that are held back. */
        if (stream->source.is_last)
                shutdown(stream->source.fd, SHUT_WR);
        close(stream->source.fd); /* not repeated after EINTR: on Linux the descriptor is closed then */
        stream->source.fd = -1;
}
