/* kernel/memory.c: caches of small blocks.
 *
 *     worker:          its poller's bin  <- batches ->  depot  <- beyond its bound ->  malloc
 *     other threads:                                    depot                          malloc
 *
 * Threads: a bin belongs to the worker that owns the poller.  The depot is guarded by its lock, a leaf.
 * Blocks are moved between them BATCH at a time, so that a worker meets the lock once in BATCH blocks.  The depot is bounded:
 * what goes beyond returns to malloc, so memory does not stay with a process that once had a million timers. */
#include "kernel/memory.h"

#include <stdlib.h>

#include "kernel/lock.h"
#include "kernel/runtime.h"
#include "kernel/worker.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNCACHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define UNCACHED 1
#endif
#endif
#ifndef UNCACHED
#define UNCACHED 0
#endif

#define BATCH         64
#define BIN_BATCHES   8  /* a bin holds less than this many */
#define DEPOT_BATCHES 64 /* of each class */

/* A free block.  Batches are linked by the second word of their first block. */
struct block {
        struct block *next, *next_batch;
};

static struct depot {
        struct weir__lock lock;
        struct {
                struct block *batches; /* guarded by lock */
                struct block *open;    /* the rest of a batch, for threads without a cache; guarded by lock */
                unsigned count;        /* of batches; guarded by lock */
        } classes[WEIR__CACHE_CLASSES];
} depot = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* The class of a size; WEIR__CACHE_CLASSES and above: none. */
static size_t
class_of(size_t size)
{
        return size <= 24 ? 0 : (size - 24 + 15) / 16;
}

static size_t
size_of(size_t size_class)
{
        return 24 + 16 * size_class;
}

static void
free_chain(struct block *block)
{
        while (block) {
                struct block *next = block->next;

                free(block);
                block = next;
        }
}

/* With the lock held. */
static struct block *
take_batch(size_t size_class)
{
        struct block *batch = depot.classes[size_class].batches;

        if (batch) {
                depot.classes[size_class].batches = batch->next_batch;
                depot.classes[size_class].count--;
        }
        return batch;
}

static struct block *
depot_take(size_t size_class)
{
        weir__lock(&depot.lock);
        struct block *batch = take_batch(size_class);
        weir__unlock(&depot.lock);
        return batch;
}

static void
depot_give(size_t size_class, struct block *batch)
{
        weir__lock(&depot.lock);
        bool full = depot.classes[size_class].count >= DEPOT_BATCHES;
        if (!full) {
                batch->next_batch = depot.classes[size_class].batches;
                depot.classes[size_class].batches = batch;
                depot.classes[size_class].count++;
        }
        weir__unlock(&depot.lock);
        if (full)
                free_chain(batch);
}

/* One block, for a thread that has no cache.  The next one is fetched meanwhile: it was freed on another CPU. */
static struct block *
depot_take_one(size_t size_class)
{
        weir__lock(&depot.lock);
        struct block *block = depot.classes[size_class].open;
        if (!block)
                block = take_batch(size_class);
        if (block) {
                depot.classes[size_class].open = block->next;
                for (size_t line = 0; block->next && line < size_of(size_class); line += 64)
                        __builtin_prefetch((char *)block->next + line, 1);
        }
        weir__unlock(&depot.lock);
        return block;
}

static struct block *
bin_take(struct weir__cache_bin *bin, size_t size_class)
{
        struct block *block = bin->first;

        if (!block) {
                block = depot_take(size_class);
                if (!block)
                        return NULL;
                bin->count = 0;
                for (struct block *each = block; each; each = each->next)
                        bin->count++;
        }
        bin->first = block->next;
        bin->count--;
        return block;
}

static void
bin_give(struct weir__cache_bin *bin, size_t size_class, struct block *block)
{
        block->next = bin->first;
        bin->first = block;
        if (++bin->count < BATCH * BIN_BATCHES)
                return;
        struct block *last = block;
        for (unsigned i = 1; i < BATCH; i++)
                last = last->next;
        bin->first = last->next;
        bin->count -= BATCH;
        last->next = NULL;
        depot_give(size_class, block);
}

void *
weir__alloc(size_t size)
{
        size_t size_class = class_of(size);
        struct weir__worker *worker = weir__worker_self();
        struct block *block = NULL;

        if (UNCACHED || size_class >= WEIR__CACHE_CLASSES || weir__runtime_forked())
                return malloc(size);
        if (worker && worker->poller)
                block = bin_take(&worker->poller->cache.bins[size_class], size_class);
        else
                block = depot_take_one(size_class);
        return block ? block : malloc(size_of(size_class));
}

void
weir__free(void *block, size_t size)
{
        size_t size_class = class_of(size);
        struct weir__worker *worker = weir__worker_self();

        if (UNCACHED || !block || size_class >= WEIR__CACHE_CLASSES || !worker || !worker->poller)
                free(block);
        else
                bin_give(&worker->poller->cache.bins[size_class], size_class, block);
}

void
weir__cache_empty(struct weir__cache *cache)
{
        for (size_t size_class = 0; size_class < WEIR__CACHE_CLASSES; size_class++) {
                free_chain(cache->bins[size_class].first);
                cache->bins[size_class] = (struct weir__cache_bin){0};
        }
}

void
weir__depot_empty(void)
{
        for (size_t size_class = 0; size_class < WEIR__CACHE_CLASSES; size_class++) {
                for (struct block *batch; (batch = depot_take(size_class));)
                        free_chain(batch);
                for (struct block *block; (block = depot_take_one(size_class));)
                        free(block);
        }
}
