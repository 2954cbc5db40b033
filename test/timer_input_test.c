/* test/timer_input_test.c: the table "Bad input" of docs/contract.md: names, durations, ids and numbers that nobody should give,
 * each of which has its answer.
 *
 * The first test needs a process that never had a runtime. */
#include "factory/names/names.h"
#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

/* A text of that many bytes, all the same but the last. */
static char *
text_of(size_t size, char byte, char last)
{
        char *text = malloc(size + 1);

        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        memset(text, byte, size);
        text[size - 1] = last;
        text[size] = '\0';
        return text;
}

static int
count_shown(const struct weir_timer_info *timer, void *context)
{
        (void)timer;
        ++*(size_t *)context;
        return 0;
}

static int64_t
shown(const char *prefix)
{
        size_t count = 0;
        int64_t said = weir_timer_list(prefix, count_shown, &count);

        CU_ASSERT(said < 0 ? count == 0 : count == (size_t)said);
        return said;
}

/* -- before anything was started -- */

static void
asking_for_what_nobody_bears_starts_nothing(void)
{
        if (weir__pollers_count()) {
                return; /* run by itself, in another order */
        }
        CU_ASSERT_EQUAL(weir_timer_cancel("nobody", WEIR_ALL) + weir_timer_cancel_prefix("", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_reset("nobody", 0) + weir_timer_extend("nobody", 0) + weir_timer_count("nobody"), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("nobody", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(1) + weir_timer_reset_id(UINT64_MAX, 0), 0);
        CU_ASSERT_EQUAL(shown(""), 0);
        CU_ASSERT_EQUAL(weir__pollers_count(), 0);
        weir_test_end(); /* should there be some after all, and no more than a no-op if not */
}

/* -- names -- */

static void
check_no_name(const char *name, int status)
{
        struct weir_test_record record = {0}, end = {0};
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        CU_ASSERT_EQUAL(weir_task_start(weir_test_named(name, 0, &record)), status);
        CU_ASSERT_EQUAL(weir_task_run(weir_test_named(name, 0, &record)), status);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_test_named(name, 0, &record)), status);
        CU_ASSERT_EQUAL(weir_series_run(series), status);
        weir_parallel_add(parallel, weir_test_named(name, 0, &record));
        CU_ASSERT_EQUAL(weir_task_run(parallel), status);
        weir_task_dismiss(weir_test_named(name, 0, &record));
        weir_task *task = weir_test_named(name, FAR, &record);
        weir_timer_cancel_id(weir_timer_id_of(task));
        CU_ASSERT_EQUAL(weir_task_start(task), status);
        CU_ASSERT_EQUAL(record.calls + end.calls, 0);
        CU_ASSERT_EQUAL(record.frees, 6);

        CU_ASSERT_EQUAL(weir_timer_cancel(name, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait(name, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_reset(name, 0), 0);
        CU_ASSERT_EQUAL(weir_timer_extend(name, 0), 0);
        CU_ASSERT_EQUAL(weir_timer_count(name), 0);
}

static void
null_empty_and_too_long_names_are_refused_by_the_start_and_borne_by_nobody(void)
{
        char *too_long = text_of(WEIR_NAME_MAX + 1, 'n', 'n'), *far_too_long = text_of(10000000, 'n', 'n');
        char *longest = text_of(WEIR_NAME_MAX, 'n', 'n'); /* what they begin with */

        weir_test_begin_virtual();
        weir_task *timers[] = {weir_timer_new_named("n", FAR, NULL, NULL), weir_timer_new_named(longest, FAR, NULL, NULL)};
        check_no_name(NULL, -EINVAL);
        check_no_name("", -EINVAL);
        check_no_name(too_long, -ENAMETOOLONG);
        check_no_name(far_too_long, -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix(too_long, WEIR_ALL) + weir_timer_cancel_prefix(far_too_long, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(shown(too_long) + shown(far_too_long), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix(NULL, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(shown(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_timer_count("n") + weir_timer_count(longest), 2);
        weir_task_dismiss(timers[0]);
        weir_task_dismiss(timers[1]);
        weir_test_end();
        free(too_long);
        free(far_too_long);
        free(longest);
}

/* All that can be done with a name: two timers that bear it, and one that bears another, which only differs in its last byte. */
static void
check_name(const char *name, const char *other)
{
        struct weir_test_record records[3] = {0};
        weir_timer_id id;

        for (unsigned i = 0; i < 3; i++) {
                weir_task *timer = weir_test_named(i < 2 ? name : other, FAR, &records[i]);

                id = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
        CU_ASSERT_EQUAL(weir_timer_count(name), 2);
        CU_ASSERT_EQUAL(weir_timer_reset(name, 2 * FAR), 2);
        CU_ASSERT_EQUAL(weir_timer_extend(name, FAR), 2);
        CU_ASSERT_EQUAL(shown(name), 2);
        CU_ASSERT_EQUAL(weir_test_info(other).due_in, FAR);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait(name, 1), 1);
        WEIR_TEST_CALLED(&records[0], -ECANCELED);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix(name, WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait(name, WEIR_ALL), 0);
        WEIR_TEST_CALLED(&records[1], -ECANCELED);
        CU_ASSERT_EQUAL(weir_timer_count(name) + shown(name), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel(other, WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(id), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait(other, WEIR_ALL), 0);
        WEIR_TEST_CALLED(&records[2], -ECANCELED);
}

static void
names_of_any_length_up_to_the_longest_do_all_that_names_do(void)
{
        static const size_t sizes[] = {1, 2, 63, 64, 1000, 32768, WEIR_NAME_MAX - 1, WEIR_NAME_MAX};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                char *name = text_of(sizes[i], 'l', 'm'), *other = text_of(sizes[i], 'l', 'n');

                check_name(name, other);
                free(name);
                free(other);
        }
        weir_test_end();
}

static void
names_of_any_bytes_but_nul_do_all_that_names_do(void)
{
        weir_test_begin_virtual();
        for (int byte = 1; byte < 256; byte++) {
                char alone[] = {(char)byte, '\0'}, other[] = {(char)(byte ^ (byte == 128 ? 1 : 128)), '\0'};
                char within[] = {'a', (char)byte, 'b', '\0'}, behind[] = {'a', (char)byte, 'c', '\0'};

                check_name(alone, other);
                check_name(within, behind);
        }
        check_name("\xc3\x28 \xff\xfe no text", "\xc3\x28 \xff\xfe no tex\x80");
        check_name("%s%n%d\n\r\t", "%s%n%d\n\r\b");
        weir_test_end();
}

/* -- durations -- */

/* The worker is held, so that nothing ends between two calls; then each timer ends after 0. */
static void
durations_at_the_edges_are_taken_by_every_call(void)
{
        static const weir_nsec edges[] = {0,
                                          1,
                                          -1,
                                          WEIR_SEC(1),
                                          -WEIR_SEC(1),
                                          WEIR_FOREVER,
                                          WEIR_FOREVER - 1,
                                          INT64_MIN,
                                          INT64_MIN + 1,
                                          WEIR_SEC(INT64_MAX),
                                          WEIR_SEC(INT64_MIN),
                                          INT64_MAX / 2 + 1,
                                          INT64_MIN / 2 - 1};
        enum { EDGES = sizeof edges / sizeof *edges };
        static struct weir_test_record records[EDGES * EDGES];
        struct weir_test_gate gate;

        weir_test_begin_virtual();
        memset(records, 0, sizeof records);
        weir_test_gate_hold(&gate, NULL);
        for (unsigned i = 0; i < EDGES * EDGES; i++) {
                weir_nsec one = edges[i / EDGES], other = edges[i % EDGES];
                weir_task *timer = weir_test_named("edge", one, &records[i]);
                weir_timer_id id = weir_timer_id_of(timer);
                size_t counted = weir_timer_extend("edge", other) + weir_timer_reset("edge", other);

                counted += weir_timer_extend("edge", one) + weir_timer_reset_id(id, one);
                CU_ASSERT_EQUAL(weir_test_info("edge").due_in, one);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
                counted += weir_timer_extend("edge", other) + weir_timer_extend("edge", other) + weir_timer_reset("edge", one);
                counted += weir_timer_extend("edge", one) + weir_timer_reset("edge", other) + weir_timer_reset_id(id, one);
                if (one == WEIR_FOREVER) {
                        CU_ASSERT_EQUAL(weir_test_info("edge").due_in, WEIR_FOREVER);
                } else if (one <= 0) {
                        CU_ASSERT(weir_test_info("edge").due_in <= 0);
                } else {
                        CU_ASSERT(weir_test_info("edge").due_in >= one);
                }
                counted += weir_timer_reset("edge", WEIR_FOREVER) + weir_timer_extend("edge", other);
                CU_ASSERT_EQUAL(counted, 12);
                CU_ASSERT_EQUAL(weir_test_info("edge").due_in, WEIR_FOREVER);
                CU_ASSERT_EQUAL(weir_timer_reset("edge", 0), 1);
                CU_ASSERT_EQUAL(weir_timer_cancel_id(id), 1);
        }
        weir_test_gate_open(&gate);
        weir_test_pass(1);
        weir_test_end();
        for (unsigned i = 0; i < EDGES * EDGES; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
}

/* -- numbers -- */

static void
any_max_is_taken(void)
{
        static const size_t more[] = {5, 6, 1000, UINT32_MAX, (size_t)UINT32_MAX + 1, SIZE_MAX / 2 + 1, SIZE_MAX - 1, SIZE_MAX};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < sizeof more / sizeof *more; i++) {
                for (unsigned way = 0; way < 3; way++) {
                        for (unsigned k = 0; k < 5; k++) {
                                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named("max", FAR, NULL, NULL)), 0);
                        }
                        CU_ASSERT_EQUAL(weir_timer_cancel("max", 0) + weir_timer_cancel_prefix("m", 0), 0);
                        CU_ASSERT_EQUAL(weir_timer_cancel_wait("max", 0), 0);
                        CU_ASSERT_EQUAL(way == 0   ? weir_timer_cancel("max", more[i])
                                        : way == 1 ? weir_timer_cancel_prefix("", more[i])
                                                   : (size_t)weir_timer_cancel_wait("max", more[i]),
                                        5);
                }
        }
        weir_test_end();
}

static _Atomic size_t cancelled;

static void
count_cancelled(weir_task *task, void *context)
{
        (void)context;
        cancelled += weir_task_status(task) == -ECANCELED;
}

static void
million_under_one_name_is_added_counted_reset_listed_and_cancelled(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 50000 : 1000000 };

        weir_test_begin_real(2);
        cancelled = 0;
        for (unsigned i = 0; i < COUNT; i++) {
                weir_task_start(weir_timer_new_named("million", FAR, count_cancelled, NULL));
        }
        CU_ASSERT_EQUAL(weir_timer_count("million"), COUNT);
        CU_ASSERT_EQUAL(weir_timer_reset("million", 2 * FAR), COUNT);
        CU_ASSERT_EQUAL(weir_timer_extend("million", -FAR / 2), COUNT);
        CU_ASSERT_EQUAL(shown("mill"), COUNT);
        CU_ASSERT_EQUAL(weir_timer_cancel("million", 1000), 1000);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("million", 1000), 1000);
        CU_ASSERT_EQUAL(weir_timer_count("million"), COUNT - 2000);
        CU_ASSERT_EQUAL(weir_timer_cancel_wait("million", WEIR_ALL), COUNT - 2000);
        CU_ASSERT_EQUAL(cancelled, COUNT);
        CU_ASSERT_EQUAL(weir_timer_reset("million", 0) + weir_timer_count("million"), 0);
        weir_test_end();
}

static void
million_names_are_added_counted_reset_listed_and_cancelled(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 50000 : 1000000 };
        size_t counted = 0, reset = 0, taken = 0;
        char name[32];

        weir_test_begin_real(2);
        cancelled = 0;
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(name, "name %u", i);
                weir_task_start(weir_timer_new_named(name, FAR, count_cancelled, NULL));
        }
        CU_ASSERT_EQUAL(shown("name "), COUNT);
        for (unsigned i = 0; i < COUNT; i++) {
                sprintf(name, "name %u", i);
                counted += weir_timer_count(name);
                reset += weir_timer_reset(name, 2 * FAR);
                if (i % 2) {
                        taken += weir_timer_cancel(name, WEIR_ALL);
                }
        }
        CU_ASSERT_EQUAL(counted, COUNT);
        CU_ASSERT_EQUAL(reset, COUNT);
        CU_ASSERT_EQUAL(taken, COUNT / 2);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("name ", WEIR_ALL), COUNT / 2);
        weir_test_end();
        CU_ASSERT_EQUAL(cancelled, COUNT);
        CU_ASSERT_EQUAL(shown(""), 0);
}

