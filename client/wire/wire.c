/* client/wire/wire.c: the life of a connection to an origin: its calls, its limits, its end.
 *
 * Threads: the owner of its poller.
 * Locks:   none.
 *
 * A connection is never freed while a function of it is on the stack: its end only delivers a work item. */
#include "client/wire/wire.h"
#include "client/wire/dial.h"

#include <errno.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/worker/deliver.h"

#define UNLOOKED WEIR_MSEC(1) /* a connection that was idle for less is used without a look */

static struct weir__transport *
transport_of(const struct weir__wire *wire)
{
        return &wire->stream->transport;
}

static const struct weir_client *
client_of(const struct weir__wire *wire)
{
        return wire->pooled.branch->origin->client;
}

/* -- the end -- */

static void
run_ending(struct weir__work *work)
{
        struct weir__wire *wire = weir__container_of(work, struct weir__wire, ending);
        struct weir__client_branch *branch = wire->pooled.branch;
        struct weir__origin *origin = branch->origin;

        weir__free(wire, sizeof *wire);
        weir__pool_gone(branch);
        weir__origin_drop(origin);
}

static const struct weir__work_ops ending_ops = {.run = run_ending};

static void
deliver_ending(struct weir__wire *wire)
{
        weir__deliver(weir__poller_at(wire->pooled.branch->poller), &wire->ending);
}

static void
drop_output(struct weir__transport *transport)
{
        for (struct weir__link *link; (link = weir__list_first(&transport->writers));)
                weir__link_remove(link);
}

/* The call leaves it. */
static struct weir__http_call *
detach(struct weir__wire *wire)
{
        struct weir__http_call *call = wire->call;

        wire->call = NULL;
        if (call)
                call->wire = NULL;
        return call;
}

/* It is over. */
static struct weir_stream *
leave_stream(struct weir__wire *wire)
{
        struct weir_stream *stream = wire->stream;
        bool is_ready = stream->transport.is_ready || stream->transport.stream.tls;

        wire->stream = NULL;
        weir__pool_take_off(&wire->pooled);
        weir__link_remove(&wire->pooled.all);
        drop_output(&stream->transport);
        (void)weir__transport_set_limit(&stream->transport, 0, WEIR_FOREVER);
        weir__stream_give_back(stream);
        stream->transport.is_ready = is_ready; /* what has come was read; more has an event of its own */
        if (!wire->pooled.is_reserved)         /* else weir__wire_take_reserved does */
                deliver_ending(wire);
        return stream;
}

void
weir__wire_end(struct weir__wire *wire, int status)
{
        struct weir_stream *stream = wire->stream;

        if (!stream)
                return;
        bool was_closed = status == -ECONNRESET || status == -EPIPE;
        bool may_replay = was_closed && !wire->pooled.is_fresh && !wire->has_come;
        struct weir__http_call *call = detach(wire);

        (void)leave_stream(wire);
        if (call && !stream->failure)
                weir__stream_fail(stream, -ECONNABORTED); /* the server must not take part of a request for the whole */
        weir_stream_unref(stream);
        if (call)
                call->ops->ended(call, status == -EPIPE ? -ECONNRESET : status, may_replay);
}

bool
weir__wire_take_reserved(struct weir__wire *wire)
{
        wire->pooled.is_reserved = false;
        if (!wire->stream)
                deliver_ending(wire);
        return wire->stream;
}

void
weir__wire_close(struct weir__pooled *connection)
{
        weir__wire_end(weir__wire_of(connection), 0);
}

/* -- limits -- */

/* What a limit is of. */
enum { OF_NOTHING, OF_IDLE, OF_SEND, OF_FIRST_BYTE, OF_BETWEEN };

/* The limit of a stage that may have begun just now. */
static weir_nsec
limit_of(struct weir__wire *wire, uint8_t stage, weir_nsec now, weir_nsec limit)
{
        if (wire->limited_by != stage)
                wire->since = now;
        wire->limited_by = stage;
        return weir__clock_after(wire->since, limit);
}

static weir_nsec
no_limit(struct weir__wire *wire)
{
        wire->limited_by = OF_NOTHING;
        return WEIR_FOREVER;
}

/* A second before the server closes it, so that no request goes out just then. */
static weir_nsec
idle_time(const struct weir__wire *wire)
{
        weir_nsec most = client_of(wire)->config.idle_limit;

        if (__builtin_expect(wire->keep_seconds, 0) && WEIR_SEC(wire->keep_seconds - 1) < most)
                return WEIR_SEC(wire->keep_seconds - 1);
        return most;
}

/* It is closed at its age as well: no request goes to an older one. */
static weir_nsec
idle_limit(struct weir__wire *wire, weir_nsec now)
{
        const struct weir_client_config *config = &client_of(wire)->config;
        weir_nsec idle = limit_of(wire, OF_IDLE, now, idle_time(wire)),
                  aged = weir__clock_after(wire->opened_at, config->age_limit);

        return idle < aged ? idle : aged;
}

