/* test/unstarted_test.c: what a shutdown says of tasks and series that were made and never started. */
#include "factory/task/task.h"
#include "test/timer_fixture.h"

#if defined(__SANITIZE_THREAD__)
#define IS_SILENT 1 /* nothing knows the blocks there: kernel/memory/watched.c */
#elif defined(__has_feature)
#define IS_SILENT __has_feature(thread_sanitizer)
#else
#define IS_SILENT 0
#endif

static struct {
        unsigned count;
        enum weir_log_level level;
        char message[600];
} heard;

static void
hear(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        if (!strstr(message, "never started"))
                return;
        heard.count++;
        heard.level = level;
        snprintf(heard.message, sizeof heard.message, "%s", message);
}

static void
begin(void)
{
        const struct weir_config config = {.size = sizeof config, .clock = WEIR_CLOCK_VIRTUAL};

        heard.count = 0;
        weir_log_set(hear, NULL);
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* Shuts down, and compares the message; NULL: there is none. */
static void
end_with(const char *message)
{
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(heard.count, message && !IS_SILENT);
        if (!heard.count)
                return;
        CU_ASSERT_EQUAL(heard.level, WEIR_LOG_WARNING);
        CU_ASSERT_STRING_EQUAL(heard.message, message ? message : "");
}

#define MOST 64

static weir_task *tasks[MOST];
static weir_series *series[MOST];

static void
dismiss_all(void)
{
        for (unsigned i = 0; i < MOST; i++) {
                weir_task_dismiss(tasks[i]);
                weir_series_dismiss(series[i]);
                tasks[i] = NULL;
                series[i] = NULL;
        }
}

static void
what_was_never_started_is_counted_by_kind_and_the_first_is_named(void)
{
        char name[16];

        begin();
        for (int i = 0; i < 10; i++) {
                snprintf(name, sizeof name, "session/%d", i + 7);
                tasks[i] = weir_timer_new_named(name, WEIR_SEC(1), NULL, NULL);
        }
        series[0] = weir_series_new(NULL, NULL);
        series[1] = weir_series_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(heard.count, !IS_SILENT);
        if (heard.count) { /* which timer is the first depends on where its block lies */
                const char *first = strstr(heard.message, "; first: timer \"session/");

                CU_ASSERT(strstr(heard.message, "10 timers") && strstr(heard.message, "2 series") && first);
                CU_ASSERT(strstr(heard.message, "were made and never started") != NULL);
        }
        dismiss_all();
}

static void
one_of_a_kind_is_said_in_the_singular(void)
{
        begin();
        tasks[0] = weir_timer_new_named("session/7", WEIR_SEC(1), NULL, NULL);
        end_with("1 timer was made and never started; first: timer \"session/7\"");
        dismiss_all();
}

static void
a_series_is_named_where_no_task_has_a_name(void)
{
        begin();
        series[0] = weir_series_new(NULL, NULL);
        weir_series_set_name(series[0], "cart");
        end_with("1 series was made and never started; first: series \"cart\"");
        dismiss_all();
}

static void
nothing_is_named_where_nothing_has_a_name(void)
{
        begin();
        for (int i = 0; i < 3; i++)
                tasks[i] = weir_parallel_new(NULL, NULL);
        end_with("3 parallels were made and never started");
        dismiss_all();
}

static void
parts_of_a_flow_that_was_never_started_are_not_counted(void)
{
        begin();
        tasks[0] = weir_parallel_new(NULL, NULL);
        for (int i = 0; i < 5; i++)
                weir_parallel_add(tasks[0], weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_parallel_add_series(tasks[0], weir_series_new(NULL, NULL));
        end_with("1 parallel was made and never started");
        dismiss_all();
}

static void
a_task_that_a_wrong_name_has_spoilt_is_counted_too(void)
{
        begin();
        tasks[0] = weir_timer_new_named("", WEIR_SEC(1), NULL, NULL);
        end_with("1 timer was made and never started");
        dismiss_all();
}

static void
what_was_started_pushed_or_dismissed_is_not_counted(void)
{
        begin();
        for (int i = 0; i < 100; i++) {
                weir_series *flow = weir_series_new(NULL, NULL);

                weir_series_set_name(flow, "flow");
                weir_series_push(flow, weir_timer_new_named("a", WEIR_SEC(1), NULL, NULL));
                weir_series_push(flow, weir_empty_new(NULL, NULL));
                CU_ASSERT_EQUAL(weir_series_run(flow), 0);
                weir_task_dismiss(weir_timer_new_named("b", WEIR_SEC(1), NULL, NULL));
                weir_series_dismiss(weir_series_new(NULL, NULL));
                weir_task_start(weir_timer_new(WEIR_SEC(1), NULL, NULL));
                weir_series_start(weir_series_new(NULL, NULL));
        }
        end_with(NULL);
}

static void
a_start_that_a_shutdown_refuses_is_not_counted(void)
{
        begin();
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), NULL, NULL)), -ESHUTDOWN);
        begin();
        end_with(NULL);
}

