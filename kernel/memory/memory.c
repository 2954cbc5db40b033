/* kernel/memory/memory.c: caches of small blocks.
 *
 *     a thread: the bins of its cache  <- chains ->  depot  <- chains ->  spans (kernel/memory/span.c)
 *
 * Threads: a cache belongs to one thread.  It is made when the thread first allocates or frees, and emptied when the thread ends.  The
 *          depot is guarded by its lock, under which only a fork takes another: the one of the spans.
 * Blocks are moved between them BATCH at a time or more, so that a thread meets the lock once in BATCH blocks.
 *
 * A block that is kept here keeps its span from going back to the kernel, and after a million timers that have ended in random
 * order each block is of another span.  So bins are small, and what the depot keeps is bounded by the number of blocks that are
 * out: each chain that it is given beyond that makes it lose two.
 *
 * Fork: depot and spans are locked meanwhile, so a child may allocate and free; what the bins of its parent's workers
 * hold is lost to it. */
#include "kernel/memory/memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernel/base/lock.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/memory/sanitized.h"

/* A test of the caches themselves says 0. */
#ifdef WEIR_ABLATE_CACHE
#define UNCACHED 1
#elif !defined UNCACHED
#define UNCACHED WEIR__SANITIZED
#endif

#define BATCH       64
#define BIN_MOST    (2 * BATCH) /* a bin holds fewer, or one chain as it came */
#define DEPOT_LEAST 4           /* chains of each class that may be kept in any case; */
#define DEPOT_MOST  128         /* and in none */

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct kept {
                struct weir__block *chains; /* linked by `next_chain` */
                unsigned count;             /* of chains */
        } kept[WEIR__BLOCK_CLASSES];
} depot = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_DEPOT)};

/* Whether memory is worth keeping.  Memory that outlives a shutdown goes back to the kernel as soon as it can. */
static bool
keeps(void)
{
        return weir__phase_is_up();
}

/* -- the depot -- */

/* With the lock held. */
static struct weir__block *
pop_chain(struct kept *kept)
{
        struct weir__block *chain = kept->chains;

        if (chain) {
                kept->chains = chain->next_chain;
                kept->count--;
        }
        return chain;
}

static struct weir__block *
depot_pop(struct kept *kept)
{
        weir__lock(&depot.lock);
        struct weir__block *chain = pop_chain(kept);
        weir__unlock(&depot.lock);
        return chain;
}

static struct weir__block *
depot_take(size_t size_class)
{
        struct weir__block *chain = depot_pop(&depot.kept[size_class]);

        return chain ? chain : weir__spans_take(size_class);
}

/* How many chains are worth keeping: as many as hold half of the blocks that are out. */
static unsigned
bound_of(size_t size_class)
{
        size_t half = weir__spans_out(size_class) / (2 * BATCH);

        return half < DEPOT_LEAST ? DEPOT_LEAST : half > DEPOT_MOST ? DEPOT_MOST : (unsigned)half;
}

/* Where there is one chain too many there may be more: the bound has fallen. */
static void
depot_give(size_t size_class, struct weir__block *chain)
{
        struct kept *kept = &depot.kept[size_class];
        struct weir__block *beyond[2] = {NULL, NULL};
        unsigned bound = keeps() ? bound_of(size_class) : 0;

        weir__lock(&depot.lock);
        chain->next_chain = kept->chains;
        kept->chains = chain;
        kept->count++;
        for (unsigned i = 0; i < 2 && kept->count > bound; i++)
                beyond[i] = pop_chain(kept);
        weir__unlock(&depot.lock);
        weir__spans_give(beyond[0], keeps());
        weir__spans_give(beyond[1], keeps());
}

/* -- bins -- */

struct bin {
        struct weir__block *first;
        uint32_t count;
        uint32_t cold; /* the lowest blocks that this thread has not touched: another CPU has freed them */
};

struct cache {
        struct bin bins[WEIR__BLOCK_CLASSES];
};

/* What is rare is kept apart, so that the rest needs no registers saved. */
#define RARE __attribute__((noinline)) static

