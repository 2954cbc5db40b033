/* factory/task/live.c: the roots that are alive.
 *
 * Threads: any.
 * Locks:   one for each shard (rank LIVE, before those of series and tasks).
 *
 * A root is there from before its start until its callback has returned, and its own reference is given up behind that: so who
 * finds it under the lock may take another one.  The newest is the first: a walk does not meet what comes while it is under way.
 * */
#include "factory/task/live.h"

#include "kernel/base/phase.h"

struct shard {
        _Alignas(64) struct weir__lock lock;

        /* Guarded by lock. */
        struct weir_series *series;    /* the newest, linked by previous and next */
        struct weir__live_task *tasks; /* the same */
        struct weir__live_walk *walks; /* under way */

        _Atomic size_t count; /* of the series; written under the lock, relaxed */
};

static struct shard shards[WEIR__LIVE_SHARDS] = {
        [0 ... WEIR__LIVE_SHARDS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LIVE)}};

/* The child of a process in which nothing runs may use the library anew: whoever else held a lock is not there. */
static void
become_child(void)
{
        for (unsigned i = 0; i < WEIR__LIVE_SHARDS; i++) {
                weir__lock_init(&shards[i].lock, WEIR__RANK_LIVE);
                shards[i].series = NULL;
                shards[i].tasks = NULL;
                shards[i].walks = NULL;
                atomic_init(&shards[i].count, 0);
        }
}

WEIR__STEPS_OF(WEIR__MODULE_ROOTS, [WEIR__STEP_IN_CHILD] = become_child);

static void
add_to_count(struct shard *shard, size_t change)
{
        size_t count = atomic_load_explicit(&shard->count, memory_order_relaxed);

        atomic_store_explicit(&shard->count, count + change, memory_order_relaxed);
}

/* -- series -- */

static struct shard *
shard_for(unsigned poller, const void *root)
{
        return &shards[(4 * poller + (uintptr_t)root / 1024 % 4) % WEIR__LIVE_SHARDS];
}

static struct shard *
shard_of(const struct weir_series *root)
{
        return shard_for(root->poller, root);
}

void
weir__live_add(struct weir_series *root)
{
        struct shard *shard = shard_of(root);

        root->started = weir__live_stamp();
        root->is_live = true;
        root->previous = NULL;
        weir__lock(&shard->lock);
        root->next = shard->series;
        if (root->next)
                root->next->previous = root;
        shard->series = root;
        add_to_count(shard, 1);
        weir__unlock(&shard->lock);
}

void
weir__live_remove(struct weir_series *root)
{
        struct shard *shard = shard_of(root);

        weir__lock(&shard->lock);
        if (root->next)
                root->next->previous = root->previous;
        *(root->previous ? &root->previous->next : &shard->series) = root->next;
        for (struct weir__live_walk *walk = shard->walks; walk; walk = walk->next)
                if (walk->series == root)
                        walk->series = root->next;
        add_to_count(shard, (size_t)-1);
        weir__unlock(&shard->lock);
}

size_t
weir__live_series(void)
{
        size_t count = 0;

        for (unsigned i = 0; i < WEIR__LIVE_SHARDS; i++)
                count += atomic_load_explicit(&shards[i].count, memory_order_relaxed);
        return count;
}

/* -- lone tasks -- */

/* By the poller that it was made for: a task that runs other series keeps that. */
static struct shard *
shard_of_task(const struct weir__live_task *link)
{
        return shard_for(link->task->poller, link);
}

void
weir__live_add_task(struct weir__live_task *link, struct weir_task *task)
{
        link->task = task;
        link->started = weir__live_stamp();
        struct shard *shard = shard_of_task(link);
        link->previous = NULL;
        weir__lock(&shard->lock);
        link->next = shard->tasks;
        if (link->next)
                link->next->previous = link;
        shard->tasks = link;
        weir__unlock(&shard->lock);
}

void
weir__live_remove_task(struct weir__live_task *link, struct weir_task *task)
{
        if (!link->task) {
                weir__places_forget(task); /* its series has left it, so nobody comes to it any more */
                return;
        }
        struct shard *shard = shard_of_task(link);
        weir__lock(&shard->lock);
        if (link->next)
                link->next->previous = link->previous;
        *(link->previous ? &link->previous->next : &shard->tasks) = link->next;
        for (struct weir__live_walk *walk = shard->walks; walk; walk = walk->next)
                if (walk->task == link)
                        walk->task = link->next;
        weir__places_forget(task);
        weir__unlock(&shard->lock);
        link->task = NULL;
}

/* -- walks -- */

void
weir__live_walk_begin(struct weir__live_walk *walk, unsigned number)
{
        struct shard *shard = &shards[number];

        walk->shard = number;
        weir__lock(&shard->lock);
        walk->series = shard->series;
        walk->task = shard->tasks;
        walk->next = shard->walks;
        shard->walks = walk;
        weir__unlock(&shard->lock);
}

void
weir__live_walk_end(struct weir__live_walk *walk)
{
        struct shard *shard = &shards[walk->shard];
        struct weir__live_walk **link = &shard->walks;

        weir__lock(&shard->lock);
        while (*link != walk)
                link = &(*link)->next;
        *link = walk->next;
        weir__unlock(&shard->lock);
}

struct weir_series *
weir__live_walk_series(struct weir__live_walk *walk)
{
        struct shard *shard = &shards[walk->shard];

        weir__lock(&shard->lock);
        struct weir_series *root = weir__series_ref(walk->series);
        if (root)
                walk->series = root->next;
        weir__unlock(&shard->lock);
        return root;
}

void
weir__live_lock(unsigned shard)
{
        weir__lock(&shards[shard].lock);
}

void
weir__live_unlock(unsigned shard)
{
        weir__unlock(&shards[shard].lock);
}

struct weir__live_task *
weir__live_walk_task(struct weir__live_walk *walk)
{
        struct weir__live_task *link = walk->task;

        if (link)
                walk->task = link->next;
        return link;
}
