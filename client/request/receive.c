/* client/request/receive.c: the response of a request: its body in memory, without its coding; and what follows it.
 *
 * Threads: the owner of the request's poller. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/request/request.h"
#include "client/wire/wire.h"
#include "factory/task/series.h"

#define DOUBLED_FROM 4096 /* bytes: a body's room that is smaller gets just what is needed */

/* -- the body -- */

/* Makes room for that many bytes more, and a NUL. */
static int
make_room(struct weir__client_request *request, size_t more)
{
        size_t needed = request->body_size + more + 1, room = request->body_room;

        if (more > request->max_body - request->body_size)
                return -EMSGSIZE;
        if (needed <= room)
                return 0;
        room = room < DOUBLED_FROM ? needed : 2 * room < needed ? needed : 2 * room;
        char *body = realloc(request->body, room);
        if (!body)
                return -ENOMEM;
        request->body = body;
        request->body_room = room;
        return 0;
}

static int
append(struct weir__client_request *request, const char *data, size_t size)
{
        int failed = make_room(request, size);

        if (failed)
                return failed;
        memcpy(request->body + request->body_size, data, size);
        request->body_size += size;
        return 0;
}

static int
decode(struct weir__client_request *request, const char *data, size_t size)
{
        char out[16384];
        size_t used, made;

        do {
                int failed = weir__decoder_feed(request->decoder, data, size, &used, out, sizeof out, &made);

                if (failed)
                        return failed == -EMSGSIZE ? -E2BIG : failed;
                failed = append(request, out, made);
                if (failed)
                        return failed;
                data += used;
                size -= used;
        } while (size || made == sizeof out);
        return 0;
}

/* Counts a piece of a body that nobody wants, or of a redirect that is followed.  Too many bytes are an error. */
static int
throw_away(struct weir__client_request *request, size_t size)
{
        request->body_size += size;
        request->is_cut = request->body_size > WEIR__DRAINED;
        return request->is_cut ? -EMSGSIZE : 0;
}

static int
take_body(struct weir__http_call *call, const char *data, size_t size, bool is_last)
{
        struct weir__client_request *request = weir__client_request_of_call(call);

        (void)is_last;
        if (request->is_redirected)
                return throw_away(request, size);
        return request->decoder ? decode(request, data, size) : append(request, data, size);
}

/* -- the head -- */

/* Result: 0; -ENOTSUP: it has a coding that is not known, or too many; -ENOMEM. */
static int
begin_coding(struct weir__client_request *request)
{
        const struct weir_client_config *config = &request->draft.client->config;
        const struct weir__decoder_limits limits = {config->max_inflated, config->max_ratio};
        const struct weir__received *received = request->call.received;
        struct weir__decoder_plan plan = {.count = 0};
        const char *coding;
        uint32_t at = 0;
        int failed = 0;

        if (!request->draft.asks_coding || received->end == WEIR__RECEIVED_NOTHING)
                return 0;
        while (!failed && (coding = weir__fields_next(received->fields, received->field_count, "Content-Encoding", &at)))
                failed = weir__decoder_plan(&plan, coding);
        return failed ? failed : weir__decoder_new(&plan, &limits, &request->decoder);
}

static int
take_head(struct weir__http_call *call)
{
        struct weir__client_request *request = weir__client_request_of_call(call);
        const struct weir__received *received = call->received;

        weir__hedge_forget(request);
        weir__draft_take_cookies(&request->draft, received);
        request->is_redirected = weir__client_request_follows(request);
        if (request->is_redirected)
                return 0;
        int failed = begin_coding(request);
        if (failed || request->decoder || received->end != WEIR__RECEIVED_LENGTH)
                return failed;
        return received->content_length > request->max_body ? -EMSGSIZE : make_room(request, (size_t)received->content_length);
}

/* -- the end -- */

static void
forget_response(struct weir__client_request *request)
{
        weir__http_call_drop_response(&request->call);
        weir__decoder_free(request->decoder);
        request->decoder = NULL;
        request->body_size = 0;
}

/* A server that keeps connections may close one just when a request goes out, and others at the same time, as when it gets a
 * new configuration: so a replay wants a new connection.  Source: RFC 9112 section 9.3.1. */
static bool
should_replay(const struct weir__client_request *request, bool may_replay)
{
        return may_replay && request->draft.is_idempotent && !request->seeker.wants_fresh;
}

static void
replay(struct weir__client_request *request)
{
        weir__hedge_forget(request);
        weir__client_branch_count(weir__client_request_branch(request), WEIR__CLIENT_REPLAYED);
        request->seeker.wants_fresh = true;
        forget_response(request);
        weir__client_request_seek(request);
}

static void
follow(struct weir__client_request *request)
{
        weir__hedge_end(request, 0);
        int failed = weir__client_request_redirect(request);

        if (failed) {
                request->body_size = 0;
                weir__client_request_end(request, failed);
                return;
        }
        forget_response(request);
        request->is_redirected = request->is_cut = request->seeker.wants_fresh = request->seeker.was_handed = false;
        request->seeker.is_fixed = request->is_second;
        weir__client_request_seek(request);
}

/* Source of the list of those that may be over soon: what curl --retry and others take for that. */
static int
failure_of(int response)
{
        switch (response) {
        case 408:
        case 425:
        case 429:
        case 502:
        case 503:
        case 504: return -EBUSY;
        default: return response >= 400 ? -EREMOTEIO : 0;
        }
}

void
weir__client_request_ended(struct weir__client_request *request, int status, bool may_replay)
{
        if (should_replay(request, may_replay))
                replay(request);
        else
                weir__client_request_end(request, status);
}

static void
started(struct weir__http_call *call)
{
        weir__hedge_set(weir__client_request_of_call(call));
}

static void
ended(struct weir__http_call *call, int status, bool may_replay)
{
        struct weir__client_request *request = weir__client_request_of_call(call);

        if (request->is_redirected && (!status || request->is_cut)) {
                follow(request);
                return;
        }
        if (!status && request->decoder && !weir__decoder_may_end(request->decoder))
                status = -EBADMSG;
        if (!status && request->fails_on_error)
                status = failure_of(request->call.received->status);
        if (!weir__hedge_holds(request, status, may_replay))
                weir__client_request_ended(request, status, may_replay);
}

static struct weir__trace_flow *
trace(struct weir__http_call *call, char *name, size_t room)
{
        struct weir__client_request *request = weir__client_request_of_call(call);
        char origin[WEIR__ORIGIN_TEXT] = "";

        if (request->origin)
                weir__origin_print(request->origin, origin);
        snprintf(name, room, "%s %s", request->draft.method, origin);
        return weir__series_trace_flow(request->io.task.series);
}

const struct weir__http_call_ops weir__client_request_call_ops = {
        .trace = trace, .started = started, .head = take_head, .body = take_body, .ended = ended};
