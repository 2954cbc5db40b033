/* factory/names/names.h: a map from names to the objects that bear them, in order of coming, for any number of threads.
 *
 * Sharded by a keyed hash.  An object is its own entry: the first of a name lies in a table, the others in a chain behind it, so
 * that add, take and count are O(1) whatever the number of names or of objects under one name.
 *
 * An object that is ending may leave its name before it is gone; then it is on the shard's list of those, where a walk finds
 * it. */
#ifndef WEIR_FACTORY_NAMES_H
#define WEIR_FACTORY_NAMES_H

#include <errno.h>

#include <weir/timer.h>

#include "factory/names/name_table.h"
#include "kernel/base/latch.h"
#include "kernel/base/lock.h"

#define WEIR__NAMES_SHARD_BITS 6 /* the upper ones of a hash */
#define WEIR__NAMES_SHARDS     (1 << WEIR__NAMES_SHARD_BITS)
#define WEIR__NAMES_SMALLEST   2 /* lines of a table */

/* How many bytes an object with a name takes, given those before the name. */
#define WEIR__NAME_SIZE(before, text_size) ((before) + offsetof(struct weir__name, text) + (text_size) + 1)

struct weir__names_shard {
        _Alignas(64) struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__name_table now, before; /* `before` is being moved over, some lines with each change */
        size_t moved;                        /* lines of `before` whose names are all in `now` */
        size_t names;                        /* different ones */
        struct weir__name *ending, *ending_last;
        struct weir__names_walk *walks;                                     /* that are under way */
        _Alignas(64) struct weir__name_line smallest[WEIR__NAMES_SMALLEST]; /* of the smallest table */
};

struct weir__names {
        struct weir__names_shard shards[WEIR__NAMES_SHARDS];
};

#define WEIR__NAMES_INITIALIZER                                                                                   \
        {                                                                                                         \
                .shards = { [0 ... WEIR__NAMES_SHARDS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_NAMES)} } \
        }

uint32_t weir__name_hash(const char *text, size_t size);

/* For a text of at most UINT16_MAX bytes. */
static inline struct weir__name_key
weir__name_key(const char *text, size_t size)
{
        return (struct weir__name_key){text, size, weir__name_hash(text, size)};
}

/* The key of a name that the program gives.
 *
 * Result:  0; -EINVAL for NULL and "", -ENAMETOOLONG. */
static inline int
weir__name_read(const char *text, struct weir__name_key *key)
{
        size_t size = text ? strlen(text) : 0;

        if (size == 0 || size > WEIR_NAME_MAX)
                return size == 0 ? -EINVAL : -ENAMETOOLONG;
        *key = weir__name_key(text, size);
        return 0;
}

static inline bool
weir__names_same_shard(uint32_t hash, uint32_t other)
{
        return (hash ^ other) >> (32 - WEIR__NAMES_SHARD_BITS) == 0;
}

/* The shard of a hash, locked; to be given to weir__names_unlock. */
static inline struct weir__names_shard *
weir__names_lock(struct weir__names *names, uint32_t hash)
{
        struct weir__names_shard *shard = &names->shards[hash >> (32 - WEIR__NAMES_SHARD_BITS)];

        weir__lock(&shard->lock);
        return shard;
}

static inline void
weir__names_unlock(struct weir__names_shard *shard)
{
        weir__unlock(&shard->lock);
}

/* Copies key and text into an object (room for key->size + 1 bytes is behind it), which then is in no map. */
void weir__names_init(struct weir__name *name, const struct weir__name_key *key);

/* Adds such an object as the newest of its name.  Returns false when out of memory: its table cannot grow and is full.  Under the
 * shard's lock. */
bool weir__names_put(struct weir__names_shard *shard, struct weir__name *name);

/* Both, with the lock taken and let go. */
bool weir__names_add(struct weir__names *names, struct weir__name *name, const struct weir__name_key *key);

/* The oldest object of a name, or NULL; `newer` leads on to the newest.  Under the shard's lock. */
struct weir__name *weir__names_find(struct weir__names_shard *shard, const struct weir__name_key *key);

