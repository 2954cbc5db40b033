/* test/addon/sqlite_life_test.c: closing, forks, shutdown and kills while tasks are outstanding; flows; what can be seen. */
#include "test/addon/sqlite.h"

#include <weir/fiber.h>

static weir_sqlite *db;

static void
keep_status(weir_task *task, void *context)
{
        *(_Atomic int *)context = weir_task_status(task);
}

static int
wait_until_open(weir_sqlite_connection *connection, void *context)
{
        _Atomic int *steps = context;

        *steps = 1;
        while (*steps == 1)
                weir_test_sleep(100000);
        return weir_sqlite_run(connection, "INSERT INTO t VALUES (1)");
}

/* A write that has begun and waits until `steps` is 2. */
static void
stop_writer(_Atomic int *steps, _Atomic int *status, weir_waitgroup *group)
{
        weir_task *write = weir_sqlite_write_new(db, wait_until_open, NULL, (void *)steps);

        (void)status;
        *steps = 0;
        weir_task_start_waited(write, group);
        WEIR_TEST_EVENTUALLY(*steps == 1);
}

/* -- the end -- */

static void
a_close_waits_for_what_had_started_and_refuses_the_rest(void)
{
        _Atomic int steps, statuses[3] = {1, 1, 1};

        db = sqlite_begin(NULL);
        sqlite_exec(db, "CREATE TABLE t(a)");
        weir_waitgroup *group = weir_waitgroup_new();
        stop_writer(&steps, NULL, group);
        weir_task_start_waited(weir_sqlite_exec_new(db, "INSERT INTO t VALUES (2)", keep_status, (void *)&statuses[0]), group);
        weir_task_start_waited(weir_sqlite_close_new(db, keep_status, (void *)&statuses[1]), group);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (3)"), -EPIPE);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT 1"), -EPIPE);
        CU_ASSERT_EQUAL(statuses[1], 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_sqlite_close_new(db, NULL, NULL), WEIR_MSEC(1))), -ETIMEDOUT);
        steps = 2;
        weir_waitgroup_wait(group, WEIR_FOREVER);
        CU_ASSERT_EQUAL(statuses[0], 0);
        CU_ASSERT_EQUAL(statuses[1], 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(db, NULL, NULL)), 0); /* once more */
        char wal[120];
        snprintf(wal, sizeof wal, "%s-wal", sqlite_path);
        CU_ASSERT_EQUAL(access(wal, F_OK), -1); /* all is in the file */
        weir_sqlite_unref(db);
        db = weir_sqlite_new(sqlite_path, NULL);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT sum(a) FROM t"), 3);
        weir_waitgroup_free(group);
        sqlite_end(db);
}

static void
tasks_keep_their_database(void)
{
        _Atomic int steps, status = 1;

        db = sqlite_begin(NULL);
        sqlite_exec(db, "CREATE TABLE t(a)");
        weir_waitgroup *group = weir_waitgroup_new();
        stop_writer(&steps, NULL, group);
        weir_task_start_waited(weir_sqlite_exec_new(db, "INSERT INTO t VALUES (2)", keep_status, (void *)&status), group);
        weir_task *unstarted = weir_sqlite_exec_new(db, "INSERT INTO t VALUES (3)", NULL, NULL);
        weir_sqlite_unref(db);
        steps = 2;
        weir_waitgroup_wait(group, WEIR_FOREVER);
        CU_ASSERT_EQUAL(status, 0);
        weir_task_dismiss(unstarted);
        weir_waitgroup_free(group);
        db = weir_sqlite_new(sqlite_path, NULL);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT sum(a) FROM t"), 3);
        sqlite_end(db);
}

static int
write_until_shutdown(weir_sqlite_connection *connection, void *context)
{
        _Atomic int *steps = context;
        int failed = weir_sqlite_run(connection, "INSERT INTO t VALUES (1)");

        *steps = 1;
        while (!weir_sqlite_cancelled(connection))
                weir_test_sleep(100000);
        CU_ASSERT_EQUAL(weir_sqlite_cancelled(connection), -ESHUTDOWN);
        return failed;
}

