/* test/upstream_addresses_test.c: members that are the addresses of a name, and memory that runs out.
 *
 * The linker puts functions that can refuse memory in front of weir__alloc and weir__free (test/CMakeLists.txt). */
#include "test/upstream_fixture.h"

#include <stdatomic.h>

static atomic_int left = -1; /* allocations until one is refused; below 0: none is */
static atomic_int blocks;

void *__real_weir__alloc(size_t size);
void *__wrap_weir__alloc(size_t size);
void __real_weir__free(void *block, size_t size);
void __wrap_weir__free(void *block, size_t size);

void *
__wrap_weir__alloc(size_t size)
{
        if (atomic_load(&left) >= 0 && atomic_fetch_sub(&left, 1) == 0) {
                return NULL;
        }
        void *block = __real_weir__alloc(size);
        atomic_fetch_add(&blocks, block != NULL);
        return block;
}

void
__wrap_weir__free(void *block, size_t size)
{
        atomic_fetch_sub(&blocks, block != NULL);
        __real_weir__free(block, size);
}

#define ORIGIN "backend.internal:80"

/* -- lists of addresses -- */

/* Such as "1 2 5": the addresses of the members 1, 2 and 5. */
static int
set_as(weir_upstream *upstream, const char *origin, const char *numbers)
{
        char texts[300][32];
        const char *addresses[300];
        size_t count = 0;
        int skip;

        for (unsigned number; sscanf(numbers, "%u%n", &number, &skip) == 1; numbers += skip, count++) {
                snprintf(texts[count], sizeof texts[count], "%s", upstream_address(number));
                addresses[count] = texts[count];
        }
        return weir__upstream_set_addresses(upstream, origin, addresses, count, NULL);
}

static int
set(weir_upstream *upstream, const char *numbers)
{
        return set_as(upstream, ORIGIN, numbers);
}

/* Whether the members are those, in that order. */
static bool
has(weir_upstream *upstream, const char *numbers)
{
        struct weir_member_info info = {.size = sizeof info};
        char text[2000] = "";
        size_t size = 0;

        for (size_t i = 0; weir_upstream_member(upstream, i, &info) == 0; i++) {
                size += (size_t)snprintf(text + size, sizeof text - size, "%s%u", i ? " " : "", upstream_index(info.address));
        }
        if (strcmp(text, numbers) != 0) {
                fprintf(stderr, "has %s, expected %s\n", text, numbers);
        }
        return strcmp(text, numbers) == 0;
}

static void
members_follow_the_addresses(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 0);

        CU_ASSERT_EQUAL(set(upstream, "1 2 3"), 0);
        CU_ASSERT_TRUE(has(upstream, "1 2 3"));
        CU_ASSERT_EQUAL(set(upstream, "3 2 4 5"), 0);
        CU_ASSERT_TRUE(has(upstream, "2 3 4 5"));
        CU_ASSERT_EQUAL(set(upstream, "5 5 7 7"), 0);
        CU_ASSERT_TRUE(has(upstream, "5 7"));
        CU_ASSERT_EQUAL(set(upstream, ""), 0);
        CU_ASSERT_TRUE(has(upstream, ""));
        weir_upstream_unref(upstream);
}

static void
a_member_that_stays_keeps_its_record(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 0);

        set(upstream, "1 2");
        upstream_fail_at(upstream, 1, 5);
        struct weir__picked picked = upstream_pick(upstream);
        CU_ASSERT_EQUAL(upstream_who(&picked), 2);
        weir_upstream_weight(upstream, upstream_address(2), 9);
        set(upstream, "2 1 3");
        UPSTREAM_STATE(upstream, 1, WEIR_MEMBER_OPEN);
        CU_ASSERT_EQUAL(upstream_info(upstream, 1).failures, 5);
        CU_ASSERT_EQUAL(upstream_info(upstream, 2).in_flight, 1);
        CU_ASSERT_EQUAL(upstream_info(upstream, 2).weight, 9);
        upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        weir_upstream_unref(upstream);
}

static void
requests_outlive_the_address(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 0);

        set(upstream, "1");
        struct weir__picked picked = upstream_pick(upstream);
        set(upstream, "2");
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 2);
        CU_ASSERT_EQUAL(upstream_who(&picked), 1);
        upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        weir_upstream_unref(upstream);
}

static void
other_members_are_left_alone(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 2); /* 0 and 1, by the program */

        CU_ASSERT_EQUAL(set(upstream, "1 2"), 0);
        CU_ASSERT_EQUAL(set_as(upstream, "other:80", "2 3"), 0);
        CU_ASSERT_TRUE(has(upstream, "0 1 2 3"));
        CU_ASSERT_EQUAL(set_as(upstream, "other:80", "2"), 0);
        CU_ASSERT_TRUE(has(upstream, "0 1 2"));
        CU_ASSERT_EQUAL(set(upstream, ""), 0);
        CU_ASSERT_TRUE(has(upstream, "0 1"));
        CU_ASSERT_EQUAL(set_as(upstream, "other:80", "2"), 0); /* nobody else has it now */
        CU_ASSERT_TRUE(has(upstream, "0 1 2"));
        weir_upstream_unref(upstream);
}