/* Takes an object out, from wherever it is; no-op when it was before.  Under the shard's lock. */
void weir__names_unlink(struct weir__names_shard *shard, struct weir__name *name);

/* Takes an object out of the chain of its name, and puts it onto the list of ending ones.  `runs`: walks over that list which have
 * not begun to move visit it as well, for they may be meant to wait for what runs.  Under the shard's lock. */
void weir__names_end(struct weir__names_shard *shard, struct weir__name *name, bool runs);

/* As unlink, with the lock taken and let go. */
void weir__names_remove(struct weir__names *names, struct weir__name *name);

/* Makes an object the newest of its name.  For a walk that is under way it is one that came after its beginning.  Under the shard's
 * lock. */
void weir__names_renew(struct weir__names_shard *shard, struct weir__name *name);

/* Has walks that wait for this object look at it again; it is not touched, and may be gone.  Under the shard's lock. */
void weir__names_look_again(struct weir__names_shard *shard, const struct weir__name *name);

/* How many objects bear the name. */
size_t weir__names_count(struct weir__names *names, const struct weir__name_key *key);

/* Takes the locks of all shards, and lets them go: around a fork, so that the child has a map that nobody is changing. */
void weir__names_hold(struct weir__names *names);
void weir__names_let_go(struct weir__names *names);

/* -- walking, with pauses --
 *
 * A walk over a chain, or over the list of ending objects, goes on where it was after the lock was let go: its place is moved
 * when the object there is taken out.  It ends before the first object that came after its beginning.  All under the shard's
 * lock. */

struct weir__names_walk {
        struct weir__name *at;  /* the object to be visited next */
        struct weir__name *end; /* the first one not to be; NULL: none has come yet */
        struct weir__name_key key;
        bool over_ending; /* which of the two it goes over */
        bool moved;       /* it is not where it began any more, or has waited there */
        bool waits;       /* who walks sleeps until `at` is taken out */
        struct weir__latch taken_out;
        struct weir__names_walk *previous, *next;
};

/* Begins at the oldest object of that name, or at the first ending one of any name; the key must stay valid. */
void weir__names_walk_begin(struct weir__names_shard *shard, struct weir__names_walk *walk, const struct weir__name_key *key,
                            bool over_ending);
void weir__names_walk_end(struct weir__names_shard *shard, struct weir__names_walk *walk);

/* Where it is: NULL at the end. */
static inline struct weir__name *
weir__names_walk_at(const struct weir__names_walk *walk)
{
        return walk->at == walk->end ? NULL : walk->at;
}

/* From where it is, which is not the end; under the same hold of the lock as the visit. */
static inline void
weir__names_walk_on(struct weir__names_walk *walk)
{
        walk->at = walk->at->newer;
        walk->moved = true;
}

/* Lets the lock go until the object where the walk is was taken out, whereupon it is at the next. */
void weir__names_walk_wait(struct weir__names_shard *shard, struct weir__names_walk *walk);

/* -- going through all names of a shard, with pauses -- */

/* Where it is.  The text of the key must be readable at the next call; a size of 0 is before, SIZE_MAX behind all names of that
 * hash, and then there need be none. */
struct weir__names_scan {
        struct weir__name_key key; /* of the name that was come to last */
        unsigned range_bits;       /* the hashes are gone through in 2^range_bits ranges */
        bool begun;
};

static inline struct weir__names_scan
weir__names_scan_begin(unsigned shard)
{
        return (struct weir__names_scan){.key.hash = shard * (UINT32_C(1) << (32 - WEIR__NAMES_SHARD_BITS))};
}

/* The next name: within a range of hashes in the order of (hash, size, text); the ranges come in an order of their own.  Neither
 * misses nor repeats one that is there all the time.  Looks at no more than *budget lines, and takes them off it.
 *
 * Result:  the oldest object of that name; or NULL: *done says that there is none, else call again. */
struct weir__name *weir__names_scan(struct weir__names_shard *shard, struct weir__names_scan *scan, unsigned *budget, bool *done);

/* The next name with the same hash, or NULL. */
struct weir__name *weir__names_scan_hash(struct weir__names_shard *shard, struct weir__names_scan *scan);

#endif
