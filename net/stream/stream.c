/* net/stream/stream.c: the life of a stream: its users, its events, its end.
 *
 * Threads: made, used and broken on any thread.  Its transport belongs to the owner of its poller, and so do events and tasks.
 * Locks:   the stream's, a leaf: the orders to the owner, and whether the descriptor is open, for those who ask for addresses.
 *
 * A stream is registered with its poller by the first of its tasks.  So it can be made before the runtime has started. */
#include "net/stream/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "factory/sync/waitable.h"
#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/socket/address.h"
#include "kernel/worker/deliver.h"

#define LINGER WEIR_SEC(30) /* at most, until the peer has all that was written */

/* What the work item of a stream is to do.  The first two have a reference, and count as work of the runtime.  The last one is
 * the transport's. */
enum order { ORDER_BREAK = 1, ORDER_CLOSE = 2, ORDER_TURN = 4 };

static struct weir_stream *
stream_of(struct weir__transport *transport)
{
        return (struct weir_stream *)transport;
}

void
weir__stream_drop(struct weir_stream *stream)
{
        if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__transport_done(&stream->transport);
        if (stream->limit)
                weir__free(stream->limit, sizeof(struct weir__stream_limit));
        weir__free(stream, ((const struct weir__stream_ops *)weir__transport_ops_of(&stream->transport))->size);
}

void
weir__stream_keep(struct weir_stream *stream)
{
        atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
}

/* -- the owner of the poller -- */

/* From now on nobody asks it for addresses.  Returns whether somebody could before. */
static bool
hide_descriptor(struct weir_stream *stream)
{
        weir__lock(&stream->lock);
        bool had = stream->has_descriptor;
        stream->has_descriptor = false;
        weir__unlock(&stream->lock);
        return had;
}

/* It was broken before any task has used it. */
static void
break_unopened(struct weir_stream *stream)
{
        if (!hide_descriptor(stream))
                return;
        weir__stream_break(&stream->transport.stream);
        stream->transport.phase = WEIR__TRANSPORT_CLOSED;
}

void
weir__stream_fail(struct weir_stream *stream, int failure)
{
        if (!stream->failure)
                stream->failure = (int16_t)failure;
        stream->transport.must_break |= !weir__output_is_empty(&stream->transport); /* half a message must not look whole */
        if (!stream->has_holder) {
                weir__stream_end_readers(stream, weir__stream_read_failure(stream));
                weir__stream_end_writers(stream, stream->failure);
        }
        if (!stream->is_open && failure == -ECONNABORTED)
                break_unopened(stream);
        if (weir__transport_is_closed(&stream->transport) || !stream->is_open)
                return;
        (void)hide_descriptor(stream);
        stream->transport.must_break |= failure == -ECONNABORTED;
        weir__transport_close(&stream->transport);
        if (stream->has_holder)
                stream->holder->ops->go_on(stream->holder);
}

/* Nobody uses it any more.  What was written goes out still. */
static void
close_it(struct weir_stream *stream)
{
        struct weir__transport *transport = &stream->transport;

        if (weir__transport_is_closed(transport))
                return;
        if (transport->stream.source.is_pipe || weir__transport_may_close(transport, false))
                weir__transport_close(transport);
        else
                weir__transport_linger(transport, LINGER);
}

static void
carry_out(struct weir__work *work)
{
        struct weir_stream *stream = weir__container_of(work, struct weir_stream, transport.requeued);

        weir__lock(&stream->lock);
        unsigned orders = stream->orders;
        stream->orders = 0;
        weir__unlock(&stream->lock);
        if (orders & ORDER_BREAK)
                weir__stream_fail(stream, -ECONNABORTED);
        if (orders & ORDER_CLOSE)
                close_it(stream);
        if (orders & ORDER_TURN)
                weir__transport_take_turn(&stream->transport);
        if (!(orders & ~ORDER_TURN))
                return; /* the turn may have freed it */
        if (orders & ORDER_BREAK)
                weir_stream_unref(stream);
        weir__stream_drop(stream);
        weir__runtime_leave();
}

static const struct weir__work_ops order_ops = {.run = carry_out};

