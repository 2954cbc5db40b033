/* Durable timers whose engine fails for a while: operations say so, ends are repeated, handlers do not outlive their leases.
 *
 * A kind of engine of this suite stands before that of the memory, and fails the kinds of operations that a test has chosen.
 * The linker puts functions of this suite before some of weir, which have no memory then (test/CMakeLists.txt). */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <weir/clock.h>
#include <weir/debug.h>
#include <weir/flow.h>
#include <weir/runtime.h>
#include <weir/series.h>
#include <weir/ticker.h>
#include <weir/timer.h>
#include <weir/waitgroup.h>

#include "durable/store.h"
#include "test/support.h"

static _Atomic unsigned failing; /* a bit for each kind of operation */
static atomic_int failed, fault = -EIO;

static void
end_badly(weir_task *task, void *op)
{
        (void)task;
        snprintf(((struct weir__durable_op *)op)->reason, sizeof((struct weir__durable_op *)op)->reason, "the engine is on fire");
        weir__durable_op_end(op, atomic_load(&fault));
}

static atomic_bool is_quick;

static void *
end_well(void *context)
{
        struct weir__durable_op *op = context;

        op->is_done = true;
        weir__durable_op_end(op, 0);
        return NULL;
}

static atomic_bool is_holding;
static _Atomic(struct weir__durable_op *) held; /* the engine takes its time with this one */