/* While output waits, the limit begins anew with each part that goes out. */
static weir_nsec
stage_limit(struct weir__wire *wire, weir_nsec now)
{
        const struct weir__transport *transport = transport_of(wire);
        const struct weir__http_call *call = wire->call;

        if (!call)
                return idle_limit(wire, now);
        if (!weir__output_is_empty(transport)) {
                if (transport->sent != wire->sent)
                        wire->limited_by = OF_NOTHING;
                wire->sent = transport->sent;
                return limit_of(wire, OF_SEND, now, call->send_limit);
        }
        if (!call->is_sent && !wire->is_cut) /* the program has not written all of it */
                return no_limit(wire);
        if (!wire->is_body)
                return limit_of(wire, OF_FIRST_BYTE, now, call->first_byte_limit);
        if (call->ops->wants_body && !call->ops->wants_body(call)) /* the program does not read */
                return no_limit(wire);
        return limit_of(wire, OF_BETWEEN, now, call->between_limit);
}

static void
set_limit(struct weir__wire *wire)
{
        weir_nsec at = stage_limit(wire, weir__clock_now());

        if (wire->call && wire->call->late_at < at)
                at = wire->call->late_at;
        const struct weir__limit *limit = weir__transport_limit(transport_of(wire), false);
        if (at != (limit ? limit->expires_at : WEIR_FOREVER) && !weir__transport_set_limit(transport_of(wire), 0, at))
                weir__wire_end(wire, -ENOMEM);
}

static void
be_late(struct weir__wire *wire)
{
        wire->stream->is_late = false;
        weir__wire_end(wire, wire->call ? -ETIMEDOUT : 0);
}

/* -- events -- */

static void
settle(struct weir__wire *wire)
{
        if (wire->stream)
                set_limit(wire);
}

/* The call has a head, and has not taken all that is behind it yet. */
static bool
may_read_on(const struct weir__wire *wire)
{
        return wire->stream && wire->call && wire->is_body && wire->end != WEIR__RECEIVED_TUNNEL && wire->call->ops->cut;
}

/* The server takes no more: it may have said why. */
static void
fail_sending(struct weir__wire *wire, int failure)
{
        transport_of(wire)->is_ready = true;
        weir__wire_receive(wire);
        if ((failure != -EPIPE && failure != -ECONNRESET) || !may_read_on(wire)) {
                weir__wire_end(wire, failure);
                return;
        }
        wire->is_cut = true;
        drop_output(transport_of(wire));
        wire->call->ops->cut(wire->call);
}

static bool
is_tunnel(const struct weir__wire *wire)
{
        return wire->stream && wire->call && wire->is_body && wire->end == WEIR__RECEIVED_TUNNEL &&
               weir__output_is_empty(transport_of(wire));
}

/* HTTP is over on the connection: the call has the stream, with what has come behind the head. */
static void
become_stream(struct weir__wire *wire)
{
        struct weir__http_call *call = detach(wire);

        call->stream = leave_stream(wire);
        call->ops->ended(call, 0, false);
}

void
weir__wire_go_on(struct weir__wire *wire)
{
        if (wire->is_receiving || !wire->stream)
                return;
        int result = weir__output_flush(transport_of(wire));
        if (result < 0)
                fail_sending(wire, result);
        else
                weir__wire_receive(wire);
        if (is_tunnel(wire))
                become_stream(wire);
        settle(wire);
}

static void
go_on(struct weir__holder *holder)
{
        struct weir__wire *wire = weir__container_of(holder, struct weir__wire, holder);
        int failure = wire->stream->failure;

        if (failure)
                weir__wire_end(wire, failure);
        else if (wire->stream->is_late)
                be_late(wire);
        else
                weir__wire_go_on(wire);
}

static void
note_sent(struct weir__wire *wire)
{
        struct weir__http_call *call = wire->call;

        call->is_sent = true;
        if (call->stage == WEIR_HTTP_SENDING)
                weir__http_call_set_stage(call, WEIR_HTTP_WAITING);
}

static void
written(struct weir__holder *holder, struct weir__writer *writer)
{
        struct weir__wire *wire = weir__container_of(holder, struct weir__wire, holder);
        struct weir__http_call *call = wire->call;

        if (writer != &call->head && writer != &call->body)
                call->ops->written(call, writer);
        if (weir__output_is_empty(transport_of(wire)) && !call->has_more)
                note_sent(wire);
}

/* Its server stops: it belongs to none. */
static const struct weir__holder_ops holder_ops = {.go_on = go_on, .written = written, .sets_limit = true};

/* -- calls -- */

void
weir__http_call_trace(struct weir__http_call *call)
{
        static const char *const names[WEIR_HTTP_COMPLETE + 1] = {
                [WEIR_HTTP_QUEUED] = "queued",   [WEIR_HTTP_RESOLVING] = "resolving", [WEIR_HTTP_CONNECTING] = "connecting",
                [WEIR_HTTP_PROXY] = "proxy",     [WEIR_HTTP_HANDSHAKE] = "handshake", [WEIR_HTTP_SENDING] = "sending",
                [WEIR_HTTP_WAITING] = "waiting", [WEIR_HTTP_RECEIVING] = "receiving"};
        char name[128] = "";
        struct weir__trace_flow *flow = call->ops->trace(call, name, sizeof name);

        weir__trace_next_stage(&call->traced, names[call->stage], name, flow);
}