/* -- names chosen to collide -- */

#define LEVELS (WEIR_TEST_SANITIZED ? 10 : 13)
#define FAMILY (1U << LEVELS) /* names */

/* Writes the name with that number; all of a family collide in some hash without a key. */
typedef void name_fn(unsigned number, char *name);

static uint32_t
times_33(const char *text)
{
        uint32_t hash = 5381;

        for (; *text; text++) {
                hash = hash * 33 + (unsigned char)*text;
        }
        return hash;
}

/* Two letters that add up to the same, at each level. */
static void
same_times_33(unsigned number, char *name)
{
        for (unsigned level = 0; level < LEVELS; level++) {
                memcpy(name + 2 * level, number >> level & 1 ? "Ez" : "FY", 2);
        }
        name[2 * LEVELS] = '\0';
}

static uint32_t
fnv_on(uint32_t hash, const char *text, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                hash = (hash ^ (unsigned char)text[i]) * UINT32_C(16777619);
        }
        return hash;
}

#define FNV_BEGIN UINT32_C(2166136261)
#define BLOCK     4

static uint32_t
fnv(const char *text)
{
        return fnv_on(FNV_BEGIN, text, strlen(text));
}

/* At each level two blocks after which the hash is the same again. */
static char fnv_blocks[13][2][BLOCK];

