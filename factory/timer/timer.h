/* factory/timer/timer.h: timers, as the files of this room see them.  timer.c opens with the protocol. */
#ifndef WEIR_FACTORY_TIMER_H
#define WEIR_FACTORY_TIMER_H

#include <errno.h>

#include <weir/timer.h>

#include "factory/names/names.h"
#include "factory/task/series.h"
#include "factory/task/task.h"
#include "kernel/loop/clock_timer.h"
#include "kernel/loop/pollers.h"

#define WEIR__TIMERS_AT_ONCE WEIR__TIMERQ_BATCH /* under one hold of the locks */

struct weir__timer {
        struct weir_task task;         /* first */

        /* Guarded by the poller's lock.  Before the start `deadline` is the duration.  After the expiry `note` belongs to the
         * worker: it is the deadline, and from the callback on the lateness. */
        struct weir__timerq_node node;
};

struct weir__named_timer {
        struct weir__timer timer; /* first */
        struct weir__name name;   /* last of this struct */
};

struct weir__timer_change;

/* The operations of tickers (factory/timer/ticker.c).  Under the poller's lock unless a comment says otherwise. */
struct weir__ticker_ops {
        /* Runs the callback of a tick, and puts the ticker back into the queue.  Returns false when the last callback is to be
         * run: there is no tick, or none after this one.  On its worker, no lock held. */
        bool (*tick)(struct weir__timer *timer);

        /* Frees what the ticker holds.  It is in no list of clock timers any more.  No lock held. */
        void (*drop)(struct weir__timer *timer);

        /* When the tick after the one that has just ended is due. */
        weir_nsec (*next)(struct weir__timer *timer, weir_nsec now);

        /* For a schedule: when the next tick is due, after a clock change, instead of at `target`; 0: when the first one is. */
        weir_nsec (*retarget)(struct weir__timer *timer, weir_nsec target, weir_nsec shown);

        /* A reset during a tick.  Returns whether there will be another tick. */
        bool (*change_next)(struct weir__timer *timer, const struct weir__timer_change *change);
};

/* Where the phase of a ticker is, from which the ticks after that one are counted. */
enum weir__ticker_phase {
        WEIR__PHASE_DUE = 0,    /* at `due` */
        WEIR__PHASE_APART,      /* at `phase`: that tick alone was moved */
        WEIR__PHASE_FROM_START, /* the same, `phase` after the start, which has not come */
};

/* What every ticker has.  Instants are on the wall clock for a schedule, otherwise on the clock of the poller. */
struct weir__ticker {
        /* Guarded by the poller's lock; `due` stays while the ticker is READY or RUNNING. */
        weir_nsec period;
        weir_nsec due;   /* when the next tick is due, before that is rounded; during a tick, when that one was */
        weir_nsec phase; /* when it would have been due; 0 or more */
        uint8_t phase_is; /* enum weir__ticker_phase; of a schedule always DUE */
        bool is_moved; /* a reset or an extension has moved the next tick away from the schedule */

        /* The present or the next tick is the last one: because of a stop, the limit, or a cancel of its series.  Written by its
         * callback, and under the poller's lock. */
        _Atomic bool is_last;
};

/* There are ten tables, six of timers and four of tickers. */
struct weir__timer_ops {
        struct weir__task_ops task; /* first */
        bool is_named;
        bool is_until;                        /* before the start its deadline is an instant, not a duration */
        bool is_clock_timer;                  /* factory/timer/timer_deadline.c */
        const struct weir__ticker_ops *ticks; /* NULL: no ticker */
};

#define WEIR__TIMER_OPS(a_kind, has_name, is_clock, its_ticks)                                   \
        WEIR__TIMER_OPS_STARTED(a_kind, has_name, is_clock, its_ticks, weir__timer_start, false)

