/* test/names_test.c: the map of names, against a plain model.
 *
 * The map is used directly: an object is its own entry, and a key may be given any hash, so collisions can be made. */
#include "test/support.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "factory/names/names.h"
#include "kernel/data/siphash.h"

static struct weir__names map;

static void
map_init(void)
{
        for (size_t i = 0; i < WEIR__NAMES_SHARDS; i++) {
                map.shards[i] = (struct weir__names_shard){0};
                weir__lock_init(&map.shards[i].lock, WEIR__RANK_NAMES);
        }
}

/* All memory must have been given back. */
static void
map_done(void)
{
        for (size_t i = 0; i < WEIR__NAMES_SHARDS; i++) {
                CU_ASSERT_PTR_NULL(map.shards[i].now.memory);
                CU_ASSERT_PTR_NULL(map.shards[i].before.lines);
                CU_ASSERT_EQUAL(map.shards[i].names, 0);
        }
}

static struct weir__name *
add(const struct weir__name_key *key)
{
        struct weir__name *name = malloc(WEIR__NAME_SIZE(0, key->size));

        CU_ASSERT_FATAL(weir__names_add(&map, name, key));
        return name;
}

static struct weir__name *
add_text(const char *text)
{
        struct weir__name_key key = weir__name_key(text, strlen(text));

        return add(&key);
}

static void
drop(struct weir__name *name)
{
        weir__names_remove(&map, name);
        free(name);
}

static struct weir__name *
find(const struct weir__name_key *key)
{
        struct weir__names_shard *shard = weir__names_lock(&map, key->hash);
        struct weir__name *name = weir__names_find(shard, key);

        weir__names_unlock(shard);
        return name;
}

/* -- against a model -- */

#define NAMES   200 /* different ones */
#define OBJECTS 1000

/* The objects in order of coming. */
static struct {
        struct weir__name *objects[OBJECTS];
        unsigned names[OBJECTS];
        unsigned ended[OBJECTS]; /* when it became a zombie; 0: it is alive */
        unsigned count, ends;
} model;

/* Every so many names share the whole hash, others the line, others only the shard. */
static struct weir__name_key
key_of(unsigned number, char *text, uint32_t collide)
{
        struct weir__name_key key;

        sprintf(text, "name %u", number);
        key = weir__name_key(text, strlen(text));
        if (collide) {
                key.hash = (key.hash & collide) | UINT32_C(0x12000000);
        }
        return key;
}

static unsigned
position_in_model(const struct weir__name *name)
{
        unsigned i = 0;

        while (i < model.count && model.objects[i] != name)
                i++;
        CU_ASSERT_FATAL(i < model.count);
        return i;
}

/* A walk meets all zombies of the name, the latest one first. */
static void
check_zombies(unsigned number, const struct weir__name_key *key)
{
        struct weir__names_shard *shard = weir__names_lock(&map, key->hash);
        unsigned count = 0, last = UINT_MAX;
        struct weir__names_walk walk;

        weir__names_walk_begin(shard, &walk, key, true);
        for (struct weir__name *name; (name = weir__names_walk_at(&walk)); weir__names_walk_on(&walk)) {
                unsigned i = position_in_model(name);

                CU_ASSERT_EQUAL(model.names[i], number);
                CU_ASSERT(model.ended[i] > 0 && model.ended[i] < last);
                last = model.ended[i];
                count++;
        }
        weir__names_walk_end(shard, &walk);
        weir__names_unlock(shard);
        for (unsigned i = 0; i < model.count; i++)
                count -= model.names[i] == number && model.ended[i];
        CU_ASSERT_EQUAL(count, 0);
}

static void
check_name(unsigned number, uint32_t collide)
{
        char text[32];
        struct weir__name_key key = key_of(number, text, collide);
        struct weir__name *name = find(&key);
        unsigned count = 0;

        for (unsigned i = 0; i < model.count; i++) {
                if (model.names[i] != number || model.ended[i]) {
                        continue;
                }
                CU_ASSERT_PTR_EQUAL_FATAL(name, model.objects[i]); /* the oldest first */
                CU_ASSERT_STRING_EQUAL(name->text, text);
                name = weir__name_alive(name->newer);
                count++;
        }
        CU_ASSERT_EQUAL(weir__names_count(&map, &key), count);
        CU_ASSERT_PTR_NULL(name); /* and nothing behind the newest */
        if (model.count % 8 == 0)
                check_zombies(number, &key);
}

