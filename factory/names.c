/* factory/names.c: the sharded map of names.
 *
 * Threads: any.
 * Locks:   a shard's lock (rank NAMES) guards its tables, its list of ending objects, its walks and all entries in them.
 *
 *     add --> chain of its name --end--> list of ending ones --unlink--> out
 *                     `-------------------unlink----------------------^
 *
 * A table grows and shrinks without a long stop: a new one is made and the buckets of the old one are moved over, MOVED_AT_ONCE
 * with each add and unlink; meanwhile a name is looked up in the table that its bucket is in.  When memory for a new table is
 * short the old one stays, only slower.  Tables go when the last name of a shard does.
 *
 *     hash:  | shard, 6 bits | bucket, as many as the table has | the rest |
 *
 * So the buckets are in the order of the hashes in every table, and a search by hash can go on after a pause in which the
 * tables were changed. */
#include "factory/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "kernel/siphash.h"

#define SHARD_BITS    6
#define SMALLEST      16
#define LARGEST       ((size_t)1 << (32 - SHARD_BITS))
#define MOVED_AT_ONCE 8

#define ENDING UINT32_MAX /* the count of an object on the list of ending ones; 0: of one behind the first, or in no list */

_Static_assert(1 << SHARD_BITS == WEIR__NAMES_SHARDS, "the shard is in the upper bits of the hash");

static uint64_t hash_key[2];

/* A key that nobody outside can know.  At start-up the pool may not be filled yet; then addresses and time have to do. */
static void
make_hash_key(void)
{
        struct timespec now;

        if (getrandom(hash_key, sizeof hash_key, GRND_NONBLOCK) == sizeof hash_key)
                return;
        clock_gettime(CLOCK_REALTIME, &now);
        hash_key[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
        hash_key[1] = (uintptr_t)&now ^ (uintptr_t)&hash_key << 24;
}

struct weir__name_key
weir__name_key(const char *text, size_t size)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, make_hash_key);
        return (struct weir__name_key){text, size, (uint32_t)(weir__siphash(hash_key, text, size) >> 32)};
}

struct weir__names_shard *
weir__names_lock(struct weir__names *names, uint32_t hash)
{
        struct weir__names_shard *shard = &names->shards[hash >> (32 - SHARD_BITS)];

        weir__lock(&shard->lock);
        return shard;
}

void
weir__names_unlock(struct weir__names_shard *shard)
{
        weir__unlock(&shard->lock);
}

/* -- tables; under the lock -- */

static size_t
index_of(const struct weir__names_table *table, uint32_t hash)
{
        return (uint32_t)(hash << SHARD_BITS) >> table->shift;
}

/* The bucket in which a name of this hash is, or would be: until its old bucket was moved, that one. */
static struct weir__name **
bucket_of(struct weir__names_shard *shard, uint32_t hash)
{
        if (shard->before.buckets && index_of(&shard->before, hash) >= shard->moved)
                return &shard->before.buckets[index_of(&shard->before, hash)];
        return &shard->now.buckets[index_of(&shard->now, hash)];
}

static void
drop_table(struct weir__names_table *table)
{
        free(table->buckets);
        *table = (struct weir__names_table){0};
}

static void
move_some(struct weir__names_shard *shard)
{
        if (!shard->before.buckets)
                return;
        for (unsigned i = 0; i < MOVED_AT_ONCE && shard->moved <= shard->before.mask; i++) {
                struct weir__name *name = shard->before.buckets[shard->moved++];

                while (name) {
                        struct weir__name *next = name->next_in_bucket;
                        struct weir__name **bucket = &shard->now.buckets[index_of(&shard->now, name->hash)];

                        name->next_in_bucket = *bucket;
                        *bucket = name;
                        name = next;
                }
        }
        if (shard->moved > shard->before.mask)
                drop_table(&shard->before);
}

static bool
resize(struct weir__names_shard *shard, size_t size)
{
        struct weir__name **buckets = calloc(size, sizeof *buckets);

        if (!buckets)
                return false;
        shard->before = shard->now;
        shard->now = (struct weir__names_table){buckets, size - 1, 32 - (unsigned)__builtin_ctzl(size)};
        shard->moved = 0;
        return true;
}

