/* factory/timer/timer_ids.c: timers by id.
 *
 * Threads: any.
 * Locks:   the poller's (rank POLLER): under it an id leads to its timer, which cannot end meanwhile.  A cancel of a timer
 *          that also has a name needs the shard's lock (rank NAMES) first; then it looks the id up a second time. */
#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "kernel/base/latch.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"

weir_timer_id
weir_timer_id_of(weir_task *task)
{
        weir__memory_expect(task);
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
weir__timer_change_id(weir_timer_id id, struct weir__timer_change *change)
{
        change->now = weir__clock_now();
        struct weir__poller *poller = lock_poller_of(id);
        bool wake = false;

        if (!poller)
                return 0;
        struct weir__timer *timer = weir__handles_find(&poller->handles, id);
        size_t count = timer && weir__timer_change(timer, poller, change, &wake);
        weir__unlock(&poller->lock);
        if (wake)
                weir__poller_wake(poller);
        return count;
}

size_t
weir_timer_reset_id(weir_timer_id id, weir_nsec after)
{
        struct weir__timer_change change = {.by = after};

        return weir__timer_change_id(id, &change);
}

size_t
weir_timer_extend_id(weir_timer_id id, weir_nsec by)
{
        struct weir__timer_change change = {.by = by, .should_extend = true};

        return weir__timer_change_id(id, &change);
}

/* -- when it is due -- */

/* Under the poller's lock. */
static weir_nsec
due_of(const struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer), state = word & WEIR__STATE;

        if (word & WEIR__CANCELLED)
                return -ENOENT;
        if (state == WEIR__NEW || weir__timer_is_ticking(timer, word))
                return -EAGAIN;
        if (state != WEIR__PENDING && (word & (WEIR__STATE | WEIR__EXPIRED)) != (WEIR__READY | WEIR__EXPIRED))
                return -ENOENT;
        return timer->node.deadline > 0 ? timer->node.deadline : 0; /* a clock that has jumped may have passed it by any time */
}

weir_nsec
weir_timer_due_id(weir_timer_id id)
{
        struct weir__poller *poller = lock_poller_of(id);

        if (!poller)
                return weir__phase_is_forked() ? -ECHILD : -ENOENT;
        struct weir__timer *timer = weir__handles_find(&poller->handles, id);
        weir_nsec due = timer ? due_of(timer) : -ENOENT;
        weir__unlock(&poller->lock);
        return due;
}

/* -- waiting for its end -- */

/* A thread that waits; on its stack. */
struct id_wait {
        weir_timer_id id;
        struct weir__latch ended;
        struct id_wait *next;
};

/* By poller; guarded by its lock. */
static struct id_wait *waits[WEIR__POLLERS_MAX];

void
weir__timer_give_up_id(struct weir__timer *timer, struct weir__poller *poller)
{
        if (!timer->task.handle)
                return;
        weir_timer_id id = waits[poller->index] ? weir__handles_id(&poller->handles, poller->index, timer->task.handle) : 0;
        for (struct id_wait **at = &waits[poller->index]; *at;) {
                struct id_wait *wait = *at;

                if (wait->id != id) {
                        at = &wait->next;
                        continue;
                }
                *at = wait->next;
                weir__latch_open(&wait->ended);
        }
        weir__handles_give(&poller->handles, timer->task.handle);
        timer->task.handle = 0;
}

/* As for a name: a callback that has begun, and a cancelled timer that was started. */
static bool
is_awaited(const struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer), state = word & WEIR__STATE;

        return state == WEIR__RUNNING || (state == WEIR__READY && word & WEIR__CANCELLED);
}

static void
wait_for_end(weir_timer_id id)
{
        struct weir__poller *poller = lock_poller_of(id);
        struct id_wait wait = {.id = id};

        if (!poller)
                return;
        struct weir__timer *timer = weir__handles_find(&poller->handles, id);
        bool waits_for_it = timer && is_awaited(timer);
        if (waits_for_it) {
                wait.next = waits[poller->index];
                waits[poller->index] = &wait;
        }
        weir__unlock(&poller->lock);
        if (!waits_for_it)
                return;
        weir__latch_wait(&wait.ended);
        weir__lock(&poller->lock); /* the thread that has opened the latch does not touch it any more */
        weir__unlock(&poller->lock);
}

int
weir_timer_cancel_wait_id(weir_timer_id id)
{
        int failed = weir__runtime_may_wait();

        if (failed)
                return failed;
        size_t count = weir_timer_cancel_id(id);
        wait_for_end(id);
        return (int)count;
}
