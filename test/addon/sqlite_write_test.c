/* test/addon/sqlite_write_test.c: writes that share a transaction, functions of the program, and cancels at every moment. */
#include "test/addon/sqlite.h"

static weir_sqlite *db;

static void
begin(void)
{
        db = sqlite_begin(NULL);
        CU_ASSERT_EQUAL(sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY)"), 0);
}

/* -- a writer that can be stopped -- */

/* A write that waits until it is let go: what comes meanwhile shares the next transaction. */
struct gate {
        _Atomic bool has_begun, is_open, has_ended;
        _Atomic int calls;
};

static int
wait_at_gate(weir_sqlite_connection *connection, void *context)
{
        struct gate *gate = context;

        (void)connection;
        gate->has_begun = true;
        gate->calls++;
        while (!gate->is_open)
                weir_test_sleep(100000);
        return 0;
}

static void
close_gate(struct gate *gate, weir_waitgroup *group)
{
        *gate = (struct gate){0};
        weir_task_start_waited(weir_sqlite_write_new(db, wait_at_gate, NULL, gate), group);
        WEIR_TEST_EVENTUALLY(gate->has_begun);
}

static void
end_all(weir_waitgroup *group)
{
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        weir_waitgroup_free(group);
}

static void
keep_status(weir_task *task, void *context)
{
        *(_Atomic int *)context = weir_task_status(task);
}

static struct {
        int status, code;
        char problem[300];
} outcome;

static void
keep_outcome(weir_task *task, void *context)
{
        const char *words = weir_sqlite_problem(task);

        (void)context;
        outcome.status = weir_task_status(task);
        outcome.code = weir_sqlite_code(task);
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(outcome.problem, sizeof outcome.problem, "%s", words ? words : "");
}

static weir_task *
insert_new(int64_t number, _Atomic int *status)
{
        weir_task *insert = weir_sqlite_exec_new(db, "INSERT INTO t VALUES (?)", keep_status, (void *)status);

        *status = 1;
        weir_sqlite_bind_int64(insert, 1, number);
        return insert;
}

static int64_t
has(int64_t number)
{
        char sql[80];

        snprintf(sql, sizeof sql, "SELECT count(*) FROM t WHERE a = %" PRId64, number);
        return sqlite_number(db, sql);
}

/* -- groups -- */

static void
writes_that_wait_share_a_transaction_and_one_that_fails_is_undone_alone(void)
{
        struct weir_sqlite_stats before = WEIR_SQLITE_STATS_DEFAULT, after = WEIR_SQLITE_STATS_DEFAULT;
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        static _Atomic int statuses[500];
        struct gate gate;

        config.group_limit = WEIR_FOREVER; /* however long the gate is closed, and the writes take */
        db = sqlite_begin(&config);
        sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY)");
        weir_sqlite_stats(db, &before);
        weir_waitgroup *group = weir_waitgroup_new();
        close_gate(&gate, group);
        for (int i = 0; i < 500; i++)
                weir_task_start_waited(insert_new(i % 100 == 50 ? 7 : i, &statuses[i]), group);
        weir_sqlite_stats(db, &after);
        CU_ASSERT_EQUAL(after.waiting_writes, 500);
        CU_ASSERT_EQUAL(after.busy, 1);
        gate.is_open = true;
        end_all(group);
        for (int i = 0; i < 500; i++)
                CU_ASSERT_EQUAL(statuses[i], i % 100 == 50 ? -EEXIST : 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 495);
        weir_sqlite_stats(db, &after);
        CU_ASSERT_EQUAL(after.commits - before.commits, 1);
        CU_ASSERT_EQUAL(after.writes - before.writes, 496);
        CU_ASSERT_EQUAL(after.failed, 5);
        CU_ASSERT_EQUAL(after.waiting_writes, 0);
        sqlite_end(db);
}

