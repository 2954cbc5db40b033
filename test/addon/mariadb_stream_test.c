/* test/addon/mariadb_stream_test.c: rows one by one: order, back-pressure, ends of both sides. */
#include "test/addon/mariadb_server.h"
#include "test/addon/sql_stream.h"

static void
rows_come_one_by_one(void)
{
        enum { COUNT = 100000 };

        for (int is_prepared = 0; is_prepared < 2; is_prepared++) {
                struct end end = {0};
                struct consumer consumer = {.rows = weir_mariadb_rows_new(10)};

                weir_test_begin_real(2);
                weir_mariadb *pool = server_pool(2, true);
                weir_task_start(weir_channel_receive_new(consumer.rows, on_row, &consumer));
                size_t before = weir_test_resident_bytes();
                weir_task *query = rows_new(pool, "SELECT seq, repeat('x', 500) FROM seq_1_to_100000", consumer.rows, &end);
                if (is_prepared)
                        weir_mariadb_set_prepared(query);
                CU_ASSERT_EQUAL(weir_task_run(query), 0);
                WEIR_TEST_EVENTUALLY(consumer.ends == 1);
                CU_ASSERT_EQUAL(consumer.count, COUNT);
                CU_ASSERT_EQUAL(consumer.wrong, 0);
                CU_ASSERT(end.rows == 0 && end.affected == 0);
                CU_ASSERT(weir_test_resident_bytes() < before + MOST_BYTES);
                CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(pool, "SELECT 1", note_end, &end)), 0);
                CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
                weir_channel_unref(consumer.rows);
                weir_mariadb_unref(pool);
                weir_test_end();
        }
}

static void
nothing_is_read_for_a_channel_that_is_full(void)
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(2, true);
        weir_channel *rows = weir_mariadb_rows_new(3);
        weir_task_start(rows_new(pool, "SELECT seq, repeat('x', 10000) FROM seq_1_to_3000", rows, &end));
        WEIR_TEST_EVENTUALLY(
                server_ask("SELECT count(*) FROM information_schema.processlist WHERE state = 'Writing to net'")[0] == '1');
        CU_ASSERT_EQUAL(end.ends, 0);
        for (int i = 1; i <= 3000; i++) {
                weir_mariadb_row *row = take(rows);
                int64_t number = 0;
                size_t size;

                CU_ASSERT(weir_mariadb_row_int(row, 0, &number) == 0 && number == i);
                CU_ASSERT(weir_mariadb_row_value(row, 1, &size) && size == 10000);
                weir_mariadb_row_free(row);
        }
        CU_ASSERT_PTR_NULL(take(rows));
        WEIR_TEST_EVENTUALLY(end.ends == 1);
        CU_ASSERT_EQUAL(end.status, 0);
        weir_channel_unref(rows);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* Ends a stream early.  Returns the status that its callback has seen. */
static int
leave_early(void (*leave)(weir_series *series, weir_channel *rows))
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, true);
        weir_channel *rows = weir_mariadb_rows_new(3);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, rows_new(pool, "SELECT seq, repeat('x', 1000) FROM seq_1_to_99999999", rows, &end));
        weir_series_start(series);
        for (int i = 0; i < 10; i++)
                weir_mariadb_row_free(take(rows));
        leave(series, rows);
        WEIR_TEST_EVENTUALLY(end.ends == 1);
        WEIR_TEST_EVENTUALLY(server_runs("seq_1_to_99999999") == 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 2);
        weir_series_unref(series);
        weir_channel_unref(rows);
        weir_mariadb_unref(pool);
        weir_test_end();
        return end.status;
}

static void
cancel_series(weir_series *series, weir_channel *rows)
{
        (void)rows;
        weir_series_cancel(series);
}

static void
close_rows(weir_series *series, weir_channel *rows)
{
        (void)series;
        weir_channel_close(rows);
}

static void
a_stream_may_be_left_early(void)
{
        CU_ASSERT_EQUAL(leave_early(cancel_series), -ECANCELED);
        CU_ASSERT_EQUAL(leave_early(close_rows), -EPIPE);
}

static void
a_limit_ends_a_stream_that_nobody_reads(void)
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, true);
        weir_channel *rows = weir_mariadb_rows_new(3);
        weir_task *query = rows_new(pool, "SELECT seq FROM seq_1_to_99999999", rows, &end);
        weir_mariadb_set_limit(query, WEIR_MSEC(100));
        weir_task_start(query);
        WEIR_TEST_EVENTUALLY(end.ends == 1);
        CU_ASSERT_EQUAL(end.status, -ETIMEDOUT);
        for (int i = 0; i < 3; i++)
                weir_mariadb_row_free(take(rows));
        CU_ASSERT_PTR_NULL(take(rows));
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        weir_channel_unref(rows);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_failure_among_the_rows_is_told(void)
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, true);
        weir_channel *rows = weir_mariadb_rows_new(WEIR_UNBOUNDED);
        const char *sql = "SELECT seq, IF(seq < 5000, 1, (SELECT 1 UNION SELECT 2)) FROM seq_1_to_10000";
        CU_ASSERT_EQUAL(weir_task_run(rows_new(pool, sql, rows, &end)), -EINVAL);
        CU_ASSERT_STRING_EQUAL(end.problem, "Subquery returns more than 1 row");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_channel_unref(rows);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_shutdown_ends_a_stream(void)
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, true);
        weir_channel *rows = weir_mariadb_rows_new(3);
        weir_task_start(rows_new(pool, "SELECT seq FROM seq_1_to_99999999", rows, &end));
        weir_mariadb_row_free(take(rows));
        weir_test_end();
        CU_ASSERT_EQUAL(end.ends, 1);
        CU_ASSERT_EQUAL(end.status, -ESHUTDOWN);
        weir_channel_unref(rows);
        weir_mariadb_unref(pool);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(rows_come_one_by_one),
                WEIR_TEST(nothing_is_read_for_a_channel_that_is_full),
                WEIR_TEST(a_stream_may_be_left_early),
                WEIR_TEST(a_limit_ends_a_stream_that_nobody_reads),
                WEIR_TEST(a_failure_among_the_rows_is_told),
                WEIR_TEST(a_shutdown_ends_a_stream),
        };

        return server_main("mariadb_stream", tests, sizeof tests / sizeof *tests);
}
