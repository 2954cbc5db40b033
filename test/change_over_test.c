/* test/change_over_test.c: the examples of docs/coming-from-workflow.md, and some of its statements. */
#include "test/fixture.h"

#include <errno.h>

struct noted {
        char text[16];
        int status;
        unsigned callbacks;
};

static void
note(weir_task *task, void *context)
{
        struct noted *noted = context;

        noted->status = weir_task_status(task);
        noted->callbacks++;
}

/* -- counters -- */

static void
on_three(weir_task *task, void *context)
{
        note(task, context);
}

static void
counting_beyond_the_target_says_how_much_was_wanted(void)
{
        struct noted noted = {.status = 1};

        weir_test_begin_virtual();
        weir_task_start(weir_counter_new_named("answers", 3, on_three, &noted));
        weir_counter_count_named("answers", 1);
        uint64_t counted = weir_counter_count_named("answers", 5); /* 2: no more were wanted */
        CU_ASSERT_EQUAL(counted, 2);
        CU_ASSERT_EQUAL(weir_counter_count_named("answers", 1), 0);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_EQUAL(noted.callbacks, 1);
        CU_ASSERT_EQUAL(noted.status, 0);
        weir_test_end();
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void
lock_and_note(weir_task *task, void *context)
{
        pthread_mutex_lock(&held);
        note(task, context);
        pthread_mutex_unlock(&held);
}

/* In Workflow the callback would run inside the count, and wait for its own thread. */
static void
one_may_count_with_a_mutex_held_that_the_callback_takes(void)
{
        struct noted noted = {.status = 1};

        weir_test_begin_virtual();
        weir_counter *counter = weir_counter_new(1);
        weir_task_start(weir_counter_wait_new(counter, lock_and_note, &noted));
        pthread_mutex_lock(&held);
        CU_ASSERT_EQUAL(weir_counter_count(counter, 1), 1);
        CU_ASSERT_EQUAL(noted.callbacks, 0);
        pthread_mutex_unlock(&held);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_EQUAL(noted.callbacks, 1);
        weir_counter_unref(counter);
        weir_test_end();
}

/* -- message queues -- */

static void
print_line(weir_task *task, void *context)
{
        struct noted *noted = context;

        snprintf(noted->text, sizeof noted->text, "%s", (const char *)weir_channel_message(task));
        note(task, context);
}

static void
a_message_queue_is_a_channel_without_a_bound(void)
{
        struct noted noted = {.status = 1};

        weir_test_begin_virtual();
        weir_channel *lines = weir_channel_new(WEIR_UNBOUNDED, free);
        weir_task_start(weir_channel_receive_new(lines, print_line, &noted));
        weir_channel_post(lines, strdup("hello"));
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_STRING_EQUAL(noted.text, "hello");
        CU_ASSERT_EQUAL(noted.status, 0);
        weir_channel_unref(lines);
        weir_test_end();
}

/* -- cancel, and the end -- */

static void
note_end(weir_series *series, void *context)
{
        struct noted *noted = context;

        noted->status = weir_series_status(series);
        noted->callbacks++;
}

static void
cancelling_a_series_ends_the_timer_that_is_pending_in_it(void)
{
        struct noted timer = {.status = 1}, end = {.status = 1}, dropped = {.status = 1};

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(note_end, &end));
        weir_series_push(series, weir_timer_new(WEIR_SEC(3600), note, &timer));
        weir_series_push(series, weir_empty_new(note, &dropped));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_clock_advance(0), 0);
        CU_ASSERT_EQUAL(timer.status, -ECANCELED);
        CU_ASSERT_EQUAL(dropped.callbacks, 0);
        CU_ASSERT_EQUAL(end.callbacks, 1);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_empty_new(note, &dropped)), -ESTALE);
        weir_series_unref(series);
        weir_test_end();
}

static void
start_another(weir_task *task, void *context)
{
        note(task, context);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), start_another, context)), -ESHUTDOWN);
}

/* In Workflow it would need a flag, under a lock, that says that the program ends. */
static void
a_timer_that_starts_the_next_one_needs_not_know_that_the_program_ends(void)
{
        struct noted noted = {.status = 1};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), start_another, &noted)), 0);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(noted.callbacks, 1);
        CU_ASSERT_EQUAL(noted.status, -ESHUTDOWN);
        weir_test_end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(counting_beyond_the_target_says_how_much_was_wanted),
        WEIR_TEST(one_may_count_with_a_mutex_held_that_the_callback_takes),
        WEIR_TEST(a_message_queue_is_a_channel_without_a_bound),
        WEIR_TEST(cancelling_a_series_ends_the_timer_that_is_pending_in_it),
        WEIR_TEST(a_timer_that_starts_the_next_one_needs_not_know_that_the_program_ends),
};

int
main(void)
{
        return weir_test_main("change_over", tests, sizeof tests / sizeof *tests);
}
