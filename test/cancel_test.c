/* test/cancel_test.c: flows that are cancelled, most of them by name: which cancel counts, and that nothing is left over. */
#include "test/fixture.h"

#include <errno.h>

#include "factory/task/series.h"
#include "test/blocks_fixture.h"

#define FAR WEIR_SEC(1000)

/* A series under a name, of one timer that is far. */
static weir_series *
named(const char *name, struct weir_test_record *end)
{
        weir_series *series = weir_series_new(weir_test_series_done, end);

        CU_ASSERT_EQUAL(weir_series_set_name(series, name), 0);
        weir_series_push(series, weir_timer_new(FAR, NULL, NULL));
        return series;
}

static void
start_named(const char *name, struct weir_test_record *end)
{
        CU_ASSERT_EQUAL(weir_series_start(named(name, end)), 0);
}

/* Runs the callbacks of all that was ended. */
static void
run_ready(void)
{
        weir_test_pass(1);
}

/* -- names -- */

static void
a_cancel_by_name_takes_the_oldest_first_and_at_most_max(void)
{
        struct weir_test_record ends[6] = {0};

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 6; i++)
                start_named(i == 2 ? "other" : "flow", &ends[i]);
        CU_ASSERT_EQUAL(weir_series_count("flow"), 5);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", 0), 0);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", 2), 2);
        run_ready();
        CU_ASSERT(ends[0].calls == 1 && ends[1].calls == 1 && ends[3].calls == 0);
        CU_ASSERT(ends[0].status == -ECANCELED && ends[1].status == -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_count("flow"), 3);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", WEIR_ALL), 3);
        run_ready();
        for (unsigned i = 0; i < 6; i++)
                CU_ASSERT_EQUAL(ends[i].calls, i != 2);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_series_cancel_named("other", WEIR_ALL), 1);
        weir_test_end();
}

static void
one_that_was_told_to_end_is_not_counted_again_whatever_told_it(void)
{
        struct weir_test_record ends[4] = {0};
        weir_series *series[4];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 4; i++)
                series[i] = weir_series_ref(named("flow", &ends[i]));
        weir_series_cancel(series[0]);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series[1], 0), 0);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", 1), 1); /* the third: max counts what this call cancels */
        CU_ASSERT_EQUAL(weir_series_status(series[2]), -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_status(series[3]), 0);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_series_count("flow"), 4); /* none has ended */
        for (unsigned i = 0; i < 4; i++) {
                CU_ASSERT_EQUAL(weir_series_run(series[i]), i == 1 ? -ETIMEDOUT : -ECANCELED);
                weir_series_unref(series[i]);
        }
        CU_ASSERT_EQUAL(weir_series_count("flow"), 0);
        weir_test_end();
}

static void
a_series_within_one_that_ends_early_is_not_counted(void)
{
        struct weir_test_record end = {0};

        weir_test_begin_virtual();
        weir_series *outer = weir_series_ref(weir_series_new(NULL, NULL)), *inner = named("inner", &end);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add_series(parallel, inner);
        weir_series_push(outer, parallel);
        CU_ASSERT_EQUAL(weir_series_start(outer), 0);
        run_ready();
        CU_ASSERT_EQUAL(weir_series_count("inner"), 1);
        weir_series_set_deadline(outer, 0);
        CU_ASSERT_EQUAL(weir_series_cancel_named("inner", WEIR_ALL), 0);
        run_ready();
        CU_ASSERT(end.calls == 1 && end.status == -ETIMEDOUT);
        weir_series_unref(outer);
        weir_test_end();
}

