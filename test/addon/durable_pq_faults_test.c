/* Durable timers in PostgreSQL whose server is killed, whose connections are cut, and whose transactions meet. */
#include <stdatomic.h>

#include "test/addon/durable_pq.h"

#include <weir/flow.h>
#include <weir/runtime.h>
#include <weir/timer.h>

#define NAMES 200000

static atomic_bool is_over;
static atomic_int next_name, kept, failed, loops;
static _Atomic unsigned char delivered[NAMES];
static bool is_kept[NAMES]; /* each is written by one callback */

static void
begin(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        CU_ASSERT_FATAL(weir_init(&config) == 0);
        atomic_store(&is_over, false);
        atomic_store(&next_name, 0);
        atomic_store(&kept, 0);
        atomic_store(&failed, 0);
        memset(is_kept, 0, sizeof is_kept);
        for (int i = 0; i < NAMES; i++)
                atomic_store_explicit(&delivered[i], 0, memory_order_relaxed);
}

static weir_durable *
open_store(const char *url, weir_nsec look)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        config.lease = WEIR_SEC(2);
        config.look = look;
        config.attempts = 100;
        weir_durable *store = weir_durable_open_with(&config, url);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        return store;
}

static void
deliver(weir_task *delivery, void *context)
{
        (void)context;
        atomic_fetch_add(&delivered[atoi(weir_durable_name(delivery))], 1);
}

/* -- load: each loop sets a timer, and the next one when that has ended -- */

static void
on_set(weir_task *task, void *context)
{
        bool *is_set = context;

        if (weir_task_status(task) == 0) {
                *is_set = true;
                atomic_fetch_add(&kept, 1);
        } else {
                atomic_fetch_add(&failed, 1);
                CU_ASSERT(strlen(weir_durable_problem(task)) > 0);
        }
}

static weir_task *
next_set(void *store)
{
        int number = atomic_fetch_add(&next_name, 1);
        char name[20];

        if (atomic_load(&is_over) || number >= NAMES)
                return NULL;
        snprintf(name, sizeof name, "%d", number);
        return weir_durable_set_after_new(store, name, WEIR_MSEC(number % 50), "topic", name, 5, on_set, &is_kept[number]);
}

static void
on_loop(weir_task *loop, void *context)
{
        (void)loop, (void)context;
        atomic_fetch_sub(&loops, 1);
}

static void
load(weir_durable *store)
{
        for (int i = 0; i < 50; i++) {
                atomic_fetch_add(&loops, 1);
                CU_ASSERT(weir_task_start(weir_repeater_new(next_set, on_loop, store)) == 0);
        }
}

static bool
all_are_delivered(void)
{
        int last = atomic_load(&next_name);

        for (int i = 0; i < last && i < NAMES; i++)
                if (is_kept[i] && !atomic_load(&delivered[i]))
                        return false;
        return true;
}

static void
a_server_is_killed_in_the_middle_of_load(void)
{
        begin();
        const char *url = pq_url();
        weir_durable *store = open_store(url, WEIR_SEC(1));
        weir_durable *other = open_store(url, WEIR_SEC(1));

        CU_ASSERT(weir_durable_on(store, "topic", deliver, NULL) == 0 && weir_durable_on(other, "topic", deliver, NULL) == 0);
        load(store);
        load(other);
        for (int round = 0; round < 3; round++) {
                int before = atomic_load(&kept);

                WEIR_TEST_EVENTUALLY(atomic_load(&kept) > before + 500); /* it goes on by itself */
                server_kill();
                server_start();
        }
        int before = atomic_load(&kept);
        WEIR_TEST_EVENTUALLY(atomic_load(&kept) > before + 500);
        atomic_store(&is_over, true);
        WEIR_TEST_EVENTUALLY(atomic_load(&loops) == 0);
        WEIR_TEST_EVENTUALLY(all_are_delivered());
        CU_ASSERT(atomic_load(&failed) > 0); /* those that were under way */
        weir_durable_close(other);
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

/* -- rings -- */

static uint64_t
rings_of(weir_durable *store)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        CU_ASSERT(weir_durable_stats(store, &stats) == 0);
        return stats.rings;
}

