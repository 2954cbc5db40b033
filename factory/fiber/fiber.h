/* factory/fiber/fiber.h: fibers, as the files of this room see them.
 *
 *     NEW --start--> to begin --a worker--> RUNNING <--> WAITING --its function returns--> over --> READY --> freed
 *                       \--its series ends early: the function is not called----------------/
 *
 * A fiber is the current task of its series, as a module is.  What it awaits runs in a series of its own, which lies in the same
 * block and is *fed*: it has one task at a time, and each comes from the fiber.  That series is within the fiber's, so its causes
 * come down as to the children of a combinator.
 *
 * A *stretch* is what a fiber runs between two awaits.  It runs inside the callback of the task that has ended, on a stack of its
 * own.  The worker is in that callback until the stretch is over.  Then it frees the task, and starts the one that the fiber
 * wants next.  So a task that was awaited is there until the next await, and nothing that may resume the fiber starts while its
 * stack runs.
 *
 * It begins as the work of its own task, and ends as that.  What it awaits without a task of the program (a yield, a sleep, a
 * channel, a group) uses another task in its block. */
#ifndef WEIR_FACTORY_FIBER_H
#define WEIR_FACTORY_FIBER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/fiber.h>

#include "factory/sync/waitable.h"
#include "factory/task/series.h"
#include "factory/timer/timer.h"
#include "kernel/stack/switch.h"

struct weir__partner;
struct weir__stack;

/* What the fiber wants when it leaves its stack. */
enum weir__fiber_wish {
        WEIR__FIBER_YIELD,
        WEIR__FIBER_SLEEP,
        WEIR__FIBER_WAIT,  /* at a channel */
        WEIR__FIBER_AWAIT, /* a task */
        WEIR__FIBER_JOIN,  /* the children of a group */
        WEIR__FIBER_END,   /* its function has returned */
        WEIR__FIBER_MOVE,  /* to go on at once, on its own thread or on the worker's */
};

enum weir__fiber_flag {
        WEIR__FIBER_ENDING = 1, /* the walk that hands down the cause is on its way */
        WEIR__FIBER_OVER = 2,   /* its series has ended: the last of the two completes the task */
};

/* The task that a fiber awaits. */
struct weir__fiber_awaited {
        struct weir_task *task;
        weir_task_fn *done; /* the program's */
};

/* Its wait at a channel. */
struct weir__fiber_wait {
        const struct weir__task_ops *ops;
        struct weir__waitable *object;
        void *message;
};

struct weir__fiber {
        struct weir_task task; /* first */

        struct weir_series inner; /* its `owner` is this.  Its references keep the block */

        union {
                struct weir_task task; /* yields, and joins a group */
                struct weir__timer timer;
                struct weir__wait_task wait;
        } own; /* nothing is here before its first wait */

        /* Its own; the worker's while it waits.  Nothing is here before its first wait. */
        union {
                const struct weir__fiber_awaited *awaited; /* on its stack, as the next one */
                const struct weir__fiber_wait *wait;
                weir_nsec duration;
                struct weir_group *group;
                struct weir_task *refused; /* `has_refused`: it was not started, and is borrowed until the next await */
        } wanted;

        struct weir__work ending;

        /* Its own; the worker's while it waits.  What one that never waits needs begins here. */
        struct weir__context context;

        /* Constant. */
        weir_fiber_fn *function;
        const char *name;

        /* Its own; the worker's while it waits. */
        struct weir__stack *stack;  /* NULL: it has not begun, or is over */
        struct weir_series *scope;  /* what it awaits runs in: `inner`, or `shield`.  Written under the lock of `inner` */
        struct weir_series *shield; /* has its own memory; NULL: there was none */

        _Atomic(void *) at; /* the call in which it waits; NULL: a stretch runs, or it has not begun.  Relaxed: for dumps */

        union {
                struct weir_task *host;            /* while it is hosted: in whose callback it has begun */
                _Atomic(struct weir_task *) limit; /* the timer of the present await; NULL: there is none.  Written under the lock
                                                      of `scope`, relaxed: one that is late looks under that of its own */
        };

