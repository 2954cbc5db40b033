/* kernel/memory/memory.c: a cache of small blocks for each thread.
 *
 *      a thread: the free lists of its cache  <- chains ->  slabs (kernel/memory/slab.c)
 *
 * Threads: a cache belongs to one thread.  It is made when the thread first allocates or frees, and emptied when the thread ends.
 * Blocks move BLOCK_BATCH at a time or more, so a thread takes the lock of the slabs once in BLOCK_BATCH blocks.
 *
 * A block in a cache keeps its slab from going back to the system, and after a million timers that ended in random order each
 * block is of another slab.  So caches are small, and there is no further cache between them and the slabs (docs/decisions/703).
 *
 * In a program that is watched no thread has a cache, so the common path does not ask for that.
 *
 * Fork: the slabs are locked meanwhile, so a child may allocate and free.  Blocks in the caches of its parent's other threads
 * are lost to it. */
#include "kernel/memory/memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernel/base/panic.h"
#include "kernel/base/phase.h"

/* Whether each block comes from malloc, whatever watches the program; cmake/ablate.cmake says 1. */
#ifndef UNCACHED
#define UNCACHED 0
#endif

/* Whether each block comes from malloc in a program that is watched.  A test of the caches themselves says 0. */
#ifndef MAY_BE_WATCHED
#define MAY_BE_WATCHED 1
#endif

/* Whether blocks are prefetched before they are wanted; cmake/ablate.cmake says 0. */
#ifndef PREFETCHES_COLD
#define PREFETCHES_COLD 1
#endif

#define BLOCK_BATCH   64
#define FREE_LIST_MAX 256 /* a free list is shorter, unless a longer chain came */

/* Memory that outlives a shutdown goes back to the system as soon as it can. */
static bool
is_worth_keeping(void)
{
        return weir__phase_is_up();
}

/* -- free lists -- */

struct free_list {
        struct weir__block *first;
        uint32_t count;
        uint32_t cold; /* the lowest blocks, which this thread has not touched: another CPU freed them */
};

struct cache {
        struct free_list lists[WEIR__BLOCK_CLASSES];
};

/* Rare calls are kept out of line, so the others save no registers for them. */
#define RARE __attribute__((noinline)) static

RARE bool
refill(struct free_list *list, size_t size_class)
{
        list->first = weir__slabs_take(size_class);
        list->count = list->first ? (uint32_t)list->first->count : 0;
        list->cold = PREFETCHES_COLD * list->count;
        return list->first;
}

RARE void
give_batch(struct free_list *list)
{
        struct weir__block *chain = list->first, *last = chain;

        for (unsigned i = 1; i < BLOCK_BATCH; i++)
                last = last->next;
        list->first = last->next;
        list->count -= BLOCK_BATCH;
        last->next = NULL;
        weir__slabs_give(chain, is_worth_keeping());
}

/* The block behind a cold one is cold as well.  It is prefetched while the caller fills the one that was taken. */
static void
prefetch_next(struct free_list *list, size_t size_class)
{
        list->cold = list->count;
        for (size_t line = 0; list->first && line < weir__block_size(size_class); line += 64)
                __builtin_prefetch((char *)list->first + line, 1);
}

static struct weir__block *
take_block(struct free_list *list, size_t size_class)
{
        if (__builtin_expect(!list->first, 0) && !refill(list, size_class))
                return NULL;
        struct weir__block *block = list->first;
        list->first = block->next;
        if (__builtin_expect(--list->count < list->cold, 0))
                prefetch_next(list, size_class);
        return block;
}

static void
give_block(struct free_list *list, struct weir__block *block)
{
        block->next = list->first;
        list->first = block;
        if (__builtin_expect(++list->count >= FREE_LIST_MAX, 0))
                give_batch(list);
}

/* -- caches -- */

static _Thread_local struct cache *own; /* NULL: none yet */
static pthread_key_t own_key;           /* its destructor runs when a thread ends */
static bool has_own_key;

static bool is_watched; /* each block comes from malloc; constant once the library is loaded */

