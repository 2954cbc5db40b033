/* net/upstream/choose.c: the policies.
 *
 * Threads: any.
 * Locks:   the upstream's, which the callers hold.
 *
 * Two choices and random ones look at one or two members, and search all only when these are busy or were tried.  The others look
 * at all members of a tier.
 *
 * Source:  Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 1996.
 *          nginx, "Upstream: smooth weighted round-robin balancing", 2012.
 *          Thaler and Ravishankar, Using Name-Based Mappings to Increase Hit Rates, 1998.
 *          Mirrokni, Thorup and Zadimoghaddam, Consistent Hashing with Bounded Loads, 2016. */
#include "kernel/data/siphash.h"
#include "kernel/runtime/random.h"
#include "net/upstream/member.h"

#define TURN_BITS 16 /* of a weight in turns: a random start is finer than a weight */

/* -- who is in question -- */

static bool
was_tried(const struct weir__wish *wish, const struct weir_member *member)
{
        for (unsigned i = 0; i < wish->tried_count; i++)
                if (wish->tried[i] == member->id)
                        return true;
        return false;
}

static bool
may_take(const struct weir_member *member, const struct weir__wish *wish, bool avoids_tried)
{
        return weir__member_in_flight(member) < member->max_in_flight && !(avoids_tried && was_tried(wish, member));
}

void
weir__choose_search(struct weir_upstream *upstream, enum weir_member_tier tier, const struct weir__wish *wish, bool avoids_tried)
{
        const struct weir__choices *ready = &upstream->ready[tier];

        upstream->found.count = 0;
        for (size_t i = 0; i < ready->count; i++)
                if (may_take(ready->at[i], wish, avoids_tried))
                        weir__choices_add(&upstream->found, ready->at[i]);
}

/* -- at random -- */

/* A number below `limit`. */
static uint64_t
below(uint64_t limit)
{
        return (uint64_t)((unsigned __int128)weir__random() * limit >> 64);
}

