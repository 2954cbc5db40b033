/* net/serve/served.c: the connections of a server of streams.
 *
 * Threads: the owner of the poller; the end of a series on any thread.
 * Locks:   the stream's, a leaf: whether there is a series.
 *
 * A connection is one block of memory.  It has two holds: its descriptor and its series.  Without both it has left its server,
 * and may live on as a stream of the program.
 * No list has the connections.  Those with a descriptor are among the sources of their poller, those with a series among the
 * roots.  So a stop goes through all sources of the poller, and through its roots if it cuts.
 *
 * The handler is the last thing that its work item does: the worker may have lost the poller by then. */
#include "net/serve/stream_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/task/live.h"
#include "factory/task/series.h"
#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"
#include "net/listen/admission.h"
#include "net/listen/listener.h"
#include "net/serve/serve.h"

#define LINGER_AT_STOP WEIR_SEC(5)

struct weir__served {
        /* First.  Its own_count: holds, acq_rel.  Its own_flag: it has begun, as the handler was called, or is about to be.  The
         * series has its hold from then on. */
        struct weir_stream stream;

        union {
                /* Its owner: the branch, which is gone when the connection has left.  Its work calls the handler first.  A
                 * reference to the stream keeps it, from the handler to the last reference to it.  The stream's
                 * own_locked_flag: it has not ended. */
                struct weir_series series;
                struct weir__holder handshake; /* before that; it lies before the owner */
        };

        struct weir__peer peer[]; /* one, if the connections of an address are limited */
};

_Static_assert(sizeof(struct weir__holder) <= offsetof(struct weir_series, owner), "the owner is there from the accept on");

static struct weir__served *
served_of(struct weir_stream *stream)
{
        return (struct weir__served *)stream;
}

static struct weir__served *
of_series(const struct weir_series *series)
{
        return weir__container_of((struct weir_series *)series, struct weir__served, series);
}

static struct weir__stream_branch *
branch_of(const struct weir__served *served)
{
        return served->series.owner;
}

static struct weir_stream_server *
server_of(const struct weir__served *served)
{
        return (struct weir_stream_server *)branch_of(served)->base.server;
}

/* Owner of the poller. */
static void
count(struct weir__served *served, enum weir__stream_count kind, uint64_t change)
{
        weir__stream_count(&branch_of(served)->counts, kind, change);
}

/* -- the end -- */

/* One of the two holds ends.  Any thread. */
static void
leave(struct weir__served *served)
{
        struct weir__stream_branch *branch = branch_of(served);

        if (atomic_fetch_sub_explicit(&served->stream.own_count, 1, memory_order_acq_rel) == 1)
                weir__users_remove(&branch->base.server->users);
}

static void
set_series(struct weir__served *served, bool has_series)
{
        weir__lock(&served->stream.lock);
        served->stream.own_locked_flag = has_series;
        weir__unlock(&served->stream.lock);
}

/* The series has ended, or there will be none.  The stream is closed gracefully, unless others use it. */
static void
end_series(struct weir__served *served)
{
        set_series(served, false);
        atomic_fetch_sub_explicit(&branch_of(served)->series, 1, memory_order_relaxed);
        leave(served);
        weir_stream_unref(&served->stream);
        weir__runtime_leave();
}

static void
ended(struct weir_series *series)
{
        end_series(of_series(series));
        weir__runtime_leave();
}

static void
describe(const struct weir_series *series, char *out, size_t room)
{
        char peer[WEIR__ADDRESS_TEXT];

        weir__stream_describe(&of_series(series)->stream, peer, sizeof peer);
        snprintf(out, room, "of a connection from %s", peer);
}

static void
free_series(struct weir_series *series)
{
        weir__stream_drop(&of_series(series)->stream);
}

static const struct weir__series_ops series_ops = {
        .work = WEIR__SERIES_WORK, .ended = ended, .describe = describe, .free_memory = free_series};

