/* net/stream/read.c: tasks that read a stream.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the stream's poller.
 * Locks:   none.
 *
 * Bytes are read only for the first task that waits.  They come into the poller's scratch buffer.  If they are enough, the task
 * gets a copy.  If not, they are kept by the transport, until more have come.  What is left over is kept for the next task. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/task/series.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "net/stream/splice.h"
#include "net/stream/stream.h"

#define DELIMITER_MAX 255                /* bytes */
#define AHEAD         ((size_t)8 * 1024) /* bytes at most that are read at once for a delimiter */

struct read {
        struct weir__io_task io; /* first.  Its own_flag: it was given bytes, or the end.  Its own_size: of the delimiter */

        union {
                struct weir__link link; /* in the stream's readers, while it waits */
                struct {
                        char *data;      /* given: or NULL */
                        uint32_t number; /* the same: `reads` of the stream then */
                };
        };
        struct weir_stream *stream; /* constant: a use; NULL: the task is poisoned */
        union {
                uint32_t least;    /* constant; 0 without a delimiter: for a splice, whose address lies there */
                uint32_t searched; /* with a delimiter: it does not begin before this one of the bytes that are kept */
        };
        union {
                uint32_t most; /* constant, until it is given */
                uint32_t size; /* given: of `data` */
        };

        unsigned char delimiter[]; /* 0 bytes: it reads until `least` are there */
};

static struct read *
first_reader(struct weir_stream *stream)
{
        struct weir__link *link = weir__ring_first(&stream->readers);

        return link ? weir__container_of(link, struct read, link) : NULL;
}

static struct weir__splice *
splice_of(const struct read *read)
{
        struct weir__splice *splice = NULL;

        if (!read->io.task.own_size && !read->least)
                memcpy(&splice, read->delimiter, sizeof splice);
        return splice;
}

/* -- giving bytes -- */

/* Gives the task a copy of these bytes.  Returns 0 or -ENOMEM. */
static int
give(struct read *read, const char *bytes, size_t size)
{
        char *data = size ? malloc(size + 1) : NULL;

        if (weir__link_is_used(&read->link))
                weir__ring_remove(&read->stream->readers, &read->link);
        read->number = ++read->stream->reads;
        read->io.task.own_flag = true;
        read->data = data;
        read->size = data ? (uint32_t)size : 0;
        if (!data)
                return size ? -ENOMEM : 0;
        memcpy(data, bytes, size);
        data[size] = '\0';
        return 0;
}

/* Gives the task the first bytes of those that are kept. */
static int
give_kept(struct read *read, size_t size)
{
        struct weir__transport *transport = &read->stream->transport;
        int failed = give(read, transport->input.data, size);

        if (!failed)
                (void)weir__input_keep(transport, transport->input.data + size, transport->input.size - size);
        return failed;
}

/* The size up to and with the delimiter; 0: it has not come.  A peer may send it byte by byte, so none is looked at again. */
static size_t
find_end(struct read *read, const char *bytes, size_t size)
{
        size_t delimiter = read->io.task.own_size, limit = size < read->most ? size : read->most;

        if (limit < delimiter)
                return 0;
        const char *found = memmem(bytes + read->searched, limit - read->searched, read->delimiter, delimiter);
        read->searched = (uint32_t)(limit - delimiter + 1);
        return found ? (size_t)(found - bytes) + delimiter : 0;
}

/* How many of these bytes the task takes now; 0: more must come. */
static size_t
takes(struct read *read, const char *bytes, size_t size)
{
        if (read->io.task.own_size)
                return find_end(read, bytes, size);
        return size < read->least ? 0 : size < read->most ? size : read->most;
}

/* -- reading -- */

/* No more bytes come: the task gets what there is. */
static int
give_last(struct read *read, int status)
{
        size_t kept = read->stream->transport.input.size;
        int failed = give_kept(read, kept < read->most ? kept : read->most);

        return failed ? failed : status;
}

/* Out of memory for bytes that were read: the stream has a gap. */
static int
lose(struct weir_stream *stream)
{
        stream->failure = -ENOMEM;
        return -ENOMEM;
}

