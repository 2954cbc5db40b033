/* test/addon/mariadb_query_test.c: queries: parameters, results, failures, limits, cancels, and their connections. */
#include "test/addon/mariadb_server.h"

struct seen_more {
        uint64_t inserted;
        unsigned code;
};

static void
see_more(weir_task *query, struct seen_more *more)
{
        more->inserted = weir_mariadb_inserted(query);
        more->code = weir_mariadb_code(query);
}

#include "test/addon/sql_query.h"

/* -- results -- */

static void
a_query_has_rows(void)
{
        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(2, false);
        struct seen seen = ask(pool, "SELECT 40 + seq, 'x' AS word FROM seq_2_to_4");
        CU_ASSERT_EQUAL(seen.status, 0);
        CU_ASSERT(seen.rows == 3 && seen.columns == 2 && seen.affected == 0);
        CU_ASSERT_STRING_EQUAL(seen.value, "42");
        CU_ASSERT(seen.number_failed == 0 && seen.number == 42);
        CU_ASSERT_STRING_EQUAL(seen.problem, "");
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT NULL").value, "NULL");
        CU_ASSERT_EQUAL(ask(pool, "SELECT NULL").number_failed, -ENOENT);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 'x'").number_failed, -EINVAL);
        CU_ASSERT_EQUAL(ask(pool, "SELECT '99999999999999999999'").number_failed, -ERANGE);
        CU_ASSERT_EQUAL(ask(pool, "").status, -EINVAL);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
note_columns(weir_task *query, void *context)
{
        const char *name = weir_mariadb_name(query, 1);

        *(int *)context = name && strcmp(name, "b") == 0 && weir_mariadb_column(query, "b") == 1 &&
                          weir_mariadb_column(query, "c") == -ENOENT && weir_mariadb_type(query, 0) == MYSQL_TYPE_LONG &&
                          weir_mariadb_type(query, 1) == MYSQL_TYPE_VAR_STRING && weir_mariadb_type(query, 2) == -ENOENT &&
                          !weir_mariadb_name(query, 2) && !weir_mariadb_value(query, 1, 0, NULL) &&
                          !weir_mariadb_value(query, 0, 2, NULL);
}

static void
columns_have_names_and_types(void)
{
        int is_right = 0;

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(pool, "SELECT 1 AS a, 'x' AS b", note_columns, &is_right)), 0);
        CU_ASSERT(is_right);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
