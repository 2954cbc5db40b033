/* factory/names.c: the sharded map of names.
 *
 * Threads: any.
 * Locks:   a shard's lock (rank NAMES) guards its tables and all entries in them.
 *
 * A table grows and shrinks without a long stop: a new one is made and the buckets of the old one are moved over, MOVED_AT_ONCE
 * with each add and unlink; meanwhile a name is looked up in the table that its bucket is in.  When memory for a new table is
 * short the old one stays, only slower.  Tables go when the last name of a shard does. */
#include "factory/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "kernel/siphash.h"

#define SMALLEST      16
#define MOVED_AT_ONCE 8

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
        return (struct weir__name_key){text, size, weir__siphash(hash_key, text, size)};
}

struct weir__names_shard *
weir__names_lock(struct weir__names *names, uint64_t hash)
{
        struct weir__names_shard *shard = &names->shards[hash >> 58];

        weir__lock(&shard->lock);
        return shard;
}

void
weir__names_unlock(struct weir__names_shard *shard)
{
        weir__unlock(&shard->lock);
}

/* -- tables; under the lock -- */

/* The bucket in which a name of this hash is, or would be: until its old bucket was moved, that one. */
static struct weir__name **
bucket_of(struct weir__names_shard *shard, uint64_t hash)
{
        if (shard->before.buckets && (hash & shard->before.mask) >= shard->moved)
                return &shard->before.buckets[hash & shard->before.mask];
        return &shard->now.buckets[hash & shard->now.mask];
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
                        struct weir__name **bucket = &shard->now.buckets[name->hash & shard->now.mask];

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
        shard->now = (struct weir__names_table){buckets, size - 1};
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
        } else if (shard->names > size) {
                resize(shard, size * 2);
        } else if (size > SMALLEST && shard->names < size / 8) {
                resize(shard, size / 2);
        }
}

/* The link that leads to the first of a name in its bucket, or to the NULL at the end. */
static struct weir__name **
link_of(struct weir__names_shard *shard, const char *text, size_t size, uint64_t hash)
{
        struct weir__name **link = bucket_of(shard, hash);

        while (*link && ((*link)->hash != hash || (*link)->size != size || memcmp(weir__name_text(*link), text, size)))
                link = &(*link)->next_in_bucket;
        return link;
}

/* -- entries -- */

static void
append(struct weir__name *first, struct weir__name *name)
{
        name->older = first->older;
        name->newer = first;
        first->older->newer = name;
        first->older = name;
        first->count++;
}

bool
weir__names_add(struct weir__names *names, struct weir__name *name, const struct weir__name_key *key)
{
        *name = (struct weir__name){.size = (uint16_t)key->size, .hash = key->hash, .linked = true};
        memcpy(weir__name_text(name), key->text, key->size);
        weir__name_text(name)[key->size] = '\0';

        struct weir__names_shard *shard = weir__names_lock(names, key->hash);
        bool done = shard->now.buckets || resize(shard, SMALLEST);
        if (done) {
                struct weir__name **link = link_of(shard, key->text, key->size, key->hash);

                if (*link) {
                        append(*link, name);
                } else {
                        name->older = name->newer = name;
                        name->count = 1;
                        name->first = true;
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
        return shard->now.buckets ? *link_of(shard, key->text, key->size, key->hash) : NULL;
}

/* The first of a name goes: the next oldest takes its place in the bucket, or the name is gone. */
static void
unlink_first(struct weir__names_shard *shard, struct weir__name **link, struct weir__name *name)
{
        struct weir__name *heir = name->newer;

        if (heir == name) {
                *link = name->next_in_bucket;
                shard->names--;
                adapt(shard);
                return;
        }
        heir->first = true;
        heir->count = name->count - 1;
        heir->next_in_bucket = name->next_in_bucket;
        *link = heir;
        heir->older = name->older;
        name->older->newer = heir;
}

void
weir__names_unlink(struct weir__names_shard *shard, struct weir__name *name)
{
        if (!name->linked)
                return;
        name->linked = false;
        struct weir__name **link = link_of(shard, weir__name_text(name), name->size, name->hash);
        if (name->first) {
                unlink_first(shard, link, name);
                return;
        }
        (*link)->count--;
        name->older->newer = name->newer;
        name->newer->older = name->older;
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
