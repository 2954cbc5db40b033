/* test/go_test.c: functions on the executor: the place and time of their runs, their ends, and their queues.
 *
 * This file replaces pthread_create, in this program and in the library linked into it, so that it can fail. */
#include "test/fixture.h"

#include <errno.h>

#include "kernel/executor/executor.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"

/* -- pthread_create, which fails on request -- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);

static _Atomic int threads_left = INT32_MAX; /* before it fails */
static void (*_Atomic before_thread)(void);  /* called before one is made */

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
        if (atomic_load(&threads_left) == 0) {
                return EAGAIN;
        }
        atomic_fetch_sub(&threads_left, 1);
        if (before_thread) {
                before_thread();
        }
        return __real_pthread_create(thread, attributes, function, argument);
}

/* ThreadSanitizer, if it is there, calls this.  It does not know the join with a clock that exit() makes. */
const char *__tsan_default_options(void);

const char *
__tsan_default_options(void)
{
        return "report_thread_leaks=0";
}

/* -- functions -- */

/* Notes where it ran, in the order in which it did. */
struct work {
        struct weir_test_record record; /* of its task; first, so that it is the context of both */
        _Atomic unsigned runs;
        pthread_t ran_on;
        unsigned place; /* among those with the same counter */
        _Atomic unsigned *counter;
        int cancelled; /* what weir_go_cancelled said at its end */
        int fails_with;
        struct weir_test_latch begun, may_end; /* if it waits */
        bool waits;
};

static void
work(void *context)
{
        struct work *it = context;

        it->ran_on = pthread_self();
        if (it->counter) {
                it->place = atomic_fetch_add(it->counter, 1);
        }
        if (it->waits) {
                weir_test_latch_count_down(&it->begun);
                weir_test_latch_wait(&it->may_end);
        }
        it->cancelled = weir_go_cancelled();
        if (it->fails_with) {
                weir_go_fail(it->fails_with);
        }
        atomic_fetch_add(&it->runs, 1);
}

static weir_task *
task_of(const char *queue, struct work *it)
{
        return weir_test_recorded(weir_go_new(queue, work, weir_test_done, it));
}

static weir_task *
timed_task_of(weir_nsec limit, struct work *it)
{
        return weir_test_recorded(weir_go_new_timed(NULL, limit, work, weir_test_done, it));
}

static void
make_wait(struct work *it)
{
        it->waits = true;
        weir_test_latch_init(&it->begun, 1);
        weir_test_latch_init(&it->may_end, 1);
}

/* Without a watchdog, which makes threads when the machine stands still. */
static void
begin(int threads)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        config.compute_threads = threads;
        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

/* Has the executor's only thread wait inside a function. */
static void
occupy(struct work *it)
{
        make_wait(it);
        CU_ASSERT_EQUAL_FATAL(weir_task_start(task_of(NULL, it)), 0);
        weir_test_latch_wait(&it->begun);
}

static void
let_go(struct work *it)
{
        weir_test_latch_count_down(&it->may_end);
}

static weir_series *
series_of(weir_task *task)
{
        weir_series *series = weir_series_new(NULL, NULL);

        CU_ASSERT_EQUAL(weir_series_push(series, task), 0);
        return weir_series_ref(series);
}

static struct weir_go_stats
stats_of(const char *queue)
{
        struct weir_go_stats stats = WEIR_GO_STATS_DEFAULT;

        CU_ASSERT_EQUAL(weir_go_queue_stats(queue, &stats), 0);
        return stats;
}

/* -- running -- */

static void
threads_come_with_the_first_function_and_not_before(void)
{
        struct work it = {0};

        begin(3);
        weir_task_run(weir_timer_new(0, NULL, NULL));
        unsigned before = weir_test_threads();
        CU_ASSERT_EQUAL(weir_task_run(task_of(NULL, &it)), 0);
        CU_ASSERT(weir_test_threads_become(before + 3));
        weir_test_end();
        CU_ASSERT(weir_test_threads_become(before - 2));
        WEIR_TEST_CALLED(&it.record, 0);
}

struct look {
        char name[16];
        sigset_t blocked;
        int waits, parks;
};

static void
look_around(void *context)
{
        struct look *look = context;

        pthread_getname_np(pthread_self(), look->name, sizeof look->name);
        pthread_sigmask(SIG_BLOCK, NULL, &look->blocked);
        look->waits = weir_task_run(weir_empty_new(NULL, NULL));
        look->parks = weir_shutdown();
}

static void
its_thread_has_a_name_blocks_signals_and_must_not_wait(void)
{
        struct look look = {0};

        begin(1);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, look_around, NULL, &look)), 0);
        weir_test_end();
        CU_ASSERT_STRING_EQUAL(look.name, "weir/go0");
        CU_ASSERT(sigismember(&look.blocked, SIGINT) && sigismember(&look.blocked, SIGUSR1));
        CU_ASSERT_EQUAL(look.waits, -EDEADLK);
        CU_ASSERT_EQUAL(look.parks, -EDEADLK);
}

static void
the_callback_runs_on_the_thread_of_the_function(void)
{
        struct work it = {0};

        begin(2);
        CU_ASSERT_EQUAL(weir_task_run(task_of(NULL, &it)), 0);
        weir_test_end();
        CU_ASSERT_EQUAL(it.runs, 1);
        CU_ASSERT(pthread_equal(it.ran_on, it.record.on));
        WEIR_TEST_CALLED(&it.record, 0);
}

/* -- its task -- */

static void
fill_and_fail(void *unused)
{
        weir_series *series = weir_series_of(weir_go_task());
        int *sum = weir_series_context(series);

        CU_ASSERT_PTR_NULL(unused);
        *sum += 7;
        CU_ASSERT_EQUAL(weir_series_push(series, weir_empty_new(NULL, NULL)), 0);
        CU_ASSERT_EQUAL(weir_series_fail(series, -ENOSPC), 0);
}

static void
add_to_sum(weir_task *task, void *unused)
{
        (void)unused;
        *(int *)weir_series_context(weir_series_of(task)) *= 10;
}

/* Function and callback need nothing of their own. */
static void
a_function_comes_to_the_context_of_its_series_by_its_task(void)
{
        struct weir_test_record dropped = {0};
        int sum = 1;

        begin(1);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_set_context(series, &sum, NULL);
        weir_series_push(series, weir_go_new(NULL, fill_and_fail, add_to_sum, NULL));
        weir_series_push(series, weir_test_empty(&dropped));
        CU_ASSERT_EQUAL(weir_series_run(series), -ENOSPC);
        CU_ASSERT_EQUAL(sum, 80);
        WEIR_TEST_NOT_CALLED(&dropped);
        weir_test_end();
}