static void
write_block(uint32_t number, char *block)
{
        for (unsigned i = 0; i < BLOCK; i++, number /= 90) {
                block[i] = (char)('!' + number % 90);
        }
}

/* Finds them as two birthdays are found that are the same. */
static uint32_t
find_fnv_blocks(uint32_t hash, char blocks[2][BLOCK])
{
        enum { PLACES = 1 << 20 };
        static uint32_t seen[PLACES]; /* 1 + the number of a block with a hash like this */

        memset(seen, 0, sizeof seen);
        for (uint32_t number = 0;; number++) {
                write_block(number, blocks[0]);
                uint32_t found = fnv_on(hash, blocks[0], BLOCK), *place = &seen[found % PLACES];
                if (*place) {
                        write_block(*place - 1, blocks[1]);
                        if (fnv_on(hash, blocks[1], BLOCK) == found) {
                                return found;
                        }
                }
                *place = number + 1;
        }
}

static void
same_fnv(unsigned number, char *name)
{
        for (unsigned level = 0; level < LEVELS; level++) {
                memcpy(name + BLOCK * level, fnv_blocks[level][number >> level & 1], BLOCK);
        }
        name[BLOCK * LEVELS] = '\0';
}

static void
same_beginning(unsigned number, char *name)
{
        memset(name, 'b', 500);
        sprintf(name + 500, "%u", number);
}