/* weir__transport_ops.closed */
static void
closed(struct weir__transport *transport)
{
        struct weir__served *served = (struct weir__served *)transport;
        bool has_peer = server_of(served)->base.max_connections_per_address != SIZE_MAX;
        static const struct weir__peer unknown = {0};

        weir__listeners_connection_closed(&branch_of(served)->base, has_peer ? served->peer : &unknown, true, true);
        count(served, WEIR__STREAM_RECEIVED, served->stream.received);
        count(served, WEIR__STREAM_SENT, transport->sent);
        count(served, WEIR__STREAM_HANDSHAKES_FAILED, server_of(served)->base.secure.is_on && !served->stream.is_secured);
        bool has_begun = served->stream.own_flag;
        if (!has_begun) {
                served->stream.has_holder = false;
                leave(served);
        }
        leave(served);
        if (!has_begun)
                weir_stream_unref(&served->stream);
}

/* -- the handler -- */

static weir__function *
function(const struct weir__work *work)
{
        return (weir__function *)server_of(weir__container_of(work, struct weir__served, series.work))->handler;
}

static __attribute__((noinline)) void
call(struct weir_stream_server *server, struct weir_stream *stream, struct weir_series *series)
{
        static const struct weir__callee callee = {"the handler of", "a server of streams", "a handler of streams"};
        struct weir__trace_slice slice;
        bool is_traced = weir__trace_is_on();

        if (is_traced)
                weir__trace_begin(&slice, NULL, NULL);
        struct weir__user_call call = weir__user_begin_as(&callee, NULL, (weir__function *)server->handler);
        server->handler(stream, series, server->context);
        weir__user_end_as(call);
        if (is_traced)
                weir__trace_end(&slice, &(struct weir__trace_facts){.kind = callee.slice}, NULL);
}

/* The handler has returned: on any thread.  The branch may have been cut meanwhile; one more hold keeps it. */
static void
start(struct weir__served *served)
{
        static struct weir__log_limit limit;

        atomic_fetch_add_explicit(&served->stream.own_count, 1, memory_order_relaxed);
        int failed = weir__series_part_start(&served->series);
        if (!failed && atomic_load_explicit(&branch_of(served)->is_cut, memory_order_relaxed))
                weir_series_cancel(&served->series);
        leave(served);
        if (!failed)
                return;
        if (failed != -ESHUTDOWN)
                weir__log_limited(&limit, WEIR_LOG_ERROR, "the series of a connection was not started: %s: it is closed",
                                  weir_strerror(failed));
        end_series(served);
}

static void
begin_run(struct weir__work *work)
{
        struct weir__served *served = weir__container_of(work, struct weir__served, series.work);

        atomic_fetch_add_explicit(&branch_of(served)->series, 1, memory_order_relaxed);
        if (served->stream.failure) {
                end_series(served);
                return;
        }
        weir__series_part_init(&served->series, &series_ops, branch_of(served)->base.poller->index);
        weir__stream_keep(&served->stream); /* the series does */
        weir_series_ref(&served->series);
        set_series(served, true); /* others find it from here on, also while the handler runs */
        call(server_of(served), &served->stream, &served->series);
        start(served);
        weir_series_unref(&served->series);
}

static const struct weir__work_ops begin_ops = {.run = begin_run, .kind = "a connection", .function = function};

/* The connection is ready for its handler. */
static void
begin(struct weir__served *served)
{
        if (weir__runtime_enter()) { /* until the series has ended */
                weir__stream_fail(&served->stream, -ESHUTDOWN);
                return;
        }
        served->stream.own_flag = true;
        served->series.work.ops = &begin_ops;
        weir__deliver(branch_of(served)->base.poller, &served->series.work);
}

/* -- time limits: weir/stream_server.h says what they count -- */

/* Without memory for it the connection is closed. */
static bool
set_limit(struct weir_stream *stream, weir_nsec at)
{
        bool is_set = weir__transport_set_limit(&stream->transport, 0, at);

        if (!is_set)
                weir__stream_fail(stream, -ENOMEM);
        return is_set;
}

static struct weir__stream_limit *
limit_of(struct weir_stream *stream)
{
        return (struct weir__stream_limit *)weir__stream_limit(&stream->transport, true);
}