static void
a_name_is_replaced_or_removed_and_its_order_is_that_of_the_naming(void)
{
        struct weir_test_record ends[3] = {0};
        weir_series *series[3];

        weir_test_begin_virtual();
        for (unsigned i = 0; i < 3; i++)
                series[i] = weir_series_ref(named("a", &ends[i]));
        CU_ASSERT_EQUAL(weir_series_set_name(series[0], "b"), 0);
        CU_ASSERT(weir_series_count("a") == 2 && weir_series_count("b") == 1);
        CU_ASSERT_EQUAL(weir_series_set_name(series[0], "a"), 0); /* the newest now */
        CU_ASSERT_EQUAL(weir_series_set_name(series[1], NULL), 0);
        CU_ASSERT_EQUAL(weir_series_set_name(series[1], NULL), 0);
        CU_ASSERT(weir_series_count("a") == 2 && weir_series_count("b") == 0);
        CU_ASSERT_EQUAL(weir_series_cancel_named("a", 1), 1);
        CU_ASSERT_EQUAL(weir_series_status(series[2]), -ECANCELED);
        CU_ASSERT_EQUAL(weir_series_set_name(series[2], "b"), 0); /* one that was cancelled has not ended */
        CU_ASSERT_EQUAL(weir_series_count("b"), 1);
        for (unsigned i = 0; i < 3; i++) {
                weir_series_dismiss(series[i]);
                CU_ASSERT_EQUAL(weir_series_set_name(series[i], "a"), -ESTALE);
                CU_ASSERT_EQUAL(weir_series_set_name(series[i], NULL), -ESTALE);
                weir_series_unref(series[i]);
        }
        CU_ASSERT(weir_series_count("a") == 0 && weir_series_count("b") == 0);
        weir_test_end();
}

struct finder {
        size_t in_task, in_end, cancelled_in_end;
        int status;
};

static void
look_in_task(weir_task *task, void *context)
{
        (void)task;
        ((struct finder *)context)->in_task = weir_series_count("finder");
}

static void
look_in_end(weir_series *series, void *context)
{
        struct finder *finder = context;

        finder->in_end = weir_series_count("finder");
        finder->cancelled_in_end = weir_series_cancel_named("finder", WEIR_ALL);
        finder->status = weir_series_set_name(series, "finder");
}

static void
a_series_leaves_its_name_with_its_last_task_before_its_callback(void)
{
        struct finder finder = {9, 9, 9, 9};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(look_in_end, &finder);
        CU_ASSERT_EQUAL(weir_series_set_name(series, "finder"), 0);
        weir_series_push(series, weir_empty_new(look_in_task, &finder));
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        CU_ASSERT(finder.in_task == 1 && finder.in_end == 0 && finder.cancelled_in_end == 0 && finder.status == -ESTALE);
        weir_test_end();
}

#define MANY 1000

static struct weir_test_record many_ends[2 * MANY], many_last;
static _Atomic unsigned many_started;
static _Atomic bool many_restarts;

static void
start_another(weir_series *series, void *context)
{
        weir_test_series_done(series, context);
        if (many_restarts && weir_series_status(series) == -ECANCELED)
                start_named("many", &many_last);
}

