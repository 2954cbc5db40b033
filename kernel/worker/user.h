/* kernel/worker/user.h: calls of functions that the program gave.
 *
 * While such a function runs the watchdog may take the poller away from its worker (kernel/worker/worker.h). */
#ifndef WEIR_KERNEL_USER_H
#define WEIR_KERNEL_USER_H

#include "kernel/worker/worker.h"
#include "kernel/worker/blocking.h"

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

/* The cleanup handler of a thread that runs callbacks: panics when one of them ends the thread. */
void weir__user_ends_thread(void *unused) __attribute__((noreturn, cold));

#endif
