/* test/fiber_cancel_test.c: a fiber that ends early, in each way and wherever it waits. */
#include "test/fiber_points.h"

#include "test/blocks_fixture.h"

/* -- the fiber -- */

static struct weir_test_record record;
static _Atomic int waited, afterwards, begun;

static int
wait_there(void *context)
{
        const struct point *point = context;
        struct weir_test_record refused = {0};
        void *message;

        begun++;
        CU_ASSERT_EQUAL(weir_series_set_name(weir_fiber_series(), "fiber"), 0);
        waited = point->wait();
        afterwards = weir_fiber_yield();
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), afterwards);
        CU_ASSERT_EQUAL(weir_fiber_receive(at.full, &message), afterwards);
        CU_ASSERT_EQUAL(weir_fiber_send(at.empty, &at), afterwards);
        CU_ASSERT_EQUAL(weir_fiber_acquire(at.guard), afterwards);
        CU_ASSERT_EQUAL(weir_await(weir_test_timer(1, &refused)), afterwards);
        CU_ASSERT_EQUAL(refused.frees, 0);
        CU_ASSERT_EQUAL(weir_await_within(timer(), 1), afterwards);
        WEIR_TEST_NOT_CALLED(&refused);
        weir_group *group = weir_group_open();
        CU_ASSERT_EQUAL(weir_group_start(group, timer()), afterwards);
        CU_ASSERT_EQUAL(weir_group_close(group), 0);
        return 0;
}

static void
note(weir_task *task, void *context)
{
        (void)context;
        weir_test_note(&record, weir_task_status(task));
}

static void
note_freed(void *context)
{
        (void)context;
        record.frees++;
}

static weir_task *
fiber_at(const struct point *point)
{
        weir_task *fiber = weir_fiber_new(wait_there, note, (void *)point);

        weir_task_on_free(fiber, note_freed);
        return fiber;
}

static void
begin(void)
{
        begin_points();
        memset(&record, 0, sizeof record);
        waited = afterwards = 1;
        begun = 0;
}

static void
end(void)
{
        end_points();
        weir_test_free_kept();
}

/* -- the ways -- */

struct way {
        const char *name;
        void (*end)(weir_series *around);
        int awaits, status, around; /* what awaits report; of the fiber; of the series around it */
};

static void
cancel_around(weir_series *around)
{
        weir_series_cancel(around);
}

static void *
cancel_fiber(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_series_cancel_named("fiber", WEIR_ALL), 1);
        return NULL;
}

static void
cancel_by_name(weir_series *around)
{
        pthread_t thread;

        (void)around;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_fiber, NULL), 0);
        pthread_join(thread, NULL);
}

static void
cancel_twice(weir_series *around)
{
        weir_series_cancel(around);
        weir_series_cancel_named("fiber", WEIR_ALL); /* if it is there still */
        weir_series_cancel(around);
}

static void
fail_around(weir_series *around)
{
        CU_ASSERT_EQUAL(weir_series_fail(around, -EIO), 0);
}

static void
set_deadline(weir_series *around)
{
        CU_ASSERT_EQUAL(weir_series_set_deadline(around, WEIR_SEC(1)), 0);
        weir_test_pass(WEIR_SEC(1));
}

static void
shut_down(weir_series *around)
{
        (void)around;
        weir_test_end();
}

static const struct way ways[] = {
        {"cancel", cancel_around, -ECANCELED, -ECANCELED, -ECANCELED},
        {"cancel by name", cancel_by_name, -ECANCELED, -ECANCELED, 0},
        {"cancel twice", cancel_twice, -ECANCELED, -ECANCELED, -ECANCELED},
        {"failure", fail_around, -ECANCELED, -ECANCELED, -EIO},
        {"deadline", set_deadline, -ETIMEDOUT, -ETIMEDOUT, -ETIMEDOUT},
        {"shutdown", shut_down, -ESHUTDOWN, -ESHUTDOWN, -ESHUTDOWN},
};

