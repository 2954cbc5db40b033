/* client/wire/receive.c: what a server sends: interim responses, the head of the response, its body.
 *
 * Threads: the owner of the connection's poller.
 * Locks:   none.
 *
 * Bytes are read into the poller's scratch buffer and used there.  Kept are only the part of a head, and bytes of a body that the
 * call does not want yet. */
#include <errno.h>
#include <string.h>

#include "client/wire/wire.h"
#include "kernel/base/clock.h"

#define LINE_MAX_SIZE  ((size_t)8 * 1024) /* bytes of the status line */
#define FIELDS_MAX     256
#define TRAILERS_MAX   ((size_t)16 * 1024)
#define TRAILER_FIELDS 64
#define EXTENSIONS_MAX ((size_t)16 * 1024)

static bool
wants_body(const struct weir__http_call *call)
{
        return !call->ops->wants_body || call->ops->wants_body(call);
}

/* Whether more may be taken in now. */
static bool
may_take(const struct weir__wire *wire)
{
        const struct weir__http_call *call = wire->call;

        return wire->stream && (!call || (wire->is_body ? wants_body(call) : !call->is_shown));
}

/* -- heads -- */

/* An interim response.  Source: RFC 9110 section 15.2. */
static int
take_interim(struct weir__wire *wire, size_t size)
{
        struct weir__http_call *call = wire->call;

        wire->interim += (uint32_t)size;
        wire->gate = (struct weir__gate){.scanned = 0};
        weir__gate_begin_response(&wire->gate);
        bool is_too_much = wire->interim > call->max_head;
        if (call->wants_interim && !is_too_much)
                call->ops->interim(call);
        if (!call->is_shown)
                weir__http_call_drop_response(call);
        return is_too_much ? -EMSGSIZE : 0;
}

static int
note_fault(struct weir__http_call *call, enum weir__http_fault fault, int failure)
{
        call->fault = (uint8_t)fault;
        return failure;
}

static int
begin_body(struct weir__wire *wire)
{
        struct weir__http_call *call = wire->call;

        wire->is_body = true;
        wire->end = call->received->end;
        wire->left = call->received->content_length;
        wire->chunked = (struct weir__chunked){.left = 0};
        weir__http_call_set_stage(call, WEIR_HTTP_RECEIVING);
        if (wire->end == WEIR__RECEIVED_TUNNEL && !call->wants_upgrade)
                return note_fault(call, WEIR__FAULT_UPGRADE, -EBADMSG);
        return call->ops->head(call);
}

/* Reads the first head in the bytes, which begin where it begins.
 * Result: its size; 0: it is not complete; or a negative errno. */
static ssize_t
take_head(struct weir__wire *wire, const char *data, size_t size)
{
        struct weir__http_call *call = wire->call;
        const struct weir__gate_limits limits = {LINE_MAX_SIZE, call->max_head - wire->interim, FIELDS_MAX};
        size_t head_size;
        int verdict = weir__gate_feed(&wire->gate, &limits, data, size, &head_size);

        if (verdict == WEIR__GATE_MORE)
                return 0;
        weir__http_call_drop_response(call); /* an interim one */
        if (verdict != WEIR__GATE_HEAD)
                return note_fault(call, wire->gate.fields ? WEIR__FAULT_FIELD : WEIR__FAULT_LINE, weir__received_error(verdict));
        int failed = weir__received_new(data, head_size, (enum weir__received_for)call->response_for, weir__alloc,
                                        &call->received);
        if (failed)
                return note_fault(call, WEIR__FAULT_MEANING, failed);
        if (call->received->status / 100 == 1 && call->received->status != 101)
                failed = take_interim(wire, head_size);
        else
                failed = begin_body(wire);
        return failed ? failed : (ssize_t)head_size;
}

/* -- bodies -- */

/* Returns 1 when the body has ended, 0 when more is to come, or a negative errno; *used bytes were looked at. */
static int
take_body(struct weir__wire *wire, char *data, size_t size, size_t *used)
{
        static const struct weir__chunked_limits limits = {EXTENSIONS_MAX, TRAILERS_MAX, TRAILER_FIELDS};
        struct weir__http_call *call = wire->call;
        size_t payload = size;
        int verdict = WEIR__CHUNKED_MORE;
        bool is_last = false;

        *used = size;
        switch ((enum weir__received_end)wire->end) {
        case WEIR__RECEIVED_NOTHING: *used = payload = 0; break;
        case WEIR__RECEIVED_LENGTH:
                *used = payload = size < wire->left ? size : (size_t)wire->left;
                wire->left -= payload;
                is_last = !wire->left;
                break;
        case WEIR__RECEIVED_CHUNKED:
                verdict = size ? weir__chunked_feed(&wire->chunked, &limits, data, size, used, &payload) : verdict;
                is_last = verdict == WEIR__CHUNKED_END;
                if (verdict != WEIR__CHUNKED_MORE && !is_last)
                        call->fault = WEIR__FAULT_CHUNK;
                break;
        case WEIR__RECEIVED_CLOSE:
        case WEIR__RECEIVED_TUNNEL: break;
        }
        int failed = payload ? call->ops->body(call, data, payload, is_last) : 0;
        if (failed)
                return failed;
        switch ((enum weir__received_end)wire->end) {
        case WEIR__RECEIVED_NOTHING: return 1;
        case WEIR__RECEIVED_LENGTH: return wire->left == 0;
        case WEIR__RECEIVED_CHUNKED:
                return verdict == WEIR__CHUNKED_MORE ? 0 : verdict == WEIR__CHUNKED_END ? 1 : weir__received_error(verdict);
        default: return 0;
        }
}

