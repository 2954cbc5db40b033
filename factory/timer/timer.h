/* factory/timer/timer.h: what the ways to find a timer (by name, by id) know of timers.  timer.c opens with the protocol. */
#ifndef WEIR_FACTORY_TIMER_H
#define WEIR_FACTORY_TIMER_H

#include <errno.h>

#include <weir/timer.h>

#include "factory/names/names.h"
#include "factory/task/task.h"
#include "kernel/loop/follow.h"
#include "kernel/loop/pollers.h"

#define WEIR__TIMERS_AT_ONCE WEIR__TIMERQ_BATCH /* under one hold of the locks */

struct weir__timer {
        struct weir_task task;         /* first */
        struct weir__timerq_node node; /* guarded by the poller's lock; its deadline is the duration until the start; its note is
                                          the worker's, once EXPIRED: the deadline, then how late the callback began */
};

struct weir__named_timer {
        struct weir__timer timer; /* first */
        struct weir__name name;   /* last of this struct */
};

/* Eight tables, which tell the kind. */
struct weir__timer_ops {
        struct weir__task_ops task; /* first */
        bool named;
        bool ticks;   /* factory/timer/ticker.h */
        bool follows; /* another clock: kernel/loop/follow.h, factory/timer/timer_clock.c */
};

static inline const struct weir__timer_ops *weir__timer_ops(const struct weir__timer *timer)
{
        return (const struct weir__timer_ops *)weir__task_ops(&timer->task);
}

/* Bytes, before what is behind the name. */
static inline size_t weir__named_timer_size(size_t name_size)
{
        return (WEIR__NAME_SIZE(offsetof(struct weir__named_timer, name), name_size) + 7) & ~(size_t)7;
}

extern struct weir__names weir__timer_names;

/* Calls of weir_timer_cancel_wait under way.  Counted before a heavy fence; read behind a light one. */
extern _Atomic unsigned weir__timer_waits;

static inline struct weir__timer *weir__timer_of_name(struct weir__name *name)
{
        return &((struct weir__named_timer *)((char *)name - offsetof(struct weir__named_timer, name)))->timer;
}

/* The name that the timer was made with; NULL: none. */
static inline struct weir__name *weir__timer_name(struct weir__timer *timer)
{
        return weir__timer_ops(timer)->named ? &((struct weir__named_timer *)timer)->name : NULL;
}

/* What is behind the timer, or its name: NULL if it follows no clock. */
static inline struct weir__follower *weir__timer_follower(struct weir__timer *timer)
{
        if (__builtin_expect(!weir__timer_ops(timer)->follows, 1))
                return NULL;
        struct weir__name *name = weir__timer_name(timer);
        return (struct weir__follower *)((char *)timer + (name ? weir__named_timer_size(name->size) : sizeof *timer));
}

/* The timer that the task is, or NULL. */
struct weir__timer *weir__timer_of_task(struct weir_task *task);

/* Its poller, which does not change while who asks this holds the lock by which it was found; that of WEIR__POLLER_NONE at
 * first, if it was made before there were any. */
static inline struct weir__poller *weir__timer_poller(const struct weir__timer *timer)
{
        return weir__pollers.at[timer->task.poller];
}

static inline uint32_t weir__timer_word(const struct weir__timer *timer)
{
        return atomic_load_explicit(&timer->task.word, memory_order_acquire);
}

/* As long as `word` is what it holds.  On failure, `word` is what it holds now. */
static inline bool weir__timer_swap(struct weir__timer *timer, uint32_t *word, uint32_t desired)
{
        return atomic_compare_exchange_strong_explicit(&timer->task.word, word, desired, memory_order_acq_rel,
                                                       memory_order_acquire);
}

/* Whether it is a ticker in the middle of a tick, after which it goes on unless it is cancelled.  The callback that says how it
 * ended is no tick. */
static inline bool weir__timer_is_ticking(const struct weir__timer *timer, uint32_t word)
{
        return (word & (WEIR__STATE | WEIR__EXPIRED | WEIR__CANCELLED)) == (WEIR__RUNNING | WEIR__EXPIRED) &&
               weir__timer_ops(timer)->ticks;
}

