/* kernel/memory/slab.h: blocks of a few sizes, cut from large pieces of memory that go back to the system.
 *
 * Blocks come and go in chains, which are linked by `next`.  Any thread; never under a lock of rank LEAF. */
#ifndef WEIR_KERNEL_SLAB_H
#define WEIR_KERNEL_SLAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/time.h>

#define WEIR__BLOCK_CLASSES 56  /* blocks of 24, 32, ... 464 bytes */
#define WEIR__BLOCK_MAX     464 /* bytes */

/* A free block. */
struct weir__block {
        struct weir__block *next;
        size_t count; /* of blocks: valid in the first block of a chain that was taken */
};

/* The size class of a size; WEIR__BLOCK_CLASSES and above: there is none. */
static inline size_t weir__block_class(size_t size)
{
        return size <= 24 ? 0 : (size - 24 + 7) / 8;
}

static inline size_t weir__block_size(size_t size_class)
{
        return 24 + 8 * size_class;
}

/* Takes a chain of at least one block, aligned to 8 bytes.  A chain has 64 or more blocks where the memory allows it.
 * Result: NULL when out of memory. */
struct weir__block *weir__slabs_take(size_t size_class);

/* Gives blocks back, of any classes.  `should_keep`: a little memory may stay for the next ones. */
void weir__slabs_give(struct weir__block *chain, bool should_keep);

/* Memory is kept that goes back when it was not used for a second, if somebody calls weir__slabs_tend then.  Relaxed. */
extern _Atomic bool weir__slabs_are_wasteful;

/* Gives back some of it, if that is due.  Returns the time, of the monotonic clock, for the next call; 0: nothing waits. */
weir_nsec weir__slabs_tend(weir_nsec now);

/* Unmaps the memory that was kept and has no block in use. */
void weir__slabs_trim(void);

/* The size class of a block that was taken. */
size_t weir__slabs_class(const void *block);

/* How many blocks were taken and not given back. */
size_t weir__slabs_out(void);

/* Calls `look` for each block that was taken and not given back, slab by slab, under the lock. */
void weir__slabs_for_each(void (*look)(const void *block, size_t size, void *context), void *context);

/* For fork: no other thread is in this module between the two calls. */
void weir__slabs_hold(void);
void weir__slabs_release(void);

#endif
