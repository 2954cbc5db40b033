/* test/addon/pq_transaction_test.c: transactions: what is committed or rolled back, and what becomes of their connections. */
#include "test/addon/pq_server.h"
#include "test/addon/sql_transaction.h"

static void
its_steps_are_committed_together(void)
{
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (1, 10)", "INSERT INTO accounts VALUES (2, 20)"}};

        for (unsigned pipeline = 1; pipeline < 9; pipeline += 7) {
                empty_table();
                weir_test_begin_real(2);
                weir_pq *pool = server_pool(1, pipeline, false);
                plan.ends = 0;
                CU_ASSERT_EQUAL(run_plan(pool, &plan), 0);
                CU_ASSERT_STRING_EQUAL(count_of_rows(), "2");
                CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
                WEIR_TEST_EVENTUALLY(server_stats(pool).idle == 1);
                weir_pq_unref(pool);
                weir_test_end();
        }
}

static void
a_step_that_fails_rolls_back(void)
{
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (1, 10)", "INSERT INTO accounts VALUES (1, 20)",
                                        "INSERT INTO accounts VALUES (3, 20)"},
                            .should_keep = true};

        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 1, false);
        CU_ASSERT_EQUAL(run_plan(pool, &plan), -EEXIST);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_pq_transaction_problem(plan.kept), "duplicate key"));
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(plan.kept, "SELECT 1", NULL, NULL)), -EPIPE); /* it is over */
        weir_pq_unref(plan.kept);
        CU_ASSERT_PTR_NULL(weir_pq_transaction_problem(NULL));
        weir_pq_unref(pool);
        weir_test_end();
}

/* The program goes on in a series of its own, which does not stop the steps. */
static void
ignore_failures(weir_pq *transaction, weir_series *series, void *context)
{
        weir_series *own = weir_series_new(NULL, NULL);

        (void)context;
        weir_series_push(own, weir_pq_query_new(transaction, "SELECT 1/0", NULL, NULL));
        weir_series_push(series, weir_module_new(own, NULL, NULL));
}

static void
a_failure_that_is_ignored_is_told_at_commit(void)
{
        struct plan plan = {.queries = {NULL}};

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new(pool, ignore_failures, on_end, &plan)), -ENOTRECOVERABLE);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_constraint_that_fails_at_commit_is_told(void)
{
        struct plan plan = {.queries = {"CREATE TEMP TABLE late (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
                                        "INSERT INTO late VALUES (1), (1)"},
                            .should_keep = true};

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 1, false);
        CU_ASSERT_EQUAL(run_plan(pool, &plan), -EEXIST);
        CU_ASSERT_PTR_NOT_NULL(strstr(weir_pq_transaction_problem(plan.kept), "late_a_key"));
        CU_ASSERT_EQUAL(weir_pq_transaction_committed(plan.kept), 0);
        weir_pq_unref(plan.kept);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
a_deadline_within_a_query_rolls_back(void)
{
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (1, 10)", "SELECT pg_sleep(604)"}};

        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 1, false);
        int status = weir_task_run(weir_timeout_new(weir_pq_transaction_new(pool, push_steps, on_end, &plan), WEIR_MSEC(100)));
        CU_ASSERT_EQUAL(status, -ETIMEDOUT);
        WEIR_TEST_EVENTUALLY(server_stats(pool).idle == 1);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

/* COMMIT lasts as long as the gate is shut.  Returns whether it is committed. */
static int
cancel_at_commit(bool should_open, const char *rows)
{
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        struct plan plan = {.queries = {"INSERT INTO slow VALUES (1)"}, .should_keep = true};

        server_ask("DROP TABLE IF EXISTS slow CASCADE");
        server_ask("CREATE TABLE slow (a int)");
        server_ask("CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
                   "'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END'");
        server_ask("CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
                   "EXECUTE FUNCTION wait()");
        PGconn *gate = server_shut_gate();
        weir_test_begin_real(2);
        config.connections = config.pipeline = 1;
        config.clean_limit = should_open ? WEIR_SEC(60) : WEIR_MSEC(200);
        weir_pq *pool = weir_pq_new(server_conninfo(false), &config);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_pq_transaction_new(pool, push_steps, on_end, &plan));
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(server_ask("SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'")[0] ==
                             '1');
        weir_series_cancel(series);
        if (should_open)
                server_open_gate(gate);
        WEIR_TEST_EVENTUALLY(plan.ends == 1);
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT count(*) FROM slow"), rows);
        if (!should_open)
                server_open_gate(gate);
        int committed = weir_pq_transaction_committed(plan.kept);
        weir_pq_unref(plan.kept);
        weir_series_unref(series);
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0);
        weir_pq_unref(pool);
        weir_test_end();
        CU_ASSERT_EQUAL(plan.status, -ECANCELED);
        return committed;
}