static void
submit(struct weir__durable_engine *engine, struct weir__durable_op *op)
{
        pthread_t thread;

        if (atomic_exchange(&is_holding, false)) {
                atomic_store(&held, op);
        } else if (atomic_load(&failing) >> op->kind & 1) {
                atomic_fetch_add(&failed, 1);
                weir_task_start(weir_empty_new(end_badly, op));
        } else if (op->kind == WEIR__DURABLE_END && atomic_load(&is_quick)) { /* it is over when this function returns */
                CU_ASSERT_FATAL(pthread_create(&thread, NULL, end_well, op) == 0 && pthread_join(thread, NULL) == 0);
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
        const char *words = weir_durable_problem(task);

        (void)context;
        CU_ASSERT_EQUAL(words == NULL, weir_task_status(task) == 0);
        snprintf(problem, sizeof problem, "%s", words ? words : "");
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
        weir_clock_advance(WEIR_SEC(10) + WEIR_MSEC(500));
        CU_ASSERT(atomic_load(&failed) == 3); /* each 200 ms from the first one on */
        weir_clock_advance(WEIR_SEC(19));
        atomic_store(&failing, 0); /* just before the end of the lease */
        weir_clock_advance(WEIR_SEC(100));
        CU_ASSERT(got.count == 1 && got.ended == 1 && got.status == 0 && stats_of(store).acknowledged == 1);
        end(store);
}

/* The engine has gone while the last ends are told. */
static void
a_close_does_not_wait_longer_than_it_says(void)
{
        weir_durable *store = begin();
        weir_nsec began = weir_now();

        store->config.close_limit = WEIR_SEC(5);
        fail_these(WEIR__DURABLE_END);
        set_one(store, 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 1 && stats_of(store).running == 1);
        weir_durable_close(store);
        CU_ASSERT(weir_now() >= began + WEIR_SEC(6) && weir_now() < began + WEIR_SEC(7));
        CU_ASSERT(weir_shutdown() == 0);
}

/* A status of the engine that a deadline may have as well. */
static void
a_timeout_of_the_engine_has_its_words(void)
{
        weir_durable *store = begin();

        atomic_store(&fault, -ETIMEDOUT);
        fail_these(WEIR__DURABLE_GET);
        CU_ASSERT(weir_task_run(weir_durable_get_new(store, "a", note_problem, NULL)) == -ETIMEDOUT);
        CU_ASSERT_STRING_EQUAL(problem, "the engine is on fire");
        atomic_store(&fault, -EIO);
        end(store);
}

/* A thread of the engine frees the operation while the one that has submitted it goes on. */
static void
an_end_may_be_over_before_its_submit_has_returned(void)
{
        weir_durable *store = begin();

        fail_these(WEIR__DURABLE_END);
        set_one(store, 0);
        weir_clock_advance(0);
        CU_ASSERT(got.count == 1 && stats_of(store).running == 1);
        atomic_store(&failing, 0);
        atomic_store(&is_quick, true);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(stats_of(store).acknowledged == 1 && stats_of(store).running == 0);
        atomic_store(&is_quick, false);
        end(store);
}

/* -- a dump -- */

static void
expect_in_dump(weir_durable *store, weir_task *task, const char *expected)
{
        static char text[65536];
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_waitgroup *group = weir_waitgroup_new();
        FILE *file = tmpfile();

        atomic_store(&is_holding, true);
        weir_series_push(series, task);
        weir_series_start_waited(series, group);
        WEIR_TEST_EVENTUALLY(atomic_load(&held) != NULL);
        CU_ASSERT(weir_debug_dump(fileno(file)) == 0);
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
        weir__durable_memory.submit(store->engine, atomic_exchange(&held, NULL));
        weir_waitgroup_wait(group, WEIR_FOREVER);
        weir_waitgroup_free(group);
        CU_ASSERT(weir_series_status(series) == 0);
        weir_series_unref(series);
}

static void
a_dump_names_the_operation_and_its_timer(void)
{
        weir_durable *store = begin();

        expect_in_dump(store, weir_durable_set_after_new(store, "session/1", WEIR_SEC(1), "t", NULL, 0, NULL, NULL),
                       "promise pending: durable: set session/1\n");
        expect_in_dump(store,
                       weir_durable_schedule_new(store, "nightly", "@daily", "UTC", WEIR_DURABLE_ALL, "t", NULL, 0, NULL, NULL),
                       "promise pending: durable: set nightly\n");
        expect_in_dump(store, weir_durable_cancel_new(store, "nightly", NULL, NULL),
                       "promise pending: durable: cancel nightly\n");
        expect_in_dump(store, weir_durable_list_new(store, "session/", NULL, 10, NULL, NULL),
                       "promise pending: durable: list session/\n");
        end(store);
}

/* -- without memory -- */

static atomic_int modules_refused;

weir_task *__real_weir_module_new(weir_series *sub, weir_task_fn *done, void *context);
weir_task *__wrap_weir_module_new(weir_series *sub, weir_task_fn *done, void *context);

weir_task *
__wrap_weir_module_new(weir_series *sub, weir_task_fn *done, void *context)
{
        if (atomic_fetch_sub(&modules_refused, 1) <= 0)
                return __real_weir_module_new(sub, done, context);
        weir_series_dismiss(sub);
        return NULL;
}

/* Its handler cannot begin.  It is given back and claimed again, but not all the time. */
static void
a_delivery_without_memory_is_tried_later(void)
{
        weir_durable *store = begin();

        atomic_store(&modules_refused, 1000);
        set_one(store, 0);
        weir_clock_advance(WEIR_SEC(10));
        CU_ASSERT(got.count == 0 && stats_of(store).claimed > 30 && stats_of(store).claimed < 70);
        CU_ASSERT(stats_of(store).put_back > 30);
        atomic_store(&modules_refused, 0);
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT(got.count == 1 && got.attempt == 1);
        end(store);
}

static struct {
        atomic_bool is_armed, is_over;
        weir_durable *store;
        pthread_t thread;
        int result;
} second;

static void *
listen_too(void *context)
{
        (void)context;
        second.result = weir_durable_on(second.store, "t", deliver, NULL);
        atomic_store(&second.is_over, true);
        return NULL;
}

weir_task *__real_weir_ticker_new(weir_nsec period, enum weir_tick_policy policy, weir_task_fn *done, void *context);
weir_task *__wrap_weir_ticker_new(weir_nsec period, enum weir_tick_policy policy, weir_task_fn *done, void *context);

/* While the first alarm is being refused, another handler comes. */
weir_task *
__wrap_weir_ticker_new(weir_nsec period, enum weir_tick_policy policy, weir_task_fn *done, void *context)
{
        if (!atomic_exchange(&second.is_armed, false))
                return __real_weir_ticker_new(period, policy, done, context);
        CU_ASSERT_FATAL(pthread_create(&second.thread, NULL, listen_too, NULL) == 0);
        for (int i = 0; i < 200 && !atomic_load(&second.is_over); i++) /* it should wait */
                usleep(1000);
        return NULL;
}

static void
a_handler_beside_one_without_memory_has_an_alarm(void)
{
        second.store = begin();
        memset(&got, 0, sizeof got);
        atomic_store(&second.is_over, false);
        atomic_store(&second.is_armed, true);
        CU_ASSERT(weir_durable_on(second.store, "u", deliver, NULL) == -ENOMEM);
        CU_ASSERT(pthread_join(second.thread, NULL) == 0 && second.result == 0);
        CU_ASSERT(weir_task_run(weir_durable_set_after_new(second.store, "a", WEIR_SEC(5), "t", NULL, 0, NULL, NULL)) == 0);
        weir_clock_advance(WEIR_SEC(5));
        CU_ASSERT(got.count == 1);
        end(second.store);
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
                WEIR_TEST(a_close_does_not_wait_longer_than_it_says),
                WEIR_TEST(a_timeout_of_the_engine_has_its_words),
                WEIR_TEST(an_end_may_be_over_before_its_submit_has_returned),
                WEIR_TEST(a_dump_names_the_operation_and_its_timer),
                WEIR_TEST(a_delivery_without_memory_is_tried_later),
                WEIR_TEST(a_handler_beside_one_without_memory_has_an_alarm),
        };

        return weir_test_main("durable timers whose engine fails", tests, sizeof tests / sizeof *tests);
}