static void
try(const struct point *point, const struct way *way)
{
        unsigned failed = CU_get_number_of_failures();

        begin();
        weir_series *around = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(around, fiber_at(point));
        CU_ASSERT_EQUAL(weir_series_start(around), 0);
        weir_test_pass(WEIR_MSEC(10) + WEIR_USEC(500));
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(waited, 1);
        way->end(around);
        if (way->end == shut_down)
                weir_test_begin_virtual();
        weir_test_pass(0);
        WEIR_TEST_CALLED(&record, way->status);
        CU_ASSERT_EQUAL(begun, 1);
        CU_ASSERT_EQUAL(waited, way->awaits);
        CU_ASSERT_EQUAL(afterwards, way->awaits);
        CU_ASSERT(inner.calls == inner.frees && inner.calls <= 1);
        CU_ASSERT_EQUAL(weir_series_status(around), way->around);
        weir_series_unref(around);
        end();
        if (CU_get_number_of_failures() > failed)
                fprintf(stderr, "at %s, by %s\n", point->name, way->name);
}

static void
a_fiber_ends_early_wherever_it_waits(void)
{
        for (size_t i = 0; i < POINTS; i++)
                try(&points[i], &ways[0]); /* what is kept for later is there now */
        for (size_t i = 0; i < POINTS; i++)
                for (size_t j = 0; j < sizeof ways / sizeof *ways; j++) {
                        int64_t before = bytes_out;
                        unsigned descriptors = weir_test_entries_of("/proc/self/fd");

                        try(&points[i], &ways[j]);
                        CU_ASSERT_EQUAL(bytes_out, before);
                        CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), descriptors);
                        if (bytes_out != before)
                                fprintf(stderr, "%s, %s: %ld bytes\n", points[i].name, ways[j].name, (long)(bytes_out - before));
                }
}

/* -- before the first run -- */

static void
not_begun(void (*act)(weir_series *), int status)
{
        int64_t before = bytes_out;

        begin();
        weir_series *around = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(around, timer());
        weir_series_push(around, fiber_at(&points[0]));
        weir_series_start(around);
        weir_test_pass(0);
        act(around);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(begun, 0);
        if (record.calls)
                CU_ASSERT_EQUAL(record.status, status);
        CU_ASSERT_EQUAL(record.frees, 1);
        CU_ASSERT_EQUAL(weir_series_status(around), status);
        weir_series_unref(around);
        end();
        CU_ASSERT_EQUAL(bytes_out, before);
}

/* It was started, and its series ends early before a worker comes to it. */
static void
cancel_own_series(weir_task *task, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(task), fiber_at(&points[0]));
        weir_series_cancel(weir_series_of(task));
}

static void
cancel_another(weir_task *task, void *series)
{
        (void)task;
        weir_series_cancel(series);
}

static void
a_fiber_that_has_not_begun_never_runs(void)
{
        not_begun(cancel_around, -ECANCELED);
        not_begun(set_deadline, -ETIMEDOUT);
        not_begun(fail_around, -EIO);
        begin();
        weir_task_start(weir_empty_new(cancel_own_series, NULL));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(begun, 0);
        CU_ASSERT_EQUAL(record.frees, 1);
        end();

        begin();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL)), *other = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        weir_series_push(series, fiber_at(&points[0]));
        weir_series_push(other, weir_timer_new(WEIR_SEC(1), cancel_another, series));
        weir_series_start(series); /* its timer is first: the fiber is started, and then the other timer cancels it */
        weir_series_start(other);
        weir_test_pass(WEIR_SEC(1));
        WEIR_TEST_CALLED(&record, -ECANCELED);
        CU_ASSERT_EQUAL(begun, 0);
        weir_series_unref(series);
        end();
}

/* -- from inside -- */