static void
a_commit_that_was_sent_is_waited_for(void)
{
        CU_ASSERT_EQUAL(cancel_at_commit(true, "1"), 1);
}

static void
but_not_for_ever(void)
{
        CU_ASSERT_EQUAL(cancel_at_commit(false, "0"), -EINPROGRESS);
}

static void
a_connection_that_breaks_ends_it(void)
{
        struct plan plan = {.queries = {"SELECT 1", "SELECT pg_terminate_backend(pg_backend_pid())", "SELECT 2"},
                            .should_keep = true};

        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_pq *pool = server_pool(1, 1, false);
        CU_ASSERT_EQUAL(run_plan(pool, &plan), -ECONNRESET);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(plan.kept, "SELECT 1", NULL, NULL)), -ECONNRESET);
        weir_pq_unref(plan.kept);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
fail_the_first(weir_pq *transaction, weir_series *series, void *context)
{
        struct plan *plan = context;

        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (1, 10)", NULL, NULL));
        if (++plan->attempts < 3)
                weir_series_push(series,
                                 weir_pq_query_new(transaction, "DO $$ BEGIN RAISE serialization_failure; END $$", NULL, NULL));
}

static void
serialization_failures_are_tried_again(void)
{
        struct weir_pq_transaction_config config = WEIR_PQ_TRANSACTION_CONFIG_DEFAULT;
        struct plan plan = {.queries = {NULL}};

        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(2, 1, false);
        config.begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
        config.attempts = 3;
        config.delay = 1;
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new_with(pool, &config, fail_the_first, on_end, &plan)), 0);
        CU_ASSERT_EQUAL(plan.attempts, 3);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "1");
        config.attempts = 2;
        plan.attempts = 0;
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new_with(pool, &config, fail_the_first, on_end, &plan)), -EEXIST);
        CU_ASSERT_EQUAL(plan.attempts, 1);
        weir_pq_unref(pool);
        weir_test_end();
}

static void
push_levels(weir_pq *transaction, weir_series *series, void *context)
{
        weir_series_push(series, weir_pq_query_new(transaction, "SELECT current_setting('transaction_isolation')", NULL, NULL));
        weir_series_push(series, weir_pq_transaction_new(transaction, push_levels, on_end, context));
}

static void
bad_input_is_answered(void)
{
        struct weir_pq_transaction_config wrong = WEIR_PQ_TRANSACTION_CONFIG_DEFAULT;
        struct plan plan = {.queries = {NULL}};

        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 1, false);
        wrong.size--;
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new_with(pool, &wrong, push_steps, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new(pool, NULL, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new(NULL, push_steps, NULL, NULL)), -ENOMEM);
        CU_ASSERT(weir_pq_transaction_committed(NULL) == -EINVAL && weir_pq_transaction_committed(pool) == -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_transaction_new(pool, push_levels, NULL, &plan)), -EINVAL); /* one within another */
        weir_task_dismiss(weir_pq_transaction_new(pool, push_steps, NULL, &plan));
        weir_pq_close(pool);
        plan.ends = 0;
        CU_ASSERT_EQUAL(run_plan(pool, &plan), -EPIPE);
        weir_pq_unref(pool);
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
        wrong += status != 0 && status != -ECANCELED && status != -EAGAIN;
        ended++;
}

/* Deadlocks are tried again; some flows are cancelled, at any moment. */
static void
the_sum_stays(void)
{
        struct weir_pq_transaction_config config = WEIR_PQ_TRANSACTION_CONFIG_DEFAULT;
        struct weir_test_random random = {weir_test_seed()};
        _Atomic int number = 0;

        empty_table();
        server_ask("INSERT INTO accounts SELECT n, 100 FROM generate_series(0, 4) AS n");
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_pq *pool = server_pool(4, 1, false);
        config.attempts = 20;
        ended = committed = wrong = 0;
        for (unsigned i = 0; i < TRANSFERS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_pq_transaction_new_with(pool, &config, move_money, note_transfer, &number));
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
        weir_pq_unref(pool);
        weir_test_end();
}

/* -- savepoints -- */

static _Atomic int seen[3], seen_count;
static int fails_with; /* what the callback does to the transaction */

static void
on_savepoint(weir_task *savepoint, void *context)
{
        *(_Atomic int *)context = weir_task_status(savepoint);
        seen_count++;
        if (fails_with)
                weir_series_fail(weir_series_of(savepoint), fails_with);
}

static void
push_twice(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (3, 30)", NULL, NULL));
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (3, 30)", NULL, NULL));
}

static void
push_well(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (4, 40)", NULL, NULL));
        weir_series_push(series, weir_pq_savepoint_new(transaction, push_twice, on_savepoint, &seen[1]));
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (5, 50)", NULL, NULL));
}

