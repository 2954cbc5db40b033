/* test/upstream_breaker_test.c: members that fail are ejected and probed, to the nanosecond on the virtual clock. */
#include "test/upstream_fixture.h"

#include <limits.h>

#define EJECTION     WEIR_SEC(30)
#define MAX_EJECTION WEIR_SEC(300)

static weir_upstream *
begin(unsigned members)
{
        weir_test_begin_virtual();
        return upstream_of(WEIR_UPSTREAM_TWO_CHOICES, members);
}

static void
end(weir_upstream *upstream)
{
        weir_upstream_unref(upstream);
        weir_test_end();
}

/* Whether the member gets any of many requests, which do not count for its breaker. */
static bool
is_used(weir_upstream *upstream, unsigned index)
{
        bool is_used = false;

        for (unsigned i = 0; i < 300; i++) {
                is_used |= upstream_ask(upstream, WEIR__OUTCOME_CANCELLED) == index;
        }
        return is_used;
}

/* -- ejections -- */

static void
five_failures_in_a_row_eject(void)
{
        weir_upstream *upstream = begin(2);

        upstream_fail_at(upstream, 0, 4);
        upstream_ask_at(upstream, 0, WEIR__OUTCOME_SUCCESS);
        upstream_fail_at(upstream, 0, 4);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        weir_nsec now = weir_now();
        upstream_fail_at(upstream, 0, 1);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_OPEN);
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejected_until, now + EJECTION);
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejections, 1);
        CU_ASSERT_FALSE(is_used(upstream, 0));
        end(upstream);
}

static void
half_of_twenty_in_the_window_eject(void)
{
        weir_upstream *upstream = begin(2);

        for (unsigned i = 0; i < 19; i++) {
                upstream_ask_at(upstream, 0, i % 2 ? WEIR__OUTCOME_FAILURE : WEIR__OUTCOME_SUCCESS);
        }
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED); /* 9 of 19 */
        upstream_ask_at(upstream, 0, WEIR__OUTCOME_FAILURE);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_OPEN); /* 10 of 20 */
        end(upstream);
}

static void
less_than_half_do_not_eject(void)
{
        weir_upstream *upstream = begin(2);

        for (unsigned i = 0; i < 300; i++) {
                upstream_ask_at(upstream, 0, i % 5 < 3 ? WEIR__OUTCOME_SUCCESS : WEIR__OUTCOME_FAILURE);
        }
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        end(upstream);
}

/* A tenth of the window is forgotten when it began 10 s before. */
static void
the_window_forgets_to_the_nanosecond(void)
{
        for (unsigned late = 0; late < 2; late++) {
                weir_upstream *upstream = begin(2);

                for (unsigned i = 0; i < 18; i++) { /* 9 of 18 failed, at 0 */
                        upstream_ask_at(upstream, 0, i % 2 ? WEIR__OUTCOME_FAILURE : WEIR__OUTCOME_SUCCESS);
                }
                weir_test_pass(WEIR_SEC(5));
                upstream_ask_at(upstream, 0, WEIR__OUTCOME_SUCCESS);
                weir_test_pass(WEIR_SEC(5) - 1 + late);
                upstream_fail_at(upstream, 0, 1); /* 10 of 20, or 1 of 2 */
                UPSTREAM_STATE(upstream, 0, late ? WEIR_MEMBER_CLOSED : WEIR_MEMBER_OPEN);
                end(upstream);
        }
}

static void
an_ejection_ends_to_the_nanosecond(void)
{
        weir_upstream *upstream = begin(2);

        upstream_fail_at(upstream, 0, 5);
        weir_test_pass(EJECTION - 1);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_OPEN);
        CU_ASSERT_FALSE(is_used(upstream, 0));
        weir_test_pass(1);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_HALF_OPEN);
        CU_ASSERT_TRUE(is_used(upstream, 0));
        end(upstream);
}

