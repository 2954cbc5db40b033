/* factory/names/names.c: the sharded map of names.
 *
 * Threads: any.
 * Locks:   a shard's lock (rank NAMES) guards its tables, its list of ending objects, its walks and all entries in them.
 *
 *     add --> chain of its name --end--> list of ending ones --unlink--> out
 *                     `-------------------unlink----------------------^
 *
 * A table grows and shrinks without a long stop: a new one is made and the lines of the old one are moved over, MOVED_AT_ONCE
 * with each add and unlink; meanwhile a name is looked up in the table that its line is in.  When memory for a new table is
 * short the old one stays until it is full.  Tables go when the last name of a shard does, but for one of the smallest.
 *
 *     hash:  | shard, 6 bits | line, as many as the table has | the rest |
 *
 * So the lines are in the order of the hashes in every table, and a search by hash can go on after a pause in which the
 * tables were changed. */
#include "factory/names/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "kernel/base/clock.h"
#include "kernel/base/panic.h"
#include "kernel/data/siphash.h"

#define SHARD_BITS    WEIR__NAMES_SHARD_BITS
#define SMALLEST      WEIR__NAMES_SMALLEST
#define LARGEST       ((size_t)1 << (32 - SHARD_BITS))
#define CROWDED       5 /* names for each line: beyond, it grows */
#define MOVED_AT_ONCE 4
#define RANGE_BITS    10

#define ENDING UINT32_MAX /* the count of an object on the list of ending ones; 0: of one behind the first, or in no list */

static uint64_t hash_key[2];
static _Atomic bool has_hash_key; /* so that all calls but the first few look here only */

/* A key that nobody outside can know.  At start-up the pool may not be filled yet; then addresses and time have to do.  A process
 * that begins with the virtual clock is a test: its names come in the same order each time. */
static void
make_hash_key(void)
{
        struct timespec now;

        if (weir__clock_is_virtual()) {
                hash_key[0] = hash_key[1] = 1;
        } else if (getrandom(hash_key, sizeof hash_key, GRND_NONBLOCK) != sizeof hash_key) {
                clock_gettime(CLOCK_REALTIME, &now);
                hash_key[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
                hash_key[1] = (uintptr_t)&now ^ (uintptr_t)&hash_key << 24;
        }
        atomic_store_explicit(&has_hash_key, true, memory_order_release);
}

static uint32_t
hash_with_new_key(const char *text, size_t size)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, make_hash_key);
        return weir__name_hash(text, size);
}

uint32_t
weir__name_hash(const char *text, size_t size)
{
        if (__builtin_expect(!atomic_load_explicit(&has_hash_key, memory_order_acquire), 0))
                return hash_with_new_key(text, size);
        return (uint32_t)(weir__siphash(hash_key, text, size) >> 32);
}

/* -- tables; under the lock -- */

static size_t
line_of(const struct weir__name_table *table, uint32_t hash)
{
        return weir__name_table_line(table, hash, SHARD_BITS);
}

/* The table in which a name of this hash is, or would be: until its old line was moved, that one. */
static struct weir__name_table *
table_of(struct weir__names_shard *shard, uint32_t hash)
{
        return shard->before.lines && line_of(&shard->before, hash) >= shard->moved ? &shard->before : &shard->now;
}

static void
move_line(struct weir__names_shard *shard, size_t line)
{
        size_t at = line * WEIR__NAME_TABLE_WIDTH;

        for (struct weir__name **place; (place = weir__name_table_next(&shard->before, line, &at));) {
                struct weir__name *name = *place;

                if (line_of(&shard->before, name->hash) != line)
                        continue;
                weir__name_table_clear(&shard->before, place);
                if (!weir__name_table_add(&shard->now, line_of(&shard->now, name->hash), name))
                        weir__panic("map of names: expected room for all names in the new table");
        }
}

static void
move_some(struct weir__names_shard *shard)
{
        if (!shard->before.lines)
                return;
        for (unsigned i = 0; i < MOVED_AT_ONCE && shard->moved <= shard->before.mask; i++)
                move_line(shard, shard->moved++);
        if (shard->moved > shard->before.mask)
                weir__name_table_drop(&shard->before);
}

