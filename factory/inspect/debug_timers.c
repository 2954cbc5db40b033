/* factory/inspect/debug_timers.c: pending timers that are in no series.
 *
 * Threads: any.
 * Locks:   a poller's, for TIMERS_AT_ONCE timers at a time.
 *
 * All timers of a poller are noted first, and shown then.  So the walk through the queue does not wait for the reader of the
 * dump.  A timer that was met twice (kernel/queue/timerq.h) is shown once, in the order of the deadlines. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "factory/inspect/debug_walk.h"
#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "kernel/loop/pollers.h"

#define TIMERS_AT_ONCE 64

struct noted {
        weir_nsec deadline, since;
        uint64_t sequence;
        size_t name;        /* where in `names` */
        uint32_t name_size; /* 0: none */
        bool was_cut;
        const struct weir__timer_ops *ops;
};

struct notes {
        struct noted *timers;
        size_t count, room;
        char *names;
        size_t names_used, names_room;
};

/* Makes room for the timers of one hold of the lock. */
static bool
have_room(struct notes *notes)
{
        if (notes->room - notes->count < TIMERS_AT_ONCE) {
                size_t room = 2 * notes->room + TIMERS_AT_ONCE;
                struct noted *timers = realloc(notes->timers, room * sizeof *timers);

                if (!timers)
                        return false;
                notes->timers = timers;
                notes->room = room;
        }
        if (notes->names_room - notes->names_used < TIMERS_AT_ONCE * WEIR__DEBUG_NAME) {
                size_t room = 2 * notes->names_room + TIMERS_AT_ONCE * WEIR__DEBUG_NAME;
                char *names = realloc(notes->names, room);

                if (!names)
                        return false;
                notes->names = names;
                notes->names_room = room;
        }
        return true;
}

/* Functions with a limit, and the deadlines of series, are shown elsewhere. */
static bool
is_wanted(const struct weir__timerq_node *node, const struct weir__timer *timer)
{
        return node->kind == WEIR__DEADLINE_TASK && !weir__task_ops(&timer->task)->due && !timer->task.series;
}

static void
note(struct notes *notes, struct weir__timerq_node *node)
{
        struct weir__timer *timer = weir__container_of(node, struct weir__timer, node);

        if (!is_wanted(node, timer))
                return;
        const struct weir__name *name = weir__timer_name(timer);
        uint32_t size = !name ? 0 : name->size < WEIR__DEBUG_NAME ? name->size : WEIR__DEBUG_NAME;
        notes->timers[notes->count++] = (struct noted){
                .deadline = node->deadline,
                .since = weir__timerq_since(node),
                .sequence = node->sequence,
                .name = notes->names_used,
                .name_size = size,
                .was_cut = name && size < name->size,
                .ops = weir__timer_ops(timer),
        };
        if (size)
                memcpy(&notes->names[notes->names_used], name->text, size);
        notes->names_used += size;
}

/* Returns false when out of memory. */
static bool
note_all(struct notes *notes, struct weir__poller *poller)
{
        struct weir__timerq_node *nodes[TIMERS_AT_ONCE];
        struct weir__timerq_walk walk;
        bool more = true;

        weir__lock(&poller->lock);
        weir__timerq_walk_begin(&poller->deadlines.queue, &walk);
        weir__unlock(&poller->lock);
        while (more) {
                if (!have_room(notes))
                        return false;
                weir__lock(&poller->lock);
                unsigned count = weir__timerq_walk_on(&poller->deadlines.queue, &walk, nodes, TIMERS_AT_ONCE, &more);
                for (unsigned i = 0; i < count; i++)
                        note(notes, nodes[i]);
                weir__unlock(&poller->lock);
        }
        return true;
}

static int
compare(const void *one, const void *other)
{
        const struct noted *a = one, *b = other;

        if (a->deadline != b->deadline)
                return a->deadline < b->deadline ? -1 : 1;
        return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static void
show(struct weir__debug_walk *walk, const struct notes *notes, const struct noted *timer, weir_nsec now)
{
        struct weir__debug_line line;

        weir__debug_line_begin(&line, WEIR__DEBUG_TIMERS, 0, timer->ops->ticks ? "ticker" : "timer");
        if (timer->name_size)
                weir__debug_line_name(&line, &notes->names[timer->name], timer->name_size + timer->was_cut);
        line.record.state = "pending";
        line.record.age = timer->since < now ? now - timer->since : 0;
        if (timer->deadline != WEIR_FOREVER)
                line.record.deadline = timer->deadline - now;
        if (timer->ops->is_clock_timer)
                weir__debug_line_add(&line, "by another clock");
        weir__debug_show(walk, &line);
}

static void
walk_poller(struct weir__debug_walk *walk, struct weir__poller *poller)
{
        struct notes notes = {0};
        weir_nsec now = weir__clock_now();

        if (!note_all(&notes, poller))
                walk->failed = -ENOMEM; /* those that were noted are shown */
        if (notes.count > 0)
                qsort(notes.timers, notes.count, sizeof *notes.timers, compare);
        for (size_t i = 0; i < notes.count && !walk->is_stopped; i++)
                if (i == 0 || compare(&notes.timers[i - 1], &notes.timers[i]))
                        show(walk, &notes, &notes.timers[i], now);
        free(notes.timers);
        free(notes.names);
}

void
weir__debug_walk_timers(struct weir__debug_walk *walk)
{
        for (unsigned i = 0; i < weir__pollers_count() && !walk->is_stopped; i++)
                walk_poller(walk, weir__pollers.at[i]);
}
