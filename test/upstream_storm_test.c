/* test/upstream_storm_test.c: threads pick, report, add, remove and change members at the same time. */
#include "test/upstream_fixture.h"

#include <stdatomic.h>

#define THREADS 8
#define MEMBERS 12
#define ROUNDS  (WEIR_TEST_SANITIZED ? 4000 : 20000)
#define MOST    3              /* requests in flight of a member */
#define ALWAYS  "10.0.0.99:80" /* a member that stays, without a limit */

/* -- one probe -- */

static weir_upstream *probed;
static pthread_barrier_t barrier;
static atomic_uint probes;

static void *
pick_once(void *unused)
{
        struct weir__picked picked[20];

        (void)unused;
        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < 20; i++) {
                picked[i] = upstream_pick(probed);
                atomic_fetch_add(&probes, upstream_who(&picked[i]) == 0);
        }
        pthread_barrier_wait(&barrier); /* all are in flight */
        for (unsigned i = 0; i < 20; i++) {
                upstream_end(probed, &picked[i], WEIR__OUTCOME_CANCELLED);
        }
        return NULL;
}

static void
run_threads(void *(*run)(void *context))
{
        pthread_t threads[THREADS];

        for (uintptr_t i = 0; i < THREADS; i++) {
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, run, (void *)i), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
        }
}

static void
eight_threads_send_one_probe(void)
{
        for (unsigned i = 0; i < 50; i++) {
                weir_test_begin_virtual();
                probed = upstream_of(i % 2 ? WEIR_UPSTREAM_ROUND_ROBIN : WEIR_UPSTREAM_TWO_CHOICES, 2);
                upstream_fail_at(probed, 0, 5);
                weir_test_pass(WEIR_SEC(30));
                atomic_store(&probes, 0);
                pthread_barrier_init(&barrier, NULL, THREADS);
                run_threads(pick_once);
                pthread_barrier_destroy(&barrier);
                CU_ASSERT_EQUAL(atomic_load(&probes), 1);
                UPSTREAM_STATE(probed, 0, WEIR_MEMBER_HALF_OPEN);
                weir_upstream_unref(probed);
                weir_test_end();
        }
}

/* -- all at once -- */

static enum weir_upstream_policy policy;
static atomic_uint picks;

/* One round of a thread that asks: up to eight requests are in flight. */
static void
ask_some(weir_upstream *upstream, struct weir_test_random *random)
{
        struct weir__picked picked[8];
        unsigned count = (unsigned)weir_test_random_below(random, 8) + 1, had = 0;
        uint64_t tried[2] = {1, 2}, key = weir_test_random_below(random, 100);
        struct weir__wish wish = {.key = &key, .key_size = sizeof key, .tried = tried};

        for (unsigned i = 0; i < count; i++) {
                wish.tried_count = (unsigned)weir_test_random_below(random, 3);
                int failed = weir__upstream_pick(upstream, &wish, &picked[had], NULL);
                CU_ASSERT(failed == 0 || failed == -EBUSY);
                had += failed == 0;
        }
        atomic_fetch_add(&picks, had);
        for (unsigned i = 0; i < had; i++) {
                CU_ASSERT(upstream_who(&picked[i]) < MEMBERS || strcmp(weir__picked_address(&picked[i]), ALWAYS) == 0);
                upstream_end(upstream, &picked[i], (enum weir__outcome)weir_test_random_below(random, 4));
        }
}

static void
change_one(weir_upstream *upstream, struct weir_test_random *random)
{
        const char *address = upstream_address((unsigned)weir_test_random_below(random, MEMBERS));
        struct weir_member_config config = WEIR_MEMBER_CONFIG_DEFAULT;
        struct weir_member_info info = {.size = sizeof info};
        const char *const addresses[] = {"10.0.0.11:80", "10.0.0.12:80"};

        config.tier = weir_test_random_below(random, 3) ? WEIR_MEMBER_MAIN : WEIR_MEMBER_BACKUP;
        config.max_in_flight = MOST;
        switch (weir_test_random_below(random, 7)) {
        case 0:
        case 1: weir_upstream_add(upstream, address, &config); break;
        case 2: weir_upstream_remove(upstream, address); break;
        case 3: weir_upstream_disable(upstream, address); break;
        case 4: weir_upstream_enable(upstream, address); break;
        case 5: weir_upstream_weight(upstream, address, (unsigned)weir_test_random_below(random, 9) + 1); break;
        default:
                CU_ASSERT_EQUAL(weir__upstream_set_addresses(upstream, "name:80", addresses,
                                                             (size_t)weir_test_random_below(random, 3), &config),
                                0);
        }
        for (size_t i = 0; weir_upstream_member(upstream, i, &info) == 0; i++) {
                CU_ASSERT(info.in_flight <= MOST || strcmp(info.address, ALWAYS) == 0);
        }
}

