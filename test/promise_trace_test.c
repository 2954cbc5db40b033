/* test/promise_trace_test.c: the stages of promises in traces. */
#include <weir/promise.h>

#include "test/trace_fixture.h"

static char path[64];

static void
begin(void)
{
        weir_test_begin_virtual();
        snprintf(path, sizeof path, "/tmp/weir-promise-trace-%d.json", (int)getpid());
}

static struct weir_test_trace
end(void)
{
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        weir_test_end();
        struct weir_test_trace trace = weir_test_trace_read(path);
        weir_test_trace_nests(&trace);
        unlink(path);
        return trace;
}

static _Atomic int begun;

static void
on_begin(weir_task *promise, void *own)
{
        (void)own;
        begun++;
        weir_promise_unref(promise);
}

static void
describe(const void *own, char *text, size_t room)
{
        snprintf(text, room, "of %s, begun %d times", (const char *)own, begun);
}

static const struct weir_promise_kind kind = {.size = sizeof kind, .begin = on_begin, .describe = describe};

static weir_task *
promise_of_kind(const char *label)
{
        weir_task *promise = weir_promise_new_of(&kind, "a kind", NULL, NULL);

        begun = 0;
        CU_ASSERT_EQUAL(weir_promise_set_label(promise, label), 0);
        return weir_promise_ref(promise);
}

static void
the_wait_of_a_promise_is_a_stage(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        weir_task *promise = promise_of_kind("SELECT 1");
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(series, promise);
        weir_series_start(series);
        weir_test_pass(WEIR_MSEC(1020));
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), 0);
        weir_test_pass(0);
        weir_promise_unref(promise);
        weir_series_unref(series);
        struct weir_test_trace trace = end();

        CU_ASSERT_EQUAL(weir_test_stage_lasts(&trace, "waiting \"SELECT 1\" of a kind, begun 1 times", 0), WEIR_MSEC(20));
        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'b', NULL), 1);
        CU_ASSERT(weir_test_trace_find(&trace, 'b', NULL, 0)->series > 0);
        weir_test_trace_free(&trace);
}

/* What its kind says is whole, and the label has the rest of the 64 bytes of a name. */
static void
a_long_label_is_cut(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        weir_task *promise = promise_of_kind("SELECT name, \303\244 FROM a_table WHERE id = 1");
        weir_task_start(promise);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_promise_end(promise, 0), 0);
        weir_test_pass(0);
        weir_promise_unref(promise);
        struct weir_test_trace trace = end();

        CU_ASSERT_EQUAL(weir_test_stage_lasts(
                                &trace, "waiting \"SELECT name, \303\244 FROM a_table WHERE...\" of a kind, begun 1 times", 0),
                        0);
        weir_test_trace_free(&trace);
}

static void
a_cancel_ends_the_stage(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_promise_new(NULL, NULL, NULL));
        weir_series_start(series);
        weir_test_pass(WEIR_MSEC(30));
        weir_series_cancel(series);
        weir_series_unref(series);
        weir_test_pass(0);
        struct weir_test_trace trace = end();

        CU_ASSERT_EQUAL(weir_test_stage_lasts(&trace, "waiting a promise", 0), WEIR_MSEC(30));
        weir_test_trace_free(&trace);
}

static void
end_two(weir_task *first, weir_task *second)
{
        weir_promise_end(first, 0);
        weir_promise_end(second, 0);
        weir_promise_unref(first);
        weir_promise_unref(second);
        weir_test_pass(0);
}

/* A stage is in the trace if it began and ended while that ran. */
static void
a_trace_begins_and_ends_in_the_middle(void)
{
        weir_task *promises[4];

        begin();
        for (int i = 0; i < 4; i++)
                promises[i] = weir_promise_ref(weir_promise_new(NULL, NULL, NULL));
        weir_task_start(promises[0]); /* before the first trace */
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        weir_task_start(promises[1]); /* in the first one, until the second one */
        CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        CU_ASSERT_EQUAL(weir_trace_start(path), 0);
        weir_task_start(promises[2]);
        weir_test_pass(WEIR_MSEC(40));
        end_two(promises[0], promises[1]);
        weir_task_start(promises[3]);
        weir_test_pass(WEIR_MSEC(10));
        end_two(promises[2], promises[3]);
        struct weir_test_trace trace = end();

        CU_ASSERT_EQUAL(weir_test_trace_count(&trace, 'b', "waiting a promise"), 2);
        CU_ASSERT_EQUAL(weir_test_stage_lasts(&trace, "waiting a promise", 0), WEIR_MSEC(50));
        CU_ASSERT_EQUAL(weir_test_stage_lasts(&trace, "waiting a promise", 1), WEIR_MSEC(10));
        weir_test_trace_free(&trace);
}

/* -- traces that come and go beside promises -- */

#define THREADS  3
#define PROMISES 3000

static void *
start_and_end(void *unused)
{
        (void)unused;
        for (int i = 0; i < PROMISES; i++) {
                weir_task *promise = weir_promise_ref(weir_promise_new_of(&kind, "a storm", NULL, NULL));
                weir_task_start(promise);
                weir_promise_end(promise, 0);
                weir_promise_unref(promise);
        }
        return NULL;
}

static void
traces_come_and_go(void)
{
        pthread_t threads[THREADS];

        snprintf(path, sizeof path, "/tmp/weir-promise-trace-%d.json", (int)getpid());
        weir_test_begin_real(2);
        for (int i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, start_and_end, NULL);
        for (int i = 0; i < 20; i++) {
                CU_ASSERT_EQUAL(weir_trace_start(path), 0);
                CU_ASSERT_EQUAL(weir_trace_stop(), 0);
        }
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        struct weir_test_trace trace = weir_test_trace_read(path);
        weir_test_trace_free(&trace);
        unlink(path);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_wait_of_a_promise_is_a_stage),
                WEIR_TEST(a_long_label_is_cut),
                WEIR_TEST(a_cancel_ends_the_stage),
                WEIR_TEST(a_trace_begins_and_ends_in_the_middle),
                WEIR_TEST(traces_come_and_go),
        };

        return weir_test_main("promise_trace", tests, sizeof tests / sizeof *tests);
}
