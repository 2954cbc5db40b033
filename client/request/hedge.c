/* client/request/hedge.c: a second attempt at a request that is slow, at another member of its upstream.
 *
 * Threads: the owner of the poller on which the first one waits or was sent.  When the time has come the first one is fixed
 *          there, and so is the second.  A claim of a first one that is not fixed comes from any thread.
 * Locks:   the origin's guards `first` until then.
 *
 * The alarm may be on its way when the first one ends, a function of the program may choose the member, and the second one may be
 * under way.  So what they share lies in memory of its own, which the first, that work and the second have a reference to.
 *
 * Source:  Dean and Barroso, The Tail at Scale, 2013. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/request/request.h"
#include "client/wire/wire.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/loop/deadlines.h"
#include "kernel/loop/pollers.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"

struct weir__hedge {
        struct weir__alarm alarm;
        struct weir__work chosen; /* the program has chosen the member: back to the owner, with the alarm's reference */
        _Atomic unsigned references;
        uint8_t poller;
        struct weir__origin *origin;                 /* of the first; a reference */
        struct weir__client_request *first, *second; /* NULL: it is over, or has not begun */
        struct weir__client_target target;           /* of the second, until that is made */
        bool is_sent;                                /* the second */
        bool is_held;                                /* the first has ended with `status`, and waits for the second */
        bool may_replay;
        bool is_overtaken; /* the second was cut off for being slower */
        int status;
};

static void
drop(struct weir__hedge *hedge)
{
        if (atomic_fetch_sub_explicit(&hedge->references, 1, memory_order_acq_rel) != 1)
                return;
        weir__origin_drop(hedge->origin);
        free(hedge);
}

static int
code_of(const struct weir__client_request *request)
{
        return request->call.received ? request->call.received->status : 0;
}

/* -- the second -- */

/* Takes the member.  Result: the task, not started; NULL when out of memory. */
static struct weir__client_request *
make_second(const struct weir__client_request *first, struct weir__client_target *target)
{
        struct weir__client_request *second = weir__alloc(sizeof *second);

        if (!second)
                return NULL;
        memset(second, 0, sizeof *second);
        weir__task_init(&second->io.task, &weir__client_request_ops.task, sizeof *second, NULL, NULL);
        second->target = *target;
        target->upstream = NULL;
        second->is_second = second->seeker.is_fixed = true;
        weir__task_set_poller(&second->io.task, first->io.task.poller);
        second->redirects = first->redirects;
        second->max_body = first->max_body;
        second->fails_on_error = first->fails_on_error;
        second->limit = first->call.late_at == WEIR_FOREVER ? WEIR_FOREVER : first->call.late_at - weir__clock_now();
        second->call.max_head = first->call.max_head;
        second->call.send_limit = first->call.send_limit;
        second->call.first_byte_limit = first->call.first_byte_limit;
        second->call.between_limit = first->call.between_limit;
        if (weir__draft_copy(&second->draft, &first->draft) == 0)
                return second;
        weir__client_target_give_back(&second->target);
        weir_task_dismiss(&second->io.task);
        return NULL;
}

/* It may be in the queue of its origin, on a connection, or on its way to its `try` or to its end. */
static void
cut_off(struct weir__hedge *hedge, bool has_won)
{
        struct weir__client_request *second = hedge->second;

        hedge->is_overtaken = has_won;
        if (!second || !weir__io_claim(&second->io))
                return;
        weir__client_request_ops.withdraw(&second->io);
        second->io.task.is_linked = false;
        second->io.task.status = -ECANCELED;
        weir__deliver(weir__poller_at(second->io.task.poller), &second->io.task.work);
}

bool
weir__hedge_is_cut(const struct weir__client_request *second)
{
        return second->is_second && (!second->hedge || !second->hedge->first);
}

/* -- the first -- */

/* It leaves. */
static void
leave(struct weir__hedge *hedge)
{
        struct weir__client_request *first = hedge->first;

        hedge->first = NULL;
        first->hedge = NULL;
        drop(hedge);
}

void
weir__hedge_disown(struct weir__client_request *first)
{
        if (!first->seeker.is_fixed && first->hedge)
                first->hedge->first = NULL;
}

