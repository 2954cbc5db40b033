/* test/shared_guard_test.c: guards that series share, and guards that are acquired at once or not at all. */
#include "test/fixture.h"

#include <errno.h>

static char seen[2048];
static weir_guard *guard;

static void
begin(void)
{
        seen[0] = '\0';
        weir_test_begin_virtual();
        guard = weir_guard_new();
}

static void
end(void)
{
        CU_ASSERT(!weir_guard_is_held(guard, NULL));
        weir_guard_unref(guard);
        weir_test_end();
}

static void
noted(weir_task *task, void *name)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s:%d", size ? " " : "", (const char *)name, weir_task_status(task));
}

/* A series that acquires the guard, has it for so long, and ends; with a reference for the test. */
static weir_series *
start(const char *name, bool is_shared, weir_nsec how_long)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, is_shared ? weir_guard_acquire_shared_new(guard, noted, (void *)name)
                                           : weir_guard_acquire_new(guard, noted, (void *)name));
        weir_series_push(series, weir_timer_new(how_long, NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return series;
}

static void
go(const char *name, bool is_shared)
{
        weir_series_unref(start(name, is_shared, WEIR_SEC(1)));
}

static void
see(const char *expected)
{
        CU_ASSERT_STRING_EQUAL(seen, expected);
        if (strcmp(seen, expected))
                fprintf(stderr, "expected \"%s\", got \"%s\"\n", expected, seen);
}

/* -- sharing -- */

static void
those_that_share_have_it_together(void)
{
        begin();
        go("a", true);
        go("b", true);
        go("c", true);
        weir_test_pass(0);
        see("a:0 b:0 c:0");
        CU_ASSERT(weir_guard_is_held(guard, NULL));
        weir_test_pass(WEIR_SEC(1));
        end();
}

static void
one_that_wants_it_alone_waits_for_all_of_them(void)
{
        begin();
        weir_series_unref(start("a", true, WEIR_SEC(1)));
        weir_series_unref(start("b", true, WEIR_SEC(3)));
        go("w", false);
        weir_test_pass(WEIR_SEC(2));
        see("a:0 b:0");
        weir_test_pass(WEIR_SEC(1));
        see("a:0 b:0 w:0");
        weir_test_pass(WEIR_SEC(1));
        end();
}

static void
those_that_share_wait_for_one_that_has_it_alone_and_then_go_together(void)
{
        begin();
        go("w", false);
        go("a", true);
        go("b", true);
        weir_test_pass(WEIR_MSEC(500));
        see("w:0");
        weir_test_pass(WEIR_MSEC(500));
        see("w:0 a:0 b:0");
        weir_test_pass(WEIR_SEC(1));
        end();
}

static void
nobody_overtakes_so_nobody_starves(void)
{
        begin();
        go("a", true);
        go("w", false);
        go("b", true);
        go("c", true);
        go("v", false);
        go("d", true);
        weir_test_pass(WEIR_MSEC(500));
        see("a:0");
        weir_test_pass(WEIR_SEC(1));
        see("a:0 w:0");
        weir_test_pass(WEIR_SEC(1));
        see("a:0 w:0 b:0 c:0");
        weir_test_pass(WEIR_SEC(1));
        see("a:0 w:0 b:0 c:0 v:0");
        weir_test_pass(WEIR_SEC(1));
        see("a:0 w:0 b:0 c:0 v:0 d:0");
        weir_test_pass(WEIR_SEC(1));
        end();
}

static void
one_that_gives_up_waiting_lets_those_behind_it_share(void)
{
        begin();
        go("a", true);
        weir_series *w = start("w", false, 0);
        go("b", true);
        go("c", true);
        weir_test_pass(WEIR_MSEC(100));
        see("a:0");
        weir_series_cancel(w);
        weir_test_pass(WEIR_MSEC(100));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "w:-125"));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "b:0"));
        CU_ASSERT_PTR_NOT_NULL(strstr(seen, "c:0"));
        weir_series_unref(w);
        weir_test_pass(WEIR_SEC(2));
        end();
}

static void
a_thousand_share_and_all_of_them_give_it_back(void)
{
        begin();
        go("w", false);
        for (unsigned i = 0; i < 1000; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_guard_acquire_shared_new(guard, NULL, NULL));
                weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
                weir_series_start(series);
        }
        go("v", false);
        weir_test_pass(WEIR_MSEC(1500));
        see("w:0");
        weir_test_pass(WEIR_MSEC(500));
        see("w:0 v:0");
        weir_test_pass(WEIR_SEC(1));
        end();
}

