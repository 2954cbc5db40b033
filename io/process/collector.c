/* io/process/collector.c: output of a program that is collected.
 *
 * Threads: the owner of the poller.
 * Locks:   none.
 *
 * The pipe is read when epoll reports it, edge-triggered, until it is empty.  A program that writes without an end takes turns
 * with the other work of the poller. */
#include "io/process/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIPE_EVENTS (EPOLLIN | EPOLLRDHUP | EPOLLET)
#define READS_MOST  4 /* of a pipe, until the poller does other work */
#define ROOM_FIRST  4096
#define PIPE_SIZE   (64 * 1024) /* if the system does not tell */

/* What a read has found. */
enum found { FOUND_NOTHING, FOUND_BYTES, FOUND_END };

void
weir__collector_init(struct weir__collector *collector, const struct weir__source_ops *ops)
{
        *collector = (struct weir__collector){.source = {.ops = ops, .fd = -1}};
}

static void
end(struct weir__collector *collector, struct weir__poller *poller)
{
        if (collector->is_watched)
                weir__source_withdraw(poller, &collector->source);
        collector->is_watched = false;
        close(collector->source.fd);
        collector->source.fd = -1;
}

int
weir__collector_begin(struct weir__collector *collector, struct weir__poller *poller, int fd, size_t limit)
{
        collector->source.fd = fd;
        collector->limit = limit;
        int failed = weir__source_add(poller, &collector->source, PIPE_EVENTS);
        collector->is_watched = !failed;
        if (failed)
                end(collector, poller);
        return failed;
}

/* Room for so many bytes and a NUL. */
static bool
make_room(struct weir__collector *collector, size_t size)
{
        size_t room = collector->room ? collector->room : ROOM_FIRST;

        if (size < collector->room)
                return true;
        while (room <= size)
                room *= 2;
        char *text = realloc(collector->text, room);
        if (!text)
                return false;
        collector->text = text;
        collector->room = room;
        return true;
}

static int
append(struct weir__collector *collector, const char *bytes, size_t size)
{
        size_t left = collector->limit - collector->size, taken = size < left ? size : left;

        if (!make_room(collector, collector->size + taken))
                return -ENOMEM;
        memcpy(collector->text + collector->size, bytes, taken);
        collector->size += taken;
        collector->text[collector->size] = '\0';
        return taken < size ? -EMSGSIZE : 0;
}

/* Reads once.  Returns one of enum found, or a negative errno. */
static int
read_once(struct weir__collector *collector, struct weir__poller *poller, size_t *got)
{
        ssize_t size;

        do
                size = read(collector->source.fd, poller->scratch, WEIR__SCRATCH_SIZE);
        while (size < 0 && errno == EINTR);
        if (size <= 0)
                return size == 0 ? FOUND_END : errno == EAGAIN ? FOUND_NOTHING : -errno;
        *got = (size_t)size;
        int failed = append(collector, poller->scratch, (size_t)size);
        return failed ? failed : FOUND_BYTES;
}

int
weir__collector_read(struct weir__collector *collector, struct weir__poller *poller)
{
        int found = FOUND_BYTES;
        size_t got;

        if (collector->source.fd < 0)
                return 0;
        for (unsigned i = 0; i < READS_MOST && found == FOUND_BYTES; i++)
                found = read_once(collector, poller, &got);
        if (found == FOUND_BYTES) {
                int failed = weir__source_rearm(poller, &collector->source, PIPE_EVENTS); /* it is reported again, in its turn */
                found = failed ? failed : FOUND_NOTHING;
        }
        if (found != FOUND_NOTHING)
                end(collector, poller);
        return found < 0 ? found : 0;
}

/* The pipe holds no more than its capacity of what the program has written.  Others may have the other end, and write on. */
int
weir__collector_finish(struct weir__collector *collector, struct weir__poller *poller)
{
        int found = FOUND_BYTES;

        if (collector->source.fd < 0)
                return 0;
        int capacity = fcntl(collector->source.fd, F_GETPIPE_SZ);
        for (size_t left = capacity > 0 ? (size_t)capacity : PIPE_SIZE, got = 0; left > 0 && found == FOUND_BYTES;
             left -= got < left ? got : left)
                found = read_once(collector, poller, &got);
        end(collector, poller);
        return found < 0 ? found : 0;
}

void
weir__collector_free(struct weir__collector *collector)
{
        free(collector->text);
}
