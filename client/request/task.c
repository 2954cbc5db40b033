/* client/request/task.c: a request as a task: it seeks a connection, and has a call there.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of its poller, which changes when it is claimed.
 * Locks:   none of its own; in the queue of its origin that one's lock. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/request/request.h"
#include "client/wire/dial.h"
#include "client/wire/wire.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/worker/deliver.h"

struct weir__client_request *
weir__client_request_of(const weir_task *task)
{
        return task && task->work.ops == &weir__client_request_ops.task.work ? (struct weir__client_request *)task : NULL;
}

static struct weir__client_request *
request_of(struct weir__seeker *seeker)
{
        return weir__container_of(seeker, struct weir__client_request, seeker);
}

/* -- the end -- */

void
weir__client_request_end(struct weir__client_request *request, int status)
{
        if (status && !request->call.received)
                weir__client_branch_count(weir__client_request_branch(request), WEIR__CLIENT_FAILED);
        weir__hedge_end(request, status);
        weir__io_complete(&request->io, status);
}

/* -- seeking -- */

static bool
claim(struct weir__seeker *seeker)
{
        struct weir__client_request *request = request_of(seeker);

        if (!weir__io_claim(&request->io))
                return false;
        weir__late_disown(request);
        weir__hedge_disown(request);
        return true;
}

static void
granted(struct weir__seeker *seeker, unsigned poller)
{
        struct weir__client_request *request = request_of(seeker);

        weir__late_forget(request);
        weir__hedge_detach(request);
        weir__io_try_again(&request->io, poller);
}

static const struct weir__seeker_ops seeker_ops = {.claim = claim, .granted = granted};

static void
wait_for_connection(struct weir__client_request *request)
{
        int failed = weir__late_set(request);

        if (failed) {
                weir__client_request_end(request, failed);
                return;
        }
        if (!request->is_second)
                weir__hedge_set(request);
        weir__pool_wait(weir__client_request_branch(request), &request->seeker);
}

/* An idle connection that the server has not closed, as far as can be seen. */
static struct weir__pooled *
find_connection(struct weir__client_request *request)
{
        struct weir__pooled *connection;

        while ((connection = weir__pool_get(weir__client_request_branch(request), &request->seeker)) &&
               !weir__wire_is_alive(connection))
                weir__wire_close(connection);
        return connection;
}

int
weir__client_request_compose(struct weir__client_request *request)
{
        return weir__draft_compose(&request->draft,
                                   request->content_kind == WEIR__BODY_NONE ? WEIR__DRAFT_NO_BODY : WEIR__DRAFT_LENGTH,
                                   request->content_size, NULL);
}

/* Its writers, which move on as they go out. */
static void
prepare_call(struct weir__client_request *request)
{
        struct weir__http_call *call = &request->call;

        call->head = (struct weir__writer){.data = request->draft.head, .left = request->draft.head_size};
        call->has_body = request->content_kind != WEIR__BODY_NONE && request->content_size;
        if (request->content_kind == WEIR__BODY_FILE)
                call->body = (struct weir__writer){.at = request->content_at,
                                                   .left = request->content_size,
                                                   .file = request->file,
                                                   .kind = WEIR__WRITER_FILE};
        else
                call->body = (struct weir__writer){.data = request->content, .left = request->content_size};
        call->response_for = strcmp(request->draft.method, "HEAD") == 0 ? WEIR__RECEIVED_FOR_HEAD : WEIR__RECEIVED_FOR_OTHER;
}

void
weir__client_request_seek(struct weir__client_request *request)
{
        struct weir__pooled *connection = find_connection(request);

        prepare_call(request);
        weir__http_call_set_stage(&request->call, WEIR_HTTP_QUEUED);
        if (connection)
                weir__wire_start(weir__wire_of(connection), &request->call);
        else if (request->is_trying)
                request->must_wait = true;
        else
                wait_for_connection(request);
}

/* -- the task -- */

static int
begin(struct weir__client_request *request)
{
        struct weir__origin *origin = weir__client_target_origin(&request->target, &request->draft, false);

        atomic_store_explicit(&request->origin, origin, memory_order_release);
        if (!origin)
                return -ENOMEM;
        request->call.late_at = request->limit == WEIR_FOREVER ? WEIR_FOREVER
                                                               : weir__clock_after(weir__clock_now(), request->limit);
        int failed = weir__draft_authorize(&request->draft);
        return failed ? failed : weir__client_request_compose(request);
}

/* -- another member -- */

