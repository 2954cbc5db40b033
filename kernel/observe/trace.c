/* kernel/observe/trace.c: the events of a trace, from the threads where they happen.
 *
 *     a thread's first event --> a ring: a free one, or a new one --> event, event ... --the thread ends--> free
 *
 * Threads: the threads of the library that run callbacks and functions, and the watchdog.  Each writes a ring of its own.  The
 *          writer of the trace (trace_file.c) reads all rings.
 * Locks:   rings.lock, a leaf: which thread has which ring, and the memory of the rings.
 *
 * The end of a trace sets the session to 0, runs a fence on every CPU, and waits until no ring is busy.  A thread sets `is_busy`,
 * and then reads the session behind a light fence.  So the thread sees that the trace is over, or the end waits for it, which
 * takes as long as a copy of 128 bytes.  The memory of a ring is freed when no thread writes to it. */
#include "kernel/observe/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/fence.h"
#include "kernel/base/futex.h"
#include "kernel/observe/trace_ring.h"

_Alignas(64) _Atomic unsigned weir__trace_session;

struct weir__trace_rings weir__trace_rings = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

_Atomic(weir__trace_poller_fn *) weir__trace_poller;

static _Thread_local struct weir__trace_ring *own;
static _Atomic uint32_t last_series, last_stage;

static unsigned
session_now(void)
{
        return atomic_load_explicit(&weir__trace_session, memory_order_relaxed);
}

void
weir__trace_call_writer(void)
{
        if (!atomic_exchange(&weir__trace_rings.wanted, 1))
                weir__futex_wake(&weir__trace_rings.wanted, 1);
}

/* -- rings -- */

static struct weir__trace_ring *
find_free(void)
{
        struct weir__trace_ring *ring = atomic_load_explicit(&weir__trace_rings.first, memory_order_relaxed);

        while (ring && ring->is_owned)
                ring = ring->next;
        return ring;
}

/* Memory that a thread may need for its first event in a trace.  It is allocated without the lock. */
struct supply {
        struct weir__trace_ring *ring;
        struct weir__trace_record *records;
};

static struct supply
make_supply(void)
{
        return (struct supply){own ? NULL : aligned_alloc(_Alignof(struct weir__trace_ring), sizeof *own),
                               aligned_alloc(64, WEIR__TRACE_RECORDS * sizeof(struct weir__trace_record))};
}

/* Under the lock. */
static struct weir__trace_ring *
get_ring(struct supply *supply)
{
        struct weir__trace_ring *ring = find_free();

        if (!ring && (ring = supply->ring)) {
                *ring = (struct weir__trace_ring){.next = atomic_load_explicit(&weir__trace_rings.first, memory_order_relaxed)};
                atomic_store_explicit(&weir__trace_rings.first, ring, memory_order_release);
                supply->ring = NULL;
        }
        if (ring) {
                ring->is_owned = true;
                ring->session = 0;
                ring->track = (uint32_t)gettid();
        }
        return ring;
}

/* Gives the ring a part in that trace, if the trace is not over.  Under the lock. */
static bool
equip(struct weir__trace_ring *ring, struct supply *supply, unsigned session)
{
        if (session_now() != session)
                return false;
        if (!ring->records) {
                ring->records = supply->records;
                supply->records = NULL;
        }
        ring->is_announced = false;
        if (ring->records)
                ring->session = session;
        return ring->records;
}

/* For the first event of this thread in that trace. */
static __attribute__((noinline)) bool
take_part(unsigned session)
{
        struct supply supply = make_supply();

        weir__lock(&weir__trace_rings.lock);
        if (!own)
                own = get_ring(&supply);
        bool takes_part = own && equip(own, &supply, session);
        weir__unlock(&weir__trace_rings.lock);
        free(supply.ring);
        free(supply.records);
        if (!takes_part && session_now() == session)
                atomic_fetch_add_explicit(&weir__trace_rings.lost, 1, memory_order_relaxed);
        return takes_part;
}

void
weir__trace_leave(void)
{
        if (!own)
                return;
        weir__lock(&weir__trace_rings.lock);
        own->is_owned = false;
        weir__unlock(&weir__trace_rings.lock);
        own = NULL;
}

/* -- records -- */

/* The next free record; NULL: the ring is full. */
static struct weir__trace_record *
next_record(struct weir__trace_ring *ring)
{
        uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        uint32_t used = head - atomic_load_explicit(&ring->tail, memory_order_acquire);

        return used < WEIR__TRACE_RECORDS ? &ring->records[head % WEIR__TRACE_RECORDS] : NULL;
}

/* The writer may read the next record from now on. */
static void
commit(struct weir__trace_ring *ring)
{
        uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed) + 1;

        atomic_store_explicit(&ring->head, head, memory_order_release);
        if (head % (WEIR__TRACE_RECORDS / 2) == 0)
                weir__trace_call_writer();
}

static void
announce(struct weir__trace_ring *ring)
{
        struct weir__trace_record *record = next_record(ring);

        if (!record)
                return;
        *record = (struct weir__trace_record){.type = WEIR__TRACE_TRACK, .track = ring->track};
        pthread_getname_np(pthread_self(), record->name, sizeof record->name);
        record->name_size = (uint8_t)strlen(record->name);
        ring->is_announced = true;
        commit(ring);
}

