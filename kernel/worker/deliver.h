/* kernel/worker/deliver.h: gives work to a poller. */
#ifndef WEIR_KERNEL_DELIVER_H
#define WEIR_KERNEL_DELIVER_H

#include "kernel/loop/poller.h"

/* Delivers work to a poller.  The owner appends it to the ready list, without atomics; other threads push it onto the inbox.
 * Never blocks, never allocates, runs nothing.  The work may run, and be gone, before this returns.  Any thread. */
void weir__deliver(struct weir__poller *poller, struct weir__work *work);

/* The same to the poller of the worker that this is, if it has one; else to the other one. */
void weir__deliver_near(unsigned other, struct weir__work *work);

/* Delivers work that gave way to other work.  The worker takes in descriptors, deadlines and the inbox before it runs this work.
 * Owner only. */
void weir__deliver_requeued(struct weir__poller *poller, struct weir__work *work);

/* Delivers many work items by one operation, whatever their number.  They take turns with other ready work.  Empties the list.
 * Any thread, with no lock held. */
void weir__deliver_bulk(struct weir__poller *poller, struct weir__work_list *bulk);

#endif
