/* test/addon/sqlite_statement_test.c: statements, their parameters and rows, and what SQLite refuses. */
#include "test/addon/sqlite.h"
#include "test/trace_fixture.h"

#include <math.h>

static weir_sqlite *db;

static void
begin(void)
{
        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE, c CHECK (c <> 13))"), 0);
}

static void
insert(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (1, 2, 3)"), 0);
}

static void
a_trace_names_the_statement(void)
{
        begin();
        CU_ASSERT_TRUE(weir_test_waits_in_trace(insert, NULL, "\"INSERT INTO t VALUES", " wait"));
        sqlite_end(db);
}

/* -- values -- */

static void
look_at_values(weir_task *query, void *context)
{
        size_t size = 9;

        CU_ASSERT_EQUAL(weir_task_status(query), 0);
        CU_ASSERT_EQUAL(weir_sqlite_rows(query), 2);
        CU_ASSERT_EQUAL(weir_sqlite_columns(query), 6);
        CU_ASSERT_STRING_EQUAL(weir_sqlite_name(query, 0), "i");
        CU_ASSERT_STRING_EQUAL(weir_sqlite_name(query, 4), "n");
        CU_ASSERT_PTR_NULL(weir_sqlite_name(query, 6));
        CU_ASSERT(weir_sqlite_column(query, "i") == 0 && weir_sqlite_column(query, "n") == 4);
        CU_ASSERT(weir_sqlite_column(query, "I") == -ENOENT && weir_sqlite_column(query, NULL) == -EINVAL);
        for (size_t row = 0; row < 2; row++) {
                CU_ASSERT_EQUAL(weir_sqlite_type(query, row, 0), WEIR_SQLITE_INT64);
                CU_ASSERT_EQUAL(weir_sqlite_int64(query, row, 0), INT64_MIN);
                CU_ASSERT_EQUAL(weir_sqlite_double(query, row, 0), -9223372036854775808.0);
                CU_ASSERT_EQUAL(weir_sqlite_type(query, row, 1), WEIR_SQLITE_DOUBLE);
                CU_ASSERT_EQUAL(weir_sqlite_double(query, row, 1), 2.75);
                CU_ASSERT_EQUAL(weir_sqlite_int64(query, row, 1), 2);
                CU_ASSERT_EQUAL(weir_sqlite_type(query, row, 2), WEIR_SQLITE_TEXT);
                CU_ASSERT_STRING_EQUAL(weir_sqlite_text(query, row, 2, &size), "grün");
                CU_ASSERT_EQUAL(size, 5);
                CU_ASSERT_EQUAL(weir_sqlite_type(query, row, 3), WEIR_SQLITE_BLOB);
                CU_ASSERT_EQUAL(memcmp(weir_sqlite_blob(query, row, 3, &size), "\0\1\0", 4), 0);
                CU_ASSERT_EQUAL(size, 3);
                CU_ASSERT_EQUAL(weir_sqlite_type(query, row, 4), WEIR_SQLITE_NULL);
                CU_ASSERT_PTR_NULL(weir_sqlite_text(query, row, 4, &size));
                CU_ASSERT_EQUAL(size, 0);
                CU_ASSERT_EQUAL(weir_sqlite_type(query, row, 5), WEIR_SQLITE_BLOB);
                CU_ASSERT_STRING_EQUAL(weir_sqlite_blob(query, row, 5, &size), "");
                CU_ASSERT_EQUAL(size, 0);
        }
        CU_ASSERT_EQUAL(weir_sqlite_int64(query, 0, 2), 0);
        CU_ASSERT_EQUAL(weir_sqlite_int64(query, 2, 0), 0);
        CU_ASSERT_EQUAL(weir_sqlite_int64(query, 0, 6), 0);
        CU_ASSERT_EQUAL(weir_sqlite_type(query, 7, 7), WEIR_SQLITE_NULL);
        CU_ASSERT_PTR_NULL(weir_sqlite_text(query, 0, 0, NULL));
        CU_ASSERT_PTR_NULL(weir_sqlite_problem(query));
        CU_ASSERT_EQUAL(weir_sqlite_code(query), 0);
        CU_ASSERT_EQUAL(weir_sqlite_affected(query), 0);
        CU_ASSERT_EQUAL(weir_sqlite_inserted(query), 0);
        ++*(int *)context;
}