RARE bool
refill(struct bin *bin, size_t size_class)
{
        bin->first = depot_take(size_class);
        bin->count = bin->cold = bin->first ? (uint32_t)bin->first->count : 0;
        return bin->first;
}

RARE void
give_batch(struct bin *bin, size_t size_class)
{
        struct weir__block *block = bin->first, *last = block;

        for (unsigned i = 1; i < BATCH; i++)
                last = last->next;
        bin->first = last->next;
        bin->count -= BATCH;
        last->next = NULL;
        block->count = BATCH;
        depot_give(size_class, block);
}

/* The block behind a cold one is cold as well: it is fetched while the caller fills the one that was taken. */
static void
fetch_next(struct bin *bin, size_t size_class)
{
        bin->cold = bin->count;
        for (size_t line = 0; bin->first && line < weir__block_size(size_class); line += 64)
                __builtin_prefetch((char *)bin->first + line, 1);
}

static struct weir__block *
bin_take(struct bin *bin, size_t size_class)
{
        if (__builtin_expect(!bin->first, 0) && !refill(bin, size_class))
                return NULL;
        struct weir__block *block = bin->first;
        bin->first = block->next;
        if (__builtin_expect(--bin->count < bin->cold, 0))
                fetch_next(bin, size_class);
        return block;
}

static void
bin_give(struct bin *bin, size_t size_class, struct weir__block *block)
{
        block->next = bin->first;
        bin->first = block;
        if (__builtin_expect(++bin->count >= BIN_MOST, 0))
                give_batch(bin, size_class);
}

/* -- caches -- */

static _Thread_local struct cache *own; /* NULL: none yet */
static pthread_key_t own_key;           /* its destructor runs when a thread ends */
static bool has_own_key;

static void
empty(struct cache *cache)
{
        for (size_t size_class = 0; size_class < WEIR__BLOCK_CLASSES; size_class++) {
                weir__spans_give(cache->bins[size_class].first, keeps());
                cache->bins[size_class] = (struct bin){0};
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
alloc_first(size_t size_class)
{
        struct cache *cache = make_own();

        if (cache)
                return bin_take(&cache->bins[size_class], size_class);
        struct weir__block *block = weir__spans_take(size_class);
        if (block)
                weir__spans_give(block->next, keeps());
        return block;
}

RARE void
free_uncached(size_t size_class, struct weir__block *block)
{
        struct cache *cache = keeps() ? make_own() : NULL;

        if (cache) {
                bin_give(&cache->bins[size_class], size_class, block);
                return;
        }
        block->next = NULL;
        weir__spans_give(block, keeps());
}

/* -- what others see -- */

void *
weir__alloc(size_t size)
{
        size_t size_class = weir__block_class(size);

        if (UNCACHED || size_class >= WEIR__BLOCK_CLASSES)
                return malloc(size);
        struct cache *cache = own;
        return __builtin_expect(cache != NULL, 1) ? bin_take(&cache->bins[size_class], size_class) : alloc_first(size_class);
}

static void
check_size(void *block, size_t size, size_t size_class)
{
#ifdef WEIR_DEBUG
        if (weir__spans_class(block) != size_class)
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
        if (__builtin_expect(cache && keeps(), 1))
                bin_give(&cache->bins[size_class], size_class, block);
        else
                free_uncached(size_class, block);
}

void
weir__cache_release(void)
{
        if (own)
                empty(own);
}

void
weir__depot_empty(void)
{
        weir__cache_release();
        for (size_t size_class = 0; size_class < WEIR__BLOCK_CLASSES; size_class++)
                for (struct weir__block *chain; (chain = depot_pop(&depot.kept[size_class]));)
                        weir__spans_give(chain, false);
        weir__spans_trim();
}

/* -- fork -- */

static void
before_fork(void)
{
        weir__lock(&depot.lock);
        weir__spans_hold();
}

static void
after_fork(void)
{
        weir__spans_release();
        weir__unlock(&depot.lock);
}

static void
prepare(void)
{
        has_own_key = !UNCACHED && pthread_key_create(&own_key, end_own) == 0;
}

WEIR__STEPS_OF(WEIR__MODULE_MEMORY, [WEIR__STEP_LOAD] = prepare, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = after_fork);