static void
a_shutdown_ends_what_waits_and_undoes_what_runs(void)
{
        _Atomic int steps = 0, statuses[100];

        db = sqlite_begin(NULL);
        sqlite_exec(db, "CREATE TABLE t(a)");
        weir_task *write = weir_sqlite_write_new(db, write_until_shutdown, NULL, (void *)&steps);
        weir_task_start(write);
        WEIR_TEST_EVENTUALLY(steps == 1);
        for (int i = 0; i < 100; i++) {
                const char *sql =
                        i % 2 ? "INSERT INTO t VALUES (7)"
                              : "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
                statuses[i] = 1;
                weir_task_start(i % 2 ? weir_sqlite_exec_new(db, sql, keep_status, (void *)&statuses[i])
                                      : weir_sqlite_query_new(db, sql, keep_status, (void *)&statuses[i]));
        }
        weir_test_end();
        for (int i = 0; i < 100; i++)
                CU_ASSERT_EQUAL(statuses[i], -ESHUTDOWN);
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (2)"), 0); /* it goes on as before */
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT a FROM t"), 2);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_task_start(weir_sqlite_query_new(db, "SELECT 1", NULL, NULL)), -ESHUTDOWN);
        weir_sqlite_unref(db); /* closes in the call */
        sqlite_remove_directory();
}

static void
a_child_of_fork_has_no_databases(void)
{
        int status = -1;

        db = sqlite_begin(NULL);
        sqlite_exec(db, "CREATE TABLE t(a)");
        pid_t child = fork();
        if (child == 0) {
                struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;
                bool is_right = weir_sqlite_new(sqlite_path, NULL) == NULL && errno == ECHILD;

                is_right &= weir_task_start(weir_sqlite_query_new(db, "SELECT 1", NULL, NULL)) == -ECHILD;
                is_right &= weir_sqlite_stats(db, &stats) == -ECHILD;
                is_right &= weir_sqlite_metrics_write(1) == -ECHILD;
                weir_sqlite_unref(db);
                _exit(is_right ? 0 : 1);
        }
        waitpid(child, &status, 0);
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (2)"), 0);
        sqlite_end(db);
}

static void
more_than_may_wait_are_refused(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        _Atomic int steps, status = 1;

        config.waiting = 1;
        db = sqlite_begin(&config);
        sqlite_exec(db, "CREATE TABLE t(a)");
        weir_waitgroup *group = weir_waitgroup_new();
        stop_writer(&steps, NULL, group);
        weir_task_start_waited(weir_sqlite_exec_new(db, "INSERT INTO t VALUES (2)", keep_status, (void *)&status), group);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (3)"), -ENOBUFS);
        steps = 2;
        weir_waitgroup_wait(group, WEIR_FOREVER);
        weir_waitgroup_free(group);
        CU_ASSERT_EQUAL(status, 0);
        sqlite_end(db);
}

/* -- the opening -- */

static int
make_tables(weir_sqlite_connection *connection, void *context)
{
        ++*(_Atomic int *)context;
        return weir_sqlite_run(connection, "BEGIN; CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES (5); COMMIT");
}

static int
add_temporary_table(weir_sqlite_connection *connection, void *context)
{
        ++*(_Atomic int *)context;
        return weir_sqlite_run(connection, "CREATE TEMP TABLE mine AS SELECT 7 AS a");
}

static int
fail_twice(weir_sqlite_connection *connection, void *context)
{
        _Atomic int *calls = context;

        (void)connection;
        return ++*calls < 3 ? *calls == 1 ? -EDOM : SQLITE_CONSTRAINT_CHECK : 0;
}

static void
connections_are_prepared_when_they_are_opened(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;
        _Atomic int calls = 0;

        config.on_writer = make_tables;
        config.on_reader = add_temporary_table;
        config.readers = 1; /* else the second query may find the first one's connection not free yet, and get another */
        config.context = (void *)&calls;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(calls, 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT t.a + mine.a FROM t, mine"), 12);
        CU_ASSERT_EQUAL(calls, 2); /* the writer's comes first */
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT a FROM mine"), 7);
        CU_ASSERT_EQUAL(calls, 2);
        CU_ASSERT_EQUAL(sqlite_number(db, "INSERT INTO mine VALUES (8)"), -EROFS);
        weir_sqlite_stats(db, &stats);
        CU_ASSERT_EQUAL(stats.connections, 2);
        sqlite_end(db);

        config = (struct weir_sqlite_config)WEIR_SQLITE_CONFIG_DEFAULT;
        calls = 0;
        config.on_writer = fail_twice;
        config.context = (void *)&calls;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(sqlite_exec(db, "CREATE TABLE t(a)"), -EDOM);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT 1"), -EPERM);
        CU_ASSERT_EQUAL(sqlite_exec(db, "CREATE TABLE t(a)"), 0);
        sqlite_end(db);
}

static int
set_pragmas(weir_sqlite_connection *connection, void *context)
{
        int code = weir_sqlite_run(connection, "BEGIN; CREATE TABLE IF NOT EXISTS t(a); COMMIT; PRAGMA cache_size=100");

        return code ? code : weir_sqlite_run(connection, context);
}

static void
keep_problem(weir_task *task, void *context)
{
        snprintf(context, 200, "%d %s", weir_sqlite_code(task), weir_sqlite_problem(task));
}

static void
a_connection_is_not_prepared_by_a_pragma_of_the_library(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        char problem[200];

        config.on_writer = set_pragmas;
        config.context = (char *)"PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON";
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (1)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 1);
        sqlite_end(db);

        config.context = (char *)"PRAGMA busy_timeout=5000";
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_new(db, "INSERT INTO t VALUES (1)", keep_problem, problem)), -EACCES);
        CU_ASSERT_STRING_EQUAL(problem, "23 test.db: INSERT INTO t VALUES (1): it would set a PRAGMA that is the library's");
        sqlite_end(db);
}

