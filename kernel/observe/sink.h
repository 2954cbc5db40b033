/* kernel/observe/sink.h: text that is made piece by piece and goes to a descriptor or into memory.
 *
 * A sink gathers text in a buffer.  The buffer goes out when it is full, and by weir__sink_flush.  The sink keeps its first
 * error, and nothing goes out after it.  A sink belongs to one thread at a time.  A sink of a descriptor may block, so no lock is
 * held. */
#ifndef WEIR_KERNEL_SINK_H
#define WEIR_KERNEL_SINK_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR__SINK_SIZE 4096 /* of the buffer; the longest text of one weir__sink_printf, with its NUL */

struct weir__sink;

/* Takes all bytes.  Result: 0 or a negative errno. */
typedef int weir__sink_fn(struct weir__sink *sink, const char *bytes, size_t size);

struct weir__sink {
        weir__sink_fn *write;
        int error; /* the first one; 0: none */
        size_t used;
        char buffer[WEIR__SINK_SIZE];
};

/* For sinks of another kind, which begin with it. */
void weir__sink_init(struct weir__sink *sink, weir__sink_fn *write);

void weir__sink_write(struct weir__sink *sink, const char *bytes, size_t size);
void weir__sink_text(struct weir__sink *sink, const char *text);

/* A text that is longer than the buffer is left out, with the error -EMSGSIZE. */
__attribute__((format(printf, 2, 3))) void weir__sink_printf(struct weir__sink *sink, const char *format, ...);

/* Writes any bytes on one line of UTF-8. Backslashes are doubled. A byte that is no character, or that controls a terminal,
 * becomes \x1b and the like. */
void weir__sink_visibly(struct weir__sink *sink, const char *text, size_t size);

/* Writes the buffer out.  Result: 0 or the first error. */
int weir__sink_flush(struct weir__sink *sink);

/* -- a descriptor -- */

struct weir__fd_sink {
        struct weir__sink sink; /* first */
        int fd;
};

/* Blocks as writes to `fd` do.  With O_NONBLOCK it waits for room, and fails with -EAGAIN when there is none for
 * WEIR__SINK_PATIENCE_MS.  Raises no SIGPIPE. */
#define WEIR__SINK_PATIENCE_MS 1000
void weir__fd_sink_init(struct weir__fd_sink *sink, int fd);

/* -- memory -- */

struct weir__memory_sink {
        struct weir__sink sink; /* first */
        char *bytes;            /* from malloc, `size` bytes and a NUL; NULL: nothing has gone out yet */
        size_t size, room;
};

/* Grows as needed. After -ENOMEM the bytes that were written before stay. _done frees the bytes, unless the caller has taken
 * them and set `bytes` to NULL. */
void weir__memory_sink_init(struct weir__memory_sink *sink);
void weir__memory_sink_done(struct weir__memory_sink *sink);

#endif
