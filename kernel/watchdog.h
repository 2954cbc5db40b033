/* kernel/watchdog.h: a thread that takes pollers away from workers whose callbacks block. */
#ifndef WEIR_KERNEL_WATCHDOG_H
#define WEIR_KERNEL_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/runtime.h>

#include "kernel/fence.h"

/* 1: it sleeps until somebody wakes it.  A futex. */
extern _Atomic unsigned weir__watchdog_parked;

/* Starts it for callbacks that last longer than `limit`.  Without it callbacks just hold their worker: a failure is no reason not
 * to start.  Result: 0 or negative. */
int weir__watchdog_start(weir_nsec limit);

/* Ends it, and waits for that.  Nothing is claimed afterwards. */
void weir__watchdog_stop(void);

void weir__watchdog_unpark(void);

/* By a worker that has woken up, or has not slept after all, after it has taken SLEEPING out of its inbox. */
static inline void weir__watchdog_look(void)
{
        weir__fence_light(); /* the heavy one is in park() */
        if (__builtin_expect(atomic_load_explicit(&weir__watchdog_parked, memory_order_relaxed), 0))
                weir__watchdog_unpark();
}

/* By a worker, between two works: says what the watchdog has seen, if there is something.  It may lose its poller in it. */
extern _Atomic bool weir__watchdog_has_notice;
void weir__watchdog_speak(void);

/* How long a callback may run. */
weir_nsec weir__watchdog_limit(void);

/* Since when the worker, which owns that poller, has been in the callback of that turn, as far as was seen: 0: not at all. 
 * CLOCK_MONOTONIC; any thread. */
struct weir__worker;
weir_nsec weir__watchdog_since(unsigned poller, const struct weir__worker *worker, unsigned turn);

/* How many pollers were taken away since the process began. */
uint64_t weir__watchdog_claims(void);

#endif
