/* kernel/base/latch.h: one thread waits, another opens, once.
 *
 * The latch may lie on the waiter's stack: opening touches its memory for the last time before the waiter can see it open (the
 * futex wake-up that follows uses the address only). */
#ifndef WEIR_KERNEL_LATCH_H
#define WEIR_KERNEL_LATCH_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir/time.h>

struct weir__latch {
        _Atomic unsigned open; /* release when set, acquire when seen */
};

static inline void weir__latch_open(struct weir__latch *latch)
{
        unsigned *word = (unsigned *)&latch->open;

        atomic_store_explicit(&latch->open, 1, memory_order_release);
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void weir__latch_wait(struct weir__latch *latch)
{
        while (!atomic_load_explicit(&latch->open, memory_order_acquire))
                syscall(SYS_futex, (unsigned *)&latch->open, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

/* Until that instant of CLOCK_MONOTONIC at the longest.  Returns whether it is open. */
static inline bool weir__latch_wait_until(struct weir__latch *latch, weir_nsec deadline)
{
        struct timespec until = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
        bool is_over = false;

        while (!atomic_load_explicit(&latch->open, memory_order_acquire)) {
                if (is_over)
                        return false;
                is_over = syscall(SYS_futex, (unsigned *)&latch->open, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, NULL,
                                  FUTEX_BITSET_MATCH_ANY) < 0 && errno == ETIMEDOUT;
        }
        return true;
}

#endif