        struct weir_group *groups;     /* that are open, the newest first; guarded by lock */
        struct weir__partner *partner; /* its thread, if it was ever pinned; else NULL.  Its own; the worker's while it waits */

        /* Rank COMBINATOR: taken also under the lock of the inner series. */
        struct weir__lock lock;

        _Atomic uint8_t flags; /* enum weir__fiber_flag */

        /* Its own; the worker's while it waits.  `wish` is volatile: else it is read in one piece with `flags`. */
        volatile uint8_t wish; /* enum weir__fiber_wish */
        uint16_t shields : 8;  /* that were begun and not ended */
        bool is_hosted : 1;    /* it has not waited yet, and is in no series */
        bool is_begun : 1;     /* it has begun before its start; constant from then on */
        bool is_child : 1;     /* of a group, without a series around it; constant once started */
        bool has_waited : 1;   /* it is a root, or has the time since when it runs */
        bool is_armed : 1;     /* its wait at a channel is linked, and is to be parked */
        bool has_refused : 1;  /* see `wanted` */
        bool is_odd : 1;       /* the number of its stretches in hop mode */
        bool is_prefetched : 1; /* its sleep is over, and its stack on the way from memory */
};

#define WEIR__FIBER_SHIELDS_MOST 255

/* The fiber that runs on this thread; NULL: none.  Not inline: a compiler must not keep the address of a thread-local variable
 * over an await. */
struct weir__fiber *weir__fiber_self(void) __attribute__((noinline));

/* Why the fiber must not wait any more; 0: it may.  A fiber that is hosted is in the series of its host from then on. */
int weir__fiber_find_cause(struct weir__fiber *fiber) __attribute__((cold, noinline));

static inline int
weir__fiber_cause_once_in_series(struct weir__fiber *fiber)
{
        bool may_have_one = atomic_load_explicit(&weir__series_descents, memory_order_acquire) ||
                            atomic_load_explicit(&fiber->scope->cause, memory_order_acquire) || weir__phase_is_stopping();

        return __builtin_expect(may_have_one, 0) ? weir__fiber_find_cause(fiber) : 0;
}

static inline int
weir__fiber_cause(struct weir__fiber *fiber)
{
        return __builtin_expect(fiber->is_hosted, 0) ? weir__fiber_find_cause(fiber) : weir__fiber_cause_once_in_series(fiber);
}

/* The same, but 0 while the cause is on its way down to the fiber, and for a shutdown. */
static inline int
weir__fiber_cause_at_hand(struct weir__fiber *fiber)
{
        bool may_have_one = fiber->is_hosted || atomic_load_explicit(&fiber->scope->cause, memory_order_acquire);

        return __builtin_expect(may_have_one, 0) ? weir__fiber_find_cause(fiber) : 0;
}

/* A fiber that has begun in the callback of its host is within the series of that from now on.  Result: 0 or -ENOMEM. */
int weir__fiber_leave_host(struct weir__fiber *fiber);

/* Leaves the stack with that wish, and returns in the next stretch.  `wanted` is set.  `at` is where the program waits. */
void weir__fiber_leave(struct weir__fiber *fiber, enum weir__fiber_wish wish, void *at) __attribute__((noinline));

/* In a function that the program calls: where it does. */
#define WEIR__FIBER_AT __builtin_extract_return_addr(__builtin_return_address(0))

/* A wait at a channel stays the current task of the scope until another one takes its place, so that it need not leave under the
 * lock: it is RUNNING then, and a cancel leaves it alone.  Before its memory serves for another kind, and before the scope
 * changes, the scope leaves it. */
void weir__fiber_clear_own(struct weir__fiber *fiber);

/* Runs the fiber until it wants something.  On the worker's stack, in a callback. */
void weir__fiber_run_stretch(struct weir__fiber *fiber);

/* The callback of the own task, which is RUNNING, and what the fiber wants after that stretch. */
void weir__fiber_run_own(struct weir__fiber *fiber);

/* The callback of what a fiber awaits without a task of the program: the next stretch. */
void weir__fiber_go_on(weir_task *task, void *context);

/* Within the callback of a task that was awaited a function of the program has returned: the task's own callback, or a stretch.
 * If it has lost the poller that is said now, as the next function in there is another one.  The object is the function's. */
