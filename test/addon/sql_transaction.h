/* test/addon/sql_transaction.h: what the suites of transactions share. */
#ifndef WEIR_TEST_SQL_TRANSACTION_H
#define WEIR_TEST_SQL_TRANSACTION_H

#include "test/addon/sql_server.h"

/* What a flow of a transaction does. */
struct plan {
        const char *queries[4];
        int parameter;
        _Atomic int attempts;
        _Atomic int status, ends;
        SQL_POOL *kept; /* the handle, with a reference; NULL: it is not to be kept */
        bool should_keep;
        void (*act)(weir_task *query, struct plan *plan); /* behind the first query; NULL: nothing */
        weir_series *series;                              /* of the transaction, with a reference */
        char problem[256];
};

static void
on_query(weir_task *query, void *context)
{
        struct plan *plan = context;

        if (plan->act)
                plan->act(query, plan);
}

static void
push_steps(SQL_POOL *transaction, weir_series *series, void *context)
{
        struct plan *plan = context;

        plan->attempts++;
        if (plan->should_keep && !plan->kept)
                plan->kept = SQL(ref)(transaction);
        for (unsigned i = 0; i < 4 && plan->queries[i]; i++)
                weir_series_push(series, SQL(query_new)(transaction, plan->queries[i], i == 0 ? on_query : NULL, plan));
}

static void
on_end(weir_task *transaction, void *context)
{
        struct plan *plan = context;

        plan->status = weir_task_status(transaction);
        plan->ends++;
}

static int
run_plan(SQL_POOL *pool, struct plan *plan)
{
        int status = weir_task_run(SQL(transaction_new)(pool, push_steps, on_end, plan));

        CU_ASSERT_EQUAL(plan->ends, 1);
        CU_ASSERT_EQUAL(plan->status, status);
        return status;
}

static void
empty_table(void)
{
        server_ask("CREATE TABLE IF NOT EXISTS accounts (id int UNIQUE, money int)");
        server_ask("TRUNCATE accounts");
}

static const char *
count_of_rows(void)
{
        return server_ask("SELECT count(*) FROM accounts");
}

static void
one_without_steps_is_committed(void)
{
        struct plan plan = {.queries = {NULL}};

        weir_test_begin_real(1);
        SQL_POOL *pool = sql_pool(1, false);
        CU_ASSERT_EQUAL(run_plan(pool, &plan), 0);
        CU_ASSERT_EQUAL(server_stats(pool).queries, 2);
        SQL(unref)(pool);
        weir_test_end();
}

static void
cancel_it(weir_task *query, struct plan *plan)
{
        CU_ASSERT_EQUAL(weir_task_status(query), 0);
        weir_series_cancel(plan->series);
}

static void
a_cancel_rolls_back(void)
{
        struct plan plan = {.queries = {"INSERT INTO accounts VALUES (1, 10)", SQL_SLEEP(603)}, .act = cancel_it};

        empty_table();
        weir_test_begin_real(2);
        SQL_POOL *pool = sql_pool(1, false);
        plan.series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(plan.series, SQL(transaction_new)(pool, push_steps, on_end, &plan));
        weir_series_start(plan.series);
        WEIR_TEST_EVENTUALLY(plan.ends == 1);
        CU_ASSERT_EQUAL(plan.status, -ECANCELED);
        WEIR_TEST_EVENTUALLY(server_stats(pool).idle == 1);
        CU_ASSERT_STRING_EQUAL(count_of_rows(), "0");
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        weir_series_unref(plan.series);
        SQL(unref)(pool);
        weir_test_end();
}

static void
move_money(SQL_POOL *transaction, weir_series *series, void *context)
{
        weir_task *take = SQL(query_new)(transaction, "UPDATE accounts SET money = money - 1 WHERE id = " SQL_FIRST, NULL, NULL);
        weir_task *give = SQL(query_new)(transaction, "UPDATE accounts SET money = money + 1 WHERE id = " SQL_FIRST, NULL, NULL);
        int number = ++*(_Atomic int *)context;

        SQL(add_int)(take, number % 5);
        SQL(add_int)(give, (number + 1 + number / 5 % 4) % 5);
        SQL(set_prepared)(take);
        SQL(set_prepared)(give);
        weir_series_push(series, take);
        weir_series_push(series, give);
}

#endif
