/* client/tunnel/tunnel.c: a task that asks a proxy for the way to a server.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the stream's poller.
 * Locks:   none.
 *
 * It holds its stream.  Of the stream no byte is read that the exchange has no room for: what follows belongs to the server. */
#include "client/tunnel/tunnel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

#include "client/tunnel/exchange.h"
#include "kernel/memory/memory.h"
#include "net/stream/stream.h"

struct tunnel {
        struct weir__io_task io; /* first */

        /* Constant. */
        struct weir_stream *stream; /* a use */
        const struct weir__proxy *proxy;
        char *target;
        weir_nsec limit;

        /* The owner's, then the callback's. */
        struct weir__writer writer;
        struct weir__proxy_exchange exchange;
        struct weir__holder holder;
};

static struct weir__transport *
transport_of(const struct tunnel *tunnel)
{
        return &tunnel->stream->transport;
}

/* -- the end -- */

static void
leave_stream(struct tunnel *tunnel)
{
        if (weir__link_is_used(&tunnel->writer.link))
                weir__link_remove(&tunnel->writer.link);
        (void)weir__transport_set_limit(transport_of(tunnel), 0, WEIR_FOREVER);
        weir__stream_give_back(tunnel->stream);
}

static void
finish(struct tunnel *tunnel, int status)
{
        leave_stream(tunnel);
        if (status)
                weir__stream_fail(tunnel->stream, -ECONNABORTED);
        weir__io_complete(&tunnel->io, status);
}

static int
be_late(struct tunnel *tunnel)
{
        return weir__proxy_exchange_fail(&tunnel->exchange, -ETIMEDOUT, "was too late with its answer for %s", tunnel->target);
}

static int
be_closed(struct tunnel *tunnel, int failure)
{
        bool is_end = failure == -ECONNRESET || failure == -ECONNABORTED;

        return weir__proxy_exchange_fail(&tunnel->exchange, failure, "has %s, when it was asked for %s",
                                         is_end ? "closed the connection" : weir_strerror(failure), tunnel->target);
}

/* -- the exchange.  Results: 0: the way is free; -EINPROGRESS; what has failed -- */

/* Puts out the next message. */
static int
say(struct tunnel *tunnel)
{
        struct weir__proxy_exchange *exchange = &tunnel->exchange;

        if (exchange->message_size) {
                tunnel->writer = (struct weir__writer){.data = exchange->message, .left = exchange->message_size};
                weir__output_append(transport_of(tunnel), &tunnel->writer);
                exchange->message_size = 0;
        }
        int result = weir__output_is_empty(transport_of(tunnel)) ? 1 : weir__output_flush(transport_of(tunnel));
        return result < 0 ? result : result ? 0 : -EINPROGRESS;
}

static int
listen_on(struct tunnel *tunnel)
{
        struct weir__proxy_exchange *exchange = &tunnel->exchange;

        while (!exchange->message_size) {
                if (!weir__transport_may_read(transport_of(tunnel)))
                        return -EINPROGRESS;
                ssize_t got = weir__input_read(transport_of(tunnel), exchange->answer + exchange->size,
                                               exchange->room - exchange->size);
                if (got == -EAGAIN)
                        return -EINPROGRESS;
                if (got <= 0)
                        return be_closed(tunnel, got ? (int)got : -ECONNRESET);
                int result = weir__proxy_exchange_took(exchange, (size_t)got);
                if (result)
                        return result < 0 ? result : 0;
        }
        return -EAGAIN; /* there is something to say */
}

static int
talk(struct tunnel *tunnel)
{
        int result;

        do {
                result = say(tunnel);
                if (!result)
                        result = listen_on(tunnel);
                else if (result == -EPIPE || result == -ECONNRESET)
                        result = be_closed(tunnel, -ECONNRESET);
        } while (result == -EAGAIN);
        return result;
}

static void
go_on(struct weir__holder *holder)
{
        struct tunnel *tunnel = weir__container_of(holder, struct tunnel, holder);
        int failure = tunnel->stream->failure;
        int result = failure ? failure : tunnel->stream->is_late ? be_late(tunnel) : talk(tunnel);

        if (result != -EINPROGRESS)
                finish(tunnel, result);
}

static void
written(struct weir__holder *holder, struct weir__writer *writer)
{
        (void)holder;
        (void)writer;
}

static const struct weir__holder_ops holder_ops = {.go_on = go_on, .written = written, .sets_limit = true};

/* -- the task -- */

static int
try(struct weir__io_task *io)
{
        struct tunnel *tunnel = (struct tunnel *)io;
        int failed = weir__stream_try(tunnel->stream);

        failed = failed ? failed : weir__proxy_exchange_begin(&tunnel->exchange, tunnel->proxy, tunnel->target);
        if (failed)
                return failed;
        weir__stream_hold(tunnel->stream, &holder_ops, &tunnel->holder);
        io->task.is_linked = true;
        if (weir__transport_set_limit(transport_of(tunnel), weir__clock_now(), tunnel->limit))
                go_on(&tunnel->holder);
        else
                finish(tunnel, -ENOMEM);
        return io->task.is_linked ? 0 : io->task.status;
}

/* Half an exchange cannot be taken back. */
static void
withdraw(struct weir__io_task *io)
{
        struct tunnel *tunnel = (struct tunnel *)io;

        leave_stream(tunnel);
        weir__stream_fail(tunnel->stream, -ECONNABORTED);
}

static void
start(struct weir_task *task)
{
        weir__stream_start_task(task, ((struct tunnel *)task)->stream);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct tunnel *tunnel = (struct tunnel *)task;

        (void)is_discarded;
        weir_stream_unref(tunnel->stream);
        weir__proxy_exchange_done(&tunnel->exchange);
        free(tunnel->target);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct tunnel *tunnel = (const struct tunnel *)task;

        snprintf(out, room, "the way to %s through %s", tunnel->target, tunnel->proxy->name);
}

static const struct weir__io_ops tunnel_ops = {
        .task = WEIR__IO_TASK_OPS("a tunnel", start, release, describe), .try = try, .withdraw = withdraw};

weir_task *
weir__tunnel_new(weir_stream *stream, const struct weir__proxy *proxy, const char *target, weir_nsec limit, weir_task_fn *done,
                 void *context)
{
        struct tunnel *tunnel = weir__alloc(sizeof *tunnel);

        if (!tunnel)
                return NULL;
        memset(tunnel, 0, sizeof *tunnel);
        weir__task_init(&tunnel->io.task, &tunnel_ops.task, sizeof *tunnel, done, context);
        tunnel->stream = weir__stream_use(stream);
        tunnel->proxy = proxy;
        tunnel->limit = limit;
        tunnel->target = strdup(target);
        if (tunnel->target)
                return &tunnel->io.task;
        weir_task_dismiss(&tunnel->io.task);
        return NULL;
}

const char *
weir__tunnel_problem(const weir_task *task)
{
        const char *problem = ((const struct tunnel *)task)->exchange.problem;

        return task->status && problem[0] ? problem : NULL;
}