void
weir__hedge_detach(struct weir__client_request *first)
{
        struct weir__hedge *hedge = first->seeker.is_fixed ? NULL : first->hedge; /* of a fixed one it may be leaving */

        if (!hedge)
                return;
        first->hedge = NULL;
        if (weir__alarm_clear(weir__poller_at(hedge->poller), &hedge->alarm))
                drop(hedge);
        drop(hedge);
}

/* One that waits stays on this poller from now on. */
static struct weir__client_request *
fix_first(struct weir__hedge *hedge)
{
        weir__lock(&hedge->origin->lock);
        struct weir__client_request *first = hedge->first;
        if (first && first->seeker.is_waiting)
                first->seeker.is_fixed = true;
        weir__unlock(&hedge->origin->lock);
        return first;
}

static bool
has_time(const struct weir__client_request *first)
{
        return !weir__phase_is_stopping() && weir__clock_now() < first->call.late_at;
}

/* -- the alarm -- */

/* Starts the second request at the member that was chosen, if any.  It is delivered to this poller, so it runs after this. */
static void
begin_second(struct weir__hedge *hedge)
{
        struct weir__client_request *first = hedge->first, *second = first && hedge->target.upstream && has_time(first)
                                                                             ? make_second(first, &hedge->target)
                                                                             : NULL;

        weir__client_target_give_back(&hedge->target);
        if (second && weir_task_start(&second->io.task) == 0) {
                second->hedge = hedge;
                hedge->second = second;
                atomic_fetch_add_explicit(&hedge->references, 1, memory_order_relaxed);
        } else if (first) {
                leave(hedge);
        }
        drop(hedge);
}

static void
run_chosen(struct weir__work *work)
{
        begin_second(weir__container_of(work, struct weir__hedge, chosen));
        weir__runtime_leave();
}

static const struct weir__work_ops chosen_ops = {.run = run_chosen};

/* A function of the program may block, and so cost this worker its poller.  A work item begins the second request then. */
static void
choose(struct weir__hedge *hedge, struct weir__client_request *first)
{
        bool calls_program = weir__client_target_calls_program(&first->target);

        if (!weir__client_target_copy(&hedge->target, &first->target) || (calls_program && weir__runtime_enter() != 0)) {
                weir__client_target_drop(&hedge->target);
                begin_second(hedge);
                return;
        }
        (void)weir__client_target_hedge(&hedge->target);
        if (calls_program)
                weir__deliver(weir__poller_at(hedge->poller), &hedge->chosen);
        else
                begin_second(hedge);
}

static void
run(struct weir__work *work)
{
        struct weir__hedge *hedge = weir__container_of(work, struct weir__hedge, alarm.work);
        struct weir__client_request *first = fix_first(hedge);

        if (first)
                first->was_hedged = true;
        if (first && has_time(first))
                choose(hedge, first);
        else
                begin_second(hedge);
}

static const struct weir__work_ops hedge_ops = {.run = run};

/* Whether it may run twice, at two members. */
static bool
may_hedge(const struct weir__client_request *request)
{
        return request->target.upstream && !request->hedge && !request->was_hedged && !request->followed &&
               request->content_kind == WEIR__BODY_NONE && request->draft.is_idempotent;
}

static void
set(struct weir__client_request *first)
{
        weir_nsec after = weir__upstream_hedge_after(first->target.upstream);
        struct weir__hedge *hedge = after == WEIR_FOREVER ? NULL : calloc(1, sizeof *hedge);

        if (!hedge) /* without memory there is no hedge */
                return;
        hedge->alarm.work.ops = &hedge_ops;
        hedge->chosen.ops = &chosen_ops;
        atomic_init(&hedge->references, 2);
        hedge->first = first;
        hedge->poller = first->io.task.poller;
        hedge->origin = first->origin;
        weir__origin_keep(hedge->origin);
        first->hedge = hedge;
        if (weir__alarm_set(weir__poller_at(hedge->poller), &hedge->alarm, weir__clock_after(first->target.picked_at, after)))
                return;
        leave(hedge);
        drop(hedge);
}

void
weir__hedge_set(struct weir__client_request *request)
{
        if (request->is_second && request->hedge)
                request->hedge->is_sent = true;
        else if (!request->is_second && may_hedge(request))
                set(request);
}

void
weir__hedge_forget(struct weir__client_request *first)
{
        struct weir__hedge *hedge = first->hedge;

        if (!hedge || first->is_second || hedge->second)
                return;
        if (weir__alarm_clear(weir__poller_at(hedge->poller), &hedge->alarm))
                drop(hedge);
        leave(hedge);
}

