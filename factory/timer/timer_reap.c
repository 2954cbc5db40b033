/* factory/timer/timer_reap.c: zombies, which are timers that were cancelled by name and whose callback has returned.
 *
 * Threads: the worker that has run the callback.
 * Locks:   that of the name's shard (rank NAMES).
 *
 * A zombie leaves the list of ending timers under the lock of the shard, and is freed.  That is deferred to the end of the batch, so
 * that one hold of the lock serves many zombies. */
#include "factory/timer/timer.h"

#include "kernel/memory/memory.h"
#include "kernel/sched/worker.h"

static uint32_t
hash_of(const struct weir__work *work)
{
        return ((const struct weir__named_timer *)work)->name.hash;
}

/* The next zombie, if its name lies in the same shard. */
static struct weir__work *
next_of_shard(struct weir__poller *poller, const struct weir__work *work)
{
        const struct weir__work *next = poller ? poller->ready.deferred.first : NULL;

        if (!next || next->ops != work->ops || !weir__names_same_shard(hash_of(next), hash_of(work)))
                return NULL;
        return weir__work_pop(&poller->ready.deferred);
}

static void
reap(struct weir__work *work)
{
        struct weir__poller *poller = weir__worker_self()->poller;
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, hash_of(work));
        struct weir__work_list reaped = {0};

        for (unsigned left = WEIR__TIMERS_AT_ONCE; work && left > 0; left--) {
                weir__names_unlink(shard, &((struct weir__named_timer *)work)->name);
                weir__work_append(&reaped, work);
                work = left > 1 ? next_of_shard(poller, work) : NULL;
        }
        weir__names_unlock(shard);
        while ((work = weir__work_pop(&reaped)))
                weir__task_free((struct weir_task *)work);
}

static const struct weir__work_ops reap_ops = {.run = reap};

/* Writes ENDED first, and then looks whether a thread waits.  A waiting thread counts itself first, runs the heavy half of the
 * fence, and then looks at the word.  So one of the two sees the other. */
void
weir__timer_end_cancelled(struct weir__named_timer *named)
{
        struct weir__work *work = &named->timer.task.work;
        struct weir__poller *poller = weir__worker_self()->poller;

        work->ops = &reap_ops;
        atomic_store_explicit(&named->timer.task.word, WEIR__CANCELLED | WEIR__ENDED, memory_order_release);
        weir__fence_light();
        if (poller && !atomic_load_explicit(&weir__timer_waits, memory_order_relaxed))
                weir__work_append(&poller->ready.deferred, work);
        else
                reap(work);
}