static void
same_end(unsigned number, char *name)
{
        memset(name + sprintf(name, "%08u", number), 'e', 500);
        name[508] = '\0';
}

/* As many of the one letter as of the other. */
static void
same_letters(unsigned number, char *name)
{
        for (unsigned level = 0; level < LEVELS; level++) {
                memcpy(name + 2 * level, number >> level & 1 ? "xy" : "yx", 2);
        }
        name[2 * LEVELS] = '\0';
}

/* How many names had to go past a line at most, because it was full. */
static size_t
longest_chain_of(const struct weir__name_table *table)
{
        size_t longest = 0;

        for (size_t i = 0; table->lines && i <= table->mask; i++) {
                longest = table->lines[i].passed > longest ? table->lines[i].passed : longest;
        }
        return longest;
}

/* In a map of its own, which has the same key: by chance even ten that pass one line are rare. */
static void
check_chains(name_fn *write)
{
        static struct weir__names map;
        struct weir__name **names = malloc(FAMILY * sizeof *names);
        size_t longest = 0, in_shard = 0;
        char text[600];

        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++) {
                map.shards[i] = (struct weir__names_shard){0};
                weir__lock_init(&map.shards[i].lock, WEIR__RANK_NAMES);
        }
        for (unsigned i = 0; i < FAMILY; i++) {
                write(i, text);
                struct weir__name_key key = weir__name_key(text, strlen(text));
                names[i] = malloc(WEIR__NAME_SIZE(0, key.size));
                CU_ASSERT_FATAL(weir__names_add(&map, names[i], &key));
        }
        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++) {
                size_t now = longest_chain_of(&map.shards[i].now), before = longest_chain_of(&map.shards[i].before);

                longest = now > longest ? now : longest;
                longest = before > longest ? before : longest;
                in_shard = map.shards[i].names > in_shard ? map.shards[i].names : in_shard;
        }
        CU_ASSERT(longest <= 30);
        CU_ASSERT(in_shard <= 4 * FAMILY / WEIR__NAMES_SHARDS + 50);
        for (unsigned i = 0; i < FAMILY; i++) {
                weir__names_remove(&map, names[i]);
                free(names[i]);
        }
        free(names);
}