static void
a_group_has_a_size(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        struct weir_sqlite_stats before = WEIR_SQLITE_STATS_DEFAULT, after = WEIR_SQLITE_STATS_DEFAULT;
        static _Atomic int statuses[100];
        struct gate gate;

        config.group = 10;
        config.group_limit = WEIR_FOREVER;
        db = sqlite_begin(&config);
        sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY)");
        weir_sqlite_stats(db, &before);
        weir_waitgroup *group = weir_waitgroup_new();
        close_gate(&gate, group);
        for (int i = 0; i < 99; i++)
                weir_task_start_waited(insert_new(i, &statuses[i]), group);
        gate.is_open = true;
        end_all(group);
        weir_sqlite_stats(db, &after);
        CU_ASSERT_EQUAL(after.commits - before.commits, 10);
        sqlite_end(db);
}

static void
a_rollback_by_a_statement_leaves_the_others(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        _Atomic int statuses[4];
        struct gate gate;

        config.group_limit = WEIR_FOREVER; /* however long the gate is closed, all share its transaction */
        db = sqlite_begin(&config);
        sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY)");
        sqlite_exec(db, "INSERT INTO t VALUES (1)");
        weir_waitgroup *group = weir_waitgroup_new();
        close_gate(&gate, group);
        weir_task_start_waited(insert_new(10, &statuses[0]), group);
        weir_task_start_waited(
                weir_sqlite_exec_new(db, "INSERT OR ROLLBACK INTO t VALUES (1)", keep_status, (void *)&statuses[1]), group);
        weir_task_start_waited(insert_new(11, &statuses[2]), group);
        weir_task_start_waited(
                weir_sqlite_exec_new(db, "INSERT OR FAIL INTO t VALUES (12), (1), (13)", keep_status, (void *)&statuses[3]),
                group);
        gate.is_open = true;
        end_all(group);
        CU_ASSERT_EQUAL(statuses[0], 0);
        CU_ASSERT_EQUAL(statuses[1], -EEXIST);
        CU_ASSERT_EQUAL(statuses[2], 0);
        CU_ASSERT_EQUAL(statuses[3], -EEXIST);
        CU_ASSERT_EQUAL(gate.calls, 2); /* in the transaction that was rolled back, and in the next one */
        CU_ASSERT_EQUAL(has(10) + has(11), 2);
        CU_ASSERT_EQUAL(has(12) + has(13), 0);
        sqlite_end(db);
}

/* Steps of a function, of which some are refused.  It does not say so. */
static int
go_on_regardless(weir_sqlite_connection *connection, void *context)
{
        for (const char *const *sql = context; *sql; sql++)
                weir_sqlite_run(connection, *sql);
        return 0;
}

/* SQLite rolls the transaction back, and the function goes on: in no transaction, or in one of its own. */
static void
what_a_function_writes_behind_a_rollback_is_refused(void)
{
        static const char *const plain[] = {"INSERT OR ROLLBACK INTO t VALUES (1)", "INSERT INTO t VALUES (20)", NULL};
        static const char *const released[] = {"INSERT OR ROLLBACK INTO t VALUES (1)", "SAVEPOINT item",
                                               "INSERT INTO t VALUES (20)", "RELEASE item", NULL};
        static const char *const left_open[] = {"INSERT OR ROLLBACK INTO t VALUES (1)", "SAVEPOINT item",
                                                "INSERT INTO t VALUES (20)", NULL};
        static const char *const *const functions[] = {plain, released, left_open};

        for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
                struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
                _Atomic int statuses[3];
                struct gate gate;

                config.group_limit = WEIR_FOREVER;
                db = sqlite_begin(&config);
                sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY)");
                sqlite_exec(db, "INSERT INTO t VALUES (1)");
                weir_waitgroup *group = weir_waitgroup_new();
                close_gate(&gate, group);
                weir_task_start_waited(insert_new(10, &statuses[0]), group);
                weir_task *write = weir_sqlite_write_new(db, go_on_regardless, keep_outcome, (void *)(uintptr_t)functions[i]);
                weir_task_start_waited(write, group);
                weir_task_start_waited(insert_new(11, &statuses[2]), group);
                gate.is_open = true;
                end_all(group);
                CU_ASSERT_EQUAL(statuses[0], 0);
                CU_ASSERT_EQUAL(outcome.status, -EINVAL);
                CU_ASSERT_EQUAL(outcome.code, SQLITE_ABORT_ROLLBACK);
                CU_ASSERT_STRING_EQUAL(outcome.problem, "test.db: SQLite has rolled back, and the function went on");
                CU_ASSERT_EQUAL(statuses[2], 0);
                CU_ASSERT_EQUAL(has(10) + has(11), 2);
                CU_ASSERT_EQUAL(has(20), 0);
                sqlite_end(db);
        }
}

