/* kernel/observe/sink.h: where text goes that is made piece by piece: a descriptor, memory.
 *
 * What is written is gathered in a buffer, which goes out when it is full, and by weir__sink_flush.  The first error is kept,
 * and from then on nothing goes out.  A sink belongs to one thread at a time; as it may block, no lock is held where one is
 * written to that goes to a descriptor. */
#ifndef WEIR_KERNEL_SINK_H
#define WEIR_KERNEL_SINK_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR__SINK_SIZE 4096 /* of the buffer: the most that one weir__sink_printf may come to, with its NUL */

struct weir__sink;

/* Takes all of it.  Result: 0 or a negative errno. */
typedef int weir__sink_fn(struct weir__sink *sink, const char *bytes, size_t size);

struct weir__sink {
        weir__sink_fn *write;
        int error; /* the first one; 0: none */
        size_t used;
        char buffer[WEIR__SINK_SIZE];
};

/* One that goes wherever `write` takes it; for kinds of their own, which begin with it. */
void weir__sink_init(struct weir__sink *sink, weir__sink_fn *write);

void weir__sink_write(struct weir__sink *sink, const char *bytes, size_t size);
void weir__sink_text(struct weir__sink *sink, const char *text);

/* What comes to more than the buffer takes is left out: -EMSGSIZE. */
__attribute__((format(printf, 2, 3))) void weir__sink_printf(struct weir__sink *sink, const char *format, ...);

/* So much text of any bytes on one line of UTF-8: backslashes doubled, and \x1b and the like for what is no character, or steers
 * a terminal. */
void weir__sink_visibly(struct weir__sink *sink, const char *text, size_t size);

/* Has what is buffered go out.  Result: 0 or the first error. */
int weir__sink_flush(struct weir__sink *sink);

/* -- a descriptor -- */

struct weir__fd_sink {
        struct weir__sink sink; /* first */
        int fd;
};

/* Blocks as writes to `fd` do.  Where they do not, as O_NONBLOCK is set, it waits until there is room, and gives up with -EAGAIN
 * when there was none for WEIR__SINK_PATIENCE_MS.  Raises no SIGPIPE. */
#define WEIR__SINK_PATIENCE_MS 1000
void weir__fd_sink_init(struct weir__fd_sink *sink, int fd);

/* -- memory -- */

struct weir__memory_sink {
        struct weir__sink sink; /* first */
        char *bytes;            /* malloc's, `size` of them, and a NUL behind; NULL: nothing has gone out yet */
        size_t size, room;
};

/* Grows as it has to; -ENOMEM when it cannot, and what was written before stays.  _done gives the bytes back, unless the caller
 * has taken them and set `bytes` to NULL. */
void weir__memory_sink_init(struct weir__memory_sink *sink);
void weir__memory_sink_done(struct weir__memory_sink *sink);

#endif
