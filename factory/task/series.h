/* factory/task/series.h: a series, as combinators and the server see it.
 *
 *     NEW --start--> RUNNING --> ENDED --> freed with the last reference
 *      \--dismiss, refused--------------> freed
 *
 * One task runs at a time, and then the next one is started.  The thread that finished the task before makes this step,
 * on a worker.  The thread that starts the series makes the first one. */
#ifndef WEIR_FACTORY_SERIES_H
#define WEIR_FACTORY_SERIES_H

#include <errno.h>

#include "factory/task/task.h"
#include "kernel/base/latch.h"
#include "kernel/observe/trace.h"

enum weir__series_state {
        WEIR__SERIES_NEW = 0,
        WEIR__SERIES_RUNNING,
        WEIR__SERIES_FED, /* RUNNING, and what it runs comes from its kind: it does not end by itself */
        WEIR__SERIES_ENDED,
};

/* The operations of a kind of series.  The first member runs a step on a worker. */
struct weir__series_ops {
        struct weir__work_ops work; /* first */

        /* Reports the end to `owner`, after the callback and the free function.  On a worker, no lock held. */
        void (*ended)(struct weir_series *series);

        /* Writes what it is of, in a dump, while it runs: "of a connection from ...", as `describe` of a task.  NULL: nothing. */
        void (*describe)(const struct weir_series *series, char *out, size_t room);

        bool is_shown_as_owner; /* in a dump, while it runs: `owner` is a task, which is there until the series has ended */

        /* Of a series that is FED.  feed: nothing is queued, and its last task is freed: starts what comes next, or ends it.  On
         * a worker, no lock held.  function: of the program, which goes on when its task has ended.  has_cause: it ends early.
         * Under its lock. */
        void (*feed)(struct weir_series *series);
        weir__function *(*function)(const struct weir_series *series);
        void (*has_cause)(struct weir_series *series);

        void (*free_memory)(struct weir_series *series); /* of a series that is a part of a larger block */
};

void weir__series_step(struct weir__work *work);

/* The `name` of a series that has ended, for its end callback: factory/task/series_names.c. */
const char *weir__series_past_name(const struct weir__work *work, int *size);

#define WEIR__SERIES_WORK {.run = weir__series_step, .kind = "a series", .is_migratable = true, .name = weir__series_past_name}

/* What the result of a series is, unless something ends it early. */
enum weir__series_result {
        WEIR__RESULT_OWN = 0, /* its own status */
        WEIR__RESULT_FIRST,   /* that of its first task: it was made around it */
        WEIR__RESULT_LAST,    /* that of its last task */
        WEIR__RESULT_NEXT,    /* that of its next task; FIRST from then on */
};

/* The index of a series whose parent is a fiber's, and which has not all causes of it: a group, and a shield, which has none and
 * no deadline.  The byte with the bits would not do: those within read this without a lock. */
#define WEIR__INDEX_APART  (UINT32_MAX - 1)
#define WEIR__INDEX_SHIELD UINT32_MAX

/* A ring of tasks is given by its newest one: each task leads to the next newer one, and the newest to the oldest.  A series that
 * has an end callback has it right behind the struct: most have none. */
struct weir_series {
        struct weir__work work; /* first */

        /* Constant once started. */
        void *owner;
        uint32_t granularity;  /* ns, of the deadlines of its timers; 0: exact */
        uint32_t index;        /* among those of its owner, or WEIR__INDEX_APART and above; of a root its handle in the
                                  registry, 0: none */
        uint32_t started;      /* about when (factory/task/live.h) */
        uint8_t poller;        /* the index of the one that its steps are delivered to */
        uint8_t result_of : 2; /* enum weir__series_result.  With the rest of its byte written under the lock from the start on */
        bool is_live : 1;      /* it is a root in the registry, from its start to its end */
        bool starts_once_over : 1; /* also if its deadline is over: its first task ends at once then, and calls back */

        /* Written by its owner, then by its callbacks. */
        bool stops_on_failure : 1;

        bool is_part : 1;   /* it lies in a larger block; constant */
        bool has_done : 1;  /* the end callback is behind it; constant */

