/* kernel/queue/timerq.h: the deadlines of one poller, in exact order.
 *
 * A pure data structure: no lock, no clock, no descriptor; it takes `now`.  docs/design.md ("Deadlines") says why it is made of
 * lists and a red-black tree.  All calls on one queue are made under its owner's lock. */
#ifndef WEIR_KERNEL_TIMERQ_H
#define WEIR_KERNEL_TIMERQ_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/queue/rbtree.h"

#define WEIR__TIMERQ_LEVELS 7   /* a slot is 2^20 ns << 6 * level; two parents of the seventh level reach beyond INT64_MAX */
#define WEIR__TIMERQ_SLOTS  128 /* of a level: the current parent slot and the next one, 64 each */
#define WEIR__TIMERQ_NEVER  (WEIR__TIMERQ_LEVELS * WEIR__TIMERQ_SLOTS) /* the slot behind all levels, for WEIR_FOREVER */
#define WEIR__TIMERQ_BATCH  256 /* the most nodes that one call touches */
#define WEIR__TIMERQ_MOVING 8   /* nodes on their way to another list at any time */

/* The same words of a node are a link at one time and a part of the tree at another. */
struct __attribute__((__may_alias__)) weir__timerq_link {
        struct weir__timerq_link *previous, *next;
};

/* Embedded in what has a deadline.  All zero is in no queue; `deadline` may be used freely then. */
struct weir__timerq_node {
        weir_nsec deadline;
        union {
                struct {
                        uint64_t sequence : 52; /* breaks ties: first in, first out; shows when it came as well (_stamp) */
                        uint64_t location : 11; /* 0: in no queue; 1: in the tree; else 2 + its slot's index; + 1024: moving */
                        uint64_t kind : 1;      /* the owner's, untouched here */
                };
                uint64_t word; /* all three, to be written at once */
        };
        union {
                struct weir__timerq_link link;
                struct weir__rbtree_node tree;
                weir_nsec note; /* its owner's, while it is in no queue */
        };
};

struct weir__timerq_slot {
        struct weir__timerq_link list;
        weir_nsec earliest; /* no node in the list is earlier; exact until one is removed; WEIR_FOREVER when empty */
        uint32_t count;
};

struct weir__timerq {
        struct weir__rbtree tree; /* all nodes whose tick is below `tick`, and those of `tick` itself that were moved there */
        int64_t tick;             /* the cursor: all nodes before it are in the tree, and expire from there */
        uint64_t sequence;        /* of the next node */
        size_t count;             /* nodes in the queue */
        bool is_next_known;       /* nothing has changed since `next` was computed */
        weir_nsec next;           /* when expire must be called */
        unsigned moving_count;
        struct weir__timerq_node *moving[WEIR__TIMERQ_MOVING]; /* nodes in a list where they may not stay */
        uint32_t portions[WEIR__TIMERQ_LEVELS]; /* of the next slot of each level: to be moved down before the cursor goes on */
        uint64_t occupied[WEIR__TIMERQ_NEVER / 64 + 1]; /* a bit a slot: its list is not empty */
        struct weir__timerq_slot slots[WEIR__TIMERQ_NEVER + 1];
};

/* Makes an empty queue whose time begins at `now`. */
void weir__timerq_init(struct weir__timerq *queue, weir_nsec now);

#define WEIR__TIMERQ_STAMP_SHIFT 5 /* nanoseconds to sequence numbers */

/* The sequence of a node also shows when it came.  This sets the next sequence to the time, in units of 32 ns, unless nodes came
 * faster than that.  (After two years of the clock the sequence stays behind.) */
static inline void weir__timerq_stamp(struct weir__timerq *queue, weir_nsec now)
{
        uint64_t stamp = (uint64_t)now >> WEIR__TIMERQ_STAMP_SHIFT;

        if (stamp > queue->sequence && stamp < UINT64_C(1) << 51)
                queue->sequence = stamp;
}

