/* test/watch_test.c: values that many tasks watch, and what lives how long. */
#include "test/fixture.h"

#include <errno.h>

static weir_watch *watch;
static _Atomic unsigned dropped, called;
static _Atomic uint64_t last_version;
static _Atomic int last_status;
static char last_value[32];

static void
drop(void *value)
{
        dropped++;
        free(value);
}

static void
begin(void)
{
        dropped = called = 0;
        last_version = 0;
        last_status = 1;
        last_value[0] = '\0';
        weir_test_begin_virtual();
        watch = weir_watch_new(drop);
}

static void
end(void)
{
        weir_watch_unref(watch);
        weir_test_end();
}

static void
on_change(weir_task *task, void *context)
{
        const char *value = weir_watch_value(task);

        (void)context;
        last_status = weir_task_status(task);
        last_version = weir_watch_seen(task);
        snprintf(last_value, sizeof last_value, "%s", value ? value : "none");
        called++;
}

static void
wait_for(uint64_t seen)
{
        CU_ASSERT_EQUAL(weir_task_start(weir_watch_wait_new(watch, seen, on_change, NULL)), 0);
        weir_test_pass(0);
}

static void
set(const char *value)
{
        CU_ASSERT_EQUAL(weir_watch_set(watch, strdup(value)), 0);
        weir_test_pass(0);
}

static void
saw(unsigned calls, uint64_t version, const char *value)
{
        CU_ASSERT_EQUAL(called, calls);
        CU_ASSERT_EQUAL(last_version, version);
        CU_ASSERT_STRING_EQUAL(last_value, value);
}

static void
a_task_waits_for_the_first_value(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_watch_version(watch), 0);
        wait_for(0);
        saw(0, 0, "");
        set("a");
        saw(1, 1, "a");
        CU_ASSERT_EQUAL(last_status, 0);
        CU_ASSERT_EQUAL(weir_watch_version(watch), 1);
        end();
        CU_ASSERT_EQUAL(dropped, 1);
}

static void
a_task_that_knows_an_older_one_does_not_wait(void)
{
        begin();
        set("a");
        set("b");
        CU_ASSERT_EQUAL(dropped, 1);
        wait_for(0);
        saw(1, 2, "b"); /* the newest only */
        wait_for(1);
        saw(2, 2, "b");
        wait_for(2);
        saw(2, 2, "b");
        set("c");
        saw(3, 3, "c");
        end();
        CU_ASSERT_EQUAL(dropped, 3);
}

static void
a_version_that_is_not_there_yet_is_the_present_one(void)
{
        begin();
        set("a");
        wait_for(UINT64_MAX);
        saw(0, 0, "");
        set("b");
        saw(1, 2, "b");
        end();
}

static void
every_task_that_waits_gets_it_however_many(void)
{
        begin();
        for (unsigned i = 0; i < 1000; i++)
                weir_task_start(weir_watch_wait_new(watch, 0, on_change, NULL));
        weir_test_pass(0);
        set("a");
        saw(1000, 1, "a");
        CU_ASSERT_EQUAL(dropped, 0);
        end();
        CU_ASSERT_EQUAL(dropped, 1);
}

static void
a_watch_without_values_is_a_notification(void)
{
        weir_test_begin_virtual();
        called = 0;
        watch = weir_watch_new(NULL);
        for (uint64_t i = 0; i < 3; i++) {
                wait_for(i);
                CU_ASSERT_EQUAL(called, i);
                CU_ASSERT_EQUAL(weir_watch_set(watch, NULL), 0);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(called, i + 1);
                CU_ASSERT_EQUAL(last_version, i + 1);
        }
        end();
}

/* The value is there for the callback, although a newer one comes. */
static void
replace_inside(weir_task *task, void *context)
{
        CU_ASSERT_EQUAL(weir_watch_set(watch, strdup("b")), 0);
        CU_ASSERT_EQUAL(dropped, 0);
        CU_ASSERT_STRING_EQUAL(weir_watch_value(task), "a");
        on_change(task, context);
}

static void
a_value_lives_as_long_as_a_callback_uses_it(void)
{
        begin();
        weir_task_start(weir_watch_wait_new(watch, 0, replace_inside, NULL));
        set("a");
        CU_ASSERT_EQUAL(dropped, 1);
        saw(1, 1, "a");
        end();
        CU_ASSERT_EQUAL(dropped, 2);
}

static void
cancel_deadline_and_shutdown_end_the_wait(void)
{
        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_watch_wait_new(watch, 0, on_change, NULL));
        weir_series_start(series);
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(last_status, -ECANCELED);
        weir_series_unref(series);
        weir_task_start(weir_timeout_new(weir_watch_wait_new(watch, 0, on_change, NULL), WEIR_SEC(1)));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(last_status, -ETIMEDOUT);
        set("a");
        CU_ASSERT_EQUAL(called, 2);
        wait_for(1);
        weir_task_dismiss(weir_watch_wait_new(watch, 0, on_change, NULL));
        weir_test_end();
        CU_ASSERT_EQUAL(last_status, -ESHUTDOWN);
        CU_ASSERT_EQUAL(called, 3);
        weir_watch_unref(watch);
        CU_ASSERT_EQUAL(dropped, 1);
}