static void
ejections_double_up_to_the_most(void)
{
        weir_upstream *upstream = begin(2);
        weir_nsec length = EJECTION;

        upstream_fail_at(upstream, 0, 5);
        for (unsigned i = 0; i < 10; i++) {
                CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejected_until, weir_now() + length);
                weir_test_pass(length - 1);
                CU_ASSERT_FALSE(is_used(upstream, 0));
                weir_test_pass(1);
                upstream_fail_at(upstream, 0, 1); /* the probe */
                UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_OPEN);
                length = length * 2 < MAX_EJECTION ? length * 2 : MAX_EJECTION;
        }
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejections, 11);
        CU_ASSERT_EQUAL(length, MAX_EJECTION);
        end(upstream);
}

/* It was ejected for 60 s.  If it fails again after less than that, the next time is 120 s, else 30 s. */
static void
a_member_that_works_for_long_is_forgiven(void)
{
        for (unsigned late = 0; late < 2; late++) {
                weir_upstream *upstream = begin(2);

                upstream_fail_at(upstream, 0, 5);
                weir_test_pass(EJECTION);
                upstream_fail_at(upstream, 0, 1);
                weir_test_pass(EJECTION * 2);
                upstream_ask_at(upstream, 0, WEIR__OUTCOME_SUCCESS);
                UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
                weir_test_pass(EJECTION * 2 - 1 + late);
                upstream_fail_at(upstream, 0, 5);
                CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejected_until, weir_now() + (late ? EJECTION : EJECTION * 4));
                end(upstream);
        }
}

static void
the_config_sets_the_bounds(void)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;

        weir_test_begin_virtual();
        config.failures_in_row = UINT_MAX;
        config.window_percent = 100;
        config.window_requests = 7;
        config.window = 10;
        config.ejection = 5;
        config.max_ejection = 3; /* less than `ejection`: that */
        weir_upstream *upstream = upstream_with(&config, 2);
        upstream_fail_at(upstream, 0, 6);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        weir_test_pass(10);
        upstream_fail_at(upstream, 0, 6);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        upstream_fail_at(upstream, 0, 1);
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejected_until, weir_now() + 5);
        weir_test_pass(5);
        upstream_fail_at(upstream, 0, 1);
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejected_until, weir_now() + 5);
        weir_upstream_unref(upstream);
        config.window_percent = 101;
        upstream = upstream_with(&config, 2);
        upstream_fail_at(upstream, 0, 1000);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        end(upstream);
}

/* -- probes -- */

/* The member is HALF_OPEN: a request goes there, which is the probe. */
static struct weir__picked
probe(weir_upstream *upstream, unsigned index)
{
        struct weir__picked picked = {0};

        for (unsigned i = 0; i < 1000; i++) {
                picked = upstream_pick(upstream);
                if (upstream_who(&picked) == index) {
                        return picked;
                }
                upstream_end(upstream, &picked, WEIR__OUTCOME_CANCELLED);
        }
        CU_FAIL_FATAL("there is no probe");
        return picked;
}

static void
there_is_one_probe(void)
{
        weir_upstream *upstream = begin(2);

        upstream_fail_at(upstream, 0, 5);
        weir_test_pass(EJECTION);
        struct weir__picked picked = probe(upstream, 0);
        CU_ASSERT_TRUE(picked.is_probe);
        CU_ASSERT_FALSE(is_used(upstream, 0));
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_HALF_OPEN);
        upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        CU_ASSERT_TRUE(is_used(upstream, 0));
        end(upstream);
}

static void
a_cancelled_probe_makes_room_for_another(void)
{
        weir_upstream *upstream = begin(2);

        upstream_fail_at(upstream, 0, 5);
        weir_test_pass(EJECTION);
        struct weir__picked picked = probe(upstream, 0);
        upstream_end(upstream, &picked, WEIR__OUTCOME_CANCELLED);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_HALF_OPEN);
        picked = probe(upstream, 0);
        CU_ASSERT_TRUE(picked.is_probe);
        upstream_end(upstream, &picked, WEIR__OUTCOME_OVERTAKEN);
        picked = probe(upstream, 0);
        upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        end(upstream);
}

