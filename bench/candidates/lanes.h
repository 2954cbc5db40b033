/* bench/candidates/lanes.h: a deadline queue that kernel/queue/timerq was measured against: a FIFO lane for each duration in
 * use, the lanes in a red-black tree by their first deadline.
 *
 * A pure data structure, with the same promises as kernel/queue/timerq: exact order of (deadline, sequence), never early, at most
 * LANES_BATCH nodes a call.  It takes the duration as well as the deadline, for that is what names the lane. */
#ifndef WEIR_BENCH_CANDIDATES_LANES_H
#define WEIR_BENCH_CANDIDATES_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/queue/rbtree.h"

#define LANES_BATCH 256

struct lanes_lane;

/* Embedded in what has a deadline; as large as timerq's. */
struct lanes_node {
        int64_t deadline;
        uint64_t sequence;
        struct lanes_node *previous, *next;
        struct lanes_lane *lane; /* NULL: in no queue */
};

/* Of one duration.  Since time only goes on, its nodes stand in order. */
struct lanes_lane {
        struct weir__rbtree_node tree; /* ordered by the first node */
        struct lanes_node *first, *last;
        int64_t duration;
        struct lanes_lane *next; /* in its bucket, or among the spare ones */
};

struct lanes {
        struct weir__rbtree tree;
        struct lanes_lane **buckets; /* by duration; twice as many as soon as there are as many lanes */
        size_t mask, lane_count;
        struct lanes_lane *spare; /* empty ones, kept: malloc is not what is measured */
        uint64_t sequence;
};

/* Result: false when out of memory. */
bool lanes_init(struct lanes *lanes);

/* `now` must not be before that of the last call.  Result: false when out of memory for a lane. */
bool lanes_add(struct lanes *lanes, struct lanes_node *node, int64_t after, int64_t now);

void lanes_remove(struct lanes *lanes, struct lanes_node *node);

/* Takes out at most LANES_BATCH nodes that are due, in order.  *more: others are left. */
unsigned lanes_expire(struct lanes *lanes, int64_t now, struct lanes_node *expired[], bool *more);

#endif
