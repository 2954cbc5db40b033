/* net/protocol/cut.c: what functions of the program say of the bytes that have come: where messages end, and their numbers.
 *
 *     the owner: takes the input --work item--> in a call of the program's: ends, numbers --> the owner: receives the messages
 *     --> in a call of the program's: what was asked directly gets its replies --> the owner: goes on
 *
 * Threads: the owner, but for the call: the watchdog may take the poller away meanwhile.  Then the rest goes to the new owner.
 *
 * Meanwhile nothing reads the session, and the bytes belong to the call: the stream may be closed under it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "factory/task/task.h"
#include "kernel/worker/deliver.h"
#include "net/protocol/session.h"

#define CUT_AT_ONCE 72 /* messages of one call; so that malloc has it at hand */

struct weir__cut {
        struct weir__work work;
        struct weir_session *session; /* a reference */
        struct weir__input input;

        /* Of the call. */
        unsigned most, count;
        int failed;
        uint32_t sizes[CUT_AT_ONCE];
        uint64_t ids[CUT_AT_ONCE];

        /* The owner's. */
        unsigned taken; /* of those */
        size_t at;      /* bytes of them */
        struct weir__work_list answered;
};

/* -- the call -- */

static _Thread_local uint64_t *words; /* while a frame function runs on this thread: those of its session; else NULL */

uint64_t *
weir_frame_words(void)
{
        return words;
}

/* Another message is the first one. */
static void
forget(struct weir_session *session)
{
        session->scanned = session->wanted = 0;
        memset(session->words, 0, sizeof session->words);
}

static ssize_t
find_end(struct weir_session *session, const char *data, size_t size)
{
        const struct weir_protocol *protocol = session->protocol;

        if (!protocol->frame)
                return weir__frame_end(protocol, data, size, &session->scanned);
        words = session->words;
        ssize_t end = protocol->frame(data, size, protocol->context);
        words = NULL;
        session->wanted = end > 0 ? (size_t)end : 0;
        return weir__frame_check(protocol, end, size);
}

static uint64_t
find_id(const struct weir_session *session, const char *data, size_t size)
{
        const struct weir_protocol *protocol = session->protocol;
        struct weir__part body = weir__frame_body(protocol, size);

        if (protocol->match && !session->side->is_server)
                return protocol->match(data + body.at, body.size, protocol->context);
        return protocol->id_width ? weir__frame_id(protocol, data, size) : WEIR_MATCH_OLDEST;
}

static void
look(void *argument)
{
        struct weir__cut *cut = argument;
        struct weir_session *session = cut->session;

        for (size_t at = 0; at < cut->input.size && cut->count < cut->most;) {
                const char *data = cut->input.data + at;
                ssize_t end = find_end(session, data, cut->input.size - at);

                cut->failed = end < 0 ? (int)end : 0;
                if (end <= 0)
                        return;
                cut->sizes[cut->count] = (uint32_t)end;
                cut->ids[cut->count++] = find_id(session, data, (size_t)end);
                forget(session);
                at += (size_t)end;
        }
}

/* -- the owner -- */

/* A session that was closed meanwhile takes in no more. */
static int
receive(struct weir_session *session, struct weir__cut *cut)
{
        for (; cut->taken < cut->count && weir__session_has_room(session); cut->taken++) {
                size_t size = cut->sizes[cut->taken];
                int failed = session->side->receive(session, cut->input.data + cut->at, size, cut->ids[cut->taken]);

                if (failed)
                        return failed;
                cut->at += size;
                session->partial_since = 0;
        }
        return cut->taken < cut->count ? 0 : cut->failed;
}

/* Goes on with the work item, on the owner: at once if the worker has kept its poller in the call. */
static void
go_on(struct weir__work *work, struct weir__poller *poller, const struct weir__work_ops *next)
{
        work->ops = next;
        if (weir__worker_self()->poller == poller)
                next->run(work);
        else
                weir__deliver(poller, work);
}

static void
run_done(struct weir__work *work)
{
        struct weir__cut *cut = weir__container_of(work, struct weir__cut, work);
        struct weir_session *session = cut->session;
        size_t at = cut->at;

        session->is_called = false;
        session->cut = NULL;
        if (!cut->failed && !session->is_over) {
                struct weir__transport *transport = &session->stream->transport;

                transport->input = cut->input;
                cut->input.data = NULL;
                if (cut->taken < cut->count) /* other bytes are first now */
                        forget(session);
                else if (at < transport->input.size && cut->count < cut->most)
                        weir__session_note_partial(session);
                if (at)
                        (void)weir__input_keep(transport, transport->input.data + at, transport->input.size - at);
        }
        if (cut->failed)
                weir__session_end(session, cut->failed);
        free(cut->input.data);
        free(cut);
        weir__session_receive(session);
        weir__session_drop(session);
}

static const struct weir__work_ops done_ops = {.run = run_done};

static const struct weir__callee reply_callee = {"the reply function of", "a protocol", "a reply function"};

static void
answer(void *list)
{
        for (struct weir__work *work; (work = weir__work_pop(list));)
                work->ops->run(work);
}

static void
run_receive(struct weir__work *work)
{
        struct weir__cut *cut = weir__container_of(work, struct weir__cut, work);
        struct weir_session *session = cut->session;
        struct weir__poller *poller = weir__poller_at(session->poller);

        session->is_called = false;
        session->answered = &cut->answered;
        cut->failed = session->is_over ? 0 : receive(session, cut);
        session->answered = NULL;
        if (cut->answered.first) {
                session->is_called = true;
                weir__user_call_as(&reply_callee, NULL, answer, &cut->answered);
        }
        go_on(work, poller, &done_ops);
}

static const struct weir__work_ops receive_ops = {.run = run_receive};

static const struct weir__callee frame_callee = {"the frame or match function of", "a protocol", "a frame function"};

static void
run_call(struct weir__work *work)
{
        struct weir__cut *cut = weir__container_of(work, struct weir__cut, work);
        struct weir__poller *poller = weir__poller_at(cut->session->poller);

        cut->session->is_called = true;
        weir__user_call_as(&frame_callee, NULL, look, cut);
        go_on(work, poller, &receive_ops);
}

static const struct weir__work_ops call_ops = {.run = run_call};

void
weir__session_cut(struct weir_session *session)
{
        struct weir__transport *transport = &session->stream->transport;
        unsigned room = weir__session_room(session);
        struct weir__cut *cut;

        if (session->cut)
                return;
        cut = malloc(sizeof *cut);
        if (!cut) {
                weir__session_end(session, -ENOMEM);
                return;
        }
        cut->work.ops = &call_ops;
        cut->session = session;
        cut->input = transport->input;
        cut->most = room < CUT_AT_ONCE ? room : CUT_AT_ONCE;
        cut->count = cut->taken = 0;
        cut->failed = 0;
        cut->at = 0;
        cut->answered = (struct weir__work_list){0};
        transport->input = (struct weir__input){.data = NULL};
        session->cut = cut;
        weir__session_keep(session);
        weir__deliver(weir__poller_at(session->poller), &cut->work);
}
