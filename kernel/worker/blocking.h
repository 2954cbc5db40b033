/* kernel/worker/blocking.h: callbacks that say themselves that they block. */
#ifndef WEIR_KERNEL_BLOCKING_H
#define WEIR_KERNEL_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

struct weir__worker;

/* Ends what weir_blocking_begin has begun. */
void weir__blocking_over(struct weir__worker *worker);

/* How many pollers were given away so since the process began. */
uint64_t weir__blocking_given(void);

/* On the virtual clock: whether such callbacks run, so that time stands still; but for those that wait for a flow.  Who
 * ends a wait counts for who has waited.  Any thread. */
bool weir__blocking_any(void);
void weir__blocking_count(int change);

#endif
