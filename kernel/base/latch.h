/* kernel/base/latch.h: one thread waits, another opens, once.
 *
 * The latch may lie on the waiter's stack.  Once the waiter can see it open, its memory is touched no more: the futex wake-up
 * that follows uses the address only. */
#ifndef WEIR_KERNEL_LATCH_H
#define WEIR_KERNEL_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kernel/base/futex.h"

struct weir__latch {
        _Atomic unsigned open; /* release when set, acquire when seen */
};

static inline void weir__latch_open(struct weir__latch *latch)
{
        atomic_store_explicit(&latch->open, 1, memory_order_release);
        weir__futex_wake(&latch->open, WEIR__FUTEX_ALL);
}

static inline void weir__latch_wait(struct weir__latch *latch)
{
        while (!atomic_load_explicit(&latch->open, memory_order_acquire))
                weir__futex_wait(&latch->open, 0);
}

/* Until that instant of CLOCK_MONOTONIC at the longest.  Returns whether it is open. */
static inline bool weir__latch_wait_until(struct weir__latch *latch, weir_nsec deadline)
{
        bool is_over = false;

        while (!atomic_load_explicit(&latch->open, memory_order_acquire)) {
                if (is_over)
                        return false;
                is_over = weir__futex_wait_until(&latch->open, 0, deadline) == -ETIMEDOUT;
        }
        return true;
}

#endif