/* When the connection is cut if nothing happens until then. */
static weir_nsec
end_of(const struct weir_stream_server *server, const struct weir__stream_limit *limit)
{
        weir_nsec idle = weir__clock_after(limit->moved_at, server->idle_timeout);
        weir_nsec output = limit->is_backlogged ? weir__clock_after(limit->backlogged_at, server->write_timeout) : WEIR_FOREVER;

        return idle < output ? idle : output;
}

/* Output waits from now on: none of it has gone yet. */
static void
begin_to_wait(struct weir__transport *transport, struct weir__stream_limit *limit)
{
        limit->is_backlogged = true;
        limit->backlogged_at = weir__clock_now();
        weir__output_note_untaken(transport);
}

/* weir__stream_ops.waits: after a write of which something is left. */
static void
waits(struct weir_stream *stream)
{
        const struct weir_stream_server *server = server_of(served_of(stream));
        bool is_limited = server->write_timeout != WEIR_FOREVER || server->idle_timeout != WEIR_FOREVER;
        struct weir__stream_limit *limit = is_limited ? limit_of(stream) : NULL;

        if (is_limited && !limit)
                weir__stream_fail(stream, -ENOMEM);
        if (!limit || (limit->is_backlogged && limit->sent == stream->transport.sent))
                return;
        if (limit->sent != stream->transport.sent)
                weir__stream_went(stream);
        begin_to_wait(&stream->transport, limit);
        (void)set_limit(stream, end_of(server, limit));
}

/* Bytes may have come and gone since the limit was set: then it is set again. */
static void
look_at_limits(struct weir__served *served)
{
        struct weir_stream *stream = &served->stream;
        struct weir__stream_limit *limit = (struct weir__stream_limit *)stream->limit;

        if (limit->is_backlogged && weir__output_was_taken(&stream->transport)) {
                weir__stream_went(stream);
                begin_to_wait(&stream->transport, limit);
        }
        weir_nsec end = end_of(server_of(served), limit), idle_since = weir__clock_now() - server_of(served)->idle_timeout;
        if (end > weir__clock_now()) {
                (void)set_limit(stream, end);
                return;
        }
        count(served, limit->moved_at <= idle_since ? WEIR__STREAM_LATE_IDLE : WEIR__STREAM_LATE_WRITE, 1);
        if (stream->has_holder)
                weir__stream_be_late(stream);
        else
                weir__stream_fail(stream, -ETIMEDOUT);
}

/* weir__transport_ops.time_is_up */
static void
time_is_up(struct weir__transport *transport)
{
        struct weir__served *served = (struct weir__served *)transport;
        struct weir_stream *stream = &served->stream;

        if (stream->has_holder && !served->stream.own_flag) {
                count(served, WEIR__STREAM_LATE_HANDSHAKE, 1);
                weir__stream_fail(stream, -ETIMEDOUT);
        } else if (stream->has_holder && stream->holder->ops->sets_limit) {
                weir__stream_be_late(stream);
        } else {
                look_at_limits(served);
        }
}

/* Silence counts from now on. */
static bool
begin_silence(struct weir__served *served)
{
        struct weir_stream *stream = &served->stream;
        weir_nsec idle = server_of(served)->idle_timeout;

        weir__stream_went(stream);
        return idle == WEIR_FOREVER || set_limit(stream, weir__clock_after(weir__clock_now(), idle));
}

/* weir__stream_ops.given_back */
static void
given_back(struct weir_stream *stream)
{
        if (stream->own_flag && !weir__transport_is_closed(&stream->transport))
                (void)begin_silence(served_of(stream));
}

/* -- the handshake -- */

static struct weir__stream_branch *
of_handshakes(const struct weir__handshakes *handshakes)
{
        return weir__container_of((struct weir__handshakes *)handshakes, struct weir__stream_branch, handshakes);
}

/* What others do is in the ready list of the poller, and that is enough: net/transport/handshake.c. */
static int64_t
moved(const struct weir__handshakes *handshakes)
{
        (void)handshakes;
        return 0;
}

static void
hold(struct weir__handshakes *handshakes)
{
        weir__users_add(&of_handshakes(handshakes)->base.server->users);
}