/* Requests from before the ejection neither end it nor stand for the probe. */
static void
late_reports_do_not_move_a_breaker(void)
{
        struct weir__picked old[5];

        weir_test_begin_virtual();
        weir_upstream *upstream = upstream_of(WEIR_UPSTREAM_RANDOM, 2);
        for (unsigned i = 0; i < 5; i++) {
                old[i] = probe(upstream, 0);
        }
        upstream_fail_at(upstream, 0, 4);
        upstream_end(upstream, &old[0], WEIR__OUTCOME_FAILURE);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_OPEN);
        upstream_end(upstream, &old[1], WEIR__OUTCOME_SUCCESS);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_OPEN);
        weir_test_pass(EJECTION);
        struct weir__picked picked = probe(upstream, 0);
        upstream_end(upstream, &old[2], WEIR__OUTCOME_FAILURE);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_HALF_OPEN);
        upstream_end(upstream, &old[3], WEIR__OUTCOME_SUCCESS);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_HALF_OPEN);
        upstream_end(upstream, &old[4], WEIR__OUTCOME_CANCELLED);
        CU_ASSERT_FALSE(is_used(upstream, 0));
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).failures, 6);
        upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        end(upstream);
}

static void
an_enabled_member_begins_anew(void)
{
        weir_upstream *upstream = begin(2);

        upstream_fail_at(upstream, 0, 5);
        weir_upstream_disable(upstream, upstream_address(0));
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_DISABLED);
        weir_upstream_enable(upstream, upstream_address(0));
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        upstream_fail_at(upstream, 0, 5);
        CU_ASSERT_EQUAL(upstream_info(upstream, 0).ejected_until, weir_now() + EJECTION);
        end(upstream);
}

/* -- the bound, and panic -- */

static unsigned
count_state(weir_upstream *upstream, unsigned members, enum weir_member_state state)
{
        unsigned count = 0;

        for (unsigned i = 0; i < members; i++) {
                count += upstream_info(upstream, i).state == state;
        }
        return count;
}

static void
no_more_than_half_are_ejected(void)
{
        for (unsigned members = 1; members < 8; members++) {
                weir_upstream *upstream = begin(members);

                for (unsigned i = 0; i + 1 < members; i++) { /* one works */
                        upstream_fail_at(upstream, i, i < members / 2 ? 5 : 6);
                        CU_ASSERT_EQUAL(upstream_info(upstream, i).state == WEIR_MEMBER_OPEN, i < members / 2);
                        CU_ASSERT_EQUAL(upstream_info(upstream, i).is_failing, i >= members / 2);
                }
                CU_ASSERT_EQUAL(count_state(upstream, members, WEIR_MEMBER_OPEN),
                                members / 2 < members - 1 ? members / 2 : members - 1);
                for (unsigned i = 0; i < members; i++) {
                        CU_ASSERT_EQUAL(is_used(upstream, i), i >= members / 2 || i + 1 == members);
                }
                end(upstream);
        }
}

static void
a_failing_member_is_ejected_when_there_is_room(void)
{
        weir_upstream *upstream = begin(3);

        upstream_fail_at(upstream, 0, 5);
        upstream_fail_at(upstream, 1, 5);
        CU_ASSERT_EQUAL(upstream_info(upstream, 1).is_failing, 1);
        weir_test_pass(EJECTION);
        struct weir__picked picked = probe(upstream, 0);
        upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        upstream_fail_at(upstream, 1, 1);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        UPSTREAM_STATE(upstream, 1, WEIR_MEMBER_OPEN);
        end(upstream);
}

