/* test/rate_test.c: token buckets.  On the virtual clock each token comes at its exact nanosecond. */
#include <errno.h>

#include "test/timer_fixture.h"

#define FAR WEIR_TEST_FAR

static weir_task *
take(weir_rate *rate, uint64_t tokens, struct weir_test_record *record)
{
        return weir_test_recorded(weir_rate_take_new(rate, tokens, weir_test_done, record));
}

static void
start(weir_rate *rate, uint64_t tokens, struct weir_test_record *record)
{
        CU_ASSERT_EQUAL(weir_task_start(take(rate, tokens, record)), 0);
}

/* -- how many tokens come -- */

static void
a_bucket_is_full_at_first_and_fills_evenly(void)
{
        weir_test_begin_virtual();
        weir_rate *rate = weir_rate_new(10, WEIR_SEC(1), 5);
        CU_ASSERT_EQUAL(weir_rate_available(rate), 5);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 3), 0);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 3), -EAGAIN);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 2), 0);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 0), 0);
        CU_ASSERT_EQUAL(weir_rate_delay(rate, 1), WEIR_MSEC(100));
        CU_ASSERT_EQUAL(weir_rate_delay(rate, 5), WEIR_MSEC(500));
        weir_test_pass(WEIR_MSEC(100) - 1);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 1), -EAGAIN);
        CU_ASSERT_EQUAL(weir_rate_delay(rate, 1), 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 1), 0);
        weir_test_pass(FAR);
        CU_ASSERT_EQUAL(weir_rate_available(rate), 5);
        weir_rate_unref(rate);
        weir_test_end();
}

struct late {
        weir_rate *rate;
        atomic_uint ends;
        atomic_int outcome; /* of a try when the first has its token; positive: not tried yet */
};

static void
on_late_token(weir_task *task, void *context)
{
        struct late *late = context;

        (void)task;
        if (late->ends++ == 0)
                late->outcome = weir_rate_try_take(late->rate, 1);
}

static void
start_a_hundred_and_be_late(weir_task *task, void *context)
{
        struct late *late = context;
        weir_nsec began = weir_now();

        (void)task;
        for (unsigned i = 0; i < 100; i++)
                CU_ASSERT_EQUAL(weir_task_start(weir_rate_take_new(late->rate, 1, on_late_token, late)), 0);
        while (weir_now() - began < WEIR_MSEC(20)) {
        }
}

/* Tokens that came while tasks waited were cut at the room of the bucket, so each look served one task. */
static void
tokens_that_came_before_a_late_look_are_for_those_who_wait(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct late late = {.outcome = 1};

        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER; /* nobody else looks meanwhile */
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        late.rate = weir_rate_new(1, WEIR_USEC(10), 1);
        CU_ASSERT_EQUAL(weir_rate_try_take(late.rate, 1), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(start_a_hundred_and_be_late, &late)), 0);
        WEIR_TEST_EVENTUALLY(late.ends == 100);
        CU_ASSERT_EQUAL(late.outcome, 0);
        weir_rate_unref(late.rate);
        weir_test_end();
}

static void
nothing_is_rounded_whoever_looks_in_between(void)
{
        unsigned taken = 0;

        weir_test_begin_virtual();
        weir_rate *rate = weir_rate_new(3, WEIR_SEC(1), 1);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 1), 0);
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 3000; i++) {
                struct weir_test_record record = {0};
                weir_nsec due = began + ((weir_nsec)(i + 1) * WEIR_SEC(1) + 2) / 3;

                start(rate, 1, &record);
                weir_test_pass(WEIR_USEC(i % 50));
                weir_rate_available(rate);
                weir_test_pass(WEIR_MSEC(333));
                weir_test_pass(WEIR_MSEC(1));
                taken += record.calls;
                CU_ASSERT_EQUAL(record.calls, 1);
                if (record.at != due) { /* at once, because the rounds take longer than a token */
                        CU_ASSERT(record.at > due);
                }
        }
        CU_ASSERT_EQUAL(taken, 3000);
        weir_rate_unref(rate);
        weir_test_end();
}

