/* test/upstream_test.c: upstreams by name, their members, and the policies. */
#include "test/upstream_fixture.h"

#include <limits.h>

#define REQUESTS 40000

/* The bound of chi-square that one run of 10,000 exceeds, by degrees of freedom. */
#define BOUND_2 18.42
#define BOUND_4 23.51
#define BOUND_9 33.72

static const unsigned even[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* -- names -- */

static void
an_upstream_is_found_by_its_name(void)
{
        weir_upstream *upstream = weir_upstream_new("Backend-1.internal", NULL);

        weir_upstream *found = weir_upstream_find("backend-1.INTERNAL");
        CU_ASSERT_PTR_EQUAL(found, upstream);
        CU_ASSERT_PTR_NULL(weir_upstream_find("backend"));
        CU_ASSERT_STRING_EQUAL(weir__upstream_name(upstream), "backend-1.internal");
        weir_upstream_unref(found);
        weir_upstream_unref(upstream);
        CU_ASSERT_PTR_NULL(weir_upstream_find("backend-1.internal"));
}

static void
a_name_lasts_as_long_as_a_reference(void)
{
        weir_upstream *upstream = weir_upstream_new("a", NULL), *other = weir_upstream_ref(upstream);

        weir_upstream_unref(upstream);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_upstream_new("a", NULL));
        CU_ASSERT_EQUAL(errno, EEXIST);
        weir_upstream_unref(other);
        upstream = weir_upstream_new("a", NULL);
        CU_ASSERT_PTR_NOT_NULL(upstream);
        weir_upstream_unref(upstream);
}

static int
errno_of_name(const char *name)
{
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_upstream_new(name, NULL));
        return errno;
}

static void
wrong_names_are_refused(void)
{
        char name[WEIR_UPSTREAM_NAME_MAX + 2];

        memset(name, 'a', sizeof name - 1);
        name[sizeof name - 1] = 0;
        CU_ASSERT_EQUAL(errno_of_name(NULL), EINVAL);
        CU_ASSERT_EQUAL(errno_of_name(""), EINVAL);
        CU_ASSERT_EQUAL(errno_of_name("a b"), EINVAL);
        CU_ASSERT_EQUAL(errno_of_name("a:80"), EINVAL);
        CU_ASSERT_EQUAL(errno_of_name(name), ENAMETOOLONG);
        CU_ASSERT_PTR_NULL(weir_upstream_find(NULL));
        CU_ASSERT_PTR_NULL(weir_upstream_find(name));
        name[WEIR_UPSTREAM_NAME_MAX] = 0;
        weir_upstream *upstream = weir_upstream_new(name, NULL);
        CU_ASSERT_PTR_NOT_NULL(upstream);
        weir_upstream_unref(upstream);
}

static void
all_upstreams_are_listed(void)
{
        weir_upstream *made[3] = {weir_upstream_new("a", NULL), weir_upstream_new("b", NULL), weir_upstream_new("c", NULL)};
        unsigned i = 0;

        weir_upstream_unref(made[1]);
        for (weir_upstream *each = NULL; (each = weir__upstream_next(each)); i += 2) {
                CU_ASSERT_PTR_EQUAL(each, made[i]);
        }
        CU_ASSERT_EQUAL(i, 4);
        weir_upstream_unref(made[0]);
        weir_upstream_unref(made[2]);
        CU_ASSERT_PTR_NULL(weir__upstream_next(NULL));
}

/* -- configs -- */

static int
errno_of_config(void (*spoil)(struct weir_upstream_config *config))
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;

        spoil(&config);
        errno = 0;
        weir_upstream *upstream = weir_upstream_new("a", &config);
        int seen = errno;
        weir_upstream_unref(upstream);
        return upstream ? 0 : seen;
}

#define SPOIL(name, statement)                                \
        static void name(struct weir_upstream_config *config) \
        {                                                     \
                statement;                                    \
        }
SPOIL(spoil_size, config->size = 3)
SPOIL(spoil_policy, config->policy = (enum weir_upstream_policy)9)
SPOIL(spoil_window, config->window = -1)
SPOIL(spoil_ejection, config->ejection = -1)
SPOIL(spoil_max, config->max_ejection = -1)
SPOIL(spoil_bound, config->hash_bound = 100)
SPOIL(spoil_hedge, config->hedge_percent = 101)
SPOIL(spoil_percentile, config->hedge_percentile = 100)
SPOIL(spoil_reserved, config->reserved = 1)
SPOIL(spoil_choose, config->policy = WEIR_UPSTREAM_FUNCTION)
SPOIL(spoil_nothing, config->hash_bound = 101)

