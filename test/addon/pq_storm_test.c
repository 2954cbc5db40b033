/* test/addon/pq_storm_test.c: many flows at once, with a pipeline and without. */
#include "test/addon/pq_server.h"
#include "test/addon/sql_storm.h"

static void
queries(unsigned pipeline, int64_t count)
{
        weir_test_begin_real(2);
        run_queries(server_pool(4, pipeline, pipeline % 2), count);
}

static void
a_hundred_thousand_queries_get_their_answers(void)
{
        queries(16, 80000);
        queries(1, 20000);
}

static void
cancels_at_any_moment(void)
{
        storm_begin();
        storm_of_cancels(server_pool(3, 1, true), 1, false, false);
}

static void
cancels_at_any_moment_in_a_pipeline(void)
{
        storm_begin();
        storm_of_cancels(server_pool(3, 8, false), 8, false, false);
}

static void
cancels_at_any_moment_with_bounds(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        storm_begin();
        config.connections = 3;
        config.clean_limit = WEIR_SEC(60);
        config.max_rows = 999;
        storm_of_cancels(weir_pq_new(server_conninfo(true), &config), 2, false, true);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_hundred_thousand_queries_get_their_answers),
                WEIR_TEST(cancels_at_any_moment),
                WEIR_TEST(cancels_at_any_moment_in_a_pipeline),
                WEIR_TEST(cancels_at_any_moment_with_bounds),
        };

        return server_main("pq_storm", tests, sizeof tests / sizeof *tests);
}
