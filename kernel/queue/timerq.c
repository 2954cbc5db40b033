/* kernel/queue/timerq.c: lists for far deadlines, a red-black tree for near ones.
 *
 * Threads and locks: none of its own; a queue belongs to whoever holds its owner's lock.  No call touches more than a batch.
 *
 * Time is cut into ticks of 2^20 ns.  Level k has slots of 64^k ticks.  Slot number n of a level covers the ticks whose upper
 * bits are n.  Each level has a ring of 128 slots: those of the parent slot in which the cursor is, and those of the next parent.
 *
 *      level 1   ...|   parent 4    |   parent 5    |...      each parent is one slot of level 2
 *                        ^cursor                              a node lives on the lowest level whose ring covers its tick
 *
 * A node goes down:
 *
 *      list of level k --cascade--> list of a lower level --cascade--> list of level 0 --cascade--> tree --expire--> out
 *
 * A node whose deadline was put off meanwhile is in a slot too early.  It goes from there to the slot where it belongs, which is
 * never a slot that is being moved down.
 *
 * A node may get a deadline that comes before its slot.  Then it has to leave its list.  Its neighbours there lie anywhere in
 * memory, so they are prefetched and the node is noted in moving[].  The noted nodes are moved when the array is full, and before
 * expire and next, which look at slots and tree as a whole.
 *
 * Tick:     when time reaches the tick of the cursor, the slot of that tick is moved into the tree, and the cursor goes on.  Only
 *           nodes before the cursor may expire: all nodes that could come before them are in the tree by then.
 * Ahead:    the cursor never enters a slot of a level above 0 that is not empty.  While it is in slot n - 1 of a level, it moves
 *           a portion of slot n down at each tick where it stops.  So nothing is left when it arrives.  (67,000 nodes of a slot
 *           of 67 ms that are moved at once make everything late by 12 ms.)
 * Skipping: the cursor skips ticks without work.  The bitmaps show the next tick where it must stop.
 *
 * A lone timer at the end of an empty day costs one call of expire.  next() asks for a call before a deadline only if a slot
 * holds more than a batch. */
#include "kernel/queue/timerq.h"

#include "kernel/queue/timerq_slots.h"

#define PORTION 128 /* the least that is moved down at a tick, so that the cursor need not stop at each tick for a small slot */

/* Where in the word of a node its location lies. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOCATION_SHIFT 52
#else
#define LOCATION_SHIFT 1
#endif
#define LOCATION_MASK (UINT64_C(0x7ff) << LOCATION_SHIFT)

/* Not by the bit field, which is a store of two bytes: the next load of the word has to wait until these are in the cache.  That
 * was 4 ns of the 11 that an add and a remove took, and more when the cache missed. */
static void
set_location(struct weir__timerq_node *node, unsigned location)
{
        node->word = (node->word & ~LOCATION_MASK) | (uint64_t)location << LOCATION_SHIFT;
}

static weir_nsec
begin_of(int64_t tick)
{
        return (weir_nsec)((uint64_t)tick << TICK_SHIFT);
}

/* The lowest level whose ring covers `tick`, which is not before `cursor`.  Level k covers each distance below 64^(k + 1).  The
 * level below covers it too, if the cursor is far enough in its parent slot. */
static unsigned
level_for(int64_t cursor, int64_t tick)
{
        uint64_t distance = (uint64_t)(tick - cursor);
        unsigned level = (63 - (unsigned)__builtin_clzll(distance | 1)) / LEVEL_SHIFT;
        bool is_lower = number_of(tick, level) - number_of(cursor, level) <= 1;

        return level - (is_lower & (level > 0));
}

/* -- the tree -- */

static struct weir__timerq_node *
first_in_tree(const struct weir__timerq *queue)
{
        struct weir__rbtree_node *first = queue->tree.ends[WEIR__RBTREE_LEFT];

        return first ? node_of_tree(first) : NULL;
}

