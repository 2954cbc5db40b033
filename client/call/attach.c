/* client/call/attach.c: how a call finds its connection, and what it hears of it.
 *
 * Threads: the owner of the call's poller; it stays there.
 * Locks:   none of its own; in the queue of its origin that one's lock. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/call/call.h"
#include "client/request/request.h"
#include "client/wire/dial.h"
#include "client/wire/wire.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/memory/piece.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"

#define DRAIN_LIMIT WEIR_SEC(1) /* for the rest of a response that nobody wants */

static struct weir__client_branch *
branch_of(const struct weir_http_call *self)
{
        return weir__origin_branch(self->origin, self->poller);
}

static void
clear_alarm(struct weir_http_call *self)
{
        if (self->has_alarm && weir__alarm_clear(weir__poller_at(self->poller), &self->late))
                weir__call_drop(self);
        self->has_alarm = false;
}

/* What the program did not wait for says nothing about the member. */
static enum weir__outcome
outcome_of(const struct weir_http_call *self, int status)
{
        if (!self->is_given_up)
                return weir__client_target_outcome(status, self->has_head ? self->call.received->status : 0);
        return self->has_head ? weir__client_target_outcome(0, self->call.received->status) : WEIR__OUTCOME_CANCELLED;
}

/* It is in no queue and on no connection any more. */
static void
be_over(struct weir_http_call *self, int status)
{
        self->state = WEIR__CALL_OVER;
        atomic_store_explicit(&self->is_over, true, memory_order_relaxed);
        self->status = status;
        clear_alarm(self);
        weir__http_call_end_stage(&self->call);
        if (status && !self->has_head && self->origin)
                weir__client_branch_count(branch_of(self), WEIR__CLIENT_FAILED);
        weir__client_target_report(&self->target, outcome_of(self, status));
        weir__call_end_tasks(self);
}

/* -- on its connection -- */

static void
started(struct weir__http_call *call)
{
        struct weir_http_call *self = weir__call_of(call);

        self->state = WEIR__CALL_WIRED;
        for (struct weir__link *link = weir__list_first(&self->writers); link; link = weir__list_next(&self->writers, link))
                weir__wire_put(call, &weir__container_of(link, struct weir__call_task, waiting)->writer);
}

static void
complete_heads(struct weir_http_call *self)
{
        for (struct weir__link *link; (link = weir__list_pop(&self->heads));)
                weir__call_complete(weir__container_of(link, struct weir__call_task, waiting), 0);
}

static void
take_interim(struct weir__http_call *call)
{
        struct weir_http_call *self = weir__call_of(call);
        struct weir__call_task *first = self->reader && self->reader->kind == WEIR__CALL_FIRST ? self->reader : NULL;

        if (!first && weir__list_is_empty(&self->heads))
                return;
        call->is_shown = true; /* a callback may run at once */
        complete_heads(self);
        if (!first)
                return;
        self->reader = NULL;
        weir__call_complete(first, 0);
}

/* After 101 the heads wait for the stream. */
static int
take_head(struct weir__http_call *call)
{
        struct weir_http_call *self = weir__call_of(call);

        self->has_head = true;
        weir__draft_take_cookies(&self->draft, call->received);
        if (call->received->end != WEIR__RECEIVED_TUNNEL)
                complete_heads(self);
        return 0;
}

static bool
wants_body(const struct weir__http_call *call)
{
        const struct weir_http_call *self = weir__call_of((struct weir__http_call *)call);

        if (call->received && call->received->end == WEIR__RECEIVED_TUNNEL) /* the bytes behind it are the stream's */
                return false;
        return self->reader || self->is_drained;
}

/* What was read in place stays there, unless most of the room is empty. */
static bool
keep_piece(struct weir__call_task *reader, const char *data, size_t size)
{
        char *room = reader->data;

        if (!room || data != room || size < WEIR__PIECE_LARGE / 4) {
                reader->data = weir__piece_copy(data, size);
                weir__piece_free(room);
        } else {
                reader->data[size] = '\0';
        }
        reader->size = reader->data ? size : 0;
        return reader->data;
}

