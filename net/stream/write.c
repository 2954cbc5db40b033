/* net/stream/write.c: tasks that write a stream, and end its writing.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the stream's poller.
 * Locks:   none.
 *
 * Writes lie in the order of their starts.  A small copy lies behind its task, in one block. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "net/stream/splice.h"
#include "net/stream/stream.h"

#define INLINE 1024 /* bytes that lie behind their task, at most */

enum kind { WRITE_BYTES, WRITE_FILE, WRITE_FINISH, WRITE_KINDS };

struct write {
        struct weir__io_task io; /* first */

        /* Constant. */
        struct weir_stream *stream; /* a use; NULL: the task is poisoned */
        union {
                char *memory;                /* to be freed; or NULL */
                struct weir__splice *splice; /* of what is written: `is_of_splice` */
        };
        uint64_t size;
        uint8_t kind; /* enum kind */
        bool is_of_splice;

        struct weir__writer writer; /* the owner's: in the output of the stream, while it waits */

        char own[];
};

static struct write *
write_of(struct weir__writer *writer)
{
        return weir__container_of(writer, struct write, writer);
}

static struct weir__writer *
first_writer(struct weir_stream *stream)
{
        return weir__writer_of(weir__list_first(&stream->transport.writers));
}

/* -- writing -- */