/* Makes one a zombie of its name. */
static void
end(unsigned which)
{
        struct weir__names_shard *shard = weir__names_lock(&map, model.objects[which]->hash);

        weir__names_make_zombie(shard, model.objects[which]);
        weir__names_unlock(shard);
        model.ended[which] = ++model.ends;
}

static void
random_steps(uint32_t collide, unsigned steps)
{
        struct weir_test_random random = {weir_test_seed() ^ collide};
        unsigned wanted = OBJECTS / 2;

        map_init();
        model.count = 0;
        for (unsigned step = 0; step < steps; step++) {
                unsigned number = (unsigned)weir_test_random_below(&random, NAMES);

                if (step % 2000 == 0) {
                        wanted = (unsigned)weir_test_random_below(&random, OBJECTS); /* so that it grows and shrinks */
                }
                if (model.count > 0 && step % 4 == 3) {
                        unsigned which = (unsigned)weir_test_random_below(&random, model.count);

                        number = model.names[which];
                        if (!model.ended[which])
                                end(which);
                } else if (model.count < wanted) {
                        char text[32];
                        struct weir__name_key key = key_of(number, text, collide);

                        model.names[model.count] = number;
                        model.ended[model.count] = 0;
                        model.objects[model.count++] = add(&key);
                } else if (model.count > 0) {
                        unsigned which = (unsigned)weir_test_random_below(&random, model.count);

                        number = model.names[which];
                        weir__names_remove(&map, model.objects[which]);
                        weir__names_remove(&map, model.objects[which]); /* a second time does nothing */
                        free(model.objects[which]);
                        model.count--;
                        memmove(&model.objects[which], &model.objects[which + 1], (model.count - which) * sizeof *model.objects);
                        memmove(&model.names[which], &model.names[which + 1], (model.count - which) * sizeof *model.names);
                        memmove(&model.ended[which], &model.ended[which + 1], (model.count - which) * sizeof *model.ended);
                }
                check_name(number, collide);
                if (step % 1000 == 0) {
                        for (unsigned i = 0; i < NAMES; i++) {
                                check_name(i, collide);
                        }
                }
        }
        while (model.count > 0) {
                drop(model.objects[--model.count]);
        }
        map_done();
}

static void
random_adds_and_removals_agree_with_a_plain_model(void)
{
        random_steps(0, WEIR_TEST_SANITIZED ? 8000 : 100000);
}

static void
names_in_one_shard_agree_with_a_plain_model(void)
{
        random_steps(UINT32_C(0x01ffffff), WEIR_TEST_SANITIZED ? 8000 : 100000);
}

static void
names_in_a_few_lines_agree_with_a_plain_model(void)
{
        random_steps(UINT32_C(0x0000ffff), WEIR_TEST_SANITIZED ? 8000 : 100000);
}

static void
names_with_the_same_hash_agree_with_a_plain_model(void)
{
        random_steps(UINT32_C(0x80000000), WEIR_TEST_SANITIZED ? 8000 : 100000);
}

/* -- hashing -- */

static void
plain_round(uint64_t v[4])
{
        static const unsigned char halves[2][2][3] = {{{0, 1, 13}, {2, 3, 16}}, {{2, 1, 17}, {0, 3, 21}}};

        for (int half = 0; half < 2; half++) {
                for (int i = 0; i < 2; i++) {
                        uint64_t *sum = &v[halves[half][i][0]], *turned = &v[halves[half][i][1]];
                        unsigned bits = halves[half][i][2];

                        *sum += *turned;
                        *turned = (*turned << bits | *turned >> (64 - bits)) ^ *sum;
                }
                v[half * 2] = v[half * 2] << 32 | v[half * 2] >> 32;
        }
}

/* As the paper has it, a byte at a time. */
static uint64_t
plain_siphash(const uint64_t key[2], const unsigned char *data, size_t size)
{
        uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                         key[1] ^ 0x7465646279746573};

        for (size_t word = 0; word <= size / 8; word++) {
                uint64_t bytes = word == size / 8 ? (uint64_t)size << 56 : 0;

                for (size_t i = 0; i < 8 && word * 8 + i < size; i++)
                        bytes |= (uint64_t)data[word * 8 + i] << (8 * i);
                v[3] ^= bytes;
                plain_round(v);
                v[0] ^= bytes;
        }
        v[2] ^= 0xff;
        for (int i = 0; i < 3; i++)
                plain_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Each text ends where its block does, for the address sanitizer. */
