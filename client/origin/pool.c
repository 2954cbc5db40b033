/* client/origin/pool.c: how connections are given to those that seek one.
 *
 * Threads: a branch belongs to the owner of its poller.  The queue is for all.
 * Locks:   the origin's, a leaf, guards the queue.  A request finds an idle connection of its own poller without it.
 *
 * The counts of idle, waiting and open are sequentially consistent: see origin.h and test/model/pool.pml. */
#include <errno.h>
#include <stdlib.h>

#include "client/origin/origin.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"

static struct weir__seeker *
seeker_of(struct weir__link *link)
{
        return weir__container_of(link, struct weir__seeker, link);
}

static struct weir__pooled *
first_idle(const struct weir__client_branch *branch)
{
        struct weir__link *link = weir__list_first(&branch->idle);

        return link ? weir__container_of(link, struct weir__pooled, idle) : NULL;
}

void
weir__pool_take_off(struct weir__pooled *connection)
{
        if (!weir__link_is_used(&connection->idle))
                return;
        weir__link_remove(&connection->idle);
        atomic_fetch_sub(&connection->branch->idle_count, 1);
}

struct weir__pooled *
weir__pool_get(struct weir__client_branch *branch, const struct weir__seeker *seeker)
{
        struct weir__pooled *connection = first_idle(branch);

        if (!connection || seeker->wants_fresh || atomic_load(&branch->origin->waiting))
                return NULL;
        weir__pool_take_off(connection);
        return connection;
}

/* -- the queue -- */

/* Under the lock.  Returns whether it was there. */
static bool
leave_queue(struct weir__origin *origin, struct weir__seeker *seeker)
{
        if (!seeker->is_waiting)
                return false;
        weir__link_remove(&seeker->link);
        seeker->is_waiting = false;
        atomic_fetch_sub(&origin->waiting, 1);
        return true;
}

/* Takes the first seeker off the queue that fits, of those with a number below `ticket`, and claims it.  Returns NULL when there
 * is none. */
static struct weir__seeker *
take_first(struct weir__origin *origin, uint64_t ticket, bool fits(struct weir__seeker *seeker, void *context), void *context)
{
        struct weir__seeker *taken = NULL;

        weir__lock(&origin->lock);
        for (struct weir__link *link = weir__list_first(&origin->queue), *next; link && !taken; link = next) {
                struct weir__seeker *seeker = seeker_of(link);

                next = weir__list_next(&origin->queue, link);
                if (seeker->ticket >= ticket)
                        break;
                if (fits && !fits(seeker, context))
                        continue;
                (void)leave_queue(origin, seeker);
                if (seeker->ops->claim(seeker))
                        taken = seeker;
        }
        weir__unlock(&origin->lock);
        return taken;
}

/* An idle connection.  A seeker that cannot have it gets its permit in place of it: must_close, for a dial on the poller
 * `other`. */
struct offer {
        const struct weir__pooled *connection;
        bool must_close;
        unsigned other;
};

static bool
can_have(const struct weir__seeker *seeker, const struct weir__pooled *connection)
{
        return !(seeker->is_fixed && seeker->poller != connection->branch->poller) &&
               !(seeker->wants_fresh && !connection->is_fresh);
}

static bool
may_have(struct weir__seeker *seeker, void *context)
{
        struct offer *offer = context;

        if (offer->must_close)
                return false;
        if (can_have(seeker, offer->connection))
                return true;
        offer->must_close = !seeker->has_dial;
        offer->other = seeker->poller;
        seeker->has_dial = true;
        weir__origin_branch(offer->connection->branch->origin, seeker->poller)->has_marked = true;
        return false;
}

/* Gives idle connections to those who wait. */
static void
serve(struct weir__client_branch *branch)
{
        struct weir__origin *origin = branch->origin;
        struct weir__pooled *connection;

        while (atomic_load(&origin->waiting) && (connection = first_idle(branch))) {
                struct offer offer = {.connection = connection};
                struct weir__seeker *seeker = take_first(origin, UINT64_MAX, may_have, &offer);

                if (offer.must_close) {
                        weir__pool_take_off(connection);
                        origin->ops->close(connection);
                        weir__pool_look(weir__origin_branch(origin, offer.other));
                        continue;
                }
                if (!seeker)
                        return;
                weir__pool_take_off(connection);
                connection->is_reserved = true;
                seeker->connection = connection;
                seeker->ops->granted(seeker, branch->poller);
        }
}

/* -- dials -- */

/* Takes a permit below the limit. */
static bool
take_permit(struct weir__origin *origin)
{
        unsigned connections = atomic_load(&origin->connections);

        do {
                if (connections >= origin->client->config.connections)
                        return false;
        } while (!atomic_compare_exchange_weak(&origin->connections, &connections, connections + 1));
        return true;
}

