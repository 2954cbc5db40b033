/* kernel/stack/slots.h: the memory of an arena.  arena.c has what becomes of its slots.
 *
 * An arena begins with what is known about its slots, which follow. */
#ifndef WEIR_KERNEL_STACK_SLOTS_H
#define WEIR_KERNEL_STACK_SLOTS_H

#include "kernel/base/list.h"
#include "kernel/stack/arena.h"

struct weir__arena {
        /* Constant while it is mapped. */
        char *slots;
        size_t guard, slot, size; /* bytes; of all: `size` */
        unsigned count;           /* slots */

        /* Guarded by the lock of arena.c. */
        struct weir__link link;    /* among those with free slots, or those to be unmapped */
        struct weir__link waiting; /* among those that wait */
        unsigned fresh;            /* the first slot that was never taken */
        unsigned out;              /* slots */
        unsigned idle_count;
        struct weir__stack *idle;  /* free, with pages */
        struct weir__stack *blank; /* free, without pages */
        struct weir__stack *bare;  /* free, and without a guard: they were taken and not used */

        struct weir__stack stacks[];
};

/* The most slots of an arena. */
#define WEIR__SLOTS_MOST (WEIR__ARENA_SIZE / (WEIR__STACK_GUARD + WEIR__STACK_SIZE_MIN))

/* The usable bytes of a stack that was asked for in that size; 0: the default. */
size_t weir__slots_size(size_t size);

/* Maps an arena of stacks with that size, and enters it in the index, so that weir__arenas_find finds it.  Result:  NULL when out
 * of memory. */
struct weir__arena *weir__slots_map(size_t size);

/* Takes it out of the index, and unmaps it. */
void weir__slots_unmap(struct weir__arena *arena);

/* Whether a stack has pages below its first ones, and the end of those pages.  Guards stay. */
bool weir__slots_is_deep(const struct weir__stack *stack);
void weir__slots_make_shallow(struct weir__stack *stack);

/* The pages of stacks of one arena, which are linked by `next`, go back. */
void weir__slots_drop(struct weir__arena *arena, const struct weir__stack *stacks);

#endif