static void *
storm(void *context)
{
        uintptr_t index = (uintptr_t)context;
        struct weir_test_random random = {weir_test_seed() + index};

        for (unsigned i = 0; i < ROUNDS / THREADS; i++) {
                weir_upstream *upstream = weir_upstream_find("storm");

                CU_ASSERT_PTR_NOT_NULL_FATAL(upstream);
                if (index < THREADS / 4) {
                        change_one(upstream, &random);
                } else {
                        ask_some(upstream, &random);
                }
                (void)weir__upstream_may_hedge(upstream);
                (void)weir__upstream_hedge_after(upstream);
                weir_upstream_unref(upstream);
        }
        return NULL;
}

static size_t
choose_any(const weir_member *const *members, size_t count, const void *key, size_t key_size, void *context)
{
        (void)context;
        CU_ASSERT(key && key_size == 8 && weir_member_weight(members[count - 1]) > 0);
        CU_ASSERT(weir_member_in_flight(members[0]) <= MOST || strcmp(weir_member_address(members[0]), ALWAYS) == 0);
        return *(const unsigned char *)key % count;
}

static void
members_come_and_go_in_a_storm(void)
{
        struct weir_upstream_config config = WEIR_UPSTREAM_CONFIG_DEFAULT;
        struct weir_member_info info = {.size = sizeof info};

        weir_test_begin_real(1);
        for (policy = WEIR_UPSTREAM_TWO_CHOICES; policy <= WEIR_UPSTREAM_FUNCTION; policy++) {
                config.policy = policy;
                config.choose = choose_any;
                config.hedge_percent = 10;
                config.ejection = WEIR_USEC(50);
                weir_upstream *upstream = weir_upstream_new("storm", &config);
                CU_ASSERT_EQUAL(weir_upstream_add(upstream, ALWAYS, NULL), 0);
                atomic_store(&picks, 0);
                run_threads(storm);
                for (size_t i = 0; weir_upstream_member(upstream, i, &info) == 0; i++) {
                        CU_ASSERT_EQUAL(info.in_flight, 0);
                }
                CU_ASSERT(atomic_load(&picks) > 0);
                weir_upstream_unref(upstream);
        }
        weir_test_end();
}

/* -- names -- */

static void *
open_and_drop(void *context)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)context};

        for (unsigned i = 0; i < ROUNDS / THREADS; i++) {
                weir_upstream *upstream = weir_test_random_below(&random, 2) ? weir_upstream_new("name", NULL)
                                                                             : weir_upstream_find("name");
                if (upstream) {
                        CU_ASSERT_STRING_EQUAL(weir__upstream_name(upstream), "name");
                        weir_upstream_add(upstream, "h:1", NULL);
                        upstream = weir_test_random_below(&random, 4) ? upstream : weir__upstream_next(upstream);
                }
                weir_upstream_unref(upstream);
        }
        return NULL;
}

static void
names_come_and_go_in_a_storm(void)
{
        run_threads(open_and_drop);
        CU_ASSERT_PTR_NULL(weir_upstream_find("name"));
        CU_ASSERT_PTR_NULL(weir__upstream_next(NULL));
}

static const struct weir_test tests[] = {
        WEIR_TEST(eight_threads_send_one_probe),
        WEIR_TEST(members_come_and_go_in_a_storm),
        WEIR_TEST(names_come_and_go_in_a_storm),
};

int
main(void)
{
        return weir_test_main("upstream_storm", tests, sizeof tests / sizeof *tests);
}