/* Aims at a table between an eighth and all of its size full; one that is being moved is let finish first, so a shard from which
 * names only go may keep a larger one until the last of them has gone. */
static void
adapt(struct weir__names_shard *shard)
{
        size_t size = shard->now.mask + 1;

        move_some(shard);
        if (!shard->names) {
                drop_table(&shard->before);
                drop_table(&shard->now);
        } else if (shard->before.buckets) {
                return;
        } else if (shard->names > size && size < LARGEST) {
                resize(shard, size * 2);
        } else if (size > SMALLEST && shard->names < size / 8) {
                resize(shard, size / 2);
        }
}

/* The link that leads to the first of a name in its bucket, or to the NULL at the end. */
static struct weir__name **
link_of(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        struct weir__name **link = bucket_of(shard, key->hash);

        while (*link && !weir__name_has(*link, key))
                link = &(*link)->next_in_bucket;
        return link;
}

/* -- walks; under the lock -- */

/* Those whose next object is taken out go on to the one behind it. */
static void
walks_pass(const struct weir__names_shard *shard, const struct weir__name *name)
{
        for (struct weir__names_walk *walk = shard->walks; walk; walk = walk->next) {
                if (walk->end == name)
                        walk->end = name->newer;
                if (walk->at != name)
                        continue;
                walk->at = name->newer;
                if (walk->waits)
                        weir__latch_open(&walk->taken_out);
                walk->waits = false;
        }
}

/* Those over the list to whose end an object came end before it. */
static void
walks_stop(const struct weir__names_shard *shard, struct weir__name *name, bool ending)
{
        for (struct weir__names_walk *walk = shard->walks; walk; walk = walk->next)
                if (!walk->end && walk->over_ending == ending && (ending || weir__name_has(name, &walk->key)))
                        walk->end = name;
}

/* -- entries; under the lock -- */

static void
append(struct weir__names_shard *shard, struct weir__name *first, struct weir__name *name)
{
        name->older = first->older;
        first->older->newer = name;
        first->older = name;
        first->count++;
        if (shard->walks)
                walks_stop(shard, name, false);
}

bool
weir__names_add(struct weir__names *names, struct weir__name *name, const struct weir__name_key *key)
{
        memset(name, 0, offsetof(struct weir__name, text)); /* its size is rounded up: a short text ends before */
        name->size = (uint16_t)key->size;
        name->hash = key->hash;
        memcpy(name->text, key->text, key->size);
        name->text[key->size] = '\0';

        struct weir__names_shard *shard = weir__names_lock(names, key->hash);
        bool done = shard->now.buckets || resize(shard, SMALLEST);
        if (done) {
                struct weir__name **link = link_of(shard, key);

                if (*link) {
                        append(shard, *link, name);
                } else {
                        name->older = name;
                        name->count = 1;
                        *link = name;
                        shard->names++;
                        adapt(shard);
                }
        }
        weir__names_unlock(shard);
        return done;
}

struct weir__name *
weir__names_find(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        return shard->now.buckets ? *link_of(shard, key) : NULL;
}

/* The first of a name goes: the next oldest takes its place in the bucket, or the name is gone. */
static void
unlink_first(struct weir__names_shard *shard, struct weir__name **link, struct weir__name *name)
{
        struct weir__name *heir = name->newer;

        if (!heir) {
                *link = name->next_in_bucket;
                shard->names--;
                adapt(shard);
                return;
        }
        heir->count = name->count - 1;
        heir->next_in_bucket = name->next_in_bucket;
        *link = heir;
        heir->older = name->older; /* the newest; itself if it is alone now */
}

static void
unlink_from_chain(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_key key = weir__name_key_of(name);
        struct weir__name **link = link_of(shard, &key);

        if (*link == name) {
                unlink_first(shard, link, name);
                return;
        }
        (*link)->count--;
        name->older->newer = name->newer;
        *(name->newer ? &name->newer->older : &(*link)->older) = name->older;
}

static void
unlink_from_ending(struct weir__names_shard *shard, struct weir__name *name)
{
        *(name->older ? &name->older->newer : &shard->ending) = name->newer;
        *(name->newer ? &name->newer->older : &shard->ending_last) = name->older;
}

