/* kernel/queue/timerq_walk.c: a walk through a deadline queue, with pauses.
 *
 * Threads and locks: the caller holds the lock of the queue's owner during each call, and may let it go between two calls.
 *
 * The walk goes through the lists from the far end of time to the near one, and then through the tree.  A node moves to a nearer
 * list or to the tree, so the walk still comes to it.  There is one exception.  A node that was reset to a later deadline lies in
 * a list that is too early, and moves once to the one where it belongs.  So the walk goes through the lists twice.
 *
 * The order within a list means nothing.  So the nodes that were shown go to its end: the head of the ring is put elsewhere.  The
 * others are at the front then, whatever comes and goes meanwhile.  This costs the hot path nothing. */
#include "kernel/queue/timerq_slots.h"

#define PASSES 2

static void
go_to_level(struct weir__timerq_walk *walk, unsigned level)
{
        walk->level = level;
        walk->number = UINT64_MAX;
        walk->left = 0;
}

void
weir__timerq_walk_begin(const struct weir__timerq *queue, struct weir__timerq_walk *walk)
{
        *walk = (struct weir__timerq_walk){.before = queue->sequence};
        go_to_level(walk, LEVELS);
}

/* Shows nodes from the front of the slot, and puts them to its end. */
static unsigned
show_slot(struct weir__timerq_slot *slot, struct weir__timerq_walk *walk, struct weir__timerq_node *shown[], unsigned most)
{
        struct weir__timerq_link *head = &slot->list, *last = head;
        uint32_t count = walk->left < most ? walk->left : most;
        unsigned found = 0;

        count = count < slot->count ? count : slot->count;
        walk->left = slot->count > count ? walk->left - count : 0;
        for (uint32_t i = 0; i < count; i++) {
                last = last->next;
                if (node_of_link(last)->sequence < walk->before)
                        shown[found++] = node_of_link(last);
        }
        if (last != head) {
                head->previous->next = head->next;
                head->next->previous = head->previous;
                head->previous = last;
                head->next = last->next;
                last->next = head->next->previous = head;
        }
        return found;
}

/* Goes to the next slot of the level, nearer than the last one.  Returns false when there is none. */
static bool
next_slot(const struct weir__timerq *queue, struct weir__timerq_walk *walk)
{
        uint64_t first = number_of(queue->tick, walk->level + 1) * PARENT;
        uint64_t number = walk->number < first + LEVEL_SLOTS ? walk->number : first + LEVEL_SLOTS;

        while (number-- > first) {
                walk->left = queue->slots[index_of(number, walk->level)].count;
                walk->number = number;
                if (walk->left)
                        return true;
        }
        return false;
}

static unsigned
show_lists(struct weir__timerq *queue, struct weir__timerq_walk *walk, struct weir__timerq_node *shown[], unsigned most)
{
        unsigned found = 0, gone_through = 0;

        if (walk->level == LEVELS && walk->number == UINT64_MAX) {
                walk->number = 0;
                walk->left = queue->slots[NEVER_SLOT].count;
        }
        while (gone_through < most) {
                uint32_t left = walk->left;

                if (left) {
                        unsigned index = walk->level == LEVELS ? NEVER_SLOT : index_of(walk->number, walk->level);

                        found += show_slot(&queue->slots[index], walk, &shown[found], most - gone_through);
                        gone_through += left - walk->left;
                } else if (walk->level == LEVELS || !next_slot(queue, walk)) {
                        if (walk->level == 0) {
                                walk->is_in_tree = true;
                                break;
                        }
                        go_to_level(walk, walk->level - 1);
                }
        }
        return found;
}

/* The first node of the tree behind the one that was shown last. */
static struct weir__rbtree_node *
next_in_tree(const struct weir__timerq *queue, const struct weir__timerq_walk *walk)
{
        struct weir__rbtree_node *next = NULL;

        for (struct weir__rbtree_node *at = queue->tree.root; at;) {
                const struct weir__timerq_node *node = node_of_tree(at);
                bool is_behind = node->deadline != walk->deadline ? node->deadline > walk->deadline
                                                                  : node->sequence > walk->sequence;

                if (is_behind)
                        next = at;
                at = at->children[is_behind ? WEIR__RBTREE_LEFT : WEIR__RBTREE_RIGHT];
        }
        return next;
}

/* A node stays in the tree until it expires.  The tree has an order, by which the walk goes on. */
static unsigned
show_tree(const struct weir__timerq *queue, struct weir__timerq_walk *walk, struct weir__timerq_node *shown[], unsigned most,
          bool *more)
{
        struct weir__rbtree_node *at = next_in_tree(queue, walk);
        unsigned found = 0;

        for (unsigned i = 0; at && i < most; i++, at = weir__rbtree_next(at)) {
                struct weir__timerq_node *node = node_of_tree(at);

                walk->deadline = node->deadline;
                walk->sequence = node->sequence;
                if (node->sequence < walk->before)
                        shown[found++] = node;
        }
        *more = at;
        return found;
}

unsigned
weir__timerq_walk_on(struct weir__timerq *queue, struct weir__timerq_walk *walk, struct weir__timerq_node *shown[], unsigned most,
                     bool *more)
{
        *more = true;
        if (walk->is_in_tree)
                return show_tree(queue, walk, shown, most, more);
        unsigned found = show_lists(queue, walk, shown, most);
        if (!walk->is_in_tree)
                return found;
        if (++walk->pass < PASSES) {
                walk->is_in_tree = false;
                go_to_level(walk, LEVELS);
        } else {
                walk->deadline = INT64_MIN; /* nothing has a sequence below 0 */
                walk->sequence = 0;
        }
        return found;
}
