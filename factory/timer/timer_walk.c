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
#include "kernel/observe/log.h"
#include "kernel/worker/user.h"

/* -- the names with a prefix -- */

struct prefix_walk {
        const char *prefix;
        size_t size; /* of the prefix */

        struct weir__names_scan scan; /* outside the lock the text of its key is `name` */
        struct weir__names_walk walk;
        bool is_in_name; /* `walk` is under way, over the timers of the name that the scan has reached */
        char name[WEIR_NAME_MAX + 1];
};

static void
prefix_walk_init(struct prefix_walk *walk, const char *prefix)
{
        walk->prefix = prefix;
        walk->size = strlen(prefix);
        walk->is_in_name = false;
}

/* Goes to the next name with the prefix, if the walk is in none.  Looks at no more than *budget lines or names.  Returns whether
 * there may be more in the shard. */
static bool
find_name(struct prefix_walk *walk, struct weir__names_shard *shard, unsigned *budget)
{
        const struct weir__name_key *key = &walk->scan.key;
        bool done = false;

        for (; !walk->is_in_name && *budget > 0; --*budget) {
                if (!weir__names_scan(shard, &walk->scan, budget, &done))
                        return !done;
                if (key->size < walk->size || memcmp(key->text, walk->prefix, walk->size) != 0)
                        continue;
                weir__names_walk_begin(shard, &walk->walk, key, false);
                walk->is_in_name = true;
        }
        return true;
}

static void
leave_name(struct prefix_walk *walk, struct weir__names_shard *shard)
{
        weir__names_walk_end(shard, &walk->walk);
        walk->is_in_name = false;
}

/* Before the lock is let go: the object that has the name may be freed then. */
static void
keep_text(struct prefix_walk *walk)
{
        struct weir__name_key *key = &walk->scan.key;

        if (!key->text || key->text == walk->name)
                return;
        memcpy(walk->name, key->text, key->size);
        walk->name[key->size] = '\0';
        key->text = walk->name;
}

/* -- cancel -- */

/* Cancels timers of the name that the walk is in. */
static void
cancel_some(struct prefix_walk *walk, struct weir__names_shard *shard, struct weir__timers_cancel *cancel)
{
        while (walk->is_in_name && cancel->credit > 0) {
                struct weir__name *name = cancel->left > 0 ? weir__names_walk_at(&walk->walk) : NULL;

                if (!name)
                        leave_name(walk, shard);
                else if (!weir__timers_cancel_one(cancel, shard, name)) /* else the walk goes on, as the timer is a zombie */
                        weir__names_walk_on(&walk->walk);
        }
}

/* One hold of the lock.  Returns whether there may be more in the shard. */
static bool
cancel_slice(struct prefix_walk *walk, struct weir__timers_cancel *cancel)
{
        struct weir__names_shard *shard = weir__timers_cancel_lock(cancel, walk->scan.key.hash);
        unsigned budget = WEIR__TIMERS_AT_ONCE;
        bool more = true;

        while (more && budget > 0 && cancel->credit > 0 && cancel->left > 0) {
                more = find_name(walk, shard, &budget);
                cancel_some(walk, shard, cancel);
        }
        keep_text(walk);
        weir__timers_cancel_unlock(cancel, shard);
        return more && cancel->left > 0;
}

size_t
weir_timer_cancel_prefix(const char *prefix, size_t max)
{
        struct weir__timers_cancel cancel = {.left = max};
        struct prefix_walk walk;

        if (!prefix || weir__phase_is_forked())
                return 0;
        prefix_walk_init(&walk, prefix);
        for (unsigned shard = 0; shard < WEIR__NAMES_SHARDS && cancel.left > 0; shard++) {
                walk.scan = weir__names_scan_begin(shard);
                while (cancel_slice(&walk, &cancel))
                        continue;
        }
        return cancel.count;
}

/* -- list -- */

struct list {
        struct prefix_walk names;
        weir_timer_visit_fn *visit;
        void *context;
        int64_t shown;
        bool is_stopped;

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
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);
        struct weir_timer_info info = {.name = name, .due_in = timer->node.deadline, .state = state_of(weir__timer_word(timer))};

        if (info.state == WEIR_TIMER_NEW && weir__timer_ops(timer)->is_until)
                info.due_in = weir__timer_put_off(info.due_in, -now);
        if (info.state == WEIR_TIMER_NEW && !weir__timer_has_instant(clock_timer))
                return info;
        if (info.state == WEIR_TIMER_NEW) {
                info.due_in = weir__timer_put_off(clock_timer->target, -weir__clock_timer_read(clock_timer->clock));
                return info;
        }
        weir_nsec since = weir__timerq_since(&timer->node);
        info.since = since < now ? since : now;
        if (info.due_in != WEIR_FOREVER && __builtin_sub_overflow(info.due_in, now, &info.due_in))
                info.due_in = INT64_MIN;
        return info;
}

/* Sees timers of the name, as many as there is room for. */
static void
see_timers(struct list *list, struct weir__names_shard *shard)
{
        struct weir__poller *locked = NULL;
        weir_nsec now = weir__clock_now();
        struct weir__name *name;

        while ((name = weir__names_walk_at(&list->names.walk)) && list->count < WEIR__TIMERS_AT_ONCE) {
                struct weir__timer *timer = weir__timer_of_name(name);

                weir__timers_lock_poller(&locked, weir__timer_poller(timer));
                list->timers[list->count++] = info_of(timer, list->names.name, now);
                weir__names_walk_on(&list->names.walk);
        }
        weir__timers_lock_poller(&locked, NULL);
        if (!name)
                leave_name(&list->names, shard);
}

/* One hold of the lock.  Returns whether there may be more in the shard. */
static bool
see_some(struct list *list)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, list->names.scan.key.hash);
        unsigned budget = WEIR__TIMERS_AT_ONCE;
        bool more = find_name(&list->names, shard, &budget);

        list->count = 0;
        if (list->names.is_in_name)
                see_timers(list, shard);
        keep_text(&list->names);
        weir__names_unlock(shard);
        return more;
}

static void
show(struct list *list)
{
        void *fiber = weir__user_hide_fiber();

        for (size_t i = 0; i < list->count && !list->is_stopped; i++) {
                list->shown++;
                list->is_stopped = list->visit(&list->timers[i], list->context);
        }
        weir__user_show_fiber(fiber);
}

static void
list_shard(struct list *list, unsigned number)
{
        list->names.scan = weir__names_scan_begin(number);
        for (bool more = true; more && !list->is_stopped;) {
                more = see_some(list);
                show(list);
        }
        if (!list->names.is_in_name)
                return;
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, list->names.scan.key.hash);
        leave_name(&list->names, shard);
        weir__names_unlock(shard);
}

int64_t
weir_timer_list(const char *prefix, weir_timer_visit_fn *visit, void *context)
{
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!prefix || !visit)
                return weir__log_refusal("weir_timer_list: expected a prefix, which may be \"\", and a visitor");
        struct list *list = malloc(sizeof *list);
        if (!list)
                return -ENOMEM;
        prefix_walk_init(&list->names, prefix);
        list->visit = visit;
        list->context = context;
        list->shown = 0;
        list->is_stopped = false;
        for (unsigned shard = 0; shard < WEIR__NAMES_SHARDS && !list->is_stopped; shard++)
                list_shard(list, shard);
        int64_t shown = list->shown;
        free(list);
        return shown;
}
