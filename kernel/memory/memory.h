/* kernel/memory/memory.h: small blocks from caches, large ones from malloc.
 *
 * A block is freed with the size it was allocated with; it is aligned to 8 bytes.  Each thread has a
 * cache, so it allocates and frees without a lock most of the time.  Under a sanitizer every block goes to malloc and free, so that
 * nothing hides. */
#ifndef WEIR_KERNEL_MEMORY_H
#define WEIR_KERNEL_MEMORY_H

#include <stddef.h>

#include "kernel/memory/span.h"

/* NULL when out of memory.  Not zeroed.  Any thread. */
void *weir__alloc(size_t size);
void weir__free(void *block, size_t size);

/* Gives back what the cache of this thread holds, before the thread is idle for long. */
void weir__cache_release(void);

/* Gives all that the depot and the cache of this thread hold back to the kernel, for a shutdown.  Other threads have ended. */
void weir__depot_empty(void);

#endif