static void
waiting_tasks_get_their_tokens_at_the_exact_instants(void)
{
        enum { COUNT = 300 };
        static struct weir_test_record records[COUNT];

        memset(records, 0, sizeof records);
        weir_test_begin_virtual();
        weir_rate *rate = weir_rate_new(7, WEIR_SEC(1), 4);
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < COUNT; i++) {
                start(rate, 1, &records[i]);
        }
        weir_test_pass(WEIR_SEC(60));
        for (unsigned i = 0; i < COUNT; i++) {
                weir_nsec after = i < 4 ? 0 : ((weir_nsec)(i - 3) * WEIR_SEC(1) + 6) / 7;

                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].at - began, after);
        }
        weir_rate_unref(rate);
        weir_test_end();
}

/* -- in order -- */

static void
a_task_that_wants_many_is_not_passed(void)
{
        struct weir_test_record many = {0}, few = {0}, more = {0};
        _Atomic unsigned order = 0;

        weir_test_begin_virtual();
        weir_rate *rate = weir_rate_new(1, WEIR_SEC(1), 10);
        weir_nsec began = weir_now();
        many.counter = few.counter = more.counter = &order;
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 8), 0);
        start(rate, 10, &many);
        start(rate, 1, &few);
        start(rate, 2, &more);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 1), -EAGAIN);
        CU_ASSERT_EQUAL(weir_rate_available(rate), 2);
        weir_test_pass(WEIR_SEC(20));
        CU_ASSERT_EQUAL(many.at - began, WEIR_SEC(8));
        CU_ASSERT_EQUAL(few.at - began, WEIR_SEC(9));
        CU_ASSERT_EQUAL(more.at - began, WEIR_SEC(11));
        CU_ASSERT(many.order == 0 && few.order == 1 && more.order == 2);
        weir_rate_unref(rate);
        weir_test_end();
}

static void
when_the_first_is_cancelled_the_others_go_on_at_once(void)
{
        struct weir_test_record many = {0}, few = {0}, next = {0};

        weir_test_begin_virtual();
        weir_rate *rate = weir_rate_new(1, WEIR_SEC(1), 10);
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 8), 0);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, take(rate, 10, &many));
        weir_series_ref(series);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        start(rate, 2, &few);
        start(rate, 1, &next);
        weir_test_pass(WEIR_MSEC(500));
        weir_series_cancel(series);
        weir_test_pass(WEIR_SEC(5));
        WEIR_TEST_CALLED(&many, -ECANCELED);
        CU_ASSERT_EQUAL(few.at - began, WEIR_MSEC(500));
        CU_ASSERT_EQUAL(next.at - began, WEIR_SEC(1));
        weir_series_unref(series);
        weir_rate_unref(rate);
        weir_test_end();
}

static void
deadlines_and_shutdown_end_it_and_what_was_not_taken_stays(void)
{
        struct weir_test_record late = {0}, shut = {0}, dismissed = {0}, unstarted = {0};

        weir_test_begin_virtual();
        weir_rate *rate = weir_rate_new(1, WEIR_SEC(10), 3);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 3), 0);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, take(rate, 2, &late));
        weir_series_push(series, take(rate, 1, &unstarted));
        weir_series_set_deadline(series, WEIR_SEC(15));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_task_dismiss(take(rate, 1, &dismissed));
        weir_test_pass(WEIR_SEC(15));
        WEIR_TEST_CALLED(&late, -ETIMEDOUT);
        WEIR_TEST_NOT_CALLED(&unstarted);
        WEIR_TEST_NOT_CALLED(&dismissed);
        CU_ASSERT_EQUAL(weir_rate_available(rate), 1);
        start(rate, 3, &shut);
        weir_test_end();
        WEIR_TEST_CALLED(&shut, -ESHUTDOWN);
        weir_rate_unref(rate);
}

/* -- names -- */

