/* kernel/memory/slab.c: arenas of 2 MiB, cut into slabs of 8 KiB, cut into blocks of one size.
 *
 *      a slab:   unused --cut--> full <--> partial --the last block comes back--> unused
 *      an arena: new --> has unused slabs <--> has none;  its last slab becomes unused --> kept, or waits --> unmapped
 *
 * Blocks have no header.  Masking the address of a block leads to its arena.  The first two slabs of an arena are never cut:
 * they hold the data about all others.  (Data inside the slabs would lie in the same set of each CPU cache.)
 *
 * Threads: one lock, a leaf, guards all.  Under it are neither system calls nor first touches of pages, and at most some hundred
 *          steps.
 *
 * Invariants (test/slab_check.c):
 *   - a slab is in the list of its class if and only if it is partial;
 *   - an arena is in the list if and only if it has unused slabs;
 *   - an arena that has no used slab is the kept one, or waits.
 * A slab that is being cut counts as used, and so does one whose pages are being given back.
 *
 * Giving back.  An arena is wasteful when more than half of its pages are those of unused slabs.  It waits for DECAY
 * (kernel/sched/tender.c), and loses these pages then; as a whole, if no slab is used.  One such arena is kept, so that a
 * program with little to do does not map it again and again.  Blocks are often freed in about the order in which they were made.
 * Then an arena is unmapped as a whole, which is cheaper.  And a load that comes and goes within that time pays for no page
 * twice.  The virtual clock does not say how long memory is not used: there WAITING_FEW may wait, and the one that came first
 * makes room for the next.
 *
 * Huge pages.  The first arena has small pages and a quarter of the slabs, so a small program has no page that it does not
 * need.  All further ones are huge pages where the system gives these on request: touching 2 MiB for the first time takes 0.2 ms
 * then instead of 1.1.  An arena that loses pages has small ones from then on, or the system would make it whole again, with
 * memory for what was given back.
 *
 * Fork: kernel/memory/memory.c holds the lock meanwhile, so the child finds all this whole. */
#include "kernel/memory/slab.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel/base/clock.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/base/panic.h"

#define SLAB_SIZE      ((size_t)8192)
#define ARENA_SIZE     ((size_t)2 << 20)
#define HEAD_SLABS     2
#define ARENA_SLABS    (ARENA_SIZE / SLAB_SIZE - HEAD_SLABS)
#define SMALL_SLABS    (ARENA_SLABS / 4) /* of an arena with small pages */
#define FEW_WASTED     16                /* slabs: an arena may waste as many whatever it uses */
#define WAITING_FEW    2                 /* wasteful arenas, on the virtual clock */
#define DECAY          WEIR_SEC(1)       /* so long an arena may be wasteful */
#define BLOCKS_A_CHAIN 64                /* one that is put together from free blocks ends with the slab that reaches it */
#define SLICE          64                /* blocks that are given back under one hold of the lock */

struct slab {
        struct weir__link link;          /* among the partial slabs of its class, or the unused ones of its arena */
        struct weir__block *free, *last; /* the chain of free blocks, and its end */
        uint16_t free_count;

        /* Constant while the slab is in use; read without the lock then. */
        uint16_t capacity; /* blocks */
        uint16_t size_class;
};

struct arena {
        struct weir__link every;   /* among all */
        struct weir__link link;    /* among those with unused slabs, or those to be unmapped */
        struct weir__link waiting; /* among those that wait */
        weir_nsec waits_until;
        unsigned used; /* slabs */
        unsigned wasted_count;
        struct weir__list wasted; /* unused slabs that were cut since their pages were last given back */
        struct weir__list blank;  /* the other unused slabs */

        _Alignas(64) struct slab slabs[ARENA_SLABS];
};

