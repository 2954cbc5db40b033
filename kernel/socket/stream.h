/* kernel/socket/stream.h: bytes in and out of a connection.
 *
 * All that a connection reads, writes and closes goes through here: this is where TLS comes between.  Owner only. */
#ifndef WEIR_KERNEL_STREAM_H
#define WEIR_KERNEL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "kernel/loop/source.h"
#include "kernel/socket/tls.h"

/* A connected socket, registered with a poller or about to be. */
struct weir__stream {
        struct weir__source source; /* first; fd is -1 when closed */
        struct weir__tls *tls;      /* NULL: plain */
        bool is_last;               /* weir__stream_hold_back */
};

/* Has the TLS handshake, if there is one to be had, go on.  Reading and writing would do so, too.
 * Result:  0 once it is over; else as weir__tls_handshake. */
int weir__stream_handshake(struct weir__stream *stream);

/* The peer, it turned out, does not know that this is TLS: nor do we, from now on. */
void weir__stream_become_plain(struct weir__stream *stream);

/* The bytes read; 0 at the end of the stream; -EAGAIN when there are none now; another negative errno when it is broken.  EINTR
 * does not come out.  TLS that ends without being said to, and so may have been cut, is -ECONNABORTED. */
ssize_t weir__stream_read(struct weir__stream *stream, void *data, size_t size);

/* Positive when there is something to read, which stays where it is; else as weir__stream_read. */
ssize_t weir__stream_peek(struct weir__stream *stream);

/* After a read of `count` bytes, of `room` at most: whether there may be more.  If not, an event will say when there is (but for
 * the end of the stream, which may have been said already). */
static inline bool weir__stream_may_have_more(const struct weir__stream *stream, size_t count, size_t room)
{
        return stream->tls ? weir__tls_may_have_more(stream->tls) : count == room;
}

/* The bytes written, perhaps fewer than there are; -EAGAIN when none can be now; another negative errno when it is
 * broken.  Raises no SIGPIPE.  What was not written must be what the next write begins with, as far as it is held: TLS may have
 * encrypted it already. */
ssize_t weir__stream_write(struct weir__stream *stream, const struct iovec *pieces, int count);

/* So many bytes of what was not written are held: the next write has to begin with them.  The others may be replaced. */
static inline size_t weir__stream_held(const struct weir__stream *stream)
{
        return stream->tls ? weir__tls_held(stream->tls) : 0;
}

/* What is written from now on is followed at once by weir__stream_finish or weir__stream_close: it waits in the socket, as far as
 * it does not fill a segment, and goes out together with the end. */
void weir__stream_hold_back(struct weir__stream *stream);

/* As weir__stream_write, of at most `size` bytes of the file from `at` on; 0 where that ends.  Waits for the disk, if it has
 * to. */
ssize_t weir__stream_write_file(struct weir__stream *stream, int file, uint64_t at, size_t size);

/* How much of what was written the peer has not taken in yet, as far as is known. */
size_t weir__stream_untaken(struct weir__stream *stream);

/* How much of it the system has not even sent, as the peer has no room for it. */
size_t weir__stream_unsent(struct weir__stream *stream);

/* Has the system ask, every few seconds and without a byte of the stream, whether the peer is there still: a reset, or its silence for a
 * minute, breaks the stream. */
void weir__stream_keep_asking(struct weir__stream *stream);

/* Says, in TLS and TCP, that no more will be written; what comes in can still be read. */
void weir__stream_finish(struct weir__stream *stream);

/* Closes the descriptor, after a last word in TLS; which is no longer registered. */
void weir__stream_close(struct weir__stream *stream);

/* The same with a reset in TCP and without that word: so that the peer does not take what it has for all there is. */
void weir__stream_break(struct weir__stream *stream);

#endif
