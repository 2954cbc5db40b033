/* net/stream/fiber.c: streams as they are read and written in a fiber.
 *
 * Threads: a fiber, on its stack, or a thread of the program; the callbacks on any worker, while that waits.
 * Locks:   none. */
#include <errno.h>
#include <string.h>

#include "factory/fiber/fiber.h"
#include "kernel/observe/log.h"
#include "net/stream/stream.h"

/* -- connect -- */

static void
take_stream(weir_task *connect, void *context)
{
        weir_stream **stream = context;

        *stream = weir_connect_take_stream(connect);
}

int
weir_fiber_connect(const char *address, weir_stream **stream)
{
        *stream = NULL;
        return weir__await(weir_connect_new(address, take_stream, stream), WEIR__FIBER_AT);
}

/* -- read -- */

struct copy {
        void *memory;
        size_t size;
};

/* A read that has failed has no bytes that came, but at the end of the stream. */
static void
copy_data(weir_task *read, void *context)
{
        struct copy *copy = context;
        const void *data = weir_stream_data(read, &copy->size);

        if (copy->size)
                memcpy(copy->memory, data, copy->size);
}

static ssize_t
read_least(weir_stream *stream, size_t least, void *memory, size_t size, void *at)
{
        struct copy copy = {memory, 0};

        if (!memory)
                return weir__log_refusal("a read of a stream into NULL: expected memory");
        int status = weir__await(weir_stream_read_new(stream, least, size, copy_data, &copy), at);
        return status == 0 || status == -EPIPE ? (ssize_t)copy.size : status;
}

ssize_t
weir_fiber_read(weir_stream *stream, void *memory, size_t size)
{
        return read_least(stream, 1, memory, size, WEIR__FIBER_AT);
}

ssize_t
weir_fiber_read_full(weir_stream *stream, void *memory, size_t size)
{
        return read_least(stream, size, memory, size, WEIR__FIBER_AT);
}

/* -- write -- */

/* The bytes stay: an await returns when its task has ended. */
int
weir_fiber_write(weir_stream *stream, const void *data, size_t size)
{
        return weir__await(weir_stream_write_lent_new(stream, data, size, NULL, NULL), WEIR__FIBER_AT);
}