struct seen {
        weir_task *task;
        weir_series *series;
        void *context;
};

static void
see_task(void *context)
{
        struct seen *seen = context;

        seen->task = weir_go_task();
        seen->series = weir_series_of(seen->task);
        seen->context = weir_task_context(seen->task);
}

static void
see_that_it_is_the_same(weir_task *task, void *context)
{
        struct seen *seen = context;

        CU_ASSERT_PTR_EQUAL(seen->task, task);
        CU_ASSERT_PTR_NULL(weir_go_task()); /* a callback has its task already */
}

static void
only_a_function_that_its_series_waits_for_has_a_task(void)
{
        struct seen alone, within, timed = {0};

        timed.task = (weir_task *)&timed;

        begin(1);
        CU_ASSERT_PTR_NULL(weir_go_task());
        weir_waitgroup *group = weir_waitgroup_new();
        weir_task *task = weir_go_new(NULL, see_task, see_that_it_is_the_same, &alone);
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_go_new(NULL, see_task, see_that_it_is_the_same, &within), group), 0);
        CU_ASSERT_EQUAL(weir_task_start_waited(weir_go_new_timed(NULL, WEIR_SEC(3600), see_task, NULL, &timed), group), 0);
        CU_ASSERT_EQUAL(weir_waitgroup_wait(group, WEIR_FOREVER), 0);
        weir_test_end();
        weir_waitgroup_free(group);
        CU_ASSERT_PTR_NULL(alone.series);
        CU_ASSERT_PTR_EQUAL(alone.context, &alone);
        CU_ASSERT_PTR_NOT_NULL(within.series);
        CU_ASSERT_PTR_NULL(timed.task);
}

#define HOPS 2000

struct chain {
        unsigned left, changes;
        pthread_t on;
};

static void
hop(void *context)
{
        struct chain *chain = context;

        chain->changes += !pthread_equal(chain->on, pthread_self());
        chain->on = pthread_self();
}

static void
hopped(weir_task *task, void *context)
{
        struct chain *chain = context;

        chain->changes += !pthread_equal(chain->on, pthread_self());
        if (--chain->left > 0) {
                CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), weir_go_new(NULL, hop, hopped, chain)), 0);
        }
}

static void
a_chain_of_functions_stays_on_its_thread(void)
{
        struct chain chain = {.left = HOPS};
        weir_series *series = weir_series_new(NULL, NULL);

        begin(2);
        weir_task_run(weir_go_new(NULL, hop, NULL, &chain));
        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
        chain.changes = 0;
        weir_series_push(series, weir_go_new(NULL, hop, hopped, &chain));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT_EQUAL(chain.left, 0);
        CU_ASSERT(chain.changes <= 1); /* the first hop */
        weir_test_end();
}

static void
functions_and_timers_of_one_series_come_one_after_another(void)
{
        struct work works[4] = {0};
        _Atomic unsigned counter = 0;
        weir_series *series = weir_series_new(NULL, NULL);

        begin(2);
        for (unsigned i = 0; i < 4; i++) {
                works[i].counter = &counter;
                weir_series_push(series, task_of(i % 2 ? "queue" : NULL, &works[i]));
                weir_series_push(series, weir_timer_new(WEIR_USEC(100), NULL, NULL));
        }
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(works[i].place, i);
                WEIR_TEST_CALLED(&works[i].record, 0);
        }
        weir_test_end();
}

static void
init_again_after_shutdown_gives_new_threads(void)
{
        for (int threads = 3; threads > 0; threads--) {
                struct work it = {0};

                begin(threads);
                CU_ASSERT_EQUAL(weir_task_run(task_of("queue", &it)), 0);
                weir_test_end();
                WEIR_TEST_CALLED(&it.record, 0);
        }
}

static void
nothing(void *context)
{
        (void)context;
}

static void
a_hundred_thousand_functions_in_a_parallel_all_run(void)
{
        const unsigned count = WEIR_TEST_SANITIZED ? 10000 : 100000;
        struct work *works = calloc(count, sizeof *works);
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        begin(0);
        for (unsigned i = 0; i < count; i++) {
                weir_parallel_add(parallel, task_of(i % 7 == 0 ? "some" : NULL, &works[i]));
        }
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        unsigned wrong = 0;
        for (unsigned i = 0; i < count; i++) {
                wrong += works[i].runs != 1 || works[i].record.calls != 1 || works[i].record.frees != 1;
        }
        CU_ASSERT_EQUAL(wrong, 0);
        weir_test_end();
        free(works);
}

/* -- the end -- */

static void
the_callback_sees_the_error_of_its_function(void)
{
        const int given[] = {-EIO, -20000, 5, 0}, seen[] = {-EIO, -20000, -EINVAL, 0};

        begin(1);
        for (unsigned i = 0; i < 4; i++) {
                struct work it = {.fails_with = given[i]};

                CU_ASSERT_EQUAL(weir_task_run(task_of(NULL, &it)), seen[i]);
                WEIR_TEST_CALLED(&it.record, seen[i]);
        }
        weir_go_fail(-EIO);
        CU_ASSERT_EQUAL(weir_go_cancelled(), 0);
        weir_test_end();
}

static void
fail_and_take_it_back(void *context)
{
        (void)context;
        weir_go_fail(-EIO);
        weir_go_fail(0);
}

static void
the_last_call_of_fail_counts(void)
{
        begin(1);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, fail_and_take_it_back, NULL, NULL)), 0);
        weir_test_end();
}

static void
names_that_are_none_and_no_function_are_reported_by_the_start(void)
{
        char *name = malloc(WEIR_NAME_MAX + 2);
        struct work it = {0}, other = {0};

        memset(name, 'n', WEIR_NAME_MAX + 1);
        name[WEIR_NAME_MAX + 1] = '\0';
        begin(1);
        CU_ASSERT_EQUAL(weir_task_start(task_of("", &it)), -EINVAL);
        WEIR_TEST_NOT_CALLED(&it.record);
        CU_ASSERT_EQUAL(weir_task_start(task_of(name, &other)), -ENAMETOOLONG);
        WEIR_TEST_NOT_CALLED(&other.record);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, NULL, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new_timed("", WEIR_SEC(1), nothing, NULL, NULL)), -EINVAL);
        name[WEIR_NAME_MAX] = '\0';
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(name, nothing, NULL, NULL)), 0);
        weir_test_end();
        free(name);
}

