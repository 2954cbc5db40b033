/* factory/timer/timer_ids.c: timers by id.
 *
 * Threads: any.
 * Locks:   the poller's (rank POLLER): under it an id leads to its timer, which cannot end meanwhile.  A cancel of a timer
 *          that also has a name needs the shard's lock (rank NAMES) first; then it looks the id up a second time. */
#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"

weir_timer_id
weir_timer_id_of(weir_task *task)
{
        struct weir__timer *timer = weir__timer_of_task(task);

        if (!timer || weir__phase_is_forked() || (!weir__pollers_count() && weir__runtime_use()))
                return 0;
        if (weir__timer_word(timer) == WEIR__NEW && !(task->flags & WEIR__TASK_CONSUMED))
                weir__timer_rebind(timer);
        struct weir__poller *poller = weir__timer_poller(timer);

        weir__lock(&poller->lock);
        bool may_have = weir__timer_word(timer) == WEIR__NEW && !(task->flags & (WEIR__TASK_CONSUMED | WEIR__TASK_POISONED));
        if (!task->handle && may_have)
                task->handle = weir__handles_take(&poller->handles, timer);
        weir_timer_id id = task->handle ? weir__handles_id(&poller->handles, poller->index, task->handle) : 0;
        weir__unlock(&poller->lock);
        return id;
}

/* Locks the poller of the id; NULL if there is none. */
static struct weir__poller *
lock_poller_of(weir_timer_id id)
{
        unsigned index = weir__handles_table(id);
        struct weir__poller *poller = !weir__phase_is_forked() && index < WEIR__POLLERS_MAX ? weir__pollers.at[index] : NULL;

        if (poller)
                weir__lock(&poller->lock);
        return poller;
}

/* The shard of the timer's name, locked.  Its lock comes before that of the poller, so the caller takes that one anew, and looks
 * the id up again. */
static struct weir__names_shard *
lock_shard_of(struct weir__name *name, struct weir__poller *poller)
{
        uint32_t hash = name->hash;

        weir__unlock(&poller->lock);
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, hash);
        weir__lock(&poller->lock);
        return shard;
}

size_t
weir_timer_cancel_id(weir_timer_id id)
{
        struct weir__poller *poller = lock_poller_of(id);
        struct weir__work_list taken = {0};
        struct weir__names_shard *shard = NULL;

        if (!poller)
                return 0;
        struct weir__timer *timer = weir__handles_find(&poller->handles, id);
        if (timer && weir__timer_name(timer)) {
                shard = lock_shard_of(weir__timer_name(timer), poller);
                timer = weir__handles_find(&poller->handles, id);
        }
        size_t count = timer && weir__timer_mark_cancelled(timer, true, &taken);
        if (count && shard)
                weir__names_make_zombie(shard, weir__timer_name(timer));
        weir__unlock(&poller->lock);
        if (shard)
                weir__names_unlock(shard);
        weir__timer_deliver(&taken, count);
        return count;
}

size_t
weir_timer_reset_id(weir_timer_id id, weir_nsec after)
{
        struct weir__timer_change change = {.now = weir__clock_now(), .by = after};
        struct weir__poller *poller = lock_poller_of(id);
        bool wake = false;

        if (!poller)
                return 0;
        struct weir__timer *timer = weir__handles_find(&poller->handles, id);
        size_t count = timer && weir__timer_change(timer, poller, &change, &wake);
        weir__unlock(&poller->lock);
        if (wake)
                weir__poller_wake(poller);
        return count;
}
