/* server/listen/addresses.c: how many connections each address has.
 *
 * Threads: any.
 * Locks:   addresses->lock, a leaf, for the length of one chain.  Memory is allocated before it is taken, and freed after.
 *
 * A map with chains, whose number is chosen once by how many connections there can be: it never grows, so that no lock is held
 * while many nodes move.  Chains may be some nodes long when the program allows itself more descriptors later; a client
 * cannot make them longer, as the hash has a key.  A node lives as long as its address has connections, so that
 * there are never more nodes than connections. */
#include "server/listen/addresses.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "factory/names/names.h"
#include "kernel/base/lock.h"
#include "kernel/memory/memory.h"

#define CHAINS_MIN ((size_t)64)
#define CHAINS_MAX ((size_t)64 * 1024)
#define V4_BEGIN   12 /* of the four bytes */

struct network {
        unsigned char bytes[8]; /* an IPv4 address with four zero bytes behind it, or half of an IPv6 one */
        bool is_v6;
};

struct node {
        struct node *next;
        struct network network;
        size_t connections; /* not 0 */
};

struct weir__addresses {
        size_t chain_count; /* constant, a power of two */
        struct weir__lock lock;

        /* Guarded by lock. */
        size_t count; /* of nodes */
        struct node *chains[];
};

static size_t
chains_for(size_t connections)
{
        struct rlimit limit;
        size_t count = CHAINS_MIN;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < connections)
                connections = limit.rlim_cur;
        while (count < connections && count < CHAINS_MAX)
                count *= 2;
        return count;
}

struct weir__addresses *
weir__addresses_new(size_t max_connections)
{
        size_t count = chains_for(max_connections);
        struct weir__addresses *addresses = calloc(1, sizeof *addresses + count * sizeof addresses->chains[0]);

        if (!addresses)
                return NULL;
        addresses->chain_count = count;
        weir__lock_init(&addresses->lock, WEIR__RANK_LEAF);
        return addresses;
}

void
weir__addresses_free(struct weir__addresses *addresses)
{
        free(addresses);
}

/* Returns false for a peer that has no address. */
static bool
network_of(const struct weir__peer *peer, struct network *network)
{
        bool is_v6 = peer->family == WEIR__PEER_V6;

        *network = (struct network){.is_v6 = is_v6};
        memcpy(network->bytes, peer->address + (is_v6 ? 0 : V4_BEGIN), is_v6 ? 8 : 4);
        return is_v6 || peer->family == WEIR__PEER_V4;
}

static bool
is_same(const struct network *one, const struct network *other)
{
        return one->is_v6 == other->is_v6 && memcmp(one->bytes, other->bytes, sizeof one->bytes) == 0;
}

static struct node **
chain_of(struct weir__addresses *addresses, const struct network *network)
{
        uint32_t hash = weir__name_hash((const char *)network->bytes, sizeof network->bytes);

        return &addresses->chains[hash & (addresses->chain_count - 1)];
}

/* With the lock held: the link to its node, or the one at the end of the chain. */
static struct node **
find(struct node **link, const struct network *network)
{
        while (*link && !is_same(&(*link)->network, network))
                link = &(*link)->next;
        return link;
}

/* Takes `spare` if it is needed, and leaves NULL there then. */
static bool
count_in(struct weir__addresses *addresses, const struct network *network, size_t max, struct node **spare)
{
        struct node **link = find(chain_of(addresses, network), network);

        if (!*link && *spare) {
                **spare = (struct node){.network = *network};
                *link = *spare;
                *spare = NULL;
                addresses->count++;
        }
        if (!*link || (*link)->connections >= max)
                return false;
        (*link)->connections++;
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
        bool entered = count_in(addresses, &network, max, &spare);
        weir__unlock(&addresses->lock);
        if (spare)
                weir__free(spare, sizeof *spare);
        return entered;
}

void
weir__addresses_leave(struct weir__addresses *addresses, const struct weir__peer *peer)
{
        struct node *unused = NULL;
        struct network network;

        if (!network_of(peer, &network))
                return;
        weir__lock(&addresses->lock);
        struct node **link = find(chain_of(addresses, &network), &network);
        if (--(*link)->connections == 0) {
                unused = *link;
                *link = unused->next;
                addresses->count--;
        }
        weir__unlock(&addresses->lock);
        if (unused)
                weir__free(unused, sizeof *unused);
}

size_t
weir__addresses_count(struct weir__addresses *addresses)
{
        weir__lock(&addresses->lock);
        size_t count = addresses->count;
        weir__unlock(&addresses->lock);
        return count;
}