static int
use_foreign_keys(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, "PRAGMA foreign_keys=ON; CREATE TABLE t(a INTEGER PRIMARY KEY);"
                                           "CREATE TABLE child(a REFERENCES t(a) DEFERRABLE INITIALLY DEFERRED)");
}

static int
insert_child_first(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        return weir_sqlite_run(connection, "INSERT INTO child VALUES (9); INSERT INTO t VALUES (9)");
}

static void
a_deferred_constraint_fails_its_own_write_alone(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        _Atomic int statuses[4];
        struct gate gate;

        config.on_writer = use_foreign_keys;
        db = sqlite_begin(&config);
        weir_waitgroup *group = weir_waitgroup_new();
        close_gate(&gate, group);
        weir_task_start_waited(insert_new(1, &statuses[0]), group);
        weir_task_start_waited(weir_sqlite_exec_new(db, "INSERT INTO child VALUES (5)", keep_status, (void *)&statuses[1]),
                               group);
        weir_task_start_waited(insert_new(2, &statuses[2]), group);
        weir_task_start_waited(weir_sqlite_write_new(db, insert_child_first, NULL, NULL), group);
        gate.is_open = true;
        end_all(group);
        CU_ASSERT_EQUAL(statuses[0], 0);
        CU_ASSERT_EQUAL(statuses[1], -EPERM);
        CU_ASSERT_EQUAL(statuses[2], 0);
        CU_ASSERT_EQUAL(has(1) + has(2) + has(9), 3);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM child"), 1);
        sqlite_end(db);
}

static void
alone_is_what_must_not_be_in_a_transaction(void)
{
        _Atomic int statuses[3];
        struct gate gate;

        begin();
        weir_waitgroup *group = weir_waitgroup_new();
        close_gate(&gate, group);
        weir_task_start_waited(insert_new(1, &statuses[0]), group);
        weir_task_start_waited(weir_sqlite_exec_alone_new(db, "VACUUM", keep_status, (void *)&statuses[1]), group);
        weir_task_start_waited(insert_new(2, &statuses[2]), group);
        gate.is_open = true;
        end_all(group);
        CU_ASSERT_EQUAL(statuses[0], 0);
        CU_ASSERT_EQUAL(statuses[1], 0);
        CU_ASSERT_EQUAL(statuses[2], 0);
        CU_ASSERT_EQUAL(sqlite_exec(db, "VACUUM"), -EINVAL);
        CU_ASSERT_EQUAL(has(1) + has(2), 2);
        sqlite_end(db);
}

/* -- functions -- */

static int
insert_two(weir_sqlite_connection *connection, void *context)
{
        const int *number = context;
        sqlite3_stmt *insert = weir_sqlite_prepare(connection, "INSERT INTO t VALUES (?)");

        for (int i = 0; i < 2; i++) {
                sqlite3_reset(insert);
                sqlite3_bind_int(insert, 1, *number + i);
                if (sqlite3_step(insert) != SQLITE_DONE)
                        return sqlite3_extended_errcode(weir_sqlite_handle(connection));
        }
        return *number == 20 ? -EDOM : 0;
}

