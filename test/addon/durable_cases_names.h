/* test/addon/durable_cases_names.h: durable timers: names, and the operations on them. */
#ifndef WEIR_TEST_DURABLE_CASES_NAMES_H
#define WEIR_TEST_DURABLE_CASES_NAMES_H

#include "test/addon/durable_case.h"

static void
set_traced(void *store)
{
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
}

static void
a_trace_names_the_operation(void)
{
        begin();
        weir_durable *store = open_store();

        CU_ASSERT_TRUE(weir_test_waits_in_trace(set_traced, store, "durable: ", " a"));
        end(store);
}

static void
a_timer_is_delivered_when_it_is_due(void)
{
        begin();
        weir_durable *store = open_store();
        weir_nsec began = weir_wall_now();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "hello") == 0);
        uint64_t generation = seen.generation;
        CU_ASSERT(generation > 0);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "b", began + 2 * HOUR, "topic", NULL, 0, look, NULL)) == 0);
        CU_ASSERT(seen.generation > generation);
        weir_clock_advance(HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && got.at[0] == began + HOUR && got.due[0] == began + HOUR);
        CU_ASSERT(got.attempt[0] == 1 && got.token[0] > generation && got.generation[0] == generation);
        CU_ASSERT_STRING_EQUAL(got.payload[0], "hello");
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 2 && got.at[1] == began + 2 * HOUR);
        CU_ASSERT_STRING_EQUAL(got.payload[1], "");
        CU_ASSERT(get(store, "a") == -ENOENT && get(store, "b") == -ENOENT);
        end(store);
}

static void
a_timer_of_the_past_is_due_at_once(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", -HOUR, "x") == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(set(store, "b", WEIR_FOREVER, "x") == 0);
        weir_clock_advance(24 * HOUR);
        CU_ASSERT(got.count == 1 && cancel(store, "b") == 1);
        end(store);
}

/* -- cancelling and replacing -- */

static void
a_cancel_before_the_claim_decides(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(cancel(store, "a") == 0);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        uint64_t generation = seen.generation;
        CU_ASSERT(cancel(store, "a") == 1 && seen.generation == generation);
        CU_ASSERT(cancel(store, "a") == 0 && seen.generation == 0);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 0);
        end(store);
}

static void
a_cancel_behind_the_claim_changes_nothing(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 1, "x") == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && cancel(store, "a") == 0);
        CU_ASSERT(get(store, "a") == 0 && seen.info.state == WEIR_DURABLE_LEASED && seen.info.attempt == 1);
        weir_clock_advance(HOUR);
        CU_ASSERT(got.ended == 1 && got.status[0] == 0 && get(store, "a") == -ENOENT);

        got.takes = 0;
        got.failures = 2; /* the next one */
        CU_ASSERT(set(store, "a", 1, "x") == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 2 && cancel(store, "a") == 0); /* it waits for its next attempt */
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 3 && got.attempt[2] == 2);
        end(store);
}

static void
a_set_makes_a_new_generation(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "old") == 0);
        uint64_t former = seen.generation;
        CU_ASSERT(set(store, "a", 2 * HOUR, "new") == 0);
        CU_ASSERT(seen.generation > former);
        weir_clock_advance(2 * HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && got.generation[0] > former);
        CU_ASSERT_STRING_EQUAL(got.payload[0], "new");
        end(store);
}

/* -- moving -- */

static void
an_extension_moves_the_due_time(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", HOUR, look, NULL)) == 0);
        weir_clock_advance(2 * HOUR - 1);
        CU_ASSERT(got.count == 0);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", HOUR, look, NULL)) == 0);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", -HOUR / 2, look, NULL)) == 0);
        weir_clock_advance(HOUR / 2);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(weir_task_run(weir_durable_extend_new(store, "a", HOUR, look, NULL)) == -ENOENT);
        CU_ASSERT(weir_task_run(weir_durable_reset_new(store, "a", HOUR, look, NULL)) == -ENOENT);
        end(store);
}

static void
a_reset_begins_the_time_anew(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        CU_ASSERT(set(store, "a", HOUR, "x") == 0);
        uint64_t generation = seen.generation;
        for (int i = 0; i < 10; i++) {
                weir_clock_advance(HOUR - 1);
                CU_ASSERT(weir_task_run(weir_durable_reset_new(store, "a", HOUR, look, NULL)) == 0);
                CU_ASSERT_STRING_EQUAL(seen.names, "a");
                CU_ASSERT(seen.info.generation == generation && seen.info.due == weir_wall_now() + HOUR);
        }
        weir_clock_advance(HOUR - 1);
        CU_ASSERT(got.count == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1 && got.generation[0] == generation);
        end(store);
}

/* -- looking -- */

static void
a_list_has_the_order_of_the_names_and_goes_on_behind_one(void)
{
        begin();
        weir_durable *store = open_store();

        CU_ASSERT(set(store, "b", HOUR, "x") == 0 && set(store, "a/2", HOUR, "x") == 0 && set(store, "a/1", HOUR, "x") == 0);
        CU_ASSERT(set(store, "a0", HOUR, "x") == 0 && set(store, "a", HOUR, "x") == 0 && set(store, "\xff\xff", 1, "x") == 0);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "", NULL, 100, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a a/1 a/2 a0 b \xff\xff");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "a/", NULL, 1, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a/1");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "a/", "a/1", 10, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a/2");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "\xff", NULL, 10, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "\xff\xff");
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, NULL, NULL, 10, look, NULL)) == -EINVAL);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, "", NULL, 0, look, NULL)) == -EINVAL);
        end(store);
}

