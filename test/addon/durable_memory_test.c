/* Durable timers with each allocation refused in turn: operations say so, and nothing is lost or stuck. */
#include <weir/durable.h>
#include <weir/runtime.h>
#include <weir/series.h>
#include <weir/timer.h>

#include "test/addon/durable_outside.h"
#include "test/addon/redis_server.h"
#include "test/memory_faults.h"
#include "test/support.h"

static _Atomic int delivered, failures;

static void
deliver(weir_task *delivery, void *context)
{
        (void)context;
        if (atomic_fetch_sub(&failures, 1) > 0)
                weir_series_fail(weir_series_of(delivery), -EIO);
        else
                atomic_fetch_add(&delivered, 1);
}

static _Atomic int statuses[8];

static void
note(weir_task *task, void *status)
{
        *(_Atomic int *)status = weir_task_status(task);
}

/* All operations, one after the other.  Each one succeeds, or has no memory. */
static void
run(weir_durable *store)
{
        weir_series *series = weir_series_new(NULL, NULL);

        for (int i = 0; i < 8; i++)
                statuses[i] = -ENOMEM;
        weir_series_push(series, weir_durable_set_after_new(store, "a", 0, "t", "x", 1, note, &statuses[0]));
        weir_series_push(series, weir_durable_set_after_new(store, "b", WEIR_FOREVER, "t", "x", 1, note, &statuses[1]));
        weir_series_push(series, weir_durable_list_new(store, "", NULL, 100, note, &statuses[2]));
        weir_series_push(series, weir_durable_extend_new(store, "b", WEIR_SEC(1), note, &statuses[3]));
        weir_series_push(series, weir_durable_count_new(store, "", note, &statuses[4]));
        weir_series_push(series, weir_durable_schedule_new(store, "c", "@yearly", "UTC", WEIR_DURABLE_ALL, "t", "x", 1, note,
                                                           &statuses[5]));
        weir_series_push(series, weir_durable_get_new(store, "c", note, &statuses[6]));
        weir_series_push(series, weir_durable_cancel_new(store, "b", note, &statuses[7]));
        weir_series_run(series);
        for (int i = 0; i < 8; i++)
                CU_ASSERT(statuses[i] == 0 || statuses[i] == -ENOMEM || statuses[i] == -ENOENT);
}

static void
survive_each_refused_allocation(const char *url)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;
        struct weir_config runtime = WEIR_CONFIG_DEFAULT;
        int number = 0;

        config.delay = WEIR_MSEC(1);
        config.look = WEIR_MSEC(20);
        config.lease = WEIR_MSEC(100);
        config.attempts = 1000;
        runtime.pollers = 1;
        do {
                CU_ASSERT_FATAL(weir_init(&runtime) == 0);
                int64_t before = atomic_load(&live);
                weir_durable *store = weir_durable_open_with(&config, url);
                CU_ASSERT_FATAL(store != NULL && weir_durable_on(store, "t", deliver, NULL) == 0);
                atomic_store(&failures, 1);
                atomic_store(&delivered, 0);
                atomic_store(&refused, false);
                atomic_store(&left, number++);
                atomic_store(&armed, true);
                run(store);
                if (statuses[0] == 0)
                        WEIR_TEST_EVENTUALLY(atomic_load(&delivered) > 0); /* also if the refusal came in the delivery */
                atomic_store(&armed, false);
                atomic_store(&delivered, 0);
                CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, "d", 0, "t", NULL, 0, NULL, NULL)) == 0);
                WEIR_TEST_EVENTUALLY(atomic_load(&delivered) > 0);
                weir_durable_close(store);
                CU_ASSERT(weir_shutdown() == 0);
                CU_ASSERT(atomic_load(&live) <= before);
        } while (atomic_load(&refused));
        CU_ASSERT(number > 20);
        printf("%d allocations ", number);
}

static void
each_refused_allocation_is_survived(void)
{
        survive_each_refused_allocation("memory:faults");
}

static void
each_one_is_survived_with_redis(void)
{
        char url[60];

        if (!redis_is_installed() || !outside_is_built("redis://127.0.0.1"))
                return;
        struct redis_server server = {0};
        redis_start(&server, "");
        snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
        survive_each_refused_allocation(url);
        redis_stop(&server);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_refused_allocation_is_survived),
                WEIR_TEST(each_one_is_survived_with_redis),
        };

        return weir_test_main("durable timers without memory", tests, sizeof tests / sizeof *tests);
}