void
weir__names_unlink(struct weir__names_shard *shard, struct weir__name *name)
{
        if (name->count != ENDING && !name->older)
                return;
        if (shard->walks)
                walks_pass(shard, name);
        if (name->count == ENDING)
                unlink_from_ending(shard, name);
        else
                unlink_from_chain(shard, name);
        name->older = NULL;
        name->count = 0;
}

void
weir__names_end(struct weir__names_shard *shard, struct weir__name *name)
{
        weir__names_unlink(shard, name);
        name->count = ENDING;
        name->older = shard->ending_last;
        name->newer = NULL;
        *(name->older ? &name->older->newer : &shard->ending) = name;
        shard->ending_last = name;
        if (shard->walks)
                walks_stop(shard, name, true);
}

void
weir__names_remove(struct weir__names *names, struct weir__name *name)
{
        struct weir__names_shard *shard = weir__names_lock(names, name->hash);

        weir__names_unlink(shard, name);
        weir__names_unlock(shard);
}

size_t
weir__names_count(struct weir__names *names, const struct weir__name_key *key)
{
        struct weir__names_shard *shard = weir__names_lock(names, key->hash);
        struct weir__name *first = weir__names_find(shard, key);
        size_t count = first ? first->count : 0;

        weir__names_unlock(shard);
        return count;
}

/* -- walking -- */

void
weir__names_walk_begin(struct weir__names_shard *shard, struct weir__names_walk *walk, const struct weir__name_key *key,
                       bool over_ending)
{
        *walk = (struct weir__names_walk){
                .at = over_ending ? shard->ending : weir__names_find(shard, key),
                .key = *key,
                .over_ending = over_ending,
                .next = shard->walks,
        };
        if (shard->walks)
                shard->walks->previous = walk;
        shard->walks = walk;
}

void
weir__names_walk_end(struct weir__names_shard *shard, struct weir__names_walk *walk)
{
        *(walk->previous ? &walk->previous->next : &shard->walks) = walk->next;
        if (walk->next)
                walk->next->previous = walk->previous;
}

void
weir__names_walk_wait(struct weir__names_shard *shard, struct weir__names_walk *walk)
{
        atomic_store_explicit(&walk->taken_out.open, 0, memory_order_relaxed);
        walk->waits = true;
        weir__unlock(&shard->lock);
        weir__latch_wait(&walk->taken_out);
        weir__lock(&shard->lock);
}

static bool
is_before(const struct weir__name *name, const struct weir__name_key *key)
{
        if (name->hash != key->hash)
                return name->hash < key->hash;
        return name->size != key->size ? name->size < key->size : memcmp(name->text, key->text, key->size) < 0;
}

/* The first name of a bucket behind `key` whose hash is at most `last`. */
static struct weir__name *
first_behind(struct weir__name *name, const struct weir__name_key *key, uint32_t last)
{
        struct weir__name *first = NULL;

        for (; name; name = name->next_in_bucket) {
                bool is_behind = !is_before(name, key) && !weir__name_has(name, key);

                if (is_behind && name->hash <= last) {
                        struct weir__name_key best = first ? weir__name_key_of(first) : (struct weir__name_key){0};

                        if (!first || is_before(name, &best))
                                first = name;
                }
        }
        return first;
}

struct weir__name *
weir__names_behind(struct weir__names_shard *shard, struct weir__name_key *key, unsigned *budget, bool *done)
{
        *done = !shard->now.buckets;
        for (; !*done && *budget > 0; --*budget) {
                unsigned finer = shard->before.buckets && shard->before.shift < shard->now.shift ? shard->before.shift
                                                                                                 : shard->now.shift;
                uint32_t last = key->hash | ((UINT32_C(1) << finer) - 1) >> SHARD_BITS;
                struct weir__name *name = first_behind(*bucket_of(shard, key->hash), key, last);

                if (name)
                        return name;
                *done = last == (key->hash | UINT32_MAX >> SHARD_BITS);
                *key = (struct weir__name_key){.hash = last + 1};
        }
        return NULL;
}
