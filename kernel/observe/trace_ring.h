/* kernel/observe/trace_ring.h: the rings of a trace, shared by trace.c, which fills them, and trace_file.c, which writes the
 * file. */
#ifndef WEIR_KERNEL_TRACE_RING_H
#define WEIR_KERNEL_TRACE_RING_H

#include "kernel/base/lock.h"
#include "kernel/observe/trace.h"

#define WEIR__TRACE_RECORDS 16384 /* in a ring: a power of two */
#define WEIR__TRACE_NAME    64

enum weir__trace_type {
        WEIR__TRACE_TRACK, /* the name of a thread that is new in this trace */
        WEIR__TRACE_SLICE,
        WEIR__TRACE_NOTE,
        WEIR__TRACE_STAGE,
};

/* An event: two cache lines.  The second one is its name. */
struct weir__trace_record {
        weir_nsec at, until;
        const char *kind; /* constant text */
        union {
                weir_nsec lateness;
                const char *unit;    /* of a note */
                const char *awaited; /* constant text */
        };
        union {
                struct {
                        weir_nsec from_at; /* 0: no arrow */
                        uint32_t from_track;
                        int32_t status;
                };
                int64_t number; /* of a note, or a stage */
        };
        uint32_t track, series; /* series 0: in none */
        int16_t poller;         /* -1: none */
        uint8_t type;           /* enum weir__trace_type */
        uint8_t name_size;      /* WEIR__TRACE_NAME + 1: the name is longer */
        bool has_status, has_lateness, has_lost_poller, has_awaited;
        char name[WEIR__TRACE_NAME];
};

/* One writer, one reader.  The struct is never freed: the next thread and the next trace use it.  The records are freed with the
 * trace. */
struct weir__trace_ring {
        /* Constant. */
        struct weir__trace_ring *next;

        /* Written under rings.lock. Its thread reads them without the lock; the records only while the ring is busy in a
         * trace. */
        bool is_owned;
        unsigned session; /* its last trace */
        struct weir__trace_record *records;

        /* Its thread only. */
        uint32_t track;
        bool is_announced; /* the name of its thread is in it */

        _Alignas(64) _Atomic uint32_t head; /* its thread writes: release, acquire */
        _Atomic bool is_busy;               /* its thread writes: set before a light fence and a look at the session */
        _Atomic uint64_t lost;              /* its thread writes; relaxed */

        _Alignas(64) _Atomic uint32_t tail; /* the writer writes: release, acquire */
};

struct weir__trace_rings {
        struct weir__lock lock;                   /* a leaf */
        _Atomic(struct weir__trace_ring *) first; /* only grows, under the lock */
        _Atomic uint64_t lost;                    /* events of threads that got no ring */
        _Atomic unsigned wanted;                  /* a futex; 1: a ring is half full, or the trace ends; the writer sets 0 */
};

extern struct weir__trace_rings weir__trace_rings;

/* Wakes the writer. */
void weir__trace_call_writer(void);

#endif
