/* factory/timer/timer_burial.c: timers that were cancelled by name leave its list of ending ones, and are freed.
 *
 * Threads: the worker that has run the callback.
 * Locks:   that of the name's shard (rank NAMES).
 *
 * That is not urgent, and the lock may be taken: by a thread that cancels a million timers, and maybe has lost its CPU.  So it is
 * work for later (kernel/loop/poller.h), done for many at a time. */
#include "factory/timer/timer.h"

#include "kernel/memory/memory.h"
#include "kernel/sched/worker.h"

#define BURIAL_WAIT WEIR_MSEC(1)

static uint32_t
hash_of(const struct weir__work *work)
{
        return ((const struct weir__named_timer *)work)->name.hash;
}

/* What was cancelled by name lies on the list of ending timers.  Those that lie behind it in `later` and are of the same shard go
 * with it, under the same hold of the lock. */
static void
bury(struct weir__work *work, struct weir__names_shard *shard)
{
        struct weir__poller *poller = weir__worker_self()->poller;
        struct weir__work_list buried = {0};
        uint32_t hash = hash_of(work);
        const struct weir__work_ops *ops = work->ops;

        for (unsigned credit = WEIR__TIMERS_AT_ONCE;;) {
                weir__names_unlink(shard, &((struct weir__named_timer *)work)->name);
                weir__work_append(&buried, work);
                work = poller && --credit > 0 ? poller->later.first : NULL;
                if (!work || work->ops != ops || !weir__names_same_shard(hash_of(work), hash))
                        break;
                weir__poller_pop_later(poller);
        }
        weir__names_unlock(shard);
        while ((work = weir__work_pop(&buried)))
                weir__task_free((struct weir_task *)work);
}

static struct weir__names_shard *
lock_to_bury(const struct weir__poller *poller, uint32_t hash)
{
        if (poller->patient)
                return weir__names_lock(&weir__timer_names, hash);
        if (weir__poller_is_choked(poller)) /* then callbacks wait for it as well */
                return weir__names_lock_within(&weir__timer_names, hash, BURIAL_WAIT);
        return weir__names_trylock(&weir__timer_names, hash);
}

/* Nobody waits for that, so it need not wait for a lock which a cancel of a million timers takes again and again; unless it has
 * been postponed so often that much has come together. */
static void
bury_if_possible(struct weir__work *work)
{
        struct weir__poller *poller = weir__worker_self()->poller;
        struct weir__names_shard *shard = lock_to_bury(poller, hash_of(work));

        if (shard)
                bury(work, shard);
        else
                weir__poller_postpone(poller, work);
}

static const struct weir__work_ops bury_ops = {.run = bury_if_possible};

/* First ENDED, then the look whether anybody waits: who waits counts itself first, has the other half of the fence run, and then
 * looks at the word. */
void
weir__timer_end_cancelled(struct weir__named_timer *named)
{
        struct weir__work *work = &named->timer.task.work;
        struct weir__poller *poller = weir__worker_self()->poller;

        work->ops = &bury_ops;
        atomic_store_explicit(&named->timer.task.word, WEIR__CANCELLED | WEIR__ENDED, memory_order_release);
        weir__fence_light();
        if (poller && !atomic_load_explicit(&weir__timer_waits, memory_order_relaxed))
                weir__poller_do_later(poller, work);
        else
                bury(work, weir__names_lock(&weir__timer_names, named->name.hash));
}
