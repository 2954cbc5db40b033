/* kernel/clock.h: the time that deadlines are measured by: real, or virtual for tests. */
#ifndef WEIR_KERNEL_CLOCK_H
#define WEIR_KERNEL_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include <weir/time.h>

struct weir__clock {
        _Atomic bool is_virtual;           /* set while no worker runs */
        _Atomic weir_nsec virtual_instant; /* advanced by the one worker there is */
};

extern struct weir__clock weir__clock;

static inline weir_nsec weir__clock_monotonic(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline weir_nsec weir__clock_now(void)
{
        if (__builtin_expect(atomic_load_explicit(&weir__clock.is_virtual, memory_order_relaxed), 0))
                return atomic_load_explicit(&weir__clock.virtual_instant, memory_order_acquire);
        return weir__clock_monotonic();
}

/* `instant` + `duration`, saturating; a duration of 0 or less is `instant`. */
static inline weir_nsec weir__clock_after(weir_nsec instant, weir_nsec duration)
{
        weir_nsec deadline;

        if (duration <= 0)
                return instant;
        return __builtin_add_overflow(instant, duration, &deadline) ? WEIR_FOREVER : deadline;
}

/* The greatest number whose power of two, in nanoseconds, is at most that long. */
static inline uint8_t weir__clock_slack(weir_nsec slack)
{
        return slack > 1 ? (uint8_t)(63 - __builtin_clzll((uint64_t)slack)) : 0;
}

#endif