/* The smallest table lies in the shard. */
static bool
resize(struct weir__names_shard *shard, size_t lines)
{
        struct weir__name_table table;

        if (lines == SMALLEST)
                weir__name_table_make_in(&table, shard->smallest, SMALLEST);
        else if (!weir__name_table_make(&table, lines))
                return false;
        shard->before = shard->now;
        shard->now = table;
        shard->moved = 0;
        return true;
}

/* With the last name the tables go, but for the smallest: a timer that comes and goes all alone needs no new one each time. */
static void
empty(struct weir__names_shard *shard)
{
        weir__name_table_drop(&shard->before);
        if (shard->now.mask >= SMALLEST)
                weir__name_table_drop(&shard->now);
}

static void
change_size(struct weir__names_shard *shard, size_t lines)
{
        move_some(shard);
        if (!shard->names)
                empty(shard);
        else if (shard->before.lines)
                return;
        else if (shard->names > lines * CROWDED && lines < LARGEST)
                resize(shard, lines * 2);
        else if (shard->names < lines && lines > SMALLEST)
                resize(shard, lines / 2);
}

/* Aims at one to CROWDED names for each line; a table that is being moved is let finish first, so a shard from which names only
 * go may keep a larger one until the last of them has gone. */
static inline void
adapt(struct weir__names_shard *shard)
{
        size_t lines = shard->now.mask + 1;

        if (shard->before.lines || shard->names > lines * CROWDED || (shard->names < lines && lines > SMALLEST))
                change_size(shard, lines);
}

