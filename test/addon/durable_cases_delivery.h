/* test/addon/durable_cases_delivery.h: durable timers: leases, retries, dead timers, closing, and several nodes. */
#ifndef WEIR_TEST_DURABLE_CASES_DELIVERY_H
#define WEIR_TEST_DURABLE_CASES_DELIVERY_H

#include "test/addon/durable_case.h"

/* -- leases -- */

static void
a_handler_of_a_former_generation_ends_nothing(void)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        begin();
        weir_durable *store = open_store();
        listen(store);
        got.takes = WEIR_SEC(5);
        CU_ASSERT(set(store, "a", 1, "old") == 0);
        weir_clock_advance(1);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(set(store, "a", WEIR_SEC(60), "new") == 0);
        weir_clock_advance(WEIR_SEC(59));
        CU_ASSERT(got.ended == 1 && get(store, "a") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 2);
        CU_ASSERT_STRING_EQUAL(got.payload[1], "new");
        weir_clock_advance(WEIR_SEC(5));
        CU_ASSERT(weir_durable_stats(store, &stats) == 0);
        CU_ASSERT(stats.claimed == 2 && stats.acknowledged == 1 && stats.lost == 1 && stats.running == 0);
        end(store);
}

static void
a_renewal_that_is_refused_ends_the_flow(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 1, "old") == 0);
        weir_clock_advance(1);
        CU_ASSERT(set(store, "a", WEIR_FOREVER, "new") == 0);
        weir_clock_advance(WEIR_SEC(11)); /* a third of the lease */
        CU_ASSERT(got.ended == 1 && got.status[0] == -ECANCELED);
        CU_ASSERT(cancel(store, "a") == 1);
        end(store);
}

static void
a_lease_is_renewed_while_the_handler_runs(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);

        listen(store);
        CU_ASSERT(weir_durable_on(other, "topic", take, &got) == 0);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 1, "x") == 0);
        weir_clock_advance(HOUR - 1);
        CU_ASSERT(got.count == 1 && got.ended == 0);
        weir_clock_advance(2);
        CU_ASSERT(got.count == 1 && got.ended == 1 && got.status[0] == 0 && get(store, "a") == -ENOENT);
        weir_durable_close(other);
        end(store);
}

/* -- failures -- */

static void
a_failure_is_retried_later_each_time(void)
{
        begin();
        weir_durable *store = open_store();
        weir_nsec began = weir_wall_now();

        listen(store);
        got.failures = 3;
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        CU_ASSERT(get(store, "a") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 1);
        CU_ASSERT_STRING_EQUAL(seen.problem, weir_strerror(-EIO));
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 4 && got.attempt[3] == 4);
        CU_ASSERT(got.at[1] == began + WEIR_SEC(1) && got.at[2] == began + WEIR_SEC(3) && got.at[3] == began + WEIR_SEC(7));
        CU_ASSERT(got.token[3] > got.token[2] && got.token[2] > got.token[1] && got.generation[3] == got.generation[0]);
        CU_ASSERT(get(store, "a") == -ENOENT);
        end(store);
}

static void
a_timer_is_dead_after_its_attempts(void)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        begin();
        weir_durable *store = open_store();
        listen(store);
        got.failures = 11;
        CU_ASSERT(set(store, "a/1", 0, "x") == 0);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(got.count == 10);
        CU_ASSERT(set(store, "a/2", HOUR, "x") == 0);
        CU_ASSERT(weir_task_run(weir_durable_dead_new(store, "a/", NULL, 10, look, NULL)) == 0);
        CU_ASSERT_STRING_EQUAL(seen.names, "a/1");
        CU_ASSERT(weir_task_run(weir_durable_count_new(store, "a/", look, NULL)) == 0);
        CU_ASSERT(seen.counted[WEIR_DURABLE_PENDING] == 1 && seen.counted[WEIR_DURABLE_DEAD] == 1);
        CU_ASSERT(cancel(store, "a/1") == 0);
        CU_ASSERT(weir_task_run(weir_durable_put_back_new(store, "a/2", look, NULL)) == -ENOENT && seen.generation == 0);
        CU_ASSERT(weir_task_run(weir_durable_put_back_new(store, "a/1", look, NULL)) == 0);
        uint64_t generation = seen.generation;
        weir_clock_advance(0);
        CU_ASSERT(got.count == 11 && got.attempt[10] == 1 && generation > got.generation[9] && got.generation[10] == generation);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 12 && get(store, "a/1") == -ENOENT);
        CU_ASSERT(weir_durable_stats(store, &stats) == 0 && stats.dead == 1 && stats.retried == 10 && stats.acknowledged == 1);

        got.failures = 100;
        CU_ASSERT(set(store, "a/1", 0, "x") == 0);
        weir_clock_advance(2 * HOUR);
        CU_ASSERT(weir_task_run(weir_durable_forget_new(store, "a/1", look, NULL)) == 0);
        CU_ASSERT(get(store, "a/1") == -ENOENT);
        CU_ASSERT(weir_task_run(weir_durable_forget_new(store, "a/1", look, NULL)) == -ENOENT);
        end(store);
}

