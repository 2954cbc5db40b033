/* test/addon/sql_query.h: what the suites of queries share; they have a struct seen_more and a function see_more. */
#ifndef WEIR_TEST_SQL_QUERY_H
#define WEIR_TEST_SQL_QUERY_H

#include "test/addon/sql_server.h"
#include "test/metrics_form.h"
#include "test/trace_fixture.h"

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

static void
ask_once(void *pool)
{
        CU_ASSERT_EQUAL(ask(pool, "SELECT 5").number, 5);
}

static void
a_trace_names_the_query(void)
{
        struct SQL(config) config = SQL_CONFIG_DEFAULT;

        weir_test_begin_real(2);
        config.name = "test";
        SQL_POOL *pool = SQL(new)(server_url(false), &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        CU_ASSERT_TRUE(weir_test_waits_in_trace(ask_once, pool, "\"SELECT 5", " wait)"));
        SQL(unref)(pool);
        weir_test_end();
}

/* `SQL_BOUND_CLOSES`: a connection whose result was too large is closed, and not used again. */
static void
a_result_has_bounds(void)
{
        struct SQL(config) config = SQL_CONFIG_DEFAULT;

        weir_test_begin_real(2);
        config.name = "test";
        config.connections = 1;
        config.max_rows = 1000;
        config.max_bytes = 65536;
        config.clean_limit = WEIR_SEC(60);
        SQL_POOL *pool = SQL(new)(server_url(false), &config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
        struct seen seen = ask(pool, SQL_COUNT_TO(1000));
        CU_ASSERT(seen.status == 0 && seen.rows == 1000 && seen.columns == 1 && seen.number == 1);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1);

        seen = ask(pool, SQL_COUNT_TO(1001));
        CU_ASSERT_EQUAL(seen.status, -EMSGSIZE);
        CU_ASSERT_STRING_EQUAL(seen.problem, "the result has more than 1000 rows (max_rows)");
        CU_ASSERT(seen.rows == 0 && seen.number_failed == -ENOENT);
        seen = ask(pool, "SELECT repeat('x', 60000)");
        CU_ASSERT(seen.status == 0 && seen.rows == 1 && strncmp(seen.value, "xxxx", 4) == 0);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1 + SQL_BOUND_CLOSES);

        seen = ask(pool, "SELECT repeat('x', 40000) UNION ALL SELECT repeat('y', 40000)");
        CU_ASSERT_EQUAL(seen.status, -EMSGSIZE);
        CU_ASSERT_STRING_EQUAL(seen.problem, "the result has more than 65536 bytes (max_bytes)");
        seen = ask_prepared(pool, SQL_ECHO, 7); /* also a prepared one */
        CU_ASSERT(seen.status == 0 && seen.rows == 1 && seen.number == 7);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1 + 2 * SQL_BOUND_CLOSES);
        seen = ask_prepared(pool, SQL_COUNT_TO(100000000), -1); /* which nobody waits for the end of */
        CU_ASSERT_EQUAL(seen.status, -EMSGSIZE);
        CU_ASSERT(ask(pool, SQL_WRONG).status < 0);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 5").number, 5);
        CU_ASSERT_EQUAL(server_stats(pool).connects, 1 + 3 * SQL_BOUND_CLOSES);
        CU_ASSERT(server_stats(pool).failed == 4 && server_stats(pool).cancelled == 0);
        SQL(unref)(pool);
        weir_test_end();
}

static void
a_script_has_bounds_for_each_result(void)
{
        struct SQL(config) config = SQL_CONFIG_DEFAULT;
        struct seen seen = fresh();

        weir_test_begin_real(1);
        config.max_rows = 3;
        SQL_POOL *pool = SQL(new)(server_url(false), &config);
        const char *sql = "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3; SELECT 4 UNION ALL SELECT 5";
        weir_task_run(SQL(script_new)(pool, sql, see, &seen));
        CU_ASSERT(seen.status == 0 && seen.rows == 2 && seen.number == 4);
        seen = fresh();
        weir_task_run(SQL(script_new)(pool, "SELECT 1; " SQL_COUNT_TO(4) "; SELECT 6", see, &seen));
        CU_ASSERT_EQUAL(seen.status, -EMSGSIZE);
        CU_ASSERT_EQUAL(ask(pool, "SELECT 1").number, 1);
        SQL(unref)(pool);
        weir_test_end();
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
