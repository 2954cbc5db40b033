/* test/series_test.c: series: their order, their end, and operations of other threads meanwhile. */
#include "test/fixture.h"

#include <errno.h>

#include "factory/task/series.h"
#include "kernel/loop/pollers.h"

#define FAR WEIR_SEC(1000)

/* -- order -- */

static void
tasks_run_one_after_another_and_the_series_callback_last(void)
{
        struct weir_test_record records[6] = {0}, end = {0};
        _Atomic unsigned counter = 0;
        weir_series *series;
        weir_nsec began;

        weir_test_begin_virtual();
        began = weir_now();
        series = weir_series_new(weir_test_series_done, &end);
        end.counter = &counter;
        for (unsigned i = 0; i < 6; i++) {
                records[i].counter = &counter;
                CU_ASSERT_EQUAL(weir_series_push(series, i % 2 ? weir_test_empty(&records[i])
                                                               : weir_test_timer(WEIR_SEC(10 - i), &records[i])),
                                0);
        }
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        for (unsigned i = 0; i < 6; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].order, i);
        }
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.order, 6);
        CU_ASSERT_EQUAL(end.status, 0);
        CU_ASSERT_EQUAL(end.at, began + WEIR_SEC(10 + 8 + 6));
        weir_test_end();
}

static void
push_front_comes_before_what_has_not_started(void)
{
        struct weir_test_record records[4] = {0};
        static const unsigned order[4] = {2, 3, 1, 0};
        _Atomic unsigned counter = 0;
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 4; i++) {
                records[i].counter = &counter;
        }
        weir_series_push(series, weir_test_empty(&records[0]));
        weir_series_push(series, weir_test_empty(&records[1]));
        weir_series_push_front(series, weir_test_empty(&records[2]));
        weir_series_push_front(series, weir_test_empty(&records[3]));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(records[i].order, order[i]);
        }
        weir_test_end();
}

struct pusher {
        struct weir_test_record record; /* first */
        weir_task *front, *back;
};

static void
push_in_callback(weir_task *task, void *context)
{
        struct pusher *pusher = context;

        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), pusher->back), 0);
        CU_ASSERT_EQUAL(weir_series_push_front(weir_series_of(task), pusher->front), 0);
        weir_test_done(task, context);
}

static void
callback_may_push_at_both_ends(void)
{
        struct weir_test_record records[3] = {0};
        _Atomic unsigned counter = 0;
        struct pusher pusher = {.record.counter = &counter};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 3; i++) {
                records[i].counter = &counter;
        }
        pusher.front = weir_test_empty(&records[0]);
        pusher.back = weir_test_timer(WEIR_SEC(1), &records[2]);
        weir_series_push(series, weir_empty_new(push_in_callback, &pusher));
        weir_series_push(series, weir_test_empty(&records[1]));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(pusher.record.order, 0);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_CALLED(&records[i], 0);
                CU_ASSERT_EQUAL(records[i].order, i + 1);
        }
        weir_test_end();
}

/* Each callback of the first three puts two tasks in front, so some are always taken, and some not. */
static struct {
        weir_series *series;
        char order[64];
} fronts;

static void
push_two_fronts(weir_task *task, void *name)
{
        static const char *const next[128] = {['a'] = "bc", ['c'] = "de", ['e'] = "fg"};
        const char *two = next[*(const unsigned char *)name];

        (void)task;
        strcat(fronts.order, name);
        for (unsigned i = 0; two && i < 2; i++) {
                char *own = calloc(1, 2);

                *own = two[i];
                weir_task *front = own[0] % 2 ? weir_empty_new(push_two_fronts, own) : weir_timer_new(0, push_two_fronts, own);
                weir_task_on_free(front, free);
                CU_ASSERT_EQUAL(weir_series_push_front(fronts.series, front), 0);
        }
        if (two)
                weir_series_push(fronts.series, weir_empty_new(push_two_fronts, *two == 'b' ? "x" : *two == 'd' ? "y" : "z"));
}