/* Inside its callback: whether that runs because the deadline came; nothing has ended the timer before. */
static inline bool weir__timer_has_expired(const struct weir__timer *timer)
{
        const uint32_t relevant = WEIR__STATE | WEIR__EXPIRED | WEIR__REARMED;

        return (weir__timer_word(timer) & relevant) == (WEIR__RUNNING | WEIR__EXPIRED) && timer->task.status != -ECANCELED &&
               timer->task.status != -ETIMEDOUT;
}

/* Whether one that is cancelled was in the middle of a tick then, and has not ended yet: a callback of it may be running which
 * began before the cancel. */
static inline bool weir__timer_was_ticking(const struct weir__timer *timer)
{
        const uint32_t mask = WEIR__STATE | WEIR__EXPIRED | WEIR__CANCELLED;

        return (weir__timer_word(timer) & mask) == (WEIR__RUNNING | WEIR__EXPIRED | WEIR__CANCELLED);
}

/* Just before its last callback: its status if it was cancelled, or its series ends early.  On its worker. */
void weir__timer_take_verdict(struct weir__timer *timer, uint32_t word);

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

/* Its callback and on_free have returned, after it was cancelled: tells who waits for that, and frees it some time.  On its worker. */
void weir__timer_end_cancelled(struct weir__named_timer *named);

/* A task that only reports that fault when it is started or pushed; NULL when out of memory. */
weir_task *weir__timer_wrong(int fault, weir_task_fn *done, void *context);

/* What a timer has behind it, or its name: there before others find it by that. */
struct weir__timer_more {
        bool ticks, follows;
        clockid_t clock;  /* if it follows */
        weir_nsec target;
        const void *ticker; /* if it ticks: is copied */
        size_t ticker_size;
};

/* A ticker, a timer that follows another clock, or one that does both; NULL when out of memory.  No key: it has no name. */
struct weir__timer *weir__timer_make(const struct weir__name_key *key, const struct weir__timer_more *more, weir_nsec after,
                                     weir_task_fn *done, void *context);

/* -- deadlines; under the poller's lock -- */

/* An instant moved on, or back; WEIR_FOREVER stays. */
weir_nsec weir__timer_put_off(weir_nsec instant, weir_nsec by);

/* The same for a deadline, which does not become earlier than `now`, or than it was: how late a callback is counts from there. */
weir_nsec weir__timer_move(weir_nsec deadline, weir_nsec by, weir_nsec now);

/* Of one that is not started: how long it lasts.  Takes the lock. */
void weir__timer_set_duration(struct weir__timer *timer, weir_nsec duration);

/* The deadline that a timer gets which is to end then: on its grid.  What follows another clock ends at its target instead. */
weir_nsec weir__timer_aim(struct weir__timer *timer, weir_nsec deadline, weir_nsec now);

/* On its worker, with no lock held: puts one back into the queue whose word is that, REARMED or at the end of a tick.  Returns
 * whether it is there; if not, something has come to end it, and the status says what, or the word that it is CANCELLED. */
bool weir__timer_rearm(struct weir__timer *timer, uint32_t word);

/* A new deadline: `after` from `now`, or `by` later than the present one. */
struct weir__timer_change {
        weir_nsec now;
        weir_nsec by;
        bool extends;
};

/* The target of one that follows a clock, and starts, or is changed. */
void weir__timer_start_following(struct weir__timer *timer);
void weir__timer_move_target(struct weir__follower *follower, const struct weir__timer_change *change);

/* Whether it is the instant that counts before its start as well, and not the duration. */
static inline bool weir__timer_has_instant(const struct weir__follower *follower)
{
        return follower && follower->clock == CLOCK_REALTIME;
}

/* Makes the change if the timer will still end by itself.  *wake is set when its poller is to be woken, after unlocking.  Under
 * the lock by which it was found, and its poller's. */
bool weir__timer_change(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change,
                        bool *wake);

#endif
