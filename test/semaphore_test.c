/* test/semaphore_test.c: tokens, and tasks that run while they have some. */
#include "test/fixture.h"

#include <errno.h>

#include "factory/task/task.h"

static char seen[1024];

static void
begin(void)
{
        seen[0] = '\0';
        weir_test_begin_virtual();
}

static void
note(const char *what, int status)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s:%d", size ? " " : "", what, status);
}

static void
noted(weir_task *task, void *name)
{
        note(name, weir_task_status(task));
}

static void
acquire(weir_semaphore *semaphore, uint64_t tokens, const char *name)
{
        weir_task_start(weir_semaphore_acquire_new(semaphore, tokens, noted, (void *)name));
}

/* One that can be cancelled; the caller's to unref. */
static weir_series *
acquire_in_series(weir_semaphore *semaphore, uint64_t tokens, const char *name)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, weir_semaphore_acquire_new(semaphore, tokens, noted, (void *)name));
        weir_series_start(series);
        return series;
}

/* -- tokens -- */

static void
tokens_are_given_in_the_order_of_coming(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(3);

        begin();
        acquire(semaphore, 2, "a");
        acquire(semaphore, 1, "b");
        acquire(semaphore, 1, "c");
        acquire(semaphore, 1, "d");
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0");
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 0);
        CU_ASSERT_EQUAL(weir_semaphore_release(semaphore, 1), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 c:0");
        CU_ASSERT_EQUAL(weir_semaphore_release(semaphore, 2), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 c:0 d:0");
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 1);
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

static void
large_one_at_the_head_holds_up_those_behind_it(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(4);

        begin();
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 2), 0);
        acquire(semaphore, 3, "large");
        acquire(semaphore, 1, "small");
        acquire(semaphore, 0, "none"); /* waits for nothing */
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "none:0");
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 1), -EAGAIN); /* nor does this pass it */
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 0), 0);
        weir_semaphore_release(semaphore, 1);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "none:0 large:0");
        weir_semaphore_release(semaphore, 1);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "none:0 large:0 small:0");
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

static void
large_one_that_is_cancelled_lets_those_behind_it_go_on(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(4);

        begin();
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 2), 0);
        weir_series *series = acquire_in_series(semaphore, 3, "large");
        acquire(semaphore, 1, "small");
        acquire(semaphore, 1, "small too");
        acquire(semaphore, 1, "not yet");
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "large:-125 small:0 small too:0");
        weir_series_unref(series);
        weir_semaphore_unref(semaphore);
        weir_test_end();
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "not yet:-108"));
}

static void
cancelled_one_gets_no_tokens(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(1);

        begin();
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 1), 0);
        weir_series *a = acquire_in_series(semaphore, 1, "a"), *b = acquire_in_series(semaphore, 1, "b");
        weir_test_pass(0);
        weir_series_cancel(a);
        weir_semaphore_release(semaphore, 1); /* a has not called back yet */
        weir_series_cancel(b);                /* has it already */
        weir_test_pass(0);
        CU_ASSERT(strcmp(seen, "a:-125 b:0") == 0 || strcmp(seen, "b:0 a:-125") == 0);
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 0);
        weir_series_unref(a);
        weir_series_unref(b);
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

static void
thousand_are_served_by_one_release(void)
{
        enum { WAITS = 1000 };
        weir_semaphore *semaphore = weir_semaphore_new(0);
        struct weir_test_record record = {0};

        begin();
        for (unsigned i = 0; i < WAITS; i++)
                weir_task_start(weir_semaphore_acquire_new(semaphore, 3, weir_test_done, &record));
        CU_ASSERT_EQUAL(weir_semaphore_release(semaphore, 3 * WAITS + 2), 0);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(record.calls, WAITS);
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 2);
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

static void
semaphore_is_as_large_as_what_was_released(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(1), *empty = weir_semaphore_new(0);

        begin();
        CU_ASSERT_EQUAL(weir_semaphore_release(semaphore, UINT64_MAX - 1), 0);
        CU_ASSERT_EQUAL(weir_semaphore_release(semaphore, 1), -EOVERFLOW);
        CU_ASSERT_EQUAL(weir_semaphore_release(semaphore, 0), 0);
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), UINT64_MAX);
        acquire(empty, 5, "five"); /* of what will come */
        weir_semaphore_release(empty, 4);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_semaphore_release(empty, 1);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "five:0");
        weir_semaphore_unref(semaphore);
        weir_semaphore_unref(empty);
        weir_test_end();
}