        /* Owned by the thread that makes its steps.  The bits above, these, and those below are in bytes of their own. */
        uint8_t : 0;
        bool has_result : 1;     /* `result` does not change any more */
        bool is_front_taken : 1; /* the oldest of `taken` was pushed to the front, and moved there alone */
        uint8_t : 0;
        uint8_t state : 2; /* enum weir__series_state; guarded by lock */
        uint8_t act : 6;   /* the last one that consumed it, without the flag; 0: none.  Guarded by lock; for misuse.c */
        int result;      /* of its first or last task */

        /* Guarded by lock; while it is NEW and has one reference, its owner's alone. */
        struct weir__lock lock;
        struct weir__work *taken; /* a ring of tasks: the oldest ones, and what its callbacks push while `queue` is empty.
                                     Owned by the thread that makes its steps */
        _Atomic uintptr_t queue; /* a ring of tasks that come behind them; 0: none.  With WEIR__SERIES_FRONT its oldest ones were
                                    pushed to the front: they come before those in `taken` */
        struct weir_task *current;          /* started and not finished, and can be cancelled: alive while this is set */
        struct weir_series *parent;         /* its cancel reaches this one.  NULL for a root, and once ENDED; until then the
                                               parent cannot end */
        int16_t poison;                     /* the error of the first push that failed */

        /* Why it ends early: 0; -ECANCELED, -ETIMEDOUT, -ESHUTDOWN; or weir__cause_of_failure.  Written under the lock,
         * once, with release; read without. */
        _Atomic int16_t cause;

        _Atomic uint32_t references;

        /* Its name, its deadline, the guards that it holds; NULL until it first has one of them, then constant.
         * Written under the lock, with release; threads within the series read it without. */
        _Atomic(struct weir__series_extra *) extra;

        /* Its callbacks'. */
        void *context;
        weir_free_fn *free_context;
};

#define WEIR__SERIES_FRONT 1 /* a bit of `queue`, beside the address */

/* The newest of those queued; NULL: none. */
static inline struct weir__work *
weir__series_queued(const struct weir_series *series)
{
        uintptr_t queue = atomic_load_explicit(&series->queue, memory_order_relaxed);

        return (struct weir__work *)(queue & ~(uintptr_t)WEIR__SERIES_FRONT);
}

static inline bool
weir__series_has_front(const struct weir_series *series)
{
        return atomic_load_explicit(&series->queue, memory_order_relaxed) & WEIR__SERIES_FRONT;
}

/* Its end callback; NULL: it has none. */
static inline weir_series_fn *
weir__series_done(const struct weir_series *series)
{
        return series->has_done ? *(weir_series_fn *const *)(const void *)(series + 1) : NULL;
}

/* The bytes of its memory, unless it is a part of a larger block. */
static inline size_t
weir__series_size(const struct weir_series *series)
{
        return sizeof *series + (series->has_done ? sizeof(weir_series_fn *) : 0);
}

/* The cause of a series that fails with that status: above 0. */
static inline int
weir__cause_of_failure(int status)
{
        return status < -INT16_MAX ? EOVERFLOW : -status;
}

/* The cause of a fiber's series while the limit of one await ends what it awaits.  Then it is taken back, unless another cause
 * has come: factory/fiber/limit.c. */
#define WEIR__CAUSE_OF_AWAIT INT16_MIN

/* The status of a series with that cause. */
static inline int
weir__cause_status(int cause)
{
        return cause > 0 ? -cause : cause == WEIR__CAUSE_OF_AWAIT ? -ETIMEDOUT : cause;
}

/* What all within a series with that cause see.  A failure cancels the rest. */
static inline int
weir__cause_within(int cause)
{
        return cause > 0 ? -ECANCELED : weir__cause_status(cause);
}

/* Whether the series is FED.  By the thread that makes its steps, or under its lock. */
static inline bool
weir__series_is_fed(const struct weir_series *series)
{
        return series->state == WEIR__SERIES_FED;
}

/* Whether it is what a fiber's awaits run in while it is shielded. */
static inline bool
weir__series_is_shield(const struct weir_series *series)
{
        return series->index == WEIR__INDEX_SHIELD;
}

/* Ends the series early with that cause, unless it, or a series that contains it, has one already.
 *
 * Result:  whether this call has given it the cause.
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
bool weir__series_end_early(struct weir_series *series, int cause);

/* The same for one that may have ended: returns -ESTALE then, else 0. */
int weir__series_end_now(struct weir_series *series, int cause);