static void
tasks_in_front_come_before_all_that_are_taken(void)
{
        weir_test_begin_virtual();
        fronts.series = weir_series_new(NULL, NULL);
        *fronts.order = '\0';
        weir_series_push(fronts.series, weir_empty_new(push_two_fronts, "a"));
        weir_series_push(fronts.series, weir_empty_new(push_two_fronts, "1"));
        weir_series_push(fronts.series, weir_empty_new(push_two_fronts, "2"));
        CU_ASSERT_EQUAL(weir_series_run(fronts.series), 0);
        CU_ASSERT_STRING_EQUAL(fronts.order, "acegfdb12xyz");
        weir_test_end();
}

static weir_task *
of_kind(unsigned is_timer, weir_task_fn *done, void *context)
{
        return is_timer ? weir_timer_new(0, done, context) : weir_empty_new(done, context);
}

struct group {
        struct weir_test_record records[8];
        unsigned kinds; /* a bit for each task: whether it is a timer */
};

static void
push_two_in_front(weir_task *task, void *context)
{
        struct group *group = context;

        for (unsigned i = 2; i > 0; i--)
                weir_series_push_front(weir_series_of(task), of_kind(group->kinds >> i & 1, weir_test_done, &group->records[i]));
        weir_series_push(weir_series_of(task), of_kind(group->kinds >> 6 & 1, weir_test_done, &group->records[6]));
        weir_test_done(task, &group->records[0]);
}

/* Tasks that can be cancelled while they run, and others, in each mixture. */
static void
tasks_pushed_in_front_come_newest_first_before_all_that_wait(void)
{
        weir_test_begin_virtual();
        for (unsigned kinds = 0; kinds < 1 << 8; kinds++) {
                struct group group = {.kinds = kinds};
                _Atomic unsigned counter = 0;
                weir_series *series = weir_series_new(NULL, NULL);

                for (unsigned i = 0; i < 8; i++)
                        group.records[i].counter = &counter;
                weir_series_push(series, of_kind(kinds >> 7 & 1, weir_test_done, &group.records[7]));
                weir_series_push(series, of_kind(kinds & 1, push_two_in_front, &group));
                for (unsigned i = 3; i < 6; i++)
                        weir_series_push(series, of_kind(kinds >> i & 1, weir_test_done, &group.records[i]));
                CU_ASSERT_EQUAL(weir_series_run(series), 0);
                for (unsigned i = 0; i < 8; i++)
                        CU_ASSERT(group.records[i].calls == 1 && group.records[i].order == (i + 1) % 8);
        }
        weir_test_end();
}

/* -- pushes by callbacks and by other threads -- */

struct turns {
        weir_series *series;
        struct weir_test_record records[6];
        unsigned kinds;
};

static void *
push_second(void *argument)
{
        struct turns *turns = argument;

        weir_series_push(turns->series, of_kind(turns->kinds >> 2 & 1, weir_test_done, &turns->records[2]));
        return NULL;
}

static void
push_around_another_thread(weir_task *task, void *context)
{
        struct turns *turns = context;
        pthread_t thread;

        turns->series = weir_series_of(task);
        weir_series_push(turns->series, of_kind(turns->kinds >> 1 & 1, weir_test_done, &turns->records[1]));
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, push_second, turns), 0);
        pthread_join(thread, NULL);
        weir_series_push(turns->series, of_kind(turns->kinds >> 3 & 1, weir_test_done, &turns->records[3]));
        weir_series_push_front(turns->series, of_kind(turns->kinds & 1, weir_test_done, &turns->records[0]));
        weir_series_push(turns->series, of_kind(turns->kinds >> 4 & 1, weir_test_done, &turns->records[4]));
        CU_ASSERT_EQUAL(weir_series_push(NULL, weir_empty_new(NULL, NULL)), -ENOMEM);
        CU_ASSERT_EQUAL(weir_series_push(turns->series, NULL), -ENOMEM);
}

