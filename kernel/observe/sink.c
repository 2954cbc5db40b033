/* kernel/observe/sink.c: text that is made piece by piece.
 *
 * Threads: a sink belongs to one thread at a time.
 * Locks:   none.  The caller holds none either while it writes to a descriptor. */
#include "kernel/observe/sink.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel/data/visible.h"

void
weir__sink_init(struct weir__sink *sink, weir__sink_fn *write)
{
        sink->write = write;
        sink->error = 0;
        sink->used = 0;
}

int
weir__sink_flush(struct weir__sink *sink)
{
        if (!sink->error && sink->used > 0)
                sink->error = sink->write(sink, sink->buffer, sink->used);
        sink->used = 0;
        return sink->error;
}

void
weir__sink_write(struct weir__sink *sink, const char *bytes, size_t size)
{
        while (size > 0 && !sink->error) {
                size_t room = sizeof sink->buffer - sink->used, part = size < room ? size : room;

                memcpy(sink->buffer + sink->used, bytes, part);
                sink->used += part;
                bytes += part;
                size -= part;
                if (sink->used == sizeof sink->buffer)
                        weir__sink_flush(sink);
        }
}

void
weir__sink_text(struct weir__sink *sink, const char *text)
{
        weir__sink_write(sink, text, strlen(text));
}

/* Prints into the rest of the buffer.  Returns false when that is too small. */
static bool
try_to_print(struct weir__sink *sink, const char *format, va_list arguments)
{
        size_t room = sizeof sink->buffer - sink->used;
        int size = vsnprintf(sink->buffer + sink->used, room, format, arguments);

        if (size < 0 || (size_t)size >= room)
                return false;
        sink->used += (size_t)size;
        return true;
}

void
weir__sink_printf(struct weir__sink *sink, const char *format, ...)
{
        va_list arguments, again;

        va_start(arguments, format);
        va_copy(again, arguments);
        if (!try_to_print(sink, format, arguments) && !weir__sink_flush(sink) && !try_to_print(sink, format, again))
                sink->error = -EMSGSIZE;
        va_end(again);
        va_end(arguments);
}

void
weir__sink_visibly(struct weir__sink *sink, const char *text, size_t size)
{
        char piece[WEIR__VISIBLE_PIECE];

        for (size_t at = 0; at < size;)
                weir__sink_write(sink, piece, weir__visible_piece(text, size, &at, piece));
}

/* -- a descriptor -- */

/* Returns whether there was room, or an error, in time. */
static bool
wait_for_room(int fd)
{
        struct pollfd wanted = {.fd = fd, .events = POLLOUT};
        int ready;

        while ((ready = poll(&wanted, 1, WEIR__SINK_PATIENCE_MS)) < 0 && errno == EINTR)
                continue;
        return ready > 0;
}

static int
write_all(int fd, const char *bytes, size_t size)
{
        while (size > 0) {
                ssize_t count = write(fd, bytes, size);

                if (count >= 0) {
                        bytes += count;
                        size -= (size_t)count;
                } else if (errno == EAGAIN) {
                        if (!wait_for_room(fd))
                                return -EAGAIN;
                } else if (errno != EINTR) {
                        return -errno;
                }
        }
        return 0;
}

/* A pipe or a socket without a reader raises SIGPIPE for the thread that writes. The signal is blocked meanwhile. If it comes,
 * it is taken away, unless it was pending before. */
static int
write_to_fd(struct weir__sink *sink, const char *bytes, size_t size)
{
        const struct timespec at_once = {0};
        sigset_t pipe, before, pending;
        int saved = errno;

        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        sigpending(&pending);
        pthread_sigmask(SIG_BLOCK, &pipe, &before);
        int failed = write_all(((struct weir__fd_sink *)sink)->fd, bytes, size);
        if (failed == -EPIPE && !sigismember(&pending, SIGPIPE))
                while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR)
                        continue;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        errno = saved;
        return failed;
}

void
weir__fd_sink_init(struct weir__fd_sink *sink, int fd)
{
        weir__sink_init(&sink->sink, write_to_fd);
        sink->fd = fd;
}

/* -- memory -- */

static int
write_to_memory(struct weir__sink *base, const char *bytes, size_t size)
{
        struct weir__memory_sink *sink = (struct weir__memory_sink *)base;
        size_t wanted = sink->size + size + 1;

        if (wanted > sink->room) {
                size_t room = wanted > 2 * sink->room ? wanted : 2 * sink->room;
                char *grown = realloc(sink->bytes, room);

                if (!grown)
                        return -ENOMEM;
                sink->bytes = grown;
                sink->room = room;
        }
        memcpy(sink->bytes + sink->size, bytes, size);
        sink->size += size;
        sink->bytes[sink->size] = '\0';
        return 0;
}

void
weir__memory_sink_init(struct weir__memory_sink *sink)
{
        weir__sink_init(&sink->sink, write_to_memory);
        sink->bytes = NULL;
        sink->size = sink->room = 0;
}

void
weir__memory_sink_done(struct weir__memory_sink *sink)
{
        free(sink->bytes);
        sink->bytes = NULL;
        sink->size = sink->room = 0;
}
