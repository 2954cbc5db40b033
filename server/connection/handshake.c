/* server/connection/handshake.c: handshakes of TLS take turns with other work.
 *
 *     free --a step of a handshake--> under way --a pass of the worker's loop, nobody waits--> free
 *                                        ^ \--a pass--> one step of the first that waits --/
 *
 * A step of a handshake takes a thousand times as long as the reading of a request, and any stranger can ask for it.  So one pass
 * of the worker's loop runs one step.  All descriptors and callbacks that are ready have their turn between two steps.  A client
 * of a kept connection waits for one step at most.
 *
 * While others have something to do, steps get half of the time: the next one begins when the others had as long as the last step
 * has taken, or when a pass has found nothing of theirs.  So the CPU never idles while a handshake waits.
 *
 * Threads: the owner of the poller only.
 *
 * A connection that waits is requeued, by its work item, in the list of its branch.  One that is closed meanwhile is freed when
 * its turn comes.  `work` counts as a user of the server while it is under way. */
#include "kernel/base/clock.h"
#include "kernel/worker/deliver.h"
#include "server/connection/connection.h"

/* Whether others still have work, and had less time than the last step. */
static bool
is_turn_of_others(struct weir__branch *branch)
{
        struct weir__handshakes *handshakes = &branch->handshakes;
        int64_t moved = weir__counted(&branch->counts, WEIR__COUNT_RECEIVED) + weir__counted(&branch->counts, WEIR__COUNT_SENT);
        bool has_others = moved != handshakes->moved || branch->poller->ready.works.first;

        handshakes->moved = moved;
        return has_others && weir__clock_monotonic() - handshakes->ended_at < handshakes->took;
}

/* A pass has gone by since the last step. */
static void
run(struct weir__work *work)
{
        struct weir__branch *branch = weir__container_of(work, struct weir__branch, handshakes.work);
        struct weir__handshakes *handshakes = &branch->handshakes;

        if (handshakes->waiting.first && is_turn_of_others(branch)) {
                weir__deliver_requeued(branch->poller, work);
                return;
        }
        handshakes->has_turn = true;
        for (struct weir__work *next; handshakes->has_turn && (next = weir__work_pop(&handshakes->waiting));)
                next->ops->run(next);
        if (!handshakes->has_turn) {
                weir__deliver_requeued(branch->poller, work);
                return;
        }
        handshakes->has_turn = handshakes->is_under_way = false;
        weir__users_remove(&branch->server->users);
}

static const struct weir__work_ops ops = {.run = run};

bool
weir__handshake_may_go_on(struct weir__connection *connection)
{
        struct weir__handshakes *handshakes = &connection->client.branch->handshakes;
        bool may_go_on = handshakes->has_turn || !handshakes->is_under_way;

        handshakes->has_turn = false;
        if (!may_go_on && !connection->is_requeued) {
                connection->is_requeued = true;
                weir__work_append(&handshakes->waiting, &connection->requeued);
        }
        return may_go_on;
}

void
weir__handshake_note(struct weir__branch *branch, weir_nsec began)
{
        struct weir__handshakes *handshakes = &branch->handshakes;

        handshakes->ended_at = weir__clock_monotonic();
        handshakes->took = handshakes->ended_at - began;
        if (handshakes->is_under_way)
                return;
        handshakes->is_under_way = true;
        handshakes->work.ops = &ops;
        weir__users_add(&branch->server->users);
        weir__deliver_requeued(branch->poller, &handshakes->work);
}