/* Takes in bytes that were just read: gives the task its part, and keeps the rest.  Returns as progress. */
static int
take_in(struct read *read, char *bytes, size_t size)
{
        struct weir__transport *transport = &read->stream->transport;

        if (transport->input.size) {
                if (!weir__input_append(transport, bytes, size))
                        return lose(read->stream);
                size_t count = takes(read, transport->input.data, transport->input.size);
                return count ? give_kept(read, count) : -EAGAIN;
        }
        size_t count = takes(read, bytes, size);
        int failed = count ? give(read, bytes, count) : 0;
        if (!failed && !weir__input_keep(transport, bytes + count, size - count))
                failed = -ENOMEM;
        return failed ? lose(read->stream) : count ? 0 : -EAGAIN;
}

/* Moves input into the pipe of the read's splice.  Returns whether that has ended the read, or the stream.  If not, the bytes are
 * to be read: also when there are none, because a splice does not go past urgent data. */
static bool
move_in(struct read *read, struct weir__splice *splice)
{
        struct weir_stream *stream = read->stream;
        ssize_t got = weir__splice_fill(splice, &stream->transport);

        if (got > 0) {
                weir__stream_came(stream, (size_t)got);
                (void)give(read, NULL, 0);
        } else if (got < 0 && got != -EAGAIN && got != -EINVAL) {
                stream->failure = (int16_t)got;
        }
        return got > 0 || stream->failure;
}

/* How many bytes to read at once: without a delimiter no more than the task takes.  Else bytes behind the delimiter are moved for
 * each task that takes a part of them, so they must be few. */
static size_t
room_for(const struct read *read)
{
        size_t left = read->most - read->stream->transport.input.size;

        return read->io.task.own_size ? AHEAD : left > WEIR__SCRATCH_SIZE ? WEIR__SCRATCH_SIZE : left;
}

/* Reads for the first task.  `lost`: 0, or the failure that an end of the input stands for.  Returns -EAGAIN while the task
 * has to wait; else its status. */
static int
progress(struct weir_stream *stream, struct read *read, int lost)
{
        struct weir__transport *transport = &stream->transport;
        size_t count = takes(read, transport->input.data, transport->input.size);
        char *scratch = weir__transport_poller(transport)->scratch;
        struct weir__splice *splice = splice_of(read);

        if (count)
                return give_kept(read, count);
        while (!stream->has_end && !stream->failure && weir__transport_may_read(transport)) {
                if (read->io.task.own_size && transport->input.size >= read->most)
                        return -EMSGSIZE;
                if (splice && !transport->input.size && move_in(read, splice)) {
                        if (!stream->failure)
                                return 0;
                        break;
                }
                ssize_t got = weir__input_read(transport, scratch, room_for(read));
                int status = got > 0 ? take_in(read, scratch, (size_t)got) : -EAGAIN;
                if (got > 0)
                        weir__stream_came(stream, (size_t)got);
                if (status != -EAGAIN)
                        return status;
                got = got ? got : lost;
                stream->has_end = got == 0 || (got == -EIO && transport->stream.source.is_pipe);
                if (got < 0 && got != -EAGAIN && !stream->has_end)
                        stream->failure = (int16_t)got;
        }
        if (read->io.task.own_size && transport->input.size >= read->most && !stream->failure)
                return -EMSGSIZE; /* at the end of the input as well: -EPIPE follows when all is read */
        if (stream->has_end || stream->failure)
                return give_last(read, stream->failure ? weir__stream_read_failure(stream) : -EPIPE);
        return -EAGAIN;
}

void
weir__stream_end_readers(struct weir_stream *stream, int status)
{
        for (struct read *read; (read = first_reader(stream));) {
                weir__ring_remove(&stream->readers, &read->link);
                weir__io_complete(&read->io, status);
        }
}