static void
texts_of_every_length_hash_as_in_a_plain_model(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (size_t size = 1; size <= 80; size++) {
                uint64_t key[2] = {weir_test_random_below(&random, UINT32_MAX), ~weir_test_random_below(&random, UINT32_MAX)};
                unsigned char *text = malloc(size);

                for (size_t i = 0; i < size; i++)
                        text[i] = (unsigned char)weir_test_random_below(&random, 256);
                CU_ASSERT_EQUAL(weir__siphash(key, text, size), plain_siphash(key, text, size));
                free(text);
        }
}

/* Names that differ in one byte only are different, wherever it is. */
static void
texts_of_every_length_are_told_apart_by_each_byte(void)
{
        for (size_t size = 1; size <= 80; size++) {
                char *text = malloc(size), *other = malloc(size);

                memset(text, 'a', size);
                memset(other, 'a', size);
                CU_ASSERT(weir__name_same_text(text, other, size));
                for (size_t i = 0; i < size; i++) {
                        other[i] = 'b';
                        CU_ASSERT_FALSE(weir__name_same_text(text, other, size));
                        other[i] = 'a';
                }
                free(text);
                free(other);
        }
}

/* -- size -- */

static size_t
places_of(const struct weir__name_table *table)
{
        return table->lines ? (table->mask + 1) * WEIR__NAME_TABLE_WIDTH : 0;
}

static size_t
places_in_all(void)
{
        size_t count = 0;

        for (size_t i = 0; i < WEIR__NAMES_SHARDS; i++) {
                count += places_of(&map.shards[i].now) + places_of(&map.shards[i].before);
        }
        return count;
}

static void
hundred_thousand_names_grow_the_map_and_it_shrinks_when_they_go(void)
{
        enum { COUNT = 100000 };
        static struct weir__name *names[COUNT];
        struct weir_test_random random = {weir_test_seed()};
        char text[32];

        map_init();
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(text, "%u", i);
                names[i] = add_text(text);
        }
        CU_ASSERT(places_in_all() >= COUNT / 2);
        CU_ASSERT(places_in_all() <= COUNT * 4);
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(text, "%u", i);
                struct weir__name_key key = weir__name_key(text, strlen(text));
                CU_ASSERT_PTR_EQUAL(find(&key), names[i]);
        }
        for (unsigned i = COUNT; i-- > 1;) {
                unsigned other = (unsigned)weir_test_random_below(&random, i + 1);
                struct weir__name *name = names[i];

                names[i] = names[other];
                names[other] = name;
        }
        for (unsigned i = COUNT; i-- > COUNT / 100;) {
                drop(names[i]);
                if (i == COUNT / 2) {
                        CU_ASSERT(places_in_all() <= COUNT * 4);
                }
        }
        for (unsigned i = 0; i < COUNT; i++) { /* the lines are moved a few with each change */
                sprintf(text, "%u", COUNT + i);
                drop(add_text(text));
        }
        CU_ASSERT(places_in_all() <= COUNT / 100 * 16);
        for (unsigned i = 0; i < COUNT / 100; i++) {
                struct weir__name_key key = weir__name_key(names[i]->text, names[i]->size);
                CU_ASSERT_PTR_EQUAL(find(&key), names[i]);
                drop(names[i]);
        }
        map_done();
}

static unsigned
most_passed(void)
{
        unsigned most = 0;

        for (size_t i = 0; i < WEIR__NAMES_SHARDS; i++) {
                const struct weir__name_table *table = &map.shards[i].now;

                for (size_t line = 0; table->lines && line <= table->mask; line++) {
                        most = table->lines[line].passed > most ? table->lines[line].passed : most;
                }
        }
        return most;
}

/* As a cancel by prefix takes them: those that are left must not lie in a heap when the tables shrink. */
static void
names_taken_in_the_order_of_a_scan_leave_the_others_spread(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 30000 : 200000 };
        unsigned taken = 0, most = 0;
        char text[32];

        map_init();
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(text, "%u", i);
                add_text(text);
        }
        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++) {
                struct weir__names_scan scan = weir__names_scan_begin(i);

                for (bool done = false; !done;) {
                        struct weir__names_shard *shard = weir__names_lock(&map, scan.key.hash);
                        unsigned budget = 100;
                        struct weir__name *name = weir__names_scan(shard, &scan, &budget, &done);

                        weir__names_unlock(shard);
                        if (name) {
                                scan.key = (struct weir__name_key){.hash = name->hash}; /* its text goes with it */
                                drop(name);
                                taken++;
                        }
                        if (name && taken % 97 == 0) {
                                most = most_passed() > most ? most_passed() : most;
                        }
                }
        }
        CU_ASSERT_EQUAL(taken, COUNT);
        struct weir__names_scan scan = weir__names_scan_begin(3);
        unsigned budget = 1;
        bool done = false;
        CU_ASSERT_PTR_NULL(weir__names_scan(&map.shards[3], &scan, &budget, &done)); /* there is no table any more */
        CU_ASSERT(done);
        CU_ASSERT(most <= 60); /* in a heap it would be all that are left of a shard, or 255 */
        map_done();
}