/* The member that a number below the sum of all weights falls to. */
static size_t
index_at(const struct weir__choices *ready, uint64_t number)
{
        size_t low = 0, high = ready->count - 1;

        if (ready->is_even)
                return (size_t)(number / ready->sums[0]);
        while (low < high) {
                size_t middle = (low + high) / 2;

                if (number < ready->sums[middle])
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

static struct weir_member *
choose_random(const struct weir__choices *ready)
{
        return ready->at[ready->count == 1 ? 0 : index_at(ready, below(weir__choices_weight(ready)))];
}

/* Whether the second one has fewer requests in flight for its weight. */
static bool
has_less(const struct weir_member *one, const struct weir_member *two)
{
        return (uint64_t)weir__member_in_flight(two) * weir__member_weight(one) <
               (uint64_t)weir__member_in_flight(one) * weir__member_weight(two);
}

/* Draws two different members by weight.  `two` is NULL if there is only one. */
static void
draw(const struct weir__choices *ready, struct weir_member **one, struct weir_member **two)
{
        uint64_t weight = weir__choices_weight(ready);
        size_t first = ready->count == 1 ? 0 : index_at(ready, below(weight));
        uint64_t own = weir__member_weight(ready->at[first]), before = ready->sums[first] - own;

        *one = ready->at[first];
        *two = NULL;
        if (ready->count == 1)
                return;
        uint64_t number = below(weight - own);
        *two = ready->at[index_at(ready, number < before ? number : number + own)];
}

static struct weir_member *
choose_of_two(const struct weir__choices *ready)
{
        struct weir_member *one, *two;

        draw(ready, &one, &two);
        return two && has_less(one, two) ? two : one;
}

/* The same two among all that are ready, if what they draw may be taken: then there is no search. */
static struct weir_member *
draw_random(const struct weir__choices *ready, const struct weir__wish *wish, bool avoids_tried)
{
        struct weir_member *member = choose_random(ready);

        return may_take(member, wish, avoids_tried) ? member : NULL;
}

static struct weir_member *
draw_of_two(const struct weir__choices *ready, const struct weir__wish *wish, bool avoids_tried)
{
        struct weir_member *one, *two;

        draw(ready, &one, &two);
        if (!may_take(one, wish, avoids_tried) || (two && !may_take(two, wish, avoids_tried)))
                return NULL;
        return two && has_less(one, two) ? two : one;
}

/* -- by turns -- */

static int64_t
turns_of(const struct weir_member *member)
{
        return (int64_t)weir__member_weight(member) << TURN_BITS;
}

/* With an own random start for each process, not all of them begin with the same member. */
static void
shuffle(struct weir_upstream *upstream)
{
        int64_t all[WEIR__TIERS] = {0};

        for (size_t i = 0; i < upstream->count; i++)
                all[upstream->members[i]->tier] += turns_of(upstream->members[i]);
        for (size_t i = 0; i < upstream->count; i++)
                upstream->members[i]->current = (int64_t)below((uint64_t)all[upstream->members[i]->tier]);
        upstream->is_shuffled = true;
}

static struct weir_member *
choose_by_turns(struct weir_upstream *upstream, const struct weir__choices *found)
{
        struct weir_member *next = NULL;
        int64_t all = 0;

        if (!upstream->is_shuffled)
                shuffle(upstream);
        for (size_t i = 0; i < found->count; i++) {
                struct weir_member *member = found->at[i];

                member->current += turns_of(member);
                all += turns_of(member);
                if (!next || member->current > next->current)
                        next = member;
        }
        next->current -= all;
        return next;
}

/* -- by a key -- */

/* The same in every process and on every machine, so that all agree on the member of a key. */
uint64_t
weir__choose_hash(const void *key, size_t size)
{
        static const uint64_t nothing[2] = {0};

        return weir__siphash(nothing, key, size);
}

/* splitmix64 */
static uint64_t
mix(uint64_t number)
{
        number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
        number = (number ^ number >> 27) * 0x94d049bb133111eb;
        return number ^ number >> 31;
}

/* The binary logarithm of a number above 0, in 2^-32, to 2^-16: that of the mantissa 1 + x is a polynomial of x, with the least
 * error from 0 to 1.  In integers, so that every machine gets the same. */
static int64_t
logarithm(uint64_t number)
{
        int exponent = 63 - __builtin_clzll(number);
        int64_t x = (int64_t)((number << (63 - exponent)) << 1 >> 32); /* 0 to 1, in 2^-32 */
        static const int64_t factors[] = {193864519, -831276082, 1784904003, -3045507411, 6192982267};
        int64_t sum = 0;

        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
                sum = (int64_t)((sum + factors[i]) * (__int128)x >> 32);
        return ((int64_t)exponent << 32) + sum;
}

/* A member's claim to a key; the least one wins.  Each member draws -log(u) / weight for the key, with u from 0 to 1: so it wins
 * by its share of the weights, and a member that comes or goes moves only the keys that it wins. */
static uint64_t
claim(const struct weir_member *member, uint64_t key, bool is_even)
{
        uint64_t number = mix(key + member->hash);

        if (is_even)
                return ~number;
        return (uint64_t)(((int64_t)64 << 32) - logarithm(number | 1)) * 65536 / weir__member_weight(member);
}

static struct weir_member *
choose_by_key(const struct weir_upstream *upstream, const struct weir__choices *found, const struct weir__wish *wish)
{
        uint64_t weight = weir__choices_weight(found), in_flight = 1, least = UINT64_MAX,
                 key = wish->key ? weir__choose_hash(wish->key, wish->key_size) : weir__random();
        struct weir_member *best = NULL;

        for (size_t i = 0; i < found->count; i++)
                in_flight += weir__member_in_flight(found->at[i]);
        for (size_t i = 0; i < found->count; i++) {
                struct weir_member *member = found->at[i];
                uint64_t its = claim(member, key, found->is_even);
                bool is_below = (unsigned __int128)weir__member_in_flight(member) * weight * 100 <
                                (unsigned __int128)in_flight * weir__member_weight(member) * upstream->config.hash_bound;

                if (is_below && (!best || its < least)) {
                        best = member;
                        least = its;
                }
        }
        return best;
}

/* -- all -- */

struct weir_member *
weir__choose(struct weir_upstream *upstream, enum weir_member_tier tier, const struct weir__wish *wish, bool avoids_tried)
{
        const struct weir__choices *ready = &upstream->ready[tier], *found = &upstream->found;
        enum weir_upstream_policy policy = upstream->config.policy;
        struct weir_member *member = NULL;

        if (ready->count == 0)
                return NULL;
        if (policy == WEIR_UPSTREAM_TWO_CHOICES)
                member = draw_of_two(ready, wish, avoids_tried);
        else if (policy == WEIR_UPSTREAM_RANDOM)
                member = draw_random(ready, wish, avoids_tried);
        if (member)
                return member;
        weir__choose_search(upstream, tier, wish, avoids_tried);
        if (found->count == 0)
                return NULL;
        switch (policy) {
        case WEIR_UPSTREAM_ROUND_ROBIN: return choose_by_turns(upstream, found);
        case WEIR_UPSTREAM_HASH: return choose_by_key(upstream, found, wish);
        case WEIR_UPSTREAM_RANDOM: return choose_random(found);
        default: return choose_of_two(found);
        }
}
