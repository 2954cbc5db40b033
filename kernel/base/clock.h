/* kernel/base/clock.h: the time that deadlines are measured by, and that of the wall: real, or virtual for tests. */
#ifndef WEIR_KERNEL_CLOCK_H
#define WEIR_KERNEL_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include <weir/clock.h>

#define WEIR__VIRTUAL_ORIGIN WEIR_SEC(1) /* where the virtual clock starts */

struct weir__clock {
        _Atomic bool is_virtual;           /* set while no worker runs */
        _Atomic weir_nsec virtual_instant; /* advanced by the one worker there is */
        _Atomic weir_nsec wall_offset;     /* of the virtual wall clock to the virtual instant; any thread */
};

extern struct weir__clock weir__clock;

/* Starts the virtual clock anew, or goes back to the real one.  While no worker runs. */
void weir__clock_start(bool is_virtual);

/* Sets the function that is called after each change of the virtual wall clock, by the thread that made it, with no lock held.
 * Once. */
typedef void weir__wall_change_fn(void);
void weir__clock_on_wall_change(weir__wall_change_fn *fn);

/* weir_clock_set_wall, without a line in the log. */
int weir__clock_set_wall(weir_nsec wall);

static inline bool weir__clock_is_virtual(void)
{
        return __builtin_expect(atomic_load_explicit(&weir__clock.is_virtual, memory_order_relaxed), 0);
}

static inline weir_nsec weir__clock_read(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline weir_nsec weir__clock_monotonic(void)
{
        return weir__clock_read(CLOCK_MONOTONIC);
}

static inline weir_nsec weir__clock_now(void)
{
        if (weir__clock_is_virtual())
                return atomic_load_explicit(&weir__clock.virtual_instant, memory_order_acquire);
        return weir__clock_monotonic();
}

/* Sets a timerfd of CLOCK_MONOTONIC to fire then, at once if that has passed, or never: WEIR_FOREVER. */
void weir__clock_set_timer(int timer_fd, weir_nsec instant);

/* The wall clock, some milliseconds late at most: cheaper than weir_wall_now. */
weir_nsec weir__clock_wall_coarse(void);

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
