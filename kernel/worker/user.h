/* kernel/worker/user.h: calls of functions that the program gave.
 *
 * While such a function runs the watchdog may take the poller away from its worker (kernel/worker/worker.h). */
#ifndef WEIR_KERNEL_USER_H
#define WEIR_KERNEL_USER_H

#include "kernel/worker/worker.h"
#include "kernel/worker/blocked.h"
#include "kernel/worker/blocking.h"

/* The library calls weir__user_begin before each call of a function of the program, and weir__user_end after it with what the
 * first returned.  Calls may be nested.  When the outermost one ends, a worker that has lost its poller in it has `poller` NULL.
 * It must not touch that poller any more, and delivers what is left to do.
 *
 * Threads: any. */
static inline unsigned
weir__user_begin(weir__function *function)
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
static inline void
weir__user_leave(struct weir__worker *worker, unsigned before)
{
        atomic_store_explicit(&worker->callback_seq, before + WEIR__SEQ_STEP, memory_order_relaxed);
        weir__fence_light();
        if (worker->poller && !weir__worker_owns(worker))
                weir__worker_resolve_owner(worker);
}

void weir__user_forked(void) __attribute__((noreturn, cold));

static inline void
weir__user_end(unsigned before)
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

/* A function that the library calls on the stack of a fiber must not leave that: the library is in the middle of something,
 * perhaps with thread-local variables.  So this is no fiber between the two.  The first returns what the second takes.
 *
 * Threads: any. */
static inline void *
weir__user_hide_fiber(void)
{
        struct weir__worker *worker = weir__worker_self();
        void *fiber = worker ? worker->fiber : NULL;

        if (__builtin_expect(fiber != NULL, 0))
                worker->fiber = NULL;
        return fiber;
}

static inline void
weir__user_show_fiber(void *fiber)
{
        struct weir__worker *worker = weir__worker_self();

        if (__builtin_expect(fiber != NULL, 0) && worker) /* it is none in a child that the function has made */
                worker->fiber = fiber;
}

/* The same two for a function that is no callback of a task.  Messages say what it is, and which object it belongs to; NULL: that
 * is not known.  A message is logged if the function has blocked.  The object is there until then. */
struct weir__user_call {
        unsigned before;
        const struct weir__poller *poller; /* of the worker before the call */
};

static inline struct weir__user_call
weir__user_begin_as(const struct weir__callee *callee, const struct weir__work *object, weir__function *function)
{
        struct weir__worker *worker = weir__worker_self();
        struct weir__user_call call = {0};

        if (worker && !(atomic_load_explicit(&worker->callback_seq, memory_order_relaxed) & WEIR__SEQ_IN_USER)) {
                atomic_store_explicit(&worker->object, object, memory_order_relaxed);
                atomic_store_explicit(&worker->callee, callee, memory_order_relaxed);
                call.poller = worker->poller;
        }
        call.before = weir__user_begin(function);
        return call;
}

/* Within the same call another function of the object comes next. */
static inline void
weir__user_go_on_as(struct weir__user_call call, const struct weir__callee *callee, weir__function *function)
{
        struct weir__worker *worker = weir__worker_self();

        if (call.before & WEIR__SEQ_IN_USER)
                return; /* not a worker, or a nested call */
        atomic_store_explicit(&worker->callee, callee, memory_order_relaxed);
        atomic_store_explicit(&worker->function, function, memory_order_relaxed);
}

static inline void
weir__user_end_as(struct weir__user_call call)
{
        struct weir__worker *worker = weir__worker_self();

        weir__user_end(call.before);
        if (call.before & WEIR__SEQ_IN_USER)
                return;
        if (__builtin_expect(worker->poller != call.poller, 0))
                weir__blocked_report(worker, atomic_load_explicit(&worker->object, memory_order_relaxed));
        atomic_store_explicit(&worker->callee, NULL, memory_order_relaxed);
}

/* Calls such a function.  Not inline: it is rare, and its callers are not. */
void weir__user_call_as(const struct weir__callee *callee, const struct weir__work *object, void (*function)(void *context),
                        void *context);

extern const struct weir__callee weir__callee_free, weir__callee_on_free;

/* Calls a free function of the program, whosever it is. */
static inline void
weir__user_call(void (*function)(void *context), void *context)
{
        weir__user_call_as(&weir__callee_free, NULL, function, context);
}

/* The cleanup handler of a thread that runs callbacks: panics when a callback ends the thread. */
void weir__user_ends_thread(void *unused) __attribute__((noreturn, cold));

#endif
