/* kernel/base/fence.h: a memory fence in two halves, of which the one that runs all the time costs nothing.
 *
 * Two threads each write one variable and then read the other's.  Without a full fence in between both may read the old values.
 * Here the rare thread has the system run a fence on every CPU that runs a thread of this process (membarrier(2),
 * PRIVATE_EXPEDITED).  The frequent thread must only keep the compiler from swapping the write and the read.  Where the system
 * refuses that call, the frequent thread makes a full fence as well. */
#ifndef WEIR_KERNEL_FENCE_H
#define WEIR_KERNEL_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

/* Constant from the start of the program, before a second thread calls the library. */
extern bool weir__fence_is_asymmetric;

/* Between a write and a read; pairs with weir__fence_heavy.  Any thread. */
static inline void weir__fence_light(void)
{
        if (__builtin_expect(weir__fence_is_asymmetric, 1))
                atomic_signal_fence(memory_order_seq_cst);
        else
                __sync_synchronize();
}

/* The other half: some microseconds.  Any thread. */
void weir__fence_heavy(void);

#endif