static void
wrong_configs_are_refused(void)
{
        void (*const spoilers[])(struct weir_upstream_config *
                                 config) = {spoil_size,  spoil_policy, spoil_window,     spoil_ejection, spoil_max,
                                            spoil_bound, spoil_hedge,  spoil_percentile, spoil_reserved, spoil_choose};

        for (size_t i = 0; i < sizeof spoilers / sizeof *spoilers; i++) {
                CU_ASSERT_EQUAL(errno_of_config(spoilers[i]), EINVAL);
        }
        CU_ASSERT_EQUAL(errno_of_config(spoil_nothing), 0);
}

/* -- members -- */

static void
members_are_known_by_their_address(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 2);

        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "10.0.0.1:80", NULL), -EEXIST);
        CU_ASSERT_EQUAL(weir_upstream_remove(upstream, "10.0.0.9:80"), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_remove(upstream, NULL), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_disable(upstream, "x:1"), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_enable(upstream, "x:1"), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_weight(upstream, "x:1", 2), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "unix:/run/a", NULL), 0);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "[::1]:80", NULL), 0);
        CU_ASSERT_EQUAL(weir_upstream_remove(upstream, "10.0.0.1:80"), 0);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "10.0.0.1:80", NULL), 0);
        weir_upstream_unref(upstream);
}

static int
add_as(weir_upstream *upstream, const char *address, enum weir_member_tier tier, unsigned weight)
{
        struct weir_member_config config = WEIR_MEMBER_CONFIG_DEFAULT;

        config.tier = tier;
        config.weight = weight;
        return weir_upstream_add(upstream, address, &config);
}

static void
wrong_members_are_refused(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 1);
        struct weir_member_config config = {.size = 3};
        char address[300];

        memset(address, 'a', sizeof address - 1);
        address[sizeof address - 1] = 0;
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "h:1", &config), -EINVAL);
        CU_ASSERT_EQUAL(add_as(upstream, "h:1", (enum weir_member_tier)2, 1), -EINVAL);
        CU_ASSERT_EQUAL(add_as(upstream, "h:1", WEIR_MEMBER_MAIN, WEIR_MEMBER_WEIGHT_MAX + 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "h", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, ":80", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "h:0", NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, address, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_weight(upstream, upstream_address(0), 0), -EINVAL);
        CU_ASSERT_EQUAL(weir_upstream_weight(upstream, upstream_address(0), WEIR_MEMBER_WEIGHT_MAX + 1), -EINVAL);
        weir_upstream_unref(upstream);
}

static void
null_is_no_upstream(void)
{
        struct weir_member_info info = {.size = sizeof info};

        CU_ASSERT_EQUAL(weir_upstream_add(NULL, "h:1", NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_upstream_remove(NULL, "h:1"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_upstream_enable(NULL, "h:1"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_upstream_disable(NULL, "h:1"), -ENOMEM);
        CU_ASSERT_EQUAL(weir_upstream_weight(NULL, "h:1", 1), -ENOMEM);
        CU_ASSERT_EQUAL(weir_upstream_member(NULL, 0, &info), -ENOMEM);
        CU_ASSERT_PTR_NULL(weir_upstream_ref(NULL));
        weir_upstream_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_member_address(NULL));
        CU_ASSERT_EQUAL(weir_member_weight(NULL), 0);
        CU_ASSERT_EQUAL(weir_member_in_flight(NULL), 0);
}

static void
a_member_is_described(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 0);
        struct weir_member_config config = WEIR_MEMBER_CONFIG_DEFAULT;
        struct weir_member_info info = {.size = sizeof info};

        config.weight = 3;
        config.max_in_flight = 7;
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, "10.0.0.1:80", &config), 0);
        struct weir__picked one = upstream_pick(upstream), two = upstream_pick(upstream);
        upstream_end(upstream, &one, WEIR__OUTCOME_FAILURE);
        CU_ASSERT_EQUAL(weir_upstream_member(upstream, 0, &info), 0);
        CU_ASSERT_STRING_EQUAL(info.address, "10.0.0.1:80");
        CU_ASSERT(info.tier == WEIR_MEMBER_MAIN && info.state == WEIR_MEMBER_CLOSED && info.weight == 3);
        CU_ASSERT(info.max_in_flight == 7 && info.in_flight == 1 && info.requests == 2 && info.failures == 1);
        CU_ASSERT(info.ejections == 0 && info.ejected_until == 0 && info.is_failing == 0);
        CU_ASSERT_EQUAL(weir_upstream_member(upstream, 1, &info), -ENOENT);
        CU_ASSERT_EQUAL(weir_upstream_member(upstream, 0, NULL), -EINVAL);
        info.size = 1;
        CU_ASSERT_EQUAL(weir_upstream_member(upstream, 0, &info), -EINVAL);
        upstream_end(upstream, &two, WEIR__OUTCOME_SUCCESS);
        weir_upstream_unref(upstream);
}