static weir_series *
series_around(weir_task *task)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, task);
        return series;
}

/* In a series, and in one that the callback of a lone task has made. */
static void
a_task_that_a_callback_pushes_comes_behind_those_of_other_threads(void)
{
        weir_test_begin_virtual();
        for (unsigned kinds = 0; kinds < 64; kinds++) {
                struct turns turns = {.kinds = kinds};
                _Atomic unsigned counter = 0;

                for (unsigned i = 0; i < 5; i++)
                        turns.records[i].counter = &counter;
                if (kinds >> 5 & 1)
                        weir_task_start(weir_empty_new(push_around_another_thread, &turns));
                else
                        weir_series_start(series_around(weir_empty_new(push_around_another_thread, &turns)));
                weir_test_pass(FAR);
                for (unsigned i = 0; i < 5; i++) {
                        CU_ASSERT_EQUAL(turns.records[i].calls, 1);
                        CU_ASSERT_EQUAL(turns.records[i].order, i);
                }
        }
        weir_test_end();
}

/* -- other threads -- */

#define PUSHES (WEIR_TEST_SANITIZED ? 2000 : 20000)

static struct {
        weir_series *series;
        _Atomic unsigned accepted, refused, called, freed;
        struct weir_test_latch begun, pushed;
        bool overlap; /* the series': callbacks of one series never overlap */
} push;

static void
count_called(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        CU_ASSERT_FALSE(push.overlap);
        push.overlap = true;
        atomic_fetch_add(&push.called, 1);
        push.overlap = false;
}

static void
count_freed(void *context)
{
        (void)context;
        atomic_fetch_add(&push.freed, 1);
}

static void *
push_many(void *argument)
{
        for (unsigned i = 0; i < PUSHES; i++) {
                weir_task *task = i % 7 ? weir_empty_new(count_called, NULL) : weir_timer_new(0, count_called, NULL);

                weir_task_on_free(task, count_freed);
                int failed = i % 3 ? weir_series_push(push.series, task) : weir_series_push_front(push.series, task);
                CU_ASSERT(failed == 0 || failed == -ESTALE);
                atomic_fetch_add(failed ? &push.refused : &push.accepted, 1);
        }
        if (argument) {
                weir_test_latch_count_down(argument);
        }
        return NULL;
}

static void
wait_for_pushes(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        weir_test_latch_count_down(&push.begun);
        weir_test_latch_wait(&push.pushed);
}

static void
other_threads_push_while_it_runs_and_all_of_it_runs(void)
{
        pthread_t threads[2];

        memset(&push, 0, sizeof push);
        weir_test_latch_init(&push.begun, 1);
        weir_test_latch_init(&push.pushed, 2);
        weir_test_begin_real(2);
        push.series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(push.series, weir_empty_new(wait_for_pushes, NULL));
        for (unsigned i = 0; i < 2; i++) {
                pthread_create(&threads[i], NULL, push_many, &push.pushed);
        }
        CU_ASSERT_EQUAL(weir_series_run(push.series), 0);
        CU_ASSERT_EQUAL(push.accepted, 2 * PUSHES);
        CU_ASSERT_EQUAL(push.called, 2 * PUSHES);
        CU_ASSERT_EQUAL(push.freed, 2 * PUSHES);
        for (unsigned i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
        }
        weir_series_unref(push.series);
        weir_test_end();
}

/* As push_many, and on until the series has ended. */
static void *
push_past_the_end(void *argument)
{
        push_many(NULL);
        for (int64_t pause = 100000; !atomic_load(&push.refused); pause += pause / 16) {
                weir_task *task = weir_empty_new(count_called, NULL);

                weir_task_on_free(task, count_freed);
                atomic_fetch_add(weir_series_push(push.series, task) ? &push.refused : &push.accepted, 1);
                weir_test_sleep(pause); /* it grows: else a slow worker never runs dry */
        }
        return argument;
}