/* The place of the first of a name in the tables, or NULL. */
static struct weir__name **
place_of(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        struct weir__name_table *table = table_of(shard, key->hash);

        return weir__name_table_find(table, line_of(table, key->hash), key);
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

void
weir__names_look_again(struct weir__names_shard *shard, const struct weir__name *name)
{
        for (struct weir__names_walk *walk = shard->walks; walk; walk = walk->next) {
                if (walk->at != name || !walk->waits)
                        continue;
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

static bool
add_first(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_table *table = table_of(shard, name->hash);

        if (!weir__name_table_add(table, line_of(table, name->hash), name))
                return false;
        name->older = name;
        name->count = 1;
        shard->names++;
        adapt(shard);
        return true;
}

void
weir__names_init(struct weir__name *name, const struct weir__name_key *key)
{
        memset(name, 0, offsetof(struct weir__name, text)); /* its size is rounded up: a short text ends before */
        name->size = (uint16_t)key->size;
        name->hash = key->hash;
        memcpy(name->text, key->text, key->size);
        name->text[key->size] = '\0';
}

bool
weir__names_put(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_key key = weir__name_key_of(name);

        if (!shard->now.lines && !resize(shard, SMALLEST))
                return false;
        struct weir__name **place = place_of(shard, &key);
        if (!place)
                return add_first(shard, name);
        append(shard, *place, name);
        return true;
}

bool
weir__names_add(struct weir__names *names, struct weir__name *name, const struct weir__name_key *key)
{
        weir__names_init(name, key);
        struct weir__names_shard *shard = weir__names_lock(names, key->hash);
        bool done = weir__names_put(shard, name);
        weir__names_unlock(shard);
        return done;
}

struct weir__name *
weir__names_find(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        struct weir__name **place = shard->now.lines ? place_of(shard, key) : NULL;

        return place ? *place : NULL;
}

/* The first of a name goes: the next oldest takes its place, or the name is gone. */
static void
unlink_first(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_table *table = table_of(shard, name->hash);
        size_t line = line_of(table, name->hash);
        struct weir__name **place = weir__name_table_place(table, line, name), *heir = name->newer;

        if (!heir) {
                weir__name_table_remove(table, line, place);
                shard->names--;
                adapt(shard);
                return;
        }
        heir->count = name->count - 1;
        heir->older = name->older; /* the newest; itself if it is alone now */
        *place = heir;
}

static void
unlink_behind_first(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_key key = weir__name_key_of(name);
        struct weir__name *first = *place_of(shard, &key);

        first->count--;
        name->older->newer = name->newer;
        *(name->newer ? &name->newer->older : &first->older) = name->older;
}

static void
unlink_from_ending(struct weir__names_shard *shard, struct weir__name *name)
{
        *(name->older ? &name->older->newer : &shard->ending) = name->newer;
        *(name->newer ? &name->newer->older : &shard->ending_last) = name->older;
}

static void
unlink_from_chain(struct weir__names_shard *shard, struct weir__name *name)
{
        if (name->count > 0)
                unlink_first(shard, name);
        else
                unlink_behind_first(shard, name);
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

static void
put_last(struct weir__names_shard *shard, struct weir__name *name)
{
        name->older = shard->ending_last;
        name->newer = NULL;
        *(name->older ? &name->older->newer : &shard->ending) = name;
        shard->ending_last = name;
        if (shard->walks)
                walks_stop(shard, name, true);
}

static void
put_first(struct weir__names_shard *shard, struct weir__name *name)
{
        name->older = NULL;
        name->newer = shard->ending;
        *(name->newer ? &name->newer->older : &shard->ending_last) = name;
        shard->ending = name;
        for (struct weir__names_walk *walk = shard->walks; walk; walk = walk->next)
                if (walk->over_ending && !walk->moved)
                        walk->at = name;
}

void
weir__names_end(struct weir__names_shard *shard, struct weir__name *name, bool runs)
{
        if (shard->walks)
                walks_pass(shard, name);
        unlink_from_chain(shard, name);
        name->count = ENDING;
        if (runs)
                put_first(shard, name);
        else
                put_last(shard, name);
}

void
weir__names_renew(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_key key = weir__name_key_of(name);

        if (shard->walks)
                walks_pass(shard, name);
        if (name->count == 1) { /* all alone */
                walks_stop(shard, name, false);
                return;
        }
        unlink_from_chain(shard, name);
        name->newer = NULL;
        name->count = 0;
        append(shard, *place_of(shard, &key), name);
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

/* -- forks -- */

void
weir__names_hold(struct weir__names *names)
{
        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++)
                weir__lock_hold(&names->shards[i].lock);
}

void
weir__names_let_go(struct weir__names *names)
{
        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++)
                weir__unlock(&names->shards[i].lock);
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
        walk->waits = walk->moved = true;
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

/* The first name behind `key` whose hash is at most `last`, and which belongs into the same line. */
static struct weir__name *
first_behind(struct weir__names_shard *shard, const struct weir__name_key *key, uint32_t last)
{
        const struct weir__name_table *table = table_of(shard, key->hash);
        size_t line = line_of(table, key->hash), at = line * WEIR__NAME_TABLE_WIDTH;
        struct weir__name_key best = {.hash = last, .size = SIZE_MAX};
        struct weir__name *first = NULL;

        for (struct weir__name **place; (place = weir__name_table_next(table, line, &at));) {
                if (is_before(*place, key) || weir__name_has(*place, key) || !is_before(*place, &best))
                        continue;
                first = *place;
                best = weir__name_key_of(first);
        }
        return first;
}

/* The last hash of the finest piece that is the same in both tables. */
static uint32_t
last_of_piece(const struct weir__names_shard *shard, uint32_t hash)
{
        unsigned finer = shard->before.lines && shard->before.shift < shard->now.shift ? shard->before.shift : shard->now.shift;

        return hash | ((UINT32_C(1) << finer) - 1) >> SHARD_BITS;
}

/* Goes to the range behind, in the order of the numbers with their bits reversed: 0, 4, 2, 6, 1, 5, 3, 7.  Returns false behind
 * the last.  Were they taken in a row, and their names cancelled, then those that are left would be the last lines of a table;
 * when it is made smaller they would all lie in a heap. */
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
        if (!*done && !scan->begun) {
                scan->range_bits = 32 - shard->now.shift < RANGE_BITS ? 32 - shard->now.shift : RANGE_BITS;
                scan->begun = true;
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

struct weir__name *
weir__names_scan_hash(struct weir__names_shard *shard, struct weir__names_scan *scan)
{
        struct weir__name *name = shard->now.lines ? first_behind(shard, &scan->key, scan->key.hash) : NULL;

        if (name)
                scan->key = weir__name_key_of(name);
        return name;
}
