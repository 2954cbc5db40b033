/* kernel/memory/memory.c: caches of small blocks.
 *
 *     worker:          its poller's bin  <- chains ->  depot  <- chains ->  spans (kernel/memory/span.c)
 *     other threads:   their own bin     <- chains ->  depot                spans
 *
 * Threads: a bin belongs to the worker that owns the poller, or to one thread: of the executor, or of the program.  The depot is
 *          guarded by its lock, under which only a fork takes another: the one of the spans.
 * Blocks are moved between them BATCH at a time or more, so that a worker meets the lock once in BATCH blocks.
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
#include <stdlib.h>

#include "kernel/base/lock.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/base/sanitized.h"
#include "kernel/sched/worker.h"

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

/* Whether memory is worth keeping.  What outlives a shutdown goes back to the kernel as soon as it can. */
static bool
keeps(void)
{
        return atomic_load_explicit(&weir__phase, memory_order_relaxed) == WEIR__PHASE_UP;
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

/* What is rare is kept apart, so that the rest needs no registers saved. */
#define RARE __attribute__((noinline)) static

RARE bool
refill(struct weir__cache_bin *bin, size_t size_class)
{
        bin->first = depot_take(size_class);
        bin->count = bin->first ? bin->first->count : 0;
        return bin->first;
}

RARE void
give_batch(struct weir__cache_bin *bin, size_t size_class)
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

static struct weir__block *
bin_take(struct weir__cache_bin *bin, size_t size_class)
{
        if (__builtin_expect(!bin->first, 0) && !refill(bin, size_class))
                return NULL;
        struct weir__block *block = bin->first;
        bin->first = block->next;
        bin->count--;
        return block;
}

static void
bin_give(struct weir__cache_bin *bin, size_t size_class, struct weir__block *block)
{
        block->next = bin->first;
        bin->first = block;
        if (__builtin_expect(++bin->count >= BIN_MOST, 0))
                give_batch(bin, size_class);
}

/* -- what others see -- */

/* The cache of a thread that owns no poller: made when the thread first allocates or frees, and emptied when it ends. */
static _Thread_local struct weir__cache *own;
static pthread_key_t own_key;
static bool has_own_key;

static void
end_own(void *cache)
{
        own = NULL;
        weir__cache_empty(cache);
        free(cache);
}

RARE struct weir__cache *
make_own(void)
{
        struct weir__cache *cache = has_own_key ? calloc(1, sizeof *cache) : NULL;

        if (cache && pthread_setspecific(own_key, cache)) {
                free(cache);
                cache = NULL;
        }
        return own = cache;
}

/* NULL when out of memory. */
static struct weir__cache *
cache_of_thread(void)
{
        const struct weir__worker *worker = weir__worker_self();

        if (worker && worker->cache)
                return worker->cache;
        return own ? own : make_own();
}

/* The block behind the one that is taken was mostly freed on another CPU: it is fetched meanwhile. */
RARE void *
alloc_without_poller(size_t size_class)
{
        struct weir__cache *cache = cache_of_thread();
        struct weir__cache_bin *bin = cache ? &cache->bins[size_class] : NULL;
        void *block = bin ? bin_take(bin, size_class) : NULL;

        if (block)
                for (size_t line = 0; bin->first && line < weir__block_size(size_class); line += 64)
                        __builtin_prefetch((char *)bin->first + line, 1);
        return block;
}

RARE void
free_without_poller(size_t size_class, struct weir__block *block)
{
        struct weir__cache *cache = keeps() ? cache_of_thread() : NULL;

        if (cache) {
                bin_give(&cache->bins[size_class], size_class, block);
                return;
        }
        block->next = NULL;
        weir__spans_give(block, keeps());
}

void *
weir__alloc(size_t size)
{
        size_t size_class = weir__block_class(size);

        if (UNCACHED || size_class >= WEIR__BLOCK_CLASSES)
                return malloc(size);
        struct weir__poller *poller = weir__pin();
        if (__builtin_expect(!poller, 0))
                return alloc_without_poller(size_class);
        void *block = bin_take(&poller->cache.bins[size_class], size_class);
        weir__unpin();
        return block;
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
        struct weir__poller *poller = weir__pin();
        if (__builtin_expect(!poller, 0)) {
                free_without_poller(size_class, block);
                return;
        }
        bin_give(&poller->cache.bins[size_class], size_class, block);
        weir__unpin();
}

void
weir__cache_empty(struct weir__cache *cache)
{
        for (size_t size_class = 0; size_class < WEIR__BLOCK_CLASSES; size_class++) {
                weir__spans_give(cache->bins[size_class].first, keeps());
                cache->bins[size_class] = (struct weir__cache_bin){0};
        }
}

void
weir__depot_empty(void)
{
        if (own)
                weir__cache_empty(own);
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

/* Before those of timers, whose locks are taken before these. */
__attribute__((constructor(101))) static void
prepare(void)
{
        has_own_key = !UNCACHED && pthread_key_create(&own_key, end_own) == 0;
        pthread_atfork(before_fork, after_fork, after_fork);
}
