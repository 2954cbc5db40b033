/* test/addon/mariadb_transaction_test.c: transactions: what is committed or rolled back, and their connections. */
#include "test/addon/mariadb_server.h"
#include "test/addon/sql_transaction.h"

static void
its_steps_are_committed_together(void)
{
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (1, 10)", "INSERT INTO accounts VALUES (2, 20)"}};

        empty_table();
        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(run_plan(pool, &plan), 0);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "2");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        WEIR_TEST_EVENTUALLY(server_stats(pool).idle == 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_step_that_fails_rolls_back(void)
{
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (1, 10)", "INSERT INTO accounts VALUES (1, 20)",
                                        "INSERT INTO accounts VALUES (3, 20)"},
                            .should_keep = true};

        empty_table();
        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(run_plan(pool, &plan), -EEXIST);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_mariadb_transaction_problem(plan.kept), "Duplicate entry"));
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(plan.kept, "SELECT 1", NULL, NULL)), -EPIPE); /* it is over */
        weir_mariadb_unref(plan.kept);
        CU_ASSERT_PTR_NULL(weir_mariadb_transaction_problem(NULL));
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* The program goes on in a series of its own, which does not stop the steps. */
static void
ignore_failures(weir_mariadb *transaction, weir_series *series, void *context)
{
        weir_series *own = weir_series_new(NULL, NULL);

        (void)context;
        weir_series_push(own, weir_mariadb_query_new(transaction, "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213", NULL, NULL));
        weir_series_push(series, weir_module_new(own, NULL, NULL));
}

static void
a_deadlock_that_is_ignored_is_told_at_commit(void)
{
        struct plan plan = {.queries = {NULL}};

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new(pool, ignore_failures, on_end, &plan)), -ENOTRECOVERABLE);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
a_deadline_within_a_query_rolls_back(void)
{
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (1, 10)", "SELECT sleep(604)"}};

        empty_table();
        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        int status = weir_task_run(weir_timeout_new(weir_mariadb_transaction_new(pool, push_steps, on_end, &plan), WEIR_SEC(1)));
        CU_ASSERT_EQUAL(status, -ETIMEDOUT);
        WEIR_TEST_EVENTUALLY(server_stats(pool).idle == 1);
        WEIR_TEST_EVENTUALLY(server_runs("sleep(604)") == 0);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 2);
        weir_mariadb_unref(pool);
        weir_test_end();
}

/* COMMIT lasts as long as somebody has all tables locked for reading.  Returns whether it is committed. */
static int
cancel_at_commit(bool should_let_go)
{
        struct weir_mariadb_config config = WEIR_MARIADB_CONFIG_DEFAULT;
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (7, 1)", SERVER_WAITS}, .should_keep = true};

        empty_table();
        MYSQL *gate = server_shut_gate();
        weir_test_begin_real(2);
        config.connections = 1;
        config.clean_limit = should_let_go ? WEIR_SEC(60) : WEIR_MSEC(200);
        weir_mariadb *pool = weir_mariadb_new(server_url(false), &config);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_mariadb_transaction_new(pool, push_steps, on_end, &plan));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_runs("SELECT get_lock") == 1);
        MYSQL *locker = server_connect("weir", "secret");
        CU_ASSERT_EQUAL(mysql_query(locker, "FLUSH TABLES WITH READ LOCK"), 0);
        server_open_gate(gate);
        WEIR_TEST_EVENTUALLY(server_runs("COMMIT") == 1);
        weir_series_cancel(series);
        if (should_let_go)
                mysql_query(locker, "UNLOCK TABLES");
        WEIR_TEST_EVENTUALLY(plan.ends == 1);
        int committed = weir_mariadb_transaction_committed(plan.kept);
        weir_mariadb_unref(plan.kept);
        weir_series_unref(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0 && server_runs("COMMIT") == 0);
        mysql_close(locker);
        weir_mariadb_unref(pool);
        weir_test_end();
        CU_ASSERT_EQUAL(plan.status, -ECANCELED);
        return committed;
}

static void
a_commit_that_was_sent_is_waited_for(void)
{
        CU_ASSERT_EQUAL(cancel_at_commit(true), 1);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "1");
}

static void
but_not_for_ever(void)
{
        CU_ASSERT_EQUAL(cancel_at_commit(false), -EINPROGRESS);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
}

static void
a_connection_that_breaks_ends_it(void)
{
        struct plan plan = {.queries = {"SELECT 1", "KILL CONNECTION connection_id()", "SELECT 2"}, .should_keep = true};

        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_mariadb *pool = server_pool(1, false);
        CU_ASSERT_EQUAL(run_plan(pool, &plan), -ECONNRESET);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_query_new(plan.kept, "SELECT 1", NULL, NULL)), -ECONNRESET);
        weir_mariadb_unref(plan.kept);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
