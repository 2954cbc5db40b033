/* bench/candidates/malloc_blocks.c: blocks from malloc behind the caches of kernel/memory/memory.c.  `-DWEIR_ABLATE=slab` builds
 * it in place of the slabs, so that bench/ablate measures what they save.
 *
 * Threads: any; malloc has its own locks. */
#include <stdatomic.h>
#include <stdlib.h>

#include "kernel/memory/slab.h"

#define CHAIN 64 /* blocks of a chain */

static _Atomic size_t out;

_Atomic bool weir__slabs_are_wasteful; /* never: malloc decides what it keeps */

struct weir__block *
weir__slabs_take(size_t size_class)
{
        struct weir__block *chain = NULL;
        size_t count = 0;

        for (; count < CHAIN; count++) {
                struct weir__block *block = malloc(weir__block_size(size_class));

                if (!block)
                        break;
                block->next = chain;
                chain = block;
        }
        if (chain)
                chain->count = count;
        atomic_fetch_add_explicit(&out, count, memory_order_relaxed);
        return chain;
}

void
weir__slabs_give(struct weir__block *chain, bool should_keep)
{
        (void)should_keep;
        for (struct weir__block *next; chain; chain = next) {
                next = chain->next;
                free(chain);
                atomic_fetch_sub_explicit(&out, 1, memory_order_relaxed);
        }
}

size_t
weir__slabs_out(void)
{
        return atomic_load_explicit(&out, memory_order_relaxed);
}

size_t
weir__slabs_class(const void *block)
{
        (void)block;
        return 0;
}

weir_nsec
weir__slabs_tend(weir_nsec now)
{
        (void)now;
        return 0;
}

void
weir__slabs_trim(void)
{
}

/* malloc does not list its blocks, so the program's own leak checks see none. */
void
weir__slabs_for_each(void (*look)(const void *block, size_t size, void *context), void *context)
{
        (void)look;
        (void)context;
}

void
weir__slabs_hold(void)
{
}

void
weir__slabs_release(void)
{
}