static void
a_removed_member_ends_its_requests(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 1);
        struct weir__picked one = upstream_pick(upstream), two = upstream_pick(upstream);
        struct weir_member_info info = {.size = sizeof info};

        CU_ASSERT_EQUAL(weir_upstream_remove(upstream, upstream_address(0)), 0);
        CU_ASSERT_EQUAL(weir_upstream_member(upstream, 0, &info), -ENOENT);
        CU_ASSERT_STRING_EQUAL(weir__picked_address(&two), "10.0.0.1:80");
        upstream_end(upstream, &one, WEIR__OUTCOME_FAILURE);
        CU_ASSERT_STRING_EQUAL(weir__picked_address(&two), "10.0.0.1:80");
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, upstream_address(0), NULL), 0); /* another one with that address */
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).in_flight, 0);
        upstream_end(upstream, &two, WEIR__OUTCOME_SUCCESS); /* which frees it */
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).requests, 0);
        weir_upstream_unref(upstream);
}

static void
a_disabled_member_gets_no_requests(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 2);
        struct weir__picked picked;
        const char *reason = NULL;

        CU_ASSERT_EQUAL(weir_upstream_disable(upstream, upstream_address(0)), 0);
        CU_ASSERT_EQUAL(weir_upstream_disable(upstream, upstream_address(0)), 0);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_DISABLED);
        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 1);
        }
        weir_upstream_disable(upstream, upstream_address(1));
        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, NULL, &picked, &reason), -ENETUNREACH);
        CU_ASSERT_STRING_EQUAL(reason, "all members of the upstream are disabled");
        CU_ASSERT_EQUAL(weir_upstream_enable(upstream, upstream_address(0)), 0);
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 0);
        weir_upstream_unref(upstream);
}

static void
without_members_the_reason_says_so(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 0);
        struct weir__picked picked;
        const char *reason = NULL;

        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, NULL, &picked, &reason), -ENETUNREACH);
        CU_ASSERT_STRING_EQUAL(reason, "the upstream has no members");
        weir_upstream_unref(upstream);
}

/* -- tiers, and what is in flight -- */

static void
a_backup_is_used_when_no_main_member_is(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 2);

        add_as(upstream, upstream_address(2), WEIR_MEMBER_BACKUP, 1);
        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS) < 2);
        }
        weir_upstream_disable(upstream, upstream_address(0));
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 1);
        weir_upstream_disable(upstream, upstream_address(1));
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 2);
        weir_upstream_enable(upstream, upstream_address(1));
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 1);
        weir_upstream_unref(upstream);
}

static void
fill(enum weir_upstream_policy policy)
{
        weir_upstream *upstream = upstream_of(policy, 0);
        struct weir_member_config config = WEIR_MEMBER_CONFIG_DEFAULT;
        struct weir__picked picked[6], more;
        const char *reason = NULL;

        config.max_in_flight = 1;
        weir_upstream_add(upstream, upstream_address(0), &config);
        config.max_in_flight = 3;
        weir_upstream_add(upstream, upstream_address(1), &config);
        config.max_in_flight = 2;
        config.tier = WEIR_MEMBER_BACKUP;
        weir_upstream_add(upstream, upstream_address(2), &config);
        for (unsigned i = 0; i < 6; i++) {
                picked[i] = upstream_pick(upstream);
                CU_ASSERT_EQUAL(upstream_who(&picked[i]) == 2, i >= 4);
        }
        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, NULL, &more, &reason), -EBUSY);
        CU_ASSERT_STRING_EQUAL(reason, "all members of the upstream have as many requests in flight as they may have");
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).in_flight, 1);
        CU_ASSERT_EQUAL(upstream_info(upstream, 1).in_flight, 3);
        for (unsigned i = 0; i < 6; i++) {
                upstream_end(upstream, &picked[i], WEIR__OUTCOME_SUCCESS);
        }
        weir_upstream_unref(upstream);
}