/* The series fails with that status, unless that is 0.  By the thread that makes the steps, between two tasks: nothing is
 * pending.  Under the lock. */
void weir__series_note_failure(struct weir_series *series, int status);

/* As weir__series_end_early, under the lock.  Returns a task that the caller must deliver after unlocking, by
 * weir__task_deliver_home, or NULL. */
struct weir_task *weir__series_end_early_locked(struct weir_series *series, int cause, bool *given);

/* The series has that cause from now on, unless it had one before.  Under the lock. */
static inline void
weir__series_set_cause(struct weir_series *series, int cause)
{
        if (!atomic_load_explicit(&series->cause, memory_order_relaxed))
                atomic_store_explicit(&series->cause, cause, memory_order_release);
}

static inline struct weir_series *
weir__series_ref(struct weir_series *series)
{
        if (series)
                atomic_fetch_add_explicit(&series->references, 1, memory_order_relaxed);
        return series;
}

/* A series around one task, whose result is that of the task.  Consumes the task; NULL when out of memory. */
struct weir_series *weir__series_wrap(struct weir_task *task);

/* Adds a task to such a series, whose result is that of this task then.  Inside the callback of its only task. */
void weir__series_follow_up(struct weir_series *series, struct weir_task *task);

/* A series that runs nothing.  A task runs other series within it, and cancels them by its cause.  NULL when out of memory; the
 * task frees it.  weir__series_around_init makes one in memory of the task. */
struct weir_series *weir__series_around(void);
void weir__series_around_init(struct weir_series *within);
void weir__series_around_free(struct weir_series *within);

/* The error with which weir_series_start or weir_parallel_add would refuse it; 0 when it is sound.  Aborts when it was consumed
 * before. */
int weir__series_fault(struct weir_series *series, enum weir__act act);

/* Whether a block begins with a series that nobody has started, added or dismissed.  The block may be anything. */
bool weir__series_is_unstarted(const void *block, size_t size);

/* Dismisses a child of a combinator that is discarded.  Nested combinators are taken apart one after another, not one
 * on the stack of the other. */
void weir__series_discard(struct weir_series *series);

/* The same for a part of a task that is no series yet, such as a node of a graph. */
void weir__series_discard_part(struct weir_task *task);

/* weir_series_start, for a series whose end goes to `owner` by these operations, and of which the fault is known: 0, or it is
 * refused. */
int weir__series_start_root(struct weir_series *series, const struct weir__series_ops *ops, void *owner, int fault);

static inline int
weir__series_start_as(struct weir_series *series, const struct weir__series_ops *ops, void *owner, enum weir__act act)
{
        return weir__series_start_root(series, ops, owner, weir__series_fault(series, act));
}

/* A series of its own in memory of its owner's, which is zero but for `owner` and `context`.  The operations say how the memory
 * is freed.  One reference; it belongs to that poller. */
void weir__series_part_init(struct weir_series *series, const struct weir__series_ops *ops, unsigned poller);

/* Starts it.  Result: 0; else it is dismissed: what the first push that failed has said, or why the runtime runs nothing. */
int weir__series_part_start(struct weir_series *series);

/* Starts a series that is sound and was counted, if it is a root; else it is within `parent`. */
void weir__series_launch(struct weir_series *series, struct weir_series *parent);

/* How many early ends are on their way down: a series has a cause that not all series within it have yet.  Written with
 * release; read with acquire, before the cause of a series. */
extern _Atomic unsigned weir__series_descents;

static inline void
weir__series_descent_begin(void)
{
        atomic_fetch_add_explicit(&weir__series_descents, 1, memory_order_relaxed);
}

static inline void
weir__series_descent_end(void)
{
        atomic_fetch_sub_explicit(&weir__series_descents, 1, memory_order_release);
}

/* The same for one that is apart: a shield has none, and the limit of an await is no cause for what runs beside that. */
int weir__series_cause_of_apart(const struct weir_series *series) __attribute__((cold, noinline));

/* The cause of the nearest series around it that has one.  0: none.  There is one around it. */
static inline int
weir__series_cause_around(const struct weir_series *series)
{
        int cause;

        do {
                if (__builtin_expect(series->index >= WEIR__INDEX_APART, 0))
                        return weir__series_cause_of_apart(series);
                series = series->parent;
                cause = atomic_load_explicit(&series->cause, memory_order_acquire);
        } while (!cause && series->parent);
        return cause;
}

