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

struct weir_series {
        struct weir__work work; /* first: a step that has to be made on a worker */

        /* Constant once started. */
        weir_series_fn *done;
        void (*ended)(struct weir_series *series); /* tells `owner`, after callback and free function; on a worker */
        void *owner;
        uint32_t grain;       /* ns, of its timers' deadlines; 0: exact */
        uint16_t poller;      /* where steps are delivered */
        bool wraps;           /* its result comes from a task: from the first, for which it was made; or it `heeds` each */
        bool waiter_gave : 1; /* of who waits for it: weir__runtime_wait_begin */
        bool is_live : 1;     /* it is a root, registered from its start to its end: factory/task/live.h */

        /* Whose turn it is to make a step, and nobody else's. */
        struct weir__work_list
                taken; /* the oldest tasks: nobody has to be asked for the next; behind them what the callbacks push
                                         while the queue is empty */
        int result;    /* of the wrapped task, once it ended; of the last one that has, if it heeds each */
        bool has_result;
        bool heeds; /* constant: its result is the status of its last task, unless something ends it early */

        /* Guarded by lock; but while it is NEW and has one reference, its owner's alone. */
        uint8_t state;       /* enum weir__series_state */
        _Atomic bool queued; /* the queue is not empty; read without by who makes a step (relaxed), as `urgent` */
        struct weir__lock lock;
        int poison;
        struct weir__work_list queue; /* tasks not yet started, but for those taken */
        struct weir_task *current;    /* started and not finished, and can be cancelled: alive while this is set */
        struct weir_series *parent;   /* whose cancellation reaches this one: that of the parallel it is in.  NULL for a root,
                                         and once ENDED; until then the parent cannot end */

        /* The last of those at the head of the queue that come before the taken ones; NULL: none does.  Written under the lock,
         * read without by who makes a step (relaxed): it sees each push that comes before the step. */
        _Atomic(struct weir__work *) urgent;

        /* Its name, its deadline, the guards that it holds; NULL until it first has one of them, then constant.  Written under the
         * lock, with release: who is within reads it without. */
        _Atomic(struct weir__series_extra *) extra;

        /* Why it ends early: 0, -ECANCELED, -ETIMEDOUT, -ESHUTDOWN.  Written under the lock, once, with release; read without. */
        _Atomic int cause;

        _Atomic uint32_t references;

        union {
                struct weir__latch latch; /* opened at the end of a root that a thread waits for */
                unsigned index;           /* of one in a parallel: constant */
        };

        uint32_t started; /* about when (factory/task/live.h); constant from then on */

        /* Its callbacks'. */
        void *context;
        weir_free_fn *free_context;
        struct weir__trace_flow trace;

        /* The parallel's that it is in, guarded by that one's lock; of a root the registry's. */
        struct weir_series *previous, *next;
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

/* Begins a slice of a trace for what is called in a series, by who may: nothing else of it runs.  NULL: in none. */
static inline void
weir__series_trace(struct weir_series *series, struct weir__trace_slice *slice)
{
        weir__trace_begin(slice, series ? &series->trace : NULL, series && series->parent ? &series->parent->trace : NULL);
}

/* The current task has finished.  First the series leaves it, so that nobody reaches it any more; when it is freed, the series
 * goes on: the next one is started, or the series ends. */
void weir__series_forget(struct weir_series *series, struct weir_task *task);

static inline void
weir__series_leave_task(struct weir_series *series, struct weir_task *task)
{
        if (series->current || series->wraps)
                weir__series_forget(series, task);
}

void weir__series_go_on(struct weir_series *series);

/* Writes what it waits for to `out`, as a string of less than `room` bytes: its current task ("a timer "name" (due in 5 s)"), and what
 * that runs, of several series the first that has not ended.  Nothing for a task that cannot be cancelled, or none.  By who has a
 * reference; any thread. */
void weir__series_describe(struct weir_series *series, char *out, size_t room);

/* How many tasks are behind the current one, `most` at most; a current one that has just been made that may hide some.  Under the lock. */
unsigned weir__series_behind(const struct weir_series *series, unsigned most);

/* The exchange that the series is of, which is there until it has ended; NULL: it is of none.  Under the lock of one that is
 * registered. */
struct weir_task *weir__series_keeper(const struct weir_series *series);

/* What it counts as in a parallel, or for who waits: the wrapped task's status, else its own; if that is 0, and it heeds that of its
 * last task, that. */
int weir__series_result(const struct weir_series *series);

#endif