static void
values_of_each_type_come_back(void)
{
        int calls = 0;

        begin();
        weir_task *query = weir_sqlite_query_new(
                db, "SELECT ?1 i, ?2 d, ?3 t, ?4 b, ?5 n, zeroblob(0) UNION ALL SELECT ?1, ?2, ?3, ?4, ?5, zeroblob(0)",
                look_at_values, &calls);
        CU_ASSERT_EQUAL(weir_sqlite_bind_text(query, 3, "to be replaced", SIZE_MAX), 0);
        CU_ASSERT_EQUAL(weir_sqlite_bind_int64(query, 1, INT64_MIN), 0);
        CU_ASSERT_EQUAL(weir_sqlite_bind_double(query, 2, 2.75), 0);
        CU_ASSERT_EQUAL(weir_sqlite_bind_text(query, 3, "grün und mehr", 5), 0);
        CU_ASSERT_EQUAL(weir_sqlite_bind_blob(query, 4, "\0\1\0", 3), 0);
        CU_ASSERT_EQUAL(weir_sqlite_bind_null(query, 5), 0);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT_EQUAL(calls, 1);
        sqlite_end(db);
}

static void
doubles_are_cut_to_integers(void)
{
        static const struct {
                const char *sql;
                int64_t cut;
        } cases[] = {{"SELECT 1e300", INT64_MAX},
                     {"SELECT -1e300", INT64_MIN},
                     {"SELECT -2.9", -2},
                     {"SELECT 9223372036854775807.0", INT64_MAX},
                     {"SELECT 0.0", 0}};

        begin();
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
                CU_ASSERT_EQUAL(sqlite_number(db, cases[i].sql), cases[i].cut);
        sqlite_end(db);
}

static void
look_at_insert(weir_task *insert, void *context)
{
        CU_ASSERT_EQUAL(weir_sqlite_affected(insert), 3);
        CU_ASSERT_EQUAL(weir_sqlite_inserted(insert), 12);
        CU_ASSERT_EQUAL(weir_sqlite_rows(insert), 3);
        CU_ASSERT_EQUAL(weir_sqlite_int64(insert, 2, 0), 12);
        ++*(int *)context;
}

static void
look_at_nothing(weir_task *update, void *context)
{
        CU_ASSERT_EQUAL(weir_task_status(update), 0);
        CU_ASSERT_EQUAL(weir_sqlite_affected(update), 0);
        CU_ASSERT_EQUAL(weir_sqlite_inserted(update), 0);
        CU_ASSERT_EQUAL(weir_sqlite_rows(update), 0);
        ++*(int *)context;
}

static void
an_insert_says_what_it_has_changed(void)
{
        int calls = 0;

        begin();
        weir_task_run(weir_sqlite_exec_new(db, "INSERT INTO t VALUES (10, 1, 1), (11, 2, 2), (12, 3, 3) RETURNING a",
                                           look_at_insert, &calls));
        weir_task_run(weir_sqlite_exec_new(db, "UPDATE t SET c = 5 WHERE a = 99", look_at_nothing, &calls));
        CU_ASSERT_EQUAL(calls, 2);
        sqlite_end(db);
}

/* -- refusals -- */

static char problem[300];
static int code;

static void
keep_problem(weir_task *task, void *context)
{
        const char *words = weir_sqlite_problem(task);

        (void)context;
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(problem, sizeof problem, "%s", words ? words : "");
        code = weir_sqlite_code(task);
        CU_ASSERT(weir_task_status(task) == 0 || weir_sqlite_rows(task) == 0);
}

static int
exec(const char *sql)
{
        return weir_task_run(weir_sqlite_exec_new(db, sql, keep_problem, NULL));
}

static int
query(const char *sql)
{
        return weir_task_run(weir_sqlite_query_new(db, sql, keep_problem, NULL));
}