static void
serve_readers(struct weir_stream *stream, int lost)
{
        struct read *read;
        int status;

        while ((read = first_reader(stream)) && (status = progress(stream, read, lost)) != -EAGAIN) {
                if (!read->io.task.own_flag)
                        weir__ring_remove(&stream->readers, &read->link);
                weir__io_complete(&read->io, status);
        }
        if (stream->failure)
                weir__stream_fail(stream, stream->failure);
}

void
weir__stream_serve_readers(struct weir_stream *stream)
{
        serve_readers(stream, 0);
}

/* The system tells an error once.  After a reset that a write has found, a read finds an end.  A write finds -EPIPE when the
 * peer's end has come before. */
void
weir__stream_serve_last_readers(struct weir_stream *stream, int failure)
{
        struct weir__transport *transport = &stream->transport;
        char *scratch = weir__transport_poller(transport)->scratch;
        ssize_t got;

        serve_readers(stream, failure == -EPIPE ? 0 : failure);
        while (!stream->failure && !stream->has_end && transport->input.size < WEIR__SCRATCH_SIZE &&
               (got = weir__input_read(transport, scratch, WEIR__SCRATCH_SIZE - transport->input.size)) > 0) {
                weir__stream_came(stream, (size_t)got);
                if (!weir__input_append(transport, scratch, (size_t)got))
                        return;
        }
}

/* Bytes that the peer has sent before it went are for the tasks that follow. */
static bool
may_have_last_words(const struct weir_stream *stream)
{
        return stream->failure == -EPIPE || stream->failure == -ECONNRESET;
}

/* -- the task -- */

/* Whether a read may get further now.  Most reads begin while there is nothing. */
static bool
has_something(const struct weir_stream *stream)
{
        return stream->transport.is_ready || stream->transport.input.size || stream->has_end || stream->failure;
}

static int
try(struct weir__io_task *io)
{
        struct read *read = (struct read *)io;
        struct weir_stream *stream = read->stream;
        int failed = weir__stream_try(stream);

        if (failed && failed == stream->failure && may_have_last_words(stream) && stream->transport.input.size)
                return progress(stream, read, 0);
        if (failed)
                return failed == -EPIPE ? weir__stream_read_failure(stream) : failed;
        bool is_first = weir__ring_is_empty(&stream->readers);
        int status = is_first && has_something(stream) ? progress(stream, read, 0) : -EAGAIN;
        if (status == -EAGAIN) {
                weir__ring_append(&stream->readers, &read->link);
                io->task.is_linked = true;
        }
        if (stream->failure)
                weir__stream_fail(stream, stream->failure);
        return status;
}

/* What came for it stays for the next one. */
static void
withdraw(struct weir__io_task *io)
{
        struct read *read = (struct read *)io;
        bool was_first = first_reader(read->stream) == read;

        weir__ring_remove(&read->stream->readers, &read->link);
        if (was_first)
                weir__stream_serve_readers(read->stream);
}

/* The callback will see that the series has ended early, so the bytes go back, those of a peer that has gone as well.  Behind
 * another read they cannot: the peer's bytes would be out of order. */
static void
give_back(struct read *read)
{
        struct weir_stream *stream = read->stream;
        struct weir__transport *transport = &stream->transport;
        bool is_closed = weir__transport_is_closed(transport);
        struct read *first = stream->has_holder || is_closed ? NULL : first_reader(stream);

        if (is_closed && !may_have_last_words(stream))
                return;
        if (first && first->io.task.own_size)
                first->searched = 0; /* it was behind these bytes */
        if (read->number == stream->reads && weir__input_prepend(transport, read->data, read->size)) {
                read->size = 0;
                read->data[0] = '\0';
                if (!stream->has_holder && !is_closed)
                        weir__stream_serve_readers(stream); /* the next one may have waited for them */
        } else if (!is_closed) {
                weir__stream_fail(stream, -ECONNABORTED);
        }
}

static void
settle(struct weir__io_task *io, int verdict)
{
        struct read *read = (struct read *)io;
        struct weir__splice *splice = splice_of(read);

        if (!read->io.task.own_flag || !verdict)
                return;
        if (splice && splice->size && !(read->data = weir__splice_take_out(splice, &read->size)))
                weir__stream_fail(read->stream, -ECONNABORTED);
        if (read->size)
                give_back(read);
}

