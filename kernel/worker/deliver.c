/* kernel/worker/deliver.c: gives work to a poller.
 *
 * Threads: any.
 * Locks:   the poller's, when another thread delivers in bulk; else none. */
#include "kernel/worker/deliver.h"

#include "kernel/worker/worker.h"

/* Pins the poller if the calling thread owns it.  Returns whether it does. */
static bool
pin(const struct weir__poller *poller)
{
        struct weir__worker *worker = weir__worker_self();

        return worker && worker->poller == poller && weir__pin();
}

void
weir__deliver(struct weir__poller *poller, struct weir__work *work)
{
        if (!pin(poller)) {
                weir__inbox_push(&poller->inbox, work);
                return;
        }
        weir__work_append(&poller->ready.works, work);
        weir__ready_note(&poller->ready, 1);
        weir__unpin();
}

void
weir__deliver_requeued(struct weir__poller *poller, struct weir__work *work)
{
        poller->ready.has_requeued = true;
        weir__deliver(poller, work);
}

void
weir__deliver_bulk(struct weir__poller *poller, struct weir__work_list *bulk)
{
        if (!pin(poller)) {
                weir__poller_give_bulk(poller, bulk);
                return;
        }
        weir__work_concat(&poller->ready.bulk, bulk);
        weir__unpin();
}
