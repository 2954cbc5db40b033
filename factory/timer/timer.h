/* factory/timer/timer.h: what the ways to find a timer (by name, by id) know of timers.  timer.c opens with the protocol. */
#ifndef WEIR_FACTORY_TIMER_H
#define WEIR_FACTORY_TIMER_H

#include <errno.h>

#include <weir/timer.h>

#include "factory/names/names.h"
#include "factory/task/series.h"
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

struct weir__timer_change;

/* What a timer does that comes again and again (factory/timer/ticker.c).  Under the poller's lock but where said so. */
struct weir__ticker_ops {
        /* On its worker, when it has begun, no lock held: runs the callback of a tick, and puts the ticker back into the queue.
         * Returns false when its last callback is to be run: there is no tick, or none after this. */
        bool (*tick)(struct weir__timer *timer);

        /* Gives up what it holds.  No change of a clock leads to it any more; no lock held. */
        void (*drop)(struct weir__timer *timer);

        /* Notes when the next tick is due, before that is rounded; and returns it. */
        void (*set_due)(struct weir__timer *timer, weir_nsec due);
        weir_nsec (*due)(struct weir__timer *timer);

        /* When the tick after the one that has just ended is due. */
        weir_nsec (*next)(struct weir__timer *timer, weir_nsec now);

        /* Of one with a schedule: when its first tick is due; and when the next one is, now that the clock was set, instead of at
         * `target`. */
        weir_nsec (*first)(struct weir__timer *timer, weir_nsec shown);
        weir_nsec (*retarget)(struct weir__timer *timer, weir_nsec target, weir_nsec shown);

        /* No tick comes behind the present one, or the next one if there is none. */
        void (*end)(struct weir__timer *timer);

        /* A reset in the middle of a tick.  Returns whether there will be another one. */
        bool (*change_next)(struct weir__timer *timer, const struct weir__timer_change *change);

        /* After a reset or an extension that counts. */
        void (*changed)(struct weir__timer *timer, const struct weir__timer_change *change);
};

/* Eight tables, which tell the kind: four of timers, four of tickers. */
struct weir__timer_ops {
        struct weir__task_ops task; /* first */
        bool named;
        bool follows;                         /* another clock: factory/timer/timer_deadline.c */
        const struct weir__ticker_ops *ticks; /* NULL: it ends once */
};

#define WEIR__TIMER_OPS(a_kind, is_named, is_follower, its_ticks)                   \
        {                                                                           \
                .task = {.work = {.run = weir__timer_run,                           \
                                  .kind = a_kind,                                   \
                                  .is_migratable = true,                           \
                                  .calls = weir__task_calls},                       \
                         .start = weir__timer_start,                                \
                         .cancel = weir__timer_end_early,                           \
                         .release = weir__timer_release,                            \
                         .name = weir__timer_text,                                  \
                         .lateness = weir__timer_lateness,                          \
                         .describe = weir__timer_describe},                         \
                .named = (is_named), .follows = (is_follower), .ticks = (its_ticks) \
        }

/* Of all timers: see struct weir__task_ops, struct weir__work_ops. */
void weir__timer_run(struct weir__work *work);
void weir__timer_start(struct weir_task *task);
struct weir_task *weir__timer_end_early(struct weir_task *task);
void weir__timer_release(struct weir_task *task, bool discarded);
weir_nsec weir__timer_lateness(const struct weir_task *task); /* -ENODATA: it has not expired */
const char *weir__timer_text(const struct weir_task *task, int *size);
void weir__timer_describe(const struct weir_task *task, char *out, size_t room);

static inline const struct weir__timer_ops *
weir__timer_ops(const struct weir__timer *timer)
{
        return (const struct weir__timer_ops *)weir__task_ops(&timer->task);
}

/* Bytes, before what is behind the name. */
static inline size_t
weir__named_timer_size(size_t name_size)
{
        return (WEIR__NAME_SIZE(offsetof(struct weir__named_timer, name), name_size) + 7) & ~(size_t)7;
}

extern struct weir__names weir__timer_names;

static inline struct weir__timer *
weir__timer_of_name(struct weir__name *name)
{
        return &((struct weir__named_timer *)((char *)name - offsetof(struct weir__named_timer, name)))->timer;
}

/* The name that the timer was made with; NULL: none. */
static inline struct weir__name *
weir__timer_name(struct weir__timer *timer)
{
        return weir__timer_ops(timer)->named ? &((struct weir__named_timer *)timer)->name : NULL;
}

/* What is behind the timer, or its name: NULL if it follows no clock. */
static inline struct weir__follower *
weir__timer_follower(struct weir__timer *timer)
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
static inline struct weir__poller *
weir__timer_poller(const struct weir__timer *timer)
{
        return weir__pollers.at[timer->task.poller];
}

static inline uint32_t
weir__timer_word(const struct weir__timer *timer)
{
        return atomic_load_explicit(&timer->task.word, memory_order_acquire);
}

/* As long as `word` is what it holds.  On failure, `word` is what it holds now. */
static inline bool
weir__timer_swap(struct weir__timer *timer, uint32_t *word, uint32_t desired)
{
        return atomic_compare_exchange_strong_explicit(&timer->task.word, word, desired, memory_order_acq_rel,
                                                       memory_order_acquire);
}