static void
a_failing_member_that_works_again_is_one_that_works(void)
{
        weir_upstream *upstream = begin(3);

        upstream_fail_at(upstream, 0, 5);
        upstream_fail_at(upstream, 1, 5);
        upstream_ask_at(upstream, 1, WEIR__OUTCOME_SUCCESS);
        CU_ASSERT_EQUAL(upstream_info(upstream, 1).is_failing, 0);
        UPSTREAM_STATE(upstream, 1, WEIR_MEMBER_CLOSED);
        end(upstream);
}

static void
when_all_fail_all_are_used(void)
{
        weir_upstream *upstream = begin(4);

        for (unsigned i = 0; i < 4; i++) {
                upstream_fail_at(upstream, i, 5);
        }
        CU_ASSERT_EQUAL(count_state(upstream, 4, WEIR_MEMBER_OPEN), 2);
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_TRUE(is_used(upstream, i));
        }
        upstream_fail_at(upstream, 0, 3);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_OPEN);
        upstream_ask_at(upstream, 0, WEIR__OUTCOME_SUCCESS); /* that is enough */
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        CU_ASSERT_TRUE(is_used(upstream, 0));
        CU_ASSERT_FALSE(is_used(upstream, 1));
        end(upstream);
}

/* Where all are used, a member that is half open gets more requests than its probe, which is still one. */
static void
there_is_one_probe_in_a_panic(void)
{
        weir_upstream *upstream = begin(2);

        upstream_fail_at(upstream, 0, 5);
        upstream_fail_at(upstream, 1, 5);
        weir_test_pass(EJECTION);
        struct weir__picked first = probe(upstream, 0), second = probe(upstream, 1);
        struct weir__picked third = probe(upstream, 0);
        CU_ASSERT(first.is_probe && !second.is_probe && !third.is_probe);
        upstream_end(upstream, &third, WEIR__OUTCOME_CANCELLED);
        upstream_end(upstream, &second, WEIR__OUTCOME_SUCCESS); /* the end of the panic: the probe is in flight */
        CU_ASSERT_FALSE(is_used(upstream, 0));
        upstream_end(upstream, &first, WEIR__OUTCOME_SUCCESS);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        end(upstream);
}

static void
a_single_member_is_always_used(void)
{
        weir_upstream *upstream = begin(1);

        upstream_fail_at(upstream, 0, 1000);
        UPSTREAM_STATE(upstream, 0, WEIR_MEMBER_CLOSED);
        CU_ASSERT_TRUE(is_used(upstream, 0));
        end(upstream);
}

/* -- with a backup -- */

static void
add_backup(weir_upstream *upstream, unsigned index)
{
        struct weir_member_config config = WEIR_MEMBER_CONFIG_DEFAULT;

        config.tier = WEIR_MEMBER_BACKUP;
        CU_ASSERT_EQUAL(weir_upstream_add(upstream, upstream_address(index), &config), 0);
}

static void
a_backup_takes_over_when_all_main_members_fail(void)
{
        weir_upstream *upstream = begin(3);

        add_backup(upstream, 3);
        upstream_fail_at(upstream, 0, 5);
        upstream_fail_at(upstream, 1, 5);
        UPSTREAM_STATE(upstream, 1, WEIR_MEMBER_CLOSED); /* one works: the bound holds */
        CU_ASSERT_FALSE(is_used(upstream, 3));
        upstream_fail_at(upstream, 2, 5);
        CU_ASSERT_EQUAL(count_state(upstream, 3, WEIR_MEMBER_OPEN), 3);
        for (unsigned i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(upstream_ask(upstream, WEIR__OUTCOME_SUCCESS), 3);
        }
        weir_test_pass(EJECTION);
        struct weir__picked picked = probe(upstream, 1);
        upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        CU_ASSERT_FALSE(is_used(upstream, 3));
        end(upstream);
}

