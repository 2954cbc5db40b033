/* net/protocol/session.c: a stream that speaks a protocol: what comes, what goes out, its limits and its end.
 *
 * Threads: the owner of the stream's poller, but for references and contexts: any.
 * Locks:   none.
 *
 * A session is never freed while a function of it is on the stack: its end only delivers a work item, and that gives up the
 * reference of its side. */
#include "net/protocol/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/task.h"
#include "kernel/base/clock.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"

#define FLUSH_WAITS 8 /* times, at most, that output waits behind other ready work, which may bring more */
#define SEND_LIMIT  WEIR_SEC(30)

/* -- references -- */

void
weir__session_drop(struct weir_session *session)
{
        if (atomic_fetch_sub_explicit(&session->references, 1, memory_order_acq_rel) != 1)
                return;
        void *context = weir_session_context(session);
        if (context && session->free_context)
                weir__user_call(session->free_context, context);
        session->side->free(session);
}

weir_session *
weir_session_ref(weir_session *session)
{
        weir__memory_expect(session);
        if (session)
                weir__session_keep(session);
        return session;
}

void
weir_session_unref(weir_session *session)
{
        weir__memory_expect(session);
        if (session)
                weir__session_drop(session);
}

int
weir_session_set_context(weir_session *session, void *context, weir_free_fn *fn)
{
        static const uintptr_t taken = UINTPTR_MAX;
        uintptr_t none = 0;

        if (!session)
                return -ENOMEM;
        if (!atomic_compare_exchange_strong_explicit(&session->context, &none, taken, memory_order_acq_rel, memory_order_acquire))
                return -EEXIST;
        session->free_context = fn;
        atomic_store_explicit(&session->context, (uintptr_t)context, memory_order_release);
        return 0;
}

void *
weir_session_context(const weir_session *session)
{
        uintptr_t context = session ? atomic_load_explicit(&session->context, memory_order_acquire) : 0;

        return context == UINTPTR_MAX ? NULL : (void *)context;
}

/* -- the end -- */

void
weir__session_note_gone(struct weir_session *session)
{
        if (session->side->gone)
                session->side->gone(session);
        weir__session_drop(session);
}

static void
run_ending(struct weir__work *work)
{
        struct weir_session *session = weir__container_of(work, struct weir_session, ending);

        if (session->side->ended)
                session->side->ended(session);
        session->has_ended = true;
        if (!session->messages)
                weir__session_note_gone(session);
}

static const struct weir__work_ops ending_ops = {.run = run_ending};

static struct weir__outgoing *
first_outgoing(const struct weir__transport *transport)
{
        struct weir__link *link = weir__list_first(&transport->writers);

        return link ? weir__container_of(link, struct weir__outgoing, writer.link) : NULL;
}

static void
drop_output(struct weir_session *session, struct weir__transport *transport, int status)
{
        for (struct weir__outgoing *each; (each = first_outgoing(transport));) {
                weir__link_remove(&each->writer.link);
                each->done(each, session, status);
        }
}

void
weir__session_end(struct weir_session *session, int status)
{
        struct weir_stream *stream = session->stream;

        if (session->is_over)
                return;
        session->is_over = true;
        session->status = status;
        session->stream = NULL;
        drop_output(session, &stream->transport, status ? status : -EPIPE);
        (void)weir__transport_set_limit(&stream->transport, 0, WEIR_FOREVER);
        weir__stream_give_back(stream);
        stream->has_end |= session->has_end;
        if (status)
                weir__stream_fail(stream, status == -ECANCELED ? -ECONNABORTED : status);
        weir_stream_unref(stream);
        session->side->cut_messages(session);
        weir__deliver(weir__poller_at(session->poller), &session->ending);
}

/* -- limits -- */

static weir_nsec
idle_limit(const struct weir_session *session)
{
        return weir__protocol_limit(session->protocol->idle_limit, session->side->idle_limit);
}

void
weir__session_note_use(struct weir_session *session)
{
        if (idle_limit(session) != WEIR_FOREVER)
                session->idle_since = weir__clock_now();
}

weir_nsec
weir__session_idle_until(const struct weir_session *session)
{
        weir_nsec limit = idle_limit(session);

        if (limit == WEIR_FOREVER || session->messages || session->cut)
                return WEIR_FOREVER;
        return weir__clock_after(session->idle_since, limit);
}

bool
weir__session_is_quiet(const struct weir_session *session)
{
        return !session->messages && !session->cut && (session->is_over || weir__output_is_empty(&session->stream->transport));
}

/* While output waits, the limit begins anew with each part that goes out. */
static void
set_limit(struct weir_session *session)
{
        struct weir__transport *transport = &session->stream->transport;
        bool is_sending = !weir__output_is_empty(transport);
        weir_nsec at;

        if (is_sending) {
                if (session->is_sending && transport->sent == session->sent)
                        return;
                weir_nsec now = weir__clock_now(), limit = weir__protocol_limit(session->protocol->send_limit, SEND_LIMIT);
                session->sent_at = now;
                session->sent = transport->sent;
                at = weir__clock_after(now, limit);
        } else {
                at = session->side->limit(session);
        }
        session->is_sending = is_sending;
        const struct weir__limit *limit = weir__transport_limit(transport, false);
        if (at != (limit ? limit->expires_at : WEIR_FOREVER) && !weir__transport_set_limit(transport, 0, at))
                weir__session_end(session, -ENOMEM);
}

