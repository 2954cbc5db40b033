/* kernel/observe/trace.h: events for the trace (weir/trace.h), from the code that runs callbacks.
 *
 * Without a trace each of these places costs one load and a branch that is predicted.  The functions wait for nothing but a lock
 * that is held shortly, at the first event of a thread in a trace.  A thread that calls them holds no lock of rank LEAF. */
#ifndef WEIR_KERNEL_TRACE_H
#define WEIR_KERNEL_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

/* The number of the present trace; 0: there is none. */
extern _Atomic unsigned weir__trace_session;

/* Returns the index of the poller that the calling thread owns, or -1.  Set when a runtime starts. */
typedef int weir__trace_poller_fn(void);
extern _Atomic(weir__trace_poller_fn *) weir__trace_poller;

static inline bool
weir__trace_is_on(void)
{
        return __builtin_expect(atomic_load_explicit(&weir__trace_session, memory_order_relaxed) != 0, 0);
}

/* An instant on a track, where an arrow to a slice may begin.  All zero: there is none. */
struct weir__trace_point {
        weir_nsec at;
        uint32_t track;
};

#define WEIR__TRACE_SESSIONS 1024 /* a flow keeps the number of its trace modulo this */

/* In each series: where its last slice ended, and its number in traces (0: none yet).  Written by the thread that runs its
 * callbacks. */
struct weir__trace_flow {
        weir_nsec at;
        uint32_t track : 22, session : 10; /* the track is below PID_MAX_LIMIT */
        uint32_t number;
};

/* A slice that has begun: on the stack. */
struct weir__trace_slice {
        weir_nsec began;
        struct weir__trace_point from;
        unsigned session;
        uint32_t series;
        int poller; /* of its thread at the beginning; -1: none */
};

/* The facts at the end of a slice.  Texts are constant but for the name, whose first bytes are copied. */
struct weir__trace_facts {
        const char *kind; /* "a timer" */
        const char *name; /* NULL: none */
        int name_size;
        bool has_status, has_lateness;
        int status;
        weir_nsec lateness;
        const char *awaited; /* of a fiber: the kind of what it has waited for; NULL: nothing.  It has no lateness then */
};

/* The beginning and the end of a slice.  `flow` is that of its series; NULL: none.  weir__trace_end writes to it.  So it gets
 * NULL if the series may be gone, and the flow of the new series if one was made during the slice.  `parent` is the flow of the
 * series around it, for its first slice. */
void weir__trace_begin(struct weir__trace_slice *slice, struct weir__trace_flow *flow, const struct weir__trace_flow *parent)
        __attribute__((cold));
void weir__trace_end(struct weir__trace_slice *slice, const struct weir__trace_facts *facts, struct weir__trace_flow *flow)
        __attribute__((cold));

/* The arrow to the first slice of a series that is started now, inside a slice on that track, begins here.  NULL: nothing. */
void weir__trace_depart(struct weir__trace_flow *flow, uint32_t track) __attribute__((cold));

/* The present instant on a track where a slice has begun.  All zero without a trace. */
struct weir__trace_point weir__trace_now(uint32_t track);

/* The track of this thread. */
uint32_t weir__trace_track(void);

/* An event with a number of things: "steals", "jobs", 3.  Both texts are constant. */
void weir__trace_note(const char *what, const char *unit, int64_t number) __attribute__((cold));

static inline void
weir__trace_mark(const char *what, const char *unit, int64_t number)
{
        if (weir__trace_is_on())
                weir__trace_note(what, unit, number);
}

/* A stage of something that waits, such as a request: it lasts while its thread runs other things.  All zero at first.  One
 * thread at a time. */
struct weir__trace_stage {
        weir_nsec began;
        unsigned session; /* 0: none has begun */
        uint32_t number;  /* of the thing in traces */
};

/* The stage `ended` is over; NULL: none is, and nothing is written.  The next one begins now.  `name` is the thing's. */
void weir__trace_next_stage(struct weir__trace_stage *stage, const char *ended, const char *name, struct weir__trace_flow *flow)
        __attribute__((cold));

/* The thread ends, so another thread may have its ring. */
void weir__trace_leave(void);

#endif
