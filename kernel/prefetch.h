/* kernel/prefetch.h: what will be wanted soon comes from memory meanwhile. */
#ifndef WEIR_KERNEL_PREFETCH_H
#define WEIR_KERNEL_PREFETCH_H

#include <stddef.h>

/* To be read and written.  NULL: nothing. */
static inline void weir__prefetch(const void *memory, size_t size)
{
        for (size_t at = 0; memory && at < size; at += 64)
                __builtin_prefetch((const char *)memory + at, 1);
}

#endif