static void
check_family(name_fn *write)
{
        size_t found = 0, taken = 0;
        char name[600];

        check_chains(write);
        for (unsigned i = 0; i < FAMILY; i++) {
                write(i, name);
                weir_task_start(weir_timer_new_named(name, FAR, NULL, NULL));
        }
        CU_ASSERT_EQUAL(shown(""), FAMILY);
        for (unsigned i = 0; i < FAMILY; i++) {
                write(i, name);
                found += weir_timer_count(name);
                taken += weir_timer_cancel(name, WEIR_ALL);
        }
        CU_ASSERT_EQUAL(found, FAMILY);
        CU_ASSERT_EQUAL(taken, FAMILY);
        CU_ASSERT_EQUAL(shown(""), 0);
}

static void
names_that_collide_in_hashes_without_a_key_do_not_collide_here(void)
{
        uint32_t hash = FNV_BEGIN;
        char one[600], other[600];

        for (unsigned level = 0; level < LEVELS; level++) {
                hash = find_fnv_blocks(hash, fnv_blocks[level]);
        }
        for (unsigned i = 1; i < FAMILY; i++) {
                same_fnv(0, one);
                same_fnv(i, other);
                CU_ASSERT_FATAL(strcmp(one, other) && fnv(one) == fnv(other));
                same_times_33(0, one);
                same_times_33(i, other);
                CU_ASSERT_FATAL(strcmp(one, other) && times_33(one) == times_33(other));
        }
        weir_test_begin_virtual();
        check_family(same_fnv);
        check_family(same_times_33);
        check_family(same_beginning);
        check_family(same_end);
        check_family(same_letters);
        weir_test_end();
}

/* -- during shutdown -- */

/* The worker is held, so shutdown has begun and ended nothing yet. */
static void
cancel_while_shutdown_begins_counts_what_it_has_not_ended(void)
{
        struct weir_test_record records[4] = {0}, left = {0}, unstarted = {0};
        struct weir_test_thread thread;
        struct weir_test_gate gate;
        weir_timer_id id = 0;

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 4; i++) {
                weir_task *timer = weir_test_named(i ? "during" : "during by prefix", FAR, &records[i]);

                id = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
        CU_ASSERT_EQUAL(weir_task_start(weir_test_named("left", FAR, &left)), 0);
        weir_task *timer = weir_test_named("during", FAR, &unstarted);
        weir_test_gate_hold(&gate, NULL);
        weir_test_shutdown_begin_behind_gate(&thread);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(id), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("during", 1), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("during by", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_timer_cancel("during", WEIR_ALL), 2);
        CU_ASSERT_EQUAL(weir_task_start(timer), -ESHUTDOWN);
        weir_test_gate_open(&gate);
        weir_test_thread_join(&thread);
        for (unsigned i = 0; i < 4; i++) {
                WEIR_TEST_CALLED(&records[i], -ECANCELED);
        }
        WEIR_TEST_CALLED(&left, -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&unstarted);
        CU_ASSERT_EQUAL(weir_timer_cancel("during", WEIR_ALL) + weir_timer_cancel("left", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel_id(id), 0);
}

#define ENDED 6

static struct {
        struct weir_test_record records[ENDED];
        weir_timer_id ids[ENDED];
        bool begun;
} ended;

/* The first callback meets all the others before they begin. */
static void
cancel_what_shutdown_has_ended(weir_task *task, void *context)
{
        size_t by_id = 0;

        weir_test_done(task, context);
        if (ended.begun) {
                return;
        }
        ended.begun = true;
        CU_ASSERT_EQUAL(weir_task_status(task), -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_timer_count("ended"), ENDED);
        CU_ASSERT_EQUAL(weir_timer_reset("ended", 0), 0);
        CU_ASSERT_EQUAL(weir_timer_cancel("ended", 2), 2);
        CU_ASSERT_EQUAL(weir_timer_cancel_prefix("ende", 1), 1);
        for (unsigned i = 0; i < ENDED; i++) {
                by_id += weir_timer_cancel_id(ended.ids[i]);
        }
        CU_ASSERT_EQUAL(by_id, ENDED - 1 - 3);
        CU_ASSERT_EQUAL(weir_timer_count("ended"), 1);
}

static void
cancel_of_what_shutdown_has_ended_counts_and_it_sees_ecanceled(void)
{
        unsigned cancelled_ones = 0;

        memset(&ended, 0, sizeof ended);
        weir_test_begin_virtual();
        for (unsigned i = 0; i < ENDED; i++) {
                weir_task *timer = weir_timer_new_named("ended", FAR, cancel_what_shutdown_has_ended, &ended.records[i]);

                ended.ids[i] = weir_timer_id_of(timer);
                CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(timer)), 0);
        }
        weir_test_end();
        for (unsigned i = 0; i < ENDED; i++) {
                CU_ASSERT(ended.records[i].calls == 1 && ended.records[i].frees == 1);
                cancelled_ones += ended.records[i].status == -ECANCELED;
        }
        CU_ASSERT_EQUAL(cancelled_ones, ENDED - 1);
}