/* The authorizer is the library's. */
static int
deny(void *context, int action, const char *first, const char *second, const char *third, const char *fourth)
{
        (void)context, (void)first, (void)second, (void)third, (void)fourth;
        return action == SQLITE_PRAGMA ? SQLITE_DENY : SQLITE_OK;
}

static int
deny_pragmas(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return sqlite3_set_authorizer(weir_sqlite_handle(connection), deny, NULL);
}

static void
a_connection_that_would_not_read_only_is_not_used(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;

        config.on_reader = deny_pragmas;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(sqlite_exec(db, "CREATE TABLE t(a)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), -EACCES);
        sqlite_end(db);
}

static int
make_wrong_tables(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, "BEGIN; CREATE TABLE t(a, a)");
}

static void
a_connection_that_cannot_be_prepared_has_the_words_of_sqlite(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        char problem[200];

        config.on_writer = make_wrong_tables;
        db = sqlite_begin(&config);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_new(db, "INSERT INTO t VALUES (1)", keep_problem, problem)), -EINVAL);
        CU_ASSERT_STRING_EQUAL(problem, "1 test.db: INSERT INTO t VALUES (1): duplicate column name: a");
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_query_new(db, "SELECT 1", keep_problem, problem)), -EINVAL);
        CU_ASSERT_STRING_EQUAL(problem, "1 test.db: SELECT 1: duplicate column name: a");
        sqlite_end(db);
}

/* -- flows -- */

static void
order_holds_in_a_series(void)
{
        static int64_t count;

        db = sqlite_begin(NULL);
        for (int i = 0; i < 20; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_stop_on_failure(series);
                weir_series_push(series, weir_sqlite_exec_new(db, "CREATE TABLE u(a)", NULL, NULL));
                weir_series_push(series, weir_sqlite_exec_new(db, "INSERT INTO u VALUES (1), (2)", NULL, NULL));
                weir_series_push(series, weir_sqlite_query_new(db, "SELECT count(*) FROM u", sqlite_keep_number, &count));
                weir_series_push(series, weir_sqlite_exec_new(db, "DROP TABLE u", NULL, NULL));
                CU_ASSERT_EQUAL(weir_series_run(series), 0);
                CU_ASSERT_EQUAL(count, 2);
                count = 0;
        }
        sqlite_end(db);
}

static int
await_rows(void *context)
{
        weir_task *query = weir_sqlite_query_new(db, "SELECT 'tea', 350", NULL, NULL);
        int failed = weir_await(query);

        CU_ASSERT_EQUAL(weir_sqlite_rows(query), 1);
        CU_ASSERT_STRING_EQUAL(weir_sqlite_text(query, 0, 0, NULL), "tea");
        CU_ASSERT_EQUAL(weir_sqlite_int64(query, 0, 1), 350);
        query = weir_sqlite_query_new(db, "SELECT", NULL, NULL);
        CU_ASSERT_EQUAL(weir_await(query), -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_sqlite_problem(query), "incomplete input"));
        ++*(int *)context;
        return failed;
}

static void
a_fiber_awaits_rows(void)
{
        int calls = 0;

        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(weir_task_run(weir_fiber_new(await_rows, NULL, &calls)), 0);
        CU_ASSERT_EQUAL(calls, 1);
        sqlite_end(db);
}

static void
free_context(void *context)
{
        ++*(_Atomic int *)context;
}

static void
the_context_stays_the_programs(void)
{
        _Atomic int frees = 0;

        db = sqlite_begin(NULL);
        weir_task *query = weir_sqlite_query_new(db, "SELECT 1", NULL, NULL);
        weir_task_set_context(query, (void *)&frees, free_context);
        CU_ASSERT_EQUAL(weir_task_run(query), 0);
        CU_ASSERT_EQUAL(frees, 1);
        query = weir_sqlite_query_new(db, "SELECT 1", NULL, NULL);
        weir_task_set_context(query, (void *)&frees, free_context);
        weir_task_dismiss(query);
        CU_ASSERT_EQUAL(frees, 2);
        sqlite_end(db);
}