fail_the_first(weir_mariadb *transaction, weir_series *series, void *context)
{
        struct plan *plan = context;

        weir_series_push(series, weir_mariadb_query_new(transaction, "INSERT INTO accounts VALUES (1, 10)", NULL, NULL));
        if (++plan->attempts < 3)
                weir_series_push(series, weir_mariadb_query_new(transaction, "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
                                                                NULL, NULL));
}

static void
deadlocks_are_tried_again(void)
{
        struct weir_mariadb_transaction_config config = WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT;
        struct plan plan = {.queries = {NULL}};

        empty_table();
        weir_test_begin_real(2);
        weir_mariadb *pool = server_pool(2, false);
        config.begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
        config.attempts = 3;
        config.delay = 1;
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new_with(pool, &config, fail_the_first, on_end, &plan)), 0);
        CU_ASSERT_EQUAL(plan.attempts, 3);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "1");
        config.attempts = 2;
        plan.attempts = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new_with(pool, &config, fail_the_first, on_end, &plan)), -EEXIST);
        CU_ASSERT_EQUAL(plan.attempts, 1);
        weir_mariadb_unref(pool);
        weir_test_end();
}

static void
push_levels(weir_mariadb *transaction, weir_series *series, void *context)
{
        weir_series_push(series, weir_mariadb_query_new(transaction, "SELECT @@in_transaction", NULL, NULL));
        weir_series_push(series, weir_mariadb_transaction_new(transaction, push_levels, on_end, context));
}

static void
bad_input_is_answered(void)
{
        struct weir_mariadb_transaction_config wrong = WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT;
        struct plan plan = {.queries = {NULL}};

        weir_test_begin_real(1);
        weir_mariadb *pool = server_pool(1, false);
        wrong.size--;
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new_with(pool, &wrong, push_steps, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new(pool, NULL, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new(NULL, push_steps, NULL, NULL)), -ENOMEM);
        CU_ASSERT(weir_mariadb_transaction_committed(NULL) == -EINVAL && weir_mariadb_transaction_committed(pool) == -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_mariadb_transaction_new(pool, push_levels, NULL, &plan)),
                        -EINVAL); /* one within another */
        weir_task_dismiss(weir_mariadb_transaction_new(pool, push_steps, NULL, &plan));
        weir_mariadb_close(pool);
        plan.ends = 0;
        CU_ASSERT_EQUAL(run_plan(pool, &plan), -EPIPE);
        weir_mariadb_unref(pool);
        weir_test_end();
}

enum { TRANSFERS = 200 };

static _Atomic unsigned ended, committed, wrong;

static void
note_transfer(weir_task *transaction, void *context)
{
        int status = weir_task_status(transaction);

        (void)context;
        committed += status == 0;
        wrong += status != 0 && status != -ECANCELED && status != -EAGAIN && status != -EBUSY;
        ended++;
}

/* Deadlocks are tried again; some flows are cancelled, at any moment. */
static void
the_sum_stays(void)
{
        struct weir_mariadb_transaction_config config = WEIR_MARIADB_TRANSACTION_CONFIG_DEFAULT;
        struct weir_test_random random = {weir_test_seed()};
        _Atomic int number = 0;

        empty_table();
        server_ask("INSERT INTO accounts SELECT seq, 100 FROM test.seq_0_to_4");
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_mariadb *pool = server_pool(4, false);
        config.attempts = 20;
        ended = committed = wrong = 0;
        for (unsigned i = 0; i < TRANSFERS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_mariadb_transaction_new_with(pool, &config, move_money, note_transfer, &number));
                weir_series_start(series);
                if (i % 3 == 0) {
                        weir_test_sleep((int64_t)weir_test_random_below(&random, 3000000));
                        weir_series_cancel(series);
                }
                weir_series_unref(series);
        }
        WEIR_TEST_EVENTUALLY(ended == TRANSFERS);
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(committed >= TRANSFERS / 2);
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0);
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT sum(money) FROM accounts"), "500");
        weir_mariadb_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(its_steps_are_committed_together),
                WEIR_TEST(one_without_steps_is_committed),
                WEIR_TEST(a_step_that_fails_rolls_back),
                WEIR_TEST(a_deadlock_that_is_ignored_is_told_at_commit),
                WEIR_TEST(a_cancel_rolls_back),
                WEIR_TEST(a_deadline_within_a_query_rolls_back),
                WEIR_TEST(a_commit_that_was_sent_is_waited_for),
                WEIR_TEST(but_not_for_ever),
                WEIR_TEST(a_connection_that_breaks_ends_it),
                WEIR_TEST(deadlocks_are_tried_again),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(the_sum_stays),
        };

        return server_main("mariadb_transaction", tests, sizeof tests / sizeof *tests);
}
