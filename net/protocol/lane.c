/* net/protocol/lane.c: a connection of an endpoint: the requests on it, and their replies.
 *
 *     idle <--> busy --full--> in no list, until there is room again
 *       \---------\--retire, a fault--> in no list --the last reply--> closed
 *
 * Threads: the owner of the endpoint's poller only. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/runtime/runtime.h"
#include "net/protocol/endpoint.h"

#define REPLY_LIMIT WEIR_SEC(60)
#define IDLE_LIMIT  WEIR_SEC(50)

static struct weir__lane *
lane_of(const struct weir_session *session)
{
        return (struct weir__lane *)session;
}

static struct weir__place *
place_of(struct weir__link *link)
{
        return link ? weir__container_of(link, struct weir__place, link) : NULL;
}

static struct weir__place *
first_place(const struct weir__lane *lane)
{
        return place_of(weir__list_first(&lane->places));
}

/* -- which list it is in -- */

static void
leave_list(struct weir__lane *lane)
{
        if (weir__link_is_used(&lane->link))
                weir__link_remove(&lane->link);
}

static void
enter_list(struct weir__lane *lane)
{
        struct weir_endpoint *endpoint = lane->endpoint;
        bool is_last = lane->link.next == &endpoint->busy.head;

        if (is_last && lane->count && lane->count < weir__protocol_depth(lane->session.protocol))
                return; /* those that are over, retired or with rests are in no list */
        leave_list(lane);
        if (lane->session.is_over || lane->is_retired || lane->rests ||
            lane->count >= weir__protocol_depth(lane->session.protocol))
                return;
        if (lane->count)
                weir__list_append(&endpoint->busy, &lane->link);
        else
                weir__list_prepend(&endpoint->idle, &lane->link);
}

/* A place is gone. */
static void
note_answer(struct weir__lane *lane)
{
        lane->count--;
        if (!lane->count)
                weir__session_note_use(&lane->session);
        if (!lane->count || !weir__link_is_used(&lane->link))
                enter_list(lane);
}

/* Whether a request that lives is on it. */
static bool
is_needed(const struct weir__lane *lane)
{
        for (struct weir__link *link = weir__list_first(&lane->places); link; link = weir__list_next(&lane->places, link))
                if (place_of(link)->request)
                        return true;
        return false;
}

/* Whether it may be closed: nobody waits for a reply on it, no message of the peer is being handled, and all is out. */
static bool
is_quiet(const struct weir__lane *lane)
{
        return !is_needed(lane) && weir__session_is_quiet(&lane->session);
}

/* It has taken its last request.  Messages that nobody has asked for are no longer taken in: they might go on for ever. */
static void
close_if_quiet(struct weir__lane *lane, int status)
{
        if (!lane->is_retired)
                return;
        lane->session.is_done = !is_needed(lane);
        if (is_quiet(lane))
                weir__session_end(&lane->session, status);
}

void
weir__lane_retire(struct weir__lane *lane)
{
        lane->is_retired = true;
        leave_list(lane);
        close_if_quiet(lane, 0);
}

/* -- sending -- */

/* When the reply to what was sent at that time must be there. */
static weir_nsec
late_at(const struct weir__lane *lane, weir_nsec now)
{
        return weir__clock_after(now, weir__protocol_limit(lane->session.protocol->reply_limit, REPLY_LIMIT));
}

static void
sent(struct weir__outgoing *outgoing, struct weir_session *session, int status)
{
        struct weir__asking *request = weir__container_of(outgoing, struct weir__asking, outgoing);

        if (status)
                return; /* the end of the session ends it */
        weir__asking_set_stage(request, WEIR_ASK_WAITING);
        if (!session->flushed_at)
                session->flushed_at = weir__clock_now();
        request->place.late_at = late_at(lane_of(session), session->flushed_at);
}

static struct weir__place *
find_place(const struct weir__lane *lane, uint64_t id)
{
        for (struct weir__link *link = weir__list_first(&lane->places); link; link = weir__list_next(&lane->places, link))
                if (place_of(link)->id == id)
                        return place_of(link);
        return NULL;
}

