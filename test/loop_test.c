/* test/loop_test.c: tasks whose functions run on the thread of a foreign loop. */
#include "test/fixture.h"
#include "test/timer_fixture.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>

static weir_loop *loop;
static unsigned order[16], calls;
static pthread_t thread; /* on which the last function ran */

static void
begin(void)
{
        calls = 0;
        loop = weir_loop_new();
        CU_ASSERT_PTR_NOT_NULL_FATAL(loop);
        weir_test_begin_virtual();
}

static void
end(void)
{
        weir_test_end();
        weir_loop_unref(loop);
}

static void
note(void *number)
{
        thread = pthread_self();
        order[calls++ % 16] = (unsigned)(uintptr_t)number;
}

static weir_task *
call(unsigned number)
{
        return weir_loop_call_new(loop, note, NULL, (void *)(uintptr_t)number);
}

static bool
is_readable(void)
{
        struct pollfd ready = {.fd = weir_loop_fd(loop), .events = POLLIN};

        return poll(&ready, 1, 0) == 1;
}

/* -- calls -- */

static void
a_function_runs_on_the_thread_of_the_loop_and_the_callback_on_a_worker(void)
{
        struct weir_test_record record = {0};

        begin();
        CU_ASSERT_FALSE(is_readable());
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_loop_call_new(loop, note, weir_test_done, &record))), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT(is_readable());
        CU_ASSERT_EQUAL(calls, 0);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        CU_ASSERT_EQUAL(calls, 1);
        CU_ASSERT(pthread_equal(thread, pthread_self()));
        CU_ASSERT_FALSE(is_readable());
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, 0);
        end();
}

static void
calls_run_in_the_order_of_their_starts_and_no_more_than_asked_for(void)
{
        begin();
        for (unsigned i = 0; i < 5; i++)
                weir_task_start(call(i));
        CU_ASSERT_EQUAL(weir_loop_run(loop, 2), 2);
        CU_ASSERT(is_readable());
        CU_ASSERT_EQUAL(weir_loop_run(loop, 0), 0);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 3);
        for (unsigned i = 0; i < 5; i++)
                CU_ASSERT_EQUAL(order[i], i);
        end();
}

static void
note_ten_more(void *number)
{
        note(number);
        for (unsigned i = 0; i < 10; i++)
                weir_task_start(call(i));
}

static void
calls_that_come_meanwhile_are_for_the_next_time(void)
{
        begin();
        weir_task_start(weir_loop_call_new(loop, note_ten_more, NULL, NULL));
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        CU_ASSERT(is_readable());
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 10);
        CU_ASSERT_FALSE(is_readable());
        end();
}

static void
run_nested(void *number)
{
        note(number);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
}

/* A dialogue runs a loop of its own. */
static void
a_function_may_run_the_others(void)
{
        begin();
        weir_task_start(weir_loop_call_new(loop, run_nested, NULL, NULL));
        weir_task_start(call(1));
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        CU_ASSERT_EQUAL(calls, 2);
        end();
}

static void
note_callback(weir_task *task, void *number)
{
        (void)task;
        note(number);
}

static void
a_series_goes_on_when_the_function_has_returned(void)
{
        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(series, call(1));
        weir_series_push(series, weir_empty_new(note_callback, (void *)2));
        weir_series_push(series, call(3));
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 0);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(calls, 2);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(order[i], i + 1);
        end();
}

/* -- early ends -- */

static void
a_cancel_and_a_deadline_come_before_the_function(void)
{
        begin();
        for (unsigned i = 0; i < 3; i++) {
                struct weir_test_record record = {0};
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_test_recorded(weir_loop_call_new(loop, note, weir_test_done, &record)));
                if (i == 0)
                        weir_series_set_deadline(series, WEIR_SEC(1));
                weir_series_start(series);
                if (i > 0)
                        weir_series_cancel(series);
                if (i < 2)
                        weir_test_pass(WEIR_SEC(1));
                CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 0); /* i == 2: the worker has not unlinked it */
                CU_ASSERT_FALSE(is_readable());
                weir_test_pass(0);
                WEIR_TEST_CALLED(&record, i == 0 ? -ETIMEDOUT : -ECANCELED);
                weir_series_unref(series);
        }
        CU_ASSERT_EQUAL(calls, 0);
        end();
}

static weir_series *to_cancel;

static void
cancel_it(void *unused)
{
        (void)unused;
        calls++;
        weir_series_cancel(to_cancel);
}

/* As with a function on the executor. */
static void
a_cancel_that_comes_when_the_function_has_begun_lets_it_end(void)
{
        struct weir_test_record begun = {0}, dropped = {0};

        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_task *first = weir_loop_call_new(loop, cancel_it, weir_test_done, &begun);
        to_cancel = series;
        weir_series_push(series, weir_test_recorded(first));
        weir_series_push(series, weir_test_recorded(weir_loop_call_new(loop, note, weir_test_done, &dropped)));
        weir_series_start(series);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&begun, -ECANCELED);
        WEIR_TEST_NOT_CALLED(&dropped);
        CU_ASSERT_EQUAL(calls, 1);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 0);
        weir_series_unref(series);
        end();
}

