/* test/queue_check.c: the structural invariants of red-black trees and deadline queues.
 *
 * Threads and locks: the caller holds the lock of the owner. */
#include "test/queue_check.h"

#include "kernel/base/panic.h"
#include "kernel/queue/timerq_slots.h"

static void
expect(bool holds, const char *what)
{
        if (unlikely(!holds))
                weir__panic("queue: expected %s", what);
}

/* A red node's word is its parent's bare address. */
static bool
is_red(const struct weir__rbtree_node *node)
{
        return node && !(node->parent_and_colour & 1);
}

/* The number of black nodes on every way down from `node`. */
static unsigned
check_below(const struct weir__rbtree_node *node, const struct weir__rbtree_node *parent, size_t *count)
{
        if (!node)
                return 0;
        expect((node->parent_and_colour & ~(uintptr_t)1) == (uintptr_t)parent, "each child to know its parent");
        expect(!is_red(node) || !is_red(parent), "no red node below a red one");
        unsigned left = check_below(node->children[WEIR__RBTREE_LEFT], node, count);
        unsigned right = check_below(node->children[WEIR__RBTREE_RIGHT], node, count);
        expect(left == right, "as many black nodes on every way down");
        ++*count;
        return left + !is_red(node);
}

size_t
rbtree_check(const struct weir__rbtree *tree)
{
        size_t count = 0;

        expect(!is_red(tree->root), "a black root");
        check_below(tree->root, NULL, &count);
        for (unsigned side = 0; side < WEIR__RBTREE_SIDES; side++) {
                const struct weir__rbtree_node *end = tree->root;

                while (end && end->children[side])
                        end = end->children[side];
                expect(tree->ends[side] == end, "the remembered ends to be the ends");
        }
        return count;
}

/* -- the deadline queue -- */

static void
expect_slot(bool holds, unsigned index, const char *what)
{
        if (unlikely(!holds))
                weir__panic("timerq: level %u, slot %u: expected %s", index / LEVEL_SLOTS, index % LEVEL_SLOTS, what);
}

static size_t
check_tree(const struct weir__timerq *queue)
{
        const struct weir__timerq_node *before = NULL;
        size_t count = rbtree_check(&queue->tree);

        for (struct weir__rbtree_node *at = queue->tree.ends[WEIR__RBTREE_LEFT]; at; at = weir__rbtree_next(at)) {
                const struct weir__timerq_node *node = node_of_tree(at);
                expect(node->location == IN_TREE, "a node in the tree to know that it is there");
                expect(tick_of(node->deadline) <= queue->tick, "no node in the tree that lies beyond the cursor");
                expect(node->deadline != WEIR_FOREVER, "no node in the tree that never expires");
                expect(node->sequence < queue->sequence, "sequences in the tree to have been given out");
                expect(!before || is_before(before, node), "the tree in order of deadline and sequence");
                before = node;
        }
        return count;
}

static bool
is_noted(const struct weir__timerq *queue, const struct weir__timerq_node *node)
{
        for (unsigned i = 0; i < queue->moving_count; i++)
                if (queue->moving[i] == node)
                        return true;
        return false;
}

static void
check_moving(const struct weir__timerq *queue)
{
        expect(queue->moving_count <= WEIR__TIMERQ_MOVING, "no more nodes to be moving than are noted");
        for (unsigned i = 0; i < queue->moving_count; i++) {
                expect(queue->moving[i]->location >= MOVING, "a node that is noted as moving to know that it is");
                for (unsigned j = 0; j < i; j++)
                        expect(queue->moving[i] != queue->moving[j], "a node that is moving to be noted once");
        }
}

/* Whether a node may be in the slot of that index, from where the cursor is. */
static void
check_node(const struct weir__timerq *queue, const struct weir__timerq_node *node, unsigned index)
{
        unsigned level = index / LEVEL_SLOTS;
        uint64_t number = number_at(queue, index), cursor = number_of(queue->tick, level);
        int64_t tick = tick_of(node->deadline);

        expect_slot(node->location % MOVING == IN_SLOT + index, index, "each node to know its location");
        expect_slot(node->sequence < queue->sequence, index, "sequences to have been given out");
        expect_slot(!(node->location & MOVING) == !is_noted(queue, node), index,
                    "the nodes that are moving to be noted, and no other");
        if (node->location & MOVING)
                return;
        expect_slot(node->deadline >= queue->slots[index].earliest, index, "no node to be earlier than the earliest");
        expect_slot((index == NEVER_SLOT) == (node->deadline == WEIR_FOREVER), index,
                    "WEIR_FOREVER behind all levels, alone there");
        if (index == NEVER_SLOT)
                return;
        expect_slot(tick >= queue->tick, index, "no node before the cursor in a list");
        expect_slot(number_of(tick, level) >= number, index, "no node that belongs into a slot before");
        expect_slot(level == 0 ? number >= cursor : number > cursor, index,
                    "the slots behind the cursor, and the cursor's, to be empty");
}

static size_t
check_slot(const struct weir__timerq *queue, unsigned index)
{
        const struct weir__timerq_slot *slot = &queue->slots[index];
        const struct weir__timerq_link *before = &slot->list;
        size_t count = 0;

        for (struct weir__timerq_link *link = slot->list.next; link != &slot->list; link = link->next) {
                expect_slot(link->previous == before, index, "links back to mirror links on");
                check_node(queue, node_of_link(link), index);
                before = link;
                count++;
        }
        expect_slot(slot->list.previous == before, index, "the list to end where it ends");
        expect_slot(slot->count == count, index, "its count to be the number of nodes");
        expect_slot(count > 0 || slot->earliest == WEIR_FOREVER, index, "an empty slot to have no earliest");
        expect_slot((queue->occupied[index / 64] >> index % 64 & 1) == (count > 0), index, "its bit to say whether it is empty");
        return count;
}

void
timerq_check(const struct weir__timerq *queue)
{
        size_t count = check_tree(queue);

        check_moving(queue);
        for (unsigned index = 0; index <= NEVER_SLOT; index++)
                count += check_slot(queue, index);
        expect(count == queue->count, "the queue's count to be the number of nodes");
        for (unsigned level = 1; level < LEVELS; level++) {
                uint64_t number = number_of(queue->tick, level) + 1;
                bool last = queue->tick + 1 == first_tick(number, level);
                expect(!last || queue->portions[level] >= queue->slots[index_of(number, level)].count,
                       "all of a slot to be moved down before the cursor enters it");
        }
}
