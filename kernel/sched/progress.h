/* kernel/sched/progress.h: how far a shutdown has come, for the thread that waits for its end. */
#ifndef WEIR_KERNEL_PROGRESS_H
#define WEIR_KERNEL_PROGRESS_H

#include <stdbool.h>

#include <weir/time.h>

/* At each start. */
void weir__progress_begin(void);

/* Has the waiting thread look again: a worker has nothing left to run, or a root has ended.  Any thread. */
void weir__progress_notify(void);

/* One more poller has ended what was pending on it.  Its owner. */
void weir__progress_note_drained(void);

/* Waits until so many pollers are drained and no root is left; NULL: roots do not count.  False: the time is over. */
bool weir__progress_wait(unsigned pollers, bool (*are_roots_left)(void), weir_nsec until);

#endif
