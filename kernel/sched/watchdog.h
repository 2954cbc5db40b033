/* kernel/sched/watchdog.h: a thread that takes pollers away from workers whose callbacks block. */
#ifndef WEIR_KERNEL_WATCHDOG_H
#define WEIR_KERNEL_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/runtime.h>

#include "kernel/base/clock.h"
#include "kernel/loop/poller.h"

/* How long a poller may not go round its loop before the watchdog looks at it; 0: there is none. */
extern _Atomic weir_nsec weir__watchdog_pause;

/* Gets ready, when the pollers are open and before there are workers, for callbacks that last longer than `limit`; 0: the
 * default.
 * Result: 0, or a negative errno when there are no descriptors to be had. */
int weir__watchdog_open(weir_nsec limit);

/* Starts its thread, unless it is not ready.  Without it callbacks just hold their worker: a failure is no reason not to start.
 * Result: 0, or a negative errno when there is no thread to be had; it is not ready any more then. */
int weir__watchdog_start(void);

/* In a child of fork(), where its thread is not, when another thread of the parent was just about to start the runtime. */
void weir__watchdog_forked(void);

/* Ends it, if it was ready or runs, and waits for that.  It retakes no poller afterwards. */
void weir__watchdog_stop(void);

/* Has the watchdog look at the poller when the pause from now is over, unless it is asleep then, or will look soon anyway.  Owner
 * only. */
void weir__watchdog_renew(struct weir__poller *poller, weir_nsec now, weir_nsec pause);

/* By the owner, each time that it goes round its loop, when SLEEPING is out of its inbox: it costs a look at the clock, and
 * a system call in each quarter of a pause. */
static inline void weir__watchdog_pass(struct weir__poller *poller)
{
        weir_nsec pause = atomic_load_explicit(&weir__watchdog_pause, memory_order_acquire);

        if (!pause)
                return;
        weir_nsec now = weir__clock_monotonic();
        if (now >= atomic_load_explicit(&poller->watch.until, memory_order_relaxed) - pause / 4 * 3 ||
            __builtin_expect(atomic_load_explicit(&poller->watch.is_degraded, memory_order_relaxed), 0))
                weir__watchdog_renew(poller, now, pause);
}

/* By a new owner, before it passes: what the former one has set says nothing about it. */
static inline void weir__watchdog_take_over(struct weir__poller *poller)
{
        atomic_store_explicit(&poller->watch.until, 0, memory_order_relaxed);
        poller->watch.since = 0;
}

/* By the owner, when it is about to sleep until `end`, and after its sleep.  One that sleeps for long, again and again, does not
 * leave its timer set, which would wake the watchdog for nothing each time. */
void weir__watchdog_disarm(struct weir__poller *poller);
static inline void weir__watchdog_rest(struct weir__poller *poller, weir_nsec end)
{
        if (poller->watch.is_idle && end > atomic_load_explicit(&poller->watch.until, memory_order_relaxed))
                weir__watchdog_disarm(poller);
}

static inline void weir__watchdog_note_sleep(struct weir__poller *poller)
{
        weir_nsec slept = poller->sleep.woke_at - poller->sleep.began_at;
        weir_nsec pause = atomic_load_explicit(&weir__watchdog_pause, memory_order_acquire);

        poller->watch.is_idle = pause && slept > pause / 2;
        if (pause)
                poller->watch.slept += slept;
}

/* By a worker, between two works: says what the watchdog has seen, if there is something.  It may lose its poller in it. */
extern _Atomic bool weir__watchdog_has_notice;
void weir__watchdog_speak(void);

/* How long a callback may run. */
weir_nsec weir__watchdog_limit(void);

#endif