static void
be_late(struct weir_session *session)
{
        session->stream->is_late = false;
        if (session->is_sending)
                weir__session_end(session, -ETIMEDOUT);
        else
                session->side->late(session);
}

/* -- what comes -- */

/* A handler may itself wait for the reply. */
unsigned
weir__session_more_room(const struct weir_session *session)
{
        size_t most = WEIR__PUSHES * weir__protocol_max(session->protocol);

        if (!session->side->is_asked || session->messages >= WEIR__PUSHES_MOST || session->message_bytes >= most)
                return 0;
        return session->side->is_asked(session) ? WEIR__PUSHES_MOST - session->messages : 0;
}

void
weir__session_note_partial(struct weir_session *session)
{
        session->is_partial = true;
        if (!session->partial_since)
                session->partial_since = weir__clock_now();
}

/* Receives the messages that are whole.  Returns how many bytes they have. */
static size_t
receive_whole(struct weir_session *session, const char *data, size_t size)
{
        const struct weir_protocol *protocol = session->protocol;
        size_t at = 0;
        unsigned room = weir__session_room(session);

        session->is_partial = false;
        for (; at < size && room; room = room > 1 ? room - 1 : weir__session_room(session)) {
                ssize_t end = weir__frame_end(protocol, data + at, size - at, &session->scanned);

                if (!end) {
                        weir__session_note_partial(session);
                        break;
                }
                uint64_t id = end > 0 && protocol->id_width ? weir__frame_id(protocol, data + at, (size_t)end)
                                                            : WEIR_MATCH_OLDEST;
                int failed = end < 0 ? (int)end : session->side->receive(session, data + at, (size_t)end, id);
                session->scanned = 0;
                session->partial_since = 0;
                if (failed) {
                        weir__session_end(session, failed);
                        break;
                }
                at += (size_t)end;
        }
        return at;
}

static int
keep(struct weir_session *session, const char *data, size_t size)
{
        if (session->is_over)
                return 0;
        return weir__input_keep(&session->stream->transport, data, size) ? 0 : -ENOMEM;
}

/* Receives what is kept.  Returns false when something must happen before more is read. */
static bool
digest_kept(struct weir_session *session)
{
        if (!weir__session_has_room(session))
                return false;
        struct weir__transport *transport = &session->stream->transport;
        if (transport->input.size) {
                if (weir__protocol_has_functions(session->protocol)) {
                        if (transport->input.size < session->wanted)
                                weir__session_note_partial(session);
                        else if (!session->is_partial)
                                session->side->cut(session);
                } else {
                        size_t used = receive_whole(session, transport->input.data, transport->input.size);
                        int failed = used && !session->is_over
                                             ? keep(session, transport->input.data + used, transport->input.size - used)
                                             : 0;

                        if (failed)
                                weir__session_end(session, failed);
                }
        }
        return weir__session_has_room(session) && !weir__session_is_cutting(session);
}

/* Takes in bytes that were just read. */
static int
take_in(struct weir_session *session, const char *data, size_t size)
{
        struct weir__transport *transport = &session->stream->transport;

        if (!session->side->expects(session))
                return -EPROTO;
        if (!transport->input.size && !weir__protocol_has_functions(session->protocol)) {
                size_t used = receive_whole(session, data, size);

                return keep(session, data + used, size - used);
        }
        session->is_partial = false;
        return weir__input_append(transport, data, size) ? 0 : -ENOMEM;
}

/* The peer has finished its side. */
static void
note_end(struct weir_session *session)
{
        session->has_end = true;
        if (!session->side->is_server)
                weir__session_end(session, -ECONNRESET);
        else if (session->stream->transport.input.size)
                weir__session_end(session, -EPIPE);
        else
                session->is_closing = true; /* it may still read replies */
}

static void
read_on(struct weir_session *session)
{
        struct weir__transport *transport = &session->stream->transport;
        char *scratch = weir__transport_poller(transport)->scratch;

        while (digest_kept(session) && weir__transport_may_read(transport)) {
                ssize_t got = weir__input_read(transport, scratch, WEIR__SCRATCH_SIZE);
                if (got > 0) {
                        weir__stream_count_received(session->stream, (size_t)got);
                        weir__session_note_use(session);
                }
                int failed = got > 0 ? take_in(session, scratch, (size_t)got) : got == -EAGAIN ? 0 : (int)got;

                if (got == -EAGAIN)
                        return;
                if (got == 0)
                        note_end(session);
                if (failed)
                        weir__session_end(session, failed);
        }
}

static void
settle(struct weir_session *session)
{
        if (!session->is_over && session->is_closing && session->side->is_server && weir__session_is_quiet(session))
                weir__session_end(session, 0);
        if (!session->is_over && session->stream->transport.input.size && !session->side->expects(session))
                weir__session_end(session, -EPROTO);
        session->side->settled(session);
        if (!session->is_over)
                set_limit(session);
}

