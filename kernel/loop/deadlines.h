/* kernel/loop/deadlines.h: the deadlines of a poller, and how they become work. */
#ifndef WEIR_KERNEL_DEADLINES_H
#define WEIR_KERNEL_DEADLINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernel/queue/timerq.h"
#include "kernel/data/work.h"

struct weir__poller;

#define WEIR__DEADLINE_KINDS  2            /* weir__timerq_node.kind */
#define WEIR__DEADLINES_STALE WEIR_MSEC(1) /* the queue is told the time at least so often */

enum weir__deadline_kind {
        WEIR__DEADLINE_TASK = 0,  /* a task of the factory */
        WEIR__DEADLINE_ALARM = 1, /* struct weir__alarm */
};

/* An alarm: work that is delivered at a deadline, or at shutdown.  Connections, series and waiting threads have one for their
 * time limits.  The caller that sets an alarm owns it, until its work is on its way. */
struct weir__alarm {
        struct weir__timerq_node node;
        struct weir__work work;
};

struct weir__deadlines {
        /* When the owner next wants to expire deadlines.  Written under the poller's lock; the owner reads it without, relaxed: a
         * thread that lowers it wakes the owner. */
        _Atomic weir_nsec next;

        /* Guarded by the poller's lock. */
        bool is_closing; /* shutdown has drained the queue: nothing is added any more */
        size_t alarms; /* nodes in the queue that are alarms */
        struct weir__timerq queue;

        /* Owner only. */
        weir_nsec expired_at; /* when the queue was last told the time */
};

/* Empties it.  With no lock held. */
void weir__deadlines_open(struct weir__poller *poller);

/* How a node whose deadline came, or that shutdown drained, becomes work.  Called under the poller's lock; what it returns is
 * delivered exactly once, by the caller.  NULL: nothing is to be delivered, for another thread was faster, the node is in the
 * queue again, or the task has only noted its time limit. */
typedef struct weir__work *weir__deadline_fn(struct weir__timerq_node *node, int status);

/* Set once for each kind, before the first runtime starts. */
void weir__deadlines_on_due(enum weir__deadline_kind kind, weir__deadline_fn *fn);

/* -- under the poller's lock -- */

/* Adds a node, `now` being the time; the caller has seen that the poller is not closing.
 * Result:  whether the owner may be asleep for longer than that: call weir__poller_wake after unlocking. */
bool weir__deadlines_add(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now);

/* The same in two halves: the node gets its sequence, which breaks ties of equal deadlines, and is added with that later. */
void weir__deadlines_take_sequence(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec now);
bool weir__deadlines_add_in_sequence(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline);

/* The same for a node that is in the queue and gets another deadline. */
bool weir__deadlines_reset(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now);

/* The same, but the node keeps its sequence. */
bool weir__deadlines_move(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline);

/* -- with no lock held -- */

/* Whether the owner has to look at its queue: something is due, or the queue has not been told the time for
 * WEIR__DEADLINES_STALE.  It sorts a new deadline by its distance from the time that it knows. */
static inline bool weir__deadlines_are_due(const struct weir__deadlines *deadlines, weir_nsec now)
{
        return now >= atomic_load_explicit(&deadlines->next, memory_order_relaxed) ||
               now - deadlines->expired_at >= WEIR__DEADLINES_STALE;
}

/* Takes out at most `most` nodes that are due, and appends their work items to `list`.  Returns how many items.  Owner only. */
unsigned weir__deadlines_expire(struct weir__poller *poller, weir_nsec now, unsigned most, struct weir__work_list *list);

/* The same for a poller of another worker, unless its lock is taken.  Any thread. */
void weir__deadlines_try_expire(struct weir__poller *poller, weir_nsec now, struct weir__work_list *list);

/* Ends what is pending, at most one batch of nodes, and appends their work items to `list`.  Sets *items to the number of these,
 * and returns the number of nodes.  From the first call on the poller is closing.  Owner only. */
unsigned weir__deadlines_drain(struct weir__poller *poller, struct weir__work_list *list, unsigned *items);

/* Computes and publishes when the owner wants to expire deadlines next.  Owner only, after it has marked its inbox. */
weir_nsec weir__deadlines_publish_next(struct weir__poller *poller);

/* Sets an alarm whose work is not on its way; also one that is set already.  Returns false, and does nothing, on a closing
 * poller.  The owner of the poller calls this.  Another thread may, for an alarm of its own, and then wakes the poller. */
bool weir__alarm_set(struct weir__poller *poller, struct weir__alarm *alarm, weir_nsec deadline);

/* Clears an alarm.  Returns false when it was not set, or has come and its work is on its way.  By the owner of the alarm. */
bool weir__alarm_clear(struct weir__poller *poller, struct weir__alarm *alarm);

#endif
