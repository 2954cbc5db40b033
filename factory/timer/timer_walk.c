/* factory/timer/timer_walk.c: timers by the beginning of their name: cancel and list.
 *
 * Threads: any; a visitor runs on the caller's stack without a lock.
 * Locks:   the shards', one after the other (rank NAMES), and under one the pollers' of the timers found (rank POLLER).  All are
 *          released after about WEIR__TIMERS_AT_ONCE timers or lines of a table.
 *
 * Both scan the names of a shard in an order of their hashes (factory/names/names_scan.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"

static bool
begins_with(const struct weir__name_key *key, const char *prefix, size_t size)
{
        return key->size >= size && memcmp(key->text, prefix, size) == 0;
}

/* -- cancel -- */

struct prefix_cancel {
        struct weir__timers_cancel cancel;
        const char *prefix;
        size_t size; /* of the prefix */
        size_t max;  /* timers */
        struct weir__names_scan scan;
        bool is_in_hash; /* it cancels the names of the hash that the scan has reached, `left` timers at most */
};

/* Goes to the next hash, and counts its timers with the prefix.  Returns whether there may be more in the shard. */
static bool
find_hash(struct prefix_cancel *walk, struct weir__names_shard *shard, unsigned *budget)
{
        bool done;
        struct weir__name *name = weir__names_scan(shard, &walk->scan, budget, &done);
        size_t left = walk->max - walk->cancel.count, wanted = 0;

        if (!name)
                return !done;
        for (struct weir__names_scan scan = walk->scan; name; name = weir__names_scan_hash(shard, &scan))
                if (begins_with(&scan.key, walk->prefix, walk->size))
                        wanted += name->count;
        walk->scan.key = (struct weir__name_key){.hash = walk->scan.key.hash};
        walk->cancel.left = wanted < left ? wanted : left;
        walk->is_in_hash = true;
        return true;
}

/* Cancels timers of all names with the hash that the scan has reached.  Leaves that hash when it has tried all.  The text of a
 * name stays readable, because nothing is freed without the lock. */
static void
cancel_hash(struct prefix_cancel *walk, struct weir__names_shard *shard)
{
        struct weir__names_scan scan = walk->scan;
        struct weir__name *name;
        bool more = false;

        while (walk->cancel.left > 0 && !more && (name = weir__names_scan_hash(shard, &scan)))
                if (begins_with(&scan.key, walk->prefix, walk->size))
                        more = weir__timers_cancel_some(&walk->cancel, shard, name);
        if (more)
                return;
        walk->scan.key.size = SIZE_MAX;
        walk->is_in_hash = false;
}

/* One hold of the lock.  Returns whether there may be more in the shard. */
static bool
cancel_slice(struct prefix_cancel *walk)
{
        struct weir__names_shard *shard = weir__timers_cancel_begin(&walk->cancel, walk->scan.key.hash);
        unsigned budget = WEIR__TIMERS_AT_ONCE;
        bool more = true;

        while (more && budget > 0 && walk->cancel.credit > 0 && walk->cancel.count < walk->max) {
                budget--;
                if (!walk->is_in_hash)
                        more = find_hash(walk, shard, &budget);
                if (walk->is_in_hash)
                        cancel_hash(walk, shard);
        }
        weir__timers_cancel_end(&walk->cancel, shard);
        return more && walk->cancel.count < walk->max;
}

size_t
weir_timer_cancel_prefix(const char *prefix, size_t max)
{
        struct prefix_cancel walk = {.prefix = prefix, .max = max};

        if (!prefix || weir__phase_is_forked())
                return 0;
        walk.size = strlen(prefix);
        for (unsigned shard = 0; shard < WEIR__NAMES_SHARDS && walk.cancel.count < max; shard++) {
                walk.scan = weir__names_scan_begin(shard);
                walk.is_in_hash = false;
                while (cancel_slice(&walk))
                        continue;
        }
        return walk.cancel.count;
}

/* -- list -- */

struct list {
        weir_timer_visit_fn *visit;
        void *context;
        const char *prefix;
        size_t size;
        int64_t shown;
        bool stopped;

        struct weir__names_scan scan; /* outside the lock the text of its key is `name` */
        struct weir__names_walk walk;
        bool is_in_name; /* `walk` is under way, over the timers of `name` */
        char name[WEIR_NAME_MAX + 1];

        /* Seen under one hold of the lock, and shown after it. */
        struct weir_timer_info timers[WEIR__TIMERS_AT_ONCE];
        size_t count;
};

