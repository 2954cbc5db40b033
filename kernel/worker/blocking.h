/* kernel/worker/blocking.h: callbacks that announce that they block. */
#ifndef WEIR_KERNEL_BLOCKING_H
#define WEIR_KERNEL_BLOCKING_H

#include <stdbool.h>

struct weir__worker;

/* The announced blocking of the callback is over. */
void weir__blocking_over(struct weir__worker *worker);

/* Counts such callbacks on the virtual clock.  Its time stands still while there are any.  A callback is not counted while it
 * waits for a flow; the thread that ends the wait counts it again.  Any thread. */
bool weir__blocking_is_any(void);
void weir__blocking_count(int change);

#endif