/* 10 requests a second from each client, 20 at once. */
static bool
is_welcome(const char *client)
{
        weir_rate *rate = weir_rate_open(client, 10, WEIR_SEC(1), 20);
        int failed = weir_rate_try_take(rate, 1);

        weir_rate_unref(rate); /* the bucket stays until it is full */
        return failed == 0;
}

static void
each_client_has_its_own_bucket(void)
{
        weir_test_begin_virtual();
        for (unsigned i = 0; i < 40; i++) {
                CU_ASSERT_EQUAL(is_welcome("192.0.2.1"), i < 20);
        }
        CU_ASSERT(is_welcome("192.0.2.2"));
        weir_test_pass(WEIR_MSEC(200));
        CU_ASSERT(is_welcome("192.0.2.1") && is_welcome("192.0.2.1") && !is_welcome("192.0.2.1"));
        weir_test_end();
}

static int
take_named(const char *name, uint64_t burst)
{
        weir_rate *rate = weir_rate_open(name, 1, WEIR_SEC(1), burst);
        int result = rate ? weir_rate_try_take(rate, 1) : -errno;

        weir_rate_unref(rate);
        return result;
}

static size_t
rates(void)
{
        size_t count = 0;

        for (unsigned i = 0; i < WEIR__NAMES_SHARDS; i++) {
                struct weir__names_shard *shard = &weir__waitable_names[WEIR__RATE].shards[i];

                weir__lock(&shard->lock);
                count += shard->names;
                weir__unlock(&shard->lock);
        }
        return count;
}

static void
a_named_bucket_lives_until_it_is_full(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(take_named("client", 2), 0);
        CU_ASSERT_EQUAL(take_named("client", 2), 0);
        CU_ASSERT_EQUAL(take_named("client", 2), -EAGAIN);
        CU_ASSERT_EQUAL(take_named("client", 3), -EEXIST);
        CU_ASSERT_EQUAL(take_named("other", 2), 0);
        CU_ASSERT_EQUAL(rates(), 2);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(rates(), 1);
        CU_ASSERT_EQUAL(take_named("client", 2), 0);
        CU_ASSERT_EQUAL(take_named("client", 2), -EAGAIN);
        weir_test_pass(WEIR_SEC(2) - 1);
        CU_ASSERT_EQUAL(rates(), 1);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(rates(), 0);
        CU_ASSERT_EQUAL(take_named("client", 3), 0); /* other numbers: it is made anew */
        weir_test_end();
        CU_ASSERT_EQUAL(rates(), 0);
}

static void
a_hundred_thousand_names_leave_nothing_behind(void)
{
        char name[32];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 100000; i++) {
                snprintf(name, sizeof name, "client/%u", i);
                CU_ASSERT_EQUAL(take_named(name, 5), 0);
        }
        CU_ASSERT_EQUAL(rates(), 100000);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(rates(), 0);
        weir_test_end();
}

/* -- bad input -- */

