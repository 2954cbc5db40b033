/* kernel/stream.h: bytes in and out of a connection.
 *
 * All that a connection reads, writes and closes goes through here: this is where TLS comes between.  Owner only. */
#ifndef WEIR_KERNEL_STREAM_H
#define WEIR_KERNEL_STREAM_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "kernel/source.h"

/* A connected socket, registered with a poller or about to be. */
struct weir__stream {
        struct weir__source source; /* first; fd is -1 when closed */
        struct weir__tls *tls;      /* NULL: plain */
};

/* The bytes read; 0 at the end of the stream; -EAGAIN when there are none now; another negative errno when it is broken.  EINTR
 * does not come out. */
ssize_t weir__stream_read(struct weir__stream *stream, void *data, size_t size);

/* Positive when there is something to read, which stays where it is; else as weir__stream_read. */
ssize_t weir__stream_peek(struct weir__stream *stream);

/* The bytes written, perhaps fewer than there are; -EAGAIN when none can be now; another negative errno when it is
 * broken.  Raises no SIGPIPE. */
ssize_t weir__stream_write(struct weir__stream *stream, const struct iovec *pieces, int count);

/* How much of what was written the peer has not taken in yet, as far as is known. */
size_t weir__stream_untaken(struct weir__stream *stream);

/* Says that no more will be written; what comes in can still be read. */
void weir__stream_finish(struct weir__stream *stream);

/* Closes the descriptor, which is no longer registered. */
void weir__stream_close(struct weir__stream *stream);

#endif