static void
release(struct weir__handshakes *handshakes)
{
        weir__users_remove(&of_handshakes(handshakes)->base.server->users);
}

const struct weir__handshakes_ops weir__served_handshakes_ops = {moved, hold, release};

/* The connection is as its handler may use it. */
static void
become_usable(struct weir__served *served)
{
        if (begin_silence(served))
                begin(served);
}

static void
shake(struct weir__holder *holder)
{
        struct weir__served *served = weir__container_of(holder, struct weir__served, handshake);
        struct weir_stream *stream = &served->stream;
        struct weir__handshakes *handshakes = &branch_of(served)->handshakes;

        if (!weir__handshakes_may_go_on(handshakes, &stream->transport))
                return;
        weir_nsec began = weir__clock_monotonic();
        int failed = weir__stream_handshake(&stream->transport.stream);
        weir__handshakes_note(handshakes, began);
        if (failed == -EAGAIN) {
                stream->transport.is_ready = false;
        } else if (failed) {
                weir__stream_fail(stream, failed);
        } else {
                weir__stream_give_back(stream);
                count(served, WEIR__STREAM_HANDSHAKES, 1);
                (void)weir__transport_set_limit(&stream->transport, 0, WEIR_FOREVER);
                become_usable(served);
        }
}

static const struct weir__holder_ops handshake_ops = {.go_on = shake};

/* -- birth -- */

/* weir__stream_ops.wrapped */
static void
wrapped(struct weir_stream *stream)
{
        count(served_of(stream), WEIR__STREAM_RECEIVED, UINT64_C(1) << 32);
}

static const struct weir__stream_ops plain_ops = {
        .transport = WEIR__STREAM_TRANSPORT(closed, time_is_up),
        .size = sizeof(struct weir__served),
        .waits = waits,
        .given_back = given_back,
        .wrapped = wrapped,
};
static const struct weir__stream_ops counted_ops = {
        .transport = WEIR__STREAM_TRANSPORT(closed, time_is_up),
        .size = sizeof(struct weir__served) + sizeof(struct weir__peer),
        .waits = waits,
        .given_back = given_back,
        .wrapped = wrapped,
};

/* Result: 0; -ENOMEM, -ENOSPC: the descriptor is the caller's. */
static int
new_connection(struct weir__stream_branch *branch, int fd, const struct weir__peer *peer)
{
        struct weir_stream_server *server = (struct weir_stream_server *)branch->base.server;
        bool has_peer = server->base.max_connections_per_address != SIZE_MAX;
        struct weir_stream *stream = weir__stream_new_as(has_peer ? &counted_ops : &plain_ops, fd, branch->base.poller->index);
        struct weir__served *served = served_of(stream);

        if (!stream)
                return -ENOMEM;
        served->series.owner = branch;
        atomic_init(&served->stream.own_count, 2);
        if (has_peer)
                served->peer[0] = *peer;
        struct weir__tls **tls = &stream->transport.stream.tls;
        bool is_short = server->base.secure.is_on && !(*tls = weir__secure_accept(&server->base, fd));
        int failed = is_short ? -ENOMEM : weir__stream_open(stream);
        if (failed) {
                weir__stream_abandon(stream);
                return failed;
        }
        weir__users_add(&server->base.users);
        if (!*tls) {
                become_usable(served);
        } else if (set_limit(stream, weir__clock_after(weir__clock_now(), server->handshake_timeout))) {
                weir__stream_hold(stream, &handshake_ops, &served->handshake);
                shake(&served->handshake);
        }
        return 0;
}

void
weir__served_accept(struct weir__branch *base, int fd, const struct weir__peer *peer, bool is_admitted)
{
        struct weir__stream_branch *branch = (struct weir__stream_branch *)base;
        struct weir__stream closing = {.source.fd = fd};

        weir__stream_count(&branch->counts, WEIR__STREAM_ACCEPTED, 1);
        if (is_admitted && new_connection(branch, fd, peer) == 0)
                return;
        weir__stream_count(&branch->counts, is_admitted ? WEIR__STREAM_REFUSED_SHORTAGE : WEIR__STREAM_REFUSED_ADDRESS, 1);
        if (is_admitted)
                weir__admission_leave(base, peer, true);
        weir__stream_close(&closing);
}

