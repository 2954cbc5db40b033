/* factory/flow/combinator.h: the common part of tasks that run other series: parallel, race, module, repeater, retry, and the
 * like.
 *
 *     NEW, children added --start--> starting children, a batch at a time --> waiting --> READY, when nothing is pending
 *                                                                              ^    |     and there is no next child
 *                                                                              '----'
 *
 * The combinator waits for the children that have not ended, and for the two walks, so it outlives them.  A walk goes over the
 * children and starts, or ends early, a batch of them at a time. */
#ifndef WEIR_FACTORY_COMBINATOR_H
#define WEIR_FACTORY_COMBINATOR_H

#include <weir/flow.h>

#include "factory/task/series.h"

struct weir__combinator;

struct weir__combinator_ops {
        struct weir__task_ops task; /* first: WEIR__COMBINATOR_TASK_OPS */

        /* A child has ended, with that result.  Returns whether all others are to be cancelled, which needs `within`.  Under
         * the lock of the combinator.  NULL: the result is the status of the task. */
        bool (*ended)(struct weir__combinator *combinator, const struct weir_series *child, int result);

        /* Nothing is pending any more, and nothing ends the task early: the series to be run next, which was not started, or NULL
         * for the end.  On a worker, no lock held; it may call user code.  NULL: there is only what was added. */
        struct weir_series *(*next)(struct weir__combinator *combinator);
        unsigned most; /* children; 0: any number.  After the last one its result stays, also if something ends the task early */

        /* Gives up what the kind holds besides children.  It runs no user code.  NULL: nothing. */
        void (*release)(struct weir__combinator *combinator);
};

#define WEIR__CHILDREN_FEW 2 /* that need no memory of their own */

struct weir__child_walk {
        struct weir__work work;
        unsigned next; /* the index of the next child */
};

struct weir__combinator {
        struct weir_task task; /* first */

        /* Constant once started.  `within` runs nothing: its cause, which is written under the lock of the combinator,
         * cancels the children and all that is inside them. */
        struct weir_series *within; /* the series around the children, which the kind keeps; NULL: that of the task */
        unsigned count, room;       /* children in the array, and how many it may have */
        struct weir_series **children; /* the array; guarded by lock.  A child that has ended is NULL */
        struct weir_series *few[WEIR__CHILDREN_FEW];

        struct weir_task *held; /* starts behind the wait that is the first child; NULL: it did, or there is none.  That child's
                                   until it has ended, then of the worker that runs the task */

        /* Rank COMBINATOR: taken also under the lock of the series that the combinator is in. */
        struct weir__lock lock;

        /* Guarded by lock. */
        unsigned left;        /* children that have not ended */
        unsigned added;       /* children that there have ever been */
        unsigned failed;      /* the index of the child whose status the task has */
        unsigned char walks;  /* on their way */
        bool is_ending_early; /* the walk that ends the children has begun: no other will */
        struct weir__child_walk starting, ending;
};

/* Makes a combinator in a block of `size` bytes, in which the caller sets what the kind adds.  NULL when out of memory. */
void *weir__combinator_new(const struct weir__combinator_ops *ops, size_t size, weir_task_fn *done, void *context);

/* The body of weir_X_add and weir_X_add_series: consume the child, also on failure, and poison the combinator with what is wrong.
 * The `index` of a child is the number of those added before.  A child that `next` returns has 0. */
void weir__combinator_add_task(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_task *task,
                               enum weir__act act);
void weir__combinator_add_series(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_series *series,
                             enum weir__act act);

/* The same for a task that was consumed and is held back until the wait, which has no callback, has ended well.  Both are one
 * child, whose result is that of the task. */
void weir__combinator_add_behind(struct weir_task *to, const struct weir__combinator_ops *ops, struct weir_task *wait,
                                 struct weir_task *task, enum weir__act act);

/* Drops the task that is held back, if it still is.  On a worker, no lock held. */
void weir__combinator_drop_held(struct weir__combinator *combinator);

/* For `ended`: the status of the task is that of the first child, in the order of adding, whose result is not 0. */
void weir__combinator_note_failure(struct weir__combinator *combinator, const struct weir_series *child, int result);

/* For `next`: the series around the task that the function of the program makes.  NULL: it made nothing, *fault is 0; or what it
 * made cannot be started, *fault is why. */
struct weir_series *weir__combinator_make_child(struct weir__combinator *combinator, weir_make_fn *make, int *fault);

/* For the ops of kinds. */
void weir__combinator_start(struct weir_task *task);
struct weir_task *weir__combinator_end_early(struct weir_task *task);
void weir__combinator_release(struct weir_task *task, bool discarded);
bool weir__combinator_child(struct weir_task *task, struct weir__child_cursor *cursor, struct weir_series **child);
void weir__combinator_describe(const struct weir_task *task, char *out, size_t room);

/* Of a kind such as "a parallel", whose `run` and `start` may be its own. */
#define WEIR__COMBINATOR_OPS_WITH(a_kind, its_run, its_start)                                                        \
        {                                                                                                            \
                .work = {.run = (its_run), .kind = a_kind, .is_migratable = true,                                    \
                         .function = weir__task_function, .name = weir__task_name},                                  \
                .prepare = weir__task_prepare_series, .start = (its_start), .end_early = weir__combinator_end_early, \
                .release = weir__combinator_release, .has_quiet_release = true, .child = weir__combinator_child,     \
                .describe = weir__combinator_describe,                                                               \
        }
#define WEIR__COMBINATOR_TASK_OPS(a_kind) WEIR__COMBINATOR_OPS_WITH(a_kind, weir__task_complete, weir__combinator_start)

#endif
