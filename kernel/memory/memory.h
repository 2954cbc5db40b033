/* kernel/memory/memory.h: small blocks from caches, large ones from malloc.
 *
 * A block is freed with the size it was allocated with; it is aligned to 8 bytes.  The caches belong to pollers, so a worker
 * allocates and frees without a lock; each other thread that allocates has a cache of its own.  Under a sanitizer every block goes to malloc and free, so
 * that nothing hides. */
#ifndef WEIR_KERNEL_MEMORY_H
#define WEIR_KERNEL_MEMORY_H

#include <stddef.h>

#include "kernel/memory/span.h"

struct weir__cache_bin {
        struct weir__block *first;
        size_t count;
};

/* A poller's: only its owner touches it. */
struct weir__cache {
        struct weir__cache_bin bins[WEIR__BLOCK_CLASSES];
};

/* NULL when out of memory.  Not zeroed.  Any thread. */
void *weir__alloc(size_t size);
void weir__free(void *block, size_t size);

/* Gives all that a cache, and then the depot, hold back to the kernel: for shutdown. */
void weir__cache_empty(struct weir__cache *cache);
void weir__depot_empty(void);

#endif