/* -- what is wrong -- */

static void
what_is_wrong_is_told(void)
{
        char large[WEIR_DURABLE_NAME_MAX + 2] = "";

        begin();
        weir_durable *store = open_store();
        memset(large, 'x', sizeof large - 1);
        CU_ASSERT(weir_durable_open("nonsense") == NULL && errno == EINVAL);
        CU_ASSERT(weir_durable_open(NULL) == NULL && errno == EINVAL);
        CU_ASSERT(weir_durable_open("oracle:x") == NULL && errno == EPROTONOSUPPORT);
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        config.lease = 1;
        CU_ASSERT(weir_durable_open_with(&config, url) == NULL && errno == EINVAL);
        config.lease = 0;
        config.look = 1; /* it would look all the time */
        CU_ASSERT(weir_durable_open_with(&config, url) == NULL && errno == EINVAL);
        CU_ASSERT(set(store, "", 0, "x") == -EINVAL);
        CU_ASSERT(set(store, large, 0, "x") == -ENAMETOOLONG);
        CU_ASSERT(set(NULL, "a", 0, "x") == -ENOMEM);
        CU_ASSERT(set(store, "y", WEIR_FOREVER, "x") == 0); /* behind the prefix that is too long */
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, large, NULL, 9, look, NULL)) == -ENAMETOOLONG);
        CU_ASSERT_STRING_EQUAL(seen.names, "");
        CU_ASSERT(weir_task_run(weir_durable_count_new(store, large, look, NULL)) == -ENAMETOOLONG);
        CU_ASSERT(weir_task_run(weir_durable_list_new(store, large + 1, NULL, 9, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "");
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "a", 0, NULL, NULL, 0, look, NULL)) == -EINVAL);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "a", 0, "t", NULL, 1, look, NULL)) == -EINVAL);
        CU_ASSERT(weir_task_run(weir_durable_set_new(store, "a", 0, "t", "", WEIR_DURABLE_PAYLOAD_MAX + 1, look, NULL)) ==
                  -EMSGSIZE);
        CU_ASSERT(weir_durable_on(store, "", take, NULL) == -EINVAL && weir_durable_on(store, "t", NULL, NULL) == -EINVAL);
        CU_ASSERT(weir_durable_on(NULL, "t", take, NULL) == -ENOMEM &&
                  weir_durable_on(store, large, take, NULL) == -ENAMETOOLONG);
        weir_task *task = weir_timer_new(0, NULL, NULL);
        CU_ASSERT(weir_durable_cancelled(task) == 0 && weir_durable_info(task, 0) == NULL && weir_durable_name(task) == NULL);
        CU_ASSERT(weir_durable_generation(task) == 0 && weir_durable_payload(task, NULL) == NULL);
        CU_ASSERT_PTR_NULL(weir_durable_problem(task));
        weir_task_dismiss(task);
        weir_task_dismiss(weir_durable_cancel_new(store, "a", look, NULL));
        weir_durable_close(NULL);
        CU_ASSERT(weir_durable_stats(store, NULL) == -EINVAL && weir_durable_stats(NULL, NULL) == -EINVAL);
        end(store);
}

#ifdef NOWHERE_URL
static void
note_status(weir_task *task, void *status)
{
        atomic_store((atomic_int *)status, weir_task_status(task));
}

/* An engine that is not there is another thing than a timer that is not.  On the real clock: it tries for a while. */
static void
no_engine_is_not_no_timer(void)
{
        static atomic_int status[6];

        CU_ASSERT_FATAL(weir_init(NULL) == 0);
        weir_durable *store = weir_durable_open_with(NULL, NOWHERE_URL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT(weir_task_start(weir_durable_get_new(store, "a", note_status, &status[0])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_reset_new(store, "a", 0, note_status, &status[1])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_extend_new(store, "a", 0, note_status, &status[2])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_put_back_new(store, "a", note_status, &status[3])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_forget_new(store, "a", note_status, &status[4])) == 0);
        CU_ASSERT(weir_task_start(weir_durable_cancel_new(store, "a", note_status, &status[5])) == 0);
        for (int i = 0; i < 6; i++) {
                WEIR_TEST_EVENTUALLY(atomic_load(&status[i]) != 0);
                CU_ASSERT(atomic_load(&status[i]) == -ECONNREFUSED);
        }
        end(store);
}
#endif

static void
a_cancel_of_the_task_ends_it_at_once(void)
{
        begin();
        weir_durable *store = open_store();
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_durable_set_after_new(store, "a", HOUR, "topic", NULL, 0, look, NULL));
        weir_series_cancel(series);
        CU_ASSERT(weir_series_run(series) == -ECANCELED);
        end(store);
}

/* A child of fork opens nothing, and what it has of its parent does nothing. */
static void
a_forked_child_is_told(void)
{
        int status = 1;

        begin();
        weir_durable *store = open_store();
        listen(store);
        pid_t child = fork();
        if (child == 0) {
                struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;
                bool is_told = weir_durable_open(url) == NULL && errno == ECHILD && weir_durable_stats(store, &stats) == -ECHILD;
                int failed = weir_task_run(weir_durable_set_after_new(store, "a", 0, "topic", NULL, 0, NULL, NULL));

                _exit(!is_told || failed != -ECHILD || weir_durable_on(store, "other", take, &got) != -ECHILD);
        }
        CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 0 && get(store, "a") == -ENOENT);
        end(store);
}

#endif