static void
drop_failure(struct weir__client_request *request)
{
        free(request->seeker.problem);
        request->seeker.problem = NULL;
        request->seeker.failure = 0;
}

/* A connect has failed, so nothing was sent: it may go to another member of its upstream. */
static bool
may_go_elsewhere(const struct weir__client_request *request)
{
        return request->origin && !request->followed && !request->is_second &&
               weir__client_target_may_again(&request->target, request->seeker.failure);
}

/* `visited` is the first of its list: the failed origin is kept, for a dump may be looking at it.  Returns whether it goes.  The
 * request's owner, on any thread. */
static bool
go_elsewhere(struct weir__client_request *request)
{
        if (!weir__client_target_again(&request->target))
                return false;
        struct weir__origin *to = weir__client_target_origin(&request->target, &request->draft, false);
        if (!to) {
                weir__client_target_report(&request->target, WEIR__OUTCOME_CANCELLED);
                return false;
        }
        request->visited->origin = request->origin;
        request->origin = to;
        request->seeker.was_handed = request->seeker.wants_fresh = false;
        drop_failure(request);
        return true;
}

/* It was claimed: others may only ask for its cancel.  Behind the program's function this worker may have no poller. */
static void
run_choosing(struct weir__work *work)
{
        struct weir__client_request *request = weir__container_of(work, struct weir__visited, choosing)->request;

        (void)go_elsewhere(request);
        weir__io_try_again(&request->io, request->io.task.poller);
}

static const struct weir__work_ops choosing_ops = {.run = run_choosing};

/* Result: 0: it does, or the program has to choose; else why it does not. */
static int
try_elsewhere(struct weir__client_request *request)
{
        struct weir__visited *visited = malloc(sizeof *visited);

        if (!visited)
                return request->seeker.failure;
        *visited = (struct weir__visited){.next = request->visited, .request = request, .choosing = {.ops = &choosing_ops}};
        request->visited = visited;
        request->must_choose = weir__client_target_calls_program(&request->target);
        weir__hedge_forget(request);
        return request->must_choose || go_elsewhere(request) ? 0 : request->seeker.failure;
}

/* -- trying -- */

/* Uses what it was granted.  Returns false if it has to seek. */
static bool
use_grant(struct weir__client_request *request)
{
        struct weir__pooled *connection = request->seeker.connection;

        request->seeker.connection = NULL;
        if (!connection || !weir__wire_take_reserved(weir__wire_of(connection)))
                return false;
        prepare_call(request);
        weir__wire_start(weir__wire_of(connection), &request->call);
        return true;
}

/* Why it cannot seek, or go on; 0: it can.  It waits for its second attempt, or for the program, if that links it. */
static int
fault_of(struct weir__client_request *request)
{
        int failed = weir__phase_is_stopping() ? -ESHUTDOWN : weir__hedge_is_cut(request) ? -ECANCELED : request->seeker.failure;

        if (failed && weir__hedge_holds(request, failed, false)) {
                request->io.task.is_linked = true;
                return 0;
        }
        if (failed && failed != -ESHUTDOWN && may_go_elsewhere(request)) {
                failed = try_elsewhere(request);
                request->io.task.is_linked = request->must_choose;
        }
        return failed;
}

static int
try(struct weir__io_task *io)
{
        struct weir__client_request *request = (struct weir__client_request *)io;

        if (__builtin_expect(request->is_won, 0)) {
                drop_failure(request);
                return request->won_with;
        }
        int failed = fault_of(request);

        if (!failed && io->task.is_linked)
                return 0;
        if (!failed && !request->origin)
                failed = begin(request);
        if (failed && request->origin)
                weir__client_branch_count(weir__client_request_branch(request), WEIR__CLIENT_FAILED);
        if (failed)
                return failed;
        io->task.is_linked = request->is_trying = true;
        if (!use_grant(request))
                weir__client_request_seek(request);
        request->is_trying = false;
        return io->task.is_linked ? 0 : io->task.status;
}

/* The program chooses a member in a work item of its own. */
static void
ask_program(struct weir__client_request *request)
{
        request->must_choose = false;
        if (weir__io_claim(&request->io))
                weir__deliver(weir__poller_at(request->io.task.poller), &request->visited->choosing);
}

static void
waits(struct weir__io_task *io)
{
        struct weir__client_request *request = (struct weir__client_request *)io;

        if (request->must_choose) {
                ask_program(request);
        } else if (request->must_wait) {
                request->must_wait = false;
                wait_for_connection(request);
        }
}