/* -- closing -- */

static void
a_close_waits_for_handlers(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);
        weir_nsec began = weir_now();

        listen(store);
        got.takes = WEIR_SEC(20);
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        weir_durable_close(store);
        CU_ASSERT(weir_now() == began + WEIR_SEC(20) && got.ended == 1 && got.status[0] == 0);
        CU_ASSERT(get(other, "a") == -ENOENT);
        end(other);
}

static void
a_close_puts_back_what_takes_too_long(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);
        weir_nsec began = weir_now();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        weir_durable_close(store);
        CU_ASSERT(weir_now() == began + WEIR_SEC(30) && got.ended == 1 && got.status[0] == -ECANCELED);
        CU_ASSERT(get(other, "a") == 0 && seen.info.state == WEIR_DURABLE_PENDING && seen.info.attempt == 1);
        got.takes = 0;
        CU_ASSERT(weir_durable_on(other, "topic", take, &got) == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 2 && got.attempt[1] == 2);
        end(other);
}

static void
a_shutdown_leaves_the_timers_of_its_handlers(void)
{
        begin();
        weir_durable *store = open_store();

        listen(store);
        got.takes = HOUR;
        CU_ASSERT(set(store, "a", 0, "x") == 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1);
        CU_ASSERT(weir_shutdown() == 0);
        CU_ASSERT(got.ended == 1 && got.status[0] == -ESHUTDOWN);
        weir_durable_close(store);
}

/* -- several nodes -- */

static void
another_node_is_woken_by_an_earlier_timer(void)
{
        begin();
        weir_durable *store = open_store();
        weir_durable *other = weir_durable_open(url);
        weir_nsec began = weir_wall_now();

        listen(other);
        CU_ASSERT(set(store, "late", HOUR, "late") == 0);
        CU_ASSERT(set(store, "soon", WEIR_SEC(1), "soon") == 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 1 && got.at[0] == began + WEIR_SEC(1));
        weir_clock_advance(HOUR);
        CU_ASSERT(got.count == 2);
        weir_durable_close(other);
        end(store);
}

static void
count_one(weir_task *delivery, void *times)
{
        ((int *)times)[atoi(weir_durable_payload(delivery, NULL))]++;
}

static void
many_timers_are_shared_and_each_comes_once(void)
{
        static int times[1000];

        begin();
        weir_durable *stores[3] = {open_store(), open_store(), open_store()};
        memset(&got, 0, sizeof got);
        memset(times, 0, sizeof times);
        for (int i = 0; i < 1000; i++) {
                char name[20];

                snprintf(name, sizeof name, "%d", i);
                CU_ASSERT(weir_task_start(weir_durable_set_after_new(stores[i % 3], name, WEIR_SEC(i % 10), "many", name,
                                                                     strlen(name), NULL, NULL)) == 0);
        }
        weir_clock_advance(0);
        for (int i = 0; i < 3; i++)
                CU_ASSERT(weir_durable_on(stores[i], "many", count_one, times) == 0);
        weir_clock_advance(WEIR_SEC(20));
        int right = 0;
        for (int i = 0; i < 1000; i++)
                right += times[i] == 1;
        CU_ASSERT(right == 1000);
        CU_ASSERT(weir_task_run(weir_durable_count_new(stores[0], "", look, NULL)) == 0 &&
                  seen.counted[0] + seen.counted[1] == 0);
        weir_durable_close(stores[1]);
        weir_durable_close(stores[2]);
        end(stores[0]);
}

#endif