static void
shutdown_ends_calls_and_the_object_serves_the_next_runtime(void)
{
        struct weir_test_record waiting = {0}, next = {0};

        begin();
        weir_task_start(weir_test_recorded(weir_loop_call_new(loop, note, weir_test_done, &waiting)));
        weir_test_end();
        WEIR_TEST_CALLED(&waiting, -ESHUTDOWN);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 0);
        weir_test_begin_virtual();
        weir_task_start(weir_test_recorded(weir_loop_call_new(loop, note, weir_test_done, &next)));
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        weir_test_pass(0);
        WEIR_TEST_CALLED(&next, 0);
        CU_ASSERT_EQUAL(calls, 1);
        end();
}

static void
wait_for_something(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), -EDEADLK);
        CU_ASSERT_EQUAL(weir_shutdown(), -EDEADLK);
}

static void
a_function_must_not_wait(void)
{
        begin();
        weir_task_start(weir_loop_call_new(loop, wait_for_something, NULL, NULL));
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        end();
}

/* -- refused -- */

static void
run_in_a_child(void)
{
        CU_ASSERT(!weir_loop_new() && errno == ECHILD);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), -ECHILD);
}

static void
what_is_wrong_is_refused(void)
{
        struct rlimit limit, none;
        char said[256];

        begin();
        CU_ASSERT_EQUAL(weir_loop_fd(NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_loop_run(NULL, 1), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_loop_call_new(NULL, note, NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_loop_call_new(loop, NULL, NULL, NULL)), -EINVAL);
        weir_task_dismiss(call(1));
        weir_loop_unref(weir_loop_ref(NULL));
        weir_task_start(call(1));
        CU_ASSERT_EQUAL(weir_test_child(run_in_a_child, said, sizeof said), 0);
        CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
        none = (struct rlimit){0, limit.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
        CU_ASSERT(!weir_loop_new() && errno == EMFILE);
        setrlimit(RLIMIT_NOFILE, &limit);
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        end();
}

static int dump_file;

static void
dump(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_debug_dump(dump_file), 0);
}

static void
a_dump_says_whose_thread_it_waits_for(void)
{
        char text[4096] = "", expected[96];
        ssize_t before;

        begin();
        dump_file = memfd_create("dump", MFD_CLOEXEC);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_loop_call_new(loop, dump, NULL, NULL));
        weir_series_start(series);
        dump(NULL);
        before = pread(dump_file, text, sizeof text - 1, 0);
        snprintf(expected, sizeof expected,
                 "call in a loop pending: for the thread of the loop with descriptor %d, for which 1 wait", weir_loop_fd(loop));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, expected));
        CU_ASSERT_EQUAL(weir_loop_run(loop, WEIR_ALL), 1);
        CU_ASSERT(pread(dump_file, text, sizeof text - 1, before) > 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "inside its function, on the thread of the loop"));
        close(dump_file);
        end();
}

/* -- many threads, and one loop -- */

#define THREADS 4
#define ROUNDS  (WEIR_TEST_SANITIZED ? 2500 : 25000)

static _Atomic unsigned run_here, ended, succeeded;
static _Atomic bool is_over;

static void
count_run(void *unused)
{
        (void)unused;
        run_here++;
}

static void
count_end(weir_task *task, void *unused)
{
        (void)unused;
        succeeded += weir_task_status(task) == 0;
        ended++;
}

static void *
call_and_cancel(void *seed)
{
        unsigned state = (unsigned)(uintptr_t)seed;

        for (unsigned i = 0; i < ROUNDS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                weir_series_push(series, weir_loop_call_new(loop, count_run, count_end, NULL));
                weir_series_start(series);
                if (rand_r(&state) % 2)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void *
run_loop(void *unused)
{
        while (!is_over || is_readable()) {
                struct pollfd ready = {.fd = weir_loop_fd(loop), .events = POLLIN};

                (void)poll(&ready, 1, 1);
                weir_loop_run(loop, 7);
        }
        return unused;
}

static void
each_call_runs_once_or_is_cancelled(void)
{
        pthread_t threads[THREADS], looping;

        loop = weir_loop_new();
        weir_test_begin_real(2);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&looping, NULL, run_loop, NULL), 0);
        for (unsigned i = 0; i < THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, call_and_cancel, (void *)(uintptr_t)(i + 1)), 0);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        is_over = true;
        pthread_join(looping, NULL);
        weir_test_end();
        CU_ASSERT_EQUAL(ended, THREADS * ROUNDS);
        CU_ASSERT(succeeded <= run_here); /* some were cancelled while they ran */
        CU_ASSERT(run_here > 0);
        weir_loop_unref(loop);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_function_runs_on_the_thread_of_the_loop_and_the_callback_on_a_worker),
                WEIR_TEST(calls_run_in_the_order_of_their_starts_and_no_more_than_asked_for),
                WEIR_TEST(calls_that_come_meanwhile_are_for_the_next_time),
                WEIR_TEST(a_function_may_run_the_others),
                WEIR_TEST(a_series_goes_on_when_the_function_has_returned),
                WEIR_TEST(a_cancel_and_a_deadline_come_before_the_function),
                WEIR_TEST(a_cancel_that_comes_when_the_function_has_begun_lets_it_end),
                WEIR_TEST(shutdown_ends_calls_and_the_object_serves_the_next_runtime),
                WEIR_TEST(a_function_must_not_wait),
                WEIR_TEST(what_is_wrong_is_refused),
                WEIR_TEST(a_dump_says_whose_thread_it_waits_for),
                WEIR_TEST(each_call_runs_once_or_is_cancelled),
        };

        return weir_test_main("loop", tests, sizeof tests / sizeof *tests);
}
