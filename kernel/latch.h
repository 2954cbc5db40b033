/* kernel/latch.h: one thread waits, another opens, once.
 *
 * The latch may lie on the waiter's stack: opening touches its memory for the last time before the waiter can see it open (the
 * futex wake-up that follows uses the address only). */
#ifndef WEIR_KERNEL_LATCH_H
#define WEIR_KERNEL_LATCH_H

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

/* Waits until it is open, or until CLOCK_MONOTONIC has passed `until` (WEIR_FOREVER: no limit).  Returns whether it is open. */
static inline bool weir__latch_wait(struct weir__latch *latch, weir_nsec until)
{
        struct timespec limit = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

        while (!atomic_load_explicit(&latch->open, memory_order_acquire)) {
                long failed = syscall(SYS_futex, (unsigned *)&latch->open, FUTEX_WAIT_BITSET_PRIVATE, 0,
                                      until == WEIR_FOREVER ? NULL : &limit, NULL, FUTEX_BITSET_MATCH_ANY);
                struct timespec now;

                if (!failed || until == WEIR_FOREVER)
                        continue;
                clock_gettime(CLOCK_MONOTONIC, &now);
                if (now.tv_sec > limit.tv_sec || (now.tv_sec == limit.tv_sec && now.tv_nsec >= limit.tv_nsec))
                        return atomic_load_explicit(&latch->open, memory_order_acquire);
        }
        return true;
}

#endif
