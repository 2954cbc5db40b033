/* kernel/memory/memory.h: small blocks from caches, large ones from malloc.
 *
 * A block is freed with the size it was allocated with.  It is aligned to 8 bytes.  Each thread has a cache, so it allocates and
 * frees without a lock most of the time.  In a program that a sanitizer or memcheck watches every block comes from malloc
 * (kernel/memory/watched.h). */
#ifndef WEIR_KERNEL_MEMORY_H
#define WEIR_KERNEL_MEMORY_H

#include <stddef.h>

#include "kernel/memory/slab.h"
#include "kernel/memory/watched.h"

/* NULL when out of memory.  Not zeroed.  Any thread. */
void *weir__alloc(size_t size);
void weir__free(void *block, size_t size);

/* Gives back the blocks in the cache of this thread, before the thread is idle for long. */
void weir__memory_release_cache(void);

/* The same for a shutdown: the memory goes back to the system.  Other threads have ended. */
void weir__memory_trim(void);

/* Calls `look` for each block that may be in use, under a lock.  A block that lies in the cache of a thread is among them.  Other
 * threads may be writing to a block.  `look` must neither lock nor allocate, and be short.  Any thread. */
void weir__memory_for_each(void (*look)(const void *block, size_t size, void *context), void *context);

#endif