static void
withdraw(struct weir__io_task *io)
{
        struct weir__client_request *request = (struct weir__client_request *)io;

        if (!request->call.received && !request->is_second)
                weir__client_branch_count(weir__client_request_branch(request), WEIR__CLIENT_FAILED);
        weir__hedge_end(request, -ECANCELED);
        if (request->call.wire) {
                weir__wire_abandon(&request->call);
                return;
        }
        uint8_t stage = weir__client_dial_stage(weir__client_request_branch(request));
        if (stage)
                weir__http_call_set_stage(&request->call, stage);
        (void)weir__pool_leave(weir__client_request_branch(request), &request->seeker);
        weir__late_forget(request);
}

/* A series that was late says that the member is slow; one that was cancelled, or has failed elsewhere, says nothing. */
static enum weir__outcome
outcome_of(const struct weir__client_request *request, int verdict)
{
        if (verdict && verdict != -ETIMEDOUT)
                return WEIR__OUTCOME_CANCELLED;
        return weir__client_target_outcome(request->io.task.status, request->call.received ? request->call.received->status : 0);
}

/* The callback may look at the part of a body that came.  It may have been granted a connection, and not have come to use it. */
static void
settle(struct weir__io_task *io, int verdict)
{
        struct weir__client_request *request = (struct weir__client_request *)io;
        struct weir__pooled *connection = request->seeker.connection;

        request->seeker.connection = NULL;
        if (connection && weir__wire_take_reserved(weir__wire_of(connection)))
                weir__pool_put(connection);
        if (request->body)
                request->body[request->body_size] = '\0';
        if (request->seeker.failure)
                weir__http_call_set_stage(&request->call, request->seeker.stage);
        weir__http_call_end_stage(&request->call);
        if (__builtin_expect(request->hedge != NULL, 0) && !request->is_second)
                weir__hedge_end(request, io->task.status);
        if (request->is_second)
                weir__hedge_settle(request, verdict);
        else
                weir__client_target_report(&request->target, outcome_of(request, verdict));
}

static void
start(struct weir_task *task)
{
        struct weir__client_request *request = (struct weir__client_request *)task;

        request->seeker.ops = &seeker_ops;
        request->call.ops = &weir__client_request_call_ops;
        if (!request->is_second) {
                request->seeker.failure = weir__client_target_choose(&request->target, &request->draft);
                weir__task_set_poller(task, weir__worker_home_poller());
        }
        weir__io_start(task);
}

static void
drop_visited(struct weir__client_request *request)
{
        for (struct weir__visited *each; (each = request->visited);) {
                request->visited = each->next;
                weir_url_free(each->url);
                if (each->origin)
                        weir__origin_drop(each->origin);
                free(each);
        }
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__client_request *request = (struct weir__client_request *)task;

        (void)is_discarded;
        weir__client_target_report(&request->target, WEIR__OUTCOME_CANCELLED);
        weir__http_call_drop_response(&request->call);
        weir__decoder_free(request->decoder);
        drop_visited(request);
        if (request->origin)
                weir__origin_drop(request->origin);
        if (request->content_kind == WEIR__BODY_COPY)
                free(request->content);
        free(request->body);
        free(request->target.key);
        free(request->problem);
        free(request->seeker.problem);
        weir__draft_done(&request->draft);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        static const char *const what[] = {"a send to", "the first byte of", "the body of", "the body of"};
        _Static_assert(sizeof what / sizeof *what == WEIR_HTTP_COMPLETE + 1 - WEIR_HTTP_SENDING, "each stage has one");
        const struct weir__client_request *request = (const struct weir__client_request *)task;
        const struct weir__origin *origin = request->origin;
        uint8_t stage = __atomic_load_n(&request->call.stage, __ATOMIC_RELAXED);
        char text[WEIR__ORIGIN_TEXT] = "an origin";

        if (!origin || stage < WEIR_HTTP_SENDING) {
                if (origin)
                        weir__origin_describe(origin, text);
                snprintf(out, room, "a connection to %s", text);
                return;
        }
        weir__origin_print(origin, text);
        snprintf(out, room, "%s %s %s", what[stage - WEIR_HTTP_SENDING], request->draft.method, text);
}

const struct weir__io_ops weir__client_request_ops = {
        .task = WEIR__IO_TASK_OPS("a request", start, release, describe),
        .try = try,
        .waits = waits,
        .withdraw = withdraw,
        .settle = settle,
};
