/* test/addon/pq_query_test.c: queries: parameters, results, failures, limits, cancels and what becomes of their connections. */
#include "test/addon/pq_server.h"

struct seen_more {
        char field[64];
};

static void
see_more(weir_task *query, struct seen_more *more)
{
        const char *field = weir_pq_field(query, 'n');

        snprintf(more->field, sizeof more->field, "%s", field ? field : "");
}

#include "test/addon/sql_query.h"

/* -- results -- */

static void
a_query_has_rows(void)
{
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 0, false);
        struct seen seen = ask(pool, "SELECT 40 + n, 'x' AS word FROM generate_series(2, 4) AS n");
        CU_ASSERT_EQUAL(seen.status, 0);
        CU_ASSERT(seen.rows == 3 && seen.columns == 2 && seen.affected == 3);
        CU_ASSERT_STRING_EQUAL(seen.value, "42");
        CU_ASSERT(seen.number_failed == 0 && seen.number == 42);
        CU_ASSERT_STRING_EQUAL(seen.problem, "");
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT NULL").value, "NULL");
        CU_ASSERT_EQUAL(ask(pool, "SELECT NULL").number_failed, -ENOENT);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 'x'").number_failed, -EINVAL);
        CU_ASSERT_EQUAL(ask(pool, "SELECT '99999999999999999999'").number_failed, -ERANGE);
        CU_ASSERT_EQUAL(ask(pool, "").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
note_columns(weir_task *query, void *context)
{
        const char *name = weir_pq_name(query, 1);

        *(int *)context = name && strcmp(name, "b") == 0 && weir_pq_column(query, "b") == 1 &&
                          weir_pq_column(query, "c") == -ENOENT && weir_pq_type(query, 0) == 23 && weir_pq_type(query, 1) == 25 &&
                          weir_pq_type(query, 2) == 0 && !weir_pq_name(query, 2) && !weir_pq_value(query, 1, 0, NULL) &&
                          !weir_pq_value(query, 0, 2, NULL);
}

static void
columns_have_names_and_types(void)
{
        int is_right = 0;

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1::int AS a, 'x'::text AS b", note_columns, &is_right)), 0);
        CU_ASSERT(is_right);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
parameters_are_texts_numbers_and_bytes(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        weir_task *query = weir_pq_query_new(pool, "SELECT concat_ws('|', $1::text, $2::bigint, encode($3, 'hex'), $4::text)",
                                             see, &seen);
        CU_ASSERT_EQUAL(weir_pq_add_text(query, "it's; \\ \"x\""), 0);
        CU_ASSERT_EQUAL(weir_pq_add_int(query, INT64_MIN), 0);
        CU_ASSERT_EQUAL(weir_pq_add_binary(query, 17, "a\0b", 3), 0);
        CU_ASSERT_EQUAL(weir_pq_add_text(query, NULL), 0);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT_STRING_EQUAL(seen.value, "it's; \\ \"x\"|-9223372036854775808|610062");
        seen = fresh();
        query = weir_pq_query_new(pool, "SELECT $1 + 1::bigint", see, &seen);
        weir_pq_add_int(query, 41);
        CU_ASSERT_EQUAL(weir_pq_set_binary(query), 0);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT(seen.number_failed == 0 && seen.number == 42);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
many_parameters_go_too(void)
{
        char sql[40000] = "SELECT 0";
        struct seen seen = fresh();
        size_t used = strlen(sql);

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        for (int i = 1; i <= 1000; i++)
                used += (size_t)sprintf(sql + used, " + $%d::int", i);
        weir_task *query = weir_pq_query_new(pool, sql, see, &seen);
        for (int i = 1; i <= 1000; i++)
                weir_pq_add_int(query, i);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT_EQUAL(seen.number, 500500);
        weir_pq_unref(pool);
        weir_test_end();
}

/* Short values and long ones lie in different places. */
static void
parameters_of_all_sizes_keep_their_values(void)
{
        static const char digits[] = "0123456789012345678901234567890123456789012345678901234567890123456789";

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        for (int size = 0; size < 70; size++) {
                struct seen seen = fresh();
                weir_task *query = weir_pq_query_new(pool, "SELECT concat_ws('|', $1, $2::text, $3::text, $4::bigint, $5::int)",
                                                     see, &seen);

                weir_pq_add_binary(query, 25, digits, (size_t)size % 30);
                weir_pq_add_int(query, size - 35);
                weir_pq_add_text(query, digits + 70 - size);
                weir_pq_add_int(query, INT64_MAX);
                weir_pq_add_int(query, 0);
                CU_ASSERT_EQUAL(weir_task_run(query), 0);
                char wanted[160];
                snprintf(wanted, sizeof wanted, "%.*s|%d|%s|%lld|0", size % 30, digits, size - 35, digits + 70 - size,
                         (long long)INT64_MAX);
                wanted[sizeof seen.value - 1] = '\0';
                CU_ASSERT_STRING_EQUAL(seen.value, wanted);
        }
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_script_has_several_statements(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_script_new(pool,
                                                         "CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (1), (2); "
                                                         "SELECT sum(a) FROM t",
                                                         see, &seen)),
                        0);
        CU_ASSERT_STRING_EQUAL(seen.value, "3");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1; SELECT 2").status, -EINVAL);
        weir_pq_unref(pool);
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
                {"SELECT", "", 0},
                {"SELCT 1", "42601", -EINVAL},
                {"SELECT 1/0", "22012", -EINVAL},
                {"SELECT 1e10::int", "22003", -ERANGE},
                {"SELECT * FROM nowhere", "42P01", -ENOENT},
                {"SELECT nothing()", "42883", -ENOENT},
                {"CREATE TABLE pg_catalog.pg_class (a int)", "42P07", -EEXIST},
                {"DO $$ BEGIN RAISE unique_violation; END $$", "23505", -EEXIST},
                {"DO $$ BEGIN RAISE serialization_failure; END $$", "40001", -EAGAIN},
                {"DO $$ BEGIN RAISE deadlock_detected; END $$", "40P01", -EAGAIN},
                {"DO $$ BEGIN RAISE lock_not_available; END $$", "55P03", -EBUSY},
                {"DO $$ BEGIN RAISE disk_full; END $$", "53100", -ENOSPC},
                {"DO $$ BEGIN RAISE out_of_memory; END $$", "53200", -ENOMEM},
                {"DO $$ BEGIN RAISE program_limit_exceeded; END $$", "54000", -E2BIG},
                {"DO $$ BEGIN RAISE read_only_sql_transaction; END $$", "25006", -EROFS},
                {"DO $$ BEGIN RAISE insufficient_privilege; END $$", "42501", -EACCES},
                {"DO $$ BEGIN RAISE feature_not_supported; END $$", "0A000", -ENOTSUP},
                {"DO $$ BEGIN RAISE 'own words'; END $$", "P0001", -EREMOTEIO},
        };

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct seen seen = ask(pool, cases[i].sql);

                CU_ASSERT_EQUAL(seen.status, cases[i].status);
                CU_ASSERT_STRING_EQUAL(seen.sqlstate, cases[i].sqlstate);
                CU_ASSERT_EQUAL(strncmp(seen.problem, "ERROR:  ", 8) == 0, cases[i].status != 0);
        }
        CU_ASSERT_STRING_EQUAL(ask(pool, "DO $$ BEGIN RAISE 'own words'; END $$").problem,
                               "ERROR:  own words\nCONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_violation_names_its_constraint(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(ask(pool, "CREATE TEMP TABLE people (id int CONSTRAINT one_id UNIQUE)").status, 0);
        CU_ASSERT_EQUAL(ask(pool, "INSERT INTO people VALUES (1)").affected, 1);
        struct seen seen = ask(pool, "INSERT INTO people VALUES (1)");
        CU_ASSERT_EQUAL(seen.status, -EEXIST);
        CU_ASSERT_STRING_EQUAL(seen.more.field, "one_id");
        weir_pq_unref(pool);
        weir_test_end();
}

static void
bad_input_is_answered(void)
{
        struct weir_pq_config wrong = WEIR_PQ_CONFIG_DEFAULT, negative = WEIR_PQ_CONFIG_DEFAULT;

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        wrong.size--;
        negative.limit = -1;
        CU_ASSERT_PTR_NULL(weir_pq_new("", &wrong));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_pq_new("", &negative));
        CU_ASSERT_PTR_NULL(weir_pq_new("nonsense", NULL));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_pq_new("service=x", NULL));
        CU_ASSERT_PTR_NULL(weir_pq_new("postgresql://[", NULL));
        weir_pq *pool = server_pool(1, 0, false);
        weir_task *timer = weir_timer_new(1, NULL, NULL), *script = weir_pq_script_new(pool, "SELECT 1", NULL, NULL);
        CU_ASSERT_EQUAL(weir_pq_add_text(timer, "x"), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_add_text(script, "x"), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_set_prepared(script), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_set_binary(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_set_limit(timer, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_set_limit(script, 0), -EINVAL);
        CU_ASSERT(weir_pq_rows(timer) == 0 && weir_pq_columns(NULL) == 0 && !weir_pq_value(timer, 0, 0, NULL));
        CU_ASSERT(!weir_pq_problem(timer) && *weir_pq_sqlstate(timer) == '\0' && weir_pq_column(timer, "x") == -EINVAL);
        weir_task_dismiss(timer);
        weir_task_dismiss(script);
        CU_ASSERT_EQUAL(ask(pool, NULL).status, -EINVAL);
        CU_ASSERT_EQUAL(ask(NULL, "SELECT 1").status, -ENOMEM);
        weir_task *query = weir_pq_query_new(pool, "SELECT 1", NULL, NULL);
        CU_ASSERT_EQUAL(weir_pq_add_binary(query, 17, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(query), -EINVAL);
        struct weir_pq_stats stats = WEIR_PQ_STATS_DEFAULT;
        CU_ASSERT_EQUAL(weir_pq_stats(NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_pq_stats(NULL, &stats), -ENOMEM);
        weir_pq_unref(NULL);
        weir_pq_close(NULL);
        CU_ASSERT_PTR_NULL(weir_pq_ref(NULL));
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- the pool -- */

static void
there_are_no_more_connections_than_allowed(void)
{
        enum { COUNT = 50 };
        static struct weir_test_record records[COUNT];
        static const char connections[] = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pq_query_test'";

        weir_test_begin_real(2);
        WEIR_TEST_EVENTUALLY(atoi(server_ask(connections)) == 0); /* the server ends those of earlier tests when it comes to it */
        weir_pq *pool = server_pool(3, 0, false);
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < COUNT; i++)
                weir_task_start(
                        weir_test_recorded(weir_pq_query_new(pool, "SELECT pg_sleep(0.002)", weir_test_done, &records[i])));
        CU_ASSERT(atoi(server_ask(connections)) <= 3);
        for (unsigned i = 0; i < COUNT; i++)
                weir_test_wait_freed(&records[i]);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connecting == 0 &&
                             server_stats(pool).busy == 0); /* one may come too late to be needed */
        struct weir_pq_stats stats = server_stats(pool);
        CU_ASSERT(stats.connections <= 3 && stats.idle == stats.connections && stats.waiting == 0);
        CU_ASSERT(stats.connects == stats.connections);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
close_ends_those_that_wait(void)
{
        struct seen slow = fresh(), waiting = fresh();

        weir_test_begin_real(2);
        PGconn *gate = server_shut_gate();
        weir_pq *pool = server_pool(1, 0, false);
        weir_task_start(weir_pq_query_new(pool, SERVER_WAITS, see, &slow));
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 1);
        weir_task_start(weir_pq_query_new(pool, "SELECT 1", see, &waiting));
        weir_pq_close(pool);
        weir_test_latch_wait(&waiting.latch);
        CU_ASSERT_EQUAL(waiting.status, -EPIPE);
        CU_ASSERT_STRING_EQUAL(waiting.problem, "the pool is closed");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, -EPIPE);
        server_open_gate(gate);
        weir_test_latch_wait(&slow.latch);
        CU_ASSERT_EQUAL(slow.status, 0);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_pool_outlives_the_runtime(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_test_end();
        CU_ASSERT_EQUAL(server_stats(pool).connections, 0);
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- cancels and limits -- */

static void
a_cancel_is_decisive_and_the_connection_stays(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_series *series = series_of(weir_pq_query_new(pool, "SELECT pg_sleep(600)", see, &seen));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_ask("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' "
                                        "AND state = 'active'")[0] == '1');
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_latch_wait(&seen.latch);
        CU_ASSERT_EQUAL(seen.status, -ECANCELED);
        CU_ASSERT_STRING_EQUAL(seen.problem, "cancelled while the server executed it (pool test)");
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        CU_ASSERT_EQUAL(server_stats(pool).cancelled, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
one_that_waits_leaves(void)
{
        struct seen slow = fresh(), waiting = fresh(), last = fresh();

        weir_test_begin_real(2);
        PGconn *gate = server_shut_gate();
        weir_pq *pool = server_pool(1, 0, false);
        weir_task_start(weir_pq_query_new(pool, SERVER_WAITS, see, &slow));
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 1);
        weir_task_start(weir_pq_query_new(pool, "SELECT 2", see, &last));
        WEIR_TEST_EVENTUALLY(server_stats(pool).waiting == 1);
        weir_series *series = series_of(weir_pq_query_new(pool, "SELECT 1", see, &waiting));
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
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_limit_ends_a_query(void)
{
        struct seen running = fresh(), waiting = fresh();

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0); /* connected */
        weir_task *query = weir_pq_query_new(pool, "SELECT pg_sleep(600)", see, &running);
        CU_ASSERT_EQUAL(weir_pq_set_limit(query, WEIR_MSEC(300)), 0);
        weir_task_start(query);
        query = weir_pq_query_new(pool, "SELECT 1", see, &waiting);
        weir_pq_set_limit(query, WEIR_MSEC(10));
        weir_task_start(query);
        weir_test_latch_wait(&running.latch);
        weir_test_latch_wait(&waiting.latch);
        CU_ASSERT_EQUAL(running.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(waiting.status, -ETIMEDOUT);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
somebody_else_cancels_at_the_server(void)
{
        struct seen seen = fresh();

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_task_start(weir_pq_query_new(pool, "SELECT pg_sleep(601)", see, &seen));
        WEIR_TEST_EVENTUALLY(server_ask("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE "
                                        "query = 'SELECT pg_sleep(601)' AND state = 'active'")[0] == '1');
        weir_test_latch_wait(&seen.latch);
        CU_ASSERT_EQUAL(seen.status, -EINTR);
        CU_ASSERT_STRING_EQUAL(seen.sqlstate, "57014");
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_transaction_that_is_left_open_is_rolled_back(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(ask(pool, "CREATE TEMP TABLE left_open (a int)").status, 0);
        CU_ASSERT_EQUAL(ask(pool, "BEGIN").status, 0);
        CU_ASSERT_EQUAL(ask(pool, "INSERT INTO left_open VALUES (1)").status, 0);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT count(*) FROM left_open").value, "1"); /* the BEGIN was rolled back */
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- limits of what waits -- */

static _Atomic unsigned late;

static void
count_late(weir_task *query, void *context)
{
        (void)context;
        late += weir_task_status(query) == -ETIMEDOUT;
}

static weir_task *
soon_late_new(weir_pq *pool)
{
        weir_task *query = weir_pq_query_new(pool, "SELECT 1", count_late, NULL);

        weir_pq_set_limit(query, WEIR_MSEC(20));
        return query;
}

/* Each look at the limits costs as much as there are queries, so it must not be made for each of them. */
static void
many_are_late_at_once(void)
{
        enum { PATIENT = 60000, LATE = 30000 };

        late = 0;
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        for (int i = 0; i < PATIENT; i++)
                weir_task_start(weir_pq_query_new(pool, "SELECT pg_sleep(60)", NULL, NULL));
        for (int i = 0; i < LATE; i++)
                weir_task_start(soon_late_new(pool));
        WEIR_TEST_EVENTUALLY(late == LATE);
        weir_pq_close(pool);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
push_two_at_once(weir_pq *transaction, weir_series *series, void *context)
{
        weir_task *both = weir_parallel_new(NULL, NULL);

        (void)context;
        weir_parallel_add(both, weir_pq_query_new(transaction, "SELECT pg_sleep(60)", NULL, NULL));
        weir_parallel_add(both, soon_late_new(transaction));
        weir_series_push(series, both);
}

static void
a_query_that_waits_within_a_transaction_has_its_limit(void)
{
        late = 0;
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_pq_transaction_new(pool, push_two_at_once, NULL, NULL));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(late == 1);
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- prepared statements -- */

static void
statements_are_prepared_once(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        for (int i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT $1::int * 2", i).number, 2 * i);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELCT $1", 1).status, -EINVAL);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELCT $1", 1).status, -EINVAL);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT count(*) FROM pg_prepared_statements").value, "1");
        weir_pq_unref(pool);
        weir_test_end();
}

static void
statements_that_the_server_has_forgotten_are_prepared_anew(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT $1::int", 5).number, 5);
        CU_ASSERT_EQUAL(ask(pool, "DEALLOCATE ALL").status, 0);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT $1::int", 6).number, 6);
        CU_ASSERT_EQUAL(ask(pool, "CREATE TEMP TABLE changing (a int)").status, 0);
        CU_ASSERT_EQUAL(ask(pool, "INSERT INTO changing VALUES (7)").status, 0);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT * FROM changing", -1).columns, 1);
        CU_ASSERT_EQUAL(ask(pool, "ALTER TABLE changing ADD b int").status, 0);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT * FROM changing", -1).columns, 2);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
count_columns(weir_task *query, void *context)
{
        CU_ASSERT_EQUAL(weir_task_status(query), 0);
        *(size_t *)context += weir_pq_columns(query);
}

/* Five at once on one connection. */
static size_t
columns_of_five(weir_pq *pool)
{
        weir_task *all = weir_parallel_new(NULL, NULL);
        size_t columns[5] = {0};

        for (int i = 0; i < 5; i++) {
                weir_task *query = weir_pq_query_new(pool, "SELECT * FROM changing", count_columns, &columns[i]);

                weir_pq_set_prepared(query);
                weir_parallel_add(all, query);
        }
        weir_task_run(all);
        return columns[0] + columns[1] + columns[2] + columns[3] + columns[4];
}

static void
all_that_are_in_a_pipeline_behind_an_outdated_statement_are_executed(void)
{
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 8, false);
        CU_ASSERT_EQUAL(ask(pool, "CREATE TEMP TABLE changing (a int)").status, 0);
        CU_ASSERT_EQUAL(columns_of_five(pool), 5);
        CU_ASSERT_EQUAL(ask(pool, "ALTER TABLE changing ADD b int").status, 0);
        CU_ASSERT_EQUAL(columns_of_five(pool), 10);
        CU_ASSERT_EQUAL(ask(pool, "DEALLOCATE ALL").status, 0);
        CU_ASSERT_EQUAL(columns_of_five(pool), 10);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_statement_is_prepared_for_the_types_of_its_parameters(void)
{
        static const char seven[] = {0, 0, 0, 7};
        struct seen seen = fresh();

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 0, false);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT $1 + 1::int8", 5).number, 6); /* the server takes an int8 */
        weir_task *query = weir_pq_query_new(pool, "SELECT $1 + 1::int8", see, &seen);
        weir_pq_add_binary(query, 23, seven, sizeof seven);
        weir_pq_set_prepared(query);
        weir_task_run(query);
        CU_ASSERT_EQUAL(seen.status, 0);
        CU_ASSERT_EQUAL(seen.number, 8);
        CU_ASSERT_EQUAL(ask_prepared(pool, "SELECT $1 + 1::int8", 6).number, 7);
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT count(*) FROM pg_prepared_statements").value, "2");
        weir_pq_unref(pool);
        weir_test_end();
}

static void
no_more_statements_are_kept_than_allowed(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        char sql[64];

        weir_test_begin_real(1);
        config.statements = 5;
        config.connections = 1;
        weir_pq *pool = weir_pq_new(server_conninfo(false), &config);
        for (int i = 0; i < 23; i++) {
                snprintf(sql, sizeof sql, "SELECT $1::int + %d", i);
                CU_ASSERT_EQUAL(ask_prepared(pool, sql, i).number, 2 * i);
        }
        CU_ASSERT_STRING_EQUAL(ask(pool, "SELECT count(*) FROM pg_prepared_statements").value, "3");
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- dumps -- */

static void
a_dump_says_what_queries_wait_for(void)
{
        struct seen running = fresh(), waiting = fresh();

        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 0, false);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL)),
                    *second = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_pq_query_new(pool, "SELECT pg_sleep(605)", see, &running));
        weir_series_push(second, weir_pq_query_new(pool, "SELECT name FROM people", see, &waiting));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 1);
        weir_series_start(second);
        WEIR_TEST_EVENTUALLY(server_stats(pool).waiting == 1);
        const char *text = dump();
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"SELECT pg_sleep(605)\" pending: at the server (pool test, 1 busy, 1 wait)"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"SELECT name FROM people\" pending: for a connection (pool test, 1 busy, 1 wait)"));
        weir_series_cancel(second);
        weir_series_cancel(series);
        weir_test_latch_wait(&running.latch);
        weir_test_latch_wait(&waiting.latch);
        weir_series_unref(series);
        weir_series_unref(second);
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- bounds -- */