void weir__fiber_report_blocked(struct weir__worker *worker, const struct weir__work *object) __attribute__((cold, noinline));

static inline bool
weir__fiber_has_lost_poller(const struct weir__worker *worker)
{
        return __builtin_expect(!worker->poller, 0) || !weir__worker_owns(worker);
}

/* Discards a task that the last await has refused.  On the stack of the fiber. */
void weir__fiber_drop_refused(struct weir__fiber *fiber);

/* 0, or why the fiber that runs must not wait.  Sets *fiber.  Gives back what the last await has refused. */
static inline int
weir__fiber_may_wait(struct weir__fiber **fiber)
{
        struct weir__fiber *self = weir__fiber_self();

        *fiber = self;
        if (__builtin_expect(!self, 0))
                return -EDEADLK;
        if (__builtin_expect(self->has_refused, 0))
                weir__fiber_drop_refused(self);
        return weir__fiber_cause(self);
}

/* weir_await in that fiber. */
int weir__fiber_await(struct weir__fiber *fiber, struct weir_task *task, void *at);

/* weir_await, for the calls of other rooms.  On a thread of the program the task is gone behind it, so what it brings is taken in
 * its callback. */
int weir__await(struct weir_task *task, void *at);

/* weir_await_within in that fiber. */
int weir__fiber_await_within(struct weir__fiber *fiber, struct weir_task *task, weir_nsec limit, void *at);

/* A task will not be started: it stays borrowed until the next await, with that status, which is returned.  Consumes it. */
int weir__fiber_refuse(struct weir__fiber *fiber, struct weir_task *task, int fault);

/* On the worker's stack: starts the task in the embedded block that the fiber wants. */
void weir__fiber_start_sleep(struct weir__fiber *fiber);
void weir__fiber_start_wait(struct weir__fiber *fiber);

/* Delivers the own task: the next stretch.  Any thread that owns the fiber's next step, no lock held. */
void weir__fiber_deliver_own(struct weir__fiber *fiber);

/* -- groups -- */

/* On the worker's stack: the next stretch comes when the group has no children. */
void weir__group_join(struct weir__fiber *fiber);

/* The fiber ends early, and so do the children of its groups.  Under the lock of its inner series. */
void weir__groups_end_early(struct weir__fiber *fiber);

/* The function has returned: cancels and joins what is open.  On the stack of the fiber. */
void weir__groups_close_all(struct weir__fiber *fiber) __attribute__((noinline));

/* The next series that a group of the fiber runs, as the `child` of a task; the cursor begins at WEIR__GROUPS_CHILD. */
#define WEIR__GROUPS_CHILD 2
bool weir__groups_child(struct weir__fiber *fiber, struct weir__child_cursor *cursor, struct weir_series **child);

/* Starts a task in the scope of the fiber.  On the worker's stack, no lock held. */
void weir__fiber_start(struct weir__fiber *fiber, struct weir_task *task);

/* Its next stretch begins its function.  Result: 0, or what weir__stack_take returns. */
int weir__fiber_take_stack(struct weir__fiber *fiber);

/* Whether a task that was not started is a fiber that may be a child of a group as it is.
 *
 * Result:  what it awaits runs in; NULL: it is none. */
struct weir_series *weir__fiber_as_child(struct weir_task *task);

/* It is within that series of the group from now on, which has no cause.  Nobody else knows it yet, and the group has not its
 * cause meanwhile: under the lock of that. */
static inline void
weir__fiber_enter_group(struct weir_series *inner, struct weir_series *within)
{
        ((struct weir__fiber *)inner->owner)->task.series = within;
        inner->parent = within;
        inner->granularity = within->granularity;
}

/* Starts it.  Its `index` is its slot in the group. */
void weir__fiber_start_child(struct weir_series *inner);

/* It has ended. */
void weir__group_child_ended(struct weir_series *within, uint32_t slot, int status);

/* The same, if nobody else has a reference to it: nobody can find it any more then.  Returns whether it was so. */
bool weir__group_forget_private(struct weir_series *child, struct weir_series *within, int status);

/* When the library is loaded. */
void weir__fiber_prepare_trim(void);

#endif
