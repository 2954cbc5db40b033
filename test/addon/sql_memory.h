/* test/addon/sql_memory.h: each allocation that fails on a worker: each callback comes once, nothing is left behind, and the pool
 * goes on when there is memory again. */
#ifndef WEIR_TEST_SQL_MEMORY_H
#define WEIR_TEST_SQL_MEMORY_H

static _Atomic int calls, statuses;

static void
note(weir_task *task, void *context)
{
        (void)context;
        statuses |= weir_task_status(task) != 0;
        calls++;
}

/* What only one library has. */
static void push_more(SQL_POOL *transaction, weir_series *series);

static void
push_steps(SQL_POOL *transaction, weir_series *series, void *context)
{
        weir_task *query = SQL(query_new)(transaction, SQL_ECHO, NULL, NULL);

        (void)context;
        SQL(add_int)(query, 1);
        SQL(set_prepared)(query);
        weir_series_push(series, query);
        push_more(transaction, series);
        weir_series_push(series, SQL(query_new)(transaction, "SELECT 2", NULL, NULL));
}

/* All kinds of work, on a worker, where memory is refused. */
static void
push_work(weir_task *task, void *context)
{
        SQL_POOL *pool = context;
        weir_series *series = weir_series_of(task);
        weir_channel *rows = SQL(rows_new)(WEIR_UNBOUNDED);
        weir_task *query = SQL(query_new)(pool, SQL_ECHO_TEXT, note, NULL);

        SQL(add_text)(query, "x");
        SQL(set_prepared)(query);
        weir_series_push(series, query);
        query = SQL(query_new)(pool, SQL_COUNT_TO(5), note, NULL);
        SQL(set_rows)(query, rows);
        weir_series_push(series, query);
        weir_series_push(series, SQL(query_new)(pool, SQL_WRONG, note, NULL));
        weir_series_push(series, SQL(transaction_new)(pool, push_steps, note, NULL));
        query = SQL(query_new)(pool, SQL_SLEEP(2), note, NULL);
        weir_series_push(series, weir_timeout_new(query, WEIR_MSEC(5)));
        weir_channel_unref(rows);
}

static void
end_work(weir_series *series, void *context)
{
        (void)series;
        weir_test_latch_count_down(context);
}

/* Returns whether an allocation was refused. */
static bool
work_without(int64_t nth)
{
        struct SQL(config) config = SQL_CONFIG_DEFAULT;
        struct weir_test_latch latch;

        config.connections = 2;
        config.connect_limit = WEIR_SEC(2);
        config.clean_limit = WEIR_MSEC(200);
        config.max_rows = 1000;
        SQL_POOL *pool = SQL(new)(server_url(false), &config);
        weir_test_latch_init(&latch, 1);
        weir_series *series = weir_series_new(end_work, &latch);
        weir_series_push(series, weir_empty_new(push_work, pool));
        calls = 0;
        refuse_from(nth, false);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_latch_wait(&latch);
        bool was_refused = atomic_load(&refused);
        atomic_store(&armed, false);
        CU_ASSERT(calls <= 5);
        CU_ASSERT(was_refused || calls == 5);
        SQL(unref)(pool);
        return was_refused;
}

static void
each_allocation_may_fail(void)
{
        int64_t nth = 0;

        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        while (work_without(nth))
                nth++;
        printf("%d allocations\n", (int)nth);
        CU_ASSERT(nth > 40);
        weir_test_end();
}

/* The pool is the same each time: what one failure has left, the next finds. */
static void
a_pool_goes_on_when_there_is_memory_again(void)
{
        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        SQL_POOL *pool = SQL(new)(server_url(true), NULL);
        for (int64_t nth = 0; nth < 120; nth += 2) {
                struct weir_test_latch latch;

                weir_test_latch_init(&latch, 1);
                weir_series *series = weir_series_new(end_work, &latch);
                weir_series_push(series, weir_empty_new(push_work, pool));
                refuse_from(nth, false);
                weir_series_start(series);
                weir_test_latch_wait(&latch);
                atomic_store(&armed, false);
                int after = weir_task_run(SQL(query_new)(pool, "SELECT 1", NULL, NULL));
                if (after)
                        printf("status %d behind allocation %d\n", after, (int)nth);
                CU_ASSERT_EQUAL(after, 0);
        }
        struct SQL(stats) stats = {.size = sizeof stats};
        WEIR_TEST_EVENTUALLY(SQL(stats)(pool, &stats) == 0 && stats.busy == 0 && stats.waiting == 0);
        SQL(unref)(pool);
        weir_test_end();
}

/* A thread of the library may drop its promise when the runtime is down. */
static void
nothing_is_left_behind(void)
{
        int64_t before = 0;

        for (int round = 0; round < 4; round++) {
                weir_test_begin_real(1);
                weir_log_set(NULL, NULL);
                CU_ASSERT_FALSE(work_without(1000000));
                weir_test_end();
                if (round >= 2)
                        WEIR_TEST_EVENTUALLY(atomic_load(&live) <= before);
                before = atomic_load(&live);
        }
}

static int
memory_main(const char *suite)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_may_fail),
                WEIR_TEST(a_pool_goes_on_when_there_is_memory_again),
                WEIR_TEST(nothing_is_left_behind),
        };

        return server_main(suite, tests, sizeof tests / sizeof *tests);
}

#endif