/* Gives the request a number that no other on the connection has.  Returns false if it has one that another has. */
static bool
give_id(struct weir__lane *lane, struct weir__asking *request)
{
        const struct weir_protocol *protocol = lane->session.protocol;
        uint64_t most = protocol->id_width ? UINT64_MAX >> (64 - 8 * protocol->id_width) : 0;

        request->place.id = request->id;
        if (protocol->match)
                return request->id >= WEIR_MATCH_OLDEST || !find_place(lane, request->id);
        if (!protocol->id_width)
                return true;
        for (unsigned tries = 0; tries <= lane->count; tries++) {
                lane->last_id = lane->last_id < most ? lane->last_id + 1 : 1;
                if (!find_place(lane, lane->last_id)) {
                        request->place.id = lane->last_id;
                        weir__frame_set_id(protocol, request->packed, request->size, lane->last_id);
                        return true;
                }
        }
        return false;
}

void
weir__lane_send(struct weir__lane *lane, struct weir__asking *request)
{
        if (!give_id(lane, request)) {
                weir__asking_end(request, -EEXIST);
                return;
        }
        weir__asking_set_stage(request, WEIR_ASK_SENDING);
        request->lane = lane;
        request->place.request = request;
        request->place.late_at = WEIR_FOREVER;
        weir__list_append(&lane->places, &request->place.link);
        lane->count++;
        enter_list(lane);
        request->outgoing = (struct weir__outgoing){.writer = {.data = request->packed, .left = request->size}, .done = sent};
        weir__session_put(&lane->session, &request->outgoing);
        if (weir__protocol_depth(lane->session.protocol) > 1 || lane->session.messages >= WEIR__PUSHES)
                weir__session_flush_later(&lane->session); /* with those that start now; then it reads on */
        else
                weir__session_send(&lane->session);
}

static void
leave_own_place(struct weir__lane *lane, struct weir__asking *request)
{
        weir__link_remove(&request->place.link);
        request->lane = NULL;
        note_answer(lane);
}

static void
leave_place(struct weir__lane *lane, struct weir__place *place)
{
        if (place->request) {
                leave_own_place(lane, place->request);
                return;
        }
        weir__link_remove(&place->link);
        free(place);
        note_answer(lane);
}

/* The reply to a request that was sent may still come.  An empty place stays, so that the reply is thrown away. */
static bool
leave_empty_place(struct weir__asking *request)
{
        struct weir__place *place = malloc(sizeof *place);

        if (!place)
                return false;
        *place = (struct weir__place){.id = request->place.id, .late_at = late_at(request->lane, weir__clock_now())};
        weir__link_insert(&place->link, request->place.link.previous, &request->place.link);
        weir__link_remove(&request->place.link);
        request->lane = NULL;
        return true;
}

void
weir__lane_leave(struct weir__asking *request)
{
        struct weir__lane *lane = request->lane;
        struct weir_session *session = &lane->session;
        bool is_queued = weir__link_is_used(&request->outgoing.writer.link);

        if (session->is_over) {
                leave_own_place(lane, request);
                return;
        }
        bool is_lost = is_queued && weir__output_is_on_its_way(&session->stream->transport, &request->outgoing.writer);
        if (is_queued)
                weir__link_remove(&request->outgoing.writer.link);
        if (is_queued && !is_lost) {
                leave_own_place(lane, request);
                weir__session_send(session);
                close_if_quiet(lane, 0);
                return;
        }
        if (is_lost || !leave_empty_place(request)) {
                leave_own_place(lane, request);
                weir__session_end(session, -ECONNABORTED);
                return;
        }
        if (weir__protocol_has_numbers(session->protocol))
                return;
        lane->is_retired = true;
        leave_list(lane);
        close_if_quiet(lane, -ECONNABORTED); /* nobody wants the reply that may be on its way */
}

/* -- what comes -- */

static int
receive_unsolicited(struct weir_session *session, const char *data, size_t size)
{
        if (!session->handler)
                return -EPROTO;
        int failed = weir__runtime_enter();
        failed = failed ? failed : weir__message_deliver(session, data, size, WEIR_MATCH_NONE);
        if (failed == -ENOMEM)
                weir__runtime_leave();
        return failed;
}

/* The rest of a request that was answered.  The peer may never take it, so no request is put behind it. */
struct rest {
        struct weir__outgoing outgoing; /* with the writer of the request, in its place */
        char *packed;
        size_t size;
};

static void
rest_sent(struct weir__outgoing *outgoing, struct weir_session *session, int status)
{
        struct rest *rest = weir__container_of(outgoing, struct rest, outgoing);
        struct weir__lane *lane = lane_of(session);

        weir__free(rest->packed, rest->size);
        free(rest);
        lane->rests--;
        if (!status)
                enter_list(lane);
}

