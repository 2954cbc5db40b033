/* kernel/sched/share.h: ready work goes from a busy poller to others. */
#ifndef WEIR_KERNEL_SHARE_H
#define WEIR_KERNEL_SHARE_H

#include <stdbool.h>

#include "kernel/loop/poller.h"

/* The callbacks of this poller are long.  If another poller sleeps, gives half of the ready and due work items to others, and
 * wakes that one.  With no lock held.  Owner only. */
void weir__share_some(struct weir__poller *poller);

/* A batch has left work behind; its work items took `each` on average.  Does the same as weir__share_some if that is worth a
 * wake-up, but keeps the next batch.  With no lock held.  Owner only. */
void weir__share_backlog(struct weir__poller *poller, weir_nsec now, weir_nsec each);

/* Moves half of the work items that others gave, if there are any, to the ready list.  Owner only. */
void weir__share_take(struct weir__poller *poller);

/* A poller that sleeps; NULL: no poller sleeps. */
struct weir__poller *weir__share_sleeper(void);

/* The owner is about to sleep.  Moves work items whose deadlines are overdue on another poller, whose owner is busy, to its ready
 * list. Returns whether there were any.  Owner only. */
bool weir__share_overdue(struct weir__poller *poller, weir_nsec now);

/* How many work items wait to be taken.  An owner looks here, with SLEEPING in its inbox, before it sleeps. */
unsigned weir__share_depth(void);

#endif