static void
a_dismissed_function_never_runs(void)
{
        struct work it = {0}, named = {0}, timed = {0};

        begin(1);
        weir_task_dismiss(task_of(NULL, &it));
        weir_task_dismiss(task_of("queue", &named));
        weir_task_dismiss(timed_task_of(WEIR_SEC(1), &timed));
        weir_test_end();
        WEIR_TEST_NOT_CALLED(&it.record);
        WEIR_TEST_NOT_CALLED(&named.record);
        WEIR_TEST_NOT_CALLED(&timed.record);
        CU_ASSERT_EQUAL(it.runs + named.runs + timed.runs, 0);
}

static void
expect_cancelled_in_the_queue(weir_task *task, struct work *it, const char *queue)
{
        struct work before = {0};

        begin(1);
        occupy(&before);
        weir_series *series = series_of(task);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        CU_ASSERT_EQUAL(stats_of(queue).queued, 1);
        weir_series_cancel(series);
        WEIR_TEST_EVENTUALLY(it->record.frees > 0); /* although the only thread is busy */
        CU_ASSERT_EQUAL(stats_of(queue).queued, 0);
        let_go(&before);
        weir_series_unref(series);
        weir_test_end();
        WEIR_TEST_CALLED(&it->record, -ECANCELED);
        CU_ASSERT_EQUAL(it->runs, 0);
}

static void
a_cancelled_function_that_is_queued_ends_at_once_and_never_runs(void)
{
        struct work it = {0}, named = {0}, timed = {0};

        expect_cancelled_in_the_queue(task_of(NULL, &it), &it, NULL);
        expect_cancelled_in_the_queue(task_of("queue", &named), &named, "queue");
        expect_cancelled_in_the_queue(timed_task_of(WEIR_SEC(1000), &timed), &timed, NULL);
}

static void
a_queued_function_whose_parallel_is_cancelled_never_runs(void)
{
        struct work it = {0}, before = {0};
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        begin(1);
        occupy(&before);
        weir_parallel_add(parallel, task_of(NULL, &it));
        weir_series *series = series_of(parallel);
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(stats_of(NULL).queued == 1);
        weir_series_cancel(series);
        let_go(&before);
        WEIR_TEST_EVENTUALLY(it.record.frees > 0);
        WEIR_TEST_CALLED(&it.record, -ECANCELED);
        CU_ASSERT_EQUAL(it.runs, 0);
        weir_series_unref(series);
        weir_test_end();
}

/* Holds up a worker. */
static void
wait_in_callback(weir_task *task, void *context)
{
        struct work *it = context;

        (void)task;
        weir_test_latch_count_down(&it->begun);
        weir_test_latch_wait(&it->may_end);
}

static void
a_cancel_of_a_parallel_is_decisive_before_its_children_are_told(void)
{
        struct work it = {0}, timed = {0}, before = {0}, at_poller = {0};
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        config.pollers = 1;
        config.compute_threads = 1;
        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        occupy(&before);
        weir_parallel_add(parallel, task_of(NULL, &it));
        weir_parallel_add(parallel, timed_task_of(WEIR_SEC(1000), &timed));
        weir_series *series = series_of(parallel);
        weir_series_start(series);
        WEIR_TEST_EVENTUALLY(stats_of(NULL).queued == 2);
        make_wait(&at_poller);
        weir_task_start(weir_empty_new(wait_in_callback, &at_poller));
        weir_test_latch_wait(&at_poller.begun); /* the only worker, which would tell the children */
        weir_series_cancel(series);
        let_go(&before);
        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
        CU_ASSERT_EQUAL(it.runs + timed.runs, 0);
        let_go(&at_poller);
        weir_series_unref(series);
        weir_test_end();
        WEIR_TEST_CALLED(&it.record, -ECANCELED);
        WEIR_TEST_CALLED(&timed.record, -ECANCELED);
}

static void
expect_cancelled_inside(weir_task *task, struct work *it)
{
        begin(1);
        make_wait(it);
        weir_series *series = series_of(task);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_latch_wait(&it->begun);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(it->record.calls, 0);
        let_go(it);
        WEIR_TEST_EVENTUALLY(it->record.frees > 0);
        CU_ASSERT_EQUAL(it->cancelled, -ECANCELED);
        WEIR_TEST_CALLED(&it->record, -ECANCELED);
        weir_series_unref(series);
        weir_test_end();
}

static void
a_function_that_runs_learns_of_the_cancel_and_is_waited_for(void)
{
        struct work it = {.fails_with = -EIO}, timed = {0};

        expect_cancelled_inside(task_of(NULL, &it), &it);
        expect_cancelled_inside(timed_task_of(WEIR_SEC(1000), &timed), &timed);
}

static void *
shut_down(void *argument)
{
        *(int *)argument = weir_shutdown();
        return NULL;
}

/* Two: the first is inside, and has started the second, which lies in the deque of the same thread. */
static void
start_one_and_wait_for_shutdown(void *context)
{
        struct work *works = context;

        CU_ASSERT_EQUAL(weir_task_start(task_of(NULL, &works[1])), 0);
        weir_test_latch_count_down(&works[0].begun);
        while (!(works[0].cancelled = weir_go_cancelled())) {
                sched_yield();
        }
        weir_test_latch_wait(&works[0].may_end);
}

static void
shutdown_ends_what_is_queued_and_waits_for_what_runs(void)
{
        struct work works[5] = {0}, late = {0};
        pthread_t thread;
        int result = 1;

        begin(1);
        make_wait(&works[0]);
        weir_task *inside = weir_go_new_timed(NULL, WEIR_SEC(1000), start_one_and_wait_for_shutdown, weir_test_done, works);
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(inside)), 0);
        weir_test_latch_wait(&works[0].begun);
        CU_ASSERT_EQUAL(weir_task_start(task_of(NULL, &works[2])), 0);
        CU_ASSERT_EQUAL(weir_task_start(task_of("queue", &works[3])), 0);
        CU_ASSERT_EQUAL(weir_task_start(timed_task_of(WEIR_SEC(1000), &works[4])), 0);
        pthread_create(&thread, NULL, shut_down, &result);
        for (unsigned i = 1; i < 5; i++) {
                WEIR_TEST_EVENTUALLY(works[i].record.frees > 0); /* although the only thread is busy */
                WEIR_TEST_CALLED(&works[i].record, -ESHUTDOWN);
                CU_ASSERT_EQUAL(works[i].runs, 0);
        }
        CU_ASSERT_EQUAL(weir_task_start(task_of(NULL, &late)), -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&late.record);
        let_go(&works[0]);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(result, 0);
        CU_ASSERT_EQUAL(works[0].cancelled, -ESHUTDOWN);
        WEIR_TEST_CALLED(&works[0].record, 0);
}

