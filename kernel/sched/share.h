/* kernel/sched/share.h: what has become ready on one poller and may be run on any. */
#ifndef WEIR_KERNEL_SHARE_H
#define WEIR_KERNEL_SHARE_H

#include <stdbool.h>

#include "kernel/loop/poller.h"

/* The callbacks of this poller are long: gives half of what is ready or due to others, if any of them sleeps, and wakes one.
 * With no lock held.  Owner only. */
void weir__share_some(struct weir__poller *poller);

/* After a batch that left work behind, whose works took `each` on average: does the same if it is worth a wake-up.  The next
 * batch stays.  With no lock held.  Owner only. */
void weir__share_backlog(struct weir__poller *poller, weir_nsec now, weir_nsec each);

/* Takes half of what others gave, if there is something, onto the ready list.  By an owner that has nothing to run. */
void weir__share_take(struct weir__poller *poller);

/* A poller that sleeps; NULL: none does. */
struct weir__poller *weir__share_sleeper(void);

/* Before it sleeps, at that time: runs into its ready list what is overdue on another poller, whose owner is busy.  Returns
 * whether there was something. */
bool weir__share_overdue(struct weir__poller *poller, weir_nsec now);

/* How many works wait to be taken.  An owner that is about to sleep looks here, with SLEEPING in its inbox. */
unsigned weir__share_depth(void);

#endif