/* Its owner needs no lock for a series that is his alone; this one is not. */
static void
a_push_of_another_thread_meets_those_of_the_owner_before_the_start(void)
{
        pthread_t thread;

        memset(&push, 0, sizeof push);
        weir_test_begin_real(2);
        push.series = weir_series_new(NULL, NULL);
        weir_series *reference = weir_series_ref(push.series);
        pthread_create(&thread, NULL, push_many, NULL);
        push_many(NULL);
        pthread_join(thread, NULL);
        weir_series_unref(reference);
        CU_ASSERT_EQUAL(weir_series_run(push.series), 0);
        CU_ASSERT_EQUAL(push.accepted, 2 * PUSHES);
        CU_ASSERT_EQUAL(push.called, 2 * PUSHES);
        CU_ASSERT_EQUAL(push.freed, 2 * PUSHES);
        weir_test_end();
}

/* Here the series ends whenever it runs dry, in the middle of the pushes or behind them. */
static void
push_that_meets_the_end_either_runs_or_is_stale(void)
{
        weir_test_begin_real(2);
        for (unsigned round = 0; round < 20; round++) {
                struct weir_test_record end = {0};
                pthread_t threads[2];

                memset(&push, 0, sizeof push);
                push.series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
                weir_series_push(push.series, weir_timer_new(WEIR_USEC(50), NULL, NULL));
                CU_ASSERT_EQUAL(weir_series_start(push.series), 0);
                for (unsigned i = 0; i < 2; i++) {
                        pthread_create(&threads[i], NULL, push_past_the_end, NULL);
                }
                for (unsigned i = 0; i < 2; i++) {
                        pthread_join(threads[i], NULL);
                }
                WEIR_TEST_EVENTUALLY(end.calls == 1);
                CU_ASSERT_EQUAL(push.called, push.accepted);
                CU_ASSERT_EQUAL(push.freed, push.accepted + push.refused);
                weir_series_unref(push.series);
        }
        weir_test_end();
}

static void
push_after_the_end_is_stale_and_dismisses(void)
{
        struct weir_test_record end = {0}, late = {0};
        weir_series *series;

        weir_test_begin_virtual();
        series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_test_empty(&late)), -ESTALE);
        WEIR_TEST_NOT_CALLED(&late);
        WEIR_TEST_FREED_HERE(&late);
        CU_ASSERT_EQUAL(weir_series_push_front(series, weir_timer_new(0, NULL, NULL)), -ESTALE);
        CU_ASSERT_EQUAL(weir_series_push(series, NULL), -ESTALE);
        CU_ASSERT_EQUAL(weir_series_status(series), 0);
        weir_series_unref(series);
        weir_test_end();
}

/* -- cancel -- */

static void
cancel_before_the_start_drops_all_tasks_and_runs_the_series_callback(void)
{
        struct weir_test_record tasks[3] = {0}, end = {0};
        weir_series *series;

        weir_test_begin_virtual();
        series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        for (unsigned i = 0; i < 3; i++) {
                weir_series_push(series, weir_test_empty(&tasks[i]));
        }
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        CU_ASSERT_EQUAL(tasks[0].frees, 0);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        CU_ASSERT(!pthread_equal(end.on, pthread_self()));
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_NOT_CALLED(&tasks[i]);
                WEIR_TEST_FREED_ELSEWHERE(&tasks[i]);
        }
        weir_series_unref(series);
        weir_test_end();
}