/* -- limits -- */

/* Lets a function run on after its limit, which comes while it runs.  Tries until the machine is fast enough for that.  Returns
 * its series, which has ended, with a reference, and the length of the limit. */
static weir_series *
outlive(struct work *it, struct weir_test_record *after, weir_nsec *limit)
{
        for (*limit = WEIR_MSEC(5);; *limit *= 2) {
                weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));

                *it = (struct work){0};
                *after = (struct weir_test_record){0};
                make_wait(it);
                weir_series_push(series, timed_task_of(*limit, it));
                weir_series_push(series, weir_test_empty(after));
                CU_ASSERT_EQUAL(weir_series_run(series), 0);
                CU_ASSERT_EQUAL(it->record.calls, 1);
                CU_ASSERT_EQUAL(it->record.status, -ETIMEDOUT);
                CU_ASSERT_EQUAL(after->calls, 1);
                /* It may be just about to begin.  If it never does, it has gone soon. */
                WEIR_TEST_EVENTUALLY(weir_test_latch_count(&it->begun) == 0 || it->record.frees == 1);
                if (weir_test_latch_count(&it->begun) == 0) {
                        return series;
                }
                weir_series_unref(series);
        }
}

static void
a_limit_ends_the_task_and_lets_the_function_run_on(void)
{
        struct work it;
        struct weir_test_record after;
        weir_nsec limit;

        begin(1);
        weir_nsec before = weir_now();
        weir_series_unref(outlive(&it, &after, &limit));
        CU_ASSERT(it.record.at >= before + limit);
        CU_ASSERT_EQUAL(it.record.frees, 0); /* the function has the context still */
        CU_ASSERT_EQUAL(stats_of(NULL).running, 1);
        let_go(&it);
        WEIR_TEST_EVENTUALLY(it.record.frees == 1);
        CU_ASSERT_EQUAL(it.cancelled, -ETIMEDOUT);
        CU_ASSERT_EQUAL(it.record.calls, 1);
        weir_test_end();
}

static void
a_cancel_after_the_limit_changes_nothing_for_the_function(void)
{
        struct work it;
        struct weir_test_record after;
        weir_nsec limit;

        begin(1);
        weir_series *series = outlive(&it, &after, &limit);
        weir_series_cancel(series);
        let_go(&it);
        WEIR_TEST_EVENTUALLY(it.record.frees == 1);
        CU_ASSERT_EQUAL(it.cancelled, -ETIMEDOUT);
        WEIR_TEST_CALLED(&it.record, -ETIMEDOUT);
        weir_series_unref(series);
        weir_test_end();
}

static void
shutdown_waits_for_a_function_that_has_outlived_its_task(void)
{
        struct work it;
        struct weir_test_record after;
        weir_nsec limit;
        pthread_t thread;
        int result = 1;

        begin(1);
        weir_series_unref(outlive(&it, &after, &limit));
        pthread_create(&thread, NULL, shut_down, &result);
        WEIR_TEST_EVENTUALLY(weir__phase_is_stopping());
        weir_test_sleep(WEIR_MSEC(5));
        CU_ASSERT_EQUAL(it.record.frees, 0);
        let_go(&it);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL(result, 0);
        CU_ASSERT_EQUAL(it.runs, 1);
        WEIR_TEST_CALLED(&it.record, -ETIMEDOUT);
}

static void
a_function_whose_limit_comes_while_it_is_queued_never_runs(void)
{
        struct work before = {0}, it = {0}, now = {0}, long_ago = {0};

        begin(1);
        occupy(&before);
        CU_ASSERT_EQUAL(weir_task_run(timed_task_of(WEIR_MSEC(2), &it)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(timed_task_of(0, &now)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(timed_task_of(INT64_MIN, &long_ago)), -ETIMEDOUT);
        WEIR_TEST_CALLED(&it.record, -ETIMEDOUT);
        let_go(&before);
        weir_test_end();
        CU_ASSERT_EQUAL(it.runs + now.runs + long_ago.runs, 0);
}

static void
a_limit_of_0_or_less_is_over_before_the_function_can_begin(void)
{
        static const weir_nsec limits[] = {0, -1, INT64_MIN};
        static struct work works[3000];
        struct work lone = {0};

        begin(2);
        threads_left = 0; /* and needs no thread */
        CU_ASSERT_EQUAL(weir_task_start(timed_task_of(0, &lone)), 0);
        WEIR_TEST_EVENTUALLY(lone.record.frees == 1);
        WEIR_TEST_CALLED(&lone.record, -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new_timed(NULL, 0, nothing, NULL, NULL)), -ETIMEDOUT);
        threads_left = INT32_MAX;
        weir_task_run(weir_go_new(NULL, nothing, NULL, NULL));
        for (unsigned i = 0; i < 3000; i++) { /* the threads have nothing else to do */
                works[i] = (struct work){0};
                weir_task *task = weir_go_new_timed(i % 2 ? "queue" : NULL, limits[i % 3], work, weir_test_done, &works[i]);

                CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(task)), -ETIMEDOUT);
        }
        weir_test_end();
        for (unsigned i = 0; i < 3000; i++) {
                WEIR_TEST_CALLED(&works[i].record, -ETIMEDOUT);
                CU_ASSERT_EQUAL(works[i].runs, 0);
        }
}

static void
a_cancel_before_the_callback_prevails_over_a_limit_of_0(void)
{
        struct work it = {0}, at_poller = {0};
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1;
        config.blocking_limit = WEIR_FOREVER;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        make_wait(&at_poller);
        weir_task_start(weir_empty_new(wait_in_callback, &at_poller));
        weir_test_latch_wait(&at_poller.begun); /* the only worker, which would run its end */
        weir_series *series = series_of(timed_task_of(0, &it));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_series_cancel(series);
        let_go(&at_poller);
        weir_series_unref(series);
        weir_test_end();
        WEIR_TEST_CALLED(&it.record, -ECANCELED);
        CU_ASSERT_EQUAL(it.runs, 0);
}

static size_t
pending_deadlines(void)
{
        size_t count = 0;

        for (unsigned i = 0; i < weir__pollers_count(); i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                weir__lock(&poller->lock);
                count += poller->deadlines.queue.count;
                weir__unlock(&poller->lock);
        }
        return count;
}

static void
count_deadlines(weir_task *task, void *context)
{
        (void)task;
        *(size_t *)context = pending_deadlines();
}

