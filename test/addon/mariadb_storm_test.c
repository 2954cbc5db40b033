/* test/addon/mariadb_storm_test.c: many flows at once, and what they leave behind. */
#include "test/addon/mariadb_server.h"
#include "test/addon/sql_storm.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_BYTES 1000000000 /* what was freed is kept for a while */
#else
#define MOST_BYTES 10000000
#endif

static void
queries(bool is_tcp, int64_t count)
{
        weir_test_begin_real(2);
        run_queries(server_pool(4, is_tcp), count);
}

static void
a_hundred_thousand_queries_get_their_answers(void)
{
        queries(false, 48000);
        queries(true, 10000);
}

static void
cancels_at_any_moment(void)
{
        for (unsigned is_tcp = 0; is_tcp < 2; is_tcp++) {
                storm_begin();
                storm_of_cancels(server_pool(3, is_tcp), is_tcp, true, false);
        }
}

static void
cancels_at_any_moment_with_bounds(void)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;

        storm_begin();
        config.connections = 3;
        config.clean_limit = WEIR_SEC(60);
        config.max_rows = 999;
        storm_of_cancels(weir_mariadb_new(server_url(true), &config), 2, true, true);
}

/* -- what is left behind -- */

static struct {
        weir_mariadb *pool;
        _Atomic int left, ended, running;
        weir_series *series[64];
} rush;

static void
count_end(weir_task *query, void *context)
{
        (void)query, (void)context;
        rush.ended++;
}

static void
rush_of(int count)
{
        struct weir_test_random random = {weir_test_seed()};

        for (int i = 0; i < count; i++) {
                weir_series **place = &rush.series[i % 64];
                weir_task *query = weir_mariadb_query_new(rush.pool, i % 5 ? "SELECT ?" : "SELECT sleep(?)", count_end, NULL);

                if (*place) {
                        if (weir_test_random_below(&random, 20) == 0)
                                weir_series_cancel(*place);
                        int old = i - 64;
                        WEIR_TEST_EVENTUALLY(rush.ended > old - 128);
                        weir_series_unref(*place);
                }
                weir_mariadb_add_text(query, i % 5 ? "1" : "0.0001");
                *place = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(*place, query);
                weir_series_start(*place);
        }
        for (int i = 0; i < 64; i++) {
                if (rush.series[i]) {
                        weir_series_cancel(rush.series[i]);
                        weir_series_unref(rush.series[i]);
                }
                rush.series[i] = NULL;
        }
        WEIR_TEST_EVENTUALLY(rush.ended == count);
        rush.ended = 0;
}

static void
nothing_is_left_behind(void)
{
        unsigned descriptors = 0, threads = 0;
        size_t bytes = 0;

        for (int round = 0; round < 3; round++) {
                weir_test_begin_real(2);
                weir_log_set(NULL, NULL);
                rush.pool = server_pool(4, round % 2);
                rush_of(round == 0 ? 2000 : 20000);
                weir_mariadb_unref(rush.pool);
                weir_test_end();
                if (round == 0) {
                        descriptors = weir_test_entries_of("/proc/self/fd");
                        threads = weir_test_threads();
                }
                if (round == 1)
                        bytes = weir_test_resident_bytes();
        }
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
        CU_ASSERT(weir_test_threads_become(threads));
        CU_ASSERT(weir_test_resident_bytes() < bytes + MOST_BYTES);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_hundred_thousand_queries_get_their_answers),
                WEIR_TEST(cancels_at_any_moment),
                WEIR_TEST(cancels_at_any_moment_with_bounds),
                WEIR_TEST(nothing_is_left_behind),
        };

        return server_main("mariadb_storm", tests, sizeof tests / sizeof *tests);
}