/* Regular deadlines come in order: the far end is tried before the root. */
static void
insert_into_tree(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        struct weir__rbtree_node *parent = queue->tree.ends[WEIR__RBTREE_RIGHT], *at;
        unsigned side = WEIR__RBTREE_RIGHT;

        if (parent && is_before(node, node_of_tree(parent))) {
                for (at = queue->tree.root; at; at = at->children[side]) {
                        parent = at;
                        side = !is_before(node, node_of_tree(at));
                }
        }
        set_location(node, IN_TREE);
        weir__rbtree_insert(&queue->tree, parent, side, &node->tree);
}

/* -- the lists -- */

/* To be called when nodes have left a slot.  There is no branch, because nobody can foretell whether the list is empty then. */
static void
note_departure(struct weir__timerq *queue, unsigned index)
{
        struct weir__timerq_slot *slot = &queue->slots[index];
        uint64_t empty = slot->count == 0;

        slot->earliest |= (weir_nsec)(-empty & WEIR_FOREVER); /* no deadline in a list is negative */
        queue->occupied[index / 64] &= ~(empty << index % 64);
}

static void
note_earliest(struct weir__timerq_slot *slot, weir_nsec deadline)
{
        slot->earliest = deadline < slot->earliest ? deadline : slot->earliest;
}

static inline __attribute__((__always_inline__)) void
append_to_slot(struct weir__timerq *queue, struct weir__timerq_node *node, unsigned index)
{
        struct weir__timerq_slot *slot = &queue->slots[index];
        struct weir__timerq_link *last = slot->list.previous;

        set_location(node, IN_SLOT + index);
        node->link.previous = last;
        node->link.next = &slot->list;
        last->next = slot->list.previous = &node->link;
        slot->count++;
        note_earliest(slot, node->deadline);
        queue->occupied[index / 64] |= UINT64_C(1) << index % 64;
}

static void
remove_from_slot(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        unsigned index = (unsigned)node->location - IN_SLOT;
        struct weir__timerq_link *previous = node->link.previous, *next = node->link.next;

        previous->next = next;
        next->previous = previous;
        queue->slots[index].count--;
        note_departure(queue, index);
}

static unsigned
lowest_bit(uint64_t word)
{
        return (unsigned)__builtin_ctzll(word);
}

/* The number of the first occupied slot of a level.  Behind the cursor nothing is occupied, so the half of the ring that holds
 * the cursor comes first, as a whole. */
static bool
first_occupied(const struct weir__timerq *queue, unsigned level, uint64_t *number)
{
        uint64_t parent = number_of(queue->tick, level + 1);
        const uint64_t *halves = &queue->occupied[level * (LEVEL_SLOTS / PARENT)];
        uint64_t near = halves[parent % 2], far = halves[~parent % 2];

        if (!(near | far))
                return false;
        *number = near ? parent * PARENT + lowest_bit(near) : (parent + 1) * PARENT + lowest_bit(far);
        return true;
}

static bool
is_overfull(const struct weir__timerq *queue, unsigned level, uint64_t number)
{
        return level > 0 && queue->slots[index_of(number, level)].count > WEIR__TIMERQ_BATCH;
}

/* Where a deadline that is not before the cursor belongs. */
static unsigned
index_for(const struct weir__timerq *queue, weir_nsec deadline)
{
        int64_t tick = tick_of(deadline);
        unsigned level = level_for(queue->tick, tick);

        return unlikely(deadline == WEIR_FOREVER) ? NEVER_SLOT : index_of(number_of(tick, level), level);
}

/* Moves a node into the tree or onto its list on a lower level. */
static inline __attribute__((__always_inline__)) void
move_node(struct weir__timerq *queue, struct weir__timerq_node *node, bool into_tree)
{
        if (into_tree && tick_of(node->deadline) <= queue->tick)
                insert_into_tree(queue, node);
        else
                append_to_slot(queue, node, index_for(queue, node->deadline));
}