/* -- in a forked child -- */

static struct {
        weir_task *timer;
        weir_timer_id id;
} parent;

#define DEMAND(condition)                                    \
        do {                                                 \
                if (!(condition)) {                          \
                        fprintf(stderr, "%s\n", #condition); \
                        abort();                             \
                }                                            \
        } while (0)

static void
ask_in_child(void)
{
        DEMAND(weir_timer_cancel("parent", WEIR_ALL) == 0);
        DEMAND(weir_timer_cancel_prefix("", WEIR_ALL) == 0);
        DEMAND(weir_timer_reset("parent", 0) == 0);
        DEMAND(weir_timer_extend("parent", 0) == 0);
        DEMAND(weir_timer_count("parent") == 0);
        DEMAND(weir_timer_cancel_id(parent.id) == 0);
        DEMAND(weir_timer_reset_id(parent.id, 0) == 0);
        DEMAND(weir_timer_id_of(parent.timer) == 0);
        DEMAND(weir_timer_cancel_wait("parent", WEIR_ALL) == -ECHILD);
        DEMAND(weir_timer_list("", count_shown, &(size_t){0}) == -ECHILD);
        DEMAND(weir_task_start(weir_timer_new_named("child", 0, NULL, NULL)) == -ECHILD);
}

static void
forked_child_finds_nothing_and_is_told_where_it_matters(void)
{
        char said[256];

        weir_test_begin_virtual();
        parent.timer = weir_timer_new_named("parent", FAR, NULL, NULL);
        parent.id = weir_timer_id_of(parent.timer);
        CU_ASSERT_EQUAL(weir_test_child(ask_in_child, said, sizeof said), 0);
        CU_ASSERT_STRING_EQUAL(said, "");
        CU_ASSERT_EQUAL(weir_timer_count("parent"), 1);
        weir_task_dismiss(parent.timer);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(asking_for_what_nobody_bears_starts_nothing),
                WEIR_TEST(null_empty_and_too_long_names_are_refused_by_the_start_and_borne_by_nobody),
                WEIR_TEST(names_of_any_length_up_to_the_longest_do_all_that_names_do),
                WEIR_TEST(names_of_any_bytes_but_nul_do_all_that_names_do),
                WEIR_TEST(durations_at_the_edges_are_taken_by_every_call),
                WEIR_TEST(any_max_is_taken),
                WEIR_TEST(million_under_one_name_is_added_counted_reset_listed_and_cancelled),
                WEIR_TEST(million_names_are_added_counted_reset_listed_and_cancelled),
                WEIR_TEST(names_that_collide_in_hashes_without_a_key_do_not_collide_here),
                WEIR_TEST(cancel_while_shutdown_begins_counts_what_it_has_not_ended),
                WEIR_TEST(cancel_of_what_shutdown_has_ended_counts_and_it_sees_ecanceled),
                WEIR_TEST(forked_child_finds_nothing_and_is_told_where_it_matters),
        };

        return weir_test_main("timer input", tests, sizeof tests / sizeof *tests);
}
