/* kernel/loop/watch.h: the timer by which a poller is watched (kernel/sched/watchdog.c). */
#ifndef WEIR_KERNEL_WATCH_H
#define WEIR_KERNEL_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/clock.h>

/* After a callback that blocked: how long none must have, before the poller is trusted again. */
#define WEIR__DEGRADED WEIR_MSEC(100)

struct weir__watch {
        int timer_fd; /* wakes the watchdog; -1: there is none.  Constant while workers run */

        /* What the timer was set to last; 0: it is not set, or by a former owner.  Written by the owner, read by the watchdog;
         * relaxed: nothing comes with it. */
        _Atomic weir_nsec until;

        /* A callback has blocked here not long ago, and until when at least that counts.  Written by the owner and by the watchdog;
         * relaxed. */
        _Atomic bool is_degraded;
        _Atomic weir_nsec degraded_until;

        /* Owner only. */
        weir_nsec since; /* when that was; 0: by a former owner */
        unsigned turn;   /* of the owner, then */
        weir_nsec slept; /* for how long it has slept since */
        bool is_idle;    /* it has just slept for so long that the timer had better not be set while it sleeps */
};

#endif