static int
end_itself(void *context)
{
        int status = *(int *)context;

        if (status == -ECANCELED) {
                weir_series_cancel(weir_fiber_series());
        } else {
                CU_ASSERT_EQUAL(status == -ETIMEDOUT ? weir_series_set_deadline(weir_fiber_series(), 0)
                                                     : weir_series_fail(weir_fiber_series(), status),
                                0);
        }
        CU_ASSERT_EQUAL(weir_series_status(weir_fiber_series()), status);
        CU_ASSERT_EQUAL(weir_fiber_sleep(1), status == -EIO ? -ECANCELED : status);
        CU_ASSERT_EQUAL(weir_await(timer()), status == -EIO ? -ECANCELED : status);
        return 0;
}

static int
end_itself_and_say(void *context)
{
        end_itself(context);
        return -ENOENT;
}

static int
stop_at_a_failure(void *context)
{
        (void)context;
        weir_series_stop_on_failure(weir_fiber_series());
        CU_ASSERT_EQUAL(weir_await(weir_timeout_new(timer(), WEIR_SEC(1))), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        return 0;
}

static void
a_fiber_ends_itself_early(void)
{
        static const int statuses[] = {-ECANCELED, -ETIMEDOUT, -EIO};

        for (unsigned i = 0; i < 3; i++) {
                int status = statuses[i];

                CU_ASSERT_EQUAL(weir_test_run_fiber(end_itself, &status), status);
                CU_ASSERT_EQUAL(weir_test_run_fiber(end_itself_and_say, &status), -ENOENT);
        }
        CU_ASSERT_EQUAL(weir_test_run_fiber(stop_at_a_failure, NULL), -ETIMEDOUT);
}

/* A lone fiber has no series around it. */
static void
a_lone_fiber_ends_at_a_shutdown(void)
{
        for (size_t i = 0; i < POINTS; i++) {
                begin();
                CU_ASSERT_EQUAL(weir_task_start(fiber_at(&points[i])), 0);
                weir_test_pass(WEIR_MSEC(1));
                CU_ASSERT_EQUAL(waited, 1);
                weir_test_end();
                WEIR_TEST_CALLED(&record, -ESHUTDOWN);
                CU_ASSERT(waited == -ESHUTDOWN && afterwards == -ESHUTDOWN);
                weir_test_begin_virtual();
                end();
        }
}

/* -- what has come before the end stays -- */

static struct {
        weir_channel *channel;
        weir_semaphore *semaphore;
        int status;
        void *message;
} given;

static int
receive(void *context)
{
        (void)context;
        given.status = weir_fiber_receive(given.channel, &given.message);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        return 0;
}

static int
acquire(void *context)
{
        (void)context;
        given.status = weir_await(weir_semaphore_acquire_new(given.semaphore, 1, NULL, NULL));
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        return 0;
}

/* Both in one callback: the fiber has not gone on yet when the cancel comes. */
static void
give_and_cancel(weir_task *task, void *series)
{
        (void)task;
        CU_ASSERT_EQUAL(weir_channel_post(given.channel, &given), 0);
        CU_ASSERT_EQUAL(weir_semaphore_release(given.semaphore, 1), 0);
        weir_series_cancel(series);
}

static void
cancel_and_give(weir_task *task, void *series)
{
        (void)task;
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_channel_post(given.channel, &given), 0);
        CU_ASSERT_EQUAL(weir_semaphore_release(given.semaphore, 1), 0);
}

