/* kernel/data/prefetch.h: what will be wanted soon comes from memory meanwhile. */
#ifndef WEIR_KERNEL_PREFETCH_H
#define WEIR_KERNEL_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

/* To be read and written: each line of 64 bytes that any of it lies in.  NULL: nothing. */
static inline void weir__prefetch(const void *memory, size_t size)
{
        uintptr_t line = (uintptr_t)memory & ~(uintptr_t)63, end = (uintptr_t)memory + size;

        for (; memory && line < end; line += 64)
                __builtin_prefetch((const void *)line, 1);
}

#endif