static void
cancel_while_pending_ends_the_timer_and_drops_the_rest_on_a_worker(void)
{
        enum { REST = 1000 };
        static struct weir_test_record rest[REST];
        struct weir_test_record pending = {0}, end = {0};
        weir_series *series;

        memset(rest, 0, sizeof rest);
        weir_test_begin_virtual();
        series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(series, weir_test_timer(FAR, &pending));
        for (unsigned i = 0; i < REST; i++) {
                weir_series_push(series, weir_test_timer(FAR, &rest[i]));
        }
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(end.calls == 1);
        WEIR_TEST_CALLED(&pending, -ECANCELED);
        CU_ASSERT_EQUAL(end.status, -ECANCELED);
        for (unsigned i = 0; i < REST; i++) {
                WEIR_TEST_NOT_CALLED(&rest[i]);
                WEIR_TEST_FREED_ELSEWHERE(&rest[i]);
        }
        weir_series_unref(series);
        weir_test_end();
}

static void
cancel_the_series(weir_task *task, void *context)
{
        (void)task;
        weir_series_cancel(context);
}

static void
cancel_ends_a_timer_that_is_pending_whatever_came_before(void)
{
        weir_test_begin_virtual();
        for (unsigned is_timer = 0; is_timer < 2; is_timer++) {
                struct weir_test_record pending = {0};
                weir_series *series = weir_series_new(NULL, NULL);
                weir_nsec began = weir_now();

                weir_series_push(series, of_kind(is_timer, NULL, NULL));
                weir_series_push(series, weir_test_timer(FAR, &pending));
                CU_ASSERT_EQUAL(weir_task_start(weir_timer_new(WEIR_SEC(1), cancel_the_series, series)), 0);
                CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
                WEIR_TEST_CALLED(&pending, -ECANCELED);
                CU_ASSERT_EQUAL(weir_now(), began + WEIR_SEC(1));
        }
        weir_test_end();
}

static void
cancel_own_series(weir_task *task, void *context)
{
        weir_series_cancel(weir_series_of(task));
        weir_test_done(task, context);
}

static void
cancel_from_its_own_callback_drops_the_rest_and_leaves_the_callback_alone(void)
{
        struct weir_test_record first = {0}, second = {0}, end = {0};
        weir_series *series;

        weir_test_begin_virtual();
        for (unsigned kind = 0; kind < 2; kind++) {
                memset(&first, 0, sizeof first);
                memset(&second, 0, sizeof second);
                memset(&end, 0, sizeof end);
                series = weir_series_new(weir_test_series_done, &end);
                weir_series_push(series, weir_test_recorded(kind ? weir_empty_new(cancel_own_series, &first)
                                                                 : weir_timer_new(WEIR_SEC(1), cancel_own_series, &first)));
                weir_series_push(series, weir_test_empty(&second));
                CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
                WEIR_TEST_CALLED(&first, 0);
                WEIR_TEST_NOT_CALLED(&second);
                CU_ASSERT_EQUAL(end.calls, 1);
                CU_ASSERT_EQUAL(end.status, -ECANCELED);
        }
        weir_test_end();
}

static void
cancel_in_the_series_callback(weir_series *series, void *context)
{
        weir_series_cancel(series);
        weir_test_series_done(series, context);
}

static void
cancel_after_the_end_changes_nothing(void)
{
        struct weir_test_record end = {0};
        weir_series *series;

        weir_test_begin_virtual();
        series = weir_series_ref(weir_series_new(cancel_in_the_series_callback, &end));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_status(series), 0);
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, 0);
        weir_series_unref(series);
        weir_series_cancel(NULL);
        weir_test_end();
}

/* A cancel at any moment of a series of timers of no duration: each task has its callback or is dropped, all are freed once. */
static struct {
        weir_series *series;
        pthread_barrier_t barrier;
        _Atomic unsigned cancelled_callbacks, freed;
        unsigned called;
} torn;

static void
torn_called(weir_task *task, void *context)
{
        (void)context;
        torn.called++;
        atomic_fetch_add(&torn.cancelled_callbacks, weir_task_status(task) == -ECANCELED);
}

static void
torn_freed(void *context)
{
        (void)context;
        atomic_fetch_add(&torn.freed, 1);
}

