/* factory/names/names.h: a map from names to objects, which keeps the objects of a name in the order of their making.
 *
 * The map has shards, which a keyed hash of the name selects.  An object is its own entry: the head of the chain of a name
 * lies in a table, the others are behind it.  So adding, removing and counting are O(1) for any number of names or objects.
 *
 * An object that is cancelled and has not ended yet is a zombie.  Zombies are at the end of the chain.  A search does not find
 * them; a walk over zombies does. */
#ifndef WEIR_FACTORY_NAMES_H
#define WEIR_FACTORY_NAMES_H

#include <errno.h>
#include <pthread.h>

#include <weir/timer.h>

#include "factory/names/name_table.h"
#include "kernel/base/latch.h"
#include "kernel/base/lock.h"
#include "kernel/observe/log.h"

#define WEIR__NAMES_SHARD_BITS 6 /* the upper ones of a hash */
#define WEIR__NAMES_SHARDS     (1 << WEIR__NAMES_SHARD_BITS)
#define WEIR__NAMES_SMALLEST   2 /* lines of a table */

/* How many bytes an object with a name takes, given those before the name. */
#define WEIR__NAME_SIZE(before, text_size) ((before) + offsetof(struct weir__name, text) + (text_size) + 1)

struct weir__names_shard {
        _Alignas(64) struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__name_table now, before; /* the lines of `before` are moved to `now`, some with each change */
        size_t moved;                        /* lines of `before` that are moved */
        size_t names;                        /* different ones */
        struct weir__names_walk *walks;
        _Alignas(64) struct weir__name_line smallest[WEIR__NAMES_SMALLEST]; /* the memory of the smallest table */
};

struct weir__names {
        struct weir__names_shard shards[WEIR__NAMES_SHARDS];
};

/* What tasks wait at.  Each kind has a map of names of its own. */
enum weir__waitable_kind {
        WEIR__COUNTER = 0,
        WEIR__MAILBOX,
        WEIR__CONDITION,
        WEIR__CHANNEL,
        WEIR__GUARD,
        WEIR__SEMAPHORE,
        WEIR__POOL,
        WEIR__BARRIER,
        WEIR__WATCH,
        WEIR__TOPIC,
        WEIR__SIGNAL,
        WEIR__RATE,
        WEIR__WAITABLE_KINDS,
        WEIR__UNNAMED = WEIR__WAITABLE_KINDS, /* objects of this kind never have names */
};

/* The maps: here, so that one module holds all of them during a fork. */
extern struct weir__names weir__timer_names, weir__series_names, weir__queue_names, weir__upstream_names,
        weir__waitable_names[WEIR__WAITABLE_KINDS];

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

/* Logs which names there are, if that is the fault.  `what` has the name, such as "a timer".  Is the fault. */
#define weir__name_refuse(what, fault)                                \
        ({                                                            \
                static struct weir__log_limit weir__refused;          \
                                                                      \
                weir__name_refuse_at(&weir__refused, what, fault);    \
        })
int weir__name_refuse_at(struct weir__log_limit *limit, const char *what, int fault) __attribute__((cold, noinline));

/* weir__name_read, with that line. */
static inline int
weir__name_expect(const char *what, const char *text, struct weir__name_key *key)
{
        int fault = weir__name_read(text, key);

        return __builtin_expect(fault, 0) ? weir__name_refuse(what, fault) : 0;
}

static inline bool
weir__names_same_shard(uint32_t hash, uint32_t other)
{
        return (hash ^ other) >> (32 - WEIR__NAMES_SHARD_BITS) == 0;
}

/* Locks the shard of a hash.  weir__names_unlock unlocks it. */
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

/* The line of a table where a name of that hash belongs. */
static inline size_t
weir__names_line(const struct weir__name_table *table, uint32_t hash)
{
        return weir__name_table_line(table, hash, WEIR__NAMES_SHARD_BITS);
}

/* The table that has, or would have, a name of that hash.  Under the shard's lock. */
static inline struct weir__name_table *
weir__names_table(struct weir__names_shard *shard, uint32_t hash)
{
        bool is_moved = !shard->before.lines || weir__names_line(&shard->before, hash) < shard->moved;

        return is_moved ? &shard->now : &shard->before;
}

