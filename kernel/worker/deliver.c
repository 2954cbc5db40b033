/* kernel/worker/deliver.c: gives work to a poller.
 *
 * Threads: any.
 * Locks:   the poller's, when another thread delivers in bulk; else none. */
#include "kernel/worker/deliver.h"

#include "kernel/worker/worker.h"

static inline void
append(struct weir__poller *poller, struct weir__work *work)
{
        weir__work_append(&poller->ready.items, work);
        weir__ready_note(&poller->ready, 1);
        weir__unpin();
}

/* The watchdog may be taking the poller away. */
static __attribute__((cold, noinline)) void
deliver_in_doubt(struct weir__poller *poller, struct weir__work *work)
{
        if (weir__pin_in_doubt())
                append(poller, work);
        else
                weir__inbox_push(&poller->inbox, work);
}

/* All calls that are rare are the last ones, so that the others save no registers. */
void
weir__deliver(struct weir__poller *poller, struct weir__work *work)
{
        const struct weir__worker *worker = weir__worker_self();

        if (!worker || worker->poller != poller)
                weir__inbox_push(&poller->inbox, work);
        else if (weir__pin())
                append(poller, work);
        else
                deliver_in_doubt(poller, work);
}

void
weir__deliver_near(unsigned other, struct weir__work *work)
{
        const struct weir__worker *worker = weir__worker_self();
        struct weir__poller *poller = worker ? worker->poller : NULL;

        if (!poller)
                weir__inbox_push(&weir__poller_at(other)->inbox, work);
        else if (weir__pin())
                append(poller, work);
        else
                deliver_in_doubt(poller, work);
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
        const struct weir__worker *worker = weir__worker_self();

        if (!worker || worker->poller != poller || !(weir__pin() || weir__pin_in_doubt())) {
                weir__poller_give_bulk(poller, bulk);
                return;
        }
        weir__work_concat(&poller->ready.bulk, bulk);
        weir__unpin();
}
