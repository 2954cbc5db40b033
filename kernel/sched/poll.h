/* kernel/sched/poll.h: between two rounds of work a worker looks at the descriptors of its poller, or sleeps. */
#ifndef WEIR_KERNEL_POLL_H
#define WEIR_KERNEL_POLL_H

#include "kernel/loop/poller.h"

/* Waits for events, unless there is ready work or a deadline has come, and hands them to their sources.  `now`: the time, if the
 * caller has just looked at the clock, and no event was taken from the poller since; 0: it has not.  Owner only. */
void weir__poll(struct weir__poller *poller, weir_nsec now);

/* On the virtual clock the owner calls this function when it has nothing to run and SLEEPING is in its inbox.  The function moves
 * the clock to `next`, the first deadline, if that is allowed.  It returns whether the owner sleeps.  Set before there are
 * workers. */
typedef bool weir__poll_virtual_fn(struct weir__poller *poller, weir_nsec next);
void weir__poll_on_virtual(weir__poll_virtual_fn *fn);

#endif
