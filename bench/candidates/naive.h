/* bench/candidates/naive.h: a deadline queue that kernel/queue/timerq was measured against: one sorted list and a red-black tree,
 * as Sogou Workflow has it.
 *
 * A pure data structure, with the same promises as kernel/queue/timerq: exact order of (deadline, sequence), never early, at most
 * NAIVE_BATCH nodes a call. */
#ifndef WEIR_BENCH_CANDIDATES_NAIVE_H
#define WEIR_BENCH_CANDIDATES_NAIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/queue/rbtree.h"

#define NAIVE_BATCH 256

/* The same words are a link or a part of the tree by turns. */
struct __attribute__((__may_alias__)) naive_link {
        struct naive_link *previous, *next;
};

/* Embedded in what has a deadline; as large as timerq's. */
struct naive_node {
        int64_t deadline;
        uint64_t sequence : 63;
        uint64_t in_tree : 1;
        union {
                struct naive_link link;
                struct weir__rbtree_node tree;
        };
};

struct naive {
        struct weir__rbtree tree; /* what was not later than the last of the list when it came */
        struct naive_link list;   /* in order */
        uint64_t sequence;
};

void naive_init(struct naive *naive);
void naive_add(struct naive *naive, struct naive_node *node, int64_t deadline);
void naive_remove(struct naive *naive, struct naive_node *node);

/* Takes out at most NAIVE_BATCH nodes that are due, in order.  *more: others are left. */
unsigned naive_expire(struct naive *naive, int64_t now, struct naive_node *expired[], bool *more);

#endif
