/* test/addon/mariadb_storm_test.c: many flows at once, cancelled at any moment: each callback comes once, each query gets its own
 * answer, and no connection is lost. */
#include "test/addon/mariadb_server.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_BYTES 1000000000 /* what was freed is kept for a while */
#else
#define MOST_BYTES 10000000
#endif

static struct {
        weir_mariadb *pool;
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

        if (weir_task_status(query) == 0 && weir_mariadb_int(query, 0, 0, &answer) == 0 && answer == flow->number)
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
        weir_task *query = weir_mariadb_query_new(storm.pool, "SELECT ?", check_answer, flow);
        weir_mariadb_add_int(query, flow->number);
        weir_mariadb_set_prepared(query);
        return query;
}

static void
end_flow(weir_task *task, void *context)
{
        (void)task, (void)context;
        storm.flows--;
}

static void
run_queries(bool is_tcp, int64_t count)
{
        enum { FLOWS = 64 };
        static struct flow flows[FLOWS];

        weir_test_begin_real(2);
        storm.pool = server_pool(4, is_tcp);
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
        weir_mariadb_unref(storm.pool);
        weir_test_end();
}

static void
many_queries_get_their_answers(void)
{
        run_queries(false, 48000);
        run_queries(true, 10000);
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
        act->is_right = act->status != 0 || (weir_mariadb_int(query, 0, 0, &answer) == 0 && answer == act->number);
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
push_steps(weir_mariadb *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_mariadb_query_new(transaction, "INSERT INTO test.storm VALUES (1)", NULL, NULL));
        weir_series_push(series, weir_mariadb_query_new(transaction, "INSERT INTO test.storm VALUES (-1)", NULL, NULL));
}

static weir_task *
act_new(weir_mariadb *pool, struct act *act, uint64_t kind)
{
        weir_task *task;

        switch (kind) {
        case 0:
        case 1:
        case 2:
                task = weir_mariadb_query_new(pool, kind == 2 ? "SELECT ?, sleep(0.002)" : "SELECT ?", note_answer, act);
                weir_mariadb_add_int(task, act->number);
                if (kind)
                        weir_mariadb_set_prepared(task);
                return task;
        case 3:
                act->rows = weir_mariadb_rows_new(2);
                task = weir_mariadb_query_new(pool, "SELECT seq FROM seq_1_to_1000", note_end, act);
                weir_mariadb_set_rows(task, act->rows);
                return task;
        case 4: return weir_mariadb_script_new(pool, "SELECT 1; SELECT 2", note_end, act);
        default: return weir_mariadb_transaction_new(pool, push_steps, note_end, act);
        }
}

static void
storm_of_cancels(bool is_tcp)
{
        enum { ACTS = 1500, BESIDE = 20 };
        static struct act acts[ACTS];
        weir_series *series[ACTS];
        struct weir_test_random random = {weir_test_seed() + is_tcp};
        unsigned cancelled = 0, wrong = 0;

        server_ask("DROP TABLE IF EXISTS test.storm");
        server_ask("CREATE TABLE test.storm (a int)");
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        weir_mariadb *pool = server_pool(3, is_tcp);
        memset(acts, 0, sizeof acts);
        for (unsigned i = 0; i < ACTS; i++) {
                acts[i].number = i;
                weir_task *task = act_new(pool, &acts[i], weir_test_random_below(&random, 6));
                if (weir_test_random_below(&random, 20) == 0)
                        weir_mariadb_set_limit(task, 1 + (weir_nsec)weir_test_random_below(&random, 1000000));
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
                if (acts[i].status && acts[i].status != -ECANCELED && acts[i].status != -ETIMEDOUT && acts[i].status != -EPIPE)
                        printf("status %d\n", acts[i].status);
                wrong += !acts[i].is_right || acts[i].calls != 1 ||
                         (acts[i].status && acts[i].status != -ECANCELED && acts[i].status != -ETIMEDOUT &&
                          acts[i].status != -EPIPE);
        }
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT(cancelled > 0);
        WEIR_TEST_EVENTUALLY(server_stats(pool).busy == 0 && server_stats(pool).waiting == 0 &&
                             server_stats(pool).connecting == 0);
        CU_ASSERT(server_stats(pool).lost <= server_stats(pool).cancelled + ACTS / 4); /* those of rows, too */
        printf("%u of %d were cancelled\n", cancelled, ACTS);
        weir_mariadb_unref(pool);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(server_ask("SELECT coalesce(sum(a), 0) FROM test.storm"), "0");
}

static void
cancels_at_any_moment(void)
{
        storm_of_cancels(false);
        storm_of_cancels(true);
}

/* -- what is left behind -- */

static struct {
        weir_mariadb *pool;
        _Atomic int left, ended, running;
        weir_series *series[64];
} rush;

static void
count_end(weir_task *query, void *context)
{
        (void)query, (void)context;
        rush.ended++;
}

static void
rush_of(int count)
{
        struct weir_test_random random = {weir_test_seed()};

        for (int i = 0; i < count; i++) {
                weir_series **place = &rush.series[i % 64];
                weir_task *query = weir_mariadb_query_new(rush.pool, i % 5 ? "SELECT ?" : "SELECT sleep(?)", count_end, NULL);

                if (*place) {
                        if (weir_test_random_below(&random, 20) == 0)
                                weir_series_cancel(*place);
                        int old = i - 64;
                        WEIR_TEST_EVENTUALLY(rush.ended > old - 128);
                        weir_series_unref(*place);
                }
                weir_mariadb_add_text(query, i % 5 ? "1" : "0.0001");
                *place = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(*place, query);
                weir_series_start(*place);
        }
        for (int i = 0; i < 64; i++) {
                if (rush.series[i]) {
                        weir_series_cancel(rush.series[i]);
                        weir_series_unref(rush.series[i]);
                }
                rush.series[i] = NULL;
        }
        WEIR_TEST_EVENTUALLY(rush.ended == count);
        rush.ended = 0;
}

static void
nothing_is_left_behind(void)
{
        unsigned descriptors = 0, threads = 0;
        size_t bytes = 0;

        for (int round = 0; round < 3; round++) {
                weir_test_begin_real(2);
                weir_log_set(NULL, NULL);
                rush.pool = server_pool(4, round % 2);
                rush_of(round == 0 ? 2000 : 20000);
                weir_mariadb_unref(rush.pool);
                weir_test_end();
                if (round == 0) {
                        descriptors = weir_test_entries_of("/proc/self/fd");
                        threads = weir_test_threads();
                }
                if (round == 1)
                        bytes = weir_test_resident_bytes();
        }
        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
        CU_ASSERT(weir_test_threads_become(threads));
        CU_ASSERT(weir_test_resident_bytes() < bytes + MOST_BYTES);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(many_queries_get_their_answers),
                WEIR_TEST(cancels_at_any_moment),
                WEIR_TEST(nothing_is_left_behind),
        };

        return server_main("mariadb_storm", tests, sizeof tests / sizeof *tests);
}