/* A flow that starts another one of its name when it ends. */
static void
start_the_next(weir_series *series, void *context)
{
        weir_series *next = weir_series_new(start_another, &many_ends[MANY + many_started++]);

        weir_test_series_done(series, context);
        CU_ASSERT_EQUAL(weir_series_set_name(next, "many"), 0);
        weir_series_push(next, weir_timer_new(FAR, NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_start(next), 0);
}

/* None has ended, and each call passes over those that have the order to end.  To look at all of them each time would take
 * minutes. */
static void
many_that_stay_alive_are_cancelled_one_by_one_in_no_time(void)
{
        enum { COUNT = WEIR_TEST_SANITIZED ? 30000 : 150000 };
        weir_series **all = calloc(COUNT, sizeof *all);

        weir_test_begin_virtual();
        for (unsigned i = 0; i < COUNT; i++) {
                all[i] = weir_series_new(NULL, NULL);
                CU_ASSERT_EQUAL_FATAL(weir_series_set_name(all[i], "alive"), 0);
        }
        int64_t began = weir_test_cpu_time();
        for (unsigned i = 0; i < COUNT; i++) {
                CU_ASSERT_EQUAL_FATAL(weir_series_cancel_named("alive", 1), 1);
                CU_ASSERT_EQUAL_FATAL(weir_series_status(all[i]), -ECANCELED); /* the oldest first, as ever */
        }
        CU_ASSERT_EQUAL(weir_series_cancel_named("alive", WEIR_ALL), 0);
        CU_ASSERT(weir_test_cpu_time() - began < WEIR_SEC(5));
        CU_ASSERT_EQUAL(weir_series_count("alive"), COUNT);
        for (unsigned i = 0; i < COUNT; i++)
                weir_series_dismiss(all[i]);
        CU_ASSERT_EQUAL(weir_series_count("alive"), 0);
        weir_test_end();
        free(all);
}

static void
a_cancel_of_many_leaves_those_that_their_callbacks_start(void)
{
        memset(many_ends, 0, sizeof many_ends);
        many_started = 0;
        many_restarts = false;
        weir_test_begin_virtual();
        for (unsigned i = 0; i < MANY; i++) {
                weir_series *series = weir_series_new(start_the_next, &many_ends[i]);

                weir_series_set_name(series, "many");
                weir_series_push(series, weir_timer_new(FAR, NULL, NULL));
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
        }
        CU_ASSERT_EQUAL(weir_series_cancel_named("many", MANY / 2), MANY / 2);
        run_ready();
        CU_ASSERT_EQUAL(many_started, MANY / 2);
        CU_ASSERT_EQUAL(weir_series_cancel_named("many", MANY / 2), MANY / 2); /* the oldest: not those that came instead */
        run_ready();
        CU_ASSERT_EQUAL(weir_series_count("many"), MANY);
        for (unsigned i = 0; i < MANY; i++) {
                CU_ASSERT(many_ends[i].calls == 1 && many_ends[i].status == -ECANCELED);
                CU_ASSERT_EQUAL(many_ends[MANY + i].calls, 0);
        }
        many_restarts = true;
        CU_ASSERT_EQUAL(weir_series_cancel_named("many", WEIR_ALL), MANY); /* whose callbacks start others meanwhile */
        run_ready();
        CU_ASSERT_EQUAL(weir_series_count("many"), MANY);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_series_count("many"), 0);
}

static void
cancel_all_by_name(weir_task *task, void *context)
{
        *(size_t *)context = weir_series_cancel_named("flow", WEIR_ALL);
        CU_ASSERT_EQUAL(weir_task_status(task), 0);
}

static void
a_callback_may_cancel_its_own_flow_by_name(void)
{
        struct weir_test_record end = {0}, rest = {0};
        size_t count = 0;

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(weir_test_series_done, &end);
        weir_series_set_name(series, "flow");
        weir_series_push(series, weir_timer_new(WEIR_SEC(1), cancel_all_by_name, &count));
        weir_series_push(series, weir_test_empty(&rest));
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        CU_ASSERT_EQUAL(count, 1);
        WEIR_TEST_NOT_CALLED(&rest);
        weir_test_end();
}

/* -- bad input -- */

static void
bad_names_are_refused(void)
{
        char *longest = malloc(WEIR_NAME_MAX + 2);

        CU_ASSERT_PTR_NOT_NULL_FATAL(longest);
        memset(longest, 'x', WEIR_NAME_MAX + 1);
        longest[WEIR_NAME_MAX + 1] = '\0';
        weir_series *series = weir_series_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_series_set_name(NULL, "a"), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_set_name(series, ""), -EINVAL);
        CU_ASSERT_EQUAL(weir_series_set_name(series, longest), -ENAMETOOLONG);
        CU_ASSERT_EQUAL(weir_series_count(longest), 0);
        CU_ASSERT_EQUAL(weir_series_set_name(series, longest + 1), 0);
        CU_ASSERT_EQUAL(weir_series_count(longest + 1), 1);
        CU_ASSERT_EQUAL(weir_series_cancel_named(longest + 1, WEIR_ALL), 1);
        CU_ASSERT_EQUAL(weir_series_cancel_named(NULL, WEIR_ALL), 0);
        CU_ASSERT_EQUAL(weir_series_cancel_named("", WEIR_ALL), 0);
        CU_ASSERT(weir_series_count(NULL) == 0 && weir_series_count("") == 0 && weir_series_count("nobody") == 0);
        weir_series_dismiss(series);
        CU_ASSERT_EQUAL(weir_series_count(longest + 1), 0);
        free(longest);
}