static void
thousands_of_reads_and_writes_go_side_by_side(void)
{
        enum { TASKS = 4000 };
        struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;

        db = sqlite_begin(NULL);
        sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY)");
        weir_task *all = weir_parallel_new(NULL, NULL);
        for (int i = 0; i < TASKS; i++) {
                weir_task *task = i % 2 ? weir_sqlite_query_new(db, "SELECT count(*), max(a) FROM t WHERE a > ?", NULL, NULL)
                                        : weir_sqlite_exec_new(db, "INSERT INTO t VALUES (?)", NULL, NULL);
                weir_sqlite_bind_int64(task, 1, i);
                weir_parallel_add(all, task);
        }
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), TASKS / 2);
        weir_sqlite_stats(db, &stats);
        CU_ASSERT_EQUAL(stats.writes, TASKS / 2 + 1);
        CU_ASSERT_EQUAL(stats.reads, TASKS / 2 + 1);
        CU_ASSERT(stats.connections >= 2 && stats.connections <= 5);
        CU_ASSERT(stats.committing > 0);
        sqlite_end(db);
}

static _Atomic bool has_run;

static void
run_beside(void *context)
{
        (void)context;
        has_run = true;
}

/* The executor has one thread. */
static void
a_long_query_does_not_hold_up_other_functions(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;
        _Atomic int status = 1;

        config.compute_threads = 1;
        CU_ASSERT_EQUAL(weir_init(&config), 0);
        sqlite_make_directory();
        db = weir_sqlite_new(sqlite_path, NULL);
        CU_ASSERT_EQUAL(sqlite_exec(db, "CREATE TABLE t(a)"), 0);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_waitgroup *group = weir_waitgroup_new();
        weir_series_push(series, weir_sqlite_query_new(db,
                                                       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                                                       "SELECT count(*) FROM n",
                                                       keep_status, (void *)&status));
        weir_series_start_waited(series, group);
        WEIR_TEST_EVENTUALLY((weir_sqlite_stats(db, &stats), stats.busy == 1));
        has_run = false;
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, run_beside, NULL, NULL)), 0);
        CU_ASSERT(has_run);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (1)"), 0);
        CU_ASSERT_EQUAL(status, 1);
        weir_series_cancel(series);
        weir_waitgroup_wait(group, WEIR_FOREVER);
        weir_waitgroup_free(group);
        weir_series_unref(series);
        CU_ASSERT_EQUAL(status, -ECANCELED);
        sqlite_end(db);
}

/* -- what can be seen -- */

static char seen[32768];

static void
look(int (*write_to)(int fd))
{
        FILE *file = tmpfile();

        CU_ASSERT_EQUAL(write_to(fileno(file)), 0);
        rewind(file);
        seen[fread(seen, 1, sizeof seen - 1, file)] = '\0';
        fclose(file);
}

static void
dumps_and_metrics_tell_what_waits(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        _Atomic int steps, status = 1;

        config.name = "the \"orders\"";
        db = sqlite_begin(&config);
        sqlite_exec(db, "CREATE TABLE t(a)");
        weir_waitgroup *group = weir_waitgroup_new();
        stop_writer(&steps, NULL, group);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_sqlite_exec_new(db, "INSERT INTO t VALUES (2)", keep_status, (void *)&status));
        weir_series_start_waited(series, group);
        look(weir_debug_dump);
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "\"INSERT INTO t VALUES (2)\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "the \"orders\", 1 of 1 busy, 1 wait"));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "a function that writes"));
        look(weir_sqlite_metrics_write);
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "# TYPE weir_sqlite_commits_total counter\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "weir_sqlite_waiting_writes{database=\"the \\\"orders\\\"\"} 1\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "weir_sqlite_commits_total{database=\"the \\\"orders\\\"\"} 1\n"));
        weir_sqlite *same = weir_sqlite_new(":memory:", &config);
        look(weir_sqlite_metrics_write);
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "weir_sqlite_waiting_writes{database=\"the \\\"orders\\\"\"} 1\n"));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "weir_sqlite_waiting_writes{database=\"the \\\"orders\\\"#2\"} 0\n"));
        weir_sqlite_unref(same);
        steps = 2;
        weir_waitgroup_wait(group, WEIR_FOREVER);
        weir_waitgroup_free(group);
        struct weir_sqlite_stats stats = {.size = 1};
        CU_ASSERT_EQUAL(weir_sqlite_stats(db, &stats), -EINVAL);
        CU_ASSERT_EQUAL(weir_sqlite_stats(db, NULL), -EINVAL);
        stats.size = sizeof stats;
        CU_ASSERT_EQUAL(weir_sqlite_stats(NULL, &stats), -ENOMEM);
        CU_ASSERT_EQUAL(weir_sqlite_metrics_write(-1), -EBADF);
        sqlite_end(db);
}