void
weir__session_receive(struct weir_session *session)
{
        if (session->is_receiving)
                return;
        session->is_receiving = true;
        if (!session->is_over)
                read_on(session);
        session->is_receiving = false;
        settle(session);
}

/* -- what goes out -- */

static void
written(struct weir__holder *holder, struct weir__writer *writer)
{
        struct weir__outgoing *outgoing = weir__container_of(writer, struct weir__outgoing, writer);

        outgoing->done(outgoing, weir__container_of(holder, struct weir_session, holder), 0);
}

/* The peer takes no more.  To a client it may have said why: only functions of the program are not waited for. */
static void
fail_sending(struct weir_session *session, int failure)
{
        if (!session->side->is_server && !session->is_receiving) {
                session->is_receiving = true;
                session->stream->transport.is_ready = true;
                read_on(session);
                session->is_receiving = false;
        }
        weir__session_end(session, failure);
}

static void
flush(struct weir_session *session)
{
        session->flushed_at = 0;
        int result = session->is_over ? 0 : weir__output_flush(&session->stream->transport);

        if (result < 0)
                fail_sending(session, result);
}

void
weir__session_send(struct weir_session *session)
{
        flush(session);
        if (!session->is_over)
                set_limit(session);
}

void
weir__session_flush(struct weir_session *session)
{
        flush(session);
        weir__session_receive(session);
}

/* Whether there was more output since it looked last, and other work may bring more still: all of it goes out at once then. */
static bool
gives_way(struct weir_session *session)
{
        const struct weir__poller *poller = weir__poller_at(session->poller);
        bool is_more_coming = session->flushes != session->flushes_seen && poller->ready.items.first;

        if (!is_more_coming || session->is_over || session->flush_waits == FLUSH_WAITS)
                return false;
        session->flush_waits++;
        session->flushes_seen = session->flushes;
        return true;
}

static void
run_flushing(struct weir__work *work)
{
        struct weir_session *session = weir__container_of(work, struct weir_session, flushing);

        if (gives_way(session)) {
                weir__deliver(weir__poller_at(session->poller), work);
                return;
        }
        session->is_flush_due = false;
        weir__session_flush(session);
        weir__session_drop(session);
}

static const struct weir__work_ops flushing_ops = {.run = run_flushing};

void
weir__session_flush_later(struct weir_session *session)
{
        session->flushes++;
        if (session->is_flush_due)
                return;
        session->is_flush_due = true;
        session->flush_waits = 0;
        session->flushes_seen = session->flushes;
        weir__session_keep(session);
        weir__deliver(weir__poller_at(session->poller), &session->flushing);
}

/* -- the holder of the stream -- */

static void
go_on(struct weir__holder *holder)
{
        struct weir_session *session = weir__container_of(holder, struct weir_session, holder);
        struct weir_stream *stream = session->stream;

        if (stream->failure)
                weir__session_end(session, stream->failure);
        else if (stream->is_late)
                be_late(session);
        weir__session_flush(session);
}

/* The server that the stream belongs to stops.  A client goes on. */
static void
stop(struct weir__holder *holder)
{
        struct weir_session *session = weir__container_of(holder, struct weir_session, holder);

        session->is_closing = true;
        weir__session_receive(session);
}

static const struct weir__holder_ops holder_ops = {.go_on = go_on, .written = written, .stop = stop, .sets_limit = true};

int
weir__session_open(struct weir_session *session, struct weir_stream *stream)
{
        int failed = weir__stream_try(stream);

        if (failed)
                return failed;
        if (!weir__ring_is_empty(&stream->readers) || !weir__output_is_empty(&stream->transport) || stream->is_finished)
                return stream->is_finished ? -EPIPE : -EBUSY;
        session->stream = weir__stream_use(stream);
        session->poller = stream->transport.poller;
        weir__session_note_use(session);
        session->has_end = stream->has_end;
        session->is_closing = stream->has_end && session->side->is_server;
        weir__stream_hold(stream, &holder_ops, &session->holder);
        return 0;
}

/* -- a close from any thread -- */

static void
run_closing(struct weir__work *work)
{
        struct weir_session *session = weir__container_of(work, struct weir_session, closing);

        session->is_closing = true; /* a client takes in what it waits for */
        weir__session_receive(session);
        weir__session_drop(session);
        weir__runtime_leave();
}

static const struct weir__work_ops closing_ops = {.run = run_closing};

void
weir_session_close(weir_session *session)
{
        if (!session)
                return;
        weir__memory_expect(session);
        if (atomic_exchange_explicit(&session->is_close_asked, true, memory_order_relaxed) || weir__runtime_enter() != 0)
                return;
        weir__session_keep(session);
        weir__deliver(weir__poller_at(session->poller), &session->closing);
}

void
weir__session_init(struct weir_session *session, const struct weir__side *side, const struct weir_protocol *protocol)
{
        atomic_init(&session->references, 1);
        session->side = side;
        session->protocol = protocol;
        session->flushing.ops = &flushing_ops;
        session->ending.ops = &ending_ops;
        session->closing.ops = &closing_ops;
}