static void
a_series_has_it_once(void)
{
        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_guard_acquire_shared_new(guard, noted, "shared"));
        weir_series_push(series, weir_guard_acquire_shared_new(guard, noted, "again"));
        weir_series_push(series, weir_guard_acquire_new(guard, noted, "alone"));
        weir_task *inner = weir_parallel_new(NULL, NULL);
        weir_parallel_add(inner, weir_guard_acquire_shared_new(guard, noted, "inside"));
        weir_series_push(series, inner);
        weir_series_start(series);
        weir_test_pass(0);
        see("shared:0 again:-35 alone:-35 inside:-35");
        seen[0] = '\0';
        series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_guard_acquire_new(guard, noted, "alone"));
        weir_series_push(series, weir_guard_acquire_shared_new(guard, noted, "shared"));
        weir_series_start(series);
        weir_test_pass(0);
        see("alone:0 shared:-35");
        end();
}

static void
release_all(weir_task *task, void *unused)
{
        weir_series *series = weir_series_of(task);

        (void)unused;
        CU_ASSERT(weir_guard_is_held(guard, series));
        CU_ASSERT_EQUAL(weir_guard_release(guard, series), 0);
        CU_ASSERT(!weir_guard_is_held(guard, series));
        CU_ASSERT_EQUAL(weir_guard_release(guard, series), -EPERM);
        noted(task, "released");
}

static void
a_share_is_released_before_the_end_too(void)
{
        begin();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_guard_acquire_shared_new(guard, NULL, NULL));
        weir_series_push(series, weir_empty_new(release_all, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(5), NULL, NULL));
        weir_series_start(series);
        go("w", false);
        weir_test_pass(0);
        see("released:0 w:0");
        weir_test_pass(WEIR_SEC(5));
        end();
}

static void
shared_by_name(void)
{
        begin();
        weir_task_start(weir_guard_acquire_shared_new_named("rw", noted, "a"));
        weir_task_start(weir_guard_acquire_shared_new_named("rw", noted, "b"));
        CU_ASSERT_EQUAL(weir_task_start(weir_guard_acquire_shared_new_named("", noted, "c")), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_guard_acquire_shared_new(NULL, noted, "c")), -ENOMEM);
        weir_test_pass(0);
        see("a:0 b:0");
        end();
}

/* -- at once -- */

static int
tried(weir_series *series, bool is_shared)
{
        return is_shared ? weir_guard_try_acquire_shared(guard, series) : weir_guard_try_acquire(guard, series);
}

/* A series that runs and does nothing; with a reference for the test. */
static weir_series *
idle(void)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        weir_series_push(series, weir_timer_new(WEIR_SEC(10), NULL, NULL));
        weir_series_start(series);
        return series;
}

static void
stop(weir_series *series)
{
        weir_series_cancel(series);
        weir_test_pass(0);
        weir_series_unref(series);
}

static void
a_try_has_it_at_once_or_not_at_all(void)
{
        begin();
        weir_series *one = idle(), *other = idle();
        CU_ASSERT_EQUAL(tried(one, false), 0);
        CU_ASSERT(weir_guard_is_held(guard, one));
        CU_ASSERT_EQUAL(tried(one, false), -EDEADLK);
        CU_ASSERT_EQUAL(tried(one, true), -EDEADLK);
        CU_ASSERT_EQUAL(tried(other, false), -EAGAIN);
        CU_ASSERT_EQUAL(tried(other, true), -EAGAIN);
        go("w", false);
        weir_test_pass(0);
        see("");
        stop(one); /* its end gives it back */
        see("w:0");
        CU_ASSERT_EQUAL(tried(other, false), -EAGAIN);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_EQUAL(tried(other, false), 0);
        CU_ASSERT_EQUAL(weir_guard_release(guard, other), 0);
        stop(other);
        end();
}

static void
a_try_to_share_does_not_overtake(void)
{
        begin();
        weir_series *one = idle(), *other = idle(), *third = idle();
        CU_ASSERT_EQUAL(tried(one, true), 0);
        CU_ASSERT_EQUAL(tried(one, true), -EDEADLK);
        CU_ASSERT_EQUAL(tried(other, true), 0);
        CU_ASSERT_EQUAL(tried(third, false), -EAGAIN);
        go("w", false);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(tried(third, true), -EAGAIN);
        stop(one);
        stop(other);
        see("w:0");
        weir_test_pass(WEIR_SEC(1));
        stop(third);
        end();
}

