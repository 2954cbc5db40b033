/* test/addon/pq_stream_test.c: rows one by one, and COPY both ways: order, back-pressure, ends of both sides. */
#include "test/addon/pq_server.h"
#include "test/addon/sql_stream.h"

static void
rows_come_one_by_one(void)
{
        enum { COUNT = 100000 };

        for (unsigned pipeline = 1; pipeline < 9; pipeline += 7) {
                struct end end = {0};
                struct consumer consumer = {.rows = weir_pq_rows_new(10)};

                weir_test_begin_real(2);
                weir_pq *pool = server_pool(2, pipeline, true);
                weir_task_start(weir_channel_receive_new(consumer.rows, on_row, &consumer));
                size_t before = weir_test_resident_bytes();
                CU_ASSERT_EQUAL(weir_task_run(rows_new(pool, "SELECT n, repeat('x', 500) FROM generate_series(1, 100000) AS n",
                                                       consumer.rows, &end)),
                                0);
                WEIR_TEST_EVENTUALLY(consumer.ends == 1);
                CU_ASSERT_EQUAL(consumer.count, COUNT);
                CU_ASSERT_EQUAL(consumer.wrong, 0);
                CU_ASSERT(end.rows == 0 && end.columns == 2 && end.affected == COUNT);
                CU_ASSERT(weir_test_resident_bytes() < before + MOST_BYTES);
                CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", note_end, &end)), 0);
                if (end.status)
                        puts(end.problem);
                CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
                weir_channel_unref(consumer.rows);
                weir_pq_unref(pool);
                weir_test_end();
        }
}