static enum weir_timer_state
state_of(uint32_t word)
{
        switch (word & WEIR__STATE) {
        case WEIR__NEW: return WEIR_TIMER_NEW;
        case WEIR__PENDING: return WEIR_TIMER_PENDING;
        case WEIR__READY: return word & WEIR__REARMED ? WEIR_TIMER_PENDING : WEIR_TIMER_READY;
        default: return WEIR_TIMER_RUNNING;
        }
}

/* Under the lock of its poller. */
static struct weir_timer_info
info_of(struct weir__timer *timer, const char *name, weir_nsec now)
{
        struct weir__follower *follower = weir__timer_follower(timer);
        struct weir_timer_info info = {.name = name, .due_in = timer->node.deadline, .state = state_of(weir__timer_word(timer))};

        if (info.state == WEIR_TIMER_NEW && !weir__timer_has_instant(follower))
                return info;
        if (info.state == WEIR_TIMER_NEW) {
                info.due_in = weir__timer_put_off(follower->target, -weir__follow_read(follower->clock));
                return info;
        }
        weir_nsec since = weir__timerq_since(&timer->node);
        info.since = since < now ? since : now;
        if (info.due_in != WEIR_FOREVER && __builtin_sub_overflow(info.due_in, now, &info.due_in))
                info.due_in = INT64_MIN;
        return info;
}

/* Goes to the next name with the prefix.  Returns whether there may be one still. */
static bool
find_name(struct list *list, struct weir__names_shard *shard)
{
        struct weir__name_key *key = &list->scan.key;
        bool done = false;

        for (unsigned budget = WEIR__TIMERS_AT_ONCE; !list->is_in_name && budget > 0; budget--) {
                if (!weir__names_scan(shard, &list->scan, &budget, &done))
                        break;
                list->is_in_name = begins_with(key, list->prefix, list->size);
        }
        if (key->text && key->text != list->name) {
                memcpy(list->name, key->text, key->size);
                list->name[key->size] = '\0';
                key->text = list->name;
        }
        if (list->is_in_name)
                weir__names_walk_begin(shard, &list->walk, key, false);
        return !done;
}

/* Sees timers of the name, as many as there is room for. */
static void
see_timers(struct list *list, struct weir__names_shard *shard)
{
        struct weir__poller *locked = NULL;
        weir_nsec now = weir__clock_now();
        struct weir__name *name;

        while ((name = weir__names_walk_at(&list->walk)) && list->count < WEIR__TIMERS_AT_ONCE) {
                struct weir__timer *timer = weir__timer_of_name(name);

                weir__timers_lock_poller(&locked, weir__timer_poller(timer));
                list->timers[list->count++] = info_of(timer, list->name, now);
                weir__names_walk_on(&list->walk);
        }
        weir__timers_lock_poller(&locked, NULL);
        if (!name)
                weir__names_walk_end(shard, &list->walk);
        list->is_in_name = name;
}

/* One hold of the lock.  Returns whether there may be more in the shard. */
static bool
see_some(struct list *list)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, list->scan.key.hash);
        bool more = list->is_in_name || find_name(list, shard);

        list->count = 0;
        if (list->is_in_name)
                see_timers(list, shard);
        weir__names_unlock(shard);
        return more;
}

static void
show(struct list *list)
{
        for (size_t i = 0; i < list->count && !list->stopped; i++) {
                list->shown++;
                list->stopped = list->visit(&list->timers[i], list->context);
        }
}

static void
list_shard(struct list *list, unsigned number)
{
        list->scan = weir__names_scan_begin(number);
        for (bool more = true; more && !list->stopped;) {
                more = see_some(list);
                show(list);
        }
        if (!list->is_in_name)
                return;
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, list->scan.key.hash);
        weir__names_walk_end(shard, &list->walk);
        weir__names_unlock(shard);
        list->is_in_name = false;
}

int64_t
weir_timer_list(const char *prefix, weir_timer_visit_fn *visit, void *context)
{
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!prefix || !visit)
                return -EINVAL;
        struct list *list = malloc(sizeof *list);
        if (!list)
                return -ENOMEM;
        list->visit = visit;
        list->context = context;
        list->prefix = prefix;
        list->size = strlen(prefix);
        list->shown = 0;
        list->stopped = list->is_in_name = false;
        for (unsigned shard = 0; shard < WEIR__NAMES_SHARDS && !list->stopped; shard++)
                list_shard(list, shard);
        int64_t shown = list->shown;
        free(list);
        return shown;
}
