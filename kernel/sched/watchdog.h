/* kernel/sched/watchdog.h: a thread that takes pollers away from workers whose callbacks block. */
#ifndef WEIR_KERNEL_WATCHDOG_H
#define WEIR_KERNEL_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/runtime.h>

#include "kernel/base/clock.h"
#include "kernel/loop/poller.h"

/* The watchdog looks at a poller whose owner has not gone round its loop for this long.  0: there is no watchdog. */
extern _Atomic weir_nsec weir__watchdog_pause;

/* Opens the timers of the pollers.  Callbacks may run for `limit`; 0: the default.  When the pollers are open and before there
 * are workers.
 *
 * Result: 0, or a negative errno when there are no descriptors. */
int weir__watchdog_open(weir_nsec limit);

/* Starts the thread, if the timers are open.  Without it a callback that blocks holds its worker, so the runtime starts also when
 * this fails.
 *
 * Result: 0, or a negative errno when no thread can be made; the watchdog is stopped then. */
int weir__watchdog_start(void);

/* In a child of fork(): another thread of the parent may have been about to start the runtime.  Its watchdog is not here. */
void weir__watchdog_forked(void);

/* Ends the thread, and waits for it.  The watchdog retakes no poller afterwards.  Without a watchdog it does nothing. */
void weir__watchdog_stop(void);

/* Sets the timer of the poller to the end of a pause from now.  Does nothing while it is degraded and its timer is set to a time
 * soon.  Owner only. */
void weir__watchdog_renew(struct weir__poller *poller, weir_nsec now, weir_nsec pause);

/* The owner goes round its loop, and SLEEPING is out of its inbox.  Costs a system call in each quarter of a pause.  `now` is of
 * CLOCK_MONOTONIC. */
static inline void weir__watchdog_pass_at(struct weir__poller *poller, weir_nsec now)
{
        weir_nsec pause = atomic_load_explicit(&weir__watchdog_pause, memory_order_acquire);

        if (!pause)
                return;
        if (now >= atomic_load_explicit(&poller->watch.until, memory_order_relaxed) - pause / 4 * 3 ||
            __builtin_expect(atomic_load_explicit(&poller->watch.is_degraded, memory_order_relaxed), 0))
                weir__watchdog_renew(poller, now, pause);
}

/* The same, and looks at the clock. */
static inline void weir__watchdog_pass(struct weir__poller *poller)
{
        if (atomic_load_explicit(&weir__watchdog_pause, memory_order_relaxed))
                weir__watchdog_pass_at(poller, weir__clock_monotonic());
}

/* The calling worker owns the poller from now on.  Before its first pass: the former owner has set the fields. */
static inline void weir__watchdog_take_over(struct weir__poller *poller)
{
        atomic_store_explicit(&poller->watch.until, 0, memory_order_relaxed);
        poller->watch.since = 0;
}

/* The owner is about to sleep until `end`.  After a long sleep, and before another one, it disarms its timer: that would wake the
 * watchdog for nothing. */
void weir__watchdog_disarm(struct weir__poller *poller);
static inline void weir__watchdog_before_sleep(struct weir__poller *poller, weir_nsec end)
{
        if (poller->watch.is_idle && end > atomic_load_explicit(&poller->watch.until, memory_order_relaxed))
                weir__watchdog_disarm(poller);
}

/* The owner has slept. */
static inline void weir__watchdog_after_sleep(struct weir__poller *poller)
{
        weir_nsec slept = poller->sleep.woke_at - poller->sleep.began_at;
        weir_nsec pause = atomic_load_explicit(&weir__watchdog_pause, memory_order_acquire);

        poller->watch.is_idle = pause && slept > pause / 2;
        if (pause)
                poller->watch.slept += slept;
}

#endif