/* -- the ends -- */

/* A response that is worth having, even if it says that nothing was found. */
static bool
is_good(const struct weir__client_request *request, int status)
{
        return weir__client_target_outcome(status, code_of(request)) == WEIR__OUTCOME_SUCCESS;
}

bool
weir__hedge_holds(struct weir__client_request *first, int status, bool may_replay)
{
        struct weir__hedge *hedge = first->hedge;

        if (!hedge || first->is_second || !hedge->second || is_good(first, status))
                return false;
        if (status == -ENOMEM || status == -ESHUTDOWN || weir__clock_now() >= first->call.late_at)
                return false;
        if (!may_replay) /* else it may go to its member again */
                weir__client_target_report(&first->target, weir__client_target_outcome(status, code_of(first)));
        hedge->is_held = true;
        hedge->may_replay = may_replay;
        hedge->status = status;
        return true;
}

void
weir__hedge_end(struct weir__client_request *first, int status)
{
        struct weir__hedge *hedge = first->hedge;

        if (!hedge || first->is_second)
                return;
        if (!hedge->second) {
                weir__hedge_forget(first);
                return;
        }
        cut_off(hedge, is_good(first, status));
        leave(hedge);
}

/* The response, and where it came from. */
static void
take_over(struct weir__client_request *first, struct weir__client_request *second)
{
        weir__http_call_drop_response(&first->call);
        weir__decoder_free(first->decoder);
        free(first->body);
        first->call.received = second->call.received;
        first->decoder = NULL;
        first->body = second->body;
        first->body_size = second->body_size;
        first->body_room = second->body_room;
        first->is_redirected = second->is_redirected;
        weir__http_call_set_stage(&first->call, second->call.stage);
        weir_url *url = first->draft.url;
        first->draft.url = second->draft.url; /* after redirects it is another one */
        second->draft.url = url;
        second->call.received = NULL;
        second->body = NULL;
}

/* Has the first leave its place.  Returns false if others have claimed it: it is on its way to `try`, which finds the response,
 * or to its cancel. */
static bool
take_out(struct weir__client_request *first)
{
        if (!weir__io_claim(&first->io))
                return false;
        if (first->call.wire)
                weir__wire_abandon(&first->call);
        else
                (void)weir__pool_leave(weir__client_request_branch(first), &first->seeker);
        weir__late_forget(first);
        return true;
}

static void
win(struct weir__hedge *hedge, struct weir__client_request *second, int status)
{
        struct weir__client_request *first = hedge->first;
        bool is_out = take_out(first);

        /* If it is held, it has reported, or says nothing: its connection was an old one. */
        weir__client_target_report(&first->target, hedge->is_held ? WEIR__OUTCOME_CANCELLED : WEIR__OUTCOME_OVERTAKEN);
        take_over(first, second);
        leave(hedge);
        first->is_won = true;
        first->won_with = status;
        if (is_out)
                weir__io_try_again(&first->io, first->io.task.poller);
}

static void
lose(struct weir__hedge *hedge)
{
        struct weir__client_request *first = hedge->first;
        bool is_held = hedge->is_held, may_replay = hedge->may_replay;
        int status = hedge->status;

        leave(hedge);
        if (is_held)
                weir__client_request_ended(first, status, may_replay);
}

void
weir__hedge_settle(struct weir__client_request *second, int verdict)
{
        struct weir__hedge *hedge = second->hedge;
        int status = verdict ? verdict : second->io.task.status;
        bool is_cut = status == -ECANCELED, is_better = false;

        if (!hedge->is_sent && second->target.upstream)
                weir__upstream_return_hedge(second->target.upstream);
        weir__client_target_report(&second->target, is_cut && hedge->is_overtaken
                                                            ? WEIR__OUTCOME_OVERTAKEN
                                                            : weir__client_target_outcome(status, code_of(second)));
        second->hedge = NULL;
        hedge->second = NULL;
        if (hedge->first)
                is_better = is_good(second, status) ||
                            (hedge->is_held && !hedge->first->call.received && second->call.stage == WEIR_HTTP_COMPLETE);
        if (hedge->first && is_better)
                win(hedge, second, status);
        else if (hedge->first)
                lose(hedge);
        drop(hedge);
}
