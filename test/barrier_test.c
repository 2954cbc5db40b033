/* test/barrier_test.c: tasks that wait for each other. */
#include "test/fixture.h"

#include <errno.h>

static char seen[512];

static void
begin(void)
{
        seen[0] = '\0';
        weir_test_begin_virtual();
}

static void
through(weir_task *task, void *name)
{
        size_t size = strlen(seen);

        snprintf(seen + size, sizeof seen - size, "%s%s%s:%d", size ? " " : "", (const char *)name,
                 weir_barrier_is_last(task) ? "!" : "", weir_task_status(task));
}

static weir_task *
arrive(weir_barrier *barrier, char *name)
{
        return weir_barrier_arrive_new(barrier, through, name);
}

static void
n_go_on_together_one_of_them_as_the_last_and_then_the_next_n(void)
{
        static char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
        weir_barrier *barrier = weir_barrier_new(3);

        begin();
        for (unsigned i = 0; i < 2; i++)
                weir_task_start(arrive(barrier, names[i]));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "");
        for (unsigned i = 2; i < 5; i++)
                weir_task_start(arrive(barrier, names[i]));
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 c!:0");
        for (unsigned i = 5; i < 7; i++)
                weir_task_start(arrive(barrier, names[i]));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 c!:0 d:0 e:0 f!:0");
        weir_barrier_unref(barrier);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b:0 c!:0 d:0 e:0 f!:0 g:-108");
}

static void
barrier_for_one_holds_nobody_up(void)
{
        weir_barrier *barrier = weir_barrier_new(1);

        begin();
        CU_ASSERT_EQUAL(weir_task_run(arrive(barrier, "a")), 0);
        CU_ASSERT_EQUAL(weir_task_run(arrive(barrier, "b")), 0);
        CU_ASSERT_STRING_EQUAL(seen, "a!:0 b!:0");
        weir_barrier_unref(barrier);
        weir_test_end();
}

static void
a_cancelled_or_late_task_has_not_arrived(void)
{
        weir_barrier *barrier = weir_barrier_new(3);
        weir_series *cancelled = weir_series_ref(weir_series_new(NULL, NULL)), *late = weir_series_new(NULL, NULL);

        begin();
        weir_task_start(arrive(barrier, "a"));
        weir_series_push(cancelled, arrive(barrier, "cancelled"));
        weir_series_start(cancelled);
        weir_series_cancel(cancelled);
        weir_series_push(late, arrive(barrier, "late"));
        weir_series_set_deadline(late, WEIR_SEC(1));
        weir_series_start(late);
        weir_test_pass(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125 late:-110");
        weir_task_dismiss(arrive(barrier, "dismissed"));
        weir_task_start(arrive(barrier, "b"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125 late:-110");
        weir_task_start(arrive(barrier, "c"));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "cancelled:-125 late:-110 a:0 b:0 c!:0");
        weir_series_unref(cancelled);
        weir_barrier_unref(barrier);
        weir_test_end();
}

static weir_barrier *passed;

static void
arrives_and_cancels(weir_task *task, void *series)
{
        (void)task;
        weir_task_start(arrive(passed, "b"));
        weir_series_cancel(series);
}

/* Both happen in one callback of the only worker. */
static void
a_task_past_the_barrier_stays_past_it_when_its_series_is_cancelled(void)
{
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

        begin();
        passed = weir_barrier_new(2);
        weir_series_push(series, arrive(passed, "a"));
        weir_series_start(series);
        weir_task_start(weir_empty_new(arrives_and_cancels, series));
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b!:0");
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        weir_series_unref(series);
        weir_barrier_unref(passed);
        weir_test_end();
}

static void
name_leads_to_one_barrier_as_long_as_it_is_used(void)
{
        begin();
        weir_barrier *barrier = weir_barrier_open("gate", 2), *same = weir_barrier_open("gate", 2);
        CU_ASSERT_PTR_NOT_NULL_FATAL(barrier);
        CU_ASSERT_PTR_EQUAL(barrier, same);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_barrier_open("gate", 3));
        CU_ASSERT_EQUAL(errno, EEXIST);
        weir_task_start(arrive(barrier, "a"));
        weir_task_start(arrive(same, "b"));
        weir_barrier_unref(barrier);
        weir_barrier_unref(same);
        weir_test_pass(0);
        CU_ASSERT_STRING_EQUAL(seen, "a:0 b!:0");
        barrier = weir_barrier_open("gate", 3);
        CU_ASSERT_PTR_NOT_NULL(barrier);
        weir_barrier_unref(barrier);
        weir_test_end();
}

static void
a_wrong_barrier_number_or_name_is_refused(void)
{
        char *name = malloc(WEIR_NAME_MAX + 2);
        weir_task *timer = weir_timer_new(0, NULL, NULL);

        begin();
        memset(name, 'x', WEIR_NAME_MAX + 1);
        name[WEIR_NAME_MAX + 1] = '\0';
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_barrier_new(0));
        CU_ASSERT_EQUAL(errno, EINVAL);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_barrier_open("gate", 0));
        CU_ASSERT_EQUAL(errno, EINVAL);
        errno = 0;
        CU_ASSERT_PTR_NULL(weir_barrier_open(NULL, 1));
        CU_ASSERT_EQUAL(errno, EINVAL);
        CU_ASSERT_PTR_NULL(weir_barrier_open(name, 1));
        CU_ASSERT_EQUAL(errno, ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_task_start(arrive(NULL, "a")), -ENOMEM);
        CU_ASSERT_FALSE(weir_barrier_is_last(NULL));
        CU_ASSERT_FALSE(weir_barrier_is_last(timer));
        weir_barrier_unref(NULL);
        CU_ASSERT_PTR_NULL(weir_barrier_ref(NULL));
        CU_ASSERT_STRING_EQUAL(seen, "");
        weir_task_dismiss(timer);
        free(name);
        weir_test_end();
}

