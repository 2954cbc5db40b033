/* Durable timers whose engine fails for a while: operations say so, ends are repeated, handlers do not outlive their leases.
 *
 * A kind of engine of this suite stands before that of the memory, and fails the kinds of operations that a test has chosen. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <weir/clock.h>
#include <weir/runtime.h>
#include <weir/series.h>
#include <weir/timer.h>

#include "durable/store.h"
#include "test/support.h"

static _Atomic unsigned failing; /* a bit for each kind of operation */
static atomic_int failed;

static void
end_badly(weir_task *task, void *op)
{
        (void)task;
        snprintf(((struct weir__durable_op *)op)->reason, sizeof((struct weir__durable_op *)op)->reason, "the engine is on fire");
        weir__durable_op_end(op, -EIO);
}

static void
submit(struct weir__durable_engine *engine, struct weir__durable_op *op)
{
        if (atomic_load(&failing) >> op->kind & 1) {
                atomic_fetch_add(&failed, 1);
                weir_task_start(weir_empty_new(end_badly, op));
        } else {
                weir__durable_memory.submit(engine, op);
        }
}

static struct weir__durable_engine_kind faulty;

static weir_durable *
begin(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
        faulty = weir__durable_memory;
        faulty.submit = submit;
        weir_durable *store = weir_durable_open("memory:faulty");
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        store->engine->kind = &faulty;
        atomic_store(&failing, 0);
        atomic_store(&failed, 0);
        return store;
}

static void
end(weir_durable *store)
{
        atomic_store(&failing, 0);
        weir_durable_close(store);
        CU_ASSERT(weir_shutdown() == 0);
}

static void
fail_these(enum weir__durable_kind kind)
{
        atomic_store(&failing, 1u << kind);
}

static struct {
        int count, ended;
        unsigned attempt;
        int status;
        weir_nsec at;
        weir_nsec takes;
} got;

static void
on_pause(weir_task *timer, void *context)
{
        (void)context;
        got.ended++;
        got.status = weir_task_status(timer);
        got.at = weir_now();
}

static void
deliver(weir_task *delivery, void *context)
{
        (void)context;
        got.count++;
        got.attempt = weir_durable_attempt(delivery);
        if (got.takes)
                weir_series_push(weir_series_of(delivery), weir_timer_new(got.takes, on_pause, NULL));
}

static void
set_one(weir_durable *store, weir_nsec takes)
{
        memset(&got, 0, sizeof got);
        got.takes = takes;
        CU_ASSERT(weir_durable_on(store, "t", deliver, NULL) == 0);
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, "a", 0, "t", NULL, 0, NULL, NULL)) == 0);
}

static struct weir_durable_stats
stats_of(weir_durable *store)
{
        struct weir_durable_stats stats = WEIR_DURABLE_STATS_DEFAULT;

        CU_ASSERT(weir_durable_stats(store, &stats) == 0);
        return stats;
}

static char problem[100];

static void
note_problem(weir_task *task, void *context)
{
        (void)context;
        snprintf(problem, sizeof problem, "%s", weir_durable_problem(task));
}

static void
a_failed_operation_says_why(void)
{
        weir_durable *store = begin();

        fail_these(WEIR__DURABLE_SET);
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(store, "a", 0, "t", NULL, 0, note_problem, NULL)) == -EIO);
        CU_ASSERT_STRING_EQUAL(problem, "the engine is on fire");
        fail_these(WEIR__DURABLE_GET); /* a schedule asks for the time first */
        CU_ASSERT(weir_task_run(weir_durable_schedule_new(store, "b", "@daily", "UTC", WEIR_DURABLE_ALL, "t", NULL, 0,
                                                          note_problem, NULL)) == -EIO);
        CU_ASSERT_STRING_EQUAL(problem, "the engine is on fire");
        CU_ASSERT(stats_of(store).operations == 2 && stats_of(store).failed == 2);
        end(store);
}

static void
a_claim_that_fails_is_repeated(void)
{
        weir_durable *store = begin();

        fail_these(WEIR__DURABLE_CLAIM);
        set_one(store, 0);
        weir_clock_advance(WEIR_SEC(60));
        CU_ASSERT(got.count == 0 && atomic_load(&failed) > 50 && atomic_load(&failed) < 70); /* each second */
        atomic_store(&failing, 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 1 && got.attempt == 1);
        end(store);
}

static void
an_end_that_fails_is_repeated_within_the_lease(void)
{
        weir_durable *store = begin();

        fail_these(WEIR__DURABLE_END);
        set_one(store, 0);
        weir_clock_advance(WEIR_SEC(20));
        CU_ASSERT(got.count == 1 && atomic_load(&failed) > 10 && stats_of(store).running == 1);
        atomic_store(&failing, 0);
        weir_clock_advance(WEIR_SEC(60));
        CU_ASSERT(got.count == 1 && stats_of(store).acknowledged == 1 && stats_of(store).lost == 0);
        end(store);
}

static void
a_delivery_whose_end_is_never_told_comes_again(void)
{
        weir_durable *store = begin();

        fail_these(WEIR__DURABLE_END);
        set_one(store, 0);
        weir_clock_advance(WEIR_SEC(40));
        CU_ASSERT(got.count == 2 && got.attempt == 2 && stats_of(store).lost == 1);
        atomic_store(&failing, 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 2 && stats_of(store).acknowledged == 1);
        end(store);
}

static void
a_handler_ends_with_its_lease_when_that_cannot_be_renewed(void)
{
        weir_durable *store = begin();
        weir_nsec began = weir_now();

        set_one(store, WEIR_SEC(3600));
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1);
        fail_these(WEIR__DURABLE_RENEW);
        weir_clock_advance(WEIR_SEC(30) - 1);
        CU_ASSERT(got.ended == 0 && atomic_load(&failed) > 0);
        weir_clock_advance(1);
        CU_ASSERT(got.ended == 1 && got.status == -ETIMEDOUT && got.at == began + WEIR_SEC(30));
        atomic_store(&failing, 0);
        weir_clock_advance(WEIR_SEC(10));
        CU_ASSERT(got.count == 2 && got.attempt == 2);
        end(store);
}

static void
a_lease_that_is_renewed_late_holds(void)
{
        weir_durable *store = begin();

        set_one(store, WEIR_SEC(100));
        weir_clock_advance(0);
        fail_these(WEIR__DURABLE_RENEW);
        weir_clock_advance(WEIR_SEC(15)); /* the first renewal has failed */
        CU_ASSERT(atomic_load(&failed) == 1);
        atomic_store(&failing, 0);
        weir_clock_advance(WEIR_SEC(100));
        CU_ASSERT(got.count == 1 && got.ended == 1 && got.status == 0 && stats_of(store).acknowledged == 1);
        end(store);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_failed_operation_says_why),
                WEIR_TEST(a_claim_that_fails_is_repeated),
                WEIR_TEST(an_end_that_fails_is_repeated_within_the_lease),
                WEIR_TEST(a_delivery_whose_end_is_never_told_comes_again),
                WEIR_TEST(a_handler_ends_with_its_lease_when_that_cannot_be_renewed),
                WEIR_TEST(a_lease_that_is_renewed_late_holds),
        };

        return weir_test_main("durable timers whose engine fails", tests, sizeof tests / sizeof *tests);
}