/* The number that the next seeker gets: those before it wait already. */
static uint64_t
tickets_so_far(struct weir__origin *origin)
{
        weir__lock(&origin->lock);
        uint64_t next = origin->next_ticket;
        weir__unlock(&origin->lock);
        return next;
}

/* Those who stay on this poller have a dial, if it has begun one, or have none any more.  Thousands may wait, so they are only
 * told what has changed. */
static void
note_dials(struct weir__client_branch *branch)
{
        struct weir__origin *origin = branch->origin;
        bool has = !weir__list_is_empty(&branch->dials);

        weir__lock(&origin->lock);
        bool is_new = branch->has_noted_dials != has || branch->has_marked;
        struct weir__link *link = is_new ? weir__list_first(&origin->queue) : NULL;
        for (; link; link = weir__list_next(&origin->queue, link))
                if (seeker_of(link)->poller == branch->poller)
                        seeker_of(link)->has_dial = has;
        branch->has_noted_dials = has;
        branch->has_marked = false;
        weir__unlock(&origin->lock);
}

static void
note_dial_ended(struct weir__client_branch *branch)
{
        note_dials(branch);
        atomic_fetch_sub(&branch->origin->dials, 1);
}

static void
fail_dial(struct weir__client_branch *branch, uint64_t ticket, int status, uint8_t stage, char *problem)
{
        struct weir__seeker *seeker = take_first(branch->origin, ticket, NULL, NULL);

        if (seeker) { /* of those who waited when the dial began */
                seeker->failure = status;
                seeker->stage = stage;
                seeker->problem = problem;
                seeker->ops->granted(seeker, seeker->poller);
        } else {
                free(problem);
        }
        note_dial_ended(branch);
        atomic_fetch_sub(&branch->origin->connections, 1);
}

/* As many dials as seekers, if the limit permits. */
static void
dial_more(struct weir__client_branch *branch)
{
        struct weir__origin *origin = branch->origin;

        while (atomic_load(&origin->dials) < atomic_load(&origin->waiting) && take_permit(origin)) {
                uint64_t ticket = tickets_so_far(origin);

                atomic_fetch_add(&origin->dials, 1);
                int failed = weir__phase_is_stopping() ? -ESHUTDOWN : origin->ops->dial(branch, ticket);
                if (failed)
                        fail_dial(branch, ticket, failed, WEIR_HTTP_CONNECTING, NULL);
        }
}

/* The runtime ends, and no work that is new gets to other pollers: those who wait are work that is there already. */
static void
end_waiting(struct weir__origin *origin)
{
        for (struct weir__seeker *seeker; (seeker = take_first(origin, UINT64_MAX, NULL, NULL));) {
                seeker->failure = -ESHUTDOWN;
                seeker->stage = WEIR_HTTP_QUEUED;
                seeker->ops->granted(seeker, seeker->poller);
        }
}

/* There is a free permit, or fewer dials than before: on the poller of the first who waits another dial may begin. */
static void
dial_for_first(struct weir__client_branch *branch)
{
        struct weir__origin *origin = branch->origin;
        unsigned poller = branch->poller;

        if (!atomic_load(&origin->waiting))
                return;
        if (weir__phase_is_stopping()) {
                end_waiting(origin);
                return;
        }
        weir__lock(&origin->lock);
        struct weir__link *link = weir__list_first(&origin->queue);
        if (link)
                poller = seeker_of(link)->poller;
        weir__unlock(&origin->lock);
        if (poller == branch->poller) {
                dial_more(branch);
                note_dials(branch);
        } else {
                weir__pool_look(weir__origin_branch(origin, poller));
        }
}

void
weir__pool_gone(struct weir__client_branch *branch)
{
        atomic_fetch_sub(&branch->origin->connections, 1);
        dial_for_first(branch);
}

void
weir__pool_dial_failed(struct weir__client_branch *branch, uint64_t ticket, int status, uint8_t stage, char *problem)
{
        fail_dial(branch, ticket, status, stage, problem);
        dial_for_first(branch);
}

void
weir__pool_dialled(struct weir__pooled *connection)
{
        note_dial_ended(connection->branch);
        connection->is_fresh = true;
        weir__pool_put(connection);
}

/* -- idle connections -- */

/* Not if its client is gone, or its idle connections were closed while it was not idle. */
static bool
may_idle(const struct weir__pooled *connection)
{
        const struct weir_client *client = connection->branch->origin->client;

        return weir__client_is_used(client) &&
               connection->generation == atomic_load_explicit(&client->generation, memory_order_relaxed);
}

void
weir__pool_put(struct weir__pooled *connection)
{
        struct weir__client_branch *branch = connection->branch;

        connection->is_reserved = false;
        if (!may_idle(connection)) {
                branch->origin->ops->close(connection);
                return;
        }
        weir__list_prepend(&branch->idle, &connection->idle);
        atomic_fetch_add(&branch->idle_count, 1);
        serve(branch);
        if (first_idle(branch) == connection) /* else somebody has it, or it is gone */
                connection->is_fresh = false;
}