/* Whether it is a ticker in the middle of a tick, after which it goes on unless it is cancelled.  The callback that says how it
 * ended is no tick. */
static inline bool
weir__timer_is_ticking(const struct weir__timer *timer, uint32_t word)
{
        return (word & (WEIR__STATE | WEIR__EXPIRED | WEIR__CANCELLED)) == (WEIR__RUNNING | WEIR__EXPIRED) &&
               weir__timer_ops(timer)->ticks;
}

/* Inside its callback: whether that runs because the deadline came; nothing has ended the timer before. */
static inline bool
weir__timer_has_expired(const struct weir__timer *timer)
{
        const uint32_t relevant = WEIR__STATE | WEIR__EXPIRED | WEIR__REARMED;

        return (weir__timer_word(timer) & relevant) == (WEIR__RUNNING | WEIR__EXPIRED) && timer->task.status != -ECANCELED &&
               timer->task.status != -ETIMEDOUT;
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

/* A task that only reports that fault when it is started or pushed; NULL when out of memory. */
weir_task *weir__timer_wrong(int fault, weir_task_fn *done, void *context);

/* The name that a program gives, for a plan: a missing one is as wrong as an empty one. */
static inline const char *
weir__timer_given_name(const char *name)
{
        return name ? name : "";
}

/* What makes a timer that ticks, follows another clock, or does both.  The parts lie behind the timer, or its name: they are there
 * before others find it by that. */
struct weir__timer_plan {
        const char *name; /* as the program gives it; NULL: it has none */
        bool follows;
        clockid_t clock; /* if it follows */
        weir_nsec target;
        const struct weir__timer_ops (*ticks)[2]; /* of a ticker: whether it follows, has a name; NULL: it ends once */
        const void *ticker;                       /* of a ticker: is copied */
        size_t ticker_size;
};

/* NULL when out of memory; for a wrong name a task that reports that. */
weir_task *weir__timer_make(const struct weir__timer_plan *plan, weir_nsec after, weir_task_fn *done, void *context);

/* -- deadlines; under the poller's lock -- */

/* An instant moved on, or back; WEIR_FOREVER stays. */
weir_nsec weir__timer_put_off(weir_nsec instant, weir_nsec by);

/* The same for a deadline, which does not become earlier than `now`, or than it was: how late a callback is counts from there. */
weir_nsec weir__timer_move(weir_nsec deadline, weir_nsec by, weir_nsec now);

/* Of one that is not started: how long it lasts.  Takes the lock. */
void weir__timer_set_duration(struct weir__timer *timer, weir_nsec duration);

/* A deadline that a timer gets, rounded up: the timers of an exchange to its granularity, so that replies leave together, and those
 * that have slack to that.  Not for one that is READY and not on its worker: its callback may have begun, which may give it a
 * series. */
static inline weir_nsec
weir__timer_round(struct weir__timer *timer, weir_nsec deadline, weir_nsec now)
{
        weir_nsec granularity = timer->task.series ? timer->task.series->granularity : 0;
        weir_nsec slack = (INT64_C(1) << timer->task.slack) - 1;

        if (__builtin_expect(weir__timer_ops(timer)->ticks != NULL, 0))
                weir__timer_ops(timer)->ticks->set_due(timer, deadline);
        if (deadline <= now || deadline > WEIR_FOREVER - granularity - slack)
                return deadline;
        if (granularity)
                deadline = (deadline + granularity - 1) / granularity * granularity;
        return (deadline + slack) & ~slack;
}

/* The same, but what follows another clock ends at its target instead. */
weir_nsec weir__timer_new_deadline(struct weir__timer *timer, weir_nsec deadline, weir_nsec now);

/* Puts one that follows another clock into the queue, at its target.  Returns whether the poller is to be woken. */
bool weir__timer_add_follower(struct weir__timer *timer, struct weir__poller *poller, weir_nsec now);
extern const struct weir__follower_ops weir__timer_follower_ops;

/* On its worker, with no lock held: puts one back into the queue whose word is that, REARMED or at the end of a tick.  Returns
 * whether it is there; if not, something has come to end it, and the status says what, or the word that it is CANCELLED. */
bool weir__timer_rearm(struct weir__timer *timer, uint32_t word);

/* A new deadline: `after` from `now`, or `by` later than the present one. */
struct weir__timer_change {
        weir_nsec now;
        weir_nsec by;
        bool extends;
};

/* The target of one that follows a clock, and is changed. */
void weir__timer_move_target(struct weir__follower *follower, const struct weir__timer_change *change);

/* Whether it is the instant that counts before its start as well, and not the duration. */
static inline bool
weir__timer_has_instant(const struct weir__follower *follower)
{
        return follower && follower->clock == CLOCK_REALTIME;
}

/* Makes the change if the timer will still end by itself.  *wake is set when its poller is to be woken, after unlocking.  Under
 * the lock by which it was found, and its poller's. */
bool weir__timer_change(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change,
                        bool *wake);

#endif