/* From the front, as a cancel takes them, from the back, and from the middle: a quadratic one would take minutes. */
static void
two_hundred_thousand_under_one_name_are_taken_in_no_time(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 40000 : 200000 };
        static struct weir__name *names[COUNT];
        struct weir__name_key key = weir__name_key("one", 3);

        map_init();
        for (unsigned round = 0; round < 3; round++) {
                int64_t began = weir_test_cpu_time();

                for (unsigned i = 0; i < COUNT; i++) {
                        names[i] = add(&key);
                        CU_ASSERT_FATAL(weir__names_count(&map, &key) == i + 1);
                }
                for (unsigned i = 0; i < COUNT; i++) {
                        unsigned which = round == 0 ? i : round == 1 ? COUNT - 1 - i : (i + COUNT / 2) % COUNT;

                        if (round == 0) {
                                CU_ASSERT_PTR_EQUAL(find(&key), names[which]);
                        }
                        drop(names[which]);
                        CU_ASSERT_FATAL(weir__names_count(&map, &key) == COUNT - 1 - i);
                }
                CU_ASSERT(weir_test_cpu_time() - began < 20000000000);
        }
        map_done();
}

/* Which objects the rest of a walk meets, in their order: a digit each. */
static unsigned
met_by(struct weir__names_walk *walk, struct weir__name *const names[], unsigned count)
{
        unsigned met = 0;

        for (struct weir__name *at; (at = weir__names_walk_at(walk)); weir__names_walk_on(walk)) {
                for (unsigned i = 0; i < count; i++) {
                        met = at == names[i] ? 10 * met + i + 1 : met;
                }
        }
        return met;
}

static void
end_one(struct weir__names_shard *shard, struct weir__name *name)
{
        weir__names_make_zombie(shard, name);
        CU_ASSERT_PTR_NULL(weir__name_alive(name));
}

/* A walk meets those that were there at its beginning and are alive still; what was added since is not met. */
static void
a_walk_meets_what_is_left_of_what_was_there_at_its_beginning(void)
{
        struct weir__names_walk walk, late;
        struct weir__name *names[7];
        struct weir__name_key key = weir__name_key("one", 3);

        map_init();
        for (unsigned i = 0; i < 5; i++)
                names[i] = add(&key);
        struct weir__names_shard *shard = weir__names_lock(&map, key.hash);
        weir__names_walk_begin(shard, &walk, &key, false);
        end_one(shard, names[0]); /* where the walk is */
        weir__names_unlock(shard);
        names[5] = add(&key); /* where it is to end */
        weir__names_lock(&map, key.hash);
        weir__names_walk_begin(shard, &late, &key, false);
        end_one(shard, names[2]);
        end_one(shard, names[5]);
        weir__names_unlock(shard);
        names[6] = add(&key);
        weir__names_lock(&map, key.hash);
        CU_ASSERT_EQUAL(met_by(&walk, names, 7), 245);
        CU_ASSERT_EQUAL(met_by(&late, names, 7), 245);
        weir__names_walk_end(shard, &walk);
        weir__names_walk_end(shard, &late);
        weir__names_walk_begin(shard, &walk, &key, false);
        CU_ASSERT_EQUAL(met_by(&walk, names, 7), 2457);
        weir__names_walk_end(shard, &walk);
        weir__names_walk_begin(shard, &walk, &key, true);
        CU_ASSERT_EQUAL(met_by(&walk, names, 7), 631);
        weir__names_walk_end(shard, &walk);
        weir__names_unlock(shard);
        for (unsigned i = 0; i < 7; i++)
                drop(names[i]);
        map_done();
}

/* However many are added during the walk: without its end it would chase them. */
static void
a_walk_that_adds_for_each_object_it_meets_ends(void)
{
        struct weir__name_key key = weir__name_key("one", 3);
        struct weir__name *names[20];
        struct weir__names_walk walk;
        unsigned count = 0, met = 0;

        map_init();
        while (count < 10)
                names[count++] = add(&key);
        struct weir__names_shard *shard = weir__names_lock(&map, key.hash);
        weir__names_walk_begin(shard, &walk, &key, false);
        while (weir__names_walk_at(&walk) && met < 15) {
                weir__names_walk_on(&walk);
                met++;
                weir__names_unlock(shard);
                names[count++] = add(&key);
                weir__names_lock(&map, key.hash);
        }
        CU_ASSERT_EQUAL(met, 10);
        weir__names_walk_end(shard, &walk);
        weir__names_unlock(shard);
        while (count > 0)
                drop(names[--count]);
        map_done();
}