static int
misbehave(weir_sqlite_connection *connection, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_sqlite_run(connection, "INSERT INTO t VALUES (77)"), 0);
        CU_ASSERT_EQUAL(weir_sqlite_run(connection, "COMMIT"), SQLITE_AUTH);
        CU_ASSERT_EQUAL(weir_sqlite_run(connection, "SAVEPOINT a; INSERT INTO t VALUES (78); ROLLBACK TO a; RELEASE a"), 0);
        CU_ASSERT_PTR_NULL(weir_sqlite_prepare(connection, "SELECT nothing"));
        CU_ASSERT_PTR_NULL(weir_sqlite_prepare(connection, NULL));
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), -EDEADLK);
        return SQLITE_DONE;
}

static char problem[300];

static void
keep_problem(weir_task *task, void *context)
{
        const char *words = weir_sqlite_problem(task);

        (void)context;
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(problem, sizeof problem, "%s", words ? words : "");
}

static void
a_function_writes_all_or_nothing(void)
{
        static int numbers[] = {10, 20, 9};

        begin();
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(db, insert_two, NULL, &numbers[0])), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(db, insert_two, NULL, &numbers[1])), -EDOM);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(db, insert_two, keep_problem, &numbers[2])), -EEXIST);
        CU_ASSERT_STRING_EQUAL(problem, "test.db: UNIQUE constraint failed: t.a");
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(db, misbehave, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT group_concat(a) = '10,11,77' FROM (SELECT a FROM t ORDER BY a)"), 1);
        sqlite_end(db);
}

static int
count_twice(weir_sqlite_connection *connection, void *context)
{
        struct gate *gate = context;
        int counts[2];

        for (int i = 0; i < 2; i++) {
                sqlite3_stmt *count = weir_sqlite_prepare(connection, "SELECT count(*) FROM t");
                CU_ASSERT_EQUAL(sqlite3_step(count), SQLITE_ROW);
                counts[i] = sqlite3_column_int(count, 0);
                sqlite3_reset(count);
                gate->has_begun = true;
                while (!gate->is_open)
                        weir_test_sleep(100000);
        }
        CU_ASSERT_EQUAL(weir_sqlite_run(connection, "INSERT INTO t VALUES (5)") & 0xff, SQLITE_READONLY);
        return counts[0] == 0 && counts[1] == 0 ? 0 : -EDOM;
}

/* Takes a savepoint of the library's name, whose end it leaves open. */
static int
write_between_savepoints(weir_sqlite_connection *connection, void *context)
{
        int failed = weir_sqlite_run(connection, "INSERT INTO t VALUES (1)");
        int open = weir_sqlite_run(connection, context);

        CU_ASSERT_EQUAL(open, SQLITE_AUTH);
        return failed ? failed : -EDOM;
}

static void
a_function_does_not_get_at_the_savepoint_of_its_write(void)
{
        static const char *const texts[] = {"SAVEPOINT weir__write", "savepoint WEIR__WRITE", "RELEASE weir__write",
                                            "ROLLBACK TO weir__write"};

        begin();
        for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
                weir_task *write = weir_sqlite_write_new(db, write_between_savepoints, NULL, (void *)(uintptr_t)texts[i]);

                CU_ASSERT_EQUAL(weir_task_run(write), -EDOM);
                CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0);
        }
        sqlite_end(db);
}

static void
a_function_that_reads_sees_one_state(void)
{
        struct gate gate = {0};

        begin();
        weir_waitgroup *group = weir_waitgroup_new();
        _Atomic int status = 1;
        weir_task *read = weir_sqlite_read_new(db, count_twice, NULL, &gate);
        weir_task_start_waited(read, group);
        WEIR_TEST_EVENTUALLY(gate.has_begun);
        CU_ASSERT_EQUAL(weir_task_run(insert_new(1, &status)), 0);
        gate.is_open = true;
        end_all(group);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_read_new(db, count_twice, NULL, &gate)), -EDOM);
        sqlite_end(db);
}

static sqlite3_stmt *left;