/* When a node came; also after it was taken out, until it is added again. */
static inline weir_nsec weir__timerq_since(const struct weir__timerq_node *node)
{
        return (weir_nsec)((uint64_t)node->sequence << WEIR__TIMERQ_STAMP_SHIFT);
}

/* Gives a node that is in no queue its sequence, as if it came now.  weir__timerq_add_in_sequence keeps it. */
static inline void weir__timerq_take_sequence(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        node->sequence = queue->sequence++;
}

/* Adds a node that is in no queue.  O(1), except O(log n) among the nodes of the current millisecond.
 *
 * Result: when weir__timerq_expire must be called because of this node.  It is the deadline, or earlier when the slot of the node
 *         is so full that its cascade must begin before.  Compare it with the instant for which the poller sleeps. */
weir_nsec weir__timerq_add(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline);
weir_nsec weir__timerq_add_in_sequence(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline);

/* Gives a node of this queue another deadline, with a new sequence, as if it came anew.  O(1), as add.  If the time of its list
 * comes before the deadline, the node stays there until then, and no other node is touched.  Otherwise its neighbours are
 * prefetched, and the node is moved a little later.
 *
 * Result: as of add, also because of nodes that were noted before and are moved now.  WEIR_FOREVER: nothing is earlier than it
 *         was. */
weir_nsec weir__timerq_reset(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline);

/* The same, but the node keeps its sequence, and so its place among equal deadlines. */
weir_nsec weir__timerq_move(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline);

/* Takes a node out.  The caller knows that it is in this queue (weir__timerq_contains). */
void weir__timerq_remove(struct weir__timerq *queue, struct weir__timerq_node *node);

/* Prefetches the memory that the removal of the node touches. */
static inline void weir__timerq_prefetch(const struct weir__timerq_node *node)
{
        __builtin_prefetch(node->link.previous, 1);
        __builtin_prefetch(node->link.next, 1);
}

static inline bool weir__timerq_contains(const struct weir__timerq_node *node)
{
        return node->location != 0;
}

/* Takes out nodes whose deadline has come, in order of (deadline, sequence): at most `most`, which is 1 to WEIR__TIMERQ_BATCH.
 * It touches at most a batch of nodes.
 *
 * Result: how many were taken; `expired` (room for `most`) holds them.  *more: nodes that are due at `now` are left, so release
 *         the lock and call again. */
unsigned weir__timerq_expire(struct weir__timerq *queue, weir_nsec now, struct weir__timerq_node *expired[], unsigned most,
                             bool *more);

/* When weir__timerq_expire must next be called: at the earliest deadline, or before it when many nodes have to cascade first.
 * WEIR_FOREVER: never.  It may be too early once for each node that was removed or reset, and is never too late. */
weir_nsec weir__timerq_next(struct weir__timerq *queue);

/* -- a walk with pauses: the queue may change in any way between two calls -- */

struct weir__timerq_walk {
        uint64_t before; /* nodes with this sequence or a later one are not shown */
        unsigned pass;
        unsigned level;     /* of the lists; WEIR__TIMERQ_LEVELS: nodes that never expire */
        uint64_t number;    /* of the present slot */
        uint32_t left;      /* nodes in it that are still to be shown */
        bool is_in_tree;
        weir_nsec deadline; /* of the node of the tree that was shown last */
        uint64_t sequence;
};

void weir__timerq_walk_begin(const struct weir__timerq *queue, struct weir__timerq_walk *walk);

/* Shows up to `most` nodes, in no particular order; returns how many, which may be 0.  A node that is in the queue from the
 * beginning to the end, and is not reset or moved meanwhile, is shown.  It may be shown more than once, with the same sequence.
 * *more: this is not the end. */
unsigned weir__timerq_walk_on(struct weir__timerq *queue, struct weir__timerq_walk *walk, struct weir__timerq_node *shown[],
                              unsigned most, bool *more);

/* Takes out up to `max` nodes in no particular order: for shutdown.  Returns how many. */
unsigned weir__timerq_drain(struct weir__timerq *queue, struct weir__timerq_node *taken[], unsigned max);

#endif
