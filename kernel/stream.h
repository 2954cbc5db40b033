/* kernel/stream.h: bytes in and out of a connection.
 *
 * All that a connection reads, writes and closes goes through here: this is where TLS comes between.  Owner only. */
#ifndef WEIR_KERNEL_STREAM_H
#define WEIR_KERNEL_STREAM_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The bytes read; 0 at the end of the stream; -EAGAIN when there are none now; another negative errno when it is broken.  EINTR
 * does not come out. */
ssize_t weir__stream_read(int fd, void *data, size_t size);

/* Positive when there is something to read, which stays where it is; else as weir__stream_read. */
ssize_t weir__stream_peek(int fd);

/* The bytes written, perhaps fewer than there are; -EAGAIN when none can be now; another negative errno when it is
 * broken.  Raises no SIGPIPE. */
ssize_t weir__stream_write(int fd, const struct iovec *pieces, int count);

/* How much of what was written the peer has not taken in yet, as far as is known. */
size_t weir__stream_untaken(int fd);

/* Says that no more will be written; what comes in can still be read. */
void weir__stream_finish(int fd);
void weir__stream_close(int fd);

#endif