static void
members_have_no_more_in_flight_than_they_may(void)
{
        weir_test_begin_virtual();
        fill(WEIR_UPSTREAM_TWO_CHOICES);
        fill(WEIR_UPSTREAM_ROUND_ROBIN);
        fill(WEIR_UPSTREAM_RANDOM);
        weir_test_end();
}

static void
a_retry_goes_to_another_member(void)
{
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 3);
        struct weir__picked first = upstream_pick(upstream), next;
        uint64_t tried[4] = {weir__picked_id(&first)};
        struct weir__wish wish = {.tried = tried, .tried_count = 1};
        const char *reason = NULL;

        add_as(upstream, upstream_address(3), WEIR_MEMBER_BACKUP, 1);
        for (unsigned i = 1; i < 4; i++) { /* the third retry gets the backup */
                CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(upstream, &wish, &next, NULL), 0);
                for (unsigned j = 0; j < wish.tried_count; j++) {
                        CU_ASSERT_NOT_EQUAL(weir__picked_id(&next), tried[j]);
                }
                CU_ASSERT_EQUAL(upstream_who(&next) == 3, i == 3);
                tried[wish.tried_count++] = weir__picked_id(&next);
                upstream_end(upstream, &next, WEIR__OUTCOME_SUCCESS);
        }
        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, &wish, &next, NULL), 0); /* all were tried: any main member */
        CU_ASSERT(upstream_who(&next) < 3);
        upstream_end(upstream, &next, WEIR__OUTCOME_SUCCESS);
        wish.must_differ = true;
        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, &wish, &next, &reason), -ENETUNREACH);
        CU_ASSERT_STRING_EQUAL(reason, "no other member of the upstream may be used");
        upstream_end(upstream, &first, WEIR__OUTCOME_SUCCESS);
        weir_upstream_unref(upstream);
}

/* -- how requests are spread; on the virtual clock random numbers are the same each time -- */

static void
spread(weir_upstream *upstream, unsigned *counts, unsigned members)
{
        memset(counts, 0, members * sizeof *counts);
        for (unsigned i = 0; i < REQUESTS; i++) {
                counts[upstream_ask(upstream, WEIR__OUTCOME_SUCCESS)]++;
        }
}

static void
spread_evenly(enum weir_upstream_policy policy)
{
        unsigned counts[10];
        weir_upstream *upstream = upstream_of(policy, 10);

        spread(upstream, counts, 10);
        CU_ASSERT(upstream_chi_square(counts, even, 10) < BOUND_9);
        weir_upstream_unref(upstream);
}

static void
members_of_one_weight_get_equal_shares(void)
{
        weir_test_begin_virtual();
        spread_evenly(WEIR_UPSTREAM_TWO_CHOICES);
        spread_evenly(WEIR_UPSTREAM_RANDOM);
        spread_evenly(WEIR_UPSTREAM_ROUND_ROBIN);
        spread_evenly(WEIR_UPSTREAM_HASH); /* without keys */
        weir_test_end();
}

static void
spread_by_weight(enum weir_upstream_policy policy)
{
        static const unsigned weights[5] = {1, 2, 5, 10, 30};
        unsigned counts[5];
        weir_upstream *upstream = upstream_of(policy, 0);

        for (unsigned i = 0; i < 5; i++) {
                add_as(upstream, upstream_address(i), WEIR_MEMBER_MAIN, weights[i]);
        }
        spread(upstream, counts, 5);
        CU_ASSERT(upstream_chi_square(counts, weights, 5) < BOUND_4);
        weir_upstream_unref(upstream);
}

static void
members_get_shares_by_their_weights(void)
{
        weir_test_begin_virtual();
        spread_by_weight(WEIR_UPSTREAM_TWO_CHOICES);
        spread_by_weight(WEIR_UPSTREAM_RANDOM);
        spread_by_weight(WEIR_UPSTREAM_ROUND_ROBIN);
        spread_by_weight(WEIR_UPSTREAM_HASH);
        weir_test_end();
}