static int
leave_under_way(weir_sqlite_connection *connection, void *sql)
{
        CU_ASSERT_EQUAL(sqlite3_prepare_v2(weir_sqlite_handle(connection), sql, -1, &left, NULL), SQLITE_OK);
        return sqlite3_step(left);
}

static int
finalize_it(weir_sqlite_connection *connection, void *context)
{
        (void)connection, (void)context;
        return sqlite3_finalize(left);
}

/* A statement of a function's own keeps neither a transaction open nor the state that it has read. */
static void
a_function_leaves_no_statement_under_way(void)
{
        static char insert[] = "INSERT INTO t VALUES (30), (31) RETURNING a", count[] = "SELECT a FROM t";
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        _Atomic int statuses[3] = {1, 1, 1};
        struct gate gate;

        config.group_limit = WEIR_FOREVER;
        config.readers = 1;
        db = sqlite_begin(&config);
        sqlite_exec(db, "CREATE TABLE t(a INTEGER PRIMARY KEY)");
        weir_waitgroup *group = weir_waitgroup_new();
        close_gate(&gate, group);
        weir_task_start_waited(insert_new(10, &statuses[0]), group);
        weir_task_start_waited(weir_sqlite_write_new(db, leave_under_way, keep_outcome, insert), group);
        weir_task_start_waited(insert_new(11, &statuses[2]), group);
        gate.is_open = true;
        end_all(group);
        CU_ASSERT_EQUAL(statuses[0], 0);
        CU_ASSERT_EQUAL(outcome.status, 0);
        CU_ASSERT_EQUAL(statuses[2], 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 4);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_write_new(db, finalize_it, NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_read_new(db, leave_under_way, NULL, count)), 0);
        CU_ASSERT_EQUAL(sqlite_exec(db, "INSERT INTO t VALUES (12)"), 0);
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 5);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_read_new(db, finalize_it, NULL, NULL)), 0);
        sqlite_end(db);
}

/* -- cancels -- */

#define ENDLESS "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

static void
a_write_that_waits_is_cancelled_and_never_happens(void)
{
        _Atomic int statuses[2];
        struct gate gate;

        begin();
        weir_waitgroup *group = weir_waitgroup_new();
        close_gate(&gate, group);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, insert_new(1, &statuses[0]));
        weir_series_push(series, insert_new(2, &statuses[1]));
        weir_waitgroup *cancelled = weir_waitgroup_new();
        weir_series_start_waited(series, cancelled);
        weir_series_cancel(series);
        end_all(cancelled); /* although the writer is stopped */
        CU_ASSERT_EQUAL(statuses[0], -ECANCELED);
        CU_ASSERT_EQUAL(statuses[1], 1);
        gate.is_open = true;
        end_all(group);
        CU_ASSERT_EQUAL(has(1) + has(2), 0);
        weir_series_unref(series);
        sqlite_end(db);
}

static void
what_runs_is_interrupted(void)
{
        static const char *const sql[] = {ENDLESS, "INSERT INTO t " ENDLESS, "INSERT INTO t " ENDLESS};

        begin();
        for (int i = 0; i < 3; i++) {
                struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;
                _Atomic int status = 1;
                weir_task *task = i == 0   ? weir_sqlite_query_new(db, sql[i], keep_status, (void *)&status)
                                  : i == 1 ? weir_sqlite_exec_new(db, sql[i], keep_status, (void *)&status)
                                           : weir_sqlite_exec_alone_new(db, sql[i], keep_status, (void *)&status);
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_waitgroup *group = weir_waitgroup_new();

                weir_series_push(series, task);
                weir_series_start_waited(series, group);
                WEIR_TEST_EVENTUALLY((weir_sqlite_stats(db, &stats), stats.busy == 1));
                weir_test_sleep(2000000);
                weir_series_cancel(series);
                end_all(group);
                CU_ASSERT_EQUAL(status, -ECANCELED);
                weir_series_unref(series);
                WEIR_TEST_EVENTUALLY((weir_sqlite_stats(db, &stats), stats.busy == 0));
                CU_ASSERT_EQUAL(stats.cancelled, (uint64_t)i + 1);
        }
        CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0);
        sqlite_end(db);
}