/* -- many threads -- */

#define STORM_N       5
#define STORM_THREADS 3
#define STORM_TASKS   2000

static struct storm {
        weir_barrier *barrier;
        atomic_uint through, last, ended;
} storm;

static void
storm_through(weir_task *task, void *context)
{
        (void)context;
        atomic_fetch_add(&storm.through, weir_task_status(task) == 0);
        atomic_fetch_add(&storm.last, weir_barrier_is_last(task));
}

/* It is not called back when its series ended before it was started. */
static void
storm_gone(void *context)
{
        (void)context;
        atomic_fetch_add(&storm.ended, 1);
}

static void *
storm_thread(void *argument)
{
        (void)argument;
        for (unsigned i = 0; i < STORM_TASKS; i++) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_task *task = weir_barrier_arrive_new(storm.barrier, storm_through, NULL);

                weir_task_on_free(task, storm_gone);
                weir_series_push(series, task);
                if (i % 3 == 1)
                        weir_series_set_deadline(series, WEIR_USEC(20));
                weir_series_start(series);
                if (i % 3 == 0)
                        weir_series_cancel(series);
                weir_series_unref(series);
        }
        return NULL;
}

static void
as_many_go_through_as_are_the_last_times_n_while_threads_arrive_and_cancel(void)
{
        pthread_t threads[STORM_THREADS];

        storm = (struct storm){.barrier = weir_barrier_new(STORM_N)};
        weir_test_begin_real(2);
        for (unsigned i = 0; i < STORM_THREADS; i++)
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, storm_thread, NULL), 0);
        for (unsigned i = 0; i < STORM_THREADS; i++)
                pthread_join(threads[i], NULL);
        weir_test_end();
        weir_barrier_unref(storm.barrier);
        CU_ASSERT_EQUAL(storm.ended, STORM_TASKS * STORM_THREADS);
        CU_ASSERT_EQUAL(storm.through, storm.last * STORM_N);
        CU_ASSERT(storm.last >= STORM_TASKS * STORM_THREADS / 3 / STORM_N);
}

/* Each of STORM_N flows goes through the barrier STORM_ROUNDS times: none may be a round ahead of another. */
#define STORM_ROUNDS 300

static atomic_uint round_of[STORM_N];
static atomic_uint mixed;

static void
storm_next(weir_task *task, void *context)
{
        atomic_uint *mine = context;
        unsigned now = atomic_fetch_add(mine, 1) + 1;

        for (unsigned i = 0; i < STORM_N; i++) {
                unsigned other = atomic_load(&round_of[i]);

                mixed += other + 1 < now || other > now + 1;
        }
        atomic_fetch_add(&storm.last, weir_barrier_is_last(task));
        if (now < STORM_ROUNDS)
                weir_series_push(weir_series_of(task), weir_barrier_arrive_new(storm.barrier, storm_next, mine));
}

static void
generations_do_not_mix(void)
{
        storm = (struct storm){.barrier = weir_barrier_new(STORM_N)};
        mixed = 0;
        weir_test_begin_real(2);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < STORM_N; i++) {
                round_of[i] = 0;
                weir_parallel_add(parallel, weir_barrier_arrive_new(storm.barrier, storm_next, &round_of[i]));
        }
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        weir_test_end();
        weir_barrier_unref(storm.barrier);
        CU_ASSERT_EQUAL(mixed, 0);
        CU_ASSERT_EQUAL(storm.last, STORM_ROUNDS);
        for (unsigned i = 0; i < STORM_N; i++)
                CU_ASSERT_EQUAL(round_of[i], STORM_ROUNDS);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(n_go_on_together_one_of_them_as_the_last_and_then_the_next_n),
                WEIR_TEST(barrier_for_one_holds_nobody_up),
                WEIR_TEST(a_cancelled_or_late_task_has_not_arrived),
                WEIR_TEST(a_task_past_the_barrier_stays_past_it_when_its_series_is_cancelled),
                WEIR_TEST(name_leads_to_one_barrier_as_long_as_it_is_used),
                WEIR_TEST(a_wrong_barrier_number_or_name_is_refused),
                WEIR_TEST(as_many_go_through_as_are_the_last_times_n_while_threads_arrive_and_cancel),
                WEIR_TEST(generations_do_not_mix),
        };

        return weir_test_main("barrier", tests, sizeof tests / sizeof *tests);
}
