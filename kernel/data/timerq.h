/* kernel/data/timerq.h: the deadlines of one poller, in exact order.
 *
 * A pure data structure: no lock, no clock, no descriptor; it takes `now`.  docs/design.md ("Deadlines") says why it is made of
 * lists and a red-black tree.  All calls on one queue are made under its owner's lock. */
#ifndef WEIR_KERNEL_TIMERQ_H
#define WEIR_KERNEL_TIMERQ_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "kernel/data/rbtree.h"

#define WEIR__TIMERQ_LEVELS 7   /* a slot is 2^20 ns << 6 * level; two parents of the seventh level reach beyond INT64_MAX */
#define WEIR__TIMERQ_SLOTS  128 /* of a level: the current parent slot and the next one, 64 each */
#define WEIR__TIMERQ_NEVER  (WEIR__TIMERQ_LEVELS * WEIR__TIMERQ_SLOTS) /* the slot behind all levels, for WEIR_FOREVER */
#define WEIR__TIMERQ_BATCH  256 /* the most nodes that one call touches */
#define WEIR__TIMERQ_MOVING 8   /* nodes on their way to another list at any time */

/* The same words of a node are a link or a part of the tree by turns. */
struct __attribute__((__may_alias__)) weir__timerq_link {
        struct weir__timerq_link *previous, *next;
};

/* Embedded in what has a deadline.  All zero is in no queue; `deadline` may be used freely then. */
struct weir__timerq_node {
        weir_nsec deadline;
        union {
                struct {
                        uint64_t sequence : 52; /* breaks ties: first in, first out; tells when it came as well (_stamp) */
                        uint64_t place : 11;    /* 0: in no queue; 1: in the tree; else 2 + its slot's index; + 1024: moving */
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
        int64_t tick;             /* the cursor: what lies before it is in the tree, and expires from there */
        uint64_t sequence;        /* of the next node */
        size_t count;             /* nodes in the queue */
        unsigned moving_count;
        struct weir__timerq_node *moving[WEIR__TIMERQ_MOVING]; /* nodes that are in a list still where they may not stay */
        uint32_t portions[WEIR__TIMERQ_LEVELS]; /* of the next slot of each level: to be moved down before the cursor goes on */
        uint64_t occupied[WEIR__TIMERQ_NEVER / 64 + 1]; /* a bit a slot: its list is not empty */
        struct weir__timerq_slot slots[WEIR__TIMERQ_NEVER + 1];
};

/* Makes an empty queue whose time begins at `now`. */
void weir__timerq_init(struct weir__timerq *queue, weir_nsec now);

#define WEIR__TIMERQ_STAMP_SHIFT 5 /* nanoseconds to sequence numbers */

/* Has the nodes that are added next know when they came, without a word of their own: the sequence goes on from the time, in
 * units of 32 ns, unless it is there already because nodes came faster.  (After two years of the clock it stays behind.) */
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

/* Gives a node that is in no queue its place among equal deadlines, as if it came now; weir__timerq_add_in_turn keeps it. */
static inline void weir__timerq_take_turn(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        node->sequence = queue->sequence++;
}

/* Adds a node that is in no queue.  O(1), except O(log n) among the nodes of the current millisecond.
 *
 * Result:  when the queue wants to be visited on account of this node: its deadline, or earlier when its slot has become so full
 *         that moving it down must begin before.  Compare it with the instant for which the poller sleeps. */
weir_nsec weir__timerq_add(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline);
weir_nsec weir__timerq_add_in_turn(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline);

/* Gives a node of this queue another deadline, with a sequence of its own, as if it came anew.  O(1), as add.  It stays in the
 * list where it is if the time of that comes before, and goes on from there then: that touches no other node.  Otherwise it is
 * noted as moving while its neighbours are fetched, and moved a little later.
 *
 * Result:  as of add, also on account of nodes that were noted before and moved now; WEIR_FOREVER when the queue wants no visit
 *          that it did not want before. */
weir_nsec weir__timerq_reset(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline);

/* Takes a node out.  The caller knows that it is in this queue (weir__timerq_contains). */
void weir__timerq_remove(struct weir__timerq *queue, struct weir__timerq_node *node);

/* Has the memory fetched that removing the node will need. */
static inline void weir__timerq_prefetch(const struct weir__timerq_node *node)
{
        __builtin_prefetch(node->link.previous, 1);
        __builtin_prefetch(node->link.next, 1);
}

static inline bool weir__timerq_contains(const struct weir__timerq_node *node)
{
        return node->place != 0;
}

/* Takes out nodes whose deadline has come, in order of (deadline, sequence), `most` at most (1 to BATCH), touching at most BATCH
 * nodes.
 *
 * Result:  how many were taken; `expired` (room for `most`) holds them.  *more says that work due at `now` is left: call again,
 *         after letting go of the lock. */
unsigned weir__timerq_expire(struct weir__timerq *queue, weir_nsec now, struct weir__timerq_node *expired[], unsigned most,
                             bool *more);

/* When weir__timerq_expire should next be called: the earliest deadline, or before it when many nodes have to be brought nearer
 * first; WEIR_FOREVER for never.  It may be too early once per node that was removed or put off, never too late. */
weir_nsec weir__timerq_next(struct weir__timerq *queue);

/* -- looking on, with pauses: the queue may change in any way between two calls -- */

struct weir__timerq_look {
        uint64_t before; /* sequences: what comes later is not met */
        unsigned pass;
        unsigned level;      /* WEIR__TIMERQ_LEVELS: what never expires; else of the lists */
        uint64_t number;     /* of the slot that was come to last */
        uint32_t left;       /* nodes in it that were there then */
        bool is_in_tree;
        weir_nsec deadline;  /* of the node that was come to last there */
        uint64_t sequence;
};

void weir__timerq_look_begin(const struct weir__timerq *queue, struct weir__timerq_look *look);

/* Shows up to `most` nodes, in no particular order; returns how many, which may be 0.  Who was in the queue at the beginning,
 * and was not put off or taken out until the end, is shown, and may be so more than once, with the same sequence.  *more: that
 * is not the end. */
unsigned weir__timerq_look_on(struct weir__timerq *queue, struct weir__timerq_look *look, struct weir__timerq_node *shown[],
                              unsigned most, bool *more);

/* Takes out up to `max` nodes in no particular order: for shutdown.  Returns how many. */
unsigned weir__timerq_drain(struct weir__timerq *queue, struct weir__timerq_node *taken[], unsigned max);

/* Aborts with what was expected when a structural invariant does not hold.  O(n). */
void weir__timerq_check(const struct weir__timerq *queue);

#endif