static void
when_the_backup_fails_too_all_main_members_are_used(void)
{
        weir_upstream *upstream = begin(2);

        add_backup(upstream, 2);
        for (unsigned i = 0; i < 3; i++) {
                upstream_fail_at(upstream, i, 5);
        }
        CU_ASSERT_EQUAL(count_state(upstream, 2, WEIR_MEMBER_OPEN), 2);
        CU_ASSERT(is_used(upstream, 0) && is_used(upstream, 1) && !is_used(upstream, 2));
        upstream_ask_at(upstream, 1, WEIR__OUTCOME_SUCCESS);
        CU_ASSERT(!is_used(upstream, 0) && is_used(upstream, 1) && !is_used(upstream, 2));
        end(upstream);
}

/* -- hedges -- */

static weir_upstream *
begin_hedging(weir_retry_budget *budget)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;

        weir_test_begin_virtual();
        config.hedge_percent = 10;
        config.budget = budget;
        return upstream_with(&config, 3);
}

static void
take_from_to(weir_upstream *upstream, unsigned from, unsigned to)
{
        for (unsigned i = from; i <= to; i++) {
                struct weir__picked picked = upstream_pick(upstream);

                weir__upstream_report(upstream, &picked, WEIR__OUTCOME_SUCCESS, WEIR_MSEC(i));
        }
}

static bool
is_about(weir_nsec seen, weir_nsec expected)
{
        return seen >= expected && seen <= expected + expected / 16;
}

static void
a_request_is_slow_by_the_percentile(void)
{
        weir_upstream *upstream = begin_hedging(NULL);

        CU_ASSERT_EQUAL(weir__upstream_hedge_after(upstream), WEIR_FOREVER);
        take_from_to(upstream, 1, 99);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir__upstream_hedge_after(upstream), WEIR_FOREVER);
        take_from_to(upstream, 100, 100);
        CU_ASSERT(is_about(weir__upstream_hedge_after(upstream), WEIR_MSEC(95)));
        take_from_to(upstream, 1001, 1200); /* it follows, a second later */
        CU_ASSERT(is_about(weir__upstream_hedge_after(upstream), WEIR_MSEC(95)));
        weir_test_pass(WEIR_SEC(1) - 1);
        take_from_to(upstream, 1001, 1001);
        CU_ASSERT(is_about(weir__upstream_hedge_after(upstream), WEIR_MSEC(95)));
        weir_test_pass(1);
        take_from_to(upstream, 1001, 1001);
        CU_ASSERT(is_about(weir__upstream_hedge_after(upstream), WEIR_MSEC(1190)));
        end(upstream);
}

static void
overtaken_requests_count_and_others_do_not(void)
{
        weir_upstream *upstream = begin_hedging(NULL);

        for (unsigned i = 0; i < 400; i++) {
                struct weir__picked picked = upstream_pick(upstream);
                enum weir__outcome outcome = i % 4 == 0    ? WEIR__OUTCOME_FAILURE
                                             : i % 4 == 1  ? WEIR__OUTCOME_CANCELLED
                                             : i % 40 == 2 ? WEIR__OUTCOME_OVERTAKEN
                                                           : WEIR__OUTCOME_SUCCESS;
                weir__upstream_report(upstream, &picked, outcome,
                                      outcome == WEIR__OUTCOME_OVERTAKEN ? WEIR_MSEC(80)
                                      : outcome == WEIR__OUTCOME_SUCCESS ? WEIR_MSEC(10)
                                                                         : WEIR_SEC(9));
        }
        weir_test_pass(WEIR_SEC(1));
        take_from_to(upstream, 10, 10);
        CU_ASSERT(is_about(weir__upstream_hedge_after(upstream), WEIR_MSEC(10))); /* 10 of 201 are above */
        end(upstream);
}

static void
hedges_are_a_share_of_the_requests(void)
{
        unsigned hedges = 0;
        weir_upstream *upstream = begin_hedging(NULL);

        CU_ASSERT_FALSE(weir__upstream_may_hedge(upstream));
        for (unsigned i = 0; i < 1000; i++) {
                upstream_ask(upstream, WEIR__OUTCOME_SUCCESS);
                hedges += weir__upstream_may_hedge(upstream);
        }
        CU_ASSERT_EQUAL(hedges, 100);
        for (unsigned i = 0; i < 1000; i++) {
                upstream_ask(upstream, WEIR__OUTCOME_SUCCESS);
        }
        for (hedges = 0; weir__upstream_may_hedge(upstream); hedges++) {
        }
        CU_ASSERT_EQUAL(hedges, 10); /* no more are saved up */
        end(upstream);
}

