/* test/reference_upstream_guide_test.c: the examples of the reference for weir/upstream.h, and of docs/upstreams.md. */
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "test/support.h"

/* -- weir/upstream.h -- */

static void
members_come_and_go(void)
{
        weir_upstream *backend = weir_upstream_new("backend", NULL);
        struct weir_member_config spare = WEIR_MEMBER_CONFIG_DEFAULT;

        spare.tier = WEIR_MEMBER_BACKUP;
        spare.max_in_flight = 100;
        CU_ASSERT_EQUAL(weir_upstream_add(backend, "10.0.0.1:8080", NULL), 0);
        CU_ASSERT_EQUAL(weir_upstream_add(backend, "10.0.0.2:8080", NULL), 0);
        CU_ASSERT_EQUAL(weir_upstream_add(backend, "10.0.9.1:8080", &spare), 0);

        CU_ASSERT_EQUAL(weir_upstream_disable(backend, "10.0.0.2:8080"), 0); /* for a new version of it */
        CU_ASSERT_EQUAL(weir_upstream_enable(backend, "10.0.0.2:8080"), 0);
        CU_ASSERT_EQUAL(weir_upstream_weight(backend, "10.0.0.2:8080", 3), 0);
        CU_ASSERT_EQUAL(weir_upstream_remove(backend, "10.0.0.1:8080"), 0);
        weir_upstream_unref(backend); /* http://backend/ is an ordinary host again */
}

static int
answer(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        (void)host;
        (void)family;
        (void)context;
        return weir_resolver_reply_add(reply, "10.0.0.1");
}

static void
check(weir_task *follow, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_task_status(follow), 0);
}

static void
the_addresses_of_a_name_are_members(void)
{
        struct weir_resolver_config names = WEIR_RESOLVER_CONFIG_DEFAULT;

        names.answer = answer; /* in place of DNS */
        CU_ASSERT_EQUAL(weir_resolver_configure(&names), 0);
        weir_upstream *backend = weir_upstream_new("backend", NULL);
        weir_series *series = weir_series_new(NULL, NULL);

        weir_task *follow = weir_upstream_follow_new(backend, "b.internal:8080", NULL, check, NULL);
        weir_series_push(series, follow); /* and then the tasks that need the members */

        weir_waitgroup *group = weir_waitgroup_new();
        weir_series_start_waited(series, group);
        weir_waitgroup_wait(group, WEIR_FOREVER);

        CU_ASSERT_EQUAL(weir_upstream_unfollow(backend, "b.internal:8080"), 0);
        weir_waitgroup_free(group);
        weir_upstream_unref(backend);
        weir_shutdown();
        weir_resolver_configure(NULL);
}

/* Another part of the program knows only the name. */
static void
the_members_of_a_name_are_printed(void)
{
        weir_upstream *made = weir_upstream_new("backend", NULL), *backend = weir_upstream_find("backend");
        struct weir_member_info member = {.size = sizeof member};

        weir_upstream_add(backend, "10.0.0.1:8080", NULL);
        for (size_t i = 0; weir_upstream_member(backend, i, &member) == 0; i++)
                printf("%s: %zu in flight, %s\n", member.address, member.in_flight,
                       member.state == WEIR_MEMBER_CLOSED ? "used" : "not used"); /* or probed */
        weir_upstream_unref(backend);
        weir_upstream_unref(made);
}

/* The fewest requests in flight for its weight, of all. */
static size_t
choose_least(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        size_t least = 0;

        (void)key;
        (void)key_size;
        (void)context;
        for (size_t i = 1; i < count; i++)
                if (weir_member_in_flight(members[i]) * weir_member_weight(members[least]) <
                    weir_member_in_flight(members[least]) * weir_member_weight(members[i]))
                        least = i;
        return strcmp(weir_member_address(members[least]), "10.0.0.13:8080") ? least : 0;
}

static void
an_upstream_has_a_policy_and_a_breaker(void)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;

        config.policy = WEIR_UPSTREAM_FUNCTION;
        config.choose = choose_least;
        config.failures_in_row = 3;
        config.ejection = WEIR_SEC(10);
        config.hedge_percent = 10; /* requests of 100, if slower than 95 of 100 */
        weir_upstream *backend = weir_upstream_new("backend", &config), *other = weir_upstream_ref(backend);
        CU_ASSERT_PTR_NOT_NULL(backend);
        weir_upstream_unref(backend);
        weir_upstream_unref(other);
}

static const struct weir_test tests[] = {
        WEIR_TEST(members_come_and_go),
        WEIR_TEST(the_addresses_of_a_name_are_members),
        WEIR_TEST(the_members_of_a_name_are_printed),
        WEIR_TEST(an_upstream_has_a_policy_and_a_breaker),
};

int
main(void)
{
        return weir_test_main("reference_upstream_guide", tests, sizeof tests / sizeof *tests);
}
