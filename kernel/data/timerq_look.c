/* kernel/data/timerq_look.c: a walk through a deadline queue, with pauses.
 *
 * Threads and locks: the caller holds the lock of the queue's owner during each call, and may let it go between two.
 *
 * The lists are gone through from the far end of time to the near one, then the tree.  All that moves nodes brings them nearer,
 * and so to where the look has still to come, but for those that were put off: these go from the list that they are in, too
 * early, to where they belong, once.  A second pass meets them.
 *
 * The order within a list means nothing.  So what was shown goes to its end, which is to say that its head is put elsewhere in
 * the ring: the rest is at the front still, whatever comes and goes meanwhile.  The hot path does not know of any of this. */
#include "kernel/data/timerq_slots.h"

#define PASSES 2

static void
go_to_level(struct weir__timerq_look *look, unsigned level)
{
        look->level = level;
        look->number = UINT64_MAX;
        look->left = 0;
}

void
weir__timerq_look_begin(const struct weir__timerq *queue, struct weir__timerq_look *look)
{
        *look = (struct weir__timerq_look){.before = queue->sequence};
        go_to_level(look, LEVELS);
}

/* Shows nodes from the front of the slot, and puts them to its end. */
static unsigned
show_slot(struct weir__timerq_slot *slot, struct weir__timerq_look *look, struct weir__timerq_node *shown[], unsigned most)
{
        struct weir__timerq_link *head = &slot->list, *last = head;
        uint32_t count = look->left < most ? look->left : most;
        unsigned found = 0;

        count = count < slot->count ? count : slot->count;
        look->left = slot->count > count ? look->left - count : 0;
        for (uint32_t i = 0; i < count; i++) {
                last = last->next;
                if (node_of_link(last)->sequence < look->before)
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

/* Comes to the next slot of the level, nearer than the last one.  Returns false when there is none. */
static bool
come_to_slot(const struct weir__timerq *queue, struct weir__timerq_look *look)
{
        uint64_t first = number_of(queue->tick, look->level + 1) * PARENT;
        uint64_t number = look->number < first + SLOTS ? look->number : first + SLOTS;

        while (number-- > first) {
                look->left = queue->slots[index_of(number, look->level)].count;
                look->number = number;
                if (look->left)
                        return true;
        }
        return false;
}

static unsigned
show_lists(struct weir__timerq *queue, struct weir__timerq_look *look, struct weir__timerq_node *shown[], unsigned most)
{
        unsigned found = 0, gone_through = 0;

        if (look->level == LEVELS && look->number == UINT64_MAX) {
                look->number = 0;
                look->left = queue->slots[NEVER].count;
        }
        while (gone_through < most) {
                uint32_t left = look->left;

                if (left) {
                        unsigned index = look->level == LEVELS ? NEVER : index_of(look->number, look->level);

                        found += show_slot(&queue->slots[index], look, &shown[found], most - gone_through);
                        gone_through += left - look->left;
                } else if (look->level == LEVELS || !come_to_slot(queue, look)) {
                        if (look->level == 0) {
                                look->is_in_tree = true;
                                break;
                        }
                        go_to_level(look, look->level - 1);
                }
        }
        return found;
}

/* The first node of the tree behind the one that was come to last. */
static struct weir__rbtree_node *
next_in_tree(const struct weir__timerq *queue, const struct weir__timerq_look *look)
{
        struct weir__rbtree_node *next = NULL;

        for (struct weir__rbtree_node *at = queue->tree.root; at;) {
                const struct weir__timerq_node *node = node_of_tree(at);
                bool is_behind = node->deadline != look->deadline ? node->deadline > look->deadline
                                                                  : node->sequence > look->sequence;

                if (is_behind)
                        next = at;
                at = at->children[is_behind ? WEIR__RBTREE_LEFT : WEIR__RBTREE_RIGHT];
        }
        return next;
}

/* What is in it at the beginning is so until it expires: it has an order, by which the look goes on. */
static unsigned
show_tree(const struct weir__timerq *queue, struct weir__timerq_look *look, struct weir__timerq_node *shown[], unsigned most,
          bool *more)
{
        struct weir__rbtree_node *at = next_in_tree(queue, look);
        unsigned found = 0;

        for (unsigned i = 0; at && i < most; i++, at = weir__rbtree_next(at)) {
                struct weir__timerq_node *node = node_of_tree(at);

                look->deadline = node->deadline;
                look->sequence = node->sequence;
                if (node->sequence < look->before)
                        shown[found++] = node;
        }
        *more = at;
        return found;
}

unsigned
weir__timerq_look_on(struct weir__timerq *queue, struct weir__timerq_look *look, struct weir__timerq_node *shown[], unsigned most,
                     bool *more)
{
        *more = true;
        if (look->is_in_tree)
                return show_tree(queue, look, shown, most, more);
        unsigned found = show_lists(queue, look, shown, most);
        if (!look->is_in_tree)
                return found;
        if (++look->pass < PASSES) {
                look->is_in_tree = false;
                go_to_level(look, LEVELS);
        } else {
                look->deadline = INT64_MIN; /* nothing has a sequence below 0 */
                look->sequence = 0;
        }
        return found;
}
