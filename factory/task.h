/* factory/task.h: what the kinds of tasks and the series know of each other.
 *
 * A task's life:
 *
 *     NEW --start--> PENDING --> READY --> RUNNING --> freed
 *      \--dismiss, refused---------------------------> freed
 *
 * PENDING is a timer's; other kinds go from NEW to READY.  The one word holds this state and, for timers, the flags that start
 * and cancel exchange: factory/timer.c. */
#ifndef WEIR_FACTORY_TASK_H
#define WEIR_FACTORY_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/parallel.h>
#include <weir/series.h>
#include <weir/task.h>

#include "kernel/lock.h"
#include "kernel/poller.h"
#include "kernel/work.h"

enum weir__state {
        WEIR__NEW = 0,
        WEIR__PENDING = 1,
        WEIR__READY = 2,
        WEIR__RUNNING = 3,
        WEIR__STATE = 3, /* mask */

        WEIR__CLAIMED = 4,   /* exchanged by start and cancel by name: who comes second does the work */
        WEIR__CANCELLED = 8, /* came while READY: the callback sees -ECANCELED */
        WEIR__UNNAMED = 16,  /* READY by a cancel by name, which has taken it out of the map */
};

/* What a kind of task does.  None of it runs user code but the free functions where said so. */
struct weir__task_ops {
        struct weir__work_ops work; /* first: run, on a worker, when the task is READY */

        /* Starts it.  Its end is delivered through a poller, never from here.  Any thread, no lock held. */
        void (*start)(struct weir_task *task);

        /* Its series ends early: end what is pending.  Returns the task when the caller is to deliver it, or NULL.  Called under
         * the lock of its series, which keeps the task alive; it may not have been started yet.  NULL: nothing to end. */
        struct weir_task *(*cancel)(struct weir_task *task);

        /* Gives up what the kind holds besides the memory of the task; on the caller's or a worker's stack, no lock held.  NULL:
         * nothing.  `discarded`: it never started, so its parts go as well (their free functions run). */
        void (*release)(struct weir_task *task, bool discarded);

        /* What the end of the series made by weir_series_of does, on a worker.  NULL: a lone task's, the root has ended. */
        void (*series_ended)(struct weir_series *series);

        /* The grid on which the timers of that series end; 0: exactly. */
        weir_nsec grain;
};

struct weir_task {
        struct weir__work work; /* first; work.ops is the first member of the kind's struct weir__task_ops */

        /* Its owner's: the caller, then the worker that runs it. */
        weir_task_fn *done;
        void *context;
        weir_free_fn *on_free;
        struct weir_series *series; /* NULL for a lone task until weir_series_of */
        int status;                 /* written before READY is, or by who runs it */

        _Atomic uint32_t word; /* state and flags; release when a step is done, acquire where it is relied upon */

        /* Constant. */
        uint16_t poller; /* index of the poller that it belongs to */
        uint16_t size;   /* of the memory it lies in, unless LARGE */

        /* Its owner's. */
        uint32_t flags;
};

enum weir__task_flags {
        WEIR__TASK_CONSUMED = 1, /* started, pushed, added or dismissed */
        WEIR__TASK_WRONG = 2,    /* `status` says what was wrong at its making; it is never started */
        WEIR__TASK_LARGE = 4,    /* its memory is malloc's */
};

/* Initialises the common part of a task of `size` bytes from weir__alloc. */
void weir__task_init(struct weir_task *task, const struct weir__task_ops *ops, size_t size, weir_task_fn *done, void *context);

static inline const struct weir__task_ops *weir__task_ops(const struct weir_task *task)
{
        return (const struct weir__task_ops *)task->work.ops;
}

/* Marks the task as consumed by `verb`; aborts when it was before. */
void weir__task_consume(struct weir_task *task, const char *verb);

/* Frees a consumed task that never started: no callback. */
void weir__task_discard(struct weir_task *task);

/* READY -> RUNNING, and the status that the callback sees; then the callback.  On a worker. */
void weir__task_call(struct weir_task *task);

/* After the callback: frees the task, and has its series go on. */
void weir__task_finish(struct weir_task *task);

/* The `run` of most kinds: call, finish. */
void weir__task_run(struct weir__work *work);

/* Sets READY and delivers, for kinds whose tasks nobody else can end: to the poller of the worker that this is, if it is one. */
void weir__task_ready(struct weir_task *task);

#endif
