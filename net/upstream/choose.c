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

#define CREDIT_BITS 16 /* of a weight as a credit: a random start is finer than a weight */

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
index_at(const struct weir__choices *choices, uint64_t number)
{
        size_t low = 0, high = choices->count - 1;

        if (choices->is_even)
                return (size_t)(number / choices->sums[0]);
        while (low < high) {
                size_t middle = (low + high) / 2;

                if (number < choices->sums[middle])
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

/* A draw among members of which some may not be taken is NULL if it falls to one of these. */
static struct weir_member *
draw_one(const struct weir__choices *choices, const struct weir__wish *wish, bool avoids_tried)
{
        struct weir_member *member =
                choices->at[choices->count == 1 ? 0 : index_at(choices, below(weir__choices_weight(choices)))];

        return may_take(member, wish, avoids_tried) ? member : NULL;
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
draw_two(const struct weir__choices *choices, struct weir_member **one, struct weir_member **two)
{
        uint64_t weight = weir__choices_weight(choices);
        size_t first = choices->count == 1 ? 0 : index_at(choices, below(weight));
        uint64_t own = weir__member_weight(choices->at[first]), before = choices->sums[first] - own;

        *one = choices->at[first];
        *two = NULL;
        if (choices->count == 1)
                return;
        uint64_t number = below(weight - own);
        *two = choices->at[index_at(choices, number < before ? number : number + own)];
}

static struct weir_member *
draw_of_two(const struct weir__choices *choices, const struct weir__wish *wish, bool avoids_tried)
{
        struct weir_member *one, *two;

        draw_two(choices, &one, &two);
        if (!may_take(one, wish, avoids_tried) || (two && !may_take(two, wish, avoids_tried)))
                return NULL;
        return two && has_less(one, two) ? two : one;
}

/* -- round robin -- */

static int64_t
credit_of(const struct weir_member *member)
{
        return (int64_t)weir__member_weight(member) << CREDIT_BITS;
}

/* Gives each process a random start, so that not all of them begin with the same member. */
static void
shuffle(struct weir_upstream *upstream)
{
        int64_t all[WEIR__TIERS] = {0};

        for (size_t i = 0; i < upstream->count; i++)
                all[upstream->members[i]->tier] += credit_of(upstream->members[i]);
        for (size_t i = 0; i < upstream->count; i++)
                upstream->members[i]->current = (int64_t)below((uint64_t)all[upstream->members[i]->tier]);
        upstream->is_shuffled = true;
}

static struct weir_member *
choose_round_robin(struct weir_upstream *upstream, const struct weir__choices *ready, const struct weir__wish *wish,
                   bool avoids_tried)
{
        struct weir_member *next = NULL;
        int64_t all = 0;

        if (!upstream->is_shuffled)
                shuffle(upstream);
        for (size_t i = 0; i < ready->count; i++) {
                struct weir_member *member = ready->at[i];

                if (!may_take(member, wish, avoids_tried))
                        continue;
                member->current += credit_of(member);
                all += credit_of(member);
                if (!next || member->current > next->current)
                        next = member;
        }
        if (next)
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

#define LOG_BITS 30 /* of a logarithm, behind the point */

/* The binary logarithm of a number above 0, to 2^-16: that of the mantissa 1 + x is a polynomial of x, with the least error from
 * 0 to 1.  In integers, so that every machine gets the same. */
static int64_t
logarithm(uint64_t number)
{
        static const int64_t factors[] = {48466130, -207819020, 446226001, -761376853, 1548245566};
        int exponent = 63 - __builtin_clzll(number);
        int64_t x = (int64_t)(number << (63 - exponent) << 1 >> (64 - LOG_BITS)), sum = 0;

        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
                sum = (sum + factors[i]) * x >> LOG_BITS;
        return ((int64_t)exponent << LOG_BITS) + sum;
}

/* Rendezvous hashing.  A member's score for a key is `cost` / `weight`; the least one wins.  Each member draws -log(u) for the
 * key, with u from 0 to 1.  So it wins by its share of the weights, and a member that comes or goes moves only the keys that it
 * wins.  With equal weights the logarithm changes nothing. */
struct score {
        uint64_t cost;
        uint32_t weight;
};

static struct score
score_of(const struct weir_member *member, uint64_t key, bool is_even)
{
        uint64_t number = mix(key + member->hash);

        if (is_even)
                return (struct score){~number, 1};
        return (struct score){(uint64_t)(((int64_t)64 << LOG_BITS) - logarithm(number | 1)), weir__member_weight(member)};
}

static bool
is_less(struct score one, struct score two, bool is_even)
{
        return is_even ? one.cost < two.cost : one.cost * two.weight < two.cost * one.weight;
}

/* Whether the bound leaves it room for another one of so many requests in flight. */
static bool
is_below_bound(const struct weir_upstream *upstream, const struct weir_member *member, uint64_t in_flight, uint64_t weight)
{
        return (unsigned __int128)weir__member_in_flight(member) * weight * 100 <
               (unsigned __int128)in_flight * weir__member_weight(member) * upstream->config.hash_bound;
}

static struct weir_member *
choose_among(const struct weir_upstream *upstream, const struct weir__choices *choices, uint64_t key, uint64_t in_flight)
{
        uint64_t weight = weir__choices_weight(choices);
        struct score least = {0, 0};
        struct weir_member *best = NULL;

        for (size_t i = 0; i < choices->count; i++) {
                struct weir_member *member = choices->at[i];
                struct score its = score_of(member, key, choices->is_even);

                if ((best && !is_less(its, least, choices->is_even)) || !is_below_bound(upstream, member, in_flight, weight))
                        continue;
                best = member;
                least = its;
        }
        return best;
}

/* The request itself is one of those in flight. */
static uint64_t
count_in_flight(const struct weir__choices *choices)
{
        uint64_t in_flight = 1;

        for (size_t i = 0; i < choices->count; i++)
                in_flight += weir__member_in_flight(choices->at[i]);
        return in_flight;
}

static bool
may_take_all(const struct weir__choices *choices, const struct weir__wish *wish, bool avoids_tried)
{
        for (size_t i = 0; i < choices->count; i++)
                if (!may_take(choices->at[i], wish, avoids_tried))
                        return false;
        return true;
}

static struct weir_member *
choose_by_key(struct weir_upstream *upstream, enum weir_member_tier tier, const struct weir__wish *wish, bool avoids_tried)
{
        const struct weir__choices *choices = &upstream->ready[tier];
        uint64_t key = wish->key ? weir__choose_hash(wish->key, wish->key_size) : weir__random();

        if (!may_take_all(choices, wish, avoids_tried)) {
                weir__choose_search(upstream, tier, wish, avoids_tried);
                choices = &upstream->found;
        }
        return choose_among(upstream, choices, key, count_in_flight(choices));
}

/* -- all -- */

static struct weir_member *
draw(const struct weir_upstream *upstream, const struct weir__choices *choices, const struct weir__wish *wish, bool avoids_tried)
{
        if (upstream->config.policy == WEIR_UPSTREAM_RANDOM)
                return draw_one(choices, wish, avoids_tried);
        return draw_of_two(choices, wish, avoids_tried);
}

struct weir_member *
weir__choose(struct weir_upstream *upstream, enum weir_member_tier tier, const struct weir__wish *wish, bool avoids_tried)
{
        const struct weir__choices *ready = &upstream->ready[tier];

        if (ready->count == 0)
                return NULL;
        if (upstream->config.policy == WEIR_UPSTREAM_ROUND_ROBIN)
                return choose_round_robin(upstream, ready, wish, avoids_tried);
        if (upstream->config.policy == WEIR_UPSTREAM_HASH)
                return choose_by_key(upstream, tier, wish, avoids_tried);
        struct weir_member *member = draw(upstream, ready, wish, avoids_tried);
        if (member)
                return member;
        weir__choose_search(upstream, tier, wish, avoids_tried);
        return upstream->found.count ? draw(upstream, &upstream->found, wish, avoids_tried) : NULL;
}
