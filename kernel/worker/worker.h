/* kernel/worker/worker.h: a worker, the M of the scheduler: a thread that runs the loop of a poller as long as it owns one.
 *
 * While code of the user runs, a callback or a free function, the poller may be taken away from its worker
 * (kernel/sched/watchdog.c), at any instant; while the library runs it may not.  `turn` says which of the two it is.  A
 * call of the library out of a callback that touches what belongs to the owner alone pins the poller meanwhile.
 *
 * The ownership word of a poller (struct weir__poller, owner):
 *
 *     NULL --start--> W --the watchdog retakes--> W + RETAKING --in time--> S, an idle worker
 *                     ^                          |
 *                     '--W comes back, or the watchdog sees that it has-----'
 *     W (or W + RETAKING) --weir_blocking_begin--> S;  W --end of the runtime--> NULL
 *
 * W writes `turn` and then reads the word; the watchdog writes the word, has the system run a fence on every CPU, and then
 * reads `turn`.  So one of them sees the other: if W has read that the poller is its own, the watchdog reads that W is no
 * longer, or not now, in the callback, and gives the poller back.  test/model/handover.pml is the model of this. */
#ifndef WEIR_KERNEL_WORKER_H
#define WEIR_KERNEL_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/fence.h"
#include "kernel/base/latch.h"
#include "kernel/base/list.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/trace.h"

struct weir__worker;

/* How a thread of the executor hands over its place while its job blocks. */
struct weir__executor_ops {
        int (*blocking_begin)(void); /* 0 or -EAGAIN */
        void (*blocking_end)(void);
};

/* Why a worker has got a poller. */
enum weir__call {
        WEIR__CALL_NONE = 0,
        WEIR__CALL_START, /* of the runtime */
        WEIR__CALL_GIVEN, /* weir_blocking_begin */
        WEIR__CALL_TAKEN, /* from a worker whose callback blocks */
        WEIR__CALL_TAKEN_SOON, /* from one whose callback is long, after one that blocked */
        WEIR__CALL_LEAVE, /* none: end */
};

struct weir__worker {
        /* Constant. */
        pthread_t thread;
        unsigned number; /* its slot in the thread set */

        /* Its own thread's. */
        struct weir__poller *poller; /* the one it owns, or has lost without knowing */
        unsigned blocking;           /* weir_blocking_begin minus weir_blocking_end in the callback that runs */
        void *task;                  /* the factory's: whose callback runs; NULL: none */
        bool acts_last;              /* what it starts now is the last that its present work does */
        bool gave;                   /* the poller away, by weir_blocking_begin, in the callback that runs */

        /* Guarded by the lock of its thread set (kernel/worker/thread_set.h). */
        struct weir__link idle; /* in a list of idle workers; unused while it works */
        uint8_t presence;       /* enum weir__presence */

        /* Of the thread that calls it, before `call`, which is a futex: release, acquire. */
        struct weir__poller *given;
        weir__function *blocked; /* what it is taken from; NULL: not known */
        struct weir__trace_point lost_at; /* in the trace: where and when it was given away, or taken */
        _Atomic unsigned call; /* enum weir__call */

        /* Its own thread's to write.  Bit 0: code of the user runs; above it counts the times that such was begun. */
        _Alignas(64) _Atomic unsigned turn;
        _Atomic bool pinned; /* it runs in a call of the library */
        _Atomic(const struct weir__work_ops *) running; /* what was begun last; relaxed */
        _Atomic(weir__function *) calls;                /* which function of the program; relaxed */

        _Atomic uint32_t track; /* of its thread in traces; relaxed */

        _Atomic int64_t live; /* roots entered minus left by its thread; relaxed: kernel/runtime/runtime.c */

        struct weir__latch gone; /* its thread has nothing more to do */
        const struct weir__executor_ops *executor_ops; /* of a thread of the executor, which never has a poller; else NULL */

        /* Since when the callback that has lost it the poller is known to block; 0: none has.  Relaxed. */
        _Atomic int64_t blocks_since;