static void
many_kinds_are_listed_and_further_ones_counted_together(void)
{
        begin();
        weir_guard *guard = weir_guard_new();
        tasks[0] = weir_timer_new(0, NULL, NULL);
        tasks[1] = weir_empty_new(NULL, NULL);
        tasks[2] = weir_empty_new(NULL, NULL);
        tasks[3] = weir_guard_acquire_new(guard, NULL, NULL);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(heard.count, !IS_SILENT);
        if (heard.count) {
                CU_ASSERT(strstr(heard.message, "1 timer") && strstr(heard.message, "2 empty tasks"));
                CU_ASSERT(strstr(heard.message, "1 acquire") && strstr(heard.message, " and ") && strstr(heard.message, ", "));
        }
        dismiss_all();
        weir_guard_unref(guard);
}

static void
promise_is_counted_with_its_label(void)
{
        begin();
        tasks[0] = weir_promise_new(NULL, NULL, NULL);
        CU_ASSERT_EQUAL(weir_promise_set_label(tasks[0], "answer"), 0);
        end_with("1 promise was made and never started; first: promise \"answer\"");
        dismiss_all();
}

static void
promise_that_was_ended_before_its_start_is_counted_and_one_that_is_over_is_not(void)
{
        begin();
        weir_task *over = weir_promise_ref(weir_promise_new(NULL, NULL, NULL));
        CU_ASSERT_EQUAL(weir_promise_end(over, 0), 0);
        CU_ASSERT_EQUAL(weir_task_run(over), 0);
        weir_task_dismiss(weir_promise_new(NULL, NULL, NULL));
        tasks[0] = weir_promise_new(NULL, NULL, NULL);
        CU_ASSERT_EQUAL(weir_promise_end(tasks[0], 0), 0);
        end_with("1 promise was made and never started");
        dismiss_all();
        weir_promise_unref(over);
}

/* Its memory comes from malloc, not from the caches. */
static void
timer_with_a_long_name_is_counted(void)
{
        static const size_t sizes[] = {250, 300, 1000, 3000, WEIR_NAME_MAX};
        static char name[WEIR_NAME_MAX + 1];

        begin();
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                memset(name, 'a', sizes[i]);
                name[sizes[i]] = '\0';
                tasks[i] = weir_timer_new_named(name, WEIR_SEC(1), NULL, NULL);
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new_named(name, WEIR_SEC(1), NULL, NULL)), 0);
        }
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(heard.count, !IS_SILENT);
        CU_ASSERT(IS_SILENT || strstr(heard.message, "5 timers were made and never started; first: timer \"aaaa"));
        dismiss_all();
}

static void
function_that_is_null_is_counted_as_a_function(void)
{
        begin();
        tasks[0] = weir_go_new(NULL, NULL, NULL, NULL);
        tasks[1] = weir_go_new_timed("queue", WEIR_SEC(1), NULL, NULL, NULL);
        end_with("2 functions were made and never started");
        CU_ASSERT_EQUAL(weir_task_start(tasks[0]), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(tasks[1]), -EINVAL);
        tasks[0] = tasks[1] = NULL;
}

/* -- other threads write to a block while it is looked at -- */

static atomic_bool is_over;

static void *
write_to_a_block(void *argument)
{
        struct weir__work *work = argument;
        const struct weir__work_ops *ops = work->ops;

        while (!atomic_load(&is_over)) {
                __atomic_store_n(&work->ops, (const struct weir__work_ops *)8, __ATOMIC_RELAXED);
                __atomic_store_n(&work->ops, ops, __ATOMIC_RELAXED);
        }
        return NULL;
}