#define WEIR__TIMER_OPS_STARTED(a_kind, has_name, is_clock, its_ticks, its_start, has_instant)   \
        {                                                                                        \
                .task = {.work = {.run = weir__timer_run, .kind = a_kind, .is_migratable = true, \
                                  .function = weir__task_function, .name = weir__task_name},     \
                         .start = (its_start),                                                   \
                         .end_early = weir__timer_end_early,                                     \
                         .release = weir__timer_release,                                         \
                         .has_quiet_release = true,                                              \
                         .name = weir__timer_text,                                               \
                         .name_at = (has_name) ? offsetof(struct weir__named_timer, name) : 0,   \
                         .lateness = weir__timer_lateness,                                       \
                         .describe = weir__timer_describe},                                      \
                .is_named = (has_name), .is_until = (has_instant), .is_clock_timer = (is_clock), \
                .ticks = (its_ticks)                                                             \
        }

/* For all timers: see struct weir__task_ops, struct weir__work_ops. */
void weir__timer_run(struct weir__work *work);

/* Its node was taken out of the queue.  As `due` of struct weir__task_ops. */
struct weir__work *weir__timer_due(struct weir__timer *timer, int status);
void weir__timer_start(struct weir_task *task);
void weir__timer_start_until(struct weir_task *task);
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

/* Bytes of a named timer without the parts behind the name. */
static inline size_t
weir__named_timer_size(size_t name_size)
{
        return (WEIR__NAME_SIZE(offsetof(struct weir__named_timer, name), name_size) + 7) & ~(size_t)7;
}

static inline struct weir__timer *
weir__timer_of_name(struct weir__name *name)
{
        return &weir__container_of(name, struct weir__named_timer, name)->timer;
}

/* The name that the timer was made with; NULL: none. */
static inline struct weir__name *
weir__timer_name(struct weir__timer *timer)
{
        return weir__timer_ops(timer)->is_named ? &((struct weir__named_timer *)timer)->name : NULL;
}

/* The part behind the timer, or behind its name, if it is a clock timer; otherwise NULL. */
static inline struct weir__clock_timer *
weir__timer_clock_part(struct weir__timer *timer)
{
        if (__builtin_expect(!weir__timer_ops(timer)->is_clock_timer, 1))
                return NULL;
        struct weir__name *name = weir__timer_name(timer);
        return (struct weir__clock_timer *)((char *)timer + (name ? weir__named_timer_size(name->size) : sizeof *timer));
}

/* The part behind the timer, its name, and the clock that it follows, if it is a ticker; otherwise NULL. */
static inline struct weir__ticker *
weir__timer_ticker(struct weir__timer *timer)
{
        if (__builtin_expect(!weir__timer_ops(timer)->ticks, 1))
                return NULL;
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);
        struct weir__name *name = weir__timer_name(timer);
        size_t before = name ? weir__named_timer_size(name->size) : sizeof *timer;
        return clock_timer ? (struct weir__ticker *)(clock_timer + 1) : (struct weir__ticker *)((char *)timer + before);
}

/* The timer that the task is, or NULL. */
struct weir__timer *weir__timer_of_task(struct weir_task *task);

/* Its poller.  It does not change while the caller holds the lock by which the timer was found.  A timer that was made before
 * there were pollers has the one of WEIR__POLLER_NONE. */
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

/* A compare-and-swap.  On failure *word is the present word. */
static inline bool
weir__timer_swap(struct weir__timer *timer, uint32_t *word, uint32_t desired)
{
        return atomic_compare_exchange_strong_explicit(&timer->task.word, word, desired, memory_order_acq_rel,
                                                       memory_order_acquire);
}

/* Whether a tick of it runs.  The last callback, which says how the ticker ended, is no tick. */
static inline bool
weir__timer_is_ticking(const struct weir__timer *timer, uint32_t word)
{
        return (word & (WEIR__STATE | WEIR__EXPIRED | WEIR__CANCELLED)) == (WEIR__RUNNING | WEIR__EXPIRED) &&
               weir__timer_ops(timer)->ticks;
}

