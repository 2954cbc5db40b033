/* factory/task/series.h: a series, as parallels and the server see it.
 *
 *     NEW --start--> RUNNING --> ENDED --> freed with the last reference
 *      \--dismiss, refused--------------> freed
 *
 * One step at a time: `current` runs, then the next is started.  The step is made by whoever finished the task before, on a
 * worker; the first by who starts the series. */
#ifndef WEIR_FACTORY_SERIES_H
#define WEIR_FACTORY_SERIES_H

#include <errno.h>

#include "factory/task/task.h"
#include "kernel/base/latch.h"
#include "kernel/observe/trace.h"

enum weir__series_state {
        WEIR__SERIES_NEW = 0,
        WEIR__SERIES_RUNNING,
        WEIR__SERIES_ENDED,
};

/* The first member is what a step does that must be made on a worker.  Series of one kind share the rest. */
struct weir__series_ops {
        struct weir__work_ops work; /* first */

        /* Tells `owner`, after the callback and the free function.  On a worker, no lock held. */
        void (*ended)(struct weir_series *series);

        bool is_shown_as_owner; /* in a dump, while it runs: `owner` is a task, which is there until the series has ended */
};

void weir__series_step(struct weir__work *work);

#define WEIR__SERIES_WORK {.run = weir__series_step, .kind = "a series", .is_migratable = true}

/* What the result of a series is, unless something ends it early. */
enum weir__series_result {
        WEIR__RESULT_OWN = 0, /* its own status */
        WEIR__RESULT_FIRST,   /* that of its first task: it was made around it */
        WEIR__RESULT_LAST,    /* that of its last task */
};

/* A series has two lines of a cache.  A ring of tasks is given by its newest one: each task leads to the next newer one, and the
 * newest one to the oldest. */
struct weir_series {
        struct weir__work work; /* first */

        /* Constant once started. */
        weir_series_fn *done;
        void *owner;
        uint32_t granularity;  /* ns, of the deadlines of its timers; 0: exact */
        uint32_t index;        /* among those of its owner; of a root that is registered its handle there */
        uint32_t started;      /* about when (factory/task/live.h) */
        uint8_t poller;        /* the index of the one that its steps are delivered to */
        uint8_t result_of : 2; /* enum weir__series_result */
        bool is_live : 1;      /* it is a root that is registered, from its start to its end */

        /* Owned by the thread that makes its steps. */
        bool has_result; /* `result` does not change any more */
        uint8_t state;   /* enum weir__series_state; guarded by lock */
        int result;      /* of its first or last task */

        /* Guarded by lock; while it is NEW and has one reference, its owner's alone. */
        struct weir__lock lock;
        struct weir__work *taken; /* a ring of tasks: the oldest ones, and what its callbacks push while `queue` is empty.  Owned by
                                     the thread that makes its steps */
        _Atomic(struct weir__work *) front; /* a ring of tasks that come before those in `taken` */
        _Atomic(struct weir__work *) queue; /* a ring of tasks that come behind them */
        struct weir_task *current;          /* started and not finished, and can be cancelled: alive while this is set */
        struct weir_series *parent;         /* its cancel reaches this one.  NULL for a root, and once ENDED; until then the
                                               parent cannot end */
        int16_t poison;                     /* the error of the first push that failed */

        /* Why it ends early: 0, -ECANCELED, -ETIMEDOUT, -ESHUTDOWN.  Written under the lock, once, with release; read without. */
        _Atomic int16_t cause;

        _Atomic uint32_t references;

        /* Its name, its deadline, the guards that it holds; NULL until it first has one of them, then constant.  Written under the
         * lock, with release; those within the series read it without. */
        _Atomic(struct weir__series_extra *) extra;

        /* Its callbacks'. */
        void *context;
        weir_free_fn *free_context;
};

/* As weir_series_cancel, but it ends with that cause, unless it, or one that it is within, has one already.
 *
 * Result:  whether this call has given it one.
 * Threads: any that owns, borrows or has a reference.  Never blocks. */
bool weir__series_stop(struct weir_series *series, int cause);

/* The same under the lock.  Returns a task that is to be delivered after unlocking, by weir__series_deliver, or NULL. */
struct weir_task *weir__series_stop_locked(struct weir_series *series, int cause, bool *given);
void weir__series_deliver(struct weir_task *ended);

/* Under the lock: it has one from now on, unless it had one before. */
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

/* A series around one task, whose result is that task's.  Consumes the task; NULL when out of memory. */
struct weir_series *weir__series_wrap(struct weir_task *task);

/* What weir_series_start or weir_parallel_add would refuse it for; 0 when sound. */
int weir__series_fault(struct weir_series *series);

/* Dismisses a child of a parallel that is discarded.  Parallels nested in each other are taken apart one after another, not one
 * on the stack of the other. */
void weir__series_discard(struct weir_series *series);

/* Starts a series that is sound and was counted, if it is a root; else it is within `parent`. */
void weir__series_launch(struct weir_series *series, struct weir_series *parent);

/* The series made for a lone task that runs: NULL when out of memory. */
struct weir_series *weir__series_make_for(struct weir_task *task);

/* The same as the `prepare` of kinds that run other series, which so are always in one. */
int weir__series_prepare(struct weir_task *task);

/* Why the series has to end early, itself or one that it is within: 0 or the cause.  Inside the series, or under its lock. */
static inline int
weir__series_cause(const struct weir_series *series)
{
        for (; series; series = series->parent) {
                int cause = atomic_load_explicit(&series->cause, memory_order_acquire);

                if (cause)
                        return cause;
        }
        return 0;
}

/* The same for what asks which status a callback sees: shutdown ends what is pending, but what is READY then keeps its own. */
static inline int
weir__series_verdict(const struct weir_series *series)
{
        int cause = series ? weir__series_cause(series) : 0;

        return cause == -ESHUTDOWN ? 0 : cause;
}

/* Begins a slice of a trace for what is called in a series; NULL: in none.  On the thread that has the series, with no lock held. */
void weir__series_trace(struct weir_series *series, struct weir__trace_slice *slice);

/* The record of the series in traces; NULL: it has none, or it is no series. */
struct weir__trace_flow *weir__series_trace_flow(struct weir_series *series);

/* The current task has finished.  First the series leaves it, so that nobody reaches it any more; when it is freed, the series
 * goes on: the next one is started, or the series ends. */
void weir__series_forget(struct weir_series *series, struct weir_task *task);

static inline void
weir__series_leave_task(struct weir_series *series, struct weir_task *task)
{
        if (series->current || series->result_of != WEIR__RESULT_OWN)
                weir__series_forget(series, task);
}

void weir__series_go_on(struct weir_series *series);

/* After the callback of a task: on_free is called, and the series leaves the task, so that nobody reaches it any more. */
static inline void
weir__task_leave(struct weir_task *task)
{
        weir__task_call_on_free(task);
        if (task->series)
                weir__series_leave_task(task->series, task);
}

/* Writes what it waits for to `out`, as a string of less than `room` bytes: its current task ("a timer "name" (due in 5 s)"), and what
 * that runs, of several series the first that has not ended.  Nothing for a task that cannot be cancelled, or none.  By who has a
 * reference; any thread. */
void weir__series_describe(struct weir_series *series, char *out, size_t room);

/* How many tasks are behind the current one, `most` at most; a current one that has just been made that may hide some.  Under the lock. */
unsigned weir__series_behind(const struct weir_series *series, unsigned most);

/* What it counts as in a parallel, or for who waits: the wrapped task's status, else its own; if that is 0, and it heeds that of its
 * last task, that. */
int weir__series_result(const struct weir_series *series);

#endif