static void
what_is_said_of_a_block_comes_from_one_look_at_it(void)
{
        const struct weir__constants constants = weir__task_constants();
        weir_task *timer = weir_timer_new_named("block", WEIR_SEC(1), NULL, NULL);
        unsigned named = 0, rounds = WEIR_TEST_SANITIZED ? 100000 : 3000000;
        char title[WEIR__TASK_TITLE];
        pthread_t thread;

        atomic_store(&is_over, false);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, write_to_a_block, &timer->work), 0);
        for (unsigned i = 0; i < rounds; i++) {
                const struct weir__work_ops *ops = weir__task_unstarted(&constants, timer, 8 * (size_t)timer->size_class);

                CU_ASSERT_FATAL(!ops || strcmp(ops->kind, "a timer") == 0);
                if (i % 16 == 0)
                        named += weir__task_write_title(&constants, timer, title);
        }
        atomic_store(&is_over, true);
        pthread_join(thread, NULL);
        CU_ASSERT(named > 0);
        CU_ASSERT(weir__task_write_title(&constants, timer, title));
        CU_ASSERT_STRING_EQUAL(title, "timer \"block\"");
        weir_task_dismiss(timer);
}

/* -- other threads make and start tasks meanwhile -- */

#define STORM_THREADS 3
#define STORM_ROUNDS  (WEIR_TEST_SANITIZED ? 5 : 40)

static void *
make_and_drop(void *unused)
{
        (void)unused;
        while (!is_over) {
                weir_task *kept[50];

                for (unsigned i = 0; i < 50; i++)
                        kept[i] = weir_timer_new_named(i % 2 ? "storm" : "wind", WEIR_SEC(1), NULL, NULL);
                weir_series *flow = weir_series_new(NULL, NULL);
                weir_series_set_name(flow, "flow");
                weir_series_start(flow);
                for (unsigned i = 0; i < 50; i++)
                        if (i % 3)
                                weir_task_dismiss(kept[i]);
                        else
                                weir_task_start(kept[i]);
        }
        return NULL;
}

static void
a_shutdown_counts_while_other_threads_make_tasks(void)
{
        pthread_t threads[STORM_THREADS];

        is_over = false;
        for (unsigned i = 0; i < STORM_THREADS; i++)
                pthread_create(&threads[i], NULL, make_and_drop, NULL);
        for (unsigned round = 0; round < STORM_ROUNDS; round++) {
                weir_init(NULL);
                weir_log_set(hear, NULL);
                CU_ASSERT_EQUAL(weir_shutdown(), 0);
        }
        is_over = true;
        for (unsigned i = 0; i < STORM_THREADS; i++)
                pthread_join(threads[i], NULL);
        begin();
        end_with(NULL);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(what_was_never_started_is_counted_by_kind_and_the_first_is_named),
                WEIR_TEST(one_of_a_kind_is_said_in_the_singular),
                WEIR_TEST(a_series_is_named_where_no_task_has_a_name),
                WEIR_TEST(nothing_is_named_where_nothing_has_a_name),
                WEIR_TEST(parts_of_a_flow_that_was_never_started_are_not_counted),
                WEIR_TEST(a_task_that_a_wrong_name_has_spoilt_is_counted_too),
                WEIR_TEST(what_was_started_pushed_or_dismissed_is_not_counted),
                WEIR_TEST(a_start_that_a_shutdown_refuses_is_not_counted),
                WEIR_TEST(many_kinds_are_listed_and_further_ones_counted_together),
                WEIR_TEST(promise_is_counted_with_its_label),
                WEIR_TEST(promise_that_was_ended_before_its_start_is_counted_and_one_that_is_over_is_not),
                WEIR_TEST(timer_with_a_long_name_is_counted),
                WEIR_TEST(function_that_is_null_is_counted_as_a_function),
                WEIR_TEST(what_is_said_of_a_block_comes_from_one_look_at_it),
                WEIR_TEST(a_shutdown_counts_while_other_threads_make_tasks),
        };

        return weir_test_main("what was never started", tests, sizeof tests / sizeof *tests);
}