/* A read has room of its own for a large piece, so that it is not copied. */
static char *
make_room(struct weir__http_call *call, size_t size)
{
        struct weir__call_task *reader = weir__call_of(call)->reader;

        if (!reader || size < WEIR__PIECE_LARGE / 2)
                return NULL;
        reader->data = weir__piece_new(WEIR__PIECE_LARGE);
        return reader->data;
}

/* Frees the memory that was made for a read which got nothing, or failed. */
static void
drop_room(struct weir__http_call *call)
{
        struct weir__call_task *reader = weir__call_of(call)->reader;

        weir__piece_free(reader->data);
        reader->data = NULL;
}

static int
take_body(struct weir__http_call *call, const char *data, size_t size, bool is_last)
{
        struct weir_http_call *self = weir__call_of(call);
        struct weir__call_task *reader = self->reader;

        if (!reader) {
                self->drained += size;
                return self->drained > WEIR__DRAINED ? -ECONNABORTED : 0;
        }
        if (!keep_piece(reader, data, size))
                return -ENOMEM;
        reader->is_last = is_last;
        self->reader = NULL;
        weir__call_complete(reader, 0);
        return 0;
}

/* A first read has the head, and does not wait for the body. */
static void
paused(struct weir__http_call *call)
{
        struct weir_http_call *self = weir__call_of(call);
        struct weir__call_task *reader = self->reader;

        if (!reader || reader->kind != WEIR__CALL_FIRST)
                return;
        self->reader = NULL;
        weir__call_complete(reader, 0);
}

/* All that has a length was written: no end has to be said. */
static bool
is_whole(const struct weir_http_call *self)
{
        return self->framing == WEIR__DRAFT_LENGTH && !self->length && weir__list_is_empty(&self->writers);
}

static void
written(struct weir__http_call *call, struct weir__writer *writer)
{
        struct weir_http_call *self = weir__call_of(call);
        struct weir__call_task *task = weir__container_of(writer, struct weir__call_task, writer);

        weir__link_remove(&task->waiting);
        if (task->kind == WEIR__CALL_FINISH || is_whole(self))
                call->has_more = false;
        weir__call_complete(task, 0);
}

/* The body of the response may still be read. */
static void
cut(struct weir__http_call *call)
{
        struct weir_http_call *self = weir__call_of(call);

        self->is_cut = true;
        for (struct weir__link *link; (link = weir__list_pop(&self->writers));)
                weir__call_complete(weir__container_of(link, struct weir__call_task, waiting), -EPIPE);
}

static void seek(struct weir_http_call *self);

static void
ended(struct weir__http_call *call, int status, bool may_replay)
{
        struct weir_http_call *self = weir__call_of(call);

        if (may_replay && self->framing == WEIR__DRAFT_NO_BODY && self->draft.is_idempotent && !self->seeker.wants_fresh) {
                self->seeker.wants_fresh = true;
                weir__client_branch_count(branch_of(self), WEIR__CLIENT_REPLAYED);
                seek(self);
                return;
        }
        be_over(self, status);
        weir__call_drop(self);
}

static struct weir__trace_flow *
trace(struct weir__http_call *call, char *name, size_t room)
{
        struct weir_http_call *self = weir__call_of(call);
        char origin[WEIR__ORIGIN_TEXT];

        weir__origin_print(self->origin, origin);
        snprintf(name, room, "%s %s", self->draft.method, origin);
        return NULL; /* its tasks may be in several series */
}

static const struct weir__http_call_ops call_ops = {
        .trace = trace,
        .started = started,
        .interim = take_interim,
        .head = take_head,
        .body = take_body,
        .make_room = make_room,
        .drop_room = drop_room,
        .wants_body = wants_body,
        .paused = paused,
        .written = written,
        .cut = cut,
        .ended = ended,
};

/* -- seeking -- */

static void
start(struct weir_http_call *self, struct weir__pooled *connection)
{
        self->call.head = (struct weir__writer){.data = self->draft.head, .left = self->draft.head_size};
        self->call.has_more = self->framing != WEIR__DRAFT_NO_BODY && !is_whole(self);
        weir__wire_start(weir__wire_of(connection), &self->call);
}