bool
weir__stream_order_turn(struct weir__transport *transport)
{
        struct weir_stream *stream = stream_of(transport);

        weir__lock(&stream->lock);
        bool is_first = !stream->orders;
        stream->orders |= ORDER_TURN;
        weir__unlock(&stream->lock);
        return is_first;
}

static void
go_on(struct weir_stream *stream)
{
        if (stream->has_holder) {
                stream->holder->ops->go_on(stream->holder);
                return;
        }
        weir__stream_flush(stream);
        weir__stream_serve_readers(stream);
}

void
weir__stream_readable(struct weir__transport *transport)
{
        struct weir_stream *stream = stream_of(transport);

        if (stream->has_holder)
                stream->holder->ops->go_on(stream->holder);
        else
                weir__stream_serve_readers(stream);
}

/* A holder writes when it goes on: `readable` follows. */
void
weir__stream_writable(struct weir__transport *transport)
{
        if (!stream_of(transport)->has_holder)
                weir__stream_flush(stream_of(transport));
}

/* A peer that has finished its side may still read. */
void
weir__stream_ended(struct weir__transport *transport)
{
        (void)transport;
}

/* The tasks find out why.  No other event follows, so reads go on until there is an end or an error, also behind a short one. */
void
weir__stream_hung_up(struct weir__transport *transport)
{
        transport->is_ready = transport->has_ended = true;
        go_on(stream_of(transport));
}

void
weir__stream_requeued(struct weir__transport *transport)
{
        go_on(stream_of(transport));
}

void
weir__stream_be_late(struct weir_stream *stream)
{
        stream->is_late = true;
        stream->holder->ops->go_on(stream->holder);
}

static void
time_is_up(struct weir__transport *transport)
{
        struct weir_stream *stream = stream_of(transport);

        if (stream->has_holder)
                weir__stream_be_late(stream);
        else
                weir__stream_fail(stream, -ETIMEDOUT);
}

void
weir__stream_shut_down(struct weir__transport *transport)
{
        struct weir_stream *stream = stream_of(transport);

        weir__lock(&stream->lock);
        transport->must_break |= stream->is_broken_by_shutdown;
        weir__unlock(&stream->lock);
        weir__stream_fail(stream, -ESHUTDOWN);
}

static void
closed(struct weir__transport *transport)
{
        (void)transport;
}

void
weir__stream_unused(struct weir__transport *transport)
{
        weir__stream_drop(stream_of(transport));
}

struct weir__limit *
weir__stream_limit(struct weir__transport *transport, bool should_make)
{
        struct weir_stream *stream = stream_of(transport);

        if (!stream->limit && should_make) {
                stream->limit = weir__limit_new(transport, sizeof(struct weir__stream_limit));
                weir__stream_went(stream);
        }
        return stream->limit;
}

void
weir__stream_wrapped(struct weir_stream *stream)
{
        const struct weir__stream_ops *ops = (const struct weir__stream_ops *)weir__transport_ops_of(&stream->transport);

        if (ops->wrapped)
                ops->wrapped(stream);
}

static const struct weir__stream_ops stream_ops = {
        .transport = WEIR__STREAM_TRANSPORT(closed, time_is_up),
        .size = sizeof(struct weir_stream),
};

int
weir__stream_open(struct weir_stream *stream)
{
        static struct weir__log_limit limit;
        int failed = weir__transport_open(&stream->transport);

        if (failed == -EPERM)
                weir__log_limited(&limit, WEIR_LOG_ERROR,
                                  "a stream of descriptor %d: it is a file that is always ready: expected a socket, pipe or "
                                  "terminal; the tasks of weir/file.h read files",
                                  stream->transport.stream.source.fd);
        if (failed) {
                stream->failure = (int16_t)failed;
                return failed;
        }
        weir__stream_keep(stream);
        stream->is_open = true;
        stream->transport.is_ready = true; /* perhaps something has come before */
        return 0;
}

int
weir__stream_try(struct weir_stream *stream)
{
        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        if (stream->has_holder)
                return -EBUSY;
        return stream->failure ? stream->failure : stream->is_open ? 0 : weir__stream_open(stream);
}