/* Begins an event of that trace; end_record() ends it.  NULL: the trace is over, or there is no room. */
static struct weir__trace_record *
begin_record(unsigned session)
{
        if (!session || ((!own || own->session != session) && !take_part(session)))
                return NULL;
        atomic_store_explicit(&own->is_busy, true, memory_order_relaxed);
        weir__fence_light();
        if (atomic_load_explicit(&weir__trace_session, memory_order_acquire) != session) {
                atomic_store_explicit(&own->is_busy, false, memory_order_release);
                return NULL;
        }
        if (__builtin_expect(!own->is_announced, 0))
                announce(own);
        struct weir__trace_record *record = own->is_announced ? next_record(own) : NULL;
        if (!record) {
                uint64_t lost = atomic_load_explicit(&own->lost, memory_order_relaxed);

                atomic_store_explicit(&own->lost, lost + 1, memory_order_relaxed);
                atomic_store_explicit(&own->is_busy, false, memory_order_release);
        }
        return record;
}

static void
end_record(void)
{
        commit(own);
        atomic_store_explicit(&own->is_busy, false, memory_order_release);
}

/* -- events -- */

static int
poller_now(void)
{
        weir__trace_poller_fn *poller = atomic_load_explicit(&weir__trace_poller, memory_order_relaxed);

        return poller ? poller() : -1;
}

static uint32_t
number_of(struct weir__trace_flow *flow)
{
        while (!flow->number) /* after 2^32 of them */
                flow->number = atomic_fetch_add_explicit(&last_series, 1, memory_order_relaxed) + 1;
        return flow->number;
}

void
weir__trace_begin(struct weir__trace_slice *slice, struct weir__trace_flow *flow, const struct weir__trace_flow *parent)
{
        const struct weir__trace_flow *before = flow && flow->at ? flow : parent;

        *slice = (struct weir__trace_slice){.session = session_now(), .poller = poller_now()};
        if (flow)
                slice->series = number_of(flow);
        if (before && before->session == slice->session % WEIR__TRACE_SESSIONS)
                slice->from = (struct weir__trace_point){before->at, before->track};
        slice->began = weir__clock_now();
}

static void
copy_name(struct weir__trace_record *record, const char *name, int size)
{
        bool fits = size <= WEIR__TRACE_NAME;

        memcpy(record->name, name, fits ? (size_t)size : WEIR__TRACE_NAME);
        record->name_size = fits ? (uint8_t)size : WEIR__TRACE_NAME + 1;
}

static void
fill(struct weir__trace_record *record, const struct weir__trace_slice *slice, const struct weir__trace_facts *facts)
{
        record->at = slice->began;
        record->kind = facts->kind;
        if (facts->awaited)
                record->awaited = facts->awaited;
        else
                record->lateness = facts->lateness;
        record->from_at = slice->from.at;
        record->from_track = slice->from.track;
        record->status = facts->status;
        record->track = own->track;
        record->series = slice->series;
        record->poller = (int16_t)slice->poller;
        record->type = WEIR__TRACE_SLICE;
        record->name_size = 0;
        record->has_status = facts->has_status;
        record->has_lateness = facts->has_lateness;
        record->has_awaited = facts->awaited;
        record->has_lost_poller = slice->poller >= 0 && poller_now() != slice->poller;
        if (facts->name)
                copy_name(record, facts->name, facts->name_size);
}

static void
set_point(struct weir__trace_flow *flow, weir_nsec at, uint32_t track, unsigned session)
{
        flow->at = at;
        flow->track = track & ((1u << 22) - 1);
        flow->session = session % WEIR__TRACE_SESSIONS;
}

void
weir__trace_end(struct weir__trace_slice *slice, const struct weir__trace_facts *facts, struct weir__trace_flow *flow)
{
        weir_nsec now = slice->session ? weir__clock_now() : 0;
        struct weir__trace_record *record = begin_record(slice->session);

        if (!record)
                return;
        if (flow)
                slice->series = number_of(flow);
        fill(record, slice, facts);
        record->until = now;
        if (flow) /* the arrow must begin inside the slice */
                set_point(flow, now > slice->began ? now - 1 : now, own->track, slice->session);
        end_record();
}

void
weir__trace_depart(struct weir__trace_flow *flow, uint32_t track)
{
        unsigned session = session_now();

        if (flow && session)
                set_point(flow, weir__clock_now(), track, session);
}

struct weir__trace_point
weir__trace_now(uint32_t track)
{
        return weir__trace_is_on() ? (struct weir__trace_point){weir__clock_now(), track} : (struct weir__trace_point){0};
}

uint32_t
weir__trace_track(void)
{
        return (uint32_t)gettid();
}

void
weir__trace_note(const char *what, const char *unit, int64_t number)
{
        weir_nsec now = weir__clock_now();
        struct weir__trace_record *record = begin_record(session_now());

        if (!record)
                return;
        *record = (struct weir__trace_record){.type = WEIR__TRACE_NOTE,
                                              .track = own->track,
                                              .at = now,
                                              .kind = what,
                                              .unit = unit,
                                              .number = number,
                                              .poller = -1};
        end_record();
}

static void
record_stage(struct weir__trace_stage *stage, const char *ended, const char *name, struct weir__trace_flow *flow)
{
        weir_nsec now = weir__clock_now();
        struct weir__trace_record *record = begin_record(stage->session);

        if (!record)
                return;
        while (!stage->number) /* after 2^32 of them */
                stage->number = atomic_fetch_add_explicit(&last_stage, 1, memory_order_relaxed) + 1;
        *record = (struct weir__trace_record){.type = WEIR__TRACE_STAGE,
                                              .track = own->track,
                                              .at = stage->began,
                                              .until = now,
                                              .kind = ended,
                                              .number = stage->number,
                                              .series = flow ? number_of(flow) : 0,
                                              .poller = -1};
        copy_name(record, name, (int)strlen(name));
        end_record();
}

void
weir__trace_next_stage(struct weir__trace_stage *stage, const char *ended, const char *name, struct weir__trace_flow *flow)
{
        unsigned session = session_now();

        if (ended && session && stage->session == session)
                record_stage(stage, ended, name, flow);
        stage->session = session;
        stage->began = weir__clock_now();
}