/* The object, unless it is a zombie or NULL. */
static inline struct weir__name *
weir__name_alive(struct weir__name *name)
{
        return name && name->count != WEIR__NAME_ZOMBIE ? name : NULL;
}

/* Copies the key and its text into an object that has room for key->size + 1 bytes behind it.  The object is in no map then. */
void weir__names_init(struct weir__name *name, const struct weir__name_key *key);

/* Adds such an object as the newest of its name.  Returns false when out of memory.  Under the shard's lock. */
bool weir__names_put(struct weir__names_shard *shard, struct weir__name *name);

/* Does both and takes the lock for it. */
bool weir__names_add(struct weir__names *names, struct weir__name *name, const struct weir__name_key *key);

/* The oldest object of a name that is no zombie, or NULL. weir__name_alive(name->newer) is the next one.  Under the shard's
 * lock. */
struct weir__name *weir__names_find(struct weir__names_shard *shard, const struct weir__name_key *key);

/* Makes an object a zombie.  Walks that wait for it go on.  Under the shard's lock. */
void weir__names_make_zombie(struct weir__names_shard *shard, struct weir__name *name);

/* Removes an object, also a zombie; does nothing if it is in no map.  weir__names_remove takes the shard's lock for it. */
void weir__names_unlink(struct weir__names_shard *shard, struct weir__name *name);
void weir__names_remove(struct weir__names *names, struct weir__name *name);

/* How many objects have the name, without zombies. */
size_t weir__names_count(struct weir__names *names, const struct weir__name_key *key);

/* -- walks over the objects of a name, with pauses --
 *
 * The lock may be released during a walk: when the object at its cursor is removed or becomes a zombie, the cursor moves on.
 * A walk covers the objects that are there at its beginning, and no later one.  All under the shard's lock. */

struct weir__names_walk {
        struct weir__name *at;  /* the object to visit next */
        struct weir__name *end; /* the first one that was added after the beginning; NULL: none */
        bool is_over_zombies;
        pthread_t thread;         /* a child that another one has forked forgets the walk */
        struct weir__latch moved; /* is closed while the walk waits */
        struct weir__names_walk *previous, *next;
};

/* Begins at the oldest object of a name, or at the newest zombie. */
void weir__names_walk_begin(struct weir__names_shard *shard, struct weir__names_walk *walk, const struct weir__name_key *key,
                            bool is_over_zombies);
void weir__names_walk_end(struct weir__names_shard *shard, struct weir__names_walk *walk);

/* The object at the cursor; NULL at the end. */
static inline struct weir__name *
weir__names_walk_at(const struct weir__names_walk *walk)
{
        return walk->at == walk->end ? NULL : walk->at;
}

/* Moves the cursor from the object that is there to the next one. */
static inline void
weir__names_walk_on(struct weir__names_walk *walk)
{
        walk->at = walk->is_over_zombies ? walk->at->newer : weir__name_alive(walk->at->newer);
}

/* Releases the lock until the cursor has moved on: the object there was removed, became a zombie, or was passed. */
void weir__names_walk_wait(struct weir__names_shard *shard, struct weir__names_walk *walk);

/* Lets the walks that wait for this object go on.  The object stays. */
void weir__names_pass(struct weir__names_shard *shard, const struct weir__name *name);

/* -- scans over all names of a shard, with pauses -- */

struct weir__names_scan {
        struct weir__name_key key; /* the name reached last; its text must be valid at the next call.  A size of 0 is before
                                      all names of that hash */
        unsigned range_bits;       /* the scan takes the hashes in 2^range_bits ranges */
        bool has_begun;
};

static inline struct weir__names_scan
weir__names_scan_begin(unsigned shard)
{
        return (struct weir__names_scan){.key.hash = shard * (UINT32_C(1) << (32 - WEIR__NAMES_SHARD_BITS))};
}

/* Goes to the next name that has more than zombies.  Within a range of hashes the order is (hash, size, text).  A name that is
 * there during the whole scan is met once.  Looks at no more than *budget lines, and subtracts them from it.
 *
 * Result:  the oldest object of that name, or NULL: *done says that there is none, otherwise call again. */
struct weir__name *weir__names_scan(struct weir__names_shard *shard, struct weir__names_scan *scan, unsigned *budget, bool *done);

#endif
