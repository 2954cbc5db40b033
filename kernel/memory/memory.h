/* kernel/memory/memory.h: small blocks from caches, large ones from malloc.
 *
 * A block is freed with the size it was allocated with.  It is aligned to 8 bytes.  Each thread has a cache, so it allocates and
 * frees without a lock most of the time.  Under a sanitizer every block comes from malloc, so nothing hides. */
#ifndef WEIR_KERNEL_MEMORY_H
#define WEIR_KERNEL_MEMORY_H

#include <stddef.h>

#include "kernel/memory/slab.h"

/* NULL when out of memory.  Not zeroed.  Any thread. */
void *weir__alloc(size_t size);
void weir__free(void *block, size_t size);

/* Gives back the blocks in the cache of this thread, before the thread is idle for long. */
void weir__memory_release_cache(void);

/* The same for a shutdown: the memory goes back to the system.  Other threads have ended. */
void weir__memory_trim(void);

#endif