/* Takes the bytes of a request that are not out: a copy of them if all are the program's.  Returns false when out of memory. */
static bool
take_bytes(struct rest *rest, struct weir__asking *request)
{
        struct weir__writer *writer = &rest->outgoing.writer;

        if (!request->ops->is_borrowed) {
                rest->packed = request->packed;
                rest->size = request->size;
                request->packed = NULL;
                return true;
        }
        rest->size = (size_t)writer->left;
        rest->packed = weir__alloc(rest->size);
        if (rest->packed)
                writer->data = memcpy(rest->packed, writer->data, rest->size);
        return rest->packed;
}

/* A reply has come before all of its request was out.  Result: 0; -EPROTO: nothing of it was out; -ENOMEM. */
static int
send_rest_alone(struct weir__asking *request)
{
        struct weir__lane *lane = request->lane;
        struct weir__writer *writer = &request->outgoing.writer;

        if (!weir__output_is_on_its_way(&lane->session.stream->transport, writer))
                return -EPROTO;
        struct rest *rest = malloc(sizeof *rest);
        if (!rest)
                return -ENOMEM;
        *rest = (struct rest){.outgoing = {.writer = *writer, .done = rest_sent}};
        if (!take_bytes(rest, request)) {
                free(rest);
                return -ENOMEM;
        }
        rest->outgoing.writer.link = (struct weir__link){0};
        weir__link_insert(&rest->outgoing.writer.link, writer->link.previous, &writer->link);
        weir__link_remove(&writer->link);
        lane->rests++;
        leave_list(lane);
        return 0;
}

static struct weir__place *
find_match(const struct weir__lane *lane, uint64_t id)
{
        const struct weir_protocol *protocol = lane->session.protocol;

        if (id == WEIR_MATCH_NONE)
                return NULL;
        if (!weir__protocol_has_numbers(protocol) || (protocol->match && id == WEIR_MATCH_OLDEST))
                return first_place(lane);
        return find_place(lane, id);
}

static int
receive(struct weir_session *session, const char *data, size_t size, uint64_t id)
{
        struct weir__lane *lane = lane_of(session);
        struct weir__place *place = find_match(lane, id);
        struct weir__asking *request = place ? place->request : NULL;

        if (!place)
                return receive_unsolicited(session, data, size);
        lane->answered += lane->answered < UINT32_MAX;
        if (!request) {
                leave_place(lane, place);
                return 0;
        }
        int failed = weir__link_is_used(&request->outgoing.writer.link) ? send_rest_alone(request) : 0;
        if (failed)
                return failed;
        leave_place(lane, place);
        weir__endpoint_count_requests(lane->endpoint, -1);
        request->ops->answered(request, session, data, size);
        return 0;
}

static bool
expects(const struct weir_session *session)
{
        return lane_of(session)->count || session->handler;
}

static bool
is_asked(const struct weir_session *session)
{
        return is_needed(lane_of(session));
}

/* -- limits -- */

/* Without numbers a place without a request has no limit: its connection takes no more, and those behind it have their own. */
static weir_nsec
limit(struct weir_session *session)
{
        const struct weir__lane *lane = lane_of(session);
        bool has_numbers = weir__protocol_has_numbers(session->protocol);
        weir_nsec first = WEIR_FOREVER;

        if (!lane->count)
                return weir__session_idle_until(session);
        for (struct weir__link *link = weir__list_first(&lane->places); link; link = weir__list_next(&lane->places, link)) {
                const struct weir__place *place = place_of(link);

                if ((place->request || has_numbers) && place->late_at < first)
                        first = place->late_at;
                if (place->request)
                        break; /* those behind it were sent later */
        }
        return first;
}

/* The reply may never come: then its place would be taken for ever. */
static void
give_up_place(struct weir__lane *lane, struct weir__place *place)
{
        leave_place(lane, place);
        lane->is_retired = true;
        leave_list(lane);
}