static void
an_interrupt_leaves_the_others_of_the_transaction(void)
{
        _Atomic int statuses[3];
        struct gate gate;

        begin();
        weir_waitgroup *group = weir_waitgroup_new();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        close_gate(&gate, group);
        weir_task_start_waited(insert_new(1, &statuses[0]), group);
        weir_series_push(series, weir_sqlite_exec_new(db, "INSERT INTO t " ENDLESS, keep_status, (void *)&statuses[1]));
        weir_series_start_waited(series, group);
        weir_task_start_waited(insert_new(2, &statuses[2]), group);
        gate.is_open = true;
        struct weir_sqlite_stats stats = WEIR_SQLITE_STATS_DEFAULT;
        WEIR_TEST_EVENTUALLY((weir_sqlite_stats(db, &stats), stats.waiting_writes == 1)); /* the endless one runs */
        weir_test_sleep(1000000);
        weir_series_cancel(series);
        end_all(group);
        CU_ASSERT_EQUAL(statuses[0], 0);
        CU_ASSERT_EQUAL(statuses[1], -ECANCELED);
        CU_ASSERT_EQUAL(statuses[2], 0);
        CU_ASSERT_EQUAL(has(1) + has(2), 2);
        weir_series_unref(series);
        sqlite_end(db);
}

static int
write_for_ever(weir_sqlite_connection *connection, void *context)
{
        struct gate *gate = context;
        int code = weir_sqlite_run(connection, "INSERT INTO t VALUES (1)");

        gate->has_begun = true;
        CU_ASSERT_EQUAL(code, 0);
        code = weir_sqlite_run(connection, ENDLESS);
        CU_ASSERT_EQUAL(code, SQLITE_INTERRUPT);
        CU_ASSERT_EQUAL(weir_sqlite_run(connection, "INSERT INTO t " ENDLESS), SQLITE_INTERRUPT); /* SQLite rolls back */
        CU_ASSERT_EQUAL(weir_sqlite_run(connection, "INSERT INTO t VALUES (2)"), SQLITE_CONSTRAINT_COMMITHOOK);
        CU_ASSERT_EQUAL(weir_sqlite_run(connection, "SAVEPOINT item; INSERT INTO t VALUES (3)"), 0);
        gate->calls++;
        return 0; /* as if nothing had been */
}

static void
a_function_that_is_cancelled_is_undone_whatever_it_returns(void)
{
        for (int reads = 0; reads < 2; reads++) {
                struct gate gate = {0};

                begin();
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_waitgroup *group = weir_waitgroup_new();
                weir_series_push(series, weir_sqlite_write_new(db, write_for_ever, NULL, &gate));
                weir_series_start_waited(series, group);
                WEIR_TEST_EVENTUALLY(gate.has_begun);
                if (reads)
                        weir_series_set_deadline(series, WEIR_MSEC(5));
                else
                        weir_series_cancel(series);
                end_all(group);
                CU_ASSERT_EQUAL(gate.calls, 1); /* it had returned when its task ended */
                CU_ASSERT_EQUAL(weir_series_status(series), reads ? -ETIMEDOUT : -ECANCELED);
                CU_ASSERT_EQUAL(sqlite_number(db, "SELECT count(*) FROM t"), 0);
                weir_series_unref(series);
                sqlite_end(db);
        }
}

static void
note_end_of_gate(weir_task *write, void *gate)
{
        (void)write;
        ((struct gate *)gate)->has_ended = true;
}

/* The gate has the limit, too: on a slow machine it may be over before the gate is closed. */
static void
close_gate_in_time(struct gate *gate, weir_waitgroup *group)
{
        do {
                *gate = (struct gate){0};
                weir_task_start_waited(weir_sqlite_write_new(db, wait_at_gate, note_end_of_gate, gate), group);
                WEIR_TEST_EVENTUALLY(gate->has_begun || gate->has_ended);
        } while (!gate->has_begun);
}