static void
a_walk_over_zombies_meets_none_that_became_one_after_its_beginning(void)
{
        struct weir__name_key key = weir__name_key("one", 3);
        struct weir__names_walk walk;
        struct weir__name *names[4];

        map_init();
        for (unsigned i = 0; i < 4; i++)
                names[i] = add(&key);
        struct weir__names_shard *shard = weir__names_lock(&map, key.hash);
        end_one(shard, names[3]);
        end_one(shard, names[1]);
        weir__names_walk_begin(shard, &walk, &key, true);
        end_one(shard, names[0]);
        end_one(shard, names[2]);            /* the last one that is alive */
        weir__names_unlink(shard, names[1]); /* where the walk is */
        CU_ASSERT_EQUAL(met_by(&walk, names, 4), 4);
        weir__names_walk_end(shard, &walk);
        CU_ASSERT_PTR_NULL(weir__names_find(shard, &key));
        weir__names_unlock(shard);
        CU_ASSERT_EQUAL(weir__names_count(&map, &key), 0);
        for (unsigned i = 0; i < 4; i++)
                drop(names[i]);
        map_done();
}

/* A walk that waits goes on when it is passed; one that is there and does not wait stays. */
static void
only_walks_that_wait_are_passed(void)
{
        struct weir__name_key key = weir__name_key("one", 3);
        struct weir__names_walk waits, looks;
        struct weir__name *name;

        map_init();
        name = add(&key);
        struct weir__names_shard *shard = weir__names_lock(&map, key.hash);
        weir__names_walk_begin(shard, &waits, &key, false);
        weir__names_walk_begin(shard, &looks, &key, false);
        atomic_store(&waits.moved.open, false); /* as weir__names_walk_wait does before it sleeps */
        weir__names_pass(shard, name);
        CU_ASSERT(atomic_load(&waits.moved.open));
        CU_ASSERT_PTR_NULL(weir__names_walk_at(&waits));
        CU_ASSERT_PTR_EQUAL(weir__names_walk_at(&looks), name);
        weir__names_walk_end(shard, &waits);
        weir__names_walk_end(shard, &looks);
        weir__names_unlock(shard);
        drop(name);
        map_done();
}

/* -- a table by itself -- */

#define LINES  2
#define PLACES (LINES * WEIR__NAME_TABLE_WIDTH)

static struct weir__name *
name_of_number(unsigned number)
{
        struct weir__name *name = calloc(1, sizeof *name + 2);

        CU_ASSERT_PTR_NOT_NULL_FATAL(name);
        name->text[0] = (char)('A' + number);
        name->size = 1;
        name->hash = number;
        return name;
}

/* Of the names, which belong into the first line up to some number, into the second from there on. */
static void
fill_and_find(struct weir__name_table *table, struct weir__name *const names[], unsigned first)
{
        for (unsigned i = 0; i < PLACES; i++) {
                CU_ASSERT(weir__name_table_add(table, i >= first, names[i]));
        }
        for (unsigned i = 0; i < PLACES; i++) {
                struct weir__name_key key = weir__name_key_of(names[i]);
                struct weir__name **place = weir__name_table_find(table, i >= first, &key);

                CU_ASSERT_PTR_NOT_NULL_FATAL(place);
                CU_ASSERT_PTR_EQUAL(*place, names[i]);
        }
}

static void
refuse_one_more(struct weir__name_table *table, struct weir__name *refused)
{
        struct weir__name_key key = weir__name_key_of(refused);
        struct weir__name_line before[LINES];

        memcpy(before, table->lines, sizeof before);
        for (size_t line = 0; line < LINES; line++) {
                CU_ASSERT_FALSE(weir__name_table_add(table, line, refused));
                for (unsigned i = 0; i < LINES; i++) {
                        CU_ASSERT_EQUAL(table->lines[i].passed, before[i].passed);
                }
                CU_ASSERT_EQUAL(memcmp(table->lines, before, sizeof before), 0);
                CU_ASSERT_PTR_NULL(weir__name_table_find(table, line, &key));
        }
}

/* However the names are spread over the two lines. */
struct walker {
        struct weir__name_key key;
        struct weir_test_latch has_begun, may_end;
};