static void *
cancel_sometime(void *argument)
{
        struct weir_test_random random = {weir_test_seed()};
        unsigned rounds = *(unsigned *)argument;

        for (unsigned i = 0; i < rounds; i++) {
                pthread_barrier_wait(&torn.barrier);
                for (volatile uint64_t spin = weir_test_random_below(&random, 8000); spin > 0; spin--) {
                }
                weir_series_cancel(torn.series);
                pthread_barrier_wait(&torn.barrier);
        }
        return NULL;
}

static void
cancel_at_any_moment_leaves_each_task_called_or_dropped_and_freed_once(void)
{
        unsigned rounds = WEIR_TEST_SANITIZED ? 300 : 3000;
        pthread_t thread;

        weir_test_begin_real(2);
        pthread_barrier_init(&torn.barrier, NULL, 2);
        pthread_create(&thread, NULL, cancel_sometime, &rounds);
        for (unsigned round = 0; round < rounds; round++) {
                struct weir_test_record end = {0};

                torn.called = 0;
                torn.freed = torn.cancelled_callbacks = 0;
                torn.series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
                for (unsigned i = 0; i < 40; i++) {
                        weir_task *task = i % 2 ? weir_timer_new(0, torn_called, NULL) : weir_empty_new(torn_called, NULL);

                        weir_task_on_free(task, torn_freed);
                        weir_series_push(torn.series, task);
                }
                pthread_barrier_wait(&torn.barrier);
                int status = weir_series_run(torn.series);
                pthread_barrier_wait(&torn.barrier);
                CU_ASSERT_EQUAL(torn.freed, 40);
                CU_ASSERT_EQUAL(end.calls, 1);
                CU_ASSERT_EQUAL(end.status, status);
                CU_ASSERT(status == 0 || status == -ECANCELED);
                CU_ASSERT(torn.called == 40 || status == -ECANCELED);
                CU_ASSERT(torn.cancelled_callbacks <= 1);
                weir_series_unref(torn.series);
        }
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&torn.barrier);
        weir_test_end();
}

static void *
start_series(void *series)
{
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        return NULL;
}

static bool
has_current(weir_series *series)
{
        weir__lock(&series->lock);
        bool has = series->current != NULL;
        weir__unlock(&series->lock);
        return has;
}

static struct {
        weir_series *series;
        struct weir_test_latch locked, chosen;
} held;

/* Goes before the start that waits for the lock: that one is still waking up. */
static void *
hold_the_poller_then_cancel(void *argument)
{
        struct weir__lock *lock = &weir__pollers.at[0]->lock;

        weir__lock(lock);
        weir_test_latch_count_down(&held.locked);
        weir_test_latch_wait(&held.chosen);
        weir__unlock(lock);
        weir_series_cancel(held.series);
        return argument;
}

/* The start is held at its poller's lock, when its timer is the current task already but pends not yet. */
static void
cancel_between_the_choice_of_a_task_and_its_start_is_not_lost(void)
{
        weir_test_begin_virtual();
        for (unsigned round = 0; round < 30; round++) {
                struct weir_test_record timer = {0}, end = {0};
                pthread_t threads[2];

                held.series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
                weir_test_latch_init(&held.locked, 1);
                weir_test_latch_init(&held.chosen, 1);
                weir_series_push(held.series, weir_test_timer(WEIR_FOREVER, &timer));
                pthread_create(&threads[0], NULL, hold_the_poller_then_cancel, NULL);
                weir_test_latch_wait(&held.locked);
                pthread_create(&threads[1], NULL, start_series, held.series);
                WEIR_TEST_EVENTUALLY(has_current(held.series));
                weir_test_sleep(1000000);
                weir_test_latch_count_down(&held.chosen);
                for (unsigned i = 0; i < 2; i++) {
                        pthread_join(threads[i], NULL);
                }
                WEIR_TEST_EVENTUALLY(end.calls == 1);
                WEIR_TEST_CALLED(&timer, -ECANCELED);
                CU_ASSERT_EQUAL(end.status, -ECANCELED);
                weir_series_unref(held.series);
        }
        weir_test_end();
}

