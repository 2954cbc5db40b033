/* factory/task/live.c: the registry of roots.
 *
 * Threads: any.
 * Locks:   one for each shard (rank LIVE, before those of series and tasks).
 *
 * The poller of a root decides about its shard, so a shard is mostly used by one thread.  There are some shards for each poller,
 * chosen by the address, since other threads start roots for it as well.
 *
 * A root is registered from before its start until its callback has returned, and gives up its own reference after that.  So a
 * thread that finds it under the lock may take another one. */
#include "factory/task/live.h"

#include <stdlib.h>

#include "kernel/base/phase.h"

#define SLOTS_AT_ONCE 256 /* looked at under one hold of the lock */
#define FEW_BITS      6   /* slots of the first segment */
#define SEGMENTS      26  /* each has twice as many slots as the one before, so that growing moves nothing */

/* A root, or the number of the next free slot. */
union slot {
        struct weir_series *root;
        uintptr_t next_free; /* twice the number, and 1 */
};

struct shard {
        _Alignas(64) struct weir__lock lock;

        /* Guarded by lock. */
        uint32_t made;                  /* slots that were ever used since the shard was empty */
        uint32_t free;                  /* the number of the first free one of them; numbers begin with 1, and 0 is none */
        union slot *segments[SEGMENTS]; /* the first is `few` */
        union slot few[1 << FEW_BITS];
        uint32_t missing; /* live roots that have no slot: there was no memory */

        _Atomic uint32_t count; /* of the roots; written under the lock, relaxed */
};

static struct shard shards[WEIR__LIVE_SHARDS] = {
        [0 ... WEIR__LIVE_SHARDS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LIVE)}};

/* The child of a fork may use the library anew if nothing ran.  The threads that held these locks are not there. */
static void
become_child(void)
{
        for (unsigned i = 0; i < WEIR__LIVE_SHARDS; i++) {
                weir__lock_init(&shards[i].lock, WEIR__RANK_LIVE);
                shards[i].made = shards[i].free = shards[i].missing = 0;
                atomic_init(&shards[i].count, 0);
        }
}

WEIR__STEPS_OF(WEIR__MODULE_ROOTS, [WEIR__STEP_IN_CHILD] = become_child);

static struct shard *
shard_of(const struct weir_series *root)
{
        uintptr_t among = (uintptr_t)root / 1024 % WEIR__LIVE_SHARDS_EACH;

        return &shards[(WEIR__LIVE_SHARDS_EACH * root->poller + among) % WEIR__LIVE_SHARDS];
}

/* -- slots; with the lock held -- */

static unsigned
segment_of(uint32_t number)
{
        return 31 - (unsigned)__builtin_clz(((number - 1) >> FEW_BITS) + 1);
}

static union slot *
slot_at(struct shard *shard, uint32_t number)
{
        if (number <= 1 << FEW_BITS)
                return &shard->few[number - 1];
        unsigned segment = segment_of(number);
        return &shard->segments[segment][number - 1 - (((UINT32_C(1) << segment) - 1) << FEW_BITS)];
}

/* The number of a slot that was not used; 0: out of memory. */
static uint32_t
make_slot(struct shard *shard)
{
        unsigned segment = segment_of(shard->made + 1);

        if (segment && segment < SEGMENTS && !shard->segments[segment])
                shard->segments[segment] = malloc(sizeof(union slot) << (FEW_BITS + segment));
        if (segment == SEGMENTS || (segment && !shard->segments[segment]))
                return 0;
        return ++shard->made;
}

static uint32_t
take_slot(struct shard *shard, struct weir_series *root)
{
        uint32_t number = shard->free;

        if (__builtin_expect(number != 0, 1))
                shard->free = (uint32_t)(slot_at(shard, number)->next_free / 2);
        else
                number = make_slot(shard);
        if (number)
                slot_at(shard, number)->root = root;
        return number;
}

/* The shard is empty. */
static void
free_slots(struct shard *shard)
{
        for (unsigned i = 1; i < SEGMENTS && shard->segments[i]; i++) {
                free(shard->segments[i]);
                shard->segments[i] = NULL;
        }
        shard->made = shard->free = 0;
}

/* NULL: it is free. */
static struct weir_series *
root_at(struct shard *shard, uint32_t number)
{
        union slot slot = *slot_at(shard, number);

        return slot.next_free & 1 ? NULL : slot.root;
}

/* -- roots -- */

void
weir__live_add(struct weir_series *root)
{
        struct shard *shard = shard_of(root);

        root->started = weir__live_stamp();
        weir__lock(&shard->lock);
        root->index = take_slot(shard, root);
        root->is_live = true;
        shard->missing += root->index == 0;
        atomic_store_explicit(&shard->count, atomic_load_explicit(&shard->count, memory_order_relaxed) + 1, memory_order_relaxed);
        weir__unlock(&shard->lock);
}

void
weir__live_remove(struct weir_series *root)
{
        struct shard *shard = shard_of(root);

        weir__lock(&shard->lock);
        if (root->index) {
                slot_at(shard, root->index)->next_free = 2 * (uintptr_t)shard->free + 1;
                shard->free = root->index;
        } else {
                shard->missing--;
        }
        uint32_t left = atomic_load_explicit(&shard->count, memory_order_relaxed) - 1;
        atomic_store_explicit(&shard->count, left, memory_order_relaxed);
        if (left == 0)
                free_slots(shard);
        weir__unlock(&shard->lock);
}

size_t
weir__live_count(void)
{
        size_t count = 0;

        for (unsigned i = 0; i < WEIR__LIVE_SHARDS; i++)
                count += atomic_load_explicit(&shards[i].count, memory_order_relaxed);
        return count;
}

/* -- walks -- */

struct weir__live_walk
weir__live_walk_begin(unsigned shard)
{
        weir__lock(&shards[shard].lock);
        struct weir__live_walk walk = {
                .shard = shard, .next = 1, .end = shards[shard].made + 1, .is_incomplete = shards[shard].missing > 0};
        weir__unlock(&shards[shard].lock);
        return walk;
}

struct weir_series *
weir__live_walk_next(struct weir__live_walk *walk)
{
        struct shard *shard = &shards[walk->shard];
        struct weir_series *root = NULL;

        while (!root && walk->next < walk->end) {
                weir__lock(&shard->lock);
                for (unsigned i = 0; i < SLOTS_AT_ONCE && !root && walk->next < walk->end && walk->next <= shard->made; i++)
                        root = weir__series_ref(root_at(shard, walk->next++));
                if (walk->next > shard->made) /* it was empty meanwhile */
                        walk->end = walk->next;
                weir__unlock(&shard->lock);
        }
        return root;
}