static void
without_memory_a_name_is_refused_and_the_old_one_stays(void)
{
        weir_test_begin_virtual();
        int64_t before = bytes_out;
        weir_series *series = weir_series_new(NULL, NULL);
        for (int refused = 0; refused < 2; refused++) {
                allocations_left = refused;
                CU_ASSERT_EQUAL(weir_series_set_name(series, "new"), -ENOMEM);
        }
        allocations_left = -1;
        CU_ASSERT_EQUAL(weir_series_set_name(series, "old"), 0);
        allocations_left = 0;
        CU_ASSERT_EQUAL(weir_series_set_name(series, "new"), -ENOMEM);
        allocations_left = -1;
        CU_ASSERT(weir_series_count("old") == 1 && weir_series_count("new") == 0);
        CU_ASSERT_EQUAL(weir_series_run(series), 0);
        WEIR_TEST_EVENTUALLY(bytes_out == before);
        weir_test_end();
}

static void
in_a_forked_child(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        _exit(weir_series_set_name(series, "a") == -ECHILD && weir_series_set_name(series, NULL) == -ECHILD &&
                              weir_series_cancel_named("flow", WEIR_ALL) == 0 && weir_series_count("flow") == 0
                      ? 7
                      : 1);
}

static void
a_forked_child_finds_nobody(void)
{
        struct weir_test_record end = {0};
        char said[256];

        weir_test_begin_real(1);
        start_named("flow", &end);
        CU_ASSERT_EQUAL(WEXITSTATUS(weir_test_child(in_a_forked_child, said, sizeof said)), 7);
        CU_ASSERT_EQUAL(weir_series_cancel_named("flow", WEIR_ALL), 1);
        weir_test_end();
}

/* -- causes -- */

static void
each_cause_can_be_told_from_the_others(void)
{
        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_push(series, NULL), -ENOMEM);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_POISONED);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_CANCELLED);
        weir_series_dismiss(series);
        weir_series_unref(series);

        series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_NONE);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_series_cause(series), WEIR_CAUSE_SHUT_DOWN);
        weir_series_unref(series);
}

/* -- a large flow -- */

#define FLOW 1000

static struct {
        _Atomic unsigned timers, functions, begun, saw_cancel, frees;
} flow;

static void
flow_timer(weir_task *task, void *context)
{
        (void)context;
        flow.timers += weir_task_status(task) == -ECANCELED;
}

static void
flow_function_done(weir_task *task, void *context)
{
        (void)context;
        flow.functions += weir_task_status(task) == -ECANCELED;
}

static void
flow_function(void *context)
{
        (void)context;
        flow.begun++;
        while (!weir_go_cancelled())
                sched_yield();
        flow.saw_cancel += weir_go_cancelled() == -ECANCELED;
        weir_go_fail(weir_go_cancelled());
}

static void
flow_freed(void *context)
{
        (void)context;
        flow.frees++;
}

static void
flow_ended(weir_series *series, void *context)
{
        CU_ASSERT_EQUAL(weir_series_status(series), -ECANCELED);
        CU_ASSERT_EQUAL(flow.frees, FLOW + FLOW / 10);
        weir_test_latch_count_down(context);
}

static weir_task *
flow_task(weir_task *task)
{
        weir_task_on_free(task, flow_freed);
        return task;
}