/* -- the end -- */

static void
series_callback_sees_eshutdown_when_the_runtime_ends_and_the_rest_is_dropped(void)
{
        struct weir_test_record first = {0}, second = {0}, end = {0};
        weir_series *series = weir_series_new(weir_test_series_done, &end);

        weir_test_begin_virtual();
        weir_series_push(series, weir_test_timer(FAR, &first));
        weir_series_push(series, weir_test_timer(FAR, &second));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_end();
        WEIR_TEST_CALLED(&first, -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&second);
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, -ESHUTDOWN);
}

static void
empty_series_still_has_its_callback_on_a_worker(void)
{
        struct weir_test_record end = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_series_run(weir_series_new(weir_test_series_done, &end)), 0);
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT(!pthread_equal(end.on, pthread_self()));
        weir_test_end();
}

static void
dismissed_series_frees_its_tasks_and_context_on_the_caller(void)
{
        struct weir_test_record tasks[3] = {0}, end = {0}, context = {0};
        weir_series *series = weir_series_new(weir_test_series_done, &end);

        for (unsigned i = 0; i < 3; i++) {
                weir_series_push(series, weir_test_empty(&tasks[i]));
        }
        weir_series_set_context(series, &context, weir_test_freed);
        weir_series_ref(series);
        weir_series_dismiss(series);
        for (unsigned i = 0; i < 3; i++) {
                WEIR_TEST_NOT_CALLED(&tasks[i]);
                WEIR_TEST_FREED_HERE(&tasks[i]);
        }
        WEIR_TEST_FREED_HERE(&context);
        CU_ASSERT_EQUAL(end.calls, 0);
        CU_ASSERT_EQUAL(weir_series_push(series, weir_empty_new(NULL, NULL)), -ESTALE);
        weir_series_unref(series);
        weir_series_dismiss(NULL);
        weir_task_dismiss(NULL);
}

static void
look_at_context(weir_series *series, void *context)
{
        struct weir_test_record *record = context;

        CU_ASSERT_PTR_EQUAL(weir_series_context(series), context);
        CU_ASSERT_EQUAL(record->frees, 0);
        weir_test_series_done(series, context);
}

