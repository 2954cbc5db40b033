/* kernel/socket/stream.h: bytes in and out of a connection, or of a pipe or terminal.
 *
 * A connection reads, writes and closes only by these functions, so TLS is hidden here.  Owner only.
 *
 * None leaves a SIGPIPE behind, if the calling thread blocks it, as all threads of the library do: see stream.c. */
#ifndef WEIR_KERNEL_STREAM_H
#define WEIR_KERNEL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "kernel/loop/source.h"
#include "kernel/tls/tls.h"

/* A connected socket, a pipe or a terminal, non-blocking, registered with a poller or about to be.  Its source.is_last:
 * weir__stream_hold_back was called.  Its source.is_pipe: no socket: read and write instead of recv and send, and never TLS. */
struct weir__stream {
        struct weir__source source; /* first; fd is -1 when closed */
        struct weir__tls *tls;      /* NULL: plain */
};

/* Sets the descriptor, and finds out whether it is a socket. */
void weir__stream_adopt(struct weir__stream *stream, int fd);

/* Continues the TLS handshake, if there is one.  Reading and writing do so too.
 * Result:  0 when it is over; else as weir__tls_handshake. */
int weir__stream_handshake(struct weir__stream *stream);

/* Drops TLS: the peer does not speak it. */
void weir__stream_become_plain(struct weir__stream *stream);

/* Reads bytes.  EINTR is never returned.
 *
 * Result:  the bytes read; 0 at the end of the stream; -EAGAIN when there are none now; -ECONNABORTED for TLS that ends without
 *          close_notify, because it may have been cut; another negative errno when the stream is broken.  -EIO is the end of a
 *          terminal that has no other side any more. */
ssize_t weir__stream_read(struct weir__stream *stream, void *data, size_t size);

/* Result:  positive when there is something to read, which is not taken; else as weir__stream_read. */
ssize_t weir__stream_peek(struct weir__stream *stream);

/* After a read of `count` bytes, of `room` at most: whether there may be more.  If not, an event reports new bytes.  The end of
 * the stream may have been reported already. */
static inline bool weir__stream_may_have_more(const struct weir__stream *stream, size_t count, size_t room)
{
        /* A terminal gives one line at a time. */
        return stream->tls ? weir__tls_may_have_more(stream->tls) : stream->source.is_pipe || count == room;
}

/* Writes bytes, perhaps not all.  With kTLS a SIGPIPE may be left (tls.h).  The next write must begin with the bytes that are
 * held then: TLS may have encrypted them already.
 *
 * Result:  the bytes written; -EAGAIN when none can be written now; another negative errno when the stream is broken. */
ssize_t weir__stream_write(struct weir__stream *stream, const struct iovec *pieces, int count);

/* The number of unwritten bytes that are held.  The bytes behind them may be replaced. */
static inline size_t weir__stream_held(const struct weir__stream *stream)
{
        return stream->tls ? stream->tls->held : 0;
}

/* Tells that weir__stream_finish or weir__stream_close follows the next writes at once: a segment that is not full waits in the
 * socket, and goes out with the end. */
void weir__stream_hold_back(struct weir__stream *stream);

/* As weir__stream_write, for at most `size` bytes of a file from `at` on; 0 at the end of the file.  May wait for the disk. */
ssize_t weir__stream_write_file(struct weir__stream *stream, int file, uint64_t at, size_t size);

/* Whether the system moves its bytes into and out of a pipe (splice(2)): a plain connection, or a pipe itself. */
bool weir__stream_may_splice(const struct weir__stream *stream);

/* The first is weir__stream_read into an empty pipe that does not block, the second weir__stream_write out of it.  -EINVAL: the
 * system does not do that. */
ssize_t weir__stream_splice_in(struct weir__stream *stream, int pipe, size_t size);
ssize_t weir__stream_splice_out(struct weir__stream *stream, int pipe, size_t size);

/* How many written bytes the peer has not acknowledged yet, and how many of them the system has not even sent, because the peer
 * has no room. */
size_t weir__stream_untaken(const struct weir__stream *stream);
size_t weir__stream_unsent(const struct weir__stream *stream);

/* Makes the system ask, every few seconds and without a byte of the stream, whether the peer is there.  A reset, or a minute of
 * silence, breaks the stream. */
void weir__stream_probe(struct weir__stream *stream);

/* Tells the peer, in TLS and TCP, that no more will be written.  Reading goes on.  A pipe ends only when it is closed.
 *
 * Result:  0; -EAGAIN: TLS has to wait for room in the socket, and then it is called again; -EPIPE: the peer has gone; another
 *          negative errno when the stream is broken. */
int weir__stream_finish(struct weir__stream *stream);

/* Whether it is to be called again. */
static inline bool weir__stream_owes_end(const struct weir__stream *stream)
{
        return stream->tls && stream->tls->owes_end;
}

/* Closes the descriptor, which is not registered any more, after a close_notify in TLS. */
void weir__stream_close(struct weir__stream *stream);

/* The same with a reset in TCP and without close_notify: the peer does not take an unfinished answer for a whole one. */
void weir__stream_break(struct weir__stream *stream);

#endif