void
weir__stream_hold(struct weir_stream *stream, const struct weir__holder_ops *ops, struct weir__holder *holder)
{
        stream->has_holder = true;
        holder->ops = ops;
        stream->holder = holder;
}

static void
note_secured(struct weir_stream *stream)
{
        weir__tls_keep_peer(stream->transport.stream.tls);
        weir__lock(&stream->lock);
        stream->is_secured = true;
        weir__unlock(&stream->lock);
}

void
weir__stream_give_back(struct weir_stream *stream)
{
        stream->has_holder = stream->is_late = false;
        stream->readers = (struct weir__ring){NULL};
        stream->transport.is_ready = true; /* perhaps something has come already */
        if (stream->transport.stream.tls && stream->transport.stream.tls->is_shaken && !stream->is_secured)
                note_secured(stream);
        const struct weir__stream_ops *ops = (const struct weir__stream_ops *)weir__transport_ops_of(&stream->transport);
        if (ops->given_back)
                ops->given_back(stream);
}

int
weir__stream_ask_tls(struct weir_stream *stream, int (*ask)(const struct weir__tls *tls, void *out), void *out)
{
        weir__lock(&stream->lock);
        int result = !stream->has_descriptor ? -ENOTCONN
                     : !stream->is_secured   ? -ENODATA
                                             : ask(stream->transport.stream.tls, out);
        weir__unlock(&stream->lock);
        return result;
}

/* -- any thread -- */

struct weir_stream *
weir__stream_new_as(const struct weir__stream_ops *ops, int fd, unsigned poller)
{
        struct weir_stream *stream = weir__alloc(ops->size);

        if (!stream)
                return NULL;
        memset(stream, 0, ops->size);
        weir__transport_init(&stream->transport, &ops->transport, poller, fd);
        stream->transport.requeued.ops = &order_ops;
        stream->has_descriptor = true;
        weir__lock_init(&stream->lock, WEIR__RANK_LEAF);
        atomic_init(&stream->users, 1);
        atomic_init(&stream->references, 1);
        return stream;
}

struct weir_stream *
weir__stream_new(int fd, unsigned poller)
{
        return weir__stream_new_as(&stream_ops, fd, poller);
}

void
weir__stream_abandon(struct weir_stream *stream)
{
        weir__stream_become_plain(&stream->transport.stream);
        weir__stream_drop(stream);
}

static uint8_t
poller_of(const struct weir_stream *stream)
{
        return atomic_load_explicit(&stream->transport.poller, memory_order_relaxed);
}

/* Under the lock.  Gives it another poller if it was made before the start, or in an earlier runtime. */
static void
ensure_poller(struct weir_stream *stream)
{
        if (poller_of(stream) >= weir__pollers_count())
                atomic_store_explicit(&stream->transport.poller, (uint8_t)weir__worker_home_poller(), memory_order_relaxed);
}

void
weir__stream_start_task(struct weir_task *task, struct weir_stream *stream)
{
        if (__builtin_expect(poller_of(stream) >= weir__pollers_count(), 0)) {
                weir__lock(&stream->lock);
                ensure_poller(stream);
                weir__unlock(&stream->lock);
        }
        weir__task_set_poller(task, poller_of(stream));
        weir__io_start(task);
}

/* Returns false when the runtime ends, or has ended: its end closes the stream, by a reset if the order is to break it.  An order
 * to break is a user, because the last user closes a stream that is not open on the thread of that user. */
static bool
give_order(struct weir_stream *stream, enum order order)
{
        weir__lock(&stream->lock);
        bool is_out = stream->orders, is_first = !(stream->orders & ~ORDER_TURN), may = !is_first || weir__runtime_enter() == 0;
        if (may && order == ORDER_BREAK && !(stream->orders & ORDER_BREAK))
                (void)weir__stream_use(stream);
        if (may)
                stream->orders |= (uint8_t)order;
        else if (order == ORDER_BREAK)
                stream->is_broken_by_shutdown = true;
        if (may && is_first) {
                ensure_poller(stream);
                weir__stream_keep(stream);
        }
        weir__unlock(&stream->lock);
        if (may && !is_out)
                weir__deliver(weir__poller_at(poller_of(stream)), &stream->transport.requeued);
        return may;
}