static void
what_is_wrong_is_said_in_the_words_of_sqlite(void)
{
        begin();
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1, 1, 1)"), 0);
        CU_ASSERT_STRING_EQUAL(problem, "");
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1, 2, 2)"), -EEXIST);
        CU_ASSERT_STRING_EQUAL(problem, "test.db: INSERT INTO t VALUES (1, 2, 2): UNIQUE constraint failed: t.a");
        CU_ASSERT_EQUAL(code, SQLITE_CONSTRAINT_PRIMARYKEY);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (2, 1, 2)"), -EEXIST);
        CU_ASSERT_EQUAL(code, SQLITE_CONSTRAINT_UNIQUE);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (2, 2, 13)"), -EPERM);
        CU_ASSERT_EQUAL(code, SQLITE_CONSTRAINT_CHECK);
        CU_ASSERT_EQUAL(exec("INSERT INTO missing VALUES (1)"), -EINVAL);
        CU_ASSERT_STRING_EQUAL(problem, "test.db: INSERT INTO missing VALUES (1): no such table: missing");
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (2, 2, 2) ON CONFLICT DO NOTHING, and this is longer than sixty bytes"),
                        -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(problem, "ON CONFLICT DO NOTHING, and t...: near"));
        CU_ASSERT_EQUAL(query("SELECT * FROM nothing"), -EINVAL);
        CU_ASSERT_EQUAL(query("SELECT zeroblob(2000000000)"), -E2BIG);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 1);
        sqlite_end(db);
}

static void
one_statement_and_no_transaction(void)
{
        begin();
        CU_ASSERT_EQUAL(query(""), -EINVAL);
        CU_ASSERT_EQUAL(query(NULL), -EINVAL);
        CU_ASSERT_STRING_EQUAL(problem, weir_strerror(-EINVAL));
        CU_ASSERT_EQUAL(query(" -- nothing"), -EINVAL);
        CU_ASSERT_EQUAL(query("SELECT 1; SELECT 2"), -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(problem, "more than one statement"));
        CU_ASSERT_EQUAL(query("SELECT 1; -- and that is all"), 0);
        CU_ASSERT_EQUAL(query("SELECT 1;;  "), 0);
        static const char *const transactions[] = {
                "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT x", "RELEASE weir__write", "ROLLBACK TO weir__write"};
        for (unsigned i = 0; i < sizeof transactions / sizeof *transactions; i++) {
                CU_ASSERT_EQUAL(exec(transactions[i]), -EINVAL);
                CU_ASSERT_PTR_NOT_NULL(strstr(problem, "a transaction, which the library does"));
                CU_ASSERT_EQUAL(query(transactions[i]), -EINVAL);
                CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_alone_new(db, transactions[i], NULL, NULL)), -EINVAL);
        }
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1, 1, 1)"), 0);
        sqlite_end(db);
}

static int
run(weir_sqlite_connection *connection, void *sql)
{
        return weir_sqlite_run(connection, sql);
}

static void
a_pragma_of_the_library_is_not_set(void)
{
        static const char *const ours[] = {"PRAGMA busy_timeout = 5", "PRAGMA query_only(0)", "PRAGMA main.journal_mode = DELETE",
                                           "PRAGMA Locking_Mode = EXCLUSIVE"};
        static const char *const others[] = {"PRAGMA busy_timeout",
                                             "PRAGMA query_only",
                                             "PRAGMA journal_mode",
                                             "PRAGMA cache_size = 100",
                                             "PRAGMA temp.journal_mode = MEMORY",
                                             "PRAGMA journal_mode=WAL",
                                             "PRAGMA locking_mode = normal"};

        begin();
        for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++) {
                CU_ASSERT_EQUAL(query(ours[i]), -EINVAL);
                CU_ASSERT_PTR_NOT_NULL(strstr(problem, "it would set a PRAGMA that is the library's"));
                CU_ASSERT_EQUAL(exec(ours[i]), -EINVAL);
                CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_alone_new(db, ours[i], NULL, NULL)), -EINVAL);
                CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(db, run, keep_problem, (char *)ours[i])), -EACCES);
                CU_ASSERT_PTR_NOT_NULL(strstr(problem, "it would set a PRAGMA that is the library's"));
                CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_read_new(db, run, NULL, (char *)ours[i])), -EACCES);
        }
        for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
                CU_ASSERT_EQUAL(exec(others[i]), 0);
                CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_alone_new(db, others[i], NULL, NULL)), 0);
        }
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0);
        sqlite_end(db);
}

static void
a_query_does_not_write(void)
{
        begin();
        CU_ASSERT_EQUAL(query("INSERT INTO t VALUES (1, 1, 1)"), -EROFS);
        CU_ASSERT_EQUAL(query("DROP TABLE t"), -EROFS);
        CU_ASSERT_EQUAL(query("INSERT INTO t VALUES (1, 1, 1) RETURNING a"), -EROFS);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0);
        sqlite_end(db);
}

