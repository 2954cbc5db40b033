/* net/listen/addresses.c: counts the connections of each address.
 *
 * Threads: any.
 * Locks:   addresses->lock, a leaf, for a walk down the tree.  Memory is allocated before it is taken, and freed after.
 *
 * A node lives as long as its address has connections, so there are never more nodes than connections.  The tree is balanced, so
 * clients cannot choose addresses that make a walk long. */
#include "net/listen/addresses.h"

#include <string.h>

#include "kernel/memory/memory.h"

#define V4_BEGIN 12 /* of the four bytes */

struct network {
        unsigned char is_v6;
        unsigned char bytes[8]; /* an IPv4 address with four zero bytes behind it, or half of an IPv6 one */
};

struct node {
        struct weir__rbtree_node tree_node; /* first */
        struct network network;
        size_t connections; /* not 0 */
};

/* Returns false for a peer that has no address. */
static bool
network_of(const struct weir__peer *peer, struct network *network)
{
        bool is_v6 = peer->family == WEIR__PEER_V6;

        *network = (struct network){.is_v6 = is_v6};
        memcpy(network->bytes, peer->address + (is_v6 ? 0 : V4_BEGIN), is_v6 ? 8 : 4);
        return is_v6 || peer->family == WEIR__PEER_V4;
}

/* With the lock held: the node of the network; or NULL, and a new node belongs on that side of `*parent`. */
static struct node *
find(const struct weir__addresses *addresses, const struct network *network, struct weir__rbtree_node **parent,
     enum weir__rbtree_side *side)
{
        *parent = NULL;
        for (struct weir__rbtree_node *each = addresses->tree.root; each; each = each->children[*side]) {
                int order = memcmp(network, &((struct node *)each)->network, sizeof *network);

                if (order == 0)
                        return (struct node *)each;
                *parent = each;
                *side = order < 0 ? WEIR__RBTREE_LEFT : WEIR__RBTREE_RIGHT;
        }
        return NULL;
}

/* Uses *spare if a new node is needed, and sets it to NULL then. */
static bool
count_in(struct weir__addresses *addresses, const struct network *network, size_t max, struct node **spare)
{
        struct weir__rbtree_node *parent;
        enum weir__rbtree_side side = WEIR__RBTREE_LEFT;
        struct node *node = find(addresses, network, &parent, &side);

        if (!node && *spare && max) {
                node = *spare;
                *spare = NULL;
                *node = (struct node){.network = *network};
                weir__rbtree_insert(&addresses->tree, parent, side, &node->tree_node);
        }
        if (!node || node->connections >= max)
                return false;
        node->connections++;
        return true;
}

bool
weir__addresses_enter(struct weir__addresses *addresses, const struct weir__peer *peer, size_t max)
{
        struct network network;

        if (!network_of(peer, &network))
                return true;
        struct node *spare = weir__alloc(sizeof *spare);
        weir__lock(&addresses->lock);
        bool is_entered = count_in(addresses, &network, max, &spare);
        weir__unlock(&addresses->lock);
        if (spare)
                weir__free(spare, sizeof *spare);
        return is_entered;
}

void
weir__addresses_leave(struct weir__addresses *addresses, const struct weir__peer *peer)
{
        struct weir__rbtree_node *parent;
        enum weir__rbtree_side side;
        struct network network;

        if (!network_of(peer, &network))
                return;
        weir__lock(&addresses->lock);
        struct node *node = find(addresses, &network, &parent, &side);
        bool is_unused = --node->connections == 0;
        if (is_unused)
                weir__rbtree_remove(&addresses->tree, &node->tree_node);
        weir__unlock(&addresses->lock);
        if (is_unused)
                weir__free(node, sizeof *node);
}
