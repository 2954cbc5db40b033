/* kernel/loop/deadlines.c: the deadlines of a poller, and how they become work.
 *
 * Threads: any thread adds and resets; the owner expires and drains.
 * Locks:   the poller's guards the queue. */
#include "kernel/loop/deadlines.h"

#include <errno.h>

#include "kernel/base/clock.h"
#include "kernel/base/list.h"
#include "kernel/loop/poller.h"

static weir__deadline_fn *deadline_fns[WEIR__DEADLINE_KINDS];

static struct weir__work *
alarm_due(struct weir__timerq_node *node, int status)
{
        (void)status; /* the work looks at the clock, so it need not know whether the alarm is due or was drained */
        return &weir__container_of(node, struct weir__alarm, node)->work;
}

void
weir__deadlines_on_due(enum weir__deadline_kind kind, weir__deadline_fn *fn)
{
        deadline_fns[kind] = fn;
}

void
weir__deadlines_open(struct weir__poller *poller)
{
        struct weir__deadlines *deadlines = &poller->deadlines;

        deadline_fns[WEIR__DEADLINE_ALARM] = alarm_due;
        deadlines->expired_at = 0;
        weir__lock(&poller->lock);
        deadlines->is_closing = false;
        deadlines->alarms = 0;
        atomic_store(&deadlines->next, WEIR_FOREVER);
        weir__timerq_init(&deadlines->queue, weir__clock_now());
        weir__unlock(&poller->lock);
}

/* Returns whether that is earlier than the owner knows of. */
static bool
lower_next(struct weir__deadlines *deadlines, weir_nsec wanted)
{
        if (wanted >= atomic_load_explicit(&deadlines->next, memory_order_relaxed))
                return false;
        atomic_store_explicit(&deadlines->next, wanted, memory_order_relaxed);
        return true;
}

bool
weir__deadlines_add(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now)
{
        struct weir__deadlines *deadlines = &poller->deadlines;

        weir__timerq_stamp(&deadlines->queue, now);
        return lower_next(deadlines, weir__timerq_add(&deadlines->queue, node, deadline));
}

void
weir__deadlines_take_sequence(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec now)
{
        weir__timerq_stamp(&poller->deadlines.queue, now);
        weir__timerq_take_sequence(&poller->deadlines.queue, node);
}

bool
weir__deadlines_add_in_sequence(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline)
{
        return lower_next(&poller->deadlines, weir__timerq_add_in_sequence(&poller->deadlines.queue, node, deadline));
}

bool
weir__deadlines_reset(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now)
{
        struct weir__deadlines *deadlines = &poller->deadlines;

        weir__timerq_stamp(&deadlines->queue, now);
        return lower_next(deadlines, weir__timerq_reset(&deadlines->queue, node, deadline));
}

bool
weir__deadlines_move(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline)
{
        return lower_next(&poller->deadlines, weir__timerq_move(&poller->deadlines.queue, node, deadline));
}

/* Turns nodes that were taken out into work; the lock is held.  Returns how many work items that were. */
static unsigned
make_work(struct weir__deadlines *deadlines, struct weir__timerq_node *nodes[], unsigned count, int status,
          struct weir__work_list *list)
{
        unsigned found = 0;

        for (unsigned i = 0; i < count; i++) {
                deadlines->alarms -= nodes[i]->kind == WEIR__DEADLINE_ALARM;
                struct weir__work *work = deadline_fns[nodes[i]->kind](nodes[i], status);

                if (work)
                        weir__work_append(list, work);
                found += work != NULL;
        }
        return found;
}

/* With the lock held, which this lets go.  Returns how many work items were found. */
static unsigned
expire_and_unlock(struct weir__poller *poller, weir_nsec now, unsigned most, struct weir__work_list *list)
{
        struct weir__deadlines *deadlines = &poller->deadlines;
        struct weir__timerq_node *expired[WEIR__TIMERQ_BATCH];
        bool more;

        unsigned count = weir__timerq_expire(&deadlines->queue, now, expired, most, &more);
        unsigned found = make_work(deadlines, expired, count, 0, list);
        atomic_store_explicit(&deadlines->next, more ? now : weir__timerq_next(&deadlines->queue), memory_order_relaxed);
        weir__unlock(&poller->lock);
        return found;
}

unsigned
weir__deadlines_expire(struct weir__poller *poller, weir_nsec now, unsigned most, struct weir__work_list *list)
{
        struct weir__deadlines *deadlines = &poller->deadlines;

        deadlines->expired_at = now;
        weir__lock(&poller->lock);
        return expire_and_unlock(poller, now, most, list);
}

void
weir__deadlines_try_expire(struct weir__poller *poller, weir_nsec now, struct weir__work_list *list)
{
        if (weir__trylock(&poller->lock))
                expire_and_unlock(poller, now, WEIR__TIMERQ_BATCH, list);
}

unsigned
weir__deadlines_drain(struct weir__poller *poller, struct weir__work_list *list, unsigned *items)
{
        struct weir__deadlines *deadlines = &poller->deadlines;
        struct weir__timerq_node *taken[WEIR__TIMERQ_BATCH];

        weir__lock(&poller->lock);
        deadlines->is_closing = true;
        unsigned count = weir__timerq_drain(&deadlines->queue, taken, WEIR__TIMERQ_BATCH);
        *items = make_work(deadlines, taken, count, -ESHUTDOWN, list);
        weir__unlock(&poller->lock);
        return count;
}

weir_nsec
weir__deadlines_publish_next(struct weir__poller *poller)
{
        struct weir__deadlines *deadlines = &poller->deadlines;

        weir__lock(&poller->lock);
        weir_nsec next = weir__timerq_next(&deadlines->queue);
        atomic_store_explicit(&deadlines->next, next, memory_order_relaxed);
        weir__unlock(&poller->lock);
        return next;
}

/* -- alarms -- */

bool
weir__alarm_set(struct weir__poller *poller, struct weir__alarm *alarm, weir_nsec deadline)
{
        struct weir__deadlines *deadlines = &poller->deadlines;

        weir__lock(&poller->lock);
        bool is_set = !deadlines->is_closing; /* else an alarm that is set stays: its work is about to come */
        if (is_set && weir__timerq_contains(&alarm->node))
                weir__timerq_remove(&deadlines->queue, &alarm->node);
        else
                deadlines->alarms += is_set;
        alarm->node.kind = WEIR__DEADLINE_ALARM;
        if (is_set)
                weir__deadlines_add(poller, &alarm->node, deadline, 0); /* nobody asks when an alarm was set */
        weir__unlock(&poller->lock);
        return is_set;
}

bool
weir__alarm_clear(struct weir__poller *poller, struct weir__alarm *alarm)
{
        struct weir__deadlines *deadlines = &poller->deadlines;

        weir__lock(&poller->lock);
        bool was_set = weir__timerq_contains(&alarm->node);
        if (was_set)
                weir__timerq_remove(&deadlines->queue, &alarm->node);
        deadlines->alarms -= was_set;
        weir__unlock(&poller->lock);
        return was_set;
}