static void
nothing_is_read_for_a_channel_that_is_full(void)
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        weir_channel *rows = weir_pq_rows_new(3);
        weir_task_start(rows_new(pool, "SELECT n, repeat('x', 10000) FROM generate_series(1, 3000) AS n", rows, &end));
        WEIR_TEST_EVENTUALLY(server_ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'")[0] == '1');
        CU_ASSERT_EQUAL(end.ends, 0);
        for (int i = 1; i <= 3000; i++) {
                weir_pq_row *row = take(rows);
                int64_t number = 0;
                size_t size;

                CU_ASSERT(weir_pq_row_int(row, 0, &number) == 0 && number == i);
                CU_ASSERT(weir_pq_row_value(row, 1, &size) && size == 10000);
                weir_pq_row_free(row);
        }
        CU_ASSERT_PTR_NULL(take(rows));
        WEIR_TEST_EVENTUALLY(end.ends == 1);
        CU_ASSERT_EQUAL(end.status, 0);
        weir_channel_unref(rows);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
rows_have_what_results_have(void)
{
        struct end end = {0};
        size_t size = 1;
        int64_t number;

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        weir_channel *rows = weir_pq_rows_new(10);
        weir_task *query = rows_new(pool, "SELECT $1::int8 AS a, NULL AS b, 'word' AS c", rows, &end);
        weir_pq_add_int(query, 77);
        weir_pq_set_binary(query);
        weir_pq_set_prepared(query);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        weir_pq_row *row = take(rows);
        CU_ASSERT_EQUAL(weir_pq_row_columns(row), 3);
        CU_ASSERT_STRING_EQUAL(weir_pq_row_name(row, 2), "c");
        CU_ASSERT_PTR_NULL(weir_pq_row_name(row, 3));
        CU_ASSERT(weir_pq_row_int(row, 0, &number) == 0 && number == 77);
        CU_ASSERT_PTR_NULL(weir_pq_row_value(row, 1, &size));
        CU_ASSERT_EQUAL(size, 0);
        CU_ASSERT_EQUAL(weir_pq_row_int(row, 1, &number), -ENOENT);
        CU_ASSERT_STRING_EQUAL(weir_pq_row_value(row, 2, NULL), "word");
        weir_pq_row_free(row);
        CU_ASSERT_PTR_NULL(take(rows));
        CU_ASSERT(weir_pq_row_columns(NULL) == 0 && !weir_pq_row_value(NULL, 0, NULL) && !weir_pq_row_name(NULL, 0));
        weir_pq_row_free(NULL);
        weir_task *script = weir_pq_script_new(pool, "SELECT 1", NULL, NULL), *timer = weir_timer_new(1, NULL, NULL);
        CU_ASSERT_EQUAL(weir_pq_set_rows(script, rows), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_set_input(timer, rows), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_set_rows(NULL, rows), -EINVAL);
        weir_task_dismiss(script);
        weir_task_dismiss(timer);
        weir_channel_unref(rows);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_failure_comes_behind_the_rows(void)
{
        struct end end = {0};
        int count = 0;

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        weir_channel *rows = weir_pq_rows_new(WEIR_UNBOUNDED);
        CU_ASSERT_EQUAL(weir_task_run(rows_new(pool, "SELECT 1 / (500 - n) FROM generate_series(1, 1000) AS n", rows, &end)),
                        -EINVAL);
        for (weir_pq_row *row; (row = take(rows)); count++)
                weir_pq_row_free(row);
        CU_ASSERT_EQUAL(count, 499);
        CU_ASSERT_STRING_EQUAL(end.problem, "ERROR:  division by zero");
        weir_channel_unref(rows);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_channel_that_is_closed_ends_the_query(void)
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        weir_channel *rows = weir_pq_rows_new(3);
        weir_task_start(rows_new(pool, "SELECT generate_series(1, 100000000) AS n, repeat('x', 1000)", rows, &end));
        weir_pq_row_free(take(rows));
        weir_channel_close(rows);
        WEIR_TEST_EVENTUALLY(end.ends == 1);
        CU_ASSERT_EQUAL(end.status, -EPIPE);
        CU_ASSERT_STRING_EQUAL(end.problem, "the channel is closed");
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
        weir_channel_unref(rows);
        weir_pq_unref(pool);
        weir_test_end();
}

/* At any moment; also when all rows are in libpq's memory already. */
static void
a_cancel_within_the_rows_leaves_the_connection(void)
{
        static const char *const queries[] = {"SELECT generate_series(1, 100000000) AS n, repeat('x', 1000)",
                                              "SELECT n FROM generate_series(1, 50) AS n",
                                              "COPY (SELECT generate_series(1, 100000000) AS n, repeat('x', 1000)) TO STDOUT",
                                              "COPY (SELECT n FROM generate_series(1, 50) AS n) TO STDOUT"};
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        for (unsigned i = 0; i < 40; i++) {
                struct end end = {0};
                weir_channel *rows = weir_pq_rows_new(weir_test_random_below(&random, 4));
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, rows_new(pool, queries[i % 4], rows, &end));
                weir_series_start(series);
                for (uint64_t left = weir_test_random_below(&random, 10); left > 0; left--)
                        weir_pq_row_free(take(rows));
                if (i % 3 == 0)
                        weir_test_sleep((int64_t)weir_test_random_below(&random, 2000000));
                weir_series_cancel(series);
                WEIR_TEST_EVENTUALLY(end.ends == 1);
                CU_ASSERT_EQUAL(end.status, -ECANCELED);
                weir_series_unref(series);
                for (weir_pq_row *row; (row = take(rows));)
                        weir_pq_row_free(row);
                weir_channel_unref(rows);
        }
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- COPY -- */

static int
copy_in(weir_pq *pool, const char *sql, weir_channel *input, struct end *end)
{
        weir_task *query = weir_pq_query_new(pool, sql, note_end, end);

        CU_ASSERT_EQUAL(weir_pq_set_input(query, input), 0);
        return weir_task_run(query);
}

static void
empty_table(void)
{
        server_ask("CREATE TABLE IF NOT EXISTS copied (a int UNIQUE, b text)");
        server_ask("TRUNCATE copied");
}

static void
copy_takes_bytes_from_a_channel(void)
{
        struct end end = {0};

        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 8, true);
        weir_channel *input = weir_pq_rows_new(10);
        weir_channel_post(input, weir_pq_row_new("1\tone\n2\tt", 9));
        weir_channel_post(input, weir_pq_row_new("", 0));
        weir_channel_post(input, weir_pq_row_new("wo\n", 3));
        weir_channel_close(input);
        CU_ASSERT_EQUAL(copy_in(pool, "COPY copied FROM STDIN", input, &end), 0);
        CU_ASSERT_EQUAL(end.affected, 2);
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT string_agg(b, ',') FROM copied"), "one,two");
        weir_channel_unref(input);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_table_is_copied_through_a_channel(void)
{
        struct end out = {0}, in = {0};

        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        weir_channel *between = weir_pq_rows_new(5);
        weir_task_start(
                rows_new(pool, "COPY (SELECT n, repeat('y', 200) FROM generate_series(1, 50000) AS n) TO STDOUT", between, &out));
        CU_ASSERT_EQUAL(copy_in(pool, "COPY copied FROM STDIN", between, &in), 0);
        WEIR_TEST_EVENTUALLY(out.ends == 1);
        CU_ASSERT(out.status == 0 && out.affected == 50000 && in.affected == 50000);
        if (out.status || in.status)
                printf("out: %d %s, in: %d %s\n", out.status, out.problem, in.status, in.problem);
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT sum(a) + sum(length(b)) FROM copied"), "1260025000");
        weir_channel_unref(between);
        weir_pq_unref(pool);
        weir_test_end();
}

/* The channel never ends by itself. */
static weir_task *
send_next(void *context)
{
        struct consumer *producer = context;
        char text[32];
        int size = snprintf(text, sizeof text, "%lld\tx\n", (long long)++producer->count % 1000);

        return weir_channel_send_new(producer->rows, weir_pq_row_new(text, (size_t)size), NULL, NULL);
}

static weir_task *
send_until_closed(void *context)
{
        struct consumer *producer = context;
        void *message = NULL;

        (void)message;
        if (producer->ends)
                return NULL;
        return send_next(context);
}

static void
a_row_that_is_refused_ends_the_input(void)
{
        struct end end = {0};
        struct consumer producer = {.rows = weir_pq_rows_new(10)};

        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        weir_task_start(weir_repeater_new(send_until_closed, NULL, &producer));
        CU_ASSERT_EQUAL(copy_in(pool, "COPY copied FROM STDIN", producer.rows, &end), -EEXIST); /* 1 comes a second time */
        producer.ends = 1;
        CU_ASSERT_PTR_NOT_NULL(strstr(end.problem, "duplicate key"));
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT count(*) FROM copied"), "0");
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        weir_test_end();
        weir_channel_unref(producer.rows);
        weir_pq_unref(pool);
}

static void
a_cancel_within_the_input_leaves_nothing(void)
{
        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        for (unsigned i = 0; i < 10; i++) {
                struct end end = {0};
                weir_channel *input = weir_pq_rows_new(10);
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *query = weir_pq_query_new(pool, "COPY copied FROM STDIN", note_end, &end);

                weir_pq_set_input(query, input);
                weir_series_push(series, query);
                weir_series_start(series);
                for (unsigned sent = 0; sent < i; sent++) {
                        char row[] = "0\tx\n";

                        row[0] = (char)('0' + sent);
                        weir_channel_post(input, weir_pq_row_new(row, 4));
                }
                if (i > 1)
                        WEIR_TEST_EVENTUALLY(weir_channel_length(input) == 0);
                weir_series_cancel(series);
                WEIR_TEST_EVENTUALLY(end.ends == 1);
                CU_ASSERT_EQUAL(end.status, -ECANCELED);
                CU_ASSERT_EQUAL(weir_channel_close(input), -EALREADY);
                weir_series_unref(series);
                weir_channel_unref(input);
        }
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT count(*) FROM copied"), "0");
        weir_pq_unref(pool);
        weir_test_end();
}

static void
copy_without_a_channel_is_answered(void)
{
        struct end end = {0};

        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, true);
        CU_ASSERT_EQUAL(
                weir_task_run(weir_pq_query_new(pool, "COPY (SELECT generate_series(1, 1000000)) TO STDOUT", note_end, &end)),
                -EINVAL);
        CU_ASSERT_STRING_EQUAL(end.problem, "COPY TO STDOUT needs a channel: weir_pq_set_rows");
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "COPY copied FROM STDIN", NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
channels_of_queries_that_do_not_run_are_closed(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(2, 1, true);
        weir_channel *rows = weir_pq_rows_new(1), *others = weir_pq_rows_new(1);
        struct end end = {0};
        weir_task_dismiss(rows_new(pool, "SELECT 1", rows, &end));
        CU_ASSERT_EQUAL(weir_channel_close(rows), -EALREADY);
        weir_pq_close(pool);
        CU_ASSERT_EQUAL(weir_task_run(rows_new(pool, "SELECT 1", others, &end)), -EPIPE);
        CU_ASSERT_EQUAL(weir_channel_close(others), -EALREADY);
        weir_channel_unref(rows);
        weir_channel_unref(others);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_connection_that_breaks_within_the_rows_closes_the_channel(void)
{
        struct end end = {0};

        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_pq *pool = server_pool(2, 1, true);
        weir_channel *rows = weir_pq_rows_new(3);
        weir_task_start(rows_new(pool, "SELECT generate_series(1, 100000001) AS n, repeat('x', 1000)", rows, &end));
        weir_pq_row_free(take(rows));
        server_ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%100000001%' AND "
                   "pid <> pg_backend_pid()");
        for (weir_pq_row *row; (row = take(rows));)
                weir_pq_row_free(row);
        WEIR_TEST_EVENTUALLY(end.ends == 1);
        CU_ASSERT_EQUAL(end.status, -ECONNRESET);
        weir_channel_unref(rows);
        weir_pq_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(rows_come_one_by_one),
                WEIR_TEST(nothing_is_read_for_a_channel_that_is_full),
                WEIR_TEST(rows_have_what_results_have),
                WEIR_TEST(a_failure_comes_behind_the_rows),
                WEIR_TEST(a_channel_that_is_closed_ends_the_query),
                WEIR_TEST(a_cancel_within_the_rows_leaves_the_connection),
                WEIR_TEST(copy_takes_bytes_from_a_channel),
                WEIR_TEST(a_table_is_copied_through_a_channel),
                WEIR_TEST(a_row_that_is_refused_ends_the_input),
                WEIR_TEST(a_cancel_within_the_input_leaves_nothing),
                WEIR_TEST(copy_without_a_channel_is_answered),
                WEIR_TEST(channels_of_queries_that_do_not_run_are_closed),
                WEIR_TEST(a_connection_that_breaks_within_the_rows_closes_the_channel),
        };

        return server_main("pq_stream", tests, sizeof tests / sizeof *tests);
}