/* Members come and go; those that are there share the requests. */
static void
spread_among_changing(enum weir_upstream_policy policy)
{
        static const unsigned after[4] = {1, 1, 4, 1};
        unsigned counts[10];
        weir_upstream *upstream = upstream_of(policy, 3);

        spread(upstream, counts, 3);
        CU_ASSERT(upstream_chi_square(counts, even, 3) < BOUND_2);
        weir_upstream_add(upstream, upstream_address(3), NULL);
        weir_upstream_add(upstream, upstream_address(4), NULL);
        spread(upstream, counts, 5);
        CU_ASSERT(upstream_chi_square(counts, even, 5) < BOUND_4);
        weir_upstream_remove(upstream, upstream_address(0));
        weir_upstream_weight(upstream, upstream_address(3), 4);
        spread(upstream, counts, 5);
        CU_ASSERT_EQUAL(counts[0], 0);
        CU_ASSERT(upstream_chi_square(counts + 1, after, 4) < BOUND_4);
        weir_upstream_disable(upstream, upstream_address(3));
        spread(upstream, counts, 5);
        CU_ASSERT(counts[0] == 0 && counts[3] == 0);
        counts[3] = counts[4];
        CU_ASSERT(upstream_chi_square(counts + 1, even, 3) < BOUND_2);
        weir_upstream_unref(upstream);
}

static void
shares_follow_members_that_come_and_go(void)
{
        weir_test_begin_virtual();
        spread_among_changing(WEIR_UPSTREAM_TWO_CHOICES);
        spread_among_changing(WEIR_UPSTREAM_RANDOM);
        spread_among_changing(WEIR_UPSTREAM_ROUND_ROBIN);
        spread_among_changing(WEIR_UPSTREAM_HASH);
        weir_test_end();
}

static void
two_choices_avoid_a_slow_member(void)
{
        unsigned counts[4] = {0};

        weir_test_begin_virtual();
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 4);
        struct weir__picked slow = upstream_pick(upstream); /* a member does not answer */
        for (unsigned i = 0; i < 1000; i++) {
                struct weir__picked picked = upstream_pick(upstream);
                counts[upstream_who(&picked)]++;
                upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        }
        CU_ASSERT_EQUAL(counts[upstream_who(&slow)], 0); /* the other one of two always has less */
        upstream_end(upstream, &slow, WEIR__OUTCOME_SUCCESS);
        weir_upstream_unref(upstream);
        weir_test_end();
}

static void
two_choices_compare_by_weight(void)
{
        struct weir__picked picked[60];

        weir_test_begin_virtual();
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_TWO_CHOICES, 1);
        add_as(upstream, upstream_address(1), WEIR_MEMBER_MAIN, 5);
        for (unsigned i = 0; i < 60; i++) {
                picked[i] = upstream_pick(upstream);
        }
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).in_flight, 10);
        CU_ASSERT_EQUAL(upstream_info(upstream, 1).in_flight, 50);
        for (unsigned i = 0; i < 60; i++) {
                upstream_end(upstream, &picked[i], WEIR__OUTCOME_SUCCESS);
        }
        weir_upstream_unref(upstream);
        weir_test_end();
}

/* -- by turns -- */

static void
turns_are_smooth(void)
{
        static const unsigned weights[3] = {5, 1, 1};
        unsigned counts[3] = {0};

        weir_test_begin_virtual();
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_ROUND_ROBIN, 0);
        for (unsigned i = 0; i < 3; i++) {
                add_as(upstream, upstream_address(i), WEIR_MEMBER_MAIN, weights[i]);
        }
        for (int i = 1; i <= 700; i++) {
                counts[upstream_ask(upstream, WEIR__OUTCOME_SUCCESS)]++;
                for (unsigned j = 0; j < 3; j++) { /* at each moment, each has its share but for two requests */
                        CU_ASSERT(abs((int)counts[j] * 7 - i * (int)weights[j]) <= 2 * 7);
                }
        }
        CU_ASSERT(counts[0] == 500 && counts[1] == 100 && counts[2] == 100);
        weir_upstream_unref(upstream);
        weir_test_end();
}

static void
each_cycle_of_equal_turns_has_each_member_once(void)
{
        unsigned first[7];

        weir_test_begin_virtual();
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_ROUND_ROBIN, 7);
        for (unsigned i = 0; i < 70; i++) {
                unsigned who = upstream_ask(upstream, WEIR__OUTCOME_SUCCESS);
                if (i < 7) {
                        first[i] = who;
                        for (unsigned j = 0; j < i; j++) {
                                CU_ASSERT_NOT_EQUAL(first[j], who);
                        }
                }
                CU_ASSERT_EQUAL(who, first[i % 7]);
        }
        weir_upstream_unref(upstream);
        weir_test_end();
}

