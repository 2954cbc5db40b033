/* test/addon/pq_memory_test.c: each allocation that fails on a worker: each callback comes once, nothing is left behind, and the
 * pool goes on when there is memory again. */
#include "test/memory_faults.h"

#include "test/addon/pq_server.h"

static _Atomic int calls, statuses;

static void
note(weir_task *task, void *context)
{
        (void)context;
        statuses |= weir_task_status(task) != 0;
        calls++;
}

static void
push_part(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "SELECT 1/0", NULL, NULL));
}

static void
push_steps(weir_pq *transaction, weir_series *series, void *context)
{
        weir_task *query = weir_pq_query_new(transaction, "SELECT $1::int", NULL, NULL);

        (void)context;
        weir_pq_add_int(query, 1);
        weir_pq_set_prepared(query);
        weir_series_push(series, query);
        weir_series_push(series, weir_pq_savepoint_new(transaction, push_part, NULL, NULL));
        weir_series_push(series, weir_pq_query_new(transaction, "SELECT 2", NULL, NULL));
}

/* All kinds of work, on a worker, where memory is refused. */
static void
push_work(weir_task *task, void *context)
{
        weir_pq *pool = context;
        weir_series *series = weir_series_of(task);
        weir_channel *rows = weir_pq_rows_new(WEIR_UNBOUNDED);
        weir_task *query = weir_pq_query_new(pool, "SELECT $1::text", note, NULL);

        weir_pq_add_text(query, "x");
        weir_pq_set_prepared(query);
        weir_series_push(series, query);
        query = weir_pq_query_new(pool, "SELECT generate_series(1, 5)", note, NULL);
        weir_pq_set_rows(query, rows);
        weir_series_push(series, query);
        weir_series_push(series, weir_pq_query_new(pool, "SELECT 1/0", note, NULL));
        weir_series_push(series, weir_pq_transaction_new(pool, push_steps, note, NULL));
        query = weir_pq_query_new(pool, "SELECT pg_sleep(600)", note, NULL);
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
        struct weir_pq_config config = WEIR_PQ_CONFIG_DEFAULT;
        struct weir_test_latch latch;

        config.connections = 2;
        config.connect_limit = WEIR_SEC(2);
        config.clean_limit = WEIR_MSEC(200);
        weir_pq *pool = weir_pq_new(server_conninfo(false), &config);
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
        weir_pq_unref(pool);
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
        CU_ASSERT(nth > 50);
        weir_test_end();
}

/* The pool is the same each time: what one failure has left, the next finds. */
static void
a_pool_goes_on_when_there_is_memory_again(void)
{
        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        weir_pq *pool = weir_pq_new(server_conninfo(true), NULL);
        for (int64_t nth = 0; nth < 120; nth += 3) {
                struct weir_test_latch latch;

                weir_test_latch_init(&latch, 1);
                weir_series *series = weir_series_new(end_work, &latch);
                weir_series_push(series, weir_empty_new(push_work, pool));
                refuse_from(nth, false);
                weir_series_start(series);
                weir_test_latch_wait(&latch);
                atomic_store(&armed, false);
                CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        }
        struct weir_pq_stats stats = {.size = sizeof stats};
        WEIR_TEST_EVENTUALLY(weir_pq_stats(pool, &stats) == 0 && stats.busy == 0 && stats.waiting == 0);
        weir_pq_unref(pool);
        weir_test_end();
}

/* The thread of a PQcancel may drop its promise when the runtime is down. */
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

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_may_fail),
                WEIR_TEST(a_pool_goes_on_when_there_is_memory_again),
                WEIR_TEST(nothing_is_left_behind),
        };

        return server_main("pq_memory", tests, sizeof tests / sizeof *tests);
}
