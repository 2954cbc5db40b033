/* factory/timer/timer_names.c: the map of timers by name: cancel, reset, extend, wait, count.
 *
 * Threads: any.
 * Locks:   the shard's (rank NAMES); for a reset then the pollers' of the timers found, one at a time (rank POLLER).  All are
 *          released after WEIR__TIMERS_AT_ONCE timers; then the cancelled ones are delivered, and pollers are woken. */
#include <errno.h>
#include <string.h>

#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"

void
weir__timers_lock_poller(struct weir__poller **locked, struct weir__poller *poller)
{
        if (*locked == poller)
                return;
        if (*locked)
                weir__unlock(&(*locked)->lock);
        if (poller)
                weir__lock(&poller->lock);
        *locked = poller;
}

/* -- cancel -- */

bool
weir__timers_cancel_one(struct weir__timers_cancel *cancel, struct weir__names_shard *shard, struct weir__name *name)
{
        if (!weir__timer_mark_cancelled(weir__timer_of_name(name), false, &cancel->taken))
                return false;
        weir__names_make_zombie(shard, name);
        cancel->credit--;
        cancel->count++;
        cancel->left--;
        return true;
}

/* From the oldest timer of a name on.  Timers whose callback runs stay, and cost no credit: there are at most as many of them as
 * workers.
 * Returns true if the credit was used up before the end. */
static bool
cancel_some(struct weir__timers_cancel *cancel, struct weir__names_shard *shard, struct weir__name *name)
{
        while (name && cancel->left > 0) {
                struct weir__name *newer = weir__name_alive(name->newer);

                if (cancel->credit == 0)
                        return true;
                weir__timers_cancel_one(cancel, shard, name);
                name = newer;
        }
        return false;
}

struct weir__names_shard *
weir__timers_cancel_lock(struct weir__timers_cancel *cancel, uint32_t hash)
{
        cancel->credit = WEIR__TIMERS_AT_ONCE;
        return weir__names_lock(&weir__timer_names, hash);
}

void
weir__timers_cancel_unlock(struct weir__timers_cancel *cancel, struct weir__names_shard *shard)
{
        weir__names_unlock(shard);
        weir__timer_deliver(&cancel->taken, WEIR__TIMERS_AT_ONCE - cancel->credit);
}

static size_t
cancel_named(const struct weir__name_key *key, size_t max)
{
        struct weir__timers_cancel cancel = {.left = max};

        for (bool more = max > 0, begun = false; more; begun = true) {
                struct weir__names_shard *shard = weir__timers_cancel_lock(&cancel, key->hash);
                struct weir__name *name = weir__names_find(shard, key);

                /* Callbacks of the cancelled timers may start timers of this name: a cancel must not chase those. */
                if (!begun && name && cancel.left > name->count)
                        cancel.left = name->count;
                more = cancel_some(&cancel, shard, name);
                weir__timers_cancel_unlock(&cancel, shard);
        }
        return cancel.count;
}

size_t
weir_timer_cancel(const char *name, size_t max)
{
        struct weir__name_key key;

        return weir__phase_is_forked() || weir__name_read(name, &key) ? 0 : cancel_named(&key, max);
}

/* -- waiting for callbacks -- */

/* Callbacks that have begun are waited for; those of cancelled timers also before that, if the timer was started. */
static bool
is_awaited(struct weir__name *name, bool is_zombie)
{
        uint32_t state = weir__timer_word(weir__timer_of_name(name)) & WEIR__STATE;

        return state == WEIR__RUNNING || (is_zombie && state == WEIR__READY);
}

/* Waits for the timers of the name that are zombies, or for those that are not. */
static void
wait_for_callbacks(struct weir__names_shard *shard, const struct weir__name_key *key, bool zombies)
{
        unsigned credit = WEIR__TIMERS_AT_ONCE;
        struct weir__names_walk walk;

        weir__names_walk_begin(shard, &walk, key, zombies);
        for (struct weir__name *name; (name = weir__names_walk_at(&walk));) {
                if (is_awaited(name, zombies))
                        weir__names_walk_wait(shard, &walk);
                else
                        weir__names_walk_on(&walk);
                if (--credit > 0)
                        continue;
                weir__names_unlock(shard);
                credit = WEIR__TIMERS_AT_ONCE;
                weir__names_lock(&weir__timer_names, key->hash);
        }
        weir__names_walk_end(shard, &walk);
}