static void
start(struct weir_task *task)
{
        weir__stream_start_task(task, ((struct read *)task)->stream);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct read *read = (struct read *)task;

        (void)is_discarded;
        if (read->io.task.own_flag)
                free(read->data);
        weir_stream_unref(read->stream);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct read *read = (const struct read *)task;
        char peer[WEIR__ADDRESS_TEXT];

        weir__stream_describe(read->stream, peer, sizeof peer);
        if (read->io.task.own_size)
                snprintf(out, room, "a delimiter from %s", peer);
        else
                snprintf(out, room, "%" PRIu32 " byte%s from %s", read->least ? read->least : 1, read->least > 1 ? "s" : "",
                         peer);
}

static const struct weir__io_ops read_ops = {.task = WEIR__IO_TASK_OPS("a read of a stream", start, release, describe),
                                             .try = try,
                                             .withdraw = withdraw,
                                             .settle = settle};

/* -- the public face -- */

static weir_task *
new_read(weir_stream *stream, size_t least, size_t most, const void *delimiter, size_t size, int fault, weir_task_fn *done,
         void *context)
{
        size_t whole = offsetof(struct read, delimiter) + (fault ? 0 : size);
        struct read *read = weir__alloc(whole);

        if (!read)
                return NULL;
        weir__task_init(&read->io.task, &read_ops.task, whole, done, context);
        read->link = (struct weir__link){NULL, NULL};
        read->stream = weir__stream_use(stream);
        read->least = (uint32_t)(fault ? 1 : least);
        read->most = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
        if (!fault && size) {
                memcpy(read->delimiter, delimiter, size);
                read->io.task.own_size = (uint8_t)size;
        }
        if (!stream || fault)
                weir__task_poison(&read->io.task, stream ? fault : -ENOMEM);
        return &read->io.task;
}

weir_task *
weir_stream_read_new(weir_stream *stream, size_t least, size_t most, weir_task_fn *done, void *context)
{
        int fault = least && least <= most && least < UINT32_MAX
                            ? 0
                            : weir__log_refusal("weir_stream_read_new: at least %zu and at most %zu bytes: expected at least 1, "
                                                "and no more than the most or 4 GiB",
                                                least, most);

        return new_read(stream, least, most, NULL, 0, fault, done, context);
}

weir_task *
weir_stream_read_until_new(weir_stream *stream, const void *delimiter, size_t size, size_t most, weir_task_fn *done,
                           void *context)
{
        int fault = delimiter && size && size <= DELIMITER_MAX && size <= most
                            ? 0
                            : weir__log_refusal(
                                      "weir_stream_read_until_new: a delimiter of %zu bytes within %zu: expected one of 1 "
                                      "to %d bytes, and no larger than the most",
                                      delimiter ? size : 0, most, DELIMITER_MAX);

        return new_read(stream, 0, most, delimiter, size, fault, done, context);
}

weir_task *
weir__stream_read_for_splice_new(weir_stream *stream, struct weir__splice *splice, weir_task_fn *done, void *context)
{
        struct weir_task *task = new_read(stream, 0, WEIR__SCRATCH_SIZE, &splice, sizeof splice, 0, done, context);

        if (task)
                ((struct read *)task)->io.task.own_size = 0;
        return task;
}

const void *
weir_stream_data(const weir_task *task, size_t *size)
{
        const struct read *read = (const struct read *)task;
        bool is_read = task && task->work.ops == &read_ops.task.work;

        if (size)
                *size = is_read && read->io.task.own_flag ? read->size : 0;
        return !is_read ? NULL : read->io.task.own_flag && read->data ? read->data : "";
}

char *
weir__stream_take_data(struct weir_task *task, size_t *size)
{
        struct read *read = (struct read *)task;
        char *data = read->data;

        *size = read->size;
        read->data = NULL;
        read->size = 0;
        return data;
}
