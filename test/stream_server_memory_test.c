/* test/stream_server_memory_test.c: allocations that are refused, one after another, to a server of streams.
 *
 * A scenario is run again and again, each time with the next allocation refused, until it needs no more of them.  Each time the
 * client gets all, or sees the connection end; the next client is served; and nothing is left. */
#include "test/memory_faults.h"

#include "test/stream_scenarios.h"

static const struct scenario scenarios[] = {
        {"echo", echo_all, 0, false, false, 0},
        {"limited", echo_all, 0, false, true, 0},
        {"large", reply_large, 2 * LARGE_SIZE, false, true, 0},
        {"file", reply_with_file, FILE_SIZE, false, true, 0},
        {"secure", echo_all, 0, true, false, 0},
        {"secure, limited", echo_all, 0, true, true, 0},
};

/* Returns whether an allocation was refused. */
static bool
play_refused(const struct scenario *scenario, int64_t nth, bool all_after_it)
{
        begin_scenario_at(scenario);
        size_t resting = atomic_load(&at.server->base.users.count);
        refuse_from(nth, all_after_it);
        bool right = play(scenario);
        atomic_store(&armed, false);
        CU_ASSERT(right || atomic_load(&refused));
        WEIR_TEST_EVENTUALLY(atomic_load(&at.server->base.users.count) == resting);
        WEIR_TEST_EVENTUALLY(connections() == 0);
        CU_ASSERT_TRUE(play(scenario)); /* when there is memory again */
        end();
        return atomic_load(&refused);
}

static void
refuse_each_of(const struct scenario *scenario, bool all_after_it)
{
        unsigned failures = CU_get_number_of_failures();
        int64_t nth = 0;
        bool goes_on;

        (void)play_refused(scenario, INT64_MAX, false); /* what is kept for good has been made */
        int64_t blocks = atomic_load(&live);
        unsigned descriptors = weir_test_entries_of("/proc/self/fd");
        do {
                goes_on = play_refused(scenario, nth, all_after_it);
                CU_ASSERT_EQUAL(atomic_load(&live), blocks);
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
                nth += goes_on;
        } while (goes_on && nth < 100);
        CU_ASSERT(nth > 3 && nth < 100);
        if (CU_get_number_of_failures() != failures)
                printf("\n  %s, %lld allocations\n", scenario->name, (long long)nth);
}

static void
any_allocation_may_be_refused(void)
{
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
                refuse_each_of(&scenarios[i], false);
}

static void
all_allocations_may_be_refused_from_one_on(void)
{
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
                refuse_each_of(&scenarios[i], true);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(any_allocation_may_be_refused),
                WEIR_TEST(all_allocations_may_be_refused_from_one_on),
        };

        make_replies();
        int result = weir_test_main("stream_server_memory", tests, sizeof tests / sizeof *tests);
        close(reply_file);
        tls_files_end();
        return result;
}