static void *
walk_until_told(void *context)
{
        struct walker *walker = context;
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, walker->key.hash);
        struct weir__names_walk walk;

        weir__names_walk_begin(shard, &walk, &walker->key, false);
        weir__names_unlock(shard);
        weir_test_latch_count_down(&walker->has_begun);
        weir_test_latch_wait(&walker->may_end);
        weir__names_lock(&weir__timer_names, walker->key.hash);
        weir__names_walk_end(shard, &walk);
        weir__names_unlock(shard);
        return NULL;
}

/* The walk of the other thread is the newest one, then the oldest one. */
static void
a_forked_child_has_the_walks_of_its_thread_alone(void)
{
        struct walker walkers[2] = {0};
        struct weir__names_walk walk;
        pthread_t threads[2];
        int status;

        for (unsigned i = 0; i < 2; i++) {
                walkers[i].key = weir__name_key("fork", 4);
                weir_test_latch_init(&walkers[i].has_begun, 1);
                weir_test_latch_init(&walkers[i].may_end, 1);
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, walk_until_told, &walkers[i]), 0);
                weir_test_latch_wait(&walkers[i].has_begun);
                struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, walkers[i].key.hash);
                if (i == 0)
                        weir__names_walk_begin(shard, &walk, &walkers[i].key, false);
                weir__names_unlock(shard);
        }
        pid_t child = fork();
        if (child == 0) {
                struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, walkers[0].key.hash);
                _exit(shard->walks == &walk && !walk.previous && !walk.next ? 0 : 1);
        }
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        for (unsigned i = 0; i < 2; i++) {
                weir_test_latch_count_down(&walkers[i].may_end);
                pthread_join(threads[i], NULL);
        }
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, walkers[0].key.hash);
        CU_ASSERT(shard->walks == &walk && !walk.previous && !walk.next);
        weir__names_walk_end(shard, &walk);
        weir__names_unlock(shard);
}

static void
a_refused_add_leaves_no_trace(void)
{
        static const struct weir__name_line empty[LINES];
        struct weir__name *names[PLACES + 1];
        struct weir__name_table table;

        for (unsigned i = 0; i <= PLACES; i++) {
                names[i] = name_of_number(i);
        }
        CU_ASSERT_FATAL(weir__name_table_make(&table, LINES));
        for (unsigned first = 0; first <= PLACES; first++) {
                fill_and_find(&table, names, first);
                unsigned over = first > PLACES / 2 ? first - PLACES / 2 : PLACES / 2 - first;
                CU_ASSERT_EQUAL(table.lines[0].passed + table.lines[1].passed, over);
                refuse_one_more(&table, names[PLACES]);
                for (unsigned i = 0; i < PLACES; i++) {
                        weir__name_table_remove(&table, i >= first, weir__name_table_slot(&table, i >= first, names[i]));
                }
                CU_ASSERT_EQUAL(memcmp(table.lines, empty, sizeof empty), 0);
                fill_and_find(&table, names, first); /* and again */
                for (unsigned i = PLACES; i-- > 0;) {
                        weir__name_table_remove(&table, i >= first, weir__name_table_slot(&table, i >= first, names[i]));
                }
                CU_ASSERT_EQUAL(memcmp(table.lines, empty, sizeof empty), 0);
        }
        weir__name_table_drop(&table);
        for (unsigned i = 0; i <= PLACES; i++) {
                free(names[i]);
        }
}

/* -- texts -- */

static void
longest_names_are_told_apart_by_their_last_byte(void)
{
        char *text = malloc(WEIR_NAME_MAX + 1);
        struct weir__name *names[3];

        map_init();
        memset(text, 'n', WEIR_NAME_MAX);
        text[WEIR_NAME_MAX] = '\0';
        names[0] = add_text(text);
        text[WEIR_NAME_MAX - 1] = 'm';
        names[1] = add_text(text);
        text[WEIR_NAME_MAX - 1] = '\0';
        names[2] = add_text(text);
        CU_ASSERT_EQUAL(names[0]->size, WEIR_NAME_MAX);
        for (unsigned i = 0; i < 3; i++) {
                struct weir__name_key key;

                memset(text, 'n', WEIR_NAME_MAX);
                text[WEIR_NAME_MAX - 1] = "nm"[i];
                key = weir__name_key(text, strlen(text));
                CU_ASSERT_EQUAL(weir__names_count(&map, &key), 1);
                CU_ASSERT_PTR_EQUAL(find(&key), names[i]);
                drop(names[i]);
                CU_ASSERT_PTR_NULL(find(&key));
        }
        map_done();
        free(text);
}

