/* kernel/worker/worker.h: a worker, the M of the scheduler: a thread that runs the loop of a poller as long as it owns one.
 *
 * While code of the program runs, a callback or a free function, the watchdog may take the poller away from its worker at any
 * instant (kernel/sched/watchdog.c).  While code of the library runs it may not.  `callback_seq` tells the two apart.  A call of
 * the library inside a callback pins the poller while it touches what only the owner may touch.
 *
 * The ownership word of a poller (struct weir__poller, owner):
 *
 *     NULL --start--> W --the watchdog retakes--> W + RETAKING --in time--> S, an idle worker
 *                     ^                                 |
 *                     '--the callback of W has returned-'
 *     W (or W + RETAKING) --weir_blocking_begin--> S;  W --end of the runtime--> NULL
 *
 * W writes `callback_seq` and then reads the word.  The watchdog writes the word, has the system run a fence on every CPU, and
 * then reads `callback_seq`.  So one of them sees the other: if W has read that it owns the poller, the watchdog reads that the
 * callback has returned, and gives the poller back.  test/model/handover.pml is the model of this. */
#ifndef WEIR_KERNEL_WORKER_H
#define WEIR_KERNEL_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/fence.h"
#include "kernel/base/latch.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/trace.h"

struct weir__worker;

/* What a function of the program is that is no callback of a task.  Constant. */
struct weir__callee {
        const char *what;  /* "the end callback of" */
        const char *kind;  /* of the object: "a series"; NULL: as its operations say */
        const char *slice; /* its kind in traces */
};

/* Another thread of the executor runs jobs while the job of the calling one blocks. */
struct weir__executor_ops {
        int (*blocking_begin)(void); /* 0 or -EAGAIN */
        void (*blocking_end)(void);
};

/* Why a worker has got a poller. */
enum weir__call {
        WEIR__CALL_NONE = 0,
        WEIR__CALL_START,      /* of the runtime */
        WEIR__CALL_GIVEN,      /* weir_blocking_begin */
        WEIR__CALL_TAKEN,      /* from a worker whose callback blocks */
        WEIR__CALL_TAKEN_SOON, /* from one whose callback is long, after one that blocked */
        WEIR__CALL_LEAVE,      /* it gets none, and is to end */
};

struct weir__worker {
        /* Constant. */
        pthread_t thread;
        unsigned number; /* its slot in the thread set */

        /* Its own thread's. */
        struct weir__poller *poller; /* the one it owns, or has lost without knowing */
        unsigned blocking;           /* calls of weir_blocking_begin minus weir_blocking_end in the callback that runs */
        struct weir__work *task;     /* whose callback runs; NULL: none.  While it runs the watchdog may read this */
        bool is_last_act;            /* its work does nothing more after what it starts now */
        void *fiber;                 /* whose function runs, on a stack of its own (factory/fiber); NULL: none */
        bool is_completing;          /* it runs the end of a fiber within its own loop: the end of another one is delivered */
        bool has_given;              /* weir_blocking_begin gave its poller, or its place in the executor, to another thread */

        /* Guarded by the lock of its thread set (kernel/worker/thread_set.h). */
        struct weir__link idle; /* in a list of idle workers; unused while it works */
        uint8_t presence;       /* enum weir__presence */

        /* The thread that calls a worker writes these before `call`, which is a futex: release, acquire. */
        struct weir__poller *given;       /* the poller that the worker owns from now on */
        weir__function *blocked;          /* the function that blocks the former owner; NULL: not known */
        struct weir__trace_point lost_at; /* in the trace: where and when the former owner lost the poller */
        _Atomic unsigned call;            /* enum weir__call */

        /* Only its own thread writes these.  Bit 0 of callback_seq: code of the program runs.  The bits above count how often
         * such code has begun. */
        _Alignas(64) _Atomic unsigned callback_seq;
        _Atomic bool is_pinned;                         /* a call of the library inside a callback keeps the poller */
        _Atomic(const struct weir__work_ops *) running; /* of the work that was begun last; relaxed */
        _Atomic(weir__function *) function;             /* the function of the program that was called last; relaxed */
        _Atomic(const struct weir__callee *) callee;    /* what that is; NULL: a callback of `task` */
        _Atomic(const struct weir__work *) object;      /* whose that is; NULL: not known.  With a callee only; relaxed */

        _Atomic uint32_t track; /* of its thread in traces; relaxed */

        _Atomic int64_t roots; /* roots entered minus left by its thread; relaxed: kernel/runtime/runtime.c */

        struct weir__latch gone;                       /* open when its thread has nothing more to do */
        const struct weir__executor_ops *executor_ops; /* of a thread of the executor, which never has a poller; else NULL */

        /* While the watchdog holds it, the watchdog reads whose function runs.  The worker passes it when it finds that its
         * poller is being taken away, and when it gives that away.  So it frees nothing meanwhile that the function belongs to.
         * A leaf. */
        struct weir__lock reading;

