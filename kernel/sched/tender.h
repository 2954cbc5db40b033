/* kernel/sched/tender.h: memory of blocks that nobody has used for a second goes back. */
#ifndef WEIR_KERNEL_TENDER_H
#define WEIR_KERNEL_TENDER_H

#include "kernel/loop/poller.h"
#include "kernel/memory/slab.h"

/* See weir__tender_before_sleep. */
void weir__tender_call(struct weir__poller *poller) __attribute__((cold, noinline));

/* The owner of the poller is about to sleep: if memory waits, and no alarm is set for that, this poller sets one. */
static inline void weir__tender_before_sleep(struct weir__poller *poller)
{
        if (__builtin_expect(atomic_load_explicit(&weir__slabs_are_wasteful, memory_order_relaxed), 0))
                weir__tender_call(poller);
}

#endif