static void
turns_begin_at_random(void)
{
        unsigned counts[5] = {0};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 2000; i++) {
                weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_ROUND_ROBIN, 5);
                counts[upstream_ask(upstream, WEIR__OUTCOME_SUCCESS)]++;
                weir_upstream_unref(upstream);
        }
        CU_ASSERT(upstream_chi_square(counts, even, 5) < BOUND_4);
        weir_test_end();
}

/* -- a function of the program -- */

static size_t
choose_last(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        unsigned *calls = context;

        ++*calls;
        CU_ASSERT_EQUAL(weir_member_weight(members[0]), 1);
        CU_ASSERT_EQUAL(weir_member_in_flight(members[count - 1]), 0);
        return key && key_size == 4 && memcmp(key, "none", 4) == 0 ? count : count - 1;
}

static void
a_function_of_the_program_chooses(void)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;
        unsigned calls = 0;
        const char *reason = NULL;
        struct weir__picked picked;
        struct weir__wish none = {.key = "none", .key_size = 4};

        config.policy = WEIR_UPSTREAM_FUNCTION;
        config.choose = choose_last;
        config.context = &calls;
        weir_upstream *upstream = upstream_with(&config, 100); /* more than fit on the stack */
        CU_ASSERT_TRUE(weir__upstream_calls_program(upstream));
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 99);
        weir_upstream_remove(upstream, upstream_address(99));
        CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 98);
        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, &none, &picked, &reason), -ENETUNREACH);
        CU_ASSERT_STRING_EQUAL(reason, "the choose function of the upstream has chosen no member");
        CU_ASSERT_EQUAL(calls, 3);
        for (unsigned i = 0; i < 99; i++) {
                weir_upstream_remove(upstream, upstream_address(i));
        }
        CU_ASSERT_EQUAL(weir__upstream_pick(upstream, NULL, &picked, &reason), -ENETUNREACH);
        CU_ASSERT_EQUAL(calls, 3);
        weir_upstream_unref(upstream);
}

static size_t
remove_and_choose(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        (void)key;
        (void)key_size;
        for (size_t i = count; i-- > 0;) {
                CU_ASSERT_EQUAL(weir_upstream_remove(*(weir_upstream **)context, weir_member_address(members[i])), 0);
        }
        return 0;
}

static void
a_member_that_is_removed_while_it_is_chosen_gets_the_request(void)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;
        weir_upstream *upstream;

        config.policy = WEIR_UPSTREAM_FUNCTION;
        config.choose = remove_and_choose;
        config.context = &upstream;
        upstream = upstream_with(&config, 3);
        struct weir__picked picked = upstream_pick(upstream);
        CU_ASSERT_STRING_EQUAL(weir__picked_address(&picked), "10.0.0.1:80");
        upstream_end(upstream, &picked, WEIR__OUTCOME_FAILURE);
        weir_upstream_unref(upstream);
}

static const struct weir_test tests[] = {
        WEIR_TEST(an_upstream_is_found_by_its_name),
        WEIR_TEST(a_name_lasts_as_long_as_a_reference),
        WEIR_TEST(wrong_names_are_refused),
        WEIR_TEST(all_upstreams_are_listed),
        WEIR_TEST(wrong_configs_are_refused),
        WEIR_TEST(members_are_known_by_their_address),
        WEIR_TEST(wrong_members_are_refused),
        WEIR_TEST(null_is_no_upstream),
        WEIR_TEST(a_member_is_described),
        WEIR_TEST(a_removed_member_ends_its_requests),
        WEIR_TEST(a_disabled_member_gets_no_requests),
        WEIR_TEST(without_members_the_reason_says_so),
        WEIR_TEST(a_backup_is_used_when_no_main_member_is),
        WEIR_TEST(members_have_no_more_in_flight_than_they_may),
        WEIR_TEST(a_retry_goes_to_another_member),
        WEIR_TEST(members_of_one_weight_get_equal_shares),
        WEIR_TEST(members_get_shares_by_their_weights),
        WEIR_TEST(shares_follow_members_that_come_and_go),
        WEIR_TEST(two_choices_avoid_a_slow_member),
        WEIR_TEST(two_choices_compare_by_weight),
        WEIR_TEST(turns_are_smooth),
        WEIR_TEST(each_cycle_of_equal_turns_has_each_member_once),
        WEIR_TEST(turns_begin_at_random),
        WEIR_TEST(a_function_of_the_program_chooses),
        WEIR_TEST(a_member_that_is_removed_while_it_is_chosen_gets_the_request),
};

int
main(void)
{
        return weir_test_main("upstream", tests, sizeof tests / sizeof *tests);
}