/* Moves up to `most` nodes of a slot down.  Returns how many.  Their order means nothing, so they are taken from one end and from
 * the other alternately.  The address of a node is known only when its neighbour has come from memory.  So two of them come from
 * memory at the same time.  (From one end alone, firing takes twice as long.) */
static inline __attribute__((__always_inline__)) unsigned
move_down(struct weir__timerq *queue, unsigned index, uint32_t most, bool into_tree)
{
        struct weir__timerq_slot *slot = &queue->slots[index];
        struct weir__timerq_link *front = slot->list.next, *back = slot->list.previous;
        uint32_t count = slot->count < most ? slot->count : most;

        for (uint32_t i = 0; i < count; i++) {
                struct weir__timerq_link *link = i % 2 ? back : front;

                if (i % 2)
                        __builtin_prefetch(back = link->previous, 1);
                else
                        __builtin_prefetch(front = link->next, 1);
                move_node(queue, node_of_link(link), into_tree);
        }
        if (count == slot->count)
                front = back = &slot->list;
        slot->list.next = front;
        slot->list.previous = back;
        front->previous = back->next = &slot->list;
        slot->count -= count;
        note_departure(queue, index);
        return count;
}

/* -- the cursor -- */

/* Decides how many nodes of the next slot of each level are moved down at this tick.  Each tick that is left gets an equal share,
 * and the last tick all that is left. */
static void
portion_out(struct weir__timerq *queue)
{
        for (unsigned level = 1; level < LEVELS; level++) {
                uint64_t number = number_of(queue->tick, level) + 1;
                uint64_t count = queue->slots[index_of(number, level)].count;
                uint64_t share = 0;

                if (count > 0) {
                        share = count / (uint64_t)(first_tick(number, level) - queue->tick);
                        share = share < PORTION ? PORTION : share;
                }
                queue->portions[level] = (uint32_t)share;
        }
}

/* Moves the portions of this tick down.  Returns whether that is done. */
static bool
cascade_ahead(struct weir__timerq *queue, unsigned *budget)
{
        for (unsigned level = 1; level < LEVELS; level++) {
                uint32_t portion = queue->portions[level];
                unsigned index, moved;

                if (portion == 0)
                        continue;
                index = index_of(number_of(queue->tick, level) + 1, level);
                moved = move_down(queue, index, portion < *budget ? portion : *budget, false);
                *budget -= moved;
                queue->portions[level] = queue->slots[index].count ? portion - moved : 0;
                if (queue->portions[level])
                        return false;
        }
        return true;
}

/* Moves the slot of this tick into the tree.  Returns whether that is done. */
static bool
cascade_tick(struct weir__timerq *queue, unsigned *budget)
{
        unsigned index = index_of(number_of(queue->tick, 0), 0);

        if (queue->slots[index].count)
                *budget -= move_down(queue, index, *budget, true);
        return queue->slots[index].count == 0;
}

/* Puts the cursor on the next tick where it must stop, at most `limit`.  That is a tick with nodes on level 0, or the last tick
 * before an occupied slot of another level, which must be emptied there. */
static void
advance(struct weir__timerq *queue, int64_t limit)
{
        queue->tick++;
        for (unsigned level = 0; level < LEVELS; level++) {
                uint64_t number;

                if (first_occupied(queue, level, &number)) {
                        int64_t stop = first_tick(number, level) - (level > 0);
                        limit = stop < limit ? stop : limit;
                }
        }
        queue->tick = limit;
        portion_out(queue);
}

/* -- nodes that come and move -- */

/* Puts a node that is in no list where its deadline belongs.  Returns when expire must be called because of it. */
static weir_nsec
put_node(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        weir_nsec deadline = node->deadline;
        unsigned index;

        queue->is_next_known = false;
        if (tick_of(deadline) < queue->tick && deadline != WEIR_FOREVER) {
                insert_into_tree(queue, node);
                return deadline;
        }
        index = index_for(queue, deadline);
        append_to_slot(queue, node, index);
        if (unlikely(queue->slots[index].count == WEIR__TIMERQ_BATCH + 1) && index >= LEVEL_SLOTS && index != NEVER_SLOT)
                return begin_of(first_tick(number_at(queue, index) - 1, index / LEVEL_SLOTS));
        return deadline;
}

