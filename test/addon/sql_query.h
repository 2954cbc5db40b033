/* test/addon/sql_query.h: what the suites of queries share; they have a struct seen_more and a function see_more. */
#ifndef WEIR_TEST_SQL_QUERY_H
#define WEIR_TEST_SQL_QUERY_H

#include "test/addon/sql_server.h"
#include "test/metrics_form.h"

/* What a callback has seen. */
struct seen {
        struct weir_test_latch latch;
        _Atomic int calls;
        int status;
        size_t rows, columns;
        uint64_t affected;
        char value[64], sqlstate[8], problem[512];
        int64_t number;
        int number_failed;
        struct seen_more more; /* what only one library has */
};

static void
see(weir_task *query, void *context)
{
        struct seen *seen = context;
        const char *value = SQL(value)(query, 0, 0, NULL), *problem = SQL(problem)(query);

        seen->status = weir_task_status(query);
        seen->rows = SQL(rows)(query);
        seen->columns = SQL(columns)(query);
        seen->affected = SQL(affected)(query);
        seen->number_failed = SQL(int)(query, 0, 0, &seen->number);
        snprintf(seen->value, sizeof seen->value, "%s", value ? value : "NULL");
        snprintf(seen->sqlstate, sizeof seen->sqlstate, "%s", SQL(sqlstate)(query));
        snprintf(seen->problem, sizeof seen->problem, "%s", problem ? problem : "");
        see_more(query, &seen->more);
        seen->calls++;
        weir_test_latch_count_down(&seen->latch);
}

static struct seen
fresh(void)
{
        struct seen seen = {.status = 1, .number = -1};

        weir_test_latch_init(&seen.latch, 1);
        return seen;
}

static struct seen
ask(SQL_POOL *pool, const char *sql)
{
        struct seen seen = fresh();
        int status = weir_task_run(SQL(query_new)(pool, sql, see, &seen));

        CU_ASSERT_EQUAL(status, seen.status);
        CU_ASSERT_EQUAL(seen.calls, 1);
        return seen;
}

static void
queries_wait_in_order(void)
{
        enum { COUNT = 200 };
        static struct weir_test_record records[COUNT];
        _Atomic unsigned counter = 0;

        weir_test_begin_real(1);
        SQL_POOL *pool = sql_pool(1, false);
        memset(records, 0, sizeof records);
        for (unsigned i = 0; i < COUNT; i++) {
                records[i].counter = &counter;
                weir_task_start(weir_test_recorded(SQL(query_new)(pool, "SELECT 1", weir_test_done, &records[i])));
        }
        for (unsigned i = 0; i < COUNT; i++)
                weir_test_wait_freed(&records[i]);
        unsigned wrong = 0;
        for (unsigned i = 0; i < COUNT; i++)
                wrong += records[i].status != 0 || records[i].order != i;
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);
        CU_ASSERT_EQUAL(server_stats(pool).queries, COUNT);
        SQL(unref)(pool);
        weir_test_end();
}

static void
idle_connections_are_closed(void)
{
        struct SQL(config) config = SQL_CONFIG_DEFAULT;

        weir_test_begin_real(1);
        config.idle_limit = WEIR_MSEC(50);
        SQL_POOL *pool = SQL(new)(server_url(true), &config);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        WEIR_TEST_EVENTUALLY(server_stats(pool).connections == 0);
        CU_ASSERT_EQUAL(server_stats(pool).lost, 0);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        SQL(unref)(pool);
        weir_test_end();
}

static weir_series *
series_of(weir_task *task)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, task);
        return series;
}

static struct seen
ask_prepared(SQL_POOL *pool, const char *sql, int64_t parameter)
{
        struct seen seen = fresh();
        weir_task *query = SQL(query_new)(pool, sql, see, &seen);

        if (parameter >= 0)
                SQL(add_int)(query, parameter);
        SQL(set_prepared)(query);
        weir_task_run(query);
        return seen;
}

static const char *
dump(void)
{
        static char text[65536];
        int ends[2];

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        CU_ASSERT_EQUAL(weir_debug_dump(ends[1]), 0);
        close(ends[1]);
        ssize_t size = read(ends[0], text, sizeof text - 1);
        text[size > 0 ? size : 0] = '\0';
        close(ends[0]);
        return text;
}

/* Of a pool that is named so on the page. */
static double
figure(const char *name, const char *pool)
{
        char sample[128];

        snprintf(sample, sizeof sample, "weir_" SQL_NAME "_%s{pool=\"%s\"}", name, pool);
        return seen(sample);
}

static void
figures_of_pools_are_among_all_others(void)
{
        weir_test_begin_real(1);
        SQL_POOL *pool = sql_pool(1, false), *same = sql_pool(1, false);
        CU_ASSERT_EQUAL(weir_metrics_add(SQL(metrics_write)), 0);
        look();
        check_form(100);
        CU_ASSERT(seen("weir_pollers") == 1);
        CU_ASSERT(figure("queries_total", "test") == 0 && figure("connections", "test") == 0);
        for (int i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(ask(pool, "SELECT 1").status, 0);
        CU_ASSERT(ask(pool, "SELECT nonsense").status < 0);
        CU_ASSERT_EQUAL(ask(same, "SELECT 1").status, 0);
        WEIR_TEST_EVENTUALLY(server_stats(pool).idle == 1);
        look();
        check_form(100);
        CU_ASSERT(figure("queries_total", "test") == 4 && figure("failed_total", "test") == 1);
        CU_ASSERT(figure("connections", "test") == 1 && figure("connects_total", "test") == 1 && figure("idle", "test") == 1);
        CU_ASSERT(figure("waited_seconds_total", "test") > 0); /* for the connection */
        CU_ASSERT(figure("queries_total", "test#2") == 1 && figure("lost_total", "test#2") == 0);
        SQL(unref)(same);
        SQL(unref)(pool);
        weir_test_end(); /* the connections have references to their pools */
        look();
        check_form(60);
        CU_ASSERT(figure("queries_total", "test") == -1);
        free(metrics_text);
        metrics_text = NULL;
}

#endif
