/* kernel/queue/rbtree.c: the red-black tree of chapter 13 of Introduction to Algorithms (3rd edition).
 *
 * Threads and locks: none of its own.  The caller holds the lock of the tree's owner.
 *
 * Three things differ from the book.  There is no sentinel: an absent child is NULL and counts as black, so a fix-up carries the
 * parent beside the node.  Mirrored cases are one case with a side.  The tree remembers both ends of the order: the earliest
 * deadline is read all the time, and regular deadlines arrive at the far end. */
#include "kernel/queue/rbtree.h"

#include <stdbool.h>

#define LEFT  WEIR__RBTREE_LEFT
#define RIGHT WEIR__RBTREE_RIGHT

/* A red node's word is its parent's bare address. */
#define BLACK ((uintptr_t)1)

static struct weir__rbtree_node *
parent_of(const struct weir__rbtree_node *node)
{
        return (struct weir__rbtree_node *)(node->parent_and_colour & ~BLACK);
}

static bool
is_red(const struct weir__rbtree_node *node)
{
        return node && !(node->parent_and_colour & BLACK);
}

static void
set_parent(struct weir__rbtree_node *node, struct weir__rbtree_node *parent)
{
        node->parent_and_colour = (uintptr_t)parent | (node->parent_and_colour & BLACK);
}

static void
paint_red(struct weir__rbtree_node *node)
{
        node->parent_and_colour &= ~BLACK;
}

static void
paint_black(struct weir__rbtree_node *node)
{
        node->parent_and_colour |= BLACK;
}

/* The side of its parent on which a node is.  `node` may be NULL if its sibling is not. */
static unsigned
side_of(const struct weir__rbtree_node *parent, const struct weir__rbtree_node *node)
{
        return parent->children[RIGHT] == node;
}

/* Puts `child`, which may be NULL, in the place of `node`. */
static void
transplant(struct weir__rbtree *tree, struct weir__rbtree_node *node, struct weir__rbtree_node *child)
{
        struct weir__rbtree_node *parent = parent_of(node);

        if (parent)
                parent->children[side_of(parent, node)] = child;
        else
                tree->root = child;
        if (child)
                set_parent(child, parent);
}

/* Rotates `node` down towards `side`.  Its child on the other side takes its place. */
static void
rotate(struct weir__rbtree *tree, struct weir__rbtree_node *node, unsigned side)
{
        struct weir__rbtree_node *up = node->children[!side], *inner = up->children[side];

        transplant(tree, node, up);
        node->children[!side] = inner;
        if (inner)
                set_parent(inner, node);
        up->children[side] = node;
        set_parent(node, up);
}

/* `node` is red.  Only one rule may be broken: its parent may be red too. */
static void
balance_after_insert(struct weir__rbtree *tree, struct weir__rbtree_node *node)
{
        struct weir__rbtree_node *parent = parent_of(node);

        while (is_red(parent)) {
                struct weir__rbtree_node *grandparent = parent_of(parent);
                unsigned side = side_of(grandparent, parent);
                struct weir__rbtree_node *uncle = grandparent->children[!side];

                if (is_red(uncle)) {
                        paint_black(parent);
                        paint_black(uncle);
                        paint_red(grandparent);
                        node = grandparent;
                        parent = parent_of(node);
                        continue;
                }
                if (node == parent->children[!side]) {
                        rotate(tree, parent, side);
                        parent = node;
                }
                paint_black(parent);
                paint_red(grandparent);
                rotate(tree, grandparent, !side);
                break;
        }
        paint_black(tree->root);
}

void
weir__rbtree_insert(struct weir__rbtree *tree, struct weir__rbtree_node *parent, enum weir__rbtree_side side,
                    struct weir__rbtree_node *node)
{
        node->parent_and_colour = (uintptr_t)parent;
        node->children[LEFT] = node->children[RIGHT] = NULL;
        if (!parent) {
                tree->root = tree->ends[LEFT] = tree->ends[RIGHT] = node;
        } else {
                parent->children[side] = node;
                if (parent == tree->ends[side])
                        tree->ends[side] = node;
        }
        balance_after_insert(tree, node);
}

/* The neighbour of `node` in order, on that side. */
static struct weir__rbtree_node *
neighbour(const struct weir__rbtree_node *node, unsigned side)
{
        struct weir__rbtree_node *at = node->children[side];

        if (at) {
                while (at->children[!side])
                        at = at->children[!side];
                return at;
        }
        for (at = parent_of(node); at && node == at->children[side]; at = parent_of(at))
                node = at;
        return at;
}

/* The paths through `node` (which may be NULL), a child of `parent`, lack one black node. */
static void
balance_after_remove(struct weir__rbtree *tree, struct weir__rbtree_node *node, struct weir__rbtree_node *parent)
{
        while (parent && !is_red(node)) {
                unsigned side = side_of(parent, node);
                struct weir__rbtree_node *sibling = parent->children[!side];

                if (is_red(sibling)) {
                        paint_black(sibling);
                        paint_red(parent);
                        rotate(tree, parent, side);
                        sibling = parent->children[!side];
                }
                if (!is_red(sibling->children[LEFT]) && !is_red(sibling->children[RIGHT])) {
                        paint_red(sibling);
                        node = parent;
                        parent = parent_of(node);
                        continue;
                }
                if (!is_red(sibling->children[!side])) {
                        paint_black(sibling->children[side]);
                        paint_red(sibling);
                        rotate(tree, sibling, !side);
                        sibling = parent->children[!side];
                }
                if (is_red(parent))
                        paint_red(sibling);
                else
                        paint_black(sibling);
                paint_black(parent);
                paint_black(sibling->children[!side]);
                rotate(tree, parent, side);
                return;
        }
        if (node)
                paint_black(node);
}

/* A node with two children: its successor takes over its links and its colour, so that the gap opens where the successor was. */
static void
remove_between(struct weir__rbtree *tree, struct weir__rbtree_node *node)
{
        struct weir__rbtree_node *successor = neighbour(node, RIGHT);
        struct weir__rbtree_node *orphan = successor->children[RIGHT], *gap = parent_of(successor);
        bool is_black_lost = !is_red(successor);

        if (gap == node) {
                gap = successor;
        } else {
                transplant(tree, successor, orphan);
                successor->children[RIGHT] = node->children[RIGHT];
                set_parent(successor->children[RIGHT], successor);
        }
        transplant(tree, node, successor);
        successor->children[LEFT] = node->children[LEFT];
        set_parent(successor->children[LEFT], successor);
        successor->parent_and_colour = node->parent_and_colour;
        if (is_black_lost)
                balance_after_remove(tree, orphan, gap);
}

void
weir__rbtree_remove(struct weir__rbtree *tree, struct weir__rbtree_node *node)
{
        struct weir__rbtree_node *child, *parent = parent_of(node);

        for (unsigned side = LEFT; side <= RIGHT; side++)
                if (tree->ends[side] == node)
                        tree->ends[side] = neighbour(node, !side);
        if (node->children[LEFT] && node->children[RIGHT]) {
                remove_between(tree, node);
                return;
        }
        child = node->children[node->children[LEFT] ? LEFT : RIGHT];
        transplant(tree, node, child);
        if (!is_red(node))
                balance_after_remove(tree, child, parent);
}

struct weir__rbtree_node *
weir__rbtree_next(const struct weir__rbtree_node *node)
{
        return neighbour(node, RIGHT);
}