int64_t
weir_timer_cancel_wait(const char *name, size_t max)
{
        struct weir__name_key key;
        int failed = weir__runtime_may_wait();

        if (failed || weir__name_read(name, &key))
                return failed;
        size_t count = cancel_named(&key, max);
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, key.hash);
        wait_for_callbacks(shard, &key, false);
        wait_for_callbacks(shard, &key, true); /* afterwards: tickers whose tick runs may become zombies meanwhile */
        weir__names_unlock(shard);
        return (int64_t)count;
}

/* -- reset -- */

struct reset {
        struct weir__timer_change change;
        size_t count;
        struct weir__poller *locked;
        uint64_t wake; /* a bit a poller */
};

_Static_assert(WEIR__POLLERS_MAX <= 64, "a bit for each poller");

static void
reset_one(struct reset *reset, struct weir__timer *timer)
{
        bool wake = false;

        weir__timers_lock_poller(&reset->locked, weir__timer_poller(timer));
        reset->count += weir__timer_change(timer, reset->locked, &reset->change, &wake);
        if (wake)
                reset->wake |= UINT64_C(1) << timer->task.poller;
}

static void
wake_pollers(struct reset *reset)
{
        for (; reset->wake; reset->wake &= reset->wake - 1)
                weir__poller_wake(weir__pollers.at[__builtin_ctzll(reset->wake)]);
}

/* Resets more timers than one hold of the lock allows. */
static void
reset_many(struct reset *reset, struct weir__names_shard *shard, const struct weir__name_key *key)
{
        unsigned credit = WEIR__TIMERS_AT_ONCE;
        struct weir__names_walk walk;

        weir__names_walk_begin(shard, &walk, key, false);
        for (struct weir__name *name; (name = weir__names_walk_at(&walk));) {
                reset_one(reset, weir__timer_of_name(name));
                weir__names_walk_on(&walk); /* before the pause, in which others may move the cursor */
                if (--credit > 0)
                        continue;
                weir__timers_lock_poller(&reset->locked, NULL);
                weir__names_unlock(shard);
                wake_pollers(reset);
                credit = WEIR__TIMERS_AT_ONCE;
                weir__names_lock(&weir__timer_names, key->hash);
        }
        weir__names_walk_end(shard, &walk);
}

size_t
weir__timers_change_named(const char *text, struct weir__timer_change *change)
{
        struct weir__name_key key;

        if (weir__phase_is_forked() || weir__name_read(text, &key))
                return 0;
        change->now = weir__clock_now();
        struct reset reset = {.change = *change};
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, key.hash);
        struct weir__name *name = weir__names_find(shard, &key);

        if (name && name->count > WEIR__TIMERS_AT_ONCE)
                reset_many(&reset, shard, &key);
        else
                for (; name; name = weir__name_alive(name->newer))
                        reset_one(&reset, weir__timer_of_name(name));
        weir__timers_lock_poller(&reset.locked, NULL);
        weir__names_unlock(shard);
        wake_pollers(&reset);
        return reset.count;
}

size_t
weir_timer_reset(const char *name, weir_nsec after)
{
        struct weir__timer_change change = {.by = after};

        return weir__timers_change_named(name, &change);
}

size_t
weir_timer_extend(const char *name, weir_nsec by)
{
        struct weir__timer_change change = {.by = by, .should_extend = true};

        return weir__timers_change_named(name, &change);
}

/* -- count -- */

size_t
weir_timer_count(const char *name)
{
        struct weir__name_key key;

        if (weir__phase_is_forked() || weir__name_read(name, &key))
                return 0;
        return weir__names_count(&weir__timer_names, &key);
}