/* Without numbers the replies behind it cannot be told from its own. */
static void
late(struct weir_session *session)
{
        struct weir__lane *lane = lane_of(session);
        weir_nsec now = weir__clock_now();

        if (limit(session) > now)
                return;
        if (!lane->count) {
                if (is_quiet(lane))
                        weir__session_end(session, 0);
                return;
        }
        if (!weir__protocol_has_numbers(session->protocol)) {
                weir__session_end(session, -ETIMEDOUT);
                return;
        }
        for (struct weir__link *link = weir__list_first(&lane->places), *next; link && !session->is_over; link = next) {
                struct weir__place *place = place_of(link);
                struct weir__asking *request = place->request;

                next = weir__list_next(&lane->places, link);
                if (place->late_at > now)
                        continue;
                if (!request) {
                        give_up_place(lane, place);
                        continue;
                }
                weir__lane_leave(request);
                weir__asking_end(request, -ETIMEDOUT);
        }
}

/* -- the end -- */

static void
settled(struct weir_session *session)
{
        struct weir__lane *lane = lane_of(session);

        if (session->is_closing && !lane->is_retired)
                weir__lane_retire(lane);
        close_if_quiet(lane, 0);
        lane->endpoint->go_on(lane->endpoint);
}

/* The peer has closed a connection that was used before, and had not begun to answer.  So it may not have read the request. */
static bool
may_replay(const struct weir__lane *lane, const struct weir__asking *request, bool is_first)
{
        const struct weir_session *session = &lane->session;
        int status = session->status;
        bool was_closed = status == -ECONNRESET || status == -EPIPE;

        return was_closed && lane->answered && !request->is_replayed && session->protocol->is_idempotent &&
               !(is_first && (session->is_partial || session->partial_since));
}

/* Back to the front, in their order: from the last one on. */
static void
replay(struct weir__lane *lane)
{
        struct weir__link *head = &lane->places.head;

        for (struct weir__link *link = lane->count ? head->previous : head, *before; link != head; link = before) {
                struct weir__place *place = place_of(link);
                struct weir__asking *request = place->request;

                before = link->previous;
                if (!request || !may_replay(lane, request, first_place(lane) == place))
                        continue;
                leave_place(lane, place);
                request->is_replayed = true;
                weir__asking_set_stage(request, WEIR_ASK_QUEUED);
                weir__asking_queue(request, true);
        }
}

/* The others fail in their order, so that a program that asks once more does so in that order. */
static void
ended(struct weir_session *session)
{
        struct weir__lane *lane = lane_of(session);
        struct weir_endpoint *endpoint = lane->endpoint;

        leave_list(lane);
        replay(lane);
        for (struct weir__place *place; (place = first_place(lane));) {
                struct weir__asking *request = place->request;

                leave_place(lane, place);
                if (request)
                        weir__asking_end(request, session->status ? session->status : -ECONNRESET);
        }
        weir__link_remove(&lane->all);
        weir__endpoint_count(endpoint, -1);
        if (session->status && session->status != -ECONNABORTED && session->status != -ESHUTDOWN)
                weir__endpoint_add(&endpoint->lost);
        endpoint->go_on(endpoint);
}

static void
free_lane(struct weir_session *session)
{
        struct weir_endpoint *endpoint = lane_of(session)->endpoint;

        weir__free(lane_of(session), sizeof(struct weir__lane));
        weir__endpoint_drop(endpoint);
}

static const struct weir__side client_side = {
        .idle_limit = IDLE_LIMIT,
        .receive = receive,
        .expects = expects,
        .is_asked = is_asked,
        .settled = settled,
        .late = late,
        .limit = limit,
        .ended = ended,
        .free = free_lane,
        .cut = weir__session_cut,
        .cut_messages = weir__messages_cut,
};

int
weir__lane_begin(struct weir_endpoint *endpoint, struct weir_stream *stream)
{
        struct weir__lane *lane = weir__alloc(sizeof *lane);
        const struct weir_protocol *protocol = endpoint->protocol;

        if (!lane)
                return -ENOMEM;
        memset(lane, 0, sizeof *lane);
        weir__session_init(&lane->session, &client_side, protocol);
        lane->session.handler = protocol->unsolicited;
        lane->session.handler_context = protocol->context;
        lane->endpoint = endpoint;
        int failed = stream->transport.poller == endpoint->poller ? weir__session_open(&lane->session, stream) : -EXDEV;
        if (failed) {
                weir__free(lane, sizeof *lane);
                return failed;
        }
        weir__endpoint_keep(endpoint);
        weir__endpoint_count(endpoint, 1);
        weir__endpoint_add(&endpoint->connects);
        weir__list_append(&endpoint->lanes, &lane->all);
        enter_list(lane);
        weir__session_receive(&lane->session);
        return 0;
}
