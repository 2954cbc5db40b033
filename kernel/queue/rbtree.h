/* kernel/queue/rbtree.h: an intrusive red-black tree that knows its two ends.
 *
 * A pure data structure.  The order is the caller's: it walks down to the free child link itself (see timerq.c) and links the
 * node there.  Source: Cormen, Leiserson, Rivest, Stein, Introduction to Algorithms, 3rd edition, chapter 13. */
#ifndef WEIR_KERNEL_RBTREE_H
#define WEIR_KERNEL_RBTREE_H

#include <stddef.h>
#include <stdint.h>

enum weir__rbtree_side { WEIR__RBTREE_LEFT, WEIR__RBTREE_RIGHT, WEIR__RBTREE_SIDES };

/* Three words: the colour is the lowest bit of the parent's address. */
struct weir__rbtree_node {
        uintptr_t parent_and_colour;
        struct weir__rbtree_node *children[WEIR__RBTREE_SIDES];
};

/* All zero is an empty tree. */
struct weir__rbtree {
        struct weir__rbtree_node *root;
        struct weir__rbtree_node *ends[WEIR__RBTREE_SIDES]; /* the first and the last in order; NULL when empty */
};

/* Links `node` as the child of `parent` on that side, where there is none, and balances.  With a NULL parent it becomes the root
 * of an empty tree. */
void weir__rbtree_insert(struct weir__rbtree *tree, struct weir__rbtree_node *parent, enum weir__rbtree_side side,
                         struct weir__rbtree_node *node);

void weir__rbtree_remove(struct weir__rbtree *tree, struct weir__rbtree_node *node);

/* The node that follows in order; NULL after the last. */
struct weir__rbtree_node *weir__rbtree_next(const struct weir__rbtree_node *node);

#endif
