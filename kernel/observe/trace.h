/* kernel/observe/trace.h: what those who run callbacks leave for the trace (weir/trace.h).
 *
 * While there is none each of these places costs one load and a branch that is predicted.  None of what follows waits, but for a
 * lock that is held shortly, when a thread does it for the first time in a trace.  Not under a lock of rank LEAF. */
#ifndef WEIR_KERNEL_TRACE_H
#define WEIR_KERNEL_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

/* The number of the trace that there is; 0: none. */
extern _Atomic unsigned weir__trace_session;

/* Tells the index of the poller that the calling thread owns, or -1.  Set once, when the first runtime starts. */
typedef int weir__trace_poller_fn(void);
extern _Atomic(weir__trace_poller_fn *) weir__trace_poller;

static inline bool weir__trace_is_on(void)
{
        return __builtin_expect(atomic_load_explicit(&weir__trace_session, memory_order_relaxed) != 0, 0);
}

/* An instant on a track, from which an arrow may lead to a slice.  All zero is none. */
struct weir__trace_point {
        weir_nsec at;
        uint32_t track;
};

#define WEIR__TRACE_SESSIONS 1024 /* what a flow counts them up to */

/* In each series: where the last slice of it has ended, and its number in traces; 0: it has none yet.  Of who runs its
 * callbacks. */
struct weir__trace_flow {
        weir_nsec at;
        uint32_t track : 22, session : 10; /* PID_MAX_LIMIT; and of which trace that is */
        uint32_t number;
};

/* One that is under way: on the stack. */
struct weir__trace_slice {
        weir_nsec began;
        struct weir__trace_point from;
        unsigned session;
        uint32_t series;
        int poller; /* that its thread has had; -1: none */
};

/* What is known when it is over.  Texts are constant, but for the name, of which the beginning is copied. */
struct weir__trace_facts {
        const char *kind; /* "a timer" */
        const char *name; /* NULL: none */
        int name_size;
        bool has_status, has_lateness;
        int status;
        weir_nsec lateness;
};

/* Around what is to be a slice.  `flow`: of its series, or NULL; it is written by the second, so if the series has been made
 * meanwhile, or must not be touched any more, that one is told another.  `parent`: of the series around it, for its first
 * slice. */
void weir__trace_begin(struct weir__trace_slice *slice, struct weir__trace_flow *flow, const struct weir__trace_flow *parent)
        __attribute__((cold));
void weir__trace_end(struct weir__trace_slice *slice, const struct weir__trace_facts *facts, struct weir__trace_flow *flow)
        __attribute__((cold));

/* Now, on a track where a slice is under way; none while there is no trace. */
struct weir__trace_point weir__trace_now(uint32_t track);

/* The track of this thread, for the above. */
uint32_t weir__trace_track(void);

/* Something that has happened, with a number of something: "steals", "jobs", 3.  Both texts are constant. */
void weir__trace_note(const char *what, const char *unit, int64_t number) __attribute__((cold));

static inline void weir__trace_mark(const char *what, const char *unit, int64_t number)
{
        if (weir__trace_is_on())
                weir__trace_note(what, unit, number);
}

/* The thread ends, so another one may have its buffer. */
void weir__trace_leave(void);

#endif
