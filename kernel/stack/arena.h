/* kernel/stack/arena.h: arenas, cut into slots.
 *
 *      a slot:   guard | usable bytes |     from low to high addresses
 *
 * Stacks come and go in chains, which are linked by `next`. */
#ifndef WEIR_KERNEL_STACK_ARENA_H
#define WEIR_KERNEL_STACK_ARENA_H

#include "kernel/base/list.h"
#include "kernel/stack/stack.h"

#define WEIR__ARENA_SIZE  ((size_t)64 << 20) /* bytes; arenas are aligned to that */
#define WEIR__STACK_GUARD ((size_t)64 << 10) /* bytes, or a page where that is more */

/* Takes a chain of 1 to `most` stacks, those first that were used last.  `should_be_guarded`: only such that have their guard.
 * Result:  NULL: there are none, and *failed is -ENOMEM or -EAGAIN. */
struct weir__stack *weir__arenas_take(unsigned most, bool should_be_guarded, int *failed);

/* Gives a chain back.  `should_keep`: a little memory may stay for the next ones. */
void weir__arenas_give(struct weir__stack *chain, bool should_keep);

/* See weir__stack_configure. */
void weir__arenas_configure(size_t size);
size_t weir__arenas_stack_size(void);

/* Unmaps the arena that was kept, and gives back what waits for that. */
void weir__arenas_trim(void);

/* Counts of slots: those with a guard, and those that were taken and not given back, in all arenas. */
void weir__arenas_count(size_t *made, size_t *out);

/* The stack in whose slot an address lies; NULL: none.  *is_guard: in the guard of that slot.  It may be called in a signal
 * handler.  While nobody unmaps the slot the answer is right. */
struct weir__stack *weir__arenas_find(const void *address, bool *is_guard);

/* For fork: no other thread is in this module between the two calls. */
void weir__arenas_hold(void);
void weir__arenas_release(void);

/* -- the memory of arenas: slots.c; arena.c has what becomes of its slots -- */

/* An arena begins with what is known about its slots, which follow. */
struct weir__arena {
        /* Constant while it is mapped. */
        char *slots;
        size_t guard, slot, size; /* bytes; of all: `size` */
        unsigned count;           /* slots */

        /* Guarded by the lock of arena.c. */
        struct weir__link link;    /* among those with free slots, or those to be unmapped */
        struct weir__link waiting; /* among those that wait */
        weir_nsec waits_until;
        unsigned fresh; /* the first slot that was never taken */
        unsigned out;   /* slots */
        unsigned idle_count;
        struct weir__stack *idle;  /* free, with pages */
        struct weir__stack *blank; /* free, without pages */
        struct weir__stack *bare;  /* free, and without a guard: they were taken and not used */

        struct weir__stack stacks[];
};

static inline struct weir__arena *
weir__arena_of(const struct weir__stack *stack)
{
        return (struct weir__arena *)((uintptr_t)stack & ~(WEIR__ARENA_SIZE - 1));
}

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
