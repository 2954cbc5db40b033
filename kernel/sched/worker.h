/* kernel/sched/worker.h: a worker, the M of the scheduler: a thread that runs the loop of a poller as long as it owns one.
 *
 * While code of the user runs, a callback or a free function, the poller may be taken away from its worker (kernel/sched/watchdog.c), at
 * any instant; while the library runs it may not.  `turn` says which of the two it is.  A call of the library out of a callback
 * that touches what belongs to the owner alone pins the poller meanwhile.
 *
 * The ownership word of a poller (struct weir__poller, owner):
 *
 *     NULL --start--> W --watchdog claims--> W + CLAIMED --it was in time--> S, a spare worker
 *                     ^                          |
 *                     '--W comes back, or the watchdog sees that it has-----'
 *     W (or W + CLAIMED) --weir_blocking_begin--> S;  W --end of the runtime--> NULL
 *
 * W writes `turn` and then reads the word; the watchdog writes the word, has the system run a fence on every CPU, and then reads
 * `turn`.  So one of them sees the other: if W has read that the poller is its own, the watchdog reads that W is no longer, or not
 * now, in the callback, and takes the claim back.  test/model/handover.pml is the model of this. */
#ifndef WEIR_KERNEL_WORKER_H
#define WEIR_KERNEL_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/base/fence.h"
#include "kernel/base/latch.h"
#include "kernel/base/list.h"
#include "kernel/loop/poller.h"
#include "kernel/observe/trace.h"

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
        bool was_called;             /* at least once since it was made */
        bool acts_last;              /* what it starts now is the last that its present work does */
        bool gave;                   /* the poller away, by weir_blocking_begin, in the callback that runs */

        /* Guarded by the lock of its thread set (kernel/sched/thread_set.h). */
        struct weir__link idle; /* in a list of idle workers; unused while it works */
        uint8_t presence;       /* enum weir__presence */

        /* Of who calls it, before `call`, which is a futex: release, acquire. */
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
        struct weir__cache *cache; /* of a thread of the executor's (kernel/executor/executor.h), which has no poller ever; else NULL */

        _Atomic int64_t gave_at;      /* when it gave its poller away, in the callback that runs; else 0.  Relaxed: for people */
        _Atomic int64_t blocks_since; /* what has lost it the poller; 0: no claim.  Of the watchdog, before it claims */
};

#define WEIR__TURN_USER  1u /* bit 0 of turn */
#define WEIR__TURN_COUNT 2u
#define WEIR__CLAIMED ((uintptr_t)1) /* in the ownership word */

extern _Thread_local struct weir__worker *weir__worker_current;

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

/* Waits until then for the end of its thread, of which the opening of `gone` was the last that it did, and joins it.  Returns
 * whether it has. */
bool weir__worker_join(struct weir__worker *worker, weir_nsec until);

/* What runs when code of the user ends the thread. */
void weir__worker_vanishes(void *unused) __attribute__((noreturn, cold));

/* What the thread of a worker does; ends when it is called to leave. */
void *weir__worker_main(void *worker);

/* The poller is not, or not clearly, its own any more: takes it back from the watchdog, or makes `poller` NULL.  Returns that. */
__attribute__((cold)) struct weir__poller *weir__worker_settle(struct weir__worker *worker);

/* By a worker that has lost its poller in the callback that has just returned: for how long that has run, about.  0: not to the
 * watchdog, or after one that blocked and not for long itself. */
weir_nsec weir__worker_blocked(void);

static inline bool weir__worker_owns(const struct weir__worker *worker)
{
        return __builtin_expect(atomic_load_explicit(&worker->poller->owner, memory_order_relaxed) == (uintptr_t)worker, 1);
}

/* -- code of the user -- */

/* Around each call of a function, that one, which the program gave, on whatever thread and whatever called it.  The second is
 * given what the first returned; a worker that was outermost in it, and has lost its poller meanwhile, has `poller` NULL
 * afterwards, and must not touch that poller again but deliver what is left to do. */
static inline unsigned weir__user_begin(weir__function *function)
{
        struct weir__worker *worker = weir__worker_self();

        if (!worker)
                return WEIR__TURN_USER;
        unsigned turn = atomic_load_explicit(&worker->turn, memory_order_relaxed);
        if (turn & WEIR__TURN_USER)
                return turn;
        atomic_store_explicit(&worker->calls, function, memory_order_relaxed);
        atomic_store_explicit(&worker->turn, turn + WEIR__TURN_COUNT + WEIR__TURN_USER, memory_order_release);
        return turn;
}

/* The end of the outermost. */
static inline void weir__user_leave(struct weir__worker *worker, unsigned before)
{
        atomic_store_explicit(&worker->turn, before + WEIR__TURN_COUNT, memory_order_relaxed);
        weir__fence_light();
        if (worker->poller && !weir__worker_owns(worker))
                weir__worker_settle(worker);
}

void weir__user_forked(void) __attribute__((noreturn, cold));

/* Ends what weir_blocking_begin has begun. */
void weir__blocking_over(struct weir__worker *worker);

static inline void weir__user_end(unsigned before)
{
        struct weir__worker *worker = weir__worker_self();

        if (before & WEIR__TURN_USER)
                return; /* no worker, or inside other code of the user */
        if (__builtin_expect(!worker, 0))
                weir__user_forked();
        weir__user_leave(worker, before);
        if (__builtin_expect(worker->blocking, 0))
                weir__blocking_over(worker);
}

/* As the next, while there is a trace; `kind` is what it is called there. */
void weir__user_call_traced(const char *kind, void (*function)(void *context), void *context) __attribute__((cold));

/* Calls a function of the program, which in a trace is of that kind. */
static inline void weir__user_call_as(const char *kind, void (*function)(void *context), void *context)
{
        if (weir__trace_is_on()) {
                weir__user_call_traced(kind, function, context);
                return;
        }
        unsigned before = weir__user_begin((weir__function *)function);
        function(context);
        weir__user_end(before);
}

/* Calls a free function of the program. */
static inline void weir__user_call(void (*function)(void *context), void *context)
{
        weir__user_call_as("a free function", function, context);
}

/* -- calls of the library out of code of the user -- */

/* Keeps the poller of this worker, if it has one, from being taken away.  Returns it, or NULL: there is nothing to unpin then.  For
 * some dozens of nanoseconds, or some microseconds now and then; not one inside the other. */
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

#endif
