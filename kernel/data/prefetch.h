/* kernel/data/prefetch.h: has the CPU fetch memory that the program will want soon. */
#ifndef WEIR_KERNEL_PREFETCH_H
#define WEIR_KERNEL_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

/* Fetches each line of 64 bytes that holds any of it, to be read and written.  NULL: nothing. */
static inline void weir__prefetch(const void *memory, size_t size)
{
        uintptr_t line = (uintptr_t)memory & ~(uintptr_t)63, end = (uintptr_t)memory + size;

        for (; memory && line < end; line += 64)
                __builtin_prefetch((const void *)line, 1);
}

#endif