/* A poller with an idle connection; or that of the branch. */
static unsigned
find_idle(const struct weir__client_branch *branch)
{
        const struct weir__origin *origin = branch->origin;

        for (unsigned i = 1; i < origin->branch_count; i++) {
                unsigned poller = (branch->poller + i) % origin->branch_count;

                if (atomic_load(&origin->branches[poller].idle_count))
                        return poller;
        }
        return branch->poller;
}

/* Returns whether it is on its way to another poller, or has been cancelled. */
static bool
hand_over(struct weir__client_branch *branch, struct weir__seeker *seeker)
{
        if (seeker->is_fixed || seeker->wants_fresh || seeker->was_handed || atomic_load(&branch->origin->waiting))
                return false;
        unsigned poller = find_idle(branch);
        if (poller == branch->poller)
                return false;
        if (!seeker->ops->claim(seeker))
                return true;
        seeker->was_handed = true;
        seeker->ops->granted(seeker, poller);
        return true;
}

/* Another poller may have an idle connection for those who wait. */
static void
pass_on(struct weir__client_branch *branch)
{
        unsigned other = atomic_load(&branch->origin->waiting) ? find_idle(branch) : branch->poller;

        if (other != branch->poller)
                weir__pool_look(weir__origin_branch(branch->origin, other));
}

void
weir__pool_wait(struct weir__client_branch *branch, struct weir__seeker *seeker)
{
        struct weir__origin *origin = branch->origin;
        bool wants_fresh = seeker->wants_fresh;

        if (hand_over(branch, seeker))
                return;
        weir__origin_keep(origin); /* the seeker's reference may go with it */
        seeker->poller = branch->poller;
        weir__lock(&origin->lock);
        seeker->ticket = origin->next_ticket++;
        seeker->is_waiting = true;
        seeker->has_dial = branch->has_noted_dials;
        weir__list_append(&origin->queue, &seeker->link);
        atomic_fetch_add(&origin->waiting, 1);
        weir__unlock(&origin->lock);
        if (!wants_fresh)
                serve(branch);
        dial_more(branch);
        note_dials(branch);
        if (wants_fresh) /* later: the permit of the connection on which it has failed comes free before that */
                weir__pool_look(branch);
        pass_on(branch);
        weir__origin_drop(origin);
}

/* Dials that nobody waits for end. */
static void
note_left(struct weir__origin *origin)
{
        if (!atomic_load(&origin->dials) || atomic_load(&origin->waiting))
                return;
        for (unsigned i = 0; i < origin->branch_count; i++)
                weir__pool_look(&origin->branches[i]);
}

bool
weir__pool_leave(struct weir__client_branch *branch, struct weir__seeker *seeker)
{
        weir__lock(&branch->origin->lock);
        bool was_waiting = leave_queue(branch->origin, seeker);
        weir__unlock(&branch->origin->lock);
        note_left(branch->origin);
        return was_waiting;
}

struct weir__seeker *
weir__pool_leave_late(struct weir__client_branch *branch, struct weir__seeker **late)
{
        weir__lock(&branch->origin->lock);
        struct weir__seeker *seeker = *late;
        *late = NULL;
        if (seeker)
                (void)leave_queue(branch->origin, seeker);
        weir__unlock(&branch->origin->lock);
        note_left(branch->origin);
        return seeker;
}

/* -- looks -- */

/* Those that nobody may use any more. */
static void
close_idle(struct weir__client_branch *branch)
{
        for (struct weir__link *link = weir__list_first(&branch->idle), *next; link; link = next) {
                struct weir__pooled *connection = weir__container_of(link, struct weir__pooled, idle);

                next = weir__list_next(&branch->idle, link);
                if (may_idle(connection))
                        continue;
                weir__pool_take_off(connection);
                branch->origin->ops->close(connection);
        }
}

void
weir__pool_run_look(struct weir__work *work)
{
        struct weir__client_branch *branch = weir__container_of(work, struct weir__client_branch, look);
        struct weir__origin *origin = branch->origin;

        (void)atomic_exchange(&branch->is_look_due, false); /* it sees what those have written who found the flag set */
        serve(branch);
        dial_more(branch);
        note_dials(branch);
        if (!first_idle(branch))
                pass_on(branch);
        if (!atomic_load(&origin->waiting))
                origin->ops->cancel_dials(branch);
        close_idle(branch);
        weir__origin_drop(origin);
        weir__runtime_leave();
}

void
weir__pool_look(struct weir__client_branch *branch)
{
        if (atomic_exchange(&branch->is_look_due, true))
                return;
        if (weir__runtime_enter() != 0) {
                atomic_store(&branch->is_look_due, false);
                return;
        }
        weir__origin_keep(branch->origin);
        weir__deliver(weir__poller_at(branch->poller), &branch->look);
}