static void
bad_numbers_and_names_are_refused(void)
{
        struct weir_test_record record = {0};

        weir_test_begin_virtual();
        CU_ASSERT(!weir_rate_new(0, 1, 1) && errno == EINVAL);
        CU_ASSERT(!weir_rate_new(1, 0, 1) && errno == EINVAL);
        CU_ASSERT(!weir_rate_new(1, -1, 1) && errno == EINVAL);
        CU_ASSERT(!weir_rate_new(1, 1, 0) && errno == EINVAL);
        CU_ASSERT(!weir_rate_new(1, WEIR_SEC(1), UINT64_MAX) && errno == EINVAL);
        CU_ASSERT(!weir_rate_open("name", 1, 0, 1) && errno == EINVAL);
        CU_ASSERT(!weir_rate_open("", 1, 1, 1) && errno == EINVAL);
        CU_ASSERT(!weir_rate_open(NULL, 1, 1, 1) && errno == EINVAL);
        weir_rate *rate = weir_rate_new(1, WEIR_SEC(1), 1), *fast = weir_rate_new(1000, 1, 1000);
        CU_ASSERT_PTR_NOT_NULL(rate);
        CU_ASSERT_EQUAL(weir_rate_try_take(fast, 1000), 0);
        CU_ASSERT_EQUAL(weir_rate_delay(fast, 1000), 1);
        CU_ASSERT_EQUAL(weir_rate_try_take(rate, 2), -EINVAL);
        CU_ASSERT_EQUAL(weir_rate_delay(rate, 2), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(take(rate, 2, &record)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(take(NULL, 1, &record)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_rate_try_take(NULL, 1), -ENOMEM);
        CU_ASSERT_EQUAL(weir_rate_delay(NULL, 1), -ENOMEM);
        CU_ASSERT_EQUAL(weir_rate_available(NULL), 0);
        weir_rate_unref(weir_rate_ref(NULL));
        weir_rate_unref(rate);
        weir_rate_unref(fast);
        weir_test_end();
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(record.frees, 2);
}

/* -- threads: with a burst of B, never more than B + speed * time -- */

static _Atomic unsigned granted;
static _Atomic bool stop;

static void
count_grant(weir_task *task, void *unused)
{
        (void)unused;
        atomic_fetch_add(&granted, weir_task_status(task) == 0);
}

static void
take_in_all_ways(void *unused)
{
        (void)unused;
        for (unsigned i = 0; !stop; i++) {
                weir_rate *rate = weir_rate_open("shared", 20000, WEIR_SEC(1), 50);
                weir_series *series = weir_series_new(NULL, NULL);

                CU_ASSERT_PTR_NOT_NULL_FATAL(rate);
                atomic_fetch_add(&granted, weir_rate_try_take(rate, 1) == 0);
                weir_series_push(series, weir_rate_take_new(rate, 1, count_grant, NULL));
                weir_series_ref(series);
                weir_rate_unref(rate);
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                if (i % 3) {
                        weir_series_cancel(series);
                }
                weir_series_unref(series);
                if (i % 64 == 0) {
                        weir_test_sleep(WEIR_USEC(500));
                }
        }
}

static void
threads_get_no_more_than_there_is(void)
{
        struct weir_test_thread threads[3];

        stop = false;
        granted = 0;
        weir_test_begin_real(2);
        weir_nsec began = weir_now();
        for (unsigned i = 0; i < 3; i++) {
                weir_test_thread_start(&threads[i], take_in_all_ways, NULL);
        }
        weir_test_sleep(WEIR_MSEC(100));
        stop = true;
        for (unsigned i = 0; i < 3; i++) {
                weir_test_thread_join(&threads[i]);
        }
        weir_test_end();
        weir_nsec took = weir_now() - began;
        CU_ASSERT(granted >= 50);
        CU_ASSERT(granted <= 50 + (uint64_t)took * 20000 / WEIR_SEC(1) + 1);
        CU_ASSERT_EQUAL(rates(), 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_bucket_is_full_at_first_and_fills_evenly),
                WEIR_TEST(nothing_is_rounded_whoever_looks_in_between),
                WEIR_TEST(waiting_tasks_get_their_tokens_at_the_exact_instants),
                WEIR_TEST(a_task_that_wants_many_is_not_passed),
                WEIR_TEST(when_the_first_is_cancelled_the_others_go_on_at_once),
                WEIR_TEST(deadlines_and_shutdown_end_it_and_what_was_not_taken_stays),
                WEIR_TEST(tokens_that_came_before_a_late_look_are_for_those_who_wait),
                WEIR_TEST(each_client_has_its_own_bucket),
                WEIR_TEST(a_named_bucket_lives_until_it_is_full),
                WEIR_TEST(a_hundred_thousand_names_leave_nothing_behind),
                WEIR_TEST(bad_numbers_and_names_are_refused),
                WEIR_TEST(threads_get_no_more_than_there_is),
        };

        return weir_test_main("rate", tests, sizeof tests / sizeof *tests);
}
