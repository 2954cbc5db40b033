/* factory/flow/go.h: the named queues of functions, for dumps. */
#ifndef WEIR_FACTORY_GO_H
#define WEIR_FACTORY_GO_H

#include <weir/timer.h>

#include "factory/names/names.h"
#include "kernel/executor/executor.h"

/* A named queue.  It has as many references as were made and not yet given up.  Threads that run functions write the first part,
 * threads that make them the second one, and the two share no cache line. */
struct weir__go_queue {
        struct weir__job_queue jobs; /* first; the executor's */
        _Atomic size_t given_up;
        _Atomic size_t made_at_least; /* what a thread that gave up a reference has last seen in `made` */

        char apart[64];
        _Atomic size_t made;    /* written under the lock of the shard */
        struct weir__name name; /* last */
};

/* The queue of that name, with a reference; it is made if there is none.  NULL when out of memory. */
struct weir__go_queue *weir__go_queue_get(const struct weir__name_key *key);
void weir__go_queue_unref(struct weir__go_queue *queue);

struct weir__go_queue_walk {
        unsigned shard;               /* 0 at first */
        struct weir__names_scan scan; /* of that shard */
        char name[WEIR_NAME_MAX]; /* of the queue that the walk is at, `size` bytes */
        size_t size;
        struct weir__executor_stats stats;
};

/* Goes on to the next queue.  Returns false when there is none.  Any thread, no lock held. */
bool weir__go_queue_walk_on(struct weir__go_queue_walk *walk);

#endif
