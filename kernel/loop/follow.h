/* kernel/loop/follow.h: deadlines that follow another clock than the one on which pollers sleep.
 *
 * The target of a follower is an instant on the wall clock, or on the clock that counts suspended time.  Its deadline in
 * the queue is computed from the present difference of the clocks.  After a clock change it gets another deadline. */
#ifndef WEIR_KERNEL_FOLLOW_H
#define WEIR_KERNEL_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <weir/time.h>

#include "kernel/base/list.h"
#include "kernel/queue/timerq.h"
#include "kernel/data/work.h"

#define WEIR__FOLLOW_AT_ONCE    WEIR__TIMERQ_BATCH /* followers that get new deadlines under one hold of the lock */
#define WEIR__SLOT_CLOCK_CHANGE (UINT64_MAX - 2) /* epoll data of the descriptor that tells of clock changes */

struct weir__poller;
struct weir__follower;

struct weir__follower_ops {
        /* What the clock shows has changed otherwise than by the passing of time: the target from now on.  Both are called under
         * the poller's lock, for many followers in a row.  NULL: it stays. */
        weir_nsec (*retarget)(struct weir__follower *follower, weir_nsec shown);

        /* The deadline that its owner makes of one that was computed.  NULL: that. */
        weir_nsec (*aim)(struct weir__follower *follower, weir_nsec deadline, weir_nsec now);
};

/* Embedded in what has such a deadline. */
struct weir__follower {
        /* Constant. */
        const struct weir__follower_ops *ops;
        struct weir__timerq_node *node;
        clockid_t clock; /* CLOCK_REALTIME or CLOCK_BOOTTIME */

        /* Guarded by the poller's lock. */
        struct weir__link link;
        weir_nsec target;   /* on its clock; WEIR_FOREVER: none */
        weir_nsec computed; /* when the deadline was, on the clock of the queue */
};

/* The followers of a poller.  Guarded by its lock. */
struct weir__followers {
        struct weir__list current;
        struct weir__list stale; /* these wait for new deadlines */
        bool is_updating;        /* the update is on its way, or its time limit is set */
        bool are_watched;        /* clock changes are noticed */
};

/* What that clock shows; the wall clock may be virtual, and on the virtual clock nothing is ever suspended. */
weir_nsec weir__follow_read(clockid_t clock);

/* How the work that gives new deadlines comes to its poller.  Set before the first poller is opened. */
typedef void weir__follow_deliver_fn(struct weir__poller *poller, struct weir__work *work);
void weir__follow_on_deliver(weir__follow_deliver_fn *fn);

/* Of a poller that is opened, and closed; owner only. */
void weir__follow_open(struct weir__poller *poller);
void weir__follow_close(struct weir__poller *poller);

/* The descriptor has something to say.  Owner only. */
void weir__follow_event(struct weir__poller *poller);

/* -- under the poller's lock -- */

/* From now on the follower gets a new deadline after each clock change while its node is in the queue.  It may be in the list
 * already. */
void weir__follow(struct weir__poller *poller, struct weir__follower *follower);
void weir__follow_end(struct weir__follower *follower);

/* The deadline to which its target comes by now: at most some microseconds too late, never too early unless a clock changes. */
weir_nsec weir__follow_deadline(struct weir__follower *follower);

/* Whether the target has come: a deadline may come earlier, if the clock was put back and nobody has said so yet. */
static inline bool weir__follow_has_come(const struct weir__follower *follower)
{
        return weir__follow_read(follower->clock) >= follower->target;
}

#endif