static void
the_limit_of_the_config_ends_what_waits_and_what_runs(void)
{
        struct weir_sqlite_config config = WEIR_SQLITE_CONFIG_DEFAULT;
        static _Atomic int status;
        struct gate gate;

        begin();
        weir_sqlite *unlimited = db;
        config.limit = WEIR_MSEC(300);
        db = weir_sqlite_new(sqlite_path, &config);
        weir_waitgroup *group = weir_waitgroup_new(), *behind = weir_waitgroup_new();
        close_gate_in_time(&gate, group);
        weir_task_start_waited(insert_new(1, &status), behind);
        end_all(behind);
        CU_ASSERT_EQUAL(status, -ETIMEDOUT);
        gate.is_open = true;
        end_all(group);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_query_new(db, ENDLESS, NULL, NULL)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_new(db, "INSERT INTO t " ENDLESS, NULL, NULL)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_exec_alone_new(db, "INSERT INTO t " ENDLESS, NULL, NULL)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(sqlite_number(unlimited, "SELECT count(*) FROM t"), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_sqlite_close_new(db, NULL, NULL)), 0);
        weir_sqlite_unref(db);
        sqlite_end(unlimited);
}

/* A cancel at any moment: what reports success is there, and nothing else. */
static void *
cancel_later(void *context)
{
        weir_series *series = context;
        static _Atomic unsigned turn;
        unsigned spins = turn++ * 7919 % 40000;

        for (volatile unsigned i = 0; i < spins; i++) {
        }
        weir_series_cancel(series);
        weir_series_unref(series);
        return NULL;
}

static void
what_reports_success_is_there_and_nothing_else(void)
{
        enum { ROUNDS = 400 };
        static _Atomic int statuses[ROUNDS];
        int counts[2] = {0};

        begin();
        for (int i = 0; i < ROUNDS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_waitgroup *group = weir_waitgroup_new();
                pthread_t thread;

                weir_series_push(series, insert_new(i, &statuses[i]));
                pthread_create(&thread, NULL, cancel_later, weir_series_ref(series));
                weir_series_start_waited(series, group);
                pthread_join(thread, NULL);
                end_all(group);
                weir_series_unref(series);
        }
        for (int i = 0; i < ROUNDS; i++) {
                CU_ASSERT(statuses[i] == 0 || statuses[i] == -ECANCELED || statuses[i] == 1);
                CU_ASSERT_EQUAL(has(i), statuses[i] == 0);
                counts[statuses[i] == 0]++;
        }
        CU_ASSERT_EQUAL(counts[0] + counts[1], ROUNDS);
        sqlite_end(db);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(writes_that_wait_share_a_transaction_and_one_that_fails_is_undone_alone),
                WEIR_TEST(a_group_has_a_size),
                WEIR_TEST(a_rollback_by_a_statement_leaves_the_others),
                WEIR_TEST(what_a_function_writes_behind_a_rollback_is_refused),
                WEIR_TEST(a_deferred_constraint_fails_its_own_write_alone),
                WEIR_TEST(alone_is_what_must_not_be_in_a_transaction),
                WEIR_TEST(a_function_writes_all_or_nothing),
                WEIR_TEST(a_function_does_not_get_at_the_savepoint_of_its_write),
                WEIR_TEST(a_function_that_reads_sees_one_state),
                WEIR_TEST(a_function_leaves_no_statement_under_way),
                WEIR_TEST(a_write_that_waits_is_cancelled_and_never_happens),
                WEIR_TEST(what_runs_is_interrupted),
                WEIR_TEST(an_interrupt_leaves_the_others_of_the_transaction),
                WEIR_TEST(a_function_that_is_cancelled_is_undone_whatever_it_returns),
                WEIR_TEST(the_limit_of_the_config_ends_what_waits_and_what_runs),
                WEIR_TEST(what_reports_success_is_there_and_nothing_else),
        };

        return weir_test_main("sqlite writes", tests, sizeof tests / sizeof *tests);
}