static void
a_series_that_does_not_run_gets_nothing(void)
{
        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        CU_ASSERT_EQUAL(tried(series, false), -ESTALE);
        weir_series_start(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(tried(series, true), -ESTALE);
        weir_series_unref(series);
        CU_ASSERT_EQUAL(tried(NULL, false), -EINVAL);
        series = idle();
        CU_ASSERT_EQUAL(weir_guard_try_acquire(NULL, series), -ENOMEM);
        CU_ASSERT_EQUAL(weir_guard_try_acquire_shared(NULL, series), -ENOMEM);
        stop(series);
        end();
}

/* -- dumps -- */

static void
a_dump_says_who_shares_it(void)
{
        char dump[8192], expected[128];
        int ends[2];

        begin();
        weir_series *one = idle(), *other = idle();
        weir_series_set_name(one, "report");
        CU_ASSERT_EQUAL(tried(one, true), 0);
        CU_ASSERT_EQUAL(tried(other, true), 0);
        go("w", false);
        weir_test_pass(WEIR_MSEC(500));
        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        CU_ASSERT_EQUAL(weir_debug_dump(ends[1]), 0);
        close(ends[1]);
        ssize_t size = read(ends[0], dump, sizeof dump - 1);
        dump[size > 0 ? size : 0] = '\0';
        close(ends[0]);
        snprintf(expected, sizeof expected, "guard: %p, 1 waits; shared by series \"report\" for 500 ms, and by 1 others\n",
                 (void *)guard);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, expected));
        snprintf(expected, sizeof expected, "shares guard %p for 500 ms", (void *)guard);
        CU_ASSERT_PTR_NOT_NULL(strstr(dump, expected));
        stop(one);
        stop(other);
        weir_test_pass(WEIR_SEC(1));
        end();
}

/* -- many threads -- */

#define STORM (WEIR_TEST_SANITIZED ? 2000 : 20000)

static struct {
        _Atomic int alone, shared, wrong;
        _Atomic unsigned left;
        struct weir_test_latch over;
} storm;

static void
enter(weir_task *task, void *is_shared)
{
        if (weir_task_status(task))
                return;
        *(is_shared ? &storm.shared : &storm.alone) += 1;
        storm.wrong += storm.alone > 1 || (storm.alone && storm.shared);
        sched_yield();
        *(is_shared ? &storm.shared : &storm.alone) -= 1;
}

static void
storm_ended(weir_series *series, void *unused)
{
        (void)series;
        (void)unused;
        if (--storm.left == 0)
                weir_test_latch_count_down(&storm.over);
}

static void *
storm_thread(void *seed)
{
        struct weir_test_random random = {.state = (uintptr_t)seed};

        for (unsigned i = 0; i < STORM; i++) {
                bool is_shared = weir_test_random_below(&random, 3) > 0;
                weir_series *series = weir_series_ref(weir_series_new(storm_ended, NULL));
                void *context = is_shared ? &storm : NULL;

                weir_series_push(series, is_shared ? weir_guard_acquire_shared_new(guard, enter, context)
                                                   : weir_guard_acquire_new(guard, enter, context));
                weir_series_start(series);
                if (weir_test_random_below(&random, 4) == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
storms_find_no_two_that_must_not_be_together(void)
{
        pthread_t threads[3];

        weir_test_begin_real(2);
        guard = weir_guard_new();
        storm.left = 3 * STORM;
        weir_test_latch_init(&storm.over, 1);
        for (uintptr_t i = 0; i < 3; i++)
                pthread_create(&threads[i], NULL, storm_thread, (void *)(weir_test_seed() + i));
        for (unsigned i = 0; i < 3; i++)
                pthread_join(threads[i], NULL);
        weir_test_latch_wait(&storm.over);
        CU_ASSERT_EQUAL(storm.wrong, 0);
        weir_test_end();
        CU_ASSERT(!weir_guard_is_held(guard, NULL));
        weir_guard_unref(guard);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(those_that_share_have_it_together),
                WEIR_TEST(one_that_wants_it_alone_waits_for_all_of_them),
                WEIR_TEST(those_that_share_wait_for_one_that_has_it_alone_and_then_go_together),
                WEIR_TEST(nobody_overtakes_so_nobody_starves),
                WEIR_TEST(one_that_gives_up_waiting_lets_those_behind_it_share),
                WEIR_TEST(a_thousand_share_and_all_of_them_give_it_back),
                WEIR_TEST(a_series_has_it_once),
                WEIR_TEST(a_share_is_released_before_the_end_too),
                WEIR_TEST(shared_by_name),
                WEIR_TEST(a_try_has_it_at_once_or_not_at_all),
                WEIR_TEST(a_try_to_share_does_not_overtake),
                WEIR_TEST(a_series_that_does_not_run_gets_nothing),
                WEIR_TEST(a_dump_says_who_shares_it),
                WEIR_TEST(storms_find_no_two_that_must_not_be_together),
        };

        return weir_test_main("shared_guard", tests, sizeof tests / sizeof *tests);
}