/* No half of a pipe can be shut down: its writing end is closed.  Nothing is queued behind an end. */
static void
end_pipe(struct weir_stream *stream)
{
        const struct weir__stream *own = &stream->transport.stream;

        if (own->source.is_pipe && (fcntl(own->source.fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
                weir__stream_fail(stream, -EPIPE);
}

void
weir__stream_written(struct weir__transport *transport, struct weir__writer *writer)
{
        struct weir_stream *stream = (struct weir_stream *)transport;
        struct write *write = write_of(writer);

        if (stream->has_holder) {
                stream->holder->ops->written(stream->holder, writer);
                return;
        }
        weir__stream_went(stream);
        if (write->kind == WRITE_FINISH)
                end_pipe(stream);
        weir__io_complete(&write->io, 0);
}

void
weir__stream_end_writers(struct weir_stream *stream, int status)
{
        for (struct weir__writer *writer; (writer = first_writer(stream));) {
                weir__link_remove(&writer->link);
                weir__io_complete(&write_of(writer)->io, status);
        }
}

void
weir__stream_flush(struct weir_stream *stream)
{
        const struct weir__stream_ops *ops = (const struct weir__stream_ops *)weir__transport_ops_of(&stream->transport);
        int result = stream->failure ? 1 : weir__output_flush(&stream->transport);

        if (result < 0) {
                stream->transport.is_ready = true; /* its event may be on its way: the peer may have said why it goes */
                if (!stream->has_holder)
                        weir__stream_serve_last_readers(stream, result);
                weir__stream_fail(stream, result);
        } else if (result == 0 && ops->waits) {
                ops->waits(stream);
        } else if (stream->limit) {
                ((struct weir__stream_limit *)stream->limit)->is_backlogged = false; /* what waited may have been taken back */
        }
}

/* -- the task -- */

static int
try(struct weir__io_task *io)
{
        struct write *write = (struct write *)io;
        struct weir_stream *stream = write->stream;
        int failed = weir__stream_try(stream);

        if (failed || stream->is_finished)
                return failed ? failed : -EPIPE;
        stream->is_finished = write->kind == WRITE_FINISH;
        bool is_first = weir__output_is_empty(&stream->transport);
        weir__output_append(&stream->transport, &write->writer);
        io->task.is_linked = true;
        if (is_first)
                weir__stream_flush(stream);
        return io->task.is_linked ? 0 : io->task.status;
}

static void
withdraw(struct weir__io_task *io)
{
        struct write *write = (struct write *)io;
        bool is_lost = weir__output_is_on_its_way(&write->stream->transport, &write->writer);

        weir__link_remove(&write->writer.link);
        write->stream->is_finished &= write->kind != WRITE_FINISH;
        if (is_lost)
                weir__stream_fail(write->stream, -ECONNABORTED);
        else
                weir__stream_flush(write->stream);
}

static void
settle(struct weir__io_task *io, int verdict)
{
        struct write *write = (struct write *)io;

        (void)verdict;
        atomic_fetch_sub_explicit(&write->stream->unsent, (size_t)write->size, memory_order_relaxed);
        if (write->is_of_splice) {
                write->splice->unwritten = write->writer.left;
                weir__splice_learn(write->splice, &write->stream->transport);
        }
}

static void
start(struct weir_task *task)
{
        struct write *write = (struct write *)task;

        atomic_fetch_add_explicit(&write->stream->unsent, (size_t)write->size, memory_order_relaxed);
        weir__stream_start_task(task, write->stream);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct write *write = (struct write *)task;

        (void)is_discarded;
        if (!write->is_of_splice)
                free(write->memory);
        weir_stream_unref(write->stream);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct write *write = (const struct write *)task;
        char peer[WEIR__ADDRESS_TEXT];

        weir__stream_describe(write->stream, peer, sizeof peer);
        if (write->kind == WRITE_FINISH)
                snprintf(out, room, "the end of the writing to %s", peer);
        else
                snprintf(out, room, "%s to take %llu bytes", peer, (unsigned long long)write->size);
}

static const struct weir__io_ops write_ops[WRITE_KINDS] = {
        [WRITE_BYTES] = {.task = WEIR__IO_TASK_OPS("a write of a stream", start, release, describe),
                         .try = try,
                         .withdraw = withdraw,
                         .settle = settle},
        [WRITE_FILE] = {.task = WEIR__IO_TASK_OPS("a write of a file to a stream", start, release, describe),
                        .try = try,
                        .withdraw = withdraw,
                        .settle = settle},
        [WRITE_FINISH] = {.task = WEIR__IO_TASK_OPS("an end of writing", start, release, describe),
                          .try = try,
                          .withdraw = withdraw,
                          .settle = settle},
};

/* -- the public face -- */

/* With room for `extra` bytes behind it. */
static struct write *
new_write(weir_stream *stream, enum kind kind, size_t extra, int fault, weir_task_fn *done, void *context)
{
        struct write *write = weir__alloc(sizeof *write + extra);

        if (!write)
                return NULL;
        weir__task_init(&write->io.task, &write_ops[kind].task, sizeof *write + extra, done, context);
        memset(&write->io + 1, 0, sizeof *write - sizeof write->io);
        write->stream = weir__stream_use(stream);
        write->kind = kind;
        if (!stream || fault)
                weir__task_poison(&write->io.task, stream ? fault : -ENOMEM);
        return write;
}

static weir_task *
set_bytes(struct write *write, const void *data, size_t size)
{
        write->writer.data = (char *)data;
        write->writer.left = write->size = size;
        return &write->io.task;
}

/* Room for a copy of so many bytes, in *room.  NULL when out of memory. */
static struct write *
new_copy(weir_stream *stream, size_t size, int fault, char **room, weir_task_fn *done, void *context)
{
        struct write *write = new_write(stream, WRITE_BYTES, size <= INLINE ? size : 0, fault, done, context);

        if (!write || size <= INLINE) {
                *room = write ? write->own : NULL;
                return write;
        }
        *room = write->memory = malloc(size);
        if (write->memory)
                return write;
        weir_task_dismiss(&write->io.task);
        return NULL;
}

weir_task *
weir_stream_write_new(weir_stream *stream, const void *data, size_t size, weir_task_fn *done, void *context)
{
        int fault = data || !size ? 0
                                  : weir__log_refusal("weir_stream_write_new: NULL for %zu bytes: expected their address", size);
        char *room;
        struct write *write = new_copy(stream, fault ? 0 : size, fault, &room, done, context);

        if (!write)
                return NULL;
        if (!fault && size)
                memcpy(room, data, size);
        return set_bytes(write, room, fault ? 0 : size);
}

/* The bytes of all pieces; *fault if one of them is wrong. */
static size_t
size_of(const struct iovec *pieces, size_t count, int *fault)
{
        size_t size = 0;

        *fault = pieces || !count ? 0 : weir__log_refusal("weir_stream_write_pieces_new: NULL for %zu pieces", count);
        for (size_t i = 0; i < count && !*fault; i++) {
                if (!pieces[i].iov_base && pieces[i].iov_len)
                        *fault = weir__log_refusal("weir_stream_write_pieces_new: piece %zu is NULL: expected its address", i);
                else if (pieces[i].iov_len > SIZE_MAX - size)
                        *fault = weir__log_refusal("weir_stream_write_pieces_new: the pieces are larger than all memory");
                else
                        size += pieces[i].iov_len;
        }
        return *fault ? 0 : size;
}

weir_task *
weir_stream_write_pieces_new(weir_stream *stream, const struct iovec *pieces, size_t count, weir_task_fn *done, void *context)
{
        int fault;
        size_t size = size_of(pieces, count, &fault), at = 0;
        char *room;
        struct write *write = new_copy(stream, size, fault, &room, done, context);

        if (!write)
                return NULL;
        for (size_t i = 0; i < count && !fault; i++) {
                if (pieces[i].iov_len)
                        memcpy(room + at, pieces[i].iov_base, pieces[i].iov_len);
                at += pieces[i].iov_len;
        }
        return set_bytes(write, room, size);
}

weir_task *
weir_stream_write_lent_new(weir_stream *stream, const void *data, size_t size, weir_task_fn *done, void *context)
{
        int fault = data || !size
                            ? 0
                            : weir__log_refusal("weir_stream_write_lent_new: NULL for %zu bytes: expected their address", size);
        struct write *write = new_write(stream, WRITE_BYTES, 0, fault, done, context);

        return write ? set_bytes(write, data, fault ? 0 : size) : NULL;
}

weir_task *
weir_stream_write_file_new(weir_stream *stream, int file, uint64_t offset, uint64_t size, weir_task_fn *done, void *context)
{
        struct stat status;
        int fault = fstat(file, &status) == 0 && (size != UINT64_MAX || S_ISREG(status.st_mode)) /* a pipe has a size of 0 */
                            ? 0
                            : weir__log_refusal("weir_stream_write_file_new: descriptor %d: expected that of a file", file);
        struct write *write = new_write(stream, WRITE_FILE, 0, fault, done, context);

        if (!write)
                return NULL;
        if (!fault && size == UINT64_MAX)
                size = (uint64_t)status.st_size > offset ? (uint64_t)status.st_size - offset : 0;
        write->writer.kind = WEIR__WRITER_FILE;
        write->writer.file = file;
        write->writer.at = offset;
        write->writer.left = write->size = size;
        return &write->io.task;
}

weir_task *
weir__stream_write_of_splice_new(weir_stream *stream, struct weir__splice *splice, const char *data, size_t size)
{
        struct write *write = new_write(stream, WRITE_BYTES, 0, 0, NULL, NULL);

        splice->unwritten = size;
        if (!write)
                return NULL;
        write->is_of_splice = true;
        write->splice = splice;
        if (splice->size) {
                write->writer.kind = WEIR__WRITER_PIPE;
                write->writer.file = splice->out;
        }
        return set_bytes(write, data, size);
}

weir_task *
weir_stream_finish_new(weir_stream *stream, weir_task_fn *done, void *context)
{
        struct write *write = new_write(stream, WRITE_FINISH, 0, 0, done, context);

        if (!write)
                return NULL;
        write->writer.kind = WEIR__WRITER_END;
        return &write->io.task;
}

size_t
weir_stream_unsent(const weir_stream *stream)
{
        return stream ? atomic_load_explicit(&stream->unsent, memory_order_relaxed) : 0;
}
