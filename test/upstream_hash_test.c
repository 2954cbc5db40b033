/* test/upstream_hash_test.c: requests of one key go to one member. */
#include "test/upstream_fixture.h"

#define KEYS 10000

static unsigned
ask_with(weir_upstream *upstream, const void *key, size_t size)
{
        struct weir__wish wish = {.key = key, .key_size = size};
        struct weir__picked picked;

        CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(upstream, &wish, &picked, NULL), 0);
        unsigned who = upstream_who(&picked);
        upstream_end(upstream, &picked, WEIR__OUTCOME_CANCELLED);
        return who;
}

static unsigned
ask_key(weir_upstream *upstream, unsigned key)
{
        char text[16];

        return ask_with(upstream, text, (size_t)snprintf(text, sizeof text, "user-%u", key));
}

static void
ask_all(weir_upstream *upstream, unsigned *who)
{
        for (unsigned i = 0; i < KEYS; i++) {
                who[i] = ask_key(upstream, i);
        }
}

static unsigned before[KEYS], after[KEYS];

static unsigned
count_moved(void)
{
        unsigned moved = 0;

        for (unsigned i = 0; i < KEYS; i++) {
                moved += before[i] != after[i];
        }
        return moved;
}

static void
a_key_has_its_member(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_HASH, 10);

        ask_all(upstream, before);
        ask_all(upstream, after);
        CU_ASSERT_EQUAL(count_moved(), 0);
        weir_upstream_unref(upstream);
}

/* Processes that know the same members agree, whatever the order in which they were added. */
static void
all_processes_agree(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_HASH, 10);

        ask_all(upstream, before);
        CU_ASSERT(before[0] == 0 && before[1] == 0 && before[2] == 8 && before[3] == 6);
        weir_upstream_unref(upstream);
        upstream = upstream_of(WEIR_UPSTREAM_HASH, 0);
        for (unsigned i = 10; i-- > 0;) {
                weir_upstream_add(upstream, upstream_address(i), NULL);
        }
        ask_all(upstream, after);
        CU_ASSERT_EQUAL(count_moved(), 0);
        weir_upstream_unref(upstream);
}

static void
keys_are_spread(void)
{
        static const unsigned weights[5] = {1, 2, 5, 10, 30}, even[5] = {1, 1, 1, 1, 1};
        struct weir_member_config config = WEIR_MEMBER_CONFIG_DEFAULT;

        for (unsigned round = 0; round < 2; round++) {
                const unsigned *shares = round ? weights : even;
                unsigned counts[5] = {0};
                weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_HASH, 0);

                for (unsigned i = 0; i < 5; i++) {
                        config.weight = shares[i];
                        weir_upstream_add(upstream, upstream_address(i), &config);
                }
                ask_all(upstream, after);
                for (unsigned i = 0; i < KEYS; i++) {
                        counts[after[i]]++;
                }
                CU_ASSERT(upstream_chi_square(counts, shares, 5) < 23.51);
                weir_upstream_unref(upstream);
        }
}

/* -- members that come and go -- */

static void
a_new_member_takes_its_share_and_no_more(void)
{
        for (unsigned members = 1; members < 30; members += 3) {
                weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_HASH, members);

                ask_all(upstream, before);
                weir_upstream_add(upstream, upstream_address(members), NULL);
                ask_all(upstream, after);
                double share = KEYS / (members + 1.0), excess = count_moved() - share; /* four standard deviations at most */
                CU_ASSERT(excess * excess < 16 * share);
                for (unsigned i = 0; i < KEYS; i++) {
                        CU_ASSERT(before[i] == after[i] || after[i] == members);
                }
                weir_upstream_remove(upstream, upstream_address(members));
                ask_all(upstream, after);
                CU_ASSERT_EQUAL(count_moved(), 0);
                weir_upstream_unref(upstream);
        }
}