static void
a_function_that_ends_early_frees_its_limit_at_once(void)
{
        size_t count = 1;

        begin(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new_timed(NULL, WEIR_SEC(1000), nothing, count_deadlines, &count)), 0);
        CU_ASSERT_EQUAL(count, 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new_timed("queue", WEIR_FOREVER, nothing, NULL, NULL)), 0);
        weir_test_end();
}

/* -- queues -- */

#define FLOOD 1000

static void
one_function_does_not_wait_for_the_thousand_of_another_queue(void)
{
        static struct work many[FLOOD], of_none[FLOOD];
        struct work before = {0}, one = {0};
        _Atomic unsigned counter = 0;

        begin(1);
        occupy(&before);
        for (unsigned i = 0; i < FLOOD; i++) {
                many[i] = (struct work){.counter = &counter};
                of_none[i] = (struct work){.counter = &counter};
                weir_task_start(task_of("many", &many[i]));
                weir_task_start(task_of(NULL, &of_none[i]));
        }
        one.counter = &counter;
        weir_task_start(task_of("one", &one));
        CU_ASSERT_EQUAL(stats_of(NULL).queued, 2 * FLOOD + 1);
        let_go(&before);
        WEIR_TEST_EVENTUALLY(counter == 2 * FLOOD + 1);
        weir_test_end();
        CU_ASSERT(one.place <= 3);
        for (unsigned i = 0; i < FLOOD; i++) {
                CU_ASSERT_EQUAL(many[i].runs + of_none[i].runs, 2);
        }
        unsigned unordered = 0;
        for (unsigned i = 1; i < FLOOD; i++) {
                unordered += many[i].place < many[i - 1].place;
        }
        CU_ASSERT_EQUAL(unordered, 0);
        CU_ASSERT(many[FLOOD / 2].place < FLOOD + FLOOD / 10); /* half of each, when half of one is over */
        CU_ASSERT(many[FLOOD / 2].place > FLOOD - FLOOD / 10);
}

static void
queues_that_share_the_threads_get_equal_parts(void)
{
        static struct work works[4][FLOOD / 4];
        static const char *const names[4] = {"a", "b", "c", "d"};
        struct work before = {0};
        _Atomic unsigned counter = 0;

        begin(1);
        occupy(&before);
        for (unsigned queue = 0; queue < 4; queue++) {
                for (unsigned i = 0; i < FLOOD / 4; i++) {
                        works[queue][i] = (struct work){.counter = &counter};
                        weir_task_start(task_of(names[queue], &works[queue][i]));
                }
        }
        let_go(&before);
        WEIR_TEST_EVENTUALLY(counter == FLOOD);
        weir_test_end();
        for (unsigned queue = 0; queue < 4; queue++) {
                for (unsigned i = 0; i < FLOOD / 4; i++) {
                        CU_ASSERT_EQUAL(works[queue][i].place, 4 * i + queue);
                }
        }
}

static void
stats_tell_what_is_queued_what_runs_and_for_how_long_the_oldest_waits(void)
{
        struct work before = {0}, first = {0}, second = {0}, third = {0};
        struct weir_go_stats stats = WEIR_GO_STATS_DEFAULT;

        CU_ASSERT_EQUAL(weir_go_queue_stats(NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_go_queue_stats("", &stats), -EINVAL);
        CU_ASSERT_EQUAL(stats_of("nobody").queued, 0);
        begin(1);
        make_wait(&before);
        weir_task_start(task_of("queue", &before));
        weir_test_latch_wait(&before.begun);
        CU_ASSERT_EQUAL(stats_of("queue").running, 1);
        CU_ASSERT_EQUAL(stats_of("queue").waiting, 0);
        weir_task_start(task_of("queue", &first));
        WEIR_TEST_EVENTUALLY(stats_of("queue").waiting >= WEIR_MSEC(10));
        weir_task_start(task_of("queue", &second));
        weir_task_start(task_of(NULL, &third));
        CU_ASSERT_EQUAL(stats_of("queue").queued, 2);
        CU_ASSERT(stats_of("queue").waiting >= WEIR_MSEC(10));
        stats = stats_of(NULL);
        CU_ASSERT(stats.queued == 3 && stats.running == 1 && stats.waiting >= WEIR_MSEC(10));
        let_go(&before);
        WEIR_TEST_EVENTUALLY(stats_of(NULL).queued == 0 && stats_of("queue").running == 0);
        CU_ASSERT_EQUAL(stats_of(NULL).waiting, 0);
        weir_test_end();
}

/* -- deques -- */

static void
start_and_wait_for_two(void *context)
{
        struct work *works = context;

        weir_task_start(task_of(NULL, &works[0]));
        weir_task_start(task_of(NULL, &works[1]));
        weir_test_latch_wait(&works[0].begun); /* which is the other thread's */
        weir_test_latch_count_down(&works[0].may_end);
        weir_test_latch_wait(&works[1].begun);
        weir_test_latch_count_down(&works[1].may_end);
}

static void
a_function_that_another_one_waits_for_is_stolen_by_another_thread(void)
{
        struct work works[2] = {0};

        begin(2);
        make_wait(&works[0]);
        make_wait(&works[1]);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, start_and_wait_for_two, NULL, works)), 0);
        weir_test_end();
        CU_ASSERT(works[0].record.calls == 1 && works[1].record.calls == 1);
}

#define MEETINGS (WEIR_TEST_SANITIZED ? 300 : 3000)
#define WITHIN   WEIR_SEC(10) /* fewer on a slow machine */

struct meeting {
        _Atomic unsigned here, over;
};

static void
meet(void *context)
{
        struct meeting *meeting = context;
        int64_t began = weir_test_now();

        atomic_fetch_add(&meeting->here, 1);
        while (meeting->here < 3) {
                if (weir_test_now() - began > WEIR_TEST_PATIENCE / 3) {
                        weir_test_pause(0, "a meeting of three", __FILE__, __LINE__);
                }
                sched_yield();
        }
        atomic_fetch_add(&meeting->over, 1);
}

static void
as_many_threads_are_woken_as_there_are_functions(void)
{
        begin(3);
        int64_t until = weir_test_now() + WITHIN;
        for (unsigned i = 0; i < MEETINGS && weir_test_now() < until; i++) {
                struct meeting meeting = {0};

                for (unsigned k = 0; k < 3; k++) {
                        weir_task_start(weir_go_new(i % 2 ? "meeting" : NULL, meet, NULL, &meeting));
                }
                while (meeting.over < 3) {
                        sched_yield();
                }
        }
        weir_test_end();
}

