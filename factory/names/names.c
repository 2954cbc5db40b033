/* factory/names/names.c: the map of names: tables, the chains of objects, walks.
 *
 * Threads: any.
 * Locks:   the shard's (rank NAMES) guards its tables, its walks and all entries in them.
 *
 *     in no map --add--> alive --end--> zombie --unlink--> in no map
 *                          `-------------unlink------------^
 *
 * The chain of a name is: alive, oldest first; zombies, newest first.  Its head lies in the table.  So the first alive object
 * is found without a look at zombies, and a zombie is removed without a search.  An object that is alone with its name becomes
 * a zombie in its place.  Any other one moves directly behind the last one that is alive.
 *
 * A table grows and shrinks in small steps: a new one is made, and each add and removal moves MOVED_AT_ONCE lines of the old
 * one.  When there is no memory for a new table, the old one stays until it is full.
 *
 *     hash:  | shard, 6 bits | line, as many bits as the table needs | the rest |
 *
 * So the lines of every table are in the order of the hashes, and a scan (names_scan.c) goes on after the tables were changed. */
#include "factory/names/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "kernel/base/clock.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/data/siphash.h"

#define SMALLEST      WEIR__NAMES_SMALLEST
#define LINES_MOST    ((size_t)1 << (32 - WEIR__NAMES_SHARD_BITS)) /* lines */
#define MOST_PER_LINE 5                                            /* names; with more the table grows */
#define MOVED_AT_ONCE 4                                            /* lines */

#define MAP                                                                                                       \
        {                                                                                                         \
                .shards = { [0 ... WEIR__NAMES_SHARDS - 1] = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_NAMES)} } \
        }

struct weir__names weir__timer_names = MAP, weir__series_names = MAP, weir__queue_names = MAP, weir__upstream_names = MAP;
struct weir__names weir__waitable_names[WEIR__WAITABLE_KINDS] = {[0 ... WEIR__WAITABLE_KINDS - 1] = MAP};

static uint64_t hash_key[2];
static _Atomic bool has_hash_key;

/* Makes a key that no stranger knows.  Early after boot the system may have no random bytes yet; then addresses and the time
 * serve.  A process that begins with the virtual clock is a test, and gets the same order of names each time. */
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