static void
context_is_freed_once_after_the_series_callback_and_before_run_returns(void)
{
        struct weir_test_record first = {0}, second = {0};
        weir_series *series;

        weir_test_begin_virtual();
        series = weir_series_new(look_at_context, NULL);
        weir_series_set_context(series, &first, weir_test_freed);
        weir_series_set_context(series, &first, weir_test_freed);
        CU_ASSERT_EQUAL(first.frees, 0);
        weir_series_set_context(series, &second, weir_test_freed);
        WEIR_TEST_FREED_HERE(&first);
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(second.calls, 1);
        CU_ASSERT_EQUAL(second.frees, 1);
        CU_ASSERT_EQUAL(first.frees, 1);
        CU_ASSERT_PTR_NULL(weir_series_context(NULL));
        CU_ASSERT_EQUAL(weir_series_status(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_status(NULL), -EINVAL);
        CU_ASSERT_PTR_NULL(weir_task_context(NULL));
        weir_test_end();
}

static void
all_free_functions_have_run_before_run_returns(void)
{
        enum { TASKS = 300, ROUNDS = 50 };
        static struct weir_test_record records[TASKS];

        weir_test_begin_real(2);
        for (unsigned round = 0; round < ROUNDS; round++) {
                weir_series *series = weir_series_new(NULL, NULL);

                memset(records, 0, sizeof records);
                for (unsigned i = 0; i < TASKS; i++) {
                        weir_series_push(series, i % 3 ? weir_test_empty(&records[i]) : weir_test_timer(0, &records[i]));
                }
                CU_ASSERT_EQUAL(weir_series_run(series), 0);
                for (unsigned i = 0; i < TASKS; i++) {
                        WEIR_TEST_CALLED(&records[i], 0);
                }
        }
        weir_test_end();
}

/* -- free functions of the last task -- */

struct last {
        weir_series *series;
        struct weir_test_record pushed;
};

static void
push_when_freed(void *context)
{
        struct last *last = context;

        CU_ASSERT_EQUAL(weir_series_push(last->series, weir_test_empty(&last->pushed)), 0);
}

static void
leave_a_result(weir_task *task, void *context)
{
        weir_node_set_result(weir_graph_node_of(task), context, push_when_freed);
}

static void
run_last(struct last *last, weir_task *task)
{
        last->series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(last->series, task);
        CU_ASSERT_EQUAL(weir_series_run(last->series), 0);
        WEIR_TEST_CALLED(&last->pushed, 0);
        weir_series_unref(last->series);
}

static void
a_message_or_result_that_the_last_task_leaves_may_push_when_it_is_freed(void)
{
        struct last of_channel = {0}, of_graph = {0};
        weir_channel *channel = weir_channel_new(1, push_when_freed);
        weir_task *graph;

        weir_test_begin_virtual();
        weir_channel_post(channel, &of_channel);
        run_last(&of_channel, weir_channel_receive_new(channel, NULL, NULL));
        graph = weir_graph_new(NULL, NULL);
        weir_graph_add(graph, weir_empty_new(leave_a_result, &of_graph), NULL);
        run_last(&of_graph, graph);
        weir_channel_unref(channel);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(tasks_run_one_after_another_and_the_series_callback_last),
                WEIR_TEST(push_front_comes_before_what_has_not_started),
                WEIR_TEST(tasks_in_front_come_before_all_that_are_taken),
                WEIR_TEST(callback_may_push_at_both_ends),
                WEIR_TEST(a_task_that_a_callback_pushes_comes_behind_those_of_other_threads),
                WEIR_TEST(tasks_pushed_in_front_come_newest_first_before_all_that_wait),
                WEIR_TEST(other_threads_push_while_it_runs_and_all_of_it_runs),
                WEIR_TEST(a_push_of_another_thread_meets_those_of_the_owner_before_the_start),
                WEIR_TEST(push_that_meets_the_end_either_runs_or_is_stale),
                WEIR_TEST(push_after_the_end_is_stale_and_dismisses),
                WEIR_TEST(cancel_before_the_start_drops_all_tasks_and_runs_the_series_callback),
                WEIR_TEST(cancel_while_pending_ends_the_timer_and_drops_the_rest_on_a_worker),
                WEIR_TEST(cancel_ends_a_timer_that_is_pending_whatever_came_before),
                WEIR_TEST(cancel_from_its_own_callback_drops_the_rest_and_leaves_the_callback_alone),
                WEIR_TEST(cancel_after_the_end_changes_nothing),
                WEIR_TEST(cancel_at_any_moment_leaves_each_task_called_or_dropped_and_freed_once),
                WEIR_TEST(cancel_between_the_choice_of_a_task_and_its_start_is_not_lost),
                WEIR_TEST(series_callback_sees_eshutdown_when_the_runtime_ends_and_the_rest_is_dropped),
                WEIR_TEST(empty_series_still_has_its_callback_on_a_worker),
                WEIR_TEST(dismissed_series_frees_its_tasks_and_context_on_the_caller),
                WEIR_TEST(context_is_freed_once_after_the_series_callback_and_before_run_returns),
                WEIR_TEST(all_free_functions_have_run_before_run_returns),
                WEIR_TEST(a_message_or_result_that_the_last_task_leaves_may_push_when_it_is_freed),
        };

        return weir_test_main("series", tests, sizeof tests / sizeof *tests);
}