static int
do_nothing(weir_sqlite_connection *connection, void *context)
{
        (void)connection, (void)context;
        return 0;
}

static void
count_rows(weir_task *query, void *count)
{
        *(int *)count = (int)weir_sqlite_rows(query);
}

static void
parameters_are_checked(void)
{
        weir_task *task;

        begin();
        task = weir_sqlite_query_new(db, "SELECT ?", NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_int64(task, 0, 1), -ERANGE);
        CU_ASSERT_EQUAL(weir_task_run(task), -ERANGE);
        task = weir_sqlite_query_new(db, "SELECT ?", NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_int64(task, 32767, 1), -ERANGE);
        weir_task_dismiss(task);
        task = weir_sqlite_query_new(db, "SELECT ?", NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_int64(task, 2, 1), 0);
        CU_ASSERT_EQUAL(weir_task_run(task), -ERANGE);
        task = weir_sqlite_query_new(db, "SELECT ?", NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_blob(task, 1, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(task), -EINVAL);
        task = weir_sqlite_query_new(db, "SELECT ?", NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_text(task, 1, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(task), -EINVAL);
        int nulls = 0;
        task = weir_sqlite_query_new(db, "SELECT 1 WHERE ? IS NULL", count_rows, &nulls);
        CU_ASSERT_EQUAL(weir_sqlite_bind_text(task, 1, "x", SIZE_MAX), 0);
        CU_ASSERT_EQUAL(weir_sqlite_bind_text(task, 1, NULL, SIZE_MAX), 0);
        CU_ASSERT_EQUAL(weir_task_run(task), 0);
        CU_ASSERT_EQUAL(nulls, 1);
        task = weir_sqlite_read_new(db, NULL, NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_int64(task, 1, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(task), -EINVAL);
        task = weir_sqlite_read_new(db, do_nothing, NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_blob(task, 1, NULL, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(task), 0); /* it has no parameters that could be wrong */
        task = weir_sqlite_query_new(db, "SELECT ?", NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_blob(task, 1, "", SIZE_MAX), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_run(task), -ENOMEM);
        task = weir_timer_new(1, NULL, NULL);
        CU_ASSERT_EQUAL(weir_sqlite_bind_int64(task, 1, 1), -EINVAL);
        CU_ASSERT_EQUAL(weir_sqlite_rows(task), 0);
        CU_ASSERT_PTR_NULL(weir_sqlite_problem(task));
        CU_ASSERT_EQUAL(weir_sqlite_column(task, "x"), -EINVAL);
        weir_task_dismiss(task);
        CU_ASSERT_EQUAL(weir_sqlite_bind_int64(NULL, 1, 1), -EINVAL);
        sqlite_end(db);
}

static void
a_result_has_a_size(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        config.max_rows = 10;
        config.max_bytes = 4096;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10) SELECT i FROM n"), 0);
        CU_ASSERT_EQUAL(query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 11) SELECT i FROM n"),
                        -EMSGSIZE);
        CU_ASSERT_PTR_NOT_NULL(strstr(problem, "the result has more than 10 rows (max_rows)"));
        CU_ASSERT_EQUAL(query("SELECT hex(zeroblob(2000))"), 0 - (4000 + 24 + 20 >= 4096 ? EMSGSIZE : 0));
        CU_ASSERT_EQUAL(query("SELECT zeroblob(5000)"), -EMSGSIZE);
        CU_ASSERT_PTR_NOT_NULL(strstr(problem, "the result has more than 4096 bytes (max_bytes)"));
        CU_ASSERT_EQUAL(query("SELECT zeroblob(3000), zeroblob(3000)"), -EMSGSIZE);
        /* What has written is undone. */
        CU_ASSERT_EQUAL(
                exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 11) INSERT INTO t SELECT i FROM n "
                     "RETURNING a"),
                -EMSGSIZE);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0);
        sqlite_end(db);
}

static void
what_is_made_wrongly_is_answered(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        CU_ASSERT_PTR_NULL(weir_sqlite_new(NULL, NULL));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_sqlite_new("", NULL));
        config.size = 1;
        CU_ASSERT_PTR_NULL(weir_sqlite_new("/tmp/x", &config));
        CU_ASSERT_EQUAL(errno, EINVAL);
        config.size = sizeof config;
        config.synchronous = 3;
        CU_ASSERT_PTR_NULL(weir_sqlite_new("/tmp/x", &config));
        weir_test_begin_real(1);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_query_new(NULL, "SELECT 1", NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(NULL, NULL, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(NULL, NULL, NULL)), -ENOMEM);
        weir_test_end();
        weir_sqlite_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_sqlite_ref(NULL));
}

