/* kernel/sched/progress.h: how far a shutdown has come, for the thread that waits for its end. */
#ifndef WEIR_KERNEL_PROGRESS_H
#define WEIR_KERNEL_PROGRESS_H

#include <stdbool.h>

#include <weir/time.h>

/* At each start. */
void weir__progress_begin(void);

/* A worker has nothing left to run, or a root has ended: the waiting thread looks again.  Any thread. */
void weir__progress_notify(void);

/* One more poller has ended everything that was pending on it.  Owner only. */
void weir__progress_note_drained(void);

/* Waits until that many pollers are drained and no root is left.  With NULL roots do not count.  Returns false when `until` comes
 * first. */
bool weir__progress_wait(unsigned pollers, bool (*are_roots_left)(void), weir_nsec until);

#endif
