/* test/slab_check.c: the slabs, and a look at their structure.  A suite with this file has these slabs and not the library's. */
#include "test/slab_check.h"

#include "kernel/memory/slab.c"

static unsigned
count_of(const struct weir__list *list)
{
        unsigned count = 0;

        for (struct weir__link *link = weir__list_first(list); link; link = weir__list_next(list, link))
                count++;
        return count;
}

static void
check_arena(struct arena *arena)
{
        unsigned wasted = count_of(&arena->wasted), unused = wasted + count_of(&arena->blank);

        if (!unused || (arena->used + unused != ARENA_SLABS && arena->used + unused != SMALL_SLABS))
                weir__panic("arena %p: %u used, %u unused", (void *)arena, arena->used, unused);
        if (wasted != arena->wasted_count)
                weir__panic("arena %p: %u wasted, and %u are counted", (void *)arena, wasted, arena->wasted_count);
        if ((arena->used == 0) != (arena == all.kept) && !(arena->used == 0 && is_waiting(arena)))
                weir__panic("arena %p: %u used, does not wait, and %p is kept", (void *)arena, arena->used, (void *)all.kept);
}

static void
check_slab(const struct slab *slab, size_t size_class)
{
        const struct weir__block *last = NULL;
        unsigned count = 0;

        for (const struct weir__block *block = slab->free; count < slab->free_count; block = block->next, count++) {
                if (slab_of(block) != slab || (uintptr_t)((const char *)block - memory_of(slab)) % weir__block_size(size_class))
                        weir__panic("slab %p: block %p is not of it", (const void *)slab, (const void *)block);
                last = block;
        }
        if (slab->size_class != size_class || !count || count >= slab->capacity || slab->last != last)
                weir__panic("slab %p: class %u, %u free of %u", (const void *)slab, slab->size_class, count, slab->capacity);
}

void
slab_check(void)
{
        size_t arenas = 0;

        weir__lock(&all.lock);
        for (struct weir__link *link = weir__list_first(&all.arenas); link; link = weir__list_next(&all.arenas, link), arenas++)
                check_arena(weir__container_of(link, struct arena, link));
        unsigned waiting = count_of(&all.waiting);
        if (waiting != all.waiting_count || (all.kept && is_waiting(all.kept)))
                weir__panic("%u arenas wait, and %u are counted", waiting, all.waiting_count);
        if (arenas > all.arena_count)
                weir__panic("%zu arenas in the list, and %zu in all", arenas, all.arena_count);
        for (size_t size_class = 0; size_class < WEIR__BLOCK_CLASSES; size_class++) {
                const struct weir__list *partial = &all.partial[size_class];

                for (struct weir__link *link = weir__list_first(partial); link; link = weir__list_next(partial, link))
                        check_slab(weir__container_of(link, struct slab, link), size_class);
        }
        weir__unlock(&all.lock);
}