static void
semaphore_of_a_name_is_one(void)
{
        begin();
        weir_semaphore *a = weir_semaphore_open("s", 2), *b = weir_semaphore_open("s", 2), *empty = weir_semaphore_open("e", 0);
        CU_ASSERT_PTR_EQUAL(a, b);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_semaphore_open("s", 3));
        CU_ASSERT_EQUAL(errno, EEXIST);
        CU_ASSERT_PTR_NULL(weir_semaphore_open("e", 1));
        weir_semaphore_try_acquire(a, 2);
        weir_semaphore_unref(a);
        CU_ASSERT_EQUAL(weir_semaphore_available(b), 0);
        weir_semaphore_unref(b);
        a = weir_semaphore_open("s", 3); /* the other one is forgotten */
        CU_ASSERT_EQUAL(weir_semaphore_available(a), 3);
        weir_semaphore_unref(a);
        weir_semaphore_unref(empty);
        weir_test_end();
}

static void
how_many_it_wants_is_seen(void)
{
        weir_semaphore *semaphore = weir_semaphore_open("s", 4);
        weir_task *task = weir_semaphore_acquire_new(semaphore, 3, noted, "a");
        char text[200];

        begin();
        weir_semaphore_try_acquire(semaphore, 2);
        weir_task_start(task);
        weir_test_pass(0);
        weir__task_ops(task)->describe(task, text, sizeof text);
        CU_ASSERT_STRING_EQUAL(text, "semaphore \"s\", at which 1 waits, for 3 of which 2 are there");
        weir_semaphore_unref(semaphore);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "a:-108");
}

static void
a_wrong_semaphore_and_too_many_tokens_are_refused(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(2);

        begin();
        CU_ASSERT_EQUAL(weir_semaphore_release(NULL, 1), -ENOMEM);
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(NULL, 1), -ENOMEM);
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 3), -EINVAL);
        CU_ASSERT_EQUAL(weir_semaphore_available(NULL), 0);
        CU_ASSERT_EQUAL(weir_task_start(weir_semaphore_acquire_new(NULL, 1, noted, "x")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_semaphore_acquire_new(semaphore, 3, noted, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_limited_new(semaphore, 3, weir_empty_new(noted, "x"), noted, "x")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_limited_new(NULL, 1, weir_empty_new(noted, "x"), noted, "x")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_limited_new(semaphore, 1, NULL, noted, "x")), -ENOMEM);
        CU_ASSERT_EQUAL(weir_task_start(weir_limited_new(semaphore, 1, weir_timer_new_named("", 1, noted, "x"), noted, "x")),
                        -EINVAL);
        CU_ASSERT_PTR_NULL(weir_semaphore_open("", 1));
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 2);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_semaphore_unref(NULL);
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

/* -- limited tasks -- */

static unsigned running, most_running;

static void
arrived(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        running--;
}

static weir_task *
download(void *context)
{
        (void)context;
        running++;
        if (running > most_running)
                most_running = running;
        return weir_timer_new(WEIR_SEC(1), arrived, NULL);
}

static void
at_most_ten_run_at_once(void)
{
        weir_semaphore *ten = weir_semaphore_new(10);
        weir_task *all = weir_parallel_new(noted, "all");

        begin();
        running = most_running = 0;
        for (unsigned i = 0; i < 35; i++) {
                weir_task *one = weir_dynamic_new(download, NULL, NULL);

                weir_parallel_add(all, weir_limited_new(ten, 1, one, NULL, NULL));
        }
        weir_task_start(all);
        weir_test_pass(WEIR_MSEC(3999));
        CU_ASSERT_EQUAL(most_running, 10);
        CU_ASSERT_EQUAL(running, 5);
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_test_pass(WEIR_MSEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "all:0");
        CU_ASSERT_EQUAL(weir_semaphore_available(ten), 10);
        weir_semaphore_unref(ten);
        weir_test_end();
}

static void
counts_what_is_there(weir_task *task, void *semaphore)
{
        note("status", weir_task_status(task));
        note("there", (int)weir_semaphore_available(semaphore));
}

static void
pushes_a_timer(weir_task *task, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(task), weir_timer_new(WEIR_SEC(1), noted, "pushed"));
}

static void
tokens_come_back_behind_what_the_task_pushed_and_before_the_callback(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(3);

        begin();
        weir_task_start(weir_limited_new(semaphore, 2, weir_empty_new(pushes_a_timer, NULL), counts_what_is_there, semaphore));
        weir_test_pass(WEIR_MSEC(999));
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 1);
        weir_test_pass(WEIR_MSEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "pushed:0 status:0 there:3");
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

static void
freed(void *name)
{
        note(name, 0);
}