/* Takes bytes off the front.  Returns how many were used; the rest waits for more, or for the call to want it.  A failure ends
 * the connection; a complete response ends the call. */
static size_t
take(struct weir__wire *wire, char *data, size_t size)
{
        size_t at = 0;
        bool is_over = false;

        while (wire->call && !is_over) {
                size_t used = 0;
                int result = 0;

                if (!wire->is_body) {
                        ssize_t head = at < size && !wire->call->is_shown ? take_head(wire, data + at, size - at) : 0;

                        if (head == 0)
                                break;
                        result = head < 0 ? (int)head : 0;
                        used = head > 0 ? (size_t)head : 0;
                        if (result == 0 && wire->is_body && wire->end == WEIR__RECEIVED_NOTHING)
                                result = 1;
                } else {
                        if ((at == size && wire->end != WEIR__RECEIVED_NOTHING) || !wants_body(wire->call))
                                break;
                        result = take_body(wire, data + at, size - at, &used);
                }
                at += used;
                if (result > 0)
                        weir__wire_complete(wire, at < size);
                else if (result < 0)
                        weir__wire_end(wire, result);
                is_over = result != 0;
        }
        return at;
}

/* -- input -- */

/* Uses what is kept.  Returns false when nothing more is to be read. */
static bool
take_kept(struct weir__wire *wire)
{
        struct weir__transport *transport = &wire->stream->transport;
        size_t size = transport->input.size;

        if (!size || !wire->call || (!wire->is_body && wire->gate.scanned >= size))
                return may_take(wire);
        size_t used = take(wire, transport->input.data, size);
        if (wire->stream && wire->stream->transport.input.size) {
                if (used && !weir__input_keep(transport, transport->input.data + used, size - used))
                        weir__wire_end(wire, -ENOMEM);
        }
        return may_take(wire);
}

static int
take_in(struct weir__wire *wire, char *data, size_t size)
{
        struct weir__transport *transport = &wire->stream->transport;

        if (!wire->call) /* nobody has asked for it */
                return -EPROTO;
        wire->has_come = true;
        if (transport->input.size) {
                if (!weir__input_append(transport, data, size))
                        return -ENOMEM;
                (void)take_kept(wire);
                return 0;
        }
        size_t used = take(wire, data, size);
        if (!wire->call && used < size)
                return wire->stream ? -EPROTO : 0;
        return used == size || weir__input_keep(transport, data + used, size - used) ? 0 : -ENOMEM;
}

/* A connection that is broken: in the middle of a response, or before. */
static int
broken(const struct weir__wire *wire, int failure)
{
        if (failure != -ECONNRESET && failure != -ECONNABORTED && failure != -EPIPE)
                return failure;
        return wire->has_come ? -ECONNABORTED : -ECONNRESET;
}

/* The server has finished its side, orderly. */
static int
end_of_input(struct weir__wire *wire)
{
        if (!wire->call)
                return 0;
        if (wire->is_body && !wire->is_cut && (wire->end == WEIR__RECEIVED_CLOSE || wire->end == WEIR__RECEIVED_TUNNEL)) {
                weir__wire_complete(wire, false);
                return 0;
        }
        return broken(wire, -ECONNRESET);
}

/* Where the next bytes go: most of a long body to those who want it, all else to the scratch buffer.  NULL: the latter. */
static char *
room_of_call(const struct weir__wire *wire, size_t *size)
{
        struct weir__http_call *call = wire->call;
        bool may = call && wire->is_body && call->ops->make_room && !wire->stream->transport.input.size &&
                   (wire->end == WEIR__RECEIVED_LENGTH || wire->end == WEIR__RECEIVED_CLOSE);

        *size = WEIR__SCRATCH_SIZE;
        if (may && wire->end == WEIR__RECEIVED_LENGTH && wire->left < *size)
                *size = (size_t)wire->left;
        char *room = may ? call->ops->make_room(call, *size) : NULL;
        if (!room)
                *size = WEIR__SCRATCH_SIZE;
        return room;
}

static void
read_on(struct weir__wire *wire)
{
        char *scratch = weir__transport_poller(&wire->stream->transport)->scratch;

        while (wire->stream && take_kept(wire) && weir__transport_may_read(&wire->stream->transport)) {
                struct weir_stream *stream = wire->stream;
                size_t size;
                char *own = room_of_call(wire, &size), *room = own ? own : scratch;
                ssize_t got = weir__input_read(&stream->transport, room, size);

                if (own && got <= 0)
                        wire->call->ops->drop_room(wire->call);
                if (got == -EAGAIN)
                        return;
                if (wire->is_body)
                        wire->since = weir__clock_now();
                if (got > 0)
                        weir__stream_count_received(stream, (size_t)got);
                int failed = got > 0 ? take_in(wire, room, (size_t)got) : got == 0 ? end_of_input(wire) : broken(wire, (int)got);
                if (got <= 0 || failed)
                        weir__wire_end(wire, failed);
        }
}

void
weir__wire_receive(struct weir__wire *wire)
{
        if (wire->is_receiving)
                return;
        wire->is_receiving = true;
        if (wire->stream)
                read_on(wire);
        if (wire->stream && wire->call && wire->is_body && wire->end != WEIR__RECEIVED_TUNNEL && wire->call->ops->paused)
                wire->call->ops->paused(wire->call);
        wire->is_receiving = false;
}