/* Whether the slot of a node that is in a list comes before its deadline. */
static bool
may_stay(const struct weir__timerq *queue, const struct weir__timerq_node *node)
{
        unsigned index = (unsigned)node->location - IN_SLOT;
        unsigned level = index / LEVEL_SLOTS;

        if (index == NEVER_SLOT || node->deadline == WEIR_FOREVER)
                return false;
        return tick_of(node->deadline) >= first_tick(number_at(queue, index), level);
}

/* Moves the nodes that are noted.  Returns when expire must be called because of them. */
static weir_nsec
flush_moves(struct weir__timerq *queue)
{
        weir_nsec wanted = WEIR_FOREVER;

        for (unsigned i = 0; i < queue->moving_count; i++) {
                struct weir__timerq_node *node = queue->moving[i];
                weir_nsec when;

                set_location(node, node->location - MOVING);
                remove_from_slot(queue, node);
                when = put_node(queue, node);
                wanted = when < wanted ? when : wanted;
        }
        queue->moving_count = 0;
        return wanted;
}

/* Notes a node whose slot would come too late.  Returns when expire must be called, because of it or of nodes that had to be
 * moved first. */
static weir_nsec
note_move(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        weir_nsec wanted = node->deadline;

        weir__timerq_prefetch(node);
        if (queue->moving_count == WEIR__TIMERQ_MOVING) {
                weir_nsec others = flush_moves(queue);
                wanted = others < wanted ? others : wanted;
        }
        set_location(node, node->location + MOVING);
        queue->moving[queue->moving_count++] = node;
        return wanted;
}

static void
forget_move(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        unsigned i = 0;

        while (queue->moving[i] != node)
                i++;
        queue->moving[i] = queue->moving[--queue->moving_count];
        set_location(node, node->location - MOVING);
}

/* -- the interface -- */

void
weir__timerq_init(struct weir__timerq *queue, weir_nsec now)
{
        *queue = (struct weir__timerq){.tick = now > 0 ? tick_of(now) : 0};
        for (unsigned index = 0; index <= NEVER_SLOT; index++) {
                struct weir__timerq_slot *slot = &queue->slots[index];
                slot->list.previous = slot->list.next = &slot->list;
                slot->earliest = WEIR_FOREVER;
        }
}

weir_nsec
weir__timerq_add_in_sequence(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline)
{
        node->deadline = deadline;
        queue->count++;
        return put_node(queue, node);
}

weir_nsec
weir__timerq_add(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline)
{
        weir__timerq_take_sequence(queue, node);
        return weir__timerq_add_in_sequence(queue, node, deadline);
}

static inline __attribute__((__always_inline__)) weir_nsec
change_deadline(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline)
{
        bool is_later = deadline >= node->deadline && deadline != WEIR_FOREVER;
        unsigned present = node->location;

        queue->is_next_known = false;
        node->deadline = deadline;
        if (present == IN_TREE) {
                weir__rbtree_remove(&queue->tree, &node->tree);
                return put_node(queue, node);
        }
        if (present & MOVING)
                return deadline;
        if (is_later)
                return WEIR_FOREVER;
        if (!may_stay(queue, node))
                return note_move(queue, node);
        note_earliest(&queue->slots[present - IN_SLOT], deadline);
        return deadline;
}

weir_nsec
weir__timerq_reset(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline)
{
        node->sequence = queue->sequence++;
        return change_deadline(queue, node, deadline);
}

weir_nsec
weir__timerq_move(struct weir__timerq *queue, struct weir__timerq_node *node, weir_nsec deadline)
{
        return change_deadline(queue, node, deadline);
}

