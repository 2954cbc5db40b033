/* kernel/stack/arena.h: arenas, cut into slots.
 *
 *      a slot:   guard | usable bytes |     from low to high addresses
 *
 * Stacks come and go in chains, which are linked by `next`. */
#ifndef WEIR_KERNEL_STACK_ARENA_H
#define WEIR_KERNEL_STACK_ARENA_H

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

/* Unmaps the arena that was kept. */
void weir__arenas_trim(void);

/* Counts of slots: those with a guard, and those that were taken and not given back, in all arenas. */
void weir__arenas_count(size_t *made, size_t *out);

/* The stack in whose slot an address lies; NULL: none.  *is_guard: in the guard of that slot.  It may be called in a signal
 * handler.  While nobody unmaps the slot the answer is right. */
struct weir__stack *weir__arenas_find(const void *address, bool *is_guard);

/* For fork: no other thread is in this module between the two calls. */
void weir__arenas_hold(void);
void weir__arenas_release(void);

#endif