static void
push_with_savepoints(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (1, 10)", NULL, NULL));
        weir_series_push(series, weir_pq_savepoint_new(transaction, push_twice, on_savepoint, &seen[0]));
        weir_series_push(series, weir_pq_savepoint_new(transaction, push_well, on_savepoint, &seen[2]));
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (2, 20)", NULL, NULL));
}

/* Runs a transaction in an empty table.  Result: its status. */
static int
run_steps(weir_pq_steps_fn *steps, int fail_with)
{
        empty_table();
        weir_test_begin_real(2);
        weir_pq *pool = server_pool(1, 1, false);
        fails_with = fail_with;
        seen_count = 0;
        int status = weir_task_run(weir_pq_transaction_new(pool, steps, NULL, NULL));
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0);
        weir_pq_unref(pool);
        weir_test_end();
        return status;
}

static void
a_savepoint_that_fails_is_undone_alone(void)
{
        CU_ASSERT_EQUAL(run_steps(push_with_savepoints, 0), 0);
        CU_ASSERT(seen_count == 3 && seen[0] == -EEXIST && seen[1] == -EEXIST && seen[2] == 0);
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT string_agg(id::text, ' ' ORDER BY id) FROM accounts"), "1 2 4 5");
}

static void
its_callback_may_fail_the_transaction(void)
{
        CU_ASSERT_EQUAL(run_steps(push_with_savepoints, -EDQUOT), -EDQUOT);
        CU_ASSERT(seen_count == 1 && seen[0] == -EEXIST);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
}

static void
on_inserted(weir_task *query, void *cut)
{
        (void)query;
        weir_promise_end(cut, 0);
}

static void
push_sleep(weir_pq *transaction, weir_series *series, void *cut)
{
        weir_series_push(series, weir_pq_query_new(transaction, "INSERT INTO accounts VALUES (6, 60)", on_inserted, cut));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1000), NULL, NULL)); /* the server sees nothing wrong */
}

/* A series that does not stop at failures.  The race is over when the INSERT is. */
static void
push_cut_one(weir_pq *transaction, weir_series *series, void *context)
{
        weir_series *careless = weir_series_new(NULL, NULL);
        weir_task *race = weir_race_new(NULL, NULL), *cut = weir_promise_new(NULL, NULL, NULL);

        (void)context;
        weir_race_add(race, weir_pq_savepoint_new(transaction, push_sleep, NULL, cut));
        weir_race_add(race, cut);
        weir_series_push(careless, race);
        weir_series_push(series, weir_module_new(careless, NULL, NULL));
}

static void
one_that_is_cut_off_is_never_committed(void)
{
        CU_ASSERT_EQUAL(run_steps(push_cut_one, 0), -ENOTRECOVERABLE);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
}

static void
push_end_of_connection(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "SELECT pg_terminate_backend(pg_backend_pid())", NULL, NULL));
}

static void
push_one_that_breaks(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_savepoint_new(transaction, push_end_of_connection, on_savepoint, &seen[0]));
}

static void
a_connection_that_breaks_within_it_ends_the_transaction(void)
{
        int status = run_steps(push_one_that_breaks, 0);

        CU_ASSERT(status != 0 && seen_count == 1 && seen[0] == status);
}

static void
push_wrong(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_savepoint_new(transaction, NULL, on_savepoint, &seen[0]));
}

static void
a_savepoint_needs_steps_and_a_transaction(void)
{
        CU_ASSERT_EQUAL(run_steps(push_wrong, 0), -EINVAL);
        CU_ASSERT(seen_count == 1 && seen[0] == -EINVAL);
        weir_test_begin_real(1);
        weir_pq *pool = server_pool(1, 1, false);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_savepoint_new(pool, push_well, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_savepoint_new(NULL, push_well, NULL, NULL)), -ENOMEM);
        weir_pq_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(its_steps_are_committed_together),
                WEIR_TEST(one_without_steps_is_committed),
                WEIR_TEST(a_step_that_fails_rolls_back),
                WEIR_TEST(a_failure_that_is_ignored_is_told_at_commit),
                WEIR_TEST(a_constraint_that_fails_at_commit_is_told),
                WEIR_TEST(a_cancel_rolls_back),
                WEIR_TEST(a_deadline_within_a_query_rolls_back),
                WEIR_TEST(a_commit_that_was_sent_is_waited_for),
                WEIR_TEST(but_not_for_ever),
                WEIR_TEST(a_connection_that_breaks_ends_it),
                WEIR_TEST(serialization_failures_are_tried_again),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(the_sum_stays),
                WEIR_TEST(a_savepoint_that_fails_is_undone_alone),
                WEIR_TEST(its_callback_may_fail_the_transaction),
                WEIR_TEST(one_that_is_cut_off_is_never_committed),
                WEIR_TEST(a_connection_that_breaks_within_it_ends_the_transaction),
                WEIR_TEST(a_savepoint_needs_steps_and_a_transaction),
        };

        return server_main("pq_transaction", tests, sizeof tests / sizeof *tests);
}
