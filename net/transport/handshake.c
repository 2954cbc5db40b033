/* net/transport/handshake.c: handshakes of TLS take turns with other work.
 *
 *     free --a step of a handshake--> under way --a pass of the worker's loop, nobody waits--> free
 *                                        ^ \--a pass--> one step of the first that waits --/
 *
 * A step of a handshake takes a thousand times as long as the reading of a request, and any stranger can ask for it.  So one pass
 * of the worker's loop runs one step.  All descriptors and callbacks that are ready have their turn between two steps.  A peer
 * that is past its handshake waits for one step at most.
 *
 * While others have something to do, steps get half of the time: the next one begins when the others had as long as the last step
 * has taken, or when a pass has found nothing of theirs.  So the CPU never idles while a handshake waits.
 *
 * Threads: the owner of the poller only.
 *
 * A transport that waits is requeued, by its work item, in this list.  One that is closed meanwhile is freed when its turn
 * comes. */
#include "net/transport/handshake.h"

#include "kernel/base/clock.h"
#include "kernel/worker/deliver.h"

/* Whether others still have work, and had less time than the last step. */
static bool
is_turn_of_others(struct weir__handshakes *handshakes)
{
        int64_t moved = handshakes->ops->moved(handshakes);
        bool has_others = moved != handshakes->moved || handshakes->poller->ready.items.first;

        handshakes->moved = moved;
        return has_others && weir__clock_monotonic() - handshakes->ended_at < handshakes->took;
}

/* A pass has gone by since the last step. */
static void
run(struct weir__work *work)
{
        struct weir__handshakes *handshakes = weir__container_of(work, struct weir__handshakes, work);

        if (handshakes->waiting.first && is_turn_of_others(handshakes)) {
                weir__deliver_requeued(handshakes->poller, work);
                return;
        }
        handshakes->has_turn = true;
        for (struct weir__work *next; handshakes->has_turn && (next = weir__work_pop(&handshakes->waiting));)
                next->ops->run(next);
        if (!handshakes->has_turn) {
                weir__deliver_requeued(handshakes->poller, work);
                return;
        }
        handshakes->has_turn = handshakes->is_under_way = false;
        handshakes->ops->release(handshakes);
}

static const struct weir__work_ops work_ops = {.run = run};

void
weir__handshakes_init(struct weir__handshakes *handshakes, const struct weir__handshakes_ops *ops, struct weir__poller *poller)
{
        handshakes->ops = ops;
        handshakes->poller = poller;
        handshakes->work.ops = &work_ops;
}

bool
weir__handshakes_may_go_on(struct weir__handshakes *handshakes, struct weir__transport *transport)
{
        bool may_go_on = handshakes->has_turn || !handshakes->is_under_way;

        handshakes->has_turn = false;
        if (!may_go_on && !transport->is_requeued) {
                transport->is_requeued = true;
                if (weir__transport_order_turn(transport))
                        weir__work_append(&handshakes->waiting, &transport->requeued);
        }
        return may_go_on;
}

void
weir__handshakes_note(struct weir__handshakes *handshakes, weir_nsec began)
{
        handshakes->ended_at = weir__clock_monotonic();
        handshakes->took = handshakes->ended_at - began;
        if (handshakes->is_under_way)
                return;
        handshakes->is_under_way = true;
        handshakes->ops->hold(handshakes);
        weir__deliver_requeued(handshakes->poller, &handshakes->work);
}