static void
a_flow_of_1000_timers_and_functions_ends_at_once_and_leaves_no_byte(void)
{
        for (unsigned round = 0; round < 3; round++) {
                struct weir_test_latch ended = WEIR_TEST_LATCH(1);

                weir_test_begin_real(2);
                flow.timers = flow.functions = flow.begun = flow.saw_cancel = flow.frees = 0;
                int64_t before = bytes_out;
                weir_series *series = weir_series_new(flow_ended, &ended);
                weir_task *parallel = weir_parallel_new(NULL, NULL);
                weir_series_set_name(series, "flow");
                weir_series_set_deadline(series, FAR);
                for (unsigned i = 0; i < FLOW / 10; i++)
                        weir_parallel_add(parallel, flow_task(weir_go_new(NULL, flow_function, flow_function_done, NULL)));
                for (unsigned i = 0; i < FLOW; i++)
                        weir_parallel_add(parallel, flow_task(weir_timer_new(FAR, flow_timer, NULL)));
                weir_series_push(series, parallel);
                CU_ASSERT_EQUAL(weir_series_start(series), 0);
                WEIR_TEST_EVENTUALLY(flow.begun > 0);
                CU_ASSERT_EQUAL(weir_series_cancel_named("flow", WEIR_ALL), 1);
                weir_test_latch_wait(&ended);
                WEIR_TEST_EVENTUALLY(bytes_out == before);
                /* A task that had not started before the cancel was dropped: its callback did not run. */
                CU_ASSERT(flow.timers <= FLOW && flow.functions <= FLOW / 10 && flow.saw_cancel >= 1);
                weir_test_end();
        }
}

static void
sees_the_cancel(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_task_status(task), -ECANCELED);
}

/* The walk that ends the children goes on in batches, but no callback begins that does not see the cause. */
static void
a_cancel_is_decisive_for_children_that_the_walk_has_not_come_to(void)
{
        weir_test_begin_virtual();
        weir_series *series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < FLOW; i++)
                weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(1), sees_the_cancel, NULL));
        weir_series_push(series, parallel);
        weir_series_set_name(series, "flow");
        size_t count = 0;
        weir_task_start(weir_timer_new(WEIR_SEC(1), cancel_all_by_name, &count));
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        CU_ASSERT_EQUAL(count, 1);
        weir_series_unref(series);
        weir_test_end();
}

/* -- a storm -- */

#define THREADS 4
#define FLOWS   (WEIR_TEST_SANITIZED ? 2000 : 30000) /* of each thread */
#define NAMES   5

static struct {
        _Atomic size_t counted;                 /* by cancels */
        _Atomic unsigned ended, cancelled, odd; /* series of their own */
        _Atomic unsigned tasks, freed;          /* within all */
} storm;

static void
storm_ended(weir_series *series, void *context)
{
        int status = weir_series_status(series);

        (void)context;
        storm.ended++;
        storm.cancelled += status == -ECANCELED;
        storm.odd += status && status != -ECANCELED && status != -ETIMEDOUT && status != -ESHUTDOWN;
}

static void
storm_freed(void *context)
{
        (void)context;
        storm.freed++;
}

static const char *
storm_name(struct weir_test_random *random)
{
        static const char *const names[NAMES] = {"one", "two", "three", "four", "five"};

        return names[weir_test_random_below(random, NAMES)];
}

static weir_task *
storm_task(struct weir_test_random *random)
{
        uint64_t kind = weir_test_random_below(random, 3);
        weir_task *task = kind == 0 ? weir_empty_new(NULL, NULL)
                                    : weir_timer_new((weir_nsec)weir_test_random_below(random, 100000), NULL, NULL);

        storm.tasks++;
        weir_task_on_free(task, storm_freed);
        return task;
}

static weir_series *
storm_flow(struct weir_test_random *random)
{
        weir_series *series = weir_series_new(storm_ended, NULL);

        if (weir_test_random_below(random, 4))
                weir_series_set_name(series, storm_name(random));
        for (uint64_t i = weir_test_random_below(random, 3); i > 0; i--)
                weir_series_push(series, storm_task(random)); /* by name others find it by now */
        if (weir_test_random_below(random, 3) == 0) {
                weir_task *parallel = weir_parallel_new(NULL, NULL);
                weir_series *child = weir_series_new(NULL, NULL);

                storm.tasks++;
                weir_task_on_free(parallel, storm_freed);
                weir_series_push(child, storm_task(random));
                weir_parallel_add_series(parallel, child);
                weir_parallel_add(parallel, storm_task(random));
                weir_series_push(series, parallel);
        }
        return series;
}

