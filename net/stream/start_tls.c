/* net/stream/start_tls.c: tasks that start TLS on a stream.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the stream's poller.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "net/stream/secure.h"
#include "net/stream/stream.h"

struct start_tls {
        struct weir__io_task io; /* first */

        /* Constant. */
        struct weir_stream *stream; /* a use; NULL: the task is poisoned */
        struct weir_tls *tls;       /* a reference */
        char *name;                 /* or NULL */

        struct weir__holder holder;
};

static void
go_on(struct weir__holder *holder)
{
        struct start_tls *self = weir__container_of(holder, struct start_tls, holder);
        struct weir_stream *stream = self->stream;
        int result = stream->failure   ? stream->failure
                     : stream->is_late ? -ETIMEDOUT
                                       : weir__stream_handshake(&stream->transport.stream);

        if (result == -EAGAIN)
                return;
        weir__stream_give_back(stream);
        if (result)
                weir__stream_fail(stream, result);
        weir__io_complete(&self->io, result);
}

static const struct weir__holder_ops holder_ops = {.go_on = go_on};

/* Why it cannot begin now; 0: nothing. */
static int
obstacle(const struct weir_stream *stream)
{
        if (stream->transport.stream.source.is_pipe)
                return -ENOTSUP;
        if (stream->transport.stream.tls)
                return -EALREADY;
        if (!weir__ring_is_empty(&stream->readers) || !weir__output_is_empty(&stream->transport))
                return -EBUSY;
        return stream->transport.input.size ? -EBADMSG : 0;
}

static int
try(struct weir__io_task *io)
{
        struct start_tls *self = (struct start_tls *)io;
        struct weir_stream *stream = self->stream;
        int failed = weir__stream_try(stream);

        failed = failed ? failed : obstacle(stream);
        failed = failed ? failed : weir__stream_secure(stream, self->tls, self->name, NULL);
        if (failed)
                return failed;
        stream->reads++; /* plain bytes that a cancelled read would give back now are no part of the protected stream */
        weir__stream_hold(stream, &holder_ops, &self->holder);
        io->task.is_linked = true;
        go_on(&self->holder);
        return io->task.is_linked ? 0 : io->task.status;
}

/* Half a handshake cannot be taken back. */
static void
withdraw(struct weir__io_task *io)
{
        struct weir_stream *stream = ((struct start_tls *)io)->stream;

        weir__stream_give_back(stream);
        weir__stream_fail(stream, -ECONNABORTED);
}

static void
start(struct weir_task *task)
{
        weir__stream_start_task(task, ((struct start_tls *)task)->stream);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct start_tls *self = (struct start_tls *)task;

        (void)is_discarded;
        weir_stream_unref(self->stream);
        weir_tls_unref(self->tls);
        free(self->name);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        char peer[WEIR__ADDRESS_TEXT];

        weir__stream_describe(((const struct start_tls *)task)->stream, peer, sizeof peer);
        snprintf(out, room, "a handshake with %s", peer);
}

static const struct weir__io_ops start_tls_ops = {
        .task = WEIR__IO_TASK_OPS("a start of TLS", start, release, describe), .try = try, .withdraw = withdraw};

weir_task *
weir_stream_start_tls_new(weir_stream *stream, weir_tls *tls, const char *name, weir_task_fn *done, void *context)
{
        struct start_tls *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        *self = (struct start_tls){.stream = weir__stream_use(stream), .tls = weir_tls_ref(tls)};
        weir__task_init(&self->io.task, &start_tls_ops.task, sizeof *self, done, context);
        if (!stream || !tls)
                weir__task_poison(&self->io.task, -ENOMEM);
        else if (tls->is_client && !name)
                weir__task_poison(&self->io.task, weir__log_refusal("weir_stream_start_tls_new: no name: expected that which the "
                                                                    "peer's certificate must have"));
        self->name = name ? strdup(name) : NULL;
        if (!name || self->name)
                return &self->io.task;
        weir_task_dismiss(&self->io.task);
        return NULL;
}