static void
note_run(void *context)
{
        atomic_fetch_add((_Atomic unsigned *)context, 1);
}

/* The other thread finds one, and then nothing, again and again: it is about to park at any moment. */
static void
start_one_after_another(void *context)
{
        _Atomic unsigned *runs = context;
        int64_t until = weir_test_now() + WITHIN;

        for (unsigned i = 1; i <= 10 * MEETINGS && weir_test_now() < until; i++) {
                int64_t began = weir_test_now();

                weir_task_start(weir_go_new(NULL, note_run, NULL, context));
                while (*runs < i) {
                        int64_t waited = weir_test_now() - began;

                        if (waited > WEIR_TEST_PATIENCE / 3) {
                                weir_test_pause(0, "a theft", __FILE__, __LINE__);
                        } else if (waited > WEIR_USEC(50)) {
                                sched_yield(); /* the other one may wait for this very CPU */
                        }
                }
        }
}

static void
a_thread_that_is_about_to_park_misses_nothing(void)
{
        _Atomic unsigned runs = 0;

        begin(2);
        CU_ASSERT_EQUAL(weir_task_run(weir_go_new(NULL, start_one_after_another, NULL, &runs)), 0);
        CU_ASSERT(runs > 0);
        weir_test_end();
}

static void
start_many(void *context)
{
        struct work *works = context;

        for (unsigned i = 0; i < FLOOD; i++) {
                weir_task_start(task_of(NULL, &works[i]));
        }
}

static void
functions_that_do_not_fit_into_a_deque_go_to_the_list(void)
{
        static struct work works[FLOOD];
        _Atomic unsigned counter = 0;

        begin(1);
        for (unsigned i = 0; i < FLOOD; i++) {
                works[i] = (struct work){.counter = &counter};
        }
        weir_task_start(weir_go_new(NULL, start_many, NULL, works));
        WEIR_TEST_EVENTUALLY(counter == FLOOD);
        weir_test_end();
        for (unsigned i = 0; i < FLOOD; i++) {
                WEIR_TEST_CALLED(&works[i].record, 0);
        }
}

struct endless {
        _Atomic bool stop;
        _Atomic unsigned hops, hops_when_run;
};

static void
start_itself(void *context)
{
        struct endless *endless = context;

        atomic_fetch_add(&endless->hops, 1);
        if (!endless->stop) {
                weir_task_start(weir_go_new(NULL, start_itself, NULL, endless));
        }
}

static void
note_hops(void *context)
{
        struct endless *endless = context;

        endless->hops_when_run = endless->hops;
        endless->stop = true;
}

static void
start_one_below(void *context)
{
        weir_task_start(weir_go_new(NULL, note_hops, NULL, context));
        weir_task_start(weir_go_new(NULL, start_itself, NULL, context));
}

static void
functions_that_start_each_other_for_ever_starve_no_other(void)
{
        struct endless endless = {0}, other = {0};

        begin(1);
        weir_task_start(weir_go_new(NULL, start_one_below, NULL, &endless));
        WEIR_TEST_EVENTUALLY(endless.stop);
        CU_ASSERT(endless.hops_when_run <= 2 * 61 + 2);
        weir_task_start(weir_go_new(NULL, start_itself, NULL, &other));
        WEIR_TEST_EVENTUALLY(other.hops > 1000);
        weir_task_start(weir_go_new(NULL, note_hops, NULL, &other));
        WEIR_TEST_EVENTUALLY(other.stop);
        weir_test_end();
}

/* -- the cost of a queued function -- */

static void
a_queued_function_takes_at_most_128_bytes(void)
{
        /* So many that a huge page which is used in part counts little: 2 MiB.  While they are started a function waits. */
        const size_t count = WEIR_TEST_SANITIZED ? 1000 : 500000;
        struct work before = {0};

        begin(1);
        occupy(&before);
        size_t bytes = weir_test_resident_bytes();
        for (size_t i = 0; i < count; i++) {
                weir_task_start(weir_go_new("queue", nothing, NULL, NULL));
        }
        bytes = weir_test_resident_bytes() - bytes;
        CU_ASSERT(WEIR_TEST_SANITIZED || bytes <= 128 * count);
        let_go(&before);
        weir_test_end();
}

/* -- threads that cannot be made -- */

static void
without_a_thread_the_start_fails_and_with_one_it_goes_on(void)
{
        struct work none = {0}, in_series = {0}, one = {0};

        begin(2);
        unsigned threads = weir_test_threads();
        threads_left = 0;
        CU_ASSERT_EQUAL(weir_task_start(task_of(NULL, &none)), -EAGAIN);
        WEIR_TEST_NOT_CALLED(&none.record);
        CU_ASSERT_EQUAL(weir_task_run(task_of("queue", &in_series)), -EAGAIN);
        WEIR_TEST_CALLED(&in_series.record, -EAGAIN);
        CU_ASSERT_EQUAL(in_series.runs, 0);
        threads_left = 1;
        CU_ASSERT_EQUAL(weir_task_run(task_of(NULL, &one)), 0);
        WEIR_TEST_CALLED(&one.record, 0);
        CU_ASSERT(weir_test_threads_become(threads + 1));
        threads_left = INT32_MAX;
        WEIR_TEST_EVENTUALLY(weir_task_run(weir_go_new(NULL, nothing, NULL, NULL)) == 0 && weir_test_threads() == threads + 2);
        weir_test_end();
}

/* -- blocking -- */

struct blocker {
        struct weir_test_latch blocked, may_end;
        int status;
        struct work inner; /* which it starts, on its own deque */
};

static void
block(void *context)
{
        struct blocker *blocker = context;

        weir_task_start(task_of(NULL, &blocker->inner));
        blocker->status = weir_blocking_begin();
        weir_test_latch_count_down(&blocker->blocked);
        weir_test_latch_wait(&blocker->may_end);
        weir_blocking_end();
}

static void
begin_blocker(struct blocker *blocker)
{
        weir_test_latch_init(&blocker->blocked, 1);
        weir_test_latch_init(&blocker->may_end, 1);
        CU_ASSERT_EQUAL(weir_task_start(weir_go_new(NULL, block, NULL, blocker)), 0);
        weir_test_latch_wait(&blocker->blocked);
}

