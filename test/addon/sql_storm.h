/* test/addon/sql_storm.h: many flows at once, cancelled at any moment: each callback comes once, each query gets its own answer,
 * and no connection is lost. */
#ifndef WEIR_TEST_SQL_STORM_H
#define WEIR_TEST_SQL_STORM_H

#include "test/addon/sql_server.h"

static struct {
        SQL_POOL *pool;
        _Atomic int64_t left;
        _Atomic int64_t right, cancelled, wrong, flows;
} storm;

/* -- as many as possible -- */

struct flow {
        int64_t number; /* of the present query */
};

static void
check_answer(weir_task *query, void *context)
{
        const struct flow *flow = context;
        int64_t answer = -1;

        if (weir_task_status(query) == 0 && SQL(int)(query, 0, 0, &answer) == 0 && answer == flow->number)
                storm.right++;
        else
                storm.wrong++;
}

static weir_task *
next_query(void *context)
{
        struct flow *flow = context;

        flow->number = atomic_fetch_sub(&storm.left, 1);
        if (flow->number <= 0)
                return NULL;
        weir_task *query = SQL(query_new)(storm.pool, SQL_ECHO, check_answer, flow);
        SQL(add_int)(query, flow->number);
        SQL(set_prepared)(query);
        return query;
}

static void
end_flow(weir_task *task, void *context)
{
        (void)task, (void)context;
        storm.flows--;
}

/* Ends the runtime. */
static void
run_queries(SQL_POOL *pool, int64_t count)
{
        enum { FLOWS = 64 };
        static struct flow flows[FLOWS];

        storm.pool = pool;
        storm.left = count;
        storm.right = storm.wrong = 0;
        storm.flows = FLOWS;
        for (unsigned i = 0; i < FLOWS; i++)
                weir_task_start(weir_repeater_new(next_query, end_flow, &flows[i]));
        for (int64_t left = count; storm.flows > 0; left = storm.left)
                WEIR_TEST_EVENTUALLY(storm.flows == 0 || storm.left < left);
        CU_ASSERT_EQUAL(storm.right, count);
        CU_ASSERT_EQUAL(storm.wrong, 0);
        CU_ASSERT_EQUAL(server_stats(storm.pool).lost, 0);
        SQL(unref)(storm.pool);
        weir_test_end();
}

/* -- cancels -- */

struct act {
        _Atomic int calls;
        int status;
        int64_t number;
        bool is_right;
        weir_channel *rows;
};

static void
note_answer(weir_task *query, void *context)
{
        struct act *act = context;
        int64_t answer = -1;

        act->status = weir_task_status(query);
        act->is_right = act->status != 0 || (SQL(int)(query, 0, 0, &answer) == 0 && answer == act->number);
        act->calls++;
}

static void
note_end(weir_task *task, void *context)
{
        struct act *act = context;

        act->status = weir_task_status(task);
        act->is_right = true;
        act->calls++;
}

static void
push_steps(SQL_POOL *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, SQL(query_new)(transaction, "INSERT INTO storm VALUES (1)", NULL, NULL));
        weir_series_push(series, SQL(query_new)(transaction, "INSERT INTO storm VALUES (-1)", NULL, NULL));
}

static weir_task *
act_new(SQL_POOL *pool, struct act *act, uint64_t kind)
{
        weir_task *task;

        switch (kind) {
        case 0:
        case 1:
        case 2:
                task = SQL(query_new)(pool, kind == 2 ? SQL_ECHO_SLOWLY : SQL_ECHO, note_answer, act);
                SQL(add_int)(task, act->number);
                if (kind)
                        SQL(set_prepared)(task);
                return task;
        case 3:
                act->rows = SQL(rows_new)(2);
                task = SQL(query_new)(pool, SQL_COUNT_TO(1000), note_end, act);
                SQL(set_rows)(task, act->rows);
                return task;
        case 6: return SQL(query_new)(pool, SQL_COUNT_TO(1000), note_end, act); /* for a pool with bounds */
        case 4: return SQL(script_new)(pool, "SELECT 1; SELECT 2", note_end, act);
        default: return SQL(transaction_new)(pool, push_steps, note_end, act);
        }
}

static void
storm_begin(void)
{
        server_ask("DROP TABLE IF EXISTS storm");
        server_ask("CREATE TABLE storm (a int)");
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
}

/* Behind storm_begin.  `are_cut`: a query that is cancelled, or whose rows nobody takes, loses its connection; `is_bounded`: the
 * pool has no more than 999 rows of a result. */
static void
storm_of_cancels(SQL_POOL *pool, uint64_t salt, bool are_cut, bool is_bounded)
{
        enum { ACTS = 1500, BESIDE = 20 };
        static struct act acts[ACTS];
        weir_series *series[ACTS];
        struct weir_test_random random = {weir_test_seed() + salt};
        unsigned cancelled = 0, too_large = 0, wrong = 0;

        memset(acts, 0, sizeof acts);
        for (unsigned i = 0; i < ACTS; i++) {
                acts[i].number = i;
                weir_task *task = act_new(pool, &acts[i], weir_test_random_below(&random, is_bounded ? 7 : 6));
                if (weir_test_random_below(&random, 20) == 0)
                        SQL(set_limit)(task, 1 + (weir_nsec)weir_test_random_below(&random, 1000000));
                series[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series[i], task);
                weir_series_start(series[i]);
                if (i < BESIDE)
                        continue;
                unsigned old = i - BESIDE;
                if (weir_test_random_below(&random, 3) == 0)
                        weir_series_cancel(series[weir_test_random_below(&random, 2) ? i : old]);
                if (weir_test_random_below(&random, 3) > 0)
                        continue;
                for (unsigned at = old; at <= i; at++) /* rows that nobody takes keep their connection */
                        if (acts[at].rows)
                                weir_channel_close(acts[at].rows);
                WEIR_TEST_EVENTUALLY(acts[old].calls > 0);
        }
        for (unsigned i = 0; i < ACTS; i++) {
                if (acts[i].rows)
                        weir_channel_close(acts[i].rows);
                WEIR_TEST_EVENTUALLY(acts[i].calls > 0);
                weir_channel_unref(acts[i].rows);
                weir_series_unref(series[i]);
                cancelled += acts[i].status == -ECANCELED;
                too_large += acts[i].status == -EMSGSIZE;
                bool is_expected = acts[i].status == 0 || acts[i].status == -ECANCELED || acts[i].status == -ETIMEDOUT ||
                                   acts[i].status == -EPIPE || (is_bounded && acts[i].status == -EMSGSIZE);
                if (!is_expected)
                        printf("status %d\n", acts[i].status);
                wrong += !acts[i].is_right || acts[i].calls != 1 || !is_expected;
        }
        CU_ASSERT((too_large > 0) == is_bounded);
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(cancelled > 0);
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0 && server_stats(pool).waiting == 0 &&
                             server_stats(pool).connecting == 0);
        CU_ASSERT(server_stats(pool).lost <= (are_cut ? server_stats(pool).cancelled + ACTS / 4 + too_large : 0));
        printf("%u of %d were cancelled\n", cancelled, ACTS);
        SQL(unref)(pool);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT coalesce(sum(a), 0) FROM storm"), "0");
}

#endif