static void
look_at_rows(weir_task *query, void *context)
{
        bool *is_right = context;
        int64_t number = 0;
        size_t size = 9;

        *is_right = weir_pq_rows(query) == 3 && weir_pq_columns(query) == 3 && weir_pq_affected(query) == 3 &&
                    weir_pq_column(query, "b") == 1 && weir_pq_int(query, 2, 0, &number) == 0 && number == 3 &&
                    !weir_pq_value(query, 1, 1, &size) && size == 0 && strcmp(weir_pq_value(query, 2, 1, &size), "x") == 0 &&
                    size == 1 && *weir_pq_value(query, 0, 2, &size) == '\0' && size == 0 && !weir_pq_value(query, 3, 0, NULL);
}

static void
push_too_much(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO bounded SELECT generate_series(1, 5)", NULL, NULL));
        weir_series_push(series, weir_pq_query_new(transaction, "SELECT * FROM bounded", NULL, NULL));
}

static void
bounds_hold_in_transactions_and_count_all_columns(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        bool is_right = false;

        weir_test_begin_real(2);
        config.connections = 1;
        config.max_rows = 4;
        weir_pq *pool = weir_pq_new(server_conninfo(false), &config);
        const char *sql = "SELECT n AS a, CASE n WHEN 2 THEN NULL ELSE 'x' END AS b, '' AS c FROM generate_series(1, 3) AS n";
        weir_task_run(weir_pq_query_new(pool, sql, look_at_rows, &is_right));
        CU_ASSERT(is_right);
        is_right = false;
        weir_task *binary = weir_pq_query_new(pool, sql, look_at_rows, &is_right);
        weir_pq_set_binary(binary);
        weir_task_run(binary);
        CU_ASSERT(is_right);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1 WHERE false").rows, 0);
        CU_ASSERT_EQUAL(ask(pool, "SELECT FROM generate_series(1, 4)").rows, 4); /* without columns */
        CU_ASSERT_EQUAL(ask(pool, "SELECT FROM generate_series(1, 5)").status, -EMSGSIZE);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1 / (3 - n) FROM generate_series(1, 5) AS n").status, -EINVAL); /* behind two rows */

        CU_ASSERT_EQUAL(ask(pool, "CREATE TABLE bounded(n int)").status, 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new(pool, push_too_much, NULL, NULL)), -EMSGSIZE);
        CU_ASSERT_EQUAL(ask(pool, "SELECT count(*) FROM bounded").number, 0); /* rolled back */
        CU_ASSERT_EQUAL(ask(pool, "INSERT INTO bounded SELECT generate_series(1, 3) RETURNING n").affected, 3);
        CU_ASSERT_EQUAL(ask(pool, "DROP TABLE bounded").status, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
bounds_and_pipelines_exclude_each_other(void)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;

        weir_log_set(NULL, NULL);
        config.pipeline = 8;
        config.max_rows = 4;
        errno = 0;
        CU_ASSERT(weir_pq_new(server_conninfo(false), &config) == NULL && errno == EINVAL);
        config.max_rows = 0;
        config.max_bytes = 4;
        CU_ASSERT(weir_pq_new(server_conninfo(false), &config) == NULL && errno == EINVAL);
        config.max_bytes = SIZE_MAX;
        weir_pq *pool = weir_pq_new(server_conninfo(false), &config);
        CU_ASSERT_PTR_NOT_NULL(pool);
        weir_pq_unref(pool);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_query_has_rows),
                WEIR_TEST(columns_have_names_and_types),
                WEIR_TEST(parameters_are_texts_numbers_and_bytes),
                WEIR_TEST(many_parameters_go_too),
                WEIR_TEST(parameters_of_all_sizes_keep_their_values),
                WEIR_TEST(a_script_has_several_statements),
                WEIR_TEST(failures_have_a_status_by_class),
                WEIR_TEST(a_violation_names_its_constraint),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(queries_wait_in_order),
                WEIR_TEST(there_are_no_more_connections_than_allowed),
                WEIR_TEST(close_ends_those_that_wait),
                WEIR_TEST(idle_connections_are_closed),
                WEIR_TEST(a_pool_outlives_the_runtime),
                WEIR_TEST(a_cancel_is_decisive_and_the_connection_stays),
                WEIR_TEST(one_that_waits_leaves),
                WEIR_TEST(a_limit_ends_a_query),
                WEIR_TEST(many_are_late_at_once),
                WEIR_TEST(a_query_that_waits_within_a_transaction_has_its_limit),
                WEIR_TEST(somebody_else_cancels_at_the_server),
                WEIR_TEST(a_transaction_that_is_left_open_is_rolled_back),
                WEIR_TEST(statements_are_prepared_once),
                WEIR_TEST(statements_that_the_server_has_forgotten_are_prepared_anew),
                WEIR_TEST(all_that_are_in_a_pipeline_behind_an_outdated_statement_are_executed),
                WEIR_TEST(a_statement_is_prepared_for_the_types_of_its_parameters),
                WEIR_TEST(no_more_statements_are_kept_than_allowed),
                WEIR_TEST(a_dump_says_what_queries_wait_for),
                WEIR_TEST(figures_of_pools_are_among_all_others),
                WEIR_TEST(a_trace_names_the_query),
                WEIR_TEST(a_result_has_bounds),
                WEIR_TEST(a_script_has_bounds_for_each_result),
                WEIR_TEST(bounds_hold_in_transactions_and_count_all_columns),
                WEIR_TEST(bounds_and_pipelines_exclude_each_other),
        };

        return server_main("pq_query", tests, sizeof tests / sizeof *tests);
}