static void
while_functions_block_others_run_in_their_place(void)
{
        static struct blocker blockers[8];
        struct work it = {0}, first = {0}, second = {0};

        begin(1);
        for (unsigned i = 0; i < 8; i++) {
                blockers[i] = (struct blocker){0};
                begin_blocker(&blockers[i]);
                CU_ASSERT_EQUAL(blockers[i].status, 0);
                WEIR_TEST_EVENTUALLY(blockers[i].inner.record.frees == 1);
        }
        CU_ASSERT_EQUAL(weir_task_run(task_of("queue", &it)), 0);
        unsigned threads = weir_test_threads();
        for (unsigned i = 0; i < 8; i++) {
                weir_test_latch_count_down(&blockers[i].may_end);
        }
        WEIR_TEST_EVENTUALLY(!weir__executor_is_busy());
        occupy(&first); /* the only one that may run, now that none blocks */
        make_wait(&second);
        weir_task_start(task_of(NULL, &second));
        weir_test_sleep(WEIR_MSEC(5));
        CU_ASSERT_EQUAL(weir_test_latch_count(&second.begun), 1);
        let_go(&first);
        weir_test_latch_wait(&second.begun);
        let_go(&second);
        CU_ASSERT_EQUAL(weir_test_threads(), threads);
        weir_test_end();
}

struct flood {
        _Atomic int inside, most;
        _Atomic unsigned over;
};

static void
count_those_inside(void *context)
{
        struct flood *flood = context;
        int inside = atomic_fetch_add(&flood->inside, 1) + 1, most = flood->most;

        while (inside > most && !atomic_compare_exchange_weak(&flood->most, &most, inside)) {
                continue;
        }
        sched_yield();
        atomic_fetch_sub(&flood->inside, 1);
        atomic_fetch_add(&flood->over, 1);
}

static void
no_more_run_at_once_when_those_that_blocked_are_back(void)
{
        static struct blocker blockers[8];
        struct work before = {0};
        struct flood flood = {0};

        begin(1);
        for (unsigned i = 0; i < 8; i++) {
                blockers[i] = (struct blocker){0};
                begin_blocker(&blockers[i]);
        }
        occupy(&before);
        for (unsigned i = 0; i < FLOOD; i++) {
                weir_task_start(weir_go_new(i % 2 ? "many" : NULL, count_those_inside, NULL, &flood));
        }
        for (unsigned i = 0; i < 8; i++) {
                weir_test_latch_count_down(&blockers[i].may_end);
        }
        let_go(&before);
        WEIR_TEST_EVENTUALLY(flood.over == FLOOD);
        CU_ASSERT_EQUAL(flood.most, 1);
        weir_test_end();
}

static void
a_function_that_cannot_be_replaced_gets_eagain(void)
{
        static struct blocker blocker;

        blocker = (struct blocker){0};
        begin(1);
        weir_task_run(weir_go_new(NULL, nothing, NULL, NULL));
        threads_left = 0;
        begin_blocker(&blocker);
        CU_ASSERT_EQUAL(blocker.status, -EAGAIN);
        threads_left = INT32_MAX;
        weir_test_latch_count_down(&blocker.may_end);
        WEIR_TEST_EVENTUALLY(blocker.inner.record.frees == 1);
        weir_test_end();
}

/* -- the virtual clock -- */

static void
take_real_time(void *context)
{
        weir_test_sleep(WEIR_MSEC(10));
        *(weir_nsec *)context = weir_now();
}

static void
virtual_time_stands_while_a_function_is_queued_or_runs(void)
{
        weir_nsec ended_at[5] = {0};
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        config.compute_threads = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        for (unsigned i = 0; i < 4; i++) {
                weir_parallel_add(parallel, weir_go_new(i % 2 ? "queue" : NULL, take_real_time, NULL, &ended_at[i]));
        }
        weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(3600), NULL, NULL));
        weir_nsec before = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(weir_now() - before, WEIR_SEC(3600));
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(ended_at[i], before);
        }
        before = weir_now();
        CU_ASSERT_EQUAL(weir_task_start(weir_go_new(NULL, take_real_time, NULL, &ended_at[4])), 0);
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_EQUAL(ended_at[4], before);
        weir_test_end();
}

/* Has the worker look whether time may go on, just now. */
static void
wake_worker(void)
{
        struct weir_test_record record = {0};

        CU_ASSERT_EQUAL(weir_task_start(weir_test_timer(0, &record)), 0);
        WEIR_TEST_EVENTUALLY(record.frees == 1);
        weir_test_sleep(WEIR_MSEC(5));
}

static void
begin_and_look_at_the_clock(void *context)
{
        before_thread = wake_worker;
        CU_ASSERT_EQUAL(weir_blocking_begin(), 0);
        before_thread = NULL;
        wake_worker();
        weir_blocking_end();
        *(weir_nsec *)context = weir_now();
}

static void
virtual_time_stands_while_a_function_begins_to_block(void)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        weir_nsec ended_at = 0;

        config.clock = WEIR_CLOCK_VIRTUAL;
        config.compute_threads = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        weir_parallel_add(parallel, weir_go_new(NULL, begin_and_look_at_the_clock, NULL, &ended_at));
        weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(3600), NULL, NULL));
        weir_nsec before = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        CU_ASSERT_EQUAL(ended_at, before);
        CU_ASSERT_EQUAL(weir_now() - before, WEIR_SEC(3600));
        weir_test_end();
}

/* -- forks -- */

#define EXPECT(condition)                                                                             \
        do {                                                                                          \
                if (!(condition)) {                                                                   \
                        fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
                        _exit(99);                                                                    \
                }                                                                                     \
        } while (0)

static void
use_in_child(void)
{
        struct weir_go_stats stats = WEIR_GO_STATS_DEFAULT;

        EXPECT(weir_task_start(weir_go_new(NULL, nothing, NULL, NULL)) == -ECHILD);
        EXPECT(weir_task_run(weir_go_new("queue", nothing, NULL, NULL)) == -ECHILD);
        EXPECT(weir_task_start(weir_go_new_timed("other", 1, nothing, NULL, NULL)) == -ECHILD);
        EXPECT(weir_go_queue_stats("queue", &stats) == -ECHILD);
        EXPECT(weir_go_cancelled() == -ECHILD);
        weir_go_fail(-EIO);
}

static void
expect_quiet(void (*function)(void))
{
        char said[1024];
        int status = weir_test_child(function, said, sizeof said);

        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CU_ASSERT_STRING_EQUAL(said, "");
}

static void
a_child_of_fork_is_refused(void)
{
        begin(1);
        weir_task *kept = weir_go_new("queue", nothing, NULL, NULL);
        weir_task_run(weir_go_new("queue", nothing, NULL, NULL));
        expect_quiet(use_in_child);
        weir_task_dismiss(kept);
        weir_test_end();
}

