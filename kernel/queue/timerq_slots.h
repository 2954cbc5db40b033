/* kernel/queue/timerq_slots.h: how a deadline queue numbers its slots, for the files of the queue only. */
#ifndef WEIR_KERNEL_TIMERQ_SLOTS_H
#define WEIR_KERNEL_TIMERQ_SLOTS_H

#include "kernel/base/list.h"
#include "kernel/queue/timerq.h"

#define LEVELS      WEIR__TIMERQ_LEVELS
#define LEVEL_SLOTS WEIR__TIMERQ_SLOTS
#define NEVER_SLOT  WEIR__TIMERQ_NEVER

#define TICK_SHIFT  20 /* nanoseconds to ticks */
#define LEVEL_SHIFT 6  /* slots of one level to slots of the level above */
#define PARENT      64 /* slots under one slot of the level above */

/* Values of a node's location. */
#define OUTSIDE 0
#define IN_TREE 1
#define IN_SLOT 2    /* + index */
#define MOVING  1024 /* + IN_SLOT + index: noted in moving[] */

_Static_assert(IN_SLOT + NEVER_SLOT < MOVING && 2 * MOVING <= 0x800, "a location to hold every slot, and the mark");

#define unlikely(condition) __builtin_expect(!!(condition), 0)

static inline struct weir__timerq_node *
node_of_link(struct weir__timerq_link *link)
{
        return weir__container_of(link, struct weir__timerq_node, link);
}

static inline struct weir__timerq_node *
node_of_tree(struct weir__rbtree_node *node)
{
        return weir__container_of(node, struct weir__timerq_node, tree);
}

/* Negative instants have negative ticks, which are before every cursor. */
static inline int64_t
tick_of(weir_nsec instant)
{
        return instant >> TICK_SHIFT;
}

/* The slot of a level in which a tick lies, counted from tick 0. */
static inline uint64_t
number_of(int64_t tick, unsigned level)
{
        return (uint64_t)tick >> (level * LEVEL_SHIFT);
}

static inline int64_t
first_tick(uint64_t number, unsigned level)
{
        return (int64_t)(number << (level * LEVEL_SHIFT));
}

static inline unsigned
index_of(uint64_t number, unsigned level)
{
        return level * LEVEL_SLOTS + number % LEVEL_SLOTS;
}

static inline bool
is_before(const struct weir__timerq_node *a, const struct weir__timerq_node *b)
{
        return a->deadline != b->deadline ? a->deadline < b->deadline : a->sequence < b->sequence;
}

/* The number of the slot with that index, in the ring where the cursor is. */
static inline uint64_t
number_at(const struct weir__timerq *queue, unsigned index)
{
        uint64_t base = number_of(queue->tick, index / LEVEL_SLOTS + 1) * PARENT;

        return base + (index % LEVEL_SLOTS + LEVEL_SLOTS - base % LEVEL_SLOTS) % LEVEL_SLOTS;
}

#endif
