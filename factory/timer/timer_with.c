/* factory/timer/timer_with.c: a function of the program with the context of a timer, while the timer cannot end.
 *
 *     PENDING --pin--> READY, EXPIRED, REARMED, and in no queue --unpin--> PENDING
 *                                                                  \--something has ended it: delivered--> the worker
 *     READY, EXPIRED, REARMED --pin--> the same, and PINNED --the worker comes: no longer PINNED--> as above
 *                                                           \--unpin--> as before
 *
 * Threads: any; the function runs on the caller's stack without a lock.
 * Locks:   the shard's (rank NAMES) guards its pins; under it the poller's (rank POLLER).
 *
 * A pin does to the word what an expiry and a reset to the same deadline do.  So it adds no state: a cancel, a reset, an early
 * end and a shutdown meet a READY timer.  The thread that has pinned the timer owns its delivery.  When the function has
 * returned, it puts the timer back, or delivers it.  No callback begins before.  The timer keeps its deadline and its sequence,
 * so it keeps its place.
 *
 * A timer that was reset when it was READY counts as pending, but is on its way to a worker.  So its pin is a flag.  The worker
 * that meets the flag removes it, and with it gives up the delivery.
 *
 * Several threads may have one timer pinned.  The last one puts it back. */
#include <weir/clock.h>

#include "factory/timer/timer.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"

/* On the stack of the thread that has pinned the timer. */
struct pin {
        struct weir__timer *timer;
        struct pin *next;
};

static struct pin *pins[WEIR__NAMES_SHARDS]; /* guarded by the lock of the shard */

static struct pin **
pins_of(uint32_t hash)
{
        return &pins[hash >> (32 - WEIR__NAMES_SHARD_BITS)];
}

/* Under the shard's lock. */
static bool
is_pinned(const struct weir__timer *timer, const struct pin *pin)
{
        while (pin && pin->timer != timer)
                pin = pin->next;
        return pin;
}

/* Takes a PENDING timer out of the queue.  Under the shard's lock. */
static bool
take_out(struct weir__timer *timer)
{
        struct weir__poller *poller = weir__timer_poller(timer);
        const struct weir__ticker *ticker = weir__timer_ticker(timer);
        uint32_t word = WEIR__PENDING;

        weir__lock(&poller->lock);
        bool is_taken = !poller->deadlines.is_closing &&
                        weir__timer_swap(timer, &word, WEIR__READY | WEIR__EXPIRED | WEIR__REARMED);
        if (is_taken) {
                weir__timerq_remove(&poller->deadlines.queue, &timer->node);
                if (ticker)
                        timer->node.deadline = ticker->due; /* before it was rounded */
        }
        weir__unlock(&poller->lock);
        return is_taken;
}

/* Marks a timer that was reset when it was READY, and whose worker has not come yet.  Under the shard's lock. */
static bool
mark_pinned(struct weir__timer *timer)
{
        const uint32_t relevant = WEIR__STATE | WEIR__EXPIRED | WEIR__REARMED | WEIR__CANCELLED;
        uint32_t word = weir__timer_word(timer);

        while ((word & relevant) == (WEIR__READY | WEIR__EXPIRED | WEIR__REARMED))
                if (weir__timer_swap(timer, &word, word | WEIR__PINNED))
                        return true;
        return false;
}

/* Pins the oldest timer of the name that can be pinned.  Returns whether there was one. */
static bool
pin_oldest(const struct weir__name_key *key, struct pin *pin)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, key->hash);
        unsigned credit = WEIR__TIMERS_AT_ONCE;
        struct weir__names_walk walk;

        weir__names_walk_begin(shard, &walk, key, false);
        for (struct weir__name *name; !pin->timer && (name = weir__names_walk_at(&walk));) {
                struct weir__timer *timer = weir__timer_of_name(name);

                if (is_pinned(timer, *pins_of(key->hash)) || take_out(timer) || mark_pinned(timer)) {
                        *pin = (struct pin){.timer = timer, .next = *pins_of(key->hash)};
                        *pins_of(key->hash) = pin;
                }
                weir__names_walk_on(&walk);
                if (--credit > 0)
                        continue;
                weir__names_unlock(shard);
                credit = WEIR__TIMERS_AT_ONCE;
                weir__names_lock(&weir__timer_names, key->hash);
        }
        weir__names_walk_end(shard, &walk);
        weir__names_unlock(shard);
        return pin->timer;
}

/* Does what its worker would do, at once: so the next call finds the timer.  Returns whether the caller has to deliver the timer,
 * because it ends.  Under the shard's lock. */
static bool
let_go(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        while (word & WEIR__PINNED) /* it is still on its way to its worker */
                if (weir__timer_swap(timer, &word, word & ~(uint32_t)WEIR__PINNED))
                        return false;
        return word & WEIR__CANCELLED || !weir__timer_rearm(timer, word);
}

static void
unpin(uint32_t hash, const struct pin *pin)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, hash);
        struct pin **at = pins_of(hash);

        while (*at != pin)
                at = &(*at)->next;
        *at = pin->next;
        bool has_ended = !is_pinned(pin->timer, *pins_of(hash)) && let_go(pin->timer);
        weir__names_unlock(shard);
        if (has_ended)
                weir__deliver(weir__timer_poller(pin->timer), &pin->timer->task.work);
}

static int
call_with(const struct weir__name_key *key, weir_timer_with_fn *fn, void *argument)
{
        struct pin pin = {0};

        if (!pin_oldest(key, &pin))
                return 0;
        void *fiber = weir__user_hide_fiber();
        fn(pin.timer->task.context, argument);
        weir__user_show_fiber(fiber);
        if (!weir__phase_is_forked())
                unpin(key->hash, &pin);
        return 1;
}

/* Virtual time stands meanwhile, because the timer is in no queue.  The runtime does not end before the hold does. */
int
weir_timer_with(const char *name, weir_timer_with_fn *fn, void *argument)
{
        struct weir__name_key key;

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!fn)
                return weir__log_refusal("weir_timer_with: the function is NULL: expected the one to be called");
        if (!weir__phase_is_up() || weir__name_read(name, &key) || weir__runtime_enter())
                return 0;
        weir_clock_hold();
        int found = call_with(&key, fn, argument);
        weir_clock_release();
        weir__runtime_leave();
        return found;
}