static void
use_anew_in_child(void)
{
        begin(2);
        EXPECT(weir_task_run(weir_go_new("queue", nothing, NULL, NULL)) == 0);
        EXPECT(weir_task_run(weir_go_new(NULL, nothing, NULL, NULL)) == 0);
        EXPECT(weir_shutdown() == 0);
}

static void
a_child_forked_after_a_shutdown_has_an_executor_of_its_own(void)
{
        begin(1);
        weir_task_run(weir_go_new("queue", nothing, NULL, NULL));
        weir_test_end();
        expect_quiet(use_anew_in_child);
}

static void
exit_inside(void *context)
{
        (void)context;
        exit(7);
}

static void
exit_in_a_function(void)
{
        weir_test_leaks_do_not_count = 1;
        begin(2);
        EXPECT(weir_task_start(weir_go_new(NULL, exit_inside, NULL, NULL)) == 0);
        for (;;) {
                pause();
        }
}

static void
wait_for_ever(void *context)
{
        weir_test_latch_count_down(context);
        for (;;) {
                pause();
        }
}

static void
exit_while_a_function_runs(void)
{
        weir_test_leaks_do_not_count = 1;
        struct weir_test_latch begun = WEIR_TEST_LATCH(1);
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.compute_threads = 1;
        config.exit_wait = WEIR_MSEC(20);
        EXPECT(weir_init(&config) == 0);
        EXPECT(weir_task_start(weir_go_new(NULL, wait_for_ever, NULL, &begun)) == 0);
        EXPECT(weir_task_start(weir_go_new(NULL, nothing, NULL, NULL)) == 0);
        weir_test_latch_wait(&begun);
        exit(8);
}

static void
exit_works_inside_a_function_and_waits_for_none_too_long(void)
{
        char said[1024];
        int status = weir_test_child(exit_in_a_function, said, sizeof said);

        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        CU_ASSERT_STRING_EQUAL(said, "");
        status = weir_test_child(exit_while_a_function_runs, said, sizeof said);
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 8);
        CU_ASSERT_STRING_EQUAL(said, "");
}

static void
fork_and_return(void *context)
{
        int status = 0;
        pid_t child = fork();

        (void)context;
        if (child == 0) {
                return;
        }
        waitpid(child, &status, 0);
        kill(getpid(), WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL);
}

static void
return_in_a_child(void)
{
        begin(1);
        weir_task_run(weir_go_new(NULL, fork_and_return, NULL, NULL));
}

static void
a_child_of_fork_must_not_return_from_the_function(void)
{
        weir_test_aborts(return_in_a_child, "a child of fork() returned from a callback");
}

static const struct weir_test tests[] = {
        WEIR_TEST(threads_come_with_the_first_function_and_not_before),
        WEIR_TEST(its_thread_has_a_name_blocks_signals_and_must_not_wait),
        WEIR_TEST(the_callback_runs_on_the_thread_of_the_function),
        WEIR_TEST(a_function_comes_to_the_context_of_its_series_by_its_task),
        WEIR_TEST(only_a_function_that_its_series_waits_for_has_a_task),
        WEIR_TEST(a_chain_of_functions_stays_on_its_thread),
        WEIR_TEST(functions_and_timers_of_one_series_come_one_after_another),
        WEIR_TEST(init_again_after_shutdown_gives_new_threads),
        WEIR_TEST(a_hundred_thousand_functions_in_a_parallel_all_run),
        WEIR_TEST(the_callback_sees_the_error_of_its_function),
        WEIR_TEST(the_last_call_of_fail_counts),
        WEIR_TEST(names_that_are_none_and_no_function_are_reported_by_the_start),
        WEIR_TEST(a_dismissed_function_never_runs),
        WEIR_TEST(a_cancelled_function_that_is_queued_ends_at_once_and_never_runs),
        WEIR_TEST(a_queued_function_whose_parallel_is_cancelled_never_runs),
        WEIR_TEST(a_cancel_of_a_parallel_is_decisive_before_its_children_are_told),
        WEIR_TEST(a_function_that_runs_learns_of_the_cancel_and_is_waited_for),
        WEIR_TEST(shutdown_ends_what_is_queued_and_waits_for_what_runs),
        WEIR_TEST(a_limit_ends_the_task_and_lets_the_function_run_on),
        WEIR_TEST(a_cancel_after_the_limit_changes_nothing_for_the_function),
        WEIR_TEST(shutdown_waits_for_a_function_that_has_outlived_its_task),
        WEIR_TEST(a_function_whose_limit_comes_while_it_is_queued_never_runs),
        WEIR_TEST(a_limit_of_0_or_less_is_over_before_the_function_can_begin),
        WEIR_TEST(a_cancel_before_the_callback_prevails_over_a_limit_of_0),
        WEIR_TEST(a_function_that_ends_early_frees_its_limit_at_once),
        WEIR_TEST(one_function_does_not_wait_for_the_thousand_of_another_queue),
        WEIR_TEST(queues_that_share_the_threads_get_equal_parts),
        WEIR_TEST(stats_tell_what_is_queued_what_runs_and_for_how_long_the_oldest_waits),
        WEIR_TEST(a_function_that_another_one_waits_for_is_stolen_by_another_thread),
        WEIR_TEST(as_many_threads_are_woken_as_there_are_functions),
        WEIR_TEST(a_thread_that_is_about_to_park_misses_nothing),
        WEIR_TEST(functions_that_do_not_fit_into_a_deque_go_to_the_list),
        WEIR_TEST(functions_that_start_each_other_for_ever_starve_no_other),
        WEIR_TEST(a_queued_function_takes_at_most_128_bytes),
        WEIR_TEST(without_a_thread_the_start_fails_and_with_one_it_goes_on),
        WEIR_TEST(while_functions_block_others_run_in_their_place),
        WEIR_TEST(no_more_run_at_once_when_those_that_blocked_are_back),
        WEIR_TEST(a_function_that_cannot_be_replaced_gets_eagain),
        WEIR_TEST(virtual_time_stands_while_a_function_is_queued_or_runs),
        WEIR_TEST(virtual_time_stands_while_a_function_begins_to_block),
        WEIR_TEST(a_child_of_fork_is_refused),
        WEIR_TEST(a_child_forked_after_a_shutdown_has_an_executor_of_its_own),
        WEIR_TEST(a_child_of_fork_must_not_return_from_the_function),
        WEIR_TEST(exit_works_inside_a_function_and_waits_for_none_too_long),
};

int
main(void)
{
        return weir_test_main("go", tests, sizeof tests / sizeof *tests);
}