static void
bytes_above_127_are_bytes_like_others(void)
{
        struct weir__name *names[255];
        char text[3] = "x";

        map_init();
        for (int byte = 1; byte < 256; byte++) {
                text[1] = (char)byte;
                names[byte - 1] = add_text(text);
        }
        for (int byte = 1; byte < 256; byte++) {
                text[1] = (char)byte;
                struct weir__name_key key = weir__name_key(text, 2);
                CU_ASSERT_PTR_EQUAL(find(&key), names[byte - 1]);
                CU_ASSERT_EQUAL(weir__names_count(&map, &key), 1);
                drop(names[byte - 1]);
        }
        map_done();
}

static void
name_is_found_by_its_bytes_not_by_its_prefix(void)
{
        struct weir__name *name;
        struct weir__name_key key;

        map_init();
        name = add_text("conn/7");
        key = weir__name_key("conn/", 5);
        CU_ASSERT_PTR_NULL(find(&key));
        key = weir__name_key("conn/77", 7);
        CU_ASSERT_PTR_NULL(find(&key));
        key.hash = name->hash; /* as if they collided */
        CU_ASSERT_PTR_NULL(find(&key));
        CU_ASSERT_EQUAL(weir__names_count(&map, &key), 0);
        drop(name);
        map_done();
}

/* -- as users see it -- */

static void
timers_bear_any_name_and_are_counted_and_cancelled_by_it(void)
{
        static const char *const texts[] = {"a", "b", "\xff\xfe", "\xc3\xa4", "with space", "\x01"};
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        weir_task *kept[6];

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        for (unsigned i = 0; i < 6; i++) {
                for (unsigned k = 0; k <= i; k++) {
                        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(texts[i], WEIR_FOREVER, NULL, NULL)), 0);
                }
                kept[i] = weir_timer_new_named(texts[i], 0, NULL, NULL);
        }
        for (unsigned i = 0; i < 6; i++) {
                CU_ASSERT_EQUAL(weir_timer_count(texts[i]), i + 2);
                weir_task_dismiss(kept[i]);
                CU_ASSERT_EQUAL(weir_timer_count(texts[i]), i + 1);
                CU_ASSERT_EQUAL(weir_timer_cancel(texts[i], WEIR_ALL), i + 1);
                CU_ASSERT_EQUAL(weir_timer_count(texts[i]), 0);
        }
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static _Atomic size_t called; /* callbacks of the running test */

static void
note_cancelled(weir_task *task, void *context)
{
        if (context)
                *(bool *)context = weir_task_status(task) == -ECANCELED;
        atomic_fetch_add(&called, 1);
}

static char *
text_of(size_t size, char last)
{
        char *text = malloc(size + 1);

        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        memset(text, 'n', size);
        text[size - 1] = last;
        text[size] = '\0';
        return text;
}

/* Around the sizes at which a block comes from another class of the caches, or from malloc, or counts as large. */
static void
timers_names_of_every_size_are_copied_whole(void)
{
        static const size_t sizes[] = {1, 15, 16, 17, 100, 247, 248, 249, 264, 280, 1000, 65400, 65431, 65534, WEIR_NAME_MAX};

        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                char *text = text_of(sizes[i], 'x'), *same = text_of(sizes[i], 'x'), *other = text_of(sizes[i], 'y');
                weir_task *task = weir_timer_new_named(text, WEIR_FOREVER, NULL, NULL);

                memset(text, '?', sizes[i]);
                CU_ASSERT_EQUAL(weir_task_start(task), 0);
                CU_ASSERT_EQUAL(weir_timer_count(same), 1);
                CU_ASSERT_EQUAL(weir_timer_count(text) + weir_timer_count(other), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel(other, WEIR_ALL), 0);
                CU_ASSERT_EQUAL(weir_timer_cancel(same, WEIR_ALL), 1);
                free(text);
                free(same);
                free(other);
        }
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