/* -- statements that are kept -- */

static void
statements_are_kept(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;
        char sql[100];

        config.statements = 3;
        db = sqlite_begin(&config);
        exec("CREATE TABLE t(a)");
        for (int i = 0; i < 10; i++)
                CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (7)"), 0);
        CU_ASSERT_EQUAL(weir_sqlite_stats(db, &stats), 0);
        CU_ASSERT_EQUAL(stats.prepared, 2);
        CU_ASSERT_EQUAL(stats.reused, 9);
        for (int i = 0; i < 20; i++) {
                snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%d)", i % 5);
                CU_ASSERT_EQUAL(exec(sql), 0);
        }
        /* The table changes under them. */
        CU_ASSERT_EQUAL(exec("ALTER TABLE t ADD COLUMN b DEFAULT 3"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t(a) VALUES (7)"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (4)"), -EINVAL);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 31);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT sum(b) FROM t"), 93);
        sqlite_end(db);
}

/* The columns of a query, as digits: how many it has and what is in the last one. */
static void
keep_shape(weir_task *task, void *context)
{
        size_t columns = weir_sqlite_columns(task);

        CU_ASSERT_EQUAL(weir_task_status(task), 0);
        CU_ASSERT_EQUAL(weir_sqlite_rows(task), 1);
        *(int64_t *)context = 10 * (int64_t)columns + weir_sqlite_int64(task, 0, columns - 1);
        if (columns == 3)
                CU_ASSERT_STRING_EQUAL(weir_sqlite_name(task, 2), "c");
}

/* SQLite prepares a statement that it has kept anew while it takes the first step. */
static void
a_kept_statement_has_the_columns_of_now(void)
{
        int64_t shape = 0;

        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a, b)"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (1, 2)"), 0);
        weir_task_run(weir_sqlite_query_new(db, "SELECT * FROM t", keep_shape, &shape));
        CU_ASSERT_EQUAL(shape, 22);
        CU_ASSERT_EQUAL(exec("ALTER TABLE t ADD COLUMN c DEFAULT 3"), 0);
        weir_task_run(weir_sqlite_query_new(db, "SELECT * FROM t", keep_shape, &shape));
        CU_ASSERT_EQUAL(shape, 33);
        CU_ASSERT_EQUAL(exec("ALTER TABLE t DROP COLUMN c"), 0);
        CU_ASSERT_EQUAL(exec("ALTER TABLE t DROP COLUMN b"), 0);
        weir_task_run(weir_sqlite_query_new(db, "SELECT * FROM t", keep_shape, &shape));
        CU_ASSERT_EQUAL(shape, 11);
        sqlite_end(db);
}

static void
a_database_in_memory_has_one_connection(void)
{
        weir_test_begin_real(2);
        db = weir_sqlite_new(":memory:", NULL);
        CU_ASSERT_EQUAL(exec("CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (7)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT a FROM t"), 7);
        CU_ASSERT_EQUAL(query("INSERT INTO t VALUES (8)"), -EROFS);
        CU_ASSERT_EQUAL(exec("INSERT INTO t VALUES (9)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT sum(a) FROM t"), 16);
        weir_sqlite_unref(db);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_trace_names_the_statement),
                WEIR_TEST(values_of_each_type_come_back),
                WEIR_TEST(doubles_are_cut_to_integers),
                WEIR_TEST(an_insert_says_what_it_has_changed),
                WEIR_TEST(what_is_wrong_is_said_in_the_words_of_sqlite),
                WEIR_TEST(one_statement_and_no_transaction),
                WEIR_TEST(a_pragma_of_the_library_is_not_set),
                WEIR_TEST(a_query_does_not_write),
                WEIR_TEST(parameters_are_checked),
                WEIR_TEST(a_result_has_a_size),
                WEIR_TEST(what_is_made_wrongly_is_answered),
                WEIR_TEST(statements_are_kept),
                WEIR_TEST(a_kept_statement_has_the_columns_of_now),
                WEIR_TEST(a_database_in_memory_has_one_connection),
        };

        return weir_test_main("sqlite statements", tests, sizeof tests / sizeof *tests);
}
