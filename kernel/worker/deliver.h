/* kernel/worker/deliver.h: how work comes to a poller. */
#ifndef WEIR_KERNEL_DELIVER_H
#define WEIR_KERNEL_DELIVER_H

#include "kernel/loop/poller.h"

/* Delivers work to a poller: to the ready list when its owner calls, without atomics, else through the inbox.  Never
 * blocks, never allocates, runs nothing.  The work may run, and be gone, before this returns.  Any thread. */
void weir__deliver(struct weir__poller *poller, struct weir__work *work);

/* The same for work that goes on with what had its turn: what has come by then, by a descriptor, a deadline or the inbox, comes
 * first.  Owner only. */
void weir__deliver_requeued(struct weir__poller *poller, struct weir__work *work);

/* Delivers many at once, which take turns with what else becomes ready: one operation, whatever their number.  Empties the list.
 * Any thread, with no lock held. */
void weir__deliver_bulk(struct weir__poller *poller, struct weir__work_list *bulk);

#endif