/* Inside its callback: whether that runs because the deadline came. */
static inline bool
weir__timer_has_expired(const struct weir__timer *timer)
{
        const uint32_t relevant = WEIR__STATE | WEIR__EXPIRED | WEIR__REARMED;

        return (weir__timer_word(timer) & relevant) == (WEIR__RUNNING | WEIR__EXPIRED) && timer->task.status != -ECANCELED &&
               timer->task.status != -ETIMEDOUT;
}

/* Sets the status for the last callback if the timer was cancelled or its series ends early.  On its worker. */
void weir__timer_take_verdict(struct weir__timer *timer, uint32_t word);

/* Moves a timer whose poller has no worker to one that has, before its start.  By its owner, no lock held; the runtime is up. */
void weir__timer_rebind(struct weir__timer *timer);

/* Marks the timer as cancelled, unless it was before or its callback has begun; returns whether.  If the timer is to be
 * delivered, it is appended to `taken`, which the caller gives to weir__timer_deliver after unlocking.  A timer that is not
 * started is only marked: its start or dismissal does the rest.  Under the lock by which it was found. */
bool weir__timer_mark_cancelled(struct weir__timer *timer, bool is_poller_locked, struct weir__work_list *taken);

/* Delivers the cancelled timers, `count` at most.  No lock held. */
void weir__timer_deliver(struct weir__work_list *taken, size_t count);

/* A task that only reports that fault when it is started or pushed; NULL when out of memory. */
weir_task *weir__timer_new_poisoned(int fault, weir_task_fn *done, void *context);

/* Turns NULL into the empty name, which the start refuses as well. */
static inline const char *
weir__timer_given_name(const char *name)
{
        return name ? name : "";
}

/* How to make a ticker, a clock timer, both, or a timer until an instant.  Its parts lie behind the timer, or its name.  They are
 * complete before the timer enters the map of names. */
struct weir__timer_plan {
        const char *name; /* as the program gives it; NULL: it has none */
        bool is_until;
        bool is_clock_timer;
        clockid_t clock; /* of a clock timer */
        weir_nsec target;
        const struct weir__timer_ops (*ticks)[2]; /* a ticker's, by: whether it is a clock timer, has a name; NULL: no ticker */
        const void *ticker;                       /* is copied */
        size_t ticker_size;
};

/* Returns NULL when out of memory; for a wrong name a task that reports it. */
weir_task *weir__timer_make(const struct weir__timer_plan *plan, weir_nsec after, weir_task_fn *done, void *context);

/* -- deadlines; under the poller's lock -- */

/* The instant, later by `by`.  WEIR_FOREVER stays. */
weir_nsec weir__timer_put_off(weir_nsec instant, weir_nsec by);

/* The same for a deadline.  It does not become earlier than `now` or than it was, because lateness counts from it. */
weir_nsec weir__timer_move(weir_nsec deadline, weir_nsec by, weir_nsec now);

/* The node of a task that is no timer, and whose `due` is called at its limit.  Not inline: the file that has it prepares the
 * queue for such nodes, and a program may have no other timer. */
void weir__timer_init_limit(struct weir__timer *timer, weir_nsec limit);

/* Sets the duration of a timer that is not started.  Takes the lock. */
void weir__timer_set_duration(struct weir__timer *timer, weir_nsec duration);

/* The ticker starts: its phase, which was counted from then, is an instant. */
void weir__timer_begin_phase(struct weir__ticker *ticker, weir_nsec now) __attribute__((cold, noinline));

/* Returns the deadline, rounded up: in an exchange to its granularity, so that replies leave together, and by the slack of the
 * timer.  Also sets when the next tick of a ticker is due.  Not for a READY timer, except on its worker: its callback may have
 * begun, and may give the timer a series, which is read here. */