static void
a_wrong_address_changes_nothing(void)
{
        static const char *const addresses[] = {"10.0.0.9:80", "10.0.0.9"};
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 0);

        set(upstream, "1 2");
        CU_ASSERT_EQUAL(weir__upstream_set_addresses(upstream, ORIGIN, addresses, 2, NULL), -EINVAL);
        CU_ASSERT_TRUE(has(upstream, "1 2"));
        CU_ASSERT_EQUAL(weir__upstream_set_addresses(NULL, ORIGIN, addresses, 1, NULL), -ENOMEM);
        weir_upstream_unref(upstream);
}

/* -- without memory -- */

/* Calls until no allocation is refused any more.  Each time before, the call has failed and `same` holds. */
#define EACH_ALLOCATION_FAILS(least, failed, call, same)                \
        do {                                                            \
                int result_, at_ = 0;                                   \
                for (;; at_++) {                                        \
                        atomic_store(&left, at_);                       \
                        result_ = (call);                               \
                        bool refused_ = atomic_exchange(&left, -1) < 0; \
                        if (!refused_) {                                \
                                break;                                  \
                        }                                               \
                        CU_ASSERT_EQUAL(result_, failed);               \
                        CU_ASSERT_TRUE(same);                           \
                }                                                       \
                CU_ASSERT_EQUAL(result_, 0);                            \
                CU_ASSERT(at_ >= (least));                              \
        } while (0)

static weir_upstream *made;

static int
make(void)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;

        config.hedge_percent = 10;
        errno = 0;
        made = weir_upstream_new("backend", &config);
        return made ? 0 : -errno;
}

static int
pick_by_function(weir_upstream *upstream)
{
        struct weir__picked picked;
        int failed = weir__upstream_pick(upstream, NULL, &picked, NULL);

        if (!failed) {
                upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        }
        return failed;
}

static size_t
choose_first(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        (void)members;
        (void)key;
        (void)key_size;
        (void)context;
        return count > 0 ? 0 : count;
}

static void
memory_may_run_out_at_each_point(void)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;
        int before = atomic_load(&blocks);

        EACH_ALLOCATION_FAILS(2, -ENOMEM, make(), atomic_load(&blocks) == before && !weir_upstream_find("backend"));
        weir_upstream *upstream = made;
        EACH_ALLOCATION_FAILS(2, -ENOMEM, weir_upstream_add(upstream, upstream_address(0), NULL), has(upstream, ""));
        EACH_ALLOCATION_FAILS(6, -ENOMEM, set(upstream, "1 2 3 4 5"), has(upstream, "0"));
        EACH_ALLOCATION_FAILS(5, -ENOMEM, set(upstream, "1 2 6 7 8"), has(upstream, "0 1 2 3 4 5"));
        CU_ASSERT_TRUE(has(upstream, "0 1 2 6 7 8"));
        upstream_ask(upstream, WEIR__OUTCOME_SUCCESS);
        weir_upstream_unref(upstream);
        CU_ASSERT_EQUAL(atomic_load(&blocks), before);

        config.policy = WEIR_UPSTREAM_FUNCTION;
        config.choose = choose_first;
        upstream = upstream_with(&config, 100);
        EACH_ALLOCATION_FAILS(1, -ENOMEM, pick_by_function(upstream), upstream_info(upstream, 0).in_flight == 0);
        weir_upstream_unref(upstream);
        CU_ASSERT_EQUAL(atomic_load(&blocks), before);
}

/* What goes needs no memory. */
static void
members_go_without_memory(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_ROUND_ROBIN, 3);
        struct weir__picked picked = upstream_pick(upstream);

        atomic_store(&left, 0);
        CU_ASSERT_EQUAL(weir_upstream_disable(upstream, upstream_address(0)), 0);
        CU_ASSERT_EQUAL(weir_upstream_enable(upstream, upstream_address(0)), 0);
        CU_ASSERT_EQUAL(weir_upstream_weight(upstream, upstream_address(0), 3), 0);
        for (unsigned i = 0; i < 3; i++) {
                CU_ASSERT_EQUAL(weir_upstream_remove(upstream, upstream_address(i)), 0);
        }
        upstream_end(upstream, &picked, WEIR__OUTCOME_FAILURE);
        CU_ASSERT_EQUAL(atomic_exchange(&left, -1), 0);
        weir_upstream_unref(upstream);
}

static const struct weir_test tests[] = {
        WEIR_TEST(members_follow_the_addresses),    WEIR_TEST(a_member_that_stays_keeps_its_record),
        WEIR_TEST(requests_outlive_the_address),    WEIR_TEST(other_members_are_left_alone),
        WEIR_TEST(a_wrong_address_changes_nothing), WEIR_TEST(memory_may_run_out_at_each_point),
        WEIR_TEST(members_go_without_memory),
};

int
main(void)
{
        return weir_test_main("upstream_addresses", tests, sizeof tests / sizeof *tests);
}