static void
further_attempts_earn_no_hedge(void)
{
        weir_upstream *upstream = begin_hedging(NULL);
        uint64_t none = 0;
        struct weir__wish wish = {.tried = &none, .tried_count = 1};

        for (unsigned i = 0; i < 100; i++) {
                struct weir__picked picked;
                CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(upstream, &wish, &picked, NULL), 0);
                upstream_end(upstream, &picked, WEIR__OUTCOME_SUCCESS);
        }
        CU_ASSERT_FALSE(weir__upstream_may_hedge(upstream));
        end(upstream);
}

static void
hedges_take_from_a_budget_of_retries(void)
{
        weir_retry_budget *budget = weir_retry_budget_new(0, 3);
        unsigned hedges = 0;
        weir_upstream *upstream = begin_hedging(budget);

        weir_retry_budget_free(budget); /* the upstream has it */
        for (unsigned i = 0; i < 1000; i++) {
                upstream_ask(upstream, WEIR__OUTCOME_SUCCESS);
                hedges += weir__upstream_may_hedge(upstream);
        }
        CU_ASSERT_EQUAL(hedges, 3);
        end(upstream);
}

static void
without_a_share_nothing_is_hedged(void)
{
        weir_upstream *upstream = begin(2);

        take_from_to(upstream, 1, 1000);
        weir_test_pass(WEIR_SEC(2));
        take_from_to(upstream, 1, 1000);
        CU_ASSERT_EQUAL(weir__upstream_hedge_after(upstream), WEIR_FOREVER);
        CU_ASSERT_FALSE(weir__upstream_may_hedge(upstream));
        end(upstream);
}

static const struct weir_test tests[] = {
        WEIR_TEST(five_failures_in_a_row_eject),
        WEIR_TEST(half_of_twenty_in_the_window_eject),
        WEIR_TEST(less_than_half_do_not_eject),
        WEIR_TEST(the_window_forgets_to_the_nanosecond),
        WEIR_TEST(an_ejection_ends_to_the_nanosecond),
        WEIR_TEST(ejections_double_up_to_the_most),
        WEIR_TEST(a_member_that_works_for_long_is_forgiven),
        WEIR_TEST(the_config_sets_the_bounds),
        WEIR_TEST(there_is_one_probe),
        WEIR_TEST(a_cancelled_probe_makes_room_for_another),
        WEIR_TEST(late_reports_do_not_move_a_breaker),
        WEIR_TEST(an_enabled_member_begins_anew),
        WEIR_TEST(no_more_than_half_are_ejected),
        WEIR_TEST(a_failing_member_is_ejected_when_there_is_room),
        WEIR_TEST(a_failing_member_that_works_again_is_one_that_works),
        WEIR_TEST(when_all_fail_all_are_used),
        WEIR_TEST(there_is_one_probe_in_a_panic),
        WEIR_TEST(a_single_member_is_always_used),
        WEIR_TEST(a_backup_takes_over_when_all_main_members_fail),
        WEIR_TEST(when_the_backup_fails_too_all_main_members_are_used),
        WEIR_TEST(a_request_is_slow_by_the_percentile),
        WEIR_TEST(overtaken_requests_count_and_others_do_not),
        WEIR_TEST(hedges_are_a_share_of_the_requests),
        WEIR_TEST(further_attempts_earn_no_hedge),
        WEIR_TEST(hedges_take_from_a_budget_of_retries),
        WEIR_TEST(without_a_share_nothing_is_hedged),
};

int
main(void)
{
        return weir_test_main("upstream_breaker", tests, sizeof tests / sizeof *tests);
}