/* What all within the series see of its cause, or of the nearest one around it: a negative errno.  0: there is none.  It
 * looks at those around it only while an early end is on its way down.  Inside the series, or under its lock. */
static inline int
weir__series_effective_cause(const struct weir_series *series)
{
        unsigned descents = atomic_load_explicit(&weir__series_descents, memory_order_acquire);
        int cause = atomic_load_explicit(&series->cause, memory_order_acquire);

        if (!cause && (!descents || !series->parent))
                return 0;
        return weir__cause_within(cause ? cause : weir__series_cause_around(series));
}

/* The series is within `parent` from now on, and has the cause of that, if it has one.  Under its lock. */
static inline void
weir__series_enter(struct weir_series *series, struct weir_series *parent)
{
        int cause = weir__series_effective_cause(parent);

        series->parent = parent;
        series->granularity = parent->granularity;
        if (__builtin_expect(cause, 0))
                weir__series_set_cause(series, cause);
}

/* For what is left in `within`, which is decided: it is cancelled, unless it ends early already. */
static inline int
weir__series_rest_cause(const struct weir_series *within)
{
        int cause = weir__series_effective_cause(within);

        return cause ? cause : -ECANCELED;
}

/* The effective cause as the status that a callback sees.  Shutdown ends pending tasks, but a task that is READY then keeps its
 * own status. */
static inline int
weir__series_verdict(const struct weir_series *series)
{
        int cause = series ? weir__series_effective_cause(series) : 0;

        return cause == -ESHUTDOWN ? 0 : cause;
}

/* Begins a slice of a trace for a call in a series; NULL: in none.  On the thread that makes the steps of the series,
 * with no lock held. */
void weir__series_trace(struct weir_series *series, struct weir__trace_slice *slice);

/* The record of the series in traces; NULL: it has none, or it is no series. */
struct weir__trace_flow *weir__series_trace_flow(struct weir_series *series);

/* The current task has finished.  First the series leaves it, so that no thread reaches it any more.  When it is freed
 * the series goes on: the next task is started, or the series ends. */
void weir__series_forget(struct weir_series *series, struct weir_task *task);

static inline void
weir__series_leave_task(struct weir_series *series, struct weir_task *task)
{
        if (series->current || series->result_of != WEIR__RESULT_OWN || series->stops_on_failure)
                weir__series_forget(series, task);
}

void weir__series_go_on(struct weir_series *series);

/* Whether something is queued.  By the thread that makes the steps: what others push meanwhile may be missed. */
static inline bool
weir__series_has_queued(const struct weir_series *series)
{
        return series->taken || atomic_load_explicit(&series->queue, memory_order_relaxed);
}

/* A series that is FED is not fed any more: it runs what is queued, and ends.  By the thread that makes the steps. */
void weir__series_end_fed(struct weir_series *series);

/* After the callback of a task: on_free is called, and the series leaves the task, so that no thread reaches it any
 * more. */
static inline void
weir__task_leave(struct weir_task *task)
{
        weir__task_call_on_free(task);
        if (task->series)
                weir__series_leave_task(task->series, task);
}

/* Writes to `out`, as a string of less than `room` bytes, its current task ("a timer "name" (due in 5 s)") and the
 * first series that this runs and that has not ended.  Writes nothing for a task that cannot be cancelled.  Any thread
 * with a reference. */
void weir__series_describe(struct weir_series *series, char *out, size_t room);

/* How many tasks are behind the current one, `most` at most.  A current task that was just made may hide some.  Under
 * the lock. */
unsigned weir__series_behind(const struct weir_series *series, unsigned most);

/* Its result for a combinator or a waiting thread: its failure, if it has failed; the status of its first task if
 * `result_of` says so, else its own.  If that is 0, the status of its last task, if `result_of` says so. */
static inline int
weir__series_result(const struct weir_series *series)
{
        int cause = atomic_load_explicit(&series->cause, memory_order_relaxed);
        int result = series->has_result && cause <= 0 ? series->result : weir__cause_status(cause);

        if (!result)
                result = series->poison;
        return result ? result : series->result;
}

#endif
