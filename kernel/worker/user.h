/* kernel/worker/user.h: calls of functions that the program gave.
 *
 * While such a function runs the watchdog may take the poller away from its worker (kernel/worker/worker.h). */
#ifndef WEIR_KERNEL_USER_H
#define WEIR_KERNEL_USER_H

#include "kernel/worker/worker.h"
#include "kernel/worker/blocking.h"

/* The library calls weir__user_begin before each call of a function of the program, and weir__user_end after it with what the
 * first returned.  Calls may be nested.  When the outermost one ends, a worker that has lost its poller in it has `poller` NULL.
 * It must not touch that poller any more, and delivers what is left to do.
 *
 * Threads: any. */
static inline unsigned weir__user_begin(weir__function *function)
{
        struct weir__worker *worker = weir__worker_self();

        if (!worker)
                return WEIR__SEQ_IN_USER;
        unsigned seq = atomic_load_explicit(&worker->callback_seq, memory_order_relaxed);
        if (seq & WEIR__SEQ_IN_USER)
                return seq;
        atomic_store_explicit(&worker->function, function, memory_order_relaxed);
        atomic_store_explicit(&worker->callback_seq, seq + WEIR__SEQ_STEP + WEIR__SEQ_IN_USER, memory_order_release);
        return seq;
}

/* The outermost call ends. */
static inline void weir__user_leave(struct weir__worker *worker, unsigned before)
{
        atomic_store_explicit(&worker->callback_seq, before + WEIR__SEQ_STEP, memory_order_relaxed);
        weir__fence_light();
        if (worker->poller && !weir__worker_owns(worker))
                weir__worker_resolve_owner(worker);
}

void weir__user_forked(void) __attribute__((noreturn, cold));

static inline void weir__user_end(unsigned before)
{
        struct weir__worker *worker = weir__worker_self();

        if (before & WEIR__SEQ_IN_USER)
                return; /* not a worker, or a nested call */
        if (__builtin_expect(!worker, 0))
                weir__user_forked();
        weir__user_leave(worker, before);
        if (__builtin_expect(worker->blocking, 0))
                weir__blocking_over(worker);
}

/* weir__user_call_as while there is a trace. */
void weir__user_call_traced(const char *kind, void (*function)(void *context), void *context) __attribute__((cold));

/* Calls a function of the program; `kind` is its kind in a trace. */
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

/* The cleanup handler of a thread that runs callbacks: panics when a callback ends the thread. */
void weir__user_ends_thread(void *unused) __attribute__((noreturn, cold));

#endif