void
weir__wire_start(struct weir__wire *wire, struct weir__http_call *call)
{
        struct weir__transport *transport = transport_of(wire);

        wire->call = call;
        call->wire = wire;
        call->is_sent = false;
        call->fault = WEIR__FAULT_NONE;
        wire->is_body = wire->has_come = wire->is_cut = false;
        wire->interim = 0;
        wire->limited_by = OF_NOTHING;
        wire->gate = (struct weir__gate){.scanned = 0};
        weir__gate_begin_response(&wire->gate);
        weir__http_call_set_stage(call, WEIR_HTTP_SENDING);
        weir__client_branch_count(wire->pooled.branch, WEIR__CLIENT_REQUESTS);
        if (wire->served)
                weir__client_branch_count(wire->pooled.branch, WEIR__CLIENT_REUSED);
        weir__output_append(transport, &call->head);
        if (call->has_body)
                weir__output_append(transport, &call->body);
        if (call->ops->started)
                call->ops->started(call);
        if (!wire->is_receiving) { /* else the call before it has ended just now, on the stack */
                weir__wire_go_on(wire);
                return;
        }
        int result = weir__output_flush(transport);
        if (result < 0)
                weir__wire_end(wire, result);
}

void
weir__wire_abandon(struct weir__http_call *call)
{
        struct weir__wire *wire = call->wire;

        drop_output(transport_of(wire));
        (void)detach(wire);
        weir__stream_fail(wire->stream, -ECONNABORTED); /* go_on ends it */
}

void
weir__wire_put(struct weir__http_call *call, struct weir__writer *writer)
{
        weir__output_append(transport_of(call->wire), writer);
}

bool
weir__wire_take_back(struct weir__http_call *call, struct weir__writer *writer)
{
        if (weir__output_is_on_its_way(transport_of(call->wire), writer))
                return false;
        weir__link_remove(&writer->link);
        return true;
}

static bool
may_be_kept(const struct weir__wire *wire, const struct weir__http_call *call)
{
        return call->received->is_persistent && call->is_sent && wire->keep_seconds != 1 && !weir__phase_is_stopping() &&
               weir__clock_now() < weir__clock_after(wire->opened_at, client_of(wire)->config.age_limit);
}

void
weir__wire_complete(struct weir__wire *wire, bool has_rest)
{
        struct weir__http_call *call = wire->call;

        wire->served += wire->served < UINT32_MAX;
        wire->pooled.is_fresh = false;
        weir__http_call_set_stage(call, WEIR_HTTP_COMPLETE);
        if (__builtin_expect(call->received->keep_seconds, 0))
                wire->keep_seconds = call->received->keep_seconds;
        bool is_kept = !has_rest && may_be_kept(wire, call);
        (void)detach(wire);
        if (is_kept)
                weir__pool_put(&wire->pooled);
        else
                weir__wire_end(wire, 0);
        call->ops->ended(call, 0, false);
}

struct weir__wire *
weir__wire_new(struct weir__client_branch *branch, struct weir_stream *stream, int *failed)
{
        struct weir__wire *wire;

        *failed = stream->transport.poller == branch->poller ? weir__stream_try(stream) : -EXDEV;
        if (*failed)
                return NULL;
        wire = weir__transport_limit(&stream->transport, true) ? weir__alloc(sizeof *wire) : NULL;
        if (!wire) {
                *failed = -ENOMEM;
                return NULL;
        }
        memset(wire, 0, sizeof *wire);
        wire->pooled.branch = branch;
        wire->pooled.generation = atomic_load_explicit(&branch->origin->client->generation, memory_order_relaxed);
        wire->stream = stream;
        wire->opened_at = wire->since = weir__clock_now();
        wire->ending.ops = &ending_ops;
        weir__origin_keep(branch->origin);
        weir__list_append(&branch->connections, &wire->pooled.all);
        weir__stream_hold(stream, &holder_ops, &wire->holder);
        set_limit(wire); /* it has memory for that */
        return wire;
}

/* A server that closes an idle connection may have done so already, and may have sent a 408 before. */
bool
weir__wire_is_alive(const struct weir__pooled *connection)
{
        const struct weir__wire *wire = (const struct weir__wire *)connection;
        bool was_idle = wire->limited_by == OF_IDLE && weir__clock_now() >= weir__clock_after(wire->since, UNLOOKED);

        return !was_idle || weir__input_peek(&wire->stream->transport) == -EAGAIN;
}

struct weir__origin *
weir__client_origin(struct weir_client *client, const struct weir__destination *destination)
{
        static const struct weir__origin_ops ops = {
                .dial = weir__client_dial, .cancel_dials = weir__client_cancel_dials, .close = weir__wire_close};

        return weir__origin_of(client, &ops, destination);
}