static void
seek(struct weir_http_call *self)
{
        struct weir__pooled *connection;

        self->state = WEIR__CALL_SEEKING;
        weir__http_call_set_stage(&self->call, WEIR_HTTP_QUEUED);
        while ((connection = weir__pool_get(branch_of(self), &self->seeker)) && !weir__wire_is_alive(connection))
                weir__wire_close(connection);
        if (connection)
                start(self, connection);
        else
                weir__pool_wait(branch_of(self), &self->seeker);
}

static bool
claim(struct weir__seeker *seeker)
{
        (void)seeker;
        return true;
}

static void
granted(struct weir__seeker *seeker, unsigned poller)
{
        weir__deliver(weir__poller_at(poller), &weir__container_of(seeker, struct weir_http_call, seeker)->granted);
}

static const struct weir__seeker_ops seeker_ops = {.claim = claim, .granted = granted};

/* -- another member -- */

/* It has a member anew.  Returns false when out of memory. */
static bool
go_elsewhere(struct weir_http_call *self)
{
        struct weir__origin *to = weir__client_target_origin(&self->target, &self->draft, self->upgrade);
        unsigned i = 0;

        if (!to)
                return false;
        while (self->left[i])
                i++;
        self->left[i] = self->origin;
        self->origin = to;
        free(self->seeker.problem);
        self->seeker.problem = NULL;
        self->seeker.failure = 0;
        return true;
}

/* A function of the program chooses the member, which the call hears of when its work item runs; it may be OVER by then.  Behind
 * the function this worker may have no poller.  Returns false when nothing is chosen. */
static bool
ask_program(struct weir_http_call *self)
{
        struct weir__poller *poller = weir__poller_at(self->poller);
        struct weir__client_target *choice = malloc(sizeof *choice);

        if (!choice || weir__runtime_enter() != 0) {
                free(choice);
                return false;
        }
        *choice = self->target;
        self->target.upstream = NULL;
        (void)weir__client_target_again(choice);
        self->choice = choice;
        weir__deliver(poller, &self->granted);
        return true;
}

static void
take_choice(struct weir_http_call *self)
{
        struct weir__client_target *choice = self->choice;

        self->choice = NULL;
        if (self->state == WEIR__CALL_OVER)
                weir__client_target_report(choice, WEIR__OUTCOME_CANCELLED);
        else
                self->target = *choice;
        free(choice);
        weir__runtime_leave();
}

/* A connect has failed, or the program has chosen since.  It seeks a connection to another member, if there is one. */
static void
try_elsewhere(struct weir_http_call *self, bool has_choice)
{
        if (!has_choice && !weir__phase_is_stopping() && weir__client_target_may_again(&self->target, self->seeker.failure)) {
                if (weir__client_target_calls_program(&self->target) && ask_program(self))
                        return;
                has_choice = !weir__client_target_calls_program(&self->target) && weir__client_target_again(&self->target);
        }
        if (has_choice && self->target.upstream && go_elsewhere(self)) {
                seek(self);
                return;
        }
        weir__http_call_set_stage(&self->call, self->seeker.stage);
        be_over(self, self->seeker.failure);
        weir__call_drop(self);
}

/* It has left the queue; it may be OVER meanwhile. */
static void
run_granted(struct weir__work *work)
{
        struct weir_http_call *self = weir__container_of(work, struct weir_http_call, granted);
        struct weir__pooled *connection = self->seeker.connection;
        bool has_choice = self->choice;

        if (has_choice)
                take_choice(self);
        self->seeker.connection = NULL;
        if (connection && !weir__wire_take_reserved(weir__wire_of(connection)))
                connection = NULL;
        if (self->state == WEIR__CALL_OVER) {
                if (connection)
                        weir__pool_put(connection);
                weir__call_drop(self);
        } else if (self->seeker.failure) {
                try_elsewhere(self, has_choice);
        } else if (connection) {
                start(self, connection);
        } else {
                seek(self);
        }
}

static const struct weir__work_ops granted_ops = {.run = run_granted};