static void
move_line(struct weir__names_shard *shard, size_t line)
{
        size_t at = 0;

        for (struct weir__name **slot; (slot = weir__name_table_next(&shard->before, line, &at));) {
                struct weir__name *name = *slot;

                if (weir__names_line(&shard->before, name->hash) != line)
                        continue;
                weir__name_table_remove(&shard->before, line, slot);
                if (!weir__name_table_add(&shard->now, weir__names_line(&shard->now, name->hash), name))
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

/* After the last name.  The smallest table stays, so a timer that comes and goes alone needs no new one each time. */
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
        else if (shard->names > lines * MOST_PER_LINE && lines < LINES_MOST)
                resize(shard, lines * 2);
        else if (shard->names < lines && lines > SMALLEST)
                resize(shard, lines / 2);
}

/* Keeps between one and MOST_PER_LINE names for each line.  Only one move runs at a time.  So a shard that only loses
 * names may keep a large table until its last name goes. */
static inline void
adapt(struct weir__names_shard *shard)
{
        size_t lines = shard->now.mask + 1;

        if (shard->before.lines || shard->names > lines * MOST_PER_LINE || (shard->names < lines && lines > SMALLEST))
                change_size(shard, lines);
}

/* Where the table has the head of a chain; NULL if no object has the name.  Each call by name does this. */
static inline __attribute__((__always_inline__)) struct weir__name **
slot_of(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        struct weir__name_table *table = weir__names_table(shard, key->hash);

        return weir__name_table_find(table, weir__names_line(table, key->hash), key);
}

/* -- walks; under the lock -- */

static void
move_on(struct weir__names_walk *walk)
{
        weir__names_walk_on(walk);
        if (!atomic_load_explicit(&walk->moved.open, memory_order_relaxed))
                weir__latch_open(&walk->moved);
}

/* The object leaves the place that it has in its chain. */
static void
walks_leave(const struct weir__names_shard *shard, const struct weir__name *name)
{
        for (struct weir__names_walk *walk = shard->walks; walk; walk = walk->next) {
                if (walk->end == name)
                        walk->end = weir__name_alive(name->newer);
                if (walk->at == name)
                        move_on(walk);
        }
}

void
weir__names_pass(struct weir__names_shard *shard, const struct weir__name *name)
{
        for (struct weir__names_walk *walk = shard->walks; walk; walk = walk->next)
                if (walk->at == name && !atomic_load_explicit(&walk->moved.open, memory_order_relaxed))
                        move_on(walk);
}

/* The object was added, and is the newest of its name. */
static void
walks_stop_before(const struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_key key = weir__name_key_of(name);

        for (struct weir__names_walk *walk = shard->walks; walk; walk = walk->next)
                if (!walk->end && !walk->is_over_zombies && walk->at && weir__name_has(walk->at, &key))
                        walk->end = name;
}

void
weir__names_walk_begin(struct weir__names_shard *shard, struct weir__names_walk *walk, const struct weir__name_key *key,
                       bool is_over_zombies)
{
        struct weir__name **slot = shard->now.lines ? slot_of(shard, key) : NULL, *at = slot ? *slot : NULL;

        if (is_over_zombies && weir__name_alive(at))
                at = at->older->newer; /* behind the newest that is alive */
        *walk = (struct weir__names_walk){
                .at = is_over_zombies ? at : weir__name_alive(at),
                .is_over_zombies = is_over_zombies,
                .thread = pthread_self(),
                .moved = {.open = true},
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
        atomic_store_explicit(&walk->moved.open, false, memory_order_relaxed);
        weir__unlock(&shard->lock);
        weir__latch_wait(&walk->moved);
        weir__lock(&shard->lock);
}

/* -- entries; under the lock -- */

static void
link_behind(struct weir__name *before, struct weir__name *name)
{
        name->older = before;
        name->newer = before->newer;
        if (name->newer)
                name->newer->older = name;
        before->newer = name;
}

static bool
add_to_table(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_table *table = weir__names_table(shard, name->hash);

        if (!weir__name_table_add(table, weir__names_line(table, name->hash), name))
                return false;
        shard->names++;
        adapt(shard);
        return true;
}

static void
append(struct weir__names_shard *shard, struct weir__name *oldest, struct weir__name *name)
{
        link_behind(oldest->older, name);
        oldest->older = name;
        oldest->count++;
        if (shard->walks)
                walks_stop_before(shard, name);
}

void
weir__names_init(struct weir__name *name, const struct weir__name_key *key)
{
        memset(name, 0, offsetof(struct weir__name, text)); /* not sizeof, which is larger than an object with a short text */
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
        struct weir__name **slot = slot_of(shard, &key);
        if (slot && weir__name_alive(*slot)) {
                append(shard, *slot, name);
                return true;
        }
        if (!slot && !add_to_table(shard, name))
                return false;
        name->newer = slot ? *slot : NULL;
        if (slot) { /* before the zombies */
                name->newer->older = name;
                *slot = name;
        }
        name->older = name;
        name->count = 1;
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
        struct weir__name **slot = shard->now.lines ? slot_of(shard, key) : NULL;

        return slot ? weir__name_alive(*slot) : NULL;
}

/* The head of a chain leaves the table.  The next object takes its place, or the name goes. */
static void
unlink_head(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name_table *table = weir__names_table(shard, name->hash);
        size_t line = weir__names_line(table, name->hash);
        struct weir__name **slot = weir__name_table_slot(table, line, name);

        if (name->newer) {
                *slot = name->newer;
                name->newer->older = NULL;
                return;
        }
        weir__name_table_remove(table, line, slot);
        shard->names--;
        adapt(shard);
}

/* Returns the oldest object of the name that is left and alive, or NULL. */
static struct weir__name *
unlink_alive(struct weir__names_shard *shard, struct weir__name *name)
{
        struct weir__name *newer = name->newer;

        if (name->count > 0) {
                unlink_head(shard, name);
                if (!weir__name_alive(newer))
                        return NULL;
                newer->count = name->count - 1;
                newer->older = name->older;
                return newer;
        }
        struct weir__name_key key = weir__name_key_of(name);
        struct weir__name *oldest = *slot_of(shard, &key);
        oldest->count--;
        if (oldest->older == name)
                oldest->older = name->older;
        name->older->newer = newer;
        if (newer)
                newer->older = name->older;
        return oldest;
}

static void
unlink_zombie(struct weir__names_shard *shard, struct weir__name *name)
{
        if (!name->older) {
                unlink_head(shard, name);
                return;
        }
        name->older->newer = name->newer;
        if (name->newer)
                name->newer->older = name->older;
}

void
weir__names_make_zombie(struct weir__names_shard *shard, struct weir__name *name)
{
        if (shard->walks)
                walks_leave(shard, name);
        if (name->count == 1) /* alone: it stays at the head */
                name->older = NULL;
        else
                link_behind(unlink_alive(shard, name)->older, name);
        name->count = WEIR__NAME_ZOMBIE;
}

void
weir__names_unlink(struct weir__names_shard *shard, struct weir__name *name)
{
        bool is_zombie = name->count == WEIR__NAME_ZOMBIE;

        if (!is_zombie && !name->older)
                return;
        if (shard->walks)
                walks_leave(shard, name);
        if (is_zombie)
                unlink_zombie(shard, name);
        else
                unlink_alive(shard, name);
        name->older = NULL;
        name->count = 0;
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
        struct weir__name *oldest = weir__names_find(shard, key);
        size_t count = oldest ? oldest->count : 0;

        weir__names_unlock(shard);
        return count;
}

int
weir__name_refuse_at(struct weir__log_limit *limit, const char *what, int fault)
{
        if (fault == -EINVAL || fault == -ENAMETOOLONG)
                weir__log_limited(limit, WEIR_LOG_ERROR, "%s %s: expected a name of 1 to %d bytes", what,
                                  fault == -EINVAL ? "without a name" : "with too long a name", WEIR_NAME_MAX);
        return fault;
}

/* -- forks -- */

/* A fork holds the locks of all shards, so that the child has maps that nobody is changing. */
static void
for_each_shard(void (*act)(struct weir__names_shard *shard))
{
        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++) {
                act(&weir__timer_names.shards[i]);
                act(&weir__series_names.shards[i]);
                act(&weir__queue_names.shards[i]);
                act(&weir__upstream_names.shards[i]);
                for (unsigned kind = 0; kind < WEIR__WAITABLE_KINDS; kind++)
                        act(&weir__waitable_names[kind].shards[i]);
        }
}

static void
hold(struct weir__names_shard *shard)
{
        weir__lock_hold(&shard->lock);
}

/* The other threads, on whose stacks their walks lie, are not in the child. */
static void
forget_walks(struct weir__names_shard *shard)
{
        for (struct weir__names_walk *walk = shard->walks, *next; walk; walk = next) {
                next = walk->next;
                if (!pthread_equal(walk->thread, pthread_self()))
                        weir__names_walk_end(shard, walk);
        }
        weir__names_unlock(shard);
}

static void
before_fork(void)
{
        for_each_shard(hold);
}

static void
after_fork(void)
{
        for_each_shard(weir__names_unlock);
}

static void
become_child(void)
{
        for_each_shard(forget_walks);
}

WEIR__STEPS_OF(WEIR__MODULE_NAMES, [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork,
               [WEIR__STEP_IN_CHILD] = become_child);
