/* kernel/memory/span.h: blocks of a few sizes, cut from large pieces of memory that go back to the kernel.
 *
 * Blocks come and go in chains.  Any thread; never under a lock of rank LEAF. */
#ifndef WEIR_KERNEL_SPAN_H
#define WEIR_KERNEL_SPAN_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR__BLOCK_CLASSES 48 /* blocks of 24, 32, ... 400 bytes */
#define WEIR__BLOCK_MOST    400

/* A free block.  All but `next` is that of the first block of a chain. */
struct weir__block {
        struct weir__block *next, *next_chain;
        size_t count;
};

/* The class of a size; WEIR__BLOCK_CLASSES and above: none. */
static inline size_t weir__block_class(size_t size)
{
        return size <= 24 ? 0 : (size - 24 + 7) / 8;
}

static inline size_t weir__block_size(size_t size_class)
{
        return 24 + 8 * size_class;
}

/* A chain of at least one block, `count` of them, aligned to 8 bytes; some hundred where that many lie together.  NULL: out of
 * memory. */
struct weir__block *weir__spans_take(size_t size_class);

/* Gives blocks back, of whatever classes, linked by `next`.  `keep`: a little memory may stay for the next ones. */
void weir__spans_give(struct weir__block *chain, bool keep);

/* How many blocks of a class have been taken and not given back, about. */
size_t weir__spans_out(size_t size_class);

/* Gives the memory back that was kept and has no block in use. */
void weir__spans_trim(void);

/* The class of a block that was taken. */
size_t weir__spans_class(const void *block);

/* For fork: in between nobody else is in here. */
void weir__spans_hold(void);
void weir__spans_release(void);

/* Panics when the structure is not as kernel/memory/span.c says; for tests. */
void weir__spans_check(void);

#endif