void
weir__timerq_remove(struct weir__timerq *queue, struct weir__timerq_node *node)
{
        if (unlikely(node->location & MOVING))
                forget_move(queue, node);
        if (node->location == IN_TREE)
                weir__rbtree_remove(&queue->tree, &node->tree);
        else
                remove_from_slot(queue, node);
        set_location(node, OUTSIDE);
        queue->count--;
        queue->is_next_known = false;
}

/* The first node, if its deadline has come and no node in a list can come before it; otherwise NULL. */
static struct weir__timerq_node *
first_due(const struct weir__timerq *queue, weir_nsec now)
{
        struct weir__timerq_node *first = first_in_tree(queue);

        return first && first->deadline <= now && tick_of(first->deadline) < queue->tick ? first : NULL;
}

unsigned
weir__timerq_expire(struct weir__timerq *queue, weir_nsec now, struct weir__timerq_node *expired[], unsigned most, bool *more)
{
        struct weir__timerq_node *node;
        unsigned budget = WEIR__TIMERQ_BATCH - queue->moving_count, count = 0;

        queue->is_next_known = false;
        flush_moves(queue);
        for (;;) {
                while (budget > 0 && count < most && (node = first_due(queue, now))) {
                        weir__timerq_remove(queue, node);
                        expired[count++] = node;
                        budget--;
                }
                if (budget == 0 || count == most || queue->tick > tick_of(now))
                        break;
                if (cascade_tick(queue, &budget) && cascade_ahead(queue, &budget))
                        advance(queue, tick_of(now) + 1);
        }
        *more = queue->tick <= tick_of(now) || first_due(queue, now);
        return count;
}

/* When expire must be called because of a level, given its first occupied slot.  For an overfull slot that is as soon as its
 * nodes may move down, or go on to do so.  Of the other slots only the second one can come before the deadlines of the first. */
static weir_nsec
next_of_level(const struct weir__timerq *queue, unsigned level, uint64_t number)
{
        weir_nsec earliest = queue->slots[index_of(number, level)].earliest;

        if (is_overfull(queue, level, number)) {
                int64_t begin = first_tick(number - 1, level);
                return begin_of(begin > queue->tick ? begin : queue->tick);
        }
        if (is_overfull(queue, level, number + 1)) {
                weir_nsec begin = begin_of(first_tick(number, level));
                return begin < earliest ? begin : earliest;
        }
        return earliest;
}

static weir_nsec
compute_next(const struct weir__timerq *queue)
{
        const struct weir__timerq_node *first = first_in_tree(queue);
        weir_nsec next = first ? first->deadline : WEIR_FOREVER;

        if (queue->count == 0)
                return WEIR_FOREVER;
        for (unsigned level = 0; level < LEVELS; level++) {
                uint64_t number;

                if (first_occupied(queue, level, &number)) {
                        weir_nsec wanted = next_of_level(queue, level, number);
                        next = wanted < next ? wanted : next;
                }
        }
        return next;
}

/* A poller asks before each sleep, and between most of them nothing changes. */
weir_nsec
weir__timerq_next(struct weir__timerq *queue)
{
        if (!queue->is_next_known) {
                flush_moves(queue);
                queue->next = compute_next(queue);
                queue->is_next_known = true;
        }
        return queue->next;
}

static struct weir__timerq_node *
any_node(const struct weir__timerq *queue)
{
        unsigned word = 0;

        if (first_in_tree(queue))
                return first_in_tree(queue);
        while (!queue->occupied[word])
                word++;
        return node_of_link(queue->slots[word * 64 + lowest_bit(queue->occupied[word])].list.next);
}

unsigned
weir__timerq_drain(struct weir__timerq *queue, struct weir__timerq_node *taken[], unsigned max)
{
        unsigned count = 0;

        while (count < max && queue->count > 0) {
                taken[count] = any_node(queue);
                weir__timerq_remove(queue, taken[count++]);
        }
        return count;
}