static void
closed_it_ends_those_who_know_the_newest(void)
{
        begin();
        set("a");
        wait_for(1);
        CU_ASSERT_EQUAL(weir_watch_close(watch), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(last_status, -EPIPE);
        CU_ASSERT_EQUAL(weir_watch_close(watch), -EALREADY);
        char *value = strdup("b");
        CU_ASSERT_EQUAL(weir_watch_set(watch, value), -EPIPE);
        free(value);
        wait_for(0);
        CU_ASSERT_EQUAL(last_status, 0);
        saw(2, 1, "a");
        wait_for(1);
        CU_ASSERT_EQUAL(last_status, -EPIPE);
        end();
}

static void
by_name_it_is_the_same_one(void)
{
        begin();
        weir_watch *one = weir_watch_open("config", drop), *other = weir_watch_open("config", drop);
        CU_ASSERT_PTR_EQUAL(one, other);
        CU_ASSERT_PTR_NULL(weir_watch_open("config", NULL));
        CU_ASSERT_EQUAL(errno, EEXIST);
        CU_ASSERT_PTR_NULL(weir_watch_open("", drop));
        CU_ASSERT_EQUAL(errno, EINVAL);
        weir_watch_unref(one);
        weir_watch_unref(other);
        end();
}

static void
bad_input_is_answered(void)
{
        begin();
        weir_task *timer = weir_timer_new(1, NULL, NULL);
        CU_ASSERT_EQUAL(weir_watch_set(NULL, NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_watch_close(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_watch_version(NULL), 0);
        CU_ASSERT_PTR_NULL(weir_watch_value(timer));
        CU_ASSERT_PTR_NULL(weir_watch_value(NULL));
        CU_ASSERT_EQUAL(weir_watch_seen(timer), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_watch_wait_new(NULL, 7, NULL, NULL)), -ENOMEM);
        weir_task *unstarted = weir_watch_wait_new(watch, 7, NULL, NULL);
        CU_ASSERT_PTR_NULL(weir_watch_value(unstarted));
        CU_ASSERT_EQUAL(weir_watch_seen(unstarted), 0);
        weir_task_dismiss(unstarted);
        CU_ASSERT_PTR_NULL(weir_watch_ref(NULL));
        weir_watch_unref(NULL);
        weir_task_dismiss(timer);
        end();
}

/* -- many threads -- */

#define SETS    (WEIR_TEST_SANITIZED ? 2000 : 20000)
#define READERS 8

static struct {
        _Atomic unsigned wrong;
        struct weir_test_latch over;
} storm;

/* Versions only rise, and the value is that of the version. */
static void
follow(weir_task *task, void *context)
{
        uint64_t *seen_before = context, version = weir_watch_seen(task);

        if (weir_task_status(task)) {
                storm.wrong += weir_task_status(task) != -EPIPE || *seen_before != SETS;
                weir_test_latch_count_down(&storm.over);
                return;
        }
        storm.wrong += version <= *seen_before || strtoull(weir_watch_value(task), NULL, 10) != version;
        *seen_before = version;
        weir_series_push(weir_series_of(task), weir_watch_wait_new(watch, version, follow, context));
}

static void
readers_see_rising_versions_and_the_last_one(void)
{
        uint64_t seen[READERS] = {0};

        weir_test_begin_real(2);
        dropped = 0;
        watch = weir_watch_new(drop);
        weir_test_latch_init(&storm.over, READERS);
        for (unsigned i = 0; i < READERS; i++)
                weir_task_start(weir_watch_wait_new(watch, 0, follow, &seen[i]));
        for (unsigned i = 1; i <= SETS; i++) {
                char text[16];

                snprintf(text, sizeof text, "%u", i);
                weir_watch_set(watch, strdup(text));
        }
        weir_watch_close(watch);
        weir_test_latch_wait(&storm.over);
        CU_ASSERT_EQUAL(storm.wrong, 0);
        weir_test_end();
        weir_watch_unref(watch);
        CU_ASSERT_EQUAL(dropped, SETS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_task_waits_for_the_first_value),
                WEIR_TEST(a_task_that_knows_an_older_one_does_not_wait),
                WEIR_TEST(a_version_that_is_not_there_yet_is_the_present_one),
                WEIR_TEST(every_task_that_waits_gets_it_however_many),
                WEIR_TEST(a_watch_without_values_is_a_notification),
                WEIR_TEST(a_value_lives_as_long_as_a_callback_uses_it),
                WEIR_TEST(cancel_deadline_and_shutdown_end_the_wait),
                WEIR_TEST(closed_it_ends_those_who_know_the_newest),
                WEIR_TEST(by_name_it_is_the_same_one),
                WEIR_TEST(bad_input_is_answered),
                WEIR_TEST(readers_see_rising_versions_and_the_last_one),
        };

        return weir_test_main("watch", tests, sizeof tests / sizeof *tests);
}
