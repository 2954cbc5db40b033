/* test/upstream_fixture.h: upstreams with members, requests, and how these are spread. */
#ifndef WEIR_TEST_UPSTREAM_FIXTURE_H
#define WEIR_TEST_UPSTREAM_FIXTURE_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/upstream/upstream.h"
#include "test/fixture.h"

/* The members have the addresses 10.0.0.1:80, 10.0.0.2:80 and so on. */
static inline const char *upstream_address(unsigned index)
{
        static _Thread_local char text[32];

        snprintf(text, sizeof text, "10.0.%u.%u:80", index / 250, index % 250 + 1);
        return text;
}

static inline unsigned upstream_index(const char *address)
{
        unsigned high = 0, low = 0;

        CU_ASSERT_EQUAL(sscanf(address, "10.0.%u.%u:80", &high, &low), 2);
        return high * 250 + low - 1;
}

static inline weir_upstream *upstream_with(const struct weir_upstream_config *config, unsigned members)
{
        weir_upstream *upstream = weir_upstream_new("backend", config);

        CU_ASSERT_PTR_NOT_NULL_FATAL(upstream);
        for (unsigned i = 0; i < members; i++) {
                CU_ASSERT_EQUAL(weir_upstream_add(upstream, upstream_address(i), NULL), 0);
        }
        return upstream;
}

static inline weir_upstream *upstream_of(enum weir_upstream_policy policy, unsigned members)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;

        config.policy = policy;
        return upstream_with(&config, members);
}

/* -- requests -- */

static inline struct weir__picked upstream_pick(weir_upstream *upstream)
{
        struct weir__picked picked = {0};

        CU_ASSERT_EQUAL_FATAL(weir__upstream_pick(upstream, NULL, &picked, NULL), 0);
        return picked;
}

static inline unsigned upstream_who(const struct weir__picked *picked)
{
        return upstream_index(weir__picked_address(picked));
}

static inline void upstream_end(weir_upstream *upstream, const struct weir__picked *picked, enum weir__outcome outcome)
{
        weir__upstream_report(upstream, picked, outcome, WEIR_MSEC(1));
}

/* A request from its pick to its end.  Returns the index of the member. */
static inline unsigned upstream_ask(weir_upstream *upstream, enum weir__outcome outcome)
{
        struct weir__picked picked = upstream_pick(upstream);
        unsigned who = upstream_who(&picked);

        upstream_end(upstream, &picked, outcome);
        return who;
}

/* Asks until a request has gone to that member, and ends it so; the others succeed. */
static inline void upstream_ask_at(weir_upstream *upstream, unsigned index, enum weir__outcome outcome)
{
        for (unsigned i = 0; i < 10000; i++) {
                struct weir__picked picked = upstream_pick(upstream);
                bool is_it = upstream_who(&picked) == index;

                upstream_end(upstream, &picked, is_it ? outcome : WEIR__OUTCOME_CANCELLED);
                if (is_it) {
                        return;
                }
        }
        CU_FAIL("the member gets no requests");
}

static inline void upstream_fail_at(weir_upstream *upstream, unsigned index, unsigned times)
{
        while (times-- > 0) {
                upstream_ask_at(upstream, index, WEIR__OUTCOME_FAILURE);
        }
}

static inline struct weir_member_info upstream_info(weir_upstream *upstream, unsigned index)
{
        struct weir_member_info info = {.size = sizeof info};

        for (size_t i = 0; weir_upstream_member(upstream, i, &info) == 0; i++) {
                if (strcmp(info.address, upstream_address(index)) == 0) {
                        return info;
                }
        }
        memset(&info, 0, sizeof info);
        info.state = (enum weir_member_state)-1;
        return info;
}

#define UPSTREAM_STATE(upstream, index, expected) CU_ASSERT_EQUAL(upstream_info(upstream, index).state, expected)

/* -- how they are spread -- */

/* Pearson's chi-square of counts against shares, with count - 1 degrees of freedom. */
static inline double upstream_chi_square(const unsigned *counts, const unsigned *shares, unsigned count)
{
        double all = 0, whole = 0, sum = 0;

        for (unsigned i = 0; i < count; i++) {
                all += counts[i];
                whole += shares[i];
        }
        for (unsigned i = 0; i < count; i++) {
                double expected = all * shares[i] / whole;

                sum += (counts[i] - expected) * (counts[i] - expected) / expected;
        }
        return sum;
}

#endif