static void
empty(struct cache *cache)
{
        for (size_t size_class = 0; size_class < WEIR__BLOCK_CLASSES; size_class++) {
                weir__slabs_give(cache->lists[size_class].first, is_worth_keeping());
                cache->lists[size_class] = (struct free_list){0};
        }
}

static void
end_own(void *cache)
{
        own = NULL;
        empty(cache);
        free(cache);
}

static struct cache *
make_own(void)
{
        struct cache *cache = has_own_key ? calloc(1, sizeof *cache) : NULL;

        if (cache && pthread_setspecific(own_key, cache)) {
                free(cache);
                cache = NULL;
        }
        return own = cache;
}

/* The first allocation of a thread.  A thread that can have no cache takes a chain and gives back all but one block. */
RARE void *
alloc_first(size_t size)
{
        if (is_watched)
                return weir__watched_alloc(size);
        size_t size_class = weir__block_class(size);
        struct cache *cache = make_own();

        if (cache)
                return take_block(&cache->lists[size_class], size_class);
        struct weir__block *block = weir__slabs_take(size_class);
        if (block)
                weir__slabs_give(block->next, is_worth_keeping());
        return block;
}

RARE void
free_uncached(size_t size, struct weir__block *block)
{
        if (is_watched) {
                weir__watched_free(block, size);
                return;
        }
        size_t size_class = weir__block_class(size);
        struct cache *cache = is_worth_keeping() ? make_own() : NULL;

        if (cache) {
                give_block(&cache->lists[size_class], block);
                return;
        }
        block->next = NULL;
        weir__slabs_give(block, is_worth_keeping());
}

/* -- the interface -- */

void *
weir__alloc(size_t size)
{
        size_t size_class = weir__block_class(size);

        if (UNCACHED || size_class >= WEIR__BLOCK_CLASSES)
                return malloc(size);
        struct cache *cache = own;
        return __builtin_expect(cache != NULL, 1) ? take_block(&cache->lists[size_class], size_class) : alloc_first(size);
}

static void
check_size(void *block, size_t size, size_t size_class)
{
#ifdef WEIR_DEBUG
        if (!is_watched && weir__slabs_class(block) != size_class)
                weir__panic("block %p freed with the size %zu, which is not its own", block, size);
#else
        (void)block, (void)size, (void)size_class;
#endif
}

void
weir__free(void *block, size_t size)
{
        size_t size_class = weir__block_class(size);

        if (UNCACHED || !block || size_class >= WEIR__BLOCK_CLASSES) {
                free(block);
                return;
        }
        check_size(block, size, size_class);
        struct cache *cache = own;
        if (__builtin_expect(cache && is_worth_keeping(), 1))
                give_block(&cache->lists[size_class], block);
        else
                free_uncached(size, block);
}

void
weir__memory_release_cache(void)
{
        if (own)
                empty(own);
}

void
weir__memory_trim(void)
{
        weir__memory_release_cache();
        weir__slabs_trim();
}

void
weir__memory_for_each(void (*look)(const void *block, size_t size, void *context), void *context)
{
        if (is_watched)
                weir__watched_for_each(look, context);
        else
                weir__slabs_for_each(look, context);
}

/* -- steps of the process -- */

static void
prepare(void)
{
        is_watched = weir__memory_is_watched = MAY_BE_WATCHED && weir__watched_find();
        has_own_key = !UNCACHED && !is_watched && pthread_key_create(&own_key, end_own) == 0;
}

static void
hold(void)
{
        if (is_watched)
                weir__watched_hold();
        else
                weir__slabs_hold();
}

static void
release(void)
{
        if (is_watched)
                weir__watched_release();
        else
                weir__slabs_release();
}

WEIR__STEPS_OF(WEIR__MODULE_MEMORY, [WEIR__STEP_LOAD] = prepare, [WEIR__STEP_BEFORE_FORK] = hold,
               [WEIR__STEP_AFTER_FORK] = release, [WEIR__STEP_IN_CHILD] = release);
