/* factory/flow/go_queue.c: the named queues of functions.  A queue exists as long as tasks have it.
 *
 * Threads: any.
 * Locks:   those of the shards of the map (rank NAMES).  The last reference to a queue is given up under the lock of
 *          its shard. */
#include "factory/flow/go.h"

#include <errno.h>
#include <string.h>

#include <weir/go.h>

#include "kernel/base/list.h"
#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/config.h"

#define LINES_AT_ONCE 256 /* of a table that are looked at under one hold of the lock */

static struct weir__go_queue *
queue_of(struct weir__name *name)
{
        return weir__container_of(name, struct weir__go_queue, name);
}

static size_t
size_of_queue(size_t name_size)
{
        return WEIR__NAME_SIZE(offsetof(struct weir__go_queue, name), name_size);
}

static struct weir__go_queue *
find_queue(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        struct weir__name *name = weir__names_find(shard, key);

        return name ? queue_of(name) : NULL;
}

/* The oldest of that name, with one more reference; NULL: none. */
static struct weir__go_queue *
refer(const struct weir__name_key *key)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__queue_names, key->hash);
        struct weir__go_queue *queue = find_queue(shard, key);

        if (queue)
                atomic_store_explicit(&queue->made, atomic_load_explicit(&queue->made, memory_order_relaxed) + 1,
                                      memory_order_relaxed);
        weir__names_unlock(shard);
        return queue;
}

/* Whether others are left besides this reference and those `given_up`.  `made` only grows, so an old value serves while it is
 * large enough; then the cache line that the makers write is not fetched. */
static bool
is_one_of_many(struct weir__go_queue *queue, size_t given_up)
{
        if (given_up + 1 < atomic_load_explicit(&queue->made_at_least, memory_order_relaxed))
                return true;
        size_t made = atomic_load_explicit(&queue->made, memory_order_relaxed);
        atomic_store_explicit(&queue->made_at_least, made, memory_order_relaxed);
        return given_up + 1 < made;
}

/* Only the last reference needs the lock: a thread that finds the queue meanwhile adds another one. */
static bool
drop_one_of_many(struct weir__go_queue *queue)
{
        size_t given_up = atomic_load_explicit(&queue->given_up, memory_order_relaxed);

        while (is_one_of_many(queue, given_up))
                if (atomic_compare_exchange_weak_explicit(&queue->given_up, &given_up, given_up + 1, memory_order_release,
                                                          memory_order_relaxed))
                        return true;
        return false;
}

void
weir__go_queue_unref(struct weir__go_queue *queue)
{
        if (drop_one_of_many(queue))
                return;
        struct weir__names_shard *shard = weir__names_lock(&weir__queue_names, queue->name.hash);
        bool is_last = atomic_fetch_add_explicit(&queue->given_up, 1, memory_order_acq_rel) + 1 ==
                       atomic_load_explicit(&queue->made, memory_order_relaxed);

        if (is_last)
                weir__names_unlink(shard, &queue->name);
        weir__names_unlock(shard);
        if (is_last)
                weir__free(queue, size_of_queue(queue->name.size));
}

/* The queue of that name, made if there is none; NULL when out of memory.  Two threads may make one at the same time:
 * then the older one counts. */
struct weir__go_queue *
weir__go_queue_get(const struct weir__name_key *key)
{
        size_t size = size_of_queue(key->size);
        struct weir__go_queue *queue = refer(key), *made = queue ? NULL : weir__alloc(size);

        if (!made)
                return queue;
        /* Not the whole struct at once: its size counts a few bytes behind `name`, which may not be there. */
        made->jobs = (struct weir__job_queue){0};
        atomic_init(&made->given_up, 0);
        atomic_init(&made->made_at_least, 1);
        atomic_init(&made->made, 1);
        if (!weir__names_add(&weir__queue_names, &made->name, key)) {
                weir__free(made, size);
                return NULL;
        }
        queue = refer(key);
        weir__go_queue_unref(made);
        return queue;
}

/* -- how much there is to do -- */

int
weir_go_queue_stats(const char *name, struct weir_go_stats *stats)
{
        struct weir__executor_stats now = {0};
        struct weir__name_key key;

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!stats || !weir__config_has_size(stats))
                return weir__log_refusal("weir_go_queue_stats: " WEIR__SIZE_EXPECTED("weir_go_stats"));
        int fault = name ? weir__name_expect("a queue", name, &key) : 0;
        if (fault)
                return fault;
        if (name) {
                struct weir__names_shard *shard = weir__names_lock(&weir__queue_names, key.hash);
                struct weir__go_queue *queue = find_queue(shard, &key);

                if (queue)
                        weir__executor_stats(&queue->jobs, &now);
                weir__names_unlock(shard);
        } else {
                weir__executor_stats(NULL, &now);
        }
        struct weir_go_stats result = {.queued = now.queued, .running = now.running, .waiting = now.waiting};
        weir__config_write(stats, sizeof result, &result);
        return 0;
}

/* -- all queues, for a dump -- */

/* Within one hold of the lock.  Returns whether it came to one. */
static bool
walk_shard(struct weir__go_queue_walk *walk, bool *done)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__queue_names, walk->scan.key.hash);
        unsigned budget = LINES_AT_ONCE;
        struct weir__name *name = weir__names_scan(shard, &walk->scan, &budget, done);

        if (name) {
                walk->size = name->size;
                memcpy(walk->name, name->text, name->size);
                walk->scan.key.text = walk->name;
                weir__executor_stats(&queue_of(name)->jobs, &walk->stats);
        }
        weir__names_unlock(shard);
        return name;
}

bool
weir__go_queue_walk_on(struct weir__go_queue_walk *walk)
{
        bool done = false;

        while (walk->shard < WEIR__NAMES_SHARDS) {
                if (walk_shard(walk, &done))
                        return true;
                if (done)
                        walk->scan = weir__names_scan_begin(++walk->shard);
        }
        return false;
}