_Static_assert(sizeof(struct arena) <= HEAD_SLABS * SLAB_SIZE, "the head of an arena has room for its data");
_Static_assert(sizeof(struct weir__block) <= 24, "a free block fits into the smallest class");
_Static_assert(24 + 8 * (WEIR__BLOCK_CLASSES - 1) == WEIR__BLOCK_MAX, "the largest class is that of the largest block");

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__list every;   /* all arenas */
        struct weir__list arenas;  /* with unused slabs */
        struct arena *kept;        /* has no used slab, and does not wait; NULL: none */
        struct weir__list waiting; /* wasteful ones, the one that came first first */
        unsigned waiting_count;
        size_t arena_count;
        size_t out; /* blocks */
        struct weir__list partial[WEIR__BLOCK_CLASSES];
} all = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

_Atomic bool weir__slabs_are_wasteful;

/* What is given back after the lock was released. */
struct garbage {
        bool should_keep;         /* see weir__slabs_give */
        struct weir__list arenas; /* to be unmapped */
        struct arena *wasteful;   /* loses the pages of `slabs`, which count as used meanwhile; NULL: none */
        struct weir__list slabs;
};

/* -- addresses -- */

static struct arena *
arena_of(const void *inside)
{
        return (struct arena *)((uintptr_t)inside & ~(ARENA_SIZE - 1));
}

static struct slab *
slab_of(const void *block)
{
        return &arena_of(block)->slabs[(uintptr_t)block % ARENA_SIZE / SLAB_SIZE - HEAD_SLABS];
}

static char *
memory_of(const struct slab *slab)
{
        return (char *)arena_of(slab) + SLAB_SIZE * (size_t)(slab - arena_of(slab)->slabs + HEAD_SLABS);
}

/* -- memory of the system, without the lock -- */

static char *
map(size_t size)
{
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return memory == MAP_FAILED ? NULL : memory;
}

/* Aligned memory.  The system puts one mapping below the other, so the one after an aligned one usually is aligned. */
static char *
map_arena(void)
{
        char *memory = map(ARENA_SIZE);

        if (!memory || (uintptr_t)memory % ARENA_SIZE == 0)
                return memory;
        munmap(memory, ARENA_SIZE);
        memory = map(2 * ARENA_SIZE);
        if (!memory)
                return NULL;
        size_t before = ARENA_SIZE - (uintptr_t)memory % ARENA_SIZE; /* up to a whole arena is too much */
        munmap(memory, before);
        if (before < ARENA_SIZE)
                munmap(memory + before + ARENA_SIZE, ARENA_SIZE - before);
        return memory + before;
}