static inline weir_nsec
weir__timer_fix_deadline(struct weir__timer *timer, weir_nsec deadline, weir_nsec now)
{
        weir_nsec granularity = timer->task.series ? timer->task.series->granularity : 0;
        weir_nsec slack = (INT64_C(1) << timer->task.slack) - 1;

        struct weir__ticker *ticker = weir__timer_ticker(timer);

        if (__builtin_expect(ticker != NULL, 0)) {
                const struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);

                /* Never before the zero of the clock, so that no difference overflows. */
                ticker->due = clock_timer ? clock_timer->target : deadline > 0 ? deadline : 0;
                if (__builtin_expect(ticker->phase_is == WEIR__PHASE_FROM_START, 0))
                        weir__timer_begin_phase(ticker, now);
        }
        if (deadline <= now || deadline > WEIR_FOREVER - granularity - slack)
                return deadline;
        if (granularity)
                deadline = (deadline + granularity - 1) / granularity * granularity;
        return (deadline + slack) & ~slack;
}

/* The deadline of a clock timer, but not before `earliest`: so it ends after timers that were due by then. */
weir_nsec weir__timer_clock_deadline(struct weir__clock_timer *clock_timer, weir_nsec earliest);

/* Puts a clock timer into the queue, at its target.  Returns whether the poller is to be woken. */
bool weir__timer_add_clock_timer(struct weir__timer *timer, struct weir__poller *poller, weir_nsec now);

/* The same for one that has its sequence and its target.  The deadline is not before `earliest`. */
bool weir__timer_add_clock_timer_again(struct weir__timer *timer, struct weir__poller *poller, weir_nsec earliest);
extern const struct weir__clock_timer_ops weir__timer_clock_ops;

/* Puts a timer that has this word back into the queue: it is REARMED, or at the end of a tick.  Returns false if something ends
 * the timer: the status says what, or the word is CANCELLED.  By the owner of its delivery.  No lock is held at the end of a
 * tick, otherwise that of the shard at most. */
bool weir__timer_rearm(struct weir__timer *timer, uint32_t word);

/* A new deadline: `by` from `now`, or, if it should extend that, `by` later than the present one. */
struct weir__timer_change {
        weir_nsec now;
        weir_nsec by;
        bool should_extend;
        bool is_for_tick; /* of tickers only: the ticks after the next one stay where they are */
};

/* Changes the target of a clock timer. */
void weir__timer_move_target(struct weir__clock_timer *clock_timer, const struct weir__timer_change *change);

/* Whether the timer has an instant before its start.  Otherwise it has a duration. */
static inline bool
weir__timer_has_instant(const struct weir__clock_timer *clock_timer)
{
        return clock_timer && clock_timer->clock == CLOCK_REALTIME;
}

/* Makes the change if the timer will still end by itself, and returns whether.  Sets *wake if the poller is to be woken after
 * unlocking.  Under the lock by which the timer was found, and its poller's. */
bool weir__timer_change(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change,
                        bool *wake);

/* Changes the timer of an id, or all timers of a name.  Returns how many were changed.  No lock held. */
size_t weir__timer_change_id(weir_timer_id id, struct weir__timer_change *change);
size_t weir__timers_change_named(const char *name, struct weir__timer_change *change);

/* After this the id finds nothing, and waits for its end are over.  Under the poller's lock. */
void weir__timer_give_up_id(struct weir__timer *timer, struct weir__poller *poller);

/* -- operations on many timers: timer_names.c, timer_walk.c -- */

/* Releases the lock of the poller *locked and takes that of `poller` instead; NULL is no lock. */
void weir__timers_lock_poller(struct weir__poller **locked, struct weir__poller *poller);

/* A cancel under way. */
struct weir__timers_cancel {
        size_t left, count;
        unsigned credit;              /* for this hold of the locks */
        struct weir__work_list taken; /* to be delivered when the locks have been let go */
};

/* _lock locks the shard for some more timers.  _unlock unlocks it, and then delivers the cancelled ones. */
struct weir__names_shard *weir__timers_cancel_lock(struct weir__timers_cancel *cancel, uint32_t hash);
void weir__timers_cancel_unlock(struct weir__timers_cancel *cancel, struct weir__names_shard *shard);

/* Cancels a timer, so that it becomes a zombie of its name.  Returns false if its callback runs. */
bool weir__timers_cancel_one(struct weir__timers_cancel *cancel, struct weir__names_shard *shard, struct weir__name *name);

#endif