static void
limited_task_that_ends_early_gives_back_what_it_has(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(2);
        weir_series *series[3];
        static char *const names[] = {"a", "b", "c"};

        begin();
        for (unsigned i = 0; i < 3; i++) {
                weir_task *task = weir_timer_new(WEIR_SEC(10), noted, names[i]);

                weir_task_on_free(task, freed);
                series[i] = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series[i], weir_limited_new(semaphore, 2, task, noted, "limited"));
                weir_series_start(series[i]);
                weir_test_pass(0);
        }
        weir_series_cancel(series[1]); /* it waits for tokens */
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "b:0 limited:-125");
        weir_series_cancel(series[0]); /* it has them */
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "b:0 limited:-125 a:-125 a:0 limited:-125");
        weir_series_set_deadline(series[2], WEIR_SEC(1));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "b:0 limited:-125 a:-125 a:0 limited:-125 c:-110 c:0 limited:-110");
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 2);
        weir_task *dismissed = weir_limited_new(semaphore, 2, weir_timer_new(0, noted, "x"), noted, "x");
        weir_task_dismiss(dismissed);
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 2);
        weir_task_start(weir_limited_new(semaphore, 1, weir_timer_new(WEIR_FOREVER, NULL, NULL), NULL, NULL));
        weir_task_start(weir_limited_new(semaphore, 2, weir_timer_new(WEIR_FOREVER, NULL, NULL), NULL, NULL));
        for (unsigned i = 0; i < 3; i++)
                weir_series_unref(series[i]);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 2);
        weir_semaphore_unref(semaphore);
}

static void
cancels_series(weir_task *task, void *series)
{
        (void)task;
        weir_series_cancel(series);
}

static void
tokens_that_come_together_with_the_cancel_go_back(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(1);
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 1), 0);
        weir_series_push(series, weir_limited_new(semaphore, 1, weir_empty_new(noted, "x"), noted, "limited"));
        weir_series_start(series);
        weir_test_pass(0);
        weir_task_start(weir_empty_new(cancels_series, series));
        weir_semaphore_release(semaphore, 1);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "limited:-125");
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 1);
        weir_semaphore_unref(semaphore);
        weir_series_unref(series);
        weir_test_end();
}

static void
status_is_that_of_the_task(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(1);

        begin();
        CU_ASSERT_EQUAL(weir_task_run(weir_limited_new(semaphore, 1,
                                                       weir_timeout_new(weir_timer_new(WEIR_SEC(2), NULL, NULL), WEIR_SEC(1)),
                                                       NULL, NULL)),
                        -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_limited_new(semaphore, 0, weir_empty_new(noted, "x"), noted, "limited")), 0);
        CU_ASSERT_STRING_EQUAL(seen, "x:0 limited:0");
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 1);
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

/* -- many threads -- */

#define STORM_SERIES 4000
#define STORM_TOKENS 5

static weir_semaphore *storm_semaphore;
static atomic_int storm_out;
static atomic_uint storm_over, storm_broken;

/* Of a limited task.  Its `done` is called also when its series was cancelled before its `make` was. */
struct storm_turn {
        int tokens;
        bool runs;
};

static weir_task *
storm_runs(void *context)
{
        struct storm_turn *turn = context;

        turn->runs = true;
        if (atomic_fetch_add(&storm_out, turn->tokens) + turn->tokens > STORM_TOKENS)
                atomic_fetch_add(&storm_broken, 1);
        return weir_timer_new(WEIR_USEC(5), NULL, NULL);
}

static void
storm_ran(weir_task *task, void *context)
{
        const struct storm_turn *turn = context;

        (void)task;
        if (turn->runs)
                atomic_fetch_sub(&storm_out, turn->tokens);
}

static weir_task *
storm_turn_new(int tokens)
{
        struct storm_turn *turn = calloc(1, sizeof *turn);

        turn->tokens = tokens;
        weir_task *task = weir_dynamic_new(storm_runs, storm_ran, turn);
        weir_task_on_free(task, free);
        return task;
}

static void
storm_acquired(weir_task *task, void *tokens)
{
        if (weir_task_status(task))
                return;
        if (atomic_fetch_add(&storm_out, (int)(uintptr_t)tokens) + (int)(uintptr_t)tokens > STORM_TOKENS)
                atomic_fetch_add(&storm_broken, 1);
        atomic_fetch_sub(&storm_out, (int)(uintptr_t)tokens);
        weir_semaphore_release(storm_semaphore, (uintptr_t)tokens);
}

static void
storm_ends(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        atomic_fetch_add(&storm_over, 1);
}

