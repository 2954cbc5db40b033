/* kernel/data/count.h: counts of users, the last of which frees a thing. */
#ifndef WEIR_KERNEL_COUNT_H
#define WEIR_KERNEL_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Adds one user, unless there is none any more: then the thing is about to be freed.  Returns whether one was added; if not, the
 * caller sees all that the last user has done.  Any thread; the caller knows that the memory is still there. */
static inline bool
weir__count_add_unless_zero(_Atomic size_t *count)
{
        size_t seen = atomic_load_explicit(count, memory_order_acquire);

        while (seen > 0)
                if (atomic_compare_exchange_weak_explicit(count, &seen, seen + 1, memory_order_acq_rel, memory_order_acquire))
                        return true;
        return false;
}

#endif
