/* factory/timer.h: what the ways to find a timer (by name, by id) know of timers.  timer.c opens with the protocol. */
#ifndef WEIR_FACTORY_TIMER_H
#define WEIR_FACTORY_TIMER_H

#include <weir/timer.h>

#include "factory/names.h"
#include "factory/task.h"
#include "kernel/runtime.h"

#define WEIR__TIMERS_AT_ONCE WEIR__TIMERQ_BATCH /* under one hold of the locks */

struct weir__timer {
        struct weir_task task;         /* first */
        struct weir__timerq_node node; /* guarded by the poller's lock; its deadline is the duration until the start */
};

struct weir__named_timer {
        struct weir__timer timer; /* first */
        struct weir__name name;   /* last */
};

extern struct weir__names weir__timer_names;

/* Calls of weir_timer_cancel_wait under way.  Counted before a heavy fence; read behind a light one. */
extern _Atomic unsigned weir__timer_waits;

static inline struct weir__timer *weir__timer_of_name(struct weir__name *name)
{
        return &((struct weir__named_timer *)((char *)name - offsetof(struct weir__named_timer, name)))->timer;
}

/* The name that the timer was made with; NULL: none. */
struct weir__name *weir__timer_name(struct weir__timer *timer);

/* The timer that the task is, or NULL. */
struct weir__timer *weir__timer_of_task(struct weir_task *task);

/* Its poller, which does not change while who asks this holds the lock by which it was found; that of WEIR__POLLER_NONE at
 * first, if it was made before there were any. */
static inline struct weir__poller *weir__timer_poller(const struct weir__timer *timer)
{
        return weir__runtime.pollers[timer->task.poller];
}

static inline uint32_t weir__timer_word(const struct weir__timer *timer)
{
        return atomic_load_explicit(&timer->task.word, memory_order_acquire);
}

/* Gives one that has no poller with a worker such a one, before its start.  Its owner, with no lock held; the runtime is up. */
void weir__timer_settle(struct weir__timer *timer);

/* Cancels it, unless it was cancelled before or its callback has begun.  One that is not started is marked, and its start or
 * dismissal does the rest; what is to be delivered, after unlocking, is appended to the list.  Under the lock by which it was
 * found; with that of its poller held as well, or not. */
bool weir__timer_cancel_locked(struct weir__timer *timer, struct weir__work_list *taken);
bool weir__timer_cancel(struct weir__timer *timer, struct weir__work_list *taken);

/* Delivers what weir__timer_end has taken: `count` of them at most.  No lock held. */
void weir__timer_deliver(struct weir__work_list *taken, size_t count);

/* For what goes on for long, between two holds of the locks: looks after the poller of this worker, if it is one. */
void weir__timer_pause(void);

/* A new deadline: `after` from `now`, or `by` later than the present one. */
struct weir__timer_change {
        weir_nsec now;
        weir_nsec by;
        bool extends;
};

/* Makes the change if the timer will still end by itself.  *wake is set when its poller is to be woken, after unlocking.  Under
 * the lock by which it was found, and its poller's. */
bool weir__timer_change(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change,
                        bool *wake);

#endif