        /* Its callback has lost the poller and is known to block since then; 0: no callback has.  Relaxed. */
        _Atomic int64_t blocks_since;

        /* The watchdog writes these: callback_seq at its last look, and the time of the first look that saw that value. */
        _Atomic unsigned seen_seq; /* release, acquire */
        _Atomic int64_t seen_since;
};

/* What a thread does now. */
struct weir__worker_snapshot {
        unsigned number;
        int poller;                        /* that it owns; -1: none */
        bool is_in_user;                   /* code of the program runs */
        const struct weir__callee *callee; /* what runs; NULL: a callback of `kind` */
        const char *kind;                  /* of what it runs; NULL: not known */
        weir__function *function;          /* that it runs; NULL: not known */
        weir_nsec since;                   /* for how long it has, at least; negative: not known */
};

#define WEIR__THREAD_SLOTS 512 /* workers of a thread set, and so their snapshots, at most */

#define WEIR__SEQ_IN_USER 1u /* bit 0 of callback_seq */
#define WEIR__SEQ_STEP    2u
#define WEIR__RETAKING    ((uintptr_t)1) /* in the ownership word */

extern _Thread_local struct weir__worker *weir__worker_current;

/* Counted since the process began. */
struct weir__worker_counts {
        _Atomic uint64_t retaken; /* pollers that the watchdog has taken away */
        _Atomic uint64_t given;   /* pollers that were given away by weir_blocking_begin */
        _Atomic uint64_t shared;  /* work items that another poller has run than the one where they became ready */
};
extern struct weir__worker_counts weir__worker_counts;

/* The worker of the calling thread; NULL: it is no worker. */
static inline struct weir__worker *
weir__worker_self(void)
{
        return weir__worker_current;
}

/* Whether the calling thread is a worker that has given its poller away in the callback that it runs. */
static inline bool
weir__worker_has_given(void)
{
        struct weir__worker *worker = weir__worker_self();

        return worker && worker->has_given;
}

/* The worker has lost its poller, or the watchdog is retaking it.  Stops the watchdog if that is still possible, else sets
 * `poller` to NULL.  The watchdog reads nothing of the callback any more then.  Returns `poller`. */
__attribute__((cold, noinline)) struct weir__poller *weir__worker_resolve_owner(struct weir__worker *worker);

/* Waits while the watchdog reads whose function the worker runs, for some microseconds.  By the worker, when the word names
 * another owner, or has named the watchdog: so the watchdog does not begin again. */
void weir__worker_await_reader(struct weir__worker *worker);

/* Records what the watchdog has seen. */
static inline void
weir__worker_note_seen(struct weir__worker *worker, unsigned seq, weir_nsec since)
{
        atomic_store_explicit(&worker->seen_since, since, memory_order_relaxed);
        atomic_store_explicit(&worker->seen_seq, seq, memory_order_release);
}

/* When the watchdog first saw this callback_seq, on CLOCK_MONOTONIC; 0: it has not seen it.  Any thread. */
static inline weir_nsec
weir__worker_seen_since(const struct weir__worker *worker, unsigned seq)
{
        return atomic_load_explicit(&worker->seen_seq, memory_order_acquire) == seq
                       ? atomic_load_explicit(&worker->seen_since, memory_order_relaxed)
                       : 0;
}

/* Acquires: the watchdog may have read whose function runs, and then have left the poller where it was. */
static inline bool
weir__worker_owns(const struct weir__worker *worker)
{
        return __builtin_expect(atomic_load_explicit(&worker->poller->owner, memory_order_acquire) == (uintptr_t)worker, 1);
}

/* -- calls of the library inside code of the program -- */

/* Keeps the poller of the calling worker, which has one, from being taken away until weir__unpin.  Returns false when the
 * watchdog may be taking it away: then weir__pin_in_doubt comes next.  Only for some dozens of nanoseconds, or now and then some
 * microseconds.  Pins are not nested. */
static inline bool
weir__pin(void)
{
        struct weir__worker *worker = weir__worker_self();

        atomic_store_explicit(&worker->is_pinned, true, memory_order_relaxed);
        weir__fence_light();
        return weir__worker_owns(worker);
}

/* Returns false when the poller is lost: nothing is pinned then. */
static inline bool
weir__pin_in_doubt(void)
{
        struct weir__worker *worker = weir__worker_self();

        if (weir__worker_resolve_owner(worker))
                return true;
        atomic_store_explicit(&worker->is_pinned, false, memory_order_relaxed);
        return false;
}

static inline void
weir__unpin(void)
{
        atomic_store_explicit(&weir__worker_self()->is_pinned, false, memory_order_release);
}

/* The index of the poller to which new objects of this thread belong.  For a worker it is its own.  For other threads it
 * changes after a batch of objects, so that the tasks of one flow are neighbours.  Before the first start it is
 * WEIR__POLLER_NONE; after a shutdown the poller may have no worker. */
unsigned weir__worker_home_poller(void);

/* The index of the poller that this thread owns, or has lost without knowing; -1: none. */
int weir__worker_poller_index(void);

#endif