static void
storm_act(struct weir_test_random *random, weir_series *series)
{
        switch (weir_test_random_below(random, 8)) {
        case 0: weir_series_set_name(series, storm_name(random)); break;
        case 1: weir_series_set_name(series, NULL); break;
        case 2: weir_series_set_deadline(series, (weir_nsec)weir_test_random_below(random, 100000)); break;
        case 3: storm.counted += weir__series_end_early(series, -ECANCELED); break; /* weir_series_cancel, which says whether */
        case 4: storm.counted += weir_series_cancel_named(storm_name(random), 1 + weir_test_random_below(random, 3)); break;
        case 5: storm.counted += weir_series_cancel_named(storm_name(random), WEIR_ALL); break;
        case 6: storm.odd += weir_series_count(storm_name(random)) > THREADS * FLOWS; break;
        default: weir_series_push(series, storm_task(random)); break;
        }
}

static void *
storm_run(void *argument)
{
        struct weir_test_random random = {weir_test_seed() + (uintptr_t)argument};

        for (unsigned i = 0; i < FLOWS; i++) {
                weir_series *series = weir_series_ref(storm_flow(&random));
                int failed = weir_series_start(series);

                for (uint64_t acts = weir_test_random_below(&random, 5); acts > 0; acts--)
                        storm_act(&random, series);
                weir_series_unref(series);
                if (failed)
                        break;
        }
        return NULL;
}

static void
run_storm(uintptr_t seed, int64_t until_shutdown)
{
        pthread_t threads[THREADS];
        int64_t before;

        weir_test_free_kept();
        before = bytes_out;
        storm.counted = 0;
        storm.ended = storm.cancelled = storm.odd = storm.tasks = storm.freed = 0;
        weir_test_begin_real(3);
        for (uintptr_t i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, storm_run, (void *)(seed + i + 1));
        if (until_shutdown) {
                weir_test_sleep(until_shutdown);
                weir_test_end();
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        if (!until_shutdown)
                weir_test_end();
        CU_ASSERT_EQUAL(storm.odd, 0);
        CU_ASSERT_EQUAL(storm.freed, storm.tasks);
        weir_test_free_kept();
        CU_ASSERT_EQUAL(bytes_out, before);
}

static void
in_a_storm_each_series_that_is_cancelled_is_counted_exactly_once(void)
{
        run_storm(0, 0);
        CU_ASSERT_EQUAL(storm.ended, THREADS * FLOWS);
        CU_ASSERT_EQUAL(storm.counted, storm.cancelled);
        CU_ASSERT(storm.cancelled > 0 && storm.cancelled < storm.ended);
}

static void
shutdown_in_such_a_storm_leaves_nothing(void)
{
        for (unsigned round = 0; round < 10; round++)
                run_storm(round * THREADS, 1 + 2000000 * round);
        CU_ASSERT(weir_series_count("one") == 0 && weir_series_count("five") == 0);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_cancel_by_name_takes_the_oldest_first_and_at_most_max),
                WEIR_TEST(one_that_was_told_to_end_is_not_counted_again_whatever_told_it),
                WEIR_TEST(a_series_within_one_that_ends_early_is_not_counted),
                WEIR_TEST(a_name_is_replaced_or_removed_and_its_order_is_that_of_the_naming),
                WEIR_TEST(a_series_leaves_its_name_with_its_last_task_before_its_callback),
                WEIR_TEST(a_cancel_of_many_leaves_those_that_their_callbacks_start),
                WEIR_TEST(many_that_stay_alive_are_cancelled_one_by_one_in_no_time),
                WEIR_TEST(a_callback_may_cancel_its_own_flow_by_name),
                WEIR_TEST(bad_names_are_refused),
                WEIR_TEST(without_memory_a_name_is_refused_and_the_old_one_stays),
                WEIR_TEST(a_forked_child_finds_nobody),
                WEIR_TEST(each_cause_can_be_told_from_the_others),
                WEIR_TEST(a_flow_of_1000_timers_and_functions_ends_at_once_and_leaves_no_byte),
                WEIR_TEST(a_cancel_is_decisive_for_children_that_the_walk_has_not_come_to),
                WEIR_TEST(in_a_storm_each_series_that_is_cancelled_is_counted_exactly_once),
                WEIR_TEST(shutdown_in_such_a_storm_leaves_nothing),
        };

        return weir_test_main("cancel", tests, sizeof tests / sizeof tests[0]);
}
