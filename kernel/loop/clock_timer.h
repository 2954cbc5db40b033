/* kernel/loop/clock_timer.h: clock timers, whose deadlines follow another clock than the one on which pollers sleep.
 *
 * The target of a clock timer is an instant on the wall clock, or on the clock that counts suspended time.  Its deadline in
 * the queue is computed from the present difference of the clocks.  After a clock change it gets another deadline. */
#ifndef WEIR_KERNEL_CLOCK_TIMER_H
#define WEIR_KERNEL_CLOCK_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <weir/time.h>

#include "kernel/base/list.h"
#include "kernel/queue/timerq.h"
#include "kernel/data/work.h"

#define WEIR__CLOCK_TIMERS_AT_ONCE WEIR__TIMERQ_BATCH /* clock timers that get new deadlines under one hold of the lock */
#define WEIR__SLOT_CLOCK_CHANGE    (UINT64_MAX - 2)   /* epoll data of the descriptor that reports clock changes */

struct weir__poller;
struct weir__clock_timer;

struct weir__clock_timer_ops {
        /* Both are called under the poller's lock, for many clock timers in a row.  After a clock change: returns the target
         * from now on.  NULL: the target stays. */
        weir_nsec (*retarget)(struct weir__clock_timer *clock_timer, weir_nsec shown);

        /* Rounds a deadline that was computed.  NULL: it stays exact. */
        weir_nsec (*round)(struct weir__clock_timer *clock_timer, weir_nsec deadline, weir_nsec now);
};

/* Embedded in what has such a deadline. */
struct weir__clock_timer {
        /* Constant. */
        const struct weir__clock_timer_ops *ops;
        struct weir__timerq_node *node;
        clockid_t clock; /* CLOCK_REALTIME or CLOCK_BOOTTIME */

        /* Guarded by the poller's lock. */
        struct weir__link link;
        weir_nsec target;   /* on its clock; WEIR_FOREVER: none */
        weir_nsec computed; /* when the deadline was, on the clock of the queue */
};

/* Those of one clock. */
struct weir__clock_group {
        struct weir__list current;
        struct weir__list stale; /* these wait for new deadlines */
};

/* The clock timers of a poller.  Guarded by its lock. */
struct weir__clock_timers {
        struct weir__clock_group wall, boot;
        weir_nsec suspended; /* how far CLOCK_BOOTTIME was ahead when the deadlines of `boot` were last known to be right */
        bool is_updating;        /* the update is on its way, or its alarm is set */
        bool are_watched;        /* clock changes are noticed */
};

/* Reads that clock.  The wall clock may be virtual.  On the virtual clock nothing is ever suspended. */
weir_nsec weir__clock_timer_read(clockid_t clock);

/* Sets the function that delivers the update, the work that gives new deadlines.  Before the first poller is opened. */
typedef void weir__clock_timers_deliver_fn(struct weir__poller *poller, struct weir__work *work);
void weir__clock_timers_on_deliver(weir__clock_timers_deliver_fn *fn);

/* For a poller that is opened, and closed.  Owner only. */
void weir__clock_timers_open(struct weir__poller *poller);
void weir__clock_timers_close(struct weir__poller *poller);

/* The descriptor has an event.  Owner only. */
void weir__clock_timers_event(struct weir__poller *poller);

/* -- under the poller's lock -- */

/* From now on the clock timer gets a new deadline after each clock change while its node is in the queue.  It may be in the
 * list already. */
void weir__clock_timer_add(struct weir__poller *poller, struct weir__clock_timer *clock_timer);
void weir__clock_timer_remove(struct weir__clock_timer *clock_timer);

/* Computes the deadline from the target and the clocks.  It is at most some microseconds too late.  It is never too early,
 * unless a clock changes afterwards. */
weir_nsec weir__clock_timer_deadline(struct weir__clock_timer *clock_timer);

/* Whether the target has come.  A deadline may come before it, if the clock was put back and the update has not run yet. */
static inline bool weir__clock_timer_has_come(const struct weir__clock_timer *clock_timer)
{
        return weir__clock_timer_read(clock_timer->clock) >= clock_timer->target;
}

#endif