static void
only_the_keys_of_a_member_that_goes_move(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_HASH, 10);
        unsigned counts[10] = {0};

        ask_all(upstream, before);
        weir_upstream_disable(upstream, upstream_address(3));
        ask_all(upstream, after);
        for (unsigned i = 0; i < KEYS; i++) {
                CU_ASSERT_EQUAL(before[i] == after[i], before[i] != 3);
                counts[after[i]] += before[i] == 3;
        }
        for (unsigned i = 0; i < 10; i++) { /* they are spread among all others */
                CU_ASSERT_EQUAL(counts[i] > 0, i != 3);
        }
        weir_upstream_unref(upstream);
}

static void
a_weight_moves_keys_to_its_member_alone(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_HASH, 10);

        ask_all(upstream, before);
        weir_upstream_weight(upstream, upstream_address(3), 2);
        ask_all(upstream, after);
        for (unsigned i = 0; i < KEYS; i++) {
                CU_ASSERT(before[i] == after[i] || after[i] == 3);
        }
        CU_ASSERT(count_moved() > 0 && count_moved() <= KEYS / 10); /* from 1/10 to 2/11 */
        weir_upstream_unref(upstream);
}

/* -- the bound -- */

/* All requests have one key: each member takes what it may, and not one more. */
static void
load_with_one_key(const unsigned *weights, unsigned members, unsigned bound, unsigned least_full)
{
        static struct weir__picked picked[1000];
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;
        struct weir_member_config member = WEIR_MEMBER_CONFIG_DEFAULT;
        struct weir__wish wish = {.key = "a", .key_size = 1};
        unsigned weight = 0, counts[10] = {0};

        config.policy = WEIR_UPSTREAM_HASH;
        config.hash_bound = bound;
        weir_upstream *upstream = upstream_with(&config, 0);
        for (unsigned i = 0; i < members; i++) {
                member.weight = weights[i];
                weight += weights[i];
                weir_upstream_add(upstream, upstream_address(i), &member);
        }
        for (unsigned i = 1; i <= 1000; i++) {
                CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(upstream, &wish, &picked[i - 1], NULL), 0);
                unsigned who = upstream_who(&picked[i - 1]);
                counts[who]++;
                /* at most the bound of its share, rounded up */
                CU_ASSERT((counts[who] - 1) * weight * 100 < i * weights[who] * bound);
        }
        unsigned full = 0;
        for (unsigned i = 0; i < members; i++) {
                full += counts[i] * weight * 100 >= (1000 - members) * weights[i] * bound;
        }
        CU_ASSERT(full >= least_full); /* and not less: the others stay behind them */
        for (unsigned i = 0; i < 1000; i++) {
                upstream_end(upstream, &picked[i], WEIR__OUTCOME_CANCELLED);
        }
        weir_upstream_unref(upstream);
}

static void
no_member_has_more_than_the_bound(void)
{
        static const unsigned even[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, weights[4] = {1, 2, 3, 10};

        load_with_one_key(even, 10, 125, 7);
        load_with_one_key(even, 10, 101, 9);
        load_with_one_key(even, 3, 125, 2);
        load_with_one_key(weights, 4, 125, 1);
        load_with_one_key(weights, 4, 150, 1);
}

static void
keys_need_not_be_text(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_HASH, 10);
        unsigned seen = 0;

        for (unsigned i = 0; i < 256; i++) {
                unsigned char key[2] = {0, (unsigned char)i};
                seen |= 1U << ask_with(upstream, key, 2);
        }
        CU_ASSERT_EQUAL(seen, (1U << 10) - 1);
        CU_ASSERT_EQUAL(ask_with(upstream, "", 0), ask_with(upstream, "", 0)); /* an empty key is one */
        weir_upstream_unref(upstream);
}

static const struct weir_test tests[] = {
        WEIR_TEST(a_key_has_its_member),
        WEIR_TEST(all_processes_agree),
        WEIR_TEST(keys_are_spread),
        WEIR_TEST(a_new_member_takes_its_share_and_no_more),
        WEIR_TEST(only_the_keys_of_a_member_that_goes_move),
        WEIR_TEST(a_weight_moves_keys_to_its_member_alone),
        WEIR_TEST(no_member_has_more_than_the_bound),
        WEIR_TEST(keys_need_not_be_text),
};

int
main(void)
{
        return weir_test_main("upstream_hash", tests, sizeof tests / sizeof *tests);
}