/* The head is written here, so no thread touches its pages for the first time under the lock. */
static struct arena *
arena_new(bool is_huge)
{
        struct arena *arena = (struct arena *)map_arena();

        if (!arena)
                return NULL;
        madvise(arena, ARENA_SIZE, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* without them it fails: nothing is lost */
        memset(arena, 0, sizeof *arena);
        for (size_t i = 0; i < (is_huge ? ARENA_SLABS : SMALL_SLABS); i++)
                weir__list_append(&arena->blank, &arena->slabs[i].link);
        return arena;
}

static void
unmap_arenas(struct weir__list *arenas)
{
        for (struct weir__link *link; (link = weir__list_pop(arenas));)
                munmap(weir__container_of(link, struct arena, link), ARENA_SIZE);
}

/* -- arenas, with the lock held -- */

static bool
has_unused(const struct arena *arena)
{
        return weir__link_is_used(&arena->link);
}

/* So many of its slabs were taken out of its lists. */
static void
use(struct arena *arena, unsigned count)
{
        arena->used += count;
        if (weir__list_is_empty(&arena->wasted) && weir__list_is_empty(&arena->blank))
                weir__link_remove(&arena->link);
}

/* So many were put into its lists. */
static void
disuse(struct arena *arena, unsigned count)
{
        arena->used -= count;
        if (!has_unused(arena))
                weir__list_prepend(&all.arenas, &arena->link);
}

/* An unused slab becomes a used one, with pages if there is one with pages.  NULL: there is none. */
static struct slab *
take_unused(size_t size_class)
{
        struct weir__link *link = weir__list_first(&all.arenas);

        if (!link)
                return NULL;
        struct arena *arena = weir__container_of(link, struct arena, link);
        arena->wasted_count -= !weir__list_is_empty(&arena->wasted);
        link = weir__list_pop(weir__list_is_empty(&arena->wasted) ? &arena->blank : &arena->wasted);
        struct slab *slab = weir__container_of(link, struct slab, link);
        use(arena, 1);
        if (arena == all.kept)
                all.kept = NULL;
        *slab = (struct slab){.capacity = (uint16_t)(SLAB_SIZE / weir__block_size(size_class)),
                              .size_class = (uint16_t)size_class};
        all.out += slab->capacity;
        return slab;
}

static bool
is_waiting(const struct arena *arena)
{
        return weir__link_is_used(&arena->waiting);
}

static void
end_wait(struct arena *arena)
{
        if (!is_waiting(arena))
                return;
        weir__link_remove(&arena->waiting);
        all.waiting_count--;
}

/* An arena that has no used slab does not wait for others any more. */
static void
drop_arena(struct arena *arena, struct garbage *garbage)
{
        end_wait(arena);
        if (garbage->should_keep && !all.kept) {
                all.kept = arena;
                return;
        }
        all.arena_count--;
        weir__link_remove(&arena->every);
        weir__link_remove(&arena->link);
        weir__list_append(&garbage->arenas, &arena->link);
}

static bool
is_wasteful(const struct arena *arena, bool should_keep)
{
        return arena->wasted_count > (should_keep ? FEW_WASTED + arena->used : 0);
}

static struct arena *
first_waiting(void)
{
        struct weir__link *link = weir__list_first(&all.waiting);

        return link ? weir__container_of(link, struct arena, waiting) : NULL;
}

/* It does not wait any more, and loses the pages of its unused slabs, if these are still too many. */
static void
take_wasted(struct arena *arena, struct garbage *garbage)
{
        end_wait(arena);
        if (!arena->used)
                drop_arena(arena, garbage);
        if (!arena->used || !is_wasteful(arena, garbage->should_keep))
                return;
        garbage->wasteful = arena;
        weir__list_concat(&garbage->slabs, &arena->wasted);
        use(arena, arena->wasted_count);
        arena->wasted_count = 0;
}

/* Lets an arena wait.  Where too many do, the one that has waited longest loses the pages. */
static void
let_wait(struct arena *arena, struct garbage *garbage)
{
        if (garbage->wasteful || (garbage->should_keep && is_waiting(arena)))
                return;
        if (garbage->should_keep) {
                arena->waits_until = weir__clock_monotonic() + DECAY;
                atomic_store_explicit(&weir__slabs_are_wasteful, true, memory_order_relaxed);
                weir__list_append(&all.waiting, &arena->waiting);
                if (++all.waiting_count <= WAITING_FEW || !weir__clock_is_virtual())
                        return;
                arena = first_waiting();
        }
        take_wasted(arena, garbage);
}

static void
put_unused(struct slab *slab, struct garbage *garbage)
{
        struct arena *arena = arena_of(slab);

        weir__list_prepend(&arena->wasted, &slab->link);
        arena->wasted_count++;
        disuse(arena, 1);
        if (!arena->used && (!all.kept || garbage->wasteful || !garbage->should_keep))
                drop_arena(arena, garbage);
        else if (!arena->used || is_wasteful(arena, garbage->should_keep))
                let_wait(arena, garbage);
}

/* -- slabs, with the lock held -- */

static void
put_block(struct weir__block *block, struct garbage *garbage)
{
        struct slab *slab = slab_of(block);

        if (slab->free_count >= slab->capacity)
                weir__panic("block %p given back twice", (void *)block);
        all.out--;
        block->next = slab->free;
        slab->free = block;
        if (slab->free_count++ == 0) {
                slab->last = block;
                weir__list_prepend(&all.partial[slab->size_class], &slab->link);
        }
        if (slab->free_count < slab->capacity)
                return;
        weir__link_remove(&slab->link);
        put_unused(slab, garbage);
}

/* All free blocks of as many slabs as a chain takes, or of all.  No block is touched but the last of each slab. */
static struct weir__block *
take_free(size_t size_class)
{
        struct weir__block *chain = NULL;
        size_t count = 0;

        for (struct weir__link *link; count < BLOCKS_A_CHAIN && (link = weir__list_pop(&all.partial[size_class]));) {
                struct slab *slab = weir__container_of(link, struct slab, link);

                slab->last->next = chain;
                chain = slab->free;
                count += slab->free_count;
                slab->free = NULL;
                slab->free_count = 0;
        }
        if (chain)
                chain->count = count;
        all.out += count;
        return chain;
}

/* -- without the lock -- */

/* All blocks of a slab that was unused.  This may be the first to touch its pages. */
static struct weir__block *
cut(const struct slab *slab)
{
        char *memory = memory_of(slab);
        size_t size = weir__block_size(slab->size_class);
        struct weir__block *chain = (struct weir__block *)memory, *last = chain;

        for (size_t i = 1; i < slab->capacity; i++, last = last->next)
                last->next = (struct weir__block *)(memory + i * size);
        last->next = NULL;
        chain->count = slab->capacity;
        return chain;
}

/* Two threads may come here at once for want of one slab: then there is one arena too many. */
static struct slab *
slab_of_new_arena(size_t size_class, bool is_huge)
{
        struct arena *arena = arena_new(is_huge);

        if (!arena)
                return NULL;
        weir__lock(&all.lock);
        weir__list_append(&all.every, &arena->every);
        weir__list_prepend(&all.arenas, &arena->link);
        all.arena_count++;
        struct slab *slab = take_unused(size_class);
        weir__unlock(&all.lock);
        return slab;
}

struct weir__block *
weir__slabs_take(size_t size_class)
{
        weir__lock(&all.lock);
        struct weir__block *chain = take_free(size_class);
        struct slab *slab = chain ? NULL : take_unused(size_class);
        bool is_huge = all.arena_count > 0;
        weir__unlock(&all.lock);
        if (!chain && !slab)
                slab = slab_of_new_arena(size_class, is_huge);
        return slab ? cut(slab) : chain;
}

/* Gives the pages of slabs back, those of neighbours in one call.  Returns how many slabs. */
static unsigned
give_pages(struct arena *arena, const struct weir__list *slabs)
{
        bool is_given[ARENA_SLABS + 1] = {false};
        unsigned count = 0;

        for (struct weir__link *link = weir__list_first(slabs); link; link = weir__list_next(slabs, link), count++)
                is_given[weir__container_of(link, struct slab, link) - arena->slabs] = true;
        madvise(arena, ARENA_SIZE, MADV_NOHUGEPAGE);
        for (size_t from = 0, to; from < ARENA_SLABS; from = to + 1) {
                for (to = from; is_given[to]; to++)
                        continue;
                if (to > from)
                        madvise(memory_of(&arena->slabs[from]), (to - from) * SLAB_SIZE, MADV_DONTNEED);
        }
        return count;
}

static void
end_waste(struct garbage *garbage)
{
        struct arena *arena = garbage->wasteful;
        unsigned count = give_pages(arena, &garbage->slabs);

        weir__lock(&all.lock);
        weir__list_concat(&arena->blank, &garbage->slabs);
        disuse(arena, count);
        if (!arena->used)
                drop_arena(arena, garbage);
        weir__unlock(&all.lock);
}

static void
give_back(struct garbage *garbage)
{
        if (garbage->wasteful)
                end_waste(garbage);
        unmap_arenas(&garbage->arenas);
}

/* The first SLICE blocks of a chain.  Returns the others. */
static struct weir__block *
give_slice(struct weir__block *chain, bool should_keep)
{
        struct garbage garbage = {.should_keep = should_keep};
        unsigned count = 0;

        for (struct weir__block *each = chain; each && count < SLICE; each = each->next, count++)
                __builtin_prefetch(slab_of(each), 1);
        weir__lock(&all.lock);
        for (struct weir__block *next; count > 0; count--, chain = next) {
                next = chain->next;
                put_block(chain, &garbage);
        }
        weir__unlock(&all.lock);
        give_back(&garbage);
        return chain;
}

void
weir__slabs_give(struct weir__block *chain, bool should_keep)
{
        while (chain)
                chain = give_slice(chain, should_keep);
}

weir_nsec
weir__slabs_tend(weir_nsec now)
{
        struct garbage garbage = {.should_keep = true};

        weir__lock(&all.lock);
        struct arena *arena = first_waiting();
        if (arena && arena->waits_until <= now)
                take_wasted(arena, &garbage);
        arena = first_waiting();
        weir_nsec next = arena ? arena->waits_until : 0;
        atomic_store_explicit(&weir__slabs_are_wasteful, arena != NULL, memory_order_relaxed);
        weir__unlock(&all.lock);
        give_back(&garbage);
        return next;
}

void
weir__slabs_trim(void)
{
        struct arena *waiting;

        do {
                struct garbage garbage = {.should_keep = false};

                weir__lock(&all.lock);
                if (all.kept)
                        drop_arena(all.kept, &garbage);
                all.kept = NULL;
                waiting = first_waiting();
                if (waiting)
                        let_wait(waiting, &garbage);
                weir__unlock(&all.lock);
                give_back(&garbage);
        } while (waiting);
}

/* -- all blocks -- */

/* A slab whose blocks are all free is not looked at: its pages may have been given back.  With the lock held. */
static void
look_at(const struct slab *slab, void (*look)(const void *block, size_t size, void *context), void *context)
{
        size_t size = weir__block_size(slab->size_class);
        bool is_free[SLAB_SIZE / 24] = {false};

        if (slab->free_count == slab->capacity)
                return;
        if (slab->free_count)
                for (const struct weir__block *block = slab->free;; block = block->next) {
                        is_free[(size_t)((const char *)block - memory_of(slab)) / size] = true;
                        if (block == slab->last)
                                break;
                }
        for (size_t i = 0; i < slab->capacity; i++)
                if (!is_free[i])
                        look(memory_of(slab) + i * size, size, context);
}

/* The next arena with a used slab, behind that one; NULL: the first.  It counts as used once more, so it is not unmapped. */
static struct arena *
visit_next(struct arena *arena)
{
        struct garbage garbage = {.should_keep = true};

        weir__lock(&all.lock);
        struct weir__link *link = arena ? weir__list_next(&all.every, &arena->every) : weir__list_first(&all.every);
        if (arena && --arena->used == 0)
                drop_arena(arena, &garbage);
        while (link && !weir__container_of(link, struct arena, every)->used)
                link = weir__list_next(&all.every, link);
        struct arena *next = link ? weir__container_of(link, struct arena, every) : NULL;
        if (next)
                next->used++;
        weir__unlock(&all.lock);
        give_back(&garbage);
        return next;
}

void
weir__slabs_for_each(void (*look)(const void *block, size_t size, void *context), void *context)
{
        for (struct arena *arena = NULL; (arena = visit_next(arena));)
                for (size_t i = 0; i < ARENA_SLABS; i++) {
                        weir__lock(&all.lock);
                        look_at(&arena->slabs[i], look, context);
                        weir__unlock(&all.lock);
                }
}

size_t
weir__slabs_class(const void *block)
{
        return slab_of(block)->size_class;
}

size_t
weir__slabs_out(void)
{
        weir__lock(&all.lock);
        size_t out = all.out;
        weir__unlock(&all.lock);
        return out;
}

void
weir__slabs_hold(void)
{
        weir__lock(&all.lock);
}

void
weir__slabs_release(void)
{
        weir__unlock(&all.lock);
}
