/* bench/candidates/naive.c: one sorted list and a red-black tree.
 *
 * Threads and locks: none.  A deadline that is later than all in the list is appended to it; any other goes into the tree.  With
 * one duration the tree stays empty; with two, all of the shorter ones are in it, and of random ones nearly all. */
#include "candidates/naive.h"

#include <stddef.h>

void
naive_init(struct naive *naive)
{
        *naive = (struct naive){0};
        naive->list.previous = naive->list.next = &naive->list;
}

static struct naive_node *
node_of_link(struct naive_link *link)
{
        return (struct naive_node *)(void *)((char *)link - offsetof(struct naive_node, link));
}

static struct naive_node *
node_of_tree(struct weir__rbtree_node *tree)
{
        return (struct naive_node *)(void *)((char *)tree - offsetof(struct naive_node, tree));
}

static bool
is_before(const struct naive_node *a, const struct naive_node *b)
{
        return a->deadline != b->deadline ? a->deadline < b->deadline : a->sequence < b->sequence;
}

static void
append(struct naive *naive, struct naive_node *node)
{
        node->in_tree = false;
        node->link.previous = naive->list.previous;
        node->link.next = &naive->list;
        node->link.previous->next = naive->list.previous = &node->link;
}

/* The far end is tried before the root, as timerq does. */
static void
insert(struct naive *naive, struct naive_node *node)
{
        struct weir__rbtree_node *parent = naive->tree.ends[WEIR__RBTREE_RIGHT], *at;
        unsigned side = WEIR__RBTREE_RIGHT;

        if (parent && is_before(node, node_of_tree(parent))) {
                for (at = naive->tree.root; at; at = at->children[side]) {
                        parent = at;
                        side = !is_before(node, node_of_tree(at));
                }
        }
        node->in_tree = true;
        weir__rbtree_insert(&naive->tree, parent, side, &node->tree);
}

void
naive_add(struct naive *naive, struct naive_node *node, int64_t deadline)
{
        struct naive_link *last = naive->list.previous;

        node->deadline = deadline;
        node->sequence = naive->sequence++;
        if (last == &naive->list || node_of_link(last)->deadline <= deadline)
                append(naive, node);
        else
                insert(naive, node);
}

void
naive_remove(struct naive *naive, struct naive_node *node)
{
        if (node->in_tree) {
                weir__rbtree_remove(&naive->tree, &node->tree);
                return;
        }
        node->link.previous->next = node->link.next;
        node->link.next->previous = node->link.previous;
}

/* The earlier of the first of the list and the first of the tree, when it is due. */
static struct naive_node *
first_due(const struct naive *naive, int64_t now)
{
        struct weir__rbtree_node *tree = naive->tree.ends[WEIR__RBTREE_LEFT];
        struct naive_node *first = tree ? node_of_tree(tree) : NULL;

        if (naive->list.next != &naive->list) {
                struct naive_node *listed = node_of_link(naive->list.next);

                if (!first || is_before(listed, first))
                        first = listed;
        }
        return first && first->deadline <= now ? first : NULL;
}

unsigned
naive_expire(struct naive *naive, int64_t now, struct naive_node *expired[], bool *more)
{
        struct naive_node *node;
        unsigned count = 0;

        while (count < NAIVE_BATCH && (node = first_due(naive, now))) {
                naive_remove(naive, node);
                expired[count++] = node;
        }
        *more = first_due(naive, now) != NULL;
        return count;
}
