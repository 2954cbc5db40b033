/* io/process/process.h: the task that runs a program.
 *
 *     NEW --start--> UNDER_WAY: queued, started, runs --ended and reaped--> READY --> RUNNING, the callback
 *
 * A cancel while it is UNDER_WAY only leaves its mark, and has the owner of the poller end the program: process.c. */
#ifndef WEIR_IO_PROCESS_H
#define WEIR_IO_PROCESS_H

#include "factory/task/task.h"
#include "io/process/collector.h"
#include "io/process/running.h"
#include "io/process/settings.h"
#include "io/process/spawn.h"
#include "kernel/executor/jobs.h"

struct weir__process {
        struct weir_task task; /* first */

        struct weir__settings settings; /* its maker's, then constant but for what weir__settings_close gives up */

        /* The thread of the executor that runs the job writes to these, and then gives `news` to the poller. */
        struct weir__job job;
        struct weir__work news;
        struct weir__spawned spawned;
        int failed;                     /* 0, or why there is no program */
        bool has_hold;                  /* of the virtual clock */
        _Atomic weir_nsec began;        /* in real time; 0: not yet.  Relaxed: dumps show it */
        struct weir__job awaiting;      /* waits for its end, because no poller can */

        bool was_taken_back; /* from the executor, by the cancel: written before that is delivered */

        struct weir__running running; /* has a lock of its own */

        /* Owner of the poller only, then of the callback. */
        bool is_begun;        /* the news has come */
        bool is_cancel_known; /* it has come, too */
        bool is_stopping;     /* the program was told to end */
        bool is_watched;      /* by its pidfd */
        bool has_ended;       /* the task has its status */
        int reason;           /* why the program was told to end, if that was no cancel; 0: none */
        weir_nsec kill_at;    /* in real time; WEIR_FOREVER: never, or it was done */
        struct weir__ending ending;
        struct weir__source exit; /* the pidfd */
        struct weir__source wake; /* a timerfd, in real time; its fd is -1: there is none */
        struct weir__collector collected[WEIR__STANDARD_FDS];
};

extern const struct weir__task_ops weir__process_ops;

/* Makes a task without arguments.  NULL: out of memory. */
struct weir__process *weir__process_make(weir_task_fn *done, void *context);

/* For a setter of the descriptor `which`, named `call`.  NULL: the task is NULL, or `which` is wrong, which its start reports.
 * Aborts for another task, or one that was consumed.  face.c */
struct weir__process *weir__process_to_set(struct weir_task *task, int which, const char *call);

#endif