struct weir_stream *
weir__stream_use(struct weir_stream *stream)
{
        if (stream)
                atomic_fetch_add_explicit(&stream->users, 1, memory_order_relaxed);
        return stream;
}

/* -- the public face -- */

static int
fault_of(int fd)
{
        struct stat status;

        if (weir__phase_is_forked())
                return ECHILD;
        if (fstat(fd, &status) < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
                weir__log_refusal("weir_stream_of: descriptor %d: expected an open one", fd);
                return EBADF;
        }
        if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
                return 0;
        weir__log_refusal("weir_stream_of: descriptor %d is a %s: expected a connected socket, pipe or terminal; the tasks of "
                          "weir/file.h read files",
                          fd, S_ISDIR(status.st_mode) ? "directory" : "regular file");
        return EPERM;
}

weir_stream *
weir_stream_of(int fd)
{
        int fault = fault_of(fd);
        struct weir_stream *stream = fault ? NULL : weir__stream_new(fd, weir__worker_home_poller());

        if (stream)
                weir__stream_adopt(&stream->transport.stream, fd);
        else
                errno = fault ? fault : ENOMEM;
        return stream;
}

weir_stream *
weir_stream_ref(weir_stream *stream)
{
        weir__memory_expect(stream);
        return weir__stream_use(stream);
}

/* No task is left that could open it, or use it. */
static void
leave(struct weir_stream *stream)
{
        if (!stream->is_open && !weir__transport_is_closed(&stream->transport) && !weir__phase_is_forked())
                weir__stream_close(&stream->transport.stream);
        else if (stream->is_open)
                (void)give_order(stream, ORDER_CLOSE);
        weir__stream_drop(stream);
}

void
weir_stream_unref(weir_stream *stream)
{
        if (!stream)
                return;
        weir__memory_expect(stream);
        uint32_t users = atomic_fetch_sub_explicit(&stream->users, 1, memory_order_acq_rel);
        if (users == 0)
                weir__panic("weir_stream_unref: no reference is left: it was called once too often");
        if (users == 1)
                leave(stream);
}

void
weir_stream_break(weir_stream *stream)
{
        if (!stream)
                return;
        weir__memory_expect(stream);
        if (weir__phase_is_up())
                (void)give_order(stream, ORDER_BREAK);
        else if (!weir__phase_is_forked() && !stream->is_open)
                weir__stream_fail(stream, -ECONNABORTED); /* no task of it can be on its way */
}

/* Writes the address that `name` gives: getpeername or getsockname. */
static int
write_address(struct weir_stream *stream, int name(int fd, struct sockaddr *address, socklen_t *size), char *out, size_t room)
{
        struct weir__socket_address address = {.size = sizeof address.storage};
        char text[WEIR__ADDRESS_TEXT];

        if (!stream)
                return -ENOMEM;
        weir__memory_expect(stream);
        weir__lock(&stream->lock);
        int failed = !stream->has_descriptor || name(stream->transport.stream.source.fd, &address.any, &address.size) < 0;
        weir__unlock(&stream->lock);
        if (failed)
                return -ENOTCONN;
        weir__address_print(&address, text, sizeof text);
        return snprintf(out, room, "%s", text);
}

static int
name_peer(int fd, struct sockaddr *address, socklen_t *size)
{
        return getpeername(fd, address, size);
}

static int
name_self(int fd, struct sockaddr *address, socklen_t *size)
{
        return getsockname(fd, address, size);
}

int
weir_stream_peer(weir_stream *stream, char *out, size_t room)
{
        return write_address(stream, name_peer, out, room);
}

int
weir_stream_local(weir_stream *stream, char *out, size_t room)
{
        return write_address(stream, name_self, out, room);
}

void
weir__stream_describe(struct weir_stream *stream, char *out, size_t room)
{
        if (write_address(stream, name_peer, out, room) < 0)
                snprintf(out, room, "descriptor %d", stream->transport.stream.source.fd);
}