        /* Written by the watchdog: the value of `turn` at its last look, and since when the worker has been in that turn. */
        _Atomic unsigned seen_turn; /* release, acquire */
        _Atomic int64_t seen_since;
};

/* What a thread does now. */
struct weir__worker_snapshot {
        unsigned number;
        int poller;               /* that it owns; -1: none */
        bool in_user;             /* code of the program runs */
        const char *kind;         /* of what it runs; NULL: not known */
        weir__function *function; /* that it runs; NULL: not known */
        weir_nsec since;          /* for how long it has, at least; negative: not known */
};

#define WEIR__THREAD_SLOTS 512 /* workers of a thread set, and so their snapshots, at most */

#define WEIR__TURN_USER  1u /* bit 0 of turn */
#define WEIR__TURN_COUNT 2u
#define WEIR__RETAKING ((uintptr_t)1) /* in the ownership word */

extern _Thread_local struct weir__worker *weir__worker_current;

/* Counted since the process began. */
struct weir__worker_counts {
        _Atomic uint64_t retaken; /* pollers that the watchdog has taken away */
        _Atomic uint64_t given;   /* pollers that were given away by weir_blocking_begin */
        _Atomic uint64_t shared;  /* works that another poller has run than the one where they became ready */
};
extern struct weir__worker_counts weir__worker_counts;

/* The worker that this thread is; NULL for any other thread. */
static inline struct weir__worker *weir__worker_self(void)
{
        return weir__worker_current;
}

/* Whether this is a worker that has given its poller away in the callback that it runs. */
static inline bool weir__worker_gave(void)
{
        struct weir__worker *worker = weir__worker_self();

        return worker && worker->gave;
}

/* The poller is not, or not clearly, its own any more: takes it back from the watchdog, or makes `poller` NULL.  Returns that. */
__attribute__((cold)) struct weir__poller *weir__worker_settle(struct weir__worker *worker);

/* Records what the watchdog has seen. */
static inline void
weir__worker_note_seen(struct weir__worker *worker, unsigned turn, weir_nsec since)
{
        atomic_store_explicit(&worker->seen_since, since, memory_order_relaxed);
        atomic_store_explicit(&worker->seen_turn, turn, memory_order_release);
}

/* Since when the watchdog has seen the worker in that turn, on CLOCK_MONOTONIC; 0: it has not.  Any thread. */
static inline weir_nsec
weir__worker_seen_since(const struct weir__worker *worker, unsigned turn)
{
        return atomic_load_explicit(&worker->seen_turn, memory_order_acquire) == turn
                       ? atomic_load_explicit(&worker->seen_since, memory_order_relaxed)
                       : 0;
}

static inline bool weir__worker_owns(const struct weir__worker *worker)
{
        return __builtin_expect(atomic_load_explicit(&worker->poller->owner, memory_order_relaxed) == (uintptr_t)worker, 1);
}

/* -- calls of the library out of code of the user -- */

/* Keeps the poller of this worker, if it has one, from being taken away.  Returns it, or NULL: there is nothing to unpin
 * then.  For some dozens of nanoseconds, or some microseconds now and then; not one inside the other. */
static inline struct weir__poller *weir__pin(void)
{
        struct weir__worker *worker = weir__worker_self();

        if (!worker || !worker->poller)
                return NULL;
        atomic_store_explicit(&worker->pinned, true, memory_order_relaxed);
        weir__fence_light();
        if (weir__worker_owns(worker) || weir__worker_settle(worker))
                return worker->poller;
        atomic_store_explicit(&worker->pinned, false, memory_order_relaxed);
        return NULL;
}

static inline void weir__unpin(void)
{
        atomic_store_explicit(&weir__worker_self()->pinned, false, memory_order_release);
}

/* The index of the poller to which new objects of this thread belong.  For a worker it is its own.  For other threads it
 * changes after a batch of objects, so that the tasks of one flow are neighbours.  Before the first start it is
 * WEIR__POLLER_NONE; after a shutdown the poller may have no worker. */
unsigned weir__worker_home(void);

/* The index of the poller that this thread owns, or has lost without knowing; -1: none. */
int weir__worker_poller_index(void);

#endif
