/* kernel/data/handles.h: a table from ids to objects, in which no id is ever used twice.
 *
 * A pure data structure: all calls on one table are made under its owner's lock.  An object takes a slot and gives it back before
 * it is freed.  Each time the generation of the slot goes up by one.  A slot whose generations are used up is never taken again.
 * So an old id finds nothing, for ever.  The memory is never given back, because the generations must be remembered: 16 bytes for
 * each object that ever had a slot at the same time. */
#ifndef WEIR_KERNEL_HANDLES_H
#define WEIR_KERNEL_HANDLES_H

#include <stdint.h>

#define WEIR__HANDLES_SLOT_BITS       28
#define WEIR__HANDLES_TABLE_BITS      10
#define WEIR__HANDLES_GENERATION_BITS 26

#define WEIR__HANDLES_SEGMENTS 18 /* of 1024 << index slots: 2^28 - 1024 in all */

struct weir__handle_slot {
        void *object;        /* NULL: free */
        uint32_t generation; /* of the object, or of the next one */
        uint32_t next_free;  /* a handle; 0: the last */
};

/* All zero is an empty table. */
struct weir__handles {
        struct weir__handle_slot *segments[WEIR__HANDLES_SEGMENTS];
        uint32_t made; /* slots that were ever taken */
        uint32_t free; /* a handle; 0: none.  Last in, first out */
};

/* Takes a slot for an object.
 * Result:  its handle, greater than 0; 0 when out of memory or of slots. */
uint32_t weir__handles_take(struct weir__handles *handles, void *object);

/* Gives a slot back: its id is not found any more. */
void weir__handles_give(struct weir__handles *handles, uint32_t handle);

/* The id of a taken slot, not 0, different in each table. */
uint64_t weir__handles_id(const struct weir__handles *handles, unsigned table, uint32_t handle);

/* The object with that id, or NULL; any number will do.  `table` is part of the id. */
void *weir__handles_find(const struct weir__handles *handles, uint64_t id);

static inline unsigned weir__handles_table(uint64_t id)
{
        return (unsigned)(id >> WEIR__HANDLES_SLOT_BITS) & ((1U << WEIR__HANDLES_TABLE_BITS) - 1);
}

#endif