static int
set_name(weir_durable *store, const char *name)
{
        return weir_task_run(weir_durable_set_after_new(store, name, 0, "topic", NULL, 0, NULL, NULL));
}

static void
a_notification_wakes_another_node_and_a_cut_is_made_up_for(void)
{
        begin();
        static const char cut[] = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                  " WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()";
        const char *url = pq_url();
        weir_durable *store = open_store(url, WEIR_SEC(3600));
        weir_durable *other = open_store(url, WEIR_SEC(3600));

        CU_ASSERT(set_name(store, "0") == 0);
        CU_ASSERT(weir_durable_on(other, "topic", deliver, NULL) == 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&delivered[0]) == 1 && rings_of(other) > 0); /* it listens now */
        CU_ASSERT(set_name(store, "1") == 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&delivered[1]) == 1 && rings_of(other) >= 2);
        /* What a node has notified itself does not ring it; a LISTEN that is made anew would. */
        uint64_t before = rings_of(other);
        for (int i = 10; i < 30; i++) {
                char name[20];

                snprintf(name, sizeof name, "%d", i);
                CU_ASSERT(set_name(other, name) == 0);
                WEIR_TEST_EVENTUALLY(atomic_load(&delivered[i]) == 1);
        }
        CU_ASSERT(rings_of(other) < before + 10);
        for (int i = 2; i < 6; i++) {
                uint64_t rings = rings_of(other);
                char name[20];

                snprintf(name, sizeof name, "%d", i);
                WEIR_TEST_EVENTUALLY(atoi(server_ask(cut)) > 0); /* it may not listen yet, behind the cut before */
                CU_ASSERT(set_name(store, name) == 0);
                WEIR_TEST_EVENTUALLY(atomic_load(&delivered[i]) == 1);
                WEIR_TEST_EVENTUALLY(rings_of(other) > rings); /* it listens again */
        }
        weir_durable_close(other);
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

/* -- transactions that meet -- */

static _Atomic int serial_ended, serial_failed, serial_other;

static void
on_serial(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == -EAGAIN)
                atomic_fetch_add(&serial_failed, 1);
        else if (weir_task_status(task) && weir_task_status(task) != -ENOENT)
                atomic_fetch_add(&serial_other, 1);
        atomic_fetch_add(&serial_ended, 1);
}

/* With an isolation level in which the server undoes what meets.  It is tried again. */
static void
transactions_that_the_server_undoes_are_tried_again(void)
{
        char url[250];

        begin();
        snprintf(url, sizeof url, "%s%%20-cdefault_transaction_isolation%%3Dserializable", pq_url());
        weir_durable *stores[2] = {open_store(url, WEIR_SEC(1)), open_store(url, WEIR_SEC(1))};
        CU_ASSERT(set_name(stores[0], "0") == 0);
        for (int i = 0; i < 1000; i++) {
                char name[20];

                snprintf(name, sizeof name, "%d", i % 10);
                weir_task_start(
                        weir_durable_set_after_new(stores[i % 2], name, WEIR_SEC(3600), "topic", NULL, 0, on_serial, NULL));
                weir_task_start(weir_durable_reset_new(stores[1 - i % 2], name, WEIR_SEC(3600), on_serial, NULL));
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&serial_ended) == 2000);
        CU_ASSERT(atomic_load(&serial_other) == 0);
        CU_ASSERT(atomic_load(&serial_failed) < 1000);
        weir_durable_close(stores[0]);
        weir_durable_close(stores[1]);
        CU_ASSERT(weir_shutdown() == 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_server_is_killed_in_the_middle_of_load),
                WEIR_TEST(a_notification_wakes_another_node_and_a_cut_is_made_up_for),
                WEIR_TEST(transactions_that_the_server_undoes_are_tried_again),
        };

        return server_main("durable timers in PostgreSQL, with faults", tests, sizeof tests / sizeof *tests);
}
