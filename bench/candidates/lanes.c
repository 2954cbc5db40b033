/* bench/candidates/lanes.c: a FIFO lane for each duration, the lanes in a red-black tree.
 *
 * Threads and locks: none.  A node that joins or leaves behind the first of its lane costs a list operation; the first one costs
 * the tree a removal and an insertion, and a lane of its own, which is what each node of a random duration has. */
#include "candidates/lanes.h"

#include <stdlib.h>

#define BUCKETS 1024 /* at first */

bool
lanes_init(struct lanes *lanes)
{
        *lanes = (struct lanes){.mask = BUCKETS - 1};
        lanes->buckets = calloc(BUCKETS, sizeof *lanes->buckets);
        return lanes->buckets != NULL;
}

/* -- the lanes by duration -- */

static struct lanes_lane **
bucket_of(struct lanes *lanes, int64_t duration)
{
        uint64_t hash = (uint64_t)duration * UINT64_C(0x9e3779b97f4a7c15);

        return &lanes->buckets[(hash >> 32) & lanes->mask];
}

/* Doubles the buckets.  When memory is short the old ones stay, only slower. */
static void
grow(struct lanes *lanes)
{
        size_t before = lanes->mask + 1;
        struct lanes_lane **old = lanes->buckets, **buckets = calloc(before * 2, sizeof *buckets);

        if (!buckets)
                return;
        lanes->buckets = buckets;
        lanes->mask = before * 2 - 1;
        for (size_t i = 0; i < before; i++) {
                for (struct lanes_lane *lane = old[i], *next; lane; lane = next) {
                        struct lanes_lane **bucket = bucket_of(lanes, lane->duration);

                        next = lane->next;
                        lane->next = *bucket;
                        *bucket = lane;
                }
        }
        free(old);
}

static struct lanes_lane *
new_lane(struct lanes *lanes, struct lanes_lane **bucket, int64_t duration)
{
        struct lanes_lane *lane = lanes->spare;

        if (lane)
                lanes->spare = lane->next;
        else if (!(lane = malloc(sizeof *lane)))
                return NULL;
        *lane = (struct lanes_lane){.duration = duration, .next = *bucket};
        *bucket = lane;
        if (++lanes->lane_count > lanes->mask)
                grow(lanes);
        return lane;
}

/* The lane of a duration; a new one is empty, and not in the tree. */
static struct lanes_lane *
lane_for(struct lanes *lanes, int64_t duration)
{
        struct lanes_lane **bucket = bucket_of(lanes, duration);

        for (struct lanes_lane *lane = *bucket; lane; lane = lane->next)
                if (lane->duration == duration)
                        return lane;
        return new_lane(lanes, bucket, duration);
}

static void
drop_lane(struct lanes *lanes, struct lanes_lane *lane)
{
        struct lanes_lane **link = bucket_of(lanes, lane->duration);

        while (*link != lane)
                link = &(*link)->next;
        *link = lane->next;
        lane->next = lanes->spare;
        lanes->spare = lane;
        lanes->lane_count--;
}

/* -- the tree -- */

static bool
is_before(const struct lanes_node *a, const struct lanes_node *b)
{
        return a->deadline != b->deadline ? a->deadline < b->deadline : a->sequence < b->sequence;
}

static struct lanes_node *
first_of(struct weir__rbtree_node *tree)
{
        return ((struct lanes_lane *)(void *)tree)->first; /* `tree` is the first field of the lane */
}

/* The far end is tried before the root, as timerq does. */
static void
insert(struct lanes *lanes, struct lanes_lane *lane)
{
        struct weir__rbtree_node *parent = lanes->tree.ends[WEIR__RBTREE_RIGHT], *at;
        unsigned side = WEIR__RBTREE_RIGHT;

        if (parent && is_before(lane->first, first_of(parent))) {
                for (at = lanes->tree.root; at; at = at->children[side]) {
                        parent = at;
                        side = !is_before(lane->first, first_of(at));
                }
        }
        weir__rbtree_insert(&lanes->tree, parent, side, &lane->tree);
}

/* -- the interface -- */

bool
lanes_add(struct lanes *lanes, struct lanes_node *node, int64_t after, int64_t now)
{
        struct lanes_lane *lane = lane_for(lanes, after);

        if (!lane)
                return false;
        *node = (struct lanes_node){now + after, lanes->sequence++, lane->last, NULL, lane};
        lane->last = node;
        if (node->previous) {
                node->previous->next = node;
        } else {
                lane->first = node;
                insert(lanes, lane);
        }
        return true;
}

void
lanes_remove(struct lanes *lanes, struct lanes_node *node)
{
        struct lanes_lane *lane = node->lane;

        node->lane = NULL;
        if (node->next)
                node->next->previous = node->previous;
        else
                lane->last = node->previous;
        if (node->previous) {
                node->previous->next = node->next;
                return;
        }
        weir__rbtree_remove(&lanes->tree, &lane->tree);
        lane->first = node->next;
        if (lane->first)
                insert(lanes, lane);
        else
                drop_lane(lanes, lane);
}

static struct lanes_node *
first_due(const struct lanes *lanes, int64_t now)
{
        struct weir__rbtree_node *tree = lanes->tree.ends[WEIR__RBTREE_LEFT];

        return tree && first_of(tree)->deadline <= now ? first_of(tree) : NULL;
}

unsigned
lanes_expire(struct lanes *lanes, int64_t now, struct lanes_node *expired[], bool *more)
{
        struct lanes_node *node;
        unsigned count = 0;

        while (count < LANES_BATCH && (node = first_due(lanes, now))) {
                lanes_remove(lanes, node);
                expired[count++] = node;
        }
        *more = first_due(lanes, now) != NULL;
        return count;
}