static void *
storm_starts(void *argument)
{
        (void)argument;
        for (unsigned i = 0; i < STORM_SERIES; i++) {
                weir_series *series = weir_series_ref(weir_series_new(storm_ends, NULL));
                uintptr_t tokens = i % (STORM_TOKENS + 1);

                if (i % 2)
                        weir_series_push(series,
                                         weir_limited_new(storm_semaphore, tokens, storm_turn_new((int)tokens), NULL, NULL));
                else
                        weir_series_push(series,
                                         weir_semaphore_acquire_new(storm_semaphore, tokens, storm_acquired, (void *)tokens));
                if (i % 7 == 0)
                        weir_series_set_deadline(series, WEIR_USEC(100 + i % 1000));
                if (i % 13 == 0)
                        weir_task_dismiss(weir_limited_new(storm_semaphore, 1, weir_empty_new(NULL, NULL), NULL, NULL));
                weir_series_start(series);
                if (i % 3 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
storm(bool waits)
{
        pthread_t threads[2];

        storm_out = 0;
        storm_over = storm_broken = 0;
        storm_semaphore = weir_semaphore_new(STORM_TOKENS);
        weir_test_begin_real(3);
        for (unsigned i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_starts, NULL), 0);
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        if (waits)
                WEIR_TEST_EVENTUALLY(storm_over == 2 * STORM_SERIES);
        weir_test_end(); /* which otherwise ends all that is left */
        CU_ASSERT_EQUAL(storm_over, 2 * STORM_SERIES);
        CU_ASSERT_EQUAL(storm_broken, 0);
        CU_ASSERT_EQUAL(weir_semaphore_available(storm_semaphore), STORM_TOKENS);
        weir_semaphore_unref(storm_semaphore);
}

static void
no_token_is_lost_whatever_ends_who_has_it(void)
{
        storm(true);
        CU_ASSERT_EQUAL(storm_out, 0);
}

static void
shutdown_amid_that_brings_them_back(void)
{
        storm(false);
}

/* -- closed -- */

static void
closed_semaphore_gives_nobody_anything_any_more(void)
{
        weir_semaphore *semaphore = weir_semaphore_new(2);

        begin();
        acquire(semaphore, 2, "a");
        acquire(semaphore, 1, "b");
        acquire(semaphore, 2, "c");
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0");
        CU_ASSERT_EQUAL(weir_semaphore_close(semaphore), 0);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:-32 c:-32");
        CU_ASSERT_EQUAL(weir_semaphore_close(semaphore), -EALREADY);
        CU_ASSERT_EQUAL(weir_semaphore_release(semaphore, 2), 0);
        CU_ASSERT_EQUAL(weir_semaphore_available(semaphore), 2);
        CU_ASSERT_EQUAL(weir_semaphore_try_acquire(semaphore, 1), -EPIPE);
        acquire(semaphore, 1, "d");
        acquire(semaphore, 0, "e");
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:-32 c:-32 d:-32 e:-32");
        weir_task_start(weir_limited_new(semaphore, 1, weir_empty_new(noted, "inside"), noted, "limited"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:-32 c:-32 d:-32 e:-32 limited:-32");
        CU_ASSERT_EQUAL(weir_semaphore_close(NULL), -ENOMEM);
        weir_semaphore_unref(semaphore);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(tokens_are_given_in_the_order_of_coming),
                WEIR_TEST(closed_semaphore_gives_nobody_anything_any_more),
                WEIR_TEST(large_one_at_the_head_holds_up_those_behind_it),
                WEIR_TEST(large_one_that_is_cancelled_lets_those_behind_it_go_on),
                WEIR_TEST(cancelled_one_gets_no_tokens),
                WEIR_TEST(thousand_are_served_by_one_release),
                WEIR_TEST(semaphore_is_as_large_as_what_was_released),
                WEIR_TEST(semaphore_of_a_name_is_one),
                WEIR_TEST(how_many_it_wants_is_seen),
                WEIR_TEST(a_wrong_semaphore_and_too_many_tokens_are_refused),
                WEIR_TEST(at_most_ten_run_at_once),
                WEIR_TEST(tokens_come_back_behind_what_the_task_pushed_and_before_the_callback),
                WEIR_TEST(limited_task_that_ends_early_gives_back_what_it_has),
                WEIR_TEST(tokens_that_come_together_with_the_cancel_go_back),
                WEIR_TEST(status_is_that_of_the_task),
                WEIR_TEST(no_token_is_lost_whatever_ends_who_has_it),
                WEIR_TEST(shutdown_amid_that_brings_them_back),
        };

        return weir_test_main("semaphore", tests, sizeof tests / sizeof *tests);
}