/* -- killed -- */

/* Says each number whose insert has reported success. */
static void
say(weir_task *insert, void *context)
{
        int number = (int)(intptr_t)context;

        if (weir_task_status(insert) == 0 && write(3, &number, sizeof number) != sizeof number)
                _exit(1);
}

static void
write_until_killed(int pipe)
{
        dup2(pipe, 3);
        weir_test_begin_real(2);
        weir_sqlite *database = weir_sqlite_new(sqlite_path, NULL);
        sqlite_exec(database, "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY)");
        for (int i = (int)sqlite_number(database, "SELECT coalesce(max(a), 0) + 1 FROM t");; i += 10) {
                weir_task *all = weir_parallel_new(NULL, NULL);

                for (int j = i; j < i + 10; j++) {
                        weir_task *insert = weir_sqlite_exec_new(database, "INSERT INTO t VALUES (?)", say, (void *)(intptr_t)j);
                        weir_sqlite_bind_int64(insert, 1, j);
                        weir_parallel_add(all, insert);
                }
                if (weir_task_run(all))
                        _exit(2);
        }
}

/* Of the numbers that come up to the end, how many are not in the file.  *count is how many have come. */
static int
count_missing(int pipe, const int *numbers, int *count)
{
        sqlite3 *other;
        sqlite3_stmt *find = NULL;
        int number, missing = 0;

        CU_ASSERT_EQUAL(sqlite3_open(sqlite_path, &other), SQLITE_OK);
        sqlite3_prepare_v2(other, "SELECT 1 FROM t WHERE a = ?", -1, &find, NULL); /* there may be no table yet */
        for (int i = 0; i < *count || read(pipe, &number, sizeof number) == sizeof number; i++) {
                if (i < *count)
                        number = numbers[i];
                else
                        ++*count;
                sqlite3_bind_int(find, 1, number);
                missing += !find || sqlite3_step(find) != SQLITE_ROW;
                sqlite3_reset(find);
        }
        sqlite3_finalize(find);
        sqlite3_close(other);
        return missing;
}

/* In each round the child is killed when it has said so many numbers, and a little later. */
static void
what_reported_success_outlives_a_kill(void)
{
        unsigned seed = 7;

        sqlite_make_directory();
        for (int round = 0; round < 60; round++) {
                int ends[2], numbers[60], status = 0, count = 0;

                CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
                pid_t child = fork(); /* nothing of weir runs here */
                if (child == 0) {
                        close(ends[0]);
                        write_until_killed(ends[1]);
                }
                close(ends[1]);
                while (count < round && read(ends[0], &numbers[count], sizeof *numbers) == sizeof *numbers)
                        count++;
                CU_ASSERT_EQUAL(count, round);
                weir_test_sleep(rand_r(&seed) % 3000000);
                kill(child, SIGKILL);
                waitpid(child, &status, 0);
                CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
                CU_ASSERT_EQUAL(count_missing(ends[0], numbers, &count), 0);
                close(ends[0]);
        }
        sqlite_remove_directory();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_reported_success_outlives_a_kill),
                WEIR_TEST(a_close_waits_for_what_had_started_and_refuses_the_rest),
                WEIR_TEST(tasks_keep_their_database),
                WEIR_TEST(a_shutdown_ends_what_waits_and_undoes_what_runs),
                WEIR_TEST(a_child_of_fork_has_no_databases),
                WEIR_TEST(more_than_may_wait_are_refused),
                WEIR_TEST(connections_are_prepared_when_they_are_opened),
                WEIR_TEST(a_connection_is_not_prepared_by_a_pragma_of_the_library),
                WEIR_TEST(a_connection_that_would_not_read_only_is_not_used),
                WEIR_TEST(a_connection_that_cannot_be_prepared_has_the_words_of_sqlite),
                WEIR_TEST(order_holds_in_a_series),
                WEIR_TEST(a_fiber_awaits_rows),
                WEIR_TEST(the_context_stays_the_programs),
                WEIR_TEST(thousands_of_reads_and_writes_go_side_by_side),
                WEIR_TEST(a_long_query_does_not_hold_up_other_functions),
                WEIR_TEST(dumps_and_metrics_tell_what_waits),
        };

        return weir_test_main("sqlite life", tests, sizeof tests / sizeof *tests);
}