static int
prepare(struct weir_http_call *self)
{
        struct weir__origin *origin = weir__client_target_origin(&self->target, &self->draft, self->upgrade);

        atomic_store_explicit(&self->origin, origin, memory_order_release);
        if (!origin)
                return -ENOMEM;
        int failed = weir__draft_authorize(&self->draft);
        return failed ? failed
                      : weir__draft_compose(&self->draft, (enum weir__draft_framing)self->framing, self->length, self->upgrade);
}

/* -- from outside -- */

void
weir__call_end(struct weir_http_call *self, int status)
{
        uint8_t state = self->state;

        if (state == WEIR__CALL_OVER)
                return;
        self->is_given_up |= status == -ECONNABORTED;
        if (state == WEIR__CALL_WIRED)
                weir__wire_abandon(&self->call);
        bool has_left = state == WEIR__CALL_WIRED ||
                        (state == WEIR__CALL_SEEKING && weir__pool_leave(branch_of(self), &self->seeker));
        be_over(self, status);
        if (has_left)
                weir__call_drop(self); /* else run_granted does */
}

/* On a connection the limit is that one's. */
static void
be_late(struct weir__work *work)
{
        struct weir_http_call *self = weir__container_of(work, struct weir_http_call, late.work);

        self->has_alarm = false;
        if (self->state == WEIR__CALL_SEEKING) {
                uint8_t stage = weir__client_dial_stage(branch_of(self));

                if (stage)
                        weir__http_call_set_stage(&self->call, stage);
                weir__call_end(self, weir__clock_now() < self->call.late_at ? -ESHUTDOWN : -ETIMEDOUT);
        }
        weir__call_drop(self);
}

static const struct weir__work_ops late_ops = {.run = be_late};

/* Result: 0; -ESHUTDOWN. */
static int
set_alarm(struct weir_http_call *self)
{
        self->call.late_at = self->limit == WEIR_FOREVER ? WEIR_FOREVER : weir__clock_after(weir__clock_now(), self->limit);
        if (self->call.late_at == WEIR_FOREVER)
                return 0;
        self->late.work.ops = &late_ops;
        weir__call_keep(self);
        self->has_alarm = weir__alarm_set(weir__poller_at(self->poller), &self->late, self->call.late_at);
        if (!self->has_alarm)
                weir__call_drop(self);
        return self->has_alarm ? 0 : -ESHUTDOWN;
}

int
weir__call_begin(struct weir_http_call *self)
{
        int failed = weir__phase_is_stopping() ? -ESHUTDOWN : prepare(self);

        failed = failed ? failed : set_alarm(self);
        if (failed) {
                be_over(self, failed);
                return failed;
        }
        self->call.ops = &call_ops;
        self->call.response_for = strcmp(self->draft.method, "HEAD") == 0 ? WEIR__RECEIVED_FOR_HEAD : WEIR__RECEIVED_FOR_OTHER;
        self->seeker.ops = &seeker_ops;
        self->seeker.is_fixed = true;
        self->granted.ops = &granted_ops;
        weir__call_keep(self);
        seek(self);
        return 0;
}

/* Whether the connection is worth having, and nothing says that the rest is long. */
static bool
may_drain(const struct weir_http_call *self)
{
        if (self->state != WEIR__CALL_WIRED || !self->has_head || !self->call.is_sent || !self->call.received->is_persistent)
                return false;
        return self->call.wire->end == WEIR__RECEIVED_CHUNKED ||
               (self->call.wire->end == WEIR__RECEIVED_LENGTH && self->call.wire->left <= WEIR__DRAINED);
}

/* The rest of a short response is thrown away, so that the connection can be used again.  A server that takes its time, or has no
 * end, such as one of events, is not waited for. */
void
weir__call_close(struct weir_http_call *self)
{
        weir_nsec until = weir__clock_after(weir__clock_now(), DRAIN_LIMIT);

        if (!may_drain(self)) {
                weir__call_end(self, -ECONNABORTED);
                return;
        }
        self->is_given_up = self->is_drained = true;
        self->call.late_at = until < self->call.late_at ? until : self->call.late_at;
        weir__wire_go_on(self->call.wire);
}
