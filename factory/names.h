/* factory/names.h: a map from names to the objects that bear them, in order of coming, for any number of threads.
 *
 * Sharded by a keyed hash.  An object is its own entry: the first of a name lies in a bucket, the others in a ring behind it,
 * so that add, take and count are O(1) whatever the number of names or of objects under one name. */
#ifndef WEIR_FACTORY_NAMES_H
#define WEIR_FACTORY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/lock.h"

#define WEIR__NAMES_SHARDS 64

/* Embedded in what bears a name; the text follows it directly in memory. */
struct weir__name {
        /* Guarded by the lock of the shard. */
        struct weir__name *next_in_bucket; /* of the first of a name only */
        struct weir__name *older, *newer;  /* the ring; the first one's `older` is the newest */
        uint32_t count;                    /* in the ring; of the first of a name only */
        bool linked, first;

        /* Constant. */
        uint16_t size; /* of the text, without the NUL behind it */
        uint64_t hash;
};

struct weir__names_table {
        struct weir__name **buckets;
        size_t mask; /* their number - 1 */
};

struct weir__names_shard {
        _Alignas(64) struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__names_table now, before; /* `before` is being moved over, some with each change; NULL buckets: none */
        size_t moved;                         /* buckets of `before` that are empty for good */
        size_t names;                         /* different ones */
};

struct weir__names {
        struct weir__names_shard shards[WEIR__NAMES_SHARDS];
};

#define WEIR__NAMES_INITIALIZER \
        {.shards = {[0 ... WEIR__NAMES_SHARDS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_NAMES)}}}

/* A name to look up.  Valid as long as the text is. */
struct weir__name_key {
        const char *text;
        size_t size;
        uint64_t hash;
};

static inline char *weir__name_text(const struct weir__name *name)
{
        return (char *)(name + 1);
}

/* Hashes a text of at most UINT16_MAX bytes. */
struct weir__name_key weir__name_key(const char *text, size_t size);

/* The shard of a hash, locked; to be given to weir__names_unlock. */
struct weir__names_shard *weir__names_lock(struct weir__names *names, uint64_t hash);
void weir__names_unlock(struct weir__names_shard *shard);

/* Adds an object as the newest of its name, copying key and text into it (room for key->size + 1 bytes is behind it).  Returns
 * false when out of memory: only the first name of a shard can fail. */
bool weir__names_add(struct weir__names *names, struct weir__name *name, const struct weir__name_key *key);

/* The oldest object of a name, or NULL; `newer` leads from it round to itself.  Under the shard's lock. */
struct weir__name *weir__names_find(struct weir__names_shard *shard, const struct weir__name_key *key);

/* Takes an object out; no-op when it was before.  Under the shard's lock. */
void weir__names_unlink(struct weir__names_shard *shard, struct weir__name *name);

/* The same, with the lock taken and let go. */
void weir__names_remove(struct weir__names *names, struct weir__name *name);

/* How many objects bear the name. */
size_t weir__names_count(struct weir__names *names, const struct weir__name_key *key);

#endif
