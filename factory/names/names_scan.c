/* factory/names/names_scan.c: scans over all names of a shard.
 *
 * Threads: any.
 * Locks:   the shard's (rank NAMES).
 *
 * A scan takes the names in an order of their hashes, which no change of the tables disturbs. */
#include "factory/names/names.h"

#include <string.h>

#define SHARD_BITS WEIR__NAMES_SHARD_BITS
#define RANGE_BITS 10

static bool
is_before(const struct weir__name *name, const struct weir__name_key *key)
{
        if (name->hash != key->hash)
                return name->hash < key->hash;
        return name->size != key->size ? name->size < key->size : memcmp(name->text, key->text, key->size) < 0;
}

/* The first name behind `key` that has more than zombies, has a hash of at most `last`, and belongs into the same line. */
static struct weir__name *
first_behind(struct weir__names_shard *shard, const struct weir__name_key *key, uint32_t last)
{
        const struct weir__name_table *table = weir__names_table(shard, key->hash);
        size_t line = weir__names_line(table, key->hash), at = 0;
        struct weir__name_key best = {.hash = last, .size = SIZE_MAX};
        struct weir__name *first = NULL;

        for (struct weir__name **slot; (slot = weir__name_table_next(table, line, &at));) {
                bool is_behind = !is_before(*slot, key) && !weir__name_has(*slot, key);

                if (!weir__name_alive(*slot) || !is_behind || !is_before(*slot, &best))
                        continue;
                first = *slot;
                best = weir__name_key_of(first);
        }
        return first;
}

/* The last hash of the line of `hash`, in the table with the shorter lines. */
static uint32_t
last_of_piece(const struct weir__names_shard *shard, uint32_t hash)
{
        unsigned finer = shard->before.lines && shard->before.shift < shard->now.shift ? shard->before.shift : shard->now.shift;

        return hash | ((UINT32_C(1) << finer) - 1) >> SHARD_BITS;
}

/* Goes to the next range, in the order of the numbers with their bits reversed: 0, 4, 2, 6, 1, 5, 3, 7.  Returns false behind the
 * last one.  In plain order, a cancel of all names would leave only the last lines of a table full; a smaller table would then
 * have all of them in the same lines. */
static bool
next_range(struct weir__names_scan *scan)
{
        for (unsigned i = 0; i < scan->range_bits; i++) {
                uint32_t bit = UINT32_C(1) << (31 - SHARD_BITS - i);

                scan->key.hash ^= bit;
                if (scan->key.hash & bit)
                        return true;
        }
        return false;
}

struct weir__name *
weir__names_scan(struct weir__names_shard *shard, struct weir__names_scan *scan, unsigned *budget, bool *done)
{
        *done = !shard->names;
        if (!*done && !scan->has_begun) {
                scan->range_bits = 32 - shard->now.shift < RANGE_BITS ? 32 - shard->now.shift : RANGE_BITS;
                scan->has_begun = true;
        }
        for (; !*done && *budget > 0; --*budget) {
                uint32_t range_last = scan->key.hash | (UINT32_MAX >> SHARD_BITS >> scan->range_bits);
                uint32_t piece_last = last_of_piece(shard, scan->key.hash),
                         last = piece_last < range_last ? piece_last : range_last;
                struct weir__name *name = first_behind(shard, &scan->key, last);

                if (name) {
                        scan->key = weir__name_key_of(name);
                        return name;
                }
                scan->key = (struct weir__name_key){.hash = last + 1};
                if (last < range_last)
                        continue;
                scan->key.hash = range_last & ~(UINT32_MAX >> SHARD_BITS >> scan->range_bits);
                *done = !next_range(scan);
        }
        return NULL;
}
