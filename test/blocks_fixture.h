/* test/blocks_fixture.h: small blocks that are counted, and refused when a test says so.
 *
 * The linker puts these functions in front of the library's (test/CMakeLists.txt). */
#ifndef WEIR_TEST_BLOCKS_FIXTURE_H
#define WEIR_TEST_BLOCKS_FIXTURE_H

#include "factory/task/task.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

void *__real_weir__alloc(size_t size);
void __real_weir__free(void *block, size_t size);
void *__wrap_weir__alloc(size_t size);
void __wrap_weir__free(void *block, size_t size);

static _Atomic int64_t bytes_out; /* in units of 8: a task knows its size in these */
static _Atomic int allocations_left = -1; /* until one is refused; below 0: none is */

void *
__wrap_weir__alloc(size_t size)
{
        int before = atomic_load(&allocations_left);

        while (before >= 0 && !atomic_compare_exchange_weak(&allocations_left, &before, before - 1))
                ;
        void *block = before == 0 ? NULL : __real_weir__alloc(size);

        if (block)
                atomic_fetch_add(&bytes_out, (int64_t)(size + 7) / 8 * 8);
        return block;
}

void
__wrap_weir__free(void *block, size_t size)
{
        if (block)
                atomic_fetch_sub(&bytes_out, (int64_t)(size + 7) / 8 * 8);
        __real_weir__free(block, size);
}

/* Frees what is kept for a while after a shutdown (factory/task/task.c). */
static inline void weir_test_free_kept(void)
{
        weir__task_free_kept();
        weir__series_unref_kept();
}

#endif