static void
timer_with_a_name_that_is_none_reports_it_when_it_is_consumed(void)
{
        char *text = text_of(WEIR_NAME_MAX + 1, 'z');
        weir_series *series = weir_series_new(NULL, NULL);

        atomic_store(&called, 0);
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(text, 0, note_cancelled, NULL)), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("", 0, note_cancelled, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(NULL, 0, note_cancelled, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_timer_new_named(text, 0, note_cancelled, NULL)), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_series_run(series), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_timer_count(text) + weir_timer_cancel(text, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel(NULL, WEIR_ALL) + weir_timer_cancel("", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(atomic_load(&called), 0);
        free(text);
}

/* Every second timer was started: what counts is the order of their making. */
static void
cancel_with_max_takes_those_made_first(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 20000 : 200000, STEP = COUNT / 20 };
        weir_task **tasks = calloc(COUNT, sizeof(weir_task *));
        bool *cancelled = calloc(COUNT, sizeof *cancelled);
        size_t wrong = 0;

        CU_ASSERT_FATAL(tasks && cancelled);
        atomic_store(&called, 0);
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        for (size_t i = 0; i < COUNT; i++)
                tasks[i] = weir_timer_new_named("queue", WEIR_FOREVER, note_cancelled, &cancelled[i]);
        for (size_t i = 0; i < COUNT; i += 2)
                weir_task_start(tasks[i]);
        for (size_t taken = STEP; taken <= COUNT / 2; taken += STEP) {
                CU_ASSERT_EQUAL(weir_timer_cancel("queue", STEP), STEP);
                CU_ASSERT_EQUAL(weir_timer_count("queue"), COUNT - taken);
                WEIR_TEST_EVENTUALLY(atomic_load(&called) == taken / 2);
                for (size_t i = 0; i < COUNT; i += 2)
                        wrong += cancelled[i] != (i < taken);
        }
        for (size_t i = 1; i < COUNT; i += 2)
                weir_task_start(tasks[i]);
        WEIR_TEST_EVENTUALLY(atomic_load(&called) == COUNT / 2);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        for (size_t i = 0; i < COUNT; i++)
                wrong += cancelled[i] != (i < COUNT / 2);
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT_EQUAL(atomic_load(&called), COUNT);
        CU_ASSERT_EQUAL(weir_timer_count("queue"), 0);
        free(cancelled);
        free(tasks);
}

static void
hundred_thousand_named_timers_are_cancelled_one_by_one(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 10000 : 100000 };
        size_t cancelled = 0, there = 0;
        char text[32];

        atomic_store(&called, 0);
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(text, "%u", i);
                weir_task_start(weir_timer_new_named(text, WEIR_SEC(3600), note_cancelled, NULL));
                there += weir_timer_count(text);
        }
        CU_ASSERT_EQUAL(there, COUNT);
        for (unsigned i = COUNT; i-- > 0;) {
                sprintf(text, "%u", i);
                cancelled += weir_timer_cancel(text, WEIR_ALL);
        }
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(cancelled, COUNT);
        CU_ASSERT_EQUAL(atomic_load(&called), COUNT);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(random_adds_and_removals_agree_with_a_plain_model),
                WEIR_TEST(names_in_one_shard_agree_with_a_plain_model),
                WEIR_TEST(names_in_a_few_lines_agree_with_a_plain_model),
                WEIR_TEST(texts_of_every_length_hash_as_in_a_plain_model),
                WEIR_TEST(texts_of_every_length_are_told_apart_by_each_byte),
                WEIR_TEST(names_with_the_same_hash_agree_with_a_plain_model),
                WEIR_TEST(hundred_thousand_names_grow_the_map_and_it_shrinks_when_they_go),
                WEIR_TEST(names_taken_in_the_order_of_a_scan_leave_the_others_spread),
                WEIR_TEST(two_hundred_thousand_under_one_name_are_taken_in_no_time),
                WEIR_TEST(a_walk_meets_what_is_left_of_what_was_there_at_its_beginning),
                WEIR_TEST(a_walk_that_adds_for_each_object_it_meets_ends),
                WEIR_TEST(a_walk_over_zombies_meets_none_that_became_one_after_its_beginning),
                WEIR_TEST(only_walks_that_wait_are_passed),
                WEIR_TEST(a_forked_child_has_the_walks_of_its_thread_alone),
                WEIR_TEST(a_refused_add_leaves_no_trace),
                WEIR_TEST(longest_names_are_told_apart_by_their_last_byte),
                WEIR_TEST(bytes_above_127_are_bytes_like_others),
                WEIR_TEST(name_is_found_by_its_bytes_not_by_its_prefix),
                WEIR_TEST(timers_bear_any_name_and_are_counted_and_cancelled_by_it),
                WEIR_TEST(timers_names_of_every_size_are_copied_whole),
                WEIR_TEST(timer_with_a_name_that_is_none_reports_it_when_it_is_consumed),
                WEIR_TEST(cancel_with_max_takes_those_made_first),
                WEIR_TEST(hundred_thousand_named_timers_are_cancelled_one_by_one),
        };

        return weir_test_main("names", tests, sizeof tests / sizeof *tests);
}
