/* kernel/data/handles.c: slots with generations.
 *
 * Threads and locks: none of its own.  The caller holds the lock of the table's owner.
 *
 *     id:  | generation, 26 bits, from 1 | table, 10 bits | slot, 28 bits |
 *
 * The slots lie in segments, each twice as large as the one before, so growing moves nothing.  The large segments are read in
 * random order, so they are huge pages where the system gives these on request. */
#include "kernel/data/handles.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernel/base/panic.h"

#define SMALLEST_BITS 10 /* slots of the first segment */
#define HANDLE_SLOTS  (UINT32_C(1) << WEIR__HANDLES_SLOT_BITS)
#define HUGE_PAGE     ((size_t)2 << 20)
#define GENERATIONS   (UINT32_C(1) << WEIR__HANDLES_GENERATION_BITS)

_Static_assert(WEIR__HANDLES_SLOT_BITS + WEIR__HANDLES_TABLE_BITS + WEIR__HANDLES_GENERATION_BITS == 64, "an id has 64 bits");

/* The segment of a slot: the lengths up to segment n sum up to (2^n - 1) * 1024. */
static unsigned
segment_of(uint32_t slot)
{
        return 31 - (unsigned)__builtin_clz((slot >> SMALLEST_BITS) + 1);
}

static uint32_t
first_of(unsigned segment)
{
        return ((UINT32_C(1) << segment) - 1) << SMALLEST_BITS;
}

static struct weir__handle_slot *
slot_at(const struct weir__handles *handles, uint32_t slot)
{
        unsigned segment = segment_of(slot);

        return &handles->segments[segment][slot - first_of(segment)];
}

static struct weir__handle_slot *
make_segment(unsigned segment)
{
        size_t size = sizeof(struct weir__handle_slot) << (SMALLEST_BITS + segment);

        if (size < HUGE_PAGE)
                return malloc(size);
        void *memory = aligned_alloc(HUGE_PAGE, size);
        if (memory)
                madvise(memory, size, MADV_HUGEPAGE); /* fails where there are none: nothing is lost */
        return memory;
}

/* A slot that was never taken. */
static uint32_t
make_slot(struct weir__handles *handles)
{
        if (handles->made == HANDLE_SLOTS - (UINT32_C(1) << SMALLEST_BITS))
                return 0;
        unsigned segment = segment_of(handles->made);
        if (!handles->segments[segment])
                handles->segments[segment] = make_segment(segment);
        if (!handles->segments[segment])
                return 0;
        *slot_at(handles, handles->made) = (struct weir__handle_slot){.generation = 1};
        return ++handles->made;
}

uint32_t
weir__handles_take(struct weir__handles *handles, void *object)
{
        uint32_t handle = handles->free;

        if (handle)
                handles->free = slot_at(handles, handle - 1)->next_free;
        else if (!(handle = make_slot(handles)))
                return 0;
        slot_at(handles, handle - 1)->object = object;
        return handle;
}

void
weir__handles_give(struct weir__handles *handles, uint32_t handle)
{
        struct weir__handle_slot *slot = slot_at(handles, handle - 1);

        if (!slot->object)
                weir__panic("handle %u given back twice", handle);
        slot->object = NULL;
        if (++slot->generation == GENERATIONS)
                return; /* the slot is used up */
        slot->next_free = handles->free;
        handles->free = handle;
}

uint64_t
weir__handles_id(const struct weir__handles *handles, unsigned table, uint32_t handle)
{
        uint32_t slot = handle - 1;

        return (uint64_t)slot_at(handles, slot)->generation << (WEIR__HANDLES_SLOT_BITS + WEIR__HANDLES_TABLE_BITS) |
               (uint64_t)table << WEIR__HANDLES_SLOT_BITS | slot;
}

void *
weir__handles_find(const struct weir__handles *handles, uint64_t id)
{
        uint32_t number = (uint32_t)id & (HANDLE_SLOTS - 1);

        if (number >= handles->made)
                return NULL;
        const struct weir__handle_slot *slot = slot_at(handles, number);
        return slot->generation == id >> (WEIR__HANDLES_SLOT_BITS + WEIR__HANDLES_TABLE_BITS) ? slot->object : NULL;
}
