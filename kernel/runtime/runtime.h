/* kernel/runtime/runtime.h: the pollers and workers as a whole, from start to shutdown. */
#ifndef WEIR_KERNEL_RUNTIME_H
#define WEIR_KERNEL_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/runtime.h>

#include "kernel/base/latch.h"
#include "kernel/loop/poller.h"

enum weir__phase {
        WEIR__PHASE_DOWN = 0, /* never started: the first use starts it */
        WEIR__PHASE_UP,
        WEIR__PHASE_STOPPING, /* shutdown has begun */
        WEIR__PHASE_ENDED,    /* shutdown is over; weir_init may start it again */
        WEIR__PHASE_FORKED,   /* a child of fork: for ever */
};

struct weir__runtime {
        _Atomic int phase; /* enum weir__phase; sequentially consistent where it is weighed against the live counts */

        /* Written by weir_init under the runtime's lock before the phase becomes UP, constant then. */
        _Atomic unsigned poller_count; /* 0 until the first start; also read by who makes tasks at any other time */
        unsigned generation;           /* counts the starts */
        _Atomic uint8_t timer_slack;   /* of timers that are made from now on: the power of two of a duration */
        _Atomic(struct weir__poller *) pollers[WEIR__POLLERS_MAX + 1]; /* never freed: an index stays good for ever */
};

/* The index of what was made before there were pollers.  There is one with that index, which has nothing but its lock. */
#define WEIR__POLLER_NONE WEIR__POLLERS_MAX

extern struct weir__runtime weir__runtime;

static inline bool
weir__runtime_stopping(void)
{
        return atomic_load_explicit(&weir__runtime.phase, memory_order_relaxed) == WEIR__PHASE_STOPPING;
}

static inline bool
weir__runtime_is_up(void)
{
        int phase = atomic_load_explicit(&weir__runtime.phase, memory_order_acquire);

        return phase == WEIR__PHASE_UP || phase == WEIR__PHASE_STOPPING;
}

static inline bool
weir__runtime_forked(void)
{
        return atomic_load_explicit(&weir__runtime.phase, memory_order_relaxed) == WEIR__PHASE_FORKED;
}

/* Starts the runtime if nothing ever did.  Result: 0 when it is up; -ESHUTDOWN; -ECHILD; what weir_init reports. */
int weir__runtime_use(void);

static inline unsigned
weir__runtime_pollers(void)
{
        return atomic_load_explicit(&weir__runtime.poller_count, memory_order_acquire);
}

/* The index of the poller that something made by this thread belongs to: a worker's own; other threads take turns, a
 * batch at a time, so that the tasks of one flow are neighbours.  Also while the runtime is not up: then there is a poller with
 * that index, though maybe none with a worker, or WEIR__POLLER_NONE as long as nothing was started ever. */
unsigned weir__runtime_home(void);

/* What an index means while the runtime is up: the same poller each time. */
static inline struct weir__poller *
weir__runtime_poller(unsigned index)
{
        unsigned count = weir__runtime_pollers();

        return weir__runtime.pollers[__builtin_expect(index < count, 1) ? index : index % count];
}

/* A root (a lone task, a series of its own, an exchange) comes to life, or ends; shutdown waits for all of them.
 * Enter fails with -ESHUTDOWN or -ECHILD, or what weir_init reports, and then nothing was counted. */
int weir__runtime_enter(void);
void weir__runtime_leave(void);

/* Called in each shutdown, when every start sees that it has begun: ends what is pending and has no deadline.  By a worker, unless the only
 * one is who shuts down.  Said before the first runtime starts; there is room for WEIR__STOP_HOOKS. */
#define WEIR__STOP_HOOKS 4
void weir__runtime_on_stop(weir__function *hook);

/* A worker has nothing left to run, while shutdown waits: it looks again. */
void weir__runtime_notify(void);

/* Between these two a thread waits for a flow: the virtual clock jumps by itself only meanwhile.  Who ends the flow calls the
 * second, before it wakes the thread: time does not jump on while that wakes up.  `gave`: the thread
 * is a worker that has given its poller away (struct weir__worker). */
void weir__runtime_wait_begin(bool gave);
void weir__runtime_wait_end(bool gave);
bool weir__runtime_has_waiters(void);

/* Whether this thread may block until a flow ends: -EDEADLK on the watchdog, and on a worker unless between weir_blocking_begin
 * and _end, -ECHILD in a forked child, else 0.  The second: until something ends that waits for all callbacks, which no callback
 * may. */
int weir__runtime_may_wait(void);
int weir__runtime_may_stop(void);

/* config.exit_wait, of the last runtime that was started. */
weir_nsec weir__runtime_exit_wait(void);

#endif