/* -- the stop -- */

/* The connection that this source is of; NULL: it is another source. */
static struct weir__served *
served_at(const struct weir__stream_branch *branch, struct weir__source *source)
{
        bool is_served = source->ops == &plain_ops.transport.source || source->ops == &counted_ops.transport.source;
        struct weir__served *served = is_served ? (struct weir__served *)source : NULL;

        return served && branch_of(served) == branch ? served : NULL;
}

/* Those that have a descriptor. */
static void
each(struct weir__stream_branch *branch, void (*act)(struct weir__served *served))
{
        uint32_t slot = 0;

        for (struct weir__source *source; (source = weir__source_next(branch->base.poller, &slot));) {
                struct weir__served *served = served_at(branch, source);

                if (!served)
                        continue;
                weir__stream_keep(&served->stream);
                act(served);
                weir__stream_drop(&served->stream);
        }
}

/* Those that have a series go on. */
static void
stop(struct weir__served *served)
{
        struct weir__transport *transport = &served->stream.transport;

        if (served->stream.has_holder && !served->stream.own_flag)
                return; /* it was accepted: it gets its handler, or the handshake has its time limit */
        if (served->stream.has_holder && served->stream.holder->ops->stop)
                served->stream.holder->ops->stop(served->stream.holder);
        else if (transport->phase == WEIR__TRANSPORT_LINGERING)
                weir__transport_linger_at_most(transport, LINGER_AT_STOP);
}

void
weir__served_stop(struct weir__branch *base)
{
        each((struct weir__stream_branch *)base, stop);
}

static void
report(struct weir__served *served)
{
        struct weir_series *series = &served->series;
        struct weir__cut_report *report = calloc(1, sizeof *report);
        char peer[WEIR__ADDRESS_TEXT], wait[256];

        if (report) {
                weir__stream_describe(&served->stream, peer, sizeof peer);
                weir__series_describe(series, wait, sizeof wait);
                snprintf(report->text, sizeof report->text, "the series of a connection from %s, %lld ms old%s%s", peer,
                         (long long)(weir__live_age(series->started) / WEIR_MSEC(1)), *wait ? ", waiting for " : "", wait);
        }
        weir__cut_add(branch_of(served)->base.server, report);
}

/* Gives up a reference to the series. */
static void
cut_series(struct weir__served *served)
{
        report(served);
        weir_series_cancel(&served->series);
        weir_series_unref(&served->series);
}

/* The series is cancelled first, so its tasks see that, and not a broken stream. */
static void
cut(struct weir__served *served)
{
        weir__lock(&served->stream.lock);
        bool has_series = served->stream.own_locked_flag;
        if (has_series)
                weir__series_ref(&served->series);
        weir__unlock(&served->stream.lock);
        if (has_series)
                cut_series(served);
        weir__stream_fail(&served->stream, -ECONNABORTED);
}

/* Those whose series has outlived the descriptor. */
static void
cut_rest(struct weir__stream_branch *branch, unsigned shard)
{
        struct weir__live_walk walk = weir__live_walk_begin(shard);

        for (struct weir_series *series; (series = weir__live_walk_next(&walk));) {
                if (series->work.ops == &series_ops.work && series->owner == branch &&
                    weir__transport_is_closed(&of_series(series)->stream.transport))
                        cut_series(of_series(series));
                else
                        weir_series_unref(series);
        }
}

void
weir__served_cut(struct weir__branch *base)
{
        struct weir__stream_branch *branch = (struct weir__stream_branch *)base;
        unsigned first = WEIR__LIVE_SHARDS_EACH * base->poller->index;

        atomic_store_explicit(&branch->is_cut, true, memory_order_relaxed); /* `start` looks when the series is among the roots */
        for (unsigned i = 0; i < WEIR__LIVE_SHARDS_EACH; i++)
                cut_rest(branch, first + i);
        each(branch, cut);
}