static void
what_was_given_before_a_cancel_is_not_lost(void)
{
        weir_fiber_fn *const functions[] = {receive, acquire};

        for (unsigned i = 0; i < 4; i++) {
                bool is_given_first = i < 2;

                weir_test_begin_virtual();
                memset(&given, 0, sizeof given);
                given.channel = weir_channel_new(1, NULL);
                given.semaphore = weir_semaphore_new(0);
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(series, weir_fiber_new_as("given", functions[i % 2], NULL, NULL));
                weir_series_start(series);
                weir_test_pass(1);
                weir_task_start(weir_empty_new(is_given_first ? give_and_cancel : cancel_and_give, series));
                weir_test_pass(1);
                CU_ASSERT(given.status == 0 || (!is_given_first && given.status == -ECANCELED));
                bool has_it = given.status == 0, receives = functions[i % 2] == receive;
                CU_ASSERT_PTR_EQUAL(given.message, has_it && receives ? &given : NULL);
                void *message = NULL;
                bool is_there = weir_channel_poll(given.channel, &message) == 0;
                CU_ASSERT_EQUAL(is_there, !(has_it && receives));
                CU_ASSERT_EQUAL(weir_semaphore_available(given.semaphore), !(has_it && !receives));
                weir_series_unref(series);
                weir_channel_unref(given.channel);
                weir_semaphore_unref(given.semaphore);
                weir_test_end();
        }
}

/* -- a chain, a status -- */

static int
await_another(void *context)
{
        int left = *(int *)context - 1;

        if (left > 0)
                return weir_await(weir_fiber_new(await_another, NULL, &left));
        return weir_fiber_sleep(FAR);
}

static void
a_long_chain_of_fibers_ends(void)
{
        int length = 1000;

        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_fiber_new(await_another, NULL, &length));
        weir_series_start(series);
        weir_test_pass(1);
        weir_series_cancel(series);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        weir_series_unref(series);
        CU_ASSERT_EQUAL(weir_task_run(weir_timeout_new(weir_fiber_new(await_another, NULL, &length), WEIR_SEC(1))), -ETIMEDOUT);
        weir_test_end();
}

static struct weir_test_record refusing;

static int
say_io(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_fiber_sleep(FAR), -ECANCELED);
        return -EIO;
}

/* A task in a series that ends early has the cause of that as its status, whatever it did. */
static void
the_status_in_a_cancelled_series_is_that_of_all_tasks(void)
{
        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        memset(&refusing, 0, sizeof refusing);
        weir_series_push(series, weir_test_recorded(weir_fiber_new(say_io, weir_test_done, &refusing)));
        weir_series_start(series);
        weir_test_pass(1);
        weir_series_cancel(series);
        weir_test_pass(1);
        WEIR_TEST_CALLED(&refusing, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
}

/* What is ready runs at a yield, and not at one that returns the cause. */
static unsigned turns;

static void
take_turn(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        turns++;
}

static int
yield_behind_the_cancel(void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(take_turn, NULL)), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(turns, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(take_turn, NULL)), 0);
        weir_series_cancel(weir_fiber_series());
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        CU_ASSERT_EQUAL(weir_fiber_yield(), -ECANCELED);
        CU_ASSERT_EQUAL(turns, 1);
        CU_ASSERT_EQUAL(weir_fiber_shield(true), 0);
        CU_ASSERT_EQUAL(weir_fiber_yield(), 0);
        CU_ASSERT_EQUAL(turns, 2);
        return 0;
}

static void
a_yield_behind_a_cancel_returns_at_once(void)
{
        turns = 0;
        CU_ASSERT_EQUAL(weir_test_run_fiber(yield_behind_the_cancel, NULL), -ECANCELED);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_fiber_ends_early_wherever_it_waits),
                WEIR_TEST(a_fiber_that_has_not_begun_never_runs),
                WEIR_TEST(a_fiber_ends_itself_early),
                WEIR_TEST(a_yield_behind_a_cancel_returns_at_once),
                WEIR_TEST(a_lone_fiber_ends_at_a_shutdown),
                WEIR_TEST(what_was_given_before_a_cancel_is_not_lost),
                WEIR_TEST(a_long_chain_of_fibers_ends),
                WEIR_TEST(the_status_in_a_cancelled_series_is_that_of_all_tasks),
        };

        return weir_test_main("fiber_cancel", tests, sizeof tests / sizeof *tests);
}