parameters_are_texts_numbers_and_bytes(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        weir_task *query = weir_mariadb_query_new(pool, "SELECT concat_ws('|', ?, ?, hex(?), ?)", see, &seen);
        CU_ASSERT_EQUAL(weir_mariadb_add_text(query, "it's; \\ \"x\" \xc3\xa4"), 0);
        CU_ASSERT_EQUAL(weir_mariadb_add_int(query, INT64_MIN), 0);
        CU_ASSERT_EQUAL(weir_mariadb_add_binary(query, "a\0b", 3), 0);
        CU_ASSERT_EQUAL(weir_mariadb_add_text(query, NULL), 0);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT_STRING_EQUAL(seen.value, "it's; \\ \"x\" \xc3\xa4|-9223372036854775808|610062");
        seen = fresh();
        query = weir_mariadb_query_new(pool, "SELECT ? + 1", see, &seen);
        weir_mariadb_add_int(query, 41);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT(seen.number_failed == 0 && seen.number == 42);
        seen = fresh();
        query = weir_mariadb_query_new(pool, "SELECT ? + ?", see, &seen);
        weir_mariadb_add_int(query, 41);
        CU_ASSERT_EQUAL(weir_task_run(query), -EINVAL);
        CU_ASSERT_STRING_EQUAL(seen.problem, "the statement has 2 parameters, and the query 1");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- types: the same values by both protocols -- */

static const char *const all_types =
        "CREATE OR REPLACE TABLE test.types (id INT PRIMARY KEY AUTO_INCREMENT, i8 TINYINT, i64 BIGINT, u64 BIGINT UNSIGNED, "
        "f FLOAT, d DOUBLE, n DECIMAL(20, 5), v VARCHAR(50), t LONGTEXT, b LONGBLOB, day DATE, at DATETIME(6), dur TIME, "
        "y YEAR, e ENUM('a', 'b'), "
        "bits BIT(10), j JSON);"
        "INSERT INTO test.types VALUES (1, -128, -9223372036854775808, 18446744073709551615, 1.5, -2.25e100, 123456789.12345, "
        "'\xc3\xa4\xe2\x82\xac', REPEAT('x', 1000), x'00ff0001', '2024-02-29', '2024-02-29 23:59:59.123456', "
        "'-838:59:59', 1999, 'b', "
        "b'1000000001', '{\"a\": 1}');"
        "INSERT INTO test.types (id) VALUES (2)";

struct table {
        char values[2][17][1100];
        size_t sizes[2][17];
        size_t rows, columns;
};

static void
note_table(weir_task *query, void *context)
{
        struct table *table = context;

        table->rows = weir_mariadb_rows(query);
        table->columns = weir_mariadb_columns(query);
        for (size_t i = 0; i < 2; i++)
                for (size_t j = 0; j < 17; j++) {
                        const char *value = weir_mariadb_value(query, i, j, &table->sizes[i][j]);

                        if (!value)
                                strcpy(table->values[i][j], "NULL");
                        else if (table->sizes[i][j] < 1100)
                                memcpy(table->values[i][j], value, table->sizes[i][j] + 1);
                }
}

static void
all_types_come_alike_by_both_protocols(void)
{
        static struct table plain, prepared;

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_script_new(pool, all_types, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(pool, "SELECT * FROM test.types ORDER BY id", note_table, &plain)),
                        0);
        weir_task *query = weir_mariadb_query_new(pool, "SELECT * FROM test.types ORDER BY id", note_table, &prepared);
        CU_ASSERT_EQUAL(weir_mariadb_set_prepared(query), 0);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT(plain.rows == 2 && plain.columns == 17 && prepared.rows == 2 && prepared.columns == 17);
        for (size_t i = 0; i < 2; i++)
                for (size_t j = 0; j < 17; j++) {
                        CU_ASSERT_EQUAL(plain.sizes[i][j], prepared.sizes[i][j]);
                        CU_ASSERT(memcmp(plain.values[i][j], prepared.values[i][j], plain.sizes[i][j]) == 0);
                }
        CU_ASSERT_STRING_EQUAL(plain.values[0][3], "18446744073709551615");
        CU_ASSERT_STRING_EQUAL(plain.values[0][11], "2024-02-29 23:59:59.123456");
        CU_ASSERT(plain.sizes[0][9] == 4 && memcmp(plain.values[0][9], "\0\xff\0\x01", 4) == 0);
        CU_ASSERT(plain.sizes[0][8] == 1000);
        CU_ASSERT_STRING_EQUAL(plain.values[1][7], "NULL");
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
what_was_inserted_and_changed_is_counted(void)
{
        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(ask(pool, "CREATE TEMPORARY TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, a INT)").status, 0);
        struct seen seen = ask(pool, "INSERT INTO counted (a) VALUES (1), (2), (3)");
        CU_ASSERT(seen.affected == 3 && seen.more.inserted == 1);
        seen = ask(pool, "INSERT INTO counted (a) VALUES (4)");
        CU_ASSERT(seen.affected == 1 && seen.more.inserted == 4);
        CU_ASSERT_EQUAL(ask(pool, "UPDATE counted SET a = 1 WHERE id <= 2").affected, 1);
        CU_ASSERT_EQUAL(ask(pool, "DELETE FROM counted").affected, 4);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* Sends that many bytes, and has them back. */
static struct seen
send_large(weir_mariadb *pool, size_t size)
{
        struct seen seen = fresh();
        char *data = malloc(size);

        memset(data, 'x', size);
        weir_task *query = weir_mariadb_query_new(pool, "SELECT length(?)", see, &seen);
        weir_mariadb_add_binary(query, data, size);
        free(data);
        weir_task_run(query);
        return seen;
}

static void
large_values_come_whole_and_too_large_ones_are_refused(void)
{
        weir_test_begin_real(1);
        server_ask("SET GLOBAL max_allowed_packet = 33554432");
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(send_large(pool, 17 << 20).number, 17 << 20);
        CU_ASSERT_EQUAL(ask(pool, "SELECT repeat('y', 20000000)").rows, 1);
        struct seen seen = send_large(pool, 33 << 20);
        CU_ASSERT_EQUAL(seen.status, -E2BIG);
        CU_ASSERT_STRING_EQUAL(seen.problem,
                               "the statement has 34603008 bytes, and the server takes 33554432 (max_allowed_packet)");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").number, 1);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
        server_ask("SET GLOBAL max_allowed_packet = 16777216");
}

static void
many_parameters_go_too(void)
{
        char sql[40000] = "SELECT greatest(0";
        struct seen seen = fresh();
        size_t used = strlen(sql);

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        for (int i = 1; i <= 1000; i++)
                used += (size_t)sprintf(sql + used, ", ?");
        strcpy(sql + used, ")");
        weir_task *query = weir_mariadb_query_new(pool, sql, see, &seen);
        for (int i = 1; i <= 1000; i++)
                weir_mariadb_add_int(query, i);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT_EQUAL(seen.number, 1000);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_script_has_several_statements(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_script_new(pool,
                                                              "CREATE TEMPORARY TABLE t (a int); INSERT INTO t VALUES (1), (2); "
                                                              "SELECT sum(a) FROM t",
                                                              see, &seen)),
                        0);
        CU_ASSERT_STRING_EQUAL(seen.value, "3");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1; SELECT 2").status, -EINVAL);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- failures -- */

static void
failures_have_a_status_by_class(void)
{
        static const struct {
                const char *sql, *sqlstate;
                int status;
        } cases[] = {
                {"SELECT 1", "", 0},
                {"SELCT 1", "42000", -EINVAL},
                {"SELECT * FROM nowhere", "42S02", -ENOENT},
                {"SELECT nothing FROM mysql.user", "42S22", -ENOENT},
                {"CREATE TABLE mysql.user (a int)", "42S01", -EEXIST},
                {"SELECT 9223372036854775807 + 1", "22003", -ERANGE},
                {"SELECT nothing()", "42000", -ENOENT},
                {"SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062", "23000", -EEXIST},
                {"SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213", "40001", -EAGAIN},
                {"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205", "HY000", -EBUSY},
                {"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114", "HY000", -ENOSPC},
                {"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290", "HY000", -EROFS},
                {"SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1142", "42000", -EACCES},
                {"SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1235", "42000", -ENOTSUP},
                {"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own words'", "45000", -EINVAL},
                {"SIGNAL SQLSTATE 'ZZ000' SET MYSQL_ERRNO = 4999", "ZZ000", -EREMOTEIO},
        };

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct seen seen = ask(pool, cases[i].sql);

                CU_ASSERT_EQUAL(seen.status, cases[i].status);
                CU_ASSERT_STRING_EQUAL(seen.sqlstate, cases[i].sqlstate);
                CU_ASSERT_EQUAL(*seen.problem != '\0', cases[i].status != 0);
        }
        struct seen own = ask(pool, "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own words'");
        CU_ASSERT_STRING_EQUAL(own.problem, "own words");
        CU_ASSERT_EQUAL(own.more.code, 1644);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
bad_input_is_answered(void)
{
        struct weir_mariadb_config wrong = WEIR_MARIADB_CONFIG_DEFAULT, negative = WEIR_MARIADB_CONFIG_DEFAULT;

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        wrong.size--;
        negative.limit = -1;
        CU_ASSERT_PTR_NULL(weir_mariadb_new(NULL, &wrong));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_mariadb_new(NULL, &negative));
        CU_ASSERT_PTR_NULL(weir_mariadb_new("nonsense", NULL));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_mariadb_new("http://x", NULL));
        CU_ASSERT_PTR_NULL(weir_mariadb_new("mariadb://[", NULL));
        CU_ASSERT_PTR_NULL(weir_mariadb_new("mariadb://x?tls=perhaps", NULL));
        CU_ASSERT_PTR_NULL(weir_mariadb_new("mariadb://x?wrong=1", NULL));
        CU_ASSERT_PTR_NULL(weir_mariadb_new("mariadb://%00@x", NULL));
        weir_mariadb *pool = server_pool(1, false);
        weir_task *timer = weir_timer_new(1, NULL, NULL), *script = weir_mariadb_script_new(pool, "SELECT 1", NULL, NULL);
        CU_ASSERT_EQUAL(weir_mariadb_add_text(timer, "x"), -EINVAL);
        CU_ASSERT_EQUAL(weir_mariadb_add_text(script, "x"), -EINVAL);
        CU_ASSERT_EQUAL(weir_mariadb_set_prepared(script), -EINVAL);
        CU_ASSERT_EQUAL(weir_mariadb_set_rows(NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_mariadb_set_limit(timer, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_mariadb_set_limit(script, 0), -EINVAL);
        CU_ASSERT(weir_mariadb_rows(timer) == 0 && weir_mariadb_columns(NULL) == 0 && !weir_mariadb_value(timer, 0, 0, NULL));
        CU_ASSERT(!weir_mariadb_problem(timer) && *weir_mariadb_sqlstate(timer) == '\0' &&
                  weir_mariadb_column(timer, "x") == -EINVAL);
        weir_task_dismiss(timer);
        weir_task_dismiss(script);
        CU_ASSERT_EQUAL(ask(pool, NULL).status, -EINVAL);
        CU_ASSERT_EQUAL(ask(NULL, "SELECT 1").status, -ENOMEM);
        weir_task *query = weir_mariadb_query_new(pool, "SELECT 1", NULL, NULL);
        CU_ASSERT_EQUAL(weir_mariadb_add_binary(query, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(query), -EINVAL);
        struct weir_mariadb_stats stats = WEIR_MARIADB_STATS_DEFAULT;
        CU_ASSERT_EQUAL(weir_mariadb_stats(NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_mariadb_stats(NULL, &stats), -ENOMEM);
        weir_mariadb_unref(NULL);
        weir_mariadb_close(NULL);
        CU_ASSERT_PTR_NULL(weir_mariadb_ref(NULL));
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- the pool -- */

static void
there_are_no_more_connections_than_allowed(void)
{
        enum { COUNT = 50 };
        static struct weir_test_record records[COUNT];

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(3, false);
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < COUNT; i++)
                weir_task_start(
                        weir_test_recorded(weir_mariadb_query_new(pool, "SELECT sleep(0.002)", weir_test_done, &records[i])));
        CU_ASSERT(server_stats(pool).connections <= 3);
        for (unsigned i = 0; i < COUNT; i++)
                weir_test_wait_freed(&records[i]);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connecting == 0 &&
                             server_stats(pool).busy == 0); /* one may come too late to be needed */
        struct weir_mariadb_stats stats = server_stats(pool);
        CU_ASSERT(stats.connections <= 3 && stats.idle == stats.connections && stats.waiting == 0);
        CU_ASSERT(stats.connects == stats.connections);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
close_ends_those_that_wait(void)
{
        struct seen slow = fresh(), waiting = fresh();

        weir_test_begin_real(2);
        MYSQL *gate = server_shut_gate();
        weir_mariadb *pool = server_pool(1, false);
        weir_task_start(weir_mariadb_query_new(pool, SERVER_WAITS, see, &slow));
        WEIR_TEST_EVENTUALLY(server_stats(pool).queries == 1);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 1", see, &waiting));
        weir_mariadb_close(pool);
        weir_test_latch_wait(&waiting.latch);
        CU_ASSERT_EQUAL(waiting.status, -EPIPE);
        CU_ASSERT_STRING_EQUAL(waiting.problem, "the pool is closed");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -EPIPE);
        server_open_gate(gate);
        weir_test_latch_wait(&slow.latch);
        CU_ASSERT_EQUAL(slow.status, 0);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_pool_outlives_the_runtime(void)
{
        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_test_end();
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- cancels and limits -- */

static void
a_cancel_is_decisive_and_ends_the_statement_at_the_server(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, false);
        weir_series *series = series_of(weir_mariadb_query_new(pool, "SELECT sleep(600)", see, &seen));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_runs("SELECT sleep(600)") == 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_latch_wait(&seen.latch);
        CU_ASSERT_EQUAL(seen.status, -ECANCELED);
        CU_ASSERT_STRING_EQUAL(seen.problem, "cancelled while the server executed it (pool test)");
        WEIR_TEST_EVENTUALLY(server_runs("SELECT sleep(600)") == 0);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 2);
        CU_ASSERT_EQUAL(server_stats(pool).cancelled, 1);
        CU_ASSERT_EQUAL(server_stats(pool).killed, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
one_that_waits_leaves(void)
{
        struct seen slow = fresh(), waiting = fresh(), last = fresh();

        weir_test_begin_real(2);
        MYSQL *gate = server_shut_gate();
        weir_mariadb *pool = server_pool(1, false);
        weir_task_start(weir_mariadb_query_new(pool, SERVER_WAITS, see, &slow));
        WEIR_TEST_EVENTUALLY(server_stats(pool).queries == 1);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT 2", see, &last));
        WEIR_TEST_EVENTUALLY(server_stats(pool).waiting == 1);
        weir_series *series = series_of(weir_mariadb_query_new(pool, "SELECT 1", see, &waiting));
        weir_series_set_deadline(series, WEIR_MSEC(20));
        weir_series_start(series);
        weir_test_latch_wait(&waiting.latch);
        CU_ASSERT_EQUAL(waiting.status, -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(waiting.problem,
                               "too late while it waited for a connection (pool test, 1 busy, 0 being made, 2 wait)");
        weir_series_unref(series);
        server_open_gate(gate);
        weir_test_latch_wait(&last.latch);
        CU_ASSERT_EQUAL(slow.status, 0);
        CU_ASSERT_EQUAL(last.status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).queries, 2);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_limit_ends_a_query(void)
{
        struct seen running = fresh(), waiting = fresh();

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0); /* connected */
        weir_task *query = weir_mariadb_query_new(pool, "SELECT sleep(600)", see, &running);
        CU_ASSERT_EQUAL(weir_mariadb_set_limit(query, WEIR_SEC(1)), 0);
        weir_task_start(query);
        query = weir_mariadb_query_new(pool, "SELECT 1", see, &waiting);
        weir_mariadb_set_limit(query, WEIR_MSEC(10));
        weir_task_start(query);
        weir_test_latch_wait(&running.latch);
        weir_test_latch_wait(&waiting.latch);
        CU_ASSERT_EQUAL(running.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(waiting.status, -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(running.problem, "too late while the server executed it (pool test)");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
somebody_else_cancels_at_the_server(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, false);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT sum(sqrt(seq)) FROM seq_1_to_9999999999", see, &seen));
        WEIR_TEST_EVENTUALLY(server_runs("SELECT sum(sqrt(seq)) FROM seq_1_to_9999999999") == 1);
        char sql[300];
        snprintf(sql, sizeof sql, "KILL QUERY %s",
                 server_ask("SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT sum(sqrt(seq))%'"));
        server_ask(sql);
        weir_test_latch_wait(&seen.latch);
        CU_ASSERT_EQUAL(seen.status, -EINTR);
        CU_ASSERT_STRING_EQUAL(seen.sqlstate, "70100");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* With an error packet before the end. */
static void
somebody_else_ends_the_connection(void)
{
        struct seen seen = fresh();
        char sql[300];

        weir_log_set(NULL, NULL);
        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, true);
        weir_task_start(weir_mariadb_query_new(pool, "SELECT sleep(602)", see, &seen));
        WEIR_TEST_EVENTUALLY(server_runs("SELECT sleep(602)") == 1);
        snprintf(sql, sizeof sql, "KILL %s",
                 server_ask("SELECT id FROM information_schema.processlist WHERE info = 'SELECT sleep(602)'"));
        server_ask(sql);
        weir_test_latch_wait(&seen.latch);
        CU_ASSERT_EQUAL(seen.status, -ECONNRESET);
        struct seen id = ask(pool, "SELECT connection_id()");
        CU_ASSERT_EQUAL(id.status, 0);
        snprintf(sql, sizeof sql, "KILL %s", id.value); /* while it is idle */
        server_ask(sql);
        WEIR_TEST_EVENTUALLY(atoi(server_ask("SELECT count(*) FROM information_schema.processlist WHERE user = 'weir'")) == 1);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 3);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_transaction_that_is_left_open_is_rolled_back(void)
{
        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(ask(pool, "CREATE OR REPLACE TABLE left_open (a int)").status, 0);
        CU_ASSERT_EQUAL(ask(pool, "BEGIN").status, 0); /* is rolled back */
        CU_ASSERT_EQUAL(ask(pool, "INSERT INTO left_open VALUES (1)").status, 0);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT count(*) FROM left_open").value, "1");
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_script_new(pool, "BEGIN; INSERT INTO left_open VALUES (2)", NULL, NULL)), 0);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT count(*) FROM left_open").value, "1");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- prepared statements -- */

static void
statements_are_prepared_once(void)
{
        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        for (int i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT ? * 2", i).number, 2 * i);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELCT ?", 1).status, -EINVAL);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELCT ?", 1).status, -EINVAL);
        CU_ASSERT(server_stats(pool).prepared == 1 && server_stats(pool).reused == 9);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
statements_follow_their_tables(void)
{
        weir_log_set(NULL, NULL);
        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(ask(pool, "CREATE OR REPLACE TABLE changing (a int)").status, 0);
        CU_ASSERT_EQUAL(ask(pool, "INSERT INTO changing VALUES (7)").status, 0);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT * FROM changing", -1).columns, 1);
        CU_ASSERT_EQUAL(ask(pool, "ALTER TABLE changing ADD b int").status, 0);
        struct seen changed = ask_prepared(pool, "SELECT * FROM changing", -1);
        CU_ASSERT_EQUAL(changed.status, -EAGAIN);
        CU_ASSERT_STRING_EQUAL(changed.problem, "the columns of the prepared statement have changed since it was prepared");
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT * FROM changing", -1).columns, 2);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
no_more_statements_are_kept_than_allowed(void)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;
        char sql[64];

        weir_test_begin_real(1);
        config.statements = 5;
        config.connections = 1;
        weir_mariadb *pool = weir_mariadb_new(server_url(false), &config);
        for (int i = 0; i < 23; i++) {
                snprintf(sql, sizeof sql, "SELECT ? + %d", i);
                CU_ASSERT_EQUAL(ask_prepared(pool, sql, i).number, 2 * i);
        }
        /* Of all connections: the server ends those of earlier tests when it comes to it. */
        WEIR_TEST_EVENTUALLY(atoi(server_ask("SELECT variable_value FROM information_schema.global_status "
                                             "WHERE variable_name = 'Prepared_stmt_count'")) == 5);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* -- dumps -- */

static void
a_dump_says_what_queries_wait_for(void)
{
        struct seen running = fresh(), waiting = fresh();

        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, false);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL)),
                    *second = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_mariadb_query_new(pool, "SELECT sleep(605)", see, &running));
        weir_series_push(second, weir_mariadb_query_new(pool, "SELECT name FROM people", see, &waiting));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).queries == 1);
        weir_series_start(second);
        WEIR_TEST_EVENTUALLY(server_stats(pool).waiting == 1);
        const char *text = dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"SELECT sleep(605)\" pending: at the server (pool test, 1 busy, 1 wait)"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"SELECT name FROM people\" pending: for a connection (pool test, 1 busy, 1 wait)"));
        weir_series_cancel(second);
        weir_series_cancel(series);
        weir_test_latch_wait(&running.latch);
        weir_test_latch_wait(&waiting.latch);
        weir_series_unref(series);
        weir_series_unref(second);
        weir_mariadb_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_query_has_rows),
                WEIR_TEST(columns_have_names_and_types),
                WEIR_TEST(parameters_are_texts_numbers_and_bytes),
                WEIR_TEST(all_types_come_alike_by_both_protocols),
                WEIR_TEST(what_was_inserted_and_changed_is_counted),
                WEIR_TEST(large_values_come_whole_and_too_large_ones_are_refused),
                WEIR_TEST(many_parameters_go_too),
                WEIR_TEST(a_script_has_several_statements),
                WEIR_TEST(failures_have_a_status_by_class),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(queries_wait_in_order),
                WEIR_TEST(there_are_no_more_connections_than_allowed),
                WEIR_TEST(close_ends_those_that_wait),
                WEIR_TEST(idle_connections_are_closed),
                WEIR_TEST(a_pool_outlives_the_runtime),
                WEIR_TEST(a_cancel_is_decisive_and_ends_the_statement_at_the_server),
                WEIR_TEST(one_that_waits_leaves),
                WEIR_TEST(a_limit_ends_a_query),
                WEIR_TEST(somebody_else_cancels_at_the_server),
                WEIR_TEST(somebody_else_ends_the_connection),
                WEIR_TEST(a_transaction_that_is_left_open_is_rolled_back),
                WEIR_TEST(statements_are_prepared_once),
                WEIR_TEST(statements_follow_their_tables),
                WEIR_TEST(no_more_statements_are_kept_than_allowed),
                WEIR_TEST(a_dump_says_what_queries_wait_for),
                WEIR_TEST(figures_of_pools_are_among_all_others),
                WEIR_TEST(a_trace_names_the_query),
                WEIR_TEST(a_result_has_bounds),
                WEIR_TEST(a_script_has_bounds_for_each_result),
        };

        return server_main("mariadb_query", tests, sizeof tests / sizeof *tests);
}
